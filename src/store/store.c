/* The public face of every store: arguments are checked here, once, and then the kind of store at hand does the work. */
#include "store/store.h"

#include <string.h>

#include "base/memory.h"
#include "base/problem.h"
#include "store/call.h"
#include "store/lease/lease_store.h"
#include "store/redis/redis_store.h"

typedef int opener(const char *url, const struct caudal_store_options *options, struct caudal_store **store,
                   struct caudal_problem *problem);

static const struct {
    const char *scheme;
    opener *open;
} kinds[] = {
    {"memory:", cdl_memory_store_open},        {"redis:", cdl_redis_store_open},
    {"rediss:", cdl_redis_store_open},         {"unix:", cdl_redis_store_open},
    {"redis-sentinel:", cdl_redis_store_open}, {"redis-cluster:", cdl_redis_store_open},
};

/* What the caller left open is filled in. */
static int complete_options(const struct caudal_store_options *given, struct caudal_store_options *options,
                            struct caudal_problem *problem)
{
    *options = (struct caudal_store_options){.size = sizeof *options};
    if (given != NULL && given->size != sizeof *given)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "options.size is %zu; this library knows %zu", given->size,
                           sizeof *given);
    if (given != NULL)
        *options = *given;
    if (options->clock == NULL)
        options->clock = caudal_clock_system();
    if (options->allocator == NULL)
        options->allocator = cdl_allocator_default();
    const struct caudal_clock *clock = options->clock;
    const struct caudal_allocator *allocator = options->allocator;
    if (clock->size != sizeof *clock || clock->monotonic_ns == NULL || clock->realtime_ns == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "options.clock lacks its size or a function");
    if (allocator->size != sizeof *allocator || allocator->allocate == NULL || allocator->release == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "options.allocator lacks its size or a function");
    if (options->secret == NULL && options->secret_length > 0)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "options.secret is NULL");
    if (options->deadline_ns < 0)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "options.deadline_ns is negative");
    return CAUDAL_OK;
}

/* Stores that processes share can lease. */
static int open_kind(opener *open, const char *url, const struct caudal_store_options *options,
                     struct caudal_store **store, struct caudal_problem *problem)
{
    struct caudal_store *opened;
    const int status = open(url, options, &opened, problem);
    if (status == CAUDAL_OK && cdl_store_answers_later(opened))
        return cdl_lease_store_open(opened, options, store, problem);
    if (status == CAUDAL_OK)
        *store = opened;
    return status;
}

int caudal_store_open(const char *url, const struct caudal_store_options *options, struct caudal_store **store,
                      struct caudal_problem *problem)
{
    if (store != NULL)
        *store = NULL;
    if (url == NULL || store == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "%s is NULL", url == NULL ? "url" : "store");
    struct caudal_store_options complete;
    const int status = complete_options(options, &complete, problem);
    if (status != CAUDAL_OK)
        return status;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(url, kinds[i].scheme, strlen(kinds[i].scheme)) == 0)
            return open_kind(kinds[i].open, url, &complete, store, problem);
    /* No more than the scheme is shown: what follows may hold a password. */
    const size_t scheme = strcspn(url, ":/@?");
    return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0,
                       "'%.*s' is not a known kind of store: memory:, redis:, rediss:, unix:, redis-sentinel: or "
                       "redis-cluster:",
                       (int)(scheme < 32 ? scheme : 32), url);
}

void caudal_store_close(struct caudal_store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

int caudal_store_stats(struct caudal_store *store, struct caudal_store_stats *stats)
{
    if (store == NULL || stats == NULL || stats->size != sizeof *stats)
        return CAUDAL_ERR_ARGUMENT;
    return store->ops->stats(store, stats);
}

/* ---- limits ---- */

/* CAUDAL_OK or CAUDAL_ERR_ARGUMENT. */
static int check_name(const struct caudal_store *store, const char *name, const uint32_t *id,
                      struct caudal_problem *problem)
{
    if (store == NULL || name == NULL || id == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "store, name or id is NULL");
    const size_t length = strnlen(name, 256);
    if (length == 0 || length > 255)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "a limit's name has 1 to 255 bytes");
    return CAUDAL_OK;
}

