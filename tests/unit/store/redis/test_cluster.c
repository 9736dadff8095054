/* The client of a cluster: who has which slot, what redirections do, and what it costs when nodes come and go. */
#include "fake_redis.h"

#define DEADLINE (15 * MILLISECOND)

static struct server *const a = &redis.servers[0], *const b = &redis.servers[1], *const c = &redis.servers[2];

/* Keys whose slots lie in the first and in the second half. */
#define LOW "bar"  /* 5061 */
#define HIGH "foo" /* 12182 */

/* The reply to CLUSTER SLOTS in which `low` has the first half and `high` the second. */
static const char *map_of(const struct server *low, const struct server *high)
{
    static char texts[8][512];
    static unsigned next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0],
             "*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n$1\r\nx\r\n"
             "*3\r\n:8192\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n$1\r\ny\r\n",
             low->port, high->port);
    return text;
}

static const char *redirection(const char *word, unsigned slot, const char *host, const struct server *to)
{
    static char texts[64][64];
    static unsigned next;
    char *text = texts[next++ % 64];
    snprintf(text, sizeof texts[0], "-%s %u %s:%u\r\n", word, slot, host, to->port);
    return text;
}

static void everyone_says(const char *map)
{
    for (size_t i = 0; i < SERVERS_MAX; i++)
        redis.servers[i].slots = map;
}

static unsigned questions(void)
{
    unsigned sum = 0;
    for (size_t i = 0; i < SERVERS_MAX; i++)
        sum += redis.servers[i].map_questions;
    return sum;
}

static int setup(void **state)
{
    (void)state;
    redis_open(3);
    redis.config.kind = CDL_REDIS_CLUSTER;
    for (size_t i = 0; i < SERVERS_MAX; i++)
        redis.servers[i].has_script = true;
    everyone_says(map_of(a, b));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    redis_close();
    return 0;
}

static void calls_go_where_their_slot_is(void **state)
{
    struct probe low = {0}, high = {0}, any = {0};
    struct cdl_redis_place place;
    (void)state;
    redis_connect();
    ask_for(&low, LOW, DEADLINE);
    ask_for(&high, HIGH, DEADLINE);
    prepare(&any, "", DEADLINE);
    any.call.key = (struct cdl_slice){NULL, 0};
    hand_in(&any);
    cdl_redis_client_flush(redis.client);
    run();
    assert_done(&low, CDL_STORE_NONE);
    assert_done(&high, CDL_STORE_NONE);
    assert_done(&any, CDL_STORE_NONE);
    assert_non_null(strstr(a->log, LOW));
    assert_non_null(strstr(b->log, HIGH));
    assert_int_equal(a->executed + b->executed, 3);
    assert_int_equal(c->accepted, 0);
    assert_int_equal(questions(), 1);
    assert_true(cdl_redis_client_server(redis.client, 0, &place));
    assert_true(cdl_redis_client_server(redis.client, 1, &place));
    assert_false(cdl_redis_client_server(redis.client, 2, &place));
}

