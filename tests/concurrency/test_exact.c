/* k tokens and no refill: any number of threads are given exactly k, by every way of asking and of keeping a state. */
#include "crew.h"

static struct world world;
static struct kind kind;
static uint32_t limit;
static _Atomic uint64_t admitted, answered;

/* Every round is about a key that nobody has seen, so that coming in is contended for, too. */
static void forget(uint64_t round)
{
    (void)round;
    atomic_store(&admitted, 0);
    atomic_store(&answered, 0);
}

static void assert_all_were_admitted(uint64_t round)
{
    struct caudal_decision decision;
    assert_int_equal(atomic_load(&admitted), caudal_limit_capacity(&kind.limit));
    assert_int_equal(caudal_peek(world.store, limit, &round, sizeof round, 0, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 0);
}

/* Runs `work` for each kind of limit, each of which holds `units` times what is asked for at once, and for 2 to 16 threads. */
static void for_every_kind(uint64_t units, uint64_t rounds, void (*work)(unsigned thread, uint64_t round))
{
    for (size_t k = 0; k < KINDS; k++) {
        kind = kinds[k];
        kind.unit = kind.limit.count >= units ? kind.limit.count / units : 1;
        kind.limit.count = kind.unit * units;
        if (kind.limit.algorithm == CAUDAL_TOKEN_BUCKET)
            kind.limit.period_ns = CAUDAL_REFILL_MAX_NS; /* a refill of a hundred years is none */
        for (unsigned threads = 2; threads <= CREW_MAX; threads *= 2) {
            world_open(&world, "memory:?keys=1000&wide_keys=1000");
            limit = world_add_kind(&world, &kind);
            const struct crew_job job = {threads, rounds, forget, work, assert_all_were_admitted};
            crew_run(&job);
            assert_store_is_sound(world.store);
            world_close(&world);
        }
    }
}

static void take_until_refused(unsigned thread, uint64_t round)
{
    (void)thread;
    struct caudal_decision decision;
    do {
        caudal_take(world.store, limit, &round, sizeof round, kind.unit, &decision);
        atomic_fetch_add(&admitted, decision.granted);
    } while (decision.verdict == CAUDAL_ALLOW);
}

static void threads_that_take_are_given_exactly_what_there_is(void **state)
{
    (void)state;
    for_every_kind(2000, scaled(250), take_until_refused);
}

/* C33: a thousand calls at once for ten that there are. */
static void call_125_times(unsigned thread, uint64_t round)
{
    (void)thread;
    for (int i = 0; i < 125; i++) {
        struct caudal_decision decision;
        caudal_take(world.store, limit, &round, sizeof round, kind.unit, &decision);
        atomic_fetch_add(&admitted, decision.granted);
        atomic_fetch_add(&answered, decision.verdict == CAUDAL_ALLOW || decision.verdict == CAUDAL_DENY);
    }
}

static void assert_ten_of_a_thousand(uint64_t round)
{
    assert_int_equal(atomic_load(&answered), 1000);
    assert_all_were_admitted(round);
}

static void C33_parallel_take_admits_exactly_n(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        kind = kinds[k];
        world_open(&world, "memory:?keys=1000");
        limit = world_add_kind(&world, &kind);
        const struct crew_job job = {8, 100, forget, call_125_times, assert_ten_of_a_thousand};
        crew_run(&job);
        world_close(&world);
    }
}

static void take_what_there_is(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    struct caudal_decision decision;
    do {
        const uint64_t most = kind.unit * (1 + rng_below(&rng, 5));
        caudal_take_up_to(world.store, limit, &round, sizeof round, 1, most, &decision);
        atomic_fetch_add(&admitted, decision.granted);
    } while (decision.verdict == CAUDAL_ALLOW);
}

static void threads_that_take_up_to_share_exactly_what_there_is(void **state)
{
    (void)state;
    for_every_kind(2000, scaled(100), take_what_there_is);
}

static void take_in_batches(unsigned thread, uint64_t round)
{
    (void)thread;
    struct caudal_request requests[20];
    struct caudal_decision decisions[20];
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        requests[i] = (struct caudal_request){limit, &round, sizeof round, kind.unit};
    do {
        caudal_take_batch(world.store, requests, COUNT_OF(requests), decisions);
        for (size_t i = 0; i < COUNT_OF(requests); i++)
            atomic_fetch_add(&admitted, decisions[i].granted);
    } while (decisions[COUNT_OF(requests) - 1].verdict == CAUDAL_ALLOW);
}

