/* Places as replies give them: a host and a port in text. */
#include "store/redis/client_parts.h"

bool cdl_redis_place_set(struct cdl_redis_place *place, struct cdl_slice host, uint64_t port)
{
    if (host.length == 0 || host.length >= sizeof place->host || memchr(host.bytes, '\0', host.length) != NULL ||
        port > UINT16_MAX)
        return false;
    memset(place, 0, sizeof *place);
    memcpy(place->host, host.bytes, host.length);
    place->port = (uint16_t)port;
    return true;
}

bool cdl_redis_number(struct cdl_slice text, uint64_t most, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
        *number = *number * 10 + (uint64_t)(text.bytes[i] - '0');
        if (*number > most)
            return false;
    }
    return text.length > 0;
}

static struct cdl_slice next_word(struct cdl_slice *text)
{
    const char *space = text->length > 0 ? memchr(text->bytes, ' ', text->length) : NULL;
    const struct cdl_slice word = cdl_slice_head(*text, space == NULL ? text->length : (size_t)(space - text->bytes));
    *text = cdl_slice_from(*text, word.length + (space != NULL));
    return word;
}

/* "MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381", "MOVED 3999 :6381". */
bool cdl_redis_error_place(struct cdl_slice text, const struct cdl_redis_place *from, uint32_t *slot,
                           struct cdl_redis_place *place)
{
    uint64_t number, port;
    next_word(&text);
    if (!cdl_redis_number(next_word(&text), CDL_REDIS_SLOTS - 1, &number))
        return false;
    const struct cdl_slice where = next_word(&text);
    const char *colon = where.length > 0 ? memrchr(where.bytes, ':', where.length) : NULL;
    if (colon == NULL)
        return false;
    struct cdl_slice host = cdl_slice_head(where, (size_t)(colon - where.bytes));
    if (!cdl_redis_number(cdl_slice_from(where, host.length + 1), UINT16_MAX, &port) || port == 0 ||
        cdl_slice_equal(host, CDL_SLICE("?")))
        return false;
    if (host.length == 0)
        host = cdl_slice_of(from->host);
    *slot = (uint32_t)number;
    return cdl_redis_place_set(place, host, port);
}
