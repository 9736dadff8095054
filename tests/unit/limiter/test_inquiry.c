/* Questions to a store that answers later, in any order or not at all: what is asked, what is answered, and what the limits choose while the
 * store is away. */
#include <stdlib.h>

#include "../later_store.h"
#include "limiter/limiter.h"

static char scratch[CDL_MATCH_SCRATCH_BYTES];
/* What limits that come with a command are counted under, in the store beside those of any policy. */
#define PER_CALL 1

static struct cdl_report report;

/* ---- a limiter over a store that answers later ---- */

#define WAITERS 64

struct bed {
    struct world world;
    struct later_store store;
    struct cdl_limiter *limiter;
    struct cdl_asker asker;
    struct cdl_inquiry *done[WAITERS]; /* in the order in which they came to be */
    size_t done_count;
};

static struct bed bed;
static const struct cdl_answer *const answer = &bed.asker.answer;

static int setup(void **state)
{
    (void)state;
    static const struct cdl_loop_hooks none;
    memset(&bed, 0, sizeof bed);
    world_open(&bed.world, "memory:?keys=10000");
    later_open(&bed.store, &bed.world);
    bed.limiter = cdl_limiter_open(&bed.store.head);
    assert_non_null(bed.limiter);
    bed.asker.scratch = scratch;
    bed.asker.client = cdl_store_client_open(&bed.store.head, &none);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < bed.done_count; i++)
        cdl_inquiry_free(bed.done[i]);
    assert_int_equal(bed.asker.waiting, 0);
    cdl_store_client_close(bed.asker.client);
    cdl_limiter_close(bed.limiter);
    assert_int_equal(stats_of(&bed.world).limits, 0);
    later_close(&bed.store);
    world_close(&bed.world);
    return 0;
}

static void apply(const char *text)
{
    struct caudal_problem problem;
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(text), NULL, &report);
    if (policy == NULL)
        fail_msg("%s\nin:\n%s", report.findings[0].text, text);
    if (cdl_limiter_apply(bed.limiter, policy, NULL, &problem) != CAUDAL_OK)
        fail_msg("%s", problem.message);
}

static void note_done(struct cdl_inquiry *inquiry, void *context)
{
    (void)context;
    assert_true(bed.done_count < WAITERS);
    bed.done[bed.done_count++] = inquiry;
}

/* ---- requests ---- */

/* Of a client; the scratch is overwritten afterwards, as the next request does. */
static struct cdl_inquiry *ask_of(struct cdl_live_policy *live, const char *client, enum cdl_ask ask)
{
    struct cdl_request request = {.method = CDL_SLICE("GET"), .path = CDL_SLICE("/a")};
    assert_true(cdl_address_parse(cdl_slice_of(client), &request.client));
    struct cdl_inquiry *inquiry = cdl_limiter_ask(&bed.asker, live, &request, ask, CDL_COST_UNSAID);
    if (inquiry != NULL) {
        cdl_inquiry_await(inquiry, note_done, NULL);
        memset(scratch, 0xA5, sizeof scratch);
        memset(&bed.asker.answer, 0xA5, sizeof bed.asker.answer);
    }
    return inquiry;
}

static struct cdl_inquiry *ask(const char *client, enum cdl_ask ask)
{
    struct cdl_live_policy *live = cdl_limiter_acquire(bed.limiter);
    struct cdl_inquiry *inquiry = ask_of(live, client, ask);
    cdl_limiter_release(live);
    return inquiry;
}

/* Asks, and the store answers at once; or fails. */
static enum cdl_answer_kind answered(const char *client, enum cdl_ask what)
{
    struct cdl_inquiry *inquiry = ask(client, what);
    assert_non_null(inquiry);
    later_answer_all(&bed.store);
    assert_ptr_equal(bed.done[--bed.done_count], inquiry);
    const enum cdl_answer_kind kind = cdl_inquiry_answer(inquiry)->kind;
    cdl_inquiry_free(inquiry);
    return kind;
}

static enum cdl_answer_kind failed(const char *client, enum cdl_ask what)
{
    struct cdl_inquiry *inquiry = ask(client, what);
    assert_non_null(inquiry);
    later_fail_all(&bed.store);
    assert_ptr_equal(bed.done[--bed.done_count], inquiry);
    const enum cdl_answer_kind kind = cdl_inquiry_answer(inquiry)->kind;
    cdl_inquiry_free(inquiry);
    return kind;
}

