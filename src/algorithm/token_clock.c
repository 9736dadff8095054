#include "algorithm/token_clock.h"

#include <assert.h>

/* Units a nanosecond that a new clock aims at: fine enough for waits exact to a fraction of a nanosecond, coarse enough for
 * its window to last for years. */
#define SLOPE_TARGET 16u
/* The steepest slope, in units a nanosecond, at which whole numbers are still preferred: its window lasts for weeks. */
#define SLOPE_MAX 4096u
/* A change of rate keeps the units while the slope stays within these. Below, a wait would be late by a nanosecond. */
#define SLOPE_KEPT_MIN 2u
#define SLOPE_KEPT_MAX 64u
#define FULL_UNITS_MAX (UINT64_C(1) << 62)
/* V moves by this at the most from the middle of the window to either side. */
#define HALF_WINDOW_UNITS ((INT64_C(1) << 61) - (INT64_C(1) << 50))
/* The same for a clock that stands still. */
#define HALF_WINDOW_NS (INT64_C(1) << 61)
/* A debt is cut to this when it is moved to another clock or window. It is beyond any capacity and skew after half a window
 * forward, and below 2^63 after half a window back. */
#define DEBT_MAX (((cdl_i128)1 << 62) + ((cdl_i128)1 << 61))
/* Likewise the other way: what has been full for longer than this is kept as full for so long. */
#define IDLE_MAX ((cdl_i128)1 << 61)

/* Units in a token for a new clock. */
static uint64_t choose_unit(uint64_t count, uint64_t period_ns, uint64_t capacity)
{
    const uint64_t most = capacity == 0 ? FULL_UNITS_MAX : FULL_UNITS_MAX / capacity;
    if (count == 0)
        return cdl_min_u64(most, UINT64_C(1) << 20); /* a clock that stands still: any unit is exact */
    const uint64_t divisor = cdl_common_divisor(count, period_ns);
    const uint64_t n = count / divisor, p = period_ns / divisor;
    assert(p > 0); /* a legal period is, and the divisor divides it */
    if (n <= SLOPE_MAX && p <= most) {
        uint64_t j = n < SLOPE_TARGET ? SLOPE_TARGET / n : 1;
        return p * cdl_min_u64(j, most / p);
    }
    /* A rate is at most one token a nanosecond, so this is at least SLOPE_TARGET. */
    cdl_u128 unit = (cdl_u128)period_ns * SLOPE_TARGET / count;
    return unit < most ? (uint64_t)unit : most;
}

static cdl_u128 slope_of(const struct cdl_token_clock *clock)
{
    return (cdl_u128)clock->slope << 64 | clock->slope_fraction;
}

/* V at any instant, with its fraction: units · 2^64, modulo 2^128. */
static cdl_u128 reading_at(const struct cdl_token_clock *clock, int64_t now)
{
    const cdl_u128 start = (cdl_u128)clock->reading << 64 | clock->fraction;
    return start + (cdl_u128)((cdl_i128)now - clock->origin) * slope_of(clock);
}

/* The slope for count·unit/period_ns units a nanosecond. Rounded up so that a wait is never late; over a whole window the
 * excess is less than a unit. */
static void set_slope(struct cdl_token_clock *clock, uint64_t count, uint64_t period_ns)
{
    const cdl_u128 product = (cdl_u128)count * clock->unit.value;
    const cdl_u128 rest = product % period_ns << 64; /* < 2^126, for period_ns < 2^62 */
    const cdl_u128 slope = (product / period_ns << 64) + rest / period_ns + (rest % period_ns != 0);
    clock->slope = (uint64_t)(slope >> 64);
    clock->slope_fraction = (uint64_t)slope;
    clock->inverse = 0;
    if (count == 0)
        return;
    const cdl_u128 inverse = ((cdl_u128)1 << 127) / (slope / 2 + slope % 2); /* not above 2^128 / slope */
    clock->inverse = inverse > UINT64_MAX ? UINT64_MAX : (uint64_t)inverse;
}

static void set_capacity(struct cdl_token_clock *clock, const struct caudal_limit *limit)
{
    clock->capacity = caudal_limit_capacity(limit);
    clock->full_units = clock->capacity * clock->unit.value;
}

