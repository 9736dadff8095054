/* Durations, read and written. */
#include "base/duration.h"

#include "../support.h"

static void assert_reads(const char *text, int64_t want)
{
    int64_t ns = -1;
    if (!cdl_duration_parse(cdl_slice_of(text), &ns) || ns != want)
        fail_msg("'%s': %lld", text, (long long)ns);
}

static void a_duration_is_a_whole_number_and_a_unit(void **state)
{
    (void)state;
    assert_reads("1ns", 1);
    assert_reads("0s", 0);
    assert_reads("1500us", 1500 * MICROSECOND);
    assert_reads("15ms", 15 * MILLISECOND);
    assert_reads("60s", MINUTE);
    assert_reads("2m", 2 * MINUTE);
    assert_reads("2min", 2 * MINUTE);
    assert_reads("3h", 3 * HOUR);
    assert_reads("007d", 7 * DAY);
    assert_reads("9223372036854775807ns", INT64_MAX);
    assert_reads("9223372036s", INT64_C(9223372036) * SECOND);
}

static void nothing_else_is_one(void **state)
{
    (void)state;
    static const char *const texts[] = {"",        "15",  "ms",   "s",  "1 s",  "1s ",         " 1s",
                                        "-1s",     "+1s", "1.5s", "1S", "1sec", "9223372037s", "9223372036854775808ns",
                                        "106752d", "1_0s"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        int64_t ns;
        if (cdl_duration_parse(cdl_slice_of(texts[i]), &ns))
            fail_msg("'%s': %lld", texts[i], (long long)ns);
    }
}

static void assert_writes(int64_t ns, const char *want)
{
    char bytes[40];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
    cdl_duration_write_seconds(&writer, ns);
    assert_false(writer.overflow);
    assert_int_equal(writer.length, strlen(want));
    assert_memory_equal(bytes, want, writer.length);
}

static void seconds_are_written_exactly(void **state)
{
    (void)state;
    assert_writes(0, "0s");
    assert_writes(1, "0.000000001s");
    assert_writes(1250 * MILLISECOND, "1.25s");
    assert_writes(MINUTE, "60s");
    assert_writes(10 * SECOND + 10, "10.00000001s");
    assert_writes(999999999, "0.999999999s");
    assert_writes(100 * MILLISECOND, "0.1s");
    assert_writes(INT64_MAX, "9223372036.854775807s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_a_whole_number_and_a_unit),
        cmocka_unit_test(nothing_else_is_one),
        cmocka_unit_test(seconds_are_written_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
