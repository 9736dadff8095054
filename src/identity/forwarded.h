/* Who is the client? The peer, unless proxies are trusted: then the forwarding header is walked from the right, past
 * every address that is trusted, and the first that is not is the client.
 *
 * What a client writes into the header itself stands to the left of what the proxies append, and is never reached. A hop that is no
 * address ("unknown", "_hidden", junk) ends the walk at the last address that was believed: junk is never trusted and never an
 * identity of its own, which all junk would share. */
#ifndef CDL_IDENTITY_FORWARDED_H
#define CDL_IDENTITY_FORWARDED_H

#include "identity/address.h"

struct cdl_client_rule {
    struct cdl_slice header;           /* its name in lower case, "x-forwarded-for"; empty: none is believed */
    const struct cdl_network *trusted; /* proxies that are believed */
    size_t trusted_count;
    unsigned hops;        /* instead of `trusted`: how many proxies stand in front; 0: use `trusted` */
    unsigned ipv6_prefix; /* 1 to 128: clients are grouped by it */
};

struct cdl_client {
    struct cdl_address
        address; /* grouped by the prefix; family 0 when the peer has none (a Unix socket) and nobody named one */
    bool believed_header; /* it came from the header */
    bool ignored_header;  /* the header was there, but the peer is not trusted: worth a warning */
};

/* Whether what this peer says about the original request is believed. A peer without an address (a Unix socket) is the
 * operator's own proxy, and believed. */
bool cdl_peer_is_trusted(const struct cdl_client_rule *rule, const struct cdl_address *peer);

/* `headers` are all the request's, names in any case; a header that was sent in several fields counts as one list. At most
 * CDL_FORWARDED_HOPS_MAX hops are looked at. */
#define CDL_FORWARDED_HOPS_MAX 64
struct cdl_client cdl_client_find(const struct cdl_client_rule *rule, const struct cdl_address *peer,
                                  const struct cdl_field *headers, size_t header_count);

#endif
