/* Charts as files, by cairo. */
#include <errno.h>

#include <cairo-svg.h>
#include <cairo.h>
#include <fontconfig/fontconfig.h>

#include "replay/chart.h"

#define MARGIN 20.0
#define DOTS 2.0 /* of a PNG, to a pixel */

struct file_canvas {
    struct cdl_canvas canvas;
    cairo_t *cairo;
};

/* On white: Okabe and Ito's colours (2008), and greys. */
static const double palette[CDL_INKS][3] = {
    [CDL_INK_TEXT] = {0.10, 0.12, 0.14},     [CDL_INK_SOFT] = {0.34, 0.38, 0.42},
    [CDL_INK_GRID] = {0.85, 0.87, 0.89},     [CDL_INK_OFFERED] = {0.45, 0.48, 0.52},
    [CDL_INK_ADMITTED] = {0.00, 0.45, 0.70}, [CDL_INK_REFUSED] = {0.80, 0.33, 0.00},
    [CDL_INK_SECOND] = {0.00, 0.52, 0.38},
};

static cairo_t *cairo_of(struct cdl_canvas *canvas)
{
    return ((struct file_canvas *)(void *)canvas)->cairo;
}

static void set_ink(cairo_t *cairo, enum cdl_ink ink, double opacity)
{
    cairo_set_source_rgba(cairo, palette[ink][0], palette[ink][1], palette[ink][2], opacity);
}

static void file_move(struct cdl_canvas *canvas, double x, double y)
{
    cairo_move_to(cairo_of(canvas), x, y);
}

static void file_line(struct cdl_canvas *canvas, double x, double y)
{
    cairo_line_to(cairo_of(canvas), x, y);
}

static void file_fill(struct cdl_canvas *canvas, enum cdl_ink ink, bool faint)
{
    cairo_t *cairo = cairo_of(canvas);
    set_ink(cairo, ink, faint ? 0.25 : 1);
    cairo_fill_preserve(cairo);
    cairo_set_line_width(cairo, 0.7);
    cairo_set_dash(cairo, NULL, 0, 0);
    if (!faint)
        cairo_stroke(cairo);
    cairo_new_path(cairo);
}

static void file_stroke(struct cdl_canvas *canvas, enum cdl_ink ink, enum cdl_dash dash, bool thick)
{
    static const double dashes[CDL_DASHES][2] = {[CDL_DASH_LONG] = {7, 3}, [CDL_DASH_SHORT] = {2, 2}};
    cairo_t *cairo = cairo_of(canvas);
    set_ink(cairo, ink, 1);
    cairo_set_line_width(cairo, thick ? 1.8 : 1);
    cairo_set_dash(cairo, dashes[dash], dash == CDL_DASH_NONE ? 0 : 2, 0);
    cairo_stroke(cairo);
}

static void file_text(struct cdl_canvas *canvas, double x, double y, enum cdl_anchor anchor, enum cdl_letter letter,
                      enum cdl_ink ink, struct cdl_slice text)
{
    char bytes[512]; /* more than any text of a chart has */
    snprintf(bytes, sizeof bytes, "%.*s", CDL_SLICE_ARG(cdl_slice_head(text, text.length < 511 ? text.length : 511)));
    cairo_t *cairo = cairo_of(canvas);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           letter == CDL_LETTER_SMALL ? CAIRO_FONT_WEIGHT_NORMAL : CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(cairo, letter == CDL_LETTER_TITLE ? CDL_TITLE_PX : CDL_SMALL_PX);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, bytes, &extents);
    const double before = anchor == CDL_ANCHOR_START ? 0 : anchor == CDL_ANCHOR_MIDDLE ? 0.5 : 1;
    set_ink(cairo, ink, 1);
    cairo_move_to(cairo, x - extents.x_advance * before, y);
    cairo_show_text(cairo, bytes);
    cairo_new_path(cairo);
}

static const struct cdl_canvas_kind file_kind = {file_move, file_line, file_fill, file_stroke, file_text};

static cairo_status_t write_bytes(void *closure, const unsigned char *bytes, unsigned length)
{
    return fwrite(bytes, 1, length, closure) == length ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static cairo_surface_t *new_surface(FILE *to, enum cdl_chart_format format, double width, double height)
{
    if (format == CDL_CHART_SVG)
        return cairo_svg_surface_create_for_stream(write_bytes, to, width, height);
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(width * DOTS + 0.5),
                                                          (int)(height * DOTS + 0.5));
    cairo_surface_set_device_scale(surface, DOTS, DOTS);
    return surface;
}

void cdl_chart_files_end(void)
{
    cairo_debug_reset_static_data();
    FcFini();
}

int cdl_chart_write_file(FILE *to, enum cdl_chart_format format, const struct cdl_chart *chart)
{
    struct file_canvas file = {.canvas = {.width = CDL_CHART_WIDE - 2 * MARGIN, .titled = true}};
    const double height = cdl_chart_draw(chart, &file.canvas) + 2 * MARGIN;
    cairo_surface_t *surface = new_surface(to, format, CDL_CHART_WIDE, height);
    file.cairo = cairo_create(surface);
    file.canvas.kind = &file_kind;
    cairo_set_source_rgb(file.cairo, 1, 1, 1);
    cairo_paint(file.cairo);
    cairo_translate(file.cairo, MARGIN, MARGIN);
    errno = 0;
    cdl_chart_draw(chart, &file.canvas);
    cairo_status_t status = cairo_status(file.cairo);
    cairo_destroy(file.cairo);
    if (status == CAIRO_STATUS_SUCCESS && format == CDL_CHART_PNG)
        status = cairo_surface_write_to_png_stream(surface, write_bytes, to);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        return 0;
    if (errno == 0)
        errno = status == CAIRO_STATUS_NO_MEMORY ? ENOMEM : EIO;
    return -1;
}
