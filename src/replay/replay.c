#include "replay/replay_parts.h"

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"
#include "base/problem.h"
#include "identity/key_parts.h"

/* ---- keys for people ---- */

static bool may_be_secret(enum cdl_identity_kind kind)
{
    return kind == CDL_IDENTITY_HEADER || kind == CDL_IDENTITY_COOKIE || kind == CDL_IDENTITY_QUERY;
}

static void show_part(struct cdl_slice part, bool plain, struct cdl_writer *writer)
{
    char digits[16];
    if (plain) {
        cdl_write(writer, part);
        return;
    }
    snprintf(digits, sizeof digits, "~%08x", (unsigned)XXH3_64bits(part.bytes, part.length));
    cdl_write(writer, cdl_slice_head(part, part.length < 8 ? 0 : 4));
    cdl_write_text(writer, digits);
}

void cdl_replay_show_key(const struct cdl_policy *policy, uint32_t limit, struct cdl_slice key,
                         struct cdl_writer *writer)
{
    const struct cdl_limit_rule *rule = &policy->limits[limit];
    struct cdl_slice part;
    for (uint32_t i = 0; cdl_key_next_part(&key, &part); i++) {
        const bool is_plain = policy->log.identities == CDL_IDENTITIES_PLAIN || i >= rule->per_count ||
                              !may_be_secret(rule->per[i].kind);
        if (i > 0)
            cdl_write_text(writer, "|");
        show_part(part, is_plain, writer);
    }
}

void cdl_replay_write_key(const struct cdl_replay *replay, const struct cdl_charge *charge, struct cdl_writer *writer)
{
    cdl_replay_show_key(replay->live->policy, charge->limit, charge->key, writer);
}

/* ---- time ---- */

/* Seconds are counted into the histogram as they pass, those without requests too. */
static void leave_second(struct cdl_replay_seconds *seconds, uint64_t empty)
{
    cdl_histogram_record(&seconds->histogram, (int64_t)seconds->last);
    cdl_histogram_record_many(&seconds->histogram, 0, empty);
    if (seconds->last > seconds->most)
        seconds->most = seconds->last;
    seconds->last = 0;
}

static void enter_second(struct cdl_replay *replay, int64_t second)
{
    const uint64_t empty = (uint64_t)second - (uint64_t)replay->second - 1;
    leave_second(&replay->offered_seconds, empty);
    leave_second(&replay->admitted_seconds, empty);
    replay->second = second;
}

static void begin(struct cdl_replay *replay, int64_t at_ns)
{
    replay->has_begun = true;
    replay->begin_ns = replay->now_ns = at_ns;
    replay->second = (int64_t)cdl_floor_div(at_ns, CDL_NS_PER_S);
    cdl_steps_begin(&replay->steps, at_ns);
}

/* The request's instant, at which the limiter is asked: its stamp, but time does not go back. */
static void set_time(struct cdl_replay *replay, int64_t at_ns)
{
    if (!replay->has_begun)
        begin(replay, at_ns);
    if (at_ns > replay->now_ns)
        replay->now_ns = at_ns;
    caudal_fake_clock_set(replay->clock, replay->now_ns);
    const int64_t second = (int64_t)cdl_floor_div(replay->now_ns, CDL_NS_PER_S);
    if (second != replay->second)
        enter_second(replay, second);
}

static size_t reach_step(struct cdl_replay *replay)
{
    unsigned doublings;
    const size_t step = cdl_steps_reach(&replay->steps, replay->now_ns, &doublings);
    while (doublings-- > 0) {
        cdl_steps_fold(replay->offered);
        cdl_steps_fold(replay->admitted);
        for (size_t i = 0; i <= CDL_REPLAY_LIMIT_SERIES; i++)
            cdl_steps_fold(replay->refused_by[i]);
    }
    return step;
}

