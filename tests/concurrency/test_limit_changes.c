/* Limits that are changed, added and removed while threads take: no charge is lost and none is counted twice. */
#include "crew.h"

static struct world world;
static uint32_t limit;
static _Atomic uint64_t admitted;
static _Atomic unsigned mistakes, takers_left;

static void forget(uint64_t round)
{
    (void)round;
    atomic_store(&admitted, 0);
    atomic_store(&mistakes, 0);
}

static uint64_t left_of(uint64_t round)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_peek(world.store, limit, &round, sizeof round, 0, &decision), CAUDAL_OK);
    return decision.remaining;
}

static void take_until_refused(uint64_t round)
{
    struct caudal_decision decision;
    do {
        if (caudal_take(world.store, limit, &round, sizeof round, 1, &decision) != CAUDAL_OK)
            atomic_fetch_add(&mistakes, 1);
        atomic_fetch_add(&admitted, decision.granted);
    } while (decision.verdict == CAUDAL_ALLOW);
}

/* Thread 0 changes the limit for as long as the others take. */
static void change_while_others_take(unsigned thread, uint64_t round, const struct caudal_limit *limits, size_t count)
{
    if (thread > 0) {
        take_until_refused(round);
        atomic_fetch_sub(&takers_left, 1);
        return;
    }
    for (size_t i = 0; atomic_load(&takers_left) > 0; i++)
        if (caudal_set_limit(world.store, limit, &limits[i % count], NULL) != CAUDAL_OK)
            atomic_fetch_add(&mistakes, 1);
}

/* ---- other units ---- */

#define BURST 3000u

static const struct caudal_limit rates[] = {
    {sizeof(struct caudal_limit), CAUDAL_TOKEN_BUCKET, 1, SECOND, BURST},
    {sizeof(struct caudal_limit), CAUDAL_TOKEN_BUCKET, 1, DAY, BURST},
    {sizeof(struct caudal_limit), CAUDAL_TOKEN_BUCKET, 5003, HOUR, BURST},
    {sizeof(struct caudal_limit), CAUDAL_TOKEN_BUCKET, 0, SECOND, BURST},
};

static void take_while_rates_flip(unsigned thread, uint64_t round)
{
    change_while_others_take(thread, round, rates, COUNT_OF(rates));
}

static unsigned crew_size;

static void prepare_takers(uint64_t round)
{
    forget(round);
    atomic_store(&takers_left, crew_size - 1);
}

static void assert_exactly_the_burst(uint64_t round)
{
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(atomic_load(&admitted), BURST);
    assert_int_equal(left_of(round), 0);
    if (round % 16 == 0)
        assert_store_is_sound(world.store);
}

/* The clock stands still, so nothing is refilled at any of the rates. */
static void rates_that_flip_between_units_admit_exactly_what_there_is(void **state)
{
    (void)state;
    for (crew_size = 3; crew_size <= CREW_MAX; crew_size = 2 * crew_size - 1) {
        world_open(&world, "memory:?keys=1000");
        limit = world_add(&world, rates[0]);
        const struct crew_job job = {crew_size, scaled(200), prepare_takers, take_while_rates_flip,
                                     assert_exactly_the_burst};
        crew_run(&job);
        world_close(&world);
    }
}

/* Takes and refunds that balance leave only what was spent before, whatever the units were at each of them; and nobody who looks
 * meanwhile sees more than that. */
#define BEFORE 1000u

static void take_and_refund_while_rates_flip(unsigned thread, uint64_t round)
{
    if (thread == 0) {
        change_while_others_take(thread, round, rates, COUNT_OF(rates));
        return;
    }
    struct caudal_decision decision;
    for (int i = 0; i < 500; i++) {
        const uint64_t cost = 1 + (uint64_t)i % 7;
        caudal_take(world.store, limit, &round, sizeof round, cost, &decision);
        caudal_refund(world.store, limit, &round, sizeof round, decision.granted, NULL);
        for (int j = 0; j < 3; j++) {
            caudal_peek(world.store, limit, &round, sizeof round, 0, &decision);
            if (decision.remaining < BURST - BEFORE - 7 * CREW_MAX || decision.remaining > BURST - BEFORE)
                atomic_fetch_add(&mistakes, 1);
        }
    }
    atomic_fetch_sub(&takers_left, 1);
}

static void spend_some_before(uint64_t round)
{
    struct caudal_decision decision;
    prepare_takers(round);
    assert_int_equal(caudal_take(world.store, limit, &round, sizeof round, BEFORE, &decision), CAUDAL_OK);
}

