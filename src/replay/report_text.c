/* The report for people, on a terminal: sentences that can be read aloud, and tables where numbers are compared. No line has more than
 * COLUMNS characters, whatever names stand in it: each paragraph is put together first, then broken. */
#include "replay/report_write.h"

#include <inttypes.h>

#include "base/utf8.h"
#include "policy/explain.h"
#include "replay/report_numbers.h"

#define COLUMNS 100u
#define LABEL 12u        /* columns of the words at the left */
#define NAME_COLUMNS 40u /* of a limit's name, a key, a file */
#define RATE_COLUMNS 32u
#define LIMITS_MAX 40u    /* that are shown; --json has all */
#define REASONS_SHOWN 10u /* likewise */
#define NAMES_SHOWN 8u

/* A paragraph that is being put together. Its text fits: what comes from outside is cut before. */
struct paper {
    FILE *to;
    char bytes[8192];
    struct cdl_writer line;
};

/* ---- paragraphs ---- */

static size_t characters(struct cdl_slice text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.length; i++)
        count += ((unsigned char)text.bytes[i] & 0xC0) != 0x80;
    return count;
}

/* How many bytes of the text fit so many columns, broken at a blank where there is one. */
static size_t fitting(struct cdl_slice text, size_t columns)
{
    size_t at = 0, blank = 0, count = 0;
    while (at < text.length) {
        if (text.bytes[at] == ' ')
            blank = at;
        if (((unsigned char)text.bytes[at] & 0xC0) != 0x80 && count++ == columns)
            return blank > 0 ? blank : at;
        at++;
    }
    return text.length;
}

static void indent(FILE *to, size_t columns)
{
    fprintf(to, "%*s", (int)columns, "");
}

/* Prints the paragraph, of which further lines begin at the column `hang`; its first one is at `at` already. */
static void flow(struct paper *paper, size_t at, size_t hang)
{
    struct cdl_slice rest = cdl_written(&paper->line);
    for (;;) {
        const size_t length = fitting(rest, COLUMNS - at);
        fprintf(paper->to, "%.*s\n", (int)length, rest.bytes);
        rest = cdl_slice_trim(cdl_slice_from(rest, length));
        if (rest.length == 0)
            break;
        indent(paper->to, hang);
        at = hang;
    }
    paper->line = cdl_writer_on(paper->bytes, sizeof paper->bytes);
}

static void flow_at(struct paper *paper, size_t columns)
{
    indent(paper->to, columns);
    flow(paper, columns, columns + 2);
}

/* Under a word at the left. */
static void flow_under(struct paper *paper, const char *label)
{
    fprintf(paper->to, "%-*s", (int)LABEL, label);
    flow(paper, LABEL, LABEL);
}

static void put(struct paper *paper, const char *text)
{
    cdl_write_text(&paper->line, text);
}

static void put_number(struct paper *paper, uint64_t number)
{
    put(paper, cdl_show_number(number).text);
}

/* "1 key", "2 keys". */
static void put_count(struct paper *paper, uint64_t number, const char *noun)
{
    put_number(paper, number);
    cdl_writef(&paper->line, " %s%s", noun, number == 1 ? "" : "s");
}

static void put_name(struct paper *paper, struct cdl_slice name)
{
    cdl_show_name(&paper->line, name, NAME_COLUMNS);
}

static void heading(struct paper *paper, const char *text)
{
    fprintf(paper->to, "\n%s\n", text);
}

/* ---- tables ---- */

/* A cell: the text, and blanks up to the column's width, on the left of it for numbers. */
static void put_cell(struct paper *paper, struct cdl_slice text, size_t columns, bool to_the_right)
{
    const size_t count = characters(text), blanks = count < columns ? columns - count : 0;
    for (size_t i = 0; to_the_right && i < blanks; i++)
        put(paper, " ");
    cdl_write(&paper->line, text);
    for (size_t i = 0; !to_the_right && i < blanks; i++)
        put(paper, " ");
    put(paper, "  ");
}

static void put_number_cell(struct paper *paper, uint64_t number, size_t columns)
{
    const struct cdl_shown shown = cdl_show_number(number);
    put_cell(paper, cdl_slice_of(shown.text), columns, true);
}

