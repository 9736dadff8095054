/* Access logs: a line in, a request as it was logged out. No I/O, no clock, no allocation while lines are read.
 *
 *     cdl_access_format_make(&settings, &arena, &format, &problem);      once: what the lines look like
 *     cdl_access_parser_init(&parser, &format);                          for each file: what it remembers from line to line
 *     scratch.length = 0;
 *     switch (cdl_access_parse(&parser, line, &scratch, &record, &why)) {
 *     case CDL_ACCESS_READ:    `record` holds the request
 *     case CDL_ACCESS_HEADING: no request: the line of a CSV file that names the columns
 *     case CDL_ACCESS_SKIPPED: cdl_access_why_write() says it in words: "column 37: the time is not closed by ']'"
 *     }
 *
 * A log is written by one program about what another one sent, so a line is believed as far as it goes and no further: what a
 * server writes for "nothing" (a "-", nothing between quotes, null) is absent, and a request that was none (a handshake sent to
 * the wrong port) is a record without method and target, because it was counted when it came. A line without a time, or one that
 * does not have the shape of its format, is skipped with the field and the column at fault. Nothing is guessed from
 * half a line.
 *
 * The formats, each in a file of its own:
 *
 *   combined  access_log_combined.c  Common Log Format, Apache's and nginx's combined, with what people put before and behind it
 *   pattern   access_log_pattern.c   whatever an nginx log_format says; Envoy's and Istio's text formats are patterns, too
 *   json      access_log_json.c      an object a line; Caddy, Traefik and Envoy are mappings of names
 *   haproxy   access_log_haproxy.c   option httplog, with or without what syslog puts in front
 *   csv       access_log_csv.c       columns that a first line names
 *
 * docs/formats/access-logs.md is the same for users: names, fields, and which attribute of a request they become. */
#ifndef CDL_WIRE_ACCESS_LOG_H
#define CDL_WIRE_ACCESS_LOG_H

#include <stdint.h>

#include "base/arena.h"
#include "base/writer.h"
#include "base/zone.h"
#include "caudal/status.h"

#define CDL_ACCESS_LINE_MAX 65536u
/* Room for what a line of that length needs unescaped. */
#define CDL_ACCESS_SCRATCH_BYTES ((size_t)2 * CDL_ACCESS_LINE_MAX)
#define CDL_ACCESS_HEADERS_MAX 64u
#define CDL_ACCESS_COLUMNS_MAX 128u
#define CDL_ACCESS_NAMES_MAX 4096u
#define CDL_ACCESS_SAMPLE_LINES 100u /* that a format is detected from */

/* ---- formats ---- */

/* How lines are to be read. All zero: the format is to be detected. */
struct cdl_access_settings {
    struct cdl_slice name;    /* "combined", "json", ... (docs/formats/access-logs.md); empty: detect */
    struct cdl_slice pattern; /* an nginx log_format, instead of a name */

    /* For JSON and CSV, "time=at,client=peer.ip,header:user-agent=agent": where a field is found, before the names that are
     * usual for it. Steps into objects are separated by dots; "\." is a dot in a name. */
    struct cdl_slice fields;

    /* For HAProxy, "host|user-agent": the headers that "capture request header" stands for, in its order. */
    struct cdl_slice captures;

    const struct cdl_zone *zone; /* of times that have no offset to UTC; NULL: such a time is an error */
    int32_t year;                /* of the first line, where times have no year; 0: such a time is an error */

    /* Servers whose time is that of the end (nginx, Caddy; not Apache, Traefik, Envoy, HAProxy) and who log how long the request
     * took: the record's instant is the beginning, by subtraction. */
    bool at_arrival;
};

/* Made by the functions below; lives in the arena, as long as that. Read-only: any number of threads may use it. */
struct cdl_access_format {
    const char *name;
    const struct cdl_access_kind *kind;
    const void *parts; /* what the kind needs */
    const struct cdl_zone *zone;
    int32_t year;
    bool subtracts_duration;
};

/* The n-th name that settings may have, from 0; NULL after the last one. */
const char *cdl_access_format_name(size_t n);

/* The settings' format, which must be named or be a pattern. CAUDAL_OK; CAUDAL_ERR_SYNTAX for an unknown name, a pattern or a list of
 * fields that makes no sense; CAUDAL_ERR_MEMORY. */
int cdl_access_format_make(const struct cdl_access_settings *settings, struct cdl_arena *arena,
                           struct cdl_access_format *format, struct caudal_problem *problem);

/* What cdl_access_format_detect saw. */
struct cdl_access_detection {
    size_t lines;  /* looked at: neither empty ones nor headings count */
    size_t parsed; /* of them, by the format that was chosen */
};

