#include "replay/report_charts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/problem.h"
#include "replay/report_numbers.h"

#define SECOND INT64_C(1000000000)
#define LEGEND_COLUMNS 24u /* of a policy's name: fits on a phone */
#define CHARTS_MOST (4 + CDL_CHARTS_LEVELS + CDL_CHARTS_PEAKS)

/* What is being made, and of what. */
struct making {
    struct cdl_charts *made;
    const struct cdl_replay_report *report;
    const struct cdl_replay_reports *set;
};

/* ---- pieces ---- */

/* A name, ready to be shown, for "%s". */
struct name {
    char text[CDL_CHART_COLUMNS * 4 + 1];
};

static struct name shown(struct cdl_slice slice)
{
    struct name name = {{0}};
    struct cdl_writer writer = cdl_writer_on(name.text, sizeof name.text - 1);
    cdl_show_name(&writer, slice, CDL_CHART_COLUMNS);
    return name;
}

/* "admitted by policy.yaml", for a legend. */
static const char *with_policy(struct making *making, const char *words, const struct cdl_replay_report *report)
{
    char text[LEGEND_COLUMNS * 4 + 32];
    struct cdl_writer writer = cdl_writer_on(text, sizeof text);
    cdl_writef(&writer, "%s ", words);
    cdl_show_name(&writer, report->policy_file, LEGEND_COLUMNS);
    return cdl_arena_copy(&making->made->arena, cdl_written(&writer)).bytes;
}

/* NULL when memory is short; then `failed` is set in the arena, which is looked at once, at the end. */
static double *numbers_of(struct making *making, const uint64_t *counts, size_t steps)
{
    double *numbers = cdl_arena_allocate(&making->made->arena, steps, sizeof *numbers);
    for (size_t i = 0; numbers != NULL && i < steps; i++)
        numbers[i] = counts[i] == UINT64_MAX ? NAN : (double)counts[i];
    return numbers;
}

static struct cdl_chart *next_chart(struct making *making, enum cdl_chart_kind kind, const char *name)
{
    struct cdl_chart *chart = &making->made->charts[making->made->count++];
    chart->kind = kind;
    snprintf(chart->name, sizeof chart->name, "%s", name);
    return chart;
}

static void add_panels(struct making *making, struct cdl_chart *chart, size_t count)
{
    chart->panels = cdl_arena_allocate(&making->made->arena, count, sizeof *chart->panels);
    chart->panel_count = chart->panels == NULL ? 0 : count;
}

static void add_rows(struct making *making, struct cdl_chart *chart, size_t count)
{
    chart->rows = cdl_arena_allocate(&making->made->arena, count, sizeof *chart->rows);
    chart->row_count = chart->rows == NULL ? 0 : count;
}

static void set_time(struct cdl_chart *chart, int64_t begin_ns, int64_t step_ns, size_t steps)
{
    chart->begin_ns = begin_ns;
    chart->step_ns = step_ns;
    chart->steps = steps;
}

/* What a series may be missing when memory is short must not be drawn. */
static void add_series(struct cdl_chart_panel *panel, struct cdl_chart_series series)
{
    if (series.values != NULL)
        panel->series[panel->series_count++] = series;
}

/* ---- rate over time ---- */

/* Counts as a mean of each second. The last step ends with the log. */
static double *rates_of(struct making *making, const struct cdl_replay_series *series, const uint64_t *counts)
{
    double *rates = numbers_of(making, counts, series->steps);
    if (rates == NULL || series->steps == 0)
        return rates;
    const size_t last = series->steps - 1;
    const int64_t step_s = series->step_ns / SECOND;
    const int64_t rest_ns = making->report->end_ns - series->begin_ns - (int64_t)last * series->step_ns;
    const int64_t last_s = rest_ns < 0 || rest_ns >= series->step_ns ? step_s : rest_ns / SECOND + 1;
    for (size_t i = 0; i < last; i++)
        rates[i] /= (double)step_s;
    rates[last] /= (double)last_s;
    return rates;
}

