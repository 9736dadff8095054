/* Limits through the front end for Redis clients: those that come with the call, and the policy's. */
#include <stdlib.h>
#include <unistd.h>

#include "../resp_client.h"
#include "../server_bed.h"
#include "server/resp.h"

static int setup(void **state)
{
    (void)state;
    resp_begin();
    bed_open(&cdl_resp_protocol);
    bed_answer_at_once();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bed_close();
    return 0;
}

/* ---- limits that come with the call ---- */

static void C79_a_fresh_key_is_told_what_a_redis_with_the_module_tells(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_ask(fd, "CL.THROTTLE user123 15 30 60", "[0 16 15 -1 2]");
    resp_ask(fd, "CL.THROTTLE user123 15 30 60 1", "[0 16 14 -1 4]");
    world_advance(&bed.world, 1);
    resp_ask(fd, "cl.throttle user123 15 30 60", "[0 16 13 -1 6]"); /* a nanosecond does not make it less */
    close(fd);
}

static void the_sixth_hit_of_five_is_told_when_to_come_back(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    for (int i = 1; i <= 5; i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "[0 5 %d -1 %d]", 5 - i, 10 * i);
        resp_ask(fd, "CL.THROTTLE k 4 1 10", wanted);
    }
    resp_ask(fd, "CL.THROTTLE k 4 1 10", "[1 5 0 10 50]");
    world_advance(&bed.world, 10 * SECOND - 1);
    resp_ask(fd, "CL.THROTTLE k 4 1 10", "[1 5 0 1 41]");
    world_advance(&bed.world, 1);
    resp_ask(fd, "CL.THROTTLE k 4 1 10", "[0 5 0 -1 50]");
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 6);
    assert_int_equal(bed_counted(CDL_COUNTED_DENY, CAUDAL_SOURCE_STORE), 2);
    close(fd);
}

static uint64_t keys_in_store(void)
{
    struct caudal_store_stats stats = {.size = sizeof stats};
    assert_int_equal(caudal_store_stats(bed.store.memory, &stats), CAUDAL_OK);
    return stats.inserted;
}

static void C01_more_than_ever_fits_is_refused_for_good(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_ask(fd, "CL.THROTTLE k 4 1 10 6", "[1 5 5 -1 0]");
    resp_ask(fd, "CL.THROTTLE k 2 1 2 9223372036854775807", "[1 3 3 -1 0]");
    assert_int_equal(keys_in_store(), 0);
    resp_ask(fd, "CL.THROTTLE k 2 3 2 1", "[0 3 2 -1 1]");
    close(fd);
}

static void C27_numbers_that_are_no_limit_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *command, *error;
    } cases[] = {
        {"CL.THROTTLE test 0 0 60 1", "ERR count: 0 is below 1"},
        {"CL.THROTTLE test 0 0 60 1", "ERR count: 0 is below 1"},
        {"CL.THROTTLE test 0 -5 60", "ERR count: -5 is below 1"},
        {"CL.THROTTLE test 0 1 0", "ERR period: 0 is below 1"},
        {"CL.THROTTLE test 0 1 -60", "ERR period: -60 is below 1"},
        {"CL.THROTTLE test -1 1 60", "ERR max_burst: -1 is below 0"},
        {"CL.THROTTLE test x 1 60", "ERR max_burst: 'x' is not a whole number"},
        {"CL.THROTTLE test 1.5 1 60", "ERR max_burst: '1.5' is not a whole number"},
        {"CL.THROTTLE test 1 1 60 -1", "ERR quantity: -1 is below 0"},
        {"CL.THROTTLE test 1 1 60 many", "ERR quantity: 'many' is not a whole number"},
        {"CL.THROTTLE test 99999999999999999999 1 60", "ERR max_burst: 99999999999999999999 is above 1099511627775"},
        {"CL.THROTTLE test 1099511627776 1 60", "ERR max_burst: 1099511627776 is above 1099511627775"},
        {"CL.THROTTLE test 1 9223372036854775808 60", "ERR count: 9223372036854775808 is above 9223372036854775807"},
        {"CL.THROTTLE test 1 1 3155760001", "ERR period: 3155760001 is above 3155760000"},
        {"CL.THROTTLE test 1 2000000000 1", "ERR count: a rate of 2000000000 per 1000000000 ns is above 1000000000 a "
                                            "second; give a smaller count or a longer period"},
        {"CL.THROTTLE test 99999999 1 86400",
         "ERR max_burst: a burst of 100000000 at 1 per 86400000000000 ns takes above 100 years to refill; give a "
         "smaller burst or a higher rate"},
        {"CL.THROTTLE test 1 1", "ERR wrong number of arguments for 'cl.throttle' command"},
        {"CL.THROTTLE test 1 1 1 1 1", "ERR wrong number of arguments for 'cl.throttle' command"},
    };
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char wanted[512];
        snprintf(wanted, sizeof wanted, "error '%s'", cases[i].error);
        resp_ask(fd, cases[i].command, wanted);
    }
    assert_int_equal(keys_in_store(), 0);
    resp_ask(fd, "CL.THROTTLE test 0 1 60", "[0 1 0 -1 60]");
    close(fd);
}

