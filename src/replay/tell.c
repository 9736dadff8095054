/* From what a replay has counted to its report. */
#include "replay/replay_parts.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/problem.h"

/* Room for any key: what is shown of a part is its bytes, or a few. */
#define SHOWN_KEY_BYTES ((size_t)2 * CAUDAL_KEY_MAX)

struct telling {
    struct cdl_replay *replay;
    struct cdl_replay_report *report;
    struct cdl_arena *arena;
    char *text;                       /* SHOWN_KEY_BYTES */
    uint32_t *index_of_rate;          /* in the report's limits; CDL_NONE: not there */
    struct cdl_book_entry **by_rate;  /* all keys, those of one rate together */
    size_t *end_of_rate;              /* how far they have been put in */
    size_t *begin_of_rate;            /* where those of a rate begin, and one more */
    uint64_t *tree_least, *tree_most; /* of all rates that are asked together, at the one that stands for them */
};

/* ---- needs: the largest, and the largest but a few ---- */

/* The `room` largest of all numbers that were put in: a heap, the least of them first. */
struct largest {
    uint64_t *values;
    size_t room, count;
    uint64_t most;
};

static struct largest make_largest(struct cdl_arena *arena, size_t room)
{
    return (struct largest){.values = cdl_arena_allocate(arena, room, sizeof(uint64_t)), .room = room};
}

static void sink(struct largest *largest, uint64_t value)
{
    uint64_t *values = largest->values;
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < largest->count; at = child) {
        if (child + 1 < largest->count && values[child + 1] < values[child])
            child++;
        if (values[child] >= value)
            break;
        values[at] = values[child];
    }
    values[at] = value;
}

static void put(struct largest *largest, uint64_t value)
{
    uint64_t *values = largest->values;
    if (value > largest->most)
        largest->most = value;
    if (largest->count == largest->room) {
        if (value > values[0])
            sink(largest, value);
        return;
    }
    size_t at = largest->count++;
    for (; at > 0 && values[(at - 1) / 2] > value; at = (at - 1) / 2)
        values[at] = values[(at - 1) / 2];
    values[at] = value;
}

/* As `room` is one more than the keys that may need more, the least that was kept is what all others do with. */
static struct cdl_replay_headroom headroom_of(const struct largest *largest)
{
    return (struct cdl_replay_headroom){largest->most, largest->count == largest->room ? largest->values[0] : 0};
}

struct needs {
    struct largest burst, fixed_count, sliding_count, burst_at[CDL_STUDY_RATES];
};

static void make_needs(struct needs *needs, struct cdl_arena *arena, size_t room)
{
    needs->burst = make_largest(arena, room);
    needs->fixed_count = make_largest(arena, room);
    needs->sliding_count = make_largest(arena, room);
    for (unsigned i = 0; i < CDL_STUDY_RATES; i++)
        needs->burst_at[i] = make_largest(arena, room);
}

static void put_needs(struct needs *needs, const struct cdl_study_findings *findings)
{
    put(&needs->burst, findings->burst);
    put(&needs->fixed_count, findings->fixed_count);
    put(&needs->sliding_count, findings->sliding_count);
    for (unsigned i = 0; i < CDL_STUDY_RATES; i++)
        put(&needs->burst_at[i], findings->burst_at[i]);
}

/* ---- limits ---- */

/* 2^((n + 1) / 4) > peak is asked of whole numbers: by comparing fourth powers there would be no room, so by doubles, which are exact
 * enough for a picture. */
static size_t peak_bin(uint64_t peak)
{
    const double bin = peak == 0 ? 0 : floor(4 * log2((double)peak));
    return bin < CDL_REPLAY_PEAK_BINS - 1 ? (size_t)bin : CDL_REPLAY_PEAK_BINS - 1;
}

static void add_findings(struct cdl_replay_limit *limit, const struct cdl_study_findings *findings)
{
    limit->bounds.least += findings->refused_least;
    limit->bounds.most += findings->refused_most;
    limit->bounds.known &= findings->has_bounds;
    limit->peaks.keys[peak_bin(findings->fixed_count)]++;
    for (unsigned v = 0; v < CDL_STUDY_VARIANTS; v++) {
        limit->variants[v].refused += findings->variant_refused[v];
        limit->variants[v].keys_refused += findings->variant_refused[v] > 0;
        if (findings->variant_most[v] > limit->variants[v].most_in_a_period)
            limit->variants[v].most_in_a_period = findings->variant_most[v];
    }
}

