#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From here on memory comes as pages of its own, asked to be huge: a table of 20 MB in 4 KiB pages costs a TLB miss on
 * nearly every look. */
#define PAGES_FROM ((size_t)1 << 20)
#define HUGE_PAGE ((size_t)1 << 21)

static void *map_pages(size_t bytes)
{
    /* Ask for a huge page more than is needed and give the ends back, so that the piece starts on a huge page. */
    size_t spare = bytes + HUGE_PAGE;
    if (spare < bytes)
        return NULL;
    char *start = mmap(NULL, spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t head = (HUGE_PAGE - (size_t)((uintptr_t)start & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t kept = (bytes + page - 1) & ~(page - 1);
    if (head > 0)
        munmap(start, head);
    if (spare - head > kept)
        munmap(start + head + kept, spare - head - kept);
    madvise(start + head, kept, MADV_HUGEPAGE); /* advice only */
    return start + head;
}

static void *default_allocate(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    if (bytes >= PAGES_FROM && alignment <= HUGE_PAGE)
        return map_pages(bytes);
    void *memory = NULL;
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) != 0)
        return NULL;
    return memset(memory, 0, bytes);
}

static void default_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    if (bytes >= PAGES_FROM)
        munmap(memory, bytes);
    else
        free(memory);
}

const struct caudal_allocator *cdl_allocator_default(void)
{
    static const struct caudal_allocator allocator = {
        .size = sizeof allocator,
        .allocate = default_allocate,
        .release = default_release,
    };
    return &allocator;
}

void *cdl_allocate(const struct caudal_allocator *allocator, size_t count, size_t size, size_t alignment)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes == 0)
        return NULL;
    return allocator->allocate(allocator->context, bytes, alignment);
}

void cdl_release(const struct caudal_allocator *allocator, void *memory, size_t count, size_t size)
{
    if (memory != NULL)
        allocator->release(allocator->context, memory, count * size);
}
