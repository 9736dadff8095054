#include "far_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "run.h"

#define QUESTIONS_MAX 4

struct message {
    struct message *next;
    struct link *link;
    struct cdl_call *call; /* NULL: the client has answered it, and it may be gone */
    unsigned planned;      /* events that are still to come */
    uint64_t number;
    int64_t asked_monotonic_ns;
    size_t count;
    bool together, for_book;
    struct caudal_request requests[QUESTIONS_MAX];
    struct cdl_question questions[QUESTIONS_MAX];
    unsigned char keys[QUESTIONS_MAX][2];
    /* The reply. */
    bool is_executed;
    int64_t executed_ns;
    int status;
    struct caudal_decision decisions[QUESTIONS_MAX];
};

static struct link *of_store(const struct caudal_store *head)
{
    return (struct link *)(uintptr_t)head;
}

static struct link *of_client(const struct cdl_store_client *client)
{
    return of_store(client->store);
}

/* ---- messages ---- */

static bool is_withdrawal(const struct message *message)
{
    return message->for_book && message->questions[0].operation == CDL_TAKE;
}

static int64_t draw_delay(struct run *run)
{
    const struct scenario *scenario = &run->scenario;
    if (chance_is(&run->world, scenario->tail_per_mille))
        return chance_between(&run->world, scenario->delay_ns, scenario->tail_ns);
    return chance_between(&run->world, scenario->delay_ns / 2, 2 * scenario->delay_ns);
}

static void forget(struct message *message)
{
    if (message->planned > 0 || message->call != NULL)
        return;
    struct message **place = &message->link->flying;
    while (*place != message)
        place = &(*place)->next;
    *place = message->next;
    free(message);
}

static void answer(struct message *message, int status)
{
    struct cdl_call *call = message->call;
    message->call = NULL;
    call->status = status;
    call->failure = status == CAUDAL_OK ? CDL_STORE_NONE : CDL_STORE_TIMEOUT;
    call->decided_at_ns = status == CAUDAL_OK ? message->executed_ns : 0;
    for (size_t i = 0; i < message->count; i++)
        call->decisions[i] = status == CAUDAL_OK ? message->decisions[i] : (struct caudal_decision){.status = status};
    call->done(call);
}

static void on_deadline(void *subject, uint64_t detail)
{
    (void)detail;
    struct message *message = subject;
    message->planned--;
    if (message->call != NULL) {
        world_tell(&message->link->run->world, "i%u: message %llu has no answer", message->link->instance->number,
                   (unsigned long long)message->number);
        answer(message, CAUDAL_ERR_STORE);
    }
    forget(message);
}

static void tell_delivery(const struct message *message)
{
    const struct caudal_decision *decision = &message->decisions[0];
    world_tell(&message->link->run->world, "i%u: message %llu is back: verdict %d, %llu granted, wait %lld ns",
               message->link->instance->number, (unsigned long long)message->number, (int)decision->verdict,
               (unsigned long long)decision->granted, (long long)decision->retry_after_ns);
}

static void on_return(void *subject, uint64_t detail)
{
    (void)detail;
    struct message *message = subject;
    struct instance *instance = message->link->instance;
    message->planned--;
    if (message->call != NULL) {
        tell_delivery(message);
        const struct caudal_decision *decision = &message->decisions[0];
        if (is_withdrawal(message) && decision->verdict == CAUDAL_ALLOW)
            instance_heard(instance, key_index(message->keys[0]), message->executed_ns);
        for (size_t i = 0; i < message->count; i++)
            if (message->decisions[i].verdict == CAUDAL_DENY)
                instance->holdings[key_index(message->keys[i])].refused_at_ns = message->executed_ns;
        answer(message, CAUDAL_OK);
    }
    forget(message);
}