static void add_rate(struct making *making)
{
    const struct cdl_replay_series *series = &making->report->series;
    const struct cdl_replay_report *second = making->set->second;
    struct cdl_chart *chart = next_chart(making, CDL_CHART_OF_TIME, "rate");
    snprintf(chart->title, sizeof chart->title, "Requests per second");
    if (series->steps == 0) {
        snprintf(chart->note, sizeof chart->note, "There was no request.");
        return;
    }
    snprintf(chart->note, sizeof chart->note,
             "What was offered, and what %s would have admitted: the mean of each %s, in UTC.",
             second == NULL ? "the policy" : "each policy", cdl_show_duration(series->step_ns).text);
    set_time(chart, series->begin_ns, series->step_ns, series->steps);
    add_panels(making, chart, 1);
    if (chart->panel_count == 0)
        return;
    add_series(chart->panels, (struct cdl_chart_series){"offered", CDL_SHAPE_AREA, CDL_INK_OFFERED, CDL_DASH_NONE,
                                                        rates_of(making, series, series->offered), NULL});
    add_series(chart->panels,
               (struct cdl_chart_series){
                   second == NULL ? "admitted" : with_policy(making, "admitted by", making->report), CDL_SHAPE_LINE,
                   CDL_INK_ADMITTED, CDL_DASH_LONG, rates_of(making, series, series->admitted), NULL});
    /* Of the same requests, so in the same steps. */
    if (second != NULL && second->series.steps == series->steps)
        add_series(chart->panels,
                   (struct cdl_chart_series){with_policy(making, "admitted by", second), CDL_SHAPE_LINE, CDL_INK_SECOND,
                                             CDL_DASH_SHORT, rates_of(making, series, second->series.admitted), NULL});
}

/* ---- refusals by limit ---- */

static uint64_t sum_of(const uint64_t *counts, size_t steps)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < steps; i++)
        sum += counts[i];
    return sum;
}

static void add_refusal_panel(struct making *making, struct cdl_chart *chart, size_t index)
{
    const struct cdl_replay_report *report = making->report;
    const struct cdl_replay_series *series = &report->series;
    const uint64_t sum = sum_of(series->refused[index], series->steps);
    if (sum == 0)
        return;
    struct cdl_chart_panel *panel = &chart->panels[chart->panel_count++];
    const struct cdl_replay_limit *limit = series->limits[index] < report->limit_count
                                               ? &report->limits[series->limits[index]]
                                               : NULL;
    snprintf(panel->title, sizeof panel->title, "%s: %s%s",
             limit == NULL ? "others, and refusals without a limit" : shown(limit->name).text,
             cdl_show_number(sum).text, limit != NULL && limit->mode == CDL_MODE_SHADOW ? ", in shadow mode" : "");
    add_series(panel, (struct cdl_chart_series){NULL, CDL_SHAPE_BARS, CDL_INK_REFUSED, CDL_DASH_NONE,
                                                numbers_of(making, series->refused[index], series->steps), NULL});
}

static void add_refusals(struct making *making)
{
    const struct cdl_replay_series *series = &making->report->series;
    struct cdl_chart *chart = next_chart(making, CDL_CHART_OF_TIME, "refusals");
    snprintf(chart->title, sizeof chart->title, "Refusals by limit");
    set_time(chart, series->begin_ns, series->step_ns, series->steps);
    add_panels(making, chart, series->limit_count);
    chart->panel_count = 0;
    for (size_t i = 0; i < series->limit_count && chart->panels != NULL; i++)
        add_refusal_panel(making, chart, i);
    if (chart->panel_count == 0)
        snprintf(chart->note, sizeof chart->note, "Nothing was refused.");
    else
        snprintf(chart->note, sizeof chart->note, "Refused requests in each %s, every limit on a scale of its own.",
                 cdl_show_duration(series->step_ns).text);
}

/* ---- levels ---- */

