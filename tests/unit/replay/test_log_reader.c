/* Logs as files: every packing gives the same lines, several files make one stream in order, and whatever is wrong with a file is told
 * and counted. Lines are "MILLISECONDS CLIENT NUMBER" mostly, so that a record can be told from all others. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#include "../support.h"
#include "replay/log_reader.h"

#define PATTERN CDL_SLICE("$msec $remote_addr $request_uri")
#define FILES_MAX 8

static char directory[] = "/tmp/caudal-logs-XXXXXX";
static struct cdl_log_reader *reader;
static struct cdl_access_record record;
static struct cdl_log_origin origin;
static struct caudal_problem problem;
static volatile sig_atomic_t stop;

static const char *path_of(const char *name)
{
    static char paths[FILES_MAX][256];
    static unsigned next;
    char *path = paths[next++ % FILES_MAX];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static const char *write_file(const char *name, const char *bytes, size_t length)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

static int setup(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/caudal-logs-XXXXXX");
    assert_non_null(mkdtemp(directory));
    problem = (struct caudal_problem){.code = CAUDAL_OK};
    reader = NULL;
    stop = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[300];
    cdl_log_reader_close(reader);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* ---- opening and reading ---- */

static struct cdl_log_reader_settings settings_of(const char *const *paths, size_t count)
{
    return (struct cdl_log_reader_settings){
        .paths = paths,
        .path_count = count,
        .access = {.pattern = PATTERN},
        .window_ns = CDL_LOG_WINDOW_DEFAULT_NS,
        .waiting_bytes_max = CDL_LOG_WAITING_DEFAULT_BYTES,
        .stop = &stop,
    };
}

static void open_with(struct cdl_log_reader_settings settings)
{
    cdl_log_reader_close(reader);
    if (cdl_log_reader_open(&settings, &reader, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
}

static void open_paths(const char *const *paths, size_t count)
{
    open_with(settings_of(paths, count));
}

static void open_one(const char *path)
{
    open_paths(&path, 1);
}

static enum cdl_log_result next(void)
{
    return cdl_log_reader_next(reader, &record, &origin, &problem);
}

/* The number that stands in the record's target. */
static unsigned long number(void)
{
    char text[32];
    assert_true(record.target.length < sizeof text);
    memcpy(text, record.target.bytes, record.target.length);
    text[record.target.length] = '\0';
    return strtoul(text, NULL, 10);
}

static const struct cdl_log_stats *stats(void)
{
    return cdl_log_reader_stats(reader);
}

/* Reads all: every line is a record, and they come out in order of time. */
static void read_in_order(size_t count)
{
    int64_t last_ns = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(next(), CDL_LOG_RECORD);
        assert_false(origin.is_late);
        assert_true(record.instant_ns >= last_ns);
        last_ns = record.instant_ns;
    }
    assert_int_equal(next(), CDL_LOG_END);
    assert_int_equal(next(), CDL_LOG_END);
    assert_int_equal(stats()->parsed, count);
    assert_int_equal(stats()->late, 0);
    assert_int_equal(stats()->waiting, 0);
}

/* ---- packing ---- */

static size_t gzip(const char *text, size_t length, char *bytes, size_t room)
{
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)text, .avail_in = (unsigned)length};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_out = (unsigned char *)bytes;
    stream.avail_out = (unsigned)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return room - stream.avail_out;
}

static size_t zstd(const char *text, size_t length, char *bytes, size_t room)
{
    const size_t packed = ZSTD_compress(bytes, room, text, length, 3);
    assert_false(ZSTD_isError(packed));
    return packed;
}

typedef size_t packer(const char *text, size_t length, char *bytes, size_t room);

static size_t plain(const char *text, size_t length, char *bytes, size_t room)
{
    assert_true(length <= room);
    memcpy(bytes, text, length);
    return length;
}

static packer *const packers[] = {plain, gzip, zstd};

/* A log of so many lines, a second apart. */
static size_t make_log(char *text, size_t room, size_t lines)
{
    struct cdl_writer writer = cdl_writer_on(text, room);
    for (size_t i = 0; i < lines; i++)
        cdl_writef(&writer, "%zu.000 203.0.113.%zu %zu\n", 1707898000 + i, i % 250, i);
    assert_false(writer.overflow);
    return writer.length;
}

