/* The study of a key: what its parts share, and how they are put together. */
#include "replay/study_parts.h"

#include "base/memory.h"

static size_t bytes_of_key(const struct cdl_study_rule *rule)
{
    const size_t bounds = sizeof(struct cdl_study_bounds), slots = sizeof((struct cdl_study_variants *)NULL)->slots;
    return sizeof(struct cdl_study_key) + (rule->cell_ns > 0 ? bounds : 0) + (rule->is_wide ? slots : 0);
}

_Static_assert(sizeof(struct cdl_study_key) + sizeof(struct cdl_study_bounds) +
                       sizeof((struct cdl_study_variants *)NULL)->slots <=
                   CDL_STUDY_KEY_BYTES_MAX,
               "the largest key fits");

struct cdl_study_rule *cdl_study_rule_new(const struct caudal_limit *limit, int64_t cell_ns,
                                          const struct caudal_allocator *allocator)
{
    if (allocator == NULL)
        allocator = cdl_allocator_default();
    struct cdl_study_rule *rule = cdl_allocate(allocator, 1, sizeof *rule, _Alignof(struct cdl_study_rule));
    if (rule == NULL)
        return NULL;
    rule->limit = *limit;
    rule->allocator = allocator;
    rule->cell_ns = cell_ns;
    rule->is_unlimited = limit->algorithm == CAUDAL_UNLIMITED;
    if (!rule->is_unlimited) {
        cdl_study_variants_init(rule);
        cdl_study_headroom_init(rule);
    }
    if (cell_ns > 0)
        cdl_study_bounds_init(rule);
    rule->key_bytes = bytes_of_key(rule);
    return rule;
}

void cdl_study_rule_free(struct cdl_study_rule *rule)
{
    if (rule == NULL)
        return;
    cdl_study_bounds_free(rule);
    cdl_release(rule->allocator, rule, 1, sizeof *rule);
}

/* ---- a key's state ---- */

size_t cdl_study_key_bytes(const struct cdl_study_rule *rule)
{
    return rule->key_bytes;
}

static struct cdl_study_bounds *bounds_of(struct cdl_study_key *key)
{
    return (struct cdl_study_bounds *)(key + 1);
}

static uint32_t *upper_slots(const struct cdl_study_rule *rule, struct cdl_study_key *key)
{
    return rule->is_wide ? (uint32_t *)((struct cdl_study_bounds *)(key + 1) + (rule->cell_ns > 0)) : NULL;
}

/* ---- where an instant lies ---- */

static struct cdl_study_span span_of(int64_t length_ns, int64_t at_ns)
{
    const cdl_i128 begin = cdl_floor_div(at_ns, length_ns) * length_ns;
    return (struct cdl_study_span){cdl_clamp_i64(begin), cdl_clamp_i64(begin + length_ns - 1)};
}

/* Eighth n begins at the first nanosecond that is not before n·period/8. Those of a period below 8 ns may have none. */
static void find_eighth(struct cdl_study_rule *rule, int64_t at_ns)
{
    const cdl_i128 period = (cdl_i128)rule->limit.period_ns;
    const cdl_i128 index = cdl_floor_div((cdl_i128)at_ns * CDL_STUDY_SLOTS, period);
    const cdl_i128 begin = cdl_floor_div(index * period + CDL_STUDY_SLOTS - 1, CDL_STUDY_SLOTS);
    const cdl_i128 end = cdl_floor_div((index + 1) * period + CDL_STUDY_SLOTS - 1, CDL_STUDY_SLOTS);
    rule->eighth = (struct cdl_study_span){cdl_clamp_i64(begin), cdl_clamp_i64(end - 1)};
    rule->eighth_index = (uint64_t)index;
}

static void narrow(struct cdl_study_span *place, const struct cdl_study_span *span)
{
    place->begin_ns = cdl_max_i64(place->begin_ns, span->begin_ns);
    place->last_ns = place->last_ns < span->last_ns ? place->last_ns : span->last_ns;
}

static void find_place(struct cdl_study_rule *rule, int64_t at_ns)
{
    if (!cdl_study_covers(&rule->second, at_ns))
        rule->second = span_of(CDL_NS_PER_S, at_ns);
    rule->place = rule->second;
    if (rule->cell_ns > 0) {
        if (!cdl_study_covers(&rule->cell, at_ns))
            rule->cell = span_of(rule->cell_ns, at_ns);
        narrow(&rule->place, &rule->cell);
    }
    if (rule->is_unlimited)
        return;
    if (!cdl_study_covers(&rule->window, at_ns)) {
        rule->window = span_of(rule->sliding.period_ns, at_ns);
        rule->window_index = cdl_window_moment(rule->sliding.period_ns, at_ns).index;
    }
    if (!cdl_study_covers(&rule->eighth, at_ns))
        find_eighth(rule, at_ns);
    narrow(&rule->place, &rule->window);
    narrow(&rule->place, &rule->eighth);
}

/* ---- notes and findings ---- */

static void note_second(const struct cdl_study_rule *rule, struct cdl_study_key *key,
                        const struct cdl_study_request *request)
{
    if (request->before_ns < rule->second.begin_ns)
        key->second_tokens = 0;
    key->second_tokens = cdl_study_add(key->second_tokens, request->cost);
    if (key->second_tokens > key->second_most)
        key->second_most = key->second_tokens;
}

void cdl_study_note(struct cdl_study_rule *rule, void *memory, int64_t at_ns, uint64_t cost)
{
    struct cdl_study_key *key = memory;
    const bool is_first = key->requests == 0;
    const struct cdl_study_request request = {at_ns, is_first ? at_ns : key->at_ns, cost, is_first};
    if (!cdl_study_covers(&rule->place, at_ns))
        find_place(rule, at_ns);
    note_second(rule, key, &request);
    if (!rule->is_unlimited) {
        cdl_study_variants_note(rule, &key->variants, upper_slots(rule, key), &request);
        cdl_study_headroom_note(rule, &key->headroom, &request);
        if (rule->cell_ns > 0)
            cdl_study_bounds_note(rule, bounds_of(key), &request);
    }
    key->at_ns = at_ns;
    key->requests++;
}

void cdl_study_find(const struct cdl_study_rule *rule, const void *memory, struct cdl_study_findings *findings)
{
    const struct cdl_study_key *key = memory;
    *findings = (struct cdl_study_findings){
        .requests = key->requests,
        .refused_most = key->requests,
        .second_most = key->second_most,
    };
    if (!rule->is_unlimited) {
        cdl_study_variants_find(&key->variants, findings);
        cdl_study_headroom_find(rule, &key->headroom, findings);
    }
    if (rule->cell_ns > 0)
        cdl_study_bounds_find(rule, (const struct cdl_study_bounds *)(key + 1), findings);
}
