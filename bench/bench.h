/* What the parts of bench_core share.
 *
 * A decision cannot be cheaper than what it is made of: the hash of the key, the touch of one random line of the
 * table, one 16-byte compare-and-swap and a reading of the clock. The benchmark runs exactly that, the floor, beside
 * each operation, on an array of the same size from the same allocator, and reports how many times the floor a
 * decision costs. A ratio travels from machine to machine better than nanoseconds do.
 *
 * Single takes are chained: which key is next depends on the last answer, as for a caller that acts on one answer
 * before it asks again. Otherwise the processor begins the next questions while it waits for memory, the more of them
 * the fewer instructions each has, and what is measured is how far it looks ahead. Who has many questions at once asks
 * in batches.
 *
 *   bed.c         the stores and the array that one number of keys is measured on
 *   part.c        the loops that are timed, on one thread or several
 *   report.c      medians, the table as text and as JSON
 *   bench_core.c  options, and what is measured in which order */
#ifndef CAUDAL_BENCH_H
#define CAUDAL_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "caudal/caudal.h"
#include "store/memory_store.h"

#define BENCH_BATCH 16 /* decisions in a batch */
#define BENCH_THREADS_MAX 2
#define BENCH_ROUNDS_MAX 101

/* ---- bed.c ---- */

/* Keys are 16 bytes: a prefix and a number, as "an API token" or "an IPv6 address" would be. */
struct bench_key {
    uint64_t prefix;
    uint64_t index;
};

static inline struct bench_key bench_key(uint64_t index)
{
    return (struct bench_key){UINT64_C(0x6c61647561632f6b), index};
}

/* A store whose limit gives every take the same verdict. */
struct bench_side {
    struct caudal_store *store;
    uint32_t limit;
};

struct bench_bed {
    uint64_t keys;
    size_t key_length;            /* a variable, so that the floor's hash is not compiled for one length only */
    struct bench_side admitting;  /* every key has been taken from, none ever runs dry */
    struct bench_side refusing;   /* every key is empty for as long as the benchmark runs */
    struct cdl_table_line *lines; /* the floor's array */
    uint64_t line_count;
    uint8_t secret[CDL_KEY_SECRET_BYTES];
};

/* Opens stores for `keys` keys and takes one token from each key. */
void bench_bed_open(struct bench_bed *bed, uint64_t keys);
void bench_bed_close(struct bench_bed *bed);

/* The table of the keys whose state fits one word. */
const struct cdl_table *bench_table(const struct bench_side *side);

/* Keys that have come into a table so far. No thread may be deciding. */
uint64_t bench_inserted(const struct bench_side *side);

/* Says what is wrong and ends the program: a number that does not mean what it says is worse than none. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- part.c ---- */

enum bench_operation {
    BENCH_TAKE,
    BENCH_DENIED_TAKE,
    BENCH_TAKE_BATCH,
    BENCH_OPERATIONS, /* how many there are */
};

struct bench_plan {
    const struct bench_bed *bed;
    enum bench_operation operation;
    bool floor; /* the floor of the operation, not the operation */
    unsigned threads;
    uint64_t count;   /* decisions to time on each thread, a multiple of BENCH_BATCH */
    uint64_t lead_in; /* decisions before that, not timed: they bring the table back into the caches */
    uint64_t seed;    /* of the order of the keys */
    bool overlap;     /* takes are not chained */
    clockid_t clock;  /* CLOCK_MONOTONIC, or CLOCK_THREAD_CPUTIME_ID on a machine that does other things as well */
};

struct bench_part {
    double ns; /* a decision on one thread took */
    /* Of all threads, lead-in included: */
    uint64_t decided;
    uint64_t allowed; /* verdicts, or swaps of the floor that succeeded */
    uint64_t denied;
    bool disturbed; /* something else ran on a thread's processor */
};

/* Runs all threads at once, each pinned to a processor of its own where that is possible. */
struct bench_part bench_run(const struct bench_plan *plan);

/* ---- report.c ---- */

/* Several measurements of one thing. */
struct bench_sample {
    unsigned count;
    double values[BENCH_ROUNDS_MAX];
};

struct bench_row {
    enum bench_operation operation;
    uint64_t keys;
    unsigned threads;
    struct bench_sample caudal_ns, floor_ns;
    struct bench_sample ratio; /* of each pair */
    unsigned disturbed;        /* pairs that were kept although something else ran meanwhile */
};

/* A refusal against an admission: of each round, denied take / take. */
struct bench_refusal {
    uint64_t keys;
    unsigned threads;
    struct bench_sample ratio;
};

/* The table of a store that was opened for `keys` keys, after so many came in. */
struct bench_memory {
    uint64_t keys, live_keys, live_evictions;
    uint64_t table_bytes; /* of the lines: all that grows with the number of keys */
};

#define BENCH_KEYS_MAX 8 /* numbers of keys that are measured */
#define BENCH_ROWS_MAX (BENCH_KEYS_MAX * BENCH_THREADS_MAX)

struct bench_report {
    unsigned rounds;
    double part_ms;
    bool cpu_time;
    bool overlap;
    double clock_ns; /* what one reading of the clock costs */
    unsigned row_count, refusal_count, memory_count;
    struct bench_row rows[BENCH_ROWS_MAX * BENCH_OPERATIONS];
    struct bench_refusal refusals[BENCH_ROWS_MAX];
    struct bench_memory memories[BENCH_KEYS_MAX];
};

const char *bench_operation_name(enum bench_operation operation);
void bench_sample_add(struct bench_sample *sample, double value);

void bench_print_head(const struct bench_report *report);
void bench_print_row(const struct bench_row *row);
/* What is known only at the end: refusals, memory, and how many rows are within reach. */
void bench_print_rest(const struct bench_report *report);
void bench_write_json(const struct bench_report *report, const char *path);

#endif
