/* Formats of access logs: which are made and which are refused, how one is told from another, what a time means, and that nothing
 * that a line may hold does harm. What whole logs are read as, test_access_log_golden.c tells. */
#include <stdio.h>
#include <stdlib.h>

#include "../support.h"
#include "wire/access_log_parts.h"

static struct cdl_arena arena;
static char scratch_bytes[CDL_ACCESS_SCRATCH_BYTES];
static struct cdl_access_format format;
static struct cdl_access_parser parser;
static struct cdl_access_record record;
static struct cdl_access_why why;
static struct caudal_problem problem;

static int setup(void **state)
{
    (void)state;
    cdl_arena_init(&arena, NULL);
    problem = (struct caudal_problem){.code = CAUDAL_OK};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cdl_arena_free(&arena);
    return 0;
}

static int make(const struct cdl_access_settings *settings)
{
    const int status = cdl_access_format_make(settings, &arena, &format, &problem);
    if (status == CAUDAL_OK)
        cdl_access_parser_init(&parser, &format);
    return status;
}

static void make_named(const char *name)
{
    assert_int_equal(make(&(struct cdl_access_settings){.name = cdl_slice_of(name)}), CAUDAL_OK);
}

static enum cdl_access_result read_slice(struct cdl_slice line)
{
    struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
    return cdl_access_parse(&parser, line, &scratch, &record, &why);
}

static enum cdl_access_result read_line(const char *line)
{
    return read_slice(cdl_slice_of(line));
}

static void assert_slice(struct cdl_slice slice, const char *text)
{
    if (!cdl_slice_equal(slice, cdl_slice_of(text)))
        fail_msg("\"%.*s\" is not \"%s\"", CDL_SLICE_ARG(slice), text);
}

static void assert_why(const char *words)
{
    char bytes[256];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
    cdl_access_why_write(&writer, &why);
    assert_slice(cdl_written(&writer), words);
}

/* ---- making ---- */

