/* What the files of the book share: a key's entry, and what is done with it. For these files only. */
#ifndef CDL_STORE_LEASE_BOOK_PARTS_H
#define CDL_STORE_LEASE_BOOK_PARTS_H

#include "store/lease/book.h"

#define CDL_BOOK_NOWHERE UINT32_MAX

struct cdl_book_lot {
    uint64_t number; /* of the errand that fetched it; 0: there is none */
    uint64_t tokens;
    int64_t asked_ns, dies_ns;
    int64_t charged_realtime_ns; /* by the store's clock; 0: not known */
};

enum cdl_book_errand_state {
    CDL_BOOK_IDLE,
    CDL_BOOK_DUE, /* among those to be sent */
    CDL_BOOK_OUT,
};

struct cdl_book_refusal {
    uint64_t cost; /* 0: none */
    int64_t until_ns;
    uint64_t refunds;
};

struct cdl_book_errand {
    enum cdl_book_errand_state state;
    bool gives_back;
    bool queued; /* among the book's due ones, perhaps without being due any more */
    uint64_t number;
    uint64_t given_up; /* the number of the last one that never came back */
    uint64_t minimum;
    int64_t asked_ns;
    uint64_t refunds; /* as of then */
};

struct cdl_book_entry {
    /* Who it is. */
    uint64_t hash[2];
    uint32_t limit;
    uint32_t heap_at; /* CDL_BOOK_NOWHERE: nothing is due */
    uint64_t edition;
    uint64_t refunds; /* as of the last question */
    /* What decides. */
    int64_t ttl_ns;
    uint64_t capacity;
    int64_t window_ns; /* when the present one of the two windows of demand began */
    uint64_t current, previous;
    int64_t wanted_ns; /* the last time */
    uint64_t cost;     /* of the last question */
    struct cdl_book_lot lots[2];
    uint64_t low;    /* when no more is left, it may be time to fetch */
    int64_t late_ns; /* and from here on */
    int64_t not_before_ns;
    struct cdl_book_refusal refusal;
    /* The limit. */
    uint64_t count;
    int64_t period_ns;
    int64_t full_ns; /* of a bucket: from empty to full; -1: never */
    uint64_t batch;  /* the most that one is */
    uint32_t share_per_mille;
    bool is_window, is_sliding;
    /* What the store last said. */
    bool level_known;
    uint64_t level;
    int64_t level_ns;
    int64_t edge_ns; /* of a window: when it ends; 0: not known */
    /* What is under way. */
    struct cdl_book_errand errand;
    uint64_t asked;             /* tokens that were asked for, and not yet heard of */
    uint64_t waiting, released; /* tokens that are waited for; that were, by those who have not asked again yet */
    struct cdl_lease_waiter *first, *last;
    struct cdl_book_entry *next_due;
    int64_t due_ns;
    uint32_t key_length;
    unsigned char key[CDL_LEASE_KEY_MAX];
} __attribute__((aligned(64)));

/* Written by the book's owner alone, read by anybody. */
struct cdl_book_counts {
    _Atomic uint64_t by_lease, by_refusal, store_calls, waits, stranded, given_back, lots;
};

struct cdl_lease_book {
    struct caudal_allocator allocator;
    size_t keys;
    uint64_t *tags; /* 0: free */
    struct cdl_book_entry *entries;
    uint32_t *heap; /* entries by the instant at which something is due of them */
    uint32_t heap_count;
    uint64_t sequence;
    int64_t round_trip_ns; /* of answers, on average */
    struct cdl_book_entry *first_due, *last_due;
    struct cdl_lease_waiter *first, *last; /* released */
    struct cdl_book_counts counts;
};

