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

/* Where in its window an instant lies. It does not depend on a key, so that many decisions share it. */
struct cdl_window_moment {
    int64_t index;
    int64_t into; /* ns of the window that have passed */
};

static inline struct cdl_window_moment cdl_window_moment(int64_t period_ns, int64_t now)
{
    const int64_t index = now / period_ns, rest = now % period_ns;
    return rest < 0 ? (struct cdl_window_moment){index - 1, rest + period_ns} : (struct cdl_window_moment){index, rest};
}

/* A state as a moment sees it. */
struct cdl_window_view {
    struct cdl_window_state state;
    int64_t into; /* ns of the window that have passed; 0 when it is the one ahead */
};

static inline struct cdl_window_view cdl_window_look(const struct cdl_window_rule *rule,
                                                     struct cdl_window_moment moment, bool fresh,
                                                     const struct cdl_window_state *state)
{
    /* Windows; a period of 1 ns has 2^64 of them. */
    const cdl_i128 ahead = (cdl_i128)state->index - moment.index;
    if (!fresh && (ahead == 0 || ahead == 1))
        return (struct cdl_window_view){*state, ahead == 0 ? moment.into : 0};
    struct cdl_window_view view = {.state = {.index = moment.index}, .into = moment.into};
    if (!fresh && ahead == -1 && rule->sliding)
        view.state.previous = state->current;
    return view;
}

/* period times what the limit still has room for; negative after it was lowered. Counts and the period are below 2^62. */
static inline cdl_i128 cdl_window_room(const struct cdl_window_rule *rule, const struct cdl_window_view *view)
{
    return ((cdl_i128)rule->count - (cdl_i128)view->state.current) * rule->period_ns -
           (cdl_i128)view->state.previous * (rule->period_ns - view->into);
}

/* Whether `cost` passes: the first half of a decision, without a division. */
static inline bool cdl_window_fits(const struct cdl_window_rule *rule, const struct cdl_window_view *view,
                                   uint64_t cost)
{
    return (cdl_i128)cost * rule->period_ns <= cdl_window_room(rule, view);
}

/* Decides at `now`; the contract is that of cdl_token_bucket_decide. */
bool cdl_window_decide(const struct cdl_window_rule *rule, int64_t now, bool fresh, struct cdl_window_state *state,
                       const struct cdl_question *question, struct caudal_decision *decision);

/* Nanoseconds until the state is as good as absent; 0 when it is. */
int64_t cdl_window_time_to_empty(const struct cdl_window_rule *rule, int64_t now, const struct cdl_window_state *state);

#endif
