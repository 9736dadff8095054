/* Limits that no request asks by: those of descriptors, and those whose rate comes with each call. They are gathered while the files
 * are read, and stand behind the limits of requests when all are known. */
#ifndef CDL_POLICY_ADDED_H
#define CDL_POLICY_ADDED_H

#include "policy/read.h"

struct cdl_added_limit {
    struct cdl_limit_rule rule;
    struct cdl_rate rate;
    struct cdl_added_limit *next;
};

/* Adds a limit with a rate of its own, or one whose rate comes with each call (`limit` NULL), after the limits of requests have been
 * read. The rule's name is unique, and so is the rate's in the store, 1 to CDL_RATE_NAME_MAX bytes each; its `rate` is set here. Returns
 * its index in the policy's limits; CDL_NONE: memory is short, or there are too many, which is reported. */
uint32_t cdl_add_limit_rule(struct cdl_loader *loader, const struct cdl_limit_rule *rule, struct cdl_slice rate_name,
                            const struct caudal_limit *limit);

/* Puts the added limits into the policy, once, when no more will come. */
void cdl_place_added_limits(struct cdl_loader *loader);

#endif