static void settings_that_make_no_sense_are_refused(void **state)
{
    (void)state;
#define TEXT(literal)                                                                                                  \
    {                                                                                                                  \
        literal, sizeof(literal) - 1                                                                                   \
    }
    static const struct {
        struct cdl_access_settings settings;
        size_t position;
        const char *message;
    } cases[] = {
        {{.name = TEXT("combine")}, 0, "\"combine\" is no format of logs; did you mean \"combined\"?"},
        {{.name = TEXT("w3c")},
         0,
         "\"w3c\" is no format of logs; known are combined, common, haproxy, envoy, istio, caddy, traefik, envoy-json, "
         "json and csv"},
        {{.pattern = TEXT("$remote_addr $request")},
         0,
         "the log format has no time, such as $time_local, $time_iso8601 or $msec"},
        {{.pattern = TEXT("$msec $status")},
         0,
         "the log format has neither a client, such as $remote_addr, nor a request"},
        {{.pattern = TEXT("$msec $remote_addr$status")},
         6,
         "the log format has nothing behind $remote_addr that would tell where it ends"},
        {{.pattern = TEXT("$msec $ $remote_addr")}, 6, "the log format has a '$' without a name"},
        {{.pattern = TEXT("$msec ${remote_addr")}, 6, "the log format has a '$' without a name"},
        {{.name = TEXT("json"), .fields = TEXT("time")},
         0,
         "\"time\" is no field and where it is found, such as time=at"},
        {{.name = TEXT("json"), .fields = TEXT("time=")},
         0,
         "\"time=\" is no field and where it is found, such as time=at"},
        {{.name = TEXT("json"), .fields = TEXT("time=at,clint=ip")},
         0,
         "\"clint\" is no field of a request; did you mean \"client\"?"},
        {{.name = TEXT("csv"), .fields = TEXT("zzzzzzzzz=ip")},
         0,
         "\"zzzzzzzzz\" is no field of a request; header:NAME is a header"},
        {{.name = TEXT("json"), .fields = TEXT("headers=request.headers")},
         0,
         "\"request.headers\" must end in '*': it stands for many headers"},
        {{.name = TEXT("json"), .fields = TEXT("time=a.b.c.d.e.f.g.h.i")},
         0,
         "\"a.b.c.d.e.f.g.h.i\" has more steps than 8"},
        {{.name = TEXT("combined"), .fields = TEXT("time=at")},
         0,
         "fields are for logs in JSON and CSV, and this is neither"},
        {{.name = TEXT("combined"), .captures = TEXT("host")}, 0, "captures are for HAProxy's logs, and this is none"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(make(&cases[i].settings), CAUDAL_ERR_SYNTAX);
        assert_string_equal(problem.message, cases[i].message);
        assert_int_equal(problem.position, cases[i].position);
    }
}

static void a_pattern_has_at_most_64_variables(void **state)
{
    (void)state;
    char text[1024] = "$msec $remote_addr";
    for (int i = 2; i < 64; i++)
        strcat(text, " $x");
    assert_int_equal(make(&(struct cdl_access_settings){.pattern = cdl_slice_of(text)}), CAUDAL_OK);
    strcat(text, " $x");
    assert_int_equal(make(&(struct cdl_access_settings){.pattern = cdl_slice_of(text)}), CAUDAL_ERR_SYNTAX);
    assert_string_equal(problem.message, "the log format has more than 64 variables");
}

static void memory_that_is_short_is_told(void **state)
{
    (void)state;
    static const char *const names[] = {"json", "caddy", "csv", "haproxy", "envoy"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct cdl_access_settings settings = {.name = cdl_slice_of(names[i])};
        int status = CAUDAL_ERR_MEMORY;
        for (long fail_at = 0; status == CAUDAL_ERR_MEMORY; fail_at++) {
            struct counting_allocator counting;
            counting_allocator_init(&counting);
            counting.fail_at = fail_at;
            struct cdl_arena short_arena;
            cdl_arena_init(&short_arena, &counting.allocator);
            status = cdl_access_format_make(&settings, &short_arena, &format, &problem);
            assert_true(fail_at > 0 || status == CAUDAL_ERR_MEMORY);
            cdl_arena_free(&short_arena);
            assert_int_equal(counting.live_blocks, 0);
        }
        assert_int_equal(status, CAUDAL_OK);
    }
}

/* ---- fields that the settings name ---- */

static void fields_are_found_where_the_settings_say(void **state)
{
    (void)state;
    assert_int_equal(make(&(struct cdl_access_settings){
                         .name = CDL_SLICE("json"),
                         .fields = CDL_SLICE("time=at, client=peer.ip,target=a\\.b.url,header:X-Tenant=tenant,"
                                             "headers=h.in_*,duration_us=us")}),
                     CAUDAL_OK);
    assert_int_equal(
        read_line("{\"timestamp\":\"2024-02-14T08:10:01.5Z\",\"at\":1707898202,\"client\":\"192.0.2.1\","
                  "\"peer\":{\"ip\":\"203.0.113.7\"},\"a.b\":{\"url\":\"/x\"},\"url\":\"/y\","
                  "\"tenant\":\"acme\",\"h\":{\"in_Accept\":[\"a\",\"b\"],\"out_Server\":\"s\"},\"us\":12.5}"),
        CDL_ACCESS_READ);
    assert_int_equal(record.instant_ns, INT64_C(1707898202) * SECOND);
    assert_int_equal(record.resolution_ns, SECOND);
    assert_int_equal(record.duration_ns, 12500);
    assert_slice(record.client, "203.0.113.7");
    assert_slice(record.target, "/x");
    assert_int_equal(record.header_count, 2);
    assert_slice(cdl_access_header(&record, CDL_SLICE("x-tenant")), "acme");
    assert_slice(cdl_access_header(&record, CDL_SLICE("ACCEPT")), "a, b");
}

static void of_usual_names_the_first_of_the_list_counts(void **state)
{
    (void)state;
    make_named("json");
    assert_int_equal(
        read_line("{\"server_name\":\"_\",\"host\":\"www\",\"uri\":\"/rewritten\",\"request_uri\":\"/asked\","
                  "\"ip\":\"192.0.2.1\",\"remote_addr\":\"192.0.2.2\",\"msec\":\"1707898202.000\"}"),
        CDL_ACCESS_READ);
    assert_slice(record.host, "www");
    assert_slice(record.target, "/asked");
    assert_slice(record.client, "192.0.2.2");
    make_named("csv");
    assert_int_equal(read_line("server_name,host,uri,request_uri,ip,remote_addr,msec"), CDL_ACCESS_HEADING);
    assert_int_equal(read_line("_,www,/rewritten,/asked,192.0.2.1,192.0.2.2,1707898202.000"), CDL_ACCESS_READ);
    assert_slice(record.host, "www");
    assert_slice(record.target, "/asked");
    assert_slice(record.client, "192.0.2.2");
}

static void columns_are_found_where_the_settings_say(void **state)
{
    (void)state;
    assert_int_equal(make(&(struct cdl_access_settings){.name = CDL_SLICE("csv"),
                                                        .fields = CDL_SLICE("client=peer,header:x-tenant=tenant")}),
                     CAUDAL_OK);
    assert_int_equal(read_line("time;client;peer;tenant;path"), CDL_ACCESS_HEADING);
    assert_int_equal(read_line("1707898202;192.0.2.1;203.0.113.7;acme;\"/a;\"\"b\"\"\""), CDL_ACCESS_READ);
    assert_slice(record.client, "203.0.113.7");
    assert_slice(record.target, "/a;\"b\"");
    assert_slice(cdl_access_header(&record, CDL_SLICE("x-tenant")), "acme");
}

static void a_heading_must_name_what_makes_a_request(void **state)
{
    (void)state;
    make_named("csv");
    assert_int_equal(read_line("client,path"), CDL_ACCESS_SKIPPED);
    assert_why("column 1: the heading names no column for the time");
    assert_int_equal(read_line("time,status"), CDL_ACCESS_SKIPPED);
    assert_why("column 1: the heading names no column for the client, nor for a request");
    /* What has been skipped was no heading: the next line may be. */
    assert_int_equal(read_line("time,client"), CDL_ACCESS_HEADING);
    assert_int_equal(read_line("time,client"), CDL_ACCESS_SKIPPED);
    assert_why("column 1: the time has no shape that is known");
}

/* ---- times ---- */

struct timed {
    const char *text;
    int64_t second_s;
    int64_t ns, resolution_ns;
};

static const char *read_time(struct cdl_access_clock *clock, const char *text, struct cdl_access_stamp *stamp)
{
    return cdl_access_time_read(clock, cdl_slice_of(text), stamp);
}

static void times_of_every_spelling(void **state)
{
    (void)state;
    static const struct timed times[] = {
        {"17/May/2015:10:05:03 +0000", 1431857103, 0, SECOND},
        {"17/May/2015:12:05:03 +0200", 1431857103, 0, SECOND},
        {"17/May/2015:02:35:03.25 -0730", 1431857103, 250000000, MILLISECOND},
        {"2015-05-17T10:05:03Z", 1431857103, 0, SECOND},
        {"2015-05-17T10:05:03.123456+00:00", 1431857103, 123456000, MICROSECOND},
        {"2015-05-17t10:05:03,123z", 1431857103, 123000000, MILLISECOND},
        {"2015-05-17 10:05:03 UTC", 1431857103, 0, SECOND},
        {"2015/05/17 12:05:03 +02", 1431857103, 0, SECOND},
        {"2015-05-17T10:05:03.123456789123Z", 1431857103, 123456789, 1},
        {"1431857103", 1431857103, 0, SECOND},
        {"1431857103.5", 1431857103, 500000000, MILLISECOND},
        {"1431857103.1234567", 1431857103, 123456700, 1},
        {"1431857103250", 1431857103, 250000000, MILLISECOND},
        {"1431857103250.25", 1431857103, 250000000, MILLISECOND},
        {"1431857103250001", 1431857103, 250001000, MICROSECOND},
        {"1431857103250000001", 1431857103, 250000001, 1},
        {"29/Feb/2016:00:00:00 +0000", 1456704000, 0, SECOND},
        {"31/Dec/2016:23:59:60 +0000", 1483228800, 0, SECOND},
        {"01/Jan/1970:00:00:00 +0000", 0, 0, SECOND},
        {"31/Dec/2261:23:59:59 +0000", 9214646399, 0, SECOND},
    };
    struct cdl_access_clock clock = {.zone = NULL};
    /* Twice: the second time out of what was remembered of another one. */
    for (size_t i = 0; i < 2 * COUNT_OF(times); i++) {
        const struct timed *time = &times[i % COUNT_OF(times)];
        struct cdl_access_stamp stamp = {0, 0};
        const char *wrong = read_time(&clock, time->text, &stamp);
        if (wrong != NULL || stamp.instant_ns != time->second_s * SECOND + time->ns ||
            stamp.resolution_ns != time->resolution_ns)
            fail_msg("%s: %lld (%lld) %s", time->text, (long long)stamp.instant_ns, (long long)stamp.resolution_ns,
                     wrong != NULL ? wrong : "");
    }
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const shape = "has no shape that is known";
    static const struct {
        const char *text, *wrong;
    } times[] = {
        {"", NULL},
        {"x", NULL},
        {"17/May/2015", NULL},
        {"17/May/2015:10:05", NULL},
        {"17/may/2015:10:05:03 +0000", NULL},
        {"17-May-2015:10:05:03 +0000", NULL},
        {"1 /May/2015:10:05:03 +0000", NULL},
        {"17/May/2015:10:05:0x +0000", NULL},
        {"17/May/2015:10:05:61 +0000", NULL},
        {"17/May/2015:10:05:03. +0000", NULL},
        {"17/May/2015:10:05:03 0000", "has an offset to UTC that is none"},
        {"17/May/2015:10:05:03 +2400", "has an offset to UTC that is none"},
        {"17/May/2015:10:05:03 +0060", "has an offset to UTC that is none"},
        {"17/May/2015:10:05:03 CEST", "has an offset to UTC that is none"},
        {"17/May/2015:24:05:03 +0000", "has a time of day that no clock shows"},
        {"17/May/2015:10:60:03 +0000", "has a time of day that no clock shows"},
        {"00/May/2015:10:05:03 +0000", "has a date that no calendar has"},
        {"29/Feb/2015:10:05:03 +0000", "has a date that no calendar has"},
        {"2015-13-01T10:05:03Z", "has a date that no calendar has"},
        {"17/May/1969:10:05:03 +0000", "is not between the years 1970 and 2261"},
        {"01/Jan/1970:00:59:59 +0100", "is not between the years 1970 and 2261"},
        {"17/May/2262:10:05:03 +0000", "is not between the years 1970 and 2261"},
        {"99999999999", "is not between the years 1970 and 2261"},
        {"9214646400000000000", "is not between the years 1970 and 2261"},
        {"99999999999999999999", NULL},
        {"1431857103.", NULL},
        {"1431857103.5x", NULL},
        {"1.4e9", NULL},
        {"17/May/2015:10:05:03", cdl_access_lacks_zone},
        {"May 17 10:05:03", cdl_access_lacks_year},
    };
    struct cdl_access_clock clock = {.zone = NULL};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        struct cdl_access_stamp stamp;
        const char *wrong = read_time(&clock, times[i].text, &stamp);
        if (wrong == NULL || strcmp(wrong, times[i].wrong != NULL ? times[i].wrong : shape) != 0)
            fail_msg("%s: %s", times[i].text, wrong != NULL ? wrong : "is read");
    }
}