/* Which series this refusal belongs to: that of its rate, or the one of all others. `rate` may be CDL_NONE. */
static uint64_t *refusals_of(struct cdl_replay *replay, uint32_t rate)
{
    if (rate != CDL_NONE && replay->rates[rate].series == 0 && replay->series_count < CDL_REPLAY_LIMIT_SERIES) {
        replay->series_rate[replay->series_count] = rate;
        replay->rates[rate].series = ++replay->series_count;
    }
    if (rate != CDL_NONE && replay->rates[rate].series != 0)
        return replay->refused_by[replay->rates[rate].series - 1];
    replay->has_others = true;
    return replay->refused_by[CDL_REPLAY_LIMIT_SERIES];
}

static void count_in_time(struct cdl_replay *replay, const struct cdl_replay_decision *decision)
{
    const size_t step = reach_step(replay);
    replay->offered[step]++;
    replay->offered_seconds.last++;
    if (decision->verdict == CDL_REPLAY_ADMITTED) {
        replay->admitted[step]++;
        replay->admitted_seconds.last++;
    } else {
        refusals_of(replay, decision->charge != NULL ? decision->charge->rate : CDL_NONE)[step]++;
    }
}

/* ---- clients ---- */

static struct cdl_slice client_key(const struct cdl_address *client)
{
    return (struct cdl_slice){(const char *)client, sizeof *client};
}

static int look_up_client(struct cdl_replay *replay, struct cdl_replay_under_way *one)
{
    const struct cdl_slice key = client_key(&one->request.request.client);
    const enum cdl_book_result result = cdl_book_find(&replay->clients, 0, key, sizeof(struct cdl_replay_client_state),
                                                      &one->client);
    if (one->client != NULL)
        __builtin_prefetch(cdl_book_state(one->client), 1);
    return result == CDL_BOOK_NO_MEMORY ? CAUDAL_ERR_MEMORY : CAUDAL_OK;
}

static void count_client(struct cdl_replay *replay, const struct cdl_replay_under_way *one, bool refused)
{
    if (one->client == NULL) {
        replay->clients_unstudied++;
        return;
    }
    struct cdl_replay_client_state *state = cdl_book_state(one->client);
    state->requests++;
    if (refused && state->refused++ == 0)
        replay->clients_refused++;
}

/* ---- keys ---- */

uint32_t cdl_replay_together(struct cdl_replay_rate_state *rates, uint32_t rate)
{
    while (rates[rate].together != rate)
        rate = rates[rate].together = rates[rates[rate].together].together;
    return rate;
}

/* Limits of one request, but those in shadow mode, are decided together. */
static void join_rates(struct cdl_replay *replay, const struct cdl_plan *plan)
{
    const struct cdl_limit_rule *limits = replay->live->policy->limits;
    uint32_t first = CDL_NONE;
    for (size_t i = 0; i < plan->count; i++) {
        if (limits[plan->charges[i].limit].mode != CDL_MODE_ENFORCE)
            continue;
        const uint32_t root = cdl_replay_together(replay->rates, plan->charges[i].rate);
        if (first == CDL_NONE)
            first = root;
        else
            replay->rates[root].together = first;
    }
}

/* A limit that counts what it refuses is not decided by admissions alone, which bounds rest on. */
static int begin_study(struct cdl_replay *replay, const struct cdl_answer *answer, const struct cdl_charge *charge)
{
    const struct cdl_limit_rule *rule = &replay->live->policy->limits[charge->limit];
    struct cdl_replay_rate_state *rate = &replay->rates[charge->rate];
    const struct caudal_decision decided_here = {
        .source = rule->sharing == CDL_SHARING_LOCAL ? CAUDAL_SOURCE_LOCAL_SHARE : CAUDAL_SOURCE_STORE};
    rate->limit = cdl_answer_limit(answer, charge, &decided_here);
    rate->study = cdl_study_rule_new(&rate->limit, rule->count_refused ? 0 : replay->settings.cell_ns,
                                     replay->allocator);
    return rate->study != NULL ? CAUDAL_OK : CAUDAL_ERR_MEMORY;
}

static void note_key_refused(struct cdl_replay *replay, struct cdl_replay_key_state *state, uint64_t *keys_refused)
{
    if (state->refused++ == 0)
        ++*keys_refused;
    if (!state->is_refused)
        state->stretch_begin_ns = replay->now_ns;
    state->is_refused = true;
    state->last_refused_ns = replay->now_ns;
}

