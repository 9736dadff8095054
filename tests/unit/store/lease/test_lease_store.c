/* The lease store over a store that answers when a test says so, for loops; and over one that answers at once, for those who wait. */
#include "store/lease/lease_store.h"

#include <pthread.h>

#include "../../later_store.h"

#define TTL (100 * MILLISECOND)

/* ---- a loop ---- */

static struct world world;
static struct later_store later;
static struct caudal_store *store;
static struct cdl_store_client *client;
static struct counting_allocator counting;
static int64_t alarm_ns;
static uint32_t bucket, window, other;

static void set_alarm(void *context, int64_t at_ns)
{
    (void)context;
    alarm_ns = at_ns;
}

static void lease_of(uint32_t id)
{
    struct caudal_lease lease = CAUDAL_LEASE_INIT;
    lease.ttl_ns = TTL;
    assert_int_equal(caudal_lease_limit(store, id, &lease, NULL), CAUDAL_OK);
}

static uint32_t add(const char *name, struct caudal_limit limit)
{
    uint32_t id;
    assert_int_equal(caudal_add_limit(store, name, &limit, &id, NULL), CAUDAL_OK);
    return id;
}

static void wrap(struct caudal_store *inner)
{
    counting_allocator_init(&counting);
    const struct caudal_store_options options = {
        .size = sizeof options, .clock = caudal_fake_clock_clock(world.clock), .allocator = &counting.allocator};
    assert_int_equal(cdl_lease_store_open(inner, &options, &store, NULL), CAUDAL_OK);
}

static int setup(void **state)
{
    (void)state;
    const struct cdl_loop_hooks hooks = {.alarm = set_alarm};
    alarm_ns = INT64_MAX;
    world_open(&world, "memory:?keys=1000");
    later_open(&later, &world);
    wrap(&later.head);
    bucket = add("bucket", bucket_of(1000, 1000, SECOND));
    window = add("window", limit_of(CAUDAL_FIXED_WINDOW, 1000, SECOND));
    other = add("other", bucket_of(10, 10, SECOND));
    lease_of(bucket);
    lease_of(window);
    client = cdl_store_client_open(store, &hooks);
    assert_non_null(client);
    return 0;
}

static void close_client(void)
{
    if (client != NULL)
        cdl_store_client_close(client);
    client = NULL;
}

static int teardown(void **state)
{
    (void)state;
    close_client();
    assert_int_equal(later.clients, 0);
    assert_int_equal(later.count, 0);
    caudal_store_close(store);
    assert_int_equal(counting.live_blocks, 0);
    world_close(&world);
    return 0;
}

static struct cdl_lease_counts counts(void)
{
    struct cdl_lease_counts sum;
    cdl_store_lease_counts(store, &sum);
    return sum;
}

/* ---- asking ---- */

#define REQUESTS_MAX 3

struct asked {
    struct cdl_call call;
    struct caudal_request requests[REQUESTS_MAX];
    struct cdl_question questions[REQUESTS_MAX];
    struct caudal_decision decisions[REQUESTS_MAX];
    bool done;
};

static void note_done(struct cdl_call *call)
{
    struct asked *asked = call->context;
    assert_false(asked->done);
    asked->done = true;
}

static void put(struct asked *asked, uint32_t limit, const char *key, struct cdl_question question)
{
    const size_t i = asked->call.count++;
    asked->requests[i] = (struct caudal_request){limit, key, strlen(key), question.maximum};
    asked->questions[i] = question;
}

static void send_out(struct asked *asked, bool together)
{
    asked->call.requests = asked->requests;
    asked->call.questions = asked->questions;
    asked->call.decisions = asked->decisions;
    asked->call.together = together;
    asked->call.done = note_done;
    asked->call.context = asked;
    const bool answered = cdl_store_ask(store, client, &asked->call);
    assert_false(asked->done);
    asked->done = answered;
}

static void ask(struct asked *asked, uint32_t limit, uint64_t cost)
{
    *asked = (struct asked){0};
    put(asked, limit, "key", cdl_question_take(cost));
    send_out(asked, false);
}

static void ask_two(struct asked *asked, uint64_t of_bucket, uint64_t of_other)
{
    *asked = (struct asked){0};
    put(asked, bucket, "key", cdl_question_take(of_bucket));
    put(asked, other, "key", cdl_question_take(of_other));
    send_out(asked, true);
}

static void ask_one(struct asked *asked, uint32_t limit, struct cdl_question question)
{
    *asked = (struct asked){0};
    put(asked, limit, "key", question);
    send_out(asked, false);
}

/* The end of a turn, and all that it brought about. */
static void turn(void)
{
    do {
        cdl_store_client_flush(client);
        later_answer_all(&later);
    } while (later.count > 0);
    cdl_store_client_flush(client);
    assert_int_equal(later.count, 0);
}

