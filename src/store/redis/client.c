/* The calls of a Redis client, from the hand of the caller to `done`, and the entrances of client.h.
 *
 * A call is always in the list of all calls, in order of deadlines, and in exactly one of these states:
 *
 *     waits     `there` is the list: `lost` (nobody knows its server), a node's `waiting` (no connection is greeted), `paused` (a reply said
 *               later), a confirmation's `replied`, or `ended` (`done` is due)
 *     in flight `at` is the connection whose session has it
 *
 * Invariants:
 *
 *   once      whatever ends a call goes through cdl_redis_end, which takes it out of every list first and calls `done` last
 *   in time   the alarm is never later than the first deadline; cdl_redis_client_time ends all whose deadline has come
 *   not here  cdl_redis_client_call never calls `done`: what fails there is put on `ended`, for the end of the next entrance
 *   at most   a call is sent again only from cdl_redis_replied, with a reply that proves that it was not executed, or with the session's
 *   once      word that no byte of it has left
 *
 * `done` may hand in more calls, and may flush; it may not close the client. */
#include "store/redis/client_parts.h"

#include <sys/random.h>

static const struct caudal_allocator *allocator_of(const struct cdl_redis_client *client)
{
    return client->shared->allocator;
}

/* ---- lists ---- */

void cdl_redis_calls_add(struct cdl_redis_calls *calls, struct cdl_redis_call *call)
{
    call->there = calls;
    call->next_there = NULL;
    call->previous_there = calls->last;
    if (calls->last != NULL)
        calls->last->next_there = call;
    else
        calls->first = call;
    calls->last = call;
    calls->count++;
}

void cdl_redis_calls_leave(struct cdl_redis_call *call)
{
    struct cdl_redis_calls *calls = call->there;
    if (calls == NULL)
        return;
    if (call->previous_there != NULL)
        call->previous_there->next_there = call->next_there;
    else
        calls->first = call->next_there;
    if (call->next_there != NULL)
        call->next_there->previous_there = call->previous_there;
    else
        calls->last = call->previous_there;
    calls->count--;
    call->there = NULL;
}

/* Deadlines mostly come in order, so the place is near the end. */
static void enter_by_deadline(struct cdl_redis_client *client, struct cdl_redis_call *call)
{
    struct cdl_redis_call *before = client->last;
    while (before != NULL && before->deadline_ns > call->deadline_ns)
        before = before->previous;
    call->previous = before;
    call->next = before != NULL ? before->next : client->first;
    if (before != NULL)
        before->next = call;
    else
        client->first = call;
    if (call->next != NULL)
        call->next->previous = call;
    else
        client->last = call;
    client->calls++;
}

static void leave_deadlines(struct cdl_redis_client *client, struct cdl_redis_call *call)
{
    if (call->previous != NULL)
        call->previous->next = call->next;
    else
        client->first = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
    else
        client->last = call->previous;
    client->calls--;
}

/* ---- time, chance, memory ---- */

