#include "wire/rls_message.h"

#include <jansson.h>

#include <health.pb-c.h>
#include <rate_limit_service.pb-c.h>

#include "base/problem.h"

/* RateLimitResponse.Code */
enum {
    CODE_OK = 1,
    CODE_OVER_LIMIT = 2,
};

/* ---- memory ---- */

#define ALIGNMENT 16u

static void *allocate_bytes(void *context, size_t bytes)
{
    struct cdl_message_memory *memory = context;
    const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded < bytes || rounded > memory->size - memory->used) {
        memory->full = true;
        return NULL;
    }
    void *piece = memory->bytes + memory->used;
    memory->used += rounded;
    return piece;
}

/* All of it is given back at once, by who owns it. */
static void free_nothing(void *context, void *piece)
{
    (void)context;
    (void)piece;
}

void *cdl_message_allocate(struct cdl_message_memory *memory, size_t count, size_t size)
{
    void *piece = count <= memory->size / size ? allocate_bytes(memory, count * size) : NULL;
    if (piece != NULL)
        memset(piece, 0, count * size);
    else
        memory->full = true;
    return piece;
}

struct cdl_writer cdl_message_writer(struct cdl_message_memory *memory)
{
    const size_t size = (memory->size - memory->used) / 2 / ALIGNMENT * ALIGNMENT;
    return cdl_writer_on(allocate_bytes(memory, size), size);
}

static ProtobufCAllocator allocator_on(struct cdl_message_memory *memory)
{
    return (ProtobufCAllocator){allocate_bytes, free_nothing, memory};
}

static const uint8_t *bytes_of(struct cdl_slice slice)
{
    static const uint8_t none;
    return slice.length > 0 ? (const uint8_t *)slice.bytes : &none;
}

static struct cdl_slice slice_of(ProtobufCBinaryData data)
{
    return (struct cdl_slice){(const char *)data.data, data.len};
}

/* For what is packed, which only reads it. */
static ProtobufCBinaryData data_of(struct cdl_slice slice)
{
    return (ProtobufCBinaryData){slice.length, (uint8_t *)(uintptr_t)slice.bytes};
}

/* ---- RateLimitRequest ---- */

int cdl_rls_request_check(const struct cdl_descriptor_request *request, struct caudal_problem *problem)
{
    if (request->domain.length == 0)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "domain: empty");
    if (request->descriptor_count == 0)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "descriptors: there are none");
    if (request->descriptor_count > CDL_DESCRIPTORS_MAX)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "descriptors: %zu, which is more than %u",
                           request->descriptor_count, CDL_DESCRIPTORS_MAX);
    for (size_t i = 0; i < request->descriptor_count; i++) {
        const struct cdl_descriptor *descriptor = &request->descriptors[i];
        if (descriptor->entry_count == 0)
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "descriptors[%zu].entries: there are none", i);
        if (descriptor->entry_count > CDL_DESCRIPTOR_ENTRIES_MAX)
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "descriptors[%zu].entries: %zu, which is more than %u", i,
                               descriptor->entry_count, CDL_DESCRIPTOR_ENTRIES_MAX);
        for (size_t k = 0; k < descriptor->entry_count; k++)
            if (descriptor->entries[k].key.length == 0)
                return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "descriptors[%zu].entries[%zu].key: empty", i, k);
        if (descriptor->has_limit && (descriptor->unit <= CDL_UNIT_UNKNOWN || descriptor->unit >= CDL_UNITS))
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "descriptors[%zu].limit.unit: %u is no unit of time", i,
                               (unsigned)descriptor->unit);
    }
    return CAUDAL_OK;
}

static bool translate_descriptor(const Rls__Descriptor *message, struct cdl_message_memory *memory,
                                 struct cdl_descriptor *descriptor)
{
    struct cdl_descriptor_entry *entries = cdl_message_allocate(memory, message->n_entries, sizeof *entries);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < message->n_entries; i++) {
        entries[i].key = slice_of(message->entries[i]->key);
        entries[i].value = slice_of(message->entries[i]->value);
    }
    descriptor->entries = entries;
    descriptor->entry_count = message->n_entries;
    if (message->limit != NULL) {
        descriptor->has_limit = true;
        descriptor->requests_per_unit = message->limit->requests_per_unit;
        descriptor->unit = (enum cdl_unit)message->limit->unit;
    }
    if (message->hits_addend != NULL) {
        descriptor->has_hits = true;
        descriptor->hits = message->hits_addend->value;
    }
    return true;
}

