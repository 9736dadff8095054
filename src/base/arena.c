#include "base/arena.h"

#include "base/memory.h"

#define CHUNK_BYTES ((size_t)64 << 10)
#define ALIGNMENT 16u

struct cdl_arena_chunk {
    struct cdl_arena_chunk *next;
    size_t bytes; /* this head included */
};

_Static_assert(sizeof(struct cdl_arena_chunk) % ALIGNMENT == 0, "what follows the head is aligned");

void cdl_arena_init(struct cdl_arena *arena, const struct caudal_allocator *allocator)
{
    *arena = (struct cdl_arena){.allocator = allocator != NULL ? allocator : cdl_allocator_default(),
                                .chunk_bytes = CHUNK_BYTES};
}

void cdl_arena_free(struct cdl_arena *arena)
{
    const struct caudal_allocator *allocator = arena->allocator;
    for (struct cdl_arena_chunk *chunk = arena->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        cdl_release(allocator, chunk, 1, chunk->bytes);
    }
    cdl_arena_init(arena, allocator);
}

/* A piece that is large beside a chunk gets one of its own, behind the newest, whose room is not given up for it. */
static void *own_chunk(struct cdl_arena *arena, struct cdl_arena_chunk *chunk)
{
    if (arena->chunks == NULL) {
        arena->chunks = chunk;
    } else {
        chunk->next = arena->chunks->next;
        arena->chunks->next = chunk;
    }
    return chunk + 1;
}

static struct cdl_arena_chunk *new_chunk(struct cdl_arena *arena, size_t bytes)
{
    struct cdl_arena_chunk *chunk = cdl_allocate(arena->allocator, 1, bytes, ALIGNMENT);
    if (chunk == NULL)
        arena->failed = true;
    else
        chunk->bytes = bytes;
    return chunk;
}

static void *take(struct cdl_arena *arena, size_t bytes)
{
    char *piece = arena->at;
    arena->at += bytes;
    arena->left -= bytes;
    return piece;
}

void *cdl_arena_allocate(struct cdl_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        arena->failed = true;
        return NULL;
    }
    bytes = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (bytes <= arena->left)
        return take(arena, bytes);
    bool large = bytes > arena->chunk_bytes / 4;
    struct cdl_arena_chunk *chunk = new_chunk(arena,
                                              large ? bytes + sizeof(struct cdl_arena_chunk) : arena->chunk_bytes);
    if (chunk == NULL)
        return NULL;
    if (large)
        return own_chunk(arena, chunk);
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->at = (char *)(chunk + 1);
    arena->left = chunk->bytes - sizeof *chunk;
    return take(arena, bytes);
}

struct cdl_slice cdl_arena_copy(struct cdl_arena *arena, struct cdl_slice text)
{
    char *copy = cdl_arena_allocate(arena, text.length + 1, 1);
    if (copy == NULL)
        return (struct cdl_slice){"", 0};
    if (text.length > 0)
        memcpy(copy, text.bytes, text.length);
    return (struct cdl_slice){copy, text.length};
}
