/* Deciding on keys held in memory.
 *
 * A decision is a loop: copy the limit's view, find the key's entry, work out the answer, and put the new state in place if
 * the entry is still what was looked at. Only a key that comes in takes a lock. See table.h for why this is right. */
#include "store/memory_store.h"

#include <string.h>
#include <sys/random.h>

#include "base/problem.h"
#include "store/url.h"

#define PREFETCH_BATCH 16

/* ---- judging entries ---- */

static struct cdl_limit_slot *owner_of(const struct cdl_memory_store *store, uint16_t number)
{
    uint32_t owner = atomic_load_explicit(&store->limits->owner[number], memory_order_acquire);
    return owner == 0 ? NULL : cdl_limits_slot(store->limits, owner - 1);
}

uint64_t cdl_memory_convert(const struct cdl_limit_view *view, const struct cdl_limit_previous *previous,
                            uint64_t state)
{
    if (view->layout != CDL_LAYOUT_BUCKET)
        return state;
    return cdl_token_clock_convert(&previous->bucket, &view->bucket, previous->changed_at, state);
}

static int64_t entry_time_left(void *context, uint64_t tag, uint64_t state)
{
    const struct cdl_memory_judge *judge = context;
    struct cdl_limit_slot *slot = owner_of(judge->store, (uint16_t)tag);
    if (slot == NULL)
        return 0; /* left over from a limit that was removed */
    struct cdl_limit_view view;
    struct cdl_limit_previous previous;
    cdl_limit_read(slot, &view, &previous);
    struct cdl_window_fields fields = view.fields;
    if (view.number != (uint16_t)tag) {
        if (view.previous_number != (uint16_t)tag)
            return 0;
        state = cdl_memory_convert(&view, &previous, state);
        fields = previous.fields;
    }
    if (view.layout == CDL_LAYOUT_BUCKET) {
        const int64_t now = cdl_instant_monotonic(judge->now);
        /* Outside the clock's window nothing can be said: keep the entry until its own limit is asked. */
        return cdl_token_clock_covers(&view.bucket, now) ? cdl_token_bucket_time_to_full(&view.bucket, now, state)
                                                         : INT64_MAX;
    }
    const struct cdl_window_state window = cdl_window_unpack(fields, state);
    return cdl_window_time_to_empty(&view.window, cdl_instant_realtime(judge->now), &window);
}

static int64_t per_call_now(struct cdl_instant *now, enum caudal_algorithm algorithm)
{
    return cdl_per_call_is_aligned(algorithm) ? cdl_instant_realtime(now) : cdl_instant_monotonic(now);
}

static int64_t record_time_left(void *context, const struct cdl_wide_record *record, const struct cdl_log_pool *pool)
{
    const struct cdl_memory_judge *judge = context;
    struct cdl_limit_slot *slot = owner_of(judge->store, record->number);
    if (slot == NULL)
        return 0;
    struct cdl_limit_view view;
    cdl_limit_read(slot, &view, NULL);
    if (view.number != record->number)
        return 0; /* left over from before a change of the limit, which is about to sweep it away */
    if (record->kind == CDL_WIDE_PER_CALL)
        return cdl_per_call_time_left(&record->per_call, per_call_now(judge->now, record->per_call.algorithm));
    if (record->kind == CDL_WIDE_LOG)
        return cdl_log_time_to_empty(&view.log, cdl_instant_monotonic(judge->now), &record->log, pool);
    return cdl_window_time_to_empty(&view.window, cdl_instant_realtime(judge->now), &record->window);
}

struct cdl_table_judge cdl_memory_table_judge(struct cdl_memory_judge *judge)
{
    return (struct cdl_table_judge){entry_time_left, judge};
}

struct cdl_wide_judge cdl_memory_wide_judge(struct cdl_memory_judge *judge)
{
    return (struct cdl_wide_judge){record_time_left, judge};
}

/* ---- one decision ---- */

/* Fills in what does not depend on the algorithm. */
static void sign(struct caudal_decision *decision)
{
    decision->status = CAUDAL_OK;
    decision->source = CAUDAL_SOURCE_STORE;
    decision->binding = 0;
    decision->error_bound = 0;
}

/* The common case spelled out for the compiler: `cost` tokens from a bucket that is in the table and that nobody else
 * changes meanwhile. `entry` is where it was found, or NULL. False: it is another case, nothing was done, and the
 * general way below takes it from the start. */
static inline bool take_present(const struct cdl_limit_view *view, struct cdl_pair *entry, uint64_t tag,
                                struct cdl_token_moment moment, uint64_t cost, struct caudal_decision *decision)
{
    if (entry == NULL)
        return false;
    /* Both halves may be of different entries; then the swap fails, or the second look differs. */
    const struct cdl_pair was = {tag, cdl_pair_peek_second(entry)};
    const struct cdl_question question = cdl_question_take(cost);
    const struct cdl_token_outcome outcome = cdl_token_bucket_charge(&view->bucket, moment, false, was.second,
                                                                     &question);
    if (outcome.changed) {
        /* What changes a bucket without a charge anchors it anew, which is not for here. */
        if (outcome.granted == 0 || !cdl_pair_swap(entry, was, (struct cdl_pair){tag, outcome.full_at}))
            return false;
    } else {
        const struct cdl_pair is = cdl_pair_load(entry);
        if (is.first != was.first || is.second != was.second)
            return false;
    }
    sign(decision);
    cdl_token_bucket_describe(&view->bucket, moment, &question, &outcome, decision);
    return true;
}

