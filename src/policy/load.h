/* The parts of the loader, one a file, and what they share. */
#ifndef CDL_POLICY_LOAD_H
#define CDL_POLICY_LOAD_H

#include "policy/read.h"

extern const struct cdl_shape cdl_identity_shape, cdl_client_shape; /* load_identity.c */
extern const struct cdl_shape cdl_limit_shape, cdl_cost_shape, cdl_override_shape, cdl_lease_shape; /* load_limits.c */
extern const struct cdl_shape cdl_listen_shape, cdl_tls_shape, cdl_timeouts_shape, cdl_caps_shape, cdl_store_shape,
    cdl_log_shape; /* load_server.c */

/* Each takes the node under the root's key of that name, or NULL when the key is absent. */
void cdl_load_identity(struct cdl_loader *loader, const struct cdl_yaml_node *node);
void cdl_load_exemptions(struct cdl_loader *loader, const struct cdl_yaml_node *node);
void cdl_load_limits(struct cdl_loader *loader, const struct cdl_yaml_node *node);
void cdl_load_server(struct cdl_loader *loader, const struct cdl_yaml_node *listen, const struct cdl_yaml_node *store,
                     const struct cdl_yaml_node *log);

/* Warnings about a policy without errors. `root` has the places. */
void cdl_lint(const struct cdl_policy *policy, struct cdl_report *report);

#endif
