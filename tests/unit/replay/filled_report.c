#include "filled_report.h"

#include <math.h>
#include <stdlib.h>

#include "../support.h"
#include "policy/policy.h"

#define STEPS 720u

static char hostile_bytes[1024];

/* HTML, a line feed, a turn of direction, a byte that is no character, and more of it than anybody wants to see. */
static struct cdl_slice hostile(void)
{
    static const char beginning[] = HOSTILE_BEGINNING "\n\xe2\x80\xae<img src=x onerror=alert(2)>\xff&\"'";
    memset(hostile_bytes, 'k', sizeof hostile_bytes);
    memcpy(hostile_bytes, beginning, sizeof beginning - 1);
    memcpy(hostile_bytes + sizeof hostile_bytes - 6, "</svg>", 6);
    return (struct cdl_slice){hostile_bytes, sizeof hostile_bytes};
}

static struct cdl_slice name_of(enum filling filling, const char *plain)
{
    return filling == FILLED_HOSTILE ? hostile() : cdl_slice_of(plain);
}

static uint64_t many(enum filling filling, uint64_t count)
{
    return filling == FILLED_HUGE ? count * UINT64_C(1000000000000) : count;
}

static uint64_t *counts(struct cdl_replay_report *report, size_t steps)
{
    uint64_t *all = cdl_arena_allocate(&report->arena, steps, sizeof *all);
    assert_non_null(all);
    return all;
}

/* ---- limits ---- */

static void fill_limit(struct cdl_replay_limit *limit, enum filling filling, uint64_t refused)
{
    *limit = (struct cdl_replay_limit){
        .name = name_of(filling, "per-client"),
        .limit = name_of(filling, "per-client"),
        .rate = CDL_SLICE("100/min burst 20"),
        .what = bucket_of(20, 100, MINUTE),
        .requests = many(filling, 48211),
        .refused = refused,
        .keys = 940,
        .keys_refused = 7,
        .unstudied = 3,
        .bounds = {true, refused / 2, refused * 2},
        .burst = {many(filling, 164), many(filling, 58)},
        .fixed_count = {211, 120},
        .sliding_count = {230, 127},
        .rate_at_burst = {UINT64_MAX, 133},
    };
    for (unsigned v = 0; v < CDL_STUDY_VARIANTS; v++)
        limit->variants[v] = (struct cdl_replay_variant){refused + v, 7 + v, 190 - 30 * v};
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++)
        limit->rungs[n] = (struct cdl_replay_rung){100 * pow(2, (n - 6.0) / 2), {400 - 20 * n, 150 - 10 * n}};
    limit->rungs[0].burst.for_all = UINT64_MAX;
    for (unsigned bin = 0; bin < CDL_REPLAY_PEAK_BINS / 2; bin++)
        limit->peaks.keys[bin] = many(filling, bin == 0 ? 500 : 300 / (bin + 1));
}

static void fill_limits(struct cdl_replay_report *report, enum filling filling)
{
    report->limit_count = 2;
    report->limits = cdl_arena_allocate(&report->arena, 2, sizeof *report->limits);
    fill_limit(&report->limits[0], filling, many(filling, 1204));
    fill_limit(&report->limits[1], filling, many(filling, 77));
    report->limits[1].name = report->limits[1].limit = CDL_SLICE("uploads <all> & sundry");
    report->limits[1].rate = CDL_SLICE("1000/h sliding_window");
    report->limits[1].what = limit_of(CAUDAL_SLIDING_WINDOW, 1000, HOUR);
    report->limits[1].mode = CDL_MODE_SHADOW;
    report->limits[1].bounds.known = false;
}

/* ---- over time ---- */

/* A day's traffic: it comes and goes, with two bursts. */
static uint64_t offered_in(size_t step)
{
    const double day = 40 + 30 * sin((double)step / STEPS * 2 * 3.14159 - 1.5) + 3 * sin((double)step);
    return (uint64_t)day + (step > 300 && step < 330 ? 160 : 0) + (step == 500 ? 300 : 0);
}

