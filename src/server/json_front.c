/* The JSON API: POST /v1/take, /v1/peek and /v1/refund. */
#include "identity/path.h"
#include "server/original.h"
#include "server/reply.h"
#include "wire/json_api.h"

/* The attributes stand for what a request has by itself, and are all that is known of this one. */
static void ask_policy(struct cdl_worker *worker, const struct cdl_json_request *question,
                       enum cdl_named_operation operation)
{
    const struct cdl_request request = {
        .attributes = question->attributes,
        .attribute_count = question->attribute_count,
    };
    const uint64_t cost = question->has_cost ? question->cost : CDL_COST_UNSAID;
    if (operation == CDL_NAMED_TAKE) {
        cdl_limiter_take(worker->live, &request, cost, worker->scratch, &worker->answer);
        cdl_account(worker, &worker->answer);
    } else if (operation == CDL_NAMED_PEEK) {
        cdl_limiter_peek(worker->live, &request, cost, worker->scratch, &worker->answer);
    } else {
        cdl_limiter_refund(worker->live, &request, cost, worker->scratch, &worker->answer);
    }
}

/* 0, or the status of an error that has been described in `detail`. */
static unsigned ask_limit(struct cdl_worker *worker, const struct cdl_json_request *question,
                          enum cdl_named_operation operation, struct caudal_decision *decision,
                          struct cdl_writer *detail)
{
    const struct cdl_policy *policy = worker->live->policy;
    const uint32_t index = cdl_policy_find(policy, question->limit);
    if (index == CDL_NONE) {
        cdl_writef(detail, "there is no limit '%.*s'",
                   CDL_SLICE_ARG(cdl_slice_head(question->limit, cdl_min_u64(question->limit.length, 100))));
        return 404;
    }
    for (size_t i = 0; i < question->key_part_count; i++)
        if (question->key_parts[i].length == 0) {
            cdl_write_text(detail, "key: empty, which would be one bucket for all who have none");
            return 400;
        }
    const struct cdl_named_key key = {index, question->key_parts, question->key_part_count};
    const int status = cdl_limiter_named(worker->live, &key, operation, question->cost, worker->scratch, decision);
    if (operation == CDL_NAMED_TAKE && status != CAUDAL_ERR_ARGUMENT && status != CAUDAL_ERR_KEY)
        cdl_account_named(worker, index, decision);
    if (status == CAUDAL_ERR_ARGUMENT) {
        cdl_writef(detail, "a key of limit '%.*s' has %u parts, not %zu", CDL_SLICE_ARG(question->limit),
                   policy->limits[index].per_count, question->key_part_count);
        return 400;
    }
    if (status != CAUDAL_OK) {
        cdl_write_text(detail, caudal_status_text(status));
        return status == CAUDAL_ERR_KEY ? 400 : 503;
    }
    return 0;
}

static unsigned status_of(const struct caudal_decision *decision)
{
    if (decision->status != CAUDAL_OK)
        return 503;
    return decision->verdict == CAUDAL_ALLOW ? 200 : 429;
}

static void reply_with(struct cdl_exchange *exchange, unsigned status, struct cdl_slice lines,
                       const struct cdl_writer *body)
{
    if (body->overflow)
        cdl_exchange_problem(exchange, 500, "the answer is too long");
    else
        cdl_exchange_reply(exchange, status, CDL_TYPE_JSON, lines, cdl_written(body));
}

/* What the store decided, with all limits that applied; 429 when it refused, as by a limit's name. What nobody was asked about, or
 * could answer, is a problem like those of /check. */
static void reply_policy(struct cdl_exchange *exchange)
{
    struct cdl_worker *worker = exchange->worker;
    const struct cdl_answer *answer = &worker->answer;
    const bool refused = answer->kind == CDL_ANSWER_REFUSED;
    if (answer->kind == CDL_ANSWER_UNAVAILABLE || (refused && answer->binding == CDL_NONE)) {
        cdl_reply(exchange, answer, false);
        return;
    }
    char text[16 * 1024];
    struct cdl_writer lines = cdl_writer_on(text, sizeof text);
    cdl_write_text(&lines, "Cache-Control: no-store\r\n");
    cdl_retry_after_write(&lines, cdl_reply_retry_after(worker->live, answer));
    cdl_reply_fields(worker->live, answer, cdl_server_now_ns(worker->server), &lines);
    struct cdl_json_decision limits[CDL_PLAN_MAX];
    for (size_t i = 0; i < answer->plan.count; i++)
        limits[i] = (struct cdl_json_decision){worker->live->policy->limits[answer->plan.charges[i].limit].name,
                                               &answer->decisions[i]};
    struct cdl_json_decision overall = {{NULL, 0}, &answer->overall};
    if (answer->binding != CDL_NONE)
        overall.limit = limits[answer->binding].limit;
    struct cdl_writer body = cdl_writer_on(worker->body, CDL_BODY_BYTES);
    cdl_json_write_decision(&body, &overall, limits, answer->plan.count);
    reply_with(exchange, refused ? 429 : 200, cdl_written(&lines), &body);
}

