#include "base/writer.h"

#include <stdarg.h>
#include <stdio.h>

void cdl_write_u64(struct cdl_writer *writer, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    cdl_write(writer, (struct cdl_slice){digits + at, sizeof digits - at});
}

void cdl_write_i64(struct cdl_writer *writer, int64_t number)
{
    if (number < 0)
        cdl_write(writer, CDL_SLICE("-"));
    cdl_write_u64(writer, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

void cdl_writef(struct cdl_writer *writer, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text)
        writer->overflow = true;
    else
        cdl_write(writer, (struct cdl_slice){text, (size_t)length});
}
