#include "wire/resp_write.h"

#define CRLF CDL_SLICE("\r\n")

void cdl_resp_write_simple(struct cdl_writer *writer, struct cdl_slice text)
{
    cdl_write(writer, CDL_SLICE("+"));
    cdl_write(writer, text);
    cdl_write(writer, CRLF);
}

void cdl_resp_write_error(struct cdl_writer *writer, struct cdl_slice text)
{
    cdl_write(writer, CDL_SLICE("-"));
    const size_t start = writer->length;
    cdl_write(writer, text);
    for (size_t i = start; i < writer->length; i++)
        if ((unsigned char)writer->bytes[i] < ' ' || writer->bytes[i] == 0x7F)
            writer->bytes[i] = '?';
    cdl_write(writer, CRLF);
}

/* ---- numbers ---- */

/* ":-9223372036854775808" CRLF */
#define INTEGER_BYTES 23u

static size_t count_digits(uint64_t number)
{
    size_t count = 1;
    for (; number >= 1000; number /= 1000)
        count += 3;
    return count + (number >= 10) + (number >= 100);
}

/* Writes `type`, the number and CRLF from `at`; returns where they end. */
static char *put_number(char *at, char type, int64_t number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    if ((uint64_t)number < 10) {
        const char line[] = {type, (char)('0' + number), '\r', '\n'};
        memcpy(at, line, sizeof line);
        return at + sizeof line;
    }
    *at++ = type;
    *at = '-';
    at += number < 0;
    size_t left = count_digits(rest);
    char *const end = at + left;
    for (; left >= 2; left -= 2, rest /= 100)
        memcpy(at + left - 2, pairs + 2 * (rest % 100), 2);
    if (left == 1)
        *at = (char)('0' + rest);
    end[0] = '\r';
    end[1] = '\n';
    return end + 2;
}

static void write_number(struct cdl_writer *writer, char type, int64_t number)
{
    char line[INTEGER_BYTES];
    cdl_write(writer, (struct cdl_slice){line, (size_t)(put_number(line, type, number) - line)});
}

void cdl_resp_write_integer(struct cdl_writer *writer, int64_t number)
{
    write_number(writer, ':', number);
}

void cdl_resp_write_integers(struct cdl_writer *writer, const int64_t *numbers, size_t count)
{
    if (writer->overflow || writer->size - writer->length < (count + 1) * INTEGER_BYTES) {
        writer->overflow = true;
        return;
    }
    char *at = put_number(writer->bytes + writer->length, '*', (int64_t)count);
    for (size_t i = 0; i < count; i++)
        at = put_number(at, ':', numbers[i]);
    writer->length = (size_t)(at - writer->bytes);
}

/* ---- texts ---- */

void cdl_resp_write_bulk(struct cdl_writer *writer, struct cdl_slice bytes)
{
    write_number(writer, '$', (int64_t)bytes.length);
    cdl_write(writer, bytes);
    cdl_write(writer, CRLF);
}

void cdl_resp_write_verbatim(struct cdl_writer *writer, unsigned protocol, struct cdl_slice text)
{
    if (protocol < 3) {
        cdl_resp_write_bulk(writer, text);
        return;
    }
    write_number(writer, '=', (int64_t)text.length + 4);
    cdl_write(writer, CDL_SLICE("txt:"));
    cdl_write(writer, text);
    cdl_write(writer, CRLF);
}

/* ---- the rest ---- */

void cdl_resp_write_boolean(struct cdl_writer *writer, unsigned protocol, bool truth)
{
    if (protocol < 3)
        cdl_resp_write_integer(writer, truth);
    else
        cdl_write(writer, truth ? CDL_SLICE("#t\r\n") : CDL_SLICE("#f\r\n"));
}

void cdl_resp_write_null(struct cdl_writer *writer, unsigned protocol)
{
    cdl_write(writer, protocol < 3 ? CDL_SLICE("$-1\r\n") : CDL_SLICE("_\r\n"));
}

void cdl_resp_write_array(struct cdl_writer *writer, size_t count)
{
    write_number(writer, '*', (int64_t)count);
}

void cdl_resp_write_set(struct cdl_writer *writer, unsigned protocol, size_t count)
{
    write_number(writer, protocol < 3 ? '*' : '~', (int64_t)count);
}

void cdl_resp_write_map(struct cdl_writer *writer, unsigned protocol, size_t count)
{
    write_number(writer, protocol < 3 ? '*' : '%', (int64_t)(protocol < 3 ? 2 * count : count));
}
