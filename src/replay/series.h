/* Counts over time in a bounded number of steps: when the last step is full, each two become one, and a step is twice as long. So a log of a
 * minute is seen by seconds and one of a year by half-days, in the same memory. */
#ifndef CDL_REPLAY_SERIES_H
#define CDL_REPLAY_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CDL_SERIES_STEPS 720u

struct cdl_steps {
    int64_t begin_ns, step_ns;
    size_t count; /* steps that were reached */
};

/* Begins at the whole second of this instant, with steps of a second. */
void cdl_steps_begin(struct cdl_steps *steps, int64_t at_ns);

/* The step of an instant that is not before the beginning, in which *doublings says how often each two steps have to become one before it
 * is used (cdl_steps_fold). */
size_t cdl_steps_reach(struct cdl_steps *steps, int64_t at_ns, unsigned *doublings);

/* Each two of CDL_SERIES_STEPS counts become one: their sum. */
void cdl_steps_fold(uint64_t counts[CDL_SERIES_STEPS]);
/* The lower, or the higher, of both. */
void cdl_steps_fold_lowest(uint64_t values[CDL_SERIES_STEPS]);
void cdl_steps_fold_highest(uint64_t values[CDL_SERIES_STEPS]);

#endif
