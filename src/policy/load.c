/* A policy from a file. The file becomes a tree (yaml.c), the tree becomes a policy part by part (load_*.c), and everything
 * that is wrong is said at once; only a policy without errors is looked at for what is unwise (lint.c). The tree is gone when
 * the policy stands: what is kept was copied into the policy's own arena. */
#include "policy/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "policy/index.h"

struct root_draft {
    const struct cdl_yaml_node *identity, *exempt, *limits, *listen, *store, *log;
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
};
static const struct cdl_shape root_shape = CDL_SHAPE("the policy", root_settings);

void cdl_policy_each_key(void (*call)(void *context, const char *map, const char *key), void *context)
{
    static const struct cdl_shape *const shapes[] = {
        &root_shape,         &cdl_identity_shape, &cdl_client_shape, &cdl_limit_shape, &cdl_cost_shape,
        &cdl_override_shape, &cdl_lease_shape,    &cdl_listen_shape, &cdl_tls_shape,   &cdl_timeouts_shape,
        &cdl_caps_shape,     &cdl_store_shape,    &cdl_log_shape,
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t j = 0; j < shapes[i]->count; j++)
            call(context, shapes[i]->name, shapes[i]->settings[j].key);
}

static void load_root(struct cdl_loader *loader, const struct cdl_yaml_node *root)
{
    struct cdl_policy *policy = loader->policy;
    struct root_draft draft = {.instances = 1};
    size_t errors = loader->report->errors;
    cdl_read_map(loader, root, &root_shape, &draft);
    if (root->kind != CDL_YAML_MAP || root->count == 0)
        return;
    policy->fields = (enum cdl_fields_revision)draft.fields;
    policy->instances = draft.instances;
    cdl_load_identity(loader, draft.identity); /* before all that speaks of addresses */
    cdl_load_exemptions(loader, draft.exempt);
    if (draft.limits != NULL)
        cdl_load_limits(loader, draft.limits);
    else if (loader->report->errors == errors) /* a mistyped "limits" was reported already */
        cdl_report_error(loader->report, root->place, "the policy has no 'limits'");
    cdl_load_server(loader, draft.listen, draft.store, draft.log);
}

static void build_indexes(struct cdl_policy *policy, struct cdl_report *report)
{
    policy->exemption_index = cdl_index_exemptions(policy, &policy->arena);
    policy->limit_index = cdl_index_limits(policy, &policy->arena);
    if (!policy->arena.failed)
        cdl_lint(policy, report);
}

static struct cdl_policy *new_policy(const char *file, struct cdl_slice text, const struct caudal_allocator *allocator)
{
    struct cdl_arena arena;
    cdl_arena_init(&arena, allocator);
    struct cdl_policy *policy = cdl_arena_allocate(&arena, 1, sizeof *policy);
    if (policy == NULL)
        return NULL;
    policy->arena = arena; /* which holds itself from here on */
    policy->file = cdl_arena_copy(&policy->arena, cdl_slice_of(file));
    policy->hash = cdl_lookup_hash(text, 0);
    policy->client.header = policy->secret_file = (struct cdl_slice){"", 0};
    return policy;
}

static bool read_tree(struct cdl_policy *policy, struct cdl_slice text, struct cdl_arena *tree,
                      struct cdl_report *report)
{
    struct cdl_loader loader = {policy, &policy->arena, report};
    const struct cdl_yaml_node *root = cdl_yaml_read(text, tree, report);
    if (root == NULL || cdl_yaml_is_null(root)) {
        if (report->errors == 0)
            cdl_report_error(report, (struct cdl_place){1, 1}, "the file is empty; a policy has at least one limit");
        return false;
    }
    load_root(&loader, root);
    return report->errors == 0;
}

struct cdl_policy *cdl_policy_load_text(const char *file, struct cdl_slice text,
                                        const struct caudal_allocator *allocator, struct cdl_report *report)
{
    cdl_report_clear(report);
    struct cdl_arena tree;
    cdl_arena_init(&tree, allocator);
    struct cdl_policy *policy = new_policy(file, text, allocator);
    if (policy == NULL)
        cdl_report_error(report, (struct cdl_place){0, 0}, "memory is short");
    else if (read_tree(policy, text, &tree, report))
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

/* Not by its size, which a pipe does not have and which may change meanwhile: one byte more than is allowed is enough to know. */
static char *read_whole(FILE *file, const struct caudal_allocator *allocator, size_t size, size_t *length)
{
    char *text = cdl_allocate(allocator, size, 1, 16);
    if (text != NULL)
        *length = fread(text, 1, size, file);
    return text;
}

struct cdl_policy *cdl_policy_load_file(const char *path, const struct caudal_allocator *allocator,
                                        struct cdl_report *report)
{
    const size_t size = CDL_YAML_BYTES_MAX + 1;
    const struct cdl_place whole = {0, 0};
    struct cdl_policy *policy = NULL;
    size_t length = 0;
    if (allocator == NULL)
        allocator = cdl_allocator_default();
    cdl_report_clear(report);
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? read_whole(file, allocator, size, &length) : NULL;
    if (file == NULL || (text != NULL && ferror(file)))
        cdl_report_error(report, whole, "cannot be read: %s", strerrordesc_np(errno));
    else if (text == NULL)
        cdl_report_error(report, whole, "memory is short");
    else
        policy = cdl_policy_load_text(path, (struct cdl_slice){text, length}, allocator, report);
    cdl_release(allocator, text, size, 1);
    if (file != NULL)
        fclose(file);
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
