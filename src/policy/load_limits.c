/* `limits:` each with whom it counts, when, how fast, and what else a limit can have. A limit is read into a draft of nodes
 * first, since its keys depend on each other and may stand in any order. */
#include <inttypes.h>
#include <stdio.h>

#include "base/near.h"
#include "policy/load.h"
#include "policy/rule.h"

#define SECOND UINT64_C(1000000000)
#define COST_MAX CAUDAL_CAPACITY_MAX

struct draft {
    const struct cdl_yaml_node *name, *when, *per, *if_missing, *rate, *burst, *cost, *overrides;
    const struct cdl_yaml_node *local_share, *lease;
    struct cdl_limit_rule rule;
};

static const struct cdl_setting limit_settings[] = {
    {"name", cdl_read_node, offsetof(struct draft, name), NULL},
    {"when", cdl_read_node, offsetof(struct draft, when), NULL},
    {"per", cdl_read_node, offsetof(struct draft, per), NULL},
    {"if_missing", cdl_read_node, offsetof(struct draft, if_missing), NULL},
    {"rate", cdl_read_node, offsetof(struct draft, rate), NULL},
    {"burst", cdl_read_node, offsetof(struct draft, burst), NULL},
    {"cost", cdl_read_node, offsetof(struct draft, cost), NULL},
    {"overrides", cdl_read_node, offsetof(struct draft, overrides), NULL},
    {"on_store_failure", cdl_read_word, offsetof(struct draft, rule.on_store_failure),
     CDL_WORDS("allow", "deny", "local")},
    {"local_share", cdl_read_node, offsetof(struct draft, local_share), NULL},
    {"sharing", cdl_read_word, offsetof(struct draft, rule.sharing), CDL_WORDS("strict", "leased", "local")},
    {"lease", cdl_read_node, offsetof(struct draft, lease), NULL},
    {"mode", cdl_read_word, offsetof(struct draft, rule.mode), CDL_WORDS("enforce", "shadow", "off")},
    {"count_refused", cdl_read_bool, offsetof(struct draft, rule.count_refused), NULL},
    {"jitter", cdl_read_duration, offsetof(struct draft, rule.jitter_ns), &(const struct cdl_bounds){0, 3600 * SECOND}},
};
const struct cdl_shape cdl_limit_shape = CDL_SHAPE("limits", limit_settings);

struct override_draft {
    const struct cdl_yaml_node *match, *rate, *burst;
};

static const struct cdl_setting override_settings[] = {
    {"match", cdl_read_node, offsetof(struct override_draft, match), NULL},
    {"rate", cdl_read_node, offsetof(struct override_draft, rate), NULL},
    {"burst", cdl_read_node, offsetof(struct override_draft, burst), NULL},
};
const struct cdl_shape cdl_override_shape = CDL_SHAPE("overrides", override_settings);

struct cost_draft {
    struct cdl_slice header;
    uint64_t standard, min, max;
};

static const struct cdl_setting cost_settings[] = {
    {"header", cdl_read_header, offsetof(struct cost_draft, header), NULL},
    {"default", cdl_read_u64, offsetof(struct cost_draft, standard), &(const struct cdl_bounds){0, COST_MAX}},
    {"min", cdl_read_u64, offsetof(struct cost_draft, min), &(const struct cdl_bounds){0, COST_MAX}},
    {"max", cdl_read_u64, offsetof(struct cost_draft, max), &(const struct cdl_bounds){1, COST_MAX}},
};
const struct cdl_shape cdl_cost_shape = CDL_SHAPE("cost", cost_settings);

struct lease_draft {
    int64_t ttl_ns;
    struct cdl_ratio max_share;
    bool strict_bound;
};

static const struct cdl_setting lease_settings[] = {
    {"ttl", cdl_read_duration, offsetof(struct lease_draft, ttl_ns),
     &(const struct cdl_bounds){SECOND / 1000, 10 * SECOND}},
    {"max_share", cdl_read_ratio, offsetof(struct lease_draft, max_share), NULL},
    {"strict_bound", cdl_read_bool, offsetof(struct lease_draft, strict_bound), NULL},
};
const struct cdl_shape cdl_lease_shape = CDL_SHAPE("lease", lease_settings);

/* What is built while all limits are read. */
struct limits {
    struct cdl_loader *loader;
    struct cdl_limit_rule *rules;
    struct cdl_rate *rates;
    uint32_t rate_count;
    struct cdl_lookup names; /* of rates: duplicate overrides */
    struct cdl_lookup shapes;
};

