/* The book of leases: see book.h for what it is, and why the bound holds.
 *
 * Keys live in sets of eight. A set's tags fill one line of the cache, and a key is found by looking through them. When a set is full, the
 * key that is nearest to useless is forgotten; what it had withdrawn is stranded, and refills in the store within ttl. One that somebody
 * waits for is never forgotten, and a key for which there is no room is one that nothing is known of: the store decides.
 *
 * Invariants:
 *   - a lot's tokens only ever become fewer, but for what was spent of them and is put back
 *   - a lot is spent before asked + ttl, and within the window that it was charged in
 *   - an errand's number is used once: its answer is taken when the entry still waits for just that number, and then never again
 *   - what is given back has left its lot before the store hears of it
 *   - a refusal holds for the cost that was refused, until asked + retry_after
 *   - whatever waits is released by the next answer about its key, or after ttl
 *
 * Demand is what was wanted in the last ttl, counted in two windows of that length, of which the older one counts by the part of it that lies
 * within. A key is hot when more than one request like the present one was wanted. Of a hot key one errand travels at a time. It asks at
 * least for all who wait for it, as they would have asked themselves: so a scarce bucket costs an instance one question in a round
 * trip, however many requests there are, and takes from nobody what is not wanted now. More than that is asked for ahead only as far as the
 * store has it to spare (the share), and demand will use it. Those who wait for more than an errand may bring ask the store themselves
 * while it may have that much. Each instance asks again at the instant at which its refusal ends: none is before the others. */
#include "store/lease/book_parts.h"

/* ---- decisions ---- */

/* Until the key is as new, at the most. */
static int64_t reset_after(const struct cdl_book_entry *entry, int64_t now_ns)
{
    if (!entry->is_window)
        return entry->full_ns;
    const int64_t left = entry->edge_ns > now_ns ? entry->edge_ns - now_ns : entry->period_ns;
    return entry->is_sliding ? left + entry->period_ns : left;
}

static void describe(const struct cdl_book_entry *entry, uint64_t granted, int64_t now_ns,
                     struct caudal_decision *decision)
{
    const uint64_t left = cdl_book_held(entry);
    *decision = (struct caudal_decision){
        .status = CAUDAL_OK,
        .verdict = CAUDAL_ALLOW,
        .source = CAUDAL_SOURCE_LEASE,
        .capacity = entry->capacity,
        .granted = granted,
        .remaining = left < entry->capacity ? left : entry->capacity,
        .reset_after_ns = reset_after(entry, now_ns),
    };
    decision->error_bound = entry->capacity - decision->remaining;
}

static bool is_refused(const struct cdl_book_entry *entry, uint64_t cost, int64_t now_ns)
{
    return entry->refusal.cost == cost && now_ns < entry->refusal.until_ns &&
           entry->refusal.refunds == entry->refunds && cost > 0;
}

/* Fewer than what was refused are there, until then. */
static void refuse(const struct cdl_book_entry *entry, int64_t now_ns, struct caudal_decision *decision)
{
    *decision = (struct caudal_decision){
        .status = CAUDAL_OK,
        .verdict = CAUDAL_DENY,
        .source = CAUDAL_SOURCE_DENY_CACHE,
        .capacity = entry->capacity,
        .retry_after_ns = entry->refusal.until_ns - now_ns,
        .reset_after_ns = reset_after(entry, now_ns),
        .error_bound = entry->refusal.cost - 1,
    };
}

/* Spends of what dies first. There is enough. */
static void spend(struct cdl_lease_book *book, struct cdl_book_entry *entry, uint64_t cost,
                  struct cdl_lease_spending *spending)
{
    struct cdl_book_lot *lots = entry->lots;
    const unsigned first = cdl_book_is_used_up(&lots[0]) ||
                           (!cdl_book_is_used_up(&lots[1]) && lots[1].dies_ns < lots[0].dies_ns);
    const uint64_t of_first = cdl_min_u64(cost, lots[first].tokens);
    lots[first].tokens -= of_first;
    lots[!first].tokens -= cost - of_first;
    if (__builtin_expect(cdl_book_is_used_up(&lots[first]), false)) {
        cdl_book_add(&book->counts.lots,
                     cdl_book_is_used_up(&lots[!first]) && cost > of_first ? (uint64_t)-2 : (uint64_t)-1);
        entry->low = UINT64_MAX; /* there is room for the next */
    }
    if (spending != NULL)
        *spending = (struct cdl_lease_spending){{lots[first].number, lots[!first].number}, {of_first, cost - of_first}};
}

