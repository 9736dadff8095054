/* What HAProxy logs with "option httplog", and what syslog puts before it:
 *
 *     Feb  6 12:14:14 lb haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750
 *         - - ---- 1/1/1/1/0 0/0 {example.com|agent} {} "GET /index.html HTTP/1.1"
 *
 * The time is that of the request's beginning, in milliseconds and without an offset: its zone must be given. The headers that are
 * captured stand in braces without their names, which must be given, too. A client that came through a socket of the file
 * system ("unix:1") or is "-" is none. HAProxy writes a byte that would not fit as '#' and two digits. What stands
 * behind the request (option httpslog) is not looked at. */
#include "base/problem.h"
#include "wire/access_log_parts.h"

#define TIMERS_MAX 8u

static const struct cdl_access_field time_field = {CDL_ACCESS_TIME, 0, "time", {NULL, 0}};
static const struct cdl_access_field client_field = {CDL_ACCESS_CLIENT, 0, "client", {NULL, 0}};
static const struct cdl_access_field status_field = {CDL_ACCESS_STATUS, 0, "status", {NULL, 0}};
static const struct cdl_access_field bytes_field = {CDL_ACCESS_BYTES, 0, "number of bytes", {NULL, 0}};
static const struct cdl_access_field duration_field = {CDL_ACCESS_DURATION, 1000000, "timers", {NULL, 0}};

struct captures {
    size_t count;
    struct cdl_slice names[CDL_ACCESS_HEADERS_MAX];
};

int cdl_access_haproxy_make(struct cdl_slice text, struct cdl_arena *arena, struct cdl_access_format *format,
                            struct caudal_problem *problem)
{
    struct captures *captures = cdl_arena_allocate(arena, 1, sizeof *captures);
    struct cdl_slice rest = cdl_arena_copy(arena, text);
    if (captures == NULL || arena->failed)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    while (rest.length > 0) {
        const char *bar = memchr(rest.bytes, '|', rest.length);
        const size_t length = bar != NULL ? (size_t)(bar - rest.bytes) : rest.length;
        if (captures->count == CDL_ACCESS_HEADERS_MAX)
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "the captures are more than %u", CDL_ACCESS_HEADERS_MAX);
        captures->names[captures->count++] = cdl_slice_trim(cdl_slice_head(rest, length));
        rest = cdl_slice_from(rest, length + (bar != NULL));
    }
    format->kind = &cdl_access_haproxy;
    format->parts = captures;
    return CAUDAL_OK;
}

/* ---- client and time ---- */

/* "address:port", where the address may have colons itself. */
static struct cdl_slice client_of(struct cdl_slice word)
{
    const struct cdl_slice none = {NULL, 0};
    const char *colon = word.length > 0 ? memrchr(word.bytes, ':', word.length) : NULL;
    const struct cdl_slice address = colon != NULL ? cdl_slice_head(word, (size_t)(colon - word.bytes)) : word;
    if (cdl_access_is_absent(address) || cdl_slice_equal(address, CDL_SLICE("unix")))
        return none;
    return address;
}

/* The bracket before the time: syslog has brackets, too, but no blank before them. */
static const char *find_time(const struct cdl_access_reading *reading)
{
    const char *at = reading->line;
    while (at < reading->end && (at = memchr(at, '[', (size_t)(reading->end - at))) != NULL) {
        if (at > reading->line && at[-1] == ' ' && reading->end - at > 7 && (at[3] == '/' || at[5] == '-'))
            return at;
        at++;
    }
    return NULL;
}

static bool read_client_and_time(struct cdl_access_reading *reading)
{
    const char *bracket = find_time(reading);
    if (bracket == NULL)
        return cdl_access_fail(reading, reading->line, "time", "is missing: there is none in brackets");
    const char *end = bracket - 1, *begin = end;
    while (begin > reading->line && !cdl_access_is_blank(begin[-1]))
        begin--;
    if (!cdl_access_put(reading, &client_field, client_of((struct cdl_slice){begin, (size_t)(end - begin)})))
        return false;
    const char *close = memchr(bracket, ']', (size_t)(reading->end - bracket));
    if (close == NULL)
        return cdl_access_fail(reading, bracket, "time", "is not closed by ']'");
    reading->at = close + 1;
    return cdl_access_put(reading, &time_field, (struct cdl_slice){bracket + 1, (size_t)(close - bracket - 1)});
}

/* ---- words ---- */

static bool next_word(struct cdl_access_reading *reading, const char *field, struct cdl_slice *word)
{
    cdl_access_skip_blanks(reading);
    *word = cdl_access_word(reading);
    return word->length > 0 || cdl_access_fail(reading, reading->at, field, "is missing");
}

/* So many numbers with slashes between them: any may be -1 or begin with a plus. `last` is the last. */
static bool are_numbers(struct cdl_slice word, size_t least, struct cdl_slice *last)
{
    size_t count = 0;
    while (count < TIMERS_MAX) {
        const char *slash = word.length > 0 ? memchr(word.bytes, '/', word.length) : NULL;
        *last = cdl_slice_head(word, slash != NULL ? (size_t)(slash - word.bytes) : word.length);
        size_t i = last->length > 1 && (last->bytes[0] == '-' || last->bytes[0] == '+');
        if (last->length == 0)
            return false;
        for (; i < last->length; i++)
            if (!cdl_access_is_digit(last->bytes[i]))
                return false;
        count++;
        if (slash == NULL)
            return count >= least;
        word = cdl_slice_from(word, (size_t)(slash + 1 - word.bytes));
    }
    return false;
}

