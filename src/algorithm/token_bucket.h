/* The token bucket: at most B + r·t in any interval t, attained. State: one word, read on the limit's token clock.
 *
 * In the header because it is the hot path: a decision is some thirty instructions beside the memory it touches. */
#ifndef CDL_ALGORITHM_TOKEN_BUCKET_H
#define CDL_ALGORITHM_TOKEN_BUCKET_H

#include "algorithm/token_clock.h"

/* What is left at `reading` of a charge of `units` that was made at `charged_at`: all of it but what has been refilled since. That
 * is exact for a bucket that was full but for the charge, and less than could be given back to any other. */
static inline cdl_u128 cdl_token_bucket_left_of(const struct cdl_token_clock *clock, uint64_t reading,
                                                int64_t charged_at, cdl_u128 units)
{
    uint64_t part;
    if (!cdl_token_clock_covers(clock, charged_at))
        return 0;
    const int64_t refilled = (int64_t)(reading - cdl_token_clock_read(clock, charged_at, &part));
    if (refilled <= 0)
        return units;
    return units > (uint64_t)refilled ? units - (uint64_t)refilled : 0;
}

/* What a clock shows at an instant: V and its fraction. It does not depend on a bucket, so that many decisions share
 * it. */
struct cdl_token_moment {
    uint64_t reading;
    uint64_t part;
};

static inline struct cdl_token_moment cdl_token_moment(const struct cdl_token_clock *clock, int64_t now)
{
    struct cdl_token_moment moment;
    moment.reading = cdl_token_clock_read(clock, now, &moment.part);
    return moment;
}

/* How a question leaves a bucket. */
struct cdl_token_outcome {
    int64_t level;    /* units that were there; negative after a limit was lowered */
    int64_t debt;     /* units missing afterwards */
    uint64_t full_at; /* the bucket afterwards */
    uint64_t granted; /* tokens, of a peek as well */
    enum caudal_verdict verdict;
    bool changed; /* `full_at` is to be stored */
};

/* The first half of a decision: all that the new state needs and nothing else, no division for a plain take. `full_at`
 * is the bucket, or anything when `fresh` says that there is none yet (which is a full one). */
static inline struct cdl_token_outcome cdl_token_bucket_charge(const struct cdl_token_clock *clock,
                                                               struct cdl_token_moment moment, bool fresh,
                                                               uint64_t full_at, const struct cdl_question *question)
{
    const bool giving_back = question->operation == CDL_REFUND || question->operation == CDL_UNDO;
    int64_t debt = fresh ? 0 : cdl_max_i64(0, (int64_t)(full_at - moment.reading));
    bool changed = false;
    if (__builtin_expect((uint64_t)debt > clock->full_units + clock->skew_units, false)) {
        debt = (int64_t)clock->full_units;
        changed = true;
    }
    if (giving_back) {
        cdl_u128 units = (cdl_u128)question->maximum * clock->unit.value;
        if (question->operation == CDL_UNDO)
            units = cdl_token_bucket_left_of(clock, moment.reading, question->charged_monotonic_ns, units);
        debt = units >= (uint64_t)debt ? 0 : debt - (int64_t)units;
        changed = !fresh;
    }
    struct cdl_token_outcome outcome = {.level = (int64_t)clock->full_units - debt, .verdict = CAUDAL_ALLOW};
    if (!giving_back) {
        const uint64_t wanted = question->minimum;
        const uint64_t wanted_units = wanted *
                                      clock->unit.value; /* meaningless, and not looked at, above the capacity */
        if (wanted <= clock->capacity && (int64_t)wanted_units <= outcome.level)
            outcome.granted = wanted == question->maximum
                                  ? wanted
                                  : cdl_grant(question, cdl_divide((uint64_t)outcome.level, &clock->unit));
        else
            outcome.verdict = wanted > clock->capacity || clock->inverse == 0 ? CAUDAL_NEVER : CAUDAL_DENY;
    }
    outcome.debt = debt + (int64_t)(outcome.granted * clock->unit.value);
    outcome.full_at = moment.reading + (uint64_t)outcome.debt;
    /* Where one is anchored anew, nothing was granted. */
    outcome.changed = question->operation != CDL_PEEK &&
                      (changed || (question->operation == CDL_TAKE && outcome.granted > 0));
    return outcome;
}

/* The second half, the answer: fills in every field of the decision but status, source, binding and error_bound. Done
 * after the swap, for the processor begins a swap when all before it is done, and works on while it lasts. */
static inline void cdl_token_bucket_describe(const struct cdl_token_clock *clock, struct cdl_token_moment moment,
                                             const struct cdl_question *question,
                                             const struct cdl_token_outcome *outcome, struct caudal_decision *decision)
{
    const uint64_t left = clock->full_units - (uint64_t)outcome->debt; /* a negative number is beyond 2^63 */
    const bool denied = outcome->verdict == CAUDAL_DENY;
    decision->verdict = outcome->verdict;
    decision->capacity = clock->capacity;
    decision->granted = question->operation == CDL_TAKE ? outcome->granted : 0;
    /* Where one token was refused there is none. */
    decision->remaining = (int64_t)left < 0 || (denied && question->minimum == 1) ? 0 : cdl_divide(left, &clock->unit);
    decision->retry_after_ns = outcome->verdict == CAUDAL_ALLOW ? 0 : -1;
    if (denied)
        decision->retry_after_ns = cdl_token_clock_wait(
            clock, question->minimum * clock->unit.value - (uint64_t)outcome->level, moment.part);
    decision->reset_after_ns = outcome->debt == 0 ? 0
                               : clock->inverse == 0
                                   ? -1
                                   : cdl_token_clock_wait(clock, (uint64_t)outcome->debt, moment.part);
}

/* Both halves at `now`, which the clock must cover. Returns true when the state changed: `*full_at` is then to be
 * stored. */
static inline bool cdl_token_bucket_decide(const struct cdl_token_clock *clock, int64_t now, bool fresh,
                                           uint64_t *full_at, const struct cdl_question *question,
                                           struct caudal_decision *decision)
{
    const struct cdl_token_moment moment = cdl_token_moment(clock, now);
    const struct cdl_token_outcome outcome = cdl_token_bucket_charge(clock, moment, fresh, *full_at, question);
    cdl_token_bucket_describe(clock, moment, question, &outcome, decision);
    *full_at = outcome.full_at;
    return outcome.changed;
}

/* Nanoseconds until the bucket is full, which is the same as absent; 0 when it is, INT64_MAX when it never will be. */
static inline int64_t cdl_token_bucket_time_to_full(const struct cdl_token_clock *clock, int64_t now, uint64_t full_at)
{
    uint64_t part;
    const int64_t debt = (int64_t)(full_at - cdl_token_clock_read(clock, now, &part));
    if (debt <= 0)
        return 0;
    return clock->inverse == 0 ? INT64_MAX : cdl_token_clock_wait(clock, (uint64_t)debt, part);
}

#endif
