#include "server/rls.h"

#include <stdarg.h>
#include <stdio.h>

#include "server/account_descriptors.h"
#include "server/reply.h"

/* Of the worker's body, which is free while a response is put together: field lines, and the rest for one entry of the metadata. */
#define LINES_BYTES ((size_t)16 * 1024)

void cdl_rls_fail(struct cdl_rls_failure *failure, enum cdl_grpc_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->why, sizeof failure->why, format, arguments);
    va_end(arguments);
    failure->status = status;
}

/* ---- asking ---- */

/* The limit that a descriptor brought, as it is to be counted by; NULL: it brought none. */
static const struct cdl_charge *brought_by(const struct cdl_rls_turn *turn, const struct cdl_plan *plan, size_t index)
{
    return turn->request.descriptors[index].has_limit && turn->results[index].charge != CDL_NONE
               ? &plan->charges[turn->results[index].charge]
               : NULL;
}

/* One counter cannot have two limits at once. False: two descriptors bring such, and the client is told which. */
static bool check_brought(const struct cdl_rls_turn *turn, const struct cdl_plan *plan, struct cdl_rls_failure *failure)
{
    for (size_t i = 1; i < turn->request.descriptor_count; i++) {
        const struct cdl_charge *one = brought_by(turn, plan, i);
        for (size_t j = 0; j < i && one != NULL; j++) {
            const struct cdl_charge *other = brought_by(turn, plan, j);
            if (other == NULL || other->per_call.count == one->per_call.count || !cdl_slice_equal(other->key, one->key))
                continue;
            cdl_rls_fail(failure, CDL_GRPC_INVALID_ARGUMENT,
                         "descriptors[%zu].limit: descriptors[%zu] has another one for the same entries and unit", i,
                         j);
            return false;
        }
    }
    return true;
}

bool cdl_rls_ask(struct cdl_worker *worker, struct cdl_rls_turn *turn, int64_t deadline_ns,
                 struct cdl_inquiry **inquiry, struct cdl_rls_failure *failure)
{
    struct cdl_asker *asker = &worker->asker;
    cdl_descriptors_match(worker->live->policy, &turn->request, cdl_server_now_ns(worker->server), asker->scratch,
                          CDL_MATCH_SCRATCH_BYTES, &asker->answer.plan, turn->results);
    if (asker->answer.plan.outcome != CDL_OUTCOME_LIMITED) {
        cdl_rls_fail(failure, CDL_GRPC_INVALID_ARGUMENT, "descriptors: what one counts by is longer than %u bytes",
                     CAUDAL_KEY_MAX);
        return false;
    }
    if (!check_brought(turn, &asker->answer.plan, failure))
        return false;
    asker->deadline_ns = deadline_ns;
    *inquiry = cdl_limiter_ask_plan(asker, worker->live, CDL_ASK_TAKE);
    asker->deadline_ns = 0;
    if (*inquiry == NULL)
        cdl_account(worker, &asker->answer);
    return true;
}

void cdl_rls_recall(struct cdl_worker *worker, struct cdl_rls_turn *turn, const struct cdl_answer *answer)
{
    struct cdl_plan plan;
    cdl_descriptors_match(answer->live->policy, &turn->request, cdl_server_now_ns(worker->server),
                          worker->asker.scratch, CDL_MATCH_SCRATCH_BYTES, &plan, turn->results);
}

/* ---- a descriptor's status ---- */

/* NULL: no rule of a file speaks, for the descriptor brought its own limit or none applies to it. */
static const struct cdl_descriptor_rule *rule_of(const struct cdl_rls_turn *turn, const struct cdl_answer *answer,
                                                 size_t index)
{
    const uint32_t limit = turn->results[index].limit;
    return limit != CDL_NONE ? answer->live->policy->limits[limit].descriptor : NULL;
}

static uint32_t clamp(uint64_t number)
{
    return (uint32_t)cdl_min_u64(number, UINT32_MAX);
}

/* Seconds until everything is there again. A window that nothing was taken from ends all the same. */
static bool find_reset(const struct caudal_decision *decision, const struct caudal_limit *limit, int64_t ends_at_ns,
                       int64_t now_ns, uint64_t *reset_s)
{
    int64_t reset_ns = decision->reset_after_ns;
    if (ends_at_ns != 0)
        reset_ns = cdl_max_i64(ends_at_ns - now_ns, 0);
    else if (reset_ns == 0 && limit->algorithm == CAUDAL_FIXED_WINDOW && limit->period_ns <= INT64_MAX && now_ns > 0)
        reset_ns = (int64_t)limit->period_ns - now_ns % (int64_t)limit->period_ns;
    *reset_s = cdl_seconds_up(reset_ns);
    return reset_ns >= 0;
}

