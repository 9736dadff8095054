/* The client of one Redis server: what every reply, every silence and every end of a connection means for a call. */
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

/* ---- calls and replies ---- */

static void a_call_is_answered(void **state)
{
    struct probe probe = {0};
    (void)state;
    connect_with_script();
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(probe.integer, 1);
    assert_int_equal(count_of(CDL_STORE_CONNECTED), 1);
    assert_true(cdl_redis_client_is_up(redis.client));
}

static void calls_wait_for_the_first_connection(void **state)
{
    struct probe probes[5] = {0};
    (void)state;
    server->stopped = true;
    connect_with_script();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        ask(&probes[i], "a", DEADLINE);
    advance(DEADLINE / 2);
    assert_waits(&probes[0]);
    server->stopped = false;
    run();
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        assert_done(&probes[i], CDL_STORE_NONE);
        assert_int_equal(probes[i].order, i + 1);
    }
}

static void the_first_connection_is_waited_for_until_the_deadline(void **state)
{
    struct probe probes[20] = {0};
    (void)state;
    server->stopped = true;
    redis_connect();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        ask(&probes[i], "a", DEADLINE);
    advance(DEADLINE);
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        assert_done(&probes[i], CDL_STORE_TIMEOUT);
        assert_int_equal(probes[i].done_ns, EPOCH + DEADLINE);
    }
    assert_int_equal(count_of(CDL_STORE_BREAKER), 0);
}

/* A plain command, as the tools use. */
static void commands_that_are_no_script_are_sent_as_they_are(void **state)
{
    struct probe probe = {0};
    const struct cdl_slice words[] = {CDL_SLICE("GET"), CDL_SLICE("key")};
    (void)state;
    redis_connect();
    server_can(server, "$2\r\nhi\r\n");
    prepare(&probe, "a", DEADLINE);
    probe.call.script = NULL;
    probe.call.words = words;
    probe.call.word_count = COUNT_OF(words);
    hand_in(&probe);
    cdl_redis_client_flush(redis.client);
    run();
    assert_done(&probe, CDL_STORE_NONE);
    assert_string_equal(probe.text, "hi");
    assert_int_equal(server->evals + server->evalshas, 0);
}

/* Each error that ends a call, with its reply, and without another try. */
static void errors_that_prove_nothing_end_the_call(void **state)
{
    static const struct {
        const char *reply;
        enum cdl_store_event event;
    } errors[] = {
        {"-BUSY Redis is busy running a script.\r\n", CDL_STORE_BUSY},
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", CDL_STORE_OOM},
        {"-NOAUTH Authentication required.\r\n", CDL_STORE_NOAUTH},
        {"-WRONGPASS invalid username-password pair\r\n", CDL_STORE_WRONGPASS},
        {"-NOPERM this user has no permissions\r\n", CDL_STORE_NOPERM},
        {"-NOREPLICAS Not enough good replicas to write.\r\n", CDL_STORE_NOREPLICAS},
        {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", CDL_STORE_CROSSSLOT},
        {"-ERR something else\r\n", CDL_STORE_ERROR},
        {"!5\r\nWRONG\r\n", CDL_STORE_ERROR},
        {"-\r\n", CDL_STORE_ERROR},
        /* A single server does not redirect; whoever named a node of a cluster is told. */
        {"-MOVED 1 127.0.0.1:1\r\n", CDL_STORE_MOVED},
        {"-ASK 1 127.0.0.1:1\r\n", CDL_STORE_ASK},
    };
    (void)state;
    connect_with_script();
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        struct probe probe = {0};
        const uint64_t before = count_of(errors[i].event);
        server_can(server, errors[i].reply);
        ask(&probe, "a", DEADLINE);
        assert_done(&probe, errors[i].event);
        assert_true(probe.replied);
        assert_int_equal(count_of(errors[i].event), before + 1);
    }
    assert_int_equal(server->evalshas, COUNT_OF(errors));
    assert_int_equal(server->executed, 0);
    assert_int_equal(server->accepted, 1);
}

