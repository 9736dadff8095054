/* From descriptors to questions.
 *
 * Each list of entries walks down its domain's tree. At every level the children of an entry's key are found by hash: the one with the
 * entry's value, else the first whose wildcards match it, else the one without a value. So the cost of a step grows with the wildcards of
 * one key, and with nothing else. The walk has to end at a node that has a rate; a list that is longer or shorter than the path of a
 * rate is not limited by it.
 *
 * The key of a charge is made of the values that the tree leaves open, in their order. What the tree fixes is in the limit's name. */
#include "policy/domain.h"

#include "base/arith.h"
#include "caudal/key.h"
#include "policy/calendar.h"
#include "policy/domain_tree.h"

/* ---- units ---- */

struct unit {
    const char *name;
    uint64_t seconds;
};

static const struct unit units[CDL_UNITS] = {
    [CDL_UNIT_SECOND] = {"SECOND", 1},
    [CDL_UNIT_MINUTE] = {"MINUTE", 60},
    [CDL_UNIT_HOUR] = {"HOUR", 3600},
    [CDL_UNIT_DAY] = {"DAY", 86400},
    [CDL_UNIT_MONTH] = {"MONTH", UINT64_C(30) * 86400},
    [CDL_UNIT_YEAR] = {"YEAR", UINT64_C(365) * 86400},
    [CDL_UNIT_WEEK] = {"WEEK", UINT64_C(7) * 86400},
};

const char *cdl_unit_name(enum cdl_unit unit)
{
    return (unsigned)unit < CDL_UNITS ? units[unit].name : NULL;
}

uint64_t cdl_unit_period_ns(enum cdl_unit unit)
{
    return (unsigned)unit < CDL_UNITS ? units[unit].seconds * CDL_NS_PER_S : 0;
}

struct caudal_limit cdl_unit_limit(uint64_t requests, enum cdl_unit unit)
{
    const uint64_t most = CAUDAL_RATE_MAX_PER_SECOND * units[unit].seconds;
    return (struct caudal_limit){
        .size = sizeof(struct caudal_limit),
        .algorithm = CAUDAL_FIXED_WINDOW,
        .count = requests < most ? requests : most,
        .period_ns = cdl_unit_period_ns(unit),
        .burst = CAUDAL_BURST_DEFAULT,
    };
}

/* ---- the tree ---- */

const struct cdl_domain *cdl_policy_domain(const struct cdl_policy *policy, struct cdl_slice name)
{
    const struct cdl_lookup_link *link = cdl_lookup_find(&policy->domain_names, cdl_lookup_hash(name, 0));
    for (; link != NULL; link = cdl_lookup_next(&policy->domain_names, link))
        if (cdl_slice_equal(policy->domains[link->value].name, name))
            return &policy->domains[link->value];
    return NULL;
}

struct cdl_slice cdl_domain_name(const struct cdl_domain *domain)
{
    return domain->name;
}

uint64_t cdl_descriptor_hash(enum cdl_descriptor_step step, struct cdl_slice key, struct cdl_slice value)
{
    const uint64_t hash = cdl_lookup_hash(key, step);
    return step == CDL_STEP_EXACT ? cdl_lookup_hash(value, hash) : hash;
}

static bool takes(const struct cdl_descriptor_node *child, const struct cdl_descriptor_entry *entry,
                  enum cdl_descriptor_step step)
{
    if (!cdl_slice_equal(child->key, entry->key))
        return false;
    switch (step) {
    case CDL_STEP_EXACT:
        return child->value.length > 0 && cdl_slice_equal(child->value, entry->value);
    case CDL_STEP_WILDCARD:
        return child->wildcard && cdl_glob_match(child->value, entry->value);
    case CDL_STEP_KEY:
        return child->value.length == 0;
    case CDL_STEP_NONE:
        break;
    }
    return false;
}

const struct cdl_descriptor_node *cdl_descriptor_child(const struct cdl_descriptor_node *node,
                                                       const struct cdl_descriptor_entry *entry,
                                                       enum cdl_descriptor_step *step)
{
    for (*step = CDL_STEP_EXACT; *step != CDL_STEP_NONE; ++*step) {
        const uint64_t hash = cdl_descriptor_hash(*step, entry->key, entry->value);
        const struct cdl_lookup_link *link = cdl_lookup_find(&node->lookup, hash);
        for (; link != NULL; link = cdl_lookup_next(&node->lookup, link))
            if (takes(node->children[link->value], entry, *step))
                return node->children[link->value];
    }
    return NULL;
}

/* ---- matching ---- */

