/* The lease store's client for one loop: a book, and a client of the store behind it.
 *
 * A call that the book decides never gets further than try_ask: no lock, no memory. Any other becomes a piece of work. It waits in the
 * book for an answer, or for the inner client's answer to the part that the store decides; then it is planned again, or finished. Errands are
 * sent when they become due: at the end of the turn, when the client's time has come, and when an answer has shown that one is
 * needed.
 *
 * Work and errands are used again, so that memory is asked for only when there are more at once than ever before. */
#include <string.h>

#include "store/lease/lease_parts.h"

#define SMALL 4u /* requests of the works that are kept for use again */
#define PATIENCE 3u

struct work {
    struct cdl_lease_waiter waiter; /* the first member */
    struct work *next;              /* among those that are kept, or ended */
    struct cdl_lease_client *client;
    struct cdl_call *call;
    struct cdl_call asked;
    size_t room;
    unsigned rounds;
    struct cdl_lease_item *items;
    struct caudal_request *requests;
    struct cdl_question *questions;
    struct caudal_decision *decisions;
    uint8_t *of;
};

/* An errand on its way. */
struct trip {
    struct cdl_call call; /* the first member */
    struct trip *next;    /* among those that are kept */
    struct cdl_lease_client *client;
    struct cdl_lease_errand errand;
    struct caudal_request request;
    struct caudal_decision decision;
    unsigned char key[CDL_LEASE_KEY_MAX];
};

struct cdl_lease_client {
    struct cdl_store_client head; /* the first member */
    struct cdl_lease_client *next;
    struct cdl_lease_store *store;
    struct cdl_lease_book *book;
    struct cdl_store_client *inner;
    struct cdl_loop_hooks hooks;
    struct work *kept_works;
    struct trip *kept_trips;
    struct work *ended, *last_ended; /* decided within the asking; told at the end of the turn */
    int64_t inner_alarm_ns, alarm_ns;
    bool asking, closing;
};

static struct cdl_lease_client *client_of(struct cdl_store_client *head)
{
    return (struct cdl_lease_client *)head;
}

static const struct caudal_allocator *allocator_of(const struct cdl_lease_client *client)
{
    return &client->store->head.allocator;
}

/* ---- the alarm ---- */

static void set_alarm(struct cdl_lease_client *client)
{
    const int64_t due_ns = cdl_lease_due(client->book);
    const int64_t at_ns = due_ns < client->inner_alarm_ns ? due_ns : client->inner_alarm_ns;
    if (at_ns == client->alarm_ns || client->closing)
        return;
    client->alarm_ns = at_ns;
    client->hooks.alarm(client->hooks.context, at_ns);
}

static void alarm_of_inner(void *context, int64_t at_ns)
{
    struct cdl_lease_client *client = context;
    client->inner_alarm_ns = at_ns;
    set_alarm(client);
}

static void watch(void *context, struct cdl_socket *socket, unsigned events)
{
    const struct cdl_lease_client *client = context;
    client->hooks.watch(client->hooks.context, socket, events);
}

static void look_up(void *context, struct cdl_lookup_request *request)
{
    const struct cdl_lease_client *client = context;
    client->hooks.look_up(client->hooks.context, request);
}

static void forget(void *context, struct cdl_lookup_request *request)
{
    const struct cdl_lease_client *client = context;
    client->hooks.forget(client->hooks.context, request);
}

/* ---- memory ---- */

static size_t work_bytes(size_t room)
{
    return sizeof(struct work) + room * (sizeof(struct cdl_lease_item) + sizeof(struct caudal_request) +
                                         sizeof(struct cdl_question) + sizeof(struct caudal_decision) + 1);
}

