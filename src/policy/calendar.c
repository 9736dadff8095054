#include "policy/calendar.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/arith.h"
#include "caudal/key.h"

#define DAY_S INT64_C(86400)

bool cdl_calendar_has(enum cdl_unit unit)
{
    return unit == CDL_UNIT_DAY || unit == CDL_UNIT_WEEK || unit == CDL_UNIT_MONTH || unit == CDL_UNIT_YEAR;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* The day that a window begins on, which is `later` windows behind the one that holds `day`. Days since 1970. */
static int64_t first_day(enum cdl_unit unit, int64_t day, int64_t later)
{
    int64_t year;
    int32_t month, of_month;
    cdl_date_of_days(day, &year, &month, &of_month);
    const int64_t months = 12 * year + month - 1 + later;
    switch (unit) {
    case CDL_UNIT_WEEK:
        return floor_div(day + 3, 7) * 7 - 3 + 7 * later; /* 1970-01-01 was a Thursday */
    case CDL_UNIT_MONTH:
        return cdl_days_of_date(floor_div(months, 12), (int32_t)(months - floor_div(months, 12) * 12) + 1, 1);
    case CDL_UNIT_YEAR:
        return cdl_days_of_date(year + later, 1, 1);
    default:
        return day + later;
    }
}

struct cdl_calendar_window cdl_calendar_window(const struct cdl_calendar *calendar, int64_t now_s)
{
    const int64_t local_s = now_s + cdl_zone_offset_s(&calendar->zone, now_s);
    const int64_t day = floor_div(local_s, DAY_S);
    struct cdl_calendar_window window;
    /* When clocks are set back over midnight, the wall shows the old day again although the new window has begun. */
    int64_t later = 0;
    do {
        window.begins_s = cdl_zone_instant_s(&calendar->zone, first_day(calendar->unit, day, later) * DAY_S);
        window.ends_s = cdl_zone_instant_s(&calendar->zone, first_day(calendar->unit, day, ++later) * DAY_S);
    } while (window.ends_s <= now_s);
    return window;
}

int64_t cdl_calendar_period_s(struct cdl_calendar_window window)
{
    int64_t period_s = 2 * (window.ends_s - window.begins_s);
    if (window.begins_s < 0 && window.ends_s > 0)
        return period_s; /* all windows have an edge at the epoch: what a clock that was never set gets is two windows */
    while (floor_div(window.begins_s, period_s) != floor_div(window.ends_s - 1, period_s))
        period_s += DAY_S / 2;
    return period_s;
}

/* The part is written as caudal_key_join writes parts, so that no other key can be like it. */
bool cdl_calendar_charge(const struct cdl_calendar *calendar, int64_t now_ns, struct cdl_writer *scratch,
                         struct cdl_charge *charge)
{
    const struct cdl_calendar_window window = cdl_calendar_window(calendar, floor_div(now_ns, CDL_NS_PER_S));
    char number[24], part[32];
    const int digits = snprintf(number, sizeof number, "%" PRId64, window.begins_s);
    snprintf(part, sizeof part, "%d:%s,", digits, number);
    cdl_write_text(scratch, part);
    charge->key.length += strlen(part);
    charge->per_call = (struct caudal_limit){
        .size = sizeof charge->per_call,
        .algorithm = CAUDAL_FIXED_WINDOW,
        .count = calendar->count,
        .period_ns = (uint64_t)(cdl_calendar_period_s(window) * CDL_NS_PER_S),
        .burst = CAUDAL_BURST_DEFAULT,
    };
    charge->ends_at_ns = window.ends_s * CDL_NS_PER_S;
    return !scratch->overflow && charge->key.length <= CAUDAL_KEY_MAX;
}
