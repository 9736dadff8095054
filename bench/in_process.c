/* Decides in this process as an application does, through the public API alone, and measures it by the protocol of bench/peers/PROTOCOL.md,
 * so that bench/peers.py can hold libraries of other languages against it:
 *
 *     in_process --keys N --distribution uniform|zipf --refused P --threads T --seconds S
 *                [--draws M] [--single] [--batch B] [--store URL]
 *
 * bench_core tells what a decision costs beside what it is made of; this, beside what others do. */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "caudal/caudal.h"

#define KEY_BYTES 13u
#define BATCH_MAX 64u
#define THREADS_MAX 64u
#define ZIPF_EXPONENT 1.1
#define MS_NS INT64_C(1000000)
#define S_NS INT64_C(1000000000)
#define DAY_NS (UINT64_C(86400) * S_NS)

/* A key that was drawn: its bytes, and which limit it is under. */
struct draw {
    char key[KEY_BYTES + 2]; /* and what snprintf needs */
    bool is_tight;
};

struct options {
    uint64_t keys, draws;
    unsigned refused_percent, threads, batch;
    double seconds;
    bool is_zipf, is_single;
    const char *store;
};

/* What a thread counts in one part, in cache lines of its own. */
struct job {
    pthread_t thread;
    pthread_barrier_t *barrier;
    uint64_t next; /* the draw that comes next; the next part goes on there */
    uint64_t decisions, refused, wrong;
    int64_t began_ns, ended_ns;
} __attribute__((aligned(128)));

static struct options options = {.keys = 1, .draws = UINT64_C(1) << 22, .threads = 1, .batch = 1, .seconds = 1};
static struct draw *draws;
static bool *is_tight; /* by key */
static struct caudal_store *store;
static uint32_t limit_ids[2]; /* open, tight */

_Noreturn static void fail(const char *what, const char *why)
{
    fprintf(stderr, "in_process: %s: %s\n", what, why);
    exit(1);
}

static void *allocate(uint64_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (memory == NULL)
        fail("memory", "there is not enough");
    return memory;
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * S_NS + now.tv_nsec;
}

static uint64_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1)
        fail("/proc/self/statm", "cannot be read");
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- keys ---- */

static double weight_of(uint64_t key)
{
    return options.is_zipf ? pow((double)key + 1, -ZIPF_EXPONENT) : 1;
}

static void choose_tight(void)
{
    double all = 0, tight = 0;
    is_tight = allocate(options.keys, sizeof *is_tight);
    for (uint64_t key = 0; key < options.keys; key++) {
        const double weight = weight_of(key);
        all += weight;
        is_tight[key] = (tight + weight / 2) * 100 <= options.refused_percent * all;
        tight += is_tight[key] ? weight : 0;
    }
}

/* sums[key]: of the weights of all keys up to it */
static double *sum_weights(void)
{
    double *sums = allocate(options.keys, sizeof *sums), sum = 0;
    for (uint64_t key = 0; key < options.keys; key++)
        sums[key] = sum += weight_of(key);
    return sums;
}

/* The first key whose sum is above `value`. */
static uint64_t find_sum(const double *sums, double value)
{
    uint64_t low = 0, high = options.keys - 1;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (sums[middle] > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void write_key(struct draw *draw, uint64_t key)
{
    snprintf(draw->key, sizeof draw->key, "user:%08u", (unsigned)key);
    draw->is_tight = is_tight[key];
}

static void draw_keys(void)
{
    double *sums = options.is_zipf ? sum_weights() : NULL;
    uint32_t x = UINT32_C(2463534242);
    draws = allocate(options.draws, sizeof *draws);
    for (uint64_t i = 0; i < options.draws; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        write_key(&draws[i],
                  sums == NULL ? x * options.keys >> 32 : find_sum(sums, x / 4294967296.0 * sums[options.keys - 1]));
    }
    free(sums);
}

/* ---- the store ---- */

static struct caudal_limit open_limit(void)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    const uint64_t scaled_ns = options.keys * 10000, least_ns = MS_NS, most_ns = 10 * S_NS;
    limit.count = 1;
    limit.period_ns = scaled_ns < least_ns ? least_ns : scaled_ns > most_ns ? most_ns : scaled_ns;
    limit.burst = (uint64_t)S_NS * S_NS / limit.period_ns;
    if (limit.burst > (uint64_t)S_NS)
        limit.burst = (uint64_t)S_NS;
    return limit;
}

static struct caudal_limit tight_limit(void)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    limit.count = 1;
    limit.period_ns = DAY_NS;
    limit.burst = 1;
    return limit;
}

