/* Envoy's rate limit service with a store that answers later: one worker on the loopback interface, a client of nghttp2's, and the store, which
 * take turns in one thread. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../server_bed.h"
#include "server/exchange.h"

/* ---- a client ---- */

/* What it has heard of one call. */
struct heard {
    char grpc_status[8], why[512];
    char data[1024];
    size_t length;
    bool closed;
};

#define CALLS_MAX 32

static struct client {
    int fd;
    nghttp2_session *session;
    struct heard heard[CALLS_MAX];
    int goaways;
    bool ended;
} client;

static struct heard *heard_of(int32_t stream)
{
    assert_in_range(stream, 1, 2 * CALLS_MAX);
    return &client.heard[stream / 2];
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *context)
{
    (void)session;
    (void)flags;
    (void)context;
    struct heard *heard = heard_of(frame->hd.stream_id);
    const struct cdl_slice field = {(const char *)name, name_length};
    assert_true(value_length < sizeof heard->why);
    if (cdl_slice_equal(field, CDL_SLICE("grpc-status")))
        memcpy(heard->grpc_status, value, value_length < 7 ? value_length : 7);
    else if (cdl_slice_equal(field, CDL_SLICE("grpc-message")))
        memcpy(heard->why, value, value_length);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t length,
                   void *context)
{
    (void)session;
    (void)flags;
    (void)context;
    struct heard *heard = heard_of(stream);
    assert_true(heard->length + length <= sizeof heard->data);
    memcpy(heard->data + heard->length, data, length);
    heard->length += length;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *context)
{
    (void)session;
    (void)error;
    (void)context;
    heard_of(stream)->closed = true;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    (void)session;
    (void)context;
    client.goaways += frame->hd.type == NGHTTP2_GOAWAY;
    return 0;
}

static void open_client(void)
{
    nghttp2_session_callbacks *callbacks;
    memset(&client, 0, sizeof client);
    const int at_once = 1;
    client.fd = bed_connect();
    assert_int_equal(setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once), 0);
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    assert_int_equal(nghttp2_session_client_new(&client.session, callbacks, NULL), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
}

static void close_client(void)
{
    close(client.fd);
    nghttp2_session_del(client.session);
    client.session = NULL;
}

/* Everybody has a turn. */
static void pump(void)
{
    const uint8_t *bytes;
    uint8_t buffer[16384];
    ssize_t length;
    while (!client.ended && (length = nghttp2_session_mem_send(client.session, &bytes)) > 0)
        assert_int_equal(send(client.fd, bytes, (size_t)length, MSG_NOSIGNAL), length);
    bed_turn();
    while ((length = recv(client.fd, buffer, sizeof buffer, 0)) > 0)
        assert_int_equal(nghttp2_session_mem_recv(client.session, buffer, (size_t)length), length);
    client.ended |= length == 0;
}

static void pump_a_while(void)
{
    for (int i = 0; i < 50; i++)
        pump();
}

/* ---- calls ---- */

struct body {
    unsigned char bytes[128];
    size_t length;
};

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t size, uint32_t *flags,
                         nghttp2_data_source *source, void *context)
{
    (void)session;
    (void)stream;
    (void)size;
    (void)context;
    const struct body *body = source->ptr;
    memcpy(buffer, body->bytes, body->length);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)body->length;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

static int32_t call(const char *path, const char *timeout, const struct body *body)
{
    const nghttp2_nv fields[] = {
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", path),
        field(":authority", "h"),
        field("content-type", "application/grpc"),
        field("grpc-timeout", timeout != NULL ? timeout : "1H"),
    };
    const nghttp2_data_provider provider = {.source.ptr = (void *)(uintptr_t)body, .read_callback = read_body};
    const int32_t stream = nghttp2_submit_request(client.session, NULL, fields, COUNT_OF(fields), &provider, NULL);
    assert_true(stream > 0);
    return stream;
}

