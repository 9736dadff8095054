/* What a loader has to say about a policy: all of it at once, each with its file and place. Plain data of fixed size, so that saying that
 * memory is short takes none. */
#ifndef CDL_POLICY_REPORT_H
#define CDL_POLICY_REPORT_H

#include <stdint.h>

#include "base/slice.h"

/* Where in the file, counted from 1 and in characters, as editors do. Line 0: the file as a whole. */
struct cdl_place {
    uint32_t line, column;
};

#define CDL_FINDING_TEXT_MAX 512
#define CDL_FINDING_FILE_MAX 256
#define CDL_FINDING_LINE_MAX                                                                                           \
    (CDL_FINDING_TEXT_MAX + CDL_FINDING_FILE_MAX + 64) /* of one in a file whose name is no longer than that */
#define CDL_FINDINGS_MAX 50                            /* of each severity; what comes later is only counted */

struct cdl_finding {
    bool warning;
    struct cdl_place place;
    uint32_t source;                 /* 0: the file that was asked for; others in the order in which they were read */
    char file[CDL_FINDING_FILE_MAX]; /* of another source: its name, cut at the front; else empty */
    char text[CDL_FINDING_TEXT_MAX]; /* one line of printable text, NUL-terminated */
};

struct cdl_report {
    size_t count; /* of `findings`, in the order of the files once the loader is done */
    size_t errors, warnings;
    uint32_t source; /* what is read just now, as in a finding */
    char file[CDL_FINDING_FILE_MAX];
    struct cdl_finding findings[2 * CDL_FINDINGS_MAX];
};

void cdl_report_clear(struct cdl_report *report);

/* What is said from here on is said of this source. 0: of the file that was asked for, whose name is not asked for. */
void cdl_report_turn_to(struct cdl_report *report, uint32_t source, struct cdl_slice name);

__attribute__((format(printf, 3, 4))) void cdl_report_error(struct cdl_report *report, struct cdl_place place,
                                                            const char *format, ...);
__attribute__((format(printf, 3, 4))) void cdl_report_warning(struct cdl_report *report, struct cdl_place place,
                                                              const char *format, ...);

/* In the order of places; errors stand before warnings of the same place. */
void cdl_report_sort(struct cdl_report *report);

/* `file` is the name of the file that was asked for. "file:line:column: message", or "file:line:column: warning: message", without a newline. Returns as snprintf does. */
int cdl_finding_format(const struct cdl_finding *finding, const char *file, char *buffer, size_t size);

#endif
