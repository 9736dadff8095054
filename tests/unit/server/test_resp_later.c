/* Commands of Redis clients whose store answers later, when the test says so. */
#include <sys/socket.h>
#include <unistd.h>

#include "../resp_client.h"
#include "../server_bed.h"
#include "server/resp.h"

static int setup(void **state)
{
    (void)state;
    resp_begin();
    bed_open(&cdl_resp_protocol);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bed_close();
    return 0;
}

/* ---- a store that answers later ---- */

static void replies_keep_their_order_whatever_the_store_does(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "CL.THROTTLE a 0 1 60");
    resp_say(fd, "CL.THROTTLE b 1 1 60");
    resp_say(fd, "PING");
    resp_say(fd, "CL.THROTTLE x");
    resp_say(fd, "CAUDAL.TAKE one c");
    bed_until_asked(3); /* all of them travel at once */
    later_answer(&bed.store, 1);
    bed_assert_silent(fd);
    later_answer(&bed.store, 0);
    resp_assert_reply(fd, "[0 1 0 -1 60]");
    resp_assert_reply(fd, "[0 2 1 -1 60]");
    resp_assert_reply(fd, "'PONG'");
    resp_assert_has(fd, "error 'ERR wrong number of arguments");
    bed_assert_silent(fd);
    later_answer(&bed.store, 0);
    resp_assert_has(fd, "'verdict' 'allow' 'limit' 'one'");
    resp_ask(fd, "PING", "'PONG'");
    close(fd);
}

static void what_the_store_answers_in_one_turn_is_told_in_one_piece(void **state)
{
    (void)state;
    char text[4096];
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    for (int i = 0; i < 16; i++)
        resp_say(fd, "CL.THROTTLE k 99 1 60");
    bed_until_asked(16);
    later_answer_all(&bed.store);
    assert_int_equal(recv(fd, text, sizeof text, 0), -1);
    bed_turn();
    const ssize_t got = recv(fd, text, sizeof text - 1, 0);
    assert_true(got > 0);
    text[got] = '\0';
    assert_non_null(strstr(text, "*5\r\n:0\r\n:100\r\n:84\r\n:-1\r\n:960\r\n")); /* the last of them */
    close(fd);
}

static void each_reply_is_in_the_protocol_of_its_command(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "CAUDAL.TAKE one a");
    resp_say(fd, "HELLO 3");
    resp_say(fd, "CAUDAL.TAKE one a");
    bed_until_asked(2);
    later_answer_all(&bed.store);
    resp_assert_has(fd, "['verdict' 'allow' 'limit' 'one' 'remaining' 2");
    resp_assert_has(fd, "map['server'");
    resp_assert_has(fd, "map['verdict' 'allow' 'limit' 'one' 'remaining' 1");
    close(fd);
}

static void what_waits_is_bounded_and_goes_on(void **state)
{
    (void)state;
    enum {
        COMMANDS = 300
    };
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    for (int i = 0; i < COMMANDS; i++)
        resp_say(fd, "CL.THROTTLE k 999 1 60");
    bed_until_asked(CDL_RESP_OWED_MAX);
    bed_turn_a_while();
    assert_int_equal(bed.store.count, CDL_RESP_OWED_MAX);
    for (int i = 0; i < COMMANDS; i++) {
        char wanted[64];
        for (unsigned j = 0; j < BED_PATIENCE && bed.store.count == 0; j++)
            bed_turn();
        later_answer(&bed.store, 0);
        assert_true(bed.store.count <= CDL_RESP_OWED_MAX);
        snprintf(wanted, sizeof wanted, "[0 1000 %d -1 %d]", 999 - i, 60 * (i + 1));
        resp_assert_reply(fd, wanted);
    }
    resp_ask(fd, "PING", "'PONG'");
    close(fd);
}

/* Replies that are there already take room while they wait. */
static void long_replies_behind_one_that_waits_are_bounded(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "CL.THROTTLE k 0 1 60");
    for (int i = 0; i < 200; i++)
        resp_say(fd, "COMMAND DOCS");
    bed_until_asked(1);
    bed_turn_a_while();
    later_answer(&bed.store, 0);
    resp_assert_reply(fd, "[0 1 0 -1 60]");
    for (int i = 0; i < 200; i++)
        resp_assert_has(fd, "'cl.throttle' ['summary'");
    close(fd);
}

