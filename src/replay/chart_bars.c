/* Bars: keys by their peaks, and rows of names. */
#include <math.h>

#include "replay/chart_draw.h"
#include "replay/report_numbers.h"

/* ---- keys by their peaks ---- */

#define BINS_PER_DOUBLING 4.0
#define PEAKS_HEIGHT 150.0

/* Counts of keys reach from one to millions, and the few are what matters: the axis is that of log(1 + keys). */
static double scaled(double keys)
{
    return log10(1 + keys);
}

/* The first bin after this one that a whole number falls into: 1 is alone in [1, 2). */
static size_t next_bin(size_t bin)
{
    do
        bin++;
    while (ceil(exp2((double)bin / BINS_PER_DOUBLING) - 1e-9) >= exp2((double)(bin + 1) / BINS_PER_DOUBLING) - 1e-9);
    return bin;
}

static double place_of(double peak)
{
    return log2(fmax(peak, 1)) * BINS_PER_DOUBLING;
}

/* The axes begin at a peak of 1, end behind the last bar and the lines, and are at least a decade long. */
static struct cdl_frame peaks_frame(const struct cdl_canvas *canvas, const struct cdl_chart_panel *panel, double top)
{
    const double *keys = panel->series[0].values;
    double most = 0;
    double end = place_of(10);
    for (size_t bin = 0; bin < CDL_REPLAY_PEAK_BINS; bin = next_bin(bin)) {
        most = fmax(most, keys[bin]);
        if (keys[bin] > 0)
            end = fmax(end, (double)next_bin(bin));
    }
    for (size_t i = 0; i < panel->line_count; i++)
        end = fmax(end, place_of(panel->lines[i].at) + 2);
    const double first = top + 14.0 * (double)panel->line_count;
    return (struct cdl_frame){
        .left = 44,
        .right = canvas->width - 8,
        .top = first + 6,
        .zero = first + 6 + PEAKS_HEIGHT,
        .bottom = first + 6 + PEAKS_HEIGHT,
        .length = end,
        .highest = scaled(fmax(most, 1)) * 1.05,
    };
}

static void draw_decades_of_keys(struct cdl_canvas *canvas, const struct cdl_frame *frame)
{
    const int decades = (int)frame->highest;
    for (int n = -1; n <= decades; n += decades > 6 ? 2 : 1) {
        const double keys = n < 0 ? 0 : pow(10, n);
        const double y = cdl_frame_y(frame, scaled(keys));
        cdl_draw_text(canvas, frame->left - 6, y + 4, CDL_ANCHOR_END, CDL_LETTER_SMALL, CDL_INK_SOFT,
                      cdl_show_short(keys).text);
        cdl_draw_move(canvas, frame->left, y);
        cdl_draw_line(canvas, frame->right, y);
        cdl_draw_stroke(canvas, n < 0 ? CDL_INK_SOFT : CDL_INK_GRID, CDL_DASH_NONE, false);
    }
}

static double draw_decades_of_peaks(struct cdl_canvas *canvas, const struct cdl_frame *frame)
{
    int step = 1;
    while (frame->length / (place_of(pow(10, step))) > (frame->right - frame->left) / 40)
        step++;
    for (int n = 0; place_of(pow(10, n)) <= frame->length; n += step) {
        const double x = cdl_frame_x(frame, place_of(pow(10, n)));
        cdl_draw_move(canvas, x, frame->bottom);
        cdl_draw_line(canvas, x, frame->bottom + 4);
        cdl_draw_stroke(canvas, CDL_INK_SOFT, CDL_DASH_NONE, false);
        cdl_draw_text(canvas, x, frame->bottom + 16, CDL_ANCHOR_MIDDLE, CDL_LETTER_SMALL, CDL_INK_SOFT,
                      cdl_show_short(pow(10, n)).text);
    }
    return frame->bottom + 20;
}

/* Names stand above, one line each, on the side where there is room. */
static void draw_upright(struct cdl_canvas *canvas, const struct cdl_frame *frame, const struct cdl_chart_line *line,
                         size_t number)
{
    const double x = cdl_frame_x(frame, place_of(line->at));
    const double y = frame->top - 8 - 14.0 * (double)number;
    cdl_draw_move(canvas, x, y + 3);
    cdl_draw_line(canvas, x, frame->bottom);
    cdl_draw_stroke(canvas, CDL_INK_TEXT, number == 0 ? CDL_DASH_NONE : CDL_DASH_LONG, true);
    const bool to_the_left = x > (frame->left + frame->right) / 2;
    cdl_draw_text(canvas, to_the_left ? x - 4 : x + 4, y + 4, to_the_left ? CDL_ANCHOR_END : CDL_ANCHOR_START,
                  CDL_LETTER_SMALL, CDL_INK_TEXT, line->label);
}

