/* Any bytes as the body of a request to the JSON API.
 *
 * What is read must keep its bounds and come out the same when it is written down again; what is refused must say why in one
 * line, and that line must fit into a problem, whatever it quotes. All JSON that is written must be read by jansson.
 */
#include <jansson.h>
#include <stdlib.h>

#include "wire/json_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static char room[1u << 22];

static void write_strings(struct cdl_writer *writer, const struct cdl_slice *strings, size_t count)
{
    cdl_write_text(writer, "[");
    for (size_t i = 0; i < count; i++) {
        cdl_json_next(writer, i);
        cdl_json_write_string(writer, strings[i]);
    }
    cdl_write_text(writer, "]");
}

/* The request as a body. */
static struct cdl_slice write_again(const struct cdl_json_request *request)
{
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_write_text(&writer, request->limit.length > 0 ? "{\"limit\":" : "{\"attributes\":{");
    if (request->limit.length > 0) {
        cdl_json_write_string(&writer, request->limit);
        cdl_write_text(&writer, ",\"key\":");
        write_strings(&writer, request->key_parts, request->key_part_count);
    }
    for (size_t i = 0; i < request->attribute_count; i++) {
        cdl_json_next(&writer, i);
        cdl_json_write_string(&writer, request->attributes[i].name);
        cdl_write_text(&writer, ":");
        cdl_json_write_string(&writer, request->attributes[i].value);
    }
    cdl_writef(&writer, "%s,\"cost\":%llu}", request->limit.length > 0 ? "" : "}", (unsigned long long)request->cost);
    require(!writer.overflow);
    return cdl_written(&writer);
}

static void require_same(const struct cdl_json_request *a, const struct cdl_json_request *b)
{
    require(a->cost == b->cost && a->key_part_count == b->key_part_count && a->attribute_count == b->attribute_count);
    require(cdl_slice_equal(a->limit, b->limit));
    for (size_t i = 0; i < a->key_part_count; i++)
        require(cdl_slice_equal(a->key_parts[i], b->key_parts[i]));
    for (size_t i = 0; i < a->attribute_count; i++)
        require(cdl_slice_equal(a->attributes[i].name, b->attributes[i].name) &&
                cdl_slice_equal(a->attributes[i].value, b->attributes[i].value));
}

static void require_bounds(const struct cdl_json_request *request)
{
    require(request->cost <= INT64_MAX);
    require(request->attribute_count <= CDL_JSON_ATTRIBUTES_MAX);
    require(request->key_part_count <= CDL_JSON_KEY_PARTS_MAX);
    require(request->limit.length > 0 || request->key_part_count == 0);
    require(request->limit.length == 0 || request->attribute_count == 0);
}

static void require_json(const struct cdl_writer *writer)
{
    require(!writer->overflow);
    json_t *root = json_loadb(writer->bytes, writer->length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    require(root != NULL);
    json_decref(root);
}

/* A decision and a refusal that name the request's limit. */
static void require_answers(const struct cdl_json_request *request)
{
    const struct caudal_decision decision = {.verdict = CAUDAL_DENY, .retry_after_ns = (int64_t)request->cost};
    const struct cdl_json_decision told = {request->limit, &decision};
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_decision(&writer, &told, &told, 1);
    require_json(&writer);
    writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_refusal(&writer, 429, &told, &told, 1, request->cost);
    require_json(&writer);
}

static void look_at(const struct cdl_json_body *body)
{
    require(body->count >= 1 && body->count <= CDL_JSON_BATCH_MAX && (body->is_batch || body->count == 1));
    for (size_t i = 0; i < body->count; i++) {
        struct cdl_json_request request, same;
        cdl_json_request(body, i, &request);
        require_bounds(&request);
        struct cdl_json_body again;
        require(cdl_json_parse(write_again(&request), &again, NULL) == CAUDAL_OK && !again.is_batch);
        cdl_json_request(&again, 0, &same);
        require_same(&request, &same);
        cdl_json_free(&again);
        require_answers(&request);
    }
}

static void require_explanation(const struct caudal_problem *problem, int status)
{
    require(status == CAUDAL_ERR_SYNTAX || status == CAUDAL_ERR_KEY);
    require(problem->code == status);
    const size_t said = strnlen(problem->message, sizeof problem->message);
    require(said > 0 && said < sizeof problem->message);
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    cdl_json_write_problem(&writer, 400, (struct cdl_slice){problem->message, said});
    require_json(&writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cdl_json_body body;
    struct caudal_problem problem;
    const int status = cdl_json_parse((struct cdl_slice){(const char *)data, size}, &body, &problem);
    if (status == CAUDAL_OK)
        look_at(&body);
    else
        require_explanation(&problem, status);
    cdl_json_free(&body);
    return 0;
}
