/* The study of a key: bounds against every placement there is, and against streams whose true instants are known; headroom and variants
 * against the algorithms that decide in a server. */
#include "replay/study.h"

#include <stdlib.h>

#include "../support.h"
#include "algorithm/sliding_log.h"
#include "algorithm/token_bucket.h"
#include "algorithm/window.h"
#include "base/memory.h"

#define REQUESTS_MAX 4096
#define CHUNKS 4096

/* ---- a key under study ---- */

struct study {
    struct cdl_study_rule *rule;
    void *key;
};

static struct study study_open(struct caudal_limit limit, int64_t cell_ns)
{
    assert_int_equal(caudal_limit_check(&limit, NULL), CAUDAL_OK);
    struct study study = {.rule = cdl_study_rule_new(&limit, cell_ns, NULL)};
    assert_non_null(study.rule);
    study.key = calloc(1, cdl_study_key_bytes(study.rule));
    assert_non_null(study.key);
    return study;
}

static struct cdl_study_findings found(const struct study *study)
{
    struct cdl_study_findings findings;
    cdl_study_find(study->rule, study->key, &findings);
    return findings;
}

static void study_close(struct study *study)
{
    free(study->key);
    cdl_study_rule_free(study->rule);
}

/* What is found of requests that all cost the same, at instants that are cut to `grain_ns`. */
static struct cdl_study_findings study_of(struct caudal_limit limit, int64_t cell_ns, int64_t grain_ns,
                                          const int64_t *instants, size_t count, uint64_t cost)
{
    struct study study = study_open(limit, cell_ns);
    for (size_t i = 0; i < count; i++)
        cdl_study_note(study.rule, study.key, instants[i] - instants[i] % grain_ns, cost);
    const struct cdl_study_findings findings = found(&study);
    study_close(&study);
    return findings;
}

/* ---- the limit as a server has it ---- */

static struct cdl_log_chunk chunks[CHUNKS];

struct judge {
    struct caudal_limit limit;
    struct cdl_token_clock clock;
    bool fresh;
    uint64_t full_at;
    struct cdl_window_state window;
    struct cdl_log_pool pool;
    struct cdl_log log;
};

static struct judge judge_of(struct caudal_limit limit, int64_t begin_ns)
{
    struct judge judge = {.limit = limit, .fresh = true};
    if (limit.algorithm == CAUDAL_TOKEN_BUCKET)
        judge.clock = cdl_token_clock_make(&limit, begin_ns);
    cdl_log_pool_init(&judge.pool, chunks, CHUNKS);
    return judge;
}

static bool ask_bucket(struct judge *judge, int64_t now_ns, const struct cdl_question *question,
                       struct caudal_decision *decision)
{
    if (!cdl_token_clock_covers(&judge->clock, now_ns)) {
        const struct cdl_token_clock old = judge->clock;
        cdl_token_clock_recentre(&judge->clock, now_ns);
        judge->full_at = cdl_token_clock_revise(&old, &judge->clock, now_ns, judge->full_at);
    }
    if (cdl_token_bucket_decide(&judge->clock, now_ns, judge->fresh, &judge->full_at, question, decision))
        judge->fresh = false;
    return decision->verdict == CAUDAL_ALLOW;
}

static bool passes(struct judge *judge, int64_t now_ns, uint64_t cost)
{
    const struct cdl_question question = cdl_question_take(cost);
    const struct cdl_window_rule window = {judge->limit.count, (int64_t)judge->limit.period_ns,
                                           judge->limit.algorithm == CAUDAL_SLIDING_WINDOW};
    const struct cdl_log_rule log = {judge->limit.count, (int64_t)judge->limit.period_ns};
    struct caudal_decision decision;
    switch (judge->limit.algorithm) {
    case CAUDAL_TOKEN_BUCKET:
        return ask_bucket(judge, now_ns, &question, &decision);
    case CAUDAL_SLIDING_LOG:
        cdl_log_decide(&log, now_ns, &judge->log, &judge->pool, &question, &decision);
        break;
    case CAUDAL_UNLIMITED:
        return true;
    case CAUDAL_FIXED_WINDOW:
    case CAUDAL_SLIDING_WINDOW:
        cdl_window_decide(&window, now_ns, false, &judge->window, &question, &decision);
        break;
    }
    return decision.verdict == CAUDAL_ALLOW;
}

static uint64_t refused(struct caudal_limit limit, const int64_t *instants, size_t count, uint64_t cost)
{
    struct judge judge = judge_of(limit, count > 0 ? instants[0] : 0);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += !passes(&judge, instants[i], cost);
    return sum;
}

/* ---- streams ---- */

enum stream {
    STEADY,
    BURSTY,
    HUGGING,  /* first and last nanoseconds of seconds */
    CLUSTERS, /* at the end of one second and the beginning of the next */
    STREAMS,
};