/* The settings' format, or, where they name none, the one that reads most of these lines, the first of a file; of those that read
 * equally many, the one that finds most in them. `scratch` has CDL_ACCESS_SCRATCH_BYTES. CAUDAL_OK; CAUDAL_ERR_SYNTAX when there is
 * none, and also when not one line is read by the one that is named: the problem tells the line and the place where the most likely one
 * failed. It is an error, too, when lines lack a zone or a year that the settings do not have. CAUDAL_ERR_MEMORY. */
int cdl_access_format_detect(const struct cdl_access_settings *settings, const struct cdl_slice *lines, size_t count,
                             struct cdl_arena *arena, struct cdl_writer *scratch, struct cdl_access_format *format,
                             struct cdl_access_detection *detection, struct caudal_problem *problem);

/* ---- lines ---- */

/* A request as it was logged. Slices lie in the line, in the scratch or in the format; empty: the line does not tell. */
struct cdl_access_record {
    int64_t instant_ns;    /* since 1970, UTC */
    int64_t resolution_ns; /* the instant is cut to whole multiples of this: a second, 1 ms, 1 us or 1 ns */
    int64_t duration_ns;   /* that the request took; -1: unknown */

    /* The peer, as it was written: an address of any spelling, perhaps with port and brackets, or a host's name. Where a list was
     * logged in its place, this is the last of it, and the others are the header "x-forwarded-for", unless the line has one. */
    struct cdl_slice client;
    struct cdl_slice method; /* both empty when what was sent is no request */
    struct cdl_slice target; /* with its query; not normalised */
    struct cdl_slice host;   /* perhaps with its port */
    struct cdl_slice user;
    unsigned status; /* 0: unknown */
    int64_t bytes;   /* that were sent; -1: unknown */

    /* Of the request. Names in any case; what was logged as "-" is not among them. */
    size_t header_count;
    struct cdl_field headers[CDL_ACCESS_HEADERS_MAX];
};

/* The value of the first header of that name; empty when there is none. */
struct cdl_slice cdl_access_header(const struct cdl_access_record *record, struct cdl_slice name);

/* Why a line was skipped: "the FIELD DETAIL". Both live as long as the format, and are few: skipped lines can be counted by them. */
struct cdl_access_why {
    const char *field, *detail;
    size_t column; /* in bytes, from 1; 0: the whole line */
};

void cdl_access_why_write(struct cdl_writer *writer, const struct cdl_access_why *why);

/* Whether this is for want of the settings' zone, or year: then it will be so for all lines. */
bool cdl_access_why_is_setting(const struct cdl_access_why *why);

enum cdl_access_result {
    CDL_ACCESS_READ,
    CDL_ACCESS_HEADING,
    CDL_ACCESS_SKIPPED,
};

/* Times are read by comparing them to the last one: lines of one minute differ in their seconds. */
struct cdl_access_clock {
    const struct cdl_zone *zone;
    int32_t year;
    bool has_last;
    int64_t last_s; /* the instant that was read last, to which an ambiguous one is near */
    char minute[17];
    uint8_t minute_length; /* 0: none */
    int64_t minute_s;      /* what the clock on the wall showed, in seconds since 1970 there */
    bool has_zoned;
    int64_t zoned_minute_s, zoned_offset_s; /* the zone's offset in this minute, when it has one only */
};

/* A column that a CSV file's heading names. */
struct cdl_access_column {
    const struct cdl_access_field *field; /* NULL: of no interest */
    uint16_t name, name_length;           /* in the parser's `names`, where it is a header's */
};

/* What is remembered from line to line of one file. */
struct cdl_access_parser {
    const struct cdl_access_format *format;
    struct cdl_access_clock clock;
    size_t
        reached; /* so many bytes of the line that was skipped last were read before the fault was found, which may lie before them */
    /* Of CSV: */
    char delimiter; /* '\0' until the heading has been read */
    size_t column_count;
    struct cdl_access_column columns[CDL_ACCESS_COLUMNS_MAX];
    size_t name_bytes;
    char names[CDL_ACCESS_NAMES_MAX];
};

void cdl_access_parser_init(struct cdl_access_parser *parser, const struct cdl_access_format *format);

/* Reads one line, given without its line feed; a carriage return at its end does not count. `scratch` must be empty and outlive the
 * record. Linear in the line. */
enum cdl_access_result cdl_access_parse(struct cdl_access_parser *parser, struct cdl_slice line,
                                        struct cdl_writer *scratch, struct cdl_access_record *record,
                                        struct cdl_access_why *why);

#endif
