/* One log file, line by line: plain, or compressed by gzip or zstd, which its first bytes tell; "-" is standard input.
 *
 * Memory is bounded whatever the file holds: a line of more than CDL_ACCESS_LINE_MAX bytes is passed over and told, and what a file
 * decompresses to is never held as a whole. A file may have several compressed parts, one after another, as those have that were
 * put together with cat. A mark of the byte order at its beginning is dropped. */
#ifndef CDL_REPLAY_LOG_SOURCE_H
#define CDL_REPLAY_LOG_SOURCE_H

#include <signal.h>

#include "caudal/store.h"
#include "wire/access_log.h"

enum cdl_log_coding {
    CDL_LOG_PLAIN,
    CDL_LOG_GZIP,
    CDL_LOG_ZSTD,
};

struct cdl_log_source {
    /* What is said of a file also when it is closed: */
    const char *path; /* borrowed */
    uint64_t bytes;   /* of the file, read so far: compressed ones, where they are */
    uint64_t size;    /* of the file, if it has one */
    bool has_size;    /* it is a regular file */
    uint64_t line;    /* the number of the line that was given last */

    const volatile sig_atomic_t *stop;
    const struct caudal_allocator *allocator;
    int fd; /* -1: closed */
    enum cdl_log_coding coding;
    struct cdl_log_decoder *decoder; /* NULL when plain */
    char *raw;                       /* bytes of the file that were not decoded yet: [raw_at, raw_length) */
    size_t raw_at, raw_length;
    bool raw_ended;
    char *text; /* bytes of lines that were not given yet: [at, length) */
    size_t at, length;
    bool ended, failed;
    bool passing_over; /* the rest of a line that is too long */
    struct caudal_problem failure;
};

enum cdl_log_source_result {
    CDL_LOG_SOURCE_LINE,
    CDL_LOG_SOURCE_LONG, /* a line was passed over: too long */
    CDL_LOG_SOURCE_END,
    CDL_LOG_SOURCE_STOPPED, /* *stop was set while the file was read; go on, or not */
    CDL_LOG_SOURCE_FAILED,  /* the problem says why; so it will be each time */
};

/* Opens a file and looks at its first bytes. `stop` may be NULL; a signal handler sets it, to end a read that waits.
 * CAUDAL_OK; CAUDAL_ERR_ARGUMENT when the file cannot be read, or is of a kind that never is a log; CAUDAL_ERR_MEMORY. */
int cdl_log_source_open(struct cdl_log_source *source, const char *path, const volatile sig_atomic_t *stop,
                        const struct caudal_allocator *allocator, struct caudal_problem *problem);

/* The next line, without its line feed. It lives until the next call. */
enum cdl_log_source_result cdl_log_source_line(struct cdl_log_source *source, struct cdl_slice *line,
                                               struct caudal_problem *problem);

/* The first lines of a file that was just opened, at most `most` of them; they will be given again. What goes wrong meanwhile will
 * go wrong again when the lines are read. */
size_t cdl_log_source_sample(struct cdl_log_source *source, struct cdl_slice *lines, size_t most);

/* Also of one that could not be opened; again, it does nothing. */
void cdl_log_source_close(struct cdl_log_source *source);

#endif
