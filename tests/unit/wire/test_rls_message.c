/* The messages of Envoy's rate limit service as bytes: what is read, what is refused and why, what is written. */
#include <stdlib.h>

#include "../support.h"
#include "wire/rls_message.h"

static char *memory_bytes;

static int setup(void **state)
{
    (void)state;
    memory_bytes = malloc(CDL_RLS_MEMORY_BYTES);
    assert_non_null(memory_bytes);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(memory_bytes);
    return 0;
}

static struct cdl_message_memory memory_of(size_t size)
{
    return (struct cdl_message_memory){.bytes = memory_bytes, .size = size};
}

/* ---- messages, built as protobuf wants them ---- */

struct message {
    char bytes[CDL_RLS_MESSAGE_MAX];
    size_t length;
};

static void add_varint(struct message *message, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        message->bytes[message->length++] = (char)(value | 128);
    message->bytes[message->length++] = (char)value;
}

static void add_number(struct message *message, unsigned field, uint64_t value)
{
    add_varint(message, field << 3);
    add_varint(message, value);
}

static void add_bytes(struct message *message, unsigned field, const void *bytes, size_t length)
{
    add_varint(message, field << 3 | 2);
    add_varint(message, length);
    assert_true(length <= sizeof message->bytes - message->length);
    memcpy(message->bytes + message->length, bytes, length);
    message->length += length;
}

static void add_text(struct message *message, unsigned field, const char *text)
{
    add_bytes(message, field, text, strlen(text));
}

static void add_message(struct message *message, unsigned field, const struct message *inner)
{
    add_bytes(message, field, inner->bytes, inner->length);
}

static void add_entry(struct message *descriptor, const char *key, const char *value)
{
    static struct message entry;
    entry.length = 0;
    add_text(&entry, 1, key);
    add_text(&entry, 2, value);
    add_message(descriptor, 1, &entry);
}

static void add_limit(struct message *descriptor, uint64_t count, uint64_t unit)
{
    static struct message limit;
    limit.length = 0;
    add_number(&limit, 1, count);
    add_number(&limit, 2, unit);
    add_message(descriptor, 2, &limit);
}

static void add_hits(struct message *descriptor, uint64_t hits)
{
    static struct message value;
    value.length = 0;
    if (hits != 0)
        add_number(&value, 1, hits);
    add_message(descriptor, 3, &value);
}

static struct message request, descriptor;

static void begin(void)
{
    request.length = descriptor.length = 0;
    add_text(&request, 1, "d");
}

