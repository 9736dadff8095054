/* Reports with values of a test's choosing, for those who write them. */
#ifndef TESTS_UNIT_REPLAY_FILLED_REPORT_H
#define TESTS_UNIT_REPLAY_FILLED_REPORT_H

#include "replay/report_write.h"

enum filling {
    FILLED_EMPTY,      /* no request at all */
    FILLED_ONE_SECOND, /* three requests, one refused */
    FILLED_DAY,        /* a day in steps of two minutes: two limits, one in shadow mode, and refusals of no limit */
    FILLED_HUGE,       /* the same, counts a million million times as large */
    FILLED_HOSTILE,    /* the day, with names that a client chose to do harm, 1 kB long */
};

#define FILLINGS 5

/* What stands in some key's name of FILLED_HOSTILE. */
#define HOSTILE_BEGINNING "</script><script>alert(1)</script>"

void fill_report(struct cdl_replay_report *report, enum filling filling);

/* The report beside a second one, and what changes: three clients. */
void fill_comparison(struct cdl_comparison *comparison, enum filling filling);
void free_comparison(struct cdl_comparison *comparison);

#endif