/* ----------------------------------------------------------------------------------------------------------- rates */

static bool is_number(struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((text.bytes[i] < '0' || text.bytes[i] > '9') && text.bytes[i] != '_')
            return false;
    return text.length > 0;
}

/* Where in the two nodes a position of "RATE burst BURST" stands. */
static void report_rate(struct cdl_loader *loader, const struct cdl_yaml_node *rate, const struct cdl_yaml_node *burst,
                        const struct caudal_problem *problem)
{
    const size_t joint = strlen(" burst ");
    size_t position = problem->position;
    if (burst == NULL || position <= rate->text.length)
        cdl_report_error(loader->report, cdl_yaml_place_in(rate, position), "'rate': %s", problem->message);
    else if (position < rate->text.length + joint && strstr(problem->message, "one burst") != NULL)
        cdl_report_error(loader->report, burst->place, "'burst': the rate '%.40s' has a burst already; give one",
                         rate->text.bytes);
    else if (position < rate->text.length + joint)
        cdl_report_error(loader->report, burst->place, "'burst': the rate '%.40s' takes none", rate->text.bytes);
    else
        cdl_report_error(loader->report, cdl_yaml_place_in(burst, position - rate->text.length - joint), "'burst': %s",
                         problem->message);
}

static bool read_burst(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    struct cdl_slice text;
    char found[CDL_FOUND_MAX];
    if (!cdl_read_scalar(loader, node, "burst", "a whole number", &text))
        return false;
    if (is_number(text))
        return true;
    cdl_report_error(loader->report, node->place, "'burst': expected a whole number, found %s", cdl_found(node, found));
    return false;
}

/* One text for the one grammar: "RATE burst BURST". */
static void read_rate(struct cdl_loader *loader, const struct cdl_yaml_node *rate, const struct cdl_yaml_node *burst,
                      struct caudal_limit *limit)
{
    struct cdl_slice text;
    if (burst != NULL && !read_burst(loader, burst))
        burst = NULL; /* the rate is looked at all the same */
    if (!cdl_read_scalar(loader, rate, "rate", "a rate such as 100/minute", &text))
        return;
    char joined[2048];
    int length = snprintf(joined, sizeof joined, "%s%s%s", text.bytes, burst != NULL ? " burst " : "",
                          burst != NULL ? burst->text.bytes : "");
    struct caudal_problem problem;
    if (length < 0 || (size_t)length >= sizeof joined)
        cdl_report_error(loader->report, rate->place, "'rate': the text is longer than 1024 bytes; shorten it");
    else if (caudal_limit_parse(joined, limit, &problem) != CAUDAL_OK)
        report_rate(loader, rate, burst, &problem);
}

static struct cdl_rate *add_rate(struct limits *limits, uint32_t limit, uint32_t override, struct cdl_place place)
{
    struct cdl_rate *rate = &limits->rates[limits->rate_count++];
    *rate = (struct cdl_rate){
        .limit = CAUDAL_LIMIT_INIT, .limit_index = limit, .override_index = override, .name = {"", 0}, .place = place};
    return rate;
}

/* ------------------------------------------------------------------------------------------------------------ cost */

static void read_cost_map(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_cost *cost)
{
    struct cost_draft draft = {.header = {"", 0}, .standard = 1, .min = 1, .max = 0};
    cdl_read_map(loader, node, &cdl_cost_shape, &draft);
    if (node->kind != CDL_YAML_MAP)
        return;
    if (draft.header.length > 0 && draft.max == 0)
        cdl_report_error(loader->report, node->place, "'cost': 'header' needs 'max', or a client could name any cost");
    cost->header = draft.header;
    cost->standard = draft.standard;
    cost->min = draft.min;
    cost->max = draft.max == 0 ? COST_MAX : draft.max;
    if (cost->min > cost->max)
        cdl_report_error(loader->report, node->place, "'cost': 'min' %" PRIu64 " is above 'max' %" PRIu64, cost->min,
                         cost->max);
    else if (cost->standard > cost->max)
        cdl_report_error(loader->report, node->place, "'cost': 'default' %" PRIu64 " is above 'max' %" PRIu64,
                         cost->standard, cost->max);
}

