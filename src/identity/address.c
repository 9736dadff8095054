/* Addresses in and out of text.
 *
 * The C library reads the bare address (inet_pton: no leading zeros, no short forms, no zone); what proxies put around it is taken
 * off here, by a grammar that refuses what it does not know:
 *
 *     hop      = blanks ( node / DQUOTE node DQUOTE ) blanks
 *     node     = IPv4 [ ":" port ] / IPv6 [ "%" zone ] / "[" IPv6 [ "%" zone ] "]" [ ":" port ]
 *     port     = 1*5DIGIT / "_" 1*( ALPHA / DIGIT / "." / "_" / "-" )      ; the second form is RFC 7239's
 *     zone     = 1*( ALPHA / DIGIT / "." / "_" / "-" / "~" / "%" )         ; also as "%25eth0"
 *
 * A colon alone belongs to a port and two belong to IPv6, so the forms cannot be mistaken for each other. Work is bounded: every
 * rule looks at each byte at most once, and an address is not longer than INET6_ADDRSTRLEN.
 */
#include "identity/address.h"

#include <arpa/inet.h>

#include "base/writer.h"

#define IPV4_BYTES 4
#define IPV6_BYTES 16
#define IPV6_GROUPS 8
#define PORT_DIGITS_MAX 5

static const uint8_t mapped_prefix[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
#define MAPPED_BITS (8 * (unsigned)sizeof mapped_prefix)

struct cdl_address cdl_address_from_bytes(const uint8_t *bytes, size_t length)
{
    struct cdl_address address = {0};
    if (length == IPV6_BYTES && memcmp(bytes, mapped_prefix, sizeof mapped_prefix) == 0) {
        bytes += sizeof mapped_prefix;
        length = IPV4_BYTES;
    }
    if (length != IPV4_BYTES && length != IPV6_BYTES)
        return address;
    address.family = length == IPV4_BYTES ? 4 : 6;
    memcpy(address.bytes, bytes, length);
    return address;
}

/* ---- reading ---- */

static const char *find(struct cdl_slice text, char c)
{
    return text.length > 0 ? memchr(text.bytes, c, text.length) : NULL;
}

static struct cdl_slice before(struct cdl_slice text, const char *at)
{
    return cdl_slice_head(text, (size_t)(at - text.bytes));
}

static struct cdl_slice after(struct cdl_slice text, const char *at)
{
    return cdl_slice_from(text, (size_t)(at - text.bytes) + 1);
}

bool cdl_address_parse(struct cdl_slice text, struct cdl_address *address)
{
    char copy[INET6_ADDRSTRLEN];
    uint8_t bytes[IPV6_BYTES];
    if (text.length == 0 || text.length >= sizeof copy || find(text, '\0') != NULL)
        return false;
    memcpy(copy, text.bytes, text.length);
    copy[text.length] = '\0';
    const bool is_ipv6 = find(text, ':') != NULL;
    if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, copy, bytes) != 1)
        return false;
    *address = cdl_address_from_bytes(bytes, is_ipv6 ? IPV6_BYTES : IPV4_BYTES);
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* One or more letters, digits and `others`. Not <ctype.h>, which would ask the locale. */
static bool is_word(struct cdl_slice text, const char *others)
{
    for (size_t i = 0; i < text.length; i++) {
        const char c = cdl_ascii_lower(text.bytes[i]);
        if (!is_digit(c) && !(c >= 'a' && c <= 'z') && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return text.length > 0;
}

static bool is_port(struct cdl_slice text)
{
    if (text.length > 0 && text.bytes[0] == '_')
        return is_word(cdl_slice_from(text, 1), "._-");
    for (size_t i = 0; i < text.length; i++)
        if (!is_digit(text.bytes[i]))
            return false;
    return text.length > 0 && text.length <= PORT_DIGITS_MAX;
}

/* IPv6, with or without a zone. The colon is asked for because brackets and zones do not make an address of "1.2.3.4". */
static bool read_ipv6(struct cdl_slice text, struct cdl_address *address)
{
    const char *percent = find(text, '%');
    if (percent != NULL && !is_word(after(text, percent), "._-~%"))
        return false;
    const struct cdl_slice bare = percent == NULL ? text : before(text, percent);
    return find(bare, ':') != NULL && cdl_address_parse(bare, address);
}

static bool read_bracketed(struct cdl_slice text, struct cdl_address *address)
{
    const char *closing = find(text, ']');
    if (closing == NULL)
        return false;
    const struct cdl_slice rest = after(text, closing);
    if (rest.length > 0 && (rest.bytes[0] != ':' || !is_port(cdl_slice_from(rest, 1))))
        return false;
    return read_ipv6(cdl_slice_from(before(text, closing), 1), address);
}

static struct cdl_slice unquote(struct cdl_slice text)
{
    if (text.length < 2 || text.bytes[0] != '"' || text.bytes[text.length - 1] != '"')
        return text;
    return cdl_slice_head(cdl_slice_from(text, 1), text.length - 2);
}

bool cdl_address_parse_hop(struct cdl_slice text, struct cdl_address *address)
{
    text = unquote(cdl_slice_trim(text));
    const char *colon = find(text, ':');
    if (colon == NULL)
        return cdl_address_parse(text, address);
    if (text.bytes[0] == '[')
        return read_bracketed(text, address);
    if (find(after(text, colon), ':') == NULL)
        return is_port(after(text, colon)) && cdl_address_parse(before(text, colon), address);
    return read_ipv6(text, address);
}

/* ---- writing ---- */

static void write_ipv4(struct cdl_writer *writer, const uint8_t bytes[IPV4_BYTES])
{
    for (size_t i = 0; i < IPV4_BYTES; i++) {
        if (i > 0)
            cdl_write_text(writer, ".");
        cdl_write_u64(writer, bytes[i]);
    }
}

static unsigned group_at(const uint8_t bytes[IPV6_BYTES], unsigned i)
{
    return (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1];
}

static void write_group(struct cdl_writer *writer, unsigned group)
{
    unsigned shift = group > 0xfff ? 12 : group > 0xff ? 8 : group > 0xf ? 4 : 0;
    for (;; shift -= 4) {
        cdl_write(writer, (struct cdl_slice){&"0123456789abcdef"[group >> shift & 0xf], 1});
        if (shift == 0)
            return;
    }
}

/* The groups that "::" stands for: the longest run of zeros, the first of equals, and never a single one (RFC 5952, 4.2). */
struct run {
    unsigned start, length;
};

static struct run zeros_to_hide(const uint8_t bytes[IPV6_BYTES])
{
    struct run best = {IPV6_GROUPS, 1}; /* none */
    unsigned length = 0;
    for (unsigned i = 0; i < IPV6_GROUPS; i++) {
        length = group_at(bytes, i) == 0 ? length + 1 : 0;
        if (length > best.length)
            best = (struct run){i + 1 - length, length};
    }
    return best;
}

/* Not inet_ntop: C libraries differ in when they end an address with dotted IPv4 (::0.1.0.2 or ::1:2), and a key must not. */
static void write_ipv6(struct cdl_writer *writer, const uint8_t bytes[IPV6_BYTES])
{
    const struct run hidden = zeros_to_hide(bytes);
    for (unsigned i = 0; i < IPV6_GROUPS;) {
        if (i == hidden.start) {
            cdl_write_text(writer, "::");
            i += hidden.length;
            continue;
        }
        if (i > 0 && i != hidden.start + hidden.length)
            cdl_write_text(writer, ":");
        write_group(writer, group_at(bytes, i++));
    }
}

size_t cdl_address_format(const struct cdl_address *address, char text[CDL_ADDRESS_TEXT_MAX])
{
    struct cdl_writer writer = cdl_writer_on(text, CDL_ADDRESS_TEXT_MAX - 1);
    if (address->family == 4)
        write_ipv4(&writer, address->bytes);
    else if (address->family == 6)
        write_ipv6(&writer, address->bytes);
    text[writer.length] = '\0';
    return writer.length;
}

/* ---- networks ---- */

static unsigned bits_of(const struct cdl_address *address)
{
    return address->family == 4 ? 8 * IPV4_BYTES : 8 * IPV6_BYTES;
}

/* The address with all bits after the first `bits` cleared. */
static struct cdl_address masked(const struct cdl_address *address, unsigned bits)
{
    struct cdl_address result = *address;
    for (unsigned i = 0; i < IPV6_BYTES; i++) {
        const unsigned kept = bits <= 8 * i ? 0 : bits - 8 * i;
        if (kept < 8)
            result.bytes[i] &= (uint8_t)(0xff00 >> kept);
    }
    return result;
}

struct cdl_address cdl_address_group(const struct cdl_address *address, unsigned ipv6_prefix)
{
    if (address->family != 6 || ipv6_prefix == 0)
        return *address;
    return masked(address, ipv6_prefix);
}

/* A decimal number without leading zeros that is no larger than any prefix may be. */
static bool read_bits(struct cdl_slice text, unsigned *bits)
{
    if (text.length == 0 || text.length > 3 || (text.length > 1 && text.bytes[0] == '0'))
        return false;
    *bits = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (!is_digit(text.bytes[i]))
            return false;
        *bits = *bits * 10 + (unsigned)(text.bytes[i] - '0');
    }
    return true;
}

/* Sets the prefix; returns what is wrong with it, or NULL. `bits` are counted as the text counts them: for an IPv4-mapped address
 * from the start of ::ffff:0:0, 96 bits before the address. */
static const char *set_bits(struct cdl_network *network, unsigned bits, bool is_mapped)
{
    const unsigned skipped = is_mapped ? MAPPED_BITS : 0;
    if (bits > skipped + bits_of(&network->base))
        return "has a prefix longer than its address";
    if (bits < skipped)
        return "has bits set after its prefix"; /* those of ffff */
    const struct cdl_address base = masked(&network->base, bits - skipped);
    if (!cdl_address_equal(&base, &network->base))
        return "has bits set after its prefix";
    network->bits = (uint8_t)(bits - skipped);
    return NULL;
}

static const char *read_network(struct cdl_slice text, struct cdl_network *network)
{
    const char *slash = find(text, '/');
    const struct cdl_slice address = slash == NULL ? text : before(text, slash);
    if (!cdl_address_parse(address, &network->base))
        return "is not an IPv4 or IPv6 address or network";
    const bool is_mapped = network->base.family == 4 && find(address, ':') != NULL;
    unsigned bits = bits_of(&network->base) + (is_mapped ? MAPPED_BITS : 0);
    if (slash != NULL && !read_bits(after(text, slash), &bits))
        return "has a prefix that is not a number of bits";
    return set_bits(network, bits, is_mapped);
}

bool cdl_network_parse(struct cdl_slice text, struct cdl_network *network, const char **why)
{
    struct cdl_network result = {0};
    const char *wrong = read_network(text, &result);
    if (wrong == NULL)
        *network = result;
    else
        *why = wrong;
    return wrong == NULL;
}

bool cdl_network_contains(const struct cdl_network *network, const struct cdl_address *address)
{
    if (address->family == 0 || address->family != network->base.family)
        return false;
    const struct cdl_address base = masked(address, network->bits);
    return cdl_address_equal(&base, &network->base);
}