/* ---- withdrawing ---- */

/* What the store has, as far as is known: what it last said, and what was refilled since. */
static uint64_t level(const struct cdl_book_entry *entry, int64_t now_ns)
{
    if (!entry->level_known || (entry->is_window && now_ns >= entry->edge_ns && entry->edge_ns != 0))
        return entry->capacity;
    uint64_t level = entry->level;
    if (!entry->is_window)
        level += cdl_min_u64(cdl_book_scale(entry->count, now_ns - entry->level_ns, entry->period_ns), entry->capacity);
    return cdl_min_u64(level, entry->capacity);
}

/* How much to withdraw: what there is to be had, and what will be spent of it while it lives. */
static uint64_t batch(const struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns)
{
    int64_t life_ns = entry->ttl_ns;
    if (entry->is_window && entry->edge_ns > now_ns)
        life_ns = entry->edge_ns - now_ns < life_ns ? entry->edge_ns - now_ns : life_ns;
    const uint64_t wanted = cdl_book_scale(cdl_book_demand(entry, now_ns), life_ns - cdl_book_round_trip(book),
                                           entry->ttl_ns);
    const uint64_t share = cdl_book_scale(level(entry, now_ns), entry->share_per_mille, 1000);
    const uint64_t has = cdl_book_held(entry);
    return cdl_min_u64(cdl_min_u64(cdl_book_room(entry), share), wanted - cdl_min_u64(wanted, has));
}

uint64_t cdl_book_size(const struct cdl_lease_book *book, struct cdl_book_entry *entry, uint64_t minimum,
                       int64_t now_ns)
{
    const uint64_t waits = cdl_min_u64(cdl_book_room(entry), minimum + entry->waiting + entry->released);
    const uint64_t ahead = batch(book, entry, now_ns), size = waits > ahead ? waits : ahead;
    return size > minimum ? size : minimum;
}

static void queue_withdrawal(struct cdl_lease_book *book, struct cdl_book_entry *entry, uint64_t minimum)
{
    entry->errand.state = CDL_BOOK_DUE;
    entry->errand.minimum = minimum;
    if (entry->errand.queued)
        return;
    entry->errand.queued = true;
    entry->next_due = NULL;
    if (book->first_due == NULL)
        book->first_due = entry;
    else
        book->last_due->next_due = entry;
    book->last_due = entry;
}

/* When to think about fetching next: when no more is left than is spent while an errand travels, or when what is left dies within that
 * time. Round trips vary, and whoever comes while there is nothing has to wait: a quarter of ttl is kept in hand. */
void cdl_book_set_marks(const struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns)
{
    const int64_t last_ns = cdl_book_last_death(entry);
    const int64_t ahead_ns = cdl_max_i64(cdl_book_round_trip(book), entry->ttl_ns / 4);
    entry->low = cdl_min_u64(cdl_book_scale(cdl_book_demand(entry, now_ns), ahead_ns, entry->ttl_ns), entry->batch / 2);
    entry->late_ns = last_ns == INT64_MIN ? INT64_MAX : last_ns - ahead_ns;
}

/* Something was spent, and there may be too little left. */
static void consider_fetching(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns)
{
    cdl_book_bury(book, entry, now_ns);
    cdl_book_set_marks(book, entry, now_ns);
    if (cdl_book_held(entry) > entry->low && now_ns < entry->late_ns)
        return;
    const bool may = entry->errand.state == CDL_BOOK_IDLE &&
                     (cdl_book_is_used_up(&entry->lots[0]) || cdl_book_is_used_up(&entry->lots[1])) &&
                     now_ns >= entry->not_before_ns && !is_refused(entry, entry->cost, now_ns);
    const uint64_t size = may ? batch(book, entry, now_ns) : 0;
    if (size / 2 >= entry->cost)
        queue_withdrawal(book, entry, entry->cost);
    /* Not again at every decision, but a little later, and when a lot has ended. An answer sets the marks anew. */
    entry->low = 0;
    entry->late_ns = now_ns + entry->ttl_ns / 16;
}

/* Whether that many tokens more than are asked for already may be had. One question is always asked. */
static bool may_be_had(const struct cdl_book_entry *entry, uint64_t asked, uint64_t cost, int64_t now_ns)
{
    return asked == 0 || asked + cost <= level(entry, now_ns);
}