static void read_cost(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_cost *cost)
{
    static const struct cdl_bounds bounds = {0, COST_MAX};
    static const struct cdl_setting fixed = {"cost", NULL, 0, &bounds};
    *cost = (struct cdl_cost){.standard = 1, .min = 0, .max = COST_MAX};
    if (node == NULL)
        return;
    if (node->kind != CDL_YAML_SCALAR) {
        read_cost_map(loader, node, cost);
        return;
    }
    cost->pinned = true;
    cdl_read_u64(loader, node, &fixed, &cost->standard);
}

/* ------------------------------------------------------------------------------------------------------------- per */

static void read_per(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_limit_rule *rule)
{
    struct cdl_items items;
    if (!cdl_read_items(loader, node, "per", &items))
        return;
    if (items.count > CDL_PER_MAX) {
        cdl_report_error(loader->report, node->place, "'per': %u identities are more than %u", items.count,
                         CDL_PER_MAX);
        return;
    }
    struct cdl_identity *per = cdl_arena_allocate(loader->arena, items.count, sizeof *per);
    if (per == NULL)
        return;
    const struct cdl_yaml_node *item = items.first;
    uint32_t count = 0;
    for (uint32_t i = 0; i < items.count; i++, item = item->next) {
        if (!cdl_read_identity(loader, item, &per[count]))
            continue;
        for (uint32_t j = 0; j < count; j++)
            if (cdl_identity_equal(&per[j], &per[count]))
                cdl_report_error(loader->report, item->place, "'per': '%.60s' is given twice", item->text.bytes);
        count++;
    }
    rule->per = per;
    rule->per_count = count;
}

/* A slip of the pen, or a wish for the failure policy's words, would put all who send nothing into one bucket. */
static bool is_slip(struct cdl_slice text)
{
    static const char *const words[] = {"deny", "skip", "allow", "ignore", "refuse", "reject", "denied"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (cdl_distance(text, cdl_slice_of(words[i])) <= 1)
            return true;
    return false;
}

static void read_if_missing(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_limit_rule *rule)
{
    struct cdl_slice text;
    if (!cdl_read_scalar(loader, node, "if_missing", "deny, skip or a fixed value", &text))
        return;
    if (cdl_slice_equal(text, CDL_SLICE("deny"))) {
        rule->if_missing = CDL_MISSING_DENY;
    } else if (cdl_slice_equal(text, CDL_SLICE("skip"))) {
        rule->if_missing = CDL_MISSING_SKIP;
    } else if (node->plain && is_slip(text)) {
        cdl_report_error(loader->report, node->place,
                         "'if_missing': expected deny, skip or a fixed value, found '%.40s'; as a value it stands in "
                         "quotes",
                         text.bytes);
    } else {
        rule->if_missing = CDL_MISSING_VALUE;
        rule->missing_value = cdl_arena_copy(loader->arena, text);
    }
}

static bool same_key(const struct cdl_limit_rule *a, const struct cdl_limit_rule *b)
{
    if (a->per_count != b->per_count || a->if_missing != b->if_missing ||
        !cdl_slice_equal(a->missing_value, b->missing_value))
        return false;
    for (uint32_t i = 0; i < a->per_count; i++)
        if (!cdl_identity_equal(&a->per[i], &b->per[i]))
            return false;
    return true;
}

static void assign_shape(struct limits *limits, struct cdl_limit_rule *rule, uint32_t index)
{
    struct cdl_policy *policy = limits->loader->policy;
    uint64_t hash = cdl_lookup_hash(rule->missing_value, rule->per_count);
    for (uint32_t i = 0; i < rule->per_count; i++)
        hash = cdl_lookup_hash(rule->per[i].name, hash + rule->per[i].kind);
    const struct cdl_lookup_link *link = cdl_lookup_find(&limits->shapes, hash);
    for (; link != NULL; link = cdl_lookup_next(&limits->shapes, link))
        if (same_key(&limits->rules[link->value], rule)) {
            rule->key_shape = limits->rules[link->value].key_shape;
            return;
        }
    rule->key_shape = policy->shape_count++;
    cdl_lookup_add(&limits->shapes, hash, index);
}

/* ------------------------------------------------------------------------------------------------------- overrides */

static int per_index(const struct cdl_limit_rule *rule, const struct cdl_identity *identity)
{
    for (uint32_t i = 0; i < rule->per_count; i++)
        if (cdl_identity_equal(&rule->per[i], identity))
            return (int)i;
    return -1;
}

static bool read_match(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_limit_rule *rule,
                       struct cdl_pattern *match)
{
    char found[CDL_FOUND_MAX];
    if (node->kind != CDL_YAML_MAP || node->count == 0) {
        if (node->kind != CDL_YAML_BAD)
            cdl_report_error(loader->report, node->place,
                             "'match': expected values by identity, as in {header.x-api-key: partner-*}, found %s",
                             node->kind == CDL_YAML_MAP ? "an empty map" : cdl_found(node, found));
        return false;
    }
    for (uint32_t i = 0; i < rule->per_count; i++)
        match[i] = (struct cdl_pattern){.kind = CDL_PATTERN_GLOB, .text = CDL_SLICE("*")};
    bool good = true;
    for (const struct cdl_yaml_node *key = node->first; key != NULL; key = key->next->next) {
        struct cdl_identity identity;
        if (!cdl_read_identity(loader, key, &identity)) {
            good = false;
            continue;
        }
        int index = per_index(rule, &identity);
        if (index < 0)
            cdl_report_error(loader->report, key->place, "'match': '%.60s' is not in 'per' of this limit",
                             key->text.bytes);
        good = index >= 0 && cdl_read_pattern(loader, key->next, &identity, &match[index]) && good;
    }
    return good;
}

/* Escapes what separates, so that two matches never have one name. */
static void write_escaped(struct cdl_writer *writer, struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        if (c <= ' ' || c == 0x7f || strchr("%,={}", c) != NULL)
            cdl_writef(writer, "%%%02X", c);
        else
            cdl_write(writer, (struct cdl_slice){text.bytes + i, 1});
    }
}

