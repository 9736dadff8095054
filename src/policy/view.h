/* A request as rules see it: what the caller's attributes override is overridden, everything is in its one spelling, and any
 * identity can be asked for its value. */
#ifndef CDL_POLICY_VIEW_H
#define CDL_POLICY_VIEW_H

#include "policy/policy.h"
#include "policy/request.h"

struct cdl_view {
    const struct cdl_policy *policy;
    const struct cdl_request *request;
    struct cdl_writer
        *scratch; /* for values that are not in the request as they are; overflow: some value did not fit */
    struct cdl_slice method, host, path;
    struct cdl_address client;
    struct cdl_slice client_text;
};

void cdl_view_open(struct cdl_view *view, const struct cdl_policy *policy, const struct cdl_request *request,
                   struct cdl_writer *scratch);

/* The values of an identity, one after the other: only a header that was sent in several fields has more than one. Values are
 * never empty: what is empty is missing. Start with a cursor of 0. */
bool cdl_view_next(struct cdl_view *view, const struct cdl_identity *what, size_t *cursor, struct cdl_slice *value);

bool cdl_pattern_matches(const struct cdl_pattern *pattern, struct cdl_slice value, const struct cdl_address *client);
bool cdl_condition_holds(struct cdl_view *view, const struct cdl_condition *condition);
bool cdl_rule_holds(struct cdl_view *view, const struct cdl_rule *rule);

/* Whether a limit applies: its `when` holds, and the path is one that its templates name. */
bool cdl_limit_applies(struct cdl_view *view, const struct cdl_limit_rule *limit);

#endif