/* A question on its way: what is asked of whom, and the version of the limit that it is being answered under. */
struct inquiry {
    struct cdl_memory_store *store;
    struct cdl_limit_slot *slot;
    struct cdl_key_hash hash;
    const struct cdl_question *question;
    struct cdl_instant *now;
    struct caudal_decision *decision;
    struct cdl_limit_view view;
    uint32_t version;
    const struct cdl_token_clock
        *written; /* the clock that buckets are written by, if the view's has been moved; or NULL */
};

static bool decide_word(struct inquiry *inquiry, bool fresh, uint64_t *state)
{
    const struct cdl_limit_view *view = &inquiry->view;
    if (view->layout == CDL_LAYOUT_BUCKET && inquiry->written != NULL && !fresh)
        *state = cdl_token_clock_revise(inquiry->written, &view->bucket, inquiry->now->monotonic_ns, *state);
    if (view->layout == CDL_LAYOUT_BUCKET)
        return cdl_token_bucket_decide(&view->bucket, inquiry->now->monotonic_ns, fresh, state, inquiry->question,
                                       inquiry->decision);
    struct cdl_window_state window = cdl_window_unpack(view->fields, *state);
    bool changed = cdl_window_decide(&view->window, inquiry->now->realtime_ns, fresh, &window, inquiry->question,
                                     inquiry->decision);
    *state = cdl_window_pack(view->fields, &window);
    return changed;
}

/* What is to be done next. */
enum outcome {
    DONE,
    AGAIN,   /* another thread changed the entry: look again */
    RESTART, /* the limit changed: read it again */
};

static enum outcome decide_entry(struct inquiry *inquiry, struct cdl_pair *entry, uint64_t tag)
{
    const struct cdl_pair was = cdl_pair_load(entry);
    if (was.first != tag)
        return AGAIN;
    uint64_t state = was.second;
    if (!decide_word(inquiry, false, &state))
        return DONE;
    /* A debt that is too large for this limit may have been made under the next one: it must not be cut. */
    if (!cdl_limit_unchanged(inquiry->slot, inquiry->version))
        return RESTART;
    return cdl_pair_swap(entry, was, (struct cdl_pair){tag, state}) ? DONE : AGAIN;
}

/* An entry that is still written under the previous number: converted and charged by one swap. */
static enum outcome decide_previous(struct inquiry *inquiry, struct cdl_pair *entry, uint64_t old_tag, uint64_t tag)
{
    const struct cdl_pair was = cdl_pair_load(entry);
    if (was.first != old_tag)
        return AGAIN;
    struct cdl_limit_view view;
    struct cdl_limit_previous previous;
    if (cdl_limit_read(inquiry->slot, &view, &previous) != inquiry->version)
        return RESTART;
    uint64_t state = cdl_memory_convert(&view, &previous, was.second);
    if (!decide_word(inquiry, false, &state))
        return DONE;
    return cdl_pair_swap(entry, was, (struct cdl_pair){tag, state}) ? DONE : AGAIN;
}

/* A key that is taken for a new one, which is to say for one that has spent nothing, may have had an entry that did not matter
 * any more, and that another key has taken since this call read the clock: a charge dated back to before that would be
 * granted once too often. So the clock is read again where nobody else can write the key. */
static struct cdl_instant read_again(const struct cdl_instant *asked)
{
    if (asked->clock == NULL)
        return *asked;
    struct cdl_instant later = cdl_instant_read(asked->clock);
    if (asked->has_monotonic)
        cdl_instant_monotonic(&later);
    if (asked->has_realtime)
        cdl_instant_realtime(&later);
    return later;
}

static bool decide_late(struct inquiry *inquiry, struct cdl_instant *later, uint64_t *state)
{
    struct cdl_instant *const asked = inquiry->now;
    *later = read_again(asked);
    inquiry->now = later;
    const bool changed = decide_word(inquiry, true, state);
    inquiry->now = asked;
    return changed;
}

static enum outcome decide_absent(struct inquiry *inquiry, const struct cdl_table_place *place, uint64_t tag)
{
    uint64_t state = 0;
    /* Absent indeed, unless a change of number has taken the entry from under our eyes. */
    if (!decide_word(inquiry, true, &state))
        return cdl_limit_unchanged(inquiry->slot, inquiry->version) ? DONE : RESTART;
    enum outcome outcome = DONE;
    struct cdl_instant later;
    pthread_mutex_lock(&place->stripe->lock);
    if (!cdl_limit_unchanged(inquiry->slot, inquiry->version)) {
        outcome = RESTART;
    } else if (cdl_table_find(place, tag) != NULL) {
        outcome = AGAIN;
    } else if (decide_late(inquiry, &later, &state)) {
        struct cdl_memory_judge judge = {inquiry->store, &later};
        const struct cdl_table_judge table_judge = cdl_memory_table_judge(&judge);
        cdl_table_claim(place, (struct cdl_pair){tag, state}, &table_judge);
    }
    pthread_mutex_unlock(&place->stripe->lock);
    return outcome;
}