/* A descriptor {key: "v"} in the domain "d"; its name has one letter. */
static int32_t ask(char key, const char *timeout)
{
    static struct body bodies[CALLS_MAX];
    static size_t next;
    struct body *body = &bodies[next++ % CALLS_MAX];
    const unsigned char bytes[] = {0,    0, 0,  0, 13, 0x0a, 1, 'd', 0x12, 8, 0x0a, 6, 0x0a, 1, (unsigned char)key,
                                   0x12, 1, 'v'};
    memcpy(body->bytes, bytes, sizeof bytes);
    body->length = sizeof bytes;
    return call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", timeout, body);
}

static void until_asked(size_t count)
{
    for (unsigned i = 0; i < BED_PATIENCE && bed.store.count < count; i++)
        pump();
    assert_int_equal(bed.store.count, count);
}

static const struct heard *until_closed(int32_t stream)
{
    for (unsigned i = 0; i < BED_PATIENCE && !heard_of(stream)->closed; i++)
        pump();
    assert_true(heard_of(stream)->closed);
    return heard_of(stream);
}

/* The overall code of an answer; 0: it is none. */
static unsigned code_of(const struct heard *heard)
{
    if (strcmp(heard->grpc_status, "0") != 0 || heard->length < 7 || heard->data[5] != 0x08)
        return 0;
    return (unsigned char)heard->data[6];
}

static uint64_t events(enum cdl_event event)
{
    return cdl_counters_event_sum(bed.server.counters, event);
}

/* ---- fixtures ---- */

#define POLICY                                                                                                         \
    "domain: d\ndescriptors:\n"                                                                                        \
    "  - {key: a, on_store_failure: allow, rate_limit: {unit: hour, requests_per_unit: 2, name: first}}\n"             \
    "  - {key: c, on_store_failure: deny, rate_limit: {unit: hour, requests_per_unit: 2}}\n"

static int setup(void **state)
{
    (void)state;
    bed_open(&cdl_grpc_protocol);
    bed_apply(POLICY);
    open_client();
    return 0;
}

static int setup_http(void **state)
{
    (void)state;
    bed_open(&cdl_http_protocol);
    bed_apply(POLICY);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (client.session != NULL)
        close_client();
    bed_close();
    return 0;
}

/* ---- decisions ---- */

static void calls_are_answered_as_the_store_answers(void **state)
{
    (void)state;
    const int32_t first = ask('a', NULL), second = ask('c', NULL), third = ask('x', NULL);
    until_asked(2);
    assert_int_equal(code_of(until_closed(third)), 1); /* which nothing limits */
    assert_false(heard_of(first)->closed || heard_of(second)->closed);
    later_answer(&bed.store, 1);
    assert_int_equal(code_of(until_closed(second)), 1);
    pump_a_while();
    assert_false(heard_of(first)->closed);
    later_answer(&bed.store, 0);
    const struct heard *heard = until_closed(first);
    assert_int_equal(code_of(heard), 1);
    assert_non_null(memmem(heard->data, heard->length, "\"first\";r=1;t=3600", 18));
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 3);
}

static void a_refusal_is_told_with_what_over_http_would_be_fields(void **state)
{
    (void)state;
    int32_t stream = 0;
    for (int i = 0; i < 3; i++) {
        stream = ask('a', NULL);
        until_asked(1);
        later_answer(&bed.store, 0);
        until_closed(stream);
    }
    const struct heard *heard = until_closed(stream);
    assert_int_equal(code_of(heard), 2);
    assert_non_null(memmem(heard->data, heard->length,
                           "Retry-After\x12\x04"
                           "3600",
                           17));
    assert_non_null(memmem(heard->data, heard->length,
                           "Caudal-Limit\x12\x05"
                           "first",
                           19));
    assert_int_equal(bed_counted(CDL_COUNTED_DENY, CAUDAL_SOURCE_STORE), 1);
}

static void C44_a_store_that_is_away_is_no_refusal(void **state)
{
    (void)state;
    const int32_t open = ask('a', NULL), closed = ask('c', NULL);
    until_asked(2);
    later_fail_all(&bed.store);
    const struct heard *heard = until_closed(open);
    assert_int_equal(code_of(heard), 1);
    assert_int_equal(heard->length, 5 + 6); /* OK, and one status that says no more than that */
    heard = until_closed(closed);
    assert_string_equal(heard->grpc_status, "14");
    assert_int_equal(heard->length, 0);
    assert_non_null(strstr(heard->why, "d/c"));
    assert_non_null(strstr(heard->why, "the store is away"));
}

