/* The errands of a book: what is withdrawn ahead of need and given back in time, and what comes of it. See book.c. */
#include "store/lease/book_parts.h"

/* When something has to be done about the entry. */
static void set_next_due(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns)
{
    int64_t due_ns = INT64_MAX;
    if (entry->errand.state == CDL_BOOK_OUT)
        due_ns = cdl_book_later(entry->errand.asked_ns, entry->ttl_ns);
    for (unsigned i = 0; i < 2; i++)
        if (cdl_book_is_live(&entry->lots[i]) && entry->lots[i].dies_ns < due_ns)
            due_ns = entry->lots[i].dies_ns;
    const int64_t look_ns = now_ns + entry->ttl_ns / 4;
    if (cdl_book_last_death(entry) > now_ns && look_ns < due_ns)
        due_ns = look_ns;
    cdl_book_set_due(book, entry, due_ns);
}

static void send(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns,
                 struct cdl_lease_errand *errand)
{
    entry->errand.state = CDL_BOOK_OUT;
    entry->errand.number = ++book->sequence * book->keys + (uint64_t)(entry - book->entries);
    entry->errand.asked_ns = now_ns;
    entry->errand.refunds = entry->refunds;
    cdl_book_add(&book->counts.store_calls, 1);
    *errand = (struct cdl_lease_errand){
        .number = entry->errand.number,
        .gives_back = entry->errand.gives_back,
        .limit = entry->limit,
        .hash = {entry->hash[0], entry->hash[1]},
        .edition = entry->edition,
        .key = entry->key,
        .key_length = entry->key_length,
    };
    set_next_due(book, entry, now_ns);
}

/* Those who have come to wait since it was found to be needed are thought of, too. */
static void send_withdrawal(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns,
                            struct cdl_lease_errand *errand)
{
    const uint64_t minimum = entry->errand.minimum;
    const uint64_t maximum = cdl_book_size(book, entry, minimum, now_ns);
    entry->errand.gives_back = false;
    send(book, entry, now_ns, errand);
    errand->question = (struct cdl_question){.operation = CDL_TAKE, .minimum = minimum, .maximum = maximum};
}

/* Whether nobody wants the key any more: nobody did for ttl/4, and for longer than is usual between two requests. */
static bool is_idle(struct cdl_book_entry *entry, int64_t now_ns)
{
    const int64_t silent_ns = now_ns - entry->wanted_ns;
    const uint64_t usual = cdl_book_scale(cdl_book_demand(entry, now_ns), silent_ns, entry->ttl_ns);
    return silent_ns >= entry->ttl_ns / 4 && usual / 4 >= entry->cost;
}

/* How much of what is held will not be spent. A little too much is no reason to ask the store. */
static uint64_t surplus(struct cdl_book_entry *entry, int64_t now_ns)
{
    const uint64_t has = cdl_book_held(entry);
    if (is_idle(entry, now_ns))
        return has;
    const uint64_t spent = cdl_book_scale(cdl_book_demand(entry, now_ns), cdl_book_last_death(entry) - now_ns,
                                          entry->ttl_ns);
    const uint64_t more = has - cdl_min_u64(has, spent);
    return more >= has / 2 && more > entry->cost ? more : 0;
}

/* Gives back from the youngest lot, if the store would take anything: what has been refilled since the charge is not given back. */
static bool give_back(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns,
                      struct cdl_lease_errand *errand)
{
    const uint64_t more = surplus(entry, now_ns);
    struct cdl_book_lot *lots = entry->lots;
    struct cdl_book_lot *lot =
        &lots[cdl_book_is_used_up(&lots[0]) || (!cdl_book_is_used_up(&lots[1]) && lots[1].asked_ns > lots[0].asked_ns)];
    const uint64_t tokens = cdl_min_u64(more, lot->tokens);
    const uint64_t gone = entry->is_window ? 0 : cdl_book_scale(entry->count, now_ns - lot->asked_ns, entry->period_ns);
    if (tokens <= gone || lot->charged_realtime_ns == 0)
        return false;
    const struct cdl_question question = {
        .operation = CDL_UNDO,
        .maximum = tokens,
        .charged_monotonic_ns = lot->asked_ns,
        .charged_realtime_ns = lot->charged_realtime_ns,
    };
    cdl_book_change_lot(book, lot, lot->tokens - tokens);
    cdl_book_add(&book->counts.given_back, tokens);
    cdl_book_bury(book, entry, now_ns);
    entry->errand.gives_back = true;
    send(book, entry, now_ns, errand);
    errand->question = question;
    return true;
}

/* An errand that has not come back by now will bring nothing that could be spent. */
static void give_up(struct cdl_lease_book *book, struct cdl_book_entry *entry)
{
    if (!entry->errand.gives_back)
        entry->errand.given_up = entry->errand.number;
    entry->errand.state = CDL_BOOK_IDLE;
    entry->errand.number = 0;
    cdl_book_release(book, entry, true, CAUDAL_OK, 0);
}

/* Does what is due of an entry. True: `errand` is to be sent. */
static bool turn(struct cdl_lease_book *book, struct cdl_book_entry *entry, int64_t now_ns,
                 struct cdl_lease_errand *errand)
{
    cdl_book_bury(book, entry, now_ns);
    if (entry->errand.state == CDL_BOOK_OUT && now_ns >= cdl_book_later(entry->errand.asked_ns, entry->ttl_ns))
        give_up(book, entry);
    if (entry->errand.state == CDL_BOOK_IDLE && cdl_book_held(entry) > 0 && give_back(book, entry, now_ns, errand))
        return true;
    set_next_due(book, entry, now_ns);
    return false;
}

