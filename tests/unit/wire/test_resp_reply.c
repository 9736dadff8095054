/* Replies of Redis: each type, each cut anywhere, and each way of being none. */
#include "wire/resp_reply.h"

#include <stdlib.h>

#include "../resp_words.h"
#include "../support.h"

static char words[4096];

/* ---- feeding ---- */

/* A copy that ends where its memory does, so that AddressSanitizer sees a look beyond it. */
static char *copy_of(struct cdl_slice text)
{
    char *copy = malloc(text.length > 0 ? text.length : 1);
    assert_non_null(copy);
    if (text.length > 0)
        memcpy(copy, text.bytes, text.length);
    return copy;
}

/* Feeds `step` bytes more each time; how it ended, and with what length. */
static enum cdl_resp_result feed(struct cdl_slice text, size_t step, size_t *length)
{
    struct cdl_resp_meter meter = {0};
    enum cdl_resp_result result = CDL_RESP_MORE;
    for (size_t fed = 0; result == CDL_RESP_MORE && fed < text.length;) {
        fed = text.length - fed > step ? fed + step : text.length;
        char *copy = copy_of(cdl_slice_head(text, fed));
        result = cdl_resp_measure(&meter, (struct cdl_slice){copy, fed}, length);
        free(copy);
    }
    if (result == CDL_RESP_READY)
        assert_int_equal(meter.at + meter.depth + meter.looked, 0);
    return result;
}

static void assert_result(struct cdl_slice text, enum cdl_resp_result want, size_t length)
{
    for (size_t step = 1; step <= text.length + 1; step += step < 8 ? 1 : text.length / 3 + 1) {
        size_t got = 0;
        const enum cdl_resp_result result = feed(text, step, &got);
        if (result != want || got != length)
            fail_msg("'%.*s' by %zu: result %d, length %zu", CDL_SLICE_ARG(text), step, (int)result, got);
    }
}

static void assert_reads(struct cdl_slice text, const char *want)
{
    assert_result(text, CDL_RESP_READY, text.length);
    struct cdl_resp value;
    for (size_t length = 0; length < text.length; length++) {
        char *copy = copy_of(cdl_slice_head(text, length));
        struct cdl_slice rest = {copy, length};
        assert_false(cdl_resp_next(&rest, &value));
        assert_int_equal(rest.length, length);
        free(copy);
    }
    struct cdl_slice rest = text;
    struct cdl_writer writer = cdl_writer_on(words, sizeof words);
    resp_words(&writer, &rest);
    assert_int_equal(rest.length, 0);
    if (!cdl_slice_equal(cdl_written(&writer), cdl_slice_of(want)))
        fail_msg("'%.*s': got %.*s, want %s", CDL_SLICE_ARG(text), CDL_SLICE_ARG(cdl_written(&writer)), want);
}

#define READS(text, want) assert_reads(CDL_SLICE(text), want)
#define BAD(text) assert_result(CDL_SLICE(text), CDL_RESP_BAD, 0)
#define MORE(text) assert_result(CDL_SLICE(text), CDL_RESP_MORE, 0)

/* ---- what is a reply ---- */

static void lines(void **state)
{
    (void)state;
    READS("+OK\r\n", "'OK'");
    READS("+\r\n", "''");
    READS("-ERR unknown command\r\n", "error 'ERR unknown command'");
    READS(":0\r\n", "0");
    READS(":+7\r\n", "7");
    READS(":-0\r\n", "0");
    READS(":9223372036854775807\r\n", "9223372036854775807");
    READS(":-9223372036854775808\r\n", "-9223372036854775808");
    READS(",3.25\r\n", "double 3.25");
    READS(",-1e-7\r\n", "double -1e-7");
    READS(",-inf\r\n", "double -inf");
    READS(",nan\r\n", "double nan");
    READS("#t\r\n", "true");
    READS("#f\r\n", "false");
    READS("(-3492890328409238509324850943850943825024385\r\n", "big -3492890328409238509324850943850943825024385");
    READS("_\r\n", "null");
}

