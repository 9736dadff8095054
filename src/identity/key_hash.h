/* One hash of a key serves everything: which lines to look at, and the fingerprint to know it by.
 *
 * XXH3 with a secret drawn when the store is opened, so that no client can choose keys that collide. */
#ifndef CDL_IDENTITY_KEY_HASH_H
#define CDL_IDENTITY_KEY_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define CDL_KEY_SECRET_BYTES 192

struct cdl_key_hash {
    uint64_t low;
    uint64_t high;
};

static inline struct cdl_key_hash cdl_key_hash(const uint8_t secret[CDL_KEY_SECRET_BYTES], const void *key,
                                               size_t length)
{
    /* XXH3 reads nothing at a NULL of length 0. */
    XXH128_hash_t hash = XXH3_128bits_withSecret(key, length, secret, CDL_KEY_SECRET_BYTES);
    return (struct cdl_key_hash){hash.low64, hash.high64};
}

#endif