static void C72_a_cancelled_call_is_counted_and_not_answered(void **state)
{
    (void)state;
    const int32_t stream = ask('a', NULL);
    until_asked(1);
    nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    pump_a_while();
    assert_int_equal(events(CDL_EVENT_CANCELLED), 1);
    later_answer(&bed.store, 0);
    pump_a_while();
    assert_int_equal(heard_of(stream)->length, 0);
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 1); /* it was spent */
    assert_int_equal(events(CDL_EVENT_DEADLINE_EXCEEDED), 0);
}

static void C72_an_answer_after_the_deadline_is_counted(void **state)
{
    (void)state;
    const int32_t late = ask('a', "1n"), given_up = ask('a', "2n");
    until_asked(2);
    nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, given_up, NGHTTP2_CANCEL);
    pump_a_while();
    assert_int_equal(events(CDL_EVENT_DEADLINE_EXCEEDED), 1);
    later_answer(&bed.store, 0);
    assert_string_equal(until_closed(late)->grpc_status, "4");
    assert_int_equal(events(CDL_EVENT_DEADLINE_EXCEEDED), 2);
    assert_int_equal(events(CDL_EVENT_CANCELLED), 0);
    later_answer_all(&bed.store);
}

static void C72_the_store_has_less_time_than_the_client(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t timeout_ns, margin_ns;
    } cases[] = {{"20m", 20 * MILLISECOND, 2 * MILLISECOND},
                 {"2m", 2 * MILLISECOND, MILLISECOND},
                 {"1S", SECOND, 100 * MILLISECOND}};
    const struct caudal_clock *clock = caudal_clock_system();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const int64_t before_ns = clock->monotonic_ns(clock->context);
        ask('a', cases[i].text);
        until_asked(1);
        const int64_t after_ns = clock->monotonic_ns(clock->context);
        const int64_t left_ns = cases[i].timeout_ns - cases[i].margin_ns;
        assert_in_range(bed.store.calls[0]->deadline_ns, before_ns + left_ns, after_ns + left_ns);
        later_answer(&bed.store, 0);
        pump_a_while();
    }
}

static void a_connection_that_goes_leaves_its_calls_behind(void **state)
{
    (void)state;
    ask('a', NULL);
    ask('c', NULL);
    until_asked(2);
    bed_reset(client.fd);
    nghttp2_session_del(client.session);
    client.session = NULL;
    bed_turn_a_while();
    assert_int_equal(events(CDL_EVENT_CANCELLED), 2);
    later_answer_all(&bed.store);
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 2);
}

static void a_reload_does_not_change_what_was_asked_before(void **state)
{
    (void)state;
    const int32_t stream = ask('a', NULL);
    until_asked(1);
    bed_apply("domain: d\ndescriptors:\n  - {key: z, rate_limit: {unit: day, requests_per_unit: 7}}\n");
    later_answer(&bed.store, 0);
    const struct heard *heard = until_closed(stream);
    assert_int_equal(code_of(heard), 1);
    assert_non_null(memmem(heard->data, heard->length, "\"first\";r=1", 11));
}

static void bad_requests_are_counted_and_told_why(void **state)
{
    (void)state;
    static const struct body empty = {.bytes = {0, 0, 0, 0, 0}, .length = 5};
    const int32_t stream = call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", NULL, &empty);
    const struct heard *heard = until_closed(stream);
    assert_string_equal(heard->grpc_status, "3");
    assert_string_equal(heard->why, "domain: empty");
    assert_int_equal(events(CDL_EVENT_BAD_REQUEST), 1);
}

/* ---- the same, as JSON ---- */

/* An answer, which comes in one piece. */
static const char *read_http(int fd)
{
    static char text[8192];
    ssize_t got = -1;
    for (unsigned i = 0; i < BED_PATIENCE && got < 0; i++) {
        bed_turn();
        got = recv(fd, text, sizeof text - 1, 0);
    }
    assert_true(got > 0);
    text[got] = '\0';
    return text;
}

