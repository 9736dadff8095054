#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../vectors.h"
#include "algorithm/token_bucket.h"

/* One bucket, as a store would keep it. */
struct bucket {
    struct cdl_token_clock clock;
    bool fresh, started;
    uint64_t full_at;
    struct caudal_limit limit;
};

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    assert_int_equal(count, 1);
    *(struct bucket *)context = (struct bucket){.fresh = true, .limit = limits[0]};
}

static void cover(struct bucket *bucket, int64_t now)
{
    if (!bucket->started)
        bucket->clock = cdl_token_clock_make(&bucket->limit, now);
    bucket->started = true;
    if (cdl_token_clock_covers(&bucket->clock, now))
        return;
    const struct cdl_token_clock old = bucket->clock;
    cdl_token_clock_recentre(&bucket->clock, now);
    bucket->full_at = cdl_token_clock_revise(&old, &bucket->clock, now, bucket->full_at);
}

static void set_limit(struct bucket *bucket, int64_t now, const struct caudal_limit *limit)
{
    const struct cdl_token_clock old = bucket->clock;
    if (cdl_token_clock_change(&bucket->clock, limit, now))
        return;
    bucket->clock = cdl_token_clock_make(limit, now);
    bucket->full_at = cdl_token_clock_convert(&old, &bucket->clock, now, bucket->full_at);
}

static struct caudal_decision ask(struct bucket *bucket, int64_t now, struct cdl_question question)
{
    struct caudal_decision decision = {0};
    cover(bucket, now);
    uint64_t state = bucket->full_at;
    if (cdl_token_bucket_decide(&bucket->clock, now, bucket->fresh, &state, &question, &decision)) {
        bucket->full_at = state;
        bucket->fresh = false;
    }
    return decision;
}

static void play(void *context, const struct vector_step *step)
{
    struct bucket *bucket = context;
    struct caudal_decision decision = {0};
    cover(bucket, step->now_ns);
    switch (step->action) {
    case VECTOR_TAKE:
        decision = ask(bucket, step->now_ns, cdl_question_take(step->amount));
        break;
    case VECTOR_PEEK:
        decision = ask(bucket, step->now_ns, cdl_question_peek(step->amount));
        break;
    case VECTOR_REFUND:
        ask(bucket, step->now_ns, (struct cdl_question){CDL_REFUND, 0, step->amount});
        break;
    case VECTOR_SET:
        set_limit(bucket, step->now_ns, &step->limit);
        break;
    }
    if (step->has_want)
        vectors_check(step, &step->want[0], &decision, 1);
}

static void play_file(const char *file)
{
    struct bucket bucket;
    const struct vector_player player = {begin, play, &bucket};
    vectors_play(file, CAUDAL_TOKEN_BUCKET, &player);
}

static void vectors_by_hand_are_met(void **state)
{
    (void)state;
    play_file("named.us.jsonl");
}

static void random_vectors_are_met_at_microseconds(void **state)
{
    (void)state;
    play_file("random.token_bucket.us.jsonl");
}

static void random_vectors_are_met_at_nanoseconds(void **state)
{
    (void)state;
    play_file("random.token_bucket.ns.jsonl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_by_hand_are_met),
        cmocka_unit_test(random_vectors_are_met_at_microseconds),
        cmocka_unit_test(random_vectors_are_met_at_nanoseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
