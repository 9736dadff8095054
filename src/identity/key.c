#include "caudal/key.h"

#include <stdint.h>
#include <string.h>

#include "identity/key_parts.h"

static size_t count_digits(size_t number)
{
    size_t count = 1;
    for (; number >= 100; number /= 100)
        count += 2;
    return count + (number >= 10);
}

/* "LENGTH:", without printf, which would take longer than all the rest. */
static char *write_head(char *at, size_t digits, size_t length)
{
    for (size_t i = digits; i > 1; i--, length /= 10)
        at[i - 1] = (char)('0' + length % 10);
    at[0] = (char)('0' + length);
    at[digits] = ':';
    return at + digits + 1;
}

int caudal_key_join(const struct caudal_key_part *parts, size_t count, void *buffer, size_t size, size_t *length)
{
    if (length == NULL || (parts == NULL && count > 0) || (buffer == NULL && size > 0))
        return CAUDAL_ERR_ARGUMENT;
    char *out = buffer;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].bytes == NULL && parts[i].length > 0)
            return CAUDAL_ERR_ARGUMENT;
        const size_t digits = count_digits(parts[i].length);
        size_t part_length;
        if (__builtin_add_overflow(digits + 2, parts[i].length, &part_length) ||
            __builtin_add_overflow(total, part_length, &total)) {
            *length = SIZE_MAX;
            return CAUDAL_ERR_KEY;
        }
        if (out == NULL || total > size)
            continue; /* only count on, so that the caller learns how much it takes */
        char *at = write_head(out + total - part_length, digits, parts[i].length);
        if (parts[i].length > 0)
            memcpy(at, parts[i].bytes, parts[i].length);
        at[parts[i].length] = ',';
    }
    *length = total;
    return total > size || total > CAUDAL_KEY_MAX ? CAUDAL_ERR_KEY : CAUDAL_OK;
}

bool cdl_key_next_part(struct cdl_slice *key, struct cdl_slice *part)
{
    size_t at = 0, length = 0;
    for (; at < key->length && key->bytes[at] >= '0' && key->bytes[at] <= '9' && length <= CAUDAL_KEY_MAX; at++)
        length = 10 * length + (size_t)(key->bytes[at] - '0');
    if (at == 0 || at == key->length || key->bytes[at] != ':' || key->length - at < length + 2)
        return false;
    *part = cdl_slice_head(cdl_slice_from(*key, at + 1), length);
    *key = cdl_slice_from(*key, at + length + 2);
    return true;
}