static void open_store(void)
{
    char url[64];
    struct caudal_problem problem;
    const struct caudal_limit limits[2] = {open_limit(), tight_limit()};
    snprintf(url, sizeof url, "memory:?keys=%" PRIu64, options.keys);
    if (options.store != NULL)
        snprintf(url, sizeof url, "%s?deadline=1s&clients=%u", options.store, options.threads);
    if (caudal_store_open(url, NULL, &store, &problem) != CAUDAL_OK)
        fail(url, problem.message);
    if (caudal_add_limit(store, "open", &limits[0], &limit_ids[0], &problem) != CAUDAL_OK ||
        caudal_add_limit(store, "tight", &limits[1], &limit_ids[1], &problem) != CAUDAL_OK)
        fail("limit", problem.message);
}

static struct caudal_request ask(const struct draw *draw)
{
    return (struct caudal_request){limit_ids[draw->is_tight], draw->key, KEY_BYTES, 1};
}

/* Every key once. */
static void fill(void)
{
    for (uint64_t key = 0; key < options.keys; key++) {
        struct draw draw;
        struct caudal_decision decision;
        write_key(&draw, key);
        const struct caudal_request request = ask(&draw);
        const int status = caudal_take(store, request.limit, request.key, request.key_length, request.cost, &decision);
        if (status != CAUDAL_OK)
            fail(draw.key, caudal_status_text(status));
    }
}

/* ---- parts ---- */

static void count(struct job *job, const struct draw *draw, const struct caudal_decision *decision)
{
    const bool is_refused = decision->verdict == CAUDAL_DENY;
    job->refused += is_refused;
    job->wrong += decision->verdict != (draw->is_tight ? CAUDAL_DENY : CAUDAL_ALLOW);
}

static const struct draw *next_draw(struct job *job)
{
    const struct draw *draw = &draws[job->next++];
    if (job->next == options.draws)
        job->next = 0;
    return draw;
}

static void decide_one(struct job *job)
{
    struct caudal_decision decision;
    const struct draw *draw = next_draw(job);
    caudal_take(store, limit_ids[draw->is_tight], draw->key, KEY_BYTES, 1, &decision);
    count(job, draw, &decision);
}

static void decide_batch(struct job *job)
{
    const struct draw *asked[BATCH_MAX];
    struct caudal_request requests[BATCH_MAX];
    struct caudal_decision decisions[BATCH_MAX];
    for (unsigned i = 0; i < options.batch; i++) {
        asked[i] = next_draw(job);
        requests[i] = ask(asked[i]);
    }
    caudal_take_batch(store, requests, options.batch, decisions);
    for (unsigned i = 0; i < options.batch; i++)
        count(job, asked[i], &decisions[i]);
}

static void *run_job(void *argument)
{
    struct job *job = argument;
    const unsigned at_once = options.store == NULL ? 256 : 16;
    pthread_barrier_wait(job->barrier);
    job->began_ns = job->ended_ns = clock_ns(CLOCK_MONOTONIC);
    const int64_t until_ns = job->began_ns + (int64_t)(options.seconds * (double)S_NS);
    while (job->ended_ns < until_ns) {
        for (unsigned i = 0; i < at_once; i += options.batch) {
            if (options.batch == 1)
                decide_one(job);
            else
                decide_batch(job);
            job->decisions += options.batch;
        }
        job->ended_ns = clock_ns(CLOCK_MONOTONIC);
    }
    return NULL;
}

