/* From a request to its answer.
 *
 * A question goes through stages, each of which is one call of the store: ENFORCE, all limits that are enforced together; then SHADOW, those
 * in shadow mode each by itself, for they spend only what passes. What is given back, and what is asked by a limit's name, is one
 * stage, EACH. COUNT is the last: limits that count what is refused (`count_refused`) are drained by it, and tell what is left;
 * nothing that they answer then changes the verdict. collect() writes the questions of a stage, combine() makes what comes back part of the answer; neither knows
 * whether the store answered at once or later.
 *
 * Limits that are counted here (`sharing: local`) are asked at the beginning of their stage, by ask_here(): they answer at once, and what
 * they were charged can be given back, which a store that is elsewhere cannot promise. When one of them refuses, the store is only looked
 * at; when the store refuses, or fails closed, give_back_here() undoes the charges.
 *
 * At once, all of it lies on the stack and in the asker's `answer`. Later, an inquiry holds what must outlive the call, and no more:
 * the keys, out of the scratch, and as many questions and charges as there are. When its call comes back it is unpacked into the
 * asker's `answer`, which is anybody's between two calls, and goes on from there. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter.h"
#include "limiter/local_share.h"
#include "policy/calendar.h"
#include "policy/match_parts.h"

enum stage {
    STAGE_ENFORCE,
    STAGE_SHADOW,
    STAGE_EACH,
    STAGE_COUNT,
    STAGE_DONE,
};

/* The questions of one stage, as the store is asked, and whose they are. */
struct asked {
    struct caudal_request *requests;
    struct cdl_question *questions;
    struct caudal_decision *decisions;
    uint32_t *charges; /* which of the plan's */
    size_t count;
};

/* On the stack, for what is answered within the call. */
struct room {
    struct caudal_request requests[CDL_PLAN_MAX];
    struct cdl_question questions[CDL_PLAN_MAX];
    struct caudal_decision decisions[CDL_PLAN_MAX];
    uint32_t charges[CDL_PLAN_MAX];
};

_Static_assert(CDL_PLAN_MAX <= CAUDAL_TAKE_ALL_MAX, "a plan is one call");

static struct asked asked_in(struct room *room)
{
    return (struct asked){room->requests, room->questions, room->decisions, room->charges, 0};
}

/* One question alone is decided in one step; several that are all or nothing are looked at before they are charged. */
static struct cdl_call call_of(const struct asked *asked, bool together)
{
    return (struct cdl_call){.requests = asked->requests,
                             .questions = asked->questions,
                             .decisions = asked->decisions,
                             .count = asked->count,
                             .together = together && asked->count > 1};
}

/* ---- a stage's questions ---- */

static const struct cdl_limit_rule *rule_of(const struct cdl_answer *answer, uint32_t charge)
{
    return &answer->live->policy->limits[answer->plan.charges[charge].limit];
}

static const struct caudal_limit *limit_of_call(const struct cdl_charge *charge)
{
    return charge->per_call.size != 0 ? &charge->per_call : NULL;
}

static struct cdl_question question_of(enum cdl_ask ask, const struct cdl_charge *charge)
{
    struct cdl_question question = ask == CDL_ASK_TAKE ? cdl_question_take(charge->cost)
                                                       : cdl_question_peek(charge->cost);
    if (ask == CDL_ASK_REFUND)
        question = (struct cdl_question){.operation = CDL_REFUND, .maximum = charge->cost};
    question.limit = limit_of_call(charge);
    return question;
}

static enum stage first_stage(enum cdl_ask ask)
{
    return ask == CDL_ASK_REFUND ? STAGE_EACH : STAGE_ENFORCE;
}

static enum stage stage_after(enum stage stage)
{
    static const enum stage after[] = {[STAGE_ENFORCE] = STAGE_SHADOW,
                                       [STAGE_SHADOW] = STAGE_COUNT,
                                       [STAGE_EACH] = STAGE_COUNT,
                                       [STAGE_COUNT] = STAGE_DONE};
    return after[stage];
}

/* Whether a limit counts this request although it was refused, by itself or by another. */
static bool counts_refusal(const struct cdl_answer *answer, uint32_t charge)
{
    if (!rule_of(answer, charge)->count_refused)
        return false;
    const struct caudal_decision *decision = &answer->decisions[charge];
    return answer->kind == CDL_ANSWER_REFUSED || (decision->status == CAUDAL_OK && decision->verdict != CAUDAL_ALLOW);
}

static bool is_asked_in(const struct cdl_answer *answer, enum stage stage, uint32_t charge)
{
    if (stage == STAGE_EACH)
        return true;
    if (stage == STAGE_COUNT)
        return counts_refusal(answer, charge);
    return rule_of(answer, charge)->mode == (stage == STAGE_SHADOW ? CDL_MODE_SHADOW : CDL_MODE_ENFORCE);
}

static bool is_counted_here(const struct cdl_answer *answer, uint32_t charge)
{
    return rule_of(answer, charge)->sharing == CDL_SHARING_LOCAL;
}

