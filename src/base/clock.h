/* Waiting, for programs that have nothing else to do. Reading is in caudal/clock.h. */
#ifndef CDL_BASE_CLOCK_H
#define CDL_BASE_CLOCK_H

#include "caudal/clock.h"

/* Returns when caudal_clock_system()'s monotonic clock has reached that reading, never before. */
void cdl_sleep_until(int64_t monotonic_ns);

#endif