/* Where a list of entries ended, and the values that it brings to the key there. */
struct walk {
    const struct cdl_descriptor_node *end; /* NULL: nowhere */
    struct cdl_slice values[CDL_DESCRIPTOR_ENTRIES_MAX];
    size_t value_count;
};

static void walk_down(const struct cdl_domain *domain, const struct cdl_descriptor *descriptor, struct walk *walk)
{
    enum cdl_descriptor_step step;
    walk->end = descriptor->entry_count <= CDL_DESCRIPTOR_ENTRIES_MAX ? &domain->root : NULL;
    walk->value_count = 0;
    for (size_t i = 0; i < descriptor->entry_count && walk->end != NULL; i++) {
        walk->end = cdl_descriptor_child(walk->end, &descriptor->entries[i], &step);
        if (walk->end != NULL && cdl_descriptor_is_counted(walk->end))
            walk->values[walk->value_count++] = descriptor->entries[i].value;
    }
}

struct matching {
    const struct cdl_policy *policy;
    const struct cdl_descriptor_request *request;
    int64_t now_ns;
    struct cdl_writer scratch;
    struct cdl_plan *plan;
    struct cdl_descriptor_result *results;
};

static uint64_t hits_of(const struct matching *matching, const struct cdl_descriptor *descriptor)
{
    if (descriptor->has_hits)
        return descriptor->hits;
    return matching->request->hits == 0 ? 1 : matching->request->hits;
}

/* A key that is too long refuses the request: nobody is unlimited for being odd. */
static void refuse(struct matching *matching, uint32_t limit)
{
    struct cdl_plan *plan = matching->plan;
    if (matching->policy->limits[limit].mode == CDL_MODE_SHADOW) {
        plan->shadow_refusals++;
    } else if (plan->outcome == CDL_OUTCOME_LIMITED) {
        plan->outcome = CDL_OUTCOME_TOO_LONG;
        plan->limit = limit;
    }
}

/* The charge of a descriptor whose key has just been written behind the scratch. */
static void add_charge(struct matching *matching, size_t i, uint32_t limit, size_t key_length,
                       const struct caudal_limit *per_call)
{
    struct cdl_plan *plan = matching->plan;
    struct cdl_charge *charge = &plan->charges[plan->count];
    *charge = (struct cdl_charge){
        .limit = limit,
        .override = CDL_NONE,
        .rate = matching->policy->limits[limit].rate,
        .key = {matching->scratch.bytes + matching->scratch.length, key_length},
        .cost = hits_of(matching, &matching->request->descriptors[i]),
    };
    if (per_call != NULL)
        charge->per_call = *per_call;
    matching->scratch.length += key_length;
    matching->results[i].outcome = CDL_DESCRIPTOR_LIMITED;
    matching->results[i].charge = (uint32_t)plan->count++;
    matching->results[i].limit = limit;
}

static void charge_walk(struct matching *matching, size_t i, const struct walk *walk)
{
    const struct cdl_writer *scratch = &matching->scratch;
    const struct cdl_calendar *calendar = matching->policy->limits[walk->end->limit].calendar;
    struct cdl_plan *plan = matching->plan;
    size_t length;
    if (cdl_policy_key(walk->values, walk->value_count, scratch->bytes + scratch->length,
                       scratch->size - scratch->length, &length) != CAUDAL_OK) {
        refuse(matching, walk->end->limit);
        return;
    }
    add_charge(matching, i, walk->end->limit, length, NULL);
    if (calendar == NULL || cdl_calendar_charge(calendar, matching->now_ns, &matching->scratch,
                                                &plan->charges[matching->results[i].charge]))
        return;
    plan->count--;
    matching->results[i] = (struct cdl_descriptor_result){CDL_DESCRIPTOR_FREE, CDL_NONE, walk->end->limit};
    refuse(matching, walk->end->limit);
}

/* A limit that comes with its descriptor is counted by all of it and by the unit: another number of requests in the same unit goes on
 * with the same count. */
static void charge_override(struct matching *matching, size_t i, const struct cdl_domain *domain)
{
    const struct cdl_descriptor *descriptor = &matching->request->descriptors[i];
    const struct cdl_writer *scratch = &matching->scratch;
    const char *unit = cdl_unit_name(descriptor->unit);
    struct caudal_key_part parts[1 + 2 * CDL_DESCRIPTOR_ENTRIES_MAX] = {{unit, strlen(unit)}};
    size_t count = 1, length;
    if (descriptor->entry_count > CDL_DESCRIPTOR_ENTRIES_MAX) {
        refuse(matching, domain->override_limit);
        return;
    }
    for (size_t j = 0; j < descriptor->entry_count; j++) {
        const struct cdl_descriptor_entry *entry = &descriptor->entries[j];
        parts[count++] = (struct caudal_key_part){entry->key.bytes, entry->key.length};
        parts[count++] = (struct caudal_key_part){entry->value.bytes, entry->value.length};
    }
    const struct caudal_limit limit = cdl_unit_limit(descriptor->requests_per_unit, descriptor->unit);
    if (caudal_key_join(parts, count, scratch->bytes + scratch->length, scratch->size - scratch->length, &length) ==
        CAUDAL_OK)
        add_charge(matching, i, domain->override_limit, length, &limit);
    else
        refuse(matching, domain->override_limit);
}

