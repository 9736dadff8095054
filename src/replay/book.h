/* A table of what is known about keys and clients: bytes under a number, each with a state of the caller's.
 *
 * Open addressing, half full at most; entries lie in an arena and never move. It takes in so many and no more: a log is written by
 * strangers. Hashed with a secret, so that no stranger can choose keys that collide. */
#ifndef CDL_REPLAY_BOOK_H
#define CDL_REPLAY_BOOK_H

#include "base/arena.h"

struct cdl_book_entry {
    uint64_t hash;
    uint32_t group;
    uint32_t length;      /* of the key */
    uint32_t state_bytes; /* a multiple of 8; the key's bytes follow the state */
};

struct cdl_book {
    const struct caudal_allocator *allocator;
    struct cdl_arena arena;
    struct cdl_book_slot *slots;
    size_t room; /* a power of two */
    size_t count, most;
    uint64_t secret;
};

/* At most `most` entries. False: memory is short. */
bool cdl_book_init(struct cdl_book *book, uint64_t most, const struct caudal_allocator *allocator);
void cdl_book_free(struct cdl_book *book);

enum cdl_book_result {
    CDL_BOOK_FOUND,
    CDL_BOOK_NEW,  /* its state is all zeros */
    CDL_BOOK_FULL, /* it is not there, and there is no room for more */
    CDL_BOOK_NO_MEMORY,
};

/* Says that this key will be asked for soon: memory has time to come nearer. */
void cdl_book_expect(const struct cdl_book *book, uint32_t group, struct cdl_slice key);

/* Finds or adds the entry of a key in a group. All of a group have states of one size. */
enum cdl_book_result cdl_book_find(struct cdl_book *book, uint32_t group, struct cdl_slice key, size_t state_bytes,
                                   struct cdl_book_entry **entry);

static inline void *cdl_book_state(struct cdl_book_entry *entry)
{
    return (char *)entry + (sizeof *entry + 7) / 8 * 8;
}

static inline struct cdl_slice cdl_book_key(struct cdl_book_entry *entry)
{
    return (struct cdl_slice){(char *)cdl_book_state(entry) + entry->state_bytes, entry->length};
}

/* Fetches memory that will be written soon. */
void cdl_fetch(const void *memory, size_t bytes);

/* The next entry in no order; *cursor begins with 0. NULL after the last one. */
struct cdl_book_entry *cdl_book_next(const struct cdl_book *book, size_t *cursor);

/* Puts an item into a list of the `room` that come before all others, in order. Returns how many it has then. */
size_t cdl_keep_most(void **list, size_t room, size_t count, void *item, bool (*is_before)(void *a, void *b));

#endif