#define LOG_LINES 20000u
static char log_text[LOG_LINES * 48], packed[LOG_LINES * 48 + 1024];

static void packing_makes_no_difference(void **state)
{
    (void)state;
    const size_t length = make_log(log_text, sizeof log_text, LOG_LINES);
    for (size_t i = 0; i < COUNT_OF(packers); i++) {
        const size_t bytes = packers[i](log_text, length, packed, sizeof packed);
        open_one(write_file("log", packed, bytes));
        for (size_t n = 0; n < LOG_LINES; n++) {
            assert_int_equal(next(), CDL_LOG_RECORD);
            assert_int_equal(number(), n);
            assert_int_equal(origin.line, n + 1);
            assert_int_equal(record.instant_ns, (int64_t)(1707898000 + n) * SECOND);
        }
        assert_int_equal(next(), CDL_LOG_END);
        uint64_t read, total;
        cdl_log_reader_progress(reader, &read, &total);
        assert_int_equal(read, bytes);
        assert_int_equal(total, bytes);
    }
}

/* As cat makes them of several packed files; an empty part, a zstd frame that is to be skipped and a tape's zeros are in between. */
static void parts_follow_one_another(void **state)
{
    (void)state;
    const size_t length = make_log(log_text, sizeof log_text, 100);
    for (size_t i = 1; i < COUNT_OF(packers); i++) {
        size_t bytes = packers[i](log_text, length / 2, packed, sizeof packed);
        bytes += packers[i]("", 0, packed + bytes, sizeof packed - bytes);
        if (packers[i] == zstd) {
            memcpy(packed + bytes, "\x50\x2a\x4d\x18\x02\0\0\0xx", 10);
            bytes += 10;
        }
        bytes += packers[i](log_text + length / 2, length - length / 2, packed + bytes, sizeof packed - bytes);
        if (packers[i] == gzip) {
            memset(packed + bytes, 0, 512);
            bytes += 512;
        }
        open_one(write_file("log", packed, bytes));
        read_in_order(100);
    }
}

static void line_ends_and_a_mark_make_no_difference(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf"
                               "1707898001.000 203.0.113.7 1\r\n1707898002.000 203.0.113.7 2\r\n"
                               "1707898003.000 203.0.113.7 3";
    for (size_t i = 0; i < COUNT_OF(packers); i++) {
        open_one(write_file("log", packed, packers[i](text, sizeof text - 1, packed, sizeof packed)));
        for (unsigned long n = 1; n <= 3; n++) {
            assert_int_equal(next(), CDL_LOG_RECORD);
            assert_int_equal(number(), n);
            assert_int_equal(record.target.length, 1);
        }
        assert_int_equal(next(), CDL_LOG_END);
        assert_int_equal(stats()->skipped, 0);
    }
}

static void empty_files_will_do(void **state)
{
    (void)state;
    const char *paths[] = {write_text("a", ""), write_text("b", "1707898001.000 203.0.113.7 1\n"),
                           write_file("c", packed, gzip("", 0, packed, sizeof packed)), write_text("d", "")};
    struct cdl_log_source_stats source;
    open_paths(paths, COUNT_OF(paths));
    read_in_order(1);
    cdl_log_reader_source(reader, 0, &source);
    assert_string_equal(source.format, "");
    cdl_log_reader_source(reader, 1, &source);
    assert_string_equal(source.path, paths[1]);
    assert_string_equal(source.format, "pattern");
    assert_int_equal(source.parsed, 1);
    open_paths(paths, 1);
    read_in_order(0);
    const struct cdl_log_reader_settings nothing = settings_of(paths, 0);
    struct cdl_log_reader *refused;
    assert_int_equal(cdl_log_reader_open(&nothing, &refused, &problem), CAUDAL_ERR_ARGUMENT);
    assert_null(refused);
    assert_string_equal(problem.message, "no log is named");
}

/* Puts something else in place of standard input. */
static void read_from(int fd, size_t count)
{
    const int input = dup(STDIN_FILENO);
    const char *path = "-";
    assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    close(fd);
    open_one(path);
    read_in_order(count);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
}

