/* The lease store as a store: its limits, and what it passes on.
 *
 * Every limit has a slot with a view of it, written under the store's lock and read without one, as in limits.h. A limit's edition grows
 * with every change of it, and books forget what they knew under an earlier one. */
#include "store/lease/lease_store.h"

#include <string.h>
#include <sys/random.h>

#include "base/problem.h"
#include "store/lease/lease_parts.h"

/* ---- views ---- */

static struct cdl_lease_slot *slot_of(const struct cdl_lease_store *store, uint32_t id)
{
    struct cdl_lease_slot *block = atomic_load_explicit(&store->blocks[(id & UINT16_MAX) / CDL_LEASE_SLOTS_PER_BLOCK],
                                                        memory_order_acquire);
    return block == NULL ? NULL : &block[id % CDL_LEASE_SLOTS_PER_BLOCK];
}

void cdl_lease_view_read(const struct cdl_lease_store *store, uint32_t id, struct cdl_lease_view *view)
{
    const struct cdl_lease_slot *slot = slot_of(store, id);
    *view = (struct cdl_lease_view){0};
    if (slot == NULL)
        return;
    for (;;) {
        const uint32_t version = atomic_load_explicit(&slot->version, memory_order_acquire);
        cdl_copy_words((cdl_word *)view, slot->view, CDL_WORDS(struct cdl_lease_view));
        if ((version & 1) == 0 && atomic_load_explicit(&slot->version, memory_order_relaxed) == version)
            break;
    }
    if (view->id != id)
        *view = (struct cdl_lease_view){.edition = view->edition};
}

bool cdl_lease_may_be_leased(const struct cdl_lease_store *store, uint32_t id)
{
    const struct cdl_lease_slot *slot = slot_of(store, id);
    const size_t ttl = (offsetof(struct cdl_lease_view, terms) + offsetof(struct cdl_lease_terms, ttl_ns)) / 8;
    return slot != NULL && atomic_load_explicit(&slot->view[ttl], memory_order_relaxed) != 0;
}

/* Under the store's lock. The words are released one by one, for the reason that cdl_limit_publish gives. */
static void publish(struct cdl_lease_slot *slot, const struct cdl_lease_view *view)
{
    const uint32_t version = atomic_load_explicit(&slot->version, memory_order_relaxed);
    uint64_t words[CDL_WORDS(struct cdl_lease_view)];
    slot->now = *view;
    slot->now.edition++;
    memcpy(words, &slot->now, sizeof words);
    atomic_store_explicit(&slot->version, version + 1, memory_order_relaxed);
    for (size_t i = 0; i < CDL_WORDS(struct cdl_lease_view); i++)
        atomic_store_explicit(&slot->view[i], words[i], memory_order_release);
    atomic_store_explicit(&slot->version, version + 2, memory_order_release);
}

/* The slot of a limit, with memory for it. NULL: there is none. */
static struct cdl_lease_slot *make_slot(struct cdl_lease_store *store, uint32_t id)
{
    struct cdl_lease_slot *_Atomic *block = &store->blocks[(id & UINT16_MAX) / CDL_LEASE_SLOTS_PER_BLOCK];
    if (atomic_load_explicit(block, memory_order_relaxed) == NULL)
        atomic_store_explicit(block,
                              cdl_allocate(&store->head.allocator, CDL_LEASE_SLOTS_PER_BLOCK,
                                           sizeof(struct cdl_lease_slot), _Alignof(struct cdl_lease_slot)),
                              memory_order_release);
    return slot_of(store, id);
}

/* What the slot knows of the limit; of one that it does not know, what the inner store knows. */
static int know(struct cdl_lease_store *store, uint32_t id, struct cdl_lease_slot **slot, struct cdl_lease_view *view)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    const int status = store->inner->ops->get_limit(store->inner, id, &limit);
    if (status != CAUDAL_OK)
        return status;
    *slot = make_slot(store, id);
    if (*slot == NULL)
        return CAUDAL_ERR_MEMORY;
    *view = (*slot)->now;
    if (view->id != id)
        *view = (struct cdl_lease_view){.id = id, .edition = (*slot)->now.edition, .rule = limit};
    return CAUDAL_OK;
}

/* ---- limits ---- */

static bool can_lease(const struct caudal_limit *limit)
{
    return limit->algorithm != CAUDAL_SLIDING_LOG && limit->algorithm != CAUDAL_UNLIMITED;
}

