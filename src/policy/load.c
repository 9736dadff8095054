/* A policy from a file. The file becomes a tree (yaml.c), the tree becomes a policy part by part (load_*.c), and everything
 * that is wrong is said at once; only a policy without errors is looked at for what is unwise (lint.c). The tree is gone when
 * the policy stands: what is kept was copied into the policy's own arena.
 *
 * A file or a folder of Envoy's rate limit service is a policy, too, in which all else is left at its default. */
#include "policy/load.h"

#include <sys/stat.h>

#include "base/memory.h"
#include "policy/added.h"
#include "policy/index.h"
#include "policy/load_domain.h"
#include "policy/source.h"

struct root_draft {
    const struct cdl_yaml_node *identity, *exempt, *limits, *listen, *store, *log, *metrics, *resp, *envoy;
    unsigned fields;
    uint32_t instances;
};

static const struct cdl_setting root_settings[] = {
    {"identity", cdl_read_node, offsetof(struct root_draft, identity), NULL},
    {"exempt", cdl_read_node, offsetof(struct root_draft, exempt), NULL},
    {"limits", cdl_read_node, offsetof(struct root_draft, limits), NULL},
    {"fields", cdl_read_word, offsetof(struct root_draft, fields),
     CDL_WORDS("ietf-11", "ietf-12", "ietf-06", "x-ratelimit-epoch", "x-ratelimit-delta", "none")},
    {"instances", cdl_read_u32, offsetof(struct root_draft, instances), &(const struct cdl_bounds){1, 100000}},
    {"listen", cdl_read_node, offsetof(struct root_draft, listen), NULL},
    {"store", cdl_read_node, offsetof(struct root_draft, store), NULL},
    {"log", cdl_read_node, offsetof(struct root_draft, log), NULL},
    {"metrics", cdl_read_node, offsetof(struct root_draft, metrics), NULL},
    {"resp", cdl_read_node, offsetof(struct root_draft, resp), NULL},
    {"envoy", cdl_read_node, offsetof(struct root_draft, envoy), NULL},
};
static const struct cdl_shape root_shape = CDL_SHAPE("the policy", root_settings);

void cdl_policy_each_key(void (*call)(void *context, const char *map, const char *key), void *context)
{
    static const struct cdl_shape *const shapes[] = {
        &root_shape,          &cdl_identity_shape, &cdl_client_shape, &cdl_limit_shape,   &cdl_cost_shape,
        &cdl_override_shape,  &cdl_lease_shape,    &cdl_listen_shape, &cdl_tls_shape,     &cdl_timeouts_shape,
        &cdl_caps_shape,      &cdl_store_shape,    &cdl_log_shape,    &cdl_metrics_shape, &cdl_resp_shape,
        &cdl_resp_user_shape, &cdl_envoy_shape,
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t j = 0; j < shapes[i]->count; j++)
            call(context, shapes[i]->name, shapes[i]->settings[j].key);
}

/* All parts of a policy; what is not in the draft is left at its default. */
static void load_parts(struct cdl_loader *loader, const struct root_draft *draft)
{
    struct cdl_policy *policy = loader->policy;
    policy->fields = (enum cdl_fields_revision)draft->fields;
    policy->instances = draft->instances;
    cdl_load_identity(loader, draft->identity); /* before all that speaks of addresses */
    cdl_load_exemptions(loader, draft->exempt);
    if (draft->limits != NULL)
        cdl_load_limits(loader, draft->limits);
    cdl_load_server(loader, draft->listen, draft->store, draft->log);
    cdl_load_metrics(loader, draft->metrics);
    if (draft->envoy != NULL)
        cdl_load_envoy(loader, draft->envoy);
    cdl_place_domains(loader);
    cdl_load_resp(loader, draft->resp);
    cdl_place_added_limits(loader);
}

static void load_root(struct cdl_loader *loader, const struct cdl_yaml_node *root)
{
    struct root_draft draft = {.instances = 1};
    const size_t errors = loader->report->errors;
    if (cdl_is_domain_file(root)) {
        cdl_load_domain(loader, root);
        load_parts(loader, &draft);
        return;
    }
    cdl_read_map(loader, root, &root_shape, &draft);
    if (root->kind != CDL_YAML_MAP || root->count == 0)
        return;
    /* Limits may all be in other files, or come with commands. One that is mistyped has been reported already. */
    if (draft.limits == NULL && draft.envoy == NULL && draft.resp == NULL && loader->report->errors == errors)
        cdl_report_error(loader->report, root->place, "the policy has no 'limits'");
    load_parts(loader, &draft);
}

static void load_folder(struct cdl_loader *loader, const char *path)
{
    const struct root_draft draft = {.instances = 1};
    cdl_load_envoy_folder(loader, path, (struct cdl_place){0, 0});
    load_parts(loader, &draft);
}

static void build_indexes(struct cdl_policy *policy, struct cdl_report *report)
{
    policy->exemption_index = cdl_index_exemptions(policy, &policy->arena);
    policy->limit_index = cdl_index_limits(policy, &policy->arena);
    if (!policy->arena.failed)
        cdl_lint(policy, report);
}

/* What a policy is made of: the text of a file, or a folder. */
struct origin {
    const char *path;
    const struct cdl_slice *text; /* NULL: it is a folder */
};