static void standard_input_is_read(void **state)
{
    (void)state;
    int ends[2];
    uint64_t read, total;
    const size_t length = make_log(log_text, sizeof log_text, 100),
                 bytes = gzip(log_text, length, packed, sizeof packed);
    /* A pipe holds it all, and is read in the pieces that it comes in. */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], packed, bytes), bytes);
    close(ends[1]);
    read_from(ends[0], 100);
    cdl_log_reader_progress(reader, &read, &total);
    assert_int_equal(read, bytes);
    assert_int_equal(total, 0);
    read_from(open(write_file("log", log_text, length), O_RDONLY), 100);
    cdl_log_reader_progress(reader, &read, &total);
    assert_int_equal(total, length);
}

/* ---- lines that are skipped ---- */

static void long_lines_are_passed_over(void **state)
{
    (void)state;
    static char text[1 << 20];
    static const size_t lengths[] = {65536, 65537, 131071, 131072, 131073, 500000};
    for (size_t i = 0; i < 2 * COUNT_OF(lengths); i++) {
        /* At the end of the file, too, with and without a line feed. */
        struct cdl_writer writer = cdl_writer_on(text, sizeof text);
        const size_t length = lengths[i / 2];
        cdl_write_text(&writer, "1707898001.000 203.0.113.7 1\n1707898002.000 203.0.113.7 ");
        const size_t begin = writer.length - 27;
        memset(text + writer.length, 'x', length - 27);
        writer.length = begin + length;
        cdl_write_text(&writer, "\n1707898003.000 203.0.113.7 3\n");
        cdl_write(&writer, (struct cdl_slice){text + begin, length});
        assert_false(writer.overflow);
        if (i % 2 == 1)
            cdl_write_text(&writer, "\n");
        for (size_t p = 0; p < COUNT_OF(packers); p++) {
            static char bytes[1 << 20];
            open_one(write_file("log", bytes, packers[p](text, writer.length, bytes, sizeof bytes)));
            const size_t expected = length > CDL_ACCESS_LINE_MAX ? 2 : 4;
            read_in_order(expected);
            assert_int_equal(stats()->lines, 4);
            assert_int_equal(stats()->skipped, 4 - expected);
            if (expected == 4)
                continue;
            assert_int_equal(stats()->reason_count, 1);
            assert_string_equal(stats()->reasons[0].why.detail, "is longer than 65536 bytes");
            assert_int_equal(stats()->reasons[0].line, 2);
            assert_int_equal(stats()->reasons[0].count, 2);
        }
    }
}

static void reasons_are_counted_with_their_first_line(void **state)
{
    (void)state;
    static const char good[] = "203.0.113.7 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\"\n";
    char text[4096];
    struct cdl_writer writer = cdl_writer_on(text, sizeof text);
    for (int i = 0; i < 3; i++)
        cdl_writef(&writer, "%s\n%sgarb\x01ge\n203.0.113.7 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" x 1\n",
                   good, good);
    const char *const paths[] = {write_text("first", good), write_file("second", text, writer.length)};
    struct cdl_log_reader_settings settings = settings_of(paths, 2);
    settings.access.pattern.length = 0;
    open_with(settings);
    read_in_order(7);
    assert_int_equal(stats()->lines, 16);
    assert_int_equal(stats()->skipped, 9);
    assert_int_equal(stats()->reason_count, 3);
    static const struct {
        const char *field, *detail;
        uint64_t line;
        const char *example;
    } expected[] = {
        {"line", "is empty", 2, ""},
        {"time", "is missing: there is none in brackets", 4, "garb?ge"},
        {"status", "is no number of three digits", 5,
         "203.0.113.7 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" x 1"},
    };
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        const struct cdl_log_reason *reason = &stats()->reasons[i];
        assert_string_equal(reason->why.field, expected[i].field);
        assert_string_equal(reason->why.detail, expected[i].detail);
        assert_int_equal(reason->line, expected[i].line);
        assert_int_equal(reason->source, 1);
        assert_int_equal(reason->count, 3);
        assert_int_equal(reason->example_length, strlen(expected[i].example));
        assert_memory_equal(reason->example, expected[i].example, reason->example_length);
    }
    struct cdl_log_source_stats source;
    cdl_log_reader_source(reader, 1, &source);
    assert_string_equal(source.format, "combined");
    assert_int_equal(source.sample_lines, 12);
    assert_int_equal(source.sample_parsed, 6);
    assert_int_equal(source.lines, 15);
    assert_int_equal(source.parsed, 6);
}

