#include "policy/pattern.h"

#include "identity/path.h"

/* The part up to the next star, or all of it. */
static struct cdl_slice next_piece(struct cdl_slice pattern)
{
    const char *star = pattern.length > 0 ? memchr(pattern.bytes, '*', pattern.length) : NULL;
    return star == NULL ? pattern : cdl_slice_head(pattern, (size_t)(star - pattern.bytes));
}

static bool starts_with(struct cdl_slice text, struct cdl_slice head)
{
    return text.length >= head.length && cdl_slice_equal(cdl_slice_head(text, head.length), head);
}

static bool ends_with(struct cdl_slice text, struct cdl_slice tail)
{
    return text.length >= tail.length && cdl_slice_equal(cdl_slice_from(text, text.length - tail.length), tail);
}

/* The first piece is bound to the start and the last to the end; each between them is taken where it first occurs, which
 * leaves most to those that follow. */
bool cdl_glob_match(struct cdl_slice pattern, struct cdl_slice text)
{
    struct cdl_slice piece = next_piece(pattern);
    if (piece.length == pattern.length)
        return cdl_slice_equal(pattern, text);
    if (!starts_with(text, piece))
        return false;
    text = cdl_slice_from(text, piece.length);
    pattern = cdl_slice_from(pattern, piece.length + 1);
    for (;;) {
        piece = next_piece(pattern);
        if (piece.length == pattern.length)
            return ends_with(text, piece);
        if (piece.length > 0) {
            const char *found = memmem(text.bytes, text.length, piece.bytes, piece.length);
            if (found == NULL)
                return false;
            text = cdl_slice_from(text, (size_t)(found - text.bytes) + piece.length);
        }
        pattern = cdl_slice_from(pattern, piece.length + 1);
    }
}

/* Takes the first segment off a path that is empty or begins with '/'. */
static bool next_segment(struct cdl_slice *path, struct cdl_slice *segment)
{
    if (path->length <= 1)
        return false;
    struct cdl_slice rest = cdl_slice_from(*path, 1);
    const char *slash = memchr(rest.bytes, '/', rest.length);
    *segment = slash == NULL ? rest : cdl_slice_head(rest, (size_t)(slash - rest.bytes));
    *path = cdl_slice_from(rest, segment->length);
    return true;
}

static bool is_name(struct cdl_slice segment)
{
    return segment.length > 2 && segment.bytes[0] == '{' && segment.bytes[segment.length - 1] == '}';
}

static bool has_any(struct cdl_slice text, const char *bytes)
{
    for (size_t i = 0; i < text.length; i++)
        if (strchr(bytes, text.bytes[i]) != NULL)
            return true;
    return false;
}

static const char *judge_segment(struct cdl_slice segment)
{
    if (segment.length == 0)
        return "has an empty segment; write one '/' between segments and none at the end";
    if (cdl_slice_equal(segment, CDL_SLICE(".")) || cdl_slice_equal(segment, CDL_SLICE("..")))
        return "has a '.' or '..' segment, which no path has after normalisation";
    if (cdl_slice_equal(segment, CDL_SLICE("**")))
        return "has '**'; a '*' at the end matches any rest, elsewhere it matches one segment";
    if (is_name(segment))
        segment = (struct cdl_slice){segment.bytes + 1, segment.length - 2};
    if (has_any(segment, "{}"))
        return "has a brace; a {name} fills a whole segment";
    return NULL;
}

static enum cdl_segment_kind segment_kind(struct cdl_slice segment)
{
    if (is_name(segment))
        return CDL_SEGMENT_NAME;
    if (cdl_slice_equal(segment, CDL_SLICE("*")))
        return CDL_SEGMENT_ANY;
    return cdl_has_star(segment) ? CDL_SEGMENT_GLOB : CDL_SEGMENT_WORD;
}

/* Words of a pattern are written as normalised paths have them, so that "/%7Euser" and "/~user" are the same pattern. */
static bool write_segment(struct cdl_slice segment, struct cdl_writer *writer)
{
    if (is_name(segment)) {
        cdl_write(writer, CDL_SLICE("/"));
        cdl_write(writer, segment);
        return true;
    }
    char buffer[CDL_PATTERN_BYTES_MAX + 1];
    struct cdl_writer raw = cdl_writer_on(buffer, sizeof buffer);
    cdl_write(&raw, CDL_SLICE("/"));
    cdl_write(&raw, segment);
    return !raw.overflow && cdl_path_normalise(cdl_written(&raw), writer);
}

struct parts {
    struct cdl_segment segments[CDL_PATH_SEGMENTS_MAX];
    size_t count;
    char buffer[3 * CDL_PATTERN_BYTES_MAX]; /* an escape is three bytes for one */
};

