/* Clients that send whatever keys they like: memory stays what it was, and who has used up a limit gains little by it.
 *
 * The sizes are those of a busy day; CAUDAL_TEST_SCALE (see meson.build) makes them smaller where memory is watched. */
#include "store/memory_store.h"

#include <unistd.h>

#include "../support.h"

#define BATCH 64u

static struct world world;
static uint32_t limit;

/* A sanitizer keeps books about memory in memory of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED true
#elif defined(__has_feature)
#define WATCHED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define WATCHED false
#endif

static void open_for(uint64_t keys, struct caudal_limit of)
{
    char url[64];
    snprintf(url, sizeof url, "memory:?keys=%llu&wide_keys=%llu&log_entries=%llu", (unsigned long long)keys,
             (unsigned long long)(keys / 16 + 1), (unsigned long long)keys);
    world_open(&world, url);
    limit = world_add(&world, of);
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %llu", &pages), 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* `count` keys that nobody has seen yet take `cost` each; the clock moves by `step_ns` from one batch to the next. How many
 * were admitted. */
static uint64_t flood(uint64_t *next_key, uint64_t count, uint64_t cost, int64_t step_ns)
{
    uint64_t admitted = 0;
    for (uint64_t done = 0; done < count; done += BATCH) {
        uint64_t keys[BATCH];
        struct caudal_request requests[BATCH];
        struct caudal_decision decisions[BATCH];
        for (size_t i = 0; i < BATCH; i++) {
            keys[i] = (*next_key)++;
            requests[i] = (struct caudal_request){limit, &keys[i], sizeof keys[i], cost};
        }
        assert_int_equal(caudal_take_batch(world.store, requests, BATCH, decisions), CAUDAL_OK);
        for (size_t i = 0; i < BATCH; i++)
            admitted += decisions[i].verdict == CAUDAL_ALLOW;
        world_advance(&world, step_ns);
    }
    return admitted;
}

/* ---- memory ---- */

/* Twenty million keys into a table for one million, none of which expires. */
static void a_flood_of_keys_takes_no_more_memory_than_was_reserved(void **state)
{
    (void)state;
    const uint64_t keys = scaled(1000000), margin = UINT64_C(4) << 20;
    const uint64_t before = resident_bytes();
    open_for(keys, bucket_of(10, 10, HOUR));
    uint64_t next_key = 0, admitted = flood(&next_key, 2 * keys, 1, 0); /* every line has been touched by now */
    const uint64_t touched = resident_bytes();
    admitted += flood(&next_key, 18 * keys, 1, 0);
    const uint64_t after = resident_bytes();
    assert_true(after <= touched + margin);
    if (!WATCHED)
        assert_true(after <= before + stats_of(&world).bytes + margin);

    const struct caudal_store_stats stats = stats_of(&world);
    assert_int_equal(admitted, next_key); /* each was new */
    assert_int_equal(stats.inserted, next_key);
    assert_int_equal(stats.inserted - stats.live_evictions, stats.live_keys); /* every one that is gone was counted */
    assert_true(stats.live_keys <= stats.slots);
    world_close(&world);
}

/* C96: keys that have expired are room, and nothing has to sweep for it. */
static void C96_keys_that_expire_are_replaced_without_forgetting_any(void **state)
{
    (void)state;
    const uint64_t keys = scaled(200000);
    open_for(keys, bucket_of(10, 10, HOUR)); /* what a key of the flood spends is back in six minutes */
    uint64_t next_key = 0;
    flood(&next_key, 10 * keys, 1, 6 * MINUTE * BATCH / (int64_t)(keys / 4)); /* a quarter is alive at a time */
    assert_int_equal(stats_of(&world).live_evictions, 0);
    world_advance(&world, 6 * MINUTE);
    assert_int_equal(stats_of(&world).live_keys, 0);
    world_close(&world);
}

static void wide_states_take_no_more_memory_than_was_reserved(void **state)
{
    (void)state;
    static const enum caudal_algorithm algorithms[] = {CAUDAL_FIXED_WINDOW, CAUDAL_SLIDING_LOG};
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        const uint64_t keys = scaled(200000), margin = UINT64_C(4) << 20;
        open_for(keys, limit_of(algorithms[i], algorithms[i] == CAUDAL_SLIDING_LOG ? 10 : 1000000000, SECOND));
        uint64_t next_key = 0;
        flood(&next_key, 2 * keys, 1, 1);
        const uint64_t touched = resident_bytes();
        flood(&next_key, 8 * keys, 1, 1);
        assert_true(resident_bytes() <= touched + margin);
        const struct caudal_store_stats stats = stats_of(&world);
        assert_int_equal(stats.inserted, next_key);
        assert_int_equal(stats.inserted - stats.live_evictions, stats.live_keys);
        world_close(&world);
    }
}

/* ---- quota ---- */

/* C98: a blocked key stays blocked and an honest one keeps its count, while many times more keys than there is room for go by;
 * all of them are alive, but nearer to full than those two. */
