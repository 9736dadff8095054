#include "wire/access_log.h"

#include "base/near.h"
#include "base/problem.h"
#include "wire/access_log_parts.h"

/* ---- formats by name ---- */

/* Mappings are in the words of settings.fields, patterns in nginx's. */
#define CADDY                                                                                                          \
    "time=ts,client=request.remote_ip,client=request.remote_addr,method=request.method,host=request.host,"             \
    "target=request.uri,headers=request.headers.*,status=status,bytes=size,duration=duration,user=user_id"
#define TRAEFIK                                                                                                        \
    "time=StartUTC,time=StartLocal,client=ClientHost,client=ClientAddr,method=RequestMethod,target=RequestPath,"       \
    "host=RequestHost,status=DownstreamStatus,bytes=DownstreamContentSize,duration_ns=Duration,user=ClientUsername,"   \
    "headers=request_*"
#define ENVOY_JSON                                                                                                     \
    "time=start_time,client=downstream_remote_address,method=method,target=path,host=authority,"                       \
    "status=response_code,bytes=bytes_sent,duration_ms=duration,header:x-forwarded-for=x_forwarded_for,"               \
    "header:user-agent=user_agent,header:x-request-id=request_id"
/* Neither of them logs the peer, but Envoy puts it at the end of the list. */
#define ENVOY                                                                                                          \
    "[$time] \"$request\" $status $response_flags $bytes_received $bytes $duration_ms $upstream_service_time "         \
    "\"$client\" \"$http_user_agent\" \"$http_x_request_id\" \"$host\" \"$upstream_host\""
#define ISTIO                                                                                                          \
    "[$time] \"$request\" $status $response_flags $response_code_details $connection_termination_details "             \
    "\"$upstream_transport_failure_reason\" $bytes_received $bytes $duration_ms $upstream_service_time "               \
    "\"$http_x_forwarded_for\" \"$http_user_agent\" \"$http_x_request_id\" \"$host\" \"$upstream_host\" "              \
    "$upstream_cluster $upstream_local_address $downstream_local_address $client $requested_server_name $route_name"

/* What makes the parts of a format. */
enum maker {
    MAKE_COMBINED,
    MAKE_PATTERN,
    MAKE_JSON,
    MAKE_HAPROXY,
    MAKE_CSV,
};

/* In the order in which they are tried on lines that several of them read. */
static const struct named {
    const char *name;
    enum maker maker;
    const char *text;  /* the pattern or mapping */
    bool stamps_begin; /* the time is that of the request's beginning */
} formats[] = {
    {"combined", MAKE_COMBINED, "", false}, {"common", MAKE_COMBINED, "", false},
    {"haproxy", MAKE_HAPROXY, "", true},    {"envoy", MAKE_PATTERN, ENVOY, true},
    {"istio", MAKE_PATTERN, ISTIO, true},   {"caddy", MAKE_JSON, CADDY, false},
    {"traefik", MAKE_JSON, TRAEFIK, true},  {"envoy-json", MAKE_JSON, ENVOY_JSON, true},
    {"json", MAKE_JSON, "", false},         {"csv", MAKE_CSV, "", false},
};
#define FORMATS (sizeof formats / sizeof formats[0])

const char *cdl_access_format_name(size_t n)
{
    return n < FORMATS ? formats[n].name : NULL;
}

static int make_parts(const struct named *named, const struct cdl_access_settings *settings, struct cdl_arena *arena,
                      struct cdl_access_format *format, struct caudal_problem *problem)
{
    const struct cdl_slice text = cdl_slice_of(named->text);
    switch (named->maker) {
    case MAKE_PATTERN:
        return cdl_access_pattern_make(text, arena, format, problem);
    case MAKE_JSON:
        return cdl_access_json_make(text, settings->fields, arena, format, problem);
    case MAKE_HAPROXY:
        return cdl_access_haproxy_make(settings->captures, arena, format, problem);
    case MAKE_CSV:
        return cdl_access_csv_make(settings->fields, arena, format, problem);
    default:
        format->kind = &cdl_access_combined;
        return CAUDAL_OK;
    }
}

