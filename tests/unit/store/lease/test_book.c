/* The book of leases, whose store is this file: each thing that it promises, one by one, and then a long random run beside a model that
 * keeps the same accounts in the plainest way. */
#include "store/lease/book.h"

#include "../../support.h"
#include "store/store.h"

#define TTL (100 * MILLISECOND)
#define START (1000 * SECOND)

static struct cdl_lease_book *book;
static struct caudal_limit rule;
static struct cdl_lease_terms terms;
static struct cdl_lease_subject subject;
static int64_t now;

/* 1,000 a second, and as many at once. A batch is 100 at the most. */
static int setup(void **state)
{
    (void)state;
    now = START;
    book = cdl_lease_book_open(cdl_allocator_default(), 64);
    assert_non_null(book);
    rule = bucket_of(1000, 1000, SECOND);
    terms = (struct cdl_lease_terms){TTL, 500, false};
    subject = (struct cdl_lease_subject){
        .limit = 7, .hash = {11, 12}, .key = "key", .key_length = 3, .rule = &rule, .terms = &terms, .edition = 1};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cdl_lease_release_all(book, CAUDAL_OK, 0);
    cdl_lease_book_close(book);
    return 0;
}

/* ---- the store's part ---- */

static struct caudal_decision allow(uint64_t granted, uint64_t remaining)
{
    return (struct caudal_decision){
        .verdict = CAUDAL_ALLOW, .capacity = 1000, .granted = granted, .remaining = remaining, .reset_after_ns = 1};
}

static struct caudal_decision deny(int64_t retry_after_ns)
{
    return (struct caudal_decision){
        .verdict = CAUDAL_DENY, .capacity = 1000, .retry_after_ns = retry_after_ns, .reset_after_ns = SECOND};
}

static void answer(uint64_t number, struct caudal_decision decision)
{
    cdl_lease_answered(book, number, &decision, EPOCH, subject.edition, 0, now);
}

static struct caudal_decision decision;
static struct cdl_lease_spending spending;

static enum cdl_lease_step ask(uint64_t cost)
{
    return cdl_lease_take(book, &subject, cost, CDL_LEASE_FIRST, now, &decision, &spending);
}

static struct cdl_lease_counts counts(void)
{
    struct cdl_lease_counts sum = {0};
    cdl_lease_book_count(book, &sum);
    return sum;
}

static struct cdl_lease_errand next(void)
{
    struct cdl_lease_errand errand;
    assert_true(cdl_lease_next(book, now, &errand));
    return errand;
}

static void assert_no_errand(void)
{
    struct cdl_lease_errand errand;
    assert_false(cdl_lease_next(book, now, &errand));
}

/* The store decides, and says yes. */
static void strict(uint64_t cost, struct caudal_decision said)
{
    struct cdl_lease_question question;
    cdl_lease_asked(book, &subject, cost, now, &question);
    cdl_lease_heard(book, &subject, &question, &said, 0, now);
}

/* Wanted often enough that an errand of `size` tokens comes about, and then answered: the lot has what is left of it. */
static void lease(uint64_t size)
{
    assert_int_equal(ask(1), CDL_LEASE_ASK);
    strict(1, allow(1, 999));
    for (uint64_t i = 1; i < 200; i++)
        ask(1);
    const struct cdl_lease_errand errand = next();
    assert_true(errand.question.maximum >= size);
    answer(errand.number, allow(size, 900));
}

/* ---- hot and cold ---- */

static void a_cold_key_is_decided_by_the_store(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(ask(1), CDL_LEASE_ASK);
        strict(1, allow(1, 999));
        now += 2 * TTL;
    }
    assert_no_errand();
    assert_int_equal(counts().store_calls, 10);
    assert_int_equal(counts().lots, 0);
}

static void a_hot_key_is_withdrawn_once_and_others_wait(void **state)
{
    (void)state;
    assert_int_equal(ask(1), CDL_LEASE_ASK);
    assert_int_equal(ask(1), CDL_LEASE_WITHDRAW);
    assert_int_equal(ask(1), CDL_LEASE_WITHDRAW); /* it has not been sent yet */
    const struct cdl_lease_errand errand = next();
    assert_false(errand.gives_back);
    assert_int_equal(errand.limit, 7);
    assert_memory_equal(errand.key, "key", 3);
    assert_int_equal(errand.key_length, 3);
    assert_int_equal(errand.question.operation, CDL_TAKE);
    assert_int_equal(errand.question.minimum, 1);
    assert_true(errand.question.maximum > 1);
    struct cdl_lease_waiter waiters[3];
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask(1), CDL_LEASE_WAIT);
        cdl_lease_wait(book, &subject, &waiters[i]);
    }
    assert_no_errand();
    assert_null(cdl_lease_released(book));
    answer(errand.number, allow(10, 900));
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(cdl_lease_released(book), &waiters[i]);
        assert_int_equal(waiters[i].failure, CAUDAL_OK);
        assert_int_equal(cdl_lease_take(book, &subject, 1, CDL_LEASE_AGAIN, now, &decision, NULL), CDL_LEASE_DECIDED);
    }
    assert_null(cdl_lease_released(book));
    assert_int_equal(decision.remaining, 7);
    assert_int_equal(counts().waits, 3);
}

