#include "replay/log_reader.h"

#include "base/memory.h"
#include "base/problem.h"
#include "base/utf8.h"
#include "replay/log_queue.h"
#include "replay/log_source.h"

/* One file, and the record of it that comes next. */
struct source {
    struct cdl_log_source file;
    const char *path;
    struct cdl_access_format format;
    struct cdl_access_parser parser;
    struct cdl_access_detection detection;
    bool has_format, failed;
    bool has_record;
    struct cdl_access_record record; /* its slices lie in the file's buffer and in `scratch` */
    struct cdl_writer scratch;
    bool has_high;
    int64_t high_ns; /* the latest instant so far */
    uint64_t lines, parsed;
};

struct cdl_log_reader {
    struct cdl_log_reader_settings settings;
    const struct caudal_allocator *allocator;
    struct cdl_arena arena; /* of formats */
    struct source *sources;
    uint32_t *order; /* a heap of those that have a record: the earliest first, then the first that was named */
    size_t order_count;
    size_t unread; /* sources that have still to be read for the first time */
    struct cdl_log_queue queue;
    struct cdl_log_entry *out; /* that was given last */
    bool has_high, has_out;
    int64_t high_ns, out_ns; /* the latest that was put into the queue, and came out */
    struct cdl_log_stats stats;
};

/* ---- skipped lines ---- */

static bool is_same(const struct cdl_access_why *a, const struct cdl_access_why *b)
{
    return strcmp(a->field, b->field) == 0 && strcmp(a->detail, b->detail) == 0;
}

static void keep_example(struct cdl_log_reason *reason, struct cdl_slice line)
{
    line = cdl_utf8_head(line, CDL_LOG_EXAMPLE_BYTES);
    reason->example_length = 0;
    while (line.length > 0) {
        const struct cdl_character character = cdl_utf8_first(line);
        const bool is_shown = character.kind == CDL_CHARACTER_PLAIN;
        char *end = reason->example + reason->example_length;
        memcpy(end, is_shown ? line.bytes : "?", is_shown ? character.length : 1);
        reason->example_length += is_shown ? character.length : 1;
        line = cdl_slice_from(line, character.length);
    }
}

static void note_skipped(struct cdl_log_reader *reader, const struct source *source, const struct cdl_access_why *why,
                         struct cdl_slice line)
{
    static const struct cdl_access_why others = {"line", "is skipped for one of many other reasons", 0};
    struct cdl_log_stats *stats = &reader->stats;
    size_t i = 0;
    stats->skipped++;
    while (i < stats->reason_count && !is_same(&stats->reasons[i].why, why))
        i++;
    if (i == CDL_LOG_REASONS_MAX) {
        stats->reasons[--i].why = others;
    } else if (i == stats->reason_count) {
        stats->reasons[stats->reason_count++] = (struct cdl_log_reason){
            .why = *why, .source = (uint32_t)(source - reader->sources), .line = source->file.line};
        keep_example(&stats->reasons[i], line);
    }
    stats->reasons[i].count++;
}

/* ---- reading a file up to its next record ---- */

static void note_record(struct cdl_log_reader *reader, struct source *source)
{
    const struct cdl_access_record *record = &source->record;
    struct cdl_log_stats *stats = &reader->stats;
    source->parsed++;
    if (stats->parsed++ == 0)
        stats->first_ns = stats->last_ns = record->instant_ns;
    if (record->instant_ns < stats->first_ns)
        stats->first_ns = record->instant_ns;
    if (record->instant_ns > stats->last_ns)
        stats->last_ns = record->instant_ns;
    if (record->resolution_ns > stats->resolution_ns)
        stats->resolution_ns = record->resolution_ns;
    if (source->has_high && record->instant_ns < source->high_ns) {
        stats->out_of_order++;
        if (source->high_ns - record->instant_ns > stats->out_of_order_ns)
            stats->out_of_order_ns = source->high_ns - record->instant_ns;
    } else {
        source->has_high = true;
        source->high_ns = record->instant_ns;
    }
}

/* Whether the line is a record. */
static bool parse(struct cdl_log_reader *reader, struct source *source, struct cdl_slice line)
{
    struct cdl_access_why why;
    source->scratch.length = 0;
    source->scratch.overflow = false;
    switch (cdl_access_parse(&source->parser, line, &source->scratch, &source->record, &why)) {
    case CDL_ACCESS_READ:
        reader->stats.lines++;
        source->lines++;
        note_record(reader, source);
        return true;
    case CDL_ACCESS_HEADING:
        reader->stats.headings++;
        return false;
    default:
        reader->stats.lines++;
        source->lines++;
        note_skipped(reader, source, &why, line);
        return false;
    }
}

