/* The log: the exact lines, that no byte breaks one, that nothing waits, and what is said of repeats. */
#include "base/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#define SECOND INT64_C(1000000000)
#define START (INT64_C(1769860800) * SECOND) /* 2026-01-31T12:00:00Z */

/* A log into a pipe, on a fake clock. */
struct fixture {
    struct caudal_fake_clock *clock;
    struct cdl_log *log;
    int pipe[2];
    char text[1 << 18]; /* what was read last */
    size_t length;
};

static void open_log(struct fixture *fixture, enum cdl_log_format format, int64_t window_ns)
{
    const struct cdl_log_options options = {
        .fd = fixture->pipe[1],
        .level = CDL_LOG_INFO,
        .format = format,
        .clock = caudal_fake_clock_clock(fixture->clock),
        .repeat_window_ns = window_ns,
    };
    cdl_log_close(fixture->log);
    fixture->log = cdl_log_open(&options);
    assert_non_null(fixture->log);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    if (fixture == NULL || pipe2(fixture->pipe, O_CLOEXEC) != 0)
        return -1;
    fcntl(fixture->pipe[0], F_SETFL, O_NONBLOCK);
    fixture->clock = caudal_fake_clock_new(START + 123456789);
    *state = fixture;
    return fixture->clock == NULL;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    cdl_log_close(fixture->log);
    caudal_fake_clock_free(fixture->clock);
    close(fixture->pipe[0]);
    close(fixture->pipe[1]);
    free(fixture);
    return 0;
}

static const char *read_log(struct fixture *fixture)
{
    fixture->length = 0;
    ssize_t got;
    while ((got = read(fixture->pipe[0], fixture->text + fixture->length, sizeof fixture->text - 1 - fixture->length)) >
           0)
        fixture->length += (size_t)got;
    fixture->text[fixture->length] = '\0';
    return fixture->text;
}

static void assert_log(struct fixture *fixture, const char *want)
{
    assert_string_equal(read_log(fixture), want);
}

static void lines_as_text(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    cdl_log(fixture->log, CDL_LOG_INFO, "listening", cdl_log_string("http", "127.0.0.1:8080"),
            cdl_log_u64("workers", 2));
    cdl_log(fixture->log, CDL_LOG_WARN, "no fields");
    cdl_log(fixture->log, CDL_LOG_ERROR, "typed", cdl_log_i64("low", INT64_MIN), cdl_log_u64("high", UINT64_MAX),
            cdl_log_bool("yes", true), cdl_log_bool("no", false), cdl_log_string("none", NULL));
    cdl_log(fixture->log, CDL_LOG_DEBUG, "below the level");
    assert_log(fixture, "2026-01-31T12:00:00.123456Z INFO  listening http=127.0.0.1:8080 workers=2\n"
                        "2026-01-31T12:00:00.123456Z WARN  no fields\n"
                        "2026-01-31T12:00:00.123456Z ERROR typed low=-9223372036854775808 "
                        "high=18446744073709551615 yes=true no=false none=\"\"\n");
}

static void lines_as_json(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_JSON, 0);
    cdl_log(fixture->log, CDL_LOG_INFO, "typed", cdl_log_string("a", "b"), cdl_log_i64("low", -5),
            cdl_log_u64("exact", (UINT64_C(1) << 53) - 1), cdl_log_u64("more", UINT64_C(1) << 53),
            cdl_log_i64("less", INT64_MIN), cdl_log_bool("yes", true));
    assert_log(fixture,
               "{\"time\":\"2026-01-31T12:00:00.123456Z\",\"level\":\"info\",\"message\":\"typed\",\"a\":\"b\","
               "\"low\":-5,\"exact\":9007199254740991,\"more\":\"9007199254740992\","
               "\"less\":\"-9223372036854775808\",\"yes\":true}\n");
}

static void instants_before_1970_and_after(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    caudal_fake_clock_set(fixture->clock, -1);
    cdl_log(fixture->log, CDL_LOG_INFO, "x");
    assert_log(fixture, "1969-12-31T23:59:59.999999Z INFO  x\n");
    caudal_fake_clock_set(fixture->clock, INT64_MAX);
    cdl_log(fixture->log, CDL_LOG_INFO, "x");
    assert_log(fixture, "2262-04-11T23:47:16.854775Z INFO  x\n");
    caudal_fake_clock_set(fixture->clock, INT64_MIN);
    cdl_log(fixture->log, CDL_LOG_INFO, "x");
    assert_log(fixture, "1677-09-21T00:12:43.145224Z INFO  x\n");
}

