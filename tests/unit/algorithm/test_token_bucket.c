/* The token bucket as a pure function: the shared vectors, 128-bit arithmetic on random walks, and the edges by hand. */
#include "algorithm/token_bucket.h"

#include "../support.h"
#include "../vectors.h"

/* One bucket, as a store would keep it. */
struct bucket {
    struct cdl_token_clock clock;
    bool fresh, started;
    uint64_t full_at;
    struct caudal_limit limit;
};

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    assert_int_equal(count, 1);
    *(struct bucket *)context = (struct bucket){.fresh = true, .limit = limits[0]};
}

static void cover(struct bucket *bucket, int64_t now)
{
    if (!bucket->started)
        bucket->clock = cdl_token_clock_make(&bucket->limit, now);
    bucket->started = true;
    if (cdl_token_clock_covers(&bucket->clock, now))
        return;
    const struct cdl_token_clock old = bucket->clock;
    cdl_token_clock_recentre(&bucket->clock, now);
    bucket->full_at = cdl_token_clock_revise(&old, &bucket->clock, now, bucket->full_at);
}

static void set_limit(struct bucket *bucket, int64_t now, const struct caudal_limit *limit)
{
    const struct cdl_token_clock old = bucket->clock;
    if (cdl_token_clock_change(&bucket->clock, limit, now))
        return;
    bucket->clock = cdl_token_clock_make(limit, now);
    bucket->full_at = cdl_token_clock_convert(&old, &bucket->clock, now, bucket->full_at);
}

static struct caudal_decision ask(struct bucket *bucket, int64_t now, struct cdl_question question)
{
    struct caudal_decision decision = {0};
    cover(bucket, now);
    uint64_t state = bucket->full_at;
    if (cdl_token_bucket_decide(&bucket->clock, now, bucket->fresh, &state, &question, &decision)) {
        bucket->full_at = state;
        bucket->fresh = false;
    }
    return decision;
}

static void play(void *context, const struct vector_step *step)
{
    struct bucket *bucket = context;
    struct caudal_decision decision = {0};
    cover(bucket, step->now_ns);
    switch (step->action) {
    case VECTOR_TAKE:
        decision = ask(bucket, step->now_ns, cdl_question_take(step->amount));
        break;
    case VECTOR_PEEK:
        decision = ask(bucket, step->now_ns, cdl_question_peek(step->amount));
        break;
    case VECTOR_REFUND:
        ask(bucket, step->now_ns, (struct cdl_question){CDL_REFUND, 0, step->amount, 0, 0, NULL});
        break;
    case VECTOR_SET:
        set_limit(bucket, step->now_ns, &step->limit);
        break;
    }
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, 1);
}

static void play_file(const char *file)
{
    struct bucket bucket;
    const struct vector_player player = {begin, play, &bucket};
    vectors_play(file, CAUDAL_TOKEN_BUCKET, &player);
}

static void vectors_by_hand_are_met(void **state)
{
    (void)state;
    play_file("named.us.jsonl");
}

static void random_vectors_are_met_at_microseconds(void **state)
{
    (void)state;
    play_file("random.token_bucket.us.jsonl");
}

static void random_vectors_are_met_at_nanoseconds(void **state)
{
    (void)state;
    play_file("random.token_bucket.ns.jsonl");
}

/* ---- against 128-bit arithmetic ---- */

/* A bucket in whole numbers: `full_at` counts in 1/count nanoseconds, in which every charge and every instant is whole. */
struct truth {
    struct caudal_limit limit;
    cdl_i128 full_at;
    bool known;
    int64_t charged_at;
};

/* Tokens missing, in 1/period tokens. */
static cdl_i128 true_debt(const struct truth *truth, int64_t now, bool *anchored)
{
    const cdl_i128 count = (cdl_i128)truth->limit.count;
    const cdl_i128 full = (cdl_i128)caudal_limit_capacity(&truth->limit) * (cdl_i128)truth->limit.period_ns;
    cdl_i128 debt = truth->known ? truth->full_at - now * count : 0;
    *anchored = debt - full > CDL_SKEW_NS * count;
    if (*anchored)
        debt = full;
    return debt < 0 ? 0 : debt;
}