/* Of a bucket: what has been refilled since the charge must not come back a second time. */
static void judge_giving_back(struct run *run, const struct message *message, uint64_t before, uint64_t after)
{
    const struct cdl_question *question = &message->questions[0];
    const struct caudal_limit *limit = &run->scenario.limit;
    const int64_t age_ns = run->world.now_ns - question->charged_realtime_ns;
    const uint64_t refilled = (uint64_t)((__int128)limit->count * age_ns / (__int128)limit->period_ns);
    const uint64_t left = question->maximum > refilled ? question->maximum - refilled : 0;
    if (limit->algorithm == CAUDAL_TOKEN_BUCKET && after > before + left)
        judge_fails(&run->judges, BOUND, &run->world, "%llu tokens came back where %llu were left of the charge",
                    (unsigned long long)(after - before), (unsigned long long)left);
}

static int decide(struct run *run, struct message *message, struct caudal_decision *decisions)
{
    struct caudal_store *memory = run->store.memory;
    struct cdl_instant now = cdl_instant_given(run->world.now_ns);
    if (message->together)
        return memory->ops->decide_all(memory, message->questions[0].operation, message->requests, NULL, message->count,
                                       &now, decisions);
    for (size_t i = 0; i < message->count; i++) {
        struct cdl_question question = message->questions[i];
        question.charged_monotonic_ns = question.charged_realtime_ns; /* both are the world's */
        if (question.operation == CDL_RESET)
            return CAUDAL_ERR_UNSUPPORTED;
        const bool gives_back = question.operation == CDL_UNDO || question.operation == CDL_REFUND;
        const uint64_t before = gives_back ? far_store_peek(run, key_index(message->keys[i]), 0).remaining : 0;
        const int status = memory->ops->decide(memory, &message->requests[i], &question, &now, &decisions[i]);
        if (status != CAUDAL_OK)
            return status;
        if (!gives_back)
            continue;
        judge_giving_back(run, message, before, decisions[i].remaining);
        run->store.given_back_at_ns[key_index(message->keys[i])] = run->world.now_ns;
    }
    return CAUDAL_OK;
}

static void execute(struct message *message)
{
    struct run *run = message->link->run;
    message->status = decide(run, message, message->decisions);
    message->executed_ns = run->world.now_ns;
    message->is_executed = true;
    if (message->status != CAUDAL_OK)
        judge_fails(&run->judges, ENDS, &run->world, "the store says %s", caudal_status_text(message->status));
    world_tell(&run->world, "i%u: message %llu is executed: %llu granted, %llu remain", message->link->instance->number,
               (unsigned long long)message->number, (unsigned long long)message->decisions[0].granted,
               (unsigned long long)message->decisions[0].remaining);
    if (is_withdrawal(message) && message->decisions[0].verdict == CAUDAL_ALLOW)
        instance_charged(message->link->instance, key_index(message->keys[0]), message->asked_monotonic_ns,
                         message->decisions[0].granted);
}

static void on_arrival(void *subject, uint64_t detail)
{
    struct message *message = subject;
    struct run *run = message->link->run;
    message->planned--;
    if (detail > 0) { /* once more */
        struct caudal_decision ignored[QUESTIONS_MAX];
        world_tell(&run->world, "message %llu is executed again", (unsigned long long)message->number);
        decide(run, message, ignored);
    } else {
        execute(message);
        if (!chance_is(&run->world, run->scenario.lost_per_mille)) {
            message->planned++;
            world_plan(&run->world, run->world.now_ns + draw_delay(run), on_return, message, 0);
        }
    }
    forget(message);
}

static void depart(struct message *message)
{
    struct run *run = message->link->run;
    struct world *world = &run->world;
    message->planned++;
    world_plan(world, world->now_ns + run->scenario.deadline_ns, on_deadline, message, 0);
    if (chance_is(world, run->scenario.lost_per_mille))
        return;
    message->planned++;
    world_plan(world, world->now_ns + draw_delay(run), on_arrival, message, 0);
    if (is_withdrawal(message) && chance_is(world, run->scenario.twice_per_mille)) {
        message->planned++;
        world_plan(world, world->now_ns + 3 * draw_delay(run), on_arrival, message, 1);
    }
}

