/* Pieces of a line: words, quotes, escapes, numbers. */
#include "wire/access_log_parts.h"

bool cdl_access_fail(struct cdl_access_reading *reading, const char *at, const char *field, const char *detail)
{
    /* A value that was unescaped lies elsewhere. */
    if (at == NULL || at < reading->line || at > reading->end)
        at = reading->at;
    reading->parser->reached = (size_t)((at < reading->at ? reading->at : at) - reading->line);
    *reading->why = (struct cdl_access_why){field, detail, (size_t)(at - reading->line) + 1};
    return false;
}

bool cdl_access_is_escaped(const char *begin, const char *at)
{
    size_t backslashes = 0;
    while (at > begin && at[-1] == '\\') {
        backslashes++;
        at--;
    }
    return backslashes % 2 == 1;
}

bool cdl_access_quoted(struct cdl_access_reading *reading, const char *field, struct cdl_slice *value)
{
    const char *begin = reading->at + 1, *at = begin;
    while (at < reading->end && (at = memchr(at, '"', (size_t)(reading->end - at))) != NULL) {
        const bool is_last = at + 1 == reading->end || cdl_access_is_blank(at[1]);
        if (is_last && !cdl_access_is_escaped(begin, at)) {
            reading->at = at + 1;
            return cdl_access_unescape(reading, (struct cdl_slice){begin, (size_t)(at - begin)}, value);
        }
        at++;
    }
    return cdl_access_fail(reading, reading->at, field, "is not closed by '\"'");
}

/* ---- escapes ---- */

int cdl_access_hex(char c)
{
    if (cdl_access_is_digit(c))
        return c - '0';
    c = cdl_ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int32_t cdl_access_hex_number(const char *at, const char *end, int digits)
{
    int32_t number = 0;
    if (end - at < digits)
        return -1;
    for (int i = 0; i < digits; i++) {
        const int digit = cdl_access_hex(at[i]);
        if (digit < 0)
            return -1;
        number = number << 4 | digit;
    }
    return number;
}

static size_t encode_utf8(uint32_t code, char bytes[4])
{
    if (code < 0x80) {
        bytes[0] = (char)code;
        return 1;
    }
    const size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i > 1; i--, code >>= 6)
        bytes[i - 1] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(code | (0xf00u >> length & 0xff));
    return length;
}

/* The character that \uHHHH stands for at the backslash, and a second one behind it if it is half a character; half ones alone are
 * U+FFFD. Returns how long the escape is; 0: it is none. */
static size_t read_unicode(const char *at, const char *end, uint32_t *code)
{
    const int32_t first = cdl_access_hex_number(at + 2, end, 4);
    if (first < 0)
        return 0;
    *code = (uint32_t)first;
    if (first < 0xd800 || first > 0xdfff)
        return 6;
    *code = 0xfffd;
    if (first > 0xdbff || end - at < 12 || at[6] != '\\' || at[7] != 'u')
        return 6;
    const int32_t second = cdl_access_hex_number(at + 8, end, 4);
    if (second < 0xdc00 || second > 0xdfff)
        return 6;
    *code = 0x10000u + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00);
    return 12;
}

/* Writes what the escape at `at` stands for; returns its length, 1 for a backslash that begins none. */
static size_t write_escape(struct cdl_writer *writer, const char *at, const char *end)
{
    static const char letters[] = "\"\\/bfnrtv", meant[] = "\"\\/\b\f\n\r\t\v";
    char bytes[4] = "\\";
    size_t taken = 1, length = 1;
    uint32_t code;
    const char letter = at + 1 < end ? at[1] : '\0';
    const char *known = letter != '\0' ? strchr(letters, letter) : NULL;
    const int32_t byte = letter == 'x' ? cdl_access_hex_number(at + 2, end, 2) : -1;
    if (known != NULL) {
        bytes[0] = meant[known - letters];
        taken = 2;
    } else if (byte >= 0) {
        bytes[0] = (char)byte;
        taken = 4;
    } else if (letter == 'u' && (taken = read_unicode(at, end, &code)) > 0) {
        length = encode_utf8(code, bytes);
    } else {
        taken = 1;
    }
    cdl_write(writer, (struct cdl_slice){bytes, length});
    return taken;
}

bool cdl_access_unescape(struct cdl_access_reading *reading, struct cdl_slice raw, struct cdl_slice *value)
{
    const char *at = raw.bytes, *end = raw.bytes + raw.length;
    const char *backslash = raw.length > 0 ? memchr(at, '\\', raw.length) : NULL;
    *value = raw;
    if (backslash == NULL)
        return true;
    struct cdl_writer *scratch = reading->scratch;
    const size_t start = scratch->length;
    while (backslash != NULL) {
        cdl_write(scratch, (struct cdl_slice){at, (size_t)(backslash - at)});
        at = backslash + write_escape(scratch, backslash, end);
        backslash = at < end ? memchr(at, '\\', (size_t)(end - at)) : NULL;
    }
    cdl_write(scratch, (struct cdl_slice){at, (size_t)(end - at)});
    *value = (struct cdl_slice){scratch->bytes + start, scratch->length - start};
    return !scratch->overflow || cdl_access_fail(reading, raw.bytes, "line", "needs more room than there is");
}

