/* Limits that come with each call, in a real Redis: the vectors, the core beside it while rates change, and what is an error. */
#include "../../support.h"

#include <pthread.h>
#include <unistd.h>

#include "../../redis_server.h"
#include "../../vectors.h"
#include "algorithm/per_call.h"
#include "store/call.h"
#include "store/redis/redis_store.h"

static struct redis_server server;
static struct caudal_store *store;
static uint32_t id, named;

static struct caudal_store *open_store(void)
{
    char url[128];
    struct caudal_store *opened;
    /* These machines are slow at times, and nothing here is about being late. */
    const struct caudal_store_options options = {.size = sizeof options, .deadline_ns = 10 * SECOND};
    snprintf(url, sizeof url, "unix:%s", server.socket);
    assert_int_equal(caudal_store_open(url, &options, &opened, NULL), CAUDAL_OK);
    return opened;
}

static int start(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(10, 10, DAY);
    redis_server_start(&server);
    store = open_store();
    assert_int_equal(cdl_add_per_call_limit(store, "per call", &id, NULL), CAUDAL_OK);
    assert_int_equal(caudal_add_limit(store, "named", &limit, &named, NULL), CAUDAL_OK);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    caudal_store_close(store);
    redis_server_stop(&server);
    return 0;
}

static int ask_at(const char *key, const struct caudal_limit *limit, struct cdl_question question,
                  const int64_t *now_ns, struct caudal_decision *decision)
{
    const struct caudal_request request = {.limit = id, .key = key, .key_length = strlen(key)};
    question.limit = limit;
    struct cdl_call call = {
        .requests = &request, .questions = &question, .decisions = decision, .count = 1, .now_ns = now_ns};
    assert_true(cdl_store_ask(store, NULL, &call));
    assert_int_equal(call.status, decision->status);
    return call.status;
}

static struct caudal_decision take_by(const char *key, struct caudal_limit limit, uint64_t cost)
{
    struct caudal_decision decision;
    assert_int_equal(ask_at(key, &limit, cdl_question_take(cost), NULL, &decision), CAUDAL_OK);
    return decision;
}

static uint64_t left_by(const char *key, struct caudal_limit limit)
{
    struct caudal_decision decision;
    assert_int_equal(ask_at(key, &limit, cdl_question_peek(0), NULL, &decision), CAUDAL_OK);
    return decision.remaining;
}

static uint64_t healed(void)
{
    return atomic_load(&store->ops->events(store)->counts[CDL_STORE_HEALED]);
}

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
    if (step->action == VECTOR_TAKE)
        question = cdl_question_take(step->amount);
    else if (step->action == VECTOR_PEEK)
        question = cdl_question_peek(step->amount);
    else if (step->action == VECTOR_REFUND)
        question.maximum = step->amount;
    else
        player->limit = step->limit; /* which holds from when it is first asked by: here, for nothing */
    assert_int_equal(ask_at(player->key, &player->limit, question, &step->now_ns, &decision), CAUDAL_OK);
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, 0);
}

static void test_every_vector_of_a_bucket_and_of_a_fixed_window(void **state)
{
    (void)state;
    struct player player = {.scenario = 0};
    const struct vector_player how = {begin, play, &player};
    const uint64_t before = healed();
    assert_true(vectors_play("named.us.jsonl", CAUDAL_TOKEN_BUCKET, &how) > 0);
    assert_true(vectors_play("named.us.jsonl", CAUDAL_FIXED_WINDOW, &how) > 0);
    assert_true(vectors_play("random.token_bucket.us.jsonl", CAUDAL_TOKEN_BUCKET, &how) > 1000);
    assert_true(vectors_play("random.fixed_window.us.jsonl", CAUDAL_FIXED_WINDOW, &how) > 500);
    assert_int_equal(healed(), before);
}

/* ---- the core, at the same instants ---- */

