#include "base/duration.h"

#define NS_PER_S INT64_C(1000000000)

static const struct {
    const char *name;
    int64_t ns;
} units[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", NS_PER_S},
    {"m", 60 * NS_PER_S},
    {"min", 60 * NS_PER_S},
    {"h", 3600 * NS_PER_S},
    {"d", 86400 * NS_PER_S},
};

bool cdl_duration_parse(struct cdl_slice text, int64_t *ns)
{
    int64_t number = 0;
    size_t digits = 0;
    for (; digits < text.length && text.bytes[digits] >= '0' && text.bytes[digits] <= '9'; digits++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text.bytes[digits] - '0', &number))
            return false;
    const struct cdl_slice unit = cdl_slice_from(text, digits);
    for (size_t i = 0; digits > 0 && i < sizeof units / sizeof units[0]; i++)
        if (cdl_slice_equal(unit, cdl_slice_of(units[i].name)))
            return !__builtin_mul_overflow(number, units[i].ns, ns);
    return false;
}

void cdl_duration_write_seconds(struct cdl_writer *writer, int64_t ns)
{
    cdl_write_i64(writer, ns / NS_PER_S);
    char decimals[10] = ".";
    size_t length = 0;
    int64_t rest = ns % NS_PER_S;
    for (size_t i = 9; i > 0; i--, rest /= 10) {
        decimals[i] = (char)('0' + rest % 10);
        if (length == 0 && decimals[i] != '0')
            length = i + 1;
    }
    cdl_write(writer, (struct cdl_slice){decimals, length});
    cdl_write_text(writer, "s");
}