static enum outcome decide_narrow(struct inquiry *inquiry, const struct cdl_table_place *place)
{
    const uint64_t tag = place->fingerprint | inquiry->view.number;
    enum outcome outcome;
    do {
        struct cdl_pair *entry = cdl_table_find(place, tag);
        if (entry == NULL && inquiry->view.previous_number != 0) {
            const uint64_t old_tag = place->fingerprint | inquiry->view.previous_number;
            struct cdl_pair *old = cdl_table_find(place, old_tag);
            if (old != NULL) {
                outcome = decide_previous(inquiry, old, old_tag, tag);
                continue;
            }
            entry = cdl_table_find(place, tag); /* it may have been converted between the two looks */
        }
        outcome = entry != NULL ? decide_entry(inquiry, entry, tag) : decide_absent(inquiry, place, tag);
    } while (outcome == AGAIN);
    return outcome;
}

/* The state that a key had before its window became a wide one, taken out of the narrow table. False: it had none. */
static bool extract_narrow(struct inquiry *inquiry, struct cdl_window_state *window)
{
    struct cdl_limit_view view;
    struct cdl_limit_previous previous;
    cdl_limit_read(inquiry->slot, &view, &previous);
    const struct cdl_table_place place = cdl_table_place(&inquiry->store->table, inquiry->hash, view.salt);
    struct cdl_pair *entry;
    while ((entry = cdl_table_find(&place, place.fingerprint | view.previous_number)) != NULL) {
        const struct cdl_pair was = cdl_pair_load(entry);
        if (was.first != (place.fingerprint | view.previous_number) ||
            !cdl_pair_swap(entry, was, (struct cdl_pair){0, 0}))
            continue;
        *window = cdl_window_unpack(previous.fields, was.second);
        return true;
    }
    return false;
}

static void decide_wide_window(struct inquiry *inquiry, struct cdl_wide_stripe *stripe,
                               const struct cdl_wide_judge *judge)
{
    const struct cdl_limit_view *view = &inquiry->view;
    const struct cdl_wide_table *wide = &inquiry->store->wide;
    struct cdl_wide_record *record = cdl_wide_find(wide, stripe, inquiry->hash, view->number);
    struct cdl_window_state window;
    if (record == NULL && view->previous_number != 0 && extract_narrow(inquiry, &window)) {
        record = cdl_wide_insert(wide, stripe, inquiry->hash, view->number, CDL_WIDE_WINDOW, judge);
        record->window = window;
    }
    if (record != NULL)
        window = record->window;
    if (!cdl_window_decide(&view->window, inquiry->now->realtime_ns, record == NULL, &window, inquiry->question,
                           inquiry->decision))
        return;
    if (record == NULL)
        record = cdl_wide_insert(wide, stripe, inquiry->hash, view->number, CDL_WIDE_WINDOW, judge);
    record->window = window;
}

static void decide_log(struct inquiry *inquiry, struct cdl_wide_stripe *stripe, const struct cdl_wide_judge *judge)
{
    const struct cdl_limit_view *view = &inquiry->view;
    const struct cdl_wide_table *wide = &inquiry->store->wide;
    struct cdl_wide_record *record = cdl_wide_find(wide, stripe, inquiry->hash, view->number);
    struct cdl_log log = {0};
    if (inquiry->question->operation == CDL_TAKE && stripe->pool.free_count == 0) {
        /* Another log is forgotten only for the sake of an admission that writes something. */
        const uint64_t least = inquiry->question->minimum > 0 ? inquiry->question->minimum : 1;
        const struct cdl_question peek = cdl_question_peek(least);
        cdl_log_decide(&view->log, inquiry->now->monotonic_ns, record != NULL ? &record->log : &log, &stripe->pool,
                       &peek, inquiry->decision);
        if (inquiry->decision->verdict == CAUDAL_ALLOW && inquiry->question->maximum > 0)
            cdl_wide_reserve_chunk(wide, stripe, record, judge);
    }
    bool changed = cdl_log_decide(&view->log, inquiry->now->monotonic_ns, record != NULL ? &record->log : &log,
                                  &stripe->pool, inquiry->question, inquiry->decision);
    if (changed && record == NULL)
        cdl_wide_insert(wide, stripe, inquiry->hash, view->number, CDL_WIDE_LOG, judge)->log = log;
}

static void decide_per_call(struct inquiry *inquiry, struct cdl_wide_stripe *stripe, const struct cdl_wide_judge *judge)
{
    const struct cdl_wide_table *wide = &inquiry->store->wide;
    const struct caudal_limit *limit = inquiry->question->limit;
    struct cdl_wide_record *record = cdl_wide_find(wide, stripe, inquiry->hash, inquiry->view.number);
    struct cdl_per_call_state first;
    const bool changed = cdl_per_call_decide(limit, per_call_now(inquiry->now, limit->algorithm), record == NULL,
                                             record != NULL ? &record->per_call : &first, inquiry->question,
                                             inquiry->decision);
    if (changed && record == NULL)
        cdl_wide_insert(wide, stripe, inquiry->hash, inquiry->view.number, CDL_WIDE_PER_CALL, judge)->per_call = first;
}