static struct cdl_descriptor_request read_good(void)
{
    struct cdl_message_memory memory = memory_of(CDL_RLS_MEMORY_BYTES);
    struct cdl_descriptor_request got;
    struct caudal_problem problem;
    if (cdl_rls_request_read((struct cdl_slice){request.bytes, request.length}, &memory, &got, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
    return got;
}

static void assert_bad(const char *why)
{
    struct cdl_message_memory memory = memory_of(CDL_RLS_MEMORY_BYTES);
    struct cdl_descriptor_request got;
    struct caudal_problem problem;
    assert_int_equal(cdl_rls_request_read((struct cdl_slice){request.bytes, request.length}, &memory, &got, &problem),
                     CAUDAL_ERR_SYNTAX);
    if (strstr(problem.message, why) == NULL)
        fail_msg("no '%s' in '%s'", why, problem.message);
}

static void assert_text(struct cdl_slice got, const char *text)
{
    assert_int_equal(got.length, strlen(text));
    assert_memory_equal(got.bytes, text, got.length);
}

/* ---- requests ---- */

static void a_request_is_read(void **state)
{
    (void)state;
    begin();
    add_entry(&descriptor, "k", "v");
    add_entry(&descriptor, "k2", "");
    add_message(&request, 2, &descriptor);
    descriptor.length = 0;
    add_entry(&descriptor, "o", "w");
    add_limit(&descriptor, 5, CDL_UNIT_WEEK);
    add_hits(&descriptor, 0);
    add_message(&request, 2, &descriptor);
    add_number(&request, 3, UINT32_MAX);
    const struct cdl_descriptor_request got = read_good();
    assert_text(got.domain, "d");
    assert_int_equal(got.descriptor_count, 2);
    assert_int_equal(got.hits, UINT32_MAX);
    assert_int_equal(got.descriptors[0].entry_count, 2);
    assert_text(got.descriptors[0].entries[0].key, "k");
    assert_text(got.descriptors[0].entries[0].value, "v");
    assert_text(got.descriptors[0].entries[1].key, "k2");
    assert_text(got.descriptors[0].entries[1].value, "");
    assert_false(got.descriptors[0].has_limit || got.descriptors[0].has_hits);
    assert_true(got.descriptors[1].has_limit && got.descriptors[1].has_hits);
    assert_int_equal(got.descriptors[1].requests_per_unit, 5);
    assert_int_equal(got.descriptors[1].unit, CDL_UNIT_WEEK);
    assert_int_equal(got.descriptors[1].hits, 0);
}

static void C30_zero_hits_are_told_from_none(void **state)
{
    (void)state;
    static const uint64_t hits[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(hits); i++) {
        begin();
        add_entry(&descriptor, "k", "v");
        add_hits(&descriptor, hits[i]);
        add_message(&request, 2, &descriptor);
        const struct cdl_descriptor_request got = read_good();
        assert_true(got.descriptors[0].has_hits);
        assert_true(got.descriptors[0].hits == hits[i]);
        assert_int_equal(got.hits, 0);
    }
}

static void C75_any_byte_is_data(void **state)
{
    (void)state;
    static const char odd[] = "a\0b\r\n\xff\xc3";
    static struct message entry;
    begin();
    entry.length = 0;
    add_bytes(&entry, 1, odd, sizeof odd - 1);
    add_bytes(&entry, 2, odd, sizeof odd - 1);
    add_message(&descriptor, 1, &entry);
    add_message(&request, 2, &descriptor);
    const struct cdl_descriptor_request got = read_good();
    const struct cdl_slice want = {odd, sizeof odd - 1};
    assert_true(cdl_slice_equal(got.descriptors[0].entries[0].key, want));
    assert_true(cdl_slice_equal(got.descriptors[0].entries[0].value, want));
}

static void unknown_fields_are_skipped(void **state)
{
    (void)state;
    begin();
    add_entry(&descriptor, "k", "v");
    add_text(&descriptor, 9, "something of a later version");
    add_message(&request, 2, &descriptor);
    add_number(&request, 17, 5);
    assert_int_equal(read_good().descriptor_count, 1);
}

static void bad_requests_name_what_is_wrong(void **state)
{
    (void)state;
    request.length = 0;
    assert_bad("domain: empty");
    begin();
    assert_bad("descriptors: there are none");
    add_message(&request, 2, &descriptor);
    assert_bad("descriptors[0].entries: there are none");
    begin();
    add_entry(&descriptor, "k", "v");
    add_message(&request, 2, &descriptor);
    add_entry(&descriptor, "", "v");
    add_message(&request, 2, &descriptor);
    assert_bad("descriptors[1].entries[1].key: empty");
}

static void C60_a_unit_is_checked(void **state)
{
    (void)state;
    static const uint64_t good[] = {1, 2, 3, 4, 5, 6, 7}, bad[] = {0, 8, 99, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        begin();
        add_entry(&descriptor, "k", "v");
        add_limit(&descriptor, 0, good[i]);
        add_message(&request, 2, &descriptor);
        assert_int_equal(read_good().descriptors[0].unit, good[i]);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        begin();
        add_entry(&descriptor, "k", "v");
        add_limit(&descriptor, 5, bad[i]);
        add_message(&request, 2, &descriptor);
        assert_bad("descriptors[0].limit.unit");
    }
}

static void counts_are_bounded(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < CDL_DESCRIPTOR_ENTRIES_MAX; i++)
        add_entry(&descriptor, "k", "v");
    for (unsigned i = 0; i < CDL_DESCRIPTORS_MAX; i++)
        add_message(&request, 2, &descriptor);
    assert_int_equal(read_good().descriptor_count, CDL_DESCRIPTORS_MAX);
    add_message(&request, 2, &descriptor);
    assert_bad("descriptors: 65, which is more than 64");
    begin();
    for (unsigned i = 0; i <= CDL_DESCRIPTOR_ENTRIES_MAX; i++)
        add_entry(&descriptor, "k", "v");
    add_message(&request, 2, &descriptor);
    assert_bad("descriptors[0].entries: 33, which is more than 32");
    begin();
    while (request.length < CDL_RLS_MESSAGE_MAX - 2)
        add_bytes(&request, 2, "", 0);
    assert_bad("descriptors: ");
}

static void a_message_as_long_as_may_be_fits(void **state)
{
    (void)state;
    static char value[63 * 1024];
    static struct message entry;
    memset(value, 'x', sizeof value);
    begin();
    entry.length = 0;
    add_text(&entry, 1, "k");
    add_bytes(&entry, 2, value, sizeof value);
    add_message(&descriptor, 1, &entry);
    add_message(&request, 2, &descriptor);
    assert_int_equal(read_good().descriptors[0].entries[0].value.length, sizeof value);
}

/* Every prefix of a message is a message or none, and none reads beyond it. */
static void cut_messages_are_no_messages(void **state)
{
    (void)state;
    begin();
    add_entry(&descriptor, "key", "value");
    add_limit(&descriptor, 5, 1);
    add_hits(&descriptor, 3);
    add_message(&request, 2, &descriptor);
    for (size_t length = 0; length < request.length; length++) {
        char *copy = malloc(length + 1);
        assert_non_null(copy);
        memcpy(copy, request.bytes, length);
        struct cdl_message_memory memory = memory_of(CDL_RLS_MEMORY_BYTES);
        struct cdl_descriptor_request got;
        struct caudal_problem problem;
        assert_int_equal(cdl_rls_request_read((struct cdl_slice){copy, length}, &memory, &got, &problem),
                         CAUDAL_ERR_SYNTAX);
        assert_true(strlen(problem.message) > 0);
        free(copy);
    }
}

/* With too little memory there is an error, however little it is. */
static void memory_is_bounded(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < 5; i++)
        add_entry(&descriptor, "key", "value");
    add_message(&request, 2, &descriptor);
    unsigned good = 0;
    for (size_t size = 0; size < 2048; size += 16) {
        struct cdl_message_memory memory = memory_of(size);
        struct cdl_descriptor_request got;
        struct caudal_problem problem;
        const int status = cdl_rls_request_read((struct cdl_slice){request.bytes, request.length}, &memory, &got,
                                                &problem);
        assert_true(status == CAUDAL_OK ? !memory.full : memory.full);
        assert_true(memory.used <= size);
        good += status == CAUDAL_OK;
    }
    assert_true(good > 0);
}