/* The lots do not suffice. */
static enum cdl_lease_step ask_store(struct cdl_lease_book *book, struct cdl_book_entry *entry, uint64_t cost,
                                     bool insist, int64_t now_ns)
{
    const struct cdl_book_errand *errand = &entry->errand;
    if (insist || cost > entry->capacity || entry->count == 0 || cdl_book_demand(entry, now_ns) / 2 < cost)
        return CDL_LEASE_ASK;
    if (errand->state == CDL_BOOK_OUT && errand->gives_back)
        return CDL_LEASE_ASK;
    const uint64_t most = cdl_book_room(entry);
    if (errand->state == CDL_BOOK_IDLE && most / 2 >= cost) {
        queue_withdrawal(book, entry, cost);
        return CDL_LEASE_WITHDRAW;
    }
    if (errand->state != CDL_BOOK_IDLE) {
        if (errand->minimum + entry->waiting + cost <= most || !may_be_had(entry, entry->asked + most, cost, now_ns)) {
            entry->waiting += cost;
            return errand->state == CDL_BOOK_DUE ? CDL_LEASE_WITHDRAW : CDL_LEASE_WAIT;
        }
        return CDL_LEASE_ASK;
    }
    if (may_be_had(entry, entry->asked, cost, now_ns))
        return CDL_LEASE_ASK;
    entry->waiting += cost;
    return CDL_LEASE_WAIT;
}

enum cdl_lease_step cdl_lease_take(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, uint64_t cost,
                                   enum cdl_lease_mode mode, int64_t now_ns, struct caudal_decision *decision,
                                   struct cdl_lease_spending *spending)
{
    struct cdl_book_entry *entry = mode == CDL_LEASE_TRY ? cdl_book_look_up(book, subject)
                                                         : cdl_book_look_up_or_add(book, subject, now_ns);
    if (entry == NULL || cost == 0)
        return CDL_LEASE_ASK;
    cdl_book_bury(book, entry, now_ns);
    if (mode == CDL_LEASE_AGAIN || mode == CDL_LEASE_INSIST)
        entry->released -= cdl_min_u64(entry->released, cost);
    const bool pays = cost <= cdl_book_held(entry), refused = !pays && is_refused(entry, cost, now_ns);
    if (mode == CDL_LEASE_FIRST || (mode == CDL_LEASE_TRY && (pays || refused)))
        cdl_book_want(entry, cost, now_ns);
    if (pays) {
        spend(book, entry, cost, spending);
        describe(entry, cost, now_ns, decision);
        if (__builtin_expect(cdl_book_held(entry) <= entry->low || now_ns >= entry->late_ns, false))
            consider_fetching(book, entry, now_ns);
        return CDL_LEASE_DECIDED;
    }
    if (refused) {
        if (spending != NULL)
            *spending = (struct cdl_lease_spending){0};
        refuse(entry, now_ns, decision);
        return CDL_LEASE_DECIDED;
    }
    if (mode == CDL_LEASE_TRY)
        return CDL_LEASE_ASK;
    return ask_store(book, entry, cost, mode == CDL_LEASE_INSIST, now_ns);
}

void cdl_lease_put_back(struct cdl_lease_book *book, const struct cdl_lease_subject *subject,
                        const struct cdl_lease_spending *spending, bool unwanted, int64_t now_ns)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    if (entry != NULL)
        cdl_book_bury(book, entry, now_ns);
    for (unsigned i = 0; i < 2; i++) {
        struct cdl_book_lot *lot = NULL;
        for (unsigned k = 0; entry != NULL && k < 2; k++)
            if (spending->lots[i] != 0 && entry->lots[k].number == spending->lots[i])
                lot = &entry->lots[k];
        if (lot != NULL)
            cdl_book_change_lot(book, lot, lot->tokens + spending->tokens[i]);
        else
            cdl_book_add(&book->counts.stranded, spending->tokens[i]);
        if (entry != NULL && unwanted)
            entry->current -= cdl_min_u64(entry->current, spending->tokens[i]);
    }
}

bool cdl_lease_refused(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, uint64_t cost, bool takes,
                       int64_t now_ns, struct caudal_decision *decision)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    if (entry == NULL || !is_refused(entry, cost, now_ns))
        return false;
    cdl_book_bury(book, entry, now_ns);
    if (cost <= cdl_book_held(entry))
        return false;
    if (takes)
        cdl_book_want(entry, cost, now_ns);
    refuse(entry, now_ns, decision);
    return true;
}

void cdl_lease_describe(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, int64_t now_ns,
                        struct caudal_decision *decision)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    if (entry != NULL) {
        cdl_book_bury(book, entry, now_ns);
        describe(entry, 0, now_ns, decision);
        return;
    }
    struct cdl_book_entry nobody = {.late_ns = INT64_MAX};
    cdl_book_learn_limit(&nobody, subject);
    describe(&nobody, 0, now_ns, decision);
}

