/* CAUDAL.EXPLAIN: what the policy makes of a request, in words. Nothing is counted and no store is asked.
 *
 * A policy may have thousands of limits, and is looked through from its first to its last. Those that apply are told, and the first of the others;
 * each text is cut, so that the reply is bounded. */
#include <stdlib.h>

#include "policy/explain.h"
#include "server/resp.h"

#define OTHERS_MAX 64u
#define TEXT_BYTES 512u  /* of a sentence */
#define VALUE_BYTES 128u /* of a value */

struct explaining {
    struct cdl_writer *output;
    unsigned protocol;
    const struct cdl_policy *policy;
    struct cdl_view view;
    struct cdl_writer scratch;
    uint64_t cost;
    uint32_t shown[CDL_PLAN_MAX + OTHERS_MAX]; /* limits: those that apply, then others */
    uint32_t count;
};

/* ---- which limits ---- */

static bool counts(const struct cdl_account *account)
{
    return account->kind == CDL_ACCOUNT_APPLIES || account->kind == CDL_ACCOUNT_REFUSES;
}

static void account_for(struct explaining *explaining, uint32_t limit, struct cdl_account *account)
{
    explaining->scratch.length = 0;
    explaining->scratch.overflow = false;
    cdl_explain_limit(&explaining->view, limit, explaining->cost, account);
}

static void choose(struct explaining *explaining)
{
    uint32_t others[OTHERS_MAX], other_count = 0;
    for (uint32_t i = 0; i < explaining->policy->request_limit_count; i++) {
        struct cdl_account account;
        account_for(explaining, i, &account);
        if (counts(&account) && explaining->count < CDL_PLAN_MAX)
            explaining->shown[explaining->count++] = i;
        else if (!counts(&account) && other_count < OTHERS_MAX)
            others[other_count++] = i;
    }
    for (uint32_t i = 0; i < other_count; i++)
        explaining->shown[explaining->count++] = others[i];
}

/* ---- what is said of them ---- */

static void write_pair(struct explaining *explaining, const char *key, struct cdl_slice value)
{
    cdl_resp_write_bulk(explaining->output, cdl_slice_of(key));
    cdl_resp_write_bulk(explaining->output, value);
}

static void write_word(struct explaining *explaining, const char *key, const char *word)
{
    write_pair(explaining, key, cdl_slice_of(word));
}

/* What has no room is left away, with a mark. */
static void write_words(struct explaining *explaining, const char *key, struct cdl_writer *words)
{
    if (words->overflow) {
        words->overflow = false;
        words->size += sizeof "...";
        cdl_write_text(words, "...");
    }
    write_pair(explaining, key, cdl_written(words));
}

static void write_key(struct explaining *explaining, const struct cdl_limit_rule *limit,
                      const struct cdl_account *account)
{
    cdl_resp_write_bulk(explaining->output, CDL_SLICE("key"));
    cdl_resp_write_map(explaining->output, explaining->protocol, limit->per_count);
    for (uint32_t i = 0; i < limit->per_count; i++)
        write_pair(explaining, limit->per[i].text.bytes,
                   cdl_slice_head(account->values[i], cdl_min_u64(account->values[i].length, VALUE_BYTES)));
}

