/* Loading a policy for a command: what is wrong with it goes to stderr. */
#ifndef CDL_CLI_POLICY_FILE_H
#define CDL_CLI_POLICY_FILE_H

#include "policy/policy.h"

/* NULL when the file has errors. Warnings are printed when the command is about them; `report` has them anyway. */
struct cdl_policy *cdl_cli_load_policy(const char *path, bool with_warnings, struct cdl_report *report);

#endif