/* What one of the answer's charges says to the descriptor. Where nobody has counted there are no numbers. */
static void tell_charge(struct cdl_worker *worker, const struct cdl_rls_turn *turn, const struct cdl_answer *answer,
                        size_t index, struct cdl_rls_status *status)
{
    const struct cdl_charge *charge = &answer->plan.charges[turn->results[index].charge];
    const struct caudal_decision *decision = &answer->decisions[turn->results[index].charge];
    const struct cdl_descriptor_rule *rule = rule_of(turn, answer, index);
    const struct cdl_descriptor *descriptor = &turn->request.descriptors[index];
    if (decision->status != CAUDAL_OK || decision->source == CAUDAL_SOURCE_FAILURE_POLICY)
        return;
    const bool refuses = decision->verdict != CAUDAL_ALLOW;
    status->over_limit = refuses && answer->live->policy->limits[charge->limit].mode == CDL_MODE_ENFORCE;
    status->has_limit = true;
    status->requests_per_unit = rule != NULL ? clamp(rule->requests_per_unit) : descriptor->requests_per_unit;
    status->unit = rule != NULL ? rule->unit : descriptor->unit;
    status->name = rule != NULL ? rule->label : CDL_SLICE("");
    status->remaining = refuses ? 0 : clamp(decision->remaining); /* of what was asked for, nothing */
    const struct caudal_limit limit = cdl_answer_limit(answer, charge, decision);
    status->has_reset = find_reset(decision, &limit, charge->ends_at_ns, cdl_server_now_ns(worker->server),
                                   &status->reset_s);
}

static void tell(struct cdl_worker *worker, const struct cdl_rls_turn *turn, const struct cdl_answer *answer,
                 size_t index, struct cdl_rls_status *status)
{
    *status = (struct cdl_rls_status){.over_limit = false};
    switch (turn->results[index].outcome) {
    case CDL_DESCRIPTOR_UNLIMITED:
        status->remaining = UINT32_MAX;
        break;
    case CDL_DESCRIPTOR_LIMITED:
        tell_charge(worker, turn, answer, index, status);
        break;
    case CDL_DESCRIPTOR_FREE:
    case CDL_DESCRIPTOR_REPLACED:
        break;
    }
}

/* ---- headers ---- */

/* Lines of "Name: value", each with its CRLF, as fields. Those that there is no room for are left away. */
static void split_lines(struct cdl_slice lines, struct cdl_rls_response *response)
{
    while (lines.length > 0 && response->header_count < CDL_RLS_HEADERS_MAX) {
        const char *end = memchr(lines.bytes, '\r', lines.length), *colon = memchr(lines.bytes, ':', lines.length);
        if (end == NULL || colon == NULL || colon > end)
            return;
        const struct cdl_slice name = {lines.bytes, (size_t)(colon - lines.bytes)};
        const struct cdl_slice value = {colon + 1, (size_t)(end - colon - 1)};
        response->headers[response->header_count++] = (struct cdl_field){name, cdl_slice_trim(value)};
        lines = cdl_slice_from(lines, (size_t)(end - lines.bytes) + 2);
    }
}

/* The same fields as over HTTP: what is left and, of a refusal, when to come again, and by which limit. */
static void add_headers(struct cdl_worker *worker, const struct cdl_answer *answer, struct cdl_rls_response *response)
{
    struct cdl_writer lines = cdl_writer_on(worker->body, LINES_BYTES);
    if (answer->binding == CDL_NONE)
        return;
    const struct cdl_limit_rule *limit = &answer->live->policy->limits[answer->plan.charges[answer->binding].limit];
    if (answer->kind == CDL_ANSWER_REFUSED) {
        cdl_write_text(&lines, "Caudal-Limit: ");
        cdl_fields_write_name(&lines, cdl_reply_name(limit));
        cdl_write_text(&lines, "\r\n");
        cdl_retry_after_write(&lines, cdl_reply_retry_after(answer));
    }
    cdl_reply_fields(answer, cdl_server_now_ns(worker->server), &lines);
    if (!lines.overflow)
        split_lines(cdl_written(&lines), response);
}

/* ---- metadata ---- */

static bool exceeds_quota(const struct cdl_rls_turn *turn, const struct cdl_answer *answer, size_t index)
{
    const struct cdl_descriptor_rule *rule = rule_of(turn, answer, index);
    if (rule == NULL || !rule->quota || turn->results[index].outcome != CDL_DESCRIPTOR_LIMITED)
        return false;
    const struct caudal_decision *decision = &answer->decisions[turn->results[index].charge];
    return decision->status == CAUDAL_OK && decision->verdict != CAUDAL_ALLOW;
}

/* "key=value" as a string of JSON. */
static void write_entry(const struct cdl_worker *worker, const struct cdl_descriptor_entry *entry,
                        struct cdl_writer *json)
{
    struct cdl_writer text = cdl_writer_on(worker->body + LINES_BYTES, CDL_BODY_BYTES - LINES_BYTES);
    cdl_write(&text, entry->key);
    cdl_write_text(&text, "=");
    cdl_write(&text, entry->value);
    json->overflow |= text.overflow;
    cdl_json_write_string(json, cdl_written(&text));
}

