/* The report for programs, by the schema of docs/formats/replay-report.md: every number of report.h under the name that it has there.
 *
 * A new member may come at any time; one that goes, or means something else, makes another "schema". */
#include "replay/report_write.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/instant.h"
#include "base/utf8.h"
#include "policy/explain.h"
#include "wire/json_api.h"

#define SCHEMA 1

struct json {
    FILE *to;
    bool follows; /* something stands before what comes next */
};

/* ---- values ---- */

static void separate(struct json *json)
{
    if (json->follows)
        fputc(',', json->to);
    json->follows = true;
}

static void begin(struct json *json, char bracket)
{
    fputc(bracket, json->to);
    json->follows = false;
}

static void end(struct json *json, char bracket)
{
    fputc(bracket, json->to);
    json->follows = true;
}

/* All names are ours, and need no escape. */
static void name(struct json *json, const char *text)
{
    separate(json);
    fprintf(json->to, "\"%s\":", text);
}

static void number(struct json *json, const char *member, uint64_t value)
{
    name(json, member);
    fprintf(json->to, "%" PRIu64, value);
}

/* Where UINT64_MAX stands for what there is not. */
static void number_or_null(struct json *json, uint64_t value)
{
    if (value == UINT64_MAX)
        fputs("null", json->to);
    else
        fprintf(json->to, "%" PRIu64, value);
}

static void signed_number(struct json *json, const char *member, int64_t value)
{
    name(json, member);
    fprintf(json->to, "%" PRIi64, value);
}

/* As many digits as it takes to read the same number back. */
static void real(struct json *json, const char *member, double value)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    name(json, member);
    fputs(text, json->to);
}

static void boolean(struct json *json, const char *member, bool value)
{
    name(json, member);
    fputs(value ? "true" : "false", json->to);
}

/* Piece by piece: a text may be of any length. */
static void text(struct json *json, const char *member, struct cdl_slice value)
{
    char bytes[1024];
    name(json, member);
    fputc('"', json->to);
    while (value.length > 0) {
        const struct cdl_slice piece = cdl_utf8_head(value, 128);
        struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
        cdl_json_write_string(&writer, piece);
        fwrite(writer.bytes + 1, 1, writer.length - 2, json->to);
        value = cdl_slice_from(value, piece.length);
    }
    fputc('"', json->to);
}

/* In nanoseconds, and beside it for people: `words` is the member's name without "_ns". */
static void instant(struct json *json, const char *member, const char *words, int64_t at_ns)
{
    char bytes[64];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
    cdl_instant_write(&writer, at_ns);
    signed_number(json, member, at_ns);
    text(json, words, cdl_written(&writer));
}

static void numbers(struct json *json, const char *member, const uint64_t *values, size_t count)
{
    name(json, member);
    begin(json, '[');
    for (size_t i = 0; i < count; i++) {
        separate(json);
        number_or_null(json, values[i]);
    }
    end(json, ']');
}

/* ---- limits ---- */

static void write_bounds(struct json *json, const struct cdl_replay_bounds *bounds)
{
    name(json, "bounds");
    begin(json, '{');
    boolean(json, "known", bounds->known);
    number(json, "least", bounds->least);
    number(json, "most", bounds->most);
    end(json, '}');
}

static void write_headroom(struct json *json, const char *member, const struct cdl_replay_headroom *headroom)
{
    name(json, member);
    begin(json, '{');
    name(json, "for_all");
    number_or_null(json, headroom->for_all);
    name(json, "for_most");
    number_or_null(json, headroom->for_most);
    end(json, '}');
}

static void write_what(struct json *json, const struct caudal_limit *what)
{
    name(json, "what");
    begin(json, '{');
    text(json, "algorithm", cdl_slice_of(caudal_algorithm_name(what->algorithm)));
    number(json, "count", what->count);
    number(json, "period_ns", what->period_ns);
    name(json, "burst");
    number_or_null(json, what->algorithm == CAUDAL_TOKEN_BUCKET ? caudal_limit_capacity(what) : UINT64_MAX);
    end(json, '}');
}