/* Nanoseconds until `debt` 1/period tokens have come back. */
static int64_t true_wait(const struct truth *truth, cdl_i128 debt)
{
    return debt <= 0 ? 0 : (int64_t)((debt + (cdl_i128)truth->limit.count - 1) / (cdl_i128)truth->limit.count);
}

/* Checks a decision that may be `early_ns` early, and does to the truth what was done to the bucket. It is never late but to
 * a caller whose clock is behind the last charge: V's slope is rounded up, so that a stretch of it may seem longer by a unit. */
static void follow(struct truth *truth, int64_t now, struct cdl_question question, const struct caudal_decision *got,
                   int64_t early_ns)
{
    const cdl_i128 period = (cdl_i128)truth->limit.period_ns;
    const cdl_i128 full = (cdl_i128)caudal_limit_capacity(&truth->limit) * period;
    const int64_t late_ns = truth->known && now < truth->charged_at ? early_ns : 0;
    bool anchored;
    cdl_i128 debt = true_debt(truth, now, &anchored);
    if (question.operation == CDL_REFUND) {
        const cdl_i128 back = (cdl_i128)question.maximum * period;
        debt = back >= debt ? 0 : debt - back;
        question.minimum = 0;
        question.maximum = 0;
    }
    const cdl_i128 spent = question.operation == CDL_PEEK && got->verdict == CAUDAL_ALLOW ? question.maximum
                                                                                          : got->granted;
    const int64_t until_allowed = true_wait(truth, debt + (cdl_i128)question.minimum * period - full);
    const int64_t until_left = true_wait(truth, debt + (spent + got->remaining) * period - full);
    const int64_t until_one_more = true_wait(truth, debt + (spent + got->remaining + 1) * period - full);
    if (question.minimum > caudal_limit_capacity(&truth->limit)) {
        assert_int_equal(got->verdict, CAUDAL_NEVER);
    } else if (got->verdict == CAUDAL_ALLOW) {
        assert_true(question.operation == CDL_REFUND || until_allowed <= early_ns);
        debt += spent * period;
    } else if (got->verdict == CAUDAL_DENY) {
        assert_true(until_allowed + late_ns > 0);
        assert_in_range(got->retry_after_ns, until_allowed - early_ns, until_allowed + late_ns);
    } else {
        fail();
    }
    assert_true(got->remaining == 0 || until_left <= early_ns); /* no token is in `remaining` that is not there, */
    assert_true(until_one_more + late_ns > 0);                  /* and none is missing from it */
    const int64_t until_full = true_wait(truth, debt);
    assert_in_range(got->reset_after_ns, until_full < early_ns ? 0 : until_full - early_ns, until_full + late_ns);
    if (question.operation != CDL_PEEK &&
        (spent > 0 || anchored || (question.operation == CDL_REFUND && truth->known))) {
        truth->full_at = now * (cdl_i128)truth->limit.count + debt;
        truth->known = true;
        truth->charged_at = now;
    }
}

static struct cdl_question random_question(struct rng *rng, uint64_t capacity)
{
    const uint64_t cost = rng_next(rng) % 3 == 0 ? rng_below(rng, 3) : rng_below(rng, capacity + capacity / 4 + 2);
    switch (rng_below(rng, 8)) {
    case 0:
        return cdl_question_peek(cost);
    case 1:
        return (struct cdl_question){CDL_REFUND, 0, cost, 0, 0, NULL};
    case 2:
        return (struct cdl_question){CDL_TAKE, rng_below(rng, cost + 1), cost, 0, 0, NULL};
    default:
        return cdl_question_take(cost);
    }
}