static void trying_changes_nothing_unless_it_decides(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(cdl_lease_take(book, &subject, 1, CDL_LEASE_TRY, now, &decision, NULL), CDL_LEASE_ASK);
    assert_int_equal(ask(1), CDL_LEASE_ASK);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(cdl_lease_take(book, &subject, 1, CDL_LEASE_TRY, now, &decision, NULL), CDL_LEASE_ASK);
    assert_no_errand();
    assert_int_equal(ask(1), CDL_LEASE_WITHDRAW);
    assert_int_equal(next().question.maximum, 1); /* two are wanted, and not 202 */
}

static void what_it_says_of_a_lease_is_what_it_holds(void **state)
{
    (void)state;
    lease(50);
    for (uint64_t left = 50; left > 0; left--) {
        assert_int_equal(ask(1), CDL_LEASE_DECIDED);
        assert_int_equal(decision.status, CAUDAL_OK);
        assert_int_equal(decision.verdict, CAUDAL_ALLOW);
        assert_int_equal(decision.source, CAUDAL_SOURCE_LEASE);
        assert_int_equal(decision.capacity, 1000);
        assert_int_equal(decision.granted, 1);
        assert_int_equal(decision.remaining, left - 1);
        assert_int_equal(decision.error_bound, 1000 - decision.remaining);
        assert_int_equal(decision.retry_after_ns, 0);
        assert_int_equal(decision.reset_after_ns, SECOND);
    }
    assert_int_not_equal(ask(1), CDL_LEASE_DECIDED);
}

/* ---- how long it lasts ---- */

static void a_lot_dies_ttl_after_the_asking(void **state)
{
    (void)state;
    assert_int_equal(ask(1), CDL_LEASE_ASK);
    strict(1, allow(1, 999));
    for (unsigned i = 0; i < 99; i++)
        ask(1);
    const struct cdl_lease_errand errand = next();
    now += TTL / 2; /* the answer is long in coming */
    answer(errand.number, allow(50, 900));
    now = START + TTL - 1;
    assert_int_equal(ask(1), CDL_LEASE_DECIDED);
    now = START + TTL;
    assert_int_not_equal(ask(1), CDL_LEASE_DECIDED);
    assert_int_equal(counts().stranded, 49);
    assert_int_equal(counts().lots, 0);
}

static void an_answer_that_takes_ttl_grants_nothing(void **state)
{
    (void)state;
    assert_int_equal(ask(1), CDL_LEASE_ASK);
    strict(1, allow(1, 999));
    for (unsigned i = 0; i < 99; i++)
        ask(1);
    const struct cdl_lease_errand errand = next();
    struct cdl_lease_waiter waiter;
    cdl_lease_wait(book, &subject, &waiter);
    assert_int_equal(cdl_lease_due(book), START + TTL);
    now = START + TTL;
    assert_no_errand();
    assert_ptr_equal(cdl_lease_released(book), &waiter);
    assert_true(waiter.given_up);
    assert_int_equal(cdl_lease_take(book, &subject, 1, CDL_LEASE_INSIST, now, &decision, NULL), CDL_LEASE_ASK);
    answer(errand.number, allow(50, 900));
    assert_int_not_equal(ask(1), CDL_LEASE_DECIDED);
    assert_int_equal(counts().stranded, 50);
    assert_int_equal(counts().lots, 0);
}

static void an_answer_counts_once_and_only_to_a_question(void **state)
{
    (void)state;
    assert_int_equal(ask(1), CDL_LEASE_ASK);
    strict(1, allow(1, 999));
    for (unsigned i = 0; i < 99; i++)
        ask(1);
    const struct cdl_lease_errand errand = next();
    answer(errand.number + 64, allow(50, 900)); /* the next of the same place */
    answer(errand.number + 1, allow(50, 900));
    answer(0, allow(50, 900));
    assert_int_equal(counts().lots, 0);
    answer(errand.number, allow(5, 900));
    answer(errand.number, allow(5, 900));
    assert_int_equal(counts().lots, 1);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(ask(1), CDL_LEASE_DECIDED);
    assert_int_not_equal(ask(1), CDL_LEASE_DECIDED);
}