/* ---- what replaces what ---- */

static bool names(const struct cdl_descriptor_node *end, struct cdl_slice label)
{
    for (uint32_t i = 0; i < end->rule->replaces_count; i++)
        if (cdl_slice_equal(end->rule->replaces[i], label))
            return true;
    return false;
}

static bool is_replaced(const struct cdl_descriptor_node *const *ends, size_t count, size_t i)
{
    const struct cdl_slice label = ends[i]->rule->label;
    for (size_t j = 0; j < count && label.length > 0; j++)
        if (ends[j] != NULL && names(ends[j], label))
            return true;
    return false;
}

/* ---- a request ---- */

/* A rule that is off is as if it were not there. */
static bool has_rule(const struct cdl_policy *policy, const struct cdl_descriptor_node *end)
{
    return end != NULL && end->rule != NULL && policy->limits[end->limit].mode != CDL_MODE_OFF;
}

/* Plans one descriptor and returns where it ended, if a rule is there. */
static const struct cdl_descriptor_node *plan_one(struct matching *matching, const struct cdl_domain *domain, size_t i)
{
    const struct cdl_descriptor *descriptor = &matching->request->descriptors[i];
    struct walk walk;
    if (descriptor->has_limit) {
        charge_override(matching, i, domain);
        return NULL;
    }
    walk_down(domain, descriptor, &walk);
    if (!has_rule(matching->policy, walk.end))
        return NULL;
    matching->results[i].limit = walk.end->limit;
    if (walk.end->rule->unlimited)
        matching->results[i].outcome = CDL_DESCRIPTOR_UNLIMITED;
    else
        charge_walk(matching, i, &walk);
    return walk.end;
}

/* Charges are in the order of their descriptors, and stay in it. */
static void drop_replaced(struct matching *matching, const struct cdl_descriptor_node *const *ends)
{
    struct cdl_plan *plan = matching->plan;
    const size_t count = matching->request->descriptor_count;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct cdl_descriptor_result *result = &matching->results[i];
        if (result->outcome != CDL_DESCRIPTOR_LIMITED)
            continue;
        if (ends[i] != NULL && is_replaced(ends, count, i)) {
            result->outcome = CDL_DESCRIPTOR_REPLACED;
            result->charge = CDL_NONE;
            continue;
        }
        plan->charges[kept] = plan->charges[result->charge];
        result->charge = (uint32_t)kept++;
    }
    plan->count = kept;
}

static void plan_all(struct matching *matching, const struct cdl_domain *domain)
{
    const struct cdl_descriptor_node *ends[CDL_DESCRIPTORS_MAX];
    bool replaces = false;
    for (size_t i = 0; i < matching->request->descriptor_count; i++) {
        ends[i] = plan_one(matching, domain, i);
        replaces = replaces || (ends[i] != NULL && ends[i]->rule->replaces_count > 0);
    }
    if (replaces)
        drop_replaced(matching, ends);
}

void cdl_descriptors_match(const struct cdl_policy *policy, const struct cdl_descriptor_request *request,
                           int64_t now_ns, char *scratch, size_t scratch_size, struct cdl_plan *plan,
                           struct cdl_descriptor_result *results)
{
    const struct cdl_domain *domain = cdl_policy_domain(policy, request->domain);
    struct matching matching = {policy, request, now_ns, cdl_writer_on(scratch, scratch_size), plan, results};
    plan->outcome = CDL_OUTCOME_LIMITED;
    plan->exemption = plan->limit = plan->identity = CDL_NONE;
    plan->shadow_refusals = 0;
    plan->count = 0;
    for (size_t i = 0; i < request->descriptor_count; i++)
        results[i] = (struct cdl_descriptor_result){CDL_DESCRIPTOR_FREE, CDL_NONE, CDL_NONE};
    if (domain != NULL)
        plan_all(&matching, domain);
    if (plan->outcome == CDL_OUTCOME_LIMITED)
        return;
    plan->count = 0;
    for (size_t i = 0; i < request->descriptor_count; i++)
        results[i].charge = CDL_NONE;
}
