/* Envoy's rate limit service and gRPC's health checks, over HTTP/2.
 *
 * A call whose answer comes later stays with its connection until the inquiry is done, and may be cancelled meanwhile: a struct waiting
 * stands between the two. What was asked is counted when it is answered, whether or not anybody is there to hear it: it was spent. */
#include <stdlib.h>

#include "server/exchange.h"
#include "server/rls.h"

/* Bytes that are taken in before their answers are written: with what they may be answered, an output never gets too small. */
#define PIECE_BYTES ((size_t)8 * 1024)
#define KEPT_BYTES_MAX ((size_t)64 * 1024)
#define OUTPUT_ROOM_BYTES (CDL_GRPC_BYTES_MAX + KEPT_BYTES_MAX)
#define NS_PER_MS INT64_C(1000000)
#define MARGIN_NS (2 * NS_PER_MS)

enum method {
    SHOULD_RATE_LIMIT,
    HEALTH_CHECK,
    HEALTH_WATCH,
    METHODS,
};

#define SERVICE "envoy.service.ratelimit.v3.RateLimitService"

static const struct cdl_slice methods[METHODS] = {
    [SHOULD_RATE_LIMIT] = {"/" SERVICE "/ShouldRateLimit", sizeof "/" SERVICE "/ShouldRateLimit" - 1},
    [HEALTH_CHECK] = {"/grpc.health.v1.Health/Check", sizeof "/grpc.health.v1.Health/Check" - 1},
    [HEALTH_WATCH] = {"/grpc.health.v1.Health/Watch", sizeof "/grpc.health.v1.Health/Watch" - 1},
};

/* What a connection keeps. */
struct state {
    struct cdl_grpc *grpc;
    struct cdl_connection *connection;
    enum cdl_health told; /* to those that watch */
    bool is_late;         /* it was opened while the server drains already */
    bool is_asked;        /* a call has come */
    bool draining, finishing;
};

/* A call that waits for the store. */
struct waiting {
    struct cdl_worker *worker;
    struct state *state;
    struct cdl_grpc_call *call; /* NULL: it was cancelled */
    int64_t began_ns;           /* by the server's clock */
};

static int64_t now_ns(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context);
}

static int64_t server_now_ns(const struct cdl_worker *worker)
{
    const struct caudal_clock *clock = worker->server->clock;
    return clock->monotonic_ns(clock->context);
}

static struct cdl_worker *worker_of(const struct state *state)
{
    return state->connection->listener->context;
}

static void fail(struct cdl_worker *worker, struct cdl_grpc_call *call, const struct cdl_rls_failure *failure)
{
    if (failure->status == CDL_GRPC_INVALID_ARGUMENT)
        cdl_counters_event(worker->counters, CDL_EVENT_BAD_REQUEST, 1);
    cdl_grpc_fail(call, failure->status, cdl_slice_of(failure->why));
}

/* ---- decisions ---- */

/* When the store must have answered for us to answer in time: a tenth of the client's time ahead, or 2 ms, for short times half of it. */
static int64_t store_deadline_ns(const struct cdl_grpc_call *call)
{
    const int64_t timeout_ns = cdl_grpc_timeout_ns(call);
    if (timeout_ns == INT64_MAX)
        return 0;
    const int64_t least_ns = timeout_ns / 2 < MARGIN_NS ? timeout_ns / 2 : MARGIN_NS;
    return cdl_grpc_deadline_ns(call) - cdl_max_i64(timeout_ns / 10, least_ns);
}

static bool read_turn(struct cdl_worker *worker, const struct cdl_grpc_call *call, struct cdl_rls_turn *turn,
                      struct cdl_rls_failure *failure)
{
    struct caudal_problem problem;
    worker->messages.used = 0;
    worker->messages.full = false;
    if (cdl_rls_request_read(cdl_grpc_message(call), &worker->messages, &turn->request, &problem) == CAUDAL_OK)
        return true;
    cdl_rls_fail(failure, CDL_GRPC_INVALID_ARGUMENT, "%s", problem.message);
    return false;
}

static void answer_turn(struct cdl_worker *worker, struct cdl_grpc_call *call, const struct cdl_rls_turn *turn,
                        const struct cdl_answer *answer)
{
    struct cdl_rls_response response;
    struct cdl_rls_failure failure;
    if (!cdl_rls_respond(worker, turn, answer, &response, &failure)) {
        fail(worker, call, &failure);
        return;
    }
    struct cdl_writer message = cdl_message_writer(&worker->messages);
    if (cdl_rls_response_write(&response, &worker->messages, &message))
        cdl_grpc_answer(call, cdl_written(&message));
    else
        cdl_grpc_fail(call, CDL_GRPC_INTERNAL, CDL_SLICE("the response is too large"));
}

