/* Which format has a log? The one that reads most of its first lines. Where several read equally many, as any line of Caddy's is JSON
 * with some time in it, the one that finds most in them; then the one that comes first in the list. */
#include "base/problem.h"
#include "wire/access_log_parts.h"

struct score {
    size_t parsed;
    size_t headings;
    size_t found; /* of what makes a request, over all lines */
    bool has_headers;
    size_t failed_line; /* the first one, from 1; 0: none */
    size_t reached;     /* in it */
    struct cdl_access_why why;
    size_t lacking_line; /* the first that fails for want of a setting */
    struct cdl_access_why lacking;
};

static size_t count_found(const struct cdl_access_record *record)
{
    size_t found = record->header_count;
    found += record->client.length > 0;
    found += record->method.length > 0;
    found += record->target.length > 0;
    found += record->host.length > 0;
    found += record->status > 0;
    found += record->bytes >= 0;
    found += record->duration_ns >= 0;
    return found;
}

static void note_skipped(struct score *score, size_t line, const struct cdl_access_why *why, size_t reached)
{
    if (score->failed_line == 0) {
        score->failed_line = line;
        score->reached = reached;
        score->why = *why;
    }
    if (score->lacking_line == 0 && cdl_access_why_is_setting(why)) {
        score->lacking_line = line;
        score->lacking = *why;
    }
}

static void judge(const struct cdl_access_format *format, const struct cdl_slice *lines, size_t count,
                  struct cdl_writer *scratch, struct score *score)
{
    struct cdl_access_parser parser;
    struct cdl_access_record record;
    struct cdl_access_why why;
    cdl_access_parser_init(&parser, format);
    *score = (struct score){.parsed = 0};
    for (size_t i = 0; i < count; i++) {
        if (lines[i].length == 0)
            continue;
        scratch->length = 0;
        scratch->overflow = false;
        const enum cdl_access_result result = cdl_access_parse(&parser, lines[i], scratch, &record, &why);
        if (result == CDL_ACCESS_READ) {
            score->parsed++;
            score->found += count_found(&record);
            score->has_headers |= record.header_count > 0;
        } else if (result == CDL_ACCESS_SKIPPED) {
            note_skipped(score, i + 1, &why, parser.reached);
        } else {
            score->headings++;
        }
    }
}

static bool is_better(const struct score *score, const struct score *best)
{
    if (score->parsed != best->parsed)
        return score->parsed > best->parsed;
    if (score->parsed > 0)
        return score->found > best->found;
    /* Of formats that read nothing, the one that came furthest explains best what is wrong. */
    return score->reached > best->reached;
}

/* What is said of a line that failed. */
static int report(const struct cdl_access_format *format, const char *words, size_t line,
                  const struct cdl_access_why *why, struct caudal_problem *problem)
{
    char reason[128];
    struct cdl_writer writer = cdl_writer_on(reason, sizeof reason);
    cdl_access_why_write(&writer, why);
    return cdl_problem(problem, CAUDAL_ERR_SYNTAX, line, "%s \"%s\", line %zu: %.*s", words, format->name, line,
                       CDL_SLICE_ARG(cdl_written(&writer)));
}

static size_t count_lines(const struct cdl_slice *lines, size_t count)
{
    size_t full = 0;
    for (size_t i = 0; i < count; i++)
        full += lines[i].length > 0;
    return full;
}

/* Tries each format with the settings, and with a zone and a year in any case: for want of those, no format is another one. */
static int choose(const struct cdl_access_settings *settings, const struct cdl_slice *lines, size_t count,
                  struct cdl_arena *arena, struct cdl_writer *scratch, struct cdl_slice *chosen,
                  struct caudal_problem *problem)
{
    struct cdl_access_settings tried = *settings;
    struct score score, best = {.parsed = 0};
    const char *name;
    *chosen = (struct cdl_slice){NULL, 0};
    for (size_t i = 0; (name = cdl_access_format_name(i)) != NULL; i++) {
        struct cdl_access_format candidate;
        tried.name = cdl_slice_of(name);
        const int status = cdl_access_format_make(&tried, arena, &candidate, problem);
        if (status == CAUDAL_ERR_MEMORY)
            return status;
        if (status != CAUDAL_OK)
            continue; /* the settings are for another one, or wrong: then they are so for all that remain */
        judge(&candidate, lines, count, scratch, &score);
        if (chosen->length > 0 && !is_better(&score, &best))
            continue;
        best = score;
        *chosen = tried.name;
    }
    return chosen->length > 0 ? CAUDAL_OK : CAUDAL_ERR_SYNTAX;
}

/* Says what the lines are by the format that was chosen, or named, and whether that will do. */
static int settle(const struct cdl_access_settings *settings, const struct cdl_slice *lines, size_t count,
                  struct cdl_writer *scratch, struct cdl_access_format *format, struct cdl_access_detection *detection,
                  struct caudal_problem *problem)
{
    const bool is_told = settings->name.length > 0 || settings->pattern.length > 0;
    struct score score;
    struct caudal_problem failure;
    judge(format, lines, count, scratch, &score);
    *detection = (struct cdl_access_detection){count_lines(lines, count) - score.headings, score.parsed};
    if (score.parsed == 0 && score.failed_line > 0) {
        report(format, is_told ? "not a line can be read as" : "no format of logs that is known; as", score.failed_line,
               &score.why, &failure);
        /* And the line, as far as there is room. */
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, failure.position, "%s: \"%.*s\"", failure.message,
                           CDL_SLICE_ARG(lines[score.failed_line - 1]));
    }
    /* One reader for both; which of them it is, the lines tell. */
    if (format->kind == &cdl_access_combined)
        format->name = score.has_headers ? "combined" : "common";
    format->zone = settings->zone;
    format->year = settings->year;
    judge(format, lines, count, scratch, &score);
    if (score.lacking_line > 0)
        return report(format, "a log in the format", score.lacking_line, &score.lacking, problem);
    return CAUDAL_OK;
}

int cdl_access_format_detect(const struct cdl_access_settings *settings, const struct cdl_slice *lines, size_t count,
                             struct cdl_arena *arena, struct cdl_writer *scratch, struct cdl_access_format *format,
                             struct cdl_access_detection *detection, struct caudal_problem *problem)
{
    static const struct cdl_zone utc = {.count = 0};
    struct cdl_access_settings tried = *settings;
    int status = CAUDAL_OK;
    tried.zone = settings->zone != NULL ? settings->zone : &utc;
    tried.year = settings->year != 0 ? settings->year : 2000;
    if (count > CDL_ACCESS_SAMPLE_LINES)
        count = CDL_ACCESS_SAMPLE_LINES;
    *detection = (struct cdl_access_detection){count_lines(lines, count), 0};
    if (detection->lines == 0)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "there is no line to tell the format by");
    if (settings->name.length == 0 && settings->pattern.length == 0) {
        /* Of many formats one is kept. */
        struct cdl_arena passing;
        cdl_arena_init(&passing, arena->allocator);
        status = choose(&tried, lines, count, &passing, scratch, &tried.name, problem);
        cdl_arena_free(&passing);
    }
    if (status == CAUDAL_OK)
        status = cdl_access_format_make(&tried, arena, format, problem);
    return status == CAUDAL_OK ? settle(settings, lines, count, scratch, format, detection, problem) : status;
}
