/* The token clock by itself: its readings against 128-bit arithmetic, its waits, its window, and changes of rate.
 *
 * A clock is exact when count/period in lowest terms is n/p with n <= 4096 and a full bucket of units of 1/p token fits 62
 * bits; any other may be early by less than a nanosecond and is never late. */
#include "algorithm/token_clock.h"

#include "../support.h"

/* ---- what the tests compare with ---- */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

static bool is_exact(const struct caudal_limit *limit)
{
    const uint64_t divisor = gcd(limit->count, limit->period_ns);
    return limit->count / divisor <= 4096 &&
           (cdl_u128)(limit->period_ns / divisor) * caudal_limit_capacity(limit) <= (cdl_u128)1 << 62;
}

static struct caudal_limit random_limit(struct rng *rng, bool exact)
{
    for (;;) {
        struct caudal_limit limit = random_bucket(rng);
        if (exact && limit.count > 4096)
            limit.count = limit.count % 4096 + 1;
        if (caudal_limit_check(&limit, NULL) == CAUDAL_OK && is_exact(&limit) == exact)
            return limit;
    }
}

/* How far V has moved since the start of the window: a true number of units, at any instant that is not before it. */
static cdl_i128 movement(const struct cdl_token_clock *clock, cdl_i128 instant)
{
    const cdl_i128 elapsed = instant - clock->origin;
    assert_true(elapsed >= 0);
    const cdl_u128 low = (cdl_u128)elapsed * clock->slope_fraction + clock->fraction;
    return elapsed * (cdl_i128)clock->slope + (cdl_i128)(low >> 64);
}

static uint64_t read_clock(const struct cdl_token_clock *clock, int64_t now)
{
    uint64_t part;
    return cdl_token_clock_read(clock, now, &part);
}

static int64_t window_end(const struct cdl_token_clock *clock)
{
    return (int64_t)((uint64_t)clock->origin + clock->span);
}

/* The debt of a bucket at an instant that the clock covers, in units; negative: it has been full for so long. */
static int64_t debt_at(const struct cdl_token_clock *clock, int64_t now, uint64_t full_at)
{
    return (int64_t)(full_at - read_clock(clock, now));
}

/* An instant within the clock's window; its ends are as likely as all the rest. */
static int64_t random_instant(struct rng *rng, const struct cdl_token_clock *clock)
{
    const uint64_t choice = rng_below(rng, 4);
    const uint64_t into = choice == 0 ? 0 : choice == 1 ? clock->span : rng_below(rng, clock->span);
    return (int64_t)((uint64_t)clock->origin + into);
}

static bool is_still(const struct cdl_token_clock *clock)
{
    return clock->slope == 0 && clock->slope_fraction == 0;
}

/* ---- exactness ---- */

static void a_small_ratio_gives_whole_units_and_exact_readings(void **state)
{
    (void)state;
    struct rng rng = {1};
    for (int i = 0; i < 20000; i++) {
        const struct caudal_limit limit = random_limit(&rng, true);
        const int64_t start = rng_signed(&rng, 150 * YEAR);
        const struct cdl_token_clock clock = cdl_token_clock_make(&limit, start);
        const uint64_t divisor = gcd(limit.count, limit.period_ns);
        const uint64_t n = limit.count / divisor, p = limit.period_ns / divisor;
        assert_int_equal(clock.unit.value % p, 0);
        const cdl_i128 units_per_ns = (cdl_i128)n * (cdl_i128)(clock.unit.value / p);
        for (int j = 0; j < 5; j++) {
            const int64_t now = random_instant(&rng, &clock);
            uint64_t part;
            const uint64_t moved = cdl_token_clock_read(&clock, now, &part) - read_clock(&clock, start);
            assert_true((cdl_i128)(int64_t)moved == ((cdl_i128)now - start) * units_per_ns);
            assert_int_equal(part, 0);
        }
    }
}

