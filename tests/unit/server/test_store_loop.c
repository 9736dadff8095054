/* A client of a store in a libuv loop: alarms, sockets, names, and whether the store is there. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../later_store.h"
#include "server/store_loop.h"

struct bed {
    struct world world;
    struct later_store store;
    uv_loop_t uv;
    struct cdl_store_loop loop;
    unsigned times, events;
    int64_t time_ns;
    struct sockaddr_storage address;
    unsigned found, found_nothing;
};

static struct bed bed;

static void on_time(struct later_store *store, int64_t now_ns)
{
    (void)store;
    bed.times++;
    bed.time_ns = now_ns;
}

static void on_ready(struct later_store *store, struct cdl_socket *socket, unsigned events)
{
    bed.events |= events;
    if (events & CDL_SOCKET_READ) {
        char byte;
        if (recv(socket->fd, &byte, 1, MSG_DONTWAIT) <= 0)
            store->hooks.watch(store->hooks.context, socket, 0); /* the end, or an error: as a client does */
    }
}

static void on_found(struct later_store *store, const struct sockaddr *address)
{
    (void)store;
    bed.found++;
    bed.found_nothing += address == NULL;
    if (address != NULL)
        memcpy(&bed.address, address,
               address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
}

static int setup(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof bed);
    world_open(&bed.world, "memory:?keys=100");
    later_open(&bed.store, &bed.world);
    bed.store.on_time = on_time;
    bed.store.on_ready = on_ready;
    bed.store.on_found = on_found;
    assert_int_equal(uv_loop_init(&bed.uv), 0);
    assert_true(cdl_store_loop_open(&bed.loop, &bed.store.head, CDL_SLICE("redis://h:1"), &bed.uv, NULL));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cdl_store_loop_close(&bed.loop);
    cdl_store_loop_close(&bed.loop); /* does nothing */
    uv_run(&bed.uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&bed.uv), 0);
    assert_int_equal(bed.store.clients, 0);
    later_close(&bed.store);
    world_close(&bed.world);
    return 0;
}

static int64_t now_ns(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context);
}

static void alarm_at(int64_t at_ns)
{
    bed.store.hooks.alarm(bed.store.hooks.context, at_ns);
}

static void watch(struct cdl_socket *socket, unsigned events)
{
    bed.store.hooks.watch(bed.store.hooks.context, socket, events);
}

/* ---- alarms ---- */

static void an_alarm_is_never_early_wherever_it_was_moved(void **state)
{
    (void)state;
    struct rng rng = {11};
    for (unsigned i = 0; i < 50; i++) {
        const unsigned before = bed.times;
        const int64_t at_ns = now_ns() + (int64_t)rng_below(&rng, 6000000);
        alarm_at(at_ns + 3 * MILLISECOND);
        alarm_at(at_ns - 2 * MILLISECOND);
        alarm_at(at_ns);
        while (bed.times == before)
            uv_run(&bed.uv, UV_RUN_ONCE);
        assert_true(bed.time_ns >= at_ns);
        assert_true(now_ns() >= at_ns);
        assert_int_equal(bed.times, before + 1);
    }
}

static void an_alarm_that_is_past_comes_in_the_next_turn(void **state)
{
    (void)state;
    alarm_at(now_ns() - SECOND);
    for (int i = 0; i < 2 && bed.times == 0; i++)
        uv_run(&bed.uv, UV_RUN_NOWAIT);
    assert_int_equal(bed.times, 1);
}

static void an_alarm_that_was_called_off_does_not_come(void **state)
{
    (void)state;
    const int64_t at_ns = now_ns() + MILLISECOND;
    alarm_at(at_ns);
    alarm_at(INT64_MAX);
    while (now_ns() < at_ns + 5 * MILLISECOND)
        uv_run(&bed.uv, UV_RUN_NOWAIT);
    assert_int_equal(bed.times, 0);
}

/* ---- sockets ---- */

static void a_socket_is_told_what_it_waits_for(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct cdl_socket socket = {.fd = pair[0]};
    watch(&socket, CDL_SOCKET_READ);
    for (int i = 0; i < 10; i++)
        uv_run(&bed.uv, UV_RUN_NOWAIT);
    assert_int_equal(bed.events, 0); /* it could be written to, which nobody asked for */
    watch(&socket, CDL_SOCKET_READ | CDL_SOCKET_WRITE);
    while (bed.events == 0)
        uv_run(&bed.uv, UV_RUN_ONCE);
    assert_int_equal(bed.events, CDL_SOCKET_WRITE);
    watch(&socket, CDL_SOCKET_READ);
    bed.events = 0;
    assert_int_equal(send(pair[1], "x", 1, 0), 1);
    while (bed.events == 0)
        uv_run(&bed.uv, UV_RUN_ONCE);
    assert_int_equal(bed.events, CDL_SOCKET_READ);
    watch(&socket, 0);
    assert_null(socket.watch);
    close(pair[0]);
    close(pair[1]);
}

/* The number of a socket that was closed is used again at once. */
static void a_socket_that_is_forgotten_may_be_closed_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        struct cdl_socket socket = {.fd = pair[0]};
        bed.events = 0;
        watch(&socket, CDL_SOCKET_WRITE);
        while (bed.events == 0)
            uv_run(&bed.uv, UV_RUN_ONCE);
        watch(&socket, 0);
        close(pair[0]);
        close(pair[1]);
    }
}

static void a_socket_in_trouble_is_ready(void **state)
{
    (void)state;
    /* A port that nobody listens on. */
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int holder = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(holder, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(holder, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), -1);
    struct cdl_socket socket = {.fd = fd};
    watch(&socket, CDL_SOCKET_READ | CDL_SOCKET_WRITE);
    while (socket.watch != NULL)
        uv_run(&bed.uv, UV_RUN_ONCE);
    assert_true(bed.events != 0);
    close(fd);
    close(holder);
}