static void json_waits_too(void **state)
{
    (void)state;
    static const char text[] = "POST /json HTTP/1.1\r\nHost: h\r\nContent-Length: 68\r\n\r\n"
                               "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"a\",\"value\":\"v\"}]}]}";
    const int fd = bed_connect();
    assert_int_equal(send(fd, text, sizeof text - 1, 0), sizeof text - 1);
    bed_until_asked(1);
    later_answer(&bed.store, 0);
    const char *answer = read_http(fd);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
    assert_non_null(strstr(answer, "{\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\",\"currentLimit\":"
                                   "{\"requestsPerUnit\":2,\"unit\":\"HOUR\",\"name\":\"first\"},\"limitRemaining\":1,"
                                   "\"durationUntilReset\":\"3600s\"}]"));
    close(fd);
}

/* ---- health, and the end ---- */

static void C100_who_watches_is_told_of_the_end(void **state)
{
    (void)state;
    static const struct body empty = {.bytes = {0, 0, 0, 0, 0}, .length = 5};
    static const struct body unknown = {.bytes = {0, 0, 0, 0, 3, 0x0a, 1, 'x'}, .length = 8};
    const int32_t watch = call("/grpc.health.v1.Health/Watch", NULL, &empty);
    const int32_t other = call("/grpc.health.v1.Health/Watch", NULL, &unknown);
    const int32_t check = call("/grpc.health.v1.Health/Check", NULL, &unknown);
    assert_string_equal(until_closed(check)->grpc_status, "5");
    assert_memory_equal(heard_of(watch)->data, "\0\0\0\0\2\x08\1", 7);
    assert_memory_equal(heard_of(other)->data, "\0\0\0\0\2\x08\3", 7);
    atomic_store(&bed.server.draining, true);
    cdl_loop_flush(&bed.worker.loop);
    pump_a_while();
    assert_int_equal(heard_of(watch)->length, 14);
    assert_memory_equal(heard_of(watch)->data + 7, "\0\0\0\0\2\x08\2", 7);
    assert_int_equal(heard_of(other)->length, 7);
    assert_int_equal(client.goaways, 1);
    assert_false(client.ended);
}

static void C100_what_waits_is_answered_before_the_end(void **state)
{
    (void)state;
    const int32_t stream = ask('a', NULL);
    until_asked(1);
    atomic_store(&bed.server.draining, true);
    atomic_store(&bed.server.stopping, true);
    cdl_loop_flush(&bed.worker.loop);
    cdl_loop_quiesce(&bed.worker.loop);
    pump_a_while();
    assert_false(client.ended);
    later_answer(&bed.store, 0);
    assert_int_equal(code_of(until_closed(stream)), 1);
    pump_a_while();
    assert_true(client.ended);
}

/* It would come back at once, if it were sent away without an answer. */
static void C100_who_comes_late_is_answered_first(void **state)
{
    (void)state;
    close_client();
    atomic_store(&bed.server.draining, true);
    open_client();
    pump_a_while();
    assert_int_equal(client.goaways, 0);
    assert_int_equal(code_of(until_closed(ask('x', NULL))), 1);
    pump_a_while();
    assert_int_equal(client.goaways, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(calls_are_answered_as_the_store_answers),
        CASE(a_refusal_is_told_with_what_over_http_would_be_fields),
        CASE(C44_a_store_that_is_away_is_no_refusal),
        CASE(C72_a_cancelled_call_is_counted_and_not_answered),
        CASE(C72_an_answer_after_the_deadline_is_counted),
        CASE(C72_the_store_has_less_time_than_the_client),
        CASE(a_connection_that_goes_leaves_its_calls_behind),
        CASE(a_reload_does_not_change_what_was_asked_before),
        CASE(bad_requests_are_counted_and_told_why),
        cmocka_unit_test_setup_teardown(json_waits_too, setup_http, teardown),
        CASE(C100_who_watches_is_told_of_the_end),
        CASE(C100_what_waits_is_answered_before_the_end),
        CASE(C100_who_comes_late_is_answered_first),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
