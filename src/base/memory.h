/* Memory through the caller's allocator: zeroed, aligned, and given back with its size. */
#ifndef CDL_BASE_MEMORY_H
#define CDL_BASE_MEMORY_H

#include "caudal/store.h"

/* The C library for small pieces and mmap for large ones, which are zero pages until touched. */
const struct caudal_allocator *cdl_allocator_default(void);

/* `count` zeroed elements of `size` bytes, or NULL (also when the product does not fit). */
void *cdl_allocate(const struct caudal_allocator *allocator, size_t count, size_t size, size_t alignment);

/* Gives back what cdl_allocate returned for the same count and size. NULL does nothing. */
void cdl_release(const struct caudal_allocator *allocator, void *memory, size_t count, size_t size);

#endif
