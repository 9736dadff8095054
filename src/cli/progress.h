/* How far a long work has come: a line on a terminal, drawn anew a few times a second and erased at the end.
 *
 *     [########------------]  42 %   1.23M lines/s   12 s left
 *
 * Where standard error is no terminal nothing is drawn. */
#ifndef CDL_CLI_PROGRESS_H
#define CDL_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cdl_progress {
    bool shown, is_drawn;
    int64_t begin_ns, drawn_ns;
    uint64_t next_count; /* the clock is looked at when there are so many */
};

void cdl_progress_begin(struct cdl_progress *progress, bool quiet);

/* Whether it is time to draw, after so many lines or requests. Cheap: the clock is read every thousand. */
bool cdl_progress_is_due(struct cdl_progress *progress, uint64_t count);

/* `count` are what `nouns` names; the share is `done` of `total`, in whatever unit. A total of 0 is not known. */
void cdl_progress_draw(struct cdl_progress *progress, uint64_t count, const char *nouns, uint64_t done, uint64_t total);

/* Before anything else is printed. */
void cdl_progress_erase(struct cdl_progress *progress);

#endif
