/* The memory store: limits (limits.h), the table of narrow states (table.h) and that of wide ones (wide_table.h).
 *
 * memory_store.c decides; memory_limits.c adds, changes and removes limits. */
#ifndef CDL_STORE_MEMORY_STORE_H
#define CDL_STORE_MEMORY_STORE_H

#include "store/limits.h"
#include "store/store.h"
#include "store/table.h"
#include "store/wide_table.h"

struct cdl_memory_store {
    struct caudal_store head;
    struct cdl_table table;
    struct cdl_wide_table wide;
    struct cdl_limits *limits;
    uint8_t secret[CDL_KEY_SECRET_BYTES];
};

static inline struct cdl_memory_store *cdl_memory_store(struct caudal_store *store)
{
    return (struct cdl_memory_store *)store; /* `head` is its first member */
}

/* Who asks how long an entry matters, and when. */
struct cdl_memory_judge {
    struct cdl_memory_store *store;
    struct cdl_instant *now;
};

struct cdl_table_judge cdl_memory_table_judge(struct cdl_memory_judge *judge);
struct cdl_wide_judge cdl_memory_wide_judge(struct cdl_memory_judge *judge);

/* A state written under the view's previous number, as one under its present number. */
uint64_t cdl_memory_convert(const struct cdl_limit_view *view, const struct cdl_limit_previous *previous,
                            uint64_t state);

/* Moves the window of a bucket's clock so that it covers `now`, and revises the limit's entries. */
void cdl_memory_recentre(struct cdl_memory_store *store, struct cdl_limit_slot *slot, uint32_t id, int64_t now);

int cdl_memory_add_limit(struct caudal_store *store, const char *name, const struct caudal_limit *limit, uint32_t *id,
                         struct caudal_problem *problem);
int cdl_memory_add_per_call_limit(struct caudal_store *store, const char *name, uint32_t *id,
                                  struct caudal_problem *problem);
int cdl_memory_find_limit(struct caudal_store *store, const char *name, uint32_t *id);
int cdl_memory_get_limit(struct caudal_store *store, uint32_t id, struct caudal_limit *limit);
int cdl_memory_set_limit(struct caudal_store *store, uint32_t id, const struct caudal_limit *limit,
                         struct cdl_instant *now, struct caudal_problem *problem);
int cdl_memory_remove_limit(struct caudal_store *store, uint32_t id);

#endif
