/* Every value of the protocol is a line that begins with its type, and some have more behind it:
 *
 *     ":7" CRLF                       a line that is all
 *     "$5" CRLF "hello" CRLF          a line that says how many bytes follow
 *     "*2" CRLF ":7" CRLF "_" CRLF    a line that says how many values follow
 *
 * read_head reads such a line, and the bytes that it announces; what stands between aggregates and their elements is the meter's
 * business alone. Whether bytes are a reply, not one yet, or none, never depends on how they were cut: a head is judged when it is
 * whole, or when nothing that may follow can make it good. */
#include "wire/resp_reply.h"

#include <limits.h>

/* A line that holds a number and no text. */
#define NUMBER_LINE_MAX 32u
/* No value is shorter: "_" CRLF. */
#define VALUE_MIN 3u

/* What a value begins with. */
struct head {
    struct cdl_resp value;
    bool is_attribute; /* then `value.count` keys and values follow, and after them the value proper */
    size_t length;
};

/* Finds the line at the front, of at most `most` bytes with its end, and leaves out its type. A lone CR or LF ends no line. */
static enum cdl_resp_result find_line(struct cdl_slice bytes, size_t most, size_t *looked, struct cdl_slice *line)
{
    size_t at = *looked > 0 ? *looked : 1;
    while (at < bytes.length && at + 2 <= most && bytes.bytes[at] != '\r' && bytes.bytes[at] != '\n')
        at++;
    *looked = at;
    if (at + 2 > most || (at < bytes.length && bytes.bytes[at] == '\n'))
        return CDL_RESP_BAD;
    if (at + 2 > bytes.length)
        return CDL_RESP_MORE;
    *line = (struct cdl_slice){bytes.bytes + 1, at - 1};
    return bytes.bytes[at + 1] == '\n' ? CDL_RESP_READY : CDL_RESP_BAD;
}

static bool all_digits(struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
    return text.length > 0;
}

static struct cdl_slice without_sign(struct cdl_slice text)
{
    return text.length > 0 && (text.bytes[0] == '-' || text.bytes[0] == '+') ? cdl_slice_from(text, 1) : text;
}

static bool read_integer(struct cdl_slice text, int64_t *integer)
{
    const struct cdl_slice digits = without_sign(text);
    const bool negative = text.length > 0 && text.bytes[0] == '-';
    int64_t sum = 0;
    if (!all_digits(digits))
        return false;
    for (size_t i = 0; i < digits.length; i++) {
        const int64_t digit = digits.bytes[i] - '0';
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, negative ? -digit : digit, &sum))
            return false;
    }
    *integer = sum;
    return true;
}

/* How many bytes or values follow. */
static bool read_count(struct cdl_slice text, size_t most, size_t *count)
{
    int64_t number;
    if (!all_digits(text) || !read_integer(text, &number) || (uint64_t)number > most)
        return false;
    *count = (size_t)number;
    return true;
}

/* Digits, and what stands between them in doubles: nobody here counts with one, but what is no number must not pass as one. */
static bool is_double(struct cdl_slice text)
{
    static const char letters[] = "0123456789+-.eEinfaINFA";
    for (size_t i = 0; i < text.length; i++)
        if (memchr(letters, text.bytes[i], sizeof letters - 1) == NULL)
            return false;
    return text.length > 0;
}

static bool is_null(char type, struct cdl_slice line)
{
    return (type == '$' || type == '*') && cdl_slice_equal(line, CDL_SLICE("-1"));
}

/* The bytes that a line announces, and the CRLF behind them. */
static enum cdl_resp_result read_bulk(struct cdl_slice bytes, struct cdl_slice line, size_t room, struct head *head)
{
    size_t size;
    if (room < head->length + 2 || !read_count(line, room - head->length - 2, &size))
        return CDL_RESP_BAD;
    if (bytes.length < head->length + size + 2)
        return CDL_RESP_MORE;
    head->value.text = (struct cdl_slice){bytes.bytes + head->length, size};
    head->length += size + 2;
    return memcmp(bytes.bytes + head->length - 2, "\r\n", 2) == 0 ? CDL_RESP_READY : CDL_RESP_BAD;
}

/* Three letters that say how to show it, and a colon. */
static enum cdl_resp_result read_verbatim(struct cdl_slice bytes, struct cdl_slice line, size_t room, struct head *head)
{
    const enum cdl_resp_result result = read_bulk(bytes, line, room, head);
    struct cdl_slice *text = &head->value.text;
    if (result != CDL_RESP_READY)
        return result;
    if (text->length < 4 || text->bytes[3] != ':')
        return CDL_RESP_BAD;
    *text = cdl_slice_from(*text, 4);
    return CDL_RESP_READY;
}

/* An aggregate that could not be whole within `room` bytes is bad at once. */
static bool read_aggregate(struct cdl_slice line, size_t values_each, size_t room, struct head *head)
{
    size_t count;
    if (room < head->length || !read_count(line, (room - head->length) / VALUE_MIN / values_each, &count))
        return false;
    head->value.count = count * values_each;
    return true;
}

static bool read_boolean(struct cdl_slice line, int64_t *integer)
{
    *integer = cdl_slice_equal(line, CDL_SLICE("t"));
    return *integer == 1 || cdl_slice_equal(line, CDL_SLICE("f"));
}

