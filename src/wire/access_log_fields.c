/* The names that servers log fields under, and what their values become. */
#include "base/near.h"
#include "base/problem.h"
#include "wire/access_log_parts.h"

/* ---- names ---- */

#define SECOND_NS INT64_C(1000000000)
#define HEADER(said, name)                                                                                             \
    {                                                                                                                  \
        CDL_ACCESS_HEADER, 0, said,                                                                                    \
        {                                                                                                              \
            name, sizeof(name) - 1                                                                                     \
        }                                                                                                              \
    }
#define PLAIN(part, said)                                                                                              \
    {                                                                                                                  \
        part, 0, said,                                                                                                 \
        {                                                                                                              \
            NULL, 0                                                                                                    \
        }                                                                                                              \
    }
#define DURATION(unit_ns)                                                                                              \
    {                                                                                                                  \
        CDL_ACCESS_DURATION, unit_ns, "request time",                                                                  \
        {                                                                                                              \
            NULL, 0                                                                                                    \
        }                                                                                                              \
    }

/* nginx's variables, and what else is usual in JSON and CSV. What is above is preferred where both stand in a line. */
static const struct {
    const char *name;
    struct cdl_access_field field;
} usual[] = {
    {"time", PLAIN(CDL_ACCESS_TIME, "time")},
    {"msec", PLAIN(CDL_ACCESS_TIME, "time")},
    {"time_local", PLAIN(CDL_ACCESS_TIME, "time")},
    {"time_iso8601", PLAIN(CDL_ACCESS_TIME, "time")},
    {"timestamp", PLAIN(CDL_ACCESS_TIME, "time")},
    {"@timestamp", PLAIN(CDL_ACCESS_TIME, "time")},
    {"ts", PLAIN(CDL_ACCESS_TIME, "time")},
    {"datetime", PLAIN(CDL_ACCESS_TIME, "time")},
    {"remote_addr", PLAIN(CDL_ACCESS_CLIENT, "client")},
    {"client", PLAIN(CDL_ACCESS_CLIENT, "client")},
    {"client_ip", PLAIN(CDL_ACCESS_CLIENT, "client")},
    {"clientip", PLAIN(CDL_ACCESS_CLIENT, "client")},
    {"remote_ip", PLAIN(CDL_ACCESS_CLIENT, "client")},
    {"remote", PLAIN(CDL_ACCESS_CLIENT, "client")},
    {"ip", PLAIN(CDL_ACCESS_CLIENT, "client")},
    {"proxy_add_x_forwarded_for", PLAIN(CDL_ACCESS_CLIENT, "client")},
    {"method", PLAIN(CDL_ACCESS_METHOD, "method")},
    {"request_method", PLAIN(CDL_ACCESS_METHOD, "method")},
    {"http_method", PLAIN(CDL_ACCESS_METHOD, "method")},
    {"verb", PLAIN(CDL_ACCESS_METHOD, "method")},
    {"target", PLAIN(CDL_ACCESS_TARGET, "target")},
    {"request_uri", PLAIN(CDL_ACCESS_TARGET, "target")},
    {"url", PLAIN(CDL_ACCESS_TARGET, "target")},
    {"path", PLAIN(CDL_ACCESS_PATH, "path")},
    {"uri", PLAIN(CDL_ACCESS_PATH, "path")},
    {"document_uri", PLAIN(CDL_ACCESS_PATH, "path")},
    {"query", PLAIN(CDL_ACCESS_QUERY, "query")},
    {"args", PLAIN(CDL_ACCESS_QUERY, "query")},
    {"query_string", PLAIN(CDL_ACCESS_QUERY, "query")},
    {"request", PLAIN(CDL_ACCESS_REQUEST, "request")},
    {"host", PLAIN(CDL_ACCESS_HOST, "host")},
    {"http_host", PLAIN(CDL_ACCESS_HOST, "host")},
    {"server_name", PLAIN(CDL_ACCESS_HOST, "host")},
    {"vhost", PLAIN(CDL_ACCESS_HOST, "host")},
    {"authority", PLAIN(CDL_ACCESS_HOST, "host")},
    {"status", PLAIN(CDL_ACCESS_STATUS, "status")},
    {"status_code", PLAIN(CDL_ACCESS_STATUS, "status")},
    {"response_code", PLAIN(CDL_ACCESS_STATUS, "status")},
    {"bytes", PLAIN(CDL_ACCESS_BYTES, "number of bytes")},
    {"body_bytes_sent", PLAIN(CDL_ACCESS_BYTES, "number of bytes")},
    {"bytes_sent", PLAIN(CDL_ACCESS_BYTES, "number of bytes")},
    {"size", PLAIN(CDL_ACCESS_BYTES, "number of bytes")},
    {"user", PLAIN(CDL_ACCESS_USER, "user")},
    {"remote_user", PLAIN(CDL_ACCESS_USER, "user")},
    {"request_time", DURATION(SECOND_NS)},
    {"duration", DURATION(SECOND_NS)},
    {"duration_s", DURATION(SECOND_NS)},
    {"duration_ms", DURATION(1000000)},
    {"duration_us", DURATION(1000)},
    {"duration_ns", DURATION(1)},
    {"user_agent", HEADER("user agent", "user-agent")},
    {"agent", HEADER("user agent", "user-agent")},
    {"useragent", HEADER("user agent", "user-agent")},
    {"referer", HEADER("referer", "referer")},
    {"referrer", HEADER("referer", "referer")},
    {"x_forwarded_for", HEADER("x-forwarded-for", "x-forwarded-for")},
    {"xff", HEADER("x-forwarded-for", "x-forwarded-for")},
};
#define USUAL (sizeof usual / sizeof usual[0])