/* What follows from the slope: how much a skew is worth, and the window. `reading` is V(now) with its fraction. */
static void set_window(struct cdl_token_clock *clock, int64_t now, cdl_u128 reading)
{
    const cdl_u128 slope = slope_of(clock);
    clock->skew_units = (uint64_t)((cdl_u128)CDL_SKEW_NS * slope >> 64);
    cdl_i128 ahead = HALF_WINDOW_NS, behind = HALF_WINDOW_NS;
    if (slope != 0) {
        const int64_t offset = (int64_t)((uint64_t)(reading >> 64) - clock->centre);
        ahead = (cdl_i128)(((cdl_u128)(HALF_WINDOW_UNITS - offset) << 64) / slope);
        behind = (cdl_i128)(((cdl_u128)(HALF_WINDOW_UNITS + offset) << 64) / slope);
    }
    const int64_t from = cdl_clamp_i64(now - behind), to = cdl_clamp_i64(now + ahead);
    clock->origin = from;
    clock->span = (uint64_t)to - (uint64_t)from;
    const cdl_u128 start = reading - (cdl_u128)((cdl_i128)now - from) * slope;
    clock->reading = (uint64_t)(start >> 64);
    clock->fraction = (uint64_t)start;
}

struct cdl_token_clock cdl_token_clock_make(const struct caudal_limit *limit, int64_t now)
{
    struct cdl_token_clock clock = {0};
    clock.unit = cdl_divisor_make(choose_unit(limit->count, limit->period_ns, caudal_limit_capacity(limit)));
    set_slope(&clock, limit->count, limit->period_ns);
    set_capacity(&clock, limit);
    set_window(&clock, now, 0);
    return clock;
}

bool cdl_token_clock_change(struct cdl_token_clock *clock, const struct caudal_limit *limit, int64_t now)
{
    const uint64_t unit = clock->unit.value;
    assert(unit > 0);
    const cdl_u128 product = (cdl_u128)limit->count * unit;
    const bool slope_fits = limit->count == 0 || (product >= (cdl_u128)limit->period_ns * SLOPE_KEPT_MIN &&
                                                  product <= (cdl_u128)limit->period_ns * SLOPE_KEPT_MAX);
    const bool unit_of_new = unit == choose_unit(limit->count, limit->period_ns, caudal_limit_capacity(limit));
    if (caudal_limit_capacity(limit) > FULL_UNITS_MAX / unit || !(slope_fits || unit_of_new))
        return false;
    const cdl_u128 reading = reading_at(clock, now);
    set_slope(clock, limit->count, limit->period_ns);
    set_capacity(clock, limit);
    set_window(clock, now, reading);
    return true;
}

uint64_t cdl_token_clock_convert(const struct cdl_token_clock *from, const struct cdl_token_clock *to, int64_t now,
                                 uint64_t full_at)
{
    const cdl_u128 was = reading_at(from, now);
    const uint64_t is = (uint64_t)(reading_at(to, now) >> 64);
    /* A fraction of V that has passed is not owed: otherwise a wait could end a unit late. */
    const int64_t debt = (int64_t)(full_at - (uint64_t)(was >> 64)) - ((uint64_t)was != 0);
    if (debt <= 0)
        return is;
    const cdl_i128 units = (cdl_i128)((cdl_u128)debt * to->unit.value / from->unit.value);
    return is + (uint64_t)(units < DEBT_MAX ? units : DEBT_MAX);
}

void cdl_token_clock_recentre(struct cdl_token_clock *clock, int64_t now)
{
    const cdl_u128 reading = reading_at(clock, now);
    clock->centre = (uint64_t)(reading >> 64);
    set_window(clock, now, reading);
}

/* How far V moves from the start of the window to `now`, in units, as a true number; beyond eight windows merely very far. */
static cdl_i128 movement(const struct cdl_token_clock *clock, int64_t now)
{
    const cdl_i128 leap = (cdl_i128)now - clock->origin, far = 8 * (cdl_i128)clock->span + 1;
    const cdl_i128 cut = leap < -far ? -far : leap > far ? far : leap;
    return cut * (cdl_i128)clock->slope + (cut * (cdl_i128)clock->slope_fraction >> 64);
}

uint64_t cdl_token_clock_revise(const struct cdl_token_clock *old, const struct cdl_token_clock *clock, int64_t now,
                                uint64_t full_at)
{
    /* As distances from the middle of the old window, where they are true numbers and not remainders. */
    const int64_t bucket = (int64_t)(full_at - old->centre), start = (int64_t)(old->reading - old->centre);
    const cdl_i128 debt = bucket - (start + movement(old, now));
    if (debt > DEBT_MAX)
        return clock->centre + (uint64_t)DEBT_MAX;
    if (debt < -IDLE_MAX)
        return clock->centre - (uint64_t)IDLE_MAX;
    return full_at; /* the reading went on without a break, so this says it already */
}
