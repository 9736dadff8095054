/* Policies in force: what each needs in the stores, and who still uses it. */
#include "limiter/limiter.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/problem.h"
#include "limiter/local_share.h"

/* For limits that are counted here, always or while the store is away. Bounded like everything that clients can fill: 21 MB when it is
 * full, and what logs take. */
#define LOCAL_STORE "memory:?keys=1000000"

struct cdl_limiter {
    struct caudal_store *store;
    struct caudal_store *local; /* NULL until a policy needs it */
    bool leaves_store;          /* what policies needed there stays */
    pthread_mutex_t lock;       /* guards the policies and what is in the stores */
    struct cdl_live_policy *live;
    struct cdl_live_policy *all; /* that anybody still uses, newest first */
    _Atomic uint64_t generation;
};

struct cdl_limiter *cdl_limiter_open(struct caudal_store *store)
{
    struct cdl_limiter *limiter = calloc(1, sizeof *limiter);
    if (limiter == NULL)
        return NULL;
    limiter->store = store;
    pthread_mutex_init(&limiter->lock, NULL);
    return limiter;
}

void cdl_limiter_leave_store(struct cdl_limiter *limiter)
{
    pthread_mutex_lock(&limiter->lock);
    limiter->leaves_store = true;
    pthread_mutex_unlock(&limiter->lock);
}

void cdl_limiter_close(struct cdl_limiter *limiter)
{
    if (limiter == NULL)
        return;
    cdl_limiter_release(limiter->live);
    caudal_store_close(limiter->local);
    pthread_mutex_destroy(&limiter->lock);
    free(limiter);
}

/* ---- what a policy needs in a store ---- */

/* A policy's rates in one store. */
struct binding {
    struct caudal_store *store;
    const struct cdl_policy *policy;
    uint32_t *rates; /* the store's numbers; CDL_NONE: not in this one */
    bool is_local;
};

static struct binding shared_binding(const struct cdl_live_policy *live)
{
    return (struct binding){live->store, live->policy, live->rates, false};
}

static struct binding local_binding(const struct cdl_live_policy *live)
{
    return (struct binding){live->local, live->policy, live->local_rates, true};
}

/* What a rate is in that store. False: it is not there. One that is counted here has its number in the shared store all the same: that
 * is what metrics know it by. */
static bool limit_in(const struct binding *binding, uint32_t rate, struct caudal_limit *limit)
{
    const struct cdl_rate *whole = &binding->policy->rates[rate];
    const struct cdl_limit_rule *rule = &binding->policy->limits[whole->limit_index];
    *limit = whole->limit;
    if (!binding->is_local)
        return true;
    *limit = cdl_local_limit(&whole->limit, cdl_local_ratio(binding->policy, rule));
    return rule->sharing == CDL_SHARING_LOCAL || rule->on_store_failure == CDL_FAILURE_LOCAL;
}

/* Finds or adds the store's limit of each rate; remembers in `added` how many at the front of `fresh` were new. */
static int bind_rates(const struct binding *binding, uint32_t *fresh, uint32_t *added, struct caudal_problem *problem)
{
    for (uint32_t i = 0; i < binding->policy->rate_count; i++) {
        const char *name = binding->policy->rates[i].name.bytes;
        struct caudal_limit limit;
        binding->rates[i] = CDL_NONE;
        if (!limit_in(binding, i, &limit) || caudal_find_limit(binding->store, name, &binding->rates[i]) == CAUDAL_OK)
            continue;
        int status = binding->policy->rates[i].per_call
                         ? cdl_add_per_call_limit(binding->store, name, &binding->rates[i], problem)
                         : caudal_add_limit(binding->store, name, &limit, &binding->rates[i], problem);
        if (status != CAUDAL_OK)
            return status;
        fresh[(*added)++] = binding->rates[i];
    }
    return CAUDAL_OK;
}

static void change_limit(const struct binding *binding, uint32_t rate, const struct caudal_limit *wanted)
{
    if (caudal_set_limit(binding->store, binding->rates[rate], wanted, NULL) == CAUDAL_OK)
        return;
    caudal_lease_limit(binding->store, binding->rates[rate], NULL, NULL);
    caudal_set_limit(binding->store, binding->rates[rate], wanted, NULL);
}

/* Limits that the store knew already follow the policy: what was spent stays spent. Cannot fail for want of a number: there are
 * more of them than limits. One that leaves nothing beside what its lease keeps back has other terms in this policy, or none. */
