/* The token clock: time measured in tokens, so that a bucket fits in 64 bits and loses nothing.
 *
 * A limit's clock V runs at the limit's rate. A bucket stores X, the reading at which it will be full again; its debt, the
 * tokens missing from a full bucket, is X - V(now). Taking adds to X, refilling is V moving on, and no bucket has to be
 * touched for it. (The reading at which a conforming cell may arrive is the "theoretical arrival time" of the GCRA,
 * ITU-T I.371 annex A, here in units of tokens.)
 *
 * Units. One token is `unit` clock units and V gains slope + slope_fraction/2^64 units a nanosecond. With count/period in
 * lowest terms n/p (tokens per nanosecond), unit = p·j and n·j units a nanosecond are whole numbers: then every reading and
 * every debt is exact. This is so for n <= 4096 and capacity·p <= 2^62, which covers any limit that a person writes. For other rates unit is the
 * largest number that keeps the clock at 16 units a nanosecond or less, V rounds down, and an answer may be early by less
 * than a nanosecond. It is not late: where exact arithmetic says that a wait is over, floor(a + m + δ) - floor(a) >= m says so
 * too. (Only before the instant at which the bucket was last charged, to a caller whose clock is behind, the slope's
 * rounding up can make a wait that ends there a nanosecond too long.)
 *
 * Range. X and V are kept modulo 2^64. Their difference is meaningful while `now` lies in the clock's window, within which V
 * moves by less than 2^62; capacity·unit <= 2^62, so every debt then fits 63 bits. A `now` outside moves the window
 * (cdl_token_clock_recentre), and the store revises every entry, so that no state is taken for a current one however long
 * its key was idle. With ordinary rates that happens once in four years or less often.
 *
 * A clock that is behind the last writer's makes debts look larger: skew gains nothing. A debt beyond capacity by more than
 * 60 s of refill can only come from a clock that was set or from a limit that was lowered: the bucket is then anchored anew,
 * empty, at this instant (stored even when the answer is a refusal). */
#ifndef CDL_ALGORITHM_TOKEN_CLOCK_H
#define CDL_ALGORITHM_TOKEN_CLOCK_H

#include "algorithm/decide.h"

#define CDL_SKEW_NS (60 * CDL_NS_PER_S)

struct cdl_token_clock {
    int64_t origin;          /* the first instant of the window, nanoseconds */
    uint64_t span;           /* the length of the window, nanoseconds */
    uint64_t reading;        /* V(origin), modulo 2^64 */
    uint64_t fraction;       /* what V(origin) is above that, in units of 2^-64 */
    uint64_t slope;          /* whole units a nanosecond; with the fraction at least 1, or 0: never refills */
    uint64_t slope_fraction; /* in units of 2^-64, rounded up; 0 for exact clocks */
    uint64_t inverse;        /* floor(2^64 / slope), cut to 64 bits; 0: never refills */
    uint64_t capacity;       /* tokens */
    uint64_t full_units;     /* capacity · unit */
    uint64_t skew_units;     /* what CDL_SKEW_NS refills, rounded down */
    struct cdl_divisor unit; /* units in a token */
    uint64_t centre;         /* the reading in the middle of the window */
};

/* A clock for a legal token_bucket limit, starting at `now`. */
struct cdl_token_clock cdl_token_clock_make(const struct caudal_limit *limit, int64_t now);

/* The same clock from `now` on, which it must cover, at another legal limit's rate and capacity. Returns false, and leaves *clock alone, when the
 * new rate needs other units: then make a new clock, and move each bucket with cdl_token_clock_convert. */
bool cdl_token_clock_change(struct cdl_token_clock *clock, const struct caudal_limit *limit, int64_t now);

/* A bucket of clock `from` as a bucket of clock `to`, which was made at the instant `now` that both are known at: the debt
 * in tokens, rounded down to a unit. A full bucket gives a full one. */
uint64_t cdl_token_clock_convert(const struct cdl_token_clock *from, const struct cdl_token_clock *to, int64_t now,
                                 uint64_t full_at);

/* Moves the window of instants at which readings can be told apart to around `now`. */
void cdl_token_clock_recentre(struct cdl_token_clock *clock, int64_t now);

/* Revises a bucket after `old` became `clock` by cdl_token_clock_recentre to `now`: its debt as it was, or the nearest that
 * can be expressed (a full bucket stays full, a debt far beyond capacity stays so). */
uint64_t cdl_token_clock_revise(const struct cdl_token_clock *old, const struct cdl_token_clock *clock, int64_t now,
                                uint64_t full_at);

static inline bool cdl_token_clock_covers(const struct cdl_token_clock *clock, int64_t now)
{
    return (uint64_t)now - (uint64_t)clock->origin <= clock->span;
}

/* V(now), and in *part its fraction in units of 2^-64. The clock covers `now`. */
static inline uint64_t cdl_token_clock_read(const struct cdl_token_clock *clock, int64_t now, uint64_t *part)
{
    const uint64_t elapsed = (uint64_t)now - (uint64_t)clock->origin;
    const cdl_u128 fraction = (cdl_u128)elapsed * clock->slope_fraction + clock->fraction;
    *part = (uint64_t)fraction;
    return clock->reading + elapsed * clock->slope + (uint64_t)(fraction >> 64);
}

/* The first w > 0 with V(now + w) >= V(now) + units; `part` is the fraction of V(now). 0 < units < 2^63, and the clock
 * refills. The estimate is never above it, and short of it by two at the most, for units · (2^64/slope - inverse) <
 * 2^63. How far it is short is as good as random, so two comparisons are added up and nothing branches on them. */
static inline int64_t cdl_token_clock_wait(const struct cdl_token_clock *clock, uint64_t units, uint64_t part)
{
    const uint64_t wait = (uint64_t)((cdl_u128)units * clock->inverse >> 64);
    uint64_t reached = wait * clock->slope, next = reached + clock->slope;
    if (clock->slope_fraction != 0) {
        const cdl_u128 fraction = (cdl_u128)wait * clock->slope_fraction + part;
        reached += (uint64_t)(fraction >> 64);
        next = reached + clock->slope + ((uint64_t)fraction > UINT64_MAX - clock->slope_fraction);
    }
    return (int64_t)(wait + (reached < units) + (next < units));
}

#endif