/* The questions of a stage to those that are counted here, or to the store. A request that is refused already only looks. False: there
 * are none. */
static bool collect_from(const struct cdl_answer *answer, enum cdl_ask ask, enum stage stage, bool here,
                         struct asked *asked)
{
    const uint32_t *rates = here ? answer->live->local_rates : answer->live->rates;
    asked->count = 0;
    if (stage == STAGE_COUNT && ask != CDL_ASK_TAKE)
        return false;
    if (stage < STAGE_EACH && answer->kind != CDL_ANSWER_ALLOWED)
        ask = CDL_ASK_PEEK;
    for (uint32_t i = 0; i < answer->plan.count; i++) {
        const struct cdl_charge *charge = &answer->plan.charges[i];
        if (!is_asked_in(answer, stage, i) || is_counted_here(answer, i) != here)
            continue;
        asked->requests[asked->count] = (struct caudal_request){rates[charge->rate], charge->key.bytes,
                                                                charge->key.length, charge->cost};
        asked->questions[asked->count] = question_of(ask, charge);
        if (stage == STAGE_COUNT)
            asked->questions[asked->count].minimum = 0;
        asked->charges[asked->count++] = i;
    }
    return asked->count > 0;
}

/* ---- when the store could not say ---- */

struct caudal_decision cdl_limiter_on_failure(const struct cdl_limit_rule *limit, int status)
{
    /* Nobody has counted: there are no numbers, and nothing is said about a wait. */
    struct caudal_decision decision = {.status = status, .source = CAUDAL_SOURCE_FAILURE_POLICY};
    switch (limit->on_store_failure) {
    case CDL_FAILURE_ALLOW:
        decision.status = CAUDAL_OK;
        decision.verdict = CAUDAL_ALLOW;
        decision.capacity = decision.remaining = decision.error_bound = UINT64_MAX;
        decision.reset_after_ns = -1;
        break;
    case CDL_FAILURE_DENY:
        break;
    case CDL_FAILURE_LOCAL:
        decision.source = CAUDAL_SOURCE_LOCAL_SHARE;
        break;
    }
    return decision;
}

struct caudal_limit cdl_answer_limit(const struct cdl_answer *answer, const struct cdl_charge *charge,
                                     const struct caudal_decision *decision)
{
    const struct cdl_policy *policy = answer->live->policy;
    const struct caudal_limit *limit = limit_of_call(charge);
    if (limit == NULL)
        limit = &policy->rates[charge->rate].limit;
    if (decision->source != CAUDAL_SOURCE_LOCAL_SHARE)
        return *limit;
    return cdl_local_limit(limit, cdl_local_ratio(policy, &policy->limits[charge->limit]));
}

static bool wants_local(const struct caudal_decision *decision)
{
    return decision->status != CAUDAL_OK && decision->source == CAUDAL_SOURCE_LOCAL_SHARE;
}

/* Asks this instance's share of the limits that want it, as the store was asked. */
static void ask_local(const struct cdl_answer *answer, struct asked *asked, bool together)
{
    struct room room;
    struct caudal_limit shares[CDL_PLAN_MAX]; /* of limits that come with the call */
    struct asked local = asked_in(&room);
    for (uint32_t i = 0; i < asked->count; i++) {
        const struct cdl_charge *charge = &answer->plan.charges[asked->charges[i]];
        if (!wants_local(&asked->decisions[i]))
            continue;
        local.requests[local.count] = asked->requests[i];
        local.requests[local.count].limit = answer->live->local_rates[charge->rate];
        local.questions[local.count] = asked->questions[i];
        if (limit_of_call(charge) != NULL) {
            shares[local.count] = cdl_answer_limit(answer, charge, &asked->decisions[i]);
            local.questions[local.count].limit = &shares[local.count];
        }
        local.charges[local.count++] = i;
    }
    if (local.count == 0)
        return;
    struct cdl_call call = call_of(&local, together);
    cdl_store_ask(answer->live->local, NULL, &call);
    for (size_t i = 0; i < local.count; i++) {
        local.decisions[i].source = CAUDAL_SOURCE_LOCAL_SHARE;
        asked->decisions[local.charges[i]] = local.decisions[i];
    }
}

/* A limit that came with the call and that the store cannot count by, or two of them for one key: the store is well. */
static bool is_callers_fault(int status)
{
    return status == CAUDAL_ERR_LIMIT || status == CAUDAL_ERR_ARGUMENT;
}

/* Every limit whose decision failed answers as it chose to. One of several that were asked together and fails closed closes the whole:
 * nothing is spent then from the shares of the others. */
