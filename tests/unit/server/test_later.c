/* HTTP requests whose store answers later: one worker on the loopback interface, its clients and its store, which take turns in one
 * thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../later_store.h"
#include "base/memory.h"
#include "server/exchange.h"

/* ---- a server of one worker, put together by hand ---- */

struct bed {
    struct world world;
    struct later_store store;
    struct cdl_server server;
    struct cdl_worker worker;
    uint16_t port;
};

static struct bed bed;
static struct cdl_report report;

static void open_worker(void)
{
    static const struct cdl_connection_bounds bounds = {
        .connections_max = 100, .message_timeout_ms = 60000, .write_timeout_ms = 60000, .idle_timeout_ms = 60000};
    struct cdl_worker *worker = &bed.worker;
    worker->server = &bed.server;
    worker->counters = cdl_counters_worker(bed.server.counters, 0);
    worker->latency = aligned_alloc(CDL_CACHE_LINE, sizeof *worker->latency);
    worker->top_keys = cdl_top_keys_open(CDL_TOP_KEYS, 1, cdl_allocator_default());
    worker->asker.scratch = malloc(CDL_MATCH_SCRATCH_BYTES);
    worker->body = malloc(CDL_BODY_BYTES);
    assert_true(worker->latency != NULL && worker->top_keys != NULL && worker->asker.scratch != NULL &&
                worker->body != NULL && cdl_loop_open(&worker->loop, &bounds));
    memset(worker->latency, 0, sizeof *worker->latency);
    assert_true(
        cdl_store_loop_open(&worker->store_loop, bed.server.store, CDL_SLICE("redis://h:1"), &worker->loop.uv, NULL));
    worker->asker.client = worker->store_loop.client;
}

static void listen_on_loopback(void)
{
    struct cdl_endpoint endpoint;
    struct cdl_listening socket;
    const char *why;
    assert_true(cdl_endpoint_parse(CDL_SLICE("127.0.0.1:0"), &endpoint, &why));
    assert_int_equal(cdl_listen(&endpoint, &socket, 1, NULL), CAUDAL_OK);
    bed.port = (uint16_t)atoi(strrchr(socket.text, ':') + 1);
    assert_int_equal(
        cdl_listener_open(&bed.worker.listeners[0], &bed.worker.loop, socket.fd, &cdl_http_protocol, NULL, &bed.worker),
        0);
}

static int setup(void **state)
{
    (void)state;
    static const struct cdl_counters_options counters = {.workers = 1, .limits = 64, .events = CDL_EVENTS};
    memset(&bed, 0, sizeof bed);
    world_open(&bed.world, "memory:?keys=10000");
    later_open(&bed.store, &bed.world);
    bed.server.clock = caudal_fake_clock_clock(bed.world.clock);
    bed.server.store = &bed.store.head;
    bed.server.limiter = cdl_limiter_open(bed.server.store);
    bed.server.counters = cdl_counters_open(&counters, cdl_allocator_default());
    bed.server.admin.server = &bed.server;
    bed.server.http_limits = (struct cdl_http1_limits){4096, 8192, CDL_HTTP1_FIELDS_MAX, 65536};
    assert_true(bed.server.limiter != NULL && bed.server.counters != NULL);
    open_worker();
    listen_on_loopback();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bed.worker.asker.closed = true;
    cdl_store_loop_close(&bed.worker.store_loop);
    assert_int_equal(bed.store.clients, 0);
    cdl_loop_finish(&bed.worker.loop);
    cdl_loop_run(&bed.worker.loop);
    assert_int_equal(atomic_load(&bed.worker.loop.open), 0);
    assert_int_equal(bed.worker.asker.waiting, 0);
    cdl_loop_close(&bed.worker.loop);
    cdl_limiter_release(bed.worker.live);
    cdl_limiter_release(bed.server.admin.live);
    cdl_limiter_close(bed.server.limiter);
    cdl_top_keys_close(bed.worker.top_keys);
    free(bed.worker.latency);
    free(bed.worker.asker.scratch);
    free(bed.worker.body);
    cdl_counters_close(bed.server.counters);
    later_close(&bed.store);
    world_close(&bed.world);
    return 0;
}

