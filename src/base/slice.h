/* A piece of somebody else's bytes. Not NUL-terminated; may contain NUL. */
#ifndef CDL_BASE_SLICE_H
#define CDL_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct cdl_slice {
    const char *bytes; /* NULL only when length is 0 */
    size_t length;
};

/* A name and its value, as in a header field. */
struct cdl_field {
    struct cdl_slice name, value;
};

#define CDL_SLICE(literal) ((struct cdl_slice){literal, sizeof(literal) - 1})
/* For printf's "%.*s". */
#define CDL_SLICE_ARG(slice) (int)(slice).length, (slice).bytes

static inline struct cdl_slice cdl_slice_of(const char *text)
{
    return (struct cdl_slice){text, strlen(text)};
}

static inline bool cdl_slice_equal(struct cdl_slice a, struct cdl_slice b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

static inline char cdl_ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Equal but for the case of ASCII letters, as header names are. */
static inline bool cdl_slice_equal_nocase(struct cdl_slice a, struct cdl_slice b)
{
    if (a.length != b.length)
        return false;
    for (size_t i = 0; i < a.length; i++)
        if (cdl_ascii_lower(a.bytes[i]) != cdl_ascii_lower(b.bytes[i]))
            return false;
    return true;
}

static inline struct cdl_slice cdl_slice_from(struct cdl_slice slice, size_t start)
{
    return (struct cdl_slice){slice.bytes + start, slice.length - start};
}

static inline struct cdl_slice cdl_slice_head(struct cdl_slice slice, size_t length)
{
    return (struct cdl_slice){slice.bytes, length};
}

static inline struct cdl_slice cdl_slice_trim(struct cdl_slice slice)
{
    while (slice.length > 0 && (slice.bytes[0] == ' ' || slice.bytes[0] == '\t'))
        slice = cdl_slice_from(slice, 1);
    while (slice.length > 0 && (slice.bytes[slice.length - 1] == ' ' || slice.bytes[slice.length - 1] == '\t'))
        slice.length--;
    return slice;
}

#endif