static struct cdl_inquiry *ask_named(const char *limit, const char *value, enum cdl_ask ask, uint64_t cost)
{
    const struct cdl_slice values[] = {value == NULL ? CDL_SLICE("") : cdl_slice_of(value)};
    struct cdl_live_policy *live = cdl_limiter_acquire(bed.limiter);
    const struct cdl_named_key key = {cdl_policy_find(live->policy, cdl_slice_of(limit)), values, value != NULL};
    struct cdl_inquiry *inquiry = cdl_limiter_ask_named(&bed.asker, live, &key, ask, cost);
    if (inquiry != NULL)
        cdl_inquiry_await(inquiry, note_done, NULL);
    cdl_limiter_release(live);
    return inquiry;
}

/* What the store itself has left of a limit. */
static uint64_t left_of(const char *limit, const char *value)
{
    const struct cdl_slice values[] = {value == NULL ? CDL_SLICE("") : cdl_slice_of(value)};
    struct cdl_live_policy *live = cdl_limiter_acquire(bed.limiter);
    const struct cdl_named_key key = {cdl_policy_find(live->policy, cdl_slice_of(limit)), values, value != NULL};
    struct caudal_decision decision;
    assert_int_equal(cdl_limiter_inspect(live, &key, false, scratch, &decision), CAUDAL_OK);
    cdl_limiter_release(live);
    return decision.remaining;
}

/* ---- answers that come later ---- */

#define CLIENT "{name: client, per: [client_ip], rate: 3/hour}"
#define ALL "{name: all, rate: 5/hour}"

static void what_comes_later_is_what_would_have_come_at_once(void **state)
{
    (void)state;
    apply("limits:\n  - " CLIENT "\n  - " ALL "\n");
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
        assert_int_equal(answer->binding, 0);
        assert_int_equal(answer->overall.remaining, 2 - i);
        assert_int_equal(answer->decisions[1].remaining, 4 - i);
        assert_int_equal(answer->plan.charges[1].limit, 1);
    }
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->overall.verdict, CAUDAL_DENY);
    assert_int_equal(answer->overall.retry_after_ns, HOUR / 3);
    assert_int_equal(left_of("all", NULL), 2);
    assert_int_equal(answered("192.0.2.1", CDL_ASK_PEEK), CDL_ANSWER_REFUSED);
    assert_int_equal(answered("192.0.2.1", CDL_ASK_REFUND), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 1);
    assert_int_equal(answer->binding, 0);
    assert_int_equal(answered("192.0.2.1", CDL_ASK_PEEK), CDL_ANSWER_ALLOWED);
    assert_int_equal(left_of("client", "192.0.2.1"), 1);
}

static void a_limit_for_everybody_ahead_of_one_for_each_leaves_each_its_key(void **state)
{
    (void)state;
    apply("limits:\n  - " ALL "\n  - " CLIENT "\n");
    for (int i = 0; i < 3; i++)
        assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_REFUSED);
    assert_int_equal(answered("192.0.2.2", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->decisions[1].remaining, 2);
    assert_int_equal(left_of("client", "192.0.2.1"), 0);
}

static void all_enforced_limits_are_asked_together_and_those_in_shadow_afterwards(void **state)
{
    (void)state;
    apply("limits:\n  - {name: s1, rate: 1/hour, mode: shadow}\n  - " CLIENT "\n  - " ALL "\n"
          "  - {name: s2, rate: 9/hour, mode: shadow}\n");
    assert_non_null(ask("192.0.2.1", CDL_ASK_TAKE));
    assert_int_equal(bed.store.count, 1);
    assert_true(bed.store.calls[0]->together);
    assert_int_equal(bed.store.calls[0]->count, 2);
    assert_int_equal(bed.asker.waiting, 1);
    later_answer(&bed.store, 0);
    assert_int_equal(bed.done_count, 0);
    assert_int_equal(bed.store.count, 1);
    assert_false(bed.store.calls[0]->together);
    assert_int_equal(bed.store.calls[0]->count, 2);
    assert_int_equal(bed.store.calls[0]->questions[0].operation, CDL_TAKE);
    later_answer(&bed.store, 0);
    assert_int_equal(bed.done_count, 1);
    assert_int_equal(bed.asker.waiting, 0);
    cdl_inquiry_answer(bed.done[0]);
    assert_int_equal(answer->plan.count, 4);
    assert_int_equal(answer->shadow_refusals, 0);
    assert_int_equal(answer->decisions[0].remaining, 0);
    assert_int_equal(answer->decisions[3].remaining, 8);

    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->shadow_refusals, 1);
    answered("192.0.2.1", CDL_ASK_TAKE);
    ask("192.0.2.1", CDL_ASK_TAKE); /* refused: spends nothing in shadow either */
    later_answer(&bed.store, 0);
    assert_int_equal(bed.store.calls[0]->questions[1].operation, CDL_PEEK);
    later_answer(&bed.store, 0);
    assert_int_equal(cdl_inquiry_answer(bed.done[1])->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(left_of("s2", NULL), 6);
}