static void advance(int64_t delta_ns)
{
    world_advance(&world, delta_ns);
    const struct caudal_clock *clock = caudal_fake_clock_clock(world.clock);
    const int64_t now = clock->monotonic_ns(clock->context);
    if (now >= alarm_ns) {
        alarm_ns = INT64_MAX;
        cdl_store_client_time(client, now);
    }
}

/* A key that is wanted a lot, and has a lease by now that will last for a while. */
static void warm(uint32_t limit)
{
    static struct asked asked;
    do {
        ask(&asked, limit, 1);
        turn();
        assert_true(asked.done);
    } while (asked.decisions[0].source != CAUDAL_SOURCE_LEASE || asked.decisions[0].remaining < 40);
}

static uint64_t spent(uint32_t limit)
{
    return 1000 - left(&world, limit, "key");
}

/* What the client can spend without asking. */
static uint64_t leased(uint32_t limit)
{
    static struct asked asked;
    ask(&asked, limit, 1);
    assert_true(asked.done);
    assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_LEASE);
    return asked.decisions[0].remaining;
}

/* ---- a loop: one limit ---- */

static void a_cold_key_is_asked_about_and_a_hot_one_is_leased(void **state)
{
    (void)state;
    static struct asked asked[20];
    for (unsigned i = 0; i < 20; i++)
        ask(&asked[i], bucket, 1);
    for (unsigned i = 0; i < 20; i++)
        assert_false(asked[i].done);
    assert_true(later.count < 5);
    turn();
    unsigned by_lease = 0;
    for (unsigned i = 0; i < 20; i++) {
        assert_true(asked[i].done);
        assert_int_equal(asked[i].call.status, CAUDAL_OK);
        assert_int_equal(asked[i].decisions[0].verdict, CAUDAL_ALLOW);
        by_lease += asked[i].decisions[0].source == CAUDAL_SOURCE_LEASE;
    }
    assert_true(by_lease > 10);
    assert_int_equal(counts().by_lease, by_lease);
    assert_true(counts().waits >= by_lease);
    assert_int_equal(spent(bucket), 20 - by_lease + by_lease + leased(bucket) + 1);
}

static void a_leased_decision_takes_no_memory(void **state)
{
    (void)state;
    warm(bucket);
    long calls = counting.calls;
    static struct asked asked;
    uint64_t sum = 0;
    for (unsigned i = 0; i < 10000; i++) {
        ask(&asked, bucket, 1);
        if (asked.done) {
            assert_int_equal(counting.calls, calls);
            sum += asked.decisions[0].source != CAUDAL_SOURCE_STORE;
        }
        turn();
        calls = counting.calls;
        advance(MILLISECOND);
    }
    assert_int_equal(counts().by_lease + counts().by_refusal >= sum, 1);
    assert_true(sum > 9000);
}

/* Works and errands are used again: what has been in use at once is enough for ever. */
static void what_has_to_be_asked_takes_no_new_memory(void **state)
{
    (void)state;
    warm(bucket);
    ask_two(&(struct asked){0}, 1, 1);
    later_answer_all(&later);
    turn();
    static struct asked asked;
    const long calls = counting.calls;
    for (unsigned i = 0; i < 1000; i++) {
        ask_two(&asked, 1, 1);
        turn();
        assert_true(asked.done);
        advance(7 * MILLISECOND);
    }
    assert_int_equal(counting.calls, calls);
}

static void a_refusal_is_remembered(void **state)
{
    (void)state;
    static struct asked asked;
    assert_int_equal(take(&world, bucket, "key", 1000).verdict, CAUDAL_ALLOW);
    ask(&asked, bucket, 5);
    turn();
    assert_int_equal(asked.decisions[0].verdict, CAUDAL_DENY);
    assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_STORE);
    assert_int_equal(asked.decisions[0].retry_after_ns, 5 * MILLISECOND);
    advance(3 * MILLISECOND);
    ask(&asked, bucket, 5);
    assert_true(asked.done);
    assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_DENY_CACHE);
    assert_int_equal(asked.decisions[0].retry_after_ns, 2 * MILLISECOND);
    ask_one(&asked, bucket, cdl_question_peek(5));
    assert_true(asked.done);
    assert_int_equal(asked.decisions[0].verdict, CAUDAL_DENY);
    advance(2 * MILLISECOND);
    ask(&asked, bucket, 5);
    assert_false(asked.done);
    turn();
    assert_int_equal(asked.decisions[0].verdict, CAUDAL_ALLOW);
    assert_int_equal(counts().by_refusal, 2);
}