bool cdl_access_join(struct cdl_access_reading *reading, struct cdl_slice *list, struct cdl_slice element)
{
    struct cdl_writer *scratch = reading->scratch;
    const bool is_last = list->length > 0 && list->bytes + list->length == scratch->bytes + scratch->length;
    const size_t start = is_last ? scratch->length - list->length : scratch->length;
    if (!is_last)
        cdl_write(scratch, *list);
    cdl_write_text(scratch, ", ");
    cdl_write(scratch, element);
    *list = (struct cdl_slice){scratch->bytes + start, scratch->length - start};
    return !scratch->overflow || cdl_access_fail(reading, NULL, "line", "needs more room than there is");
}

/* ---- addresses ---- */

/* Whether the word, which has colons, is IPv6 and no time of day: that has two and nothing else. */
static bool looks_like_ipv6(struct cdl_slice word)
{
    size_t colons = 0;
    bool is_short = false;
    if (word.bytes[0] == '[')
        word = cdl_slice_from(word, 1);
    for (size_t i = 0; i < word.length && word.bytes[i] != ']' && word.bytes[i] != '%'; i++) {
        const char c = word.bytes[i];
        if (c == ':') {
            is_short |= i > 0 && word.bytes[i - 1] == ':';
            colons++;
        } else if (c != '.' && cdl_access_hex(c) < 0) {
            return false;
        }
    }
    return colons >= 7 || (is_short && colons >= 2);
}

/* Four numbers and perhaps a port. */
static bool looks_like_ipv4(struct cdl_slice word)
{
    size_t dots = 0, digits = 0, i = 0;
    for (; i < word.length && word.bytes[i] != ':'; i++) {
        if (word.bytes[i] == '.' && digits > 0) {
            dots++;
            digits = 0;
        } else if (cdl_access_is_digit(word.bytes[i]) && digits < 3) {
            digits++;
        } else {
            return false;
        }
    }
    if (dots != 3 || digits == 0)
        return false;
    while (++i < word.length)
        if (!cdl_access_is_digit(word.bytes[i]))
            return false;
    return true;
}

bool cdl_access_looks_like_address(struct cdl_slice word)
{
    if (looks_like_ipv4(word))
        return true; /* as most are, without a list to be taken apart */
    const char *comma = word.length > 0 ? memchr(word.bytes, ',', word.length) : NULL;
    if (comma != NULL)
        word.length = (size_t)(comma - word.bytes);
    word = cdl_slice_trim(word);
    return word.length > 0 && (looks_like_ipv4(word) || looks_like_ipv6(word));
}

/* ---- numbers ---- */

/* The power of ten behind an 'e', at most two digits; false: something else is there. */
static bool read_exponent(struct cdl_slice text, int *exponent)
{
    *exponent = 0;
    if (text.length == 0)
        return true;
    if (text.length < 2 || cdl_ascii_lower(text.bytes[0]) != 'e')
        return false;
    const bool negative = text.bytes[1] == '-';
    size_t i = negative || text.bytes[1] == '+' ? 2 : 1;
    if (i == text.length || text.length - i > 2)
        return false;
    for (; i < text.length; i++) {
        if (!cdl_access_is_digit(text.bytes[i]))
            return false;
        *exponent = 10 * *exponent + (text.bytes[i] - '0');
    }
    *exponent = negative ? -*exponent : *exponent;
    return true;
}

bool cdl_access_decimal(struct cdl_slice text, int64_t unit_ns, int64_t *ns)
{
    uint64_t digits = 0; /* at most 19 that count, which is what 64 bits hold */
    size_t count = 0, i = 0;
    int point = 0, exponent;
    bool has_digit = false, has_point = false;
    for (; i < text.length && (cdl_access_is_digit(text.bytes[i]) || (text.bytes[i] == '.' && !has_point)); i++) {
        if (text.bytes[i] == '.') {
            has_point = true;
            continue;
        }
        has_digit = true;
        if (count < 19) {
            digits = 10 * digits + (uint64_t)(text.bytes[i] - '0');
            count += digits > 0;
            point += has_point;
        } else {
            point -= !has_point;
        }
    }
    if (!has_digit || !read_exponent(cdl_slice_from(text, i), &exponent))
        return false;
    unsigned __int128 scaled = (unsigned __int128)digits * (uint64_t)unit_ns; /* below 2^94 */
    int shift = exponent - point;
    for (; shift < 0 && scaled > 0; shift++)
        scaled /= 10;
    for (; shift > 0 && scaled > 0 && scaled <= INT64_MAX; shift--)
        scaled *= 10;
    *ns = (int64_t)scaled;
    return scaled <= INT64_MAX;
}