/* What a value of text looks like in a line of text. */
static void assert_shown(struct fixture *fixture, struct cdl_slice value, const char *want)
{
    cdl_log(fixture->log, CDL_LOG_INFO, "m", cdl_log_text("k", value));
    const char *line = read_log(fixture);
    const char *shown = strstr(line, " k=");
    assert_non_null(shown);
    char expected[1024];
    snprintf(expected, sizeof expected, " k=%s\n", want);
    assert_string_equal(shown, expected);
}

static void C75_text_shows_odd_bytes_escaped(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    assert_shown(fixture, CDL_SLICE("plain/path?x:1"), "plain/path?x:1");
    assert_shown(fixture, CDL_SLICE("größe"), "größe");
    assert_shown(fixture, CDL_SLICE(""), "\"\"");
    assert_shown(fixture, CDL_SLICE("two words"), "\"two words\"");
    assert_shown(fixture, CDL_SLICE("a=b"), "\"a=b\"");
    assert_shown(fixture, CDL_SLICE("a\"b"), "\"a\\\"b\"");
    assert_shown(fixture, CDL_SLICE("a\\xffb"), "\"a\\\\xffb\"");
    assert_shown(fixture, CDL_SLICE("a\0b"), "\"a\\x00b\"");
    assert_shown(fixture, CDL_SLICE("a\r\nERROR forged"), "\"a\\x0d\\nERROR forged\"");
    assert_shown(fixture, CDL_SLICE("\xff\xc3"), "\"\\xff\\xc3\"");
    assert_shown(fixture, CDL_SLICE("\x1b[2J"), "\"\\x1b[2J\"");
    assert_shown(fixture, CDL_SLICE("\xc2\x9b"), "\"\\u{9b}\"");
    assert_shown(fixture, CDL_SLICE("\xe2\x80\xae"), "\"\\u{202e}\"");
}

static void message_and_names_are_escaped_too(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    cdl_log(fixture->log, CDL_LOG_INFO, "a\nb", cdl_log_u64("c\nd", 1));
    assert_log(fixture, "2026-01-31T12:00:00.123456Z INFO  a\\nb c\\nd=1\n");
}

static json_t *json_line(struct fixture *fixture)
{
    const char *text = read_log(fixture);
    json_error_t error;
    assert_ptr_equal(strchr(text, '\n'), text + fixture->length - 1); /* one line, and whole */
    json_t *line = json_loadb(text, fixture->length - 1, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (line == NULL)
        fail_msg("%s in %s", error.text, text);
    return line;
}

static void C75_json_is_valid_for_any_bytes(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_JSON, 0);
    for (unsigned pair = 0; pair<0x10000; pair += pair> 0x8000 ? 7 : 1) {
        const char bytes[2] = {(char)(pair >> 8), (char)pair};
        cdl_log(fixture->log, CDL_LOG_INFO, "m", cdl_log_text("k", (struct cdl_slice){bytes, 2}));
        json_t *line = json_line(fixture);
        const json_t *value = json_object_get(line, "k");
        assert_true(json_is_string(value));
        if (bytes[0] >= 0 && bytes[1] >= 0) {
            assert_int_equal(json_string_length(value), 2);
            assert_memory_equal(json_string_value(value), bytes, 2);
        }
        json_decref(line);
    }
    cdl_log(fixture->log, CDL_LOG_INFO, "m", cdl_log_text("k", CDL_SLICE("\xff\xef\xbf\xbd\xe2\x80\xae")));
    assert_non_null(strstr(read_log(fixture), "\"k\":\"\xef\xbf\xbd"
                                              "ff\xef\xbf\xbd"
                                              "ef\xef\xbf\xbd"
                                              "bf\xef\xbf\xbd"
                                              "bd\\u202e\""));
}

static void long_values_are_cut_and_say_so(void **state)
{
    struct fixture *fixture = *state;
    static char key[65536];
    memset(key, 'x', sizeof key);
    memcpy(key + CDL_LOG_VALUE_MAX - 1, "\xc3\xa9", 2); /* a character across the cut is left out */
    open_log(fixture, CDL_LOG_AS_JSON, 0);
    cdl_log(fixture->log, CDL_LOG_INFO, "m", cdl_log_text("k", (struct cdl_slice){key, sizeof key}));
    json_t *line = json_line(fixture);
    const char *value = json_string_value(json_object_get(line, "k"));
    assert_int_equal(strspn(value, "x"), CDL_LOG_VALUE_MAX - 1);
    assert_string_equal(value + CDL_LOG_VALUE_MAX - 1, "…(+65281 bytes)");
    json_decref(line);
}