static const char *const stream_names[] = {"steady", "bursty", "hugging", "clusters"};

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t random_instant(struct rng *rng, enum stream stream, int64_t before_ns, int64_t gap_ns)
{
    const int64_t step_ns = (int64_t)rng_below(rng, 2 * (uint64_t)gap_ns + 1), second = before_ns - before_ns % SECOND;
    const int64_t near_ns = (int64_t)rng_magnitude(rng, 1000000) - 1;
    switch (stream) {
    case STEADY:
        return before_ns + gap_ns - gap_ns / 8 + step_ns / 8;
    case BURSTY:
        return before_ns + (rng_below(rng, 10) == 0 ? 8 * step_ns : (int64_t)rng_magnitude(rng, (uint64_t)gap_ns));
    case HUGGING: {
        const int64_t to = second + (step_ns / SECOND + (int64_t)rng_below(rng, 2)) * SECOND;
        return rng_next(rng) & 1 ? to + near_ns : to + SECOND - 1 - near_ns;
    }
    case CLUSTERS:
    case STREAMS:
        break;
    }
    return rng_below(rng, 12) == 0 ? second + (step_ns * 12 / SECOND + 1) * SECOND - 1 - near_ns
                                   : before_ns + near_ns / 8;
}

/* Sorted instants, `gap_ns` apart in the mean or about so. */
static void random_stream(struct rng *rng, enum stream stream, int64_t gap_ns, int64_t *instants, size_t count)
{
    int64_t at = EPOCH + (int64_t)rng_below(rng, (uint64_t)DAY);
    for (size_t i = 0; i < count; i++) {
        at = random_instant(rng, stream, at, gap_ns);
        instants[i] = at;
    }
    qsort(instants, count, sizeof *instants, compare);
}

/* A limit that such streams meet: of a few requests in some seconds, or of thousands. */
static struct caudal_limit random_limit(struct rng *rng, enum caudal_algorithm algorithm)
{
    static const int64_t periods[] = {SECOND / 10, SECOND,         SECOND,         3 * SECOND, 10 * SECOND,
                                      MINUTE,      3 * SECOND + 1, SECOND * 7 / 3, HOUR,       5 * SECOND / 2};
    struct caudal_limit limit = limit_of(algorithm, rng_magnitude(rng, 64), periods[rng_below(rng, COUNT_OF(periods))]);
    if (rng_below(rng, 8) == 0) { /* a bucket's clock has to round here */
        limit.count = 4097 + rng_below(rng, 5000);
        limit.period_ns = (uint64_t)(SECOND + (int64_t)rng_below(rng, (uint64_t)MINUTE));
    }
    if (algorithm == CAUDAL_TOKEN_BUCKET && rng_below(rng, 4) > 0)
        limit.burst = rng_magnitude(rng, 40);
    if (algorithm == CAUDAL_TOKEN_BUCKET && rng_below(rng, 40) == 0)
        limit.count = 0;
    return limit;
}

/* So that about half of the requests pass, or nearly all. */
static int64_t gap_for(struct rng *rng, struct caudal_limit limit, uint64_t cost)
{
    const int64_t share = (int64_t)(limit.period_ns / (limit.count + 1)) * (int64_t)(cost + 1) + 1;
    return share / 4 + (int64_t)rng_below(rng, (uint64_t)(share * 2));
}

/* ---- bounds ---- */

struct tightness {
    double width; /* sum of (most - least) / n */
    uint64_t streams, exact;
};

static void note_tightness(struct tightness *tightness, const struct cdl_study_findings *findings)
{
    tightness->width += (double)(findings->refused_most - findings->refused_least) / (double)findings->requests;
    tightness->exact += findings->refused_most == findings->refused_least;
    tightness->streams++;
}

static void tell_tightness(const char *what, const struct tightness *tightness)
{
    if (tightness->streams > 0)
        print_message("%-32s %6ju, apart by %5.2f %% of the requests in the mean, and not at all in %5.1f %%\n", what,
                      (uintmax_t)tightness->streams, tightness->width / (double)tightness->streams * 100,
                      (double)tightness->exact / (double)tightness->streams * 100);
}

static void the_truth_lies_between_the_bounds(void **state)
{
    (void)state;
    static int64_t instants[REQUESTS_MAX];
    struct rng rng = {1};
    struct tightness tightness[CAUDAL_UNLIMITED][STREAMS] = {{{0}}};
    for (uint64_t round = 0; round < scaled(20000); round++) {
        const enum caudal_algorithm algorithm = (enum caudal_algorithm)(round % CAUDAL_UNLIMITED);
        const enum stream stream = (enum stream)(rng_below(&rng, STREAMS));
        const struct caudal_limit limit = random_limit(&rng, algorithm);
        const uint64_t cost = rng_below(&rng, 8) == 0 ? rng_below(&rng, 4) : 1;
        const size_t count = 1 + rng_below(&rng, 200);
        random_stream(&rng, stream, gap_for(&rng, limit, cost), instants, count);
        const struct cdl_study_findings findings = study_of(limit, SECOND, SECOND, instants, count, cost);
        const uint64_t truth = refused(limit, instants, count, cost);
        assert_true(findings.has_bounds);
        assert_in_range(truth, findings.refused_least, findings.refused_most);
        for (size_t i = 0; i < count; i++)
            instants[i] -= instants[i] % SECOND;
        assert_in_range(refused(limit, instants, count, cost), findings.refused_least, findings.refused_most);
        if (cost == 1 && limit.period_ns % (uint64_t)SECOND == 0)
            note_tightness(&tightness[algorithm][stream], &findings);
    }
    for (size_t a = 0; a < CAUDAL_UNLIMITED; a++)
        for (size_t s = 0; s < STREAMS; s++) {
            char what[64];
            snprintf(what, sizeof what, "%s, %s", caudal_algorithm_name((enum caudal_algorithm)a), stream_names[s]);
            tell_tightness(what, &tightness[a][s]);
        }
}

