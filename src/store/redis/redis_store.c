#include "store/redis/redis_store.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>

#include "base/problem.h"

#define LIMITS_PER_BLOCK 64u

/* ---- limits ---- */

static struct cdl_redis_limit *slot_of(const struct cdl_redis_store *store, uint32_t id)
{
    struct cdl_redis_limit *block = store->blocks[(id & UINT16_MAX) / LIMITS_PER_BLOCK];
    return block == NULL ? NULL : &block[id % LIMITS_PER_BLOCK];
}

const struct cdl_redis_limit *cdl_redis_store_limit(const struct cdl_redis_store *store, uint32_t id)
{
    const struct cdl_limit_slot *slot = cdl_limits_find(store->limits, id);
    if (slot == NULL || slot->name[0] == '\0' || slot->generation != id >> 16)
        return NULL;
    return slot_of(store, id);
}

const char *cdl_redis_store_limit_name(const struct cdl_redis_store *store, uint32_t id)
{
    return cdl_limits_find(store->limits, id)->name;
}

/* Under the lock, for writing. */
static int add_limit_locked(struct cdl_redis_store *store, const char *name, const struct cdl_redis_limit *made,
                            uint32_t *id)
{
    int status;
    if (cdl_limits_by_name(store->limits, name) >= 0)
        return CAUDAL_ERR_EXISTS;
    struct cdl_limit_slot *slot = cdl_limits_add(store->limits, store->shared.allocator, name, id, &status);
    if (slot == NULL)
        return status;
    struct cdl_redis_limit **block = &store->blocks[(*id & UINT16_MAX) / LIMITS_PER_BLOCK];
    if (*block == NULL)
        *block = cdl_allocate(store->shared.allocator, LIMITS_PER_BLOCK, sizeof **block,
                              _Alignof(struct cdl_redis_limit));
    if (*block == NULL) {
        cdl_limits_remove(store->limits, slot, *id);
        return CAUDAL_ERR_MEMORY;
    }
    *slot_of(store, *id) = *made;
    return CAUDAL_OK;
}

static int add_made(struct cdl_redis_store *store, const char *name, const struct cdl_redis_limit *made, uint32_t *id)
{
    pthread_rwlock_wrlock(&store->lock);
    const int status = add_limit_locked(store, name, made, id);
    pthread_rwlock_unlock(&store->lock);
    return status;
}

static int add_limit(struct caudal_store *head, const char *name, const struct caudal_limit *limit, uint32_t *id,
                     struct caudal_problem *problem)
{
    struct cdl_redis_limit made;
    const int status = cdl_redis_limit_make(limit, &made, problem);
    return status == CAUDAL_OK ? add_made(cdl_redis_store(head), name, &made, id) : status;
}

static int add_per_call_limit(struct caudal_store *head, const char *name, uint32_t *id, struct caudal_problem *problem)
{
    (void)problem;
    const struct cdl_redis_limit made = {
        .limit = {.size = sizeof made.limit, .algorithm = CAUDAL_UNLIMITED, .burst = CAUDAL_BURST_DEFAULT},
        .per_call = true,
    };
    return add_made(cdl_redis_store(head), name, &made, id);
}

static int find_limit(struct caudal_store *head, const char *name, uint32_t *id)
{
    struct cdl_redis_store *store = cdl_redis_store(head);
    pthread_rwlock_rdlock(&store->lock);
    const int64_t index = cdl_limits_by_name(store->limits, name);
    if (index >= 0)
        *id = cdl_limits_slot(store->limits, (uint32_t)index)->generation << 16 | (uint32_t)index;
    pthread_rwlock_unlock(&store->lock);
    return index >= 0 ? CAUDAL_OK : CAUDAL_ERR_UNKNOWN;
}

static int get_limit(struct caudal_store *head, uint32_t id, struct caudal_limit *limit)
{
    struct cdl_redis_store *store = cdl_redis_store(head);
    pthread_rwlock_rdlock(&store->lock);
    const struct cdl_redis_limit *found = cdl_redis_store_limit(store, id);
    if (found != NULL)
        *limit = found->limit;
    pthread_rwlock_unlock(&store->lock);
    return found != NULL ? CAUDAL_OK : CAUDAL_ERR_UNKNOWN;
}