/* ---- responses ---- */

static void assert_written(const struct cdl_rls_response *response, const void *bytes, size_t length)
{
    struct cdl_message_memory memory = memory_of(CDL_RLS_MEMORY_BYTES);
    struct cdl_writer output = cdl_message_writer(&memory);
    assert_true(cdl_rls_response_write(response, &memory, &output));
    if (output.length != length || memcmp(output.bytes, bytes, length) != 0) {
        for (size_t i = 0; i < output.length; i++)
            print_error("\\x%02x", (unsigned char)output.bytes[i]);
        fail_msg("is not what was wanted");
    }
}

#define ASSERT_WRITTEN(response, literal) assert_written(response, literal, sizeof(literal) - 1)

static void a_response_is_written(void **state)
{
    (void)state;
    static struct cdl_rls_response response;
    response = (struct cdl_rls_response){.status_count = 1};
    ASSERT_WRITTEN(&response, "\x08\x01\x12\x02\x08\x01");
    response.statuses[0].remaining = UINT32_MAX;
    ASSERT_WRITTEN(&response, "\x08\x01\x12\x08\x08\x01\x18\xff\xff\xff\xff\x0f");
    response.over_limit = true;
    response.statuses[0] = (struct cdl_rls_status){.over_limit = true,
                                                   .has_limit = true,
                                                   .requests_per_unit = 20,
                                                   .unit = CDL_UNIT_MINUTE,
                                                   .name = CDL_SLICE("n"),
                                                   .has_reset = true,
                                                   .reset_s = 59};
    response.headers[0] = (struct cdl_field){CDL_SLICE("a"), CDL_SLICE("b")};
    response.header_count = 1;
    ASSERT_WRITTEN(&response, "\x08\x02\x12\x0f\x08\x02\x12\x07\x08\x14\x10\x02\x1a\x01n\x22\x02\x08\x3b"
                              "\x1a\x06\x0a\x01"
                              "a\x12\x01"
                              "b");
}

