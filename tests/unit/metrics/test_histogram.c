/* Latencies: every bucket, quantiles against sorted times, and what Prometheus is shown. */
#include "metrics/histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "exposition_reader.h"

#define US INT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)

struct fixture {
    struct cdl_histogram histogram;
    struct cdl_histogram_snapshot snapshot;
};

static int open_histogram(void **state)
{
    struct fixture *fixture = aligned_alloc(64, sizeof *fixture);
    if (fixture != NULL)
        memset(fixture, 0, sizeof *fixture);
    *state = fixture;
    return fixture == NULL;
}

static int close_histogram(void **state)
{
    free(*state);
    return 0;
}

static void buckets_are_side_by_side_and_narrow(void **state)
{
    (void)state;
    uint64_t next = 0;
    for (uint32_t bucket = 0; bucket < CDL_HISTOGRAM_BUCKETS; bucket++) {
        const uint64_t end = cdl_histogram_bucket_end_ns(bucket);
        assert_true(end >= next);
        assert_int_equal(cdl_histogram_bucket(next), bucket);
        assert_int_equal(cdl_histogram_bucket(end), bucket);
        assert_true((end - next) * 128 <= next); /* off by less than 1 % */
        next = end + 1;
    }
    assert_true(next > 60 * (uint64_t)SECOND);
    assert_int_equal(cdl_histogram_bucket(next), CDL_HISTOGRAM_BUCKETS - 1);
    assert_int_equal(cdl_histogram_bucket(UINT64_MAX), CDL_HISTOGRAM_BUCKETS - 1);
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_are_off_by_less_than_one_percent(void **state)
{
    struct fixture *fixture = *state;
    enum {
        COUNT = 10000
    };
    static int64_t times[COUNT];
    uint64_t random = 42;
    for (size_t i = 0; i < COUNT; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        times[i] = (int64_t)((random >> 20) >> (random >> 59)); /* all magnitudes up to 2^44 */
        times[i] %= 60 * SECOND;
        cdl_histogram_record(&fixture->histogram, times[i]);
    }
    qsort(times, COUNT, sizeof *times, compare);
    cdl_histogram_add(&fixture->snapshot, &fixture->histogram);
    assert_int_equal(cdl_histogram_count(&fixture->snapshot), COUNT);
    for (uint32_t per_million = 100; per_million <= 1000000; per_million += 100) {
        const uint64_t exact = (uint64_t)times[((uint64_t)COUNT * per_million + 999999) / 1000000 - 1];
        const uint64_t got = cdl_histogram_quantile_ns(&fixture->snapshot, per_million);
        assert_true(got >= exact);
        assert_true((got - exact) * 128 <= exact);
    }
}

static void the_edges_of_quantiles(void **state)
{
    struct fixture *fixture = *state;
    struct cdl_histogram_snapshot *snapshot = &fixture->snapshot;
    assert_int_equal(cdl_histogram_quantile_ns(snapshot, 500000), 0); /* nothing there */
    cdl_histogram_record(&fixture->histogram, 100);
    cdl_histogram_record(&fixture->histogram, 200);
    cdl_histogram_add(snapshot, &fixture->histogram);
    assert_int_equal(cdl_histogram_quantile_ns(snapshot, 0), 100);
    assert_int_equal(cdl_histogram_quantile_ns(snapshot, 500000), 100);
    assert_int_equal(cdl_histogram_quantile_ns(snapshot, 500001), 200);
    assert_int_equal(cdl_histogram_quantile_ns(snapshot, 1000000), 200);
    assert_int_equal(cdl_histogram_quantile_ns(snapshot, UINT32_MAX), 200);
}

static void times_of_all_sizes_are_counted(void **state)
{
    struct fixture *fixture = *state;
    cdl_histogram_record(&fixture->histogram, INT64_MIN); /* a clock that was set back */
    cdl_histogram_record(&fixture->histogram, 0);
    cdl_histogram_record(&fixture->histogram, 3600 * SECOND);
    cdl_histogram_add(&fixture->snapshot, &fixture->histogram);
    assert_int_equal(cdl_histogram_count(&fixture->snapshot), 3);
    assert_int_equal(fixture->snapshot.sum_ns, 3600 * SECOND);
    assert_int_equal(fixture->snapshot.coarse[CDL_HISTOGRAM_BOUNDS], 1);
    assert_true(cdl_histogram_quantile_ns(&fixture->snapshot, 1000000) > (uint64_t)(68 * SECOND));
}

static void histograms_add_up(void **state)
{
    struct fixture *fixture = *state;
    cdl_histogram_record(&fixture->histogram, 7 * MS);
    cdl_histogram_add(&fixture->snapshot, &fixture->histogram);
    cdl_histogram_add(&fixture->snapshot, &fixture->histogram);
    assert_int_equal(cdl_histogram_count(&fixture->snapshot), 2);
    assert_int_equal(fixture->snapshot.sum_ns, 14 * MS);
    assert_int_equal(fixture->snapshot.fine[cdl_histogram_bucket(7 * MS)], 2);
}

static void assert_sample(const struct read_page *read, const char *name, const char *labels, const char *value)
{
    const struct read_sample *sample = read_find(read, name, labels);
    if (sample == NULL)
        fail_msg("there is no %s{%s}", name, labels);
    if (!cdl_slice_equal(sample->value, cdl_slice_of(value)))
        fail_msg("%s{%s} is %.*s, not %s", name, labels, CDL_SLICE_ARG(sample->value), value);
}

static struct read_page expose(struct fixture *fixture, struct cdl_exposition *page, enum cdl_exposition_format format)
{
    struct cdl_slice text;
    struct read_page read;
    cdl_exposition_begin(page, format, 1 << 20);
    cdl_exposition_family(page, CDL_METRIC_HISTOGRAM, "t_seconds", "Times.");
    cdl_histogram_expose(&fixture->snapshot, page, (struct cdl_label[]){{"path", CDL_SLICE("/")}}, 1);
    assert_int_equal(cdl_exposition_finish(page, &text), CAUDAL_OK);
    assert_int_equal(page->refused, 0);
    if (!read_exposition(text, format == CDL_OPENMETRICS_TEXT, &read))
        fail_msg("line %zu: %s in\n%.*s", read.line, read.why, CDL_SLICE_ARG(text));
    return read;
}

static void bounds_hold_to_the_nanosecond(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < CDL_HISTOGRAM_BOUNDS; i++) {
        cdl_histogram_record(&fixture->histogram, (int64_t)cdl_histogram_bounds_ns[i]);
        cdl_histogram_record(&fixture->histogram, (int64_t)cdl_histogram_bounds_ns[i] + 1);
    }
    cdl_histogram_add(&fixture->snapshot, &fixture->histogram);

    struct cdl_exposition page;
    struct read_page read = expose(fixture, &page, CDL_OPENMETRICS_TEXT);
    static const char *const bounds[] = {"1e-06",  "5e-06", "1e-05",  "2.5e-05", "5e-05", "0.0001", "0.00025",
                                         "0.0005", "0.001", "0.0025", "0.005",   "0.01",  "0.025",  "0.05",
                                         "0.1",    "0.25",  "0.5",    "1.0",     "10.0"};
    for (size_t i = 0; i < CDL_HISTOGRAM_BOUNDS; i++) {
        char labels[64], value[16];
        snprintf(labels, sizeof labels, "path=/,le=%s", bounds[i]);
        snprintf(value, sizeof value, "%zu", 2 * i + 1);
        assert_sample(&read, "t_seconds_bucket", labels, value);
        assert_true(strtod(bounds[i], NULL) * 1e9 - (double)cdl_histogram_bounds_ns[i] < 0.5);
    }
    assert_sample(&read, "t_seconds_bucket", "path=/,le=+Inf", "38");
    assert_sample(&read, "t_seconds_count", "path=/", "38");
    read_page_free(&read);
    cdl_exposition_end(&page);

    read = expose(fixture, &page, CDL_PROMETHEUS_TEXT);
    assert_sample(&read, "t_seconds_bucket", "path=/,le=1", "35");
    assert_sample(&read, "t_seconds_bucket", "path=/,le=0.001", "17");
    read_page_free(&read);
    cdl_exposition_end(&page);
}

