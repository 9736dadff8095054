/* What the kinds of charts share: words, legends, frames. Every function does nothing but measure on a canvas without a kind, and those
 * that return a height begin at `top` and return where they ended. */
#ifndef CDL_REPLAY_CHART_DRAW_H
#define CDL_REPLAY_CHART_DRAW_H

#include "replay/chart.h"

/* Where values are drawn. x runs from 0 to `length` between left and right, y from 0 at `zero` to `highest` at `top`, and to `deepest`
 * at `bottom` if there is anything below. */
struct cdl_frame {
    double left, right, top, zero, bottom;
    double length, highest, deepest;
};

double cdl_frame_x(const struct cdl_frame *frame, double at);
double cdl_frame_y(const struct cdl_frame *frame, double value);

void cdl_draw_move(struct cdl_canvas *canvas, double x, double y);
void cdl_draw_line(struct cdl_canvas *canvas, double x, double y);
void cdl_draw_fill(struct cdl_canvas *canvas, enum cdl_ink ink, bool faint);
void cdl_draw_stroke(struct cdl_canvas *canvas, enum cdl_ink ink, enum cdl_dash dash, bool thick);
void cdl_draw_text(struct cdl_canvas *canvas, double x, double y, enum cdl_anchor anchor, enum cdl_letter letter,
                   enum cdl_ink ink, const char *text);

double cdl_text_width(const char *text, enum cdl_letter letter);

/* Words, broken into lines where they do not fit. */
double cdl_draw_words(struct cdl_canvas *canvas, double top, enum cdl_letter letter, enum cdl_ink ink,
                      const char *text);

/* A swatch and a name for each series that has one. */
double cdl_draw_legend(struct cdl_canvas *canvas, double top, const struct cdl_chart_series *series, size_t count);

/* A box: filled, or hatched, which refusals are. */
void cdl_draw_box(struct cdl_canvas *canvas, double left, double top, double right, double bottom, enum cdl_ink ink,
                  bool hatched);

/* Lines at round values, and the values; the axis itself. */
void cdl_draw_values(struct cdl_canvas *canvas, const struct cdl_frame *frame);

/* The kinds. */
double cdl_draw_panels(struct cdl_canvas *canvas, double top, const struct cdl_chart *chart);
double cdl_draw_peaks(struct cdl_canvas *canvas, double top, const struct cdl_chart *chart);
double cdl_draw_rows(struct cdl_canvas *canvas, double top, const struct cdl_chart *chart);

#endif
