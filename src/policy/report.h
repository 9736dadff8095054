/* What a loader has to say about a file: all of it at once, each with its place. Plain data of fixed size, so that saying that
 * memory is short takes none. */
#ifndef CDL_POLICY_REPORT_H
#define CDL_POLICY_REPORT_H

#include <stdint.h>

#include "base/slice.h"

/* Where in the file, counted from 1 and in characters, as editors do. Line 0: the file as a whole. */
struct cdl_place {
    uint32_t line, column;
};

#define CDL_FINDING_TEXT_MAX 256
#define CDL_FINDINGS_MAX 50 /* of each severity; what comes later is only counted */

struct cdl_finding {
    bool warning;
    struct cdl_place place;
    char text[CDL_FINDING_TEXT_MAX]; /* one line of printable text, NUL-terminated */
};

struct cdl_report {
    size_t count; /* of `findings`, in the order of the file once the loader is done */
    size_t errors, warnings;
    struct cdl_finding findings[2 * CDL_FINDINGS_MAX];
};

void cdl_report_clear(struct cdl_report *report);

__attribute__((format(printf, 3, 4))) void cdl_report_error(struct cdl_report *report, struct cdl_place place,
                                                            const char *format, ...);
__attribute__((format(printf, 3, 4))) void cdl_report_warning(struct cdl_report *report, struct cdl_place place,
                                                              const char *format, ...);

/* In the order of places; errors stand before warnings of the same place. */
void cdl_report_sort(struct cdl_report *report);

/* "file:line:column: message", or "file:line:column: warning: message", without a newline. Returns as snprintf does. */
int cdl_finding_format(const struct cdl_finding *finding, const char *file, char *buffer, size_t size);

#endif