static void write_variants(struct json *json, const struct cdl_replay_limit *limit)
{
    static const char *const names[] = {"fixed_window", "sliding_window", "token_bucket"};
    name(json, "variants");
    begin(json, '{');
    for (unsigned v = 0; v < CDL_STUDY_VARIANTS; v++) {
        const struct cdl_replay_variant *variant = &limit->variants[v];
        name(json, names[v]);
        begin(json, '{');
        number(json, "refused", variant->refused);
        number(json, "keys_refused", variant->keys_refused);
        number(json, "most_in_a_period", variant->most_in_a_period);
        end(json, '}');
    }
    end(json, '}');
}

static void write_rungs(struct json *json, const struct cdl_replay_limit *limit)
{
    name(json, "rungs");
    begin(json, '[');
    for (unsigned i = 0; i < CDL_STUDY_RATES; i++) {
        separate(json);
        begin(json, '{');
        real(json, "rate", limit->rungs[i].rate);
        write_headroom(json, "burst", &limit->rungs[i].burst);
        end(json, '}');
    }
    end(json, ']');
}

static void write_limit(struct json *json, const struct cdl_replay_limit *limit)
{
    separate(json);
    begin(json, '{');
    text(json, "name", limit->name);
    text(json, "limit", limit->limit);
    text(json, "rate", limit->rate);
    write_what(json, &limit->what);
    text(json, "mode", cdl_slice_of(cdl_mode_word(limit->mode)));
    number(json, "requests", limit->requests);
    number(json, "refused", limit->refused);
    number(json, "keys", limit->keys);
    number(json, "keys_refused", limit->keys_refused);
    number(json, "unstudied", limit->unstudied);
    write_bounds(json, &limit->bounds);
    write_variants(json, limit);
    write_headroom(json, "burst", &limit->burst);
    write_headroom(json, "fixed_count", &limit->fixed_count);
    write_headroom(json, "sliding_count", &limit->sliding_count);
    write_rungs(json, limit);
    write_headroom(json, "rate_at_burst", &limit->rate_at_burst);
    numbers(json, "peaks", limit->peaks.keys, CDL_REPLAY_PEAK_BINS);
    end(json, '}');
}

static void write_limits(struct json *json, const struct cdl_replay_report *report)
{
    name(json, "limits");
    begin(json, '[');
    for (size_t i = 0; i < report->limit_count; i++)
        write_limit(json, &report->limits[i]);
    end(json, ']');
}

/* ---- keys and clients ---- */

/* By its name: an index says nothing to who looks at one object. */
static void write_limit_name(struct json *json, const struct cdl_replay_report *report, uint32_t limit)
{
    if (limit < report->limit_count) {
        text(json, "limit", report->limits[limit].name);
        return;
    }
    name(json, "limit");
    fputs("null", json->to);
}

static void write_keys(struct json *json, const struct cdl_replay_report *report)
{
    name(json, "refused_keys");
    begin(json, '[');
    for (size_t i = 0; i < report->refused_key_count; i++) {
        const struct cdl_replay_key *key = &report->refused_keys[i];
        separate(json);
        begin(json, '{');
        write_limit_name(json, report, key->limit);
        text(json, "key", key->key);
        number(json, "requests", key->requests);
        number(json, "refused", key->refused);
        number(json, "second_most", key->second_most);
        number(json, "period_most", key->period_most);
        signed_number(json, "stretch_ns", key->stretch_ns);
        instant(json, "stretch_begin_ns", "stretch_begin", key->stretch_begin_ns);
        end(json, '}');
    }
    end(json, ']');
}

static void write_clients(struct json *json, const struct cdl_replay_report *report)
{
    name(json, "busy_clients");
    begin(json, '[');
    for (size_t i = 0; i < report->busy_client_count; i++) {
        const struct cdl_replay_client *client = &report->busy_clients[i];
        separate(json);
        begin(json, '{');
        text(json, "client", client->client);
        number(json, "requests", client->requests);
        number(json, "refused", client->refused);
        end(json, '}');
    }
    end(json, ']');
}

