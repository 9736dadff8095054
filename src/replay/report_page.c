/* The tables of the page: the numbers that stand in the text report, too. */
#include "replay/report_page.h"

#include <inttypes.h>
#include <stdarg.h>

#include "policy/explain.h"
#include "replay/chart.h"
#include "replay/report_numbers.h"

#define NAME_COLUMNS 60u

/* ---- words and numbers ---- */

void cdl_page_name(const struct cdl_page *page, struct cdl_slice name)
{
    char text[NAME_COLUMNS * 4];
    struct cdl_writer writer = cdl_writer_on(text, sizeof text);
    cdl_show_name(&writer, name, NAME_COLUMNS);
    fputs("<bdi>", page->to);
    cdl_write_escaped(page->to, cdl_written(&writer));
    fputs("</bdi>", page->to);
}

/* What stands between < and > of an element that shows a number. `exact` is the number, when the words do not say it. */
static void write_path(const struct cdl_page *page, const char *exact, const char *path, va_list arguments)
{
    fprintf(page->to, " data-path=\"%s", page->prefix);
    vfprintf(page->to, path, arguments);
    fputc('"', page->to);
    if (exact != NULL)
        fprintf(page->to, " data-value=\"%s\"", exact);
}

static struct cdl_shown show_or_none(uint64_t number)
{
    return number == UINT64_MAX ? (struct cdl_shown){"none"} : cdl_show_number(number);
}

void cdl_page_number(const struct cdl_page *page, uint64_t number, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    fputs("<td", page->to);
    write_path(page, NULL, path, arguments);
    fprintf(page->to, ">%s</td>", show_or_none(number).text);
    va_end(arguments);
}

static void write_words(const struct cdl_page *page, int64_t number, struct cdl_shown words, const char *path,
                        va_list arguments)
{
    char exact[24];
    snprintf(exact, sizeof exact, "%" PRIi64, number);
    fputs("<td", page->to);
    write_path(page, exact, path, arguments);
    fprintf(page->to, ">%s</td>", words.text);
}

void cdl_page_duration(const struct cdl_page *page, int64_t ns, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    write_words(page, ns, cdl_show_duration(ns), path, arguments);
    va_end(arguments);
}

void cdl_page_instant(const struct cdl_page *page, int64_t ns, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    write_words(page, ns, cdl_show_instant(ns), path, arguments);
    va_end(arguments);
}

void cdl_page_share(const struct cdl_page *page, uint64_t part, uint64_t whole)
{
    fputs("<td>", page->to);
    cdl_write_escaped(page->to, cdl_slice_of(cdl_show_share(part, whole).text));
    fputs("</td>", page->to);
}

void cdl_page_name_cell(const struct cdl_page *page, struct cdl_slice name)
{
    fputs("<td class=\"w\">", page->to);
    cdl_page_name(page, name);
    fputs("</td>", page->to);
}

/* ---- tables ---- */

void cdl_page_begin_table(const struct cdl_page *page, const char *label, const char *headings)
{
    fprintf(page->to,
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><thead><tr><th scope=\"col\">",
            label);
    for (const char *c = headings; *c != '\0'; c++) {
        if (*c == '|' && c[1] == '=')
            fputs("</th><th scope=\"col\" class=\"w\">", page->to);
        else if (*c == '|')
            fputs("</th><th scope=\"col\">", page->to);
        else if (*c != '=')
            fputc(*c, page->to);
    }
    fputs("</th></tr></thead><tbody>\n", page->to);
}

void cdl_page_row(const struct cdl_page *page, struct cdl_slice name)
{
    fputs("<tr><th scope=\"row\">", page->to);
    cdl_page_name(page, name);
    fputs("</th>", page->to);
}

void cdl_page_end_row(const struct cdl_page *page)
{
    fputs("</tr>\n", page->to);
}

void cdl_page_end_table(const struct cdl_page *page)
{
    fputs("</tbody></table></div>\n", page->to);
}

static void heading(const struct cdl_page *page, const char *title, const char *words)
{
    fprintf(page->to, "<h2>%s</h2>\n<p class=\"soft\">%s</p>\n", title, words);
}

/* ---- summary ---- */

/* In large letters, so it may be broken behind a comma. */
static void write_large(const struct cdl_page *page, uint64_t number, const char *path)
{
    const struct cdl_shown shown = cdl_show_number(number);
    fprintf(page->to, "<span data-path=\"%s%s\">", page->prefix, path);
    for (const char *c = shown.text; *c != '\0'; c++) {
        fputc(*c, page->to);
        if (*c == ',')
            fputs("<wbr>", page->to);
    }
    fputs("</span>", page->to);
}

