/* The program's own log: one event a line, as JSON or as text, to a file descriptor.
 *
 *     cdl_log(log, CDL_LOG_WARN, "store is away", cdl_log_text("store", url), cdl_log_u64("failures", n));
 *
 *     {"time":"2026-01-31T12:00:00.123456Z","level":"warn","message":"store is away","store":"…","failures":3}
 *     2026-01-31T12:00:00.123456Z WARN  store is away store=… failures=3
 *
 * A line is one line whatever is in it. JSON is valid JSON: bytes that are not UTF-8 are marked (base/utf8.h). Text puts what
 * is not plainly readable into quotes, with \n, \" and \\ as in C, \xff for bytes and \u{202e} for hidden characters. A line has
 * at most CDL_LOG_LINE_MAX bytes: long values are cut and say by how much, and fields for which there is no room are counted
 * in "fields_dropped".
 *
 * A line is one write(2), and never waited for: when the reader of a pipe does not keep up, lines are lost, counted, and
 * their number is the first thing logged when there is room again. (SIGPIPE is for the program to ignore.)
 *
 * What repeats is said once: the same message at the same level about the same thing, within the window, is only counted, and
 * when the window has passed one line says "repeated N times: …". A fixed number of messages is remembered; when there are
 * more, the one that has been remembered for longest makes room, and its count is said. Lines that are meant to repeat
 * (a sample of refusals) are written with cdl_log_each.
 *
 * Identities and secrets: nothing here knows what is secret. An identity is logged by cdl_log_keyed or cdl_log_masked unless the
 * policy says otherwise; a secret is not logged at all.
 *
 * Any thread may log at any time. A log that is NULL swallows everything. */
#ifndef CDL_BASE_LOG_H
#define CDL_BASE_LOG_H

#include <stdatomic.h>

#include "base/slice.h"
#include "caudal/clock.h"

#define CDL_LOG_LINE_MAX 4096u /* with its newline: PIPE_BUF, up to which lines of several writers do not mix */
#define CDL_LOG_VALUE_MAX 256u /* bytes of a value that are shown */
#define CDL_LOG_KEYED_BYTES 8u /* of the HMAC that are shown */

enum cdl_log_level {
    CDL_LOG_DEBUG,
    CDL_LOG_INFO,
    CDL_LOG_WARN,
    CDL_LOG_ERROR,
};

enum cdl_log_format {
    CDL_LOG_AS_TEXT,
    CDL_LOG_AS_JSON,
};

enum cdl_log_kind {
    CDL_LOG_KIND_TEXT,
    CDL_LOG_KIND_U64,
    CDL_LOG_KIND_I64,
    CDL_LOG_KIND_BOOL,
    CDL_LOG_KIND_KEYED,
    CDL_LOG_KIND_MASKED,
};

/* A name and a typed value. Bytes are borrowed for the time of the call. */
struct cdl_log_field {
    const char *name;
    enum cdl_log_kind kind;
    union {
        struct cdl_slice bytes;
        uint64_t u64;
        int64_t i64;
        bool truth;
    };
};

static inline struct cdl_log_field cdl_log_text(const char *name, struct cdl_slice value)
{
    return (struct cdl_log_field){.name = name, .kind = CDL_LOG_KIND_TEXT, .bytes = value};
}

/* NULL is shown as an empty text. */
static inline struct cdl_log_field cdl_log_string(const char *name, const char *value)
{
    return cdl_log_text(name, cdl_slice_of(value == NULL ? "" : value));
}

static inline struct cdl_log_field cdl_log_u64(const char *name, uint64_t value)
{
    return (struct cdl_log_field){.name = name, .kind = CDL_LOG_KIND_U64, .u64 = value};
}

static inline struct cdl_log_field cdl_log_i64(const char *name, int64_t value)
{
    return (struct cdl_log_field){.name = name, .kind = CDL_LOG_KIND_I64, .i64 = value};
}

static inline struct cdl_log_field cdl_log_bool(const char *name, bool value)
{
    return (struct cdl_log_field){.name = name, .kind = CDL_LOG_KIND_BOOL, .truth = value};
}

