/* The HTTP/1.1 parser: what it makes of a request, what it refuses, and that neither depends on how the bytes are cut. */
#include "wire/http1.h"

#include <stdlib.h>

#include "../support.h"

static const struct cdl_http1_limits limits = {
    .target_bytes = 1024,
    .head_bytes = 4096,
    .field_count = CDL_HTTP1_FIELDS_MAX,
    .body_bytes = 4096,
};

/* What the parser said in the end, and the request in memory of its own. */
struct outcome {
    enum cdl_http1_result result;
    struct cdl_http1_error error;
    size_t taken;
    bool continued;
    struct cdl_http1_request request;
    char *bytes;
};

/* Feeds the bytes `step` at a time. Each time they stand elsewhere, in memory of exactly their size. */
static struct outcome feed(const struct cdl_http1_limits *with, struct cdl_slice text, size_t step)
{
    static struct cdl_http1 parser; /* as it comes: zero */
    cdl_http1_next(&parser);
    struct outcome outcome = {.bytes = NULL};
    for (size_t length = step < text.length ? step : text.length;; length += step) {
        if (length > text.length)
            length = text.length;
        char *bytes = malloc(length);
        assert_non_null(bytes);
        memcpy(bytes, text.bytes, length);
        free(outcome.bytes);
        outcome.bytes = bytes;
        outcome.result = cdl_http1_parse(&parser, with, bytes, length);
        outcome.continued = outcome.continued || outcome.result == CDL_HTTP1_CONTINUE;
        if (outcome.result == CDL_HTTP1_READY || outcome.result == CDL_HTTP1_ERROR || length == text.length)
            break;
    }
    outcome.error = parser.error;
    if (outcome.result == CDL_HTTP1_READY) {
        outcome.taken = cdl_http1_taken(&parser);
        cdl_http1_request(&parser, outcome.bytes, &outcome.request);
    }
    return outcome;
}

static void assert_slice(struct cdl_slice got, const char *want)
{
    if (!cdl_slice_equal(got, cdl_slice_of(want)))
        fail_msg("got \"%.*s\", want \"%s\"", CDL_SLICE_ARG(got), want);
}

static void assert_same_slice(struct cdl_slice a, struct cdl_slice b)
{
    assert_int_equal(a.length, b.length);
    assert_memory_equal(a.bytes, b.bytes, a.length);
}

static void assert_same_outcome(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->result, b->result);
    if (a->result == CDL_HTTP1_ERROR) {
        assert_int_equal(a->error.status, b->error.status);
        assert_string_equal(a->error.reason, b->error.reason);
    }
    if (a->result != CDL_HTTP1_READY)
        return;
    assert_int_equal(a->taken, b->taken);
    assert_same_slice(a->request.method, b->request.method);
    assert_same_slice(a->request.target, b->request.target);
    assert_same_slice(a->request.body, b->request.body);
    assert_int_equal(a->request.minor_version, b->request.minor_version);
    assert_int_equal(a->request.keep_alive, b->request.keep_alive);
    assert_int_equal(a->request.field_count, b->request.field_count);
    for (size_t i = 0; i < a->request.field_count; i++) {
        assert_same_slice(a->request.fields[i].name, b->request.fields[i].name);
        assert_same_slice(a->request.fields[i].value, b->request.fields[i].value);
    }
}

/* In one piece, byte by byte, and in pieces of other sizes: the outcome is one. The caller frees its bytes. */
static struct outcome outcome_with(const struct cdl_http1_limits *with, struct cdl_slice text)
{
    struct outcome whole = feed(with, text, text.length);
    static const size_t steps[] = {1, 2, 3, 7, 16, 61};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        struct outcome cut = feed(with, text, steps[i]);
        assert_same_outcome(&whole, &cut);
        free(cut.bytes);
    }
    return whole;
}

static void assert_refused_with(const struct cdl_http1_limits *with, struct cdl_slice text, unsigned status,
                                const char *reason)
{
    struct outcome outcome = outcome_with(with, text);
    if (outcome.result != CDL_HTTP1_ERROR || outcome.error.status != status ||
        strcmp(outcome.error.reason, reason) != 0)
        fail_msg("\"%.*s\": result %d, %u %s; want %u %s", CDL_SLICE_ARG(text), (int)outcome.result,
                 outcome.error.status, outcome.error.reason, status, reason);
    free(outcome.bytes);
}