/* ---- time ---- */

static void write_load(struct json *json, const char *member, const struct cdl_replay_load *load)
{
    name(json, member);
    begin(json, '{');
    number(json, "p50", load->p50);
    number(json, "p99", load->p99);
    number(json, "most", load->most);
    end(json, '}');
}

static void write_steps(struct json *json, int64_t begin_ns, int64_t step_ns, size_t steps)
{
    instant(json, "begin_ns", "begin", begin_ns);
    signed_number(json, "step_ns", step_ns);
    number(json, "steps", steps);
}

static void write_series(struct json *json, const struct cdl_replay_report *report)
{
    const struct cdl_replay_series *series = &report->series;
    name(json, "series");
    begin(json, '{');
    write_steps(json, series->begin_ns, series->step_ns, series->steps);
    numbers(json, "offered", series->offered, series->steps);
    numbers(json, "admitted", series->admitted, series->steps);
    name(json, "refused");
    begin(json, '[');
    for (size_t i = 0; i < series->limit_count; i++) {
        separate(json);
        begin(json, '{');
        write_limit_name(json, report, series->limits[i]);
        numbers(json, "counts", series->refused[i], series->steps);
        end(json, '}');
    }
    end(json, ']');
    end(json, '}');
}

static void write_traces(struct json *json, const struct cdl_replay_report *report)
{
    name(json, "traces");
    begin(json, '[');
    for (size_t i = 0; i < report->trace_count; i++) {
        const struct cdl_replay_trace *trace = &report->traces[i];
        separate(json);
        begin(json, '{');
        write_limit_name(json, report, trace->limit);
        text(json, "key", trace->key);
        boolean(json, "from_the_beginning", trace->from_the_beginning);
        write_steps(json, trace->begin_ns, trace->step_ns, trace->steps);
        numbers(json, "admitted", trace->admitted, trace->steps);
        numbers(json, "refused", trace->refused, trace->steps);
        numbers(json, "lowest", trace->lowest, trace->steps);
        numbers(json, "highest", trace->highest, trace->steps);
        end(json, '}');
    }
    end(json, ']');
}

/* ---- logs ---- */

static void write_reasons(struct json *json, const struct cdl_replay_report *report)
{
    name(json, "reasons");
    begin(json, '[');
    for (size_t i = 0; i < report->log.reason_count; i++) {
        const struct cdl_log_reason *reason = &report->log.reasons[i];
        char bytes[512];
        struct cdl_writer why = cdl_writer_on(bytes, sizeof bytes);
        cdl_access_why_write(&why, &reason->why);
        separate(json);
        begin(json, '{');
        text(json, "why", cdl_written(&why));
        text(json, "field", cdl_slice_of(reason->why.field));
        text(json, "detail", cdl_slice_of(reason->why.detail));
        number(json, "column", reason->why.column);
        number(json, "count", reason->count);
        text(json, "source",
             cdl_slice_of(reason->source < report->source_count ? report->sources[reason->source].path : ""));
        number(json, "line", reason->line);
        text(json, "example", (struct cdl_slice){reason->example, reason->example_length});
        end(json, '}');
    }
    end(json, ']');
}

static void write_log(struct json *json, const struct cdl_replay_report *report)
{
    const struct cdl_log_stats *log = &report->log;
    name(json, "log");
    begin(json, '{');
    number(json, "lines", log->lines);
    number(json, "parsed", log->parsed);
    number(json, "skipped", log->skipped);
    number(json, "headings", log->headings);
    number(json, "out_of_order", log->out_of_order);
    signed_number(json, "out_of_order_ns", log->out_of_order_ns);
    number(json, "late", log->late);
    signed_number(json, "late_ns", log->late_ns);
    number(json, "hurried", log->hurried);
    signed_number(json, "hurried_window_ns", log->hurried_window_ns);
    instant(json, "first_ns", "first", log->first_ns);
    instant(json, "last_ns", "last", log->last_ns);
    signed_number(json, "resolution_ns", log->resolution_ns);
    number(json, "waiting", log->waiting);
    number(json, "waiting_bytes_most", log->waiting_bytes_most);
    write_reasons(json, report);
    end(json, '}');
}