static void answers_come_in_any_order_each_to_its_own_question(void **state)
{
    (void)state;
    static const char *const clients[] = {"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"};
    struct cdl_inquiry *inquiries[5];
    struct rng rng = {3};
    apply("limits:\n  - {name: client, per: [client_ip], rate: 100/hour}\n");
    for (size_t i = 0; i < 5; i++)
        for (size_t n = 0; n < i; n++)
            answered(clients[i], CDL_ASK_TAKE); /* each has another number left */
    for (unsigned round = 0; round < 20; round++) {
        for (size_t i = 0; i < 5; i++)
            inquiries[i] = ask(clients[i], CDL_ASK_PEEK);
        assert_int_equal(bed.asker.waiting, 5);
        while (bed.store.count > 0)
            later_answer(&bed.store, rng_below(&rng, bed.store.count));
        for (size_t i = 0; i < 5; i++) {
            assert_int_equal(cdl_inquiry_answer(inquiries[i])->overall.remaining, 99 - i);
            const struct cdl_slice key = answer->plan.charges[0].key;
            assert_int_equal(key.length, strlen("9:192.0.2.1,"));
            assert_memory_equal(key.bytes + 2, clients[i], strlen(clients[i]));
            cdl_inquiry_free(inquiries[i]);
        }
        bed.done_count = 0;
    }
}