static void fall_back(const struct cdl_answer *answer, struct asked *asked, bool together)
{
    bool closed = answer->live->local == NULL;
    for (size_t i = 0; i < asked->count; i++) {
        struct caudal_decision *decision = &asked->decisions[i];
        if (decision->status == CAUDAL_OK)
            continue;
        if (is_callers_fault(decision->status)) { /* nothing is chosen for that */
            closed |= together;
            continue;
        }
        *decision = cdl_limiter_on_failure(rule_of(answer, asked->charges[i]), decision->status);
        closed |= together && decision->status != CAUDAL_OK && !wants_local(decision);
    }
    if (!closed)
        ask_local(answer, asked, together);
    for (size_t i = 0; i < asked->count; i++)
        if (asked->decisions[i].status != CAUDAL_OK)
            asked->decisions[i].source = CAUDAL_SOURCE_FAILURE_POLICY;
}

/* ---- a stage's answers ---- */

/* The first of those without a verdict, of such as chose that themselves if there is one; `count`: all have one. */
static size_t first_closed(const struct cdl_answer *answer, const struct asked *asked)
{
    size_t first = asked->count;
    for (size_t i = 0; i < asked->count; i++) {
        if (asked->decisions[i].status == CAUDAL_OK)
            continue;
        if (rule_of(answer, asked->charges[i])->on_store_failure == CDL_FAILURE_DENY)
            return i;
        first = first == asked->count ? i : first;
    }
    return first;
}

/* One of the limits that were asked speaks for all. */
static void let_speak(struct cdl_answer *answer, const struct asked *asked)
{
    size_t speaker = first_closed(answer, asked);
    if (asked->count == 0)
        return;
    if (speaker == asked->count)
        speaker = cdl_binding(asked->decisions, asked->count);
    answer->overall = asked->decisions[speaker];
    answer->overall.binding = (uint32_t)speaker;
    answer->binding = asked->charges[speaker];
    if (answer->overall.status != CAUDAL_OK)
        answer->kind = CDL_ANSWER_UNAVAILABLE;
    else if (answer->overall.verdict != CAUDAL_ALLOW)
        answer->kind = CDL_ANSWER_REFUSED;
    else if (answer->overall.source == CAUDAL_SOURCE_FAILURE_POLICY)
        answer->binding = CDL_NONE; /* no limit has anything to tell */
}

/* Gathers what the limits of a stage decided, of those that have a say in what the request is told. */
static void gather(const struct cdl_answer *answer, enum stage stage, struct asked *asked)
{
    for (uint32_t i = 0; i < answer->plan.count; i++) {
        const bool enforced = rule_of(answer, i)->mode == CDL_MODE_ENFORCE;
        if (!is_asked_in(answer, stage, i) || (stage == STAGE_EACH && !answer->named && !enforced))
            continue;
        asked->decisions[asked->count] = answer->decisions[i];
        asked->charges[asked->count++] = i;
    }
}

static void judge(struct cdl_answer *answer, enum stage stage)
{
    struct room room;
    struct asked asked = asked_in(&room);
    if (stage == STAGE_COUNT)
        return;
    gather(answer, stage, &asked);
    if (stage != STAGE_SHADOW) {
        let_speak(answer, &asked);
        return;
    }
    for (size_t i = 0; i < asked.count; i++)
        answer->shadow_refusals += asked.decisions[i].status == CAUDAL_OK && asked.decisions[i].verdict != CAUDAL_ALLOW;
}

/* A store counts a calendar's window under a key of its own, by a longer window: when it ends is known here. */
static void tell_end(const struct cdl_live_policy *live, const struct cdl_charge *charge,
                     struct caudal_decision *decision)
{
    const struct caudal_clock *clock = live->store->clock;
    if (charge->ends_at_ns == 0 || decision->status != CAUDAL_OK || decision->reset_after_ns <= 0)
        return;
    const int64_t left_ns = cdl_max_i64(charge->ends_at_ns - clock->realtime_ns(clock->context), 0);
    decision->reset_after_ns = left_ns;
    if (decision->verdict == CAUDAL_DENY)
        decision->retry_after_ns = left_ns;
}

static void keep_decisions(struct cdl_answer *answer, const struct asked *asked)
{
    for (size_t i = 0; i < asked->count; i++) {
        const uint32_t charge = asked->charges[i];
        answer->decisions[charge] = asked->decisions[i];
        tell_end(answer->live, &answer->plan.charges[charge], &answer->decisions[charge]);
    }
}

/* Whether what was to be taken is only looked at: the request is refused already. */
static bool only_looks(const struct cdl_answer *answer, enum cdl_ask ask, enum stage stage)
{
    return ask == CDL_ASK_TAKE && stage < STAGE_EACH && answer->kind != CDL_ANSWER_ALLOWED;
}

/* A look tells what would be left; limits tell what they hold, for nothing is spent. Of several that were looked at together and of
 * which one refuses, the store tells that itself. */