static enum outcome decide_wide(struct inquiry *inquiry)
{
    const struct cdl_wide_table *wide = &inquiry->store->wide;
    struct cdl_wide_stripe *stripe = cdl_wide_stripe(wide, inquiry->hash);
    struct cdl_instant *const asked = inquiry->now;
    struct cdl_instant later = *asked;
    struct cdl_memory_judge context = {inquiry->store, &later};
    const struct cdl_wide_judge judge = cdl_memory_wide_judge(&context);
    enum outcome outcome = DONE;
    pthread_mutex_lock(&stripe->lock);
    if (cdl_wide_find(wide, stripe, inquiry->hash, inquiry->view.number) == NULL)
        later = read_again(asked);
    inquiry->now = &later;
    if (!cdl_limit_unchanged(inquiry->slot, inquiry->version))
        outcome = RESTART;
    else if (inquiry->view.layout == CDL_LAYOUT_PER_CALL)
        decide_per_call(inquiry, stripe, &judge);
    else if (inquiry->view.layout == CDL_LAYOUT_LOG)
        decide_log(inquiry, stripe, &judge);
    else
        decide_wide_window(inquiry, stripe, &judge);
    inquiry->now = asked;
    pthread_mutex_unlock(&stripe->lock);
    return outcome;
}

static void decide_unlimited(const struct cdl_question *question, struct caudal_decision *decision)
{
    decision->verdict = CAUDAL_ALLOW;
    decision->capacity = UINT64_MAX;
    decision->remaining = UINT64_MAX;
    decision->granted = question->operation == CDL_TAKE ? question->maximum : 0;
    decision->retry_after_ns = 0;
    decision->reset_after_ns = 0;
}

/* A peek changes nothing, the window of the limit's clock included: it moves a copy of its own. */
static enum outcome peek_outside(struct inquiry *inquiry, const struct cdl_table_place *place, int64_t now)
{
    const struct cdl_token_clock written = inquiry->view.bucket;
    cdl_token_clock_recentre(&inquiry->view.bucket, now);
    inquiry->written = &written;
    const enum outcome outcome = decide_narrow(inquiry, place);
    inquiry->written = NULL;
    return outcome;
}

/* Answers under the view that the inquiry carries. */
static enum outcome decide_under_view(struct inquiry *inquiry, const struct cdl_table_place *place)
{
    const struct cdl_limit_view *view = &inquiry->view;
    sign(inquiry->decision);
    switch ((enum cdl_layout)view->layout) {
    case CDL_LAYOUT_BUCKET: {
        const int64_t now = cdl_instant_monotonic(inquiry->now);
        if (__builtin_expect(!cdl_token_clock_covers(&view->bucket, now), false)) {
            if (inquiry->question->operation == CDL_PEEK)
                return peek_outside(inquiry, place, now);
            cdl_memory_recentre(inquiry->store, inquiry->slot, view->id, now);
            return RESTART;
        }
        return decide_narrow(inquiry, place);
    }
    case CDL_LAYOUT_WINDOW:
        cdl_instant_realtime(inquiry->now);
        return decide_narrow(inquiry, place);
    case CDL_LAYOUT_WIDE_WINDOW:
        cdl_instant_realtime(inquiry->now);
        return decide_wide(inquiry);
    case CDL_LAYOUT_LOG:
        cdl_instant_monotonic(inquiry->now);
        return decide_wide(inquiry);
    case CDL_LAYOUT_PER_CALL:
        per_call_now(inquiry->now, inquiry->question->limit->algorithm);
        return decide_wide(inquiry);
    case CDL_LAYOUT_NONE:
        break;
    }
    decide_unlimited(inquiry->question, inquiry->decision);
    return DONE;
}

/* Reads the limit into the inquiry. False: there is no such limit. */
static bool read_limit(struct inquiry *inquiry, uint32_t id)
{
    inquiry->slot = cdl_limits_find(inquiry->store->limits, id);
    if (inquiry->slot == NULL)
        return false;
    inquiry->version = cdl_limit_read(inquiry->slot, &inquiry->view, NULL);
    return inquiry->view.id == id && id != 0;
}

static __attribute__((noinline)) int decide_hashed(struct cdl_memory_store *store, uint32_t id,
                                                   struct cdl_key_hash hash, const struct cdl_question *question,
                                                   struct cdl_instant *now, struct caudal_decision *decision)
{
    struct inquiry inquiry = {.store = store, .hash = hash, .question = question, .now = now, .decision = decision};
    do {
        if (!read_limit(&inquiry, id))
            return CAUDAL_ERR_UNKNOWN;
        const int status = inquiry.view.layout == CDL_LAYOUT_PER_CALL ? cdl_per_call_check(question->limit) : CAUDAL_OK;
        if (status != CAUDAL_OK)
            return status;
        const struct cdl_table_place place = cdl_table_place(&store->table, hash, inquiry.view.salt);
        if (decide_under_view(&inquiry, &place) == DONE)
            return CAUDAL_OK;
    } while (true);
}

static inline struct cdl_key_hash hash_of(const struct cdl_memory_store *store, const struct caudal_request *request)
{
    return cdl_key_hash(store->secret, request->key, request->key_length);
}

/* take_present for one request, from the start. The lines are on their way while the clock is read. The view is read
 * before it: what of it is put aside for that call has reached memory when the swap comes, which waits for all
 * stores. */
