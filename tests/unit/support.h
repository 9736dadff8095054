/* What unit tests share: random numbers that are the same on every run, limits in one line, a store on a fake clock, and an
 * allocator that counts and fails on request. A test file includes this instead of cmocka.h. */
#ifndef TESTS_UNIT_SUPPORT_H
#define TESTS_UNIT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "caudal/caudal.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

#define MICROSECOND INT64_C(1000)
#define MILLISECOND INT64_C(1000000)
#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define YEAR (365 * DAY)
/* 2025-12-01T00:00:00Z: the start of a day, an hour, a minute and a second, so windows begin here. */
#define EPOCH (INT64_C(1764547200) * SECOND)

/* ---- how much ---- */

/* `count` made smaller, to CAUDAL_TEST_SCALE (10 to 100) per cent if that is set: builds that watch memory or threads, and emulators, are
 * many times slower. At least 1. */
uint64_t scaled(uint64_t count);

/* ---- random numbers ---- */

/* SplitMix64 (Steele, Lea, Flood 2014): any seed will do. */
struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* 0 to n - 1. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return rng_next(rng) % n;
}

/* 1 to `most`, each order of magnitude as likely as any other. */
static inline uint64_t rng_magnitude(struct rng *rng, uint64_t most)
{
    uint64_t value = rng_next(rng) >> rng_below(rng, 64);
    return value % most + 1;
}

/* -most to most, each order of magnitude as likely as any other. */
static inline int64_t rng_signed(struct rng *rng, int64_t most)
{
    int64_t value = (int64_t)rng_magnitude(rng, (uint64_t)most);
    return rng_next(rng) & 1 ? value : -value;
}

/* ---- limits ---- */

static inline struct caudal_limit limit_of(enum caudal_algorithm algorithm, uint64_t count, int64_t period_ns)
{
    return (struct caudal_limit){sizeof(struct caudal_limit), algorithm, count, (uint64_t)period_ns,
                                 CAUDAL_BURST_DEFAULT};
}

static inline struct caudal_limit bucket_of(uint64_t burst, uint64_t count, int64_t period_ns)
{
    return (struct caudal_limit){sizeof(struct caudal_limit), CAUDAL_TOKEN_BUCKET, count, (uint64_t)period_ns, burst};
}

/* Any bucket that caudal_limit_check accepts: small and huge numbers, odd ratios and round ones. */
static inline struct caudal_limit random_bucket(struct rng *rng)
{
    for (;;) {
        struct caudal_limit limit = bucket_of(0, 0, 1);
        limit.burst = rng_magnitude(rng, CAUDAL_CAPACITY_MAX);
        limit.count = rng_magnitude(rng, CAUDAL_CAPACITY_MAX);
        limit.period_ns = rng_magnitude(rng, CAUDAL_REFILL_MAX_NS);
        if (rng_below(rng, 4) == 0)
            limit.burst = CAUDAL_BURST_DEFAULT;
        if (caudal_limit_check(&limit, NULL) == CAUDAL_OK)
            return limit;
    }
}

/* ---- a store on a fake clock ---- */

struct world {
    struct caudal_fake_clock *clock;
    struct caudal_store *store;
    unsigned limits; /* added so far */
};

/* Opens a store whose clock stands at EPOCH. */
void world_open(struct world *world, const char *url);
void world_close(struct world *world);
/* As cmocka fixtures: *state is a struct world * with a store of 1,000 keys. */
int world_setup(void **state);
int world_teardown(void **state);

/* Adds a limit under a name of its own. */
uint32_t world_add(struct world *world, struct caudal_limit limit);
void world_set(struct world *world, uint32_t id, struct caudal_limit limit);
void world_set_time(struct world *world, int64_t now_ns);
void world_advance(struct world *world, int64_t delta_ns);

/* Each asks about a NUL-terminated key and fails the test unless the call succeeds. */
struct caudal_decision take(struct world *world, uint32_t limit, const char *key, uint64_t cost);
struct caudal_decision peek(struct world *world, uint32_t limit, const char *key, uint64_t cost);
struct caudal_decision take_up_to(struct world *world, uint32_t limit, const char *key, uint64_t least, uint64_t most);
struct caudal_decision refund(struct world *world, uint32_t limit, const char *key, uint64_t tokens);
void reset(struct world *world, uint32_t limit, const char *key);
/* The whole tokens that a key has left. */
uint64_t left(struct world *world, uint32_t limit, const char *key);
/* Takes one at a time until refused; how many were admitted. */
uint64_t drain(struct world *world, uint32_t limit, const char *key);
struct caudal_store_stats stats_of(struct world *world);

void assert_same_limit(struct caudal_limit got, struct caudal_limit want);
/* Two decisions that agree in every field. */
void assert_same_decision(struct caudal_decision got, struct caudal_decision want);
/* An answer without a verdict: the code and nothing else. */
void assert_no_verdict(struct caudal_decision decision, int status);

/* ---- the raw memory of a store ---- */

/* All states of a memory store as bytes, to see that nothing was touched. */
struct snapshot {
    unsigned char *bytes;
    size_t length;
};

struct snapshot snapshot_take(struct caudal_store *store);
/* Fails the test when a byte of the store differs, and frees the snapshot. */
void snapshot_compare(struct snapshot *snapshot, struct caudal_store *store);

/* ---- every way of keeping a state ---- */

/* A limit that holds ten times `unit`, and how its states are kept (enum cdl_layout). */
struct kind {
    const char *name;
    struct caudal_limit limit;
    uint64_t unit;
    uint32_t layout;
    int64_t horizon_ns; /* whatever was spent, after this a key is as new */
};

#define KINDS 6
extern const struct kind kinds[KINDS];

/* Adds the kind's limit, and makes sure that its states are kept as the kind says. */
uint32_t world_add_kind(struct world *world, const struct kind *kind);
uint32_t layout_of(struct world *world, uint32_t limit);

/* ---- an allocator that counts ---- */

struct counting_allocator {
    struct caudal_allocator allocator; /* to open a store with */
    long fail_at;                      /* the allocation that fails, counted from 0; -1: none */
    long calls;                        /* allocations asked for so far */
    long live_blocks;
    size_t live_bytes;
};

/* Makes `counting` ready. It checks that each block comes back with its own size. */
void counting_allocator_init(struct counting_allocator *counting);

#endif
