/* Limits that are changed and removed under live state: what was spent stays spent, in tokens, whatever way the change goes
 * inside (the same clock at another slope, another clock and a conversion, a window that becomes a wide one). */
#include "store/memory_store.h"

#include "../support.h"

#define SMALL "memory:?keys=200&wide_keys=200&log_entries=1"

static struct world world;

static int open_small(void **state)
{
    (void)state;
    world_open(&world, SMALL);
    return 0;
}

static int close_small(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

static uint16_t number_of(uint32_t limit)
{
    struct cdl_limit_view view;
    cdl_limit_read(cdl_limits_find(cdl_memory_store(world.store)->limits, limit), &view, NULL);
    return view.number;
}

static const char *key_of(uint64_t i)
{
    static char key[24];
    snprintf(key, sizeof key, "key %u", (unsigned)i);
    return key;
}

/* ---- buckets ---- */

/* Keys that have spent 0, 1, ... of a limit, and what is left to them under another one. */
static void assert_debts_survive(struct caudal_limit from, struct caudal_limit to)
{
    const uint32_t limit = world_add(&world, from);
    const uint64_t had = caudal_limit_capacity(&from), has = caudal_limit_capacity(&to);
    const uint64_t keys = had < 50 ? had : 50;
    for (uint64_t i = 0; i <= keys; i++)
        take(&world, limit, key_of(i), i * had / keys);
    world_set(&world, limit, to);
    for (uint64_t i = 0; i <= keys; i++) {
        const uint64_t spent = i * had / keys;
        assert_int_equal(left(&world, limit, key_of(i)), spent < has ? has - spent : 0);
    }
    assert_int_equal(left(&world, limit, "never seen"), has);
    world_set(&world, limit, from); /* and back */
    for (uint64_t i = 0; i <= keys; i++)
        assert_int_equal(left(&world, limit, key_of(i)), had - i * had / keys);
    assert_int_equal(caudal_remove_limit(world.store, limit), CAUDAL_OK);
}

static void a_buckets_debt_survives_every_change_of_rate_and_burst(void **state)
{
    (void)state;
    const struct caudal_limit limits[] = {
        bucket_of(20, 20, HOUR),    bucket_of(20, 10, HOUR),       bucket_of(30, 20, HOUR),
        bucket_of(20, 20, MINUTE),  bucket_of(20, 7, DAY),         bucket_of(20, 1000, SECOND),
        bucket_of(20, 0, SECOND),   bucket_of(20, 4999, 7 * HOUR), bucket_of(1000000, 5, SECOND),
        bucket_of(20, 1, 5 * YEAR),
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        for (size_t j = 0; j < COUNT_OF(limits); j++)
            if (caudal_limit_capacity(&limits[j]) >= caudal_limit_capacity(&limits[i]))
                assert_debts_survive(limits[i], limits[j]);
}

static void a_raised_limit_admits_the_difference_at_once(void **state)
{
    (void)state;
    for (int64_t period = SECOND; period <= 365 * DAY; period *= 60) { /* other periods need other units */
        const uint32_t limit = world_add(&world, bucket_of(10, 10, HOUR));
        assert_int_equal(drain(&world, limit, "key"), 10);
        world_set(&world, limit, bucket_of(20, 20, period));
        assert_int_equal(drain(&world, limit, "key"), 10);
        assert_int_equal(drain(&world, limit, "never seen"), 20);
    }
}

static void a_lowered_limit_refuses_until_enough_is_refilled(void **state)
{
    (void)state;
    const uint32_t limit = world_add(&world, bucket_of(20, 20, HOUR));
    assert_int_equal(drain(&world, limit, "key"), 20);
    world_set(&world, limit, bucket_of(10, 10, HOUR)); /* 20 are owed, and one comes back every six minutes */
    const struct caudal_decision denied = take(&world, limit, "key", 1);
    assert_int_equal(denied.remaining, 0);
    assert_int_equal(denied.retry_after_ns,
                     6 * MINUTE); /* anchored: more than a minute beyond empty is not waited for */
    world_advance(&world, 6 * MINUTE);
    assert_int_equal(drain(&world, limit, "key"), 1);
}

static void a_change_settles_what_was_refilled_at_the_old_rate(void **state)
{
    (void)state;
    const struct caudal_limit slower[] = {bucket_of(10, 5, SECOND),
                                          bucket_of(10, 1, HOUR)}; /* same units, and other ones */
    for (size_t i = 0; i < COUNT_OF(slower); i++) {
        const uint32_t limit = world_add(&world, bucket_of(10, 10, SECOND));
        const uint16_t number = number_of(limit);
        assert_int_equal(drain(&world, limit, "key"), 10);
        world_advance(&world, 350 * MILLISECOND);
        world_set(&world, limit, slower[i]);
        assert_int_equal(number_of(limit) == number, i == 0);
        assert_int_equal(left(&world, limit, "key"), 3);
        const int64_t half_a_token = (int64_t)(slower[i].period_ns / slower[i].count) / 2;
        assert_int_equal(take(&world, limit, "key", 4).retry_after_ns, half_a_token);
        world_advance(&world, half_a_token);
        assert_int_equal(drain(&world, limit, "key"), 4);
    }
}

static void a_change_at_a_given_instant_settles_then(void **state)
{
    (void)state;
    const struct caudal_limit from = bucket_of(10, 10, SECOND), to = bucket_of(10, 1, HOUR);
    const uint32_t limit = world_add(&world, from);
    struct caudal_decision decision;
    assert_int_equal(caudal_take_at(world.store, limit, "key", 3, 10, EPOCH, &decision), CAUDAL_OK);
    assert_int_equal(caudal_set_limit_at(world.store, limit, &to, EPOCH + SECOND / 2, NULL), CAUDAL_OK);
    assert_int_equal(caudal_peek_at(world.store, limit, "key", 3, 0, EPOCH + SECOND / 2, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 5);
}

static void a_hundred_changes_of_units_on_a_standing_clock_lose_nothing(void **state)
{
    (void)state;
    const struct caudal_limit rates[] = {bucket_of(50, 50, HOUR), bucket_of(50, 3, DAY), bucket_of(50, 999, SECOND)};
    const uint32_t limit = world_add(&world, rates[0]);
    for (uint64_t i = 0; i <= 50; i++)
        take(&world, limit, key_of(i), i);
    for (int i = 1; i <= 100; i++) {
        world_set(&world, limit, rates[i % 3]);
        for (uint64_t key = 0; key <= 50; key += 7) {
            take(&world, limit, key_of(key), 0);
            assert_int_equal(left(&world, limit, key_of(key)), 50 - key);
        }
    }
}

static void a_change_long_after_the_last_look_finds_full_buckets(void **state)
{
    (void)state;
    for (int64_t years = 1; years <= 200; years *= 3) {
        world_set_time(&world, EPOCH);
        const uint32_t limit = world_add(&world, bucket_of(10, 10, SECOND));
        assert_int_equal(drain(&world, limit, "key"), 10);
        world_advance(&world, years * YEAR);
        world_set(&world, limit, bucket_of(10, 10, DAY));
        assert_int_equal(left(&world, limit, "key"), 10);
    }
}

/* ---- windows ---- */

static void a_windows_counts_survive_another_count(void **state)
{
    (void)state;
    static const enum caudal_algorithm algorithms[] = {CAUDAL_FIXED_WINDOW, CAUDAL_SLIDING_WINDOW, CAUDAL_SLIDING_LOG};
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        const uint32_t limit = world_add(&world, limit_of(algorithms[i], 10, HOUR));
        assert_int_equal(drain(&world, limit, "key"), 10);
        world_set(&world, limit, limit_of(algorithms[i], 15, HOUR));
        assert_int_equal(drain(&world, limit, "key"), 5);
        world_set(&world, limit, limit_of(algorithms[i], 5, HOUR));
        const struct caudal_decision denied = take(&world, limit, "key", 0);
        assert_int_equal(denied.verdict, CAUDAL_DENY);
        assert_int_equal(denied.remaining, 0);
        world_set(&world, limit, limit_of(algorithms[i], 16, HOUR));
        assert_int_equal(drain(&world, limit, "key"), 1);
    }
}

static void another_period_starts_windows_anew(void **state)
{
    (void)state;
    static const enum caudal_algorithm algorithms[] = {CAUDAL_FIXED_WINDOW, CAUDAL_SLIDING_WINDOW};
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        const uint32_t limit = world_add(&world, limit_of(algorithms[i], 10, HOUR));
        assert_int_equal(drain(&world, limit, "key"), 10);
        const uint64_t keys = stats_of(&world).live_keys;
        world_set(&world, limit, limit_of(algorithms[i], 10, 2 * HOUR));
        assert_int_equal(stats_of(&world).live_keys, keys - 1);
        assert_int_equal(drain(&world, limit, "key"), 10);
    }
}

static void another_period_keeps_a_logs_entries(void **state)
{
    (void)state;
    const uint32_t limit = world_add(&world, limit_of(CAUDAL_SLIDING_LOG, 10, HOUR));
    assert_int_equal(drain(&world, limit, "key"), 10);
    world_advance(&world, 30 * MINUTE);
    world_set(&world, limit, limit_of(CAUDAL_SLIDING_LOG, 10, 31 * MINUTE));
    assert_int_equal(take(&world, limit, "key", 1).retry_after_ns, MINUTE);
    world_set(&world, limit, limit_of(CAUDAL_SLIDING_LOG, 10, 29 * MINUTE));
    assert_int_equal(drain(&world, limit, "key"), 10);
}

/* A count that no longer fits one word: keys that nobody has asked about since move over when they are next seen. */
static void a_window_that_becomes_wide_keeps_its_counts(void **state)
{
    (void)state;
    static const enum caudal_algorithm algorithms[] = {CAUDAL_FIXED_WINDOW, CAUDAL_SLIDING_WINDOW};
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        const uint32_t limit = world_add(&world, limit_of(algorithms[i], 1000, SECOND));
        assert_int_equal(layout_of(&world, limit), CDL_LAYOUT_WINDOW);
        for (uint64_t key = 0; key < 50; key++)
            take(&world, limit, key_of(key), key + 1);
        const uint64_t keys = stats_of(&world).live_keys;
        world_set(&world, limit, limit_of(algorithms[i], 1000000000, SECOND));
        assert_int_equal(layout_of(&world, limit), CDL_LAYOUT_WIDE_WINDOW);
        assert_int_equal(stats_of(&world).live_keys, keys);
        for (uint64_t key = 0; key < 50; key += 2) /* a look is enough to move it */
            assert_int_equal(left(&world, limit, key_of(key)), 1000000000 - key - 1);
        assert_int_equal(stats_of(&world).live_keys, keys);
        for (uint64_t key = 0; key < 50; key++)
            assert_int_equal(take(&world, limit, key_of(key), 500).remaining, 1000000000 - key - 501);
        assert_int_equal(stats_of(&world).live_keys, keys);
        world_set(&world, limit, limit_of(algorithms[i], 1000, SECOND)); /* and back, without moving again */
        for (uint64_t key = 0; key < 50; key++)
            assert_int_equal(left(&world, limit, key_of(key)), 1000 - key - 501);
        assert_int_equal(caudal_remove_limit(world.store, limit), CAUDAL_OK);
        assert_int_equal(stats_of(&world).live_keys, 0);
    }
}

