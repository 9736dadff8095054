/* Pages of metrics: their exact text, and that whatever is put into them parses. */
#include "metrics/prometheus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "exposition_reader.h"

#define ROOM ((size_t)1 << 20)

static struct cdl_slice finish(struct cdl_exposition *page)
{
    struct cdl_slice text;
    assert_int_equal(cdl_exposition_finish(page, &text), CAUDAL_OK);
    assert_int_equal(page->refused, 0);
    return text;
}

static void assert_text(struct cdl_slice got, const char *want)
{
    if (!cdl_slice_equal(got, cdl_slice_of(want)))
        fail_msg("got:\n%.*s\nwant:\n%s", CDL_SLICE_ARG(got), want);
}

static struct read_page read_back(struct cdl_slice text, bool openmetrics)
{
    struct read_page page;
    if (!read_exposition(text, openmetrics, &page))
        fail_msg("line %zu: %s in\n%.*s", page.line, page.why, CDL_SLICE_ARG(text));
    return page;
}

static void write_example(struct cdl_exposition *page, enum cdl_exposition_format format)
{
    cdl_exposition_begin(page, format, ROOM);
    cdl_exposition_family(page, CDL_METRIC_COUNTER, "caudal_reloads", "Policies loaded.");
    cdl_exposition_u64(page, (struct cdl_label[]){{"result", CDL_SLICE("ok")}}, 1, 17);
    cdl_exposition_u64(page, (struct cdl_label[]){{"result", CDL_SLICE("bad")}}, 1, UINT64_MAX);
    cdl_exposition_family(page, CDL_METRIC_GAUGE, "caudal_uptime_seconds", "A \"quoted\" word,\na line and a \\.");
    cdl_exposition_seconds(page, NULL, 0, UINT64_C(12345678900));
    cdl_exposition_family(page, CDL_METRIC_INFO, "caudal_build", "This program.");
    cdl_exposition_u64(page, (struct cdl_label[]){{"version", CDL_SLICE("1")}, {"commit", CDL_SLICE("")}}, 2, 1);
    cdl_exposition_family(page, CDL_METRIC_GAUGE, "caudal_balance", "Below zero, too.");
    cdl_exposition_i64(page, NULL, 0, INT64_MIN);
    cdl_exposition_family(page, CDL_METRIC_FOREIGN_COUNTER, "theirs_hits", "Named by others.");
    cdl_exposition_u64(page, (struct cdl_label[]){{"domain", CDL_SLICE("d")}}, 1, 3);
}

static void the_text_of_prometheus(void **state)
{
    (void)state;
    struct cdl_exposition page;
    write_example(&page, CDL_PROMETHEUS_TEXT);
    const struct cdl_slice text = finish(&page);
    assert_text(text, "# HELP caudal_reloads_total Policies loaded.\n"
                      "# TYPE caudal_reloads_total counter\n"
                      "caudal_reloads_total{result=\"ok\"} 17\n"
                      "caudal_reloads_total{result=\"bad\"} 18446744073709551615\n"
                      "# HELP caudal_uptime_seconds A \"quoted\" word,\\na line and a \\\\.\n"
                      "# TYPE caudal_uptime_seconds gauge\n"
                      "caudal_uptime_seconds 12.3456789\n"
                      "# HELP caudal_build_info This program.\n"
                      "# TYPE caudal_build_info gauge\n"
                      "caudal_build_info{version=\"1\",commit=\"\"} 1\n"
                      "# HELP caudal_balance Below zero, too.\n"
                      "# TYPE caudal_balance gauge\n"
                      "caudal_balance -9223372036854775808\n"
                      "# HELP theirs_hits Named by others.\n"
                      "# TYPE theirs_hits counter\n"
                      "theirs_hits{domain=\"d\"} 3\n");
    struct read_page read = read_back(text, false);
    assert_int_equal(read.count, 6);
    read_page_free(&read);
    cdl_exposition_end(&page);
}

