/* The client of a group that sentinels watch: a and b are the group's servers, s and t its sentinels. */
#include "fake_redis.h"

#define DEADLINE (15 * MILLISECOND)
#define READONLY "-READONLY You can't write against a read only replica.\r\n"

static struct server *const s = &redis.servers[0], *const t = &redis.servers[1];
static struct server *const a = &redis.servers[2], *const b = &redis.servers[3];

static const char *name_of(const struct server *server)
{
    static char texts[8][64];
    static unsigned next;
    char *text = texts[next++ % 8], port[8];
    snprintf(port, sizeof port, "%u", server->port);
    snprintf(text, sizeof texts[0], "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    return text;
}

static void both_name(const struct server *server)
{
    s->primary = t->primary = name_of(server);
}

/* b is promoted, and a is a replica from now on. */
static void fail_over(void)
{
    both_name(b);
    a->role = "slave";
    b->role = NULL;
}

static int setup(void **state)
{
    static char group[] = "group";
    (void)state;
    redis_open(4);
    redis.config.kind = CDL_REDIS_SENTINEL;
    redis.config.seed_count = 2;
    redis.config.primary = group;
    a->has_script = b->has_script = true;
    b->role = "slave";
    both_name(a);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    redis_close();
    return 0;
}

static void assert_works_at(struct server *server)
{
    struct probe probe = {0};
    const unsigned before = server->executed;
    ask(&probe, "k", DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(server->executed, before + 1);
}

static void the_primary_is_asked_for(void **state)
{
    struct probe early = {0};
    struct cdl_redis_place place;
    (void)state;
    s->mute = true;
    redis_connect();
    assert_false(cdl_redis_client_server(redis.client, 0, &place));
    ask(&early, "k", DEADLINE);
    assert_waits(&early);
    s->mute = false;
    run();
    assert_done(&early, CDL_STORE_NONE);
    assert_works_at(a);
    assert_true(cdl_redis_client_is_up(redis.client));
    assert_int_equal(s->primary_questions, 1);
    assert_int_equal(t->primary_questions, 0);
    assert_true(cdl_redis_client_server(redis.client, 0, &place));
    assert_int_equal(place.port, a->port);
    /* Nobody is asked while all is well, and no connection to a sentinel is kept. */
    advance(MINUTE);
    assert_int_equal(s->primary_questions, 1);
    assert_int_equal(s->open, 0);
    assert_int_equal(a->open, 1);
}

static void sentinels_have_credentials_of_their_own(void **state)
{
    static char secret[] = "secret";
    (void)state;
    redis.config.sentinel_password = secret;
    s->greeting = t->greeting = "-WRONGPASS invalid username-password pair\r\n";
    redis_connect();
    assert_false(cdl_redis_client_is_up(redis.client));
    assert_int_equal(count_of(CDL_STORE_WRONGPASS), 2);
    assert_int_equal(a->accepted, 0);
    s->greeting = NULL;
    advance(2 * SECOND);
    assert_works_at(a);
}

static void a_sentinel_that_is_down_is_passed_over(void **state)
{
    (void)state;
    server_close(s);
    redis_connect();
    assert_works_at(a);
    assert_int_equal(now(), EPOCH);
    /* Who answered is asked first. */
    server_open(s);
    advance(SECOND);
    server_hang_up(a);
    advance(SECOND);
    assert_true(t->primary_questions >= 2);
    assert_int_equal(s->primary_questions, 0);
}

static void a_sentinel_that_hangs_costs_a_tenth_of_a_second(void **state)
{
    struct probe probe = {0};
    (void)state;
    s->stopped = true;
    redis_connect();
    ask(&probe, "k", SECOND);
    advance(100 * MILLISECOND);
    assert_done(&probe, CDL_STORE_NONE);
    advance(10 * SECOND);
    assert_works_at(a);
}

static void sentinels_that_know_no_primary(void **state)
{
    static const char *const replies[] = {"*-1\r\n",
                                          "_\r\n",
                                          "+OK\r\n",
                                          "*1\r\n$1\r\na\r\n",
                                          "-IDONTKNOW sorry\r\n",
                                          "*2\r\n$1\r\na\r\n$6\r\n999999\r\n",
                                          "*2\r\n$0\r\n\r\n$1\r\n1\r\n"};
    (void)state;
    s->primary = t->primary = replies[0];
    redis_connect();
    assert_false(cdl_redis_client_is_up(redis.client));
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct probe probe = {0};
        s->primary = t->primary = replies[i];
        advance(2 * SECOND);
        ask(&probe, "k", DEADLINE);
        assert_done(&probe, CDL_STORE_BREAKER);
    }
    assert_true(count_of(CDL_STORE_NO_PRIMARY) >= 4);
    both_name(a);
    advance(SECOND);
    assert_works_at(a);
    assert_true(cdl_redis_client_is_up(redis.client));
}

/* Asked again and again, but not without end. */
static void sentinels_are_not_hammered(void **state)
{
    (void)state;
    s->primary = t->primary = NULL;
    redis_connect();
    advance(10 * SECOND);
    assert_in_range(s->primary_questions, 15, 35);
    assert_true(s->most_open <= 1);
}

static void readonly_leads_to_the_new_primary(void **state)
{
    struct probe probes[5] = {0};
    (void)state;
    redis_connect();
    assert_works_at(a);
    advance(2 * SECOND);
    fail_over();
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        server_can(a, READONLY);
        ask_for(&probes[i], "k", DEADLINE);
    }
    cdl_redis_client_flush(redis.client);
    run();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        assert_done(&probes[i], CDL_STORE_NONE);
    assert_int_equal(b->executed, COUNT_OF(probes));
    assert_int_equal(a->open, 0);
    assert_int_equal(count_of(CDL_STORE_READONLY), COUNT_OF(probes));
}

