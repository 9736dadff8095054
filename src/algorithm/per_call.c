#include "algorithm/per_call.h"

#include "algorithm/token_clock.h"
#include "algorithm/window.h"

/* More tokens than any capacity and skew: such a debt is anchored anew under whatever limit. */
#define TOKENS_MAX (UINT64_C(1) << 41)
_Static_assert(TOKENS_MAX > CAUDAL_CAPACITY_MAX + (uint64_t)CDL_SKEW_NS, "a rate is a token a nanosecond at the most");

int cdl_per_call_check(const struct caudal_limit *limit)
{
    const int status = caudal_limit_check(limit, NULL);
    if (status != CAUDAL_OK)
        return status;
    return limit->algorithm == CAUDAL_TOKEN_BUCKET || limit->algorithm == CAUDAL_FIXED_WINDOW ? CAUDAL_OK
                                                                                              : CAUDAL_ERR_LIMIT;
}

/* ---- buckets ---- */

/* A bucket as one question sees it, in the parts that it will be stored in. */
struct bucket {
    uint64_t count, period_ns;
    uint64_t capacity;  /* tokens */
    cdl_i128 full;      /* the same in parts */
    cdl_i128 debt;      /* parts that are missing */
    bool is_to_be_kept; /* whatever is decided: it was converted, or anchored anew */
};

/* a / b rounded up; a >= 0, b > 0. */
static cdl_i128 divide_up(cdl_i128 a, cdl_i128 b)
{
    return (a + b - 1) / b;
}

/* For b that is no more than 64 bits wide, which a and the quotient mostly are, too. */
static uint64_t divide(cdl_i128 a, uint64_t b)
{
    return a <= UINT64_MAX ? (uint64_t)a / b : (uint64_t)(a / (cdl_i128)b);
}

static cdl_i128 debt_of(const struct cdl_per_call_state *state, int64_t now)
{
    const cdl_i128 debt = state->full_at - (cdl_i128)now * (cdl_i128)state->count;
    return debt > 0 ? debt : 0;
}

/* A debt in parts of which a token has `from`, in parts of which it has `to`. */
static cdl_i128 convert(cdl_i128 debt, uint64_t from, uint64_t to)
{
    const cdl_i128 tokens = debt / (cdl_i128)from, rest = debt % (cdl_i128)from;
    if (tokens >= (cdl_i128)TOKENS_MAX)
        return (cdl_i128)TOKENS_MAX * (cdl_i128)to;
    return tokens * (cdl_i128)to + divide_up(rest * (cdl_i128)to, (cdl_i128)from);
}

static struct bucket look(const struct caudal_limit *limit, int64_t now, const struct cdl_per_call_state *state)
{
    struct bucket bucket = {.count = limit->count, .period_ns = limit->period_ns};
    bucket.capacity = caudal_limit_capacity(limit);
    if (state != NULL) {
        bucket.debt = debt_of(state, now);
        if ((cdl_u128)state->count * limit->period_ns == (cdl_u128)limit->count * state->period_ns) {
            bucket.count = state->count;
            bucket.period_ns = state->period_ns;
        } else {
            bucket.debt = convert(bucket.debt, state->period_ns, limit->period_ns);
            bucket.is_to_be_kept = true;
        }
    }
    bucket.full = (cdl_i128)bucket.capacity * (cdl_i128)bucket.period_ns;
    if (__builtin_expect(bucket.debt - bucket.full > (cdl_i128)CDL_SKEW_NS * (cdl_i128)bucket.count, false)) {
        bucket.debt = bucket.full;
        bucket.is_to_be_kept = true;
    }
    return bucket;
}

/* Of a charge that is undone, what has been refilled since is not given back once more. */
static void give_back(struct bucket *bucket, int64_t now, const struct cdl_question *question)
{
    cdl_i128 parts = (cdl_i128)question->maximum * (cdl_i128)bucket->period_ns;
    const cdl_i128 since = (cdl_i128)now - question->charged_monotonic_ns;
    if (question->operation == CDL_UNDO && since > 0)
        parts -= since * (cdl_i128)bucket->count;
    if (parts > 0)
        bucket->debt = parts < bucket->debt ? bucket->debt - parts : 0;
}

/* Whether the question passes, and with how much. */
static uint64_t grant(const struct bucket *bucket, const struct cdl_question *question, enum caudal_verdict *verdict)
{
    const uint64_t wanted = question->minimum;
    const cdl_i128 level = bucket->full - bucket->debt; /* negative after a limit was lowered */
    *verdict = CAUDAL_ALLOW;
    if (wanted <= bucket->capacity && (cdl_i128)wanted * (cdl_i128)bucket->period_ns <= level)
        return wanted == question->maximum ? wanted : cdl_grant(question, divide(level, bucket->period_ns));
    *verdict = wanted > bucket->capacity || bucket->count == 0 ? CAUDAL_NEVER : CAUDAL_DENY;
    return 0;
}

