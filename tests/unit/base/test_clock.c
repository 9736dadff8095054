/* The fake clock stands still; the system's clocks do not go back. */
#include "base/clock.h"

#include "../support.h"

static int64_t monotonic(const struct caudal_clock *clock)
{
    return clock->monotonic_ns(clock->context);
}

static int64_t realtime(const struct caudal_clock *clock)
{
    return clock->realtime_ns(clock->context);
}

static void a_fake_clock_reads_what_it_was_set_to_on_both(void **state)
{
    (void)state;
    struct caudal_fake_clock *fake = caudal_fake_clock_new(-5);
    const struct caudal_clock *clock = caudal_fake_clock_clock(fake);
    assert_int_equal(clock->size, sizeof *clock);
    assert_int_equal(monotonic(clock), -5);
    assert_int_equal(realtime(clock), -5);
    caudal_fake_clock_set(fake, INT64_MAX);
    assert_int_equal(monotonic(clock), INT64_MAX);
    caudal_fake_clock_set(fake, INT64_MIN);
    assert_int_equal(realtime(clock), INT64_MIN);
    caudal_fake_clock_free(fake);
}

static void a_fake_clock_moves_forward_and_back(void **state)
{
    (void)state;
    struct caudal_fake_clock *fake = caudal_fake_clock_new(100);
    const struct caudal_clock *clock = caudal_fake_clock_clock(fake);
    caudal_fake_clock_advance(fake, 50);
    assert_int_equal(monotonic(clock), 150);
    caudal_fake_clock_advance(fake, -200);
    assert_int_equal(monotonic(clock), -50);
    assert_int_equal(realtime(clock), -50);
    caudal_fake_clock_free(fake);
}

static void freeing_no_clock_does_nothing(void **state)
{
    (void)state;
    caudal_fake_clock_free(NULL);
}

static void fake_clocks_do_not_share_their_time(void **state)
{
    (void)state;
    struct caudal_fake_clock *a = caudal_fake_clock_new(1), *b = caudal_fake_clock_new(2);
    caudal_fake_clock_set(a, 10);
    assert_int_equal(monotonic(caudal_fake_clock_clock(b)), 2);
    caudal_fake_clock_free(a);
    caudal_fake_clock_free(b);
}

static void the_system_clock_never_goes_back(void **state)
{
    (void)state;
    const struct caudal_clock *clock = caudal_clock_system();
    int64_t last = monotonic(clock);
    for (int i = 0; i < 100000; i++) {
        const int64_t now = monotonic(clock);
        assert_true(now >= last);
        last = now;
    }
}

static void the_system_clocks_are_the_same_for_everybody(void **state)
{
    (void)state;
    const struct caudal_clock *clock = caudal_clock_system();
    assert_non_null(clock);
    assert_ptr_equal(clock, caudal_clock_system());
    assert_int_equal(clock->size, sizeof *clock);
}

/* The two have different zeros; the real one counts from 1970, and this library was not written before 2025. */
static void the_real_time_counts_from_1970(void **state)
{
    (void)state;
    const int64_t now = realtime(caudal_clock_system());
    assert_true(now > EPOCH - YEAR);
    assert_true(now < INT64_C(5000000000) * SECOND);
}

static void sleeping_ends_when_its_instant_has_come(void **state)
{
    (void)state;
    const struct caudal_clock *clock = caudal_clock_system();
    const int64_t before = monotonic(clock);
    cdl_sleep_until(before - SECOND);
    cdl_sleep_until(-1);
    assert_true(monotonic(clock) - before < SECOND);
    cdl_sleep_until(before + 2 * MILLISECOND);
    assert_true(monotonic(clock) >= before + 2 * MILLISECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fake_clock_reads_what_it_was_set_to_on_both),
        cmocka_unit_test(a_fake_clock_moves_forward_and_back),
        cmocka_unit_test(freeing_no_clock_does_nothing),
        cmocka_unit_test(fake_clocks_do_not_share_their_time),
        cmocka_unit_test(the_system_clock_never_goes_back),
        cmocka_unit_test(the_system_clocks_are_the_same_for_everybody),
        cmocka_unit_test(the_real_time_counts_from_1970),
        cmocka_unit_test(sleeping_ends_when_its_instant_has_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
