/* A key whose limit comes with each call, as a pure function: the shared vectors to the nanosecond, the named bucket and window beside
 * it on random walks, changes of rate against exact fractions, and the edges by hand. */
#include "algorithm/per_call.h"

#include "../support.h"
#include "../vectors.h"
#include "algorithm/token_bucket.h"
#include "algorithm/window.h"

/* One key, as a store would keep it. */
struct key {
    bool fresh;
    struct cdl_per_call_state state;
};

static struct caudal_decision ask(struct key *key, struct caudal_limit limit, int64_t now, struct cdl_question question)
{
    struct caudal_decision decision = {0};
    assert_int_equal(cdl_per_call_check(&limit), CAUDAL_OK);
    struct cdl_per_call_state state = key->state;
    if (cdl_per_call_decide(&limit, now, key->fresh, &state, &question, &decision)) {
        key->state = state;
        key->fresh = false;
    } else {
        assert_memory_equal(&state, &key->state, sizeof state);
    }
    return decision;
}

static struct caudal_decision take_from(struct key *key, struct caudal_limit limit, int64_t now, uint64_t cost)
{
    return ask(key, limit, now, cdl_question_take(cost));
}

static struct caudal_decision look_at(struct key *key, struct caudal_limit limit, int64_t now)
{
    return ask(key, limit, now, cdl_question_peek(0));
}

static struct cdl_question refund_of(uint64_t tokens)
{
    return (struct cdl_question){.operation = CDL_REFUND, .maximum = tokens};
}

static struct cdl_question undo_of(uint64_t tokens, int64_t charged_at)
{
    return (struct cdl_question){CDL_UNDO, 0, tokens, charged_at, charged_at, NULL};
}

static struct caudal_limit window_of(uint64_t count, int64_t period_ns)
{
    return limit_of(CAUDAL_FIXED_WINDOW, count, period_ns);
}

/* ---- vectors ---- */

struct player {
    struct key key;
    struct caudal_limit limit;
};

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    assert_int_equal(count, 1);
    *(struct player *)context = (struct player){.key.fresh = true, .limit = limits[0]};
}

/* A named limit is changed at an instant; here the new one comes with the next call. A rate makes itself felt from when it is first
 * asked by: nothing given back, with so large a burst that no debt is anchored anew before its time. */
static void set_limit(struct player *player, int64_t now, struct caudal_limit limit)
{
    const bool other_rate = (cdl_u128)player->limit.count * limit.period_ns !=
                            (cdl_u128)limit.count * player->limit.period_ns;
    player->limit = limit;
    if (limit.algorithm != CAUDAL_TOKEN_BUCKET || !other_rate)
        return;
    struct caudal_decision ignored;
    const struct cdl_question nothing = refund_of(0);
    limit.burst = CAUDAL_CAPACITY_MAX;
    cdl_per_call_decide(&limit, now, player->key.fresh, &player->key.state, &nothing, &ignored);
}

static void play(void *context, const struct vector_step *step)
{
    struct player *player = context;
    struct caudal_decision decision = {0};
    switch (step->action) {
    case VECTOR_TAKE:
        decision = take_from(&player->key, player->limit, step->now_ns, step->amount);
        break;
    case VECTOR_PEEK:
        decision = ask(&player->key, player->limit, step->now_ns, cdl_question_peek(step->amount));
        break;
    case VECTOR_REFUND:
        ask(&player->key, player->limit, step->now_ns, refund_of(step->amount));
        break;
    case VECTOR_SET:
        set_limit(player, step->now_ns, step->limit);
        break;
    }
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, 0);
}

static void play_file(const char *file, enum caudal_algorithm algorithm)
{
    struct player player;
    const struct vector_player how = {begin, play, &player};
    vectors_play(file, (int)algorithm, &how);
}

static void vectors_by_hand_are_met(void **state)
{
    (void)state;
    play_file("named.us.jsonl", CAUDAL_TOKEN_BUCKET);
    play_file("named.us.jsonl", CAUDAL_FIXED_WINDOW);
}

static void random_vectors_are_met_to_the_nanosecond(void **state)
{
    (void)state;
    play_file("random.token_bucket.us.jsonl", CAUDAL_TOKEN_BUCKET);
    play_file("random.token_bucket.ns.jsonl", CAUDAL_TOKEN_BUCKET);
    play_file("random.fixed_window.us.jsonl", CAUDAL_FIXED_WINDOW);
}

/* ---- beside the named limit ---- */