/* C108: an hour that the clocks show twice, without offsets, in a zone. */
static void the_repeated_hour_goes_on(void **state)
{
    (void)state;
    struct cdl_zone berlin;
    const char *wrong;
    assert_true(cdl_zone_load("Europe/Berlin", &arena, &berlin, &wrong));
    static const struct timed times[] = {
        {"25/Oct/2015:01:59:59.000", 1445731199, 0, MILLISECOND}, {"25/Oct/2015:02:00:01", 1445731201, 0, SECOND},
        {"25/Oct/2015:02:30:00", 1445733000, 0, SECOND},          {"25/Oct/2015:02:59:59", 1445734799, 0, SECOND},
        {"25/Oct/2015:02:00:01", 1445734801, 0, SECOND},          {"25/Oct/2015:02:00:00", 1445734800, 0, SECOND},
        {"25/Oct/2015:02:29:00", 1445736540, 0, SECOND},          {"25/Oct/2015:02:59:59", 1445738399, 0, SECOND},
        {"25/Oct/2015:03:00:00", 1445738400, 0, SECOND},          {"29/Mar/2015:01:59:59", 1427590799, 0, SECOND},
        {"29/Mar/2015:03:00:00", 1427590800, 0, SECOND},
    };
    struct cdl_access_clock clock = {.zone = &berlin};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        struct cdl_access_stamp stamp;
        assert_null(read_time(&clock, times[i].text, &stamp));
        assert_int_equal(stamp.instant_ns, times[i].second_s * SECOND);
    }
}