/* All placements of requests in cells of CELL nanoseconds: as stamps are whole nanoseconds, these are all there are. */
#define CELL 4

struct placements {
    struct caudal_limit limit;
    uint64_t cost;
    const int64_t *cells;
    size_t count;
    int64_t instants[16];
    uint64_t least, most;
};

static void place_all(struct placements *all, size_t placed)
{
    if (placed == all->count) {
        const uint64_t sum = refused(all->limit, all->instants, all->count, all->cost);
        all->least = sum < all->least ? sum : all->least;
        all->most = sum > all->most ? sum : all->most;
        return;
    }
    const int64_t begin = all->cells[placed];
    const bool same = placed > 0 && all->cells[placed - 1] == begin;
    for (int64_t at = same ? all->instants[placed - 1] : begin; at < begin + CELL; at++) {
        all->instants[placed] = at;
        place_all(all, placed + 1);
    }
}

static struct caudal_limit random_small_limit(struct rng *rng, enum caudal_algorithm algorithm)
{
    for (;;) {
        struct caudal_limit limit = limit_of(algorithm, rng_below(rng, 5), 1 + (int64_t)rng_below(rng, 5 * CELL));
        if (rng_next(rng) & 1)
            limit.period_ns = CELL * (1 + rng_below(rng, 4));
        if (algorithm == CAUDAL_TOKEN_BUCKET)
            limit.burst = rng_below(rng, 6);
        if (caudal_limit_check(&limit, NULL) == CAUDAL_OK)
            return limit;
    }
}

static void no_placement_refuses_fewer_or_more(void **state)
{
    (void)state;
    struct rng rng = {2};
    int64_t cells[7];
    for (size_t a = 0; a < CAUDAL_UNLIMITED; a++) {
        uint64_t rounds = scaled(2500), attained = 0, divided = 0;
        for (uint64_t round = 0; round < rounds; round++) {
            struct placements all = {random_small_limit(&rng, (enum caudal_algorithm)a),
                                     1 + rng_below(&rng, 2),
                                     cells,
                                     1 + rng_below(&rng, COUNT_OF(cells)),
                                     {0},
                                     UINT64_MAX,
                                     0};
            int64_t cell = EPOCH / CELL * CELL;
            for (size_t i = 0; i < all.count; i++) {
                cell += rng_next(&rng) & 1 ? 0 : CELL * (int64_t)rng_magnitude(&rng, 4);
                cells[i] = cell;
            }
            place_all(&all, 0);
            const struct cdl_study_findings findings = study_of(all.limit, CELL, 1, cells, all.count, all.cost);
            assert_int_equal(findings.refused_least, all.least);
            assert_true(findings.refused_most >= all.most);
            const bool is_divided = a == CAUDAL_TOKEN_BUCKET || a == CAUDAL_SLIDING_LOG ||
                                    all.limit.period_ns % CELL == 0;
            divided += is_divided;
            attained += is_divided && findings.refused_most == all.most;
        }
        print_message("%s: the most is attained in %ju of %ju small cases\n",
                      caudal_algorithm_name((enum caudal_algorithm)a), (uintmax_t)attained, (uintmax_t)divided);
        assert_true(divided > rounds / 3 && attained > divided * 9 / 10);
        if (a == CAUDAL_FIXED_WINDOW || a == CAUDAL_SLIDING_WINDOW)
            assert_int_equal(attained, divided);
    }
}

static struct cdl_study_findings of_seconds(struct caudal_limit limit, const int64_t *seconds, size_t count)
{
    int64_t instants[16];
    for (size_t i = 0; i < count; i++)
        instants[i] = EPOCH + seconds[i] * SECOND;
    return study_of(limit, SECOND, 1, instants, count, 1);
}

static void assert_bounds(struct cdl_study_findings findings, uint64_t least, uint64_t most)
{
    assert_true(findings.has_bounds);
    assert_int_equal(findings.refused_least, least);
    assert_int_equal(findings.refused_most, most);
}

