/* The times of access logs:
 *
 *     17/May/2015:10:05:03 +0000     Apache and nginx, with decimals or without
 *     2015-05-17T10:05:03.123Z       ISO 8601; also with a blank for the T, with slashes in the date, with +02:00 or +0200
 *     1431857103.123                 since 1970: seconds, or milli-, micro- and nanoseconds, told apart by their digits
 *     May 17 10:05:03                syslog, which lacks the year
 *
 * Each line's own offset counts, so an hour that a clock shows twice is two hours. Where a zone has to help out, such an hour is read
 * as the first one until time would run backwards, then as the second. Where the year is lacking, it is the one that brings the
 * line nearest to the one before: a single line that is far off then does not take the others with it. */
#include "wire/access_log_parts.h"

#define DAY_S INT64_C(86400)
#define NS_PER_S INT64_C(1000000000)
#define YEAR_MIN 1970
#define YEAR_MAX 2261       /* the last whole one that 64 bits of nanoseconds reach */
#define BACKWARDS_MAX_S 600 /* by so much a line may be older than the one before it */
#define EPOCH_MAX_S INT64_C(9214646400)

const char cdl_access_lacks_zone[] = "has no offset to UTC, and no zone is given";
const char cdl_access_lacks_year[] = "has no year, and none is given";

static const char not_a_time[] = "has no shape that is known";
static const char out_of_range[] = "is not between the years 1970 and 2261";

/* ---- dates ---- */

static bool two_digits(const char *at, int32_t *number)
{
    *number = 10 * (at[0] - '0') + (at[1] - '0');
    return cdl_access_is_digit(at[0]) && cdl_access_is_digit(at[1]);
}

static bool four_digits(const char *at, int32_t *number)
{
    int32_t high, low;
    if (!two_digits(at, &high) || !two_digits(at + 2, &low))
        return false;
    *number = 100 * high + low;
    return true;
}

static bool month_of(const char *at, int32_t *month)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int32_t i = 0; i < 12; i++)
        if (memcmp(at, names + (ptrdiff_t)3 * i, 3) == 0) {
            *month = i + 1;
            return true;
        }
    return false;
}

/* What is wrong with a date and a time of the day, or NULL and the seconds that they are from 1970 on the wall. */
static const char *minute_of(int32_t year, int32_t month, int32_t day, int32_t hour, int32_t minute, int64_t *minute_s)
{
    if (year < YEAR_MIN || year > YEAR_MAX)
        return out_of_range;
    if (month < 1 || month > 12 || day < 1)
        return "has a date that no calendar has";
    const int64_t days = cdl_days_of_date(year, month, day);
    const int64_t next_month = month == 12 ? cdl_days_of_date(year + 1, 1, 1) : cdl_days_of_date(year, month + 1, 1);
    if (days >= next_month)
        return "has a date that no calendar has";
    if (hour > 23 || minute > 59)
        return "has a time of day that no clock shows";
    *minute_s = days * DAY_S + hour * INT64_C(3600) + minute * INT64_C(60);
    return NULL;
}

/* "17/May/2015:10:05" */
static const char *read_clf_minute(const char *at, int64_t *minute_s)
{
    int32_t year, month, day, hour, minute;
    if (!two_digits(at, &day) || at[2] != '/' || !month_of(at + 3, &month) || at[6] != '/' ||
        !four_digits(at + 7, &year) || at[11] != ':' || !two_digits(at + 12, &hour) || at[14] != ':' ||
        !two_digits(at + 15, &minute))
        return not_a_time;
    return minute_of(year, month, day, hour, minute, minute_s);
}

/* "2015-05-17T10:05" */
static const char *read_iso_minute(const char *at, int64_t *minute_s)
{
    int32_t year, month, day, hour, minute;
    const bool has_marks = (at[4] == '-' || at[4] == '/') && at[7] == at[4] &&
                           (at[10] == 'T' || at[10] == 't' || at[10] == ' ') && at[13] == ':';
    if (!has_marks || !four_digits(at, &year) || !two_digits(at + 5, &month) || !two_digits(at + 8, &day) ||
        !two_digits(at + 11, &hour) || !two_digits(at + 14, &minute))
        return not_a_time;
    return minute_of(year, month, day, hour, minute, minute_s);
}

static int64_t distance(int64_t a, int64_t b)
{
    return a < b ? b - a : a - b;
}