static void C30_a_quantity_of_zero_looks_and_spends_nothing(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_ask(fd, "CL.THROTTLE k 0 1 3600 0", "[0 1 1 -1 0]");
    resp_ask(fd, "CL.THROTTLE k 0 1 3600 1", "[0 1 0 -1 3600]");
    resp_ask(fd, "CL.THROTTLE k 0 1 3600 0", "[0 1 0 -1 3600]");
    resp_ask(fd, "CL.THROTTLE k 0 1 3600", "[1 1 0 3600 3600]");
    assert_int_equal(bed_counted(CDL_COUNTED_ALLOW, CAUDAL_SOURCE_STORE), 1); /* looks are not counted */
    close(fd);
}

static void C24_rates_above_the_seconds_are_kept(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_ask(fd, "CL.THROTTLE k 0 2000 1", "[0 1 0 -1 1]");
    world_advance(&bed.world, 500 * MICROSECOND - 1);
    resp_ask(fd, "CL.THROTTLE k 0 2000 1", "[1 1 0 1 1]");
    world_advance(&bed.world, 1);
    resp_ask(fd, "CL.THROTTLE k 0 2000 1", "[0 1 0 -1 1]");
    resp_ask(fd, "CL.THROTTLE m 6000 1000000000 1 6001", "[0 6001 0 -1 1]");
    close(fd);
}

static void C61_less_than_one_per_second(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    for (int i = 0; i < 3; i++) {
        resp_ask(fd, "CL.THROTTLE k 0 1 90", "[0 1 0 -1 90]");
        world_advance(&bed.world, 90 * SECOND);
    }
    resp_ask(fd, "CL.THROTTLE three 2 1 2 3", "[0 3 0 -1 6]");
    world_advance(&bed.world, 6 * SECOND - 1);
    resp_ask(fd, "CL.THROTTLE three 2 1 2 3", "[1 3 2 1 1]");
    world_advance(&bed.world, 1);
    resp_ask(fd, "CL.THROTTLE three 2 1 2 3", "[0 3 0 -1 6]");
    close(fd);
}

/* A command with a key of any bytes. */
static void ask_about_key(int fd, struct cdl_slice key, const char *wanted)
{
    char head[64];
    const int length = snprintf(head, sizeof head, "*5\r\n$11\r\nCL.THROTTLE\r\n$%zu\r\n", key.length);
    bed_say(fd, (struct cdl_slice){head, (size_t)length});
    bed_say(fd, key);
    bed_say(fd, CDL_SLICE("\r\n$1\r\n1\r\n$1\r\n1\r\n$2\r\n60\r\n"));
    resp_assert_reply(fd, wanted);
}

static void C75_odd_keys_are_keys_of_their_own(void **state)
{
    (void)state;
    static char keys[2][CAUDAL_KEY_MAX + 1];
    const size_t longest = CAUDAL_KEY_MAX - 7;
    memset(keys, 'x', sizeof keys);
    keys[1][longest - 1] = 'y';
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    const struct cdl_slice odd[] = {
        CDL_SLICE("a"),     CDL_SLICE("a\0"),  CDL_SLICE("a\0b"),     CDL_SLICE(""),
        CDL_SLICE("\r\n"),  CDL_SLICE(" "),    CDL_SLICE("\xff\xfe"), CDL_SLICE("\xf0\x9f\x8c\x8a"),
        {keys[0], longest}, {keys[1], longest}};
    for (size_t i = 0; i < COUNT_OF(odd); i++)
        ask_about_key(fd, odd[i], "[0 2 1 -1 60]");
    for (size_t i = 0; i < COUNT_OF(odd); i++)
        ask_about_key(fd, odd[i], "[0 2 0 -1 120]");
    ask_about_key(fd, (struct cdl_slice){keys[0], longest + 1}, "error 'ERR key: longer than 65529 bytes'");
    resp_ask(fd, "PING", "'PONG'");
    close(fd);
}