static void pieces_of_a_given_length(void **state)
{
    (void)state;
    READS("$5\r\nhello\r\n", "'hello'");
    READS("$0\r\n\r\n", "''");
    READS("$4\r\n\r\n\r\n\r\n", "'\r\n\r\n'");
    READS("$-1\r\n", "null");
    READS("!9\r\nOOM a\r\n b\r\n", "error 'OOM a\r\n b'");
    READS("=8\r\ntxt:some\r\n", "'some'");
    READS("=4\r\nmkd:\r\n", "''");
}

static void a_piece_may_hold_any_byte(void **state)
{
    (void)state;
    const struct cdl_slice text = CDL_SLICE("$4\r\n\0\xff\r\n\r\n");
    assert_result(text, CDL_RESP_READY, text.length);
    struct cdl_slice rest = text;
    struct cdl_resp value;
    assert_true(cdl_resp_next(&rest, &value));
    assert_int_equal(value.kind, CDL_RESP_STRING);
    assert_true(cdl_slice_equal(value.text, CDL_SLICE("\0\xff\r\n")));
}

static void aggregates(void **state)
{
    (void)state;
    READS("*0\r\n", "[]");
    READS("*-1\r\n", "null");
    READS("*3\r\n:1\r\n$1\r\na\r\n$-1\r\n", "[1 'a' null]");
    READS("*2\r\n*2\r\n:1\r\n:2\r\n*0\r\n", "[[1 2] []]");
    READS("*2\r\n*1\r\n*1\r\n:1\r\n:2\r\n", "[[[1]] 2]");
    READS("~2\r\n+a\r\n+b\r\n", "['a' 'b']");
    READS("%0\r\n", "map[]");
    READS("%2\r\n+proto\r\n:3\r\n+modules\r\n*0\r\n", "map['proto' 3 'modules' []]");
    READS("*1\r\n-MOVED 1 a:1\r\n", "[error 'MOVED 1 a:1']");
    READS(">2\r\n+message\r\n%1\r\n+a\r\n#t\r\n", "push['message' map['a' true]]");
    READS(">0\r\n", "push[]");
}

static void attributes_are_skipped(void **state)
{
    (void)state;
    READS("|1\r\n+ttl\r\n:3600\r\n:7\r\n", "7");
    READS("|0\r\n|0\r\n:7\r\n", "7");
    READS("|1\r\n+a\r\n*2\r\n:1\r\n|1\r\n+b\r\n:2\r\n:3\r\n*1\r\n:4\r\n", "[4]");
    READS("*2\r\n:1\r\n|1\r\n+a\r\n+b\r\n:2\r\n", "[1 2]");
    READS("*1\r\n|1\r\n+a\r\n+b\r\n*1\r\n|0\r\n_\r\n", "[[null]]");
    READS("|1\r\n|0\r\n+a\r\n+b\r\n>1\r\n:1\r\n", "push[1]");
    MORE("|1\r\n+ttl\r\n:3600\r\n");
    MORE("*1\r\n|1\r\n+a\r\n+b\r\n");
}

static void a_reply_ends_where_the_next_begins(void **state)
{
    (void)state;
    const struct cdl_slice text = CDL_SLICE("*1\r\n:1\r\n$1\r\na\r\n+OK\r\n");
    static const size_t lengths[] = {8, 7, 5};
    struct cdl_slice rest = text;
    struct cdl_resp_meter meter = {0};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        size_t length;
        assert_int_equal(cdl_resp_measure(&meter, rest, &length), CDL_RESP_READY);
        assert_int_equal(length, lengths[i]);
        rest = cdl_slice_from(rest, length);
    }
    size_t length;
    assert_int_equal(cdl_resp_measure(&meter, rest, &length), CDL_RESP_MORE);
    assert_int_equal(cdl_resp_measure(&meter, (struct cdl_slice){NULL, 0}, &length), CDL_RESP_MORE);
}