bool cdl_lease_next(struct cdl_lease_book *book, int64_t now_ns, struct cdl_lease_errand *errand)
{
    while (book->heap_count > 0 && book->entries[book->heap[0]].due_ns <= now_ns)
        if (turn(book, &book->entries[book->heap[0]], now_ns, errand))
            return true;
    while (book->first_due != NULL) {
        struct cdl_book_entry *entry = book->first_due;
        book->first_due = entry->next_due;
        entry->errand.queued = false;
        if (entry->errand.state != CDL_BOOK_DUE)
            continue;
        send_withdrawal(book, entry, now_ns, errand);
        return true;
    }
    return false;
}

bool cdl_lease_next_of(struct cdl_lease_book *book, const struct cdl_lease_subject *subject, int64_t now_ns,
                       struct cdl_lease_errand *errand)
{
    struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    if (entry == NULL || entry->errand.state != CDL_BOOK_DUE)
        return false;
    send_withdrawal(book, entry, now_ns, errand);
    return true;
}

bool cdl_lease_is_coming(struct cdl_lease_book *book, const struct cdl_lease_subject *subject)
{
    const struct cdl_book_entry *entry = cdl_book_look_up(book, subject);
    return entry != NULL && (entry->errand.state == CDL_BOOK_OUT || entry->asked > 0);
}

int64_t cdl_lease_due(const struct cdl_lease_book *book)
{
    if (book->first_due != NULL)
        return INT64_MIN;
    return book->heap_count > 0 ? book->entries[book->heap[0]].due_ns : INT64_MAX;
}

/* Rests of two lots become one, which dies when the first of them would have. It is no one charge any more, and is not given back. */
static struct cdl_book_lot *merge(struct cdl_lease_book *book, struct cdl_book_entry *entry)
{
    struct cdl_book_lot *lots = entry->lots;
    const unsigned first = lots[1].dies_ns < lots[0].dies_ns;
    const uint64_t rest = lots[!first].tokens;
    cdl_book_change_lot(book, &lots[!first], 0);
    cdl_book_change_lot(book, &lots[first], lots[first].tokens + rest);
    lots[first].charged_realtime_ns = 0;
    return &lots[!first];
}

/* What was granted becomes a lot, if there is still time to spend it. */
static void add_lot(struct cdl_lease_book *book, struct cdl_book_entry *entry, const struct caudal_decision *decision,
                    int64_t decided_at_ns, int64_t now_ns)
{
    int64_t dies_ns = cdl_book_later(entry->errand.asked_ns, entry->ttl_ns);
    if (entry->is_window && entry->edge_ns < dies_ns)
        dies_ns = entry->edge_ns;
    cdl_book_bury(book, entry, now_ns);
    if (now_ns >= dies_ns) {
        cdl_book_add(&book->counts.stranded, decision->granted);
        return;
    }
    struct cdl_book_lot *lot = cdl_book_is_used_up(&entry->lots[0])   ? &entry->lots[0]
                               : cdl_book_is_used_up(&entry->lots[1]) ? &entry->lots[1]
                                                                      : merge(book, entry);
    *lot = (struct cdl_book_lot){
        .number = entry->errand.number,
        .tokens = decision->granted,
        .asked_ns = entry->errand.asked_ns,
        .dies_ns = dies_ns,
        .charged_realtime_ns = decided_at_ns,
    };
    cdl_book_add(&book->counts.lots, 1);
}

void cdl_lease_answered(struct cdl_lease_book *book, uint64_t number, const struct caudal_decision *decision,
                        int64_t decided_at_ns, uint64_t edition, int event, int64_t now_ns)
{
    struct cdl_book_entry *entry = &book->entries[number % book->keys];
    const bool granted = decision->status == CAUDAL_OK && decision->verdict == CAUDAL_ALLOW && decision->granted > 0;
    if (number == 0 || entry->errand.state != CDL_BOOK_OUT || entry->errand.number != number) {
        if (granted && number != 0 && entry->errand.given_up == number) {
            cdl_book_add(&book->counts.stranded, decision->granted);
            entry->errand.given_up = 0;
        }
        return;
    }
    const struct cdl_book_errand errand = entry->errand;
    if (entry->edition < edition) {
        if (granted)
            cdl_book_add(&book->counts.stranded, decision->granted);
        cdl_book_clear(book, entry);
        return;
    }
    if (decision->status != CAUDAL_OK) {
        entry->not_before_ns = now_ns + entry->ttl_ns / 8;
    } else if (!errand.gives_back) {
        cdl_book_note_round_trip(book, entry, now_ns - errand.asked_ns);
        cdl_book_note_answer(entry, errand.minimum, decision, errand.asked_ns, errand.refunds, now_ns);
        if (granted)
            add_lot(book, entry, decision, decided_at_ns, now_ns);
    }
    entry->errand.state = CDL_BOOK_IDLE;
    entry->errand.number = 0;
    cdl_book_set_marks(book, entry, now_ns);
    set_next_due(book, entry, now_ns);
    cdl_book_release(book, entry, false, errand.gives_back ? CAUDAL_OK : decision->status, event);
}
