/* From calls to trips and back, with a client that is none: what it is handed waits here until a test answers it.
 *
 * Slots are numbered in the order in which identities come up, so that each key of a test lies in a slot of its own. */
#include "../../support.h"

#include <math.h>
#include <stdlib.h>

#include "store/redis/redis_store.h"

#define CALLS_MAX 256
#define KEYS_SEEN_MAX 64
#define NOW_US (EPOCH / 1000)

/* ---- the client ---- */

struct cdl_redis_client {
    struct cdl_loop_hooks hooks;
    struct cdl_redis_call *calls[CALLS_MAX]; /* that wait, oldest first */
    size_t count, flushed;                   /* so many of them are on their way */
    unsigned asked;
    void (*at_flush)(void);
};

static struct cdl_redis_client *client;
static void (*at_flush)(void);
static char seen[KEYS_SEEN_MAX][CDL_REDIS_TAG_LENGTH];
static size_t seen_count;

struct cdl_redis_client *cdl_redis_client_open(const struct cdl_redis_shared *shared,
                                               const struct cdl_loop_hooks *hooks)
{
    (void)shared;
    assert_null(client);
    client = calloc(1, sizeof *client);
    assert_non_null(client);
    client->hooks = *hooks;
    return client;
}

void cdl_redis_client_close(struct cdl_redis_client *closed)
{
    while (closed->count > 0) {
        struct cdl_redis_call *call = closed->calls[0];
        closed->count--;
        memmove(closed->calls, closed->calls + 1, closed->count * sizeof closed->calls[0]);
        call->done(call, NULL, CDL_STORE_CLOSED);
    }
    free(closed);
    client = NULL;
}

void cdl_redis_client_call(struct cdl_redis_client *asked, struct cdl_redis_call *call)
{
    assert_ptr_equal(asked, client);
    assert_true(client->count < CALLS_MAX);
    client->calls[client->count++] = call;
    client->asked++;
}

void cdl_redis_client_flush(struct cdl_redis_client *flushed)
{
    assert_ptr_equal(flushed, client);
    client->flushed = client->count;
    /* Whoever waits in a loop is woken. */
    if (client->count > 0 && at_flush != NULL)
        client->hooks.alarm(client->hooks.context, 0);
}

void cdl_redis_client_ready(struct cdl_redis_client *ready, struct cdl_socket *socket, unsigned events)
{
    (void)ready, (void)socket, (void)events;
}

void cdl_redis_client_time(struct cdl_redis_client *told, int64_t now_ns)
{
    (void)told, (void)now_ns;
    if (at_flush != NULL)
        at_flush();
}

void cdl_redis_client_found(struct cdl_redis_client *told, struct cdl_lookup_request *request,
                            const struct sockaddr *address, socklen_t length)
{
    (void)told, (void)request, (void)address, (void)length;
}

bool cdl_redis_client_is_up(const struct cdl_redis_client *asked)
{
    return asked == client;
}

uint16_t cdl_redis_slot(struct cdl_slice key)
{
    const char *tag = memchr(key.bytes, '{', key.length);
    assert_non_null(tag);
    size_t i = 0;
    while (i < seen_count && memcmp(seen[i], tag + 1, CDL_REDIS_TAG_LENGTH) != 0)
        i++;
    assert_true(i < KEYS_SEEN_MAX);
    if (i == seen_count)
        memcpy(seen[seen_count++], tag + 1, CDL_REDIS_TAG_LENGTH);
    return (uint16_t)i;
}

/* ---- replies ---- */

static char operation_of(const struct cdl_redis_call *call)
{
    return call->words[1 + strtoul(call->words[0].bytes, NULL, 10)].bytes[0];
}

static size_t keys_of(const struct cdl_redis_call *call)
{
    return strtoul(call->words[0].bytes, NULL, 10);
}

static unsigned slot_of(const struct cdl_redis_call *call)
{
    return cdl_redis_slot(call->key);
}