static void what_no_limit_applies_to_is_answered_at_once(void **state)
{
    (void)state;
    apply("exempt:\n  - {client_ip: 192.0.2.0/24}\nlimits:\n  - {name: posts, when: {method: POST}, rate: 1/hour}\n"
          "  - {name: u, per: [header.x-user], when: {client_ip: 203.0.113.0/24}, rate: 1/hour}\n");
    assert_null(ask("192.0.2.1", CDL_ASK_TAKE));
    assert_int_equal(answer->plan.outcome, CDL_OUTCOME_EXEMPT);
    assert_null(ask("198.51.100.1", CDL_ASK_TAKE));
    assert_int_equal(answer->kind, CDL_ANSWER_ALLOWED);
    assert_null(ask("203.0.113.1", CDL_ASK_TAKE));
    assert_int_equal(answer->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(answer->plan.outcome, CDL_OUTCOME_MISSING);
    assert_int_equal(bed.store.asked, 0);
}

static void an_answer_can_be_kept(void **state)
{
    (void)state;
    apply("limits:\n  - {name: posts, when: {method: POST}, rate: 1/hour}\n");
    assert_null(ask("198.51.100.1", CDL_ASK_TAKE));
    struct cdl_inquiry *kept = cdl_inquiry_keep(&bed.asker);
    assert_null(ask_named("nothing", "x", CDL_ASK_TAKE, 1));
    assert_int_equal(answer->overall.status, CAUDAL_ERR_UNKNOWN);
    assert_int_equal(cdl_inquiry_answer(kept)->overall.status, CAUDAL_OK);
    assert_int_equal(answer->kind, CDL_ANSWER_ALLOWED);
    cdl_inquiry_free(kept);
}

static void one_limit_by_its_name_is_asked_by_itself(void **state)
{
    (void)state;
    apply("limits:\n  - " CLIENT "\n  - {name: s, rate: 2/hour, mode: shadow}\n");
    assert_non_null(ask_named("client", "192.0.2.1", CDL_ASK_TAKE, 2));
    assert_non_null(ask_named("client", "192.0.2.1", CDL_ASK_TAKE, 2));
    assert_non_null(ask_named("s", NULL, CDL_ASK_TAKE, 3));
    later_answer_all(&bed.store);
    assert_int_equal(cdl_inquiry_answer(bed.done[0])->overall.remaining, 1);
    assert_true(answer->named);
    assert_int_equal(answer->kind, CDL_ANSWER_ALLOWED);
    assert_int_equal(cdl_inquiry_answer(bed.done[1])->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(cdl_inquiry_answer(bed.done[2])->overall.verdict, CAUDAL_NEVER);
    assert_null(ask_named("client", NULL, CDL_ASK_TAKE, 1));
    assert_int_equal(answer->overall.status, CAUDAL_ERR_ARGUMENT);
    assert_null(ask_named("client", "", CDL_ASK_TAKE, 1));
    assert_int_equal(answer->overall.status, CAUDAL_ERR_ARGUMENT);
    assert_null(ask_named("none", "x", CDL_ASK_TAKE, 1));
    assert_int_equal(answer->overall.status, CAUDAL_ERR_UNKNOWN);
    assert_int_equal(answer->plan.count, 0);
}

/* ---- the store is away ---- */

static void each_limit_answers_as_it_chose(void **state)
{
    (void)state;
    apply("limits:\n  - {name: a, rate: 1/hour, on_store_failure: allow}\n");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(failed("192.0.2.1", i == 1 ? CDL_ASK_PEEK : CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
        assert_int_equal(answer->overall.source, CAUDAL_SOURCE_FAILURE_POLICY);
        assert_int_equal(answer->overall.remaining, UINT64_MAX); /* no number is made up */
        assert_int_equal(answer->binding, CDL_NONE);
    }
    apply("limits:\n  - {name: a, rate: 1/hour, on_store_failure: allow}\n"
          "  - {name: d, rate: 1/hour, on_store_failure: deny}\n");
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_UNAVAILABLE);
    assert_int_equal(answer->binding, 1);
    assert_int_equal(answer->overall.verdict, CAUDAL_NO_VERDICT);
    assert_int_equal(answer->overall.status, CAUDAL_ERR_STORE);
    assert_int_equal(left_of("a", NULL), 1); /* the store was not asked */
}

#define LOCAL "on_store_failure: local, local_share: 1/3"

static void C48_a_local_share_is_this_instances_part(void **state)
{
    (void)state;
    apply("instances: 3\nlimits:\n  - {name: l, per: [client_ip], rate: 30/minute, on_store_failure: local}\n");
    unsigned admitted = 0;
    for (int i = 0; i < 34; i++)
        admitted += failed("192.0.2.1", CDL_ASK_TAKE) == CDL_ANSWER_ALLOWED;
    assert_int_equal(admitted, 10);
    assert_int_equal(answer->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(answer->binding, 0);
    assert_int_equal(answer->overall.source, CAUDAL_SOURCE_LOCAL_SHARE);
    assert_int_equal(answer->overall.capacity, 10);
    assert_int_equal(answer->overall.retry_after_ns, MINUTE / 10);
    const struct caudal_limit limit = cdl_answer_limit(answer, &answer->plan.charges[0], &answer->overall);
    assert_same_limit(limit, bucket_of(10, 10, MINUTE));
    assert_int_equal(left_of("l", "192.0.2.1"), 30); /* the shared one is untouched */
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.source, CAUDAL_SOURCE_STORE);
    assert_int_equal(failed("192.0.2.1", CDL_ASK_PEEK), CDL_ANSWER_REFUSED);
    assert_int_equal(failed("192.0.2.1", CDL_ASK_REFUND), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 1);
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
}

static void local_shares_are_all_or_nothing_too(void **state)
{
    (void)state;
    apply("limits:\n  - {name: l1, per: [client_ip], rate: 9/hour, " LOCAL "}\n  - {name: l2, rate: 12/hour, " LOCAL
          "}\n  - {name: a, rate: 1/hour, on_store_failure: allow}\n");
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
        assert_int_equal(answer->binding, 0);
        assert_int_equal(answer->overall.remaining, 2 - i);
        assert_int_equal(answer->decisions[2].source, CAUDAL_SOURCE_FAILURE_POLICY);
    }
    for (int i = 0; i < 5; i++) {
        assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_REFUSED);
        assert_int_equal(answer->binding, 0);
        assert_int_equal(answer->decisions[1].remaining, 1); /* a refused request spends nothing */
    }
    assert_int_equal(failed("192.0.2.2", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(failed("192.0.2.2", CDL_ASK_TAKE), CDL_ANSWER_REFUSED);
    assert_int_equal(answer->binding, 1);
}

static void one_that_fails_closed_keeps_the_others_from_spending(void **state)
{
    (void)state;
    apply("limits:\n  - {name: l, rate: 9/hour, " LOCAL "}\n  - {name: d, rate: 1/hour, on_store_failure: deny}\n");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_UNAVAILABLE);
        assert_int_equal(answer->binding, 1); /* it speaks, though another stands before it */
        assert_int_equal(answer->decisions[0].verdict, CAUDAL_NO_VERDICT);
    }
    apply("limits:\n  - {name: l, rate: 9/hour, " LOCAL "}\n");
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 2);
}