static struct cdl_question random_question(struct rng *rng, uint64_t capacity)
{
    const uint64_t cost = rng_next(rng) % 3 == 0 ? rng_below(rng, 3) : rng_below(rng, capacity + capacity / 4 + 2);
    switch (rng_below(rng, 9)) {
    case 0:
        return cdl_question_peek(cost);
    case 1:
        return refund_of(cost);
    case 2:
        return (struct cdl_question){CDL_TAKE, rng_below(rng, cost + 1), cost, 0, 0, NULL};
    case 3:
        return cdl_question_settle(cost);
    default:
        return cdl_question_take(cost);
    }
}

/* Forward by up to `most`, or back, now and then by more than is put down to skew. */
static int64_t random_step(struct rng *rng, int64_t now, int64_t most)
{
    if (rng_below(rng, 8) == 0)
        return now - (int64_t)rng_below(rng, rng_below(rng, 4) == 0 ? 200 * (uint64_t)MINUTE : 59 * (uint64_t)SECOND);
    return rng_below(rng, 4) == 0 ? now : now + (int64_t)rng_magnitude(rng, (uint64_t)most);
}

/* A bucket whose named twin is exact: see token_clock.h. */
static struct caudal_limit random_exact_bucket(struct rng *rng)
{
    for (;;) {
        struct caudal_limit limit = random_bucket(rng);
        limit.count %= 17;
        if (caudal_limit_check(&limit, NULL) == CAUDAL_OK &&
            (cdl_u128)limit.period_ns * 16 * (caudal_limit_capacity(&limit) + 1) >> 62 == 0)
            return limit;
    }
}

static void a_bucket_answers_as_a_named_one_on_any_walk(void **state)
{
    (void)state;
    struct rng rng = {1};
    for (uint64_t walks = 0; walks < scaled(4000); walks++) {
        const struct caudal_limit limit = random_exact_bucket(&rng);
        const uint64_t capacity = caudal_limit_capacity(&limit);
        const uint64_t refill = limit.count == 0 ? (uint64_t)DAY : capacity * limit.period_ns / limit.count + 1;
        int64_t now = EPOCH;
        struct cdl_token_clock clock = cdl_token_clock_make(&limit, now);
        struct key key = {.fresh = true};
        uint64_t full_at = 0;
        bool fresh = true;
        for (int i = 0; i < 100; i++, now = random_step(&rng, now, (int64_t)cdl_min_u64(refill, (uint64_t)HOUR))) {
            const struct cdl_question question = random_question(&rng, capacity);
            struct caudal_decision named = {0};
            uint64_t after = full_at;
            assert_true(cdl_token_clock_covers(&clock, now));
            if (cdl_token_bucket_decide(&clock, now, fresh, &after, &question, &named)) {
                full_at = after;
                fresh = false;
            }
            assert_same_decision(ask(&key, limit, now, question), named);
            assert_int_equal(key.fresh, fresh);
        }
    }
}

static void a_window_answers_as_a_named_one_on_any_walk(void **state)
{
    (void)state;
    struct rng rng = {2};
    for (uint64_t walks = 0; walks < scaled(4000); walks++) {
        const uint64_t count = rng_magnitude(&rng, 1000);
        const struct caudal_limit limit = window_of(count, (int64_t)(count + rng_magnitude(&rng, (uint64_t)DAY)));
        const struct cdl_window_rule rule = {limit.count, (int64_t)limit.period_ns, false};
        struct key key = {.fresh = true};
        struct cdl_window_state window = {0};
        bool fresh = true;
        int64_t now = EPOCH;
        for (int i = 0; i < 100; i++, now = random_step(&rng, now, (int64_t)limit.period_ns)) {
            const struct cdl_question question = random_question(&rng, limit.count);
            struct caudal_decision named = {0};
            struct cdl_window_state after = window;
            if (cdl_window_decide(&rule, now, fresh, &after, &question, &named)) {
                window = after;
                fresh = false;
            }
            struct caudal_decision got = ask(&key, limit, now, question);
            assert_same_decision(got, named);
            assert_int_equal(key.fresh, fresh);
        }
    }
}

/* ---- another rate ---- */

/* What is missing from a bucket, as exact as can be said: whole tokens, and parts of one. */
struct debt {
    cdl_i128 tokens, parts;
    cdl_i128 token; /* parts in one */
};