static struct work *new_work(struct cdl_lease_client *client, struct cdl_call *call)
{
    const size_t room = call->count <= SMALL ? SMALL : call->count;
    struct work *work = room == SMALL ? client->kept_works : NULL;
    if (work != NULL)
        client->kept_works = work->next;
    else
        work = cdl_allocate(allocator_of(client), 1, work_bytes(room), _Alignof(max_align_t));
    if (work == NULL)
        return NULL;
    *work = (struct work){.client = client, .call = call, .room = room};
    work->items = (struct cdl_lease_item *)(work + 1);
    work->requests = (struct caudal_request *)(work->items + room);
    work->questions = (struct cdl_question *)(work->requests + room);
    work->decisions = (struct caudal_decision *)(work->questions + room);
    work->of = (uint8_t *)(work->decisions + room);
    for (size_t i = 0; i < room; i++)
        work->items[i] = (struct cdl_lease_item){0};
    return work;
}

static void free_work(struct work *work)
{
    struct cdl_lease_client *client = work->client;
    if (work->room != SMALL) {
        cdl_release(allocator_of(client), work, 1, work_bytes(work->room));
        return;
    }
    work->next = client->kept_works;
    client->kept_works = work;
}

static struct trip *new_trip(struct cdl_lease_client *client)
{
    struct trip *trip = client->kept_trips;
    if (trip == NULL)
        return cdl_allocate(allocator_of(client), 1, sizeof *trip, _Alignof(struct trip));
    client->kept_trips = trip->next;
    return trip;
}

static void free_trip(struct trip *trip)
{
    trip->next = trip->client->kept_trips;
    trip->client->kept_trips = trip;
}

/* ---- errands ---- */

static void go_on(struct cdl_lease_client *client);

static void tell_book(struct cdl_lease_client *client, const struct cdl_lease_errand *errand,
                      const struct caudal_decision *decision, int64_t decided_at_ns, enum cdl_store_event event)
{
    cdl_lease_answered(client->book, errand->number, decision, decided_at_ns,
                       cdl_lease_edition(client->store, errand->limit, errand->hash), (int)event,
                       cdl_lease_now(client->store));
}

static void trip_done(struct cdl_call *call)
{
    struct trip *trip = (struct trip *)call;
    struct cdl_lease_client *client = trip->client;
    tell_book(client, &trip->errand, &trip->decision, call->decided_at_ns, call->failure);
    free_trip(trip);
    go_on(client);
}

/* An errand that cannot be sent has failed. */
static void send_errand(struct cdl_lease_client *client, const struct cdl_lease_errand *errand)
{
    struct caudal_decision failed = {.status = CAUDAL_ERR_UNKNOWN};
    if (cdl_lease_edition(client->store, errand->limit, errand->hash) != errand->edition) {
        tell_book(client, errand, &failed, 0, CDL_STORE_NONE);
        return;
    }
    struct trip *trip = new_trip(client);
    if (trip == NULL) {
        failed.status = CAUDAL_ERR_MEMORY;
        tell_book(client, errand, &failed, 0, CDL_STORE_NONE);
        return;
    }
    trip->client = client;
    trip->errand = *errand;
    memcpy(trip->key, errand->key, errand->key_length);
    trip->request = (struct caudal_request){errand->limit, trip->key, errand->key_length, errand->question.maximum};
    trip->call = (struct cdl_call){.requests = &trip->request,
                                   .questions = &trip->errand.question,
                                   .decisions = &trip->decision,
                                   .count = 1,
                                   .for_book = true,
                                   .done = trip_done};
    client->inner->ops->ask(client->inner, &trip->call);
}

/* ---- works ---- */

/* Tells the caller; not within its asking. */
static void end(struct work *work)
{
    struct cdl_lease_client *client = work->client;
    struct cdl_call *call = work->call;
    if (!client->asking) {
        free_work(work);
        call->done(call);
        return;
    }
    work->next = NULL;
    if (client->ended == NULL)
        client->ended = work;
    else
        client->last_ended->next = work;
    client->last_ended = work;
}

static void work_done(struct cdl_call *asked)
{
    struct work *work = asked->context;
    struct cdl_lease_client *client = work->client;
    const struct cdl_lease_desk desk = {client->store, client->book};
    cdl_lease_plan_finish(&desk, work->call, work->items, asked, work->of);
    end(work);
    go_on(client);
}