static void write_limit(struct explaining *explaining, uint32_t index)
{
    const struct cdl_limit_rule *limit = &explaining->policy->limits[index];
    struct cdl_account account;
    char text[TEXT_BYTES + sizeof "..."], rate_text[CAUDAL_LIMIT_TEXT_MAX] = "";
    account_for(explaining, index, &account);
    const struct caudal_limit *rate = &explaining->policy->rates[counts(&account) ? account.rate : limit->rate].limit;
    const bool applies = account.kind == CDL_ACCOUNT_APPLIES;
    struct cdl_writer why = cdl_writer_on(text, TEXT_BYTES);
    cdl_explain_why(&explaining->view, index, &account, &why);
    caudal_limit_format(rate, rate_text, sizeof rate_text);
    cdl_resp_write_map(explaining->output, explaining->protocol, applies ? 9 : 7);
    write_pair(explaining, "limit", limit->name);
    cdl_resp_write_bulk(explaining->output, CDL_SLICE("applies"));
    cdl_resp_write_boolean(explaining->output, explaining->protocol, counts(&account));
    write_words(explaining, "why", &why);
    write_word(explaining, "rate", rate_text);
    struct cdl_writer promise = cdl_writer_on(text, TEXT_BYTES);
    cdl_explain_rate(rate, &promise);
    write_words(explaining, "promise", &promise);
    write_word(explaining, "mode", cdl_mode_word(limit->mode));
    write_word(explaining, "sharing", cdl_sharing_word(limit->sharing));
    if (!applies)
        return;
    write_key(explaining, limit, &account);
    cdl_resp_write_bulk(explaining->output, CDL_SLICE("cost"));
    cdl_resp_write_integer(explaining->output, (int64_t)cdl_min_u64(account.cost, INT64_MAX));
}

/* Why it is exempt, or by which limit it is refused without asking the store; and whether there is anything to say. */
static bool has_reason(const struct cdl_plan *plan)
{
    return plan->outcome == CDL_OUTCOME_EXEMPT || plan->limit != CDL_NONE;
}

static void write_reason(struct explaining *explaining, const struct cdl_plan *plan)
{
    char text[TEXT_BYTES + sizeof "..."];
    struct cdl_writer why = cdl_writer_on(text, TEXT_BYTES);
    if (plan->outcome != CDL_OUTCOME_EXEMPT) {
        write_pair(explaining, "refused_by", explaining->policy->limits[plan->limit].name);
        return;
    }
    explaining->scratch.length = 0;
    cdl_explain_exemption(&explaining->view, plan->exemption, &why);
    write_words(explaining, "exempt", &why);
}

/* ---- the command ---- */

void cdl_resp_explain(struct cdl_resp_call *call)
{
    struct cdl_worker *worker = call->worker;
    struct cdl_field attributes[CDL_JSON_ATTRIBUTES_MAX];
    struct cdl_request request = {.attributes = attributes};
    struct cdl_plan *plan = &worker->asker.answer.plan;
    struct explaining explaining = {.output = call->output,
                                    .protocol = call->session->protocol,
                                    .policy = worker->live->policy,
                                    .scratch = cdl_writer_on(worker->asker.scratch, CDL_MATCH_SCRATCH_BYTES)};
    if (!cdl_resp_read_attributes(call, attributes, &request.attribute_count, &explaining.cost))
        return;
    cdl_policy_match(explaining.policy, &request, explaining.cost, worker->asker.scratch, CDL_MATCH_SCRATCH_BYTES,
                     plan);
    /* What the view writes of the request stays; what is written of each limit comes behind it. */
    cdl_view_open(&explaining.view, explaining.policy, &request, &explaining.scratch);
    explaining.scratch = cdl_writer_on(worker->asker.scratch + explaining.scratch.length,
                                       CDL_MATCH_SCRATCH_BYTES - explaining.scratch.length);
    choose(&explaining);
    cdl_resp_write_map(call->output, explaining.protocol, 3 + has_reason(plan));
    write_word(&explaining, "outcome", cdl_outcome_word(plan->outcome));
    if (has_reason(plan))
        write_reason(&explaining, plan);
    cdl_resp_write_bulk(call->output, CDL_SLICE("limits"));
    cdl_resp_write_array(call->output, explaining.count);
    for (uint32_t i = 0; i < explaining.count; i++)
        write_limit(&explaining, explaining.shown[i]);
    cdl_resp_write_bulk(call->output, CDL_SLICE("not_shown"));
    cdl_resp_write_integer(call->output, (int64_t)explaining.policy->request_limit_count - explaining.count);
}