/* A walk of 100 questions, forward by up to the time of a refill, or back by less than the skew that is allowed for. */
static void walk(struct rng *rng, struct caudal_limit limit, int64_t early_ns)
{
    struct bucket bucket = {.fresh = true, .limit = limit};
    struct truth truth = {.limit = limit};
    const uint64_t capacity = caudal_limit_capacity(&limit);
    const uint64_t refill = (uint64_t)((cdl_u128)capacity * limit.period_ns / limit.count) + 1;
    int64_t foremost = EPOCH, now = EPOCH;
    for (int i = 0; i < 100; i++) {
        if (rng_below(rng, 8) == 0)
            now = foremost - (int64_t)rng_below(rng, 59 * (uint64_t)SECOND);
        else if (rng_below(rng, 4) > 0)
            now = foremost + (int64_t)rng_magnitude(rng, refill > (uint64_t)YEAR ? (uint64_t)YEAR : refill);
        foremost = cdl_max_i64(foremost, now);
        const struct cdl_question question = random_question(rng, capacity);
        const struct caudal_decision decision = ask(&bucket, now, question);
        follow(&truth, now, question, &decision, early_ns);
    }
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

static void a_bucket_of_a_small_ratio_is_exact_on_any_walk(void **state)
{
    (void)state;
    struct rng rng = {1};
    for (int walks = 0; walks < 2000;) {
        struct caudal_limit limit = random_bucket(&rng);
        limit.count = limit.count % 4096 + 1;
        const uint64_t p = limit.period_ns / gcd(limit.count, limit.period_ns);
        if (caudal_limit_check(&limit, NULL) != CAUDAL_OK || (cdl_u128)p * caudal_limit_capacity(&limit) >> 62 != 0)
            continue;
        walk(&rng, limit, 0);
        walks++;
    }
}

static void a_bucket_of_any_ratio_is_never_late_and_a_nanosecond_early_at_most(void **state)
{
    (void)state;
    struct rng rng = {2};
    for (int walks = 0; walks < 2000; walks++)
        walk(&rng, random_bucket(&rng), 1);
}

/* ---- by hand ---- */

static struct bucket bucket_at(struct caudal_limit limit, int64_t now)
{
    struct bucket bucket = {.fresh = true, .limit = limit};
    cover(&bucket, now);
    return bucket;
}

static struct caudal_decision take_from(struct bucket *bucket, int64_t now, uint64_t cost)
{
    return ask(bucket, now, cdl_question_take(cost));
}

static uint64_t level(struct bucket *bucket, int64_t now)
{
    return ask(bucket, now, cdl_question_peek(0)).remaining;
}

static void a_wait_ends_at_that_nanosecond_and_not_before(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(10, 10, SECOND), 0);
    take_from(&bucket, 0, 10);
    const struct caudal_decision denied = take_from(&bucket, 30 * MILLISECOND, 3);
    assert_int_equal(denied.verdict, CAUDAL_DENY);
    assert_int_equal(denied.retry_after_ns, 270 * MILLISECOND);
    assert_int_equal(take_from(&bucket, 300 * MILLISECOND - 1, 3).retry_after_ns, 1);
    assert_int_equal(take_from(&bucket, 300 * MILLISECOND, 3).verdict, CAUDAL_ALLOW);
}

static void a_cost_above_the_capacity_is_never_and_spends_nothing(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(3, 3, 2 * SECOND), 0);
    static const uint64_t costs[] = {4, 1000, UINT64_MAX / 2, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(costs); i++) {
        const struct caudal_decision decision = take_from(&bucket, 0, costs[i]);
        assert_int_equal(decision.verdict, CAUDAL_NEVER);
        assert_int_equal(decision.retry_after_ns, -1);
        assert_int_equal(decision.remaining, 3);
    }
    assert_int_equal(take_from(&bucket, 0, 1).remaining, 2);
}

static void a_rate_of_zero_admits_the_burst_and_then_never(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(2, 0, SECOND), 0);
    assert_int_equal(take_from(&bucket, 0, 1).verdict, CAUDAL_ALLOW);
    const struct caudal_decision last = take_from(&bucket, YEAR, 1);
    assert_int_equal(last.verdict, CAUDAL_ALLOW);
    assert_int_equal(last.reset_after_ns, -1);
    const struct caudal_decision none = take_from(&bucket, 60 * YEAR, 1);
    assert_int_equal(none.verdict, CAUDAL_NEVER);
    assert_int_equal(none.retry_after_ns, -1);
    assert_int_equal(take_from(&bucket, 200 * YEAR, 1).verdict, CAUDAL_NEVER); /* beyond the first window */
    ask(&bucket, 200 * YEAR, (struct cdl_question){CDL_REFUND, 0, 1, 0, 0, NULL});
    assert_int_equal(take_from(&bucket, 200 * YEAR, 1).verdict, CAUDAL_ALLOW);
}

