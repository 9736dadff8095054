/* Commands of Redis clients: cut anywhere, hostile lengths, lines that somebody types. */
#include "wire/resp_command.h"

#include <stdlib.h>

#include "../support.h"
#include "base/writer.h"

/* ---- feeding ---- */

struct outcome {
    enum cdl_resp_result result;
    size_t length;
    const char *error;
    char words[4096]; /* "<ECHO> <hi>" */
};

static void write_words(const struct cdl_resp_command *command, struct outcome *outcome)
{
    struct cdl_writer words = cdl_writer_on(outcome->words, sizeof outcome->words - 1);
    for (size_t i = 0; i < command->count; i++) {
        cdl_write_text(&words, i > 0 ? " <" : "<");
        cdl_write(&words, command->arguments[i]);
        cdl_write_text(&words, ">");
    }
    outcome->words[words.length] = '\0';
}

/* Feeds `step` bytes more each time, from memory that ends where they do and lies elsewhere each time. */
static void feed(struct cdl_slice text, size_t step, struct outcome *outcome)
{
    static struct cdl_resp_command command; /* large */
    struct cdl_resp_reader reader = {0};
    *outcome = (struct outcome){.result = CDL_RESP_MORE};
    for (size_t fed = 0; outcome->result == CDL_RESP_MORE && fed < text.length;) {
        fed = text.length - fed > step ? fed + step : text.length;
        char *copy = malloc(fed);
        assert_non_null(copy);
        memcpy(copy, text.bytes, fed);
        outcome->result = cdl_resp_read_command(&reader, copy, fed, &command);
        if (outcome->result == CDL_RESP_READY) {
            outcome->length = command.length;
            write_words(&command, outcome);
            assert_int_equal(reader.at + reader.count + reader.done, 0);
        }
        outcome->error = reader.error;
        free(copy);
    }
}

static struct outcome outcome_of(struct cdl_slice text)
{
    struct outcome whole, cut;
    feed(text, text.length, &whole);
    for (size_t step = 1; step < text.length; step += step < 8 ? 1 : text.length / 3 + 1) {
        feed(text, step, &cut);
        if (cut.result != whole.result || cut.length != whole.length || strcmp(cut.words, whole.words) != 0)
            fail_msg("by %zu: result %d, length %zu, %s, not %d, %zu, %s", step, (int)cut.result, cut.length, cut.words,
                     (int)whole.result, whole.length, whole.words);
    }
    return whole;
}

static void assert_reads(struct cdl_slice text, const char *words)
{
    const struct outcome outcome = outcome_of(text);
    if (outcome.result != CDL_RESP_READY || outcome.length != text.length || strcmp(outcome.words, words) != 0)
        fail_msg("'%.*s': result %d, length %zu, %s", CDL_SLICE_ARG(text), (int)outcome.result, outcome.length,
                 outcome.words);
}

static void assert_bad(struct cdl_slice text, const char *error)
{
    const struct outcome outcome = outcome_of(text);
    if (outcome.result != CDL_RESP_BAD || strcmp(outcome.error, error) != 0)
        fail_msg("'%.*s': result %d, %s", CDL_SLICE_ARG(text), (int)outcome.result, outcome.error);
}

#define READS(text, words) assert_reads(CDL_SLICE(text), words)
#define BAD(text, error) assert_bad(CDL_SLICE(text), error)
#define MORE(text) assert_int_equal(outcome_of(CDL_SLICE(text)).result, CDL_RESP_MORE)

/* ---- arrays ---- */

static void arrays_of_bulk_strings(void **state)
{
    (void)state;
    READS("*1\r\n$4\r\nPING\r\n", "<PING>");
    READS("*2\r\n$4\r\necho\r\n$0\r\n\r\n", "<echo> <>");
    READS("*2\r\n$4\r\necho\r\n$4\r\n\r\n\r\n\r\n", "<echo> <\r\n\r\n>");
    READS("*6\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser123\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n1\r\n",
          "<CL.THROTTLE> <user123> <15> <30> <60> <1>");
    READS("*0\r\n", "");
    READS("*01\r\n$04\r\nPING\r\n", "<PING>");
}

