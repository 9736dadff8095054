/* The limits of the policy: CAUDAL.TAKE, PEEK and REFUND of one by its name, CAUDAL.CHECK of all that apply.
 *
 * Replies say what the JSON API says, in its words and units. How many parts a key has is known from the limit, so "COST n" behind them is
 * never mistaken for one. */
#include "server/reply.h"
#include "server/resp.h"
#include "wire/json_api.h"
#include "wire/ratelimit_fields.h"

/* ---- answers ---- */

static void write_key(struct cdl_writer *output, const char *key)
{
    cdl_resp_write_bulk(output, cdl_slice_of(key));
}

static void write_text(struct cdl_writer *output, const char *key, struct cdl_slice text)
{
    write_key(output, key);
    cdl_resp_write_bulk(output, text);
}

static void write_tokens(struct cdl_writer *output, unsigned protocol, const char *key, uint64_t tokens)
{
    write_key(output, key);
    if (tokens == UINT64_MAX)
        cdl_resp_write_null(output, protocol);
    else
        cdl_resp_write_integer(output, (int64_t)cdl_min_u64(tokens, INT64_MAX));
}

static void write_wait(struct cdl_writer *output, unsigned protocol, const char *key, int64_t wait)
{
    write_key(output, key);
    if (wait < 0)
        cdl_resp_write_null(output, protocol);
    else
        cdl_resp_write_integer(output, wait);
}

/* The members of a decision; `limit` may be empty: none speaks. */
#define DECISION_MEMBERS 10u

static void write_decision(struct cdl_writer *output, unsigned protocol, struct cdl_slice limit,
                           const struct caudal_decision *decision, const char *source)
{
    const int64_t retry_ns = decision->retry_after_ns;
    write_text(output, "verdict", cdl_slice_of(cdl_verdict_word(decision->verdict)));
    write_key(output, "limit");
    if (limit.length == 0)
        cdl_resp_write_null(output, protocol);
    else
        cdl_resp_write_bulk(output, limit);
    write_tokens(output, protocol, "remaining", decision->remaining);
    write_tokens(output, protocol, "capacity", decision->capacity);
    write_tokens(output, protocol, "granted", decision->granted);
    write_wait(output, protocol, "retry_after", retry_ns < 0 ? -1 : (int64_t)cdl_seconds_up(retry_ns));
    write_wait(output, protocol, "retry_after_ns", retry_ns);
    write_wait(output, protocol, "reset_after_ns", decision->reset_after_ns);
    write_text(output, "source", cdl_slice_of(source));
    write_tokens(output, protocol, "error_bound", decision->error_bound);
}

void cdl_resp_write_decision(struct cdl_writer *output, unsigned protocol, struct cdl_slice limit,
                             const struct caudal_decision *decision)
{
    cdl_resp_write_map(output, protocol, DECISION_MEMBERS);
    write_decision(output, protocol, limit, decision, cdl_source_word(decision->source));
}

static struct cdl_slice name_of(const struct cdl_answer *answer, size_t charge)
{
    return answer->live->policy->limits[answer->plan.charges[charge].limit].name;
}

void cdl_resp_tell_named(struct cdl_writer *output, unsigned protocol, const struct cdl_answer *answer)
{
    if (answer->kind == CDL_ANSWER_UNAVAILABLE)
        cdl_resp_tell_unavailable(output, answer);
    else
        cdl_resp_write_decision(output, protocol, name_of(answer, 0), &answer->overall);
}

/* A limit of several that has no verdict: one in shadow mode, whose failure is nobody's answer. */
static void write_failed(struct cdl_writer *output, unsigned protocol, const struct cdl_answer *answer, size_t charge)
{
    cdl_resp_write_map(output, protocol, 2);
    write_text(output, "error", cdl_slice_of(caudal_status_text(answer->decisions[charge].status)));
    write_text(output, "limit", name_of(answer, charge));
}

