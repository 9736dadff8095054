/* The public functions' contracts at their edges: which code for which misuse, that nothing is changed by it, and that a
 * decision without a verdict holds nothing else. */
#include "caudal/store.h"

#include <stdlib.h>

#include "../support.h"
#include "store/call.h"

#define STALE UINT32_C(0x7fff1234)

static struct world world;
static uint32_t limit;

/* One bucket of ten, of which the key "key" has spent three. */
static int open_world(void **state)
{
    (void)state;
    world_open(&world, "memory:?keys=1000");
    limit = world_add(&world, bucket_of(10, 10, HOUR));
    take(&world, limit, "key", 3);
    return 0;
}

/* Whatever was refused, the key still holds seven, and nothing else has come in. */
static int close_world(void **state)
{
    (void)state;
    const uint64_t keys = stats_of(&world).live_keys, limits = stats_of(&world).limits,
                   rest = left(&world, limit, "key");
    world_close(&world);
    return keys == 1 && limits == 1 && rest == 7 ? 0 : -1;
}

/* A decision full of rubbish, so that a field that was not set shows. */
static struct caudal_decision rubbish(void)
{
    struct caudal_decision decision;
    memset(&decision, 0x5a, sizeof decision);
    return decision;
}

/* ---- opening ---- */

static int open_with(const struct caudal_store_options *options, struct caudal_problem *problem)
{
    struct caudal_store *store = world.store; /* something that must become NULL */
    *problem = (struct caudal_problem){.message = ""};
    const int status = caudal_store_open("memory:?keys=10", options, &store, problem);
    if (status == CAUDAL_OK) {
        assert_non_null(store);
        caudal_store_close(store);
    } else {
        assert_null(store);
        assert_int_equal(problem->code, status);
        assert_true(strlen(problem->message) > 0);
    }
    return status;
}