/* The limit that the inner store enforces, so that the whole keeps `rule`. */
static int lower(const struct caudal_limit *rule, const struct cdl_lease_terms *terms, struct caudal_limit *lowered,
                 struct caudal_problem *problem)
{
    *lowered = *rule;
    if (terms->ttl_ns == 0 || !terms->strict_bound || rule->algorithm != CAUDAL_TOKEN_BUCKET)
        return CAUDAL_OK;
    const uint64_t more = cdl_lease_refill(rule, terms->ttl_ns), burst = caudal_limit_capacity(rule);
    if (more < burst) {
        lowered->burst = burst - more;
        return CAUDAL_OK;
    }
    return cdl_problem(problem, CAUDAL_ERR_LIMIT, 0,
                       "a strict bound takes the %llu tokens of a lease's ttl off the burst of %llu, which leaves none",
                       (unsigned long long)more, (unsigned long long)burst);
}

static int set_inner(struct cdl_lease_store *store, uint32_t id, const struct caudal_limit *limit,
                     struct cdl_instant *now, struct caudal_problem *problem)
{
    return store->inner->ops->set_limit(store->inner, id, limit, now, problem);
}

static int add_limit(struct caudal_store *head, const char *name, const struct caudal_limit *limit, uint32_t *id,
                     struct caudal_problem *problem)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    uint32_t added;
    pthread_mutex_lock(&store->lock);
    int status = store->inner->ops->add_limit(store->inner, name, limit, &added, problem);
    struct cdl_lease_slot *slot = status == CAUDAL_OK ? make_slot(store, added) : NULL;
    if (slot != NULL) {
        publish(slot, &(struct cdl_lease_view){.id = added, .edition = slot->now.edition, .rule = *limit});
        *id = added;
    } else if (status == CAUDAL_OK) {
        store->inner->ops->remove_limit(store->inner, added);
        status = CAUDAL_ERR_MEMORY;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* Never leased, so there is nothing to know of it here. */
static int add_per_call_limit(struct caudal_store *head, const char *name, uint32_t *id, struct caudal_problem *problem)
{
    struct caudal_store *inner = cdl_lease_store(head)->inner;
    return inner->ops->add_per_call_limit(inner, name, id, problem);
}

static int find_limit(struct caudal_store *head, const char *name, uint32_t *id)
{
    struct caudal_store *inner = cdl_lease_store(head)->inner;
    return inner->ops->find_limit(inner, name, id);
}

static int get_limit(struct caudal_store *head, uint32_t id, struct caudal_limit *limit)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    pthread_mutex_lock(&store->lock);
    const int status = store->inner->ops->get_limit(store->inner, id, limit);
    const struct cdl_lease_slot *slot = slot_of(store, id);
    if (status == CAUDAL_OK && slot != NULL && slot->now.id == id)
        *limit = slot->now.rule;
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* Has the inner store enforce what the view says, and then everybody see it. */
static int change(struct cdl_lease_store *store, struct cdl_lease_slot *slot, const struct cdl_lease_view *view,
                  struct cdl_instant *now, struct caudal_problem *problem)
{
    struct caudal_limit lowered;
    int status = lower(&view->rule, &view->terms, &lowered, problem);
    if (status == CAUDAL_OK)
        status = set_inner(store, (uint32_t)view->id, &lowered, now, problem);
    if (status == CAUDAL_OK)
        publish(slot, view);
    return status;
}

/* A limit that becomes one that cannot be leased is leased no more. */
static int set_limit(struct caudal_store *head, uint32_t id, const struct caudal_limit *limit, struct cdl_instant *now,
                     struct caudal_problem *problem)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    struct cdl_lease_slot *slot;
    struct cdl_lease_view view;
    pthread_mutex_lock(&store->lock);
    int status = know(store, id, &slot, &view);
    if (status == CAUDAL_OK) {
        view.rule = *limit;
        if (!can_lease(limit))
            view.terms = (struct cdl_lease_terms){0};
        status = change(store, slot, &view, now, problem);
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

static int remove_limit(struct caudal_store *head, uint32_t id)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    pthread_mutex_lock(&store->lock);
    const int status = store->inner->ops->remove_limit(store->inner, id);
    struct cdl_lease_slot *slot = slot_of(store, id);
    if (status == CAUDAL_OK && slot != NULL && slot->now.id == id)
        publish(slot, &(struct cdl_lease_view){.edition = slot->now.edition});
    pthread_mutex_unlock(&store->lock);
    return status;
}

static int check_lease(const struct caudal_lease *lease, struct caudal_problem *problem)
{
    if (lease->size != sizeof *lease)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "lease.size is %zu; this library knows %zu", lease->size,
                           sizeof *lease);
    if (lease->ttl_ns < CDL_LEASE_TTL_MIN_NS || lease->ttl_ns > CDL_LEASE_TTL_MAX_NS)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "a lease's ttl is 1 ms to 10 s, not %lld ns",
                           (long long)lease->ttl_ns);
    if (lease->share_per_mille < 1 || lease->share_per_mille > 1000)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "a lease's share is 1 to 1000 per mille, not %u",
                           lease->share_per_mille);
    return CAUDAL_OK;
}

