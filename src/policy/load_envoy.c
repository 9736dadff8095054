/* `envoy:` the files of Envoy's rate limit service that a policy goes by: which there are.
 *
 * A path leads to a file or to a folder, of which every *.yaml and *.yml is read, in the order of their names. Kubernetes mounts a ConfigMap
 * as links into a hidden folder that is swapped for another, so that what is hidden is not looked at; nor are the backups that editors
 * leave, whose names end otherwise. A file that is reached twice is read once. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "policy/load_domain.h"
#include "policy/source.h"

struct envoy_draft {
    const struct cdl_yaml_node *files;
    bool merge;
};

static const struct cdl_setting envoy_settings[] = {
    {"files", cdl_read_node, offsetof(struct envoy_draft, files), NULL},
    {"merge_domains", cdl_read_flag, offsetof(struct envoy_draft, merge), NULL},
};
const struct cdl_shape cdl_envoy_shape = CDL_SHAPE("envoy", envoy_settings);

/* ---- sources ---- */

uint32_t cdl_add_source(struct cdl_loader *loader, const char *path)
{
    struct cdl_policy *policy = loader->policy;
    if (policy->source_count == CDL_POLICY_SOURCES_MAX)
        return CDL_NONE;
    loader->sources[policy->source_count] = cdl_arena_copy(loader->arena, cdl_slice_of(path));
    return policy->source_count++;
}

static uint32_t add_source(struct cdl_loader *loader, const char *path, struct cdl_place place)
{
    const uint32_t source = cdl_add_source(loader, path);
    if (source == CDL_NONE)
        cdl_report_error(loader->report, place, "there are more than %u files and folders", CDL_POLICY_SOURCES_MAX);
    return source;
}

static bool is_known(struct cdl_domain_drafts *drafts, const struct stat *status)
{
    for (uint32_t i = 0; i < drafts->read_count; i++)
        if (drafts->read[i].device == status->st_dev && drafts->read[i].inode == status->st_ino)
            return true;
    return false;
}

/* ---- one file ---- */

static void load_text(struct cdl_loader *loader, struct cdl_slice text)
{
    struct cdl_arena tree;
    cdl_arena_init(&tree, loader->arena->allocator);
    const size_t errors = loader->report->errors;
    const struct cdl_yaml_node *root = cdl_yaml_read(text, CDL_YAML_WITH_ALIASES, &tree, loader->report);
    if (root != NULL && !cdl_yaml_is_null(root))
        cdl_load_domain(loader, root);
    else if (loader->report->errors == errors)
        cdl_report_error(loader->report, (struct cdl_place){1, 1}, "the file is empty; it has no 'domain'");
    loader->arena->failed |= tree.failed;
    cdl_arena_free(&tree);
}

static void load_file(struct cdl_loader *loader, const char *path, const struct stat *status, struct cdl_place place)
{
    struct cdl_domain_drafts *drafts = loader->domains;
    struct cdl_slice text;
    const char *why;
    if (is_known(drafts, status))
        return;
    const uint32_t source = add_source(loader, path, place);
    if (source == CDL_NONE)
        return;
    drafts->read[drafts->read_count].device = status->st_dev;
    drafts->read[drafts->read_count++].inode = status->st_ino;
    if (!cdl_source_read(path, loader->arena->allocator, &text, &why)) {
        cdl_report_error(loader->report, place, "'%.200s' cannot be read: %s", path, why);
        return;
    }
    loader->policy->hash = cdl_lookup_hash(text, loader->policy->hash);
    drafts->file = loader->sources[source];
    cdl_report_turn_to(loader->report, source, drafts->file);
    load_text(loader, text);
    cdl_report_turn_to(loader->report, 0, drafts->file);
    cdl_source_free(loader->arena->allocator, text);
}

