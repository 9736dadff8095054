/* Descriptors: what Envoy's rate limit service is asked, and the configuration files that such services are set up by.
 *
 * A file names a domain and a tree of descriptors. A request brings a domain and lists of entries, (key, value) each; every list
 * walks down the tree, entry by entry, and ends at a node or nowhere. A node with a rate is a limit of the policy like any other
 * (CDL_RULE_DESCRIPTOR); its keys are the values that were met on the way down. */
#ifndef CDL_POLICY_DOMAIN_H
#define CDL_POLICY_DOMAIN_H

#include "policy/match.h"
#include "wire/descriptor.h"

/* "MINUTE", or NULL for a number that is none; and its length. */
const char *cdl_unit_name(enum cdl_unit unit);
uint64_t cdl_unit_period_ns(enum cdl_unit unit);
/* So many in each window of a unit that is none of UNKNOWN. What no store can count, above a thousand million a second, is that. */
struct caudal_limit cdl_unit_limit(uint64_t requests, enum cdl_unit unit);

/* ---- the rules ---- */

struct cdl_descriptor_node; /* policy/domain_tree.h */

struct cdl_descriptor_rule {
    const struct cdl_descriptor_node *node; /* where it stands in the tree of its domain */
    struct cdl_slice domain;
    struct cdl_slice path;  /* "key1=value1/key2", for people; unique within its domain */
    struct cdl_slice label; /* `name` of its rate_limit; empty: none */
    enum cdl_unit unit;     /* CDL_UNIT_UNKNOWN: a period that is no unit */
    uint64_t requests_per_unit;
    bool unlimited, quota,
        shadow; /* quota: exceeding it is told but does not refuse; a rule's mode is then CDL_MODE_SHADOW */
    bool detailed_metric;
    uint32_t metric_depths;           /* bit d: value_to_metric at depth d (0: the outermost) */
    struct cdl_slice metadata;        /* JSON text of a map; empty: none */
    const struct cdl_slice *replaces; /* labels of limits that do not count where this one does */
    uint32_t replaces_count;
    struct cdl_slice zone; /* of its calendar; empty: it has none */
    struct cdl_slice file; /* where it stands; the place is the limit's */
};

/* What became of one descriptor. */
enum cdl_descriptor_outcome {
    CDL_DESCRIPTOR_FREE,      /* no limit applies to it */
    CDL_DESCRIPTOR_UNLIMITED, /* a rule says that it is not limited */
    CDL_DESCRIPTOR_REPLACED,  /* another descriptor's limit stands for its own */
    CDL_DESCRIPTOR_LIMITED,
};

struct cdl_descriptor_result {
    enum cdl_descriptor_outcome outcome;
    uint32_t charge; /* index in the plan's charges, of CDL_DESCRIPTOR_LIMITED; else CDL_NONE */
    uint32_t limit;  /* index in the policy's limits; CDL_NONE where there is none */
};

_Static_assert(CDL_DESCRIPTORS_MAX <= CDL_PLAN_MAX, "each may be a charge");

struct cdl_domain; /* policy/domain_tree.h */
/* NULL: no file names it. */
const struct cdl_domain *cdl_policy_domain(const struct cdl_policy *policy, struct cdl_slice name);
struct cdl_slice cdl_domain_name(const struct cdl_domain *domain);

/* Plans a request of at most CDL_DESCRIPTORS_MAX descriptors at `now_ns` (realtime, for limits with a calendar), one result for each. An
 * unknown domain limits nothing. The plan's outcome is CDL_OUTCOME_LIMITED, or CDL_OUTCOME_TOO_LONG when a key is. Pure, as
 * cdl_policy_match.
 *
 * Limits that are unlimited or replaced are in the results, but not among the charges. A limit that comes with its descriptor is enforced
 * under the domain's limit for these, in the charge's `per_call`; what it says of itself is in the descriptor. */
void cdl_descriptors_match(const struct cdl_policy *policy, const struct cdl_descriptor_request *request,
                           int64_t now_ns, char *scratch, size_t scratch_size, struct cdl_plan *plan,
                           struct cdl_descriptor_result *results);

#endif