static void put_name_cell(struct paper *paper, struct cdl_slice name, size_t columns)
{
    char bytes[4 * NAME_COLUMNS + 16];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
    cdl_show_name(&writer, name, columns < 8 ? 8 : columns);
    put_cell(paper, cdl_written(&writer), columns, false);
}

static void end_row(struct paper *paper)
{
    while (paper->line.length > 0 && paper->line.bytes[paper->line.length - 1] == ' ')
        paper->line.length--;
    flow_at(paper, 2);
}

static size_t wider(size_t columns, struct cdl_slice name, size_t most)
{
    const size_t count = characters(name);
    return count > most ? most : count > columns ? count : columns;
}

/* ---- where the requests come from ---- */

static void write_span(struct paper *paper, const struct cdl_replay_report *report)
{
    put(paper, cdl_show_instant(report->begin_ns).text);
    put(paper, " to ");
    put(paper, cdl_show_instant(report->end_ns).text);
    cdl_writef(&paper->line, ", %s", cdl_show_duration(report->end_ns - report->begin_ns).text);
    flow_under(paper, "time");
}

static void write_requests(struct paper *paper, const struct cdl_replay_report *report)
{
    put_count(paper, report->requests, "request");
    put(paper, " of ");
    put_count(paper, report->clients, "client");
    if (report->exempt > 0)
        cdl_writef(&paper->line, "; exempt: %s", cdl_show_number(report->exempt).text);
    if (report->unlimited > 0)
        cdl_writef(&paper->line, "; that no limit applies to: %s", cdl_show_number(report->unlimited).text);
    if (report->pathless > 0)
        cdl_writef(&paper->line, "; without a path: %s", cdl_show_number(report->pathless).text);
    if (report->unknown_clients > 0)
        cdl_writef(&paper->line, "; without a client's address: %s", cdl_show_number(report->unknown_clients).text);
    flow_under(paper, "requests");
}

static void write_source(struct paper *paper, const struct cdl_log_source_stats *source, bool is_first)
{
    put_name(paper, cdl_slice_of(source->path));
    if (source->lines == 0) {
        put(paper, ": no lines");
    } else {
        cdl_writef(&paper->line, ": %s, ", source->format);
        put_count(paper, source->lines, "line");
        if (source->parsed < source->lines)
            cdl_writef(&paper->line, ", %s parsed", cdl_show_number(source->parsed).text);
    }
    if (source->failed)
        put(paper, "; damaged: it ends too early");
    flow_under(paper, is_first ? "logs" : "");
}

static void write_reason(struct paper *paper, const struct cdl_replay_report *report,
                         const struct cdl_log_reason *reason)
{
    put_number(paper, reason->count);
    put(paper, ": ");
    cdl_access_why_write(&paper->line, &reason->why);
    put(paper, "; first ");
    if (reason->source < report->source_count)
        put_name(paper, cdl_slice_of(report->sources[reason->source].path));
    cdl_writef(&paper->line, ":%" PRIu64 ": \"", reason->line);
    cdl_show_name(&paper->line, (struct cdl_slice){reason->example, reason->example_length}, CDL_LOG_EXAMPLE_BYTES);
    put(paper, "\"");
    flow_at(paper, LABEL);
}

/* The most frequent first; there are few. */
static void write_reasons(struct paper *paper, const struct cdl_replay_report *report)
{
    const struct cdl_log_stats *log = &report->log;
    bool is_shown[CDL_LOG_REASONS_MAX] = {false};
    for (size_t n = 0; n < log->reason_count && n < REASONS_SHOWN; n++) {
        size_t most = log->reason_count;
        for (size_t i = 0; i < log->reason_count; i++)
            if (!is_shown[i] && (most == log->reason_count || log->reasons[i].count > log->reasons[most].count))
                most = i;
        is_shown[most] = true;
        write_reason(paper, report, &log->reasons[most]);
    }
    if (log->reason_count > REASONS_SHOWN) {
        cdl_writef(&paper->line, "and for %zu reasons more", log->reason_count - REASONS_SHOWN);
        flow_at(paper, LABEL);
    }
}

