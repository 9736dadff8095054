#include "limiter/limiter.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/problem.h"
#include "policy/match_parts.h"

struct cdl_limiter {
    struct caudal_store *store;
    pthread_mutex_t lock; /* guards the policies and what is in the store */
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

void cdl_limiter_close(struct cdl_limiter *limiter)
{
    if (limiter == NULL)
        return;
    cdl_limiter_release(limiter->live);
    pthread_mutex_destroy(&limiter->lock);
    free(limiter);
}

/* ---- putting a policy in force ---- */

static void free_live(struct cdl_live_policy *live)
{
    free(live->rates);
    free(live);
}

/* Finds or adds the store's limit of each rate; remembers in `added` how many at the front of `fresh` were new. */
static int bind_rates(struct cdl_live_policy *live, uint32_t *fresh, uint32_t *added, struct caudal_problem *problem)
{
    const struct cdl_policy *policy = live->policy;
    for (uint32_t i = 0; i < policy->rate_count; i++) {
        const struct cdl_rate *rate = &policy->rates[i];
        if (caudal_find_limit(live->store, rate->name.bytes, &live->rates[i]) == CAUDAL_OK)
            continue;
        int status = caudal_add_limit(live->store, rate->name.bytes, &rate->limit, &live->rates[i], problem);
        if (status != CAUDAL_OK)
            return status;
        fresh[(*added)++] = live->rates[i];
    }
    return CAUDAL_OK;
}

/* Limits that the store knew already follow the policy: what was spent stays spent. Cannot fail for want of a number: there are
 * more of them than limits. */
static void follow_changes(struct cdl_live_policy *live)
{
    for (uint32_t i = 0; i < live->policy->rate_count; i++) {
        const struct caudal_limit *wanted = &live->policy->rates[i].limit;
        struct caudal_limit present = CAUDAL_LIMIT_INIT;
        caudal_get_limit(live->store, live->rates[i], &present);
        if (present.algorithm != wanted->algorithm || present.count != wanted->count ||
            present.period_ns != wanted->period_ns || caudal_limit_capacity(&present) != caudal_limit_capacity(wanted))
            caudal_set_limit(live->store, live->rates[i], wanted, NULL);
    }
}

int cdl_limiter_apply(struct cdl_limiter *limiter, struct cdl_policy *policy, const struct cdl_attachment *attachment,
                      struct caudal_problem *problem)
{
    struct cdl_live_policy *live = calloc(1, sizeof *live);
    uint32_t *fresh = calloc(policy->rate_count + 1u, sizeof *fresh), added = 0;
    if (live != NULL)
        live->rates = calloc(policy->rate_count + 1u, sizeof *live->rates);
    if (live == NULL || fresh == NULL || live->rates == NULL) {
        if (live != NULL)
            free_live(live);
        free(fresh);
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for a policy of %u limits", policy->limit_count);
    }
    live->policy = policy;
    live->store = limiter->store;
    live->limiter = limiter;
    if (attachment != NULL)
        live->attachment = *attachment;
    atomic_init(&live->users, 1); /* the limiter itself */