static void a_store_needs_a_url_and_a_place(void **state)
{
    (void)state;
    struct caudal_store *store = world.store;
    struct caudal_problem problem = {0};
    assert_int_equal(caudal_store_open(NULL, NULL, &store, &problem), CAUDAL_ERR_ARGUMENT);
    assert_null(store);
    assert_int_equal(problem.code, CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_store_open("memory:", NULL, NULL, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_store_open(NULL, NULL, NULL, NULL), CAUDAL_ERR_ARGUMENT);
}

static void options_carry_their_size(void **state)
{
    (void)state;
    struct caudal_problem problem;
    struct caudal_store_options options = {.size = sizeof options};
    assert_int_equal(open_with(&options, &problem), CAUDAL_OK);
    options.size--;
    assert_int_equal(open_with(&options, &problem), CAUDAL_ERR_ARGUMENT);
    options.size = 0;
    assert_int_equal(open_with(&options, &problem), CAUDAL_ERR_ARGUMENT);
}

static void a_clock_carries_its_size_and_has_both_functions(void **state)
{
    (void)state;
    struct caudal_problem problem;
    const struct caudal_clock good = *caudal_clock_system();
    struct caudal_clock clock = good;
    const struct caudal_store_options options = {.size = sizeof options, .clock = &clock};
    assert_int_equal(open_with(&options, &problem), CAUDAL_OK);
    clock.size = 0;
    assert_int_equal(open_with(&options, &problem), CAUDAL_ERR_ARGUMENT);
    clock = good;
    clock.monotonic_ns = NULL;
    assert_int_equal(open_with(&options, &problem), CAUDAL_ERR_ARGUMENT);
    clock = good;
    clock.realtime_ns = NULL;
    assert_int_equal(open_with(&options, &problem), CAUDAL_ERR_ARGUMENT);
}

static void an_allocator_carries_its_size_and_has_both_functions(void **state)
{
    (void)state;
    struct caudal_problem problem;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    const struct caudal_allocator good = counting.allocator;
    const struct caudal_store_options options = {.size = sizeof options, .allocator = &counting.allocator};
    assert_int_equal(open_with(&options, &problem), CAUDAL_OK);
    counting.allocator.size = 1;
    assert_int_equal(open_with(&options, &problem), CAUDAL_ERR_ARGUMENT);
    counting.allocator = good;
    counting.allocator.allocate = NULL;
    assert_int_equal(open_with(&options, &problem), CAUDAL_ERR_ARGUMENT);
    counting.allocator = good;
    counting.allocator.release = NULL;
    assert_int_equal(open_with(&options, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(counting.live_blocks, 0);
}

static void closing_no_store_does_nothing(void **state)
{
    (void)state;
    caudal_store_close(NULL);
}

/* The allocator is copied: a caller's struct may go out of scope. */
static void an_allocator_need_not_outlive_the_opening(void **state)
{
    (void)state;
    struct counting_allocator counting;
    counting_allocator_init(&counting);
    struct caudal_allocator passing = counting.allocator;
    const struct caudal_store_options options = {.size = sizeof options, .allocator = &passing};
    struct caudal_store *store;
    assert_int_equal(caudal_store_open("memory:?keys=10", &options, &store, NULL), CAUDAL_OK);
    memset(&passing, 0, sizeof passing);
    assert_true(counting.live_blocks > 0);
    caudal_store_close(store);
    assert_int_equal(counting.live_blocks, 0);
}

/* ---- limits ---- */

static int add_limit(const char *name, const struct caudal_limit *of, struct caudal_problem *problem)
{
    uint32_t id = 4711;
    *problem = (struct caudal_problem){.message = ""};
    const int status = caudal_add_limit(world.store, name, of, &id, problem);
    if (status == CAUDAL_OK) {
        assert_int_not_equal(id, 4711);
        assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    } else {
        assert_int_equal(id, 4711);
        assert_int_equal(problem->code, status);
        assert_true(strlen(problem->message) > 0);
    }
    return status;
}

static void adding_a_limit_needs_all_it_asks_for(void **state)
{
    (void)state;
    const struct caudal_limit good = bucket_of(1, 1, SECOND);
    struct caudal_problem problem;
    uint32_t id = 4711;
    assert_int_equal(caudal_add_limit(NULL, "a", &good, &id, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_add_limit(world.store, NULL, &good, &id, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_add_limit(world.store, "a", NULL, &id, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_add_limit(world.store, "a", &good, NULL, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_add_limit(NULL, NULL, NULL, NULL, NULL), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(id, 4711);
}

static void a_limits_name_has_1_to_255_bytes(void **state)
{
    (void)state;
    const struct caudal_limit good = bucket_of(1, 1, SECOND);
    struct caudal_problem problem;
    char name[300];
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    assert_int_equal(add_limit(name, &good, &problem), CAUDAL_OK);
    assert_int_equal(add_limit(name + 254, &good, &problem), CAUDAL_OK);
    assert_int_equal(add_limit("", &good, &problem), CAUDAL_ERR_ARGUMENT);
    name[255] = 'n';
    name[256] = '\0';
    assert_int_equal(add_limit(name, &good, &problem), CAUDAL_ERR_ARGUMENT);
}

static void a_name_is_copied_and_taken_only_once(void **state)
{
    (void)state;
    const struct caudal_limit good = bucket_of(1, 1, SECOND);
    struct caudal_problem problem;
    char name[] = "mine";
    uint32_t id, found = 0;
    assert_int_equal(caudal_add_limit(world.store, name, &good, &id, NULL), CAUDAL_OK);
    name[0] = 'w';
    assert_int_equal(caudal_find_limit(world.store, "mine", &found), CAUDAL_OK);
    assert_int_equal(found, id);
    assert_int_equal(add_limit("mine", &good, &problem), CAUDAL_ERR_EXISTS);
    assert_non_null(strstr(problem.message, "mine"));
    assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    assert_int_equal(add_limit("mine", &good, &problem), CAUDAL_OK);
}

static void a_limit_that_cannot_be_enforced_is_not_added(void **state)
{
    (void)state;
    struct caudal_problem problem;
    const struct caudal_limit bad[] = {bucket_of(1, 1, 0), limit_of(CAUDAL_SLIDING_LOG, 10001, SECOND),
                                       bucket_of(1, 2, 1)};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(add_limit("bad", &bad[i], &problem), CAUDAL_ERR_LIMIT);
    struct caudal_limit sized = bucket_of(1, 1, SECOND);
    sized.size = 7;
    assert_int_equal(add_limit("bad", &sized, &problem), CAUDAL_ERR_ARGUMENT);
}

static void finding_a_limit_says_when_there_is_none(void **state)
{
    (void)state;
    uint32_t id = 4711;
    assert_int_equal(caudal_find_limit(NULL, "limit 0", &id), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_find_limit(world.store, NULL, &id), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_find_limit(world.store, "limit 0", NULL), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_find_limit(world.store, "limit", &id), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_find_limit(world.store, "", &id), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(id, 4711);
    assert_int_equal(caudal_find_limit(world.store, "limit 0", &id), CAUDAL_OK);
    assert_int_equal(id, limit);
}

static void a_limit_is_read_as_it_was_given(void **state)
{
    (void)state;
    struct caudal_limit got = CAUDAL_LIMIT_INIT;
    const struct caudal_limit want = bucket_of(10, 10, HOUR);
    assert_int_equal(caudal_get_limit(world.store, limit, &got), CAUDAL_OK);
    assert_same_limit(got, want);
    assert_int_equal(caudal_get_limit(NULL, limit, &got), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_get_limit(world.store, limit, NULL), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_get_limit(world.store, STALE, &got), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_get_limit(world.store, 0, &got), CAUDAL_ERR_UNKNOWN);
    got.size = 1;
    assert_int_equal(caudal_get_limit(world.store, limit, &got), CAUDAL_ERR_ARGUMENT);
}

static void a_change_that_is_refused_changes_nothing(void **state)
{
    (void)state;
    const struct caudal_limit good = bucket_of(20, 20, HOUR), bad = bucket_of(1, 2, 1);
    struct caudal_problem problem = {.message = ""};
    assert_int_equal(caudal_set_limit(NULL, limit, &good, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_set_limit_at(NULL, limit, &good, 0, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_set_limit(world.store, limit, NULL, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_set_limit(world.store, limit, &bad, &problem), CAUDAL_ERR_LIMIT);
    assert_int_equal(caudal_set_limit_at(world.store, limit, &bad, 0, NULL), CAUDAL_ERR_LIMIT);
    assert_int_equal(caudal_set_limit(world.store, STALE, &good, &problem), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(problem.code, CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_set_limit(world.store, 0, &good, NULL), CAUDAL_ERR_UNKNOWN);
    a_limit_is_read_as_it_was_given(state);
}

static void a_limit_is_removed_once(void **state)
{
    (void)state;
    const uint32_t id = world_add(&world, bucket_of(1, 1, SECOND));
    assert_int_equal(caudal_remove_limit(NULL, id), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_remove_limit(world.store, 0), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_remove_limit(world.store, STALE), CAUDAL_ERR_UNKNOWN);
}

/* ---- deciding ---- */

/* The functions that decide on one key, by one signature. */
typedef int (*decider)(struct caudal_store *, uint32_t, const void *, size_t, struct caudal_decision *);

static int by_take(struct caudal_store *store, uint32_t id, const void *key, size_t length, struct caudal_decision *out)
{
    return caudal_take(store, id, key, length, 1, out);
}

static int by_take_at(struct caudal_store *store, uint32_t id, const void *key, size_t length,
                      struct caudal_decision *out)
{
    return caudal_take_at(store, id, key, length, 1, EPOCH, out);
}

static int by_peek(struct caudal_store *store, uint32_t id, const void *key, size_t length, struct caudal_decision *out)
{
    return caudal_peek(store, id, key, length, 1, out);
}

static int by_peek_at(struct caudal_store *store, uint32_t id, const void *key, size_t length,
                      struct caudal_decision *out)
{
    return caudal_peek_at(store, id, key, length, 1, EPOCH, out);
}

static int by_take_up_to(struct caudal_store *store, uint32_t id, const void *key, size_t length,
                         struct caudal_decision *out)
{
    return caudal_take_up_to(store, id, key, length, 1, 5, out);
}

static int by_take_up_to_at(struct caudal_store *store, uint32_t id, const void *key, size_t length,
                            struct caudal_decision *out)
{
    return caudal_take_up_to_at(store, id, key, length, 1, 5, EPOCH, out);
}

static int by_refund(struct caudal_store *store, uint32_t id, const void *key, size_t length,
                     struct caudal_decision *out)
{
    return caudal_refund(store, id, key, length, 1, out);
}

static int by_refund_at(struct caudal_store *store, uint32_t id, const void *key, size_t length,
                        struct caudal_decision *out)
{
    return caudal_refund_at(store, id, key, length, 1, EPOCH, out);
}

static const decider deciders[] = {by_take,       by_take_at,       by_peek,   by_peek_at,
                                   by_take_up_to, by_take_up_to_at, by_refund, by_refund_at};

static void a_question_that_is_no_good_gets_its_code_and_no_verdict(void **state)
{
    (void)state;
    static char long_key[CAUDAL_KEY_MAX + 1];
    const struct {
        struct caudal_store *store;
        uint32_t limit;
        const void *key;
        size_t length;
        int status;
    } bad[] = {
        {NULL, limit, "key", 3, CAUDAL_ERR_ARGUMENT},
        {world.store, limit, NULL, 1, CAUDAL_ERR_ARGUMENT},
        {world.store, limit, long_key, sizeof long_key, CAUDAL_ERR_KEY},
        {world.store, limit, "key", SIZE_MAX, CAUDAL_ERR_KEY},
        {world.store, STALE, "key", 3, CAUDAL_ERR_UNKNOWN},
        {world.store, 0, "key", 3, CAUDAL_ERR_UNKNOWN},
        {world.store, UINT32_MAX, "key", 3, CAUDAL_ERR_UNKNOWN},
        {world.store, limit + 1, "key", 3, CAUDAL_ERR_UNKNOWN},
        {world.store, limit + (1 << 16), "key", 3, CAUDAL_ERR_UNKNOWN},
    };
    for (size_t i = 0; i < COUNT_OF(deciders); i++)
        for (size_t j = 0; j < COUNT_OF(bad); j++) {
            struct caudal_decision decision = rubbish();
            assert_int_equal(deciders[i](bad[j].store, bad[j].limit, bad[j].key, bad[j].length, &decision),
                             bad[j].status);
            assert_no_verdict(decision, bad[j].status);
        }
}

static void an_answer_needs_a_place_but_a_refund_does_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(deciders); i++) {
        const bool refunds = deciders[i] == by_refund || deciders[i] == by_refund_at;
        assert_int_equal(deciders[i](world.store, limit, "key", 3, NULL), refunds ? CAUDAL_OK : CAUDAL_ERR_ARGUMENT);
    }
    assert_int_equal(caudal_refund(world.store, STALE, "key", 3, 1, NULL), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_refund(NULL, limit, "key", 3, 1, NULL), CAUDAL_ERR_ARGUMENT);
    take(&world, limit, "key", 2); /* again, what the two refunds gave back */
}

static void the_most_is_not_less_than_the_least(void **state)
{
    (void)state;
    struct caudal_decision decision = rubbish();
    assert_int_equal(caudal_take_up_to(world.store, limit, "key", 3, 3, 2, &decision), CAUDAL_ERR_ARGUMENT);
    assert_no_verdict(decision, CAUDAL_ERR_ARGUMENT);
    decision = rubbish();
    assert_int_equal(caudal_take_up_to_at(world.store, limit, "key", 3, 1, 0, EPOCH, &decision), CAUDAL_ERR_ARGUMENT);
    assert_no_verdict(decision, CAUDAL_ERR_ARGUMENT);
}

/* Of a decision with a verdict every field is set, whatever was there before. */
static void every_field_of_an_answer_is_set(void **state)
{
    (void)state;
    const struct caudal_limit limits[] = {bucket_of(10, 10, HOUR),
                                          bucket_of(0, 10, HOUR),
                                          limit_of(CAUDAL_FIXED_WINDOW, 10, HOUR),
                                          limit_of(CAUDAL_SLIDING_WINDOW, 10, HOUR),
                                          limit_of(CAUDAL_SLIDING_WINDOW, 1 << 30, MINUTE),
                                          limit_of(CAUDAL_SLIDING_LOG, 10, HOUR),
                                          limit_of(CAUDAL_UNLIMITED, 0, 0)};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        const uint32_t id = world_add(&world, limits[i]);
        for (size_t j = 0; j < 4 * COUNT_OF(deciders); j++) {
            struct caudal_decision first = rubbish(), second;
            memset(&second, 0, sizeof second);
            const decider decide = deciders[j % COUNT_OF(deciders)];
            assert_int_equal(decide(world.store, id, "a", 1, &first), CAUDAL_OK);
            assert_int_equal(decide(world.store, id, "b", 1, &second), CAUDAL_OK);
            assert_same_decision(first, second);
            assert_int_not_equal(first.verdict, CAUDAL_NO_VERDICT);
            assert_int_equal(first.source, CAUDAL_SOURCE_STORE);
            assert_int_equal(first.error_bound, 0);
            assert_int_equal(first.binding, 0);
        }
        assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    }
}

static void a_reset_says_what_is_wrong_with_it(void **state)
{
    (void)state;
    static char long_key[CAUDAL_KEY_MAX + 1];
    assert_int_equal(caudal_reset(NULL, limit, "key", 3), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_reset(world.store, limit, NULL, 1), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_reset(world.store, limit, long_key, sizeof long_key), CAUDAL_ERR_KEY);
    assert_int_equal(caudal_reset(world.store, STALE, "key", 3), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_reset(world.store, 0, "key", 3), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_reset(world.store, limit, "never seen", 10), CAUDAL_OK);
}

static void stats_carry_their_size(void **state)
{
    (void)state;
    struct caudal_store_stats stats = {.size = sizeof stats};
    assert_int_equal(caudal_store_stats(NULL, &stats), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_store_stats(world.store, NULL), CAUDAL_ERR_ARGUMENT);
    stats.size = 4;
    assert_int_equal(caudal_store_stats(world.store, &stats), CAUDAL_ERR_ARGUMENT);
    stats.size = sizeof stats;
    assert_int_equal(caudal_store_stats(world.store, &stats), CAUDAL_OK);
    assert_int_equal(stats.size, sizeof stats);
    assert_int_equal(stats.limits, 1);
    assert_int_equal(stats.live_keys, 1);
    assert_int_equal(stats.inserted, 1);
    assert_int_equal(stats.live_evictions, 0);
    assert_true(stats.slots >= 1000);
    assert_true(stats.bytes > 21000);
}

/* ---- several ---- */

static void taking_from_all_needs_1_to_64_requests_and_room_for_answers(void **state)
{
    (void)state;
    struct caudal_request requests[CAUDAL_TAKE_ALL_MAX + 1];
    struct caudal_decision decisions[CAUDAL_TAKE_ALL_MAX + 1], overall = rubbish();
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        requests[i] = (struct caudal_request){limit, "key", 3, 0};
    assert_int_equal(caudal_take_all(world.store, requests, 1, decisions, NULL), CAUDAL_ERR_ARGUMENT);
    const struct {
        struct caudal_store *store;
        struct caudal_request *requests;
        size_t count;
        struct caudal_decision *decisions;
    } bad[] = {
        {NULL, requests, 1, decisions},
        {world.store, NULL, 1, decisions},
        {world.store, requests, 1, NULL},
        {world.store, requests, 0, decisions},
        {world.store, requests, CAUDAL_TAKE_ALL_MAX + 1, decisions},
        {world.store, requests, SIZE_MAX, decisions},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        overall = rubbish();
        assert_int_equal(caudal_take_all(bad[i].store, bad[i].requests, bad[i].count, bad[i].decisions, &overall),
                         CAUDAL_ERR_ARGUMENT);
        assert_no_verdict(overall, CAUDAL_ERR_ARGUMENT);
        overall = rubbish();
        assert_int_equal(
            caudal_take_all_at(bad[i].store, bad[i].requests, bad[i].count, EPOCH, bad[i].decisions, &overall),
            CAUDAL_ERR_ARGUMENT);
    }
    assert_int_equal(caudal_take_all(world.store, requests, CAUDAL_TAKE_ALL_MAX, decisions, &overall), CAUDAL_OK);
}

/* One bad request among good ones, at each place: nothing is spent, and no answer has a verdict. */
static void one_request_that_is_no_good_stops_all(void **state)
{
    (void)state;
    static char long_key[CAUDAL_KEY_MAX + 1];
    const struct {
        struct caudal_request request;
        int status;
    } bad[] = {
        {{STALE, "key", 3, 1}, CAUDAL_ERR_UNKNOWN},
        {{0, "key", 3, 1}, CAUDAL_ERR_UNKNOWN},
        {{limit, NULL, 3, 1}, CAUDAL_ERR_ARGUMENT},
        {{limit, long_key, sizeof long_key, 1}, CAUDAL_ERR_KEY},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        for (size_t place = 0; place < 4; place++) {
            struct caudal_request requests[4];
            struct caudal_decision decisions[4], overall = rubbish();
            for (size_t j = 0; j < 4; j++) {
                requests[j] = j == place ? bad[i].request : (struct caudal_request){limit, "key", 3, 1};
                decisions[j] = rubbish();
            }
            assert_int_equal(caudal_take_all(world.store, requests, 4, decisions, &overall), bad[i].status);
            assert_no_verdict(overall, bad[i].status);
            for (size_t j = 0; j < 4; j++)
                assert_no_verdict(decisions[j], bad[i].status);
        }
}

static void a_batch_may_be_empty_but_not_missing(void **state)
{
    (void)state;
    struct caudal_request request = {limit, "key", 3, 0};
    struct caudal_decision decision;
    assert_int_equal(caudal_take_batch(world.store, NULL, 0, NULL), CAUDAL_OK);
    assert_int_equal(caudal_take_batch_at(world.store, NULL, 0, EPOCH, NULL), CAUDAL_OK);
    assert_int_equal(caudal_take_batch(NULL, &request, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_take_batch(NULL, NULL, 0, NULL), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_take_batch(world.store, NULL, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_take_batch(world.store, &request, 1, NULL), CAUDAL_ERR_ARGUMENT);
}

/* In a batch each request stands for itself: those that are no good do not stop the others. */
static void a_bad_request_of_a_batch_is_the_only_one_that_fails(void **state)
{
    (void)state;
    static char long_key[CAUDAL_KEY_MAX + 1];
    const uint32_t scratch = world_add(&world, bucket_of(100, 100, HOUR));
    const struct caudal_request bad[] = {
        {STALE, "key", 3, 1}, {scratch, NULL, 3, 1}, {scratch, long_key, sizeof long_key, 1}};
    const int codes[] = {CAUDAL_ERR_UNKNOWN, CAUDAL_ERR_ARGUMENT, CAUDAL_ERR_KEY};
    struct caudal_request requests[50];
    struct caudal_decision decisions[50];
    uint64_t spent = 0;
    for (size_t first = 0; first < COUNT_OF(bad); first++) {
        for (size_t i = 0; i < COUNT_OF(requests); i++) {
            requests[i] = i % 7 == 3 ? bad[(first + i / 7) % 3] : (struct caudal_request){scratch, "key", 3, 1};
            decisions[i] = rubbish();
        }
        assert_int_equal(caudal_take_batch(world.store, requests, COUNT_OF(requests), decisions), codes[first]);
        for (size_t i = 0; i < COUNT_OF(requests); i++) {
            if (i % 7 == 3) {
                assert_no_verdict(decisions[i], codes[(first + i / 7) % 3]);
            } else {
                assert_int_equal(decisions[i].verdict, spent < 100 ? CAUDAL_ALLOW : CAUDAL_DENY);
                spent += decisions[i].granted;
            }
        }
    }
    assert_int_equal(spent, 100);
    assert_int_equal(caudal_remove_limit(world.store, scratch), CAUDAL_OK);
}

/* As a client of a store that answers later does. */
static void a_call_without_a_client_goes_by_the_callers_time_and_forgets_keys(void **state)
{
    (void)state;
    const int64_t later_ns = EPOCH + 10 * SECOND;
    const uint32_t id = world_add(&world, bucket_of(10, 1, SECOND));
    const struct caudal_request request = {id, "key", 3, 4};
    struct cdl_question question = cdl_question_take(10);
    struct caudal_decision decision;
    struct cdl_call call = {.requests = &request, .questions = &question, .decisions = &decision, .count = 1};
    assert_true(cdl_store_ask(world.store, NULL, &call));
    assert_int_equal(decision.remaining, 0);
    question = cdl_question_take(4);
    for (int together = 0; together < 2; together++) {
        call.together = together;
        call.now_ns = &later_ns;
        assert_true(cdl_store_ask(world.store, NULL, &call));
        assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    }
    call.together = false;
    question = (struct cdl_question){.operation = CDL_RESET};
    assert_true(cdl_store_ask(world.store, NULL, &call));
    assert_int_equal(call.status, CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    assert_int_equal(left(&world, id, "key"), 10);
    assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    assert_true(cdl_store_ask(world.store, NULL, &call));
    assert_int_equal(call.status, CAUDAL_ERR_UNKNOWN);
    assert_no_verdict(decision, CAUDAL_ERR_UNKNOWN);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_store_needs_a_url_and_a_place),
        IN_A_WORLD(options_carry_their_size),
        IN_A_WORLD(a_clock_carries_its_size_and_has_both_functions),
        IN_A_WORLD(an_allocator_carries_its_size_and_has_both_functions),
        IN_A_WORLD(closing_no_store_does_nothing),
        IN_A_WORLD(an_allocator_need_not_outlive_the_opening),
        IN_A_WORLD(adding_a_limit_needs_all_it_asks_for),
        IN_A_WORLD(a_limits_name_has_1_to_255_bytes),
        IN_A_WORLD(a_name_is_copied_and_taken_only_once),
        IN_A_WORLD(a_limit_that_cannot_be_enforced_is_not_added),
        IN_A_WORLD(finding_a_limit_says_when_there_is_none),
        IN_A_WORLD(a_limit_is_read_as_it_was_given),
        IN_A_WORLD(a_change_that_is_refused_changes_nothing),
        IN_A_WORLD(a_limit_is_removed_once),
        IN_A_WORLD(a_question_that_is_no_good_gets_its_code_and_no_verdict),
        IN_A_WORLD(an_answer_needs_a_place_but_a_refund_does_not),
        IN_A_WORLD(the_most_is_not_less_than_the_least),
        IN_A_WORLD(every_field_of_an_answer_is_set),
        IN_A_WORLD(a_reset_says_what_is_wrong_with_it),
        IN_A_WORLD(stats_carry_their_size),
        IN_A_WORLD(taking_from_all_needs_1_to_64_requests_and_room_for_answers),
        IN_A_WORLD(one_request_that_is_no_good_stops_all),
        IN_A_WORLD(a_batch_may_be_empty_but_not_missing),
        IN_A_WORLD(a_bad_request_of_a_batch_is_the_only_one_that_fails),
        IN_A_WORLD(a_call_without_a_client_goes_by_the_callers_time_and_forgets_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