static bool is_stopped(const struct cdl_log_reader *reader)
{
    return reader->settings.stop != NULL && *reader->settings.stop != 0;
}

/* Reads on until there is a record (CDL_LOG_RECORD), the file ends, or something is in the way. */
static enum cdl_log_result advance(struct cdl_log_reader *reader, struct source *source, struct caudal_problem *problem)
{
    static const struct cdl_access_why too_long = {"line", "is longer than 65536 bytes", 0};
    struct cdl_slice line;
    source->has_record = false;
    for (;;) {
        if (is_stopped(reader))
            return CDL_LOG_STOPPED;
        switch (cdl_log_source_line(&source->file, &line, problem)) {
        case CDL_LOG_SOURCE_LINE:
            if (parse(reader, source, line)) {
                source->has_record = true;
                return CDL_LOG_RECORD;
            }
            break;
        case CDL_LOG_SOURCE_LONG:
            reader->stats.lines++;
            source->lines++;
            note_skipped(reader, source, &too_long, (struct cdl_slice){NULL, 0});
            break;
        case CDL_LOG_SOURCE_END:
            cdl_log_source_close(&source->file);
            return CDL_LOG_END;
        case CDL_LOG_SOURCE_STOPPED:
            return CDL_LOG_STOPPED;
        case CDL_LOG_SOURCE_FAILED:
            cdl_log_source_close(&source->file);
            source->failed = true;
            return CDL_LOG_FAILED;
        }
    }
}

/* ---- the order of files ---- */

static bool comes_before(const struct cdl_log_reader *reader, uint32_t a, uint32_t b)
{
    const int64_t a_ns = reader->sources[a].record.instant_ns, b_ns = reader->sources[b].record.instant_ns;
    return a_ns != b_ns ? a_ns < b_ns : a < b;
}

static void add_to_order(struct cdl_log_reader *reader, uint32_t source)
{
    uint32_t *order = reader->order;
    size_t at = reader->order_count++;
    for (; at > 0 && comes_before(reader, source, order[(at - 1) / 2]); at = (at - 1) / 2)
        order[at] = order[(at - 1) / 2];
    order[at] = source;
}

/* Puts a source into its place that stands, or would stand, at the top. */
static void sink_into_order(struct cdl_log_reader *reader, uint32_t source)
{
    uint32_t *order = reader->order;
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < reader->order_count; at = child) {
        if (child + 1 < reader->order_count && comes_before(reader, order[child + 1], order[child]))
            child++;
        if (!comes_before(reader, order[child], source))
            break;
        order[at] = order[child];
    }
    order[at] = source;
}

static void remove_top(struct cdl_log_reader *reader)
{
    const uint32_t last = reader->order[--reader->order_count];
    if (reader->order_count > 0)
        sink_into_order(reader, last);
}

/* ---- records out ---- */

/* Whether the earliest that waits may come out: nothing earlier can come any more, or memory is short. */
static bool is_due(struct cdl_log_reader *reader)
{
    struct cdl_log_stats *stats = &reader->stats;
    if (cdl_log_queue_count(&reader->queue) == 0)
        return false;
    if (reader->order_count == 0 && reader->unread == 0)
        return true;
    int64_t behind_ns;
    if (__builtin_sub_overflow(reader->high_ns, cdl_log_queue_first_ns(&reader->queue), &behind_ns) ||
        behind_ns >= reader->settings.window_ns)
        return true;
    if (reader->queue.bytes <= reader->settings.waiting_bytes_max)
        return false;
    stats->hurried++;
    if (behind_ns < stats->hurried_window_ns)
        stats->hurried_window_ns = behind_ns;
    return true;
}

static enum cdl_log_result give(struct cdl_log_reader *reader, struct cdl_access_record *record,
                                struct cdl_log_origin *origin)
{
    struct cdl_log_stats *stats = &reader->stats;
    reader->out = cdl_log_queue_pop(&reader->queue);
    stats->waiting = cdl_log_queue_count(&reader->queue);
    const struct cdl_log_place place = cdl_log_entry_read(reader->out, record);
    *origin = (struct cdl_log_origin){place.source, place.line, reader->has_out && record->instant_ns < reader->out_ns};
    if (origin->is_late) {
        stats->late++;
        if (reader->out_ns - record->instant_ns > stats->late_ns)
            stats->late_ns = reader->out_ns - record->instant_ns;
    } else {
        reader->out_ns = record->instant_ns;
        reader->has_out = true;
    }
    return CDL_LOG_RECORD;
}

