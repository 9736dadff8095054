#include "policy/explain.h"

#include <inttypes.h>

/* ------------------------------------------------------------------------------------------------- promises in words */

typedef unsigned __int128 wide;

struct unit {
    const char *name;
    uint64_t ns;
};

static const struct unit units[] = {
    {"week", UINT64_C(7) * 86400 * 1000000000},
    {"day", UINT64_C(86400) * 1000000000},
    {"hour", UINT64_C(3600) * 1000000000},
    {"minute", UINT64_C(60) * 1000000000},
    {"second", 1000000000},
    {"millisecond", 1000000},
    {"microsecond", 1000},
    {"nanosecond", 1},
};

/* numerator / denominator with at most two decimals, rounded half up. */
static void write_quotient(struct cdl_writer *words, wide numerator, wide denominator)
{
    wide hundredths = (numerator * 200 + denominator) / (denominator * 2);
    cdl_write_u64(words, (uint64_t)(hundredths / 100));
    unsigned rest = (unsigned)(hundredths % 100);
    if (rest % 10 != 0)
        cdl_writef(words, ".%02u", rest);
    else if (rest != 0)
        cdl_writef(words, ".%u", rest / 10);
}

/* "one minute", "30 seconds"; after "each": "minute", "30 seconds". */
static void write_period(struct cdl_writer *words, uint64_t ns, const char *one)
{
    const struct unit *unit = units;
    while (ns % unit->ns != 0)
        unit++;
    if (ns == unit->ns)
        cdl_writef(words, "%s%s", one, unit->name);
    else
        cdl_writef(words, "%" PRIu64 " %ss", ns / unit->ns, unit->name);
}

/* "minute", "3.6 seconds": the time that one token takes, when that is more than a second. */
static void write_interval(struct cdl_writer *words, const struct caudal_limit *limit)
{
    const struct unit *unit = units;
    while ((wide)unit->ns * limit->count > limit->period_ns)
        unit++;
    wide one = (wide)unit->ns * limit->count;
    if (one == limit->period_ns) {
        cdl_write_text(words, unit->name);
        return;
    }
    write_quotient(words, limit->period_ns, one);
    cdl_writef(words, " %ss", unit->name);
}

static void explain_bucket(const struct caudal_limit *limit, struct cdl_writer *words)
{
    uint64_t burst = caudal_limit_capacity(limit);
    if (burst == 0) {
        cdl_write_text(words, "nothing, ever: it holds no token");
        return;
    }
    if (limit->count == 0) {
        cdl_writef(words, "at most %" PRIu64 " in all, then nothing: it never refills", burst);
        return;
    }
    cdl_writef(words, "at most %" PRIu64 " at once, then ", burst);
    if ((wide)limit->count * 1000000000 >= limit->period_ns) {
        write_quotient(words, (wide)limit->count * 1000000000, limit->period_ns);
        cdl_write_text(words, " a second");
    } else {
        cdl_write_text(words, "one every ");
        write_interval(words, limit);
    }
    /* B + r·t with t the period: burst + count. Both are far below 2^63. */
    cdl_writef(words, "; up to %" PRIu64 " in ", burst + limit->count);
    write_period(words, limit->period_ns, "one ");
}

static void explain_window(const struct caudal_limit *limit, struct cdl_writer *words)
{
    bool fixed = limit->algorithm == CAUDAL_FIXED_WINDOW;
    cdl_writef(words, "at most %" PRIu64 " in each ", limit->count);
    write_period(words, limit->period_ns, "");
    cdl_write_text(words,
                   fixed ? " by the clock; up to " : " by the clock, less what the one before weighs; never above ");
    cdl_writef(words, "%" PRIu64 " within ", 2 * limit->count);
    write_period(words, limit->period_ns, "one ");
    cdl_write_text(words, fixed ? " across the edge of two" : "");
}

void cdl_explain_rate(const struct caudal_limit *limit, struct cdl_writer *words)
{
    if (limit->algorithm == CAUDAL_UNLIMITED) {
        cdl_write_text(words, "everything: nothing is counted");
    } else if (limit->algorithm == CAUDAL_TOKEN_BUCKET) {
        explain_bucket(limit, words);
    } else if (limit->count == 0) {
        cdl_write_text(words, "nothing, ever: its count is 0");
    } else if (limit->algorithm == CAUDAL_SLIDING_LOG) {
        cdl_writef(words, "at most %" PRIu64 " within any ", limit->count);
        write_period(words, limit->period_ns, "");
        cdl_write_text(words, ", exactly");
    } else {
        explain_window(limit, words);
    }
}

