/* A canvas that is an <svg> element of the page. Colours are classes, so that the page's style sheet turns them with the reader's choice of
 * light or dark; text stays text. */
#include "replay/chart.h"

struct page_canvas {
    struct cdl_canvas canvas;
    FILE *to;
    bool in_path;
    char x[24], y[24]; /* where the path stands, as it was written */
};

void cdl_write_escaped(FILE *to, struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        const char c = text.bytes[i];
        if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'')
            fprintf(to, "&#%d;", c);
        else
            fputc(c, to);
    }
}

/* Half a pixel more or less is not seen, a tenth is enough. */
static void show_place(char text[24], double at)
{
    const int length = snprintf(text, 24, "%.1f", at);
    if (length > 2 && length < 24 && text[length - 1] == '0')
        text[length - 2] = '\0';
}

static struct page_canvas *begin_path(struct cdl_canvas *canvas)
{
    struct page_canvas *page = (struct page_canvas *)(void *)canvas;
    if (!page->in_path)
        fputs("<path d=\"", page->to);
    page->in_path = true;
    return page;
}

static void page_move(struct cdl_canvas *canvas, double x, double y)
{
    struct page_canvas *page = begin_path(canvas);
    show_place(page->x, x);
    show_place(page->y, y);
    fprintf(page->to, "M%s %s", page->x, page->y);
}

static void page_line(struct cdl_canvas *canvas, double x, double y)
{
    struct page_canvas *page = begin_path(canvas);
    char new_x[24], new_y[24];
    show_place(new_x, x);
    show_place(new_y, y);
    const bool same_x = strcmp(new_x, page->x) == 0, same_y = strcmp(new_y, page->y) == 0;
    if (same_x && same_y)
        return;
    if (same_y)
        fprintf(page->to, "H%s", new_x);
    else if (same_x)
        fprintf(page->to, "V%s", new_y);
    else
        fprintf(page->to, "L%s %s", new_x, new_y);
    memcpy(page->x, new_x, sizeof new_x);
    memcpy(page->y, new_y, sizeof new_y);
}

static void page_fill(struct cdl_canvas *canvas, enum cdl_ink ink, bool faint)
{
    struct page_canvas *page = begin_path(canvas);
    fprintf(page->to, "\" class=\"i%d a%s\"/>\n", ink, faint ? " f" : "");
    page->in_path = false;
}

static void page_stroke(struct cdl_canvas *canvas, enum cdl_ink ink, enum cdl_dash dash, bool thick)
{
    struct page_canvas *page = begin_path(canvas);
    fprintf(page->to, "\" class=\"i%d l d%d%s\"/>\n", ink, dash, thick ? " t" : "");
    page->in_path = false;
}

static void page_text(struct cdl_canvas *canvas, double x, double y, enum cdl_anchor anchor, enum cdl_letter letter,
                      enum cdl_ink ink, struct cdl_slice text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    struct page_canvas *page = (struct page_canvas *)(void *)canvas;
    fprintf(page->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"i%d%s\">", x, y, anchors[anchor], ink,
            letter == CDL_LETTER_SMALL ? "" : " b");
    cdl_write_escaped(page->to, text);
    fputs("</text>\n", page->to);
}

static const struct cdl_canvas_kind page_kind = {page_move, page_line, page_fill, page_stroke, page_text};

void cdl_chart_write_element(FILE *to, const struct cdl_chart *chart, double width, const char *class_name)
{
    struct page_canvas page = {.canvas = {.width = width}, .to = to};
    const double height = cdl_chart_draw(chart, &page.canvas);
    fprintf(to,
            "<svg class=\"%s\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">\n<title>",
            class_name, width, height);
    cdl_write_escaped(to, cdl_slice_of(chart->title));
    fputs("</title>\n", to);
    page.canvas.kind = &page_kind;
    cdl_chart_draw(chart, &page.canvas);
    fputs("</svg>\n", to);
}
