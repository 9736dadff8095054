/* Several limits on one request: all or nothing, and who binds. */
#include "store/memory_store.h"

#include "../support.h"

static struct world world;
static uint32_t limits[KINDS];

static int open_kinds(void **state)
{
    (void)state;
    world_open(&world, "memory:?keys=64&wide_keys=16&log_entries=1");
    for (size_t k = 0; k < KINDS; k++)
        limits[k] = world_add_kind(&world, &kinds[k]);
    return 0;
}

static int close_kinds(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

struct answer {
    struct caudal_decision each[CAUDAL_TAKE_ALL_MAX], overall;
};

static struct answer take_all(const struct caudal_request *requests, size_t count)
{
    struct answer answer;
    memset(&answer, 0x5a, sizeof answer);
    assert_int_equal(caudal_take_all(world.store, requests, count, answer.each, &answer.overall), CAUDAL_OK);
    return answer;
}

static struct answer peek_all(const struct caudal_request *requests, size_t count)
{
    struct answer answer;
    memset(&answer, 0x5a, sizeof answer);
    assert_int_equal(caudal_peek_all(world.store, requests, count, answer.each, &answer.overall), CAUDAL_OK);
    return answer;
}

static struct caudal_request ask(uint32_t limit, const char *key, uint64_t cost)
{
    return (struct caudal_request){limit, key, strlen(key), cost};
}

/* The answer to the whole is the binding one's, with its index. */
static void assert_binds(const struct answer *answer, size_t index)
{
    struct caudal_decision want = answer->each[index];
    want.binding = (uint32_t)index;
    assert_same_decision(answer->overall, want);
}

static void when_all_pass_each_is_charged_as_by_itself(void **state)
{
    (void)state;
    struct caudal_request requests[KINDS];
    for (size_t k = 0; k < KINDS; k++)
        requests[k] = ask(limits[k], "a", (k + 1) * kinds[k].unit);
    const struct answer answer = take_all(requests, KINDS);
    for (size_t k = 0; k < KINDS; k++) {
        assert_same_decision(answer.each[k], take(&world, limits[k], "b", (k + 1) * kinds[k].unit));
        assert_int_equal(left(&world, limits[k], "a"), (9 - k) * kinds[k].unit);
    }
    assert_binds(&answer, KINDS - 1); /* a log with 4 left; the wide windows have millions */
}

/* Whichever refuses, and wherever it stands: no byte of any limit's state is changed. */
static void when_one_refuses_nothing_is_spent_anywhere(void **state)
{
    (void)state;
    for (size_t exhausted = 0; exhausted < KINDS; exhausted++) {
        const char key[] = {(char)('a' + exhausted), '\0'};
        for (size_t k = 0; k < KINDS; k++)
            take(&world, limits[k], key, (k == exhausted ? 10 : 4) * kinds[k].unit);
        for (size_t first = 0; first < KINDS; first++) {
            struct caudal_request requests[KINDS];
            for (size_t i = 0; i < KINDS; i++)
                requests[i] = ask(limits[(first + i) % KINDS], key, kinds[(first + i) % KINDS].unit);
            struct snapshot before = snapshot_take(world.store);
            const struct answer answer = take_all(requests, KINDS);
            snapshot_compare(&before, world.store);
            const size_t refusing = (exhausted + KINDS - first) % KINDS;
            assert_binds(&answer, refusing);
            for (size_t i = 0; i < KINDS; i++) {
                const size_t k = (first + i) % KINDS;
                const struct caudal_decision alone = peek(&world, limits[k], key, i == refusing ? kinds[k].unit : 0);
                assert_same_decision(answer.each[i], alone);
                assert_int_equal(answer.each[i].verdict, i == refusing ? CAUDAL_DENY : CAUDAL_ALLOW);
            }
        }
    }
}

/* A bucket whose debt is beyond all reason, since its limit was lowered or the clock was set back, begins anew, empty, when it first
 * refuses, and fills from then on: not from each refusal. */
static void a_bucket_that_was_anchored_anew_fills(void **state)
{
    (void)state;
    const uint32_t lowered = world_add(&world, bucket_of(1000000, 1000000, DAY));
    const uint32_t other = world_add(&world, bucket_of(100, 100, SECOND));
    assert_int_equal(take(&world, lowered, "a", 1000000).verdict, CAUDAL_ALLOW);
    world_set(&world, lowered, bucket_of(1, 1, SECOND)); /* a million seconds of debt */
    const struct caudal_request requests[] = {ask(other, "a", 1), ask(lowered, "a", 1)};
    assert_int_equal(take_all(requests, 2).overall.retry_after_ns, SECOND);
    world_advance(&world, SECOND / 2);
    assert_int_equal(take_all(requests, 2).overall.retry_after_ns, SECOND / 2);
    assert_int_equal(left(&world, other, "a"), 100);
    world_advance(&world, SECOND / 2);
    assert_int_equal(take_all(requests, 2).overall.verdict, CAUDAL_ALLOW);
    assert_int_equal(take_all(requests, 2).overall.verdict, CAUDAL_DENY);
}

static void a_bucket_named_twice_is_charged_for_both(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const uint64_t unit = kinds[k].unit;
        const struct caudal_request twice[] = {ask(limits[k], "a", 3 * unit), ask(limits[k], "b", 1 * unit),
                                               ask(limits[k], "a", 4 * unit)};
        const struct answer answer = take_all(twice, 3);
        assert_int_equal(answer.overall.verdict, CAUDAL_ALLOW);
        assert_int_equal(answer.each[0].remaining, 7 * unit);
        assert_int_equal(answer.each[1].remaining, 9 * unit);
        assert_int_equal(answer.each[2].remaining, 3 * unit);
        assert_binds(&answer, 2);

        struct snapshot before = snapshot_take(world.store); /* 2 + 2 are more than the 3 that are left */
        const struct caudal_request again[] = {ask(limits[k], "a", 2 * unit), ask(limits[k], "a", 2 * unit)};
        const struct answer refused = take_all(again, 2);
        snapshot_compare(&before, world.store);
        assert_int_equal(refused.overall.verdict, CAUDAL_DENY);
        assert_binds(&refused, 1);
        assert_int_equal(refused.each[0].remaining, 3 * unit);
    }
}

