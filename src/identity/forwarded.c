/* The walk along the forwarding header.
 *
 * Everything is read from right to left, down to the bytes: where an element begins is decided by what stands to its right alone,
 * which proxies wrote. Read from the left, one quote that a client leaves open would swallow the hop that a trusted proxy
 * appended to it:
 *
 *     forwarded: for="x, for=203.0.113.7          read from the right: for=203.0.113.7
 *
 * On well-formed text both directions agree.
 */
#include "identity/forwarded.h"

/* What is left of the header: fields that were not looked at, and the left part of the one that is. */
struct walk {
    struct cdl_slice header;
    const struct cdl_field *fields;
    size_t field_count;
    struct cdl_slice rest;
    bool is_rfc7239;
};

static struct walk walk_along(struct cdl_slice header, const struct cdl_field *fields, size_t count)
{
    const bool is_rfc7239 = cdl_slice_equal_nocase(header, CDL_SLICE("forwarded"));
    return (struct walk){.header = header, .fields = fields, .field_count = count, .is_rfc7239 = is_rfc7239};
}

/* Inside of quotes, a quote with an odd number of backslashes before it is text. */
static bool is_escaped(struct cdl_slice text, size_t at)
{
    size_t backslashes = 0;
    while (backslashes < at && text.bytes[at - backslashes - 1] == '\\')
        backslashes++;
    return backslashes % 2 == 1;
}

/* Takes what stands to the right of the last separator off `rest`, and the separator. With `has_quotes`, a separator between
 * quotes is text. `rest` is not empty. */
static struct cdl_slice cut_last(struct cdl_slice *rest, char separator, bool has_quotes)
{
    bool is_quoted = false;
    size_t start = rest->length;
    for (; start > 0; start--) {
        const char c = rest->bytes[start - 1];
        if (c == separator && !is_quoted)
            break;
        if (has_quotes && c == '"' && !(is_quoted && is_escaped(*rest, start - 1)))
            is_quoted = !is_quoted;
    }
    const struct cdl_slice last = cdl_slice_from(*rest, start);
    rest->length = start > 0 ? start - 1 : 0;
    return last;
}

/* The next element to the left that is not empty. */
static bool next_element(struct walk *walk, struct cdl_slice *element)
{
    for (;;) {
        while (walk->rest.length > 0) {
            *element = cdl_slice_trim(cut_last(&walk->rest, ',', walk->is_rfc7239));
            if (element->length > 0)
                return true;
        }
        if (walk->field_count == 0)
            return false;
        const struct cdl_field *field = &walk->fields[--walk->field_count];
        if (cdl_slice_equal_nocase(field->name, walk->header))
            walk->rest = field->value;
    }
}

/* The value of `for` in an element of RFC 7239. Twice in one element is an error there, and here a sign that a proxy let the client
 * write into its element. */
static bool find_for(struct cdl_slice element, struct cdl_slice *node)
{
    bool found = false;
    while (element.length > 0) {
        const struct cdl_slice pair = cdl_slice_trim(cut_last(&element, ';', true));
        const char *equals = pair.length > 0 ? memchr(pair.bytes, '=', pair.length) : NULL;
        if (equals == NULL)
            continue;
        const size_t name_length = (size_t)(equals - pair.bytes);
        if (!cdl_slice_equal_nocase(cdl_slice_head(pair, name_length), CDL_SLICE("for")))
            continue;
        if (found)
            return false;
        found = true;
        *node = cdl_slice_from(pair, name_length + 1);
    }
    return found;
}

static bool read_hop(const struct walk *walk, struct cdl_slice element, struct cdl_address *address)
{
    struct cdl_slice node = element;
    if (walk->is_rfc7239 && !find_for(element, &node))
        return false;
    return cdl_address_parse_hop(node, address);
}

static bool is_trusted(const struct cdl_client_rule *rule, const struct cdl_address *address)
{
    for (size_t i = 0; i < rule->trusted_count; i++)
        if (cdl_network_contains(&rule->trusted[i], address))
            return true;
    return false;
}

/* Both kinds of walk: false when they leave *client as it was. */
static bool walk_past_trusted(struct walk walk, const struct cdl_client_rule *rule, struct cdl_address *client)
{
    bool is_named = false;
    struct cdl_slice element;
    for (unsigned hop = 0; hop < CDL_FORWARDED_HOPS_MAX; hop++) {
        if (!next_element(&walk, &element) || !read_hop(&walk, element, client))
            break;
        is_named = true;
        if (!is_trusted(rule, client))
            break;
    }
    return is_named;
}

static bool walk_by_count(struct walk walk, const struct cdl_client_rule *rule, struct cdl_address *client)
{
    struct cdl_slice element;
    if (rule->hops > CDL_FORWARDED_HOPS_MAX)
        return false;
    for (unsigned hop = 0; hop < rule->hops; hop++)
        if (!next_element(&walk, &element))
            return false;
    return read_hop(&walk, element, client);
}

bool cdl_peer_is_trusted(const struct cdl_client_rule *rule, const struct cdl_address *peer)
{
    return peer->family == 0 || rule->hops > 0 || is_trusted(rule, peer);
}

static bool names_somebody(struct cdl_slice header, const struct cdl_field *fields, size_t count)
{
    struct walk walk = walk_along(header, fields, count);
    struct cdl_slice element;
    return next_element(&walk, &element);
}

static bool is_header_there(const struct cdl_client_rule *rule, const struct cdl_field *fields, size_t count)
{
    if (rule->header.length > 0)
        return names_somebody(rule->header, fields, count);
    return names_somebody(CDL_SLICE("x-forwarded-for"), fields, count) ||
           names_somebody(CDL_SLICE("forwarded"), fields, count);
}

struct cdl_client cdl_client_find(const struct cdl_client_rule *rule, const struct cdl_address *peer,
                                  const struct cdl_field *headers, size_t header_count)
{
    struct cdl_client client = {.address = *peer};
    if (rule->header.length > 0 && cdl_peer_is_trusted(rule, peer)) {
        const struct walk walk = walk_along(rule->header, headers, header_count);
        client.believed_header = rule->hops > 0 ? walk_by_count(walk, rule, &client.address)
                                                : walk_past_trusted(walk, rule, &client.address);
    }
    client.ignored_header = !client.believed_header && is_header_there(rule, headers, header_count);
    client.address = cdl_address_group(&client.address, rule->ipv6_prefix);
    return client;
}