static void reply_single(struct cdl_exchange *exchange, const struct cdl_json_request *question,
                         enum cdl_named_operation operation)
{
    char detail_text[512];
    struct cdl_writer detail = cdl_writer_on(detail_text, sizeof detail_text - 1);
    struct cdl_worker *worker = exchange->worker;
    if (question->limit.length == 0) {
        ask_policy(worker, question, operation);
        reply_policy(exchange);
        return;
    }
    struct caudal_decision decision;
    const unsigned error = ask_limit(worker, question, operation, &decision, &detail);
    if (error != 0) {
        detail_text[detail.length] = '\0';
        cdl_exchange_problem(exchange, error, "%s", detail_text);
        return;
    }
    const struct cdl_json_decision told = {question->limit, &decision};
    struct cdl_writer body = cdl_writer_on(worker->body, CDL_BODY_BYTES);
    cdl_json_write_decision(&body, &told, &told, 1);
    char text[256];
    struct cdl_writer lines = cdl_writer_on(text, sizeof text);
    cdl_write_text(&lines, "Cache-Control: no-store\r\n");
    cdl_retry_after_write(&lines, cdl_retry_after_seconds(&decision, 0, 0));
    reply_with(exchange, status_of(&decision), cdl_written(&lines), &body);
}

/* One question of a batch, answered in short: without the list of all limits, so that an answer always fits. What went wrong with it
 * goes to `detail`. */
static void answer_short(struct cdl_worker *worker, const struct cdl_json_request *question,
                         enum cdl_named_operation operation, struct cdl_writer *body, struct cdl_writer *detail)
{
    struct caudal_decision decision = {.status = CAUDAL_OK};
    struct cdl_json_decision told = {question->limit, &decision};
    if (question->limit.length > 0) {
        ask_limit(worker, question, operation, &decision, detail);
    } else {
        const struct cdl_answer *answer = &worker->answer;
        ask_policy(worker, question, operation);
        decision = answer->overall;
        told.limit = (struct cdl_slice){NULL, 0};
        if (answer->binding != CDL_NONE)
            told.limit = worker->live->policy->limits[answer->plan.charges[answer->binding].limit].name;
        else if (answer->kind == CDL_ANSWER_REFUSED)
            cdl_reply_why(worker->live, &answer->plan, detail);
    }
    if (detail->length == 0) {
        cdl_json_write_decision(body, &told, NULL, 0);
        return;
    }
    cdl_write_text(body, "{\"error\":");
    cdl_json_write_string(body, cdl_written(detail));
    cdl_write_text(body, "}");
}

/* Each request of a batch is answered by itself; the batch as a whole is 200 whatever they say. */
static void reply_batch(struct cdl_exchange *exchange, const struct cdl_json_body *questions,
                        enum cdl_named_operation operation)
{
    struct cdl_worker *worker = exchange->worker;
    struct cdl_writer body = cdl_writer_on(worker->body, CDL_BODY_BYTES);
    cdl_json_begin_batch(&body);
    for (size_t i = 0; i < questions->count; i++) {
        char text[512];
        struct cdl_writer detail = cdl_writer_on(text, sizeof text);
        struct cdl_json_request question;
        cdl_json_request(questions, i, &question);
        cdl_json_next(&body, i);
        answer_short(worker, &question, operation, &body, &detail);
    }
    cdl_json_end_batch(&body);
    reply_with(exchange, 200, CDL_SLICE("Cache-Control: no-store\r\n"), &body);
}

void cdl_json_api(struct cdl_exchange *exchange, enum cdl_named_operation operation)
{
    if (!cdl_exchange_allows(exchange, "POST"))
        return;
    struct caudal_problem problem;
    struct cdl_json_body questions;
    if (cdl_json_parse(exchange->request->body, &questions, &problem) != CAUDAL_OK) {
        cdl_exchange_problem(exchange, 400, "%s", problem.message);
        return;
    }
    struct cdl_json_request first;
    cdl_json_request(&questions, 0, &first);
    if (questions.is_batch)
        reply_batch(exchange, &questions, operation);
    else
        reply_single(exchange, &first, operation);
    cdl_json_free(&questions);
}