static void a_refund_and_a_reset_clear_it(void **state)
{
    (void)state;
    static struct asked asked;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(take(&world, bucket, "key", left(&world, bucket, "key")).verdict, CAUDAL_ALLOW);
        ask(&asked, bucket, 5);
        turn();
        assert_int_equal(asked.decisions[0].verdict, CAUDAL_DENY);
        const struct cdl_question refund = {.operation = CDL_REFUND, .maximum = 10},
                                  reset_key = {.operation = CDL_RESET};
        ask_one(&asked, bucket, i == 0 ? refund : reset_key);
        turn();
        assert_true(asked.done);
        ask(&asked, bucket, 5);
        assert_false(asked.done);
        turn();
        assert_int_equal(asked.decisions[0].verdict, CAUDAL_ALLOW);
    }
}

static void a_reset_gives_up_the_lease(void **state)
{
    (void)state;
    static struct asked asked;
    warm(bucket);
    const uint64_t had = leased(bucket);
    ask_one(&asked, bucket, (struct cdl_question){.operation = CDL_RESET});
    turn();
    ask(&asked, bucket, 1);
    assert_false(asked.done);
    assert_int_equal(counts().stranded, had);
    turn();
}

static void a_changed_limit_forgets_what_was_known(void **state)
{
    (void)state;
    static struct asked asked;
    const struct caudal_limit more = bucket_of(2000, 2000, SECOND);
    warm(bucket);
    assert_int_equal(caudal_set_limit(store, bucket, &more, NULL), CAUDAL_OK);
    ask(&asked, bucket, 1);
    assert_false(asked.done);
    turn();
    assert_true(leased(bucket) > 0);
    assert_int_equal(caudal_lease_limit(store, bucket, NULL, NULL), CAUDAL_OK);
    for (unsigned i = 0; i < 20; i++) {
        ask(&asked, bucket, 1);
        assert_false(asked.done);
        turn();
        assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_STORE);
    }
    assert_int_equal(caudal_remove_limit(store, window), CAUDAL_OK);
    ask(&asked, window, 1);
    turn();
    assert_int_equal(asked.call.status, CAUDAL_ERR_UNKNOWN);
}

static void what_books_know_nothing_of_goes_to_the_store(void **state)
{
    (void)state;
    static struct asked asked;
    warm(bucket);
    const struct cdl_question questions[] = {
        cdl_question_peek(1), cdl_question_take(0), {.operation = CDL_TAKE, .minimum = 1, .maximum = 9}};
    for (unsigned i = 0; i < COUNT_OF(questions); i++) {
        ask_one(&asked, bucket, questions[i]);
        assert_false(asked.done);
        assert_int_equal(later.count, 1);
        turn();
        assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_STORE);
    }
    const int64_t now = EPOCH;
    asked = (struct asked){.call.now_ns = &now};
    put(&asked, bucket, "key", cdl_question_take(1));
    send_out(&asked, false);
    assert_false(asked.done);
    turn();
    assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_STORE);
}

static void an_idle_lease_is_given_back(void **state)
{
    (void)state;
    warm(bucket);
    /* Until more is held than is refilled while it lies idle. */
    static struct asked asked;
    uint64_t had = 0;
    while (had < 40) {
        ask(&asked, bucket, 1);
        turn();
        had = asked.decisions[0].source == CAUDAL_SOURCE_LEASE ? asked.decisions[0].remaining : 0;
    }
    const uint64_t before = spent(bucket);
    for (unsigned i = 0; i < 40; i++)
        advance(MILLISECOND);
    assert_int_equal(later.count, 1);
    assert_int_equal(later.calls[0]->questions[0].operation, CDL_UNDO);
    later_answer(&later, 0);
    assert_in_range(counts().given_back, had - 2, had); /* the rest of an older lot is too little to ask for */
    assert_true(spent(bucket) < before - 40);           /* refilled, and given back */
    assert_true(counts().lots <= 1);
}

static void a_lost_answer_lets_those_that_wait_ask_the_store(void **state)
{
    (void)state;
    static struct asked asked[20];
    for (unsigned i = 0; i < 20; i++)
        ask(&asked[i], bucket, 1);
    cdl_store_client_flush(client);
    struct cdl_call *lost = later.calls[later.count - 1];
    assert_int_not_equal(lost->questions[0].minimum, lost->questions[0].maximum);
    while (later.calls[0] != lost)
        later_answer(&later, 0);
    unsigned open = 0;
    for (unsigned i = 0; i < 20; i++)
        open += !asked[i].done;
    assert_int_equal(later.count, 1);
    assert_true(open > 10);
    advance(TTL);
    assert_int_equal(later.count, 1 + open);
    while (later.count > 1)
        later_answer(&later, 1);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(asked[i].decisions[0].verdict, CAUDAL_ALLOW);
    later_answer(&later, 0); /* after all */
    assert_int_equal(counts().lots, 0);
    assert_true(counts().stranded > 0);
}

