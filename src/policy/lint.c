/* What is legal and yet probably not meant. Warnings only: each has policies in which it is right. */
#include <inttypes.h>

#include "policy/load.h"

/* Beyond this the question "is it covered by another limit?" is no longer asked of every pair. */
#define COVERS_MAX 256u

static bool is_client_chosen(const struct cdl_limit_rule *limit)
{
    for (uint32_t i = 0; i < limit->per_count; i++)
        if (!cdl_identity_is_client_chosen(&limit->per[i]))
            return false;
    return limit->per_count > 0;
}

/* Names of headers that a client may write as well as a proxy. */
static bool is_address_header(const struct cdl_identity *identity)
{
    static const char *const names[] = {"x-forwarded-for", "x-real-ip",      "forwarded",
                                        "x-client-ip",     "true-client-ip", "cf-connecting-ip"};
    for (size_t i = 0; identity->kind == CDL_IDENTITY_HEADER && i < sizeof names / sizeof names[0]; i++)
        if (cdl_slice_equal(identity->name, cdl_slice_of(names[i])))
            return true;
    return false;
}

static bool same_condition(const struct cdl_condition *a, const struct cdl_condition *b)
{
    if (a->count != b->count || !cdl_identity_equal(&a->what, &b->what))
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->any_of[i].kind != b->any_of[i].kind || !cdl_slice_equal(a->any_of[i].text, b->any_of[i].text))
            return false;
    return true;
}

static bool has_condition(const struct cdl_rule *rule, const struct cdl_condition *condition)
{
    for (size_t i = 0; i < rule->count; i++)
        if (same_condition(&rule->conditions[i], condition))
            return true;
    return false;
}

/* Whether every request under `rule` is also under `wider`: as far as can be seen from the same words. */
static bool covers(const struct cdl_rule *wider, const struct cdl_rule *rule)
{
    for (size_t i = 0; i < wider->count; i++)
        if (!has_condition(rule, &wider->conditions[i]))
            return false;
    return true;
}

/* The limits whose keys no client can choose, and which bind those that can. */
struct anchors {
    const struct cdl_limit_rule *limits[COVERS_MAX];
    uint32_t count;
    bool more; /* there are more than were kept: say nothing that they could make untrue */
};

static void collect_anchors(const struct cdl_policy *policy, struct anchors *anchors)
{
    for (uint32_t i = 0; i < policy->request_limit_count; i++) {
        const struct cdl_limit_rule *limit = &policy->limits[i];
        if (limit->mode != CDL_MODE_ENFORCE || is_client_chosen(limit) || limit->if_missing == CDL_MISSING_SKIP)
            continue;
        if (anchors->count < COVERS_MAX)
            anchors->limits[anchors->count++] = limit;
        else
            anchors->more = true;
    }
}

static bool is_anchored(const struct anchors *anchors, const struct cdl_limit_rule *limit)
{
    for (uint32_t i = 0; i < anchors->count; i++)
        if (covers(&anchors->limits[i]->when, &limit->when))
            return true;
    return anchors->more;
}

static void lint_keys(const struct cdl_policy *policy, struct cdl_report *report)
{
    struct anchors anchors = {.count = 0};
    collect_anchors(policy, &anchors);
    for (uint32_t i = 0; i < policy->request_limit_count; i++) {
        const struct cdl_limit_rule *limit = &policy->limits[i];
        for (uint32_t j = 0; j < limit->per_count; j++)
            if (is_address_header(&limit->per[j]))
                cdl_report_warning(report, limit->per[j].place,
                                   "clients can write '%s' themselves; use client_ip with identity.client_ip set",
                                   limit->per[j].text.bytes);
        if (limit->mode == CDL_MODE_OFF || !is_client_chosen(limit) || is_anchored(&anchors, limit))
            continue;
        cdl_report_warning(report, limit->per[0].place,
                           "'%s' counts only by what a client chooses: a new value each time is never limited; add a "
                           "limit per client_ip, or one without 'per'",
                           limit->name.bytes);
    }
}

static bool is_windowed(const struct cdl_rate *rate)
{
    return rate->limit.algorithm == CAUDAL_FIXED_WINDOW;
}

