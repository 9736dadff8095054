/* What every kind of store does, behind the public functions of caudal/store.h. */
#ifndef CDL_STORE_STORE_H
#define CDL_STORE_STORE_H

#include "algorithm/decide.h"
#include "caudal/store.h"

/* The time of one call. A clock is read when it is first needed and then stands, but for keys that come in (see memory_store.c),
 * and the caller's own time stands for both clocks. */
struct cdl_instant {
    const struct caudal_clock *clock; /* NULL: both are given */
    int64_t monotonic_ns, realtime_ns;
    bool has_monotonic, has_realtime;
};

static inline struct cdl_instant cdl_instant_given(int64_t now_ns)
{
    return (struct cdl_instant){NULL, now_ns, now_ns, true, true};
}

static inline struct cdl_instant cdl_instant_read(const struct caudal_clock *clock)
{
    return (struct cdl_instant){.clock = clock};
}

/* Buckets and logs count on the monotonic clock, windows that are aligned to the epoch on the real one. */
static inline int64_t cdl_instant_monotonic(struct cdl_instant *instant)
{
    if (!instant->has_monotonic) {
        instant->monotonic_ns = instant->clock->monotonic_ns(instant->clock->context);
        instant->has_monotonic = true;
    }
    return instant->monotonic_ns;
}

static inline int64_t cdl_instant_realtime(struct cdl_instant *instant)
{
    if (!instant->has_realtime) {
        instant->realtime_ns = instant->clock->realtime_ns(instant->clock->context);
        instant->has_realtime = true;
    }
    return instant->realtime_ns;
}

struct cdl_call;
struct cdl_lease_counts;
struct cdl_store_client;
struct cdl_loop_hooks;
struct cdl_store_events;

/* A key whose state is on its way into the processor's caches. All zero: none is. */
struct cdl_expected {
    const struct cdl_store_ops *ops;
    const uint32_t *index; /* the store's */
    const void *records;
};

/* Each operation returns a status code and never changes anything when that is not CAUDAL_OK. Arguments have been checked: no
 * NULL, keys not too long, limits legal, names of a legal length. A store sets every field of a decision that has a verdict;
 * one without is cleared by the caller. */
struct cdl_store_ops {
    void (*close)(struct caudal_store *store);
    int (*stats)(struct caudal_store *store, struct caudal_store_stats *stats);
    /* What is wrong with a limit that is legal, but not for this store, goes to `problem` in words. */
    int (*add_limit)(struct caudal_store *store, const char *name, const struct caudal_limit *limit, uint32_t *id,
                     struct caudal_problem *problem);
    /* See cdl_add_per_call_limit. */
    int (*add_per_call_limit)(struct caudal_store *store, const char *name, uint32_t *id,
                              struct caudal_problem *problem);
    int (*find_limit)(struct caudal_store *store, const char *name, uint32_t *id);
    int (*get_limit)(struct caudal_store *store, uint32_t id, struct caudal_limit *limit);
    int (*set_limit)(struct caudal_store *store, uint32_t id, const struct caudal_limit *limit, struct cdl_instant *now,
                     struct caudal_problem *problem);
    int (*remove_limit)(struct caudal_store *store, uint32_t id);
    /* caudal_take at the store's clock, whole: what is asked most has a way of its own, on which arguments stay in
     * registers. */
    int (*take)(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t cost,
                struct caudal_decision *decision);
    /* One question about one key. */
    int (*decide)(struct caudal_store *store, const struct caudal_request *request, const struct cdl_question *question,
                  struct cdl_instant *now, struct caudal_decision *decision);
    int (*reset)(struct caudal_store *store, const struct caudal_request *request);
    /* As caudal_take_all, or with CDL_PEEK as caudal_peek_all; the store fills in `decisions` only: what to say overall is worked
     * out from them. `limits`: what each is this time, as in struct cdl_question; NULL: none of them comes with its call. */
    int (*decide_all)(struct caudal_store *store, enum cdl_operation operation, const struct caudal_request *requests,
                      const struct caudal_limit *const *limits, size_t count, struct cdl_instant *now,
                      struct caudal_decision *decisions);
    /* As caudal_take_batch. The requests have not been checked, so that this is done on the one way through them. */
    int (*take_batch)(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                      struct cdl_instant *now, struct caudal_decision *decisions);
    /* The following are NULL in a store that answers at once. See store/call.h. */
    struct cdl_store_client *(*open_client)(struct caudal_store *store, const struct cdl_loop_hooks *hooks);
    const struct cdl_store_events *(*events)(const struct caudal_store *store);
    /* Asks and waits: cdl_store_ask without a client. NULL: `decide` and `decide_all` will do. */
    void (*ask)(struct caudal_store *store, struct cdl_call *call);
    /* NULL in a store without leases. See store/lease/lease_store.h. */
    int (*lease_limit)(struct caudal_store *store, uint32_t id, const struct caudal_lease *lease,
                       struct caudal_problem *problem);
    void (*lease_counts)(struct caudal_store *store, struct cdl_lease_counts *counts);
    /* See cdl_store_expect; NULL: nothing of this store can be fetched beforehand. */
    void (*expect)(struct caudal_store *store, const struct caudal_request *request, struct cdl_expected *expected);
    void (*expect_more)(struct cdl_expected *expected);
};

