/* Any number of access logs as one stream of requests in order of time.
 *
 *     cdl_log_reader_open(&settings, &reader, &problem);
 *     for (;;)
 *         switch (cdl_log_reader_next(reader, &record, &place, &problem)) {
 *         case CDL_LOG_RECORD:  a request; `place` says where it was read, and whether it comes late
 *         case CDL_LOG_END:     report, close
 *         case CDL_LOG_STOPPED: *settings.stop was set: report what there is, close
 *         case CDL_LOG_FAILED:  a file ends too early (damaged, cut off); tell it, and go on with the others, or not
 *         }
 *
 * Files are merged: of all files the earliest line that comes next is read. So each is expected to be nearly in order, and rotated ones
 * follow one another in whatever order they are named.
 *
 * Servers write a line when a request has ended, so a log is not in the order in which requests began. A record is held back until
 * something has been read that is later by the window, or the end. If no line is out of its place by more than the window,
 * records come out sorted, and lines of the same instant in the order in which they stand. What is out of its place by more comes out at
 * once, marked late, and is counted. The window holds for the merged stream as well: a file that is in order by so much stays so.
 *
 * Memory is bounded: buffers of some 320 kB a file (and what a decompressor needs, for zstd up to 128 MB where the file was packed
 * with such a window), and records that wait, up to a maximum. Beyond it the earliest come out before their time, which makes the
 * window as short as memory allows; how short, is counted. */
#ifndef CDL_REPLAY_LOG_READER_H
#define CDL_REPLAY_LOG_READER_H

#include <signal.h>

#include "caudal/store.h"
#include "wire/access_log.h"

#define CDL_LOG_WINDOW_DEFAULT_NS (INT64_C(60) * 1000000000)
#define CDL_LOG_WAITING_DEFAULT_BYTES ((size_t)256 << 20)
#define CDL_LOG_REASONS_MAX 32u
#define CDL_LOG_EXAMPLE_BYTES 160u

struct cdl_log_reader_settings {
    const char *const *paths; /* "-" is standard input, once */
    size_t path_count;
    struct cdl_access_settings access; /* of all files; without a name or pattern each file's format is detected */
    int64_t window_ns;                 /* 0: records come as they are read, merged */
    size_t waiting_bytes_max;
    const volatile sig_atomic_t *stop;        /* set by a signal handler; NULL: nothing stops it */
    const struct caudal_allocator *allocator; /* NULL: the C library's */
};

struct cdl_log_reader;

/* Opens all files and finds out what their lines look like, so that what will not do is told before a long work begins: a file that
 * is not there, whose first lines are in no format, or in another one than was said, or whose times lack a zone or year that the
 * settings do not have. An empty file will do. What the settings point to must live as long as the reader. CAUDAL_OK;
 * CAUDAL_ERR_ARGUMENT, CAUDAL_ERR_SYNTAX (the problem begins with the file's name) or CAUDAL_ERR_MEMORY. */
int cdl_log_reader_open(const struct cdl_log_reader_settings *settings, struct cdl_log_reader **reader,
                        struct caudal_problem *problem);

void cdl_log_reader_close(struct cdl_log_reader *reader);

enum cdl_log_result {
    CDL_LOG_RECORD,
    CDL_LOG_END,
    CDL_LOG_STOPPED,
    CDL_LOG_FAILED,
};

/* Where a record comes from. */
struct cdl_log_origin {
    uint32_t source; /* index into the paths */
    uint64_t line;   /* from 1 */
    bool is_late;    /* it is earlier than the record before it */
};

/* The next record. Its slices live until the next call. */
enum cdl_log_result cdl_log_reader_next(struct cdl_log_reader *reader, struct cdl_access_record *record,
                                        struct cdl_log_origin *origin, struct caudal_problem *problem);

/* ---- figures ---- */

/* Why lines were skipped, and the first of them. */
struct cdl_log_reason {
    struct cdl_access_why why; /* of the first one; its column may differ in others */
    uint64_t count;
    uint32_t source;
    uint64_t line;
    size_t example_length;
    char example[CDL_LOG_EXAMPLE_BYTES]; /* the line's beginning, with '?' for what cannot be shown */
};

struct cdl_log_stats {
    uint64_t lines;    /* read, without headings */
    uint64_t parsed;   /* of them; each comes out as a record */
    uint64_t skipped;  /* the others */
    uint64_t headings; /* of CSV files */

    uint64_t out_of_order;     /* lines that are earlier than one before them in their file */
    int64_t out_of_order_ns;   /* by so much at most */
    uint64_t late;             /* records that came out earlier than the one before them */
    int64_t late_ns;           /* by so much at most */
    uint64_t hurried;          /* records that came out before their time, for want of memory */
    int64_t hurried_window_ns; /* the window was as short as this then; that of the settings when none was hurried */

    int64_t first_ns, last_ns; /* of all records that were read; both 0 when there is none */
    int64_t resolution_ns;     /* the coarsest of their stamps; 0 when there is none */
    uint64_t waiting;          /* records that were read and have not come out */
    size_t waiting_bytes_most;

    /* The most frequent come in no order; when there are more than CDL_LOG_REASONS_MAX, the last counts all others, too. */
    size_t reason_count;
    struct cdl_log_reason reasons[CDL_LOG_REASONS_MAX];
};

/* Of one file. */
struct cdl_log_source_stats {
    const char *path;                   /* as it was given */
    const char *format;                 /* its name; "" of a file without lines */
    size_t sample_lines, sample_parsed; /* what the format was told by */
    uint64_t lines, parsed;
    bool failed; /* it ended too early */
};

const struct cdl_log_stats *cdl_log_reader_stats(const struct cdl_log_reader *reader);
void cdl_log_reader_source(const struct cdl_log_reader *reader, size_t index, struct cdl_log_source_stats *stats);

/* How far the files have been read, in bytes as they lie there (compressed, if they are). *total is 0 when it is not known: one of
 * them is no regular file. */
void cdl_log_reader_progress(const struct cdl_log_reader *reader, uint64_t *bytes, uint64_t *total);

#endif
