/* All or nothing, from many threads: never more than each limit allows, and after the storm what is spent is what was
 * admitted; every charge that was taken back is back. */
#include "crew.h"

static struct world world;
static struct kind kind_a, kind_b;
static uint32_t a, b;
static _Atomic uint64_t admitted;
static _Atomic unsigned mistakes;

static void forget(uint64_t round)
{
    (void)round;
    atomic_store(&admitted, 0);
}

/* Half of the threads name the limits in the other order. */
static void take_of_both(unsigned thread, uint64_t round)
{
    for (int i = 0; i < 400; i++) {
        const struct caudal_request of_a = {a, &round, sizeof round, kind_a.unit};
        const struct caudal_request of_b = {b, &round, sizeof round, kind_b.unit};
        const struct caudal_request requests[] = {thread % 2 == 0 ? of_a : of_b, thread % 2 == 0 ? of_b : of_a};
        struct caudal_decision each[2], overall;
        if (caudal_take_all(world.store, requests, 2, each, &overall) != CAUDAL_OK)
            atomic_fetch_add(&mistakes, 1);
        atomic_fetch_add(&admitted, overall.verdict == CAUDAL_ALLOW);
    }
}

static uint64_t left_of(uint32_t limit, uint64_t round)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_peek(world.store, limit, &round, sizeof round, 0, &decision), CAUDAL_OK);
    return decision.remaining;
}

static void assert_spent_is_admitted(uint64_t round)
{
    const uint64_t times = atomic_load(&admitted);
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(left_of(a, round), caudal_limit_capacity(&kind_a.limit) - times * kind_a.unit);
    assert_int_equal(left_of(b, round), caudal_limit_capacity(&kind_b.limit) - times * kind_b.unit);
    /* A refusal may come from a charge that is about to be given back, so less than all may be admitted in a storm; a request
     * after it passes. */
    struct caudal_decision each[2], overall;
    const struct caudal_request requests[] = {{a, &round, sizeof round, kind_a.unit},
                                              {b, &round, sizeof round, kind_b.unit}};
    uint64_t more = 0;
    do {
        assert_int_equal(caudal_take_all(world.store, requests, 2, each, &overall), CAUDAL_OK);
        more += overall.verdict == CAUDAL_ALLOW;
    } while (overall.verdict == CAUDAL_ALLOW);
    const uint64_t least = cdl_min_u64(caudal_limit_capacity(&kind_a.limit) / kind_a.unit,
                                       caudal_limit_capacity(&kind_b.limit) / kind_b.unit);
    assert_int_equal(times + more, least);
}

/* The kind with room for `units` at once. */
static struct kind sized(size_t k, uint64_t units)
{
    struct kind kind = kinds[k];
    kind.unit = kind.limit.count >= 1000 ? kind.limit.count / 1000 : 1;
    kind.limit.count = kind.unit * units;
    if (kind.limit.algorithm == CAUDAL_TOKEN_BUCKET)
        kind.limit.period_ns = CAUDAL_REFILL_MAX_NS;
    return kind;
}

static void what_is_spent_is_what_was_admitted_for_every_pair_of_kinds(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++)
        for (size_t j = 0; j < KINDS; j++) {
            kind_a = sized(i, 1000);
            kind_b = sized(j, 800); /* which is the one that refuses */
            world_open(&world, "memory:?keys=1000&wide_keys=1000");
            a = world_add_kind(&world, &kind_a);
            b = world_add_kind(&world, &kind_b);
            const struct crew_job job = {4, scaled(50), forget, take_of_both, assert_spent_is_admitted};
            crew_run(&job);
            assert_store_is_sound(world.store);
            world_close(&world);
        }
}

static void sixteen_threads_get_no_more_than_both_allow(void **state)
{
    (void)state;
    kind_a = sized(0, 1000);
    kind_b = sized(2, 800);
    world_open(&world, "memory:?keys=1000&wide_keys=1000");
    a = world_add_kind(&world, &kind_a);
    b = world_add_kind(&world, &kind_b);
    const struct crew_job job = {16, scaled(200), forget, take_of_both, assert_spent_is_admitted};
    crew_run(&job);
    world_close(&world);
}

/* Charges are taken back while the units that they were made in change. */
static void take_of_both_or_change_the_units(unsigned thread, uint64_t round)
{
    if (thread > 0) {
        take_of_both(thread, round);
        return;
    }
    for (uint64_t i = 0; i < 60; i++) {
        struct caudal_limit other = kind_a.limit;
        other.burst = kind_a.limit.count;
        other.count = 1;
        other.period_ns = (uint64_t)(i % 2 == 0 ? YEAR / 100 : SECOND);
        if (caudal_set_limit(world.store, i % 3 == 0 ? b : a, &other, NULL) != CAUDAL_OK)
            atomic_fetch_add(&mistakes, 1);
    }
}

static void every_charge_is_given_back_although_the_units_change(void **state)
{
    (void)state;
    kind_a = sized(0, 1000);
    kind_b = sized(0, 1000);
    world_open(&world, "memory:?keys=1000&wide_keys=1000"); /* whose clock stands still */
    a = world_add_kind(&world, &kind_a);
    b = world_add_kind(&world, &kind_b);
    const struct crew_job job = {4, scaled(300), forget, take_of_both_or_change_the_units, assert_spent_is_admitted};
    crew_run(&job);
    assert_store_is_sound(world.store);
    world_close(&world);
}

/* One bucket named twice in a request, by all threads: it is charged for both or for none. */
static void take_of_one_twice(unsigned thread, uint64_t round)
{
    (void)thread;
    for (int i = 0; i < 200; i++) {
        const struct caudal_request requests[] = {{a, &round, sizeof round, 2 * kind_a.unit},
                                                  {a, &round, sizeof round, 3 * kind_a.unit}};
        struct caudal_decision each[2], overall;
        if (caudal_take_all(world.store, requests, 2, each, &overall) != CAUDAL_OK)
            atomic_fetch_add(&mistakes, 1);
        atomic_fetch_add(&admitted, overall.verdict == CAUDAL_ALLOW);
    }
}

static void assert_fives_are_spent(uint64_t round)
{
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(left_of(a, round), (1000 - 5 * atomic_load(&admitted)) * kind_a.unit);
}

static void a_bucket_named_twice_is_charged_for_both_or_none(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        kind_a = sized(k, 1000);
        world_open(&world, "memory:?keys=1000&wide_keys=1000");
        a = world_add_kind(&world, &kind_a);
        const struct crew_job job = {4, scaled(100), forget, take_of_one_twice, assert_fives_are_spent};
        crew_run(&job);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_spent_is_what_was_admitted_for_every_pair_of_kinds),
        cmocka_unit_test(sixteen_threads_get_no_more_than_both_allow),
        cmocka_unit_test(every_charge_is_given_back_although_the_units_change),
        cmocka_unit_test(a_bucket_named_twice_is_charged_for_both_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
