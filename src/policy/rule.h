/* Reading who and when: identities, patterns of their values, and rules made of both. */
#ifndef CDL_POLICY_RULE_H
#define CDL_POLICY_RULE_H

#include "policy/read.h"

/* Reads the name of an identity, as it stands in `per` or as key of a rule. False, with an error, when it is none. */
bool cdl_read_identity(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_identity *identity);

/* A reader for tables: the name of a header into a struct cdl_slice, in lower case. */
void cdl_read_header(struct cdl_loader *, const struct cdl_yaml_node *, const struct cdl_setting *, void *target);

/* Reads what a value of this identity is compared with. False, with an error, when no value could match. */
bool cdl_read_pattern(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_identity *identity,
                      struct cdl_pattern *pattern);

/* A map from identities to patterns, or lists of them, into a rule. `name` is the key that it stands under. */
void cdl_read_rule(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *name,
                   struct cdl_rule *rule);

#endif