static void a_failed_errand_releases_those_that_wait_with_its_failure(void **state)
{
    (void)state;
    assert_int_equal(ask(1), CDL_LEASE_ASK);
    strict(1, allow(1, 999));
    for (unsigned i = 0; i < 99; i++)
        ask(1);
    const struct cdl_lease_errand errand = next();
    struct cdl_lease_waiter waiter;
    cdl_lease_wait(book, &subject, &waiter);
    const struct caudal_decision failed = {.status = CAUDAL_ERR_STORE};
    cdl_lease_answered(book, errand.number, &failed, 0, subject.edition, 42, now);
    assert_ptr_equal(cdl_lease_released(book), &waiter);
    assert_int_equal(waiter.failure, CAUDAL_ERR_STORE);
    assert_int_equal(waiter.event, 42);
}

static void a_windows_lease_dies_at_its_edge(void **state)
{
    (void)state;
    const enum caudal_algorithm windows[] = {CAUDAL_FIXED_WINDOW, CAUDAL_SLIDING_WINDOW};
    for (unsigned k = 0; k < 2; k++) {
        rule = limit_of(windows[k], 1000, SECOND);
        assert_int_equal(ask(1), CDL_LEASE_ASK);
        struct caudal_decision said = allow(1, 999);
        const int64_t more = k == 0 ? 0 : SECOND;
        said.reset_after_ns = 60 * MILLISECOND + more;
        strict(1, said);
        for (unsigned i = 0; i < 99; i++)
            ask(1);
        const struct cdl_lease_errand errand = next();
        said = allow(50, 900);
        said.reset_after_ns = 50 * MILLISECOND + more;
        answer(errand.number, said);
        now = START + 50 * MILLISECOND - 1;
        assert_int_equal(ask(1), CDL_LEASE_DECIDED);
        assert_int_equal(decision.reset_after_ns, 1 + more);
        now++;
        assert_int_not_equal(ask(1), CDL_LEASE_DECIDED);
        assert_int_equal(counts().stranded, 49);
        teardown(NULL);
        setup(NULL);
    }
}

/* ---- refusals ---- */

static void a_refusal_holds_until_it_ends_and_not_longer(void **state)
{
    (void)state;
    struct cdl_lease_question question;
    assert_int_equal(ask(3), CDL_LEASE_ASK);
    cdl_lease_asked(book, &subject, 3, now, &question);
    now += MILLISECOND; /* the store decided in between */
    const struct caudal_decision said = deny(20 * MILLISECOND);
    cdl_lease_heard(book, &subject, &question, &said, 0, now);
    now = START + 20 * MILLISECOND - 1;
    assert_int_equal(ask(3), CDL_LEASE_DECIDED);
    assert_int_equal(decision.verdict, CAUDAL_DENY);
    assert_int_equal(decision.source, CAUDAL_SOURCE_DENY_CACHE);
    assert_int_equal(decision.retry_after_ns, 1);
    assert_int_equal(decision.granted, 0);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(decision.error_bound, 2);
    assert_true(cdl_lease_refused(book, &subject, 3, false, now, &decision));
    assert_false(cdl_lease_refused(book, &subject, 2, false, now, &decision));
    assert_int_not_equal(ask(2), CDL_LEASE_DECIDED);
    assert_int_not_equal(ask(4), CDL_LEASE_DECIDED);
    now++;
    assert_false(cdl_lease_refused(book, &subject, 3, false, now, &decision));
    assert_int_not_equal(ask(3), CDL_LEASE_DECIDED);
}

static void a_refusal_is_forgotten_when_it_may_not_hold_any_more(void **state)
{
    (void)state;
    for (unsigned what = 0; what < 3; what++) {
        strict(3, deny(SECOND)); /* nobody has asked: nothing is known of the key, and nothing is remembered */
        ask(3);
        strict(3, deny(SECOND));
        assert_true(cdl_lease_refused(book, &subject, 3, false, now, &decision));
        subject.refunds += what == 0;
        subject.edition += what == 1;
        if (what == 2)
            cdl_lease_forget(book, &subject);
        assert_false(cdl_lease_refused(book, &subject, 3, false, now, &decision));
    }
}

/* Asked before a refund, answered after it: who knows whether it knew. */
static void a_refusal_that_a_refund_overtook_is_not_remembered(void **state)
{
    (void)state;
    struct cdl_lease_question question;
    for (unsigned what = 0; what < 2; what++) {
        ask(3);
        cdl_lease_asked(book, &subject, 3, now, &question);
        subject.refunds += what == 0;
        subject.edition += what == 1;
        const struct caudal_decision said = deny(SECOND);
        cdl_lease_heard(book, &subject, &question, &said, 0, now);
        assert_false(cdl_lease_refused(book, &subject, 3, false, now, &decision));
    }
}

