/* Paths, queries and cookies in one spelling.
 *
 * A path is written segment by segment: one that is empty or "." writes nothing, ".." takes the last one back, and the others are
 * written with a '/' before each. So what was written so far is always normalised, and what is normalised is written as it is.
 * Decoding happens once, within a segment: no byte that is decoded can take part in another escape (%25 stays) or in a separator.
 */
#include "identity/path.h"

/* Bytes that a segment may hold as they are: RFC 3986's pchar, less the escapes. */
static const bool is_plain[256] = {
    ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['0' ... '9'] = true, ['-'] = true, ['.'] = true,
    ['_'] = true,         ['~'] = true,         ['!'] = true,         ['$'] = true, ['&'] = true,
    ['\''] = true,        ['('] = true,         [')'] = true,         ['*'] = true, ['+'] = true,
    [','] = true,         [';'] = true,         ['='] = true,         [':'] = true, ['@'] = true,
};

/* Cuts the piece before the first separator off `rest`, and the separator. */
static struct cdl_slice cut_first(struct cdl_slice *rest, char separator)
{
    const char *at = rest->length > 0 ? memchr(rest->bytes, separator, rest->length) : NULL;
    const struct cdl_slice first = at == NULL ? *rest : cdl_slice_head(*rest, (size_t)(at - rest->bytes));
    *rest = at == NULL ? (struct cdl_slice){0} : cdl_slice_from(*rest, first.length + 1);
    return first;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = cdl_ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes one byte off the text, or the escape that stands for one. A '%' that begins no escape stands for itself. */
static uint8_t take_byte(struct cdl_slice *text)
{
    uint8_t byte = (uint8_t)text->bytes[0];
    size_t taken = 1;
    if (byte == '%' && text->length >= 3) {
        const int high = hex_digit(text->bytes[1]), low = hex_digit(text->bytes[2]);
        if (high >= 0 && low >= 0) {
            byte = (uint8_t)(high << 4 | low);
            taken = 3;
        }
    }
    *text = cdl_slice_from(*text, taken);
    return byte;
}

/* ---- paths ---- */

/* The length of "scheme://" at the start, or 0. */
static size_t scheme_length(struct cdl_slice target)
{
    size_t i = 0;
    while (i < target.length) {
        const char c = cdl_ascii_lower(target.bytes[i]);
        const bool is_letter = c >= 'a' && c <= 'z';
        const bool is_other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!is_letter && !(is_other && i > 0))
            break;
        i++;
    }
    return i > 0 && target.length - i >= 3 && memcmp(target.bytes + i, "://", 3) == 0 ? i + 3 : 0;
}

/* The path as it was sent; false when the target has none. */
static bool find_path(struct cdl_slice target, struct cdl_slice *path)
{
    target = cut_first(&target, '#');
    target = cut_first(&target, '?');
    if (target.length > 0 && target.bytes[0] == '/') {
        *path = target;
        return true;
    }
    const size_t scheme = scheme_length(target);
    if (scheme == 0)
        return false;
    *path = cdl_slice_from(target, scheme);
    return cut_first(path, '/').length > 0; /* the authority */
}

static void write_byte(struct cdl_writer *path, uint8_t byte)
{
    static const char digits[] = "0123456789ABCDEF";
    const char escape[] = {'%', digits[byte >> 4], digits[byte & 0xf]}, itself = (char)byte;
    cdl_write(path, is_plain[byte] ? (struct cdl_slice){&itself, 1} : (struct cdl_slice){escape, sizeof escape});
}

static void write_segment(struct cdl_writer *path, struct cdl_slice segment)
{
    cdl_write(path, CDL_SLICE("/"));
    while (segment.length > 0) {
        size_t plain = 0;
        while (plain < segment.length && is_plain[(uint8_t)segment.bytes[plain]])
            plain++;
        cdl_write(path, cdl_slice_head(segment, plain));
        segment = cdl_slice_from(segment, plain);
        if (segment.length > 0)
            write_byte(path, take_byte(&segment));
    }
}

/* How many dots the segment consists of, also escaped ones, if it is "." or ".."; otherwise 0. */
static unsigned count_dots(struct cdl_slice segment)
{
    unsigned dots = 0;
    while (segment.length > 0)
        if (take_byte(&segment) != '.' || ++dots > 2)
            return 0;
    return dots;
}

static void take_back_segment(struct cdl_writer *path, size_t start)
{
    while (path->length > start && path->bytes[--path->length] != '/')
        continue;
}