static void a_bucket_named_twice_for_more_than_it_holds_is_never(void **state)
{
    (void)state;
    static const uint64_t costs[] = {6, UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX};
    struct snapshot before = snapshot_take(world.store);
    for (size_t i = 0; i < COUNT_OF(costs); i++) {
        const struct caudal_request requests[] = {ask(limits[0], "a", 6), ask(limits[0], "a", costs[i]),
                                                  ask(limits[0], "a", costs[i])};
        assert_int_equal(take_all(requests, 3).overall.verdict, CAUDAL_NEVER);
    }
    snapshot_compare(&before, world.store);
}

static void keys_are_told_apart_by_all_their_bytes(void **state)
{
    (void)state;
    const struct caudal_request requests[] = {{limits[0], "a\0x", 3, 10},
                                              {limits[0], "a\0y", 3, 10},
                                              {limits[0], "a", 1, 10},
                                              {limits[0], NULL, 0, 10},
                                              {limits[1], "a", 1, 10}};
    assert_int_equal(take_all(requests, 5).overall.verdict, CAUDAL_ALLOW);
}

static void of_refusals_never_binds_before_any_wait_and_then_the_longest_wait(void **state)
{
    (void)state;
    const uint32_t hour = world_add(&world, bucket_of(10, 10, HOUR)),
                   minute = world_add(&world, bucket_of(10, 10, MINUTE));
    take(&world, hour, "a", 10);
    take(&world, minute, "a", 10);
    struct caudal_request requests[] = {ask(minute, "a", 1), ask(hour, "a", 1), ask(minute, "a", 1),
                                        ask(minute, "b", 1)};
    struct answer answer = take_all(requests, 4);
    assert_binds(&answer, 1);
    assert_int_equal(answer.overall.retry_after_ns, 6 * MINUTE);
    requests[3].cost = 11;
    answer = take_all(requests, 4);
    assert_binds(&answer, 3);
    assert_int_equal(answer.overall.verdict, CAUDAL_NEVER);
    assert_int_equal(answer.overall.retry_after_ns, -1);
}