/* B + r·(t + ttl) with t the period, rounded down: what is admitted is whole. With strict_bound it is what the rate says. */
static void explain_lease(const struct cdl_lease_settings *lease, const struct caudal_limit *limit,
                          struct cdl_writer *words)
{
    if (limit->algorithm != CAUDAL_TOKEN_BUCKET) {
        cdl_write_text(words, "; a lease dies with its window, so all instances together admit no more than that");
        return;
    }
    const wide late = lease->strict_bound ? 0 : (wide)limit->count * (uint64_t)lease->ttl_ns / limit->period_ns;
    cdl_writef(words, "; up to B + r*%s over all instances: ", lease->strict_bound ? "t" : "(t + ttl)");
    cdl_writef(words, "%" PRIu64 " in ", caudal_limit_capacity(limit) + limit->count + (uint64_t)late);
    write_period(words, limit->period_ns, "one ");
    if (lease->strict_bound)
        cdl_writef(words, "; at most %" PRIu64 " at once, the rest is kept back for leases",
                   caudal_limit_capacity(limit) - cdl_lease_reserve(lease, limit));
}

static void explain_local(const struct cdl_policy *policy, const struct cdl_limit_rule *limit, struct cdl_writer *words)
{
    struct cdl_ratio share = limit->local_share;
    if (share.denominator == 0)
        share = (struct cdl_ratio){1, policy->instances};
    cdl_write_text(words, "local: each instance counts by itself, ");
    if (share.numerator == share.denominator)
        cdl_write_text(words, "the whole of it");
    else
        cdl_writef(words, "%u/%u of it", share.numerator, share.denominator);
    cdl_write_text(words, "; the store is never asked");
}

void cdl_explain_sharing(const struct cdl_policy *policy, uint32_t index, struct cdl_writer *words)
{
    const struct cdl_rate *rate = &policy->rates[index];
    const struct cdl_limit_rule *limit = &policy->limits[rate->limit_index];
    if (limit->sharing == CDL_SHARING_LOCAL) {
        explain_local(policy, limit, words);
    } else if (cdl_rate_is_leased(limit, &rate->limit)) {
        cdl_write_text(words, "leased: busy keys spend tokens that were withdrawn within the last ");
        write_period(words, (uint64_t)limit->lease.ttl_ns, "");
        explain_lease(&limit->lease, &rate->limit, words);
    } else {
        cdl_write_text(words, "strict: every decision in the store");
        if (limit->sharing == CDL_SHARING_LEASED && rate->limit.algorithm == CAUDAL_SLIDING_LOG)
            cdl_write_text(words, ", for a sliding_log cannot be leased");
    }
}

/* --------------------------------------------------------------------------------------------- one limit, one request */

static const struct cdl_condition *failing_condition(struct cdl_view *view, const struct cdl_rule *rule)
{
    for (size_t i = 0; i < rule->count; i++)
        if (!cdl_condition_holds(view, &rule->conditions[i]))
            return &rule->conditions[i];
    return NULL;
}

static struct cdl_slice first_value(struct cdl_view *view, const struct cdl_identity *what)
{
    size_t cursor = 0;
    struct cdl_slice value;
    return cdl_view_next(view, what, &cursor, &value) ? value : (struct cdl_slice){NULL, 0};
}

static bool is_off(const struct cdl_limit_rule *limit, struct cdl_account *account)
{
    account->kind = CDL_ACCOUNT_OFF;
    return limit->mode == CDL_MODE_OFF;
}

static bool is_of_another_form(const struct cdl_view *view, const struct cdl_limit_rule *limit,
                               struct cdl_account *account)
{
    account->kind = CDL_ACCOUNT_TEMPLATE;
    account->seen = view->path;
    for (uint32_t i = 0; i < limit->per_count; i++) {
        account->identity = i;
        if (limit->per[i].kind == CDL_IDENTITY_TEMPLATE && !cdl_path_pattern_match(&limit->per[i].template, view->path))
            return true;
    }
    return false;
}

