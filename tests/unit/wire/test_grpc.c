/* gRPC over HTTP/2: the server's side of a connection against nghttp2's client, and against bytes that no client would send. */
#include <stdlib.h>

#include <nghttp2/nghttp2.h>

#include "../support.h"
#include "wire/grpc.h"

enum {
    ECHO,
    LATER,
    WATCH,
};

static const struct cdl_slice methods[] = {{"/t.T/Echo", 9}, {"/t.T/Later", 10}, {"/t.T/Watch", 10}};

/* What a client has heard of one call. */
struct heard {
    char status[8], grpc_status[8], why[512];
    char data[131072];
    size_t length;
    bool closed;
    uint32_t error;
};

#define STREAMS_MAX 1024

static struct bed {
    struct cdl_grpc *grpc;
    nghttp2_session *client;
    int64_t now_ns;
    size_t step; /* bytes at once, either way; 0: all */
    struct heard *heard[STREAMS_MAX];
    int goaways;
    uint32_t goaway_error;
    bool over; /* the server has closed the connection */
    struct cdl_grpc_call *held[STREAMS_MAX];
    size_t held_count, cancelled;
    bool raw;                /* no client listens: see hear_raw */
    unsigned refused, ended; /* what hear_raw has heard */
} bed;

/* ---- the server ---- */

static void called(void *context, struct cdl_grpc_call *call)
{
    assert_ptr_equal(context, &bed);
    static char copy[65536];
    const struct cdl_slice message = cdl_grpc_message(call);
    if (message.length > 0)
        memcpy(copy, message.bytes, message.length);
    if (cdl_grpc_method(call) == ECHO)
        cdl_grpc_answer(call, (struct cdl_slice){copy, message.length});
    else if (cdl_grpc_method(call) == WATCH)
        cdl_grpc_stream(call, CDL_SLICE("first"));
    else
        bed.held[bed.held_count++] = call;
}

static void cancelled(void *context, struct cdl_grpc_call *call)
{
    assert_ptr_equal(context, &bed);
    bed.cancelled++;
    for (size_t i = 0; i < bed.held_count; i++)
        if (bed.held[i] == call)
            bed.held[i] = NULL;
}

static const struct cdl_grpc_service service = {
    .methods = methods,
    .method_count = COUNT_OF(methods),
    .message_max = 65536,
    .called = called,
    .cancelled = cancelled,
};

/* ---- the client ---- */

static struct heard *heard_of(int32_t stream)
{
    assert_in_range(stream, 1, 2 * STREAMS_MAX);
    struct heard **heard = &bed.heard[stream / 2];
    if (*heard == NULL)
        *heard = calloc(1, sizeof **heard);
    assert_non_null(*heard);
    return *heard;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *context)
{
    (void)session;
    (void)flags;
    (void)context;
    static const struct {
        const char *name;
        size_t offset, size;
    } fields[] = {
        {":status", offsetof(struct heard, status), 8},
        {"grpc-status", offsetof(struct heard, grpc_status), 8},
        {"grpc-message", offsetof(struct heard, why), 512},
    };
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (name_length == strlen(fields[i].name) && memcmp(name, fields[i].name, name_length) == 0) {
            assert_true(value_length < fields[i].size);
            memcpy((char *)heard_of(frame->hd.stream_id) + fields[i].offset, value, value_length);
        }
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
    (void)context;
    heard_of(stream)->closed = true;
    heard_of(stream)->error = error;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    (void)session;
    (void)context;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        bed.goaways++;
        bed.goaway_error = frame->goaway.error_code;
    }
    return 0;
}

static void open_client(void)
{
    nghttp2_session_callbacks *callbacks;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    assert_int_equal(nghttp2_session_client_new(&bed.client, callbacks, NULL), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(bed.client, NGHTTP2_FLAG_NONE, NULL, 0), 0);
}

/* ---- bytes from one to the other ---- */

