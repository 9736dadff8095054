/* Adding, changing and removing limits of a memory store while decisions go on.
 *
 * All of this runs under the registry's lock; decisions do not take it. Three ways of changing a limit, in order of cost:
 *   - the meaning of the stored states stays: a new view is published, nothing else (another count of a window, another rate
 *     or burst of a bucket as long as the clock's units still fit);
 *   - it changes, but a state can be converted: a new number is taken, the view names the old one as previous, and a sweep
 *     converts what decisions do not convert first;
 *   - it cannot be converted (another algorithm, another window length): a new number is taken and a sweep frees the old
 *     entries. Counting starts again.
 * A view with another number is published under all insertion locks: an insertion under the old number has then happened
 * before, where the sweep will find it, or will see the new version and start over. */
#include "store/memory_store.h"

#include <string.h>
#include <sys/random.h>

#include "base/problem.h"

static enum cdl_layout layout_of(const struct caudal_limit *limit, struct cdl_window_fields fields)
{
    switch (limit->algorithm) {
    case CAUDAL_TOKEN_BUCKET:
        return CDL_LAYOUT_BUCKET;
    case CAUDAL_FIXED_WINDOW:
    case CAUDAL_SLIDING_WINDOW:
        return cdl_window_fields_fit(fields, limit->count) ? CDL_LAYOUT_WINDOW : CDL_LAYOUT_WIDE_WINDOW;
    case CAUDAL_SLIDING_LOG:
        return CDL_LAYOUT_LOG;
    case CAUDAL_UNLIMITED:
        break;
    }
    return CDL_LAYOUT_NONE;
}

/* A view for a limit whose states start from nothing. */
static void fill_view(struct cdl_limit_view *view, const struct caudal_limit *limit, struct cdl_instant *now)
{
    const bool sliding = limit->algorithm == CAUDAL_SLIDING_WINDOW;
    view->fields = (struct cdl_window_fields){0, 0};
    if (sliding || limit->algorithm == CAUDAL_FIXED_WINDOW)
        view->fields = cdl_window_fields_make((int64_t)limit->period_ns, sliding);
    view->layout = layout_of(limit, view->fields);
    switch ((enum cdl_layout)view->layout) {
    case CDL_LAYOUT_BUCKET:
        view->bucket = cdl_token_clock_make(limit, cdl_instant_monotonic(now));
        break;
    case CDL_LAYOUT_WINDOW:
    case CDL_LAYOUT_WIDE_WINDOW:
        view->window = (struct cdl_window_rule){limit->count, (int64_t)limit->period_ns, sliding};
        break;
    case CDL_LAYOUT_LOG:
        view->log = (struct cdl_log_rule){limit->count, (int64_t)limit->period_ns};
        break;
    case CDL_LAYOUT_PER_CALL:
    case CDL_LAYOUT_NONE:
        break;
    }
}

static void publish_under_locks(struct cdl_memory_store *store, struct cdl_limit_slot *slot,
                                const struct cdl_limit_view *view, const struct cdl_limit_previous *previous)
{
    cdl_table_lock_all(&store->table);
    cdl_wide_lock_all(&store->wide);
    cdl_limit_publish(slot, view, previous);
    cdl_wide_unlock_all(&store->wide);
    cdl_table_unlock_all(&store->table);
}

/* ---- sweeps ---- */

static struct cdl_pair drop_entry(void *context, struct cdl_pair entry)
{
    (void)context;
    (void)entry;
    return (struct cdl_pair){0, 0};
}

/* Forgets all states of a number, and the number. Nobody writes it any more. */
static void retire(struct cdl_memory_store *store, uint16_t number, uint32_t layout)
{
    if (number == 0)
        return;
    if (cdl_layout_is_wide(layout))
        cdl_wide_drop(&store->wide, number);
    else if (layout != CDL_LAYOUT_NONE)
        cdl_table_sweep(&store->table, number, drop_entry, NULL);
    cdl_limits_free_number(store->limits, number);
}

struct conversion {
    const struct cdl_limit_view *view;
    const struct cdl_limit_previous *previous;
};

static struct cdl_pair convert_entry(void *context, struct cdl_pair entry)
{
    const struct conversion *conversion = context;
    const uint64_t tag = (entry.first & ~(uint64_t)UINT16_MAX) | conversion->view->number;
    return (struct cdl_pair){tag, cdl_memory_convert(conversion->view, conversion->previous, entry.second)};
}

struct revision {
    const struct cdl_token_clock *old, *clock;
    int64_t now;
};

static struct cdl_pair revise_entry(void *context, struct cdl_pair entry)
{
    const struct revision *revision = context;
    return (struct cdl_pair){entry.first,
                             cdl_token_clock_revise(revision->old, revision->clock, revision->now, entry.second)};
}

/* Under the registry's lock. The entries are revised before the new window is published, so that no decision meets an old one
 * under it; decisions within the old window go on meanwhile, for the clock's reading goes on without a break. */
