/* `rate_limit:` of a descriptor: the keys of the reference, and ours beside them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/arith.h"
#include "policy/calendar.h"
#include "policy/load_domain.h"

struct rate_draft {
    const struct cdl_yaml_node *unit, *requests, *name, *replaces, *rate, *period, *burst, *algorithm_node, *calendar;
    bool unlimited;
    enum caudal_algorithm algorithm;
};

static const struct cdl_setting rate_settings[] = {
    {"unit", cdl_read_node, offsetof(struct rate_draft, unit), NULL},
    {"requests_per_unit", cdl_read_node, offsetof(struct rate_draft, requests), NULL},
    {"unlimited", cdl_read_flag, offsetof(struct rate_draft, unlimited), NULL},
    {"name", cdl_read_node, offsetof(struct rate_draft, name), NULL},
    {"replaces", cdl_read_node, offsetof(struct rate_draft, replaces), NULL},
    {"rate", cdl_read_node, offsetof(struct rate_draft, rate), NULL},
    {"period", cdl_read_node, offsetof(struct rate_draft, period), NULL},
    {"algorithm", cdl_read_node, offsetof(struct rate_draft, algorithm_node), NULL},
    {"burst", cdl_read_node, offsetof(struct rate_draft, burst), NULL},
    {"calendar", cdl_read_node, offsetof(struct rate_draft, calendar), NULL},
};
const struct cdl_shape cdl_rate_limit_shape = {"rate_limit", rate_settings,
                                               sizeof rate_settings / sizeof rate_settings[0], &cdl_reference_words};

struct calendar_draft {
    const struct cdl_yaml_node *zone;
};

static const struct cdl_setting calendar_settings[] = {
    {"zone", cdl_read_node, offsetof(struct calendar_draft, zone), NULL},
};
const struct cdl_shape cdl_calendar_shape = CDL_SHAPE("calendar", calendar_settings);

struct replaces_draft {
    const struct cdl_yaml_node *name;
};

static const struct cdl_setting replaces_settings[] = {
    {"name", cdl_read_node, offsetof(struct replaces_draft, name), NULL},
};
const struct cdl_shape cdl_replaces_shape = {
    "replaces", replaces_settings, sizeof replaces_settings / sizeof replaces_settings[0], &cdl_reference_words};

/* ---- names ---- */

static void read_replaced(struct cdl_loader *loader, const struct cdl_yaml_node *node,
                          const struct cdl_descriptor_rule *rule, struct cdl_slice *name)
{
    struct replaces_draft draft = {NULL};
    *name = (struct cdl_slice){"", 0};
    cdl_read_map(loader, node, &cdl_replaces_shape, &draft);
    if (node->kind != CDL_YAML_MAP || node->count == 0 || !cdl_read_loose_text(loader, draft.name, "name", name))
        return;
    if (name->length == 0)
        cdl_report_error(loader->report, node->place, "'replaces': the entry has no name");
    else if (cdl_slice_equal(*name, rule->label))
        cdl_report_error(loader->report, draft.name->place, "'replaces': '%.60s' is the name of this limit itself",
                         name->bytes);
}

static void read_replaces(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_descriptor_rule *rule)
{
    char found[CDL_FOUND_MAX];
    if (node->kind != CDL_YAML_LIST) {
        if (node->kind != CDL_YAML_BAD)
            cdl_report_error(loader->report, node->place, "'replaces': expected a list of {name: ...}, found %s",
                             cdl_found(node, found));
        return;
    }
    struct cdl_slice *names = cdl_arena_allocate(loader->arena, node->count, sizeof *names);
    if (names == NULL)
        return;
    const struct cdl_yaml_node *item = node->first;
    for (uint32_t i = 0; i < node->count; i++, item = item->next)
        read_replaced(loader, item, rule, &names[i]);
    rule->replaces = names;
    rule->replaces_count = node->count;
}

/* ---- how much, in how long ---- */

