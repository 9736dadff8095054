/* The report as one page. It needs nothing from anywhere: the style sheet, the charts and the JSON report are within it, and its content
 * security policy forbids whatever might be slipped in through a key's name: no script runs at all, and of styles only ours, by its hash.
 *
 * It follows the reader's choice of light or dark and the width of the screen by its style sheet alone (page.css). A chart that is as
 * broad as the page stands there twice, drawn for both widths, and one of them is shown. */
#include "replay/report_page.h"

#include <errno.h>
#include <stdlib.h>

#include <openssl/evp.h>
#include <page_style.h>

#include "replay/report_charts.h"
#include "replay/report_numbers.h"

/* ---- head ---- */

/* "sha256-...", as a content security policy names what it allows. */
static int write_style_hash(FILE *to)
{
    unsigned char digest[EVP_MAX_MD_SIZE], text[2 * EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_Digest(page_style, sizeof page_style - 1, digest, &length, EVP_sha256(), NULL) != 1) {
        errno = ENOMEM;
        return -1;
    }
    EVP_EncodeBlock(text, digest, (int)length);
    fprintf(to, "sha256-%s", (const char *)text);
    return 0;
}

static int write_head(const struct cdl_page *page)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '",
          page->to);
    if (write_style_hash(page->to) != 0)
        return -1;
    fputs("'; base-uri 'none'; form-action 'none'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" "
          "content=\"no-referrer\">\n<title>",
          page->to);
    char title[256];
    struct cdl_writer writer = cdl_writer_on(title, sizeof title);
    cdl_show_name(&writer, page->report->policy_file, 40);
    cdl_write_escaped(page->to, cdl_written(&writer));
    fprintf(page->to, " replayed</title>\n<style>%s</style>\n</head>\n<body>\n<main>\n", page_style);
    return 0;
}

static void write_title(const struct cdl_page *page, const struct cdl_replay_report *second)
{
    const struct cdl_replay_report *report = page->report;
    fputs("<h1>", page->to);
    cdl_page_name(page, report->policy_file);
    if (second != NULL) {
        fputs(" and ", page->to);
        cdl_page_name(page, second->policy_file);
    }
    if (report->requests == 0) {
        fputs("</h1>\n<p class=\"soft\">There was no request.</p>\n", page->to);
        return;
    }
    fprintf(page->to,
            "</h1>\n<p class=\"soft\">What would have been refused of the requests from "
            "<time data-path=\"%sbegin_ns\" data-value=\"%lld\">%s</time> to "
            "<time data-path=\"%send_ns\" data-value=\"%lld\">%s</time>.</p>\n",
            page->prefix, (long long)report->begin_ns, cdl_show_instant(report->begin_ns).text, page->prefix,
            (long long)report->end_ns, cdl_show_instant(report->end_ns).text);
}

/* ---- charts ---- */

static bool has_name(const struct cdl_chart *chart, const char *beginning)
{
    return strncmp(chart->name, beginning, strlen(beginning)) == 0;
}

static void write_chart(const struct cdl_page *page, const struct cdl_chart *chart, bool as_broad_as_the_page)
{
    fprintf(page->to, "<figure id=\"%s\">\n<figcaption><h3>", chart->name);
    cdl_write_escaped(page->to, cdl_slice_of(chart->title));
    fputs("</h3><p>", page->to);
    cdl_write_escaped(page->to, cdl_slice_of(chart->note));
    fputs("</p></figcaption>\n", page->to);
    const bool is_empty = chart->panel_count == 0 && chart->row_count == 0;
    if (!is_empty && as_broad_as_the_page) {
        cdl_chart_write_element(page->to, chart, CDL_CHART_WIDE, "both");
        cdl_chart_write_element(page->to, chart, CDL_CHART_NARROW, "narrow");
    } else if (!is_empty) {
        cdl_chart_write_element(page->to, chart, CDL_CHART_NARROW, "half");
    }
    fputs("</figure>\n", page->to);
}

static void write_broad(const struct cdl_page *page, const struct cdl_charts *charts, const char *name)
{
    for (size_t i = 0; i < charts->count; i++)
        if (has_name(&charts->charts[i], name))
            write_chart(page, &charts->charts[i], true);
}

/* Two beside each other where there is room. */
static void write_pairs(const struct cdl_page *page, const struct cdl_charts *charts, const char *name,
                        const char *heading)
{
    size_t count = 0;
    for (size_t i = 0; i < charts->count; i++) {
        if (!has_name(&charts->charts[i], name))
            continue;
        if (count++ == 0)
            fprintf(page->to, "<h2>%s</h2>\n<div class=\"pair\">\n", heading);
        write_chart(page, &charts->charts[i], false);
    }
    if (count > 0)
        fputs("</div>\n", page->to);
}

/* ---- the JSON report ---- */

/* "<" stands in strings only, where it can be written otherwise: so nothing in there ends the element. */
static int write_json(FILE *to, const struct cdl_replay_reports *set)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&bytes, &length);
    if (memory == NULL)
        return -1;
    int status = cdl_replay_write_json(memory, set);
    if (fclose(memory) != 0)
        status = -1;
    fputs("<script type=\"application/json\" id=\"report\">", to);
    for (size_t i = 0; status == 0 && i < length; i++) {
        if (bytes[i] == '<')
            fputs("\\u003c", to);
        else
            fputc(bytes[i], to);
    }
    fputs("</script>\n", to);
    free(bytes);
    return status;
}

/* ---- the page ---- */

static void write_first(const struct cdl_page *page, const struct cdl_charts *charts)
{
    cdl_page_summary(page);
    write_broad(page, charts, "rate");
    write_broad(page, charts, "refusals");
    cdl_page_limits(page);
    write_pairs(page, charts, "peaks", "Peaks");
    cdl_page_refused_keys(page);
    write_pairs(page, charts, "level", "Levels");
    fputs("<h2>Clients</h2>\n", page->to);
    write_broad(page, charts, "clients");
    cdl_page_clients(page);
}

static void write_second(const struct cdl_page *page)
{
    fputs("<h2>The second policy: ", page->to);
    cdl_page_name(page, page->report->policy_file);
    fputs("</h2>\n", page->to);
    cdl_page_summary(page);
    cdl_page_limits(page);
    cdl_page_refused_keys(page);
}

int cdl_replay_write_html(FILE *to, const struct cdl_replay_reports *set)
{
    const struct cdl_page page = {to, set->report, ""};
    struct cdl_charts charts;
    if (cdl_charts_make(set, &charts) != 0)
        return -1;
    int status = write_head(&page);
    write_title(&page, set->second);
    if (set->comparison != NULL) {
        fputs("<h2>What changes</h2>\n", to);
        cdl_page_comparison(&page, set->comparison);
        write_broad(&page, &charts, "changes");
        fputs("<h2>The first policy: ", to);
        cdl_page_name(&page, set->report->policy_file);
        fputs("</h2>\n", to);
    }
    write_first(&page, &charts);
    if (set->second != NULL)
        write_second(&(struct cdl_page){to, set->second, "second."});
    cdl_page_log(&page);
    if (status == 0)
        status = write_json(to, set);
    fputs("</main>\n</body>\n</html>\n", to);
    cdl_charts_free(&charts);
    return status == 0 && fflush(to) == 0 && !ferror(to) ? 0 : -1;
}