/* Over a whole window V is at most a unit away from the true reading, and a nanosecond is nearly a unit and a half or more. */
static void any_other_ratio_is_off_by_less_than_a_nanosecond(void **state)
{
    (void)state;
    struct rng rng = {2};
    for (int i = 0; i < 20000; i++) {
        const struct caudal_limit limit = random_limit(&rng, false);
        const struct cdl_token_clock clock = cdl_token_clock_make(&limit, 0);
        assert_true(clock.slope > 1 || (clock.slope == 1 && clock.slope_fraction >> 57 >= 58)); /* 1.45 */
        for (int j = 0; j < 5; j++) {
            const int64_t now = random_instant(&rng, &clock);
            /* V = floor(now·slope) and the true reading is now·count·unit/period. count·unit/period = whole + rest/period,
             * so the product is taken in two parts to stay within 128 bits. */
            const cdl_u128 rate = (cdl_u128)limit.count * clock.unit.value;
            const cdl_i128 whole = (cdl_i128)(rate / limit.period_ns) * now;
            const cdl_i128 rest = (cdl_i128)(rate % limit.period_ns) * now;
            const cdl_i128 truth = whole + cdl_floor_div(rest, limit.period_ns);
            const cdl_i128 off = (int64_t)(read_clock(&clock, now) - read_clock(&clock, 0)) - truth;
            assert_true(off >= -1 && off <= 1);
        }
    }
}

static void a_clock_is_made_for_the_slowest_and_the_fastest_rate(void **state)
{
    (void)state;
    const struct caudal_limit slowest = bucket_of(1, 1, (int64_t)CAUDAL_REFILL_MAX_NS);
    const struct caudal_limit fastest = bucket_of(CAUDAL_CAPACITY_MAX, 1, 1);
    const struct caudal_limit largest = bucket_of(CAUDAL_CAPACITY_MAX, CAUDAL_CAPACITY_MAX,
                                                  (int64_t)CAUDAL_REFILL_MAX_NS);
    const struct caudal_limit all[] = {slowest, fastest, largest};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_int_equal(caudal_limit_check(&all[i], NULL), CAUDAL_OK);
        const struct cdl_token_clock clock = cdl_token_clock_make(&all[i], EPOCH);
        assert_true(clock.full_units / clock.unit.value == clock.capacity);
        assert_true(clock.full_units <= UINT64_C(1) << 62);
        assert_false(is_still(&clock));
        assert_true(cdl_token_clock_covers(&clock, EPOCH));
        assert_true(cdl_token_clock_covers(&clock, EPOCH + DAY));
    }
}

static void a_refill_of_exactly_100_years_is_waited_for_to_the_nanosecond(void **state)
{
    (void)state;
    const struct caudal_limit limits[] = {
        bucket_of(1, 1, (int64_t)CAUDAL_REFILL_MAX_NS),
        bucket_of(CAUDAL_CAPACITY_MAX, CAUDAL_CAPACITY_MAX, (int64_t)CAUDAL_REFILL_MAX_NS),
        bucket_of(100, 1, 365 * DAY + DAY / 4),
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        const struct cdl_token_clock clock = cdl_token_clock_make(&limits[i], 0);
        const int64_t wait = cdl_token_clock_wait(&clock, clock.full_units, 0);
        assert_in_range(wait, CAUDAL_REFILL_MAX_NS - 1, CAUDAL_REFILL_MAX_NS);
    }
}

/* ---- waits ---- */

/* The first w > 0 with V(now + w) >= V(now) + units, and not one nanosecond more. */
static void assert_wait_is_minimal(const struct cdl_token_clock *clock, int64_t now, uint64_t units)
{
    uint64_t part;
    cdl_token_clock_read(clock, now, &part);
    const int64_t wait = cdl_token_clock_wait(clock, units, part);
    const cdl_i128 target = movement(clock, now) + units;
    assert_true(wait > 0);
    assert_true(movement(clock, (cdl_i128)now + wait) >= target);
    assert_true(movement(clock, (cdl_i128)now + wait - 1) < target);
}