static void errors_that_pass_are_waited_for(void **state)
{
    static const struct {
        const char *reply;
        enum cdl_store_event event;
    } errors[] = {
        {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", CDL_STORE_TRYAGAIN},
        {"-CLUSTERDOWN The cluster is down\r\n", CDL_STORE_CLUSTERDOWN},
        {"-LOADING Redis is loading the dataset in memory\r\n", CDL_STORE_LOADING},
        {"-MASTERDOWN Link with MASTER is down\r\n", CDL_STORE_MASTERDOWN},
    };
    (void)state;
    connect_with_script();
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        struct probe healed = {0}, failed = {0};
        server_can(server, errors[i].reply);
        ask(&healed, "a", 100 * MILLISECOND);
        assert_waits(&healed);
        advance(5 * MILLISECOND - 1);
        assert_waits(&healed);
        advance(1);
        assert_done(&healed, CDL_STORE_NONE);
        /* Again after 5, 10, 20 and 40 ms; the next would be too late. */
        const unsigned before = server->evalshas;
        for (unsigned tries = 0; tries < 5; tries++)
            server_can(server, errors[i].reply);
        ask(&failed, "a", 100 * MILLISECOND);
        advance(100 * MILLISECOND);
        assert_done(&failed, errors[i].event);
        assert_true(failed.replied);
        assert_int_equal(server->evalshas - before, 5);
        assert_int_equal(count_of(errors[i].event), 6);
    }
    assert_int_equal(server->executed, COUNT_OF(errors));
}

static void a_reply_may_be_cut_at_every_byte(void **state)
{
    static const char *const replies[] = {
        "+OK\r\n",     ":-12345\r\n",        "$5\r\nhello\r\n", "*3\r\n:1\r\n$3\r\nabc\r\n*1\r\n_\r\n",
        "-ERR no\r\n", "%1\r\n+a\r\n:1\r\n", "#t\r\n",          "=7\r\ntxt:abc\r\n",
    };
    (void)state;
    connect_with_script();
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        /* Byte by byte it is the same reply. */
        struct probe whole = {0};
        server->bite = 1;
        server_can(server, replies[i]);
        ask(&whole, "a", DEADLINE);
        assert_done(&whole, replies[i][0] == '-' ? CDL_STORE_ERROR : CDL_STORE_NONE);
        server->bite = 0;
        /* Cut off, the call may have been executed: it has failed and is not sent again. */
        for (size_t cut = 0; cut < strlen(replies[i]); cut++) {
            struct probe probe = {0};
            const unsigned before = server->evalshas;
            server->cut = cut;
            server_can(server, replies[i]);
            ask(&probe, "a", DEADLINE);
            assert_done(&probe, CDL_STORE_LOST);
            assert_false(probe.replied);
            assert_int_equal(server->evalshas, before + 1);
            server->cut = SIZE_MAX;
            advance(2 * SECOND);
        }
    }
    assert_int_equal(server->executed, 0);
    assert_int_equal(server->most_open, 1);
}

static void bytes_that_are_no_reply_end_the_connection(void **state)
{
    struct probe first = {0}, second = {0}, third = {0};
    (void)state;
    connect_with_script();
    server_can(server, ":1\r\n");
    server_can(server, "HTTP/1.1 400 Bad Request\r\n");
    ask_for(&first, "a", DEADLINE);
    ask_for(&second, "b", DEADLINE);
    ask(&third, "c", DEADLINE);
    assert_done(&first, CDL_STORE_NONE);
    assert_done(&second, CDL_STORE_PROTOCOL);
    assert_done(&third, CDL_STORE_PROTOCOL);
    assert_int_equal(count_of(CDL_STORE_PROTOCOL), 1);
    advance(5 * MILLISECOND);
    assert_int_equal(server->accepted, 2);
    assert_int_equal(server->open, 1);
}

static void a_connection_that_ends_loses_what_has_left(void **state)
{
    struct probe probes[3] = {0};
    (void)state;
    connect_with_script();
    advance(2 * SECOND);
    server_can(server, ":1\r\n");
    server_can(server, HANG_UP);
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        ask_for(&probes[i], "a", DEADLINE);
    cdl_redis_client_flush(redis.client);
    run();
    assert_done(&probes[0], CDL_STORE_NONE);
    assert_done(&probes[1], CDL_STORE_LOST);
    assert_done(&probes[2], CDL_STORE_LOST);
    assert_int_equal(count_of(CDL_STORE_LOST), 1);
    assert_int_equal(server->executed, 0);
    /* The next waits for the new connection. */
    ask(&probes[0], "b", DEADLINE);
    advance(5 * MILLISECOND);
    assert_done(&probes[0], CDL_STORE_NONE);
}

