/* Replies to Redis clients, in both protocols; the reader of replies reads what is written. */
#include "wire/resp_write.h"

#include "../support.h"
#include "wire/resp_reply.h"

static char memory[512];
static struct cdl_writer writer;

static void begin(void)
{
    writer = cdl_writer_on(memory, sizeof memory);
}

static void assert_written(const char *text)
{
    assert_false(writer.overflow);
    if (!cdl_slice_equal(cdl_written(&writer), cdl_slice_of(text)))
        fail_msg("got '%.*s', want '%s'", CDL_SLICE_ARG(cdl_written(&writer)), text);
    struct cdl_resp_meter meter = {0};
    size_t length;
    assert_int_not_equal(cdl_resp_measure(&meter, cdl_written(&writer), &length), CDL_RESP_BAD);
    begin();
}

static int setup(void **state)
{
    (void)state;
    begin();
    return 0;
}

static void lines(void **state)
{
    (void)state;
    cdl_resp_write_simple(&writer, CDL_SLICE("OK"));
    assert_written("+OK\r\n");
    cdl_resp_write_error(&writer, CDL_SLICE("ERR count: 'x' is not a whole number"));
    assert_written("-ERR count: 'x' is not a whole number\r\n");
}

static void an_error_is_one_line_whatever_is_in_it(void **state)
{
    (void)state;
    cdl_resp_write_error(&writer, CDL_SLICE("ERR '\r\n+OK\r\n\0\x7f\xc3\xa4'"));
    assert_written("-ERR '??+OK????\xc3\xa4'\r\n");
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        int64_t number;
        const char *text;
    } cases[] = {
        {0, ":0\r\n"},
        {-1, ":-1\r\n"},
        {1099511627776, ":1099511627776\r\n"},
        {INT64_MAX, ":9223372036854775807\r\n"},
        {INT64_MIN, ":-9223372036854775808\r\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        cdl_resp_write_integer(&writer, cases[i].number);
        assert_written(cases[i].text);
    }
    for (int64_t power = 1; power < INT64_MAX / 10; power *= 10) {
        for (int64_t number = power - 2; number <= power + 2; number++) {
            char text[32];
            snprintf(text, sizeof text, ":%lld\r\n", (long long)number);
            cdl_resp_write_integer(&writer, number);
            assert_written(text);
        }
    }
    static const int64_t several[8] = {0, 16, 15, -1, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    cdl_resp_write_integers(&writer, several, 4);
    assert_written("*4\r\n:0\r\n:16\r\n:15\r\n:-1\r\n");
    cdl_resp_write_integers(&writer, several, 0);
    assert_written("*0\r\n");
    cdl_resp_write_integers(&writer, several, 8);
    assert_int_equal(writer.length, 4 + 4 + 5 + 5 + 5 + 4 * 23);
}

static void texts(void **state)
{
    (void)state;
    cdl_resp_write_bulk(&writer, CDL_SLICE(""));
    assert_written("$0\r\n\r\n");
    cdl_resp_write_bulk(&writer, CDL_SLICE("a\r\nb"));
    assert_written("$4\r\na\r\nb\r\n");
    cdl_resp_write_verbatim(&writer, 2, CDL_SLICE("a:1"));
    assert_written("$3\r\na:1\r\n");
    cdl_resp_write_verbatim(&writer, 3, CDL_SLICE("a:1"));
    assert_written("=7\r\ntxt:a:1\r\n");
}

static void what_resp2_lacks_is_what_redis_makes_of_it(void **state)
{
    (void)state;
    cdl_resp_write_boolean(&writer, 2, true);
    cdl_resp_write_boolean(&writer, 2, false);
    assert_written(":1\r\n:0\r\n");
    cdl_resp_write_boolean(&writer, 3, true);
    cdl_resp_write_boolean(&writer, 3, false);
    assert_written("#t\r\n#f\r\n");
    cdl_resp_write_null(&writer, 2);
    assert_written("$-1\r\n");
    cdl_resp_write_null(&writer, 3);
    assert_written("_\r\n");
    cdl_resp_write_array(&writer, 3);
    assert_written("*3\r\n");
    cdl_resp_write_set(&writer, 2, 3);
    assert_written("*3\r\n");
    cdl_resp_write_set(&writer, 3, 3);
    assert_written("~3\r\n");
    cdl_resp_write_map(&writer, 2, 3);
    assert_written("*6\r\n");
    cdl_resp_write_map(&writer, 3, 3);
    assert_written("%3\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lines, setup),
        cmocka_unit_test_setup(an_error_is_one_line_whatever_is_in_it, setup),
        cmocka_unit_test_setup(numbers, setup),
        cmocka_unit_test_setup(texts, setup),
        cmocka_unit_test_setup(what_resp2_lacks_is_what_redis_makes_of_it, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