/* 1,000 of 1,000 are gone, and the next comes after a millisecond: whoever asks before is refused, and need not ask. */
static void a_yes_that_leaves_too_little_is_a_refusal_of_the_next(void **state)
{
    (void)state;
    struct caudal_decision said = allow(3, 0);
    said.reset_after_ns = SECOND;
    ask(3);
    strict(3, said);
    assert_int_equal(ask(3), CDL_LEASE_DECIDED);
    assert_int_equal(decision.verdict, CAUDAL_DENY);
    assert_int_equal(decision.retry_after_ns, 3 * MILLISECOND);
    now += 3 * MILLISECOND;
    assert_int_not_equal(ask(3), CDL_LEASE_DECIDED);
    said.reset_after_ns = SECOND - 3 * MILLISECOND;
    strict(3, said);
    assert_int_not_equal(ask(3), CDL_LEASE_DECIDED);
    said.capacity = 1001; /* the limit has just changed */
    said.reset_after_ns = SECOND;
    strict(3, said);
    assert_int_not_equal(ask(3), CDL_LEASE_DECIDED);
}

static void a_lease_that_can_pay_is_no_refusal(void **state)
{
    (void)state;
    lease(50);
    strict(60, deny(SECOND));
    assert_int_equal(ask(60), CDL_LEASE_DECIDED);
    assert_int_equal(decision.verdict, CAUDAL_DENY);
    assert_int_equal(ask(50), CDL_LEASE_DECIDED);
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
}

/* ---- how much ---- */

/* Fetched ahead, for nobody waits but the one that asks. */
static uint64_t batch_of(unsigned wanted, uint64_t remaining)
{
    subject.edition++;
    now += 10 * TTL;
    for (unsigned i = 1; i < wanted; i++)
        ask(1);
    answer(next().number, deny(1));
    now++;
    strict(1, allow(1, remaining));
    ask(1);
    const struct cdl_lease_errand errand = next();
    answer(errand.number, deny(1));
    return errand.question.maximum;
}

static void a_batch_is_what_is_wanted_and_no_more_than_there_is(void **state)
{
    (void)state;
    assert_int_equal(batch_of(40, 999), 39); /* a hundredth of ttl is lost on the way */
    assert_int_equal(batch_of(100000, 999), 100);
    assert_int_equal(batch_of(100000, 60), 30);
    assert_int_equal(batch_of(100000, 4), 2);
    assert_int_equal(batch_of(100000, 0), 1); /* what is asked for is asked for */
    terms.share_per_mille = 1000;
    assert_int_equal(batch_of(100000, 60), 60);
    terms.share_per_mille = 1;
    assert_int_equal(batch_of(100000, 999), 1);
}

static void all_that_wait_are_asked_for_at_once(void **state)
{
    (void)state;
    struct cdl_lease_waiter waiters[6];
    ask(1);
    strict(1, allow(1, 0));
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(ask(1), CDL_LEASE_WITHDRAW);
        cdl_lease_wait(book, &subject, &waiters[i]);
    }
    struct cdl_lease_errand errand = next();
    assert_int_equal(errand.question.minimum, 1);
    assert_int_equal(errand.question.maximum, 6);
    answer(errand.number, allow(2, 0));
    for (unsigned i = 0; i < 6; i++) {
        assert_ptr_equal(cdl_lease_released(book), &waiters[i]);
        assert_int_equal(cdl_lease_take(book, &subject, 1, CDL_LEASE_AGAIN, now, &decision, NULL),
                         i < 2 ? CDL_LEASE_DECIDED : CDL_LEASE_WITHDRAW);
    }
    assert_int_equal(next().question.maximum, 4);
    assert_no_errand();
}

/* One token is refilled in ttl, so that there is nothing to lease. */
static void a_slow_bucket_is_asked_as_often_as_it_may_say_yes(void **state)
{
    (void)state;
    struct cdl_lease_question questions[4];
    struct cdl_lease_waiter waiter;
    rule = bucket_of(1000, 10, SECOND);
    for (unsigned i = 0; i < 10; i++)
        ask(1);
    strict(1, allow(1, 3));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask(1), CDL_LEASE_ASK);
        cdl_lease_asked(book, &subject, 1, now, &questions[i]);
    }
    assert_int_equal(ask(1), CDL_LEASE_WAIT);
    cdl_lease_wait(book, &subject, &waiter);
    struct caudal_decision said = allow(1, 0);
    cdl_lease_heard(book, &subject, &questions[0], &said, 0, now);
    assert_ptr_equal(cdl_lease_released(book), &waiter);
    assert_int_equal(cdl_lease_take(book, &subject, 1, CDL_LEASE_AGAIN, now, &decision, NULL), CDL_LEASE_WAIT);
    assert_int_equal(cdl_lease_take(book, &subject, 1, CDL_LEASE_INSIST, now, &decision, NULL), CDL_LEASE_ASK);
    for (unsigned i = 1; i < 3; i++)
        cdl_lease_heard(book, &subject, &questions[i], &said, 0, now);
    assert_int_equal(ask(1), CDL_LEASE_ASK); /* one is always asked */
    assert_no_errand();
}