/* ---- the client ---- */

static void ask(struct cdl_store_client *client, struct cdl_call *call)
{
    struct link *link = of_client(client);
    struct message *message = calloc(1, sizeof *message);
    if (message == NULL || call->count > QUESTIONS_MAX)
        abort();
    message->next = link->flying;
    link->flying = message;
    message->link = link;
    message->call = call;
    message->number = link->run->world.planned;
    message->asked_monotonic_ns = instance_monotonic(link->instance);
    message->count = call->count;
    message->together = call->together;
    message->for_book = call->for_book;
    for (size_t i = 0; i < call->count; i++) {
        message->questions[i] = call->questions[i];
        message->requests[i] = call->requests[i];
        message->requests[i].cost = call->questions[i].maximum;
        memcpy(message->keys[i], call->requests[i].key, sizeof message->keys[i]);
        message->requests[i].key = message->keys[i];
        const struct cdl_question *question = &call->questions[i];
        world_tell(&link->run->world, "i%u: message %llu: operation %d, %llu to %llu of key %u", link->instance->number,
                   (unsigned long long)message->number, (int)question->operation, (unsigned long long)question->minimum,
                   (unsigned long long)question->maximum, key_index(message->keys[i]));
        if (question->operation == CDL_UNDO || question->operation == CDL_REFUND)
            instance_gives_back(link->instance, key_index(message->keys[i]), question->charged_realtime_ns,
                                question->maximum);
    }
    depart(message);
}

/* Messages stay on their way: the store may yet execute them. */
static void close_client(struct cdl_store_client *client)
{
    struct link *link = of_client(client);
    link->is_open = false;
    for (struct message *message = link->flying; message != NULL;) {
        if (message->call == NULL) {
            message = message->next;
            continue;
        }
        answer(message, CAUDAL_ERR_STORE);
        message = link->flying; /* who is told may ask once more */
    }
}

static void flush(struct cdl_store_client *client)
{
    (void)client;
}

static void ready(struct cdl_store_client *client, struct cdl_socket *socket, unsigned events)
{
    (void)client, (void)socket, (void)events;
}

static void on_time(struct cdl_store_client *client, int64_t now_ns)
{
    (void)client, (void)now_ns;
}

static void found(struct cdl_store_client *client, struct cdl_lookup_request *request, const struct sockaddr *address,
                  socklen_t length)
{
    (void)client, (void)request, (void)address, (void)length;
}

static bool is_up(const struct cdl_store_client *client)
{
    return of_client(client)->is_open;
}

static const struct cdl_client_ops client_ops = {
    .close = close_client, .ask = ask, .flush = flush, .ready = ready, .time = on_time, .found = found, .is_up = is_up};

/* ---- the store, as an instance sees it ---- */

static void close_store(struct caudal_store *head)
{
    (void)head;
}

/* The limit goes along with every call to a Redis; here whoever says it last is right, and all say the same. */
static int tell_limit(struct far_store *store, const struct caudal_limit *limit)
{
    struct caudal_limit known = {.size = sizeof known};
    caudal_get_limit(store->memory, store->limit, &known);
    if (known.count == limit->count && known.period_ns == limit->period_ns && known.burst == limit->burst)
        return CAUDAL_OK;
    return caudal_set_limit(store->memory, store->limit, limit, NULL);
}

static int add_limit(struct caudal_store *head, const char *name, const struct caudal_limit *limit, uint32_t *id,
                     struct caudal_problem *problem)
{
    struct far_store *store = &of_store(head)->run->store;
    int status = CAUDAL_OK;
    if (!store->has_limit)
        status = caudal_add_limit(store->memory, name, limit, &store->limit, problem);
    store->has_limit = status == CAUDAL_OK;
    *id = store->limit;
    return status; /* what else others have said of it, the lease will say again */
}

