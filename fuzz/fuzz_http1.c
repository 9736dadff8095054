/* Any bytes as a connection that speaks HTTP/1.1.
 *
 * The first byte says how the rest is cut into reads. Each prefix sits in memory of exactly its size, at another place each
 * time. What comes out must be the same as in one read, must not hold what separates the parts of a request, and, written
 * down again, must be read as the same request.
 */
#include <stdlib.h>
#include <string.h>

#include "base/writer.h"
#include "wire/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct cdl_http1_limits limits = {
    .target_bytes = 64,
    .head_bytes = 512,
    .field_count = 8,
    .body_bytes = 64,
};

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

/* A request, or the error instead of it, in memory of its own. */
struct outcome {
    enum cdl_http1_result result;
    struct cdl_http1_error error;
    size_t taken;
    struct cdl_http1_request request;
    char *bytes;
};

/* Feeds bytes until there is an outcome; `step` more each time, and a little varied. */
static void feed(struct outcome *outcome, struct cdl_slice text, size_t step)
{
    struct cdl_http1 parser = {.phase = 0};
    size_t length = 0;
    unsigned continues = 0;
    outcome->bytes = NULL;
    do {
        length += step + length % 3;
        if (length > text.length || step == 0)
            length = text.length;
        char *bytes = malloc(length);
        require(bytes != NULL);
        memcpy(bytes, text.bytes, length);
        free(outcome->bytes);
        outcome->bytes = bytes;
        outcome->result = cdl_http1_parse(&parser, &limits, bytes, length);
        continues += outcome->result == CDL_HTTP1_CONTINUE;
    } while (outcome->result < CDL_HTTP1_READY && length < text.length);
    require(continues <= 1);
    if (outcome->result == CDL_HTTP1_CONTINUE)
        outcome->result = CDL_HTTP1_MORE;
    require(outcome->result != CDL_HTTP1_MORE || length < cdl_http1_message_max(&limits));
    outcome->error = parser.error;
    outcome->taken = cdl_http1_taken(&parser);
    if (outcome->result == CDL_HTTP1_READY)
        cdl_http1_request(&parser, outcome->bytes, &outcome->request);
}

static void require_same_request(const struct cdl_http1_request *a, const struct cdl_http1_request *b)
{
    require(cdl_slice_equal(a->method, b->method) && cdl_slice_equal(a->target, b->target));
    require(cdl_slice_equal(a->body, b->body) && a->field_count == b->field_count);
    require(a->keep_alive == b->keep_alive && a->minor_version == b->minor_version);
    for (size_t i = 0; i < a->field_count; i++)
        require(cdl_slice_equal(a->fields[i].name, b->fields[i].name) &&
                cdl_slice_equal(a->fields[i].value, b->fields[i].value));
}

static void require_same(const struct outcome *a, const struct outcome *b)
{
    require(a->result == b->result);
    if (a->result == CDL_HTTP1_ERROR)
        require(a->error.status == b->error.status);
    if (a->result != CDL_HTTP1_READY)
        return;
    require(a->taken == b->taken);
    require_same_request(&a->request, &b->request);
}

static bool has_any(struct cdl_slice text, const char *bytes, size_t count)
{
    for (size_t i = 0; i < text.length; i++)
        if (memchr(bytes, text.bytes[i], count) != NULL)
            return true;
    return false;
}

static void require_well_formed(const struct cdl_http1_request *request)
{
    require(request->method.length > 0 && !has_any(request->method, "\0\r\n\t ", 5));
    require(request->target.length > 0 && request->target.length <= limits.target_bytes);
    require(!has_any(request->target, "\0\r\n\t\f ", 6));
    require(request->body.length <= limits.body_bytes && request->field_count <= limits.field_count);
    for (size_t i = 0; i < request->field_count; i++) {
        require(request->fields[i].name.length > 0 && !has_any(request->fields[i].name, "\0\r\n\t :", 6));
        require(!has_any(request->fields[i].value, "\0\r\n", 3));
        require(cdl_slice_equal(cdl_slice_trim(request->fields[i].value), request->fields[i].value));
    }
}

static bool says_how_the_body_comes(struct cdl_slice name)
{
    return cdl_slice_equal_nocase(name, CDL_SLICE("content-length")) ||
           cdl_slice_equal_nocase(name, CDL_SLICE("transfer-encoding"));
}

/* The same request, with its body in one piece. */
static struct cdl_slice write_again(const struct cdl_http1_request *request, struct cdl_writer *writer)
{
    cdl_writef(writer, "%.*s %.*s HTTP/1.%u\r\n", CDL_SLICE_ARG(request->method), CDL_SLICE_ARG(request->target),
               request->minor_version);
    for (size_t i = 0; i < request->field_count; i++) {
        const struct cdl_field *field = &request->fields[i];
        if (says_how_the_body_comes(field->name))
            cdl_writef(writer, "Content-Length: %zu\r\n", request->body.length);
        else
            cdl_writef(writer, "%.*s: %.*s\r\n", CDL_SLICE_ARG(field->name), CDL_SLICE_ARG(field->value));
    }
    cdl_write_text(writer, "\r\n");
    cdl_write(writer, request->body);
    return cdl_written(writer);
}

static void require_read_again(const struct cdl_http1_request *request)
{
    char room[4096];
    struct cdl_writer writer = cdl_writer_on(room, sizeof room);
    struct outcome again;
    feed(&again, write_again(request, &writer), 0);
    /* Longer than it was, by its blanks, it may be too long now. And http_parser takes any name that begins with
     * Transfer-Encoding for one that may not stand beside Content-Length. */
    if (again.result == CDL_HTTP1_READY) {
        require(again.taken == writer.length && again.request.field_count == request->field_count);
        require(cdl_slice_equal(again.request.body, request->body));
        require(cdl_slice_equal(again.request.target, request->target));
    } else {
        require(again.result == CDL_HTTP1_ERROR);
        require(again.error.status == 431 || strcmp(again.error.reason, "bad-length") == 0);
    }
    free(again.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct cdl_slice text = {(const char *)data + 1, size - 1};
    for (bool more = text.length > 0; more;) {
        struct outcome whole, cut;
        feed(&whole, text, 0);
        feed(&cut, text, 1 + data[0] % 32);
        require_same(&whole, &cut);
        if (whole.result == CDL_HTTP1_READY) {
            require(whole.taken > 0 && whole.taken <= text.length);
            require_well_formed(&whole.request);
            require_read_again(&whole.request);
            text = cdl_slice_from(text, whole.taken);
        }
        more = whole.result == CDL_HTTP1_READY && text.length > 0;
        free(whole.bytes);
        free(cut.bytes);
    }
    return 0;
}
