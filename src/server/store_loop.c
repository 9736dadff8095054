/* Sockets are polled, names are looked up in libuv's threads, and what was asked in one turn of the loop is flushed right before the loop waits
 * again.
 *
 * The alarm: a client moves it with nearly every call, mostly to later, so the timer is left where it is and finds out when it fires
 * what is still to come. libuv counts milliseconds from the beginning of a turn; the delay is taken from the true time and rounded
 * up, so that the client is never called early, and at most about a millisecond late. */
#include "server/store_loop.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#define NS_PER_MS 1000000

static int64_t now_ns(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context);
}

/* ---- the alarm ---- */

static void on_timer(uv_timer_t *timer);

static void set_timer(struct cdl_store_loop *loop)
{
    const int64_t now = now_ns(); /* an alarm for at once may be any instant that is over */
    const uint64_t delay_ms = loop->alarm_ns <= now ? 0 : (uint64_t)(loop->alarm_ns - now - 1) / NS_PER_MS + 1;
    loop->timer_ns = loop->alarm_ns;
    uv_update_time(loop->uv);
    uv_timer_start(&loop->timer, on_timer, delay_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct cdl_store_loop *loop = timer->data;
    const int64_t now = now_ns();
    loop->timer_ns = INT64_MAX;
    if (now >= loop->alarm_ns) {
        loop->alarm_ns = INT64_MAX;
        cdl_store_client_time(loop->client, now);
    }
    if (loop->alarm_ns < loop->timer_ns)
        set_timer(loop);
}

static void alarm_at(void *context, int64_t at_ns)
{
    struct cdl_store_loop *loop = context;
    loop->alarm_ns = at_ns;
    if (at_ns < loop->timer_ns)
        set_timer(loop);
}

/* ---- sockets ---- */

struct watch {
    uv_poll_t poll;
    struct cdl_store_loop *loop;
    struct cdl_socket *socket; /* NULL: it is about to be closed */
    unsigned events;
};

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void poll_socket(struct watch *watch)
{
    uv_poll_start(&watch->poll,
                  (watch->events & CDL_SOCKET_READ ? UV_READABLE : 0) |
                      (watch->events & CDL_SOCKET_WRITE ? UV_WRITABLE : 0),
                  on_poll);
}

/* A socket in trouble is ready for all that is wanted of it: who reads or writes finds the trouble. libuv has stopped to watch it then;
 * it is watched again if it is still there. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    unsigned ready = watch->events;
    if (status == 0)
        ready = (events & UV_READABLE ? CDL_SOCKET_READ : 0u) | (events & UV_WRITABLE ? CDL_SOCKET_WRITE : 0u);
    cdl_store_client_ready(watch->loop->client, watch->socket, ready);
    if (status != 0 && watch->socket != NULL)
        poll_socket(watch);
}

/* A socket that cannot be watched, for want of memory, looks like one that is silent: its client gives up on it in time. */
static struct watch *new_watch(struct cdl_store_loop *loop, struct cdl_socket *socket)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL || uv_poll_init_socket(loop->uv, &watch->poll, socket->fd) != 0) {
        free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    watch->loop = loop;
    watch->socket = socket;
    return watch;
}

static void watch_socket(void *context, struct cdl_socket *socket, unsigned events)
{
    struct cdl_store_loop *loop = context;
    struct watch *watch = socket->watch;
    if (events == 0) {
        if (watch != NULL) {
            watch->socket = NULL;
            uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
        }
        socket->watch = NULL;
        return;
    }
    if (watch == NULL)
        socket->watch = watch = new_watch(loop, socket);
    if (watch == NULL || watch->events == events)
        return;
    watch->events = events;
    poll_socket(watch);
}

/* ---- names ---- */

struct lookup {
    uv_getaddrinfo_t job;
    struct cdl_store_loop *loop;
    struct cdl_lookup_request *request; /* NULL: forgotten */
};

static void on_looked_up(uv_getaddrinfo_t *job, int status, struct addrinfo *found)
{
    struct lookup *lookup = job->data;
    struct cdl_lookup_request *request = lookup->request;
    if (request != NULL) {
        const struct addrinfo *at = status == 0 ? cdl_lookup_choose(request, found) : NULL;
        request->lookup = NULL;
        cdl_store_client_found(lookup->loop->client, request, at != NULL ? at->ai_addr : NULL,
                               at != NULL ? at->ai_addrlen : 0);
    }
    uv_freeaddrinfo(found);
    free(lookup);
}

static void look_up(void *context, struct cdl_lookup_request *request)
{
    struct cdl_store_loop *loop = context;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    snprintf(port, sizeof port, "%u", request->port);
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup != NULL) {
        lookup->job.data = lookup;
        lookup->loop = loop;
        lookup->request = request;
        request->lookup = lookup;
        if (uv_getaddrinfo(loop->uv, &lookup->job, on_looked_up, request->host, port, &hints) == 0)
            return;
        free(lookup);
    }
    request->lookup = NULL;
    cdl_store_client_found(loop->client, request, NULL, 0);
}

