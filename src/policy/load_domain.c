/* One file of Envoy's rate limit service: a domain and its tree of descriptors.
 *
 * What the reference reads is read, and what it refuses is refused; where it reads past a key that stands in the wrong place, that is
 * warned of. Keys of ours stand beside its own. A file becomes nodes at once, and its tree of YAML is gone before the next is opened;
 * what the nodes say together is looked at when all files have been read (place_domains.c). */
#include "policy/load_domain.h"

#define TEXT_BYTES_MAX CDL_PATTERN_BYTES_MAX

struct file_draft {
    const struct cdl_yaml_node *domain, *descriptors;
};

static const struct cdl_setting domain_settings[] = {
    {"domain", cdl_read_node, offsetof(struct file_draft, domain), NULL},
    {"descriptors", cdl_read_node, offsetof(struct file_draft, descriptors), NULL},
};
const struct cdl_shape cdl_domain_shape = {"the domain", domain_settings,
                                           sizeof domain_settings / sizeof domain_settings[0], &cdl_reference_words};

struct descriptor_draft {
    const struct cdl_yaml_node *key, *value, *rate_limit, *descriptors, *metadata;
    const struct cdl_yaml_node *on_store_failure, *sharing, *mode, *count_refused;
    bool shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold;
};

static const struct cdl_setting descriptor_settings[] = {
    {"key", cdl_read_node, offsetof(struct descriptor_draft, key), NULL},
    {"value", cdl_read_node, offsetof(struct descriptor_draft, value), NULL},
    {"rate_limit", cdl_read_node, offsetof(struct descriptor_draft, rate_limit), NULL},
    {"descriptors", cdl_read_node, offsetof(struct descriptor_draft, descriptors), NULL},
    {"shadow_mode", cdl_read_flag, offsetof(struct descriptor_draft, shadow_mode), NULL},
    {"quota_mode", cdl_read_flag, offsetof(struct descriptor_draft, quota_mode), NULL},
    {"detailed_metric", cdl_read_flag, offsetof(struct descriptor_draft, detailed_metric), NULL},
    {"value_to_metric", cdl_read_flag, offsetof(struct descriptor_draft, value_to_metric), NULL},
    {"share_threshold", cdl_read_flag, offsetof(struct descriptor_draft, share_threshold), NULL},
    {"metadata", cdl_read_node, offsetof(struct descriptor_draft, metadata), NULL},
    {"on_store_failure", cdl_read_node, offsetof(struct descriptor_draft, on_store_failure), NULL},
    {"sharing", cdl_read_node, offsetof(struct descriptor_draft, sharing), NULL},
    {"mode", cdl_read_node, offsetof(struct descriptor_draft, mode), NULL},
    {"count_refused", cdl_read_node, offsetof(struct descriptor_draft, count_refused), NULL},
};
const struct cdl_shape cdl_descriptor_shape = {"descriptors", descriptor_settings,
                                               sizeof descriptor_settings / sizeof descriptor_settings[0],
                                               &cdl_reference_words};

static const char *const reference_words[] = {
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
};
const struct cdl_words cdl_reference_words = {reference_words, sizeof reference_words / sizeof reference_words[0]};

/* ---------------------------------------------------------------------------------------------------------- values */

void cdl_read_flag(struct cdl_loader *loader, const struct cdl_yaml_node *node, const struct cdl_setting *setting,
                   void *target)
{
    static const char *const words[] = {"true", "yes", "on", "false", "no", "off"};
    char found[CDL_FOUND_MAX];
    if (cdl_yaml_is_null(node))
        return;
    for (size_t i = 0; node->kind == CDL_YAML_SCALAR && i < sizeof words / sizeof words[0]; i++)
        if (cdl_slice_equal_nocase(node->text, cdl_slice_of(words[i]))) {
            *(bool *)target = i < 3;
            return;
        }
    if (node->kind != CDL_YAML_BAD)
        cdl_report_error(loader->report, node->place, "'%s': expected true or false, found %s", setting->key,
                         cdl_found(node, found));
}