static void note_key_admitted(struct cdl_replay *replay, struct cdl_replay_key_state *state)
{
    const int64_t length_ns = replay->now_ns - state->stretch_begin_ns;
    if (state->is_refused && length_ns > state->longest_ns) {
        state->longest_ns = length_ns;
        state->longest_begin_ns = state->stretch_begin_ns;
    }
    state->is_refused = false;
}

/* `refused`: by this limit; what does not pass was refused by it or by another. */
static void follow(struct cdl_replay *replay, struct cdl_book_entry *entry, bool refused, bool passes,
                   uint64_t remaining)
{
    struct cdl_replay_key_state *state = cdl_book_state(entry);
    const bool wanted = replay->chosen_limit != CDL_NONE ? state->is_chosen : refused;
    if (state->trace == 0 && wanted) {
        const uint32_t place = cdl_trace_place(replay->traces, state->refused);
        if (place == CDL_TRACES)
            return;
        if (replay->traces[place].owner != NULL)
            ((struct cdl_replay_key_state *)cdl_book_state(replay->traces[place].owner))->trace = 0;
        cdl_trace_begin(&replay->traces[place], entry, replay->now_ns);
        state->trace = place + 1;
    }
    if (state->trace == 0)
        return;
    struct cdl_trace *trace = &replay->traces[state->trace - 1];
    trace->refused_in_all = state->refused;
    cdl_trace_note(trace, replay->now_ns, !passes, remaining);
}

/* Takes a text off the front of another. False: it does not begin so. */
static bool take_off(struct cdl_slice *text, struct cdl_slice front)
{
    if (text->length < front.length || !cdl_slice_equal(cdl_slice_head(*text, front.length), front))
        return false;
    *text = cdl_slice_from(*text, front.length);
    return true;
}

/* The key's parts, with "|" between them, are what was chosen. */
static bool is_chosen(const struct cdl_replay *replay, const struct cdl_charge *charge)
{
    struct cdl_slice key = charge->key, rest = replay->settings.traced_key, part;
    if (charge->limit != replay->chosen_limit)
        return false;
    for (bool is_first = true; cdl_key_next_part(&key, &part); is_first = false)
        if ((!is_first && !take_off(&rest, CDL_SLICE("|"))) || !take_off(&rest, part))
            return false;
    return rest.length == 0;
}

/* Whether a limit was asked: one in shadow mode is when the request passes. */
static bool was_asked(const struct cdl_replay *replay, const struct cdl_answer *answer, size_t index)
{
    const struct cdl_limit_rule *rule = &replay->live->policy->limits[answer->plan.charges[index].limit];
    return rule->mode != CDL_MODE_SHADOW || answer->kind == CDL_ANSWER_ALLOWED;
}

/* The one that binds refuses the request; one in shadow mode would have. */
static bool refuses_it(const struct cdl_answer *answer, size_t index)
{
    const enum caudal_verdict verdict = answer->decisions[index].verdict;
    if (answer->kind == CDL_ANSWER_ALLOWED)
        return verdict == CAUDAL_DENY || verdict == CAUDAL_NEVER;
    return index == answer->binding;
}

/* Logs that a study keeps lie beside it, for all keys together, so that none can be begun for a moment and thrown away. */
static bool begins_late(const struct cdl_replay_rate_state *rate)
{
    return rate->limit.algorithm != CAUDAL_SLIDING_LOG;
}

static int begin_key_study(struct cdl_replay *replay, const struct cdl_replay_rate_state *rate,
                           struct cdl_replay_key_state *state)
{
    state->study = cdl_arena_allocate(&replay->keys.arena, 1, cdl_study_key_bytes(rate->study));
    return state->study != NULL ? CAUDAL_OK : CAUDAL_ERR_MEMORY;
}