__attribute__((format(printf, 5, 6))) static void
write_figure(const struct cdl_page *page, const char *name, uint64_t number, const char *path, const char *small, ...)
{
    fprintf(page->to, "<div><dt>%s</dt><dd>", name);
    write_large(page, number, path);
    fputs("<small>", page->to);
    char words[160];
    va_list arguments;
    va_start(arguments, small);
    vsnprintf(words, sizeof words, small, arguments);
    va_end(arguments);
    cdl_write_escaped(page->to, cdl_slice_of(words));
    fputs("</small></dd></div>\n", page->to);
}

/* With what the stamps leave open. */
static void write_refused(const struct cdl_page *page)
{
    const struct cdl_replay_report *report = page->report;
    fputs("<div><dt>Refused</dt><dd>", page->to);
    write_large(page, report->refused, "refused");
    fputs("<small>", page->to);
    cdl_write_escaped(page->to, cdl_slice_of(cdl_show_share(report->refused, report->requests).text));
    if (report->bounds.known)
        fprintf(page->to,
                "; by the stamps <span data-path=\"%sbounds.least\">%s</span> to "
                "<span data-path=\"%sbounds.most\">%s</span>",
                page->prefix, cdl_show_number(report->bounds.least).text, page->prefix,
                cdl_show_number(report->bounds.most).text);
    fputs("</small></dd></div>\n", page->to);
}

static void write_loads(const struct cdl_page *page)
{
    const struct cdl_replay_load *offered = &page->report->offered_load, *admitted = &page->report->admitted_load;
    cdl_page_begin_table(page, "Requests per second", "Requests per second|median|99th percentile|most");
    cdl_page_row(page, CDL_SLICE("offered"));
    cdl_page_number(page, offered->p50, "offered_load.p50");
    cdl_page_number(page, offered->p99, "offered_load.p99");
    cdl_page_number(page, offered->most, "offered_load.most");
    cdl_page_end_row(page);
    cdl_page_row(page, CDL_SLICE("admitted"));
    cdl_page_number(page, admitted->p50, "admitted_load.p50");
    cdl_page_number(page, admitted->p99, "admitted_load.p99");
    cdl_page_number(page, admitted->most, "admitted_load.most");
    cdl_page_end_row(page);
    cdl_page_end_table(page);
}

static void write_warnings(const struct cdl_page *page)
{
    const struct cdl_replay_report *report = page->report;
    if (report->interrupted)
        fputs("<p class=\"warn\">Interrupted: the log was not read to its end.</p>\n", page->to);
    if (report->forgotten > 0)
        fprintf(page->to,
                "<p class=\"warn\">The store was too small: it forgot <span data-path=\"%sforgotten\">%s</span> keys "
                "while they mattered. More were refused in truth.</p>\n",
                page->prefix, cdl_show_number(report->forgotten).text);
    if (report->clients_unstudied > 0)
        fprintf(page->to,
                "<p class=\"warn\">There were more clients than are counted one by one: "
                "<span data-path=\"%sclients_unstudied\">%s</span> requests are of others.</p>\n",
                page->prefix, cdl_show_number(report->clients_unstudied).text);
}

static void write_figures(const struct cdl_page *page)
{
    const struct cdl_replay_report *report = page->report;
    fputs("<dl>\n", page->to);
    write_figure(page, "Requests", report->requests, "requests", "within %s",
                 cdl_show_duration(report->end_ns - report->begin_ns).text);
    write_figure(page, "Admitted", report->admitted, "admitted", "%s",
                 cdl_show_share(report->admitted, report->requests).text);
    write_refused(page);
    write_figure(page, "Clients", report->clients, "clients", "with an address");
    write_figure(page, "Clients refused", report->clients_refused, "clients_refused", "at least once: %s",
                 cdl_show_share(report->clients_refused, report->clients).text);
    write_figure(page, "Keys", report->keys, "keys", "that limits counted by");
    write_figure(page, "Exempt", report->exempt, "exempt", "by the policy's choice");
    write_figure(page, "Unlimited", report->unlimited, "unlimited", "no limit applies");
    if (report->refused_without_limit > 0)
        write_figure(page, "Refused without a limit", report->refused_without_limit, "refused_without_limit",
                     "no identity, ambiguous, or too long");
    if (report->unknown_clients > 0)
        write_figure(page, "Unknown clients", report->unknown_clients, "unknown_clients",
                     "requests without an address");
    if (report->pathless > 0)
        write_figure(page, "Without a path", report->pathless, "pathless", "requests");
    fputs("</dl>\n", page->to);
}