static void fill_series(struct cdl_replay_report *report, enum filling filling)
{
    struct cdl_replay_series *series = &report->series;
    const size_t steps = filling == FILLED_ONE_SECOND ? 1 : STEPS;
    *series = (struct cdl_replay_series){
        .begin_ns = report->begin_ns,
        .step_ns = filling == FILLED_ONE_SECOND ? SECOND : 2 * MINUTE,
        .steps = steps,
        .offered = counts(report, steps),
        .admitted = counts(report, steps),
        .limit_count = 3,
        .limits = {0, 1, CDL_NONE},
    };
    for (size_t i = 0; i < series->limit_count; i++)
        series->refused[i] = counts(report, steps);
    for (size_t n = 0; n < steps; n++) {
        const uint64_t offered = filling == FILLED_ONE_SECOND ? 3 : offered_in(n);
        const uint64_t most = filling == FILLED_ONE_SECOND ? 2 : 100;
        const uint64_t refused = offered > most ? offered - most : 0;
        series->offered[n] = many(filling, offered);
        series->admitted[n] = many(filling, offered - refused);
        series->refused[n % 9 == 0 ? 1 : n % 17 == 0 ? 2 : 0][n] = many(filling, refused);
    }
}

static void fill_trace(struct cdl_replay_report *report, struct cdl_replay_trace *trace, enum filling filling,
                       uint32_t limit)
{
    const size_t steps = filling == FILLED_ONE_SECOND ? 1 : 300;
    *trace = (struct cdl_replay_trace){
        .limit = limit,
        .key = name_of(filling, "203.0.113.7"),
        .from_the_beginning = limit == 1,
        .begin_ns = report->begin_ns,
        .step_ns = filling == FILLED_ONE_SECOND ? SECOND : 2 * SECOND,
        .steps = steps,
        .admitted = counts(report, steps),
        .refused = counts(report, steps),
        .lowest = counts(report, steps),
        .highest = counts(report, steps),
    };
    double level = limit == 0 ? 20 : 1000;
    for (size_t n = 0; n < steps; n++) {
        const uint64_t asked = n % 60 < 20 ? 4 + n % 3 : 0;
        level = fmin(level + 100.0 / 30, limit == 0 ? 20 : 1000);
        trace->admitted[n] = asked < (uint64_t)level ? asked : (uint64_t)level;
        trace->refused[n] = asked - trace->admitted[n];
        trace->highest[n] = asked == 0 ? UINT64_MAX : (uint64_t)level;
        level -= (double)trace->admitted[n];
        trace->lowest[n] = asked == 0 ? UINT64_MAX : (uint64_t)level;
    }
}

/* ---- keys and clients ---- */

static void fill_keys(struct cdl_replay_report *report, enum filling filling)
{
    static const char *const keys[] = {"203.0.113.7", "2001:db8:1234:5678:9abc:def0:1234:5678", "acme|bob"};
    report->refused_key_count = COUNT_OF(keys);
    report->refused_keys = cdl_arena_allocate(&report->arena, COUNT_OF(keys), sizeof *report->refused_keys);
    report->busy_client_count = COUNT_OF(keys);
    report->busy_clients = cdl_arena_allocate(&report->arena, COUNT_OF(keys), sizeof *report->busy_clients);
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        report->refused_keys[i] = (struct cdl_replay_key){
            .limit = i == 2 ? 1 : 0,
            .key = i == 2 ? cdl_slice_of(keys[i]) : name_of(filling, keys[i]),
            .requests = many(filling, 9000 / (i + 1)),
            .refused = many(filling, 700 / (i + 1)),
            .second_most = many(filling, 31),
            .period_most = many(filling, 211),
            .stretch_ns = 200 * SECOND + 5 * MILLISECOND,
            .stretch_begin_ns = report->begin_ns + 3 * HOUR,
        };
        report->busy_clients[i] = (struct cdl_replay_client){name_of(filling, keys[i]), many(filling, 9000 / (i + 1)),
                                                             many(filling, i == 1 ? 0 : 700 / (i + 1))};
    }
}

