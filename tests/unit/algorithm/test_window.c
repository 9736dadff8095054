/* Fixed and sliding windows as pure functions: the shared vectors to the nanosecond, and the edges by hand. */
#include "algorithm/window.h"

#include "../support.h"
#include "../vectors.h"

/* One key's window, as a store would keep it. */
struct key {
    struct cdl_window_rule rule;
    struct cdl_window_state state;
    bool fresh;
};

static struct cdl_window_rule rule_of(const struct caudal_limit *limit)
{
    return (struct cdl_window_rule){limit->count, (int64_t)limit->period_ns, limit->algorithm == CAUDAL_SLIDING_WINDOW};
}

static struct key key_of(bool sliding, uint64_t count, int64_t period_ns)
{
    return (struct key){.rule = {count, period_ns, sliding}, .fresh = true};
}

static struct caudal_decision ask(struct key *key, int64_t now, struct cdl_question question)
{
    struct caudal_decision decision = {0};
    struct cdl_window_state state = key->state;
    if (cdl_window_decide(&key->rule, now, key->fresh, &state, &question, &decision)) {
        key->state = state;
        key->fresh = false;
    }
    return decision;
}

static struct caudal_decision take_from(struct key *key, int64_t now, uint64_t cost)
{
    return ask(key, now, cdl_question_take(cost));
}

static uint64_t room(struct key *key, int64_t now)
{
    return ask(key, now, cdl_question_peek(0)).remaining;
}

static void give_back(struct key *key, int64_t now, uint64_t tokens)
{
    ask(key, now, (struct cdl_question){CDL_REFUND, 0, tokens, 0, 0, NULL});
}

/* ---- vectors ---- */

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    assert_int_equal(count, 1);
    *(struct key *)context = (struct key){.rule = rule_of(&limits[0]), .fresh = true};
}

static void play(void *context, const struct vector_step *step)
{
    struct key *key = context;
    struct caudal_decision decision = {0};
    switch (step->action) {
    case VECTOR_TAKE:
        decision = take_from(key, step->now_ns, step->amount);
        break;
    case VECTOR_PEEK:
        decision = ask(key, step->now_ns, cdl_question_peek(step->amount));
        break;
    case VECTOR_REFUND:
        give_back(key, step->now_ns, step->amount);
        break;
    case VECTOR_SET:
        key->fresh |= key->rule.period_ns != (int64_t)step->limit.period_ns; /* counting starts again */
        key->rule = rule_of(&step->limit);
        break;
    }
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, 0);
}

static void play_file(const char *file, enum caudal_algorithm algorithm)
{
    struct key key;
    const struct vector_player player = {begin, play, &key};
    vectors_play(file, (int)algorithm, &player);
}

static void fixed_windows_meet_the_vectors_by_hand(void **state)
{
    (void)state;
    play_file("named.us.jsonl", CAUDAL_FIXED_WINDOW);
}

static void fixed_windows_meet_the_random_vectors(void **state)
{
    (void)state;
    play_file("random.fixed_window.us.jsonl", CAUDAL_FIXED_WINDOW);
}

static void sliding_windows_meet_the_vectors_by_hand(void **state)
{
    (void)state;
    play_file("named.us.jsonl", CAUDAL_SLIDING_WINDOW);
}

static void sliding_windows_meet_the_random_vectors(void **state)
{
    (void)state;
    play_file("random.sliding_window.us.jsonl", CAUDAL_SLIDING_WINDOW);
}

/* ---- fixed ---- */

static void a_fixed_window_is_new_at_its_edge_and_not_before(void **state)
{
    (void)state;
    struct key key = key_of(false, 3, SECOND);
    assert_int_equal(take_from(&key, EPOCH, 3).verdict, CAUDAL_ALLOW);
    const struct caudal_decision denied = take_from(&key, EPOCH + 1, 1);
    assert_int_equal(denied.verdict, CAUDAL_DENY);
    assert_int_equal(denied.retry_after_ns, SECOND - 1);
    assert_int_equal(denied.reset_after_ns, SECOND - 1);
    assert_int_equal(take_from(&key, EPOCH + SECOND - 1, 1).retry_after_ns, 1);
    assert_int_equal(take_from(&key, EPOCH + SECOND, 1).verdict, CAUDAL_ALLOW);
}

static void windows_before_1970_are_aligned_too(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 5, SECOND);
        assert_int_equal(take_from(&key, -10 * SECOND - 1, 5).reset_after_ns, 1 + (sliding == 1 ? SECOND : 0));
        assert_int_equal(key.state.index, -11);
        assert_int_equal(room(&key, -10 * SECOND - 1), 0);
        assert_int_equal(room(&key, -10 * SECOND), sliding == 1 ? 0 : 5);
        assert_int_equal(room(&key, -9 * SECOND), 5);
    }
}