static void other_shapes_are_there_when_they_are_asked_for(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_ask(fd, "THROTTLE k 10 100 60",
             "error 'ERR unknown command 'THROTTLE', with args beginning with: 'k' '10' '100' '60' '");
    resp_ask(fd, "GCRA k 5 10 60", "error 'ERR unknown command 'GCRA', with args beginning with: 'k' '5' '10' '60' '");
    bed_apply(RESP_LIMITS "resp: {commands: [throttle, gcra]}\n");
    resp_ask(fd, "CL.THROTTLE k 1 1 1",
             "error 'ERR unknown command 'CL.THROTTLE', with args beginning with: 'k' '1' '1' '1' '");
    resp_ask(fd, "THROTTLE k 3 10 60", "[1 3 2 6 0]");
    resp_ask(fd, "THROTTLE k 3 10 60 2", "[1 3 0 18 0]");
    resp_ask(fd, "THROTTLE k 3 10 60", "[0 3 0 18 6]");
    resp_ask(fd, "THROTTLE k 3 10 60 4", "[0 3 0 18 -1]");
    resp_ask(fd, "THROTTLE k 0 10 60", "error 'ERR max_burst: 0 is below 1'");
    resp_ask(fd, "THROTTLE k 1 0 60", "error 'ERR count_per_period: 0 is below 1'");
    resp_ask(fd, "GCRA g 5 10 60", "[0 6 5 -1 6]");
    resp_ask(fd, "GCRA g 5 10 60 TOKENS 3", "[0 6 2 -1 24]");
    resp_ask(fd, "GCRA g 5 10 60 tokens 0", "[0 6 2 -1 24]");
    resp_ask(fd, "GCRA g 5 10 60 TOKENS 3", "[1 6 2 6 24]");
    resp_ask(fd, "GCRA half 0 1 0.5", "[0 1 0 -1 1]");
    world_advance(&bed.world, 500 * MILLISECOND - 1);
    resp_ask(fd, "GCRA half 0 1 0.5", "[1 1 0 1 1]");
    world_advance(&bed.world, 1);
    resp_ask(fd, "GCRA half 0 1 0.50000000000", "[0 1 0 -1 1]");
    resp_ask(fd, "GCRA g 5 10 60 COST 3", "error 'ERR expected TOKENS, found 'COST''");
    resp_ask(fd, "GCRA g 5 10 60 TOKENS", "error 'ERR wrong number of arguments for 'gcra' command'");
    resp_ask(fd, "GCRA g 5 10 0.0000000001", "error 'ERR period: '0.0000000001' is finer than a nanosecond'");
    resp_ask(fd, "GCRA g 5 10 0.0", "error 'ERR period: '0.0' is not above 0 and at most 100 years'");
    resp_ask(fd, "GCRA g 5 10 99999999999999999999",
             "error 'ERR period: '99999999999999999999' is not above 0 and at most 100 years'");
    resp_ask(fd, "GCRA g 5 10 1e3", "error 'ERR period: '1e3' is not a number of seconds'");
    resp_ask(fd, "GCRA g 5 0 1", "error 'ERR tokens-per-period: 0 is below 1'");
    close(fd);
}

/* ---- the policy's limits ---- */