static void assert_refused(struct cdl_slice text, unsigned status, const char *reason)
{
    assert_refused_with(&limits, text, status, reason);
}

static void assert_incomplete(struct cdl_slice text)
{
    struct outcome outcome = outcome_with(&limits, text);
    assert_int_equal(outcome.result, CDL_HTTP1_MORE);
    free(outcome.bytes);
}

/* The caller frees the bytes. */
static struct outcome ready(struct cdl_slice text)
{
    struct outcome outcome = outcome_with(&limits, text);
    if (outcome.result != CDL_HTTP1_READY)
        fail_msg("\"%.*s\": result %d, %u %s", CDL_SLICE_ARG(text), (int)outcome.result, outcome.error.status,
                 outcome.error.reason);
    return outcome;
}

static void assert_ready(struct cdl_slice text)
{
    free(ready(text).bytes);
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"

/* ---- what is accepted ---- */

static void a_get_comes_apart(void **state)
{
    (void)state;
    struct outcome outcome = ready(CDL_SLICE("GET /check?deny=403 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"
                                             "X-Forwarded-For:  203.0.113.7,\t10.0.0.1 \t\r\nAccept:*/*\r\nX-Empty:\r\n"
                                             "X-Blank:   \r\n\r\n"));
    assert_slice(outcome.request.method, "GET");
    assert_slice(outcome.request.target, "/check?deny=403");
    assert_slice(outcome.request.body, "");
    assert_int_equal(outcome.request.minor_version, 1);
    assert_true(outcome.request.keep_alive);
    assert_int_equal(outcome.request.field_count, 5);
    assert_slice(outcome.request.fields[0].name, "Host");
    assert_slice(outcome.request.fields[0].value, "127.0.0.1:8080");
    assert_slice(outcome.request.fields[1].name, "X-Forwarded-For");
    assert_slice(outcome.request.fields[1].value, "203.0.113.7,\t10.0.0.1");
    assert_slice(outcome.request.fields[2].value, "*/*");
    assert_slice(outcome.request.fields[3].name, "X-Empty");
    assert_slice(outcome.request.fields[3].value, "");
    assert_slice(outcome.request.fields[4].name, "X-Blank");
    assert_slice(outcome.request.fields[4].value, "");
    free(outcome.bytes);
}

static void a_body_has_its_length(void **state)
{
    (void)state;
    struct outcome outcome = ready(CDL_SLICE(POST "Content-Length: 5\r\n\r\n{\0}\r\nGET"));
    assert_int_equal(outcome.request.body.length, 5);
    assert_memory_equal(outcome.request.body.bytes, "{\0}\r\n", 5);
    assert_int_equal(outcome.taken, sizeof(POST "Content-Length: 5\r\n\r\n{\0}\r\n") - 1);
    free(outcome.bytes);
    assert_ready(CDL_SLICE(POST "Content-Length: 0\r\n\r\n"));
    assert_ready(CDL_SLICE(POST "content-length:  1 \r\n\r\nx"));
    assert_incomplete(CDL_SLICE(POST "Content-Length: 5\r\n\r\nabcd"));
}

static void chunks_are_joined_in_place(void **state)
{
    (void)state;
    struct outcome outcome = ready(CDL_SLICE(POST "Transfer-Encoding: Chunked\r\n\r\n"
                                                  "4\r\nWiki\r\n0005;a=\"b;\tc\"\r\npedia\r\nA \r\n\r\n123456\0\n\r\n"
                                                  "0;last\r\nX-Trailer: y\r\nZ:\r\n\r\nGET / HTTP/1.1"));
    assert_int_equal(outcome.request.body.length, 19);
    assert_memory_equal(outcome.request.body.bytes, "Wikipedia\r\n123456\0\n", 19);
    assert_slice((struct cdl_slice){outcome.bytes + outcome.taken, 14}, "GET / HTTP/1.1");
    assert_slice(outcome.request.fields[1].value, "Chunked");
    assert_int_equal(outcome.request.field_count, 2);
    free(outcome.bytes);
    outcome = ready(CDL_SLICE(POST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"));
    assert_int_equal(outcome.request.body.length, 0);
    free(outcome.bytes);
    assert_incomplete(CDL_SLICE(POST "Transfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n0\r\n\r"));
}

static void requests_in_a_row_are_told_apart(void **state)
{
    (void)state;
    char text[] = GET "\r\n" POST "Content-Length: 3\r\n\r\nabc\r\n\r\n" POST
                      "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nDELETE /b HTTP/1.0\r\n\r\n" GET;
    struct cdl_slice want[][2] = {
        {CDL_SLICE("GET"), CDL_SLICE("")},
        {CDL_SLICE("POST"), CDL_SLICE("abc")},
        {CDL_SLICE("POST"), CDL_SLICE("x")},
        {CDL_SLICE("DELETE"), CDL_SLICE("")},
    };
    struct cdl_http1 parser = {.phase = 0};
    char *at = text, *end = text + sizeof text - 1;
    struct cdl_http1_request request;
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        assert_int_equal(cdl_http1_parse(&parser, &limits, at, (size_t)(end - at)), CDL_HTTP1_READY);
        assert_int_equal(cdl_http1_parse(&parser, &limits, at, (size_t)(end - at)), CDL_HTTP1_READY); /* still */
        cdl_http1_request(&parser, at, &request);
        assert_same_slice(request.method, want[i][0]);
        assert_same_slice(request.body, want[i][1]);
        at += cdl_http1_taken(&parser);
        cdl_http1_next(&parser);
    }
    assert_int_equal(cdl_http1_parse(&parser, &limits, at, (size_t)(end - at)), CDL_HTTP1_MORE);
}

static void the_version_and_connection_say_whether_to_go_on(void **state)
{
    (void)state;
    static const struct {
        struct cdl_slice text;
        bool keep_alive;
        unsigned minor_version;
    } cases[] = {
        {CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true, 1},
        {CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), false, 1},
        {CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close \r\n\r\n"), false, 1},
        {CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\nConnection: te, close\r\n\r\n"), false, 1},
        {CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\nConnection: te\r\nConnection: close\r\n\r\n"), false, 1},
        {CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n"), true, 1},
        {CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), true, 1},
        {CDL_SLICE("GET / HTTP/1.9\r\nHost: a\r\n\r\n"), true, 1},
        {CDL_SLICE("GET / HTTP/1.0\r\n\r\n"), false, 0},
        {CDL_SLICE("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), true, 0},
        {CDL_SLICE("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"), false, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct outcome outcome = ready(cases[i].text);
        if (outcome.request.keep_alive != cases[i].keep_alive)
            fail_msg("\"%.*s\"", CDL_SLICE_ARG(cases[i].text));
        assert_int_equal(outcome.request.minor_version, cases[i].minor_version);
        free(outcome.bytes);
    }
}

static void empty_lines_before_a_request_are_skipped(void **state)
{
    (void)state;
    struct outcome outcome = ready(CDL_SLICE("\r\n\n\r\n" GET "\r\n"));
    assert_slice(outcome.request.method, "GET");
    assert_int_equal(outcome.taken, sizeof(GET) - 1 + 7);
    free(outcome.bytes);
    assert_incomplete(CDL_SLICE("\r\n\r\n"));
}

static void targets_of_every_form(void **state)
{
    (void)state;
    static const char *const targets[] = {"/",  "*", "/a/b?c=d&e", "http://h:80/p?q", "/%41%zz", "/caf\xc3\xa9",
                                          "/?", "/#"};
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        char text[200];
        const int length = snprintf(text, sizeof text, "OPTIONS %s HTTP/1.1\r\nHost: a\r\n\r\n", targets[i]);
        struct outcome outcome = ready((struct cdl_slice){text, (size_t)length});
        assert_slice(outcome.request.target, targets[i]);
        free(outcome.bytes);
    }
}

static bool continues(struct cdl_slice text, size_t step)
{
    struct outcome outcome = feed(&limits, text, step);
    free(outcome.bytes);
    return outcome.continued;
}

static void a_client_that_waits_is_told_to_go_on_once(void **state)
{
    (void)state;
    const struct cdl_slice head = CDL_SLICE(POST "Content-Length: 3\r\nExpect: 100-Continue\r\n\r\n");
    const struct cdl_slice whole = CDL_SLICE(POST "Content-Length: 3\r\nExpect: 100-Continue\r\n\r\nabc");
    struct cdl_http1 parser = {.phase = 0};
    char bytes[200];
    memcpy(bytes, whole.bytes, whole.length);
    assert_int_equal(cdl_http1_parse(&parser, &limits, bytes, head.length - 1), CDL_HTTP1_MORE);
    assert_int_equal(cdl_http1_parse(&parser, &limits, bytes, head.length), CDL_HTTP1_CONTINUE);
    assert_int_equal(cdl_http1_parse(&parser, &limits, bytes, head.length), CDL_HTTP1_MORE);
    assert_int_equal(cdl_http1_parse(&parser, &limits, bytes, whole.length - 1), CDL_HTTP1_MORE);
    assert_int_equal(cdl_http1_parse(&parser, &limits, bytes, whole.length), CDL_HTTP1_READY);
    /* Nobody waits who has sent the body already, has none, or speaks HTTP/1.0. */
    assert_true(continues(whole, 1));
    assert_false(continues(whole, whole.length));
    assert_false(continues(whole, head.length + 1));
    assert_false(continues(CDL_SLICE(POST "Expect: 100-continue\r\n\r\n"), 1));
    assert_false(continues(CDL_SLICE("POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"), 1));
    assert_true(continues(CDL_SLICE(POST "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n0\r\n\r\n"), 1));
    assert_refused(CDL_SLICE(GET "Expect: coffee\r\n\r\n"), 417, "unknown-expectation");
}

/* ---- what is refused ---- */

static void request_lines_have_one_spelling(void **state)
{
    (void)state;
    static const struct cdl_slice lines[] = {
        CDL_SLICE("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET / HTTP/1.1\nHost: a\r\n\r\n"),
        CDL_SLICE("GET / HTTQ/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET / http/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET / HTTP/1.\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET / HTTP/1.11\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET / HTTP/11.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET / HTTP/1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET /\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET /\nX"),
        CDL_SLICE("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET /\f HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("\x16\x03\x01\x02"),
        CDL_SLICE("\0GET / HTTP/1.1\r\n"),
        CDL_SLICE(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE("GET\r\n\r\n"),
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct outcome outcome = outcome_with(&limits, lines[i]);
        const bool blank_first = lines[i].bytes[0] == ' '; /* an unknown method of no letters */
        if (outcome.result != CDL_HTTP1_ERROR || outcome.error.status != (blank_first ? 501 : 400))
            fail_msg("\"%.*s\": result %d, %u %s", CDL_SLICE_ARG(lines[i]), (int)outcome.result, outcome.error.status,
                     outcome.error.reason);
        free(outcome.bytes);
    }
}

static void methods_and_versions_that_are_not_served(void **state)
{
    (void)state;
    assert_refused(CDL_SLICE("BREW /pot HTTP/1.1\r\n"), 501, "unknown-method");
    assert_refused(CDL_SLICE("get / HTTP/1.1\r\n"), 501, "unknown-method");
    assert_refused(CDL_SLICE("GETS / HTTP/1.1\r\n"), 501, "unknown-method");
    assert_refused(CDL_SLICE("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"), 501, "unknown-method");
    assert_refused(CDL_SLICE("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505, "unknown-version");
    assert_refused(CDL_SLICE("GET / HTTP/2.0\r\n\x01: a\r\n\r\n"), 505, "unknown-version");
}

static void header_lines_have_one_spelling(void **state)
{
    (void)state;
    static const struct cdl_slice lines[] = {
        CDL_SLICE(GET "X Y: z\r\n\r\n"),
        CDL_SLICE(GET "X : z\r\n\r\n"),
        CDL_SLICE(GET " X: z\r\n\r\n"),
        CDL_SLICE(GET "X\r\n\r\n"),
        CDL_SLICE(GET ": z\r\n\r\n"),
        CDL_SLICE(GET "X: a\r\n b\r\n\r\n"),
        CDL_SLICE(GET "X: a\r\n\tb\r\n\r\n"),
        CDL_SLICE(GET "X:\r\n b\r\n\r\n"),
        CDL_SLICE(GET "X:\r\n \r\n\r\n"),
        CDL_SLICE(GET "X: a\nY: b\r\n\r\n"),
        CDL_SLICE(GET "X: a\rY: b\r\n\r\n"),
        CDL_SLICE(GET "X: a\r\r\n\r\n"),
        CDL_SLICE(GET "X:\nY: b\r\n\r\n"),
        CDL_SLICE(GET "X:\rY: b\r\n\r\n"),
        CDL_SLICE(GET "X: a\0b\r\n\r\n"),
        CDL_SLICE(GET "X: a\r\n\n"),
        CDL_SLICE(GET "\n"),
        CDL_SLICE(GET "\rX"),
        CDL_SLICE("GET / HTTP/1.1\r\n X: a\r\n\r\n"),
        CDL_SLICE(GET "X: a\r\n\rX"),
        CDL_SLICE(GET "X\0: a\r\n\r\n"),
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        assert_refused(lines[i], 400, "bad-header");
}

/* What becomes of a line of headers in which one byte is another. */
static enum cdl_http1_result result_of_line(const char *line, size_t at, int byte)
{
    char text[200];
    const int length = snprintf(text, sizeof text, GET "%s\r\n\r\n", line);
    text[sizeof GET - 1 + at] = (char)byte;
    struct outcome outcome = outcome_with(&limits, (struct cdl_slice){text, (size_t)length});
    free(outcome.bytes);
    return outcome.result;
}

static void the_bytes_of_names(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool good = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                    (byte != 0 && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
        for (size_t place = 0; place < 4; place++) {
            const bool ends_name = byte == ':' && place > 0;
            if ((result_of_line("Xabc: def", place, byte) == CDL_HTTP1_READY) != (good || ends_name))
                fail_msg("byte %02x at %zu", (unsigned)byte, place);
        }
    }
}

/* Also those whose value the engine reads itself. */
static void the_bytes_of_values(void **state)
{
    (void)state;
    static const char *const lines[] = {"X: defg",         "X:defg",         "Connection: kept",
                                        "Connection: clo", "Upgrade: defg",  "Proxy-Connection: keep-alive",
                                        "Upgrade: d e",    "Connection: a,", "Connection: close"};
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        for (int byte = 0; byte < 256; byte++) {
            const bool good = byte == '\t' || (byte >= ' ' && byte != 0x7f);
            for (size_t at = (size_t)(strchr(lines[i], ':') - lines[i]) + 1; at < strlen(lines[i]); at++)
                if ((result_of_line(lines[i], at, byte) == CDL_HTTP1_READY) != good)
                    fail_msg("byte %02x at %zu of %s", (unsigned)byte, at, lines[i]);
        }
}

/* Any other byte instead of a line's CR or LF. */
static void line_ends_are_not_negotiable(void **state)
{
    (void)state;
    static const struct cdl_slice good = CDL_SLICE(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: u\r\n\r\n");
    char text[200];
    for (size_t at = 0; at < good.length; at++) {
        if (good.bytes[at] != '\r' && good.bytes[at] != '\n')
            continue;
        for (int byte = 0; byte < 256; byte++) {
            memcpy(text, good.bytes, good.length);
            text[at] = (char)byte;
            struct outcome outcome = outcome_with(&limits, (struct cdl_slice){text, good.length});
            if ((outcome.result == CDL_HTTP1_READY) != (text[at] == good.bytes[at]))
                fail_msg("byte %02x at %zu: result %d", (unsigned)byte, at, (int)outcome.result);
            free(outcome.bytes);
        }
    }
}

static void a_request_has_one_host(void **state)
{
    (void)state;
    assert_refused(CDL_SLICE("GET / HTTP/1.1\r\n\r\n"), 400, "bad-host");
    assert_refused(CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"), 400, "bad-host");
    assert_refused(CDL_SLICE("GET / HTTP/1.0\r\nHost: a\r\nhost: a\r\n\r\n"), 400, "bad-host");
    assert_ready(CDL_SLICE("GET / HTTP/1.1\r\nHost:\r\n\r\n"));
}

static void the_length_of_a_body_is_said_once(void **state)
{
    (void)state;
    assert_refused(CDL_SLICE(POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), 400, "bad-length");
    assert_refused(CDL_SLICE(POST "Content-Length: 3, 3\r\n\r\nabc"), 400, "bad-length");
    assert_refused(CDL_SLICE(POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc"), 400, "bad-length");
    assert_refused(CDL_SLICE(POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc"), 400, "bad-length");
    static const char *const lengths[] = {
        "", "+3", "-3", "0x3", "3 3", "3a", "3.0", "18446744073709551616", "99999999999999999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        char text[200];
        const int length = snprintf(text, sizeof text, POST "Content-Length: %s\r\n\r\nabc", lengths[i]);
        assert_refused((struct cdl_slice){text, (size_t)length}, 400, "bad-length");
    }
    assert_refused(CDL_SLICE(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400,
                   "bad-encoding");
    assert_refused(CDL_SLICE("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "bad-encoding");
    static const char *const encodings[] = {"gzip", "gzip, chunked", "xchunked", "identity", "chunked, chunked", ""};
    for (size_t i = 0; i < COUNT_OF(encodings); i++) {
        char text[200];
        const int length = snprintf(text, sizeof text, POST "Transfer-Encoding: %s\r\n\r\n0\r\n\r\n", encodings[i]);
        assert_refused((struct cdl_slice){text, (size_t)length}, 501, "unknown-encoding");
    }
}

static void chunks_have_one_spelling(void **state)
{
    (void)state;
    static const char *const bodies[] = {"\r\nabc",
                                         "g\r\n",
                                         "-1\r\n",
                                         "0x3\r\nabc\r\n",
                                         "3\nabc\r\n",
                                         "3\rXabc\r\n",
                                         "3;a=b\n",
                                         "3;\rXabc\r\n",
                                         "3\r\nabcX\r\n",
                                         "3\r\nabc\n0\r\n",
                                         "3\r\nabc\rX0",
                                         "3\r\nabc0\r\n",
                                         "0\r\nT: u\n\r\n",
                                         "0\r\n\n",
                                         "0\r\n\rX",
                                         "0\r\nT: u\rX\r\n",
                                         " 3\r\nabc\r\n",
                                         ";a\r\n",
                                         "3 g\x01\r\nabc\r\n",
                                         "3\r\nabc\r\r\n",
                                         "0\r\nT\x01\r\n",
                                         "0\r\n\x7f: u\r\n\r\n"};
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        char text[200];
        const int length = snprintf(text, sizeof text, POST "Transfer-Encoding: chunked\r\n\r\n%s", bodies[i]);
        assert_refused((struct cdl_slice){text, (size_t)length}, 400, "bad-chunk");
    }
}

/* ---- limits ---- */

/* A text that grows. */
struct text {
    char bytes[20000];
    size_t length;
};

static void add(struct text *text, const char *what)
{
    assert_true(text->length + strlen(what) <= sizeof text->bytes);
    memcpy(text->bytes + text->length, what, strlen(what));
    text->length += strlen(what);
}

static void add_many(struct text *text, const char *what, size_t times)
{
    for (size_t i = 0; i < times; i++)
        add(text, what);
}

static struct cdl_slice slice_of(const struct text *text)
{
    return (struct cdl_slice){text->bytes, text->length};
}

static void a_target_may_be_as_long_as_its_limit(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct text text = {.length = 0};
        add(&text, "GET /");
        add_many(&text, "a", limits.target_bytes - 1 + over);
        add(&text, " HTTP/1.1\r\nHost: a\r\n\r\n");
        if (over == 0)
            assert_ready(slice_of(&text));
        else
            assert_refused(slice_of(&text), 414, "target-too-long");
    }
    struct text endless = {.length = 0};
    add(&endless, "GET /");
    add_many(&endless, "a", limits.head_bytes);
    assert_refused(slice_of(&endless), 414, "target-too-long");
}

static void a_head_may_be_as_long_as_its_limit(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct text text = {.length = 0};
        add(&text, GET "X: ");
        add_many(&text, "a", limits.head_bytes - text.length - 4 + over);
        add(&text, "\r\n\r\n");
        if (over == 0)
            assert_ready(slice_of(&text));
        else
            assert_refused(slice_of(&text), 431, "headers-too-large");
    }
    struct text endless = {.length = 0};
    add_many(&endless, "\r\n", limits.head_bytes);
    struct outcome outcome = outcome_with(&limits, slice_of(&endless));
    assert_int_equal(outcome.result, CDL_HTTP1_ERROR);
    free(outcome.bytes);
    /* More than 16 bits can tell is never asked of the engine. */
    struct cdl_http1_limits large = limits;
    large.head_bytes = UINT32_MAX;
    const size_t length = 200000;
    char *bytes = malloc(length);
    assert_non_null(bytes);
    memset(bytes, 'a', length);
    memcpy(bytes, GET "X: ", sizeof(GET "X: ") - 1);
    struct cdl_http1 parser = {.phase = 0};
    assert_int_equal(cdl_http1_parse(&parser, &large, bytes, length), CDL_HTTP1_ERROR);
    assert_int_equal(parser.error.status, 431);
    free(bytes);
}

static void there_may_be_as_many_headers_as_the_limit(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct text text = {.length = 0};
        add(&text, GET);
        add_many(&text, "X: y\r\n", CDL_HTTP1_FIELDS_MAX - 1 + over);
        add(&text, "\r\n");
        if (over == 0)
            assert_ready(slice_of(&text));
        else
            assert_refused(slice_of(&text), 431, "too-many-headers");
    }
    struct text then_bad = {.length = 0};
    add(&then_bad, GET);
    add_many(&then_bad, "X: y\r\n", CDL_HTTP1_FIELDS_MAX);
    add(&then_bad, "X\x01");
    assert_refused(slice_of(&then_bad), 431, "too-many-headers");
}

static void a_body_may_be_as_long_as_its_limit(void **state)
{
    (void)state;
    struct cdl_http1_limits small = limits;
    small.body_bytes = 16;
    assert_refused_with(&small, CDL_SLICE(POST "Content-Length: 17\r\n\r\n"), 413, "body-too-large");
    assert_refused_with(&small, CDL_SLICE(POST "Content-Length: 9999999999999999\r\n\r\n"), 413, "body-too-large");
    assert_refused_with(&small, CDL_SLICE(POST "Transfer-Encoding: chunked\r\n\r\n11\r\n"), 413, "body-too-large");
    assert_refused_with(&small, CDL_SLICE(POST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffffff\r\n"), 413,
                        "body-too-large");
    assert_refused_with(&small, CDL_SLICE(POST "Transfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n9\r\n"), 413,
                        "body-too-large");
    struct outcome outcome = outcome_with(
        &small, CDL_SLICE(POST "Transfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n12345678\r\n0\r\n\r\n"));
    assert_int_equal(outcome.result, CDL_HTTP1_READY);
    assert_slice(outcome.request.body, "1234567812345678");
    free(outcome.bytes);
}

static void framing_without_end_is_too_large(void **state)
{
    (void)state;
    static const char *const begins[] = {"0000", "1;a=", "0\r\nT: "};
    for (size_t i = 0; i < COUNT_OF(begins); i++) {
        struct text text = {.length = 0};
        add(&text, POST "Transfer-Encoding: chunked\r\n\r\n");
        add(&text, begins[i]);
        add_many(&text, "0", limits.head_bytes + limits.body_bytes);
        assert_refused(slice_of(&text), 413, "body-too-large");
        assert_true(text.length <= cdl_http1_message_max(&limits));
    }
}

/* ---- every cut ---- */

static void a_cut_at_any_byte_changes_nothing(void **state)
{
    (void)state;
    static const struct cdl_slice texts[] = {
        CDL_SLICE("\r\nPOST /v1/take?a=b HTTP/1.1\r\nHost: a\r\nX:\r\nY: z \r\nExpect: 100-continue\r\n"
                  "Content-Length: 5\r\n\r\nhello"),
        CDL_SLICE(POST "Transfer-Encoding: chunked\r\nConnection: te, close\r\n\r\n5;x\r\nhello\r\n0\r\nT: u\r\n\r\n"),
        CDL_SLICE(GET "X: a\r\n b\r\n\r\n"),
        CDL_SLICE("GET / HTTP/3.1\r\nHost: a\r\n\r\n"),
        CDL_SLICE(POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct outcome whole = feed(&limits, texts[i], texts[i].length);
        for (size_t first = 1; first < texts[i].length; first++) {
            /* Two pieces: `first` bytes, then all. */
            struct cdl_http1 parser = {.phase = 0};
            struct outcome cut = {.bytes = malloc(texts[i].length)};
            assert_non_null(cut.bytes);
            memcpy(cut.bytes, texts[i].bytes, texts[i].length);
            cut.result = cdl_http1_parse(&parser, &limits, cut.bytes, first);
            cut.result = cdl_http1_parse(&parser, &limits, cut.bytes, texts[i].length);
            cut.error = parser.error;
            if (cut.result == CDL_HTTP1_READY) {
                cut.taken = cdl_http1_taken(&parser);
                cdl_http1_request(&parser, cut.bytes, &cut.request);
            }
            assert_same_outcome(&whole, &cut);
            free(cut.bytes);
        }
        free(whole.bytes);
    }
}

/* Two errors, of which the engine reports the second first when it sees both at once. */
static void the_first_error_counts(void **state)
{
    (void)state;
    assert_refused(CDL_SLICE("GET / HTTP/!.1\r\nHo\x03st: a\r\n"), 400, "bad-request-line");
    assert_refused(CDL_SLICE("OPTIONS ked HTTP/1.0\r\nX: y\r\n\r\n"), 400, "bad-request-line");
    assert_refused(CDL_SLICE(GET "Expect: coffee\r\n a\x01\r\n"), 400, "bad-header");
    assert_refused(CDL_SLICE(GET "Expect: coffee\r\nX: a\x01\r\n"), 417, "unknown-expectation");
    assert_refused(CDL_SLICE(GET "Host: b\r\nContent-Length: x\r\n"), 400, "bad-host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_comes_apart),
        cmocka_unit_test(a_body_has_its_length),
        cmocka_unit_test(chunks_are_joined_in_place),
        cmocka_unit_test(requests_in_a_row_are_told_apart),
        cmocka_unit_test(the_version_and_connection_say_whether_to_go_on),
        cmocka_unit_test(empty_lines_before_a_request_are_skipped),
        cmocka_unit_test(targets_of_every_form),
        cmocka_unit_test(a_client_that_waits_is_told_to_go_on_once),
        cmocka_unit_test(request_lines_have_one_spelling),
        cmocka_unit_test(methods_and_versions_that_are_not_served),
        cmocka_unit_test(header_lines_have_one_spelling),
        cmocka_unit_test(the_bytes_of_names),
        cmocka_unit_test(the_bytes_of_values),
        cmocka_unit_test(line_ends_are_not_negotiable),
        cmocka_unit_test(a_request_has_one_host),
        cmocka_unit_test(the_length_of_a_body_is_said_once),
        cmocka_unit_test(chunks_have_one_spelling),
        cmocka_unit_test(a_target_may_be_as_long_as_its_limit),
        cmocka_unit_test(a_head_may_be_as_long_as_its_limit),
        cmocka_unit_test(there_may_be_as_many_headers_as_the_limit),
        cmocka_unit_test(a_body_may_be_as_long_as_its_limit),
        cmocka_unit_test(framing_without_end_is_too_large),
        cmocka_unit_test(a_cut_at_any_byte_changes_nothing),
        cmocka_unit_test(the_first_error_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