static inline void cdl_book_add(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

static inline bool cdl_book_is_live(const struct cdl_book_lot *lot)
{
    return lot->number != 0;
}

/* One that is used up stays until it dies, so that what was spent of it can be put back; but the next may take its place. */
static inline bool cdl_book_is_used_up(const struct cdl_book_lot *lot)
{
    return lot->tokens == 0;
}

static inline uint64_t cdl_book_held(const struct cdl_book_entry *entry)
{
    return entry->lots[0].tokens + entry->lots[1].tokens; /* each at most 2^40 */
}

/* The instant at which the last token dies; INT64_MIN: there is none. */
static inline int64_t cdl_book_last_death(const struct cdl_book_entry *entry)
{
    int64_t last = INT64_MIN;
    for (unsigned i = 0; i < 2; i++)
        if (!cdl_book_is_used_up(&entry->lots[i]))
            last = cdl_max_i64(last, entry->lots[i].dies_ns);
    return last;
}

/* How much more may be held: all together no more than one batch, for so much is lost with an instance, and refilled in ttl. */
static inline uint64_t cdl_book_room(const struct cdl_book_entry *entry)
{
    return entry->batch - cdl_min_u64(entry->batch, cdl_book_held(entry));
}

/* a · b / c; b and c are spans of time, c > 0. */
static inline uint64_t cdl_book_scale(uint64_t a, int64_t b, int64_t c)
{
    const cdl_u128 scaled = b <= 0 ? 0 : (cdl_u128)a * (uint64_t)b / (uint64_t)c;
    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

static inline int64_t cdl_book_round_trip(const struct cdl_lease_book *book)
{
    return cdl_max_i64(book->round_trip_ns, INT64_C(1000000));
}

static inline int64_t cdl_book_later(int64_t from_ns, int64_t by_ns)
{
    return cdl_clamp_i64((cdl_i128)from_ns + by_ns);
}

/* ---- book_keys.c ---- */

/* The subject's entry, as of its edition. NULL: there is none. */
struct cdl_book_entry *cdl_book_look_up(struct cdl_lease_book *book, const struct cdl_lease_subject *subject);
/* One is made if there is room. */
struct cdl_book_entry *cdl_book_look_up_or_add(struct cdl_lease_book *book, const struct cdl_lease_subject *subject,
                                               int64_t now_ns);
/* Works out what the limit is. */
void cdl_book_learn_limit(struct cdl_book_entry *entry, const struct cdl_lease_subject *subject);
/* Forgets what was learned and withdrawn; an errand that is under way will find nobody who waits for it. */
void cdl_book_clear(struct cdl_lease_book *book, struct cdl_book_entry *entry);
/* When something has to be done about the entry; INT64_MAX: nothing has. */
void cdl_book_set_due(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t due_ns);
/* Lets go all that wait for the entry. */
void cdl_book_release(struct cdl_lease_book *book, struct cdl_book_entry *entry, bool given_up, int failure, int event);
/* Ends lots whose time is over. */
void cdl_book_bury(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns);
void cdl_book_change_lot(struct cdl_lease_book *book, struct cdl_book_lot *lot, uint64_t tokens);
/* Counts what is wanted. */
void cdl_book_want(struct cdl_book_entry *entry, uint64_t cost, int64_t now_ns);
/* Tokens wanted in the ttl before now. */
uint64_t cdl_book_demand(struct cdl_book_entry *entry, int64_t now_ns);

/* ---- book.c ---- */

/* How much is withdrawn for somebody who needs `minimum`: at least for all who wait, as they would ask for it themselves, and what there is to be
 * had and will be spent ahead. */
uint64_t cdl_book_size(const struct cdl_lease_book *book, struct cdl_book_entry *entry, uint64_t minimum,
                       int64_t now_ns);
/* When to think about fetching next: when no more is left than is spent while an errand travels, or when what is left dies within that
 * time. */
void cdl_book_set_marks(const struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns);
void cdl_book_note_round_trip(struct cdl_lease_book *book, const struct cdl_book_entry *entry, int64_t took_ns);
/* What the store has said to a question about `cost` that was asked then, when the subject had that many refunds. */
void cdl_book_note_answer(struct cdl_book_entry *entry, uint64_t cost, const struct caudal_decision *decision,
                          int64_t asked_ns, uint64_t refunds, int64_t now_ns);

#endif