static void a_limit_in_shadow_falls_back_by_itself(void **state)
{
    (void)state;
    apply("limits:\n  - {name: s, rate: 3/hour, mode: shadow, " LOCAL "}\n"
          "  - {name: d, rate: 1/hour, mode: shadow, on_store_failure: deny}\n"
          "  - {name: a, rate: 1/hour, on_store_failure: allow}\n");
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->decisions[0].source, CAUDAL_SOURCE_LOCAL_SHARE);
    assert_int_equal(answer->decisions[0].remaining, 0);
    assert_int_equal(answer->decisions[1].verdict, CAUDAL_NO_VERDICT);
    assert_int_equal(answer->shadow_refusals, 0);
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->shadow_refusals, 1);
    /* The first call is answered, and the second is lost. */
    ask("192.0.2.1", CDL_ASK_TAKE);
    later_answer(&bed.store, 0);
    later_fail(&bed.store, 0);
    assert_int_equal(cdl_inquiry_answer(bed.done[0])->kind, CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.source, CAUDAL_SOURCE_STORE);
    assert_int_equal(answer->shadow_refusals, 1);
}

static void what_is_asked_by_name_falls_back_too(void **state)
{
    (void)state;
    apply("limits:\n  - {name: l, rate: 9/hour, " LOCAL "}\n  - {name: d, rate: 9/hour, on_store_failure: deny}\n"
          "  - {name: a, rate: 9/hour}\n");
    ask_named("l", NULL, CDL_ASK_TAKE, 2);
    ask_named("d", NULL, CDL_ASK_TAKE, 2);
    ask_named("a", NULL, CDL_ASK_TAKE, 2);
    later_fail_all(&bed.store);
    assert_int_equal(cdl_inquiry_answer(bed.done[0])->overall.remaining, 1);
    assert_int_equal(answer->overall.source, CAUDAL_SOURCE_LOCAL_SHARE);
    assert_int_equal(cdl_inquiry_answer(bed.done[1])->kind, CDL_ANSWER_UNAVAILABLE);
    assert_int_equal(answer->overall.status, CAUDAL_ERR_STORE);
    assert_int_equal(cdl_inquiry_answer(bed.done[2])->kind, CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.source, CAUDAL_SOURCE_FAILURE_POLICY);
}

/* An administrator is told the truth, or that it cannot be told. */
static void looking_at_a_key_does_not_fall_back(void **state)
{
    (void)state;
    apply("limits:\n  - " CLIENT "\n");
    const struct cdl_slice values[] = {CDL_SLICE("192.0.2.1")};
    const struct cdl_named_key key = {0, values, 1};
    struct caudal_decision decision;
    struct cdl_live_policy *live = cdl_limiter_acquire(bed.limiter);
    bed.store.is_away = true;
    assert_int_equal(cdl_limiter_inspect(live, &key, false, scratch, &decision), CAUDAL_ERR_STORE);
    assert_no_verdict(decision, CAUDAL_ERR_STORE);
    assert_int_equal(cdl_limiter_inspect(live, &key, true, scratch, &decision), CAUDAL_ERR_STORE);
    bed.store.is_away = false;
    answered("192.0.2.1", CDL_ASK_TAKE);
    assert_int_equal(left_of("client", "192.0.2.1"), 2);
    assert_int_equal(cdl_limiter_inspect(live, &key, true, scratch, &decision), CAUDAL_OK);
    assert_int_equal(decision.remaining, 3);
    cdl_limiter_release(live);
}