static inline bool take_one(struct cdl_memory_store *store, uint32_t id, struct cdl_key_hash hash, uint64_t cost,
                            struct cdl_instant *now, struct caudal_decision *decision)
{
    const struct cdl_limit_slot *slot = cdl_limits_find(store->limits, id);
    struct cdl_limit_view view;
    if (slot == NULL || !cdl_limit_try_read(slot, &view) || view.id != id || view.layout != CDL_LAYOUT_BUCKET)
        return false;
    const struct cdl_table_place place = cdl_table_place(&store->table, hash, view.salt);
    cdl_table_prefetch(&place);
    const int64_t now_ns = cdl_instant_monotonic(now);
    if (!cdl_token_clock_covers(&view.bucket, now_ns))
        return false;
    const uint64_t tag = place.fingerprint | view.number;
    return take_present(&view, cdl_table_find(&place, tag), tag, cdl_token_moment(&view.bucket, now_ns), cost,
                        decision);
}

static void memory_expect(struct caudal_store *head, const struct caudal_request *request,
                          struct cdl_expected *expected)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    const struct cdl_key_hash hash = hash_of(store, request);
    const struct cdl_limit_slot *slot = cdl_limits_find(store->limits, request->limit);
    struct cdl_limit_view view;
    expected->index = NULL;
    if (slot == NULL || !cdl_limit_try_read(slot, &view))
        return;
    if (!cdl_layout_is_wide(view.layout)) {
        const struct cdl_table_place place = cdl_table_place(&store->table, hash, view.salt);
        cdl_table_prefetch(&place);
        return;
    }
    const struct cdl_wide_stripe *stripe = cdl_wide_stripe(&store->wide, hash);
    expected->index = cdl_wide_bucket(&store->wide, stripe, hash, view.number);
    expected->records = stripe->records;
    __builtin_prefetch(stripe, 1);
    __builtin_prefetch(expected->index);
}

static void memory_expect_more(struct cdl_expected *expected)
{
    if (expected->index != NULL)
        __builtin_prefetch(
            (const struct cdl_wide_record *)expected->records + __atomic_load_n(expected->index, __ATOMIC_RELAXED), 1);
}

static int memory_decide(struct caudal_store *head, const struct caudal_request *request,
                         const struct cdl_question *question, struct cdl_instant *now, struct caudal_decision *decision)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    const struct cdl_key_hash hash = hash_of(store, request);
    if (question->operation == CDL_TAKE && question->minimum == question->maximum &&
        take_one(store, request->limit, hash, question->minimum, now, decision))
        return CAUDAL_OK;
    return decide_hashed(store, request->limit, hash, question, now, decision);
}

/* Any take, after the short ways have found that it is not theirs. */
static __attribute__((noinline)) int take_slowly(struct cdl_memory_store *store, const struct caudal_request *request,
                                                 struct cdl_instant *now, struct caudal_decision *decision)
{
    const struct cdl_question question = cdl_question_take(request->cost);
    const int status = decide_hashed(store, request->limit, hash_of(store, request), &question, now, decision);
    if (status != CAUDAL_OK)
        *decision = (struct caudal_decision){.status = status};
    return status;
}

static __attribute__((noinline)) int take_slowly_now(struct cdl_memory_store *store, uint32_t id, const void *key,
                                                     size_t key_length, uint64_t cost, struct caudal_decision *decision)
{
    struct cdl_instant now = cdl_instant_read(store->head.clock);
    return take_slowly(store, &(struct caudal_request){id, key, key_length, cost}, &now, decision);
}

static int memory_take(struct caudal_store *head, uint32_t id, const void *key, size_t key_length, uint64_t cost,
                       struct caudal_decision *decision)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    struct cdl_instant now = cdl_instant_read(head->clock);
    if (take_one(store, id, cdl_key_hash(store->secret, key, key_length), cost, &now, decision))
        return CAUDAL_OK;
    return take_slowly_now(store, id, key, key_length, cost, decision);
}

/* ---- many decisions ---- */

/* Where a key of a batch may be. */
struct candidate {
    struct cdl_table_line *lines[2];
    uint64_t fingerprint;
};

/* The code of the first that fails. */
static __attribute__((noinline)) int take_run_slowly(struct cdl_memory_store *store,
                                                     const struct caudal_request *requests, size_t count,
                                                     struct cdl_instant *now, struct caudal_decision *decisions)
{
    int first = CAUDAL_OK;
    for (size_t i = 0; i < count; i++) {
        int status = cdl_check_request(&requests[i]);
        if (status == CAUDAL_OK)
            status = take_slowly(store, &requests[i], now, &decisions[i]);
        else
            decisions[i] = (struct caudal_decision){.status = status};
        first = first == CAUDAL_OK ? status : first;
    }
    return first;
}

/* Requests of one limit, whose view is read once. Seven keys of ten are in their first line: these are decided first,
 * while the second lines of the others come in. Which is which is listed without a branch, for it is chance. Requests
 * of one key are of one kind, so they keep their order. */