static void one_limit_by_its_name(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_ask(
        fd, "CAUDAL.TAKE one 192.0.2.1 COST 2",
        "['verdict' 'allow' 'limit' 'one' 'remaining' 1 'capacity' 3 'granted' 2 'retry_after' 0 'retry_after_ns' 0 "
        "'reset_after_ns' 40000000000 'source' 'store' 'error_bound' 0]");
    resp_say(fd, "HELLO 3");
    resp_assert_has(fd, "'proto' 3");
    resp_ask(
        fd, "caudal.take one 192.0.2.1 cost 2",
        "map['verdict' 'deny' 'limit' 'one' 'remaining' 1 'capacity' 3 'granted' 0 'retry_after' 20 'retry_after_ns' "
        "20000000000 'reset_after_ns' 40000000000 'source' 'store' 'error_bound' 0]");
    resp_ask(fd, "CAUDAL.TAKE one 192.0.2.1 COST 4",
             "map['verdict' 'never' 'limit' 'one' 'remaining' 1 'capacity' 3 'granted' 0 'retry_after' null "
             "'retry_after_ns' null 'reset_after_ns' 40000000000 'source' 'store' 'error_bound' 0]");
    resp_say(fd, "CAUDAL.PEEK one 192.0.2.1");
    resp_assert_has(fd, "'verdict' 'allow' 'limit' 'one' 'remaining' 0 'capacity' 3 'granted' 0");
    resp_say(fd, "CAUDAL.REFUND one 192.0.2.1");
    resp_assert_has(fd, "'verdict' 'allow' 'limit' 'one' 'remaining' 2");
    resp_say(fd, "CAUDAL.TAKE pair COST 5"); /* two parts, not a cost */
    resp_assert_has(fd, "'limit' 'pair' 'remaining' 9");
    resp_say(fd, "CAUDAL.TAKE pair COST 5 COST 9");
    resp_assert_has(fd, "'limit' 'pair' 'remaining' 0");
    resp_say(fd, "CAUDAL.TAKE all");
    resp_assert_has(fd, "'limit' 'all' 'remaining' 1");
    close(fd);
}

static void what_is_no_question_is_told_why(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_ask(fd, "CAUDAL.TAKE none x", "error 'ERR unknown limit 'none''");
    resp_ask(fd, "CAUDAL.TAKE /per-call x", "error 'ERR unknown limit '/per-call''");
    resp_ask(fd, "CAUDAL.TAKE one", "error 'ERR a key of limit 'one' has parts: 1, not 0'");
    resp_ask(fd, "CAUDAL.PEEK pair a", "error 'ERR a key of limit 'pair' has parts: 2, not 1'");
    resp_ask(fd, "CAUDAL.TAKE one a COST", "error 'ERR a key of limit 'one' has parts: 1, not 2'");
    resp_ask(fd, "CAUDAL.TAKE one a COST -1", "error 'ERR COST: '-1' is not a whole number of 64 bits'");
    resp_ask(fd, "CAUDAL.TAKE one a COST 9223372036854775808",
             "error 'ERR COST: '9223372036854775808' is not a whole number of 64 bits'");
    resp_ask(fd, "CAUDAL.RESET one a COST 1", "error 'ERR a key of limit 'one' has parts: 1, not 3'");
    resp_ask(fd, "CAUDAL.TAKE", "error 'ERR wrong number of arguments for 'caudal.take' command'");
    bed_say(fd, CDL_SLICE("caudal.take one \"\"\r\ncaudal.take \"a\\x00b\"\r\n"));
    resp_assert_reply(fd, "error 'ERR key: part 1 is empty, which would be one bucket for all who have none'");
    resp_assert_reply(fd, "error 'ERR unknown limit 'a?b''");
    resp_ask(fd, "CAUDAL.CHECK path", "error 'ERR the attribute 'path' has no value'");
    resp_ask(fd, "CAUDAL.CHECK path /a path /b", "error 'ERR the attribute 'path' is given twice'");
    resp_ask(fd, "CAUDAL.CHECK path /a COST x", "error 'ERR COST: 'x' is not a whole number of 64 bits'");
    char many[4096] = "CAUDAL.CHECK";
    for (int i = 0; i <= CDL_JSON_ATTRIBUTES_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), " a%d x", i);
    resp_ask(fd, many, "error 'ERR more than 64 attributes'");
    close(fd);
}

static void the_whole_policy(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "HELLO 3");
    resp_reply(fd);
    resp_say(fd, "CAUDAL.CHECK client_ip 192.0.2.1 path /x COST 2");
    const char *reply = resp_reply(fd);
    assert_non_null(strstr(reply, "map['verdict' 'allow' 'limit' 'all' 'remaining' 0"));
    assert_non_null(strstr(reply, "'limits' [map['verdict' 'allow' 'limit' 'one' 'remaining' 1"));
    resp_say(fd, "CAUDAL.CHECK client_ip 192.0.2.1 path /x");
    reply = resp_reply(fd);
    assert_non_null(strstr(reply, "map['verdict' 'deny' 'limit' 'all' 'remaining' 0"));
    assert_non_null(strstr(reply, "'limit' 'one' 'remaining' 1")); /* a refused request spends nothing */
    resp_ask(
        fd, "CAUDAL.CHECK path /x",
        "map['verdict' 'never' 'limit' 'one' 'remaining' null 'capacity' null 'granted' 0 'retry_after' null "
        "'retry_after_ns' null 'reset_after_ns' null 'source' 'policy' 'error_bound' null 'reason' 'limit 'one' counts "
        "by client_ip, which the request does not have' 'limits' []]");
    bed_apply("limits:\n  - {name: other, when: {path: /other}, rate: 1/min}\n");
    resp_ask(fd, "CAUDAL.CHECK",
             "map['verdict' 'allow' 'limit' null 'remaining' null 'capacity' null 'granted' 0 'retry_after' 0 "
             "'retry_after_ns' 0 'reset_after_ns' 0 'source' 'store' 'error_bound' 0 'limits' []]");
    close(fd);
}