/* What is not among the usual names: all headers of an object or under a prefix, and what is not wanted. */
static const struct cdl_access_field headers_field = PLAIN(CDL_ACCESS_HEADERS, "headers");
static const struct cdl_access_field variables_field = PLAIN(CDL_ACCESS_VARIABLES, "headers");
static const struct cdl_access_field ignored_field = PLAIN(CDL_ACCESS_IGNORED, "field");

const char *cdl_access_usual_name(size_t n, const struct cdl_access_field **field)
{
    if (n > USUAL)
        return NULL;
    *field = n < USUAL ? &usual[n].field : &variables_field;
    return n < USUAL ? usual[n].name : "http_*";
}

static const struct cdl_access_field *find_usual(struct cdl_slice name)
{
    for (size_t i = 0; i < USUAL; i++)
        if (cdl_slice_equal(name, cdl_slice_of(usual[i].name)))
            return &usual[i].field;
    return NULL;
}

static const struct cdl_access_field *make_header(struct cdl_slice name, bool is_variable, struct cdl_arena *arena)
{
    struct cdl_access_field *field = cdl_arena_allocate(arena, 1, sizeof *field);
    char *text = cdl_arena_allocate(arena, name.length + 1, 1);
    if (field == NULL || text == NULL)
        return NULL;
    for (size_t i = 0; i < name.length; i++)
        text[i] = is_variable && name.bytes[i] == '_' ? '-' : name.bytes[i];
    *field = (struct cdl_access_field){CDL_ACCESS_HEADER, 0, text, {text, name.length}};
    return field;
}

static const struct cdl_access_field *make_ignored(struct cdl_slice name, struct cdl_arena *arena)
{
    struct cdl_access_field *field = cdl_arena_allocate(arena, 1, sizeof *field);
    if (field != NULL)
        *field = (struct cdl_access_field){CDL_ACCESS_IGNORED, 0, cdl_arena_copy(arena, name).bytes, {NULL, 0}};
    return field;
}

static bool starts_with(struct cdl_slice text, struct cdl_slice prefix)
{
    return text.length > prefix.length && memcmp(text.bytes, prefix.bytes, prefix.length) == 0;
}

const struct cdl_access_field *cdl_access_field_find(struct cdl_slice name, struct cdl_arena *arena)
{
    const struct cdl_access_field *field = find_usual(name);
    if (field != NULL)
        return field;
    if (starts_with(name, CDL_SLICE("http_")))
        return make_header(cdl_slice_from(name, 5), true, arena);
    return make_ignored(name, arena);
}

const struct cdl_access_field *cdl_access_field_named(struct cdl_slice name, struct cdl_arena *arena,
                                                      struct caudal_problem *problem)
{
    const struct cdl_access_field *field = find_usual(name);
    if (starts_with(name, CDL_SLICE("header:")))
        field = make_header(cdl_slice_from(name, 7), false, arena);
    else if (starts_with(name, CDL_SLICE("http_")) && field == NULL)
        field = make_header(cdl_slice_from(name, 5), true, arena);
    else if (cdl_slice_equal(name, CDL_SLICE("headers")))
        field = &headers_field;
    else if (cdl_slice_equal(name, CDL_SLICE("variables")))
        field = &variables_field;
    else if (cdl_slice_equal(name, CDL_SLICE("ignored")))
        field = &ignored_field;
    if (field != NULL || arena->failed)
        return field;
    const char *names[USUAL];
    for (size_t i = 0; i < USUAL; i++)
        names[i] = usual[i].name;
    const char *near = cdl_nearest(name, names, USUAL);
    cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "\"%.*s\" is no field of a request%s%s%s",
                name.length < 40 ? (int)name.length : 40, name.bytes, near != NULL ? "; did you mean \"" : "",
                near != NULL ? near : "", near != NULL ? "\"?" : "; header:NAME is a header");
    return NULL;
}