static void assert_nothing_else_is_spent(uint64_t round)
{
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(left_of(round), BURST - BEFORE);
}

static void refunds_are_not_lost_while_rates_flip(void **state)
{
    (void)state;
    crew_size = 4;
    world_open(&world, "memory:?keys=1000");
    limit = world_add(&world, rates[0]);
    const struct crew_job job = {crew_size, scaled(300), spend_some_before, take_and_refund_while_rates_flip,
                                 assert_nothing_else_is_spent};
    crew_run(&job);
    world_close(&world);
}

/* Keys that come in while the limit's number changes: each comes in under the new one, or early enough to be converted. */
static void come_in_while_rates_flip(unsigned thread, uint64_t round)
{
    if (thread == 0) {
        change_while_others_take(thread, round, rates, COUNT_OF(rates));
        return;
    }
    for (uint64_t i = 0; i < 2000; i++) {
        struct caudal_decision decision;
        const uint64_t key = i % 4;
        caudal_take(world.store, limit, &key, sizeof key, 1, &decision);
        caudal_reset(world.store, limit, &key, sizeof key);
    }
    atomic_fetch_sub(&takers_left, 1);
}

static void assert_no_entry_has_an_old_number(uint64_t round)
{
    (void)round;
    const struct cdl_memory_store *store = cdl_memory_store(world.store);
    struct cdl_limit_view view;
    cdl_limit_read(cdl_limits_find(store->limits, limit), &view, NULL);
    uint64_t old = 0;
    for (uint64_t i = 0; i < store->table.line_count * CDL_LINE_ENTRIES; i++) {
        const uint64_t tag = store->table.lines[i / CDL_LINE_ENTRIES].entries[i % CDL_LINE_ENTRIES].first;
        old += tag != 0 && (uint16_t)tag != view.number;
    }
    assert_int_equal(old, 0);
}

static void keys_that_come_in_while_rates_flip_have_the_limits_number(void **state)
{
    (void)state;
    crew_size = 4;
    world_open(&world, "memory:?keys=1"); /* the sooner a sweep is over, the more likely is it to be too soon */
    limit = world_add(&world, rates[0]);
    const struct crew_job job = {crew_size, scaled(100), prepare_takers, come_in_while_rates_flip,
                                 assert_no_entry_has_an_old_number};
    crew_run(&job);
    world_close(&world);
}

/* ---- other counts ---- */

/* Counts that rise while threads take: in the end exactly the highest has been admitted. */
static void take_while_the_count_rises(unsigned thread, uint64_t round)
{
    struct caudal_limit now = CAUDAL_LIMIT_INIT;
    caudal_get_limit(world.store, limit, &now);
    if (thread == 0)
        for (now.count = 1000; now.count <= 2000; now.count += 10)
            if (caudal_set_limit(world.store, limit, &now, NULL) != CAUDAL_OK)
                atomic_fetch_add(&mistakes, 1);
    struct caudal_decision decision;
    do {
        caudal_take(world.store, limit, &round, sizeof round, 1, &decision);
        atomic_fetch_add(&admitted, decision.granted);
    } while (decision.verdict == CAUDAL_ALLOW || (thread > 0 && decision.capacity < 2000));
}

static void start_at_a_thousand(uint64_t round)
{
    forget(round);
    struct caudal_limit now = CAUDAL_LIMIT_INIT;
    assert_int_equal(caudal_get_limit(world.store, limit, &now), CAUDAL_OK);
    now.count = 1000;
    world_set(&world, limit, now);
}

static void assert_two_thousand(uint64_t round)
{
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(atomic_load(&admitted), 2000);
    assert_int_equal(left_of(round), 0);
}

static void a_count_that_rises_is_admitted_to_its_end(void **state)
{
    (void)state;
    static const enum caudal_algorithm algorithms[] = {CAUDAL_TOKEN_BUCKET, CAUDAL_FIXED_WINDOW, CAUDAL_SLIDING_WINDOW,
                                                       CAUDAL_SLIDING_LOG};
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        world_open(&world, "memory:?keys=1000&wide_keys=1000");
        limit = world_add(&world, limit_of(algorithms[i], 1000, 30 * DAY));
        const struct crew_job job = {4, scaled(100), start_at_a_thousand, take_while_the_count_rises,
                                     assert_two_thousand};
        crew_run(&job);
        world_close(&world);
    }
}

/* ---- a window that becomes wide ---- */