static void write_lines(struct paper *paper, const struct cdl_replay_report *report)
{
    const struct cdl_log_stats *log = &report->log;
    put_number(paper, log->parsed);
    put(paper, " of ");
    put_count(paper, log->lines, "line");
    cdl_writef(&paper->line, " parsed (%s)", cdl_show_share(log->parsed, log->lines).text);
    if (log->skipped > 0)
        cdl_writef(&paper->line, ", %s skipped:", cdl_show_number(log->skipped).text);
    flow_under(paper, "lines");
    write_reasons(paper, report);
}

static void write_order(struct paper *paper, const struct cdl_log_stats *log)
{
    if (log->out_of_order == 0)
        return;
    put_count(paper, log->out_of_order, "line");
    cdl_writef(&paper->line, " out of order, by %s at most", cdl_show_duration(log->out_of_order_ns).text);
    if (log->late == 0) {
        put(paper, "; all were put in order");
    } else {
        cdl_writef(&paper->line, "; %s came too late to be put in order", cdl_show_number(log->late).text);
        cdl_writef(&paper->line, ", by %s at most, and were asked late", cdl_show_duration(log->late_ns).text);
    }
    flow_under(paper, "order");
}

static void write_sources(struct paper *paper, const struct cdl_replay_report *report)
{
    for (size_t i = 0; i < report->source_count; i++)
        write_source(paper, &report->sources[i], i == 0);
    if (report->source_count == 0)
        return;
    write_lines(paper, report);
    write_order(paper, &report->log);
}

/* ---- what was refused ---- */

/* "between 1,100 and 1,310": only where the stamps leave it open. */
static void put_bounds(struct paper *paper, const struct cdl_replay_bounds *bounds)
{
    if (!bounds->known || bounds->least == bounds->most)
        return;
    cdl_writef(&paper->line, ", between %s", cdl_show_number(bounds->least).text);
    cdl_writef(&paper->line, " and %s", cdl_show_number(bounds->most).text);
}

/* What the stamps leave open, when they are coarse. */
static const char *why_bounds(const struct cdl_replay_report *report)
{
    if (report->log.resolution_ns < 1000000000)
        return "";
    if (!report->bounds.known)
        return "; the log's stamps are whole seconds, and how many it may have been at finer ones is not known";
    return report->bounds.least == report->bounds.most ? ", whenever within their seconds they came"
                                                       : ": the log's stamps are whole seconds";
}

static void write_refused(struct paper *paper, const struct cdl_replay_report *report)
{
    put_number(paper, report->refused);
    put(paper, " of ");
    put_count(paper, report->requests, "request");
    cdl_writef(&paper->line, " (%s)", cdl_show_share(report->refused, report->requests).text);
    put_bounds(paper, &report->bounds);
    put(paper, why_bounds(report));
    flow_under(paper, "refused");
    if (report->refused_without_limit == 0)
        return;
    cdl_writef(&paper->line, "%s of them without asking a limit: an identity is missing, ambiguous or too long",
               cdl_show_number(report->refused_without_limit).text);
    flow_under(paper, "");
}

static void write_touched(struct paper *paper, const struct cdl_replay_report *report)
{
    put_number(paper, report->clients_refused);
    put(paper, " of ");
    put_count(paper, report->clients, "client");
    cdl_writef(&paper->line, " (%s) refused at least once",
               cdl_show_share(report->clients_refused, report->clients).text);
    flow_under(paper, "touched");
}

/* ---- limits ---- */

static bool is_shown(const struct cdl_replay_limit *limit)
{
    return limit->requests > 0;
}

static void write_limit_rows(struct paper *paper, const struct cdl_replay_report *report, size_t name_columns,
                             size_t rate_columns)
{
    size_t shown = 0;
    for (size_t i = 0; i < report->limit_count && shown < LIMITS_MAX; i++) {
        const struct cdl_replay_limit *limit = &report->limits[i];
        if (!is_shown(limit))
            continue;
        shown++;
        put_name_cell(paper, limit->name, name_columns);
        put_name_cell(paper, limit->rate, rate_columns);
        put_number_cell(paper, limit->requests, 9);
        put_number_cell(paper, limit->refused, 9);
        put_number_cell(paper, limit->keys, 8);
        put_number_cell(paper, limit->keys_refused, 8);
        if (limit->mode == CDL_MODE_SHADOW)
            put(paper, "shadow");
        end_row(paper);
    }
}