static void C75_arguments_may_hold_any_byte(void **state)
{
    (void)state;
    static struct cdl_resp_command command;
    struct cdl_resp_reader reader = {0};
    char text[] = "*2\r\n$4\r\necho\r\n$6\r\na\0\r\n\xff$\r\n";
    assert_int_equal(cdl_resp_read_command(&reader, text, sizeof text - 1, &command), CDL_RESP_READY);
    assert_true(cdl_slice_equal(command.arguments[1], CDL_SLICE("a\0\r\n\xff$")));
}

static void a_command_ends_where_the_next_begins(void **state)
{
    (void)state;
    static struct cdl_resp_command command;
    static const size_t lengths[] = {14, 6, 4, 14};
    char text[] = "*1\r\n$4\r\nPING\r\nping\r\n*0\r\n*1\r\n$4\r\nQUIT\r\n*";
    struct cdl_resp_reader reader = {0};
    size_t at = 0;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        assert_int_equal(cdl_resp_read_command(&reader, text + at, sizeof text - 1 - at, &command), CDL_RESP_READY);
        assert_int_equal(command.length, lengths[i]);
        at += command.length;
    }
    assert_int_equal(cdl_resp_read_command(&reader, text + at, 1, &command), CDL_RESP_MORE);
    assert_int_equal(cdl_resp_read_command(&reader, text + at, 0, &command), CDL_RESP_MORE);
}

static void what_is_not_whole_is_waited_for(void **state)
{
    (void)state;
    MORE("*");
    MORE("*2\r");
    MORE("*1\r\n");
    MORE("*1\r\n$");
    MORE("*1\r\n$4\r\nPIN");
    MORE("*1\r\n$4\r\nPING\r");
    MORE("*2\r\n$4\r\nPING\r\n");
    MORE("ping");
}

static void C73_hostile_lengths_are_refused_at_once(void **state)
{
    (void)state;
    BAD("*4294967295\r\n", "invalid multibulk length");
    BAD("*-2\r\n", "invalid multibulk length");
    BAD("*-1\r\n", "invalid multibulk length");
    BAD("*1025\r\n", "invalid multibulk length");
    BAD("*\r\n", "invalid multibulk length");
    BAD("*1x\r\n", "invalid multibulk length");
    BAD("*1\n", "invalid multibulk length");
    BAD("*00000000000000001\r\n", "invalid multibulk length");
    BAD("*99999999999999999999", "invalid multibulk length"); /* nothing that follows makes it good */
    BAD("*1\r\n$-2\r\n", "invalid bulk length");
    BAD("*1\r\n$-1\r\n", "invalid bulk length");
    BAD("*1\r\n$9223372036854775807\r\n", "invalid bulk length");
    BAD("*1\r\n$2147483645\r\n", "invalid bulk length");
    BAD("*1\r\n$131073\r\n", "invalid bulk length");
    BAD("*1\r\n$+4\r\nPING\r\n", "invalid bulk length");
    BAD("*1\r\n:4\r\n", "expected '$' and the length of an argument");
    BAD("*1\r\n$4\r\nPINGxx", "no CRLF behind an argument");
    BAD("*1\r\n$4\r\nPING\r\r", "no CRLF behind an argument");
}

static void C73_nested_arrays_are_refused_at_the_second(void **state)
{
    (void)state;
    static char text[2000 * 4];
    for (size_t i = 0; i < sizeof text; i += 4)
        memcpy(text + i, "*1\r\n", 4);
    assert_bad((struct cdl_slice){text, sizeof text}, "expected '$' and the length of an argument");
}