static void the_text_of_openmetrics(void **state)
{
    (void)state;
    struct cdl_exposition page;
    write_example(&page, CDL_OPENMETRICS_TEXT);
    const struct cdl_slice text = finish(&page);
    assert_text(text, "# HELP caudal_reloads Policies loaded.\n"
                      "# TYPE caudal_reloads counter\n"
                      "caudal_reloads_total{result=\"ok\"} 17\n"
                      "caudal_reloads_total{result=\"bad\"} 18446744073709551615\n"
                      "# HELP caudal_uptime_seconds A \\\"quoted\\\" word,\\na line and a \\\\.\n"
                      "# TYPE caudal_uptime_seconds gauge\n"
                      "# UNIT caudal_uptime_seconds seconds\n"
                      "caudal_uptime_seconds 12.3456789\n"
                      "# HELP caudal_build This program.\n"
                      "# TYPE caudal_build info\n"
                      "caudal_build_info{version=\"1\",commit=\"\"} 1\n"
                      "# HELP caudal_balance Below zero, too.\n"
                      "# TYPE caudal_balance gauge\n"
                      "caudal_balance -9223372036854775808\n"
                      "# HELP theirs_hits Named by others.\n"
                      "# TYPE theirs_hits unknown\n"
                      "theirs_hits{domain=\"d\"} 3\n"
                      "# EOF\n");
    struct read_page read = read_back(text, true);
    assert_int_equal(read.count, 6);
    read_page_free(&read);
    cdl_exposition_end(&page);
}

static void an_empty_page_parses(void **state)
{
    (void)state;
    struct cdl_exposition page;
    struct read_page read;
    cdl_exposition_begin(&page, CDL_PROMETHEUS_TEXT, ROOM);
    assert_int_equal(finish(&page).length, 0);
    cdl_exposition_end(&page);
    cdl_exposition_begin(&page, CDL_OPENMETRICS_TEXT, ROOM);
    const struct cdl_slice text = finish(&page);
    assert_text(text, "# EOF\n");
    read = read_back(text, true);
    read_page_free(&read);
    cdl_exposition_end(&page);
}

/* What stands in the page, with the format's escapes and with marks taken out, is what went in. */
static void assert_value_comes_back(struct cdl_slice value, enum cdl_exposition_format format)
{
    struct cdl_exposition page;
    cdl_exposition_begin(&page, format, ROOM);
    cdl_exposition_family(&page, CDL_METRIC_GAUGE, "g", "");
    cdl_exposition_u64(&page, (struct cdl_label[]){{"key", value}}, 1, 1);
    struct read_page read = read_back(finish(&page), format == CDL_OPENMETRICS_TEXT);
    assert_int_equal(read.count, 1);
    const struct cdl_slice got = read.samples[0].labels[0].value;
    char *bytes = malloc(got.length + 1);
    assert_non_null(bytes);
    assert_true(cdl_slice_equal((struct cdl_slice){bytes, read_unmark(got, bytes)}, value));
    free(bytes);
    read_page_free(&read);
    cdl_exposition_end(&page);
}

static void C93_values_of_any_bytes_parse_and_come_back(void **state)
{
    (void)state;
    static const struct cdl_slice values[] = {
        CDL_SLICE(""),
        CDL_SLICE("."),
        CDL_SLICE("a/b:c|d.e"),
        CDL_SLICE("back\\slash"),
        CDL_SLICE("\\"),
        CDL_SLICE("\\n"),
        CDL_SLICE("\""),
        CDL_SLICE("\n"),
        CDL_SLICE("a\"b\\c\nd"),
        CDL_SLICE("203.0.113.7"),
        CDL_SLICE("2001:db8::/32"),
        CDL_SLICE("grüße, 世界 🐡"),
        CDL_SLICE("\0"),
        CDL_SLICE("a\0b"),
        CDL_SLICE("\r\n\t\x1b[31m"),
        CDL_SLICE("\xff\xfe"),
        CDL_SLICE("\xc3"),
        CDL_SLICE("\xc2\x85"),
        CDL_SLICE("\xe2\x80\xa8"),
        CDL_SLICE("\xef\xbf\xbd"),
        CDL_SLICE("\xef\xbf\xbd"
                  "ff"),
        CDL_SLICE("{}=,# EOF"),
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_value_comes_back(values[i], CDL_PROMETHEUS_TEXT);
        assert_value_comes_back(values[i], CDL_OPENMETRICS_TEXT);
    }
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        const char bytes[2] = {(char)(pair >> 8), (char)pair};
        assert_value_comes_back((struct cdl_slice){bytes, 2}, CDL_OPENMETRICS_TEXT);
    }
}

