/* Calls that replicas have to confirm: wait_replicas in the URL of the store. */
#include "fake_redis.h"

#define DEADLINE (15 * MILLISECOND)

static struct server *const server = &redis.servers[0];

static int setup(void **state)
{
    (void)state;
    redis_open(1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    redis_close();
    return 0;
}

static void connect_with_script(void)
{
    server->has_script = true;
    redis_connect();
}

static void replicas_confirm(void **state)
{
    struct probe probes[4] = {0};
    (void)state;
    redis.config.wait_replicas = 2;
    server->confirmed = ":2\r\n";
    connect_with_script();
    server_can(server, "$5\r\nhello\r\n");
    server_can(server, "*2\r\n:7\r\n:8\r\n");
    server_can(server, "-OOM command not allowed\r\n");
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        ask_for(&probes[i], "a", DEADLINE);
    cdl_redis_client_flush(redis.client);
    run();
    assert_done(&probes[0], CDL_STORE_NONE);
    assert_string_equal(probes[0].text, "hello");
    assert_done(&probes[1], CDL_STORE_NONE);
    assert_done(&probes[2], CDL_STORE_OOM);
    assert_done(&probes[3], CDL_STORE_NONE);
    assert_int_equal(probes[3].integer, 1);
    assert_int_equal(server->waits, 1);
}

static void too_few_replicas_confirm(void **state)
{
    static const char *const replies[] = {":1\r\n", "-ERR WAIT cannot be used with replica instances\r\n", "+OK\r\n"};
    (void)state;
    redis.config.wait_replicas = 2;
    connect_with_script();
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct probe probe = {0};
        server->confirmed = replies[i];
        ask(&probe, "a", DEADLINE);
        assert_done(&probe, CDL_STORE_REPLICAS);
        assert_int_equal(count_of(CDL_STORE_REPLICAS), i + 1);
    }
    assert_int_equal(server->executed, COUNT_OF(replies));
}

static void replicas_may_say_nothing(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis.config.wait_replicas = 1;
    server->confirmed = "";
    connect_with_script();
    ask(&probe, "a", DEADLINE);
    assert_waits(&probe);
    advance(DEADLINE);
    assert_done(&probe, CDL_STORE_REPLICAS);
    assert_true(cdl_redis_client_is_up(redis.client));
}

static void a_connection_may_end_before_replicas_confirm(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis.config.wait_replicas = 1;
    server->confirmed = "";
    connect_with_script();
    ask(&probe, "a", DEADLINE);
    server_hang_up(server);
    run();
    assert_done(&probe, CDL_STORE_REPLICAS);
    assert_int_equal(count_of(CDL_STORE_LOST), 1);
}

static void a_script_brought_again_is_confirmed_too(void **state)
{
    struct probe probes[3] = {0};
    (void)state;
    redis.config.wait_replicas = 1;
    server->confirmed = ":1\r\n";
    redis_connect();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        ask_for(&probes[i], "a", DEADLINE);
    cdl_redis_client_flush(redis.client);
    run();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        assert_done(&probes[i], CDL_STORE_NONE);
    assert_int_equal(server->executed, 3);
    assert_int_equal(server->waits, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(replicas_confirm),
        TEST(too_few_replicas_confirm),
        TEST(replicas_may_say_nothing),
        TEST(a_connection_may_end_before_replicas_confirm),
        TEST(a_script_brought_again_is_confirmed_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
