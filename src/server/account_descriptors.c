/* Hits of descriptors. Requests of several limits are all or nothing here, so what is within a limit was spent and what is over it was
 * not: a hit on a limit that would have let it pass, of a request that another limit refused, is in the total alone. */
#include "server/account_descriptors.h"

#include <stdlib.h>

#include "policy/domain_tree.h"

#define DEPTH_MAX CDL_DESCRIPTOR_ENTRIES_MAX

struct cdl_descriptor_series {
    struct cdl_hits *hits;
    uint32_t limit_count;
    struct cdl_hits_group *of[]; /* by limit; NULL: it is none of descriptors */
};

/* ---- labels ---- */

/* The way down to a rule, the outermost first. */
struct way {
    const struct cdl_descriptor_node *nodes[DEPTH_MAX];
    uint32_t count;
};

static struct way way_to(const struct cdl_descriptor_rule *rule)
{
    struct way way = {.count = 0};
    for (const struct cdl_descriptor_node *node = rule->node; node->parent != NULL; node = node->parent)
        way.count++;
    uint32_t depth = way.count;
    for (const struct cdl_descriptor_node *node = rule->node; node->parent != NULL; node = node->parent)
        way.nodes[--depth] = node;
    return way;
}

/* Whether a rule's series show the value that a request brings there. One that the files write out says itself; those that are counted
 * together are not told apart here either. */
static bool shows_value(const struct cdl_descriptor_rule *rule, const struct way *way, uint32_t depth)
{
    return cdl_descriptor_is_counted(way->nodes[depth]) &&
           (rule->detailed_metric || (rule->metric_depths >> depth & 1) != 0);
}

static void begin_labels(struct cdl_hits_labels *labels, struct cdl_slice domain)
{
    cdl_hits_labels_begin(labels);
    cdl_hits_label(labels, domain, CDL_SLICE(""));
}

/* The labels of the series that a rule's group itself has. True: others of it show values. */
static bool rule_labels(const struct cdl_descriptor_rule *rule, bool may_show, struct cdl_hits_labels *labels)
{
    const struct way way = way_to(rule);
    bool shows = false;
    begin_labels(labels, rule->domain);
    for (uint32_t i = 0; i < way.count; i++) {
        const bool here = may_show && shows_value(rule, &way, i);
        cdl_hits_label(labels, way.nodes[i]->key, here ? CDL_SLICE(CDL_HITS_OTHER) : way.nodes[i]->value);
        shows |= here;
    }
    return shows;
}

/* The same with the values of a descriptor that the rule was found for. */
static void value_labels(const struct cdl_descriptor_rule *rule, const struct cdl_descriptor *descriptor,
                         struct cdl_hits_labels *labels)
{
    const struct way way = way_to(rule);
    begin_labels(labels, rule->domain);
    for (uint32_t i = 0; i < way.count; i++) {
        if (shows_value(rule, &way, i))
            cdl_hits_label_sent(labels, way.nodes[i]->key, descriptor->entries[i].value);
        else
            cdl_hits_label(labels, way.nodes[i]->key, way.nodes[i]->value);
    }
}

/* Of a descriptor with a limit of its own, which no file knows: even its keys are the client's. */
static void override_labels(struct cdl_slice domain, const struct cdl_descriptor *descriptor,
                            struct cdl_hits_labels *labels)
{
    begin_labels(labels, domain);
    for (size_t i = 0; i < descriptor->entry_count; i++) {
        labels->too_long |= descriptor->entries[i].key.length > CDL_HITS_VALUE_BYTES;
        cdl_hits_label_sent(labels, descriptor->entries[i].key, descriptor->entries[i].value);
    }
}

/* ---- series ---- */

static struct cdl_hits_group *acquire_rule(struct cdl_hits *hits, const struct cdl_policy *policy,
                                           const struct cdl_descriptor_rule *rule)
{
    struct cdl_hits_labels labels;
    const uint32_t values = policy->metrics.descriptor_values;
    const bool shows = rule_labels(rule, values > 0, &labels);
    return cdl_hits_acquire(hits, &labels, (struct cdl_hits_wish){shows ? values : 0, !shows});
}