static void a_printable_value_is_shown_as_it_is(void **state)
{
    (void)state;
    struct cdl_exposition page;
    cdl_exposition_begin(&page, CDL_PROMETHEUS_TEXT, ROOM);
    cdl_exposition_family(&page, CDL_METRIC_GAUGE, "g", "");
    cdl_exposition_u64(&page, (struct cdl_label[]){{"limit", CDL_SLICE("schreib/größe|\xff")}}, 1, 1);
    const struct cdl_slice text = finish(&page);
    assert_text(text, "# HELP g \n# TYPE g gauge\ng{limit=\"schreib/größe|\xef\xbf\xbd"
                      "ff\"} 1\n");
    cdl_exposition_end(&page);
}

static void no_series_is_written_twice(void **state)
{
    (void)state;
    struct cdl_exposition page;
    struct cdl_slice text;
    cdl_exposition_begin(&page, CDL_OPENMETRICS_TEXT, ROOM);
    cdl_exposition_family(&page, CDL_METRIC_COUNTER, "c", "");
    cdl_exposition_u64(&page, (struct cdl_label[]){{"a", CDL_SLICE("1")}, {"b", CDL_SLICE("2")}}, 2, 1);
    cdl_exposition_u64(&page, (struct cdl_label[]){{"b", CDL_SLICE("2")}, {"a", CDL_SLICE("1")}}, 2, 2);
    assert_int_equal(page.refused, 1);
    cdl_exposition_u64(&page, (struct cdl_label[]){{"a", CDL_SLICE("2")}, {"b", CDL_SLICE("1")}}, 2, 3);
    cdl_exposition_u64(&page, NULL, 0, 4);
    assert_int_equal(page.refused, 1);
    cdl_exposition_u64(&page, (struct cdl_label[]){{"a", CDL_SLICE("")}}, 1, 5);
    assert_int_equal(page.refused, 2);
    cdl_exposition_family(&page, CDL_METRIC_GAUGE, "c", "");
    assert_int_equal(page.refused, 3);
    cdl_exposition_u64(&page, (struct cdl_label[]){{"a", CDL_SLICE("9")}}, 1, 6);
    assert_int_equal(page.refused, 4);
    assert_int_equal(cdl_exposition_finish(&page, &text), CAUDAL_OK);
    struct read_page read = read_back(text, true);
    assert_int_equal(read.count, 3);
    assert_non_null(read_find(&read, "c_total", "a=1,b=2"));
    read_page_free(&read);
    cdl_exposition_end(&page);
}

