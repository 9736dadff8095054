#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "../vectors.h"
#include "caudal/caudal.h"

/* A store on a fake clock, and the key that a scenario is played on. */
struct fixture {
    struct caudal_fake_clock *clock;
    struct caudal_store *store;
    uint32_t limits[VECTOR_LIMITS_MAX];
    size_t limit_count;
    unsigned scenario;
};

static void open_store(struct fixture *fixture)
{
    *fixture = (struct fixture){.clock = caudal_fake_clock_new(0)};
    const struct caudal_store_options options = {
        .size = sizeof options,
        .clock = caudal_fake_clock_clock(fixture->clock),
    };
    assert_int_equal(caudal_store_open("memory:?keys=1000", &options, &fixture->store, NULL), CAUDAL_OK);
}

static void close_store(struct fixture *fixture)
{
    caudal_store_close(fixture->store);
    caudal_fake_clock_free(fixture->clock);
}

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    struct fixture *fixture = context;
    fixture->scenario++;
    fixture->limit_count = count;
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "scenario %u, %zu", fixture->scenario, i);
        assert_int_equal(caudal_add_limit(fixture->store, name, &limits[i], &fixture->limits[i], NULL), CAUDAL_OK);
    }
}

/* A bucket's waits may be off by a nanosecond, the others' may not. */
static int64_t slack(struct fixture *fixture, size_t i)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    assert_int_equal(caudal_get_limit(fixture->store, fixture->limits[i], &limit), CAUDAL_OK);
    return limit.algorithm == CAUDAL_TOKEN_BUCKET ? 1 : 0;
}

static void play_one(struct fixture *fixture, const struct vector_step *step)
{
    struct caudal_store *store = fixture->store;
    const uint32_t limit = fixture->limits[0];
    struct caudal_decision decision = {0};
    switch (step->action) {
    case VECTOR_TAKE:
        assert_int_equal(caudal_take(store, limit, "key", 3, step->amount, &decision), CAUDAL_OK);
        break;
    case VECTOR_PEEK:
        assert_int_equal(caudal_peek(store, limit, "key", 3, step->amount, &decision), CAUDAL_OK);
        break;
    case VECTOR_REFUND:
        assert_int_equal(caudal_refund(store, limit, "key", 3, step->amount, NULL), CAUDAL_OK);
        break;
    case VECTOR_SET:
        assert_int_equal(caudal_set_limit(store, limit, &step->limit, NULL), CAUDAL_OK);
        break;
    }
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, slack(fixture, 0));
}

static void play_all(struct fixture *fixture, const struct vector_step *step)
{
    struct caudal_request requests[VECTOR_LIMITS_MAX];
    struct caudal_decision decisions[VECTOR_LIMITS_MAX], overall;
    for (size_t i = 0; i < fixture->limit_count; i++)
        requests[i] = (struct caudal_request){fixture->limits[i], "key", 3, step->amount};
    assert_int_equal(caudal_take_all(fixture->store, requests, fixture->limit_count, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, step->overall);
    for (size_t i = 0; i < fixture->limit_count; i++)
        vectors_check(step, &step->want[i], &decisions[i], slack(fixture, i));
}

static void play(void *context, const struct vector_step *step)
{
    struct fixture *fixture = context;
    caudal_fake_clock_set(fixture->clock, step->now_ns);
    if (fixture->limit_count == 1)
        play_one(fixture, step);
    else
        play_all(fixture, step);
}

static void every_vector_file_is_met_through_the_store(void **state)
{
    static const char *const files[] = {
        "named.us.jsonl",
        "random.fixed_window.us.jsonl",
        "random.sliding_log.us.jsonl",
        "random.sliding_window.us.jsonl",
        "random.token_bucket.ns.jsonl",
        "random.token_bucket.us.jsonl",
        "several.us.jsonl",
    };
    (void)state;
    struct fixture fixture;
    open_store(&fixture);
    const struct vector_player player = {begin, play, &fixture};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        vectors_play(files[i], -1, &player);
    close_store(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_file_is_met_through_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
