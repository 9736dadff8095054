#include "base/zone.h"

#include <stdio.h>
#include <string.h>

#define DAY_S INT64_C(86400)
#define FAR_S (INT64_C(1) << 50) /* instants beyond are not looked at: some 35 million years */

/* ---- the calendar ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int32_t days_before_month(int64_t year, int32_t month)
{
    static const int32_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    return before[month - 1] + (month > 2 && is_leap(year));
}

static int32_t days_in_month(int64_t year, int32_t month)
{
    return month == 12 ? 31 : days_before_month(year, month + 1) - days_before_month(year, month);
}

int64_t cdl_days_of_date(int64_t year, int32_t month, int32_t day)
{
    const int64_t before = year - 1; /* leap days of the years before, counted from year 1 */
    const int64_t leap_days = floor_div(before, 4) - floor_div(before, 100) + floor_div(before, 400);
    return 365 * before + leap_days + days_before_month(year, month) + day - 1 - 719162; /* 0001-01-01 to 1970-01-01 */
}

void cdl_date_of_days(int64_t days, int64_t *year, int32_t *month, int32_t *day)
{
    /* 146,097 days are 400 years; the guess is right or one too large. */
    int64_t guess = 1970 + floor_div(days * 400, 146097);
    while (cdl_days_of_date(guess, 1, 1) > days)
        guess--;
    while (cdl_days_of_date(guess + 1, 1, 1) <= days)
        guess++;
    const int64_t of_year = days - cdl_days_of_date(guess, 1, 1);
    int32_t at = 12;
    while (days_before_month(guess, at) > of_year)
        at--;
    *year = guess;
    *month = at;
    *day = (int32_t)(of_year - days_before_month(guess, at)) + 1;
}

/* ---- the rule ---- */

static int64_t day_of_edge(const struct cdl_zone_edge *edge, int64_t year)
{
    const int64_t new_year = cdl_days_of_date(year, 1, 1);
    if (edge->kind == CDL_EDGE_DAY)
        return new_year + edge->day;
    if (edge->kind == CDL_EDGE_NO_LEAP_DAY)
        return new_year + edge->day - 1 + (is_leap(year) && edge->day > 59);
    const int64_t first = cdl_days_of_date(year, edge->month, 1);
    const int64_t weekday = (first + 4) - floor_div(first + 4, 7) * 7; /* 1970-01-01 was a Thursday */
    int64_t day = (edge->day - weekday + 7) % 7 + 7 * (edge->week - 1);
    while (day >= days_in_month(year, edge->month))
        day -= 7;
    return first + day;
}

static int64_t year_of(int64_t instant_s)
{
    int64_t year;
    int32_t month, day;
    cdl_date_of_days(floor_div(instant_s, DAY_S), &year, &month, &day);
    return year;
}

/* A change of the offset by the rule. */
struct change {
    int64_t at_s;
    int32_t offset_s;
};

static struct change change_of_year(const struct cdl_zone *zone, int64_t year, bool to_summer)
{
    const struct cdl_zone_edge *edge = to_summer ? &zone->summer_begins : &zone->summer_ends;
    const int32_t before_s = to_summer ? zone->standard_offset_s : zone->summer_offset_s;
    return (struct change){day_of_edge(edge, year) * DAY_S + edge->time_s - before_s,
                           to_summer ? zone->summer_offset_s : zone->standard_offset_s};
}

/* The last change at or before an instant, and the first after it, of three years' six. The times of edges reach over a week, so the
 * neighbouring years count. */
static void changes_around(const struct cdl_zone *zone, int64_t instant_s, struct change *last, struct change *next)
{
    const int64_t year = year_of(instant_s);
    *last = (struct change){INT64_MIN, zone->standard_offset_s};
    *next = (struct change){INT64_MAX, 0};
    for (int64_t i = 0; i < 6; i++) {
        const struct change change = change_of_year(zone, year - 1 + i / 2, i % 2 == 0);
        if (change.at_s <= instant_s && change.at_s >= last->at_s)
            *last = change;
        if (change.at_s > instant_s && change.at_s < next->at_s)
            *next = change;
    }
}

/* ---- offsets ---- */

