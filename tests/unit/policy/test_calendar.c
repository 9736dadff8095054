/* Windows of a civil calendar, where days have 23, 24 or 25 hours. */
#include "../support.h"
#include "policy/calendar.h"

static struct cdl_arena arena;

static int setup(void **state)
{
    (void)state;
    cdl_arena_init(&arena, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cdl_arena_free(&arena);
    return 0;
}

static struct cdl_calendar calendar_of(const char *zone, enum cdl_unit unit)
{
    struct cdl_calendar calendar = {.unit = unit};
    const char *why = NULL;
    if (!cdl_zone_load(zone, &arena, &calendar.zone, &why))
        fail_msg("%s %s", zone, why);
    return calendar;
}

/* An instant in UTC. */
static int64_t utc(int64_t year, int32_t month, int32_t day, int32_t hour, int32_t minute)
{
    return cdl_days_of_date(year, month, day) * 86400 + hour * 3600 + minute * 60;
}

static void expect(const char *zone, enum cdl_unit unit, int64_t now_s, int64_t begins_s, int64_t ends_s)
{
    const struct cdl_calendar calendar = calendar_of(zone, unit);
    const struct cdl_calendar_window window = cdl_calendar_window(&calendar, now_s);
    if (window.begins_s != begins_s || window.ends_s != ends_s)
        fail_msg("%s at %lld: %lld to %lld, not %lld to %lld", zone, (long long)now_s, (long long)window.begins_s,
                 (long long)window.ends_s, (long long)begins_s, (long long)ends_s);
}

static void C17_a_month_ends_with_the_month(void **state)
{
    (void)state;
    expect("UTC", CDL_UNIT_MONTH, utc(2026, 1, 1, 0, 0), utc(2026, 1, 1, 0, 0), utc(2026, 2, 1, 0, 0));
    expect("UTC", CDL_UNIT_MONTH, utc(2026, 1, 31, 23, 59), utc(2026, 1, 1, 0, 0), utc(2026, 2, 1, 0, 0));
    expect("UTC", CDL_UNIT_MONTH, utc(2024, 2, 29, 12, 0), utc(2024, 2, 1, 0, 0), utc(2024, 3, 1, 0, 0));
    expect("UTC", CDL_UNIT_MONTH, utc(2026, 12, 31, 12, 0), utc(2026, 12, 1, 0, 0), utc(2027, 1, 1, 0, 0));
}

static void C18_years_weeks_and_days_are_civil_too(void **state)
{
    (void)state;
    expect("UTC", CDL_UNIT_YEAR, utc(2026, 1, 31, 12, 0), utc(2026, 1, 1, 0, 0), utc(2027, 1, 1, 0, 0));
    expect("UTC", CDL_UNIT_WEEK, utc(2026, 12, 1, 12, 0), utc(2026, 11, 30, 0, 0),
           utc(2026, 12, 7, 0, 0)); /* a Tuesday */
    expect("UTC", CDL_UNIT_WEEK, utc(1969, 12, 29, 0, 0), utc(1969, 12, 29, 0, 0), utc(1970, 1, 5, 0, 0));
    expect("UTC", CDL_UNIT_DAY, utc(1969, 12, 31, 23, 59), utc(1969, 12, 31, 0, 0), utc(1970, 1, 1, 0, 0));
    expect("Asia/Kolkata", CDL_UNIT_DAY, utc(2026, 5, 1, 18, 29), utc(2026, 4, 30, 18, 30), utc(2026, 5, 1, 18, 30));
}

static void C19_days_have_23_and_25_hours_when_clocks_change(void **state)
{
    (void)state;
    expect("Europe/Berlin", CDL_UNIT_DAY, utc(2026, 3, 29, 12, 0), utc(2026, 3, 28, 23, 0), utc(2026, 3, 29, 22, 0));
    expect("Europe/Berlin", CDL_UNIT_DAY, utc(2026, 10, 25, 12, 0), utc(2026, 10, 24, 22, 0), utc(2026, 10, 25, 23, 0));
    expect("Europe/Berlin", CDL_UNIT_MONTH, utc(2026, 3, 31, 21, 59), utc(2026, 2, 28, 23, 0), utc(2026, 3, 31, 22, 0));
    expect("Europe/Berlin", CDL_UNIT_MONTH, utc(2026, 3, 31, 22, 0), utc(2026, 3, 31, 22, 0), utc(2026, 4, 30, 22, 0));
}

/* Sao Paulo of 2018 had no midnight on 4 November: its day began at one. Havana of 2026 shows midnight twice on 1 November: its day
 * begins with the first. */
static void C19_an_edge_that_does_not_exist_or_comes_twice(void **state)
{
    (void)state;
    expect("America/Sao_Paulo", CDL_UNIT_DAY, utc(2018, 11, 4, 12, 0), utc(2018, 11, 4, 3, 0), utc(2018, 11, 5, 2, 0));
    expect("America/Sao_Paulo", CDL_UNIT_DAY, utc(2018, 11, 4, 2, 59), utc(2018, 11, 3, 3, 0), utc(2018, 11, 4, 3, 0));
    expect("America/Havana", CDL_UNIT_DAY, utc(2026, 11, 1, 4, 30), utc(2026, 11, 1, 4, 0), utc(2026, 11, 2, 5, 0));
    expect("America/Havana", CDL_UNIT_DAY, utc(2026, 11, 1, 5, 30), utc(2026, 11, 1, 4, 0), utc(2026, 11, 2, 5, 0));
}

/* Samoa left out 30 December 2011: it is no window. */
static void a_day_that_was_left_out_is_no_window(void **state)
{
    (void)state;
    expect("Pacific/Apia", CDL_UNIT_DAY, utc(2011, 12, 30, 9, 59), utc(2011, 12, 29, 10, 0), utc(2011, 12, 30, 10, 0));
    expect("Pacific/Apia", CDL_UNIT_DAY, utc(2011, 12, 30, 10, 0), utc(2011, 12, 30, 10, 0), utc(2011, 12, 31, 10, 0));
}

static void windows_follow_one_another_without_a_gap(void **state)
{
    (void)state;
    static const char *const zones[] = {"UTC",       "Europe/Berlin",       "America/Havana", "America/Sao_Paulo",
                                        "Asia/Gaza", "Australia/Lord_Howe", "Pacific/Apia",   "Africa/Casablanca"};
    struct rng rng = {.state = 1};
    for (int n = 0; n < 4000; n++) {
        static const enum cdl_unit units[] = {CDL_UNIT_DAY, CDL_UNIT_WEEK, CDL_UNIT_MONTH, CDL_UNIT_YEAR};
        const struct cdl_calendar calendar = calendar_of(zones[rng_below(&rng, 8)], units[rng_below(&rng, 4)]);
        const int64_t now_s = rng_signed(&rng, INT64_C(5000000000));
        const struct cdl_calendar_window window = cdl_calendar_window(&calendar, now_s);
        assert_true(window.begins_s <= now_s && now_s < window.ends_s);
        const struct cdl_calendar_window same = cdl_calendar_window(&calendar, window.begins_s),
                                         last = cdl_calendar_window(&calendar, window.ends_s - 1),
                                         next = cdl_calendar_window(&calendar, window.ends_s);
        assert_int_equal(same.begins_s, window.begins_s);
        assert_int_equal(same.ends_s, window.ends_s);
        assert_int_equal(last.begins_s, window.begins_s);
        assert_int_equal(next.begins_s, window.ends_s);
    }
}

static void C17_a_store_keeps_a_window_until_it_ends(void **state)
{
    (void)state;
    struct rng rng = {.state = 2};
    for (int n = 0; n < 10000; n++) {
        const struct cdl_calendar calendar = {.unit = (n & 1) != 0 ? CDL_UNIT_MONTH : CDL_UNIT_YEAR};
        const struct cdl_calendar_window window = cdl_calendar_window(&calendar,
                                                                      (int64_t)rng_below(&rng, UINT64_C(9000000000)));
        const int64_t period_s = cdl_calendar_period_s(window);
        assert_int_equal(window.begins_s / period_s, (window.ends_s - 1) / period_s);
        assert_true(period_s < 5 * (window.ends_s - window.begins_s));
    }
}

/* A clock that was never set shows 1970, and the epoch is an edge of windows of any length. */
static void a_window_around_the_epoch_has_a_length_too(void **state)
{
    (void)state;
    assert_int_equal(cdl_calendar_period_s((struct cdl_calendar_window){-68400, 18000}), 2 * 86400);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(C17_a_month_ends_with_the_month),
        CASE(C18_years_weeks_and_days_are_civil_too),
        CASE(C19_days_have_23_and_25_hours_when_clocks_change),
        CASE(C19_an_edge_that_does_not_exist_or_comes_twice),
        CASE(a_day_that_was_left_out_is_no_window),
        CASE(windows_follow_one_another_without_a_gap),
        CASE(C17_a_store_keeps_a_window_until_it_ends),
        CASE(a_window_around_the_epoch_has_a_length_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
