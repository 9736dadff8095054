/* The parts of the loader, one a file, and what they share. */
#ifndef CDL_POLICY_LOAD_H
#define CDL_POLICY_LOAD_H

#include "policy/read.h"

extern const struct cdl_shape cdl_identity_shape, cdl_client_shape; /* load_identity.c */
extern const struct cdl_shape cdl_limit_shape, cdl_cost_shape, cdl_override_shape, cdl_lease_shape; /* load_limits.c */
extern const struct cdl_shape cdl_listen_shape, cdl_tls_shape, cdl_timeouts_shape, cdl_caps_shape, cdl_store_shape,
    cdl_log_shape, cdl_metrics_shape;                              /* load_server.c */
extern const struct cdl_shape cdl_resp_shape, cdl_resp_user_shape; /* load_resp.c */

/* Each takes the node under the root's key of that name, or NULL when the key is absent. */
void cdl_load_identity(struct cdl_loader *loader, const struct cdl_yaml_node *node);
void cdl_load_exemptions(struct cdl_loader *loader, const struct cdl_yaml_node *node);
void cdl_load_limits(struct cdl_loader *loader, const struct cdl_yaml_node *node);
void cdl_load_server(struct cdl_loader *loader, const struct cdl_yaml_node *listen, const struct cdl_yaml_node *store,
                     const struct cdl_yaml_node *log);
/* After the server, whose defaults it begins with. */
void cdl_load_metrics(struct cdl_loader *loader, const struct cdl_yaml_node *node);
/* After the limits: it adds the one that limits that come with a command are counted under. */
void cdl_load_resp(struct cdl_loader *loader, const struct cdl_yaml_node *node);

/* Warnings about a policy without errors. `root` has the places. */
void cdl_lint(const struct cdl_policy *policy, struct cdl_report *report);
void cdl_lint_domains(const struct cdl_policy *policy, struct cdl_report *report);

#endif
