/* Keys: any bytes. A key made of several parts is joined so that different parts never give the same bytes. */
#ifndef CAUDAL_KEY_H
#define CAUDAL_KEY_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CAUDAL_KEY_MAX 65536u /* bytes; a longer key is CAUDAL_ERR_KEY, never unlimited and never cut */

struct caudal_key_part {
    const void *bytes; /* may be NULL when length is 0 */
    size_t length;     /* bytes; 0 is a part as good as any */
};

/**
 * Joins parts into one key. Injective: ("a", "bc"), ("ab", "c"), ("abc") and ("a", "bc", "") all differ.
 * Each part is written as a netstring (D. J. Bernstein, 1997): its length in decimal, ':', its bytes, ','.
 *
 * @param parts   the parts, in order; may be NULL when count is 0
 * @param count   how many
 * @param buffer  receives the key; may be NULL when size is 0
 * @param size    bytes at buffer
 * @param length  receives the length of the whole key, also when it does not fit
 * @return CAUDAL_OK; CAUDAL_ERR_ARGUMENT for a NULL that is not allowed; CAUDAL_ERR_KEY when the key does not fit into size
 *         or is longer than CAUDAL_KEY_MAX (the buffer's content is then not a key)
 *
 * Thread-safe.
 */
CAUDAL_API int caudal_key_join(const struct caudal_key_part *parts, size_t count, void *buffer, size_t size,
                               size_t *length);

#ifdef __cplusplus
}
#endif
#endif