static void headings_are_no_lines(void **state)
{
    (void)state;
    const char *path = write_text("log.csv", "time,client,path\n1707898001,203.0.113.7,/a\n");
    struct cdl_log_reader_settings settings = settings_of(&path, 1);
    settings.access.pattern.length = 0;
    open_with(settings);
    read_in_order(1);
    assert_int_equal(stats()->headings, 1);
    assert_int_equal(stats()->lines, 1);
    assert_int_equal(stats()->resolution_ns, SECOND);
}

/* ---- order ---- */

/* Files that overlap, those that follow one another in the wrong order, and one with finer stamps. */
static void files_are_merged_by_time(void **state)
{
    (void)state;
    const char *paths[] = {
        write_text("a", "1707898005.000 203.0.113.7 5\n1707898007.000 203.0.113.7 8\n1707898009.000 203.0.113.7 10\n"),
        write_text("b", "1707898001.000 203.0.113.7 1\n1707898002.000 203.0.113.7 2\n"),
        write_text("c", "1707898005.000 203.0.113.7 6\n1707898005.500 203.0.113.7 7\n1707898008.000 203.0.113.7 9\n"),
        write_text("d", "1707898003.000 203.0.113.7 3\n1707898004.000 203.0.113.7 4\n"),
    };
    static const uint32_t sources[] = {1, 1, 3, 3, 0, 2, 2, 0, 2, 0};
    for (int64_t window_ns = 0; window_ns <= 100 * SECOND; window_ns += 50 * SECOND) {
        struct cdl_log_reader_settings settings = settings_of(paths, 4);
        settings.window_ns = window_ns;
        open_with(settings);
        for (unsigned long n = 1; n <= 10; n++) {
            assert_int_equal(next(), CDL_LOG_RECORD);
            assert_int_equal(number(), n);
            assert_int_equal(origin.source, sources[n - 1]);
            assert_false(origin.is_late);
        }
        assert_int_equal(next(), CDL_LOG_END);
        assert_int_equal(stats()->out_of_order, 0);
        assert_int_equal(stats()->first_ns, INT64_C(1707898001) * SECOND);
        assert_int_equal(stats()->last_ns, INT64_C(1707898009) * SECOND);
    }
}

struct written {
    int64_t at_ms, written_ms;
    unsigned number;
};

static int by_writing(const void *a, const void *b)
{
    const struct written *left = a, *right = b;
    const int64_t l = left->written_ms, r = right->written_ms;
    return l != r ? (l < r ? -1 : 1) : left->number < right->number ? -1 : 1;
}

#define SHUFFLED 3000u

/* Lines whose writing was delayed by up to the window, spread over some files. `instants[number]` is when each began, in ms. */
static void write_shuffled(struct rng *rng, size_t files, int64_t window_ms, const char **paths, int64_t *instants)
{
    static struct written lines[SHUFFLED];
    int64_t at_ms = INT64_C(1707898000000);
    for (unsigned i = 0; i < SHUFFLED; i++) {
        at_ms += rng_below(rng, 8) == 0 ? (int64_t)rng_below(rng, 2 * (uint64_t)window_ms) + 1
                                        : (int64_t)rng_below(rng, 50) + 1;
        instants[i] = at_ms;
        lines[i] = (struct written){at_ms, at_ms + (int64_t)rng_below(rng, (uint64_t)window_ms + 1), i};
    }
    qsort(lines, SHUFFLED, sizeof lines[0], by_writing);
    struct cdl_writer writers[FILES_MAX];
    static char texts[FILES_MAX][SHUFFLED * 48];
    for (size_t i = 0; i < files; i++)
        writers[i] = cdl_writer_on(texts[i], sizeof texts[i]);
    for (unsigned i = 0; i < SHUFFLED; i++)
        cdl_writef(&writers[rng_below(rng, files)], "%lld.%03d 203.0.113.7 %u\n", (long long)(lines[i].at_ms / 1000),
                   (int)(lines[i].at_ms % 1000), lines[i].number);
    for (size_t i = 0; i < files; i++) {
        char name[32];
        snprintf(name, sizeof name, "log.%zu", i);
        paths[i] = write_file(name, texts[i], writers[i].length);
    }
}

