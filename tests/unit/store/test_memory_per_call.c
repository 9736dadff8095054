/* Limits that come with each call, in a memory store: as exact as named ones, alone and among them, and no memory for what is asked by. */
#include "store/memory_store.h"

#include "../support.h"
#include "../vectors.h"
#include "store/call.h"

static struct world world;
static uint32_t id;

static int open_world(void **state)
{
    (void)state;
    world_open(&world, "memory:?keys=1000");
    assert_int_equal(cdl_add_per_call_limit(world.store, "per call", &id, NULL), CAUDAL_OK);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

static struct caudal_request request_of(uint32_t limit, const char *key)
{
    return (struct caudal_request){.limit = limit, .key = key, .key_length = strlen(key)};
}

/* Asks by the store's clock, or at an instant; returns the call's status. */
static int ask_at(const char *key, const struct caudal_limit *limit, struct cdl_question question,
                  const int64_t *now_ns, struct caudal_decision *decision)
{
    const struct caudal_request request = request_of(id, key);
    question.limit = limit;
    memset(decision, 0x5a, sizeof *decision);
    struct cdl_call call = {
        .requests = &request, .questions = &question, .decisions = decision, .count = 1, .now_ns = now_ns};
    assert_true(cdl_store_ask(world.store, NULL, &call));
    assert_int_equal(call.status, decision->status);
    return call.status;
}

static struct caudal_decision ask(const char *key, struct caudal_limit limit, struct cdl_question question)
{
    struct caudal_decision decision;
    assert_int_equal(ask_at(key, &limit, question, NULL, &decision), CAUDAL_OK);
    return decision;
}

static struct caudal_decision take_by(const char *key, struct caudal_limit limit, uint64_t cost)
{
    return ask(key, limit, cdl_question_take(cost));
}

static uint64_t left_by(const char *key, struct caudal_limit limit)
{
    return ask(key, limit, cdl_question_peek(0)).remaining;
}

static const struct caudal_limit bucket = {sizeof(struct caudal_limit), CAUDAL_TOKEN_BUCKET, 10, HOUR,
                                           CAUDAL_BURST_DEFAULT};
static const struct caudal_limit window = {sizeof(struct caudal_limit), CAUDAL_FIXED_WINDOW, 10, HOUR,
                                           CAUDAL_BURST_DEFAULT};

/* ---- vectors ---- */

struct player {
    char key[32];
    unsigned scenario;
    struct caudal_limit limit;
};

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    struct player *player = context;
    assert_int_equal(count, 1);
    player->limit = limits[0];
    snprintf(player->key, sizeof player->key, "scenario %u", player->scenario++);
}

static void play(void *context, const struct vector_step *step)
{
    struct player *player = context;
    struct caudal_decision decision;
    struct cdl_question question = {.operation = CDL_REFUND};
    switch (step->action) {
    case VECTOR_TAKE:
        question = cdl_question_take(step->amount);
        break;
    case VECTOR_PEEK:
        question = cdl_question_peek(step->amount);
        break;
    case VECTOR_REFUND:
        question.maximum = step->amount;
        break;
    case VECTOR_SET: /* another rate holds from when it is first asked by: here, for nothing */
        player->limit = step->limit;
        break;
    }
    assert_int_equal(ask_at(player->key, &player->limit, question, &step->now_ns, &decision), CAUDAL_OK);
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, 0);
}

static void every_vector_of_a_bucket_and_of_a_fixed_window_is_met(void **state)
{
    (void)state;
    static const char *const files[] = {"named.us.jsonl", "random.token_bucket.us.jsonl",
                                        "random.token_bucket.ns.jsonl", "random.fixed_window.us.jsonl"};
    struct player player = {.scenario = 0};
    const struct vector_player how = {begin, play, &player};
    size_t played = 0;
    for (int algorithm = CAUDAL_TOKEN_BUCKET; algorithm <= CAUDAL_FIXED_WINDOW; algorithm++)
        for (size_t i = 0; i < COUNT_OF(files); i++)
            if (i == 0 || (i == 3) == (algorithm == CAUDAL_FIXED_WINDOW))
                played += vectors_play(files[i], algorithm, &how);
    assert_true(played > 10000);
}

