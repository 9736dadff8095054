#include "replay/trace.h"

#include "base/arith.h"

void cdl_trace_begin(struct cdl_trace *trace, void *owner, int64_t at_ns)
{
    *trace = (struct cdl_trace){.owner = owner};
    cdl_steps_begin(&trace->steps, at_ns);
    for (size_t i = 0; i < CDL_SERIES_STEPS; i++)
        trace->lowest[i] = trace->highest[i] = UINT64_MAX;
}

void cdl_trace_note(struct cdl_trace *trace, int64_t at_ns, bool refused, uint64_t remaining)
{
    unsigned doublings;
    const size_t step = cdl_steps_reach(&trace->steps, at_ns, &doublings);
    while (doublings-- > 0) {
        cdl_steps_fold(trace->admitted);
        cdl_steps_fold(trace->refused);
        cdl_steps_fold_lowest(trace->lowest);
        cdl_steps_fold_highest(trace->highest);
    }
    if (refused)
        trace->refused[step]++;
    else
        trace->admitted[step]++;
    if (trace->lowest[step] == UINT64_MAX || remaining < trace->lowest[step])
        trace->lowest[step] = remaining;
    if (trace->highest[step] == UINT64_MAX || remaining > trace->highest[step])
        trace->highest[step] = remaining;
}

uint32_t cdl_trace_place(const struct cdl_trace traces[CDL_TRACES], uint64_t refused)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < CDL_TRACES; i++) {
        if (traces[i].owner == NULL)
            return i;
        if (traces[i].refused_in_all < traces[least].refused_in_all)
            least = i;
    }
    return refused / 2 >= traces[least].refused_in_all ? least : CDL_TRACES;
}