static void recentre(struct cdl_memory_store *store, struct cdl_limit_slot *slot, struct cdl_limit_view *view,
                     int64_t now)
{
    const struct cdl_token_clock old = view->bucket;
    cdl_token_clock_recentre(&view->bucket, now);
    struct revision revision = {&old, &view->bucket, now};
    cdl_table_sweep(&store->table, view->number, revise_entry, &revision);
    cdl_limit_publish(slot, view, NULL);
}

void cdl_memory_recentre(struct cdl_memory_store *store, struct cdl_limit_slot *slot, uint32_t id, int64_t now)
{
    pthread_mutex_lock(&store->limits->lock);
    struct cdl_limit_view view;
    cdl_limit_read(slot, &view, NULL);
    if (view.id == id && view.layout == CDL_LAYOUT_BUCKET && !cdl_token_clock_covers(&view.bucket, now))
        recentre(store, slot, &view, now);
    pthread_mutex_unlock(&store->limits->lock);
}

/* ---- adding, finding, removing ---- */

/* Publishes a limit under a new name, with a salt and a number of its own. */
static int add_view(struct cdl_memory_store *store, const char *name, const struct caudal_limit *limit,
                    struct cdl_limit_view *view, uint32_t *id)
{
    if (getrandom(&view->salt, sizeof view->salt, 0) != (ssize_t)sizeof view->salt)
        return CAUDAL_ERR_MEMORY;
    pthread_mutex_lock(&store->limits->lock);
    int status = cdl_limits_by_name(store->limits, name) >= 0 ? CAUDAL_ERR_EXISTS : CAUDAL_OK;
    if (status == CAUDAL_OK && store->limits->free_head == store->limits->free_tail)
        status = CAUDAL_ERR_FULL; /* there are more numbers than limits, but a window that became wide holds two */
    struct cdl_limit_slot *slot = NULL;
    if (status == CAUDAL_OK)
        slot = cdl_limits_add(store->limits, &store->head.allocator, name, id, &status);
    if (slot != NULL) {
        view->number = cdl_limits_take_number(store->limits, *id & UINT16_MAX);
        view->id = *id;
        slot->limit = *limit;
        cdl_limit_publish(slot, view, NULL);
    }
    pthread_mutex_unlock(&store->limits->lock);
    return status;
}

int cdl_memory_add_limit(struct caudal_store *head, const char *name, const struct caudal_limit *limit, uint32_t *id,
                         struct caudal_problem *problem)
{
    (void)problem; /* every legal limit is one of its own */
    struct cdl_instant now = cdl_instant_read(head->clock);
    struct cdl_limit_view view;
    memset(&view, 0, sizeof view);
    fill_view(&view, limit, &now);
    return add_view(cdl_memory_store(head), name, limit, &view, id);
}

int cdl_memory_add_per_call_limit(struct caudal_store *head, const char *name, uint32_t *id,
                                  struct caudal_problem *problem)
{
    (void)problem;
    const struct caudal_limit none = {
        .size = sizeof none, .algorithm = CAUDAL_UNLIMITED, .burst = CAUDAL_BURST_DEFAULT};
    struct cdl_limit_view view;
    memset(&view, 0, sizeof view);
    view.layout = CDL_LAYOUT_PER_CALL;
    return add_view(cdl_memory_store(head), name, &none, &view, id);
}

int cdl_memory_find_limit(struct caudal_store *head, const char *name, uint32_t *id)
{
    struct cdl_limits *limits = cdl_memory_store(head)->limits;
    pthread_mutex_lock(&limits->lock);
    const int64_t index = cdl_limits_by_name(limits, name);
    if (index >= 0)
        *id = cdl_limits_slot(limits, (uint32_t)index)->generation << 16 | (uint32_t)index;
    pthread_mutex_unlock(&limits->lock);
    return index >= 0 ? CAUDAL_OK : CAUDAL_ERR_UNKNOWN;
}

/* The slot of an id that is in use, and its view; NULL otherwise. Under the registry's lock. */
static struct cdl_limit_slot *locked_slot(struct cdl_memory_store *store, uint32_t id, struct cdl_limit_view *view)
{
    struct cdl_limit_slot *slot = cdl_limits_find(store->limits, id);
    if (slot == NULL)
        return NULL;
    cdl_limit_read(slot, view, NULL);
    return view->id == id && id != 0 ? slot : NULL;
}

int cdl_memory_get_limit(struct caudal_store *head, uint32_t id, struct caudal_limit *limit)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    struct cdl_limit_view view;
    pthread_mutex_lock(&store->limits->lock);
    struct cdl_limit_slot *slot = locked_slot(store, id, &view);
    if (slot != NULL)
        *limit = slot->limit;
    pthread_mutex_unlock(&store->limits->lock);
    return slot != NULL ? CAUDAL_OK : CAUDAL_ERR_UNKNOWN;
}