static struct cdl_hits_group *acquire_overrides(struct cdl_hits *hits, const struct cdl_policy *policy,
                                                const struct cdl_domain *domain)
{
    struct cdl_hits_labels labels;
    begin_labels(&labels, domain->name);
    cdl_hits_label(&labels, CDL_SLICE("override"), CDL_SLICE(""));
    return cdl_hits_acquire(hits, &labels, (struct cdl_hits_wish){policy->metrics.override_values, false});
}

struct cdl_descriptor_series *cdl_descriptor_series_acquire(struct cdl_hits *hits, const struct cdl_policy *policy)
{
    struct cdl_descriptor_series *series = calloc(1, sizeof *series +
                                                         policy->limit_count * sizeof(struct cdl_hits_group *));
    if (series == NULL)
        return NULL;
    series->hits = hits;
    series->limit_count = policy->limit_count;
    for (uint32_t i = 0; i < policy->limit_count; i++)
        if (policy->limits[i].kind == CDL_RULE_DESCRIPTOR)
            series->of[i] = acquire_rule(hits, policy, policy->limits[i].descriptor);
    for (uint32_t i = 0; i < policy->domain_count; i++)
        series->of[policy->domains[i].override_limit] = acquire_overrides(hits, policy, &policy->domains[i]);
    return series;
}

void cdl_descriptor_series_release(struct cdl_descriptor_series *series)
{
    if (series == NULL)
        return;
    for (uint32_t i = 0; i < series->limit_count; i++)
        if (series->of[i] != NULL)
            cdl_hits_release(series->hits, series->of[i]);
    free(series);
}

/* ---- counting ---- */

/* Where a descriptor is counted that a limit of the policy decided on. */
static cdl_cell *cells_of(struct cdl_worker *worker, const struct cdl_answer *answer, uint32_t limit,
                          struct cdl_slice domain, const struct cdl_descriptor *descriptor)
{
    struct cdl_hits_group *group = cdl_slots_of(answer->live)->descriptors->of[limit];
    const struct cdl_descriptor_rule *rule = answer->live->policy->limits[limit].descriptor;
    struct cdl_hits_labels labels;
    if (!cdl_hits_shows_values(group))
        return cdl_hits_cells(group, worker->index, NULL);
    if (rule != NULL)
        value_labels(rule, descriptor, &labels);
    else
        override_labels(domain, descriptor, &labels);
    return cdl_hits_cells(group, worker->index, &labels);
}

/* Of hits that were spent, those beyond four fifths of the limit. */
static uint64_t near_hits(const struct caudal_decision *decision, uint64_t hits)
{
    const uint64_t near = decision->capacity - decision->capacity / 5 - (decision->capacity % 5 != 0);
    const uint64_t used = decision->capacity - cdl_min_u64(decision->remaining, decision->capacity);
    return used > near ? cdl_min_u64(used - near, hits) : 0;
}

static void count_decision(cdl_cell *cells, const struct cdl_limit_rule *limit, const struct caudal_decision *decision,
                           bool passed, uint64_t hits)
{
    cdl_hits_count(cells, CDL_HIT_TOTAL, hits);
    if (decision->source == CAUDAL_SOURCE_FAILURE_POLICY || decision->verdict == CAUDAL_NO_VERDICT)
        return; /* nobody has counted */
    if (decision->verdict == CAUDAL_ALLOW) {
        if (!passed && !limit->count_refused)
            return;
        cdl_hits_count(cells, CDL_HIT_WITHIN, hits);
        cdl_hits_count(cells, CDL_HIT_NEAR, near_hits(decision, hits));
        return;
    }
    cdl_hits_count(cells, CDL_HIT_OVER, hits);
    if (decision->source == CAUDAL_SOURCE_DENY_CACHE)
        cdl_hits_count(cells, CDL_HIT_OVER_CACHED, hits);
    if (limit->descriptor != NULL && limit->descriptor->shadow)
        cdl_hits_count(cells, CDL_HIT_SHADOW, hits);
}