static void bounds_of_buckets_by_hand(void **state)
{
    (void)state;
    /* One may come at the end of a second and the next at the beginning of another. */
    assert_bounds(of_seconds(bucket_of(1, 1, SECOND), (int64_t[]){0, 1}, 2), 0, 1);
    assert_bounds(of_seconds(bucket_of(1, 1, SECOND), (int64_t[]){0, 2}, 2), 0, 0);
    assert_bounds(of_seconds(bucket_of(1, 1, SECOND), (int64_t[]){0, 2, 3}, 3), 0, 1);
    assert_bounds(of_seconds(bucket_of(2, 1, SECOND), (int64_t[]){0, 0, 0}, 3), 1, 1);
    /* Within its second the third can wait for half of it. */
    assert_bounds(of_seconds(bucket_of(2, 2, SECOND), (int64_t[]){0, 0, 0, 0}, 4), 1, 2);
    /* What comes back in an empty second is a second's worth and not two. */
    assert_bounds(of_seconds(bucket_of(3, 1, SECOND), (int64_t[]){0, 0, 0, 2, 2}, 5), 0, 1);
    assert_bounds(of_seconds(bucket_of(3, 1, SECOND), (int64_t[]){0, 0, 0, 3, 3}, 5), 0, 0);
    /* Nothing comes back, and nothing is full again. */
    assert_bounds(of_seconds(bucket_of(2, 0, SECOND), (int64_t[]){0, 1, 1000000, 1000001}, 4), 2, 2);
    assert_bounds(of_seconds(bucket_of(0, 1, SECOND), (int64_t[]){0, 5}, 2), 2, 2);
}

static void bounds_of_windows_and_logs_by_hand(void **state)
{
    (void)state;
    const struct caudal_limit log = limit_of(CAUDAL_SLIDING_LOG, 1, SECOND);
    assert_bounds(of_seconds(log, (int64_t[]){0, 1}, 2), 0, 1);
    assert_bounds(of_seconds(log, (int64_t[]){0, 2}, 2), 0, 0);
    assert_bounds(of_seconds(limit_of(CAUDAL_SLIDING_LOG, 2, SECOND / 4), (int64_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0}, 9), 1,
                  7);
    const struct caudal_limit fixed = limit_of(CAUDAL_FIXED_WINDOW, 1, 2 * SECOND);
    assert_bounds(of_seconds(fixed, (int64_t[]){0, 1, 2, 3}, 4), 2, 2);
    /* A quarter of the four has left in the middle of the third second, and nothing at its beginning. */
    const struct caudal_limit sliding = limit_of(CAUDAL_SLIDING_WINDOW, 4, 2 * SECOND);
    assert_bounds(of_seconds(sliding, (int64_t[]){0, 0, 0, 1, 2, 2}, 6), 1, 2);
    /* Two edges in a second. */
    assert_bounds(of_seconds(limit_of(CAUDAL_FIXED_WINDOW, 1, SECOND / 2), (int64_t[]){0, 0, 0}, 3), 1, 3);
    struct caudal_limit unlimited = CAUDAL_LIMIT_INIT;
    unlimited.algorithm = CAUDAL_UNLIMITED;
    assert_bounds(of_seconds(unlimited, (int64_t[]){0, 0, 0}, 3), 0, 0);
}

static void costs_that_differ_leave_no_bounds(void **state)
{
    (void)state;
    for (size_t a = 0; a < CAUDAL_UNLIMITED; a++) {
        struct study study = study_open(limit_of((enum caudal_algorithm)a, 2, SECOND), SECOND);
        for (int i = 0; i < 5; i++)
            cdl_study_note(study.rule, study.key, EPOCH + i, i == 3 ? 2 : 1);
        const struct cdl_study_findings findings = found(&study);
        assert_false(findings.has_bounds);
        assert_int_equal(findings.refused_least, 0);
        assert_int_equal(findings.refused_most, 5);
        study_close(&study);
    }
}

static void without_cells_there_are_no_bounds(void **state)
{
    (void)state;
    struct study study = study_open(bucket_of(1, 1, SECOND), 0), cells = study_open(bucket_of(1, 1, SECOND), SECOND);
    cdl_study_note(study.rule, study.key, EPOCH, 1);
    assert_false(found(&study).has_bounds);
    assert_int_equal(found(&study).refused_most, 1);
    assert_true(cdl_study_key_bytes(study.rule) < cdl_study_key_bytes(cells.rule));
    study_close(&study);
    study_close(&cells);
}