    pthread_mutex_lock(&limiter->lock);
    struct cdl_live_policy *old = limiter->live;
    int status = bind_rates(live, fresh, &added, problem);
    if (status == CAUDAL_OK) {
        follow_changes(live);
        live->generation = atomic_load_explicit(&limiter->generation, memory_order_relaxed) + 1;
        live->next = limiter->all;
        limiter->all = limiter->live = live;
        atomic_store_explicit(&limiter->generation, live->generation, memory_order_release);
    } else {
        while (added > 0)
            caudal_remove_limit(limiter->store, fresh[--added]);
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

/* Removes from the store what only `old` needed. A policy between it and the one in force may be in use still, and must not find its
 * limits gone, nor their numbers given to others. Under the lock. */
static void remove_unneeded(struct cdl_limiter *limiter, const struct cdl_live_policy *old)
{
    size_t count = 0;
    for (const struct cdl_live_policy *live = limiter->all; live != NULL; live = live->next)
        count += live->policy->rate_count;
    uint32_t *needed = calloc(count + 1u, sizeof *needed);
    if (needed == NULL)
        return; /* they stay, unused: the store's room is not the request's */
    count = 0;
    for (const struct cdl_live_policy *live = limiter->all; live != NULL; live = live->next) {
        memcpy(needed + count, live->rates, live->policy->rate_count * sizeof *needed);
        count += live->policy->rate_count;
    }
    qsort(needed, count, sizeof *needed, compare_ids);
    for (uint32_t i = 0; i < old->policy->rate_count; i++)
        if (bsearch(&old->rates[i], needed, count, sizeof *needed, compare_ids) == NULL)
            caudal_remove_limit(limiter->store, old->rates[i]);
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
    remove_unneeded(limiter, live);
    pthread_mutex_unlock(&limiter->lock);
    if (live->attachment.free != NULL)
        live->attachment.free(live->attachment.data);
    cdl_policy_free(live->policy);
    free_live(live);
}

/* ---- deciding ---- */

struct caudal_decision cdl_limiter_on_failure(const struct cdl_limit_rule *limit, int status)
{
    struct caudal_decision decision = {.status = status, .source = CAUDAL_SOURCE_FAILURE_POLICY};
    if (limit->on_store_failure == CDL_FAILURE_ALLOW) {
        decision.status = CAUDAL_OK;
        decision.verdict = CAUDAL_ALLOW;
    }
    return decision;
}

/* The charges of a plan that are of one kind, as the store is asked about them. */
struct asked {
    struct caudal_request requests[CDL_PLAN_MAX];
    struct caudal_decision decisions[CDL_PLAN_MAX];
    uint32_t charge[CDL_PLAN_MAX]; /* which of the plan's */
    size_t count;
};

static struct caudal_request request_of(const struct cdl_live_policy *live, const struct cdl_charge *charge)
{
    return (struct caudal_request){live->rates[charge->rate], charge->key.bytes, charge->key.length, charge->cost};
}

static void collect(const struct cdl_live_policy *live, const struct cdl_plan *plan, enum cdl_mode mode,
                    struct asked *asked)
{
    asked->count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        if (live->policy->limits[plan->charges[i].limit].mode != mode)
            continue;
        asked->requests[asked->count] = request_of(live, &plan->charges[i]);
        asked->charge[asked->count++] = (uint32_t)i;
    }
}

/* Every limit answers as it chose to; one that fails closed closes the whole, the first of them speaks. */
static void fail(const struct cdl_live_policy *live, int status, const struct asked *asked, struct cdl_answer *answer)
{
    answer->overall = (struct caudal_decision){.verdict = CAUDAL_ALLOW, .source = CAUDAL_SOURCE_FAILURE_POLICY};
    for (size_t i = 0; i < asked->count; i++) {
        const uint32_t index = asked->charge[i];
        struct caudal_decision *decision = &answer->decisions[index];
        *decision = cdl_limiter_on_failure(&live->policy->limits[answer->plan.charges[index].limit], status);
        if (decision->verdict == CAUDAL_ALLOW || answer->kind == CDL_ANSWER_UNAVAILABLE)
            continue;
        answer->kind = CDL_ANSWER_UNAVAILABLE;
        answer->binding = index;
        answer->overall = *decision;
    }
}

static void enforce(const struct cdl_live_policy *live, bool spend, struct cdl_answer *answer)
{
    struct asked asked;
    collect(live, &answer->plan, CDL_MODE_ENFORCE, &asked);
    if (asked.count == 0)
        return;
    int status = spend ? caudal_take_all(live->store, asked.requests, asked.count, asked.decisions, &answer->overall)
                       : caudal_peek_all(live->store, asked.requests, asked.count, asked.decisions, &answer->overall);
    if (status != CAUDAL_OK) {
        fail(live, status, &asked, answer);
        return;
    }
    for (size_t i = 0; i < asked.count; i++)
        answer->decisions[asked.charge[i]] = asked.decisions[i];
    answer->binding = asked.charge[answer->overall.binding];
    if (answer->overall.verdict != CAUDAL_ALLOW)
        answer->kind = CDL_ANSWER_REFUSED;
}

/* Limits in shadow mode count what passes, and tell what they would have refused. */
static void shadow(const struct cdl_live_policy *live, bool spend, struct cdl_answer *answer)
{
    answer->shadow_refusals = answer->plan.shadow_refusals;
    for (size_t i = 0; i < answer->plan.count; i++) {
        const struct cdl_charge *charge = &answer->plan.charges[i];
        if (live->policy->limits[charge->limit].mode != CDL_MODE_SHADOW)
            continue;
        const struct caudal_request request = request_of(live, charge);
        struct caudal_decision *decision = &answer->decisions[i];
        if (spend && answer->kind == CDL_ANSWER_ALLOWED)
            caudal_take(live->store, request.limit, request.key, request.key_length, request.cost, decision);
        else
            caudal_peek(live->store, request.limit, request.key, request.key_length, request.cost, decision);
        answer->shadow_refusals += decision->status == CAUDAL_OK && decision->verdict != CAUDAL_ALLOW;
    }
}

/* What is given back counts as admitted, whatever is left. */
static void give_back(const struct cdl_live_policy *live, struct cdl_answer *answer)
{
    struct asked asked = {.count = 0};
    for (size_t i = 0; i < answer->plan.count; i++) {
        const struct cdl_charge *charge = &answer->plan.charges[i];
        const struct caudal_request request = request_of(live, charge);
        struct caudal_decision *decision = &answer->decisions[i];
        const int status = caudal_refund(live->store, request.limit, request.key, request.key_length, request.cost,
                                         decision);
        if (live->policy->limits[charge->limit].mode != CDL_MODE_ENFORCE)
            continue;
        asked.charge[asked.count++] = (uint32_t)i;
        if (status != CAUDAL_OK)
            fail(live, status, &asked, answer);
        else if (answer->binding == CDL_NONE || decision->remaining < answer->overall.remaining) {
            answer->binding = (uint32_t)i;
            answer->overall = *decision;
        }
    }
}

/* Finds the limits of a request. False: there is nobody to ask, and the answer is complete. */
static bool plan_request(const struct cdl_live_policy *live, const struct cdl_request *request, uint64_t cost,
                         char *scratch, struct cdl_answer *answer)
{
    cdl_policy_match(live->policy, request, cost, scratch, CDL_MATCH_SCRATCH_BYTES, &answer->plan);
    answer->kind = CDL_ANSWER_ALLOWED;
    answer->binding = CDL_NONE;
    answer->shadow_refusals = 0;
    answer->overall = (struct caudal_decision){
        .verdict = CAUDAL_ALLOW, .capacity = UINT64_MAX, .remaining = UINT64_MAX}; /* unless a limit says otherwise */
    if (answer->plan.outcome == CDL_OUTCOME_LIMITED)
        return true;
    if (answer->plan.outcome != CDL_OUTCOME_EXEMPT) {
        answer->kind = CDL_ANSWER_REFUSED;
        answer->overall = (struct caudal_decision){.verdict = CAUDAL_NEVER, .retry_after_ns = -1};
        answer->plan.count = 0; /* nobody was asked */
    }
    return false;
}

static void answer_request(const struct cdl_live_policy *live, const struct cdl_request *request, uint64_t cost,
                           bool spend, char *scratch, struct cdl_answer *answer)
{
    if (!plan_request(live, request, cost, scratch, answer))
        return;
    enforce(live, spend, answer);
    shadow(live, spend, answer);
}

void cdl_limiter_take(const struct cdl_live_policy *live, const struct cdl_request *request, uint64_t cost,
                      char *scratch, struct cdl_answer *answer)
{
    answer_request(live, request, cost, true, scratch, answer);
}

void cdl_limiter_peek(const struct cdl_live_policy *live, const struct cdl_request *request, uint64_t cost,
                      char *scratch, struct cdl_answer *answer)
{
    answer_request(live, request, cost, false, scratch, answer);
}

void cdl_limiter_refund(const struct cdl_live_policy *live, const struct cdl_request *request, uint64_t cost,
                        char *scratch, struct cdl_answer *answer)
{
    if (plan_request(live, request, cost, scratch, answer))
        give_back(live, answer);
}

/* ---- by name ---- */

/* What the values would be in a request that has them, in their one spelling: an address grouped, a path normalised. A value that no
 * attribute can stand for (a template's) is taken as it is. */
static void spell_values(struct cdl_view *view, const struct cdl_limit_rule *limit, const struct cdl_slice *given,
                         struct cdl_slice values[CDL_PER_MAX])
{
    for (uint32_t i = 0; i < limit->per_count; i++) {
        size_t cursor = 0;
        if (!cdl_view_next(view, &limit->per[i], &cursor, &values[i]))
            values[i] = given[i];
    }
}

int cdl_limiter_named(const struct cdl_live_policy *live, const struct cdl_named_key *key,
                      enum cdl_named_operation operation, uint64_t cost, char *scratch,
                      struct caudal_decision *decision)
{
    const struct cdl_limit_rule *limit = &live->policy->limits[key->limit];
    *decision = (struct caudal_decision){.status = CAUDAL_ERR_ARGUMENT};
    if (key->value_count != limit->per_count)
        return CAUDAL_ERR_ARGUMENT;
    struct cdl_field attributes[CDL_PER_MAX];
    for (uint32_t i = 0; i < limit->per_count; i++)
        attributes[i] = (struct cdl_field){limit->per[i].text, key->values[i]};
    const struct cdl_request request = {.attributes = attributes, .attribute_count = limit->per_count};
    struct cdl_writer writer = cdl_writer_on(scratch, CDL_MATCH_SCRATCH_BYTES);
    struct cdl_view view;
    cdl_view_open(&view, live->policy, &request, &writer);
    struct cdl_slice values[CDL_PER_MAX];
    spell_values(&view, limit, key->values, values);
    const uint32_t override = cdl_limit_override(&view, limit, values);
    const uint32_t rate = live->rates[override == CDL_NONE ? limit->rate : limit->overrides[override].rate];
    char *bytes = scratch + writer.length;
    size_t length;
    if (writer.overflow ||
        cdl_policy_key(values, limit->per_count, bytes, CDL_MATCH_SCRATCH_BYTES - writer.length, &length) != CAUDAL_OK)
        return decision->status = CAUDAL_ERR_KEY;
    switch (operation) {
    case CDL_NAMED_TAKE:
        return caudal_take(live->store, rate, bytes, length, cost, decision);
    case CDL_NAMED_PEEK:
        return caudal_peek(live->store, rate, bytes, length, cost, decision);
    case CDL_NAMED_REFUND:
        return caudal_refund(live->store, rate, bytes, length, cost, decision);
    case CDL_NAMED_RESET:
        break;
    }
    int status = caudal_reset(live->store, rate, bytes, length);
    return status != CAUDAL_OK ? status : caudal_peek(live->store, rate, bytes, length, 0, decision);
}
