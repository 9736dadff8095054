/* Records that wait until nothing earlier can come: put in as they are read, taken out in order of time, and of reading where
 * the time is the same.
 *
 * Logs are nearly in order. What comes in order is appended to a list and costs nothing more; the few that are late stand in a heap
 * beside it, and the earlier of both fronts is next. A record is copied into one piece, without the parts that its line did not
 * have, and pieces are cut off large chunks in the order in which they come, so that a chunk is free again soon after its first piece. */
#ifndef CDL_REPLAY_LOG_QUEUE_H
#define CDL_REPLAY_LOG_QUEUE_H

#include "caudal/store.h"
#include "wire/access_log.h"

/* Where a record was read. */
struct cdl_log_place {
    uint64_t line; /* from 1 */
    uint32_t source;
};

struct cdl_log_entry;

/* Entries are compared by this. */
struct cdl_log_rank {
    int64_t instant_ns;
    uint64_t number; /* of all that were put in */
    struct cdl_log_entry *entry;
};

struct cdl_log_list {
    struct cdl_log_rank *ranks;
    size_t room; /* a power of two, or 0 */
    size_t first, count;
};

struct cdl_log_queue {
    const struct caudal_allocator *allocator;
    struct cdl_log_list ordered; /* a ring */
    struct cdl_log_list late;    /* a heap: `first` is 0 */
    struct cdl_log_chunk *current, *free;
    uint64_t number;
    size_t bytes; /* of chunks in use, and of both lists */
};

/* `allocator` must outlive the queue. */
void cdl_log_queue_init(struct cdl_log_queue *queue, const struct caudal_allocator *allocator);
void cdl_log_queue_free(struct cdl_log_queue *queue);

/* Copies a record into the queue. False: memory is short, and nothing has changed. */
bool cdl_log_queue_push(struct cdl_log_queue *queue, const struct cdl_access_record *record,
                        struct cdl_log_place place);

static inline size_t cdl_log_queue_count(const struct cdl_log_queue *queue)
{
    return queue->ordered.count + queue->late.count;
}

/* The earliest instant that waits; the queue must not be empty. */
int64_t cdl_log_queue_first_ns(const struct cdl_log_queue *queue);

/* Takes out the earliest, which lives until it is dropped. The queue must not be empty. */
struct cdl_log_entry *cdl_log_queue_pop(struct cdl_log_queue *queue);
void cdl_log_queue_drop(struct cdl_log_queue *queue, struct cdl_log_entry *entry);

/* The record as it was put in; its slices lie in the entry. */
struct cdl_log_place cdl_log_entry_read(const struct cdl_log_entry *entry, struct cdl_access_record *record);

#endif