/* A year's instants in order, as clocks on the wall show them, are had back, those of hours that are shown twice included. */
static void a_year_of_local_times_is_had_back(void **state)
{
    (void)state;
    static const char *const names[] = {"Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct cdl_zone zone;
        const char *wrong;
        assert_true(cdl_zone_load(names[i], &arena, &zone, &wrong));
        struct cdl_access_clock clock = {.zone = &zone};
        for (int64_t at_s = 1420070400; at_s < 1451606400; at_s += 17 * 60) {
            const int64_t local_s = at_s + cdl_zone_offset_s(&zone, at_s);
            int64_t year;
            int32_t month, day;
            char text[64];
            struct cdl_access_stamp stamp;
            cdl_date_of_days(local_s / 86400, &year, &month, &day);
            snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d:%02d", (int)year, month, day,
                     (int)(local_s / 3600 % 24), (int)(local_s / 60 % 60), (int)(local_s % 60));
            assert_null(read_time(&clock, text, &stamp));
            if (stamp.instant_ns != at_s * SECOND)
                fail_msg("%s in %s is %lld, not %lld", text, names[i], (long long)(stamp.instant_ns / SECOND),
                         (long long)at_s);
        }
    }
}

static void a_year_that_is_lacking_goes_on_at_new_year(void **state)
{
    (void)state;
    struct cdl_zone utc;
    const char *wrong;
    assert_true(cdl_zone_load("UTC", &arena, &utc, &wrong));
    static const struct timed times[] = {
        {"Dec 31 23:59:59", 1735689599, 0, SECOND},
        {"Jan  1 00:00:00", 1735689600, 0, SECOND},
        {"Dec 31 23:59:58", 1735689598, 0, SECOND},
        {"Jan  1 00:00:01", 1735689601, 0, SECOND},
        {"Jun 30 12:00:00", 1751284800, 0, SECOND},
        {"Dec 20 00:00:00", 1766188800, 0, SECOND}, /* one that is far off */
        {"Jun 30 12:00:01", 1751284801, 0, SECOND},
        {"Oct  2 00:00:00", 1759363200, 0, SECOND},
        {"Jan  2 00:00:00", 1767312000, 0, SECOND},
    };
    struct cdl_access_clock clock = {.zone = &utc, .year = 2024};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        struct cdl_access_stamp stamp;
        assert_null(read_time(&clock, times[i].text, &stamp));
        assert_int_equal(stamp.instant_ns, times[i].second_s * SECOND);
    }
}

