/* From a request to an answer over a memory store on a fake clock, failing stores, and policies that follow one another. */
#include <stdlib.h>

#include "../support.h"
#include "limiter/limiter.h"
#include "store/store.h"

static char scratch[CDL_MATCH_SCRATCH_BYTES];
static struct cdl_report report;
static struct cdl_asker asker = {.scratch = scratch};
static const struct cdl_answer *const answer = &asker.answer; /* to the last request */

/* What limits that come with a command are counted under, in the store beside those of any policy. */
#define PER_CALL 1

/* ---- a limiter over a store ---- */

struct bed {
    struct world world;
    struct cdl_limiter *limiter;
};

static int setup(void **state)
{
    static struct bed bed;
    world_open(&bed.world, "memory:?keys=10000");
    bed.limiter = cdl_limiter_open(bed.world.store);
    assert_non_null(bed.limiter);
    *state = &bed;
    return 0;
}

static int teardown(void **state)
{
    struct bed *bed = *state;
    cdl_limiter_close(bed->limiter);
    assert_int_equal(stats_of(&bed->world).limits, 0);
    world_close(&bed->world);
    return 0;
}

static struct cdl_policy *load(const char *text)
{
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", report.findings[0].text, text);
    return policy;
}

static void apply(struct bed *bed, const char *text)
{
    struct caudal_problem problem;
    if (cdl_limiter_apply(bed->limiter, load(text), NULL, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
}

/* ---- requests ---- */

/* One of a client, with a user if that is not NULL. */
static void ask_about(struct cdl_live_policy *live, const char *client, const char *user, uint64_t cost, bool spend)
{
    struct cdl_field header = {CDL_SLICE("x-user"), user == NULL ? CDL_SLICE("") : cdl_slice_of(user)};
    struct cdl_request request = {.method = CDL_SLICE("GET"),
                                  .path = CDL_SLICE("/a"),
                                  .host = CDL_SLICE("example.org"),
                                  .headers = &header,
                                  .header_count = user != NULL};
    assert_true(cdl_address_parse(cdl_slice_of(client), &request.client));
    assert_null(cdl_limiter_ask(&asker, live, &request, spend ? CDL_ASK_TAKE : CDL_ASK_PEEK, cost));
}

static enum cdl_answer_kind ask(struct bed *bed, const char *client, const char *user)
{
    struct cdl_live_policy *live = cdl_limiter_acquire(bed->limiter);
    ask_about(live, client, user, CDL_COST_UNSAID, true);
    cdl_limiter_release(live);
    return answer->kind;
}

static enum cdl_answer_kind look(struct bed *bed, const char *client, const char *user)
{
    struct cdl_live_policy *live = cdl_limiter_acquire(bed->limiter);
    ask_about(live, client, user, CDL_COST_UNSAID, false);
    cdl_limiter_release(live);
    return answer->kind;
}

/* How many of `most` requests pass. */
static unsigned admitted(struct bed *bed, const char *client, unsigned most)
{
    unsigned count = 0;
    for (unsigned i = 0; i < most; i++)
        count += ask(bed, client, NULL) == CDL_ANSWER_ALLOWED;
    return count;
}

enum named {
    NAMED_TAKE = CDL_ASK_TAKE,
    NAMED_PEEK = CDL_ASK_PEEK,
    NAMED_REFUND = CDL_ASK_REFUND,
    NAMED_RESET,
};

static int by_name(struct bed *bed, enum named operation, const char *limit, const char *value, uint64_t cost,
                   struct caudal_decision *decision)
{
    const struct cdl_slice values[] = {value == NULL ? CDL_SLICE("") : cdl_slice_of(value)};
    struct cdl_live_policy *live = cdl_limiter_acquire(bed->limiter);
    const struct cdl_named_key key = {cdl_policy_find(live->policy, cdl_slice_of(limit)), values, value != NULL};
    assert_int_not_equal(key.limit, CDL_NONE);
    int status;
    if (operation == NAMED_RESET) {
        status = cdl_limiter_inspect(live, &key, true, scratch, decision);
    } else {
        assert_null(cdl_limiter_ask_named(&asker, live, &key, (enum cdl_ask)operation, cost));
        *decision = answer->overall;
        status = decision->status;
    }
    cdl_limiter_release(live);
    return status;
}

static uint64_t left_of(struct bed *bed, const char *limit, const char *value)
{
    struct caudal_decision decision;
    assert_int_equal(by_name(bed, NAMED_PEEK, limit, value, 0, &decision), CAUDAL_OK);
    return decision.remaining;
}

/* ---- answers ---- */

#define CLIENT "{name: client, per: [client_ip], rate: 3/hour}"
#define ALL "{name: all, rate: 5/hour}"

static void the_limit_with_the_least_left_speaks(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - " CLIENT "\n  - " ALL "\n");
    assert_int_equal(ask(bed, "192.0.2.1", NULL), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->binding, 0);
    assert_int_equal(answer->overall.remaining, 2);
    assert_int_equal(answer->decisions[1].remaining, 4);
    assert_int_equal(admitted(bed, "192.0.2.2", 2), 2);
    assert_int_equal(admitted(bed, "192.0.2.3", 1), 1);
    assert_int_equal(answer->binding, 1);
    assert_int_equal(answer->overall.remaining, 1);
}

static void a_refused_request_spends_nothing_from_any_limit(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - " CLIENT "\n  - " ALL "\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 10), 3);
    assert_int_equal(answer->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(answer->binding, 0);
    assert_int_equal(answer->overall.verdict, CAUDAL_DENY);
    assert_int_equal(answer->overall.retry_after_ns, HOUR / 3);
    assert_int_equal(left_of(bed, "all", NULL), 2);
    assert_int_equal(admitted(bed, "192.0.2.2", 10), 2);
    assert_int_equal(answer->binding, 1);
    assert_int_equal(left_of(bed, "client", "192.0.2.2"), 1);
}

static void looking_says_what_a_take_would_and_spends_nothing(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - " CLIENT "\n");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(look(bed, "192.0.2.1", NULL), CDL_ANSWER_ALLOWED);
        assert_int_equal(answer->overall.remaining, 2);
    }
    assert_int_equal(admitted(bed, "192.0.2.1", 10), 3);
    assert_int_equal(look(bed, "192.0.2.1", NULL), CDL_ANSWER_REFUSED);
}