/* The lowest rung that does with so large a burst; the rate is rounded up to whole tokens. */
static uint64_t lowest_rate(const struct cdl_replay_limit *limit, bool for_all)
{
    const uint64_t capacity = caudal_limit_capacity(&limit->what);
    for (unsigned i = 0; i < CDL_STUDY_RATES; i++) {
        const struct cdl_replay_headroom *burst = &limit->rungs[i].burst;
        if ((for_all ? burst->for_all : burst->for_most) <= capacity)
            return (uint64_t)ceil(limit->rungs[i].rate);
    }
    return UINT64_MAX;
}

static void tell_needs(struct cdl_replay_limit *limit, const struct cdl_study_rule *study, const struct needs *needs)
{
    limit->burst = headroom_of(&needs->burst);
    limit->fixed_count = headroom_of(&needs->fixed_count);
    limit->sliding_count = headroom_of(&needs->sliding_count);
    for (unsigned i = 0; i < CDL_STUDY_RATES; i++)
        limit->rungs[i] = (struct cdl_replay_rung){cdl_study_rate(study, i), headroom_of(&needs->burst_at[i])};
    limit->rate_at_burst = (struct cdl_replay_headroom){lowest_rate(limit, true), lowest_rate(limit, false)};
}

static void tell_keys(struct telling *telling, struct cdl_replay_limit *limit)
{
    const struct cdl_replay_rate_state *rate = &telling->replay->rates[limit->rate_index];
    const size_t begin = telling->begin_of_rate[limit->rate_index], end = telling->begin_of_rate[limit->rate_index + 1];
    struct cdl_arena scratch;
    struct needs needs;
    cdl_arena_init(&scratch, telling->replay->allocator);
    make_needs(&needs, &scratch, (size_t)(telling->report->touch_share * (double)(end - begin)) + 1);
    for (size_t i = begin; i < end && !scratch.failed; i++) {
        struct cdl_study_findings findings;
        const struct cdl_replay_key_state *state = cdl_book_state(telling->by_rate[i]);
        cdl_replay_find(rate, state, &findings);
        add_findings(limit, &findings);
        put_needs(&needs, &findings);
    }
    telling->arena->failed |= scratch.failed;
    if (!scratch.failed)
        tell_needs(limit, rate->study, &needs);
    cdl_arena_free(&scratch);
}

static void tell_limit(struct telling *telling, uint32_t rate_index, struct cdl_replay_limit *limit)
{
    const struct cdl_policy *policy = telling->replay->live->policy;
    const struct cdl_rate *rate = &policy->rates[rate_index];
    const struct cdl_limit_rule *rule = &policy->limits[rate->limit_index];
    const struct cdl_replay_rate_state *state = &telling->replay->rates[rate_index];
    char text[CAUDAL_LIMIT_TEXT_MAX];
    *limit = (struct cdl_replay_limit){
        .name = rate->name,
        .limit = rule->name,
        .what = state->study != NULL ? state->limit : rate->limit,
        .rate_index = rate_index,
        .limit_index = rate->limit_index,
        .mode = rule->mode,
        .requests = state->requests,
        .refused = state->refused,
        .keys = state->keys,
        .keys_refused = state->keys_refused,
        .unstudied = state->unstudied,
        .bounds = {.known = telling->replay->settings.cell_ns > 0 && state->unstudied == 0 && !rule->count_refused},
    };
    caudal_limit_format(&limit->what, text, sizeof text);
    limit->rate = cdl_arena_copy(telling->arena, cdl_slice_of(text));
    if (state->study != NULL)
        tell_keys(telling, limit);
    limit->bounds.most += state->unstudied;
    if (!limit->bounds.known)
        limit->bounds = (struct cdl_replay_bounds){false, 0, state->requests};
}

static bool is_told(const struct cdl_policy *policy, uint32_t rate)
{
    const struct cdl_limit_rule *rule = &policy->limits[policy->rates[rate].limit_index];
    return rule->kind == CDL_RULE_REQUEST && rule->mode != CDL_MODE_OFF;
}

static void tell_limits(struct telling *telling)
{
    const struct cdl_policy *policy = telling->replay->live->policy;
    struct cdl_replay_report *report = telling->report;
    report->limits = cdl_arena_allocate(telling->arena, policy->rate_count, sizeof *report->limits);
    for (uint32_t i = 0; i < policy->rate_count && !telling->arena->failed; i++) {
        telling->index_of_rate[i] = CDL_NONE;
        if (!is_told(policy, i))
            continue;
        telling->index_of_rate[i] = (uint32_t)report->limit_count;
        tell_limit(telling, i, &report->limits[report->limit_count++]);
    }
}