static struct debt debt_of(const struct key *key, int64_t now)
{
    const cdl_i128 token = (cdl_i128)key->state.period_ns;
    const cdl_i128 parts = key->state.full_at - (cdl_i128)now * (cdl_i128)key->state.count;
    return (struct debt){parts <= 0 ? 0 : parts / token, parts <= 0 ? 0 : parts % token, token};
}

/* Of two fractions below one: whether a/b <= c/d. Each is below 2^62. */
static bool is_at_most(cdl_i128 a, cdl_i128 b, cdl_i128 c, cdl_i128 d)
{
    return a * d <= c * b;
}

static void assert_rounded_up_by_less_than_a_part(struct debt from, struct debt to)
{
    if (to.parts == 0 && from.parts > 0)
        to = (struct debt){to.tokens - 1, to.token, to.token};
    assert_true(from.tokens == to.tokens);
    assert_true(is_at_most(from.parts, from.token, to.parts, to.token));
    assert_true(from.parts == to.parts || !is_at_most(from.parts, from.token, to.parts - 1, to.token));
}

static void a_debt_is_kept_in_tokens_whatever_the_rates(void **state)
{
    (void)state;
    struct rng rng = {3};
    for (uint64_t walks = 0; walks < scaled(20000); walks++) {
        struct key key = {.fresh = true};
        struct caudal_limit limit = random_bucket(&rng);
        int64_t now = EPOCH;
        take_from(&key, limit, now, rng_magnitude(&rng, caudal_limit_capacity(&limit)));
        for (int i = 0; i < 10 && !key.fresh; i++) {
            now += (int64_t)rng_below(&rng, rng_magnitude(&rng, (uint64_t)SECOND));
            const struct debt before = debt_of(&key, now);
            limit = random_bucket(&rng);
            limit.burst = CAUDAL_CAPACITY_MAX; /* nothing is beyond it */
            if (caudal_limit_check(&limit, NULL) != CAUDAL_OK)
                continue;
            const bool refused = rng_below(&rng, 2) == 0; /* which converts as well */
            ask(&key, limit, now, refused ? cdl_question_take(UINT64_MAX) : refund_of(0));
            assert_true(key.state.count * (cdl_u128)limit.period_ns == limit.count * (cdl_u128)key.state.period_ns);
            assert_rounded_up_by_less_than_a_part(before, debt_of(&key, now));
        }
    }
}

/* To and fro at one instant, a debt comes to the next whole token at the most. */
static void rounding_does_not_add_up(void **state)
{
    (void)state;
    struct rng rng = {4};
    for (uint64_t walks = 0; walks < scaled(2000); walks++) {
        struct caudal_limit limits[3];
        for (size_t i = 0; i < COUNT_OF(limits); i++)
            limits[i] = bucket_of(1000, rng_magnitude(&rng, 1000), (int64_t)rng_magnitude(&rng, (uint64_t)DAY) + 1000);
        struct key key = {.fresh = true};
        take_from(&key, limits[0], EPOCH, 10);
        const int64_t now = EPOCH + (int64_t)rng_below(&rng, limits[0].period_ns * 10 / limits[0].count);
        const struct debt before = debt_of(&key, now);
        for (int i = 0; i < 300; i++)
            ask(&key, limits[rng_below(&rng, COUNT_OF(limits))], now, cdl_question_settle(UINT64_MAX));
        const struct debt after = debt_of(&key, now);
        assert_true(after.tokens == before.tokens || (after.tokens == before.tokens + 1 && after.parts == 0));
    }
}

static void one_rate_in_other_words_changes_nothing(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    take_from(&key, bucket_of(10, 1, SECOND), EPOCH, 10);
    const struct cdl_per_call_state before = key.state;
    const struct caudal_decision refused = take_from(&key, bucket_of(10, 60, MINUTE), EPOCH + 1, 1);
    assert_int_equal(refused.retry_after_ns, SECOND - 1);
    assert_memory_equal(&key.state, &before, sizeof before);
    assert_int_equal(take_from(&key, bucket_of(10, 60, MINUTE), EPOCH + SECOND, 1).verdict, CAUDAL_ALLOW);
    assert_int_equal(take_from(&key, bucket_of(10, 3600, HOUR), EPOCH + 2 * SECOND - 1, 1).retry_after_ns, 1);
}