/* The property that all reordering is for: whatever the shuffle within the window, what comes out is the sorted log. */
static void any_shuffle_within_the_window_comes_out_sorted(void **state)
{
    (void)state;
    static int64_t instants[SHUFFLED];
    for (uint64_t seed = 1; seed <= scaled(60); seed++) {
        struct rng rng = {.state = seed};
        const char *paths[FILES_MAX];
        const size_t files = 1 + rng_below(&rng, FILES_MAX - 1);
        const int64_t window_ms = 1 + (int64_t)rng_magnitude(&rng, 20000);
        write_shuffled(&rng, files, window_ms, paths, instants);
        struct cdl_log_reader_settings settings = settings_of(paths, files);
        settings.window_ns = window_ms * MILLISECOND;
        open_with(settings);
        for (unsigned i = 0; i < SHUFFLED; i++) {
            assert_int_equal(next(), CDL_LOG_RECORD);
            if (number() != i || record.instant_ns != instants[i] * MILLISECOND || origin.is_late)
                fail_msg("seed %llu: record %u is number %lu", (unsigned long long)seed, i, number());
        }
        assert_int_equal(next(), CDL_LOG_END);
        assert_int_equal(stats()->late, 0);
        assert_int_equal(stats()->hurried, 0);
        assert_true(stats()->out_of_order_ns <= settings.window_ns);
    }
}

/* With less of a window, records are late; none is lost, and a record is late exactly when it is earlier than the one before. */
static void what_is_beyond_the_window_is_late_and_counted(void **state)
{
    (void)state;
    static int64_t instants[SHUFFLED];
    for (uint64_t seed = 1; seed <= scaled(30); seed++) {
        struct rng rng = {.state = seed};
        const char *paths[FILES_MAX];
        bool seen[SHUFFLED] = {false};
        int64_t high_ns = INT64_MIN, most_ns = 0;
        uint64_t late = 0;
        write_shuffled(&rng, 3, 10000, paths, instants);
        struct cdl_log_reader_settings settings = settings_of(paths, 3);
        settings.window_ns = (int64_t)rng_below(&rng, 5000) * MILLISECOND;
        open_with(settings);
        for (unsigned i = 0; i < SHUFFLED; i++) {
            assert_int_equal(next(), CDL_LOG_RECORD);
            assert_false(seen[number()]);
            seen[number()] = true;
            assert_int_equal(record.instant_ns, instants[number()] * MILLISECOND);
            assert_int_equal(origin.is_late, record.instant_ns < high_ns);
            late += origin.is_late;
            if (origin.is_late && high_ns - record.instant_ns > most_ns)
                most_ns = high_ns - record.instant_ns;
            high_ns = record.instant_ns > high_ns ? record.instant_ns : high_ns;
        }
        assert_int_equal(next(), CDL_LOG_END);
        assert_true(late > 0);
        assert_int_equal(stats()->late, late);
        assert_int_equal(stats()->late_ns, most_ns);
        assert_true(stats()->out_of_order_ns > settings.window_ns);
    }
}

static void lines_out_of_order_are_counted(void **state)
{
    (void)state;
    open_one(write_text("log",
                        "1707898001.000 203.0.113.7 2\n1707898009.000 203.0.113.7 6\n1707898003.500 203.0.113.7 4\n"
                        "1707898009.000 203.0.113.7 7\n1707898002.000 203.0.113.7 3\n1707898008.000 203.0.113.7 5\n"
                        "1707898000.000 203.0.113.7 1\n"));
    for (unsigned long n = 1; n <= 7; n++) {
        assert_int_equal(next(), CDL_LOG_RECORD);
        assert_int_equal(number(), n);
    }
    assert_int_equal(stats()->out_of_order, 4);
    assert_int_equal(stats()->out_of_order_ns, 9 * SECOND);
    assert_int_equal(stats()->resolution_ns, MILLISECOND);
}