static void nodes_are_opened_when_they_are_needed(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis.config.connections = 2;
    redis_connect();
    assert_int_equal(b->accepted, 0);
    ask(&probe, HIGH, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(b->open, 2);
    assert_true(a->most_open <= 2);
}

static void calls_wait_for_the_map(void **state)
{
    struct probe probes[3] = {0};
    (void)state;
    a->mute = b->mute = c->mute = true;
    redis_connect();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        ask(&probes[i], LOW, DEADLINE);
    advance(DEADLINE / 2);
    assert_waits(&probes[0]);
    a->mute = false;
    run();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        assert_done(&probes[i], CDL_STORE_NONE);
}

static void a_seed_that_says_nothing_is_passed_over(void **state)
{
    struct probe probe = {0};
    (void)state;
    a->stopped = true;
    everyone_says(map_of(c, b));
    redis_connect();
    ask(&probe, HIGH, 500 * MILLISECOND);
    advance(100 * MILLISECOND);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(b->map_questions, 1);
    assert_int_equal(c->map_questions, 0);
}

static void seeds_that_are_no_help_are_passed_over_at_once(void **state)
{
    struct probe probe = {0};
    (void)state;
    server_close(a);
    b->slots = "*0\r\n";
    c->slots = map_of(b, c);
    redis_connect();
    ask(&probe, HIGH, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(now(), EPOCH);
    assert_int_equal(count_of(CDL_STORE_CONNECT), 1);
    assert_int_equal(count_of(CDL_STORE_ANSWER), 1);
}

static void replies_that_are_no_map_do_no_harm(void **state)
{
    static const char *const replies[] = {
        "+OK\r\n",
        ":1\r\n",
        "_\r\n",
        "*1\r\n+OK\r\n",
        "*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "-ERR This instance has cluster support disabled\r\n",
        "-NOAUTH Authentication required.\r\n",
        "%1\r\n+a\r\n+b\r\n",
    };
    struct probe probe = {0};
    (void)state;
    redis_connect();
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        everyone_says(replies[i]);
        server_can(a, "-CLUSTERDOWN The cluster is down\r\n");
        ask(&probe, LOW, DEADLINE);
        advance(5 * SECOND / 10);
        assert_done(&probe, CDL_STORE_NONE);
    }
    assert_true(questions() > COUNT_OF(replies));
}

static void no_seed_at_all_opens_the_breaker(void **state)
{
    struct probe probe = {0};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        server_close(&redis.servers[i]);
    redis_connect();
    assert_false(cdl_redis_client_is_up(redis.client));
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_BREAKER);
    server_open(b);
    b->slots = map_of(b, b);
    advance(2 * SECOND);
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_true(cdl_redis_client_is_up(redis.client));
}

/* ---- MOVED ---- */

static void moved_is_followed_and_remembered(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    advance(SECOND);
    everyone_says(map_of(c, b));
    server_can(a, redirection("MOVED", 5061, "127.0.0.1", c));
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(c->executed, 1);
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(c->executed, 2);
    assert_int_equal(count_of(CDL_STORE_MOVED), 1);
    assert_int_equal(questions(), 2);
    /* Who has nothing any more is let go. */
    advance(10 * SECOND);
    assert_int_equal(a->open, 0);
    assert_int_equal(c->open, 1);
}

static void moved_without_a_host_is_the_same_host(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server_can(a, redirection("MOVED", 5061, "", b));
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(b->executed, 1);
}

static void moved_to_a_name_is_looked_up(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server_can(a, redirection("MOVED", 5061, "node.test", b));
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(b->executed, 1);
    assert_int_equal(redis.look_ups, 1);
}

static void a_chain_of_moved_is_followed(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server_can(a, redirection("MOVED", 5061, "127.0.0.1", b));
    server_can(b, redirection("MOVED", 5061, "127.0.0.1", c));
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(c->executed, 1);
}

/* Two nodes that each name the other: no storm, and the call ends in time. */
static void moved_in_a_circle_ends(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    for (unsigned i = 0; i < 30; i++) {
        server_can(a, redirection("MOVED", 5061, "127.0.0.1", b));
        server_can(b, redirection("MOVED", 5061, "127.0.0.1", a));
    }
    ask(&probe, LOW, 200 * MILLISECOND);
    advance(200 * MILLISECOND);
    assert_done(&probe, CDL_STORE_MOVED);
    assert_true(probe.replied);
    assert_true(a->evalshas + b->evalshas <= 12);
    assert_int_equal(a->executed + b->executed, 0);
}