/* Nobody waits without bound: beyond it, and while the client is closed, the limits answer at once. */
static void more_than_may_wait_fall_back_at_once(void **state)
{
    (void)state;
    apply("limits:\n  - {name: l, rate: 9/hour, " LOCAL "}\n  - {name: s, rate: 9/hour, mode: shadow}\n");
    bed.asker.waiting = CDL_WAITING_MAX;
    assert_null(ask("192.0.2.1", CDL_ASK_TAKE));
    assert_int_equal(answer->kind, CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.source, CAUDAL_SOURCE_LOCAL_SHARE);
    assert_int_equal(bed.store.asked, 0);
    bed.asker.waiting = 0;
    ask("192.0.2.1", CDL_ASK_TAKE);
    bed.asker.closed = true;
    assert_null(ask("192.0.2.1", CDL_ASK_TAKE));
    later_answer(&bed.store, 0); /* the one that waits asks nothing more */
    assert_int_equal(bed.store.count, 0);
    assert_int_equal(bed.done_count, 1);
    assert_int_equal(cdl_inquiry_answer(bed.done[0])->overall.source, CAUDAL_SOURCE_STORE);
    assert_int_equal(answer->decisions[1].source, CAUDAL_SOURCE_FAILURE_POLICY);
    bed.asker.closed = false;
}

/* ---- reloads meanwhile ---- */

static void a_question_that_waits_keeps_its_policy(void **state)
{
    (void)state;
    apply("limits:\n  - " CLIENT "\n  - {name: s, rate: 1/hour, mode: shadow}\n");
    ask("192.0.2.1", CDL_ASK_TAKE);
    apply("limits:\n  - " ALL "\n");
    assert_int_equal(stats_of(&bed.world).limits, 3 + PER_CALL); /* those of the old one are still asked */
    later_answer(&bed.store, 0);
    apply("limits:\n  - {name: other, rate: 1/hour}\n");
    later_answer(&bed.store, 0);
    assert_int_equal(cdl_inquiry_answer(bed.done[0])->kind, CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 2);
    assert_int_equal(answer->live->generation, 1);
    assert_string_equal(answer->live->policy->limits[0].name.bytes, "client");
    assert_int_equal(stats_of(&bed.world).limits, 3 + PER_CALL);
    cdl_inquiry_free(bed.done[--bed.done_count]);
    assert_int_equal(stats_of(&bed.world).limits, 1 + PER_CALL);
}

static void local_shares_follow_a_reload(void **state)
{
    (void)state;
    apply("limits:\n  - {name: l, rate: 9/hour, " LOCAL "}\n");
    for (int i = 0; i < 3; i++)
        assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_REFUSED);
    apply("limits:\n  - {name: l, rate: 15/hour, " LOCAL "}\n"); /* what was spent stays spent */
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 1);
    ask("192.0.2.1", CDL_ASK_TAKE);
    apply("limits:\n  - {name: l, rate: 15/hour, on_store_failure: deny}\n");
    later_fail(&bed.store, 0);
    assert_int_equal(cdl_inquiry_answer(bed.done[0])->overall.remaining, 0); /* as its own policy chose */
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_UNAVAILABLE);
    cdl_inquiry_free(bed.done[--bed.done_count]);
    apply("limits:\n  - {name: l, rate: 15/hour, " LOCAL "}\n"); /* came back: it is new */
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 4);
}

/* ---- limits that are counted here ---- */

#define HERE "{name: here, per: [client_ip], rate: 12/hour, sharing: local, local_share: 1/4}"

