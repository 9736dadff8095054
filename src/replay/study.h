/* What is learnt of one key under one limit while a log is replayed, beside the decision itself. Everything here is counted as if the
 * limit stood alone: what other limits refuse does not matter. Pure; the state of a key has a fixed size.
 *
 *   bounds     With stamps of a whole second nobody knows where in its second (its "cell") a request came. Over all placements of the
 *              requests within their cells the limit refuses at least `refused_least` and at most `refused_most`.
 *
 *              Least: each request is as patient as its stamp allows. It is asked at the beginning of its cell and, when refused, once
 *              more at the moment that it was told, if that lies in the cell. This schedule is a placement, and admits as many as any:
 *              to admit one fewer now saves at most one later.
 *
 *              Most: a set of requests is admitted whatever the placement when it conforms for the worst one. For a token bucket that is:
 *              in cells i to j at most B + r·(j - i - 1)·cell, for the last of one cell and the first of the next may be no time
 *              apart. So a request of cell j passes while cell j holds fewer than what was left at the beginning of cell j - 1, after
 *              that cell's requests: what comes back during a cell counts one cell later. For a sliding log the period is longer by a
 *              cell, less a nanosecond. Windows whose edges are those of cells count a cell in one window only: fixed ones are
 *              exact, sliding ones refuse most when all come at the beginning. Windows that cut through cells have no bound but the
 *              number of requests.
 *
 *              Both need that all requests of a key cost the same. Otherwise the bounds are 0 and the number of requests.
 *
 *   variants   What a fixed window, a sliding window and a token bucket of the same count and period would have refused, at the stamps as
 *              they are, and how many they would have admitted in some moving period: the edge effect.
 *
 *   headroom   The smallest burst at the limit's rate, and the smallest count of a window, with which nothing would have been refused;
 *              and the burst at a ladder of other rates.
 *
 * The token bucket's largest backlog is that of a bucket without bottom; the placement argument is that of jitter tolerance in the GCRA
 * (ITU-T I.371, annex A). */
#ifndef CDL_REPLAY_STUDY_H
#define CDL_REPLAY_STUDY_H

#include <stdbool.h>

#include "caudal/limit.h"
#include "caudal/store.h"

enum cdl_study_variant {
    CDL_STUDY_FIXED_WINDOW,
    CDL_STUDY_SLIDING_WINDOW,
    CDL_STUDY_TOKEN_BUCKET,
    CDL_STUDY_VARIANTS,
};

/* The ladder: the limit's rate times 2^((n - CDL_STUDY_OWN_RATE) / 2). */
#define CDL_STUDY_RATES 13u
#define CDL_STUDY_OWN_RATE 6u

/* What keys under the same limit share. `key_bytes` is the size of each key's state, which begins as zeros. */
struct cdl_study_rule;

/* `cell_ns` is how coarse the log's stamps are, when bounds are wanted; 0: they are not. `limit` is legal. `allocator` NULL: the C library's.
 * NULL when memory is short. */
struct cdl_study_rule *cdl_study_rule_new(const struct caudal_limit *limit, int64_t cell_ns,
                                          const struct caudal_allocator *allocator);
void cdl_study_rule_free(struct cdl_study_rule *rule);
size_t cdl_study_key_bytes(const struct cdl_study_rule *rule);
#define CDL_STUDY_KEY_BYTES_MAX 1024u /* of any rule */
/* The n-th rate of the ladder in tokens per period of the limit. */
double cdl_study_rate(const struct cdl_study_rule *rule, unsigned n);

/* A request of this key, whose `at_ns` (since 1970) is not before the one before it. `cost` may be 0. `key` is aligned for any integer of
 * 64 bits. */
void cdl_study_note(struct cdl_study_rule *rule, void *key, int64_t at_ns, uint64_t cost);

/* After its last request. Of an unlimited limit there are the bounds, which are 0, and what was asked for within a second. */
struct cdl_study_findings {
    uint64_t requests;
    bool has_bounds; /* else they are 0 and `requests`: costs differ, or memory was short for a log */
    uint64_t refused_least, refused_most;
    uint64_t variant_refused[CDL_STUDY_VARIANTS];
    /* The most tokens that passed in some period that begins anywhere, as far as was measured: in eighths of a period. */
    uint64_t variant_most[CDL_STUDY_VARIANTS];
    /* The smallest burst that refuses nothing, in tokens: at the limit's rate, and at the rates of the ladder. There it may be larger by
     * what is added against rounding, where backlogs are long or the rate is the limit's times a root of 2; it never grows with the rate.
     * UINT64_MAX: above CAUDAL_CAPACITY_MAX. */
    uint64_t burst;
    uint64_t burst_at[CDL_STUDY_RATES];
    /* The smallest count of a fixed or sliding window of the limit's period that refuses nothing. */
    uint64_t fixed_count, sliding_count;
    uint64_t second_most; /* the most tokens that were asked for within one second of the clock */
};

void cdl_study_find(const struct cdl_study_rule *rule, const void *key, struct cdl_study_findings *findings);

#endif
