/* Memory that is given out in small pieces and freed all at once: for what is built in one go and then only read. */
#ifndef CDL_BASE_ARENA_H
#define CDL_BASE_ARENA_H

#include <stdint.h>

#include "base/slice.h"
#include "caudal/store.h"

struct cdl_arena_chunk;

/* When memory is short a call returns NULL and `failed` stays set, so that a builder may go on and look once, at the end. */
struct cdl_arena {
    const struct caudal_allocator *allocator;
    struct cdl_arena_chunk *chunks; /* the newest first; only that one still has room */
    char *at;
    size_t left;
    size_t
        chunk_bytes; /* 64 KiB, unless whoever fills it with millions of pieces says more: of a chunk from 1 MiB on, pages are huge */
    bool failed;
};

/* `allocator` may be NULL: the C library. It must outlive the arena. */
void cdl_arena_init(struct cdl_arena *arena, const struct caudal_allocator *allocator);
void cdl_arena_free(struct cdl_arena *arena);

/* `count` zeroed elements of `size` bytes, aligned for any of our structs; NULL when memory is short. Never NULL for a count of
 * 0 that succeeds. */
void *cdl_arena_allocate(struct cdl_arena *arena, size_t count, size_t size);

/* A copy that a NUL follows; empty, with bytes "", when memory is short. */
struct cdl_slice cdl_arena_copy(struct cdl_arena *arena, struct cdl_slice text);

#endif
