/* HTTP requests whose store answers later: one worker on the loopback interface, its clients and its store, which take turns in one
 * thread. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../server_bed.h"
#include "server/exchange.h"

static int setup(void **state)
{
    (void)state;
    bed_open(&cdl_http_protocol);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bed_close();
    return 0;
}

/* ---- clients ---- */

static void say(int fd, const char *text)
{
    bed_say(fd, cdl_slice_of(text));
}

#define CHECK "GET /check HTTP/1.1\r\nHost: h\r\n\r\n"

static void post(int fd, const char *path, const char *body)
{
    char text[8192];
    snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s", path, strlen(body),
             body);
    say(fd, text);
}

/* The length of the answer at the front of `text`; 0: it is not complete. */
static size_t answer_length(const char *text)
{
    const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "content-length: ");
    if (end == NULL)
        return 0;
    assert_non_null(length);
    const size_t whole = (size_t)(end + 4 - text) + (size_t)atoi(length + 16);
    return strlen(text) >= whole ? whole : 0;
}

/* The next answer, head and body. */
static const char *read_answer(int fd)
{
    static char text[65536];
    size_t length = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < BED_PATIENCE && answer_length(text) == 0; i++) {
        /* One byte at a time, so that what is behind it stays for the next. */
        const ssize_t got = recv(fd, text + length, 1, 0);
        if (got == 0)
            fail_msg("the connection ends after: %s", text);
        length += got > 0 ? 1 : 0;
        text[length] = '\0';
        if (got < 0)
            bed_turn();
    }
    assert_int_not_equal(answer_length(text), 0);
    return text;
}

static void assert_has(const char *answer, const char *text)
{
    if (strstr(answer, text) != NULL)
        return;
    print_error("%s\n", answer);
    fail_msg("no '%s' in it", text);
}

static void assert_lacks(const char *answer, const char *text)
{
    if (strcasestr(answer, text) == NULL)
        return;
    print_error("%s\n", answer);
    fail_msg("'%s' stands in it", text);
}

/* ---- answers ---- */

static void a_request_is_answered_when_the_store_has_answered(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: all, rate: 1/hour}\n");
    const int fd = bed_connect();
    say(fd, CHECK);
    bed_until_asked(1);
    bed_assert_silent(fd);
    assert_true(bed.store.flushes > 0);
    world_advance(&bed.world, 3 * MILLISECOND);
    later_answer(&bed.store, 0);
    const char *answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 200");
    assert_has(answer, "RateLimit: \"all\";r=0;t=3600");
    say(fd, CHECK);
    bed_until_asked(1);
    later_answer(&bed.store, 0);
    answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 429");
    assert_has(answer, "Retry-After: 3600");
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 1);
    assert_int_equal(bed_counted(CDL_COUNTED_DENY, CAUDAL_SOURCE_STORE), 1);
    close(fd);
}

static void pipelined_requests_are_asked_and_answered_in_order(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: all, rate: 9/hour}\n  - {name: s, rate: 1/hour, mode: shadow}\n");
    const int fd = bed_connect();
    say(fd, CHECK "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" CHECK CHECK);
    say(fd, CHECK);
    for (int i = 0; i < 4; i++) {
        char wanted[32];
        bed_until_asked(1);
        bed_turn_a_while();
        assert_int_equal(bed.store.count, 1); /* the next is not asked before this one is answered */
        later_answer(&bed.store, 0);
        later_answer(&bed.store, 0); /* what is in shadow */
        snprintf(wanted, sizeof wanted, "\"all\";r=%d", 8 - i);
        assert_has(read_answer(fd), wanted);
        if (i == 0)
            assert_has(read_answer(fd), "HTTP/1.1 404");
    }
    bed_assert_silent(fd);
    close(fd);
}

static void deny_403_is_remembered(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: all, rate: 0/hour}\n");
    const int fd = bed_connect();
    say(fd, "GET /check?deny=403 HTTP/1.1\r\nHost: h\r\n\r\n");
    bed_until_asked(1);
    later_answer(&bed.store, 0);
    const char *answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 403");
    assert_has(answer, "Caudal-Status: 429");
    close(fd);
}

