#include "policy/match.h"

#include "caudal/key.h"
#include "policy/index.h"
#include "policy/match_parts.h"

/* ------------------------------------------------------------------------------------------------------ identities */

/* A header that comes with two values is nobody: the client could hide behind the one while the server behind us believes the
 * other. */
enum cdl_identified cdl_limit_values(struct cdl_view *view, const struct cdl_limit_rule *limit,
                                     struct cdl_slice values[CDL_PER_MAX], uint32_t *at_fault)
{
    for (uint32_t i = 0; i < limit->per_count; i++) {
        size_t cursor = 0;
        struct cdl_slice other;
        *at_fault = i;
        if (!cdl_view_next(view, &limit->per[i], &cursor, &values[i])) {
            if (limit->if_missing != CDL_MISSING_VALUE)
                return limit->if_missing == CDL_MISSING_SKIP ? CDL_IDENTITY_SKIPS : CDL_IDENTITY_MISSING;
            values[i] = limit->missing_value;
            continue;
        }
        while (cdl_view_next(view, &limit->per[i], &cursor, &other))
            if (!cdl_slice_equal(other, values[i]))
                return CDL_IDENTITY_AMBIGUOUS;
    }
    return CDL_IDENTIFIED;
}

static bool override_matches(const struct cdl_view *view, const struct cdl_limit_rule *limit,
                             const struct cdl_override *override, const struct cdl_slice values[CDL_PER_MAX])
{
    for (uint32_t i = 0; i < limit->per_count; i++)
        if (!cdl_pattern_matches(&override->match[i], values[i], &view->client))
            return false;
    return true;
}

/* Exact values first, then patterns in the order of the file. */
uint32_t cdl_limit_override(const struct cdl_view *view, const struct cdl_limit_rule *limit,
                            const struct cdl_slice values[CDL_PER_MAX])
{
    if (limit->override_count == 0)
        return CDL_NONE;
    const struct cdl_lookup *exact = &limit->exact_overrides;
    const struct cdl_lookup_link *link = cdl_lookup_find(exact, cdl_override_hash(values, limit->per_count));
    for (; link != NULL; link = cdl_lookup_next(exact, link))
        if (override_matches(view, limit, &limit->overrides[link->value], values))
            return link->value;
    for (uint32_t i = 0; i < limit->pattern_override_count; i++) {
        uint32_t index = limit->pattern_overrides[i];
        if (override_matches(view, limit, &limit->overrides[index], values))
            return index;
    }
    return CDL_NONE;
}

/* ------------------------------------------------------------------------------------------------------------ cost */

static bool parse_cost(struct cdl_slice text, uint64_t *cost)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9' || __builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(text.bytes[i] - '0'), &sum))
            return false;
    }
    *cost = sum;
    return text.length > 0;
}

/* What the header says; false when the request has none. */
static bool header_cost(struct cdl_view *view, const struct cdl_cost *rule, uint64_t *cost)
{
    size_t cursor = 0;
    struct cdl_slice text;
    if (rule->header.length == 0)
        return false;
    const struct cdl_identity header = {.kind = CDL_IDENTITY_HEADER, .name = rule->header};
    if (!cdl_view_next(view, &header, &cursor, &text))
        return false;
    if (!parse_cost(text, cost))
        *cost = rule->max;
    return true;
}

uint64_t cdl_limit_cost(struct cdl_view *view, const struct cdl_limit_rule *limit, uint64_t said)
{
    const struct cdl_cost *rule = &limit->cost;
    if (rule->pinned || (!header_cost(view, rule, &said) && said == CDL_COST_UNSAID))
        return rule->standard;
    return said < rule->min ? rule->min : said > rule->max ? rule->max : said;
}

/* ------------------------------------------------------------------------------------------------------------ plan */

/* The limits that apply, in ascending order and each once. */
struct found {
    struct cdl_view *view;
    uint32_t limits[CDL_PLAN_MAX];
    uint32_t count;
    bool too_many;
};

/* True when the limit is new; `at` is its place. Candidates come nearly in order, so the search starts at the end. */
static bool find_place(const struct found *found, uint32_t limit, uint32_t *at)
{
    *at = found->count;
    while (*at > 0 && found->limits[*at - 1] > limit)
        --*at;
    return *at == 0 || found->limits[*at - 1] != limit;
}

static bool take_limit(void *context, uint32_t limit)
{
    struct found *found = context;
    uint32_t at;
    if (!find_place(found, limit, &at) || !cdl_limit_applies(found->view, &found->view->policy->limits[limit]))
        return true;
    if (found->count == CDL_PLAN_MAX) {
        found->too_many = true;
        return false;
    }
    memmove(&found->limits[at + 1], &found->limits[at], (found->count - at) * sizeof found->limits[0]);
    found->limits[at] = limit;
    found->count++;
    return true;
}

struct exemption {
    struct cdl_view *view;
    uint32_t first;
};

static bool take_exemption(void *context, uint32_t rule)
{
    struct exemption *exemption = context;
    if (rule < exemption->first && cdl_rule_holds(exemption->view, &exemption->view->policy->exemptions[rule]))
        exemption->first = rule;
    return true;
}