static uint32_t number_at(const char *bytes)
{
    const unsigned char *at = (const unsigned char *)bytes;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* What the server says to a client that is no client: whole frames, of which three kinds are of interest. */
static void hear_raw(struct cdl_slice bytes)
{
    while (bytes.length > 0) {
        assert_true(bytes.length >= 9);
        const size_t length = number_at(bytes.bytes) >> 8;
        assert_true(bytes.length >= 9 + length);
        bed.refused += bytes.bytes[3] == NGHTTP2_RST_STREAM && number_at(bytes.bytes + 9) == NGHTTP2_REFUSED_STREAM;
        bed.ended += bytes.bytes[3] == NGHTTP2_HEADERS && (bytes.bytes[4] & NGHTTP2_FLAG_END_STREAM) != 0;
        if (bytes.bytes[3] == NGHTTP2_GOAWAY) {
            bed.goaways++;
            bed.goaway_error = number_at(bytes.bytes + 13);
        }
        bytes = cdl_slice_from(bytes, 9 + length);
    }
}

static void hear(struct cdl_slice bytes)
{
    if (bed.raw) {
        hear_raw(bytes);
        return;
    }
    for (size_t at = 0, step; at < bytes.length; at += step) {
        step = bed.step == 0 || bed.step > bytes.length - at ? bytes.length - at : bed.step;
        assert_int_equal(nghttp2_session_mem_recv(bed.client, (const uint8_t *)bytes.bytes + at, step), step);
    }
}

/* Gives the server bytes, in pieces of bed.step, and what it answers to the client. */
static void give_server(const void *bytes, size_t length)
{
    static char room[1 << 20];
    size_t done = 0;
    do {
        const size_t step = bed.step == 0 || bed.step > length - done ? length - done : bed.step;
        struct cdl_writer output = cdl_writer_on(room, sizeof room);
        char *copy = malloc(step + 1); /* so that nobody reads behind it */
        assert_non_null(copy);
        memcpy(copy, (const char *)bytes + done, step);
        cdl_grpc_receive(bed.grpc, (struct cdl_slice){copy, step}, bed.now_ns);
        free(copy);
        cdl_grpc_send(bed.grpc, &output);
        bed.over = cdl_grpc_is_over(bed.grpc);
        hear(cdl_written(&output));
        done += step;
    } while (done < length && !bed.over);
}

/* Until nobody has anything to say. */
static void pump(void)
{
    const uint8_t *bytes;
    ssize_t length;
    give_server("", 0);
    while (!bed.over && (length = nghttp2_session_mem_send(bed.client, &bytes)) > 0)
        give_server(bytes, (size_t)length);
    if (!bed.over)
        give_server("", 0);
}

static int setup(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof bed);
    bed.now_ns = 1000 * SECOND;
    bed.grpc = cdl_grpc_open(&service, 10 * SECOND, &bed);
    assert_non_null(bed.grpc);
    open_client();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cdl_grpc_close(bed.grpc);
    nghttp2_session_del(bed.client);
    for (size_t i = 0; i < STREAMS_MAX; i++)
        free(bed.heard[i]);
    return 0;
}

/* ---- calls ---- */

/* What a client sends as a body, and whether it says that no more comes. */
struct body {
    char bytes[262144];
    size_t length, at;
    bool open;
};

static struct body bodies[4];

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t size, uint32_t *flags,
                         nghttp2_data_source *source, void *context)
{
    (void)session;
    (void)stream;
    (void)context;
    struct body *body = source->ptr;
    const size_t left = body->length - body->at, step = left < size ? left : size;
    if (left == 0 && body->open)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(buffer, body->bytes + body->at, step);
    body->at += step;
    if (body->at == body->length && !body->open)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)step;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

struct call {
    const char *path, *method, *type, *timeout, *encoding;
};

static int32_t begin(struct call call, struct body *body)
{
    nghttp2_nv fields[8];
    size_t count = 0;
    fields[count++] = field(":method", call.method != NULL ? call.method : "POST");
    fields[count++] = field(":scheme", "http");
    fields[count++] = field(":path", call.path);
    fields[count++] = field(":authority", "h");
    if (call.type == NULL || *call.type != '\0')
        fields[count++] = field("content-type", call.type != NULL ? call.type : "application/grpc");
    if (call.timeout != NULL)
        fields[count++] = field("grpc-timeout", call.timeout);
    if (call.encoding != NULL)
        fields[count++] = field("grpc-encoding", call.encoding);
    const nghttp2_data_provider provider = {.source.ptr = body, .read_callback = read_body};
    const int32_t stream = nghttp2_submit_request(bed.client, NULL, fields, count, body != NULL ? &provider : NULL,
                                                  NULL);
    assert_true(stream > 0);
    return stream;
}