void cdl_redis_arm(struct cdl_redis_client *client, int64_t at_ns)
{
    if (at_ns >= client->alarm_ns)
        return;
    client->alarm_ns = at_ns;
    client->hooks.alarm(client->hooks.context, at_ns);
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
int64_t cdl_redis_jitter(struct cdl_redis_client *client, int64_t length_ns, uint32_t share)
{
    uint64_t z = client->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return length_ns - (int64_t)(z % ((uint64_t)length_ns / share + 1));
}

struct cdl_slice *cdl_redis_words(struct cdl_redis_client *client, size_t count)
{
    if (count > client->words_size) {
        const size_t size = count + count / 2;
        struct cdl_slice *words = cdl_allocate(allocator_of(client), size, sizeof *words, _Alignof(struct cdl_slice));
        if (words == NULL)
            return NULL;
        cdl_release(allocator_of(client), client->words, client->words_size, sizeof *words);
        client->words = words;
        client->words_size = size;
    }
    return client->words;
}

/* ---- ending calls ---- */

void cdl_redis_end(struct cdl_redis_client *client, struct cdl_redis_call *call, const struct cdl_resp *reply,
                   enum cdl_store_event event)
{
    cdl_redis_confirmation_leave(call);
    cdl_redis_calls_leave(call);
    leave_deadlines(client, call);
    call->done(call, reply, event);
}

void cdl_redis_end_later(struct cdl_redis_client *client, struct cdl_redis_call *call, enum cdl_store_event event)
{
    if (event == CDL_STORE_BREAKER || event == CDL_STORE_OVERLOAD)
        cdl_redis_count(client, event);
    call->reason = event;
    cdl_redis_confirmation_leave(call);
    cdl_redis_calls_leave(call);
    cdl_redis_calls_add(&client->ended, call);
    cdl_redis_arm(client, client->now_ns);
}

void cdl_redis_end_all_later(struct cdl_redis_client *client, struct cdl_redis_calls *calls, enum cdl_store_event event)
{
    while (calls->first != NULL)
        cdl_redis_end_later(client, calls->first, event);
}

/* Those that are there now; what their `done` hands in, and fails at once, has its turn later. */
static void end_ended(struct cdl_redis_client *client)
{
    for (size_t left = client->ended.count; left > 0; left--) {
        struct cdl_redis_call *call = client->ended.first;
        cdl_redis_end(client, call, NULL, call->reason);
    }
}

/* The node in whose list a call waits. */
static struct cdl_redis_node *waits_for(struct cdl_redis_client *client, const struct cdl_redis_call *call)
{
    for (struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next)
        if (call->there == &node->waiting)
            return node;
    return NULL;
}

static void expire_waiting(struct cdl_redis_client *client, struct cdl_redis_call *call)
{
    struct cdl_redis_node *node = waits_for(client, call);
    if (call->there == &client->ended || (call->there != NULL && call->reason != CDL_STORE_NONE)) {
        cdl_redis_end(client, call, NULL, call->reason);
        return;
    }
    cdl_redis_count(client, CDL_STORE_TIMEOUT);
    call->reason = CDL_STORE_TIMEOUT;
    cdl_redis_calls_leave(call);
    if (node != NULL)
        cdl_redis_node_timed_out(node);
    cdl_redis_end(client, call, NULL, CDL_STORE_TIMEOUT);
}

static void expire(struct cdl_redis_client *client, struct cdl_redis_call *call)
{
    struct cdl_redis_connection *connection = call->at;
    if (connection != NULL) {
        cdl_redis_count(client, CDL_STORE_TIMEOUT);
        cdl_redis_connection_abandon(connection, call);
        cdl_redis_node_timed_out(connection->node);
        cdl_redis_end(client, call, NULL, CDL_STORE_TIMEOUT);
    } else if (call->confirmation != NULL) {
        cdl_redis_count(client, CDL_STORE_REPLICAS);
        cdl_redis_end(client, call, NULL, CDL_STORE_REPLICAS);
    } else {
        expire_waiting(client, call);
    }
}

/* Calls that are handed in by a `done` of this turn wait for the next, however late they are. */
static void expire_due(struct cdl_redis_client *client)
{
    for (size_t left = client->calls; left > 0 && client->first != NULL; left--) {
        if (client->first->deadline_ns > client->now_ns)
            return;
        expire(client, client->first);
    }
}

/* ---- entrances ---- */

static void enter(struct cdl_redis_client *client)
{
    if (client->depth++ == 0)
        client->now_ns = cdl_max_i64(client->now_ns, client->clock->monotonic_ns(client->clock->context));
}

/* Nodes and the finder go on as far as they can without waiting. Each pass is brought about by something that has happened in the one
 * before, such as a connection that stands at once, and every such thing is followed by a pause when it fails. */
static void settle(struct cdl_redis_client *client)
{
    end_ended(client);
    do {
        if (client->restless) {
            client->restless = false;
            cdl_redis_finder_turn(client);
            cdl_redis_nodes_turn(client);
        }
        cdl_redis_connections_write(client);
    } while (client->restless);
    if (client->ended.first != NULL)
        cdl_redis_arm(client, client->now_ns);
}

static void leave(struct cdl_redis_client *client)
{
    if (client->depth == 1)
        settle(client);
    client->depth--;
}

void cdl_redis_client_call(struct cdl_redis_client *client, struct cdl_redis_call *call)
{
    call->command.replied = cdl_redis_replied;
    call->there = NULL;
    call->at = NULL;
    call->confirmation = NULL;
    call->reason = CDL_STORE_NONE;
    call->redirections = call->pauses = call->forgotten = 0;
    call->asking = call->whole_script = false;
    call->slot = client->owners != NULL && call->key.length > 0 ? cdl_redis_slot(call->key) : 0;
    enter_by_deadline(client, call);
    cdl_redis_arm(client, call->deadline_ns);
    if (client->closing) {
        call->reason = CDL_STORE_CLOSED;
        cdl_redis_calls_add(&client->ended, call);
        return;
    }
    cdl_redis_route(client, call);
    if (client->restless)
        cdl_redis_arm(client, client->now_ns);
}

void cdl_redis_client_flush(struct cdl_redis_client *client)
{
    if (client->dirty == NULL && !client->restless && client->ended.first == NULL)
        return;
    enter(client);
    leave(client);
}

void cdl_redis_client_ready(struct cdl_redis_client *client, struct cdl_socket *socket, unsigned events)
{
    (void)events; /* TLS may want to write in order to read: whatever may be done is tried */
    enter(client);
    cdl_redis_connection_ready((struct cdl_redis_connection *)(void *)socket);
    leave(client);
}

void cdl_redis_client_time(struct cdl_redis_client *client, int64_t now_ns)
{
    enter(client);
    client->now_ns = cdl_max_i64(client->now_ns, now_ns);
    client->alarm_ns = INT64_MAX;
    expire_due(client);
    cdl_redis_resume(client);
    client->restless = true;
    leave(client);
    if (client->first != NULL)
        cdl_redis_arm(client, client->first->deadline_ns);
    if (client->paused.first != NULL)
        cdl_redis_arm(client, client->paused.first->again_ns);
}

void cdl_redis_client_found(struct cdl_redis_client *client, struct cdl_lookup_request *request,
                            const struct sockaddr *address, socklen_t length)
{
    struct cdl_redis_node *node = (struct cdl_redis_node *)(void *)((char *)request -
                                                                    offsetof(struct cdl_redis_node, lookup));
    enter(client);
    if (node->looking) {
        node->looking = false;
        node->address_length = 0;
        if (address != NULL && length <= sizeof node->address) {
            memcpy(&node->address, address, length);
            node->address_length = length;
        }
        client->restless = true;
    }
    leave(client);
}

/* ---- what is there ---- */

static bool is_server(const struct cdl_redis_client *client, const struct cdl_redis_node *node)
{
    return client->owners != NULL ? node->slots > 0 && node->role == CDL_REDIS_SERVER : node == client->primary;
}

bool cdl_redis_client_is_up(const struct cdl_redis_client *client)
{
    if (client->finder.away)
        return false;
    for (const struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next)
        if (is_server(client, node) && node->away)
            return false;
    return true;
}

bool cdl_redis_client_server(const struct cdl_redis_client *client, size_t index, struct cdl_redis_place *place)
{
    for (const struct cdl_redis_node *node = client->nodes; node != NULL; node = node->next)
        if (is_server(client, node) && index-- == 0) {
            *place = node->place;
            return true;
        }
    return false;
}

/* ---- opening and closing ---- */

static bool open_parts(struct cdl_redis_client *client)
{
    const struct caudal_allocator *allocator = allocator_of(client);
    client->buffer = cdl_allocate(allocator, CDL_REDIS_BUFFER_BYTES, 1, 1);
    if (client->buffer == NULL)
        return false;
    if (client->config->kind == CDL_REDIS_SINGLE) {
        client->primary = cdl_redis_node_at(client, &client->config->seeds[0], CDL_REDIS_SERVER);
        if (client->primary == NULL)
            return false;
        client->primary->slots = 1;
        client->primary->wanted = true;
    }
    if (client->config->kind == CDL_REDIS_CLUSTER) {
        client->owners = cdl_allocate(allocator, CDL_REDIS_SLOTS, sizeof(void *), _Alignof(void *));
        if (client->owners == NULL)
            return false;
    }
    return true;
}

static void free_client(struct cdl_redis_client *client)
{
    const struct caudal_allocator *allocator = allocator_of(client);
    cdl_redis_nodes_close(client);
    cdl_release(allocator, client->owners, CDL_REDIS_SLOTS, sizeof(void *));
    cdl_release(allocator, client->words, client->words_size, sizeof *client->words);
    cdl_release(allocator, client->buffer, CDL_REDIS_BUFFER_BYTES, 1);
    cdl_release(allocator, client, 1, sizeof *client);
}

static void set_greetings(struct cdl_redis_client *client)
{
    const struct cdl_redis_config *config = client->config;
    client->greetings[CDL_REDIS_SERVER] = (struct cdl_redis_greeting){
        .user = config->user,
        .password = config->password,
        .database = config->database,
        .protocol = config->protocol,
        .want_primary = config->kind == CDL_REDIS_SENTINEL,
    };
    client->greetings[CDL_REDIS_SENTINEL_SERVER] = (struct cdl_redis_greeting){
        .user = config->sentinel_user,
        .password = config->sentinel_password,
        .protocol = 2, /* sentinels older than 6.2 know no other */
    };
}

/* Several clients must not act in step. Where the kernel gives nothing, the address of the client has to do. */
static uint64_t seed_of(const struct cdl_redis_client *client)
{
    uint64_t seed;
    return getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed ? seed : (uint64_t)(uintptr_t)client;
}

struct cdl_redis_client *cdl_redis_client_open(const struct cdl_redis_shared *shared,
                                               const struct cdl_loop_hooks *hooks)
{
    struct cdl_redis_client *client = cdl_allocate(shared->allocator, 1, sizeof *client,
                                                   _Alignof(struct cdl_redis_client));
    if (client == NULL)
        return NULL;
    client->shared = shared;
    client->config = shared->config;
    client->clock = shared->clock != NULL ? shared->clock : caudal_clock_system();
    client->hooks = *hooks;
    client->alarm_ns = INT64_MAX;
    client->random = seed_of(client);
    set_greetings(client);
    for (uint32_t i = 0; i < CDL_REDIS_SEEDS_MAX; i++)
        client->finder.order[i] = (uint8_t)i;
    client->finder.not_before_ns = INT64_MIN;
    if (!open_parts(client)) {
        free_client(client);
        return NULL;
    }
    client->now_ns = client->clock->monotonic_ns(client->clock->context);
    /* It is the alarm that begins: whoever opens a client can only now answer what it asks. */
    client->restless = true;
    cdl_redis_arm(client, client->now_ns);
    return client;
}

void cdl_redis_client_close(struct cdl_redis_client *client)
{
    if (client == NULL)
        return;
    client->depth++;
    client->closing = true;
    while (client->first != NULL) {
        struct cdl_redis_call *call = client->first;
        const enum cdl_store_event event = call->there == &client->ended ? call->reason : CDL_STORE_CLOSED;
        if (event == CDL_STORE_CLOSED)
            cdl_redis_count(client, event);
        if (call->at != NULL)
            cdl_redis_connection_abandon(call->at, call);
        cdl_redis_end(client, call, NULL, event);
    }
    if (client->alarm_ns != INT64_MAX)
        client->hooks.alarm(client->hooks.context, INT64_MAX);
    free_client(client);
}