static void an_arrival_is_the_end_less_what_it_took(void **state)
{
    (void)state;
    static const char line[] = "1707898202.500 203.0.113.7 1.250";
    const struct cdl_slice pattern = CDL_SLICE("$msec $remote_addr $request_time");
    assert_int_equal(make(&(struct cdl_access_settings){.pattern = pattern}), CAUDAL_OK);
    assert_int_equal(read_line(line), CDL_ACCESS_READ);
    assert_int_equal(record.instant_ns, INT64_C(1707898202500) * MILLISECOND);
    assert_int_equal(make(&(struct cdl_access_settings){.pattern = pattern, .at_arrival = true}), CAUDAL_OK);
    assert_int_equal(read_line(line), CDL_ACCESS_READ);
    assert_int_equal(record.instant_ns, INT64_C(1707898201250) * MILLISECOND);
    assert_int_equal(read_line("1.000 203.0.113.7 1.000"), CDL_ACCESS_READ);
    assert_int_equal(record.instant_ns, 0);
    assert_int_equal(read_line("1.000 203.0.113.7 1.001"), CDL_ACCESS_SKIPPED);
    assert_why("column 24: the request time goes back beyond 1970");
    /* Envoy tells when requests begin. */
    assert_int_equal(make(&(struct cdl_access_settings){.name = CDL_SLICE("envoy-json"), .at_arrival = true}),
                     CAUDAL_OK);
    assert_int_equal(read_line("{\"start_time\":\"2024-02-14T08:10:02Z\",\"path\":\"/\",\"duration\":1250}"),
                     CDL_ACCESS_READ);
    assert_int_equal(record.duration_ns, 1250 * MILLISECOND);
    assert_int_equal(record.instant_ns, INT64_C(1707898202) * SECOND);
}

/* ---- numbers ---- */

static void decimals_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns; /* -1: refused */
    } cases[] = {
        {"0", 0},
        {"0.000", 0},
        {"0.123", 123000000},
        {"12", 12000000000},
        {".5", 500000000},
        {"5.", 5000000000},
        {"5e-05", 50000},
        {"1.5E+2", 150000000000},
        {"0.0000000019", 1},
        {"0.00000000000000000000000000001", 0},
        {"9223372036.854775807", INT64_MAX},
        {"9223372036.854775808", -1},
        {"123456789012345678901234567890", -1},
        {"1e99", -1},
        {"1e100", -1},
        {"0e99", 0},
        {"", -1},
        {".", -1},
        {"1.2.3", -1},
        {"1e", -1},
        {"1e+", -1},
        {"-1", -1},
        {"0x10", -1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t ns = -1;
        const bool is_read = cdl_access_decimal(cdl_slice_of(cases[i].text), SECOND, &ns);
        if (is_read != (cases[i].ns >= 0) || (is_read && ns != cases[i].ns))
            fail_msg("%s: %lld", cases[i].text, (long long)ns);
    }
}

static void durations_may_say_their_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns; /* -1: unknown; -2: the line is skipped */
    } cases[] = {
        {"0.25", 250000000},
        {"\"0.25\"", 250000000},
        {"\"12ms\"", 12000000},
        {"\"1.5s\"", 1500000000},
        {"\"1m2.5s\"", 62500000000},
        {"\"1h0m0s\"", 3600000000000},
        {"\"850\xc2\xb5s\"", 850000},
        {"\"850\xce\xbcs\"", 850000},
        {"\"7us\"", 7000},
        {"\"9ns\"", 9},
        {"null", -1},
        {"\"-\"", -1},
        {"-1", -1},
        {"-0.5", -2},
        {"\"12 ms\"", -2},
        {"\"ms\"", -2},
        {"\"1m2\"", -2},
        {"\"3000000h\"", -2},
        {"\"2000000h2000000h\"", -2},
    };
    make_named("json");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char line[128];
        snprintf(line, sizeof line, "{\"time\":1707898201,\"path\":\"/\",\"duration\":%s}", cases[i].text);
        const bool is_read = read_line(line) == CDL_ACCESS_READ;
        if (is_read != (cases[i].ns >= -1) || (is_read && record.duration_ns != cases[i].ns))
            fail_msg("%s: %lld", cases[i].text, (long long)record.duration_ns);
    }
}

static void addresses_are_told_from_names_and_times(void **state)
{
    (void)state;
    static const char *const addresses[] = {
        "203.0.113.7",
        "203.0.113.7:4711",
        "::1",
        "2001:db8::7",
        "[2001:db8::7]:443",
        "1:2:3:4:5:6:7:8",
        "fe80::1%eth0",
        "::ffff:1.2.3.4",
        "203.0.113.7, 10.0.0.2",
        "2001:0db8:00ff:f00f:0000:0000:0000:8000",
    };
    static const char *const others[] = {
        "",
        "-",
        "localhost",
        "12:14:14",
        "17:05",
        "1.2.3",
        "1.2.3.4.5",
        "1234.1.1.1",
        "www.example.com:443",
        "cafe",
        "1431857103.250",
        "nginx:",
        "1.2.3.4:http",
        "example.com, 1.2.3.4",
    };
    for (size_t i = 0; i < COUNT_OF(addresses); i++)
        if (!cdl_access_looks_like_address(cdl_slice_of(addresses[i])))
            fail_msg("%s is an address", addresses[i]);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (cdl_access_looks_like_address(cdl_slice_of(others[i])))
            fail_msg("%s is no address", others[i]);
}