/* Calls that are under way were written down with the old one. State in the store follows key by key, at the next charge. */
static int set_limit(struct caudal_store *head, uint32_t id, const struct caudal_limit *limit, struct cdl_instant *now,
                     struct caudal_problem *problem)
{
    (void)now;
    struct cdl_redis_store *store = cdl_redis_store(head);
    struct cdl_redis_limit made;
    int status = cdl_redis_limit_make(limit, &made, problem);
    if (status != CAUDAL_OK)
        return status;
    pthread_rwlock_wrlock(&store->lock);
    const struct cdl_redis_limit *old = cdl_redis_store_limit(store, id);
    if (old == NULL)
        status = CAUDAL_ERR_UNKNOWN;
    else if (old->per_call)
        status = cdl_problem(problem, CAUDAL_ERR_UNSUPPORTED, 0, "what it enforces comes with each call");
    else
        *slot_of(store, id) = made;
    pthread_rwlock_unlock(&store->lock);
    return status;
}

/* What its keys hold stays in the store, where others may still count on it, until it expires. */
static int remove_limit(struct caudal_store *head, uint32_t id)
{
    struct cdl_redis_store *store = cdl_redis_store(head);
    pthread_rwlock_wrlock(&store->lock);
    const bool known = cdl_redis_store_limit(store, id) != NULL;
    if (known)
        cdl_limits_remove(store->limits, cdl_limits_find(store->limits, id), id);
    pthread_rwlock_unlock(&store->lock);
    return known ? CAUDAL_OK : CAUDAL_ERR_UNKNOWN;
}

static int stats(struct caudal_store *head, struct caudal_store_stats *stats)
{
    struct cdl_redis_store *store = cdl_redis_store(head);
    pthread_rwlock_rdlock(&store->lock);
    stats->limits = store->limits->count;
    pthread_rwlock_unlock(&store->lock);
    return CAUDAL_OK;
}

/* ---- waiting for an answer ---- */

/* A client in a loop of its own, used by one thread at a time. */
struct cdl_redis_waiter {
    struct cdl_redis_waiter *next;
    struct cdl_poll_loop *loop;
    struct cdl_store_client *client;
    bool used;
};

static _Thread_local enum cdl_store_event last_failure;

enum cdl_store_event cdl_redis_last_failure(void)
{
    return last_failure;
}

static void close_waiter(struct cdl_redis_store *store, struct cdl_redis_waiter *waiter)
{
    if (waiter->client != NULL)
        cdl_store_client_close(waiter->client);
    cdl_poll_loop_close(waiter->loop);
    cdl_release(store->shared.allocator, waiter, 1, sizeof *waiter);
}

static struct cdl_redis_waiter *open_waiter(struct cdl_redis_store *store)
{
    struct cdl_redis_waiter *waiter = cdl_allocate(store->shared.allocator, 1, sizeof *waiter,
                                                   _Alignof(struct cdl_redis_waiter));
    if (waiter == NULL)
        return NULL;
    waiter->loop = cdl_poll_loop_open(store->shared.allocator);
    if (waiter->loop != NULL) {
        const struct cdl_loop_hooks hooks = cdl_poll_loop_hooks(waiter->loop);
        waiter->client = cdl_redis_asker_open(&store->head, &hooks);
    }
    if (waiter->client != NULL)
        return waiter;
    close_waiter(store, waiter);
    return NULL;
}

/* A waiter that is idle, or a new one while there may be more, or the first that comes free before the deadline. NULL: none, and
 * `last_failure` or CAUDAL_ERR_MEMORY in *status say why. */
static struct cdl_redis_waiter *take_waiter(struct cdl_redis_store *store, int64_t until_ns, int *status)
{
    const struct timespec until = {until_ns / CDL_NS_PER_S, until_ns % CDL_NS_PER_S};
    int waited = 0;
    pthread_mutex_lock(&store->pool_lock);
    while (store->idle == NULL && store->waiters >= store->config.clients && waited == 0)
        waited = pthread_cond_timedwait(&store->pool_free, &store->pool_lock, &until);
    struct cdl_redis_waiter *waiter = store->idle;
    const bool is_new = waiter == NULL && store->waiters < store->config.clients;
    if (waiter != NULL)
        store->idle = waiter->next;
    store->waiters += is_new;
    pthread_mutex_unlock(&store->pool_lock);
    *status = CAUDAL_ERR_STORE;
    if (is_new && (waiter = open_waiter(store)) == NULL) {
        *status = CAUDAL_ERR_MEMORY;
        pthread_mutex_lock(&store->pool_lock);
        store->waiters--;
        pthread_cond_signal(&store->pool_free); /* who waits may have better luck */
        pthread_mutex_unlock(&store->pool_lock);
    } else if (waiter == NULL) {
        last_failure = CDL_STORE_OVERLOAD;
        cdl_store_event_count(&store->events, last_failure);
    }
    return waiter;
}

