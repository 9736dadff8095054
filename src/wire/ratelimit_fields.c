#include "wire/ratelimit_fields.h"

#include "base/arith.h"

/* The largest integer of RFC 9651. */
#define INTEGER_MAX UINT64_C(999999999999999)

static const struct {
    struct cdl_slice name;
    enum cdl_fields_revision revision;
} revisions[] = {
    {{"ietf-11", 7}, CDL_FIELDS_IETF_11},
    {{"ietf-12", 7}, CDL_FIELDS_IETF_12},
    {{"ietf-06", 7}, CDL_FIELDS_IETF_06},
    {{"x-ratelimit", 11}, CDL_FIELDS_X_RATELIMIT_EPOCH},
    {{"x-ratelimit-epoch", 17}, CDL_FIELDS_X_RATELIMIT_EPOCH},
    {{"x-ratelimit-delta", 17}, CDL_FIELDS_X_RATELIMIT_DELTA},
    {{"none", 4}, CDL_FIELDS_NONE},
};

bool cdl_fields_revision_find(struct cdl_slice name, enum cdl_fields_revision *revision)
{
    for (size_t i = 0; i < sizeof revisions / sizeof revisions[0]; i++)
        if (cdl_slice_equal(revisions[i].name, name)) {
            *revision = revisions[i].revision;
            return true;
        }
    return false;
}

struct cdl_fields_policy cdl_fields_policy_of(struct cdl_slice name, const struct caudal_limit *limit)
{
    const uint64_t capacity = caudal_limit_capacity(limit);
    const bool refills = limit->count > 0;
    const bool whole = limit->period_ns % (uint64_t)CDL_NS_PER_S == 0;
    return (struct cdl_fields_policy){
        .name = name,
        .quota = refills ? limit->count : capacity,
        .window_s = refills && whole ? limit->period_ns / (uint64_t)CDL_NS_PER_S : 0,
        .capacity = capacity,
    };
}

/* ---- pieces of structured fields ---- */

static void write_integer(struct cdl_writer *writer, uint64_t number)
{
    cdl_write_u64(writer, cdl_min_u64(number, INTEGER_MAX));
}

static void write_escape(struct cdl_writer *writer, unsigned char byte)
{
    static const char digits[] = "0123456789ABCDEF";
    const char escape[3] = {'%', digits[byte >> 4], digits[byte & 15]};
    cdl_write(writer, (struct cdl_slice){escape, sizeof escape});
}

static bool stands_for_itself(unsigned char byte)
{
    return byte >= ' ' && byte < 0x7f && byte != '%';
}

void cdl_fields_write_name(struct cdl_writer *writer, struct cdl_slice name)
{
    while (name.length > 0) {
        size_t plain = 0;
        while (plain < name.length && stands_for_itself((unsigned char)name.bytes[plain]))
            plain++;
        cdl_write(writer, cdl_slice_head(name, plain));
        if (plain < name.length)
            write_escape(writer, (unsigned char)name.bytes[plain++]);
        name = cdl_slice_from(name, plain);
    }
}

static bool has_quotes(struct cdl_slice name)
{
    return name.length > 0 &&
           (memchr(name.bytes, '"', name.length) != NULL || memchr(name.bytes, '\\', name.length) != NULL);
}

static void write_quoted(struct cdl_writer *writer, struct cdl_slice name)
{
    for (size_t i = 0; i < name.length; i++) {
        const struct cdl_slice byte = {name.bytes + i, 1};
        if (*byte.bytes == '"' || *byte.bytes == '\\')
            cdl_write(writer, CDL_SLICE("\\"));
        cdl_fields_write_name(writer, byte);
    }
}

/* RFC 9651, 4.1.6 */
static void write_string(struct cdl_writer *writer, struct cdl_slice name)
{
    cdl_write(writer, CDL_SLICE("\""));
    if (has_quotes(name))
        write_quoted(writer, name);
    else
        cdl_fields_write_name(writer, name);
    cdl_write(writer, CDL_SLICE("\""));
}

static void write_parameter(struct cdl_writer *writer, struct cdl_slice key, uint64_t number)
{
    cdl_write(writer, key);
    write_integer(writer, number);
}

static void write_number_line(struct cdl_writer *lines, struct cdl_slice name, uint64_t number)
{
    write_parameter(lines, name, number);
    cdl_write(lines, CDL_SLICE("\r\n"));
}

/* ---- instants ---- */

uint64_t cdl_seconds_up(int64_t ns)
{
    return ns > 0 ? ((uint64_t)ns + (uint64_t)CDL_NS_PER_S - 1) / (uint64_t)CDL_NS_PER_S : 0;
}

/* How long until the numbers are better; -1: never. */
static int64_t wait_ns(const struct caudal_decision *decision)
{
    return decision->verdict == CAUDAL_DENY ? decision->retry_after_ns : decision->reset_after_ns;
}

