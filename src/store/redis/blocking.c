#include "store/redis/blocking.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define SOCKETS_MAX 1024u /* connections that one client may have at once: 16 to each of 64 servers */
#define LOOKUPS_MAX 32u

struct cdl_poll_loop {
    const struct caudal_allocator *allocator;
    struct pollfd wanted[SOCKETS_MAX];
    struct cdl_socket *sockets[SOCKETS_MAX]; /* NULL: forgotten */
    size_t count;
    struct cdl_lookup_request *lookups[LOOKUPS_MAX];
    size_t lookup_count;
    int64_t alarm_ns;
};

struct cdl_poll_loop *cdl_poll_loop_open(const struct caudal_allocator *allocator)
{
    struct cdl_poll_loop *loop = cdl_allocate(allocator, 1, sizeof *loop, _Alignof(struct cdl_poll_loop));
    if (loop == NULL)
        return NULL;
    loop->allocator = allocator;
    loop->alarm_ns = INT64_MAX;
    return loop;
}

void cdl_poll_loop_close(struct cdl_poll_loop *loop)
{
    if (loop != NULL)
        cdl_release(loop->allocator, loop, 1, sizeof *loop);
}

/* ---- hooks ---- */

static void watch(void *context, struct cdl_socket *socket, unsigned events)
{
    struct cdl_poll_loop *loop = context;
    size_t i = 0;
    while (i < loop->count && loop->sockets[i] != socket)
        i++;
    if (i == loop->count) {
        if (events == 0 || loop->count == SOCKETS_MAX)
            return; /* one that is not watched passes its deadline, like one that is silent */
        loop->count++;
    }
    /* A socket that is forgotten in the middle of a turn keeps its row until the next: rows are being walked. */
    loop->sockets[i] = events == 0 ? NULL : socket;
    loop->wanted[i] = (struct pollfd){
        .fd = events == 0 ? -1 : socket->fd,
        .events = (short)((events & CDL_SOCKET_READ ? POLLIN : 0) | (events & CDL_SOCKET_WRITE ? POLLOUT : 0)),
    };
}

static void set_alarm(void *context, int64_t at_ns)
{
    struct cdl_poll_loop *loop = context;
    loop->alarm_ns = at_ns;
}

static void look_up(void *context, struct cdl_lookup_request *request)
{
    struct cdl_poll_loop *loop = context;
    if (loop->lookup_count == LOOKUPS_MAX)
        return; /* connecting takes too long then, and is tried again */
    request->lookup = loop;
    loop->lookups[loop->lookup_count++] = request;
}

static void forget(void *context, struct cdl_lookup_request *request)
{
    struct cdl_poll_loop *loop = context;
    size_t kept = 0;
    for (size_t i = 0; i < loop->lookup_count; i++)
        if (loop->lookups[i] != request)
            loop->lookups[kept++] = loop->lookups[i];
    loop->lookup_count = kept;
    request->lookup = NULL;
}

struct cdl_loop_hooks cdl_poll_loop_hooks(struct cdl_poll_loop *loop)
{
    return (struct cdl_loop_hooks){
        .context = loop, .watch = watch, .alarm = set_alarm, .look_up = look_up, .forget = forget};
}

/* ---- turning ---- */

static void answer_lookups(struct cdl_poll_loop *loop, const struct cdl_turning *turning)
{
    while (loop->lookup_count > 0) {
        struct cdl_lookup_request *request = loop->lookups[0];
        char port[8];
        struct addrinfo *found = NULL;
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
        forget(loop, request);
        snprintf(port, sizeof port, "%u", request->port);
        if (getaddrinfo(request->host, port, &hints, &found) != 0)
            found = NULL;
        const struct addrinfo *chosen = cdl_lookup_choose(request, found);
        turning->found(turning->client, request, chosen != NULL ? chosen->ai_addr : NULL,
                       chosen != NULL ? chosen->ai_addrlen : 0);
        if (found != NULL)
            freeaddrinfo(found);
    }
}

static void drop_forgotten(struct cdl_poll_loop *loop)
{
    size_t kept = 0;
    for (size_t i = 0; i < loop->count; i++)
        if (loop->sockets[i] != NULL) {
            loop->sockets[kept] = loop->sockets[i];
            loop->wanted[kept++] = loop->wanted[i];
        }
    loop->count = kept;
}

static int64_t monotonic_ns(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context);
}

static void tell_ready(struct cdl_poll_loop *loop, const struct cdl_turning *turning)
{
    const size_t count = loop->count; /* those that come in meanwhile were not asked about */
    for (size_t i = 0; i < count; i++) {
        const short got = loop->wanted[i].revents;
        if (loop->sockets[i] == NULL || got == 0)
            continue;
        /* An error or the peer's end shows in whatever is tried next. */
        const bool failed = (got & (POLLERR | POLLHUP | POLLNVAL)) != 0;
        turning->ready(turning->client, loop->sockets[i],
                       (failed || (got & POLLIN) ? CDL_SOCKET_READ : 0u) |
                           (failed || (got & POLLOUT) ? CDL_SOCKET_WRITE : 0u));
    }
}