/* How many entries of the list begin at or before an instant. */
static uint32_t find(const struct cdl_zone *zone, int64_t instant_s)
{
    uint32_t low = 0, high = zone->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (zone->since[middle] <= instant_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The offset at an instant, and until when it holds: INT64_MAX, for ever. */
static int32_t offset_until(const struct cdl_zone *zone, int64_t instant_s, int64_t *until_s)
{
    const uint32_t at = find(zone, instant_s);
    *until_s = at < zone->count ? zone->since[at] : INT64_MAX;
    if (at < zone->count || !zone->has_rule)
        return at == 0 ? zone->first_offset_s : zone->offsets_s[at - 1];
    if (!zone->has_summer)
        return zone->standard_offset_s;
    struct change last, next;
    changes_around(zone, instant_s, &last, &next);
    *until_s = next.at_s;
    return last.offset_s;
}

static int64_t bounded(int64_t seconds)
{
    return seconds > FAR_S ? FAR_S : seconds < -FAR_S ? -FAR_S : seconds;
}

int32_t cdl_zone_offset_s(const struct cdl_zone *zone, int64_t instant_s)
{
    int64_t until_s;
    return offset_until(zone, bounded(instant_s), &until_s);
}

int64_t cdl_zone_instant_s(const struct cdl_zone *zone, int64_t local_s)
{
    local_s = bounded(local_s);
    int64_t at_s = local_s - CDL_ZONE_OFFSET_MAX_S, until_s; /* the clock shows less then, whatever its offset */
    for (;;) {
        const int64_t wanted_s = local_s - offset_until(zone, at_s, &until_s);
        if (wanted_s <= at_s)
            return at_s; /* the clock was set forward over it */
        if (wanted_s < until_s)
            return wanted_s;
        at_s = until_s;
    }
}

/* ---- reading the rule: the text that a TZif file ends with, as POSIX writes TZ ---- */

struct text {
    const char *at, *end;
};

static bool take(struct text *text, char c)
{
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* An abbreviation, which nobody needs: letters, or anything in angle brackets. */
static bool skip_name(struct text *text)
{
    const char *begin = text->at;
    if (take(text, '<')) {
        while (text->at < text->end && *text->at != '>')
            text->at++;
        return take(text, '>');
    }
    while (text->at < text->end && is_letter(*text->at))
        text->at++;
    return text->at - begin >= 3;
}

static bool take_number(struct text *text, int32_t most, int32_t *number)
{
    int32_t sum = 0;
    const char *begin = text->at;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9' && text->at - begin < 4; text->at++)
        sum = 10 * sum + (*text->at - '0');
    *number = sum;
    return text->at > begin && sum <= most;
}

/* [+-]hh[:mm[:ss]] in seconds. */
static bool take_time(struct text *text, int32_t hours_most, int32_t *seconds)
{
    int32_t hours, minutes = 0, rest = 0;
    const bool negative = take(text, '-');
    if (!negative)
        take(text, '+');
    if (!take_number(text, hours_most, &hours))
        return false;
    if (take(text, ':') && (!take_number(text, 59, &minutes) || (take(text, ':') && !take_number(text, 59, &rest))))
        return false;
    *seconds = (negative ? -1 : 1) * (3600 * hours + 60 * minutes + rest);
    return true;
}

static bool take_edge(struct text *text, struct cdl_zone_edge *edge)
{
    *edge = (struct cdl_zone_edge){.kind = CDL_EDGE_DAY, .time_s = 2 * 3600};
    if (take(text, 'M')) {
        edge->kind = CDL_EDGE_WEEKDAY;
        if (!take_number(text, 12, &edge->month) || edge->month == 0 || !take(text, '.') ||
            !take_number(text, 5, &edge->week) || edge->week == 0 || !take(text, '.') ||
            !take_number(text, 6, &edge->day))
            return false;
    } else if (take(text, 'J')) {
        edge->kind = CDL_EDGE_NO_LEAP_DAY;
        if (!take_number(text, 365, &edge->day) || edge->day == 0)
            return false;
    } else if (!take_number(text, 365, &edge->day)) {
        return false;
    }
    return !take(text, '/') || take_time(text, 167, &edge->time_s);
}

/* In such a text what lies west of Greenwich is positive. */
static bool read_rule(struct cdl_slice bytes, struct cdl_zone *zone)
{
    struct text text = {bytes.bytes, bytes.bytes + bytes.length};
    int32_t west_s;
    if (!skip_name(&text) || !take_time(&text, 24, &west_s))
        return false;
    zone->has_rule = true;
    zone->standard_offset_s = -west_s;
    if (text.at == text.end)
        return true;
    if (!skip_name(&text))
        return false;
    zone->has_summer = true;
    zone->summer_offset_s = zone->standard_offset_s + 3600;
    if (text.at < text.end && *text.at != ',') {
        if (!take_time(&text, 24, &west_s))
            return false;
        zone->summer_offset_s = -west_s;
    }
    return take(&text, ',') && take_edge(&text, &zone->summer_begins) && take(&text, ',') &&
           take_edge(&text, &zone->summer_ends) && text.at == text.end;
}

/* ---- reading the file ---- */

#define HEADER_BYTES 44u
#define TYPE_BYTES 6u

struct header {
    char version;
    uint32_t utc_count, standard_count, leap_count, time_count, type_count, name_bytes;
};

static int64_t big_endian(const char *bytes, size_t length)
{
    uint64_t value = (bytes[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < length; i++)
        value = value << 8 | (unsigned char)bytes[i];
    return (int64_t)value;
}

static bool read_header(struct cdl_slice bytes, struct header *header)
{
    uint32_t *const counts[] = {&header->utc_count,  &header->standard_count, &header->leap_count,
                                &header->time_count, &header->type_count,     &header->name_bytes};
    if (bytes.length < HEADER_BYTES || memcmp(bytes.bytes, "TZif", 4) != 0)
        return false;
    header->version = bytes.bytes[4];
    for (size_t i = 0; i < 6; i++)
        *counts[i] = (uint32_t)big_endian(bytes.bytes + 20 + 4 * i, 4);
    return true;
}

/* The length of the data behind a header, whose instants have `size` bytes. */
static uint64_t data_bytes(const struct header *header, uint64_t size)
{
    return header->time_count * (size + 1) + header->type_count * UINT64_C(6) + header->name_bytes +
           header->leap_count * (size + 4) + header->standard_count + (uint64_t)header->utc_count;
}

static bool offset_of_type(const char *types, uint32_t type, const struct header *header, int32_t *offset_s)
{
    if (type >= header->type_count)
        return false;
    *offset_s = (int32_t)big_endian(types + (size_t)TYPE_BYTES * type, 4);
    return *offset_s > -CDL_ZONE_OFFSET_MAX_S && *offset_s < CDL_ZONE_OFFSET_MAX_S;
}

static bool read_lists(const char *data, const struct header *header, struct cdl_arena *arena, struct cdl_zone *zone,
                       const char **why)
{
    const char *indexes = data + (size_t)8 * header->time_count, *types = indexes + header->time_count;
    int64_t *since = cdl_arena_allocate(arena, header->time_count + 1u, sizeof *since);
    int32_t *offsets = cdl_arena_allocate(arena, header->time_count + 1u, sizeof *offsets);
    if (since == NULL || offsets == NULL) {
        *why = "cannot be read: memory is short";
        return false;
    }
    *why = "is damaged: its lists do not agree";
    if (!offset_of_type(types, 0, header, &zone->first_offset_s))
        return false;
    for (uint32_t i = 0; i < header->time_count; i++) {
        since[i] = bounded(big_endian(data + (size_t)8 * i, 8));
        if ((i > 0 && since[i] < since[i - 1]) ||
            !offset_of_type(types, (unsigned char)indexes[i], header, &offsets[i]))
            return false;
    }
    zone->since = since;
    zone->offsets_s = offsets;
    zone->count = header->time_count;
    return true;
}

bool cdl_zone_read(struct cdl_slice bytes, struct cdl_arena *arena, struct cdl_zone *zone, const char **why)
{
    struct header header;
    *zone = (struct cdl_zone){.count = 0};
    *why = "is no time zone file";
    if (!read_header(bytes, &header))
        return false;
    *why = "is a time zone file of the first version, which cannot say enough";
    if (header.version < '2')
        return false;
    /* The same in 32 bits comes first, for old readers. */
    *why = "is cut off";
    if (data_bytes(&header, 4) > bytes.length - HEADER_BYTES)
        return false;
    bytes = cdl_slice_from(bytes, HEADER_BYTES + (size_t)data_bytes(&header, 4));
    if (!read_header(bytes, &header) || data_bytes(&header, 8) > bytes.length - HEADER_BYTES)
        return false;
    const char *data = bytes.bytes + HEADER_BYTES;
    bytes = cdl_slice_from(bytes, HEADER_BYTES + (size_t)data_bytes(&header, 8));
    if (bytes.length < 2 || bytes.bytes[0] != '\n' || bytes.bytes[bytes.length - 1] != '\n')
        return false;
    if (!read_lists(data, &header, arena, zone, why))
        return false;
    *why = "ends in a rule that makes no sense";
    const struct cdl_slice rule = {bytes.bytes + 1, bytes.length - 2};
    return rule.length == 0 || read_rule(rule, zone);
}

/* ---- by name ---- */

#define ZONES "/usr/share/zoneinfo/"
#define FILE_BYTES_MAX 65536 /* the longest there is has four thousand */

/* No way out of the folder. */
static bool is_name(const char *name)
{
    if (name[0] == '\0' || name[0] == '/' || strlen(name) > 100 || strstr(name, "..") != NULL)
        return false;
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/.")] == '\0';
}

bool cdl_zone_load(const char *name, struct cdl_arena *arena, struct cdl_zone *zone, const char **why)
{
    char path[sizeof ZONES + 100];
    *zone = (struct cdl_zone){.count = 0};
    if (strcmp(name, "UTC") == 0)
        return true;
    *why = "is no name of a time zone, such as Europe/Berlin";
    if (!is_name(name))
        return false;
    snprintf(path, sizeof path, ZONES "%s", name);
    *why = "is not among the system's time zones (" ZONES "; package tzdata)";
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char bytes[FILE_BYTES_MAX];
    const size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return cdl_zone_read((struct cdl_slice){bytes, length}, arena, zone, why);
}