/* "writes-per-key{header.x-api-key=partner-*}": the same after a reload in whatever order the file then is. */
static void name_override(struct cdl_loader *loader, const struct cdl_limit_rule *rule, const struct cdl_pattern *match,
                          struct cdl_rate *rate)
{
    char buffer[CDL_PER_MAX * 4 * CDL_PATTERN_BYTES_MAX];
    struct cdl_writer writer = cdl_writer_on(buffer, sizeof buffer);
    const char *separator = "";
    cdl_write(&writer, rule->name);
    cdl_write_text(&writer, "{");
    for (uint32_t i = 0; i < rule->per_count; i++) {
        if (cdl_slice_equal(match[i].text, CDL_SLICE("*")))
            continue;
        cdl_write_text(&writer, separator);
        separator = ",";
        write_escaped(&writer, rule->per[i].text);
        cdl_write_text(&writer, "=");
        write_escaped(&writer, match[i].text);
    }
    cdl_write_text(&writer, "}");
    if (writer.length > CDL_RATE_NAME_MAX) {
        uint64_t hash = cdl_lookup_hash(cdl_written(&writer), 0), hash2 = cdl_lookup_hash(cdl_written(&writer), hash);
        writer = cdl_writer_on(buffer, sizeof buffer);
        cdl_write(&writer, rule->name);
        cdl_writef(&writer, "{#%016" PRIx64 "%016" PRIx64 "}", hash, hash2);
    }
    rate->name = cdl_arena_copy(loader->arena, cdl_written(&writer));
}

static void check_repeated(struct limits *limits, uint32_t rate, const struct cdl_yaml_node *match)
{
    struct cdl_slice name = limits->rates[rate].name;
    uint64_t hash = cdl_lookup_hash(name, 0);
    const struct cdl_lookup_link *link = cdl_lookup_find(&limits->names, hash);
    for (; link != NULL; link = cdl_lookup_next(&limits->names, link)) {
        const struct cdl_rate *other = &limits->rates[link->value];
        if (other->limit_index == limits->rates[rate].limit_index && cdl_slice_equal(other->name, name))
            cdl_report_error(limits->loader->report, match->place,
                             "'match': these values have an override already, at line %u, column %u", other->place.line,
                             other->place.column);
    }
    cdl_lookup_add(&limits->names, hash, rate);
}