static void forget(void *context, struct cdl_lookup_request *request)
{
    (void)context;
    struct lookup *lookup = request->lookup;
    request->lookup = NULL;
    if (lookup == NULL)
        return;
    lookup->request = NULL;
    uv_cancel((uv_req_t *)&lookup->job); /* in vain if it runs already; nobody is told then */
}

/* ---- going away and coming back ---- */

/* Whether an event can be why a store is away. */
static bool is_reason(enum cdl_store_event event)
{
    switch (event) {
    case CDL_STORE_NONE:
    case CDL_STORE_BREAKER:
    case CDL_STORE_OVERLOAD:
    case CDL_STORE_CLOSED:
    case CDL_STORE_NOSCRIPT:
    case CDL_STORE_MOVED:
    case CDL_STORE_ASK:
    case CDL_STORE_HEALED:
    case CDL_STORE_GIVE_BACK:
    case CDL_STORE_CONNECTED:
        return false;
    default:
        return true;
    }
}

static void remember_counts(struct cdl_store_loop *loop)
{
    const struct cdl_store_events *events = loop->store->ops->events(loop->store);
    for (size_t i = 0; i < CDL_STORE_EVENTS; i++)
        loop->counts_when_up[i] = atomic_load_explicit(&events->counts[i], memory_order_relaxed);
}

/* What has happened most since the store was last there. */
static enum cdl_store_event find_reason(const struct cdl_store_loop *loop)
{
    const struct cdl_store_events *events = loop->store->ops->events(loop->store);
    enum cdl_store_event reason = CDL_STORE_NONE;
    uint64_t most = 0;
    for (unsigned i = 0; i < CDL_STORE_EVENTS; i++) {
        const uint64_t count = atomic_load_explicit(&events->counts[i], memory_order_relaxed) - loop->counts_when_up[i];
        if (count <= most || !is_reason((enum cdl_store_event)i))
            continue;
        most = count;
        reason = (enum cdl_store_event)i;
    }
    return reason;
}

static void tell(struct cdl_store_loop *loop, bool is_up)
{
    atomic_store_explicit(&loop->is_up, is_up, memory_order_relaxed);
    if (is_up) {
        remember_counts(loop);
        cdl_log(loop->log, CDL_LOG_INFO, "the store is back", cdl_log_text("store", loop->url),
                cdl_log_i64("away_ms", (now_ns() - loop->away_since_ns) / NS_PER_MS));
        return;
    }
    const enum cdl_store_event reason = find_reason(loop);
    loop->away_since_ns = now_ns();
    cdl_log_about(loop->log, CDL_LOG_WARN, cdl_slice_of(cdl_store_event_name(reason)),
                  "the store is away: limits answer as their on_store_failure says", cdl_log_text("store", loop->url),
                  cdl_log_string("event", cdl_store_event_name(reason)),
                  cdl_log_string("reason", cdl_store_event_text(reason)));
}

/* The end of a turn. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct cdl_store_loop *loop = prepare->data;
    cdl_store_client_flush(loop->client);
    const bool is_up = cdl_store_client_is_up(loop->client);
    if (is_up != atomic_load_explicit(&loop->is_up, memory_order_relaxed))
        tell(loop, is_up);
}

/* ---- its life ---- */

bool cdl_store_loop_open(struct cdl_store_loop *loop, struct caudal_store *store, struct cdl_slice url, uv_loop_t *uv,
                         struct cdl_log *log)
{
    const struct cdl_loop_hooks hooks = {
        .context = loop, .watch = watch_socket, .alarm = alarm_at, .look_up = look_up, .forget = forget};
    *loop = (struct cdl_store_loop){
        .store = store, .url = url, .uv = uv, .log = log, .alarm_ns = INT64_MAX, .timer_ns = INT64_MAX};
    atomic_init(&loop->is_up, true); /* until it is known to be away */
    remember_counts(loop);
    uv_timer_init(uv, &loop->timer); /* neither can fail */
    uv_prepare_init(uv, &loop->prepare);
    loop->timer.data = loop->prepare.data = loop;
    loop->client = cdl_store_client_open(store, &hooks);
    if (loop->client == NULL)
        return false;
    uv_prepare_start(&loop->prepare, on_prepare);
    return true;
}

void cdl_store_loop_close(struct cdl_store_loop *loop)
{
    if (loop->client == NULL)
        return;
    uv_prepare_stop(&loop->prepare);
    cdl_store_client_close(loop->client);
    loop->client = NULL;
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
}