static void a_line_has_a_limit_and_counts_what_it_dropped(void **state)
{
    struct fixture *fixture = *state;
    static char hidden[CDL_LOG_VALUE_MAX];
    memset(hidden, '\x01', sizeof hidden); /* six bytes each in JSON */
    const struct cdl_slice value = {hidden, sizeof hidden};
    open_log(fixture, CDL_LOG_AS_JSON, 0);
    cdl_log(fixture->log, CDL_LOG_INFO, "m", cdl_log_text("a", value), cdl_log_text("b", value),
            cdl_log_text("c", value), cdl_log_u64("d", 1), cdl_log_text("e", value));
    json_t *line = json_line(fixture);
    assert_true(fixture->length <= CDL_LOG_LINE_MAX);
    assert_non_null(json_object_get(line, "a"));
    assert_non_null(json_object_get(line, "b"));
    assert_null(json_object_get(line, "c"));
    assert_non_null(json_object_get(line, "d")); /* still fits */
    assert_int_equal(json_integer_value(json_object_get(line, "fields_dropped")), 2);
    json_decref(line);
}

static void identities_are_keyed(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    /* RFC 4231, case 2: HMAC-SHA-256("Jefe", "what do ya want for nothing?") begins with 5bdcc146bf60754e. */
    cdl_log_set_secret(fixture->log, CDL_SLICE("Jefe"));
    cdl_log(fixture->log, CDL_LOG_INFO, "m", cdl_log_keyed("k", CDL_SLICE("what do ya want for nothing?")));
    assert_non_null(strstr(read_log(fixture), " k=5bdcc146bf60754e\n"));
    /* RFC 4231, case 6: a secret longer than a block. */
    char secret[131];
    memset(secret, 0xaa, sizeof secret);
    cdl_log_set_secret(fixture->log, (struct cdl_slice){secret, sizeof secret});
    cdl_log(fixture->log, CDL_LOG_INFO, "m",
            cdl_log_keyed("k", CDL_SLICE("Test Using Larger Than Block-Size Key - Hash Key First")));
    assert_non_null(strstr(read_log(fixture), " k=60e431591ee0b67f\n"));
}

static void without_a_secret_one_is_drawn(void **state)
{
    struct fixture *fixture = *state;
    char seen[2][32];
    for (size_t i = 0; i < 2; i++) {
        open_log(fixture, CDL_LOG_AS_TEXT, 0);
        cdl_log(fixture->log, CDL_LOG_INFO, "m", cdl_log_keyed("k", CDL_SLICE("alice")));
        const char *shown = strstr(read_log(fixture), " k=");
        assert_non_null(shown);
        assert_int_equal(strlen(shown), strlen(" k=5bdcc146bf60754e\n"));
        snprintf(seen[i], sizeof seen[i], "%s", shown);
    }
    assert_string_not_equal(seen[0], seen[1]);
}

static void assert_masked(struct fixture *fixture, struct cdl_slice address, const char *want)
{
    cdl_log(fixture->log, CDL_LOG_INFO, "m", cdl_log_masked("ip", address));
    const char *shown = strstr(read_log(fixture), " ip=");
    assert_non_null(shown);
    assert_memory_equal(shown + 4, want, strlen(want));
    assert_string_equal(shown + 4 + strlen(want), "\n");
}

static void addresses_are_masked(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    assert_masked(fixture, CDL_SLICE("\xcb\x00\x71\x07"), "203.0.113.0");
    assert_masked(fixture, CDL_SLICE("\x20\x01\x0d\xb8\x00\x01\x00\x02\0\0\0\0\0\0\0\x09"), "2001:db8:1::");
    assert_masked(fixture, CDL_SLICE("\0\0\0\0\0\0\0\0\0\0\xff\xff\xcb\x00\x71\x07"), "203.0.113.0");
    assert_masked(fixture, CDL_SLICE("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"), "::");
    cdl_log_set_secret(fixture->log, CDL_SLICE("Jefe"));
    assert_masked(fixture, CDL_SLICE("what do ya want for nothing?"), "5bdcc146bf60754e"); /* no address */
}

