/* For those who can wait: library users and the command line. They share a few books by key, each behind a lock that is never held while
 * the store is asked. Whoever finds that an errand is needed now carries it out; others who need its answer wait until it is back. What
 * is needed ahead of time, and what is given back, is the keeper's. */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "store/lease/lease_parts.h"

#define KEYS_PER_STRIPE 256u
#define PATIENCE 3 /* rounds of waiting after which the store is asked */

struct cdl_lease_stripe *cdl_lease_stripe_of(const struct cdl_lease_store *store, const uint64_t hash[2])
{
    /* Other bits than those that choose a place in the book. */
    return &((struct cdl_lease_store *)(uintptr_t)store)->stripes[hash[1] >> 32 & (CDL_LEASE_STRIPES - 1)];
}

/* The lock of the stripe is held, and given up while the store is asked. */
static void carry_out(struct cdl_lease_store *store, struct cdl_lease_stripe *stripe,
                      const struct cdl_lease_errand *errand)
{
    unsigned char key[CDL_LEASE_KEY_MAX];
    struct caudal_decision decision = {.status = CAUDAL_ERR_UNKNOWN};
    const struct caudal_request request = {errand->limit, key, errand->key_length, errand->question.maximum};
    struct cdl_call call = {
        .requests = &request, .questions = &errand->question, .decisions = &decision, .count = 1, .for_book = true};
    memcpy(key, errand->key, errand->key_length);
    pthread_mutex_unlock(&stripe->lock);
    const struct caudal_clock *clock = store->head.clock;
    const int64_t before_ns = clock->realtime_ns(clock->context);
    if (cdl_lease_edition(store, errand->limit, errand->hash) == errand->edition)
        cdl_store_ask(store->inner, NULL, &call);
    /* A store that answers at once has our clock. The earlier it seems to have decided, the less is given back. */
    if (call.decided_at_ns == 0 && !cdl_store_answers_later(store->inner))
        call.decided_at_ns = before_ns;
    const uint64_t edition = cdl_lease_edition(store, errand->limit, errand->hash);
    pthread_mutex_lock(&stripe->lock);
    cdl_lease_answered(stripe->book, errand->number, &decision, call.decided_at_ns, edition, (int)call.failure,
                       cdl_lease_now(store));
    stripe->answers++;
    if (decision.status == CAUDAL_ERR_STORE && !errand->gives_back) {
        stripe->failed_at = stripe->answers;
        stripe->failure = decision.status;
        stripe->event = (int)call.failure;
    }
    pthread_cond_broadcast(&stripe->answered);
}

/* Carries out the errand that the item needs, or waits for an answer. False: an errand has failed, and the call with it. */
static bool wait_for(struct cdl_lease_store *store, struct cdl_call *call, struct cdl_lease_item *item, size_t i)
{
    const struct cdl_lease_subject subject = cdl_lease_subject_of(store, &call->requests[i], item);
    struct cdl_lease_stripe *stripe = cdl_lease_stripe_of(store, item->hash);
    struct cdl_lease_errand errand;
    bool failed = false;
    pthread_mutex_lock(&stripe->lock);
    if (item->step == CDL_LEASE_WITHDRAW && cdl_lease_next_of(stripe->book, &subject, cdl_lease_now(store), &errand)) {
        carry_out(store, stripe, &errand);
        failed = stripe->failed_at == stripe->answers;
    } else {
        cdl_lease_waits(stripe->book);
        while (stripe->answers == item->answers && cdl_lease_is_coming(stripe->book, &subject))
            pthread_cond_wait(&stripe->answered, &stripe->lock);
    }
    if (failed)
        cdl_lease_fail(call, stripe->failure, (enum cdl_store_event)stripe->event);
    cdl_lease_tell_keeper(store, stripe);
    pthread_mutex_unlock(&stripe->lock);
    return !failed;
}

static void ask_rest(struct cdl_lease_store *store, struct cdl_call *call, struct cdl_lease_item *items)
{
    const struct cdl_lease_desk desk = {store, NULL};
    struct caudal_request requests[CAUDAL_TAKE_ALL_MAX];
    struct cdl_question questions[CAUDAL_TAKE_ALL_MAX];
    struct caudal_decision decisions[CAUDAL_TAKE_ALL_MAX];
    uint8_t of[CAUDAL_TAKE_ALL_MAX];
    struct cdl_call asked = {
        .requests = requests, .questions = questions, .decisions = decisions, .together = call->together};
    asked.count = cdl_lease_plan_asked(&desk, call, items, requests, questions, of);
    cdl_store_ask(store->inner, NULL, &asked);
    cdl_lease_plan_finish(&desk, call, items, &asked, of);
}