/* What a store has said, or the code in words, about the limit of that name. */
static int report(int status, const char *name, const struct caudal_problem *own, struct caudal_problem *problem)
{
    if (status != CAUDAL_OK)
        cdl_problem(problem, status, 0, "limit '%s': %s", name,
                    own->message[0] != '\0' ? own->message : caudal_status_text(status));
    return status;
}

int caudal_add_limit(struct caudal_store *store, const char *name, const struct caudal_limit *limit, uint32_t *id,
                     struct caudal_problem *problem)
{
    int status = check_name(store, name, id, problem);
    if (status == CAUDAL_OK)
        status = caudal_limit_check(limit, problem);
    if (status != CAUDAL_OK)
        return status;
    struct caudal_problem own = {.message = ""};
    return report(store->ops->add_limit(store, name, limit, id, &own), name, &own, problem);
}

int cdl_add_per_call_limit(struct caudal_store *store, const char *name, uint32_t *id, struct caudal_problem *problem)
{
    const int status = check_name(store, name, id, problem);
    if (status != CAUDAL_OK)
        return status;
    struct caudal_problem own = {.message = ""};
    return report(store->ops->add_per_call_limit(store, name, id, &own), name, &own, problem);
}

int caudal_find_limit(struct caudal_store *store, const char *name, uint32_t *id)
{
    if (store == NULL || name == NULL || id == NULL)
        return CAUDAL_ERR_ARGUMENT;
    return store->ops->find_limit(store, name, id);
}

int caudal_get_limit(struct caudal_store *store, uint32_t id, struct caudal_limit *limit)
{
    if (store == NULL || limit == NULL || limit->size != sizeof *limit)
        return CAUDAL_ERR_ARGUMENT;
    return store->ops->get_limit(store, id, limit);
}

static int set_limit(struct caudal_store *store, uint32_t id, const struct caudal_limit *limit, struct cdl_instant *now,
                     struct caudal_problem *problem)
{
    int status = caudal_limit_check(limit, problem);
    if (status != CAUDAL_OK)
        return status;
    struct caudal_problem own = {.message = ""};
    status = store->ops->set_limit(store, id, limit, now, &own);
    if (own.message[0] != '\0')
        cdl_problem(problem, status, 0, "limit %u: %s", id, own.message);
    else if (status != CAUDAL_OK)
        cdl_problem(problem, status, 0, "limit %u: %s", id, caudal_status_text(status));
    return status;
}

int caudal_set_limit(struct caudal_store *store, uint32_t id, const struct caudal_limit *limit,
                     struct caudal_problem *problem)
{
    if (store == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "store is NULL");
    struct cdl_instant now = cdl_instant_read(store->clock);
    return set_limit(store, id, limit, &now, problem);
}

int caudal_set_limit_at(struct caudal_store *store, uint32_t id, const struct caudal_limit *limit, int64_t now_ns,
                        struct caudal_problem *problem)
{
    if (store == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "store is NULL");
    struct cdl_instant now = cdl_instant_given(now_ns);
    return set_limit(store, id, limit, &now, problem);
}

int caudal_remove_limit(struct caudal_store *store, uint32_t id)
{
    return store == NULL ? CAUDAL_ERR_ARGUMENT : store->ops->remove_limit(store, id);
}

int caudal_lease_limit(struct caudal_store *store, uint32_t id, const struct caudal_lease *lease,
                       struct caudal_problem *problem)
{
    if (store == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "store is NULL");
    if (store->ops->lease_limit == NULL)
        return cdl_problem(problem, CAUDAL_ERR_UNSUPPORTED, 0,
                           "limit %u: a store that keeps its state in this process has nothing to lease", id);
    struct caudal_problem own = {.message = ""};
    const int status = store->ops->lease_limit(store, id, lease, &own);
    if (status != CAUDAL_OK)
        cdl_problem(problem, status, 0, "limit %u: %s", id,
                    own.message[0] != '\0' ? own.message : caudal_status_text(status));
    return status;
}

/* ---- one key ---- */

static void no_verdict(struct caudal_decision *decision, int status)
{
    *decision = (struct caudal_decision){.status = status};
}

