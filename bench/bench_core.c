/* The speed of a decision in this process, each operation beside its floor; see bench.h for what a floor is.
 *
 *     bench_core [--quick] [--rounds N] [--filter TEXT] [--overlap] [--cpu-time] [--json FILE]
 *
 * For each number of keys and of threads: rounds of take and its floor, denied take and its floor, batch and its floor,
 * in turn, so that whatever the machine does over time falls on all of them alike. A ratio is that of two neighbours;
 * what is reported is the median. */
#include "bench.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t key_counts[] = {1, 1000, 1000000, 10000000};
#define KEY_COUNTS (sizeof key_counts / sizeof key_counts[0])
_Static_assert(KEY_COUNTS <= BENCH_KEYS_MAX, "a report has room for all");

struct options {
    unsigned rounds;
    double part_ms;
    bool cpu_time;
    bool overlap;
    const char *filter; /* part of a row's name, as "take/1000/2"; NULL: all */
    const char *json;
};

static bool wanted(const struct options *options, enum bench_operation operation, uint64_t keys, unsigned threads)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%llu/%u", bench_operation_name(operation), (unsigned long long)keys, threads);
    return options->filter == NULL || strstr(name, options->filter) != NULL;
}

/* ---- one row ---- */

static const struct bench_side *side_of(const struct bench_bed *bed, enum bench_operation operation)
{
    return operation == BENCH_DENIED_TAKE ? &bed->refusing : &bed->admitting;
}

/* Runs the operation and makes sure that every verdict was the one that the row is about. A refusing store may admit
 * only keys that it had to forget, and each of those has then come in again. */
static struct bench_part run_checked(const struct bench_plan *plan)
{
    const struct bench_side *side = side_of(plan->bed, plan->operation);
    const uint64_t before = bench_inserted(side);
    const struct bench_part part = bench_run(plan);
    const uint64_t returned = bench_inserted(side) - before;
    const bool refuses = plan->operation == BENCH_DENIED_TAKE;
    const uint64_t expected = refuses ? returned : part.decided;
    if (part.allowed != expected || part.allowed + part.denied != part.decided ||
        (refuses && part.allowed > part.decided / 20))
        bench_fail("%s, %llu keys: %llu of %llu decisions were admissions and %llu refusals; %llu keys came in",
                   bench_operation_name(plan->operation), (unsigned long long)plan->bed->keys,
                   (unsigned long long)part.allowed, (unsigned long long)part.decided, (unsigned long long)part.denied,
                   (unsigned long long)returned);
    return part;
}

/* How many decisions take about as long as a part is to last. */
static uint64_t calibrate(const struct bench_plan *operation, double part_ms)
{
    struct bench_plan plan = *operation;
    plan.count = plan.lead_in = UINT64_C(1) << 15;
    const double decisions = part_ms * 1e6 / run_checked(&plan).ns;
    return ((uint64_t)decisions / BENCH_BATCH + 1) * BENCH_BATCH;
}

/* One pair. Returns whether something else ran meanwhile. */
static bool measure_pair(struct bench_plan *plan, double *caudal_ns, double *floor_ns)
{
    plan->floor = false;
    const struct bench_part caudal = run_checked(plan);
    plan->floor = true;
    const struct bench_part floor = bench_run(plan);
    *caudal_ns = caudal.ns;
    *floor_ns = floor.ns;
    return caudal.disturbed || floor.disturbed;
}

/* A pair that is added to the row. One that was disturbed is measured again, as long as `patience` lasts. */
static double add_pair(struct bench_row *row, struct bench_plan *plan, unsigned *patience)
{
    double caudal_ns, floor_ns;
    bool disturbed;
    do
        disturbed = measure_pair(plan, &caudal_ns, &floor_ns) && plan->clock == CLOCK_MONOTONIC;
    while (disturbed && *patience > 0 && (*patience)-- > 0);
    row->disturbed += disturbed;
    bench_sample_add(&row->caudal_ns, caudal_ns);
    bench_sample_add(&row->floor_ns, floor_ns);
    bench_sample_add(&row->ratio, caudal_ns / floor_ns);
    return caudal_ns;
}

/* ---- all rows of one number of keys and threads ---- */

static void measure_group(struct bench_report *report, const struct options *options, const struct bench_bed *bed,
                          unsigned threads)
{
    struct bench_row *rows[BENCH_OPERATIONS] = {NULL};
    struct bench_plan plans[BENCH_OPERATIONS];
    for (enum bench_operation operation = 0; operation < BENCH_OPERATIONS; operation++) {
        if (!wanted(options, operation, bed->keys, threads))
            continue;
        rows[operation] = &report->rows[report->row_count++];
        *rows[operation] = (struct bench_row){.operation = operation, .keys = bed->keys, .threads = threads};
        struct bench_plan *plan = &plans[operation];
        *plan = (struct bench_plan){
            .bed = bed,
            .operation = operation,
            .threads = threads,
            .overlap = options->overlap,
            .clock = options->cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
        };
        plan->count = calibrate(plan, options->part_ms);
        plan->lead_in = plan->count / (4 * BENCH_BATCH) * BENCH_BATCH;
    }
    struct bench_refusal *refusal = NULL;
    if (rows[BENCH_TAKE] != NULL && rows[BENCH_DENIED_TAKE] != NULL) {
        refusal = &report->refusals[report->refusal_count++];
        *refusal = (struct bench_refusal){.keys = bed->keys, .threads = threads};
    }
    unsigned patience = 2 * options->rounds;
    for (unsigned round = 0; round < options->rounds; round++) {
        double ns[BENCH_OPERATIONS];
        for (enum bench_operation operation = 0; operation < BENCH_OPERATIONS; operation++) {
            if (rows[operation] == NULL)
                continue;
            plans[operation].seed = UINT64_C(1000003) * (round + 1);
            ns[operation] = add_pair(rows[operation], &plans[operation], &patience);
        }
        if (refusal != NULL)
            bench_sample_add(&refusal->ratio, ns[BENCH_DENIED_TAKE] / ns[BENCH_TAKE]);
    }
    for (enum bench_operation operation = 0; operation < BENCH_OPERATIONS; operation++)
        if (rows[operation] != NULL)
            bench_print_row(rows[operation]);
}

