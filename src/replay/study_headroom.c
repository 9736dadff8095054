/* How small a limit could be and still refuse nothing.
 *
 * A bucket without bottom is charged with every request; the most that it was ever short of is the smallest burst. At the limit's own
 * rate that is counted in parts of a token that make every charge and every refill a whole number (as algorithm/per_call.h does), so the
 * answer is exact.
 *
 * At the other rates of the ladder parts are doubles, for speed. Every other rate is the limit's times a power of 2: there they are
 * multiples of 1/8, and as long as a backlog stays below 2^50 no sum is rounded. (What refills in a long pause may be; it is then more than
 * any such backlog.) Otherwise one request adds less than 8·2^-53 of the largest backlog by rounding, and the answer grows by that for each.
 * What suffices at one rate does at any higher one: that takes back what was added where it was for nothing.
 *
 * A window that refuses nothing has in it all that was asked for: its largest sum is the count that a fixed one needs, and its largest
 * estimate that of a sliding one. */
#include "replay/study_parts.h"

/* More than any capacity. A charge beyond is as good as this one, and a backlog of that many tokens stays there. */
#define TOKENS_CUT (UINT64_C(1) << 41)
_Static_assert(TOKENS_CUT > CAUDAL_CAPACITY_MAX, "what is cut is too much for a limit");
/* Sums of multiples of 1/8 below this are exact. */
#define EXACT_BELOW 0x1p50
/* What a request adds by rounding, relative to the largest backlog: five roundings of 2^-53, and room. */
#define ROUNDING 0x1p-50

#define ROOT_OF_2 1.4142135623730951

/* Rung n of the ladder, as a multiple of the limit's rate. */
static double multiple(unsigned n)
{
    const double power = n % 2 == CDL_STUDY_OWN_RATE % 2 ? 1 : ROOT_OF_2;
    const int exponent = ((int)n - (int)CDL_STUDY_OWN_RATE - (n % 2 != CDL_STUDY_OWN_RATE % 2)) / 2;
    return exponent < 0 ? power / (double)(1u << -exponent) : power * (double)(1u << exponent);
}

/* Where rung n stands among those that are not the limit's own. */
static unsigned place_of(unsigned n)
{
    return n < CDL_STUDY_OWN_RATE ? n : n - 1;
}

double cdl_study_rate(const struct cdl_study_rule *rule, unsigned n)
{
    return (double)rule->limit.count * multiple(n);
}

void cdl_study_headroom_init(struct cdl_study_rule *rule)
{
    const uint64_t divisor = cdl_common_divisor(rule->limit.count, rule->limit.period_ns);
    const uint64_t parts = rule->limit.count / divisor;
    rule->token_parts = rule->limit.period_ns / divisor;
    rule->token = (double)rule->token_parts;
    rule->is_exact = rule->token <
                     EXACT_BELOW; /* and so is the other number, since no rate is above a token a nanosecond */
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++) {
        if (n == CDL_STUDY_OWN_RATE)
            continue;
        const bool is_exact = rule->is_exact && n % 2 == CDL_STUDY_OWN_RATE % 2;
        /* Not above the rate that is told, whichever way it was rounded. */
        rule->parts_per_ns[place_of(n)] = (double)parts * multiple(n) * (is_exact ? 1 : 1 - 0x1p-50);
    }
}

static void note_others(const struct cdl_study_rule *rule, struct cdl_study_headroom *headroom, double elapsed_ns,
                        double charge)
{
    for (size_t i = 0; i < CDL_STUDY_OTHER_RATES; i++) {
        const double left = headroom->backlog[i] - rule->parts_per_ns[i] * elapsed_ns;
        const double backlog = (left > 0 ? left : 0) + charge;
        headroom->backlog[i] = backlog;
        headroom->most_backlog[i] = headroom->most_backlog[i] > backlog ? headroom->most_backlog[i] : backlog;
    }
}

