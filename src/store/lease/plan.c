/* How a call is divided between books and store.
 *
 *   a refusal that holds       decides a call that is decided together, before anything is spent
 *   leases                     pay for what they can. Of a call that is decided together the spending is tentative: when the store
 *                              refuses the rest, or fails, it goes back into the lots that it came from
 *   the rest                   is asked of the store, in one call
 *
 * Books are asked about takes of one cost that is not 0. What else is asked about a leased limit goes to the store: a peek unless a
 * refusal holds, a take_up_to, and refunds and resets, which also make their mark, so that no book believes what it knew before. A
 * call that names one key of a limit twice goes to the store whole: it is charged there for both. */
#include "store/lease/lease_parts.h"

/* ---- desks ---- */

static struct cdl_lease_book *enter(const struct cdl_lease_desk *desk, const uint64_t hash[2])
{
    if (desk->own != NULL)
        return desk->own;
    struct cdl_lease_stripe *stripe = cdl_lease_stripe_of(desk->store, hash);
    pthread_mutex_lock(&stripe->lock);
    return stripe->book;
}

static void leave(const struct cdl_lease_desk *desk, const uint64_t hash[2])
{
    if (desk->own != NULL)
        return;
    struct cdl_lease_stripe *stripe = cdl_lease_stripe_of(desk->store, hash);
    cdl_lease_tell_keeper(desk->store, stripe);
    pthread_mutex_unlock(&stripe->lock);
}

/* ---- subjects ---- */

static struct cdl_lease_mark *mark_of(const struct cdl_lease_store *store, const uint64_t hash[2])
{
    return &((struct cdl_lease_store *)(uintptr_t)store)->marks[hash[1] % CDL_LEASE_MARKS];
}

struct cdl_lease_subject cdl_lease_subject_of(const struct cdl_lease_store *store, const struct caudal_request *request,
                                              struct cdl_lease_item *item)
{
    const struct cdl_lease_mark *mark = mark_of(store, item->hash);
    return (struct cdl_lease_subject){
        .limit = request->limit,
        .hash = {item->hash[0], item->hash[1]},
        .key = request->key,
        .key_length = request->key_length,
        .rule = &item->view.rule,
        .terms = &item->view.terms,
        /* Both only grow, and so does their sum. */
        .edition = item->view.edition + atomic_load_explicit(&mark->resets, memory_order_acquire),
        .refunds = atomic_load_explicit(&mark->refunds, memory_order_acquire),
    };
}

uint64_t cdl_lease_edition(const struct cdl_lease_store *store, uint32_t limit, const uint64_t hash[2])
{
    struct cdl_lease_view view;
    cdl_lease_view_read(store, limit, &view);
    return view.edition + atomic_load_explicit(&mark_of(store, hash)->resets, memory_order_acquire);
}

static bool is_leased(const struct cdl_lease_view *view)
{
    return view->terms.ttl_ns > 0;
}

static bool is_take(const struct cdl_question *question)
{
    return question->operation == CDL_TAKE && question->minimum == question->maximum && question->maximum > 0;
}

/* As the limit and the key are now. */
static void look(const struct cdl_lease_desk *desk, const struct cdl_call *call, size_t i, struct cdl_lease_item *item)
{
    const struct caudal_request *request = &call->requests[i];
    cdl_lease_view_read(desk->store, request->limit, &item->view);
    item->leased = is_leased(&item->view);
    if (!item->leased)
        return;
    const struct cdl_key_hash hash = cdl_key_hash(desk->store->secret, request->key, request->key_length);
    item->hash[0] = hash.low;
    item->hash[1] = hash.high;
}

bool cdl_lease_concerns(const struct cdl_lease_store *store, const struct cdl_call *call)
{
    if (call->now_ns != NULL)
        return false;
    for (size_t i = 0; i < call->count; i++)
        if (cdl_lease_may_be_leased(store, call->requests[i].limit))
            return true;
    return false;
}

/* A key of a limit that is named twice. */
static bool has_twins(const struct cdl_call *call, const struct cdl_lease_item *items)
{
    for (size_t i = 1; call->together && i < call->count; i++)
        for (size_t k = 0; k < i; k++)
            if (items[i].leased && call->requests[i].limit == call->requests[k].limit &&
                items[i].hash[0] == items[k].hash[0] && items[i].hash[1] == items[k].hash[1])
                return true;
    return false;
}