static void a_window_that_has_become_wide_can_be_refunded_and_reset(void **state)
{
    (void)state;
    const uint32_t limit = world_add(&world, limit_of(CAUDAL_FIXED_WINDOW, 1000, SECOND));
    for (uint64_t key = 0; key < 4; key++)
        take(&world, limit, key_of(key), 100);
    world_set(&world, limit, limit_of(CAUDAL_FIXED_WINDOW, 1000000000, SECOND));
    refund(&world, limit, key_of(0), 40); /* not moved yet */
    assert_int_equal(left(&world, limit, key_of(0)), 1000000000 - 60);
    reset(&world, limit, key_of(1)); /* not moved yet */
    assert_int_equal(left(&world, limit, key_of(1)), 1000000000);
    assert_int_equal(left(&world, limit, key_of(2)), 1000000000 - 100);
    reset(&world, limit, key_of(2)); /* moved */
    assert_int_equal(left(&world, limit, key_of(2)), 1000000000);
    assert_int_equal(left(&world, limit, key_of(3)), 1000000000 - 100);
}

/* Keys that were never moved go with the number that they were left under. */
static void a_window_that_has_become_wide_changes_its_period_and_its_algorithm(void **state)
{
    (void)state;
    const struct caudal_limit next[] = {limit_of(CAUDAL_FIXED_WINDOW, 1000, 2 * SECOND),
                                        limit_of(CAUDAL_SLIDING_WINDOW, 1000, SECOND), bucket_of(1000, 1000, SECOND),
                                        limit_of(CAUDAL_SLIDING_LOG, 1000, SECOND)};
    for (size_t i = 0; i < COUNT_OF(next); i++) {
        const uint32_t limit = world_add(&world, limit_of(CAUDAL_FIXED_WINDOW, 1000, SECOND));
        take(&world, limit, "moved", 100);
        take(&world, limit, "left behind", 100);
        world_set(&world, limit, limit_of(CAUDAL_FIXED_WINDOW, 1000000000, SECOND));
        take(&world, limit, "moved", 100);
        world_set(&world, limit, next[i]);
        assert_int_equal(stats_of(&world).live_keys, 0);
        assert_int_equal(left(&world, limit, "moved"), 1000);
        assert_int_equal(left(&world, limit, "left behind"), 1000);
        assert_int_equal(caudal_remove_limit(world.store, limit), CAUDAL_OK);
    }
}

