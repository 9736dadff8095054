#include "server/watch.h"

#include <string.h>

static struct stat look(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        memset(&status, 0, sizeof status);
    return status;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void cdl_watch_start(struct cdl_watch *watch, const char *path)
{
    watch->path = path;
    watch->latest = watch->reported = look(path);
}

bool cdl_watch_look(struct cdl_watch *watch)
{
    const struct stat now = look(watch->path);
    const bool rests = same(&now, &watch->latest);
    watch->latest = now;
    if (!rests || same(&now, &watch->reported))
        return false;
    watch->reported = now;
    return true;
}
