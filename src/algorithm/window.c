#include "algorithm/window.h"

/* A state as `now` sees it, and how far it is to the end of its window. */
struct view {
    struct cdl_window_view seen;
    cdl_i128 left; /* ns */
};

static struct view look(const struct cdl_window_rule *rule, int64_t now, bool fresh,
                        const struct cdl_window_state *state)
{
    struct view view = {.seen = cdl_window_look(rule, cdl_window_moment(rule->period_ns, now), fresh, state)};
    view.left = ((cdl_i128)view.seen.state.index + 1) * rule->period_ns - now;
    return view;
}

/* The first moment at which `cost` <= count fits, as a distance from now. */
static cdl_i128 wait(const struct cdl_window_rule *rule, const struct view *view, uint64_t cost)
{
    if (!rule->sliding)
        return view->left;
    const cdl_i128 period = rule->period_ns;
    const cdl_i128 previous = view->seen.state.previous, current = view->seen.state.current;
    const cdl_i128 spare = (cdl_i128)rule->count - (cdl_i128)cost;
    if (previous > 0 && current <= spare) { /* enough of the previous window leaves before the edge */
        cdl_i128 into = period - (spare - current) * period / previous;
        if (into < period)
            return view->left - period + into;
    }
    cdl_i128 into = current == 0 ? 0 : period - spare * period / current;
    return view->left + (into > 0 ? into : 0);
}

static cdl_i128 time_to_empty(const struct cdl_window_rule *rule, const struct view *view)
{
    if (view->seen.state.current > 0)
        return view->left + (rule->sliding ? rule->period_ns : 0);
    return view->seen.state.previous > 0 ? view->left : 0;
}

/* A refund is of the current window. A charge is taken back from the window that it was made in: by now the current one, the one
 * before, or one that is gone. */
static void give_back(const struct cdl_window_rule *rule, int64_t now, const struct cdl_question *question,
                      struct cdl_window_state *state)
{
    uint64_t *from = &state->current;
    if (question->operation == CDL_UNDO) {
        const cdl_i128 since = cdl_floor_div(now, rule->period_ns) -
                               cdl_floor_div(question->charged_realtime_ns, rule->period_ns);
        if (since < 0 || since > 1)
            return;
        if (since == 1)
            from = &state->previous; /* 0 in a fixed window */
    }
    *from -= cdl_min_u64(*from, question->maximum);
}

bool cdl_window_decide(const struct cdl_window_rule *rule, int64_t now, bool fresh, struct cdl_window_state *state,
                       const struct cdl_question *question, struct caudal_decision *decision)
{
    struct view view = look(rule, now, fresh, state);
    bool changed = false;
    const bool giving_back = question->operation == CDL_REFUND || question->operation == CDL_UNDO;
    if (giving_back) {
        give_back(rule, now, question, &view.seen.state);
        changed = !fresh;
    }
    cdl_i128 left = cdl_window_room(rule, &view.seen);
    uint64_t available = left < 0 ? 0 : (uint64_t)(left / rule->period_ns);
    const uint64_t wanted = giving_back ? 0 : question->minimum;

    decision->capacity = rule->count;
    decision->granted = 0;
    decision->remaining = available;
    decision->retry_after_ns = 0;
    if (giving_back || cdl_window_fits(rule, &view.seen, wanted)) {
        uint64_t granted = giving_back ? 0 : cdl_grant(question, available);
        decision->verdict = CAUDAL_ALLOW;
        decision->remaining = available - granted;
        view.seen.state.current += granted;
        if (question->operation == CDL_TAKE) {
            decision->granted = granted;
            changed = granted > 0;
        }
    } else if (wanted > rule->count) {
        decision->verdict = CAUDAL_NEVER;
        decision->retry_after_ns = -1;
    } else {
        decision->verdict = CAUDAL_DENY;
        decision->retry_after_ns = cdl_clamp_i64(wait(rule, &view, wanted));
    }
    decision->reset_after_ns = cdl_clamp_i64(time_to_empty(rule, &view));
    *state = view.seen.state;
    return changed && question->operation != CDL_PEEK;
}

int64_t cdl_window_time_to_empty(const struct cdl_window_rule *rule, int64_t now, const struct cdl_window_state *state)
{
    struct view view = look(rule, now, false, state);
    return cdl_clamp_i64(time_to_empty(rule, &view));
}