static void what_has_not_left_is_sent_on_a_new_connection(void **state)
{
    struct probe probe = {0};
    (void)state;
    connect_with_script();
    advance(2 * SECOND);
    /* The server is gone, and nobody has noticed when the call is handed in. */
    ask_for(&probe, "a", DEADLINE);
    server_hang_up(server);
    run();
    assert_waits(&probe);
    advance(5 * MILLISECOND);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(server->executed, 1);
    assert_int_equal(server->accepted, 2);
}

/* ---- the script ---- */

static void a_forgotten_script_is_brought_by_one_call(void **state)
{
    struct probe probes[20] = {0};
    (void)state;
    redis_connect();
    for (unsigned round = 0; round < 3; round++) {
        char key[16];
        server->has_script = false;
        server->executed = server->evals = server->evalshas = 0;
        server->log[0] = '\0';
        for (size_t i = 0; i < COUNT_OF(probes); i++) {
            snprintf(key, sizeof key, "k%zu", i);
            ask_for(&probes[i], key, DEADLINE);
        }
        cdl_redis_client_flush(redis.client);
        run();
        for (size_t i = 0; i < COUNT_OF(probes); i++)
            assert_done(&probes[i], CDL_STORE_NONE);
        assert_int_equal(server->executed, COUNT_OF(probes));
        assert_int_equal(server->evals, 1);
        assert_int_equal(server->evalshas, 2 * COUNT_OF(probes) - 1);
        assert_int_equal(count_of(CDL_STORE_NOSCRIPT), (round + 1) * COUNT_OF(probes));
        for (size_t i = 0; i < COUNT_OF(probes); i++) {
            snprintf(key, sizeof key, "k%zu ", i);
            const char *at = strstr(server->log, key);
            assert_non_null(at);
            assert_null(strstr(at + 1, key));
        }
    }
}

static void a_script_that_is_always_forgotten_travels_with_its_call(void **state)
{
    struct probe probe = {0}, other = {0};
    (void)state;
    redis_connect();
    for (unsigned i = 0; i < 6; i++)
        server_can(server, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    ask_for(&other, "a", DEADLINE);
    ask(&probe, "b", DEADLINE);
    /* Even EVAL is said to be unknown: that is no server to ask for ever. */
    assert_done(&other, CDL_STORE_NOSCRIPT);
    assert_done(&probe, CDL_STORE_NOSCRIPT);
    assert_true(server->evals + server->evalshas <= 6);
}

static void a_script_is_not_brought_after_the_deadline(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server->mute = true;
    ask(&probe, "a", DEADLINE);
    advance(DEADLINE);
    assert_done(&probe, CDL_STORE_TIMEOUT);
    server->mute = false;
    run();
    assert_int_equal(server->evals, 0);
}

static void a_script_is_not_brought_when_the_word_comes_too_late(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis_connect();
    server->mute = true;
    ask(&probe, "a", DEADLINE);
    /* The reply is there before the loop has looked at the clock. */
    caudal_fake_clock_advance(redis.clock, DEADLINE);
    server->mute = false;
    server_speak(server);
    run();
    assert_done(&probe, CDL_STORE_NOSCRIPT);
    assert_int_equal(server->evals, 0);
}

/* ---- deadlines ---- */

static void calls_end_in_order_of_their_deadlines(void **state)
{
    static const int64_t deadlines[] = {30, 10, 20, 40, 5, 20, 50, 1};
    struct probe probes[COUNT_OF(deadlines)] = {0};
    (void)state;
    connect_with_script();
    server->mute = true;
    for (size_t i = 0; i < COUNT_OF(deadlines); i++)
        ask_for(&probes[i], "a", deadlines[i] * MILLISECOND);
    cdl_redis_client_flush(redis.client);
    advance(60 * MILLISECOND);
    for (size_t i = 0; i < COUNT_OF(deadlines); i++) {
        assert_done(&probes[i], CDL_STORE_TIMEOUT);
        assert_int_equal(probes[i].done_ns, EPOCH + deadlines[i] * MILLISECOND);
    }
    assert_int_equal(count_of(CDL_STORE_TIMEOUT), COUNT_OF(deadlines));
}

static void a_late_reply_is_nobodys(void **state)
{
    struct probe late = {0}, next = {0};
    (void)state;
    connect_with_script();
    server->mute = true;
    ask(&late, "late", DEADLINE);
    advance(DEADLINE);
    assert_done(&late, CDL_STORE_TIMEOUT);
    ask(&next, "next", DEADLINE);
    server->mute = false;
    run();
    assert_done(&next, CDL_STORE_NONE);
    assert_int_equal(next.integer, 2);
    assert_int_equal(late.done, 1);
    assert_int_equal(server->accepted, 1);
}

static void a_deadline_that_has_passed_ends_the_call_at_the_next_turn(void **state)
{
    struct probe probe = {0};
    (void)state;
    connect_with_script();
    server->mute = true;
    ask_for(&probe, "a", -1);
    assert_waits(&probe);
    run();
    assert_done(&probe, CDL_STORE_TIMEOUT);
}

/* ---- the breaker ---- */

static void time_out(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        struct probe probe = {0};
        ask(&probe, "t", DEADLINE);
        advance(DEADLINE);
        assert_done(&probe, CDL_STORE_TIMEOUT);
    }
}