static void give_waiter(struct cdl_redis_store *store, struct cdl_redis_waiter *waiter)
{
    pthread_mutex_lock(&store->pool_lock);
    waiter->next = store->idle;
    store->idle = waiter;
    pthread_cond_signal(&store->pool_free);
    pthread_mutex_unlock(&store->pool_lock);
}

static void turn_flush(void *client)
{
    cdl_store_client_flush(client);
}

static void turn_ready(void *client, struct cdl_socket *socket, unsigned events)
{
    cdl_store_client_ready(client, socket, events);
}

static void turn_time(void *client, int64_t now_ns)
{
    cdl_store_client_time(client, now_ns);
}

static void turn_found(void *client, struct cdl_lookup_request *request, const struct sockaddr *address,
                       socklen_t length)
{
    cdl_store_client_found(client, request, address, length);
}

static void note_done(struct cdl_call *call)
{
    *(bool *)call->context = true;
}

/* Asks and waits. */
static void ask_call(struct caudal_store *head, struct cdl_call *call)
{
    struct cdl_redis_store *store = cdl_redis_store(head);
    bool done = false;
    last_failure = CDL_STORE_NONE;
    const struct caudal_clock *clock = caudal_clock_system();
    call->deadline_ns = clock->monotonic_ns(clock->context) + store->config.deadline_ns;
    struct cdl_redis_waiter *waiter = take_waiter(store, call->deadline_ns, &call->status);
    if (waiter == NULL) {
        for (size_t i = 0; i < call->count; i++)
            call->decisions[i] = (struct caudal_decision){.status = call->status};
        call->failure = last_failure;
        call->decided_at_ns = 0;
        return;
    }
    call->done = note_done;
    call->context = &done;
    const struct cdl_turning turning = {waiter->client, turn_flush, turn_ready, turn_time, turn_found};
    /* What has happened to its connections since they were last used comes first. A new one has none, and what comes of its first
     * is for the call to hear. */
    if (waiter->used)
        cdl_poll_loop_turn(waiter->loop, &turning, false);
    waiter->used = true;
    waiter->client->ops->ask(waiter->client, call);
    /* Tells at once of what nobody has to be asked about: there would be nothing to wait for. */
    cdl_store_client_flush(waiter->client);
    while (!done)
        cdl_poll_loop_turn(waiter->loop, &turning, true);
    /* What has to be undone is on its way when the waiter comes to rest. */
    cdl_store_client_flush(waiter->client);
    give_waiter(store, waiter);
    last_failure = call->failure;
}

static int ask(struct cdl_redis_store *store, struct cdl_call *call, const struct cdl_instant *now)
{
    call->now_ns = now != NULL && now->clock == NULL ? &now->realtime_ns : NULL;
    ask_call(&store->head, call);
    return call->status;
}

static int decide(struct caudal_store *head, const struct caudal_request *request, const struct cdl_question *question,
                  struct cdl_instant *now, struct caudal_decision *decision)
{
    struct cdl_call call = {.requests = request, .questions = question, .decisions = decision, .count = 1};
    return ask(cdl_redis_store(head), &call, now);
}

static int take(struct caudal_store *head, uint32_t limit, const void *key, size_t key_length, uint64_t cost,
                struct caudal_decision *decision)
{
    const struct caudal_request request = {limit, key, key_length, cost};
    const struct cdl_question question = cdl_question_take(cost);
    return decide(head, &request, &question, NULL, decision);
}

static int reset(struct caudal_store *head, const struct caudal_request *request)
{
    const struct cdl_question question = {.operation = CDL_RESET};
    struct caudal_decision decision;
    return decide(head, request, &question, NULL, &decision);
}