static void ask_rest(struct work *work)
{
    struct cdl_lease_client *client = work->client;
    const struct cdl_lease_desk desk = {client->store, client->book};
    work->asked = (struct cdl_call){.requests = work->requests,
                                    .questions = work->questions,
                                    .decisions = work->decisions,
                                    .together = work->call->together,
                                    .now_ns = work->call->now_ns,
                                    .done = work_done,
                                    .context = work};
    work->asked.count = cdl_lease_plan_asked(&desk, work->call, work->items, work->requests, work->questions, work->of);
    client->inner->ops->ask(client->inner, &work->asked);
}

static void run(struct work *work)
{
    struct cdl_lease_client *client = work->client;
    const struct cdl_lease_desk desk = {client->store, client->book};
    const enum cdl_lease_mode mode = work->rounds++ < PATIENCE ? CDL_LEASE_FIRST : CDL_LEASE_INSIST;
    size_t i;
    switch (cdl_lease_plan_call(&desk, work->call, work->items, mode, &i)) {
    case CDL_PLAN_DECIDED:
        end(work);
        break;
    case CDL_PLAN_ASK:
        ask_rest(work);
        break;
    case CDL_PLAN_WAIT: {
        const struct cdl_lease_subject subject = cdl_lease_subject_of(client->store, &work->call->requests[i],
                                                                      &work->items[i]);
        cdl_lease_wait(client->book, &subject, &work->waiter);
        break;
    }
    }
}

/* Somebody need not wait any more. */
static void run_released(struct cdl_lease_client *client)
{
    struct cdl_lease_waiter *waiter;
    while ((waiter = cdl_lease_released(client->book)) != NULL) {
        struct work *work = (struct work *)waiter;
        if (client->closing || waiter->failure != CAUDAL_OK) {
            cdl_lease_fail(work->call, client->closing ? CAUDAL_ERR_STORE : waiter->failure,
                           client->closing ? CDL_STORE_CLOSED : (enum cdl_store_event)waiter->event);
            end(work);
            continue;
        }
        if (waiter->given_up)
            work->rounds = PATIENCE;
        run(work);
    }
}

/* Sends what is due and runs what is released, until neither is left. */
static void go_on(struct cdl_lease_client *client)
{
    struct cdl_lease_errand errand;
    run_released(client);
    while (!client->closing && cdl_lease_next(client->book, cdl_lease_now(client->store), &errand)) {
        send_errand(client, &errand);
        run_released(client);
    }
    run_released(client);
    set_alarm(client);
}

static void tell_ended(struct cdl_lease_client *client)
{
    while (client->ended != NULL) {
        struct work *work = client->ended;
        client->ended = work->next;
        end(work);
    }
}

/* ---- the client, as a loop sees it ---- */

static bool try_ask(struct cdl_store_client *head, struct cdl_call *call)
{
    struct cdl_lease_client *client = client_of(head);
    const struct cdl_lease_desk desk = {client->store, client->book};
    struct cdl_lease_item items[CAUDAL_TAKE_ALL_MAX];
    size_t i;
    if (client->closing || !cdl_lease_concerns(client->store, call))
        return false;
    for (i = 0; i < call->count; i++)
        items[i] = (struct cdl_lease_item){0};
    return cdl_lease_plan_call(&desk, call, items, CDL_LEASE_TRY, &i) == CDL_PLAN_DECIDED;
}

static void ask(struct cdl_store_client *head, struct cdl_call *call)
{
    struct cdl_lease_client *client = client_of(head);
    struct work *work = NULL;
    if (cdl_lease_concerns(client->store, call))
        work = new_work(client, call);
    if (work == NULL) { /* or there is no memory: the store can do without us */
        client->inner->ops->ask(client->inner, call);
        return;
    }
    const bool was_asking = client->asking;
    client->asking = true;
    run(work);
    client->asking = was_asking;
}

static void flush(struct cdl_store_client *head)
{
    struct cdl_lease_client *client = client_of(head);
    tell_ended(client);
    go_on(client);
    cdl_store_client_flush(client->inner);
}

