/* Any name and any numbers in the fields of an answer.
 *
 * What is written must be read back, by a reader of RFC 9651 that knows nothing of the writer, as the same name and
 * numbers; no byte of a name may end a line.
 */
#include <stdlib.h>

#include "../tests/unit/wire/structured_fields.h"
#include "wire/ratelimit_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

/* Eats from the input. */
struct input {
    const uint8_t *data;
    size_t left;
};

static uint64_t take_number(struct input *input)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < 8 && input->left > 0; i++, input->left--)
        number = number << 8 | *input->data++;
    return number;
}

static struct cdl_slice take_name(struct input *input)
{
    const size_t length = input->left == 0 ? 0 : *input->data % 64 < input->left ? *input->data % 64 : input->left;
    const struct cdl_slice name = {(const char *)input->data, length};
    input->data += length;
    input->left -= length;
    return name;
}

static int64_t clipped(uint64_t number)
{
    return number < UINT64_C(999999999999999) ? (int64_t)number : INT64_C(999999999999999);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Undoes the escapes of a name. */
static void require_name(struct cdl_slice escaped, struct cdl_slice name)
{
    size_t at = 0;
    for (size_t i = 0; i < name.length; i++) {
        require(at < escaped.length);
        int byte = (unsigned char)escaped.bytes[at++];
        if (byte == '%') {
            require(at + 2 <= escaped.length);
            byte = digit_of(escaped.bytes[at]) * 16 + digit_of(escaped.bytes[at + 1]);
            at += 2;
        }
        require(byte == (unsigned char)name.bytes[i]);
    }
    require(at == escaped.length);
}

static void require_lines(struct cdl_slice lines)
{
    require(lines.length == 0 || (lines.length > 2 && lines.bytes[lines.length - 2] == '\r'));
    for (size_t i = 0; i < lines.length; i++) {
        const char c = lines.bytes[i];
        require((c >= ' ' && c <= '~') || (c == '\r' && lines.bytes[i + 1] == '\n') ||
                (c == '\n' && lines.bytes[i - 1] == '\r'));
    }
}

static void require_wait(const struct sf_member *member, const char *key, const struct caudal_decision *decision)
{
    const int64_t wait = decision->verdict == CAUDAL_DENY ? decision->retry_after_ns : decision->reset_after_ns;
    const int64_t told = sf_parameter(member, key);
    require((told < 0) == (wait < 0));
    require(wait < 0 || told == wait / 1000000000 + (wait % 1000000000 > 0));
}

static void require_list(struct cdl_slice lines, const struct cdl_fields_answer *answer, bool revision_12)
{
    static struct sf_list list;
    require(sf_parse(sf_field(lines, "RateLimit-Policy"), &list) && list.count >= 1);
    for (size_t i = 0; i < list.count; i++)
        require(sf_parameter(&list.members[i], "q") >= 0 && sf_parameter(&list.members[i], "w") != 0);
    const struct cdl_fields_policy *binding = &answer->policies[answer->binding];
    require(sf_parse(sf_field(lines, "RateLimit"), &list) && list.count == 1);
    require_name(sf_name(&list.members[0]), binding->name);
    require(sf_parameter(&list.members[0], revision_12 ? "a" : "r") == clipped(answer->decision->remaining));
    require_wait(&list.members[0], revision_12 ? "w" : "t", answer->decision);
    require(sf_parameter(&list.members[0], "c") == (revision_12 ? clipped(answer->cost) : -1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct cdl_fields_policy policies[4];
    const size_t count = 1 + take_number(&input) % 4;
    for (size_t i = 0; i < count; i++) {
        policies[i] = (struct cdl_fields_policy){.quota = take_number(&input), .capacity = take_number(&input)};
        policies[i].window_s = take_number(&input) >> (i * 16);
        policies[i].name = take_name(&input);
    }
    const struct caudal_decision decision = {
        .verdict = (enum caudal_verdict)(take_number(&input) % 4),
        .remaining = take_number(&input),
        .retry_after_ns = (int64_t)take_number(&input),
        .reset_after_ns = (int64_t)take_number(&input),
    };
    const struct cdl_fields_answer answer = {
        policies, count, take_number(&input) % count, &decision, take_number(&input), (int64_t)take_number(&input)};
    char room[4096];
    for (enum cdl_fields_revision revision = CDL_FIELDS_IETF_11; revision <= CDL_FIELDS_NONE; revision++) {
        struct cdl_writer writer = cdl_writer_on(room, sizeof room);
        cdl_fields_write(&writer, revision, &answer);
        require(!writer.overflow);
        require_lines(cdl_written(&writer));
        const bool told = decision.verdict != CAUDAL_NO_VERDICT && policies[answer.binding].capacity != UINT64_MAX &&
                          revision != CDL_FIELDS_NONE;
        require((writer.length > 0) == told);
        if (told && revision <= CDL_FIELDS_IETF_12)
            require_list(cdl_written(&writer), &answer, revision == CDL_FIELDS_IETF_12);
    }
    return 0;
}