static int look_up_key(struct cdl_replay *replay, struct cdl_replay_under_way *one, size_t index)
{
    const struct cdl_answer *answer = &one->asker.answer;
    const struct cdl_charge *charge = &answer->plan.charges[index];
    struct cdl_replay_rate_state *rate = &replay->rates[charge->rate];
    struct cdl_book_entry **entry = &one->keys[index];
    if (rate->study == NULL && begin_study(replay, answer, charge) != CAUDAL_OK)
        return CAUDAL_ERR_MEMORY;
    const enum cdl_book_result result = cdl_book_find(&replay->keys, charge->rate, charge->key,
                                                      sizeof(struct cdl_replay_key_state), entry);
    if (*entry == NULL)
        return result == CDL_BOOK_NO_MEMORY ? CAUDAL_ERR_MEMORY : CAUDAL_OK;
    struct cdl_replay_key_state *state = cdl_book_state(*entry);
    if (result == CDL_BOOK_NEW) {
        rate->keys++;
        state->is_chosen = replay->chosen_limit != CDL_NONE && is_chosen(replay, charge);
    }
    if (state->study != NULL)
        cdl_fetch(state->study, cdl_study_key_bytes(rate->study));
    else if (result == CDL_BOOK_FOUND || !begins_late(rate))
        return begin_key_study(replay, rate, state);
    return CAUDAL_OK;
}

static void note_in_study(const struct cdl_replay_rate_state *rate, struct cdl_replay_key_state *state, int64_t at_ns,
                          uint64_t cost)
{
    if (state->study == NULL) {
        state->has_first = true;
        state->first_ns = at_ns;
        state->first_cost = cost;
        return;
    }
    if (state->has_first)
        cdl_study_note(rate->study, state->study, state->first_ns, state->first_cost);
    state->has_first = false;
    cdl_study_note(rate->study, state->study, at_ns, cost);
}

void cdl_replay_find(const struct cdl_replay_rate_state *rate, const struct cdl_replay_key_state *state,
                     struct cdl_study_findings *findings)
{
    _Alignas(64) char passing[CDL_STUDY_KEY_BYTES_MAX] = {0};
    if (!state->has_first) {
        cdl_study_find(rate->study, state->study, findings);
        return;
    }
    cdl_study_note(rate->study, passing, state->first_ns, state->first_cost);
    cdl_study_find(rate->study, passing, findings);
}

/* What a question and its answer say about the key. */
static void study_charge(struct cdl_replay *replay, const struct cdl_replay_under_way *one, size_t index)
{
    const struct cdl_answer *answer = &one->asker.answer;
    const struct cdl_charge *charge = &answer->plan.charges[index];
    const bool is_answered = was_asked(replay, answer, index), refuses = is_answered && refuses_it(answer, index);
    const bool passes = answer->kind == CDL_ANSWER_ALLOWED && !refuses;
    struct cdl_replay_rate_state *rate = &replay->rates[charge->rate];
    struct cdl_book_entry *entry = one->keys[index];
    rate->requests++;
    rate->refused += refuses;
    if (entry == NULL) {
        rate->unstudied++;
        return;
    }
    struct cdl_replay_key_state *state = cdl_book_state(entry);
    state->requests++;
    if (refuses)
        note_key_refused(replay, state, &rate->keys_refused);
    else if (state->is_refused && passes)
        note_key_admitted(replay, state);
    note_in_study(rate, state, replay->now_ns, charge->cost);
    if (is_answered && (refuses || state->trace != 0 || state->is_chosen))
        follow(replay, entry, refuses, passes, answer->decisions[index].remaining);
}

static void study_answer(struct cdl_replay *replay, const struct cdl_replay_under_way *one)
{
    const struct cdl_plan *plan = &one->asker.answer.plan;
    if (plan->count > 1)
        join_rates(replay, plan);
    for (size_t i = 0; i < plan->count; i++)
        study_charge(replay, one, i);
}

/* ---- requests ---- */