static const struct named *find_format(struct cdl_slice name, struct caudal_problem *problem)
{
    const char *names[FORMATS];
    for (size_t i = 0; i < FORMATS; i++) {
        if (cdl_slice_equal(name, cdl_slice_of(formats[i].name)))
            return &formats[i];
        names[i] = formats[i].name;
    }
    const char *near = cdl_nearest(name, names, FORMATS);
    cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0,
                near != NULL
                    ? "\"%.*s\" is no format of logs; did you mean \"%s\"?"
                    : "\"%.*s\" is no format of logs; known are combined, common, haproxy, envoy, istio, caddy, "
                      "traefik, envoy-json, json and csv",
                name.length < 40 ? (int)name.length : 40, name.bytes, near);
    return NULL;
}

/* Settings that the format would not look at, and whose owner would wonder. */
static int check_settings(const struct cdl_access_settings *settings, enum maker maker, struct caudal_problem *problem)
{
    if (settings->fields.length > 0 && maker != MAKE_JSON && maker != MAKE_CSV)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "fields are for logs in JSON and CSV, and this is neither");
    if (settings->captures.length > 0 && maker != MAKE_HAPROXY)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "captures are for HAProxy's logs, and this is none");
    return CAUDAL_OK;
}

int cdl_access_format_make(const struct cdl_access_settings *settings, struct cdl_arena *arena,
                           struct cdl_access_format *format, struct caudal_problem *problem)
{
    static const struct named pattern = {"pattern", MAKE_PATTERN, "", false};
    const struct named *named = &pattern;
    if (settings->pattern.length == 0 && (named = find_format(settings->name, problem)) == NULL)
        return CAUDAL_ERR_SYNTAX;
    *format = (struct cdl_access_format){
        .name = named->name,
        .zone = settings->zone,
        .year = settings->year,
        .subtracts_duration = settings->at_arrival && !named->stamps_begin,
    };
    int status = check_settings(settings, named->maker, problem);
    if (status == CAUDAL_OK)
        status = named == &pattern ? cdl_access_pattern_make(settings->pattern, arena, format, problem)
                                   : make_parts(named, settings, arena, format, problem);
    if (status == CAUDAL_OK && arena->failed)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    return status;
}

/* ---- lines ---- */

void cdl_access_parser_init(struct cdl_access_parser *parser, const struct cdl_access_format *format)
{
    parser->format = format;
    parser->clock = (struct cdl_access_clock){.zone = format->zone, .year = format->year};
    parser->reached = 0;
    parser->delimiter = '\0';
    parser->column_count = 0;
    parser->name_bytes = 0;
}

static void clear(struct cdl_access_record *record)
{
    record->instant_ns = record->resolution_ns = 0;
    record->duration_ns = record->bytes = -1;
    record->client = record->method = record->target = record->host = record->user = (struct cdl_slice){NULL, 0};
    record->status = 0;
    record->header_count = 0;
}

/* "GET /path HTTP/1.1" in its parts. What has no word and a blank in front is no request. A target may have blanks: they end where
 * the version begins. */
