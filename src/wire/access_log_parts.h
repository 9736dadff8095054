/* What the formats of access logs share: a line while it is read, the words that fields are known by, and what becomes of a value.
 *
 * A format finds values, cdl_access_put knows what they mean, and cdl_access_parse makes the ends meet. So a status is a
 * status in every format, and a name ("remote_addr", "http_referer") means the same in a pattern, in JSON and in a column. */
#ifndef CDL_WIRE_ACCESS_LOG_PARTS_H
#define CDL_WIRE_ACCESS_LOG_PARTS_H

#include "wire/access_log.h"

/* ---- fields ---- */

enum cdl_access_part {
    CDL_ACCESS_IGNORED,
    CDL_ACCESS_TIME,
    CDL_ACCESS_CLIENT,
    CDL_ACCESS_METHOD,
    CDL_ACCESS_TARGET,
    CDL_ACCESS_PATH,  /* a target without its query, if there is no better */
    CDL_ACCESS_QUERY, /* of the path */
    CDL_ACCESS_REQUEST,
    CDL_ACCESS_HOST,
    CDL_ACCESS_STATUS,
    CDL_ACCESS_BYTES,
    CDL_ACCESS_USER,
    CDL_ACCESS_DURATION,  /* in units of `unit_ns` */
    CDL_ACCESS_HEADER,    /* of the name `header` */
    CDL_ACCESS_HEADERS,   /* any number of them, each with its name */
    CDL_ACCESS_VARIABLES, /* the same, but named as nginx names variables: "user_agent" is "user-agent" */
};

struct cdl_access_field {
    enum cdl_access_part part;
    int64_t unit_ns;
    const char *said; /* what messages call it: "time", "request time", a header's or a variable's name */
    struct cdl_slice header;
};

/* The field that nginx or another server logs under this name; a part of CDL_ACCESS_IGNORED when it is of no interest. Names of
 * variables ("http_referer") are written to the arena. NULL when memory is short. */
const struct cdl_access_field *cdl_access_field_find(struct cdl_slice name, struct cdl_arena *arena);

/* The same for a list that users write, where "header:NAME" and the names of parts are known and all else is an error. */
const struct cdl_access_field *cdl_access_field_named(struct cdl_slice name, struct cdl_arena *arena,
                                                      struct caudal_problem *problem);

/* The n-th of the names that are usual for a field, NULL after the last one. */
const char *cdl_access_usual_name(size_t n, const struct cdl_access_field **field);

/* One entry of a list "NAME=PATH,NAME=PATH", taken off its front; the path still has its backslashes. False: the list has none
 * left, or it is broken, and the problem says how. */
bool cdl_access_list_next(struct cdl_slice *list, struct cdl_arena *arena, const struct cdl_access_field **field,
                          struct cdl_slice *path, struct caudal_problem *problem);

/* ---- a line that is being read ---- */

struct cdl_access_reading {
    struct cdl_access_parser *parser;
    const char *line, *at, *end; /* `at` moves; [line, end) is the line without its carriage return */
    struct cdl_writer *scratch;
    struct cdl_access_record *record;
    struct cdl_access_why *why;
    struct cdl_slice path, query, request; /* until it is known what else there is */
    struct cdl_slice forwarded;            /* a list that stood in the client's place, without its last */
    bool has_time;
};

/* Says what is wrong and where, and returns false. `at` may lie outside of the line, or be NULL: then reading->at counts. */
bool cdl_access_fail(struct cdl_access_reading *reading, const char *at, const char *field, const char *detail);

/* Gives the field its value. False: it is none, and `why` says so. What stands for nothing is accepted and leaves no trace. */
bool cdl_access_put(struct cdl_access_reading *reading, const struct cdl_access_field *field, struct cdl_slice value);

/* The same for a header, under a name that lives as long as the record. */
bool cdl_access_put_header(struct cdl_access_reading *reading, struct cdl_slice name, struct cdl_slice value);

/* A header whose name is that of a variable: its underscores are dashes. */
bool cdl_access_put_variable(struct cdl_access_reading *reading, struct cdl_slice name, struct cdl_slice value);

/* ---- text ---- */

static inline bool cdl_access_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool cdl_access_is_blank(char c)
{
    return (unsigned char)c <= ' ' && (c == ' ' || c == '\t'); /* most bytes need one comparison */
}

