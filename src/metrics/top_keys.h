/* Who is refused most: the space-saving sketch of Metwally, Agrawal and El Abbadi (2005).
 *
 * A fixed number of entries, each a (limit, key) with a count and an error. A pair that has an entry counts up; a new one
 * takes over the entry with the smallest count c, as count c + 1 and error c, since it may have been counted there before. So
 * for every entry count − error ≤ true ≤ count; and a pair that has no entry was refused at most as often as the smallest
 * count. Any pair refused more often than 1/entries of all refusals has an entry.
 *
 * Entries of the same count hang in a list of their own, and those lists in one by rising count (the paper's stream summary),
 * so an update is a hash look-up and a few pointers, whatever clients send. Keys longer than 256 bytes are kept as their first
 * 256 bytes, their length and a hash of the rest.
 *
 * One thread adds to a sketch and owns it; the admin page reads it. A lock stands between them, which the owner only tries:
 * while a reader copies (some microseconds) updates are not waited for but counted as missed, and widen the guarantee by
 * that number. */
#ifndef CDL_METRICS_TOP_KEYS_H
#define CDL_METRICS_TOP_KEYS_H

#include <stdint.h>

#include "base/slice.h"
#include "caudal/store.h"

#define CDL_TOP_KEY_BYTES 256u
#define CDL_TOP_KEYS_MAX 65536u

/* A (limit, key), and what is known about it. */
struct cdl_top_key {
    uint64_t count;      /* refused at most so often, misses apart */
    uint64_t error;      /* refused at least count − error times */
    uint64_t rest_hash;  /* of what stands behind the first CDL_TOP_KEY_BYTES; 0: nothing does */
    uint32_t limit;      /* as it was added: an id that is not given to another limit, such as the store's */
    uint32_t key_length; /* of the whole key */
    char bytes[CDL_TOP_KEY_BYTES];
};

/* What is kept of a key. */
static inline struct cdl_slice cdl_top_key_shown(const struct cdl_top_key *key)
{
    return (struct cdl_slice){key->bytes, key->key_length < CDL_TOP_KEY_BYTES ? key->key_length : CDL_TOP_KEY_BYTES};
}

struct cdl_top_keys;

/* A sketch of 1 to CDL_TOP_KEYS_MAX entries, of about 400 bytes each. The seed is secret, so that no client can choose keys
 * that collide, and the same for all sketches that are to be merged. NULL when memory is short or a number out of range. */
struct cdl_top_keys *cdl_top_keys_open(uint32_t entries, uint64_t seed, const struct caudal_allocator *allocator);
void cdl_top_keys_close(struct cdl_top_keys *sketch);

/* Counts a refusal. Only the owner; allocates nothing and waits for nobody. The key is at most CAUDAL_KEY_MAX bytes. */
void cdl_top_keys_add(struct cdl_top_keys *sketch, uint32_t limit, struct cdl_slice key);

/* Forgets everything. Any thread. */
void cdl_top_keys_clear(struct cdl_top_keys *sketch);

/* Several sketches as one. */
struct cdl_top_list {
    struct cdl_top_key *keys; /* most refused first */
    size_t count;
    uint64_t added;    /* refusals that were counted, of all keys together */
    uint64_t missed;   /* refusals that no count tells of: each key may have been refused so often beyond its count */
    uint64_t unlisted; /* a key that is not on the list was refused at most so often, misses apart */
};

/* The `wanted` keys with the largest counts over all sketches. Each count and error is a guarantee over all of them: a sketch
 * that does not have the key may have counted it up to its smallest count. Any thread; allocates.
 * CAUDAL_OK, or CAUDAL_ERR_MEMORY with an empty list. */
int cdl_top_keys_merge(struct cdl_top_keys *const *sketches, size_t count, size_t wanted, struct cdl_top_list *list);
void cdl_top_list_free(struct cdl_top_list *list);

#endif
