/* Any bytes as a RateLimitRequest, and as a HealthCheckRequest.
 *
 * What is read keeps its bounds and its memory, and comes out the same when it is written down again; what is refused says why in one line. What
 * a request says is then said in a response, which protobuf-c must be able to read.
 */
#include <stdlib.h>
#include <string.h>

#include <rate_limit_service.pb-c.h>

#include "base/writer.h"
#include "wire/json_api.h"
#include "wire/rls_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static char memory_bytes[2][CDL_RLS_MEMORY_BYTES] __attribute__((aligned(16)));

static struct cdl_message_memory memory_of(int index)
{
    return (struct cdl_message_memory){.bytes = memory_bytes[index], .size = CDL_RLS_MEMORY_BYTES};
}

/* ---- written down again ---- */

static char room[4][1u << 20];

static void write_varint(struct cdl_writer *writer, uint64_t value)
{
    char bytes[10];
    size_t length = 0;
    for (; value >= 128; value >>= 7)
        bytes[length++] = (char)(value | 128);
    bytes[length++] = (char)value;
    cdl_write(writer, (struct cdl_slice){bytes, length});
}

static void write_number(struct cdl_writer *writer, unsigned field, uint64_t value)
{
    write_varint(writer, field << 3);
    write_varint(writer, value);
}

static void write_bytes(struct cdl_writer *writer, unsigned field, struct cdl_slice bytes)
{
    write_varint(writer, field << 3 | 2);
    write_varint(writer, bytes.length);
    cdl_write(writer, bytes);
}

static void write_descriptor(const struct cdl_descriptor *descriptor, struct cdl_writer *writer)
{
    for (size_t i = 0; i < descriptor->entry_count; i++) {
        struct cdl_writer entry = cdl_writer_on(room[2], sizeof room[2]);
        write_bytes(&entry, 1, descriptor->entries[i].key);
        write_bytes(&entry, 2, descriptor->entries[i].value);
        write_bytes(writer, 1, cdl_written(&entry));
    }
    struct cdl_writer inner = cdl_writer_on(room[2], sizeof room[2]);
    if (descriptor->has_limit) {
        write_number(&inner, 1, descriptor->requests_per_unit);
        write_number(&inner, 2, (uint64_t)descriptor->unit);
        write_bytes(writer, 2, cdl_written(&inner));
    }
    inner = cdl_writer_on(room[2], sizeof room[2]);
    if (descriptor->has_hits) {
        write_number(&inner, 1, descriptor->hits);
        write_bytes(writer, 3, cdl_written(&inner));
    }
}

static struct cdl_slice write_again(const struct cdl_descriptor_request *request)
{
    struct cdl_writer writer = cdl_writer_on(room[0], sizeof room[0]);
    write_bytes(&writer, 1, request->domain);
    for (size_t i = 0; i < request->descriptor_count; i++) {
        struct cdl_writer descriptor = cdl_writer_on(room[1], sizeof room[1]);
        write_descriptor(&request->descriptors[i], &descriptor);
        write_bytes(&writer, 2, cdl_written(&descriptor));
    }
    write_number(&writer, 3, request->hits);
    require(!writer.overflow);
    return cdl_written(&writer);
}

static void require_same(const struct cdl_descriptor *a, const struct cdl_descriptor *b)
{
    require(a->entry_count == b->entry_count && a->has_limit == b->has_limit && a->has_hits == b->has_hits);
    require(a->requests_per_unit == b->requests_per_unit && a->unit == b->unit && a->hits == b->hits);
    for (size_t i = 0; i < a->entry_count; i++)
        require(cdl_slice_equal(a->entries[i].key, b->entries[i].key) &&
                cdl_slice_equal(a->entries[i].value, b->entries[i].value));
}

static void require_read_again(const struct cdl_descriptor_request *request)
{
    struct cdl_message_memory memory = memory_of(1);
    struct cdl_descriptor_request again;
    const struct cdl_slice bytes = write_again(request);
    if (bytes.length > CDL_RLS_MESSAGE_MAX)
        return; /* longer than it was, by what it need not have said */
    require(cdl_rls_request_read(bytes, &memory, &again, NULL) == CAUDAL_OK);
    require(cdl_slice_equal(again.domain, request->domain) && again.hits == request->hits);
    require(again.descriptor_count == request->descriptor_count);
    for (size_t i = 0; i < request->descriptor_count; i++)
        require_same(&request->descriptors[i], &again.descriptors[i]);
}