/* A number of a call's question about its key `i`. */
static double number_of(const struct cdl_redis_call *call, size_t i, size_t place)
{
    double number;
    const struct cdl_slice question = call->words[3 + keys_of(call) + i];
    assert_true(question.length >= 1 + (place + 1) * sizeof number);
    memcpy(&number, question.bytes + 1 + place * sizeof number, sizeof number);
    return number;
}

static struct cdl_redis_call *take_out(size_t index)
{
    assert_true(index < client->count);
    struct cdl_redis_call *call = client->calls[index];
    client->count--;
    memmove(client->calls + index, client->calls + index + 1, (client->count - index) * sizeof client->calls[0]);
    return call;
}

static void reply_with(size_t index, const double *numbers, size_t count)
{
    char bytes[(2 + 4 * CAUDAL_TAKE_ALL_MAX) * sizeof(double)];
    memcpy(bytes, numbers, count * sizeof numbers[0]);
    const struct cdl_resp reply = {.kind = CDL_RESP_STRING, .text = {bytes, count * sizeof numbers[0]}};
    struct cdl_redis_call *call = take_out(index);
    call->done(call, &reply, CDL_STORE_NONE);
}

/* The script's reply to a call about buckets: all are full, and pass; or all are empty, and refuse. */
static void reply(size_t index, bool passes)
{
    double numbers[2 + 4 * CAUDAL_TAKE_ALL_MAX] = {0, (double)NOW_US};
    const size_t count = operation_of(client->calls[index]) == 'x' ? 0 : keys_of(client->calls[index]);
    for (size_t i = 0; i < count; i++) {
        double *answer = numbers + 2 + 4 * i;
        answer[0] = passes ? 1 : -1;
        answer[1] = passes ? 0 : number_of(client->calls[index], i, 2); /* from empty to full */
        answer[3] = 1;
    }
    reply_with(index, numbers, 2 + 4 * count);
}

static void lose(size_t index, enum cdl_store_event event)
{
    struct cdl_redis_call *call = take_out(index);
    call->done(call, NULL, event);
}

/* The call that waits with this operation for this slot. */
static size_t waits(char operation, unsigned slot)
{
    for (size_t i = 0; i < client->count; i++)
        if (operation_of(client->calls[i]) == operation && slot_of(client->calls[i]) == slot)
            return i;
    fail_msg("no '%c' waits for slot %u", operation, slot);
    return SIZE_MAX;
}

/* ---- the store ---- */

static struct counting_allocator counting;
static struct caudal_store *store;
static struct cdl_store_client *asker;
static uint32_t bucket, unlimited;

static void no_alarm(void *context, int64_t at_ns)
{
    (void)context, (void)at_ns;
}

static uint32_t add(const char *name, struct caudal_limit limit)
{
    uint32_t id;
    assert_int_equal(caudal_add_limit(store, name, &limit, &id, NULL), CAUDAL_OK);
    return id;
}

static void open_store(void)
{
    counting_allocator_init(&counting);
    const struct caudal_store_options options = {.size = sizeof options, .allocator = &counting.allocator};
    seen_count = 0;
    at_flush = NULL;
    assert_int_equal(caudal_store_open("redis-cluster://a,b", &options, &store, NULL), CAUDAL_OK);
    bucket = add("bucket", bucket_of(10, 10, 10 * SECOND));
    unlimited = add("unlimited", limit_of(CAUDAL_UNLIMITED, 0, 0));
}

static int setup(void **state)
{
    (void)state;
    open_store();
    const struct cdl_loop_hooks hooks = {.alarm = no_alarm};
    asker = cdl_store_client_open(store, &hooks);
    assert_non_null(asker);
    return 0;
}

static void close_asker(void)
{
    if (asker != NULL)
        cdl_store_client_close(asker);
    asker = NULL;
}

static int teardown(void **state)
{
    (void)state;
    close_asker();
    caudal_store_close(store);
    assert_int_equal(counting.live_blocks, 0);
    return 0;
}

static uint64_t events_of(enum cdl_store_event event)
{
    return atomic_load(&store->ops->events(store)->counts[event]);
}

/* ---- calls ---- */

#define REQUESTS_MAX 8