static void unspend(const struct cdl_answer *answer, struct asked *asked, bool together)
{
    bool refuse = false;
    for (size_t i = 0; i < asked->count; i++)
        refuse |= asked->decisions[i].status == CAUDAL_OK && asked->decisions[i].verdict != CAUDAL_ALLOW;
    for (size_t i = 0; i < asked->count && !(together && refuse); i++) {
        struct caudal_decision *decision = &asked->decisions[i];
        const uint64_t cost = answer->plan.charges[asked->charges[i]].cost;
        if (decision->status != CAUDAL_OK || decision->verdict != CAUDAL_ALLOW)
            continue;
        decision->remaining = cost > UINT64_MAX - decision->remaining ? UINT64_MAX : decision->remaining + cost;
        decision->remaining = cdl_min_u64(decision->remaining, decision->capacity);
    }
}

/* What limits hold after they have counted a refusal. One that could not be asked has not counted it, which nobody needs to be told. */
static void keep_counted(struct cdl_answer *answer, const struct asked *asked)
{
    for (size_t i = 0; i < asked->count; i++) {
        struct caudal_decision *counted = &asked->decisions[i];
        struct caudal_decision *decision = &answer->decisions[asked->charges[i]];
        tell_end(answer->live, &answer->plan.charges[asked->charges[i]], counted);
        if (counted->status != CAUDAL_OK || decision->status != CAUDAL_OK)
            continue;
        decision->remaining = counted->remaining;
        decision->reset_after_ns = counted->reset_after_ns;
        if (asked->charges[i] != answer->binding)
            continue;
        answer->overall.remaining = counted->remaining;
        answer->overall.reset_after_ns = counted->reset_after_ns;
    }
}

/* ---- what is counted here ---- */

/* Asks the limits of a stage that are counted here. When one of those that are enforced refuses, the request is refused. */
static void ask_here(struct cdl_answer *answer, enum cdl_ask ask, enum stage stage)
{
    struct caudal_store *here = answer->live->local;
    struct room room;
    struct asked asked = asked_in(&room);
    if (here == NULL || !collect_from(answer, ask, stage, true, &asked))
        return;
    const bool looked = only_looks(answer, ask, stage);
    answer->taken = cdl_instant_read(here->clock);
    cdl_instant_monotonic(&answer->taken);
    cdl_instant_realtime(&answer->taken);
    struct cdl_call call = call_of(&asked, stage == STAGE_ENFORCE);
    cdl_store_ask(here, NULL, &call);
    if (stage == STAGE_COUNT) {
        keep_counted(answer, &asked);
        return;
    }
    for (size_t i = 0; i < asked.count; i++) {
        asked.decisions[i].source = CAUDAL_SOURCE_LOCAL_SHARE;
        if (stage == STAGE_ENFORCE &&
            (asked.decisions[i].status != CAUDAL_OK || asked.decisions[i].verdict != CAUDAL_ALLOW))
            answer->kind = CDL_ANSWER_REFUSED;
    }
    if (looked)
        unspend(answer, &asked, stage == STAGE_ENFORCE);
    keep_decisions(answer, &asked);
}

/* What gives one charge back. A bucket gets all of it: CDL_UNDO would keep what was refilled while the store was asked, and requests that
 * the store refuses would use the limit up. What is gained that way, if others take meanwhile, is at most that refill, once. Windows and
 * logs are not refilled but expire, and what has expired must not be given back to another window. */
static struct cdl_question question_of_undoing(const struct cdl_answer *answer, const struct cdl_charge *charge)
{
    const bool is_bucket = answer->live->policy->rates[charge->rate].limit.algorithm == CAUDAL_TOKEN_BUCKET;
    return (struct cdl_question){.operation = is_bucket ? CDL_REFUND : CDL_UNDO,
                                 .maximum = charge->cost,
                                 .charged_monotonic_ns = answer->taken.monotonic_ns,
                                 .charged_realtime_ns = answer->taken.realtime_ns,
                                 .limit = limit_of_call(charge)};
}

/* Undoes what ask_here charged to enforced limits, for the store has refused or failed; they tell what they hold. */
static void give_back_here(struct cdl_answer *answer)
{
    struct room room;
    struct asked asked = asked_in(&room);
    if (answer->live->local == NULL || !collect_from(answer, CDL_ASK_TAKE, STAGE_ENFORCE, true, &asked))
        return;
    for (size_t i = 0; i < asked.count; i++)
        asked.questions[i] = question_of_undoing(answer, &answer->plan.charges[asked.charges[i]]);
    struct cdl_call call = call_of(&asked, false);
    cdl_store_ask(answer->live->local, NULL, &call);
    for (size_t i = 0; i < asked.count; i++)
        asked.decisions[i].source = CAUDAL_SOURCE_LOCAL_SHARE;
    keep_decisions(answer, &asked);
}

/* ---- a stage, begun and ended ---- */

/* False: there is nothing to ask the store in this stage, and it is over. */
static bool collect(struct cdl_answer *answer, enum cdl_ask ask, enum stage stage, struct asked *asked)
{
    ask_here(answer, ask, stage);
    if (collect_from(answer, ask, stage, false, asked))
        return true;
    judge(answer, stage);
    return false;
}

