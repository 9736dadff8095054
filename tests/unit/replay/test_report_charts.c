/* Charts of reports of every kind: which there are, what is drawn of them, and that the files can be read. */
#include "replay/report_charts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cairo.h>

#include "../support.h"
#include "filled_report.h"

static struct cdl_replay_report report, second;
static struct cdl_comparison comparison;
static struct cdl_charts charts;

static struct cdl_replay_reports fill(enum filling filling, bool two)
{
    fill_report(&report, filling);
    fill_report(&second, filling);
    fill_comparison(&comparison, filling);
    return (struct cdl_replay_reports){&report, two ? &second : NULL, two ? &comparison : NULL};
}

static void empty(void)
{
    cdl_replay_report_free(&report);
    cdl_replay_report_free(&second);
    free_comparison(&comparison);
}

static void make(enum filling filling, bool two)
{
    const struct cdl_replay_reports set = fill(filling, two);
    assert_int_equal(cdl_charts_make(&set, &charts), 0);
}

static void unmake(void)
{
    cdl_charts_free(&charts);
    empty();
}

static const struct cdl_chart *chart_of(const char *name)
{
    for (size_t i = 0; i < charts.count; i++)
        if (strcmp(charts.charts[i].name, name) == 0)
            return &charts.charts[i];
    fail_msg("there is no chart '%s'", name);
    return NULL;
}

/* ---- what is in them ---- */

static void a_day_has_all_charts(void **state)
{
    (void)state;
    static const char *const names[] = {
        "rate",    "refusals", "level-1", "level-2", "peaks-1-per-client", "peaks-2-uploads__all____sundry",
        "clients", "changes"};
    make(FILLED_DAY, true);
    assert_int_equal(charts.count, COUNT_OF(names));
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(charts.charts[i].name, names[i]);
    unmake();
}

static void rates_are_means_of_a_second(void **state)
{
    (void)state;
    make(FILLED_DAY, true);
    const struct cdl_chart_panel *panel = &chart_of("rate")->panels[0];
    assert_int_equal(panel->series_count, 3);
    for (size_t n = 0; n < report.series.steps; n++) {
        assert_true(fabs(panel->series[0].values[n] - (double)report.series.offered[n] / 120) < 1e-9);
        assert_true(fabs(panel->series[1].values[n] - (double)report.series.admitted[n] / 120) < 1e-9);
        assert_true(fabs(panel->series[2].values[n] - (double)second.series.admitted[n] / 120) < 1e-9);
    }
    unmake();
}

/* A log ends anywhere in its last step: a minute of two was half as long, not half as busy. */
static void the_last_step_is_as_long_as_the_log(void **state)
{
    (void)state;
    const struct cdl_replay_reports set = fill(FILLED_DAY, false);
    report.end_ns -= MINUTE;
    assert_int_equal(cdl_charts_make(&set, &charts), 0);
    const size_t last = report.series.steps - 1;
    const double *offered = chart_of("rate")->panels[0].series[0].values;
    assert_true(fabs(offered[last] - (double)report.series.offered[last] / 60) < 1e-9);
    assert_true(fabs(offered[last - 1] - (double)report.series.offered[last - 1] / 120) < 1e-9);
    unmake();
}

static void refusals_have_a_panel_for_each_limit_that_refused(void **state)
{
    (void)state;
    const struct cdl_replay_reports set = fill(FILLED_DAY, false);
    memset(report.series.refused[2], 0, report.series.steps * sizeof(uint64_t));
    assert_int_equal(cdl_charts_make(&set, &charts), 0);
    const struct cdl_chart *chart = chart_of("refusals");
    assert_int_equal(chart->panel_count, 2);
    assert_non_null(strstr(chart->panels[0].title, "per-client: "));
    assert_non_null(strstr(chart->panels[1].title, ", in shadow mode"));
    for (size_t n = 0; n < report.series.steps; n++)
        assert_true(chart->panels[0].series[0].values[n] == (double)report.series.refused[0][n]);
    unmake();
}

/* Between two requests a bucket refills, of a window nothing is known. */
static void a_bucket_is_known_where_nobody_asked(void **state)
{
    (void)state;
    make(FILLED_DAY, false);
    const struct cdl_chart_series *bucket = &chart_of("level-1")->panels[0].series[0];
    const struct cdl_chart_series *window = &chart_of("level-2")->panels[0].series[0];
    const struct cdl_replay_trace *trace = &report.traces[0];
    size_t quiet = 0;
    for (size_t n = 0; n < trace->steps; n++) {
        assert_true(bucket->values[n] <= 20);
        if (trace->lowest[n] != UINT64_MAX) {
            assert_true(bucket->values[n] == (double)trace->highest[n] && bucket->lows[n] == (double)trace->lowest[n]);
            continue;
        }
        quiet++;
        assert_true(bucket->values[n] == fmin(20, bucket->lows[n - 1] + 2 * 100.0 / 60));
        assert_true(isnan(window->values[n]));
    }
    assert_true(quiet > 100);
    unmake();
}

