/* What the parts of a study share: study_variants.c, study_headroom.c and study_bounds.c each own a piece of the rule and of every key's
 * state, and study.c knows what all of them need: where in its window, eighth of a period, cell and second an instant lies. Requests
 * come in order of time, so those places are found once for all keys and not once a request.
 *
 * Range. Instants have 63 bits, counts and periods of legal limits fewer than 62, a capacity 40. Tokens that are added up over requests
 * stop at CDL_STUDY_TOKENS_MAX, so that a product with a period fits 127 bits whatever a request costs. */
#ifndef CDL_REPLAY_STUDY_PARTS_H
#define CDL_REPLAY_STUDY_PARTS_H

#include "algorithm/sliding_log.h"
#include "algorithm/token_bucket.h"
#include "algorithm/window.h"
#include "replay/study.h"

#define CDL_STUDY_TOKENS_MAX (UINT64_C(1) << 62)
/* Eighths of a period. */
#define CDL_STUDY_SLOTS 8u
/* The ladder without the limit's own rate, which is counted exactly. */
#define CDL_STUDY_OTHER_RATES (CDL_STUDY_RATES - 1)

/* From `begin_ns` to `last_ns`, both included: the window, eighth, cell or second that was asked for last. */
struct cdl_study_span {
    int64_t begin_ns, last_ns;
};

/* What most can be refused when stamps are coarse. */
enum cdl_study_most {
    CDL_MOST_AS_STAMPED, /* what is refused at the stamps as they are; and no less */
    CDL_MOST_OF_BUCKET,
    CDL_MOST_OF_LOG,
    CDL_MOST_OF_WINDOW,
    CDL_MOST_ALL,
};

struct cdl_study_rule {
    struct caudal_limit limit;
    const struct caudal_allocator *allocator;
    bool is_unlimited;
    size_t key_bytes;

    /* Where the last request was, and all four together. */
    struct cdl_study_span window, eighth, cell, second, place;
    int64_t window_index;
    uint64_t eighth_index; /* modulo 2^64, of which a period of a nanosecond uses all */

    /* Variants. The bucket is the limit itself where that is one. */
    struct cdl_window_rule fixed, sliding;
    struct cdl_token_clock clock;
    uint64_t refill_ns; /* from empty to full; UINT64_MAX: never */
    bool is_wide;       /* an eighth of a period may see 2^32 tokens or more */

    /* Headroom at other rates: in parts of which a token has `token_parts`, the period of the rate in lowest terms. */
    uint64_t token_parts;
    double token, parts_per_ns[CDL_STUDY_OTHER_RATES];
    bool
        is_exact; /* backlogs that are small enough suffer no rounding, at rates that are the limit's times a power of 2 */

    /* Bounds; cell_ns is 0 when they are not wanted. */
    int64_t cell_ns;
    enum cdl_study_most most;
    struct cdl_log_rule log, long_log;
    struct cdl_log_pool pool;
};

/* ---- a key ---- */

struct cdl_study_variants {
    uint64_t full_at; /* the bucket */
    struct cdl_window_state fixed, sliding;
    uint64_t refused[CDL_STUDY_VARIANTS];
    uint64_t passed[CDL_STUDY_VARIANTS]; /* tokens in the last eight eighths: the sum of the slots */
    uint64_t most[CDL_STUDY_VARIANTS];
    uint64_t eighth_index; /* of the newest slot */
    uint32_t slots[CDL_STUDY_SLOTS]
                  [CDL_STUDY_VARIANTS]; /* lower halves; the upper ones, of wide rules, end the key's state */
};

struct cdl_study_headroom {
    double backlog[CDL_STUDY_OTHER_RATES];      /* parts that a bucket without bottom is short of */
    double most_backlog[CDL_STUDY_OTHER_RATES]; /* the largest */
    /* The same at the limit's own rate, in parts of which a token has the limit's period. */
    cdl_i128 own_backlog __attribute__((packed, aligned(8)));
    cdl_i128 own_most __attribute__((packed, aligned(8)));
    struct cdl_window_state asked;                             /* a window that refuses nothing */
    uint64_t window_most;                                      /* tokens */
    cdl_i128 sliding_most __attribute__((packed, aligned(8))); /* tokens times period */
};

union cdl_study_state {
    uint64_t full_at;
    struct cdl_window_state window;
    struct cdl_log log;
};

