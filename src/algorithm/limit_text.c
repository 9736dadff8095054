/* Limits as people write them: "100/minute burst 20", and back. The grammar stands in caudal/limit.h.
 *
 * A text is a row of words. A word is a '/', or a run of bytes without blank and '/'; the parser looks at one word at a
 * time and never goes back, so its work is bounded by the length of the text, and that is bounded by TEXT_MAX. Only a
 * period may join a number and a unit in one word ("30s"); it is split where the number ends. Whatever the bytes are, a
 * word that the grammar does not ask for at its place is an error that says where it stands and what was expected.
 *
 *     100/30s burst 20        "100" "/" "30s" "burst" "20"
 *
 * Writing is the inverse: for every legal limit, reading what was written gives back the same struct, field by field.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "algorithm/limit.h"
#include "base/problem.h"

/* Far above any limit, far below what could keep a thread busy. */
#define TEXT_MAX 1024

/* So much of a word is shown in a message; with quotes, dots and NUL. */
#define SHOWN_MAX 24
#define QUOTED_MAX (SHOWN_MAX + 6)

struct unit {
    const char *brief;
    const char *full; /* singular; an 's' makes the plural */
    uint64_t ns;
    bool written; /* whether a limit is ever written in it */
};

/* From long to short: the first that divides a period is the one to write it in. A month and a year are read as the
 * lengths people mean by them and written as days, which says what is enforced. */
static const struct unit units[] = {
    {"year", "year", UINT64_C(365) * 86400 * 1000000000, false},
    {"month", "month", UINT64_C(30) * 86400 * 1000000000, false},
    {"w", "week", UINT64_C(7) * 86400 * 1000000000, true},
    {"d", "day", UINT64_C(86400) * 1000000000, true},
    {"h", "hour", UINT64_C(3600) * 1000000000, true},
    {"min", "minute", UINT64_C(60) * 1000000000, true},
    {"m", "minute", UINT64_C(60) * 1000000000, false},
    {"s", "second", 1000000000, true},
    {"ms", "millisecond", 1000000, true},
    {"us", "microsecond", 1000, true},
    {"ns", "nanosecond", 1, true},
};
#define UNIT_COUNT (sizeof units / sizeof units[0])

struct word {
    const char *start;
    size_t length; /* 0 only at the end of the text */
};

struct parser {
    const char *text;
    struct word word; /* the one to look at next */
    struct caudal_limit limit;
    struct cdl_limit_places places;
    bool has_algorithm;
    struct caudal_problem *problem;
};

/* Letters and digits of ASCII, whatever the locale: <ctype.h> and strcasecmp would ask it. */
static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool word_is(struct word word, const char *name)
{
    for (size_t i = 0; i < word.length; i++)
        if (lower(word.start[i]) != name[i]) /* also where a shorter name ends: no word holds a NUL */
            return false;
    return name[word.length] == '\0';
}

/* The length of the number that a word starts with; an '_' belongs to it between two digits only. */
static size_t number_length(struct word word)
{
    size_t i = 0;
    for (; i < word.length; i++) {
        bool joins = word.start[i] == '_' && i > 0 && i + 1 < word.length && is_digit(word.start[i - 1]) &&
                     is_digit(word.start[i + 1]);
        if (!is_digit(word.start[i]) && !joins)
            break;
    }
    return i;
}

/* False for a number that is too large. UINT64_MAX is too large already: as a burst it would mean "not given". */
static bool number_value(struct word number, uint64_t *value)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < number.length; i++) {
        if (number.start[i] == '_')
            continue;
        uint64_t digit = (uint64_t)(number.start[i] - '0');
        if (__builtin_mul_overflow(sum, 10u, &sum) || __builtin_add_overflow(sum, digit, &sum))
            return false;
    }
    *value = sum;
    return sum < UINT64_MAX;
}

/* Goes on to the word that follows the next `bytes` bytes, which may be the rest of this word. */
static void move_past(struct parser *parser, size_t bytes)
{
    struct word *word = &parser->word;
    word->start += bytes;
    word->start += strspn(word->start, " \t");
    word->length = *word->start == '/' ? 1 : strcspn(word->start, " \t/");
}

