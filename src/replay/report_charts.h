/* The charts of a report. */
#ifndef CDL_REPLAY_REPORT_CHARTS_H
#define CDL_REPLAY_REPORT_CHARTS_H

#include "replay/chart.h"

/* Of a policy with more of them, those are drawn that refused most. */
#define CDL_CHARTS_LEVELS 6u
#define CDL_CHARTS_PEAKS 24u

/* What the charts point to lives in the arena, or in the report. */
struct cdl_charts {
    struct cdl_arena arena;
    struct cdl_chart *charts;
    size_t count;
};

/* Rate over time; refusals by limit; the level of each traced bucket; peaks of each limit's keys; the busiest clients; of two policies also
 * who changes sides. 0, or -1 with errno ENOMEM, and nothing to free. */
int cdl_charts_make(const struct cdl_replay_reports *set, struct cdl_charts *charts);
void cdl_charts_free(struct cdl_charts *charts);

#endif
