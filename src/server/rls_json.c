/* POST /json: Envoy's rate limit service for those that do not speak gRPC, in the JSON that protobuf defines for its messages. Names are
 * taken in both spellings, and written in lowerCamelCase; what has its default is not written. */
#include <jansson.h>

#include "base/problem.h"
#include "server/account_descriptors.h"
#include "server/exchange.h"
#include "server/reply.h"
#include "server/rls.h"

/* ---- requests ---- */

/* What is read, for messages: "descriptors[1].limit" with its dot, and where they go. */
struct place {
    char path[64];
    struct cdl_message_memory *memory;
    struct caudal_problem *problem;
};

/* A name, which may be long or odd, in a message. */
#define SHOWN(name) (int)(strlen(name) < 40 ? strlen(name) : 40), (name)

static bool wrong(const struct place *place, const char *name, const char *expected)
{
    cdl_problem(place->problem, CAUDAL_ERR_SYNTAX, 0, "%s%.*s: expected %s", place->path, SHOWN(name), expected);
    return false;
}

static bool is_unknown(const struct place *place, const char *name)
{
    cdl_problem(place->problem, CAUDAL_ERR_SYNTAX, 0, "%s%.*s: unknown", place->path, SHOWN(name));
    return false;
}

static bool is_named(const char *name, const char *lower_camel, const char *original)
{
    return strcmp(name, lower_camel) == 0 || strcmp(name, original) == 0;
}

static bool read_text(const struct place *place, const char *name, const json_t *value, struct cdl_slice *text)
{
    if (!json_is_string(value))
        return wrong(place, name, "a string");
    *text = (struct cdl_slice){json_string_value(value), json_string_length(value)};
    return true;
}

/* A number, or the same as a string, which is how 64 bits travel in JSON. */
static bool read_number(const struct place *place, const char *name, const json_t *value, uint64_t most,
                        uint64_t *number)
{
    const char *digits = json_string_value(value);
    uint64_t sum = 0;
    bool ok = json_is_integer(value) ? json_integer_value(value) >= 0 : digits != NULL && *digits != '\0';
    if (json_is_integer(value))
        sum = (uint64_t)json_integer_value(value);
    for (; ok && digits != NULL && *digits != '\0'; digits++) {
        ok = *digits >= '0' && *digits <= '9' && sum <= (UINT64_MAX - 9) / 10;
        sum = 10 * sum + (uint64_t)(*digits - '0');
    }
    *number = sum;
    return (ok && sum <= most) || wrong(place, name, most == UINT32_MAX ? "0 to 4294967295" : "a number of 64 bits");
}

/* A unit by its name or its number; which numbers are units is checked with everything else. */
static bool read_unit(const struct place *place, const char *name, const json_t *value, enum cdl_unit *unit)
{
    uint64_t number = 0;
    const bool ok = json_is_string(value) || read_number(place, name, value, UINT32_MAX, &number);
    *unit = (enum cdl_unit)number;
    if (!json_is_string(value))
        return ok;
    for (int i = CDL_UNIT_SECOND; i < CDL_UNITS; i++)
        if (strcmp(json_string_value(value), cdl_unit_name((enum cdl_unit)i)) == 0)
            *unit = (enum cdl_unit)i;
    return *unit != CDL_UNIT_UNKNOWN || wrong(place, name, "SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR");
}

static bool read_entry(const struct place *place, json_t *object, struct cdl_descriptor_entry *entry)
{
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        bool ok = true;
        if (json_is_null(value))
            continue;
        if (strcmp(name, "key") == 0)
            ok = read_text(place, name, value, &entry->key);
        else if (strcmp(name, "value") == 0)
            ok = read_text(place, name, value, &entry->value);
        else
            ok = is_unknown(place, name);
        if (!ok)
            return false;
    }
    return true;
}

static bool read_limit(const struct place *place, json_t *object, struct cdl_descriptor *descriptor)
{
    const char *name;
    json_t *value;
    uint64_t number = 0;
    descriptor->has_limit = true;
    json_object_foreach (object, name, value) {
        bool ok = true;
        if (json_is_null(value))
            continue;
        if (is_named(name, "requestsPerUnit", "requests_per_unit"))
            ok = read_number(place, name, value, UINT32_MAX, &number);
        else if (strcmp(name, "unit") == 0)
            ok = read_unit(place, name, value, &descriptor->unit);
        else
            ok = is_unknown(place, name);
        if (!ok)
            return false;
    }
    descriptor->requests_per_unit = (uint32_t)number;
    return true;
}

/* The elements of a list of objects, each through `read`, which is told where it is; `most` and some more, so that it can be said that there
 * are too many. */