void cdl_page_summary(const struct cdl_page *page)
{
    write_warnings(page);
    write_figures(page);
    write_loads(page);
}

/* ---- limits ---- */

static void write_limit_row(const struct cdl_page *page, size_t i)
{
    const struct cdl_replay_limit *limit = &page->report->limits[i];
    cdl_page_row(page, limit->name);
    cdl_page_name_cell(page, limit->rate);
    fprintf(page->to, "<td class=\"w\">%s</td>", cdl_mode_word(limit->mode));
    cdl_page_number(page, limit->requests, "limits.%zu.requests", i);
    cdl_page_number(page, limit->refused, "limits.%zu.refused", i);
    cdl_page_share(page, limit->refused, limit->requests);
    if (limit->bounds.known) {
        cdl_page_number(page, limit->bounds.least, "limits.%zu.bounds.least", i);
        cdl_page_number(page, limit->bounds.most, "limits.%zu.bounds.most", i);
    } else {
        fputs("<td>unknown</td><td>unknown</td>", page->to);
    }
    cdl_page_number(page, limit->keys, "limits.%zu.keys", i);
    cdl_page_number(page, limit->keys_refused, "limits.%zu.keys_refused", i);
    cdl_page_number(page, limit->unstudied, "limits.%zu.unstudied", i);
    cdl_page_end_row(page);
}

static void write_variant_row(const struct cdl_page *page, size_t i)
{
    static const char *const names[CDL_STUDY_VARIANTS] = {"fixed_window", "sliding_window", "token_bucket"};
    const struct cdl_replay_limit *limit = &page->report->limits[i];
    cdl_page_row(page, limit->name);
    for (unsigned v = 0; v < CDL_STUDY_VARIANTS; v++) {
        cdl_page_number(page, limit->variants[v].refused, "limits.%zu.variants.%s.refused", i, names[v]);
        cdl_page_number(page, limit->variants[v].keys_refused, "limits.%zu.variants.%s.keys_refused", i, names[v]);
        cdl_page_number(page, limit->variants[v].most_in_a_period, "limits.%zu.variants.%s.most_in_a_period", i,
                        names[v]);
    }
    cdl_page_end_row(page);
}

static void write_headroom(const struct cdl_page *page, size_t i, const struct cdl_replay_headroom *headroom,
                           const char *name)
{
    cdl_page_number(page, headroom->for_all, "limits.%zu.%s.for_all", i, name);
    cdl_page_number(page, headroom->for_most, "limits.%zu.%s.for_most", i, name);
}

static void write_headroom_row(const struct cdl_page *page, size_t i)
{
    const struct cdl_replay_limit *limit = &page->report->limits[i];
    cdl_page_row(page, limit->name);
    cdl_page_name_cell(page, limit->rate);
    write_headroom(page, i, &limit->burst, "burst");
    write_headroom(page, i, &limit->rate_at_burst, "rate_at_burst");
    write_headroom(page, i, &limit->fixed_count, "fixed_count");
    write_headroom(page, i, &limit->sliding_count, "sliding_count");
    cdl_page_end_row(page);
}

static void write_rungs(const struct cdl_page *page, size_t i)
{
    const struct cdl_replay_limit *limit = &page->report->limits[i];
    fputs("<details><summary>Bursts at other rates: ", page->to);
    cdl_page_name(page, limit->name);
    fprintf(page->to, "</summary>\n");
    cdl_page_begin_table(page, "Bursts at other rates", "Rate|burst that refuses nothing|burst that touches few keys");
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++) {
        const struct cdl_replay_rung *rung = &limit->rungs[n];
        fprintf(page->to,
                "<tr><th scope=\"row\" data-path=\"%slimits.%zu.rungs.%u.rate\" data-value=\"%.17g\">%.6g per %s</th>",
                page->prefix, i, n, rung->rate, rung->rate, cdl_show_duration((int64_t)limit->what.period_ns).text);
        cdl_page_number(page, rung->burst.for_all, "limits.%zu.rungs.%u.burst.for_all", i, n);
        cdl_page_number(page, rung->burst.for_most, "limits.%zu.rungs.%u.burst.for_most", i, n);
        cdl_page_end_row(page);
    }
    cdl_page_end_table(page);
    fputs("</details>\n", page->to);
}

static size_t limits_with_keys(const struct cdl_page *page)
{
    size_t count = 0;
    for (size_t i = 0; i < page->report->limit_count; i++)
        count += page->report->limits[i].keys > 0;
    return count;
}