struct inquiry {
    struct cdl_call call;
    struct caudal_request requests[REQUESTS_MAX];
    struct cdl_question questions[REQUESTS_MAX];
    struct caudal_decision decisions[REQUESTS_MAX];
    unsigned done;
    unsigned again; /* so often the same call is made from within `done` */
};

static void take_from(struct inquiry *inquiry, size_t count);

static void on_done(struct cdl_call *call)
{
    struct inquiry *inquiry = call->context;
    inquiry->done++;
    if (inquiry->again > 0) {
        inquiry->again--;
        take_from(inquiry, call->count);
    }
}

static void request(struct inquiry *inquiry, uint32_t limit, const char *key, struct cdl_question question)
{
    const size_t i = inquiry->call.count++;
    assert_true(i < REQUESTS_MAX);
    inquiry->requests[i] = (struct caudal_request){limit, key, strlen(key), question.maximum};
    inquiry->questions[i] = question;
}

static void hand_in(struct inquiry *inquiry, bool together)
{
    struct cdl_call *call = &inquiry->call;
    call->requests = inquiry->requests;
    call->questions = inquiry->questions;
    call->decisions = inquiry->decisions;
    call->together = together;
    call->done = on_done;
    call->context = inquiry;
    assert_false(cdl_store_ask(store, asker, call));
    assert_int_equal(inquiry->done, 0);
}

/* A call of `count` keys, "0", "1", …, which lie in the slots of these numbers. */
static void take_from(struct inquiry *inquiry, size_t count)
{
    static const char *const keys[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    *inquiry = (struct inquiry){.again = inquiry->again};
    for (size_t i = 0; i < count; i++)
        request(inquiry, bucket, keys[i], cdl_question_take(i + 1));
    hand_in(inquiry, true);
}

static void assert_failed(const struct inquiry *inquiry, enum cdl_store_event event)
{
    assert_int_equal(inquiry->done, 1);
    assert_int_equal(inquiry->call.status, CAUDAL_ERR_STORE);
    assert_int_equal(inquiry->call.failure, event);
    for (size_t i = 0; i < inquiry->call.count; i++)
        assert_no_verdict(inquiry->decisions[i], CAUDAL_ERR_STORE);
}

/* ---- several slots ---- */

static void slots_are_charged_one_after_the_other(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    take_from(&inquiry, 3);
    for (unsigned slot = 0; slot < 3; slot++) {
        assert_int_equal(inquiry.done, 0);
        assert_int_equal(client->count, 1);
        reply(waits('t', slot), true);
    }
    assert_int_equal(inquiry.done, 1);
    assert_int_equal(inquiry.call.status, CAUDAL_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(inquiry.decisions[i].verdict, CAUDAL_ALLOW);
        assert_int_equal(inquiry.decisions[i].granted, i + 1);
        assert_int_equal(inquiry.decisions[i].remaining, 9 - i);
    }
    assert_int_equal(client->count, 0);
}

/* For each k: what came before is undone, what comes behind is looked at. */
static void a_refusal_undoes_what_was_charged_and_looks_at_the_rest(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 4; k++)
        for (unsigned undone_first = 0; undone_first < 2; undone_first++) {
            struct inquiry inquiry = {0};
            take_from(&inquiry, 4);
            for (unsigned slot = 0; slot < k; slot++)
                reply(waits('t', slot), true);
            reply(waits('t', k), false);
            assert_int_equal(client->count, 3);
            for (unsigned slot = 0; slot < k; slot++) {
                const struct cdl_redis_call *undo = client->calls[waits('u', slot)];
                assert_true(number_of(undo, 0, 4) == (slot + 1) * 1e6); /* a token is a second */
                assert_true(number_of(undo, 0, 6) == (double)NOW_US);
                if (undone_first)
                    reply(waits('u', slot), true);
            }
            for (unsigned slot = k + 1; slot < 4; slot++) {
                assert_int_equal(inquiry.done, 0);
                reply(waits('p', slot), slot != 2);
            }
            assert_int_equal(inquiry.done, 1);
            assert_int_equal(inquiry.call.status, CAUDAL_OK);
            for (unsigned i = 0; i < 4; i++) {
                const bool refuses = i == k || (i == 2 && i > k);
                assert_int_equal(inquiry.decisions[i].verdict, refuses ? CAUDAL_DENY : CAUDAL_ALLOW);
                assert_int_equal(inquiry.decisions[i].remaining, refuses ? 0 : 10);
                assert_int_equal(inquiry.decisions[i].granted, 0);
            }
            while (client->count > 0)
                reply(0, true);
        }
    assert_int_equal(events_of(CDL_STORE_GIVE_BACK), 0);
}