static void read_override(struct limits *limits, const struct cdl_yaml_node *node, const struct cdl_limit_rule *rule,
                          uint32_t limit_index, uint32_t index, struct cdl_override *override)
{
    struct cdl_loader *loader = limits->loader;
    struct override_draft draft = {.match = NULL};
    override->place = node->place;
    override->rate = limits->rate_count;
    struct cdl_rate *rate = add_rate(limits, limit_index, index, node->place);
    cdl_read_map(loader, node, &cdl_override_shape, &draft);
    if (node->kind != CDL_YAML_MAP)
        return;
    if (draft.rate == NULL)
        cdl_report_error(loader->report, node->place, "the override has no 'rate'");
    else
        read_rate(loader, draft.rate, draft.burst, &rate->limit);
    if (draft.match == NULL) {
        cdl_report_error(loader->report, node->place, "the override has no 'match'");
        return;
    }
    struct cdl_pattern *match = cdl_arena_allocate(loader->arena, rule->per_count, sizeof *match);
    if (match == NULL || !read_match(loader, draft.match, rule, match))
        return;
    override->match = match;
    override->exact = true;
    for (uint32_t i = 0; i < rule->per_count; i++)
        override->exact = override->exact && match[i].kind == CDL_PATTERN_EXACT;
    name_override(loader, rule, match, rate);
    check_repeated(limits, override->rate, draft.match);
}

uint64_t cdl_override_hash(const struct cdl_slice *values, uint32_t count)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < count; i++)
        hash = cdl_lookup_hash(values[i], hash);
    return hash;
}

static void index_overrides(struct cdl_loader *loader, struct cdl_limit_rule *rule)
{
    struct cdl_slice values[CDL_PER_MAX];
    uint32_t *patterns = cdl_arena_allocate(loader->arena, rule->override_count, sizeof *patterns);
    if (patterns == NULL || !cdl_lookup_init(&rule->exact_overrides, loader->arena, rule->override_count))
        return;
    rule->pattern_overrides = patterns;
    for (uint32_t i = 0; i < rule->override_count; i++) {
        const struct cdl_override *override = &rule->overrides[i];
        if (!override->exact) {
            patterns[rule->pattern_override_count++] = i;
            continue;
        }
        for (uint32_t j = 0; j < rule->per_count; j++)
            values[j] = override->match[j].text;
        cdl_lookup_add(&rule->exact_overrides, cdl_override_hash(values, rule->per_count), i);
    }
}

static void read_overrides(struct limits *limits, const struct cdl_yaml_node *node, struct cdl_limit_rule *rule,
                           uint32_t limit_index)
{
    struct cdl_loader *loader = limits->loader;
    char found[CDL_FOUND_MAX];
    if (node->kind != CDL_YAML_LIST || node->count == 0) {
        if (node->kind != CDL_YAML_BAD)
            cdl_report_error(loader->report, node->place,
                             "'overrides': expected a list of {match: ..., rate: ...}, found %s",
                             node->kind == CDL_YAML_LIST ? "an empty list" : cdl_found(node, found));
        return;
    }
    if (rule->per_count == 0) {
        cdl_report_error(loader->report, node->place, "'overrides' go by the value of 'per', and this limit has none");
        return;
    }
    struct cdl_override *overrides = cdl_arena_allocate(loader->arena, node->count, sizeof *overrides);
    if (overrides == NULL)
        return;
    const struct cdl_yaml_node *item = node->first;
    for (uint32_t i = 0; i < node->count; i++, item = item->next)
        read_override(limits, item, rule, limit_index, i, &overrides[i]);
    rule->overrides = overrides;
    rule->override_count = node->count;
    index_overrides(loader, rule);
}

/* ---------------------------------------------------------------------------------------------------------- limits */

static bool is_limit_name(struct cdl_slice name)
{
    for (size_t i = 0; i < name.length; i++) {
        char c = cdl_ascii_lower(name.bytes[i]);
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
        if (!plain && (i == 0 || strchr("-.:", c) == NULL))
            return false;
    }
    return name.length > 0 && name.length <= CDL_POLICY_NAME_MAX;
}

/* A name stands in headers, metrics, logs and addresses, so it is kept plain. */
static void read_name(struct limits *limits, const struct cdl_yaml_node *node, struct cdl_limit_rule *rule,
                      uint32_t index)
{
    struct cdl_loader *loader = limits->loader;
    struct cdl_policy *policy = loader->policy;
    struct cdl_slice text;
    if (!cdl_read_scalar(loader, node, "name", "a name", &text))
        return;
    rule->place = node->place;
    if (!is_limit_name(text)) {
        cdl_report_error(loader->report, node->place,
                         "'name': '%.40s' is not 1 to %u letters, digits, '_', '-', '.' or ':', the first a letter, "
                         "digit or '_'",
                         text.bytes, CDL_POLICY_NAME_MAX);
        return;
    }
    uint64_t hash = cdl_lookup_hash(text, 0);
    const struct cdl_lookup_link *link = cdl_lookup_find(&policy->limit_names, hash);
    for (; link != NULL; link = cdl_lookup_next(&policy->limit_names, link)) {
        const struct cdl_limit_rule *other = &limits->rules[link->value];
        if (!cdl_slice_equal(other->name, text))
            continue;
        cdl_report_error(loader->report, node->place,
                         "the limit name '%.100s' is used twice; first at line %u, column %u", text.bytes,
                         other->place.line, other->place.column);
        return;
    }
    rule->name = cdl_arena_copy(loader->arena, text);
    cdl_lookup_add(&policy->limit_names, hash, index);
}

