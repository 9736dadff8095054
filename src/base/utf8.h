/* Showing bytes that may be anything: as UTF-8 where they are, and visibly where they are not.
 *
 * What a client sends ends up in logs, metrics and admin pages. There it must neither break the format nor move a reader's
 * cursor, and two different values must stay different. Where a format has no escape of its own for a byte, the byte is
 * *marked*: U+FFFD, the replacement character, and its two hexadecimal digits in lower case. A U+FFFD in the input is marked
 * byte by byte, so every mark in the output is one of ours, and the input can be had back from it. */
#ifndef CDL_BASE_UTF8_H
#define CDL_BASE_UTF8_H

#include "base/writer.h"

#define CDL_UTF8_MARK 0xfffdu
#define CDL_UTF8_MARKED_BYTES 5u /* U+FFFD and two digits: what one byte takes */

enum cdl_character_kind {
    CDL_CHARACTER_PLAIN,  /* can be shown as it is */
    CDL_CHARACTER_HIDDEN, /* valid, but it would end the line, move the cursor or turn the direction of writing */
    CDL_CHARACTER_BROKEN, /* a byte that is part of no character */
};

struct cdl_character {
    enum cdl_character_kind kind;
    uint32_t code;   /* of the character; of the byte when it is broken */
    uint32_t length; /* 1 to 4 bytes; 1 when it is broken */
};

/* The first character of a text that is not empty. Surrogates, overlong forms and what is above U+10FFFF are broken
 * (RFC 3629). */
struct cdl_character cdl_utf8_first(struct cdl_slice text);

/* Cuts a text to at most `bytes` without cutting through a character. */
struct cdl_slice cdl_utf8_head(struct cdl_slice text, size_t bytes);

/* Writes a mark for each byte. */
void cdl_write_marked(struct cdl_writer *writer, struct cdl_slice bytes);

#endif
