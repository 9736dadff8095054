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

/* Decides on one bucket at `now`, which the clock must cover. `*full_at` is the bucket, or anything when `fresh` says that
 * there is none yet (which is a full one). Fills in every field of the decision but status, source, binding and
 * error_bound. Returns true when the state changed: `*full_at` is then to be stored. */
static inline bool cdl_token_bucket_decide(const struct cdl_token_clock *clock, int64_t now, bool fresh,
                                           uint64_t *full_at, const struct cdl_question *question,
                                           struct caudal_decision *decision)
{
    uint64_t part;
    const uint64_t reading = cdl_token_clock_read(clock, now, &part);
    const bool giving_back = question->operation == CDL_REFUND || question->operation == CDL_UNDO;

    int64_t debt = fresh ? 0 : cdl_max_i64(0, (int64_t)(*full_at - reading));
    bool changed = false;
    if ((uint64_t)debt > clock->full_units + clock->skew_units) {
        debt = (int64_t)clock->full_units;
        changed = true;
    }
    if (giving_back) {
        cdl_u128 units = (cdl_u128)question->maximum * clock->unit.value;
        if (question->operation == CDL_UNDO)
            units = cdl_token_bucket_left_of(clock, reading, question->charged_monotonic_ns, units);
        debt = units >= (uint64_t)debt ? 0 : debt - (int64_t)units;
        changed = !fresh;
    }
    const int64_t level = (int64_t)clock->full_units - debt; /* negative after a limit was lowered */
    const uint64_t wanted = giving_back ? 0 : question->minimum;
    const uint64_t wanted_units = wanted * clock->unit.value; /* meaningless, and not looked at, above the capacity */
    /* What is left is worked out beside the verdict, not on the way to it: a division takes longer than all the rest. */
    const uint64_t available = level < 0 ? 0 : cdl_divide((uint64_t)level, &clock->unit);

    decision->capacity = clock->capacity;
    decision->granted = 0;
    decision->remaining = available;
    decision->retry_after_ns = 0;
    if (giving_back || (wanted <= clock->capacity && (int64_t)wanted_units <= level)) {
        const bool exact = giving_back || question->maximum == wanted;
        const uint64_t granted = exact ? wanted : cdl_grant(question, available);
        decision->verdict = CAUDAL_ALLOW;
        decision->remaining = available - granted;
        debt += (int64_t)(exact ? wanted_units : granted * clock->unit.value);
        if (question->operation == CDL_TAKE) {
            decision->granted = granted;
            changed |= granted > 0;
        }
    } else if (wanted > clock->capacity || clock->inverse == 0) {
        decision->verdict = CAUDAL_NEVER;
        decision->retry_after_ns = -1;
    } else {
        decision->verdict = CAUDAL_DENY;
        decision->retry_after_ns = cdl_token_clock_wait(clock, wanted_units - (uint64_t)level, part);
    }
    decision->reset_after_ns = debt == 0             ? 0
                               : clock->inverse == 0 ? -1
                                                     : cdl_token_clock_wait(clock, (uint64_t)debt, part);
    *full_at = reading + (uint64_t)debt;
    return changed && question->operation != CDL_PEEK;
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
