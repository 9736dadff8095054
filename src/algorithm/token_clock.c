#include "algorithm/token_clock.h"

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
#define HALF_WINDOW_UNITS ((UINT64_C(1) << 61) - (UINT64_C(1) << 50))
/* A debt is cut to this when it is moved to another clock or window. It is beyond any capacity and skew after half a window
 * forward, and below 2^63 after half a window back. */
#define DEBT_MAX (((cdl_i128)1 << 62) + ((cdl_i128)1 << 61))
/* Likewise the other way: what has been full for longer than this is kept as full for so long. */
#define IDLE_MAX ((cdl_i128)1 << 61)
/* A clock that stands still is never out of its window for the sake of its units, only for that of `now - origin`. */
#define HALF_WINDOW_NS (INT64_C(1) << 61)

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Units in a token for a new clock. */
static uint64_t choose_unit(uint64_t count, uint64_t period_ns, uint64_t capacity)
{
    const uint64_t most = capacity == 0 ? FULL_UNITS_MAX : FULL_UNITS_MAX / capacity;
    if (count == 0)
        return cdl_min_u64(most, UINT64_C(1) << 20); /* a clock that stands still: any unit is exact */
    const uint64_t divisor = greatest_common_divisor(count, period_ns);
    const uint64_t n = count / divisor, p = period_ns / divisor;
    if (n <= SLOPE_MAX && p <= most) {
        uint64_t j = n < SLOPE_TARGET ? SLOPE_TARGET / n : 1;
        return p * cdl_min_u64(j, most / p);
    }
    /* A rate is at most one token a nanosecond, so this is at least SLOPE_TARGET. */
    cdl_u128 unit = (cdl_u128)period_ns * SLOPE_TARGET / count;
    return unit < most ? (uint64_t)unit : most;
}

/* slope and shift for count·unit/period_ns units a nanosecond: 64 significant bits, rounded up. Rounded up so that a wait is
 * never late; over a whole window the excess is less than half a unit. */
static void set_slope(struct cdl_token_clock *clock, uint64_t count, uint64_t period_ns)
{
    clock->slope = 0;
    clock->inverse = 0;
    clock->shift = 64;
    if (count == 0)
        return;
    const cdl_u128 product = (cdl_u128)count * clock->unit.value;
    const uint64_t whole = (uint64_t)(product / period_ns);
    const uint64_t rest = (uint64_t)(product % period_ns);
    unsigned shift = whole == 0 ? 64 : (unsigned)__builtin_clzll(whole);
    const cdl_u128 scaled = (cdl_u128)rest << shift; /* rest < period_ns < 2^62 */
    cdl_u128 slope = ((cdl_u128)whole << shift) + scaled / period_ns + (scaled % period_ns != 0);
    if (slope >> 64 != 0) {
        slope = (cdl_u128)1 << 63;
        shift--;
    }
    clock->slope = (uint64_t)slope;
    clock->shift = shift;
    const cdl_u128 inverse = ((cdl_u128)1 << 127) / slope;
    clock->inverse = inverse > UINT64_MAX ? UINT64_MAX : (uint64_t)inverse;
}

/* What follows from the slope: how much a skew is worth, and until when readings can be told apart. `now` is the origin. */
static void set_reach(struct cdl_token_clock *clock)
{
    const int64_t now = clock->origin;
    clock->skew_units = (uint64_t)((cdl_u128)CDL_SKEW_NS * clock->slope >> clock->shift);
    cdl_i128 ahead = HALF_WINDOW_NS, behind = HALF_WINDOW_NS;
    if (clock->slope != 0) {
        const int64_t offset = (int64_t)(clock->reading - clock->centre);
        ahead = (cdl_i128)(((cdl_u128)((int64_t)HALF_WINDOW_UNITS - offset) << clock->shift) / clock->slope);
        behind = (cdl_i128)(((cdl_u128)((int64_t)HALF_WINDOW_UNITS + offset) << clock->shift) / clock->slope);
    }
    clock->valid_from = cdl_clamp_i64(now - behind);
    clock->valid_to = cdl_clamp_i64(now + ahead);
}

static void set_capacity(struct cdl_token_clock *clock, const struct caudal_limit *limit)
{
    clock->capacity = caudal_limit_capacity(limit);
    clock->full_units = clock->capacity * clock->unit.value;
}