bool cdl_access_list_next(struct cdl_slice *list, struct cdl_arena *arena, const struct cdl_access_field **field,
                          struct cdl_slice *path, struct caudal_problem *problem)
{
    if (list->length == 0)
        return false;
    const char *comma = memchr(list->bytes, ',', list->length);
    const struct cdl_slice entry = cdl_slice_trim(
        cdl_slice_head(*list, comma != NULL ? (size_t)(comma - list->bytes) : list->length));
    *list = cdl_slice_from(*list, comma != NULL ? (size_t)(comma + 1 - list->bytes) : list->length);
    const char *equals = entry.length > 0 ? memchr(entry.bytes, '=', entry.length) : NULL;
    if (equals == NULL || equals == entry.bytes || equals + 1 == entry.bytes + entry.length) {
        cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "\"%.*s\" is no field and where it is found, such as time=at",
                    entry.length < 40 ? (int)entry.length : 40, entry.bytes != NULL ? entry.bytes : "");
        return false;
    }
    *path = cdl_slice_from(entry, (size_t)(equals + 1 - entry.bytes));
    *field = cdl_access_field_named(cdl_slice_head(entry, (size_t)(equals - entry.bytes)), arena, problem);
    if (*field == NULL && arena->failed)
        cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    return *field != NULL;
}

/* ---- values ---- */

static bool put_time(struct cdl_access_reading *reading, struct cdl_slice value)
{
    struct cdl_access_stamp stamp;
    const char *wrong = cdl_access_time_read(&reading->parser->clock, value, &stamp);
    if (wrong != NULL)
        return cdl_access_fail(reading, value.bytes, "time", wrong);
    /* Some servers log it twice; the finer one tells more. */
    if (reading->has_time && reading->record->resolution_ns <= stamp.resolution_ns)
        return true;
    reading->has_time = true;
    reading->record->instant_ns = stamp.instant_ns;
    reading->record->resolution_ns = stamp.resolution_ns;
    return true;
}

/* Three digits, or what servers write when there was no answer: 0 and -1. */
static bool put_status(struct cdl_access_reading *reading, struct cdl_slice value)
{
    unsigned status = 0;
    if (cdl_slice_equal(value, CDL_SLICE("-1")))
        return true;
    for (size_t i = 0; i < value.length && i < 4; i++) {
        if (!cdl_access_is_digit(value.bytes[i]))
            return cdl_access_fail(reading, value.bytes, "status", "is no number of three digits");
        status = 10 * status + (unsigned)(value.bytes[i] - '0');
    }
    if ((value.length != 3 && status != 0) || value.length > 3)
        return cdl_access_fail(reading, value.bytes, "status", "is no number of three digits");
    if (reading->record->status == 0)
        reading->record->status = status;
    return true;
}

/* HAProxy writes a plus before a number that was still growing. */
static bool put_bytes(struct cdl_access_reading *reading, struct cdl_slice value)
{
    int64_t bytes = 0;
    size_t i = value.length > 1 && value.bytes[0] == '+';
    if (cdl_slice_equal(value, CDL_SLICE("-1")))
        return true;
    for (; i < value.length; i++)
        if (!cdl_access_is_digit(value.bytes[i]) || __builtin_mul_overflow(bytes, 10, &bytes) ||
            __builtin_add_overflow(bytes, value.bytes[i] - '0', &bytes))
            return cdl_access_fail(reading, value.bytes, "number of bytes", "is no whole number");
    if (reading->record->bytes < 0)
        reading->record->bytes = bytes;
    return true;
}