/* The answer to an undoing says what is left afterwards, when others may have had their turn: the call is told what was found. */
static void an_undoing_that_is_answered_early_changes_no_answer(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    take_from(&inquiry, 3);
    reply(waits('t', 0), true);
    reply(waits('t', 1), false);
    reply_with(waits('u', 0), (double[]){2, (double)NOW_US, 1, 1e9, 0, 1}, 6);
    reply(waits('p', 2), true);
    assert_int_equal(inquiry.done, 1);
    assert_int_equal(inquiry.call.status, CAUDAL_OK);
    assert_int_equal(inquiry.decisions[0].remaining, 10);
    assert_int_equal(events_of(CDL_STORE_HEALED), 2);
}

static void what_cannot_be_looked_at_is_said_to_be_unknown(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    take_from(&inquiry, 2);
    reply(waits('t', 0), false);
    lose(waits('p', 1), CDL_STORE_TIMEOUT);
    assert_int_equal(inquiry.call.status, CAUDAL_OK);
    assert_int_equal(inquiry.decisions[0].verdict, CAUDAL_DENY);
    assert_int_equal(inquiry.decisions[1].verdict, CAUDAL_ALLOW);
    assert_int_equal(inquiry.decisions[1].error_bound, 10);
}

static void a_failure_undoes_what_was_charged_and_asks_no_more(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        struct inquiry inquiry = {0};
        take_from(&inquiry, 3);
        for (unsigned slot = 0; slot < k; slot++)
            reply(waits('t', slot), true);
        lose(waits('t', k), CDL_STORE_TIMEOUT);
        assert_failed(&inquiry, CDL_STORE_TIMEOUT);
        assert_int_equal(client->count, k);
        for (unsigned slot = 0; slot < k; slot++)
            reply(waits('u', slot), true);
    }
}

static void an_undoing_that_is_lost_is_counted(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    take_from(&inquiry, 3);
    reply(waits('t', 0), true);
    reply(waits('t', 1), true);
    reply(waits('t', 2), false);
    assert_int_equal(inquiry.done, 1);
    lose(waits('u', 0), CDL_STORE_LOST);
    reply(waits('u', 1), true);
    assert_int_equal(events_of(CDL_STORE_GIVE_BACK), 1);
}

static void subjects_of_a_slot_travel_together(void **state)
{
    (void)state;
    const uint32_t other = add("other", bucket_of(5, 5, SECOND));
    struct inquiry inquiry = {0};
    request(&inquiry, bucket, "a", cdl_question_take(1));
    request(&inquiry, bucket, "b", cdl_question_take(2));
    request(&inquiry, other, "a", cdl_question_take(3));
    request(&inquiry, other, "b", cdl_question_take(4));
    hand_in(&inquiry, true);
    assert_int_equal(keys_of(client->calls[waits('t', 0)]), 2);
    reply(waits('t', 0), true);
    reply(waits('t', 1), true);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(inquiry.decisions[i].granted, i + 1);
        assert_int_equal(inquiry.decisions[i].remaining, (i < 2 ? 10 : 5) - i - 1);
    }
}

