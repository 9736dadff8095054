/* Questions out of a JSON body. jansson reads it, with its flags for what it would else let pass: the second of two equal
 * keys, NUL in a string refused. A body is checked by reading each of its requests once; what is read later is read the
 * same way, so it cannot fail. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/problem.h"
#include "wire/json_api.h"

#define NESTING_MAX 8 /* four are enough for a batch of lists of parts */
#define NAME_MAX_BYTES 255

/* Which of the body's requests is looked at, for messages. */
struct place {
    struct caudal_problem *problem;
    size_t index;
    bool is_batch;
};

/* A key, which may be long or odd, in a message. */
#define SHOWN(key) (int)(strlen(key) < 40 ? strlen(key) : 40), (key)

/* ---- problems ---- */

__attribute__((format(printf, 3, 4))) static int wrong(const struct place *place, int code, const char *format, ...)
{
    char words[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    if (place->is_batch)
        return cdl_problem(place->problem, code, 0, "requests[%zu].%s", place->index, words);
    return cdl_problem(place->problem, code, 0, "%s", words);
}

static const char *type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number that is not whole";
    case JSON_NULL:
        return "null";
    default:
        return json_is_true(value) ? "true" : "false";
    }
}

static int wrong_type(const struct place *place, const char *key, const char *expected, const json_t *found)
{
    return wrong(place, CAUDAL_ERR_SYNTAX, "%.*s: expected %s, found %s", SHOWN(key), expected, type_of(found));
}

static struct cdl_slice string_of(const json_t *value)
{
    return (struct cdl_slice){json_string_value(value), json_string_length(value)};
}

/* ---- one request ---- */

static int read_cost(const struct place *place, const json_t *value, struct cdl_json_request *request)
{
    if (!json_is_integer(value))
        return wrong_type(place, "cost", "a whole number", value);
    if (json_integer_value(value) < 0)
        return wrong(place, CAUDAL_ERR_SYNTAX, "cost: expected 0 or more, found %" JSON_INTEGER_FORMAT,
                     json_integer_value(value));
    request->has_cost = true;
    request->cost = (uint64_t)json_integer_value(value);
    return CAUDAL_OK;
}

/* A name with a NUL would be another name to whoever looks it up as a C string. */
static int read_limit(const struct place *place, const json_t *value, struct cdl_slice *limit)
{
    if (!json_is_string(value))
        return wrong_type(place, "limit", "a string", value);
    *limit = string_of(value);
    if (limit->length == 0 || limit->length > NAME_MAX_BYTES || memchr(limit->bytes, '\0', limit->length) != NULL)
        return wrong(place, CAUDAL_ERR_SYNTAX, "limit: expected a name of 1 to %d bytes without NUL", NAME_MAX_BYTES);
    return CAUDAL_OK;
}

static int add_key_part(const struct place *place, const json_t *value, struct cdl_json_request *request)
{
    if (request->key_part_count == CDL_JSON_KEY_PARTS_MAX)
        return wrong(place, CAUDAL_ERR_SYNTAX, "key: expected at most %d parts", CDL_JSON_KEY_PARTS_MAX);
    if (!json_is_string(value))
        return wrong_type(place, "key", "a string or a list of strings", value);
    request->key_parts[request->key_part_count++] = string_of(value);
    return CAUDAL_OK;
}

static int read_key(const struct place *place, const json_t *value, struct cdl_json_request *request)
{
    int status = CAUDAL_OK;
    if (!json_is_array(value))
        status = add_key_part(place, value, request);
    for (size_t i = 0; i < json_array_size(value) && status == CAUDAL_OK; i++)
        status = add_key_part(place, json_array_get(value, i), request);
    size_t bytes = 0;
    for (size_t i = 0; i < request->key_part_count; i++)
        bytes += request->key_parts[i].length;
    if (status == CAUDAL_OK && bytes > CAUDAL_KEY_MAX)
        return wrong(place, CAUDAL_ERR_KEY, "key: expected at most %u bytes, found %zu", CAUDAL_KEY_MAX, bytes);
    return status;
}

static int read_attributes(const struct place *place, json_t *value, struct cdl_json_request *request)
{
    if (!json_is_object(value))
        return wrong_type(place, "attributes", "an object", value);
    if (json_object_size(value) > CDL_JSON_ATTRIBUTES_MAX)
        return wrong(place, CAUDAL_ERR_SYNTAX, "attributes: expected at most %d, found %zu", CDL_JSON_ATTRIBUTES_MAX,
                     json_object_size(value));
    const char *key;
    json_t *attribute;
    json_object_foreach (value, key, attribute) {
        if (!json_is_string(attribute))
            return wrong(place, CAUDAL_ERR_SYNTAX, "attributes.%.*s: expected a string, found %s", SHOWN(key),
                         type_of(attribute));
        request->attributes[request->attribute_count++] = (struct cdl_field){cdl_slice_of(key), string_of(attribute)};
    }
    return CAUDAL_OK;
}

static int read_member(const struct place *place, const char *key, json_t *value, struct cdl_json_request *request)
{
    if (strcmp(key, "cost") == 0)
        return read_cost(place, value, request);
    if (strcmp(key, "limit") == 0)
        return read_limit(place, value, &request->limit);
    if (strcmp(key, "key") == 0)
        return read_key(place, value, request);
    if (strcmp(key, "attributes") == 0)
        return read_attributes(place, value, request);
    return wrong(place, CAUDAL_ERR_SYNTAX, "%.*s: unknown; known are attributes, limit, key and cost", SHOWN(key));
}

