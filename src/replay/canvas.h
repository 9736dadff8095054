/* Where charts are drawn: a few primitives, so that one drawing code (chart.c) makes SVG and PNG files and the page's own SVG.
 *
 * A colour is named by what it stands for. Each kind of canvas has its own palette: files a fixed one on white, the page two that follow the
 * reader's choice of light or dark. All are told apart by people who see red and green alike, and nothing is told by colour alone: lines
 * differ in their dashes, areas in hatching, and words stand beside them.
 *
 * Lengths are in pixels, y points down. */
#ifndef CDL_REPLAY_CANVAS_H
#define CDL_REPLAY_CANVAS_H

#include "base/slice.h"

enum cdl_ink {
    CDL_INK_TEXT,
    CDL_INK_SOFT, /* words at the axes */
    CDL_INK_GRID,
    CDL_INK_OFFERED,
    CDL_INK_ADMITTED,
    CDL_INK_REFUSED,
    CDL_INK_SECOND, /* the second of two policies */
    CDL_INKS,
};

enum cdl_dash {
    CDL_DASH_NONE,
    CDL_DASH_LONG,
    CDL_DASH_SHORT,
    CDL_DASHES,
};

enum cdl_anchor {
    CDL_ANCHOR_START,
    CDL_ANCHOR_MIDDLE,
    CDL_ANCHOR_END,
};

enum cdl_letter {
    CDL_LETTER_SMALL, /* CDL_SMALL_PX high */
    CDL_LETTER_BOLD,  /* the same, bold */
    CDL_LETTER_TITLE, /* CDL_TITLE_PX, bold */
};

#define CDL_SMALL_PX 11.0
#define CDL_TITLE_PX 16.0
#define CDL_LETTER_WIDTH 0.6 /* of its height, as is reckoned with: a canvas need not know its letters */

struct cdl_canvas;

/* What a kind of canvas does. A path is any number of pieces, each begun by `move`; `fill` and `stroke` paint all of it and end
 * it. What is filled, unless faintly, has a hair's outline, so that nothing is too narrow to be seen. */
struct cdl_canvas_kind {
    void (*move)(struct cdl_canvas *canvas, double x, double y);
    void (*line)(struct cdl_canvas *canvas, double x, double y);
    void (*fill)(struct cdl_canvas *canvas, enum cdl_ink ink, bool faint);
    void (*stroke)(struct cdl_canvas *canvas, enum cdl_ink ink, enum cdl_dash dash, bool thick);
    /* (x, y) is the text's base line at its anchor. The text is as cdl_show_name writes it, or our own. */
    void (*text)(struct cdl_canvas *canvas, double x, double y, enum cdl_anchor anchor, enum cdl_letter letter,
                 enum cdl_ink ink, struct cdl_slice text);
};

struct cdl_canvas {
    const struct cdl_canvas_kind *kind;
    double width;
    bool titled; /* the chart's title and note are drawn, too; the page has words of its own for them */
};

#endif