static bool read_list(const struct place *outer, const char *name, const json_t *list, size_t most, size_t size,
                      bool (*read)(const struct place *place, json_t *object, void *element), const void **elements,
                      size_t *count)
{
    if (!json_is_array(list))
        return wrong(outer, name, "a list");
    *count = json_array_size(list);
    if (*count > most)
        return true; /* which is checked with everything else */
    char *memory = cdl_message_allocate(outer->memory, *count, size);
    *elements = memory;
    if (memory == NULL)
        return wrong(outer, name, "less of them");
    for (size_t i = 0; i < *count; i++) {
        struct place place = {.memory = outer->memory, .problem = outer->problem};
        json_t *object = json_array_get(list, i);
        struct cdl_writer path = cdl_writer_on(place.path, sizeof place.path - 1);
        cdl_writef(&path, "%s%s[%zu].", outer->path, name, i);
        if (!json_is_object(object))
            return wrong(outer, name, "a list of objects");
        if (!read(&place, object, memory + i * size))
            return false;
    }
    return true;
}

static bool read_entry_of_list(const struct place *place, json_t *object, void *element)
{
    return read_entry(place, object, element);
}

static bool read_descriptor_member(const struct place *place, const char *name, json_t *value,
                                   struct cdl_descriptor *descriptor)
{
    const void *entries = NULL;
    if (strcmp(name, "entries") == 0) {
        if (!read_list(place, name, value, CDL_DESCRIPTOR_ENTRIES_MAX, sizeof(struct cdl_descriptor_entry),
                       read_entry_of_list, &entries, &descriptor->entry_count))
            return false;
        descriptor->entries = entries;
        return true;
    }
    if (strcmp(name, "limit") == 0) {
        struct place inner = {.memory = place->memory, .problem = place->problem};
        struct cdl_writer path = cdl_writer_on(inner.path, sizeof inner.path - 1);
        cdl_writef(&path, "%slimit.", place->path);
        return json_is_object(value) ? read_limit(&inner, value, descriptor) : wrong(place, name, "an object");
    }
    if (is_named(name, "hitsAddend", "hits_addend")) {
        descriptor->has_hits = true;
        return read_number(place, name, value, UINT64_MAX, &descriptor->hits);
    }
    return is_unknown(place, name);
}

static bool read_descriptor_of_list(const struct place *place, json_t *object, void *element)
{
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value)
        if (!json_is_null(value) && !read_descriptor_member(place, name, value, element))
            return false;
    return true;
}

static bool read_member(const struct place *place, const char *name, json_t *value,
                        struct cdl_descriptor_request *request)
{
    const void *descriptors = NULL;
    if (strcmp(name, "domain") == 0)
        return read_text(place, name, value, &request->domain);
    if (is_named(name, "hitsAddend", "hits_addend"))
        return read_number(place, name, value, UINT32_MAX, &request->hits);
    if (strcmp(name, "descriptors") != 0)
        return is_unknown(place, name);
    if (!read_list(place, name, value, CDL_DESCRIPTORS_MAX, sizeof(struct cdl_descriptor), read_descriptor_of_list,
                   &descriptors, &request->descriptor_count))
        return false;
    request->descriptors = descriptors;
    return true;
}

/* Reads and checks a body. The request borrows from *root, which is the caller's to free, whatever is returned. */
static bool read_request(struct cdl_worker *worker, struct cdl_slice body, json_t **root,
                         struct cdl_descriptor_request *request, struct caudal_problem *problem)
{
    const struct place place = {.memory = &worker->messages, .problem = problem};
    json_error_t error;
    worker->messages.used = 0;
    worker->messages.full = false;
    *root = json_loadb(body.bytes, body.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json_is_object(*root)) {
        cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "line %d: %s", *root == NULL ? error.line : 1,
                    *root == NULL ? error.text : "expected an object");
        return false;
    }
    *request = (struct cdl_descriptor_request){.hits = 0};
    const char *name;
    json_t *value;
    json_object_foreach (*root, name, value)
        if (!json_is_null(value) && !read_member(&place, name, value, request))
            return false;
    return cdl_rls_request_check(request, problem) == CAUDAL_OK;
}

/* ---- responses ---- */

static void write_limit(struct cdl_writer *json, const struct cdl_rls_status *status)
{
    const char *before = "";
    cdl_write_text(json, ",\"currentLimit\":{");
    if (status->requests_per_unit > 0) {
        cdl_write_text(json, "\"requestsPerUnit\":");
        cdl_write_u64(json, status->requests_per_unit);
        before = ",";
    }
    if (status->unit != CDL_UNIT_UNKNOWN) {
        cdl_writef(json, "%s\"unit\":\"%s\"", before, cdl_unit_name(status->unit));
        before = ",";
    }
    if (status->name.length > 0) {
        cdl_writef(json, "%s\"name\":", before);
        cdl_json_write_string(json, status->name);
    }
    cdl_write_text(json, "}");
}