static void escapes_are_undone(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"\\x22\\x41", "\"A"},
        {"a\\\"b\\\\c\\/d", "a\"b\\c/d"},
        {"\\n\\t\\b", "\n\t\b"},
        {"\\u00e9\\u20AC\\ud83d\\ude00", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\\ud83d", "\xef\xbf\xbd"},
        {"\\ude00x", "\xef\xbf\xbdx"},
        {"\\ud83d\\u0041", "\xef\xbf\xbd\x41"},
        {"\\q\\xg1\\u12", "\\q\\xg1\\u12"},
        {"end\\", "end\\"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
        struct cdl_access_reading reading = {.scratch = &scratch, .why = &why};
        struct cdl_slice value;
        assert_true(cdl_access_unescape(&reading, cdl_slice_of(cases[i][0]), &value));
        assert_slice(value, cases[i][1]);
    }
}

/* ---- telling formats apart ---- */

static int detect(const struct cdl_access_settings *settings, const char *const *lines, size_t count,
                  struct cdl_access_detection *detection)
{
    struct cdl_writer scratch = cdl_writer_on(scratch_bytes, sizeof scratch_bytes);
    struct cdl_slice slices[200];
    assert_true(count <= COUNT_OF(slices));
    for (size_t i = 0; i < count; i++)
        slices[i] = cdl_slice_of(lines[i]);
    return cdl_access_format_detect(settings, slices, count, &arena, &scratch, &format, detection, &problem);
}

static void what_is_no_log_is_refused_in_words(void **state)
{
    (void)state;
    const struct cdl_access_settings none = {.year = 0};
    struct cdl_access_detection detection;
    assert_int_equal(
        detect(&none, (const char *[]){"", "203.0.113.7 - - [17/May/2015:10:05:03 +0000 \"GET /\""}, 2, &detection),
        CAUDAL_ERR_SYNTAX);
    assert_int_equal(detection.lines, 1);
    assert_int_equal(detection.parsed, 0);
    assert_string_equal(problem.message,
                        "no format of logs that is known; as \"combined\", line 2: column 17: the time is "
                        "not closed by ']': \"203.0.113.7 - - [17/May/2015:10:05:03 +0000 \"GET /\"\"");
    assert_int_equal(detect(&none, (const char *[]){"", ""}, 2, &detection), CAUDAL_ERR_SYNTAX);
    assert_string_equal(problem.message, "there is no line to tell the format by");
}

/* The explanation is that of the format that the line comes nearest to, however early the fault stands in it; and the line, as far as a
 * message has room. */
static void what_is_wrong_is_told_by_the_nearest_format(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"$remote_addr - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 5",
         "\"combined\", line 1: column 1: the client is a variable that the server did not fill in"},
        {"203.0.113.7 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" $status 5",
         "\"combined\", line 1: column 64: the status is no number of three digits"},
        {"203.0.113.7 - - [$time_local] \"GET /a HTTP/1.1\" 200 5",
         "\"combined\", line 1: column 1: the time is missing: there is none in brackets"},
        {"{\"a\":1}", "\"caddy\", line 1: column 1: the client is not in it, nor is a request"},
        {"a,b,c", "\"combined\", line 1: column 1: the time is missing: there is none in brackets"},
    };
    const struct cdl_access_settings none = {.year = 0};
    struct cdl_access_detection detection;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char words[512];
        snprintf(words, sizeof words, "no format of logs that is known; as %s: \"%s\"", cases[i][1], cases[i][0]);
        words[sizeof problem.message - 1] = '\0';
        assert_int_equal(detect(&none, (const char *[]){cases[i][0]}, 1, &detection), CAUDAL_ERR_SYNTAX);
        assert_string_equal(problem.message, words);
    }
}

static void a_zone_that_is_lacking_is_asked_for(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "garbage",
        "203.0.113.7:1 [14/Feb/2024:09:10:03.000] in app/app1 0/0/0/5/5 200 99 - - ---- 1/1/0/0/0 0/0 \"GET / "
        "HTTP/1.1\"",
    };
    struct cdl_access_detection detection;
    struct cdl_access_settings settings = {.year = 0};
    assert_int_equal(detect(&settings, lines, 2, &detection), CAUDAL_ERR_SYNTAX);
    assert_string_equal(problem.message,
                        "a log in the format \"haproxy\", line 2: column 16: the time has no offset to "
                        "UTC, and no zone is given");
    const struct cdl_zone utc = {.count = 0};
    settings.zone = &utc;
    assert_int_equal(detect(&settings, lines, 2, &detection), CAUDAL_OK);
    assert_string_equal(format.name, "haproxy");
    assert_int_equal(detection.lines, 2);
    assert_int_equal(detection.parsed, 1);
}