static void what_repeats_is_said_once(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 10 * SECOND);
    caudal_fake_clock_set(fixture->clock, START);
    for (int i = 0; i < 18; i++) {
        cdl_log(fixture->log, CDL_LOG_WARN, "store is away", cdl_log_i64("try", i));
        caudal_fake_clock_advance(fixture->clock, SECOND / 2); /* at 0 to 8.5 s */
    }
    cdl_log(fixture->log, CDL_LOG_ERROR, "store is away"); /* another level is another message */
    assert_log(fixture, "2026-01-31T12:00:00.000000Z WARN  store is away try=0\n"
                        "2026-01-31T12:00:09.000000Z ERROR store is away\n");
    assert_int_equal(cdl_log_suppressed(fixture->log), 17);
    caudal_fake_clock_set(fixture->clock, START + 10 * SECOND - 1);
    cdl_log_tick(fixture->log);
    assert_log(fixture, "");
    caudal_fake_clock_set(fixture->clock, START + 10 * SECOND);
    cdl_log_tick(fixture->log);
    cdl_log_tick(fixture->log);
    assert_log(fixture, "2026-01-31T12:00:10.000000Z WARN  repeated 17 times: store is away repeated=17 seconds=10\n");
    cdl_log(fixture->log, CDL_LOG_WARN, "store is away", cdl_log_i64("try", 99));
    assert_log(fixture, "2026-01-31T12:00:10.000000Z WARN  store is away try=99\n");
}

static void a_repeat_is_reported_by_the_next_line_or_at_the_end(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 10 * SECOND);
    caudal_fake_clock_set(fixture->clock, START);
    cdl_log(fixture->log, CDL_LOG_WARN, "a");
    cdl_log(fixture->log, CDL_LOG_WARN, "a");
    read_log(fixture);
    caudal_fake_clock_advance(fixture->clock, 11 * SECOND);
    cdl_log(fixture->log, CDL_LOG_INFO, "b");
    cdl_log(fixture->log, CDL_LOG_INFO, "b");
    assert_log(fixture, "2026-01-31T12:00:11.000000Z WARN  repeated 1 times: a repeated=1 seconds=11\n"
                        "2026-01-31T12:00:11.000000Z INFO  b\n");
    cdl_log_close(fixture->log);
    fixture->log = NULL;
    assert_log(fixture, "2026-01-31T12:00:11.000000Z INFO  repeated 1 times: b repeated=1 seconds=0\n");
}

static void the_same_about_something_else_is_not_a_repeat(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_JSON, 10 * SECOND);
    caudal_fake_clock_set(fixture->clock, START);
    for (int i = 0; i < 3; i++) {
        cdl_log_about(fixture->log, CDL_LOG_WARN, CDL_SLICE("a"), "failing", cdl_log_string("limit", "a"));
        cdl_log_about(fixture->log, CDL_LOG_WARN, CDL_SLICE("b"), "failing", cdl_log_string("limit", "b"));
        cdl_log_each(fixture->log, CDL_LOG_INFO, "denied", cdl_log_i64("n", i));
    }
    const char *text = read_log(fixture);
    size_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    assert_int_equal(lines, 5);
    caudal_fake_clock_advance(fixture->clock, 10 * SECOND);
    cdl_log_tick(fixture->log);
    assert_non_null(strstr(read_log(fixture), "\"message\":\"repeated 2 times: failing\",\"repeated\":2,\"seconds\":10,"
                                              "\"about\":\"a\"}\n"));
}

static void more_messages_than_are_remembered(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 10 * SECOND);
    caudal_fake_clock_set(fixture->clock, START);
    for (int i = 0; i < 200; i++) {
        char about[16];
        snprintf(about, sizeof about, "%d", i);
        cdl_log_about(fixture->log, CDL_LOG_WARN, cdl_slice_of(about), "m", cdl_log_string("n", about));
        cdl_log_about(fixture->log, CDL_LOG_WARN, cdl_slice_of(about), "m", cdl_log_string("n", about));
        caudal_fake_clock_advance(fixture->clock, 1000);
        read_log(fixture);
        if (i >= 64) { /* the oldest one made room, and its count was not lost */
            char wanted[32];
            snprintf(wanted, sizeof wanted, "about=%d\n", i - 64);
            assert_non_null(strstr(fixture->text, wanted));
        }
    }
    assert_int_equal(cdl_log_suppressed(fixture->log), 200);
}

