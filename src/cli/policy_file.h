/* Loading a policy for a command: what is wrong with it goes to stderr. */
#ifndef CDL_CLI_POLICY_FILE_H
#define CDL_CLI_POLICY_FILE_H

#include "policy/policy.h"

/* NULL when the file has errors. `report` has what was printed. */
struct cdl_policy *cdl_cli_load_policy(const char *path, struct cdl_report *report);

#endif