static void a_look_at_several_slots_is_one_at_all_at_once(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    request(&inquiry, bucket, "a", cdl_question_peek(1));
    request(&inquiry, bucket, "b", cdl_question_peek(2));
    hand_in(&inquiry, true);
    assert_int_equal(client->count, 2);
    reply(waits('p', 1), false);
    reply(waits('p', 0), true);
    assert_int_equal(inquiry.decisions[0].verdict, CAUDAL_ALLOW);
    assert_int_equal(inquiry.decisions[0].remaining, 10);
    assert_int_equal(inquiry.decisions[1].verdict, CAUDAL_DENY);
    assert_int_equal(client->count, 0);
    inquiry.done = 0;
    hand_in(&inquiry, true);
    lose(waits('p', 0), CDL_STORE_LOST);
    assert_int_equal(inquiry.done, 0);
    reply(waits('p', 1), true);
    assert_failed(&inquiry, CDL_STORE_LOST);
}

/* However many trips it takes, a call has one deadline. What is undone is not part of it. */
static void trips_share_the_deadline_of_their_call(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    take_from(&inquiry, 3);
    const int64_t deadline_ns = client->calls[0]->deadline_ns;
    reply(0, true);
    assert_int_equal(client->calls[0]->deadline_ns, deadline_ns);
    reply(0, false);
    assert_int_equal(client->calls[waits('p', 2)]->deadline_ns, deadline_ns);
    assert_true(client->calls[waits('u', 0)]->deadline_ns > deadline_ns);
    reply(waits('p', 2), true);
    reply(waits('u', 0), true);
    struct inquiry given = {.call = {.deadline_ns = 12345}};
    request(&given, bucket, "k", cdl_question_take(1));
    hand_in(&given, true);
    assert_int_equal(client->calls[0]->deadline_ns, 12345);
    reply(0, true);
}

/* ---- twins, and those that stand alone ---- */

static void twins_are_one_subject(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    request(&inquiry, bucket, "k", cdl_question_take(3));
    request(&inquiry, unlimited, "k", cdl_question_take(9));
    request(&inquiry, bucket, "k", cdl_question_take(4));
    hand_in(&inquiry, true);
    assert_int_equal(keys_of(client->calls[0]), 1);
    assert_true(number_of(client->calls[0], 0, 4) == 7e6);
    reply(0, true);
    assert_int_equal(inquiry.decisions[0].granted, 3);
    assert_int_equal(inquiry.decisions[1].granted, 9);
    assert_int_equal(inquiry.decisions[2].granted, 4);
    assert_int_equal(inquiry.decisions[0].remaining, 3);

    inquiry = (struct inquiry){0};
    request(&inquiry, bucket, "k", cdl_question_take(UINT64_MAX));
    request(&inquiry, bucket, "k", cdl_question_take(2));
    hand_in(&inquiry, true);
    reply(0, false);
    assert_int_equal(inquiry.decisions[0].verdict, CAUDAL_NEVER);
}

static void alone_each_has_its_own_fate(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    request(&inquiry, bucket, "a", cdl_question_take(1));
    request(&inquiry, 4711, "a", cdl_question_take(1));
    request(&inquiry, bucket, "a", cdl_question_take(2)); /* no twin here */
    request(&inquiry, unlimited, "a", cdl_question_take(3));
    request(&inquiry, bucket, "b", (struct cdl_question){.operation = CDL_RESET});
    request(&inquiry, bucket, "c", cdl_question_take(4));
    request(&inquiry, bucket, "d", (struct cdl_question){.operation = CDL_REFUND, .maximum = 5});
    hand_in(&inquiry, false);
    assert_int_equal(client->count, 5);
    reply(waits('r', 3), true);
    reply(waits('x', 1), true);
    reply(waits('t', 0), true);
    lose(waits('t', 0), CDL_STORE_OOM);
    assert_int_equal(inquiry.done, 0);
    reply(waits('t', 2), false);
    assert_int_equal(inquiry.done, 1);
    assert_int_equal(inquiry.call.status, CAUDAL_ERR_UNKNOWN); /* the first */
    assert_int_equal(inquiry.decisions[0].remaining, 9);
    assert_no_verdict(inquiry.decisions[1], CAUDAL_ERR_UNKNOWN);
    assert_no_verdict(inquiry.decisions[2], CAUDAL_ERR_STORE);
    assert_int_equal(inquiry.decisions[3].granted, 3);
    assert_int_equal(inquiry.decisions[4].verdict, CAUDAL_ALLOW);
    assert_int_equal(inquiry.decisions[5].verdict, CAUDAL_DENY);
    assert_int_equal(inquiry.decisions[6].verdict, CAUDAL_ALLOW);
    assert_int_equal(inquiry.decisions[6].granted, 0);
}