/* Where a step had no request, a bucket's level is known all the same: it refills. */
static void refill(const struct caudal_limit *limit, const struct cdl_replay_trace *trace, double *low, double *high)
{
    const double capacity = (double)caudal_limit_capacity(limit);
    const double per_step = (double)limit->count / (double)limit->period_ns * (double)trace->step_ns;
    for (size_t i = 1; i < trace->steps; i++)
        if (isnan(low[i]) && !isnan(low[i - 1]))
            low[i] = high[i] = fmin(capacity, low[i - 1] + per_step);
}

static void add_level_panel(struct making *making, struct cdl_chart_panel *panel, const struct cdl_replay_trace *trace,
                            const struct caudal_limit *limit)
{
    double *low = numbers_of(making, trace->lowest, trace->steps);
    double *high = numbers_of(making, trace->highest, trace->steps);
    if (low == NULL || high == NULL)
        return;
    if (limit->algorithm == CAUDAL_TOKEN_BUCKET)
        refill(limit, trace, low, high);
    add_series(panel, (struct cdl_chart_series){"tokens that remained", CDL_SHAPE_BAND, CDL_INK_ADMITTED, CDL_DASH_NONE,
                                                high, low});
    const uint64_t capacity = caudal_limit_capacity(limit);
    if (capacity == UINT64_MAX)
        return;
    panel->line_count = 1;
    panel->lines[0].at = (double)capacity;
    snprintf(panel->lines[0].label, sizeof panel->lines[0].label, "full: %s", cdl_show_number(capacity).text);
}

static void add_request_panel(struct making *making, struct cdl_chart_panel *panel,
                              const struct cdl_replay_trace *trace)
{
    add_series(panel, (struct cdl_chart_series){"admitted, upwards", CDL_SHAPE_BARS, CDL_INK_ADMITTED, CDL_DASH_NONE,
                                                numbers_of(making, trace->admitted, trace->steps), NULL});
    add_series(panel, (struct cdl_chart_series){"refused, downwards", CDL_SHAPE_BARS_DOWN, CDL_INK_REFUSED,
                                                CDL_DASH_NONE, numbers_of(making, trace->refused, trace->steps), NULL});
}

static void add_level(struct making *making, size_t index)
{
    const struct cdl_replay_trace *trace = &making->report->traces[index];
    char file[64];
    snprintf(file, sizeof file, "level-%zu", index + 1);
    struct cdl_chart *chart = next_chart(making, CDL_CHART_OF_TIME, file);
    const struct cdl_replay_limit *limit = &making->report->limits[trace->limit];
    snprintf(chart->title, sizeof chart->title, "Level of %s", shown(trace->key).text);
    snprintf(chart->note, sizeof chart->note,
             "Under %s, %s: what remained after each request, and requests in each %s%s.", shown(limit->name).text,
             shown(limit->rate).text, cdl_show_duration(trace->step_ns).text,
             trace->from_the_beginning ? "" : ", from the first refusal on");
    set_time(chart, trace->begin_ns, trace->step_ns, trace->steps);
    add_panels(making, chart, 2);
    if (chart->panel_count == 0)
        return;
    add_level_panel(making, &chart->panels[0], trace, &limit->what);
    add_request_panel(making, &chart->panels[1], trace);
}

static void add_levels(struct making *making)
{
    for (size_t i = 0; i < making->report->trace_count && i < CDL_CHARTS_LEVELS; i++)
        if (making->report->traces[i].limit < making->report->limit_count && making->report->traces[i].steps > 0)
            add_level(making, i);
}

/* ---- peaks ---- */

/* A bucket passes up to burst + count within a period, a window its count. */
static void add_peak_lines(struct cdl_chart_panel *panel, const struct caudal_limit *what)
{
    panel->line_count = 1;
    panel->lines[0].at = (double)what->count;
    snprintf(panel->lines[0].label, sizeof panel->lines[0].label, "count: %s", cdl_show_number(what->count).text);
    const uint64_t burst = caudal_limit_capacity(what);
    if (what->algorithm != CAUDAL_TOKEN_BUCKET || burst == 0)
        return;
    panel->line_count = 2;
    panel->lines[1].at = (double)(what->count + burst);
    snprintf(panel->lines[1].label, sizeof panel->lines[1].label, "count and burst: %s",
             cdl_show_number(what->count + burst).text);
}