/* ---- bounds of all ---- */

/* Whatever other limits do, what passes conforms to each limit; so of requests that are asked together at least as many are refused as one
 * of their limits alone refuses. And each refusal is one of some limit, which refuses no more when others take requests away. */
static void tell_bounds(struct telling *telling)
{
    struct cdl_replay_report *report = telling->report;
    struct cdl_replay_bounds all = {telling->replay->settings.cell_ns > 0, report->refused_without_limit,
                                    report->refused_without_limit};
    for (size_t i = 0; i < report->limit_count; i++) {
        const struct cdl_replay_limit *limit = &report->limits[i];
        if (limit->mode != CDL_MODE_ENFORCE || limit->requests == 0)
            continue;
        const uint32_t tree = cdl_replay_together(telling->replay->rates, limit->rate_index);
        all.known &= limit->bounds.known;
        telling->tree_most[tree] += limit->bounds.most;
        if (limit->bounds.least > telling->tree_least[tree])
            telling->tree_least[tree] = limit->bounds.least;
    }
    for (uint32_t i = 0; i < telling->replay->rate_count; i++) {
        all.least += telling->tree_least[i];
        all.most += telling->tree_most[i];
    }
    all.most = cdl_min_u64(all.most, report->requests);
    report->bounds = all.known ? all : (struct cdl_replay_bounds){false, 0, report->requests};
}

/* ---- keys and clients ---- */

static bool key_is_before(void *a, void *b)
{
    const struct cdl_replay_key_state *x = cdl_book_state(a), *y = cdl_book_state(b);
    if (x->refused != y->refused)
        return x->refused > y->refused;
    const struct cdl_slice first = cdl_book_key(a), second = cdl_book_key(b);
    const size_t common = first.length < second.length ? first.length : second.length;
    const int order = memcmp(first.bytes, second.bytes, common);
    return order != 0 ? order < 0 : first.length < second.length;
}

static struct cdl_slice shown_key(struct telling *telling, uint32_t limit, struct cdl_slice key)
{
    struct cdl_writer writer = cdl_writer_on(telling->text, SHOWN_KEY_BYTES);
    cdl_replay_show_key(telling->replay->live->policy, limit, key, &writer);
    return cdl_arena_copy(telling->arena, cdl_written(&writer));
}

static struct cdl_replay_key tell_key(struct telling *telling, struct cdl_book_entry *entry)
{
    const struct cdl_replay_key_state *state = cdl_book_state(entry);
    const struct cdl_replay_rate_state *rate = &telling->replay->rates[entry->group];
    struct cdl_study_findings findings;
    cdl_replay_find(rate, state, &findings);
    struct cdl_replay_key told = {
        .limit = telling->index_of_rate[entry->group],
        .key = shown_key(telling, telling->replay->live->policy->rates[entry->group].limit_index, cdl_book_key(entry)),
        .requests = state->requests,
        .refused = state->refused,
        .second_most = findings.second_most,
        .period_most = findings.fixed_count,
        .stretch_ns = state->longest_ns,
        .stretch_begin_ns = state->longest_begin_ns,
    };
    if (state->is_refused && state->last_refused_ns - state->stretch_begin_ns >= told.stretch_ns) {
        told.stretch_ns = state->last_refused_ns - state->stretch_begin_ns;
        told.stretch_begin_ns = state->stretch_begin_ns;
    }
    return told;
}

static void tell_refused_keys(struct telling *telling)
{
    struct cdl_replay_report *report = telling->report;
    void *list[CDL_REPLAY_KEYS];
    size_t count = 0;
    for (size_t i = 0; i < telling->replay->keys.count; i++)
        if (((struct cdl_replay_key_state *)cdl_book_state(telling->by_rate[i]))->refused > 0)
            count = cdl_keep_most(list, CDL_REPLAY_KEYS, count, telling->by_rate[i], key_is_before);
    report->refused_keys = cdl_arena_allocate(telling->arena, count, sizeof *report->refused_keys);
    for (size_t i = 0; i < count && !telling->arena->failed; i++)
        report->refused_keys[report->refused_key_count++] = tell_key(telling, list[i]);
}

