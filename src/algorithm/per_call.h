/* Keys whose limit comes with each call: a key's state tells what it was counted by.
 *
 * Such limits have no clock and no window of their own that states could be relative to, and there may be as many of them as there are
 * calls. So a state is complete:
 *
 *   a token bucket    the instant at which it is full again, and the rate at which it fills. Time is counted in parts of 1/count
 *                     nanoseconds, of which a token takes `period_ns` to come. Every instant, charge and refill is a whole number of
 *                     them: nothing is rounded but the answer, and a plain take divides nothing to find its new state. With
 *                     count 0 the clock stands still, and a part is 1/period_ns of a token, for good
 *   a fixed window    its index, its length, and what was spent in it
 *
 * What the call brings is enforced from then on, as if a named limit had been changed to it (caudal_set_limit): a bucket keeps its debt in
 * tokens, a window of the same length what was spent in it. Another length of a window begins anew, and so does another algorithm.
 *
 * The same rate may be written in different ways (1/s, 60/min): a bucket goes on in the parts that it has. A debt that comes to another
 * rate is rounded up to a part of that one, which is less than a nanosecond of refill, and never above the next whole token, however
 * often it goes to and fro. What is asked with a refusal converts as well: otherwise the debt would go on shrinking at the old rate,
 * and the wait that was told would be no promise.
 *
 * Whatever else is decided, skew and clocks that were set included, is as token_clock.h and window.h say.
 *
 * Range. Instants have 63 bits, a count and a period of a legal limit 62 each, so now·count < 2^125. A debt is at most capacity and
 * skew, below 2^41 tokens of 2^62 parts, but for what a clock that was set leaves: full_at - now·count < 2^127. */
#ifndef CDL_ALGORITHM_PER_CALL_H
#define CDL_ALGORITHM_PER_CALL_H

#include "algorithm/decide.h"

struct cdl_per_call_state {
    uint64_t count;
    uint64_t period_ns;
    union {
        cdl_i128 full_at
            __attribute__((packed, aligned(8))); /* a bucket's, in parts since 1970, or since the clock's start */
        struct {
            int64_t index; /* a window's */
            uint64_t spent;
        };
    };
    enum caudal_algorithm algorithm; /* CAUDAL_TOKEN_BUCKET or CAUDAL_FIXED_WINDOW */
};

/* What can be asked by: legal token buckets and fixed windows. CAUDAL_OK, CAUDAL_ERR_ARGUMENT (NULL among them) or CAUDAL_ERR_LIMIT. */
int cdl_per_call_check(const struct caudal_limit *limit);

/* Whether two limits, of which each may be NULL, ask the same. */
static inline bool cdl_per_call_is_same(const struct caudal_limit *a, const struct caudal_limit *b)
{
    return a == b || (a != NULL && b != NULL && a->algorithm == b->algorithm && a->count == b->count &&
                      a->period_ns == b->period_ns && caudal_limit_capacity(a) == caudal_limit_capacity(b));
}

/* Whether `now` is of the realtime clock, as for windows; else it is of the monotonic one. */
static inline bool cdl_per_call_is_aligned(enum caudal_algorithm algorithm)
{
    return algorithm == CAUDAL_FIXED_WINDOW;
}

/* Decides at `now` by a limit that passed the check; `fresh`: there is no state yet, and *state may be anything. Returns true when the
 * state changed and is to be stored; otherwise *state was left alone. Fills in what cdl_token_bucket_describe does. */
bool cdl_per_call_decide(const struct caudal_limit *limit, int64_t now, bool fresh, struct cdl_per_call_state *state,
                         const struct cdl_question *question, struct caudal_decision *decision);

/* Nanoseconds until the state is as good as absent; 0 when it is, INT64_MAX when it never will be. */
int64_t cdl_per_call_time_left(const struct cdl_per_call_state *state, int64_t now);

#endif
