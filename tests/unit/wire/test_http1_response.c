/* Answers: every byte of some, what is left away, and that nothing is written in part. */
#include "wire/http1_response.h"

#include "../support.h"

static char room[4096];

static void assert_writes(const struct cdl_http1_response *response, const char *want)
{
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    assert_true(cdl_http1_respond(&writer, response));
    if (!cdl_slice_equal(cdl_written(&writer), cdl_slice_of(want)))
        fail_msg("got\n%.*s\nwant\n%s", CDL_SLICE_ARG(cdl_written(&writer)), want);
}

static void a_refusal_in_full(void **state)
{
    (void)state;
    const struct cdl_field fields[] = {{CDL_SLICE("Cache-Control"), CDL_SLICE("no-store")}};
    assert_writes(&(struct cdl_http1_response){.status = 429,
                                               .date = CDL_SLICE("Sun, 06 Nov 1994 08:49:37 GMT"),
                                               .content_type = CDL_SLICE("application/problem+json"),
                                               .lines = CDL_SLICE("Retry-After: 3\r\n"),
                                               .fields = fields,
                                               .field_count = 1,
                                               .body = CDL_SLICE("{}"),
                                               .keep_alive = true,
                                               .minor_version = 1},
                  "HTTP/1.1 429 Too Many Requests\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n"
                  "Content-Type: application/problem+json\r\nRetry-After: 3\r\nCache-Control: no-store\r\n\r\n{}");
}

static void the_least_answer(void **state)
{
    (void)state;
    assert_writes(&(struct cdl_http1_response){.status = 200, .keep_alive = true, .minor_version = 1},
                  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

static void connection_is_said_when_it_is_not_the_default(void **state)
{
    (void)state;
    struct cdl_http1_response response = {.status = 204, .keep_alive = false, .minor_version = 1};
    assert_writes(&response, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    response.minor_version = 0;
    assert_writes(&response, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    response.keep_alive = true;
    assert_writes(&response, "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
}

static void an_answer_to_head_tells_the_length_only(void **state)
{
    (void)state;
    assert_writes(
        &(struct cdl_http1_response){
            .status = 200, .body = CDL_SLICE("hello"), .without_body = true, .keep_alive = true, .minor_version = 1},
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
}

static void a_status_without_a_body_gets_none(void **state)
{
    (void)state;
    assert_writes(
        &(struct cdl_http1_response){.status = 304, .body = CDL_SLICE("x"), .keep_alive = true, .minor_version = 1},
        "HTTP/1.1 304 Not Modified\r\n\r\n");
}

static void no_value_ends_the_head(void **state)
{
    (void)state;
    const struct cdl_field fields[] = {{CDL_SLICE("X-Reason"), CDL_SLICE("a\r\nSet-Cookie: b\0c\n")},
                                       {CDL_SLICE("X\r\nY"), CDL_SLICE("")}};
    assert_writes(
        &(struct cdl_http1_response){
            .status = 403, .fields = fields, .field_count = 2, .keep_alive = true, .minor_version = 1},
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nX-Reason: a  Set-Cookie: b c \r\nX  Y: \r\n\r\n");
}

static void what_does_not_fit_leaves_no_trace(void **state)
{
    (void)state;
    const struct cdl_http1_response response = {
        .status = 200, .body = CDL_SLICE("hello"), .keep_alive = true, .minor_version = 1};
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    assert_true(cdl_http1_respond(&writer, &response));
    const size_t whole = writer.length;
    for (size_t size = 0; size < whole + 4; size++) {
        writer = cdl_writer_on(room, size);
        cdl_write_text(&writer, size >= 4 ? "kept" : "");
        const size_t before = writer.length;
        const bool fits = size >= before + whole;
        assert_int_equal(cdl_http1_respond(&writer, &response), fits);
        assert_int_equal(writer.length, fits ? before + whole : before);
        assert_false(writer.overflow);
    }
    writer = cdl_writer_on(room, 3);
    cdl_write_text(&writer, "long");
    assert_false(cdl_http1_respond(&writer, &response));
    assert_true(writer.overflow);
}

static void every_status_has_a_phrase(void **state)
{
    (void)state;
    assert_string_equal(cdl_http_status_phrase(429), "Too Many Requests");
    assert_string_equal(cdl_http_status_phrase(431), "Request Header Fields Too Large");
    assert_string_equal(cdl_http_status_phrase(299), "Success");
    assert_string_equal(cdl_http_status_phrase(599), "Server Error");
    assert_string_equal(cdl_http_status_phrase(0), "Status");
    assert_string_equal(cdl_http_status_phrase(99999), "Status");
}

static void assert_date(int64_t second, const char *want)
{
    char text[CDL_HTTP_DATE_LENGTH + 1] = "";
    cdl_http_date(second, text);
    assert_string_equal(text, want);
}

static void dates(void **state)
{
    (void)state;
    assert_date(784111777, "Sun, 06 Nov 1994 08:49:37 GMT"); /* the example of RFC 9110 */
    assert_date(0, "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_date(951782400, "Tue, 29 Feb 2000 00:00:00 GMT");
    assert_date(951868799, "Tue, 29 Feb 2000 23:59:59 GMT");
    assert_date(951868800, "Wed, 01 Mar 2000 00:00:00 GMT");
    assert_date(4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"); /* no leap year */
    assert_date(4107542399, "Sun, 28 Feb 2100 23:59:59 GMT");
    assert_date(EPOCH / SECOND, "Mon, 01 Dec 2025 00:00:00 GMT");
    assert_date(253402300799, "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_date(INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_date(INT64_MIN, "Thu, 01 Jan 1970 00:00:00 GMT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_in_full),
        cmocka_unit_test(the_least_answer),
        cmocka_unit_test(connection_is_said_when_it_is_not_the_default),
        cmocka_unit_test(an_answer_to_head_tells_the_length_only),
        cmocka_unit_test(a_status_without_a_body_gets_none),
        cmocka_unit_test(no_value_ends_the_head),
        cmocka_unit_test(what_does_not_fit_leaves_no_trace),
        cmocka_unit_test(every_status_has_a_phrase),
        cmocka_unit_test(dates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