#define WIDE_COUNT 1000000000u

/* Each round is about a limit of its own: it becomes wide, which it never ceases to be, when its 1,000 are half spent. */
static void take_while_the_window_becomes_wide(unsigned thread, uint64_t round)
{
    struct caudal_limit wide = CAUDAL_LIMIT_INIT;
    caudal_get_limit(world.store, limit, &wide);
    wide.count = WIDE_COUNT;
    for (int i = 0; i < 400; i++) {
        const uint64_t key = round * 4 + (uint64_t)i % 4;
        struct caudal_decision decision;
        if (thread == 0 && i == 100 && caudal_set_limit(world.store, limit, &wide, NULL) != CAUDAL_OK)
            atomic_fetch_add(&mistakes, 1);
        caudal_take(world.store, limit, &key, sizeof key, 1, &decision);
        atomic_fetch_add(&admitted, decision.granted);
        if (i % 16 == 0) {
            caudal_take(world.store, limit, &key, sizeof key, 2, &decision);
            caudal_refund(world.store, limit, &key, sizeof key, decision.granted, NULL);
        }
    }
}

static enum caudal_algorithm algorithm;

static void add_a_narrow_window(uint64_t round)
{
    forget(round);
    if (round > 0)
        assert_int_equal(caudal_remove_limit(world.store, limit), CAUDAL_OK);
    limit = world_add(&world, limit_of(algorithm, 1000, SECOND));
    assert_int_equal(layout_of(&world, limit), CDL_LAYOUT_WINDOW);
}

static void assert_four_keys_have_spent_what_was_admitted(uint64_t round)
{
    uint64_t spent = 0;
    for (uint64_t key = round * 4; key < round * 4 + 4; key++)
        spent += WIDE_COUNT - left_of(key);
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(layout_of(&world, limit), CDL_LAYOUT_WIDE_WINDOW);
    assert_int_equal(spent, atomic_load(&admitted));
    assert_int_equal(states_held(world.store), 4);
    assert_store_is_sound(world.store);
}

static void a_window_becomes_wide_under_takers_without_losing_a_charge(void **state)
{
    (void)state;
    for (int sliding = 0; sliding < 2; sliding++) {
        algorithm = sliding == 1 ? CAUDAL_SLIDING_WINDOW : CAUDAL_FIXED_WINDOW;
        world_open(&world, "memory:?keys=1000&wide_keys=1000");
        const struct crew_job job = {4, scaled(300), add_a_narrow_window, take_while_the_window_becomes_wide,
                                     assert_four_keys_have_spent_what_was_admitted};
        crew_run(&job);
        world_close(&world);
    }
}

/* ---- another algorithm ---- */

static uint32_t other;

/* Thread 0 turns a limit into every kind in turn while others take of it, and of another whose keys need its room. */
static void take_while_the_algorithm_changes(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    for (uint64_t i = 0; i < 400; i++) {
        struct caudal_decision decision = {0};
        int status;
        const uint64_t key = rng_below(&rng, 40);
        if (thread == 0 && i % 4 == 0)
            status = caudal_set_limit(world.store, limit, &kinds[rng_below(&rng, KINDS)].limit, NULL);
        else
            status = caudal_take(world.store, i % 2 == 0 ? limit : other, &key, sizeof key, 1, &decision);
        if (status != CAUDAL_OK || decision.remaining > decision.capacity)
            atomic_fetch_add(&mistakes, 1);
    }
}

static void assert_sound(uint64_t round)
{
    (void)round;
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_store_is_sound(world.store);
}

static void an_algorithm_changes_under_takers_and_leaves_no_trace(void **state)
{
    (void)state;
    world_open(&world, "memory:?keys=64&wide_keys=20&log_entries=1");
    limit = world_add_kind(&world, &kinds[0]);
    other = world_add_kind(&world, &kinds[5]);
    const struct crew_job job = {4, scaled(300), forget, take_while_the_algorithm_changes, assert_sound};
    crew_run(&job);
    assert_int_equal(caudal_remove_limit(world.store, limit), CAUDAL_OK);
    assert_int_equal(caudal_remove_limit(world.store, other), CAUDAL_OK);
    assert_int_equal(states_held(world.store), 0);
    assert_sound(0);
    world_close(&world);
}

/* ---- adding and removing ---- */

#define NAMES 8u

static _Atomic uint32_t ids[NAMES];