/* A body of one message. */
static struct body *message(size_t slot, const char *bytes, size_t length)
{
    struct body *body = &bodies[slot];
    memset(body, 0, sizeof *body);
    const unsigned char prefix[] = {0, (unsigned char)(length >> 24), (unsigned char)(length >> 16),
                                    (unsigned char)(length >> 8), (unsigned char)length};
    memcpy(body->bytes, prefix, sizeof prefix);
    memcpy(body->bytes + 5, bytes, length);
    body->length = length + 5;
    return body;
}

static struct heard *ask(struct call call, struct body *body)
{
    const int32_t stream = begin(call, body);
    pump();
    return heard_of(stream);
}

static void assert_refused(const struct heard *heard, const char *status, const char *why)
{
    assert_string_equal(heard->status, "200");
    assert_string_equal(heard->grpc_status, status);
    if (strstr(heard->why, why) == NULL)
        fail_msg("no '%s' in '%s'", why, heard->why);
    assert_int_equal(heard->length, 0);
    assert_true(heard->closed);
}

static void assert_answered(const struct heard *heard, const char *text)
{
    assert_string_equal(heard->status, "200");
    assert_string_equal(heard->grpc_status, "0");
    assert_int_equal(heard->length, strlen(text) + 5);
    const unsigned char prefix[5] = {0, 0, 0, (unsigned char)(strlen(text) >> 8), (unsigned char)strlen(text)};
    assert_memory_equal(heard->data, prefix, 5);
    assert_memory_equal(heard->data + 5, text, strlen(text));
    assert_true(heard->closed);
    assert_int_equal(heard->error, NGHTTP2_NO_ERROR);
}

static const struct call echo = {.path = "/t.T/Echo"}, later = {.path = "/t.T/Later"}, watch = {.path = "/t.T/Watch"};

static void a_call_is_answered(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_answered(ask(echo, message(0, "hello", 5)), "hello");
    assert_answered(ask(echo, message(0, "", 0)), "");
    assert_false(bed.over);
}

static void bytes_may_come_one_at_a_time(void **state)
{
    (void)state;
    bed.step = 1;
    for (int i = 0; i < 3; i++)
        assert_answered(ask(echo, message(0, "hello", 5)), "hello");
}

static void a_message_may_be_as_long_as_is_allowed(void **state)
{
    (void)state;
    static char text[65537];
    memset(text, 'x', sizeof text);
    const struct heard *heard = ask(echo, message(0, text, 65536));
    assert_string_equal(heard->grpc_status, "0");
    assert_int_equal(heard->length, 65541);
    assert_memory_equal(heard->data + 5, text, 65536);
    assert_refused(ask(echo, message(0, text, 65537)), "3", "65537 bytes long, which is more than 65536");
    assert_answered(ask(echo, message(0, "hello", 5)), "hello");
}

static void calls_are_answered_in_any_order(void **state)
{
    (void)state;
    const int32_t first = begin(later, message(0, "a", 1)), second = begin(later, message(1, "b", 1));
    pump();
    assert_int_equal(bed.held_count, 2);
    assert_true(cdl_grpc_owes(bed.grpc));
    assert_memory_equal(cdl_grpc_message(bed.held[1]).bytes, "b", 1);
    cdl_grpc_answer(bed.held[1], CDL_SLICE("second"));
    assert_true(cdl_grpc_owes(bed.grpc));
    pump();
    assert_answered(heard_of(second), "second");
    assert_false(heard_of(first)->closed);
    cdl_grpc_fail(bed.held[0], CDL_GRPC_UNAVAILABLE, CDL_SLICE("100 % \xc3\xbc\n"));
    assert_false(cdl_grpc_owes(bed.grpc));
    pump();
    assert_refused(heard_of(first), "14", "100 %25 %C3%BC%0A");
    assert_int_equal(bed.cancelled, 0);
}

