/* A policy in words: what a limit promises, and why it applies to a request or not. */
#ifndef CDL_POLICY_EXPLAIN_H
#define CDL_POLICY_EXPLAIN_H

#include "policy/match_parts.h"

/* What a rate promises, by its bound: "at most 100 at once, then 1.67 a second; up to 200 in one minute". The bound
 * is exact; rates and intervals that are no short decimal are rounded to two places. */
void cdl_explain_rate(const struct caudal_limit *limit, struct cdl_writer *words);
#define CDL_EXPLAIN_RATE_MAX 320 /* bytes: always enough */

/* Where a rate of the policy is counted, and what that adds to its promise: "leased: ...; up to B + r*(t + ttl) over all
 * instances: 210 in one minute". */
void cdl_explain_sharing(const struct cdl_policy *policy, uint32_t rate, struct cdl_writer *words);
#define CDL_EXPLAIN_SHARING_MAX 320 /* bytes: always enough */

enum cdl_account_kind {
    CDL_ACCOUNT_APPLIES,
    CDL_ACCOUNT_REFUSES, /* without asking the store: see `identified`, or the key is too long */
    CDL_ACCOUNT_SKIPS,   /* it lacks an identity, and the limit does not apply then */
    CDL_ACCOUNT_CONDITION,
    CDL_ACCOUNT_TEMPLATE, /* the path is not of the form in `per` */
    CDL_ACCOUNT_OFF,
};

/* How one limit takes one request. */
struct cdl_account {
    enum cdl_account_kind kind;
    enum cdl_identified identified;
    const struct cdl_condition *condition; /* the first that does not hold */
    uint32_t identity;                     /* in `per`: what is missing, ambiguous or not of its form */
    struct cdl_slice seen;                 /* the value that does not satisfy; empty: there is none */
    struct cdl_slice values[CDL_PER_MAX];  /* of `per`, when it applies */
    struct cdl_slice key;
    uint32_t override, rate;
    uint64_t cost;
};

/* Values are borrowed from the request and the view's scratch. */
void cdl_explain_limit(struct cdl_view *view, uint32_t limit, uint64_t cost, struct cdl_account *account);

/* Why: "applies: method POST is one of POST, PUT, DELETE; path /v1/x matches ...", in one line of printable text. */
void cdl_explain_why(struct cdl_view *view, uint32_t limit, const struct cdl_account *account,
                     struct cdl_writer *words);

/* Why a request is exempt, in the same manner. */
void cdl_explain_exemption(struct cdl_view *view, uint32_t exemption, struct cdl_writer *words);

/* Words for what a policy says: "limited", "missing identity", ...; "enforce", ...; "strict", ... */
const char *cdl_outcome_word(enum cdl_outcome outcome);
const char *cdl_mode_word(enum cdl_mode mode);
const char *cdl_sharing_word(enum cdl_sharing sharing);

/* Bytes as printable ASCII: others as \xNN, and a backslash twice. */
void cdl_write_printable(struct cdl_writer *writer, struct cdl_slice bytes);

#endif