static void a_primary_that_dies_is_replaced_within_a_second_of_the_promotion(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        struct probe probe = {0};
        redis_close();
        setup(NULL);
        redis_connect();
        assert_works_at(a);
        advance(2 * SECOND);
        server_close(a);
        advance(5 * SECOND + round * 37 * MILLISECOND);
        ask(&probe, "k", DEADLINE);
        assert_done(&probe, CDL_STORE_BREAKER);
        assert_false(cdl_redis_client_is_up(redis.client));
        fail_over();
        advance(SECOND);
        assert_works_at(b);
        assert_true(cdl_redis_client_is_up(redis.client));
    }
}

/* The machine is gone: nothing answers, not even with a refusal. */
static void a_primary_that_falls_silent_is_replaced_too(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    advance(2 * SECOND);
    a->stopped = true;
    for (unsigned i = 0; i < 30; i++) {
        ask(&probe, "k", DEADLINE);
        advance(100 * MILLISECOND);
        assert_int_equal(probe.done, 1);
        assert_int_not_equal(probe.event, CDL_STORE_NONE);
    }
    fail_over();
    advance(SECOND);
    assert_works_at(b);
    /* The old one comes back and is let alone. */
    a->stopped = false;
    advance(5 * SECOND);
    assert_int_equal(a->open, 0);
    assert_works_at(b);
}

/* Calls that wait for the old primary to come back do not wait for it in vain. */
static void what_waits_goes_to_the_new_primary(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    advance(2 * SECOND);
    a->stopped = true;
    server_hang_up(a);
    s->mute = true;
    fail_over();
    run();
    ask(&probe, "k", DEADLINE);
    advance(5 * MILLISECOND);
    assert_waits(&probe);
    s->mute = false;
    run();
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(b->executed, 1);
}

static void who_is_named_and_is_a_replica_is_not_used(void **state)
{
    struct probe probe = {0};
    (void)state;
    both_name(b);
    redis_connect();
    assert_false(cdl_redis_client_is_up(redis.client));
    assert_true(count_of(CDL_STORE_NO_PRIMARY) >= 1);
    ask(&probe, "k", DEADLINE);
    assert_done(&probe, CDL_STORE_BREAKER);
    assert_int_equal(b->executed, 0);
    both_name(a);
    advance(SECOND);
    assert_works_at(a);
}

/* One sentinel still names the old primary: the other is heard, too. */
static void a_sentinel_that_is_behind_is_not_asked_for_ever(void **state)
{
    (void)state;
    redis_connect();
    advance(2 * SECOND);
    fail_over();
    s->primary = name_of(a);
    server_can(a, READONLY);
    struct probe probe = {0};
    ask(&probe, "k", DEADLINE);
    advance(SECOND);
    assert_works_at(b);
    assert_int_equal(probe.done, 1);
}

static void a_primary_that_comes_back_is_used_again(void **state)
{
    (void)state;
    redis_connect();
    assert_works_at(a);
    server_close(a);
    advance(10 * SECOND);
    server_open(a);
    advance(500 * MILLISECOND);
    assert_works_at(a);
    assert_int_equal(a->most_open, 1);
}

/* There and back again, with calls all the time: none is lost in between for more than a second. */
static void fail_overs_under_load(void **state)
{
    struct probe probe = {0};
    unsigned failed = 0;
    (void)state;
    redis_connect();
    for (unsigned round = 0; round < 6; round++) {
        struct server *primary = round % 2 == 0 ? a : b, *other = round % 2 == 0 ? b : a;
        for (unsigned i = 0; i < 100; i++) {
            ask(&probe, "k", DEADLINE);
            advance(20 * MILLISECOND);
            assert_int_equal(probe.done, 1);
            failed += probe.event != CDL_STORE_NONE;
        }
        both_name(other);
        primary->role = "slave";
        other->role = NULL;
        /* As sentinels do: the demoted one ends its connections. */
        server_hang_up(primary);
    }
    assert_true(failed <= 6 * 3);
    assert_true(a->most_open <= 1 && b->most_open <= 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_primary_is_asked_for),
        TEST(sentinels_have_credentials_of_their_own),
        TEST(a_sentinel_that_is_down_is_passed_over),
        TEST(a_sentinel_that_hangs_costs_a_tenth_of_a_second),
        TEST(sentinels_that_know_no_primary),
        TEST(sentinels_are_not_hammered),
        TEST(readonly_leads_to_the_new_primary),
        TEST(a_primary_that_dies_is_replaced_within_a_second_of_the_promotion),
        TEST(a_primary_that_falls_silent_is_replaced_too),
        TEST(what_waits_goes_to_the_new_primary),
        TEST(who_is_named_and_is_a_replica_is_not_used),
        TEST(a_sentinel_that_is_behind_is_not_asked_for_ever),
        TEST(a_primary_that_comes_back_is_used_again),
        TEST(fail_overs_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