/* More want something than an errand may bring, and the store has it: they need not wait for the next errand. */
static void what_is_beyond_a_batch_is_asked_of_the_store(void **state)
{
    (void)state;
    ask(1);
    strict(1, allow(1, 999));
    unsigned waits = 0, asks = 0;
    struct cdl_lease_question question;
    for (unsigned i = 0; i < 2000; i++)
        if (ask(1) == CDL_LEASE_ASK) {
            cdl_lease_asked(book, &subject, 1, now, &question);
            asks++;
        } else {
            waits++;
        }
    assert_int_equal(next().question.maximum, 100);
    assert_int_equal(asks, 899);
    assert_int_equal(waits, 1101);
}

static void a_bucket_that_is_slow_is_never_leased(void **state)
{
    (void)state;
    rule = bucket_of(1000, 1, SECOND);
    for (unsigned i = 0; i < 1000; i++)
        assert_true(ask(1) == CDL_LEASE_ASK);
    rule = bucket_of(1000, 0, SECOND);
    subject.edition++;
    for (unsigned i = 0; i < 1000; i++)
        assert_true(ask(1) == CDL_LEASE_ASK);
    assert_no_errand();
}

static void a_strict_bound_is_a_lower_capacity(void **state)
{
    (void)state;
    terms.strict_bound = true;
    lease(50);
    assert_int_equal(ask(1), CDL_LEASE_DECIDED);
    assert_int_equal(decision.capacity, 900);
    assert_int_equal(decision.error_bound, 900 - 49);
    assert_int_equal(ask(901), CDL_LEASE_ASK); /* the store says that it can never be */
}

static void what_can_never_pass_is_no_demand(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(ask(1001), CDL_LEASE_ASK);
    assert_int_equal(ask(1), CDL_LEASE_ASK);
    assert_no_errand();
}

/* ---- ahead of need ---- */

static void a_steady_key_is_fetched_ahead_and_never_waits(void **state)
{
    (void)state;
    unsigned waited = 0;
    struct cdl_lease_errand errand = {0};
    int64_t back = INT64_MAX;
    uint64_t granted = 0;
    /* One in a millisecond, for ten seconds; the way there and back takes half of one. */
    for (unsigned i = 0; i < 10000; i++) {
        const enum cdl_lease_step step = ask(1);
        if (step == CDL_LEASE_ASK)
            strict(1, allow(1, 900));
        waited += i > 200 && step != CDL_LEASE_DECIDED;
        if (cdl_lease_next(book, now, &errand))
            back = now + 500 * MICROSECOND;
        now += 500 * MICROSECOND;
        if (back <= now) {
            assert_false(errand.gives_back);
            answer(errand.number, allow(errand.question.maximum, 900));
            granted += errand.question.maximum;
            back = INT64_MAX;
        }
        now += 500 * MICROSECOND;
    }
    assert_int_equal(waited, 0);
    const struct cdl_lease_counts total = counts();
    assert_true(total.store_calls < 300);
    assert_true(total.stranded < granted / 20);
}

static void nothing_is_fetched_while_what_is_held_suffices(void **state)
{
    (void)state;
    lease(100);
    /* A quarter of what is wanted in ttl is kept in hand. */
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(ask(1), CDL_LEASE_DECIDED);
        assert_no_errand();
    }
}

/* ---- giving back ---- */

static void a_key_that_is_left_idle_is_given_back(void **state)
{
    (void)state;
    lease(80);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(ask(1), CDL_LEASE_DECIDED);
    assert_int_equal(cdl_lease_due(book), now + TTL / 4);
    now += TTL / 4;
    const struct cdl_lease_errand errand = next();
    assert_true(errand.gives_back);
    assert_int_equal(errand.question.operation, CDL_UNDO);
    assert_int_equal(errand.question.maximum, 70);
    assert_int_equal(errand.question.charged_realtime_ns, EPOCH);
    assert_int_equal(errand.question.charged_monotonic_ns, START);
    assert_int_equal(counts().given_back, 70);
    assert_int_equal(counts().lots, 0);
    assert_int_equal(ask(1), CDL_LEASE_ASK); /* it is gone, whatever becomes of the errand */
    const struct caudal_decision failed = {.status = CAUDAL_ERR_STORE};
    cdl_lease_answered(book, errand.number, &failed, 0, subject.edition, 0, now);
    assert_int_not_equal(ask(1), CDL_LEASE_DECIDED);
    assert_int_equal(counts().stranded, 0);
}

static void what_has_been_refilled_since_is_not_given_back(void **state)
{
    (void)state;
    lease(20);
    now += TTL / 4; /* 25 have been refilled */
    assert_no_errand();
    assert_int_equal(ask(1), CDL_LEASE_DECIDED);
}

static void what_is_not_known_when_it_was_charged_is_not_given_back(void **state)
{
    (void)state;
    lease(0);
    ask(1);
    const struct cdl_lease_errand errand = next();
    const struct caudal_decision said = allow(80, 900);
    cdl_lease_answered(book, errand.number, &said, 0, subject.edition, 0, now);
    now += TTL / 4;
    assert_no_errand();
}