/* ---- another algorithm ---- */

static void another_algorithm_starts_anew_and_leaves_nothing_behind(void **state)
{
    (void)state;
    for (size_t from = 0; from < KINDS; from++)
        for (size_t to = 0; to < KINDS; to++) {
            if (kinds[from].limit.algorithm == kinds[to].limit.algorithm)
                continue;
            const uint32_t limit = world_add_kind(&world, &kinds[from]), other = world_add_kind(&world, &kinds[from]);
            take(&world, limit, "key", 10 * kinds[from].unit);
            take(&world, other, "key", 3 * kinds[from].unit);
            world_set(&world, limit, kinds[to].limit);
            assert_int_equal(layout_of(&world, limit), kinds[to].layout);
            assert_int_equal(stats_of(&world).live_keys, 1);
            assert_int_equal(left(&world, limit, "key"), 10 * kinds[to].unit);
            assert_int_equal(take(&world, limit, "key", 10 * kinds[to].unit).verdict, CAUDAL_ALLOW);
            assert_int_equal(take(&world, limit, "key", 1).verdict, CAUDAL_DENY);
            assert_int_equal(left(&world, other, "key"), 7 * kinds[from].unit);
            assert_int_equal(caudal_remove_limit(world.store, limit), CAUDAL_OK);
            assert_int_equal(caudal_remove_limit(world.store, other), CAUDAL_OK);
        }
}