static void write_limits(struct cdl_writer *output, unsigned protocol, const struct cdl_answer *answer)
{
    write_key(output, "limits");
    cdl_resp_write_array(output, answer->plan.count);
    for (size_t i = 0; i < answer->plan.count; i++) {
        if (answer->decisions[i].verdict == CAUDAL_NO_VERDICT)
            write_failed(output, protocol, answer, i);
        else
            cdl_resp_write_decision(output, protocol, name_of(answer, i), &answer->decisions[i]);
    }
}

/* A refusal by the policy itself: no store was asked, so there are no numbers, but there is a reason. */
static void tell_unasked(struct cdl_writer *output, unsigned protocol, const struct cdl_answer *answer)
{
    static const struct caudal_decision refusal = {.verdict = CAUDAL_NEVER,
                                                   .capacity = UINT64_MAX,
                                                   .remaining = UINT64_MAX,
                                                   .retry_after_ns = -1,
                                                   .reset_after_ns = -1,
                                                   .error_bound = UINT64_MAX};
    const uint32_t limit = answer->plan.limit;
    char text[512];
    struct cdl_writer why = cdl_writer_on(text, sizeof text);
    cdl_reply_why(answer->live, &answer->plan, &why);
    cdl_resp_write_map(output, protocol, DECISION_MEMBERS + 2);
    write_decision(output, protocol, limit != CDL_NONE ? answer->live->policy->limits[limit].name : CDL_SLICE(""),
                   &refusal, "policy");
    write_text(output, "reason", cdl_written(&why));
    write_key(output, "limits");
    cdl_resp_write_array(output, 0);
}

void cdl_resp_tell_policy(struct cdl_writer *output, unsigned protocol, const struct cdl_answer *answer)
{
    if (answer->kind == CDL_ANSWER_UNAVAILABLE) {
        cdl_resp_tell_unavailable(output, answer);
        return;
    }
    if (answer->kind == CDL_ANSWER_REFUSED && answer->binding == CDL_NONE) {
        tell_unasked(output, protocol, answer);
        return;
    }
    cdl_resp_write_map(output, protocol, DECISION_MEMBERS + 1);
    write_decision(output, protocol, answer->binding != CDL_NONE ? name_of(answer, answer->binding) : CDL_SLICE(""),
                   &answer->overall, cdl_source_word(answer->overall.source));
    write_limits(output, protocol, answer);
}

/* ---- arguments ---- */

/* Reads the n of "COST n". False: it is no number, and the client is told. */
static bool read_cost(struct cdl_resp_call *call, struct cdl_slice text, uint64_t *cost)
{
    if (cdl_resp_read_u64(text, cost) && *cost <= INT64_MAX)
        return true;
    cdl_resp_error_about(call, "COST", ": '", text, "' is not a whole number of 64 bits");
    return false;
}

/* Whether the command ends in "COST n". */
static bool ends_in_cost(const struct cdl_resp_call *call)
{
    return call->count >= 3 && cdl_slice_equal_nocase(call->arguments[call->count - 2], CDL_SLICE("COST"));
}

static bool check_parts(struct cdl_resp_call *call, const struct cdl_limit_rule *limit, const struct cdl_named_key *key)
{
    size_t bytes = 0;
    if (key->value_count != limit->per_count) {
        cdl_resp_error(call, "ERR a key of limit '%.*s' has parts: %u, not %zu", CDL_SLICE_ARG(limit->name),
                       limit->per_count, key->value_count);
        return false;
    }
    for (size_t i = 0; i < key->value_count; i++) {
        bytes += key->values[i].length;
        if (key->values[i].length > 0)
            continue;
        cdl_resp_error(call, "ERR key: part %zu is empty, which would be one bucket for all who have none", i + 1);
        return false;
    }
    if (bytes > CAUDAL_KEY_MAX)
        cdl_resp_error(call, "ERR key: longer than %u bytes", CAUDAL_KEY_MAX);
    return bytes <= CAUDAL_KEY_MAX;
}