/* "May 17 10:05" or "May  7 10:05": of the year that brings it nearest to the line before. */
static const char *read_syslog_minute(const struct cdl_access_clock *clock, const char *at, int64_t *minute_s)
{
    int32_t month, day, hour, minute;
    const char tens = at[4] == ' ' ? '0' : at[4];
    if (!month_of(at, &month) || at[3] != ' ' || !two_digits((char[]){tens, at[5]}, &day) || at[6] != ' ' ||
        !two_digits(at + 7, &hour) || at[9] != ':' || !two_digits(at + 10, &minute))
        return not_a_time;
    if (clock->year == 0)
        return cdl_access_lacks_year;
    if (!clock->has_last)
        return minute_of(clock->year, month, day, hour, minute, minute_s);
    int64_t last_year;
    int32_t last_month, last_day;
    cdl_date_of_days(clock->last_s / DAY_S, &last_year, &last_month, &last_day);
    const char *wrong = "has a date that no calendar has";
    for (int32_t year = (int32_t)last_year - 1; year <= (int32_t)last_year + 1; year++) {
        int64_t candidate_s;
        if (minute_of(year, month, day, hour, minute, &candidate_s) != NULL)
            continue;
        if (wrong != NULL || distance(candidate_s, clock->last_s) < distance(*minute_s, clock->last_s))
            *minute_s = candidate_s;
        wrong = NULL;
    }
    return wrong;
}

/* ---- the minute, as the line before had it or anew ---- */

#define CLF_BYTES 17u
#define ISO_BYTES 16u
#define SYSLOG_BYTES 12u

static void remember_minute(struct cdl_access_clock *clock, const char *bytes, uint8_t length, int64_t minute_s)
{
    memcpy(clock->minute, bytes, length);
    clock->minute_length = length;
    clock->minute_s = minute_s;
}

/* Reads up to the minute and moves behind it. */
static const char *read_minute(struct cdl_access_clock *clock, struct cdl_slice *text, int64_t *minute_s)
{
    const char *bytes = text->bytes;
    const bool is_clf = text->length > CLF_BYTES && bytes[2] == '/';
    const bool is_iso = !is_clf && text->length > ISO_BYTES && cdl_access_is_digit(bytes[0]);
    const uint8_t length = is_clf ? CLF_BYTES : is_iso ? ISO_BYTES : SYSLOG_BYTES;
    if (text->length <= length)
        return not_a_time;
    *text = cdl_slice_from(*text, length);
    if ((is_clf && clock->minute_length == CLF_BYTES && memcmp(clock->minute, bytes, CLF_BYTES) == 0) ||
        (is_iso && clock->minute_length == ISO_BYTES && memcmp(clock->minute, bytes, ISO_BYTES) == 0)) {
        *minute_s = clock->minute_s;
        return NULL;
    }
    if (!is_clf && !is_iso)
        return read_syslog_minute(clock, bytes, minute_s); /* what it is depends on the line before */
    const char *wrong = is_clf ? read_clf_minute(bytes, minute_s) : read_iso_minute(bytes, minute_s);
    if (wrong == NULL)
        remember_minute(clock, bytes, length, *minute_s);
    return wrong;
}

/* ---- seconds, decimals, offset ---- */

/* Decimals at the front, up to nine of them; the resolution is what so many digits can tell, of s, ms, us and ns. */
static size_t read_decimals(struct cdl_slice text, int64_t *ns, int64_t *resolution_ns)
{
    int64_t unit = NS_PER_S;
    size_t length = 0;
    *ns = 0;
    for (; length < text.length && cdl_access_is_digit(text.bytes[length]); length++) {
        unit /= 10;
        *ns += unit * (text.bytes[length] - '0');
    }
    *resolution_ns = length == 0 ? NS_PER_S : length <= 3 ? 1000000 : length <= 6 ? 1000 : 1;
    return length;
}

/* ":03" or ":03.123"; a leap second is the first of the next minute. */
static bool read_second(struct cdl_slice *text, int64_t *second_s, int64_t *ns, int64_t *resolution_ns)
{
    int32_t second;
    if (text->length < 3 || text->bytes[0] != ':' || !two_digits(text->bytes + 1, &second) || second > 60)
        return false;
    *second_s = second;
    *text = cdl_slice_from(*text, 3);
    *ns = 0;
    *resolution_ns = NS_PER_S;
    if (text->length == 0 || (text->bytes[0] != '.' && text->bytes[0] != ','))
        return true;
    *text = cdl_slice_from(*text, 1);
    const size_t digits = read_decimals(*text, ns, resolution_ns);
    *text = cdl_slice_from(*text, digits);
    return digits > 0;
}