static void follow_changes(const struct binding *binding)
{
    for (uint32_t i = 0; i < binding->policy->rate_count; i++) {
        struct caudal_limit wanted, present = CAUDAL_LIMIT_INIT;
        if (!limit_in(binding, i, &wanted) || binding->policy->rates[i].per_call)
            continue;
        caudal_get_limit(binding->store, binding->rates[i], &present);
        if (present.algorithm != wanted.algorithm || present.count != wanted.count ||
            present.period_ns != wanted.period_ns || caudal_limit_capacity(&present) != caudal_limit_capacity(&wanted))
            change_limit(binding, i, &wanted);
    }
}

/* Limits are leased as the policy says. A store that has no leases does not need them, and a limit that cannot be leased for want of
 * memory stays strict, which promises no less. */
static void follow_leases(const struct binding *binding)
{
    for (uint32_t i = 0; i < binding->policy->rate_count; i++) {
        const struct cdl_rate *rate = &binding->policy->rates[i];
        const struct cdl_limit_rule *rule = &binding->policy->limits[rate->limit_index];
        if (rate->per_call)
            continue;
        struct caudal_lease lease = CAUDAL_LEASE_INIT;
        lease.ttl_ns = rule->lease.ttl_ns;
        lease.share_per_mille = rule->lease.share_per_mille;
        lease.strict_bound = rule->lease.strict_bound;
        caudal_lease_limit(binding->store, binding->rates[i], cdl_rate_is_leased(rule, &rate->limit) ? &lease : NULL,
                           NULL);
    }
}

/* ---- putting a policy in force ---- */

static void free_live(struct cdl_live_policy *live)
{
    if (live == NULL)
        return;
    free(live->rates);
    free(live->local_rates);
    free(live);
}

static struct cdl_live_policy *new_live(struct cdl_limiter *limiter, struct cdl_policy *policy,
                                        const struct cdl_attachment *attachment)
{
    struct cdl_live_policy *live = calloc(1, sizeof *live);
    if (live == NULL)
        return NULL;
    live->policy = policy;
    live->store = limiter->store;
    live->limiter = limiter;
    if (attachment != NULL)
        live->attachment = *attachment;
    atomic_init(&live->users, 1); /* the limiter itself */
    live->rates = calloc(policy->rate_count + 1u, sizeof *live->rates);
    live->local_rates = calloc(policy->rate_count + 1u, sizeof *live->local_rates);
    if (live->rates != NULL && live->local_rates != NULL)
        return live;
    free_live(live);
    return NULL;
}

/* Opens the local store when the first policy comes that needs it. */
static int find_local(struct cdl_limiter *limiter, struct cdl_live_policy *live, struct caudal_problem *problem)
{
    const bool may_be_away = cdl_store_answers_later(limiter->store); /* one that answers at once never is */
    bool needed = false;
    for (uint32_t i = 0; i < live->policy->limit_count; i++) {
        const struct cdl_limit_rule *rule = &live->policy->limits[i];
        needed |= rule->sharing == CDL_SHARING_LOCAL || (may_be_away && rule->on_store_failure == CDL_FAILURE_LOCAL);
    }
    if (!needed)
        return CAUDAL_OK;
    const struct caudal_store_options options = {.size = sizeof options, .clock = limiter->store->clock};
    int status = CAUDAL_OK;
    if (limiter->local == NULL)
        status = caudal_store_open(LOCAL_STORE, &options, &limiter->local, problem);
    live->local = limiter->local;
    return status;
}

static void remove_fresh(struct caudal_store *store, const uint32_t *fresh, uint32_t added)
{
    while (added > 0)
        caudal_remove_limit(store, fresh[--added]);
}

/* Binds the policy to both stores, or to none. `fresh` has room for all rates, twice. */
static int bind_stores(struct cdl_live_policy *live, uint32_t *fresh, struct caudal_problem *problem)
{
    const struct binding shared = shared_binding(live), local = local_binding(live);
    uint32_t added = 0, added_local = 0;
    int status = bind_rates(&shared, fresh, &added, problem);
    if (status == CAUDAL_OK && live->local != NULL)
        status = bind_rates(&local, fresh + live->policy->rate_count, &added_local, problem);
    if (status != CAUDAL_OK) {
        remove_fresh(live->local, fresh + live->policy->rate_count, added_local);
        remove_fresh(live->store, fresh, added);
        return status;
    }
    follow_changes(&shared);
    follow_leases(&shared);
    if (live->local != NULL)
        follow_changes(&local);
    return CAUDAL_OK;
}