static void the_wait_of_a_refusal_is_kept_under_another_rate(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    take_from(&key, bucket_of(5, 5, DAY), EPOCH, 5);
    const struct caudal_limit faster = bucket_of(5, 1, SECOND);
    const struct caudal_decision refused = take_from(&key, faster, EPOCH, 2);
    assert_int_equal(refused.retry_after_ns, 2 * SECOND);
    assert_int_equal(take_from(&key, faster, EPOCH + 2 * SECOND - 1, 2).retry_after_ns, 1);
    assert_int_equal(take_from(&key, faster, EPOCH + 2 * SECOND, 2).verdict, CAUDAL_ALLOW);
}

static void a_peek_at_another_rate_changes_nothing(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    take_from(&key, bucket_of(5, 5, DAY), EPOCH, 5);
    const struct cdl_per_call_state before = key.state;
    assert_int_equal(ask(&key, bucket_of(5, 1, SECOND), EPOCH, cdl_question_peek(2)).retry_after_ns, 2 * SECOND);
    assert_memory_equal(&key.state, &before, sizeof before);
}

static void what_settles_at_another_rate_is_not_charged(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    take_from(&key, bucket_of(10, 1, MINUTE), EPOCH, 4);
    const struct caudal_limit limit = bucket_of(10, 1, SECOND);
    assert_int_equal(ask(&key, limit, EPOCH, cdl_question_settle(6)).verdict, CAUDAL_ALLOW);
    assert_int_equal(key.state.period_ns, SECOND);
    assert_int_equal(look_at(&key, limit, EPOCH).remaining, 6);
}

static void a_capacity_is_the_call_s(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    assert_int_equal(take_from(&key, bucket_of(10, 1, SECOND), EPOCH, 6).remaining, 4);
    assert_int_equal(take_from(&key, bucket_of(5, 1, SECOND), EPOCH, 1).retry_after_ns, 2 * SECOND);
    assert_int_equal(take_from(&key, bucket_of(20, 1, SECOND), EPOCH, 1).remaining, 13);
}

static void a_debt_comes_to_a_bucket_that_never_refills_and_leaves_it(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    const struct caudal_limit still = bucket_of(10, 0, SECOND), moving = bucket_of(10, 1, SECOND);
    take_from(&key, moving, EPOCH, 4);
    assert_int_equal(take_from(&key, still, EPOCH + SECOND, 1).remaining, 6);
    assert_int_equal(look_at(&key, still, EPOCH + YEAR).remaining, 6);
    assert_int_equal(look_at(&key, still, EPOCH + YEAR).reset_after_ns, -1);
    assert_int_equal(take_from(&key, bucket_of(10, 0, HOUR), EPOCH + YEAR, 7).verdict, CAUDAL_NEVER);
    assert_int_equal(take_from(&key, moving, EPOCH + YEAR, 1).remaining, 5);
    assert_int_equal(look_at(&key, moving, EPOCH + YEAR + SECOND).remaining, 6);
}

/* As when a named limit is lowered. */
static void a_debt_far_beyond_the_capacity_is_anchored_anew(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    take_from(&key, bucket_of(100, 100, SECOND), EPOCH, 100);
    const struct caudal_limit small = bucket_of(10, 1, SECOND);
    assert_int_equal(look_at(&key, small, EPOCH).retry_after_ns, 0); /* beyond by 90 s: empty */
    assert_int_equal(take_from(&key, small, EPOCH, 1).retry_after_ns, SECOND);
    assert_int_equal(take_from(&key, small, EPOCH + SECOND, 1).verdict, CAUDAL_ALLOW);
}

/* ---- windows, and other algorithms ---- */

static void a_window_keeps_what_was_spent_under_another_count(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    take_from(&key, window_of(10, MINUTE), EPOCH, 6);
    assert_int_equal(take_from(&key, window_of(5, MINUTE), EPOCH, 1).retry_after_ns, MINUTE);
    assert_int_equal(take_from(&key, window_of(8, MINUTE), EPOCH + 1, 2).remaining, 0);
    assert_int_equal(take_from(&key, window_of(8, MINUTE), EPOCH + MINUTE, 2).remaining, 6);
}