/* Under the store's lock. */
static int lease_known(struct cdl_lease_store *store, struct cdl_lease_slot *slot, struct cdl_lease_view *view,
                       const struct caudal_lease *lease, struct caudal_problem *problem)
{
    const bool was_strict = view->terms.strict_bound;
    if (lease == NULL && view->terms.ttl_ns == 0)
        return CAUDAL_OK; /* and nothing is to be known of a limit that comes with each call */
    view->terms = (struct cdl_lease_terms){0};
    if (lease != NULL) {
        if (!can_lease(&view->rule))
            return cdl_problem(problem, CAUDAL_ERR_UNSUPPORTED, 0, "a %s limit cannot be leased",
                               caudal_algorithm_name(view->rule.algorithm));
        view->terms.ttl_ns = lease->ttl_ns;
        view->terms.share_per_mille = lease->share_per_mille;
        view->terms.strict_bound = lease->strict_bound != 0;
        const int status = cdl_lease_start_keeper(store);
        if (status != CAUDAL_OK)
            return cdl_problem(problem, status, 0, "no memory for leases");
    }
    struct cdl_instant now = cdl_instant_read(store->head.clock);
    if (was_strict || view->terms.strict_bound)
        return change(store, slot, view, &now, problem);
    publish(slot, view);
    return CAUDAL_OK;
}

static int lease_limit(struct caudal_store *head, uint32_t id, const struct caudal_lease *lease,
                       struct caudal_problem *problem)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    struct cdl_lease_slot *slot;
    struct cdl_lease_view view;
    int status = lease != NULL ? check_lease(lease, problem) : CAUDAL_OK;
    if (status != CAUDAL_OK)
        return status;
    pthread_mutex_lock(&store->lock);
    status = know(store, id, &slot, &view);
    if (status == CAUDAL_OK)
        status = lease_known(store, slot, &view, lease, problem);
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* ---- deciding ---- */

static int decide(struct caudal_store *head, const struct caudal_request *request, const struct cdl_question *question,
                  struct cdl_instant *now, struct caudal_decision *decision)
{
    struct caudal_store *inner = cdl_lease_store(head)->inner;
    if (now->clock == NULL)
        return inner->ops->decide(inner, request, question, now, decision);
    struct cdl_call call = {.requests = request, .questions = question, .decisions = decision, .count = 1};
    cdl_lease_ask_and_wait(head, &call);
    return call.status;
}

static int take(struct caudal_store *head, uint32_t limit, const void *key, size_t key_length, uint64_t cost,
                struct caudal_decision *decision)
{
    const struct caudal_request request = {limit, key, key_length, cost};
    const struct cdl_question question = cdl_question_take(cost);
    struct cdl_instant now = cdl_instant_read(head->clock);
    const int status = decide(head, &request, &question, &now, decision);
    if (status != CAUDAL_OK)
        *decision = (struct caudal_decision){.status = status};
    return status;
}

static int reset(struct caudal_store *head, const struct caudal_request *request)
{
    const struct cdl_question question = {.operation = CDL_RESET};
    struct cdl_instant now = cdl_instant_read(head->clock);
    struct caudal_decision decision;
    return decide(head, request, &question, &now, &decision);
}

static int decide_all(struct caudal_store *head, enum cdl_operation operation, const struct caudal_request *requests,
                      const struct caudal_limit *const *limits, size_t count, struct cdl_instant *now,
                      struct caudal_decision *decisions)
{
    struct caudal_store *inner = cdl_lease_store(head)->inner;
    struct cdl_question questions[CAUDAL_TAKE_ALL_MAX];
    if (now->clock == NULL)
        return inner->ops->decide_all(inner, operation, requests, limits, count, now, decisions);
    for (size_t i = 0; i < count; i++)
        questions[i] = (struct cdl_question){.operation = operation,
                                             .minimum = requests[i].cost,
                                             .maximum = requests[i].cost,
                                             .limit = limits != NULL ? limits[i] : NULL};
    struct cdl_call call = {
        .requests = requests, .questions = questions, .decisions = decisions, .count = count, .together = true};
    cdl_lease_ask_and_wait(head, &call);
    return call.status;
}