static void next_word(struct parser *parser)
{
    move_past(parser, parser->word.length);
}

static size_t position(const struct parser *parser)
{
    return (size_t)(parser->word.start - parser->text);
}

/* A word for a message: cut, and with a '?' for each byte that is not printable ASCII, since it may be half a letter
 * or an escape code. `quoted` is where the result is kept. */
static const char *quote(struct word word, char quoted[QUOTED_MAX])
{
    if (word.length == 0)
        return "the end of the text";
    char shown[SHOWN_MAX];
    size_t length = word.length < SHOWN_MAX ? word.length : SHOWN_MAX;
    memcpy(shown, word.start, length);
    for (size_t i = 0; i < length; i++)
        if (shown[i] <= ' ' || shown[i] >= 0x7f) /* a char that is signed is negative from 0x80 on */
            shown[i] = '?';
    snprintf(quoted, QUOTED_MAX, "'%.*s%s'", (int)length, shown, length < word.length ? "..." : "");
    return quoted;
}

static int unexpected(const struct parser *parser, const char *expected)
{
    char quoted[QUOTED_MAX];
    return cdl_problem(parser->problem, CAUDAL_ERR_SYNTAX, position(parser), "expected %s, found %s", expected,
                       quote(parser->word, quoted));
}

/* Well formed, so the code is that of a limit which cannot be enforced: one more digit must not change the code. */
static int too_large(const struct parser *parser, struct word number)
{
    char quoted[QUOTED_MAX];
    return cdl_problem(parser->problem, CAUDAL_ERR_LIMIT, position(parser),
                       "the number %s is above %" PRIu64 "; give a smaller one", quote(number, quoted), UINT64_MAX - 1);
}

static int parse_number(struct parser *parser, const char *expected, uint64_t *value)
{
    if (parser->word.length == 0 || number_length(parser->word) != parser->word.length)
        return unexpected(parser, expected);
    if (!number_value(parser->word, value))
        return too_large(parser, parser->word);
    next_word(parser);
    return CAUDAL_OK;
}

static int parse_count(struct parser *parser)
{
    parser->places.count = position(parser);
    return parse_number(parser, "a whole number and a period, as in 100/minute, or unlimited", &parser->limit.count);
}

static int parse_separator(struct parser *parser)
{
    if (!word_is(parser->word, "/") && !word_is(parser->word, "per"))
        return unexpected(parser, "'/' or 'per' and a period, as in 100/minute");
    next_word(parser);
    return CAUDAL_OK;
}

static bool word_is_unit(struct word word, const struct unit *unit)
{
    if (word_is(word, unit->brief) || word_is(word, unit->full))
        return true;
    if (word.length == 0 || lower(word.start[word.length - 1]) != 's')
        return false;
    struct word singular = {word.start, word.length - 1};
    return word_is(singular, unit->full);
}

static const struct unit *find_unit(struct word word)
{
    for (size_t i = 0; i < UNIT_COUNT; i++)
        if (word_is_unit(word, &units[i]))
            return &units[i];
    return NULL;
}

static int parse_unit(struct parser *parser, uint64_t multiple, const char *expected)
{
    const struct unit *unit = find_unit(parser->word);
    if (unit == NULL)
        return unexpected(parser, expected);
    if (__builtin_mul_overflow(multiple, unit->ns, &parser->limit.period_ns))
        return cdl_problem(parser->problem, CAUDAL_ERR_LIMIT, parser->places.period,
                           "a period of %" PRIu64 " %ss is above 100 years; give a shorter one", multiple, unit->full);
    next_word(parser);
    return CAUDAL_OK;
}

static int parse_period(struct parser *parser)
{
    parser->places.period = position(parser);
    struct word number = {parser->word.start, number_length(parser->word)};
    if (number.length == 0)
        return parse_unit(parser, 1, "a period, such as 30s or minute");
    uint64_t multiple;
    if (!number_value(number, &multiple))
        return too_large(parser, number);
    move_past(parser, number.length);
    return parse_unit(parser, multiple, "the period's unit (ns, us, ms, s, min, h, d, w, month, year)");
}

