/* Windows aligned to the epoch: the fixed window and the sliding window, which is a fixed one with a memory.
 *
 *   fixed_window    at most `count` in each window; a client may spend one window's count just before an edge and the next
 *                   one's just after it: 2·count in a moment.
 *   sliding_window  estimate = previous · (part of the previous window still inside the last period) + current. It takes
 *                   the previous window's requests as evenly spread. Compared as previous·(period - into) + (current +
 *                   cost)·period <= count·period, in 128 bits, never rounded in the caller's favour.
 *
 * A clock that slips back over an edge finds a stored window one ahead: that window goes on, and nothing is gained. A window
 * further ahead was left by a clock that was set, and is discarded. */
#ifndef CDL_ALGORITHM_WINDOW_H
#define CDL_ALGORITHM_WINDOW_H

#include "algorithm/decide.h"

struct cdl_window_rule {
    uint64_t count;
    int64_t period_ns;
    bool sliding;
};

/* One key's counters. A key never seen is {0, 0, 0} with fresh = true. */
struct cdl_window_state {
    int64_t index;     /* floor(instant / period) of the current window */
    uint64_t previous; /* sliding only */
    uint64_t current;
};

/* Decides at `now`; the contract is that of cdl_token_bucket_decide. */
bool cdl_window_decide(const struct cdl_window_rule *rule, int64_t now, bool fresh, struct cdl_window_state *state,
                       const struct cdl_question *question, struct caudal_decision *decision);

/* Nanoseconds until the state is as good as absent; 0 when it is. */
int64_t cdl_window_time_to_empty(const struct cdl_window_rule *rule, int64_t now, const struct cdl_window_state *state);

#endif
