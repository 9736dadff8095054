/* Logs in columns (RFC 4180), under a first line that names them: by the names that are usual for fields, or those that the
 * settings say. Commas, semicolons, tabs and bars divide columns; which of them, the first line tells. A value may stand in
 * quotes, where two are one; it ends with its line. */
#include "base/problem.h"
#include "wire/access_log_parts.h"

#define ENTRIES_MAX 128u

struct entry {
    struct cdl_slice name;
    const struct cdl_access_field *field;
};

struct names {
    size_t count;
    struct entry entries[ENTRIES_MAX];
};

/* ---- making ---- */

static int add(struct names *names, struct cdl_slice name, const struct cdl_access_field *field,
               struct caudal_problem *problem)
{
    if (names->count == ENTRIES_MAX)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "the fields are more than %u", ENTRIES_MAX);
    names->entries[names->count++] = (struct entry){name, field};
    return CAUDAL_OK;
}

static bool is_told(const struct names *names, size_t told, const struct cdl_access_field *field)
{
    for (size_t i = 0; i < told; i++)
        if (names->entries[i].field->part == field->part && field->part != CDL_ACCESS_HEADER)
            return true;
    return false;
}

int cdl_access_csv_make(struct cdl_slice fields, struct cdl_arena *arena, struct cdl_access_format *format,
                        struct caudal_problem *problem)
{
    struct names *names = cdl_arena_allocate(arena, 1, sizeof *names);
    struct caudal_problem found = {.code = CAUDAL_OK};
    const struct cdl_access_field *field;
    struct cdl_slice name;
    int status = CAUDAL_OK;
    if (names == NULL)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    while (status == CAUDAL_OK && cdl_access_list_next(&fields, arena, &field, &name, &found))
        status = add(names, cdl_arena_copy(arena, name), field, &found);
    if (found.code != CAUDAL_OK)
        return cdl_problem(problem, found.code, 0, "%s", found.message);
    const size_t told = names->count;
    const char *usual;
    for (size_t i = 0; status == CAUDAL_OK && (usual = cdl_access_usual_name(i, &field)) != NULL; i++)
        if (!is_told(names, told, field))
            status = add(names, cdl_slice_of(usual), field, problem);
    format->kind = &cdl_access_csv;
    format->parts = names;
    return status;
}

/* ---- columns ---- */

static bool ends_column(const struct cdl_access_reading *reading)
{
    return reading->at == reading->end || *reading->at == reading->parser->delimiter;
}

/* A value in quotes: the text between them, in the scratch if it has quotes itself. */
static bool read_quoted(struct cdl_access_reading *reading, struct cdl_slice *value)
{
    struct cdl_writer *scratch = reading->scratch;
    const char *open = reading->at, *begin = open + 1;
    const size_t start = scratch->length;
    bool is_copied = false;
    for (;;) {
        const char *quote = begin < reading->end ? memchr(begin, '"', (size_t)(reading->end - begin)) : NULL;
        if (quote == NULL)
            return cdl_access_fail(reading, open, "column", "is not closed by '\"'");
        const bool is_double = quote + 1 < reading->end && quote[1] == '"';
        if (!is_copied && !is_double) {
            *value = (struct cdl_slice){begin, (size_t)(quote - begin)};
        } else {
            cdl_write(scratch, (struct cdl_slice){begin, (size_t)(quote - begin) + is_double});
            is_copied = true;
            *value = (struct cdl_slice){scratch->bytes + start, scratch->length - start};
        }
        reading->at = begin = quote + 1 + is_double;
        if (!is_double)
            break;
    }
    if (scratch->overflow)
        return cdl_access_fail(reading, open, "line", "needs more room than there is");
    return ends_column(reading) || cdl_access_fail(reading, reading->at, "column", "goes on behind its closing quote");
}

/* The next column; false with no reason when there is none. Moves behind it and its delimiter. */
static bool read_column(struct cdl_access_reading *reading, struct cdl_slice *value)
{
    if (reading->at < reading->end && *reading->at == '"') {
        if (!read_quoted(reading, value))
            return false;
    } else {
        const char *begin = reading->at;
        const char *end = memchr(begin, reading->parser->delimiter, (size_t)(reading->end - begin));
        reading->at = end != NULL ? end : reading->end;
        *value = (struct cdl_slice){begin, (size_t)(reading->at - begin)};
    }
    return true;
}

/* Whether there is one more column: moves behind the delimiter. */
static bool next_column(struct cdl_access_reading *reading)
{
    if (reading->at == reading->end)
        return false;
    reading->at++;
    return true;
}

/* ---- the heading ---- */

/* The delimiter that is most frequent. */
static char find_delimiter(const struct cdl_access_reading *reading)
{
    static const char delimiters[] = {',', '\t', ';', '|'};
    size_t counts[sizeof delimiters] = {0}, best = 0;
    for (const char *at = reading->line; at < reading->end; at++)
        for (size_t i = 0; i < sizeof delimiters; i++)
            counts[i] += *at == delimiters[i];
    for (size_t i = 1; i < sizeof delimiters; i++)
        if (counts[i] > counts[best])
            best = i;
    return delimiters[best];
}

/* The entry for a column of this name, "http_*" being for all that begin so; `count` when there is none. */
static size_t find_entry(const struct names *names, struct cdl_slice name)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct entry *entry = &names->entries[i];
        if (entry->field->part == CDL_ACCESS_VARIABLES || entry->field->part == CDL_ACCESS_HEADERS) {
            const size_t prefix = entry->name.length - 1;
            if (name.length > prefix && memcmp(name.bytes, entry->name.bytes, prefix) == 0)
                return i;
        } else if (cdl_slice_equal_nocase(entry->name, name)) {
            return i;
        }
    }
    return names->count;
}

