/* HTTP/1.1 requests out of bytes, as a server reads them (RFC 9110, RFC 9112). It does no I/O and allocates nothing.
 *
 *     switch (cdl_http1_parse(&parser, &limits, bytes, length)) {
 *     case CDL_HTTP1_MORE:     come back with these bytes and more behind them
 *     case CDL_HTTP1_CONTINUE: the same, and answer CDL_HTTP1_CONTINUE_LINE now: the client waits for it
 *     case CDL_HTTP1_READY:    cdl_http1_request(&parser, bytes, &request); answer; drop the first
 *                              cdl_http1_taken(&parser) bytes; cdl_http1_next(&parser); go on with what is left
 *     case CDL_HTTP1_ERROR:    answer parser.error.status; close, since nobody knows where the next request begins
 *     }
 *
 * `bytes` is where the request begins. What was there in one call must be there in the next, at any address: the parser keeps
 * distances, not pointers, so a buffer may be moved. It looks at each byte once, however slowly they come, and what it
 * makes of them does not depend on how they were cut into reads.
 *
 * One grammar only, so that no two programs on the way can read one request as two: lines end in CRLF, a name is
 * followed by its colon, a value goes not over lines and has no control bytes, the length of a body is said once.
 */
#ifndef CDL_WIRE_HTTP1_H
#define CDL_WIRE_HTTP1_H

#include <stdint.h>

#include "base/slice.h"
#include "wire/http1_chunks.h"

#define CDL_HTTP1_FIELDS_MAX 100
#define CDL_HTTP1_HEAD_MAX 65535u
#define CDL_HTTP1_BODY_MAX (1u << 30)
#define CDL_HTTP1_CONTINUE_LINE CDL_SLICE("HTTP/1.1 100 Continue\r\n\r\n")

struct cdl_http1_limits {
    uint32_t target_bytes; /* else 414 */
    uint32_t head_bytes;   /* request line and fields with their line ends, at most CDL_HTTP1_HEAD_MAX; else 431 */
    uint32_t field_count;  /* at most CDL_HTTP1_FIELDS_MAX; else 431 */
    uint32_t body_bytes;   /* decoded, at most CDL_HTTP1_BODY_MAX; else 413 */
};

/* The most bytes that one request takes. Chunks cost room for their sizes, and may take as much as head and body. */
static inline size_t cdl_http1_message_max(const struct cdl_http1_limits *limits)
{
    return 2 * ((size_t)limits->head_bytes + limits->body_bytes);
}

enum cdl_http1_result {
    CDL_HTTP1_MORE,
    CDL_HTTP1_CONTINUE, /* once a request at most, and only if no byte of its body is there */
    CDL_HTTP1_READY,    /* and again, until cdl_http1_next */
    CDL_HTTP1_ERROR,    /* for good */
};

struct cdl_http1_error {
    unsigned status;    /* 400, 413, 414, 417, 431, 501 or 505 */
    const char *reason; /* one word of a small list, for a log or a metric: "bad-header" */
};

/* All zero is ready for the first request. Read `error` after CDL_HTTP1_ERROR; the rest is the parser's. Places are
 * distances from the first byte. */
struct cdl_http1 {
    struct cdl_http1_error error;
    uint64_t engine[4];       /* http_parser's state; no file but http1.c knows that library */
    uint32_t fed;             /* bytes that the engine has seen */
    uint32_t body;            /* where it begins */
    uint32_t body_length;     /* decoded */
    uint32_t taken;           /* when ready: where the next request begins */
    struct cdl_chunks chunks; /* of a body that comes in chunks */
    uint16_t start;           /* of the request line: empty lines before it are skipped */
    uint16_t target, target_length;
    uint16_t line; /* where the line begins that the engine reads */
    uint8_t phase, part;
    uint8_t minor_version;
    uint8_t field_count;
    bool has_host, has_encoding, expects_continue, keep_alive;
    struct {
        uint16_t name, name_length, value, value_length;
    } field, fields[CDL_HTTP1_FIELDS_MAX]; /* the one that is being read, and those that were */
};

/* All slices lie in the bytes that were parsed. */
struct cdl_http1_request {
    struct cdl_slice method; /* as sent: methods are case-sensitive */
    struct cdl_slice target; /* as sent: "/path?query", "http://host/path" or "*"; no controls, no blanks */
    struct cdl_slice body;   /* decoded */
    size_t field_count;
    struct cdl_field fields[CDL_HTTP1_FIELDS_MAX]; /* names as sent, values without blanks around them */
    unsigned minor_version;                        /* 0: HTTP/1.0; 1: HTTP/1.1 or later */
    bool keep_alive;                               /* whether the connection may go on after the answer */
};

/* Looks at the bytes that are new since the last call. When a chunked body is complete, it is decoded in place. */
enum cdl_http1_result cdl_http1_parse(struct cdl_http1 *parser, const struct cdl_http1_limits *limits, char *bytes,
                                      size_t length);

/* The request that is ready, out of the bytes that were parsed, wherever they are now. */
void cdl_http1_request(const struct cdl_http1 *parser, const char *bytes, struct cdl_http1_request *request);

/* How many bytes the request took that is ready. */
static inline size_t cdl_http1_taken(const struct cdl_http1 *parser)
{
    return parser->taken;
}

/* Makes the parser ready for the next request, which begins at the first byte of the next call. */
void cdl_http1_next(struct cdl_http1 *parser);

#endif