static void note_own(const struct cdl_study_rule *rule, struct cdl_study_headroom *headroom, uint64_t elapsed_ns,
                     uint64_t tokens)
{
    const cdl_i128 period = (cdl_i128)rule->limit.period_ns, cut = (cdl_i128)TOKENS_CUT * period;
    const cdl_i128 left = headroom->own_backlog - (cdl_i128)rule->limit.count * (cdl_i128)elapsed_ns;
    cdl_i128 backlog = (left > 0 ? left : 0) + (cdl_i128)tokens * period;
    backlog = backlog < cut ? backlog : cut;
    headroom->own_backlog = backlog;
    if (backlog > headroom->own_most)
        headroom->own_most = backlog;
}

/* The estimate is window.h's: what a window of count 0 lacks. */
static void note_windows(const struct cdl_study_rule *rule, struct cdl_study_headroom *headroom,
                         const struct cdl_study_request *request)
{
    const struct cdl_window_rule none = {0, rule->sliding.period_ns, true};
    struct cdl_window_view view = cdl_window_look(&none, cdl_study_window(rule, request->at_ns), false,
                                                  &headroom->asked);
    view.state.current = cdl_study_add(view.state.current, request->cost);
    const cdl_i128 estimate = -cdl_window_room(&none, &view);
    headroom->asked = view.state;
    if (view.state.current > headroom->window_most)
        headroom->window_most = view.state.current;
    if (estimate > headroom->sliding_most)
        headroom->sliding_most = estimate;
}

void cdl_study_headroom_note(const struct cdl_study_rule *rule, struct cdl_study_headroom *headroom,
                             const struct cdl_study_request *request)
{
    const uint64_t elapsed_ns = (uint64_t)request->at_ns - (uint64_t)request->before_ns;
    const uint64_t tokens = cdl_min_u64(request->cost, TOKENS_CUT);
    note_others(rule, headroom, (double)elapsed_ns, (double)tokens * rule->token);
    note_own(rule, headroom, elapsed_ns, tokens);
    note_windows(rule, headroom, request);
}

/* a / b rounded up; UINT64_MAX for what no limit may have. */
static uint64_t tokens_of(cdl_u128 a, uint64_t b)
{
    const cdl_u128 tokens = a / b + (a % b != 0);
    return tokens > CAUDAL_CAPACITY_MAX ? UINT64_MAX : (uint64_t)tokens;
}

static uint64_t burst_at(const struct cdl_study_rule *rule, const struct cdl_study_headroom *headroom, unsigned n,
                         uint64_t requests)
{
    const double most = headroom->most_backlog[place_of(n)];
    if (rule->is_exact && n % 2 == CDL_STUDY_OWN_RATE % 2 && most < EXACT_BELOW)
        return tokens_of((cdl_u128)(most * 8), rule->token_parts * 8);
    const double tokens = most / rule->token * (1 + ((double)requests + 1) * ROUNDING);
    if (tokens > (double)CAUDAL_CAPACITY_MAX)
        return UINT64_MAX;
    return (uint64_t)tokens + ((double)(uint64_t)tokens < tokens);
}

void cdl_study_headroom_find(const struct cdl_study_rule *rule, const struct cdl_study_headroom *headroom,
                             struct cdl_study_findings *findings)
{
    findings->burst = tokens_of((cdl_u128)headroom->own_most, rule->limit.period_ns);
    uint64_t least = UINT64_MAX;
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++) {
        const uint64_t burst = n == CDL_STUDY_OWN_RATE ? findings->burst
                                                       : burst_at(rule, headroom, n, findings->requests);
        least = cdl_min_u64(least, burst);
        findings->burst_at[n] = least;
    }
    findings->fixed_count = headroom->window_most;
    const cdl_u128 most = (cdl_u128)headroom->sliding_most, period = rule->limit.period_ns;
    findings->sliding_count = (uint64_t)(most / period + (most % period != 0));
}