void cdl_lease_ask_and_wait(struct caudal_store *head, struct cdl_call *call)
{
    struct cdl_lease_store *store = cdl_lease_store(head);
    if (!atomic_load_explicit(&store->keeper_works, memory_order_acquire) || !cdl_lease_concerns(store, call)) {
        cdl_store_ask(store->inner, NULL, call);
        return;
    }
    const struct cdl_lease_desk desk = {store, NULL};
    struct cdl_lease_item items[CAUDAL_TAKE_ALL_MAX];
    for (size_t i = 0; i < call->count; i++)
        items[i] = (struct cdl_lease_item){0};
    for (int round = 0;; round++) {
        size_t i;
        const enum cdl_lease_mode mode = round < PATIENCE ? CDL_LEASE_FIRST : CDL_LEASE_INSIST;
        const enum cdl_lease_plan plan = cdl_lease_plan_call(&desk, call, items, mode, &i);
        if (plan == CDL_PLAN_DECIDED)
            return;
        if (plan == CDL_PLAN_ASK) {
            ask_rest(store, call, items);
            return;
        }
        if (!wait_for(store, call, &items[i], i))
            return;
    }
}

/* ---- the keeper ---- */

void cdl_lease_tell_keeper(struct cdl_lease_store *store, const struct cdl_lease_stripe *stripe)
{
    const int64_t due_ns = cdl_lease_due(stripe->book);
    if (due_ns >= atomic_load_explicit(&store->keeper_due_ns, memory_order_relaxed))
        return;
    pthread_mutex_lock(&store->keeper_lock);
    if (due_ns < store->keeper_due_ns) {
        store->keeper_due_ns = due_ns;
        pthread_cond_signal(&store->keeper_wake);
    }
    pthread_mutex_unlock(&store->keeper_lock);
}

/* Sends what is due of a stripe. Returns when something is due next. */
static int64_t keep(struct cdl_lease_store *store, struct cdl_lease_stripe *stripe)
{
    struct cdl_lease_errand errand;
    pthread_mutex_lock(&stripe->lock);
    while (cdl_lease_next(stripe->book, cdl_lease_now(store), &errand))
        carry_out(store, stripe, &errand);
    const int64_t due_ns = cdl_lease_due(stripe->book);
    pthread_mutex_unlock(&stripe->lock);
    return due_ns;
}

/* Waits until then, by the store's clock, or until somebody wants something earlier. The lock is held. */
static void sleep_until_due(struct cdl_lease_store *store)
{
    const struct caudal_clock *clock = caudal_clock_system();
    if (store->keeper_due_ns == INT64_MAX) {
        pthread_cond_wait(&store->keeper_wake, &store->keeper_lock);
        return;
    }
    const int64_t left_ns = store->keeper_due_ns - cdl_lease_now(store);
    const int64_t until_ns = clock->monotonic_ns(clock->context) + left_ns;
    const struct timespec until = {until_ns / CDL_NS_PER_S, until_ns % CDL_NS_PER_S};
    pthread_cond_timedwait(&store->keeper_wake, &store->keeper_lock, &until);
}

static void *run_keeper(void *context)
{
    struct cdl_lease_store *store = context;
    pthread_mutex_lock(&store->keeper_lock);
    while (!store->keeper_ends) {
        if (store->keeper_due_ns > cdl_lease_now(store)) {
            sleep_until_due(store);
            continue;
        }
        store->keeper_due_ns = INT64_MAX; /* what comes up meanwhile is told */
        pthread_mutex_unlock(&store->keeper_lock);
        int64_t due_ns = INT64_MAX;
        for (size_t i = 0; i < CDL_LEASE_STRIPES; i++) {
            const int64_t its_ns = keep(store, &store->stripes[i]);
            due_ns = its_ns < due_ns ? its_ns : due_ns;
        }
        pthread_mutex_lock(&store->keeper_lock);
        store->keeper_due_ns = due_ns < store->keeper_due_ns ? due_ns : store->keeper_due_ns;
    }
    pthread_mutex_unlock(&store->keeper_lock);
    return NULL;
}

static bool start_thread(struct cdl_lease_store *store)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    const bool started = pthread_create(&store->keeper, NULL, run_keeper, store) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

int cdl_lease_start_keeper(struct cdl_lease_store *store)
{
    if (store->keeper_runs)
        return CAUDAL_OK;
    for (size_t i = 0; i < CDL_LEASE_STRIPES; i++) {
        struct cdl_lease_stripe *stripe = &store->stripes[i];
        if (stripe->book == NULL)
            stripe->book = cdl_lease_book_open(&store->head.allocator, KEYS_PER_STRIPE);
        if (stripe->book == NULL)
            return CAUDAL_ERR_MEMORY;
    }
    store->keeper_runs = start_thread(store);
    if (!store->keeper_runs)
        return CAUDAL_ERR_MEMORY;
    atomic_store_explicit(&store->keeper_works, true, memory_order_release);
    return CAUDAL_OK;
}

void cdl_lease_stop_keeper(struct cdl_lease_store *store)
{
    if (store->keeper_runs) {
        pthread_mutex_lock(&store->keeper_lock);
        store->keeper_ends = true;
        pthread_cond_signal(&store->keeper_wake);
        pthread_mutex_unlock(&store->keeper_lock);
        pthread_join(store->keeper, NULL);
    }
    for (size_t i = 0; i < CDL_LEASE_STRIPES; i++)
        cdl_lease_book_close(store->stripes[i].book);
}