/* ---- names ---- */

static void names_are_looked_up(void **state)
{
    (void)state;
    struct cdl_lookup_request request = {.host = "localhost", .port = 6379};
    bed.store.hooks.look_up(bed.store.hooks.context, &request);
    while (bed.found == 0)
        uv_run(&bed.uv, UV_RUN_ONCE);
    assert_null(request.lookup);
    assert_int_equal(bed.found_nothing, 0);
    /* The port stands at the same place in both kinds. */
    assert_int_equal(((const struct sockaddr_in *)&bed.address)->sin_port, htons(6379));
    request = (struct cdl_lookup_request){.host = "no such host", .port = 1};
    bed.store.hooks.look_up(bed.store.hooks.context, &request);
    while (bed.found == 1)
        uv_run(&bed.uv, UV_RUN_ONCE);
    assert_int_equal(bed.found_nothing, 1);
}

static void a_client_chooses_among_the_addresses_of_a_name(void **state)
{
    struct addrinfo third = {.ai_family = AF_INET}, second = {.ai_family = AF_UNIX, .ai_next = &third},
                    first = {.ai_family = AF_INET6, .ai_next = &second};
    struct cdl_lookup_request request = {.turn = 0};
    (void)state;
    assert_ptr_equal(cdl_lookup_choose(&request, &first), &first);
    request.turn = 1;
    assert_ptr_equal(cdl_lookup_choose(&request, &first), &third);
    request.turn = 2;
    assert_ptr_equal(cdl_lookup_choose(&request, &first), &first);
    third.ai_family = AF_UNIX;
    assert_null(cdl_lookup_choose(&request, &second));
    assert_null(cdl_lookup_choose(&request, NULL));
}

static void a_name_that_is_forgotten_is_not_told(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) { /* more than are looked up at once: some have not begun */
        struct cdl_lookup_request request = {.host = "localhost", .port = 6379};
        bed.store.hooks.look_up(bed.store.hooks.context, &request);
        bed.store.hooks.forget(bed.store.hooks.context, &request);
        assert_null(request.lookup);
    }
    cdl_store_loop_close(&bed.loop);
    uv_run(&bed.uv, UV_RUN_DEFAULT);
    assert_int_equal(bed.found, 0);
}

/* ---- turns ---- */

static void each_turn_is_flushed_and_tells_whether_the_store_is_there(void **state)
{
    (void)state;
    assert_true(atomic_load(&bed.loop.is_up));
    for (unsigned i = 0; i < 5; i++) {
        uv_run(&bed.uv, UV_RUN_NOWAIT);
        assert_int_equal(bed.store.flushes, i + 1);
    }
    bed.store.is_away = true;
    uv_run(&bed.uv, UV_RUN_NOWAIT);
    assert_false(atomic_load(&bed.loop.is_up));
    bed.store.is_away = false;
    uv_run(&bed.uv, UV_RUN_NOWAIT);
    assert_true(atomic_load(&bed.loop.is_up));
}

/* One line when it goes, with what has happened most, and one when it comes back. */
static void the_log_says_why_the_store_is_away(void **state)
{
    (void)state;
    int ends[2];
    char text[4096];
    assert_int_equal(pipe(ends), 0);
    const struct cdl_log_options options = {.fd = ends[1], .format = CDL_LOG_AS_TEXT, .repeat_window_ns = SECOND};
    bed.loop.log = cdl_log_open(&options);
    uv_run(&bed.uv, UV_RUN_NOWAIT);
    cdl_store_event_count(&bed.store.events, CDL_STORE_CONNECT);
    for (int i = 0; i < 3; i++) {
        cdl_store_event_count(&bed.store.events, CDL_STORE_LOADING);
        cdl_store_event_count(&bed.store.events, CDL_STORE_BREAKER);
        cdl_store_event_count(&bed.store.events, CDL_STORE_BREAKER);
    }
    bed.store.is_away = true;
    for (int i = 0; i < 3; i++)
        uv_run(&bed.uv, UV_RUN_NOWAIT);
    bed.store.is_away = false;
    uv_run(&bed.uv, UV_RUN_NOWAIT);
    cdl_log_close(bed.loop.log);
    bed.loop.log = NULL;
    close(ends[1]);
    const ssize_t length = read(ends[0], text, sizeof text - 1);
    assert_true(length > 0);
    text[length] = '\0';
    close(ends[0]);
    const char *away = strstr(text, "the store is away"), *back = strstr(text, "the store is back");
    assert_true(away != NULL && back != NULL && away < back);
    assert_non_null(strstr(text, "event=loading"));
    assert_true(strstr(away, "store=redis://h:1") < back); /* which one */
    assert_non_null(strstr(back, "store=redis://h:1"));
    assert_null(strstr(away + 1, "the store is away"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_alarm_is_never_early_wherever_it_was_moved),
        CASE(an_alarm_that_is_past_comes_in_the_next_turn),
        CASE(an_alarm_that_was_called_off_does_not_come),
        CASE(a_socket_is_told_what_it_waits_for),
        CASE(a_socket_that_is_forgotten_may_be_closed_at_once),
        CASE(a_socket_in_trouble_is_ready),
        CASE(names_are_looked_up),
        CASE(a_client_chooses_among_the_addresses_of_a_name),
        CASE(a_name_that_is_forgotten_is_not_told),
        CASE(each_turn_is_flushed_and_tells_whether_the_store_is_there),
        CASE(the_log_says_why_the_store_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
