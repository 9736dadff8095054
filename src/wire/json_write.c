/* Decisions and problems as JSON, straight into a writer: an answer has few members, and they are known. */
#include "wire/http1_response.h"
#include "wire/json_api.h"
#include "wire/ratelimit_fields.h"

/* ---- strings ---- */

/* How many bytes the first character takes; 0 when it is not UTF-8. (The Unicode Standard, table 3-7: the second byte's
 * range rules out what is overlong, a surrogate, or too large.) */
static size_t character_length(struct cdl_slice text)
{
    const unsigned char *bytes = (const unsigned char *)text.bytes;
    const unsigned char first = bytes[0];
    if (first < 0x80)
        return 1;
    const size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length == 0 || length > text.length)
        return 0;
    const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (bytes[1] < least || bytes[1] > most)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

static bool stands_for_itself(struct cdl_slice text, size_t length)
{
    const char c = *text.bytes;
    return length > 1 || (length == 1 && (unsigned char)c >= ' ' && c != '"' && c != '\\');
}

static void write_escape(struct cdl_writer *writer, char c, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    if (length == 0) {
        cdl_write(writer, CDL_SLICE("\\ufffd"));
    } else if (c == '"' || c == '\\') {
        const char escape[2] = {'\\', c};
        cdl_write(writer, (struct cdl_slice){escape, sizeof escape});
    } else {
        const char escape[6] = {'\\', 'u', '0', '0', digits[(unsigned char)c >> 4], digits[c & 15]};
        cdl_write(writer, (struct cdl_slice){escape, sizeof escape});
    }
}

/* The inside of a string. */
static void write_characters(struct cdl_writer *writer, struct cdl_slice text)
{
    while (text.length > 0) {
        size_t plain = 0, length = 1;
        while (plain < text.length) {
            const struct cdl_slice rest = cdl_slice_from(text, plain);
            length = character_length(rest);
            if (!stands_for_itself(rest, length))
                break;
            plain += length;
        }
        cdl_write(writer, cdl_slice_head(text, plain));
        if (plain < text.length)
            write_escape(writer, text.bytes[plain++], length);
        text = cdl_slice_from(text, plain);
    }
}

void cdl_json_write_string(struct cdl_writer *writer, struct cdl_slice text)
{
    cdl_write(writer, CDL_SLICE("\""));
    write_characters(writer, text);
    cdl_write(writer, CDL_SLICE("\""));
}

/* ---- decisions ---- */

const char *cdl_verdict_word(enum caudal_verdict verdict)
{
    switch (verdict) {
    case CAUDAL_ALLOW:
        return "allow";
    case CAUDAL_DENY:
        return "deny";
    case CAUDAL_NEVER:
        return "never";
    default:
        return "none";
    }
}

const char *cdl_source_word(enum caudal_source source)
{
    switch (source) {
    case CAUDAL_SOURCE_LEASE:
        return "lease";
    case CAUDAL_SOURCE_DENY_CACHE:
        return "deny_cache";
    case CAUDAL_SOURCE_LOCAL_SHARE:
        return "local_share";
    case CAUDAL_SOURCE_FAILURE_POLICY:
        return "failure_policy";
    default:
        return "store";
    }
}

/* `key` with its quotes, colon, and the comma before it. */
static void write_tokens(struct cdl_writer *writer, struct cdl_slice key, uint64_t tokens)
{
    cdl_write(writer, key);
    if (tokens == UINT64_MAX)
        cdl_write(writer, CDL_SLICE("null"));
    else
        cdl_write_u64(writer, tokens);
}

static void write_wait(struct cdl_writer *writer, struct cdl_slice key, int64_t wait)
{
    cdl_write(writer, key);
    if (wait < 0)
        cdl_write(writer, CDL_SLICE("null"));
    else
        cdl_write_i64(writer, wait);
}

static void write_limit_name(struct cdl_writer *writer, struct cdl_slice name)
{
    cdl_write(writer, CDL_SLICE(",\"limit\":"));
    if (name.bytes == NULL)
        cdl_write(writer, CDL_SLICE("null"));
    else
        cdl_json_write_string(writer, name);
}

static void write_numbers(struct cdl_writer *writer, const struct caudal_decision *decision)
{
    const int64_t retry = decision->retry_after_ns;
    write_tokens(writer, CDL_SLICE(",\"remaining\":"), decision->remaining);
    write_tokens(writer, CDL_SLICE(",\"capacity\":"), decision->capacity);
    write_tokens(writer, CDL_SLICE(",\"granted\":"), decision->granted);
    write_wait(writer, CDL_SLICE(",\"retry_after\":"), retry < 0 ? -1 : (int64_t)cdl_seconds_up(retry));
    write_wait(writer, CDL_SLICE(",\"retry_after_ns\":"), retry);
    write_wait(writer, CDL_SLICE(",\"reset_after_ns\":"), decision->reset_after_ns);
}