static void unlimited_and_back_starts_anew(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t limit = world_add_kind(&world, &kinds[k]);
        take(&world, limit, "key", 10 * kinds[k].unit);
        world_set(&world, limit, limit_of(CAUDAL_UNLIMITED, 0, 0));
        assert_int_equal(take(&world, limit, "key", UINT64_MAX).verdict, CAUDAL_ALLOW);
        assert_int_equal(stats_of(&world).live_keys, 0);
        world_set(&world, limit, limit_of(CAUDAL_UNLIMITED, 0, 0)); /* from itself to itself */
        world_set(&world, limit, kinds[k].limit);
        assert_int_equal(left(&world, limit, "key"), 10 * kinds[k].unit);
    }
}

/* The pool's chunks come home, over hundreds of changes. */
static void changing_a_log_back_and_forth_loses_no_chunk(void **state)
{
    (void)state;
    const struct cdl_wide_stripe *stripe = cdl_memory_store(world.store)->wide.stripes;
    const uint32_t all = stripe->pool.free_count;
    const uint32_t limit = world_add(&world, limit_of(CAUDAL_SLIDING_LOG, 1000, HOUR));
    for (int i = 0; i < 300; i++) {
        for (uint64_t j = 0; j < 60; j++) {
            world_advance(&world, 1);
            take(&world, limit, key_of(j % 3), 1);
        }
        assert_int_equal(stripe->pool.free_count, all - 12);
        world_set(&world, limit, kinds[i % 5].limit);
        assert_int_equal(stripe->pool.free_count, all);
        world_set(&world, limit, limit_of(CAUDAL_SLIDING_LOG, 1000, HOUR));
    }
}

/* ---- adding and removing ---- */

static void a_removed_limit_takes_its_states_with_it(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint32_t gone = world_add_kind(&world, &kinds[k]), kept = world_add_kind(&world, &kinds[k]);
        take(&world, gone, "key", 10 * kinds[k].unit);
        take(&world, kept, "key", 3 * kinds[k].unit);
        assert_int_equal(caudal_remove_limit(world.store, gone), CAUDAL_OK);
        assert_int_equal(stats_of(&world).live_keys, 1);
        assert_int_equal(left(&world, kept, "key"), 7 * kinds[k].unit);
        assert_int_equal(caudal_remove_limit(world.store, kept), CAUDAL_OK);
        assert_int_equal(stats_of(&world).limits, 0);
    }
}