static void a_call_that_the_client_resets_is_cancelled(void **state)
{
    (void)state;
    const int32_t stream = begin(later, message(0, "a", 1));
    pump();
    nghttp2_submit_rst_stream(bed.client, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    pump();
    assert_int_equal(bed.cancelled, 1);
    assert_false(cdl_grpc_owes(bed.grpc));
    assert_answered(ask(echo, message(0, "hello", 5)), "hello");
}

static void calls_are_cancelled_when_the_connection_closes(void **state)
{
    (void)state;
    begin(later, message(0, "a", 1));
    begin(watch, message(1, "a", 1));
    pump();
    cdl_grpc_close(bed.grpc);
    bed.grpc = NULL;
    assert_int_equal(bed.cancelled, 2);
}

static void headers_are_judged(void **state)
{
    (void)state;
    static const struct {
        struct call call;
        const char *status, *grpc_status, *why;
    } cases[] = {
        {{.path = "/t.T/Other"}, "200", "12", "there is no such method"},
        {{.path = "/"}, "200", "12", "there is no such method"},
        {{.path = "/t.T/Echo", .method = "GET"}, "405", "", ""},
        {{.path = "/t.T/Echo", .type = ""}, "415", "", ""},
        {{.path = "/t.T/Echo", .type = "application/json"}, "415", "", ""},
        {{.path = "/t.T/Echo", .type = "application/grpc-web"}, "415", "", ""},
        {{.path = "/t.T/Echo", .type = "application/grpc+json"}, "415", "", ""},
        {{.path = "/t.T/Echo", .type = "application/grpc+proto"}, "200", "0", ""},
        {{.path = "/t.T/Echo", .type = "application/grpc; charset=utf-8"}, "200", "0", ""},
        {{.path = "/t.T/Echo", .encoding = "identity"}, "200", "0", ""},
        {{.path = "/t.T/Echo", .encoding = "gzip"}, "200", "12", "grpc-encoding"},
        {{.path = "/t.T/Echo", .timeout = "20m"}, "200", "0", ""},
        {{.path = "/t.T/Echo", .timeout = "0n"}, "200", "4", "grpc-timeout"},
        {{.path = "/t.T/Echo", .timeout = "20"}, "200", "3", "grpc-timeout"},
        {{.path = "/t.T/Echo", .timeout = "m"}, "200", "3", "grpc-timeout"},
        {{.path = "/t.T/Echo", .timeout = "-1m"}, "200", "3", "grpc-timeout"},
        {{.path = "/t.T/Echo", .timeout = "123456789m"}, "200", "3", "grpc-timeout"},
        {{.path = "/t.T/Echo", .timeout = "1s"}, "200", "3", "grpc-timeout"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct heard *heard = ask(cases[i].call, message(0, "hello", 5));
        assert_string_equal(heard->status, cases[i].status);
        assert_string_equal(heard->grpc_status, cases[i].grpc_status);
        assert_non_null(strstr(heard->why, cases[i].why));
        assert_true(heard->closed);
    }
    assert_false(bed.over);
}

static void C72_a_deadline_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {{"20m", 20 * MILLISECOND},
                 {"1S", SECOND},
                 {"99999999u", 99999999 * MICROSECOND},
                 {"7n", 7},
                 {"2M", 2 * MINUTE},
                 {"3H", 3 * HOUR},
                 {"99999999H", INT64_MAX},
                 {NULL, INT64_MAX}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        begin((struct call){.path = "/t.T/Later", .timeout = cases[i].text}, message(0, "", 0));
        pump();
        assert_int_equal(bed.held_count, 1);
        assert_int_equal(cdl_grpc_timeout_ns(bed.held[0]), cases[i].ns);
        assert_int_equal(cdl_grpc_deadline_ns(bed.held[0]),
                         cases[i].ns == INT64_MAX ? INT64_MAX : bed.now_ns + cases[i].ns);
        cdl_grpc_answer(bed.held[0], CDL_SLICE(""));
        bed.held_count = 0;
    }
}

static void a_message_must_be_one_and_whole(void **state)
{
    (void)state;
    struct body *body = message(0, "hello", 5);
    body->length--;
    assert_refused(ask(echo, body), "3", "ends within its message");
    body = message(0, "hello", 5);
    body->length = 3;
    assert_refused(ask(echo, body), "3", "ends within its message");
    assert_refused(ask(echo, NULL), "3", "ends within its message");
    body = message(0, "hello", 5);
    memcpy(body->bytes + body->length, body->bytes, body->length);
    body->length *= 2;
    assert_refused(ask(echo, body), "3", "more than one message");
    body = message(0, "hello", 5);
    body->bytes[0] = 1;
    assert_refused(ask(echo, body), "12", "compressed");
    assert_answered(ask(echo, message(0, "hello", 5)), "hello");
}

static void a_client_is_told_to_stop_what_is_answered_already(void **state)
{
    (void)state;
    struct body *body = message(0, "hello", 5);
    body->bytes[0] = 1;
    body->open = true;
    const struct heard *heard = ask(echo, body);
    assert_string_equal(heard->grpc_status, "12");
    assert_true(heard->closed);
    assert_int_equal(heard->error, NGHTTP2_NO_ERROR);
}

static void a_request_that_does_not_go_on_expires(void **state)
{
    (void)state;
    struct body *body = message(0, "hello", 5);
    body->length = 7;
    body->open = true;
    const int32_t stream = begin(echo, body);
    pump();
    bed.now_ns += 10 * SECOND;
    pump();
    assert_false(heard_of(stream)->closed);
    assert_answered(ask(echo, message(1, "hello", 5)), "hello");
    bed.now_ns += 1;
    pump();
    assert_refused(heard_of(stream), "4", "did not become whole in time");
}

static void several_messages_are_streamed_and_ended(void **state)
{
    (void)state;
    const int32_t stream = begin(watch, message(0, "", 0));
    pump();
    struct cdl_grpc_call *call = cdl_grpc_next_streamed(bed.grpc, NULL);
    assert_non_null(call);
    assert_null(cdl_grpc_next_streamed(bed.grpc, call));
    assert_int_equal(heard_of(stream)->length, 10);
    cdl_grpc_stream(call, CDL_SLICE("second"));
    cdl_grpc_stream(call, CDL_SLICE("third"));
    assert_false(cdl_grpc_owes(bed.grpc));
    pump();
    assert_int_equal(heard_of(stream)->length, 31);
    assert_memory_equal(heard_of(stream)->data + 26, "third", 5);
    assert_false(heard_of(stream)->closed);
    cdl_grpc_finish(bed.grpc);
    pump();
    assert_string_equal(heard_of(stream)->grpc_status, "14");
    assert_true(heard_of(stream)->closed && bed.over);
}

/* ---- the end ---- */

static void C100_draining_asks_clients_away_and_answers_them(void **state)
{
    (void)state;
    unsigned char bytes[4096];
    size_t length = 0;
    const uint8_t *part;
    assert_answered(ask(echo, message(0, "hello", 5)), "hello");
    const int32_t stream = begin(echo, message(0, "hello", 5));
    for (ssize_t got; (got = nghttp2_session_mem_send(bed.client, &part)) > 0; length += (size_t)got)
        memcpy(bytes + length, part, (size_t)got);
    cdl_grpc_drain(bed.grpc);
    pump();
    assert_int_equal(bed.goaways, 1);
    give_server(bytes, length);
    assert_int_equal(bed.goaway_error, NGHTTP2_NO_ERROR);
    assert_answered(heard_of(stream), "hello"); /* it was on its way */
    assert_false(bed.over);
}

static void C100_what_was_asked_is_answered_before_the_end(void **state)
{
    (void)state;
    const int32_t stream = begin(later, message(0, "", 0));
    pump();
    cdl_grpc_finish(bed.grpc);
    pump();
    assert_false(bed.over);
    assert_int_equal(bed.goaways, 1);
    cdl_grpc_answer(bed.held[0], CDL_SLICE("hello"));
    pump();
    assert_answered(heard_of(stream), "hello");
    assert_true(bed.over);
}

/* ---- abuse ---- */

static void assert_broken_off(uint32_t error)
{
    assert_true(bed.over);
    assert_int_equal(bed.goaways, 1);
    assert_int_equal(bed.goaway_error, error);
    assert_false(cdl_grpc_owes(bed.grpc));
}

static size_t frame(unsigned char *at, size_t length, unsigned type, unsigned flags, uint32_t stream)
{
    const unsigned char head[] = {
        (unsigned char)(length >> 16), (unsigned char)(length >> 8), (unsigned char)length,
        (unsigned char)type,           (unsigned char)flags,         (unsigned char)(stream >> 24),
        (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream};
    memcpy(at, head, sizeof head);
    return sizeof head;
}

/* The same frame again and again, until the server has had enough; how many it took. */
static unsigned flood(size_t length, const unsigned char *payload, unsigned type, unsigned flags, uint32_t stream)
{
    unsigned char bytes[32768];
    size_t end = frame(bytes, length, type, flags, stream);
    if (length > 0)
        memcpy(bytes + end, payload, length);
    unsigned count = 0;
    bed.raw = true;
    for (; !bed.over && count < 1000000; count++)
        give_server(bytes, end + length);
    return count;
}

/* HEADERS of a call whose message is still to come. */
static void give_headers(uint32_t stream)
{
    static const char block[] = "\x83\x86\x01\x01h\x04\x0a/t.T/Later\x0f\x10\x10"
                                "application/grpc";
    unsigned char bytes[128];
    const size_t end = frame(bytes, sizeof block - 1, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream);
    memcpy(bytes + end, block, sizeof block - 1);
    give_server(bytes, end + sizeof block - 1);
}

/* A whole call, answered, of headers in five frames. Its fields are cut as well, and a frame may be empty. */
static size_t lay_out_continued_call(unsigned char *at, uint32_t stream)
{
    static const char block[] = "\x83\x86\x01\x01h\x04\x09/t.T/Echo\x0f\x10\x10"
                                "application/grpc";
    static const size_t cuts[] = {0, 10, 10, 11, 30, sizeof block - 1};
    const size_t last = COUNT_OF(cuts) - 2;
    size_t length = 0;
    for (size_t i = 0; i <= last; i++) {
        const size_t part = cuts[i + 1] - cuts[i];
        length += frame(at + length, part, i == 0 ? NGHTTP2_HEADERS : NGHTTP2_CONTINUATION,
                        i == last ? NGHTTP2_FLAG_END_HEADERS : 0, stream);
        memcpy(at + length, block + cuts[i], part);
        length += part;
    }
    length += frame(at + length, 10, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, stream);
    memcpy(at + length, "\0\0\0\0\5hello", 10);
    return length + 10;
}

/* nghttp2 by itself takes the pieces of a head for frames, and counts too many. */
static void continued_headers_may_be_cut_anywhere(void **state)
{
    (void)state;
    unsigned char bytes[256];
    const size_t length = lay_out_continued_call(bytes, 1);
    pump();
    bed.raw = true;
    for (bed.step = 1; bed.step <= length; bed.step++) {
        give_server(bytes, lay_out_continued_call(bytes, 2 * (uint32_t)bed.step - 1));
        assert_int_equal(bed.goaways, 0);
        assert_int_equal(bed.ended, bed.step);
    }
    assert_false(bed.over);
}

static const unsigned char zeros[16384];

static void a_flood_of_pings_ends(void **state)
{
    (void)state;
    pump();
    assert_in_range(flood(8, zeros, NGHTTP2_PING, 0, 0), CDL_GRPC_NUISANCE_MAX - 10, CDL_GRPC_NUISANCE_MAX + 1);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void a_flood_of_settings_ends(void **state)
{
    (void)state;
    pump();
    assert_in_range(flood(0, zeros, NGHTTP2_SETTINGS, 0, 0), 1, CDL_GRPC_NUISANCE_MAX + 1);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void a_flood_of_acknowledgements_that_are_not_read_ends(void **state)
{
    (void)state;
    static unsigned char bytes[17 * 3000];
    pump();
    bed.raw = true;
    for (size_t i = 0; i < 3000; i++)
        frame(bytes + 17 * i, 8, NGHTTP2_PING, 0, 0);
    give_server(bytes, sizeof bytes);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void a_flood_of_empty_data_ends(void **state)
{
    (void)state;
    struct body *body = message(0, "hello", 5);
    body->length = 0;
    body->open = true;
    const int32_t stream = begin(echo, body);
    pump();
    assert_in_range(flood(0, zeros, NGHTTP2_DATA, 0, (uint32_t)stream), 1, CDL_GRPC_NUISANCE_MAX + 1);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void a_flood_of_windows_and_priorities_and_unknown_frames_ends(void **state)
{
    static const unsigned char one[4] = {0, 0, 0, 1};
    static const struct {
        size_t length;
        unsigned type;
        uint32_t stream;
    } cases[] = {{4, NGHTTP2_WINDOW_UPDATE, 0}, {5, NGHTTP2_PRIORITY, 1}, {4, 0xee, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        pump();
        assert_in_range(flood(cases[i].length, cases[i].type == NGHTTP2_WINDOW_UPDATE ? one : zeros, cases[i].type, 0,
                              cases[i].stream),
                        1, CDL_GRPC_NUISANCE_MAX + 1);
        assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
        teardown(state);
        setup(state);
    }
}

static void a_purse_fills_with_time_and_with_calls(void **state)
{
    (void)state;
    unsigned char ping[17] = {0};
    pump();
    frame(ping, 8, NGHTTP2_PING, 0, 0);
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < CDL_GRPC_NUISANCE_PER_SECOND; i++)
            give_server(ping, sizeof ping);
        bed.now_ns += SECOND;
    }
    for (int round = 0; round < 1000; round++) {
        give_server(ping, sizeof ping);
        give_server(ping, sizeof ping);
        assert_answered(ask(echo, message(0, "x", 1)), "x");
    }
    assert_false(bed.over);
}

/* CVE-2023-44487 */
static void rapid_resets_end(void **state)
{
    (void)state;
    unsigned char reset[13] = {0};
    unsigned count = 0;
    pump();
    bed.raw = true;
    for (; !bed.over && count < 100000; count++) {
        give_headers(2 * count + 1);
        frame(reset, 4, NGHTTP2_RST_STREAM, 0, 2 * count + 1);
        if (!bed.over)
            give_server(reset, sizeof reset);
    }
    assert_in_range(count, CDL_GRPC_NUISANCE_MAX - 10, CDL_GRPC_NUISANCE_MAX + 1);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

/* CVE-2024-28182 and its kin */
static void a_flood_of_continuations_ends(void **state)
{
    for (size_t step = 0; step <= 10; step++) { /* however it is cut */
        unsigned char bytes[9];
        pump();
        bed.step = step;
        give_server(bytes, frame(bytes, 0, NGHTTP2_HEADERS, 0, 1));
        assert_int_equal(flood(0, zeros, NGHTTP2_CONTINUATION, 0, 1), CDL_GRPC_CONTINUATIONS_MAX + 1);
        assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
        teardown(state);
        setup(state);
    }
}

/* A large value in the table, and then one byte for each time that it is meant. */
static void a_bomb_of_headers_ends(void **state)
{
    (void)state;
    static unsigned char bytes[16384 + 9];
    static const unsigned char literal[] = {0x40, 0x01, 'a',
                                            0x7f, 0xe1, 0x1d}; /* "a", and 127 + 97 + 29 * 128 = 3936 bytes */
    pump();
    size_t at = 9;
    memcpy(bytes + at, literal, sizeof literal);
    at += sizeof literal;
    memset(bytes + at, 'x', 3936);
    at += 3936;
    memset(bytes + at, 0xbe, 8000);
    at += 8000;
    bed.raw = true;
    frame(bytes, at - 9, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1);
    give_server(bytes, at);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

/* Headers that change the size of the table that they are packed with, and say nothing. */
static void headers_that_mean_nothing_end(void **state)
{
    (void)state;
    static unsigned char bytes[9 + 16384];
    static const unsigned char updates[4] = {0x20, 0x3f, 0xe1, 0x1f};
    unsigned count = 0;
    pump();
    bed.raw = true;
    for (size_t at = 9; at < sizeof bytes; at += sizeof updates)
        memcpy(bytes + at, updates, sizeof updates);
    for (; !bed.over && count < 1000; count++) {
        frame(bytes, sizeof bytes - 9, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * count + 1);
        give_server(bytes, sizeof bytes);
    }
    assert_in_range(count, 2, 20);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void a_message_that_nobody_reads_any_more_ends(void **state)
{
    (void)state;
    struct body *body = message(0, "", 0);
    memset(body->bytes + 1, 0xff, 4);
    body->open = true;
    const int32_t stream = begin(echo, body);
    pump();
    assert_in_range(flood(16384, zeros, NGHTTP2_DATA, 0, (uint32_t)stream), 4, 200);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void streams_that_go_backwards_are_no_calls(void **state)
{
    (void)state;
    unsigned count = 0;
    pump();
    bed.raw = true;
    give_headers(5);
    for (; !bed.over && count < 100000; count++)
        give_headers(3);
    assert_in_range(count, 1, CDL_GRPC_NUISANCE_MAX + 1);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void a_length_of_4_GB_is_refused_at_its_prefix(void **state)
{
    (void)state;
    struct body *body = message(0, "", 0);
    memset(body->bytes + 1, 0xff, 4);
    body->open = true;
    assert_refused(ask(echo, body), "3", "4294967295 bytes long");
    assert_answered(ask(echo, message(1, "hello", 5)), "hello");
}

static void headers_that_are_too_large_are_refused(void **state)
{
    (void)state;
    static char text[CDL_GRPC_HEADERS_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 400] = '\0';
    assert_answered(ask((struct call){.path = "/t.T/Echo", .encoding = "identity"}, message(0, "hello", 5)), "hello");
    const struct heard *heard = ask((struct call){.path = "/t.T/Echo", .timeout = text}, message(0, "hello", 5));
    assert_string_equal(heard->status, "200");
    memset(text, 'x', sizeof text - 1);
    heard = ask((struct call){.path = "/t.T/Echo", .timeout = text}, message(0, "hello", 5));
    assert_string_equal(heard->status, "431");
    assert_answered(ask(echo, message(0, "hello", 5)), "hello");
}

static void more_calls_than_may_be_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[9];
    bed.raw = true;
    give_server(NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    give_server(bytes, frame(bytes, 0, NGHTTP2_SETTINGS, 0, 0));
    for (uint32_t i = 0; i < CDL_GRPC_CALLS_MAX + 10; i++)
        give_headers(2 * i + 1);
    assert_false(bed.over);
    assert_int_equal(bed.refused, 10);
    /* Now that the client says that it has heard how many there may be. */
    give_server(bytes, frame(bytes, 0, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    give_headers(2 * (CDL_GRPC_CALLS_MAX + 10) + 1);
    assert_broken_off(NGHTTP2_PROTOCOL_ERROR);
}

/* Answers that the client does not take: its window is shut. */
static void answers_that_are_not_taken_are_bounded(void **state)
{
    (void)state;
    static char text[65536];
    const nghttp2_settings_entry shut = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    memset(text, 'x', sizeof text);
    nghttp2_submit_settings(bed.client, NGHTTP2_FLAG_NONE, &shut, 1);
    pump();
    unsigned count = 0;
    for (; !bed.over && count < 100; count++)
        ask(echo, message(0, text, sizeof text));
    assert_in_range(count, 4, 12);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void messages_that_wait_are_bounded(void **state)
{
    (void)state;
    static char text[65536];
    memset(text, 'x', sizeof text);
    unsigned count = 0;
    for (; !bed.over && count < 100; count++)
        ask(later, message(0, text, sizeof text));
    assert_in_range(count, 4, 12);
    assert_broken_off(NGHTTP2_ENHANCE_YOUR_CALM);
}

static void what_is_no_http2_ends(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    bed.raw = true;
    give_server(text, sizeof text - 1);
    assert_true(bed.over);
    assert_int_equal(bed.goaway_error, NGHTTP2_PROTOCOL_ERROR);
}

static void what_breaks_http2_ends(void **state)
{
    (void)state;
    unsigned char bytes[64] = {0};
    pump();
    give_server(bytes, frame(bytes, 0, NGHTTP2_DATA, 0, 0)); /* data of no stream */
    pump();
    assert_true(bed.over);
    assert_int_equal(bed.goaway_error, NGHTTP2_PROTOCOL_ERROR);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_call_is_answered),
        CASE(bytes_may_come_one_at_a_time),
        CASE(a_message_may_be_as_long_as_is_allowed),
        CASE(calls_are_answered_in_any_order),
        CASE(a_call_that_the_client_resets_is_cancelled),
        CASE(calls_are_cancelled_when_the_connection_closes),
        CASE(headers_are_judged),
        CASE(C72_a_deadline_is_told),
        CASE(a_message_must_be_one_and_whole),
        CASE(a_client_is_told_to_stop_what_is_answered_already),
        CASE(a_request_that_does_not_go_on_expires),
        CASE(several_messages_are_streamed_and_ended),
        CASE(C100_draining_asks_clients_away_and_answers_them),
        CASE(C100_what_was_asked_is_answered_before_the_end),
        CASE(continued_headers_may_be_cut_anywhere),
        CASE(a_flood_of_pings_ends),
        CASE(a_flood_of_settings_ends),
        CASE(a_flood_of_acknowledgements_that_are_not_read_ends),
        CASE(a_flood_of_empty_data_ends),
        CASE(a_flood_of_windows_and_priorities_and_unknown_frames_ends),
        CASE(a_purse_fills_with_time_and_with_calls),
        CASE(rapid_resets_end),
        CASE(a_flood_of_continuations_ends),
        CASE(a_bomb_of_headers_ends),
        CASE(headers_that_mean_nothing_end),
        CASE(a_message_that_nobody_reads_any_more_ends),
        CASE(streams_that_go_backwards_are_no_calls),
        CASE(a_length_of_4_GB_is_refused_at_its_prefix),
        CASE(headers_that_are_too_large_are_refused),
        CASE(more_calls_than_may_be_are_refused),
        CASE(answers_that_are_not_taken_are_bounded),
        CASE(messages_that_wait_are_bounded),
        CASE(what_is_no_http2_ends),
        CASE(what_breaks_http2_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