static void the_values_of_a_slice_end(void **state)
{
    (void)state;
    struct cdl_slice rest = CDL_SLICE(":1\r\n:2\r\n");
    struct cdl_resp value;
    assert_true(cdl_resp_next(&rest, &value));
    assert_true(cdl_resp_next(&rest, &value));
    assert_int_equal(value.integer, 2);
    assert_false(cdl_resp_next(&rest, &value));
    rest = (struct cdl_slice){NULL, 0};
    assert_false(cdl_resp_next(&rest, &value));
}

/* ---- what is none ---- */

static void other_bytes(void **state)
{
    (void)state;
    BAD("HTTP/1.1 400 Bad Request\r\n");
    BAD("\r\n");
    BAD("\0\r\n");
    BAD("\xff\r\n");
    BAD("$?\r\n;4\r\nabcd\r\n;0\r\n");
    BAD("*?\r\n");
    BAD("*1\r\n.\r\n");
    BAD("*2\r\n:1\r\nOK\r\n");
}

static void lines_that_do_not_end_well(void **state)
{
    (void)state;
    BAD("+OK\n");
    BAD("+a\nb\r\n");
    BAD("+a\rb\r\n");
    BAD("+OK\r\r\n");
    BAD("$1\r\nab\r\n");
    BAD("$1\r\na\n\r");
    BAD("$1\r\na\rb");
    MORE("+OK\r");
    MORE("$1\r\na\r");
    MORE("+");
    MORE("*2\r\n:1\r\n");
}

static void numbers_that_are_none(void **state)
{
    (void)state;
    BAD(":\r\n");
    BAD(":-\r\n");
    BAD(":1.5\r\n");
    BAD(": 1\r\n");
    BAD(":--1\r\n");
    BAD(":9223372036854775808\r\n");
    BAD(":-9223372036854775809\r\n");
    BAD(":99999999999999999999999\r\n");
    BAD(",\r\n");
    BAD(",1,5\r\n");
    BAD("(\r\n");
    BAD("(12a\r\n");
    BAD("#\r\n");
    BAD("#true\r\n");
    BAD("_null\r\n");
    BAD("=3\r\ntxt\r\n");
    BAD("=4\r\ntxt;\r\n");
}

static void lengths_that_are_none(void **state)
{
    (void)state;
    static const char types[] = "$!=*~%|>";
    static const char *const lengths[] = {"", "-2", "+1", "a", "1a", "99999999999999999999", "18446744073709551616"};
    for (const char *type = types; *type != '\0'; type++)
        for (size_t i = 0; i < COUNT_OF(lengths); i++) {
            char text[64];
            snprintf(text, sizeof text, "%c%s\r\n", *type, lengths[i]);
            assert_result(cdl_slice_of(text), CDL_RESP_BAD, 0);
        }
    BAD("!-1\r\n");
    BAD("=-1\r\n");
    BAD("~-1\r\n");
    BAD("%-1\r\n");
    BAD(">-1\r\n");
    BAD("|-1\r\n");
}

static void a_push_inside_a_reply(void **state)
{
    (void)state;
    BAD("*1\r\n>1\r\n:1\r\n");
    BAD("|1\r\n+a\r\n>1\r\n:1\r\n:2\r\n");
}

/* ---- bounds ---- */

static void as_deep_as_may_be(void **state)
{
    (void)state;
    char text[256] = "";
    for (unsigned i = 0; i < CDL_RESP_DEPTH_MAX; i++)
        strcat(text, "*1\r\n");
    strcat(text, ":1\r\n");
    assert_reads(cdl_slice_of(text), "[[[[[[[[1]]]]]]]]");
    char deeper[300];
    snprintf(deeper, sizeof deeper, "*1\r\n%s", text);
    assert_result(cdl_slice_of(deeper), CDL_RESP_BAD, 0);
    memcpy(strrchr(deeper, ':'), "*0\r\n", 4);
    assert_result(cdl_slice_of(deeper), CDL_RESP_BAD, 0);
    memcpy(strrchr(deeper, '*'), "|0\r\n:1\r\n", 9);
    assert_result(cdl_slice_of(deeper), CDL_RESP_BAD, 0);
}

