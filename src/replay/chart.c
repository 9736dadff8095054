/* Panels over time. Values are counts of a step, so they are drawn as steps: one second of data is as broad as it was long. */
#include "replay/chart.h"

#include <math.h>

#include "base/arith.h"
#include "replay/chart_draw.h"
#include "replay/chart_scale.h"
#include "replay/report_numbers.h"

#define LEFT 44.0  /* room for values */
#define RIGHT 8.0  /* half of the last word at the axis of time may reach into it */
#define BELOW 34.0 /* for the words at the axis of time */

/* ---- the frame of a panel ---- */

static double most_of(const struct cdl_chart *chart, const struct cdl_chart_panel *panel, bool below)
{
    double most = 0;
    for (size_t i = 0; i < panel->series_count; i++) {
        if ((panel->series[i].shape == CDL_SHAPE_BARS_DOWN) != below)
            continue;
        for (size_t n = 0; n < chart->steps; n++)
            most = fmax(most, panel->series[i].values[n]); /* of NaN and a number it is the number */
    }
    for (size_t i = 0; !below && i < panel->line_count; i++)
        most = fmax(most, panel->lines[i].at);
    return most;
}

static double panel_height(const struct cdl_chart *chart)
{
    return chart->panel_count == 1 ? 220 : chart->panel_count == 2 ? 130 : 70;
}

static struct cdl_frame frame_of(const struct cdl_canvas *canvas, const struct cdl_chart *chart,
                                 const struct cdl_chart_panel *panel, double top)
{
    struct cdl_frame frame = {
        .left = LEFT,
        .right = canvas->width - RIGHT,
        .top = top + 6,
        .bottom = top + 6 + panel_height(chart),
        .length = (double)chart->steps,
        .highest = most_of(chart, panel, false),
        .deepest = most_of(chart, panel, true),
    };
    if (frame.highest + frame.deepest <= 0)
        frame.highest = 1;
    frame.highest *= 1.05;
    frame.zero = frame.top + panel_height(chart) * frame.highest / (frame.highest + frame.deepest);
    return frame;
}

/* ---- the axis of time ---- */

static void draw_instant(struct cdl_canvas *canvas, const struct cdl_frame *frame, double x, const char *upper,
                         const char *lower)
{
    /* The words stay within the picture. */
    const double half = cdl_text_width(lower[0] == '\0' ? upper : lower, CDL_LETTER_SMALL) / 2;
    const double middle = fmax(half, fmin(x, canvas->width - half));
    cdl_draw_move(canvas, x, frame->bottom);
    cdl_draw_line(canvas, x, frame->bottom + 4);
    cdl_draw_stroke(canvas, CDL_INK_SOFT, CDL_DASH_NONE, false);
    cdl_draw_text(canvas, middle, frame->bottom + 16, CDL_ANCHOR_MIDDLE, CDL_LETTER_SMALL, CDL_INK_SOFT, upper);
    cdl_draw_text(canvas, middle, frame->bottom + 29, CDL_ANCHOR_MIDDLE, CDL_LETTER_SMALL, CDL_INK_SOFT, lower);
}

/* All steps, as far as there are instants. */
static int64_t length_of(const struct cdl_chart *chart)
{
    const int64_t most_ns = INT64_MAX - cdl_max_i64(chart->begin_ns, 0), steps = (int64_t)chart->steps;
    return most_ns / chart->step_ns < steps ? most_ns : chart->step_ns * steps;
}

/* The day, or the year, is written where it begins or is seen first. */
static double draw_time(struct cdl_canvas *canvas, const struct cdl_frame *frame, const struct cdl_chart *chart)
{
    const int64_t length_ns = length_of(chart);
    const int64_t step_ns = cdl_scale_time_step(length_ns, (unsigned)((frame->right - frame->left) / 80));
    const int64_t rest_ns = chart->begin_ns % step_ns;
    int64_t after_ns = rest_ns > 0 ? step_ns - rest_ns : -rest_ns;
    char last[16] = "";
    for (; after_ns <= length_ns; after_ns += step_ns) {
        char upper[16], lower[16];
        cdl_scale_time_label(chart->begin_ns + after_ns, step_ns, upper, lower);
        const bool is_new = strcmp(lower, last) != 0;
        draw_instant(canvas, frame, cdl_frame_x(frame, (double)after_ns / (double)chart->step_ns), upper,
                     is_new ? lower : "");
        memcpy(last, lower, sizeof last);
        if (length_ns - after_ns < step_ns)
            break;
    }
    return frame->bottom + BELOW;
}

/* ---- series ---- */

/* The outline of values n to end - 1, none of which is NaN, as steps. Neighbours that are equal need no corner. */
static void draw_steps(struct cdl_canvas *canvas, const struct cdl_frame *frame, const double *values, size_t n,
                       size_t end, double sign)
{
    for (; n < end; n++) {
        const double y = cdl_frame_y(frame, sign * values[n]);
        cdl_draw_line(canvas, cdl_frame_x(frame, (double)n), y);
        while (n + 1 < end && values[n + 1] == values[n])
            n++;
        cdl_draw_line(canvas, cdl_frame_x(frame, (double)(n + 1)), y);
    }
}

static void draw_steps_back(struct cdl_canvas *canvas, const struct cdl_frame *frame, const double *values, size_t n,
                            size_t end)
{
    while (end-- > n) {
        const double y = cdl_frame_y(frame, values[end]);
        cdl_draw_line(canvas, cdl_frame_x(frame, (double)(end + 1)), y);
        cdl_draw_line(canvas, cdl_frame_x(frame, (double)end), y);
    }
}

