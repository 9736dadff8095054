/* Lines as an nginx log_format describes them:
 *
 *     $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer"
 *
 * A pattern is text and variables by turns, and a variable's value ends where the text behind it begins. Between quotes the closing
 * one must not be escaped. Two kinds of values hold the blank that would end them: a list of addresses, after its commas, and
 * a time, inside of its date and before its offset. Text must match to the byte, and nothing may be left over: a line of another shape is
 * better skipped than read askew. */
#include "base/problem.h"
#include "wire/access_log_parts.h"

#define VARIABLES_MAX 64u
#define NAME_MAX_BYTES 64u

struct element {
    const struct cdl_access_field *field;
    struct cdl_slice after; /* the text behind it; empty at the end of the line */
    const char *lacks;      /* in words: "is not followed by ..." */
    bool is_quoted;
};

struct pattern {
    struct cdl_slice before; /* the text in front of the first variable */
    const char *lacks;
    size_t count;
    struct element elements[VARIABLES_MAX];
};

/* ---- making ---- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The variable at the front, "$name" or "${name}", and moves behind it. */
static bool take_variable(struct cdl_slice *text, struct cdl_slice *name)
{
    struct cdl_slice rest = cdl_slice_from(*text, 1);
    const bool is_braced = rest.length > 0 && rest.bytes[0] == '{';
    if (is_braced)
        rest = cdl_slice_from(rest, 1);
    size_t length = 0;
    while (length < rest.length && is_name(rest.bytes[length]))
        length++;
    *name = cdl_slice_head(rest, length);
    if (length == 0 || length > NAME_MAX_BYTES || (is_braced && (length == rest.length || rest.bytes[length] != '}')))
        return false;
    *text = cdl_slice_from(rest, length + is_braced);
    return true;
}

/* The text up to the next variable, and moves behind it. */
static struct cdl_slice take_text(struct cdl_slice *text)
{
    const char *dollar = text->length > 0 ? memchr(text->bytes, '$', text->length) : NULL;
    const size_t length = dollar != NULL ? (size_t)(dollar - text->bytes) : text->length;
    const struct cdl_slice taken = cdl_slice_head(*text, length);
    *text = cdl_slice_from(*text, length);
    return taken;
}

static const char *words_for(struct cdl_slice after, struct cdl_arena *arena)
{
    char words[64];
    struct cdl_writer writer = cdl_writer_on(words, sizeof words);
    if (after.length == 0)
        return "is not the last of the line";
    const int shown = after.length < 16 ? (int)after.length : 16;
    cdl_writef(&writer, "is not followed by '%.*s'", shown, after.bytes);
    return cdl_arena_copy(arena, cdl_written(&writer)).bytes;
}

static int add_element(struct pattern *pattern, struct cdl_slice name, struct cdl_slice *text, struct cdl_arena *arena,
                       struct caudal_problem *problem, size_t position)
{
    if (pattern->count == VARIABLES_MAX)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, position, "the log format has more than %u variables",
                           VARIABLES_MAX);
    const struct cdl_slice before = pattern->count > 0 ? pattern->elements[pattern->count - 1].after : pattern->before;
    struct element *element = &pattern->elements[pattern->count++];
    element->field = cdl_access_field_find(name, arena);
    const bool is_last = text->length == 0;
    element->after = take_text(text);
    element->lacks = words_for(element->after, arena);
    element->is_quoted = before.length > 0 && before.bytes[before.length - 1] == '"' && element->after.length > 0 &&
                         element->after.bytes[0] == '"';
    if (!is_last && element->after.length == 0)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, position,
                           "the log format has nothing behind $%.*s that would tell where it ends",
                           CDL_SLICE_ARG(name));
    return CAUDAL_OK;
}

static bool has_part(const struct pattern *pattern, enum cdl_access_part part)
{
    for (size_t i = 0; i < pattern->count; i++)
        if (pattern->elements[i].field->part == part)
            return true;
    return false;
}