static void a_store_that_is_away_fails_those_that_wait_and_leases_go_on(void **state)
{
    (void)state;
    static struct asked asked[20];
    warm(bucket);
    const uint64_t had = leased(bucket);
    for (uint64_t i = 0; i < had; i++)
        assert_true(leased(bucket) < had);
    for (unsigned i = 0; i < 20; i++)
        ask(&asked[i], bucket, 1);
    do {
        cdl_store_client_flush(client);
        later_fail_all(&later);
    } while (later.count > 0);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(asked[i].done);
        assert_int_equal(asked[i].call.status, CAUDAL_ERR_STORE);
        assert_int_equal(asked[i].call.failure, CDL_STORE_TIMEOUT);
        assert_no_verdict(asked[i].decisions[0], CAUDAL_ERR_STORE);
    }
}

static void closing_answers_whatever_waits(void **state)
{
    (void)state;
    static struct asked asked[20];
    for (unsigned i = 0; i < 20; i++)
        ask(&asked[i], bucket, 1);
    close_client();
    for (unsigned i = 0; i < 20; i++) {
        assert_true(asked[i].done);
        assert_int_equal(asked[i].call.status, CAUDAL_ERR_STORE);
    }
    assert_int_equal(counts().lots, 0);
    assert_true(counts().store_calls > 0);
}

static void a_windows_lease_ends_with_it(void **state)
{
    (void)state;
    static struct asked asked;
    advance(980 * MILLISECOND);
    warm(window);
    advance(19 * MILLISECOND);
    leased(window);
    advance(MILLISECOND);
    ask(&asked, window, 1);
    assert_false(asked.done);
    turn();
}

/* ---- a loop: several limits at once ---- */

static void a_lease_pays_its_part_and_the_store_the_rest(void **state)
{
    (void)state;
    static struct asked asked;
    warm(bucket);
    const uint64_t had = leased(bucket), before = spent(bucket);
    ask_two(&asked, 1, 1);
    assert_false(asked.done);
    assert_int_equal(later.count, 1);
    assert_int_equal(later.calls[0]->count, 1);
    assert_int_equal(later.calls[0]->requests[0].limit, other);
    turn();
    assert_int_equal(asked.call.status, CAUDAL_OK);
    assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_LEASE);
    assert_int_equal(asked.decisions[0].remaining, had - 1);
    assert_int_equal(asked.decisions[1].source, CAUDAL_SOURCE_STORE);
    assert_int_equal(asked.decisions[1].remaining, 9);
    assert_int_equal(spent(bucket), before);
}

static void a_refusal_of_the_rest_puts_back_what_was_spent(void **state)
{
    (void)state;
    static struct asked asked;
    warm(bucket);
    const uint64_t had = leased(bucket);
    for (unsigned way = 0; way < 2; way++) {
        ask_two(&asked, 1, 11 - way);
        take(&world, other, "key", 1);
        if (way == 0)
            later_answer_all(&later);
        else
            later_fail_all(&later);
        assert_true(asked.done);
        assert_int_equal(asked.call.status, way == 0 ? CAUDAL_OK : CAUDAL_ERR_STORE);
        if (way == 0) {
            assert_int_equal(asked.decisions[0].verdict, CAUDAL_ALLOW);
            assert_int_equal(asked.decisions[0].granted, 0);
            assert_int_equal(asked.decisions[0].remaining, had);
            assert_int_equal(asked.decisions[1].verdict, CAUDAL_NEVER);
        } else {
            assert_no_verdict(asked.decisions[0], CAUDAL_ERR_STORE);
            assert_no_verdict(asked.decisions[1], CAUDAL_ERR_STORE);
        }
    }
    assert_int_equal(leased(bucket), had - 1);
}

static void a_remembered_refusal_decides_the_whole(void **state)
{
    (void)state;
    static struct asked asked;
    lease_of(other);
    warm(bucket);
    const uint64_t had = leased(bucket);
    assert_int_equal(take(&world, other, "key", 10).verdict, CAUDAL_ALLOW);
    ask_two(&asked, 1, 2);
    turn();
    assert_int_equal(asked.decisions[1].verdict, CAUDAL_DENY);
    ask_two(&asked, 1, 2);
    assert_true(asked.done);
    assert_int_equal(asked.call.status, CAUDAL_OK);
    assert_int_equal(asked.decisions[1].verdict, CAUDAL_DENY);
    assert_int_equal(asked.decisions[1].source, CAUDAL_SOURCE_DENY_CACHE);
    assert_int_equal(asked.decisions[0].verdict, CAUDAL_ALLOW);
    assert_int_equal(asked.decisions[0].granted, 0);
    assert_int_equal(asked.decisions[0].remaining, had);
    assert_int_equal(leased(bucket), had - 1);
}