static void the_window_around_1970_is_not_twice_as_long(void **state)
{
    (void)state;
    struct key key = key_of(false, 1, SECOND);
    assert_int_equal(take_from(&key, -1, 1).retry_after_ns, 0);
    assert_int_equal(take_from(&key, -1, 1).retry_after_ns, 1);
    assert_int_equal(take_from(&key, 0, 1).verdict, CAUDAL_ALLOW);
    assert_int_equal(take_from(&key, SECOND - 1, 1).verdict, CAUDAL_DENY);
    assert_int_equal(take_from(&key, SECOND, 1).verdict, CAUDAL_ALLOW);
}

/* ---- sliding ---- */

static void a_sliding_window_weighs_the_previous_one_exactly(void **state)
{
    (void)state;
    struct key key = key_of(true, 100, SECOND);
    take_from(&key, EPOCH, 100);
    for (int64_t into = 0; into < SECOND; into += 10 * MILLISECOND) {
        const int64_t now = EPOCH + SECOND + into;
        assert_int_equal(room(&key, now), into / (10 * MILLISECOND));
        if (into > 0)
            assert_int_equal(room(&key, now - 1), into / (10 * MILLISECOND) - 1); /* never rounded in one's favour */
    }
}

static void a_sliding_wait_ends_at_that_nanosecond_and_not_before(void **state)
{
    (void)state;
    struct rng rng = {1};
    size_t denied = 0;
    for (int i = 0; i < 200000; i++) {
        const uint64_t count = rng_magnitude(&rng, CAUDAL_CAPACITY_MAX);
        const int64_t period = (int64_t)rng_magnitude(&rng, CAUDAL_REFILL_MAX_NS);
        struct key key = key_of(true, count, period);
        key.fresh = false;
        const int64_t now = (int64_t)rng_below(&rng, (uint64_t)period);
        key.state.previous = rng_below(&rng, count + 1);
        key.state.current = rng_below(&rng, count + 1);
        const uint64_t cost = rng_below(&rng, count + 1);
        const struct caudal_decision decision = ask(&key, now, cdl_question_peek(cost));
        if (decision.verdict != CAUDAL_DENY)
            continue;
        denied++;
        assert_true(decision.retry_after_ns > 0);
        assert_int_equal(ask(&key, now + decision.retry_after_ns, cdl_question_peek(cost)).verdict, CAUDAL_ALLOW);
        assert_int_equal(ask(&key, now + decision.retry_after_ns - 1, cdl_question_peek(cost)).verdict, CAUDAL_DENY);
    }
    assert_true(denied > 50000);
}

static void a_sliding_window_is_as_new_when_two_periods_have_passed(void **state)
{
    (void)state;
    struct key key = key_of(true, 10, SECOND);
    assert_int_equal(take_from(&key, EPOCH + SECOND / 2, 1).reset_after_ns, SECOND + SECOND / 2);
    assert_int_equal(ask(&key, EPOCH + 2 * SECOND - 1, cdl_question_peek(0)).reset_after_ns, 1);
    assert_int_equal(ask(&key, EPOCH + 2 * SECOND, cdl_question_peek(0)).reset_after_ns, 0);
}

/* ---- both ---- */

static void a_cost_above_the_count_is_never(void **state)
{
    (void)state;
    static const uint64_t costs[] = {4, UINT64_MAX / 2, UINT64_MAX};
    for (int sliding = 0; sliding < 2; sliding++)
        for (size_t i = 0; i < COUNT_OF(costs); i++) {
            struct key key = key_of(sliding == 1, 3, SECOND);
            const struct caudal_decision decision = take_from(&key, EPOCH, costs[i]);
            assert_int_equal(decision.verdict, CAUDAL_NEVER);
            assert_int_equal(decision.retry_after_ns, -1);
            assert_int_equal(take_from(&key, EPOCH, 1).remaining, 2);
        }
}

static void a_count_of_zero_admits_nothing(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 0, SECOND);
        assert_int_equal(take_from(&key, EPOCH, 1).verdict, CAUDAL_NEVER);
        assert_int_equal(take_from(&key, EPOCH, 0).verdict, CAUDAL_ALLOW);
        assert_int_equal(room(&key, EPOCH), 0);
    }
}

static void a_refusal_does_not_change_the_state(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 5, SECOND);
        take_from(&key, EPOCH, 4);
        for (int64_t now = EPOCH; now < EPOCH + SECOND; now += SECOND / 10) {
            struct cdl_window_state kept = key.state;
            struct caudal_decision decision;
            const struct cdl_question question = cdl_question_take(2);
            assert_false(cdl_window_decide(&key.rule, now, false, &kept, &question, &decision));
            assert_int_equal(decision.verdict, CAUDAL_DENY);
            assert_int_equal(decision.granted, 0);
        }
    }
}