static void what_is_exempt_or_matches_nothing_asks_nobody(void **state)
{
    struct bed *bed = *state;
    apply(bed, "exempt:\n  - {client_ip: 192.0.2.0/24}\nlimits:\n"
               "  - {name: posts, when: {method: POST}, rate: 1/hour}\n  - " ALL "\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 10), 10);
    assert_int_equal(answer->plan.outcome, CDL_OUTCOME_EXEMPT);
    assert_int_equal(answer->binding, CDL_NONE);
    assert_int_equal(admitted(bed, "198.51.100.1", 10), 5);
    apply(bed, "limits:\n  - {name: posts, when: {method: POST}, rate: 1/hour}\n");
    assert_int_equal(admitted(bed, "198.51.100.1", 10), 10);
    assert_int_equal(answer->binding, CDL_NONE);
    assert_int_equal(answer->plan.count, 0);
}

static void a_missing_identity_is_answered_as_the_limit_chose(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - {name: u, per: [header.x-user], if_missing: deny, rate: 1/hour}\n  - " ALL "\n");
    assert_int_equal(ask(bed, "192.0.2.1", NULL), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->plan.outcome, CDL_OUTCOME_MISSING);
    assert_int_equal(answer->overall.verdict, CAUDAL_NEVER);
    assert_int_equal(answer->overall.retry_after_ns, -1);
    assert_int_equal(answer->binding, CDL_NONE);
    assert_int_equal(answer->plan.count, 0);
    assert_int_equal(left_of(bed, "all", NULL), 5); /* nobody was charged */
    apply(bed, "limits:\n  - {name: u, per: [header.x-user], if_missing: skip, rate: 1/hour}\n  - " ALL "\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 9), 5);
    apply(bed, "limits:\n  - {name: u, per: [header.x-user], if_missing: nobody, rate: 1/hour}\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 9), 1);
    assert_int_equal(left_of(bed, "u", "nobody"), 0);
}

static void a_limit_in_shadow_counts_what_passes_and_refuses_nothing(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - {name: tight, rate: 2/hour, mode: shadow}\n  - " ALL "\n"
               "  - {name: gone, rate: 0/hour, mode: off}\n");
    unsigned refusals = 0;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ask(bed, "192.0.2.1", NULL), CDL_ANSWER_ALLOWED);
        assert_int_equal(answer->plan.count, 2);
        refusals += answer->shadow_refusals;
    }
    assert_int_equal(refusals, 3);
    assert_int_equal(answer->binding, 1);
    world_advance(&bed->world, HOUR); /* both are full again */
    assert_int_equal(admitted(bed, "192.0.2.1", 1), 1);
    assert_int_equal(left_of(bed, "tight", NULL), 1);
    struct caudal_decision decision;
    assert_int_equal(by_name(bed, NAMED_TAKE, "all", NULL, 4, &decision), CAUDAL_OK);
    assert_int_equal(ask(bed, "192.0.2.1", NULL), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->shadow_refusals, 0);
    assert_int_equal(left_of(bed, "tight", NULL), 1); /* a refused request spends nothing there either */
}