static bool is_exempt(struct cdl_view *view, struct cdl_plan *plan)
{
    struct exemption exemption = {view, CDL_NONE};
    cdl_index_candidates(view->policy->exemption_index, view, take_exemption, &exemption);
    plan->exemption = exemption.first;
    if (exemption.first == CDL_NONE)
        return false;
    plan->outcome = CDL_OUTCOME_EXEMPT;
    return true;
}

/* The first limit in the order of the policy is the one that refuses; limits in shadow mode only count. */
static void refuse(struct cdl_plan *plan, const struct cdl_policy *policy, uint32_t limit, uint32_t identity,
                   enum cdl_outcome outcome)
{
    if (policy->limits[limit].mode == CDL_MODE_SHADOW) {
        plan->shadow_refusals++;
    } else if (plan->outcome == CDL_OUTCOME_LIMITED) {
        plan->outcome = outcome;
        plan->limit = limit;
        plan->identity = identity;
    }
}

static bool join(struct cdl_writer *scratch, const struct cdl_slice *values, size_t count, struct cdl_slice *key)
{
    size_t length;
    char *at = scratch->bytes + scratch->length;
    if (scratch->overflow || cdl_policy_key(values, count, at, scratch->size - scratch->length, &length) != CAUDAL_OK)
        return false;
    *key = (struct cdl_slice){at, length};
    scratch->length += length;
    return true;
}

/* A limit that counts by the same identities as one before has the same key and needs no second copy of it. */
static const struct cdl_charge *same_key(const struct cdl_plan *plan, const struct cdl_policy *policy, uint32_t shape)
{
    for (size_t i = 0; i < plan->count; i++)
        if (policy->limits[plan->charges[i].limit].key_shape == shape)
            return &plan->charges[i];
    return NULL;
}

static void add_charge(struct cdl_view *view, uint32_t index, uint64_t cost, struct cdl_plan *plan)
{
    const struct cdl_policy *policy = view->policy;
    const struct cdl_limit_rule *limit = &policy->limits[index];
    struct cdl_slice values[CDL_PER_MAX];
    uint32_t identity = 0;
    struct cdl_charge *charge = &plan->charges[plan->count];
    switch (cdl_limit_values(view, limit, values, &identity)) {
    case CDL_IDENTITY_SKIPS:
        return;
    case CDL_IDENTITY_MISSING:
        refuse(plan, policy, index, identity, CDL_OUTCOME_MISSING);
        return;
    case CDL_IDENTITY_AMBIGUOUS:
        refuse(plan, policy, index, identity, CDL_OUTCOME_AMBIGUOUS);
        return;
    case CDL_IDENTIFIED:
        break;
    }
    const struct cdl_charge *twin = same_key(plan, policy, limit->key_shape);
    if (twin != NULL) {
        charge->key = twin->key;
    } else if (!join(view->scratch, values, limit->per_count, &charge->key)) {
        refuse(plan, policy, index, CDL_NONE, CDL_OUTCOME_TOO_LONG);
        return;
    }
    charge->limit = index;
    charge->override = cdl_limit_override(view, limit, values);
    charge->rate = charge->override == CDL_NONE ? limit->rate : limit->overrides[charge->override].rate;
    charge->cost = cdl_limit_cost(view, limit, cost);
    charge->per_call.size = 0;
    charge->ends_at_ns = 0;
    plan->count++;
}

static void plan_limits(struct cdl_view *view, uint64_t cost, struct cdl_plan *plan)
{
    struct found found = {.view = view};
    cdl_index_candidates(view->policy->limit_index, view, take_limit, &found);
    if (found.too_many) {
        plan->outcome = CDL_OUTCOME_TOO_MANY;
        return;
    }
    for (uint32_t i = 0; i < found.count; i++)
        add_charge(view, found.limits[i], cost, plan);
}

void cdl_policy_match(const struct cdl_policy *policy, const struct cdl_request *request, uint64_t cost, char *scratch,
                      size_t scratch_size, struct cdl_plan *plan)
{
    struct cdl_writer writer = cdl_writer_on(scratch, scratch_size);
    struct cdl_view view;
    plan->outcome = CDL_OUTCOME_LIMITED;
    plan->exemption = plan->limit = plan->identity = CDL_NONE;
    plan->shadow_refusals = 0;
    plan->count = 0;
    cdl_view_open(&view, policy, request, &writer);
    if (!is_exempt(&view, plan))
        plan_limits(&view, cost, plan);
    /* A value that did not fit was taken for missing: whatever came of that is not an answer. */
    if (writer.overflow && plan->outcome != CDL_OUTCOME_TOO_MANY) {
        plan->outcome = CDL_OUTCOME_TOO_LONG;
        plan->exemption = CDL_NONE;
    }
    if (plan->outcome != CDL_OUTCOME_LIMITED)
        plan->count = 0;
}

int cdl_policy_key(const struct cdl_slice *values, size_t count, char *buffer, size_t size, size_t *length)
{
    struct caudal_key_part parts[CDL_PER_MAX];
    if (count > CDL_PER_MAX)
        return CAUDAL_ERR_ARGUMENT;
    for (size_t i = 0; i < count; i++)
        parts[i] = (struct caudal_key_part){values[i].bytes, values[i].length};
    return caudal_key_join(parts, count, buffer, size, length);
}