static void split_request(struct cdl_access_record *record, struct cdl_slice request)
{
    const char *blank = request.length > 0 ? memchr(request.bytes, ' ', request.length) : NULL;
    if (blank == NULL || blank == request.bytes || blank - request.bytes > 32 || request.bytes[0] == '-')
        return;
    for (const char *at = request.bytes; at < blank; at++)
        if (!((*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') || *at == '-' || *at == '_'))
            return;
    struct cdl_slice target = cdl_slice_trim(cdl_slice_from(request, (size_t)(blank + 1 - request.bytes)));
    const char *last = target.length > 0 ? memrchr(target.bytes, ' ', target.length) : NULL;
    if (last != NULL && target.bytes + target.length - last > 5 && memcmp(last + 1, "HTTP/", 5) == 0)
        target = cdl_slice_trim(cdl_slice_head(target, (size_t)(last - target.bytes)));
    if (target.length == 0 || (target.length >= 5 && memcmp(target.bytes, "HTTP/", 5) == 0))
        return;
    if (record->method.length == 0)
        record->method = cdl_slice_head(request, (size_t)(blank - request.bytes));
    if (record->target.length == 0)
        record->target = target;
}

/* Path and query that were logged apart. */
static bool join_target(struct cdl_access_reading *reading)
{
    struct cdl_access_record *record = reading->record;
    const struct cdl_slice path = reading->path, query = reading->query;
    record->target = path;
    if (query.length == 0 || memchr(path.bytes, '?', path.length) != NULL)
        return true;
    const size_t start = reading->scratch->length;
    cdl_write(reading->scratch, path);
    cdl_write_text(reading->scratch, "?");
    cdl_write(reading->scratch, query);
    record->target = (struct cdl_slice){reading->scratch->bytes + start, reading->scratch->length - start};
    return !reading->scratch->overflow || cdl_access_fail(reading, path.bytes, "line", "needs more room than there is");
}

static size_t origin_length(struct cdl_slice target)
{
    size_t length = 0;
    while (length < target.length && target.bytes[length] != '/' && target.bytes[length] != '?')
        length++;
    return length;
}

/* The host of a target in absolute form: "http://host/path". */
static struct cdl_slice host_of(struct cdl_slice target)
{
    const size_t scheme = origin_length(target);
    if (scheme == 0 || target.length - scheme < 2 || memcmp(target.bytes + scheme - 1, "://", 3) != 0)
        return (struct cdl_slice){NULL, 0};
    target = cdl_slice_from(target, scheme + 2);
    return cdl_slice_head(target, origin_length(target));
}

static bool finish(struct cdl_access_reading *reading)
{
    struct cdl_access_record *record = reading->record;
    if (!reading->has_time)
        return cdl_access_fail(reading, reading->end, "time", "is missing");
    if (record->client.length > 0 && record->client.bytes[0] == '$')
        return cdl_access_fail(reading, record->client.bytes, "client",
                               "is a variable that the server did not fill in");
    split_request(record, reading->request);
    if (record->target.length == 0 && reading->path.length > 0 && !join_target(reading))
        return false;
    if (record->host.length == 0)
        record->host = host_of(record->target);
    if (reading->forwarded.length > 0 && cdl_access_header(record, CDL_SLICE("x-forwarded-for")).length == 0 &&
        !cdl_access_put_header(reading, CDL_SLICE("x-forwarded-for"), reading->forwarded))
        return false;
    if (reading->parser->format->subtracts_duration && record->duration_ns > 0 &&
        (__builtin_sub_overflow(record->instant_ns, record->duration_ns, &record->instant_ns) ||
         record->instant_ns < 0))
        return cdl_access_fail(reading, reading->end, "request time", "goes back beyond 1970");
    return true;
}

static bool skip(struct cdl_access_why *why, const char *detail)
{
    *why = (struct cdl_access_why){"line", detail, 0};
    return false;
}

static bool check_line(struct cdl_slice line, struct cdl_access_why *why)
{
    if (line.length == 0)
        return skip(why, "is empty");
    if (line.length > CDL_ACCESS_LINE_MAX)
        return skip(why, "is longer than 65536 bytes");
    if (memchr(line.bytes, '\0', line.length) != NULL)
        return skip(why, "is no text");
    return true;
}

enum cdl_access_result cdl_access_parse(struct cdl_access_parser *parser, struct cdl_slice line,
                                        struct cdl_writer *scratch, struct cdl_access_record *record,
                                        struct cdl_access_why *why)
{
    const struct cdl_access_kind *kind = parser->format->kind;
    if (line.length > 0 && line.bytes[line.length - 1] == '\r')
        line.length--;
    clear(record);
    parser->reached = 0;
    if (!check_line(line, why))
        return CDL_ACCESS_SKIPPED;
    struct cdl_access_reading reading = {
        .parser = parser,
        .line = line.bytes,
        .at = line.bytes,
        .end = line.bytes + line.length,
        .scratch = scratch,
        .record = record,
        .why = why,
    };
    if (kind->reads_headings && parser->delimiter == '\0')
        return cdl_access_csv_heading(&reading) ? CDL_ACCESS_HEADING : CDL_ACCESS_SKIPPED;
    return kind->read(&reading) && finish(&reading) ? CDL_ACCESS_READ : CDL_ACCESS_SKIPPED;
}

struct cdl_slice cdl_access_header(const struct cdl_access_record *record, struct cdl_slice name)
{
    for (size_t i = 0; i < record->header_count; i++)
        if (cdl_slice_equal_nocase(record->headers[i].name, name))
            return record->headers[i].value;
    return (struct cdl_slice){NULL, 0};
}

/* ---- reasons ---- */

void cdl_access_why_write(struct cdl_writer *writer, const struct cdl_access_why *why)
{
    if (why->column > 0)
        cdl_writef(writer, "column %zu: ", why->column);
    cdl_writef(writer, "the %s %s", why->field, why->detail);
}

bool cdl_access_why_is_setting(const struct cdl_access_why *why)
{
    return why->detail == cdl_access_lacks_zone || why->detail == cdl_access_lacks_year;
}
