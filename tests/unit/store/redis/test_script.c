/* The scripts in a real Redis, on the caller's clock: every vector of whole microseconds, several limits at once, and what is left in
 * the store. Long because every case asks through the plainest of clients, which stands here, and reads the bytes that are left. */
#include "../../support.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../redis_server.h"
#include "../../vectors.h"
#include "base/writer.h"
#include "store/redis/question.h"

#define KEYS_MAX VECTOR_LIMITS_MAX

static struct redis_server server;
static int connection;

static int start(void **state)
{
    (void)state;
    redis_server_start(&server);
    connection = redis_server_connect(&server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    close(connection);
    redis_server_stop(&server);
    return 0;
}

/* ---- the plainest of clients ---- */

static void write_word(struct cdl_writer *writer, struct cdl_slice word)
{
    cdl_writef(writer, "$%zu\r\n", word.length);
    cdl_write(writer, word);
    cdl_write_text(writer, "\r\n");
}

static void read_exactly(char *bytes, size_t length)
{
    for (size_t got = 0; got < length;) {
        const ssize_t step = read(connection, bytes + got, length - got);
        assert_true(step > 0);
        got += (size_t)step;
    }
}

static size_t read_line(char *line, size_t size)
{
    size_t length = 0;
    do {
        assert_true(length < size - 1);
        read_exactly(line + length++, 1);
    } while (length < 2 || line[length - 1] != '\n');
    line[length - 2] = '\0';
    return length - 2;
}

/* Sends a command and reads a bulk string, or the number of an integer reply into it. */
static struct cdl_slice command(const struct cdl_slice *words, size_t count, char *reply, size_t size)
{
    static char bytes[64 * 1024];
    struct cdl_writer writer = cdl_writer_on(bytes, sizeof bytes);
    cdl_writef(&writer, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        write_word(&writer, words[i]);
    assert_false(writer.overflow);
    assert_int_equal(write(connection, bytes, writer.length), writer.length);
    char line[512];
    const size_t line_length = read_line(line, sizeof line);
    if (line[0] == '-')
        fail_msg("%s", line);
    if (line[0] != '$') {
        memcpy(reply, line + 1, line_length);
        return (struct cdl_slice){reply, line_length - 1};
    }
    if (line[1] == '-')
        return (struct cdl_slice){reply, 0}; /* no such key */
    const size_t length = (size_t)strtoul(line + 1, NULL, 10);
    assert_true(length + 2 <= size);
    read_exactly(reply, length + 2);
    return (struct cdl_slice){reply, length};
}

/* ---- asking ---- */

struct asked {
    struct cdl_redis_limit limits[KEYS_MAX];
    struct cdl_question questions[KEYS_MAX];
    size_t count;
    char operation;
    int64_t now_ns; /* -1: the store's own clock */
    bool long_way;  /* with the script that has no quick way */
    double numbers[2 + CDL_REDIS_ANSWER_NUMBERS * KEYS_MAX];
    struct caudal_decision decisions[KEYS_MAX];
};

static unsigned scenario;

static void ask(struct asked *asked)
{
    char keys[KEYS_MAX][64], packed[KEYS_MAX][CDL_REDIS_QUESTION_MAX], now[32] = "", count[8], reply[1024];
    struct cdl_slice words[5 + 2 * KEYS_MAX];
    const bool mixed = asked->count > 1 || asked->long_way;
    const struct cdl_redis_script *script =
        &cdl_redis_scripts()[mixed ? CDL_SCRIPT_MIXED : cdl_redis_script_of(&asked->limits[0])];
    if (asked->now_ns >= 0)
        snprintf(now, sizeof now, "%lld", (long long)asked->now_ns / 1000);
    snprintf(count, sizeof count, "%zu", asked->count);
    size_t n = 0;
    words[n++] = CDL_SLICE("EVAL");
    words[n++] = script->text;
    words[n++] = cdl_slice_of(count);
    for (size_t i = 0; i < asked->count; i++) {
        snprintf(keys[i], sizeof keys[i], "test:%u:%zu", scenario, i);
        words[n++] = cdl_slice_of(keys[i]);
    }
    words[n++] = (struct cdl_slice){&asked->operation, 1};
    words[n++] = cdl_slice_of(now);
    for (size_t i = 0; i < asked->count; i++)
        words[n++] = (struct cdl_slice){packed[i],
                                        cdl_redis_question_pack(&asked->limits[i], &asked->questions[i], packed[i])};
    const struct cdl_slice answer = command(words, n, reply, sizeof reply);
    assert_int_equal(answer.length, (2 + CDL_REDIS_ANSWER_NUMBERS * asked->count) * sizeof(double));
    memcpy(asked->numbers, answer.bytes, answer.length);

    bool spend = true;
    for (size_t i = 0; i < asked->count; i++)
        spend &= cdl_redis_answer_passes(&asked->numbers[2 + CDL_REDIS_ANSWER_NUMBERS * i]);
    for (size_t i = 0; i < asked->count; i++)
        assert_true(cdl_redis_question_answer(&asked->limits[i], &asked->questions[i],
                                              &asked->numbers[2 + CDL_REDIS_ANSWER_NUMBERS * i],
                                              (int64_t)asked->numbers[1], spend, &asked->decisions[i]));
}

/* ---- vectors ---- */

static void begin(void *context, const struct caudal_limit *limits, size_t count)
{
    struct asked *asked = context;
    scenario++;
    asked->count = count;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(cdl_redis_limit_make(&limits[i], &asked->limits[i], NULL), CAUDAL_OK);
}

static void step(void *context, const struct vector_step *step)
{
    static const char operations[] = {
        [VECTOR_TAKE] = 't', [VECTOR_PEEK] = 'p', [VECTOR_REFUND] = 'r', [VECTOR_SET] = 't'};
    struct asked *asked = context;
    asked->now_ns = step->now_ns;
    asked->operation = operations[step->action];
    for (size_t i = 0; i < asked->count; i++) {
        if (step->action == VECTOR_SET)
            assert_int_equal(cdl_redis_limit_make(&step->limit, &asked->limits[i], NULL), CAUDAL_OK);
        /* A changed limit reaches a key at its next touch: a take of nothing. */
        asked->questions[i] = step->action == VECTOR_TAKE   ? cdl_question_take(step->amount)
                              : step->action == VECTOR_PEEK ? cdl_question_peek(step->amount)
                              : step->action == VECTOR_REFUND
                                  ? (struct cdl_question){.operation = CDL_REFUND, .maximum = step->amount}
                                  : cdl_question_take(0);
    }
    ask(asked);
    assert_int_equal((int64_t)asked->numbers[0], 0);
    for (size_t i = 0; step->has_want && i < asked->count; i++)
        vectors_check(step, &step->want[i], &asked->decisions[i], 0);
}

static void test_every_vector_of_whole_microseconds(void **state)
{
    (void)state;
    static const char *const files[] = {"named.us.jsonl",
                                        "random.token_bucket.us.jsonl",
                                        "random.fixed_window.us.jsonl",
                                        "random.sliding_window.us.jsonl",
                                        "random.sliding_log.us.jsonl",
                                        "several.us.jsonl"};
    static struct asked asked;
    const struct vector_player player = {begin, step, &asked};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_true(vectors_play(files[i], -1, &player) > 0);
}

/* ---- limits ---- */

/* The count of a bucket that names its burst is bounded by its period only. */
static void test_rates_are_reduced_without_overflow(void **state)
{
    (void)state;
    const int64_t far = 90 * YEAR;
    struct cdl_redis_limit made;
    struct caudal_limit limit = bucket_of(10, (uint64_t)far / 2, far);
    assert_int_equal(caudal_limit_check(&limit, NULL), CAUDAL_OK);
    assert_int_equal(cdl_redis_limit_make(&limit, &made, NULL), CAUDAL_OK);
    assert_int_equal(made.n, 500);
    assert_int_equal(made.d, 1);
    /* 2^61 - 1 is a prime. */
    limit = bucket_of(10, (UINT64_C(1) << 61) - 1, far);
    assert_int_equal(caudal_limit_check(&limit, NULL), CAUDAL_OK);
    assert_int_equal(cdl_redis_limit_make(&limit, &made, NULL), CAUDAL_ERR_LIMIT);
    limit = bucket_of(1000, 1000000007, SECOND * 1000000007);
    assert_int_equal(cdl_redis_limit_make(&limit, &made, NULL), CAUDAL_OK);
    assert_int_equal(made.n, 1);
    assert_int_equal(made.d, 1000000);
}

/* ---- the core, at the same instants ---- */

struct pair {
    struct asked asked;
    struct caudal_store *core;
    uint32_t id;
};

static void pair_limit(struct pair *pair, const struct caudal_limit *limit, int64_t now_ns)
{
    assert_int_equal(cdl_redis_limit_make(limit, &pair->asked.limits[0], NULL), CAUDAL_OK);
    assert_int_equal(caudal_set_limit_at(pair->core, pair->id, limit, now_ns, NULL), CAUDAL_OK);
}

static struct caudal_decision ask_core(struct pair *pair, const struct cdl_question *question, int64_t now_ns)
{
    struct caudal_decision decision;
    if (question->operation == CDL_REFUND)
        caudal_refund_at(pair->core, pair->id, "key", 3, question->maximum, now_ns, &decision);
    else if (question->operation == CDL_PEEK)
        caudal_peek_at(pair->core, pair->id, "key", 3, question->minimum, now_ns, &decision);
    else
        caudal_take_up_to_at(pair->core, pair->id, "key", 3, question->minimum, question->maximum, now_ns, &decision);
    assert_int_equal(decision.status, CAUDAL_OK);
    return decision;
}

static void ask_both(struct pair *pair, char operation, struct cdl_question question, int64_t now_ns)
{
    pair->asked.operation = operation;
    pair->asked.now_ns = now_ns;
    pair->asked.questions[0] = question;
    ask(&pair->asked);
    const struct caudal_decision core = ask_core(pair, &question, now_ns), script = pair->asked.decisions[0];
    assert_int_equal(script.verdict, core.verdict);
    assert_int_equal(script.capacity, core.capacity);
    assert_int_equal(script.granted, core.granted);
    assert_int_equal(script.remaining, core.remaining);
    assert_true(llabs(script.retry_after_ns - core.retry_after_ns) <= 1);
    assert_true(llabs(script.reset_after_ns - core.reset_after_ns) <= 1);
}

static void ask_something(struct pair *pair, struct rng *rng, int64_t now_ns)
{
    const uint64_t capacity = caudal_limit_capacity(&pair->asked.limits[0].limit);
    const uint64_t minimum = rng_below(rng, capacity / 2 + 3);
    switch (rng_below(rng, 6)) {
    case 0:
        ask_both(pair, 'p', cdl_question_peek(minimum), now_ns);
        break;
    case 1:
        ask_both(pair, 'r', (struct cdl_question){.operation = CDL_REFUND, .maximum = minimum}, now_ns);
        break;
    case 2:
        ask_both(pair, 't',
                 (struct cdl_question){
                     .operation = CDL_TAKE, .minimum = minimum, .maximum = minimum + rng_below(rng, capacity + 2)},
                 now_ns);
        break;
    default:
        ask_both(pair, 't', cdl_question_take(rng_below(rng, capacity / 4 + 2)), now_ns);
        break;
    }
}

static struct caudal_limit some_limit(struct rng *rng, enum caudal_algorithm algorithm, uint64_t period_us)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    limit.algorithm = algorithm;
    limit.count = rng_below(rng, 100) + (algorithm != CAUDAL_TOKEN_BUCKET);
    limit.period_ns = period_us * 1000;
    if (algorithm == CAUDAL_TOKEN_BUCKET && rng_below(rng, 2) == 0)
        limit.burst = rng_below(rng, 200);
    return limit;
}

/* Every kind of question, clocks that slip back, and limits that change under live state. */
static void test_the_core_answers_the_same(void **state)
{
    (void)state;
    static struct pair pair;
    static const uint64_t periods_us[] = {1, 700, 1000000, 7000000, 60000000, 3600000000};
    struct rng rng = {4};
    assert_int_equal(caudal_store_open("memory:?keys=1000", NULL, &pair.core, NULL), CAUDAL_OK);
    for (int round = 0; round < 400; round++) {
        const enum caudal_algorithm algorithm = (enum caudal_algorithm)(round % 4);
        const uint64_t period_us = periods_us[rng_below(&rng, COUNT_OF(periods_us))];
        struct caudal_limit limit = some_limit(&rng, algorithm, period_us);
        int64_t now_ns = INT64_C(1764547200000000000);
        begin(&pair.asked, &limit, 1);
        char name[32];
        snprintf(name, sizeof name, "limit %d", round);
        assert_int_equal(caudal_add_limit(pair.core, name, &limit, &pair.id, NULL), CAUDAL_OK);
        for (int i = 0; i < 40; i++) {
            now_ns += (int64_t)rng_below(&rng, period_us) * 500;
            if (rng_below(&rng, 10) == 0)
                now_ns -= (int64_t)rng_below(&rng, period_us / 4 + 1) * 1000;
            now_ns -= now_ns % 1000;
            if (rng_below(&rng, 12) == 0) {
                /* Windows keep their length, for with another one they start again, but not at the same instant in both; buckets
                 * keep their rate, for a debt that the core has to round it rounds otherwise. */
                const uint64_t count = limit.count;
                limit = some_limit(&rng, algorithm, period_us);
                if (algorithm == CAUDAL_TOKEN_BUCKET)
                    limit.count = count;
                pair_limit(&pair, &limit, now_ns);
                ask_both(&pair, 't', cdl_question_take(0), now_ns);
            }
            ask_something(&pair, &rng, now_ns);
        }
        assert_int_equal(caudal_remove_limit(pair.core, pair.id), CAUDAL_OK);
    }
    caudal_store_close(pair.core);
}

/* ---- what is left in the store ---- */

static struct asked *fresh(const struct caudal_limit *limit, char operation, struct cdl_question question)
{
    static struct asked asked;
    begin(&asked, limit, 1);
    asked.operation = operation;
    asked.questions[0] = question;
    asked.now_ns = -1;
    return &asked;
}

static const char *key_name(void)
{
    static char name[64];
    snprintf(name, sizeof name, "test:%u:0", scenario);
    return name;
}

/* "PTTL key", "SET key value": the number that it answers. */
static int64_t plain(const char *verb, const char *argument)
{
    const struct cdl_slice words[] = {cdl_slice_of(verb), cdl_slice_of(key_name()),
                                      cdl_slice_of(argument == NULL ? "" : argument)};
    char reply[256] = "";
    const struct cdl_slice answer = command(words, argument == NULL ? 2 : 3, reply, sizeof reply);
    reply[answer.length] = '\0';
    return strtoll(reply, NULL, 10);
}

static const struct caudal_limit *a_limit(enum caudal_algorithm algorithm)
{
    static struct caudal_limit limit;
    limit = limit_of(algorithm, 10, 20 * SECOND);
    return &limit;
}

/* It is kept until it is as good as absent, and at most a second longer. */
static void test_an_expiry_is_the_time_to_recover(void **state)
{
    (void)state;
    for (int algorithm = CAUDAL_TOKEN_BUCKET; algorithm <= CAUDAL_SLIDING_LOG; algorithm++) {
        struct asked *asked = fresh(a_limit((enum caudal_algorithm)algorithm), 't', cdl_question_take(3));
        for (int i = 0; i < 4; i++) {
            ask(asked);
            assert_int_equal(asked->decisions[0].verdict, i < 3 ? CAUDAL_ALLOW : CAUDAL_DENY);
            const int64_t left_ms = plain("PTTL", NULL), reset_ms = asked->decisions[0].reset_after_ns / MILLISECOND;
            /* Some of it may have passed between the two. */
            assert_true(left_ms <= reset_ms + 1000);
            assert_true(left_ms > reset_ms - 1000);
        }
    }
    /* Without refill a key recovers never; it is kept for ten years. */
    const struct caudal_limit once = bucket_of(1, 0, SECOND);
    ask(fresh(&once, 't', cdl_question_take(1)));
    assert_true(plain("PTTL", NULL) > INT64_C(9) * 365 * 24 * 3600 * 1000);
}

static void test_a_key_without_expiry_is_healed_by_a_refusal(void **state)
{
    (void)state;
    for (int algorithm = CAUDAL_TOKEN_BUCKET; algorithm <= CAUDAL_SLIDING_LOG; algorithm++) {
        struct asked *asked = fresh(a_limit((enum caudal_algorithm)algorithm), 't', cdl_question_take(10));
        ask(asked);
        assert_int_equal(plain("PERSIST", NULL), 1);
        assert_int_equal(plain("PTTL", NULL), -1);
        ask(asked);
        assert_int_equal(asked->decisions[0].verdict, CAUDAL_DENY);
        assert_int_equal((int64_t)asked->numbers[0], 1);
        assert_true(plain("PTTL", NULL) > 0);
        ask(asked);
        assert_int_equal((int64_t)asked->numbers[0], 0);
    }
}

static void test_foreign_values_count_as_absent(void **state)
{
    (void)state;
    static const char *const verbs[] = {"SET", "LPUSH", "SADD", "SET"};
    static const char *const values[] = {"12", "x", "x", "a string of 33 bytes, as buckets. "};
    for (int algorithm = CAUDAL_TOKEN_BUCKET; algorithm <= CAUDAL_SLIDING_LOG; algorithm++)
        for (size_t i = 0; i < COUNT_OF(verbs); i++) {
            struct asked *asked = fresh(a_limit((enum caudal_algorithm)algorithm), 't', cdl_question_take(4));
            plain(verbs[i], values[i]);
            ask(asked);
            assert_int_equal(asked->decisions[0].verdict, CAUDAL_ALLOW);
            assert_int_equal(asked->decisions[0].remaining, 6);
            assert_int_equal((int64_t)asked->numbers[0], 1);
            assert_true(plain("PTTL", NULL) > 0);
            asked->operation = 'r';
            asked->questions[0] = (struct cdl_question){.operation = CDL_REFUND, .maximum = 1};
            ask(asked);
            assert_int_equal(asked->decisions[0].remaining, 7);
        }
}

/* A name whose limit comes with each call: what another algorithm has left is absent, is not damaged, and stays until something is spent. */
static void test_the_value_of_another_algorithm_is_absent_and_stays(void **state)
{
    (void)state;
    for (int first = CAUDAL_TOKEN_BUCKET; first <= CAUDAL_SLIDING_WINDOW; first++)
        for (int then = CAUDAL_TOKEN_BUCKET; then <= CAUDAL_SLIDING_WINDOW; then++) {
            if (first == then)
                continue;
            struct asked *asked = fresh(a_limit((enum caudal_algorithm)first), 't', cdl_question_take(4));
            asked->now_ns = EPOCH;
            ask(asked);
            const struct cdl_redis_limit limit = asked->limits[0];
            assert_int_equal(cdl_redis_limit_make(a_limit((enum caudal_algorithm)then), &asked->limits[0], NULL),
                             CAUDAL_OK);
            static const char operations[] = "tpru";
            for (size_t i = 0; i < 4; i++) {
                asked->operation = operations[i];
                asked->questions[0] = i == 0   ? cdl_question_take(11)
                                      : i == 1 ? cdl_question_peek(0)
                                               : (struct cdl_question){.operation = i == 2 ? CDL_REFUND : CDL_UNDO,
                                                                       .maximum = 1,
                                                                       .charged_realtime_ns = EPOCH};
                ask(asked);
                assert_int_equal(asked->decisions[0].remaining, 10);
                assert_int_equal((int64_t)asked->numbers[0], 0);
            }
            const struct cdl_redis_limit other = asked->limits[0];
            asked->limits[0] = limit;
            asked->operation = 't';
            asked->questions[0] = cdl_question_take(0);
            ask(asked);
            assert_int_equal(asked->decisions[0].remaining, 6);
            asked->limits[0] = other;
            asked->questions[0] = cdl_question_take(1);
            ask(asked);
            assert_int_equal(asked->decisions[0].remaining, 9);
            assert_int_equal((int64_t)asked->numbers[0], 0);
            assert_true(plain("PTTL", NULL) > 0);
            ask(asked);
            assert_int_equal(asked->decisions[0].remaining, 8);
        }
}

/* Another length begins anew, and what looks at it or gives back changes nothing. */
static void test_a_window_of_another_length_begins_anew(void **state)
{
    (void)state;
    for (int algorithm = CAUDAL_FIXED_WINDOW; algorithm <= CAUDAL_SLIDING_WINDOW; algorithm++) {
        struct asked *asked = fresh(a_limit((enum caudal_algorithm)algorithm), 't', cdl_question_take(4));
        asked->now_ns = EPOCH;
        ask(asked);
        const struct cdl_redis_limit limit = asked->limits[0];
        const struct caudal_limit longer = limit_of((enum caudal_algorithm)algorithm, 10, MINUTE);
        assert_int_equal(cdl_redis_limit_make(&longer, &asked->limits[0], NULL), CAUDAL_OK);
        const struct cdl_redis_limit other = asked->limits[0];
        asked->questions[0] = cdl_question_take(11);
        ask(asked);
        assert_int_equal(asked->decisions[0].remaining, 10);
        asked->operation = 'r';
        asked->questions[0] = (struct cdl_question){.operation = CDL_REFUND, .maximum = 3};
        ask(asked);
        assert_int_equal(asked->decisions[0].remaining, 10);
        asked->operation = 't';
        asked->questions[0] = cdl_question_take(0);
        asked->limits[0] = limit;
        ask(asked);
        assert_int_equal(asked->decisions[0].remaining, 6);
        asked->questions[0] = cdl_question_take(2);
        asked->limits[0] = other;
        ask(asked);
        ask(asked);
        assert_int_equal(asked->decisions[0].remaining, 6);
        assert_int_equal((int64_t)asked->numbers[0], 0);
    }
}

/* ---- what strangers leave ---- */

static void store_bytes(const char *verb, const void *bytes, size_t length)
{
    const struct cdl_slice words[] = {cdl_slice_of(verb), cdl_slice_of(key_name()), {bytes, length}};
    char reply[64];
    command(words, 3, reply, sizeof reply);
}

/* A value of the right shape for the algorithm, with `damage` in place of one of its numbers. */
static size_t damaged_value(const struct asked *asked, size_t place, double damage, char value[40])
{
    const struct cdl_redis_limit *limit = &asked->limits[0];
    const double now = (double)(asked->now_ns / 1000), period = (double)limit->period_us;
    double numbers[4] = {now + 1000000, 0, (double)limit->n, (double)limit->d}; /* a bucket */
    if (limit->letter == 'f' || limit->letter == 'w') {
        numbers[0] = (double)(asked->now_ns / 1000 / (int64_t)limit->period_us);
        numbers[1] = period;
        numbers[2] = 3;
        numbers[3] = 2;
    } else if (limit->letter == 'l') {
        numbers[0] = now - 1000000;
        numbers[1] = numbers[2] = 3;
    }
    const size_t count = limit->letter == 'b' || limit->letter == 'w' ? 4 : 3;
    numbers[place % count] = damage;
    const size_t head = limit->letter != 'l';
    value[0] = limit->letter;
    memcpy(value + head, numbers, count * sizeof(double));
    return head + count * sizeof(double);
}

/* However the key was left: no error, no answer that is none, no more than twice the limit, and in a while as if nothing had been. */
static void assert_bounded(struct asked *asked)
{
    const int64_t start_ns = asked->now_ns, period_ns = (int64_t)asked->limits[0].limit.period_ns;
    uint64_t granted = 0;
    asked->operation = 'p';
    asked->questions[0] = cdl_question_peek(1);
    ask(asked);
    asked->operation = 'r';
    asked->questions[0] = (struct cdl_question){.operation = CDL_REFUND, .maximum = 1};
    ask(asked);
    asked->operation = 't';
    for (int i = 0; i < 25; i++) {
        asked->questions[0] = i % 5 == 4 ? (struct cdl_question){.operation = CDL_TAKE, .minimum = 1, .maximum = 2}
                                         : cdl_question_take(1);
        ask(asked);
        granted += asked->decisions[0].granted;
    }
    assert_true(granted <= 11); /* one of them was given back */
    asked->now_ns = start_ns + 3 * period_ns + MINUTE;
    asked->questions[0] = cdl_question_take(0);
    ask(asked);
    asked->now_ns += 3 * period_ns + MINUTE;
    asked->questions[0] = cdl_question_take(10);
    ask(asked);
    assert_int_equal(asked->decisions[0].verdict, CAUDAL_ALLOW);
    ask(asked);
    assert_int_equal(asked->decisions[0].verdict, CAUDAL_DENY);
}

static void test_damaged_values_are_no_error_and_no_refusal_for_ever(void **state)
{
    (void)state;
    static const double damages[] = {NAN, -NAN,   INFINITY, -INFINITY, -1,    -0.5,   0.5,    1e-320,      0,
                                     1,   0x1p52, 0x1p53,   0x1p60,    1e300, -1e300, 1e-300, 1e15 + 0.125};
    for (int algorithm = CAUDAL_TOKEN_BUCKET; algorithm <= CAUDAL_SLIDING_LOG; algorithm++)
        for (size_t place = 0; place < 4; place++)
            for (size_t i = 0; i < COUNT_OF(damages); i++) {
                struct asked *asked = fresh(a_limit((enum caudal_algorithm)algorithm), 't', cdl_question_take(1));
                char value[40];
                asked->now_ns = EPOCH + 5 * SECOND;
                const size_t length = damaged_value(asked, place, damages[i], value);
                const bool is_log = algorithm == CAUDAL_SLIDING_LOG;
                store_bytes(is_log ? "RPUSH" : "SET", value, length);
                if (is_log && i % 3 == 0) { /* among others */
                    asked->questions[0] = cdl_question_take(1);
                    ask(asked);
                    store_bytes("RPUSH", value, length);
                    store_bytes("LPUSH", value, length);
                }
                assert_bounded(asked);
            }
}

/* Any bytes of the right length: the letter as it should be, the rest by chance. */
static void test_random_bytes_are_no_error(void **state)
{
    (void)state;
    struct rng rng = {11};
    for (int round = 0; round < 2000; round++) {
        const enum caudal_algorithm algorithm = (enum caudal_algorithm)(round % 4);
        struct asked *asked = fresh(a_limit(algorithm), 't', cdl_question_take(1));
        char value[40];
        asked->now_ns = EPOCH + 5 * SECOND;
        const size_t length = damaged_value(asked, 0, (double)(asked->now_ns / 1000), value);
        for (uint64_t k = rng_below(&rng, 12); k > 0; k--)
            value[1 + rng_below(&rng, length - 1)] = (char)rng_next(&rng);
        store_bytes(algorithm == CAUDAL_SLIDING_LOG ? "RPUSH" : "SET", value, length);
        assert_bounded(asked);
    }
}

/* All are asked before any is charged, which meets each key twice. */
static void test_what_is_healed_is_counted_once(void **state)
{
    (void)state;
    const struct caudal_limit limits[2] = {limit_of(CAUDAL_TOKEN_BUCKET, 10, SECOND),
                                           limit_of(CAUDAL_TOKEN_BUCKET, 10, SECOND)};
    static struct asked asked;
    begin(&asked, limits, 2);
    asked.now_ns = -1;
    asked.operation = 't';
    asked.questions[0] = asked.questions[1] = cdl_question_take(1);
    const double numbers[] = {1e15, 0, (double)asked.limits[0].n, (double)asked.limits[0].d}; /* full since 2001 */
    char value[33] = "b";
    memcpy(value + 1, numbers, sizeof numbers);
    store_bytes("SET", value, sizeof value);
    ask(&asked);
    assert_int_equal((int64_t)asked.numbers[0], 1);
    assert_int_equal(asked.decisions[0].verdict, CAUDAL_ALLOW);
    assert_int_equal(asked.decisions[0].remaining, 9);
}

/* What has been refilled of a charge since is not given back once more. */
static void test_undoing_gives_back_what_is_left_of_a_charge(void **state)
{
    (void)state;
    struct asked *asked = fresh(a_limit(CAUDAL_TOKEN_BUCKET), 't', cdl_question_take(5));
    asked->now_ns = EPOCH;
    ask(asked);
    /* All of it has been refilled after 10 s, and another takes 4. */
    asked->now_ns = EPOCH + 10 * SECOND;
    asked->questions[0] = cdl_question_take(4);
    ask(asked);
    asked->operation = 'u';
    asked->questions[0] = (struct cdl_question){.operation = CDL_UNDO, .maximum = 5, .charged_realtime_ns = EPOCH};
    ask(asked);
    assert_int_equal(asked->decisions[0].remaining, 6);
    asked->questions[0].charged_realtime_ns = EPOCH + 8 * SECOND;
    ask(asked);
    assert_int_equal(asked->decisions[0].remaining, 10);

    asked = fresh(a_limit(CAUDAL_FIXED_WINDOW), 't', cdl_question_take(5));
    asked->now_ns = EPOCH + 20 * SECOND;
    ask(asked);
    asked->operation = 'u';
    asked->questions[0] = (struct cdl_question){.operation = CDL_UNDO, .maximum = 5, .charged_realtime_ns = EPOCH};
    ask(asked);
    assert_int_equal(asked->decisions[0].remaining, 5); /* it was of the window before */
}

/* Of a log a charge is undone in its own entry, not in what others have spent since, and not at all when it has expired. */
static void test_undoing_leaves_what_others_have_logged_since(void **state)
{
    (void)state;
    struct asked *asked = fresh(a_limit(CAUDAL_SLIDING_LOG), 't', cdl_question_take(5));
    asked->now_ns = EPOCH;
    ask(asked);
    asked->now_ns = EPOCH + 10 * SECOND;
    asked->questions[0] = cdl_question_take(4);
    ask(asked);
    const struct cdl_question undo = {.operation = CDL_UNDO, .maximum = 3, .charged_realtime_ns = EPOCH};
    asked->operation = 'u';
    asked->questions[0] = undo;
    ask(asked);
    assert_int_equal(asked->decisions[0].remaining, 4); /* 2 of the first, 4 of the second */
    asked->operation = 'p';
    asked->questions[0] = cdl_question_peek(5);
    ask(asked);
    assert_int_equal(asked->decisions[0].retry_after_ns, 10 * SECOND); /* the first goes */
    asked->questions[0] = cdl_question_peek(7);
    ask(asked);
    assert_int_equal(asked->decisions[0].retry_after_ns, 20 * SECOND); /* the second goes, too */
    asked->now_ns = EPOCH + 20 * SECOND;
    asked->operation = 'u';
    asked->questions[0] = undo;
    ask(asked);
    assert_int_equal(asked->decisions[0].remaining, 6); /* the second is whole */
    asked->questions[0].charged_realtime_ns = EPOCH + 10 * SECOND;
    ask(asked);
    assert_int_equal(asked->decisions[0].remaining, 9);
    ask(asked);
    assert_int_equal(asked->decisions[0].remaining, 10);
    assert_int_equal(asked->decisions[0].reset_after_ns, 0);
}

/* Two rates whose terms are large and have no divisor in common: the fraction that would be exact has more than 52 bits. */
static void test_a_debt_too_fine_to_keep_is_rounded_up_by_a_microsecond_of_refill(void **state)
{
    (void)state;
    const struct caudal_limit odd = bucket_of(1000, 1000003, 999999937 * MICROSECOND),
                              other = bucket_of(1000, 999983, 999999893 * MICROSECOND);
    struct asked *asked = fresh(&odd, 't', cdl_question_take(500));
    asked->now_ns = EPOCH;
    ask(asked);
    const int64_t period_ns = 999999893 * MICROSECOND, passed_us = 123456;
    assert_int_equal(cdl_redis_limit_make(&other, &asked->limits[0], NULL), CAUDAL_OK);
    asked->operation = 'p';
    asked->questions[0] = cdl_question_peek(0);
    ask(asked);
    /* 500 tokens at that rate: whole ones are never rounded. */
    const int64_t exact = (int64_t)((__int128)500 * period_ns / 999983);
    assert_true(asked->decisions[0].remaining == 500);
    assert_in_range(asked->decisions[0].reset_after_ns, exact, exact + 1);
    /* When some of them has been refilled at the old rate. */
    asked->now_ns += passed_us * MICROSECOND;
    ask(asked);
    const int64_t less = (int64_t)((__int128)passed_us * 1000003 * period_ns / ((__int128)999999937 * 999983));
    assert_int_equal(asked->decisions[0].remaining, 500 + (uint64_t)passed_us * 1000003 / 999999937);
    assert_in_range(asked->decisions[0].reset_after_ns, exact - less - 1, exact - less + 2 * MICROSECOND);
}

/* A fraction of a microsecond at a fast rate may be years at a slow one, where the whole microsecond would be beyond all. */
static void test_a_small_debt_stays_small_however_slow_the_rate(void **state)
{
    (void)state;
    const struct caudal_limit fast = bucket_of(1000000, 200, MICROSECOND), slow = bucket_of(2, 1, 2 * YEAR);
    struct asked *asked = fresh(&fast, 't', cdl_question_take(1));
    asked->now_ns = EPOCH;
    ask(asked);
    assert_int_equal(cdl_redis_limit_make(&slow, &asked->limits[0], NULL), CAUDAL_OK);
    asked->questions[0] = cdl_question_take(0);
    ask(asked);
    assert_int_equal(asked->decisions[0].remaining, 1);
    assert_int_equal(asked->decisions[0].reset_after_ns, 2 * YEAR);
}

/* A limit as odd as may be: two in three have periods that share no divisor with anything, and so take all the room there is. */
static struct caudal_limit odd_bucket(struct rng *rng, struct cdl_redis_limit *made)
{
    static const int64_t primes_us[] = {998244353, 1000000007, 999999937, 1000003, 2147483647, 67280421310721};
    for (;;) {
        struct caudal_limit limit = random_bucket(rng);
        if (rng_below(rng, 3) > 0)
            limit = bucket_of(1 + rng_below(rng, 30), 1 + rng_below(rng, 3),
                              primes_us[rng_below(rng, COUNT_OF(primes_us))] * MICROSECOND);
        if (rng_below(rng, 10) == 0)
            limit.count = 0, limit.burst = rng_magnitude(rng, CAUDAL_CAPACITY_MAX);
        if (caudal_limit_check(&limit, NULL) == CAUDAL_OK && cdl_redis_limit_make(&limit, made, NULL) == CAUDAL_OK)
            return limit;
    }
}

/* From any rate to any other and back, numbers stay whole, and who asks for all that there is gets it, and no more. */
static void test_all_that_there_is_and_no_more(void **state)
{
    (void)state;
    struct rng rng = {5};
    for (int round = 0; round < 400; round++) {
        static struct asked asked;
        struct caudal_limit limit = odd_bucket(&rng, &asked.limits[0]);
        begin(&asked, &limit, 1);
        asked.now_ns = EPOCH;
        for (int i = 0; i < 12; i++) {
            const uint64_t capacity = caudal_limit_capacity(&limit);
            asked.operation = 't';
            asked.now_ns += (int64_t)rng_magnitude(&rng, HOUR) / 1000 * 1000;
            asked.questions[0] = cdl_question_take(rng_below(&rng, capacity / 2 + 2));
            ask(&asked);
            if (rng_below(&rng, 2) == 0) {
                asked.questions[0] = (struct cdl_question){.operation = CDL_TAKE,
                                                           .maximum = rng_below(&rng, 2) == 0 ? UINT64_MAX : capacity};
                ask(&asked);
                assert_int_equal(asked.decisions[0].remaining, 0);
                asked.questions[0] = cdl_question_take(1);
                ask(&asked);
                assert_int_not_equal(asked.decisions[0].verdict, CAUDAL_ALLOW);
                if (asked.decisions[0].verdict == CAUDAL_DENY)
                    assert_true(asked.decisions[0].retry_after_ns > 0);
                asked.operation = 'r';
                asked.questions[0] = (struct cdl_question){.operation = CDL_REFUND,
                                                           .maximum = rng_below(&rng, capacity / 2 + 1)};
                ask(&asked);
            }
            const struct cdl_slice words[] = {CDL_SLICE("GET"), cdl_slice_of(key_name())};
            double value[4];
            char reply[64];
            if (command(words, 2, reply, sizeof reply).length == 33) {
                memcpy(value, reply + 1, sizeof value);
                for (size_t k = 0; k < 4; k++)
                    assert_true(value[k] >= 0 && value[k] < 0x1p53 && (double)(uint64_t)value[k] == value[k]);
            }
            if (rng_below(&rng, 2) == 0)
                limit = odd_bucket(&rng, &asked.limits[0]);
        }
    }
}

/* ---- how long a key is kept ---- */

static int64_t expires_at_ms(void)
{
    return plain("PEXPIRETIME", NULL);
}

/* When the key is as good as absent, in microseconds. */
static int64_t recovers_at_us(const struct asked *asked)
{
    return (int64_t)asked->numbers[1] + asked->decisions[0].reset_after_ns / 1000;
}

static void ask_some_operation(struct asked *asked, struct rng *rng)
{
    static const char operations[] = "ttttttrup";
    const int64_t now_us = (int64_t)asked->numbers[1];
    asked->operation = operations[rng_below(rng, sizeof operations - 1)];
    const uint64_t cost = rng_below(rng, 4), more = cost + rng_below(rng, 3);
    switch (asked->operation) {
    case 't':
        asked->questions[0] = (struct cdl_question){.operation = CDL_TAKE, .minimum = cost, .maximum = more};
        break;
    case 'p':
        asked->questions[0] = cdl_question_peek(0); /* as it is, not as it would be */
        break;
    default:
        asked->questions[0] = (struct cdl_question){.operation = asked->operation == 'r' ? CDL_REFUND : CDL_UNDO,
                                                    .maximum = cost,
                                                    .charged_realtime_ns = now_us * 1000};
        break;
    }
    ask(asked);
}

/* On the store's own clock, whatever is done to a key: it is never gone before it has recovered. Strangers take its expiry away, which a
 * refusal notices. */
static void test_a_key_is_kept_until_it_has_recovered(void **state)
{
    (void)state;
    struct rng rng = {21};
    for (int round = 0; round < 120; round++) {
        const enum caudal_algorithm algorithm = (enum caudal_algorithm)(round % 4);
        const uint64_t period_us = 1000 + rng_magnitude(&rng, 20000000);
        struct caudal_limit limit = some_limit(&rng, algorithm, period_us);
        limit.count = 1 + limit.count % 12;
        struct asked *asked = fresh(&limit, 't', cdl_question_take(1));
        ask(asked);
        for (int i = 0; i < 60; i++) {
            if (rng_below(&rng, 12) == 0)
                plain("PERSIST", NULL);
            if (rng_below(&rng, 12) == 0) {
                limit.count = 1 + rng_below(&rng, 12);
                limit.period_ns *= algorithm == CAUDAL_TOKEN_BUCKET || algorithm == CAUDAL_SLIDING_LOG ? 2 : 1;
                assert_int_equal(cdl_redis_limit_make(&limit, &asked->limits[0], NULL), CAUDAL_OK);
                asked->operation = 't';
                asked->questions[0] = cdl_question_take(caudal_limit_capacity(&limit));
                ask(asked);
            } else {
                ask_some_operation(asked, &rng);
            }
            const int64_t at_ms = expires_at_ms();
            if (at_ms == -2) {
                assert_int_equal(asked->decisions[0].reset_after_ns, 0);
            } else if (at_ms == -1) {
                assert_true(asked->operation == 'p' || asked->decisions[0].verdict != CAUDAL_DENY);
            } else {
                assert_true((at_ms + 1) * 1000 >= recovers_at_us(asked));
            }
        }
    }
}

/* A refusal that gives a persisted key its expiry back, and charges after it that change the value in place. */
static void test_a_healed_key_is_kept_as_long_as_its_neighbours_in_the_cell(void **state)
{
    (void)state;
    const struct caudal_limit limit = bucket_of(100, 100, SECOND);
    for (int round = 0; round < 30; round++) {
        struct asked *asked = fresh(&limit, 't', cdl_question_take(40));
        ask(asked);
        plain("PERSIST", NULL);
        asked->questions[0] = cdl_question_take(100);
        ask(asked);
        assert_int_equal(asked->decisions[0].verdict, CAUDAL_DENY);
        for (int i = 0; i < 30; i++) {
            asked->questions[0] = cdl_question_take(2);
            ask(asked);
            assert_true((expires_at_ms() + 1) * 1000 >= recovers_at_us(asked));
        }
    }
}

/* By a clock of the caller's that goes back, a key recovers later than its expiry says: a refusal puts it off. */
static void test_a_clock_that_goes_back_does_not_free_a_key(void **state)
{
    (void)state;
    for (int algorithm = CAUDAL_TOKEN_BUCKET; algorithm <= CAUDAL_SLIDING_WINDOW; algorithm++) {
        const struct caudal_limit limit = limit_of((enum caudal_algorithm)algorithm, 10, HOUR);
        struct asked *asked = fresh(&limit, 't', cdl_question_take(1));
        asked->now_ns = EPOCH + 59 * MINUTE;
        ask(asked);
        asked->now_ns = EPOCH + 10 * MINUTE;
        asked->questions[0] = cdl_question_take(10);
        ask(asked);
        assert_int_equal(asked->decisions[0].verdict, CAUDAL_DENY);
        assert_true(plain("PTTL", NULL) >= asked->decisions[0].reset_after_ns / MILLISECOND);
        assert_int_equal((int64_t)asked->numbers[0], 0);
    }
}

/* Nothing that has had its time is kept longer because it is asked for in vain. */
static void test_a_refusal_keeps_nothing_that_has_recovered(void **state)
{
    (void)state;
    for (int algorithm = CAUDAL_TOKEN_BUCKET; algorithm <= CAUDAL_SLIDING_LOG; algorithm++) {
        const struct caudal_limit limit = limit_of((enum caudal_algorithm)algorithm, 10, HOUR);
        struct asked *asked = fresh(&limit, 't', cdl_question_take(1));
        asked->now_ns = EPOCH;
        ask(asked);
        assert_int_equal(plain("PEXPIRE", "5000"), 1);
        asked->now_ns = EPOCH + 3 * HOUR;
        asked->questions[0] = cdl_question_take(11);
        ask(asked);
        assert_int_equal(asked->decisions[0].verdict, CAUDAL_NEVER);
        assert_true(plain("PTTL", NULL) <= 5000);
    }
}

/* Entries that a longer period makes count for longer. */
static void test_a_log_whose_period_grows_is_kept_for_it(void **state)
{
    (void)state;
    const struct caudal_limit brief = limit_of(CAUDAL_SLIDING_LOG, 10, SECOND),
                              longer = limit_of(CAUDAL_SLIDING_LOG, 10, HOUR);
    struct asked *asked = fresh(&brief, 't', cdl_question_take(10));
    ask(asked);
    assert_int_equal(cdl_redis_limit_make(&longer, &asked->limits[0], NULL), CAUDAL_OK);
    ask(asked);
    assert_int_equal(asked->decisions[0].verdict, CAUDAL_DENY);
    assert_true((expires_at_ms() + 1) * 1000 >= recovers_at_us(asked));
}

/* ---- the quick way ---- */

static size_t read_value(char value[64])
{
    const struct cdl_slice words[] = {CDL_SLICE("GET"), cdl_slice_of(key_name())};
    return command(words, 2, value, 64).length;
}

/* A value that a bucket may find: of its own rate, or close to it; around now, around full, around what only a clock that was set leaves. */
static size_t some_value(struct rng *rng, const struct cdl_redis_limit *limit, int64_t now_us, char value[64])
{
    const double n = (double)limit->n, d = (double)limit->d, k = rng_below(rng, 8) > 0 ? 1 : 3;
    const double ends[] = {0, 524288 - (double)(now_us % 524288), (double)limit->full, (double)limit->full + 60000000};
    double numbers[4] = {(double)now_us + ends[rng_below(rng, 4)] + (double)rng_signed(rng, 2000000),
                         limit->n > 0 ? (double)rng_below(rng, limit->n) : 0, n * k, d * k};
    if (rng_below(rng, 3) == 0)
        numbers[0] = (double)now_us + (double)rng_below(rng, limit->full + 2);
    if (limit->n == 0)
        numbers[0] = (double)rng_below(rng, limit->full + 2);
    if (rng_below(rng, 12) == 0)
        numbers[rng_below(rng, 4)] += rng_below(rng, 2) == 0 ? 1 : 0.5;
    value[0] = rng_below(rng, 30) == 0 ? 'w' : 'b';
    memcpy(value + 1, numbers, sizeof numbers);
    return rng_below(rng, 30) == 0 ? 25 : 33;
}

static void put_value(const char *value, size_t length)
{
    const struct cdl_slice words[] = {
        CDL_SLICE("SET"), cdl_slice_of(key_name()), {value, length}, CDL_SLICE("PX"), CDL_SLICE("50000")};
    char reply[64];
    if (length > 0)
        command(words, 5, reply, sizeof reply);
    else
        plain("DEL", NULL);
}

/* From the same value, at the same instant, both come to the same answer and leave the same behind. */
static void test_the_quick_way_decides_as_the_long_one(void **state)
{
    (void)state;
    struct rng rng = {17};
    static struct asked asked;
    for (uint64_t round = 0; round < scaled(40000); round++) {
        if (round % 50 == 0) {
            struct caudal_limit limit = rng_below(&rng, 2) == 0
                                            ? odd_bucket(&rng, &asked.limits[0])
                                            : bucket_of(1 + rng_below(&rng, 100), rng_below(&rng, 100), SECOND);
            begin(&asked, &limit, 1);
        }
        asked.now_ns = EPOCH + (int64_t)rng_below(&rng, MINUTE / 1000) * 1000;
        asked.operation = 't';
        asked.questions[0] = cdl_question_take(
            rng_below(&rng, 5) > 0 ? rng_below(&rng, 3) : rng_magnitude(&rng, 2 * asked.limits[0].limit.burst + 1));
        char before[64], after[2][64];
        const size_t length = rng_below(&rng, 10) == 0
                                  ? 0
                                  : some_value(&rng, &asked.limits[0], asked.now_ns / 1000, before);
        double numbers[2][6];
        int64_t left[2];
        size_t lengths[2];
        for (size_t i = 0; i < 2; i++) {
            put_value(before, length);
            asked.long_way = i == 1;
            ask(&asked);
            memcpy(numbers[i], asked.numbers, sizeof numbers[i]);
            lengths[i] = read_value(after[i]);
            left[i] = plain("PTTL", NULL);
        }
        assert_memory_equal(numbers[0], numbers[1], sizeof numbers[0]);
        assert_int_equal(lengths[0], lengths[1]);
        assert_memory_equal(after[0], after[1], lengths[0]);
        assert_true(llabs(left[0] - left[1]) <= 1000); /* time goes by between the two */
    }
    asked.long_way = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_vector_of_whole_microseconds),
        cmocka_unit_test(test_rates_are_reduced_without_overflow),
        cmocka_unit_test(test_the_core_answers_the_same),
        cmocka_unit_test(test_an_expiry_is_the_time_to_recover),
        cmocka_unit_test(test_a_key_without_expiry_is_healed_by_a_refusal),
        cmocka_unit_test(test_foreign_values_count_as_absent),
        cmocka_unit_test(test_the_value_of_another_algorithm_is_absent_and_stays),
        cmocka_unit_test(test_a_window_of_another_length_begins_anew),
        cmocka_unit_test(test_damaged_values_are_no_error_and_no_refusal_for_ever),
        cmocka_unit_test(test_random_bytes_are_no_error),
        cmocka_unit_test(test_what_is_healed_is_counted_once),
        cmocka_unit_test(test_undoing_gives_back_what_is_left_of_a_charge),
        cmocka_unit_test(test_undoing_leaves_what_others_have_logged_since),
        cmocka_unit_test(test_a_debt_too_fine_to_keep_is_rounded_up_by_a_microsecond_of_refill),
        cmocka_unit_test(test_a_small_debt_stays_small_however_slow_the_rate),
        cmocka_unit_test(test_all_that_there_is_and_no_more),
        cmocka_unit_test(test_the_quick_way_decides_as_the_long_one),
        cmocka_unit_test(test_a_key_is_kept_until_it_has_recovered),
        cmocka_unit_test(test_a_healed_key_is_kept_as_long_as_its_neighbours_in_the_cell),
        cmocka_unit_test(test_a_clock_that_goes_back_does_not_free_a_key),
        cmocka_unit_test(test_a_refusal_keeps_nothing_that_has_recovered),
        cmocka_unit_test(test_a_log_whose_period_grows_is_kept_for_it),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
