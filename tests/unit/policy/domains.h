/* What tests of Envoy's rate limit service share: loading a text, what was said of it, and asking with texts such as "key1=a,key2=b". */
#ifndef CAUDAL_TESTS_UNIT_POLICY_DOMAINS_H
#define CAUDAL_TESTS_UNIT_POLICY_DOMAINS_H

#include <stdlib.h>

#include "../support.h"
#include "policy/domain.h"

#define RATE "rate_limit: {unit: minute, requests_per_unit: 20}"

static struct cdl_report report; /* large, so not on the stack */

/* All findings, a line each; those of the file that was asked for are of "p". */
static inline const char *findings(void)
{
    static char text[sizeof report];
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < report.count; i++) {
        char line[CDL_FINDING_LINE_MAX];
        cdl_finding_format(&report.findings[i], "p", line, sizeof line);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s\n", line);
    }
    return text;
}

static inline struct cdl_policy *load(const char *text)
{
    return cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
}

static inline struct cdl_policy *load_good(const char *text)
{
    struct cdl_policy *policy = load(text);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", findings(), text);
    return policy;
}

struct bad {
    const char *text, *findings;
};

static inline void check_bad(const struct bad *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cdl_policy *policy = load(cases[i].text);
        if (policy != NULL || strcmp(findings(), cases[i].findings) != 0)
            fail_msg("for:\n%s\nexpected:\n%sgot:\n%s", cases[i].text, cases[i].findings, findings());
    }
}
#define CHECK_BAD(cases) check_bad(cases, COUNT_OF(cases))

/* ---------------------------------------------------------------------------------------------------------- asking */

#define ASKED_MAX 8

/* A request made of texts such as "key1=a,key2=b", one a descriptor. */
struct asked {
    struct cdl_descriptor_request request;
    struct cdl_descriptor descriptors[ASKED_MAX];
    struct cdl_descriptor_entry entries[ASKED_MAX][CDL_DESCRIPTOR_ENTRIES_MAX + 1];
};

static struct asked asked;
static struct cdl_plan plan;
static struct cdl_descriptor_result results[CDL_DESCRIPTORS_MAX];
static char scratch[CDL_MATCH_SCRATCH_BYTES];
static int64_t matched_at_ns;

static inline size_t read_entries(const char *text, struct cdl_descriptor_entry *entries)
{
    size_t count = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        const size_t key = strcspn(text, "=");
        entries[count++] = (struct cdl_descriptor_entry){{text, key}, {text + key + 1, length - key - 1}};
        text += length + (text[length] == ',');
    }
    return count;
}

static inline struct cdl_descriptor *ask_for(const char *text)
{
    const size_t i = asked.request.descriptor_count++;
    struct cdl_descriptor *descriptor = &asked.descriptors[i];
    *descriptor = (struct cdl_descriptor){.entries = asked.entries[i],
                                          .entry_count = read_entries(text, asked.entries[i])};
    return descriptor;
}

static inline void begin(const char *domain)
{
    asked.request = (struct cdl_descriptor_request){.domain = cdl_slice_of(domain), .descriptors = asked.descriptors};
}

static inline void match(const struct cdl_policy *policy)
{
    cdl_descriptors_match(policy, &asked.request, matched_at_ns, scratch, sizeof scratch, &plan, results);
}

/* "limit key", or the outcome of a descriptor that is not limited. */
static inline const char *outcome(const struct cdl_policy *policy, size_t i)
{
    static char text[1024];
    const struct cdl_descriptor_result *result = &results[i];
    static const char *const words[] = {"free", "unlimited", "replaced"};
    if (result->outcome != CDL_DESCRIPTOR_LIMITED) {
        assert_int_equal(result->charge, CDL_NONE);
        return words[result->outcome];
    }
    const struct cdl_charge *charge = &plan.charges[result->charge];
    assert_int_equal(charge->limit, result->limit);
    assert_int_equal(charge->rate, policy->limits[charge->limit].rate);
    snprintf(text, sizeof text, "%.*s %.*s", CDL_SLICE_ARG(policy->limits[charge->limit].name),
             CDL_SLICE_ARG(charge->key));
    return text;
}

static inline const char *met(const struct cdl_policy *policy, const char *domain, const char *descriptor)
{
    begin(domain);
    ask_for(descriptor);
    match(policy);
    assert_int_equal(plan.outcome, CDL_OUTCOME_LIMITED);
    return outcome(policy, 0);
}

struct expected {
    const char *descriptor, *met;
};

static inline void check_met(const char *text, const struct expected *cases, size_t count)
{
    struct cdl_policy *policy = load_good(text);
    for (size_t i = 0; i < count; i++) {
        const char *got = met(policy, "d", cases[i].descriptor);
        if (strcmp(got, cases[i].met) != 0)
            fail_msg("%s meets '%s', not '%s'", cases[i].descriptor, got, cases[i].met);
    }
    cdl_policy_free(policy);
}
#define CHECK_MET(text, cases) check_met(text, cases, COUNT_OF(cases))

static inline const struct cdl_limit_rule *limit_named(const struct cdl_policy *policy, const char *name)
{
    const uint32_t index = cdl_policy_find(policy, cdl_slice_of(name));
    if (index == CDL_NONE)
        fail_msg("there is no limit '%s'", name);
    return &policy->limits[index];
}

static inline const struct caudal_limit *rate_of(const struct cdl_policy *policy, const char *name)
{
    return &policy->rates[limit_named(policy, name)->rate].limit;
}

#endif