/* Rates of ordinary people, and none: all of whole microseconds, and such that any debt fits under any. */
static struct caudal_limit a_limit(struct rng *rng)
{
    static const int64_t periods[] = {SECOND, 7 * SECOND, MINUTE, 30 * SECOND, HOUR, DAY};
    const uint64_t count = rng_below(rng, 8) == 0 ? 0 : 1 + rng_below(rng, 60);
    const int64_t period_ns = periods[rng_below(rng, COUNT_OF(periods))];
    if (rng_below(rng, 4) == 0)
        return limit_of(CAUDAL_FIXED_WINDOW, count, period_ns);
    return bucket_of(rng_below(rng, 100), count, period_ns);
}

static struct cdl_question a_question(struct rng *rng)
{
    const uint64_t cost = rng_below(rng, 30);
    switch (rng_below(rng, 8)) {
    case 0:
        return cdl_question_peek(cost);
    case 1:
        return (struct cdl_question){.operation = CDL_REFUND, .maximum = cost};
    case 2:
        return (struct cdl_question){.operation = CDL_TAKE, .minimum = cost, .maximum = cost + rng_below(rng, 50)};
    default:
        return cdl_question_take(rng_below(rng, 8));
    }
}

/* By how much the core may be later: it rounds a debt that comes to another rate up, by 10^-9 of a token at the most with these, and the
 * scripts keep it exactly. */
static int64_t slack_ns(const struct caudal_limit *limit, int changes)
{
    return limit->algorithm != CAUDAL_TOKEN_BUCKET || limit->count == 0
               ? 0
               : 1 + changes * (int64_t)limit->period_ns / (int64_t)limit->count / SECOND;
}

/* Rates, capacities, lengths and algorithms change with every third call. */
static void test_the_core_answers_the_same_whatever_it_is_asked_by(void **state)
{
    (void)state;
    struct rng rng = {1};
    const uint64_t before = healed();
    for (unsigned walk = 0; walk < 200; walk++) {
        char key[32];
        struct cdl_per_call_state core;
        struct caudal_limit limit = a_limit(&rng);
        bool fresh = true;
        int64_t now_ns = EPOCH;
        snprintf(key, sizeof key, "walk %u", walk);
        for (int i = 0; i < 40; i++) {
            struct caudal_decision want = {0}, got;
            const struct cdl_question question = a_question(&rng);
            now_ns += (int64_t)rng_magnitude(&rng, 10 * MINUTE) / MICROSECOND * MICROSECOND;
            if (rng_below(&rng, 3) == 0)
                limit = a_limit(&rng);
            fresh &= !cdl_per_call_decide(&limit, now_ns, fresh, &core, &question, &want);
            assert_int_equal(ask_at(key, &limit, question, &now_ns, &got), CAUDAL_OK);
            assert_int_equal(got.verdict, want.verdict);
            assert_int_equal(got.capacity, want.capacity);
            assert_int_equal(got.granted, want.granted);
            assert_int_equal(got.remaining, want.remaining);
            assert_in_range(want.retry_after_ns - got.retry_after_ns, 0, slack_ns(&limit, i));
            assert_in_range(want.reset_after_ns - got.reset_after_ns, 0, slack_ns(&limit, i));
        }
    }
    assert_int_equal(healed(), before);
}

/* ---- among other limits ---- */

static int ask_together(const struct caudal_request *requests, const struct cdl_question *questions, size_t count,
                        struct caudal_decision *decisions)
{
    struct cdl_call call = {
        .requests = requests, .questions = questions, .decisions = decisions, .count = count, .together = true};
    assert_true(cdl_store_ask(store, NULL, &call));
    return call.status;
}

static struct cdl_question question_by(const struct caudal_limit *limit, uint64_t cost)
{
    struct cdl_question question = cdl_question_take(cost);
    question.limit = limit;
    return question;
}

