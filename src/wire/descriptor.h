/* What a request to Envoy's rate limit service asks, whatever it came in: descriptors, each a list of (key, value). What a policy makes of
 * them is in policy/domain.h. */
#ifndef CDL_WIRE_DESCRIPTOR_H
#define CDL_WIRE_DESCRIPTOR_H

#include <stdint.h>

#include "base/slice.h"

#define CDL_DESCRIPTORS_MAX 64u        /* of one request */
#define CDL_DESCRIPTOR_ENTRIES_MAX 32u /* of one descriptor */

/* Units of time, by their numbers in the protocol. */
enum cdl_unit {
    CDL_UNIT_UNKNOWN,
    CDL_UNIT_SECOND,
    CDL_UNIT_MINUTE,
    CDL_UNIT_HOUR,
    CDL_UNIT_DAY,
    CDL_UNIT_MONTH, /* 30 days */
    CDL_UNIT_YEAR,  /* 365 days */
    CDL_UNIT_WEEK,
    CDL_UNITS,
};

struct cdl_descriptor_entry {
    struct cdl_slice key, value;
};

struct cdl_descriptor {
    const struct cdl_descriptor_entry *entries;
    size_t entry_count;
    bool has_limit; /* it brings a limit of its own, which takes the place of what the files say */
    uint32_t requests_per_unit;
    enum cdl_unit unit; /* checked by who read the request */
    bool has_hits;
    uint64_t hits; /* 0: look only */
};

struct cdl_descriptor_request {
    struct cdl_slice domain;
    const struct cdl_descriptor *descriptors;
    size_t descriptor_count;
    uint64_t hits; /* of descriptors that say nothing; 0: one */
};

#endif