static inline int take_run(struct cdl_memory_store *store, const struct caudal_request *requests,
                           const struct candidate *candidates, size_t count, struct cdl_instant *now,
                           struct caudal_decision *decisions)
{
    const struct cdl_limit_slot *slot = cdl_limits_find(store->limits, requests[0].limit);
    const int64_t now_ns = cdl_instant_monotonic(now);
    struct cdl_limit_view view;
    if (slot == NULL || !cdl_limit_try_read(slot, &view) || view.id != requests[0].limit ||
        view.layout != CDL_LAYOUT_BUCKET || !cdl_token_clock_covers(&view.bucket, now_ns))
        return take_run_slowly(store, requests, count, now, decisions);
    const struct cdl_token_moment moment = cdl_token_moment(&view.bucket, now_ns);
    struct cdl_pair *entries[PREFETCH_BATCH];
    uint32_t first[PREFETCH_BATCH], second[PREFETCH_BATCH];
    size_t firsts = 0, seconds = 0;
    for (size_t i = 0; i < count; i++) {
        entries[i] = cdl_table_find_in(candidates[i].lines[0], candidates[i].fingerprint | view.number);
        const bool absent = entries[i] == NULL;
        __builtin_prefetch(candidates[i].lines[absent], 1);
        first[firsts] = second[seconds] = (uint32_t)i;
        firsts += !absent;
        seconds += absent;
    }
    int status = CAUDAL_OK;
    for (size_t n = 0; n < count; n++) {
        const uint32_t i = n < firsts ? first[n] : second[n - firsts];
        const uint64_t tag = candidates[i].fingerprint | view.number;
        struct cdl_pair *entry = n < firsts ? entries[i] : cdl_table_find_in(candidates[i].lines[1], tag);
        if (!take_present(&view, entry, tag, moment, requests[i].cost, &decisions[i]) &&
            take_slowly(store, &requests[i], now, &decisions[i]) != CAUDAL_OK)
            status = decisions[i].status; /* the limit was removed just now */
    }
    return status;
}

/* For a guess at where keys are: any number will do when there is no such limit. */
static inline uint64_t salt_of(const struct cdl_memory_store *store, uint32_t id)
{
    const struct cdl_limit_slot *slot = cdl_limits_find(store->limits, id);
    return slot == NULL ? 0 : cdl_limit_salt(slot);
}

/* Up to PREFETCH_BATCH requests: all first lines are on their way to the cache before one is needed. */
static int take_some(struct cdl_memory_store *store, const struct caudal_request *requests, size_t count,
                     struct cdl_instant *now, struct caudal_decision *decisions)
{
    struct candidate candidates[PREFETCH_BATCH];
    for (size_t from = 0, to; from < count; from = to) {
        const uint64_t salt = salt_of(store, requests[from].limit);
        for (to = from; to < count && requests[to].limit == requests[from].limit; to++) {
            if (__builtin_expect(cdl_check_request(&requests[to]) != CAUDAL_OK, false))
                return take_run_slowly(store, requests, count, now, decisions);
            const struct cdl_table_place place = cdl_table_place(&store->table, hash_of(store, &requests[to]), salt);
            candidates[to] = (struct candidate){{place.lines[0], place.lines[1]}, place.fingerprint};
            __builtin_prefetch(place.lines[0], 1);
        }
    }
    int first = CAUDAL_OK;
    for (size_t from = 0, to = 0; from < count; from = to) {
        while (to < count && requests[to].limit == requests[from].limit)
            to++;
        const int status = take_run(store, requests + from, candidates + from, to - from, now, decisions + from);
        first = first == CAUDAL_OK ? status : first;
    }
    return first;
}

static int memory_take_batch(struct caudal_store *head, const struct caudal_request *requests, size_t count,
                             struct cdl_instant *now, struct caudal_decision *decisions)
{
    int first = CAUDAL_OK;
    for (size_t i = 0; i < count; i += PREFETCH_BATCH) {
        size_t some = count - i < PREFETCH_BATCH ? count - i : PREFETCH_BATCH;
        const int status = take_some(cdl_memory_store(head), requests + i, some, now, decisions + i);
        first = first == CAUDAL_OK ? status : first;
    }
    return first;
}

/* Questions that are decided together. */
struct several {
    struct cdl_memory_store *store;
    const struct caudal_request *requests;
    const struct caudal_limit *const *limits; /* NULL: none comes with its call */
    const struct cdl_key_hash *hashes;
    size_t count;
    struct cdl_instant *now;
    struct caudal_decision *decisions;
};

static int ask_one(const struct several *several, size_t i, struct cdl_question question, struct cdl_instant *now,
                   struct caudal_decision *decision)
{
    question.limit = several->limits != NULL ? several->limits[i] : NULL;
    return decide_hashed(several->store, several->requests[i].limit, several->hashes[i], &question, now, decision);
}

/* Whether two of the requests are about the same key under the same limit. */
static bool are_twins(const struct several *several, size_t i, size_t j)
{
    return several->requests[i].limit == several->requests[j].limit &&
           several->hashes[i].low == several->hashes[j].low && several->hashes[i].high == several->hashes[j].high;
}

/* What requests up to and including `i` ask of the bucket of request `i`: the same one may be named more than once. */
static uint64_t cost_so_far(const struct several *several, size_t i)
{
    uint64_t cost = several->requests[i].cost;
    for (size_t j = 0; j < i; j++)
        if (are_twins(several, i, j) && __builtin_add_overflow(cost, several->requests[j].cost, &cost))
            return UINT64_MAX;
    return cost;
}

static bool is_per_call(struct cdl_memory_store *store, uint32_t id)
{
    struct inquiry inquiry = {.store = store};
    return read_limit(&inquiry, id) && inquiry.view.layout == CDL_LAYOUT_PER_CALL;
}