static void peaks_have_their_limit_drawn_in(void **state)
{
    (void)state;
    make(FILLED_DAY, false);
    const struct cdl_chart_panel *bucket = &chart_of("peaks-1-per-client")->panels[0];
    const struct cdl_chart_panel *window = &chart_of("peaks-2-uploads__all____sundry")->panels[0];
    assert_int_equal(bucket->line_count, 2);
    assert_true(bucket->lines[0].at == 100 && bucket->lines[1].at == 120);
    assert_int_equal(window->line_count, 1);
    assert_true(window->lines[0].at == 1000);
    unmake();
}

static void of_many_limits_those_are_drawn_that_refused_most(void **state)
{
    (void)state;
    const struct cdl_replay_reports set = fill(FILLED_DAY, false);
    const struct cdl_replay_limit one = report.limits[0];
    report.limit_count = 200;
    report.limits = cdl_arena_allocate(&report.arena, report.limit_count, sizeof *report.limits);
    for (size_t i = 0; i < report.limit_count; i++) {
        report.limits[i] = one;
        report.limits[i].refused = i / 2;
    }
    assert_int_equal(cdl_charts_make(&set, &charts), 0);
    size_t count = 0;
    for (size_t i = 0; i < charts.count; i++)
        count += charts.charts[i].kind == CDL_CHART_OF_PEAKS;
    assert_int_equal(count, CDL_CHARTS_PEAKS);
    assert_string_equal(chart_of("peaks-177-per-client")->name, "peaks-177-per-client");
    unmake();
}

/* ---- drawing ---- */

/* A canvas that counts, and watches that everything is finite and within the picture. */
struct watching_canvas {
    struct cdl_canvas canvas;
    double height;
    size_t paths, texts;
    double right; /* of the text that reaches farthest, as reckoned */
};

static struct watching_canvas *watch(struct cdl_canvas *canvas, double x, double y)
{
    struct watching_canvas *watching = (struct watching_canvas *)(void *)canvas;
    if (!(x >= -0.01 && x <= canvas->width + 0.01 && y >= -0.01 && y <= watching->height + 0.01))
        fail_msg("(%f, %f) is not within %f x %f", x, y, canvas->width, watching->height);
    return watching;
}

static void watch_place(struct cdl_canvas *canvas, double x, double y)
{
    watch(canvas, x, y);
}

static void watch_fill(struct cdl_canvas *canvas, enum cdl_ink ink, bool faint)
{
    (void)faint;
    assert_true(ink < CDL_INKS);
    ((struct watching_canvas *)(void *)canvas)->paths++;
}

static void watch_stroke(struct cdl_canvas *canvas, enum cdl_ink ink, enum cdl_dash dash, bool thick)
{
    assert_true(dash < CDL_DASHES);
    watch_fill(canvas, ink, thick);
}

static void watch_text(struct cdl_canvas *canvas, double x, double y, enum cdl_anchor anchor, enum cdl_letter letter,
                       enum cdl_ink ink, struct cdl_slice text)
{
    (void)ink;
    size_t characters = 0;
    for (size_t i = 0; i < text.length; i++)
        characters += (text.bytes[i] & 0xc0) != 0x80;
    const double width = (double)characters * CDL_LETTER_WIDTH *
                         (letter == CDL_LETTER_TITLE ? CDL_TITLE_PX : CDL_SMALL_PX);
    const double left = x - (anchor == CDL_ANCHOR_START ? 0 : anchor == CDL_ANCHOR_MIDDLE ? width / 2 : width);
    watch(canvas, left, y)->texts++;
    watch(canvas, left + width, y);
}

static const struct cdl_canvas_kind watching_kind = {watch_place, watch_place, watch_fill, watch_stroke, watch_text};

static void everything_is_drawn_within_the_picture(void **state)
{
    (void)state;
    static const double widths[] = {CDL_CHART_NARROW, CDL_CHART_WIDE};
    for (int filling = 0; filling < FILLINGS; filling++) {
        make((enum filling)filling, true);
        for (size_t i = 0; i < charts.count * COUNT_OF(widths); i++) {
            const struct cdl_chart *chart = &charts.charts[i / COUNT_OF(widths)];
            struct watching_canvas watching = {.canvas = {.width = widths[i % COUNT_OF(widths)], .titled = true}};
            watching.height = cdl_chart_draw(chart, &watching.canvas);
            watching.canvas.kind = &watching_kind;
            assert_true(cdl_chart_draw(chart, &watching.canvas) == watching.height);
            assert_true(watching.texts > 0);
            assert_true(filling == FILLED_EMPTY || watching.paths > 2);
        }
        unmake();
    }
}

