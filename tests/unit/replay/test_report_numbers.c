/* Numbers, times and names as people read them. */
#include "replay/report_numbers.h"

#include "../support.h"

static void numbers_have_commas(void **state)
{
    (void)state;
    assert_string_equal(cdl_show_number(0).text, "0");
    assert_string_equal(cdl_show_number(999).text, "999");
    assert_string_equal(cdl_show_number(1000).text, "1,000");
    assert_string_equal(cdl_show_number(12345).text, "12,345");
    assert_string_equal(cdl_show_number(1000000000000).text, "1,000,000,000,000");
    assert_string_equal(cdl_show_number(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

static void short_numbers_have_three_digits(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0, "0"},        {-0.0, "0"},   {0.25, "0.25"}, {1, "1"},        {950, "950"},
        {999, "999"},    {999.9, "1k"}, {1000, "1k"},   {1500, "1.5k"},  {20e6, "20M"},
        {999.6e6, "1G"}, {1e12, "1T"},  {1e15, "1P"},   {1.8e19, "18E"}, {12345678, "12.3M"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(cdl_show_short(cases[i].number).text, cases[i].text);
}

static void a_share_is_not_rounded_to_nothing_or_to_all(void **state)
{
    (void)state;
    assert_string_equal(cdl_show_share(0, 0).text, "0 %");
    assert_string_equal(cdl_show_share(0, 7).text, "0 %");
    assert_string_equal(cdl_show_share(7, 7).text, "100 %");
    assert_string_equal(cdl_show_share(123, 1000).text, "12.3 %");
    assert_string_equal(cdl_show_share(1, 3).text, "33.3 %");
    assert_string_equal(cdl_show_share(1, 2000).text, "0.1 %");
    assert_string_equal(cdl_show_share(1, 2001).text, "< 0.1 %");
    assert_string_equal(cdl_show_share(1, UINT64_MAX).text, "< 0.1 %");
    assert_string_equal(cdl_show_share(UINT64_MAX - 1, UINT64_MAX).text, "> 99.9 %");
    assert_string_equal(cdl_show_share(1999, 2000).text, "> 99.9 %");
    assert_string_equal(cdl_show_fraction(0.001).text, "0.1 %");
    assert_string_equal(cdl_show_fraction(1).text, "100 %");
    assert_string_equal(cdl_show_fraction(0.0005).text, "0.05 %");
}

static void durations_have_two_units(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0 s"},
        {1, "1 ns"},
        {3 * MICROSECOND, "3 us"},
        {1234567, "1.234 ms"},
        {250 * MILLISECOND, "250 ms"},
        {12 * SECOND + 500 * MILLISECOND, "12.5 s"},
        {SECOND + 50 * MILLISECOND, "1.05 s"},
        {59 * SECOND + 999999999, "59.999 s"},
        {MINUTE, "1 min"},
        {3 * MINUTE + 20 * SECOND + 999, "3 min 20 s"},
        {2 * HOUR, "2 h"},
        {2 * HOUR + 59 * SECOND, "2 h"},
        {DAY + 5 * HOUR + 59 * MINUTE, "1 d 5 h"},
        {INT64_MAX, "106751 d 23 h"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(cdl_show_duration(cases[i].ns).text, cases[i].text);
}

static void instants_are_in_utc(void **state)
{
    (void)state;
    assert_string_equal(cdl_show_instant(EPOCH).text, "2025-12-01 00:00:00Z");
    assert_string_equal(cdl_show_instant(EPOCH + DAY - 1).text, "2025-12-01 23:59:59Z");
    assert_string_equal(cdl_show_instant(0).text, "1970-01-01 00:00:00Z");
    assert_string_equal(cdl_show_instant(-1).text, "1969-12-31 23:59:59Z");
    assert_string_equal(cdl_show_instant(INT64_MAX).text, "2262-04-11 23:47:16Z");
}

static void assert_name(struct cdl_slice name, size_t columns, const char *want)
{
    char bytes[512];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes - 1);
    cdl_show_name(&writer, name, columns);
    assert_false(writer.overflow);
    bytes[writer.length] = '\0';
    assert_string_equal(bytes, want);
}

static void a_long_name_keeps_its_ends(void **state)
{
    (void)state;
    assert_name(CDL_SLICE(""), 8, "");
    assert_name(CDL_SLICE("12345678"), 8, "12345678");
    assert_name(CDL_SLICE("123456789"), 8, "12345…89");
    assert_name(CDL_SLICE("203.0.113.7|/api/items/one"), 20, "203.0.113.7|/…ms/one");
    assert_name(CDL_SLICE("ääääääääääää"), 9, "äääää…äää");
}

static void what_cannot_be_shown_is_marked(void **state)
{
    (void)state;
    assert_name(CDL_SLICE("a\nb"), 20,
                "a\xef\xbf\xbd"
                "0ab");
    assert_name(CDL_SLICE("\xe2\x80\xae"
                          "evil"),
                20,
                "\xef\xbf\xbd"
                "e2\xef\xbf\xbd"
                "80\xef\xbf\xbd"
                "aeevil");
    assert_name(CDL_SLICE("\xff"), 20,
                "\xef\xbf\xbd"
                "ff");
    assert_name(CDL_SLICE("\xef\xbf\xbd"), 20,
                "\xef\xbf\xbd"
                "ef\xef\xbf\xbd"
                "bf\xef\xbf\xbd"
                "bd");
    assert_name(CDL_SLICE("\xef\xbf\xbf"), 20,
                "\xef\xbf\xbd"
                "ef\xef\xbf\xbd"
                "bf\xef\xbf\xbd"
                "bf");
    /* A mark is not cut through. */
    assert_name(CDL_SLICE("abc\x01zzzzzzzzzz"), 8, "abc…zz");
}

static void a_name_of_any_length_fits_into_four_bytes_a_column(void **state)
{
    (void)state;
    static char name[65536];
    struct rng rng = {7};
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof name; i++)
            name[i] = (char)rng_next(&rng);
        char bytes[4 * 24];
        struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
        cdl_show_name(&writer, (struct cdl_slice){name, 1 + rng_below(&rng, sizeof name)}, 24);
        assert_false(writer.overflow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_commas),
        cmocka_unit_test(short_numbers_have_three_digits),
        cmocka_unit_test(a_share_is_not_rounded_to_nothing_or_to_all),
        cmocka_unit_test(durations_have_two_units),
        cmocka_unit_test(instants_are_in_utc),
        cmocka_unit_test(a_long_name_keeps_its_ends),
        cmocka_unit_test(what_cannot_be_shown_is_marked),
        cmocka_unit_test(a_name_of_any_length_fits_into_four_bytes_a_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
