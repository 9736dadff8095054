/* Limits that come with the call, in the shapes that other programs have given them. All of them are one token bucket, asked for by
 * numbers instead of by a name:
 *
 *     CL.THROTTLE key max_burst count period [quantity]              capacity max_burst + 1
 *     THROTTLE key max_burst count_per_period period [quantity]      capacity max_burst
 *     GCRA key max-burst tokens-per-period period [TOKENS count]     capacity max-burst + 1, period may have a fraction
 *
 * A quantity of 0 looks and spends nothing. Seconds are rounded up, so that who waits as long as they are told is not refused again; what
 * is whole stays. -1 stands for what there is no number for: the wait of who was not refused or can never pass, and what is left while
 * the store is away and nobody counts. */
#include <inttypes.h>
#include <stdlib.h>

#include "server/resp.h"
#include "wire/ratelimit_fields.h"

#define PERIOD_MAX_S (CAUDAL_REFILL_MAX_NS / (uint64_t)CDL_NS_PER_S)
#define KEY_FRAME_BYTES 7u /* what stands around a key of that length: see caudal_key_join */

/* What a shape calls its arguments, and what they may be. */
struct shape {
    const char *burst, *count, *period, *cost;
    uint64_t burst_min;
    uint64_t beyond_burst; /* the capacity is the burst and so much */
    bool parts_of_seconds; /* in its period */
};

static const struct shape cl_throttle = {"max_burst", "count", "period", "quantity", 0, 1, false};
static const struct shape throttle = {"max_burst", "count_per_period", "period", "quantity", 1, 0, false};
static const struct shape gcra = {"max-burst", "tokens-per-period", "period", "TOKENS", 0, 1, true};

/* ---- numbers ---- */

static bool is_digits(struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
    return text.length > 0;
}

/* Says what is wrong with a number that read_number would not have. */
static void refuse_number(struct cdl_resp_call *call, struct cdl_slice text, const char *name, uint64_t least,
                          uint64_t most)
{
    const bool negative = text.length > 1 && text.bytes[0] == '-';
    const struct cdl_slice shown = cdl_resp_shown(text);
    uint64_t number;
    if (!is_digits(cdl_slice_from(text, negative)))
        cdl_resp_error_about(call, name, ": '", text, "' is not a whole number");
    else if (negative || (cdl_resp_read_u64(text, &number) && number < least))
        cdl_resp_error(call, "ERR %s: %.*s is below %" PRIu64, name, CDL_SLICE_ARG(shown), least);
    else
        cdl_resp_error(call, "ERR %s: %.*s is above %" PRIu64, name, CDL_SLICE_ARG(shown), most);
}

/* Reads an argument that is a whole number. False: it is not one of these, and the client is told. */
static bool read_number(struct cdl_resp_call *call, size_t index, const char *name, uint64_t least, uint64_t most,
                        uint64_t *number)
{
    const struct cdl_slice text = call->arguments[index];
    if (cdl_resp_read_u64(text, number) && *number >= least && *number <= most)
        return true;
    refuse_number(call, text, name, least, most);
    return false;
}

/* Reads seconds that may have a fraction, as exact nanoseconds. */
static bool read_seconds(struct cdl_resp_call *call, size_t index, const char *name, uint64_t *ns)
{
    const struct cdl_slice text = call->arguments[index];
    const char *point = text.length > 0 ? memchr(text.bytes, '.', text.length) : NULL;
    const struct cdl_slice whole = point == NULL ? text : cdl_slice_head(text, (size_t)(point - text.bytes));
    const struct cdl_slice part = point == NULL ? CDL_SLICE("0") : cdl_slice_from(text, whole.length + 1);
    uint64_t seconds = 0, fraction = 0;
    if (!is_digits(whole) || !is_digits(part)) {
        cdl_resp_error_about(call, name, ": '", text, "' is not a number of seconds");
        return false;
    }
    for (size_t i = 0; i < whole.length && seconds <= PERIOD_MAX_S; i++)
        seconds = 10 * seconds + (uint64_t)(whole.bytes[i] - '0');
    for (size_t i = 0; i < 9; i++)
        fraction = 10 * fraction + (i < part.length ? (uint64_t)(part.bytes[i] - '0') : 0);
    for (size_t i = 9; i < part.length; i++)
        if (part.bytes[i] != '0') {
            cdl_resp_error_about(call, name, ": '", text, "' is finer than a nanosecond");
            return false;
        }
    *ns = seconds * (uint64_t)CDL_NS_PER_S + fraction;
    if (*ns > 0 && *ns <= CAUDAL_REFILL_MAX_NS)
        return true;
    cdl_resp_error_about(call, name, ": '", text, "' is not above 0 and at most 100 years");
    return false;
}

