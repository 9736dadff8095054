/* The JSON API: POST /v1/take, /v1/peek and /v1/refund. */
#include "identity/path.h"
#include "server/original.h"
#include "server/reply.h"
#include "wire/json_api.h"

/* ---- questions ---- */

/* The attributes stand for what a request has by itself, and are all that is known of this one. */
static struct cdl_inquiry *ask_policy(struct cdl_worker *worker, const struct cdl_json_request *question,
                                      enum cdl_ask ask)
{
    const struct cdl_request request = {
        .attributes = question->attributes,
        .attribute_count = question->attribute_count,
    };
    return cdl_limiter_ask(&worker->asker, worker->live, &request, ask,
                           question->has_cost ? question->cost : CDL_COST_UNSAID);
}

static struct cdl_inquiry *ask_question(struct cdl_worker *worker, const struct cdl_json_request *question,
                                        enum cdl_ask ask)
{
    if (question->limit.length == 0)
        return ask_policy(worker, question, ask);
    const struct cdl_named_key key = {cdl_policy_find(worker->live->policy, question->limit), question->key_parts,
                                      question->key_part_count};
    return cdl_limiter_ask_named(&worker->asker, worker->live, &key, ask, question->cost);
}

/* ---- what went wrong ---- */

static bool has_empty_part(const struct cdl_json_request *question)
{
    for (size_t i = 0; i < question->key_part_count; i++)
        if (question->key_parts[i].length == 0)
            return true;
    return false;
}

/* Why one limit, asked by its name, has no verdict: the status for it, and in words. */
static unsigned explain_named(const struct cdl_json_request *question, const struct cdl_answer *answer,
                              struct cdl_writer *detail)
{
    const struct cdl_slice name = cdl_slice_head(question->limit, cdl_min_u64(question->limit.length, 100));
    if (answer->plan.count > 0) {
        cdl_write_text(detail, CDL_REPLY_STORE_AWAY);
        return 503;
    }
    switch (answer->overall.status) {
    case CAUDAL_ERR_UNKNOWN:
        cdl_writef(detail, "there is no limit '%.*s'", CDL_SLICE_ARG(name));
        return 404;
    case CAUDAL_ERR_ARGUMENT:
        if (has_empty_part(question)) {
            cdl_write_text(detail, "key: empty, which would be one bucket for all who have none");
            return 400;
        }
        const struct cdl_policy *policy = answer->live->policy;
        cdl_writef(detail, "a key of limit '%.*s' has parts: %u, not %zu", CDL_SLICE_ARG(name),
                   policy->limits[cdl_policy_find(policy, question->limit)].per_count, question->key_part_count);
        return 400;
    default:
        cdl_write_text(detail, caudal_status_text(answer->overall.status));
        return 400;
    }
}

/* ---- answers ---- */

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
static void reply_policy(struct cdl_exchange *exchange, const struct cdl_answer *answer)
{
    struct cdl_worker *worker = exchange->worker;
    const bool refused = answer->kind == CDL_ANSWER_REFUSED;
    if (answer->kind == CDL_ANSWER_UNAVAILABLE || (refused && answer->binding == CDL_NONE)) {
        cdl_reply(exchange, answer, false);
        return;
    }
    char text[16 * 1024];
    struct cdl_writer lines = cdl_writer_on(text, sizeof text);
    cdl_write_text(&lines, "Cache-Control: no-store\r\n");
    cdl_retry_after_write(&lines, cdl_reply_retry_after(answer));
    cdl_reply_fields(answer, cdl_server_now_ns(worker->server), &lines);
    struct cdl_json_decision limits[CDL_PLAN_MAX];
    for (size_t i = 0; i < answer->plan.count; i++)
        limits[i] = (struct cdl_json_decision){answer->live->policy->limits[answer->plan.charges[i].limit].name,
                                               &answer->decisions[i]};
    struct cdl_json_decision overall = {{NULL, 0}, &answer->overall};
    if (answer->binding != CDL_NONE)
        overall.limit = limits[answer->binding].limit;
    struct cdl_writer body = cdl_writer_on(worker->body, CDL_BODY_BYTES);
    cdl_json_write_decision(&body, &overall, limits, answer->plan.count);
    reply_with(exchange, refused ? 429 : 200, cdl_written(&lines), &body);
}