static void ready(struct cdl_store_client *head, struct cdl_socket *socket, unsigned events)
{
    cdl_store_client_ready(client_of(head)->inner, socket, events);
}

static void tell_time(struct cdl_store_client *head, int64_t now_ns)
{
    struct cdl_lease_client *client = client_of(head);
    client->alarm_ns = INT64_MAX; /* an alarm is given once */
    if (now_ns >= client->inner_alarm_ns) {
        client->inner_alarm_ns = INT64_MAX;
        cdl_store_client_time(client->inner, now_ns);
    }
    go_on(client);
}

static void found(struct cdl_store_client *head, struct cdl_lookup_request *request, const struct sockaddr *address,
                  socklen_t length)
{
    cdl_store_client_found(client_of(head)->inner, request, address, length);
}

static bool is_up(const struct cdl_store_client *head)
{
    return cdl_store_client_is_up(((const struct cdl_lease_client *)head)->inner);
}

static void free_client(struct cdl_lease_client *client)
{
    const struct caudal_allocator *allocator = allocator_of(client);
    while (client->kept_works != NULL) {
        struct work *work = client->kept_works;
        client->kept_works = work->next;
        cdl_release(allocator, work, 1, work_bytes(SMALL));
    }
    while (client->kept_trips != NULL) {
        struct trip *trip = client->kept_trips;
        client->kept_trips = trip->next;
        cdl_release(allocator, trip, 1, sizeof *trip);
    }
    cdl_lease_book_close(client->book);
    cdl_release(allocator, client, 1, sizeof *client);
}

/* What is counted stays counted, and its lots are not there any more. */
static void unlink_client(struct cdl_lease_client *client)
{
    struct cdl_lease_store *store = client->store;
    struct cdl_lease_client **link = &store->clients;
    pthread_mutex_lock(&store->lock);
    while (*link != client)
        link = &(*link)->next;
    *link = client->next;
    cdl_lease_book_count(client->book, &store->gone);
    store->gone.lots = 0;
    pthread_mutex_unlock(&store->lock);
}

static void close_client(struct cdl_store_client *head)
{
    struct cdl_lease_client *client = client_of(head);
    client->closing = true;
    tell_ended(client);
    cdl_store_client_close(client->inner);
    cdl_lease_release_all(client->book, CAUDAL_ERR_STORE, CDL_STORE_CLOSED);
    run_released(client);
    unlink_client(client);
    free_client(client);
}

static const struct cdl_client_ops client_ops = {
    .close = close_client,
    .ask = ask,
    .try_ask = try_ask,
    .flush = flush,
    .ready = ready,
    .time = tell_time,
    .found = found,
    .is_up = is_up,
};

void cdl_lease_clients_count(const struct cdl_lease_store *store, struct cdl_lease_counts *sum)
{
    for (const struct cdl_lease_client *client = store->clients; client != NULL; client = client->next)
        cdl_lease_book_count(client->book, sum);
}

struct cdl_store_client *cdl_lease_client_open(struct caudal_store *head, const struct cdl_loop_hooks *hooks)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    struct cdl_lease_client *client = cdl_allocate(&head->allocator, 1, sizeof *client,
                                                   _Alignof(struct cdl_lease_client));
    if (client == NULL)
        return NULL;
    client->head = (struct cdl_store_client){&client_ops, head};
    client->store = store;
    client->hooks = *hooks;
    client->inner_alarm_ns = client->alarm_ns = INT64_MAX;
    client->book = cdl_lease_book_open(&head->allocator, CDL_LEASE_KEYS);
    const struct cdl_loop_hooks own = {
        .context = client, .watch = watch, .alarm = alarm_of_inner, .look_up = look_up, .forget = forget};
    if (client->book != NULL)
        client->inner = cdl_store_client_open(store->inner, &own);
    if (client->inner == NULL) {
        free_client(client);
        return NULL;
    }
    pthread_mutex_lock(&store->lock);
    client->next = store->clients;
    store->clients = client;
    pthread_mutex_unlock(&store->lock);
    return &client->head;
}