/* ---- memory ---- */

static void memory_bounds_what_waits(void **state)
{
    (void)state;
    /* All within one second, so that nothing would come out before the end. */
    struct cdl_writer writer = cdl_writer_on(log_text, sizeof log_text);
    for (unsigned i = 0; i < LOG_LINES; i++)
        cdl_writef(&writer, "%d.%03u 203.0.113.7 %u\n", 1707898000, i / 20, i);
    const char *path = write_file("log", log_text, writer.length);
    struct cdl_log_reader_settings settings = settings_of(&path, 1);
    settings.waiting_bytes_max = 1 << 20;
    open_with(settings);
    for (unsigned i = 0; i < LOG_LINES; i++) {
        assert_int_equal(next(), CDL_LOG_RECORD);
        assert_int_equal(number(), i);
    }
    assert_int_equal(next(), CDL_LOG_END);
    assert_true(stats()->waiting_bytes_most >= 1 << 20);
    assert_true(stats()->waiting_bytes_most < (1 << 20) + (1 << 19));
    assert_true(stats()->hurried > 0);
    assert_true(stats()->hurried_window_ns > 100 * MILLISECOND && stats()->hurried_window_ns < SECOND);
    settings.waiting_bytes_max = CDL_LOG_WAITING_DEFAULT_BYTES;
    open_with(settings);
    read_in_order(LOG_LINES);
    assert_int_equal(stats()->hurried, 0);
    assert_int_equal(stats()->hurried_window_ns, settings.window_ns);
}

/* Each allocation fails in turn: an error, or a failure while reading, and nothing is left behind. */
static void memory_that_is_short_is_told(void **state)
{
    (void)state;
    const size_t length = make_log(log_text, sizeof log_text, 2000);
    const char *paths[] = {write_file("log", log_text, length),
                           write_file("log.gz", packed, gzip(log_text, length, packed, sizeof packed))};
    bool is_done = false;
    for (long fail_at = 0; !is_done; fail_at++) {
        struct counting_allocator counting;
        struct cdl_log_reader *failing;
        counting_allocator_init(&counting);
        counting.fail_at = fail_at;
        struct cdl_log_reader_settings settings = settings_of(paths, 2);
        settings.allocator = &counting.allocator;
        if (cdl_log_reader_open(&settings, &failing, &problem) == CAUDAL_OK) {
            enum cdl_log_result result;
            while ((result = cdl_log_reader_next(failing, &record, &origin, &problem)) == CDL_LOG_RECORD)
                ;
            is_done = result == CDL_LOG_END;
            assert_true(is_done || problem.code == CAUDAL_ERR_MEMORY);
            cdl_log_reader_close(failing);
        } else {
            assert_int_equal(problem.code, CAUDAL_ERR_MEMORY);
        }
        assert_int_equal(counting.live_blocks, 0);
        assert_true(fail_at < 1000);
    }
}

/* ---- stopping ---- */

/* Wherever it is stopped, nothing is lost when it goes on. */
static void a_stop_loses_nothing(void **state)
{
    (void)state;
    static int64_t instants[SHUFFLED];
    struct rng rng = {.state = 3};
    const char *paths[FILES_MAX];
    write_shuffled(&rng, 3, 2000, paths, instants);
    open_paths(paths, 3);
    for (unsigned i = 0; i < SHUFFLED; i++) {
        if (rng_below(&rng, 10) == 0) {
            stop = 1;
            assert_int_equal(next(), CDL_LOG_STOPPED);
            stop = 0;
        }
        assert_int_equal(next(), CDL_LOG_RECORD);
        assert_int_equal(number(), i);
    }
    assert_int_equal(next(), CDL_LOG_END);
}

static void set_stop(int number_of_signal)
{
    (void)number_of_signal;
    stop = 1;
}