static void what_is_no_name_is_refused(void **state)
{
    (void)state;
    static const char *const families[] = {"", "1a", "a.b", "a-b", "a b", "ä", "a_total", "a_bucket", "a_count", "a\n"};
    static const char *const labels[] = {"", "1a", "a.b", "a:b", "__name__", "ä", "a\""};
    struct cdl_exposition page;
    struct cdl_slice text;
    cdl_exposition_begin(&page, CDL_OPENMETRICS_TEXT, ROOM);
    uint32_t refused = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        cdl_exposition_family(&page, CDL_METRIC_GAUGE, families[i], "");
        assert_int_equal(page.refused, ++refused);
    }
    cdl_exposition_u64(&page, NULL, 0, 1);
    assert_int_equal(page.refused, ++refused);
    cdl_exposition_family(&page, CDL_METRIC_GAUGE, "ns:good_1", "");
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        cdl_exposition_u64(&page, (struct cdl_label[]){{labels[i], CDL_SLICE("x")}}, 1, 1);
        assert_int_equal(page.refused, ++refused);
    }
    cdl_exposition_u64(&page, (struct cdl_label[]){{"a", CDL_SLICE("x")}, {"a", CDL_SLICE("y")}}, 2, 1);
    assert_int_equal(page.refused, ++refused);
    cdl_exposition_u64(&page, (struct cdl_label[CDL_LABELS_MAX + 1]){{"a", CDL_SLICE("x")}}, CDL_LABELS_MAX + 1, 1);
    assert_int_equal(page.refused, ++refused);
    assert_int_equal(cdl_exposition_finish(&page, &text), CAUDAL_OK);
    assert_text(text, "# HELP ns:good_1 \n# TYPE ns:good_1 gauge\n# EOF\n");
    cdl_exposition_end(&page);
}

static void write_many(struct cdl_exposition *page, size_t max_bytes)
{
    cdl_exposition_begin(page, CDL_OPENMETRICS_TEXT, max_bytes);
    cdl_exposition_family(page, CDL_METRIC_COUNTER, "c", "Many.");
    for (unsigned i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "limit-%u", i);
        cdl_exposition_u64(page, (struct cdl_label[]){{"limit", cdl_slice_of(name)}}, 1, i);
    }
}

static void a_page_is_whole_or_not_given(void **state)
{
    (void)state;
    struct cdl_exposition page;
    struct cdl_slice text;
    write_many(&page, ROOM);
    const size_t needed = finish(&page).length;
    cdl_exposition_end(&page);

    write_many(&page, needed); /* exactly enough */
    text = finish(&page);
    assert_int_equal(text.length, needed);
    assert_int_equal(page.out.size, needed);
    struct read_page read = read_back(text, true);
    assert_int_equal(read.count, 1000);
    read_page_free(&read);
    cdl_exposition_end(&page);

    for (size_t bytes = 0; bytes < needed; bytes += bytes + 10 < needed ? 101 : 1) {
        write_many(&page, bytes);
        assert_int_equal(cdl_exposition_finish(&page, &text), CAUDAL_ERR_MEMORY);
        assert_int_equal(text.length, 0);
        assert_true(page.out.size <= bytes);
        cdl_exposition_end(&page);
    }
}

static void seconds_are_exact(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {0, "0"},          {1, "0.000000001"},    {1500000, "0.0015"},          {999999999, "0.999999999"},
        {1000000000, "1"}, {100000000000, "100"}, {12000000340, "12.00000034"}, {UINT64_MAX, "18446744073.709551615"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        struct cdl_writer out = cdl_writer_on(text, sizeof text);
        cdl_write_seconds(&out, cases[i].ns);
        assert_text(cdl_written(&out), cases[i].text);
    }
}