/* The store has answered, and the client waits. */
static void answer_later(struct cdl_worker *worker, struct cdl_grpc_call *call, const struct cdl_answer *answer)
{
    struct cdl_rls_turn turn;
    struct cdl_rls_failure failure;
    if (now_ns() >= cdl_grpc_deadline_ns(call)) {
        cdl_counters_event(worker->counters, CDL_EVENT_DEADLINE_EXCEEDED, 1);
        cdl_grpc_fail(call, CDL_GRPC_DEADLINE_EXCEEDED, CDL_SLICE("grpc-timeout: it has passed"));
    } else if (!read_turn(worker, call, &turn, &failure)) {
        fail(worker, call, &failure); /* cannot be: it has been read before */
    } else {
        cdl_rls_recall(worker, &turn, answer);
        answer_turn(worker, call, &turn, answer);
    }
}

static void on_done(struct cdl_inquiry *inquiry, void *context)
{
    struct waiting *waiting = context;
    struct cdl_worker *worker = waiting->worker;
    const struct cdl_answer *answer = cdl_inquiry_answer(inquiry);
    cdl_account(worker, answer);
    if (waiting->call != NULL) {
        answer_later(worker, waiting->call, answer);
        cdl_histogram_record(worker->latency, server_now_ns(worker) - waiting->began_ns);
        cdl_connection_flush(waiting->state->connection);
    }
    cdl_inquiry_free(inquiry);
    free(waiting);
    if (atomic_load_explicit(&worker->server->stopping, memory_order_relaxed) && worker->asker.waiting == 0)
        cdl_loop_wake(&worker->loop); /* it waited for this one */
}

static void forget(struct cdl_inquiry *inquiry, void *context)
{
    struct cdl_worker *worker = context;
    cdl_account(worker, cdl_inquiry_answer(inquiry));
    cdl_inquiry_free(inquiry);
}

static void wait_for(struct state *state, struct cdl_grpc_call *call, struct cdl_inquiry *inquiry, int64_t began_ns)
{
    struct cdl_worker *worker = worker_of(state);
    struct waiting *waiting = malloc(sizeof *waiting);
    if (waiting == NULL) {
        cdl_inquiry_await(inquiry, forget, worker);
        cdl_grpc_fail(call, CDL_GRPC_UNAVAILABLE, CDL_SLICE("no memory to wait for the store"));
        return;
    }
    *waiting = (struct waiting){worker, state, call, began_ns};
    cdl_grpc_set_data(call, waiting);
    cdl_inquiry_await(inquiry, on_done, waiting);
}

static void should_rate_limit(struct state *state, struct cdl_grpc_call *call)
{
    struct cdl_worker *worker = worker_of(state);
    const int64_t began_ns = server_now_ns(worker);
    struct cdl_rls_turn turn;
    struct cdl_rls_failure failure;
    struct cdl_inquiry *inquiry = NULL;
    if (!read_turn(worker, call, &turn, &failure) ||
        !cdl_rls_ask(worker, &turn, store_deadline_ns(call), &inquiry, &failure)) {
        fail(worker, call, &failure);
    } else if (inquiry != NULL) {
        wait_for(state, call, inquiry, began_ns);
        return;
    } else {
        answer_turn(worker, call, &turn, &worker->asker.answer);
    }
    cdl_histogram_record(worker->latency, server_now_ns(worker) - began_ns);
}

/* ---- health ---- */

/* Of the server as a whole (""), of the name that the reference goes by, and of the service by its own. */
static bool is_ours(struct cdl_slice service)
{
    return service.length == 0 || cdl_slice_equal(service, CDL_SLICE("ratelimit")) ||
           cdl_slice_equal(service, CDL_SLICE(SERVICE));
}

static enum cdl_health health_of(const struct cdl_worker *worker)
{
    return worker->live == NULL || atomic_load_explicit(&worker->server->draining, memory_order_relaxed)
               ? CDL_HEALTH_NOT_SERVING
               : CDL_HEALTH_SERVING;
}

/* One of the services that are watched, and is told of in the end, is remembered by its call's data. */
static void watch_health(struct state *state, struct cdl_grpc_call *call, bool is_ours)
{
    char text[16];
    struct cdl_writer message = cdl_writer_on(text, sizeof text);
    cdl_grpc_set_data(call, is_ours ? state : NULL);
    cdl_health_response_write(is_ours ? state->told : CDL_HEALTH_SERVICE_UNKNOWN, &message);
    cdl_grpc_stream(call, cdl_written(&message));
}

static void check_health(struct state *state, struct cdl_grpc_call *call)
{
    struct cdl_worker *worker = worker_of(state);
    struct caudal_problem problem;
    struct cdl_slice service;
    char text[16];
    struct cdl_writer message = cdl_writer_on(text, sizeof text);
    worker->messages.used = 0;
    if (cdl_health_request_read(cdl_grpc_message(call), &worker->messages, &service, &problem) != CAUDAL_OK) {
        cdl_grpc_fail(call, CDL_GRPC_INVALID_ARGUMENT, cdl_slice_of(problem.message));
    } else if (cdl_grpc_method(call) == HEALTH_WATCH) {
        watch_health(state, call, is_ours(service));
    } else if (is_ours(service)) {
        cdl_health_response_write(health_of(worker), &message);
        cdl_grpc_answer(call, cdl_written(&message));
    } else {
        cdl_grpc_fail(call, CDL_GRPC_NOT_FOUND, CDL_SLICE("there is no such service"));
    }
}

