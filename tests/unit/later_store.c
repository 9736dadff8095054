#include "later_store.h"

#include <string.h>

static struct later_store *of(const struct caudal_store *head)
{
    return (struct later_store *)(uintptr_t)head;
}

static void close_store(struct caudal_store *head)
{
    (void)head;
}

static int add_limit(struct caudal_store *head, const char *name, const struct caudal_limit *limit, uint32_t *id,
                     struct caudal_problem *problem)
{
    (void)problem;
    return caudal_add_limit(of(head)->memory, name, limit, id, NULL);
}

static int add_per_call_limit(struct caudal_store *head, const char *name, uint32_t *id, struct caudal_problem *problem)
{
    (void)problem;
    return cdl_add_per_call_limit(of(head)->memory, name, id, NULL);
}

static int find_limit(struct caudal_store *head, const char *name, uint32_t *id)
{
    return caudal_find_limit(of(head)->memory, name, id);
}

static int get_limit(struct caudal_store *head, uint32_t id, struct caudal_limit *limit)
{
    return caudal_get_limit(of(head)->memory, id, limit);
}

static int set_limit(struct caudal_store *head, uint32_t id, const struct caudal_limit *limit, struct cdl_instant *now,
                     struct caudal_problem *problem)
{
    (void)problem;
    (void)now;
    return caudal_set_limit(of(head)->memory, id, limit, NULL);
}

static int remove_limit(struct caudal_store *head, uint32_t id)
{
    return caudal_remove_limit(of(head)->memory, id);
}

static int stats(struct caudal_store *head, struct caudal_store_stats *stats)
{
    return caudal_store_stats(of(head)->memory, stats);
}

static int decide(struct caudal_store *head, const struct caudal_request *request, const struct cdl_question *question,
                  struct cdl_instant *now, struct caudal_decision *decision)
{
    struct caudal_store *memory = of(head)->memory;
    return of(head)->is_away ? CAUDAL_ERR_STORE : memory->ops->decide(memory, request, question, now, decision);
}

static int reset_key(struct caudal_store *head, const struct caudal_request *request)
{
    struct caudal_store *memory = of(head)->memory;
    return of(head)->is_away ? CAUDAL_ERR_STORE : memory->ops->reset(memory, request);
}

static int decide_all(struct caudal_store *head, enum cdl_operation operation, const struct caudal_request *requests,
                      const struct caudal_limit *const *limits, size_t count, struct cdl_instant *now,
                      struct caudal_decision *decisions)
{
    struct caudal_store *memory = of(head)->memory;
    return of(head)->is_away ? CAUDAL_ERR_STORE
                             : memory->ops->decide_all(memory, operation, requests, limits, count, now, decisions);
}

/* ---- its client ---- */

static struct cdl_store_client *open_client(struct caudal_store *head, const struct cdl_loop_hooks *hooks)
{
    of(head)->hooks = *hooks;
    of(head)->clients++;
    return &of(head)->client;
}

static void ask(struct cdl_store_client *client, struct cdl_call *call)
{
    struct later_store *store = of(client->store);
    assert_true(store->count < LATER_CALLS_MAX);
    assert_in_range(call->count, 1, CAUDAL_TAKE_ALL_MAX);
    store->calls[store->count++] = call;
    store->asked++;
}

static void close_client(struct cdl_store_client *client)
{
    struct later_store *store = of(client->store);
    later_fail_all(store);
    store->clients--;
}

static bool try_ask(struct cdl_store_client *client, struct cdl_call *call)
{
    struct later_store *store = of(client->store);
    if (store->can_decide == 0)
        return false;
    store->can_decide--;
    assert_true(cdl_store_ask(store->memory, NULL, call));
    for (size_t i = 0; i < call->count; i++)
        call->decisions[i].source = CAUDAL_SOURCE_LEASE;
    return true;
}

static void flush(struct cdl_store_client *client)
{
    of(client->store)->flushes++;
}

static void ready(struct cdl_store_client *client, struct cdl_socket *socket, unsigned events)
{
    struct later_store *store = of(client->store);
    if (store->on_ready != NULL)
        store->on_ready(store, socket, events);
}

static void on_time(struct cdl_store_client *client, int64_t now_ns)
{
    struct later_store *store = of(client->store);
    if (store->on_time != NULL)
        store->on_time(store, now_ns);
}

static void found(struct cdl_store_client *client, struct cdl_lookup_request *request, const struct sockaddr *address,
                  socklen_t length)
{
    (void)request, (void)length;
    struct later_store *store = of(client->store);
    if (store->on_found != NULL)
        store->on_found(store, address);
}

static bool is_up(const struct cdl_store_client *client)
{
    return !of(client->store)->is_away;
}

static const struct cdl_client_ops client_ops = {
    .close = close_client,
    .ask = ask,
    .try_ask = try_ask,
    .flush = flush,
    .ready = ready,
    .time = on_time,
    .found = found,
    .is_up = is_up,
};

static int lease_limit(struct caudal_store *head, uint32_t id, const struct caudal_lease *lease,
                       struct caudal_problem *problem)
{
    (void)problem;
    assert_true((id & UINT16_MAX) < LATER_LIMITS_MAX);
    of(head)->leases[id & UINT16_MAX] = lease != NULL ? *lease : (struct caudal_lease){.size = 0};
    return CAUDAL_OK;
}

static const struct cdl_store_events *events(const struct caudal_store *head)
{
    return &of(head)->events;
}

static const struct cdl_store_ops store_ops = {
    .close = close_store,
    .stats = stats,
    .add_limit = add_limit,
    .add_per_call_limit = add_per_call_limit,
    .find_limit = find_limit,
    .get_limit = get_limit,
    .set_limit = set_limit,
    .remove_limit = remove_limit,
    .decide = decide,
    .reset = reset_key,
    .decide_all = decide_all,
    .open_client = open_client,
    .events = events,
    .lease_limit = lease_limit,
};

void later_open(struct later_store *store, struct world *world)
{
    memset(store, 0, sizeof *store);
    store->head.ops = &store_ops;
    store->head.clock = caudal_fake_clock_clock(world->clock);
    store->memory = world->store;
    store->client = (struct cdl_store_client){&client_ops, &store->head};
}

void later_close(struct later_store *store)
{
    assert_int_equal(store->count, 0);
    caudal_store_close(&store->head);
}

/* ---- answers ---- */

static struct cdl_call *take_out(struct later_store *store, size_t index)
{
    assert_true(index < store->count);
    struct cdl_call *call = store->calls[index];
    store->count--;
    memmove(&store->calls[index], &store->calls[index + 1], (store->count - index) * sizeof store->calls[0]);
    return call;
}

void later_answer(struct later_store *store, size_t index)
{
    struct cdl_call *call = take_out(store, index);
    assert_true(cdl_store_ask(store->memory, NULL, call));
    call->decided_at_ns = store->head.clock->realtime_ns(store->head.clock->context);
    call->done(call);
}

void later_fail(struct later_store *store, size_t index)
{
    struct cdl_call *call = take_out(store, index);
    for (size_t i = 0; i < call->count; i++)
        call->decisions[i] = (struct caudal_decision){.status = CAUDAL_ERR_STORE};
    call->status = CAUDAL_ERR_STORE;
    call->failure = CDL_STORE_TIMEOUT;
    cdl_store_event_count(&store->events, CDL_STORE_TIMEOUT);
    call->done(call);
}

void later_answer_all(struct later_store *store)
{
    while (store->count > 0)
        later_answer(store, 0);
}

void later_fail_all(struct later_store *store)
{
    while (store->count > 0)
        later_fail(store, 0);
}