/* The first bytes of HMAC-SHA-256 under the log's secret, in hexadecimal: the same identity is the same text, and what it was
 * cannot be found by trying. */
static inline struct cdl_log_field cdl_log_keyed(const char *name, struct cdl_slice identity)
{
    return (struct cdl_log_field){.name = name, .kind = CDL_LOG_KIND_KEYED, .bytes = identity};
}

/* An address of 4 or 16 bytes in network order without its last 8 or 80 bits: 203.0.113.0, 2001:db8:1::. IPv4-mapped IPv6 is
 * masked as IPv4. Bytes of another length are no address and shown keyed. */
static inline struct cdl_log_field cdl_log_masked(const char *name, struct cdl_slice address)
{
    return (struct cdl_log_field){.name = name, .kind = CDL_LOG_KIND_MASKED, .bytes = address};
}

/* Set what should differ from zero. */
struct cdl_log_options {
    int fd;                   /* where to; not closed */
    enum cdl_log_level level; /* the least that is written */
    enum cdl_log_format format;
    const struct caudal_clock *clock; /* NULL: caudal_clock_system(); outlives the log */
    int64_t repeat_window_ns;         /* 0: nothing is suppressed */
};

struct cdl_log;

/* NULL when memory is short. The secret of keyed fields is drawn at random until cdl_log_set_secret. */
struct cdl_log *cdl_log_open(const struct cdl_log_options *options);
/* Says what is still to be said and forgets the secret. After the last thread has logged. NULL does nothing. */
void cdl_log_close(struct cdl_log *log);

void cdl_log_set_level(struct cdl_log *log, enum cdl_log_level level);
/* Any bytes; kept as HMAC's block of 64 bytes. */
void cdl_log_set_secret(struct cdl_log *log, struct cdl_slice secret);

/* Reports repeats whose window has passed. Logging does so too; a program that may be silent for long calls this from time to
 * time. */
void cdl_log_tick(struct cdl_log *log);

/* Lines that could not be written, and lines that were counted instead of written, since the log was opened. */
uint64_t cdl_log_lost(struct cdl_log *log);
uint64_t cdl_log_suppressed(struct cdl_log *log);

bool cdl_log_enabled(struct cdl_log *log, enum cdl_log_level level);

struct cdl_log_line {
    enum cdl_log_level level;
    bool each;              /* written even when it repeats */
    const char *message;    /* constant words; what varies goes into fields */
    struct cdl_slice about; /* with the message it says what is the same; at most 64 bytes count */
    const struct cdl_log_field *fields;
    size_t field_count;
};

void cdl_log_write(struct cdl_log *log, const struct cdl_log_line *line);

#define CDL_LOG_FIELDS(...)                                                                                            \
    .fields = (const struct cdl_log_field[]){__VA_ARGS__},                                                             \
    .field_count = sizeof((const struct cdl_log_field[]){__VA_ARGS__}) / sizeof(struct cdl_log_field)

/* Fields are evaluated only when the level is written. */
#define CDL_LOG_LINE(log_, level_, each_, about_, message_, ...)                                                       \
    do {                                                                                                               \
        if (cdl_log_enabled(log_, level_))                                                                             \
            cdl_log_write(log_, &(const struct cdl_log_line){.level = (level_),                                        \
                                                             .each = (each_),                                          \
                                                             .message = (message_),                                    \
                                                             .about = (about_),                                        \
                                                             CDL_LOG_FIELDS(__VA_ARGS__)});                            \
    } while (0)

#define cdl_log(log, level, message, ...) CDL_LOG_LINE(log, level, false, CDL_SLICE(""), message, __VA_ARGS__)
/* Repeats are those of the same message about the same thing, a limit's name for one. */
#define cdl_log_about(log, level, about, message, ...) CDL_LOG_LINE(log, level, false, about, message, __VA_ARGS__)
#define cdl_log_each(log, level, message, ...) CDL_LOG_LINE(log, level, true, CDL_SLICE(""), message, __VA_ARGS__)

#endif