/* Names of limits may have any letter that a file's name may not. */
static void name_peaks(char *file, size_t size, size_t number, struct cdl_slice name)
{
    int length = snprintf(file, size, "peaks-%zu-", number);
    for (size_t i = 0; i < name.length && (size_t)length + 1 < size; i++) {
        const char c = cdl_ascii_lower(name.bytes[i]);
        file[length++] = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ? name.bytes[i] : '_';
    }
    file[length] = '\0';
}

static void add_peaks_of(struct making *making, uint32_t index)
{
    const struct cdl_replay_limit *limit = &making->report->limits[index];
    char file[64];
    name_peaks(file, sizeof file, index + (size_t)1, limit->name);
    struct cdl_chart *chart = next_chart(making, CDL_CHART_OF_PEAKS, file);
    snprintf(chart->title, sizeof chart->title, "Peaks under %s", shown(limit->name).text);
    snprintf(chart->note, sizeof chart->note,
             "How many keys asked for how much at most within %s of the clock, both on logarithmic scales; %s. "
             "Hatched: above all that can pass.",
             cdl_show_duration((int64_t)limit->what.period_ns).text, shown(limit->rate).text);
    add_panels(making, chart, 1);
    if (chart->panel_count == 0)
        return;
    add_series(chart->panels,
               (struct cdl_chart_series){NULL, CDL_SHAPE_BARS, CDL_INK_ADMITTED, CDL_DASH_NONE,
                                         numbers_of(making, limit->peaks.keys, CDL_REPLAY_PEAK_BINS), NULL});
    add_peak_lines(chart->panels, &limit->what);
    if (chart->panels->series_count == 0)
        chart->panel_count = 0;
}

static bool has_peaks(const struct cdl_replay_limit *limit)
{
    return limit->what.algorithm != CAUDAL_UNLIMITED && sum_of(limit->peaks.keys, CDL_REPLAY_PEAK_BINS) > 0;
}

/* Does the limit stay when there is no room for all? It does when fewer than that many refused more. */
static bool is_among_most_refusing(const struct cdl_replay_report *report, size_t index)
{
    size_t before = 0;
    for (size_t i = 0; i < report->limit_count; i++) {
        const uint64_t refused = report->limits[i].refused, own = report->limits[index].refused;
        before += has_peaks(&report->limits[i]) && (refused > own || (refused == own && i < index));
    }
    return before < CDL_CHARTS_PEAKS;
}

static void add_peaks(struct making *making)
{
    for (uint32_t i = 0; i < making->report->limit_count; i++)
        if (has_peaks(&making->report->limits[i]) && is_among_most_refusing(making->report, i))
            add_peaks_of(making, i);
}

/* ---- clients ---- */

/* Three of them stand on a line of a phone. */
static struct cdl_shown tight(uint64_t number)
{
    return number < 1000000000 ? cdl_show_number(number) : cdl_show_short((double)number);
}

static void add_clients(struct making *making)
{
    const struct cdl_replay_report *report = making->report;
    struct cdl_chart *chart = next_chart(making, CDL_CHART_OF_ROWS, "clients");
    snprintf(chart->title, sizeof chart->title, "Busiest clients");
    snprintf(chart->note, sizeof chart->note, "%s",
             report->busy_client_count == 0 ? "There was no client with an address."
                                            : "Requests of those who sent most, and how many were refused.");
    chart->bar_count = 1;
    chart->parts[0] = (struct cdl_chart_series){.name = "admitted", .shape = CDL_SHAPE_BARS, .ink = CDL_INK_ADMITTED};
    chart->parts[1] = (struct cdl_chart_series){.name = "refused", .shape = CDL_SHAPE_HATCHED, .ink = CDL_INK_REFUSED};
    add_rows(making, chart, report->busy_client_count);
    for (size_t i = 0; i < chart->row_count; i++) {
        const struct cdl_replay_client *client = &report->busy_clients[i];
        struct cdl_chart_row *row = &chart->rows[i];
        snprintf(row->label, sizeof row->label, "%s", shown(client->client).text);
        snprintf(row->note, sizeof row->note, "%s, refused %s (%s)", tight(client->requests).text,
                 tight(client->refused).text, cdl_show_share(client->refused, client->requests).text);
        row->bars[0][0] = (double)(client->requests - client->refused);
        row->bars[0][1] = (double)client->refused;
    }
}