/* A table with a row for each limit; those that nothing was asked of are in the first one only. */
static void write_limit_table(const struct cdl_page *page, const char *label, const char *headings,
                              void (*write_row)(const struct cdl_page *page, size_t i), bool studied)
{
    cdl_page_begin_table(page, label, headings);
    for (size_t i = 0; i < page->report->limit_count; i++)
        if (!studied || page->report->limits[i].keys > 0)
            write_row(page, i);
    cdl_page_end_table(page);
}

void cdl_page_limits(const struct cdl_page *page)
{
    char words[200];
    heading(page, "Limits",
            "Refusals count for the limit that binds. At least and at most: what may have been refused if the "
            "limit stood alone, wherever within their stamps the requests came.");
    write_limit_table(
        page, "Limits",
        "Limit|=rate|=mode|requests|refused|share|at least|at most|keys|keys refused|requests not studied",
        write_limit_row, false);
    if (limits_with_keys(page) == 0)
        return;
    heading(page, "What each algorithm would have done",
            "The same count and period, on the same requests. Most in a period: tokens that passed for one key in some "
            "period that begins anywhere, which shows what windows let through at their edges.");
    write_limit_table(
        page, "Algorithms",
        "Limit|fixed window: refused|keys refused|most in a period|sliding window: refused|keys refused|most "
        "in a period|token bucket: refused|keys refused|most in a period",
        write_variant_row, true);
    snprintf(
        words, sizeof words,
        "The smallest settings that would have refused nothing, and those that would have touched at most %s of the "
        "keys.",
        cdl_show_fraction(page->report->touch_share).text);
    heading(page, "Headroom", words);
    write_limit_table(
        page, "Headroom",
        "Limit|=rate|burst at this rate: for all|for most|rate at this burst: for all|for most|count of a "
        "fixed window: for all|for most|of a sliding window: for all|for most",
        write_headroom_row, true);
    for (size_t i = 0; i < page->report->limit_count; i++)
        if (page->report->limits[i].keys > 0)
            write_rungs(page, i);
}

/* ---- keys and clients ---- */

void cdl_page_refused_keys(const struct cdl_page *page)
{
    const struct cdl_replay_report *report = page->report;
    heading(
        page, "Most refused keys",
        report->refused_key_count == 0
            ? "Nothing was refused."
            : "Peaks are tokens asked for within a second, and within a period, of the clock. A stretch is the time "
              "from a refusal to the next admission.");
    if (report->refused_key_count == 0)
        return;
    cdl_page_begin_table(page, "Most refused keys",
                         "Key|=limit|requests|refused|share|most in a second|most in a period|longest stretch|since");
    for (size_t i = 0; i < report->refused_key_count; i++) {
        const struct cdl_replay_key *key = &report->refused_keys[i];
        cdl_page_row(page, key->key);
        cdl_page_name_cell(page, key->limit < report->limit_count ? report->limits[key->limit].name : CDL_SLICE(""));
        cdl_page_number(page, key->requests, "refused_keys.%zu.requests", i);
        cdl_page_number(page, key->refused, "refused_keys.%zu.refused", i);
        cdl_page_share(page, key->refused, key->requests);
        cdl_page_number(page, key->second_most, "refused_keys.%zu.second_most", i);
        cdl_page_number(page, key->period_most, "refused_keys.%zu.period_most", i);
        cdl_page_duration(page, key->stretch_ns, "refused_keys.%zu.stretch_ns", i);
        cdl_page_instant(page, key->stretch_begin_ns, "refused_keys.%zu.stretch_begin_ns", i);
        cdl_page_end_row(page);
    }
    cdl_page_end_table(page);
}

void cdl_page_clients(const struct cdl_page *page)
{
    const struct cdl_replay_report *report = page->report;
    if (report->busy_client_count == 0)
        return;
    cdl_page_begin_table(page, "Busiest clients", "Client|requests|refused|share");
    for (size_t i = 0; i < report->busy_client_count; i++) {
        const struct cdl_replay_client *client = &report->busy_clients[i];
        cdl_page_row(page, client->client);
        cdl_page_number(page, client->requests, "busy_clients.%zu.requests", i);
        cdl_page_number(page, client->refused, "busy_clients.%zu.refused", i);
        cdl_page_share(page, client->refused, client->requests);
        cdl_page_end_row(page);
    }
    cdl_page_end_table(page);
}

/* ---- two policies ---- */

