/* What one instance knows of the keys that it has asked about lately: leases that it may spend, refusals that still hold, and how much is
 * wanted. Pure: no clock, no I/O, no lock; a book belongs to one thread, or is guarded by its owner.
 *
 * A lease is a batch of tokens that was withdrawn from the store (a take_up_to of it, no more) and is spent here. It dies ttl after the
 * instant *before* the store was asked, by the instance's monotonic clock; a window's lease at the window's edge, if that comes first.
 * So whatever is spent at an instant was charged in the store at most ttl before:
 *
 *     admitted in t, over all instances ≤ what the store charges in t + ttl ≤ B + r·(t + ttl)
 *
 * however many instances there are, and whatever is lost, late or repeated: a charge that nobody hears of is spent by nobody. With
 * strict_bound the store's bucket has the capacity B − ⌈r·ttl⌉, and the sum is ≤ B + r·t.
 *
 * What is not wanted any more is given back with CDL_UNDO, which gives back no more than is left of the charge: a plain refund would credit
 * what has been refilled since a second time, and a key that is leased and left idle again and again would grow a second rate.
 *
 * A batch is at most ⌈r·ttl⌉ tokens, with what is held already (what is lost with an instance has been refilled after ttl). Beyond what is
 * waited for it is at most max_share of what the store last said it had, and no more than the demand measured here will spend in time.
 * Keys of which less than two requests' tokens are wanted in ttl are cold: every question goes to the store.
 *
 * A refusal is remembered from the store's answer until *asked + retry_after*, by which the same cost may not pass yet, for the
 * store decided after it was asked; never longer. */
#ifndef CDL_LEASE_BOOK_H
#define CDL_LEASE_BOOK_H

#include <stdatomic.h>

#include "algorithm/decide.h"
#include "base/memory.h"

#define CDL_LEASE_KEY_MAX                                                                                              \
    256u /* bytes; longer keys are never leased, and every question about them goes to the store */

struct cdl_lease_terms {
    int64_t ttl_ns;
    uint32_t share_per_mille; /* the most of what the store has that one batch may take */
    bool strict_bound;
};

/* What happened since the book was opened, but for `lots`, which is how many live now. */
struct cdl_lease_counts {
    uint64_t by_lease;    /* requests decided from a lease */
    uint64_t by_refusal;  /* from a refusal that was remembered */
    uint64_t store_calls; /* questions and errands that went to the store */
    uint64_t waits;       /* calls that waited for an errand, each time that they did */
    uint64_t stranded;    /* tokens that died unspent, or came too late */
    uint64_t given_back;  /* tokens that the store was asked to take back */
    uint64_t lots;
};

struct cdl_lease_book;

/* A key under a limit: the id of the limit and 128 bits of the key's keyed hash; the bytes are for asking the store. */
struct cdl_lease_subject {
    uint32_t limit;
    uint64_t hash[2];
    const void *key;
    size_t key_length;
    const struct caudal_limit *rule; /* as it is for callers: with strict_bound not yet lowered */
    const struct cdl_lease_terms *terms;
    /* Numbers that only grow. What was learned under another edition (the limit has changed, the key was reset) is forgotten; a refusal
     * also when tokens have been refunded since. */
    uint64_t edition;
    uint64_t refunds;
};

enum cdl_lease_step {
    CDL_LEASE_DECIDED,  /* by a lease or a refusal that still holds: `decision` is complete */
    CDL_LEASE_ASK,      /* the store decides; tell the book with cdl_lease_asked and cdl_lease_heard */
    CDL_LEASE_WITHDRAW, /* an errand is due now (cdl_lease_next): wait until it is back, and ask again */
    CDL_LEASE_WAIT,     /* something is under way that may decide it: wait until it is back, and ask again */
};

/* How a question comes to the book. */
enum cdl_lease_mode {
    CDL_LEASE_TRY,    /* decide it, or change nothing */
    CDL_LEASE_FIRST,  /* for the first time */
    CDL_LEASE_AGAIN,  /* after it has waited */
    CDL_LEASE_INSIST, /* the same, and it will not wait any more */
};

/* What was spent of which lots, so that it can be put back. */
struct cdl_lease_spending {
    uint64_t lots[2];
    uint64_t tokens[2];
};

/* Something to be asked of the store for the book: a withdrawal or a giving back. */
struct cdl_lease_errand {
    uint64_t number; /* of this book, never used again: an answer to any other grants nothing */
    bool gives_back;
    uint32_t limit;
    uint64_t hash[2];
    uint64_t edition; /* under which it came about: not to be sent under another */
    const void *key;  /* the book's, until the errand is answered */
    size_t key_length;
    struct cdl_question question; /* CDL_TAKE of minimum to maximum, or CDL_UNDO */
};

/* A question that the store was asked by the subject's caller. */
struct cdl_lease_question {
    int64_t asked_ns;
    uint64_t cost;
    uint64_t edition, refunds;
};

