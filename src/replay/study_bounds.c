/* How few and how many a limit may have refused, when stamps tell no more than a request's cell.
 *
 * All requests of a key cost the same, so those of a cell are interchangeable: they come into the cell together and have to be through
 * with it together.
 *
 * Least. Whoever is admitted earlier leaves no less for those behind: what refills or expires by itself does so from then on. And who is
 * admitted takes from those behind no more than the one place that he takes. So nothing is better than to admit each at the first moment
 * that is in his cell and not before the one ahead of him, and that is what the patient do. It is asked for by the limit's own wait. He whose
 * wait ends beyond the cell is refused where he stands, and so are all behind him in this cell: they would be told the same.
 *
 * Most. A set of requests that conforms wherever they stand in their cells is no larger than what the limit admits at any one placement: it
 * admits as many as can be. So whom such a set leaves out is a bound. To build it up greedily:
 *
 *   token bucket    It conforms when in cells i to j, i < j, there are at most B + r·(j - i - 1)·cell, and in one cell at most B. With D(k) what
 *                   a bucket charged at the beginnings of cells is short of at the beginning of k, that cell's charges included, the largest
 *                   of "what is in i to j - 1, less r·(j - 1 - i)·cell" is D(j - 1), and it is not below 0. So cell j may have
 *                   B - D(j - 1): what a peek at the beginning of cell j - 1 tells, before anybody of cell j is charged. Cells without
 *                   requests are nothing but time to it. Where a clock's readings are rounded, they are by less than a unit, and stamps
 *                   of whole nanoseconds leave the last of one cell and the first of the next one nanosecond apart, of a unit or more:
 *                   that this is not counted makes up for it.
 *   sliding log     Whoever is in cells i and j can be within a period when (j - i - 1)·cell + 1 ns is below it, and at the beginnings of
 *                   cells that is a log of period + cell - 1 ns.
 *   sliding window  Of a period that cells divide: who comes later in a cell meets an estimate that is no higher. So all at the beginning
 *                   is the worst, and a placement.
 *   fixed window    Of a period that cells divide: where in its cell a request comes makes no difference.
 *
 * Any other window has an edge within a cell, and is left at "all of them". */
#include "replay/study_parts.h"

#include <string.h>

#include "base/memory.h"

/* Chunks of entries that all keys of a sliding_log may have together: 256 MiB. A key that needs more has no bounds. */
#define CHUNKS_FIRST 1024u
#define CHUNKS_MAX (UINT32_C(1) << 22)

static enum cdl_study_most most_of(const struct cdl_study_rule *rule)
{
    const bool cells_divide = !rule->is_unlimited && rule->limit.period_ns % (uint64_t)rule->cell_ns == 0;
    switch (rule->limit.algorithm) {
    case CAUDAL_TOKEN_BUCKET:
        return CDL_MOST_OF_BUCKET;
    case CAUDAL_SLIDING_LOG:
        return CDL_MOST_OF_LOG;
    case CAUDAL_SLIDING_WINDOW:
        return cells_divide ? CDL_MOST_OF_WINDOW : CDL_MOST_ALL;
    case CAUDAL_FIXED_WINDOW:
        return cells_divide ? CDL_MOST_AS_STAMPED : CDL_MOST_ALL;
    case CAUDAL_UNLIMITED:
        break;
    }
    return CDL_MOST_AS_STAMPED;
}

void cdl_study_bounds_init(struct cdl_study_rule *rule)
{
    const int64_t period_ns = (int64_t)rule->limit.period_ns;
    rule->most = most_of(rule);
    rule->log = (struct cdl_log_rule){rule->limit.count, period_ns};
    rule->long_log = (struct cdl_log_rule){rule->limit.count, cdl_clamp_i64((cdl_i128)period_ns + rule->cell_ns - 1)};
}

void cdl_study_bounds_free(struct cdl_study_rule *rule)
{
    cdl_release(rule->allocator, rule->pool.chunks, rule->pool.count, sizeof *rule->pool.chunks);
}