bool cdl_read_loose_text(struct cdl_loader *loader, const struct cdl_yaml_node *node, const char *key,
                         struct cdl_slice *text)
{
    char found[CDL_FOUND_MAX];
    *text = (struct cdl_slice){"", 0};
    if (cdl_is_absent(node))
        return true;
    if (node->kind == CDL_YAML_SCALAR && node->text.length <= TEXT_BYTES_MAX) {
        *text = cdl_arena_copy(loader->arena, node->text);
        return true;
    }
    if (node->kind == CDL_YAML_SCALAR)
        cdl_report_error(loader->report, node->place, "'%s': '%.40s...' is longer than %u bytes", key, node->text.bytes,
                         TEXT_BYTES_MAX);
    else if (node->kind != CDL_YAML_BAD)
        cdl_report_error(loader->report, node->place, "'%s': expected a text, found %s", key, cdl_found(node, found));
    return false;
}

/* ----------------------------------------------------------------------------------------------------- descriptors */

static void read_descriptors(struct cdl_loader *loader, const struct cdl_yaml_node *list,
                             struct cdl_descriptor_node *parent, unsigned depth);

/* How a limit is counted: read into a struct cdl_limit_rule when it is known that there is one. */
static const struct cdl_setting on_failure = {"on_store_failure", NULL, 0, CDL_WORDS("allow", "deny", "local")};
static const struct cdl_setting sharing = {"sharing", NULL, 0, CDL_WORDS("strict", "leased", "local")};
static const struct cdl_setting mode = {"mode", NULL, 0, CDL_WORDS("enforce", "shadow", "off")};
static const struct cdl_setting count_refused = {"count_refused", NULL, 0, NULL};

static void read_how(struct cdl_loader *loader, const struct descriptor_draft *draft, struct cdl_limit_rule *rule)
{
    if (!cdl_is_absent(draft->on_store_failure))
        cdl_read_word(loader, draft->on_store_failure, &on_failure, &rule->on_store_failure);
    if (!cdl_is_absent(draft->sharing))
        cdl_read_word(loader, draft->sharing, &sharing, &rule->sharing);
    if (!cdl_is_absent(draft->count_refused))
        cdl_read_flag(loader, draft->count_refused, &count_refused, &rule->count_refused);
    if (rule->sharing == CDL_SHARING_LEASED && rule->calendar != NULL)
        cdl_report_error(loader->report, draft->sharing->place, "a limit with a 'calendar' cannot be leased");
    if (draft->shadow_mode || draft->quota_mode)
        rule->mode = CDL_MODE_SHADOW;
    if (cdl_is_absent(draft->mode))
        return;
    if (rule->mode == CDL_MODE_SHADOW)
        cdl_report_error(loader->report, draft->mode->place, "'mode' and '%s' are two answers to one question",
                         draft->shadow_mode ? "shadow_mode" : "quota_mode");
    else
        cdl_read_word(loader, draft->mode, &mode, &rule->mode);
}

/* Words of ours that say how a limit is counted, where there is none. */
static void refuse_how(struct cdl_loader *loader, const struct descriptor_draft *draft)
{
    const struct {
        const char *key;
        const struct cdl_yaml_node *node;
    } words[] = {{"on_store_failure", draft->on_store_failure},
                 {"sharing", draft->sharing},
                 {"mode", draft->mode},
                 {"count_refused", draft->count_refused}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!cdl_is_absent(words[i].node))
            cdl_report_error(loader->report, words[i].node->place, "'%s' has a meaning only with 'rate_limit'",
                             words[i].key);
}