/* An object without its closing brace. */
static void write_open(struct cdl_writer *writer, const struct cdl_json_decision *told)
{
    const struct caudal_decision *decision = told->decision;
    if (decision->verdict == CAUDAL_NO_VERDICT) {
        cdl_write(writer, CDL_SLICE("{\"error\":"));
        cdl_json_write_string(writer, cdl_slice_of(caudal_status_text(decision->status)));
        write_limit_name(writer, told->limit);
        return;
    }
    cdl_write(writer, CDL_SLICE("{\"verdict\":\""));
    cdl_write_text(writer, cdl_verdict_word(decision->verdict));
    cdl_write(writer, CDL_SLICE("\""));
    write_limit_name(writer, told->limit);
    write_numbers(writer, decision);
    cdl_write(writer, CDL_SLICE(",\"source\":\""));
    cdl_write_text(writer, cdl_source_word(decision->source));
    cdl_write(writer, CDL_SLICE("\""));
    write_tokens(writer, CDL_SLICE(",\"error_bound\":"), decision->error_bound);
}

void cdl_json_write_decision(struct cdl_writer *writer, const struct cdl_json_decision *overall,
                             const struct cdl_json_decision *limits, size_t limit_count)
{
    write_open(writer, overall);
    cdl_write(writer, CDL_SLICE(",\"limits\":["));
    for (size_t i = 0; i < limit_count; i++) {
        cdl_json_next(writer, i);
        write_open(writer, &limits[i]);
        cdl_write(writer, CDL_SLICE("}"));
    }
    cdl_write(writer, CDL_SLICE("]}"));
}

void cdl_json_begin_batch(struct cdl_writer *writer)
{
    cdl_write(writer, CDL_SLICE("{\"decisions\":["));
}

void cdl_json_next(struct cdl_writer *writer, size_t index)
{
    if (index > 0)
        cdl_write(writer, CDL_SLICE(","));
}

void cdl_json_end_batch(struct cdl_writer *writer)
{
    cdl_write(writer, CDL_SLICE("]}"));
}

/* ---- problems ---- */

static void write_title_and_status(struct cdl_writer *writer, struct cdl_slice title, unsigned status)
{
    cdl_write(writer, CDL_SLICE(",\"title\":"));
    cdl_json_write_string(writer, title);
    cdl_write(writer, CDL_SLICE(",\"status\":"));
    cdl_write_u64(writer, status);
    cdl_write(writer, CDL_SLICE(",\"detail\":"));
}

/* As in the RateLimit fields, so that a client finds it there. */
static void write_policy_name(struct cdl_writer *writer, struct cdl_slice name)
{
    char room[1024];
    struct cdl_writer escaped = cdl_writer_on(room, sizeof room);
    cdl_fields_write_name(&escaped, name);
    cdl_json_write_string(writer, escaped.overflow ? name : cdl_written(&escaped));
}

static void write_violated(struct cdl_writer *writer, const struct cdl_json_decision *limits, size_t limit_count)
{
    cdl_write(writer, CDL_SLICE(",\"violated-policies\":["));
    size_t written = 0;
    for (size_t i = 0; i < limit_count; i++) {
        const enum caudal_verdict verdict = limits[i].decision->verdict;
        if (verdict != CAUDAL_DENY && verdict != CAUDAL_NEVER)
            continue;
        cdl_json_next(writer, written++);
        write_policy_name(writer, limits[i].limit);
    }
    cdl_write(writer, CDL_SLICE("]"));
}

static void write_detail(struct cdl_writer *writer, const struct cdl_json_decision *overall, uint64_t retry_after_s)
{
    cdl_write(writer, CDL_SLICE("\"the limit "));
    write_characters(writer, overall->limit);
    if (overall->decision->verdict == CAUDAL_NEVER) {
        cdl_write(writer, CDL_SLICE(" can never admit this request: it admits at most "));
        cdl_write_u64(writer, overall->decision->capacity);
        cdl_write(writer, CDL_SLICE(" at once; waiting does not help\""));
        return;
    }
    cdl_write(writer, CDL_SLICE(" does not admit this request now; try again in "));
    cdl_write_u64(writer, retry_after_s);
    cdl_write(writer, CDL_SLICE(" s\""));
}

void cdl_json_write_refusal(struct cdl_writer *writer, unsigned status, const struct cdl_json_decision *overall,
                            const struct cdl_json_decision *limits, size_t limit_count, uint64_t retry_after_s)
{
    cdl_write(writer, CDL_SLICE("{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\""));
    write_title_and_status(writer, CDL_SLICE("Request cannot be satisfied as assigned quota has been exceeded"),
                           status);
    write_detail(writer, overall, retry_after_s);
    write_violated(writer, limits, limit_count);
    cdl_write(writer, CDL_SLICE("}"));
}

void cdl_json_write_problem(struct cdl_writer *writer, unsigned status, struct cdl_slice detail)
{
    cdl_write(writer, CDL_SLICE("{\"type\":\"about:blank\""));
    write_title_and_status(writer, cdl_slice_of(cdl_http_status_phrase(status)), status);
    cdl_json_write_string(writer, detail);
    cdl_write(writer, CDL_SLICE("}"));
}