int cdl_access_pattern_make(struct cdl_slice text, struct cdl_arena *arena, struct cdl_access_format *format,
                            struct caudal_problem *problem)
{
    struct pattern *pattern = cdl_arena_allocate(arena, 1, sizeof *pattern);
    struct cdl_slice rest = cdl_arena_copy(arena, text), name;
    const char *begin = rest.bytes;
    if (pattern == NULL || arena->failed)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    pattern->before = take_text(&rest);
    pattern->lacks = words_for(pattern->before, arena);
    while (rest.length > 0) {
        const size_t position = (size_t)(rest.bytes - begin);
        if (!take_variable(&rest, &name))
            return cdl_problem(problem, CAUDAL_ERR_SYNTAX, position, "the log format has a '$' without a name");
        const int status = add_element(pattern, name, &rest, arena, problem, position);
        if (arena->failed)
            return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
        if (status != CAUDAL_OK)
            return status;
    }
    if (!has_part(pattern, CDL_ACCESS_TIME))
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0,
                           "the log format has no time, such as $time_local, $time_iso8601 or $msec");
    if (!has_part(pattern, CDL_ACCESS_CLIENT) && !has_part(pattern, CDL_ACCESS_HEADER) &&
        !has_part(pattern, CDL_ACCESS_REQUEST) && !has_part(pattern, CDL_ACCESS_TARGET) &&
        !has_part(pattern, CDL_ACCESS_PATH))
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0,
                           "the log format has neither a client, such as $remote_addr, nor a request");
    format->kind = &cdl_access_pattern;
    format->parts = pattern;
    return CAUDAL_OK;
}

/* ---- reading ---- */

static bool starts_with(const char *at, const char *end, struct cdl_slice text)
{
    return (size_t)(end - at) >= text.length && memcmp(at, text.bytes, text.length) == 0;
}

/* Where the text is next found; NULL: nowhere. */
static const char *find_text(const char *at, const char *end, struct cdl_slice text)
{
    while (at < end && (at = memchr(at, text.bytes[0], (size_t)(end - at))) != NULL) {
        if (starts_with(at, end, text))
            return at;
        at++;
    }
    return NULL;
}

/* Whether the blank is inside a time: "Feb 14 08:10:01", "2024-02-14 08:10:01", or before an offset that is still to come. */
static bool is_inside_time(const char *begin, const char *blank, const char *end)
{
    const ptrdiff_t length = blank - begin;
    const bool has_month = !cdl_access_is_digit(*begin);
    if (length < 19)
        return (has_month && length >= 3 && length < 15) || (!has_month && length == 10);
    return end - blank >= 6 && (blank[1] == '+' || blank[1] == '-') && cdl_access_is_digit(blank[2]) &&
           cdl_access_is_digit(blank[3]) && memchr(begin + 19, ' ', (size_t)(length - 19)) == NULL;
}

/* Whether the blank that was found belongs to the value. */
static bool holds_blank(const struct element *element, const char *begin, const char *blank, const char *end)
{
    switch (element->field->part) {
    case CDL_ACCESS_CLIENT:
    case CDL_ACCESS_HEADER:
        return blank > begin && blank[-1] == ',';
    case CDL_ACCESS_TIME:
        return is_inside_time(begin, blank, end);
    default:
        return false;
    }
}

static const char *find_end(const struct element *element, const char *begin, const char *end)
{
    if (element->after.length == 0)
        return end;
    const char *at = find_text(begin, end, element->after);
    while (at != NULL && ((element->is_quoted && cdl_access_is_escaped(begin, at)) ||
                          (*at == ' ' && holds_blank(element, begin, at, end))))
        at = find_text(at + 1, end, element->after);
    return at;
}

static bool read_element(struct cdl_access_reading *reading, const struct element *element)
{
    const char *begin = reading->at, *end = find_end(element, begin, reading->end);
    struct cdl_slice value;
    if (end == NULL)
        return cdl_access_fail(reading, begin, element->field->said, element->lacks);
    if (!cdl_access_unescape(reading, (struct cdl_slice){begin, (size_t)(end - begin)}, &value) ||
        !cdl_access_put(reading, element->field, value))
        return false;
    reading->at = end + element->after.length;
    return true;
}

static bool read_pattern(struct cdl_access_reading *reading)
{
    const struct pattern *pattern = reading->parser->format->parts;
    if (!starts_with(reading->at, reading->end, pattern->before))
        return cdl_access_fail(reading, reading->at, "beginning of the line", pattern->lacks);
    reading->at += pattern->before.length;
    for (size_t i = 0; i < pattern->count; i++)
        if (!read_element(reading, &pattern->elements[i]))
            return false;
    if (reading->at < reading->end)
        return cdl_access_fail(reading, reading->at, "line", "goes on where the log format ends");
    return true;
}

const struct cdl_access_kind cdl_access_pattern = {.read = read_pattern};
