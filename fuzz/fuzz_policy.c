/* Any bytes as a policy file.
 *
 * Either it loads, and then every part of it is sound, or it is refused with at least one reason; whatever is said is one line of
 * printable text with a place in the file.
 */
#include <stdlib.h>
#include <string.h>

#include "policy/explain.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(int condition)
{
    if (!condition)
        abort();
}

static void require_said(const struct cdl_report *report)
{
    require(report->count <= 2 * CDL_FINDINGS_MAX);
    for (size_t i = 0; i < report->count; i++) {
        const struct cdl_finding *finding = &report->findings[i];
        size_t length = strnlen(finding->text, sizeof finding->text);
        require(length > 0 && length < sizeof finding->text);
        for (size_t j = 0; j < length; j++)
            require((unsigned char)finding->text[j] >= ' ' && finding->text[j] != 0x7f);
        require((finding->place.line == 0) == (finding->place.column == 0));
        const struct cdl_finding *before = i > 0 ? &report->findings[i - 1] : finding;
        require(finding->source > before->source ||
                (finding->source == before->source && finding->place.line >= before->place.line));
    }
}

static void require_rate(const struct cdl_policy *policy, const struct cdl_rate *rate)
{
    char words[CDL_EXPLAIN_RATE_MAX];
    struct cdl_writer writer = cdl_writer_on(words, sizeof words);
    require(caudal_limit_check(&rate->limit, NULL) == CAUDAL_OK);
    require(rate->name.length > 0 && rate->name.length <= CDL_RATE_NAME_MAX);
    require(rate->limit_index < policy->limit_count);
    cdl_explain_rate(&rate->limit, &writer);
    require(writer.length > 0 && !writer.overflow);
}

static void require_sound(const struct cdl_policy *policy)
{
    require(policy->limit_count > 0 && policy->limit_count <= CDL_POLICY_LIMITS_MAX);
    require(policy->rate_count >= policy->limit_count && policy->rate_count <= CDL_POLICY_RATES_MAX);
    for (uint32_t i = 0; i < policy->rate_count; i++)
        require_rate(policy, &policy->rates[i]);
    for (uint32_t i = 0; i < policy->limit_count; i++) {
        const struct cdl_limit_rule *limit = &policy->limits[i];
        require(policy->rates[limit->rate].limit_index == i);
        if (limit->kind != CDL_RULE_PER_CALL) /* which nobody asks by its name, and whose keys are the caller's */
            require(cdl_policy_find(policy, limit->name) == i && limit->key_shape < policy->shape_count);
        require(limit->per_count <= CDL_PER_MAX && limit->cost.min <= limit->cost.max);
        for (size_t j = 0; j < limit->when.count; j++)
            require(limit->when.conditions[j].count > 0);
        for (uint32_t j = 0; j < limit->override_count; j++)
            require(policy->rates[limit->overrides[j].rate].override_index == j);
    }
    for (uint32_t i = 0; i < policy->exemption_count; i++)
        require(policy->exemptions[i].count > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cdl_report report;
    /* Memory of exactly its size, so that AddressSanitizer sees a look beyond its end. */
    char *text = malloc(size > 0 ? size : 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    struct cdl_policy *policy = cdl_policy_load_text("fuzz", (struct cdl_slice){text, size}, NULL, &report);
    free(text); /* nothing of it may still be in use */
    require((policy == NULL) == (report.errors > 0));
    require_said(&report);
    if (policy != NULL)
        require_sound(policy);
    cdl_policy_free(policy);
    return 0;
}
