#include "replay/book.h"

#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"

#define FIRST_ROOM ((size_t)1 << 12)
#define CHUNK_BYTES ((size_t)1 << 21)
#define CACHE_LINE_BYTES 64u

struct cdl_book_slot {
    uint64_t hash;
    struct cdl_book_entry *entry; /* NULL: free */
};

bool cdl_book_init(struct cdl_book *book, uint64_t most, const struct caudal_allocator *allocator)
{
    *book = (struct cdl_book){.allocator = allocator, .room = FIRST_ROOM, .most = most};
    cdl_arena_init(&book->arena, allocator);
    book->arena.chunk_bytes = CHUNK_BYTES;
    if (getrandom(&book->secret, sizeof book->secret, GRND_NONBLOCK) != (ssize_t)sizeof book->secret)
        book->secret = (uint64_t)(uintptr_t)book;
    book->slots = cdl_allocate(allocator, book->room, sizeof *book->slots, 64);
    return book->slots != NULL;
}

void cdl_book_free(struct cdl_book *book)
{
    cdl_release(book->allocator, book->slots, book->room, sizeof *book->slots);
    cdl_arena_free(&book->arena);
    book->slots = NULL;
}

static uint64_t hash_of(const struct cdl_book *book, uint32_t group, struct cdl_slice key)
{
    return XXH3_64bits_withSeed(key.bytes, key.length, book->secret + group);
}

void cdl_book_expect(const struct cdl_book *book, uint32_t group, struct cdl_slice key)
{
    __builtin_prefetch(&book->slots[hash_of(book, group, key) & (book->room - 1)]);
}

/* The slot of that key, or the free one where it belongs. */
static struct cdl_book_slot *find_slot(const struct cdl_book *book, uint64_t hash, uint32_t group, struct cdl_slice key)
{
    for (size_t at = hash & (book->room - 1);; at = (at + 1) & (book->room - 1)) {
        struct cdl_book_slot *slot = &book->slots[at];
        if (slot->entry == NULL)
            return slot;
        if (slot->hash == hash && slot->entry->group == group && cdl_slice_equal(cdl_book_key(slot->entry), key))
            return slot;
    }
}

static bool grow(struct cdl_book *book)
{
    const size_t room = 2 * book->room;
    struct cdl_book_slot *slots = cdl_allocate(book->allocator, room, sizeof *slots, 64);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < book->room; i++) {
        size_t at = book->slots[i].hash & (room - 1);
        if (book->slots[i].entry == NULL)
            continue;
        while (slots[at].entry != NULL)
            at = (at + 1) & (room - 1);
        slots[at] = book->slots[i];
    }
    cdl_release(book->allocator, book->slots, book->room, sizeof *slots);
    book->slots = slots;
    book->room = room;
    return true;
}

static struct cdl_book_entry *new_entry(struct cdl_book *book, struct cdl_slice key, size_t state_bytes)
{
    const size_t rounded = (state_bytes + 7) / 8 * 8, head = (sizeof(struct cdl_book_entry) + 7) / 8 * 8;
    struct cdl_book_entry *entry = cdl_arena_allocate(&book->arena, 1, head + rounded + key.length);
    if (entry == NULL)
        return NULL;
    entry->length = (uint32_t)key.length;
    entry->state_bytes = (uint32_t)rounded;
    if (key.length > 0)
        memcpy((char *)cdl_book_state(entry) + rounded, key.bytes, key.length);
    return entry;
}

enum cdl_book_result cdl_book_find(struct cdl_book *book, uint32_t group, struct cdl_slice key, size_t state_bytes,
                                   struct cdl_book_entry **entry)
{
    const uint64_t hash = hash_of(book, group, key);
    struct cdl_book_slot *slot = find_slot(book, hash, group, key);
    *entry = slot->entry;
    if (slot->entry != NULL)
        return CDL_BOOK_FOUND;
    if (book->count == book->most)
        return CDL_BOOK_FULL;
    if (2 * book->count >= book->room) {
        if (!grow(book))
            return CDL_BOOK_NO_MEMORY;
        slot = find_slot(book, hash, group, key);
    }
    *entry = new_entry(book, key, state_bytes);
    if (*entry == NULL)
        return CDL_BOOK_NO_MEMORY;
    (*entry)->hash = hash;
    (*entry)->group = group;
    *slot = (struct cdl_book_slot){hash, *entry};
    book->count++;
    return CDL_BOOK_NEW;
}

void cdl_fetch(const void *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CACHE_LINE_BYTES)
        __builtin_prefetch((const char *)memory + at, 1);
}

struct cdl_book_entry *cdl_book_next(const struct cdl_book *book, size_t *cursor)
{
    while (*cursor < book->room) {
        struct cdl_book_entry *entry = book->slots[(*cursor)++].entry;
        if (entry != NULL)
            return entry;
    }
    return NULL;
}

size_t cdl_keep_most(void **list, size_t room, size_t count, void *item, bool (*is_before)(void *a, void *b))
{
    if (count == room) {
        if (!is_before(item, list[count - 1]))
            return count;
        count--;
    }
    size_t at = count;
    for (; at > 0 && is_before(item, list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = item;
    return count + 1;
}
