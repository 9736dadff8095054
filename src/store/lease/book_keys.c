/* The keys of a book: how one is found, forgotten and waited for, and when something is due of it. See book.c. */
#include <string.h>

#include "store/lease/book_parts.h"

#define WAYS 8u /* to a set */

/* ---- the instants at which something is due: a heap ---- */

static bool is_sooner(const struct cdl_lease_book *book, uint32_t a, uint32_t b)
{
    return book->entries[book->heap[a]].due_ns < book->entries[book->heap[b]].due_ns;
}

static void swap_in_heap(struct cdl_lease_book *book, uint32_t a, uint32_t b)
{
    const uint32_t moved = book->heap[a];
    book->heap[a] = book->heap[b];
    book->heap[b] = moved;
    book->entries[book->heap[a]].heap_at = a;
    book->entries[book->heap[b]].heap_at = b;
}

static void settle_in_heap(struct cdl_lease_book *book, uint32_t at)
{
    while (at > 0 && is_sooner(book, at, (at - 1) / 2)) {
        swap_in_heap(book, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < book->heap_count; child++)
            if (is_sooner(book, child, least))
                least = child;
        if (least == at)
            return;
        swap_in_heap(book, at, least);
        at = least;
    }
}

/* INT64_MAX: nothing is. */
void cdl_book_set_due(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t due_ns)
{
    entry->due_ns = due_ns;
    if (due_ns == INT64_MAX && entry->heap_at == CDL_BOOK_NOWHERE)
        return;
    if (due_ns == INT64_MAX) {
        const uint32_t at = entry->heap_at;
        swap_in_heap(book, at, --book->heap_count);
        entry->heap_at = CDL_BOOK_NOWHERE;
        if (at < book->heap_count)
            settle_in_heap(book, at);
        return;
    }
    if (entry->heap_at == CDL_BOOK_NOWHERE) {
        entry->heap_at = book->heap_count;
        book->heap[book->heap_count++] = (uint32_t)(entry - book->entries);
    }
    settle_in_heap(book, entry->heap_at);
}

/* ---- lots ---- */

/* Whatever is left of it is lost to everybody until the store has refilled it. */
static void end_lot(struct cdl_lease_book *book, struct cdl_book_lot *lot)
{
    cdl_book_add(&book->counts.stranded, lot->tokens);
    cdl_book_add(&book->counts.lots, cdl_book_is_used_up(lot) ? 0 : (uint64_t)-1);
    *lot = (struct cdl_book_lot){0};
}

void cdl_book_change_lot(struct cdl_lease_book *book, struct cdl_book_lot *lot, uint64_t tokens)
{
    cdl_book_add(&book->counts.lots, (uint64_t)cdl_book_is_used_up(lot) - (tokens == 0)); /* modulo 2^64 */
    lot->tokens = tokens;
}

void cdl_book_bury(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns)
{
    for (unsigned i = 0; i < 2; i++) {
        if (!cdl_book_is_live(&entry->lots[i]) || now_ns < entry->lots[i].dies_ns)
            continue;
        end_lot(book, &entry->lots[i]);
        entry->low = UINT64_MAX; /* there is room for the next */
    }
}

/* ---- demand ---- */

static void roll(struct cdl_book_entry *entry, int64_t now_ns)
{
    const int64_t into = now_ns - entry->window_ns;
    if (into < entry->ttl_ns)
        return;
    entry->previous = into < 2 * entry->ttl_ns ? entry->current : 0;
    entry->current = 0;
    entry->window_ns += into / entry->ttl_ns * entry->ttl_ns;
}

/* What can never pass is no demand. */
void cdl_book_want(struct cdl_book_entry *entry, uint64_t cost, int64_t now_ns)
{
    roll(entry, now_ns);
    entry->wanted_ns = now_ns;
    entry->cost = cost;
    if (cost <= entry->capacity && __builtin_add_overflow(entry->current, cost, &entry->current))
        entry->current = UINT64_MAX;
}

/* Tokens wanted in the ttl before now. */
uint64_t cdl_book_demand(struct cdl_book_entry *entry, int64_t now_ns)
{
    roll(entry, now_ns);
    const uint64_t before = cdl_book_scale(entry->previous, entry->ttl_ns - (now_ns - entry->window_ns), entry->ttl_ns);
    return before > UINT64_MAX - entry->current ? UINT64_MAX : before + entry->current;
}

/* ---- entries ---- */

static uint64_t tag_of(const struct cdl_lease_subject *subject)
{
    return (subject->hash[0] ^ subject->limit * UINT64_C(0x9E3779B97F4A7C15)) | 1;
}

static size_t set_of(const struct cdl_lease_book *book, uint64_t tag)
{
    return (size_t)(tag >> 20) & (book->keys - 1) & ~(size_t)(WAYS - 1);
}