/* The kinds of value by their type; false: there is no such type. */
static bool kind_of(char type, enum cdl_resp_kind *kind)
{
    static const enum cdl_resp_kind kinds[] = {
        ['+'] = CDL_RESP_STRING, ['$'] = CDL_RESP_STRING,  ['='] = CDL_RESP_STRING, ['-'] = CDL_RESP_ERROR,
        ['!'] = CDL_RESP_ERROR,  [':'] = CDL_RESP_INTEGER, [','] = CDL_RESP_DOUBLE, ['('] = CDL_RESP_BIG,
        ['_'] = CDL_RESP_NULL,   ['*'] = CDL_RESP_ARRAY,   ['~'] = CDL_RESP_ARRAY,  ['#'] = CDL_RESP_BOOLEAN,
        ['%'] = CDL_RESP_MAP,    ['|'] = CDL_RESP_MAP,     ['>'] = CDL_RESP_PUSH,
    };
    if (type == '\0' || strchr("+$=-!:,(_*~#%|>", type) == NULL)
        return false;
    *kind = kinds[(unsigned char)type];
    return true;
}

static enum cdl_resp_result judge(bool good)
{
    return good ? CDL_RESP_READY : CDL_RESP_BAD;
}

/* What a whole line of `type` means. */
static enum cdl_resp_result read_line(struct cdl_slice bytes, struct cdl_slice line, size_t room, struct head *head)
{
    const char type = bytes.bytes[0];
    if (strchr("+-,(", type) != NULL)
        head->value.text = line;
    if (is_null(type, line)) {
        head->value.kind = CDL_RESP_NULL;
        return CDL_RESP_READY;
    }
    switch (type) {
    case ':':
        return judge(read_integer(line, &head->value.integer));
    case ',':
        return judge(is_double(line));
    case '(':
        return judge(all_digits(without_sign(line)));
    case '_':
        return judge(line.length == 0);
    case '#':
        return judge(read_boolean(line, &head->value.integer));
    case '$':
    case '!':
        return read_bulk(bytes, line, room, head);
    case '=':
        return read_verbatim(bytes, line, room, head);
    case '*':
    case '~':
    case '>':
        return judge(read_aggregate(line, 1, room, head));
    case '%':
    case '|':
        return judge(read_aggregate(line, 2, room, head));
    default: /* '+' and '-' */
        return CDL_RESP_READY;
    }
}

/* Reads what a value begins with: of an aggregate its line, of any other all. It must end within `room` bytes. */
static enum cdl_resp_result read_head(struct cdl_slice bytes, size_t room, size_t *looked, struct head *head)
{
    if (bytes.length == 0)
        return room < VALUE_MIN ? CDL_RESP_BAD : CDL_RESP_MORE;
    *head = (struct head){.is_attribute = bytes.bytes[0] == '|'};
    if (!kind_of(bytes.bytes[0], &head->value.kind))
        return CDL_RESP_BAD;
    const bool is_long = strchr("+-(", bytes.bytes[0]) != NULL || room < NUMBER_LINE_MAX;
    struct cdl_slice line;
    const enum cdl_resp_result result = find_line(bytes, is_long ? room : NUMBER_LINE_MAX, looked, &line);
    if (result != CDL_RESP_READY)
        return result;
    head->length = line.length + 3;
    return read_line(bytes, line, room, head);
}

/* Goes on behind a head. An attribute is no element: the value that it belongs to is still to come. */
static bool step_over(struct cdl_resp_meter *meter, const struct head *head)
{
    if ((head->value.kind == CDL_RESP_PUSH && meter->depth > 1) ||
        (head->value.kind >= CDL_RESP_ARRAY && meter->depth > CDL_RESP_DEPTH_MAX))
        return false;
    meter->at += head->length;
    meter->looked = 0;
    if (head->is_attribute)
        meter->left[meter->depth - 1]++;
    if (head->value.count > 0) {
        meter->left[meter->depth++] = head->value.count;
        return true;
    }
    while (meter->depth > 0 && --meter->left[meter->depth - 1] == 0)
        meter->depth--;
    return true;
}

enum cdl_resp_result cdl_resp_measure(struct cdl_resp_meter *meter, struct cdl_slice bytes, size_t *length)
{
    if (bytes.length == 0)
        return CDL_RESP_MORE;
    /* The reply itself is the only element of what is outside. */
    if (meter->depth == 0) {
        meter->depth = 1;
        meter->left[0] = 1;
    }
    while (meter->depth > 0) {
        struct head head;
        const enum cdl_resp_result result = read_head(cdl_slice_from(bytes, meter->at), CDL_RESP_REPLY_MAX - meter->at,
                                                      &meter->looked, &head);
        if (result != CDL_RESP_READY)
            return result;
        if (!step_over(meter, &head))
            return CDL_RESP_BAD;
    }
    *length = meter->at;
    *meter = (struct cdl_resp_meter){0};
    return CDL_RESP_READY;
}

/* Moves past whole values. */
static void skip(struct cdl_slice *rest, size_t count)
{
    for (; count > 0; count--) {
        struct cdl_resp_meter meter = {0};
        size_t length = 0;
        cdl_resp_measure(&meter, *rest, &length);
        *rest = cdl_slice_from(*rest, length);
    }
}

bool cdl_resp_next(struct cdl_slice *rest, struct cdl_resp *value)
{
    struct cdl_resp_meter meter = {0};
    size_t whole;
    if (cdl_resp_measure(&meter, *rest, &whole) != CDL_RESP_READY)
        return false;
    struct cdl_slice at = cdl_slice_head(*rest, whole);
    struct head head;
    for (;;) {
        size_t looked = 0;
        if (read_head(at, CDL_RESP_REPLY_MAX, &looked, &head) != CDL_RESP_READY)
            return false;
        at = cdl_slice_from(at, head.length);
        if (!head.is_attribute)
            break;
        skip(&at, head.value.count);
    }
    *value = head.value;
    if (value->kind >= CDL_RESP_ARRAY)
        value->elements = at;
    *rest = cdl_slice_from(*rest, whole);
    return true;
}