static void together_an_unknown_limit_asks_nobody(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    request(&inquiry, bucket, "a", cdl_question_take(1));
    request(&inquiry, unlimited, "a", cdl_question_take(1));
    request(&inquiry, 4711, "a", cdl_question_take(1));
    hand_in(&inquiry, true);
    assert_int_equal(client->count, 0);
    cdl_store_client_flush(asker);
    assert_int_equal(inquiry.done, 1);
    for (size_t i = 0; i < 3; i++)
        assert_no_verdict(inquiry.decisions[i], CAUDAL_ERR_UNKNOWN);
}

/* ---- replies that are none ---- */

static void malformed_replies_are_failures(void **state)
{
    (void)state;
    static const double good[] = {0, (double)NOW_US, 1, 0, 0, 1};
    static const struct {
        size_t place;
        double number;
    } bad[] = {{1, NAN}, {1, -1},  {1, INFINITY}, {1, 0x1p53}, {3, -1}, {3, 0.5},
               {3, NAN}, {3, 1e7}, {4, 1e15},     {5, 0},      {5, NAN}};
    struct inquiry inquiry;
    uint64_t counted = 0;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        double numbers[6];
        memcpy(numbers, good, sizeof numbers);
        numbers[bad[i].place] = bad[i].number;
        inquiry = (struct inquiry){0};
        take_from(&inquiry, 1);
        reply_with(0, numbers, 6);
        assert_failed(&inquiry, CDL_STORE_ANSWER);
        assert_int_equal(events_of(CDL_STORE_ANSWER), ++counted);
    }
    for (size_t count = 0; count < 8; count++) {
        if (count == 6)
            continue;
        const double numbers[8] = {0, (double)NOW_US, 1, 0, 0, 1};
        inquiry = (struct inquiry){0};
        take_from(&inquiry, 1);
        reply_with(0, numbers, count);
        assert_failed(&inquiry, CDL_STORE_ANSWER);
    }
    static const struct cdl_resp others[] = {{.kind = CDL_RESP_NULL}, {.kind = CDL_RESP_INTEGER, .integer = 1}};
    for (size_t i = 0; i <= COUNT_OF(others); i++) {
        inquiry = (struct inquiry){0};
        take_from(&inquiry, 1);
        struct cdl_redis_call *call = take_out(0);
        call->done(call, i < COUNT_OF(others) ? &others[i] : NULL, CDL_STORE_NONE);
        assert_failed(&inquiry, CDL_STORE_ANSWER);
    }
    /* Not a number at the head of an answer is no yes. */
    inquiry = (struct inquiry){0};
    take_from(&inquiry, 2);
    reply(0, true);
    reply_with(0, (double[]){0, (double)NOW_US, NAN, 1e7, 0, 1}, 6);
    assert_int_equal(inquiry.decisions[1].verdict, CAUDAL_DENY);
    reply(waits('u', 0), true);
}

static void what_was_healed_is_counted(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    static const double healed[] = {1, 2, 0, 3, -1, -1e300, NAN, INFINITY, 1e300};
    for (size_t i = 0; i < COUNT_OF(healed); i++) {
        take_from(&inquiry, 1);
        reply_with(0, (double[]){healed[i], (double)NOW_US, 1, 0, 0, 1}, 6);
        if (i < 3)
            assert_int_equal(inquiry.decisions[0].verdict, CAUDAL_ALLOW);
        else
            assert_failed(&inquiry, CDL_STORE_ANSWER);
    }
    assert_int_equal(events_of(CDL_STORE_HEALED), 3);
}

/* ---- lives ---- */