static void write_status(struct cdl_writer *json, const struct cdl_rls_status *status)
{
    cdl_write_text(json, status->over_limit ? "{\"code\":\"OVER_LIMIT\"" : "{\"code\":\"OK\"");
    if (status->has_limit)
        write_limit(json, status);
    if (status->remaining > 0) {
        cdl_write_text(json, ",\"limitRemaining\":");
        cdl_write_u64(json, status->remaining);
    }
    if (status->has_reset) {
        cdl_write_text(json, ",\"durationUntilReset\":\"");
        cdl_write_u64(json, status->reset_s);
        cdl_write_text(json, "s\"");
    }
    cdl_write_text(json, "}");
}

static void write_response(struct cdl_writer *json, const struct cdl_rls_response *response)
{
    cdl_write_text(json, response->over_limit ? "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":["
                                              : "{\"overallCode\":\"OK\",\"statuses\":[");
    for (size_t i = 0; i < response->status_count; i++) {
        cdl_json_next(json, i);
        write_status(json, &response->statuses[i]);
    }
    cdl_write_text(json, "]");
    for (size_t i = 0; i < response->header_count; i++) {
        cdl_write_text(json, i == 0 ? ",\"responseHeadersToAdd\":[{\"key\":" : ",{\"key\":");
        cdl_json_write_string(json, response->headers[i].name);
        cdl_write_text(json, ",\"value\":");
        cdl_json_write_string(json, response->headers[i].value);
        cdl_write_text(json, i + 1 == response->header_count ? "}]" : "}");
    }
    if (response->metadata.length > 0) {
        cdl_write_text(json, ",\"dynamicMetadata\":");
        cdl_write(json, response->metadata);
    }
    cdl_write_text(json, "}");
}

/* ---- both ---- */

static void reply_failure(struct cdl_exchange *exchange, const struct cdl_rls_failure *failure)
{
    if (failure->status == CDL_GRPC_INVALID_ARGUMENT)
        cdl_account_bad_descriptors(exchange->worker);
    cdl_exchange_problem(exchange,
                         failure->status == CDL_GRPC_INVALID_ARGUMENT ? 400
                         : failure->status == CDL_GRPC_UNAVAILABLE    ? 503
                                                                      : 500,
                         "%s", failure->why);
}

static void reply(struct cdl_exchange *exchange, const struct cdl_rls_turn *turn, const struct cdl_answer *answer)
{
    struct cdl_rls_response response;
    struct cdl_rls_failure failure;
    if (!cdl_rls_respond(exchange->worker, turn, answer, &response, &failure)) {
        reply_failure(exchange, &failure);
        return;
    }
    struct cdl_writer json = cdl_message_writer(&exchange->worker->messages);
    write_response(&json, &response);
    if (json.overflow || json.length > CDL_BODY_BYTES)
        cdl_exchange_problem(exchange, 500, "the answer is too long");
    else
        cdl_exchange_reply(exchange, response.over_limit ? 429 : 200, CDL_TYPE_JSON,
                           CDL_SLICE("Cache-Control: no-store\r\n"), cdl_written(&json));
}

static void ask(struct cdl_exchange *exchange, struct cdl_rls_turn *turn)
{
    struct cdl_worker *worker = exchange->worker;
    struct cdl_rls_failure failure;
    struct cdl_inquiry *inquiry = NULL;
    if (!cdl_rls_ask(worker, turn, 0, &inquiry, &failure))
        reply_failure(exchange, &failure);
    else if (inquiry != NULL)
        cdl_exchange_wait_for(exchange, inquiry, true);
    else
        reply(exchange, turn, &worker->asker.answer);
}

void cdl_rls_json(struct cdl_exchange *exchange)
{
    struct cdl_worker *worker = exchange->worker;
    struct cdl_rls_turn turn;
    struct caudal_problem problem;
    json_t *root;
    if (!cdl_exchange_allows(exchange, "POST"))
        return;
    if (!read_request(worker, exchange->request->body, &root, &turn.request, &problem)) {
        struct cdl_rls_failure failure;
        cdl_rls_fail(&failure, CDL_GRPC_INVALID_ARGUMENT, "%s", problem.message);
        reply_failure(exchange, &failure);
    } else if (exchange->pending == NULL) {
        ask(exchange, &turn);
    } else {
        const struct cdl_answer *answer = cdl_pending_answer(exchange->pending, 0);
        cdl_rls_recall(worker, &turn, answer);
        reply(exchange, &turn, answer);
    }
    json_decref(root);
}