static void time_outs_open_the_breaker_and_a_late_reply_closes_it(void **state)
{
    struct probe probe = {0};
    (void)state;
    connect_with_script();
    server->mute = true;
    time_out(2);
    assert_true(cdl_redis_client_is_up(redis.client));
    time_out(1);
    assert_false(cdl_redis_client_is_up(redis.client));
    const unsigned before = server->evalshas;
    ask_for(&probe, "a", DEADLINE);
    assert_waits(&probe);
    cdl_redis_client_flush(redis.client);
    assert_done(&probe, CDL_STORE_BREAKER);
    assert_int_equal(server->evalshas, before);
    assert_int_equal(count_of(CDL_STORE_BREAKER), 1);
    server->mute = false;
    run();
    assert_true(cdl_redis_client_is_up(redis.client));
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(server->accepted, 1);
}

static void time_outs_that_do_not_follow_each_other_open_nothing(void **state)
{
    struct probe probe = {0};
    (void)state;
    connect_with_script();
    for (unsigned round = 0; round < 3; round++) {
        server->mute = true;
        time_out(2);
        server->mute = false;
        run();
        ask(&probe, "a", DEADLINE);
        assert_done(&probe, CDL_STORE_NONE);
    }
}

static void a_refused_connection_opens_the_breaker_and_a_new_one_closes_it(void **state)
{
    struct probe waiting = {0}, later = {0};
    (void)state;
    server_close(server);
    connect_with_script();
    ask(&waiting, "a", DEADLINE);
    run();
    assert_int_equal(waiting.done, 1);
    assert_false(cdl_redis_client_is_up(redis.client));
    ask(&later, "a", DEADLINE);
    assert_done(&later, CDL_STORE_BREAKER);
    assert_true(count_of(CDL_STORE_CONNECT) >= 1);
    server_open(server);
    advance(500 * MILLISECOND);
    assert_true(cdl_redis_client_is_up(redis.client));
    ask(&later, "a", DEADLINE);
    assert_done(&later, CDL_STORE_NONE);
}

/* The pauses between attempts: at most twice as long each time, at most half a second, never less than half of that. */
static void pauses_between_attempts_grow_and_differ(void **state)
{
    int64_t pauses[40];
    unsigned attempts = 0, distinct = 0;
    int64_t last = EPOCH;
    (void)state;
    server_close(server);
    redis_connect();
    assert_int_equal(count_of(CDL_STORE_CONNECT), 1);
    while (attempts < COUNT_OF(pauses)) {
        const uint64_t before = count_of(CDL_STORE_CONNECT);
        assert_true(redis.alarm_ns < INT64_MAX);
        advance(redis.alarm_ns - now());
        if (count_of(CDL_STORE_CONNECT) == before)
            continue;
        pauses[attempts++] = now() - last;
        last = now();
    }
    for (unsigned i = 0; i < attempts; i++) {
        const int64_t longest = i < 5 ? (20 * MILLISECOND) << i : 500 * MILLISECOND;
        assert_in_range(pauses[i], longest / 2, longest);
        distinct += i > 5 && pauses[i] != pauses[i - 1];
    }
    assert_true(distinct > 20);
}