/* The largest argument there may be, and a command that would be too large as a whole. */
static void C73_a_command_is_bounded(void **state)
{
    (void)state;
    const size_t size = 4 * CDL_RESP_COMMAND_MAX;
    char *text = malloc(size);
    assert_non_null(text);
    struct cdl_writer writer = cdl_writer_on(text, size);
    struct outcome outcome;
    cdl_writef(&writer, "*1024\r\n$%u\r\n", CDL_RESP_ARGUMENT_MAX);
    memset(text + writer.length, 'x', CDL_RESP_ARGUMENT_MAX);
    writer.length += CDL_RESP_ARGUMENT_MAX;
    cdl_write_text(&writer, "\r\n");
    feed(cdl_written(&writer), 4096, &outcome);
    assert_int_equal(outcome.result, CDL_RESP_MORE);
    cdl_writef(&writer, "$%u\r\n", CDL_RESP_ARGUMENT_MAX);
    feed(cdl_written(&writer), 4096, &outcome);
    assert_int_equal(outcome.result, CDL_RESP_BAD);
    assert_string_equal(outcome.error, "too big a command");
    free(text);
}

/* ---- lines ---- */

static void lines(void **state)
{
    (void)state;
    READS("ping\r\n", "<ping>");
    READS("ping\n", "<ping>");
    READS("\r\n", "");
    READS("  \t \r\n", "");
    READS("  echo\thi  \r\n", "<echo> <hi>");
    READS("$4\r\n", "<$4>"); /* whatever does not begin an array is a line */
    READS("echo \"hi there\" 'a b'\r\n", "<echo> <hi there> <a b>");
    READS("echo \"\" ''\r\n", "<echo> <> <>");
    READS("echo \"a\\\"b\\\\c\\x41\\x4\\q\" 'it\\'s \\n'\r\n", "<echo> <a\"b\\cAx4q> <it's \\n>");
    READS("echo \"\\r\\n\\t\"\n", "<echo> <\r\n\t>");
    READS("echo a\"b c\"\n", "<echo> <ab c>");
}

static void lines_that_are_none(void **state)
{
    (void)state;
    BAD("echo \"hi\r\n", "unbalanced quotes in a line");
    BAD("echo 'hi\n", "unbalanced quotes in a line");
    BAD("echo \"hi\"x\n", "unbalanced quotes in a line");
    BAD("echo \"hi\\\"\n", "unbalanced quotes in a line");
    BAD("POST / HTTP/1.1\r\n", "this is not HTTP");
    BAD("host: 127.0.0.1:6380\r\n", "this is not HTTP");
}

static void C73_a_line_without_end_is_bounded(void **state)
{
    (void)state;
    static char text[CDL_RESP_INLINE_MAX];
    struct outcome outcome;
    memset(text, 'x', sizeof text);
    feed((struct cdl_slice){text, sizeof text - 1}, 1000, &outcome);
    assert_int_equal(outcome.result, CDL_RESP_MORE);
    feed((struct cdl_slice){text, sizeof text}, 1000, &outcome);
    assert_int_equal(outcome.result, CDL_RESP_BAD);
    assert_string_equal(outcome.error, "too big a line");
    text[sizeof text - 1] = '\n';
    feed((struct cdl_slice){text, sizeof text}, 1000, &outcome);
    assert_int_equal(outcome.result, CDL_RESP_READY);
    for (size_t i = 0; i + 1 < sizeof text; i += 2)
        text[i] = ' ';
    feed((struct cdl_slice){text, sizeof text}, sizeof text, &outcome);
    assert_int_equal(outcome.result, CDL_RESP_BAD);
    assert_string_equal(outcome.error, "too many words in a line");
}

/* ---- looking ahead ---- */

/* What is found behind a command, in memory that ends where the bytes do. */
static void look(struct cdl_slice first, struct cdl_slice rest, const char *expected)
{
    static struct cdl_resp_command command; /* large */
    struct cdl_resp_reader reader = {0};
    char *bytes = malloc(first.length + rest.length);
    assert_non_null(bytes);
    memcpy(bytes, first.bytes, first.length);
    memcpy(bytes + first.length, rest.bytes, rest.length);
    assert_int_equal(cdl_resp_read_command(&reader, bytes, first.length + rest.length, &command), CDL_RESP_READY);
    assert_int_equal(command.length, first.length);
    const struct cdl_slice found = cdl_resp_look_ahead(&command, (struct cdl_slice){bytes + first.length, rest.length});
    assert_true(cdl_slice_equal(found, cdl_slice_of(expected)));
    free(bytes);
}

