#include "server/reply.h"

#include "policy/domain.h"
#include "wire/json_api.h"

#define LINES_BYTES ((size_t)16 * 1024)

struct cdl_slice cdl_reply_name(const struct cdl_limit_rule *limit)
{
    const struct cdl_descriptor_rule *rule = limit->descriptor;
    return rule != NULL && rule->label.length > 0 ? rule->label : limit->name;
}

/* An override is told by the rate that it has, under its limit's name, and a local share by what is this instance's. */
static struct cdl_fields_policy policy_of(const struct cdl_answer *answer, const struct cdl_charge *charge)
{
    const struct caudal_limit limit = cdl_answer_limit(answer, charge, &answer->overall);
    return cdl_fields_policy_of(cdl_reply_name(&answer->live->policy->limits[charge->limit]), &limit);
}

void cdl_reply_fields(const struct cdl_answer *answer, int64_t now_ns, struct cdl_writer *lines)
{
    /* An answer that the store did not give has no numbers. */
    if (answer->binding == CDL_NONE || answer->overall.source == CAUDAL_SOURCE_FAILURE_POLICY)
        return;
    const struct cdl_charge *charge = &answer->plan.charges[answer->binding];
    const struct cdl_fields_policy policy = policy_of(answer, charge);
    const struct cdl_fields_answer fields = {
        .policies = &policy,
        .policy_count = 1,
        .decision = &answer->overall,
        .cost = charge->cost,
        .now_ns = now_ns,
    };
    cdl_fields_write(lines, answer->live->policy->fields, &fields);
}

