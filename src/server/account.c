/* Counting and logging what was answered. Requests are counted once each, so that their outcomes add up; limits are counted
 * where they decided: each one that was charged, each one that refused, and not those that would have let a refused request
 * pass, for they were not charged. */
#include "identity/key_parts.h"
#include "server/exchange.h"

static enum cdl_counted counted_of(const struct caudal_decision *decision)
{
    switch (decision->verdict) {
    case CAUDAL_ALLOW:
        return decision->source == CAUDAL_SOURCE_FAILURE_POLICY ? CDL_COUNTED_ERROR : CDL_COUNTED_ALLOW;
    case CAUDAL_DENY:
        return CDL_COUNTED_DENY;
    case CAUDAL_NEVER:
        return CDL_COUNTED_NEVER;
    case CAUDAL_NO_VERDICT:
        break;
    }
    return CDL_COUNTED_ERROR;
}

static void count_charge(struct cdl_worker *worker, const struct cdl_answer *answer, size_t index)
{
    const struct cdl_charge *charge = &answer->plan.charges[index];
    const struct caudal_decision *decision = &answer->decisions[index];
    const uint32_t slot = cdl_slots_of(answer->live)->of[charge->limit];
    enum cdl_counted counted = counted_of(decision);
    const bool refuses = counted == CDL_COUNTED_DENY || counted == CDL_COUNTED_NEVER;
    if (refuses && answer->live->policy->limits[charge->limit].mode == CDL_MODE_SHADOW)
        counted = CDL_COUNTED_SHADOW_DENY;
    if (counted == CDL_COUNTED_ALLOW && answer->kind != CDL_ANSWER_ALLOWED)
        return;
    cdl_counters_decision(worker->counters, slot, counted, decision->source);
    if (refuses && counted != CDL_COUNTED_SHADOW_DENY)
        cdl_top_keys_add(worker->top_keys, answer->live->rates[charge->rate], charge->key);
}

/* Of every `denominator` refusals, `numerator` are logged, evenly. */
static bool is_sampled(struct cdl_worker *worker, const struct cdl_policy *policy)
{
    const struct cdl_ratio *ratio = &policy->log.denied;
    if (ratio->denominator == 0 || ratio->numerator == 0)
        return false;
    const uint64_t n = worker->sampled_of++;
    return (n + 1) * ratio->numerator / ratio->denominator > n * ratio->numerator / ratio->denominator;
}

struct cdl_log_field cdl_account_key(const struct cdl_live_policy *live, struct cdl_slice key,
                                     struct cdl_address *memory)
{
    const enum cdl_log_identities identities = live->policy->log.identities;
    struct cdl_slice part;
    if (identities == CDL_IDENTITIES_PLAIN)
        return cdl_log_text("key", key);
    struct cdl_slice rest = key;
    const bool has_one_part = cdl_key_next_part(&rest, &part) && rest.length == 0;
    if (identities == CDL_IDENTITIES_MASKED && has_one_part && cdl_address_parse(part, memory))
        return cdl_log_masked("key", (struct cdl_slice){(const char *)memory->bytes, memory->family == 4 ? 4 : 16});
    return cdl_log_keyed("key", key);
}

static void log_refusal(struct cdl_worker *worker, const struct cdl_answer *answer)
{
    const uint32_t index = answer->binding;
    if (index == CDL_NONE) {
        const uint32_t limit = answer->plan.limit;
        if (limit != CDL_NONE)
            cdl_log_each(worker->server->log, CDL_LOG_INFO, "refused without asking the store",
                         cdl_log_text("limit", answer->live->policy->limits[limit].name));
        return;
    }
    const struct cdl_charge *charge = &answer->plan.charges[index];
    struct cdl_address memory;
    cdl_log_each(worker->server->log, CDL_LOG_INFO, "refused",
                 cdl_log_text("limit", answer->live->policy->limits[charge->limit].name),
                 cdl_account_key(answer->live, charge->key, &memory), cdl_log_u64("cost", charge->cost),
                 cdl_log_u64("remaining", answer->overall.remaining),
                 cdl_log_i64("retry_after_ns", answer->overall.retry_after_ns));
}

void cdl_account_reset(struct cdl_worker *worker, const struct cdl_live_policy *live, const struct cdl_named_key *key,
                       const char *by)
{
    struct cdl_address memory;
    size_t length = 0;
    char *scratch = worker->asker.scratch;
    cdl_policy_key(key->values, key->value_count, scratch, CDL_MATCH_SCRATCH_BYTES, &length);
    cdl_log_each(worker->server->log, CDL_LOG_INFO, "a key was reset",
                 cdl_log_text("limit", live->policy->limits[key->limit].name),
                 cdl_account_key(live, (struct cdl_slice){scratch, length}, &memory), cdl_log_string("by", by));
}

/* One limit, asked by its name, whatever its mode. What was no question is not counted. */
static void account_named(struct cdl_worker *worker, const struct cdl_answer *answer)
{
    if (answer->plan.count == 0)
        return;
    const struct caudal_decision *decision = &answer->overall;
    const uint32_t slot = cdl_slots_of(answer->live)->of[answer->plan.charges[0].limit];
    cdl_counters_decision(worker->counters, slot, counted_of(decision), decision->source);
    cdl_counters_request(worker->counters, decision->verdict == CAUDAL_ALLOW ? CDL_COUNTED_ALLOW : counted_of(decision),
                         decision->source);
}

void cdl_account(struct cdl_worker *worker, const struct cdl_answer *answer)
{
    if (answer->named) {
        account_named(worker, answer);
        return;
    }
    for (size_t i = 0; i < answer->plan.count; i++)
        count_charge(worker, answer, i);
    enum cdl_counted counted = CDL_COUNTED_ALLOW;
    if (answer->plan.outcome == CDL_OUTCOME_EXEMPT)
        counted = CDL_COUNTED_EXEMPT;
    else if (answer->kind == CDL_ANSWER_UNAVAILABLE)
        counted = CDL_COUNTED_ERROR;
    else if (answer->kind == CDL_ANSWER_REFUSED)
        counted = answer->overall.verdict == CAUDAL_DENY ? CDL_COUNTED_DENY : CDL_COUNTED_NEVER;
    cdl_counters_request(worker->counters, counted, answer->overall.source);
    if (answer->kind == CDL_ANSWER_REFUSED && answer->plan.outcome != CDL_OUTCOME_LIMITED &&
        answer->plan.limit != CDL_NONE)
        cdl_counters_decision(worker->counters, cdl_slots_of(answer->live)->of[answer->plan.limit], CDL_COUNTED_NEVER,
                              CAUDAL_SOURCE_STORE);
    if (answer->kind == CDL_ANSWER_REFUSED && is_sampled(worker, answer->live->policy))
        log_refusal(worker, answer);
}