/* Keeps what the column is called where it is a header's name. */
static bool keep_name(struct cdl_access_reading *reading, struct cdl_access_column *column, struct cdl_slice name)
{
    struct cdl_access_parser *parser = reading->parser;
    if (name.length > CDL_ACCESS_NAMES_MAX - parser->name_bytes)
        return cdl_access_fail(reading, name.bytes, "heading", "has more names of headers than fit");
    column->name = (uint16_t)parser->name_bytes;
    column->name_length = (uint16_t)name.length;
    for (size_t i = 0; i < name.length; i++) {
        const bool is_dash = column->field->part == CDL_ACCESS_VARIABLES && name.bytes[i] == '_';
        parser->names[parser->name_bytes++] = is_dash ? '-' : name.bytes[i];
    }
    return true;
}

static bool add_column(struct cdl_access_reading *reading, struct cdl_slice name, size_t ranks[])
{
    const struct names *names = reading->parser->format->parts;
    struct cdl_access_parser *parser = reading->parser;
    if (parser->column_count == CDL_ACCESS_COLUMNS_MAX)
        return cdl_access_fail(reading, name.bytes, "heading", "has more than 128 columns");
    struct cdl_access_column *column = &parser->columns[parser->column_count];
    const size_t rank = find_entry(names, cdl_slice_trim(name));
    *column = (struct cdl_access_column){.field = rank < names->count ? names->entries[rank].field : NULL};
    ranks[parser->column_count++] = rank;
    if (column->field == NULL ||
        (column->field->part != CDL_ACCESS_VARIABLES && column->field->part != CDL_ACCESS_HEADERS))
        return true;
    return keep_name(reading, column, cdl_slice_from(cdl_slice_trim(name), names->entries[rank].name.length - 1));
}

/* Of two columns for one field, the one whose name comes first in the list counts. */
static void drop_doubles(struct cdl_access_parser *parser, const size_t ranks[])
{
    for (size_t i = 0; i < parser->column_count; i++) {
        const struct cdl_access_field *field = parser->columns[i].field;
        for (size_t j = 0; field != NULL && field->part < CDL_ACCESS_HEADER && j < parser->column_count; j++)
            if (parser->columns[j].field != NULL && parser->columns[j].field->part == field->part &&
                ranks[j] < ranks[i])
                parser->columns[i].field = NULL;
    }
}

static bool has_part(const struct cdl_access_parser *parser, enum cdl_access_part part)
{
    for (size_t i = 0; i < parser->column_count; i++)
        if (parser->columns[i].field != NULL && parser->columns[i].field->part == part)
            return true;
    return false;
}

static bool check_heading(struct cdl_access_reading *reading)
{
    const struct cdl_access_parser *parser = reading->parser;
    reading->at = reading->line; /* that columns could be told apart says nothing: any text has some */
    if (!has_part(parser, CDL_ACCESS_TIME))
        return cdl_access_fail(reading, reading->line, "heading", "names no column for the time");
    if (!has_part(parser, CDL_ACCESS_CLIENT) && !has_part(parser, CDL_ACCESS_TARGET) &&
        !has_part(parser, CDL_ACCESS_PATH) && !has_part(parser, CDL_ACCESS_REQUEST))
        return cdl_access_fail(reading, reading->line, "heading", "names no column for the client, nor for a request");
    return true;
}

bool cdl_access_csv_heading(struct cdl_access_reading *reading)
{
    struct cdl_access_parser *parser = reading->parser;
    size_t ranks[CDL_ACCESS_COLUMNS_MAX] = {0};
    struct cdl_slice name = {NULL, 0};
    parser->delimiter = find_delimiter(reading);
    parser->column_count = parser->name_bytes = 0;
    bool ok = true;
    do {
        ok = read_column(reading, &name) && add_column(reading, name, ranks);
    } while (ok && next_column(reading));
    if (ok)
        drop_doubles(parser, ranks);
    if (ok && check_heading(reading))
        return true;
    parser->delimiter = '\0'; /* the next line may be the heading */
    return false;
}

/* ---- lines ---- */

static bool put_column(struct cdl_access_reading *reading, const struct cdl_access_column *column,
                       struct cdl_slice value)
{
    if (column->field == NULL)
        return true;
    if (column->field->part != CDL_ACCESS_VARIABLES && column->field->part != CDL_ACCESS_HEADERS)
        return cdl_access_put(reading, column->field, value);
    /* The record must not outlive the parser. */
    const struct cdl_slice name = {reading->parser->names + column->name, column->name_length};
    return cdl_access_put_header(reading, name, value);
}

static bool read_csv(struct cdl_access_reading *reading)
{
    const struct cdl_access_parser *parser = reading->parser;
    struct cdl_slice value = {NULL, 0};
    size_t count = 0;
    do {
        if (count == parser->column_count)
            return cdl_access_fail(reading, reading->at, "line", "has more columns than its heading");
        if (!read_column(reading, &value) || !put_column(reading, &parser->columns[count++], cdl_slice_trim(value)))
            return false;
    } while (next_column(reading));
    if (count < parser->column_count)
        return cdl_access_fail(reading, reading->end, "line", "has fewer columns than its heading");
    return true;
}

const struct cdl_access_kind cdl_access_csv = {.read = read_csv, .reads_headings = true};