static void as_long_as_may_be(void **state)
{
    (void)state;
    MORE("$16777203\r\n"); /* with its line and its end exactly as much as may be */
    BAD("$16777204\r\n");
    MORE("*1\r\n$16777199\r\n");
    BAD("*1\r\n$16777200\r\n");
    MORE("*5592402\r\n");
    BAD("*5592403\r\n");
    MORE("%2796201\r\n");
    BAD("%2796202\r\n");
    BAD(":000000000000000000000000000000001");
    char *text = malloc(CDL_RESP_REPLY_MAX + 1);
    assert_non_null(text);
    memset(text, 'a', CDL_RESP_REPLY_MAX + 1);
    text[0] = '+';
    memcpy(text + CDL_RESP_REPLY_MAX - 2, "\r\n", 2);
    size_t length = 0;
    struct cdl_resp_meter meter = {0};
    assert_int_equal(cdl_resp_measure(&meter, (struct cdl_slice){text, CDL_RESP_REPLY_MAX}, &length), CDL_RESP_READY);
    assert_int_equal(length, CDL_RESP_REPLY_MAX);
    memcpy(text + CDL_RESP_REPLY_MAX - 2, "aa", 2);
    assert_int_equal(cdl_resp_measure(&meter, (struct cdl_slice){text, CDL_RESP_REPLY_MAX - 2}, &length),
                     CDL_RESP_MORE);
    assert_int_equal(cdl_resp_measure(&meter, (struct cdl_slice){text, CDL_RESP_REPLY_MAX - 1}, &length), CDL_RESP_BAD);
    free(text);
}

/* A server that means ill must not cost more than reading its bytes does: each is looked at a bounded number of times. */
static void a_long_reply_in_small_pieces_is_looked_at_once(void **state)
{
    (void)state;
    const size_t size = scaled(4000000);
    char *text = malloc(size + 4);
    assert_non_null(text);
    struct cdl_resp_meter meter = {0};
    size_t length;
    memset(text, 'a', size);
    text[0] = '+';
    for (size_t fed = 1; fed <= size; fed += 10)
        assert_int_equal(cdl_resp_measure(&meter, (struct cdl_slice){text, fed}, &length), CDL_RESP_MORE);
    meter = (struct cdl_resp_meter){0};
    for (size_t at = 0; at < size; at += 4)
        memcpy(text + at, "|0\r\n", 4);
    for (size_t fed = 1; fed <= size; fed += 10)
        assert_int_equal(cdl_resp_measure(&meter, (struct cdl_slice){text, fed}, &length), CDL_RESP_MORE);
    memcpy(text + size / 4 * 4, ":1\r\n", 4);
    struct cdl_slice rest = {text, size / 4 * 4 + 4};
    struct cdl_resp value;
    assert_true(cdl_resp_next(&rest, &value));
    assert_int_equal(value.integer, 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(pieces_of_a_given_length),
        cmocka_unit_test(a_piece_may_hold_any_byte),
        cmocka_unit_test(aggregates),
        cmocka_unit_test(attributes_are_skipped),
        cmocka_unit_test(a_reply_ends_where_the_next_begins),
        cmocka_unit_test(the_values_of_a_slice_end),
        cmocka_unit_test(other_bytes),
        cmocka_unit_test(lines_that_do_not_end_well),
        cmocka_unit_test(numbers_that_are_none),
        cmocka_unit_test(lengths_that_are_none),
        cmocka_unit_test(a_push_inside_a_reply),
        cmocka_unit_test(as_deep_as_may_be),
        cmocka_unit_test(as_long_as_may_be),
        cmocka_unit_test(a_long_reply_in_small_pieces_is_looked_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
