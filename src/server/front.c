/* The public listener's resources. */
#include "server/exchange.h"

static void handle(struct cdl_exchange *exchange)
{
    struct cdl_worker *worker = exchange->worker;
    const int64_t began = worker->server->clock->monotonic_ns(worker->server->clock->context);
    if (cdl_slice_equal(exchange->path, CDL_SLICE("/check")))
        cdl_check(exchange);
    else if (cdl_slice_equal(exchange->path, CDL_SLICE("/v1/take")))
        cdl_json_api(exchange, CDL_NAMED_TAKE);
    else if (cdl_slice_equal(exchange->path, CDL_SLICE("/v1/peek")))
        cdl_json_api(exchange, CDL_NAMED_PEEK);
    else if (cdl_slice_equal(exchange->path, CDL_SLICE("/v1/refund")))
        cdl_json_api(exchange, CDL_NAMED_REFUND);
    else
        cdl_exchange_problem(exchange, 404, "there is /check, /v1/take, /v1/peek and /v1/refund");
    cdl_histogram_record(worker->latency, worker->server->clock->monotonic_ns(worker->server->clock->context) - began);
}

static size_t receive(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      bool *finish)
{
    return cdl_exchange_serve(connection, bytes, length, output, finish, handle);
}

const struct cdl_protocol cdl_http_protocol = {
    .state_bytes = sizeof(struct cdl_http1),
    .kept_max = 2 * (CDL_HTTP1_HEAD_MAX + ((size_t)1 << 20)),
    .receive = receive,
    .give_up = cdl_exchange_give_up,
};