/* Which members may stand beside each other. */
static int check_form(const struct place *place, const json_t *object)
{
    const bool by_policy = json_object_get(object, "attributes") != NULL;
    const bool by_limit = json_object_get(object, "limit") != NULL;
    if (by_policy && by_limit)
        return wrong(place, CAUDAL_ERR_SYNTAX, "limit: cannot stand beside attributes");
    if (json_object_get(object, "key") != NULL && !by_limit)
        return wrong(place, CAUDAL_ERR_SYNTAX, "key: needs a limit");
    if (!by_policy && !by_limit)
        return wrong(place, CAUDAL_ERR_SYNTAX, "limit: missing; give attributes, or a limit and a key");
    return CAUDAL_OK;
}

static int read_request(const struct place *place, json_t *object, struct cdl_json_request *request)
{
    request->limit = (struct cdl_slice){NULL, 0};
    request->key_part_count = request->attribute_count = 0;
    request->has_cost = false;
    request->cost = 1;
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        const int status = read_member(place, key, value, request);
        if (status != CAUDAL_OK)
            return status;
    }
    return check_form(place, object);
}

/* ---- the body ---- */

/* Brackets that are open at once, at most. jansson calls itself for each of them. */
static size_t nesting(struct cdl_slice text)
{
    size_t depth = 0, most = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.length; i++) {
        const char c = text.bytes[i];
        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\';
        else if (c == '[' || c == '{')
            most = ++depth > most ? depth : most;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
    }
    return most;
}

static int load(struct cdl_slice text, json_t **root, struct caudal_problem *problem)
{
    if (text.length > CDL_JSON_BODY_MAX)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, CDL_JSON_BODY_MAX, "the body is longer than %u bytes",
                           CDL_JSON_BODY_MAX);
    if (nesting(text) > NESTING_MAX)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "the body is nested deeper than %d", NESTING_MAX);
    json_error_t error;
    *root = json_loadb(text.bytes != NULL ? text.bytes : "", text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                       &error);
    if (*root != NULL)
        return CAUDAL_OK;
    /* Whatever is wrong with the text, jansson has words for it. */
    if (error.text[0] == '\0' || json_error_code(&error) == json_error_out_of_memory)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    return cdl_problem(problem, CAUDAL_ERR_SYNTAX, error.position > 0 ? (size_t)error.position : 0,
                       "line %d, column %d: %s", error.line, error.column, error.text);
}

static json_t *requests_of(const struct cdl_json_body *body)
{
    return json_object_get(body->root, "requests");
}

static json_t *object_at(const struct cdl_json_body *body, size_t index)
{
    return body->is_batch ? json_array_get(requests_of(body), index) : body->root;
}

static int check_batch(const struct cdl_json_body *body, struct caudal_problem *problem)
{
    const struct place place = {problem, 0, false};
    const char *key;
    json_t *value;
    json_object_foreach (body->root, key, value)
        if (strcmp(key, "requests") != 0)
            return wrong(&place, CAUDAL_ERR_SYNTAX, "%.*s: cannot stand beside requests", SHOWN(key));
    const json_t *requests = requests_of(body);
    if (!json_is_array(requests))
        return wrong_type(&place, "requests", "a list", requests);
    if (json_array_size(requests) == 0 || json_array_size(requests) > CDL_JSON_BATCH_MAX)
        return wrong(&place, CAUDAL_ERR_SYNTAX, "requests: expected 1 to %d, found %zu", CDL_JSON_BATCH_MAX,
                     json_array_size(requests));
    return CAUDAL_OK;
}

static int check_requests(const struct cdl_json_body *body, struct caudal_problem *problem)
{
    struct cdl_json_request request;
    for (size_t i = 0; i < body->count; i++) {
        json_t *object = object_at(body, i);
        if (!json_is_object(object))
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "requests[%zu]: expected an object, found %s", i,
                               type_of(object));
        const int status = read_request(&(struct place){problem, i, body->is_batch}, object, &request);
        if (status != CAUDAL_OK)
            return status;
    }
    return CAUDAL_OK;
}

static int check(struct cdl_json_body *body, struct caudal_problem *problem)
{
    if (!json_is_object(body->root))
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "expected an object, found %s", type_of(body->root));
    body->is_batch = requests_of(body) != NULL;
    if (body->is_batch) {
        const int status = check_batch(body, problem);
        if (status != CAUDAL_OK)
            return status;
    }
    body->count = body->is_batch ? json_array_size(requests_of(body)) : 1;
    return check_requests(body, problem);
}

int cdl_json_parse(struct cdl_slice text, struct cdl_json_body *body, struct caudal_problem *problem)
{
    *body = (struct cdl_json_body){NULL, 0, false};
    int status = load(text, &body->root, problem);
    if (status == CAUDAL_OK)
        status = check(body, problem);
    if (status != CAUDAL_OK)
        cdl_json_free(body);
    return status;
}

void cdl_json_request(const struct cdl_json_body *body, size_t index, struct cdl_json_request *request)
{
    const struct place nobody = {NULL, index, body->is_batch};
    read_request(&nobody, object_at(body, index), request);
}

void cdl_json_free(struct cdl_json_body *body)
{
    if (body == NULL)
        return;
    json_decref(body->root);
    *body = (struct cdl_json_body){NULL, 0, false};
}