/* The end of one window must be one number in all replies, although `now` was not read at quite the instant from which the
 * store counted. So it is rounded up, but for a tenth of a second: more than lies between two readings of a clock, less than
 * anybody waits for. */
#define WOBBLE_NS (CDL_NS_PER_S / 10)

static uint64_t epoch_seconds(int64_t now_ns, int64_t wait)
{
    return cdl_seconds_up(cdl_clamp_i64((cdl_i128)now_ns + wait - WOBBLE_NS));
}

uint64_t cdl_retry_after_seconds(const struct caudal_decision *decision, uint32_t jitter_span_s, uint64_t hash)
{
    if (decision->verdict != CAUDAL_DENY)
        return 0;
    const uint64_t exact = cdl_seconds_up(decision->retry_after_ns);
    /* The high half of the product spreads 0 to 2^64 - 1 evenly over 0 to the span. */
    const uint64_t jitter = (uint64_t)((cdl_u128)hash * ((uint64_t)jitter_span_s + 1) >> 64);
    return (exact > 0 ? exact : 1) + jitter;
}

void cdl_retry_after_write(struct cdl_writer *lines, uint64_t seconds)
{
    if (seconds > 0)
        write_number_line(lines, CDL_SLICE("Retry-After: "), seconds);
}

/* ---- the revisions ---- */

static bool is_told(const struct cdl_fields_policy *policy)
{
    return policy->capacity != UINT64_MAX;
}

/* No two members of the list may have one name, whatever its case. */
static bool is_told_before(const struct cdl_fields_answer *answer, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_told(&answer->policies[i]) &&
            cdl_slice_equal_nocase(answer->policies[i].name, answer->policies[index].name))
            return true;
    return false;
}

static void write_policies(struct cdl_writer *lines, const struct cdl_fields_answer *answer)
{
    struct cdl_slice before = CDL_SLICE("RateLimit-Policy: ");
    for (size_t i = 0; i < answer->policy_count; i++) {
        const struct cdl_fields_policy *policy = &answer->policies[i];
        if (!is_told(policy) || is_told_before(answer, i))
            continue;
        cdl_write(lines, before);
        before = CDL_SLICE(", ");
        write_string(lines, policy->name);
        write_parameter(lines, CDL_SLICE(";q="), policy->quota);
        if (policy->window_s > 0)
            write_parameter(lines, CDL_SLICE(";w="), policy->window_s);
    }
    cdl_write(lines, CDL_SLICE("\r\n"));
}

static void write_ietf_list(struct cdl_writer *lines, const struct cdl_fields_answer *answer, bool revision_12)
{
    write_policies(lines, answer);
    cdl_write(lines, CDL_SLICE("RateLimit: "));
    write_string(lines, answer->policies[answer->binding].name);
    write_parameter(lines, revision_12 ? CDL_SLICE(";a=") : CDL_SLICE(";r="), answer->decision->remaining);
    const int64_t wait = wait_ns(answer->decision);
    if (wait >= 0)
        write_parameter(lines, revision_12 ? CDL_SLICE(";w=") : CDL_SLICE(";t="), cdl_seconds_up(wait));
    if (revision_12)
        write_parameter(lines, CDL_SLICE(";c="), answer->cost);
    cdl_write(lines, CDL_SLICE("\r\n"));
}

static void write_three(struct cdl_writer *lines, const struct cdl_fields_answer *answer, struct cdl_slice prefix,
                        bool epoch)
{
    cdl_write(lines, prefix);
    write_number_line(lines, CDL_SLICE("RateLimit-Limit: "), answer->policies[answer->binding].capacity);
    cdl_write(lines, prefix);
    write_number_line(lines, CDL_SLICE("RateLimit-Remaining: "), answer->decision->remaining);
    const int64_t wait = wait_ns(answer->decision);
    if (wait < 0)
        return;
    cdl_write(lines, prefix);
    write_number_line(lines, CDL_SLICE("RateLimit-Reset: "),
                      epoch ? epoch_seconds(answer->now_ns, wait) : cdl_seconds_up(wait));
}

void cdl_fields_write(struct cdl_writer *lines, enum cdl_fields_revision revision,
                      const struct cdl_fields_answer *answer)
{
    if (answer->decision->verdict == CAUDAL_NO_VERDICT || answer->binding >= answer->policy_count ||
        !is_told(&answer->policies[answer->binding]))
        return;
    switch (revision) {
    case CDL_FIELDS_IETF_11:
    case CDL_FIELDS_IETF_12:
        write_ietf_list(lines, answer, revision == CDL_FIELDS_IETF_12);
        break;
    case CDL_FIELDS_IETF_06:
        write_three(lines, answer, CDL_SLICE(""), false);
        break;
    case CDL_FIELDS_X_RATELIMIT_EPOCH:
    case CDL_FIELDS_X_RATELIMIT_DELTA:
        write_three(lines, answer, CDL_SLICE("X-"), revision == CDL_FIELDS_X_RATELIMIT_EPOCH);
        break;
    case CDL_FIELDS_NONE:
        break;
    }
}