static void a_limit_that_is_counted_here_never_asks_the_store(void **state)
{
    (void)state;
    apply("limits:\n  - " HERE "\n  - {name: s, rate: 8/hour, sharing: local, local_share: 1/4, mode: shadow}\n");
    for (uint64_t i = 0; i < 3; i++) {
        assert_null(ask("192.0.2.1", CDL_ASK_TAKE));
        assert_int_equal(answer->kind, CDL_ANSWER_ALLOWED);
        assert_int_equal(answer->overall.source, CAUDAL_SOURCE_LOCAL_SHARE);
        assert_int_equal(answer->overall.capacity, 3);
        assert_int_equal(answer->overall.remaining, 2 - i);
        assert_int_equal(answer->shadow_refusals, i == 2);
    }
    assert_memory_equal(answer->plan.charges[0].key.bytes, "9:192.0.2.1,", 12);
    assert_null(ask("192.0.2.1", CDL_ASK_TAKE));
    assert_int_equal(answer->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(answer->binding, 0);
    assert_int_equal(answer->overall.retry_after_ns, HOUR / 3);
    const struct caudal_limit limit = cdl_answer_limit(answer, &answer->plan.charges[0], &answer->overall);
    assert_same_limit(limit, bucket_of(3, 3, HOUR));
    assert_null(ask("192.0.2.1", CDL_ASK_REFUND));
    assert_int_equal(answer->overall.remaining, 1);
    assert_null(ask_named("here", "192.0.2.1", CDL_ASK_TAKE, 1));
    assert_int_equal(answer->overall.remaining, 0);
    assert_int_equal(left_of("here", "192.0.2.1"), 0);
    assert_int_equal(bed.store.asked, 0);
    bed.store.is_away = true;
    assert_null(ask("192.0.2.2", CDL_ASK_TAKE));
    assert_int_equal(answer->overall.remaining, 2);
}

static void what_is_counted_here_and_in_the_store_is_all_or_nothing(void **state)
{
    (void)state;
    apply("limits:\n  - {name: all, rate: 2/hour}\n  - " HERE "\n");
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->decisions[0].source, CAUDAL_SOURCE_STORE);
    assert_int_equal(answer->decisions[1].source, CAUDAL_SOURCE_LOCAL_SHARE);
    assert_int_equal(answer->decisions[1].remaining, 2);
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);

    ask("192.0.2.1", CDL_ASK_TAKE); /* the store will refuse; meanwhile what is here is charged */
    assert_int_equal(left_of("here", "192.0.2.1"), 0);
    world_advance(&bed.world, MINUTE);
    later_answer_all(&bed.store);
    assert_int_equal(cdl_inquiry_answer(bed.done[0])->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(answer->binding, 0);
    assert_int_equal(answer->decisions[1].verdict, CAUDAL_ALLOW);
    assert_int_equal(answer->decisions[1].remaining, 1);
    assert_int_equal(left_of("here", "192.0.2.1"), 1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_REFUSED);
    assert_int_equal(left_of("here", "192.0.2.1"), 1); /* what is refused uses nothing up */

    world_advance(&bed.world, HOUR);
    for (int i = 0; i < 3; i++)
        ask_named("here", "192.0.2.1", CDL_ASK_TAKE, 1);
    assert_int_equal(left_of("all", NULL), 2);
    ask("192.0.2.1", CDL_ASK_TAKE); /* refused here: the store is only looked at */
    assert_int_equal(bed.store.calls[0]->questions[0].operation, CDL_PEEK);
    later_answer_all(&bed.store);
    assert_int_equal(cdl_inquiry_answer(bed.done[1])->kind, CDL_ANSWER_REFUSED);
    assert_int_equal(answer->binding, 1);
    assert_int_equal(left_of("all", NULL), 2);
}