/* "+0200", "+02:00", "+02", "Z", "UTC", "GMT". */
static bool read_offset(struct cdl_slice text, int64_t *offset_s)
{
    int32_t hours, minutes = 0;
    *offset_s = 0;
    if (cdl_slice_equal_nocase(text, CDL_SLICE("z")) || cdl_slice_equal(text, CDL_SLICE("UTC")) ||
        cdl_slice_equal(text, CDL_SLICE("GMT")))
        return true;
    if (text.length < 3 || (text.bytes[0] != '+' && text.bytes[0] != '-') || !two_digits(text.bytes + 1, &hours))
        return false;
    const bool negative = text.bytes[0] == '-';
    text = cdl_slice_from(text, 3);
    if (text.length == 3 && text.bytes[0] == ':')
        text = cdl_slice_from(text, 1);
    if ((text.length != 0 && text.length != 2) || (text.length == 2 && !two_digits(text.bytes, &minutes)))
        return false;
    *offset_s = (negative ? -1 : 1) * (hours * INT64_C(3600) + minutes * INT64_C(60));
    return hours <= 23 && minutes <= 59;
}

/* What the clock of the settings' zone was ahead by when it showed this minute. If it showed it twice, the second time counts when the
 * first is so long before the last line that no request took that long. */
static int64_t zone_offset_s(struct cdl_access_clock *clock, int64_t minute_s)
{
    if (clock->has_zoned && clock->zoned_minute_s == minute_s)
        return clock->zoned_offset_s;
    const int64_t first_s = cdl_zone_instant_s(clock->zone, minute_s);
    const int64_t offset_s = minute_s - first_s;
    /* Nowhere was a clock set back by more than a day. */
    const int64_t second_s = minute_s - cdl_zone_offset_s(clock->zone, first_s + DAY_S);
    const bool is_twice = second_s > first_s && second_s + cdl_zone_offset_s(clock->zone, second_s) == minute_s;
    clock->has_zoned = !is_twice;
    clock->zoned_minute_s = minute_s;
    clock->zoned_offset_s = offset_s;
    if (is_twice && clock->has_last && first_s < clock->last_s - BACKWARDS_MAX_S)
        return minute_s - second_s;
    return offset_s;
}

static const char *read_date(struct cdl_access_clock *clock, struct cdl_slice text, struct cdl_access_stamp *stamp)
{
    int64_t minute_s, second_s, ns, offset_s;
    const char *wrong = read_minute(clock, &text, &minute_s);
    if (wrong != NULL)
        return wrong;
    if (!read_second(&text, &second_s, &ns, &stamp->resolution_ns))
        return not_a_time;
    text = cdl_slice_trim(text);
    if (text.length == 0 && clock->zone == NULL)
        return cdl_access_lacks_zone;
    if (text.length == 0)
        offset_s = zone_offset_s(clock, minute_s);
    else if (!read_offset(text, &offset_s))
        return "has an offset to UTC that is none";
    const int64_t instant_s = minute_s + second_s - offset_s;
    if (instant_s < 0)
        return out_of_range; /* east of Greenwich 1970 began in 1969 */
    clock->last_s = instant_s;
    clock->has_last = true;
    stamp->instant_ns = instant_s * NS_PER_S + ns;
    return NULL;
}

/* ---- numbers since 1970 ---- */

/* So many digits before the point are seconds until the year 5138, then milli-, micro- and nanoseconds. */
static int64_t epoch_unit_ns(size_t digits)
{
    return digits <= 11 ? NS_PER_S : digits <= 14 ? 1000000 : digits <= 17 ? 1000 : 1;
}

static const char *read_epoch(struct cdl_access_clock *clock, struct cdl_slice text, struct cdl_access_stamp *stamp)
{
    int64_t whole = 0, ns = 0;
    size_t digits = 0;
    for (; digits < text.length && cdl_access_is_digit(text.bytes[digits]); digits++)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, text.bytes[digits] - '0', &whole))
            return not_a_time;
    const int64_t unit_ns = epoch_unit_ns(digits);
    stamp->resolution_ns = unit_ns;
    text = cdl_slice_from(text, digits);
    if (text.length > 1 && text.bytes[0] == '.' &&
        read_decimals(cdl_slice_from(text, 1), &ns, &stamp->resolution_ns) == text.length - 1) {
        /* Decimals of something finer than a second tell nothing that a server could know. */
        if (unit_ns != NS_PER_S) {
            ns = 0;
            stamp->resolution_ns = unit_ns;
        }
    } else if (text.length > 0) {
        return not_a_time;
    }
    if (whole / (NS_PER_S / unit_ns) >= EPOCH_MAX_S)
        return out_of_range;
    stamp->instant_ns = whole * unit_ns + ns;
    clock->last_s = stamp->instant_ns / NS_PER_S;
    clock->has_last = true;
    return NULL;
}

const char *cdl_access_time_read(struct cdl_access_clock *clock, struct cdl_slice text, struct cdl_access_stamp *stamp)
{
    size_t digits = 0;
    while (digits < text.length && digits < 20 && cdl_access_is_digit(text.bytes[digits]))
        digits++;
    if (digits > 0 && (digits == text.length || text.bytes[digits] == '.'))
        return read_epoch(clock, text, stamp);
    return read_date(clock, text, stamp);
}