static void a_storm_of_moved_asks_for_the_map_ten_times_a_second(void **state)
{
    struct probe probes[32] = {0};
    (void)state;
    redis_connect();
    const unsigned before = questions();
    const int64_t began = now();
    unsigned healed = 0;
    while (now() - began < SECOND) {
        /* The map is never right: each call is redirected. */
        a->canned_first = a->canned_count = 0;
        for (size_t i = 0; i < COUNT_OF(probes); i++) {
            char key[16];
            server_can(a, redirection("MOVED", (unsigned)i, "127.0.0.1", b));
            snprintf(key, sizeof key, "{bar}%zu", i);
            ask_for(&probes[i], key, DEADLINE);
        }
        cdl_redis_client_flush(redis.client);
        advance(5 * MILLISECOND);
        for (size_t i = 0; i < COUNT_OF(probes); i++)
            healed += probes[i].done == 1 && probes[i].event == CDL_STORE_NONE;
    }
    assert_int_equal(healed % COUNT_OF(probes), 0);
    assert_in_range(questions() - before, 5, 11);
}

static void moved_that_makes_no_sense_is_waited_out(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server_can(a, "-MOVED nonsense\r\n");
    ask(&probe, LOW, DEADLINE);
    assert_waits(&probe);
    advance(5 * MILLISECOND);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(a->executed, 1);
}

static void moved_after_the_deadline_is_remembered_and_not_followed(void **state)
{
    struct probe late = {0}, next = {0};
    (void)state;
    redis_connect();
    server_can(a, redirection("MOVED", 5061, "127.0.0.1", c));
    a->mute = true;
    ask(&late, LOW, DEADLINE);
    /* The reply is there before the loop has looked at the clock. */
    caudal_fake_clock_advance(redis.clock, DEADLINE);
    a->mute = false;
    server_speak(a);
    everyone_says(map_of(c, b));
    run();
    assert_done(&late, CDL_STORE_MOVED);
    assert_int_equal(a->executed + c->executed, 0);
    advance(SECOND);
    ask(&next, LOW, DEADLINE);
    assert_done(&next, CDL_STORE_NONE);
    assert_int_equal(c->executed, 1);
}

/* ---- ASK ---- */

static void ask_is_followed_once_and_not_remembered(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server_can(a, redirection("ASK", 5061, "127.0.0.1", c));
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(c->executed, 1);
    assert_int_equal(c->askings, 1);
    ask(&probe, LOW, DEADLINE);
    assert_int_equal(a->executed, 1);
    assert_int_equal(c->askings, 1);
}

