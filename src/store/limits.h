/* The limits of a memory store, as decisions see them.
 *
 * A decision copies the limit's view and works on the copy; whoever changes a limit writes a new view. The copy is guarded
 * by a version (a sequence lock): odd while the view is being written; a reader that meets an odd version, or another one after
 * than before, reads again. Readers never write, so a popular limit costs no shared cache line.
 *
 * A limit is known by an id (to callers) and by a number (in the table's entries, 16 bits). The id lasts as long as the
 * limit. The number stands for the meaning of the 64-bit states written under it: the units of a bucket, the fields of a
 * window. When a change of the limit needs another meaning it gets another number; the view then names the previous number as
 * well until every state has been converted, and the old number is used again only when nothing carries it any more, the
 * one that has been free for longest first. */
#ifndef CDL_STORE_LIMITS_H
#define CDL_STORE_LIMITS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "algorithm/sliding_log.h"
#include "algorithm/token_bucket.h"
#include "algorithm/window.h"
#include "base/memory.h"

#define CDL_LIMITS_MAX 65000u
#define CDL_LIMIT_NAME_MAX 255u

enum cdl_layout {
    CDL_LAYOUT_NONE,   /* unlimited: no state */
    CDL_LAYOUT_BUCKET, /* one word: when it is full again */
    CDL_LAYOUT_WINDOW, /* one word: index, previous, current */
    CDL_LAYOUT_WIDE_WINDOW,
    CDL_LAYOUT_LOG,
    CDL_LAYOUT_PER_CALL, /* whatever each call says: a wide state that tells what it was counted by */
};

/* Whether states of that layout live in the wide table. */
static inline bool cdl_layout_is_wide(uint32_t layout)
{
    return layout == CDL_LAYOUT_WIDE_WINDOW || layout == CDL_LAYOUT_LOG || layout == CDL_LAYOUT_PER_CALL;
}

/* How a window's counters are packed into one word. The index has as many bits as all instants of 64 bits need, so that no
 * window number ever wraps; the counters share the rest. */
struct cdl_window_fields {
    uint32_t index_bits;
    uint32_t count_bits;
};

/* What a decision needs to know. */
struct cdl_limit_view {
    uint32_t id; /* 0: the limit was removed */
    uint16_t number;
    uint16_t previous_number; /* 0: none */
    uint32_t layout;          /* enum cdl_layout */
    struct cdl_window_fields fields;
    uint64_t salt;
    union {
        struct cdl_token_clock bucket;
        struct cdl_window_rule window;
        struct cdl_log_rule log;
    };
};

/* How states under the previous number are read. */
struct cdl_limit_previous {
    int64_t changed_at;
    struct cdl_token_clock bucket;
    struct cdl_window_fields fields;
};

#define CDL_WORDS(type) (sizeof(type) / 8)
_Static_assert(sizeof(struct cdl_limit_view) % 8 == 0 && sizeof(struct cdl_limit_previous) % 8 == 0, "copied by words");

struct cdl_limit_slot {
    _Atomic uint32_t version;
    uint32_t next; /* slot of the next limit in the same bucket of names, plus 1; 0: none */
    _Atomic uint64_t view[CDL_WORDS(struct cdl_limit_view)];
    _Atomic uint64_t previous[CDL_WORDS(struct cdl_limit_previous)];
    /* Under the registry's lock: */
    uint32_t generation;
    struct caudal_limit limit;
    char name[CDL_LIMIT_NAME_MAX + 1];
} __attribute__((aligned(64)));

#define CDL_SLOTS_PER_BLOCK 64u
#define CDL_NAME_BUCKETS 4096u

struct cdl_limits {
    pthread_mutex_t lock; /* adding, changing, removing */
    struct cdl_limit_slot *_Atomic blocks[UINT16_MAX / CDL_SLOTS_PER_BLOCK + 1];
    _Atomic uint32_t owner[UINT16_MAX + 1u]; /* number → slot + 1; 0: nobody */
    uint16_t free_numbers[UINT16_MAX + 1u];  /* a queue */
    uint32_t free_head, free_tail;
    uint16_t free_slots[UINT16_MAX + 1u]; /* a stack */
    uint32_t free_slot_count;
    uint32_t slots_used;
    uint32_t count;
    uint32_t names[CDL_NAME_BUCKETS];
};

struct cdl_limits *cdl_limits_open(const struct caudal_allocator *allocator);
void cdl_limits_close(struct cdl_limits *limits, const struct caudal_allocator *allocator);

static inline struct cdl_limit_slot *cdl_limits_slot(const struct cdl_limits *limits, uint32_t index)
{
    struct cdl_limit_slot *block = atomic_load_explicit(&limits->blocks[index / CDL_SLOTS_PER_BLOCK],
                                                        memory_order_acquire);
    return block == NULL ? NULL : &block[index % CDL_SLOTS_PER_BLOCK];
}