/* ---- answers ---- */

void cdl_lease_fail(struct cdl_call *call, int status, enum cdl_store_event event)
{
    call->status = status;
    call->failure = event;
    for (size_t i = 0; i < call->count; i++)
        call->decisions[i] = (struct caudal_decision){.status = status};
}

/* What a request that would have passed holds, when another one was refused and the store is not asked. */
static void describe(const struct cdl_lease_desk *desk, const struct cdl_call *call, struct cdl_lease_item *items,
                     size_t i)
{
    struct caudal_decision *decision = &call->decisions[i];
    /* There is no view of a limit that comes with its call. */
    const struct caudal_limit *rule = items[i].view.id != 0 ? &items[i].view.rule : call->questions[i].limit;
    const uint64_t capacity = caudal_limit_capacity(rule);
    *decision = (struct caudal_decision){.verdict = CAUDAL_ALLOW, .capacity = capacity, .error_bound = capacity};
    if (capacity == UINT64_MAX) {
        decision->remaining = UINT64_MAX;
        decision->error_bound = 0;
    }
    if (!items[i].leased)
        return;
    const struct cdl_lease_subject subject = cdl_lease_subject_of(desk->store, &call->requests[i], &items[i]);
    struct cdl_lease_book *book = enter(desk, items[i].hash);
    cdl_lease_describe(book, &subject, cdl_lease_now(desk->store), decision);
    leave(desk, items[i].hash);
}

static void put_back(const struct cdl_lease_desk *desk, const struct cdl_call *call, struct cdl_lease_item *items,
                     bool unwanted)
{
    for (size_t i = 0; i < call->count; i++) {
        if (items[i].fate != CDL_FATE_DECIDED)
            continue;
        const struct cdl_lease_subject subject = cdl_lease_subject_of(desk->store, &call->requests[i], &items[i]);
        struct cdl_lease_book *book = enter(desk, items[i].hash);
        cdl_lease_put_back(book, &subject, &items[i].spending, unwanted, cdl_lease_now(desk->store));
        leave(desk, items[i].hash);
        items[i].spending = (struct cdl_lease_spending){0};
    }
}

/* Counts what books have decided of a call that is decided together; another's are counted one by one. */
static void count_decided(const struct cdl_lease_desk *desk, const struct cdl_call *call,
                          const struct cdl_lease_item *items)
{
    for (size_t i = 0; call->together && i < call->count; i++) {
        if (items[i].fate != CDL_FATE_DECIDED)
            continue;
        struct cdl_lease_book *book = enter(desk, items[i].hash);
        cdl_lease_book_decided(book, &call->decisions[i]);
        leave(desk, items[i].hash);
    }
}

static void succeed(struct cdl_call *call)
{
    call->status = CAUDAL_OK;
    call->failure = CDL_STORE_NONE;
    call->decided_at_ns = 0;
}

/* ---- the plan ---- */

/* Looks for refusals that hold; one is enough for a call that is decided together. */
static bool is_refused(const struct cdl_lease_desk *desk, struct cdl_call *call, struct cdl_lease_item *items)
{
    bool refused = false;
    for (size_t i = 0; i < call->count; i++) {
        if (!items[i].leased || call->questions[i].minimum != call->questions[i].maximum)
            continue;
        const struct cdl_lease_subject subject = cdl_lease_subject_of(desk->store, &call->requests[i], &items[i]);
        struct cdl_lease_book *book = enter(desk, items[i].hash);
        if (cdl_lease_refused(book, &subject, call->questions[i].maximum, is_take(&call->questions[i]),
                              cdl_lease_now(desk->store), &call->decisions[i])) {
            items[i].fate = CDL_FATE_DECIDED;
            refused = true;
        }
        leave(desk, items[i].hash);
    }
    return refused;
}

static enum cdl_lease_plan refuse(const struct cdl_lease_desk *desk, struct cdl_call *call,
                                  struct cdl_lease_item *items)
{
    for (size_t i = 0; i < call->count; i++)
        if (items[i].fate != CDL_FATE_DECIDED)
            describe(desk, call, items, i);
    count_decided(desk, call, items);
    succeed(call);
    return CDL_PLAN_DECIDED;
}

