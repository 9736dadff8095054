/* Small logs of every format, line by line: what each line is read as, or why not. tests/data/logs/NAME.log is read, NAME.expected
 * is what must come out; the lines of C106 are in odd-nginx.log, haproxy.log and traefik-common.log.
 *
 * A line of the expectations is the line's number, the instant and its resolution, then what was found. To see what is read of a
 * new log: CAUDAL_GOLDEN_PRINT=NAME test_access_log_golden. */
#include <stdio.h>
#include <stdlib.h>

#include "../support.h"
#include "wire/access_log.h"

static char scratch_bytes[CDL_ACCESS_SCRATCH_BYTES];

struct golden {
    const char *name;
    struct cdl_access_settings settings; /* without a name: the format is detected */
    const char *zone;
};

#define TEXT(literal)                                                                                                  \
    {                                                                                                                  \
        literal, sizeof(literal) - 1                                                                                   \
    }

static const struct golden goldens[] = {
    {"combined", {.year = 0}, NULL},
    {"common", {.year = 0}, NULL},
    {"extra", {.year = 0}, NULL},
    {"odd-nginx", {.year = 0}, NULL},
    {"heads", {.year = 0}, NULL},
    {"wrapped", {.year = 0}, NULL},
    {"haproxy", {.captures = TEXT("host|x-forwarded-for|user-agent")}, "Europe/Berlin"},
    {"nginx-json", {.year = 0}, NULL},
    {"caddy", {.year = 0}, NULL},
    {"traefik", {.year = 0}, NULL},
    {"traefik-common", {.year = 0}, NULL},
    {"envoy", {.year = 0}, NULL},
    {"istio", {.year = 0}, NULL},
    {"envoy-json", {.year = 0}, NULL},
    {"csv", {.year = 0}, NULL},
    {"tabs", {.year = 0}, NULL},
    {"pattern",
     {.pattern = TEXT("$msec|$host|$http_x_forwarded_for|$remote_addr|$time_local|$request|$status|$request_time|"
                      "\"$http_user_agent\"")},
     NULL},
    {"syslog", {.pattern = TEXT("$time $remote_addr $method $path $status"), .year = 2023}, "UTC"},
};

/* ---- files ---- */

static struct cdl_slice read_file(const char *name, const char *kind)
{
    static char bytes[2][1 << 16];
    static unsigned next;
    char path[512], *into = bytes[next++ % 2];
    snprintf(path, sizeof path, DATA_DIR "/logs/%s.%s", name, kind);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s cannot be opened", path);
    const size_t length = fread(into, 1, sizeof bytes[0], file);
    fclose(file);
    assert_true(length < sizeof bytes[0]);
    return (struct cdl_slice){into, length};
}

static bool next_line(struct cdl_slice *text, struct cdl_slice *line)
{
    if (text->length == 0)
        return false;
    const char *end = memchr(text->bytes, '\n', text->length);
    *line = cdl_slice_head(*text, end != NULL ? (size_t)(end - text->bytes) : text->length);
    *text = cdl_slice_from(*text, line->length + (end != NULL));
    return true;
}

/* ---- records in words ---- */

static void write_instant(struct cdl_writer *writer, const struct cdl_access_record *record)
{
    const int64_t second_s = record->instant_ns / SECOND;
    int64_t year;
    int32_t month, day;
    cdl_date_of_days(second_s / 86400, &year, &month, &day);
    cdl_writef(writer, "%04d-%02d-%02dT%02d:%02d:%02d", (int)year, month, day, (int)(second_s / 3600 % 24),
               (int)(second_s / 60 % 60), (int)(second_s % 60));
    if (record->resolution_ns < SECOND)
        cdl_writef(writer, record->resolution_ns == MILLISECOND ? ".%03d" : ".%09d",
                   (int)(record->instant_ns % SECOND / (record->resolution_ns == MILLISECOND ? MILLISECOND : 1)));
    cdl_writef(writer, "Z");
}

/* What is no plain character in the log must be visible. */
static void write_value(struct cdl_writer *writer, const char *name, struct cdl_slice value)
{
    if (value.length == 0)
        return;
    cdl_writef(writer, " %s=<", name);
    for (size_t i = 0; i < value.length; i++)
        cdl_writef(writer, (unsigned char)value.bytes[i] < 0x20 ? "\\x%02x" : "%c", (unsigned char)value.bytes[i]);
    cdl_write_text(writer, ">");
}

static void write_record(struct cdl_writer *writer, const struct cdl_access_record *record)
{
    write_instant(writer, record);
    write_value(writer, "client", record->client);
    write_value(writer, "method", record->method);
    write_value(writer, "target", record->target);
    write_value(writer, "host", record->host);
    write_value(writer, "user", record->user);
    if (record->status > 0)
        cdl_writef(writer, " status=%u", record->status);
    if (record->bytes >= 0)
        cdl_writef(writer, " bytes=%lld", (long long)record->bytes);
    if (record->duration_ns >= 0)
        cdl_writef(writer, " took=%lldns", (long long)record->duration_ns);
    for (size_t i = 0; i < record->header_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", CDL_SLICE_ARG(record->headers[i].name));
        write_value(writer, name, record->headers[i].value);
    }
}

