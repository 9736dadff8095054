/* Replies to Redis clients, in RESP2 or RESP3. What RESP2 does not have becomes what Redis makes of it there: a map is a flat array,
 * a null is a bulk string of length -1. `protocol` is 2 or 3. */
#ifndef CDL_WIRE_RESP_WRITE_H
#define CDL_WIRE_RESP_WRITE_H

#include "base/writer.h"

/* A line; the text has no line end. */
void cdl_resp_write_simple(struct cdl_writer *writer, struct cdl_slice text);
/* An error: a code in capitals, a blank, and words. Control bytes, which would end the line, become '?'. */
void cdl_resp_write_error(struct cdl_writer *writer, struct cdl_slice text);
void cdl_resp_write_integer(struct cdl_writer *writer, int64_t number);
/* An array of integers, in one go: what is written most. It wants room for the longest, 23 bytes for each and as many before them. */
void cdl_resp_write_integers(struct cdl_writer *writer, const int64_t *numbers, size_t count);
/* Any bytes. */
void cdl_resp_write_bulk(struct cdl_writer *writer, struct cdl_slice bytes);
/* Text that is meant to be shown as it is. */
void cdl_resp_write_verbatim(struct cdl_writer *writer, unsigned protocol, struct cdl_slice text);
void cdl_resp_write_boolean(struct cdl_writer *writer, unsigned protocol, bool truth);
void cdl_resp_write_null(struct cdl_writer *writer, unsigned protocol);
/* The heads of aggregates; their elements follow, of a map a key and a value for each of `count`. */
void cdl_resp_write_array(struct cdl_writer *writer, size_t count);
void cdl_resp_write_set(struct cdl_writer *writer, unsigned protocol, size_t count);
void cdl_resp_write_map(struct cdl_writer *writer, unsigned protocol, size_t count);

#endif
