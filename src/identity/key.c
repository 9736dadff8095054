#include "caudal/key.h"

#include <stdint.h>
#include <string.h>

/* "LENGTH:", without printf, which would take longer than all the rest; returns how long it is. */
static size_t write_head(size_t length, char head[24])
{
    char digits[20];
    size_t count = 0, written = 0;
    do
        digits[count++] = (char)('0' + length % 10);
    while ((length /= 10) != 0);
    while (count > 0)
        head[written++] = digits[--count];
    head[written++] = ':';
    return written;
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
        char head[24];
        size_t head_length = write_head(parts[i].length, head);
        size_t part_length;
        if (__builtin_add_overflow(head_length + 1, parts[i].length, &part_length) ||
            __builtin_add_overflow(total, part_length, &total)) {
            *length = SIZE_MAX;
            return CAUDAL_ERR_KEY;
        }
        if (out == NULL || total > size)
            continue; /* only count on, so that the caller learns how much it takes */
        char *at = out + total - part_length;
        memcpy(at, head, head_length);
        if (parts[i].length > 0)
            memcpy(at + head_length, parts[i].bytes, parts[i].length);
        at[part_length - 1] = ',';
    }
    *length = total;
    return total > size || total > CAUDAL_KEY_MAX ? CAUDAL_ERR_KEY : CAUDAL_OK;
}