static void a_log_for_which_memory_is_short_has_no_bounds(void **state)
{
    (void)state;
    const struct caudal_limit limit = limit_of(CAUDAL_SLIDING_LOG, CAUDAL_LOG_COUNT_MAX, DAY);
    struct counting_allocator counting;
    for (long fail_at = 0; fail_at < 5; fail_at++) {
        counting_allocator_init(&counting);
        counting.fail_at = fail_at;
        struct cdl_study_rule *rule = cdl_study_rule_new(&limit, SECOND, &counting.allocator);
        if (fail_at == 0) {
            assert_null(rule);
            continue;
        }
        void *key = calloc(1, cdl_study_key_bytes(rule)), *other = calloc(1, cdl_study_key_bytes(rule));
        assert_true(key != NULL && other != NULL);
        for (int64_t i = 0; i < 9000; i++)
            cdl_study_note(rule, key, EPOCH + i * SECOND, 1);
        cdl_study_note(rule, other, EPOCH, 1);
        struct cdl_study_findings findings;
        cdl_study_find(rule, key, &findings);
        assert_int_equal(findings.has_bounds, fail_at > 3); /* the pool is made, and grows twice */
        assert_int_equal(findings.requests, 9000);
        cdl_study_find(rule, other, &findings); /* what was given back is there for others */
        assert_true(findings.has_bounds);
        cdl_study_rule_free(rule);
        free(key);
        free(other);
        assert_int_equal(counting.live_blocks, 0);
    }
}

/* ---- headroom ---- */

/* Streams for headroom: any distances, costs that differ, and instants that coincide. */
struct charges {
    int64_t instants[256];
    uint64_t costs[256];
    size_t count;
};

static void random_charges(struct rng *rng, struct caudal_limit limit, bool whole_seconds, struct charges *charges)
{
    const uint64_t gap = 2 * limit.period_ns / (limit.count + 1) + 2;
    int64_t at = EPOCH;
    charges->count = 1 + rng_below(rng, COUNT_OF(charges->instants));
    for (size_t i = 0; i < charges->count; i++) {
        at += rng_below(rng, 4) == 0 ? (int64_t)rng_magnitude(rng, gap < (uint64_t)YEAR ? 8 * gap : gap)
                                     : (int64_t)rng_below(rng, gap);
        if (at > EPOCH + 100 * YEAR)
            at = EPOCH + 100 * YEAR;
        charges->instants[i] = whole_seconds ? at - at % SECOND : at;
        charges->costs[i] = rng_below(rng, 4) == 0 ? rng_below(rng, 5) : 1;
    }
}

static struct cdl_study_findings study_charges(struct caudal_limit limit, const struct charges *charges)
{
    struct study study = study_open(limit, 0);
    for (size_t i = 0; i < charges->count; i++)
        cdl_study_note(study.rule, study.key, charges->instants[i], charges->costs[i]);
    const struct cdl_study_findings findings = found(&study);
    study_close(&study);
    return findings;
}

static bool refuses_nothing(struct caudal_limit limit, const struct charges *charges)
{
    struct judge judge = judge_of(limit, charges->instants[0]);
    for (size_t i = 0; i < charges->count; i++)
        if (!passes(&judge, charges->instants[i], charges->costs[i]))
            return false;
    return true;
}

/* Rates of which a token clock makes no rounded ones. */
static struct caudal_limit random_exact_rate(struct rng *rng)
{
    for (;;) {
        struct caudal_limit limit = limit_of(CAUDAL_TOKEN_BUCKET, rng_magnitude(rng, 4096),
                                             (int64_t)rng_magnitude(rng, (uint64_t)(30 * DAY)));
        if (rng_next(rng) & 1)
            limit.period_ns = limit.period_ns % 100000 * (uint64_t)SECOND + (uint64_t)SECOND;
        /* A thousand tokens, which is more than is charged, are to be a legal burst whose units are whole. */
        if (caudal_limit_check(&limit, NULL) == CAUDAL_OK && limit.period_ns < (UINT64_C(1) << 52))
            return limit;
    }
}

static void the_burst_is_the_smallest_that_refuses_nothing(void **state)
{
    (void)state;
    struct rng rng = {3};
    static struct charges charges;
    uint64_t lowered = 0;
    for (uint64_t round = 0; round < scaled(30000); round++) {
        struct caudal_limit limit = random_exact_rate(&rng);
        random_charges(&rng, limit, rng_next(&rng) & 1, &charges);
        limit.burst = study_charges(limit, &charges).burst;
        assert_true(refuses_nothing(limit, &charges));
        if (limit.burst > 1) {
            limit.burst--;
            assert_false(refuses_nothing(limit, &charges));
            lowered++;
        }
    }
    assert_true(lowered > scaled(30000) / 2);
}

