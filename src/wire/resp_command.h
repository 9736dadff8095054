/* Commands of Redis clients, as their bytes arrive: arrays of bulk strings, and lines that somebody types.
 *
 *     *2 CRLF $4 CRLF ECHO CRLF $2 CRLF hi CRLF
 *     echo "hi there\r\n" LF
 *
 * Nothing is copied: arguments are slices of the bytes that came, and a command that comes whole is read in one pass. One that comes in pieces is
 * measured piece by piece, then read once more when it is whole, so that what is remembered between pieces is three numbers.
 *
 * Bounded: a command is bad as soon as its bytes say that it will have more arguments, longer ones, or more bytes in all than the limits
 * below. Nothing is set aside for what has only been announced. Whether bytes are a command, not one yet, or none, does not depend on
 * how they were cut. */
#ifndef CDL_WIRE_RESP_COMMAND_H
#define CDL_WIRE_RESP_COMMAND_H

#include "caudal/key.h"
#include "wire/resp_reply.h"

#define CDL_RESP_ARGUMENTS_MAX 1024u
/* More than any key may have, so that who sends one that is somewhat too long is told so and not cut off. */
#define CDL_RESP_ARGUMENT_MAX (2u * CAUDAL_KEY_MAX)
#define CDL_RESP_COMMAND_MAX ((size_t)256 * 1024)
#define CDL_RESP_INLINE_MAX ((size_t)64 * 1024) /* of a line, its end included */

/* Uninitialised until it is read; what stands beyond `count` has no meaning. */
struct cdl_resp_command {
    size_t length;                                      /* bytes that it took */
    size_t count;                                       /* 0: an empty line or array, which asks for nothing */
    struct cdl_slice arguments[CDL_RESP_ARGUMENTS_MAX]; /* the first is its name */
};

/* How far a command has been read. All zero: at its start. */
struct cdl_resp_reader {
    size_t at;            /* where the argument that is not whole begins; of a line, how much holds no end of it */
    uint32_t count, done; /* arguments: announced, and whole */
    const char *error;    /* after CDL_RESP_BAD: what is wrong, for "Protocol error: ..." */
};

/* Looks whether the `length` bytes (all that have come of it so far; the same start each time) begin with a whole command. CDL_RESP_READY:
 * it is in `command`, and the reader is at the start of the next. Quoted words of a line are unquoted where they stand: its bytes
 * are not to be read a second time. */
enum cdl_resp_result cdl_resp_read_command(struct cdl_resp_reader *reader, char *bytes, size_t length,
                                           struct cdl_resp_command *command);

/* A look ahead: the second argument of what follows in `rest` behind a command that has just been read, if that begins in the same way
 * and so much of it has come; else empty. Nothing is read by it. */
struct cdl_slice cdl_resp_look_ahead(const struct cdl_resp_command *command, struct cdl_slice rest);

/* Reads an argument that is a whole number, digits only. */
static inline bool cdl_resp_read_u64(struct cdl_slice text, uint64_t *number)
{
    const char *at = text.bytes, *const end = at + text.length;
    uint64_t sum = 0;
    if (at == end)
        return false;
#pragma GCC unroll 1
    for (; at < end; at++) {
        const unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit > 9 || (sum >= UINT64_MAX / 10 && (sum > UINT64_MAX / 10 || digit > UINT64_MAX % 10)))
            return false;
        sum = 10 * sum + digit;
    }
    *number = sum;
    return true;
}

#endif
