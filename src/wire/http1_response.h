/* HTTP/1.1 answers into a writer: a head, and a body that is whole. */
#ifndef CDL_WIRE_HTTP1_RESPONSE_H
#define CDL_WIRE_HTTP1_RESPONSE_H

#include "base/writer.h"

struct cdl_http1_response {
    unsigned status;
    struct cdl_slice date;         /* from cdl_http_date; empty: none */
    struct cdl_slice content_type; /* empty: none */
    struct cdl_slice lines;        /* field lines that are written already, each with its CRLF; may be empty */
    const struct cdl_field *fields;
    size_t field_count;
    struct cdl_slice body;
    bool without_body;      /* the answer to HEAD: tells the body's length and leaves it away */
    bool keep_alive;        /* what is said in Connection, as the request's version wants it */
    unsigned minor_version; /* the request's */
};

/* Writes the whole answer, or nothing: false when it does not fit, and the writer is as it was. A line end or a NUL in a field's
 * value becomes a blank (RFC 9110, 5.5), so that no value can end the head. */
bool cdl_http1_respond(struct cdl_writer *writer, const struct cdl_http1_response *response);

/* "Too Many Requests"; for a status that is not on the list, the name of its class. */
const char *cdl_http_status_phrase(unsigned status);

#define CDL_HTTP_DATE_LENGTH 29

/* An instant as Date wants it, "Sun, 06 Nov 1994 08:49:37 GMT", without NUL. One that is not in the years 1970 to 9999 is told
 * as the nearest that is. */
void cdl_http_date(int64_t unix_seconds, char text[CDL_HTTP_DATE_LENGTH]);

#endif
