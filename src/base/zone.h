/* Time zones: what a clock on the wall shows at an instant, and at which instant it shows something.
 *
 * A zone is read from a TZif file (RFC 9636), as systems keep them: a list of instants from which another offset to UTC holds, and
 * for all that comes after the list a rule, such as "the last Sunday of March, at two". Seconds since 1970, leap seconds not
 * counted, on both sides. */
#ifndef CDL_BASE_ZONE_H
#define CDL_BASE_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"

/* One of the two days in a year on which a rule changes the offset. */
struct cdl_zone_edge {
    enum {
        CDL_EDGE_WEEKDAY,     /* the `week`-th (5: the last) `day` (0: Sunday) of `month` */
        CDL_EDGE_NO_LEAP_DAY, /* day 1 to 365 of a year in which 29 February is not counted */
        CDL_EDGE_DAY,         /* day 0 to 365 */
    } kind;
    int32_t month, week, day;
    int32_t time_s; /* by the clock as it was before, from the day's midnight; may be negative or beyond the day */
};

struct cdl_zone {
    const int64_t *since; /* ascending */
    const int32_t *offsets_s;
    uint32_t count;
    int32_t first_offset_s; /* before the first */
    /* After the last: */
    bool has_rule; /* else the last offset stays */
    bool has_summer;
    int32_t standard_offset_s, summer_offset_s;
    struct cdl_zone_edge summer_begins, summer_ends;
};

/* What a zone may be off UTC by. */
#define CDL_ZONE_OFFSET_MAX_S (26 * 3600)

/* Reads a TZif file's bytes; lists live in the arena. On failure *why is a constant that says what is wrong. */
bool cdl_zone_read(struct cdl_slice bytes, struct cdl_arena *arena, struct cdl_zone *zone, const char **why);

/* The same by name ("Europe/Berlin") from the system's zones; "UTC" needs no file. */
bool cdl_zone_load(const char *name, struct cdl_arena *arena, struct cdl_zone *zone, const char **why);

/* What local time is ahead of UTC by, in seconds. */
int32_t cdl_zone_offset_s(const struct cdl_zone *zone, int64_t instant_s);

/* The first instant at which the clock shows `local_s` (seconds since 1970-01-01 00:00 on the wall) or later, within a day of it: the
 * first of two, when clocks are set back over it, and the first instant that exists, when they are set forward over it. */
int64_t cdl_zone_instant_s(const struct cdl_zone *zone, int64_t local_s);

/* Days since 1970-01-01 in the Gregorian calendar, and back. Any year that fits. */
int64_t cdl_days_of_date(int64_t year, int32_t month, int32_t day);
void cdl_date_of_days(int64_t days, int64_t *year, int32_t *month, int32_t *day);

#endif