static void write_limit_table(struct paper *paper, const struct cdl_replay_report *report)
{
    size_t name_columns = 8, rate_columns = 8;
    for (size_t i = 0; i < report->limit_count; i++) {
        if (!is_shown(&report->limits[i]))
            continue;
        name_columns = wider(name_columns, report->limits[i].name, 28);
        rate_columns = wider(rate_columns, report->limits[i].rate, 22);
    }
    put_cell(paper, CDL_SLICE("limit"), name_columns, false);
    put_cell(paper, CDL_SLICE("rate"), rate_columns, false);
    put_cell(paper, CDL_SLICE("asked"), 9, true);
    put_cell(paper, CDL_SLICE("refused"), 9, true);
    put_cell(paper, CDL_SLICE("keys"), 8, true);
    put_cell(paper, CDL_SLICE("of them"), 8, true);
    end_row(paper);
    write_limit_rows(paper, report, name_columns, rate_columns);
}

static void write_unasked(struct paper *paper, const struct cdl_replay_report *report)
{
    size_t count = 0;
    for (size_t i = 0; i < report->limit_count; i++) {
        if (is_shown(&report->limits[i]))
            continue;
        if (count < NAMES_SHOWN) {
            put(paper, count == 0 ? "no request asked " : ", ");
            put_name(paper, report->limits[i].name);
        }
        count++;
    }
    if (count > NAMES_SHOWN)
        cdl_writef(&paper->line, " and %s more", cdl_show_number(count - NAMES_SHOWN).text);
    if (count > 0)
        flow_at(paper, 2);
}

static void write_variant(struct paper *paper, const struct cdl_replay_limit *limit, enum cdl_study_variant v)
{
    static const char *const words[] = {"as a fixed window", "as a sliding window", "as a token bucket"};
    const struct cdl_replay_variant *variant = &limit->variants[v];
    cdl_writef(&paper->line, "%-19s  ", words[v]);
    put_number_cell(paper, variant->refused, 9);
    put_number_cell(paper, variant->keys_refused, 8);
    cdl_writef(&paper->line, "at most %s", cdl_show_number(variant->most_in_a_period).text);
    cdl_writef(&paper->line, " passed in %s", cdl_show_duration((int64_t)limit->what.period_ns).text);
    cdl_writef(&paper->line, " for one key, of %s", cdl_show_number(limit->what.count).text);
    flow_at(paper, 4);
}

/* The edge effect on this very traffic: what each algorithm would have refused, and let pass. */
static void write_variants(struct paper *paper, const struct cdl_replay_limit *limit)
{
    cdl_writef(&paper->line, "%-19s  %9s  %8s", "had it counted", "refused", "keys");
    flow_at(paper, 4);
    for (unsigned v = 0; v < CDL_STUDY_VARIANTS; v++)
        write_variant(paper, limit, (enum cdl_study_variant)v);
}

static bool is_bucket(const struct cdl_replay_limit *limit)
{
    return limit->what.algorithm == CAUDAL_TOKEN_BUCKET;
}

/* "burst 43 at this rate, or 220 in 1 min at this burst", or the count of a window. What a log needs is not studied. */
static void put_need(struct paper *paper, const struct cdl_replay_limit *limit, bool for_all)
{
    const struct cdl_shown period = cdl_show_duration((int64_t)limit->what.period_ns);
    const struct cdl_replay_headroom *window = limit->what.algorithm == CAUDAL_FIXED_WINDOW ? &limit->fixed_count
                                                                                            : &limit->sliding_count;
    if (!is_bucket(limit)) {
        put_number(paper, for_all ? window->for_all : window->for_most);
        cdl_writef(&paper->line, " in %s", period.text);
        if (limit->what.algorithm == CAUDAL_SLIDING_LOG)
            put(paper, " in a sliding window");
        return;
    }
    const uint64_t burst = for_all ? limit->burst.for_all : limit->burst.for_most;
    const uint64_t rate = for_all ? limit->rate_at_burst.for_all : limit->rate_at_burst.for_most;
    cdl_writef(&paper->line, "burst %s at this rate", cdl_show_number(burst).text);
    if (rate == UINT64_MAX)
        put(paper, "; no rate that was tried does with this burst");
    else
        cdl_writef(&paper->line, ", or %s in %s at this burst", cdl_show_number(rate).text, period.text);
}

