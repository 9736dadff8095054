#include "metrics/counters.h"

#include <pthread.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"

#define FIRST_LIMIT 2u /* after requests and other */
#define NONE UINT32_MAX

_Static_assert(sizeof(struct cdl_counter_cells) == 256, "what the options say a slot takes");

/* What is known about a slot; guarded by the lock. A name stays when its last holder has gone, until the slot is given to
 * another: the series goes on, and a limit that comes back finds its counts. */
struct slot {
    uint32_t holders;
    uint32_t next;       /* in the list of its hash, or NONE */
    uint8_t name_length; /* 0: never used */
    char name[CDL_LIMIT_LABEL_MAX];
};

struct cdl_counters {
    struct caudal_allocator allocator;
    struct cdl_counters_options options;
    struct cdl_counters_worker *workers;

    pthread_mutex_t lock; /* loading, unloading and exposing; never counting */
    struct slot *slots;
    uint32_t *heads;                                /* slot by hash of name, or NONE; as many as slots */
    uint32_t slots_used;                            /* those below were used at some time */
    uint32_t retired;                               /* slots with a name that nobody holds */
    uint32_t hand;                                  /* where the search for a retired slot goes on */
    uint64_t labels_dropped;                        /* limits that were loaded and got no slot of their own */
    uint64_t moved[CDL_COUNTED_KINDS][CDL_SOURCES]; /* counts of limits that lost their slot */
};

static uint32_t slot_count(const struct cdl_counters *counters)
{
    return counters->options.limits + FIRST_LIMIT;
}

/* ---- Opening and closing ---- */

static uint32_t event_count(const struct cdl_counters *counters)
{
    /* Whole cache lines, and never nothing. */
    const uint32_t a_line = CDL_CACHE_LINE / sizeof(cdl_cell);
    return (counters->options.events / a_line + 1) * a_line;
}

static bool open_workers(struct cdl_counters *counters)
{
    const struct caudal_allocator *allocator = &counters->allocator;
    counters->workers = cdl_allocate(allocator, counters->options.workers, sizeof *counters->workers, CDL_CACHE_LINE);
    if (counters->workers == NULL)
        return false;
    for (uint32_t i = 0; i < counters->options.workers; i++) {
        struct cdl_counters_worker *worker = &counters->workers[i];
        worker->slots = cdl_allocate(allocator, slot_count(counters), sizeof *worker->slots, CDL_CACHE_LINE);
        worker->events = cdl_allocate(allocator, event_count(counters), sizeof *worker->events, CDL_CACHE_LINE);
        if (worker->slots == NULL || worker->events == NULL)
            return false;
    }
    return true;
}

static bool open_registry(struct cdl_counters *counters)
{
    counters->slots = cdl_allocate(&counters->allocator, slot_count(counters), sizeof *counters->slots, CDL_CACHE_LINE);
    counters->heads = cdl_allocate(&counters->allocator, slot_count(counters), sizeof *counters->heads, CDL_CACHE_LINE);
    if (counters->slots == NULL || counters->heads == NULL)
        return false;
    for (uint32_t i = 0; i < slot_count(counters); i++)
        counters->heads[i] = NONE;
    counters->slots_used = FIRST_LIMIT;
    counters->hand = FIRST_LIMIT;
    return true;
}

struct cdl_counters *cdl_counters_open(const struct cdl_counters_options *options,
                                       const struct caudal_allocator *allocator)
{
    if (options->workers == 0 || options->limits == 0 || options->limits > CDL_COUNTERS_LIMITS_MAX)
        return NULL;
    struct cdl_counters *counters = cdl_allocate(allocator, 1, sizeof *counters, CDL_CACHE_LINE);
    if (counters == NULL)
        return NULL;
    counters->allocator = *allocator;
    counters->options = *options;
    pthread_mutex_init(&counters->lock, NULL);
    if (!open_workers(counters) || !open_registry(counters)) {
        cdl_counters_close(counters);
        return NULL;
    }
    return counters;
}

static void close_workers(struct cdl_counters *counters)
{
    if (counters->workers == NULL)
        return;
    for (uint32_t i = 0; i < counters->options.workers; i++) {
        struct cdl_counters_worker *worker = &counters->workers[i];
        cdl_release(&counters->allocator, worker->slots, slot_count(counters), sizeof *worker->slots);
        cdl_release(&counters->allocator, worker->events, event_count(counters), sizeof *worker->events);
    }
    cdl_release(&counters->allocator, counters->workers, counters->options.workers, sizeof *counters->workers);
}

