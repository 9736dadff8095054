/* Internet addresses as identities: one spelling for one host, whatever the proxy in front wrote.
 *
 * Every address is made by cdl_address_from_bytes, here or for a socket's peer, so an IPv4 host that reaches a listener for both
 * families (::ffff:203.0.113.7) is the same client as one that reaches an IPv4 listener. */
#ifndef CDL_IDENTITY_ADDRESS_H
#define CDL_IDENTITY_ADDRESS_H

#include <stdint.h>

#include "base/slice.h"

#define CDL_ADDRESS_TEXT_MAX 48

/* IPv4-mapped IPv6 is IPv4. All zero: no address. */
struct cdl_address {
    uint8_t family;    /* 4, 6, or 0: none */
    uint8_t bytes[16]; /* the first 4 of them for IPv4; network order; those that are not used are 0 */
};

static inline bool cdl_address_equal(const struct cdl_address *a, const struct cdl_address *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* no padding: all members are bytes */
}

/* The address in 4 or 16 bytes of network order, as a socket has it; no address for any other length. */
struct cdl_address cdl_address_from_bytes(const uint8_t *bytes, size_t length);

/* Reads a bare address: dotted IPv4 (four decimal numbers, no leading zeros) or IPv6 (RFC 4291), no port, no zone. What cannot be
 * read leaves *address as it was, here and below. */
bool cdl_address_parse(struct cdl_slice text, struct cdl_address *address);

/* Reads an address as proxies write it in a hop: blanks around it, quotes, brackets (of IPv6), a port, a zone (of IPv6).
 * Port and zone are dropped: the first differs by connection, the second is a name on the proxy's machine. */
bool cdl_address_parse_hop(struct cdl_slice text, struct cdl_address *address);

/* Canonical text (RFC 5952 for IPv6), NUL-terminated; returns its length, which is 0 when there is no address. */
size_t cdl_address_format(const struct cdl_address *address, char text[CDL_ADDRESS_TEXT_MAX]);

/* The address with all bits after the first `ipv6_prefix` cleared when it is IPv6: clients own networks, not addresses.
 * A prefix outside of 1 to 128 clears nothing, since 0 would make all of IPv6 one client. */
struct cdl_address cdl_address_group(const struct cdl_address *address, unsigned ipv6_prefix);

struct cdl_network {
    struct cdl_address base;
    uint8_t bits;
};

/* Reads "10.0.0.0/8", "2001:db8::/32" or a bare address. "::ffff:10.0.0.0/104" is 10.0.0.0/8. On failure *why is a constant that
 * says what is wrong with it ("has bits set after its prefix", ...). */
bool cdl_network_parse(struct cdl_slice text, struct cdl_network *network, const char **why);

/* Networks hold addresses of their own family only: 0.0.0.0/0 is all of IPv4, ::/0 all of IPv6. */
bool cdl_network_contains(const struct cdl_network *network, const struct cdl_address *address);

#endif
