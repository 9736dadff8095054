/* Which rules could hold for a request, without asking all of them.
 *
 * A rule that demands exact values of something (a host, a method, the first segments of a path, a header, an attribute) is filed
 * under those values; of several such demands the one is taken whose values fewest rules share. A request looks its own values
 * up and gets only the rules that are filed under them, and those that could not be filed. So the cost of a decision does not
 * grow with the rules that do not match, as long as what they demand differs.
 *
 * What comes out are candidates: the conditions of each are still to be checked, and one may come out more than once. */
#ifndef CDL_POLICY_INDEX_H
#define CDL_POLICY_INDEX_H

#include "policy/view.h"

#define CDL_INDEX_FILES_MAX 16u /* different things that rules are filed under */
#define CDL_INDEX_DEPTH_MAX 16u /* segments of a path that are looked at */

/* One thing that rules are filed under. For a path: its prefixes of the depths in `depths`. */
struct cdl_index_file {
    struct cdl_identity what;
    uint32_t depths; /* bit d: rules are filed under prefixes of d segments */
};

struct cdl_index {
    struct cdl_index_file files[CDL_INDEX_FILES_MAX];
    uint32_t file_count;
    struct cdl_lookup rules;
    const uint32_t *unfiled; /* in ascending order */
    uint32_t unfiled_count;
};

/* NULL when memory is short. Limits that are off, or that no request asks by, are left out. */
struct cdl_index *cdl_index_exemptions(const struct cdl_policy *policy, struct cdl_arena *arena);
struct cdl_index *cdl_index_limits(const struct cdl_policy *policy, struct cdl_arena *arena);

/* Calls `take` with each candidate, until it returns false. */
void cdl_index_candidates(const struct cdl_index *index, struct cdl_view *view,
                          bool (*take)(void *context, uint32_t rule), void *context);

#endif