/* Bars beyond the last line are those of keys that asked for more than they could get. */
double cdl_draw_peaks(struct cdl_canvas *canvas, double top, const struct cdl_chart *chart)
{
    const struct cdl_chart_panel *panel = &chart->panels[0];
    const struct cdl_frame frame = peaks_frame(canvas, panel, top);
    const double *keys = panel->series[0].values;
    double limit = HUGE_VAL;
    for (size_t i = 0; i < panel->line_count; i++)
        limit = place_of(panel->lines[i].at);
    draw_decades_of_keys(canvas, &frame);
    for (size_t bin = 0; bin < CDL_REPLAY_PEAK_BINS; bin = next_bin(bin))
        if (keys[bin] > 0)
            cdl_draw_box(canvas, cdl_frame_x(&frame, (double)bin) + 1, cdl_frame_y(&frame, scaled(keys[bin])),
                         cdl_frame_x(&frame, (double)next_bin(bin)) - 1, frame.zero,
                         (double)bin > limit ? CDL_INK_REFUSED : CDL_INK_ADMITTED, (double)bin > limit);
    for (size_t i = 0; i < panel->line_count; i++)
        draw_upright(canvas, &frame, &panel->lines[i], i);
    return draw_decades_of_peaks(canvas, &frame);
}

/* ---- rows ---- */

#define BAR 10.0
#define LINE_HEIGHT 15.0

static double row_sum(const double *parts)
{
    return parts[0] + parts[1];
}

/* Do a name and its numbers stand on one line, in every row? */
static bool fits_one_line(const struct cdl_canvas *canvas, const struct cdl_chart *chart)
{
    bool fits = true;
    for (size_t i = 0; i < chart->row_count; i++)
        fits = fits && cdl_text_width(chart->rows[i].label, CDL_LETTER_SMALL) +
                               cdl_text_width(chart->rows[i].note, CDL_LETTER_SMALL) + 12 <=
                           canvas->width;
    return fits;
}

static void draw_bar(struct cdl_canvas *canvas, double top, const double *parts, const struct cdl_chart_series *looks,
                     double most)
{
    double left = 0;
    for (size_t i = 0; i < CDL_CHART_PARTS; i++) {
        /* What is there is seen, be it ever so small. */
        const double width = parts[i] <= 0 ? 0 : fmax(1, parts[i] / most * (canvas->width - 4));
        if (width > 0)
            cdl_draw_box(canvas, left, top, left + width, top + BAR, looks[i].ink, looks[i].shape == CDL_SHAPE_HATCHED);
        left += width;
    }
}

double cdl_draw_rows(struct cdl_canvas *canvas, double top, const struct cdl_chart *chart)
{
    double most = 1;
    for (size_t i = 0; i < chart->row_count; i++)
        for (size_t bar = 0; bar < chart->bar_count; bar++)
            most = fmax(most, row_sum(chart->rows[i].bars[bar]));
    const bool one_line = fits_one_line(canvas, chart);
    top = cdl_draw_legend(canvas, top, chart->parts, chart->bar_count * CDL_CHART_PARTS);
    for (size_t i = 0; i < chart->row_count; i++) {
        const struct cdl_chart_row *row = &chart->rows[i];
        cdl_draw_text(canvas, 0, top + CDL_SMALL_PX, CDL_ANCHOR_START, CDL_LETTER_SMALL, CDL_INK_TEXT, row->label);
        if (!one_line)
            top += LINE_HEIGHT;
        cdl_draw_text(canvas, one_line ? canvas->width - 4 : 0, top + CDL_SMALL_PX,
                      one_line ? CDL_ANCHOR_END : CDL_ANCHOR_START, CDL_LETTER_SMALL, CDL_INK_SOFT, row->note);
        top += LINE_HEIGHT;
        for (size_t bar = 0; bar < chart->bar_count; bar++)
            draw_bar(canvas, top + (BAR + 2) * (double)bar, row->bars[bar], &chart->parts[bar * CDL_CHART_PARTS], most);
        top += (BAR + 2) * (double)chart->bar_count + 8;
    }
    return top;
}