/* Spread over the clients of a limit, and the same for one client whenever it asks. */
static uint64_t hash_of(const struct cdl_charge *charge)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ charge->limit;
    for (size_t i = 0; i < charge->key.length; i++)
        hash = (hash ^ (unsigned char)charge->key.bytes[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

uint64_t cdl_reply_retry_after(const struct cdl_answer *answer)
{
    if (answer->binding == CDL_NONE)
        return 0;
    const struct cdl_charge *charge = &answer->plan.charges[answer->binding];
    const int64_t jitter_s = answer->live->policy->limits[charge->limit].jitter_ns / CDL_NS_PER_S;
    return cdl_retry_after_seconds(&answer->overall, (uint32_t)jitter_s, hash_of(charge));
}

static void write_status(struct cdl_writer *lines, unsigned status, struct cdl_slice limit)
{
    cdl_write_text(lines, "Cache-Control: no-store\r\nCaudal-Status: ");
    cdl_write_u64(lines, status);
    if (limit.length > 0) {
        cdl_write_text(lines, "\r\nCaudal-Limit: ");
        cdl_fields_write_name(lines, limit);
    }
    cdl_write_text(lines, "\r\n");
}

static void refuse(struct cdl_exchange *exchange, const struct cdl_answer *answer, bool deny_as_403)
{
    const struct cdl_live_policy *live = answer->live;
    char text[LINES_BYTES];
    struct cdl_writer lines = cdl_writer_on(text, sizeof text);
    struct cdl_writer body = cdl_writer_on(exchange->worker->body, CDL_BODY_BYTES);
    struct cdl_json_decision limits[CDL_PLAN_MAX];
    size_t count = 0;
    for (size_t i = 0; i < answer->plan.count; i++) {
        const struct cdl_limit_rule *limit = &live->policy->limits[answer->plan.charges[i].limit];
        if (limit->mode == CDL_MODE_ENFORCE) /* one in shadow mode refuses nothing */
            limits[count++] = (struct cdl_json_decision){limit->name, &answer->decisions[i]};
    }
    const struct cdl_json_decision overall = {live->policy->limits[answer->plan.charges[answer->binding].limit].name,
                                              &answer->overall};
    const uint64_t seconds = cdl_reply_retry_after(answer);
    write_status(&lines, 429, overall.limit);
    cdl_retry_after_write(&lines, seconds);
    cdl_reply_fields(answer, cdl_server_now_ns(exchange->worker->server), &lines);
    cdl_json_write_refusal(&body, 429, &overall, limits, count, seconds);
    cdl_exchange_reply(exchange, deny_as_403 ? 403 : 429, CDL_TYPE_PROBLEM, cdl_written(&lines), cdl_written(&body));
}

void cdl_reply_problem(struct cdl_exchange *exchange, unsigned status, bool deny_as_403, struct cdl_slice limit,
                       const char *detail)
{
    char line_text[1024], body_text[4096];
    struct cdl_writer lines = cdl_writer_on(line_text, sizeof line_text);
    struct cdl_writer body = cdl_writer_on(body_text, sizeof body_text);
    write_status(&lines, status, limit);
    cdl_json_write_problem(&body, status, cdl_slice_of(detail));
    cdl_exchange_reply(exchange, deny_as_403 ? 403 : status, CDL_TYPE_PROBLEM, cdl_written(&lines), cdl_written(&body));
}

unsigned cdl_reply_why(const struct cdl_live_policy *live, const struct cdl_plan *plan, struct cdl_writer *why)
{
    const struct cdl_limit_rule *limit = plan->limit != CDL_NONE ? &live->policy->limits[plan->limit] : NULL;
    const struct cdl_slice name = limit != NULL ? limit->name : CDL_SLICE("");
    const struct cdl_slice identity = limit != NULL && plan->identity < limit->per_count
                                          ? limit->per[plan->identity].text
                                          : CDL_SLICE("an identity");
    switch (plan->outcome) {
    case CDL_OUTCOME_MISSING:
        cdl_writef(why, "limit '%.*s' counts by %.*s, which the request does not have", CDL_SLICE_ARG(name),
                   CDL_SLICE_ARG(identity));
        return 403;
    case CDL_OUTCOME_AMBIGUOUS:
        cdl_writef(why, "limit '%.*s' counts by %.*s, of which the request has two", CDL_SLICE_ARG(name),
                   CDL_SLICE_ARG(identity));
        return 400;
    case CDL_OUTCOME_TOO_MANY:
        cdl_writef(why, "more than %u limits of the policy apply to the request", CDL_PLAN_MAX);
        return 500;
    default:
        cdl_writef(why, "what limit '%.*s' counts by is too long", CDL_SLICE_ARG(name));
        return 400;
    }
}

static void refuse_unasked(struct cdl_exchange *exchange, const struct cdl_answer *answer, bool deny_as_403)
{
    const struct cdl_live_policy *live = answer->live;
    const uint32_t limit = answer->plan.limit;
    char detail[512];
    struct cdl_writer why = cdl_writer_on(detail, sizeof detail - 1);
    const unsigned status = cdl_reply_why(live, &answer->plan, &why);
    detail[why.length] = '\0';
    cdl_reply_problem(exchange, status, deny_as_403,
                      limit != CDL_NONE ? live->policy->limits[limit].name : CDL_SLICE(""), detail);
}

void cdl_reply(struct cdl_exchange *exchange, const struct cdl_answer *answer, bool deny_as_403)
{
    if (answer->kind == CDL_ANSWER_ALLOWED) {
        char text[LINES_BYTES];
        struct cdl_writer lines = cdl_writer_on(text, sizeof text);
        cdl_reply_fields(answer, cdl_server_now_ns(exchange->worker->server), &lines);
        cdl_exchange_reply(exchange, 200, CDL_SLICE(""), cdl_written(&lines), CDL_SLICE(""));
    } else if (answer->kind == CDL_ANSWER_UNAVAILABLE) {
        const struct cdl_charge *charge = &answer->plan.charges[answer->binding];
        cdl_reply_problem(exchange, 503, deny_as_403, answer->live->policy->limits[charge->limit].name,
                          CDL_REPLY_STORE_AWAY);
    } else if (answer->binding == CDL_NONE) {
        refuse_unasked(exchange, answer, deny_as_403);
    } else {
        refuse(exchange, answer, deny_as_403);
    }
}