/* Whether a key is asked about by two limits at once, each of which would take the other for a change. */
static bool contradicts_itself(const struct several *several)
{
    for (size_t i = 1; several->limits != NULL && i < several->count; i++)
        for (size_t j = 0; j < i; j++)
            if (are_twins(several, i, j) && !cdl_per_call_is_same(several->limits[i], several->limits[j]) &&
                is_per_call(several->store, several->requests[i].limit))
                return true;
    return false;
}

/* Plan, then commit; what was charged is given back when a request that passed the plan is refused after all, because another
 * thread was faster. Sets *refused to the index of the first refusal of the commit, or to count. */
static int commit(const struct several *several, size_t *refused)
{
    struct cdl_instant *const now = several->now;
    int status = CAUDAL_OK;
    size_t done = 0;
    for (; done < several->count; done++) {
        struct caudal_decision *decision = &several->decisions[done];
        status = ask_one(several, done, cdl_question_take(several->requests[done].cost), now, decision);
        if (status != CAUDAL_OK || decision->verdict != CAUDAL_ALLOW)
            break;
    }
    *refused = done;
    if (done == several->count)
        return status;
    struct cdl_instant later = now->clock != NULL ? cdl_instant_read(now->clock) : *now;
    for (size_t i = 0; i < done; i++) {
        const struct cdl_question question = {
            .operation = CDL_UNDO,
            .maximum = several->requests[i].cost,
            .charged_monotonic_ns = now->monotonic_ns,
            .charged_realtime_ns = now->realtime_ns,
        };
        struct caudal_decision ignored;
        ask_one(several, i, question, &later, &ignored);
    }
    return status;
}

/* Before a take, buckets settle: one that refuses must not be anchored anew at each question, or it would never fill. */
static int peek_all(const struct several *several, bool settle, bool *pass)
{
    *pass = true;
    for (size_t i = 0; i < several->count; i++) {
        const uint64_t cost = cost_so_far(several, i);
        const struct cdl_question question = settle ? cdl_question_settle(cost) : cdl_question_peek(cost);
        const int status = ask_one(several, i, question, several->now, &several->decisions[i]);
        if (status != CAUDAL_OK)
            return status;
        *pass &= several->decisions[i].verdict == CAUDAL_ALLOW;
    }
    return CAUDAL_OK;
}

static int memory_decide_all(struct caudal_store *head, enum cdl_operation operation,
                             const struct caudal_request *requests, const struct caudal_limit *const *limits,
                             size_t count, struct cdl_instant *now, struct caudal_decision *decisions)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    struct cdl_key_hash hashes[CAUDAL_TAKE_ALL_MAX];
    for (size_t i = 0; i < count; i++)
        hashes[i] = hash_of(store, &requests[i]);
    const struct several several = {store, requests, limits, hashes, count, now, decisions};
    if (contradicts_itself(&several))
        return CAUDAL_ERR_ARGUMENT;

    bool pass;
    size_t refused = count;
    int status = peek_all(&several, operation == CDL_TAKE, &pass);
    if (pass && operation == CDL_PEEK)
        return status;
    if (status == CAUDAL_OK && pass)
        status = commit(&several, &refused);
    if (status != CAUDAL_OK || (pass && refused == count))
        return status;

    /* Refused: those that would have let the request pass report what they hold, unspent. */
    for (size_t i = 0; i < count; i++) {
        const bool says_no = pass ? i == refused : decisions[i].verdict != CAUDAL_ALLOW;
        if (!says_no && status == CAUDAL_OK)
            status = ask_one(&several, i, cdl_question_peek(0), now, &decisions[i]);
    }
    return status;
}

static void reset_narrow(struct inquiry *inquiry, uint16_t number)
{
    const struct cdl_table_place place = cdl_table_place(&inquiry->store->table, inquiry->hash, inquiry->view.salt);
    const uint64_t tag = place.fingerprint | number;
    struct cdl_pair *entry;
    while (number != 0 && (entry = cdl_table_find(&place, tag)) != NULL) {
        const struct cdl_pair was = cdl_pair_load(entry);
        if (was.first == tag && cdl_pair_swap(entry, was, (struct cdl_pair){0, 0}))
            return; /* once: what comes in from now on came after */
    }
}

static void reset_wide(struct inquiry *inquiry)
{
    struct cdl_wide_table *wide = &inquiry->store->wide;
    struct cdl_wide_stripe *stripe = cdl_wide_stripe(wide, inquiry->hash);
    pthread_mutex_lock(&stripe->lock);
    struct cdl_wide_record *record = cdl_wide_find(wide, stripe, inquiry->hash, inquiry->view.number);
    if (record != NULL)
        cdl_wide_remove(wide, stripe, record);
    pthread_mutex_unlock(&stripe->lock);
}

static int memory_reset(struct caudal_store *head, const struct caudal_request *request)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    struct inquiry inquiry = {.store = store, .hash = hash_of(store, request)};
    do { /* until the limit has not changed meanwhile: an entry could have been converted behind us */
        if (!read_limit(&inquiry, request->limit))
            return CAUDAL_ERR_UNKNOWN;
        reset_narrow(&inquiry, inquiry.view.previous_number);
        reset_narrow(&inquiry, inquiry.view.number);
        if (cdl_layout_is_wide(inquiry.view.layout))
            reset_wide(&inquiry);
    } while (!cdl_limit_unchanged(inquiry.slot, inquiry.version));
    return CAUDAL_OK;
}

