/* How fast logs are read, decompressed, merged and put in order, on one core: log_reader_speed [--window SECONDS] FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "replay/log_reader.h"

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

_Noreturn static void fail(const char *why)
{
    fprintf(stderr, "log_reader_speed: %s\n", why);
    exit(1);
}

static void report(const struct cdl_log_reader *reader, double seconds, int64_t sum)
{
    const struct cdl_log_stats *stats = cdl_log_reader_stats(reader);
    struct rusage usage;
    uint64_t bytes, total;
    getrusage(RUSAGE_SELF, &usage);
    cdl_log_reader_progress(reader, &bytes, &total);
    printf("%llu lines in %.2f s: %.0f lines/s, %.0f MB/s of the files; at most %ld MB in memory\n",
           (unsigned long long)stats->lines, seconds, (double)stats->lines / seconds, (double)bytes / 1e6 / seconds,
           usage.ru_maxrss / 1024);
    printf("%llu parsed, %llu out of order by at most %.3f s, %llu late, %llu hurried; sum %llx\n",
           (unsigned long long)stats->parsed, (unsigned long long)stats->out_of_order,
           (double)stats->out_of_order_ns / 1e9, (unsigned long long)stats->late, (unsigned long long)stats->hurried,
           (unsigned long long)sum);
}

int main(int argc, char **argv)
{
    const struct cdl_zone utc = {.count = 0};
    struct cdl_log_reader_settings settings = {
        .access = {.zone = &utc},
        .window_ns = CDL_LOG_WINDOW_DEFAULT_NS,
        .waiting_bytes_max = CDL_LOG_WAITING_DEFAULT_BYTES,
    };
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--window") == 0) {
        settings.window_ns = atoll(argv[2]) * 1000000000;
        first = 3;
    }
    if (first >= argc)
        fail("usage: log_reader_speed [--window SECONDS] FILE...");
    settings.paths = (const char *const *)argv + first;
    settings.path_count = (size_t)(argc - first);
    struct caudal_problem problem;
    struct cdl_log_reader *reader;
    struct cdl_access_record record;
    struct cdl_log_origin origin;
    enum cdl_log_result result;
    int64_t sum = 0;
    const double begin = cpu_s();
    if (cdl_log_reader_open(&settings, &reader, &problem) != CAUDAL_OK)
        fail(problem.message);
    while ((result = cdl_log_reader_next(reader, &record, &origin, &problem)) == CDL_LOG_RECORD)
        sum += record.instant_ns ^ (int64_t)record.target.length;
    if (result == CDL_LOG_FAILED)
        fail(problem.message);
    report(reader, cpu_s() - begin, sum);
    cdl_log_reader_close(reader);
    return 0;
}