/* ---- putting back ---- */

static void what_is_put_back_is_there_again(void **state)
{
    (void)state;
    lease(50);
    assert_int_equal(ask(20), CDL_LEASE_DECIDED);
    cdl_lease_put_back(book, &subject, &spending, false, now);
    assert_int_equal(ask(50), CDL_LEASE_DECIDED);
    assert_int_equal(decision.remaining, 0);
    cdl_lease_put_back(book, &subject, &spending, false, now);
    cdl_lease_describe(book, &subject, now, &decision);
    assert_int_equal(decision.remaining, 50);
    assert_int_equal(decision.granted, 0);
    assert_int_equal(ask(10), CDL_LEASE_DECIDED);
    now = START + TTL;
    cdl_lease_put_back(book, &subject, &spending, false, now);
    cdl_lease_describe(book, &subject, now, &decision);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(counts().stranded, 50);
}

/* ---- room ---- */

static void who_can_be_forgotten_is_and_who_is_waited_for_is_not(void **state)
{
    (void)state;
    lease(100);
    struct cdl_lease_subject other = subject;
    for (uint64_t i = 0; i < 10000; i++) { /* a flood of cold keys */
        other.hash[0] = i * UINT64_C(0x9E3779B97F4A7C15) + 77;
        cdl_lease_take(book, &other, 1, CDL_LEASE_FIRST, now, &decision, NULL);
    }
    assert_int_equal(ask(1), CDL_LEASE_DECIDED);
    /* Others that hold more come into all places: it is forgotten, and what it held is lost. */
    const uint64_t before = counts().stranded;
    for (uint64_t i = 0; i < 1000; i++) {
        other.hash[0] = i * UINT64_C(0x9E3779B97F4A7C15) + 78;
        struct cdl_lease_errand errand;
        for (unsigned k = 0; k < 200; k++)
            cdl_lease_take(book, &other, 1, CDL_LEASE_FIRST, now, &decision, NULL);
        if (cdl_lease_next(book, now, &errand))
            answer(errand.number, allow(200, 900));
    }
    assert_true(counts().stranded > before + 99);
    assert_int_not_equal(ask(1), CDL_LEASE_DECIDED);
    assert_true(counts().lots <= 64);
}

static void a_book_whose_keys_are_all_waited_for_leaves_others_to_the_store(void **state)
{
    (void)state;
    struct cdl_lease_subject other = subject;
    struct cdl_lease_question question;
    for (uint64_t i = 0; i < 1000; i++) {
        other.hash[0] = i * UINT64_C(0x9E3779B97F4A7C15) + 77;
        assert_int_equal(cdl_lease_take(book, &other, 1, CDL_LEASE_FIRST, now, &decision, NULL), CDL_LEASE_ASK);
        cdl_lease_asked(book, &other, 1, now, &question);
    }
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(ask(1), CDL_LEASE_ASK);
    const struct caudal_decision said = deny(SECOND);
    cdl_lease_asked(book, &subject, 1, now, &question);
    cdl_lease_heard(book, &subject, &question, &said, 0, now);
    assert_false(cdl_lease_refused(book, &subject, 1, false, now, &decision));
}

static void keys_that_are_long_are_left_to_the_store(void **state)
{
    (void)state;
    static const char key[CDL_LEASE_KEY_MAX + 1];
    subject.key = key;
    subject.key_length = sizeof key;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(ask(1), CDL_LEASE_ASK);
    subject.key_length--;
    ask(1);
    for (unsigned i = 0; i < 100; i++)
        ask(1);
    assert_int_equal(next().key_length, CDL_LEASE_KEY_MAX);
}

static void another_edition_forgets_all(void **state)
{
    (void)state;
    lease(50);
    for (unsigned i = 0; i < 50; i++)
        ask(1);
    for (unsigned i = 0; i < 100; i++)
        ask(1);
    const struct cdl_lease_errand errand = next();
    struct cdl_lease_waiter waiter;
    cdl_lease_wait(book, &subject, &waiter);
    subject.edition++;
    assert_int_not_equal(ask(1), CDL_LEASE_WAIT);
    assert_ptr_equal(cdl_lease_released(book), &waiter);
    answer(errand.number, allow(50, 900)); /* of before */
    assert_int_not_equal(ask(1), CDL_LEASE_DECIDED);
    assert_int_equal(counts().lots, 0);
}

/* ---- a long run ---- */

/* The model: lots as the store granted them, in a list, and a bucket that the whole must fit into. */
struct model_lot {
    uint64_t number, tokens;
    int64_t asked, dies;
};

static struct model_lot model[2];
static unsigned model_count;

static void model_bury(void)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < model_count; i++)
        if (model[i].dies > now)
            model[kept++] = model[i];
    model_count = kept;
}