/* What a book says about one request. */
static enum cdl_lease_step step(const struct cdl_lease_desk *desk, struct cdl_call *call, struct cdl_lease_item *items,
                                size_t i, enum cdl_lease_mode mode)
{
    struct cdl_lease_item *item = &items[i];
    const struct cdl_question *question = &call->questions[i];
    const int64_t now_ns = cdl_lease_now(desk->store);
    const bool peeks = question->operation == CDL_PEEK && question->minimum == question->maximum;
    if (!item->leased || (!peeks && !is_take(question)))
        return CDL_LEASE_ASK;
    const struct cdl_lease_subject subject = cdl_lease_subject_of(desk->store, &call->requests[i], item);
    struct cdl_lease_book *book = enter(desk, item->hash);
    enum cdl_lease_step step = CDL_LEASE_ASK;
    if (mode == CDL_LEASE_FIRST && item->counted)
        mode = CDL_LEASE_AGAIN;
    if (!peeks)
        step = cdl_lease_take(book, &subject, question->maximum, mode, now_ns, &call->decisions[i], &item->spending);
    else if (cdl_lease_refused(book, &subject, question->maximum, false, now_ns, &call->decisions[i]))
        step = CDL_LEASE_DECIDED;
    if (step == CDL_LEASE_DECIDED && !call->together)
        cdl_lease_book_decided(book, &call->decisions[i]);
    if (desk->own == NULL)
        item->answers = cdl_lease_stripe_of(desk->store, item->hash)->answers;
    leave(desk, item->hash);
    item->counted = mode != CDL_LEASE_TRY;
    item->step = step;
    return step;
}

/* All that stand open are stepped. */
static enum cdl_lease_plan step_all(const struct cdl_lease_desk *desk, struct cdl_call *call,
                                    struct cdl_lease_item *items, enum cdl_lease_mode mode, size_t *waits_for)
{
    enum cdl_lease_plan plan = CDL_PLAN_DECIDED;
    for (size_t i = 0; i < call->count; i++) {
        if (items[i].fate == CDL_FATE_DECIDED)
            continue;
        const enum cdl_lease_step said = step(desk, call, items, i, mode);
        items[i].fate = said == CDL_LEASE_DECIDED ? CDL_FATE_DECIDED
                        : said == CDL_LEASE_ASK   ? CDL_FATE_ASK
                                                  : CDL_FATE_OPEN;
        if (items[i].fate == CDL_FATE_ASK && plan == CDL_PLAN_DECIDED)
            plan = CDL_PLAN_ASK;
        if (items[i].fate == CDL_FATE_OPEN && plan != CDL_PLAN_WAIT) {
            plan = CDL_PLAN_WAIT;
            *waits_for = i;
        }
        if (mode == CDL_LEASE_TRY && plan != CDL_PLAN_DECIDED)
            break;
    }
    return plan;
}

enum cdl_lease_plan cdl_lease_plan_call(const struct cdl_lease_desk *desk, struct cdl_call *call,
                                        struct cdl_lease_item *items, enum cdl_lease_mode mode, size_t *waits_for)
{
    bool whole = call->now_ns != NULL;
    for (size_t i = 0; i < call->count; i++)
        if (items[i].fate != CDL_FATE_DECIDED)
            look(desk, call, i, &items[i]);
    whole |= has_twins(call, items);
    for (size_t i = 0; whole && i < call->count; i++) {
        items[i].leased = false;
        items[i].fate = CDL_FATE_ASK;
    }
    if (whole)
        return CDL_PLAN_ASK;
    if (call->together && call->count > 1 && is_refused(desk, call, items))
        return refuse(desk, call, items);
    const enum cdl_lease_plan plan = step_all(desk, call, items, mode, waits_for);
    const bool undone = mode == CDL_LEASE_TRY ? plan != CDL_PLAN_DECIDED : call->together && plan == CDL_PLAN_WAIT;
    if (undone) {
        put_back(desk, call, items, mode == CDL_LEASE_TRY);
        for (size_t i = 0; i < call->count; i++)
            items[i].fate = CDL_FATE_OPEN;
    }
    if (plan != CDL_PLAN_DECIDED)
        return plan;
    for (size_t i = 0; call->together && i < call->count; i++)
        if (call->decisions[i].verdict != CAUDAL_ALLOW) {
            /* A refusal that was remembered between the two looks. */
            put_back(desk, call, items, false);
            for (size_t k = 0; k < call->count; k++)
                if (call->decisions[k].verdict == CAUDAL_ALLOW)
                    describe(desk, call, items, k);
            break;
        }
    count_decided(desk, call, items);
    succeed(call);
    return plan;
}