struct cdl_token_clock cdl_token_clock_make(const struct caudal_limit *limit, int64_t now)
{
    struct cdl_token_clock clock = {.origin = now};
    clock.unit = cdl_divisor_make(choose_unit(limit->count, limit->period_ns, caudal_limit_capacity(limit)));
    set_slope(&clock, limit->count, limit->period_ns);
    set_capacity(&clock, limit);
    set_reach(&clock);
    return clock;
}

/* Makes `now` the clock's origin without moving its reading. Right for any `now`, however far: bits below 2^128 of the
 * product do not depend on those above. */
static void move_origin(struct cdl_token_clock *clock, int64_t now)
{
    const cdl_u128 elapsed = (cdl_u128)((cdl_i128)now - clock->origin) * clock->slope + clock->fraction;
    clock->reading += (uint64_t)(elapsed >> clock->shift);
    clock->fraction = (uint64_t)elapsed & UINT64_MAX >> (64 - clock->shift);
    clock->origin = now;
}

bool cdl_token_clock_change(struct cdl_token_clock *clock, const struct caudal_limit *limit, int64_t now)
{
    const uint64_t unit = clock->unit.value;
    const cdl_u128 product = (cdl_u128)limit->count * unit;
    const bool slope_fits = limit->count == 0 || (product >= (cdl_u128)limit->period_ns * SLOPE_KEPT_MIN &&
                                                  product <= (cdl_u128)limit->period_ns * SLOPE_KEPT_MAX);
    const bool same_slope_as_new = unit == choose_unit(limit->count, limit->period_ns, caudal_limit_capacity(limit));
    if (caudal_limit_capacity(limit) > FULL_UNITS_MAX / unit || !(slope_fits || same_slope_as_new))
        return false;

    move_origin(clock, now);
    const uint64_t fraction = clock->fraction, shift = clock->shift;
    set_slope(clock, limit->count, limit->period_ns);
    if (clock->shift >= shift) {
        clock->fraction = fraction << (clock->shift - shift);
    } else { /* rounded up, which is a 2^-51 of a unit at the most; a whole unit carries */
        const uint64_t lost = shift - clock->shift;
        const cdl_u128 up = ((cdl_u128)fraction + (((cdl_u128)1 << lost) - 1)) >> lost;
        clock->reading += (uint64_t)(up >> clock->shift);
        clock->fraction = (uint64_t)up & UINT64_MAX >> (64 - clock->shift);
    }
    set_capacity(clock, limit);
    set_reach(clock);
    return true;
}

uint64_t cdl_token_clock_convert(const struct cdl_token_clock *from, const struct cdl_token_clock *to, int64_t now,
                                 uint64_t full_at)
{
    struct cdl_token_clock then = *from;
    move_origin(&then, now);
    /* A fraction of V that has passed is not owed: otherwise a wait could end a unit late. */
    const int64_t debt = (int64_t)(full_at - then.reading) - (then.fraction != 0);
    if (debt <= 0)
        return to->reading;
    const cdl_i128 units = (cdl_i128)((cdl_u128)debt * to->unit.value / from->unit.value);
    return to->reading + (uint64_t)(units < DEBT_MAX ? units : DEBT_MAX);
}

void cdl_token_clock_recentre(struct cdl_token_clock *clock, int64_t now)
{
    move_origin(clock, now);
    clock->centre = clock->reading;
    set_reach(clock);
}

uint64_t cdl_token_clock_revise(const struct cdl_token_clock *old, const struct cdl_token_clock *clock,
                                uint64_t full_at)
{
    /* Both as distances from the middle of the old window, where they are true numbers and not remainders. */
    const int64_t bucket = (int64_t)(full_at - old->centre);
    const cdl_i128 leap = (cdl_i128)clock->origin - old->origin;
    const cdl_i128 far = (cdl_i128)1 << 62;
    cdl_i128 moved = leap < -far ? -4 * far : leap > far ? 4 * far : leap * (cdl_i128)old->slope >> old->shift;
    moved += (int64_t)(old->reading - old->centre);

    const cdl_i128 debt = bucket - moved;
    if (debt > DEBT_MAX)
        return clock->reading + (uint64_t)DEBT_MAX;
    if (debt < -IDLE_MAX)
        return clock->reading - (uint64_t)IDLE_MAX;
    return full_at; /* the reading went on without a break, so this says it already */
}