/* 0: there is no such unit. */
static int64_t unit_ns_of(struct cdl_slice name)
{
    static const struct {
        struct cdl_slice name;
        int64_t ns;
    } units[] = {
        {CDL_SLICE("ms"), 1000000},       {CDL_SLICE("s"), SECOND_NS},
        {CDL_SLICE("us"), 1000},          {CDL_SLICE("\xc2\xb5s"), 1000}, /* the micro sign and the Greek letter */
        {CDL_SLICE("\xce\xbcs"), 1000},   {CDL_SLICE("ns"), 1},
        {CDL_SLICE("m"), 60 * SECOND_NS}, {CDL_SLICE("h"), 3600 * SECOND_NS},
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (cdl_slice_equal(name, units[i].name))
            return units[i].ns;
    return 0;
}

/* Numbers that have their units behind them: "12ms", and "1m2.5s", as programs in Go write it. */
static bool read_units(struct cdl_slice text, int64_t *ns)
{
    *ns = 0;
    while (text.length > 0) {
        size_t number = 0, end;
        int64_t part_ns;
        while (number < text.length && (cdl_access_is_digit(text.bytes[number]) || text.bytes[number] == '.'))
            number++;
        for (end = number; end < text.length && !cdl_access_is_digit(text.bytes[end]);)
            end++;
        const int64_t unit_ns = unit_ns_of(cdl_slice_from(cdl_slice_head(text, end), number));
        if (unit_ns == 0 || !cdl_access_decimal(cdl_slice_head(text, number), unit_ns, &part_ns) ||
            __builtin_add_overflow(*ns, part_ns, ns))
            return false;
        text = cdl_slice_from(text, end);
    }
    return true;
}

static bool put_duration(struct cdl_access_reading *reading, struct cdl_slice value, int64_t unit_ns)
{
    int64_t ns;
    if (cdl_slice_equal(value, CDL_SLICE("-1")))
        return true;
    const char last = value.bytes[value.length - 1];
    const bool is_bare = cdl_access_is_digit(last) || last == '.';
    if (!(is_bare ? cdl_access_decimal(value, unit_ns, &ns) : read_units(value, &ns)))
        return cdl_access_fail(reading, value.bytes, "request time", "is no number");
    if (reading->record->duration_ns < 0)
        reading->record->duration_ns = ns;
    return true;
}

static void keep_first(struct cdl_slice *slice, struct cdl_slice value)
{
    if (slice->length == 0)
        *slice = value;
}

bool cdl_access_put_header(struct cdl_access_reading *reading, struct cdl_slice name, struct cdl_slice value)
{
    struct cdl_access_record *record = reading->record;
    if (cdl_access_is_absent(value) || name.length == 0)
        return true;
    if (record->header_count == CDL_ACCESS_HEADERS_MAX)
        return cdl_access_fail(reading, value.bytes, "headers", "are more than 64");
    if (record->host.length == 0 && cdl_slice_equal_nocase(name, CDL_SLICE("host")))
        record->host = value;
    record->headers[record->header_count++] = (struct cdl_field){name, value};
    return true;
}

/* A list in place of the client is what the peer came with and, at its end, the peer; what else is in it, a header would say. */
static bool put_client(struct cdl_access_reading *reading, struct cdl_slice value)
{
    struct cdl_slice *client = &reading->record->client;
    const char *comma = value.length > 0 ? memrchr(value.bytes, ',', value.length) : NULL;
    if (comma == NULL) {
        keep_first(client, value);
        return true;
    }
    const size_t before = (size_t)(comma - value.bytes);
    const struct cdl_slice last = cdl_slice_trim(cdl_slice_from(value, before + 1));
    keep_first(client, cdl_access_is_absent(last) ? (struct cdl_slice){NULL, 0} : last);
    keep_first(&reading->forwarded, cdl_slice_trim(cdl_slice_head(value, before)));
    return true;
}

bool cdl_access_put_variable(struct cdl_access_reading *reading, struct cdl_slice name, struct cdl_slice value)
{
    const size_t start = reading->scratch->length;
    if (cdl_access_is_absent(value))
        return true;
    cdl_write(reading->scratch, name);
    if (reading->scratch->overflow)
        return cdl_access_fail(reading, name.bytes, "line", "needs more room than there is");
    const struct cdl_slice header = {reading->scratch->bytes + start, name.length};
    for (size_t i = start; i < reading->scratch->length; i++)
        if (reading->scratch->bytes[i] == '_')
            reading->scratch->bytes[i] = '-';
    return cdl_access_put_header(reading, header, value);
}

bool cdl_access_put(struct cdl_access_reading *reading, const struct cdl_access_field *field, struct cdl_slice value)
{
    struct cdl_access_record *record = reading->record;
    if (cdl_access_is_absent(value))
        return true;
    switch (field->part) {
    case CDL_ACCESS_TIME:
        return put_time(reading, value);
    case CDL_ACCESS_STATUS:
        return put_status(reading, value);
    case CDL_ACCESS_BYTES:
        return put_bytes(reading, value);
    case CDL_ACCESS_DURATION:
        return put_duration(reading, value, field->unit_ns);
    case CDL_ACCESS_HEADER:
        return cdl_access_put_header(reading, field->header, value);
    case CDL_ACCESS_CLIENT:
        return put_client(reading, value);
    case CDL_ACCESS_METHOD:
        keep_first(&record->method, value);
        return true;
    case CDL_ACCESS_TARGET:
        keep_first(&record->target, value);
        return true;
    case CDL_ACCESS_PATH:
        keep_first(&reading->path, value);
        return true;
    case CDL_ACCESS_QUERY:
        keep_first(&reading->query, value);
        return true;
    case CDL_ACCESS_REQUEST:
        keep_first(&reading->request, value);
        return true;
    case CDL_ACCESS_HOST:
        keep_first(&record->host, value);
        return true;
    case CDL_ACCESS_USER:
        keep_first(&record->user, value);
        return true;
    default:
        return true;
    }
}
