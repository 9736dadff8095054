#include "wire/http1_response.h"

static const struct {
    unsigned status;
    const char *phrase;
} phrases[] = {
    /* The most frequent first. */
    {200, "OK"},
    {429, "Too Many Requests"},
    {403, "Forbidden"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *cdl_http_status_phrase(unsigned status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    static const char *const classes[] = {"Status",      "Informational", "Success",
                                          "Redirection", "Client Error",  "Server Error"};
    return classes[status / 100 < 6 ? status / 100 : 0];
}

/* ---- fields ---- */

static void write_field(struct cdl_writer *writer, struct cdl_slice name, struct cdl_slice value)
{
    cdl_write(writer, name);
    cdl_write(writer, CDL_SLICE(": "));
    cdl_write(writer, value);
    cdl_write(writer, CDL_SLICE("\r\n"));
}

static size_t harmless_length(struct cdl_slice text)
{
    size_t i = 0;
    while (i < text.length && text.bytes[i] != '\r' && text.bytes[i] != '\n' && text.bytes[i] != '\0')
        i++;
    return i;
}

static void write_harmless(struct cdl_writer *writer, struct cdl_slice text)
{
    for (;;) {
        const size_t length = harmless_length(text);
        cdl_write(writer, cdl_slice_head(text, length));
        if (length == text.length)
            return;
        cdl_write(writer, CDL_SLICE(" "));
        text = cdl_slice_from(text, length + 1);
    }
}

static void write_fields(struct cdl_writer *writer, const struct cdl_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        write_harmless(writer, fields[i].name);
        cdl_write(writer, CDL_SLICE(": "));
        write_harmless(writer, fields[i].value);
        cdl_write(writer, CDL_SLICE("\r\n"));
    }
}

/* RFC 9110, 8.6: these have no body, and no length of one. */
static bool has_length(unsigned status)
{
    return status >= 200 && status != 204 && status != 304;
}

static void write_connection(struct cdl_writer *writer, const struct cdl_http1_response *response)
{
    if (!response->keep_alive)
        cdl_write(writer, CDL_SLICE("Connection: close\r\n"));
    else if (response->minor_version == 0)
        cdl_write(writer, CDL_SLICE("Connection: keep-alive\r\n"));
}

static void write_head(struct cdl_writer *writer, const struct cdl_http1_response *response)
{
    cdl_write(writer, CDL_SLICE("HTTP/1.1 "));
    cdl_write_u64(writer, response->status);
    cdl_write(writer, CDL_SLICE(" "));
    cdl_write_text(writer, cdl_http_status_phrase(response->status));
    cdl_write(writer, CDL_SLICE("\r\n"));
    if (response->date.length > 0)
        write_field(writer, CDL_SLICE("Date"), response->date);
    write_connection(writer, response);
    if (has_length(response->status)) {
        cdl_write(writer, CDL_SLICE("Content-Length: "));
        cdl_write_u64(writer, response->body.length);
        cdl_write(writer, CDL_SLICE("\r\n"));
    }
    if (response->content_type.length > 0)
        write_field(writer, CDL_SLICE("Content-Type"), response->content_type);
    cdl_write(writer, response->lines);
    write_fields(writer, response->fields, response->field_count);
    cdl_write(writer, CDL_SLICE("\r\n"));
}

bool cdl_http1_respond(struct cdl_writer *writer, const struct cdl_http1_response *response)
{
    if (writer->overflow)
        return false;
    const size_t before = writer->length;
    write_head(writer, response);
    if (has_length(response->status) && !response->without_body)
        cdl_write(writer, response->body);
    if (!writer->overflow)
        return true;
    writer->length = before;
    writer->overflow = false;
    return false;
}

/* ---- the date ---- */

struct civil {
    unsigned year, month, day; /* month and day from 1 */
};

#define DAYS_PER_ERA 146097 /* 400 years, after which the calendar repeats itself */

/* Days are counted from 1 March 0000, so that a leap day is the last of its year. (H. Hinnant, "chrono-compatible low-level date
 * algorithms", 2013.) */
static struct civil civil_from_days(int64_t days_since_1970)
{
    const unsigned days = (unsigned)(days_since_1970 + 719468);
    const unsigned era = days / DAYS_PER_ERA;
    const unsigned of_era = days % DAYS_PER_ERA;
    const unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
    const unsigned month = (5 * of_year + 2) / 153; /* from March */
    const unsigned day = of_year - (153 * month + 2) / 5 + 1;
    return (struct civil){era * 400 + year + (month >= 10), month < 10 ? month + 3 : month - 9, day};
}

#define LAST_SECOND INT64_C(253402300799) /* the end of 9999 */

static void two_digits(char *at, unsigned number)
{
    at[0] = (char)('0' + number / 10 % 10);
    at[1] = (char)('0' + number % 10);
}

void cdl_http_date(int64_t unix_seconds, char text[CDL_HTTP_DATE_LENGTH])
{
    static const char weekdays[][4] = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"}; /* as from 1 January 1970 */
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const struct cdl_slice shape = CDL_SLICE("Www, DD Mmm YYYY hh:mm:ss GMT");
    const int64_t second = unix_seconds < 0 ? 0 : unix_seconds > LAST_SECOND ? LAST_SECOND : unix_seconds;
    const unsigned of_day = (unsigned)(second % 86400);
    const int64_t day = second / 86400;
    const struct civil civil = civil_from_days(day);
    memcpy(text, shape.bytes, shape.length);
    memcpy(text, weekdays[day % 7], 3);
    two_digits(text + 5, civil.day);
    memcpy(text + 8, months[civil.month - 1], 3);
    two_digits(text + 12, civil.year / 100);
    two_digits(text + 14, civil.year);
    two_digits(text + 17, of_day / 3600);
    two_digits(text + 20, of_day / 60 % 60);
    two_digits(text + 23, of_day % 60);
}
