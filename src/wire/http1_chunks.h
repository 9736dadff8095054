/* A body that comes in chunks (RFC 9112, 7.1):
 *
 *     "4" CRLF "Wiki" CRLF "5;extension=1" CRLF "pedia" CRLF "0" CRLF "Trailer: x" CRLF CRLF
 *
 * It is scanned while it arrives, each byte once, and changed by nothing; only when it is whole are the pieces moved together.
 * Extensions and trailers are checked for what could end a line early, and dropped. A line ends in CRLF and in nothing else:
 * http_parser, as Debian builds it, takes any byte for the LF, which lets a body hold a request that a proxy in front did
 * not see. */
#ifndef CDL_WIRE_HTTP1_CHUNKS_H
#define CDL_WIRE_HTTP1_CHUNKS_H

#include <stdint.h>

#include "base/slice.h"

/* All zero: nothing has been scanned. */
struct cdl_chunks {
    uint32_t at;     /* the next byte to look at */
    uint32_t left;   /* of the chunk's data; the chunk's size so far while that is read */
    uint32_t length; /* decoded bytes so far */
    uint8_t phase;
};

enum cdl_chunks_result {
    CDL_CHUNKS_MORE,
    CDL_CHUNKS_WHOLE, /* `at` is where the body ends, `length` how long it is without its framing */
    CDL_CHUNKS_MALFORMED,
    CDL_CHUNKS_TOO_LARGE, /* more data than body_max, or sizes, extensions and trailers of more than framing_max */
};

/* `bytes` begins with the body and holds all of it that was there in the last call. */
enum cdl_chunks_result cdl_chunks_scan(struct cdl_chunks *chunks, const char *bytes, size_t length, uint32_t body_max,
                                       uint32_t framing_max);

/* Moves the data of a whole body to its beginning. */
void cdl_chunks_join(char *bytes);

#endif