/* Puts the record that comes next into the queue. */
static bool hold_back(struct cdl_log_reader *reader, uint32_t index)
{
    const struct source *source = &reader->sources[index];
    const int64_t instant_ns = source->record.instant_ns;
    if (!cdl_log_queue_push(&reader->queue, &source->record, (struct cdl_log_place){source->file.line, index}))
        return false;
    if (!reader->has_high || instant_ns > reader->high_ns)
        reader->high_ns = instant_ns;
    reader->has_high = true;
    reader->stats.waiting = cdl_log_queue_count(&reader->queue);
    if (reader->queue.bytes > reader->stats.waiting_bytes_most)
        reader->stats.waiting_bytes_most = reader->queue.bytes;
    return true;
}

/* Reads the first record of a file, before any is merged. CDL_LOG_RECORD: go on. */
static enum cdl_log_result begin_source(struct cdl_log_reader *reader, struct caudal_problem *problem)
{
    const uint32_t index = (uint32_t)(reader->settings.path_count - reader->unread);
    struct source *source = &reader->sources[index];
    const enum cdl_log_result result = source->has_format ? advance(reader, source, problem) : CDL_LOG_END;
    if (result == CDL_LOG_STOPPED)
        return result;
    reader->unread--;
    if (result == CDL_LOG_RECORD)
        add_to_order(reader, index);
    return result == CDL_LOG_FAILED ? result : CDL_LOG_RECORD;
}

/* Takes in the earliest record of all files, and reads on in its file. */
static enum cdl_log_result take_in(struct cdl_log_reader *reader, struct caudal_problem *problem)
{
    const uint32_t index = reader->order[0];
    struct source *source = &reader->sources[index];
    if (source->has_record && !hold_back(reader, index)) {
        cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
        return CDL_LOG_FAILED;
    }
    source->has_record = false; /* so that one that is stopped here is not taken in twice */
    const enum cdl_log_result result = advance(reader, source, problem);
    if (result == CDL_LOG_RECORD)
        sink_into_order(reader, index);
    else if (result != CDL_LOG_STOPPED)
        remove_top(reader);
    return result == CDL_LOG_END ? CDL_LOG_RECORD : result;
}

enum cdl_log_result cdl_log_reader_next(struct cdl_log_reader *reader, struct cdl_access_record *record,
                                        struct cdl_log_origin *origin, struct caudal_problem *problem)
{
    if (reader->out != NULL)
        cdl_log_queue_drop(&reader->queue, reader->out);
    reader->out = NULL;
    for (;;) {
        enum cdl_log_result result = CDL_LOG_RECORD;
        if (is_stopped(reader))
            return CDL_LOG_STOPPED;
        if (reader->unread > 0)
            result = begin_source(reader, problem);
        else if (is_due(reader))
            return give(reader, record, origin);
        else if (reader->order_count > 0)
            result = take_in(reader, problem);
        else
            return CDL_LOG_END;
        if (result != CDL_LOG_RECORD)
            return result;
    }
}

/* ---- opening ---- */

static int find_format(struct cdl_log_reader *reader, struct source *source, struct caudal_problem *problem)
{
    struct cdl_slice lines[CDL_ACCESS_SAMPLE_LINES];
    struct caudal_problem found;
    const size_t count = cdl_log_source_sample(&source->file, lines, CDL_ACCESS_SAMPLE_LINES);
    source->format.name = "";
    if (count == 0 && source->file.ended)
        return CAUDAL_OK;
    if (count == 0 && source->file.failed)
        return cdl_problem(problem, source->file.failure.code, 0, "%s", source->file.failure.message);
    if (is_stopped(reader))
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "%s: stopped while it was opened", source->file.path);
    const int status = cdl_access_format_detect(&reader->settings.access, lines, count, &reader->arena,
                                                &source->scratch, &source->format, &source->detection, &found);
    if (status != CAUDAL_OK)
        return cdl_problem(problem, status, 0, "%s: %s", source->file.path, found.message);
    source->has_format = true;
    cdl_access_parser_init(&source->parser, &source->format);
    return CAUDAL_OK;
}

