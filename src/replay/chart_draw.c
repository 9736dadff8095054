#include "replay/chart_draw.h"

#include <math.h>

#include "base/utf8.h"
#include "replay/chart_scale.h"
#include "replay/report_numbers.h"

#define SWATCH 22.0
#define HATCH 5.0 /* from line to line */

double cdl_frame_x(const struct cdl_frame *frame, double at)
{
    return frame->left + (frame->right - frame->left) * at / frame->length;
}

double cdl_frame_y(const struct cdl_frame *frame, double value)
{
    if (value < 0)
        return frame->zero - (frame->bottom - frame->zero) * value / frame->deepest;
    return frame->zero - (frame->zero - frame->top) * value / frame->highest;
}

void cdl_draw_move(struct cdl_canvas *canvas, double x, double y)
{
    if (canvas->kind != NULL)
        canvas->kind->move(canvas, x, y);
}

void cdl_draw_line(struct cdl_canvas *canvas, double x, double y)
{
    if (canvas->kind != NULL)
        canvas->kind->line(canvas, x, y);
}

void cdl_draw_fill(struct cdl_canvas *canvas, enum cdl_ink ink, bool faint)
{
    if (canvas->kind != NULL)
        canvas->kind->fill(canvas, ink, faint);
}

void cdl_draw_stroke(struct cdl_canvas *canvas, enum cdl_ink ink, enum cdl_dash dash, bool thick)
{
    if (canvas->kind != NULL)
        canvas->kind->stroke(canvas, ink, dash, thick);
}

static void draw_slice(struct cdl_canvas *canvas, double x, double y, enum cdl_anchor anchor, enum cdl_letter letter,
                       enum cdl_ink ink, struct cdl_slice text)
{
    if (canvas->kind != NULL && text.length > 0)
        canvas->kind->text(canvas, x, y, anchor, letter, ink, text);
}

void cdl_draw_text(struct cdl_canvas *canvas, double x, double y, enum cdl_anchor anchor, enum cdl_letter letter,
                   enum cdl_ink ink, const char *text)
{
    draw_slice(canvas, x, y, anchor, letter, ink, cdl_slice_of(text));
}

/* ---- words ---- */

static double letter_px(enum cdl_letter letter)
{
    return letter == CDL_LETTER_TITLE ? CDL_TITLE_PX : CDL_SMALL_PX;
}

double cdl_text_width(const char *text, enum cdl_letter letter)
{
    size_t characters = 0;
    for (struct cdl_slice rest = cdl_slice_of(text); rest.length > 0; characters++)
        rest = cdl_slice_from(rest, cdl_utf8_first(rest).length);
    return (double)characters * CDL_LETTER_WIDTH * letter_px(letter);
}

/* As much of a text as fits into a line, up to a blank if there is one. */
static struct cdl_slice first_line(struct cdl_slice text, size_t characters)
{
    size_t end = 0, blank = 0;
    while (end < text.length && characters-- > 0) {
        end += cdl_utf8_first(cdl_slice_from(text, end)).length;
        if (end < text.length && text.bytes[end] == ' ')
            blank = end;
    }
    return cdl_slice_head(text, end < text.length && blank > 0 ? blank : end);
}

double cdl_draw_words(struct cdl_canvas *canvas, double top, enum cdl_letter letter, enum cdl_ink ink, const char *text)
{
    const double px = letter_px(letter);
    const size_t characters = (size_t)(canvas->width / (CDL_LETTER_WIDTH * px));
    struct cdl_slice rest = cdl_slice_of(text);
    while (rest.length > 0) {
        const struct cdl_slice line = first_line(rest, characters);
        draw_slice(canvas, 0, top + px, CDL_ANCHOR_START, letter, ink, line);
        top += px * 1.4;
        rest = cdl_slice_trim(cdl_slice_from(rest, line.length));
    }
    return top;
}

/* ---- legends ---- */

static void draw_outline(struct cdl_canvas *canvas, double left, double top, double right, double bottom)
{
    cdl_draw_move(canvas, left, top);
    cdl_draw_line(canvas, right, top);
    cdl_draw_line(canvas, right, bottom);
    cdl_draw_line(canvas, left, bottom);
    cdl_draw_line(canvas, left, top);
}

