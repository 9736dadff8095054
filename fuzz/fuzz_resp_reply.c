/* Any bytes as replies of a Redis server.
 *
 * The first byte says how the rest is cut. Each prefix sits in memory of exactly its size, at another place each time. What comes out
 * must be the same as in one piece, and a reply that is whole must be walked from its first byte to its last, within its depth.
 */
#include <stdlib.h>

#include "wire/resp_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static char *copy_of(struct cdl_slice text)
{
    char *copy = malloc(text.length > 0 ? text.length : 1);
    require(copy != NULL);
    if (text.length > 0)
        memcpy(copy, text.bytes, text.length);
    return copy;
}

/* Feeds bytes until there is an outcome; `step` more each time, and a little varied. */
static enum cdl_resp_result feed(struct cdl_slice text, size_t step, size_t *length)
{
    struct cdl_resp_meter meter = {0};
    enum cdl_resp_result result = CDL_RESP_MORE;
    for (size_t fed = 0; result == CDL_RESP_MORE && fed < text.length;) {
        fed += step + fed % 3;
        if (fed > text.length)
            fed = text.length;
        char *copy = copy_of(cdl_slice_head(text, fed));
        result = cdl_resp_measure(&meter, (struct cdl_slice){copy, fed}, length);
        require(result != CDL_RESP_READY || (*length > 0 && *length <= fed));
        free(copy);
    }
    return result;
}

static bool is_within(struct cdl_slice part, struct cdl_slice whole)
{
    return part.length == 0 || (part.bytes >= whole.bytes && part.bytes + part.length <= whole.bytes + whole.length);
}

/* Walks `count` values that fill `values`. */
static void walk(struct cdl_slice values, size_t count, unsigned depth)
{
    require(depth <= CDL_RESP_DEPTH_MAX);
    for (; count > 0; count--) {
        const struct cdl_slice before = values;
        struct cdl_resp value;
        require(cdl_resp_next(&values, &value));
        require(values.length < before.length && is_within(values, before));
        require(is_within(value.text, before) && is_within(value.elements, before));
        if (value.kind >= CDL_RESP_ARRAY)
            walk(value.elements, value.count, depth + 1);
        require(value.kind != CDL_RESP_PUSH || depth == 0);
    }
    require(values.length == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct cdl_slice text = {(const char *)data + 1, size - 1};
    for (bool more = text.length > 0; more;) {
        size_t whole = 0, cut = 0;
        const enum cdl_resp_result result = feed(text, size, &whole);
        require(feed(text, 1 + data[0] % 32, &cut) == result && cut == whole);
        struct cdl_slice rest = text;
        struct cdl_resp value;
        require(cdl_resp_next(&rest, &value) == (result == CDL_RESP_READY));
        if (result == CDL_RESP_READY) {
            char *copy = copy_of(cdl_slice_head(text, whole));
            walk((struct cdl_slice){copy, whole}, 1, 0);
            free(copy);
            text = cdl_slice_from(text, whole);
        }
        more = result == CDL_RESP_READY && text.length > 0;
    }
    return 0;
}