static void the_json_api_waits_too(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: c, per: [client_ip], rate: 3/hour}\n  - {name: all, rate: 9/hour}\n");
    static const struct {
        const char *path, *body, *wanted;
    } cases[] = {
        {"/v1/take", "{\"attributes\":{\"client_ip\":\"192.0.2.1\"}}",
         "{\"verdict\":\"allow\",\"limit\":\"c\",\"remaining\":2"},
        {"/v1/take", "{\"limit\":\"c\",\"key\":\"192.0.2.1\",\"cost\":2}",
         "{\"verdict\":\"allow\",\"limit\":\"c\",\"remaining\":0"},
        {"/v1/peek", "{\"limit\":\"c\",\"key\":\"192.0.2.1\"}",
         "{\"verdict\":\"deny\",\"limit\":\"c\",\"remaining\":0"},
        {"/v1/refund", "{\"attributes\":{\"client_ip\":\"192.0.2.1\"}}",
         "{\"verdict\":\"allow\",\"limit\":\"c\",\"remaining\":1"},
        {"/v1/peek", "{\"limit\":\"all\",\"cost\":0}", "{\"verdict\":\"allow\",\"limit\":\"all\",\"remaining\":9"},
    };
    const int fd = bed_connect();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        post(fd, cases[i].path, cases[i].body);
        bed_until_asked(1);
        later_answer_all(&bed.store);
        assert_has(read_answer(fd), cases[i].wanted);
    }
    post(fd, "/v1/take", "{\"limit\":\"none\",\"key\":\"x\"}"); /* what is no question does not wait */
    assert_has(read_answer(fd), "there is no limit 'none'");
    close(fd);
}

#define BATCH                                                                                                          \
    "{\"requests\":[{\"limit\":\"c\",\"key\":\"a\"},{\"limit\":\"none\"},{\"limit\":\"c\",\"key\":\"b\",\"cost\":2},"  \
    "{\"limit\":\"c\",\"key\":\"\"},{\"attributes\":{\"tenant\":\"c\"},\"cost\":3}]}"

static void a_batch_is_asked_at_once_and_answered_in_its_order(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: c, per: [tenant], rate: 3/hour}\n");
    const int fd = bed_connect();
    post(fd, "/v1/take", BATCH);
    bed_until_asked(3);
    later_answer(&bed.store, 2);
    later_answer(&bed.store, 0);
    bed_assert_silent(fd);
    later_answer(&bed.store, 0);
    const char *answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 200");
    const char *at = strstr(answer, "\"decisions\"");
    static const char *const wanted[] = {"\"remaining\":2", "there is no limit 'none'", "\"remaining\":1", "key: empty",
                                         "\"remaining\":0"};
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_has(at, wanted[i]);
        at = strstr(at, wanted[i]);
    }
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 3);
    post(fd, "/v1/take", "{\"requests\":[{\"limit\":\"none\"}]}"); /* nobody to wait for */
    assert_has(read_answer(fd), "there is no limit 'none'");
    close(fd);
}

/* ---- the store is away ---- */

static const char *answer_of_failure(int fd, const char *policy, const char *body)
{
    bed_apply(policy);
    if (body == NULL)
        say(fd, CHECK);
    else
        post(fd, "/v1/take", body);
    bed_until_asked(1);
    later_fail_all(&bed.store);
    return read_answer(fd);
}

static void C44_no_number_is_made_up_while_the_store_is_away(void **state)
{
    (void)state;
    const int fd = bed_connect();
    const char *answer = answer_of_failure(fd, "limits:\n  - {name: a, rate: 5/hour}\n", NULL);
    assert_has(answer, "HTTP/1.1 200");
    assert_lacks(answer, "ratelimit");
    answer = answer_of_failure(fd, "limits:\n  - {name: a, rate: 5/hour}\n", "{\"limit\":\"a\"}");
    assert_has(answer, "{\"verdict\":\"allow\",\"limit\":\"a\",\"remaining\":null,\"capacity\":null,\"granted\":0");
    assert_has(answer, "\"source\":\"failure_policy\",\"error_bound\":null");
    answer = answer_of_failure(fd, "limits:\n  - {name: a, rate: 5/hour}\n", "{\"attributes\":{}}");
    assert_has(answer, "{\"verdict\":\"allow\",\"limit\":null,\"remaining\":null");
    assert_lacks(answer, "ratelimit");
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_FAILURE_POLICY), 3);
    close(fd);
}

static void a_limit_that_fails_closed_is_503_and_no_refusal(void **state)
{
    (void)state;
    static const char policy[] = "limits:\n  - {name: d, rate: 5/hour, on_store_failure: deny}\n";
    static const char *const bodies[] = {NULL, "{\"limit\":\"d\"}", "{\"attributes\":{}}"};
    const int fd = bed_connect();
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        const char *answer = answer_of_failure(fd, policy, bodies[i]);
        assert_has(answer, "HTTP/1.1 503");
        assert_has(answer, "the store is away");
        assert_lacks(answer, "ratelimit");
        assert_lacks(answer, "retry-after");
    }
    assert_int_equal(bed_counted(CDL_COUNTED_ERROR, CAUDAL_SOURCE_FAILURE_POLICY), 3);
    close(fd);
}