/* ---- said in a response ---- */

static void fill(const struct cdl_descriptor_request *request, struct cdl_rls_response *response)
{
    struct cdl_writer json = cdl_writer_on(room[3], sizeof room[3]);
    memset(response, 0, sizeof *response);
    response->status_count = request->descriptor_count;
    for (size_t i = 0; i < request->descriptor_count; i++) {
        const struct cdl_descriptor *descriptor = &request->descriptors[i];
        response->statuses[i] = (struct cdl_rls_status){.over_limit = i % 2 != 0,
                                                        .has_limit = descriptor->has_limit,
                                                        .requests_per_unit = descriptor->requests_per_unit,
                                                        .unit = descriptor->unit,
                                                        .name = descriptor->entries[0].key,
                                                        .remaining = (uint32_t)descriptor->hits,
                                                        .has_reset = descriptor->has_hits,
                                                        .reset_s = descriptor->hits >> 1};
    }
    response->headers[0] = (struct cdl_field){request->domain, request->descriptors[0].entries[0].value};
    response->header_count = 1;
    cdl_write_text(&json, "{\"domain\":");
    cdl_json_write_string(&json, request->domain);
    cdl_write_text(&json, ",\"hits\":");
    cdl_write_u64(&json, request->hits);
    cdl_write_text(&json, "}");
    require(!json.overflow);
    response->metadata = cdl_written(&json);
}

static void require_response(const struct cdl_descriptor_request *request)
{
    static struct cdl_rls_response response;
    struct cdl_message_memory memory = memory_of(1);
    fill(request, &response);
    struct cdl_writer output = cdl_message_writer(&memory);
    require(cdl_rls_response_write(&response, &memory, &output));
    Rls__Response *message = rls__response__unpack(NULL, output.length, (const uint8_t *)output.bytes);
    require(message != NULL && message->n_statuses == response.status_count);
    require(message->dynamic_metadata != NULL && message->dynamic_metadata->n_fields == 2);
    for (size_t i = 0; i < response.status_count; i++) {
        require(message->statuses[i]->limit_remaining == response.statuses[i].remaining);
        require((message->statuses[i]->current_limit != NULL) == response.statuses[i].has_limit);
    }
    rls__response__free_unpacked(message, NULL);
}

static void require_bounds(const struct cdl_descriptor_request *request)
{
    require(request->domain.length > 0 && request->hits <= UINT32_MAX);
    require(request->descriptor_count >= 1 && request->descriptor_count <= CDL_DESCRIPTORS_MAX);
    for (size_t i = 0; i < request->descriptor_count; i++) {
        const struct cdl_descriptor *descriptor = &request->descriptors[i];
        require(descriptor->entry_count >= 1 && descriptor->entry_count <= CDL_DESCRIPTOR_ENTRIES_MAX);
        require(!descriptor->has_limit || (descriptor->unit > CDL_UNIT_UNKNOWN && descriptor->unit < CDL_UNITS));
        for (size_t k = 0; k < descriptor->entry_count; k++)
            require(descriptor->entries[k].key.length > 0);
    }
}

static void require_explanation(const struct caudal_problem *problem, int status)
{
    require(status == CAUDAL_ERR_SYNTAX && problem->code == status);
    const size_t said = strnlen(problem->message, sizeof problem->message);
    require(said > 0 && said < sizeof problem->message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cdl_message_memory memory = memory_of(0);
    struct cdl_descriptor_request request;
    struct caudal_problem problem;
    struct cdl_slice service;
    const struct cdl_slice bytes = {(const char *)data, size};
    if (size > CDL_RLS_MESSAGE_MAX)
        return 0;
    int status = cdl_rls_request_read(bytes, &memory, &request, &problem);
    require(memory.used <= memory.size);
    if (status == CAUDAL_OK) {
        require_bounds(&request);
        require_read_again(&request);
        require_response(&request);
    } else {
        require_explanation(&problem, status);
    }
    memory = memory_of(0);
    status = cdl_health_request_read(bytes, &memory, &service, &problem);
    if (status != CAUDAL_OK)
        require_explanation(&problem, status);
    else
        require(service.length <= size);
    return 0;
}
