/* The steps of matching, which explain.c shows one by one. */
#ifndef CDL_POLICY_MATCH_PARTS_H
#define CDL_POLICY_MATCH_PARTS_H

#include "policy/match.h"
#include "policy/view.h"

enum cdl_identified {
    CDL_IDENTIFIED,
    CDL_IDENTITY_MISSING, /* and the limit denies that */
    CDL_IDENTITY_SKIPS,   /* missing, and the limit does not apply then */
    CDL_IDENTITY_AMBIGUOUS,
};

/* The values of a limit's `per`, and which of them is at fault otherwise. */
enum cdl_identified cdl_limit_values(struct cdl_view *view, const struct cdl_limit_rule *limit,
                                     struct cdl_slice values[CDL_PER_MAX], uint32_t *at_fault);

/* The override for these values, or CDL_NONE. */
uint32_t cdl_limit_override(const struct cdl_view *view, const struct cdl_limit_rule *limit,
                            const struct cdl_slice values[CDL_PER_MAX]);

uint64_t cdl_limit_cost(struct cdl_view *view, const struct cdl_limit_rule *limit, uint64_t said);

#endif