int cdl_limiter_apply(struct cdl_limiter *limiter, struct cdl_policy *policy, const struct cdl_attachment *attachment,
                      struct caudal_problem *problem)
{
    struct cdl_live_policy *live = new_live(limiter, policy, attachment);
    uint32_t *fresh = calloc(2 * ((size_t)policy->rate_count + 1), sizeof *fresh);
    if (live == NULL || fresh == NULL) {
        free_live(live);
        free(fresh);
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for a policy of %u limits", policy->limit_count);
    }
    pthread_mutex_lock(&limiter->lock);
    struct cdl_live_policy *old = limiter->live;
    int status = find_local(limiter, live, problem);
    if (status == CAUDAL_OK)
        status = bind_stores(live, fresh, problem);
    if (status == CAUDAL_OK) {
        live->generation = atomic_load_explicit(&limiter->generation, memory_order_relaxed) + 1;
        live->next = limiter->all;
        limiter->all = limiter->live = live;
        atomic_store_explicit(&limiter->generation, live->generation, memory_order_release);
    }
    pthread_mutex_unlock(&limiter->lock);
    free(fresh);
    if (status != CAUDAL_OK)
        free_live(live);
    else
        cdl_limiter_release(old);
    return status;
}

struct cdl_live_policy *cdl_limiter_acquire(struct cdl_limiter *limiter)
{
    pthread_mutex_lock(&limiter->lock);
    struct cdl_live_policy *live = limiter->live;
    if (live != NULL)
        atomic_fetch_add_explicit(&live->users, 1, memory_order_relaxed);
    pthread_mutex_unlock(&limiter->lock);
    return live;
}

uint64_t cdl_limiter_generation(const struct cdl_limiter *limiter)
{
    return atomic_load_explicit(&limiter->generation, memory_order_acquire);
}

/* ---- leaving it ---- */

static int compare_ids(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void unlink_live(struct cdl_limiter *limiter, const struct cdl_live_policy *old)
{
    struct cdl_live_policy **at = &limiter->all;
    while (*at != old)
        at = &(*at)->next;
    *at = old->next;
    if (limiter->live == old)
        limiter->live = NULL;
}

/* Removes from a store what only `old` needed there. A policy between it and the one in force may be in use still, and must not find its
 * limits gone, nor their numbers given to others. Under the lock. */
static void remove_unneeded(struct cdl_limiter *limiter, const struct cdl_live_policy *old,
                            struct binding (*binding_of)(const struct cdl_live_policy *live))
{
    const struct binding gone = binding_of(old);
    size_t count = 0;
    if (gone.store == NULL)
        return;
    for (const struct cdl_live_policy *live = limiter->all; live != NULL; live = live->next)
        count += live->policy->rate_count;
    uint32_t *needed = calloc(count + 1u, sizeof *needed);
    if (needed == NULL)
        return; /* they stay, unused: the store's room is not the request's */
    count = 0;
    for (const struct cdl_live_policy *live = limiter->all; live != NULL; live = live->next) {
        const struct binding kept = binding_of(live);
        if (kept.store == NULL)
            continue;
        memcpy(needed + count, kept.rates, live->policy->rate_count * sizeof *needed);
        count += live->policy->rate_count;
    }
    qsort(needed, count, sizeof *needed, compare_ids);
    for (uint32_t i = 0; i < old->policy->rate_count; i++)
        if (gone.rates[i] != CDL_NONE && bsearch(&gone.rates[i], needed, count, sizeof *needed, compare_ids) == NULL)
            caudal_remove_limit(gone.store, gone.rates[i]);
    free(needed);
}

void cdl_limiter_release(struct cdl_live_policy *live)
{
    /* Release, so that the last one sees all that the others did; acquire, for the last one to see it. */
    if (live == NULL || atomic_fetch_sub_explicit(&live->users, 1, memory_order_acq_rel) != 1)
        return;
    struct cdl_limiter *limiter = live->limiter;
    pthread_mutex_lock(&limiter->lock);
    unlink_live(limiter, live);
    if (!limiter->leaves_store) {
        remove_unneeded(limiter, live, shared_binding);
        remove_unneeded(limiter, live, local_binding);
    }
    pthread_mutex_unlock(&limiter->lock);
    if (live->attachment.free != NULL)
        live->attachment.free(live->attachment.data);
    cdl_policy_free(live->policy);
    free_live(live);
}
