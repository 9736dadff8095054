/* Numbers, times and names as people read them, the same in every report: on the terminal, on the page and in the charts.
 *
 * Each number comes back as a small text by value, to be used at once: fprintf(to, "%s", cdl_show_number(n).text). */
#ifndef CDL_REPLAY_REPORT_NUMBERS_H
#define CDL_REPLAY_REPORT_NUMBERS_H

#include "base/writer.h"

struct cdl_shown {
    char text[32];
};

/* "12,345". */
struct cdl_shown cdl_show_number(uint64_t number);

/* For scales and tight places, at most three digits: "0.25", "950", "1.5k", "20M", "1T". `number` is finite. */
struct cdl_shown cdl_show_short(double number);

/* part/whole as a percentage with one decimal, rounded half up: "12.3 %". What is not nothing is not shown as nothing, nor what is not all
 * as all: "< 0.1 %", "> 99.9 %". "0 %" of nothing. part <= whole. */
struct cdl_shown cdl_show_share(uint64_t part, uint64_t whole);

/* A fraction of 0 to 1, like cdl_replay_report.touch_share, with as many digits as were given, up to six: "0.1 %". */
struct cdl_shown cdl_show_fraction(double fraction);

/* The two largest units, cut off, not rounded: "2 d 5 h", "3 min 20 s", "12.5 s", "250 ms", "3 us", "0 s". Below a minute: one unit with
 * at most three decimals. `ns` >= 0. */
struct cdl_shown cdl_show_duration(int64_t ns);

/* An instant since 1970 in UTC, cut to the second: "2026-12-01 14:03:22Z". */
struct cdl_shown cdl_show_instant(int64_t ns);

/* Writes a name that may be anything, a client's key say: hidden and broken characters marked (base/utf8.h), and of more than
 * `columns` characters only beginning and end, with "…" between them, so that names that begin alike can be told apart. `columns` >= 8.
 * At most 4 bytes a column. What the format around it needs (HTML, XML) is not escaped here. */
void cdl_show_name(struct cdl_writer *writer, struct cdl_slice name, size_t columns);

#endif