static int decide_all(struct caudal_store *head, enum cdl_operation operation, const struct caudal_request *requests,
                      const struct caudal_limit *const *limits, size_t count, struct cdl_instant *now,
                      struct caudal_decision *decisions)
{
    struct cdl_question questions[CAUDAL_TAKE_ALL_MAX];
    for (size_t i = 0; i < count; i++)
        questions[i] = (struct cdl_question){.operation = operation,
                                             .minimum = requests[i].cost,
                                             .maximum = requests[i].cost,
                                             .limit = limits != NULL ? limits[i] : NULL};
    struct cdl_call call = {
        .requests = requests, .questions = questions, .decisions = decisions, .count = count, .together = true};
    return ask(cdl_redis_store(head), &call, now);
}

static int take_batch(struct caudal_store *head, const struct caudal_request *requests, size_t count,
                      struct cdl_instant *now, struct caudal_decision *decisions)
{
    return cdl_store_take_batch(head, requests, count, now->clock == NULL ? &now->realtime_ns : NULL, decisions,
                                ask_call);
}

/* ---- opening and closing ---- */

static void close_store(struct caudal_store *head)
{
    struct cdl_redis_store *store = cdl_redis_store(head);
    const struct caudal_allocator allocator = head->allocator;
    while (store->idle != NULL) {
        struct cdl_redis_waiter *waiter = store->idle;
        store->idle = waiter->next;
        close_waiter(store, waiter);
    }
    for (size_t i = 0; i < sizeof store->blocks / sizeof store->blocks[0]; i++)
        cdl_release(&allocator, store->blocks[i], LIMITS_PER_BLOCK, sizeof(struct cdl_redis_limit));
    if (store->limits != NULL)
        cdl_limits_close(store->limits, &allocator);
    EVP_MAC_free(store->hmac);
    cdl_redis_tls_close(store->shared.tls);
    cdl_redis_config_free(&store->config);
    OPENSSL_cleanse(store->secret, sizeof store->secret);
    pthread_cond_destroy(&store->pool_free);
    pthread_mutex_destroy(&store->pool_lock);
    pthread_rwlock_destroy(&store->lock);
    cdl_release(&allocator, store, 1, sizeof *store);
}

static const struct cdl_store_events *events(const struct caudal_store *head)
{
    return &((const struct cdl_redis_store *)head)->events;
}

static const struct cdl_store_ops redis_ops = {
    .close = close_store,
    .stats = stats,
    .add_limit = add_limit,
    .add_per_call_limit = add_per_call_limit,
    .find_limit = find_limit,
    .get_limit = get_limit,
    .set_limit = set_limit,
    .remove_limit = remove_limit,
    .take = take,
    .decide = decide,
    .reset = reset,
    .decide_all = decide_all,
    .take_batch = take_batch,
    .open_client = cdl_redis_asker_open,
    .events = events,
    .ask = ask_call,
};

static void init_locks(struct cdl_redis_store *store)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&store->pool_free, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&store->pool_lock, NULL);
    pthread_rwlock_init(&store->lock, NULL);
}

static int open_parts(struct cdl_redis_store *store, const struct caudal_store_options *options,
                      struct caudal_problem *problem)
{
    store->shared = (struct cdl_redis_shared){
        .config = &store->config, .events = &store->events, .allocator = &store->head.allocator};
    if (options->deadline_ns > 0)
        store->config.deadline_ns = options->deadline_ns;
    if (store->config.tls && (store->shared.tls = cdl_redis_tls_open(&store->config, problem)) == NULL)
        return CAUDAL_ERR_ARGUMENT;
    store->limits = cdl_limits_open(store->shared.allocator);
    store->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (store->limits == NULL || store->hmac == NULL || cdl_redis_scripts() == NULL ||
        SHA256(options->secret, options->secret_length, store->secret) == NULL)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for the store");
    return CAUDAL_OK;
}

int cdl_redis_store_open(const char *url, const struct caudal_store_options *options, struct caudal_store **opened,
                         struct caudal_problem *problem)
{
    struct cdl_redis_store *store = cdl_allocate(options->allocator, 1, sizeof *store,
                                                 _Alignof(struct cdl_redis_store));
    if (store == NULL)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for the store");
    store->head = (struct caudal_store){&redis_ops, options->clock, *options->allocator};
    init_locks(store);
    int status = cdl_redis_config_read(url, &store->head.allocator, &store->config, problem);
    if (status == CAUDAL_OK)
        status = open_parts(store, options, problem);
    if (status != CAUDAL_OK) {
        close_store(&store->head);
        return status;
    }
    *opened = &store->head;
    return CAUDAL_OK;
}