static const char *reason_of(const struct cdl_answer *answer)
{
    switch (answer->plan.outcome) {
    case CDL_OUTCOME_EXEMPT:
        return "exempt";
    case CDL_OUTCOME_MISSING:
        return "missing identity";
    case CDL_OUTCOME_AMBIGUOUS:
        return "ambiguous identity";
    case CDL_OUTCOME_TOO_LONG:
        return "key too long";
    case CDL_OUTCOME_TOO_MANY:
        return "too many limits";
    case CDL_OUTCOME_LIMITED:
        break;
    }
    return answer->plan.count == 0 ? "unlimited" : NULL;
}

static void describe(const struct cdl_replay *replay, const struct cdl_replay_under_way *one,
                     struct cdl_replay_decision *decision)
{
    const struct cdl_answer *answer = &one->asker.answer;
    const struct cdl_policy *policy = answer->live->policy;
    *decision = (struct cdl_replay_decision){
        .origin = one->origin,
        .instant_ns = one->instant_ns,
        .asked_at_ns = replay->now_ns,
        .verdict = answer->kind == CDL_ANSWER_ALLOWED ? CDL_REPLAY_ADMITTED : CDL_REPLAY_REFUSED,
        .client = one->request.request.client,
        .path = one->request.request.path,
        .reason = reason_of(answer),
        .shadow_refusals = answer->shadow_refusals,
    };
    if (answer->binding != CDL_NONE) {
        decision->charge = &answer->plan.charges[answer->binding];
        decision->decision = &answer->decisions[answer->binding];
        decision->limit = policy->limits[decision->charge->limit].name;
    } else if (answer->plan.limit != CDL_NONE && answer->kind != CDL_ANSWER_ALLOWED) {
        decision->limit = policy->limits[answer->plan.limit].name;
    }
}

static void count(struct cdl_replay *replay, const struct cdl_answer *answer,
                  const struct cdl_replay_decision *decision)
{
    replay->requests++;
    replay->unknown_clients += decision->client.family == 0;
    replay->pathless += decision->path.length == 0;
    if (decision->verdict == CDL_REPLAY_REFUSED) {
        replay->refused++;
        replay->refused_without_limit += decision->charge == NULL;
    } else if (answer->plan.outcome == CDL_OUTCOME_EXEMPT) {
        replay->exempt++;
    } else if (answer->plan.count == 0) {
        replay->unlimited++;
    }
}

static struct cdl_replay_under_way *nth(const struct cdl_replay *replay, uint64_t number)
{
    return &replay->under_way[number % CDL_REPLAY_UNDER_WAY];
}

static void match(struct cdl_replay *replay, const struct cdl_access_record *record,
                  const struct cdl_log_origin *origin)
{
    struct cdl_replay_under_way *one = nth(replay, replay->matched++);
    struct cdl_writer scratch = cdl_writer_on(one->request_scratch, CDL_LOG_REQUEST_SCRATCH_BYTES);
    const struct cdl_plan *plan = &one->asker.answer.plan;
    one->instant_ns = record->instant_ns;
    one->origin = origin != NULL ? *origin : (struct cdl_log_origin){.line = 0};
    cdl_log_request_make(&replay->live->policy->client, record, &scratch, &one->request);
    cdl_limiter_match(&one->asker, replay->live, &one->request.request, CDL_COST_UNSAID);
    cdl_book_expect(&replay->clients, 0, client_key(&one->request.request.client));
    one->expected.ops = NULL;
    if (plan->outcome != CDL_OUTCOME_LIMITED)
        return;
    for (size_t i = 0; i < plan->count; i++)
        cdl_book_expect(&replay->keys, plan->charges[i].rate, plan->charges[i].key);
    if (plan->count > 0) {
        const struct cdl_charge *first = &plan->charges[0];
        const struct caudal_request question = {replay->live->rates[first->rate], first->key.bytes, first->key.length,
                                                0};
        cdl_store_expect(replay->live->store, &question, &one->expected);
    }
}

static int look_up(struct cdl_replay *replay)
{
    struct cdl_replay_under_way *one = nth(replay, replay->looked_up++);
    const struct cdl_plan *plan = &one->asker.answer.plan;
    const size_t count = plan->outcome == CDL_OUTCOME_LIMITED ? plan->count : 0;
    int status = look_up_client(replay, one);
    cdl_store_expect_more(&one->expected);
    for (size_t i = 0; i < count && status == CAUDAL_OK; i++)
        status = look_up_key(replay, one, i);
    return status;
}

