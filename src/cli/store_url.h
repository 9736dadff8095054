/* Which store a command asks, and with what secret: the command line, the environment, the policy, in this order. */
#ifndef CDL_CLI_STORE_URL_H
#define CDL_CLI_STORE_URL_H

#include "policy/policy.h"

#define CDL_CLI_SECRET_MAX 4096u

struct cdl_cli_store {
    const char *url;
    const char *from;                /* who named it: "--store", "$CAUDAL_STORE", a policy's file, or "the default" */
    int64_t deadline_ns;             /* of one call; 0: the URL says it */
    char shown[512];                 /* the URL for messages, without secrets */
    char secret[CDL_CLI_SECRET_MAX]; /* of the policy; whoever opens it forgets it */
    size_t secret_length;
};

/* Finds the store; `option` and `policy` may be NULL. False when there is none to ask, after a message that begins with
 * "caudal COMMAND: ": its URL is that of a store in memory, or the policy's secret cannot be read. */
bool cdl_cli_find_store(const char *command, const char *option, const struct cdl_policy *policy,
                        struct cdl_cli_store *store);

#endif