static void a_local_share_tells_its_own_numbers(void **state)
{
    (void)state;
    static const char policy[] = "instances: 5\nlimits:\n  - {name: l, rate: 10/hour, on_store_failure: local}\n";
    const int fd = bed_connect();
    const char *answer = answer_of_failure(fd, policy, NULL);
    assert_has(answer, "HTTP/1.1 200");
    assert_has(answer, "RateLimit-Policy: \"l\";q=2;w=3600");
    assert_has(answer, "RateLimit: \"l\";r=1;t=1800");
    answer = answer_of_failure(fd, policy, "{\"limit\":\"l\",\"cost\":2}");
    assert_has(answer, "HTTP/1.1 429");
    assert_has(answer, "Retry-After: 1800");
    assert_has(answer, "\"source\":\"local_share\"");
    close(fd);
}

/* ---- clients that go, policies that come ---- */

static void what_was_asked_is_counted_though_its_client_is_gone(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: c, per: [tenant], if_missing: skip, rate: 3/hour}\n  - {name: all, when: {path: "
              "/check}, rate: 3/hour}\n");
    const int fd = bed_connect(), other = bed_connect();
    say(fd, CHECK CHECK);
    bed_until_asked(1);
    post(other, "/v1/take", BATCH);
    bed_until_asked(4);
    bed_reset(fd);
    bed_reset(other);
    for (unsigned i = 0; i < BED_PATIENCE && atomic_load(&bed.worker.loop.open) > 0; i++)
        bed_turn();
    later_answer_all(&bed.store);
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 4); /* and not the one behind the first */
    assert_int_equal(bed.store.asked, 4);
}

static void a_reload_does_not_change_what_was_asked_before(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: old, rate: 3/hour}\n");
    const int fd = bed_connect(), other = bed_connect();
    say(fd, CHECK CHECK);
    bed_until_asked(1);
    post(other, "/v1/take", "{\"requests\":[{\"limit\":\"old\"},{\"limit\":\"new\"}]}");
    bed_until_asked(2);
    bed_apply("limits:\n  - {name: new, rate: 1/hour}\n");
    later_answer(&bed.store, 0);
    later_answer(&bed.store, 0);
    assert_has(read_answer(fd), "\"old\";r=2");
    const char *answer = read_answer(other);
    assert_has(answer, "\"limit\":\"old\",\"remaining\":1");
    assert_has(answer, "there is no limit 'new'");
    bed_until_asked(1);
    later_answer(&bed.store, 0);
    assert_has(read_answer(fd), "\"new\";r=0");
    close(fd);
    close(other);
}

static void C100_what_is_in_flight_at_the_end_is_answered_and_told_to_close(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: all, rate: 3/hour}\n");
    const int fd = bed_connect();
    say(fd, CHECK CHECK);
    bed_until_asked(1);
    atomic_store(&bed.server.draining, true);
    cdl_loop_quiesce(&bed.worker.loop);
    later_answer(&bed.store, 0);
    const char *answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 200");
    assert_has(answer, "onnection: close");
    bed_turn_a_while();
    assert_int_equal(bed.store.count, 0);
    close(fd);
}

/* At the very end what still waits is answered as the limits choose, and no stage that follows is asked any more. */
static void what_waits_when_the_client_is_closed_falls_back(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: all, rate: 3/hour}\n  - {name: s, rate: 1/hour, mode: shadow}\n");
    const int fd = bed_connect();
    say(fd, CHECK);
    bed_until_asked(1);
    atomic_store(&bed.server.draining, true);
    bed.worker.asker.closed = true;
    cdl_store_loop_close(&bed.worker.store_loop);
    assert_has(read_answer(fd), "HTTP/1.1 200");
    assert_int_equal(bed.store.asked, 1);
    close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_request_is_answered_when_the_store_has_answered),
        CASE(pipelined_requests_are_asked_and_answered_in_order),
        CASE(deny_403_is_remembered),
        CASE(the_json_api_waits_too),
        CASE(a_batch_is_asked_at_once_and_answered_in_its_order),
        CASE(C44_no_number_is_made_up_while_the_store_is_away),
        CASE(a_limit_that_fails_closed_is_503_and_no_refusal),
        CASE(a_local_share_tells_its_own_numbers),
        CASE(what_was_asked_is_counted_though_its_client_is_gone),
        CASE(a_reload_does_not_change_what_was_asked_before),
        CASE(C100_what_is_in_flight_at_the_end_is_answered_and_told_to_close),
        CASE(what_waits_when_the_client_is_closed_falls_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
