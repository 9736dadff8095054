/* From nodes to domains and limits, when all files have been read.
 *
 * Siblings are filed under the hashes that they will be found by, and two of one key and value are a contradiction, wherever they stand.
 * Every node with a rate becomes a limit: CDL_RULE_DESCRIPTOR, named by its domain and its path, keyed by the values that the path leaves
 * open.
 *
 * Names. "domain/key1=value1/key2": '/', '=', '#', '%', quotes, blanks, control characters and what is not ASCII stand as %XX, so that two
 * paths never have one name, and a name can stand anywhere. One that would be longer than 255 bytes is cut, and ends in '#' and a hash of
 * the whole. No path has a '#', so that "domain/#override" is free for limits that come with their descriptors. */
#include <inttypes.h>

#include "policy/added.h"
#include "policy/load_domain.h"

/* What stores keep room for beyond the limits of a policy (CDL_POLICY_RATES_MAX), less what the domains themselves and commands take. */
#define CALENDARS_MAX 700u

/* ----------------------------------------------------------------------------------------------------------- names */

static bool is_escaped(unsigned char c)
{
    return c <= ' ' || c >= 0x7f || strchr("%/=#\"\\", c) != NULL;
}

static void write_escaped(struct cdl_writer *writer, struct cdl_slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        const unsigned char c = (unsigned char)text.bytes[i];
        if (is_escaped(c))
            cdl_writef(writer, "%%%02X", c);
        else
            cdl_write(writer, (struct cdl_slice){text.bytes + i, 1});
    }
}

/* A node's ancestors and itself, the outermost first. */
struct line {
    const struct cdl_descriptor_node *nodes[CDL_DESCRIPTOR_ENTRIES_MAX];
    uint32_t count;
};

static struct line line_to(const struct cdl_descriptor_node *node)
{
    struct line line = {.count = 0};
    for (const struct cdl_descriptor_node *at = node; at->parent != NULL; at = at->parent)
        line.count++;
    uint32_t i = line.count;
    for (const struct cdl_descriptor_node *at = node; at->parent != NULL; at = at->parent)
        line.nodes[--i] = at;
    return line;
}

/* The parts of a name in memory of their own, with a NUL behind: [domain '/'] key '=' value '/' key ... */
static struct cdl_slice write_path(struct cdl_arena *arena, const struct line *line, const struct cdl_slice *domain)
{
    size_t size = domain != NULL ? 3 * domain->length + 2 : 1;
    for (uint32_t i = 0; i < line->count; i++)
        size += 3 * (line->nodes[i]->key.length + line->nodes[i]->value.length) + 2;
    char *bytes = cdl_arena_allocate(arena, size, 1);
    if (bytes == NULL)
        return (struct cdl_slice){"", 0};
    struct cdl_writer writer = cdl_writer_on(bytes, size - 1);
    if (domain != NULL)
        write_escaped(&writer, *domain);
    for (uint32_t i = 0; i < line->count; i++) {
        if (domain != NULL || i > 0)
            cdl_write_text(&writer, "/");
        write_escaped(&writer, line->nodes[i]->key);
        if (line->nodes[i]->value.length == 0)
            continue;
        cdl_write_text(&writer, "=");
        write_escaped(&writer, line->nodes[i]->value);
    }
    return cdl_written(&writer);
}

/* What a store and a metric can take for a name. */
static struct cdl_slice fit_name(struct cdl_arena *arena, struct cdl_slice name)
{
    char buffer[CDL_RATE_NAME_MAX];
    if (name.length <= sizeof buffer)
        return name;
    struct cdl_writer writer = cdl_writer_on(buffer, sizeof buffer);
    const uint64_t hash = cdl_lookup_hash(name, 0), hash2 = cdl_lookup_hash(name, hash);
    cdl_write(&writer, cdl_slice_head(name, sizeof buffer - 33));
    cdl_writef(&writer, "#%016" PRIx64 "%016" PRIx64, hash, hash2);
    return cdl_arena_copy(arena, cdl_written(&writer));
}

static struct cdl_slice override_name(struct cdl_arena *arena, struct cdl_slice domain)
{
    char buffer[3 * CDL_PATTERN_BYTES_MAX + 16];
    struct cdl_writer writer = cdl_writer_on(buffer, sizeof buffer);
    write_escaped(&writer, domain);
    cdl_write_text(&writer, "/#override");
    return fit_name(arena, cdl_arena_copy(arena, cdl_written(&writer)));
}