static void add_changes(struct making *making)
{
    const struct cdl_comparison *comparison = making->set->comparison;
    struct cdl_chart *chart = next_chart(making, CDL_CHART_OF_ROWS, "changes");
    snprintf(chart->title, sizeof chart->title, "Clients who change sides");
    snprintf(chart->note, sizeof chart->note, "%s",
             comparison->client_count == 0 ? "Both policies decide alike."
                                           : "Refusals of those whose requests the two policies decide differently.");
    chart->bar_count = 2;
    chart->parts[0] = (struct cdl_chart_series){
        .name = with_policy(making, "refused by", making->report), .shape = CDL_SHAPE_HATCHED, .ink = CDL_INK_REFUSED};
    chart->parts[2] = (struct cdl_chart_series){
        .name = with_policy(making, "refused by", making->set->second), .shape = CDL_SHAPE_BARS, .ink = CDL_INK_SECOND};
    add_rows(making, chart, comparison->client_count);
    for (size_t i = 0; i < chart->row_count; i++) {
        const struct cdl_comparison_client *client = &comparison->clients[i];
        struct cdl_chart_row *row = &chart->rows[i];
        snprintf(row->label, sizeof row->label, "%s", shown(client->client).text);
        snprintf(row->note, sizeof row->note, "of %s: %s, %s", tight(client->requests).text,
                 tight(client->refused_by_first).text, tight(client->refused_by_second).text);
        row->bars[0][0] = (double)client->refused_by_first;
        row->bars[1][0] = (double)client->refused_by_second;
    }
}

/* ---- all of them ---- */

int cdl_charts_make(const struct cdl_replay_reports *set, struct cdl_charts *charts)
{
    *charts = (struct cdl_charts){.count = 0};
    cdl_arena_init(&charts->arena, NULL);
    charts->charts = cdl_arena_allocate(&charts->arena, CHARTS_MOST, sizeof *charts->charts);
    if (charts->charts != NULL) {
        struct making making = {charts, set->report, set};
        add_rate(&making);
        add_refusals(&making);
        add_levels(&making);
        add_peaks(&making);
        add_clients(&making);
        if (set->comparison != NULL && set->second != NULL)
            add_changes(&making);
    }
    if (!charts->arena.failed)
        return 0;
    cdl_charts_free(charts);
    errno = ENOMEM;
    return -1;
}

void cdl_charts_free(struct cdl_charts *charts)
{
    cdl_arena_free(&charts->arena);
}

static int write_chart(const char *folder, enum cdl_chart_format format, const struct cdl_chart *chart,
                       struct caudal_problem *problem)
{
    char *path;
    if (asprintf(&path, "%s/%s.%s", folder, chart->name, format == CDL_CHART_SVG ? "svg" : "png") < 0) {
        cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
        return -1;
    }
    FILE *file = fopen(path, "wb");
    int status = file == NULL ? -1 : cdl_chart_write_file(file, format, chart);
    int reason = errno;
    if (file != NULL && fclose(file) != 0 && status == 0) {
        status = -1;
        reason = errno;
    }
    if (status != 0)
        cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "cannot write '%s': %s", path, strerrordesc_np(reason));
    free(path);
    errno = reason;
    return status;
}

int cdl_replay_write_charts(const char *folder, enum cdl_chart_format format, const struct cdl_replay_reports *set,
                            struct caudal_problem *problem)
{
    struct cdl_charts charts;
    if (cdl_charts_make(set, &charts) != 0) {
        cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
        return -1;
    }
    int status = 0;
    for (size_t i = 0; i < charts.count && status == 0; i++)
        status = write_chart(folder, format, &charts.charts[i], problem);
    cdl_chart_files_end();
    cdl_charts_free(&charts);
    return status;
}