static int find_limit(struct caudal_store *head, const char *name, uint32_t *id)
{
    return caudal_find_limit(of_store(head)->run->store.memory, name, id);
}

static int get_limit(struct caudal_store *head, uint32_t id, struct caudal_limit *limit)
{
    return caudal_get_limit(of_store(head)->run->store.memory, id, limit);
}

static int set_limit(struct caudal_store *head, uint32_t id, const struct caudal_limit *limit, struct cdl_instant *now,
                     struct caudal_problem *problem)
{
    (void)id, (void)now, (void)problem;
    return tell_limit(&of_store(head)->run->store, limit);
}

static int remove_limit(struct caudal_store *head, uint32_t id)
{
    (void)head, (void)id;
    return CAUDAL_OK;
}

static struct cdl_store_client *open_client(struct caudal_store *head, const struct cdl_loop_hooks *hooks)
{
    struct link *link = of_store(head);
    (void)hooks; /* time is the world's */
    link->is_open = true;
    return &link->client;
}

static const struct cdl_store_events *events(const struct caudal_store *head)
{
    return &of_store(head)->events;
}

static const struct cdl_store_ops store_ops = {
    .close = close_store,
    .add_limit = add_limit,
    .find_limit = find_limit,
    .get_limit = get_limit,
    .set_limit = set_limit,
    .remove_limit = remove_limit,
    .open_client = open_client,
    .events = events,
};

void link_begin(struct link *link, struct run *run, struct instance *instance)
{
    memset(link, 0, sizeof *link);
    link->head.ops = &store_ops;
    link->head.clock = &instance->clock;
    link->head.allocator = *cdl_allocator_default();
    link->client = (struct cdl_store_client){&client_ops, &link->head};
    link->run = run;
    link->instance = instance;
}

/* ---- what is shared ---- */

static int64_t read_world(void *context)
{
    return ((const struct world *)context)->now_ns;
}

void far_store_begin(struct run *run)
{
    static struct caudal_clock clock;
    clock = (struct caudal_clock){sizeof clock, &run->world, read_world, read_world};
    const struct caudal_store_options options = {.size = sizeof options, .clock = &clock};
    memset(&run->store, 0, sizeof run->store);
    if (caudal_store_open("memory:?keys=256&wide_keys=256&log_entries=1", &options, &run->store.memory, NULL) !=
        CAUDAL_OK)
        abort();
}

void far_store_end(struct run *run)
{
    for (unsigned i = 0; i < run->scenario.instances; i++)
        for (struct message *message = run->instances[i].link.flying, *next; message != NULL; message = next) {
            next = message->next;
            free(message);
        }
    caudal_store_close(run->store.memory);
}

struct caudal_decision far_store_peek(struct run *run, unsigned key, uint64_t cost)
{
    const unsigned char name[2] = {'k', (unsigned char)key};
    struct caudal_decision decision;
    caudal_peek_at(run->store.memory, run->store.limit, name, sizeof name, cost, run->world.now_ns, &decision);
    return decision;
}

void far_store_replicate(struct run *run)
{
    for (unsigned key = 0; key < run->scenario.keys; key++) {
        const struct caudal_decision decision = far_store_peek(run, key, 0);
        run->store.replica[key].at_ns = run->world.now_ns;
        run->store.replica[key].spent = decision.capacity - decision.remaining;
    }
}

void far_store_fail_over(struct run *run)
{
    world_tell(&run->world, "a failover");
    for (unsigned key = 0; key < run->scenario.keys; key++) {
        const unsigned char name[2] = {'k', (unsigned char)key};
        struct caudal_decision decision;
        caudal_reset(run->store.memory, run->store.limit, name, sizeof name);
        if (run->store.replica[key].at_ns != 0)
            caudal_take_at(run->store.memory, run->store.limit, name, sizeof name, run->store.replica[key].spent,
                           run->store.replica[key].at_ns, &decision);
        run->store.given_back_at_ns[key] = run->world.now_ns;
    }
}