static void only_the_first_lines_are_looked_at(void **state)
{
    (void)state;
    const char *lines[CDL_ACCESS_SAMPLE_LINES + 60];
    const struct cdl_access_settings none = {.year = 0};
    struct cdl_access_detection detection;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        lines[i] = i < 60 ? "203.0.113.7 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1"
                          : "{\"time\":\"2024-02-14T08:10:02Z\",\"client\":\"203.0.113.7\",\"path\":\"/\"}";
    assert_int_equal(detect(&none, lines, COUNT_OF(lines), &detection), CAUDAL_OK);
    assert_string_equal(format.name, "common");
    assert_int_equal(detection.lines, CDL_ACCESS_SAMPLE_LINES);
    assert_int_equal(detection.parsed, 60);
    assert_int_equal(detect(&none, lines + 20, COUNT_OF(lines) - 20, &detection), CAUDAL_OK);
    assert_string_equal(format.name, "json");
}

/* Settings that are for one format leave the others out. */
static void settings_narrow_the_choice(void **state)
{
    (void)state;
    static const char *const lines[] = {"{\"at\":\"2024-02-14T08:10:02Z\",\"remote_addr\":\"203.0.113.7\"}"};
    struct cdl_access_detection detection;
    assert_int_equal(detect(&(struct cdl_access_settings){.fields = CDL_SLICE("time=at")}, lines, 1, &detection),
                     CAUDAL_OK);
    assert_string_equal(format.name, "json");
    assert_int_equal(detect(&(struct cdl_access_settings){.fields = CDL_SLICE("tme=at")}, lines, 1, &detection),
                     CAUDAL_ERR_SYNTAX);
    assert_string_equal(problem.message, "\"tme\" is no field of a request; did you mean \"time\"?");
}

/* ---- what a line may hold ---- */

static void lines_that_are_none_are_skipped(void **state)
{
    (void)state;
    static char longest[CDL_ACCESS_LINE_MAX + 1];
    memset(longest, 'x', sizeof longest);
    make_named("combined");
    assert_int_equal(read_slice((struct cdl_slice){NULL, 0}), CDL_ACCESS_SKIPPED);
    assert_why("the line is empty");
    assert_int_equal(read_line("\r"), CDL_ACCESS_SKIPPED);
    assert_why("the line is empty");
    assert_int_equal(read_slice(CDL_SLICE("203.0.113.7\0")), CDL_ACCESS_SKIPPED);
    assert_why("the line is no text");
    assert_int_equal(read_slice((struct cdl_slice){longest, sizeof longest}), CDL_ACCESS_SKIPPED);
    assert_why("the line is longer than 65536 bytes");
    assert_int_equal(read_slice((struct cdl_slice){longest, sizeof longest - 1}), CDL_ACCESS_SKIPPED);
    assert_why("column 1: the time is missing: there is none in brackets");
}