/* Two threads add and remove limits; the others take of whichever ids they have seen. */
static void take_while_limits_come_and_go(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    for (int i = 0; i < 300; i++) {
        const size_t n = rng_below(&rng, NAMES);
        const uint32_t id = atomic_load(&ids[n]);
        const uint64_t key = rng_below(&rng, 100);
        struct caudal_decision decision;
        if (thread > 1) {
            const int status = caudal_take(world.store, id, &key, sizeof key, 1, &decision);
            const bool unknown = status == CAUDAL_ERR_UNKNOWN && decision.verdict == CAUDAL_NO_VERDICT;
            if (!unknown && (status != CAUDAL_OK || decision.remaining >= 10 * UINT64_C(1000000000)))
                atomic_fetch_add(&mistakes, 1);
            continue;
        }
        char name[16];
        snprintf(name, sizeof name, "%zu", n);
        uint32_t new = 0;
        const int removed = caudal_remove_limit(world.store, id);
        const int added = caudal_add_limit(world.store, name, &kinds[rng_below(&rng, KINDS)].limit, &new, NULL);
        if (added == CAUDAL_OK)
            atomic_store(&ids[n], new);
        if ((removed != CAUDAL_OK && removed != CAUDAL_ERR_UNKNOWN) ||
            (added != CAUDAL_OK && added != CAUDAL_ERR_EXISTS))
            atomic_fetch_add(&mistakes, 1);
    }
}

static void remove_all_limits(uint64_t round)
{
    for (size_t n = 0; n < NAMES; n++) {
        char name[16];
        uint32_t id;
        snprintf(name, sizeof name, "%zu", n);
        if (caudal_find_limit(world.store, name, &id) == CAUDAL_OK)
            assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    }
    assert_sound(round);
    assert_int_equal(states_held(world.store), 0);
    const struct cdl_limits *limits = cdl_memory_store(world.store)->limits;
    assert_int_equal(limits->count, 0);
    assert_int_equal(limits->free_tail - limits->free_head, UINT16_MAX); /* every number is back */
}

static void limits_come_and_go_under_takers_and_leave_no_trace(void **state)
{
    (void)state;
    for (unsigned threads = 4; threads <= CREW_MAX; threads *= 2) {
        world_open(&world, "memory:?keys=500&wide_keys=100&log_entries=1");
        const struct crew_job job = {threads, scaled(100), forget, take_while_limits_come_and_go, remove_all_limits};
        crew_run(&job);
        world_close(&world);
    }
}

/* ---- the clock's window ---- */

/* Leaps of years move the window of the bucket's clock under takers. Each gives at most one full bucket. */
static _Atomic unsigned leaps;

static void take_while_years_pass(unsigned thread, uint64_t round)
{
    if (thread == 0)
        for (int i = 0; i < 10; i++) {
            world_advance(&world, 5 * YEAR);
            atomic_fetch_add(&leaps, 1);
        }
    struct caudal_decision decision;
    for (int i = 0; i < 300; i++) {
        caudal_take(world.store, limit, &round, sizeof round, 1, &decision);
        atomic_fetch_add(&admitted, decision.granted);
    }
}

static void go_back_in_time(uint64_t round)
{
    forget(round);
    atomic_store(&leaps, 0);
    world_set_time(&world, EPOCH);
}

static void assert_a_bucket_for_each_leap(uint64_t round)
{
    (void)round;
    assert_in_range(atomic_load(&admitted), 10, 10 * (1 + atomic_load(&leaps)));
}

static void years_that_pass_under_takers_give_a_bucket_each(void **state)
{
    (void)state;
    world_open(&world, "memory:?keys=1000");
    limit = world_add(&world, bucket_of(10, 10, SECOND));
    const struct crew_job job = {4, scaled(100), go_back_in_time, take_while_years_pass, assert_a_bucket_for_each_leap};
    crew_run(&job);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_that_flip_between_units_admit_exactly_what_there_is),
        cmocka_unit_test(refunds_are_not_lost_while_rates_flip),
        cmocka_unit_test(keys_that_come_in_while_rates_flip_have_the_limits_number),
        cmocka_unit_test(a_count_that_rises_is_admitted_to_its_end),
        cmocka_unit_test(a_window_becomes_wide_under_takers_without_losing_a_charge),
        cmocka_unit_test(an_algorithm_changes_under_takers_and_leaves_no_trace),
        cmocka_unit_test(limits_come_and_go_under_takers_and_leave_no_trace),
        cmocka_unit_test(years_that_pass_under_takers_give_a_bucket_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
