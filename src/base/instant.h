/* Instants as programs write them (RFC 3339), in UTC: "2024-05-17T10:05:03Z", "2024-05-17T10:05:03.250Z". */
#ifndef CDL_BASE_INSTANT_H
#define CDL_BASE_INSTANT_H

#include "base/writer.h"

/* Nanoseconds since 1970, on both sides, with as many decimals of a second as are needed to be exact, in threes. Without printf: decisions
 * are written by the million. */
void cdl_instant_write(struct cdl_writer *writer, int64_t instant_ns);

#endif