static void a_wait_is_the_first_moment_on_any_clock(void **state)
{
    (void)state;
    struct rng rng = {3};
    for (int i = 0; i < 40000; i++) {
        const struct caudal_limit limit = random_limit(&rng, i % 2 == 0);
        const struct cdl_token_clock clock = cdl_token_clock_make(&limit, rng_signed(&rng, 100 * YEAR));
        const int64_t now = random_instant(&rng, &clock);
        assert_wait_is_minimal(&clock, now, 1);
        assert_wait_is_minimal(&clock, now, clock.unit.value);
        assert_wait_is_minimal(&clock, now, clock.full_units + clock.skew_units);
        assert_wait_is_minimal(&clock, now, rng_magnitude(&rng, clock.full_units));
        assert_wait_is_minimal(&clock, now, rng_magnitude(&rng, INT64_MAX)); /* a debt of whatever clock that was set */
        assert_wait_is_minimal(&clock, now, INT64_MAX);
    }
}

/* After changes of rate a clock has a fraction and a slope that is no whole number. */
static void a_wait_is_the_first_moment_after_changes_of_rate(void **state)
{
    (void)state;
    struct rng rng = {4};
    struct caudal_limit limit = bucket_of(1000, 1000, MINUTE);
    struct cdl_token_clock clock = cdl_token_clock_make(&limit, 0);
    int64_t now = 0;
    size_t changed = 0;
    for (int i = 0; i < 20000; i++) {
        now += (int64_t)rng_magnitude(&rng, MINUTE);
        limit.burst = rng_magnitude(&rng, 5000);
        limit.count = 200 + rng_below(&rng, 4000);
        limit.period_ns = (uint64_t)MINUTE + rng_below(&rng, (uint64_t)SECOND);
        changed += cdl_token_clock_change(&clock, &limit, now);
        assert_wait_is_minimal(&clock, now, rng_magnitude(&rng, clock.full_units));
        assert_wait_is_minimal(&clock, now, rng_magnitude(&rng, INT64_MAX));
    }
    assert_true(changed > 10000);
}

/* ---- rates of zero ---- */

static void a_rate_of_zero_stands_still_for_70_years(void **state)
{
    (void)state;
    const struct caudal_limit limits[] = {bucket_of(5, 0, SECOND), bucket_of(0, 0, SECOND),
                                          bucket_of(CAUDAL_CAPACITY_MAX, 0, SECOND)};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        const struct cdl_token_clock clock = cdl_token_clock_make(&limits[i], EPOCH);
        assert_true(is_still(&clock));
        assert_int_equal(clock.inverse, 0);
        assert_true(cdl_token_clock_covers(&clock, EPOCH + 70 * YEAR));
        assert_true(cdl_token_clock_covers(&clock, EPOCH - 70 * YEAR));
        assert_int_equal(read_clock(&clock, EPOCH + 70 * YEAR), read_clock(&clock, EPOCH - 70 * YEAR));
    }
}

static void a_debt_survives_a_time_without_refill(void **state)
{
    (void)state;
    const struct caudal_limit running = bucket_of(100, 100, MINUTE), stopped = bucket_of(100, 0, MINUTE);
    struct cdl_token_clock clock = cdl_token_clock_make(&running, 0);
    const uint64_t full_at = read_clock(&clock, 0) + 60 * clock.unit.value;
    const int64_t want = (int64_t)(50 * clock.unit.value);
    assert_true(cdl_token_clock_change(&clock, &stopped, 6 * SECOND)); /* 10 of 60 are back */
    assert_int_equal(debt_at(&clock, 6 * SECOND, full_at), want);
    assert_int_equal(debt_at(&clock, 10 * YEAR, full_at), want);
    assert_true(cdl_token_clock_change(&clock, &running, 10 * YEAR));
    assert_int_equal(debt_at(&clock, 10 * YEAR, full_at), want);
    assert_int_equal(cdl_token_clock_wait(&clock, (uint64_t)want, 0), 30 * SECOND);
}