/* One limit, asked by its name, that has a verdict. */
static void reply_named(struct cdl_exchange *exchange, const struct cdl_answer *answer)
{
    const struct cdl_slice name = answer->live->policy->limits[answer->plan.charges[0].limit].name;
    const struct cdl_json_decision told = {name, &answer->overall};
    struct cdl_writer body = cdl_writer_on(exchange->worker->body, CDL_BODY_BYTES);
    cdl_json_write_decision(&body, &told, &told, 1);
    char text[256];
    struct cdl_writer lines = cdl_writer_on(text, sizeof text);
    cdl_write_text(&lines, "Cache-Control: no-store\r\n");
    cdl_retry_after_write(&lines, cdl_retry_after_seconds(&answer->overall, 0, 0));
    reply_with(exchange, answer->kind == CDL_ANSWER_REFUSED ? 429 : 200, cdl_written(&lines), &body);
}

/* `question` may be NULL for one that was asked of the store: what is wrong with a question is known at once. */
static void reply_single(struct cdl_exchange *exchange, const struct cdl_json_request *question,
                         const struct cdl_answer *answer)
{
    static const struct cdl_json_request unsaid;
    if (!answer->named) {
        reply_policy(exchange, answer);
    } else if (answer->overall.status == CAUDAL_OK) {
        reply_named(exchange, answer);
    } else {
        char text[512];
        struct cdl_writer detail = cdl_writer_on(text, sizeof text - 1);
        const unsigned status = explain_named(question != NULL ? question : &unsaid, answer, &detail);
        text[detail.length] = '\0';
        cdl_exchange_problem(exchange, status, "%s", text);
    }
}

/* One answer of a batch, in short: without the list of all limits, so that it always fits. NULL: there was no memory to keep it. */
static void write_short(const struct cdl_json_request *question, const struct cdl_answer *answer,
                        struct cdl_writer *body)
{
    char text[512];
    struct cdl_writer detail = cdl_writer_on(text, sizeof text);
    struct cdl_json_decision told = {question->limit, NULL};
    if (answer == NULL) {
        cdl_write_text(&detail, caudal_status_text(CAUDAL_ERR_MEMORY));
    } else if (answer->named) {
        if (answer->overall.status != CAUDAL_OK)
            explain_named(question, answer, &detail);
    } else {
        told.limit = (struct cdl_slice){NULL, 0};
        if (answer->binding != CDL_NONE)
            told.limit = answer->live->policy->limits[answer->plan.charges[answer->binding].limit].name;
        else if (answer->kind == CDL_ANSWER_REFUSED)
            cdl_reply_why(answer->live, &answer->plan, &detail);
    }
    if (detail.length == 0) {
        told.decision = &answer->overall;
        cdl_json_write_decision(body, &told, NULL, 0);
        return;
    }
    cdl_write_text(body, "{\"error\":");
    cdl_json_write_string(body, cdl_written(&detail));
    cdl_write_text(body, "}");
}

/* ---- batches: each question is answered by itself, and the batch as a whole is 200 whatever they say ---- */

static void reply_batch(struct cdl_exchange *exchange, const struct cdl_writer *body)
{
    reply_with(exchange, 200, CDL_SLICE("Cache-Control: no-store\r\n"), body);
}

