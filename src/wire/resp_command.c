#include "wire/resp_command.h"

/* Type, digits and CRLF. */
#define NUMBER_LINE_MAX 12u

static enum cdl_resp_result bad(struct cdl_resp_reader *reader, const char *error)
{
    reader->error = error;
    return CDL_RESP_BAD;
}

/* ---- arrays ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number of one or two digits and its CRLF at the front, which nearly all are: how many bytes that takes; 0: it is another. */
static inline size_t read_short_number(const char *bytes, size_t length, uint32_t *number)
{
    if (length < 4 || !is_digit(bytes[0]))
        return 0;
    *number = (uint32_t)(bytes[0] - '0');
    if (bytes[1] == '\r' && bytes[2] == '\n')
        return 3;
    if (!is_digit(bytes[1]) || bytes[2] != '\r' || bytes[3] != '\n')
        return 0;
    *number = 10 * *number + (uint32_t)(bytes[1] - '0');
    return 4;
}

/* Reads digits and CRLF from *at, which moves past them. A number above `most` is bad before its line has ended. */
static __attribute__((noinline)) enum cdl_resp_result read_long_number(const char *bytes, size_t length, size_t *at,
                                                                       uint32_t most, uint32_t *number)
{
    const size_t start = *at;
    size_t i = start;
    uint64_t sum = 0;
    for (; i < length && is_digit(bytes[i]); i++) {
        sum = 10 * sum + (uint64_t)(bytes[i] - '0');
        if (sum > most || i - start > NUMBER_LINE_MAX)
            return CDL_RESP_BAD;
    }
    if (i == length)
        return CDL_RESP_MORE;
    if (i == start || bytes[i] != '\r')
        return CDL_RESP_BAD;
    if (i + 1 == length)
        return CDL_RESP_MORE;
    if (bytes[i + 1] != '\n')
        return CDL_RESP_BAD;
    *at = i + 2;
    *number = (uint32_t)sum;
    return CDL_RESP_READY;
}

/* The same. */
static inline enum cdl_resp_result read_number(const char *bytes, size_t length, size_t *at, uint32_t most,
                                               uint32_t *number)
{
    const size_t taken = read_short_number(bytes + *at, length - *at, number);
    *at += taken;
    return taken > 0 ? CDL_RESP_READY : read_long_number(bytes, length, at, most, number);
}

/* Reads the argument at *at, which moves past it. */
static inline enum cdl_resp_result read_argument(struct cdl_resp_reader *reader, const char *bytes, size_t length,
                                                 size_t *at, struct cdl_slice *argument)
{
    if (*at == length)
        return CDL_RESP_MORE;
    if (bytes[*at] != '$')
        return bad(reader, "expected '$' and the length of an argument");
    size_t next = *at + 1;
    uint32_t size;
    const size_t taken = read_short_number(bytes + next, length - next, &size);
    next += taken;
    if (taken == 0) {
        const enum cdl_resp_result result = read_long_number(bytes, length, &next, CDL_RESP_ARGUMENT_MAX, &size);
        if (result == CDL_RESP_BAD)
            return bad(reader, "invalid bulk length");
        if (result == CDL_RESP_MORE)
            return result;
    }
    const size_t end = next + size;
    if (end + 2 > CDL_RESP_COMMAND_MAX)
        return bad(reader, "too big a command");
    if (length < end + 2)
        return CDL_RESP_MORE;
    if (bytes[end] != '\r' || bytes[end + 1] != '\n')
        return bad(reader, "no CRLF behind an argument");
    *argument = (struct cdl_slice){bytes + next, size};
    *at = end + 2;
    return CDL_RESP_READY;
}

/* Goes on with the array from where the reader is. */
static enum cdl_resp_result read_array(struct cdl_resp_reader *reader, const char *bytes, size_t length,
                                       struct cdl_resp_command *command)
{
    size_t at = reader->at;
    if (at == 0) {
        at = 1;
        const enum cdl_resp_result result = read_number(bytes, length, &at, CDL_RESP_ARGUMENTS_MAX, &reader->count);
        if (result == CDL_RESP_BAD)
            return bad(reader, "invalid multibulk length");
        if (result == CDL_RESP_MORE)
            return result;
    }
    while (reader->done < reader->count) {
        const enum cdl_resp_result result = read_argument(reader, bytes, length, &at,
                                                          &command->arguments[reader->done]);
        if (result != CDL_RESP_READY) {
            reader->at = at;
            return result;
        }
        reader->done++;
    }
    command->length = at;
    command->count = reader->count;
    return CDL_RESP_READY;
}

/* ---- lines ---- */