static void headers_are_at_most_64(void **state)
{
    (void)state;
    make_named("caddy");
    for (size_t count = CDL_ACCESS_HEADERS_MAX; count <= CDL_ACCESS_HEADERS_MAX + 1; count++) {
        char line[4096];
        struct cdl_writer writer = cdl_writer_on(line, sizeof line);
        cdl_write_text(&writer, "{\"ts\":1707898201,\"request\":{\"uri\":\"/\",\"headers\":{");
        for (size_t i = 0; i < count; i++)
            cdl_writef(&writer, "%s\"X-%zu\":[\"v\"]", i > 0 ? "," : "", i);
        cdl_write_text(&writer, "}}}");
        const bool fits = count <= CDL_ACCESS_HEADERS_MAX;
        assert_int_equal(read_slice(cdl_written(&writer)), fits ? CDL_ACCESS_READ : CDL_ACCESS_SKIPPED);
        if (!fits)
            assert_string_equal(why.detail, "are more than 64");
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    make_named("json");
    for (size_t depth = 64; depth <= 65; depth++) {
        char line[1024];
        struct cdl_writer writer = cdl_writer_on(line, sizeof line);
        cdl_write_text(&writer, "{\"time\":1707898201,\"path\":\"/\",\"x\":");
        for (size_t i = 0; i < depth; i++)
            cdl_write_text(&writer, "[");
        for (size_t i = 0; i < depth; i++)
            cdl_write_text(&writer, "]");
        cdl_write_text(&writer, "}");
        assert_int_equal(read_slice(cdl_written(&writer)), depth <= 64 ? CDL_ACCESS_READ : CDL_ACCESS_SKIPPED);
    }
    assert_why("column 99: the JSON is nested deeper than 64");
    assert_int_equal(read_line("{\"x\":[}"), CDL_ACCESS_SKIPPED);
    assert_why("column 7: the JSON has a bracket that closes another one");
}

/* A scratch that is too small skips the line, and is written to no further. */
static void a_scratch_that_is_full_skips_the_line(void **state)
{
    (void)state;
    make_named("combined");
    static const char line[] =
        "203.0.113.7 - - [17/May/2015:10:05:03 +0000] \"GET /\\x22 HTTP/1.1\" 200 1 \"-\" \"agent\\x22\"";
    for (size_t size = 0; size < 32; size++) {
        char *bytes = malloc(size + 1);
        struct cdl_writer scratch = cdl_writer_on(bytes, size);
        const enum cdl_access_result result = cdl_access_parse(&parser, cdl_slice_of(line), &scratch, &record, &why);
        assert_int_equal(result, size < 15 + 6 ? CDL_ACCESS_SKIPPED : CDL_ACCESS_READ);
        if (result == CDL_ACCESS_SKIPPED)
            assert_string_equal(why.detail, "needs more room than there is");
        free(bytes);
    }
}

/* Each beginning of good lines, and each of them with a byte changed, in memory of exactly their size. */
static void no_line_does_harm(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"combined",
         "h:1 203.0.113.7, ::1 - u [17/May/2015:10:05:03 +0000] \"GET http://h/\\x22 HTTP/1.1\" 200 1 \"r\" \"a\" "
         "\"1.2.3.4\" rt=1.5 1431857103.250"},
        {"haproxy",
         "1.2.3.4:1 [14/Feb/2024:09:10:03.000] in app/a 0/0/0/5/5 200 99 - - ---- 1/1/0/0/0 0/0 {h|#41} {} \"GET "
         "/#22 HTTP/1.1\""},
        {"caddy",
         "{\"ts\":1.5,\"request\":{\"uri\":\"/\\ud83d\\ude00\",\"headers\":{\"A\":[\"b\",null,{}]}},\"x\":[[1]]}"},
        {"json",
         "{\"time\":\"2024-02-14T08:10:02Z\",\"http_x_y\":\"v\",\"request\":\"GET / HTTP/1.1\",\"status\":\"200\"}"},
        {"envoy",
         "[2024-02-14T08:10:01.310Z] \"POST /api HTTP/2\" 204 - 154 0 226 100 \"1.1.1.1,2.2.2.2\" \"a\" \"b\" \"c\" "
         "\"d\""},
        {"csv", "time,client,path,http_x_y"},
        {"combined",
         "\"May 17 10:05:03 h n: [::1]:1 ::1 - [17/May/2015:10:05:03 +0000] \\\"GET /\\\\x22\\\" 200 1 \\\"r\\\"\""},
    };
    struct rng rng = {.state = 7};
    const struct cdl_zone utc = {.count = 0};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        assert_int_equal(make(&(struct cdl_access_settings){.name = cdl_slice_of(lines[i][0]), .zone = &utc}),
                         CAUDAL_OK);
        const size_t length = strlen(lines[i][1]);
        for (size_t n = 0; n <= length + scaled(20000); n++) {
            const size_t size = n <= length ? n : rng_below(&rng, length) + 1;
            char *bytes = malloc(size + 1);
            memcpy(bytes + 1, lines[i][1], size);
            for (size_t changes = n <= length ? 0 : 1 + rng_below(&rng, 3); changes > 0; changes--)
                bytes[1 + rng_below(&rng, size)] = "\"[]{}\\,:|/ -\x00\xff"
                                                   "0a"[rng_below(&rng, 16)];
            cdl_access_parser_init(&parser, &format);
            if (read_slice((struct cdl_slice){bytes + 1, size}) == CDL_ACCESS_SKIPPED) {
                assert_non_null(why.detail);
                assert_true(why.column <= size + 1);
            }
            free(bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_that_make_no_sense_are_refused),
        cmocka_unit_test(a_pattern_has_at_most_64_variables),
        cmocka_unit_test(memory_that_is_short_is_told),
        cmocka_unit_test(fields_are_found_where_the_settings_say),
        cmocka_unit_test(of_usual_names_the_first_of_the_list_counts),
        cmocka_unit_test(columns_are_found_where_the_settings_say),
        cmocka_unit_test(a_heading_must_name_what_makes_a_request),
        cmocka_unit_test(times_of_every_spelling),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(the_repeated_hour_goes_on),
        cmocka_unit_test(a_year_of_local_times_is_had_back),
        cmocka_unit_test(a_year_that_is_lacking_goes_on_at_new_year),
        cmocka_unit_test(an_arrival_is_the_end_less_what_it_took),
        cmocka_unit_test(decimals_are_exact),
        cmocka_unit_test(durations_may_say_their_units),
        cmocka_unit_test(addresses_are_told_from_names_and_times),
        cmocka_unit_test(escapes_are_undone),
        cmocka_unit_test(what_is_no_log_is_refused_in_words),
        cmocka_unit_test(what_is_wrong_is_told_by_the_nearest_format),
        cmocka_unit_test(a_zone_that_is_lacking_is_asked_for),
        cmocka_unit_test(only_the_first_lines_are_looked_at),
        cmocka_unit_test(settings_narrow_the_choice),
        cmocka_unit_test(lines_that_are_none_are_skipped),
        cmocka_unit_test(headers_are_at_most_64),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(a_scratch_that_is_full_skips_the_line),
        cmocka_unit_test(no_line_does_harm),
    };
    return cmocka_run_group_tests_name("wire/access_log", tests, setup, teardown);
}