static void combine(struct cdl_answer *answer, enum cdl_ask ask, enum stage stage, struct asked *asked, int status)
{
    const bool charged = ask == CDL_ASK_TAKE && stage == STAGE_ENFORCE && answer->kind == CDL_ANSWER_ALLOWED;
    const bool looked = only_looks(answer, ask, stage);
    if (stage == STAGE_COUNT) {
        keep_counted(answer, asked);
        return;
    }
    if (status != CAUDAL_OK)
        fall_back(answer, asked, stage == STAGE_ENFORCE);
    if (looked)
        unspend(answer, asked, stage == STAGE_ENFORCE);
    keep_decisions(answer, asked);
    judge(answer, stage);
    if (!charged || answer->kind == CDL_ANSWER_ALLOWED)
        return;
    give_back_here(answer);
}

/* ---- at once ---- */

static void fail_call(struct cdl_call *call)
{
    call->status = CAUDAL_ERR_STORE;
    for (size_t i = 0; i < call->count; i++)
        call->decisions[i] = (struct caudal_decision){.status = CAUDAL_ERR_STORE};
}

/* Asks the store, if it can answer now: from what the client holds, or within the call. With `away` it fails. */
static bool ask_now(struct cdl_asker *asker, struct cdl_call *call, bool away)
{
    if (away || asker->closed)
        fail_call(call);
    else if (asker->client != NULL)
        return cdl_store_client_try(asker->client, call);
    else
        cdl_store_ask(asker->answer.live->store, NULL, call);
    return true;
}

/* Asks the stages that are left, the first of which may have begun, until the store has to be waited for: false, in that stage. */
static bool go_through(struct cdl_asker *asker, enum cdl_ask ask, enum stage *stage, bool begun, bool away)
{
    struct room room;
    struct asked asked = asked_in(&room);
    for (; *stage != STAGE_DONE; *stage = stage_after(*stage), begun = false) {
        if (begun)
            collect_from(&asker->answer, ask, *stage, false, &asked);
        else if (!collect(&asker->answer, ask, *stage, &asked))
            continue;
        struct cdl_call call = call_of(&asked, *stage == STAGE_ENFORCE);
        if (!ask_now(asker, &call, away))
            return false;
        combine(&asker->answer, ask, *stage, &asked, call.status);
    }
    return true;
}

/* Asks what most requests come to: one limit, enforced in a store that answers within the call. Its stages have nothing else to say.
 * False: it is not that, and nothing was asked. */
static bool ask_single(struct cdl_asker *asker, enum cdl_ask ask)
{
    struct cdl_answer *answer = &asker->answer;
    const struct cdl_charge *charge = &answer->plan.charges[0];
    if (answer->plan.count != 1 || ask == CDL_ASK_REFUND || asker->client != NULL || asker->closed)
        return false;
    const struct cdl_limit_rule *rule = rule_of(answer, 0);
    if (rule->mode != CDL_MODE_ENFORCE || rule->count_refused || is_counted_here(answer, 0))
        return false;
    struct caudal_request request = {answer->live->rates[charge->rate], charge->key.bytes, charge->key.length,
                                     charge->cost};
    struct cdl_question question = question_of(ask, charge);
    uint32_t index = 0;
    struct asked asked = {&request, &question, &answer->decisions[0], &index, 1};
    struct cdl_call call = call_of(&asked, true);
    cdl_store_ask(answer->live->store, NULL, &call);
    if (call.status != CAUDAL_OK)
        fall_back(answer, &asked, true);
    tell_end(answer->live, charge, &answer->decisions[0]);
    let_speak(answer, &asked);
    return true;
}

/* ---- later ---- */

struct cdl_inquiry {
    void (*done)(struct cdl_inquiry *inquiry, void *context);
    void *context;
    struct cdl_asker *asker;
    struct cdl_live_policy *live;
    enum cdl_ask ask;
    enum stage stage;
    int64_t deadline_ns;
    struct cdl_call call;
    struct asked asked;
    /* The answer so far: all that comes before its arrays, and these as far as they are filled. */
    unsigned char answer_head[offsetof(struct cdl_answer, decisions)];
    unsigned char plan_head[offsetof(struct cdl_plan, charges)];
    size_t count;
    struct caudal_decision *decisions;
    struct cdl_charge *charges;
    _Alignas(16) char memory[];
};

static void pack(struct cdl_inquiry *inquiry)
{
    const struct cdl_answer *answer = &inquiry->asker->answer;
    memcpy(inquiry->answer_head, answer, sizeof inquiry->answer_head);
    memcpy(inquiry->plan_head, &answer->plan, sizeof inquiry->plan_head);
    memcpy(inquiry->decisions, answer->decisions, inquiry->count * sizeof *inquiry->decisions);
}

static void unpack(const struct cdl_inquiry *inquiry)
{
    struct cdl_answer *answer = &inquiry->asker->answer;
    memcpy(answer, inquiry->answer_head, sizeof inquiry->answer_head);
    memcpy(&answer->plan, inquiry->plan_head, sizeof inquiry->plan_head);
    memcpy(answer->decisions, inquiry->decisions, inquiry->count * sizeof *inquiry->decisions);
    memcpy(answer->plan.charges, inquiry->charges, inquiry->count * sizeof *inquiry->charges);
}