static int decide(struct caudal_store *store, const struct caudal_request *request, const struct cdl_question *question,
                  struct cdl_instant *now, struct caudal_decision *decision)
{
    if (decision == NULL)
        return CAUDAL_ERR_ARGUMENT;
    int status = store == NULL || question->maximum < question->minimum ? CAUDAL_ERR_ARGUMENT
                                                                        : cdl_check_request(request);
    if (status == CAUDAL_OK)
        status = store->ops->decide(store, request, question, now, decision);
    if (status != CAUDAL_OK)
        no_verdict(decision, status);
    return status;
}

/* Reads the store's clock when it is needed. A NULL store is found out by decide(). */
static inline struct cdl_instant clock_of(const struct caudal_store *store)
{
    return cdl_instant_read(store != NULL ? store->clock : NULL);
}

static int take(struct caudal_store *store, const struct caudal_request *request, struct cdl_instant *now,
                struct caudal_decision *decision)
{
    const struct cdl_question question = cdl_question_take(request->cost);
    return decide(store, request, &question, now, decision);
}

int caudal_take(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t cost,
                struct caudal_decision *decision)
{
    if (__builtin_expect(store != NULL && decision != NULL && key != NULL && key_length <= CAUDAL_KEY_MAX, true))
        return store->ops->take(store, limit, key, key_length, cost, decision);
    struct cdl_instant now = clock_of(store);
    return take(store, &(struct caudal_request){limit, key, key_length, cost}, &now, decision);
}

int caudal_take_at(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t cost,
                   int64_t now_ns, struct caudal_decision *decision)
{
    struct cdl_instant now = cdl_instant_given(now_ns);
    return take(store, &(struct caudal_request){limit, key, key_length, cost}, &now, decision);
}

static int peek(struct caudal_store *store, const struct caudal_request *request, struct cdl_instant *now,
                struct caudal_decision *decision)
{
    const struct cdl_question question = cdl_question_peek(request->cost);
    return decide(store, request, &question, now, decision);
}

int caudal_peek(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t cost,
                struct caudal_decision *decision)
{
    struct cdl_instant now = clock_of(store);
    return peek(store, &(struct caudal_request){limit, key, key_length, cost}, &now, decision);
}

int caudal_peek_at(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t cost,
                   int64_t now_ns, struct caudal_decision *decision)
{
    struct cdl_instant now = cdl_instant_given(now_ns);
    return peek(store, &(struct caudal_request){limit, key, key_length, cost}, &now, decision);
}

static int take_up_to(struct caudal_store *store, const struct caudal_request *request, uint64_t minimum,
                      struct cdl_instant *now, struct caudal_decision *decision)
{
    const struct cdl_question question = {.operation = CDL_TAKE, .minimum = minimum, .maximum = request->cost};
    return decide(store, request, &question, now, decision);
}

int caudal_take_up_to(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t minimum,
                      uint64_t maximum, struct caudal_decision *decision)
{
    struct cdl_instant now = clock_of(store);
    return take_up_to(store, &(struct caudal_request){limit, key, key_length, maximum}, minimum, &now, decision);
}

int caudal_take_up_to_at(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length,
                         uint64_t minimum, uint64_t maximum, int64_t now_ns, struct caudal_decision *decision)
{
    struct cdl_instant now = cdl_instant_given(now_ns);
    return take_up_to(store, &(struct caudal_request){limit, key, key_length, maximum}, minimum, &now, decision);
}

static int refund(struct caudal_store *store, const struct caudal_request *request, struct cdl_instant *now,
                  struct caudal_decision *decision)
{
    const struct cdl_question question = {.operation = CDL_REFUND, .maximum = request->cost};
    struct caudal_decision ignored;
    return decide(store, request, &question, now, decision != NULL ? decision : &ignored);
}

int caudal_refund(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t tokens,
                  struct caudal_decision *decision)
{
    struct cdl_instant now = clock_of(store);
    return refund(store, &(struct caudal_request){limit, key, key_length, tokens}, &now, decision);
}

int caudal_refund_at(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t tokens,
                     int64_t now_ns, struct caudal_decision *decision)
{
    struct cdl_instant now = cdl_instant_given(now_ns);
    return refund(store, &(struct caudal_request){limit, key, key_length, tokens}, &now, decision);
}