static void a_store_that_is_away_is_told_as_the_policy_chooses(void **state)
{
    (void)state;
    bed_apply("limits:\n  - {name: open, rate: 5/hour}\n  - {name: closed, rate: 5/hour, on_store_failure: deny}\n");
    const int fd = bed_connect();
    static const struct {
        const char *command, *wanted;
    } cases[] = {
        {"CL.THROTTLE k 4 1 10", "[0 5 -1 -1 -1]"},
        {"CAUDAL.TAKE open",
         "['verdict' 'allow' 'limit' 'open' 'remaining' null 'capacity' null 'granted' 0 'retry_after' 0 "
         "'retry_after_ns' 0 'reset_after_ns' null 'source' 'failure_policy' 'error_bound' null]"},
        {"CAUDAL.TAKE closed", "error 'UNAVAILABLE limit 'closed': the store cannot be reached, and the limit is to "
                               "refuse then'"},
        {"CAUDAL.CHECK", "error 'UNAVAILABLE limit 'closed': the store cannot be reached, and the limit is to refuse "
                         "then'"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        resp_say(fd, cases[i].command);
        bed_until_asked(1);
        later_fail_all(&bed.store);
        resp_assert_reply(fd, cases[i].wanted);
    }
    bed_apply(RESP_LIMITS "resp: {on_store_failure: deny, commands: [cl.throttle, throttle]}\n");
    resp_say(fd, "CL.THROTTLE k 4 1 10");
    resp_say(fd, "THROTTLE k 4 1 10");
    bed_until_asked(2);
    later_fail_all(&bed.store);
    for (int i = 0; i < 2; i++)
        resp_assert_reply(fd, "error 'UNAVAILABLE the store cannot be reached, and the limit is to refuse then'");
    bed_apply(RESP_LIMITS "resp: {on_store_failure: local}\ninstances: 2\n");
    resp_say(fd, "CL.THROTTLE k 9 1 10");
    bed_until_asked(1);
    later_fail_all(&bed.store);
    resp_assert_reply(fd, "[0 5 4 -1 20]"); /* half of it */
    close(fd);
}

static void what_was_asked_is_counted_though_its_client_is_gone(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "CL.THROTTLE a 0 1 60");
    resp_say(fd, "PING");
    resp_say(fd, "CL.THROTTLE b 0 1 60");
    bed_until_asked(2);
    later_answer(&bed.store, 1);
    bed_reset(fd);
    for (unsigned i = 0; i < BED_PATIENCE && atomic_load(&bed.worker.loop.open) > 0; i++)
        bed_turn();
    later_answer_all(&bed.store);
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 2);
}

static void the_last_words_wait_for_those_before_them(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect(), bad = bed_connect(), half = bed_connect();
    resp_say(fd, "CL.THROTTLE a 0 1 60");
    resp_say(fd, "QUIT");
    resp_say(fd, "CL.THROTTLE a 0 1 60");
    resp_say(bad, "CL.THROTTLE b 0 1 60");
    bed_say(bad, CDL_SLICE("*-2\r\nmore"));
    resp_say(half, "CL.THROTTLE c 0 1 60");
    bed_until_asked(3);
    shutdown(half, SHUT_WR);
    bed_turn_a_while();
    later_answer_all(&bed.store);
    resp_assert_reply(fd, "[0 1 0 -1 60]");
    resp_assert_reply(fd, "'OK'");
    resp_assert_ends(fd);
    resp_assert_reply(bad, "[0 1 0 -1 60]");
    resp_assert_reply(bad, "error 'ERR Protocol error: invalid multibulk length'");
    resp_assert_ends(bad);
    resp_assert_reply(half, "[0 1 0 -1 60]");
    resp_assert_ends(half);
    assert_int_equal(bed.store.asked, 3);
}

static void a_key_is_reset_without_holding_up_the_loop(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "CAUDAL.TAKE one 192.0.2.1 COST 3");
    bed_until_asked(1);
    later_answer_all(&bed.store);
    resp_assert_has(fd, "'remaining' 0");
    resp_say(fd, "CAUDAL.RESET one 192.0.2.1");
    resp_say(fd, "PING");
    resp_assert_has(fd, "'verdict' 'allow' 'limit' 'one' 'remaining' 3 'capacity' 3");
    resp_assert_reply(fd, "'PONG'");
    bed.store.is_away = true;
    resp_say(fd, "CAUDAL.RESET one 192.0.2.1");
    resp_assert_has(fd, "error 'UNAVAILABLE limit 'one': ");
    resp_say(fd, "CAUDAL.RESET one 192.0.2.1");
    bed_turn();
    bed_reset(fd); /* what is on its way comes back to nobody */
    for (unsigned i = 0; i < BED_PATIENCE && (atomic_load(&bed.worker.loop.open) > 0 || bed.worker.asker.waiting > 0);
         i++)
        bed_turn();
    assert_int_equal(bed.worker.asker.waiting, 0);
}

static void C100_what_is_in_flight_at_the_end_is_answered(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect(), idle = bed_connect();
    resp_ask(idle, "PING", "'PONG'");
    resp_say(fd, "CL.THROTTLE a 0 1 60");
    resp_say(fd, "CL.THROTTLE b 0 1 60");
    bed_until_asked(2);
    atomic_store(&bed.server.draining, true);
    resp_ask(idle, "PING", "'PONG'"); /* there are no words to ask a client to go elsewhere */
    atomic_store(&bed.server.stopping, true);
    cdl_loop_quiesce(&bed.worker.loop);
    resp_assert_ends(idle);
    resp_say(fd, "CL.THROTTLE c 0 1 60");
    bed_turn_a_while();
    later_answer(&bed.store, 0);
    later_answer(&bed.store, 0);
    resp_assert_reply(fd, "[0 1 0 -1 60]");
    resp_assert_reply(fd, "[0 1 0 -1 60]");
    resp_assert_ends(fd);
    assert_int_equal(bed.store.asked, 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(replies_keep_their_order_whatever_the_store_does),
        CASE(what_the_store_answers_in_one_turn_is_told_in_one_piece),
        CASE(each_reply_is_in_the_protocol_of_its_command),
        CASE(what_waits_is_bounded_and_goes_on),
        CASE(long_replies_behind_one_that_waits_are_bounded),
        CASE(a_store_that_is_away_is_told_as_the_policy_chooses),
        CASE(what_was_asked_is_counted_though_its_client_is_gone),
        CASE(the_last_words_wait_for_those_before_them),
        CASE(a_key_is_reset_without_holding_up_the_loop),
        CASE(C100_what_is_in_flight_at_the_end_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