/* Limits that count by the same identities share one key; so do their copies. A key that is empty lies where the next one begins. */
static size_t twin_of(const struct cdl_charge *charges, size_t index)
{
    const struct cdl_slice key = charges[index].key;
    size_t twin = 0;
    while (charges[twin].key.bytes != key.bytes || charges[twin].key.length != key.length)
        twin++;
    return twin;
}

static size_t key_bytes(const struct cdl_plan *plan)
{
    size_t sum = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (twin_of(plan->charges, i) == i)
            sum += plan->charges[i].key.length;
    return sum;
}

/* The charges, with their keys at `at`. */
static void copy_charges(struct cdl_inquiry *inquiry, const struct cdl_plan *plan, char *at)
{
    for (size_t i = 0; i < plan->count; i++) {
        const size_t twin = twin_of(plan->charges, i);
        struct cdl_charge *charge = &inquiry->charges[i];
        *charge = plan->charges[i];
        if (twin != i) {
            charge->key = inquiry->charges[twin].key;
            continue;
        }
        if (charge->key.length > 0)
            memcpy(at, charge->key.bytes, charge->key.length);
        charge->key.bytes = at;
        at += charge->key.length;
    }
}

/* The next piece of an inquiry's memory. All but the last, which is bytes, are of a size that keeps the others aligned. */
static void *carve(char **at, size_t bytes)
{
    void *piece = *at;
    *at += bytes;
    return piece;
}

/* An inquiry of what the asker's answer holds. */
static struct cdl_inquiry *new_inquiry(struct cdl_asker *asker, enum cdl_ask ask, enum stage stage)
{
    const struct cdl_plan *plan = &asker->answer.plan;
    const size_t n = plan->count;
    const size_t each = sizeof(struct caudal_request) + sizeof(struct cdl_question) +
                        2 * sizeof(struct caudal_decision) + sizeof(struct cdl_charge) + sizeof(uint32_t);
    struct cdl_inquiry *inquiry = malloc(sizeof *inquiry + n * each + key_bytes(plan));
    if (inquiry == NULL)
        return NULL;
    char *at = inquiry->memory;
    *inquiry = (struct cdl_inquiry){.asker = asker,
                                    .live = asker->answer.live,
                                    .ask = ask,
                                    .stage = stage,
                                    .deadline_ns = asker->deadline_ns,
                                    .count = n};
    inquiry->asked.requests = carve(&at, n * sizeof *inquiry->asked.requests);
    inquiry->asked.questions = carve(&at, n * sizeof *inquiry->asked.questions);
    inquiry->asked.decisions = carve(&at, n * sizeof *inquiry->asked.decisions);
    inquiry->decisions = carve(&at, n * sizeof *inquiry->decisions);
    inquiry->charges = carve(&at, n * sizeof *inquiry->charges);
    inquiry->asked.charges = carve(&at, n * sizeof *inquiry->asked.charges);
    copy_charges(inquiry, plan, at);
    pack(inquiry);
    /* Whoever asks holds the policy already. */
    atomic_fetch_add_explicit(&inquiry->live->users, 1, memory_order_relaxed);
    return inquiry;
}

static void on_answered(struct cdl_call *call);

/* Asks the client what has been collected. True: it is answered. */
static bool ask_client(struct cdl_inquiry *inquiry)
{
    struct cdl_asker *asker = inquiry->asker;
    struct asked *asked = &inquiry->asked;
    for (size_t i = 0; i < asked->count; i++) {
        const struct cdl_charge *charge = &inquiry->charges[asked->charges[i]];
        asked->requests[i].key = charge->key.bytes; /* not the scratch's */
        asked->questions[i].limit = limit_of_call(charge);
    }
    pack(inquiry);
    inquiry->call = call_of(asked, inquiry->stage == STAGE_ENFORCE);
    inquiry->call.deadline_ns = inquiry->deadline_ns;
    inquiry->call.done = on_answered;
    inquiry->call.context = inquiry;
    if (!asker->closed)
        return cdl_store_ask(inquiry->live->store, asker->client, &inquiry->call);
    fail_call(&inquiry->call);
    return true;
}

/* Asks the stages that are left until one waits. True: none is left. The answer so far is unpacked. */
static bool go_on(struct cdl_inquiry *inquiry)
{
    struct cdl_answer *answer = &inquiry->asker->answer;
    for (; inquiry->stage != STAGE_DONE; inquiry->stage = stage_after(inquiry->stage)) {
        if (!collect(answer, inquiry->ask, inquiry->stage, &inquiry->asked))
            continue;
        if (!ask_client(inquiry))
            return false;
        combine(answer, inquiry->ask, inquiry->stage, &inquiry->asked, inquiry->call.status);
    }
    pack(inquiry);
    return true;
}