bool cdl_path_normalise(struct cdl_slice target, struct cdl_writer *path)
{
    const size_t start = path->length;
    struct cdl_slice rest;
    if (!find_path(target, &rest))
        return false;
    while (rest.length > 0) {
        const struct cdl_slice segment = cut_first(&rest, '/');
        const unsigned dots = count_dots(segment);
        if (dots == 2)
            take_back_segment(path, start);
        else if (dots == 0 && segment.length > 0)
            write_segment(path, segment);
    }
    if (path->length == start)
        cdl_write(path, CDL_SLICE("/"));
    if (path->overflow)
        path->length = start;
    return !path->overflow;
}

struct cdl_slice cdl_path_segment(struct cdl_slice path, unsigned n)
{
    struct cdl_slice segment = {0};
    if (n == 0)
        return segment;
    for (unsigned i = 0; i <= n; i++) { /* the one before the first '/' is number 0 */
        if (path.length == 0)
            return (struct cdl_slice){0};
        segment = cut_first(&path, '/');
    }
    return segment;
}

/* ---- queries ---- */

struct cdl_slice cdl_target_query(struct cdl_slice target)
{
    target = cut_first(&target, '#');
    cut_first(&target, '?');
    return target;
}

static uint8_t take_form_byte(struct cdl_slice *text)
{
    const bool is_blank = text->bytes[0] == '+';
    const uint8_t byte = take_byte(text);
    return is_blank ? ' ' : byte;
}

static bool stands_for(struct cdl_slice escaped, struct cdl_slice plain)
{
    size_t i = 0;
    while (escaped.length > 0)
        if (i == plain.length || take_form_byte(&escaped) != (uint8_t)plain.bytes[i++])
            return false;
    return i == plain.length;
}

bool cdl_query_find(struct cdl_slice query, struct cdl_slice name, struct cdl_slice *value)
{
    while (query.length > 0) {
        struct cdl_slice parameter = cut_first(&query, '&');
        if (parameter.length == 0 || !stands_for(cut_first(&parameter, '='), name))
            continue;
        *value = parameter;
        return true;
    }
    return false;
}

bool cdl_query_decode(struct cdl_slice value, struct cdl_writer *decoded)
{
    const size_t start = decoded->length;
    while (value.length > 0) {
        const char byte = (char)take_form_byte(&value);
        cdl_write(decoded, (struct cdl_slice){&byte, 1});
    }
    if (decoded->overflow)
        decoded->length = start;
    return !decoded->overflow;
}

/* ---- cookies ---- */

static struct cdl_slice unquote(struct cdl_slice value)
{
    if (value.length < 2 || value.bytes[0] != '"' || value.bytes[value.length - 1] != '"')
        return value;
    return (struct cdl_slice){value.bytes + 1, value.length - 2};
}

bool cdl_cookie_find(struct cdl_slice header, struct cdl_slice name, struct cdl_slice *value)
{
    while (header.length > 0) {
        struct cdl_slice pair = cut_first(&header, ';');
        if (pair.length == 0 || memchr(pair.bytes, '=', pair.length) == NULL)
            continue;
        if (!cdl_slice_equal(cdl_slice_trim(cut_first(&pair, '=')), name))
            continue;
        *value = unquote(cdl_slice_trim(pair));
        return true;
    }
    return false;
}

struct cdl_slice cdl_target_without_origin(struct cdl_slice target)
{
    for (size_t i = 0; i + 2 < target.length && target.bytes[i] != '/' && target.bytes[i] != '?'; i++) {
        if (memcmp(target.bytes + i, "://", 3) != 0)
            continue;
        for (i += 3; i < target.length && target.bytes[i] != '/' && target.bytes[i] != '?'; i++)
            ;
        return cdl_slice_from(target, i);
    }
    return target;
}

struct cdl_slice cdl_host_spell(struct cdl_slice host, struct cdl_writer *scratch)
{
    const char *bracket = host.length > 0 && host.bytes[0] == '[' ? memchr(host.bytes, ']', host.length) : NULL;
    if (bracket != NULL)
        host.length = (size_t)(bracket + 1 - host.bytes);
    else if (host.length > 0 && memchr(host.bytes, ':', host.length) != NULL)
        host.length = (size_t)((const char *)memchr(host.bytes, ':', host.length) - host.bytes);
    const size_t start = scratch->length;
    cdl_write(scratch, host);
    for (size_t i = start; i < scratch->length; i++)
        scratch->bytes[i] = cdl_ascii_lower(scratch->bytes[i]);
    return (struct cdl_slice){scratch->bytes + start, scratch->length - start};
}