static bool translate(const Rls__Request *message, struct cdl_message_memory *memory,
                      struct cdl_descriptor_request *request)
{
    struct cdl_descriptor *descriptors = cdl_message_allocate(memory, message->n_descriptors, sizeof *descriptors);
    if (descriptors == NULL)
        return false;
    for (size_t i = 0; i < message->n_descriptors; i++)
        if (!translate_descriptor(message->descriptors[i], memory, &descriptors[i]))
            return false;
    *request = (struct cdl_descriptor_request){.domain = slice_of(message->domain),
                                               .descriptors = descriptors,
                                               .descriptor_count = message->n_descriptors,
                                               .hits = message->hits_addend};
    return true;
}

int cdl_rls_request_read(struct cdl_slice bytes, struct cdl_message_memory *memory,
                         struct cdl_descriptor_request *request, struct caudal_problem *problem)
{
    ProtobufCAllocator allocator = allocator_on(memory);
    const Rls__Request *message = rls__request__unpack(&allocator, bytes.length, bytes_of(bytes));
    if (message != NULL && translate(message, memory, request))
        return cdl_rls_request_check(request, problem);
    if (memory->full)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0,
                           "descriptors: more than %u of them, or more than %u entries in one", CDL_DESCRIPTORS_MAX,
                           CDL_DESCRIPTOR_ENTRIES_MAX);
    return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "the message is no RateLimitRequest");
}

/* ---- metadata ---- */

static Rls__Struct *struct_of(const json_t *object, struct cdl_message_memory *memory);
static Rls__List *list_of(const json_t *array, struct cdl_message_memory *memory);

/* NULL: there is no room. As deep as a policy nests its metadata, which jansson bounds. */
static Rls__Value *value_of(const json_t *json, struct cdl_message_memory *memory)
{
    Rls__Value *value = cdl_message_allocate(memory, 1, sizeof *value);
    if (value == NULL)
        return NULL;
    rls__value__init(value);
    value->kind_case = RLS__VALUE__KIND_NULL_VALUE;
    if (json_is_object(json)) {
        value->kind_case = RLS__VALUE__KIND_STRUCT_VALUE;
        value->struct_value = struct_of(json, memory);
        return value->struct_value != NULL ? value : NULL;
    }
    if (json_is_array(json)) {
        value->kind_case = RLS__VALUE__KIND_LIST_VALUE;
        value->list_value = list_of(json, memory);
        return value->list_value != NULL ? value : NULL;
    }
    if (json_is_string(json)) {
        value->kind_case = RLS__VALUE__KIND_STRING_VALUE;
        value->string_value = data_of((struct cdl_slice){json_string_value(json), json_string_length(json)});
    } else if (json_is_number(json)) {
        value->kind_case = RLS__VALUE__KIND_NUMBER_VALUE;
        value->number_value = json_number_value(json);
    } else if (json_is_boolean(json)) {
        value->kind_case = RLS__VALUE__KIND_BOOL_VALUE;
        value->bool_value = json_is_true(json);
    }
    return value;
}

static Rls__List *list_of(const json_t *array, struct cdl_message_memory *memory)
{
    Rls__List *list = cdl_message_allocate(memory, 1, sizeof *list);
    if (list == NULL)
        return NULL;
    rls__list__init(list);
    list->n_values = json_array_size(array);
    list->values = cdl_message_allocate(memory, list->n_values, sizeof(void *));
    for (size_t i = 0; list->values != NULL && i < list->n_values; i++)
        if ((list->values[i] = value_of(json_array_get(array, i), memory)) == NULL)
            return NULL;
    return list->values != NULL ? list : NULL;
}

static Rls__Struct *struct_of(const json_t *object, struct cdl_message_memory *memory)
{
    const size_t count = json_object_size(object);
    Rls__Struct *structure = cdl_message_allocate(memory, 1, sizeof *structure);
    Rls__Struct__Field **fields = cdl_message_allocate(memory, count, sizeof(void *));
    Rls__Struct__Field *field = cdl_message_allocate(memory, count, sizeof *field);
    if (structure == NULL || fields == NULL || field == NULL)
        return NULL;
    rls__struct__init(structure);
    structure->fields = fields;
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
        rls__struct__field__init(field);
        field->key = data_of(cdl_slice_of(key));
        field->value = value_of(value, memory);
        if (field->value == NULL)
            return NULL;
        fields[structure->n_fields++] = field++;
    }
    return structure;
}

