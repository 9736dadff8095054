/* The head is read by http_parser, which is fast and knows the methods, the shapes of a target and the rules about the
 * length of a body. Debian builds it with HTTP_PARSER_STRICT=0, and then it also accepts what must not pass:
 *
 *     GET /a HTTQ/1.1        any letters for HTTP, several blanks, no version at all
 *     Ho st: x               blanks in and after a name
 *     X: a <LF> Y: b         LF alone as the end of a line, any byte as the LF after CR
 *     X: a <CRLF> b          a value over several lines
 *     X: <NUL>               any byte as the first of a value
 *
 * So each line is looked at again when it is complete (settle_*), not for what stands in it but for what stands between the
 * pieces that the engine found, and that leaves one spelling of each. A body is not given to the engine.
 *
 * What is refused, and how, must not depend on how the bytes were cut. The engine reports a piece at its end, or at the
 * end of what it was given, and nothing of a piece in which it finds an error. Therefore nothing is judged when a piece
 * is reported, but only when its line is complete: at the next line, at the end of the head, or at an error.
 */
#include "wire/http1.h"

#include <http_parser.h>

_Static_assert(sizeof(http_parser) <= sizeof((struct cdl_http1 *)0)->engine, "room for the engine");
_Static_assert(_Alignof(http_parser) <= _Alignof(uint64_t), "the engine may lie where it does");

enum phase {
    START, /* all zero */
    HEAD,
    BODY,
    CHUNKS,
    READY,
    FAILED,
};

/* What the line holds so far that the engine reads. */
enum part {
    NOTHING, /* or a request line */
    NAME,
    VALUE,
};

/* One call of cdl_http1_parse. */
struct reading {
    struct cdl_http1 *parser;
    const struct cdl_http1_limits *limits;
    const char *bytes;
    size_t visible; /* what the engine was given, now and before */
};

static http_parser *engine_of(struct cdl_http1 *parser)
{
    return (void *)parser->engine;
}

/* Returns what makes the engine stop, for its callbacks. */
static int refuse(struct cdl_http1 *parser, unsigned status, const char *reason)
{
    parser->error = (struct cdl_http1_error){status, reason};
    parser->phase = FAILED;
    return -1;
}

static bool stands_at(const struct reading *reading, size_t at, struct cdl_slice text)
{
    return at + text.length <= reading->visible && memcmp(reading->bytes + at, text.bytes, text.length) == 0;
}

static bool has_byte(const char *bytes, size_t length, char byte)
{
    return memchr(bytes, byte, length) != NULL;
}

/* ---- the request line ---- */

#define VERSION_AND_END 11 /* " HTTP/1.1\r\n" */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool version_stands_at(const struct reading *reading, size_t at)
{
    const char *bytes = reading->bytes + at;
    return stands_at(reading, at, CDL_SLICE(" HTTP/")) &&
           stands_at(reading, at + VERSION_AND_END - 2, CDL_SLICE("\r\n")) && is_digit(bytes[6]) && bytes[7] == '.' &&
           is_digit(bytes[8]);
}

static int settle_request_line(const struct reading *reading)
{
    struct cdl_http1 *parser = reading->parser;
    const http_parser *engine = engine_of(parser);
    const size_t end = (size_t)parser->target + parser->target_length;
    const char *target = reading->bytes + parser->target;
    if (!version_stands_at(reading, end) || parser->target_length == 0 ||
        parser->target != parser->start + strlen(http_method_str(engine->method)) + 1 ||
        has_byte(target, parser->target_length, '\t') || has_byte(target, parser->target_length, '\f'))
        return refuse(parser, 400, "bad-request-line");
    if (parser->target_length > reading->limits->target_bytes)
        return refuse(parser, 414, "target-too-long");
    if (engine->http_major != 1)
        return refuse(parser, 505, "unknown-version");
    if (engine->method == HTTP_CONNECT)
        return refuse(parser, 501, "unknown-method");
    parser->minor_version = engine->http_minor > 0;
    parser->line = (uint16_t)(end + VERSION_AND_END);
    return 0;
}

/* ---- a field ---- */

static int settle_host(struct cdl_http1 *parser)
{
    if (parser->has_host)
        return refuse(parser, 400, "bad-host");
    parser->has_host = true;
    return 0;
}

