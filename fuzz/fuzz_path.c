/* Any bytes as a request target, a query and a Cookie header.
 *
 * A path that was normalised holds nothing that another spelling could change, and normalising it again changes nothing; its
 * segments joined are the path; a writer that is too small keeps what it held. What is found in a query or a cookie lies within it.
 * The bytes sit in memory of exactly their size, so that AddressSanitizer sees a look beyond either end.
 */
#include <stdlib.h>

#include "identity/path.h"

/* So many are looked at, since finding the n-th is linear in n. */
#define SEGMENTS_MAX 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool is_upper_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

/* RFC 3986's pchar, said once more in other words than the library's. */
static bool is_plain(char c)
{
    return c != '\0' &&
           strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@", c) != NULL;
}

static void require_normal_segment(struct cdl_slice segment)
{
    require(segment.length > 0);
    require(!cdl_slice_equal(segment, CDL_SLICE(".")) && !cdl_slice_equal(segment, CDL_SLICE("..")));
    for (size_t i = 0; i < segment.length; i++) {
        if (is_plain(segment.bytes[i]))
            continue;
        require(segment.bytes[i] == '%' && segment.length - i > 2);
        require(is_upper_hex(segment.bytes[i + 1]) && is_upper_hex(segment.bytes[i + 2]));
        char digits[] = {segment.bytes[i + 1], segment.bytes[i + 2], '\0'};
        require(!is_plain((char)strtol(digits, NULL, 16)));
        i += 2;
    }
}

static void require_segments(struct cdl_slice path)
{
    if (cdl_slice_equal(path, CDL_SLICE("/")))
        return;
    size_t at = 0;
    for (unsigned n = 1; at < path.length && n <= SEGMENTS_MAX; n++) {
        const struct cdl_slice segment = cdl_path_segment(path, n);
        require_normal_segment(segment);
        require(path.bytes[at] == '/' && segment.bytes == path.bytes + at + 1);
        at += segment.length + 1;
    }
}

static void require_same_again(struct cdl_slice path)
{
    char *bytes = malloc(path.length);
    if (bytes == NULL)
        return;
    struct cdl_writer again = cdl_writer_on(bytes, path.length); /* what is normal needs no more room than it has */
    require(cdl_path_normalise(path, &again) && cdl_slice_equal(cdl_written(&again), path));
    again = cdl_writer_on(bytes, path.length - 1);
    require(!cdl_path_normalise(path, &again) && again.overflow && again.length == 0);
    free(bytes);
}

static void try_path(struct cdl_slice target)
{
    static const char before[] = {'x', '/', 'y'};
    const size_t size = sizeof before + 3 * target.length + 1;
    char *bytes = malloc(size);
    if (bytes == NULL)
        return;
    struct cdl_writer path = cdl_writer_on(bytes, size);
    cdl_write(&path, (struct cdl_slice){before, sizeof before});
    const bool found = cdl_path_normalise(target, &path);
    require(!path.overflow && memcmp(bytes, before, sizeof before) == 0);
    if (found) {
        const struct cdl_slice written = cdl_slice_from(cdl_written(&path), sizeof before);
        require_segments(written);
        require_same_again(written);
    } else {
        require(path.length == sizeof before && (target.length == 0 || target.bytes[0] != '/'));
    }
    free(bytes);
}

static void require_within(struct cdl_slice part, struct cdl_slice whole)
{
    require(part.length <= whole.length);
    if (part.length > 0)
        require(part.bytes >= whole.bytes && part.bytes + part.length <= whole.bytes + whole.length);
}

static void try_decode(struct cdl_slice value)
{
    char *bytes = malloc(value.length + 1);
    if (bytes == NULL)
        return;
    struct cdl_writer decoded = cdl_writer_on(bytes, value.length);
    require(cdl_query_decode(value, &decoded) && decoded.length <= value.length && 3 * decoded.length >= value.length);
    free(bytes);
}

static void try_values(struct cdl_slice text)
{
    struct cdl_slice value;
    require_within(cdl_target_query(text), text);
    if (cdl_query_find(text, CDL_SLICE("key"), &value)) {
        require_within(value, text);
        try_decode(value);
    }
    if (cdl_cookie_find(text, CDL_SLICE("sid"), &value))
        require_within(value, text);
    try_decode(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size);
    if (copy == NULL)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    const struct cdl_slice text = {copy, size};
    try_path(text);
    try_values(text);
    free(copy);
    return 0;
}
