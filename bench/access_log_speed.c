/* How many lines of an access log are read in a second, on one core and out of memory: access_log_speed FILE... prints the format that
 * was detected and the best of five rounds of each. A file whose name begins with a dollar sign is the nginx log_format of those
 * behind it. HAProxy's times are read as UTC. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "wire/access_log.h"

#define ROUNDS 5
#define ROUND_S 0.3

static char scratch_bytes[CDL_ACCESS_SCRATCH_BYTES];

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

_Noreturn static void fail(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    exit(1);
}

static struct cdl_slice read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path, "cannot be opened");
    size_t size = (size_t)1 << 28, length;
    char *bytes = malloc(size);
    if (bytes == NULL)
        fail(path, "memory is short");
    length = fread(bytes, 1, size, file);
    fclose(file);
    return (struct cdl_slice){bytes, length};
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

struct round {
    size_t lines, read;
    int64_t sum; /* of what was read, lest the compiler think that nobody wants it */
    double seconds;
};

static struct round run(const struct cdl_access_format *format, struct cdl_slice text)
{
    struct round round = {0, 0, 0, 0};
    struct cdl_access_parser parser;
    struct cdl_access_record record;
    struct cdl_access_why why;
    const double begin = cpu_s();
    do {
        struct cdl_slice rest = text, line;
        cdl_access_parser_init(&parser, format);
        while (next_line(&rest, &line)) {
            struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
            round.read += cdl_access_parse(&parser, line, &scratch, &record, &why) == CDL_ACCESS_READ;
            round.sum += record.instant_ns + (int64_t)record.target.length;
            round.lines++;
        }
        round.seconds = cpu_s() - begin;
    } while (round.seconds < ROUND_S);
    return round;
}

static void measure(const char *path, const char *pattern)
{
    const struct cdl_slice text = read_file(path);
    const struct cdl_zone utc = {.count = 0};
    const struct cdl_access_settings settings = {.zone = &utc, .pattern = cdl_slice_of(pattern)};
    struct cdl_slice lines[CDL_ACCESS_SAMPLE_LINES], rest = text;
    struct cdl_access_format format;
    struct cdl_access_detection detection;
    struct caudal_problem problem;
    struct cdl_arena arena;
    struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
    size_t count = 0;
    while (count < CDL_ACCESS_SAMPLE_LINES && next_line(&rest, &lines[count]))
        count++;
    cdl_arena_init(&arena, NULL);
    const int status = pattern[0] != '\0' ? cdl_access_format_make(&settings, &arena, &format, &problem)
                                          : cdl_access_format_detect(&settings, lines, count, &arena, &scratch, &format,
                                                                     &detection, &problem);
    if (status != CAUDAL_OK)
        fail(path, problem.message);
    struct round best = {1, 0, 0, 1e9};
    for (int i = 0; i < ROUNDS; i++) {
        const struct round round = run(&format, text);
        if (round.seconds / (double)round.lines < best.seconds / (double)best.lines)
            best = round;
    }
    printf("%-12s %10.0f lines/s  %6.0f ns a line  %5.1f %% read  %s\n", format.name, (double)best.lines / best.seconds,
           best.seconds / (double)best.lines * 1e9, (double)best.read / (double)best.lines * 100, path);
    cdl_arena_free(&arena);
    free((char *)(uintptr_t)text.bytes);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        fail("usage", "access_log_speed FILE...");
    const char *pattern = "";
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '$')
            pattern = argv[i];
        else
            measure(argv[i], pattern);
    }
    return 0;
}