static void write_headroom(struct paper *paper, const struct cdl_replay_report *report,
                           const struct cdl_replay_limit *limit)
{
    put(paper, "nothing is refused with ");
    put_need(paper, limit, true);
    flow_at(paper, 4);
    cdl_writef(&paper->line, "at most %s of keys are refused anything with ",
               cdl_show_fraction(report->touch_share).text);
    put_need(paper, limit, false);
    flow_at(paper, 4);
}

static void write_limit(struct paper *paper, const struct cdl_replay_report *report,
                        const struct cdl_replay_limit *limit)
{
    put_name(paper, limit->name);
    put(paper, ", ");
    put_name(paper, limit->rate);
    cdl_writef(&paper->line, limit->mode == CDL_MODE_SHADOW ? ": would have refused %s of " : ": refused %s of ",
               cdl_show_number(limit->refused).text);
    put_count(paper, limit->requests, "request");
    cdl_writef(&paper->line, " (%s)", cdl_show_share(limit->refused, limit->requests).text);
    if (limit->bounds.known && limit->bounds.least < limit->bounds.most) {
        put(paper, "; alone");
        put_bounds(paper, &limit->bounds);
    }
    flow_at(paper, 2);
    if (limit->what.algorithm == CAUDAL_UNLIMITED)
        return;
    write_headroom(paper, report, limit);
    write_variants(paper, limit);
}

static void write_limits(struct paper *paper, const struct cdl_replay_report *report)
{
    size_t asked = 0;
    for (size_t i = 0; i < report->limit_count; i++)
        asked += is_shown(&report->limits[i]);
    heading(paper, "limits");
    if (asked > 0)
        write_limit_table(paper, report);
    if (asked > LIMITS_MAX) {
        cdl_writef(&paper->line, "and %s more, which the JSON report has", cdl_show_number(asked - LIMITS_MAX).text);
        flow_at(paper, 2);
    }
    write_unasked(paper, report);
    for (size_t i = 0, shown = 0; i < report->limit_count && shown < LIMITS_MAX; i++) {
        if (!is_shown(&report->limits[i]))
            continue;
        shown++;
        fputc('\n', paper->to);
        write_limit(paper, report, &report->limits[i]);
    }
}

/* ---- keys ---- */

static void write_key_row(struct paper *paper, const struct cdl_replay_report *report, const struct cdl_replay_key *key)
{
    put_number_cell(paper, key->refused, 9);
    put_number_cell(paper, key->requests, 9);
    put_number_cell(paper, key->second_most, 8);
    put_number_cell(paper, key->period_most, 9);
    const struct cdl_shown stretch = cdl_show_duration(key->stretch_ns);
    put_cell(paper, cdl_slice_of(stretch.text), 12, true);
    cdl_show_name(&paper->line, key->key.length > 0 ? key->key : CDL_SLICE("(one for all)"), 24);
    put(paper, "  ");
    cdl_show_name(&paper->line, report->limits[key->limit].name, 14);
    end_row(paper);
}

static void write_keys(struct paper *paper, const struct cdl_replay_report *report)
{
    if (report->refused_key_count == 0)
        return;
    heading(paper, "most refused keys, the most that they asked for in a second and in a period, and their longest "
                   "wait");
    cdl_writef(&paper->line, "%9s  %9s  %8s  %9s  %12s  %s", "refused", "requests", "in a s", "in period", "wait",
               "key and limit");
    end_row(paper);
    for (size_t i = 0; i < report->refused_key_count; i++)
        write_key_row(paper, report, &report->refused_keys[i]);
}

/* ---- load ---- */

static void write_load_row(struct paper *paper, const char *word, const struct cdl_replay_load *load)
{
    cdl_writef(&paper->line, "%-9s ", word);
    put_number_cell(paper, load->p50, 9);
    put_number_cell(paper, load->p99, 9);
    put_number_cell(paper, load->most, 9);
    end_row(paper);
}

static void write_load(struct paper *paper, const struct cdl_replay_report *report)
{
    heading(paper, "requests in a second: half of all seconds have no more, 99 % have no more, none has more");
    write_load_row(paper, "offered", &report->offered_load);
    write_load_row(paper, "admitted", &report->admitted_load);
}

/* ---- warnings ---- */

/* "keys that were forgotten: 3": words that do for one and for many. */
static void warn_number(struct paper *paper, uint64_t number, const char *words)
{
    if (number == 0)
        return;
    put(paper, words);
    put_number(paper, number);
    flow_under(paper, "warning");
}