static void a_burst_suffices_at_every_rate_of_the_ladder(void **state)
{
    (void)state;
    struct rng rng = {4};
    static struct charges charges;
    uint64_t lowered = 0;
    for (uint64_t round = 0; round < scaled(20000); round++) {
        const struct caudal_limit limit = random_exact_rate(&rng);
        random_charges(&rng, limit, rng_next(&rng) & 1, &charges);
        struct study study = study_open(limit, 0);
        const struct cdl_study_findings findings = study_charges(limit, &charges);
        uint64_t before = UINT64_MAX;
        for (unsigned n = 0; n < CDL_STUDY_RATES; n++) {
            /* The rate as a limit: to a millionth of a token above what is told, or exact where it is a power of 2. */
            const bool is_even = n % 2 == CDL_STUDY_OWN_RATE % 2;
            struct caudal_limit rung = limit;
            rung.period_ns *= is_even ? 8 : 1000000;
            rung.count = (uint64_t)(cdl_study_rate(study.rule, n) * (is_even ? 8 : 1000000)) + !is_even;
            rung.burst = findings.burst_at[n];
            assert_true(rung.burst <= before);
            before = rung.burst;
            /* Faster than a token a nanosecond is more than a limit can be. */
            if (rung.count > rung.period_ns || caudal_limit_check(&rung, NULL) != CAUDAL_OK)
                continue;
            assert_true(refuses_nothing(rung, &charges));
            if (is_even && limit.count <= 512 && rung.burst > 1 &&
                rung.burst < (UINT64_C(1) << 50) / limit.period_ns) { /* neither side rounds */
                rung.burst--;
                lowered++;
                assert_false(refuses_nothing(rung, &charges));
            }
        }
        assert_int_equal(findings.burst_at[CDL_STUDY_OWN_RATE], findings.burst);
        study_close(&study);
    }
    assert_true(lowered > scaled(20000));
}

static void the_ladder_goes_by_roots_of_two(void **state)
{
    (void)state;
    struct study study = study_open(bucket_of(1, 800, MINUTE), 0);
    for (unsigned n = 0; n + 2 < CDL_STUDY_RATES; n++) {
        assert_true(cdl_study_rate(study.rule, n + 2) == 2 * cdl_study_rate(study.rule, n));
        assert_true(cdl_study_rate(study.rule, n + 1) > 1.41 * cdl_study_rate(study.rule, n));
        assert_true(cdl_study_rate(study.rule, n + 1) < 1.42 * cdl_study_rate(study.rule, n));
    }
    assert_true(cdl_study_rate(study.rule, CDL_STUDY_OWN_RATE) == 800);
    assert_true(cdl_study_rate(study.rule, 0) == 100);
    study_close(&study);
}

static void the_counts_are_the_smallest_that_refuse_nothing(void **state)
{
    (void)state;
    struct rng rng = {5};
    static struct charges charges;
    for (uint64_t round = 0; round < scaled(20000); round++) {
        const struct caudal_limit limit = random_exact_rate(&rng);
        random_charges(&rng, limit, rng_next(&rng) & 1, &charges);
        const struct cdl_study_findings findings = study_charges(limit, &charges);
        for (int sliding = 0; sliding < 2; sliding++) {
            struct caudal_limit window = limit_of(sliding ? CAUDAL_SLIDING_WINDOW : CAUDAL_FIXED_WINDOW,
                                                  sliding ? findings.sliding_count : findings.fixed_count,
                                                  (int64_t)limit.period_ns);
            assert_true(refuses_nothing(window, &charges));
            if (window.count > 0) {
                window.count--;
                assert_false(refuses_nothing(window, &charges));
            }
        }
    }
}

static void a_burst_that_no_limit_may_have_is_told_as_such(void **state)
{
    (void)state;
    struct study study = study_open(bucket_of(1, 1, SECOND), 0);
    cdl_study_note(study.rule, study.key, EPOCH, CAUDAL_CAPACITY_MAX);
    assert_int_equal(found(&study).burst, CAUDAL_CAPACITY_MAX);
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++) /* lower rates are counted with rounding here */
        assert_true(found(&study).burst_at[n] == CAUDAL_CAPACITY_MAX || n < CDL_STUDY_OWN_RATE);
    cdl_study_note(study.rule, study.key, EPOCH, 1);
    for (unsigned n = 0; n < CDL_STUDY_RATES; n++)
        assert_int_equal(found(&study).burst_at[n], UINT64_MAX);
    assert_int_equal(found(&study).burst, UINT64_MAX);
    study_close(&study);
}

/* ---- variants ---- */

/* What passed of a stream, by brute force: in each span of eight eighths that ends with one of a request's. */
static uint64_t most_of(const struct charges *charges, const bool *passed, uint64_t period_ns)
{
    uint64_t most = 0;
    for (size_t last = 0; last < charges->count; last++) {
        const cdl_i128 newest = (cdl_i128)charges->instants[last] * 8 / (cdl_i128)period_ns;
        uint64_t sum = 0;
        for (size_t i = 0; i <= last; i++)
            if ((cdl_i128)charges->instants[i] * 8 / (cdl_i128)period_ns > newest - 8 && passed[i])
                sum += charges->costs[i];
        most = sum > most ? sum : most;
    }
    return most;
}

static void check_variant(struct caudal_limit limit, const struct charges *charges, uint64_t want_refused,
                          uint64_t want_most)
{
    struct judge judge = judge_of(limit, charges->instants[0]);
    bool passed[COUNT_OF(charges->instants)];
    uint64_t sum = 0;
    for (size_t i = 0; i < charges->count; i++) {
        passed[i] = passes(&judge, charges->instants[i], charges->costs[i]);
        sum += !passed[i];
    }
    assert_int_equal(want_refused, sum);
    assert_int_equal(want_most, most_of(charges, passed, limit.period_ns));
}