/* ---- the part of the store ---- */

/* Before the store is asked, and when it has answered. */
static void mark(const struct cdl_lease_desk *desk, const struct cdl_call *call, const struct cdl_lease_item *items,
                 size_t i)
{
    const enum cdl_operation operation = call->questions[i].operation;
    if (!items[i].leased)
        return;
    struct cdl_lease_mark *of_key = mark_of(desk->store, items[i].hash);
    if (operation == CDL_RESET)
        atomic_fetch_add_explicit(&of_key->resets, 1, memory_order_release);
    else if (operation == CDL_REFUND || operation == CDL_UNDO)
        atomic_fetch_add_explicit(&of_key->refunds, 1, memory_order_release);
}

size_t cdl_lease_plan_asked(const struct cdl_lease_desk *desk, const struct cdl_call *call,
                            struct cdl_lease_item *items, struct caudal_request *requests,
                            struct cdl_question *questions, uint8_t *of)
{
    size_t count = 0;
    for (size_t i = 0; i < call->count; i++) {
        if (items[i].fate != CDL_FATE_ASK)
            continue;
        requests[count] = call->requests[i];
        questions[count] = call->questions[i];
        of[count++] = (uint8_t)i;
        mark(desk, call, items, i);
        if (!items[i].leased || !is_take(&call->questions[i]))
            continue;
        const struct cdl_lease_subject subject = cdl_lease_subject_of(desk->store, &call->requests[i], &items[i]);
        struct cdl_lease_book *book = enter(desk, items[i].hash);
        cdl_lease_asked(book, &subject, call->questions[i].maximum, cdl_lease_now(desk->store), &items[i].question);
        leave(desk, items[i].hash);
    }
    return count;
}

/* Tells the book what the store has said about a request. */
static void tell_book(const struct cdl_lease_desk *desk, const struct cdl_call *call, struct cdl_lease_item *items,
                      size_t i, enum cdl_store_event event)
{
    struct cdl_lease_item *item = &items[i];
    mark(desk, call, items, i);
    if (!item->leased || !is_take(&call->questions[i]))
        return;
    struct cdl_lease_view view;
    cdl_lease_view_read(desk->store, call->requests[i].limit, &view);
    if (is_leased(&view))
        item->view = view;
    const struct cdl_lease_subject subject = cdl_lease_subject_of(desk->store, &call->requests[i], item);
    struct cdl_lease_book *book = enter(desk, item->hash);
    cdl_lease_heard(book, &subject, &item->question, &call->decisions[i], (int)event, cdl_lease_now(desk->store));
    if (desk->own == NULL) {
        struct cdl_lease_stripe *stripe = cdl_lease_stripe_of(desk->store, item->hash);
        stripe->answers++;
        pthread_cond_broadcast(&stripe->answered);
    }
    leave(desk, item->hash);
}

void cdl_lease_plan_finish(const struct cdl_lease_desk *desk, struct cdl_call *call, struct cdl_lease_item *items,
                           const struct cdl_call *asked, const uint8_t *of)
{
    bool refused = false;
    for (size_t k = 0; k < asked->count; k++) {
        call->decisions[of[k]] = asked->decisions[k];
        refused |= asked->decisions[k].status == CAUDAL_OK && asked->decisions[k].verdict != CAUDAL_ALLOW;
        tell_book(desk, call, items, of[k], asked->failure);
    }
    call->status = asked->status;
    call->failure = asked->failure;
    call->decided_at_ns = asked->decided_at_ns;
    if (call->together && asked->status != CAUDAL_OK) {
        put_back(desk, call, items, false);
        cdl_lease_fail(call, asked->status, asked->failure);
        return;
    }
    if (call->together && refused) {
        put_back(desk, call, items, false);
        for (size_t i = 0; i < call->count; i++)
            if (items[i].fate == CDL_FATE_DECIDED)
                describe(desk, call, items, i);
    }
    count_decided(desk, call, items);
}