static void an_override_has_its_own_rate(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - name: u\n    per: [header.x-user]\n    rate: 1/hour\n    overrides:\n"
               "      - {match: {header.x-user: partner-*}, rate: 3/hour}\n");
    unsigned plain = 0, partner = 0;
    for (int i = 0; i < 6; i++) {
        plain += ask(bed, "192.0.2.1", "bob") == CDL_ANSWER_ALLOWED;
        partner += ask(bed, "192.0.2.1", "partner-1") == CDL_ANSWER_ALLOWED;
    }
    assert_int_equal(plain, 1);
    assert_int_equal(partner, 3);
    assert_int_equal(answer->overall.capacity, 3);
    assert_int_equal(left_of(bed, "u", "partner-2"), 3);
    assert_int_equal(left_of(bed, "u", "alice"), 1);
}

static void a_cost_is_what_the_caller_says_within_the_limits_of_the_policy(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - {name: a, rate: 100/hour, cost: {header: x-user, default: 2, max: 50}}\n");
    assert_int_equal(ask(bed, "192.0.2.1", NULL), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.granted, 2);
    assert_int_equal(ask(bed, "192.0.2.1", "7"), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.granted, 7);
    assert_int_equal(ask(bed, "192.0.2.1", "1000"), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.granted, 50);
}

/* ---- by name ---- */