/* ---- a folder ---- */

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_yaml(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* True when the entry is a file to be read. */
static bool load_entry(struct cdl_loader *loader, const char *folder, const char *name, struct cdl_place place)
{
    char path[4096];
    struct stat status;
    size_t bare = strlen(folder);
    while (bare > 1 && folder[bare - 1] == '/')
        bare--;
    const int length = snprintf(path, sizeof path, "%.*s/%s", (int)bare, folder, name);
    if (length < 0 || (size_t)length >= sizeof path) {
        cdl_report_error(loader->report, place, "'%.200s...': the path is too long", path);
        return true;
    }
    if (stat(path, &status) != 0) {
        if (is_yaml(name))
            cdl_report_error(loader->report, place, "'%.200s' cannot be read: %s", path, strerrordesc_np(errno));
        return is_yaml(name);
    }
    if (S_ISDIR(status.st_mode))
        cdl_report_warning(loader->report, place, "the folder '%.200s' is inside another, and not looked through",
                           path);
    if (!S_ISREG(status.st_mode) || !is_yaml(name))
        return false;
    load_file(loader, path, &status, place);
    return true;
}

void cdl_load_envoy_folder(struct cdl_loader *loader, const char *path, struct cdl_place place)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, is_visible, by_name);
    if (count < 0) {
        cdl_report_error(loader->report, place, "'%.200s' cannot be read: %s", path, strerrordesc_np(errno));
        return;
    }
    bool any = false;
    for (int i = 0; i < count; i++) {
        any |= load_entry(loader, path, entries[i]->d_name, place);
        free(entries[i]);
    }
    free(entries);
    if (!any)
        cdl_report_error(loader->report, place, "the folder '%.200s' has no *.yaml and no *.yml", path);
}

/* ---- the key ---- */

/* Relative to the file that names it. False: too long. */
static bool resolve(const struct cdl_policy *policy, struct cdl_slice name, char *path, size_t size)
{
    const char *slash = name.bytes[0] != '/' ? strrchr(policy->file.bytes, '/') : NULL;
    const int length = slash != NULL ? snprintf(path, size, "%.*s/%s", (int)(slash - policy->file.bytes),
                                                policy->file.bytes, name.bytes)
                                     : snprintf(path, size, "%s", name.bytes);
    return length >= 0 && (size_t)length < size;
}

static void load_path(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    char path[4096];
    struct cdl_slice name;
    struct stat status;
    if (!cdl_read_scalar(loader, node, "envoy", "the path of a file or a folder", &name))
        return;
    if (!resolve(loader->policy, name, path, sizeof path))
        cdl_report_error(loader->report, node->place, "'envoy': the path '%.100s...' is too long", name.bytes);
    else if (stat(path, &status) != 0)
        cdl_report_error(loader->report, node->place, "'%.200s' cannot be read: %s", path, strerrordesc_np(errno));
    else if (S_ISREG(status.st_mode))
        load_file(loader, path, &status, node->place);
    else if (!S_ISDIR(status.st_mode))
        cdl_report_error(loader->report, node->place, "'%.200s' is neither a file nor a folder", path);
    else if (add_source(loader, path, node->place) != CDL_NONE)
        cdl_load_envoy_folder(loader, path, node->place);
}

void cdl_load_envoy(struct cdl_loader *loader, const struct cdl_yaml_node *node)
{
    struct envoy_draft draft = {node, false};
    struct cdl_items items;
    if (node->kind == CDL_YAML_MAP) {
        draft.files = NULL;
        cdl_read_map(loader, node, &cdl_envoy_shape, &draft);
        if (draft.files == NULL && node->count > 0)
            cdl_report_error(loader->report, node->place, "'envoy' has no 'files'");
    }
    loader->domains->merge = draft.merge;
    if (draft.files == NULL || !cdl_read_items(loader, draft.files, "envoy", &items))
        return;
    const struct cdl_yaml_node *item = items.first;
    for (uint32_t i = 0; i < items.count; i++, item = item->next)
        load_path(loader, item);
}