static bool read_timers(struct cdl_access_reading *reading)
{
    struct cdl_slice word, last;
    if (!next_word(reading, "timers", &word))
        return false;
    if (!are_numbers(word, 4, &last))
        return cdl_access_fail(reading, word.bytes, "timers", "are not four or five numbers with '/' between them");
    if (last.bytes[0] == '+')
        last = cdl_slice_from(last, 1);
    return cdl_access_put(reading, &duration_field, last);
}

/* Frontend, backend and server, timers, status, bytes, two cookies, how it ended, connections, queues. */
static bool read_words(struct cdl_access_reading *reading)
{
    struct cdl_slice word, last;
    if (!next_word(reading, "frontend", &word) || !next_word(reading, "backend", &word))
        return false;
    if (memchr(word.bytes, '/', word.length) == NULL)
        return cdl_access_fail(reading, word.bytes, "backend", "has no '/' and server behind it");
    if (!read_timers(reading) || !next_word(reading, "status", &word) ||
        !cdl_access_put(reading, &status_field, word) || !next_word(reading, "number of bytes", &word) ||
        !cdl_access_put(reading, &bytes_field, word) || !next_word(reading, "request cookie", &word) ||
        !next_word(reading, "response cookie", &word) || !next_word(reading, "termination state", &word) ||
        !next_word(reading, "connections", &word))
        return false;
    if (!are_numbers(word, 4, &last))
        return cdl_access_fail(reading, word.bytes, "connections", "are not five numbers with '/' between them");
    if (!next_word(reading, "queues", &word))
        return false;
    if (!are_numbers(word, 2, &last))
        return cdl_access_fail(reading, word.bytes, "queues", "are not two numbers with '/' between them");
    return true;
}

/* ---- captures and request ---- */

/* '#' and two hexadecimal digits are a byte. */
static bool decode(struct cdl_access_reading *reading, struct cdl_slice raw, struct cdl_slice *value)
{
    *value = raw;
    if (raw.length == 0 || memchr(raw.bytes, '#', raw.length) == NULL)
        return true;
    struct cdl_writer *scratch = reading->scratch;
    const char *end = raw.bytes + raw.length;
    const size_t start = scratch->length;
    for (size_t i = 0; i < raw.length; i++) {
        const int32_t escaped = raw.bytes[i] == '#' ? cdl_access_hex_number(raw.bytes + i + 1, end, 2) : -1;
        const char byte = escaped >= 0 ? (char)escaped : raw.bytes[i];
        cdl_write(scratch, (struct cdl_slice){&byte, 1});
        i += escaped >= 0 ? 2 : 0;
    }
    *value = (struct cdl_slice){scratch->bytes + start, scratch->length - start};
    return !scratch->overflow || cdl_access_fail(reading, raw.bytes, "line", "needs more room than there is");
}

/* The values between braces, under the names that were given for them. */
static bool put_captures(struct cdl_access_reading *reading, struct cdl_slice text)
{
    const struct captures *captures = reading->parser->format->parts;
    for (size_t i = 0; i < captures->count; i++) {
        const char *bar = text.length > 0 ? memchr(text.bytes, '|', text.length) : NULL;
        const size_t length = bar != NULL ? (size_t)(bar - text.bytes) : text.length;
        struct cdl_slice value;
        if (!decode(reading, cdl_slice_head(text, length), &value) ||
            !cdl_access_put_header(reading, captures->names[i], value))
            return false;
        text = cdl_slice_from(text, length + (bar != NULL));
    }
    return true;
}

/* None, one or two braces; the first are the request's. */
static bool read_captures(struct cdl_access_reading *reading)
{
    for (size_t i = 0;; i++) {
        cdl_access_skip_blanks(reading);
        if (reading->at == reading->end || *reading->at != '{')
            return true;
        const char *close = memchr(reading->at, '}', (size_t)(reading->end - reading->at));
        if (close == NULL)
            return cdl_access_fail(reading, reading->at, "captured headers", "are not closed by '}'");
        const struct cdl_slice text = {reading->at + 1, (size_t)(close - reading->at - 1)};
        reading->at = close + 1;
        if (i == 0 && !put_captures(reading, text))
            return false;
    }
}

static bool read_request(struct cdl_access_reading *reading)
{
    if (reading->at == reading->end || *reading->at != '"')
        return cdl_access_fail(reading, reading->at, "request", "is missing: there is none in quotes");
    const char *begin = reading->at + 1;
    const char *close = begin < reading->end ? memchr(begin, '"', (size_t)(reading->end - begin)) : NULL;
    if (close == NULL)
        return cdl_access_fail(reading, reading->at, "request", "is not closed by '\"'");
    return decode(reading, (struct cdl_slice){begin, (size_t)(close - begin)}, &reading->request);
}

static bool read_haproxy(struct cdl_access_reading *reading)
{
    return read_client_and_time(reading) && read_words(reading) && read_captures(reading) && read_request(reading);
}

const struct cdl_access_kind cdl_access_haproxy = {.read = read_haproxy};