/* ---- questions ---- */

static bool read_period(struct cdl_resp_call *call, const struct shape *shape, uint64_t *ns)
{
    uint64_t seconds;
    if (shape->parts_of_seconds)
        return read_seconds(call, 4, shape->period, ns);
    if (!read_number(call, 4, shape->period, 1, PERIOD_MAX_S, &seconds))
        return false;
    *ns = seconds * (uint64_t)CDL_NS_PER_S;
    return true;
}

/* Reads burst, count and period. False: they are no limit, and the client is told. */
static bool read_limit(struct cdl_resp_call *call, const struct shape *shape, struct caudal_limit *limit)
{
    const uint64_t burst_max = CAUDAL_CAPACITY_MAX - shape->beyond_burst;
    struct caudal_problem problem;
    uint64_t burst;
    *limit = (struct caudal_limit){.size = sizeof *limit, .algorithm = CAUDAL_TOKEN_BUCKET};
    if (!read_number(call, 2, shape->burst, shape->burst_min, burst_max, &burst) ||
        !read_number(call, 3, shape->count, 1, INT64_MAX, &limit->count) ||
        !read_period(call, shape, &limit->period_ns))
        return false;
    limit->burst = burst + shape->beyond_burst;
    if (caudal_limit_check(limit, &problem) == CAUDAL_OK)
        return true;
    /* Each number may be what it is: it is too fast, above a token a nanosecond, or too much to come back within 100 years. */
    const bool too_fast = limit->count > limit->period_ns;
    cdl_resp_error(call, "ERR %s: %s", too_fast ? shape->count : shape->burst, problem.message);
    return false;
}

static void ask(struct cdl_resp_call *call, const struct caudal_limit *limit, uint64_t cost)
{
    struct cdl_worker *worker = call->worker;
    const struct cdl_policy *policy = worker->live->policy;
    struct cdl_plan *plan = &worker->asker.answer.plan;
    const enum cdl_ask kind = cost > 0 ? CDL_ASK_TAKE : CDL_ASK_PEEK;
    size_t length;
    if (cdl_policy_key(&call->arguments[1], 1, worker->asker.scratch, CDL_MATCH_SCRATCH_BYTES, &length) != CAUDAL_OK) {
        cdl_resp_error(call, "ERR key: longer than %u bytes", CAUDAL_KEY_MAX - KEY_FRAME_BYTES);
        return;
    }
    plan->outcome = CDL_OUTCOME_LIMITED;
    plan->exemption = plan->limit = plan->identity = CDL_NONE;
    plan->shadow_refusals = 0;
    plan->count = 1;
    plan->charges[0] = (struct cdl_charge){
        .limit = policy->resp.limit,
        .override = CDL_NONE,
        .rate = policy->limits[policy->resp.limit].rate,
        .key = {worker->asker.scratch, length},
        .cost = cost,
        .per_call = *limit,
    };
    cdl_resp_answer(call, cdl_limiter_ask_plan(&worker->asker, worker->live, kind), cost > 0);
}