/* The head of every store. */
struct caudal_store {
    const struct cdl_store_ops *ops;
    const struct caudal_clock *clock;
    struct caudal_allocator allocator;
};

/* Adds a name under which keys are counted by limits that come with each question (cdl_question.limit): legal ones, token buckets or
 * fixed windows. A key's state tells what it was counted by, so a key costs what any other does, and however many different limits are
 * asked by cost nothing. A bucket that is asked by another rate keeps what was spent, in tokens; a window of another length begins anew,
 * and so does a key that changes from the one to the other.
 *
 * It is found, and removed, as other limits are; its caudal_limit is "unlimited", which can be neither changed nor leased
 * (CAUDAL_ERR_UNSUPPORTED). Codes as caudal_add_limit. A question with a limit that this store cannot count exactly fails with
 * CAUDAL_ERR_LIMIT, one without any with CAUDAL_ERR_ARGUMENT, and so does a call that is to decide on one key by two limits together; a
 * limit on a question of another name is not looked at. */
int cdl_add_per_call_limit(struct caudal_store *store, const char *name, uint32_t *id, struct caudal_problem *problem);

/* Fetches what the store will look at when it is asked about a key, which it is going to be: it is not waited for, so something else should be
 * done meanwhile. A state is found by what is found before it; when that may have come, cdl_store_expect_more goes on. Both change nothing, and
 * what is asked in the end may be another key. */
static inline void cdl_store_expect(struct caudal_store *store, const struct caudal_request *request,
                                    struct cdl_expected *expected)
{
    expected->ops = store->ops->expect != NULL ? store->ops : NULL;
    if (expected->ops != NULL)
        store->ops->expect(store, request, expected);
}

static inline void cdl_store_expect_more(struct cdl_expected *expected)
{
    if (expected->ops != NULL)
        expected->ops->expect_more(expected);
    expected->ops = NULL;
}

/* Which of several decisions on one request speaks for all: on a refusal the one that recovers last, CAUDAL_NEVER before any wait;
 * otherwise the one with least left. */
size_t cdl_binding(const struct caudal_decision *decisions, size_t count);

static inline int cdl_check_request(const struct caudal_request *request)
{
    if (request->key == NULL && request->key_length > 0)
        return CAUDAL_ERR_ARGUMENT;
    return request->key_length > CAUDAL_KEY_MAX ? CAUDAL_ERR_KEY : CAUDAL_OK;
}

/* Opens the memory store. The options are complete: clock and allocator are not NULL. */
int cdl_memory_store_open(const char *url, const struct caudal_store_options *options, struct caudal_store **store,
                          struct caudal_problem *problem);

#endif
