/* Internet addresses as identities: one spelling for one host, whatever the proxy in front wrote. */
#ifndef CDL_IDENTITY_ADDRESS_H
#define CDL_IDENTITY_ADDRESS_H

#include <stdint.h>

#include "base/slice.h"

#define CDL_ADDRESS_TEXT_MAX 48

/* IPv4-mapped IPv6 is IPv4. All zero: no address. */
struct cdl_address {
    uint8_t family;    /* 4, 6, or 0: none */
    uint8_t bytes[16]; /* the first 4 of them for IPv4; network order */
};

/* Reads a bare address: dotted IPv4 (four decimal numbers, no leading zeros) or IPv6 (RFC 4291), no port, no zone. */
bool cdl_address_parse(struct cdl_slice text, struct cdl_address *address);

/* Reads an address as proxies write it in a hop: blanks around it, quotes, brackets, a port, a zone (dropped). */
bool cdl_address_parse_hop(struct cdl_slice text, struct cdl_address *address);

/* Canonical text (RFC 5952 for IPv6), NUL-terminated; returns its length. */
size_t cdl_address_format(const struct cdl_address *address, char text[CDL_ADDRESS_TEXT_MAX]);

/* The address with all bits after the first `ipv6_prefix` cleared when it is IPv6: clients own networks, not addresses. */
struct cdl_address cdl_address_group(const struct cdl_address *address, unsigned ipv6_prefix);

struct cdl_network {
    struct cdl_address base;
    uint8_t bits;
};

/* Reads "10.0.0.0/8", "2001:db8::/32" or a bare address. On failure *why is a constant that says what is wrong with it
 * ("has bits set after its prefix", ...). */
bool cdl_network_parse(struct cdl_slice text, struct cdl_network *network, const char **why);
bool cdl_network_contains(const struct cdl_network *network, const struct cdl_address *address);

#endif