static uint64_t model_held(void)
{
    uint64_t sum = 0;
    model_bury();
    for (unsigned i = 0; i < model_count; i++)
        sum += model[i].tokens;
    return sum;
}

static void model_spend(uint64_t cost)
{
    assert_true(cost <= model_held());
    while (cost > 0) {
        unsigned first = 0;
        for (unsigned i = 1; i < model_count; i++)
            if (model[first].tokens == 0 || (model[i].tokens > 0 && model[i].dies < model[first].dies))
                first = i;
        const uint64_t part = cost < model[first].tokens ? cost : model[first].tokens;
        model[first].tokens -= part;
        cost -= part;
    }
}

struct on_the_way {
    struct cdl_lease_errand errand;
    struct caudal_decision decision;
    int64_t decided, arrives, asked;
};

struct run {
    struct rng rng;
    struct world world;
    uint32_t id, whole; /* the limit, and what all that is admitted must fit into */
    struct on_the_way ways[64];
    unsigned count;
    uint64_t under_way, last; /* numbers of errands */
};

/* Asks the store for an errand, and puts it on its way back: perhaps late, perhaps twice, perhaps never. */
static void carry(struct run *run, const struct cdl_lease_errand *errand)
{
    struct on_the_way way = {.errand = *errand, .asked = now, .decided = now};
    if (rng_below(&run->rng, 10) == 0)
        return; /* lost on the way there */
    const struct caudal_request request = {run->id, "key", 3, errand->question.maximum};
    struct cdl_instant instant = cdl_instant_given(now);
    struct caudal_store *store = run->world.store;
    assert_int_equal(store->ops->decide(store, &request, &errand->question, &instant, &way.decision), CAUDAL_OK);
    const bool lost = rng_below(&run->rng, 10) == 0, twice = rng_below(&run->rng, 5) == 0;
    for (unsigned copies = lost ? 0 : 1 + twice; copies > 0 && run->count < COUNT_OF(run->ways); copies--) {
        way.arrives = now + (int64_t)rng_magnitude(&run->rng, 2 * TTL);
        run->ways[run->count++] = way;
    }
}

static void model_give_back(const struct cdl_lease_errand *errand)
{
    unsigned youngest = 0;
    model_bury();
    assert_true(model_count > 0);
    for (unsigned i = 1; i < model_count; i++)
        if (model[youngest].tokens == 0 || (model[i].tokens > 0 && model[i].asked > model[youngest].asked))
            youngest = i;
    assert_true(errand->question.maximum <= model[youngest].tokens);
    assert_int_equal(errand->question.charged_monotonic_ns, model[youngest].asked);
    model[youngest].tokens -= errand->question.maximum;
}

static void send_due(struct run *run)
{
    struct cdl_lease_errand errand;
    while (cdl_lease_next(book, now, &errand)) {
        if (errand.gives_back)
            model_give_back(&errand);
        assert_true(errand.number > run->last);
        run->last = run->under_way = errand.number;
        carry(run, &errand);
    }
}

/* A lot of the model; rests of two become one when there is no room. */
static void model_add(const struct on_the_way *way)
{
    unsigned kept = 0;
    model_bury();
    for (unsigned i = 0; i < model_count; i++)
        if (model[i].tokens > 0)
            model[kept++] = model[i];
    if (kept == 2) {
        const unsigned first = model[1].dies < model[0].dies;
        model[first].tokens += model[!first].tokens;
        model[0] = model[first];
        kept = 1;
    }
    model[kept] = (struct model_lot){way->errand.number, way->decision.granted, way->asked, way->asked + TTL};
    model_count = kept + 1;
}

/* What arrives by now. It counts when it is the first answer to the errand that is under way, and in time. */
static void arrive(struct run *run)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < run->count; i++) {
        const struct on_the_way way = run->ways[i];
        if (way.arrives > now) {
            run->ways[kept++] = way;
            continue;
        }
        cdl_lease_answered(book, way.errand.number, &way.decision, way.decided, subject.edition, 0, now);
        if (way.errand.number != run->under_way)
            continue;
        run->under_way = 0;
        if (!way.errand.gives_back && way.decision.granted > 0 && now < way.asked + TTL)
            model_add(&way);
    }
    run->count = kept;
}

static void model_put_back(void)
{
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 0; i < model_count; i++)
            model[i].tokens += model[i].number == spending.lots[k] ? spending.tokens[k] : 0;
}

static void admit(struct run *run, uint64_t cost)
{
    assert_int_equal(take(&run->world, run->whole, "key", cost).verdict, CAUDAL_ALLOW);
}