static bool has_failing_condition(struct cdl_view *view, const struct cdl_limit_rule *limit,
                                  struct cdl_account *account)
{
    account->kind = CDL_ACCOUNT_CONDITION;
    account->condition = failing_condition(view, &limit->when);
    if (account->condition == NULL)
        return false;
    account->seen = first_value(view, &account->condition->what);
    return true;
}

static void find_key(struct cdl_view *view, const struct cdl_limit_rule *limit, struct cdl_account *account)
{
    struct cdl_writer *scratch = view->scratch;
    char *at = scratch->bytes + scratch->length;
    size_t length;
    if (cdl_policy_key(account->values, limit->per_count, at, scratch->size - scratch->length, &length) != CAUDAL_OK) {
        account->kind = CDL_ACCOUNT_REFUSES;
        return;
    }
    account->kind = CDL_ACCOUNT_APPLIES;
    account->key = (struct cdl_slice){at, length};
    scratch->length += length;
}

void cdl_explain_limit(struct cdl_view *view, uint32_t index, uint64_t cost, struct cdl_account *account)
{
    const struct cdl_limit_rule *limit = &view->policy->limits[index];
    *account = (struct cdl_account){.override = CDL_NONE, .rate = limit->rate};
    if (is_off(limit, account) || is_of_another_form(view, limit, account) ||
        has_failing_condition(view, limit, account))
        return;
    account->identified = cdl_limit_values(view, limit, account->values, &account->identity);
    if (account->identified != CDL_IDENTIFIED) {
        account->kind = account->identified == CDL_IDENTITY_SKIPS ? CDL_ACCOUNT_SKIPS : CDL_ACCOUNT_REFUSES;
        return;
    }
    find_key(view, limit, account);
    account->override = cdl_limit_override(view, limit, account->values);
    if (account->override != CDL_NONE)
        account->rate = limit->overrides[account->override].rate;
    account->cost = cdl_limit_cost(view, limit, cost);
}

/* --------------------------------------------------------------------------------------------------- reasons in words */

void cdl_write_printable(struct cdl_writer *writer, struct cdl_slice bytes)
{
    for (size_t i = 0; i < bytes.length; i++) {
        unsigned char c = (unsigned char)bytes.bytes[i];
        if (c == '\\')
            cdl_write_text(writer, "\\\\");
        else if (c < 0x20 || c >= 0x7f)
            cdl_writef(writer, "\\x%02x", c);
        else
            cdl_write(writer, (struct cdl_slice){bytes.bytes + i, 1});
    }
}

/* A value for a sentence: long ones are cut. */
static void write_value(struct cdl_writer *words, struct cdl_slice value)
{
    const size_t most = 80;
    cdl_write_printable(words, cdl_slice_head(value, value.length < most ? value.length : most));
    if (value.length > most)
        cdl_writef(words, "... (%zu bytes)", value.length);
}

static void write_patterns(struct cdl_writer *words, const struct cdl_condition *condition)
{
    for (size_t i = 0; i < condition->count; i++) {
        if (i > 0)
            cdl_write_text(words, i + 1 == condition->count ? " or " : ", ");
        if (i == 8) {
            cdl_writef(words, "%zu more", condition->count - i);
            return;
        }
        write_value(words, condition->any_of[i].text);
    }
}

static void write_match(struct cdl_writer *words, struct cdl_slice value, const struct cdl_pattern *pattern)
{
    static const char *const verbs[] = {
        [CDL_PATTERN_EXACT] = " is ",
        [CDL_PATTERN_GLOB] = " matches ",
        [CDL_PATTERN_PATH] = " matches ",
        [CDL_PATTERN_NETWORK] = " is in ",
    };
    if (pattern->kind != CDL_PATTERN_EXACT) {
        cdl_write_text(words, " ");
        write_value(words, value);
    }
    cdl_write_text(words, verbs[pattern->kind]);
    write_value(words, pattern->text);
}

static void write_holding(struct cdl_view *view, const struct cdl_condition *condition, struct cdl_writer *words)
{
    size_t cursor = 0;
    struct cdl_slice value;
    cdl_write(words, condition->what.text);
    while (cdl_view_next(view, &condition->what, &cursor, &value))
        for (size_t i = 0; i < condition->count; i++)
            if (cdl_pattern_matches(&condition->any_of[i], value, &view->client)) {
                write_match(words, value, &condition->any_of[i]);
                return;
            }
}

