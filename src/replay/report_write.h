/* Reports for people and for programs. Each returns 0, or -1 with errno when the stream cannot be written. */
#ifndef CDL_REPLAY_REPORT_WRITE_H
#define CDL_REPLAY_REPORT_WRITE_H

#include <stdio.h>

#include "replay/report.h"

/* What is written: one report, or two and what changes between them. */
struct cdl_replay_reports {
    const struct cdl_replay_report *report, *second; /* second: NULL unless two policies are compared */
    const struct cdl_comparison *comparison;         /* NULL likewise */
};

/* For the terminal, at most 100 columns. Times in UTC. */
int cdl_replay_write_text(FILE *to, const struct cdl_replay_reports *set);

/* Everything, by the schema of docs/formats/replay-report.md, "schema": 1. */
int cdl_replay_write_json(FILE *to, const struct cdl_replay_reports *set);

/* One page without any reference to another file or host, with the JSON report within it. */
int cdl_replay_write_html(FILE *to, const struct cdl_replay_reports *set);

/* The page's charts as files in a folder that exists: NAME.svg or NAME.png. */
enum cdl_chart_format {
    CDL_CHART_SVG,
    CDL_CHART_PNG,
};
int cdl_replay_write_charts(const char *folder, enum cdl_chart_format format, const struct cdl_replay_reports *set,
                            struct caudal_problem *problem);

#endif
