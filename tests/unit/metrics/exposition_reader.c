#include "exposition_reader.h"

#include <stdio.h>
#include <stdlib.h>

/* Where the reader stands: in a line of the page, within a family. */
struct reader {
    struct read_page *page;
    struct cdl_slice rest; /* of the text */
    struct cdl_slice line; /* what is left of the line */
    bool openmetrics;
    size_t values_length;

    struct cdl_slice families[256];
    size_t family_count;
    struct cdl_slice family, type; /* those that are open */
    bool has_help, has_type;
};

static bool wrong(struct reader *reader, const char *why)
{
    if (reader->page->why == NULL)
        reader->page->why = why;
    return false;
}

static bool take(struct cdl_slice *line, const char *text)
{
    const struct cdl_slice wanted = cdl_slice_of(text);
    if (line->length < wanted.length || !cdl_slice_equal(cdl_slice_head(*line, wanted.length), wanted))
        return false;
    *line = cdl_slice_from(*line, wanted.length);
    return true;
}

static struct cdl_slice take_name(struct cdl_slice *line, bool colons)
{
    size_t length = 0;
    for (; length < line->length; length++) {
        const char c = line->bytes[length];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colons && c == ':');
        if (!letter && (length == 0 || c < '0' || c > '9'))
            break;
    }
    const struct cdl_slice name = cdl_slice_head(*line, length);
    *line = cdl_slice_from(*line, length);
    return name;
}