static void a_capacity_of_zero_is_a_clock_like_any_other(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(0, 10, SECOND);
    const struct cdl_token_clock clock = cdl_token_clock_make(&limit, 0);
    assert_int_equal(clock.full_units, 0);
    assert_wait_is_minimal(&clock, 0, clock.unit.value);
    assert_int_equal(cdl_token_clock_wait(&clock, clock.unit.value, 0), 100 * MILLISECOND);
}

/* ---- the window ---- */

static void a_window_lasts_for_years_at_ordinary_rates(void **state)
{
    (void)state;
    const struct caudal_limit limits[] = {bucket_of(100, 100, MINUTE), bucket_of(1, 1, DAY), bucket_of(10, 7, SECOND),
                                          bucket_of(1000000, 1000000, SECOND)};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        const struct cdl_token_clock clock = cdl_token_clock_make(&limits[i], EPOCH);
        assert_true(cdl_token_clock_covers(&clock, EPOCH + 4 * YEAR));
        assert_true(cdl_token_clock_covers(&clock, EPOCH - 4 * YEAR));
    }
}

/* Within the window V moves by less than 2^61 to either side, so that a debt of a full bucket and more fits 63 bits. */
static void no_reading_of_a_window_is_far_from_its_middle(void **state)
{
    (void)state;
    struct rng rng = {5};
    for (int i = 0; i < 20000; i++) {
        const struct caudal_limit limit = random_limit(&rng, i % 2 == 0);
        struct cdl_token_clock clock = cdl_token_clock_make(&limit, rng_signed(&rng, 250 * YEAR));
        for (int j = 0; j < 3; j++) {
            const int64_t ends[] = {clock.origin, window_end(&clock)};
            assert_true(movement(&clock, ends[1]) < (cdl_i128)1 << 62);
            for (size_t k = 0; k < 2; k++) {
                const int64_t from_middle = (int64_t)(read_clock(&clock, ends[k]) - clock.centre);
                assert_true(from_middle > -(INT64_C(1) << 61) && from_middle < INT64_C(1) << 61);
            }
            const struct caudal_limit same = limit;
            cdl_token_clock_change(&clock, &same, random_instant(&rng, &clock)); /* the window stays where it is */
        }
    }
}

static void a_window_at_the_ends_of_time_is_cut_there(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(10, 10, SECOND);
    struct cdl_token_clock clock = cdl_token_clock_make(&limit, INT64_MAX);
    assert_true(cdl_token_clock_covers(&clock, INT64_MAX));
    assert_int_equal(window_end(&clock), INT64_MAX);
    cdl_token_clock_recentre(&clock, INT64_MIN);
    assert_true(cdl_token_clock_covers(&clock, INT64_MIN));
    assert_int_equal(clock.origin, INT64_MIN);
    assert_false(cdl_token_clock_covers(&clock, INT64_MAX));
}

/* A bucket and what it should be: its debt as a true number of units. */
struct traveller {
    struct cdl_token_clock clock;
    uint64_t full_at;
    int64_t then;
    cdl_i128 debt; /* at that instant; negative: it has been full for so long */
};

#define DEBT_MOST ((cdl_i128)3 << 61)    /* what is kept of a debt when the window moves */
#define IDLE_MOST (-((cdl_i128)1 << 61)) /* and of the time since a bucket was full */

/* Goes to `now`, moving the window if it must. */
static void travel(struct traveller *traveller, int64_t now)
{
    struct cdl_token_clock *clock = &traveller->clock;
    assert_int_equal(clock->slope_fraction, 0); /* the sum below is true of exact clocks only */
    traveller->debt -= ((cdl_i128)now - traveller->then) * clock->slope;
    traveller->then = now;
    if (!cdl_token_clock_covers(clock, now)) {
        const struct cdl_token_clock old = *clock;
        traveller->debt = traveller->debt > DEBT_MOST   ? DEBT_MOST
                          : traveller->debt < IDLE_MOST ? IDLE_MOST
                                                        : traveller->debt;
        cdl_token_clock_recentre(clock, now);
        traveller->full_at = cdl_token_clock_revise(&old, clock, now, traveller->full_at);
    }
    assert_true(cdl_token_clock_covers(clock, now));
    assert_true(debt_at(clock, now, traveller->full_at) == traveller->debt);
}

