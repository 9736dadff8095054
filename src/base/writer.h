/* Writing text into a piece of memory of fixed size. What does not fit sets `overflow` and is dropped whole, so a writer never
 * holds half a piece; the caller looks once, at the end. */
#ifndef CDL_BASE_WRITER_H
#define CDL_BASE_WRITER_H

#include <stdint.h>

#include "base/slice.h"

struct cdl_writer {
    char *bytes;
    size_t size;
    size_t length;
    bool overflow;
};

static inline struct cdl_writer cdl_writer_on(char *bytes, size_t size)
{
    return (struct cdl_writer){bytes, size, 0, false};
}

static inline void cdl_write(struct cdl_writer *writer, struct cdl_slice text)
{
    if (writer->overflow || text.length > writer->size - writer->length) {
        writer->overflow = true;
        return;
    }
    if (text.length > 0)
        memcpy(writer->bytes + writer->length, text.bytes, text.length);
    writer->length += text.length;
}

static inline void cdl_write_text(struct cdl_writer *writer, const char *text)
{
    cdl_write(writer, cdl_slice_of(text));
}

static inline struct cdl_slice cdl_written(const struct cdl_writer *writer)
{
    return (struct cdl_slice){writer->bytes, writer->length};
}

/* Decimal numbers, without printf: these stand in every answer. */
void cdl_write_u64(struct cdl_writer *writer, uint64_t number);
void cdl_write_i64(struct cdl_writer *writer, int64_t number);

__attribute__((format(printf, 2, 3))) void cdl_writef(struct cdl_writer *writer, const char *format, ...);

#endif