static void a_capacity_of_zero_admits_only_a_cost_of_zero(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(0, 10, SECOND), 0);
    assert_int_equal(take_from(&bucket, 0, 1).verdict, CAUDAL_NEVER);
    assert_int_equal(take_from(&bucket, YEAR, 1).verdict, CAUDAL_NEVER);
    const struct caudal_decision nothing = take_from(&bucket, 0, 0);
    assert_int_equal(nothing.verdict, CAUDAL_ALLOW);
    assert_int_equal(nothing.reset_after_ns, 0);
}

static void a_cost_of_zero_is_refused_only_while_more_than_the_capacity_is_owed(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(20, 20, 20 * SECOND), 0);
    take_from(&bucket, 0, 20);
    assert_int_equal(take_from(&bucket, 0, 0).verdict, CAUDAL_ALLOW);
    const struct caudal_limit lower = bucket_of(10, 20, 20 * SECOND);
    set_limit(&bucket, 0, &lower);
    const struct caudal_decision denied = take_from(&bucket, 0, 0);
    assert_int_equal(denied.verdict, CAUDAL_DENY);
    assert_int_equal(denied.remaining, 0);
    assert_int_equal(denied.retry_after_ns, 10 * SECOND);
    assert_int_equal(take_from(&bucket, 10 * SECOND, 0).verdict, CAUDAL_ALLOW);
}

static void a_clock_that_is_behind_gains_nothing(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(4, 2, SECOND), 100 * SECOND);
    for (int i = 0; i < 4; i++)
        assert_int_equal(take_from(&bucket, 100 * SECOND, 1).verdict, CAUDAL_ALLOW);
    const struct caudal_decision behind = take_from(&bucket, 90 * SECOND, 1);
    assert_int_equal(behind.verdict, CAUDAL_DENY);
    assert_int_equal(behind.retry_after_ns, 10 * SECOND + SECOND / 2); /* true by the clock that is behind, too */
    assert_int_equal(take_from(&bucket, 100 * SECOND, 1).verdict, CAUDAL_DENY);
}

/* 60 s of refill beyond the capacity are put down to skew; a nanosecond more, and the clock must have been set. */
static void a_clock_set_back_anchors_the_bucket_empty(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(5, 1, SECOND), 1000 * SECOND);
    take_from(&bucket, 1000 * SECOND, 5);
    const uint64_t before = bucket.full_at;
    assert_int_equal(take_from(&bucket, 940 * SECOND, 1).retry_after_ns, 61 * SECOND);
    assert_int_equal(bucket.full_at, before);
    assert_int_equal(ask(&bucket, 940 * SECOND - 1, cdl_question_peek(1)).retry_after_ns, SECOND);
    assert_int_equal(bucket.full_at, before); /* a peek stores nothing */
    assert_int_equal(take_from(&bucket, 940 * SECOND - 1, 1).retry_after_ns, SECOND);
    assert_int_not_equal(bucket.full_at, before); /* stored, although refused: the next wait is shorter */
    assert_int_equal(take_from(&bucket, 940 * SECOND - 1 + SECOND / 2, 1).retry_after_ns, SECOND / 2);
    assert_int_equal(level(&bucket, 945 * SECOND - 1), 5);
}

static void a_clock_set_forward_gains_one_full_bucket_once(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(10, 10, MINUTE), 0);
    uint64_t admitted = 0;
    for (int64_t at = 0; at < 3; at++)
        while (take_from(&bucket, at * 100 * YEAR, 1).verdict == CAUDAL_ALLOW)
            admitted++;
    assert_int_equal(admitted, 30);
    assert_int_equal(level(&bucket, 0), 0); /* and back again: empty */
}

