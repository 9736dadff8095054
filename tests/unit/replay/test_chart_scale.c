/* Which round values stand at an axis. */
#include "replay/chart_scale.h"

#include "../support.h"

static void values_are_round_and_not_too_many(void **state)
{
    (void)state;
    static const struct {
        double top;
        unsigned most;
        double step;
    } cases[] = {{1, 6, 0.2},   {3, 6, 0.5},     {100, 3, 50},      {100, 6, 20},
                 {999, 6, 200}, {1e12, 6, 2e11}, {0.003, 6, 0.0005}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const double step = cdl_scale_step(cases[i].top, cases[i].most);
        assert_true(step > cases[i].step * 0.999 && step < cases[i].step * 1.001);
    }
    struct rng rng = {11};
    for (int round = 0; round < 1000; round++) {
        const double top = (double)rng_magnitude(&rng, UINT64_MAX - 1);
        const double step = cdl_scale_step(top, 6);
        assert_true(top / step <= 7.001 && top / step > 2);
    }
}

static void instants_are_round_and_not_too_many(void **state)
{
    (void)state;
    assert_int_equal(cdl_scale_time_step(SECOND, 8), SECOND);
    assert_int_equal(cdl_scale_time_step(10 * SECOND, 5), 2 * SECOND);
    assert_int_equal(cdl_scale_time_step(HOUR, 8), 10 * MINUTE);
    assert_int_equal(cdl_scale_time_step(DAY, 8), 3 * HOUR);
    assert_int_equal(cdl_scale_time_step(30 * DAY, 8), 7 * DAY);
    for (int64_t length_ns = SECOND; length_ns < 60 * YEAR; length_ns = length_ns * 3 / 2)
        assert_true(length_ns / cdl_scale_time_step(length_ns, 4) <= 4);
}

static void assert_label(int64_t at_ns, int64_t step_ns, const char *upper, const char *lower)
{
    char got_upper[16], got_lower[16];
    cdl_scale_time_label(at_ns, step_ns, got_upper, got_lower);
    assert_string_equal(got_upper, upper);
    assert_string_equal(got_lower, lower);
}

static void instants_are_written_as_finely_as_they_lie(void **state)
{
    (void)state;
    assert_label(EPOCH + 3 * HOUR + 62 * SECOND, SECOND, "03:01:02", "2025-12-01");
    assert_label(EPOCH + 3 * HOUR, HOUR, "03:00", "2025-12-01");
    assert_label(EPOCH, DAY, "12-01", "2025");
    assert_label(-SECOND, SECOND, "23:59:59", "1969-12-31");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_round_and_not_too_many),
        cmocka_unit_test(instants_are_round_and_not_too_many),
        cmocka_unit_test(instants_are_written_as_finely_as_they_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