static void check_unlimited(struct cdl_loader *loader, const struct rate_draft *draft)
{
    const struct {
        const char *key;
        const struct cdl_yaml_node *node;
    } others[] = {{"unit", draft->unit},
                  {"rate", draft->rate},
                  {"period", draft->period},
                  {"burst", draft->burst},
                  {"algorithm", draft->algorithm_node},
                  {"calendar", draft->calendar}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (!cdl_is_absent(others[i].node))
            cdl_report_error(loader->report, others[i].node->place, "'%s' has no meaning with 'unlimited: true'",
                             others[i].key);
    if (!cdl_is_absent(draft->requests))
        cdl_report_warning(loader->report, draft->requests->place,
                           "'requests_per_unit' has no meaning with 'unlimited: true' and is ignored");
}

static enum cdl_unit find_unit(struct cdl_slice text)
{
    for (enum cdl_unit unit = CDL_UNIT_SECOND; unit < CDL_UNITS; unit++)
        if (cdl_slice_equal_nocase(text, cdl_slice_of(cdl_unit_name(unit))))
            return unit;
    return CDL_UNIT_UNKNOWN;
}

static void read_unit(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct caudal_limit *limit)
{
    char found[CDL_FOUND_MAX];
    const enum cdl_unit unit = node->kind == CDL_YAML_SCALAR ? find_unit(node->text) : CDL_UNIT_UNKNOWN;
    if (unit != CDL_UNIT_UNKNOWN)
        limit->period_ns = cdl_unit_period_ns(unit);
    else if (node->kind != CDL_YAML_BAD)
        cdl_report_error(loader->report, node->place,
                         "'unit': expected second, minute, hour, day, week, month or year, found %s",
                         cdl_found(node, found));
}

static void read_period(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct caudal_limit *limit)
{
    static const struct cdl_bounds bounds = {1000000, CAUDAL_REFILL_MAX_NS};
    static const struct cdl_setting setting = {"period", NULL, 0, &bounds};
    int64_t period_ns = 0;
    cdl_read_duration(loader, node, &setting, &period_ns);
    limit->period_ns = (uint64_t)period_ns;
}

/* The reference takes a number that is missing for 0. */
static void read_requests(struct cdl_loader *loader, const struct cdl_yaml_node *rate_limit,
                          const struct cdl_yaml_node *node, struct caudal_limit *limit)
{
    static const struct cdl_bounds bounds = {0, UINT32_MAX};
    static const struct cdl_setting setting = {"requests_per_unit", NULL, 0, &bounds};
    if (cdl_is_absent(node))
        cdl_report_warning(loader->report, rate_limit->place,
                           "the limit has no 'requests_per_unit': that is 0, which refuses everything");
    else
        cdl_read_u64(loader, node, &setting, &limit->count);
}

static void read_unit_and_requests(struct cdl_loader *loader, const struct cdl_yaml_node *node,
                                   const struct rate_draft *draft, struct caudal_limit *limit)
{
    if (!cdl_is_absent(draft->unit) && !cdl_is_absent(draft->period))
        cdl_report_error(loader->report, draft->period->place, "'period' and 'unit' are two answers to one question");
    else if (!cdl_is_absent(draft->period))
        read_period(loader, draft->period, limit);
    else if (draft->unit != NULL)
        read_unit(loader, draft->unit, limit);
    else
        cdl_report_error(loader->report, node->place, "the limit has no 'unit'");
    read_requests(loader, node, draft->requests, limit);
}

/* "60 per 30s", in the grammar of our own policies; algorithm and burst have keys of their own here. */
static void read_rate(struct cdl_loader *loader, const struct rate_draft *draft, struct caudal_limit *limit)
{
    struct cdl_slice text;
    struct caudal_problem problem;
    struct caudal_limit parsed;
    char joined[1024];
    if (!cdl_is_absent(draft->unit) || !cdl_is_absent(draft->period) || !cdl_is_absent(draft->requests))
        cdl_report_error(loader->report, draft->rate->place,
                         "'rate' says it all; leave out 'unit', 'period' and 'requests_per_unit'");
    if (!cdl_read_scalar(loader, draft->rate, "rate", "a rate such as 60 per 30s", &text))
        return;
    const int length = snprintf(joined, sizeof joined, "%s fixed_window", text.bytes);
    if (length < 0 || (size_t)length >= sizeof joined)
        cdl_report_error(loader->report, draft->rate->place, "'rate': the text is too long");
    else if (caudal_limit_parse(joined, &parsed, &problem) == CAUDAL_OK)
        *limit = parsed;
    else if (problem.position >= text.length)
        cdl_report_error(loader->report, draft->rate->place,
                         "'rate': expected a rate such as 60 per 30s; 'algorithm' and 'burst' are keys of their own");
    else
        cdl_report_error(loader->report, cdl_yaml_place_in(draft->rate, problem.position), "'rate': %s",
                         problem.message);
}

/* ---- how it is counted ---- */

static void read_burst(struct cdl_loader *loader, const struct rate_draft *draft, struct caudal_limit *limit)
{
    static const struct cdl_bounds bounds = {0, CAUDAL_CAPACITY_MAX};
    static const struct cdl_setting setting = {"burst", NULL, 0, &bounds};
    if (draft->algorithm != CAUDAL_TOKEN_BUCKET)
        cdl_report_error(loader->report, draft->burst->place,
                         "'burst' has a meaning only with 'algorithm: token_bucket'");
    else
        cdl_read_u64(loader, draft->burst, &setting, &limit->burst);
}

/* What no store can count is as good as what it can: a thousand million in a second. */
static void bound_count(struct cdl_loader *loader, const struct cdl_yaml_node *place, struct caudal_limit *limit)
{
    const uint64_t seconds = limit->period_ns / (uint64_t)CDL_NS_PER_S;
    if (limit->algorithm != CAUDAL_FIXED_WINDOW || seconds == 0 || limit->count <= seconds * CAUDAL_RATE_MAX_PER_SECOND)
        return;
    limit->count = seconds * CAUDAL_RATE_MAX_PER_SECOND;
    cdl_report_warning(loader->report, place->place, "more than %u in a second is taken for %u in a second",
                       CAUDAL_RATE_MAX_PER_SECOND, CAUDAL_RATE_MAX_PER_SECOND);
}

static const struct cdl_setting algorithm = {
    "algorithm", NULL, 0, CDL_WORDS("token_bucket", "fixed_window", "sliding_window", "sliding_log")};

static void read_limit(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct rate_draft *draft,
                       struct caudal_limit *limit)
{
    const size_t errors = loader->report->errors;
    const struct cdl_yaml_node *count = draft->rate != NULL ? draft->rate : draft->requests;
    struct caudal_problem problem;
    if (!cdl_is_absent(draft->algorithm_node))
        cdl_read_word(loader, draft->algorithm_node, &algorithm, &draft->algorithm);
    if (!cdl_is_absent(draft->rate))
        read_rate(loader, draft, limit);
    else
        read_unit_and_requests(loader, node, draft, limit);
    limit->algorithm = draft->algorithm;
    if (!cdl_is_absent(draft->burst))
        read_burst(loader, draft, limit);
    if (loader->report->errors > errors)
        return;
    bound_count(loader, count != NULL ? count : node, limit);
    if (caudal_limit_check(limit, &problem) != CAUDAL_OK)
        cdl_report_error(loader->report, count != NULL ? count->place : node->place, "'rate_limit': %s",
                         problem.message);
}

/* ---- civil windows ---- */

static bool read_zone(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_zone *zone,
                      struct cdl_slice *kept)
{
    struct calendar_draft draft = {NULL};
    struct cdl_slice name;
    const char *why;
    cdl_read_map(loader, node, &cdl_calendar_shape, &draft);
    if (draft.zone == NULL && node->kind == CDL_YAML_MAP && node->count > 0)
        cdl_report_error(loader->report, node->place, "'calendar' has no 'zone', such as UTC or Europe/Berlin");
    if (draft.zone == NULL || !cdl_read_scalar(loader, draft.zone, "zone", "a time zone such as Europe/Berlin", &name))
        return false;
    *kept = cdl_arena_copy(loader->arena, name);
    if (cdl_zone_load(name.bytes, loader->arena, zone, &why))
        return true;
    cdl_report_error(loader->report, draft.zone->place, "'zone': '%.60s' %s", name.bytes, why);
    return false;
}

static void read_calendar(struct cdl_loader *loader, const struct cdl_yaml_node *node,
                          struct cdl_descriptor_draft *draft, struct cdl_descriptor_rule *rule)
{
    struct cdl_calendar *calendar = cdl_arena_allocate(loader->arena, 1, sizeof *calendar);
    if (calendar == NULL || !read_zone(loader, node, &calendar->zone, &rule->zone))
        return;
    calendar->unit = rule->unit;
    calendar->count = draft->limit.count;
    if (!cdl_calendar_has(rule->unit))
        cdl_report_error(loader->report, node->place,
                         "'calendar' has a meaning only with a unit of day, week, month or year");
    else if (draft->limit.algorithm != CAUDAL_FIXED_WINDOW)
        cdl_report_error(loader->report, node->place, "'calendar' has a meaning only with 'algorithm: fixed_window'");
    draft->rule.calendar = calendar;
}

/* The unit to tell a client, of a period that is one. */
static enum cdl_unit unit_of(uint64_t period_ns)
{
    for (enum cdl_unit unit = CDL_UNIT_SECOND; unit < CDL_UNITS; unit++)
        if (cdl_unit_period_ns(unit) == period_ns)
            return unit;
    return CDL_UNIT_UNKNOWN;
}

void cdl_load_rate_limit(struct cdl_loader *loader, const struct cdl_yaml_node *node,
                         struct cdl_descriptor_draft *draft, struct cdl_descriptor_rule *rule)
{
    struct rate_draft rate = {.algorithm = CAUDAL_FIXED_WINDOW};
    cdl_read_map(loader, node, &cdl_rate_limit_shape, &rate);
    if (node->kind != CDL_YAML_MAP || node->count == 0)
        return;
    cdl_read_loose_text(loader, rate.name, "name", &rule->label);
    if (!cdl_is_absent(rate.replaces))
        read_replaces(loader, rate.replaces, rule);
    rule->unlimited = rate.unlimited;
    if (rate.unlimited) {
        check_unlimited(loader, &rate);
        draft->limit.algorithm = CAUDAL_UNLIMITED;
        return;
    }
    read_limit(loader, node, &rate, &draft->limit);
    rule->requests_per_unit = draft->limit.count;
    rule->unit = unit_of(draft->limit.period_ns);
    if (!cdl_is_absent(rate.calendar))
        read_calendar(loader, rate.calendar, draft, rule);
}