static void limits_may_change_while_a_call_is_under_way(void **state)
{
    (void)state;
    const struct caudal_limit lowered = bucket_of(2, 1, SECOND);
    struct inquiry first = {0}, second = {0};
    take_from(&first, 2);
    assert_int_equal(caudal_set_limit(store, bucket, &lowered, NULL), CAUDAL_OK);
    take_from(&second, 2);
    assert_int_equal(caudal_remove_limit(store, bucket), CAUDAL_OK);
    const uint32_t again = add("bucket", bucket_of(99, 1, SECOND));
    assert_int_not_equal(again, bucket);
    while (client->count > 0)
        reply(0, true);
    assert_int_equal(first.decisions[1].capacity, 10);
    assert_int_equal(second.decisions[1].capacity, 2);
    struct inquiry third = {0};
    take_from(&third, 1);
    cdl_store_client_flush(asker);
    assert_int_equal(third.call.status, CAUDAL_ERR_UNKNOWN);
}

/* The errand of a call is free for use by the next before `done` is called, and one that undoes is not. */
static void calls_may_be_made_from_within_done(void **state)
{
    (void)state;
    struct inquiry inquiry = {.again = 20};
    take_from(&inquiry, 3);
    while (inquiry.again > 0) {
        reply(waits('t', 0), true);
        if (inquiry.again % 2 == 0) {
            lose(waits('t', 1), CDL_STORE_LOST);
        } else {
            reply(waits('t', 1), true);
            reply(waits('t', 2), false);
        }
        if (inquiry.again % 3 == 0)
            while (operation_of(client->calls[0]) == 'u')
                reply(0, true);
    }
    close_asker();
    assert_failed(&inquiry, CDL_STORE_CLOSED);
}

static void closing_ends_all_that_is_in_flight(void **state)
{
    (void)state;
    struct inquiry waiting = {0}, looking = {0}, undoing = {0}, halfway = {0}, unasked = {0};
    take_from(&looking, 3);
    reply(waits('t', 0), true);
    reply(waits('t', 1), false);
    take_from(&undoing, 2);
    reply(waits('t', 0), true);
    lose(waits('t', 1), CDL_STORE_LOST);
    take_from(&halfway, 3);
    reply(waits('t', 0), true);
    reply(waits('t', 1), true);
    take_from(&waiting, 1);
    request(&unasked, 4711, "k", cdl_question_take(1));
    hand_in(&unasked, true);
    assert_int_equal(undoing.done, 1);
    close_asker();
    assert_int_equal(looking.done, 1);
    assert_int_equal(looking.decisions[1].verdict, CAUDAL_DENY);
    assert_failed(&halfway, CDL_STORE_CLOSED);
    assert_failed(&waiting, CDL_STORE_CLOSED);
    assert_int_equal(unasked.call.status, CAUDAL_ERR_UNKNOWN);
    /* Of `looking` one, of `undoing` one, of `halfway` two. */
    assert_int_equal(events_of(CDL_STORE_GIVE_BACK), 4);
}

static void what_is_asked_while_closing_fails(void **state)
{
    (void)state;
    struct inquiry unasked = {.again = 2}, asked = {.again = 2};
    take_from(&asked, 2);
    request(&unasked, 4711, "k", cdl_question_take(1));
    hand_in(&unasked, true);
    close_asker();
    assert_int_equal(asked.again + unasked.again, 0);
    assert_failed(&asked, CDL_STORE_CLOSED);
    assert_failed(&unasked, CDL_STORE_CLOSED);
}

static void no_memory_is_an_error_of_the_call(void **state)
{
    (void)state;
    struct inquiry inquiry = {0};
    counting.fail_at = counting.calls;
    take_from(&inquiry, 1);
    counting.fail_at = -1;
    assert_int_equal(inquiry.done, 0);
    cdl_store_client_flush(asker);
    assert_int_equal(inquiry.done, 1);
    assert_no_verdict(inquiry.decisions[0], CAUDAL_ERR_MEMORY);
}

/* Any fate of any trip, in any order: every call is answered once, what was charged for a call that was not allowed is undone or counted as
 * lost, and nothing is left behind. */
