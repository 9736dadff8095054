/* Limits as numbers and as text: what is refused, where, and that text and numbers are each other's inverse. */
#include "caudal/limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define DAY (86400 * SECOND)

static struct caudal_limit make(enum caudal_algorithm algorithm, uint64_t count, uint64_t period_ns, uint64_t burst)
{
    return (struct caudal_limit){sizeof(struct caudal_limit), algorithm, count, period_ns, burst};
}

static struct caudal_limit bucket(uint64_t count, uint64_t period_ns)
{
    return make(CAUDAL_TOKEN_BUCKET, count, period_ns, CAUDAL_BURST_DEFAULT);
}

static void assert_same(struct caudal_limit got, struct caudal_limit want)
{
    assert_int_equal(got.size, want.size);
    assert_int_equal(got.algorithm, want.algorithm);
    assert_int_equal(got.count, want.count);
    assert_int_equal(got.period_ns, want.period_ns);
    assert_int_equal(got.burst, want.burst);
}

static void assert_reads(const char *text, struct caudal_limit want)
{
    struct caudal_limit got;
    struct caudal_problem problem = {.message = ""};
    if (caudal_limit_parse(text, &got, &problem) != CAUDAL_OK)
        fail_msg("\"%s\": %s", text, problem.message);
    assert_same(got, want);
}

/* The whole contract of a failure: code, place and words, and a limit that was not touched. */
static void assert_unreadable(const char *text, int code, size_t position, const char *words)
{
    struct caudal_limit untouched = make(CAUDAL_SLIDING_LOG, 1, 2, 3), limit = untouched;
    struct caudal_problem problem = {.code = 1, .position = 9999, .message = ""};
    assert_int_equal(caudal_limit_parse(text, &limit, &problem), code);
    assert_int_equal(problem.code, code);
    if (problem.position != position || strstr(problem.message, words) == NULL)
        fail_msg("\"%s\": at %zu: %s", text, problem.position, problem.message);
    assert_same(limit, untouched);
    assert_int_equal(caudal_limit_parse(text, &limit, NULL), code);
}

static void assert_syntax(const char *text, size_t position, const char *words)
{
    assert_unreadable(text, CAUDAL_ERR_SYNTAX, position, words);
}

