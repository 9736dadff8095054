/* Where to listen: "host:port", "[v6]:port", ":port" (loopback) or "unix:/path". Port 0: any that is free. */
#ifndef CDL_BASE_ENDPOINT_H
#define CDL_BASE_ENDPOINT_H

#include <stdint.h>

#include "base/slice.h"

struct cdl_endpoint {
    bool is_unix;
    struct cdl_slice host; /* without brackets; empty: loopback. Borrowed from the text, as `path` is */
    uint16_t port;
    struct cdl_slice path; /* of a Unix socket */
};

/* On failure *why is a constant that says what is wrong, to follow the offending word: "has no port". */
bool cdl_endpoint_parse(struct cdl_slice text, struct cdl_endpoint *endpoint, const char **why);

#endif