static void a_limit_that_is_named_can_be_taken_from_looked_at_refunded_and_reset(void **state)
{
    struct bed *bed = *state;
    struct caudal_decision decision;
    apply(bed, "limits:\n  - " CLIENT "\n  - " ALL "\n  - {name: off, rate: 2/hour, mode: off}\n");
    assert_int_equal(by_name(bed, NAMED_TAKE, "client", "192.0.2.1", 3, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    assert_int_equal(ask(bed, "192.0.2.1", NULL), CDL_ANSWER_REFUSED);
    assert_int_equal(by_name(bed, NAMED_TAKE, "client", "::ffff:192.0.2.1", 1, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_DENY); /* one spelling of a client */
    assert_int_equal(by_name(bed, NAMED_REFUND, "client", "192.0.2.1", 1, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 1);
    assert_int_equal(by_name(bed, NAMED_TAKE, "client", "192.0.2.1", 9, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_NEVER);
    assert_int_equal(by_name(bed, NAMED_RESET, "client", "192.0.2.1", 0, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 3);
    assert_int_equal(left_of(bed, "all", NULL), 5); /* that limit alone */
    assert_int_equal(by_name(bed, NAMED_TAKE, "off", NULL, 2, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
}

/* ---- refusals that count ---- */

static void a_refusal_that_counts_spends_what_is_left(void **state)
{
    struct bed *bed = *state;
    struct caudal_decision decision;
    apply(bed, "limits:\n"
               "- {name: l, per: [client_ip], rate: 10/h, count_refused: true}\n"
               "- {name: m, per: [client_ip], rate: 20/h}\n");
    struct cdl_live_policy *live = cdl_limiter_acquire(bed->limiter);
    ask_about(live, "203.0.113.7", NULL, 7, true);
    assert_int_equal(answer->kind, CDL_ANSWER_ALLOWED);
    ask_about(live, "203.0.113.7", NULL, 5, false); /* to look spends nothing */
    assert_int_equal(answer->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.remaining, 3);
    ask_about(live, "203.0.113.7", NULL, 5, true);
    assert_int_equal(answer->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.verdict, CAUDAL_DENY);
    assert_int_equal(answer->overall.remaining, 0);
    assert_int_equal(answer->decisions[1].remaining, 13);
    cdl_limiter_release(live);
    assert_int_equal(by_name(bed, NAMED_PEEK, "l", "203.0.113.7", 1, &decision), CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_DENY);
    assert_int_equal(by_name(bed, NAMED_PEEK, "m", "203.0.113.7", 0, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 13);
}

static void another_limits_refusal_counts_too(void **state)
{
    struct bed *bed = *state;
    struct caudal_decision decision;
    apply(bed, "limits:\n"
               "- {name: counting, per: [client_ip], rate: 100/h, count_refused: true}\n"
               "- {name: shadow, per: [client_ip], rate: 100/h, count_refused: true, mode: shadow}\n"
               "- {name: refusing, per: [client_ip], rate: 3/h}\n");
    assert_int_equal(admitted(bed, "203.0.113.7", 10), 3);
    assert_int_equal(answer->overall.capacity, 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(by_name(bed, NAMED_PEEK, i == 0 ? "counting" : "shadow", "203.0.113.7", 0, &decision),
                         CAUDAL_OK);
        assert_int_equal(decision.remaining, 90);
    }
}

/* ---- limits that come with the call ---- */

static enum cdl_answer_kind take_per_call(struct cdl_live_policy *live, const char *key,
                                          const struct caudal_limit *limit, uint64_t cost)
{
    const struct cdl_slice value = cdl_slice_of(key);
    const uint32_t index = live->policy->resp.limit;
    struct cdl_plan *plan = &asker.answer.plan;
    *plan = (struct cdl_plan){.exemption = CDL_NONE, .limit = CDL_NONE, .identity = CDL_NONE, .count = 1};
    plan->charges[0] = (struct cdl_charge){.limit = index,
                                           .override = CDL_NONE,
                                           .rate = live->policy->limits[index].rate,
                                           .cost = cost,
                                           .per_call = *limit};
    plan->charges[0].key.bytes = scratch;
    assert_int_equal(cdl_policy_key(&value, 1, scratch, sizeof scratch, &plan->charges[0].key.length), CAUDAL_OK);
    assert_null(cdl_limiter_ask_plan(&asker, live, CDL_ASK_TAKE));
    return answer->kind;
}

static void a_plan_may_bring_its_limit(void **state)
{
    struct bed *bed = *state;
    const struct caudal_limit five = {sizeof five, CAUDAL_TOKEN_BUCKET, 1, 10 * SECOND, 5},
                              ten = {sizeof ten, CAUDAL_TOKEN_BUCKET, 2, 10 * SECOND, 10};
    apply(bed, "limits: [{name: l, rate: 1/h}]");
    struct cdl_live_policy *live = cdl_limiter_acquire(bed->limiter);
    assert_int_equal(take_per_call(live, "k", &five, 6), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.verdict, CAUDAL_NEVER);
    assert_int_equal(take_per_call(live, "k", &five, 5), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 0);
    assert_int_equal(take_per_call(live, "k", &five, 1), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.retry_after_ns, 10 * SECOND);
    assert_int_equal(take_per_call(live, "other", &five, 1), CDL_ANSWER_ALLOWED);
    /* What was spent stays spent at another rate. */
    assert_int_equal(take_per_call(live, "k", &ten, 5), CDL_ANSWER_ALLOWED);
    assert_int_equal(take_per_call(live, "k", &ten, 1), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.retry_after_ns, 5 * SECOND);
    const struct caudal_limit told = cdl_answer_limit(answer, &answer->plan.charges[0], &answer->decisions[0]);
    assert_int_equal(told.burst, 10);
    cdl_limiter_release(live);
}

static void a_name_with_another_number_of_values_is_an_error(void **state)
{
    struct bed *bed = *state;
    struct caudal_decision decision;
    static char long_value[CAUDAL_KEY_MAX + 2];
    memset(long_value, 'x', sizeof long_value - 1);
    apply(bed, "limits:\n  - " CLIENT "\n  - " ALL "\n  - {name: u, per: [header.x-user], rate: 1/hour}\n");
    assert_int_equal(by_name(bed, NAMED_TAKE, "client", NULL, 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_no_verdict(decision, CAUDAL_ERR_ARGUMENT);
    assert_int_equal(by_name(bed, NAMED_TAKE, "all", "x", 1, &decision), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(by_name(bed, NAMED_TAKE, "u", long_value, 1, &decision), CAUDAL_ERR_KEY);
    assert_no_verdict(decision, CAUDAL_ERR_KEY);
}

/* ---- stores that fail ---- */

static int failing_add(struct caudal_store *store, const char *name, const struct caudal_limit *limit, uint32_t *id,
                       struct caudal_problem *problem)
{
    (void)store, (void)name, (void)limit, (void)problem;
    static uint32_t next;
    *id = next++;
    return CAUDAL_OK;
}

static int failing_find(struct caudal_store *store, const char *name, uint32_t *id)
{
    (void)store, (void)name, (void)id;
    return CAUDAL_ERR_UNKNOWN;
}

static int failing_get(struct caudal_store *store, uint32_t id, struct caudal_limit *limit)
{
    (void)store, (void)id, (void)limit;
    return CAUDAL_ERR_UNKNOWN;
}

static int failing_set(struct caudal_store *store, uint32_t id, const struct caudal_limit *limit,
                       struct cdl_instant *now, struct caudal_problem *problem)
{
    (void)store, (void)id, (void)limit, (void)now, (void)problem;
    return CAUDAL_OK;
}

static int failing_remove(struct caudal_store *store, uint32_t id)
{
    (void)store, (void)id;
    return CAUDAL_OK;
}

static int failing_take(struct caudal_store *store, uint32_t limit, const void *key, size_t key_length, uint64_t cost,
                        struct caudal_decision *decision)
{
    (void)store;
    (void)limit;
    (void)key;
    (void)key_length;
    (void)cost;
    *decision = (struct caudal_decision){.status = CAUDAL_ERR_UNSUPPORTED};
    return CAUDAL_ERR_UNSUPPORTED;
}

static int failing_decide(struct caudal_store *store, const struct caudal_request *request,
                          const struct cdl_question *question, struct cdl_instant *now,
                          struct caudal_decision *decision)
{
    (void)store, (void)request, (void)question, (void)now, (void)decision;
    return CAUDAL_ERR_UNSUPPORTED;
}

static int failing_decide_all(struct caudal_store *store, enum cdl_operation operation,
                              const struct caudal_request *requests, const struct caudal_limit *const *limits,
                              size_t count, struct cdl_instant *now, struct caudal_decision *decisions)
{
    (void)store, (void)operation, (void)requests, (void)limits, (void)count, (void)now, (void)decisions;
    return CAUDAL_ERR_UNSUPPORTED;
}

static int failing_add_per_call(struct caudal_store *store, const char *name, uint32_t *id,
                                struct caudal_problem *problem)
{
    return failing_add(store, name, NULL, id, problem);
}

/* Knows limits, and can say nothing about keys. */
static const struct cdl_store_ops failing_ops = {
    .add_limit = failing_add,
    .add_per_call_limit = failing_add_per_call,
    .find_limit = failing_find,
    .get_limit = failing_get,
    .set_limit = failing_set,
    .remove_limit = failing_remove,
    .take = failing_take,
    .decide = failing_decide,
    .decide_all = failing_decide_all,
};

static void ask_failing(const char *limits, bool spend)
{
    static struct caudal_store store = {.ops = &failing_ops};
    store.clock = caudal_clock_system();
    struct cdl_limiter *limiter = cdl_limiter_open(&store);
    assert_int_equal(cdl_limiter_apply(limiter, load(limits), NULL, NULL), CAUDAL_OK);
    struct cdl_live_policy *live = cdl_limiter_acquire(limiter);
    memset(&asker.answer, 0xA5, sizeof asker.answer);
    ask_about(live, "192.0.2.1", NULL, CDL_COST_UNSAID, spend);
    cdl_limiter_release(live);
    cdl_limiter_close(limiter);
}

static void each_choice_for_a_failing_store_is_one_decision(void **state)
{
    (void)state;
    struct cdl_limit_rule limit = {.on_store_failure = CDL_FAILURE_ALLOW};
    struct caudal_decision decision = cdl_limiter_on_failure(&limit, CAUDAL_ERR_UNSUPPORTED);
    assert_int_equal(decision.status, CAUDAL_OK);
    assert_int_equal(decision.verdict, CAUDAL_ALLOW);
    assert_int_equal(decision.source, CAUDAL_SOURCE_FAILURE_POLICY);
    limit.on_store_failure = CDL_FAILURE_DENY;
    decision = cdl_limiter_on_failure(&limit, CAUDAL_ERR_UNSUPPORTED);
    assert_int_equal(decision.status, CAUDAL_ERR_UNSUPPORTED);
    assert_int_equal(decision.verdict, CAUDAL_NO_VERDICT); /* an error is never a refusal */
    assert_int_equal(decision.source, CAUDAL_SOURCE_FAILURE_POLICY);
}

static void a_failing_store_is_answered_as_the_limits_chose(void **state)
{
    (void)state;
    for (int spend = 0; spend < 2; spend++) {
        ask_failing("limits:\n  - {name: a, rate: 1/hour, on_store_failure: allow}\n"
                    "  - {name: s, rate: 1/hour, mode: shadow}\n",
                    spend);
        assert_int_equal(answer->kind, CDL_ANSWER_ALLOWED);
        assert_int_equal(answer->binding, CDL_NONE);
        assert_int_equal(answer->overall.status, CAUDAL_OK);
        assert_int_equal(answer->overall.verdict, CAUDAL_ALLOW);
        assert_int_equal(answer->overall.source, CAUDAL_SOURCE_FAILURE_POLICY);
        assert_int_equal(answer->decisions[0].source, CAUDAL_SOURCE_FAILURE_POLICY);
        assert_int_equal(answer->shadow_refusals, 0);
        ask_failing("limits:\n  - {name: a, rate: 1/hour, on_store_failure: allow}\n"
                    "  - {name: b, rate: 1/hour, on_store_failure: deny}\n"
                    "  - {name: c, rate: 1/hour, on_store_failure: deny}\n",
                    spend);
        assert_int_equal(answer->kind, CDL_ANSWER_UNAVAILABLE);
        assert_int_equal(answer->binding, 1);
        assert_int_equal(answer->overall.verdict, CAUDAL_NO_VERDICT);
        assert_int_equal(answer->overall.status, CAUDAL_ERR_UNSUPPORTED);
    }
}

/* ---- policies that follow one another ---- */

static void C62_unchanged_limits_keep_their_state(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - " CLIENT "\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 10), 3);
    const int64_t reset_after_ns = answer->overall.reset_after_ns;
    for (int i = 0; i < 10; i++) {
        apply(bed, i % 2 == 0 ? "# a comment\nlimits:\n  - " ALL "\n  - " CLIENT "\n" : "limits:\n  - " CLIENT "\n");
        assert_int_equal(cdl_limiter_generation(bed->limiter), i + 2);
        assert_int_equal(ask(bed, "192.0.2.1", NULL), CDL_ANSWER_REFUSED);
        assert_int_equal(answer->overall.reset_after_ns, reset_after_ns);
    }
}

static void C63_what_was_spent_stays_spent_when_a_limit_is_raised_or_lowered(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - {name: a, per: [client_ip], rate: 10/hour}\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 50), 10);
    apply(bed, "limits:\n  - {name: a, per: [client_ip], rate: 20/hour}\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 50), 10);
    assert_int_equal(answer->overall.capacity, 20);
    apply(bed, "limits:\n  - {name: a, per: [client_ip], rate: 5/hour}\n");
    assert_int_equal(ask(bed, "192.0.2.1", NULL), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.remaining, 0);
    assert_int_equal(admitted(bed, "192.0.2.2", 50), 5);
}

static void a_limit_that_is_removed_and_comes_back_is_new(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - " CLIENT "\n  - " ALL "\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 10), 3);
    apply(bed, "limits:\n  - " ALL "\n");
    assert_int_equal(stats_of(&bed->world).limits, 1 + PER_CALL);
    apply(bed, "limits:\n  - " CLIENT "\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 10), 3);
}

/* Who still holds the policy of before last is answered by it, also when the one that came after it has been left by all. */
static void removed_limits_stay_until_the_last_user_of_any_policy_that_has_them(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - " CLIENT "\n");
    struct cdl_live_policy *first = cdl_limiter_acquire(bed->limiter);
    apply(bed, "limits:\n  - " CLIENT "\n  - " ALL "\n");
    struct cdl_live_policy *second = cdl_limiter_acquire(bed->limiter);
    apply(bed, "limits:\n  - {name: other, rate: 1/hour}\n");
    assert_int_equal(stats_of(&bed->world).limits, 3 + PER_CALL);
    cdl_limiter_release(first);
    assert_int_equal(stats_of(&bed->world).limits, 3 + PER_CALL);
    ask_about(second, "192.0.2.1", NULL, CDL_COST_UNSAID, true);
    assert_int_equal(answer->kind, CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.status, CAUDAL_OK);
    assert_int_equal(answer->overall.remaining, 2);
    cdl_limiter_release(second);
    assert_int_equal(stats_of(&bed->world).limits, 1 + PER_CALL);
}

static void count_free(void *data)
{
    ++*(unsigned *)data;
}

static void what_is_attached_goes_with_its_policy(void **state)
{
    struct bed *bed = *state;
    unsigned freed = 0;
    const struct cdl_attachment attachment = {&freed, count_free};
    assert_int_equal(cdl_limiter_apply(bed->limiter, load("limits:\n  - " ALL "\n"), &attachment, NULL), CAUDAL_OK);
    struct cdl_live_policy *live = cdl_limiter_acquire(bed->limiter);
    apply(bed, "limits:\n  - " CLIENT "\n");
    assert_int_equal(freed, 0);
    cdl_limiter_release(live);
    assert_int_equal(freed, 1);
}

/* A store that is full with the first policy's limits and those that are new. */
static void a_policy_that_fails_changes_nothing(void **state)
{
    struct bed *bed = *state;
    apply(bed, "limits:\n  - " CLIENT "\n");
    assert_int_equal(admitted(bed, "192.0.2.1", 2), 2);
    char name[32];
    unsigned others = 0;
    const struct caudal_limit limit = bucket_of(1, 1, SECOND);
    uint32_t id;
    for (;; others++) {
        snprintf(name, sizeof name, "other %u", others);
        if (caudal_add_limit(bed->world.store, name, &limit, &id, NULL) != CAUDAL_OK)
            break;
    }
    assert_int_equal(caudal_remove_limit(bed->world.store, id), CAUDAL_OK); /* room for one */
    const uint64_t limits = stats_of(&bed->world).limits;
    struct cdl_policy *policy = load("limits:\n  - {name: client, per: [client_ip], rate: 9/hour}\n"
                                     "  - {name: new1, rate: 1/hour}\n  - {name: new2, rate: 1/hour}\n");
    struct caudal_problem problem = {.message = ""};
    unsigned freed = 0;
    const struct cdl_attachment attachment = {&freed, count_free};
    assert_int_equal(cdl_limiter_apply(bed->limiter, policy, &attachment, &problem), CAUDAL_ERR_FULL);
    assert_true(strlen(problem.message) > 0);
    assert_int_equal(freed, 0);
    cdl_policy_free(policy); /* still ours */
    assert_int_equal(cdl_limiter_generation(bed->limiter), 1);
    assert_int_equal(stats_of(&bed->world).limits, limits);
    assert_int_equal(admitted(bed, "192.0.2.1", 9), 1); /* of the old rate */
    for (unsigned i = 0; i < others; i++) {
        snprintf(name, sizeof name, "other %u", i);
        if (caudal_find_limit(bed->world.store, name, &id) == CAUDAL_OK)
            caudal_remove_limit(bed->world.store, id);
    }
}

/* The sanitizers' builds say whether memory was kept. */
static void ten_thousand_reloads_leave_nothing_behind(void **state)
{
    struct bed *bed = *state;
    static const char *const texts[] = {
        "limits:\n  - " CLIENT "\n  - " ALL "\n",
        "limits:\n  - {name: client, per: [client_ip], rate: 4/hour}\n",
        "limits:\n  - {name: client, per: [client_ip], rate: 3/hour fixed_window}\n  - {name: b, rate: 1/s}\n",
    };
    for (uint64_t i = 0; i < scaled(10000); i++) {
        apply(bed, texts[i % 3]);
        ask(bed, "192.0.2.1", NULL);
        assert_int_equal(cdl_limiter_generation(bed->limiter), i + 1);
        assert_int_equal(stats_of(&bed->world).limits, (i % 3 == 1 ? 1 : 2) + PER_CALL);
    }
}

static void before_the_first_policy_there_is_none(void **state)
{
    struct bed *bed = *state;
    assert_null(cdl_limiter_acquire(bed->limiter));
    assert_int_equal(cdl_limiter_generation(bed->limiter), 0);
    cdl_limiter_release(NULL);
    cdl_limiter_close(NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* A limiter that leaves its store removes nothing from it: whoever closes the store frees all at once. */
static void leaving_the_store_removes_nothing(void **state)
{
    (void)state;
    struct world world;
    struct caudal_problem problem;
    world_open(&world, "memory:?keys=1000");
    struct cdl_limiter *limiter = cdl_limiter_open(world.store);
    assert_int_equal(
        cdl_limiter_apply(limiter, load("limits: [{name: a, rate: 1/s}, {name: b, rate: 1/s}]\n"), NULL, &problem),
        CAUDAL_OK);
    const uint64_t limits = stats_of(&world).limits;
    assert_true(limits >= 2);
    cdl_limiter_leave_store(limiter);
    cdl_limiter_close(limiter);
    assert_int_equal(stats_of(&world).limits, limits);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaving_the_store_removes_nothing),
        CASE(the_limit_with_the_least_left_speaks),
        CASE(a_refused_request_spends_nothing_from_any_limit),
        CASE(looking_says_what_a_take_would_and_spends_nothing),
        CASE(what_is_exempt_or_matches_nothing_asks_nobody),
        CASE(a_missing_identity_is_answered_as_the_limit_chose),
        CASE(a_limit_in_shadow_counts_what_passes_and_refuses_nothing),
        CASE(an_override_has_its_own_rate),
        CASE(a_cost_is_what_the_caller_says_within_the_limits_of_the_policy),
        CASE(a_limit_that_is_named_can_be_taken_from_looked_at_refunded_and_reset),
        CASE(a_refusal_that_counts_spends_what_is_left),
        CASE(another_limits_refusal_counts_too),
        CASE(a_plan_may_bring_its_limit),
        CASE(a_name_with_another_number_of_values_is_an_error),
        cmocka_unit_test(each_choice_for_a_failing_store_is_one_decision),
        cmocka_unit_test(a_failing_store_is_answered_as_the_limits_chose),
        CASE(C62_unchanged_limits_keep_their_state),
        CASE(C63_what_was_spent_stays_spent_when_a_limit_is_raised_or_lowered),
        CASE(a_limit_that_is_removed_and_comes_back_is_new),
        CASE(removed_limits_stay_until_the_last_user_of_any_policy_that_has_them),
        CASE(what_is_attached_goes_with_its_policy),
        CASE(a_policy_that_fails_changes_nothing),
        CASE(ten_thousand_reloads_leave_nothing_behind),
        CASE(before_the_first_policy_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
