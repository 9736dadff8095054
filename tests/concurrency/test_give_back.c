/* Refunds and resets while threads take. */
#include "crew.h"

static struct world world;
static struct kind kind;
static uint32_t limit;
static _Atomic uint64_t admitted, returned, resets;

static void forget(uint64_t round)
{
    (void)round;
    atomic_store(&admitted, 0);
    atomic_store(&returned, 0);
    atomic_store(&resets, 0);
}

static uint64_t left_of(uint64_t round)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_peek(world.store, limit, &round, sizeof round, 0, &decision), CAUDAL_OK);
    return decision.remaining;
}

/* Ten units of every kind; a bucket that takes a hundred years. */
static void for_every_kind(unsigned threads, uint64_t rounds, void (*work)(unsigned thread, uint64_t round),
                           void (*after)(uint64_t round))
{
    for (size_t k = 0; k < KINDS; k++) {
        kind = kinds[k];
        if (kind.limit.algorithm == CAUDAL_TOKEN_BUCKET)
            kind.limit.period_ns = CAUDAL_REFILL_MAX_NS;
        world_open(&world, "memory:?keys=1000&wide_keys=1000");
        limit = world_add_kind(&world, &kind);
        const struct crew_job job = {threads, rounds, forget, work, after};
        crew_run(&job);
        assert_store_is_sound(world.store);
        world_close(&world);
    }
}

/* Each gives back part of what it got, and never more. */
static void take_and_give_back(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    for (int i = 0; i < 300; i++) {
        struct caudal_decision decision;
        caudal_take_up_to(world.store, limit, &round, sizeof round, 0, kind.unit * rng_below(&rng, 4), &decision);
        const uint64_t back = decision.granted - decision.granted / 3;
        atomic_fetch_add(&admitted, decision.granted);
        caudal_refund(world.store, limit, &round, sizeof round, back, NULL);
        atomic_fetch_add(&returned, back);
    }
}

static void assert_the_sum_is_right(uint64_t round)
{
    assert_int_equal(left_of(round), 10 * kind.unit - (atomic_load(&admitted) - atomic_load(&returned)));
}

static void what_is_left_is_the_whole_less_takes_plus_refunds(void **state)
{
    (void)state;
    for (unsigned threads = 2; threads <= CREW_MAX; threads *= 2)
        for_every_kind(threads, scaled(50), take_and_give_back, assert_the_sum_is_right);
}

/* Refunds of what was never taken: at no moment is there more than the capacity. */
static _Atomic unsigned mistakes;

static void refund_for_nothing(unsigned thread, uint64_t round)
{
    for (int i = 0; i < 300; i++) {
        struct caudal_decision decision;
        if (thread % 2 == 0)
            caudal_refund(world.store, limit, &round, sizeof round, 3 * kind.unit, &decision);
        else
            caudal_take(world.store, limit, &round, sizeof round, 10 * kind.unit, &decision);
        if (decision.remaining > 10 * kind.unit || (decision.granted != 0 && decision.granted != 10 * kind.unit))
            atomic_fetch_add(&mistakes, 1);
    }
}

static void assert_no_mistakes(uint64_t round)
{
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_true(left_of(round) <= 10 * kind.unit);
}

static void refunds_for_nothing_never_overfill(void **state)
{
    (void)state;
    for_every_kind(4, scaled(100), refund_for_nothing, assert_no_mistakes);
}

/* Thread 0 resets; each reset gives the whole once more, and no other does. */
static void take_while_one_resets(unsigned thread, uint64_t round)
{
    for (int i = 0; i < 300; i++) {
        struct caudal_decision decision;
        if (thread == 0 && i % 10 == 0) {
            atomic_fetch_add(&resets, 1);
            caudal_reset(world.store, limit, &round, sizeof round);
        }
        caudal_take(world.store, limit, &round, sizeof round, kind.unit, &decision);
        atomic_fetch_add(&admitted, decision.granted);
    }
}

static void assert_a_whole_for_each_reset(uint64_t round)
{
    const uint64_t whole = 10 * kind.unit;
    assert_in_range(atomic_load(&admitted), whole, whole * (1 + atomic_load(&resets)));
    assert_int_equal(left_of(round), 0);
    assert_int_equal(caudal_reset(world.store, limit, &round, sizeof round), CAUDAL_OK);
    assert_int_equal(left_of(round), whole);
}

static void each_reset_gives_the_whole_once_more(void **state)
{
    (void)state;
    for_every_kind(4, scaled(100), take_while_one_resets, assert_a_whole_for_each_reset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_the_whole_less_takes_plus_refunds),
        cmocka_unit_test(refunds_for_nothing_never_overfill),
        cmocka_unit_test(each_reset_gives_the_whole_once_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