static void two_clients_do_not_keep_step(void **state)
{
    int64_t first;
    (void)state;
    server_close(server);
    redis_connect();
    advance(SECOND);
    first = redis.alarm_ns;
    cdl_redis_client_close(redis.client);
    caudal_fake_clock_set(redis.clock, EPOCH);
    redis_connect();
    advance(SECOND);
    assert_int_not_equal(first, redis.alarm_ns);
}

static void a_server_that_was_stopped_is_served_again_soon(void **state)
{
    struct probe probe = {0};
    int64_t worst = 0, back = 0;
    (void)state;
    connect_with_script();
    ask(&probe, "a", DEADLINE);
    server->stopped = true;
    for (int64_t began = now(); now() - began < 30 * SECOND;) {
        const int64_t asked = now();
        ask(&probe, "a", DEADLINE);
        advance(100 * MILLISECOND);
        assert_int_equal(probe.done, 1);
        assert_int_not_equal(probe.event, CDL_STORE_NONE);
        if (probe.done_ns - asked > worst)
            worst = probe.done_ns - asked;
    }
    assert_true(worst <= DEADLINE);
    assert_false(cdl_redis_client_is_up(redis.client));
    /* Those who waited in the kernel's queue are gone by the time that they are accepted. */
    server->stopped = false;
    for (const int64_t began = now(); back == 0 && now() - began < 5 * SECOND;) {
        ask(&probe, "a", DEADLINE);
        advance(20 * MILLISECOND);
        if (probe.event == CDL_STORE_NONE)
            back = now() - began;
    }
    assert_in_range(back, 1, SECOND);
    advance(SECOND);
    assert_int_equal(server->open, 1);
}

static void silence_of_a_second_ends_a_connection(void **state)
{
    struct probe probe = {0};
    (void)state;
    connect_with_script();
    advance(10 * SECOND);
    server->mute = true;
    ask(&probe, "a", DEADLINE);
    advance(SECOND - 1);
    assert_int_equal(server->accepted, 1);
    assert_int_equal(count_of(CDL_STORE_LOST), 0);
    advance(1);
    assert_int_equal(count_of(CDL_STORE_LOST), 1);
    server->mute = false;
    advance(5 * MILLISECOND);
    assert_int_equal(server->accepted, 2);
}

static void an_idle_connection_is_not_silent(void **state)
{
    struct probe probe = {0};
    (void)state;
    connect_with_script();
    ask(&probe, "a", DEADLINE);
    advance(HOUR);
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_int_equal(server->accepted, 1);
}

static void a_greeting_that_does_not_come_is_given_up(void **state)
{
    (void)state;
    server->stopped = true;
    redis_connect();
    advance(SECOND - 1);
    assert_int_equal(count_of(CDL_STORE_CONNECT), 0);
    advance(1);
    assert_int_equal(count_of(CDL_STORE_CONNECT), 1);
    assert_false(cdl_redis_client_is_up(redis.client));
}

static void a_greeting_that_is_refused_says_why(void **state)
{
    static char password[] = "secret";
    struct probe probe = {0};
    (void)state;
    server->greeting = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    server->stopped = true;
    redis.config.password = password;
    connect_with_script();
    ask(&probe, "a", DEADLINE);
    server->stopped = false;
    run();
    assert_done(&probe, CDL_STORE_WRONGPASS);
    assert_int_equal(count_of(CDL_STORE_WRONGPASS), 1);
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_BREAKER);
    server->greeting = NULL;
    advance(SECOND);
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
}

/* A server that takes every connection and ends it at once. */
static void a_server_that_hangs_up_is_not_hammered(void **state)
{
    (void)state;
    redis_connect();
    for (unsigned i = 0; i < 1000; i++) {
        server_hang_up(server);
        advance(10 * MILLISECOND);
    }
    /* Ten seconds; half a second at most between two. */
    assert_in_range(server->accepted, 20, 60);
    assert_int_equal(server->most_open, 1);
}

/* ---- READONLY ---- */