/* ---- files ---- */

static char directory[64];

static int setup(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/caudal-charts-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* Dots that are not white. */
static size_t marks_in(const char *path)
{
    cairo_surface_t *surface = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(surface), CAIRO_STATUS_SUCCESS);
    const int width = cairo_image_surface_get_width(surface), height = cairo_image_surface_get_height(surface);
    assert_int_equal(width, (int)(2 * CDL_CHART_WIDE));
    assert_true(height > 100);
    size_t marks = 0;
    for (int y = 0; y < height; y++) {
        const unsigned char *row = cairo_image_surface_get_data(surface) +
                                   (ptrdiff_t)y * cairo_image_surface_get_stride(surface);
        for (int x = 0; x < width; x++)
            marks += row[4 * x] != 255 || row[4 * x + 1] != 255 || row[4 * x + 2] != 255;
    }
    cairo_surface_destroy(surface);
    return marks;
}

static void png_files_can_be_read(void **state)
{
    (void)state;
    static const struct {
        enum filling filling;
        size_t least;
    } cases[] = {{FILLED_EMPTY, 500}, {FILLED_ONE_SECOND, 100000}, {FILLED_DAY, 100000}, {FILLED_HUGE, 100000}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct caudal_problem problem;
        const struct cdl_replay_reports set = fill(cases[i].filling, true);
        assert_int_equal(cdl_replay_write_charts(directory, CDL_CHART_PNG, &set, &problem), 0);
        char path[100];
        snprintf(path, sizeof path, "%s/rate.png", directory);
        const size_t marks = marks_in(path);
        if (marks < cases[i].least)
            fail_msg("filling %d: %zu dots are not white", (int)cases[i].filling, marks);
        snprintf(path, sizeof path, "%s/clients.png", directory);
        assert_true(marks_in(path) > 500);
        empty();
    }
}

static void svg_files_are_whole(void **state)
{
    (void)state;
    struct caudal_problem problem;
    const struct cdl_replay_reports set = fill(FILLED_HOSTILE, false);
    assert_int_equal(cdl_replay_write_charts(directory, CDL_CHART_SVG, &set, &problem), 0);
    char path[100];
    snprintf(path, sizeof path, "%s/level-1.svg", directory);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char bytes[1 << 20];
    const size_t length = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    bytes[length] = '\0';
    assert_non_null(strstr(bytes, "<svg "));
    assert_string_equal(bytes + length - 7, "</svg>\n");
    assert_null(strstr(bytes, "script"));
    empty();
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct caudal_problem problem;
    const struct cdl_replay_reports set = fill(FILLED_DAY, false);
    char path[100];
    snprintf(path, sizeof path, "%s/nowhere", directory);
    assert_int_equal(cdl_replay_write_charts(path, CDL_CHART_SVG, &set, &problem), -1);
    assert_int_equal(errno, ENOENT);
    assert_non_null(strstr(problem.message, "nowhere/rate.svg': No such file or directory"));
    empty();
}

/* /dev/full takes nothing. */
static void a_full_disk_is_told(void **state)
{
    (void)state;
    make(FILLED_DAY, false);
    for (int format = CDL_CHART_SVG; format <= CDL_CHART_PNG; format++) {
        FILE *full = fopen("/dev/full", "wb");
        assert_non_null(full);
        assert_int_equal(setvbuf(full, NULL, _IONBF, 0), 0);
        assert_int_equal(cdl_chart_write_file(full, (enum cdl_chart_format)format, chart_of("rate")), -1);
        assert_int_equal(errno, ENOSPC);
        fclose(full);
    }
    cdl_chart_files_end();
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_day_has_all_charts),
        cmocka_unit_test(rates_are_means_of_a_second),
        cmocka_unit_test(the_last_step_is_as_long_as_the_log),
        cmocka_unit_test(refusals_have_a_panel_for_each_limit_that_refused),
        cmocka_unit_test(a_bucket_is_known_where_nobody_asked),
        cmocka_unit_test(peaks_have_their_limit_drawn_in),
        cmocka_unit_test(of_many_limits_those_are_drawn_that_refused_most),
        cmocka_unit_test(everything_is_drawn_within_the_picture),
        cmocka_unit_test_setup_teardown(png_files_can_be_read, setup, teardown),
        cmocka_unit_test_setup_teardown(svg_files_are_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_named, setup, teardown),
        cmocka_unit_test(a_full_disk_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