int cdl_memory_remove_limit(struct caudal_store *head, uint32_t id)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    struct cdl_limit_view view;
    pthread_mutex_lock(&store->limits->lock);
    struct cdl_limit_slot *slot = locked_slot(store, id, &view);
    if (slot != NULL) {
        struct cdl_limit_view gone;
        memset(&gone, 0, sizeof gone);
        publish_under_locks(store, slot, &gone, NULL);
        retire(store, view.number, view.layout);
        retire(store, view.previous_number, CDL_LAYOUT_WINDOW);
        cdl_limits_remove(store->limits, slot, id);
    }
    pthread_mutex_unlock(&store->limits->lock);
    return slot != NULL ? CAUDAL_OK : CAUDAL_ERR_UNKNOWN;
}

/* ---- changing ---- */

/* The new view if the stored states keep their meaning under it. */
static bool keeps_meaning(struct cdl_limit_view *view, const struct caudal_limit *old, const struct caudal_limit *limit,
                          int64_t monotonic_ns)
{
    if (old->algorithm != limit->algorithm)
        return false;
    switch ((enum cdl_layout)view->layout) {
    case CDL_LAYOUT_BUCKET:
        return cdl_token_clock_change(&view->bucket, limit, monotonic_ns);
    case CDL_LAYOUT_WINDOW:
    case CDL_LAYOUT_WIDE_WINDOW:
        if (limit->period_ns != old->period_ns ||
            (view->layout == CDL_LAYOUT_WINDOW && !cdl_window_fields_fit(view->fields, limit->count)))
            return false;
        view->window.count = limit->count;
        return true;
    case CDL_LAYOUT_LOG:
        view->log = (struct cdl_log_rule){limit->count, (int64_t)limit->period_ns};
        return true;
    case CDL_LAYOUT_PER_CALL:
    case CDL_LAYOUT_NONE:
        break;
    }
    return true;
}

/* Whether a state under the old view can be converted to the new one. A window that has become wide keeps its counts. */
static bool can_convert(const struct caudal_limit *old, const struct caudal_limit *limit)
{
    return old->algorithm == limit->algorithm &&
           (limit->algorithm == CAUDAL_TOKEN_BUCKET || limit->period_ns == old->period_ns);
}

/* States move to a new number, or are left behind with the old one. */
static int renumber(struct cdl_memory_store *store, struct cdl_limit_slot *slot, const struct cdl_limit_view *old,
                    const struct caudal_limit *limit, struct cdl_instant *now)
{
    const bool convert = can_convert(&slot->limit, limit);
    struct cdl_limit_view view = *old;
    fill_view(&view, limit, now);
    view.number = cdl_limits_take_number(store->limits, old->id & UINT16_MAX);
    if (view.number == 0)
        return CAUDAL_ERR_FULL;
    view.previous_number = convert ? old->number : 0;
    struct cdl_limit_previous previous;
    memset(&previous, 0, sizeof previous);
    previous.fields = old->fields;
    if (old->layout == CDL_LAYOUT_BUCKET) {
        previous.bucket = old->bucket;
        previous.changed_at = cdl_instant_monotonic(now);
    }
    publish_under_locks(store, slot, &view, &previous);
    if (!convert) {
        retire(store, old->number, old->layout);
        retire(store, old->previous_number, CDL_LAYOUT_WINDOW);
    } else if (view.layout == CDL_LAYOUT_BUCKET) {
        struct conversion conversion = {&view, &previous};
        cdl_table_sweep(&store->table, old->number, convert_entry, &conversion);
        view.previous_number = 0;
        cdl_limit_publish(slot, &view, NULL);
        cdl_limits_free_number(store->limits, old->number);
    } /* else the window became wide: each key moves over when it is next seen, for only then is its whole hash known */
    return CAUDAL_OK;
}

int cdl_memory_set_limit(struct caudal_store *head, uint32_t id, const struct caudal_limit *limit,
                         struct cdl_instant *now, struct caudal_problem *problem)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    struct cdl_limit_view view;
    int status = CAUDAL_ERR_UNKNOWN;
    pthread_mutex_lock(&store->limits->lock);
    struct cdl_limit_slot *slot = locked_slot(store, id, &view);
    if (slot != NULL && view.layout == CDL_LAYOUT_PER_CALL) {
        status = cdl_problem(problem, CAUDAL_ERR_UNSUPPORTED, 0, "what it enforces comes with each call");
    } else if (slot != NULL) {
        const int64_t monotonic_ns = cdl_instant_monotonic(now);
        if (view.layout == CDL_LAYOUT_BUCKET && !cdl_token_clock_covers(&view.bucket, monotonic_ns))
            recentre(store, slot, &view, monotonic_ns);
        struct cdl_limit_view changed = view;
        status = CAUDAL_OK;
        if (keeps_meaning(&changed, &slot->limit, limit, monotonic_ns))
            cdl_limit_publish(slot, &changed, NULL);
        else
            status = renumber(store, slot, &view, limit, now);
        if (status == CAUDAL_OK)
            slot->limit = *limit;
    }
    pthread_mutex_unlock(&store->limits->lock);
    return status;
}
