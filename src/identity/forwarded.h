/* Who is the client? The peer, unless proxies are trusted: then the forwarding header is walked from the right, past
 * every address that is trusted, and the first that is not is the client.
 *
 *     x-forwarded-for: 6.6.6.6, 203.0.113.7, 10.0.0.2        peer 10.0.0.1, trusted 10.0.0.0/8
 *                      ^ sent by    ^ found    ^ trusted
 *                        the client
 *
 * What a client writes into the header itself stands to the left of what the proxies append, and is never reached. A hop that is no
 * address ("unknown", "_hidden", junk) ends the walk at the last address that was believed: junk is never trusted and never an
 * identity of its own, which all junk would share. Empty elements are no hops: a list may have them anywhere (RFC 9110, 5.6.1).
 *
 * The header "forwarded" is read by RFC 7239 (the `for` of each element), any other as a list of hops. */
#ifndef CDL_IDENTITY_FORWARDED_H
#define CDL_IDENTITY_FORWARDED_H

#include "identity/address.h"

/* So many hops are looked at, from the right. */
#define CDL_FORWARDED_HOPS_MAX 64

struct cdl_client_rule {
    struct cdl_slice header;           /* its name in lower case, "x-forwarded-for"; empty: none is believed */
    const struct cdl_network *trusted; /* proxies that are believed */
    size_t trusted_count;

    /* Instead of `trusted`: exactly so many proxies stand in front, the peer being the first, and the client is that element from
     * the right (1: the last one), whatever the proxies say of each other to the right of it. A request with fewer elements
     * came another way, and one whose element is no address is of an unknown client: both are the peer's, the one address that
     * nobody can make up. 0: use `trusted`; at most CDL_FORWARDED_HOPS_MAX, above it all are the peer's. */
    unsigned hops;

    unsigned ipv6_prefix; /* 1 to 128: clients are grouped by it */
};

struct cdl_client {
    /* Grouped by the prefix; family 0 when the peer has none (a Unix socket) and nobody named one. */
    struct cdl_address address;
    bool believed_header; /* it came from the header */

    /* A header names somebody, and nothing of it was used: the peer is not trusted, or its part of the header is no address, or the
     * header is shorter than `hops`. Worth a warning. A rule without a header looks for "x-forwarded-for" and "forwarded". */
    bool ignored_header;
};

/* Whether what this peer says about the original request is believed: it is a trusted proxy, or the rule counts hops. A
 * peer without an address (a Unix socket) is the operator's own proxy, and believed. */
bool cdl_peer_is_trusted(const struct cdl_client_rule *rule, const struct cdl_address *peer);

/* `headers` are all the request's, names in any case; a header that was sent in several fields counts as one list. The time
 * is linear in their bytes, and in the hops looked at times `trusted_count`. */
struct cdl_client cdl_client_find(const struct cdl_client_rule *rule, const struct cdl_address *peer,
                                  const struct cdl_field *headers, size_t header_count);

#endif