void cdl_counters_close(struct cdl_counters *counters)
{
    if (counters == NULL)
        return;
    const struct caudal_allocator allocator = counters->allocator;
    close_workers(counters);
    cdl_release(&allocator, counters->slots, slot_count(counters), sizeof *counters->slots);
    cdl_release(&allocator, counters->heads, slot_count(counters), sizeof *counters->heads);
    pthread_mutex_destroy(&counters->lock);
    cdl_release(&allocator, counters, 1, sizeof *counters);
}

struct cdl_counters_worker *cdl_counters_worker(struct cdl_counters *counters, uint32_t index)
{
    return &counters->workers[index];
}

/* ---- Slots; all of these want the lock held ---- */

static struct cdl_slice name_of(const struct cdl_counters *counters, uint32_t slot)
{
    return (struct cdl_slice){counters->slots[slot].name, counters->slots[slot].name_length};
}

static uint32_t *head_of(struct cdl_counters *counters, struct cdl_slice name)
{
    return &counters->heads[XXH3_64bits(name.bytes, name.length) % slot_count(counters)];
}

static uint32_t find(struct cdl_counters *counters, struct cdl_slice name)
{
    uint32_t slot = *head_of(counters, name);
    while (slot != NONE && !cdl_slice_equal(name_of(counters, slot), name))
        slot = counters->slots[slot].next;
    return slot;
}

static uint64_t sum_cells(const struct cdl_counters *counters, uint32_t slot, uint32_t outcome, uint32_t source)
{
    uint64_t sum = slot == CDL_COUNTERS_OTHER ? counters->moved[outcome][source] : 0;
    for (uint32_t i = 0; i < counters->options.workers; i++)
        sum += cdl_cell_read(&counters->workers[i].slots[slot].by[outcome][source]);
    return sum;
}

/* Moves the counts of a slot that nobody holds to "other". No worker writes to it (see the head of counters.h), so its cells may
 * be set from here. */
static void empty(struct cdl_counters *counters, uint32_t slot)
{
    for (uint32_t outcome = 0; outcome < CDL_COUNTED_KINDS; outcome++) {
        for (uint32_t source = 0; source < CDL_SOURCES; source++) {
            counters->moved[outcome][source] += sum_cells(counters, slot, outcome, source);
            for (uint32_t i = 0; i < counters->options.workers; i++)
                atomic_store_explicit(&counters->workers[i].slots[slot].by[outcome][source], 0, memory_order_relaxed);
        }
    }
    uint32_t *link = head_of(counters, name_of(counters, slot));
    while (*link != slot)
        link = &counters->slots[*link].next;
    *link = counters->slots[slot].next;
}

/* A slot without a name: one that was never used, or one whose limit is gone; NONE when all are held. */
static uint32_t take_free(struct cdl_counters *counters)
{
    if (counters->slots_used < slot_count(counters))
        return counters->slots_used++;
    if (counters->retired == 0)
        return NONE;
    while (counters->slots[counters->hand].holders > 0)
        counters->hand = counters->hand + 1 < slot_count(counters) ? counters->hand + 1 : FIRST_LIMIT;
    empty(counters, counters->hand);
    counters->retired--;
    return counters->hand;
}

static uint32_t give_name(struct cdl_counters *counters, struct cdl_slice name)
{
    const bool possible = name.length > 0 && name.length <= CDL_LIMIT_LABEL_MAX;
    const uint32_t slot = possible ? take_free(counters) : NONE;
    if (slot == NONE) {
        counters->labels_dropped++;
        return CDL_COUNTERS_OTHER;
    }
    struct slot *named = &counters->slots[slot];
    memcpy(named->name, name.bytes, name.length);
    named->name_length = (uint8_t)name.length;
    named->next = *head_of(counters, name);
    *head_of(counters, name) = slot;
    counters->retired++; /* until the caller holds it */
    return slot;
}