/* ---- the limit itself ---- */

static struct caudal_decision ask_bucket(struct cdl_study_rule *rule, uint64_t *full_at, int64_t now_ns,
                                         struct cdl_question question)
{
    struct caudal_decision decision;
    cdl_study_cover(rule, now_ns);
    cdl_token_bucket_decide(&rule->clock, now_ns, false, full_at, &question, &decision);
    return decision;
}

/* A bucket that is full at an instant. */
static uint64_t full_bucket(struct cdl_study_rule *rule, int64_t at_ns)
{
    cdl_study_cover(rule, at_ns);
    return cdl_token_moment(&rule->clock, at_ns).reading;
}

static struct caudal_decision ask_window(const struct cdl_study_rule *rule, struct cdl_window_state *state,
                                         int64_t now_ns, uint64_t cost)
{
    const struct cdl_window_rule *window = rule->limit.algorithm == CAUDAL_FIXED_WINDOW ? &rule->fixed : &rule->sliding;
    const struct cdl_question question = cdl_question_take(cost);
    struct caudal_decision decision = {.verdict = CAUDAL_ALLOW};
    if (!cdl_study_covers(&rule->window, now_ns) ||
        !cdl_study_take_of_window(window, cdl_study_window(rule, now_ns), state, cost))
        cdl_window_decide(window, now_ns, false, state, &question, &decision);
    return decision;
}

static bool grow(struct cdl_study_rule *rule)
{
    struct cdl_log_pool *pool = &rule->pool;
    const uint32_t count = pool->count == 0 ? CHUNKS_FIRST : 2 * pool->count;
    struct cdl_log_chunk *chunks = count > CHUNKS_MAX
                                       ? NULL
                                       : cdl_allocate(rule->allocator, count, sizeof *chunks, sizeof *chunks);
    if (chunks == NULL)
        return false;
    if (pool->count == 0) {
        cdl_log_pool_init(pool, chunks, count);
        return true;
    }
    memcpy(chunks, pool->chunks, pool->count * sizeof *chunks);
    cdl_release(rule->allocator, pool->chunks, pool->count, sizeof *chunks);
    pool->chunks = chunks;
    pool->free_count += count - pool->count;
    pool->count = count;
    return true;
}

static struct caudal_decision ask_log(struct cdl_study_rule *rule, const struct cdl_log_rule *log_rule,
                                      struct cdl_log *log, int64_t now_ns, uint64_t cost)
{
    const struct cdl_question question = cdl_question_take(cost);
    struct caudal_decision decision = {.verdict = CAUDAL_NO_VERDICT};
    if (rule->pool.free_count > 0 || grow(rule))
        cdl_log_decide(log_rule, now_ns, log, &rule->pool, &question, &decision);
    return decision;
}

static void lose(struct cdl_study_rule *rule, struct cdl_study_bounds *bounds)
{
    if (!bounds->is_lost && rule->most == CDL_MOST_OF_LOG) {
        cdl_log_clear(&bounds->least.log, &rule->pool);
        cdl_log_clear(&bounds->most.log, &rule->pool);
    }
    bounds->is_lost = true;
}

/* ---- the patient and the unlucky ---- */

static struct caudal_decision ask_patiently(struct cdl_study_rule *rule, struct cdl_study_bounds *bounds, uint64_t cost)
{
    switch (rule->limit.algorithm) {
    case CAUDAL_TOKEN_BUCKET:
        return ask_bucket(rule, &bounds->least.full_at, bounds->instant_ns, cdl_question_take(cost));
    case CAUDAL_SLIDING_LOG:
        return ask_log(rule, &rule->log, &bounds->least.log, bounds->instant_ns, cost);
    case CAUDAL_FIXED_WINDOW:
    case CAUDAL_SLIDING_WINDOW:
    case CAUDAL_UNLIMITED:
        break;
    }
    return ask_window(rule, &bounds->least.window, bounds->instant_ns, cost);
}