static void what_is_counted_here_is_given_back_when_the_store_fails_closed(void **state)
{
    (void)state;
    apply("limits:\n  - {name: all, rate: 2/hour, on_store_failure: deny}\n  - " HERE "\n"
          "  - {name: window, rate: 8/hour fixed_window, sharing: local, local_share: 1/4}\n");
    for (int i = 0; i < 5; i++)
        assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_UNAVAILABLE);
    assert_int_equal(answer->binding, 0);
    assert_int_equal(left_of("here", "192.0.2.1"), 3);
    assert_int_equal(left_of("window", NULL), 2);
    assert_int_equal(failed("192.0.2.1", CDL_ASK_PEEK), CDL_ANSWER_UNAVAILABLE);
    assert_int_equal(left_of("here", "192.0.2.1"), 3);

    ask("192.0.2.1", CDL_ASK_TAKE);
    world_advance(&bed.world, HOUR); /* the window of the charge is over: nothing is given to the next one */
    later_fail_all(&bed.store);
    assert_int_equal(left_of("window", NULL), 2);

    apply("limits:\n  - {name: all, rate: 2/hour, on_store_failure: allow}\n  - " HERE "\n");
    assert_int_equal(failed("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(left_of("here", "192.0.2.1"), 2);
}

/* ---- leases ---- */

static void what_the_client_can_decide_is_answered_at_once(void **state)
{
    (void)state;
    apply("limits:\n  - " CLIENT "\n  - {name: s, rate: 9/hour, mode: shadow}\n");
    bed.store.can_decide = 2;
    assert_null(ask("192.0.2.1", CDL_ASK_TAKE));
    assert_int_equal(answer->overall.source, CAUDAL_SOURCE_LEASE);
    assert_int_equal(answer->overall.remaining, 2);
    assert_int_equal(answer->decisions[1].remaining, 8);
    assert_memory_equal(answer->plan.charges[0].key.bytes, "9:192.0.2.1,", 12);

    bed.store.can_decide = 1; /* the first stage, and not the second */
    assert_non_null(ask("192.0.2.1", CDL_ASK_TAKE));
    assert_false(bed.store.calls[0]->together);
    later_answer_all(&bed.store);
    cdl_inquiry_answer(bed.done[0]);
    assert_int_equal(answer->decisions[0].source, CAUDAL_SOURCE_LEASE);
    assert_int_equal(answer->decisions[0].remaining, 1);
    assert_int_equal(answer->decisions[1].source, CAUDAL_SOURCE_STORE);
    assert_int_equal(answer->decisions[1].remaining, 7);

    assert_non_null(ask("192.0.2.1", CDL_ASK_TAKE));
    bed.store.can_decide = 1; /* the second stage, and not the first */
    later_answer(&bed.store, 0);
    cdl_inquiry_answer(bed.done[1]);
    assert_int_equal(answer->decisions[0].source, CAUDAL_SOURCE_STORE);
    assert_int_equal(answer->decisions[1].remaining, 6);
}

static const struct caudal_lease *lease_of(const char *limit)
{
    uint32_t id = 0;
    assert_int_equal(caudal_find_limit(&bed.store.head, limit, &id), CAUDAL_OK);
    return &bed.store.leases[id & UINT16_MAX];
}

static void limits_are_leased_as_the_policy_says_also_after_a_reload(void **state)
{
    (void)state;
    apply("limits:\n  - {name: a, rate: 9/s, sharing: leased, lease: {ttl: 50ms, max_share: 1/4, strict_bound: true}}\n"
          "  - {name: b, rate: 9/s}\n  - {name: c, rate: 9/s sliding_log, sharing: leased}\n");
    assert_int_equal(lease_of("a")->ttl_ns, 50000000);
    assert_int_equal(lease_of("a")->share_per_mille, 250);
    assert_true(lease_of("a")->strict_bound);
    assert_int_equal(lease_of("b")->size, 0);
    assert_int_equal(lease_of("c")->size, 0);
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    apply("limits:\n  - {name: a, rate: 9/s}\n  - {name: b, rate: 9/s, sharing: leased}\n");
    assert_int_equal(lease_of("a")->size, 0);
    assert_int_equal(lease_of("b")->ttl_ns, 100000000);
    assert_int_equal(lease_of("b")->share_per_mille, 500);
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 7); /* what was spent stays spent */
    apply("limits:\n  - {name: a, rate: 9/s, sharing: local}\n  - {name: b, rate: 9/s}\n");
    assert_int_equal(lease_of("b")->size, 0);
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->decisions[0].remaining, 8);
    assert_int_equal(answer->decisions[1].remaining, 6);
    apply("limits:\n  - {name: a, rate: 9/s, sharing: leased}\n");
    assert_int_equal(answered("192.0.2.1", CDL_ASK_TAKE), CDL_ANSWER_ALLOWED);
    assert_int_equal(answer->overall.remaining, 6);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_comes_later_is_what_would_have_come_at_once),
        CASE(a_limit_for_everybody_ahead_of_one_for_each_leaves_each_its_key),
        CASE(all_enforced_limits_are_asked_together_and_those_in_shadow_afterwards),
        CASE(answers_come_in_any_order_each_to_its_own_question),
        CASE(what_no_limit_applies_to_is_answered_at_once),
        CASE(an_answer_can_be_kept),
        CASE(one_limit_by_its_name_is_asked_by_itself),
        CASE(each_limit_answers_as_it_chose),
        CASE(C48_a_local_share_is_this_instances_part),
        CASE(local_shares_are_all_or_nothing_too),
        CASE(one_that_fails_closed_keeps_the_others_from_spending),
        CASE(a_limit_in_shadow_falls_back_by_itself),
        CASE(what_is_asked_by_name_falls_back_too),
        CASE(looking_at_a_key_does_not_fall_back),
        CASE(more_than_may_wait_fall_back_at_once),
        CASE(a_question_that_waits_keeps_its_policy),
        CASE(local_shares_follow_a_reload),
        CASE(a_limit_that_is_counted_here_never_asks_the_store),
        CASE(what_is_counted_here_and_in_the_store_is_all_or_nothing),
        CASE(what_is_counted_here_is_given_back_when_the_store_fails_closed),
        CASE(what_the_client_can_decide_is_answered_at_once),
        CASE(limits_are_leased_as_the_policy_says_also_after_a_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