static void ask_keeps_asking_when_the_script_is_not_there(void **state)
{
    struct probe probe = {0};
    (void)state;
    c->has_script = false;
    redis_connect();
    server_can(a, redirection("ASK", 5061, "127.0.0.1", c));
    ask(&probe, LOW, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(c->executed, 1);
    assert_int_equal(c->askings, 2);
    assert_int_equal(c->evals, 1);
}

static void ask_to_one_who_says_ask_is_waited_out(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server_can(a, redirection("ASK", 5061, "127.0.0.1", c));
    server_can(c, redirection("ASK", 5061, "127.0.0.1", b));
    ask(&probe, LOW, DEADLINE);
    assert_waits(&probe);
    assert_int_equal(b->askings, 0);
    advance(5 * MILLISECOND);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(a->executed, 1);
}

static void keys_on_their_way_are_waited_for(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server_can(a, redirection("ASK", 5061, "127.0.0.1", c));
    server_can(c, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    server_can(a, redirection("ASK", 5061, "127.0.0.1", c));
    ask(&probe, LOW, DEADLINE);
    advance(5 * MILLISECOND);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(c->executed, 1);
    assert_int_equal(c->askings, 2);
}

/* ---- nodes that fail ---- */

static void a_dead_node_fails_alone_and_its_heir_is_found(void **state)
{
    struct probe low = {0}, high = {0};
    (void)state;
    redis_connect();
    ask(&low, LOW, DEADLINE);
    ask(&high, HIGH, DEADLINE);
    server_close(b);
    advance(50 * MILLISECOND);
    ask(&high, HIGH, DEADLINE);
    assert_done(&high, CDL_STORE_BREAKER);
    assert_false(cdl_redis_client_is_up(redis.client));
    ask(&low, LOW, DEADLINE);
    assert_done(&low, CDL_STORE_NONE);
    advance(10 * SECOND);
    const unsigned before = questions();
    everyone_says(map_of(a, c));
    advance(SECOND);
    assert_true(questions() > before);
    ask(&high, HIGH, DEADLINE);
    assert_done(&high, CDL_STORE_NONE);
    assert_int_equal(c->executed, 1);
    assert_true(cdl_redis_client_is_up(redis.client));
}

static void a_slot_that_nobody_has_is_waited_for(void **state)
{
    struct probe probe = {0};
    static char text[256];
    (void)state;
    snprintf(text, sizeof text, "*1\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n", a->port);
    everyone_says(text);
    redis_connect();
    ask(&probe, HIGH, SECOND);
    assert_waits(&probe);
    everyone_says(map_of(a, b));
    advance(200 * MILLISECOND);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(b->executed, 1);
}

static void a_map_may_name_its_sender_by_nothing(void **state)
{
    struct probe probe = {0};
    static char text[256];
    (void)state;
    snprintf(text, sizeof text, "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$-1\r\n:%u\r\n$1\r\nx\r\n*0\r\n", a->port);
    everyone_says(text);
    redis_connect();
    ask(&probe, HIGH, DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    /* It is the seed itself: no second connection. */
    assert_int_equal(a->accepted, 1);
}

/* Nobody waits for the answer any more, and the connection is watched for silence all the same. */
static void a_connection_that_does_not_answer_about_slots_is_given_up(void **state)
{
    (void)state;
    a->slots = SILENCE;
    redis_connect();
    assert_int_equal(a->open, 1);
    advance(100 * MILLISECOND);
    assert_int_equal(b->map_questions, 1);
    assert_int_equal(a->accepted, 1);
    advance(SECOND);
    assert_int_equal(a->accepted, 2);
}

static void closing_in_the_middle_of_a_question(void **state)
{
    struct probe probe = {0};
    (void)state;
    a->mute = true;
    redis_connect();
    a->mute = false;
    server_can(a, SILENCE);
    a->slots = SILENCE;
    run();
    ask(&probe, LOW, DEADLINE);
    assert_waits(&probe);
    cdl_redis_client_close(redis.client);
    redis.client = NULL;
    assert_done(&probe, CDL_STORE_CLOSED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(calls_go_where_their_slot_is),
        TEST(nodes_are_opened_when_they_are_needed),
        TEST(calls_wait_for_the_map),
        TEST(a_seed_that_says_nothing_is_passed_over),
        TEST(seeds_that_are_no_help_are_passed_over_at_once),
        TEST(replies_that_are_no_map_do_no_harm),
        TEST(no_seed_at_all_opens_the_breaker),
        TEST(moved_is_followed_and_remembered),
        TEST(moved_without_a_host_is_the_same_host),
        TEST(moved_to_a_name_is_looked_up),
        TEST(a_chain_of_moved_is_followed),
        TEST(moved_in_a_circle_ends),
        TEST(a_storm_of_moved_asks_for_the_map_ten_times_a_second),
        TEST(moved_that_makes_no_sense_is_waited_out),
        TEST(moved_after_the_deadline_is_remembered_and_not_followed),
        TEST(ask_is_followed_once_and_not_remembered),
        TEST(ask_keeps_asking_when_the_script_is_not_there),
        TEST(ask_to_one_who_says_ask_is_waited_out),
        TEST(keys_on_their_way_are_waited_for),
        TEST(a_dead_node_fails_alone_and_its_heir_is_found),
        TEST(a_slot_that_nobody_has_is_waited_for),
        TEST(a_map_may_name_its_sender_by_nothing),
        TEST(a_connection_that_does_not_answer_about_slots_is_given_up),
        TEST(closing_in_the_middle_of_a_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