static void the_next_key_is_seen_where_commands_begin_alike(void **state)
{
    (void)state;
    static const struct cdl_slice first = CDL_SLICE("*3\r\n$2\r\nAB\r\n$1\r\nk\r\n$1\r\n1\r\n");
    look(first, first, "k");
    look(first, CDL_SLICE("*3\r\n$2\r\nAB\r\n$12\r\nanother-key1\r\n$1\r\n1\r\n"), "another-key1");
    look(first, CDL_SLICE("*3\r\n$2\r\nAB\r\n$5\r\nwhole"), "whole");
    look(first, CDL_SLICE("*3\r\n$2\r\nAB\r\n$5\r\nhalf"), "");
    look(first, CDL_SLICE("*4\r\n$2\r\nAB\r\n$1\r\nk\r\n"), "");
    look(first, CDL_SLICE("*3\r\n$2\r\nAC\r\n$1\r\nk\r\n"), "");
    look(first, CDL_SLICE("*3\r\n$2\r\nAB\r\n:1\r\nk\r\n"), "");
    look(first, CDL_SLICE("*3\r\n$2\r\nAB\r\n$-1\r\n"), "");
    look(first, CDL_SLICE("*3\r\n$2\r\nAB\r\n$9223372036854775807\r\nk\r\n"), "");
    for (size_t length = 0; length < first.length - 8; length++)
        look(first, cdl_slice_head(first, length), length < 17 ? "" : "k");
}

static void nothing_is_seen_behind_what_has_no_key_or_is_a_line(void **state)
{
    (void)state;
    look(CDL_SLICE("*1\r\n$4\r\nPING\r\n"), CDL_SLICE("*1\r\n$4\r\nPING\r\n$1\r\nk\r\n"), "");
    look(CDL_SLICE("*0\r\n"), CDL_SLICE("*0\r\n$1\r\nk\r\n"), "");
    look(CDL_SLICE("AB k\r\n"), CDL_SLICE("AB k\r\n"), "");
    look(CDL_SLICE("\r\n"), CDL_SLICE("\r\n"), "");
}

/* ---- numbers ---- */

static void whole_numbers(void **state)
{
    (void)state;
    uint64_t number;
    assert_true(cdl_resp_read_u64(CDL_SLICE("0"), &number) && number == 0);
    assert_true(cdl_resp_read_u64(CDL_SLICE("007"), &number) && number == 7);
    assert_true(cdl_resp_read_u64(CDL_SLICE("18446744073709551615"), &number) && number == UINT64_MAX);
    static const char *const none[] = {
        "", "-1", "+1", " 1", "1 ", "1.0", "0x1", "18446744073709551616", "99999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(none); i++)
        assert_false(cdl_resp_read_u64(cdl_slice_of(none[i]), &number));
    assert_false(cdl_resp_read_u64(CDL_SLICE("1\0"), &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_bulk_strings),
        cmocka_unit_test(C75_arguments_may_hold_any_byte),
        cmocka_unit_test(a_command_ends_where_the_next_begins),
        cmocka_unit_test(what_is_not_whole_is_waited_for),
        cmocka_unit_test(C73_hostile_lengths_are_refused_at_once),
        cmocka_unit_test(C73_nested_arrays_are_refused_at_the_second),
        cmocka_unit_test(C73_a_command_is_bounded),
        cmocka_unit_test(lines),
        cmocka_unit_test(lines_that_are_none),
        cmocka_unit_test(C73_a_line_without_end_is_bounded),
        cmocka_unit_test(the_next_key_is_seen_where_commands_begin_alike),
        cmocka_unit_test(nothing_is_seen_behind_what_has_no_key_or_is_a_line),
        cmocka_unit_test(whole_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
