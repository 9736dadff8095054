#include "replay/series.h"

#include "base/arith.h"

void cdl_steps_begin(struct cdl_steps *steps, int64_t at_ns)
{
    const int64_t second_ns = (int64_t)cdl_floor_div(at_ns, CDL_NS_PER_S) * CDL_NS_PER_S;
    *steps = (struct cdl_steps){.begin_ns = second_ns, .step_ns = CDL_NS_PER_S};
}

size_t cdl_steps_reach(struct cdl_steps *steps, int64_t at_ns, unsigned *doublings)
{
    const uint64_t since_ns = (uint64_t)at_ns - (uint64_t)steps->begin_ns;
    *doublings = 0;
    while (since_ns / (uint64_t)steps->step_ns >= CDL_SERIES_STEPS) {
        steps->step_ns *= 2;
        steps->count = (steps->count + 1) / 2;
        ++*doublings;
    }
    const size_t step = since_ns / (uint64_t)steps->step_ns;
    if (step >= steps->count)
        steps->count = step + 1;
    return step;
}

void cdl_steps_fold(uint64_t counts[CDL_SERIES_STEPS])
{
    for (size_t i = 0; i < CDL_SERIES_STEPS / 2; i++)
        counts[i] = counts[2 * i] + counts[2 * i + 1];
    for (size_t i = CDL_SERIES_STEPS / 2; i < CDL_SERIES_STEPS; i++)
        counts[i] = 0;
}

void cdl_steps_fold_lowest(uint64_t values[CDL_SERIES_STEPS])
{
    for (size_t i = 0; i < CDL_SERIES_STEPS / 2; i++)
        values[i] = cdl_min_u64(values[2 * i], values[2 * i + 1]);
    for (size_t i = CDL_SERIES_STEPS / 2; i < CDL_SERIES_STEPS; i++)
        values[i] = UINT64_MAX;
}

/* UINT64_MAX stands for none here, too. */
void cdl_steps_fold_highest(uint64_t values[CDL_SERIES_STEPS])
{
    for (size_t i = 0; i < CDL_SERIES_STEPS / 2; i++) {
        const uint64_t a = values[2 * i], b = values[2 * i + 1];
        values[i] = a == UINT64_MAX || (b != UINT64_MAX && b > a) ? b : a;
    }
    for (size_t i = CDL_SERIES_STEPS / 2; i < CDL_SERIES_STEPS; i++)
        values[i] = UINT64_MAX;
}