static int open_source(struct cdl_log_reader *reader, struct source *source, const char *path,
                       struct caudal_problem *problem)
{
    char *scratch = cdl_allocate(reader->allocator, CDL_ACCESS_SCRATCH_BYTES, 1, 64);
    source->path = path;
    if (scratch == NULL)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    source->scratch = cdl_writer_on(scratch, CDL_ACCESS_SCRATCH_BYTES);
    const int status = cdl_log_source_open(&source->file, path, reader->settings.stop, reader->allocator, problem);
    return status != CAUDAL_OK ? status : find_format(reader, source, problem);
}

static int open_sources(struct cdl_log_reader *reader, struct caudal_problem *problem)
{
    const struct cdl_log_reader_settings *settings = &reader->settings;
    size_t inputs = 0;
    int status = CAUDAL_OK;
    for (size_t i = 0; i < settings->path_count && status == CAUDAL_OK; i++) {
        inputs += strcmp(settings->paths[i], "-") == 0;
        if (inputs > 1)
            return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "-: standard input can be read once only");
        status = open_source(reader, &reader->sources[i], settings->paths[i], problem);
    }
    return status;
}

int cdl_log_reader_open(const struct cdl_log_reader_settings *settings, struct cdl_log_reader **made,
                        struct caudal_problem *problem)
{
    const struct caudal_allocator *allocator = settings->allocator != NULL ? settings->allocator
                                                                           : cdl_allocator_default();
    *made = NULL;
    if (settings->path_count == 0)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "no log is named");
    struct cdl_log_reader *reader = cdl_allocate(allocator, 1, sizeof *reader, 64);
    if (reader == NULL)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    reader->settings = *settings;
    reader->allocator = allocator;
    reader->unread = settings->path_count;
    reader->stats.hurried_window_ns = settings->window_ns;
    cdl_arena_init(&reader->arena, allocator);
    cdl_log_queue_init(&reader->queue, allocator);
    reader->sources = cdl_allocate(allocator, settings->path_count, sizeof *reader->sources, 64);
    reader->order = cdl_allocate(allocator, settings->path_count, sizeof *reader->order, 64);
    for (size_t i = 0; reader->sources != NULL && i < settings->path_count; i++)
        reader->sources[i].file.fd = -1;
    const int status = reader->sources == NULL || reader->order == NULL
                           ? cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory")
                           : open_sources(reader, problem);
    if (status == CAUDAL_OK)
        *made = reader;
    else
        cdl_log_reader_close(reader);
    return status;
}

void cdl_log_reader_close(struct cdl_log_reader *reader)
{
    if (reader == NULL)
        return;
    const struct caudal_allocator *allocator = reader->allocator;
    const size_t count = reader->settings.path_count;
    for (size_t i = 0; reader->sources != NULL && i < count; i++) {
        cdl_log_source_close(&reader->sources[i].file);
        cdl_release(allocator, reader->sources[i].scratch.bytes, CDL_ACCESS_SCRATCH_BYTES, 1);
    }
    if (reader->out != NULL)
        cdl_log_queue_drop(&reader->queue, reader->out);
    cdl_log_queue_free(&reader->queue);
    cdl_arena_free(&reader->arena);
    cdl_release(allocator, reader->sources, count, sizeof *reader->sources);
    cdl_release(allocator, reader->order, count, sizeof *reader->order);
    cdl_release(allocator, reader, 1, sizeof *reader);
}

/* ---- figures ---- */

const struct cdl_log_stats *cdl_log_reader_stats(const struct cdl_log_reader *reader)
{
    return &reader->stats;
}

void cdl_log_reader_source(const struct cdl_log_reader *reader, size_t index, struct cdl_log_source_stats *stats)
{
    const struct source *source = &reader->sources[index];
    *stats = (struct cdl_log_source_stats){
        .path = source->path,
        .format = source->format.name,
        .sample_lines = source->detection.lines,
        .sample_parsed = source->detection.parsed,
        .lines = source->lines,
        .parsed = source->parsed,
        .failed = source->failed,
    };
}

void cdl_log_reader_progress(const struct cdl_log_reader *reader, uint64_t *bytes, uint64_t *total)
{
    bool is_known = true;
    *bytes = *total = 0;
    for (size_t i = 0; i < reader->settings.path_count; i++) {
        const struct cdl_log_source *file = &reader->sources[i].file;
        *bytes += file->bytes;
        *total += file->size;
        is_known &= file->has_size;
    }
    if (!is_known)
        *total = 0;
}