static void a_new_limit_of_an_old_name_starts_anew_under_an_id_of_its_own(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        uint32_t old, new;
        struct caudal_decision decision;
        assert_int_equal(caudal_add_limit(world.store, "name", &kinds[k].limit, &old, NULL), CAUDAL_OK);
        take(&world, old, "key", 10 * kinds[k].unit);
        assert_int_equal(caudal_remove_limit(world.store, old), CAUDAL_OK);
        assert_int_equal(caudal_add_limit(world.store, "name", &kinds[k].limit, &new, NULL), CAUDAL_OK);
        assert_int_not_equal(new, old);
        assert_int_equal(left(&world, new, "key"), 10 * kinds[k].unit);
        assert_int_equal(caudal_take(world.store, old, "key", 3, 1, &decision), CAUDAL_ERR_UNKNOWN);
        assert_no_verdict(decision, CAUDAL_ERR_UNKNOWN);
        assert_int_equal(caudal_remove_limit(world.store, old), CAUDAL_ERR_UNKNOWN);
        assert_int_equal(caudal_set_limit(world.store, old, &kinds[k].limit, NULL), CAUDAL_ERR_UNKNOWN);
        assert_int_equal(caudal_reset(world.store, old, "key", 3), CAUDAL_ERR_UNKNOWN);
        assert_int_equal(left(&world, new, "key"), 10 * kinds[k].unit);
        assert_int_equal(caudal_remove_limit(world.store, new), CAUDAL_OK);
    }
}

static void ids_of_removed_limits_stay_unknown(void **state)
{
    (void)state;
    enum {
        ROUNDS = 500
    };
    static uint32_t ids[ROUNDS];
    const struct caudal_limit limit = bucket_of(10, 10, HOUR);
    struct caudal_decision decision;
    for (size_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(caudal_add_limit(world.store, "name", &limit, &ids[i], NULL), CAUDAL_OK);
        assert_int_equal(drain(&world, ids[i], "key"), 10);
        assert_int_equal(caudal_remove_limit(world.store, ids[i]), CAUDAL_OK);
        for (size_t j = 0; j <= i; j++)
            assert_int_equal(caudal_take(world.store, ids[j], "key", 3, 1, &decision), CAUDAL_ERR_UNKNOWN);
    }
}

/* Longer than there are numbers: old entries never turn up under a number that is used again. */
static void numbers_are_used_again_without_old_states(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(10, 10, HOUR);
    world_close(&world);
    world_open(&world, "memory:?keys=8&wide_keys=1&log_entries=1");
    for (int i = 0; i < UINT16_MAX + 1000; i++) {
        uint32_t id;
        assert_int_equal(caudal_add_limit(world.store, "name", &limit, &id, NULL), CAUDAL_OK);
        const struct caudal_decision first = take(&world, id, "key", 10);
        assert_int_equal(first.verdict, CAUDAL_ALLOW);
        assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    }
    assert_int_equal(stats_of(&world).live_keys, 0);
}

static void changes_of_units_use_numbers_again_for_ever(void **state)
{
    (void)state;
    world_close(&world);
    world_open(&world, "memory:?keys=8&wide_keys=1&log_entries=1");
    const struct caudal_limit rates[] = {bucket_of(10, 10, HOUR), bucket_of(10, 10, SECOND)};
    const uint32_t limit = world_add(&world, rates[0]);
    take(&world, limit, "key", 4);
    for (int i = 1; i < UINT16_MAX + 1000; i++)
        world_set(&world, limit, rates[i % 2]);
    assert_int_equal(left(&world, limit, "key"), 6);
}

/* ---- as many as there can be ---- */

static void add_many(uint32_t *ids, unsigned count, struct caudal_limit limit)
{
    for (unsigned i = 0; i < count; i++)
        ids[i] = world_add(&world, limit);
}

static void there_are_65000_limits_and_no_more(void **state)
{
    (void)state;
    static uint32_t ids[CDL_LIMITS_MAX];
    const struct caudal_limit limit = bucket_of(10, 10, HOUR);
    add_many(ids, CDL_LIMITS_MAX, limit);
    uint32_t id = 4711;
    struct caudal_problem problem;
    assert_int_equal(caudal_add_limit(world.store, "one more", &limit, &id, &problem), CAUDAL_ERR_FULL);
    assert_int_equal(problem.code, CAUDAL_ERR_FULL);
    assert_int_equal(id, 4711);
    assert_int_equal(drain(&world, ids[CDL_LIMITS_MAX - 1], "key"), 10);
    assert_int_equal(caudal_remove_limit(world.store, ids[12345]), CAUDAL_OK);
    assert_int_equal(caudal_add_limit(world.store, "one more", &limit, &id, NULL), CAUDAL_OK);
    assert_int_equal(drain(&world, id, "key"), 10);
}