/* No control characters, C1 among them, and only well-formed UTF-8 (the table of RFC 3629, written out). */
static size_t character_length(const uint8_t *at, size_t left)
{
    static const struct {
        uint8_t low, high, second_low, second_high, length;
    } table[] = {
        {0x20, 0x7e, 0, 0, 1},       {0xc2, 0xc2, 0xa0, 0xbf, 2}, {0xc3, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
        {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (at[0] < table[i].low || at[0] > table[i].high || left < table[i].length)
            continue;
        if (table[i].length > 1 && (at[1] < table[i].second_low || at[1] > table[i].second_high))
            continue;
        bool good = true;
        for (size_t j = 2; j < table[i].length; j++)
            good = good && at[j] >= 0x80 && at[j] <= 0xbf;
        if (good)
            return table[i].length;
    }
    return 0;
}

static bool is_clean(struct cdl_slice text)
{
    for (size_t at = 0; at < text.length;) {
        const size_t length = character_length((const uint8_t *)text.bytes + at, text.length - at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

static bool next_line(struct reader *reader)
{
    reader->page->line++;
    const char *end = memchr(reader->rest.bytes, '\n', reader->rest.length);
    if (end == NULL)
        return wrong(reader, "a line without an end");
    const size_t length = (size_t)(end - reader->rest.bytes);
    reader->line = cdl_slice_head(reader->rest, length);
    reader->rest = cdl_slice_from(reader->rest, length + 1);
    if (!is_clean(reader->line))
        return wrong(reader, "a control character, or no UTF-8");
    return length > 0 || wrong(reader, "an empty line");
}

/* ---- Comments ---- */

static bool begin_family(struct reader *reader, struct cdl_slice name)
{
    for (size_t i = 0; i < reader->family_count; i++)
        if (cdl_slice_equal(reader->families[i], name))
            return wrong(reader, "a family twice");
    if (reader->family_count == sizeof reader->families / sizeof *reader->families)
        return wrong(reader, "too many families");
    reader->families[reader->family_count++] = name;
    reader->family = name;
    reader->has_help = reader->has_type = false;
    return true;
}

static bool read_help(struct reader *reader)
{
    for (struct cdl_slice help = reader->line; help.length > 0; help = cdl_slice_from(help, 1)) {
        if (help.bytes[0] == '"' && reader->openmetrics)
            return wrong(reader, "a bare quote in help");
        if (help.bytes[0] != '\\')
            continue;
        help = cdl_slice_from(help, 1);
        const char escape = help.length > 0 ? help.bytes[0] : '\0';
        if (escape != '\\' && escape != 'n' && !(escape == '"' && reader->openmetrics))
            return wrong(reader, "an unknown escape in help");
    }
    reader->has_help = true;
    return true;
}

static bool read_type(struct reader *reader)
{
    static const char *const types[] = {"counter", "gauge", "histogram", "info", "unknown"};
    if (!reader->has_help || reader->has_type)
        return wrong(reader, "TYPE does not follow HELP");
    for (size_t i = 0; i < (reader->openmetrics ? 5 : 3); i++) {
        if (cdl_slice_equal(reader->line, cdl_slice_of(types[i]))) {
            reader->type = cdl_slice_of(types[i]);
            reader->has_type = true;
            return true;
        }
    }
    return wrong(reader, "an unknown type");
}

static bool read_unit(struct reader *reader)
{
    const size_t length = reader->line.length;
    if (!reader->has_type || !reader->openmetrics || reader->family.length <= length + 1)
        return wrong(reader, "UNIT in the wrong place");
    const struct cdl_slice end = cdl_slice_from(reader->family, reader->family.length - length - 1);
    if (end.bytes[0] != '_' || !cdl_slice_equal(cdl_slice_from(end, 1), reader->line))
        return wrong(reader, "UNIT is not the end of the name");
    return true;
}

static bool read_comment(struct reader *reader)
{
    static const struct {
        const char *word;
        bool (*read)(struct reader *);
    } kinds[] = {{"HELP ", read_help}, {"TYPE ", read_type}, {"UNIT ", read_unit}};
    for (size_t i = 0; i < 3; i++) {
        if (!take(&reader->line, kinds[i].word))
            continue;
        const struct cdl_slice name = take_name(&reader->line, true);
        if (name.length == 0 || !take(&reader->line, " "))
            return wrong(reader, "no name in a comment");
        if (i == 0 && !begin_family(reader, name))
            return false;
        if (!cdl_slice_equal(reader->family, name))
            return wrong(reader, "a comment about another family");
        return kinds[i].read(reader);
    }
    return wrong(reader, "an unknown comment");
}

/* ---- Samples ---- */

static bool read_quoted(struct reader *reader, struct cdl_slice *value)
{
    char *start = reader->page->values + reader->values_length;
    size_t length = 0;
    if (!take(&reader->line, "\""))
        return wrong(reader, "no quote before a value");
    while (!take(&reader->line, "\"")) {
        if (reader->line.length == 0)
            return wrong(reader, "no quote behind a value");
        char c = reader->line.bytes[0];
        if (take(&reader->line, "\\")) {
            const char escape = reader->line.length > 0 ? reader->line.bytes[0] : '\0';
            if (escape != '\\' && escape != '"' && escape != 'n')
                return wrong(reader, "an unknown escape in a value");
            c = escape;
            if (escape == 'n')
                c = '\n';
        }
        start[length++] = c;
        reader->line = cdl_slice_from(reader->line, 1);
    }
    reader->values_length += length;
    *value = (struct cdl_slice){start, length};
    return true;
}

static bool read_label(struct reader *reader, struct read_sample *sample)
{
    if (sample->label_count == READ_LABELS_MAX)
        return wrong(reader, "too many labels");
    struct read_label *label = &sample->labels[sample->label_count++];
    label->name = take_name(&reader->line, false);
    if (label->name.length == 0 || !take(&reader->line, "="))
        return wrong(reader, "no label");
    for (size_t i = 0; i + 1 < sample->label_count; i++)
        if (cdl_slice_equal(sample->labels[i].name, label->name))
            return wrong(reader, "a label twice");
    return read_quoted(reader, &label->value);
}

static bool read_labels(struct reader *reader, struct read_sample *sample)
{
    if (!take(&reader->line, "{"))
        return true;
    do
        if (!read_label(reader, sample))
            return false;
    while (take(&reader->line, ","));
    return take(&reader->line, "}") || wrong(reader, "labels without an end");
}

/* Plain decimal: -?digits(.digits)? */
static bool is_number(struct cdl_slice text, bool may_be_negative)
{
    if (may_be_negative)
        take(&text, "-");
    size_t digits = 0, points = 0;
    for (size_t i = 0; i < text.length; i++) {
        const bool point = text.bytes[i] == '.' && points++ == 0 && i > 0 && i + 1 < text.length;
        if (!point && (text.bytes[i] < '0' || text.bytes[i] > '9'))
            return false;
        digits += !point;
    }
    return digits > 0;
}

/* The name of a sample is that of the open family, with an ending that its type allows. */
static bool belongs(const struct reader *reader, struct cdl_slice name)
{
    if (!reader->has_type || name.length < reader->family.length ||
        !cdl_slice_equal(cdl_slice_head(name, reader->family.length), reader->family))
        return false;
    const struct cdl_slice ending = cdl_slice_from(name, reader->family.length);
    if (cdl_slice_equal(reader->type, CDL_SLICE("histogram")))
        return cdl_slice_equal(ending, CDL_SLICE("_bucket")) || cdl_slice_equal(ending, CDL_SLICE("_sum")) ||
               cdl_slice_equal(ending, CDL_SLICE("_count"));
    if (cdl_slice_equal(reader->type, CDL_SLICE("counter")) && reader->openmetrics)
        return cdl_slice_equal(ending, CDL_SLICE("_total"));
    if (cdl_slice_equal(reader->type, CDL_SLICE("info")))
        return cdl_slice_equal(ending, CDL_SLICE("_info"));
    return ending.length == 0;
}

static const struct read_label *label_of(const struct read_sample *sample, struct cdl_slice name)
{
    for (size_t i = 0; i < sample->label_count; i++)
        if (cdl_slice_equal(sample->labels[i].name, name))
            return &sample->labels[i];
    return NULL;
}

/* The same labels with the same values, but for `except`; an empty value is no label. */
static bool has_labels_of(const struct read_sample *a, const struct read_sample *b, const char *except)
{
    for (size_t i = 0; i < a->label_count; i++) {
        const struct read_label *mine = &a->labels[i], *other = label_of(b, mine->name);
        if (mine->value.length > 0 && !cdl_slice_equal(mine->name, cdl_slice_of(except)) &&
            (other == NULL || !cdl_slice_equal(mine->value, other->value)))
            return false;
    }
    return true;
}

static bool same_labels(const struct read_sample *a, const struct read_sample *b, const char *except)
{
    return has_labels_of(a, b, except) && has_labels_of(b, a, except);
}

static bool is_repeated(const struct read_page *page, const struct read_sample *sample)
{
    for (size_t i = 0; i < page->count; i++)
        if (cdl_slice_equal(page->samples[i].name, sample->name) && same_labels(&page->samples[i], sample, ""))
            return true;
    return false;
}

static double number(struct cdl_slice text)
{
    char digits[64];
    snprintf(digits, sizeof digits, "%.*s", CDL_SLICE_ARG(text));
    return strtod(digits, NULL);
}

/* A bucket has a bound above that of the one before, of the same labels, and counts no less; a count is what the last bucket
 * counted. */
static bool check_histogram(struct reader *reader, const struct read_sample *sample)
{
    const struct read_label *le = label_of(sample, CDL_SLICE("le"));
    const struct read_sample *before = reader->page->count > 0 ? &reader->page->samples[reader->page->count - 1] : NULL;
    const size_t name_length = sample->name.length;
    const bool is_bucket = cdl_slice_equal(cdl_slice_from(sample->name, reader->family.length), CDL_SLICE("_bucket"));
    if (is_bucket != (le != NULL))
        return wrong(reader, "le in the wrong place");
    if (is_bucket && before != NULL && cdl_slice_equal(before->name, sample->name) &&
        same_labels(before, sample, "le")) {
        if (number(before->value) > number(sample->value) ||
            number(label_of(before, CDL_SLICE("le"))->value) >= number(le->value))
            return wrong(reader, "a bucket falls");
    }
    if (name_length - reader->family.length == strlen("_count")) {
        const struct read_sample *last = before - 1; /* _bucket, _sum, _count stand in this order */
        if (reader->page->count < 2 || !same_labels(last, sample, "le") ||
            !cdl_slice_equal(label_of(last, CDL_SLICE("le"))->value, CDL_SLICE("+Inf")) ||
            !cdl_slice_equal(last->value, sample->value))
            return wrong(reader, "a count is not its last bucket");
    }
    return true;
}

static bool read_sample(struct reader *reader)
{
    struct read_sample sample = {.name = take_name(&reader->line, true)};
    if (!belongs(reader, sample.name))
        return wrong(reader, "a sample outside its family");
    if (!read_labels(reader, &sample))
        return false;
    if (!take(&reader->line, " ") || !is_number(reader->line, cdl_slice_equal(reader->type, CDL_SLICE("gauge"))))
        return wrong(reader, "no number");
    sample.value = reader->line;
    if (is_repeated(reader->page, &sample))
        return wrong(reader, "a series twice");
    if (cdl_slice_equal(reader->type, CDL_SLICE("histogram")) && !check_histogram(reader, &sample))
        return false;
    reader->page->samples[reader->page->count++] = sample;
    return true;
}

bool read_exposition(struct cdl_slice text, bool openmetrics, struct read_page *page)
{
    struct reader reader = {.page = page, .rest = text, .openmetrics = openmetrics};
    size_t lines = 1;
    for (size_t i = 0; i < text.length; i++)
        lines += text.bytes[i] == '\n';
    *page = (struct read_page){.samples = calloc(lines, sizeof *page->samples), .values = malloc(text.length + 1)};
    if (page->samples == NULL || page->values == NULL)
        return wrong(&reader, "no memory");
    while (reader.rest.length > 0) {
        if (!next_line(&reader))
            return false;
        if (openmetrics && cdl_slice_equal(reader.line, CDL_SLICE("# EOF")))
            return reader.rest.length == 0 || wrong(&reader, "more behind the end");
        if (!(take(&reader.line, "# ") ? read_comment(&reader) : read_sample(&reader)))
            return false;
    }
    return !openmetrics || wrong(&reader, "no end");
}

void read_page_free(struct read_page *page)
{
    free(page->samples);
    free(page->values);
    *page = (struct read_page){0};
}

/* ---- Looking things up ---- */

static struct read_sample parse_labels(const char *labels)
{
    struct read_sample sample = {0};
    while (*labels != '\0') {
        const size_t name_length = strcspn(labels, "="), value_length = strcspn(labels + name_length + 1, ",");
        sample.labels[sample.label_count++] = (struct read_label){
            {labels, name_length},
            {labels + name_length + 1, value_length},
        };
        labels += name_length + 1 + value_length;
        labels += *labels == ',';
    }
    return sample;
}

const struct read_sample *read_find(const struct read_page *page, const char *name, const char *labels)
{
    const struct read_sample wanted = parse_labels(labels);
    for (size_t i = 0; i < page->count; i++)
        if (cdl_slice_equal(page->samples[i].name, cdl_slice_of(name)) && same_labels(&page->samples[i], &wanted, ""))
            return &page->samples[i];
    return NULL;
}

static unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

size_t read_unmark(struct cdl_slice value, char *bytes)
{
    size_t length = 0;
    while (value.length > 0) {
        if (value.length >= 5 && take(&value, "\xef\xbf\xbd")) {
            bytes[length++] = (char)(hex_digit(value.bytes[0]) << 4 | hex_digit(value.bytes[1]));
            value = cdl_slice_from(value, 2);
        } else {
            bytes[length++] = value.bytes[0];
            value = cdl_slice_from(value, 1);
        }
    }
    return length;
}
