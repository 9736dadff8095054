/* The three algorithms side by side, each deciding as it would in a server, and what they let through in a moving period.
 *
 * That is measured in eighths of a period, aligned to the epoch: eight slots in a ring, and their sum. A slot is emptied when its eighth
 * comes round again, so the sum is of the eighth that the request is in and the seven before it. */
#include "replay/study_parts.h"

#include <string.h>

static struct cdl_token_clock clock_of(const struct caudal_limit *limit)
{
    struct caudal_limit bucket = *limit;
    bucket.algorithm = CAUDAL_TOKEN_BUCKET;
    return cdl_token_clock_make(&bucket, 0);
}

void cdl_study_variants_init(struct cdl_study_rule *rule)
{
    const struct caudal_limit *limit = &rule->limit;
    const int64_t period_ns = (int64_t)limit->period_ns;
    rule->fixed = (struct cdl_window_rule){limit->count, period_ns, false};
    rule->sliding = (struct cdl_window_rule){limit->count, period_ns, true};
    rule->clock = clock_of(limit);
    rule->refill_ns = UINT64_MAX;
    if (rule->clock.full_units == 0)
        rule->refill_ns = 0;
    else if (rule->clock.inverse > 0)
        rule->refill_ns = (uint64_t)cdl_token_clock_wait(&rule->clock, rule->clock.full_units, 0);
    /* An eighth sees at most one window's count, or a burst and what comes back meanwhile. */
    rule->is_wide = limit->count > UINT32_MAX / 2 || caudal_limit_capacity(limit) > UINT32_MAX / 2;
}

/* The tokens of one slot, which is then empty. */
static uint64_t empty(uint32_t *low, uint32_t *upper)
{
    uint64_t tokens = *low;
    *low = 0;
    if (upper != NULL) {
        tokens |= (uint64_t)*upper << 32;
        *upper = 0;
    }
    return tokens;
}

/* Whether nothing that a key had is within a period of the request: numbers of eighths do not tell, since they wrap. */
static bool is_apart(const struct cdl_study_rule *rule, const struct cdl_study_request *request)
{
    return (uint64_t)request->at_ns - (uint64_t)request->before_ns > rule->limit.period_ns;
}

/* Makes the newest slot that of the rule's eighth. */
static void turn(const struct cdl_study_rule *rule, struct cdl_study_variants *variants, uint32_t *upper,
                 const struct cdl_study_request *request)
{
    uint64_t steps = cdl_min_u64(rule->eighth_index - variants->eighth_index, CDL_STUDY_SLOTS);
    if (is_apart(rule, request))
        steps = CDL_STUDY_SLOTS;
    for (uint64_t i = 0; i < steps; i++) {
        const size_t slot = (rule->eighth_index - i) % CDL_STUDY_SLOTS;
        for (size_t v = 0; v < CDL_STUDY_VARIANTS; v++)
            variants->passed[v] -= empty(&variants->slots[slot][v],
                                         upper == NULL ? NULL : &upper[slot * CDL_STUDY_VARIANTS + v]);
    }
    variants->eighth_index = rule->eighth_index;
}

static void pass(struct cdl_study_variants *variants, uint32_t *upper, size_t v, uint64_t tokens)
{
    const size_t slot = variants->eighth_index % CDL_STUDY_SLOTS;
    uint32_t *low = &variants->slots[slot][v];
    if (upper != NULL)
        upper[slot * CDL_STUDY_VARIANTS + v] += (uint32_t)((*low + tokens) >> 32);
    *low += (uint32_t)tokens;
    variants->passed[v] += tokens;
    variants->most[v] = variants->passed[v] > variants->most[v] ? variants->passed[v] : variants->most[v];
}

static bool take_of_bucket(struct cdl_study_rule *rule, uint64_t *full_at, const struct cdl_study_request *request)
{
    cdl_study_cover(rule, request->at_ns);
    const struct cdl_token_moment moment = cdl_token_moment(&rule->clock, request->at_ns);
    const bool fresh = request->is_first || cdl_study_has_refilled(rule, request->before_ns, request->at_ns);
    const struct cdl_question question = cdl_question_take(request->cost);
    const struct cdl_token_outcome outcome = cdl_token_bucket_charge(&rule->clock, moment, fresh, *full_at, &question);
    *full_at = outcome.full_at;
    return outcome.verdict == CAUDAL_ALLOW;
}

void cdl_study_variants_note(struct cdl_study_rule *rule, struct cdl_study_variants *variants, uint32_t *upper,
                             const struct cdl_study_request *request)
{
    const struct cdl_window_moment moment = cdl_study_window(rule, request->at_ns);
    const bool passes[CDL_STUDY_VARIANTS] = {
        [CDL_STUDY_FIXED_WINDOW] = cdl_study_take_of_window(&rule->fixed, moment, &variants->fixed, request->cost),
        [CDL_STUDY_SLIDING_WINDOW] = cdl_study_take_of_window(&rule->sliding, moment, &variants->sliding,
                                                              request->cost),
        [CDL_STUDY_TOKEN_BUCKET] = take_of_bucket(rule, &variants->full_at, request),
    };
    if (variants->eighth_index != rule->eighth_index || is_apart(rule, request))
        turn(rule, variants, upper, request);
    for (size_t v = 0; v < CDL_STUDY_VARIANTS; v++) {
        variants->refused[v] += !passes[v];
        pass(variants, upper, v, passes[v] ? request->cost : 0);
    }
}

void cdl_study_variants_find(const struct cdl_study_variants *variants, struct cdl_study_findings *findings)
{
    memcpy(findings->variant_refused, variants->refused, sizeof variants->refused);
    memcpy(findings->variant_most, variants->most, sizeof variants->most);
}