static void threads_that_take_in_batches_are_given_exactly_what_there_is(void **state)
{
    (void)state;
    for_every_kind(2000, scaled(100), take_in_batches);
}

/* Costs of all sizes, some of which fit when others do not: what was spent and what is left make up the whole. */
static void take_odd_costs(unsigned thread, uint64_t round)
{
    struct rng rng = {round * CREW_MAX + thread};
    for (int i = 0; i < 300; i++) {
        struct caudal_decision decision;
        caudal_take(world.store, limit, &round, sizeof round, kind.unit * rng_below(&rng, 20), &decision);
        atomic_fetch_add(&admitted, decision.granted);
    }
    struct caudal_decision decision; /* in the end single units, until none is left */
    do {
        caudal_take(world.store, limit, &round, sizeof round, kind.unit, &decision);
        atomic_fetch_add(&admitted, decision.granted);
    } while (decision.verdict == CAUDAL_ALLOW);
}

static void odd_costs_use_up_exactly_what_there_is(void **state)
{
    (void)state;
    for_every_kind(2000, scaled(50), take_odd_costs);
}

/* A log whose entries are all of different instants, so that chunks come and go while threads write. */
static _Atomic int64_t instant;

static void take_at_instants_of_ones_own(unsigned thread, uint64_t round)
{
    (void)thread;
    struct caudal_decision decision;
    do {
        const int64_t now = EPOCH + atomic_fetch_add(&instant, 1);
        caudal_take_at(world.store, limit, &round, sizeof round, 1, now, &decision);
        atomic_fetch_add(&admitted, decision.granted);
    } while (decision.verdict == CAUDAL_ALLOW);
}

static void assert_all_were_admitted_and_logged(uint64_t round)
{
    struct caudal_decision decision;
    assert_int_equal(atomic_load(&admitted), kind.limit.count);
    assert_int_equal(caudal_peek_at(world.store, limit, &round, sizeof round, 0, EPOCH, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 0);
    assert_store_is_sound(world.store);
}

static void logs_of_many_instants_admit_exactly_their_count(void **state)
{
    (void)state;
    kind = (struct kind){.limit = limit_of(CAUDAL_SLIDING_LOG, 1000, HOUR), .unit = 1, .layout = CDL_LAYOUT_LOG};
    for (unsigned threads = 2; threads <= CREW_MAX; threads *= 2) {
        world_open(&world,
                   "memory:?keys=1000&wide_keys=8&log_entries=1"); /* logs are forgotten for their records, too */
        limit = world_add_kind(&world, &kind);
        const struct crew_job job = {threads, scaled(100), forget, take_at_instants_of_ones_own,
                                     assert_all_were_admitted_and_logged};
        crew_run(&job);
        world_close(&world);
    }
}

/* Whoever looks while others take sees states that there can be: never more than the capacity, and never less spent than
 * before. */
static _Atomic unsigned mistakes;

static void take_or_watch(unsigned thread, uint64_t round)
{
    struct caudal_decision decision;
    uint64_t last = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        if (thread % 2 == 0) {
            caudal_take(world.store, limit, &round, sizeof round, kind.unit, &decision);
            atomic_fetch_add(&admitted, decision.granted);
            continue;
        }
        caudal_peek(world.store, limit, &round, sizeof round, 0, &decision);
        if (decision.remaining > decision.capacity || decision.remaining > last || decision.remaining % kind.unit != 0)
            atomic_fetch_add(&mistakes, 1);
        last = decision.remaining;
    }
}

static void assert_no_mistakes(uint64_t round)
{
    (void)round;
    assert_int_equal(atomic_load(&mistakes), 0);
}

static void a_peek_never_sees_a_state_that_there_was_not(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        kind = kinds[k];
        world_open(&world, "memory:?keys=1000&wide_keys=1000");
        limit = world_add_kind(&world, &kind);
        const struct crew_job job = {4, scaled(200), forget, take_or_watch, assert_no_mistakes};
        crew_run(&job);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_take_are_given_exactly_what_there_is),
        cmocka_unit_test(C33_parallel_take_admits_exactly_n),
        cmocka_unit_test(threads_that_take_up_to_share_exactly_what_there_is),
        cmocka_unit_test(threads_that_take_in_batches_are_given_exactly_what_there_is),
        cmocka_unit_test(odd_costs_use_up_exactly_what_there_is),
        cmocka_unit_test(logs_of_many_instants_admit_exactly_their_count),
        cmocka_unit_test(a_peek_never_sees_a_state_that_there_was_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