static void write_sources(struct json *json, const struct cdl_replay_report *report)
{
    name(json, "sources");
    begin(json, '[');
    for (size_t i = 0; i < report->source_count; i++) {
        const struct cdl_log_source_stats *source = &report->sources[i];
        separate(json);
        begin(json, '{');
        text(json, "path", cdl_slice_of(source->path));
        text(json, "format", cdl_slice_of(source->format));
        number(json, "sample_lines", source->sample_lines);
        number(json, "sample_parsed", source->sample_parsed);
        number(json, "lines", source->lines);
        number(json, "parsed", source->parsed);
        boolean(json, "failed", source->failed);
        end(json, '}');
    }
    end(json, ']');
}

/* ---- reports ---- */

static void write_counts(struct json *json, const struct cdl_replay_report *report)
{
    instant(json, "begin_ns", "begin", report->begin_ns);
    instant(json, "end_ns", "end", report->end_ns);
    number(json, "requests", report->requests);
    number(json, "admitted", report->admitted);
    number(json, "refused", report->refused);
    number(json, "exempt", report->exempt);
    number(json, "unlimited", report->unlimited);
    number(json, "refused_without_limit", report->refused_without_limit);
    number(json, "unknown_clients", report->unknown_clients);
    number(json, "pathless", report->pathless);
    write_bounds(json, &report->bounds);
    number(json, "clients", report->clients);
    number(json, "clients_refused", report->clients_refused);
    number(json, "clients_unstudied", report->clients_unstudied);
    number(json, "keys", report->keys);
    number(json, "forgotten", report->forgotten);
    write_load(json, "offered_load", &report->offered_load);
    write_load(json, "admitted_load", &report->admitted_load);
}

/* An object's members. */
static void write_report(struct json *json, const struct cdl_replay_report *report)
{
    text(json, "policy_file", report->policy_file);
    real(json, "touch_share", report->touch_share);
    boolean(json, "interrupted", report->interrupted);
    write_log(json, report);
    write_sources(json, report);
    write_counts(json, report);
    write_limits(json, report);
    write_keys(json, report);
    write_clients(json, report);
    write_series(json, report);
    write_traces(json, report);
}

static void write_comparison(struct json *json, const struct cdl_comparison *comparison)
{
    name(json, "comparison");
    begin(json, '{');
    number(json, "both_admit", comparison->both_admit);
    number(json, "both_refuse", comparison->both_refuse);
    number(json, "first_only_refuses", comparison->first_only_refuses);
    number(json, "second_only_refuses", comparison->second_only_refuses);
    number(json, "clients_refused_by_both", comparison->clients_refused_by_both);
    number(json, "clients_refused_by_first", comparison->clients_refused_by_first);
    number(json, "clients_refused_by_second", comparison->clients_refused_by_second);
    name(json, "clients");
    begin(json, '[');
    for (size_t i = 0; i < comparison->client_count; i++) {
        const struct cdl_comparison_client *client = &comparison->clients[i];
        separate(json);
        begin(json, '{');
        text(json, "client", client->client);
        number(json, "requests", client->requests);
        number(json, "refused_by_first", client->refused_by_first);
        number(json, "refused_by_second", client->refused_by_second);
        end(json, '}');
    }
    end(json, ']');
    end(json, '}');
}

int cdl_replay_write_json(FILE *to, const struct cdl_replay_reports *set)
{
    struct json json = {.to = to};
    begin(&json, '{');
    number(&json, "schema", SCHEMA);
    write_report(&json, set->report);
    if (set->second != NULL) {
        name(&json, "second");
        begin(&json, '{');
        write_report(&json, set->second);
        end(&json, '}');
    }
    if (set->comparison != NULL)
        write_comparison(&json, set->comparison);
    end(&json, '}');
    fputc('\n', to);
    return fflush(to) == 0 && !ferror(to) ? 0 : -1;
}