static void a_peek_tells_what_a_take_would_and_changes_nothing(void **state)
{
    (void)state;
    struct rng rng = {2};
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 50, SECOND);
        for (int64_t now = EPOCH; now < EPOCH + 60 * SECOND; now += (int64_t)rng_magnitude(&rng, SECOND)) {
            const uint64_t cost = rng_below(&rng, 60);
            const struct key before = key;
            struct caudal_decision told = ask(&key, now, cdl_question_peek(cost));
            assert_memory_equal(&key, &before, sizeof key);
            assert_int_equal(told.granted, 0);
            const struct caudal_decision done = take_from(&key, now, cost);
            told.granted = done.granted;
            assert_same_decision(done, told);
        }
    }
}

static void take_up_to_gives_what_there_is_but_not_less_than_the_least(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 10, SECOND);
        assert_int_equal(ask(&key, EPOCH, (struct cdl_question){CDL_TAKE, 1, 7, 0, 0, NULL}).granted, 7);
        const struct caudal_decision few = ask(&key, EPOCH, (struct cdl_question){CDL_TAKE, 4, 7, 0, 0, NULL});
        assert_int_equal(few.verdict, CAUDAL_DENY);
        assert_int_equal(few.granted, 0);
        assert_int_equal(ask(&key, EPOCH, (struct cdl_question){CDL_TAKE, 0, UINT64_MAX, 0, 0, NULL}).granted, 3);
    }
}

static void a_refund_never_goes_below_nothing_used(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 10, SECOND);
        give_back(&key, EPOCH, 100);
        assert_true(key.fresh);
        take_from(&key, EPOCH, 10);
        give_back(&key, EPOCH, 1);
        assert_int_equal(room(&key, EPOCH), 1);
        give_back(&key, EPOCH, UINT64_MAX);
        assert_int_equal(room(&key, EPOCH), 10);
        assert_int_equal(take_from(&key, EPOCH, 11).verdict, CAUDAL_NEVER);
    }
}

static void a_clock_that_slips_back_over_an_edge_goes_on_in_the_window_ahead(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 10, SECOND);
        take_from(&key, EPOCH + SECOND, 6);
        const struct caudal_decision behind = take_from(&key, EPOCH + SECOND - 1, 5);
        assert_int_equal(behind.verdict, CAUDAL_DENY);
        assert_int_equal(behind.remaining, 4);
        assert_int_equal(take_from(&key, EPOCH + SECOND - 1, 4).verdict, CAUDAL_ALLOW);
        assert_int_equal(room(&key, EPOCH + SECOND), 0);
    }
}

static void a_window_further_ahead_was_left_by_a_clock_that_was_set(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 10, SECOND);
        take_from(&key, EPOCH + 100 * SECOND, 10);
        assert_int_equal(room(&key, EPOCH), 10);
        assert_int_equal(take_from(&key, EPOCH, 1).remaining, 9);
    }
}

static void a_lowered_count_refuses_until_enough_has_passed(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 20, SECOND);
        take_from(&key, EPOCH, 20);
        key.rule.count = 5;
        const struct caudal_decision denied = take_from(&key, EPOCH, 0);
        assert_int_equal(denied.verdict, CAUDAL_DENY);
        assert_int_equal(denied.remaining, 0);
        assert_int_equal(denied.retry_after_ns, sliding == 1 ? SECOND + 3 * SECOND / 4 : SECOND);
        key.rule.count = 25;
        assert_int_equal(room(&key, EPOCH), 5);
    }
}

static void an_undo_at_the_same_instant_restores_the_window(void **state)
{
    (void)state;
    struct rng rng = {3};
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, 50, SECOND);
        take_from(&key, EPOCH, 1);
        for (int64_t now = EPOCH; now < EPOCH + 60 * SECOND; now += (int64_t)rng_magnitude(&rng, SECOND)) {
            const struct caudal_decision before = ask(&key, now, cdl_question_peek(0));
            const uint64_t cost = rng_below(&rng, before.remaining + 1);
            take_from(&key, now, cost);
            ask(&key, now, (struct cdl_question){CDL_UNDO, 0, cost, now, now, NULL});
            assert_same_decision(ask(&key, now, cdl_question_peek(0)), before);
            take_from(&key, now, rng_below(&rng, 20));
        }
    }
}

