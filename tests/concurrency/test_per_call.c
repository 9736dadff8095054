/* Limits that come with each call, from many threads: never more than the largest of them allows, however they are mixed; and keys that are
 * forgotten, reset and removed meanwhile leave a sound table. */
#include "crew.h"
#include "store/call.h"

#define ROOM 1000u

static struct world world;
static _Atomic uint32_t id;
static uint32_t named;
static _Atomic uint64_t admitted;
static _Atomic unsigned mistakes;

static void open_world(const char *url)
{
    world_open(&world, url); /* whose clock stands still */
    uint32_t added;
    assert_int_equal(cdl_add_per_call_limit(world.store, "per call", &added, NULL), CAUDAL_OK);
    atomic_store(&id, added);
    named = world_add(&world, bucket_of(ROOM - 100, 1, DAY));
}

static void forget(uint64_t round)
{
    (void)round;
    atomic_store(&admitted, 0);
    atomic_store(&mistakes, 0);
}

/* The same capacity written in ways that all fit each other: what is above a capacity is never so much that it is put down to a clock. */
static struct caudal_limit a_limit(unsigned thread, int i)
{
    static const int64_t periods[] = {SECOND, 7 * MILLISECOND, 999983, MINUTE / 1000};
    const unsigned pick = thread + (unsigned)i;
    return bucket_of(ROOM - pick % 3 * 100, 1000 + pick % 5, periods[pick % COUNT_OF(periods)]);
}

static int ask(uint64_t key, const struct caudal_limit *limit, enum cdl_operation operation, uint64_t cost,
               struct caudal_decision *decision)
{
    const struct caudal_request request = {.limit = id, .key = &key, .key_length = sizeof key};
    const struct cdl_question question = {.operation = operation, .minimum = cost, .maximum = cost, .limit = limit};
    struct cdl_call call = {.requests = &request, .questions = &question, .decisions = decision, .count = 1};
    return cdl_store_ask(world.store, NULL, &call) ? call.status : CAUDAL_ERR_STORE;
}

static uint64_t take_by(uint64_t key, struct caudal_limit limit)
{
    struct caudal_decision decision;
    if (ask(key, &limit, CDL_TAKE, 1, &decision) != CAUDAL_OK)
        atomic_fetch_add(&mistakes, 1);
    return decision.granted;
}

static uint64_t drain_by(uint64_t key, struct caudal_limit limit)
{
    uint64_t drained = 0;
    while (take_by(key, limit) > 0)
        drained++;
    return drained;
}

static void take_by_any(unsigned thread, uint64_t round)
{
    for (int i = 0; i < 250; i++)
        atomic_fetch_add(&admitted, take_by(round, a_limit(thread, i)));
}

static void assert_no_more_than_the_largest(uint64_t round)
{
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(atomic_load(&admitted) + drain_by(round, a_limit(0, 0)), ROOM);
}

static void mixed_limits_admit_what_the_largest_does(void **state)
{
    (void)state;
    open_world("memory:?keys=1000");
    const struct crew_job job = {8, scaled(400), forget, take_by_any, assert_no_more_than_the_largest};
    crew_run(&job);
    assert_store_is_sound(world.store);
    world_close(&world);
}

static void take_by_one(unsigned thread, uint64_t round)
{
    (void)thread;
    const struct caudal_limit limit = round % 2 == 0 ? bucket_of(ROOM, 0, SECOND)
                                                     : limit_of(CAUDAL_FIXED_WINDOW, ROOM, HOUR);
    for (int i = 0; i < 250; i++)
        atomic_fetch_add(&admitted, take_by(round, limit));
}

static void assert_all_and_no_more(uint64_t round)
{
    (void)round;
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(atomic_load(&admitted), ROOM);
}

static void of_a_thousand_tokens_eight_threads_get_a_thousand(void **state)
{
    (void)state;
    open_world("memory:?keys=1000");
    const struct crew_job job = {8, scaled(400), forget, take_by_one, assert_all_and_no_more};
    crew_run(&job);
    world_close(&world);
}

/* ---- together with a named limit ---- */