static void write_descriptor(const struct cdl_worker *worker, const struct cdl_descriptor *descriptor,
                             struct cdl_slice metadata, struct cdl_writer *json)
{
    cdl_write_text(json, "{\"entries\":[");
    for (size_t i = 0; i < descriptor->entry_count; i++) {
        cdl_json_next(json, i);
        write_entry(worker, &descriptor->entries[i], json);
    }
    cdl_write_text(json, "]");
    if (descriptor->has_limit)
        cdl_writef(json, ",\"limit\":\"requests_per_unit:%u unit:%s\"", descriptor->requests_per_unit,
                   cdl_unit_name(descriptor->unit));
    if (descriptor->has_hits) {
        cdl_write_text(json, ",\"hitsAddend\":");
        cdl_write_u64(json, descriptor->hits);
    }
    if (metadata.length > 0) {
        cdl_write_text(json, ",\"metadata\":");
        cdl_write(json, metadata);
    }
    cdl_write_text(json, "}");
}

static void write_violations(const struct cdl_rls_turn *turn, const struct cdl_answer *answer, struct cdl_writer *json)
{
    size_t count = 0;
    for (size_t i = 0; i < turn->request.descriptor_count; i++) {
        if (!exceeds_quota(turn, answer, i))
            continue;
        cdl_write_text(json, count == 0 ? ",\"quotaModeViolations\":[" : "");
        cdl_json_next(json, count++);
        cdl_write_u64(json, i);
    }
    cdl_write_text(json, count > 0 ? "]" : "");
}

static void write_metadata(const struct cdl_worker *worker, const struct cdl_rls_turn *turn,
                           const struct cdl_answer *answer, bool has_quota, struct cdl_writer *json)
{
    const struct cdl_descriptor_request *request = &turn->request;
    cdl_write_text(json, "{\"domain\":");
    cdl_json_write_string(json, request->domain);
    cdl_write_text(json, ",\"descriptors\":[");
    for (size_t i = 0; i < request->descriptor_count; i++) {
        const struct cdl_descriptor_rule *rule = rule_of(turn, answer, i);
        cdl_json_next(json, i);
        write_descriptor(worker, &request->descriptors[i], rule != NULL ? rule->metadata : CDL_SLICE(""), json);
    }
    cdl_write_text(json, "]");
    if (request->hits > 0) {
        cdl_write_text(json, ",\"hitsAddend\":");
        cdl_write_u64(json, request->hits);
    }
    cdl_write_text(json, has_quota ? ",\"quotaModeEnabled\":true" : ",\"quotaModeEnabled\":false");
    write_violations(turn, answer, json);
    cdl_write_text(json, "}");
}

/* Told where a file asks for it: by metadata of its own, or by quotas, of which nothing else would be heard. False: it does not fit. */
static bool add_metadata(struct cdl_worker *worker, const struct cdl_rls_turn *turn, const struct cdl_answer *answer,
                         struct cdl_rls_response *response)
{
    bool has_quota = false, is_wanted = false;
    for (size_t i = 0; i < turn->request.descriptor_count; i++) {
        const struct cdl_descriptor_rule *rule = rule_of(turn, answer, i);
        has_quota |= rule != NULL && rule->quota;
        is_wanted |= rule != NULL && (rule->quota || rule->metadata.length > 0);
    }
    if (!is_wanted)
        return true;
    struct cdl_writer json = cdl_message_writer(&worker->messages);
    write_metadata(worker, turn, answer, has_quota, &json);
    response->metadata = cdl_written(&json);
    return !json.overflow;
}

/* ---- responses ---- */

/* The store, or the limit that a descriptor brought, is why there is no decision. */
static void explain(const struct cdl_rls_turn *turn, const struct cdl_answer *answer, struct cdl_rls_failure *failure)
{
    const struct cdl_limit_rule *limit = &answer->live->policy->limits[answer->plan.charges[answer->binding].limit];
    size_t index = 0;
    while (index < turn->request.descriptor_count - 1 && turn->results[index].charge != answer->binding)
        index++;
    if (answer->overall.status == CAUDAL_ERR_LIMIT)
        cdl_rls_fail(failure, CDL_GRPC_INVALID_ARGUMENT, "descriptors[%zu].limit: more than can be counted", index);
    else
        cdl_rls_fail(failure, CDL_GRPC_UNAVAILABLE, "limit '%.*s': %s", CDL_SLICE_ARG(limit->name),
                     CDL_REPLY_STORE_AWAY);
}

bool cdl_rls_respond(struct cdl_worker *worker, const struct cdl_rls_turn *turn, const struct cdl_answer *answer,
                     struct cdl_rls_response *response, struct cdl_rls_failure *failure)
{
    cdl_account_descriptors(worker, &turn->request, turn->results, answer);
    if (answer->kind == CDL_ANSWER_UNAVAILABLE) {
        explain(turn, answer, failure);
        return false;
    }
    response->over_limit = answer->kind == CDL_ANSWER_REFUSED;
    response->status_count = turn->request.descriptor_count;
    response->header_count = 0;
    response->metadata = CDL_SLICE("");
    for (size_t i = 0; i < response->status_count; i++)
        tell(worker, turn, answer, i, &response->statuses[i]);
    add_headers(worker, answer, response);
    if (add_metadata(worker, turn, answer, response))
        return true;
    cdl_rls_fail(failure, CDL_GRPC_INTERNAL, "dynamic_metadata: too large");
    return false;
}