/* ---- RateLimitResponse ---- */

/* What the message of a response points to, of its fixed parts. */
struct parts {
    Rls__Status statuses[CDL_DESCRIPTORS_MAX];
    Rls__Limit limits[CDL_DESCRIPTORS_MAX];
    Rls__Duration resets[CDL_DESCRIPTORS_MAX];
    Rls__Status *status_list[CDL_DESCRIPTORS_MAX];
    Rls__Header headers[CDL_RLS_HEADERS_MAX];
    Rls__Header *header_list[CDL_RLS_HEADERS_MAX];
};

static void lay_out_status(const struct cdl_rls_status *status, size_t index, struct parts *parts)
{
    Rls__Status *message = parts->status_list[index] = &parts->statuses[index];
    rls__status__init(message);
    message->code = status->over_limit ? CODE_OVER_LIMIT : CODE_OK;
    message->limit_remaining = status->remaining;
    if (status->has_limit) {
        Rls__Limit *limit = message->current_limit = &parts->limits[index];
        rls__limit__init(limit);
        limit->requests_per_unit = status->requests_per_unit;
        limit->unit = (uint32_t)status->unit;
        limit->name = data_of(status->name);
    }
    if (status->has_reset) {
        Rls__Duration *reset = message->duration_until_reset = &parts->resets[index];
        rls__duration__init(reset);
        reset->seconds = (int64_t)status->reset_s;
    }
}

static void lay_out(const struct cdl_rls_response *response, struct parts *parts, Rls__Response *message)
{
    rls__response__init(message);
    message->overall_code = response->over_limit ? CODE_OVER_LIMIT : CODE_OK;
    message->n_statuses = response->status_count;
    message->statuses = parts->status_list;
    message->n_response_headers_to_add = response->header_count;
    message->response_headers_to_add = parts->header_list;
    for (size_t i = 0; i < response->status_count; i++)
        lay_out_status(&response->statuses[i], i, parts);
    for (size_t i = 0; i < response->header_count; i++) {
        Rls__Header *header = parts->header_list[i] = &parts->headers[i];
        rls__header__init(header);
        header->key = data_of(response->headers[i].name);
        header->value = data_of(response->headers[i].value);
    }
}

static bool append(const ProtobufCMessage *message, struct cdl_writer *output)
{
    if (output->overflow || protobuf_c_message_get_packed_size(message) > output->size - output->length)
        return false;
    output->length += protobuf_c_message_pack(message, (uint8_t *)output->bytes + output->length);
    return true;
}

bool cdl_rls_response_write(const struct cdl_rls_response *response, struct cdl_message_memory *memory,
                            struct cdl_writer *output)
{
    struct parts parts;
    Rls__Response message;
    lay_out(response, &parts, &message);
    if (response->metadata.length == 0)
        return append(&message.base, output);
    json_t *metadata = json_loadb(response->metadata.bytes, response->metadata.length, JSON_ALLOW_NUL, NULL);
    if (json_is_object(metadata))
        message.dynamic_metadata = struct_of(metadata, memory);
    const bool ok = message.dynamic_metadata != NULL && append(&message.base, output);
    json_decref(metadata);
    return ok;
}

/* ---- health ---- */

int cdl_health_request_read(struct cdl_slice bytes, struct cdl_message_memory *memory, struct cdl_slice *service,
                            struct caudal_problem *problem)
{
    ProtobufCAllocator allocator = allocator_on(memory);
    const Health__Request *message = health__request__unpack(&allocator, bytes.length, bytes_of(bytes));
    if (message == NULL)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "the message is no HealthCheckRequest");
    *service = slice_of(message->service);
    return CAUDAL_OK;
}

void cdl_health_response_write(enum cdl_health health, struct cdl_writer *output)
{
    Health__Response message = HEALTH__RESPONSE__INIT;
    message.status = (uint32_t)health;
    append(&message.base, output);
}
