/* A logged request as a policy sees it: the same attributes that it had when it was live. */
#ifndef CDL_REPLAY_LOG_REQUEST_H
#define CDL_REPLAY_LOG_REQUEST_H

#include "policy/policy.h"
#include "policy/request.h"
#include "wire/access_log.h"

/* Enough for the path and the host of any line. */
#define CDL_LOG_REQUEST_SCRATCH_BYTES ((size_t)4 * CDL_ACCESS_LINE_MAX)

struct cdl_log_request {
    struct cdl_request request;
    struct cdl_field user; /* who logged in, as the attribute "user" */
};

/* The client is found as the policy's rule says, from the logged peer and headers; a peer that is no address (a host's name, "-") is
 * unknown. What the log calls the user is the attribute "user". A target that has no path leaves it empty. Everything is borrowed
 * from the record, the scratch, which is cleared, and `made`. */
void cdl_log_request_make(const struct cdl_client_rule *rule, const struct cdl_access_record *record,
                          struct cdl_writer *scratch, struct cdl_log_request *made);

#endif