static void test_together_with_a_named_limit_all_are_charged_or_none(void **state)
{
    (void)state;
    const struct caudal_limit bucket = bucket_of(20, 20, DAY), window = limit_of(CAUDAL_FIXED_WINDOW, 9, 365 * DAY);
    const struct caudal_request requests[] = {{id, "bucket", 6, 0}, {named, "a", 1, 0}, {id, "window", 6, 0}};
    const struct cdl_question questions[] = {question_by(&bucket, 2), question_by(&window, 1), question_by(&window, 4)};
    struct caudal_decision decisions[3];
    for (uint64_t i = 1; i <= 3; i++) {
        const uint64_t charged = i < 3 ? i : 2;
        assert_int_equal(ask_together(requests, questions, 3, decisions), CAUDAL_OK);
        assert_int_equal(decisions[1].capacity, 10); /* what is not asked for is not looked at */
        assert_int_equal(decisions[0].remaining, 20 - 2 * charged);
        assert_int_equal(decisions[1].remaining, 10 - charged);
        assert_int_equal(decisions[2].remaining, 9 - 4 * charged);
        assert_int_equal(decisions[2].verdict, i < 3 ? CAUDAL_ALLOW : CAUDAL_DENY);
    }
}

static void test_a_key_is_named_twice_by_one_limit_or_it_is_an_error(void **state)
{
    (void)state;
    const struct caudal_limit bucket = bucket_of(10, 10, DAY), again = bucket, other = bucket_of(11, 10, DAY);
    const struct caudal_request requests[] = {{id, "twice", 5, 0}, {id, "twice", 5, 0}};
    struct cdl_question questions[] = {question_by(&bucket, 3), question_by(&again, 3)};
    struct caudal_decision decisions[2];
    assert_int_equal(ask_together(requests, questions, 2, decisions), CAUDAL_OK);
    assert_int_equal(decisions[0].verdict, CAUDAL_ALLOW);
    questions[1].limit = &other;
    assert_int_equal(ask_together(requests, questions, 2, decisions), CAUDAL_ERR_ARGUMENT);
    assert_no_verdict(decisions[0], CAUDAL_ERR_ARGUMENT);
    assert_int_equal(left_by("twice", bucket), 4);
}