static int parse_burst(struct parser *parser)
{
    if (parser->limit.burst != CAUDAL_BURST_DEFAULT)
        return unexpected(parser, "one burst");
    next_word(parser);
    parser->places.burst = position(parser);
    return parse_number(parser, "a whole number after burst", &parser->limit.burst);
}

static int parse_algorithm(struct parser *parser, enum caudal_algorithm algorithm)
{
    if (parser->has_algorithm)
        return unexpected(parser, "one algorithm");
    parser->has_algorithm = true;
    parser->limit.algorithm = algorithm;
    next_word(parser);
    return CAUDAL_OK;
}

static int parse_option(struct parser *parser)
{
    if (word_is(parser->word, "burst"))
        return parse_burst(parser);
    for (enum caudal_algorithm a = CAUDAL_TOKEN_BUCKET; a < CAUDAL_UNLIMITED; a++)
        if (word_is(parser->word, caudal_algorithm_name(a)))
            return parse_algorithm(parser, a);
    return unexpected(parser, "'burst', an algorithm (token_bucket, fixed_window, sliding_window, sliding_log) "
                              "or the end of the text");
}

static int parse_rate(struct parser *parser)
{
    int status = parse_count(parser);
    if (status == CAUDAL_OK)
        status = parse_separator(parser);
    if (status == CAUDAL_OK)
        status = parse_period(parser);
    while (status == CAUDAL_OK && parser->word.length > 0)
        status = parse_option(parser);
    return status;
}

static int parse_unlimited(struct parser *parser)
{
    next_word(parser);
    if (parser->word.length > 0)
        return unexpected(parser, "nothing after unlimited");
    parser->limit.algorithm = CAUDAL_UNLIMITED;
    return CAUDAL_OK;
}

int caudal_limit_parse(const char *text, struct caudal_limit *limit, struct caudal_problem *problem)
{
    if (text == NULL || limit == NULL)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "the %s is NULL", text == NULL ? "text" : "limit");
    if (strnlen(text, TEXT_MAX + 1) > TEXT_MAX)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, TEXT_MAX, "the text is longer than %d bytes; shorten it",
                           TEXT_MAX);
    struct parser parser = {.text = text, .word = {text, 0}, .limit = CAUDAL_LIMIT_INIT, .problem = problem};
    next_word(&parser);
    int status = word_is(parser.word, "unlimited") ? parse_unlimited(&parser) : parse_rate(&parser);
    if (status == CAUDAL_OK)
        status = cdl_limit_check_at(&parser.limit, &parser.places, problem);
    if (status == CAUDAL_OK)
        *limit = parser.limit;
    return status;
}

/* Always finds one: a nanosecond divides everything. */
static const struct unit *longest_exact_unit(uint64_t period_ns)
{
    const struct unit *unit = units;
    while (!unit->written || period_ns % unit->ns != 0)
        unit++;
    return unit;
}

int caudal_limit_format(const struct caudal_limit *limit, char *buffer, size_t size)
{
    int status = caudal_limit_check(limit, NULL);
    if (status != CAUDAL_OK)
        return status;
    if (buffer == NULL && size > 0)
        return CAUDAL_ERR_ARGUMENT;
    if (limit->algorithm == CAUDAL_UNLIMITED)
        return snprintf(buffer, size, "unlimited");

    const struct unit *unit = longest_exact_unit(limit->period_ns);
    uint64_t multiple = limit->period_ns / unit->ns;
    char multiple_text[sizeof "18446744073709551615"] = "";
    if (multiple != 1)
        snprintf(multiple_text, sizeof multiple_text, "%" PRIu64, multiple);
    char burst_text[sizeof " burst 18446744073709551615"] = "";
    if (limit->burst != CAUDAL_BURST_DEFAULT)
        snprintf(burst_text, sizeof burst_text, " burst %" PRIu64, limit->burst);
    bool named = limit->algorithm != CAUDAL_TOKEN_BUCKET;
    return snprintf(buffer, size, "%" PRIu64 "/%s%s%s%s%s", limit->count, multiple_text, unit->brief, burst_text,
                    named ? " " : "", named ? caudal_algorithm_name(limit->algorithm) : "");
}
