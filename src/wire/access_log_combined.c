/* Common Log Format and the formats that grew out of it: Apache's and nginx's "combined", with and without what their users
 * put around them.
 *
 *     203.0.113.7 - bob [17/May/2015:10:05:03 +0000] "GET /path HTTP/1.1" 200 5123 "https://from/" "agent" more
 *     ^ head            ^ time                       ^ request           ^ status and bytes               ^ rest
 *
 * In the head, before the time, may stand a virtual host (Apache's vhost_combined) or what syslog writes before the client, a list
 * of addresses for the client, quoted or not, another list behind it (X-Forwarded-For), and a user whose name has blanks. In the
 * rest, whatever: of that are known a list of addresses in quotes (X-Forwarded-For, as in nginx's own example), a time since 1970
 * in milliseconds ($msec), and how long the request took ("0.123", "12ms", "rt=0.123"). A number without decimals is not taken for a
 * time: it may be anything. The whole may stand in quotes. */
#include "wire/access_log_parts.h"

static const struct cdl_access_field time_field = {CDL_ACCESS_TIME, 0, "time", {NULL, 0}};
static const struct cdl_access_field client_field = {CDL_ACCESS_CLIENT, 0, "client", {NULL, 0}};
static const struct cdl_access_field status_field = {CDL_ACCESS_STATUS, 0, "status", {NULL, 0}};
static const struct cdl_access_field bytes_field = {CDL_ACCESS_BYTES, 0, "number of bytes", {NULL, 0}};

/* ---- the time ---- */

/* Whether a time begins behind this bracket, and not an address in IPv6. */
static bool begins_time(const char *at, const char *end)
{
    if (end - at < 12)
        return false;
    return at[3] == '/' || ((at[5] == '-' || at[5] == '/') && at[8] == at[5]) ||
           (at[11] == '.' && cdl_access_is_digit(at[1]) && memchr(at, ':', 11) == NULL);
}

/* The bracket that the time begins with, the first that stands alone. */
static const char *find_time(const struct cdl_access_reading *reading)
{
    const char *at = reading->line;
    while (at < reading->end && (at = memchr(at, '[', (size_t)(reading->end - at))) != NULL) {
        if ((at == reading->line || cdl_access_is_blank(at[-1])) && begins_time(at, reading->end))
            return at;
        at++;
    }
    return NULL;
}

static bool read_time(struct cdl_access_reading *reading, const char *bracket)
{
    /* No time is longer; and a bracket in the request does not close it. */
    const size_t most = (size_t)(reading->end - bracket) < 48 ? (size_t)(reading->end - bracket) : 48;
    const char *close = memchr(bracket, ']', most);
    if (close == NULL)
        return cdl_access_fail(reading, bracket, "time", "is not closed by ']'");
    reading->at = close + 1;
    return cdl_access_put(reading, &time_field, (struct cdl_slice){bracket + 1, (size_t)(close - bracket - 1)});
}

/* ---- the head ---- */

/* A word of the head and the blanks behind it; quotes around it are dropped, and a comma at its end joins the next word. */
static struct cdl_slice take_list(struct cdl_slice *head)
{
    const char *begin = head->bytes, *end = begin + head->length, *at = begin;
    struct cdl_slice list;
    if (at < end && *at == '"') {
        const char *close = memchr(at + 1, '"', (size_t)(end - at - 1));
        if (close != NULL) {
            list = (struct cdl_slice){at + 1, (size_t)(close - at - 1)};
            *head = cdl_slice_trim((struct cdl_slice){close + 1, (size_t)(end - close - 1)});
            return list;
        }
    }
    for (;;) {
        while (at < end && !cdl_access_is_blank(*at))
            at++;
        list = (struct cdl_slice){begin, (size_t)(at - begin)};
        while (at < end && cdl_access_is_blank(*at))
            at++;
        if (at == end || list.length == 0 || list.bytes[list.length - 1] != ',')
            break;
    }
    *head = (struct cdl_slice){at, (size_t)(end - at)};
    return list;
}

static bool is_epoch(struct cdl_slice word)
{
    if (word.length < 12 || word.bytes[10] != '.')
        return false;
    for (size_t i = 0; i < word.length; i++)
        if (i != 10 && !cdl_access_is_digit(word.bytes[i]))
            return false;
    return true;
}

/* Whether the first word is a host and the second a client by name: a host's visitors have an ident, "-", and a user behind them. */
static bool is_named_client(struct cdl_slice first, struct cdl_slice second, struct cdl_slice rest)
{
    return !cdl_access_is_absent(first) && !cdl_access_is_absent(second) && rest.length > 2 && rest.bytes[0] == '-' &&
           cdl_access_is_blank(rest.bytes[1]);
}

