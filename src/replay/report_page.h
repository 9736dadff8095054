/* What the parts of the page share (report_html.c): escaped words, and numbers that name their place in the JSON report.
 *
 * An element that shows a number of the report has data-path="limits.0.refused", the members and indices that lead to it, and where it
 * shows it rounded or in words also data-value, the number itself. "none" stands for null. So a test, or a reader's script, can compare
 * the page with the JSON that it carries. */
#ifndef CDL_REPLAY_REPORT_PAGE_H
#define CDL_REPLAY_REPORT_PAGE_H

#include <stdio.h>

#include "replay/report_write.h"

struct cdl_page {
    FILE *to;
    const struct cdl_replay_report *report;
    const char *prefix; /* of paths: "", or "second." */
};

/* A name that may be anything, shortened and escaped. */
void cdl_page_name(const struct cdl_page *page, struct cdl_slice name);

/* <td>s. The path follows the prefix. UINT64_MAX is "none". */
__attribute__((format(printf, 3, 4))) void cdl_page_number(const struct cdl_page *page, uint64_t number,
                                                           const char *path, ...);
__attribute__((format(printf, 3, 4))) void cdl_page_duration(const struct cdl_page *page, int64_t ns, const char *path,
                                                             ...);
__attribute__((format(printf, 3, 4))) void cdl_page_instant(const struct cdl_page *page, int64_t ns, const char *path,
                                                            ...);
void cdl_page_share(const struct cdl_page *page, uint64_t part, uint64_t whole);
void cdl_page_name_cell(const struct cdl_page *page, struct cdl_slice name);

/* A table in a box of its own that scrolls where the page is narrow. Headings are separated by '|'; the first one's column is that of
 * names, and so are those whose heading begins with '='. */
void cdl_page_begin_table(const struct cdl_page *page, const char *label, const char *headings);
/* Begins a row with its name. */
void cdl_page_row(const struct cdl_page *page, struct cdl_slice name);
void cdl_page_end_row(const struct cdl_page *page);
void cdl_page_end_table(const struct cdl_page *page);

/* The parts of the page. */
void cdl_page_summary(const struct cdl_page *page);
void cdl_page_limits(const struct cdl_page *page);
void cdl_page_refused_keys(const struct cdl_page *page);
void cdl_page_clients(const struct cdl_page *page);
void cdl_page_log(const struct cdl_page *page);
void cdl_page_comparison(const struct cdl_page *page, const struct cdl_comparison *comparison);

#endif
