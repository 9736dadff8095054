/* Any bytes as lines of an access log, each at the end of memory of exactly its size.
 *
 * The first byte chooses the format: one of those with names, the one that the lines themselves are taken for, a pattern or a list of
 * fields, which is then the first line. A record that comes out is within bounds in every field and can be read to its last byte;
 * a line that is skipped has a reason that fits one line and a column that is in it. */
#include <stdio.h>
#include <stdlib.h>

#include "wire/access_log_parts.h"

#define LINES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static char scratch_bytes[CDL_ACCESS_SCRATCH_BYTES];

/* Reads every byte, so that one that is not there is noticed. */
static void touch(struct cdl_slice slice)
{
    unsigned sum = 0;
    require(slice.bytes != NULL || slice.length == 0);
    for (size_t i = 0; i < slice.length; i++)
        sum += (unsigned char)slice.bytes[i];
    __asm__ volatile("" : : "r"(sum)); /* nobody wants it, but it must be read */
}

static void check_record(const struct cdl_access_record *record, bool is_subtracted)
{
    const int64_t resolution_ns = record->resolution_ns;
    require(resolution_ns == 1 || resolution_ns == 1000 || resolution_ns == 1000000 || resolution_ns == 1000000000);
    require((record->instant_ns >= 0 || is_subtracted) && record->duration_ns >= -1 && record->bytes >= -1 &&
            record->status <= 999);
    require(record->header_count <= CDL_ACCESS_HEADERS_MAX);
    touch(record->client);
    touch(record->method);
    touch(record->target);
    touch(record->host);
    touch(record->user);
    /* A list has been taken apart. */
    require(record->client.length == 0 || memchr(record->client.bytes, ',', record->client.length) == NULL);
    for (size_t i = 0; i < record->header_count; i++) {
        require(record->headers[i].name.length > 0 && record->headers[i].value.length > 0);
        touch(record->headers[i].name);
        touch(record->headers[i].value);
    }
}

static void check_why(const struct cdl_access_why *why, size_t length)
{
    char words[256];
    struct cdl_writer writer = cdl_writer_on(words, sizeof words);
    require(why->field != NULL && why->detail != NULL && why->column <= length + 1);
    cdl_access_why_write(&writer, why);
    require(writer.length > 0 || writer.overflow);
}

static void check_line(struct cdl_access_parser *parser, struct cdl_slice line)
{
    static struct cdl_access_record record;
    struct cdl_access_why why = {NULL, NULL, 0};
    struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
    char *copy = malloc(line.length + 1);
    require(copy != NULL);
    memcpy(copy + 1, line.bytes, line.length);
    switch (cdl_access_parse(parser, (struct cdl_slice){copy + 1, line.length}, &scratch, &record, &why)) {
    case CDL_ACCESS_READ:
        check_record(&record, parser->format->subtracts_duration);
        break;
    case CDL_ACCESS_HEADING:
        break;
    case CDL_ACCESS_SKIPPED:
        check_why(&why, line.length);
        break;
    }
    free(copy);
}

static size_t split(struct cdl_slice text, struct cdl_slice lines[LINES_MAX])
{
    size_t count = 0;
    while (text.length > 0 && count < LINES_MAX) {
        const char *feed = memchr(text.bytes, '\n', text.length);
        const size_t length = feed != NULL ? (size_t)(feed - text.bytes) : text.length;
        lines[count++] = cdl_slice_head(text, length);
        text = cdl_slice_from(text, length + (feed != NULL));
    }
    return count;
}

/* How the lines are to be read, by the first byte; `used` lines say so themselves. */
static struct cdl_access_settings settings_of(uint8_t choice, const struct cdl_slice *lines, size_t *used)
{
    static const struct cdl_zone utc = {.count = 0};
    size_t names = 0;
    while (cdl_access_format_name(names) != NULL)
        names++;
    struct cdl_access_settings settings = {.zone = &utc, .year = 2024, .at_arrival = (choice & 0x80) != 0};
    choice = (uint8_t)((choice & 0x7f) % (names + 4));
    *used = choice > names;
    if (choice < names)
        settings.name = cdl_slice_of(cdl_access_format_name(choice));
    else if (choice == names + 1)
        settings.pattern = lines[0];
    else if (choice > names) {
        settings.name = choice == names + 2 ? CDL_SLICE("json") : CDL_SLICE("csv");
        settings.fields = lines[0];
    }
    if (cdl_slice_equal(settings.name, CDL_SLICE("haproxy")))
        settings.captures = CDL_SLICE("host|user-agent");
    return settings;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cdl_slice lines[LINES_MAX];
    struct cdl_access_format format;
    struct cdl_access_detection detection;
    struct caudal_problem problem = {.message = ""};
    struct cdl_access_parser parser;
    struct cdl_arena arena;
    size_t used;
    if (size < 2)
        return 0;
    const size_t count = split((struct cdl_slice){(const char *)data + 1, size - 1}, lines);
    const struct cdl_access_settings settings = settings_of(data[0], lines, &used);
    cdl_arena_init(&arena, NULL);
    const bool is_named = settings.name.length > 0 || settings.pattern.length > 0;
    struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
    const int status = is_named ? cdl_access_format_make(&settings, &arena, &format, &problem)
                                : cdl_access_format_detect(&settings, lines, count, &arena, &scratch, &format,
                                                           &detection, &problem);
    require((status == CAUDAL_OK) == (problem.message[0] == '\0') || !is_named);
    if (status == CAUDAL_OK) {
        require(is_named || (detection.parsed > 0 && detection.parsed <= detection.lines));
        cdl_access_parser_init(&parser, &format);
        for (size_t i = used; i < count; i++)
            check_line(&parser, lines[i]);
    } else {
        require(problem.message[0] != '\0');
    }
    cdl_arena_free(&arena);
    return 0;
}
