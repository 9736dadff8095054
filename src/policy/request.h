/* A request as a policy sees it: who and what, wherever it came from (HTTP, JSON, a log line). All slices are borrowed. */
#ifndef CDL_POLICY_REQUEST_H
#define CDL_POLICY_REQUEST_H

#include "identity/address.h"

struct cdl_request {
    struct cdl_slice method;         /* "GET"; empty: unknown, and likewise below */
    struct cdl_slice host;           /* lower case, without port */
    struct cdl_slice path;           /* normalised (identity/path.h) */
    struct cdl_slice query;          /* without '?' */
    struct cdl_address client;       /* already found (identity/forwarded.h) and grouped; family 0: unknown */
    const struct cdl_field *headers; /* names in any case */
    size_t header_count;
    const struct cdl_field
        *attributes; /* named by the caller in JSON: "tenant", or any of the identities, which they override */
    size_t attribute_count;
};

#endif
