#include "policy/lookup.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t cdl_lookup_hash(struct cdl_slice value, uint64_t seed)
{
    return XXH3_64bits_withSeed(value.bytes, value.length, seed);
}

bool cdl_lookup_init(struct cdl_lookup *lookup, struct cdl_arena *arena, uint32_t capacity)
{
    uint32_t slots = 4;
    while (slots / 2 < capacity)
        slots *= 2;
    lookup->slots = cdl_arena_allocate(arena, slots, sizeof *lookup->slots);
    lookup->links = cdl_arena_allocate(arena, capacity, sizeof *lookup->links);
    lookup->mask = slots - 1;
    lookup->link_count = 0;
    return lookup->slots != NULL && lookup->links != NULL;
}

/* The slot of a hash, or the free one where it would go. At most half of them are taken. */
static struct cdl_lookup_slot *slot_of(const struct cdl_lookup *lookup, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & lookup->mask;
    while (lookup->slots[at].first != 0 && lookup->slots[at].hash != hash)
        at = (at + 1) & lookup->mask;
    return &lookup->slots[at];
}

void cdl_lookup_add(struct cdl_lookup *lookup, uint64_t hash, uint32_t value)
{
    struct cdl_lookup_slot *slot = slot_of(lookup, hash);
    lookup->links[lookup->link_count] = (struct cdl_lookup_link){value, slot->first};
    *slot = (struct cdl_lookup_slot){hash, ++lookup->link_count};
}

const struct cdl_lookup_link *cdl_lookup_find(const struct cdl_lookup *lookup, uint64_t hash)
{
    if (lookup->slots == NULL)
        return NULL;
    uint32_t first = slot_of(lookup, hash)->first;
    return first == 0 ? NULL : &lookup->links[first - 1];
}