static int take_batch(struct caudal_store *head, const struct caudal_request *requests, size_t count,
                      struct cdl_instant *now, struct caudal_decision *decisions)
{
    struct caudal_store *inner = cdl_lease_store(head)->inner;
    if (now->clock == NULL)
        return inner->ops->take_batch(inner, requests, count, now, decisions);
    return cdl_store_take_batch(head, requests, count, NULL, decisions, cdl_lease_ask_and_wait);
}

/* ---- the store as a whole ---- */

static int stats(struct caudal_store *head, struct caudal_store_stats *stats)
{
    struct caudal_store *inner = cdl_lease_store(head)->inner;
    return inner->ops->stats(inner, stats);
}

static const struct cdl_store_events *events(const struct caudal_store *head)
{
    const struct caudal_store *inner = ((const struct cdl_lease_store *)(const void *)head)->inner;
    return inner->ops->events(inner);
}

static void count_all(struct caudal_store *head, struct cdl_lease_counts *counts)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    pthread_mutex_lock(&store->lock);
    *counts = store->gone;
    cdl_lease_clients_count(store, counts);
    for (size_t i = 0; i < CDL_LEASE_STRIPES; i++)
        if (store->stripes[i].book != NULL)
            cdl_lease_book_count(store->stripes[i].book, counts);
    pthread_mutex_unlock(&store->lock);
}

static void close_store(struct caudal_store *head)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    const struct caudal_allocator allocator = head->allocator;
    cdl_lease_stop_keeper(store);
    store->inner->ops->close(store->inner);
    for (size_t i = 0; i < sizeof store->blocks / sizeof store->blocks[0]; i++)
        cdl_release(&allocator, store->blocks[i], CDL_LEASE_SLOTS_PER_BLOCK, sizeof(struct cdl_lease_slot));
    for (size_t i = 0; i < CDL_LEASE_STRIPES; i++) {
        pthread_cond_destroy(&store->stripes[i].answered);
        pthread_mutex_destroy(&store->stripes[i].lock);
    }
    pthread_cond_destroy(&store->keeper_wake);
    pthread_mutex_destroy(&store->keeper_lock);
    pthread_mutex_destroy(&store->lock);
    explicit_bzero(store->secret, sizeof store->secret);
    cdl_release(&allocator, store, 1, sizeof *store);
}

#define COMMON_OPS                                                                                                     \
    .close = close_store, .stats = stats, .add_limit = add_limit, .add_per_call_limit = add_per_call_limit,            \
    .find_limit = find_limit, .get_limit = get_limit, .set_limit = set_limit, .remove_limit = remove_limit,            \
    .take = take, .decide = decide, .reset = reset, .decide_all = decide_all, .take_batch = take_batch,                \
    .ask = cdl_lease_ask_and_wait, .lease_limit = lease_limit, .lease_counts = count_all

/* Over a store that answers at once, whose books are those of all threads. */
static const struct cdl_store_ops ops_at_once = {COMMON_OPS};
static const struct cdl_store_ops ops_later = {COMMON_OPS, .open_client = cdl_lease_client_open, .events = events};

static void init_locks(struct cdl_lease_store *store)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->keeper_lock, NULL);
    pthread_cond_init(&store->keeper_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (size_t i = 0; i < CDL_LEASE_STRIPES; i++) {
        pthread_mutex_init(&store->stripes[i].lock, NULL);
        pthread_cond_init(&store->stripes[i].answered, NULL);
    }
    store->keeper_due_ns = INT64_MAX;
}

int cdl_lease_store_open(struct caudal_store *inner, const struct caudal_store_options *options,
                         struct caudal_store **opened, struct caudal_problem *problem)
{
    struct cdl_lease_store *store = cdl_allocate(options->allocator, 1, sizeof *store,
                                                 _Alignof(struct cdl_lease_store));
    if (store == NULL) {
        inner->ops->close(inner);
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for the store");
    }
    const struct cdl_store_ops *ops = cdl_store_answers_later(inner) ? &ops_later : &ops_at_once;
    store->head = (struct caudal_store){ops, options->clock, *options->allocator};
    store->inner = inner;
    init_locks(store);
    if (getrandom(store->secret, sizeof store->secret, 0) != (ssize_t)sizeof store->secret) {
        close_store(&store->head);
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "the system gives no random bytes for the store's secret");
    }
    *opened = &store->head;
    return CAUDAL_OK;
}