/* A limit that gets a calendar with a reload, or loses it, is another one to the store: what comes with its questions is not what the
 * store has counted by until then. */
static struct cdl_slice rate_name(struct cdl_arena *arena, const struct cdl_limit_rule *rule)
{
    char buffer[CDL_RATE_NAME_MAX + 16];
    struct cdl_writer writer = cdl_writer_on(buffer, sizeof buffer);
    if (rule->calendar == NULL)
        return rule->name;
    cdl_write(&writer, rule->name);
    cdl_write_text(&writer, "{calendar}");
    return fit_name(arena, cdl_arena_copy(arena, cdl_written(&writer)));
}

/* -------------------------------------------------------------------------------------------------------- siblings */

static const struct cdl_descriptor_node *find_twin(const struct cdl_descriptor_node *parent, uint64_t hash,
                                                   const struct cdl_descriptor_node *child)
{
    const struct cdl_lookup_link *link = cdl_lookup_find(&parent->lookup, hash);
    for (; link != NULL; link = cdl_lookup_next(&parent->lookup, link)) {
        const struct cdl_descriptor_node *other = parent->children[link->value];
        if (cdl_slice_equal(other->key, child->key) && cdl_slice_equal(other->value, child->value))
            return other;
    }
    return NULL;
}

static void report_twin(struct cdl_loader *loader, const struct cdl_descriptor_node *child,
                        const struct cdl_descriptor_node *twin)
{
    const struct line line = line_to(child);
    const struct cdl_slice path = write_path(loader->arena, &line, NULL);
    cdl_report_turn_to(loader->report, child->source, child->file);
    cdl_report_error(loader->report, child->place, "the descriptor '%.120s' is given twice; first at %.200s:%u:%u",
                     path.bytes, twin->file.bytes, twin->place.line, twin->place.column);
}

static void file_children(struct cdl_loader *loader, struct cdl_descriptor_node *node)
{
    if (node->child_count == 0 || !cdl_lookup_init(&node->lookup, loader->arena, 2 * node->child_count))
        return;
    for (uint32_t i = 0; i < node->child_count; i++) {
        const struct cdl_descriptor_node *child = node->children[i];
        const enum cdl_descriptor_step step = child->value.length == 0 ? CDL_STEP_KEY : CDL_STEP_EXACT;
        const uint64_t hash = cdl_descriptor_hash(step, child->key, child->value);
        const struct cdl_descriptor_node *twin = find_twin(node, hash, child);
        if (twin != NULL && child->key.length > 0)
            report_twin(loader, child, twin);
        cdl_lookup_add(&node->lookup, hash, i);
    }
    /* What was added last is found first. */
    for (uint32_t i = node->child_count; i-- > 0;)
        if (node->children[i]->wildcard)
            cdl_lookup_add(&node->lookup,
                           cdl_descriptor_hash(CDL_STEP_WILDCARD, node->children[i]->key, (struct cdl_slice){"", 0}),
                           i);
    for (uint32_t i = 0; i < node->child_count; i++)
        file_children(loader, node->children[i]);
}

/* ---------------------------------------------------------------------------------------------------------- limits */

/* "key", and "key#2" where a level above has that key already. */
static struct cdl_slice identity_name(struct cdl_arena *arena, const struct line *line, uint32_t level)
{
    char buffer[3 * CDL_PATTERN_BYTES_MAX + 16];
    struct cdl_writer writer = cdl_writer_on(buffer, sizeof buffer);
    unsigned repeated = 1;
    for (uint32_t i = 0; i < level; i++)
        repeated += cdl_descriptor_is_counted(line->nodes[i]) &&
                    cdl_slice_equal(line->nodes[i]->key, line->nodes[level]->key);
    write_escaped(&writer, line->nodes[level]->key);
    if (repeated > 1)
        cdl_writef(&writer, "#%u", repeated);
    return cdl_arena_copy(arena, cdl_written(&writer));
}

