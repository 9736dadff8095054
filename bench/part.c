/* The loops that are timed. Each operation and its floor do the same around the decision: draw a key, write down its
 * bytes, count the outcome. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>

/* ---- the loops ---- */

/* A linear congruential generator: a multiplication off the path that everything waits for. Its upper bits, the good
 * ones, choose the key. */
static inline struct bench_key next_key(uint64_t *random, uint64_t keys)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return bench_key((uint64_t)((cdl_u128)*random * keys >> 64));
}

/* Verdicts by kind; of a floor, the swaps that succeeded. */
struct count {
    uint64_t allowed, denied;
};

static struct count take_loop(const struct bench_bed *bed, const struct bench_side *side, uint64_t count,
                              uint64_t *random, bool overlap)
{
    struct count verdicts = {0, 0};
    for (uint64_t i = 0; i < count; i++) {
        const struct bench_key key = next_key(random, bed->keys);
        struct caudal_decision decision;
        caudal_take(side->store, side->limit, &key, bed->key_length, 1, &decision);
        verdicts.allowed += decision.verdict == CAUDAL_ALLOW;
        verdicts.denied += decision.verdict == CAUDAL_DENY;
        if (!overlap) /* adds 0, but nobody knows before the answer is there; a verdict would be guessed */
            *random += decision.reset_after_ns < 0;
    }
    return verdicts;
}

static struct count batch_loop(const struct bench_bed *bed, const struct bench_side *side, uint64_t count,
                               uint64_t *random)
{
    struct bench_key keys[BENCH_BATCH];
    struct caudal_request requests[BENCH_BATCH];
    struct caudal_decision decisions[BENCH_BATCH];
    struct count verdicts = {0, 0};
    for (size_t j = 0; j < BENCH_BATCH; j++)
        requests[j] = (struct caudal_request){side->limit, &keys[j], bed->key_length, 1};
    for (uint64_t i = 0; i < count; i += BENCH_BATCH) {
        for (size_t j = 0; j < BENCH_BATCH; j++)
            keys[j] = next_key(random, bed->keys);
        caudal_take_batch(side->store, requests, BENCH_BATCH, decisions);
        for (size_t j = 0; j < BENCH_BATCH; j++) {
            verdicts.allowed += decisions[j].verdict == CAUDAL_ALLOW;
            verdicts.denied += decisions[j].verdict == CAUDAL_DENY;
        }
    }
    return verdicts;
}

static inline uint64_t read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline struct cdl_pair *floor_entry(const struct bench_bed *bed, const struct bench_key *key)
{
    const struct cdl_key_hash hash = cdl_key_hash(bed->secret, key, bed->key_length);
    struct cdl_table_line *line = &bed->lines[(hash.low >> 32) * bed->line_count >> 32];
    return &line->entries[hash.high % CDL_LINE_ENTRIES];
}

static inline bool floor_swap(struct cdl_pair *entry, uint64_t now)
{
    const struct cdl_pair was = cdl_pair_load(entry);
    return cdl_pair_swap(entry, was, (struct cdl_pair){was.first, now});
}

/* The line is asked for before the clock is read, so that the two overlap: a floor has its steps in the best order. */
static struct count take_floor_loop(const struct bench_bed *bed, uint64_t count, uint64_t *random, bool overlap)
{
    struct count swaps = {0, 0};
    for (uint64_t i = 0; i < count; i++) {
        const struct bench_key key = next_key(random, bed->keys);
        struct cdl_pair *entry = floor_entry(bed, &key);
        __builtin_prefetch(entry, 1);
        const bool done = floor_swap(entry, read_clock());
        swaps.allowed += done;
        if (!overlap)
            *random += !done;
    }
    return swaps;
}

static struct count batch_floor_loop(const struct bench_bed *bed, uint64_t count, uint64_t *random)
{
    struct bench_key keys[BENCH_BATCH];
    struct cdl_pair *entries[BENCH_BATCH];
    struct count swaps = {0, 0};
    for (uint64_t i = 0; i < count; i += BENCH_BATCH) {
        for (size_t j = 0; j < BENCH_BATCH; j++)
            keys[j] = next_key(random, bed->keys);
        for (size_t j = 0; j < BENCH_BATCH; j++) {
            entries[j] = floor_entry(bed, &keys[j]);
            __builtin_prefetch(entries[j], 1);
        }
        const uint64_t now = read_clock();
        for (size_t j = 0; j < BENCH_BATCH; j++)
            swaps.allowed += floor_swap(entries[j], now);
    }
    return swaps;
}

static void decide(const struct bench_plan *plan, uint64_t count, uint64_t *random, struct count *total)
{
    const struct bench_bed *bed = plan->bed;
    const struct bench_side *side = plan->operation == BENCH_DENIED_TAKE ? &bed->refusing : &bed->admitting;
    struct count these;
    if (plan->operation == BENCH_TAKE_BATCH)
        these = plan->floor ? batch_floor_loop(bed, count, random) : batch_loop(bed, side, count, random);
    else /* the floor of a denied take swaps too: a refusal is held against what an admission needs at least */
        these = plan->floor ? take_floor_loop(bed, count, random, plan->overlap)
                            : take_loop(bed, side, count, random, plan->overlap);
    total->allowed += these.allowed;
    total->denied += these.denied;
}

/* ---- threads ---- */

struct job {
    const struct bench_plan *plan;
    pthread_t thread;
    pthread_barrier_t *barrier;
    unsigned number;
    uint64_t random;
    struct count total;
    int64_t elapsed_ns;
    int64_t wall_ns, cpu_ns;
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * CDL_NS_PER_S + now.tv_nsec;
}

/* To the n-th processor of those that this process may use; where that fails the thread runs where it likes. */
static void pin(unsigned n)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || n-- > 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static void *run_job(void *argument)
{
    struct job *job = argument;
    const struct bench_plan *plan = job->plan;
    pin(job->number);
    pthread_barrier_wait(job->barrier);
    decide(plan, plan->lead_in, &job->random, &job->total);
    pthread_barrier_wait(job->barrier);
    const int64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    decide(plan, plan->count, &job->random, &job->total);
    job->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    job->wall_ns = clock_ns(CLOCK_MONOTONIC) - wall;
    job->elapsed_ns = plan->clock == CLOCK_THREAD_CPUTIME_ID ? job->cpu_ns : job->wall_ns;
    return NULL;
}

struct bench_part bench_run(const struct bench_plan *plan)
{
    struct job jobs[BENCH_THREADS_MAX];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, plan->threads);
    for (unsigned i = 0; i < plan->threads; i++) {
        jobs[i] = (struct job){.plan = plan, .barrier = &barrier, .number = i, .random = plan->seed + i};
        if (pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]) != 0)
            bench_fail("cannot start a thread");
    }
    struct bench_part part = {.decided = (plan->lead_in + plan->count) * plan->threads};
    for (unsigned i = 0; i < plan->threads; i++) {
        pthread_join(jobs[i].thread, NULL);
        part.ns += (double)jobs[i].elapsed_ns / (double)plan->count / plan->threads;
        part.allowed += jobs[i].total.allowed;
        part.denied += jobs[i].total.denied;
        part.disturbed |= (double)jobs[i].cpu_ns < 0.97 * (double)jobs[i].wall_ns;
    }
    pthread_barrier_destroy(&barrier);
    return part;
}