static void lint_rates(const struct cdl_policy *policy, struct cdl_report *report)
{
    for (uint32_t i = 0; i < policy->rate_count && policy->rates[i].limit_index < policy->request_limit_count; i++) {
        const struct cdl_rate *rate = &policy->rates[i];
        const struct cdl_limit_rule *limit = &policy->limits[rate->limit_index];
        uint64_t capacity = cdl_rate_capacity(limit, &rate->limit);
        if (is_windowed(rate) && rate->limit.count > 0)
            cdl_report_warning(report, rate->place,
                               "fixed_window admits up to %" PRIu64 " across an edge of two windows; token_bucket and "
                               "sliding_log do not",
                               2 * rate->limit.count);
        if (limit->cost.standard > capacity && capacity > 0)
            cdl_report_warning(report, rate->place,
                               "a request costs %" PRIu64 " and at most %" PRIu64 " can be taken at once: every one is "
                               "refused",
                               limit->cost.standard, capacity);
    }
}

static bool is_memory(struct cdl_slice url)
{
    const struct cdl_slice scheme = CDL_SLICE("memory:");
    return url.length >= scheme.length && cdl_slice_equal(cdl_slice_head(url, scheme.length), scheme);
}

/* Where sharing can do nothing, or less than it says. */
static void lint_sharing(const struct cdl_policy *policy, struct cdl_report *report)
{
    const bool in_memory = is_memory(policy->store.url);
    for (uint32_t i = 0; i < policy->rate_count && policy->rates[i].limit_index < policy->request_limit_count; i++) {
        const struct cdl_rate *rate = &policy->rates[i];
        const struct cdl_limit_rule *limit = &policy->limits[rate->limit_index];
        if (limit->sharing != CDL_SHARING_LEASED)
            continue;
        if (rate->limit.algorithm == CAUDAL_SLIDING_LOG)
            cdl_report_warning(report, rate->place,
                               "a sliding_log cannot be leased and stays strict: every decision in the store");
        if (in_memory && rate->override_index == CDL_NONE)
            cdl_report_warning(report, limit->place,
                               "'sharing: leased' changes nothing with the store memory: it is asked at memory speed");
    }
}

/* Probes come often and from one address. A policy whose limits all name paths has said which it means. */
static void lint_probes(const struct cdl_policy *policy, struct cdl_report *report)
{
    for (uint32_t i = 0; i < policy->exemption_count; i++)
        for (size_t j = 0; j < policy->exemptions[i].count; j++)
            if (policy->exemptions[i].conditions[j].what.kind == CDL_IDENTITY_PATH ||
                policy->exemptions[i].conditions[j].what.kind == CDL_IDENTITY_CLIENT_IP)
                return;
    for (uint32_t i = 0; i < policy->request_limit_count; i++) {
        const struct cdl_limit_rule *limit = &policy->limits[i];
        bool path = limit->mode == CDL_MODE_OFF;
        for (size_t j = 0; j < limit->when.count; j++)
            path = path || limit->when.conditions[j].what.kind == CDL_IDENTITY_PATH;
        for (uint32_t j = 0; j < limit->per_count; j++)
            path = path || limit->per[j].kind == CDL_IDENTITY_TEMPLATE;
        if (path)
            continue;
        cdl_report_warning(report, limit->place,
                           "'%s' also counts health checks: no path is exempt; add exempt: [{path: /healthz}]",
                           limit->name.bytes);
        return;
    }
}

/* Whether all that a rule asks for can be sent by any client, and is not merely what it wants. */
static bool is_password(const struct cdl_rule *rule)
{
    bool chosen = false;
    for (size_t i = 0; i < rule->count; i++)
        switch (rule->conditions[i].what.kind) {
        case CDL_IDENTITY_CLIENT_IP:
        case CDL_IDENTITY_ATTRIBUTE:
            return false;
        case CDL_IDENTITY_HEADER:
        case CDL_IDENTITY_COOKIE:
        case CDL_IDENTITY_QUERY:
            chosen = true;
            break;
        default:
            break;
        }
    return chosen;
}

static void lint_exemptions(const struct cdl_policy *policy, struct cdl_report *report)
{
    for (uint32_t i = 0; i < policy->exemption_count; i++)
        if (is_password(&policy->exemptions[i]))
            cdl_report_warning(report, policy->exemptions[i].place,
                               "any client that sends this is exempt; add client_ip, or make it an override");
}

void cdl_lint(const struct cdl_policy *policy, struct cdl_report *report)
{
    lint_keys(policy, report);
    lint_rates(policy, report);
    lint_sharing(policy, report);
    lint_probes(policy, report);
    lint_exemptions(policy, report);
    cdl_lint_domains(policy, report);
}
