/* From a 64-bit hash to the numbers that were added under it: the one hash table of a policy. Built once, with its size known
 * beforehand. Hashes may meet by chance, so a number that is found is a candidate; the caller compares. Nobody outside chooses
 * what is added, so the hash needs no secret. */
#ifndef CDL_POLICY_LOOKUP_H
#define CDL_POLICY_LOOKUP_H

#include <stdint.h>

#include "base/arena.h"

struct cdl_lookup_slot {
    uint64_t hash;
    uint32_t first; /* in `links`, plus 1; 0: the slot is free */
};

struct cdl_lookup_link {
    uint32_t value;
    uint32_t next; /* as `first` */
};

struct cdl_lookup {
    struct cdl_lookup_slot *slots; /* NULL: nothing was ever added */
    struct cdl_lookup_link *links;
    uint32_t mask;
    uint32_t link_count;
};

/* Hashes a value; different `seed`s keep values of different kinds apart. */
uint64_t cdl_lookup_hash(struct cdl_slice value, uint64_t seed);

/* Room for `capacity` additions; false when memory is short. */
bool cdl_lookup_init(struct cdl_lookup *lookup, struct cdl_arena *arena, uint32_t capacity);
void cdl_lookup_add(struct cdl_lookup *lookup, uint64_t hash, uint32_t value);

/* The links of a hash, newest first: for (link = find(...); link != NULL; link = next(...)). */
const struct cdl_lookup_link *cdl_lookup_find(const struct cdl_lookup *lookup, uint64_t hash);

static inline const struct cdl_lookup_link *cdl_lookup_next(const struct cdl_lookup *lookup,
                                                            const struct cdl_lookup_link *link)
{
    return link->next == 0 ? NULL : &lookup->links[link->next - 1];
}

#endif
