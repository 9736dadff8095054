/* The public listener's resources. */
#include "server/exchange.h"

static void handle(struct cdl_exchange *exchange)
{
    struct cdl_worker *worker = exchange->worker;
    const struct caudal_clock *clock = worker->server->clock;
    const int64_t began_ns = exchange->pending != NULL ? cdl_pending_began_ns(exchange->pending)
                                                       : clock->monotonic_ns(clock->context);
    if (cdl_slice_equal(exchange->path, CDL_SLICE("/check")))
        cdl_check(exchange);
    else if (cdl_slice_equal(exchange->path, CDL_SLICE("/v1/take")))
        cdl_json_api(exchange, CDL_ASK_TAKE);
    else if (cdl_slice_equal(exchange->path, CDL_SLICE("/v1/peek")))
        cdl_json_api(exchange, CDL_ASK_PEEK);
    else if (cdl_slice_equal(exchange->path, CDL_SLICE("/v1/refund")))
        cdl_json_api(exchange, CDL_ASK_REFUND);
    else if (cdl_slice_equal(exchange->path, CDL_SLICE("/json")))
        cdl_rls_json(exchange);
    else
        cdl_exchange_problem(exchange, 404, "there is /check, /v1/take, /v1/peek, /v1/refund and /json");
    if (!exchange->connection->waiting)
        cdl_histogram_record(worker->latency, clock->monotonic_ns(clock->context) - began_ns);
}

static size_t receive(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      bool *finish)
{
    return cdl_exchange_serve(connection, bytes, length, output, finish, handle);
}

const struct cdl_protocol cdl_http_protocol = {
    .state_bytes = sizeof(struct cdl_http_state),
    .kept_max = 2 * (CDL_HTTP1_HEAD_MAX + ((size_t)1 << 20)),
    .receive = receive,
    .give_up = cdl_exchange_give_up,
    .closed = cdl_exchange_closed,
};