static void write_warnings(struct paper *paper, const struct cdl_replay_report *report)
{
    uint64_t unstudied = report->clients_unstudied;
    for (size_t i = 0; i < report->limit_count; i++)
        unstudied += report->limits[i].unstudied;
    if (report->interrupted) {
        put(paper, "interrupted: the log was not read to its end, and this is what was found until then");
        flow_under(paper, "warning");
    }
    warn_number(paper, report->interrupted ? report->log.waiting : 0, "parsed lines that had not been asked then: ");
    warn_number(paper, report->forgotten,
                "with more --keys more would have been refused: keys that were forgotten while they mattered: ");
    warn_number(
        paper, unstudied,
        "with more --keys headroom, variants and lists would have all: questions of keys and clients beyond it: ");
    warn_number(paper, report->log.hurried,
                "for want of memory the reorder window was too short for all: lines that came out before their time: ");
}

/* ---- two policies ---- */

static void write_sides(struct paper *paper, const struct cdl_replay_reports *set)
{
    const struct cdl_comparison *both = set->comparison;
    put_number(paper, both->both_refuse);
    put(paper, " refused by both, ");
    put_number(paper, both->first_only_refuses);
    put(paper, " by ");
    put_name(paper, set->report->policy_file);
    put(paper, " only, ");
    put_number(paper, both->second_only_refuses);
    put(paper, " by ");
    put_name(paper, set->second->policy_file);
    cdl_writef(&paper->line, " only; %s admitted by both", cdl_show_number(both->both_admit).text);
    flow_under(paper, "requests");
    put_number(paper, both->clients_refused_by_both);
    put(paper, " refused something by both, ");
    put_number(paper, both->clients_refused_by_first);
    put(paper, " by ");
    put_name(paper, set->report->policy_file);
    put(paper, " only, ");
    put_number(paper, both->clients_refused_by_second);
    put(paper, " by ");
    put_name(paper, set->second->policy_file);
    put(paper, " only");
    flow_under(paper, "clients");
}

static void write_changes(struct paper *paper, const struct cdl_comparison *comparison)
{
    if (comparison->client_count == 0)
        return;
    fprintf(paper->to, "\nwho change sides, and what each policy refuses them\n");
    cdl_writef(&paper->line, "%9s  %9s  %9s  %s", "requests", "the first", "the second", "client");
    end_row(paper);
    for (size_t i = 0; i < comparison->client_count; i++) {
        const struct cdl_comparison_client *client = &comparison->clients[i];
        put_number_cell(paper, client->requests, 9);
        put_number_cell(paper, client->refused_by_first, 9);
        put_number_cell(paper, client->refused_by_second, 10);
        put_name(paper, client->client.length > 0 ? client->client : CDL_SLICE("(unknown)"));
        end_row(paper);
    }
}

static void write_comparison(struct paper *paper, const struct cdl_replay_reports *set)
{
    put(paper, "the first policy, ");
    put_name(paper, set->report->policy_file);
    put(paper, ", and the second, ");
    put_name(paper, set->second->policy_file);
    fputc('\n', paper->to);
    flow_at(paper, 0);
    write_sides(paper, set);
    write_changes(paper, set->comparison);
}

/* ---- all ---- */

static void write_policy(struct paper *paper, const struct cdl_replay_report *report)
{
    put_name(paper, report->policy_file);
    flow_under(paper, "policy");
    write_refused(paper, report);
    write_touched(paper, report);
    write_limits(paper, report);
    write_keys(paper, report);
    write_load(paper, report);
}

int cdl_replay_write_text(FILE *to, const struct cdl_replay_reports *set)
{
    struct paper paper = {.to = to};
    paper.line = cdl_writer_on(paper.bytes, sizeof paper.bytes);
    write_span(&paper, set->report);
    write_requests(&paper, set->report);
    write_sources(&paper, set->report);
    write_warnings(&paper, set->report);
    fputc('\n', to);
    write_policy(&paper, set->report);
    if (set->second != NULL) {
        fputc('\n', to);
        write_policy(&paper, set->second);
        write_comparison(&paper, set);
    }
    return fflush(to) == 0 && !ferror(to) ? 0 : -1;
}