static int hex_digit(char c)
{
    const char lower = cdl_ascii_lower(c);
    return is_digit(c) ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* What stands behind a backslash between double quotes: how many bytes of the text it is, and which byte it means. */
static size_t read_escape(struct cdl_slice text, char *meant)
{
    if (text.length >= 3 && text.bytes[0] == 'x' && hex_digit(text.bytes[1]) >= 0 && hex_digit(text.bytes[2]) >= 0) {
        *meant = (char)(hex_digit(text.bytes[1]) << 4 | hex_digit(text.bytes[2]));
        return 3;
    }
    static const char names[] = "nrtba", bytes[] = "\n\r\t\b\a";
    const char *name = text.bytes[0] != '\0' ? strchr(names, text.bytes[0]) : NULL;
    *meant = name != NULL ? bytes[name - names] : text.bytes[0];
    return 1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\0';
}

/* Reads the quoted part of a word, from behind its first quote, into *to, which lies before it. Returns what it took, with its last
 * quote, or 0 when there is none. */
static size_t read_quoted(struct cdl_slice text, char quote, char **to)
{
    size_t at = 0;
    while (at < text.length && text.bytes[at] != quote) {
        char meant = text.bytes[at++];
        if (meant == '\\' && at < text.length && (quote == '"' || text.bytes[at] == '\''))
            at += read_escape(cdl_slice_from(text, at), &meant);
        *(*to)++ = meant;
    }
    return at < text.length ? at + 1 : 0;
}

/* Reads the word at the front of `text` and moves past it; its meaning is written over it. False: a quote has no partner, or something
 * follows its partner. */
static bool read_word(char **text, const char *end, struct cdl_slice *word)
{
    char *from = *text, *to = *text;
    word->bytes = to;
    while (from < end && !is_blank(*from)) {
        if (*from != '"' && *from != '\'') {
            *to++ = *from++;
            continue;
        }
        const size_t taken = read_quoted((struct cdl_slice){from + 1, (size_t)(end - from) - 1}, *from, &to);
        from += taken + 1;
        if (taken == 0 || (from < end && !is_blank(*from)))
            return false;
    }
    word->length = (size_t)(to - word->bytes);
    *text = from;
    return true;
}

static enum cdl_resp_result read_words(struct cdl_resp_reader *reader, char *text, const char *end,
                                       struct cdl_resp_command *command)
{
    command->count = 0;
    for (;;) {
        while (text < end && is_blank(*text))
            text++;
        if (text == end)
            return CDL_RESP_READY;
        if (command->count == CDL_RESP_ARGUMENTS_MAX)
            return bad(reader, "too many words in a line");
        if (!read_word(&text, end, &command->arguments[command->count++]))
            return bad(reader, "unbalanced quotes in a line");
    }
}

/* A web page can make a browser send a request here whose body is lines. Its head comes first. */
static bool is_http(const struct cdl_resp_command *command)
{
    return command->count > 0 && (cdl_slice_equal_nocase(command->arguments[0], CDL_SLICE("POST")) ||
                                  cdl_slice_equal_nocase(command->arguments[0], CDL_SLICE("Host:")));
}

static enum cdl_resp_result read_line(struct cdl_resp_reader *reader, char *bytes, size_t length,
                                      struct cdl_resp_command *command)
{
    const size_t most = length < CDL_RESP_INLINE_MAX ? length : CDL_RESP_INLINE_MAX;
    char *end = memchr(bytes + reader->at, '\n', most - reader->at);
    if (end == NULL) {
        reader->at = most;
        return most == CDL_RESP_INLINE_MAX ? bad(reader, "too big a line") : CDL_RESP_MORE;
    }
    command->length = (size_t)(end - bytes) + 1;
    const enum cdl_resp_result result = read_words(reader, bytes, end, command);
    return result == CDL_RESP_READY && is_http(command) ? bad(reader, "this is not HTTP") : result;
}

/* ---- both ---- */

enum cdl_resp_result cdl_resp_read_command(struct cdl_resp_reader *reader, char *bytes, size_t length,
                                           struct cdl_resp_command *command)
{
    if (length == 0)
        return CDL_RESP_MORE;
    const bool is_array = bytes[0] == '*', in_pieces = reader->at > 0;
    enum cdl_resp_result result = is_array ? read_array(reader, bytes, length, command)
                                           : read_line(reader, bytes, length, command);
    if (result != CDL_RESP_READY)
        return result;
    *reader = (struct cdl_resp_reader){0};
    if (!is_array || !in_pieces)
        return result;
    result = read_array(reader, bytes, length, command); /* what was whole before lies elsewhere now */
    *reader = (struct cdl_resp_reader){0};
    return result;
}

struct cdl_slice cdl_resp_look_ahead(const struct cdl_resp_command *command, struct cdl_slice rest)
{
    const char *start = rest.bytes - command->length;
    const struct cdl_slice none = {"", 0}, name = command->arguments[0];
    if (start[0] != '*' || command->count < 2)
        return none;
    size_t at = (size_t)(name.bytes - start) + name.length + 2;
    uint32_t size;
    if (at >= rest.length || memcmp(rest.bytes, start, at) != 0 || rest.bytes[at++] != '$')
        return none;
    if (read_number(rest.bytes, rest.length, &at, CDL_RESP_ARGUMENT_MAX, &size) != CDL_RESP_READY ||
        size > rest.length - at)
        return none;
    return (struct cdl_slice){rest.bytes + at, size};
}