static void read_share(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_limit_rule *rule)
{
    static const struct cdl_setting setting = {"local_share", NULL, 0, NULL};
    cdl_read_ratio(loader, node, &setting, &rule->local_share);
    if (rule->on_store_failure != CDL_FAILURE_LOCAL && rule->sharing != CDL_SHARING_LOCAL)
        cdl_report_error(loader->report, node->place,
                         "'local_share' has a meaning only with 'on_store_failure: local' or 'sharing: local'");
}

/* ---------------------------------------------------------------------------------------------------------- leases */

static const struct lease_draft usual_lease = {.ttl_ns = SECOND / 10, .max_share = {1, 2}, .strict_bound = false};

static void read_lease(struct cdl_loader *loader, const struct cdl_yaml_node *node, struct cdl_limit_rule *rule)
{
    struct lease_draft draft = usual_lease;
    if (node != NULL)
        cdl_read_map(loader, node, &cdl_lease_shape, &draft);
    const uint64_t per_mille = UINT64_C(1000) * draft.max_share.numerator / draft.max_share.denominator;
    if (node != NULL && rule->sharing != CDL_SHARING_LEASED)
        cdl_report_error(loader->report, node->place, "'lease' has a meaning only with 'sharing: leased'");
    if (node != NULL && per_mille == 0)
        cdl_report_error(loader->report, node->place, "'max_share': %u/%u is less than 1/1000",
                         draft.max_share.numerator, draft.max_share.denominator);
    rule->lease = (struct cdl_lease_settings){draft.ttl_ns, (uint32_t)per_mille, draft.strict_bound};
}

/* With strict_bound something has to be left in the store, of the limit's own rate and of each override's. */
static void check_reserves(struct limits *limits, const struct cdl_limit_rule *rule)
{
    for (uint32_t i = rule->rate; i < limits->rate_count; i++) {
        const struct cdl_rate *rate = &limits->rates[i];
        if (!cdl_rate_is_leased(rule, &rate->limit) || cdl_rate_capacity(rule, &rate->limit) > 0 ||
            caudal_limit_capacity(&rate->limit) == 0)
            continue;
        cdl_report_error(limits->loader->report, rate->place,
                         "'strict_bound' leaves nothing to spend: of a burst of %" PRIu64 ", %" PRIu64
                         " come in within the lease's ttl and stay out of the store; raise 'burst' or lower 'ttl'",
                         caudal_limit_capacity(&rate->limit), cdl_lease_reserve(&rule->lease, &rate->limit));
    }
}

/* What needs nothing of the others first, then what does. */
static void read_keys(struct limits *limits, const struct draft *draft, struct cdl_limit_rule *rule, uint32_t index,
                      const struct cdl_yaml_node *node)
{
    struct cdl_loader *loader = limits->loader;
    rule->rate = limits->rate_count;
    struct cdl_rate *rate = add_rate(limits, index, CDL_NONE, rule->place);
    if (draft->name == NULL)
        cdl_report_error(loader->report, node->place, "the limit has no 'name'");
    else
        read_name(limits, draft->name, rule, index);
    rate->name = rule->name;
    if (draft->rate == NULL)
        cdl_report_error(loader->report, node->place, "the limit has no 'rate'");
    else
        read_rate(loader, draft->rate, draft->burst, &rate->limit);
    rate->place = draft->rate != NULL ? draft->rate->place : node->place;
    if (draft->when != NULL)
        cdl_read_rule(loader, draft->when, "when", &rule->when);
    if (draft->per != NULL)
        read_per(loader, draft->per, rule);
    if (draft->if_missing != NULL)
        read_if_missing(loader, draft->if_missing, rule);
    if (draft->if_missing != NULL && draft->per == NULL)
        cdl_report_error(loader->report, draft->if_missing->place, "'if_missing' has a meaning only with 'per'");
    read_cost(loader, draft->cost, &rule->cost);
    if (draft->local_share != NULL)
        read_share(loader, draft->local_share, rule);
    read_lease(loader, draft->lease, rule);
    assign_shape(limits, rule, index);
    if (draft->overrides != NULL)
        read_overrides(limits, draft->overrides, rule, index);
    check_reserves(limits, rule);
}