/* What is answered at once is written at once. */
static void answer_batch(struct cdl_exchange *exchange, const struct cdl_json_body *questions, enum cdl_ask ask)
{
    struct cdl_worker *worker = exchange->worker;
    struct cdl_writer body = cdl_writer_on(worker->body, CDL_BODY_BYTES);
    cdl_json_begin_batch(&body);
    for (size_t i = 0; i < questions->count; i++) {
        struct cdl_json_request question;
        cdl_json_request(questions, i, &question);
        ask_question(worker, &question, ask);
        if (ask == CDL_ASK_TAKE)
            cdl_account(worker, &worker->asker.answer);
        cdl_json_next(&body, i);
        write_short(&question, &worker->asker.answer, &body);
    }
    cdl_json_end_batch(&body);
    reply_batch(exchange, &body);
}

/* All answers are there. */
static void answer_pending_batch(struct cdl_exchange *exchange, struct cdl_pending *pending)
{
    const struct cdl_json_body *questions = cdl_pending_questions(pending);
    struct cdl_writer body = cdl_writer_on(exchange->worker->body, CDL_BODY_BYTES);
    cdl_json_begin_batch(&body);
    for (size_t i = 0; i < questions->count; i++) {
        struct cdl_json_request question;
        cdl_json_request(questions, i, &question);
        cdl_json_next(&body, i);
        write_short(&question, cdl_pending_answer(pending, i), &body);
    }
    cdl_json_end_batch(&body);
    reply_batch(exchange, &body);
}

/* Asks all questions, which travel to the store together. The questions are the callee's. */
static void ask_batch(struct cdl_exchange *exchange, struct cdl_json_body questions, enum cdl_ask ask)
{
    struct cdl_pending *pending = cdl_pending_new(exchange->worker, exchange->connection, questions.count,
                                                  ask == CDL_ASK_TAKE);
    if (pending == NULL) {
        cdl_exchange_problem(exchange, 503, "no memory to wait for the store");
        cdl_json_free(&questions);
        return;
    }
    cdl_pending_keep_questions(pending, questions);
    for (size_t i = 0; i < questions.count; i++) {
        struct cdl_json_request question;
        cdl_json_request(&questions, i, &question);
        cdl_pending_add(pending, i, ask_question(exchange->worker, &question, ask));
    }
    if (cdl_pending_waits(pending)) {
        cdl_exchange_wait(exchange, pending);
        return;
    }
    answer_pending_batch(exchange, pending);
    cdl_pending_free(pending);
}

/* ---- both ---- */

static void answer_single(struct cdl_exchange *exchange, const struct cdl_json_body *questions, enum cdl_ask ask)
{
    struct cdl_worker *worker = exchange->worker;
    struct cdl_json_request question;
    cdl_json_request(questions, 0, &question);
    struct cdl_inquiry *inquiry = ask_question(worker, &question, ask);
    if (inquiry != NULL) {
        cdl_exchange_wait_for(exchange, inquiry, ask == CDL_ASK_TAKE);
        return;
    }
    if (ask == CDL_ASK_TAKE)
        cdl_account(worker, &worker->asker.answer);
    reply_single(exchange, &question, &worker->asker.answer);
}

static void answer_pending(struct cdl_exchange *exchange)
{
    if (cdl_pending_questions(exchange->pending)->is_batch)
        answer_pending_batch(exchange, exchange->pending);
    else
        reply_single(exchange, NULL, cdl_pending_answer(exchange->pending, 0));
}

void cdl_json_api(struct cdl_exchange *exchange, enum cdl_ask ask)
{
    if (exchange->pending != NULL) {
        answer_pending(exchange);
        return;
    }
    if (!cdl_exchange_allows(exchange, "POST"))
        return;
    struct caudal_problem problem;
    struct cdl_json_body questions;
    if (cdl_json_parse(exchange->request->body, &questions, &problem) != CAUDAL_OK) {
        cdl_exchange_problem(exchange, 400, "%s", problem.message);
        return;
    }
    if (questions.is_batch && exchange->worker->asker.client != NULL) {
        ask_batch(exchange, questions, ask);
        return;
    }
    if (questions.is_batch)
        answer_batch(exchange, &questions, ask);
    else
        answer_single(exchange, &questions, ask);
    cdl_json_free(&questions);
}
