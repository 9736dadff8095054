#include "base/utf8.h"

/* How many bytes a character has whose first byte is this, and which bits of it belong to the code; 0: no character. */
static uint32_t length_by_lead(uint8_t lead, uint8_t *bits)
{
    if (lead < 0x80) {
        *bits = 0x7f;
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        *bits = 0x1f;
        return 2;
    }
    if (lead >= 0xe0 && lead <= 0xef) {
        *bits = 0x0f;
        return 3;
    }
    *bits = 0x07;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

static bool is_legal(uint32_t code, uint32_t length)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    return code >= least[length] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
}

static bool is_hidden(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) /* controls */
           || (code >= 0x2028 && code <= 0x202e)         /* line and paragraph ends, directions */
           || (code >= 0x2066 && code <= 0x2069)         /* isolated directions */
           || code == 0x200e || code == 0x200f           /* direction marks */
           || code == 0x61c || code == 0xfeff;           /* another one; the byte order mark */
}

struct cdl_character cdl_utf8_first(struct cdl_slice text)
{
    const uint8_t *bytes = (const uint8_t *)text.bytes;
    const struct cdl_character broken = {CDL_CHARACTER_BROKEN, bytes[0], 1};
    uint8_t bits;
    const uint32_t length = length_by_lead(bytes[0], &bits);
    if (length == 0 || length > text.length)
        return broken;
    uint32_t code = bytes[0] & bits;
    for (uint32_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return broken;
        code = code << 6 | (bytes[i] & 0x3f);
    }
    if (!is_legal(code, length))
        return broken;
    return (struct cdl_character){is_hidden(code) ? CDL_CHARACTER_HIDDEN : CDL_CHARACTER_PLAIN, code, length};
}

struct cdl_slice cdl_utf8_head(struct cdl_slice text, size_t bytes)
{
    if (text.length <= bytes)
        return text;
    /* The last character that begins before the end may reach beyond it. It begins at most three bytes before. */
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        if (cdl_utf8_first(cdl_slice_from(text, bytes - back)).length > back)
            return cdl_slice_head(text, bytes - back);
    }
    return cdl_slice_head(text, bytes);
}

void cdl_write_marked(struct cdl_writer *writer, struct cdl_slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.length; i++) {
        const uint8_t byte = (uint8_t)bytes.bytes[i];
        const char mark[CDL_UTF8_MARKED_BYTES] = {'\xef', '\xbf', '\xbd', digits[byte >> 4], digits[byte & 15]};
        cdl_write(writer, (struct cdl_slice){mark, sizeof mark});
    }
}