static void decide(struct cdl_replay *replay)
{
    struct cdl_replay_under_way *one = nth(replay, replay->decided++);
    struct cdl_replay_decision *decision = &replay->decision;
    set_time(replay, one->instant_ns);
    cdl_limiter_ask_matched(&one->asker, CDL_ASK_TAKE);
    describe(replay, one, decision);
    count(replay, &one->asker.answer, decision);
    count_in_time(replay, decision);
    count_client(replay, one, decision->verdict == CDL_REPLAY_REFUSED);
    study_answer(replay, one);
}

/* Takes the steps that are due when so many requests are to have been looked up and decided. */
static int proceed(struct cdl_replay *replay, uint64_t looked_up, uint64_t decided,
                   const struct cdl_replay_decision **decision)
{
    int status = CAUDAL_OK;
    *decision = NULL;
    while (replay->looked_up < looked_up && status == CAUDAL_OK)
        status = look_up(replay);
    if (replay->decided < decided && status == CAUDAL_OK) {
        decide(replay);
        *decision = &replay->decision;
    }
    return status;
}

int cdl_replay_request(struct cdl_replay *replay, const struct cdl_access_record *record,
                       const struct cdl_log_origin *origin, const struct cdl_replay_decision **decision)
{
    const uint64_t number = replay->matched;
    const uint64_t looked_up = number < CDL_REPLAY_STEP ? 0 : number - CDL_REPLAY_STEP + 1;
    const uint64_t decided = number < 2 * CDL_REPLAY_STEP ? 0 : number - 2 * CDL_REPLAY_STEP + 1;
    const int status = proceed(replay, looked_up, decided, decision);
    if (status == CAUDAL_OK)
        match(replay, record, origin);
    return status;
}

int cdl_replay_settle(struct cdl_replay *replay, const struct cdl_replay_decision **decision)
{
    return proceed(replay, replay->matched, replay->decided + (replay->decided < replay->matched), decision);
}

/* ---- opening ---- */

static int open_store(struct cdl_replay *replay, struct caudal_problem *problem)
{
    char url[64];
    const struct caudal_store_options options = {
        .size = sizeof options, .clock = caudal_fake_clock_clock(replay->clock), .allocator = replay->allocator};
    snprintf(url, sizeof url, "memory:?keys=%llu", (unsigned long long)replay->settings.keys_max);
    return caudal_store_open(url, &options, &replay->store, problem);
}

static int find_chosen(struct cdl_replay *replay, const struct cdl_policy *policy, struct caudal_problem *problem)
{
    const struct cdl_slice name = replay->settings.traced_limit;
    replay->chosen_limit = name.length == 0 ? CDL_NONE : cdl_policy_find(policy, name);
    if (name.length == 0 || replay->chosen_limit != CDL_NONE)
        return CAUDAL_OK;
    return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "%.*s has no limit '%.*s'", CDL_SLICE_ARG(policy->file),
                       CDL_SLICE_ARG(name));
}

static bool allocate_under_way(struct cdl_replay *replay)
{
    bool has_room = true;
    replay->under_way = cdl_allocate(replay->allocator, CDL_REPLAY_UNDER_WAY, sizeof *replay->under_way, 64);
    for (size_t i = 0; replay->under_way != NULL && i < CDL_REPLAY_UNDER_WAY; i++) {
        struct cdl_replay_under_way *one = &replay->under_way[i];
        one->asker.scratch = one->scratch = cdl_allocate(replay->allocator, CDL_MATCH_SCRATCH_BYTES, 1, 64);
        one->request_scratch = cdl_allocate(replay->allocator, CDL_LOG_REQUEST_SCRATCH_BYTES, 1, 64);
        has_room &= one->scratch != NULL && one->request_scratch != NULL;
    }
    return has_room && replay->under_way != NULL;
}

