/* Which slot a key has, and who has which slot.
 *
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/, "Key distribution model" and "Hash tags";
 * https://redis.io/docs/latest/commands/cluster-slots/ for the reply: an array of ranges, each the first slot, the last slot, the primary and
 * its replicas. A server is its preferred name, its port, its id and, since 7.0, more about it, in which there may be its address. Before 4.0
 * there is no id. */
#include "store/redis/client_parts.h"

/* CRC16, polynomial 0x1021, from 0, four bits at a time. */
static uint16_t crc16(struct cdl_slice bytes)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                       0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    uint32_t crc = 0;
    for (size_t i = 0; i < bytes.length; i++) {
        const uint32_t byte = (unsigned char)bytes.bytes[i];
        crc = (crc << 4 ^ table[(crc >> 12 ^ byte >> 4) & 15]) & 0xffff;
        crc = (crc << 4 ^ table[(crc >> 12 ^ byte) & 15]) & 0xffff;
    }
    return (uint16_t)crc;
}

uint16_t cdl_redis_slot(struct cdl_slice key)
{
    const char *open = key.length > 0 ? memchr(key.bytes, '{', key.length) : NULL;
    if (open != NULL) {
        const struct cdl_slice rest = cdl_slice_from(key, (size_t)(open - key.bytes) + 1);
        const char *close = rest.length > 0 ? memchr(rest.bytes, '}', rest.length) : NULL;
        if (close != NULL && close > rest.bytes)
            key = cdl_slice_head(rest, (size_t)(close - rest.bytes));
    }
    return crc16(key) % CDL_REDIS_SLOTS;
}

/* ---- the reply to CLUSTER SLOTS ---- */

static bool next_number(struct cdl_slice *rest, uint64_t most, uint64_t *number)
{
    struct cdl_resp value;
    if (!cdl_resp_next(rest, &value) || value.kind != CDL_RESP_INTEGER || value.integer < 0)
        return false;
    *number = (uint64_t)value.integer;
    return *number <= most;
}

/* The address among what else is said about a server: names and values in turn. */
static bool find_address(struct cdl_slice more, struct cdl_slice *address)
{
    struct cdl_resp name, value;
    while (cdl_resp_next(&more, &name) && cdl_resp_next(&more, &value))
        if (name.kind == CDL_RESP_STRING && cdl_slice_equal(name.text, CDL_SLICE("ip")) &&
            value.kind == CDL_RESP_STRING) {
            *address = value.text;
            return value.text.length > 0;
        }
    return false;
}

/* An empty or null name means the server that was asked; "?" means that the name is not known, then the address may be. */
static int read_server(struct cdl_slice rest, const struct cdl_redis_place *asked, struct cdl_redis_place *place)
{
    struct cdl_resp host, more;
    uint64_t port;
    if (!cdl_resp_next(&rest, &host) || !next_number(&rest, UINT16_MAX, &port))
        return -1;
    if (host.kind == CDL_RESP_NULL || (host.kind == CDL_RESP_STRING && host.text.length == 0))
        host.text = cdl_slice_of(asked->host);
    else if (host.kind != CDL_RESP_STRING)
        return -1;
    else if (cdl_slice_equal(host.text, CDL_SLICE("?"))) {
        if (!cdl_resp_next(&rest, &more) || !cdl_resp_next(&rest, &more) ||
            (more.kind != CDL_RESP_ARRAY && more.kind != CDL_RESP_MAP) || !find_address(more.elements, &host.text))
            return 0;
    }
    return cdl_redis_place_set(place, host.text, port) ? 1 : 0;
}

int cdl_redis_range_next(struct cdl_slice *rest, const struct cdl_redis_place *asked, struct cdl_redis_range *range)
{
    struct cdl_resp entry, server;
    uint64_t first, last;
    if (!cdl_resp_next(rest, &entry) || entry.kind != CDL_RESP_ARRAY)
        return -1;
    if (!next_number(&entry.elements, CDL_REDIS_SLOTS - 1, &first) ||
        !next_number(&entry.elements, CDL_REDIS_SLOTS - 1, &last) || first > last)
        return -1;
    range->first = (uint32_t)first;
    range->last = (uint32_t)last;
    if (!cdl_resp_next(&entry.elements, &server))
        return 0;
    if (server.kind != CDL_RESP_ARRAY)
        return -1;
    return read_server(server.elements, asked, &range->place);
}