static void any_order_of_any_answers(void **state)
{
    (void)state;
    enum {
        INQUIRIES = 12
    };
    struct rng rng = {3};
    for (int round = 0; round < 300; round++) {
        struct inquiry inquiries[INQUIRIES] = {0};
        int64_t charged = 0, undone = 0, allowed = 0;
        const uint64_t lost = events_of(CDL_STORE_GIVE_BACK);
        for (size_t i = 0; i < INQUIRIES; i++)
            take_from(&inquiries[i], 1 + rng_below(&rng, 8));
        while (client->count > 0 && rng_below(&rng, 200) > 0) {
            const size_t index = rng_below(&rng, client->count);
            const char operation = operation_of(client->calls[index]);
            if (rng_below(&rng, 12) == 0) {
                lose(index, CDL_STORE_TIMEOUT);
                continue;
            }
            const bool passes = operation == 'u' || rng_below(&rng, 6) > 0;
            charged += operation == 't' && passes;
            undone += operation == 'u';
            reply(index, passes);
        }
        if (client->count > 0) {
            close_asker();
            const struct cdl_loop_hooks hooks = {.alarm = no_alarm};
            asker = cdl_store_client_open(store, &hooks);
        }
        for (size_t i = 0; i < INQUIRIES; i++) {
            assert_int_equal(inquiries[i].done, 1);
            for (size_t k = 0; k < inquiries[i].call.count; k++)
                allowed += inquiries[i].decisions[k].granted > 0;
        }
        assert_int_equal(charged, allowed + undone + (int64_t)(events_of(CDL_STORE_GIVE_BACK) - lost));
    }
}

/* ---- the blocking functions ---- */

static void refuse_the_second(void)
{
    for (size_t i = 0; i < client->flushed;) {
        const char operation = operation_of(client->calls[i]);
        if (operation == 'u') {
            i++;
            continue;
        }
        reply(i, slot_of(client->calls[i]) != 1);
        client->flushed--;
    }
}

/* Whoever waits goes away with the answer: what has to be undone is not left lying. */
static void what_a_waiter_has_to_undo_is_sent_before_it_rests(void **state)
{
    (void)state;
    struct caudal_decision decisions[2], overall;
    const struct caudal_request requests[] = {{bucket, "a", 1, 1}, {bucket, "b", 1, 1}};
    close_asker();
    at_flush = refuse_the_second;
    assert_int_equal(caudal_take_all(store, requests, 2, decisions, &overall), CAUDAL_OK);
    assert_int_equal(overall.verdict, CAUDAL_DENY);
    assert_int_equal(client->count, 1);
    assert_int_equal(operation_of(client->calls[0]), 'u');
    assert_int_equal(client->flushed, 1);
    at_flush = NULL;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(slots_are_charged_one_after_the_other),
        CASE(a_refusal_undoes_what_was_charged_and_looks_at_the_rest),
        CASE(an_undoing_that_is_answered_early_changes_no_answer),
        CASE(what_cannot_be_looked_at_is_said_to_be_unknown),
        CASE(a_failure_undoes_what_was_charged_and_asks_no_more),
        CASE(an_undoing_that_is_lost_is_counted),
        CASE(subjects_of_a_slot_travel_together),
        CASE(a_look_at_several_slots_is_one_at_all_at_once),
        CASE(trips_share_the_deadline_of_their_call),
        CASE(twins_are_one_subject),
        CASE(alone_each_has_its_own_fate),
        CASE(together_an_unknown_limit_asks_nobody),
        CASE(malformed_replies_are_failures),
        CASE(what_was_healed_is_counted),
        CASE(limits_may_change_while_a_call_is_under_way),
        CASE(calls_may_be_made_from_within_done),
        CASE(closing_ends_all_that_is_in_flight),
        CASE(what_is_asked_while_closing_fails),
        CASE(no_memory_is_an_error_of_the_call),
        CASE(any_order_of_any_answers),
        CASE(what_a_waiter_has_to_undo_is_sent_before_it_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