bool cdl_resp_read_named(struct cdl_resp_call *call, bool may_cost, struct cdl_named_key *key, uint64_t *cost)
{
    const struct cdl_policy *policy = call->worker->live->policy;
    *key = (struct cdl_named_key){cdl_policy_find(policy, call->arguments[1]), &call->arguments[2], call->count - 2};
    *cost = 1;
    if (key->limit == CDL_NONE) {
        cdl_resp_error_about(call, "unknown limit", " '", call->arguments[1], "'");
        return false;
    }
    const struct cdl_limit_rule *limit = &policy->limits[key->limit];
    if (may_cost && key->value_count == limit->per_count + 2 && ends_in_cost(call)) {
        key->value_count -= 2;
        if (!read_cost(call, call->arguments[call->count - 1], cost))
            return false;
    }
    return check_parts(call, limit, key);
}

/* ---- one limit ---- */

static void ask_named(struct cdl_resp_call *call, enum cdl_ask ask)
{
    struct cdl_worker *worker = call->worker;
    struct cdl_named_key key;
    uint64_t cost;
    if (!cdl_resp_read_named(call, true, &key, &cost))
        return;
    struct cdl_inquiry *inquiry = cdl_limiter_ask_named(&worker->asker, worker->live, &key, ask, cost);
    const struct cdl_answer *answer = &worker->asker.answer;
    if (inquiry == NULL && answer->plan.count == 0)
        cdl_resp_error(call, "ERR key: %s", caudal_status_text(answer->overall.status));
    else
        cdl_resp_answer(call, inquiry, ask == CDL_ASK_TAKE);
}

void cdl_resp_take(struct cdl_resp_call *call)
{
    ask_named(call, CDL_ASK_TAKE);
}

void cdl_resp_peek(struct cdl_resp_call *call)
{
    ask_named(call, CDL_ASK_PEEK);
}

void cdl_resp_refund(struct cdl_resp_call *call)
{
    ask_named(call, CDL_ASK_REFUND);
}

/* ---- all of them ---- */

static bool is_given_twice(const struct cdl_field *attributes, size_t count, struct cdl_slice name)
{
    for (size_t i = 0; i < count; i++)
        if (cdl_slice_equal(attributes[i].name, name))
            return true;
    return false;
}

bool cdl_resp_read_attributes(struct cdl_resp_call *call, struct cdl_field attributes[CDL_JSON_ATTRIBUTES_MAX],
                              size_t *count, uint64_t *cost)
{
    size_t end = call->count;
    *count = 0;
    *cost = CDL_COST_UNSAID;
    if (ends_in_cost(call)) {
        end -= 2;
        if (!read_cost(call, call->arguments[call->count - 1], cost))
            return false;
    }
    if (end % 2 == 0) {
        cdl_resp_error_about(call, "the attribute", " '", call->arguments[end - 1], "' has no value");
        return false;
    }
    for (size_t i = 1; i < end; i += 2) {
        const struct cdl_field attribute = {call->arguments[i], call->arguments[i + 1]};
        if (*count == CDL_JSON_ATTRIBUTES_MAX) {
            cdl_resp_error(call, "ERR more than %d attributes", CDL_JSON_ATTRIBUTES_MAX);
            return false;
        }
        if (is_given_twice(attributes, *count, attribute.name)) {
            cdl_resp_error_about(call, "the attribute", " '", attribute.name, "' is given twice");
            return false;
        }
        attributes[(*count)++] = attribute;
    }
    return true;
}

void cdl_resp_check(struct cdl_resp_call *call)
{
    struct cdl_worker *worker = call->worker;
    struct cdl_field attributes[CDL_JSON_ATTRIBUTES_MAX];
    struct cdl_request request = {.attributes = attributes};
    uint64_t cost;
    if (cdl_resp_read_attributes(call, attributes, &request.attribute_count, &cost))
        cdl_resp_answer(call, cdl_limiter_ask(&worker->asker, worker->live, &request, CDL_ASK_TAKE, cost), true);
}
