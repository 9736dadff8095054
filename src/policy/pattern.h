/* Patterns of a policy: of words ("partner-*") and of paths ("/v1/{team}").
 *
 * In a word '*' stands for any run of bytes, also none. There is no escape: a word with a literal '*' cannot be asked for.
 *
 * A path pattern is compared segment by segment with a normalised path:
 *     word      itself
 *     wo*rd     '*' is any run of bytes without '/'
 *     *, {x}    any one segment
 *     * last    any rest, also none: after "/v1" it matches "/v1", "/v1/a" and "/v1/a/b", not "/v10"
 * "/v1/{x}" is how to ask for exactly one segment at the end. There is no "**". */
#ifndef CDL_POLICY_PATTERN_H
#define CDL_POLICY_PATTERN_H

#include <stdint.h>

#include "base/arena.h"
#include "base/writer.h"

#define CDL_PATTERN_BYTES_MAX 1024u
#define CDL_PATH_SEGMENTS_MAX 32u

/* Whether a word matches. The parts between stars do not overlap: "ba*ab" does not match "bab". Time linear in both. */
bool cdl_glob_match(struct cdl_slice pattern, struct cdl_slice text);

static inline bool cdl_has_star(struct cdl_slice text)
{
    return text.length > 0 && memchr(text.bytes, '*', text.length) != NULL;
}

enum cdl_segment_kind {
    CDL_SEGMENT_WORD,
    CDL_SEGMENT_GLOB,
    CDL_SEGMENT_ANY,  /* '*' */
    CDL_SEGMENT_NAME, /* "{x}" */
};

struct cdl_segment {
    enum cdl_segment_kind kind;
    struct cdl_slice text;
};

struct cdl_path_pattern {
    struct cdl_slice text;              /* normalised as paths are */
    const struct cdl_segment *segments; /* without a final '*' */
    uint8_t count;
    bool any_rest;         /* ends in '*' */
    uint8_t names;         /* how many segments are "{x}" */
    uint8_t literal_depth; /* so many segments at the start are words, */
    size_t literal_length; /* which are so many bytes of `text`: every path that matches begins with them */
};

/* Reads a path pattern; its parts live in the arena. On failure *why is a constant that follows the offending pattern. */
bool cdl_path_pattern_parse(struct cdl_slice text, struct cdl_arena *arena, struct cdl_path_pattern *pattern,
                            const char **why);

bool cdl_path_pattern_match(const struct cdl_path_pattern *pattern, struct cdl_slice path);

/* The pattern with each "{x}" replaced by the segment that stands there in `path`, which must match: "/users/7" for
 * "/users/{id}". Different segments give different texts, since none holds a '/'. */
void cdl_path_pattern_fill(const struct cdl_path_pattern *pattern, struct cdl_slice path, struct cdl_writer *writer);

#endif
