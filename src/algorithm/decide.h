/* What the algorithms have in common: the question, and the parts of an answer that do not depend on how one counts.
 *
 * Every algorithm is a pure function: old state, limit, now, question → answer, new state. It reads no clock, takes no
 * lock, allocates nothing. It returns whether the state changed; the store owns reading, comparing and swapping. */
#ifndef CDL_ALGORITHM_DECIDE_H
#define CDL_ALGORITHM_DECIDE_H

#include "base/arith.h"
#include "caudal/store.h"

enum cdl_operation {
    CDL_TAKE,   /* at least `minimum`, at most `maximum` tokens, or none */
    CDL_PEEK,   /* what CDL_TAKE would answer */
    CDL_SETTLE, /* CDL_PEEK, but a bucket that has to be anchored anew is: what a refused CDL_TAKE does */
    CDL_REFUND, /* `maximum` tokens back */
    CDL_RESET,  /* forget the key: a store's own, no algorithm is asked */
    CDL_UNDO,   /* the charge of `maximum` that was made at charged_at, because another limit of the request refused */
};

struct cdl_question {
    enum cdl_operation operation;
    uint64_t minimum;
    uint64_t maximum;
    /* Of CDL_UNDO: when the charge was made, by either clock. What has expired or been refilled of it since is not given back
     * once more: others may have had it. */
    int64_t charged_monotonic_ns, charged_realtime_ns;
    /* What is enforced, of a limit that comes with each call (cdl_add_per_call_limit); NULL for any other. */
    const struct caudal_limit *limit;
};

static inline struct cdl_question cdl_question_take(uint64_t cost)
{
    return (struct cdl_question){.operation = CDL_TAKE, .minimum = cost, .maximum = cost};
}

static inline struct cdl_question cdl_question_peek(uint64_t cost)
{
    return (struct cdl_question){.operation = CDL_PEEK, .minimum = cost, .maximum = cost};
}

static inline struct cdl_question cdl_question_settle(uint64_t cost)
{
    return (struct cdl_question){.operation = CDL_SETTLE, .minimum = cost, .maximum = cost};
}

/* How many tokens a question gets when `available` may be spent, if it may have any at all. */
static inline uint64_t cdl_grant(const struct cdl_question *question, uint64_t available)
{
    return cdl_min_u64(question->maximum, available);
}

#endif