static void draw_outline(struct cdl_canvas *canvas, const struct cdl_frame *frame,
                         const struct cdl_chart_series *series, size_t n, size_t end)
{
    cdl_draw_move(canvas, cdl_frame_x(frame, (double)n), cdl_frame_y(frame, series->values[n]));
    draw_steps(canvas, frame, series->values, n, end, 1);
    cdl_draw_stroke(canvas, series->ink, series->dash, true);
}

/* From the values to zero, or to the lows. */
static void draw_body(struct cdl_canvas *canvas, const struct cdl_frame *frame, const struct cdl_chart_series *series,
                      size_t n, size_t end)
{
    const double sign = series->shape == CDL_SHAPE_BARS_DOWN ? -1 : 1;
    const double first = series->shape == CDL_SHAPE_BAND ? series->lows[n] : 0;
    cdl_draw_move(canvas, cdl_frame_x(frame, (double)n), cdl_frame_y(frame, first));
    draw_steps(canvas, frame, series->values, n, end, sign);
    if (series->shape == CDL_SHAPE_BAND)
        draw_steps_back(canvas, frame, series->lows, n, end);
    else
        cdl_draw_line(canvas, cdl_frame_x(frame, (double)end), frame->zero);
    cdl_draw_fill(canvas, series->ink, series->shape == CDL_SHAPE_AREA || series->shape == CDL_SHAPE_BAND);
}

static void draw_run(struct cdl_canvas *canvas, const struct cdl_frame *frame, const struct cdl_chart_series *series,
                     size_t n, size_t end)
{
    if (series->shape != CDL_SHAPE_LINE)
        draw_body(canvas, frame, series, n, end);
    if (series->shape == CDL_SHAPE_LINE || series->shape == CDL_SHAPE_AREA)
        draw_outline(canvas, frame, series, n, end);
    if (series->shape == CDL_SHAPE_BAND) {
        const struct cdl_chart_series low = {.values = series->lows, .ink = series->ink, .dash = series->dash};
        draw_outline(canvas, frame, &low, n, end);
    }
}

/* Bars have an outline of their own, so that those of a moment are seen; where there is none, there is no outline either. */
static bool is_gap(const struct cdl_chart_series *series, size_t n)
{
    const bool bars = series->shape == CDL_SHAPE_BARS || series->shape == CDL_SHAPE_BARS_DOWN;
    return isnan(series->values[n]) || (bars && series->values[n] <= 0);
}

/* Each stretch without a gap by itself. */
static void draw_series(struct cdl_canvas *canvas, const struct cdl_frame *frame, const struct cdl_chart_series *series,
                        size_t steps)
{
    for (size_t n = 0; n < steps;) {
        size_t end = n;
        while (end < steps && !is_gap(series, end))
            end++;
        if (end > n)
            draw_run(canvas, frame, series, n, end);
        n = end + 1;
    }
}

static void draw_level(struct cdl_canvas *canvas, const struct cdl_frame *frame, const struct cdl_chart_line *line)
{
    const double y = cdl_frame_y(frame, line->at);
    cdl_draw_move(canvas, frame->left, y);
    cdl_draw_line(canvas, frame->right, y);
    cdl_draw_stroke(canvas, CDL_INK_TEXT, CDL_DASH_LONG, false);
    cdl_draw_text(canvas, frame->right - 4, y - 4, CDL_ANCHOR_END, CDL_LETTER_SMALL, CDL_INK_TEXT, line->label);
}

static struct cdl_frame draw_panel(struct cdl_canvas *canvas, double top, const struct cdl_chart *chart,
                                   const struct cdl_chart_panel *panel)
{
    top = cdl_draw_words(canvas, top, CDL_LETTER_BOLD, CDL_INK_TEXT, panel->title);
    top = cdl_draw_legend(canvas, top, panel->series, panel->series_count);
    const struct cdl_frame frame = frame_of(canvas, chart, panel, panel->line_count > 0 ? top + 10 : top);
    cdl_draw_values(canvas, &frame);
    for (size_t i = 0; i < panel->series_count; i++)
        draw_series(canvas, &frame, &panel->series[i], chart->steps);
    for (size_t i = 0; i < panel->line_count; i++)
        draw_level(canvas, &frame, &panel->lines[i]);
    return frame;
}

double cdl_draw_panels(struct cdl_canvas *canvas, double top, const struct cdl_chart *chart)
{
    for (size_t i = 0; i < chart->panel_count; i++) {
        const struct cdl_frame frame = draw_panel(canvas, top, chart, &chart->panels[i]);
        top = i + 1 < chart->panel_count ? frame.bottom + 14 : draw_time(canvas, &frame, chart);
    }
    return top;
}

double cdl_chart_draw(const struct cdl_chart *chart, struct cdl_canvas *canvas)
{
    double top = 0;
    if (canvas->titled) {
        top = cdl_draw_words(canvas, top, CDL_LETTER_TITLE, CDL_INK_TEXT, chart->title) + 2;
        top = cdl_draw_words(canvas, top, CDL_LETTER_SMALL, CDL_INK_SOFT, chart->note) + 10;
    }
    if (chart->panel_count == 0 && chart->row_count == 0)
        return top + 1;
    switch (chart->kind) {
    case CDL_CHART_OF_TIME:
        return cdl_draw_panels(canvas, top, chart);
    case CDL_CHART_OF_PEAKS:
        return cdl_draw_peaks(canvas, top, chart);
    case CDL_CHART_OF_ROWS:
        break;
    }
    return cdl_draw_rows(canvas, top, chart);
}