/* Tells those that watch what has become of the server. */
static void tell_health(struct state *state)
{
    const enum cdl_health health = health_of(worker_of(state));
    if (health == state->told)
        return;
    state->told = health;
    for (struct cdl_grpc_call *call = NULL; (call = cdl_grpc_next_streamed(state->grpc, call)) != NULL;)
        if (cdl_grpc_data(call) != NULL)
            watch_health(state, call, true);
}

/* ---- calls ---- */

static void called(void *context, struct cdl_grpc_call *call)
{
    struct state *state = context;
    state->is_asked = true;
    if (cdl_grpc_method(call) == SHOULD_RATE_LIMIT)
        should_rate_limit(state, call);
    else
        check_health(state, call);
}

static void cancelled(void *context, struct cdl_grpc_call *call)
{
    const struct state *state = context;
    struct waiting *waiting = cdl_grpc_data(call);
    if (cdl_grpc_method(call) != SHOULD_RATE_LIMIT)
        return;
    waiting->call = NULL;
    cdl_counters_event(worker_of(state)->counters,
                       now_ns() >= cdl_grpc_deadline_ns(call) ? CDL_EVENT_DEADLINE_EXCEEDED : CDL_EVENT_CANCELLED, 1);
}

static const struct cdl_grpc_service service = {
    .methods = methods,
    .method_count = METHODS,
    .message_max = CDL_RLS_MESSAGE_MAX,
    .called = called,
    .cancelled = cancelled,
};

/* ---- connections ---- */

static bool open_state(struct cdl_connection *connection)
{
    struct state *state = connection->state;
    if (state->grpc != NULL)
        return true;
    const struct cdl_worker *worker = connection->listener->context;
    const uint64_t timeout_ms = connection->listener->loop->bounds.message_timeout_ms + worker->server->body_timeout_ms;
    state->connection = connection;
    state->told = health_of(worker);
    state->is_late = atomic_load_explicit(&worker->server->draining, memory_order_relaxed);
    state->grpc = cdl_grpc_open(&service, (int64_t)timeout_ms * NS_PER_MS, state);
    return state->grpc != NULL;
}

/* While the server drains, clients are sent elsewhere; but one that came nonetheless gets an answer first, or it would come back at once,
 * again and again. When it stops, no more calls are taken. */
static void follow_server(struct state *state)
{
    const struct cdl_server *server = worker_of(state)->server;
    tell_health(state);
    if (!state->draining && (state->is_asked || !state->is_late) &&
        atomic_load_explicit(&server->draining, memory_order_relaxed)) {
        state->draining = true;
        cdl_grpc_drain(state->grpc);
    }
    if (!state->finishing && atomic_load_explicit(&server->stopping, memory_order_relaxed)) {
        state->finishing = true;
        cdl_grpc_finish(state->grpc);
    }
}

static size_t receive(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      bool *finish)
{
    struct state *state = connection->state;
    if (!open_state(connection)) {
        *finish = true;
        return length;
    }
    const int64_t arrived_ns = now_ns();
    size_t taken = 0;
    do {
        const size_t step = cdl_min_u64(length - taken, PIECE_BYTES);
        cdl_grpc_receive(state->grpc, (struct cdl_slice){bytes + taken, step}, arrived_ns);
        follow_server(state);
        cdl_grpc_send(state->grpc, output);
        taken += step;
    } while (taken < length && !cdl_grpc_is_over(state->grpc) && output->size - output->length >= OUTPUT_ROOM_BYTES);
    connection->owing = cdl_grpc_owes(state->grpc);
    *finish = cdl_grpc_is_over(state->grpc);
    return taken;
}

/* Too long for the kept bytes, which cannot be, or too slow, or silent for so long that nobody waits: a call that is on its way at this
 * moment is safe to be made again, because the last one that was taken is named. */
static void give_up(struct cdl_connection *connection, bool too_long, struct cdl_writer *output)
{
    struct state *state = connection->state;
    (void)too_long;
    if (state->grpc == NULL)
        return;
    cdl_grpc_finish(state->grpc);
    cdl_grpc_send(state->grpc, output);
}

static void closed(struct cdl_connection *connection)
{
    struct state *state = connection->state;
    cdl_grpc_close(state->grpc);
    state->grpc = NULL;
}

const struct cdl_protocol cdl_grpc_protocol = {
    .state_bytes = sizeof(struct state),
    .out_of_turn = true,
    .tells_the_silent = true,
    .kept_max = KEPT_BYTES_MAX,
    .receive = receive,
    .give_up = give_up,
    .closed = closed,
};