static void metadata_is_a_struct(void **state)
{
    (void)state;
    static struct cdl_rls_response response;
    response = (struct cdl_rls_response){.metadata = CDL_SLICE("{\"a\":true}")};
    ASSERT_WRITTEN(&response, "\x08\x01\x32\x09\x0a\x07\x0a\x01"
                              "a\x12\x02\x20\x01");
    response.metadata = CDL_SLICE("{\"a\":null}");
    ASSERT_WRITTEN(&response, "\x08\x01\x32\x09\x0a\x07\x0a\x01"
                              "a\x12\x02\x08\x00");
    response.metadata = CDL_SLICE("{\"a\":[1,\"x\\u0000y\"]}");
    ASSERT_WRITTEN(&response, "\x08\x01\x32\x1b\x0a\x19\x0a\x01"
                              "a\x12\x14\x32\x12\x0a\x09\x11\0\0\0\0\0\0\xf0\x3f\x0a\x05\x1a\x03x\0y");
}

static void metadata_nests(void **state)
{
    (void)state;
    static struct cdl_rls_response response;
    response = (struct cdl_rls_response){.metadata = CDL_SLICE("{\"a\":{\"b\":{}}}")};
    ASSERT_WRITTEN(&response, "\x08\x01\x32\x12\x0a\x10\x0a\x01"
                              "a\x12\x0b\x2a\x09\x0a\x07\x0a\x01"
                              "b\x12\x02\x2a\0");
}

static void what_does_not_fit_is_not_written(void **state)
{
    (void)state;
    static struct cdl_rls_response response;
    static const char *const metadata[] = {"", "{\"a\":{\"b\":[1,2,3,{}]},\"c\":\"d\"}"};
    for (size_t i = 0; i < COUNT_OF(metadata); i++) {
        response = (struct cdl_rls_response){.status_count = 3, .metadata = cdl_slice_of(metadata[i])};
        for (size_t size = 0; size < 1024; size += 16) {
            struct cdl_message_memory memory = memory_of(size);
            struct cdl_writer output = cdl_message_writer(&memory);
            if (!cdl_rls_response_write(&response, &memory, &output))
                assert_int_equal(output.length, 0);
            else
                assert_true(output.length >= 14 && output.length <= output.size);
        }
    }
    struct cdl_message_memory memory = memory_of(CDL_RLS_MEMORY_BYTES);
    struct cdl_writer output = cdl_message_writer(&memory);
    response.metadata = CDL_SLICE("[1]");
    assert_false(cdl_rls_response_write(&response, &memory, &output));
    response.metadata = CDL_SLICE("{");
    assert_false(cdl_rls_response_write(&response, &memory, &output));
}

/* ---- health ---- */

static void health_is_asked_and_told(void **state)
{
    (void)state;
    struct cdl_message_memory memory = memory_of(CDL_RLS_MEMORY_BYTES);
    struct cdl_slice service;
    struct caudal_problem problem;
    assert_int_equal(cdl_health_request_read(CDL_SLICE(""), &memory, &service, &problem), CAUDAL_OK);
    assert_text(service, "");
    assert_int_equal(cdl_health_request_read(CDL_SLICE("\x0a\x09ratelimit"), &memory, &service, &problem), CAUDAL_OK);
    assert_text(service, "ratelimit");
    assert_int_equal(cdl_health_request_read(CDL_SLICE("\x0a\x0aratelimit"), &memory, &service, &problem),
                     CAUDAL_ERR_SYNTAX);
    char text[8];
    struct cdl_writer output = cdl_writer_on(text, sizeof text);
    cdl_health_response_write(CDL_HEALTH_NOT_SERVING, &output);
    assert_true(cdl_slice_equal(cdl_written(&output), CDL_SLICE("\x08\x02")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read),
        cmocka_unit_test(C30_zero_hits_are_told_from_none),
        cmocka_unit_test(C75_any_byte_is_data),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(bad_requests_name_what_is_wrong),
        cmocka_unit_test(C60_a_unit_is_checked),
        cmocka_unit_test(counts_are_bounded),
        cmocka_unit_test(a_message_as_long_as_may_be_fits),
        cmocka_unit_test(cut_messages_are_no_messages),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(a_response_is_written),
        cmocka_unit_test(metadata_is_a_struct),
        cmocka_unit_test(metadata_nests),
        cmocka_unit_test(what_does_not_fit_is_not_written),
        cmocka_unit_test(health_is_asked_and_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