/* One that waits; linked into the book until it is released. */
struct cdl_lease_waiter {
    struct cdl_lease_waiter *next;
    bool given_up; /* when it is released: what it waited for never came back */
    int failure;   /* when it is released: CAUDAL_OK, or the status of the errand that failed */
    int event;     /* and why: enum cdl_store_event */
};

/* ⌈r·ttl⌉: the most that a batch is, and what strict_bound takes off the burst. */
static inline uint64_t cdl_lease_refill(const struct caudal_limit *rule, int64_t ttl_ns)
{
    return (uint64_t)(((cdl_u128)rule->count * (uint64_t)ttl_ns + rule->period_ns - 1) / rule->period_ns);
}

/* Keys that a book knows at once: a power of two, 8 at least. NULL: memory is short. */
struct cdl_lease_book *cdl_lease_book_open(const struct caudal_allocator *allocator, size_t keys);
/* Nothing waits any more: see cdl_lease_release_all. */
void cdl_lease_book_close(struct cdl_lease_book *book);

/* Takes `cost` tokens of the subject, if the book can say. What a lease pays for goes to `spending`, which may be NULL. `decision` is
 * written only with CDL_LEASE_DECIDED. */
enum cdl_lease_step cdl_lease_take(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, uint64_t cost,
                                   enum cdl_lease_mode mode, int64_t now_ns, struct caudal_decision *decision,
                                   struct cdl_lease_spending *spending);
/* What was spent a moment ago goes back where it came from, if that still lives. `unwanted`: as if it had never been asked for. */
void cdl_lease_put_back(struct cdl_lease_book *book, const struct cdl_lease_subject *subject,
                        const struct cdl_lease_spending *spending, bool unwanted, int64_t now_ns);
/* Whether a refusal of that cost still holds: then `decision` is it. `takes`: it is wanted, not only looked at. */
bool cdl_lease_refused(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, uint64_t cost, bool takes,
                       int64_t now_ns, struct caudal_decision *decision);
/* What the book holds of the subject, as of a peek of cost 0 that passes. */
void cdl_lease_describe(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, int64_t now_ns,
                        struct caudal_decision *decision);
/* Forgets the subject: its lots and its refusal. */
void cdl_lease_forget(struct cdl_lease_book *book, const struct cdl_lease_subject *subject);

/* The store is about to be asked, after CDL_LEASE_ASK. */
void cdl_lease_asked(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, uint64_t cost,
                     int64_t now_ns, struct cdl_lease_question *question);
/* It has answered (decision->status says whether; `event`, why not), and the subject's numbers are what they are now. A refusal is
 * remembered. */
void cdl_lease_heard(struct cdl_lease_book *book, const struct cdl_lease_subject *subject,
                     const struct cdl_lease_question *question, const struct caudal_decision *decision, int event,
                     int64_t now_ns);

/* The next errand that is due, which is under way from then on: `now_ns` was read before it is sent. False: none is. */
bool cdl_lease_next(struct cdl_lease_book *book, int64_t now_ns, struct cdl_lease_errand *errand);
/* Whether something is under way whose answer releases those that wait for the subject. */
bool cdl_lease_is_coming(struct cdl_lease_book *book, const struct cdl_lease_subject *subject);
/* The subject's own, after CDL_LEASE_WITHDRAW. False: it is under way, or has been. */
bool cdl_lease_next_of(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, int64_t now_ns,
                       struct cdl_lease_errand *errand);
/* An errand is back: decision->status, and with CAUDAL_OK the answer; `decided_at_ns` is the store's realtime clock then, 0 if it is not
 * known. `edition` is the subject's now. `event` says why it failed, to those that wait. */
void cdl_lease_answered(struct cdl_lease_book *book, uint64_t number, const struct caudal_decision *decision,
                        int64_t decided_at_ns, uint64_t edition, int event, int64_t now_ns);
/* When cdl_lease_next is to be called, at the latest; INT64_MAX: not before something else happens. */
int64_t cdl_lease_due(const struct cdl_lease_book *book);

/* Waits, after CDL_LEASE_WITHDRAW or CDL_LEASE_WAIT from cdl_lease_take with this subject and nothing in between. */
void cdl_lease_wait(struct cdl_lease_book *book, const struct cdl_lease_subject *subject,
                    struct cdl_lease_waiter *waiter);
/* The same for those that wait elsewhere: counts it. */
void cdl_lease_waits(struct cdl_lease_book *book);
/* The next that need not wait any more, in the order in which they came; NULL: none. */
struct cdl_lease_waiter *cdl_lease_released(struct cdl_lease_book *book);
void cdl_lease_release_all(struct cdl_lease_book *book, int failure, int event);

/* Counts a decision that has become a caller's answer, by its source. */
void cdl_lease_book_decided(struct cdl_lease_book *book, const struct caudal_decision *decision);
/* From any thread: adds what this book has counted. */
void cdl_lease_book_count(const struct cdl_lease_book *book, struct cdl_lease_counts *sum);

#endif