/* What a path leaves open is what its limit is counted by. */
static bool set_per(struct cdl_loader *loader, const struct line *line, struct cdl_limit_rule *rule)
{
    struct cdl_identity *per = cdl_arena_allocate(loader->arena, line->count, sizeof *per);
    if (per == NULL)
        return false;
    for (uint32_t i = 0; i < line->count; i++) {
        if (!cdl_descriptor_is_counted(line->nodes[i]))
            continue;
        const struct cdl_slice name = identity_name(loader->arena, line, i);
        per[rule->per_count++] = (struct cdl_identity){
            .kind = CDL_IDENTITY_ATTRIBUTE, .text = name, .name = name, .place = line->nodes[i]->place};
    }
    rule->per = per;
    if (rule->per_count <= CDL_PER_MAX)
        return true;
    cdl_report_error(loader->report, rule->place, "%u levels above this limit have no fixed value; at most %u may",
                     rule->per_count, CDL_PER_MAX);
    return false;
}

static uint32_t metric_depths(const struct line *line)
{
    uint32_t depths = 0;
    for (uint32_t i = 0; i < line->count; i++)
        if (line->nodes[i]->value_to_metric)
            depths |= UINT32_C(1) << i;
    return depths;
}

static void add_limit(struct cdl_loader *loader, const struct cdl_domain *domain, struct cdl_descriptor_node *node)
{
    const struct line line = line_to(node);
    struct cdl_limit_rule *rule = &node->draft->rule;
    cdl_report_turn_to(loader->report, node->source, node->file);
    if (!set_per(loader, &line, rule))
        return;
    node->rule->node = node;
    node->rule->domain = domain->name;
    node->rule->path = write_path(loader->arena, &line, NULL);
    node->rule->metric_depths = metric_depths(&line);
    rule->name = fit_name(loader->arena, write_path(loader->arena, &line, &domain->name));
    rule->key_shape = loader->policy->shape_count++;
    if (rule->calendar != NULL && ++loader->domains->calendars == CALENDARS_MAX + 1)
        cdl_report_error(loader->report, rule->place, "more than %u limits have a 'calendar'", CALENDARS_MAX);
    if (loader->report->errors == 0 && !loader->arena->failed)
        node->limit = cdl_add_limit_rule(loader, rule, rate_name(loader->arena, rule),
                                         rule->calendar != NULL ? NULL : &node->draft->limit);
}

static void add_limits(struct cdl_loader *loader, const struct cdl_domain *domain, struct cdl_descriptor_node *node)
{
    if (node->rule != NULL)
        add_limit(loader, domain, node);
    for (uint32_t i = 0; i < node->child_count; i++)
        add_limits(loader, domain, node->children[i]);
}

/* ---------------------------------------------------------------------------------------------------------- domains */

static void add_override_limit(struct cdl_loader *loader, struct cdl_domain *domain)
{
    const struct cdl_limit_rule rule = {
        .name = override_name(loader->arena, domain->name),
        .kind = CDL_RULE_PER_CALL,
        .missing_value = {"", 0},
        .cost = {.header = {"", 0}, .standard = 1, .max = UINT64_MAX},
        .on_store_failure = CDL_FAILURE_DENY,
        .lease = {.ttl_ns = 100000000, .share_per_mille = 500},
        .place = domain->root.place,
    };
    domain->override_limit = cdl_add_limit_rule(loader, &rule, rule.name, NULL);
}

static void place_domain(struct cdl_loader *loader, struct cdl_domain *domain)
{
    for (uint32_t i = 0; i < domain->root.child_count; i++)
        domain->root.children[i]->parent = &domain->root;
    file_children(loader, &domain->root);
    add_limits(loader, domain, &domain->root);
}

void cdl_place_domains(struct cdl_loader *loader)
{
    struct cdl_policy *policy = loader->policy;
    const struct cdl_domain_drafts *drafts = loader->domains;
    struct cdl_domain *domains = cdl_arena_allocate(loader->arena, drafts->count, sizeof *domains);
    if (drafts->count == 0 || domains == NULL || !cdl_lookup_init(&policy->domain_names, loader->arena, drafts->count))
        return;
    uint32_t count = 0;
    for (const struct cdl_domain_draft *draft = drafts->first; draft != NULL; draft = draft->next) {
        domains[count] = draft->domain;
        place_domain(loader, &domains[count]);
        cdl_lookup_add(&policy->domain_names, cdl_lookup_hash(draft->domain.name, 0), count++);
    }
    for (uint32_t i = 0; i < count; i++)
        add_override_limit(loader, &domains[i]);
    policy->domains = domains;
    policy->domain_count = count;
    cdl_report_turn_to(loader->report, 0, (struct cdl_slice){"", 0});
}
