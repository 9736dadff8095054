/* Counting decisions without sharing.
 *
 * Each worker (a thread that decides) owns a block of cells and counts in it as in plain variables; a scrape adds the blocks
 * up. A decision is counted by its limit, its outcome and who took it.
 *
 * Limits get a slot when a policy is loaded. The number of slots is fixed at start; limits beyond it share the slot "other",
 * and how many do is a metric. So neither traffic nor reloads make more series than configured.
 *
 * Counters only rise, over any number of reloads. A slot is found by the limit's name: a limit that stays keeps its counts. A
 * limit that a new policy no longer has keeps its slot, and its series, until the slot is needed for another limit;
 * then its counts move to "other". The sum over all limits never falls.
 *
 *     load:    slot = cdl_counters_acquire(counters, name) for each limit of the new policy, before any worker sees it
 *     decide:  cdl_counters_decision(worker, slot, CDL_COUNTED_DENY, CAUDAL_SOURCE_STORE)
 *     unload:  cdl_counters_release(counters, slot) for each limit of the old policy, after the last worker has left it
 *
 * That order is what makes it safe to give a slot away: a slot that nobody holds is written by no worker, and whoever let
 * go of it last did so after all that it counted. */
#ifndef CDL_METRICS_COUNTERS_H
#define CDL_METRICS_COUNTERS_H

#include "base/slice.h"
#include "caudal/store.h"
#include "metrics/cell.h"
#include "metrics/prometheus.h"

enum cdl_counted {
    CDL_COUNTED_ALLOW,
    CDL_COUNTED_DENY,
    CDL_COUNTED_NEVER,
    CDL_COUNTED_SHADOW_DENY, /* let pass by a limit in shadow mode that would have refused */
    CDL_COUNTED_ERROR,       /* no decision, or one that the failure policy took because there was none */
    CDL_COUNTED_EXEMPT,      /* of a request: no limit applied to it */
    CDL_COUNTED_KINDS,
};

#define CDL_SOURCES (CAUDAL_SOURCE_FAILURE_POLICY + 1)
#define CDL_LIMIT_LABEL_MAX 255u          /* bytes of a limit's name */
#define CDL_COUNTERS_LIMITS_MAX 65536u    /* slots that may be configured */
#define CDL_COUNTERS_OTHER UINT32_C(1)    /* the slot of all limits that have none of their own */
#define CDL_COUNTERS_OTHER_NAME "other"   /* a limit of this very name shares it */
#define CDL_COUNTERS_REQUESTS UINT32_C(0) /* not a limit: requests as a whole */

struct cdl_counter_cells {
    cdl_cell by[CDL_COUNTED_KINDS][CDL_SOURCES];
} __attribute__((aligned(CDL_CACHE_LINE)));

/* A worker's block. Its pointers are set once. */
struct cdl_counters_worker {
    struct cdl_counter_cells *slots;
    cdl_cell *events;
};

struct cdl_counters;

struct cdl_counters_options {
    uint32_t workers; /* threads that count, at least 1 */
    uint32_t limits;  /* slots for limits, 1 to CDL_COUNTERS_LIMITS_MAX; each takes 256 bytes a worker */
    uint32_t events;  /* further numbers, which the caller names: connections, malformed requests… */
};

/* NULL when an option is out of range or memory is short. */
struct cdl_counters *cdl_counters_open(const struct cdl_counters_options *options,
                                       const struct caudal_allocator *allocator);
/* After the last worker has stopped. NULL does nothing. */
void cdl_counters_close(struct cdl_counters *counters);

/* The block of worker `index`, for one thread at a time. */
struct cdl_counters_worker *cdl_counters_worker(struct cdl_counters *counters, uint32_t index);

/* A slot for the limit of that name, to be released as often as it was acquired. CDL_COUNTERS_OTHER when there is none left
 * or the name is empty or too long. Any thread. */
uint32_t cdl_counters_acquire(struct cdl_counters *counters, struct cdl_slice name);
void cdl_counters_release(struct cdl_counters *counters, uint32_t slot);

/* Counts a limit's decision. Only the worker's own thread. */
static inline void cdl_counters_decision(struct cdl_counters_worker *worker, uint32_t slot, enum cdl_counted outcome,
                                         enum caudal_source source)
{
    cdl_cell_add(&worker->slots[slot].by[outcome][source], 1);
}

/* Counts a request, whatever the number of its limits: once each, so that the outcomes add up to the requests. */
static inline void cdl_counters_request(struct cdl_counters_worker *worker, enum cdl_counted outcome,
                                        enum caudal_source source)
{
    cdl_counters_decision(worker, CDL_COUNTERS_REQUESTS, outcome, source);
}

static inline void cdl_counters_event(struct cdl_counters_worker *worker, uint32_t event, uint64_t amount)
{
    cdl_cell_add(&worker->events[event], amount);
}

/* Sums over all workers, from any thread. cdl_counters_sum is for a slot that the caller holds, for CDL_COUNTERS_REQUESTS or for
 * CDL_COUNTERS_OTHER. */
uint64_t cdl_counters_sum(struct cdl_counters *counters, uint32_t slot, enum cdl_counted outcome,
                          enum caudal_source source);
uint64_t cdl_counters_event_sum(struct cdl_counters *counters, uint32_t event);

/* Writes caudal_requests_total{outcome,source}, caudal_decisions_total{limit,verdict,source} and caudal_limit_labels_dropped_total. A
 * series is there from its first count on, and those of plain answers from the start, so that a rate can be taken of them. */
void cdl_counters_expose(struct cdl_counters *counters, struct cdl_exposition *page);

#endif
