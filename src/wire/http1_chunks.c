#include "wire/http1_chunks.h"

/* Each phase is what the next byte should be. */
enum phase {
    SIZE,          /* the first digit */
    SIZE_REST,     /* a digit, or what ends the size */
    EXTENSION,     /* anything until CR */
    SIZE_LF,       /* the end of the size's line */
    DATA,          /* as many as the size said */
    DATA_CR,       /* the end of the data */
    DATA_LF,       /* then another size */
    TRAILER_START, /* a trailer, or the end */
    TRAILER,       /* anything until CR */
    TRAILER_LF,    /* then another trailer */
    LAST_LF,       /* the end of the body */
};

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char lower = cdl_ascii_lower(c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool may_stand_in_line(char c)
{
    return (unsigned char)c >= ' ' ? c != 0x7f : c == '\t';
}

static enum cdl_chunks_result expect(struct cdl_chunks *chunks, bool good, enum phase next)
{
    chunks->phase = (uint8_t)next;
    return good ? CDL_CHUNKS_MORE : CDL_CHUNKS_MALFORMED;
}

/* `left` stays at most `body_max`, so it cannot overflow. */
static enum cdl_chunks_result read_size(struct cdl_chunks *chunks, char c, uint32_t body_max)
{
    const int digit = digit_value(c);
    if (digit < 0) {
        const bool blank = c == ' ' || c == '\t' || c == ';';
        return expect(chunks, chunks->phase == SIZE_REST && (blank || c == '\r'), blank ? EXTENSION : SIZE_LF);
    }
    const uint64_t size = (uint64_t)chunks->left * 16 + (unsigned)digit;
    if (size + chunks->length > body_max)
        return CDL_CHUNKS_TOO_LARGE;
    chunks->left = (uint32_t)size;
    chunks->phase = SIZE_REST;
    return CDL_CHUNKS_MORE;
}

static enum cdl_chunks_result read_until_cr(struct cdl_chunks *chunks, char c, enum phase next)
{
    if (c == '\r')
        return expect(chunks, true, next);
    return may_stand_in_line(c) ? CDL_CHUNKS_MORE : CDL_CHUNKS_MALFORMED;
}

static enum cdl_chunks_result read_framing(struct cdl_chunks *chunks, char c, uint32_t body_max)
{
    switch (chunks->phase) {
    case SIZE:
    case SIZE_REST:
        return read_size(chunks, c, body_max);
    case EXTENSION:
        return read_until_cr(chunks, c, SIZE_LF);
    case SIZE_LF:
        return expect(chunks, c == '\n', chunks->left > 0 ? DATA : TRAILER_START);
    case DATA_CR:
        return expect(chunks, c == '\r', DATA_LF);
    case DATA_LF:
        return expect(chunks, c == '\n', SIZE);
    case TRAILER_START:
        if (c == '\r')
            return expect(chunks, true, LAST_LF);
        chunks->phase = TRAILER;
        return read_until_cr(chunks, c, TRAILER_LF);
    case TRAILER:
        return read_until_cr(chunks, c, TRAILER_LF);
    case TRAILER_LF:
        return expect(chunks, c == '\n', TRAILER_START);
    default: /* LAST_LF */
        return c == '\n' ? CDL_CHUNKS_WHOLE : CDL_CHUNKS_MALFORMED;
    }
}

static void skip_data(struct cdl_chunks *chunks, size_t available)
{
    const uint32_t step = available < chunks->left ? (uint32_t)available : chunks->left;
    chunks->at += step;
    chunks->length += step;
    chunks->left -= step;
    if (chunks->left == 0)
        chunks->phase = DATA_CR;
}

enum cdl_chunks_result cdl_chunks_scan(struct cdl_chunks *chunks, const char *bytes, size_t length, uint32_t body_max,
                                       uint32_t framing_max)
{
    enum cdl_chunks_result result = CDL_CHUNKS_MORE;
    while (result == CDL_CHUNKS_MORE && chunks->at < length) {
        if (chunks->phase == DATA) {
            skip_data(chunks, length - chunks->at);
            continue;
        }
        result = read_framing(chunks, bytes[chunks->at++], body_max);
        if (result == CDL_CHUNKS_MORE && chunks->at - chunks->length > framing_max)
            return CDL_CHUNKS_TOO_LARGE;
    }
    return result;
}

void cdl_chunks_join(char *bytes)
{
    char *end = bytes;
    for (const char *at = bytes;;) {
        size_t size = 0;
        for (; digit_value(*at) >= 0; at++)
            size = size * 16 + (size_t)digit_value(*at);
        if (size == 0)
            return;
        while (*at++ != '\n')
            ;
        memmove(end, at, size);
        end += size;
        at += size + 2;
    }
}
