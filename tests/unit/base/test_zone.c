/* Time zones beside the C library's, which reads the same files with code of its own, and beside what the words of zone.h say. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../support.h"
#include "base/zone.h"

#define DAY_S 86400

/* Zones with something of their own: a rule of the south, half an hour of summer, none at all, a change at midnight, a day that was
 * left out, negative summer time, a rule beyond a day. */
static const char *const zones[] = {
    "Europe/Berlin",    "America/New_York",   "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo",
    "Pacific/Apia",     "Europe/Dublin",      "America/Nuuk",        "Africa/Cairo", "Asia/Tehran",
    "America/Santiago", "Africa/Casablanca",  "Antarctica/Troll",    "Asia/Gaza",    "America/Havana",
    "Etc/GMT+12",       "Pacific/Kiritimati", "Asia/Kathmandu",
};
#define ZONES (sizeof zones / sizeof zones[0])

static struct cdl_arena arena;

static struct cdl_zone zone_of(const char *name)
{
    struct cdl_zone zone;
    const char *why = NULL;
    if (!cdl_zone_load(name, &arena, &zone, &why))
        fail_msg("%s %s", name, why);
    return zone;
}

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

static void days_and_dates_are_the_c_librarys(void **state)
{
    (void)state;
    for (int64_t days = -800000; days < 800000; days += 7) {
        int64_t year;
        int32_t month, day;
        struct tm tm;
        const time_t seconds = (time_t)days * DAY_S;
        gmtime_r(&seconds, &tm);
        cdl_date_of_days(days, &year, &month, &day);
        assert_int_equal(year, tm.tm_year + 1900);
        assert_int_equal(month, tm.tm_mon + 1);
        assert_int_equal(day, tm.tm_mday);
        assert_int_equal(cdl_days_of_date(year, month, day), days);
    }
}

/* Instants of 1850 to 2150, and those around each change. */
static int64_t some_instant(struct rng *rng, const struct cdl_zone *zone)
{
    if (zone->count > 0 && rng_below(rng, 2) == 0)
        return zone->since[rng_below(rng, zone->count)] - 2 + (int64_t)rng_below(rng, 5);
    return (int64_t)rng_below(rng, UINT64_C(300) * 365 * DAY_S) - INT64_C(120) * 365 * DAY_S;
}

static void offsets_are_the_c_librarys(void **state)
{
    (void)state;
    struct rng rng = {.state = 1};
    for (size_t i = 0; i < ZONES; i++) {
        const struct cdl_zone zone = zone_of(zones[i]);
        setenv("TZ", zones[i], 1);
        tzset();
        for (int n = 0; n < 3000; n++) {
            const time_t instant = some_instant(&rng, &zone);
            struct tm tm;
            localtime_r(&instant, &tm);
            if (cdl_zone_offset_s(&zone, instant) != tm.tm_gmtoff)
                fail_msg("%s at %lld: %d, not %ld", zones[i], (long long)instant, cdl_zone_offset_s(&zone, instant),
                         tm.tm_gmtoff);
        }
    }
}

/* The first instant that shows so much or more: the one before does not, nor does any of the two days before that. */
static void an_instant_is_the_first_that_shows_it(void **state)
{
    (void)state;
    struct rng rng = {.state = 2};
    for (size_t i = 0; i < ZONES; i++) {
        const struct cdl_zone zone = zone_of(zones[i]);
        for (int n = 0; n < 500; n++) {
            const int64_t local = some_instant(&rng, &zone) / 900 * 900;
            const int64_t first = cdl_zone_instant_s(&zone, local);
            assert_true(first + cdl_zone_offset_s(&zone, first) >= local);
            assert_true(first - 1 + cdl_zone_offset_s(&zone, first - 1) < local);
            for (int64_t before = first - 2 * DAY_S; before < first; before += 300)
                if (before + cdl_zone_offset_s(&zone, before) >= local)
                    fail_msg("%s: %lld is shown at %lld, not first at %lld", zones[i], (long long)local,
                             (long long)before, (long long)first);
        }
    }
}

static void UTC_needs_no_file(void **state)
{
    (void)state;
    const struct cdl_zone utc = zone_of("UTC");
    assert_int_equal(cdl_zone_offset_s(&utc, 1764547200), 0);
    assert_int_equal(cdl_zone_instant_s(&utc, 1764547200), 1764547200);
    assert_int_equal(cdl_zone_instant_s(&utc, INT64_MAX), INT64_C(1) << 50);
}

static void what_is_no_zone_is_refused(void **state)
{
    (void)state;
    struct cdl_zone zone;
    const char *why;
    static const char *const names[] = {
        "", "/etc/passwd", "../../../etc/passwd", "Europe/../UTC", "Europe/Berlin\n", "Nowhere/Town", "Europe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_false(cdl_zone_load(names[i], &arena, &zone, &why));
}

static void a_file_that_is_cut_anywhere_is_refused(void **state)
{
    (void)state;
    static char bytes[65536];
    struct cdl_zone zone;
    const char *why;
    FILE *file = fopen("/usr/share/zoneinfo/Europe/Berlin", "r");
    assert_non_null(file);
    const size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(cdl_zone_read((struct cdl_slice){bytes, length}, &arena, &zone, &why));
    for (size_t cut = 0; cut < length; cut++) {
        char *copy = malloc(cut + 1); /* so that a sanitizer sees who reads on */
        memcpy(copy, bytes, cut);
        assert_false(cdl_zone_read((struct cdl_slice){copy, cut}, &arena, &zone, &why));
        assert_non_null(why);
        free(copy);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(days_and_dates_are_the_c_librarys),
        CASE(offsets_are_the_c_librarys),
        CASE(an_instant_is_the_first_that_shows_it),
        CASE(UTC_needs_no_file),
        CASE(what_is_no_zone_is_refused),
        CASE(a_file_that_is_cut_anywhere_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