static void fill_log(struct cdl_replay_report *report, enum filling filling)
{
    report->log = (struct cdl_log_stats){
        .lines = many(filling, 48250),
        .parsed = many(filling, 48211),
        .skipped = many(filling, 39),
        .out_of_order = 812,
        .out_of_order_ns = 3250 * MILLISECOND,
        .resolution_ns = SECOND,
        .reason_count = 1,
    };
    report->log.reasons[0] = (struct cdl_log_reason){.why = {"time", "is not closed", 37}, .count = 39, .line = 17};
    report->source_count = 1;
    report->sources = cdl_arena_allocate(&report->arena, 1, sizeof *report->sources);
    report->sources[0] = (struct cdl_log_source_stats){
        .path = "access.log", .format = "combined", .lines = 48250, .parsed = 48211};
}

void fill_report(struct cdl_replay_report *report, enum filling filling)
{
    *report = (struct cdl_replay_report){.touch_share = 0.001};
    cdl_arena_init(&report->arena, NULL);
    report->policy_file = name_of(filling, "policy.yaml");
    if (filling == FILLED_EMPTY)
        return;
    report->begin_ns = EPOCH;
    report->end_ns = filling == FILLED_ONE_SECOND ? EPOCH + 500 * MILLISECOND : EPOCH + DAY - 1;
    report->requests = many(filling, 48211);
    report->refused = many(filling, 1281);
    report->admitted = report->requests - report->refused;
    report->exempt = 12;
    report->unlimited = 5;
    report->refused_without_limit = 4;
    report->bounds = (struct cdl_replay_bounds){true, many(filling, 1100), many(filling, 2300)};
    report->clients = 940;
    report->clients_refused = 7;
    report->keys = 1002;
    report->forgotten = filling == FILLED_HUGE ? 9 : 0;
    report->interrupted = filling == FILLED_HUGE;
    report->offered_load = (struct cdl_replay_load){1, 4, many(filling, 61)};
    report->admitted_load = (struct cdl_replay_load){1, 3, many(filling, 44)};
    fill_limits(report, filling);
    fill_keys(report, filling);
    fill_log(report, filling);
    fill_series(report, filling);
    report->trace_count = 2;
    report->traces = cdl_arena_allocate(&report->arena, 2, sizeof *report->traces);
    for (uint32_t i = 0; i < 2; i++)
        fill_trace(report, &report->traces[i], filling, i);
}

void fill_comparison(struct cdl_comparison *comparison, enum filling filling)
{
    static const char *const clients[] = {"203.0.113.7", "2001:db8::1", "198.51.100.44"};
    *comparison = (struct cdl_comparison){
        .both_admit = many(filling, 46000),
        .both_refuse = 881,
        .first_only_refuses = 400,
        .second_only_refuses = 930,
        .clients_refused_by_both = 5,
        .clients_refused_by_first = 2,
        .clients_refused_by_second = 11,
    };
    cdl_arena_init(&comparison->arena, NULL);
    comparison->client_count = filling == FILLED_EMPTY ? 0 : COUNT_OF(clients);
    comparison->clients = cdl_arena_allocate(&comparison->arena, COUNT_OF(clients), sizeof *comparison->clients);
    for (size_t i = 0; i < comparison->client_count; i++)
        comparison->clients[i] = (struct cdl_comparison_client){
            name_of(filling, clients[i]), many(filling, 4000 - 1000 * i), many(filling, i == 1 ? 0 : 300),
            many(filling, i == 0 ? 0 : 500 - 100 * i)};
}

void free_comparison(struct cdl_comparison *comparison)
{
    cdl_arena_free(&comparison->arena);
}
