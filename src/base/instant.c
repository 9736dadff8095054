#include "base/instant.h"

#include "base/zone.h"

#define S_NS INT64_C(1000000000)
#define DAY_S 86400

static void write_digits(struct cdl_writer *writer, uint64_t number, size_t count)
{
    char digits[20];
    for (size_t i = count; i-- > 0; number /= 10)
        digits[i] = (char)('0' + number % 10);
    cdl_write(writer, (struct cdl_slice){digits, count});
}

static void write_two(struct cdl_writer *writer, const char *mark, int64_t number)
{
    cdl_write_text(writer, mark);
    write_digits(writer, (uint64_t)number, 2);
}

static void write_fraction(struct cdl_writer *writer, int64_t ns)
{
    if (ns == 0)
        return;
    size_t digits = 9;
    for (; ns % 1000 == 0; digits -= 3)
        ns /= 1000;
    cdl_write(writer, CDL_SLICE("."));
    write_digits(writer, (uint64_t)ns, digits);
}

void cdl_instant_write(struct cdl_writer *writer, int64_t instant_ns)
{
    /* Downwards, before 1970 too. */
    const int64_t second = instant_ns / S_NS - (instant_ns % S_NS < 0);
    const int64_t days = second / DAY_S - (second % DAY_S < 0);
    const int64_t in_day_s = second - days * DAY_S;
    int64_t year;
    int32_t month, day;
    cdl_date_of_days(days, &year, &month, &day);
    write_digits(writer, (uint64_t)year, 4); /* 64 bits of nanoseconds are the years 1677 to 2262 */
    write_two(writer, "-", month);
    write_two(writer, "-", day);
    write_two(writer, "T", in_day_s / 3600);
    write_two(writer, ":", in_day_s / 60 % 60);
    write_two(writer, ":", in_day_s % 60);
    /* The second that holds INT64_MIN begins before it. */
    write_fraction(writer, instant_ns % S_NS < 0 ? instant_ns % S_NS + S_NS : instant_ns % S_NS);
    cdl_write(writer, CDL_SLICE("Z"));
}
