/* What the files of the lease store share: the store, limits as decisions see them, and the plan of a call. For these files only. */
#ifndef CDL_STORE_LEASE_PARTS_H
#define CDL_STORE_LEASE_PARTS_H

#include <pthread.h>

#include "identity/key_hash.h"
#include "store/lease/lease_store.h"
#include "store/limits.h"

/* ---- limits ---- */

/* A limit as decisions see it; copied by words, like those of limits.h. */
struct cdl_lease_view {
    uint64_t id; /* 0: there is none */
    uint64_t edition;
    struct cdl_lease_terms terms; /* ttl_ns 0: it is not leased */
    struct caudal_limit rule;     /* as callers know it */
};

_Static_assert(sizeof(struct cdl_lease_view) % 8 == 0, "copied by words");

struct cdl_lease_slot {
    _Atomic uint32_t version; /* odd while the view is being written */
    _Atomic uint64_t view[CDL_WORDS(struct cdl_lease_view)];
    struct cdl_lease_view now; /* the same, under the store's lock */
};

#define CDL_LEASE_SLOTS_PER_BLOCK 64u

/* ---- the store ---- */

#define CDL_LEASE_MARKS 1024u
#define CDL_LEASE_STRIPES 16u

/* What has happened to keys, by their hash: a reset forgets what is known of all keys that share the mark. Written before the store
 * is asked and when it has answered, so that what was asked in between is not believed. */
struct cdl_lease_mark {
    _Atomic uint64_t resets, refunds;
};

/* A book of those that can wait. */
struct cdl_lease_stripe {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    struct cdl_lease_book *book;
    uint64_t answers;   /* how many have come, so that none is missed between looking and waiting */
    int failure, event; /* of the last errand or question that came back */
    uint64_t failed_at; /* which of the answers that was the last to fail */
} __attribute__((aligned(64)));

struct cdl_lease_client;

struct cdl_lease_store {
    struct caudal_store head;
    struct caudal_store *inner;
    uint8_t secret[CDL_KEY_SECRET_BYTES];
    struct cdl_lease_slot *_Atomic blocks[UINT16_MAX / CDL_LEASE_SLOTS_PER_BLOCK + 1]; /* by the slot of an id */
    struct cdl_lease_mark marks[CDL_LEASE_MARKS];

    pthread_mutex_t lock; /* guards limits, `clients`, `gone` */
    struct cdl_lease_client *clients;
    struct cdl_lease_counts gone; /* of clients that were closed */

    struct cdl_lease_stripe stripes[CDL_LEASE_STRIPES];
    pthread_mutex_t keeper_lock; /* taken within a stripe's */
    pthread_cond_t keeper_wake;
    pthread_t keeper;
    bool keeper_runs;
    _Atomic bool keeper_works; /* books and keeper are there */
    bool keeper_ends;
    _Atomic int64_t keeper_due_ns; /* when it looks next; written under the lock */
};

static inline struct cdl_lease_store *cdl_lease_store(struct caudal_store *head)
{
    return (struct cdl_lease_store *)(void *)head; /* it is aligned as what it is the head of */
}

static inline int64_t cdl_lease_now(const struct cdl_lease_store *store)
{
    return store->head.clock->monotonic_ns(store->head.clock->context);
}

/* Reads a limit; without one, or of one that is not leased, ttl_ns is 0. */
void cdl_lease_view_read(const struct cdl_lease_store *store, uint32_t id, struct cdl_lease_view *view);

/* A look at one word: who goes on reads the whole. */
bool cdl_lease_may_be_leased(const struct cdl_lease_store *store, uint32_t id);

/* ---- the plan of a call ---- */

/* Where a call finds its book: a client has one, those that can wait share some. */
struct cdl_lease_desk {
    struct cdl_lease_store *store;
    struct cdl_lease_book *own; /* NULL: the stripes' */
};

enum cdl_lease_fate {
    CDL_FATE_OPEN,
    CDL_FATE_DECIDED, /* by a book */
    CDL_FATE_ASK,     /* by the store */
};

/* One request of a call. */
struct cdl_lease_item {
    struct cdl_lease_view view;
    uint64_t hash[2];
    enum cdl_lease_fate fate;
    bool leased;  /* a book is asked about it */
    bool counted; /* its demand has been */
    struct cdl_lease_spending spending;
    struct cdl_lease_question question;
    uint64_t answers; /* of its stripe, when it was last looked at */
    enum cdl_lease_step step;
};

enum cdl_lease_plan {
    CDL_PLAN_DECIDED, /* the call is answered */
    CDL_PLAN_ASK,     /* those of fate CDL_FATE_ASK are asked */
    CDL_PLAN_WAIT,    /* `waits_for` */
};

/* Whether a book has anything to do with the call. */
bool cdl_lease_concerns(const struct cdl_lease_store *store, const struct cdl_call *call);
/* Decides a call as far as books can. Nothing is spent with CDL_PLAN_WAIT of a call that is decided together; of another, what is
 * decided stays so. With CDL_LEASE_TRY anything but CDL_PLAN_DECIDED means that nothing has happened. `items` are zeroed before
 * the first time. */
enum cdl_lease_plan cdl_lease_plan_call(const struct cdl_lease_desk *desk, struct cdl_call *call,
                                        struct cdl_lease_item *items, enum cdl_lease_mode mode, size_t *waits_for);
/* Writes down those that are asked; `of` says whose they are. Returns how many. */
size_t cdl_lease_plan_asked(const struct cdl_lease_desk *desk, const struct cdl_call *call,
                            struct cdl_lease_item *items, struct caudal_request *requests,
                            struct cdl_question *questions, uint8_t *of);
/* They have been answered: the call is, too. */
void cdl_lease_plan_finish(const struct cdl_lease_desk *desk, struct cdl_call *call, struct cdl_lease_item *items,
                           const struct cdl_call *asked, const uint8_t *of);
/* The call has failed. */
void cdl_lease_fail(struct cdl_call *call, int status, enum cdl_store_event event);

/* The subject of a request, as of now. It points into item and request. */
struct cdl_lease_subject cdl_lease_subject_of(const struct cdl_lease_store *store, const struct caudal_request *request,
                                              struct cdl_lease_item *item);
/* The edition of a key now. */
uint64_t cdl_lease_edition(const struct cdl_lease_store *store, uint32_t limit, const uint64_t hash[2]);

/* ---- blocking.c ---- */

/* Decides a call, waiting for what it needs. */
void cdl_lease_ask_and_wait(struct caudal_store *head, struct cdl_call *call);
struct cdl_lease_stripe *cdl_lease_stripe_of(const struct cdl_lease_store *store, const uint64_t hash[2]);
/* After something was done with the stripe's book: the keeper may have to look earlier. The lock is held. */
void cdl_lease_tell_keeper(struct cdl_lease_store *store, const struct cdl_lease_stripe *stripe);
/* Opens the books of those that can wait, and starts the keeper, if that has not been done. Under the store's lock. CAUDAL_OK or
 * CAUDAL_ERR_MEMORY. */
int cdl_lease_start_keeper(struct cdl_lease_store *store);
void cdl_lease_stop_keeper(struct cdl_lease_store *store);

/* ---- client.c ---- */

struct cdl_store_client *cdl_lease_client_open(struct caudal_store *head, const struct cdl_loop_hooks *hooks);
/* Adds what all clients have counted. Under the store's lock. */
void cdl_lease_clients_count(const struct cdl_lease_store *store, struct cdl_lease_counts *sum);

#endif
