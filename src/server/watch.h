/* Noticing that a file has changed, whatever changed it: written in place, renamed over, removed and made again, or behind a symbolic
 * link that was swapped (a Kubernetes ConfigMap swaps the directory two links away).
 *
 * The file that the path leads to is looked at several times a second: one stat(2) costs nothing beside what inotify has to be
 * told to see all of the above. A change is reported once the file has looked the same twice in a row, so that one that is still
 * being written is left alone. */
#ifndef CDL_SERVER_WATCH_H
#define CDL_SERVER_WATCH_H

#include <stdbool.h>
#include <sys/stat.h>

struct cdl_watch {
    const char *path;
    struct stat reported; /* as it was when it was last reported; all zero: absent */
    struct stat latest;
};

/* Starts from the file as it is now. */
void cdl_watch_start(struct cdl_watch *watch, const char *path);

/* True when the file has changed since the start or the last true, and has come to rest. A file that is gone has changed. */
bool cdl_watch_look(struct cdl_watch *watch);

#endif
