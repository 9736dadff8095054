/* The sliding log: every admitted cost with its instant; at most `count` in every rolling period, exactly. An entry aged
 * exactly one period is out.
 *
 * The entries of all logs live in one pool of 64-byte chunks that the caller provides; a log is a list of chunks, oldest
 * first, with instants that never decrease. Dead entries at its old end are dropped when an admission is written, and not by
 * a refusal, which changes nothing. Work is bounded by the entries of one log, and those by `count` <= CAUDAL_LOG_COUNT_MAX. */
#ifndef CDL_ALGORITHM_SLIDING_LOG_H
#define CDL_ALGORITHM_SLIDING_LOG_H

#include "algorithm/decide.h"

#define CDL_LOG_CHUNK_ENTRIES 5

struct cdl_log_chunk {
    int64_t when[CDL_LOG_CHUNK_ENTRIES];
    uint16_t cost[CDL_LOG_CHUNK_ENTRIES]; /* <= CAUDAL_LOG_COUNT_MAX */
    uint32_t newer;                       /* 0: none */
    uint32_t older;
};
_Static_assert(sizeof(struct cdl_log_chunk) == 64, "a chunk is a cache line");

/* Chunk 0 is never used: 0 means none. */
struct cdl_log_pool {
    struct cdl_log_chunk *chunks;
    uint32_t free;      /* list through `newer` of chunks that came back */
    uint32_t untouched; /* first of those never used: the pool's memory is touched only as it is needed */
    uint32_t count;
    uint32_t free_count; /* both kinds */
};

/* One key's log. All zero: empty. */
struct cdl_log {
    uint32_t oldest; /* chunk */
    uint32_t newest; /* chunk */
    uint32_t begin;  /* first entry within the oldest chunk */
    uint32_t end;    /* one past the last entry within the newest chunk */
    uint32_t total;  /* sum of all costs, dead ones included */
};

struct cdl_log_rule {
    uint64_t count;
    int64_t period_ns;
};

/* Makes a pool of `count` chunks (chunk 0 included) at `chunks`, all free. */
void cdl_log_pool_init(struct cdl_log_pool *pool, struct cdl_log_chunk *chunks, uint32_t count);

/* Decides at `now`; the contract is that of cdl_token_bucket_decide, an empty log being a fresh key. A take needs one free
 * chunk in the pool. */
bool cdl_log_decide(const struct cdl_log_rule *rule, int64_t now, struct cdl_log *log, struct cdl_log_pool *pool,
                    const struct cdl_question *question, struct caudal_decision *decision);

/* Nanoseconds until no entry counts any more; 0 when none does. */
int64_t cdl_log_time_to_empty(const struct cdl_log_rule *rule, int64_t now, const struct cdl_log *log,
                              const struct cdl_log_pool *pool);

/* Gives all chunks back to the pool. */
void cdl_log_clear(struct cdl_log *log, struct cdl_log_pool *pool);

#endif