/* Only one coding is decoded here. The engine sees to it that no Content-Length stands beside it. */
static int settle_encoding(struct cdl_http1 *parser, struct cdl_slice value)
{
    if (parser->has_encoding || parser->minor_version == 0)
        return refuse(parser, 400, "bad-encoding");
    if (!cdl_slice_equal_nocase(value, CDL_SLICE("chunked")))
        return refuse(parser, 501, "unknown-encoding");
    parser->has_encoding = true;
    return 0;
}

static int settle_expectation(struct cdl_http1 *parser, struct cdl_slice value)
{
    if (!cdl_slice_equal_nocase(value, CDL_SLICE("100-continue")))
        return refuse(parser, 417, "unknown-expectation");
    parser->expects_continue = parser->minor_version > 0;
    return 0;
}

/* The fields that say how the request is to be read. Their lengths are told apart first, since all others pass here too. */
static int settle_meaning(struct cdl_http1 *parser, struct cdl_slice name, struct cdl_slice value)
{
    if (name.length == 4 && cdl_slice_equal_nocase(name, CDL_SLICE("host")))
        return settle_host(parser);
    if (name.length == 6 && cdl_slice_equal_nocase(name, CDL_SLICE("expect")))
        return settle_expectation(parser, value);
    if (name.length == 17 && cdl_slice_equal_nocase(name, CDL_SLICE("transfer-encoding")))
        return settle_encoding(parser, value);
    return 0;
}