static void C98_a_flood_of_living_keys_gives_a_blocked_key_no_new_quota(void **state)
{
    (void)state;
    const uint64_t keys = scaled(100000);
    open_for(keys, bucket_of(10, 10, HOUR));
    assert_int_equal(drain(&world, limit, "blocked"), 10);
    take(&world, limit, "honest", 4);
    uint64_t next_key = 0;
    for (int round = 0; round < 20; round++) {
        flood(&next_key, keys, 1, 0);
        assert_int_equal(take(&world, limit, "blocked", 1).verdict, CAUDAL_DENY);
        assert_int_equal(left(&world, limit, "honest"), 6);
    }
    assert_true(stats_of(&world).live_evictions > 15 * keys);
    world_close(&world);
}

/* As long as anything in its two lines has expired, nothing that lives is forgotten: not even what is nearest to full, as the
 * honest key is: it takes a token a minute and is full again when it comes back. */
static void a_flood_of_keys_that_expire_touches_no_living_key(void **state)
{
    (void)state;
    const uint64_t keys = scaled(100000);
    open_for(keys, bucket_of(10, 10, HOUR));
    const uint32_t slow = world_add(&world, bucket_of(10, 10, DAY)), fast = world_add(&world, bucket_of(2, 1, MINUTE));
    const int64_t step_ns = 6 * MINUTE * BATCH / (int64_t)(keys / 4);
    uint64_t next_key = 0;
    flood(&next_key, 4 * keys, 1, step_ns); /* no entry is empty any more */
    assert_int_equal(drain(&world, slow, "blocked"), 10);
    for (int minutes = 0; minutes < 60; minutes++) {
        assert_int_equal(take(&world, fast, "honest", 1).remaining, 1);
        flood(&next_key, keys / 24 / 2, 1, step_ns); /* half a minute's */
        assert_int_equal(left(&world, fast, "honest"), 1);
        flood(&next_key, keys / 24 / 2, 1, step_ns);
        assert_int_equal(take(&world, slow, "blocked", 1).verdict, CAUDAL_DENY);
    }
    world_close(&world);
}

/* Windows and logs are forgotten by the time they have left and not by what was spent, so that a flood of keys as young can
 * push a blocked one out. What it gains is its count, once for each time that a forgotten key is counted. */
static void quota_that_a_flood_gives_back_is_counted(void **state)
{
    (void)state;
    const struct caudal_limit limits[] = {
        limit_of(CAUDAL_FIXED_WINDOW, 10, HOUR), limit_of(CAUDAL_SLIDING_WINDOW, 10, HOUR),
        limit_of(CAUDAL_SLIDING_LOG, 10, HOUR), limit_of(CAUDAL_FIXED_WINDOW, 1000000000, SECOND)};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        const uint64_t keys = scaled(20000), unit = limits[i].count / 10;
        open_for(keys, limits[i]);
        uint64_t next_key = 0, admitted = 0;
        for (int round = 0; round < 10; round++) {
            admitted += take_up_to(&world, limit, "blocked", 0, 10 * unit).granted;
            flood(&next_key, keys, unit, 0);
        }
        assert_true(admitted >= 10 * unit);
        assert_true(admitted <= 10 * unit * (1 + stats_of(&world).live_evictions));
        world_close(&world);
    }
}

/* Keys that spend more than others are kept before them: what a flood can win back is the least that anybody has spent. */
static void the_least_spent_is_forgotten_first(void **state)
{
    (void)state;
    const uint64_t keys = scaled(100000);
    open_for(keys, bucket_of(10, 10, HOUR));
    for (uint64_t i = 0; i < keys / 10; i++) {
        const uint64_t key = UINT64_MAX - i;
        struct caudal_decision decision;
        assert_int_equal(caudal_take(world.store, limit, &key, sizeof key, 5, &decision), CAUDAL_OK);
    }
    uint64_t next_key = 0, kept = 0;
    flood(&next_key, 10 * keys, 1, 0);
    for (uint64_t i = 0; i < keys / 10; i++) {
        const uint64_t key = UINT64_MAX - i;
        struct caudal_decision decision;
        assert_int_equal(caudal_peek(world.store, limit, &key, sizeof key, 0, &decision), CAUDAL_OK);
        kept += decision.remaining == 5;
    }
    assert_int_equal(kept, keys / 10);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_of_keys_takes_no_more_memory_than_was_reserved),
        cmocka_unit_test(C96_keys_that_expire_are_replaced_without_forgetting_any),
        cmocka_unit_test(wide_states_take_no_more_memory_than_was_reserved),
        cmocka_unit_test(C98_a_flood_of_living_keys_gives_a_blocked_key_no_new_quota),
        cmocka_unit_test(a_flood_of_keys_that_expire_touches_no_living_key),
        cmocka_unit_test(quota_that_a_flood_gives_back_is_counted),
        cmocka_unit_test(the_least_spent_is_forgotten_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
