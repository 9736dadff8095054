#include "policy/added.h"

uint32_t cdl_add_limit_rule(struct cdl_loader *loader, const struct cdl_limit_rule *rule, struct cdl_slice rate_name,
                            const struct caudal_limit *limit)
{
    static const struct caudal_limit unlimited = {sizeof unlimited, CAUDAL_UNLIMITED, 0, 0, CAUDAL_BURST_DEFAULT};
    struct cdl_policy *policy = loader->policy;
    if (limit != NULL && (policy->limit_count + loader->added_count >= CDL_POLICY_LIMITS_MAX ||
                          policy->rate_count + loader->added_count >= CDL_POLICY_RATES_MAX)) {
        cdl_report_error(loader->report, rule->place, "too many limits: at most %u", CDL_POLICY_LIMITS_MAX);
        return CDL_NONE;
    }
    struct cdl_added_limit *added = cdl_arena_allocate(loader->arena, 1, sizeof *added);
    if (added == NULL)
        return CDL_NONE;
    const uint32_t index = policy->limit_count + loader->added_count;
    added->rule = *rule;
    added->rule.rate = policy->rate_count + loader->added_count;
    added->rate = (struct cdl_rate){
        .limit = limit != NULL ? *limit : unlimited,
        .name = rate_name,
        .limit_index = index,
        .override_index = CDL_NONE,
        .per_call = limit == NULL,
        .place = rule->place,
    };
    added->next = loader->added;
    loader->added = added;
    loader->added_count++;
    return index;
}

static bool make_room(struct cdl_loader *loader, struct cdl_limit_rule **limits, struct cdl_rate **rates)
{
    struct cdl_policy *policy = loader->policy;
    const uint32_t limit_count = policy->limit_count + loader->added_count;
    const uint32_t rate_count = policy->rate_count + loader->added_count;
    *limits = cdl_arena_allocate(loader->arena, limit_count, sizeof **limits);
    *rates = cdl_arena_allocate(loader->arena, rate_count, sizeof **rates);
    if (*limits == NULL || *rates == NULL || !cdl_lookup_init(&policy->limit_names, loader->arena, limit_count))
        return false;
    for (uint32_t i = 0; i < policy->limit_count; i++)
        (*limits)[i] = policy->limits[i];
    for (uint32_t i = 0; i < policy->rate_count; i++)
        (*rates)[i] = policy->rates[i];
    return true;
}

void cdl_place_added_limits(struct cdl_loader *loader)
{
    struct cdl_policy *policy = loader->policy;
    struct cdl_limit_rule *limits;
    struct cdl_rate *rates;
    policy->request_limit_count = policy->limit_count;
    if (loader->added_count == 0 || !make_room(loader, &limits, &rates))
        return;
    for (const struct cdl_added_limit *added = loader->added; added != NULL; added = added->next) {
        limits[added->rate.limit_index] = added->rule;
        rates[added->rule.rate] = added->rate;
    }
    policy->limits = limits;
    policy->rates = rates;
    policy->limit_count += loader->added_count;
    policy->rate_count += loader->added_count;
    for (uint32_t i = 0; i < policy->limit_count; i++)
        if (limits[i].kind != CDL_RULE_PER_CALL) /* nobody can ask that by its name alone */
            cdl_lookup_add(&policy->limit_names, cdl_lookup_hash(limits[i].name, 0), i);
}