static void on_answered(struct cdl_call *call)
{
    struct cdl_inquiry *inquiry = call->context;
    unpack(inquiry);
    combine(&inquiry->asker->answer, inquiry->ask, inquiry->stage, &inquiry->asked, call->status);
    inquiry->stage = stage_after(inquiry->stage);
    if (!go_on(inquiry))
        return;
    inquiry->asker->waiting--;
    inquiry->done(inquiry, inquiry->context);
}

void cdl_inquiry_await(struct cdl_inquiry *inquiry, void (*done)(struct cdl_inquiry *inquiry, void *context),
                       void *context)
{
    inquiry->done = done;
    inquiry->context = context;
}

const struct cdl_answer *cdl_inquiry_answer(struct cdl_inquiry *inquiry)
{
    unpack(inquiry);
    return &inquiry->asker->answer;
}

void cdl_inquiry_free(struct cdl_inquiry *inquiry)
{
    if (inquiry == NULL)
        return;
    cdl_limiter_release(inquiry->live);
    free(inquiry);
}

struct cdl_inquiry *cdl_inquiry_keep(struct cdl_asker *asker)
{
    return new_inquiry(asker, CDL_ASK_PEEK, STAGE_DONE);
}

/* Asks the charges of the asker's answer. Only what has to wait costs an inquiry. */
static struct cdl_inquiry *begin(struct cdl_asker *asker, enum cdl_ask ask, enum stage stage)
{
    struct cdl_answer *answer = &asker->answer;
    if (ask_single(asker, ask))
        return NULL;
    while (!go_through(asker, ask, &stage, false, false)) {
        struct cdl_inquiry *inquiry = asker->waiting < CDL_WAITING_MAX ? new_inquiry(asker, ask, stage) : NULL;
        if (inquiry == NULL) {
            go_through(asker, ask, &stage, true, true);
            return NULL;
        }
        collect_from(answer, ask, stage, false, &inquiry->asked);
        if (!ask_client(inquiry)) {
            asker->waiting++;
            return inquiry;
        }
        combine(answer, ask, stage, &inquiry->asked, inquiry->call.status);
        cdl_inquiry_free(inquiry);
        stage = stage_after(stage);
    }
    return NULL;
}

/* ---- a request ---- */

static void clear_answer(struct cdl_live_policy *live, struct cdl_answer *answer)
{
    answer->live = live;
    answer->kind = CDL_ANSWER_ALLOWED;
    answer->named = false;
    answer->binding = CDL_NONE;
    answer->shadow_refusals = 0;
    answer->overall = (struct caudal_decision){
        .verdict = CAUDAL_ALLOW, .capacity = UINT64_MAX, .remaining = UINT64_MAX}; /* unless a limit says otherwise */
}

void cdl_limiter_match(struct cdl_asker *asker, struct cdl_live_policy *live, const struct cdl_request *request,
                       uint64_t cost)
{
    clear_answer(live, &asker->answer);
    cdl_policy_match(live->policy, request, cost, asker->scratch, CDL_MATCH_SCRATCH_BYTES, &asker->answer.plan);
}

struct cdl_inquiry *cdl_limiter_ask_matched(struct cdl_asker *asker, enum cdl_ask ask)
{
    struct cdl_answer *answer = &asker->answer;
    if (answer->plan.outcome == CDL_OUTCOME_LIMITED) {
        if (ask != CDL_ASK_REFUND)
            answer->shadow_refusals = answer->plan.shadow_refusals;
        return begin(asker, ask, first_stage(ask));
    }
    if (answer->plan.outcome != CDL_OUTCOME_EXEMPT) {
        answer->kind = CDL_ANSWER_REFUSED;
        answer->overall = (struct caudal_decision){.verdict = CAUDAL_NEVER, .retry_after_ns = -1};
        answer->plan.count = 0; /* nobody was asked */
    }
    return NULL;
}

struct cdl_inquiry *cdl_limiter_ask(struct cdl_asker *asker, struct cdl_live_policy *live,
                                    const struct cdl_request *request, enum cdl_ask ask, uint64_t cost)
{
    cdl_limiter_match(asker, live, request, cost);
    return cdl_limiter_ask_matched(asker, ask);
}

struct cdl_inquiry *cdl_limiter_ask_plan(struct cdl_asker *asker, struct cdl_live_policy *live, enum cdl_ask ask)
{
    clear_answer(live, &asker->answer);
    return begin(asker, ask, first_stage(ask));
}

/* ---- by name ---- */

/* What the values would be in a request that has them, in their one spelling: an address grouped, a path normalised. A value that no
 * attribute can stand for (a template's) is taken as it is. */
static void spell_values(struct cdl_view *view, const struct cdl_limit_rule *limit, const struct cdl_slice *given,
                         struct cdl_slice values[CDL_PER_MAX])
{
    for (uint32_t i = 0; i < limit->per_count; i++) {
        size_t cursor = 0;
        if (!cdl_view_next(view, &limit->per[i], &cursor, &values[i]))
            values[i] = given[i];
    }
}