/* A signal ends a read that waits for a pipe whose writer does not go on. */
static void a_signal_ends_a_read_that_waits(void **state)
{
    (void)state;
    int ends[2];
    char path[32];
    const size_t length = make_log(log_text, sizeof log_text, 100);
    const struct sigaction action = {.sa_handler = set_stop}; /* without SA_RESTART */
    struct sigaction before;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], log_text, length), length);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    open_one(path);
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    /* Again and again, since the first may come before the read begins. */
    const struct itimerval timer = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    while (next() != CDL_LOG_STOPPED)
        ;
    setitimer(ITIMER_REAL, &none, NULL);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    /* What comes later is read. */
    stop = 0;
    assert_int_equal(write(ends[1], "1707899000.000 203.0.113.7 999\n", 31), 31);
    close(ends[1]);
    unsigned long last = 0;
    while (next() == CDL_LOG_RECORD)
        last = number();
    assert_int_equal(last, 999);
    assert_int_equal(stats()->parsed, 101);
    close(ends[0]);
}

/* ---- files that will not do ---- */

static void assert_refused(struct cdl_log_reader_settings settings, int code, const char *words)
{
    struct cdl_log_reader *refused;
    char message[256];
    assert_int_equal(cdl_log_reader_open(&settings, &refused, &problem), code);
    assert_null(refused);
    snprintf(message, sizeof message, "%s: %s", settings.paths[settings.path_count - 1], words);
    assert_string_equal(problem.message, message);
}

static void files_that_are_no_logs_are_refused_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        int code;
        const char *words;
    } cases[] = {
        {"BZh91AY&SY", 10, CAUDAL_ERR_ARGUMENT, "is compressed with bzip2; decompress it first"},
        {"\xfd"
         "7zXZ\0\0\4",
         8, CAUDAL_ERR_ARGUMENT, "is compressed with xz; decompress it first"},
        {"\xff\xfe"
         "1\0"
         "7\0",
         6, CAUDAL_ERR_ARGUMENT, "is in UTF-16; convert it to UTF-8 first"},
        {"\x1f\x8b\x08\x00\x00\x00", 6, CAUDAL_ERR_ARGUMENT, "the compressed data are cut off"},
        {"\x1f\x8b\x07\x00\x00\x00", 6, CAUDAL_ERR_ARGUMENT, "the gzip data are damaged"},
        {"\x28\xb5\x2f\xfd\x24", 5, CAUDAL_ERR_ARGUMENT, "the compressed data are cut off"},
        {"\x28\xb5\x2f\xfd\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08", 22,
         CAUDAL_ERR_ARGUMENT, "the zstd data are damaged"},
        {"\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00", 9, CAUDAL_ERR_ARGUMENT,
         "was packed by zstd with a window of more than 128 MB; decompress it first"},
        {"\x28\xb5\x2f\xfd\x01\x50\x07\x01\x00\x00", 10, CAUDAL_ERR_ARGUMENT,
         "was packed by zstd with a dictionary; decompress it first"},
        {"\n\n\n", 3, CAUDAL_ERR_SYNTAX, "there is no line to tell the format by"},
        {"\nyesterday 203.0.113.7 1\n", 25, CAUDAL_ERR_SYNTAX,
         "not a line can be read as \"pattern\", line 2: column 1: the time has no shape that is known: \"yesterday "
         "203.0.113.7 1\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *path = write_file("log", cases[i].bytes, cases[i].length);
        assert_refused(settings_of(&path, 1), cases[i].code, cases[i].words);
    }
}

static void files_that_cannot_be_read_are_refused_at_once(void **state)
{
    (void)state;
    const char *paths[] = {write_text("log", "1707898001.000 203.0.113.7 1\n"), path_of("absent")};
    assert_refused(settings_of(paths, 2), CAUDAL_ERR_ARGUMENT, "No such file or directory");
    paths[1] = directory;
    assert_refused(settings_of(paths, 2), CAUDAL_ERR_ARGUMENT, "is a directory");
    paths[0] = paths[1] = "-";
    const int input = dup(STDIN_FILENO);
    const int nothing = open("/dev/null", O_RDONLY);
    assert_int_equal(dup2(nothing, STDIN_FILENO), STDIN_FILENO);
    assert_refused(settings_of(paths, 2), CAUDAL_ERR_ARGUMENT, "standard input can be read once only");
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(nothing);
    close(input);
}