static void of_admissions_the_one_with_least_left_binds_and_of_equals_the_first(void **state)
{
    (void)state;
    const struct caudal_request requests[] = {ask(limits[0], "a", 3), ask(limits[1], "a", 5), ask(limits[2], "a", 5),
                                              ask(limits[0], "b", 1)};
    const struct answer answer = take_all(requests, 4);
    assert_binds(&answer, 1);
    assert_int_equal(answer.overall.remaining, 5);
    assert_int_equal(answer.overall.granted, 5);
}

static void the_overall_wait_ends_when_all_pass_and_not_before(void **state)
{
    (void)state;
    struct caudal_request requests[KINDS];
    for (size_t k = 0; k < KINDS; k++) {
        take(&world, limits[k], "a", 10 * kinds[k].unit);
        requests[k] = ask(limits[k], "a", (k + 1) * kinds[k].unit);
    }
    const int64_t wait = take_all(requests, KINDS).overall.retry_after_ns;
    world_advance(&world, wait - 1);
    assert_int_equal(peek_all(requests, KINDS).overall.verdict, CAUDAL_DENY);
    world_advance(&world, 1);
    assert_int_equal(take_all(requests, KINDS).overall.verdict, CAUDAL_ALLOW);
}

static void unlimited_among_others_never_binds_unless_alone(void **state)
{
    (void)state;
    const uint32_t unlimited = world_add(&world, limit_of(CAUDAL_UNLIMITED, 0, 0));
    const struct caudal_request requests[] = {ask(unlimited, "a", UINT64_MAX), ask(limits[0], "a", 1),
                                              ask(unlimited, "a", UINT64_MAX)};
    const struct answer answer = take_all(requests, 3);
    assert_binds(&answer, 1);
    assert_int_equal(answer.each[0].granted, UINT64_MAX);
    const struct answer alone = take_all(requests, 1);
    assert_binds(&alone, 0);
}

static void sixty_four_requests_are_charged_or_none(void **state)
{
    (void)state;
    const uint32_t limit = world_add(&world, bucket_of(CAUDAL_TAKE_ALL_MAX, 1, HOUR));
    struct caudal_request requests[CAUDAL_TAKE_ALL_MAX];
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        requests[i] = ask(limit, "a", 1);
    const struct answer answer = take_all(requests, COUNT_OF(requests));
    assert_int_equal(answer.overall.verdict, CAUDAL_ALLOW);
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        assert_int_equal(answer.each[i].remaining, CAUDAL_TAKE_ALL_MAX - 1 - i);
    assert_int_equal(take_all(requests, COUNT_OF(requests)).overall.verdict, CAUDAL_DENY);
    reset(&world, limit, "a");
    take(&world, limit, "a", 1);
    assert_int_equal(take_all(requests, COUNT_OF(requests)).overall.verdict, CAUDAL_DENY);
    assert_int_equal(left(&world, limit, "a"), CAUDAL_TAKE_ALL_MAX - 1);
}

static void costs_of_zero_spend_nothing_and_bring_no_key_in(void **state)
{
    (void)state;
    struct caudal_request requests[KINDS];
    for (size_t k = 0; k < KINDS; k++)
        requests[k] = ask(limits[k], "a", 0);
    struct snapshot before = snapshot_take(world.store);
    assert_int_equal(take_all(requests, KINDS).overall.verdict, CAUDAL_ALLOW);
    snapshot_compare(&before, world.store);
}