struct cdl_slice cdl_replay_client_text(struct cdl_arena *arena, struct cdl_book_entry *client)
{
    struct cdl_address address;
    char text[CDL_ADDRESS_TEXT_MAX];
    memcpy(&address, cdl_book_key(client).bytes, sizeof address);
    return cdl_arena_copy(arena, (struct cdl_slice){text, cdl_address_format(&address, text)});
}

static bool client_is_before(void *a, void *b)
{
    const struct cdl_replay_client_state *x = cdl_book_state(a), *y = cdl_book_state(b);
    if (x->requests != y->requests)
        return x->requests > y->requests;
    return memcmp(cdl_book_key(a).bytes, cdl_book_key(b).bytes, sizeof(struct cdl_address)) < 0;
}

static void tell_clients(struct telling *telling)
{
    struct cdl_replay_report *report = telling->report;
    void *list[CDL_REPLAY_KEYS];
    size_t count = 0, cursor = 0;
    for (struct cdl_book_entry *entry; (entry = cdl_book_next(&telling->replay->clients, &cursor)) != NULL;)
        count = cdl_keep_most(list, CDL_REPLAY_KEYS, count, entry, client_is_before);
    report->busy_clients = cdl_arena_allocate(telling->arena, count, sizeof *report->busy_clients);
    for (size_t i = 0; i < count && !telling->arena->failed; i++) {
        const struct cdl_replay_client_state *state = cdl_book_state(list[i]);
        report->busy_clients[report->busy_client_count++] = (struct cdl_replay_client){
            cdl_replay_client_text(telling->arena, list[i]), state->requests, state->refused};
    }
}

/* ---- time ---- */

static struct cdl_replay_load tell_load(const struct cdl_replay_seconds *seconds)
{
    struct cdl_histogram_snapshot snapshot = {.sum_ns = 0};
    cdl_histogram_add(&snapshot, &seconds->histogram);
    snapshot.fine[cdl_histogram_bucket(seconds->last)]++;
    const uint64_t most = seconds->last > seconds->most ? seconds->last : seconds->most;
    return (struct cdl_replay_load){
        .p50 = cdl_min_u64(most, cdl_histogram_quantile_ns(&snapshot, 500000)),
        .p99 = cdl_min_u64(most, cdl_histogram_quantile_ns(&snapshot, 990000)),
        .most = most,
    };
}

static uint64_t *copy_counts(struct telling *telling, const uint64_t *counts, size_t steps)
{
    uint64_t *copy = cdl_arena_allocate(telling->arena, steps, sizeof *copy);
    if (copy != NULL && steps > 0)
        memcpy(copy, counts, steps * sizeof *copy);
    return copy;
}

static void tell_series(struct telling *telling)
{
    const struct cdl_replay *replay = telling->replay;
    struct cdl_replay_series *series = &telling->report->series;
    const size_t steps = replay->steps.count;
    series->begin_ns = replay->steps.begin_ns;
    series->step_ns = replay->steps.step_ns;
    series->steps = steps;
    series->offered = copy_counts(telling, replay->offered, steps);
    series->admitted = copy_counts(telling, replay->admitted, steps);
    for (uint32_t i = 0; i < replay->series_count; i++) {
        series->limits[series->limit_count] = telling->index_of_rate[replay->series_rate[i]];
        series->refused[series->limit_count++] = copy_counts(telling, replay->refused_by[i], steps);
    }
    if (!replay->has_others)
        return;
    series->limits[series->limit_count] = CDL_NONE;
    series->refused[series->limit_count++] = copy_counts(telling, replay->refused_by[CDL_REPLAY_LIMIT_SERIES], steps);
}

static struct cdl_replay_trace tell_trace(struct telling *telling, const struct cdl_trace *trace)
{
    struct cdl_book_entry *entry = trace->owner;
    const struct cdl_replay_key_state *state = cdl_book_state(entry);
    const size_t steps = trace->steps.count;
    return (struct cdl_replay_trace){
        .limit = telling->index_of_rate[entry->group],
        .key = shown_key(telling, telling->replay->live->policy->rates[entry->group].limit_index, cdl_book_key(entry)),
        .from_the_beginning = state->is_chosen,
        .begin_ns = trace->steps.begin_ns,
        .step_ns = trace->steps.step_ns,
        .steps = steps,
        .admitted = copy_counts(telling, trace->admitted, steps),
        .refused = copy_counts(telling, trace->refused, steps),
        .lowest = copy_counts(telling, trace->lowest, steps),
        .highest = copy_counts(telling, trace->highest, steps),
    };
}

static bool trace_is_before(void *a, void *b)
{
    return key_is_before(((struct cdl_trace *)a)->owner, ((struct cdl_trace *)b)->owner);
}