static size_t skip_blanks(const struct reading *reading, size_t at)
{
    while (at < reading->visible && (reading->bytes[at] == ' ' || reading->bytes[at] == '\t'))
        at++;
    return at;
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

static int settle_field(const struct reading *reading)
{
    struct cdl_http1 *parser = reading->parser;
    const struct cdl_slice name = {reading->bytes + parser->field.name, parser->field.name_length};
    /* Past the colon. The engine reports an empty value where the next line begins. */
    const size_t begin = skip_blanks(reading, (size_t)parser->field.name + name.length + 1);
    const size_t end = begin + parser->field.value_length;
    if (parser->field.value_length > 0 && (begin != parser->field.value || is_control(reading->bytes[begin])))
        return refuse(parser, 400, "bad-header");
    if (parser->field.name != parser->line || has_byte(name.bytes, name.length, ' ') ||
        !stands_at(reading, end, CDL_SLICE("\r\n")) || skip_blanks(reading, end + 2) != end + 2)
        return refuse(parser, 400, "bad-header");
    if (parser->field_count >= reading->limits->field_count || parser->field_count >= CDL_HTTP1_FIELDS_MAX)
        return refuse(parser, 431, "too-many-headers");

    const struct cdl_slice value = cdl_slice_trim((struct cdl_slice){reading->bytes + begin, end - begin});
    parser->field.value = (uint16_t)begin;
    parser->field.value_length = (uint16_t)value.length;
    parser->fields[parser->field_count++] = parser->field;
    parser->line = (uint16_t)(end + 2);
    return settle_meaning(parser, name, value);
}

/* The engine is past the line that was reported last. */
static int settle(const struct reading *reading)
{
    struct cdl_http1 *parser = reading->parser;
    if (parser->line == 0)
        return settle_request_line(reading);
    return parser->part == VALUE ? settle_field(reading) : 0;
}

/* ---- what the engine reports ---- */

static int on_target(http_parser *engine, const char *at, size_t length)
{
    const struct reading *reading = engine->data;
    struct cdl_http1 *parser = reading->parser;
    if (parser->target_length == 0)
        parser->target = (uint16_t)(at - reading->bytes);
    parser->target_length = (uint16_t)(parser->target_length + length);
    return 0;
}

static int on_name(http_parser *engine, const char *at, size_t length)
{
    const struct reading *reading = engine->data;
    struct cdl_http1 *parser = reading->parser;
    if (parser->part == NAME) {
        parser->field.name_length = (uint16_t)(parser->field.name_length + length);
        return 0;
    }
    if (settle(reading) != 0)
        return -1;
    parser->part = NAME;
    parser->field.name = (uint16_t)(at - reading->bytes);
    parser->field.name_length = (uint16_t)length;
    return 0;
}

static int on_value(http_parser *engine, const char *at, size_t length)
{
    const struct reading *reading = engine->data;
    struct cdl_http1 *parser = reading->parser;
    const size_t place = (size_t)(at - reading->bytes);
    if (parser->part == NAME) {
        parser->part = VALUE;
        parser->field.value = (uint16_t)place;
        parser->field.value_length = (uint16_t)length;
        return 0;
    }
    if (place != (size_t)parser->field.value + parser->field.value_length) /* it goes on in the next line */
        return refuse(parser, 400, "bad-header");
    parser->field.value_length = (uint16_t)(parser->field.value_length + length);
    return 0;
}

static int on_head(http_parser *engine)
{
    const struct reading *reading = engine->data;
    struct cdl_http1 *parser = reading->parser;
    if (settle(reading) != 0)
        return -1;
    if (!stands_at(reading, parser->line, CDL_SLICE("\r\n")))
        return refuse(parser, 400, "bad-header");
    if (parser->minor_version > 0 && !parser->has_host)
        return refuse(parser, 400, "bad-host");
    if (!parser->has_encoding && engine->content_length != UINT64_MAX) {
        if (engine->content_length > reading->limits->body_bytes)
            return refuse(parser, 413, "body-too-large");
        parser->body_length = (uint32_t)engine->content_length;
    }
    parser->keep_alive = (engine->flags & F_CONNECTION_CLOSE) == 0 &&
                         (parser->minor_version > 0 || (engine->flags & F_CONNECTION_KEEP_ALIVE) != 0);
    parser->body = parser->line + 2u;
    parser->phase = parser->has_encoding ? CHUNKS : BODY;
    return -1; /* the engine's work is done */
}

static const http_parser_settings settings = {
    .on_url = on_target,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
};

/* ---- the head ---- */

/* RFC 9110, 5.6.2 */
static bool is_token_byte(char c)
{
    const char lower = cdl_ascii_lower(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* Is the error behind the line that was reported last, or in it? Of that line only a part may have been reported. */
static bool is_behind_line(const struct reading *reading, size_t at)
{
    const struct cdl_http1 *parser = reading->parser;
    if (parser->line == 0)
        return at >= (size_t)parser->target + parser->target_length + VERSION_AND_END;
    if (parser->part != VALUE || parser->field.value_length == 0) /* an empty value is reported behind its line */
        return true;
    const size_t end = (size_t)parser->field.value + parser->field.value_length;
    return at > end && (reading->bytes[end] == '\r' || reading->bytes[end] == '\n');
}

static const char *reason_of(enum http_errno problem)
{
    switch (problem) {
    case HPE_INVALID_CONTENT_LENGTH:
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return "bad-length";
    case HPE_INVALID_TRANSFER_ENCODING:
        return "bad-encoding";
    default:
        return "bad-header";
    }
}

/* The byte at `at` was one too many for the engine. What is wrong in a line before it counts first. */
static void engine_refuses(const struct reading *reading, size_t at)
{
    struct cdl_http1 *parser = reading->parser;
    const enum http_errno problem = HTTP_PARSER_ERRNO(engine_of(parser));
    const bool in_request_line = parser->line == 0 && !is_behind_line(reading, at);
    /* "BREW" is an unknown method; the hello of a TLS client is no HTTP. */
    if (problem == HPE_INVALID_METHOD && (is_token_byte(reading->bytes[at]) || reading->bytes[at] == ' '))
        refuse(parser, 501, "unknown-method");
    else if (in_request_line)
        refuse(parser, 400, "bad-request-line");
    else if (!is_behind_line(reading, at) || settle(reading) == 0)
        refuse(parser, 400, reason_of(problem));
}

static void begin(struct cdl_http1 *parser)
{
    parser->phase = HEAD;
    parser->fed = parser->start;
    http_parser_init(engine_of(parser), HTTP_REQUEST);
}

/* RFC 9112, 2.2: empty lines before a request are what old clients leave behind a body. */
static void skip_empty_lines(struct cdl_http1 *parser, const char *bytes, size_t length)
{
    while (parser->start < length && (bytes[parser->start] == '\r' || bytes[parser->start] == '\n'))
        parser->start++;
    if (parser->start < length)
        begin(parser);
}

static void parse_head(struct reading *reading, size_t length)
{
    struct cdl_http1 *parser = reading->parser;
    const size_t fed = parser->fed;
    reading->visible = length;
    if (length > fed) {
        http_parser *engine = engine_of(parser);
        engine->data = reading;
        const size_t eaten = http_parser_execute(engine, &settings, reading->bytes + fed, length - fed);
        parser->fed = (uint32_t)length;
        if (parser->phase == HEAD && HTTP_PARSER_ERRNO(engine) != HPE_OK)
            engine_refuses(reading, fed + eaten);
    }
}

/* No more than the longest head is ever given to the engine, so that a head which is too long is found at the same byte
 * always. */
static void read_head(struct reading *reading, size_t length)
{
    struct cdl_http1 *parser = reading->parser;
    const uint32_t wanted = reading->limits->head_bytes;
    const size_t most = wanted < CDL_HTTP1_HEAD_MAX ? wanted : CDL_HTTP1_HEAD_MAX;
    const size_t visible = length < most ? length : most;
    if (parser->phase == START)
        skip_empty_lines(parser, reading->bytes, visible);
    if (parser->phase == HEAD)
        parse_head(reading, visible);
    if (visible < most || parser->phase > HEAD)
        return;
    if (parser->line == 0 && !version_stands_at(reading, (size_t)parser->target + parser->target_length))
        refuse(parser, 414, "target-too-long");
    else
        refuse(parser, 431, "headers-too-large");
}

/* ---- the body ---- */

static void read_body(struct cdl_http1 *parser, size_t length)
{
    if (length - parser->body < parser->body_length)
        return;
    parser->taken = parser->body + parser->body_length;
    parser->phase = READY;
}

static void read_chunks(struct reading *reading, char *bytes, size_t length)
{
    struct cdl_http1 *parser = reading->parser;
    const struct cdl_http1_limits *limits = reading->limits;
    char *body = bytes + parser->body;
    switch (cdl_chunks_scan(&parser->chunks, body, length - parser->body, limits->body_bytes,
                            limits->head_bytes + limits->body_bytes)) {
    case CDL_CHUNKS_MORE:
        break;
    case CDL_CHUNKS_WHOLE:
        cdl_chunks_join(body);
        parser->body_length = parser->chunks.length;
        parser->taken = parser->body + parser->chunks.at;
        parser->phase = READY;
        break;
    case CDL_CHUNKS_MALFORMED:
        refuse(parser, 400, "bad-chunk");
        break;
    case CDL_CHUNKS_TOO_LARGE:
        refuse(parser, 413, "body-too-large");
        break;
    }
}

/* ---- the whole ---- */

static enum cdl_http1_result more(struct cdl_http1 *parser, size_t length)
{
    const bool body_is_awaited = parser->phase > HEAD && length == parser->body;
    if (!parser->expects_continue || !body_is_awaited)
        return CDL_HTTP1_MORE;
    parser->expects_continue = false;
    return CDL_HTTP1_CONTINUE;
}

enum cdl_http1_result cdl_http1_parse(struct cdl_http1 *parser, const struct cdl_http1_limits *limits, char *bytes,
                                      size_t length)
{
    struct reading reading = {parser, limits, bytes, 0};
    if (parser->phase <= HEAD)
        read_head(&reading, length);
    if (parser->phase == BODY)
        read_body(parser, length);
    if (parser->phase == CHUNKS)
        read_chunks(&reading, bytes, length);
    if (parser->phase == READY)
        return CDL_HTTP1_READY;
    return parser->phase == FAILED ? CDL_HTTP1_ERROR : more(parser, length);
}

void cdl_http1_request(const struct cdl_http1 *parser, const char *bytes, struct cdl_http1_request *request)
{
    request->method = (struct cdl_slice){bytes + parser->start, (size_t)parser->target - 1u - parser->start};
    request->target = (struct cdl_slice){bytes + parser->target, parser->target_length};
    request->body = (struct cdl_slice){bytes + parser->body, parser->body_length};
    request->minor_version = parser->minor_version;
    request->keep_alive = parser->keep_alive;
    request->field_count = parser->field_count;
    for (size_t i = 0; i < parser->field_count; i++)
        request->fields[i] = (struct cdl_field){
            {bytes + parser->fields[i].name, parser->fields[i].name_length},
            {bytes + parser->fields[i].value, parser->fields[i].value_length},
        };
}

void cdl_http1_next(struct cdl_http1 *parser)
{
    /* Of the fields only the count says which are there. */
    memset(parser, 0, offsetof(struct cdl_http1, fields));
}