static void another_length_or_algorithm_begins_anew(void **state)
{
    (void)state;
    struct key key = {.fresh = true};
    take_from(&key, window_of(10, MINUTE), EPOCH, 10);
    assert_int_equal(look_at(&key, window_of(10, HOUR), EPOCH).remaining, 10);
    assert_int_equal(take_from(&key, window_of(10, HOUR), EPOCH, 11).verdict, CAUDAL_NEVER);
    assert_int_equal(look_at(&key, window_of(10, MINUTE), EPOCH).remaining,
                     0);                                      /* a look and a refusal changed nothing */
    ask(&key, bucket_of(10, 1, SECOND), EPOCH, refund_of(5)); /* nor does what gives nothing back */
    assert_int_equal(look_at(&key, window_of(10, MINUTE), EPOCH).remaining, 0);
    assert_int_equal(take_from(&key, window_of(10, HOUR), EPOCH, 1).remaining, 9);
    assert_int_equal(take_from(&key, bucket_of(10, 1, SECOND), EPOCH, 3).remaining, 7);
    assert_int_equal(take_from(&key, bucket_of(10, 1, SECOND), EPOCH, 3).remaining, 4);
    assert_int_equal(take_from(&key, window_of(10, HOUR), EPOCH, 1).remaining, 9);
}

/* ---- giving back ---- */

static void a_refund_never_fills_above_the_capacity(void **state)
{
    (void)state;
    static const uint64_t refunds[] = {100, UINT64_MAX / 2, UINT64_MAX};
    const struct caudal_limit limits[] = {bucket_of(10, 10, MINUTE), window_of(10, MINUTE),
                                          bucket_of(10, 10, (int64_t)CAUDAL_REFILL_MAX_NS)};
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        for (size_t j = 0; j < COUNT_OF(refunds); j++) {
            struct key key = {.fresh = true};
            assert_int_equal(ask(&key, limits[i], EPOCH, refund_of(refunds[j])).remaining, 10);
            assert_true(key.fresh);
            take_from(&key, limits[i], EPOCH, 3);
            assert_int_equal(ask(&key, limits[i], EPOCH, refund_of(1)).remaining, 8);
            assert_int_equal(ask(&key, limits[i], EPOCH, refund_of(refunds[j])).remaining, 10);
        }
}

static void an_undo_gives_back_what_has_not_been_refilled_since(void **state)
{
    (void)state;
    const struct caudal_limit bucket = bucket_of(10, 1, SECOND), window = window_of(10, MINUTE);
    struct key key = {.fresh = true};
    take_from(&key, bucket, EPOCH, 4);
    take_from(&key, bucket, EPOCH + SECOND, 3);
    assert_int_equal(ask(&key, bucket, EPOCH + 2 * SECOND, undo_of(4, EPOCH)).remaining,
                     7); /* 5 left, 2 refilled of 4 */
    assert_int_equal(ask(&key, bucket, EPOCH + 2 * SECOND, undo_of(3, EPOCH - MINUTE)).remaining, 7);
    assert_int_equal(ask(&key, bucket, EPOCH + 2 * SECOND, undo_of(1, EPOCH + MINUTE)).remaining,
                     8); /* clocks differ */
    key = (struct key){.fresh = true};
    take_from(&key, window, EPOCH, 4);
    take_from(&key, window, EPOCH + MINUTE, 3);
    assert_int_equal(ask(&key, window, EPOCH + MINUTE, undo_of(4, EPOCH)).remaining, 7); /* that window is gone */
    assert_int_equal(ask(&key, window, EPOCH + MINUTE, undo_of(2, EPOCH + MINUTE)).remaining, 9);
}

/* ---- time ---- */

static void the_time_left_is_the_reset_of_a_peek(void **state)
{
    (void)state;
    struct rng rng = {5};
    for (uint64_t i = 0; i < scaled(20000); i++) {
        struct caudal_limit limit = random_bucket(&rng);
        if (rng_below(&rng, 3) == 0 && caudal_limit_capacity(&limit) <= limit.period_ns)
            limit = window_of(caudal_limit_capacity(&limit), (int64_t)limit.period_ns);
        struct key key = {.fresh = true};
        take_from(&key, limit, 0, rng_magnitude(&rng, caudal_limit_capacity(&limit)));
        const int64_t now = (int64_t)rng_magnitude(&rng, (uint64_t)DAY);
        assert_int_equal(cdl_per_call_time_left(&key.state, now), look_at(&key, limit, now).reset_after_ns);
    }
    struct key key = {.fresh = true};
    take_from(&key, bucket_of(10, 0, SECOND), 0, 1);
    assert_int_equal(cdl_per_call_time_left(&key.state, YEAR), INT64_MAX);
    ask(&key, bucket_of(10, 0, SECOND), YEAR, refund_of(1));
    assert_int_equal(cdl_per_call_time_left(&key.state, YEAR), 0);
}

