/* One instance's share of a limit, for the time in which the store that all instances share is away. */
#ifndef CDL_LIMITER_LOCAL_SHARE_H
#define CDL_LIMITER_LOCAL_SHARE_H

#include "policy/policy.h"

/* The share that the policy gives to this instance: the limit's own, or one part in `instances`. */
struct cdl_ratio cdl_local_ratio(const struct cdl_policy *policy, const struct cdl_limit_rule *limit);

/* The limit that admits that share of what `limit` admits, and never more: a bucket's rate is exact, what is counted in whole tokens
 * (a burst, a window's count) is rounded down, but not to nothing, for nobody could pass then. `limit` is legal, and so is what is
 * returned. */
struct caudal_limit cdl_local_limit(const struct caudal_limit *limit, struct cdl_ratio share);

#endif