static void apply(const char *text)
{
    struct caudal_problem problem;
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", report.findings[0].text, text);
    if (cdl_server_apply(&bed.server, policy, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
    cdl_limiter_release(bed.worker.live);
    bed.worker.live = cdl_limiter_acquire(bed.server.limiter);
}

/* ---- clients ---- */

#define PATIENCE 1000000 /* turns; a test that fails must end */

static void turn(void)
{
    uv_run(&bed.worker.loop.uv, UV_RUN_NOWAIT);
}

static int connect_client(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(bed.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

#define CHECK "GET /check HTTP/1.1\r\nHost: h\r\n\r\n"

static void post(int fd, const char *path, const char *body)
{
    char text[8192];
    snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s", path, strlen(body),
             body);
    say(fd, text);
}

/* Turns until as many calls wait for the store. */
static void until_asked(size_t count)
{
    for (unsigned i = 0; i < PATIENCE && bed.store.count < count; i++)
        turn();
    assert_int_equal(bed.store.count, count);
}

static void turn_a_while(void)
{
    for (int i = 0; i < 50; i++)
        turn();
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
    for (unsigned i = 0; i < PATIENCE && answer_length(text) == 0; i++) {
        /* One byte at a time, so that what is behind it stays for the next. */
        const ssize_t got = recv(fd, text + length, 1, 0);
        if (got == 0)
            fail_msg("the connection ends after: %s", text);
        length += got > 0 ? 1 : 0;
        text[length] = '\0';
        if (got < 0)
            turn();
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

static void assert_silent(int fd)
{
    char byte;
    turn_a_while();
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
}

/* Requests that were counted with this outcome. */
static uint64_t counted(enum cdl_counted outcome, enum caudal_source source)
{
    return cdl_counters_sum(bed.server.counters, CDL_COUNTERS_REQUESTS, outcome, source);
}

/* ---- answers ---- */

static void a_request_is_answered_when_the_store_has_answered(void **state)
{
    (void)state;
    apply("limits:\n  - {name: all, rate: 1/hour}\n");
    const int fd = connect_client();
    say(fd, CHECK);
    until_asked(1);
    assert_silent(fd);
    assert_true(bed.store.flushes > 0);
    world_advance(&bed.world, 3 * MILLISECOND);
    later_answer(&bed.store, 0);
    const char *answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 200");
    assert_has(answer, "RateLimit: \"all\";r=0;t=3600");
    say(fd, CHECK);
    until_asked(1);
    later_answer(&bed.store, 0);
    answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 429");
    assert_has(answer, "Retry-After: 3600");
    assert_int_equal(counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 1);
    assert_int_equal(counted(CDL_COUNTED_DENY, CAUDAL_SOURCE_STORE), 1);
    close(fd);
}

static void pipelined_requests_are_asked_and_answered_in_order(void **state)
{
    (void)state;
    apply("limits:\n  - {name: all, rate: 9/hour}\n  - {name: s, rate: 1/hour, mode: shadow}\n");
    const int fd = connect_client();
    say(fd, CHECK "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n" CHECK CHECK);
    say(fd, CHECK);
    for (int i = 0; i < 4; i++) {
        char wanted[32];
        until_asked(1);
        turn_a_while();
        assert_int_equal(bed.store.count, 1); /* the next is not asked before this one is answered */
        later_answer(&bed.store, 0);
        later_answer(&bed.store, 0); /* what is in shadow */
        snprintf(wanted, sizeof wanted, "\"all\";r=%d", 8 - i);
        assert_has(read_answer(fd), wanted);
        if (i == 0)
            assert_has(read_answer(fd), "HTTP/1.1 404");
    }
    assert_silent(fd);
    close(fd);
}

static void deny_403_is_remembered(void **state)
{
    (void)state;
    apply("limits:\n  - {name: all, rate: 0/hour}\n");
    const int fd = connect_client();
    say(fd, "GET /check?deny=403 HTTP/1.1\r\nHost: h\r\n\r\n");
    until_asked(1);
    later_answer(&bed.store, 0);
    const char *answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 403");
    assert_has(answer, "Caudal-Status: 429");
    close(fd);
}

static void the_json_api_waits_too(void **state)
{
    (void)state;
    apply("limits:\n  - {name: c, per: [client_ip], rate: 3/hour}\n  - {name: all, rate: 9/hour}\n");
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
    const int fd = connect_client();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        post(fd, cases[i].path, cases[i].body);
        until_asked(1);
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
    apply("limits:\n  - {name: c, per: [tenant], rate: 3/hour}\n");
    const int fd = connect_client();
    post(fd, "/v1/take", BATCH);
    until_asked(3);
    later_answer(&bed.store, 2);
    later_answer(&bed.store, 0);
    assert_silent(fd);
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
    assert_int_equal(counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 3);
    post(fd, "/v1/take", "{\"requests\":[{\"limit\":\"none\"}]}"); /* nobody to wait for */
    assert_has(read_answer(fd), "there is no limit 'none'");
    close(fd);
}

/* ---- the store is away ---- */

static const char *answer_of_failure(int fd, const char *policy, const char *body)
{
    apply(policy);
    if (body == NULL)
        say(fd, CHECK);
    else
        post(fd, "/v1/take", body);
    until_asked(1);
    later_fail_all(&bed.store);
    return read_answer(fd);
}

static void C44_no_number_is_made_up_while_the_store_is_away(void **state)
{
    (void)state;
    const int fd = connect_client();
    const char *answer = answer_of_failure(fd, "limits:\n  - {name: a, rate: 5/hour}\n", NULL);
    assert_has(answer, "HTTP/1.1 200");
    assert_lacks(answer, "ratelimit");
    answer = answer_of_failure(fd, "limits:\n  - {name: a, rate: 5/hour}\n", "{\"limit\":\"a\"}");
    assert_has(answer, "{\"verdict\":\"allow\",\"limit\":\"a\",\"remaining\":null,\"capacity\":null,\"granted\":0");
    assert_has(answer, "\"source\":\"failure_policy\",\"error_bound\":null");
    answer = answer_of_failure(fd, "limits:\n  - {name: a, rate: 5/hour}\n", "{\"attributes\":{}}");
    assert_has(answer, "{\"verdict\":\"allow\",\"limit\":null,\"remaining\":null");
    assert_lacks(answer, "ratelimit");
    assert_int_equal(counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_FAILURE_POLICY), 3);
    close(fd);
}

static void a_limit_that_fails_closed_is_503_and_no_refusal(void **state)
{
    (void)state;
    static const char policy[] = "limits:\n  - {name: d, rate: 5/hour, on_store_failure: deny}\n";
    static const char *const bodies[] = {NULL, "{\"limit\":\"d\"}", "{\"attributes\":{}}"};
    const int fd = connect_client();
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        const char *answer = answer_of_failure(fd, policy, bodies[i]);
        assert_has(answer, "HTTP/1.1 503");
        assert_has(answer, "the store is away");
        assert_lacks(answer, "ratelimit");
        assert_lacks(answer, "retry-after");
    }
    assert_int_equal(counted(CDL_COUNTED_ERROR, CAUDAL_SOURCE_FAILURE_POLICY), 3);
    close(fd);
}

static void a_local_share_tells_its_own_numbers(void **state)
{
    (void)state;
    static const char policy[] = "instances: 5\nlimits:\n  - {name: l, rate: 10/hour, on_store_failure: local}\n";
    const int fd = connect_client();
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
    apply("limits:\n  - {name: c, per: [tenant], if_missing: skip, rate: 3/hour}\n  - {name: all, when: {path: "
          "/check}, rate: 3/hour}\n");
    const struct linger now = {1, 0};
    const int fd = connect_client(), other = connect_client();
    say(fd, CHECK CHECK);
    until_asked(1);
    post(other, "/v1/take", BATCH);
    until_asked(4);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
    setsockopt(other, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(other);
    for (unsigned i = 0; i < PATIENCE && atomic_load(&bed.worker.loop.open) > 0; i++)
        turn();
    later_answer_all(&bed.store);
    assert_int_equal(counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 4); /* and not the one behind the first */
    assert_int_equal(bed.store.asked, 4);
}

static void a_reload_does_not_change_what_was_asked_before(void **state)
{
    (void)state;
    apply("limits:\n  - {name: old, rate: 3/hour}\n");
    const int fd = connect_client(), other = connect_client();
    say(fd, CHECK CHECK);
    until_asked(1);
    post(other, "/v1/take", "{\"requests\":[{\"limit\":\"old\"},{\"limit\":\"new\"}]}");
    until_asked(2);
    apply("limits:\n  - {name: new, rate: 1/hour}\n");
    later_answer(&bed.store, 0);
    later_answer(&bed.store, 0);
    assert_has(read_answer(fd), "\"old\";r=2");
    const char *answer = read_answer(other);
    assert_has(answer, "\"limit\":\"old\",\"remaining\":1");
    assert_has(answer, "there is no limit 'new'");
    until_asked(1);
    later_answer(&bed.store, 0);
    assert_has(read_answer(fd), "\"new\";r=0");
    close(fd);
    close(other);
}

static void C100_what_is_in_flight_at_the_end_is_answered_and_told_to_close(void **state)
{
    (void)state;
    apply("limits:\n  - {name: all, rate: 3/hour}\n");
    const int fd = connect_client();
    say(fd, CHECK CHECK);
    until_asked(1);
    atomic_store(&bed.server.draining, true);
    cdl_loop_quiesce(&bed.worker.loop);
    later_answer(&bed.store, 0);
    const char *answer = read_answer(fd);
    assert_has(answer, "HTTP/1.1 200");
    assert_has(answer, "onnection: close");
    turn_a_while();
    assert_int_equal(bed.store.count, 0);
    close(fd);
}

/* At the very end what still waits is answered as the limits choose, and no stage that follows is asked any more. */
static void what_waits_when_the_client_is_closed_falls_back(void **state)
{
    (void)state;
    apply("limits:\n  - {name: all, rate: 3/hour}\n  - {name: s, rate: 1/hour, mode: shadow}\n");
    const int fd = connect_client();
    say(fd, CHECK);
    until_asked(1);
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