/* ---- the store as a whole ---- */

static int memory_stats(struct caudal_store *head, struct caudal_store_stats *stats)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    struct cdl_instant now = cdl_instant_read(head->clock);
    struct cdl_memory_judge context = {store, &now};
    const struct cdl_table_judge judge = cdl_memory_table_judge(&context);
    const struct cdl_wide_judge wide_judge = cdl_memory_wide_judge(&context);
    pthread_mutex_lock(&store->limits->lock);
    stats->limits = store->limits->count;
    pthread_mutex_unlock(&store->limits->lock);
    stats->bytes = cdl_table_bytes(&store->table) + cdl_wide_bytes(&store->wide) + sizeof *store->limits;
    stats->slots = store->table.line_count * CDL_LINE_ENTRIES +
                   (uint64_t)store->wide.stripe_count * (store->wide.records_per_stripe - 1);
    stats->live_keys = stats->inserted = stats->live_evictions = 0;
    cdl_table_count(&store->table, &judge, &stats->live_keys, &stats->inserted, &stats->live_evictions);
    cdl_wide_count(&store->wide, &wide_judge, &stats->live_keys, &stats->inserted, &stats->live_evictions);
    return CAUDAL_OK;
}

static void memory_close(struct caudal_store *head)
{
    struct cdl_memory_store *store = cdl_memory_store(head);
    const struct caudal_allocator allocator = head->allocator;
    cdl_limits_close(store->limits, &allocator);
    cdl_wide_close(&store->wide, &allocator);
    cdl_table_close(&store->table, &allocator);
    explicit_bzero(store->secret, sizeof store->secret);
    cdl_release(&allocator, store, 1, sizeof *store);
}

static const struct cdl_store_ops memory_ops = {
    .close = memory_close,
    .stats = memory_stats,
    .add_limit = cdl_memory_add_limit,
    .add_per_call_limit = cdl_memory_add_per_call_limit,
    .find_limit = cdl_memory_find_limit,
    .get_limit = cdl_memory_get_limit,
    .set_limit = cdl_memory_set_limit,
    .remove_limit = cdl_memory_remove_limit,
    .take = memory_take,
    .decide = memory_decide,
    .reset = memory_reset,
    .decide_all = memory_decide_all,
    .take_batch = memory_take_batch,
    .expect = memory_expect,
    .expect_more = memory_expect_more,
};

struct sizes {
    uint64_t keys, wide_keys, log_entries;
};

static int read_sizes(const char *parameters, size_t position, struct sizes *sizes, struct caudal_problem *problem)
{
    *sizes = (struct sizes){1000000, 0, 0};
    const struct cdl_url_number numbers[] = {
        {"keys", 1, UINT64_C(1) << 32, &sizes->keys},
        {"wide_keys", 1, UINT64_C(1) << 28, &sizes->wide_keys},
        {"log_entries", 1, UINT64_C(1) << 30, &sizes->log_entries},
    };
    int status = cdl_url_numbers(parameters, position, numbers, sizeof numbers / sizeof numbers[0], problem);
    if (sizes->wide_keys == 0)
        sizes->wide_keys = sizes->keys < 1024 ? 1024 : cdl_min_u64(sizes->keys, UINT64_C(1) << 24);
    if (sizes->log_entries == 0)
        sizes->log_entries = sizes->keys < 65536 ? 65536 : cdl_min_u64(sizes->keys, UINT64_C(1) << 30);
    return status;
}

/* Opens the parts in turn; what has been opened is closed again when a later one fails. */
static struct cdl_memory_store *open_parts(const struct sizes *sizes, const struct caudal_allocator *allocator)
{
    struct cdl_memory_store *store = cdl_allocate(allocator, 1, sizeof *store, 64);
    if (store == NULL)
        return NULL;
    store->limits = cdl_limits_open(allocator);
    if (store->limits != NULL) {
        if (cdl_table_open(&store->table, sizes->keys, allocator)) {
            if (cdl_wide_open(&store->wide, sizes->wide_keys, sizes->log_entries, allocator))
                return store;
            cdl_table_close(&store->table, allocator);
        }
        cdl_limits_close(store->limits, allocator);
    }
    cdl_release(allocator, store, 1, sizeof *store);
    return NULL;
}

int cdl_memory_store_open(const char *url, const struct caudal_store_options *options, struct caudal_store **out,
                          struct caudal_problem *problem)
{
    const size_t scheme = strlen("memory:");
    if (url[scheme] != '\0' && url[scheme] != '?')
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, scheme, "expected '?' and parameters after 'memory:'");
    const size_t position = scheme + (url[scheme] == '?');
    struct sizes sizes;
    int status = read_sizes(url + position, position, &sizes, problem);
    if (status != CAUDAL_OK)
        return status;
    struct cdl_memory_store *store = open_parts(&sizes, options->allocator);
    if (store == NULL)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for a table of %llu keys",
                           (unsigned long long)sizes.keys);
    if (getrandom(store->secret, sizeof store->secret, 0) != (ssize_t)sizeof store->secret) {
        store->head = (struct caudal_store){&memory_ops, options->clock, *options->allocator};
        memory_close(&store->head);
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "the system gives no random bytes for the table's secret");
    }
    store->head = (struct caudal_store){&memory_ops, options->clock, *options->allocator};
    *out = &store->head;
    return CAUDAL_OK;
}
