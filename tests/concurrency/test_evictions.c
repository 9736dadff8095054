/* Many threads and many keys on a table that is far too small: keys come in, are forgotten and come back all the time. */
#include "crew.h"

#define KEYS 500u

static struct world world;
static uint32_t limit;
static uint64_t unit;
static _Atomic uint64_t admitted[KEYS];

static void forget(uint64_t round)
{
    (void)round;
    for (size_t i = 0; i < KEYS; i++)
        atomic_store(&admitted[i], 0);
}

/* All of the traffic: takes on random keys, some more popular than others, and now and then a look, a refund or a reset. */
static void take_of_random_keys(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    for (int i = 0; i < 2000; i++) {
        const uint64_t key = rng_magnitude(&rng, KEYS) - 1;
        struct caudal_decision decision;
        caudal_take(world.store, limit, &key, sizeof key, unit * rng_below(&rng, 4), &decision);
        atomic_fetch_add(&admitted[key], decision.granted);
    }
}

static uint64_t evictions_before;

/* A key is given its capacity, and as much again each time that it was forgotten. How often that was for one key nobody
 * counts, but for all of them together. */
static void assert_forgetting_accounts_for_the_excess(uint64_t round)
{
    (void)round;
    const uint64_t evictions = stats_of(&world).live_evictions - evictions_before, capacity = 10 * unit;
    uint64_t excess = 0;
    for (size_t i = 0; i < KEYS; i++) {
        const uint64_t of_key = atomic_load(&admitted[i]);
        excess += of_key > capacity ? of_key - capacity : 0;
    }
    assert_true(evictions > 0);
    assert_true(excess <= evictions * capacity);
    assert_store_is_sound(world.store);
}

static void run_round_by_round(unsigned threads, uint64_t rounds, void (*work)(unsigned thread, uint64_t round),
                               void (*after)(uint64_t round))
{
    for (uint64_t round = 0; round < rounds; round++) {
        evictions_before = stats_of(&world).live_evictions;
        /* A period later all keys are as new: what one round spent is no matter of the next. */
        world_advance(&world, 2 * HOUR);
        const struct crew_job job = {threads, 1, forget, work, after};
        crew_run(&job);
    }
}

static void keys_that_are_forgotten_never_own_two_entries(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++)
        for (unsigned threads = 2; threads <= CREW_MAX; threads *= 2) {
            world_open(&world, "memory:?keys=64&wide_keys=64&log_entries=1");
            limit = world_add_kind(&world, &kinds[k]);
            unit = kinds[k].unit;
            run_round_by_round(threads, scaled(20), take_of_random_keys, assert_forgetting_accounts_for_the_excess);
            world_close(&world);
        }
}

/* Two lines are the smallest table there is: all threads fight for eight entries. */
static void the_smallest_table_there_is_holds_out(void **state)
{
    (void)state;
    world_open(&world, "memory:?keys=1&wide_keys=1&log_entries=1");
    for (size_t k = 0; k < KINDS; k++) {
        limit = world_add_kind(&world, &kinds[k]);
        unit = kinds[k].unit;
        run_round_by_round(8, scaled(20), take_of_random_keys, assert_forgetting_accounts_for_the_excess);
    }
    world_close(&world);
}

/* Limits of all kinds share the tables, keys expire while others come in, and every operation takes part. */
static uint32_t limits[KINDS];
static _Atomic unsigned mistakes;

static void do_anything(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    for (int i = 0; i < 2000; i++) {
        const size_t k = rng_below(&rng, KINDS);
        const uint64_t key = rng_below(&rng, KEYS), cost = kinds[k].unit * rng_below(&rng, 11);
        struct caudal_decision decision = {0};
        int status = CAUDAL_OK;
        switch (rng_below(&rng, 8)) {
        case 0:
            status = caudal_peek(world.store, limits[k], &key, sizeof key, cost, &decision);
            break;
        case 1:
            status = caudal_refund(world.store, limits[k], &key, sizeof key, cost, &decision);
            break;
        case 2:
            status = caudal_reset(world.store, limits[k], &key, sizeof key);
            break;
        case 3:
            status = caudal_take_up_to(world.store, limits[k], &key, sizeof key, 0, cost, &decision);
            break;
        case 4:
            world_advance(&world, (int64_t)rng_magnitude(&rng, (uint64_t)MINUTE));
            break;
        default:
            status = caudal_take(world.store, limits[k], &key, sizeof key, cost, &decision);
        }
        if (status != CAUDAL_OK || decision.remaining > 10 * kinds[k].unit || decision.granted > 10 * kinds[k].unit)
            atomic_fetch_add(&mistakes, 1);
    }
}

static void assert_sound(uint64_t round)
{
    (void)round;
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_store_is_sound(world.store);
    const struct caudal_store_stats stats = stats_of(&world);
    assert_true(stats.live_keys <= stats.slots);
}

static void anything_goes_on_a_full_table(void **state)
{
    (void)state;
    for (unsigned threads = 2; threads <= CREW_MAX; threads *= 2) {
        world_open(&world, "memory:?keys=200&wide_keys=50&log_entries=1");
        for (size_t k = 0; k < KINDS; k++)
            limits[k] = world_add_kind(&world, &kinds[k]);
        const struct crew_job job = {threads, scaled(50), NULL, do_anything, assert_sound};
        crew_run(&job);
        world_close(&world);
    }
}

/* Keys on the system's clocks, which tell every thread another time. */
static void take_by_the_clock(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    for (int i = 0; i < 2000; i++) {
        const size_t k = rng_below(&rng, KINDS);
        const uint64_t key = rng_below(&rng, 20);
        struct caudal_decision decision;
        if (caudal_take(world.store, limits[k], &key, sizeof key, kinds[k].unit, &decision) != CAUDAL_OK ||
            decision.remaining > 10 * kinds[k].unit || decision.verdict == CAUDAL_NEVER)
            atomic_fetch_add(&mistakes, 1);
    }
}

static void threads_that_read_the_clock_themselves_agree(void **state)
{
    (void)state;
    world = (struct world){0};
    assert_int_equal(caudal_store_open("memory:?keys=1000", NULL, &world.store, NULL), CAUDAL_OK);
    for (size_t k = 0; k < KINDS; k++)
        limits[k] = world_add_kind(&world, &kinds[k]);
    const struct crew_job job = {8, scaled(50), NULL, take_by_the_clock, assert_sound};
    crew_run(&job);
    caudal_store_close(world.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_are_forgotten_never_own_two_entries),
        cmocka_unit_test(the_smallest_table_there_is_holds_out),
        cmocka_unit_test(anything_goes_on_a_full_table),
        cmocka_unit_test(threads_that_read_the_clock_themselves_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