static void write_line(struct cdl_writer *writer, struct cdl_access_parser *parser, size_t number,
                       struct cdl_slice line)
{
    struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
    struct cdl_access_record record;
    struct cdl_access_why why;
    cdl_writef(writer, "%zu: ", number);
    switch (cdl_access_parse(parser, line, &scratch, &record, &why)) {
    case CDL_ACCESS_READ:
        write_record(writer, &record);
        break;
    case CDL_ACCESS_HEADING:
        cdl_write_text(writer, "heading");
        break;
    case CDL_ACCESS_SKIPPED:
        cdl_write_text(writer, "skipped: ");
        cdl_access_why_write(writer, &why);
        break;
    }
    cdl_write_text(writer, "\n");
}

/* ---- comparing ---- */

static void make_format(const struct golden *golden, struct cdl_slice text, struct cdl_arena *arena,
                        struct cdl_access_format *format, struct cdl_writer *out)
{
    struct cdl_access_settings settings = golden->settings;
    struct cdl_access_detection detection;
    struct caudal_problem problem = {.message = ""};
    struct cdl_zone *zone = cdl_arena_allocate(arena, 1, sizeof *zone);
    struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
    struct cdl_slice lines[CDL_ACCESS_SAMPLE_LINES];
    const char *why;
    size_t count = 0;
    if (golden->zone != NULL) {
        assert_true(cdl_zone_load(golden->zone, arena, zone, &why));
        settings.zone = zone;
    }
    while (count < CDL_ACCESS_SAMPLE_LINES && next_line(&text, &lines[count]))
        count++;
    const bool is_named = settings.pattern.length > 0;
    const int status = is_named ? cdl_access_format_make(&settings, arena, format, &problem)
                                : cdl_access_format_detect(&settings, lines, count, arena, &scratch, format, &detection,
                                                           &problem);
    if (status != CAUDAL_OK)
        fail_msg("%s: %s", golden->name, problem.message);
    if (is_named)
        cdl_writef(out, "%s\n", format->name);
    else
        cdl_writef(out, "%s: %zu of %zu lines\n", format->name, detection.parsed, detection.lines);
}

static struct cdl_slice read_log(const struct golden *golden)
{
    static char bytes[1 << 17];
    struct cdl_writer out = cdl_writer_on(bytes, sizeof bytes);
    struct cdl_slice text = read_file(golden->name, "log"), line;
    struct cdl_access_format format;
    struct cdl_access_parser parser;
    struct cdl_arena arena;
    cdl_arena_init(&arena, NULL);
    make_format(golden, text, &arena, &format, &out);
    cdl_access_parser_init(&parser, &format);
    for (size_t number = 1; next_line(&text, &line); number++)
        write_line(&out, &parser, number, line);
    cdl_arena_free(&arena);
    assert_false(out.overflow);
    return cdl_written(&out);
}

static void compare(const struct golden *golden)
{
    struct cdl_slice read = read_log(golden), expected = read_file(golden->name, "expected"), a, b;
    for (;;) {
        const bool more = next_line(&read, &a), wanted = next_line(&expected, &b);
        if (more != wanted)
            fail_msg("%s: %s lines than expected", golden->name, more ? "more" : "fewer");
        if (!more)
            return;
        if (!cdl_slice_equal(a, b))
            fail_msg("%s:\nread     %.*s\nexpected %.*s", golden->name, CDL_SLICE_ARG(a), CDL_SLICE_ARG(b));
    }
}

static void every_log_is_read_as_expected(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(goldens); i++)
        compare(&goldens[i]);
}

/* A line means the same with a carriage return at its end. */
static void carriage_returns_change_nothing(void **state)
{
    (void)state;
    static char with[1 << 16];
    for (size_t i = 0; i < COUNT_OF(goldens); i++) {
        struct cdl_slice text = read_file(goldens[i].name, "log"), sample = text, line;
        struct cdl_access_format format;
        struct cdl_access_parser parsers[2];
        struct cdl_arena arena;
        char made[2][8192], unused[64];
        struct cdl_writer nothing = cdl_writer_on(unused, sizeof unused);
        cdl_arena_init(&arena, NULL);
        make_format(&goldens[i], sample, &arena, &format, &nothing);
        cdl_access_parser_init(&parsers[0], &format);
        cdl_access_parser_init(&parsers[1], &format);
        while (next_line(&text, &line)) {
            const bool has = line.length > 0 && line.bytes[line.length - 1] == '\r';
            struct cdl_writer out[2] = {cdl_writer_on(made[0], sizeof made[0]), cdl_writer_on(made[1], sizeof made[1])};
            memcpy(with, line.bytes, line.length);
            with[line.length] = '\r';
            write_line(&out[0], &parsers[0], 1, line);
            write_line(&out[1], &parsers[1], 1, (struct cdl_slice){with, has ? line.length - 1 : line.length + 1});
            assert_true(cdl_slice_equal(cdl_written(&out[0]), cdl_written(&out[1])));
        }
        cdl_arena_free(&arena);
    }
}

static int print(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(goldens); i++)
        if (strcmp(goldens[i].name, name) == 0) {
            const struct cdl_slice read = read_log(&goldens[i]);
            return fwrite(read.bytes, 1, read.length, stdout) == read.length ? 0 : 1;
        }
    return 1;
}

int main(void)
{
    const char *name = getenv("CAUDAL_GOLDEN_PRINT");
    if (name != NULL)
        return print(name);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_log_is_read_as_expected),
        cmocka_unit_test(carriage_returns_change_nothing),
    };
    return cmocka_run_group_tests_name("wire/access_log_golden", tests, NULL, NULL);
}