/* The slot that an id points to, which may have been given to another limit since: compare view.id. NULL: never used. */
static inline struct cdl_limit_slot *cdl_limits_find(const struct cdl_limits *limits, uint32_t id)
{
    return cdl_limits_slot(limits, id & UINT16_MAX);
}

/* A struct as the words that it is copied by. */
typedef uint64_t cdl_word __attribute__((may_alias));

static inline void cdl_copy_words(cdl_word *to, const _Atomic uint64_t *from, size_t count)
{
#pragma GCC unroll 32
    for (size_t i = 0; i < count; i++)
        to[i] = atomic_load_explicit(&from[i], memory_order_acquire);
}

/* The view, if nobody writes it at the moment: one attempt of cdl_limit_read. Without a loop the compiler keeps the
 * words where it needs them; with one it works out and keeps all their addresses. */
static inline bool cdl_limit_try_read(const struct cdl_limit_slot *slot, struct cdl_limit_view *view)
{
    const uint32_t version = atomic_load_explicit(&slot->version, memory_order_acquire);
    cdl_copy_words((cdl_word *)view, slot->view, CDL_WORDS(struct cdl_limit_view));
    return (version & 1) == 0 && atomic_load_explicit(&slot->version, memory_order_relaxed) == version;
}

/* The salt alone: where a key may be, before the view is read. If the slot has gone to another limit meanwhile, the
 * view's id tells. */
static inline uint64_t cdl_limit_salt(const struct cdl_limit_slot *slot)
{
    return atomic_load_explicit(&slot->view[offsetof(struct cdl_limit_view, salt) / 8], memory_order_acquire);
}

/* Copies the view (and with `previous` not NULL what is needed to read states under the previous number), all of one version,
 * which is returned. Each word is read acquire: a reader that got a word of a newer view then also sees the version move. */
static inline uint32_t cdl_limit_read(struct cdl_limit_slot *slot, struct cdl_limit_view *view,
                                      struct cdl_limit_previous *previous)
{
    for (;;) {
        const uint32_t version = atomic_load_explicit(&slot->version, memory_order_acquire);
        if (version & 1)
            continue;
        cdl_copy_words((cdl_word *)view, slot->view, CDL_WORDS(struct cdl_limit_view));
        if (previous != NULL)
            cdl_copy_words((cdl_word *)previous, slot->previous, CDL_WORDS(struct cdl_limit_previous));
        if (atomic_load_explicit(&slot->version, memory_order_relaxed) == version)
            return version;
    }
}

static inline bool cdl_limit_unchanged(struct cdl_limit_slot *slot, uint32_t version)
{
    return atomic_load_explicit(&slot->version, memory_order_acquire) == version;
}

/* Writes a new view; `previous` may be NULL to leave that as it is. Under the registry's lock. */
void cdl_limit_publish(struct cdl_limit_slot *slot, const struct cdl_limit_view *view,
                       const struct cdl_limit_previous *previous);

/* The following want the registry's lock held. */

/* A slot for a new limit of that name, with a new id in *id; NULL when there are too many or memory is short (*status). */
struct cdl_limit_slot *cdl_limits_add(struct cdl_limits *limits, const struct caudal_allocator *allocator,
                                      const char *name, uint32_t *id, int *status);
void cdl_limits_remove(struct cdl_limits *limits, struct cdl_limit_slot *slot, uint32_t id);
/* The slot index of a name, or -1. */
int64_t cdl_limits_by_name(const struct cdl_limits *limits, const char *name);
/* A number that nobody carries, now owned by the slot; 0: there is none left. */
uint16_t cdl_limits_take_number(struct cdl_limits *limits, uint32_t slot_index);
void cdl_limits_free_number(struct cdl_limits *limits, uint16_t number);

/* How a window of this length is packed. */
struct cdl_window_fields cdl_window_fields_make(int64_t period_ns, bool sliding);

static inline bool cdl_window_fields_fit(struct cdl_window_fields fields, uint64_t count)
{
    return count >> fields.count_bits == 0;
}

static inline struct cdl_window_state cdl_window_unpack(struct cdl_window_fields fields, uint64_t word)
{
    const uint64_t mask = (UINT64_C(1) << fields.count_bits) - 1;
    const bool sliding = fields.index_bits + fields.count_bits < 64;
    return (struct cdl_window_state){
        .index = (int64_t)word >> (64 - fields.index_bits), /* signed: windows before 1970 too */
        .previous = sliding ? word >> fields.count_bits & mask : 0,
        .current = word & mask,
    };
}

static inline uint64_t cdl_window_pack(struct cdl_window_fields fields, const struct cdl_window_state *state)
{
    return (uint64_t)state->index << (64 - fields.index_bits) | state->previous << fields.count_bits | state->current;
}

#endif