static void assert_legal(struct caudal_limit limit)
{
    struct caudal_problem problem = {.message = ""};
    if (caudal_limit_check(&limit, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
}

static void assert_illegal(struct caudal_limit limit, int code, const char *words)
{
    struct caudal_problem problem = {.code = 1, .position = 9999, .message = ""};
    assert_int_equal(caudal_limit_check(&limit, &problem), code);
    assert_int_equal(problem.code, code);
    assert_int_equal(problem.position, 0);
    if (strstr(problem.message, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", problem.message, words);
    assert_int_equal(caudal_limit_check(&limit, NULL), code);
    assert_int_equal(caudal_limit_format(&limit, NULL, 0), code);
}

static void assert_writes(struct caudal_limit limit, const char *want)
{
    char text[CAUDAL_LIMIT_TEXT_MAX];
    assert_int_equal(caudal_limit_format(&limit, text, sizeof text), strlen(want));
    assert_string_equal(text, want);
    assert_reads(text, limit);
}

/* ---- reading ---- */

static void a_count_and_a_unit_are_a_token_bucket(void **state)
{
    (void)state;
    assert_reads("100/minute", bucket(100, MINUTE));
    assert_reads("0/s", bucket(0, SECOND));
}

static void a_period_may_be_a_multiple_of_its_unit(void **state)
{
    (void)state;
    assert_reads("10/30s", bucket(10, 30 * SECOND));
    assert_reads("10/1s", bucket(10, SECOND));
}

static void per_is_another_word_for_the_slash(void **state)
{
    (void)state;
    assert_reads("5000 per 10 s sliding_window", make(CAUDAL_SLIDING_WINDOW, 5000, 10 * SECOND, CAUDAL_BURST_DEFAULT));
    assert_reads("7 per hour", bucket(7, 60 * MINUTE));
    assert_syntax("100per s", 0, "expected a whole number and a period");
    assert_syntax("100 pers", 4, "expected '/' or 'per'");
}

static void blanks_may_stand_between_any_two_words(void **state)
{
    (void)state;
    assert_reads("10 / 30 s", bucket(10, 30 * SECOND));
    assert_reads("10/ 30s", bucket(10, 30 * SECOND));
    assert_reads(" \t10\t /\t30 \ts\tburst\t 20 \t", make(CAUDAL_TOKEN_BUCKET, 10, 30 * SECOND, 20));
    assert_reads(" unlimited ", make(CAUDAL_UNLIMITED, 0, 0, CAUDAL_BURST_DEFAULT));
}

static void every_unit_has_a_brief_a_long_and_a_plural_name(void **state)
{
    (void)state;
    static const struct {
        const char *names[4];
        uint64_t ns;
    } units[] = {
        {{"ns", "nanosecond", "nanoseconds"}, 1},
        {{"us", "microsecond", "microseconds"}, 1000},
        {{"ms", "millisecond", "milliseconds"}, 1000000},
        {{"s", "second", "seconds"}, SECOND},
        {{"m", "min", "minute", "minutes"}, MINUTE},
        {{"h", "hour", "hours"}, 60 * MINUTE},
        {{"d", "day", "days"}, DAY},
        {{"w", "week", "weeks"}, 7 * DAY},
        {{"month", "months"}, 30 * DAY},
        {{"year", "years"}, 365 * DAY},
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        for (size_t j = 0; j < 4 && units[i].names[j] != NULL; j++) {
            char text[32];
            snprintf(text, sizeof text, "1/3%s", units[i].names[j]);
            assert_reads(text, bucket(1, 3 * units[i].ns));
        }
}

static void a_unit_has_no_other_names(void **state)
{
    (void)state;
    static const char *const wrong[] = {"mins", "hs", "ss", "sec", "minutess", "minut", "dayz", "burst", "1s", "_s"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "1/2 %s", wrong[i]);
        assert_syntax(text, 4, "expected the period's unit");
    }
}

static void letters_may_be_of_either_case(void **state)
{
    (void)state;
    assert_reads("5 PER Minute Burst 9 TOKEN_bucket", make(CAUDAL_TOKEN_BUCKET, 5, MINUTE, 9));
    assert_reads("UnLimited", make(CAUDAL_UNLIMITED, 0, 0, CAUDAL_BURST_DEFAULT));
    assert_reads("5/M", bucket(5, MINUTE));
    assert_reads("5/SECONDS", bucket(5, SECOND));
}

static void options_come_in_any_order(void **state)
{
    (void)state;
    struct caudal_limit want = make(CAUDAL_TOKEN_BUCKET, 100, MINUTE, 20);
    assert_reads("100/minute burst 20", want);
    assert_reads("100/minute burst 20 token_bucket", want);
    assert_reads("100/minute token_bucket burst 20", want);
}

static void every_algorithm_can_be_named(void **state)
{
    (void)state;
    for (enum caudal_algorithm a = CAUDAL_TOKEN_BUCKET; a < CAUDAL_UNLIMITED; a++) {
        char text[64];
        snprintf(text, sizeof text, "10/s %s", caudal_algorithm_name(a));
        assert_reads(text, make(a, 10, SECOND, CAUDAL_BURST_DEFAULT));
    }
}

static void an_option_is_given_at_most_once(void **state)
{
    (void)state;
    assert_syntax("100/s burst 5 burst 6", 14, "expected one burst, found 'burst'");
    assert_syntax("100/s fixed_window burst 5 fixed_window", 27, "expected one algorithm, found 'fixed_window'");
    assert_syntax("100/s token_bucket sliding_log", 19, "expected one algorithm, found 'sliding_log'");
}

static void an_underscore_joins_two_digits_and_nothing_else(void **state)
{
    (void)state;
    assert_reads("1_000_000/1_0s burst 2_0", make(CAUDAL_TOKEN_BUCKET, 1000000, 10 * SECOND, 20));
    assert_syntax("_1/s", 0, "found '_1'");
    assert_syntax("1_/s", 0, "found '1_'");
    assert_syntax("1__0/s", 0, "found '1__0'");
    assert_syntax("1/1_s", 3, "found '_s'");
}

static void only_plain_whole_numbers_are_numbers(void **state)
{
    (void)state;
    assert_syntax("-1/s", 0, "expected a whole number and a period, as in 100/minute, or unlimited, found '-1'");
    assert_syntax("+1/s", 0, "found '+1'");
    assert_syntax("1.5/s", 0, "found '1.5'");
    assert_syntax("0x10/s", 0, "found '0x10'");
    assert_syntax("1e3/s", 0, "found '1e3'");
    assert_syntax("1/1.5s", 3, "found '.5s'");
    assert_syntax("1/s burst 1k", 10, "expected a whole number after burst, found '1k'");
}

static void leading_zeros_change_nothing(void **state)
{
    (void)state;
    assert_reads("0000000000000000000000000000000000000100/001minute", bucket(100, MINUTE));
}

static void a_period_without_a_unit_is_refused(void **state)
{
    (void)state;
    assert_syntax("100/60", 6, "expected the period's unit (ns, us, ms, s, min, h, d, w, month, year), found the end");
    assert_syntax("100/60 burst 5", 7, "expected the period's unit");
    assert_syntax("100 per 60 fixed_window", 11, "found 'fixed_window'");
}

static void an_unfinished_text_says_what_is_missing(void **state)
{
    (void)state;
    assert_syntax("", 0, "expected a whole number and a period, as in 100/minute, or unlimited, found the end");
    assert_syntax(" \t ", 3, "found the end of the text");
    assert_syntax("100", 3, "expected '/' or 'per' and a period, as in 100/minute, found the end of the text");
    assert_syntax("100/", 4, "expected a period, such as 30s or minute, found the end of the text");
    assert_syntax("100 per ", 8, "expected a period");
    assert_syntax("100/s burst", 11, "expected a whole number after burst, found the end of the text");
}

static void trailing_text_is_refused(void **state)
{
    (void)state;
    assert_syntax("100/s please", 6,
                  "expected 'burst', an algorithm (token_bucket, fixed_window, sliding_window, "
                  "sliding_log) or the end of the text, found 'please'");
    assert_syntax("100/s/s", 5, "found '/'");
    assert_syntax("100/s unlimited", 6, "found 'unlimited'");
    assert_syntax("100/s burst 5 6", 14, "found '6'");
    assert_syntax("unlimited burst 5", 10, "expected nothing after unlimited, found 'burst'");
    assert_syntax("100/s\n", 4, "expected a period, such as 30s or minute, found 's?'");
}

static void foreign_bytes_are_shown_as_question_marks(void **state)
{
    (void)state;
    assert_syntax("10/\xc2\xb5s", 3, "found '??s'");
    assert_syntax("\xff", 0, "found '?'");
    assert_syntax("\xc2\xa0"
                  "10/s",
                  0, "found '??10'"); /* a no-break space is not a blank */
    assert_syntax("10/s \x01\x7f\xf0\x9f\x98\x80", 5,
                  "found '?????"
                  "?'");
}

static void a_long_word_is_cut_in_the_message(void **state)
{
    (void)state;
    assert_syntax("10/s abcdefghijklmnopqrstuvwxyz", 5, "found 'abcdefghijklmnopqrstuvwx...'");
    assert_syntax("10/s abcdefghijklmnopqrstuvwx", 5, "found 'abcdefghijklmnopqrstuvwx'");
}

static void a_number_above_64_bits_is_a_limit_that_cannot_be_enforced(void **state)
{
    (void)state;
    assert_unreadable("18446744073709551616/s", CAUDAL_ERR_LIMIT, 0,
                      "the number '18446744073709551616' is above 18446744073709551614; give a smaller one");
    assert_unreadable("1/99999999999999999999999999999999s", CAUDAL_ERR_LIMIT, 2, "is above 18446744073709551614");
    assert_unreadable("1/s burst 18446744073709551620", CAUDAL_ERR_LIMIT, 10, "is above 18446744073709551614");
    assert_unreadable("1/18446744073709551614s", CAUDAL_ERR_LIMIT, 2,
                      "a period of 18446744073709551614 seconds is above 100 years; give a shorter one");
}

static void the_number_that_stands_for_no_burst_cannot_be_written(void **state)
{
    (void)state;
    assert_unreadable("1/s burst 18446744073709551615", CAUDAL_ERR_LIMIT, 10, "is above 18446744073709551614");
    assert_unreadable("1/s burst 18446744073709551614", CAUDAL_ERR_LIMIT, 10, "is above 2^40");
}

static void the_longest_text_that_is_read_has_1024_bytes(void **state)
{
    (void)state;
    char text[1026] = "10/s";
    memset(text + 4, ' ', 1020);
    assert_reads(text, bucket(10, SECOND));
    text[1024] = ' ';
    assert_syntax(text, 1024, "the text is longer than 1024 bytes; shorten it");
}

static void a_huge_text_is_not_read_to_its_end(void **state)
{
    (void)state;
    /* Not terminated, and exactly as long as may be looked at: a sanitizer would tell of one byte more. */
    char *text = malloc(1025);
    assert_non_null(text);
    memset(text, '1', 1025);
    assert_syntax(text, 1024, "the text is longer than 1024 bytes");
    free(text);
}

static void a_limit_that_cannot_be_enforced_is_refused_at_the_word_to_change(void **state)
{
    (void)state;
    assert_unreadable("  2000/us", CAUDAL_ERR_LIMIT, 2, "a rate of 2000 per 1000 ns is above 1000000000 a second");
    assert_unreadable("1/0s", CAUDAL_ERR_LIMIT, 2, "a period of 0 is no period");
    assert_unreadable("1 per 101 years", CAUDAL_ERR_LIMIT, 6, "is above 100 years");
    assert_unreadable("5000000000000/day", CAUDAL_ERR_LIMIT, 0, "a capacity of 5000000000000 is above 2^40");
    assert_unreadable("1/s burst 5000000000000", CAUDAL_ERR_LIMIT, 10, "a capacity of 5000000000000 is above 2^40");
    assert_unreadable("1/year burst 101", CAUDAL_ERR_LIMIT, 13, "takes above 100 years to refill");
    assert_unreadable("10001/h sliding_log", CAUDAL_ERR_LIMIT, 0, "is above the 10000 of a sliding_log");
    assert_unreadable("1/s burst 5 fixed_window", CAUDAL_ERR_LIMIT, 10, "a burst of 5 on a fixed_window");
}

static void reading_needs_a_text_and_a_place_for_the_limit(void **state)
{
    (void)state;
    struct caudal_problem problem;
    struct caudal_limit limit;
    assert_int_equal(caudal_limit_parse(NULL, &limit, &problem), CAUDAL_ERR_ARGUMENT);
    assert_string_equal(problem.message, "the text is NULL");
    assert_int_equal(caudal_limit_parse("1/s", NULL, &problem), CAUDAL_ERR_ARGUMENT);
    assert_string_equal(problem.message, "the limit is NULL");
    assert_int_equal(caudal_limit_parse(NULL, NULL, NULL), CAUDAL_ERR_ARGUMENT);
}

/* ---- writing ---- */

static void a_limit_is_written_in_the_longest_unit_that_is_exact(void **state)
{
    (void)state;
    assert_writes(bucket(100, MINUTE), "100/min");
    assert_writes(bucket(100, 30 * SECOND), "100/30s");
    assert_writes(bucket(100, 90 * SECOND), "100/90s");
    assert_writes(bucket(100, 120 * SECOND), "100/2min");
    assert_writes(bucket(100, 3600 * SECOND), "100/h");
    assert_writes(bucket(100, DAY), "100/d");
    assert_writes(bucket(100, 14 * DAY), "100/2w");
    assert_writes(bucket(100, 1500000), "100/1500us");
    assert_writes(bucket(100, 2000000), "100/2ms");
    assert_writes(bucket(1, 1), "1/ns");
    assert_writes(bucket(1, SECOND + 1), "1/1000000001ns");
}

static void a_month_and_a_year_are_written_as_the_days_they_stand_for(void **state)
{
    (void)state;
    assert_writes(bucket(100, 30 * DAY), "100/30d");
    assert_writes(bucket(100, 365 * DAY), "100/365d");
}

static void a_burst_is_written_when_it_was_given_even_if_it_is_the_count(void **state)
{
    (void)state;
    assert_writes(make(CAUDAL_TOKEN_BUCKET, 100, MINUTE, 20), "100/min burst 20");
    assert_writes(make(CAUDAL_TOKEN_BUCKET, 100, MINUTE, 100), "100/min burst 100");
    assert_writes(make(CAUDAL_TOKEN_BUCKET, 0, MINUTE, 0), "0/min burst 0");
}

static void an_algorithm_is_written_when_it_is_not_a_token_bucket(void **state)
{
    (void)state;
    assert_writes(make(CAUDAL_FIXED_WINDOW, 5, SECOND, CAUDAL_BURST_DEFAULT), "5/s fixed_window");
    assert_writes(make(CAUDAL_SLIDING_WINDOW, 5, SECOND, CAUDAL_BURST_DEFAULT), "5/s sliding_window");
    assert_writes(make(CAUDAL_SLIDING_LOG, 5, SECOND, CAUDAL_BURST_DEFAULT), "5/s sliding_log");
    assert_writes(make(CAUDAL_UNLIMITED, 0, 0, CAUDAL_BURST_DEFAULT), "unlimited");
}

static void the_largest_limits_fit_the_promised_size(void **state)
{
    (void)state;
    uint64_t odd_ns = CAUDAL_REFILL_MAX_NS - 1;
    assert_writes(make(CAUDAL_TOKEN_BUCKET, odd_ns, odd_ns, CAUDAL_CAPACITY_MAX),
                  "3155759999999999999/3155759999999999999ns burst 1099511627776");
    assert_writes(make(CAUDAL_SLIDING_WINDOW, CAUDAL_CAPACITY_MAX, odd_ns, CAUDAL_BURST_DEFAULT),
                  "1099511627776/3155759999999999999ns sliding_window");
}

static void reading_back_what_was_written_gives_the_same_limit(void **state)
{
    (void)state;
    uint64_t random = 1; /* a fixed seed: the same limits on every run */
    unsigned legal = 0;
    for (int i = 0; i < 100000; i++) {
        uint64_t draws[4];
        for (int j = 0; j < 4; j++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            draws[j] = random >> 2 >> (random >> 59); /* of every magnitude */
        }
        struct caudal_limit limit = make(draws[0] % 4, draws[1], draws[2], CAUDAL_BURST_DEFAULT);
        if (limit.algorithm == CAUDAL_TOKEN_BUCKET && draws[3] % 2 == 0)
            limit.burst = draws[3] >> 20;
        if (caudal_limit_check(&limit, NULL) != CAUDAL_OK)
            continue;
        char text[CAUDAL_LIMIT_TEXT_MAX];
        int length = caudal_limit_format(&limit, text, sizeof text);
        assert_in_range(length, 1, sizeof text - 1);
        assert_reads(text, limit);
        legal++;
    }
    assert_true(legal > 1000);
}

static void writing_cuts_to_the_buffer_and_tells_the_whole_length(void **state)
{
    (void)state;
    struct caudal_limit limit = bucket(100, MINUTE);
    char text[5] = "????";
    assert_int_equal(caudal_limit_format(&limit, text, sizeof text), 7);
    assert_string_equal(text, "100/");
    assert_int_equal(caudal_limit_format(&limit, text, 1), 7);
    assert_string_equal(text, "");
    assert_int_equal(caudal_limit_format(&limit, NULL, 0), 7);
    assert_int_equal(caudal_limit_format(&limit, NULL, 1), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_limit_format(NULL, text, sizeof text), CAUDAL_ERR_ARGUMENT);
}

/* ---- checking ---- */

static void a_limit_must_be_there_and_of_a_known_size(void **state)
{
    (void)state;
    struct caudal_problem problem;
    assert_int_equal(caudal_limit_check(NULL, &problem), CAUDAL_ERR_ARGUMENT);
    assert_string_equal(problem.message, "the limit is NULL");
    struct caudal_limit limit = bucket(1, SECOND);
    limit.size = 0;
    assert_illegal(limit, CAUDAL_ERR_ARGUMENT, "start from CAUDAL_LIMIT_INIT");
    limit.size = sizeof limit + 8;
    assert_illegal(limit, CAUDAL_ERR_ARGUMENT, "start from CAUDAL_LIMIT_INIT");
}

static void an_unknown_algorithm_is_refused(void **state)
{
    (void)state;
    assert_illegal(make((enum caudal_algorithm)5, 1, SECOND, CAUDAL_BURST_DEFAULT), CAUDAL_ERR_ARGUMENT,
                   "no algorithm with the number 5");
    assert_illegal(make((enum caudal_algorithm) - 1, 1, SECOND, CAUDAL_BURST_DEFAULT), CAUDAL_ERR_ARGUMENT,
                   "no algorithm with the number -1");
}

static void a_period_is_above_0_and_at_most_100_years(void **state)
{
    (void)state;
    assert_illegal(bucket(0, 0), CAUDAL_ERR_LIMIT, "a period of 0 is no period; give a longer one");
    assert_legal(bucket(1, 1));
    assert_legal(bucket(1, CAUDAL_REFILL_MAX_NS));
    assert_illegal(bucket(1, CAUDAL_REFILL_MAX_NS + 1), CAUDAL_ERR_LIMIT,
                   "a period of 3155760000000000001 ns is above 100 years; give a shorter one");
    assert_illegal(make(CAUDAL_FIXED_WINDOW, 1, UINT64_MAX, CAUDAL_BURST_DEFAULT), CAUDAL_ERR_LIMIT, "above 100 years");
}

static void a_rate_is_at_most_one_token_a_nanosecond(void **state)
{
    (void)state;
    for (enum caudal_algorithm a = CAUDAL_TOKEN_BUCKET; a < CAUDAL_SLIDING_LOG; a++) {
        assert_legal(make(a, SECOND, SECOND, CAUDAL_BURST_DEFAULT));
        assert_illegal(make(a, SECOND + 1, SECOND, CAUDAL_BURST_DEFAULT), CAUDAL_ERR_LIMIT,
                       "a rate of 1000000001 per 1000000000 ns is above 1000000000 a second; give a smaller count");
    }
    assert_illegal(make(CAUDAL_TOKEN_BUCKET, UINT64_MAX, CAUDAL_REFILL_MAX_NS, 1), CAUDAL_ERR_LIMIT, "above");
}

static void a_capacity_is_at_most_2_to_the_40(void **state)
{
    (void)state;
    assert_legal(bucket(CAUDAL_CAPACITY_MAX, DAY));
    assert_legal(make(CAUDAL_TOKEN_BUCKET, CAUDAL_CAPACITY_MAX + 1, DAY, CAUDAL_CAPACITY_MAX));
    assert_legal(make(CAUDAL_FIXED_WINDOW, CAUDAL_CAPACITY_MAX, DAY, CAUDAL_BURST_DEFAULT));
    assert_legal(make(CAUDAL_SLIDING_WINDOW, CAUDAL_CAPACITY_MAX, DAY, CAUDAL_BURST_DEFAULT));
    assert_illegal(bucket(5000000000000, DAY), CAUDAL_ERR_LIMIT,
                   "a capacity of 5000000000000 is above 2^40; give a smaller burst");
    assert_illegal(make(CAUDAL_TOKEN_BUCKET, SECOND, SECOND, CAUDAL_CAPACITY_MAX + 1), CAUDAL_ERR_LIMIT,
                   "a capacity of 1099511627777 is above 2^40; give a smaller burst");
    assert_illegal(make(CAUDAL_SLIDING_WINDOW, CAUDAL_CAPACITY_MAX + 1, DAY, CAUDAL_BURST_DEFAULT), CAUDAL_ERR_LIMIT,
                   "a count of 1099511627777 is above 2^40; give a smaller one");
}

static void a_bucket_refills_within_100_years_to_the_nanosecond(void **state)
{
    (void)state;
    assert_legal(make(CAUDAL_TOKEN_BUCKET, 1, 36525 * DAY / 100, 100));
    assert_illegal(make(CAUDAL_TOKEN_BUCKET, 1, 36525 * DAY / 100, 101), CAUDAL_ERR_LIMIT,
                   "a burst of 101 at 1 per 31557600000000000 ns takes above 100 years to refill; give a smaller "
                   "burst or a higher rate");
    /* A third of a nanosecond too long: no division may round it away. */
    assert_legal(make(CAUDAL_TOKEN_BUCKET, 3, CAUDAL_REFILL_MAX_NS, 3));
    assert_illegal(make(CAUDAL_TOKEN_BUCKET, 3, CAUDAL_REFILL_MAX_NS / 4 * 3 + 1, 4), CAUDAL_ERR_LIMIT, "100 years");
}

static void a_bucket_without_refill_is_legal_whatever_it_holds(void **state)
{
    (void)state;
    assert_legal(make(CAUDAL_TOKEN_BUCKET, 0, CAUDAL_REFILL_MAX_NS, CAUDAL_CAPACITY_MAX));
    assert_legal(make(CAUDAL_TOKEN_BUCKET, 0, 1, 0));
    assert_illegal(make(CAUDAL_TOKEN_BUCKET, 0, 1, CAUDAL_CAPACITY_MAX + 1), CAUDAL_ERR_LIMIT, "above 2^40");
}

static void a_limit_that_refuses_everything_is_legal(void **state)
{
    (void)state;
    for (enum caudal_algorithm a = CAUDAL_TOKEN_BUCKET; a < CAUDAL_UNLIMITED; a++)
        assert_legal(make(a, 0, SECOND, CAUDAL_BURST_DEFAULT));
    assert_legal(make(CAUDAL_TOKEN_BUCKET, 10, SECOND, 0));
}

static void a_sliding_log_counts_to_10000(void **state)
{
    (void)state;
    assert_legal(make(CAUDAL_SLIDING_LOG, 10000, SECOND, CAUDAL_BURST_DEFAULT));
    assert_illegal(make(CAUDAL_SLIDING_LOG, 10001, SECOND, CAUDAL_BURST_DEFAULT), CAUDAL_ERR_LIMIT,
                   "a count of 10001 is above the 10000 of a sliding_log; give a smaller one, or another algorithm");
}

static void only_a_token_bucket_has_a_burst(void **state)
{
    (void)state;
    for (enum caudal_algorithm a = CAUDAL_FIXED_WINDOW; a < CAUDAL_UNLIMITED; a++) {
        assert_illegal(make(a, 10, SECOND, 10), CAUDAL_ERR_LIMIT, "a burst of 10 on a ");
        assert_illegal(make(a, 10, SECOND, 0), CAUDAL_ERR_LIMIT, "only a token_bucket has one; leave it out");
    }
}

static void unlimited_has_no_numbers(void **state)
{
    (void)state;
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    limit.algorithm = CAUDAL_UNLIMITED;
    assert_legal(limit);
    assert_illegal(make(CAUDAL_UNLIMITED, 1, 0, CAUDAL_BURST_DEFAULT), CAUDAL_ERR_LIMIT, "unlimited has no count");
    assert_illegal(make(CAUDAL_UNLIMITED, 0, 1, CAUDAL_BURST_DEFAULT), CAUDAL_ERR_LIMIT, "unlimited has no count");
    assert_illegal(make(CAUDAL_UNLIMITED, 0, 0, 0), CAUDAL_ERR_LIMIT, "unlimited has no count");
}

/* ---- capacity and names ---- */

static void a_capacity_is_a_burst_or_else_a_count(void **state)
{
    (void)state;
    struct caudal_limit limit = bucket(100, MINUTE);
    assert_int_equal(caudal_limit_capacity(&limit), 100);
    limit.burst = 20;
    assert_int_equal(caudal_limit_capacity(&limit), 20);
    limit.burst = 0;
    assert_int_equal(caudal_limit_capacity(&limit), 0);
    limit = make(CAUDAL_SLIDING_WINDOW, 7, SECOND, CAUDAL_BURST_DEFAULT);
    assert_int_equal(caudal_limit_capacity(&limit), 7);
    limit = make(CAUDAL_UNLIMITED, 0, 0, CAUDAL_BURST_DEFAULT);
    assert_true(caudal_limit_capacity(&limit) == UINT64_MAX);
    assert_int_equal(caudal_limit_capacity(NULL), 0);
}

static void an_algorithm_has_a_name_if_it_exists(void **state)
{
    (void)state;
    assert_string_equal(caudal_algorithm_name(CAUDAL_TOKEN_BUCKET), "token_bucket");
    assert_string_equal(caudal_algorithm_name(CAUDAL_FIXED_WINDOW), "fixed_window");
    assert_string_equal(caudal_algorithm_name(CAUDAL_SLIDING_WINDOW), "sliding_window");
    assert_string_equal(caudal_algorithm_name(CAUDAL_SLIDING_LOG), "sliding_log");
    assert_string_equal(caudal_algorithm_name(CAUDAL_UNLIMITED), "unlimited");
    assert_null(caudal_algorithm_name((enum caudal_algorithm)5));
    assert_null(caudal_algorithm_name((enum caudal_algorithm) - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_count_and_a_unit_are_a_token_bucket),
        cmocka_unit_test(a_period_may_be_a_multiple_of_its_unit),
        cmocka_unit_test(per_is_another_word_for_the_slash),
        cmocka_unit_test(blanks_may_stand_between_any_two_words),
        cmocka_unit_test(every_unit_has_a_brief_a_long_and_a_plural_name),
        cmocka_unit_test(a_unit_has_no_other_names),
        cmocka_unit_test(letters_may_be_of_either_case),
        cmocka_unit_test(options_come_in_any_order),
        cmocka_unit_test(every_algorithm_can_be_named),
        cmocka_unit_test(an_option_is_given_at_most_once),
        cmocka_unit_test(an_underscore_joins_two_digits_and_nothing_else),
        cmocka_unit_test(only_plain_whole_numbers_are_numbers),
        cmocka_unit_test(leading_zeros_change_nothing),
        cmocka_unit_test(a_period_without_a_unit_is_refused),
        cmocka_unit_test(an_unfinished_text_says_what_is_missing),
        cmocka_unit_test(trailing_text_is_refused),
        cmocka_unit_test(foreign_bytes_are_shown_as_question_marks),
        cmocka_unit_test(a_long_word_is_cut_in_the_message),
        cmocka_unit_test(a_number_above_64_bits_is_a_limit_that_cannot_be_enforced),
        cmocka_unit_test(the_number_that_stands_for_no_burst_cannot_be_written),
        cmocka_unit_test(the_longest_text_that_is_read_has_1024_bytes),
        cmocka_unit_test(a_huge_text_is_not_read_to_its_end),
        cmocka_unit_test(a_limit_that_cannot_be_enforced_is_refused_at_the_word_to_change),
        cmocka_unit_test(reading_needs_a_text_and_a_place_for_the_limit),
        cmocka_unit_test(a_limit_is_written_in_the_longest_unit_that_is_exact),
        cmocka_unit_test(a_month_and_a_year_are_written_as_the_days_they_stand_for),
        cmocka_unit_test(a_burst_is_written_when_it_was_given_even_if_it_is_the_count),
        cmocka_unit_test(an_algorithm_is_written_when_it_is_not_a_token_bucket),
        cmocka_unit_test(the_largest_limits_fit_the_promised_size),
        cmocka_unit_test(reading_back_what_was_written_gives_the_same_limit),
        cmocka_unit_test(writing_cuts_to_the_buffer_and_tells_the_whole_length),
        cmocka_unit_test(a_limit_must_be_there_and_of_a_known_size),
        cmocka_unit_test(an_unknown_algorithm_is_refused),
        cmocka_unit_test(a_period_is_above_0_and_at_most_100_years),
        cmocka_unit_test(a_rate_is_at_most_one_token_a_nanosecond),
        cmocka_unit_test(a_capacity_is_at_most_2_to_the_40),
        cmocka_unit_test(a_bucket_refills_within_100_years_to_the_nanosecond),
        cmocka_unit_test(a_bucket_without_refill_is_legal_whatever_it_holds),
        cmocka_unit_test(a_limit_that_refuses_everything_is_legal),
        cmocka_unit_test(a_sliding_log_counts_to_10000),
        cmocka_unit_test(only_a_token_bucket_has_a_burst),
        cmocka_unit_test(unlimited_has_no_numbers),
        cmocka_unit_test(a_capacity_is_a_burst_or_else_a_count),
        cmocka_unit_test(an_algorithm_has_a_name_if_it_exists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