static void it_works_at_the_ends_of_time(void **state)
{
    (void)state;
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
    const struct caudal_limit limits[] = {
        bucket_of(10, 10, SECOND),
        bucket_of(CAUDAL_CAPACITY_MAX, 1, 1),
        bucket_of(1, 1, (int64_t)CAUDAL_REFILL_MAX_NS),
        bucket_of(7, 0, SECOND),
        bucket_of(CAUDAL_CAPACITY_MAX, 0, (int64_t)CAUDAL_REFILL_MAX_NS),
        bucket_of(CAUDAL_CAPACITY_MAX, CAUDAL_REFILL_MAX_NS, (int64_t)CAUDAL_REFILL_MAX_NS),
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        for (size_t j = 0; j < COUNT_OF(ends); j++)
            for (size_t k = 0; k < COUNT_OF(ends); k++)
                for (size_t l = 0; l < COUNT_OF(limits); l++) {
                    struct key key = {.fresh = true};
                    assert_int_equal(take_from(&key, limits[i], ends[j], limits[i].burst).verdict, CAUDAL_ALLOW);
                    const uint64_t now_left = look_at(&key, limits[i], ends[k]).remaining;
                    assert_true(now_left <= limits[i].burst);
                    if (ends[k] <= ends[j])
                        assert_int_equal(now_left, 0);
                    const struct caudal_decision other = take_from(&key, limits[l], ends[k], 1);
                    assert_true(other.remaining <= limits[l].burst);
                    assert_true(other.verdict != CAUDAL_DENY || other.retry_after_ns > 0);
                    assert_true(cdl_per_call_time_left(&key.state, ends[j]) >= 0);
                }
}

/* ---- what can be asked by ---- */

static void what_is_no_bucket_and_no_fixed_window_is_refused(void **state)
{
    (void)state;
    const struct caudal_limit good[] = {bucket_of(1, 1, 1), bucket_of(0, 0, 1), window_of(0, 1)};
    const struct caudal_limit bad[] = {
        limit_of(CAUDAL_SLIDING_WINDOW, 1, SECOND),
        limit_of(CAUDAL_SLIDING_LOG, 1, SECOND),
        limit_of(CAUDAL_UNLIMITED, 0, 0),
        bucket_of(1, 1, 0),
        window_of(2, 1),
        bucket_of(CAUDAL_CAPACITY_MAX + 1, 1, 1),
        window_of(CAUDAL_CAPACITY_MAX + 1, YEAR),
    };
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_int_equal(cdl_per_call_check(&good[i]), CAUDAL_OK);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(cdl_per_call_check(&bad[i]), CAUDAL_ERR_LIMIT);
    struct caudal_limit unknown = bucket_of(1, 1, 1);
    unknown.algorithm = (enum caudal_algorithm)77;
    assert_int_equal(cdl_per_call_check(&unknown), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(cdl_per_call_check(NULL), CAUDAL_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_by_hand_are_met),
        cmocka_unit_test(random_vectors_are_met_to_the_nanosecond),
        cmocka_unit_test(a_bucket_answers_as_a_named_one_on_any_walk),
        cmocka_unit_test(a_window_answers_as_a_named_one_on_any_walk),
        cmocka_unit_test(a_debt_is_kept_in_tokens_whatever_the_rates),
        cmocka_unit_test(rounding_does_not_add_up),
        cmocka_unit_test(one_rate_in_other_words_changes_nothing),
        cmocka_unit_test(the_wait_of_a_refusal_is_kept_under_another_rate),
        cmocka_unit_test(a_peek_at_another_rate_changes_nothing),
        cmocka_unit_test(what_settles_at_another_rate_is_not_charged),
        cmocka_unit_test(a_capacity_is_the_call_s),
        cmocka_unit_test(a_debt_comes_to_a_bucket_that_never_refills_and_leaves_it),
        cmocka_unit_test(a_debt_far_beyond_the_capacity_is_anchored_anew),
        cmocka_unit_test(a_window_keeps_what_was_spent_under_another_count),
        cmocka_unit_test(another_length_or_algorithm_begins_anew),
        cmocka_unit_test(a_refund_never_fills_above_the_capacity),
        cmocka_unit_test(an_undo_gives_back_what_has_not_been_refilled_since),
        cmocka_unit_test(the_time_left_is_the_reset_of_a_peek),
        cmocka_unit_test(it_works_at_the_ends_of_time),
        cmocka_unit_test(what_is_no_bucket_and_no_fixed_window_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