static void write_conditions(struct cdl_view *view, const struct cdl_rule *rule, struct cdl_writer *words)
{
    for (size_t i = 0; i < rule->count; i++) {
        cdl_write_text(words, i == 0 ? "" : "; ");
        write_holding(view, &rule->conditions[i], words);
    }
}

static void write_failing(const struct cdl_account *account, struct cdl_writer *words)
{
    const struct cdl_condition *condition = account->condition;
    if (account->seen.length == 0) {
        cdl_write_text(words, "does not apply: the request has no ");
        cdl_write(words, condition->what.text);
        cdl_write_text(words, ", which has to be ");
    } else {
        cdl_write_text(words, "does not apply: ");
        cdl_write(words, condition->what.text);
        cdl_write_text(words, " is ");
        write_value(words, account->seen);
        cdl_write_text(words, ", not ");
    }
    write_patterns(words, condition);
}

static void write_refusal(const struct cdl_limit_rule *limit, const struct cdl_account *account,
                          struct cdl_writer *words)
{
    cdl_write_text(words, limit->mode == CDL_MODE_SHADOW ? "would refuse (shadow): " : "refuses: ");
    if (account->identified == CDL_IDENTIFIED) {
        cdl_write_text(words, "the key is too long");
        return;
    }
    cdl_write_text(words, account->identified == CDL_IDENTITY_MISSING ? "the request has no "
                                                                      : "the request has two different values of ");
    cdl_write(words, limit->per[account->identity].text);
    if (account->identified == CDL_IDENTITY_MISSING)
        cdl_write_text(words, ", and if_missing is deny");
}

void cdl_explain_why(struct cdl_view *view, uint32_t index, const struct cdl_account *account, struct cdl_writer *words)
{
    const struct cdl_limit_rule *limit = &view->policy->limits[index];
    size_t before = view->scratch->length;
    switch (account->kind) {
    case CDL_ACCOUNT_APPLIES:
        cdl_write_text(words, limit->when.count == 0 ? "applies to every request" : "applies: ");
        write_conditions(view, &limit->when, words);
        break;
    case CDL_ACCOUNT_REFUSES:
        write_refusal(limit, account, words);
        break;
    case CDL_ACCOUNT_SKIPS:
        cdl_write_text(words, "does not apply: the request has no ");
        cdl_write(words, limit->per[account->identity].text);
        cdl_write_text(words, ", and if_missing is skip");
        break;
    case CDL_ACCOUNT_CONDITION:
        write_failing(account, words);
        break;
    case CDL_ACCOUNT_TEMPLATE:
        cdl_write_text(words, "does not apply: path is ");
        write_value(words, account->seen);
        cdl_write_text(words, ", not of the form ");
        cdl_write(words, limit->per[account->identity].text);
        break;
    case CDL_ACCOUNT_OFF:
        cdl_write_text(words, "does not apply: its mode is off");
        break;
    }
    view->scratch->length = before;
}

void cdl_explain_exemption(struct cdl_view *view, uint32_t exemption, struct cdl_writer *words)
{
    size_t before = view->scratch->length;
    write_conditions(view, &view->policy->exemptions[exemption], words);
    view->scratch->length = before;
}

/* ------------------------------------------------------------------------------------------------------------ words */

const char *cdl_outcome_word(enum cdl_outcome outcome)
{
    switch (outcome) {
    case CDL_OUTCOME_LIMITED:
        return "limited";
    case CDL_OUTCOME_EXEMPT:
        return "exempt";
    case CDL_OUTCOME_MISSING:
        return "missing identity";
    case CDL_OUTCOME_AMBIGUOUS:
        return "ambiguous identity";
    case CDL_OUTCOME_TOO_LONG:
        return "key too long";
    case CDL_OUTCOME_TOO_MANY:
        break;
    }
    return "too many limits";
}

const char *cdl_mode_word(enum cdl_mode mode)
{
    static const char *const words[] = {"enforce", "shadow", "off"};
    return words[mode];
}

const char *cdl_sharing_word(enum cdl_sharing sharing)
{
    static const char *const words[] = {"strict", "leased", "local"};
    return words[sharing];
}
