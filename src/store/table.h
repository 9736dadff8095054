/* The memory table: 16 bytes a key, no lock on a hit, memory fixed at open.
 *
 * An entry is a tag (48-bit fingerprint of the key, 16-bit number of the limit) and a 64-bit state, read together and changed
 * together. Tag 0 is an empty entry. Four entries make a cache line; a key may live in two lines, which its hash and the
 * limit's salt choose. Entries never move. Two keys of one limit are mistaken for each other when they share a line and 48
 * bits of fingerprint: for a new key, a chance of less than 8/2^48 = 3·10^-14, and nobody can aim for it without the secret.
 *
 * The table does not know what a state means. Whether an entry still matters is asked of a judge; one that does not is free
 * space. When all eight entries of a new key matter, the one nearest to not mattering is forgotten, and counted.
 *
 * Why it is right (tests/model/table.pml is this in Spin, with the mutants that break it):
 *
 *  I1 A key never owns two entries. An entry with a new tag is written only by cdl_table_claim under the insertion lock of
 *     that key, after looking again under the lock; a hit changes the state of an entry and not its key; entries do not move.
 *     A change of number (see limits.h) replaces (fingerprint, old) by (fingerprint, new) in place by one swap, and an
 *     insertion checks under the lock that its view of the limit is the current one, so it never adds a tag with an old number.
 *  I2 No charge is lost, but with an entry that is forgotten and counted. A charge is one swap that compares the whole entry:
 *     when the entry was charged, freed, taken by another key or converted in between, the swap fails, and the caller looks
 *     again.
 *  I3 A refusal is a true one. It is judged on one atomic read of the pair, tag included; it is right at that instant.
 *  I4 Nobody waits for a thread that hits. A failed swap means that another one succeeded. Only insertions of keys that share
 *     a stripe wait for each other.
 *
 * Memory orders: the tag of an entry that is passed by is only a hint; but that no entry carries a tag is believed when the
 * limit's version, which a change of number moves first, is still the same afterwards: so tags are read acquire. Pairs are
 * read and swapped as atomic128.h says; a pair refers to no other memory, so their order among each other does not matter.
 * What an insertion needs to see of other insertions of its key is ordered by the lock, and what it needs to see of a limit
 * by the limit's version (acquire) and by the fact that a version is published under all insertion locks. */
#ifndef CDL_STORE_TABLE_H
#define CDL_STORE_TABLE_H

#include <pthread.h>

#include "base/atomic128.h"
#include "base/memory.h"
#include "identity/key_hash.h"

#define CDL_LINE_ENTRIES 4

struct cdl_table_line {
    struct cdl_pair entries[CDL_LINE_ENTRIES]; /* first: tag, second: state */
} __attribute__((aligned(64)));

/* What insertions of the keys of one stripe share; a cache line of its own. */
struct cdl_table_stripe {
    pthread_mutex_t lock;
    uint64_t inserted;
    uint64_t live_evictions;
} __attribute__((aligned(64)));

struct cdl_table {
    struct cdl_table_line *lines;
    uint64_t line_count; /* 2 to 2^32 */
    struct cdl_table_stripe *stripes;
    uint32_t stripe_count; /* a power of two */
};

/* Nanoseconds until an entry does not matter any more; 0 when it does not, now. */
struct cdl_table_judge {
    int64_t (*time_left)(void *context, uint64_t tag, uint64_t state);
    void *context;
};

/* Where a key under a limit may live. */
struct cdl_table_place {
    struct cdl_table_line *lines[2];
    struct cdl_table_stripe *stripe;
    uint64_t fingerprint; /* in the upper 48 bits */
};

/* Room for `keys` keys at about 3/4 of the entries used. Returns false when memory is short; nothing is then held. */
bool cdl_table_open(struct cdl_table *table, uint64_t keys, const struct caudal_allocator *allocator);
void cdl_table_close(struct cdl_table *table, const struct caudal_allocator *allocator);

static inline struct cdl_table_place cdl_table_place(const struct cdl_table *table, struct cdl_key_hash hash,
                                                     uint64_t salt)
{
    /* The salt, odd multiplier included, keeps one key's entries under many limits from crowding into the same two lines. */
    const uint64_t mixed = (hash.low ^ salt) * UINT64_C(0x9E3779B97F4A7C15);
    uint64_t first = (mixed >> 32) * table->line_count >> 32;
    uint64_t second = (mixed & UINT32_MAX) * table->line_count >> 32;
    if (second == first)
        second = first + 1 == table->line_count ? 0 : first + 1;
    return (struct cdl_table_place){
        .lines = {&table->lines[first], &table->lines[second]},
        .stripe = &table->stripes[hash.high & (table->stripe_count - 1)], /* bits that the fingerprint leaves */
        .fingerprint = hash.high & ~(uint64_t)UINT16_MAX,
    };
}

static inline void cdl_table_prefetch(const struct cdl_table_place *place)
{
    __builtin_prefetch(place->lines[0], 1);
    __builtin_prefetch(place->lines[1], 1);
}

/* The entry of a line that carries `tag`, or NULL. All four are compared without a branch: where among them a key lies
 * is pure chance, and a branch on chance costs more than the comparisons that it saves. */
static inline struct cdl_pair *cdl_table_find_in(struct cdl_table_line *line, uint64_t tag)
{
    struct cdl_pair *entry = NULL;
#pragma GCC unroll 4
    for (unsigned i = 0; i < CDL_LINE_ENTRIES; i++)
        entry = cdl_pair_peek_first(&line->entries[i]) == tag ? &line->entries[i] : entry;
    __asm__("" : "+r"(entry)); /* or the last comparison becomes a branch to what the caller does about NULL */
    return entry;
}

/* The entry of either line that carries `tag`, or NULL; likewise without a branch. */
static inline struct cdl_pair *cdl_table_find(const struct cdl_table_place *place, uint64_t tag)
{
    struct cdl_pair *entry = NULL;
#pragma GCC unroll 8
    for (unsigned i = 0; i < 2 * CDL_LINE_ENTRIES; i++) {
        struct cdl_pair *at = &place->lines[i / CDL_LINE_ENTRIES]->entries[i % CDL_LINE_ENTRIES];
        entry = cdl_pair_peek_first(at) == tag ? at : entry;
    }
    __asm__("" : "+r"(entry));
    return entry;
}

/* Writes a new entry where there is room, or in place of the one nearest to not mattering. The caller holds the lock of the
 * place's stripe and has looked, under it, that no entry carries the tag. */
void cdl_table_claim(const struct cdl_table_place *place, struct cdl_pair entry, const struct cdl_table_judge *judge);

/* All insertion locks, for publishing a limit. */
void cdl_table_lock_all(struct cdl_table *table);
void cdl_table_unlock_all(struct cdl_table *table);

/* Calls `revise` for every entry whose tag has this limit number until the entry is what revise makes of it. revise returns
 * the new pair; the same one to leave it; tag 0 to free it. */
typedef struct cdl_pair (*cdl_table_revise)(void *context, struct cdl_pair entry);
void cdl_table_sweep(struct cdl_table *table, uint16_t number, cdl_table_revise revise, void *context);

/* How many entries matter, and the sums of the stripes' counters. */
void cdl_table_count(struct cdl_table *table, const struct cdl_table_judge *judge, uint64_t *live, uint64_t *inserted,
                     uint64_t *live_evictions);

static inline uint64_t cdl_table_bytes(const struct cdl_table *table)
{
    return table->line_count * sizeof *table->lines + table->stripe_count * sizeof *table->stripes;
}

#endif