static int check_named(const struct cdl_policy *policy, const struct cdl_named_key *key)
{
    if (key->limit == CDL_NONE)
        return CAUDAL_ERR_UNKNOWN;
    for (size_t i = 0; i < key->value_count; i++)
        if (key->values[i].length == 0)
            return CAUDAL_ERR_ARGUMENT; /* it would be one bucket for all who have none */
    return key->value_count == policy->limits[key->limit].per_count ? CAUDAL_OK : CAUDAL_ERR_ARGUMENT;
}

/* The charge that a request with these values would get; its key lies in the scratch. Codes as cdl_limiter_ask_named. */
static int charge_named(const struct cdl_live_policy *live, const struct cdl_named_key *key, uint64_t cost,
                        char *scratch, struct cdl_charge *charge)
{
    const struct cdl_policy *policy = live->policy;
    const struct caudal_clock *clock = live->store->clock;
    int status = check_named(policy, key);
    if (status != CAUDAL_OK)
        return status;
    const struct cdl_limit_rule *limit = &policy->limits[key->limit];
    struct cdl_field attributes[CDL_PER_MAX];
    for (uint32_t i = 0; i < limit->per_count; i++)
        attributes[i] = (struct cdl_field){limit->per[i].text, key->values[i]};
    const struct cdl_request request = {.attributes = attributes, .attribute_count = limit->per_count};
    struct cdl_writer writer = cdl_writer_on(scratch, CDL_MATCH_SCRATCH_BYTES);
    struct cdl_view view;
    cdl_view_open(&view, policy, &request, &writer);
    struct cdl_slice values[CDL_PER_MAX];
    spell_values(&view, limit, key->values, values);
    const uint32_t override = cdl_limit_override(&view, limit, values);
    char *bytes = scratch + writer.length;
    size_t length;
    if (writer.overflow ||
        cdl_policy_key(values, limit->per_count, bytes, CDL_MATCH_SCRATCH_BYTES - writer.length, &length) != CAUDAL_OK)
        return CAUDAL_ERR_KEY;
    *charge = (struct cdl_charge){
        .limit = key->limit,
        .override = override,
        .rate = override == CDL_NONE ? limit->rate : limit->overrides[override].rate,
        .key = {bytes, length},
        .cost = cost,
    };
    writer.length += length;
    if (limit->calendar != NULL &&
        !cdl_calendar_charge(limit->calendar, clock->realtime_ns(clock->context), &writer, charge))
        return CAUDAL_ERR_KEY;
    return CAUDAL_OK;
}

struct cdl_inquiry *cdl_limiter_ask_named(struct cdl_asker *asker, struct cdl_live_policy *live,
                                          const struct cdl_named_key *key, enum cdl_ask ask, uint64_t cost)
{
    struct cdl_answer *answer = &asker->answer;
    struct cdl_plan *plan = &answer->plan;
    clear_answer(live, answer);
    answer->named = true;
    plan->outcome = CDL_OUTCOME_LIMITED;
    plan->exemption = plan->limit = plan->identity = CDL_NONE;
    plan->shadow_refusals = 0;
    const int status = charge_named(live, key, cost, asker->scratch, &plan->charges[0]);
    plan->count = status == CAUDAL_OK;
    if (status == CAUDAL_OK)
        return begin(asker, ask, STAGE_EACH);
    answer->kind = CDL_ANSWER_UNAVAILABLE;
    answer->overall = (struct caudal_decision){.status = status};
    return NULL;
}

static int look_at(struct caudal_store *store, uint32_t rate, const struct cdl_charge *charge,
                   struct caudal_decision *decision)
{
    const struct caudal_request request = {rate, charge->key.bytes, charge->key.length, 0};
    const struct cdl_question question = question_of(CDL_ASK_PEEK, charge);
    struct cdl_instant now = cdl_instant_read(store->clock);
    *decision = (struct caudal_decision){.status = CAUDAL_OK};
    return store->ops->decide(store, &request, &question, &now, decision);
}

int cdl_limiter_inspect(const struct cdl_live_policy *live, const struct cdl_named_key *key, bool forget, char *scratch,
                        struct caudal_decision *decision)
{
    struct cdl_charge charge;
    int status = charge_named(live, key, 0, scratch, &charge);
    const bool here = status == CAUDAL_OK && live->policy->limits[charge.limit].sharing == CDL_SHARING_LOCAL;
    struct caudal_store *store = here ? live->local : live->store;
    const uint32_t *rates = here ? live->local_rates : live->rates;
    if (status == CAUDAL_OK && forget)
        status = caudal_reset(store, rates[charge.rate], charge.key.bytes, charge.key.length);
    if (status == CAUDAL_OK)
        status = look_at(store, rates[charge.rate], &charge, decision);
    if (status == CAUDAL_OK && here)
        decision->source = CAUDAL_SOURCE_LOCAL_SHARE;
    if (status == CAUDAL_OK) {
        tell_end(live, &charge, decision);
        return status;
    }
    *decision = (struct caudal_decision){.status = status};
    return status;
}
