/* From a log to a suggested policy and back: the same requests under it are refused to no more keys than the target allows, by any of its
 * limits. */
#include <stdlib.h>

#include "../support.h"
#include "replay/replay.h"
#include "replay/suggest.h"

#define REQUESTS_MAX 60000u
#define CLIENTS 200u

static struct caudal_problem problem;

/* ---- a log ---- */

struct request {
    int64_t at_ns;
    uint32_t client;
};

static struct request requests[REQUESTS_MAX];
static size_t request_count;

static int compare_requests(const void *a, const void *b)
{
    const struct request *x = a, *y = b;
    return x->at_ns != y->at_ns ? (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns)
                                : (x->client > y->client) - (x->client < y->client);
}

/* Clients of all kinds: each comes so often, with so many requests at a time, and so far apart. */
static void make_log(struct rng *rng, int64_t span_ns)
{
    request_count = 0;
    for (uint32_t client = 0; client < CLIENTS; client++) {
        const uint64_t visits = rng_magnitude(rng, 60), clump = rng_magnitude(rng, 40),
                       apart_ns = rng_magnitude(rng, SECOND);
        for (uint64_t visit = 0; visit < visits; visit++) {
            const int64_t at_ns = EPOCH + (int64_t)rng_below(rng, (uint64_t)span_ns);
            for (uint64_t i = 0; i < clump && request_count < REQUESTS_MAX; i++)
                requests[request_count++] = (struct request){at_ns + (int64_t)(i * apart_ns), client};
        }
    }
    qsort(requests, request_count, sizeof *requests, compare_requests);
}

/* ---- a replay ---- */

struct outcome {
    struct cdl_replay *replay;
    struct cdl_policy *policy; /* the replay's */
    struct cdl_replay_report report;
};

static void run(const char *text, size_t length, double touch_share, struct outcome *outcome)
{
    static struct cdl_report findings;
    const struct cdl_replay_settings settings = {
        .keys_max = 10000, .begin_ns = requests[0].at_ns, .touch_share = touch_share};
    outcome->policy = cdl_policy_load_text("p.yaml", (struct cdl_slice){text, length}, NULL, &findings);
    if (outcome->policy == NULL)
        fail_msg("%s\n%s", findings.findings[0].text, text);
    assert_int_equal(cdl_replay_open(&settings, outcome->policy, &outcome->replay, &problem), CAUDAL_OK);
    const struct cdl_replay_decision *decision;
    for (size_t i = 0; i < request_count; i++) {
        char client[32];
        const int written = snprintf(client, sizeof client, "10.0.%u.%u", requests[i].client / 256,
                                     requests[i].client % 256);
        const struct cdl_access_record record = {
            .instant_ns = requests[i].at_ns,
            .resolution_ns = 1,
            .client = {client, (size_t)written},
            .method = CDL_SLICE("GET"),
            .target = CDL_SLICE("/"),
        };
        assert_int_equal(cdl_replay_request(outcome->replay, &record, NULL, &decision), CAUDAL_OK);
    }
    do
        assert_int_equal(cdl_replay_settle(outcome->replay, &decision), CAUDAL_OK);
    while (decision != NULL);
    assert_int_equal(cdl_replay_tell(outcome->replay, &outcome->report, &problem), CAUDAL_OK);
}

static void end(struct outcome *outcome)
{
    cdl_replay_report_free(&outcome->report);
    cdl_replay_close(outcome->replay);
}

/* ---- tests ---- */

/* Limits that are far too tight, far too wide and about right, of each algorithm. */
static size_t make_policy(struct rng *rng, char *text, size_t size)
{
    static const char *const algorithms[] = {"", " burst 3", " fixed_window", " sliding_window", " sliding_log"};
    static const char *const periods[] = {"s", "10s", "min", "h", "d"};
    size_t length = (size_t)snprintf(text, size, "limits:\n");
    for (unsigned i = 0, count = 1 + (unsigned)rng_below(rng, 4); i < count; i++)
        length += (size_t)snprintf(
            text + length, size - length, "  - name: n%u\n    per: client_ip\n    rate: %u/%s%s\n    mode: %s\n", i,
            (unsigned)rng_magnitude(rng, 200), periods[rng_below(rng, COUNT_OF(periods))],
            algorithms[rng_below(rng, COUNT_OF(algorithms))], rng_below(rng, 3) == 0 ? "shadow" : "enforce");
    length += (size_t)snprintf(text + length, size - length,
                               "    overrides: [{match: {client_ip: 10.0.0.0/26}, rate: %u/min, burst: 5}]\n",
                               (unsigned)rng_magnitude(rng, 200));
    assert_true(length < size);
    return length;
}

static void a_suggested_policy_keeps_its_promise(void **state)
{
    (void)state;
    static const double shares[] = {0, 0.001, 0.02, 0.2};
    struct rng rng = {5};
    uint64_t touched = 0, before = 0;
    for (uint64_t round = scaled(20); round > 0; round--) {
        char text[2048];
        const double share = shares[rng_below(&rng, COUNT_OF(shares))];
        make_log(&rng, (int64_t)(10 * MINUTE << rng_below(&rng, 8)));
        const size_t length = make_policy(&rng, text, sizeof text);
        struct outcome first, second;
        run(text, length, share, &first);
        char *suggested;
        size_t suggested_length;
        FILE *to = open_memstream(&suggested, &suggested_length);
        assert_non_null(to);
        const int status = cdl_suggest_write(to, first.policy, (struct cdl_slice){text, length}, &first.report,
                                             &problem);
        fclose(to);
        if (status != CAUDAL_OK)
            fail_msg("%s\n%s", problem.message, text);
        run(suggested, suggested_length, share, &second);
        assert_int_equal(first.report.limit_count, second.report.limit_count);
        for (size_t i = 0; i < second.report.limit_count; i++) {
            const struct cdl_replay_limit *limit = &second.report.limits[i];
            assert_int_equal(limit->keys, first.report.limits[i].keys);
            if (limit->keys_refused > (uint64_t)(share * (double)limit->keys))
                fail_msg("%.*s refuses something to %u of %u keys:\n%s\nafter:\n%s", CDL_SLICE_ARG(limit->name),
                         (unsigned)limit->keys_refused, (unsigned)limit->keys, suggested, text);
            touched += limit->keys_refused;
            before += first.report.limits[i].keys_refused;
        }
        free(suggested);
        end(&first);
        end(&second);
    }
    assert_true(before > 0 && touched > 0); /* it was about something, and the target is made use of */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suggested_policy_keeps_its_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