static void a_peek_tells_what_a_take_would_and_changes_nothing(void **state)
{
    (void)state;
    struct rng rng = {3};
    struct bucket bucket = bucket_at(bucket_of(50, 7, SECOND), 0);
    for (int64_t now = 0; now < 100 * SECOND; now += (int64_t)rng_magnitude(&rng, SECOND)) {
        const uint64_t cost = rng_below(&rng, 60);
        const uint64_t before = bucket.full_at;
        struct caudal_decision told = ask(&bucket, now, cdl_question_peek(cost));
        assert_int_equal(bucket.full_at, before);
        assert_int_equal(told.granted, 0);
        const struct caudal_decision done = take_from(&bucket, now, cost);
        told.granted = done.granted;
        assert_same_decision(done, told);
    }
}

static void a_refusal_does_not_change_the_state(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(10, 3, SECOND), 0);
    take_from(&bucket, 0, 9);
    for (int64_t now = 0; now < SECOND / 3; now += MILLISECOND) {
        uint64_t full_at = bucket.full_at;
        struct caudal_decision decision;
        const struct cdl_question question = cdl_question_take(2);
        assert_false(cdl_token_bucket_decide(&bucket.clock, now, false, &full_at, &question, &decision));
        assert_int_equal(decision.verdict, CAUDAL_DENY);
        assert_int_equal(decision.granted, 0);
    }
}

static void take_up_to_gives_what_there_is_but_not_less_than_the_least(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(10, 10, SECOND), 0);
    const struct caudal_decision some = ask(&bucket, 0, (struct cdl_question){CDL_TAKE, 1, 7, 0, 0, NULL});
    assert_int_equal(some.granted, 7);
    assert_int_equal(some.remaining, 3);
    const struct caudal_decision few = ask(&bucket, 0, (struct cdl_question){CDL_TAKE, 4, 7, 0, 0, NULL});
    assert_int_equal(few.verdict, CAUDAL_DENY);
    assert_int_equal(few.granted, 0);
    assert_int_equal(few.retry_after_ns, 100 * MILLISECOND); /* as a take of 4 */
    assert_int_equal(ask(&bucket, 0, (struct cdl_question){CDL_TAKE, 3, UINT64_MAX, 0, 0, NULL}).granted, 3);
    const struct caudal_decision none = ask(&bucket, 0, (struct cdl_question){CDL_TAKE, 0, 7, 0, 0, NULL});
    assert_int_equal(none.verdict, CAUDAL_ALLOW);
    assert_int_equal(none.granted, 0);
}

static void a_refund_never_fills_above_the_capacity(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(10, 10, MINUTE), 0);
    take_from(&bucket, 0, 10);
    assert_int_equal(ask(&bucket, 0, (struct cdl_question){CDL_REFUND, 0, 1, 0, 0, NULL}).remaining, 1);
    static const uint64_t refunds[] = {100, UINT64_MAX / 2, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(refunds); i++) {
        take_from(&bucket, 0, 1);
        const struct caudal_decision full = ask(&bucket, 0,
                                                (struct cdl_question){CDL_REFUND, 0, refunds[i], 0, 0, NULL});
        assert_int_equal(full.remaining, 10);
        assert_int_equal(full.reset_after_ns, 0);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(take_from(&bucket, 0, 1).verdict, CAUDAL_ALLOW);
    assert_int_equal(take_from(&bucket, 0, 1).verdict, CAUDAL_DENY);
}

static void a_refund_to_a_key_never_seen_stores_nothing(void **state)
{
    (void)state;
    struct bucket bucket = bucket_at(bucket_of(10, 10, MINUTE), 0);
    assert_int_equal(ask(&bucket, 0, (struct cdl_question){CDL_REFUND, 0, 100, 0, 0, NULL}).remaining, 10);
    assert_true(bucket.fresh);
}

