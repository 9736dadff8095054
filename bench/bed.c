#include "bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/random.h>

#define MS_NS UINT64_C(1000000)
#define DAY_NS (UINT64_C(86400) * 1000000000)

_Noreturn void bench_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

/* Seven tokens in 10·keys milliseconds: some ten thousand times less than the benchmark takes from a key, for any number
 * of keys, so that buckets are in use and neither full nor empty. The burst is near the most that may take so long to
 * refill (100 years) and lasts for hours. Seven, so that the clock's units are no power of two. */
static struct caudal_limit admitting_limit(uint64_t keys)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    limit.count = 7;
    limit.period_ns = keys * 10 * MS_NS;
    limit.burst = cdl_min_u64(UINT64_C(2000000000000) / keys, CAUDAL_CAPACITY_MAX);
    return limit;
}

static struct caudal_limit refusing_limit(void)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    limit.count = 7; /* the next one comes after three hours */
    limit.period_ns = DAY_NS;
    limit.burst = 1;
    return limit;
}

/* Takes one token from every key. */
static void fill(const struct bench_side *side, const struct bench_bed *bed)
{
    struct bench_key keys[BENCH_BATCH];
    struct caudal_request requests[BENCH_BATCH];
    struct caudal_decision decisions[BENCH_BATCH];
    for (uint64_t next = 0; next < bed->keys;) {
        size_t count = 0;
        for (; count < BENCH_BATCH && next < bed->keys; count++, next++) {
            keys[count] = bench_key(next);
            requests[count] = (struct caudal_request){side->limit, &keys[count], bed->key_length, 1};
        }
        if (caudal_take_batch(side->store, requests, count, decisions) != CAUDAL_OK)
            bench_fail("a batch of takes failed");
        for (size_t i = 0; i < count; i++)
            if (decisions[i].verdict != CAUDAL_ALLOW)
                bench_fail("a key that was never seen was refused");
    }
}

static void open_side(struct bench_side *side, const struct bench_bed *bed, const struct caudal_limit *limit)
{
    char url[64];
    struct caudal_problem problem;
    snprintf(url, sizeof url, "memory:?keys=%llu", (unsigned long long)bed->keys);
    if (caudal_store_open(url, NULL, &side->store, &problem) != CAUDAL_OK ||
        caudal_add_limit(side->store, "bench", limit, &side->limit, &problem) != CAUDAL_OK)
        bench_fail("%s: %s", url, problem.message);
    fill(side, bed);
}

void bench_bed_open(struct bench_bed *bed, uint64_t keys)
{
    *bed = (struct bench_bed){.keys = keys, .key_length = sizeof(struct bench_key)};
    const struct caudal_limit admit = admitting_limit(keys), refuse = refusing_limit();
    open_side(&bed->admitting, bed, &admit);
    open_side(&bed->refusing, bed, &refuse);

    bed->line_count = bench_table(&bed->admitting)->line_count;
    bed->lines = cdl_allocate(cdl_allocator_default(), bed->line_count, sizeof *bed->lines, sizeof *bed->lines);
    if (bed->lines == NULL || getrandom(bed->secret, sizeof bed->secret, 0) != (ssize_t)sizeof bed->secret)
        bench_fail("no memory or no random bytes for the floor of %llu keys", (unsigned long long)keys);
    for (uint64_t i = 0; i < bed->line_count; i++) /* so that no page of it is met for the first time later */
        bed->lines[i].entries[0].first = i;
}

void bench_bed_close(struct bench_bed *bed)
{
    caudal_store_close(bed->admitting.store);
    caudal_store_close(bed->refusing.store);
    cdl_release(cdl_allocator_default(), bed->lines, bed->line_count, sizeof *bed->lines);
}

const struct cdl_table *bench_table(const struct bench_side *side)
{
    return &cdl_memory_store(side->store)->table;
}

uint64_t bench_inserted(const struct bench_side *side)
{
    const struct cdl_table *table = bench_table(side);
    uint64_t inserted = 0;
    for (uint32_t i = 0; i < table->stripe_count; i++)
        inserted += table->stripes[i].inserted;
    return inserted;
}