void cdl_lease_forget(struct cdl_lease_book *book, const struct cdl_lease_subject *subject)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    if (entry != NULL)
        cdl_book_clear(book, entry);
}

/* ---- what the store says ---- */

void cdl_book_note_round_trip(struct cdl_lease_book *book, const struct cdl_book_entry *entry, int64_t took_ns)
{
    if (took_ns >= 0 && took_ns < entry->ttl_ns)
        book->round_trip_ns += (took_ns - book->round_trip_ns) / 8;
}

/* Until when a question that was asked then would be answered no. For one cost the later end holds: both are true. */
static void note_refusal(struct cdl_book_entry *entry, uint64_t cost, int64_t until_ns, uint64_t refunds)
{
    struct cdl_book_refusal *refusal = &entry->refusal;
    if (refusal->cost == cost && refusal->refunds == refunds && refusal->until_ns > until_ns)
        return;
    *refusal = (struct cdl_book_refusal){cost, until_ns, refunds};
}

/* A window ends no earlier than this: the store decided after it was asked. */
static void note_edge(struct cdl_book_entry *entry, const struct caudal_decision *decision, int64_t asked_ns)
{
    if (!entry->is_window)
        return;
    if (decision->verdict == CAUDAL_ALLOW && decision->granted > 0)
        entry->edge_ns = cdl_book_later(asked_ns,
                                        decision->reset_after_ns - (entry->is_sliding ? entry->period_ns : 0));
    else if (decision->verdict == CAUDAL_DENY && !entry->is_sliding)
        entry->edge_ns = cdl_book_later(asked_ns, decision->retry_after_ns);
}

/* How long the store would have a second question like that wait, had it come right behind the first, which passed: until what the bucket
 * lacks leaves room for `cost`. It spares a scarce bucket every other question.
 *
 * The bucket is full after x, of which the store says R = ⌈x⌉, and room for `cost` is left y earlier: ⌈x − y⌉ ≥ R − ⌈y⌉. */
static int64_t wait_after_yes(const struct cdl_book_entry *entry, uint64_t cost, const struct caudal_decision *decision)
{
    if (entry->is_window || entry->count == 0 || decision->capacity != entry->capacity || cost > entry->capacity)
        return 0;
    const cdl_u128 room = (cdl_u128)(entry->capacity - cost) * (uint64_t)entry->period_ns;
    return cdl_clamp_i64(decision->reset_after_ns - (cdl_i128)((room + entry->count - 1) / entry->count));
}

void cdl_book_note_answer(struct cdl_book_entry *entry, uint64_t cost, const struct caudal_decision *decision,
                          int64_t asked_ns, uint64_t refunds, int64_t now_ns)
{
    entry->level_known = true;
    entry->level = decision->remaining;
    entry->level_ns = now_ns;
    note_edge(entry, decision, asked_ns);
    int64_t wait_ns = 0;
    if (decision->verdict == CAUDAL_DENY)
        wait_ns = decision->retry_after_ns;
    else if (decision->verdict == CAUDAL_ALLOW && decision->granted > 0)
        wait_ns = wait_after_yes(entry, cost, decision);
    if (wait_ns > 0)
        note_refusal(entry, cost, cdl_book_later(asked_ns, wait_ns), refunds);
}

void cdl_lease_asked(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, uint64_t cost,
                     int64_t now_ns, struct cdl_lease_question *question)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    *question = (struct cdl_lease_question){now_ns, cost, subject->edition, subject->refunds};
    cdl_book_add(&book->counts.store_calls, 1);
    if (entry != NULL)
        entry->asked += cdl_min_u64(cost, CAUDAL_CAPACITY_MAX); /* no sum of these overflows */
}

void cdl_lease_heard(struct cdl_lease_book *book, const struct cdl_lease_subject *subject,
                     const struct cdl_lease_question *question, const struct caudal_decision *decision, int event,
                     int64_t now_ns)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    if (entry == NULL)
        return;
    entry->asked -= cdl_min_u64(entry->asked, cdl_min_u64(question->cost, CAUDAL_CAPACITY_MAX));
    if (decision->status == CAUDAL_OK && question->edition == entry->edition) {
        cdl_book_note_round_trip(book, entry, now_ns - question->asked_ns);
        cdl_book_note_answer(entry, question->cost, decision, question->asked_ns, question->refunds, now_ns);
    }
    cdl_book_release(book, entry, false, decision->status, event);
}