static struct traveller traveller_make(struct caudal_limit limit, int64_t start, uint64_t tokens)
{
    struct traveller traveller = {.clock = cdl_token_clock_make(&limit, start), .then = start};
    traveller.debt = (cdl_i128)tokens * traveller.clock.unit.value;
    traveller.full_at = read_clock(&traveller.clock, start) + (uint64_t)traveller.debt;
    return traveller;
}

static void a_leap_of_years_leaves_a_debt_what_time_made_of_it(void **state)
{
    (void)state;
    static const int64_t leaps[] = {1 * YEAR,  5 * YEAR,  10 * YEAR,  50 * YEAR,  100 * YEAR,  290 * YEAR,
                                    -1 * YEAR, -5 * YEAR, -10 * YEAR, -50 * YEAR, -100 * YEAR, -290 * YEAR};
    const struct caudal_limit limits[] = {bucket_of(10, 10, SECOND),
                                          bucket_of(100, 100, MINUTE),
                                          bucket_of(5, 1, DAY),
                                          bucket_of(1, 1, (int64_t)CAUDAL_REFILL_MAX_NS),
                                          bucket_of(100, 1, 365 * DAY + DAY / 4),
                                          bucket_of(CAUDAL_CAPACITY_MAX, 1, 1),
                                          bucket_of(3989, 3989, SECOND + 1)};
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        for (size_t j = 0; j < COUNT_OF(leaps); j++) {
            struct traveller traveller = traveller_make(limits[i], 0, caudal_limit_capacity(&limits[i]));
            travel(&traveller, leaps[j]);
        }
}

/* From one end of time to the other, which is 584 years. */
static void the_longest_leap_there_is_does_not_wrap(void **state)
{
    (void)state;
    const struct caudal_limit limits[] = {bucket_of(10, 10, SECOND), bucket_of(100, 1, 365 * DAY + DAY / 4),
                                          bucket_of(4096, 4096, SECOND + 1)};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct traveller forward = traveller_make(limits[i], INT64_MIN, caudal_limit_capacity(&limits[i]));
        travel(&forward, INT64_MAX);
        assert_true(forward.debt < 0);
        struct traveller back = traveller_make(limits[i], INT64_MAX, 1);
        travel(&back, INT64_MIN);
        assert_true(back.debt > back.clock.full_units + back.clock.skew_units);
    }
}

static void leaps_may_follow_each_other_for_ever(void **state)
{
    (void)state;
    struct rng rng = {6};
    for (int i = 0; i < 200; i++) {
        const struct caudal_limit limit = random_limit(&rng, true);
        struct traveller traveller = traveller_make(limit, 0, rng_below(&rng, caudal_limit_capacity(&limit) + 1));
        for (int j = 0; j < 100; j++)
            travel(&traveller, rng_signed(&rng, INT64_MAX));
    }
}

/* The window follows a clock that simply runs on: nothing happens to a bucket in debt when the window moves under it. */
static void a_debt_is_carried_exactly_over_the_end_of_a_window(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(100, 1, 365 * DAY + DAY / 4);
    struct traveller traveller = traveller_make(limit, 0, 100);
    int windows = 0;
    for (int64_t end; (end = window_end(&traveller.clock)) < 99 * YEAR; windows++) {
        travel(&traveller, end);
        travel(&traveller, end + 1);
        assert_true(traveller.debt > 0);
    }
    assert_true(windows > 0);
}

/* ---- changes ---- */

static void a_change_that_needs_other_units_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(10, 10, SECOND);
    const struct caudal_limit others[] = {bucket_of(10, 10, DAY), bucket_of(10, 1, MICROSECOND),
                                          bucket_of(CAUDAL_CAPACITY_MAX, 10, SECOND)};
    struct cdl_token_clock clock = cdl_token_clock_make(&limit, 5);
    const struct cdl_token_clock before = clock;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_false(cdl_token_clock_change(&clock, &others[i], 1000));
        assert_memory_equal(&clock, &before, sizeof clock);
    }
}

