/* Durations as people write them on a command line or in a URL: a whole number and its unit, "15ms". */
#ifndef CDL_BASE_DURATION_H
#define CDL_BASE_DURATION_H

#include <stdint.h>

#include "base/slice.h"
#include "base/writer.h"

/* Units: ns, us, ms, s, m or min, h, d. False for anything else, a number without unit included, and what is above 2^63 ns. */
bool cdl_duration_parse(struct cdl_slice text, int64_t *ns);

/* Writes seconds with as many decimals as are needed to be exact, at most nine: "1.25s", "60s", "0.000000001s". `ns` >= 0. */
void cdl_duration_write_seconds(struct cdl_writer *writer, int64_t ns);

#endif