static void a_key_that_is_named_twice_is_charged_twice(void **state)
{
    (void)state;
    static struct asked asked;
    asked = (struct asked){0};
    warm(bucket);
    const uint64_t before = spent(bucket);
    put(&asked, bucket, "key", cdl_question_take(2));
    put(&asked, bucket, "key", cdl_question_take(3));
    send_out(&asked, true);
    assert_false(asked.done);
    turn();
    assert_int_equal(asked.call.status, CAUDAL_OK);
    assert_int_equal(spent(bucket), before + 5);
}

static void each_by_itself(void **state)
{
    (void)state;
    static struct asked asked;
    asked = (struct asked){0};
    warm(bucket);
    put(&asked, bucket, "key", cdl_question_take(1));
    put(&asked, other, "key", cdl_question_take(11));
    put(&asked, bucket, "a cold one", cdl_question_take(1));
    send_out(&asked, false);
    assert_false(asked.done);
    assert_int_equal(later.calls[0]->count, 2);
    turn();
    assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_LEASE);
    assert_int_equal(asked.decisions[1].verdict, CAUDAL_NEVER);
    assert_int_equal(asked.decisions[2].source, CAUDAL_SOURCE_STORE);
    assert_int_equal(asked.decisions[2].verdict, CAUDAL_ALLOW);
}

/* Together or not, on one key or many, over a store that answers in any order: never more than the limits and their leases allow. */
static void whatever_happens_the_bound_holds(void **state)
{
    (void)state;
    static struct asked asked[200];
    struct rng rng = {5};
    const struct caudal_limit rule = bucket_of(50, 1000, SECOND);
    const uint32_t small = add("small", rule), whole = world_add(&world, bucket_of(50 + 100, 1000, SECOND));
    lease_of(small);
    lease_of(other);
    bool counted[200];
    memset(asked, 0, sizeof asked);
    memset(counted, 1, sizeof counted);
    uint64_t admitted = 0, lost = 0;
    for (unsigned i = 0; i < 100000; i++) {
        const size_t k = rng_below(&rng, 200);
        if (asked[k].call.count == 0 || asked[k].done) {
            asked[k] = (struct asked){0};
            counted[k] = false;
            put(&asked[k], small, "key", cdl_question_take(1 + rng_below(&rng, 3)));
            if (rng_below(&rng, 3) == 0)
                put(&asked[k], other, "key", cdl_question_take(1));
            send_out(&asked[k], asked[k].call.count > 1);
        }
        if (rng_below(&rng, 4) == 0)
            cdl_store_client_flush(client);
        if (later.count > 0 && rng_below(&rng, 2) == 0) {
            const size_t which = rng_below(&rng, later.count);
            if (rng_below(&rng, 50) == 0)
                later_fail(&later, which);
            else
                later_answer(&later, which);
        }
        for (size_t m = 0; m < 200; m++) {
            if (counted[m] || !asked[m].done)
                continue;
            counted[m] = true;
            bool passed = true;
            for (size_t r = 0; r < asked[m].call.count; r++)
                passed &= asked[m].decisions[r].verdict == CAUDAL_ALLOW;
            lost += asked[m].call.status != CAUDAL_OK;
            if (!passed)
                continue;
            admitted += asked[m].questions[0].maximum;
            assert_int_equal(take(&world, whole, "key", asked[m].questions[0].maximum).verdict, CAUDAL_ALLOW);
        }
        advance((int64_t)rng_below(&rng, 400 * MICROSECOND));
    }
    turn();
    for (size_t m = 0; m < 200; m++)
        assert_true(asked[m].call.count == 0 || asked[m].done);
    assert_true(admitted > 15000 && lost > 0);
}

/* ---- limits ---- */

static int lease_with(uint32_t id, int64_t ttl_ns, uint32_t share, int strict, struct caudal_problem *problem)
{
    const struct caudal_lease lease = {sizeof lease, ttl_ns, share, strict};
    return caudal_lease_limit(store, id, &lease, problem);
}