/* Whether an address is that of a virtual host: it has a port, which no client has here, and the client stands behind it. */
static bool is_own_address(struct cdl_slice word, struct cdl_slice rest)
{
    const char *colon = memrchr(word.bytes, ':', word.length);
    if (colon == NULL || colon == word.bytes || memchr(word.bytes, ',', word.length) != NULL)
        return false;
    const bool is_ipv6 = memchr(word.bytes, ':', (size_t)(colon - word.bytes)) != NULL;
    return is_ipv6 == (colon[-1] == ']') && cdl_access_looks_like_address(take_list(&rest));
}

static bool is_time_of_day(struct cdl_slice word)
{
    return word.length == 8 && word.bytes[2] == ':' && word.bytes[5] == ':';
}

static bool ends_in_colon(struct cdl_slice word)
{
    return word.length > 1 && word.bytes[word.length - 1] == ':';
}

/* The client that stands behind more than a host: "May 17 10:05:03 web1 nginx: 203.0.113.7". It is the first address; where there is
 * none, what stands behind the program's name; and the first word where no syslog has been. */
static struct cdl_slice take_behind_syslog(struct cdl_slice first, struct cdl_slice *head)
{
    struct cdl_slice rest = *head, before = first, named = first;
    bool is_syslog = false, is_named = false;
    for (size_t i = 1; rest.length > 0; i++) {
        const struct cdl_slice word = take_list(&rest);
        if (cdl_access_looks_like_address(word)) {
            *head = rest;
            return word;
        }
        if (is_syslog && !is_named && ends_in_colon(before)) {
            is_named = true;
            named = word;
            *head = rest;
        }
        is_syslog |= i == 2 && is_time_of_day(word);
        before = word;
    }
    return named;
}

/* Takes the client and what stands before it off the head, whose first word has been taken: one word is the virtual host, more are
 * syslog's. */
static struct cdl_slice take_client(struct cdl_access_reading *reading, struct cdl_slice first, struct cdl_slice *head)
{
    const bool is_address = cdl_access_looks_like_address(first);
    if (is_address && !is_own_address(first, *head))
        return first;
    struct cdl_slice rest = *head;
    const struct cdl_slice second = take_list(&rest);
    if (!cdl_access_looks_like_address(second) && !is_named_client(first, second, rest))
        return take_behind_syslog(first, head);
    if (cdl_access_is_absent(first))
        return first; /* the list behind a client that is not known is X-Forwarded-For */
    reading->record->host = first;
    *head = rest;
    return second;
}

/* Skips the "-" of an ident, or of nobody, that something follows. */
static void skip_dash(struct cdl_slice *head)
{
    if (head->length > 2 && head->bytes[0] == '-' && cdl_access_is_blank(head->bytes[1]))
        take_list(head);
}

static bool read_head(struct cdl_access_reading *reading, const char *end)
{
    struct cdl_slice head = cdl_slice_trim((struct cdl_slice){reading->at, (size_t)(end - reading->at)});
    struct cdl_slice word = take_list(&head);
    if (is_epoch(word)) {
        if (!cdl_access_put(reading, &time_field, word))
            return false;
        word = take_list(&head);
    }
    if (word.length == 0)
        return cdl_access_fail(reading, reading->at, "client", "is missing");
    if (!cdl_access_put(reading, &client_field, take_client(reading, word, &head)))
        return false;
    skip_dash(&head);
    if (cdl_access_is_absent(head))
        return true;
    struct cdl_slice rest = head;
    const struct cdl_slice list = take_list(&rest);
    if (cdl_access_looks_like_address(list)) {
        if (!cdl_access_put_header(reading, CDL_SLICE("x-forwarded-for"), list))
            return false;
        skip_dash(&rest);
        head = rest;
    }
    if (!cdl_access_is_absent(head))
        reading->record->user = head;
    return true;
}

/* ---- the rest ---- */

static bool has_decimals(struct cdl_slice word)
{
    const char *point = word.length > 4 ? memchr(word.bytes, '.', word.length) : NULL;
    if (point == NULL || point == word.bytes || word.bytes + word.length - point != 4)
        return false;
    for (size_t i = 0; i < word.length; i++)
        if (word.bytes + i != point && !cdl_access_is_digit(word.bytes[i]))
            return false;
    return true;
}

/* How long it took, if the word says so. A server that logs several such times took the longest. */
static bool duration_of(struct cdl_slice word, int64_t *ns)
{
    static const struct cdl_slice names[] = {CDL_SLICE("rt="), CDL_SLICE("request_time=")};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (word.length > names[i].length && memcmp(word.bytes, names[i].bytes, names[i].length) == 0) {
            word = cdl_slice_from(word, names[i].length);
            return cdl_access_decimal(word, INT64_C(1000000000), ns);
        }
    if (word.length > 2 && cdl_access_is_digit(word.bytes[0]) && memcmp(word.bytes + word.length - 2, "ms", 2) == 0)
        return cdl_access_decimal(cdl_slice_head(word, word.length - 2), 1000000, ns);
    return has_decimals(word) && cdl_access_decimal(word, INT64_C(1000000000), ns);
}

