/* Noticing that a policy has changed, whatever changed it: a file written in place, renamed over, removed and made again, or behind a
 * symbolic link that was swapped (a Kubernetes ConfigMap swaps the directory two links away); a file that is new in a folder, or gone.
 *
 * A policy is one file, and the files and folders that it was read from besides. They are looked at several times a second: a stat(2)
 * each costs nothing beside what inotify has to be told to see all of the above. Of a folder, so are its entries, but for what loaders
 * and editors hide: names that begin with '.' or end with '~'. A change is reported once everything has looked the same twice in
 * a row, so that what is still being written is left alone. */
#ifndef CDL_SERVER_WATCH_H
#define CDL_SERVER_WATCH_H

#include "policy/policy.h"

/* The entries of a folder, in the order of their names, that are looked at one by one; of the rest only the names count. */
#define CDL_WATCH_ENTRIES_MAX 512u

/* What something looked like: a hash of all that a change would change, 0 when it was not there. */
struct cdl_watched {
    char *path;
    uint64_t reported; /* when it was last reported */
    uint64_t latest;
};

struct cdl_watch {
    struct cdl_watched sources[1 + CDL_POLICY_SOURCES_MAX]; /* the first is the policy's own file */
    uint32_t count;
    int64_t looked_ns; /* when; by the realtime clock, as all times here */
};

/* Starts from the file as it is now, before it is read. The path is borrowed. */
void cdl_watch_start(struct cdl_watch *watch, const char *path, int64_t now_ns);

/* Watches what this policy was read from, after it was read: beside the file that was given at the start, instead of what was watched
 * before. What is new and has changed after the last look may have done so after it was read, and is reported once more. False: memory is
 * short, and what was watched before still is. */
bool cdl_watch_follow(struct cdl_watch *watch, const struct cdl_policy *policy);

/* True when something has changed since the start or the last true, and all has come to rest. What is gone has changed. */
bool cdl_watch_look(struct cdl_watch *watch, int64_t now_ns);

/* Gives back what following took. */
void cdl_watch_end(struct cdl_watch *watch);

#endif