static void ask_once(struct run *run)
{
    const uint64_t cost = rng_below(&run->rng, 4) == 0 ? 1 + rng_below(&run->rng, 5) : 1;
    const enum cdl_lease_step step = ask(cost);
    if (step == CDL_LEASE_DECIDED && decision.verdict == CAUDAL_ALLOW) {
        model_spend(cost);
        assert_int_equal(decision.remaining, cdl_min_u64(model_held(), decision.capacity));
        if (rng_below(&run->rng, 20) > 0) {
            admit(run, cost);
            return;
        }
        cdl_lease_put_back(book, &subject, &spending, false, now); /* another limit has refused */
        model_put_back();
    } else if (step == CDL_LEASE_DECIDED) {
        const struct caudal_decision truth = peek(&run->world, run->id, "key", cost);
        assert_int_equal(truth.verdict, CAUDAL_DENY);
        assert_true(decision.retry_after_ns > 0 && decision.retry_after_ns <= truth.retry_after_ns);
        assert_true(decision.error_bound >= truth.remaining);
    } else if (step == CDL_LEASE_ASK) {
        const struct caudal_decision said = take(&run->world, run->id, "key", cost);
        strict(cost, said);
        if (said.verdict == CAUDAL_ALLOW)
            admit(run, cost);
    }
}

static void run_once(uint64_t seed)
{
    struct run run = {.rng = {seed}};
    world_open(&run.world, "memory:?keys=100");
    const uint64_t burst = 20 + rng_below(&run.rng, 2000), rate = 20 + rng_below(&run.rng, 5000);
    rule = bucket_of(burst, rate, SECOND);
    terms.share_per_mille = 1 + (uint32_t)rng_below(&run.rng, 1000);
    run.id = world_add(&run.world, rule);
    run.whole = world_add(&run.world, bucket_of(burst + cdl_lease_refill(&rule, TTL), rate, SECOND));
    now = EPOCH;
    model_count = 0;
    subject.edition++;
    int64_t mean_gap = MILLISECOND;
    for (unsigned i = 0; i < 20000; i++) {
        if (rng_below(&run.rng, 500) == 0)
            mean_gap = (int64_t)rng_magnitude(&run.rng, 50 * MILLISECOND);
        /* Now and then nobody asks for a while. */
        const int64_t silence = rng_below(&run.rng, 200) == 0 ? TTL / 3 : 0;
        now += silence + (int64_t)rng_below(&run.rng, 2 * (uint64_t)mean_gap);
        world_set_time(&run.world, now);
        arrive(&run);
        send_due(&run);
        ask_once(&run);
        send_due(&run);
    }
    world_close(&run.world);
}

static void a_long_run_keeps_the_same_accounts_as_a_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= scaled(50); seed++)
        run_once(seed);
    const struct cdl_lease_counts total = counts();
    assert_true(total.stranded > 0 && total.given_back > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_cold_key_is_decided_by_the_store),
        TEST(a_hot_key_is_withdrawn_once_and_others_wait),
        TEST(trying_changes_nothing_unless_it_decides),
        TEST(what_it_says_of_a_lease_is_what_it_holds),
        TEST(a_lot_dies_ttl_after_the_asking),
        TEST(an_answer_that_takes_ttl_grants_nothing),
        TEST(an_answer_counts_once_and_only_to_a_question),
        TEST(a_failed_errand_releases_those_that_wait_with_its_failure),
        TEST(a_windows_lease_dies_at_its_edge),
        TEST(a_refusal_holds_until_it_ends_and_not_longer),
        TEST(a_refusal_is_forgotten_when_it_may_not_hold_any_more),
        TEST(a_refusal_that_a_refund_overtook_is_not_remembered),
        TEST(a_yes_that_leaves_too_little_is_a_refusal_of_the_next),
        TEST(a_lease_that_can_pay_is_no_refusal),
        TEST(a_batch_is_what_is_wanted_and_no_more_than_there_is),
        TEST(all_that_wait_are_asked_for_at_once),
        TEST(a_slow_bucket_is_asked_as_often_as_it_may_say_yes),
        TEST(what_is_beyond_a_batch_is_asked_of_the_store),
        TEST(a_bucket_that_is_slow_is_never_leased),
        TEST(a_strict_bound_is_a_lower_capacity),
        TEST(what_can_never_pass_is_no_demand),
        TEST(a_steady_key_is_fetched_ahead_and_never_waits),
        TEST(nothing_is_fetched_while_what_is_held_suffices),
        TEST(a_key_that_is_left_idle_is_given_back),
        TEST(what_has_been_refilled_since_is_not_given_back),
        TEST(what_is_not_known_when_it_was_charged_is_not_given_back),
        TEST(what_is_put_back_is_there_again),
        TEST(who_can_be_forgotten_is_and_who_is_waited_for_is_not),
        TEST(a_book_whose_keys_are_all_waited_for_leaves_others_to_the_store),
        TEST(keys_that_are_long_are_left_to_the_store),
        TEST(another_edition_forgets_all),
        TEST(a_long_run_keeps_the_same_accounts_as_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
