#include "server/watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arith.h"

/* Times of files are those of the last tick of the system, which may be as long ago. */
#define TICK_NS INT64_C(20000000)
#define UNKNOWN UINT64_MAX /* no hash: nothing looks like it */

static int64_t time_ns(struct timespec time)
{
    return (int64_t)time.tv_sec * CDL_NS_PER_S + time.tv_nsec;
}

/* Of a folder only which one it is: its times change with what it hides, too. */
static uint64_t hash_status(const struct stat *status, uint64_t seed, int64_t *changed_ns)
{
    const bool is_folder = S_ISDIR(status->st_mode);
    const uint64_t fields[] = {
        (uint64_t)status->st_dev,
        (uint64_t)status->st_ino,
        is_folder ? 0 : (uint64_t)status->st_size,
        is_folder ? 0 : (uint64_t)time_ns(status->st_mtim),
        is_folder ? 0 : (uint64_t)time_ns(status->st_ctim),
    };
    if (time_ns(status->st_ctim) > *changed_ns)
        *changed_ns = time_ns(status->st_ctim);
    const uint64_t hash = XXH3_64bits_withSeed(fields, sizeof fields, seed);
    return hash == 0 || hash == UNKNOWN ? 1 : hash;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && entry->d_name[strlen(entry->d_name) - 1] != '~';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A link counts as what it leads to. */
static uint64_t look_at_entry(const char *folder, const char *name, int64_t *changed_ns)
{
    char path[4096];
    struct stat status;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path || stat(path, &status) != 0)
        return 0;
    return hash_status(&status, 0, changed_ns);
}

static uint64_t look_into(const char *path, int64_t *changed_ns)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, is_visible, by_name);
    if (count < 0)
        return 0;
    uint64_t hash = 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        hash = XXH3_64bits_withSeed(name, strlen(name), hash);
        if ((uint32_t)i < CDL_WATCH_ENTRIES_MAX)
            hash += look_at_entry(path, name, changed_ns);
        free(entries[i]);
    }
    free(entries);
    return hash;
}

/* `changed_ns`: raised to the last change of what is seen. */
static uint64_t look(const char *path, int64_t *changed_ns)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return 0;
    return hash_status(&status, S_ISDIR(status.st_mode) ? look_into(path, changed_ns) : 0, changed_ns);
}

/* ---- what is watched ---- */

void cdl_watch_start(struct cdl_watch *watch, const char *path, int64_t now_ns)
{
    int64_t changed_ns = 0;
    struct cdl_watched *own = &watch->sources[0];
    watch->count = 1;
    watch->looked_ns = now_ns;
    own->path = (char *)(uintptr_t)path; /* never written to, nor freed */
    own->latest = own->reported = look(path, &changed_ns);
}

static void free_paths(struct cdl_watched *sources, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        free(sources[i].path);
}

static const struct cdl_watched *find(const struct cdl_watch *watch, const char *path)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (strcmp(watch->sources[i].path, path) == 0)
            return &watch->sources[i];
    return NULL;
}

/* What is watched already goes on from what it was like before the policy was read. */
static void join(const struct cdl_watch *watch, struct cdl_watched *source)
{
    const struct cdl_watched *old = find(watch, source->path);
    int64_t changed_ns = 0;
    if (old != NULL) {
        source->latest = old->latest;
        source->reported = old->reported;
        return;
    }
    source->latest = source->reported = look(source->path, &changed_ns);
    if (changed_ns > watch->looked_ns - TICK_NS)
        source->reported = UNKNOWN;
}

bool cdl_watch_follow(struct cdl_watch *watch, const struct cdl_policy *policy)
{
    struct cdl_watch fresh = {.sources = {watch->sources[0]}, .count = 1, .looked_ns = watch->looked_ns};
    for (uint32_t i = 0; i < policy->source_count && i < CDL_POLICY_SOURCES_MAX; i++) {
        struct cdl_watched *source = &fresh.sources[fresh.count];
        if (strcmp(policy->sources[i].bytes, watch->sources[0].path) == 0)
            continue;
        source->path = strdup(policy->sources[i].bytes);
        if (source->path == NULL) {
            free_paths(fresh.sources, fresh.count);
            return false;
        }
        join(watch, source);
        fresh.count++;
    }
    free_paths(watch->sources, watch->count);
    *watch = fresh;
    return true;
}

bool cdl_watch_look(struct cdl_watch *watch, int64_t now_ns)
{
    int64_t changed_ns = 0;
    bool rests = true, changed = false;
    watch->looked_ns = now_ns;
    for (uint32_t i = 0; i < watch->count; i++) {
        struct cdl_watched *source = &watch->sources[i];
        const uint64_t now = look(source->path, &changed_ns);
        rests &= now == source->latest;
        changed |= now != source->reported;
        source->latest = now;
    }
    if (!rests || !changed)
        return false;
    for (uint32_t i = 0; i < watch->count; i++)
        watch->sources[i].reported = watch->sources[i].latest;
    return true;
}

void cdl_watch_end(struct cdl_watch *watch)
{
    free_paths(watch->sources, watch->count);
    watch->count = 0;
}
