/* Hits of descriptors, under the names that Envoy's rate limit service gives them.
 *
 * A series is a list of labels: a domain, and "key" or "key_value" for each entry of a descriptor. Most are known when a policy is
 * loaded. Where a rule asks for the values that requests bring (detailed_metric, value_to_metric), clients would choose how many
 * there are; so each rule has a group of a fixed number of series, and values beyond it are counted in the series that the group
 * itself has, with "other" in their place. Memory is what the groups take that are held, whatever clients send.
 *
 * Each worker counts in cells of its own; a scrape adds them up. A worker that meets a value for the first time gives it a
 * series, under a lock that is taken as often as there are series to give and never again; looking one up takes none.
 *
 * Counters only rise, over any number of reloads: a group is found by its labels, and one that no policy holds any more keeps
 * its series until room is needed for another; then its counts move to the series of the domain "other". Groups are acquired and
 * released as the slots of metrics/counters.h are, and by the same argument.
 *
 * Two series with the same labels are shown as one, as their counters are one there: key "a" with value "b" reads like key "a_b". */
#ifndef CDL_METRICS_HITS_H
#define CDL_METRICS_HITS_H

#include "base/slice.h"
#include "caudal/store.h"
#include "metrics/cell.h"
#include "metrics/prometheus.h"

enum cdl_hit {
    CDL_HIT_TOTAL,       /* all of them */
    CDL_HIT_WITHIN,      /* that were spent */
    CDL_HIT_NEAR,        /* of these, those beyond four fifths of the limit */
    CDL_HIT_OVER,        /* that the limit refused, or would have */
    CDL_HIT_OVER_CACHED, /* of these, those that were refused without asking the store */
    CDL_HIT_SHADOW,      /* of these, those that passed because of shadow_mode */
    CDL_HIT_KINDS,
};

#define CDL_HITS_LABELS_MAX 33u    /* a domain and its keys */
#define CDL_HITS_LABELS_BYTES 508u /* of all labels of a series, two more for each */
#define CDL_HITS_VALUE_BYTES 128u  /* of a value that a request brings; what is longer is "other" */
#define CDL_HITS_GROUPS_MAX 65536u
#define CDL_HITS_VALUES_MAX 10000u /* series that one group may have for values */
#define CDL_HITS_OTHER "other"

/* The labels of a series, put together one by one. Those that do not fit make it `too_long`. */
struct cdl_hits_labels {
    uint16_t length;
    uint8_t count;
    bool too_long;
    char bytes[CDL_HITS_LABELS_BYTES]; /* each label after its length, in two bytes */
};

static inline void cdl_hits_labels_begin(struct cdl_hits_labels *labels)
{
    labels->length = 0;
    labels->count = 0;
    labels->too_long = false;
}

/* Adds a label: `key`, or key_value where there is a value. */
void cdl_hits_label(struct cdl_hits_labels *labels, struct cdl_slice key, struct cdl_slice value);
/* The same, where a client chose the value: it is bounded, so that a page of metrics is. */
void cdl_hits_label_sent(struct cdl_hits_labels *labels, struct cdl_slice key, struct cdl_slice value);

struct cdl_hits;
struct cdl_hits_group;

struct cdl_hits_options {
    uint32_t workers; /* threads that count, at least 1 */
    uint32_t groups;  /* that are kept, 1 to CDL_HITS_GROUPS_MAX */
    uint32_t
        all_values; /* series for values in all groups together; each takes 64 bytes a worker and half a kilobyte */
    uint64_t seed;  /* secret, so that no client can choose values that collide */
};

/* NULL when an option is out of range or memory is short. */
struct cdl_hits *cdl_hits_open(const struct cdl_hits_options *options, const struct caudal_allocator *allocator);
/* After the last worker has stopped. NULL does nothing. */
void cdl_hits_close(struct cdl_hits *hits);

/* How a group's own series and those for values are shown. */
struct cdl_hits_wish {
    uint32_t values;     /* series for values */
    bool from_the_start; /* the group's own is shown before anything was counted in it */
};

/* The group of a series, with as many further series for values as are asked for and still to be had; to be released as often as it was
 * acquired. A group that cannot be had (there are too many, its labels are too long, memory is short) is that of the domain
 * "other", and counted as dropped. Any thread. */
struct cdl_hits_group *cdl_hits_acquire(struct cdl_hits *hits, const struct cdl_hits_labels *labels,
                                        struct cdl_hits_wish wish);
void cdl_hits_release(struct cdl_hits *hits, struct cdl_hits_group *group);

/* Whether the labels of a request matter to a group: series for values were asked for. */
bool cdl_hits_shows_values(const struct cdl_hits_group *group);

/* The cells of worker `worker` to count in: those of the group's series (`labels` NULL), or of the series of these labels. When the group has
 * as many as it may have it is the group's own, and that is counted. Only the worker's own thread. */
cdl_cell *cdl_hits_cells(struct cdl_hits_group *group, uint32_t worker, const struct cdl_hits_labels *labels);

static inline void cdl_hits_count(cdl_cell *cells, enum cdl_hit kind, uint64_t hits)
{
    cdl_cell_add(&cells[kind], hits);
}

/* Writes ratelimit_service_rate_limit_…{domain,key1,key2…} for all groups, and what was dropped. Nothing while there are no groups.
 * A series' total, within and over are there as soon as it is, the rest from the first count on. */
void cdl_hits_expose(struct cdl_hits *hits, struct cdl_exposition *page);

/* Whether any group was ever acquired. */
bool cdl_hits_in_use(struct cdl_hits *hits);

#endif