static void what_applies_and_why(void **state)
{
    (void)state;
    bed_apply("exempt:\n  - {path: /healthz}\n" RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "HELLO 3");
    resp_reply(fd);
    resp_ask(
        fd, "CAUDAL.EXPLAIN client_ip 192.0.2.1 path /y",
        "map['outcome' 'limited' 'limits' ["
        "map['limit' 'one' 'applies' true 'why' 'applies to every request' 'rate' '3/min' 'promise' 'at most 3 at "
        "once, "
        "then one every 20 seconds; up to 6 in one minute' 'mode' 'enforce' 'sharing' 'strict' 'key' map['client_ip' "
        "'192.0.2.1'] 'cost' 1] "
        "map['limit' 'pair' 'applies' false 'why' 'does not apply: the request has no tenant, and if_missing is skip' "
        "'rate' '10/h' 'promise' 'at most 10 at once, then one every 6 minutes; up to 20 in one hour' 'mode' 'enforce' "
        "'sharing' 'strict'] "
        "map['limit' 'all' 'applies' false 'why' 'does not apply: path is /y, not /x' 'rate' '2/h' 'promise' 'at most "
        "2 at once, then one every 30 minutes; up to 4 in one hour' 'mode' 'enforce' 'sharing' 'strict']] "
        "'not_shown' 0]");
    resp_say(fd, "CAUDAL.EXPLAIN path /healthz");
    resp_assert_has(fd, "map['outcome' 'exempt' 'exempt' 'path is /healthz'");
    resp_say(fd, "CAUDAL.EXPLAIN");
    resp_assert_has(fd,
                    "map['outcome' 'missing identity' 'refused_by' 'one' 'limits' [map['limit' 'one' 'applies' true");
    assert_int_equal(keys_in_store(), 0);
    close(fd);
}

/* Texts are cut, and of many limits the first are shown, so the reply fits whatever the policy and the request. */
static void the_explanation_of_a_large_policy_is_bounded(void **state)
{
    (void)state;
    const size_t size = (size_t)1 << 20;
    char *policy = malloc(size);
    assert_non_null(policy);
    struct cdl_writer writer = cdl_writer_on(policy, size - 1);
    cdl_write_text(&writer, "limits:\n");
    for (int i = 0; i < 300; i++)
        cdl_writef(&writer, "  - {name: %060d, when: {plan: p%d}, per: [tenant], rate: 3/min}\n", i, i % 10);
    writer.bytes[writer.length] = '\0';
    bed_apply(policy);
    free(policy);
    const int fd = bed_connect();
    resp_say(fd, "CAUDAL.EXPLAIN plan p7 tenant a"); /* 30 of them apply, and 64 others are told */
    resp_assert_has(fd, "'not_shown' 206]");
    close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(C79_a_fresh_key_is_told_what_a_redis_with_the_module_tells),
        CASE(the_sixth_hit_of_five_is_told_when_to_come_back),
        CASE(C01_more_than_ever_fits_is_refused_for_good),
        CASE(C27_numbers_that_are_no_limit_are_named),
        CASE(C30_a_quantity_of_zero_looks_and_spends_nothing),
        CASE(C24_rates_above_the_seconds_are_kept),
        CASE(C61_less_than_one_per_second),
        CASE(C75_odd_keys_are_keys_of_their_own),
        CASE(other_shapes_are_there_when_they_are_asked_for),
        CASE(one_limit_by_its_name),
        CASE(what_is_no_question_is_told_why),
        CASE(the_whole_policy),
        CASE(what_applies_and_why),
        CASE(the_explanation_of_a_large_policy_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
