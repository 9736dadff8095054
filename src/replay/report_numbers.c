#include "replay/report_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/utf8.h"

#define SECOND INT64_C(1000000000)

/* ---- numbers ---- */

struct cdl_shown cdl_show_number(uint64_t number)
{
    char digits[24];
    const int count = snprintf(digits, sizeof digits, "%" PRIu64, number);
    struct cdl_shown shown = {{0}};
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            shown.text[length++] = ',';
        shown.text[length++] = digits[i];
    }
    return shown;
}

struct cdl_shown cdl_show_short(double number)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    const size_t last = sizeof units / sizeof units[0] - 1;
    size_t unit = 0;
    /* 999.5 would be shown with four digits. */
    while (fabs(number) >= 999.5 && unit < last) {
        number /= 1000;
        unit++;
    }
    struct cdl_shown shown;
    snprintf(shown.text, sizeof shown.text, "%.3g%s", number == 0 ? 0 : number, units[unit]);
    return shown;
}

struct cdl_shown cdl_show_share(uint64_t part, uint64_t whole)
{
    struct cdl_shown shown;
    const unsigned __int128 twice = (unsigned __int128)part * 2000;
    const unsigned tenths = whole == 0 ? 0 : (unsigned)((twice + whole) / ((unsigned __int128)whole * 2));
    if (part == 0 || part == whole)
        snprintf(shown.text, sizeof shown.text, "%s %%", part == 0 ? "0" : "100");
    else if (tenths == 0 || tenths >= 1000)
        snprintf(shown.text, sizeof shown.text, "%s %%", tenths == 0 ? "< 0.1" : "> 99.9");
    else
        snprintf(shown.text, sizeof shown.text, "%u.%u %%", tenths / 10, tenths % 10);
    return shown;
}

struct cdl_shown cdl_show_fraction(double fraction)
{
    struct cdl_shown shown;
    snprintf(shown.text, sizeof shown.text, "%.6g %%", fraction * 100);
    return shown;
}

/* ---- times ---- */

/* Below a minute: "12.5 s". */
static struct cdl_shown show_short_duration(int64_t ns)
{
    static const struct {
        int64_t ns;
        const char *name;
    } units[] = {{SECOND, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
    size_t unit = 0;
    while (ns != 0 && ns < units[unit].ns)
        unit++;
    /* Thousandths, without zeros at their end. A nanosecond has none. */
    const int64_t thousandths = units[unit].ns == 1 ? ns * 1000 : ns / (units[unit].ns / 1000);
    const int decimals = thousandths % 1000 == 0 ? 0 : thousandths % 100 == 0 ? 1 : thousandths % 10 == 0 ? 2 : 3;
    struct cdl_shown shown;
    snprintf(shown.text, sizeof shown.text, "%.*f %s", decimals, (double)thousandths / 1000, units[unit].name);
    return shown;
}

struct cdl_shown cdl_show_duration(int64_t ns)
{
    static const struct {
        int64_t large, small; /* seconds */
        const char *large_name, *small_name;
    } pairs[] = {{86400, 3600, "d", "h"}, {3600, 60, "h", "min"}, {60, 1, "min", "s"}};
    const int64_t seconds = ns / SECOND;
    struct cdl_shown shown;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const int64_t large = seconds / pairs[i].large, small = seconds % pairs[i].large / pairs[i].small;
        if (large == 0)
            continue;
        if (small == 0)
            snprintf(shown.text, sizeof shown.text, "%" PRIi64 " %s", large, pairs[i].large_name);
        else
            snprintf(shown.text, sizeof shown.text, "%" PRIi64 " %s %" PRIi64 " %s", large, pairs[i].large_name, small,
                     pairs[i].small_name);
        return shown;
    }
    return show_short_duration(ns);
}

struct cdl_shown cdl_show_instant(int64_t ns)
{
    /* Downwards, before 1970 too. */
    const time_t seconds = (time_t)(ns / SECOND - (ns % SECOND < 0));
    struct tm utc;
    gmtime_r(&seconds, &utc);
    struct cdl_shown shown;
    strftime(shown.text, sizeof shown.text, "%Y-%m-%d %H:%M:%SZ", &utc);
    return shown;
}

/* ---- names ---- */

/* What one character of a name takes when it is shown: itself, or a mark of three columns for each of its bytes. XML knows no way to
 * write U+FFFE and U+FFFF, which are no characters. */
static size_t columns_of(struct cdl_character character)
{
    const bool is_plain = character.kind == CDL_CHARACTER_PLAIN &&
                          !(character.code >= CDL_UTF8_MARK && character.code <= 0xffff);
    return is_plain ? 1 : 3 * (size_t)character.length;
}

static size_t columns_in(struct cdl_slice name)
{
    size_t columns = 0;
    while (name.length > 0) {
        const struct cdl_character character = cdl_utf8_first(name);
        columns += columns_of(character);
        name = cdl_slice_from(name, character.length);
    }
    return columns;
}

/* Shows the characters that lie wholly within [from, to) of the name's columns. */
static void show_columns(struct cdl_writer *writer, struct cdl_slice name, size_t from, size_t to)
{
    for (size_t at = 0; name.length > 0 && at < to;) {
        const struct cdl_character character = cdl_utf8_first(name);
        const size_t columns = columns_of(character);
        if (at >= from && at + columns <= to) {
            if (columns == 1)
                cdl_write(writer, cdl_slice_head(name, character.length));
            else
                cdl_write_marked(writer, cdl_slice_head(name, character.length));
        }
        at += columns;
        name = cdl_slice_from(name, character.length);
    }
}

void cdl_show_name(struct cdl_writer *writer, struct cdl_slice name, size_t columns)
{
    const size_t total = columns_in(name);
    if (total <= columns) {
        show_columns(writer, name, 0, total);
        return;
    }
    const size_t tail = columns / 3;
    show_columns(writer, name, 0, columns - tail - 1);
    cdl_write_text(writer, "…");
    show_columns(writer, name, total - tail, total);
}
