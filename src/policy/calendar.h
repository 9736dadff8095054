/* Windows of a civil calendar: days, weeks from Monday, months and years as they are on a wall, in a time zone. Their lengths differ, so a
 * store's windows of equal length cannot count them; calendar windows are counted under keys of their own, one a window. */
#ifndef CDL_POLICY_CALENDAR_H
#define CDL_POLICY_CALENDAR_H

#include "base/zone.h"
#include "policy/domain.h"

struct cdl_calendar {
    struct cdl_zone zone;
    enum cdl_unit unit; /* DAY, WEEK, MONTH or YEAR */
    uint64_t count;     /* that is allowed in each */
};

/* Whether a calendar knows such windows. */
bool cdl_calendar_has(enum cdl_unit unit);

/* From `begins_s` up to and without `ends_s`, seconds since 1970 in UTC. */
struct cdl_calendar_window {
    int64_t begins_s, ends_s;
};

/* The window that an instant lies in. An edge is the first instant that shows midnight: the first of two when clocks are set back over
 * it, the first that exists when they are set forward over it. */
struct cdl_calendar_window cdl_calendar_window(const struct cdl_calendar *calendar, int64_t now_s);

/* A length for epoch-aligned windows one of which holds all of this calendar window. A store that counts the key of a calendar window
 * by windows of that length neither begins anew within it nor forgets it before it ends, and keeps it for less than five of its lengths. */
int64_t cdl_calendar_period_s(struct cdl_calendar_window window);

/* Makes a charge, whose key is the last that was written to `scratch`, one of the window that `now_ns` (realtime) lies in: its key is
 * longer by a part, and what is enforced is set. False: the key does not fit. */
bool cdl_calendar_charge(const struct cdl_calendar *calendar, int64_t now_ns, struct cdl_writer *scratch,
                         struct cdl_charge *charge);

#endif
