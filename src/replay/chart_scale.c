#include "replay/chart_scale.h"

#include <math.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

double cdl_scale_step(double top, unsigned most)
{
    static const double rounds[] = {1, 2, 5, 10};
    const double least = top / (most + 1);
    const double power = pow(10, floor(log10(least)));
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++)
        if (power * rounds[i] >= least * (1 - 1e-9))
            return power * rounds[i];
    return power * 10;
}

int64_t cdl_scale_time_step(int64_t length_ns, unsigned most)
{
    static const int32_t seconds[] = {1,    2,    5,    10,    15,    30,    60,    120,    300,    600,    900,
                                      1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++)
        if (length_ns / (seconds[i] * SECOND) <= most)
            return seconds[i] * SECOND;
    /* Four weeks, and twice as many each time: it need not end soon, but it does. */
    int64_t step_ns = 28 * (86400 * SECOND);
    while (length_ns / step_ns > most)
        step_ns *= 2;
    return step_ns;
}

void cdl_scale_time_label(int64_t at_ns, int64_t step_ns, char upper[16], char lower[16])
{
    const time_t seconds = (time_t)(at_ns / SECOND - (at_ns % SECOND < 0));
    struct tm utc;
    gmtime_r(&seconds, &utc);
    const int64_t day_ns = 86400 * SECOND;
    strftime(upper, 16, step_ns >= day_ns ? "%m-%d" : step_ns >= 60 * SECOND ? "%H:%M" : "%H:%M:%S", &utc);
    strftime(lower, 16, step_ns >= day_ns ? "%Y" : "%Y-%m-%d", &utc);
}