static void a_full_pipe_is_not_waited_for(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0); /* the writing end blocks */
    size_t sent = 0;
    for (; cdl_log_lost(fixture->log) == 0; sent++)
        cdl_log(fixture->log, CDL_LOG_INFO, "line", cdl_log_u64("n", sent));
    cdl_log(fixture->log, CDL_LOG_INFO, "line", cdl_log_u64("n", sent));
    assert_int_equal(cdl_log_lost(fixture->log), 2);

    read_log(fixture);
    size_t lines = 0;
    for (size_t i = 0; i < fixture->length; i++)
        lines += fixture->text[i] == '\n';
    assert_int_equal(lines, sent - 1); /* whole lines only */
    assert_int_equal(fixture->text[fixture->length - 1], '\n');

    cdl_log(fixture->log, CDL_LOG_INFO, "again");
    assert_log(fixture, "2026-01-31T12:00:00.123456Z WARN  log lines were lost lines=2\n"
                        "2026-01-31T12:00:00.123456Z INFO  again\n");
    cdl_log(fixture->log, CDL_LOG_INFO, "on");
    assert_log(fixture, "2026-01-31T12:00:00.123456Z INFO  on\n");
    assert_int_equal(cdl_log_lost(fixture->log), 2);
}

/* A disk that is full takes a part of a line. */
static void a_line_that_was_torn_does_not_spoil_the_next(void **state)
{
    struct fixture *fixture = *state;
    FILE *file = tmpfile();
    assert_non_null(file);
    close(fixture->pipe[1]);
    fixture->pipe[1] = dup(fileno(file));
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    cdl_log(fixture->log, CDL_LOG_INFO, "whole");

    struct rlimit before, little;
    getrlimit(RLIMIT_FSIZE, &before);
    little = before;
    little.rlim_cur = 60;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    cdl_log(fixture->log, CDL_LOG_INFO, "torn");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(cdl_log_lost(fixture->log), 1);
    cdl_log(fixture->log, CDL_LOG_INFO, "again");

    rewind(file);
    fixture->text[fread(fixture->text, 1, sizeof fixture->text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(fixture->text, "2026-01-31T12:00:00.123456Z INFO  whole\n"
                                       "2026-01-31T12:00:00.\n"
                                       "2026-01-31T12:00:00.123456Z WARN  log lines were lost lines=1\n"
                                       "2026-01-31T12:00:00.123456Z INFO  again\n");
}

static void nobody_reads(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    close(fixture->pipe[0]);
    cdl_log(fixture->log, CDL_LOG_INFO, "x"); /* no SIGPIPE either */
    assert_int_equal(cdl_log_lost(fixture->log), 1);
    fixture->pipe[0] = open("/dev/null", O_RDONLY);
}

static void levels_change_while_running(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    assert_false(cdl_log_enabled(fixture->log, CDL_LOG_DEBUG));
    cdl_log_set_level(fixture->log, CDL_LOG_DEBUG);
    cdl_log(fixture->log, CDL_LOG_DEBUG, "x");
    assert_log(fixture, "2026-01-31T12:00:00.123456Z DEBUG x\n");
    cdl_log_set_level(fixture->log, CDL_LOG_ERROR);
    cdl_log(fixture->log, CDL_LOG_WARN, "x");
    assert_log(fixture, "");
}

static void fields_are_evaluated_only_when_written(void **state)
{
    struct fixture *fixture = *state;
    open_log(fixture, CDL_LOG_AS_TEXT, 0);
    uint64_t calls = 0;
    cdl_log(fixture->log, CDL_LOG_DEBUG, "x", cdl_log_u64("n", ++calls));
    assert_int_equal(calls, 0);
    cdl_log(fixture->log, CDL_LOG_INFO, "x", cdl_log_u64("n", ++calls));
    assert_int_equal(calls, 1);
}

static void no_log_swallows_everything(void **state)
{
    (void)state;
    cdl_log(NULL, CDL_LOG_ERROR, "x", cdl_log_u64("n", 1));
    cdl_log_write(NULL, &(struct cdl_log_line){.message = "x"});
    cdl_log_tick(NULL);
    cdl_log_set_level(NULL, CDL_LOG_DEBUG);
    cdl_log_set_secret(NULL, CDL_SLICE("x"));
    cdl_log_close(NULL);
    assert_int_equal(cdl_log_lost(NULL), 0);
    assert_int_equal(cdl_log_suppressed(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_as_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_as_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(instants_before_1970_and_after, set_up, tear_down),
        cmocka_unit_test_setup_teardown(C75_text_shows_odd_bytes_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(message_and_names_are_escaped_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(C75_json_is_valid_for_any_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_values_are_cut_and_say_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_has_a_limit_and_counts_what_it_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(identities_are_keyed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_secret_one_is_drawn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(addresses_are_masked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_repeats_is_said_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_repeat_is_reported_by_the_next_line_or_at_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_about_something_else_is_not_a_repeat, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_messages_than_are_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_pipe_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_that_was_torn_does_not_spoil_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(levels_change_while_running, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fields_are_evaluated_only_when_written, set_up, tear_down),
        cmocka_unit_test(no_log_swallows_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
