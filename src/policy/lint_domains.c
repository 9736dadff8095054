/* What is legal in the files of Envoy's rate limit service, and can never have an effect. */
#include "policy/domain_tree.h"
#include "policy/load.h"

/* Beyond this the question "does an earlier one take all of it?" is no longer asked of every pair of siblings. */
#define WILDCARDS_MAX 256u

/* Whether a wildcard takes all that another one does, as far as can be seen from their words: where its own stars are, the other may
 * have what it will. */
static bool covers(const struct cdl_descriptor_node *wildcard, const struct cdl_descriptor_node *other)
{
    if (!wildcard->wildcard || !cdl_slice_equal(wildcard->key, other->key))
        return false;
    if (other->value.length == 0) /* what is left over: only a lone star leaves nothing */
        return wildcard->value.length == 1;
    return other->wildcard && cdl_glob_match(wildcard->value, other->value);
}

/* The wildcards of one level, in their order. */
struct wildcards {
    const struct cdl_descriptor_node *list[WILDCARDS_MAX];
    uint32_t count;
};

static void lint_child(const struct wildcards *wildcards, const struct cdl_descriptor_node *child,
                       struct cdl_report *report)
{
    uint32_t first = 0;
    while (first < wildcards->count && !covers(wildcards->list[first], child))
        first++;
    if (first == wildcards->count)
        return;
    const struct cdl_descriptor_node *taker = wildcards->list[first];
    cdl_report_turn_to(report, child->source, child->file);
    cdl_report_warning(report, child->place, "it is never met: '%.60s' at %.200s:%u:%u takes all that it could",
                       taker->value.bytes, taker->file.bytes, taker->place.line, taker->place.column);
}

/* Wildcards are tried in the order of the files, and a key alone after all of them. */
static void lint_children(const struct cdl_descriptor_node *node, struct cdl_report *report)
{
    struct wildcards wildcards = {.count = 0};
    for (uint32_t i = 0; i < node->child_count; i++) {
        if (!node->children[i]->wildcard)
            continue;
        lint_child(&wildcards, node->children[i], report);
        if (wildcards.count < WILDCARDS_MAX)
            wildcards.list[wildcards.count++] = node->children[i];
    }
    for (uint32_t i = 0; i < node->child_count; i++)
        if (node->children[i]->value.length == 0)
            lint_child(&wildcards, node->children[i], report);
    for (uint32_t i = 0; i < node->child_count; i++)
        lint_children(node->children[i], report);
}

/* The names of limits, of all domains: what is filed under a name says whose it is. */
struct labels {
    const struct cdl_policy *policy;
    struct cdl_lookup limits;
};

static bool is_label(const struct labels *labels, struct cdl_slice domain, struct cdl_slice label)
{
    const struct cdl_lookup_link *link = cdl_lookup_find(&labels->limits, cdl_lookup_hash(label, 0));
    for (; link != NULL; link = cdl_lookup_next(&labels->limits, link)) {
        const struct cdl_descriptor_rule *rule = labels->policy->limits[link->value].descriptor;
        if (cdl_slice_equal(rule->label, label) && cdl_slice_equal(rule->domain, domain))
            return true;
    }
    return false;
}

static void lint_replaces(const struct labels *labels, const struct cdl_descriptor_node *node,
                          struct cdl_report *report)
{
    for (uint32_t i = 0; node->rule != NULL && i < node->rule->replaces_count; i++) {
        const struct cdl_slice name = node->rule->replaces[i];
        cdl_report_turn_to(report, node->source, node->file);
        if (!is_label(labels, node->rule->domain, name))
            cdl_report_warning(report, labels->policy->limits[node->limit].place,
                               "'replaces': no limit of this domain has the name '%.60s'", name.bytes);
    }
    for (uint32_t i = 0; i < node->child_count; i++)
        lint_replaces(labels, node->children[i], report);
}

/* Without memory for it the question is not asked. */
static void lint_names(const struct cdl_policy *policy, struct cdl_report *report)
{
    struct cdl_arena scratch;
    struct labels labels = {.policy = policy};
    cdl_arena_init(&scratch, policy->arena.allocator);
    if (cdl_lookup_init(&labels.limits, &scratch, policy->limit_count)) {
        for (uint32_t i = 0; i < policy->limit_count; i++)
            if (policy->limits[i].descriptor != NULL && policy->limits[i].descriptor->label.length > 0)
                cdl_lookup_add(&labels.limits, cdl_lookup_hash(policy->limits[i].descriptor->label, 0), i);
        for (uint32_t i = 0; i < policy->domain_count; i++)
            lint_replaces(&labels, &policy->domains[i].root, report);
    }
    cdl_arena_free(&scratch);
}

void cdl_lint_domains(const struct cdl_policy *policy, struct cdl_report *report)
{
    for (uint32_t i = 0; i < policy->domain_count; i++)
        lint_children(&policy->domains[i].root, report);
    if (policy->domain_count > 0)
        lint_names(policy, report);
    cdl_report_turn_to(report, 0, (struct cdl_slice){"", 0});
}
