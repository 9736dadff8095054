#include "server/exchange.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "identity/path.h"
#include "wire/json_api.h"

static struct cdl_slice date_of(struct cdl_worker *worker)
{
    const int64_t now_s = cdl_server_now_ns(worker->server) / CDL_NS_PER_S;
    if (now_s != worker->date_s) {
        cdl_http_date(now_s, worker->date);
        worker->date_s = now_s;
    }
    return (struct cdl_slice){worker->date, sizeof worker->date};
}

static bool respond(struct cdl_exchange *exchange, struct cdl_writer *output, unsigned status, struct cdl_slice type,
                    struct cdl_slice lines, struct cdl_slice body)
{
    const struct cdl_http1_request *request = exchange->request;
    const struct cdl_http1_response response = {
        .status = status,
        .date = date_of(exchange->worker),
        .content_type = type,
        .lines = lines,
        .body = body,
        .without_body = request != NULL && cdl_slice_equal(request->method, CDL_SLICE("HEAD")),
        .keep_alive = exchange->keep_alive,
        .minor_version = request != NULL ? request->minor_version : 1,
    };
    return cdl_http1_respond(output, &response);
}

void cdl_exchange_reply(struct cdl_exchange *exchange, unsigned status, struct cdl_slice type, struct cdl_slice lines,
                        struct cdl_slice body)
{
    if (!respond(exchange, exchange->output, status, type, lines, body))
        exchange->keep_alive = false; /* cannot be: there is room for the longest answer */
}

void cdl_exchange_reply_large(struct cdl_exchange *exchange, unsigned status, struct cdl_slice type,
                              struct cdl_slice body)
{
    struct cdl_connection *connection = exchange->connection;
    if (body.length <= CDL_BODY_BYTES) {
        cdl_exchange_reply(exchange, status, type, CDL_SLICE(""), body);
        return;
    }
    const size_t size = body.length + 1024;
    exchange->keep_alive = false; /* nothing may be written behind it in this turn */
    connection->tail = malloc(size);
    struct cdl_writer output = cdl_writer_on(connection->tail, connection->tail != NULL ? size : 0);
    if (connection->tail != NULL && respond(exchange, &output, status, type, CDL_SLICE(""), body)) {
        connection->tail_length = output.length;
        return;
    }
    free(connection->tail);
    connection->tail = NULL;
    cdl_exchange_problem(exchange, 500, "no memory for the answer");
}

void cdl_exchange_problem(struct cdl_exchange *exchange, unsigned status, const char *format, ...)
{
    char detail[512], text[4096]; /* each byte of it may become six */
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    struct cdl_writer body = cdl_writer_on(text, sizeof text);
    cdl_json_write_problem(&body, status, (struct cdl_slice){detail, cdl_min_u64((uint64_t)length, sizeof detail - 1)});
    cdl_exchange_reply(exchange, status, CDL_TYPE_PROBLEM, CDL_SLICE("Cache-Control: no-store\r\n"),
                       cdl_written(&body));
}

bool cdl_exchange_allows(struct cdl_exchange *exchange, const char *methods)
{
    const struct cdl_slice sent = exchange->request->method;
    for (const char *at = methods; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        if (cdl_slice_equal(sent, (struct cdl_slice){at, length}))
            return true;
        at += length + (at[length] == ' ');
    }
    char lines_text[64], body_text[256];
    struct cdl_writer lines = cdl_writer_on(lines_text, sizeof lines_text);
    struct cdl_writer body = cdl_writer_on(body_text, sizeof body_text);
    cdl_write_text(&lines, "Allow: ");
    for (const char *at = methods; *at != '\0'; at++) {
        if (*at == ' ')
            cdl_write_text(&lines, ",");
        cdl_write(&lines, (struct cdl_slice){at, 1});
    }
    cdl_write_text(&lines, "\r\n");
    cdl_json_write_problem(&body, 405, CDL_SLICE("the field Allow tells the methods that this resource knows"));
    cdl_exchange_reply(exchange, 405, CDL_TYPE_PROBLEM, cdl_written(&lines), cdl_written(&body));
    return false;
}