static void what_cannot_be_leased_is_refused(void **state)
{
    (void)state;
    struct caudal_problem problem;
    const uint32_t log = add("log", limit_of(CAUDAL_SLIDING_LOG, 10, SECOND)),
                   free = add("free", limit_of(CAUDAL_UNLIMITED, 0, 0));
    assert_int_equal(lease_with(bucket, MILLISECOND, 1, 0, NULL), CAUDAL_OK);
    assert_int_equal(lease_with(bucket, 10 * SECOND, 1000, 0, NULL), CAUDAL_OK);
    assert_int_equal(lease_with(bucket, MILLISECOND - 1, 1, 0, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(lease_with(bucket, 10 * SECOND + 1, 1, 0, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(lease_with(bucket, SECOND, 0, 0, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(lease_with(bucket, SECOND, 1001, 0, &problem), CAUDAL_ERR_ARGUMENT);
    assert_non_null(strstr(problem.message, "1001"));
    assert_int_equal(lease_with(log, TTL, 500, 0, &problem), CAUDAL_ERR_UNSUPPORTED);
    assert_non_null(strstr(problem.message, "sliding_log"));
    assert_int_equal(lease_with(free, TTL, 500, 0, &problem), CAUDAL_ERR_UNSUPPORTED);
    assert_int_equal(lease_with(4711, TTL, 500, 0, &problem), CAUDAL_ERR_UNKNOWN);
    assert_int_equal(caudal_lease_limit(NULL, bucket, NULL, &problem), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(caudal_lease_limit(world.store, bucket, NULL, &problem), CAUDAL_ERR_UNSUPPORTED);
    const struct caudal_lease unknown = {.size = 1};
    assert_int_equal(caudal_lease_limit(store, bucket, &unknown, &problem), CAUDAL_ERR_ARGUMENT);
}

/* Asked of the store each time, and beside a lease; what is known of one when a refusal that is remembered decides is its capacity. */
static void a_limit_that_comes_with_each_call_is_never_leased(void **state)
{
    (void)state;
    static struct asked asked;
    struct caudal_problem problem;
    uint32_t id;
    const struct caudal_limit limit = bucket_of(20, 20, HOUR);
    struct cdl_question question = cdl_question_take(1);
    question.limit = &limit;
    assert_int_equal(cdl_add_per_call_limit(store, "per call", &id, NULL), CAUDAL_OK);
    assert_int_equal(lease_with(id, TTL, 500, 0, &problem), CAUDAL_ERR_UNSUPPORTED);
    assert_int_equal(caudal_lease_limit(store, id, NULL, NULL), CAUDAL_OK);
    warm(bucket);
    for (uint64_t i = 0; i < 10; i++) {
        asked = (struct asked){0};
        put(&asked, bucket, "key", cdl_question_take(1));
        put(&asked, id, "key", question);
        send_out(&asked, true);
        assert_false(asked.done);
        turn();
        assert_int_equal(asked.call.status, CAUDAL_OK);
        assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_LEASE);
        assert_int_equal(asked.decisions[1].source, CAUDAL_SOURCE_STORE);
        assert_int_equal(asked.decisions[1].remaining, 19 - i);
    }
    take(&world, bucket, "key", left(&world, bucket, "key"));
    do {
        ask(&asked, bucket, 500);
        turn();
    } while (asked.decisions[0].verdict == CAUDAL_ALLOW);
    asked = (struct asked){0};
    put(&asked, bucket, "key", cdl_question_take(500));
    put(&asked, id, "key", question);
    send_out(&asked, true);
    assert_true(asked.done);
    assert_int_equal(asked.decisions[0].source, CAUDAL_SOURCE_DENY_CACHE);
    assert_int_equal(asked.decisions[1].verdict, CAUDAL_ALLOW);
    assert_int_equal(asked.decisions[1].granted, 0);
    assert_int_equal(asked.decisions[1].capacity, 20);
    assert_int_equal(asked.decisions[1].error_bound, 20);
    ask_one(&asked, id, cdl_question_take(1));
    turn();
    assert_int_equal(asked.call.status, CAUDAL_ERR_ARGUMENT);
    question.operation = CDL_RESET;
    ask_one(&asked, id, question);
    turn();
    question.operation = CDL_PEEK;
    ask_one(&asked, id, question);
    turn();
    assert_int_equal(asked.decisions[0].remaining, 19);
}

static void a_strict_bound_lowers_the_stores_burst_and_no_one_sees_it(void **state)
{
    (void)state;
    struct caudal_problem problem;
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    assert_int_equal(lease_with(bucket, SECOND, 500, 1, &problem), CAUDAL_ERR_LIMIT);
    assert_non_null(strstr(problem.message, "burst of 1000"));
    assert_int_equal(left(&world, bucket, "another"), 1000);
    assert_int_equal(lease_with(bucket, 999 * MILLISECOND, 500, 1, &problem), CAUDAL_OK);
    assert_int_equal(left(&world, bucket, "another"), 1);
    assert_int_equal(lease_with(bucket, TTL, 500, 1, &problem), CAUDAL_OK);
    assert_int_equal(left(&world, bucket, "another"), 900);
    assert_int_equal(caudal_get_limit(store, bucket, &limit), CAUDAL_OK);
    assert_same_limit(limit, bucket_of(1000, 1000, SECOND));
    limit = bucket_of(500, 1000, SECOND);
    assert_int_equal(caudal_set_limit(store, bucket, &limit, NULL), CAUDAL_OK);
    assert_int_equal(left(&world, bucket, "another"), 400);
    limit = bucket_of(100, 1000, SECOND);
    assert_int_equal(caudal_set_limit(store, bucket, &limit, &problem), CAUDAL_ERR_LIMIT);
    assert_int_equal(left(&world, bucket, "another"), 400);
    assert_int_equal(caudal_lease_limit(store, bucket, NULL, NULL), CAUDAL_OK);
    assert_int_equal(left(&world, bucket, "another"), 500);
    assert_int_equal(lease_with(window, TTL, 500, 1, NULL), CAUDAL_OK);
    assert_int_equal(left(&world, window, "another"), 1000);
    limit = limit_of(CAUDAL_SLIDING_LOG, 10, SECOND);
    assert_int_equal(caudal_set_limit(store, window, &limit, NULL), CAUDAL_OK);
}

/* ---- those who wait ---- */

static int setup_waiting(void **state)
{
    (void)state;
    world_open(&world, "memory:?keys=1000");
    wrap(world.store);
    bucket = add("bucket", bucket_of(1000, 1000, SECOND));
    other = add("other", bucket_of(10, 10, SECOND));
    lease_of(bucket);
    return 0;
}

static int teardown_waiting(void **state)
{
    (void)state;
    caudal_store_close(store); /* and the memory behind it */
    assert_int_equal(counting.live_blocks, 0);
    caudal_fake_clock_free(world.clock);
    return 0;
}

static struct caudal_decision take_waiting(uint32_t limit, uint64_t cost)
{
    struct caudal_decision decision;
    assert_int_equal(caudal_take(store, limit, "key", 3, cost, &decision), CAUDAL_OK);
    return decision;
}

static void any_store_can_be_wrapped(void **state)
{
    (void)state;
    assert_false(cdl_store_answers_later(store));
    unsigned by_lease = 0;
    for (unsigned i = 0; i < 900; i++) {
        const struct caudal_decision decision = take_waiting(bucket, 1);
        assert_int_equal(decision.verdict, CAUDAL_ALLOW);
        by_lease += decision.source == CAUDAL_SOURCE_LEASE;
    }
    assert_true(by_lease > 800);
    assert_int_equal(counts().by_lease, by_lease);
    assert_int_equal(take_waiting(other, 1).source, CAUDAL_SOURCE_STORE);
    struct caudal_decision decision;
    assert_int_equal(caudal_take_up_to(store, bucket, "key", 3, 1, 5, &decision), CAUDAL_OK);
    assert_int_equal(decision.granted, 5);
    assert_int_equal(caudal_peek(store, bucket, "key", 3, 1, &decision), CAUDAL_OK);
    assert_int_equal(decision.source, CAUDAL_SOURCE_STORE);
    assert_int_equal(caudal_refund(store, bucket, "key", 3, 5, NULL), CAUDAL_OK);
    assert_int_equal(caudal_take_at(store, bucket, "key", 3, 1, EPOCH, &decision), CAUDAL_OK);
    assert_int_equal(decision.source, CAUDAL_SOURCE_STORE);
    assert_int_equal(caudal_reset(store, bucket, "key", 3), CAUDAL_OK);
    assert_int_equal(take_waiting(bucket, 900).verdict, CAUDAL_ALLOW);
    struct caudal_store_stats stats = {.size = sizeof stats};
    assert_int_equal(caudal_store_stats(store, &stats), CAUDAL_OK);
    assert_int_equal(stats.limits, 2);
    uint32_t found;
    assert_int_equal(caudal_find_limit(store, "other", &found), CAUDAL_OK);
    assert_int_equal(found, other);
}

static void what_is_spent_in_all_is_what_there_was(void **state)
{
    (void)state;
    unsigned admitted = 0;
    for (unsigned i = 0; i < 3000; i++)
        admitted += take_waiting(bucket, 1).verdict == CAUDAL_ALLOW;
    /* The clock stands still: every token was spent, but for a rest that is still leased. */
    assert_true(admitted <= 1000);
    const struct caudal_decision refused = take_waiting(bucket, 1);
    assert_int_equal(refused.verdict, CAUDAL_DENY);
    assert_int_equal(refused.source, CAUDAL_SOURCE_DENY_CACHE);
    assert_int_equal(refused.retry_after_ns, MILLISECOND);
    assert_int_equal(admitted, 1000);
}

static void batches_and_several_limits_can_wait_too(void **state)
{
    (void)state;
    struct caudal_request requests[100];
    struct caudal_decision decisions[100], overall;
    for (unsigned i = 0; i < 100; i++)
        requests[i] = (struct caudal_request){bucket, "key", 3, 1};
    requests[70].key_length = CAUDAL_KEY_MAX + 1;
    assert_int_equal(caudal_take_batch(store, requests, 100, decisions), CAUDAL_ERR_KEY);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(decisions[i].verdict, i == 70 ? CAUDAL_NO_VERDICT : CAUDAL_ALLOW);
    const struct caudal_request two[] = {{bucket, "key", 3, 1}, {other, "key", 3, 1}};
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(caudal_take_all(store, two, 2, decisions, &overall), CAUDAL_OK);
        assert_int_equal(overall.verdict, i < 10 ? CAUDAL_ALLOW : CAUDAL_DENY);
    }
    assert_int_equal(caudal_peek_all(store, two, 2, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, CAUDAL_DENY);
}

#define THREADS 4

static void *hammer(void *context)
{
    uint64_t *admitted = context;
    for (unsigned i = 0; i < 5000; i++) {
        struct caudal_decision decision;
        assert_int_equal(caudal_take(store, bucket, "key", 3, 1 + i % 3, &decision), CAUDAL_OK);
        *admitted += decision.granted;
        if (i % 512 == 0)
            caudal_fake_clock_advance(world.clock, MILLISECOND);
    }
    return NULL;
}

static void threads_share_what_there_is(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t admitted[THREADS] = {0}, sum = 0;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &admitted[i]), 0);
    const struct caudal_limit limits[] = {bucket_of(1000, 1000, SECOND), bucket_of(1000, 1001, SECOND)};
    for (unsigned i = 0; i < 20; i++) { /* limits change meanwhile, and keys of others are reset */
        assert_int_equal(caudal_set_limit(store, bucket, &limits[i % 2], NULL), CAUDAL_OK);
        assert_int_equal(caudal_reset(store, bucket, "another", 7), CAUDAL_OK);
        counts();
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += admitted[i];
    }
    /* 40 ms have passed. */
    assert_true(sum <= 1000 + 41);
    assert_true(sum + counts().stranded > 800); /* a change of the limit strands what is leased */
}

/* A store whose answers fail. */
static void those_who_wait_are_told_when_the_store_is_away(void **state)
{
    (void)state;
    struct caudal_decision decision;
    later.is_away = true;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(caudal_take(store, bucket, "key", 3, 1, &decision), CAUDAL_ERR_STORE);
        assert_no_verdict(decision, CAUDAL_ERR_STORE);
    }
    later.is_away = false;
    assert_int_equal(caudal_take(store, bucket, "key", 3, 1, &decision), CAUDAL_OK);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (long fail_at = 0; failed; fail_at++) {
        world_open(&world, "memory:?keys=100");
        counting_allocator_init(&counting);
        counting.fail_at = fail_at;
        const struct caudal_store_options options = {
            .size = sizeof options, .clock = caudal_fake_clock_clock(world.clock), .allocator = &counting.allocator};
        struct caudal_problem problem = {.message = ""};
        failed = cdl_lease_store_open(world.store, &options, &store, &problem) != CAUDAL_OK;
        if (!failed) {
            const struct caudal_limit limit = bucket_of(10, 10, SECOND);
            const struct caudal_lease lease = CAUDAL_LEASE_INIT;
            uint32_t id = 0;
            failed = caudal_add_limit(store, "a", &limit, &id, &problem) != CAUDAL_OK;
            failed = failed || caudal_lease_limit(store, id, &lease, &problem) != CAUDAL_OK;
            caudal_store_close(store);
        }
        if (failed)
            assert_int_equal(problem.code, CAUDAL_ERR_MEMORY);
        assert_int_equal(counting.live_blocks, 0);
        caudal_fake_clock_free(world.clock);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_WAITING(name) cmocka_unit_test_setup_teardown(name, setup_waiting, teardown_waiting)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_cold_key_is_asked_about_and_a_hot_one_is_leased),
        TEST(a_leased_decision_takes_no_memory),
        TEST(what_has_to_be_asked_takes_no_new_memory),
        TEST(a_refusal_is_remembered),
        TEST(a_refund_and_a_reset_clear_it),
        TEST(a_reset_gives_up_the_lease),
        TEST(a_changed_limit_forgets_what_was_known),
        TEST(what_books_know_nothing_of_goes_to_the_store),
        TEST(an_idle_lease_is_given_back),
        TEST(a_lost_answer_lets_those_that_wait_ask_the_store),
        TEST(a_store_that_is_away_fails_those_that_wait_and_leases_go_on),
        TEST(closing_answers_whatever_waits),
        TEST(a_windows_lease_ends_with_it),
        TEST(a_lease_pays_its_part_and_the_store_the_rest),
        TEST(a_refusal_of_the_rest_puts_back_what_was_spent),
        TEST(a_remembered_refusal_decides_the_whole),
        TEST(a_key_that_is_named_twice_is_charged_twice),
        TEST(each_by_itself),
        TEST(whatever_happens_the_bound_holds),
        TEST(what_cannot_be_leased_is_refused),
        TEST(a_limit_that_comes_with_each_call_is_never_leased),
        TEST(a_strict_bound_lowers_the_stores_burst_and_no_one_sees_it),
        TEST(those_who_wait_are_told_when_the_store_is_away),
        TEST_WAITING(any_store_can_be_wrapped),
        TEST_WAITING(what_is_spent_in_all_is_what_there_was),
        TEST_WAITING(batches_and_several_limits_can_wait_too),
        TEST_WAITING(threads_share_what_there_is),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