static int64_t wait(const struct bucket *bucket, cdl_i128 parts)
{
    return (int64_t)divide(parts + (cdl_i128)bucket->count - 1, bucket->count);
}

/* The answer; the bucket is as the question leaves it, or would leave it. */
static void describe(const struct bucket *bucket, const struct cdl_question *question, enum caudal_verdict verdict,
                     struct caudal_decision *decision)
{
    const cdl_i128 level = bucket->full - bucket->debt;
    decision->verdict = verdict;
    decision->capacity = bucket->capacity;
    decision->remaining = level > 0 ? divide(level, bucket->period_ns) : 0;
    decision->retry_after_ns = verdict == CAUDAL_ALLOW ? 0 : -1;
    if (verdict == CAUDAL_DENY)
        decision->retry_after_ns = wait(bucket, (cdl_i128)question->minimum * (cdl_i128)bucket->period_ns - level);
    decision->reset_after_ns = bucket->debt == 0 ? 0 : bucket->count == 0 ? -1 : wait(bucket, bucket->debt);
}

static bool decide_bucket(const struct caudal_limit *limit, int64_t now, bool fresh, struct cdl_per_call_state *state,
                          const struct cdl_question *question, struct caudal_decision *decision)
{
    const bool goes_on = !fresh && state->algorithm == CAUDAL_TOKEN_BUCKET;
    const bool giving_back = question->operation == CDL_REFUND || question->operation == CDL_UNDO;
    struct bucket bucket = look(limit, now, goes_on ? state : NULL);
    enum caudal_verdict verdict = CAUDAL_ALLOW;
    uint64_t granted = 0;
    if (giving_back)
        give_back(&bucket, now, question);
    else
        granted = grant(&bucket, question, &verdict);
    const bool takes = question->operation == CDL_TAKE, changed = bucket.is_to_be_kept || giving_back;
    const cdl_i128 before = bucket.debt;
    bucket.debt += (cdl_i128)granted * (cdl_i128)bucket.period_ns;
    describe(&bucket, question, verdict, decision);
    decision->granted = takes ? granted : 0;
    if (question->operation == CDL_PEEK || !((changed && goes_on) || (takes && granted > 0)))
        return false;
    *state = (struct cdl_per_call_state){.count = bucket.count,
                                         .period_ns = bucket.period_ns,
                                         .full_at = (cdl_i128)now * (cdl_i128)bucket.count +
                                                    (takes ? bucket.debt : before),
                                         .algorithm = CAUDAL_TOKEN_BUCKET};
    return true;
}

/* ---- windows ---- */

static bool decide_window(const struct caudal_limit *limit, int64_t now, bool fresh, struct cdl_per_call_state *state,
                          const struct cdl_question *question, struct caudal_decision *decision)
{
    const struct cdl_window_rule rule = {limit->count, (int64_t)limit->period_ns, false};
    struct cdl_window_state window = {0};
    const bool goes_on = !fresh && state->algorithm == CAUDAL_FIXED_WINDOW && state->period_ns == limit->period_ns;
    if (goes_on)
        window = (struct cdl_window_state){.index = state->index, .current = state->spent};
    if (!cdl_window_decide(&rule, now, !goes_on, &window, question, decision))
        return false;
    *state = (struct cdl_per_call_state){.count = limit->count,
                                         .period_ns = limit->period_ns,
                                         .index = window.index,
                                         .spent = window.current,
                                         .algorithm = CAUDAL_FIXED_WINDOW};
    return true;
}

bool cdl_per_call_decide(const struct caudal_limit *limit, int64_t now, bool fresh, struct cdl_per_call_state *state,
                         const struct cdl_question *question, struct caudal_decision *decision)
{
    if (limit->algorithm == CAUDAL_TOKEN_BUCKET)
        return decide_bucket(limit, now, fresh, state, question, decision);
    return decide_window(limit, now, fresh, state, question, decision);
}

int64_t cdl_per_call_time_left(const struct cdl_per_call_state *state, int64_t now)
{
    if (state->algorithm == CAUDAL_FIXED_WINDOW) {
        const struct cdl_window_rule rule = {state->count, (int64_t)state->period_ns, false};
        const struct cdl_window_state window = {.index = state->index, .current = state->spent};
        return cdl_window_time_to_empty(&rule, now, &window);
    }
    const cdl_i128 debt = debt_of(state, now);
    if (debt == 0)
        return 0;
    return state->count == 0 ? INT64_MAX : cdl_clamp_i64(divide_up(debt, (cdl_i128)state->count));
}
