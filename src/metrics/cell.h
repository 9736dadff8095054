/* A number that one thread counts up and others look at.
 *
 * Only its owner writes a cell, so reading, adding and writing need not be one step and cost what they cost in a plain
 * variable. Relaxed is enough: a reader wants each number by itself and draws no conclusion from one about another. Cells of
 * different owners never share a cache line. */
#ifndef CDL_METRICS_CELL_H
#define CDL_METRICS_CELL_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t cdl_cell;

#define CDL_CACHE_LINE 64u

static inline uint64_t cdl_cell_read(const cdl_cell *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

static inline void cdl_cell_add(cdl_cell *cell, uint64_t amount)
{
    atomic_store_explicit(cell, cdl_cell_read(cell) + amount, memory_order_relaxed);
}

#endif