/* A window that became wide holds two numbers, its old one for keys that nobody has asked about since. When all numbers are
 * held, the next change is refused and changes nothing, and the next limit is refused or works. */
static void when_numbers_run_out_nothing_is_half_done(void **state)
{
    (void)state;
    static uint32_t ids[CDL_LIMITS_MAX];
    const unsigned limits = CDL_LIMITS_MAX - 100, spare = UINT16_MAX - limits;
    const struct caudal_limit narrow = limit_of(CAUDAL_FIXED_WINDOW, 10, SECOND);
    const struct caudal_limit wide = limit_of(CAUDAL_FIXED_WINDOW, 1000000000, SECOND);
    add_many(ids, limits, narrow);
    for (unsigned i = 0; i < spare; i++)
        world_set(&world, ids[i], wide);

    struct caudal_problem problem = {0};
    take(&world, ids[spare], "key", 4);
    assert_int_equal(caudal_set_limit(world.store, ids[spare], &wide, &problem), CAUDAL_ERR_FULL);
    assert_int_equal(problem.code, CAUDAL_ERR_FULL);
    assert_int_equal(left(&world, ids[spare], "key"), 6);

    uint32_t id = 4711;
    const int status = caudal_add_limit(world.store, "one more", &narrow, &id, NULL);
    if (status == CAUDAL_OK) {
        assert_int_not_equal(number_of(id), 0);
        assert_int_equal(drain(&world, id, "key"), 10);
        assert_int_equal(stats_of(&world).live_keys, 2);
    } else {
        assert_int_equal(status, CAUDAL_ERR_FULL);
        assert_int_equal(id, 4711);
        assert_int_equal(caudal_find_limit(world.store, "one more", &id), CAUDAL_ERR_UNKNOWN);
        assert_int_equal(stats_of(&world).limits, limits);
    }
    assert_int_equal(caudal_remove_limit(world.store, ids[0]), CAUDAL_OK); /* gives both of its numbers back */
    assert_int_equal(caudal_set_limit(world.store, ids[spare], &wide, NULL), CAUDAL_OK);
    assert_int_equal(left(&world, ids[spare], "key"), 1000000000 - 4);
}

#define IN_SMALL(test) cmocka_unit_test_setup_teardown(test, open_small, close_small)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SMALL(a_buckets_debt_survives_every_change_of_rate_and_burst),
        IN_SMALL(a_raised_limit_admits_the_difference_at_once),
        IN_SMALL(a_lowered_limit_refuses_until_enough_is_refilled),
        IN_SMALL(a_change_settles_what_was_refilled_at_the_old_rate),
        IN_SMALL(a_change_at_a_given_instant_settles_then),
        IN_SMALL(a_hundred_changes_of_units_on_a_standing_clock_lose_nothing),
        IN_SMALL(a_change_long_after_the_last_look_finds_full_buckets),
        IN_SMALL(a_windows_counts_survive_another_count),
        IN_SMALL(another_period_starts_windows_anew),
        IN_SMALL(another_period_keeps_a_logs_entries),
        IN_SMALL(a_window_that_becomes_wide_keeps_its_counts),
        IN_SMALL(a_window_that_has_become_wide_can_be_refunded_and_reset),
        IN_SMALL(a_window_that_has_become_wide_changes_its_period_and_its_algorithm),
        IN_SMALL(another_algorithm_starts_anew_and_leaves_nothing_behind),
        IN_SMALL(unlimited_and_back_starts_anew),
        IN_SMALL(changing_a_log_back_and_forth_loses_no_chunk),
        IN_SMALL(a_removed_limit_takes_its_states_with_it),
        IN_SMALL(a_new_limit_of_an_old_name_starts_anew_under_an_id_of_its_own),
        IN_SMALL(ids_of_removed_limits_stay_unknown),
        IN_SMALL(numbers_are_used_again_without_old_states),
        IN_SMALL(changes_of_units_use_numbers_again_for_ever),
        IN_SMALL(there_are_65000_limits_and_no_more),
        IN_SMALL(when_numbers_run_out_nothing_is_half_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
