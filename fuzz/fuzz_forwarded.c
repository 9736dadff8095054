/* Any bytes as forwarding headers: each line is a field, written by a client.
 *
 * Whatever the client wrote, the hops that proxies append to it decide, in each header, by trust and by count, appended to the
 * last field or as a field of their own; and a peer that is not trusted is the client. As an address, each line that can be read
 * comes back the same after it was written.
 */
#include <stdlib.h>

#include "base/writer.h"
#include "identity/forwarded.h"

#define FIELDS_MAX 100
#define APPENDED_MAX 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

static struct cdl_address address_of(const char *text)
{
    struct cdl_address address = {0};
    require(cdl_address_parse(cdl_slice_of(text), &address));
    return address;
}

/* ---- addresses ---- */

static void require_round_trip(const struct cdl_address *address)
{
    char text[CDL_ADDRESS_TEXT_MAX], bracketed[CDL_ADDRESS_TEXT_MAX + 16];
    const size_t length = cdl_address_format(address, text);
    require(length > 0 && length < sizeof text && strlen(text) == length);
    struct cdl_address again, hop;
    require(cdl_address_parse(cdl_slice_of(text), &again) && cdl_address_equal(&again, address));
    struct cdl_writer writer = cdl_writer_on(bracketed, sizeof bracketed);
    cdl_writef(&writer, address->family == 6 ? " \"[%s]:65535\" " : " \"%s:65535\" ", text);
    require(cdl_address_parse_hop(cdl_written(&writer), &hop) && cdl_address_equal(&hop, address));
}

static void require_group(const struct cdl_address *address)
{
    const struct cdl_address group = cdl_address_group(address, 56), again = cdl_address_group(&group, 56);
    require(cdl_address_equal(&group, &again) && group.family == address->family);
    const struct cdl_network network = {group, group.family == 6 ? 56 : 32};
    require(cdl_network_contains(&network, address));
}

static void try_network(struct cdl_slice text)
{
    struct cdl_network network;
    const char *why = NULL;
    if (cdl_network_parse(text, &network, &why))
        require(why == NULL && cdl_network_contains(&network, &network.base));
    else
        require(why != NULL);
}

static void try_address(struct cdl_slice text)
{
    struct cdl_address bare, hop;
    const bool is_bare = cdl_address_parse(text, &bare), is_hop = cdl_address_parse_hop(text, &hop);
    if (is_bare)
        require(is_hop && cdl_address_equal(&bare, &hop));
    if (is_hop) {
        require_round_trip(&hop);
        require_group(&hop);
    }
    try_network(text);
}

/* ---- clients ---- */

struct request {
    struct cdl_field fields[FIELDS_MAX + 1]; /* one more for the proxies */
    size_t count;
};

/* What a chain of proxies appends, the client first, and how many proxies there are. */
struct chain {
    const char *header, *hops;
    unsigned proxies;
};

static const struct chain chains[] = {
    {"x-forwarded-for", "203.0.113.7", 1},
    {"x-forwarded-for", "203.0.113.7:4711, 10.0.0.2", 2},
    {"x-forwarded-for", "203.0.113.7,\t,[::ffff:10.0.0.3]:1, 10.0.0.2,", 3},
    {"forwarded", "for=203.0.113.7", 1},
    {"forwarded", "for=\"203.0.113.7:4711\";host=\"a,\\\"b\", by=x;for=10.0.0.2", 2},
    {"forwarded", "for=203.0.113.7,For=\"[::ffff:10.0.0.3]\", for=10.0.0.2;proto=https,", 3},
};

static struct cdl_client find(const struct cdl_client_rule *rule, const char *peer, const struct request *request)
{
    const struct cdl_address address = address_of(peer);
    const struct cdl_client client = cdl_client_find(rule, &address, request->fields, request->count);
    require(!client.believed_header || !client.ignored_header);
    if (!client.believed_header)
        require(cdl_address_equal(&client.address, &address));
    return client;
}

static void require_client(const struct chain *chain, const struct request *request)
{
    static const char *const want = "203.0.113.7";
    const struct cdl_network trusted = {address_of("10.0.0.0"), 8};
    const struct cdl_client_rule by_trust = {cdl_slice_of(chain->header), &trusted, 1, 0, 128};
    const struct cdl_client_rule by_count = {cdl_slice_of(chain->header), NULL, 0, chain->proxies, 128};
    const struct cdl_address client = address_of(want);
    const struct cdl_client trusting = find(&by_trust, "10.0.0.1", request);
    require(trusting.believed_header && cdl_address_equal(&trusting.address, &client));
    const struct cdl_client counting = find(&by_count, "198.51.100.1", request);
    require(counting.believed_header && cdl_address_equal(&counting.address, &client));
    const struct cdl_client stranger = find(&by_trust, "198.51.100.1", request);
    require(!stranger.believed_header && stranger.ignored_header);
}

/* The proxies add a field of their own. */
static void try_own_field(const struct chain *chain, struct request request)
{
    request.fields[request.count++] = (struct cdl_field){cdl_slice_of(chain->header), cdl_slice_of(chain->hops)};
    require_client(chain, &request);
}

/* The proxies append to the client's last field. */
static void try_same_field(const struct chain *chain, struct request request)
{
    struct cdl_slice *last = &request.fields[request.count - 1].value;
    const size_t size = last->length + APPENDED_MAX;
    char *bytes = malloc(size);
    if (bytes == NULL)
        return;
    struct cdl_writer value = cdl_writer_on(bytes, size);
    cdl_write(&value, *last);
    cdl_write_text(&value, ", ");
    cdl_write_text(&value, chain->hops);
    require(!value.overflow);
    *last = cdl_written(&value);
    require_client(chain, &request);
    free(bytes);
}

static void try_chain(const struct chain *chain, struct request *request)
{
    const struct cdl_network trusted = {address_of("10.0.0.0"), 8};
    const struct cdl_client_rule by_trust = {cdl_slice_of(chain->header), &trusted, 1, 0, 128};
    for (size_t i = 0; i < request->count; i++)
        request->fields[i].name = by_trust.header;
    const struct cdl_client lied = find(&by_trust, "10.0.0.1",
                                        request); /* no more than that it ends, and finds somebody */
    require(lied.address.family != 0);
    try_own_field(chain, *request);
    if (request->count > 0)
        try_same_field(chain, *request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(
        size); /* nothing before it and nothing behind it: AddressSanitizer sees a look beyond either end */
    if (copy == NULL)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    struct request request = {.count = 0};
    for (size_t start = 0; start < size && request.count < FIELDS_MAX;) {
        const char *line = copy + start, *end = memchr(line, '\n', size - start);
        const size_t length = end == NULL ? size - start : (size_t)(end - line);
        request.fields[request.count++].value = (struct cdl_slice){line, length};
        try_address((struct cdl_slice){line, length});
        start += length + 1;
    }
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++)
        try_chain(&chains[i], &request);
    free(copy);
    return 0;
}
