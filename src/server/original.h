/* The request that a proxy asks about, out of the request that it asks with.
 *
 * Traefik and Caddy say what the client wanted in X-Forwarded-Method, -Uri and -Host, nginx (with the shipped snippet) in
 * X-Original-Method, -URI and -Host, or X-Original-URL. These are believed only of a peer that the policy trusts; anyone else
 * is asking for itself, with its own method and target, whatever it writes into such fields. A field that decides and is sent
 * twice is refused, and so is one that a field of another name contradicts, which the proxy may have passed on from its client: which
 * of the two would count? What a proxy does not say is taken from its own request. */
#ifndef CDL_SERVER_ORIGINAL_H
#define CDL_SERVER_ORIGINAL_H

#include "policy/policy.h"
#include "policy/request.h"

struct cdl_asking {
    struct cdl_slice method, target; /* the asking request's own */
    const struct cdl_field *fields;
    size_t field_count;
    struct cdl_address peer; /* family 0: a Unix socket */
};

enum cdl_original_result {
    CDL_ORIGINAL_OK,
    CDL_ORIGINAL_TWICE,    /* what decides was said twice; *about is the name of the second field */
    CDL_ORIGINAL_BAD_PATH, /* the target has no path, or one that is too long */
};

/* What comes out of it. */
struct cdl_original {
    struct cdl_request request;
    bool ignored_header; /* an untrusted peer names another client: worth a warning */
    const char *about;
};

/* `scratch` holds the path and host in their one spelling, for as long as the request is used. */
enum cdl_original_result cdl_original_find(const struct cdl_client_rule *rule, const struct cdl_asking *asking,
                                           struct cdl_writer *scratch, struct cdl_original *original);

#endif