/* The keys held by the refusing store, whose entries all matter for a day. The smallest table is two lines: for one key
 * there is nothing to learn from it. */
static void measure_memory(struct bench_report *report, const struct bench_bed *bed)
{
    struct caudal_store_stats stats = {.size = sizeof stats};
    if (bed->keys < 1000)
        return;
    if (caudal_store_stats(bed->refusing.store, &stats) != CAUDAL_OK || stats.live_keys == 0)
        bench_fail("the store of %llu keys holds none", (unsigned long long)bed->keys);
    report->memories[report->memory_count++] = (struct bench_memory){
        .keys = bed->keys,
        .live_keys = stats.live_keys,
        .live_evictions = stats.live_evictions,
        .table_bytes = bench_table(&bed->refusing)->line_count * sizeof(struct cdl_table_line),
    };
}

static void measure_keys(struct bench_report *report, const struct options *options, uint64_t keys)
{
    bool any = false;
    for (unsigned threads = 1; threads <= BENCH_THREADS_MAX; threads++)
        for (enum bench_operation operation = 0; operation < BENCH_OPERATIONS; operation++)
            any |= wanted(options, operation, keys, threads);
    if (!any)
        return;
    struct bench_bed bed;
    bench_bed_open(&bed, keys);
    measure_memory(report, &bed);
    for (unsigned threads = 1; threads <= BENCH_THREADS_MAX; threads++)
        measure_group(report, options, &bed, threads);
    bench_bed_close(&bed);
}

/* The fastest of some tries, so that what else runs does not count. */
static double measure_clock(void)
{
    const unsigned readings = 100000;
    double best = 0;
    for (int i = 0; i < 10; i++) {
        struct timespec first, last;
        clock_gettime(CLOCK_MONOTONIC, &first);
        for (unsigned j = 0; j < readings; j++)
            clock_gettime(CLOCK_MONOTONIC, &last);
        const double ns = (double)(last.tv_sec - first.tv_sec) * 1e9 + (double)(last.tv_nsec - first.tv_nsec);
        best = i == 0 || ns / readings < best ? ns / readings : best;
    }
    return best;
}

/* ---- options ---- */

_Noreturn static void usage(void)
{
    fprintf(stderr,
            "usage: bench_core [--quick] [--rounds N] [--filter TEXT] [--overlap] [--cpu-time] [--json FILE]\n"
            "  --quick        three short rounds\n"
            "  --rounds N     pairs of a row, 1 to %d\n"
            "  --filter TEXT  only rows whose name has TEXT in it; names are like \"denied take/1000/2\"\n"
            "  --overlap      a take may begin before the last answer is there\n"
            "  --cpu-time     count the threads' processor time, for a machine that is busy with other things\n"
            "  --json FILE    write the numbers there as well\n",
            BENCH_ROUNDS_MAX);
    exit(2);
}

static struct options read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"quick", no_argument, NULL, 'q'},
        {"rounds", required_argument, NULL, 'r'},
        {"filter", required_argument, NULL, 'f'},
        {"overlap", no_argument, NULL, 'o'},
        {"cpu-time", no_argument, NULL, 'c'},
        {"json", required_argument, NULL, 'j'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.rounds = 9, .part_ms = 80};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'q':
            options.rounds = 3;
            options.part_ms = 20;
            break;
        case 'r':
            options.rounds = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'f':
            options.filter = optarg;
            break;
        case 'o':
            options.overlap = true;
            break;
        case 'c':
            options.cpu_time = true;
            break;
        case 'j':
            options.json = optarg;
            break;
        default:
            usage();
        }
    }
    if (optind != argc || options.rounds < 1 || options.rounds > BENCH_ROUNDS_MAX)
        usage();
    return options;
}

int main(int argc, char **argv)
{
    const struct options options = read_options(argc, argv);
    static struct bench_report report; /* static: it is large, and starts as zeros */
    report.rounds = options.rounds;
    report.part_ms = options.part_ms;
    report.cpu_time = options.cpu_time;
    report.overlap = options.overlap;
    report.clock_ns = measure_clock();
    bench_print_head(&report);
    for (size_t i = 0; i < KEY_COUNTS; i++)
        measure_keys(&report, &options, key_counts[i]);
    if (report.row_count == 0)
        bench_fail("no row has '%s' in its name", options.filter);
    bench_print_rest(&report);
    if (options.json != NULL)
        bench_write_json(&report, options.json);
    return 0;
}