static void the_time_to_empty_is_the_reset_of_a_peek(void **state)
{
    (void)state;
    struct rng rng = {4};
    for (int i = 0; i < 2000; i++) {
        const int64_t period = (int64_t)rng_magnitude(&rng, CAUDAL_REFILL_MAX_NS);
        struct key key = key_of(rng_next(&rng) & 1, 100, period);
        const int64_t start = (int64_t)rng_magnitude(&rng, (uint64_t)(100 * YEAR));
        take_from(&key, start, rng_magnitude(&rng, 100));
        const int64_t now = start + (int64_t)rng_below(&rng, (uint64_t)period);
        assert_int_equal(cdl_window_time_to_empty(&key.rule, now, &key.state),
                         ask(&key, now, cdl_question_peek(0)).reset_after_ns);
    }
}

/* ---- the ends of time ---- */

/* Every period and every pair of instants at which an index, its neighbour or a distance could leave 64 bits. */
static void windows_work_at_the_ends_of_time(void **state)
{
    (void)state;
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    static const int64_t periods[] = {1, 2, 3, SECOND, (int64_t)CAUDAL_REFILL_MAX_NS};
    for (int sliding = 0; sliding < 2; sliding++)
        for (size_t p = 0; p < COUNT_OF(periods); p++)
            for (size_t i = 0; i < COUNT_OF(ends); i++)
                for (size_t j = 0; j < COUNT_OF(ends); j++) {
                    struct key key = key_of(sliding == 1, 1, periods[p]);
                    assert_int_equal(take_from(&key, ends[i], 1).verdict, CAUDAL_ALLOW);
                    const struct caudal_decision later = ask(&key, ends[j], cdl_question_peek(1));
                    assert_true(later.retry_after_ns >= 0);
                    assert_true(later.reset_after_ns >= later.retry_after_ns);
                    if (i == j)
                        assert_int_equal(later.verdict, CAUDAL_DENY);
                    cdl_window_time_to_empty(&key.rule, ends[j], &key.state);
                }
}

static void the_largest_window_there_is_counts_to_its_end(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        struct key key = key_of(sliding == 1, CAUDAL_CAPACITY_MAX, (int64_t)CAUDAL_REFILL_MAX_NS);
        assert_int_equal(take_from(&key, 0, CAUDAL_CAPACITY_MAX - 1).remaining, 1);
        const struct caudal_decision denied = take_from(&key, 0, 2);
        assert_int_equal(denied.verdict, CAUDAL_DENY);
        assert_true(denied.retry_after_ns >= (int64_t)CAUDAL_REFILL_MAX_NS);
        assert_int_equal(take_from(&key, 0, 1).verdict, CAUDAL_ALLOW);
        assert_int_equal(take_from(&key, 0, CAUDAL_CAPACITY_MAX).retry_after_ns,
                         (int64_t)CAUDAL_REFILL_MAX_NS * (sliding == 1 ? 2 : 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_windows_meet_the_vectors_by_hand),
        cmocka_unit_test(fixed_windows_meet_the_random_vectors),
        cmocka_unit_test(sliding_windows_meet_the_vectors_by_hand),
        cmocka_unit_test(sliding_windows_meet_the_random_vectors),
        cmocka_unit_test(a_fixed_window_is_new_at_its_edge_and_not_before),
        cmocka_unit_test(windows_before_1970_are_aligned_too),
        cmocka_unit_test(the_window_around_1970_is_not_twice_as_long),
        cmocka_unit_test(a_sliding_window_weighs_the_previous_one_exactly),
        cmocka_unit_test(a_sliding_wait_ends_at_that_nanosecond_and_not_before),
        cmocka_unit_test(a_sliding_window_is_as_new_when_two_periods_have_passed),
        cmocka_unit_test(a_cost_above_the_count_is_never),
        cmocka_unit_test(a_count_of_zero_admits_nothing),
        cmocka_unit_test(a_refusal_does_not_change_the_state),
        cmocka_unit_test(a_peek_tells_what_a_take_would_and_changes_nothing),
        cmocka_unit_test(take_up_to_gives_what_there_is_but_not_less_than_the_least),
        cmocka_unit_test(a_refund_never_goes_below_nothing_used),
        cmocka_unit_test(a_clock_that_slips_back_over_an_edge_goes_on_in_the_window_ahead),
        cmocka_unit_test(a_window_further_ahead_was_left_by_a_clock_that_was_set),
        cmocka_unit_test(a_lowered_count_refuses_until_enough_has_passed),
        cmocka_unit_test(an_undo_at_the_same_instant_restores_the_window),
        cmocka_unit_test(the_time_to_empty_is_the_reset_of_a_peek),
        cmocka_unit_test(windows_work_at_the_ends_of_time),
        cmocka_unit_test(the_largest_window_there_is_counts_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