static void an_undo_at_the_same_instant_restores_the_bucket(void **state)
{
    (void)state;
    struct rng rng = {4};
    struct bucket bucket = bucket_at(bucket_of(50, 7, SECOND), 0);
    take_from(&bucket, 0, 20);
    for (int64_t now = 0; now < 100 * SECOND; now += (int64_t)rng_magnitude(&rng, SECOND)) {
        const struct caudal_decision before = ask(&bucket, now, cdl_question_peek(0));
        const uint64_t cost = rng_below(&rng, before.remaining + 1);
        take_from(&bucket, now, cost);
        ask(&bucket, now, (struct cdl_question){CDL_UNDO, 0, cost, now, now, NULL});
        assert_same_decision(ask(&bucket, now, cdl_question_peek(0)), before);
        take_from(&bucket, now, rng_below(&rng, 10));
    }
}

static void the_time_to_full_is_the_reset_of_a_peek(void **state)
{
    (void)state;
    struct rng rng = {5};
    for (int i = 0; i < 2000; i++) {
        struct bucket bucket = bucket_at(random_bucket(&rng), 0);
        take_from(&bucket, 0, rng_magnitude(&rng, caudal_limit_capacity(&bucket.limit)));
        const int64_t now = (int64_t)rng_magnitude(&rng, (uint64_t)DAY);
        const struct caudal_decision told = ask(&bucket, now, cdl_question_peek(0));
        assert_int_equal(cdl_token_bucket_time_to_full(&bucket.clock, now, bucket.full_at), told.reset_after_ns);
    }
}

static void a_bucket_works_at_the_ends_of_time(void **state)
{
    (void)state;
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
    const struct caudal_limit limits[] = {bucket_of(10, 10, SECOND), bucket_of(CAUDAL_CAPACITY_MAX, 1, 1),
                                          bucket_of(1, 1, (int64_t)CAUDAL_REFILL_MAX_NS), bucket_of(7, 0, SECOND)};
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        for (size_t j = 0; j < COUNT_OF(ends); j++)
            for (size_t k = 0; k < COUNT_OF(ends); k++) {
                struct bucket bucket = bucket_at(limits[i], ends[j]);
                assert_int_equal(take_from(&bucket, ends[j], limits[i].burst).verdict, CAUDAL_ALLOW);
                const uint64_t now_left = level(&bucket, ends[k]);
                assert_true(now_left <= limits[i].burst);
                if (ends[k] <= ends[j])
                    assert_int_equal(now_left, 0);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_by_hand_are_met),
        cmocka_unit_test(random_vectors_are_met_at_microseconds),
        cmocka_unit_test(random_vectors_are_met_at_nanoseconds),
        cmocka_unit_test(a_bucket_of_a_small_ratio_is_exact_on_any_walk),
        cmocka_unit_test(a_bucket_of_any_ratio_is_never_late_and_a_nanosecond_early_at_most),
        cmocka_unit_test(a_wait_ends_at_that_nanosecond_and_not_before),
        cmocka_unit_test(a_cost_above_the_capacity_is_never_and_spends_nothing),
        cmocka_unit_test(a_rate_of_zero_admits_the_burst_and_then_never),
        cmocka_unit_test(a_capacity_of_zero_admits_only_a_cost_of_zero),
        cmocka_unit_test(a_cost_of_zero_is_refused_only_while_more_than_the_capacity_is_owed),
        cmocka_unit_test(a_clock_that_is_behind_gains_nothing),
        cmocka_unit_test(a_clock_set_back_anchors_the_bucket_empty),
        cmocka_unit_test(a_clock_set_forward_gains_one_full_bucket_once),
        cmocka_unit_test(a_peek_tells_what_a_take_would_and_changes_nothing),
        cmocka_unit_test(a_refusal_does_not_change_the_state),
        cmocka_unit_test(take_up_to_gives_what_there_is_but_not_less_than_the_least),
        cmocka_unit_test(a_refund_never_fills_above_the_capacity),
        cmocka_unit_test(a_refund_to_a_key_never_seen_stores_nothing),
        cmocka_unit_test(an_undo_at_the_same_instant_restores_the_bucket),
        cmocka_unit_test(the_time_to_full_is_the_reset_of_a_peek),
        cmocka_unit_test(a_bucket_works_at_the_ends_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