int caudal_reset(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length)
{
    const struct caudal_request request = {limit, key, key_length, 0};
    int status = store == NULL ? CAUDAL_ERR_ARGUMENT : cdl_check_request(&request);
    return status == CAUDAL_OK ? store->ops->reset(store, &request) : status;
}

/* ---- several ---- */

size_t cdl_binding(const struct caudal_decision *decisions, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        const struct caudal_decision *d = &decisions[i], *b = &decisions[best];
        if (d->verdict != b->verdict     ? d->verdict > b->verdict
            : d->verdict == CAUDAL_ALLOW ? d->remaining < b->remaining
                                         : d->retry_after_ns > b->retry_after_ns)
            best = i;
    }
    return best;
}

/* The verdicts are ordered: what is worse is greater. */
_Static_assert(CAUDAL_ALLOW < CAUDAL_DENY && CAUDAL_DENY < CAUDAL_NEVER, "cdl_binding compares verdicts");

static int decide_all(struct caudal_store *store, enum cdl_operation operation, const struct caudal_request *requests,
                      size_t count, struct cdl_instant *now, struct caudal_decision *decisions,
                      struct caudal_decision *overall)
{
    if (overall == NULL)
        return CAUDAL_ERR_ARGUMENT;
    int status = CAUDAL_OK;
    if (store == NULL || requests == NULL || decisions == NULL || count == 0 || count > CAUDAL_TAKE_ALL_MAX)
        status = CAUDAL_ERR_ARGUMENT;
    for (size_t i = 0; i < count && status == CAUDAL_OK; i++)
        status = cdl_check_request(&requests[i]);
    if (status == CAUDAL_OK)
        status = store->ops->decide_all(store, operation, requests, NULL, count, now, decisions);
    if (status != CAUDAL_OK) {
        for (size_t i = 0; decisions != NULL && i < count && i < CAUDAL_TAKE_ALL_MAX; i++)
            no_verdict(&decisions[i], status);
        no_verdict(overall, status);
        return status;
    }
    const size_t index = cdl_binding(decisions, count);
    *overall = decisions[index];
    overall->binding = (uint32_t)index;
    return CAUDAL_OK;
}

int caudal_take_all(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                    struct caudal_decision *decisions, struct caudal_decision *overall)
{
    struct cdl_instant now = clock_of(store);
    return decide_all(store, CDL_TAKE, requests, count, &now, decisions, overall);
}

int caudal_take_all_at(struct caudal_store *store, const struct caudal_request *requests, size_t count, int64_t now_ns,
                       struct caudal_decision *decisions, struct caudal_decision *overall)
{
    struct cdl_instant now = cdl_instant_given(now_ns);
    return decide_all(store, CDL_TAKE, requests, count, &now, decisions, overall);
}

int caudal_peek_all(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                    struct caudal_decision *decisions, struct caudal_decision *overall)
{
    struct cdl_instant now = clock_of(store);
    return decide_all(store, CDL_PEEK, requests, count, &now, decisions, overall);
}

int caudal_peek_all_at(struct caudal_store *store, const struct caudal_request *requests, size_t count, int64_t now_ns,
                       struct caudal_decision *decisions, struct caudal_decision *overall)
{
    struct cdl_instant now = cdl_instant_given(now_ns);
    return decide_all(store, CDL_PEEK, requests, count, &now, decisions, overall);
}

static int take_batch(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                      struct cdl_instant *now, struct caudal_decision *decisions)
{
    if (store == NULL || (count > 0 && (requests == NULL || decisions == NULL)))
        return CAUDAL_ERR_ARGUMENT;
    return store->ops->take_batch(store, requests, count, now, decisions);
}

int caudal_take_batch(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                      struct caudal_decision *decisions)
{
    struct cdl_instant now = clock_of(store);
    return take_batch(store, requests, count, &now, decisions);
}

int caudal_take_batch_at(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                         int64_t now_ns, struct caudal_decision *decisions)
{
    struct cdl_instant now = cdl_instant_given(now_ns);
    return take_batch(store, requests, count, &now, decisions);
}