struct cdl_address cdl_exchange_peer(const struct cdl_exchange *exchange)
{
    const struct sockaddr_storage *peer = &exchange->connection->peer;
    if (peer->ss_family == AF_INET)
        return cdl_address_from_bytes((const uint8_t *)&((const struct sockaddr_in *)peer)->sin_addr, 4);
    if (peer->ss_family == AF_INET6)
        return cdl_address_from_bytes((const uint8_t *)&((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
    return (struct cdl_address){0};
}

static void handle_ready(struct cdl_exchange *exchange, const struct cdl_http1 *parser, const char *bytes,
                         void (*handle)(struct cdl_exchange *exchange))
{
    struct cdl_http1_request request;
    cdl_http1_request(parser, bytes, &request);
    exchange->request = &request;
    exchange->keep_alive = request.keep_alive &&
                           !atomic_load_explicit(&exchange->worker->server->draining, memory_order_relaxed);
    exchange->query = cdl_target_query(request.target);
    const struct cdl_slice target = cdl_target_without_origin(request.target);
    const char *question_mark = target.length > 0 ? memchr(target.bytes, '?', target.length) : NULL;
    exchange->path = question_mark == NULL ? target : cdl_slice_head(target, (size_t)(question_mark - target.bytes));
    handle(exchange);
    exchange->request = NULL;
}

void cdl_exchange_wait(struct cdl_exchange *exchange, struct cdl_pending *pending)
{
    struct cdl_http_state *state = exchange->connection->state;
    state->pending = pending;
    exchange->connection->waiting = true;
}

static void forget(struct cdl_inquiry *inquiry, void *context)
{
    (void)context;
    cdl_inquiry_free(inquiry);
}

void cdl_exchange_wait_for(struct cdl_exchange *exchange, struct cdl_inquiry *inquiry, bool counts)
{
    struct cdl_pending *pending = cdl_pending_new(exchange->worker, exchange->connection, 1, counts);
    if (pending == NULL) {
        cdl_inquiry_await(inquiry, forget, NULL);
        cdl_exchange_problem(exchange, 503, "no memory to wait for the store");
        return;
    }
    cdl_pending_add(pending, 0, inquiry);
    cdl_exchange_wait(exchange, pending);
}

/* Hands over the request that is ready. False: it waits, and is handed over again. */
static bool handle_or_wait(struct cdl_exchange *exchange, struct cdl_http_state *state, const char *bytes,
                           void (*handle)(struct cdl_exchange *exchange))
{
    exchange->pending = state->pending;
    handle_ready(exchange, &state->parser, bytes, handle);
    if (exchange->connection->waiting)
        return false;
    cdl_pending_free(state->pending);
    state->pending = NULL;
    return true;
}

size_t cdl_exchange_serve(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                          bool *finish, void (*handle)(struct cdl_exchange *exchange))
{
    struct cdl_worker *worker = connection->listener->context;
    struct cdl_http_state *state = connection->state;
    struct cdl_http1 *parser = &state->parser;
    size_t taken = 0;
    while (taken < length && !*finish && output->size - output->length >= CDL_ANSWER_BYTES) {
        struct cdl_exchange exchange = {.worker = worker, .connection = connection, .output = output};
        const enum cdl_http1_result result = cdl_http1_parse(parser, &worker->server->http_limits, bytes + taken,
                                                             length - taken);
        if (result == CDL_HTTP1_CONTINUE)
            cdl_write(output, CDL_HTTP1_CONTINUE_LINE);
        if (result == CDL_HTTP1_MORE || result == CDL_HTTP1_CONTINUE) {
            /* The head had its time; a body has its own on top. */
            if (parser->body > 0)
                connection->message_timeout_ms = connection->listener->loop->bounds.message_timeout_ms +
                                                 worker->server->body_timeout_ms;
            break;
        }
        if (result == CDL_HTTP1_ERROR) {
            cdl_counters_event(worker->counters, CDL_EVENT_BAD_REQUEST, 1);
            cdl_exchange_problem(&exchange, parser->error.status, "the request cannot be read: %s",
                                 parser->error.reason);
            *finish = true;
            break;
        }
        if (!handle_or_wait(&exchange, state, bytes + taken, handle))
            break;
        *finish = !exchange.keep_alive;
        taken += cdl_http1_taken(parser);
        cdl_http1_next(parser);
    }
    return taken;
}

void cdl_exchange_give_up(struct cdl_connection *connection, bool too_long, struct cdl_writer *output)
{
    struct cdl_worker *worker = connection->listener->context;
    struct cdl_exchange exchange = {.worker = worker, .connection = connection, .output = output};
    cdl_counters_event(worker->counters, CDL_EVENT_BAD_REQUEST, 1);
    if (too_long)
        cdl_exchange_problem(&exchange, 413, "the request is too large");
    else
        cdl_exchange_problem(&exchange, 408, "the request did not become complete in time");
}

void cdl_exchange_closed(struct cdl_connection *connection)
{
    struct cdl_http_state *state = connection->state;
    cdl_pending_leave(state->pending);
    state->pending = NULL;
}