static void a_change_of_rate_does_not_move_the_reading(void **state)
{
    (void)state;
    struct rng rng = {7};
    size_t changed = 0;
    for (int i = 0; i < 20000; i++) {
        struct caudal_limit limit = random_limit(&rng, i % 2 == 0);
        struct cdl_token_clock clock = cdl_token_clock_make(&limit, 0);
        for (int j = 0; j < 4; j++) {
            limit.count = limit.count / 2 + 1 + rng_below(&rng, limit.count);
            const int64_t now = random_instant(&rng, &clock);
            const uint64_t before = read_clock(&clock, now);
            if (caudal_limit_check(&limit, NULL) != CAUDAL_OK || !cdl_token_clock_change(&clock, &limit, now))
                break;
            changed++;
            assert_int_equal(read_clock(&clock, now), before);
        }
    }
    assert_true(changed > 10000);
}

/* Rates that share a period refill whole multiples of 1/period token a nanosecond, so the truth is an integer. */
static void ten_thousand_changes_of_rate_lose_less_than_a_nanosecond(void **state)
{
    (void)state;
    const int64_t period = 60 * SECOND;
    const uint64_t burst = 1000000;
    struct rng rng = {8};
    struct caudal_limit limit = bucket_of(burst, 1000, period);
    struct cdl_token_clock clock = cdl_token_clock_make(&limit, 0);
    uint64_t full_at = read_clock(&clock, 0) + clock.full_units;
    cdl_i128 debt = (cdl_i128)burst * period; /* in 1/period tokens */
    int64_t now = 0;
    for (int i = 0; i < 10000; i++) {
        const int64_t step = (int64_t)rng_magnitude(&rng, SECOND);
        now += step;
        debt -= (cdl_i128)step * limit.count;
        if (debt < (cdl_i128)burst / 2 * period) { /* never let it become full */
            full_at += burst / 2 * clock.unit.value;
            debt += (cdl_i128)burst / 2 * period;
        }
        limit.count = 500 + rng_below(&rng, 3000);
        assert_true(cdl_token_clock_change(&clock, &limit, now));
        const cdl_i128 units = debt_at(&clock, now, full_at);
        const cdl_i128 got = units * period, want = debt * clock.unit.value; /* both in 1/(period·unit) tokens */
        assert_true(got <= want + (cdl_i128)period);
        assert_true(want - got < (cdl_i128)limit.count * clock.unit.value); /* a nanosecond of refill */
    }
}

/* Another resolution: whole tokens stay whole tokens, from any clock to any other. */
static void a_conversion_keeps_whole_tokens(void **state)
{
    (void)state;
    struct rng rng = {9};
    for (int i = 0; i < 40000; i++) {
        const struct caudal_limit a = random_limit(&rng, i % 2 == 0), b = random_limit(&rng, i % 3 == 0);
        const int64_t now = rng_signed(&rng, 100 * YEAR);
        const struct cdl_token_clock from = cdl_token_clock_make(&a, now), to = cdl_token_clock_make(&b, now);
        const uint64_t most = cdl_min_u64(caudal_limit_capacity(&a), caudal_limit_capacity(&b));
        const uint64_t tokens = rng_below(&rng, most + 1);
        const uint64_t before = read_clock(&from, now) + tokens * from.unit.value;
        const uint64_t after = cdl_token_clock_convert(&from, &to, now, before);
        assert_int_equal(debt_at(&to, now, after), tokens * to.unit.value);
        assert_int_equal(debt_at(&from, now, cdl_token_clock_convert(&to, &from, now, after)),
                         tokens * from.unit.value);
    }
}