static struct cdl_book_entry *find(const struct cdl_lease_book *book, const struct cdl_lease_subject *subject)
{
    const uint64_t tag = tag_of(subject);
    const size_t set = set_of(book, tag);
    for (size_t i = set; i < set + WAYS; i++) {
        struct cdl_book_entry *entry = &book->entries[i];
        if (book->tags[i] == tag && entry->hash[0] == subject->hash[0] && entry->hash[1] == subject->hash[1] &&
            entry->limit == subject->limit)
            return entry;
    }
    return NULL;
}

void cdl_book_release(struct cdl_lease_book *book, struct cdl_book_entry *entry, bool given_up, int failure, int event)
{
    for (struct cdl_lease_waiter *waiter = entry->first; waiter != NULL; waiter = waiter->next) {
        waiter->given_up = given_up;
        waiter->failure = failure;
        waiter->event = event;
    }
    entry->released = entry->waiting;
    entry->waiting = 0;
    if (entry->first == NULL)
        return;
    if (book->first == NULL)
        book->first = entry->first;
    else
        book->last->next = entry->first;
    book->last = entry->last;
    entry->first = entry->last = NULL;
}

/* Forgets what was learned and withdrawn; an errand that is under way will find nobody who waits for it. */
void cdl_book_clear(struct cdl_lease_book *book, struct cdl_book_entry *entry)
{
    for (unsigned i = 0; i < 2; i++)
        if (cdl_book_is_live(&entry->lots[i]))
            end_lot(book, &entry->lots[i]);
    entry->refusal = (struct cdl_book_refusal){0};
    entry->level_known = false;
    entry->edge_ns = 0;
    if (entry->errand.state == CDL_BOOK_OUT && !entry->errand.gives_back)
        entry->errand.given_up = entry->errand.number;
    entry->errand.state = CDL_BOOK_IDLE;
    entry->errand.number = 0;
    cdl_book_set_due(book, entry, INT64_MAX);
    cdl_book_release(book, entry, false, CAUDAL_OK, 0);
}

/* What the limit is, worked out once. */
void cdl_book_learn_limit(struct cdl_book_entry *entry, const struct cdl_lease_subject *subject)
{
    const struct caudal_limit *rule = subject->rule;
    const struct cdl_lease_terms *terms = subject->terms;
    entry->edition = subject->edition;
    entry->ttl_ns = terms->ttl_ns;
    entry->share_per_mille = terms->share_per_mille;
    entry->count = rule->count;
    entry->period_ns = (int64_t)rule->period_ns;
    entry->is_window = rule->algorithm != CAUDAL_TOKEN_BUCKET;
    entry->is_sliding = rule->algorithm == CAUDAL_SLIDING_WINDOW;
    entry->batch = cdl_lease_refill(rule, terms->ttl_ns);
    entry->capacity = caudal_limit_capacity(rule);
    if (terms->strict_bound && !entry->is_window)
        entry->capacity -= cdl_min_u64(entry->capacity, entry->batch);
    entry->full_ns = -1;
    if (entry->count > 0)
        entry->full_ns = cdl_clamp_i64(
            (cdl_i128)(((cdl_u128)entry->capacity * rule->period_ns + entry->count - 1) / entry->count));
}

/* How much would be lost with it; 0: nothing. */
static uint64_t worth(struct cdl_book_entry *entry, int64_t now_ns)
{
    if (cdl_book_last_death(entry) > now_ns)
        return (UINT64_C(1) << 62) + cdl_book_held(entry);
    const uint64_t wanted = cdl_min_u64(cdl_book_demand(entry, now_ns), UINT64_C(1) << 60);
    return entry->refusal.cost > 0 && entry->refusal.until_ns > now_ns ? (UINT64_C(1) << 61) + wanted : wanted;
}

static bool is_busy(const struct cdl_book_entry *entry)
{
    return entry->errand.state != CDL_BOOK_IDLE || entry->errand.queued || entry->asked > 0 || entry->first != NULL;
}

/* A place in the subject's set; NULL: all are busy. */
static struct cdl_book_entry *make_room(struct cdl_lease_book *book, uint64_t tag, int64_t now_ns)
{
    const size_t set = set_of(book, tag);
    struct cdl_book_entry *least = NULL;
    uint64_t least_worth = UINT64_MAX;
    for (size_t i = set; i < set + WAYS; i++) {
        struct cdl_book_entry *entry = &book->entries[i];
        if (book->tags[i] == 0)
            return entry;
        if (is_busy(entry))
            continue;
        const uint64_t its_worth = worth(entry, now_ns);
        if (its_worth < least_worth) {
            least = entry;
            least_worth = its_worth;
        }
    }
    if (least != NULL)
        cdl_book_clear(book, least);
    return least;
}

