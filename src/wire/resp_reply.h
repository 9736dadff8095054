/* Replies of a Redis server, RESP2 and RESP3 (https://redis.io/docs/latest/develop/reference/protocol-spec/), as their bytes arrive.
 *
 * Debian's hiredis (0.14) reads RESP2 only, hence our own. A reply is not built into a tree: it is found to be whole, then walked.
 * Bounded: a reply of more than CDL_RESP_REPLY_MAX bytes, or nested deeper than CDL_RESP_DEPTH_MAX, is bad. */
#ifndef CDL_WIRE_RESP_REPLY_H
#define CDL_WIRE_RESP_REPLY_H

#include <stdint.h>

#include "base/slice.h"

#define CDL_RESP_REPLY_MAX ((size_t)1 << 24)
#define CDL_RESP_DEPTH_MAX 8u

enum cdl_resp_kind {
    CDL_RESP_STRING,  /* simple, bulk, or verbatim without its format: `text` */
    CDL_RESP_ERROR,   /* simple or bulk: `text` */
    CDL_RESP_INTEGER, /* `integer` */
    CDL_RESP_DOUBLE,  /* `text` */
    CDL_RESP_BOOLEAN, /* `integer` */
    CDL_RESP_BIG,     /* a big number: `text` */
    CDL_RESP_NULL,
    CDL_RESP_ARRAY, /* array or set: `count` elements follow */
    CDL_RESP_MAP,   /* `count` keys and values follow, twice the number of pairs */
    CDL_RESP_PUSH,  /* out of band: `count` elements follow */
};

/* A value; of an aggregate, its head. */
struct cdl_resp {
    enum cdl_resp_kind kind;
    struct cdl_slice text;
    int64_t integer;
    size_t count;
    struct cdl_slice elements; /* of an aggregate: the bytes of its elements */
};

enum cdl_resp_result {
    CDL_RESP_MORE,  /* not whole yet */
    CDL_RESP_READY, /* `length` bytes are one reply */
    CDL_RESP_BAD,   /* no reply, whatever follows */
};

/* How far a reply has been looked at, so that one that comes in many pieces is not looked at from its start each time. All zero: at its
 * start. */
struct cdl_resp_meter {
    size_t at;      /* where the value that is not whole yet begins */
    size_t looked;  /* how much of its line has been looked at */
    uint32_t depth; /* of `left`; an element that is being read counts as left */
    uint64_t left[CDL_RESP_DEPTH_MAX + 1];
};

/* Looks whether `bytes` (all that have come of it so far; the same start each time) begin with a whole reply, of `length` bytes. When
 * READY the meter is at the start of the next, whose bytes begin behind these. */
enum cdl_resp_result cdl_resp_measure(struct cdl_resp_meter *meter, struct cdl_slice bytes, size_t *length);

/* Reads the value at the front of `rest`, which holds whole values, and moves past all of it, elements included. False: there is none,
 * and nothing has moved. Attributes are skipped. */
bool cdl_resp_next(struct cdl_slice *rest, struct cdl_resp *value);

#endif