static void draw_swatch(struct cdl_canvas *canvas, double x, double y, const struct cdl_chart_series *series)
{
    switch (series->shape) {
    case CDL_SHAPE_AREA:
    case CDL_SHAPE_LINE:
        cdl_draw_move(canvas, x, y);
        cdl_draw_line(canvas, x + SWATCH, y);
        cdl_draw_stroke(canvas, series->ink, series->dash, true);
        break;
    case CDL_SHAPE_BARS:
    case CDL_SHAPE_BARS_DOWN:
    case CDL_SHAPE_HATCHED:
        cdl_draw_box(canvas, x, y - 4, x + SWATCH, y + 4, series->ink, series->shape == CDL_SHAPE_HATCHED);
        break;
    case CDL_SHAPE_BAND:
        draw_outline(canvas, x, y - 4, x + SWATCH, y + 4);
        cdl_draw_fill(canvas, series->ink, true);
        cdl_draw_move(canvas, x, y + 4);
        cdl_draw_line(canvas, x + SWATCH, y + 4);
        cdl_draw_stroke(canvas, series->ink, CDL_DASH_NONE, true);
        break;
    }
}

double cdl_draw_legend(struct cdl_canvas *canvas, double top, const struct cdl_chart_series *series, size_t count)
{
    double x = 0;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (series[i].name == NULL)
            continue;
        const double width = SWATCH + 6 + cdl_text_width(series[i].name, CDL_LETTER_SMALL) + 14;
        if (x > 0 && x + width > canvas->width) {
            x = 0;
            top += CDL_SMALL_PX * 1.6;
        }
        const double middle = top + CDL_SMALL_PX * 0.7;
        draw_swatch(canvas, x, middle, &series[i]);
        cdl_draw_text(canvas, x + SWATCH + 6, middle + CDL_SMALL_PX * 0.36, CDL_ANCHOR_START, CDL_LETTER_SMALL,
                      CDL_INK_TEXT, series[i].name);
        x += width;
        any = true;
    }
    return any ? top + CDL_SMALL_PX * 1.8 : top;
}

/* ---- boxes and axes ---- */

/* Diagonals from the lower left to the upper right: x + y is the same all along one. */
static void draw_hatch(struct cdl_canvas *canvas, double left, double top, double right, double bottom,
                       enum cdl_ink ink)
{
    bool any = false;
    /* Counted from the picture's corner, so that boxes beside each other are hatched alike. */
    for (int n = (int)((left + top) / HATCH) + 1; n * HATCH < right + bottom; n++) {
        const double sum = n * HATCH;
        const double from_x = fmax(left, sum - bottom), to_x = fmin(right, sum - top);
        cdl_draw_move(canvas, from_x, sum - from_x);
        cdl_draw_line(canvas, to_x, sum - to_x);
        any = true;
    }
    if (any)
        cdl_draw_stroke(canvas, ink, CDL_DASH_NONE, false);
}

void cdl_draw_box(struct cdl_canvas *canvas, double left, double top, double right, double bottom, enum cdl_ink ink,
                  bool hatched)
{
    draw_outline(canvas, left, top, right, bottom);
    cdl_draw_fill(canvas, ink, hatched);
    if (hatched)
        draw_hatch(canvas, left, top, right, bottom, ink);
}

static void draw_value(struct cdl_canvas *canvas, const struct cdl_frame *frame, double value)
{
    const double y = cdl_frame_y(frame, value);
    cdl_draw_text(canvas, frame->left - 6, y + 4, CDL_ANCHOR_END, CDL_LETTER_SMALL, CDL_INK_SOFT,
                  cdl_show_short(fabs(value)).text);
    cdl_draw_move(canvas, frame->left, y);
    cdl_draw_line(canvas, frame->right, y);
    cdl_draw_stroke(canvas, value == 0 ? CDL_INK_SOFT : CDL_INK_GRID, CDL_DASH_NONE, false);
}

/* Both sides of zero are to one scale. */
void cdl_draw_values(struct cdl_canvas *canvas, const struct cdl_frame *frame)
{
    const double room = frame->bottom - frame->top;
    const double step = cdl_scale_step(frame->highest + frame->deepest, room < 100 ? 3 : 6);
    for (int n = -(int)(frame->deepest / step + 1e-9); n * step <= frame->highest * (1 + 1e-9); n++)
        draw_value(canvas, frame, n * step);
}