static void the_format_is_the_one_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum cdl_exposition_format format;
    } cases[] = {
        {"", CDL_PROMETHEUS_TEXT},
        {"*/*", CDL_PROMETHEUS_TEXT},
        {"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", CDL_PROMETHEUS_TEXT},
        {"application/openmetrics-text", CDL_OPENMETRICS_TEXT},
        {"application/openmetrics-text; version=1.0.0; charset=utf-8", CDL_OPENMETRICS_TEXT},
        {"Application/OpenMetrics-Text ; Version=1.0.0", CDL_OPENMETRICS_TEXT},
        {"application/openmetrics-text;version=0.0.1", CDL_PROMETHEUS_TEXT},
        {"application/openmetrics-text;q=0", CDL_PROMETHEUS_TEXT},
        {"application/openmetrics-text;q=0.5, text/plain;version=0.0.4;q=0.6", CDL_PROMETHEUS_TEXT},
        {"text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.5", CDL_OPENMETRICS_TEXT},
        {"application/openmetrics-text;q=0.051,text/plain;q=0.05", CDL_OPENMETRICS_TEXT},
        {"application/openmetrics-text;q=nonsense", CDL_PROMETHEUS_TEXT},
        {"application/openmetrics-text;q=1.5", CDL_PROMETHEUS_TEXT},
        {"application/openmetrics-text;q=", CDL_PROMETHEUS_TEXT},
        {",;,=;q", CDL_PROMETHEUS_TEXT},
        /* Prometheus 2 and 3 */
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         CDL_OPENMETRICS_TEXT},
        {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
         "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
         "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         CDL_OPENMETRICS_TEXT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cdl_exposition_choose(cdl_slice_of(cases[i].accept)) != cases[i].format)
            fail_msg("%s", cases[i].accept);
    assert_int_equal(cdl_exposition_choose((struct cdl_slice){NULL, 0}), CDL_PROMETHEUS_TEXT);
    assert_non_null(strstr(cdl_exposition_content_type(CDL_PROMETHEUS_TEXT), "version=0.0.4"));
    assert_non_null(strstr(cdl_exposition_content_type(CDL_OPENMETRICS_TEXT), "version=1.0.0"));
}

/* The reader is strict: a test that relies on it would otherwise mean little. */
static void the_reader_refuses_what_is_wrong(void **state)
{
    (void)state;
    static const char *const good = "# HELP a h\n# TYPE a gauge\na{b=\"c\"} 1\n";
    static const char *const bad[] = {
        "a 1\n",
        "# TYPE a gauge\na 1\n",
        "# HELP a h\n# TYPE a gauge\na 1",
        "# HELP a h\n# TYPE a gauge\n\na 1\n",
        "# HELP a h\n# TYPE a gauge\nb 1\n",
        "# HELP a h\n# TYPE a gauge\na 1\na 1\n",
        "# HELP a h\n# TYPE a gauge\na{b=\"\"} 1\na 1\n",
        "# HELP a h\n# TYPE a gauge\na one\n",
        "# HELP a h\n# TYPE a gauge\na{b=\"\\x\"} 1\n",
        "# HELP a h\n# TYPE a gauge\na{b=\"\r\"} 1\n",
        "# HELP a h\n# TYPE a gauge\na{b=\"\xff\"} 1\n",
        "# HELP a h\n# TYPE a gauge\na{b=\"c} 1\n",
        "# HELP a h\n# TYPE a gauge\na{b=\"c\",b=\"d\"} 1\n",
        "# HELP a h\n# TYPE a gauge\na 1\n# HELP a h\n# TYPE a gauge\n",
        "# HELP a h\n# TYPE a counter\na -1\n",
        "# HELP a h\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\n",
        "# HELP a h\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
        "# HELP a h\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n",
    };
    struct read_page read = read_back(cdl_slice_of(good), false);
    assert_int_equal(read.count, 1);
    read_page_free(&read);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (read_exposition(cdl_slice_of(bad[i]), false, &read))
            fail_msg("was read:\n%s", bad[i]);
        read_page_free(&read);
    }
    assert_false(read_exposition(cdl_slice_of(good), true, &read)); /* no end */
    read_page_free(&read);
    assert_false(read_exposition(CDL_SLICE("# EOF\n# EOF\n"), true, &read));
    read_page_free(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reader_refuses_what_is_wrong),
        cmocka_unit_test(the_text_of_prometheus),
        cmocka_unit_test(the_text_of_openmetrics),
        cmocka_unit_test(an_empty_page_parses),
        cmocka_unit_test(C93_values_of_any_bytes_parse_and_come_back),
        cmocka_unit_test(a_printable_value_is_shown_as_it_is),
        cmocka_unit_test(no_series_is_written_twice),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(a_page_is_whole_or_not_given),
        cmocka_unit_test(seconds_are_exact),
        cmocka_unit_test(the_format_is_the_one_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