void cdl_poll_loop_turn(struct cdl_poll_loop *loop, const struct cdl_turning *turning, bool wait)
{
    answer_lookups(loop, turning);
    turning->flush(turning->client);
    drop_forgotten(loop);
    struct timespec limit = {0, 0};
    const int64_t begun_ns = monotonic_ns(); /* an alarm for at once may be any instant that is over */
    const int64_t left_ns = wait && loop->alarm_ns != INT64_MAX && loop->alarm_ns > begun_ns ? loop->alarm_ns - begun_ns
                                                                                             : 0;
    if (left_ns > 0)
        limit = (struct timespec){left_ns / CDL_NS_PER_S, left_ns % CDL_NS_PER_S};
    const bool forever = wait && loop->alarm_ns == INT64_MAX;
    for (size_t i = 0; i < loop->count; i++)
        loop->wanted[i].revents = 0;
    if (ppoll(loop->wanted, loop->count, forever ? NULL : &limit, NULL) > 0)
        tell_ready(loop, turning);
    const int64_t now_ns = monotonic_ns();
    if (now_ns >= loop->alarm_ns) {
        loop->alarm_ns = INT64_MAX;
        turning->time(turning->client, now_ns);
    }
}

/* ---- plain commands ---- */

struct cdl_redis_blocking {
    const struct cdl_redis_shared *shared;
    struct cdl_poll_loop *loop;
    struct cdl_redis_client *client;
};

static void flush_client(void *client)
{
    cdl_redis_client_flush(client);
}

static void client_ready(void *client, struct cdl_socket *socket, unsigned events)
{
    cdl_redis_client_ready(client, socket, events);
}

static void client_time(void *client, int64_t now_ns)
{
    cdl_redis_client_time(client, now_ns);
}

static void client_found(void *client, struct cdl_lookup_request *request, const struct sockaddr *address,
                         socklen_t length)
{
    cdl_redis_client_found(client, request, address, length);
}

struct cdl_redis_blocking *cdl_redis_blocking_open(const struct cdl_redis_shared *shared)
{
    struct cdl_redis_blocking *blocking = cdl_allocate(shared->allocator, 1, sizeof *blocking,
                                                       _Alignof(struct cdl_redis_blocking));
    if (blocking == NULL)
        return NULL;
    blocking->shared = shared;
    blocking->loop = cdl_poll_loop_open(shared->allocator);
    if (blocking->loop != NULL) {
        const struct cdl_loop_hooks hooks = cdl_poll_loop_hooks(blocking->loop);
        blocking->client = cdl_redis_client_open(shared, &hooks);
    }
    if (blocking->client != NULL)
        return blocking;
    cdl_redis_blocking_close(blocking);
    return NULL;
}

void cdl_redis_blocking_close(struct cdl_redis_blocking *blocking)
{
    if (blocking == NULL)
        return;
    if (blocking->client != NULL)
        cdl_redis_client_close(blocking->client);
    cdl_poll_loop_close(blocking->loop);
    cdl_release(blocking->shared->allocator, blocking, 1, sizeof *blocking);
}

struct cdl_redis_client *cdl_redis_blocking_client(struct cdl_redis_blocking *blocking)
{
    return blocking->client;
}

/* Calls that somebody waits for, and what they are to do when they are done. */
struct run {
    void (*done[CDL_BLOCKING_CALLS_MAX])(struct cdl_redis_call *call, const struct cdl_resp *reply,
                                         enum cdl_store_event event);
    struct cdl_redis_call *const *calls;
    size_t waiting;
};

static void call_done(struct cdl_redis_call *call, const struct cdl_resp *reply, enum cdl_store_event event)
{
    struct run *run = call->waiter;
    size_t i = 0;
    while (run->calls[i] != call)
        i++;
    run->waiting--;
    call->done = run->done[i];
    call->done(call, reply, event);
}

void cdl_redis_blocking_run(struct cdl_redis_blocking *blocking, struct cdl_redis_call *const *calls, size_t count)
{
    const struct cdl_turning turning = {blocking->client, flush_client, client_ready, client_time, client_found};
    struct run run = {.calls = calls, .waiting = count};
    for (size_t i = 0; i < count; i++) {
        run.done[i] = calls[i]->done;
        calls[i]->done = call_done;
        calls[i]->waiter = &run;
        cdl_redis_client_call(blocking->client, calls[i]);
    }
    while (run.waiting > 0)
        cdl_poll_loop_turn(blocking->loop, &turning, true);
}
