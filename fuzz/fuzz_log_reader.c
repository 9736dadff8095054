/* Any bytes as two log files, plain or packed, read through the reader.
 *
 * The first two bytes say how long the window is and where the first file ends. Every line that was read came out as a record or was
 * skipped; what is earlier than a record before it says so, and within the window nothing is; memory stays bounded. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay/log_reader.h"

#define WAITING_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static void make_file(int *fd, char path[32], const uint8_t *bytes, size_t length)
{
    *fd = memfd_create("log", MFD_CLOEXEC);
    require(*fd >= 0 && write(*fd, bytes, length) == (ssize_t)length);
    snprintf(path, 32, "/proc/self/fd/%d", *fd);
}

static void check_stats(const struct cdl_log_reader *reader, uint64_t records, uint64_t late)
{
    const struct cdl_log_stats *stats = cdl_log_reader_stats(reader);
    struct cdl_log_source_stats source;
    uint64_t lines = 0, skipped = 0;
    require(stats->lines == stats->parsed + stats->skipped && stats->parsed == records && stats->late == late);
    require(stats->waiting == 0 && stats->reason_count <= CDL_LOG_REASONS_MAX);
    for (size_t i = 0; i < stats->reason_count; i++)
        skipped += stats->reasons[i].count;
    require(skipped == stats->skipped);
    for (size_t i = 0; i < 2; i++) {
        cdl_log_reader_source(reader, i, &source);
        lines += source.lines;
    }
    require(lines == stats->lines);
    /* What waits takes no more than it may, and one chunk or line. */
    require(stats->waiting_bytes_most <= WAITING_BYTES + ((size_t)1 << 19));
}

static void read_all(struct cdl_log_reader *reader, int64_t window_ns)
{
    static struct cdl_access_record record;
    struct cdl_log_origin origin;
    struct caudal_problem problem;
    enum cdl_log_result result;
    uint64_t records = 0, late = 0;
    int64_t high_ns = INT64_MIN;
    while ((result = cdl_log_reader_next(reader, &record, &origin, &problem)) != CDL_LOG_END) {
        require(result == CDL_LOG_RECORD || result == CDL_LOG_FAILED);
        if (result == CDL_LOG_FAILED) {
            require(problem.message[0] != '\0');
            continue;
        }
        require(origin.is_late == (record.instant_ns < high_ns) && origin.source < 2 && origin.line > 0);
        records++;
        late += origin.is_late;
        high_ns = record.instant_ns > high_ns ? record.instant_ns : high_ns;
    }
    const struct cdl_log_stats *stats = cdl_log_reader_stats(reader);
    require(late == 0 || stats->out_of_order_ns > window_ns || stats->hurried > 0);
    check_stats(reader, records, late);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct cdl_zone utc = {.count = 0};
    static const uint16_t windows_s[] = {0, 1, 10, 60, 3600};
    char paths[2][32];
    const char *names[2] = {paths[0], paths[1]};
    int fds[2];
    if (size < 2)
        return 0;
    const size_t length = size - 2, first = length * data[1] / 255;
    make_file(&fds[0], paths[0], data + 2, first);
    make_file(&fds[1], paths[1], data + 2 + first, length - first);
    const struct cdl_log_reader_settings settings = {
        .paths = names,
        .path_count = 2,
        .access = {.zone = &utc, .year = 2024},
        .window_ns = windows_s[data[0] % 5] * INT64_C(1000000000),
        .waiting_bytes_max = WAITING_BYTES,
    };
    struct cdl_log_reader *reader;
    struct caudal_problem problem = {.message = ""};
    if (cdl_log_reader_open(&settings, &reader, &problem) == CAUDAL_OK) {
        read_all(reader, settings.window_ns);
        cdl_log_reader_close(reader);
    } else {
        require(problem.message[0] != '\0' && problem.code != CAUDAL_ERR_MEMORY);
    }
    close(fds[0]);
    close(fds[1]);
    return 0;
}