/* ---- among other limits ---- */

static int ask_together(const struct caudal_request *requests, const struct cdl_question *questions, size_t count,
                        struct caudal_decision *decisions)
{
    struct cdl_call call = {
        .requests = requests, .questions = questions, .decisions = decisions, .count = count, .together = true};
    assert_true(cdl_store_ask(world.store, NULL, &call));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(decisions[i].status, call.status);
    return call.status;
}

static struct cdl_question question_by(const struct caudal_limit *limit, uint64_t cost)
{
    struct cdl_question question = cdl_question_take(cost);
    question.limit = limit;
    return question;
}

static void together_with_named_limits_all_are_charged_or_none(void **state)
{
    (void)state;
    const uint32_t named = world_add(&world, bucket_of(5, 5, HOUR));
    const struct caudal_request requests[] = {request_of(id, "bucket"), request_of(named, "a"),
                                              request_of(id, "window")};
    struct cdl_question questions[] = {question_by(&bucket, 2), question_by(&bucket, 1), question_by(&window, 3)};
    struct caudal_decision decisions[3];
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(ask_together(requests, questions, 3, decisions), CAUDAL_OK);
        assert_int_equal(decisions[0].remaining, 10 - 2 * i);
        assert_int_equal(decisions[1].capacity, 5); /* what is not asked for is not looked at */
        assert_int_equal(decisions[1].remaining, 5 - i);
        assert_int_equal(decisions[2].remaining, 10 - 3 * i);
    }
    struct snapshot before = snapshot_take(world.store);
    assert_int_equal(ask_together(requests, questions, 3, decisions), CAUDAL_OK);
    snapshot_compare(&before, world.store);
    assert_int_equal(decisions[0].verdict, CAUDAL_ALLOW);
    assert_int_equal(decisions[0].remaining, 4);
    assert_int_equal(decisions[1].remaining, 2);
    assert_int_equal(decisions[2].verdict, CAUDAL_DENY);
    for (size_t i = 0; i < 3; i++)
        questions[i].operation = CDL_PEEK;
    questions[2].minimum = questions[2].maximum = 1;
    before = snapshot_take(world.store);
    assert_int_equal(ask_together(requests, questions, 3, decisions), CAUDAL_OK);
    snapshot_compare(&before, world.store);
    assert_int_equal(decisions[0].remaining, 2);
    assert_int_equal(decisions[2].verdict, CAUDAL_ALLOW);
}

static void a_key_named_twice_is_charged_for_both(void **state)
{
    (void)state;
    const struct caudal_limit again = bucket; /* the same, elsewhere */
    const struct caudal_request requests[] = {request_of(id, "twice"), request_of(id, "twice")};
    const struct cdl_question questions[] = {question_by(&bucket, 3), question_by(&again, 3)};
    struct caudal_decision decisions[2];
    assert_int_equal(ask_together(requests, questions, 2, decisions), CAUDAL_OK);
    assert_int_equal(decisions[1].remaining, 4);
    assert_int_equal(ask_together(requests, questions, 2, decisions), CAUDAL_OK);
    assert_int_equal(decisions[1].verdict, CAUDAL_DENY);
    assert_int_equal(left_by("twice", bucket), 4);
}