static enum caudal_verdict admit_least(struct cdl_study_rule *rule, struct cdl_study_bounds *bounds, uint64_t cost)
{
    const struct caudal_decision decision = ask_patiently(rule, bounds, cost);
    if (decision.verdict != CAUDAL_DENY || decision.retry_after_ns > rule->cell.last_ns - bounds->instant_ns)
        return decision.verdict;
    bounds->instant_ns += decision.retry_after_ns;
    return ask_patiently(rule, bounds, cost).verdict;
}

static enum caudal_verdict admit_most(struct cdl_study_rule *rule, struct cdl_study_bounds *bounds, uint64_t cost)
{
    const int64_t begin_ns = bounds->cell_ns;
    switch (rule->most) {
    case CDL_MOST_OF_BUCKET:
        if (bounds->room < cost)
            return CAUDAL_DENY;
        bounds->room -= cost;
        return ask_bucket(rule, &bounds->most.full_at, begin_ns, cdl_question_take(cost)).verdict;
    case CDL_MOST_OF_LOG:
        return ask_log(rule, &rule->long_log, &bounds->most.log, begin_ns, cost).verdict;
    case CDL_MOST_OF_WINDOW:
        return ask_window(rule, &bounds->most.window, begin_ns, cost).verdict;
    case CDL_MOST_AS_STAMPED:
    case CDL_MOST_ALL:
        break;
    }
    return CAUDAL_DENY;
}

static void open_cell(struct cdl_study_rule *rule, struct cdl_study_bounds *bounds, bool is_first)
{
    const int64_t begin_ns = rule->cell.begin_ns, before_ns = begin_ns - rule->cell_ns;
    if (rule->most == CDL_MOST_OF_BUCKET) {
        if (is_first || cdl_study_has_refilled(rule, bounds->instant_ns, begin_ns))
            bounds->least.full_at = full_bucket(rule, begin_ns);
        if (is_first || cdl_study_has_refilled(rule, bounds->cell_ns, before_ns))
            bounds->most.full_at = full_bucket(rule, before_ns);
        bounds->room = ask_bucket(rule, &bounds->most.full_at, before_ns, cdl_question_peek(0)).remaining;
    }
    bounds->cell_ns = begin_ns;
    bounds->instant_ns = begin_ns;
    bounds->least_is_closed = bounds->most_is_closed = false;
}

void cdl_study_bounds_note(struct cdl_study_rule *rule, struct cdl_study_bounds *bounds,
                           const struct cdl_study_request *request)
{
    const uint64_t cost = request->cost;
    if (request->is_first)
        bounds->cost = cost;
    if (bounds->is_lost || cost != bounds->cost) {
        lose(rule, bounds);
        return;
    }
    if (rule->most == CDL_MOST_AS_STAMPED)
        return;
    if (request->is_first || bounds->cell_ns != rule->cell.begin_ns)
        open_cell(rule, bounds, request->is_first);
    enum caudal_verdict least = CAUDAL_DENY, most = CAUDAL_DENY;
    if (!bounds->least_is_closed)
        least = admit_least(rule, bounds, cost);
    if (!bounds->most_is_closed)
        most = admit_most(rule, bounds, cost);
    bounds->least_is_closed = least != CAUDAL_ALLOW;
    bounds->most_is_closed = most != CAUDAL_ALLOW;
    bounds->refused_least += bounds->least_is_closed;
    bounds->refused_most += bounds->most_is_closed;
    if (least == CAUDAL_NO_VERDICT || most == CAUDAL_NO_VERDICT)
        lose(rule, bounds);
}

void cdl_study_bounds_find(const struct cdl_study_rule *rule, const struct cdl_study_bounds *bounds,
                           struct cdl_study_findings *findings)
{
    findings->has_bounds = !bounds->is_lost;
    if (bounds->is_lost)
        return;
    findings->refused_least = bounds->refused_least;
    findings->refused_most = bounds->refused_most;
    if (rule->most == CDL_MOST_AS_STAMPED)
        findings->refused_least = findings->refused_most = findings->variant_refused[CDL_STUDY_FIXED_WINDOW];
}