static void free_under_way(struct cdl_replay *replay)
{
    for (size_t i = 0; replay->under_way != NULL && i < CDL_REPLAY_UNDER_WAY; i++) {
        cdl_release(replay->allocator, replay->under_way[i].scratch, CDL_MATCH_SCRATCH_BYTES, 1);
        cdl_release(replay->allocator, replay->under_way[i].request_scratch, CDL_LOG_REQUEST_SCRATCH_BYTES, 1);
    }
    cdl_release(replay->allocator, replay->under_way, CDL_REPLAY_UNDER_WAY, sizeof *replay->under_way);
}

static int allocate_all(struct cdl_replay *replay, const struct cdl_policy *policy, struct caudal_problem *problem)
{
    const struct cdl_replay_settings *settings = &replay->settings;
    replay->clock = caudal_fake_clock_new(settings->begin_ns);
    const bool has_room = allocate_under_way(replay);
    replay->rates = cdl_allocate(replay->allocator, policy->rate_count + (size_t)1, sizeof *replay->rates, 64);
    replay->traces = cdl_allocate(replay->allocator, CDL_TRACES, sizeof *replay->traces, 64);
    const bool has_books = cdl_book_init(&replay->keys, settings->keys_max, replay->allocator) &&
                           cdl_book_init(&replay->clients, settings->keys_max, replay->allocator);
    if (replay->clock == NULL || !has_room || replay->rates == NULL || replay->traces == NULL || !has_books)
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    for (uint32_t i = 0; i < policy->rate_count; i++)
        replay->rates[i].together = i;
    return CAUDAL_OK;
}

static int put_in_force(struct cdl_replay *replay, struct cdl_policy *policy, struct caudal_problem *problem)
{
    replay->limiter = cdl_limiter_open(replay->store);
    const int status = replay->limiter == NULL ? cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory")
                                               : cdl_limiter_apply(replay->limiter, policy, NULL, problem);
    if (status != CAUDAL_OK)
        cdl_policy_free(policy);
    else
        replay->live = cdl_limiter_acquire(replay->limiter);
    return status;
}

int cdl_replay_open(const struct cdl_replay_settings *settings, struct cdl_policy *policy, struct cdl_replay **made,
                    struct caudal_problem *problem)
{
    const struct caudal_allocator *allocator = settings->allocator != NULL ? settings->allocator
                                                                           : cdl_allocator_default();
    struct cdl_replay *replay = cdl_allocate(allocator, 1, sizeof *replay, 64);
    *made = NULL;
    if (replay == NULL) {
        cdl_policy_free(policy);
        return cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "out of memory");
    }
    replay->allocator = allocator;
    replay->settings = *settings;
    replay->rate_count = policy->rate_count;
    int status = allocate_all(replay, policy, problem);
    if (status == CAUDAL_OK)
        status = find_chosen(replay, policy, problem);
    if (status == CAUDAL_OK)
        status = open_store(replay, problem);
    if (status == CAUDAL_OK)
        status = put_in_force(replay, policy, problem);
    else
        cdl_policy_free(policy);
    if (status == CAUDAL_OK)
        *made = replay;
    else
        cdl_replay_close(replay);
    return status;
}

void cdl_replay_close(struct cdl_replay *replay)
{
    if (replay == NULL)
        return;
    const struct caudal_allocator *allocator = replay->allocator;
    for (uint32_t i = 0; replay->rates != NULL && i < replay->rate_count; i++)
        cdl_study_rule_free(replay->rates[i].study);
    if (replay->limiter != NULL)
        cdl_limiter_leave_store(replay->limiter);
    cdl_limiter_release(replay->live);
    cdl_limiter_close(replay->limiter);
    caudal_store_close(replay->store);
    caudal_fake_clock_free(replay->clock);
    cdl_book_free(&replay->keys);
    cdl_book_free(&replay->clients);
    free_under_way(replay);
    cdl_release(allocator, replay->rates, replay->rate_count + (size_t)1, sizeof *replay->rates);
    cdl_release(allocator, replay->traces, CDL_TRACES, sizeof *replay->traces);
    cdl_release(allocator, replay, 1, sizeof *replay);
}