static void read_limit(struct limits *limits, const struct cdl_yaml_node *node, uint32_t index)
{
    struct draft draft = {.rule = {.name = {"", 0}, .missing_value = {"", 0}, .cost.header = {"", 0}}};
    cdl_read_map(limits->loader, node, &cdl_limit_shape, &draft);
    limits->rules[index] = draft.rule;
    limits->rules[index].place = node->place;
    if (node->kind == CDL_YAML_MAP && node->count > 0)
        read_keys(limits, &draft, &limits->rules[index], index, node);
}

/* How many rates the limits will have: one each, and one for each override. */
static uint64_t count_rates(const struct cdl_yaml_node *list)
{
    uint64_t count = list->count;
    for (const struct cdl_yaml_node *limit = list->first; limit != NULL; limit = limit->next)
        for (const struct cdl_yaml_node *key = limit->kind == CDL_YAML_MAP ? limit->first : NULL; key != NULL;
             key = key->next->next)
            if (cdl_slice_equal(key->text, CDL_SLICE("overrides")) && key->next->kind == CDL_YAML_LIST)
                count += key->next->count;
    return count;
}

/* Those that apply to everything are known before any request comes. */
static void check_unconditional(struct cdl_loader *loader, const struct limits *limits, uint32_t count)
{
    uint32_t unconditional = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct cdl_limit_rule *rule = &limits->rules[i];
        bool conditional = rule->when.place.line > 0 || rule->mode == CDL_MODE_OFF;
        for (uint32_t j = 0; j < rule->per_count; j++)
            conditional = conditional || rule->per[j].kind == CDL_IDENTITY_TEMPLATE;
        unconditional += !conditional;
        if (!conditional && unconditional == CDL_PLAN_MAX + 1)
            cdl_report_error(loader->report, rule->place,
                             "more than %u limits apply to every request; give some a 'when'", CDL_PLAN_MAX);
    }
}

static bool prepare(struct limits *limits, uint32_t count, uint32_t rates)
{
    struct cdl_loader *loader = limits->loader;
    limits->rules = cdl_arena_allocate(loader->arena, count, sizeof *limits->rules);
    limits->rates = cdl_arena_allocate(loader->arena, rates, sizeof *limits->rates);
    return limits->rules != NULL && limits->rates != NULL && cdl_lookup_init(&limits->names, loader->arena, rates) &&
           cdl_lookup_init(&limits->shapes, loader->arena, count) &&
           cdl_lookup_init(&loader->policy->limit_names, loader->arena, count);
}

void cdl_load_limits(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    char found[CDL_FOUND_MAX];
    if (node->kind == CDL_YAML_BAD)
        return;
    if (node->kind != CDL_YAML_LIST || node->count == 0) {
        cdl_report_error(loader->report, node->place, "'limits': expected a list of limits, found %s",
                         node->kind == CDL_YAML_LIST ? "an empty list" : cdl_found(node, found));
        return;
    }
    uint64_t rates = count_rates(node);
    if (node->count > CDL_POLICY_LIMITS_MAX || rates > CDL_POLICY_RATES_MAX) {
        cdl_report_error(loader->report, node->place,
                         "%u limits with %" PRIu64 " overrides are too many: at most %u limits, and %u of both",
                         node->count, rates - node->count, CDL_POLICY_LIMITS_MAX, CDL_POLICY_RATES_MAX);
        return;
    }
    struct limits limits = {.loader = loader};
    if (!prepare(&limits, node->count, (uint32_t)rates))
        return;
    const struct cdl_yaml_node *item = node->first;
    for (uint32_t i = 0; i < node->count; i++, item = item->next)
        read_limit(&limits, item, i);
    check_unconditional(loader, &limits, node->count);
    loader->policy->limits = limits.rules;
    loader->policy->limit_count = node->count;
    loader->policy->rates = limits.rates;
    loader->policy->rate_count = limits.rate_count;
}
