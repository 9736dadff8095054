/* The buckets of a few keys over time: the one that was chosen, from its first request on, or those that are refused most, each from its
 * first refusal on. Who will be refused most is not known beforehand, so a key that has been refused twice as often as the
 * least of those that are followed takes its place. */
#ifndef CDL_REPLAY_TRACE_H
#define CDL_REPLAY_TRACE_H

#include "caudal/store.h"
#include "replay/series.h"

#define CDL_TRACES 16u

struct cdl_trace {
    void *owner;             /* whose; NULL: nobody's */
    uint64_t refused_in_all; /* of the owner, when it was last refused */
    struct cdl_steps steps;
    uint64_t admitted[CDL_SERIES_STEPS], refused[CDL_SERIES_STEPS];
    uint64_t lowest[CDL_SERIES_STEPS], highest[CDL_SERIES_STEPS]; /* of what remained; UINT64_MAX: nothing was asked */
};

void cdl_trace_begin(struct cdl_trace *trace, void *owner, int64_t at_ns);
void cdl_trace_note(struct cdl_trace *trace, int64_t at_ns, bool refused, uint64_t remaining);

/* Where a key that is not followed, and has now been refused so often, is to be: the index of a free trace, or of one that is to be
 * taken over; CDL_TRACES: nowhere. */
uint32_t cdl_trace_place(const struct cdl_trace traces[CDL_TRACES], uint64_t refused);

#endif