static void tell_traces(struct telling *telling)
{
    struct cdl_replay_report *report = telling->report;
    void *list[CDL_REPLAY_KEYS];
    size_t count = 0;
    for (size_t i = 0; i < CDL_TRACES; i++)
        if (telling->replay->traces[i].owner != NULL)
            count = cdl_keep_most(list, CDL_REPLAY_KEYS, count, &telling->replay->traces[i], trace_is_before);
    report->traces = cdl_arena_allocate(telling->arena, count, sizeof *report->traces);
    for (size_t i = 0; i < count && !telling->arena->failed; i++)
        report->traces[report->trace_count++] = tell_trace(telling, list[i]);
}

/* ---- all of it ---- */

static void tell_counts(struct telling *telling)
{
    const struct cdl_replay *replay = telling->replay;
    struct cdl_replay_report *report = telling->report;
    struct caudal_store_stats stats = {.size = sizeof stats};
    caudal_store_stats(replay->store, &stats);
    report->policy_file = cdl_arena_copy(telling->arena, replay->live->policy->file);
    report->touch_share = replay->settings.touch_share;
    report->begin_ns = replay->begin_ns;
    report->end_ns = replay->now_ns;
    report->requests = replay->requests;
    report->admitted = replay->requests - replay->refused;
    report->refused = replay->refused;
    report->exempt = replay->exempt;
    report->unlimited = replay->unlimited;
    report->refused_without_limit = replay->refused_without_limit;
    report->unknown_clients = replay->unknown_clients;
    report->pathless = replay->pathless;
    report->clients = replay->clients.count;
    report->clients_refused = replay->clients_refused;
    report->clients_unstudied = replay->clients_unstudied;
    report->keys = stats.inserted;
    report->forgotten = stats.live_evictions;
    report->offered_load = tell_load(&replay->offered_seconds);
    report->admitted_load = tell_load(&replay->admitted_seconds);
}

/* Puts the keys of one rate together. */
static void sort_by_rate(struct telling *telling)
{
    const struct cdl_replay *replay = telling->replay;
    size_t cursor = 0;
    for (uint32_t i = 0; i < replay->rate_count; i++) {
        telling->end_of_rate[i] = telling->begin_of_rate[i];
        telling->begin_of_rate[i + 1] = telling->begin_of_rate[i] + replay->rates[i].keys;
    }
    for (struct cdl_book_entry *entry; (entry = cdl_book_next(&replay->keys, &cursor)) != NULL;)
        telling->by_rate[telling->end_of_rate[entry->group]++] = entry;
}

int cdl_replay_tell(struct cdl_replay *replay, struct cdl_replay_report *report, struct caudal_problem *problem)
{
    const size_t rates = replay->rate_count + (size_t)1;
    struct cdl_arena scratch;
    *report = (struct cdl_replay_report){.touch_share = replay->settings.touch_share};
    cdl_arena_init(&report->arena, replay->allocator);
    cdl_arena_init(&scratch, replay->allocator);
    struct telling telling = {
        .replay = replay,
        .report = report,
        .arena = &report->arena,
        .text = cdl_arena_allocate(&scratch, SHOWN_KEY_BYTES, 1),
        .index_of_rate = cdl_arena_allocate(&scratch, rates, sizeof(uint32_t)),
        .by_rate = cdl_arena_allocate(&scratch, replay->keys.count, sizeof(struct cdl_book_entry *)),
        .end_of_rate = cdl_arena_allocate(&scratch, rates, sizeof(size_t)),
        .begin_of_rate = cdl_arena_allocate(&scratch, rates, sizeof(size_t)),
        .tree_least = cdl_arena_allocate(&scratch, rates, sizeof(uint64_t)),
        .tree_most = cdl_arena_allocate(&scratch, rates, sizeof(uint64_t)),
    };
    if (!scratch.failed) {
        sort_by_rate(&telling);
        tell_counts(&telling);
        tell_limits(&telling);
        tell_bounds(&telling);
        tell_refused_keys(&telling);
        tell_clients(&telling);
        tell_series(&telling);
        tell_traces(&telling);
    }
    const bool failed = scratch.failed || report->arena.failed;
    cdl_arena_free(&scratch);
    if (!failed)
        return CAUDAL_OK;
    cdl_replay_report_free(report);
    return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
}

void cdl_replay_report_free(struct cdl_replay_report *report)
{
    cdl_arena_free(&report->arena);
}