#define READONLY "-READONLY You can't write against a read only replica.\r\n"

static void readonly_leads_to_a_new_look_up_and_a_new_connection(void **state)
{
    struct probe probes[3] = {0};
    (void)state;
    snprintf(redis.config.seeds[0].host, sizeof redis.config.seeds[0].host, "primary.test");
    connect_with_script();
    advance(2 * SECOND);
    assert_int_equal(redis.look_ups, 1);
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        server_can(server, READONLY);
        ask_for(&probes[i], "a", DEADLINE);
    }
    cdl_redis_client_flush(redis.client);
    run();
    advance(5 * MILLISECOND);
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        assert_done(&probes[i], CDL_STORE_NONE);
    assert_int_equal(server->executed, 3);
    assert_int_equal(count_of(CDL_STORE_READONLY), 3);
    assert_int_equal(redis.look_ups, 2);
    assert_int_equal(server->accepted, 2);
    assert_int_equal(server->most_open, 1);
}

static void readonly_again_and_again_is_not_hammered(void **state)
{
    struct probe probe = {0};
    (void)state;
    connect_with_script();
    for (unsigned i = 0; i < 500; i++) {
        server->canned_first = server->canned_count = 0;
        for (unsigned tries = 0; tries < 8; tries++)
            server_can(server, READONLY);
        ask(&probe, "a", DEADLINE);
        advance(DEADLINE);
        assert_int_equal(probe.done, 1);
        assert_true(probe.event == CDL_STORE_READONLY || probe.event == CDL_STORE_BREAKER);
    }
    assert_in_range(server->accepted, 10, 60);
    assert_int_equal(server->executed, 0);
}

/* ---- names ---- */

static void a_name_that_is_not_found_is_looked_up_again(void **state)
{
    struct probe probe = {0};
    (void)state;
    snprintf(redis.config.seeds[0].host, sizeof redis.config.seeds[0].host, "primary.test");
    redis.unknown_names = true;
    connect_with_script();
    assert_int_equal(count_of(CDL_STORE_RESOLVE), 1);
    assert_false(cdl_redis_client_is_up(redis.client));
    redis.unknown_names = false;
    advance(20 * MILLISECOND);
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
}

/* The one that has served is the first to be tried the next time. */
static void a_name_may_have_addresses_that_are_dead(void **state)
{
    struct probe probes[2] = {0};
    (void)state;
    snprintf(redis.config.seeds[0].host, sizeof redis.config.seeds[0].host, "primary.test");
    redis.dead_addresses = 2;
    connect_with_script();
    advance(100 * MILLISECOND);
    assert_int_equal(count_of(CDL_STORE_CONNECT), 2);
    ask(&probes[0], "a", DEADLINE);
    assert_done(&probes[0], CDL_STORE_NONE);
    advance(2 * SECOND);
    server_hang_up(&redis.servers[0]);
    advance(100 * MILLISECOND);
    ask(&probes[1], "a", DEADLINE);
    assert_done(&probes[1], CDL_STORE_NONE);
    assert_int_equal(count_of(CDL_STORE_CONNECT), 2);
}

static void a_look_up_may_take_its_time_but_not_for_ever(void **state)
{
    struct probe probe = {0};
    (void)state;
    snprintf(redis.config.seeds[0].host, sizeof redis.config.seeds[0].host, "primary.test");
    redis.look_up_later = true;
    connect_with_script();
    assert_non_null(redis.looking);
    ask(&probe, "a", DEADLINE);
    advance(DEADLINE);
    assert_done(&probe, CDL_STORE_TIMEOUT);
    advance(SECOND);
    assert_int_equal(count_of(CDL_STORE_RESOLVE), 1);
    advance(20 * MILLISECOND);
    assert_non_null(redis.looking);
    struct sockaddr_storage address = {0};
    struct cdl_lookup_request *request = redis.looking;
    redis.looking = NULL;
    /* An address that no socket has. */
    cdl_redis_client_found(redis.client, request, (struct sockaddr *)&address, sizeof address);
    run();
    assert_int_equal(count_of(CDL_STORE_CONNECT), 1);
}

static void closing_forgets_a_look_up(void **state)
{
    (void)state;
    snprintf(redis.config.seeds[0].host, sizeof redis.config.seeds[0].host, "primary.test");
    redis.look_up_later = true;
    redis_connect();
    assert_non_null(redis.looking);
}

