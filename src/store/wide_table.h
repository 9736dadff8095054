/* The table for states that do not fit 64 bits: windows with large counts, sliding logs, and keys whose limit comes with each call.
 *
 * Striped: a key's stripe is chosen by its hash, and one lock guards everything in a stripe: records, their chains, and the
 * pool that its logs' entries live in. Memory is fixed at open and touched only as it is used. A record knows its key by all
 * 128 bits of hash. When a stripe is full, a record that does not matter any more makes room; failing that, the one with the least
 * time left among the few that are looked at is forgotten, and counted. */
#ifndef CDL_STORE_WIDE_TABLE_H
#define CDL_STORE_WIDE_TABLE_H

#include <pthread.h>

#include "algorithm/per_call.h"
#include "algorithm/sliding_log.h"
#include "algorithm/window.h"
#include "base/memory.h"
#include "identity/key_hash.h"

enum cdl_wide_kind {
    CDL_WIDE_WINDOW,
    CDL_WIDE_LOG,
    CDL_WIDE_PER_CALL,
};

struct cdl_wide_record {
    struct cdl_key_hash hash;
    uint16_t number; /* the limit's; 0: a record that is free */
    uint8_t kind;    /* enum cdl_wide_kind: which of those below it is, whatever becomes of the limit */
    uint32_t next;   /* in the chain of its bucket, or among the free; 0: none */
    union {
        struct cdl_window_state window;
        struct cdl_log log;
        struct cdl_per_call_state per_call;
    };
};
_Static_assert(sizeof(struct cdl_wide_record) == 64, "a record is a cache line");

struct cdl_wide_stripe {
    pthread_mutex_t lock;
    struct cdl_wide_record *records; /* record 0 is never used: 0 means none */
    uint32_t *buckets;
    struct cdl_log_pool pool;
    uint32_t free;
    uint32_t untouched; /* first record never used */
    uint32_t hand;      /* where the search for room goes on */
    uint64_t inserted;
    uint64_t live_evictions;
} __attribute__((aligned(64)));

struct cdl_wide_table {
    struct cdl_wide_stripe *stripes;
    struct cdl_wide_record *records;
    uint32_t *buckets;
    struct cdl_log_chunk *chunks;
    uint32_t stripe_count;       /* a power of two */
    uint32_t records_per_stripe; /* record 0 included */
    uint32_t buckets_per_stripe; /* a power of two */
    uint32_t chunks_per_stripe;  /* chunk 0 included */
};

/* Nanoseconds until a record does not matter any more; 0 when it does not, now. Called under the stripe's lock. */
struct cdl_wide_judge {
    int64_t (*time_left)(void *context, const struct cdl_wide_record *record, const struct cdl_log_pool *pool);
    void *context;
};

bool cdl_wide_open(struct cdl_wide_table *table, uint64_t keys, uint64_t log_entries,
                   const struct caudal_allocator *allocator);
void cdl_wide_close(struct cdl_wide_table *table, const struct caudal_allocator *allocator);

static inline struct cdl_wide_stripe *cdl_wide_stripe(const struct cdl_wide_table *table, struct cdl_key_hash hash)
{
    return &table->stripes[hash.high & (table->stripe_count - 1)];
}

/* Where the chain of a key's bucket begins: the number of its first record. Read without the stripe's lock it is only good for a guess. */
static inline uint32_t *cdl_wide_bucket(const struct cdl_wide_table *table, const struct cdl_wide_stripe *stripe,
                                        struct cdl_key_hash hash, uint16_t number)
{
    return &stripe->buckets[(hash.low + number * UINT64_C(0x9E3779B97F4A7C15)) & (table->buckets_per_stripe - 1)];
}

/* The functions below want the stripe's lock held. */

/* The key's record, or NULL. */
struct cdl_wide_record *cdl_wide_find(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe,
                                      struct cdl_key_hash hash, uint16_t number);
/* A new record, zeroed, for a key that has none. */
struct cdl_wide_record *cdl_wide_insert(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe,
                                        struct cdl_key_hash hash, uint16_t number, enum cdl_wide_kind kind,
                                        const struct cdl_wide_judge *judge);
/* Forgets a record. */
void cdl_wide_remove(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe,
                     struct cdl_wide_record *record);
/* Makes sure that the pool has a chunk to give, forgetting another log than `kept` if it must. */
void cdl_wide_reserve_chunk(const struct cdl_wide_table *table, struct cdl_wide_stripe *stripe,
                            const struct cdl_wide_record *kept, const struct cdl_wide_judge *judge);

/* The functions below take the locks themselves. */

void cdl_wide_lock_all(struct cdl_wide_table *table);
void cdl_wide_unlock_all(struct cdl_wide_table *table);
/* Forgets all records of a limit's number. */
void cdl_wide_drop(struct cdl_wide_table *table, uint16_t number);
void cdl_wide_count(struct cdl_wide_table *table, const struct cdl_wide_judge *judge, uint64_t *live,
                    uint64_t *inserted, uint64_t *live_evictions);
uint64_t cdl_wide_bytes(const struct cdl_wide_table *table);

#endif