static struct cdl_policy *new_policy(const struct origin *origin, const struct caudal_allocator *allocator)
{
    struct cdl_arena arena;
    cdl_arena_init(&arena, allocator);
    struct cdl_policy *policy = cdl_arena_allocate(&arena, 1, sizeof *policy);
    if (policy == NULL)
        return NULL;
    policy->arena = arena; /* which holds itself from here on */
    policy->file = cdl_arena_copy(&policy->arena, cdl_slice_of(origin->path));
    policy->hash = origin->text != NULL ? cdl_lookup_hash(*origin->text, 0) : 0;
    policy->client.header = policy->secret_file = (struct cdl_slice){"", 0};
    return policy;
}

static void read_tree(struct cdl_loader *loader, struct cdl_slice text, struct cdl_arena *tree)
{
    const struct cdl_yaml_node *root = cdl_yaml_read(text, CDL_YAML_WRITTEN_OUT, tree, loader->report);
    if (root != NULL && cdl_is_domain_file(root) &&
        (loader->report->errors > 0 || memmem(text.bytes, text.length, "<<", 2) != NULL)) {
        cdl_report_clear(loader->report); /* such a file may have what one of ours may not */
        root = cdl_yaml_read(text, CDL_YAML_WITH_ALIASES, tree, loader->report);
    }
    if (root != NULL && !cdl_yaml_is_null(root))
        load_root(loader, root);
    else if (loader->report->errors == 0)
        cdl_report_error(loader->report, (struct cdl_place){1, 1},
                         "the file is empty; a policy has at least one limit");
}

/* Reads what a policy is made of into it; false when there are errors. */
static bool read_origin(struct cdl_policy *policy, const struct origin *origin, struct cdl_arena *tree,
                        struct cdl_report *report)
{
    struct cdl_domain_drafts drafts = {.count = 0, .file = policy->file};
    struct cdl_loader loader = {.policy = policy, .arena = &policy->arena, .report = report, .domains = &drafts};
    drafts.tail = &drafts.first;
    loader.sources = cdl_arena_allocate(&policy->arena, CDL_POLICY_SOURCES_MAX, sizeof *loader.sources);
    if (loader.sources == NULL)
        return false;
    policy->sources = loader.sources;
    cdl_add_source(&loader, origin->path);
    if (origin->text != NULL)
        read_tree(&loader, *origin->text, tree);
    else
        load_folder(&loader, origin->path);
    return report->errors == 0;
}

static struct cdl_policy *load(const struct origin *origin, const struct caudal_allocator *allocator,
                               struct cdl_report *report)
{
    cdl_report_clear(report);
    struct cdl_arena tree;
    cdl_arena_init(&tree, allocator);
    struct cdl_policy *policy = new_policy(origin, allocator);
    if (policy == NULL)
        cdl_report_error(report, (struct cdl_place){0, 0}, "memory is short");
    else if (read_origin(policy, origin, &tree, report))
        build_indexes(policy, report);
    if (tree.failed || (policy != NULL && policy->arena.failed)) {
        cdl_report_clear(report); /* what was built with holes may have been misread */
        cdl_report_error(report, (struct cdl_place){0, 0}, "memory is short");
    }
    cdl_arena_free(&tree);
    cdl_report_sort(report);
    if (report->errors == 0)
        return policy;
    cdl_policy_free(policy);
    return NULL;
}

struct cdl_policy *cdl_policy_load_text(const char *file, struct cdl_slice text,
                                        const struct caudal_allocator *allocator, struct cdl_report *report)
{
    return load(&(const struct origin){file, &text}, allocator, report);
}

struct cdl_policy *cdl_policy_load_file(const char *path, const struct caudal_allocator *allocator,
                                        struct cdl_report *report)
{
    struct stat status;
    struct cdl_slice text;
    const char *why;
    if (allocator == NULL)
        allocator = cdl_allocator_default();
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return load(&(const struct origin){path, NULL}, allocator, report);
    if (!cdl_source_read(path, allocator, &text, &why)) {
        cdl_report_clear(report);
        cdl_report_error(report, (struct cdl_place){0, 0}, "cannot be read: %s", why);
        return NULL;
    }
    struct cdl_policy *policy = cdl_policy_load_text(path, text, allocator, report);
    cdl_source_free(allocator, text);
    return policy;
}

void cdl_policy_free(struct cdl_policy *policy)
{
    if (policy == NULL)
        return;
    struct cdl_arena arena = policy->arena;
    cdl_arena_free(&arena);
}

uint32_t cdl_policy_find(const struct cdl_policy *policy, struct cdl_slice name)
{
    const struct cdl_lookup_link *link = cdl_lookup_find(&policy->limit_names, cdl_lookup_hash(name, 0));
    for (; link != NULL; link = cdl_lookup_next(&policy->limit_names, link))
        if (cdl_slice_equal(policy->limits[link->value].name, name))
            return link->value;
    return CDL_NONE;
}

uint32_t cdl_policy_named_limits(const struct cdl_policy *policy)
{
    uint32_t count = policy->request_limit_count;
    for (uint32_t i = count; i < policy->limit_count; i++)
        count += policy->limits[i].kind != CDL_RULE_PER_CALL;
    return count;
}