/* ---- bounds ---- */

static void more_than_may_be_in_flight_is_refused(void **state)
{
    struct probe probes[70] = {0};
    (void)state;
    connect_with_script();
    server->mute = true;
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        ask_for(&probes[i], "a", DEADLINE);
    cdl_redis_client_flush(redis.client);
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        if (i < 64)
            assert_waits(&probes[i]);
        else
            assert_done(&probes[i], CDL_STORE_OVERLOAD);
    assert_int_equal(count_of(CDL_STORE_OVERLOAD), 6);
    server->mute = false;
    run();
    assert_done(&probes[63], CDL_STORE_NONE);
}

static void more_than_may_wait_is_refused(void **state)
{
    struct probe probes[70] = {0};
    (void)state;
    server->stopped = true;
    connect_with_script();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        ask_for(&probes[i], "a", DEADLINE);
    cdl_redis_client_flush(redis.client);
    assert_waits(&probes[63]);
    assert_done(&probes[64], CDL_STORE_OVERLOAD);
    server->stopped = false;
    run();
    assert_done(&probes[63], CDL_STORE_NONE);
}

static void calls_are_spread_over_the_connections(void **state)
{
    struct probe probes[30] = {0};
    (void)state;
    redis.config.connections = 3;
    connect_with_script();
    assert_int_equal(server->open, 3);
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        server_can(server, ":1\r\n");
        ask_for(&probes[i], "a", DEADLINE);
    }
    server->mute = true;
    cdl_redis_client_flush(redis.client);
    run();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(server->peers[i].output_length, server->peers[0].output_length);
    server->mute = false;
    run();
    for (size_t i = 0; i < COUNT_OF(probes); i++)
        assert_done(&probes[i], CDL_STORE_NONE);
    server_hang_up(server);
    advance(2 * SECOND);
    assert_int_equal(server->open, 3);
    assert_int_equal(server->most_open, 3);
}

static void one_of_several_connections_may_be_lost(void **state)
{
    struct probe probe = {0};
    (void)state;
    redis.config.connections = 2;
    connect_with_script();
    advance(100 * MILLISECOND);
    server_can(server, HANG_UP);
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_LOST);
    assert_true(cdl_redis_client_is_up(redis.client));
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    advance(SECOND);
    assert_int_equal(server->open, 2);
    assert_int_equal(server->most_open, 2);
}

static void nothing_is_allocated_once_all_is_warm(void **state)
{
    struct probe probes[32] = {0};
    long before = 0;
    (void)state;
    redis.config.wait_replicas = 1;
    server->confirmed = ":1\r\n";
    connect_with_script();
    for (unsigned round = 0; round < 20; round++) {
        if (round == 2)
            before = redis.counting.calls;
        for (size_t i = 0; i < COUNT_OF(probes); i++)
            ask_for(&probes[i], "a", DEADLINE);
        cdl_redis_client_flush(redis.client);
        run();
    }
    assert_done(&probes[31], CDL_STORE_NONE);
    assert_int_equal(redis.counting.calls, before);
}

/* Every allocation fails once: what fails is told, nothing leaks, and the client goes on. */
static void memory_may_be_short(void **state)
{
    (void)state;
    for (long fail_at = 0; fail_at < 40; fail_at++) {
        struct probe probe = {0}, after = {0};
        redis_close();
        redis_open(1);
        redis.config.wait_replicas = 1;
        server->confirmed = ":1\r\n";
        server->has_script = true;
        redis.counting.fail_at = fail_at;
        if (!redis_try_connect())
            continue;
        ask(&probe, "a", DEADLINE);
        advance(SECOND);
        assert_int_equal(probe.done, 1);
        redis.counting.fail_at = -1;
        advance(2 * SECOND);
        ask(&after, "a", DEADLINE);
        assert_done(&after, CDL_STORE_NONE);
    }
}

/* ---- the end ---- */

static struct probe again;

static void ask_again(struct probe *probe)
{
    (void)probe;
    again.then = NULL;
    ask_for(&again, "again", DEADLINE);
}