void cdl_resp_expect(const struct cdl_resp_call *call, struct cdl_slice key, struct cdl_expected *expected)
{
    struct cdl_worker *worker = call->worker;
    const struct cdl_live_policy *live = worker->live;
    size_t length;
    if (live->store->ops->expect == NULL ||
        cdl_policy_key(&key, 1, worker->asker.scratch, CDL_MATCH_SCRATCH_BYTES, &length) != CAUDAL_OK)
        return;
    const uint32_t rate = live->policy->limits[live->policy->resp.limit].rate;
    cdl_store_expect(live->store, &(struct caudal_request){live->rates[rate], worker->asker.scratch, length, 0},
                     expected);
}

/* Asks by the shape's arguments. `cost_at`: which argument says how much, if there are so many. */
static void read_and_ask(struct cdl_resp_call *call, const struct shape *shape, size_t cost_at)
{
    struct caudal_limit limit;
    uint64_t cost = 1;
    if (read_limit(call, shape, &limit) &&
        (call->count <= cost_at || read_number(call, cost_at, shape->cost, 0, INT64_MAX, &cost)))
        ask(call, &limit, cost);
}

void cdl_resp_cl_throttle(struct cdl_resp_call *call)
{
    if (call->count > 6)
        cdl_resp_error_arity(call);
    else
        read_and_ask(call, &cl_throttle, 5);
}

void cdl_resp_throttle(struct cdl_resp_call *call)
{
    if (call->count > 6)
        cdl_resp_error_arity(call);
    else
        read_and_ask(call, &throttle, 5);
}

void cdl_resp_gcra(struct cdl_resp_call *call)
{
    if (call->count == 6 || call->count > 7)
        cdl_resp_error_arity(call);
    else if (call->count == 7 && !cdl_slice_equal_nocase(call->arguments[5], CDL_SLICE("TOKENS")))
        cdl_resp_error_about(call, "expected TOKENS", ", found '", call->arguments[5], "'");
    else
        read_and_ask(call, &gcra, 6);
}

/* ---- answers ---- */

static int64_t seconds_up(int64_t ns)
{
    return ns < 0 ? -1 : (int64_t)cdl_seconds_up(ns);
}

/* Tokens, of which there may be no number. */
static int64_t tokens(uint64_t number)
{
    return number == UINT64_MAX ? -1 : (int64_t)number;
}

/* A local share's capacity is its own; nobody else's is known while the store is away. */
static int64_t capacity_of(const struct cdl_answer *answer)
{
    const uint64_t capacity = answer->overall.capacity;
    return (int64_t)(capacity == UINT64_MAX ? answer->plan.charges[0].per_call.burst : capacity);
}

void cdl_resp_tell_cl_throttle(struct cdl_writer *output, unsigned protocol, const struct cdl_answer *answer)
{
    (void)protocol;
    const struct caudal_decision *decision = &answer->overall;
    if (answer->kind == CDL_ANSWER_UNAVAILABLE) {
        cdl_resp_tell_unavailable(output, answer);
        return;
    }
    const bool limited = answer->kind == CDL_ANSWER_REFUSED;
    const int64_t numbers[] = {limited, capacity_of(answer), tokens(decision->remaining),
                               limited ? seconds_up(decision->retry_after_ns) : -1,
                               seconds_up(decision->reset_after_ns)};
    cdl_resp_write_integers(output, numbers, sizeof numbers / sizeof numbers[0]);
}

void cdl_resp_tell_throttle(struct cdl_writer *output, unsigned protocol, const struct cdl_answer *answer)
{
    (void)protocol;
    const struct caudal_decision *decision = &answer->overall;
    if (answer->kind == CDL_ANSWER_UNAVAILABLE) {
        cdl_resp_tell_unavailable(output, answer);
        return;
    }
    const bool allowed = answer->kind == CDL_ANSWER_ALLOWED;
    const int64_t numbers[] = {allowed, capacity_of(answer), tokens(decision->remaining),
                               seconds_up(decision->reset_after_ns),
                               allowed ? 0 : seconds_up(decision->retry_after_ns)};
    cdl_resp_write_integers(output, numbers, sizeof numbers / sizeof numbers[0]);
}