static void a_key_asked_about_by_two_limits_at_once_is_an_error(void **state)
{
    (void)state;
    const uint32_t named = world_add(&world, bucket_of(5, 5, HOUR));
    const struct caudal_limit others[] = {window, bucket_of(11, 10, HOUR), bucket_of(10, 11, HOUR),
                                          bucket_of(10, 10, 2 * HOUR)};
    struct caudal_request requests[] = {request_of(id, "contradiction"), request_of(id, "contradiction")};
    struct caudal_decision decisions[2];
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        const struct cdl_question questions[] = {question_by(&bucket, 1), question_by(&others[i], 1)};
        requests[0].limit = requests[1].limit = id;
        assert_int_equal(ask_together(requests, questions, 2, decisions), CAUDAL_ERR_ARGUMENT);
        assert_no_verdict(decisions[0], CAUDAL_ERR_ARGUMENT);
        requests[0].limit = requests[1].limit = named; /* of which they are not looked at */
        assert_int_equal(ask_together(requests, questions, 2, decisions), CAUDAL_OK);
        reset(&world, named, "contradiction");
    }
    assert_int_equal(left_by("contradiction", bucket), 10);
}

/* ---- errors ---- */

static void without_a_limit_it_is_the_caller_s_error(void **state)
{
    (void)state;
    struct caudal_decision decision, overall;
    struct caudal_request request = request_of(id, "a");
    request.cost = 1;
    struct snapshot before = snapshot_take(world.store);
    assert_int_equal(caudal_take(world.store, id, "a", 1, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_no_verdict(decision, CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_peek(world.store, id, "a", 1, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_refund(world.store, id, "a", 1, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_take_up_to(world.store, id, "a", 1, 1, 2, &decision), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_take_batch(world.store, &request, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_no_verdict(decision, CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_take_all(world.store, &request, 1, &decision, &overall), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(ask_at("a", NULL, cdl_question_take(1), NULL, &decision), CAUDAL_ERR_ARGUMENT);
    assert_no_verdict(decision, CAUDAL_ERR_ARGUMENT);
    snapshot_compare(&before, world.store);
    assert_int_equal(caudal_reset(world.store, id, "a", 1), CAUDAL_OK); /* for which none is needed */
}

static void what_cannot_be_counted_is_an_error_and_takes_nothing_along(void **state)
{
    (void)state;
    const struct caudal_limit bad[] = {
        limit_of(CAUDAL_SLIDING_LOG, 1, SECOND),
        limit_of(CAUDAL_SLIDING_WINDOW, 1, SECOND),
        limit_of(CAUDAL_UNLIMITED, 0, 0),
        bucket_of(1, 1, 0),
        bucket_of(UINT64_MAX - 1, UINT64_MAX, 1),
        limit_of(CAUDAL_FIXED_WINDOW, UINT64_MAX, (int64_t)CAUDAL_REFILL_MAX_NS),
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct caudal_decision decision, decisions[2];
        struct snapshot before = snapshot_take(world.store);
        assert_int_equal(ask_at("b", &bad[i], cdl_question_take(1), NULL, &decision), CAUDAL_ERR_LIMIT);
        assert_no_verdict(decision, CAUDAL_ERR_LIMIT);
        const struct caudal_request requests[] = {request_of(id, "b"), request_of(id, "c")};
        const struct cdl_question questions[] = {question_by(&bucket, 1), question_by(&bad[i], 1)};
        assert_int_equal(ask_together(requests, questions, 2, decisions), CAUDAL_ERR_LIMIT);
        snapshot_compare(&before, world.store);
        struct cdl_call each = {.requests = requests, .questions = questions, .decisions = decisions, .count = 2};
        assert_true(cdl_store_ask(world.store, NULL, &each));
        assert_int_equal(each.status, CAUDAL_ERR_LIMIT);
        assert_int_equal(decisions[0].remaining, 9 - i);
        assert_no_verdict(decisions[1], CAUDAL_ERR_LIMIT);
    }
}

/* ---- the limit itself ---- */

static void it_is_found_as_unlimited_and_cannot_be_changed(void **state)
{
    (void)state;
    struct caudal_problem problem;
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    uint32_t found, again;
    assert_int_equal(caudal_find_limit(world.store, "per call", &found), CAUDAL_OK);
    assert_int_equal(found, id);
    assert_int_equal(caudal_get_limit(world.store, id, &limit), CAUDAL_OK);
    assert_same_limit(limit, limit_of(CAUDAL_UNLIMITED, 0, 0));
    assert_int_equal(caudal_set_limit(world.store, id, &bucket, &problem), CAUDAL_ERR_UNSUPPORTED);
    assert_non_null(strstr(problem.message, "comes with each call"));
    assert_int_equal(caudal_set_limit(world.store, id, &limit, NULL), CAUDAL_ERR_UNSUPPORTED);
    assert_int_equal(caudal_lease_limit(world.store, id, NULL, NULL), CAUDAL_ERR_UNSUPPORTED);
    assert_int_equal(cdl_add_per_call_limit(world.store, "per call", &again, &problem), CAUDAL_ERR_EXISTS);
    assert_non_null(strstr(problem.message, "per call"));
    assert_int_equal(cdl_add_per_call_limit(world.store, "", &again, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(cdl_add_per_call_limit(world.store, NULL, &again, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(cdl_add_per_call_limit(NULL, "other", &again, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(cdl_add_per_call_limit(world.store, "other", NULL, &problem), CAUDAL_ERR_ARGUMENT);
}

static void a_reset_and_a_removal_forget(void **state)
{
    (void)state;
    struct caudal_decision decision;
    uint32_t old = id;
    take_by("forgotten", bucket, 4);
    take_by("kept", window, 4);
    reset(&world, id, "forgotten");
    assert_int_equal(left_by("forgotten", bucket), 10);
    assert_int_equal(left_by("kept", window), 6);
    assert_int_equal(caudal_remove_limit(world.store, id), CAUDAL_OK);
    assert_int_equal(ask_at("kept", &window, cdl_question_take(1), NULL, &decision), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(cdl_add_per_call_limit(world.store, "per call", &id, NULL), CAUDAL_OK);
    assert_int_not_equal(id, old);
    assert_int_equal(left_by("kept", window), 10);
}

static void two_names_are_two_states(void **state)
{
    (void)state;
    const uint32_t first = id;
    uint32_t second;
    assert_int_equal(cdl_add_per_call_limit(world.store, "another", &second, NULL), CAUDAL_OK);
    take_by("shared", bucket, 4);
    id = second;
    assert_int_equal(take_by("shared", bucket, 1).remaining, 9);
    id = first;
    assert_int_equal(left_by("shared", bucket), 6);
}

/* ---- clocks ---- */

static int64_t monotonic_ns, realtime_ns;

static int64_t read_monotonic(void *context)
{
    (void)context;
    return monotonic_ns;
}

static int64_t read_realtime(void *context)
{
    (void)context;
    return realtime_ns;
}

/* Buckets count on the monotonic clock and windows on the real one: setting that moves windows only. */
static void each_counts_on_its_own_clock(void **state)
{
    (void)state;
    static const struct caudal_clock clock = {
        .size = sizeof clock, .monotonic_ns = read_monotonic, .realtime_ns = read_realtime};
    const struct caudal_store_options options = {.size = sizeof options, .clock = &clock};
    monotonic_ns = SECOND;
    realtime_ns = EPOCH;
    assert_int_equal(caudal_store_open("memory:?keys=10", &options, &world.store, NULL), CAUDAL_OK);
    assert_int_equal(cdl_add_per_call_limit(world.store, "per call", &id, NULL), CAUDAL_OK);
    take_by("bucket's", bucket, 10);
    take_by("window's", window, 10);
    realtime_ns += HOUR;
    assert_int_equal(take_by("bucket's", bucket, 1).retry_after_ns, 6 * MINUTE);
    assert_int_equal(take_by("window's", window, 1).verdict, CAUDAL_ALLOW);
    monotonic_ns += 6 * MINUTE;
    assert_int_equal(take_by("bucket's", bucket, 1).verdict, CAUDAL_ALLOW);
    assert_int_equal(stats_of(&world).live_keys, 2);
    monotonic_ns += HOUR;
    assert_int_equal(stats_of(&world).live_keys, 1);
    caudal_store_close(world.store);
}

/* ---- memory ---- */

static struct caudal_limit any_limit(struct rng *rng)
{
    for (;;) {
        struct caudal_limit limit = random_bucket(rng);
        if (rng_below(rng, 3) == 0)
            limit = limit_of(CAUDAL_FIXED_WINDOW, limit.count, (int64_t)limit.period_ns);
        if (caudal_limit_check(&limit, NULL) == CAUDAL_OK)
            return limit;
    }
}

/* A million different limits on a thousand keys: a thousand keys. */
static void different_limits_cost_no_memory(void **state)
{
    (void)state;
    struct counting_allocator counting;
    struct rng rng = {1};
    counting_allocator_init(&counting);
    world.clock = caudal_fake_clock_new(EPOCH);
    const struct caudal_store_options options = {
        .size = sizeof options, .allocator = &counting.allocator, .clock = caudal_fake_clock_clock(world.clock)};
    assert_int_equal(caudal_store_open("memory:?keys=1000", &options, &world.store, NULL), CAUDAL_OK);
    assert_int_equal(cdl_add_per_call_limit(world.store, "per call", &id, NULL), CAUDAL_OK);
    const long calls = counting.calls;
    const uint64_t bytes = stats_of(&world).bytes;
    for (uint64_t i = 0; i < scaled(1000000); i++) {
        char key[16];
        snprintf(key, sizeof key, "%llu", (unsigned long long)(i % 1000));
        take_by(key, any_limit(&rng), 1);
    }
    const struct caudal_store_stats stats = stats_of(&world);
    assert_int_equal(counting.calls, calls);
    assert_int_equal(stats.bytes, bytes);
    assert_int_equal(stats.inserted, 1000);
    assert_true(stats.live_keys <= 1000);
    assert_int_equal(stats.live_evictions, 0);
    world_close(&world);
    assert_int_equal(counting.live_blocks, 0);
}

static void open_sized(const char *url)
{
    world_open(&world, url);
    assert_int_equal(cdl_add_per_call_limit(world.store, "per call", &id, NULL), CAUDAL_OK);
}

static void as_many_keys_live_as_the_store_is_opened_for(void **state)
{
    (void)state;
    const uint32_t keys = 100000;
    open_sized("memory:?keys=100000");
    for (uint32_t i = 0; i < keys; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        take_by(key, i % 2 == 0 ? bucket : window, 4);
    }
    assert_int_equal(stats_of(&world).live_keys, keys);
    assert_int_equal(stats_of(&world).live_evictions, 0);
    for (uint32_t i = 0; i < keys; i += 97) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        assert_int_equal(left_by(key, i % 2 == 0 ? bucket : window), 6);
    }
    world_advance(&world, HOUR);
    assert_int_equal(stats_of(&world).live_keys, 0);
    world_close(&world);
}

/* What has recovered makes room first, and then what is nearest to it, whatever it was counted by. */
static void a_full_table_forgets_what_matters_least(void **state)
{
    (void)state;
    open_sized("memory:?keys=8&wide_keys=3&log_entries=1");
    take_by("hours", bucket, 10);
    take_by("a minute", bucket_of(10, 10, MINUTE), 10);
    take_by("a second", limit_of(CAUDAL_FIXED_WINDOW, 10, SECOND), 10);
    world_advance(&world, SECOND);
    take_by("for good", bucket_of(10, 0, SECOND), 10);
    assert_int_equal(stats_of(&world).live_evictions, 0);
    take_by("days", bucket_of(10, 10, DAY), 10);
    assert_int_equal(stats_of(&world).live_evictions, 1);
    assert_int_equal(left_by("hours", bucket), 0);
    assert_int_equal(left_by("for good", bucket_of(10, 0, SECOND)), 0);
    assert_int_equal(left_by("days", bucket_of(10, 10, DAY)), 0);
    assert_int_equal(left_by("a minute", bucket_of(10, 10, MINUTE)), 10);
    world_close(&world);
}

/* ---- many rates ---- */

/* Whatever is asked by, no more is admitted than the burst and what has come back meanwhile, at the rate of the last who asked. */
static void rates_that_change_at_random_admit_no_more_than_has_come_back(void **state)
{
    (void)state;
    static const int64_t periods[] = {SECOND, 7 * SECOND, MINUTE, 999983, HOUR, DAY};
    struct rng rng = {2};
    for (uint64_t walks = 0; walks < scaled(2000); walks++) {
        char key[32];
        snprintf(key, sizeof key, "walk %llu", (unsigned long long)walks);
        const uint64_t burst = 1 + rng_below(&rng, 100);
        uint64_t admitted = 0;
        cdl_u128 refilled = 0; /* in tokens of 2^-40, rounded up, at the rate that was asked by last */
        struct caudal_limit limit = bucket_of(burst, 1, SECOND);
        for (int i = 0; i < 200; i++) {
            const int64_t step_ns = (int64_t)rng_magnitude(&rng, (uint64_t)SECOND);
            world_advance(&world, step_ns);
            refilled += ((cdl_u128)step_ns * limit.count << 40) / limit.period_ns + 1;
            if (rng_below(&rng, 3) == 0)
                limit = bucket_of(burst, 1 + rng_below(&rng, 50), periods[rng_below(&rng, COUNT_OF(periods))]);
            admitted += take_by(key, limit, 1 + rng_below(&rng, 3)).granted;
            assert_true(((cdl_u128)admitted << 40) <= ((cdl_u128)burst << 40) + refilled);
        }
    }
}

/* ---- what is expected ---- */

static void expect(uint32_t limit, const char *key)
{
    struct cdl_expected expected = {0};
    const struct caudal_request request = request_of(limit, key);
    cdl_store_expect(world.store, &request, &expected);
    cdl_store_expect_more(&expected);
    cdl_store_expect_more(&expected); /* there is no more */
}

static void what_is_expected_is_not_changed(void **state)
{
    (void)state;
    uint32_t named;
    assert_int_equal(caudal_add_limit(world.store, "named", &bucket, &named, NULL), CAUDAL_OK);
    take_by("known", bucket, 3);
    const uint32_t limits[] = {id, named, 0, UINT32_MAX, named + 1};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        expect(limits[i], "known");
        expect(limits[i], "unknown");
        expect(limits[i], "");
    }
    assert_int_equal(left_by("known", bucket), 7);
    assert_int_equal(left_by("unknown", bucket), 10);
    struct caudal_store_stats stats = {.size = sizeof stats};
    assert_int_equal(caudal_store_stats(world.store, &stats), CAUDAL_OK);
    assert_int_equal(stats.inserted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_vector_of_a_bucket_and_of_a_fixed_window_is_met, open_world, close_world),
        cmocka_unit_test_setup_teardown(together_with_named_limits_all_are_charged_or_none, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_key_named_twice_is_charged_for_both, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_key_asked_about_by_two_limits_at_once_is_an_error, open_world, close_world),
        cmocka_unit_test_setup_teardown(without_a_limit_it_is_the_caller_s_error, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_cannot_be_counted_is_an_error_and_takes_nothing_along, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(it_is_found_as_unlimited_and_cannot_be_changed, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_reset_and_a_removal_forget, open_world, close_world),
        cmocka_unit_test_setup_teardown(two_names_are_two_states, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_is_expected_is_not_changed, open_world, close_world),
        cmocka_unit_test(each_counts_on_its_own_clock),
        cmocka_unit_test(different_limits_cost_no_memory),
        cmocka_unit_test(as_many_keys_live_as_the_store_is_opened_for),
        cmocka_unit_test(a_full_table_forgets_what_matters_least),
        cmocka_unit_test_setup_teardown(rates_that_change_at_random_admit_no_more_than_has_come_back, open_world,
                                        close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