static void done_may_hand_in_more(void **state)
{
    struct probe probe = {.then = ask_again};
    (void)state;
    connect_with_script();
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_NONE);
    assert_done(&again, CDL_STORE_NONE);
    /* Also when it failed at once. */
    server_close(server);
    advance(2 * SECOND);
    ask(&probe, "a", DEADLINE);
    assert_done(&probe, CDL_STORE_BREAKER);
    assert_done(&again, CDL_STORE_BREAKER);
}

static void closing_ends_every_call(void **state)
{
    struct probe flying[3] = {0}, unsent = {0}, paused = {0}, refused = {.then = NULL};
    (void)state;
    connect_with_script();
    server_can(server, "-LOADING Redis is loading the dataset in memory\r\n");
    ask(&paused, "a", DEADLINE);
    server->mute = true;
    flying[0].then = ask_again;
    for (size_t i = 0; i < COUNT_OF(flying); i++)
        ask(&flying[i], "a", DEADLINE);
    ask_for(&unsent, "a", DEADLINE);
    for (size_t i = 0; i < 64; i++) {
        static struct probe many[64];
        many[i].then = NULL;
        ask_for(&many[i], "a", DEADLINE);
    }
    ask_for(&refused, "a", DEADLINE);
    cdl_redis_client_close(redis.client);
    redis.client = NULL;
    for (size_t i = 0; i < COUNT_OF(flying); i++)
        assert_done(&flying[i], CDL_STORE_CLOSED);
    assert_done(&unsent, CDL_STORE_CLOSED);
    assert_done(&paused, CDL_STORE_CLOSED);
    assert_done(&refused, CDL_STORE_OVERLOAD);
    assert_done(&again, CDL_STORE_CLOSED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_call_is_answered),
        TEST(calls_wait_for_the_first_connection),
        TEST(the_first_connection_is_waited_for_until_the_deadline),
        TEST(commands_that_are_no_script_are_sent_as_they_are),
        TEST(errors_that_prove_nothing_end_the_call),
        TEST(errors_that_pass_are_waited_for),
        TEST(a_reply_may_be_cut_at_every_byte),
        TEST(bytes_that_are_no_reply_end_the_connection),
        TEST(a_connection_that_ends_loses_what_has_left),
        TEST(what_has_not_left_is_sent_on_a_new_connection),
        TEST(a_forgotten_script_is_brought_by_one_call),
        TEST(a_script_that_is_always_forgotten_travels_with_its_call),
        TEST(a_script_is_not_brought_after_the_deadline),
        TEST(a_script_is_not_brought_when_the_word_comes_too_late),
        TEST(calls_end_in_order_of_their_deadlines),
        TEST(a_late_reply_is_nobodys),
        TEST(a_deadline_that_has_passed_ends_the_call_at_the_next_turn),
        TEST(time_outs_open_the_breaker_and_a_late_reply_closes_it),
        TEST(time_outs_that_do_not_follow_each_other_open_nothing),
        TEST(a_refused_connection_opens_the_breaker_and_a_new_one_closes_it),
        TEST(pauses_between_attempts_grow_and_differ),
        TEST(two_clients_do_not_keep_step),
        TEST(a_server_that_was_stopped_is_served_again_soon),
        TEST(silence_of_a_second_ends_a_connection),
        TEST(an_idle_connection_is_not_silent),
        TEST(a_greeting_that_does_not_come_is_given_up),
        TEST(a_greeting_that_is_refused_says_why),
        TEST(a_server_that_hangs_up_is_not_hammered),
        TEST(readonly_leads_to_a_new_look_up_and_a_new_connection),
        TEST(readonly_again_and_again_is_not_hammered),
        TEST(a_name_that_is_not_found_is_looked_up_again),
        TEST(a_name_may_have_addresses_that_are_dead),
        TEST(a_look_up_may_take_its_time_but_not_for_ever),
        TEST(closing_forgets_a_look_up),
        TEST(more_than_may_be_in_flight_is_refused),
        TEST(more_than_may_wait_is_refused),
        TEST(calls_are_spread_over_the_connections),
        TEST(one_of_several_connections_may_be_lost),
        TEST(nothing_is_allocated_once_all_is_warm),
        TEST(memory_may_be_short),
        TEST(done_may_hand_in_more),
        TEST(closing_ends_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