static bool read_more(struct cdl_access_reading *reading, struct cdl_slice word, bool is_quoted)
{
    int64_t ns;
    if (is_epoch(word))
        return cdl_access_put(reading, &time_field, word);
    if (is_quoted && cdl_access_looks_like_address(word))
        return cdl_access_put_header(reading, CDL_SLICE("x-forwarded-for"), word);
    if (duration_of(word, &ns) && ns > reading->record->duration_ns)
        reading->record->duration_ns = ns;
    return true;
}

/* Referer and agent, where the first two of the rest are quoted, then whatever there is. */
static bool read_rest(struct cdl_access_reading *reading)
{
    static const struct cdl_field headers[] = {{CDL_SLICE("referer"), {NULL, 0}}, {CDL_SLICE("user-agent"), {NULL, 0}}};
    static const char *const said[] = {"referer", "user agent"};
    struct cdl_slice value;
    for (size_t i = 0; reading->at < reading->end; i++) {
        cdl_access_skip_blanks(reading);
        if (reading->at == reading->end)
            break;
        const bool is_quoted = *reading->at == '"', is_header = is_quoted && i < 2;
        if (!is_quoted) {
            value = cdl_access_word(reading);
            i = 2; /* what follows is neither of the two */
        } else if (!cdl_access_quoted(reading, is_header ? said[i] : "field", &value)) {
            return false;
        }
        if (is_header ? !cdl_access_put_header(reading, headers[i].name, value) : !read_more(reading, value, is_quoted))
            return false;
    }
    return true;
}

/* ---- a line in quotes ---- */

/* How the quotes of a line that stands in quotes itself are told from those around it: by a backslash, by a second quote, or, '\0', not
 * at all. */
static char escape_of(const char *quote, const char *end)
{
    if (quote[-1] == '\\')
        return '\\';
    const bool is_double = end - quote > 2 && quote[1] == '"' && !cdl_access_is_blank(quote[2]);
    return is_double ? '"' : '\0';
}

/* Takes the quotes off a line that stands in them as a whole, as tables and shells write it: the columns of what is wrong with it then
 * count from the first quote. */
static bool unwrap(struct cdl_access_reading *reading, const char *bracket)
{
    const char *at = reading->line + 1, *end = reading->end - 1;
    const char *quote = memchr(bracket, '"', (size_t)(reading->end - bracket));
    if (*reading->line != '"' || *end != '"' || memchr(at, '"', (size_t)(bracket - reading->line)) != NULL)
        return true;
    const char escape = escape_of(quote, end);
    struct cdl_writer *scratch = reading->scratch;
    if (escape != '\0') {
        const size_t start = scratch->length;
        for (; at < end; at++) {
            at += *at == escape && at + 1 < end && (at[1] == '"' || at[1] == escape);
            cdl_write(scratch, (struct cdl_slice){at, 1});
        }
        if (scratch->overflow)
            return cdl_access_fail(reading, reading->line, "line", "needs more room than there is");
        at = scratch->bytes + start;
        end = scratch->bytes + scratch->length;
    }
    reading->line = reading->at = at;
    reading->end = end;
    return true;
}

/* ---- the line ---- */

static bool read_number(struct cdl_access_reading *reading, const struct cdl_access_field *field)
{
    cdl_access_skip_blanks(reading);
    if (reading->at == reading->end)
        return cdl_access_fail(reading, reading->end, field->said, "is missing");
    return cdl_access_put(reading, field, cdl_access_word(reading));
}

static bool read_combined(struct cdl_access_reading *reading)
{
    const char *bracket = find_time(reading);
    if (bracket != NULL && *reading->line == '"') {
        if (!unwrap(reading, bracket))
            return false;
        bracket = find_time(reading);
    }
    if (bracket == NULL)
        return cdl_access_fail(reading, reading->line, "time", "is missing: there is none in brackets");
    if (!read_head(reading, bracket) || !read_time(reading, bracket))
        return false;
    cdl_access_skip_blanks(reading);
    if (reading->at == reading->end || *reading->at != '"')
        return cdl_access_fail(reading, reading->at, "request", "is missing: there is none in quotes behind the time");
    return cdl_access_quoted(reading, "request", &reading->request) && read_number(reading, &status_field) &&
           read_number(reading, &bytes_field) && read_rest(reading);
}

const struct cdl_access_kind cdl_access_combined = {.read = read_combined};