static void write_sides(const struct cdl_page *page, const struct cdl_comparison *comparison)
{
    fputs("<dl>\n", page->to);
    write_figure(page, "Both admit", comparison->both_admit, "comparison.both_admit", "requests");
    write_figure(page, "Both refuse", comparison->both_refuse, "comparison.both_refuse", "requests");
    write_figure(page, "Only the first refuses", comparison->first_only_refuses, "comparison.first_only_refuses",
                 "requests");
    write_figure(page, "Only the second refuses", comparison->second_only_refuses, "comparison.second_only_refuses",
                 "requests");
    write_figure(page, "Clients refused by both", comparison->clients_refused_by_both,
                 "comparison.clients_refused_by_both", "at least once");
    write_figure(page, "Clients refused by the first", comparison->clients_refused_by_first,
                 "comparison.clients_refused_by_first", "and not by the second");
    write_figure(page, "Clients refused by the second", comparison->clients_refused_by_second,
                 "comparison.clients_refused_by_second", "and not by the first");
    fputs("</dl>\n", page->to);
}

void cdl_page_comparison(const struct cdl_page *page, const struct cdl_comparison *comparison)
{
    write_sides(page, comparison);
    if (comparison->client_count == 0)
        return;
    cdl_page_begin_table(page, "Clients who change sides",
                         "Client|requests|refused by the first|refused by the second");
    for (size_t i = 0; i < comparison->client_count; i++) {
        const struct cdl_comparison_client *client = &comparison->clients[i];
        cdl_page_row(page, client->client);
        cdl_page_number(page, client->requests, "comparison.clients.%zu.requests", i);
        cdl_page_number(page, client->refused_by_first, "comparison.clients.%zu.refused_by_first", i);
        cdl_page_number(page, client->refused_by_second, "comparison.clients.%zu.refused_by_second", i);
        cdl_page_end_row(page);
    }
    cdl_page_end_table(page);
}

/* ---- the log ---- */

static void write_sources(const struct cdl_page *page)
{
    cdl_page_begin_table(page, "Files", "File|=format|lines|parsed|read to the end");
    for (size_t i = 0; i < page->report->source_count; i++) {
        const struct cdl_log_source_stats *source = &page->report->sources[i];
        cdl_page_row(page, cdl_slice_of(source->path));
        cdl_page_name_cell(page, cdl_slice_of(source->format));
        cdl_page_number(page, source->lines, "sources.%zu.lines", i);
        cdl_page_number(page, source->parsed, "sources.%zu.parsed", i);
        fprintf(page->to, "<td>%s</td>", source->failed ? "no" : "yes");
        cdl_page_end_row(page);
    }
    cdl_page_end_table(page);
}

static void write_reasons(const struct cdl_page *page)
{
    const struct cdl_log_stats *log = &page->report->log;
    cdl_page_begin_table(page, "Skipped lines", "Why lines were skipped|lines|the first of them");
    for (size_t i = 0; i < log->reason_count; i++) {
        char why[512];
        struct cdl_writer writer = cdl_writer_on(why, sizeof why);
        cdl_access_why_write(&writer, &log->reasons[i].why);
        cdl_page_row(page, cdl_written(&writer));
        cdl_page_number(page, log->reasons[i].count, "log.reasons.%zu.count", i);
        cdl_page_number(page, log->reasons[i].line, "log.reasons.%zu.line", i);
        cdl_page_end_row(page);
    }
    cdl_page_end_table(page);
}

static void write_order(const struct cdl_page *page)
{
    const struct cdl_log_stats *log = &page->report->log;
    cdl_page_begin_table(page, "Order of the lines", "Lines out of order|lines|by at most");
    cdl_page_row(page, CDL_SLICE("earlier than one before them"));
    cdl_page_number(page, log->out_of_order, "log.out_of_order");
    cdl_page_duration(page, log->out_of_order_ns, "log.out_of_order_ns");
    cdl_page_end_row(page);
    cdl_page_row(page, CDL_SLICE("beyond the window: asked late"));
    cdl_page_number(page, log->late, "log.late");
    cdl_page_duration(page, log->late_ns, "log.late_ns");
    cdl_page_end_row(page);
    cdl_page_end_table(page);
}

void cdl_page_log(const struct cdl_page *page)
{
    const struct cdl_log_stats *log = &page->report->log;
    if (page->report->source_count == 0)
        return;
    heading(page, "Log", "What was read.");
    fputs("<dl>\n", page->to);
    write_figure(page, "Lines", log->lines, "log.lines", "read");
    write_figure(page, "Parsed", log->parsed, "log.parsed", "%s", cdl_show_share(log->parsed, log->lines).text);
    write_figure(page, "Skipped", log->skipped, "log.skipped", "%s", cdl_show_share(log->skipped, log->lines).text);
    fputs("</dl>\n", page->to);
    write_sources(page);
    write_order(page);
    if (log->reason_count > 0)
        write_reasons(page);
}