static void read_rule(struct cdl_loader *loader, const struct descriptor_draft *fields,
                      struct cdl_descriptor_node *node)
{
    struct cdl_descriptor_draft *draft = cdl_arena_allocate(loader->arena, 1, sizeof *draft);
    struct cdl_descriptor_rule *rule = cdl_arena_allocate(loader->arena, 1, sizeof *rule);
    if (draft == NULL || rule == NULL)
        return;
    draft->limit = (struct caudal_limit){sizeof draft->limit, CAUDAL_FIXED_WINDOW, 0, 0, CAUDAL_BURST_DEFAULT};
    draft->rule = (struct cdl_limit_rule){
        .kind = CDL_RULE_DESCRIPTOR,
        .descriptor = rule,
        .missing_value = {"", 0},
        .cost = {.header = {"", 0}, .standard = 1, .max = UINT64_MAX},
        .on_store_failure =
            CDL_FAILURE_DENY, /* an error, as the reference's, of which Envoy makes what it is told to */
        .lease = {.ttl_ns = 100000000, .share_per_mille = 500},
        .place = fields->rate_limit->place,
    };
    *rule = (struct cdl_descriptor_rule){
        .label = {"", 0}, .path = {"", 0}, .metadata = {"", 0}, .zone = {"", 0}, .file = node->file};
    cdl_load_rate_limit(loader, fields->rate_limit, draft, rule);
    read_how(loader, fields, &draft->rule);
    rule->quota = fields->quota_mode;
    rule->shadow = fields->shadow_mode || (draft->rule.mode == CDL_MODE_SHADOW && !fields->quota_mode);
    rule->detailed_metric = fields->detailed_metric;
    if (!cdl_is_absent(fields->metadata))
        rule->metadata = cdl_read_metadata(loader, fields->metadata);
    node->rule = rule;
    node->draft = draft;
}

static void read_fields(struct cdl_loader *loader, const struct cdl_yaml_node *item,
                        const struct descriptor_draft *fields, struct cdl_descriptor_node *node, unsigned depth)
{
    if (cdl_read_loose_text(loader, fields->key, "key", &node->key) && node->key.length == 0)
        cdl_report_error(loader->report, item->place, "the descriptor has no 'key'");
    cdl_read_loose_text(loader, fields->value, "value", &node->value);
    node->wildcard = cdl_has_star(node->value);
    node->value_to_metric = fields->value_to_metric;
    node->shared = fields->share_threshold;
    if (fields->share_threshold && !node->wildcard)
        cdl_report_error(loader->report, item->place,
                         "'share_threshold' has a meaning only with a value that has a '*', not with '%.60s'",
                         node->value.bytes);
    if (!cdl_is_absent(fields->rate_limit))
        read_rule(loader, fields, node);
    else
        refuse_how(loader, fields);
    if (!cdl_is_absent(fields->descriptors))
        read_descriptors(loader, fields->descriptors, node, depth + 1);
    node->value_only = node->rule == NULL && node->child_count == 0;
}

static struct cdl_descriptor_node *read_descriptor(struct cdl_loader *loader, const struct cdl_yaml_node *item,
                                                   const struct cdl_descriptor_node *parent, unsigned depth)
{
    struct descriptor_draft fields = {.key = NULL};
    struct cdl_descriptor_node *node = cdl_arena_allocate(loader->arena, 1, sizeof *node);
    cdl_read_map(loader, item, &cdl_descriptor_shape, &fields);
    if (node == NULL || item->kind != CDL_YAML_MAP || item->count == 0)
        return NULL;
    *node = (struct cdl_descriptor_node){
        .key = {"", 0},
        .value = {"", 0},
        .parent = parent,
        .limit = CDL_NONE,
        .file = loader->domains->file,
        .source = loader->report->source,
        .place = item->place,
    };
    read_fields(loader, item, &fields, node, depth);
    return node;
}