struct cdl_study_bounds {
    uint64_t cost;      /* of each request */
    int64_t cell_ns;    /* the beginning of the last one's cell */
    int64_t instant_ns; /* how far the patient have come */
    uint64_t room;      /* tokens that this cell may still have of a bucket in the worst case */
    uint64_t refused_least, refused_most;
    union cdl_study_state least, most;
    bool is_lost;                         /* costs differ, or memory was short */
    bool least_is_closed, most_is_closed; /* nothing more passes in this cell */
};

struct cdl_study_key {
    int64_t at_ns; /* of the last request */
    uint64_t requests;
    uint64_t second_tokens, second_most;
    struct cdl_study_variants variants;
    struct cdl_study_headroom headroom;
    /* Then, of rules with cells, struct cdl_study_bounds; then, of wide rules, the upper halves of the slots. */
};

/* A request, as all parts see it. */
struct cdl_study_request {
    int64_t at_ns;
    int64_t before_ns; /* the key's last one; at_ns for its first */
    uint64_t cost;
    bool is_first;
};

static inline bool cdl_study_covers(const struct cdl_study_span *span, int64_t at_ns)
{
    return (uint64_t)at_ns - (uint64_t)span->begin_ns <= (uint64_t)span->last_ns - (uint64_t)span->begin_ns;
}

static inline uint64_t cdl_study_add(uint64_t a, uint64_t b)
{
    return b > CDL_STUDY_TOKENS_MAX - a ? CDL_STUDY_TOKENS_MAX : a + b;
}

static inline struct cdl_window_moment cdl_study_window(const struct cdl_study_rule *rule, int64_t at_ns)
{
    return (struct cdl_window_moment){rule->window_index, at_ns - rule->window.begin_ns};
}

/* What cdl_window_decide does to a state, without an answer's numbers and its divisions. */
static inline bool cdl_study_take_of_window(const struct cdl_window_rule *window, struct cdl_window_moment moment,
                                            struct cdl_window_state *state, uint64_t cost)
{
    struct cdl_window_view view = cdl_window_look(window, moment, false, state);
    if (!cdl_window_fits(window, &view, cost))
        return false;
    view.state.current += cost;
    *state = view.state;
    return true;
}

/* Moves the clock's window, if it must, so that it covers `at_ns`. Its reading goes on without a break, so a key's word needs no
 * revision: a bucket that was left alone for as long as it takes to refill is taken as full, and the reading of any other is less
 * than 2^63 away. */
static inline void cdl_study_cover(struct cdl_study_rule *rule, int64_t at_ns)
{
    if (__builtin_expect(!cdl_token_clock_covers(&rule->clock, at_ns), false))
        cdl_token_clock_recentre(&rule->clock, at_ns);
}

/* Whether a bucket that was last looked at at `before_ns` is full at `at_ns`, however empty it was. */
static inline bool cdl_study_has_refilled(const struct cdl_study_rule *rule, int64_t before_ns, int64_t at_ns)
{
    return (uint64_t)at_ns - (uint64_t)before_ns >= rule->refill_ns;
}

/* ---- study_variants.c ---- */

void cdl_study_variants_init(struct cdl_study_rule *rule);
/* `upper`: of a wide rule. The rule knows where the request is. */
void cdl_study_variants_note(struct cdl_study_rule *rule, struct cdl_study_variants *variants, uint32_t *upper,
                             const struct cdl_study_request *request);
void cdl_study_variants_find(const struct cdl_study_variants *variants, struct cdl_study_findings *findings);

/* ---- study_headroom.c ---- */

void cdl_study_headroom_init(struct cdl_study_rule *rule);
void cdl_study_headroom_note(const struct cdl_study_rule *rule, struct cdl_study_headroom *headroom,
                             const struct cdl_study_request *request);
/* After `requests` was found. */
void cdl_study_headroom_find(const struct cdl_study_rule *rule, const struct cdl_study_headroom *headroom,
                             struct cdl_study_findings *findings);

/* ---- study_bounds.c ---- */

void cdl_study_bounds_init(struct cdl_study_rule *rule);
void cdl_study_bounds_free(struct cdl_study_rule *rule);
void cdl_study_bounds_note(struct cdl_study_rule *rule, struct cdl_study_bounds *bounds,
                           const struct cdl_study_request *request);
/* After the variants were found. */
void cdl_study_bounds_find(const struct cdl_study_rule *rule, const struct cdl_study_bounds *bounds,
                           struct cdl_study_findings *findings);

#endif