static void run_part(void)
{
    static uint64_t next[THREADS_MAX];
    struct job jobs[THREADS_MAX], sum = {.began_ns = INT64_MAX};
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, options.threads);
    const int64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < options.threads; i++) {
        if (next[i] == 0)
            next[i] = i * options.draws / options.threads;
        jobs[i] = (struct job){.barrier = &barrier, .next = next[i]};
        if (pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]) != 0)
            fail("thread", "cannot be started");
    }
    for (unsigned i = 0; i < options.threads; i++) {
        pthread_join(jobs[i].thread, NULL);
        next[i] = jobs[i].next;
        sum.decisions += jobs[i].decisions;
        sum.refused += jobs[i].refused;
        sum.wrong += jobs[i].wrong;
        sum.began_ns = jobs[i].began_ns < sum.began_ns ? jobs[i].began_ns : sum.began_ns;
        sum.ended_ns = jobs[i].ended_ns > sum.ended_ns ? jobs[i].ended_ns : sum.ended_ns;
    }
    pthread_barrier_destroy(&barrier);
    printf("{\"decisions\": %" PRIu64 ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"refused\": %" PRIu64
           ", \"wrong\": %" PRIu64 "}\n",
           sum.decisions, (double)(sum.ended_ns - sum.began_ns) / (double)S_NS,
           (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / (double)S_NS, sum.refused, sum.wrong);
    fflush(stdout);
}

/* ---- options ---- */

_Noreturn static void usage(void)
{
    fputs("usage: in_process --keys N --distribution uniform|zipf --refused PERCENT --threads T --seconds S\n"
          "                  [--draws M] [--single] [--batch B] [--store URL]; see bench/peers/PROTOCOL.md\n",
          stderr);
    exit(2);
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"keys", required_argument, NULL, 'k'},    {"distribution", required_argument, NULL, 'd'},
        {"refused", required_argument, NULL, 'r'}, {"threads", required_argument, NULL, 't'},
        {"seconds", required_argument, NULL, 's'}, {"draws", required_argument, NULL, 'm'},
        {"single", no_argument, NULL, '1'},        {"batch", required_argument, NULL, 'b'},
        {"store", required_argument, NULL, 'u'},   {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'k':
            options.keys = strtoull(optarg, NULL, 10);
            break;
        case 'd':
            options.is_zipf = strcmp(optarg, "zipf") == 0;
            break;
        case 'r':
            options.refused_percent = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            options.threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 's':
            options.seconds = strtod(optarg, NULL);
            break;
        case 'm':
            options.draws = strtoull(optarg, NULL, 10);
            break;
        case '1':
            options.is_single = true;
            break;
        case 'b':
            options.batch = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'u':
            options.store = optarg;
            break;
        default:
            usage();
        }
    }
    if (options.is_single) /* one key is what comes nearest */
        options.keys = 1;
    if (optind != argc || options.keys < 1 || options.keys > 99999999 || options.draws < 1 || options.threads < 1 ||
        options.threads > THREADS_MAX || options.batch < 1 || options.batch > BATCH_MAX ||
        options.refused_percent > 100)
        usage();
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    choose_tight();
    draw_keys();
    const uint64_t before = resident_bytes();
    open_store();
    fill();
    printf("{\"library\": \"caudal\", \"version\": \"%s\", \"rss_before\": %" PRIu64 ", \"rss_after\": %" PRIu64 "}\n",
           caudal_version(), before, resident_bytes());
    fflush(stdout);
    while (getchar() == '\n')
        run_part();
    caudal_store_close(store);
    free(draws);
    free(is_tight);
    return 0;
}
