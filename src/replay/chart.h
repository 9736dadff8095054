/* Charts: what is to be seen, and drawing it. What a chart tells of a report is report_charts.c's business.
 *
 * A chart is one of three kinds: panels over one axis of time; a histogram of keys by their peaks, on a logarithmic axis; rows of bars. It
 * is drawn on any width; its height follows. A chart without data is its note alone.
 *
 * Texts are bounded and ready to be shown (report_numbers.h); a name that a client chose is at most CDL_CHART_COLUMNS wide. */
#ifndef CDL_REPLAY_CHART_H
#define CDL_REPLAY_CHART_H

#include <stdint.h>
#include <stdio.h>

#include "replay/canvas.h"
#include "replay/report_write.h"

#define CDL_CHART_COLUMNS 40u
#define CDL_CHART_SERIES 3u /* of a panel */
#define CDL_CHART_LINES 2u
#define CDL_CHART_BARS 2u  /* of a row */
#define CDL_CHART_PARTS 2u /* of a bar */

#define CDL_CHART_WIDE 800.0
#define CDL_CHART_NARROW 344.0 /* on a phone */

enum cdl_chart_shape {
    CDL_SHAPE_LINE,
    CDL_SHAPE_AREA,
    CDL_SHAPE_BARS,
    CDL_SHAPE_BARS_DOWN, /* below the axis: refusals beneath what was admitted */
    CDL_SHAPE_HATCHED,   /* a part of a row */
    CDL_SHAPE_BAND,      /* from `lows` to `values` */
};

struct cdl_chart_series {
    const char *name; /* in the legend; NULL: not in it */
    enum cdl_chart_shape shape;
    enum cdl_ink ink;
    enum cdl_dash dash;
    const double *values, *lows; /* for each step, >= 0; NaN: nothing is known */
};

/* A value that is drawn in as a line, with its name. */
struct cdl_chart_line {
    double at;
    char label[64];
};

struct cdl_chart_panel {
    char title[CDL_CHART_COLUMNS * 4 + 128]; /* "": none */
    struct cdl_chart_series series[CDL_CHART_SERIES];
    size_t series_count;
    struct cdl_chart_line lines[CDL_CHART_LINES];
    size_t line_count;
};

/* In the parts of a bar, from left to right: admitted, refused. */
struct cdl_chart_row {
    char label[CDL_CHART_COLUMNS * 4 + 1];
    char note[128];
    double bars[CDL_CHART_BARS][CDL_CHART_PARTS];
};

enum cdl_chart_kind {
    CDL_CHART_OF_TIME,
    CDL_CHART_OF_PEAKS, /* one panel of one series, whose values are those of struct cdl_replay_peaks; the lines stand upright */
    CDL_CHART_OF_ROWS,
};

struct cdl_chart {
    char name[64]; /* of its file, without ending */
    char title[CDL_CHART_COLUMNS * 4 + 128];
    char note[512]; /* what is to be seen, in a sentence or two */
    enum cdl_chart_kind kind;
    int64_t begin_ns, step_ns;
    size_t steps;
    struct cdl_chart_panel *panels;
    size_t panel_count;
    struct cdl_chart_row *rows;
    size_t row_count, bar_count;
    struct cdl_chart_series
        parts[CDL_CHART_BARS * CDL_CHART_PARTS]; /* the legend of rows: names and inks, bar by bar */
};

/* Draws a chart, and says how high it is. A canvas without a kind only measures. */
double cdl_chart_draw(const struct cdl_chart *chart, struct cdl_canvas *canvas);

/* The chart as a file of its own, CDL_CHART_WIDE pixels wide; a PNG has two dots to a pixel. 0, or -1 with errno. */
int cdl_chart_write_file(FILE *to, enum cdl_chart_format format, const struct cdl_chart *chart);

/* After the last file: gives back what cairo and fontconfig keep of fonts. No other thread may be using them. */
void cdl_chart_files_end(void);

/* The chart as an <svg> element for a page. Its colours and dashes are the classes that report_html.c's style sheet has. */
void cdl_chart_write_element(FILE *to, const struct cdl_chart *chart, double width, const char *class_name);

/* Text with what HTML and XML give a meaning to as references. */
void cdl_write_escaped(FILE *to, struct cdl_slice text);

#endif