static void the_sum_is_exact(void **state)
{
    struct fixture *fixture = *state;
    cdl_histogram_record(&fixture->histogram, 1);
    cdl_histogram_record(&fixture->histogram, 2 * SECOND);
    cdl_histogram_add(&fixture->snapshot, &fixture->histogram);
    struct cdl_exposition page;
    struct read_page read = expose(fixture, &page, CDL_PROMETHEUS_TEXT);
    assert_sample(&read, "t_seconds_sum", "path=/", "2.000000001");
    read_page_free(&read);
    cdl_exposition_end(&page);
}

static void labels_that_leave_no_room_for_le_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cdl_exposition page;
    cdl_exposition_begin(&page, CDL_PROMETHEUS_TEXT, 1 << 20);
    cdl_exposition_family(&page, CDL_METRIC_HISTOGRAM, "t_seconds", "");
    cdl_histogram_expose(&fixture->snapshot, &page, (struct cdl_label[CDL_LABELS_MAX]){{"a", CDL_SLICE("")}},
                         CDL_LABELS_MAX);
    assert_int_equal(page.refused, 1);
    cdl_histogram_expose(&fixture->snapshot, &page, (struct cdl_label[]){{"le", CDL_SLICE("1")}}, 1);
    assert_int_equal(page.refused, 2);
    cdl_exposition_end(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_side_by_side_and_narrow),
        cmocka_unit_test_setup_teardown(quantiles_are_off_by_less_than_one_percent, open_histogram, close_histogram),
        cmocka_unit_test_setup_teardown(the_edges_of_quantiles, open_histogram, close_histogram),
        cmocka_unit_test_setup_teardown(times_of_all_sizes_are_counted, open_histogram, close_histogram),
        cmocka_unit_test_setup_teardown(histograms_add_up, open_histogram, close_histogram),
        cmocka_unit_test_setup_teardown(bounds_hold_to_the_nanosecond, open_histogram, close_histogram),
        cmocka_unit_test_setup_teardown(the_sum_is_exact, open_histogram, close_histogram),
        cmocka_unit_test_setup_teardown(labels_that_leave_no_room_for_le_are_refused, open_histogram, close_histogram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