/* Nothing, as servers write it. */
static inline bool cdl_access_is_absent(struct cdl_slice value)
{
    return value.length == 0 || (value.length == 1 && value.bytes[0] == '-');
}

static inline void cdl_access_skip_blanks(struct cdl_access_reading *reading)
{
    while (reading->at < reading->end && cdl_access_is_blank(*reading->at))
        reading->at++;
}

/* What stands before the next blank or the end; moves behind it, and behind no blank. */
static inline struct cdl_slice cdl_access_word(struct cdl_access_reading *reading)
{
    const char *begin = reading->at, *at = begin;
    while (at < reading->end && !cdl_access_is_blank(*at))
        at++;
    reading->at = at;
    return (struct cdl_slice){begin, (size_t)(at - begin)};
}

/* The value of a field in quotes, which reading->at stands at; moves behind the closing one, which is the first that has no
 * backslash and that a blank or the end follows. False: it is not closed. */
bool cdl_access_quoted(struct cdl_access_reading *reading, const char *field, struct cdl_slice *value);

/* Whether the character has an odd number of backslashes before it, back to `begin`. */
bool cdl_access_is_escaped(const char *begin, const char *at);

/* What Apache, nginx and JSON write for bytes that do not fit where they stand: \xHH, \uHHHH (as UTF-8), \" \\ \/ \b \f \n \r \t
 * \v. Other backslashes stay. The value itself when it has none, else a copy in the scratch. False: there is no room. */
bool cdl_access_unescape(struct cdl_access_reading *reading, struct cdl_slice raw, struct cdl_slice *value);

/* Makes "list, element" of the two, in the scratch. `list` is what the last call made, or the first element. False: no room. */
bool cdl_access_join(struct cdl_access_reading *reading, struct cdl_slice *list, struct cdl_slice element);

/* A hexadecimal digit's value, or -1. */
int cdl_access_hex(char c);

/* So many hexadecimal digits at the front, at most seven; -1: there are fewer. */
int32_t cdl_access_hex_number(const char *at, const char *end, int digits);

/* Whether it reads as an address, or as a list of them: enough to tell it from a host's name or a time of day. */
bool cdl_access_looks_like_address(struct cdl_slice word);

/* A number with decimals ("0.125", "5e-05") in units of `unit_ns`. False: it is none, or out of range. */
bool cdl_access_decimal(struct cdl_slice text, int64_t unit_ns, int64_t *ns);

/* ---- time ---- */

struct cdl_access_stamp {
    int64_t instant_ns, resolution_ns;
};

/* Reads a time of any of the spellings of docs/formats/access-logs.md. NULL, or what is wrong with it. */
const char *cdl_access_time_read(struct cdl_access_clock *clock, struct cdl_slice text, struct cdl_access_stamp *stamp);

extern const char cdl_access_lacks_zone[], cdl_access_lacks_year[]; /* the two that settings could help */

/* ---- kinds of formats ---- */

struct cdl_access_kind {
    /* Fills in the record as far as the line goes. */
    bool (*read)(struct cdl_access_reading *reading);
    bool reads_headings; /* the first line is no request, but says what is in the others */
};

extern const struct cdl_access_kind cdl_access_combined, cdl_access_pattern, cdl_access_json, cdl_access_haproxy,
    cdl_access_csv;

/* Each makes what its kind needs. */
int cdl_access_pattern_make(struct cdl_slice pattern, struct cdl_arena *arena, struct cdl_access_format *format,
                            struct caudal_problem *problem);
/* `mapping` is a list of fields; empty: the usual names. What `fields` finds comes before it. */
int cdl_access_json_make(struct cdl_slice mapping, struct cdl_slice fields, struct cdl_arena *arena,
                         struct cdl_access_format *format, struct caudal_problem *problem);
int cdl_access_haproxy_make(struct cdl_slice captures, struct cdl_arena *arena, struct cdl_access_format *format,
                            struct caudal_problem *problem);
int cdl_access_csv_make(struct cdl_slice fields, struct cdl_arena *arena, struct cdl_access_format *format,
                        struct caudal_problem *problem);

/* Reads the heading of a CSV file into the parser. False: it names nothing that would make a request. */
bool cdl_access_csv_heading(struct cdl_access_reading *reading);

#endif