static void variants_decide_as_a_server_does(void **state)
{
    (void)state;
    struct rng rng = {6};
    static struct charges charges;
    for (uint64_t round = 0; round < scaled(4000); round++) {
        struct caudal_limit limit = random_exact_rate(&rng);
        if (rng_below(&rng, 4) == 0)
            limit.period_ns = limit.count + rng_below(&rng, 9); /* a nanosecond or a few to a token, or to an eighth */
        limit.burst = 1 + rng_below(&rng, 20);
        if (rng_below(&rng, 4) == 0)
            limit.algorithm = (enum caudal_algorithm)rng_below(&rng, CAUDAL_UNLIMITED);
        if (limit.algorithm != CAUDAL_TOKEN_BUCKET)
            limit.burst = CAUDAL_BURST_DEFAULT;
        random_charges(&rng, limit, false, &charges);
        const struct cdl_study_findings findings = study_charges(limit, &charges);
        static const enum caudal_algorithm algorithms[] = {CAUDAL_FIXED_WINDOW, CAUDAL_SLIDING_WINDOW,
                                                           CAUDAL_TOKEN_BUCKET};
        for (size_t v = 0; v < CDL_STUDY_VARIANTS; v++) {
            struct caudal_limit variant = limit;
            variant.algorithm = algorithms[v];
            check_variant(variant, &charges, findings.variant_refused[v], findings.variant_most[v]);
        }
    }
}

static void a_fixed_window_lets_twice_its_count_through_at_an_edge(void **state)
{
    (void)state;
    struct study study = study_open(bucket_of(10, 10, MINUTE), 0);
    for (int i = 0; i < 40; i++)
        cdl_study_note(study.rule, study.key, EPOCH + MINUTE - SECOND + i / 20 * SECOND, 1);
    const struct cdl_study_findings findings = found(&study);
    assert_int_equal(findings.variant_most[CDL_STUDY_FIXED_WINDOW], 20);
    assert_int_equal(findings.variant_most[CDL_STUDY_SLIDING_WINDOW], 10);
    assert_int_equal(findings.variant_most[CDL_STUDY_TOKEN_BUCKET], 10);
    assert_int_equal(findings.variant_refused[CDL_STUDY_FIXED_WINDOW], 20);
    assert_int_equal(findings.second_most, 20);
    study_close(&study);
}

/* ---- any limit, any cost, any instant ---- */

static struct caudal_limit random_legal_limit(struct rng *rng)
{
    for (;;) {
        struct caudal_limit limit = random_bucket(rng);
        limit.algorithm = (enum caudal_algorithm)rng_below(rng, CAUDAL_UNLIMITED);
        if (limit.algorithm != CAUDAL_TOKEN_BUCKET)
            limit.burst = CAUDAL_BURST_DEFAULT;
        if (limit.algorithm == CAUDAL_SLIDING_LOG)
            limit.count %= CAUDAL_LOG_COUNT_MAX + 1;
        if (caudal_limit_check(&limit, NULL) == CAUDAL_OK)
            return limit;
    }
}

/* Several keys of one rule, of which each is asked about for as long as 2262; what is found of each is what is found of it alone. */
static void keys_do_not_disturb_one_another(void **state)
{
    (void)state;
    enum {
        KEYS = 3,
        NOTES = 60
    };
    struct rng rng = {7};
    for (uint64_t round = 0; round < scaled(20000); round++) {
        const struct caudal_limit limit = random_legal_limit(&rng);
        static const int64_t cells[] = {0, 1, SECOND, MINUTE, YEAR};
        const int64_t cell_ns = cells[rng_below(&rng, COUNT_OF(cells))];
        struct study together = study_open(limit, cell_ns), alone[KEYS];
        const size_t bytes = cdl_study_key_bytes(together.rule);
        unsigned char *keys = calloc(KEYS, bytes);
        int64_t at[KEYS];
        uint64_t cost[KEYS];
        assert_non_null(keys);
        for (size_t k = 0; k < KEYS; k++) {
            alone[k] = study_open(limit, cell_ns);
            at[k] = k == 0 ? 0 : (int64_t)rng_below(&rng, (uint64_t)(100 * YEAR));
            cost[k] = rng_below(&rng, 3) == 0 ? rng_magnitude(&rng, UINT64_MAX - 1) : 1;
        }
        for (int i = 0; i < NOTES; i++) {
            const size_t k = rng_below(&rng, KEYS);
            const int64_t step =
                (int64_t)rng_magnitude(&rng, (uint64_t)(rng_below(&rng, 8) == 0 ? 90 * YEAR : MINUTE)) - 1;
            at[k] = at[k] > INT64_MAX - step ? INT64_MAX : at[k] + step;
            const uint64_t charge = rng_below(&rng, 200) == 0 ? rng_magnitude(&rng, UINT64_MAX - 1) : cost[k];
            cdl_study_note(together.rule, keys + k * bytes, at[k], charge);
            cdl_study_note(alone[k].rule, alone[k].key, at[k], charge);
        }
        for (size_t k = 0; k < KEYS; k++) {
            struct cdl_study_findings one = found(&alone[k]), of_many;
            cdl_study_find(together.rule, keys + k * bytes, &of_many);
            assert_memory_equal(&one, &of_many, sizeof one);
            assert_true(one.refused_least <= one.refused_most && one.refused_most <= one.requests);
            study_close(&alone[k]);
        }
        free(keys);
        study_close(&together);
    }
}