/* Random requests on few keys: a peek tells beforehand what the take will answer, and changes no byte. */
static void a_peek_at_all_tells_what_taking_all_would(void **state)
{
    (void)state;
    struct rng rng = {1};
    static char keys[3][2] = {"a", "b", "c"};
    size_t verdicts[4] = {0};
    for (int round = 0; round < 1000; round++) {
        struct caudal_request requests[8];
        const size_t count = 1 + rng_below(&rng, 8);
        for (size_t i = 0; i < count; i++) {
            const size_t k = rng_below(&rng, KINDS);
            requests[i] = ask(limits[k], keys[rng_below(&rng, 3)], rng_below(&rng, 3) * kinds[k].unit);
        }
        struct snapshot before = snapshot_take(world.store);
        struct answer told = peek_all(requests, count);
        snapshot_compare(&before, world.store);
        const struct answer done = take_all(requests, count);
        assert_int_equal(told.overall.granted, 0);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(told.each[i].granted, 0);
            told.each[i].granted = done.each[i].granted;
            assert_same_decision(told.each[i], done.each[i]);
        }
        told.overall.granted = done.overall.granted;
        assert_same_decision(told.overall, done.overall);
        verdicts[done.overall.verdict]++;
        world_advance(&world, (int64_t)rng_below(&rng, (uint64_t)(2 * MINUTE)));
    }
    assert_true(verdicts[CAUDAL_ALLOW] > 100 && verdicts[CAUDAL_DENY] > 100);
}

static void a_callers_time_is_used_for_all(void **state)
{
    (void)state;
    struct caudal_request requests[KINDS];
    struct caudal_decision each[KINDS], overall;
    for (size_t k = 0; k < KINDS; k++)
        requests[k] = ask(limits[k], "a", 10 * kinds[k].unit);
    for (int64_t at = EPOCH; at < EPOCH + 10 * DAY; at += DAY) {
        assert_int_equal(caudal_peek_all_at(world.store, requests, KINDS, at, each, &overall), CAUDAL_OK);
        assert_int_equal(overall.verdict, CAUDAL_ALLOW);
        assert_int_equal(caudal_take_all_at(world.store, requests, KINDS, at, each, &overall), CAUDAL_OK);
        assert_int_equal(overall.verdict, CAUDAL_ALLOW);
        assert_int_equal(caudal_take_all_at(world.store, requests, KINDS, at, each, &overall), CAUDAL_OK);
        assert_int_equal(overall.verdict, CAUDAL_DENY);
    }
}

#define AMONG_KINDS(test) cmocka_unit_test_setup_teardown(test, open_kinds, close_kinds)

int main(void)
{
    const struct CMUnitTest tests[] = {
        AMONG_KINDS(when_all_pass_each_is_charged_as_by_itself),
        AMONG_KINDS(when_one_refuses_nothing_is_spent_anywhere),
        AMONG_KINDS(a_bucket_that_was_anchored_anew_fills),
        AMONG_KINDS(a_bucket_named_twice_is_charged_for_both),
        AMONG_KINDS(a_bucket_named_twice_for_more_than_it_holds_is_never),
        AMONG_KINDS(keys_are_told_apart_by_all_their_bytes),
        AMONG_KINDS(of_refusals_never_binds_before_any_wait_and_then_the_longest_wait),
        AMONG_KINDS(of_admissions_the_one_with_least_left_binds_and_of_equals_the_first),
        AMONG_KINDS(the_overall_wait_ends_when_all_pass_and_not_before),
        AMONG_KINDS(unlimited_among_others_never_binds_unless_alone),
        AMONG_KINDS(sixty_four_requests_are_charged_or_none),
        AMONG_KINDS(costs_of_zero_spend_nothing_and_bring_no_key_in),
        AMONG_KINDS(a_peek_at_all_tells_what_taking_all_would),
        AMONG_KINDS(a_callers_time_is_used_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