static void a_zone_that_is_lacking_is_asked_for_at_once(void **state)
{
    (void)state;
    const char *path = write_text("log", "2024-02-14T08:10:01 203.0.113.7 1\n");
    struct cdl_log_reader_settings settings = settings_of(&path, 1);
    assert_refused(
        settings, CAUDAL_ERR_SYNTAX,
        "a log in the format \"pattern\", line 1: column 1: the time has no offset to UTC, and no zone is given");
    const struct cdl_zone utc = {.count = 0};
    settings.access.zone = &utc;
    open_with(settings);
    read_in_order(1);
}

/* What is damaged in the middle gives what was before it, says what happened, and the other file goes on. */
static void a_file_that_breaks_off_is_told(void **state)
{
    (void)state;
    const size_t length = make_log(log_text, sizeof log_text, LOG_LINES);
    const char *other = write_text("other", "1707897999.000 203.0.113.7 1\n1808898001.000 203.0.113.7 2\n");
    for (size_t i = 1; i < COUNT_OF(packers); i++)
        for (int damage = 0; damage < 3; damage++) {
            size_t bytes = packers[i](log_text, length, packed, sizeof packed);
            static const char *const words[][3] = {
                {NULL, NULL, NULL},
                {"the compressed data are cut off", "the gzip data are damaged",
                 "something that is no gzip follows the end of the compressed data"},
                {"the compressed data are cut off", "the zstd data are damaged", "the zstd data are damaged"},
            };
            if (damage == 0)
                bytes -= 20;
            else if (damage == 1 && packers[i] == gzip)
                packed[bytes - 5] = (char)(packed[bytes - 5] ^ 1); /* of the checksum */
            else if (damage == 1)
                memset(packed + bytes / 2, 0xff, bytes / 2);
            else
                bytes += plain("garbage", 7, packed + bytes, 7);
            const char *paths[] = {write_file("log", packed, bytes), other};
            size_t records = 0, failures = 0;
            char message[256];
            struct cdl_log_source_stats source;
            enum cdl_log_result result;
            open_paths(paths, 2);
            while ((result = next()) == CDL_LOG_RECORD || result == CDL_LOG_FAILED) {
                records += result == CDL_LOG_RECORD;
                failures += result == CDL_LOG_FAILED;
            }
            assert_int_equal(result, CDL_LOG_END);
            assert_int_equal(failures, 1);
            snprintf(message, sizeof message, "%s: %s", paths[0], words[i][damage]);
            assert_string_equal(problem.message, message);
            /* All of it, where only what stands behind it is wrong. */
            const bool is_whole = damage == 2 || (damage == 1 && packers[i] == gzip);
            assert_true(records > 1000 && (records == LOG_LINES + 2) == is_whole);
            assert_int_equal(number(), 2);
            cdl_log_reader_source(reader, 0, &source);
            assert_true(source.failed);
            cdl_log_reader_source(reader, 1, &source);
            assert_false(source.failed);
        }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(packing_makes_no_difference),
        CASE(parts_follow_one_another),
        CASE(line_ends_and_a_mark_make_no_difference),
        CASE(empty_files_will_do),
        CASE(standard_input_is_read),
        CASE(long_lines_are_passed_over),
        CASE(reasons_are_counted_with_their_first_line),
        CASE(headings_are_no_lines),
        CASE(files_are_merged_by_time),
        CASE(any_shuffle_within_the_window_comes_out_sorted),
        CASE(what_is_beyond_the_window_is_late_and_counted),
        CASE(lines_out_of_order_are_counted),
        CASE(memory_bounds_what_waits),
        CASE(memory_that_is_short_is_told),
        CASE(a_stop_loses_nothing),
        CASE(a_signal_ends_a_read_that_waits),
        CASE(files_that_are_no_logs_are_refused_at_once),
        CASE(files_that_cannot_be_read_are_refused_at_once),
        CASE(a_zone_that_is_lacking_is_asked_for_at_once),
        CASE(a_file_that_breaks_off_is_told),
    };
    return cmocka_run_group_tests_name("replay/log_reader", tests, NULL, NULL);
}