static void the_truth_lies_between_the_bounds_of_any_limit(void **state)
{
    (void)state;
    struct rng rng = {8};
    static int64_t instants[REQUESTS_MAX];
    for (uint64_t round = 0; round < scaled(20000); round++) {
        const struct caudal_limit limit = random_legal_limit(&rng);
        static const int64_t cells[] = {1, MILLISECOND, SECOND, MINUTE, DAY};
        const int64_t cell_ns = cells[rng_below(&rng, COUNT_OF(cells))];
        const size_t count = 1 + rng_below(&rng, 100);
        const uint64_t capacity = caudal_limit_capacity(&limit);
        const uint64_t cost = rng_below(&rng, 4) == 0 ? 1 : capacity / rng_magnitude(&rng, 50) + rng_below(&rng, 2);
        const uint64_t gap = limit.count == 0 ? 1 : limit.period_ns / limit.count * (cost < 1000 ? cost : 1000) + 2;
        const uint64_t most = gap < (uint64_t)YEAR ? 4 * gap : (uint64_t)YEAR;
        int64_t at = (int64_t)rng_below(&rng, (uint64_t)(60 * YEAR));
        for (size_t i = 0; i < count; i++)
            instants[i] = at += (int64_t)rng_magnitude(&rng, most) - 1;
        const struct cdl_study_findings findings = study_of(limit, cell_ns, cell_ns, instants, count, cost);
        assert_in_range(refused(limit, instants, count, cost), findings.refused_least, findings.refused_most);
    }
}

static void years_between_requests_are_years(void **state)
{
    (void)state;
    for (size_t a = 0; a < CAUDAL_UNLIMITED; a++) {
        const struct caudal_limit limit = limit_of((enum caudal_algorithm)a, 1, 3 * SECOND);
        struct study study = study_open(limit, SECOND);
        for (int64_t year = 0; year < 200; year++)
            for (int i = 0; i < 2; i++)
                cdl_study_note(study.rule, study.key, year * YEAR, 1);
        const struct cdl_study_findings findings = found(&study);
        assert_bounds(findings, 200, 200);
        assert_int_equal(findings.burst, 2);
        assert_int_equal(findings.sliding_count, 2);
        for (size_t v = 0; v < CDL_STUDY_VARIANTS; v++) {
            assert_int_equal(findings.variant_refused[v], 200);
            assert_int_equal(findings.variant_most[v], 1);
        }
        study_close(&study);
    }
}

/* Of a period of a nanosecond there are 2^64 eighths in 73 years. */
static void eighths_that_come_round_again_are_told_apart(void **state)
{
    (void)state;
    struct study study = study_open(limit_of(CAUDAL_FIXED_WINDOW, 1, 1), SECOND);
    cdl_study_note(study.rule, study.key, 5, 1);
    cdl_study_note(study.rule, study.key, 5 + (INT64_C(1) << 61), 1);
    for (size_t v = 0; v < CDL_STUDY_VARIANTS; v++) {
        assert_int_equal(found(&study).variant_refused[v], 0);
        assert_int_equal(found(&study).variant_most[v], 1);
    }
    study_close(&study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_truth_lies_between_the_bounds),
        cmocka_unit_test(the_truth_lies_between_the_bounds_of_any_limit),
        cmocka_unit_test(no_placement_refuses_fewer_or_more),
        cmocka_unit_test(bounds_of_buckets_by_hand),
        cmocka_unit_test(bounds_of_windows_and_logs_by_hand),
        cmocka_unit_test(costs_that_differ_leave_no_bounds),
        cmocka_unit_test(without_cells_there_are_no_bounds),
        cmocka_unit_test(a_log_for_which_memory_is_short_has_no_bounds),
        cmocka_unit_test(the_burst_is_the_smallest_that_refuses_nothing),
        cmocka_unit_test(a_burst_suffices_at_every_rate_of_the_ladder),
        cmocka_unit_test(the_ladder_goes_by_roots_of_two),
        cmocka_unit_test(the_counts_are_the_smallest_that_refuse_nothing),
        cmocka_unit_test(a_burst_that_no_limit_may_have_is_told_as_such),
        cmocka_unit_test(variants_decide_as_a_server_does),
        cmocka_unit_test(a_fixed_window_lets_twice_its_count_through_at_an_edge),
        cmocka_unit_test(keys_do_not_disturb_one_another),
        cmocka_unit_test(years_between_requests_are_years),
        cmocka_unit_test(eighths_that_come_round_again_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