/* Behind those that another file of the domain brought. */
static void read_descriptors(struct cdl_loader *loader, const struct cdl_yaml_node *list,
                             struct cdl_descriptor_node *parent, unsigned depth)
{
    char found[CDL_FOUND_MAX];
    if (list->kind != CDL_YAML_LIST) {
        if (list->kind != CDL_YAML_BAD)
            cdl_report_error(loader->report, list->place, "'descriptors': expected a list of {key: ...}, found %s",
                             cdl_found(list, found));
        return;
    }
    if (depth > CDL_DESCRIPTOR_ENTRIES_MAX) {
        cdl_report_error(loader->report, list->place, "descriptors are nested more than %u deep",
                         CDL_DESCRIPTOR_ENTRIES_MAX);
        return;
    }
    struct cdl_descriptor_node **children = cdl_arena_allocate(loader->arena, (size_t)parent->child_count + list->count,
                                                               sizeof *children);
    if (children == NULL)
        return;
    for (uint32_t i = 0; i < parent->child_count; i++)
        children[i] = parent->children[i];
    for (const struct cdl_yaml_node *item = list->first; item != NULL; item = item->next) {
        children[parent->child_count] = read_descriptor(loader, item, parent, depth);
        parent->child_count += children[parent->child_count] != NULL;
    }
    parent->children = children;
}

/* ------------------------------------------------------------------------------------------------------------ file */

static const struct cdl_yaml_node *find_key(const struct cdl_yaml_node *map, const char *name)
{
    for (const struct cdl_yaml_node *key = map->first; key != NULL; key = key->next->next)
        if (cdl_slice_equal(key->text, cdl_slice_of(name)))
            return key;
    return NULL;
}

bool cdl_is_domain_file(const struct cdl_yaml_node *root)
{
    return root->kind == CDL_YAML_MAP && (find_key(root, "domain") != NULL || find_key(root, "descriptors") != NULL);
}

static struct cdl_domain_draft *find_domain(const struct cdl_domain_drafts *drafts, struct cdl_slice name)
{
    struct cdl_domain_draft *draft = drafts->first;
    while (draft != NULL && !cdl_slice_equal(draft->domain.name, name))
        draft = draft->next;
    return draft;
}

static struct cdl_domain_draft *add_domain(struct cdl_loader *loader, struct cdl_slice name, struct cdl_place place)
{
    struct cdl_domain_draft *draft = cdl_arena_allocate(loader->arena, 1, sizeof *draft);
    if (draft == NULL)
        return NULL;
    draft->domain.name = name;
    draft->domain.override_limit = CDL_NONE;
    draft->domain.root = (struct cdl_descriptor_node){
        .limit = CDL_NONE, .file = loader->domains->file, .source = loader->report->source, .place = place};
    *loader->domains->tail = draft;
    loader->domains->tail = &draft->next;
    loader->domains->count++;
    return draft;
}

/* A domain that another file has begun, or a new one; NULL when it must not be gone on with. */
static struct cdl_domain_draft *open_domain(struct cdl_loader *loader, struct cdl_slice name, struct cdl_place place)
{
    struct cdl_domain_draft *draft = find_domain(loader->domains, name);
    if (draft == NULL || name.length == 0)
        return add_domain(loader, name, place);
    if (loader->domains->merge)
        return draft;
    cdl_report_error(loader->report, place,
                     "the domain '%.60s' is in %.200s already, at line %u; files that are parts of one domain need "
                     "'merge_domains: true'",
                     name.bytes, draft->domain.root.file.bytes, draft->domain.root.place.line);
    return NULL;
}

void cdl_load_domain(struct cdl_loader *loader, const struct cdl_yaml_node *root)
{
    struct file_draft fields = {NULL, NULL};
    struct cdl_slice name;
    cdl_read_map(loader, root, &cdl_domain_shape, &fields);
    if (!cdl_read_loose_text(loader, fields.domain, "domain", &name))
        return;
    const struct cdl_place place = fields.domain != NULL ? fields.domain->place : root->place;
    if (name.length == 0)
        cdl_report_error(loader->report, place, "the file has no 'domain'");
    struct cdl_domain_draft *draft = open_domain(loader, name, place);
    if (draft != NULL && !cdl_is_absent(fields.descriptors))
        read_descriptors(loader, fields.descriptors, &draft->domain.root, 1);
}