static void a_full_bucket_is_converted_to_a_full_one(void **state)
{
    (void)state;
    const struct caudal_limit a = bucket_of(10, 10, SECOND), b = bucket_of(10, 10, DAY);
    const struct cdl_token_clock from = cdl_token_clock_make(&a, 0), to = cdl_token_clock_make(&b, YEAR);
    const uint64_t now = read_clock(&from, YEAR);
    const uint64_t full[] = {now, now - 1, now - from.full_units, now - (UINT64_C(1) << 60)};
    for (size_t i = 0; i < COUNT_OF(full); i++)
        assert_int_equal(debt_at(&to, YEAR, cdl_token_clock_convert(&from, &to, YEAR, full[i])), 0);
}

/* A debt beyond all that the other clock can tell stays beyond its capacity: it is anchored, not forgiven. */
static void a_huge_debt_is_converted_to_a_huge_one(void **state)
{
    (void)state;
    const struct caudal_limit a = bucket_of(CAUDAL_CAPACITY_MAX, 1, 1),
                              b = bucket_of(1, 1, (int64_t)CAUDAL_REFILL_MAX_NS);
    const struct cdl_token_clock from = cdl_token_clock_make(&a, 0), to = cdl_token_clock_make(&b, 0);
    const uint64_t full_at = cdl_token_clock_convert(&from, &to, 0, read_clock(&from, 0) + from.full_units);
    assert_true(debt_at(&to, 0, full_at) > (int64_t)(to.full_units + to.skew_units));
}

/* What has been refilled by the instant of the change is not owed, and a fraction of a unit neither. */
static void a_conversion_settles_at_the_old_rate_first(void **state)
{
    (void)state;
    const struct caudal_limit a = bucket_of(100, 10, SECOND), b = bucket_of(100, 1, HOUR);
    const struct cdl_token_clock from = cdl_token_clock_make(&a, 0), to = cdl_token_clock_make(&b, 4 * SECOND);
    const uint64_t full_at = cdl_token_clock_convert(&from, &to, 4 * SECOND, read_clock(&from, 0) + from.full_units);
    assert_int_equal(debt_at(&to, 4 * SECOND, full_at), 60 * to.unit.value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_ratio_gives_whole_units_and_exact_readings),
        cmocka_unit_test(any_other_ratio_is_off_by_less_than_a_nanosecond),
        cmocka_unit_test(a_clock_is_made_for_the_slowest_and_the_fastest_rate),
        cmocka_unit_test(a_refill_of_exactly_100_years_is_waited_for_to_the_nanosecond),
        cmocka_unit_test(a_wait_is_the_first_moment_on_any_clock),
        cmocka_unit_test(a_wait_is_the_first_moment_after_changes_of_rate),
        cmocka_unit_test(a_rate_of_zero_stands_still_for_70_years),
        cmocka_unit_test(a_debt_survives_a_time_without_refill),
        cmocka_unit_test(a_capacity_of_zero_is_a_clock_like_any_other),
        cmocka_unit_test(a_window_lasts_for_years_at_ordinary_rates),
        cmocka_unit_test(no_reading_of_a_window_is_far_from_its_middle),
        cmocka_unit_test(a_window_at_the_ends_of_time_is_cut_there),
        cmocka_unit_test(a_leap_of_years_leaves_a_debt_what_time_made_of_it),
        cmocka_unit_test(the_longest_leap_there_is_does_not_wrap),
        cmocka_unit_test(leaps_may_follow_each_other_for_ever),
        cmocka_unit_test(a_debt_is_carried_exactly_over_the_end_of_a_window),
        cmocka_unit_test(a_change_that_needs_other_units_is_refused_and_changes_nothing),
        cmocka_unit_test(a_change_of_rate_does_not_move_the_reading),
        cmocka_unit_test(ten_thousand_changes_of_rate_lose_less_than_a_nanosecond),
        cmocka_unit_test(a_conversion_keeps_whole_tokens),
        cmocka_unit_test(a_full_bucket_is_converted_to_a_full_one),
        cmocka_unit_test(a_huge_debt_is_converted_to_a_huge_one),
        cmocka_unit_test(a_conversion_settles_at_the_old_rate_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