static bool take_of_both(uint64_t key, struct caudal_limit limit, bool swap)
{
    const struct caudal_request requests[] = {{swap ? named : id, &key, sizeof key, 0},
                                              {swap ? id : named, &key, sizeof key, 0}};
    struct cdl_question questions[] = {cdl_question_take(1), cdl_question_take(1)};
    struct caudal_decision decisions[2];
    questions[swap].limit = &limit;
    struct cdl_call call = {
        .requests = requests, .questions = questions, .decisions = decisions, .count = 2, .together = true};
    if (!cdl_store_ask(world.store, NULL, &call) || call.status != CAUDAL_OK)
        atomic_fetch_add(&mistakes, 1);
    return decisions[0].granted == 1 && decisions[1].granted == 1;
}

static void take_of_both_by_any(unsigned thread, uint64_t round)
{
    for (int i = 0; i < 250; i++)
        atomic_fetch_add(&admitted, take_of_both(round, a_limit(thread, 3 * i), thread % 2 == 0));
}

static void assert_spent_is_admitted(uint64_t round)
{
    uint64_t times = atomic_load(&admitted);
    const struct caudal_limit limit = a_limit(0, 0);
    struct caudal_decision decision;
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_int_equal(caudal_peek(world.store, named, &round, sizeof round, 0, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, ROOM - 100 - times);
    assert_int_equal(ask(round, &limit, CDL_PEEK, 0, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, ROOM - times);
    while (take_of_both(round, limit, false))
        times++;
    assert_int_equal(times, ROOM - 100);
}

static void together_with_a_named_limit_what_is_spent_is_what_was_admitted(void **state)
{
    (void)state;
    open_world("memory:?keys=1000");
    const struct crew_job job = {8, scaled(200), forget, take_of_both_by_any, assert_spent_is_admitted};
    crew_run(&job);
    assert_store_is_sound(world.store);
    world_close(&world);
}

/* ---- what becomes of keys meanwhile ---- */

static struct caudal_limit a_wild_limit(struct rng *rng)
{
    return rng_below(rng, 2) == 0 ? a_limit((unsigned)rng_below(rng, 60), 0)
                                  : limit_of(CAUDAL_FIXED_WINDOW, 5, (1 + (int64_t)rng_below(rng, 4)) * SECOND);
}

/* More keys than there is room for, reset now and then; one thread removes the limit, adds it again, and counts. */
static void storm(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    for (int i = 0; i < 2000; i++) {
        const uint64_t key = rng_below(&rng, 400);
        const struct caudal_limit limit = a_wild_limit(&rng);
        struct caudal_decision decision;
        const enum cdl_operation operation = (enum cdl_operation)rng_below(&rng, CDL_RESET + 1);
        const int status = ask(key, &limit, operation, rng_below(&rng, 3), &decision);
        if (status != CAUDAL_OK && status != CAUDAL_ERR_UNKNOWN)
            atomic_fetch_add(&mistakes, 1);
        if (thread == 0 && i % 400 == 0) {
            stats_of(&world);
            const int removed = caudal_remove_limit(world.store, id);
            uint32_t again = 0;
            const int added = cdl_add_per_call_limit(world.store, "per call", &again, NULL);
            if (removed != CAUDAL_OK || added != CAUDAL_OK)
                atomic_fetch_add(&mistakes, 1);
            atomic_store(&id, again);
        }
    }
}

static void assert_sound(uint64_t round)
{
    (void)round;
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_store_is_sound(world.store);
}

static void a_table_that_overflows_while_its_limit_comes_and_goes_stays_sound(void **state)
{
    (void)state;
    open_world("memory:?keys=64&wide_keys=100&log_entries=1");
    const struct crew_job job = {8, scaled(50), forget, storm, assert_sound};
    crew_run(&job);
    assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    assert_int_equal(states_held(world.store), 0);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_limits_admit_what_the_largest_does),
        cmocka_unit_test(of_a_thousand_tokens_eight_threads_get_a_thousand),
        cmocka_unit_test(together_with_a_named_limit_what_is_spent_is_what_was_admitted),
        cmocka_unit_test(a_table_that_overflows_while_its_limit_comes_and_goes_stays_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