static struct cdl_book_entry *add(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, int64_t now_ns)
{
    const uint64_t tag = tag_of(subject);
    struct cdl_book_entry *entry = make_room(book, tag, now_ns);
    if (entry == NULL)
        return NULL;
    const uint64_t given_up = entry->errand.given_up;
    *entry = (struct cdl_book_entry){.hash = {subject->hash[0], subject->hash[1]},
                                     .limit = subject->limit,
                                     .heap_at = CDL_BOOK_NOWHERE,
                                     .due_ns = INT64_MAX,
                                     .late_ns = INT64_MAX,
                                     .window_ns = now_ns,
                                     .key_length = (uint32_t)subject->key_length};
    entry->errand.given_up = given_up;
    if (subject->key_length > 0)
        memcpy(entry->key, subject->key, subject->key_length);
    cdl_book_learn_limit(entry, subject);
    book->tags[entry - book->entries] = tag;
    return entry;
}

/* The subject's entry, as of its edition. NULL: there is none. */
struct cdl_book_entry *cdl_book_look_up(struct cdl_lease_book *book, const struct cdl_lease_subject *subject)
{
    struct cdl_book_entry *entry = find(book, subject);
    if (entry == NULL)
        return NULL;
    /* Of several threads one may have looked before another, and come after it. */
    if (__builtin_expect(entry->edition < subject->edition, false)) {
        cdl_book_clear(book, entry);
        cdl_book_learn_limit(entry, subject);
    }
    if (entry->refunds < subject->refunds)
        entry->refunds = subject->refunds;
    return entry;
}

struct cdl_book_entry *cdl_book_look_up_or_add(struct cdl_lease_book *book, const struct cdl_lease_subject *subject,
                                               int64_t now_ns)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    if (entry != NULL || subject->key_length > CDL_LEASE_KEY_MAX)
        return entry;
    entry = add(book, subject, now_ns);
    if (entry != NULL)
        entry->refunds = subject->refunds;
    return entry;
}

/* ---- waiting ---- */

void cdl_lease_waits(struct cdl_lease_book *book)
{
    cdl_book_add(&book->counts.waits, 1);
}

void cdl_lease_wait(struct cdl_lease_book *book, const struct cdl_lease_subject *subject,
                    struct cdl_lease_waiter *waiter)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    cdl_lease_waits(book);
    *waiter = (struct cdl_lease_waiter){0};
    if (entry->first == NULL)
        entry->first = waiter;
    else
        entry->last->next = waiter;
    entry->last = waiter;
}

struct cdl_lease_waiter *cdl_lease_released(struct cdl_lease_book *book)
{
    struct cdl_lease_waiter *waiter = book->first;
    if (waiter != NULL)
        book->first = waiter->next;
    return waiter;
}

void cdl_lease_release_all(struct cdl_lease_book *book, int failure, int event)
{
    for (size_t i = 0; i < book->keys; i++)
        if (book->tags[i] != 0) /* or its memory has never been touched, and need not be now */
            cdl_book_release(book, &book->entries[i], false, failure, event);
}

/* ---- the book ---- */

void cdl_lease_book_decided(struct cdl_lease_book *book, const struct caudal_decision *decision)
{
    if (decision->source == CAUDAL_SOURCE_LEASE)
        cdl_book_add(&book->counts.by_lease, 1);
    else if (decision->source == CAUDAL_SOURCE_DENY_CACHE)
        cdl_book_add(&book->counts.by_refusal, 1);
}

static uint64_t read_count(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void cdl_lease_book_count(const struct cdl_lease_book *book, struct cdl_lease_counts *sum)
{
    const struct cdl_book_counts *counts = &book->counts;
    sum->by_lease += read_count(&counts->by_lease);
    sum->by_refusal += read_count(&counts->by_refusal);
    sum->store_calls += read_count(&counts->store_calls);
    sum->waits += read_count(&counts->waits);
    sum->stranded += read_count(&counts->stranded);
    sum->given_back += read_count(&counts->given_back);
    sum->lots += read_count(&counts->lots);
}

struct cdl_lease_book *cdl_lease_book_open(const struct caudal_allocator *allocator, size_t keys)
{
    struct cdl_lease_book *book = cdl_allocate(allocator, 1, sizeof *book, _Alignof(struct cdl_lease_book));
    if (book == NULL)
        return NULL;
    book->allocator = *allocator;
    book->keys = keys;
    book->tags = cdl_allocate(allocator, keys, sizeof *book->tags, 64);
    book->entries = cdl_allocate(allocator, keys, sizeof *book->entries, 64);
    book->heap = cdl_allocate(allocator, keys, sizeof *book->heap, _Alignof(uint32_t));
    if (book->tags != NULL && book->entries != NULL && book->heap != NULL)
        return book;
    cdl_lease_book_close(book);
    return NULL;
}

void cdl_lease_book_close(struct cdl_lease_book *book)
{
    if (book == NULL)
        return;
    const struct caudal_allocator allocator = book->allocator;
    cdl_release(&allocator, book->tags, book->keys, sizeof *book->tags);
    cdl_release(&allocator, book->entries, book->keys, sizeof *book->entries);
    cdl_release(&allocator, book->heap, book->keys, sizeof *book->heap);
    cdl_release(&allocator, book, 1, sizeof *book);
}