static const char *split(struct cdl_slice text, struct parts *parts, struct cdl_writer *writer)
{
    if (text.length == 0 || text.bytes[0] != '/')
        return "does not begin with '/'";
    if (text.length > CDL_PATTERN_BYTES_MAX)
        return "is longer than 1024 bytes";
    if (has_any(text, "?#"))
        return "has a query or a fragment; a path pattern is only the path (use query.NAME for parameters)";
    struct cdl_slice segment;
    while (next_segment(&text, &segment)) {
        const char *why = judge_segment(segment);
        if (why != NULL)
            return why;
        if (parts->count == CDL_PATH_SEGMENTS_MAX)
            return "has more than 32 segments";
        size_t before = writer->length;
        if (!write_segment(segment, writer) || writer->overflow)
            return "cannot be normalised as a path";
        if (writer->length - before <= 1)
            return "has a '.' or '..' segment, which no path has after normalisation";
        struct cdl_slice written = {writer->bytes + before + 1, writer->length - before - 1};
        parts->segments[parts->count++] = (struct cdl_segment){segment_kind(segment), written};
    }
    /* "/a/" leaves a lone '/'; the pattern "/" itself is the root. */
    return text.length == 1 && parts->count > 0 ? "ends in '/'; normalised paths do not" : NULL;
}

static void measure(struct cdl_path_pattern *pattern)
{
    bool literal = true;
    for (size_t i = 0; i < pattern->count; i++) {
        const struct cdl_segment *segment = &pattern->segments[i];
        literal = literal && segment->kind == CDL_SEGMENT_WORD;
        if (literal) {
            pattern->literal_depth++;
            pattern->literal_length += 1 + segment->text.length;
        }
        pattern->names = (uint8_t)(pattern->names + (segment->kind == CDL_SEGMENT_NAME));
    }
}

static bool keep(const struct parts *parts, struct cdl_slice written, struct cdl_arena *arena,
                 struct cdl_path_pattern *pattern)
{
    pattern->text = cdl_arena_copy(arena, written.length > 0 ? written : CDL_SLICE("/"));
    struct cdl_segment *segments = cdl_arena_allocate(arena, parts->count, sizeof *segments);
    if (segments == NULL || arena->failed)
        return false;
    for (size_t i = 0; i < parts->count; i++) {
        size_t offset = (size_t)(parts->segments[i].text.bytes - written.bytes);
        segments[i].kind = parts->segments[i].kind;
        segments[i].text = (struct cdl_slice){pattern->text.bytes + offset, parts->segments[i].text.length};
    }
    pattern->segments = segments;
    return true;
}

bool cdl_path_pattern_parse(struct cdl_slice text, struct cdl_arena *arena, struct cdl_path_pattern *pattern,
                            const char **why)
{
    struct parts parts;
    parts.count = 0;
    struct cdl_writer writer = cdl_writer_on(parts.buffer, sizeof parts.buffer);
    *why = split(text, &parts, &writer);
    if (*why != NULL)
        return false;
    *pattern = (struct cdl_path_pattern){.count = 0};
    if (!keep(&parts, cdl_written(&writer), arena, pattern)) {
        *why = "cannot be kept: memory is short";
        return false;
    }
    pattern->any_rest = parts.count > 0 && parts.segments[parts.count - 1].kind == CDL_SEGMENT_ANY;
    pattern->count = (uint8_t)(parts.count - pattern->any_rest);
    measure(pattern);
    return true;
}

static bool segment_matches(const struct cdl_segment *segment, struct cdl_slice text)
{
    switch (segment->kind) {
    case CDL_SEGMENT_WORD:
        return cdl_slice_equal(segment->text, text);
    case CDL_SEGMENT_GLOB:
        return cdl_glob_match(segment->text, text);
    case CDL_SEGMENT_ANY:
    case CDL_SEGMENT_NAME:
        break;
    }
    return true;
}

bool cdl_path_pattern_match(const struct cdl_path_pattern *pattern, struct cdl_slice path)
{
    if (path.length == 0)
        return false;
    struct cdl_slice segment;
    for (size_t i = 0; i < pattern->count; i++)
        if (!next_segment(&path, &segment) || !segment_matches(&pattern->segments[i], segment))
            return false;
    return pattern->any_rest || path.length <= 1;
}

void cdl_path_pattern_fill(const struct cdl_path_pattern *pattern, struct cdl_slice path, struct cdl_writer *writer)
{
    struct cdl_slice segment = {NULL, 0};
    for (size_t i = 0; i < pattern->count && next_segment(&path, &segment); i++) {
        cdl_write(writer, CDL_SLICE("/"));
        cdl_write(writer, pattern->segments[i].kind == CDL_SEGMENT_NAME ? segment : pattern->segments[i].text);
    }
    if (pattern->any_rest)
        cdl_write(writer, CDL_SLICE("/*"));
}