uint32_t cdl_counters_acquire(struct cdl_counters *counters, struct cdl_slice name)
{
    if (cdl_slice_equal(name, CDL_SLICE(CDL_COUNTERS_OTHER_NAME)))
        return CDL_COUNTERS_OTHER;
    pthread_mutex_lock(&counters->lock);
    uint32_t slot = find(counters, name);
    if (slot == NONE)
        slot = give_name(counters, name);
    if (slot != CDL_COUNTERS_OTHER && counters->slots[slot].holders++ == 0)
        counters->retired--;
    pthread_mutex_unlock(&counters->lock);
    return slot;
}

void cdl_counters_release(struct cdl_counters *counters, uint32_t slot)
{
    if (slot == CDL_COUNTERS_OTHER)
        return;
    pthread_mutex_lock(&counters->lock);
    if (--counters->slots[slot].holders == 0)
        counters->retired++;
    pthread_mutex_unlock(&counters->lock);
}

/* ---- Looking ---- */

uint64_t cdl_counters_sum(struct cdl_counters *counters, uint32_t slot, enum cdl_counted outcome,
                          enum caudal_source source)
{
    pthread_mutex_lock(&counters->lock);
    const uint64_t sum = sum_cells(counters, slot, outcome, source);
    pthread_mutex_unlock(&counters->lock);
    return sum;
}

uint64_t cdl_counters_event_sum(struct cdl_counters *counters, uint32_t event)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < counters->options.workers; i++)
        sum += cdl_cell_read(&counters->workers[i].events[event]);
    return sum;
}

static const char *const outcome_names[CDL_COUNTED_KINDS] = {"allow",       "deny",  "never",
                                                             "shadow_deny", "error", "exempt"};
static const char *const source_names[CDL_SOURCES] = {"store", "lease", "deny_cache", "local_share", "failure_policy"};

/* The series that every limit has from the start. */
static bool is_plain(uint32_t outcome, uint32_t source)
{
    return outcome <= CDL_COUNTED_DENY && source == CAUDAL_SOURCE_STORE;
}

/* All series of a slot; `limit` is NULL for requests, which have an outcome where a limit has a verdict. */
static void expose_slot(const struct cdl_counters *counters, struct cdl_exposition *page, uint32_t slot,
                        const struct cdl_slice *limit)
{
    const size_t skip = limit == NULL ? 1 : 0;
    for (uint32_t outcome = 0; outcome < CDL_COUNTED_KINDS; outcome++) {
        for (uint32_t source = 0; source < CDL_SOURCES; source++) {
            const uint64_t sum = sum_cells(counters, slot, outcome, source);
            if (sum == 0 && (slot == CDL_COUNTERS_OTHER || !is_plain(outcome, source)))
                continue;
            const struct cdl_label labels[] = {
                {"limit", limit == NULL ? CDL_SLICE("") : *limit},
                {limit == NULL ? "outcome" : "verdict", cdl_slice_of(outcome_names[outcome])},
                {"source", cdl_slice_of(source_names[source])},
            };
            cdl_exposition_u64(page, labels + skip, 3 - skip, sum);
        }
    }
}

void cdl_counters_expose(struct cdl_counters *counters, struct cdl_exposition *page)
{
    pthread_mutex_lock(&counters->lock);
    cdl_exposition_family(page, CDL_METRIC_COUNTER, "caudal_requests",
                          "Requests, by what became of them and who decided.");
    expose_slot(counters, page, CDL_COUNTERS_REQUESTS, NULL);
    cdl_exposition_family(
        page, CDL_METRIC_COUNTER, "caudal_decisions",
        "Decisions of each limit, by verdict and by who took them. Limits that are gone, and those beyond "
        "the number of series allowed, are counted as \"other\".");
    const struct cdl_slice other = CDL_SLICE(CDL_COUNTERS_OTHER_NAME);
    expose_slot(counters, page, CDL_COUNTERS_OTHER, &other);
    for (uint32_t slot = FIRST_LIMIT; slot < counters->slots_used; slot++) {
        const struct cdl_slice name = name_of(counters, slot);
        expose_slot(counters, page, slot, &name);
    }
    cdl_exposition_family(page, CDL_METRIC_COUNTER, "caudal_limit_labels_dropped",
                          "Limits that were loaded and had to be counted as \"other\", being too many.");
    cdl_exposition_u64(page, NULL, 0, counters->labels_dropped);
    pthread_mutex_unlock(&counters->lock);
}