static void count_descriptor(struct cdl_worker *worker, const struct cdl_descriptor_request *request, size_t index,
                             uint32_t charge, const struct cdl_answer *answer)
{
    const uint64_t hits = answer->plan.charges[charge].cost;
    const uint32_t limit = answer->plan.charges[charge].limit;
    if (hits == 0)
        return; /* it only looked: no series for that */
    cdl_cell *cells = cells_of(worker, answer, limit, request->domain, &request->descriptors[index]);
    count_decision(cells, &answer->live->policy->limits[limit], &answer->decisions[charge],
                   answer->kind == CDL_ANSWER_ALLOWED, hits);
}

static bool has_failed(const struct cdl_answer *answer)
{
    bool failed = false;
    for (size_t i = 0; i < answer->plan.count; i++)
        failed |= answer->decisions[i].source == CAUDAL_SOURCE_FAILURE_POLICY;
    return failed;
}

void cdl_account_descriptors(struct cdl_worker *worker, const struct cdl_descriptor_request *request,
                             const struct cdl_descriptor_result *results, const struct cdl_answer *answer)
{
    if (answer->overall.status == CAUDAL_ERR_LIMIT)
        return; /* it was not right: nothing was asked */
    cdl_counters_event(worker->counters, CDL_EVENT_DESCRIPTOR_REQUEST, 1);
    if (cdl_policy_domain(answer->live->policy, request->domain) == NULL) {
        cdl_counters_event(worker->counters, CDL_EVENT_DOMAIN_NOT_FOUND, request->descriptor_count);
        return;
    }
    for (size_t i = 0; i < request->descriptor_count; i++)
        if (results[i].outcome == CDL_DESCRIPTOR_LIMITED)
            count_descriptor(worker, request, i, results[i].charge, answer);
    if (has_failed(answer))
        cdl_counters_event(worker->counters, CDL_EVENT_DESCRIPTOR_FAILURE, 1);
}

void cdl_account_bad_descriptors(struct cdl_worker *worker)
{
    cdl_counters_event(worker->counters, CDL_EVENT_BAD_REQUEST, 1);
    cdl_counters_event(worker->counters, CDL_EVENT_DESCRIPTOR_REQUEST, 1);
    cdl_counters_event(worker->counters, CDL_EVENT_DESCRIPTOR_BAD_REQUEST, 1);
}

/* ---- telling ---- */

static void family(struct cdl_exposition *page, const char *name, const char *help)
{
    cdl_exposition_family(page, CDL_METRIC_FOREIGN_COUNTER, name, help);
}

static void event(struct cdl_server *server, struct cdl_exposition *page, const struct cdl_label *label,
                  enum cdl_event event)
{
    cdl_exposition_u64(page, label, label != NULL, cdl_counters_event_sum(server->counters, event));
}

void cdl_expose_descriptors(struct cdl_server *server, struct cdl_exposition *page)
{
    if (server->admin.live->policy->domain_count == 0 && !cdl_hits_in_use(server->hits))
        return;
    const struct cdl_label store = {"err_type", CDL_SLICE("redis_error")},
                           service = {"err_type", CDL_SLICE("service_error")},
                           method = {"grpc_method", CDL_SLICE("ShouldRateLimit")};
    cdl_hits_expose(server->hits, page);
    family(page, "ratelimit_service_rate_limit_domain_not_found", "Descriptors of domains that no file names.");
    event(server, page, NULL, CDL_EVENT_DOMAIN_NOT_FOUND);
    family(page, "ratelimit_service_total_requests", "Requests to ShouldRateLimit.");
    event(server, page, &method, CDL_EVENT_DESCRIPTOR_REQUEST);
    family(page, "ratelimit_service_should_rate_limit_error",
           "Requests that were decided without the store, or that were not right.");
    event(server, page, &store, CDL_EVENT_DESCRIPTOR_FAILURE);
    event(server, page, &service, CDL_EVENT_DESCRIPTOR_BAD_REQUEST);
    family(page, "ratelimit_service_config_load_success", "Policies that were loaded.");
    cdl_exposition_u64(page, NULL, 0, 1 + atomic_load(&server->reloads));
    family(page, "ratelimit_service_config_load_error", "Policies that could not be loaded.");
    cdl_exposition_u64(page, NULL, 0, atomic_load(&server->reload_failures));
}