/* The record is the one that a named limit of that name has. */
static void test_it_shares_a_record_with_a_named_limit_of_its_name(void **state)
{
    (void)state;
    const struct caudal_limit bucket = bucket_of(10, 10, DAY);
    struct caudal_store *other = open_store();
    struct caudal_decision decision;
    uint32_t its;
    assert_int_equal(caudal_add_limit(other, "per call", &bucket, &its, NULL), CAUDAL_OK);
    take_by("shared", bucket, 4);
    assert_int_equal(caudal_take(other, its, "shared", 6, 1, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 5);
    caudal_store_close(other);
}

static void test_a_reset_needs_no_limit(void **state)
{
    (void)state;
    const struct caudal_limit bucket = bucket_of(10, 10, DAY);
    take_by("reset", bucket, 4);
    assert_int_equal(caudal_reset(store, id, "reset", 5), CAUDAL_OK);
    assert_int_equal(left_by("reset", bucket), 10);
}

/* ---- errors ---- */

static void test_without_a_limit_it_is_the_callers_error(void **state)
{
    (void)state;
    struct caudal_decision decision, overall;
    const struct caudal_request request = {id, "a", 1, 1};
    assert_int_equal(caudal_take(store, id, "a", 1, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_no_verdict(decision, CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_peek(store, id, "a", 1, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_take_batch(store, &request, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_take_all(store, &request, 1, &decision, &overall), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(ask_at("a", NULL, cdl_question_take(1), NULL, &decision), CAUDAL_ERR_ARGUMENT);
}

static void test_what_cannot_be_counted_exactly_fails_alone(void **state)
{
    (void)state;
    const struct caudal_limit good = bucket_of(10, 10, DAY);
    const struct caudal_limit bad[] = {
        limit_of(CAUDAL_FIXED_WINDOW, 1, MICROSECOND + 1),
        bucket_of(10, (UINT64_C(1) << 61) - 1, 90 * YEAR), /* a prime */
        limit_of(CAUDAL_SLIDING_LOG, 1, SECOND),
        limit_of(CAUDAL_UNLIMITED, 0, 0),
        bucket_of(1, 1, 0),
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct caudal_decision decision, decisions[3];
        assert_int_equal(ask_at("bad", &bad[i], cdl_question_take(1), NULL, &decision), CAUDAL_ERR_LIMIT);
        assert_no_verdict(decision, CAUDAL_ERR_LIMIT);
        const struct caudal_request requests[] = {{id, "good", 4, 0}, {id, "bad", 3, 0}, {named, "good", 4, 0}};
        const struct cdl_question questions[] = {question_by(&good, 1), question_by(&bad[i], 1), cdl_question_take(1)};
        assert_int_equal(ask_together(requests, questions, 3, decisions), CAUDAL_ERR_LIMIT);
        for (size_t k = 0; k < 3; k++)
            assert_no_verdict(decisions[k], CAUDAL_ERR_LIMIT);
        struct cdl_call each = {.requests = requests, .questions = questions, .decisions = decisions, .count = 3};
        assert_true(cdl_store_ask(store, NULL, &each));
        assert_int_equal(each.status, CAUDAL_ERR_LIMIT);
        assert_int_equal(decisions[0].remaining, 9 - i);
        assert_no_verdict(decisions[1], CAUDAL_ERR_LIMIT);
        assert_int_equal(decisions[2].remaining, 9 - i);
    }
}

static void test_the_limit_itself_cannot_be_changed_or_leased(void **state)
{
    (void)state;
    struct caudal_problem problem;
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    const struct caudal_lease lease = CAUDAL_LEASE_INIT;
    uint32_t again;
    assert_int_equal(caudal_get_limit(store, id, &limit), CAUDAL_OK);
    assert_same_limit(limit, limit_of(CAUDAL_UNLIMITED, 0, 0));
    assert_int_equal(caudal_set_limit(store, id, &limit, &problem), CAUDAL_ERR_UNSUPPORTED);
    assert_non_null(strstr(problem.message, "comes with each call"));
    assert_int_equal(caudal_lease_limit(store, id, &lease, &problem), CAUDAL_ERR_UNSUPPORTED);
    assert_int_equal(cdl_add_per_call_limit(store, "per call", &again, &problem), CAUDAL_ERR_EXISTS);
    assert_int_equal(cdl_add_per_call_limit(store, "gone", &again, NULL), CAUDAL_OK);
    assert_int_equal(caudal_remove_limit(store, again), CAUDAL_OK);
    assert_int_equal(caudal_find_limit(store, "gone", &again), CAUDAL_ERR_UNKNOWN);
}

/* ---- threads ---- */

enum {
    THREADS = 8,
    EACH = 100,
};

/* The capacity is the same, and so is the debt in tokens, whatever the rate; and next to nothing of it comes back. */
static void *take_some(void *context)
{
    uint64_t *admitted = context;
    for (int i = 0; i < EACH; i++)
        *admitted += take_by("threads", bucket_of(EACH, 1, (int64_t)(1 + i % 3) * 30 * DAY), 1).granted;
    return NULL;
}

static void test_threads_admit_exactly_the_limit(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t admitted[THREADS] = {0}, sum = 0;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_some, &admitted[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += admitted[i];
    }
    assert_int_equal(sum, EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_vector_of_a_bucket_and_of_a_fixed_window),
        cmocka_unit_test(test_the_core_answers_the_same_whatever_it_is_asked_by),
        cmocka_unit_test(test_together_with_a_named_limit_all_are_charged_or_none),
        cmocka_unit_test(test_a_key_is_named_twice_by_one_limit_or_it_is_an_error),
        cmocka_unit_test(test_it_shares_a_record_with_a_named_limit_of_its_name),
        cmocka_unit_test(test_a_reset_needs_no_limit),
        cmocka_unit_test(test_without_a_limit_it_is_the_callers_error),
        cmocka_unit_test(test_what_cannot_be_counted_exactly_fails_alone),
        cmocka_unit_test(test_the_limit_itself_cannot_be_changed_or_leased),
        cmocka_unit_test(test_threads_admit_exactly_the_limit),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
