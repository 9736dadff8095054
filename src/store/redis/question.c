#include "store/redis/question.h"

#include <endian.h>
#include <string.h>

#include "algorithm/window.h"
#include "base/problem.h"

#define NUMBER_MAX (UINT64_C(1) << 52) /* what the scripts can add twice */
#define NS_PER_US UINT64_C(1000)

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b > 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---- limits ---- */

/* What `tokens` take to come: whole microseconds and n-ths. */
static void time_of(const struct cdl_redis_limit *limit, uint64_t tokens, uint64_t *us, uint64_t *of)
{
    if (limit->n == 0) {
        *us = cdl_min_u64(tokens, NUMBER_MAX);
        *of = 0;
        return;
    }
    const cdl_u128 time = (cdl_u128)tokens * limit->d;
    *us = NUMBER_MAX;
    *of = 0;
    if (time / limit->n < NUMBER_MAX) {
        *us = (uint64_t)(time / limit->n);
        *of = (uint64_t)(time % limit->n);
    }
}

/* count / period_ns · 1000, in lowest terms. A bucket's count may be as large as its period in nanoseconds is, so the product need not
 * fit 64 bits. False: it does not fit NUMBER_MAX. */
static bool set_rate(struct cdl_redis_limit *made)
{
    const uint64_t count = made->limit.count, period = made->limit.period_ns;
    made->n = 0;
    made->d = 1;
    if (count == 0)
        return true;
    const uint64_t common = gcd(count, period), thousands = gcd(period / common, NS_PER_US);
    const cdl_u128 n = (cdl_u128)(count / common) * (NS_PER_US / thousands);
    made->n = (uint64_t)n;
    made->d = period / common / thousands;
    return n <= NUMBER_MAX && made->d <= NUMBER_MAX;
}

static int make_bucket(struct cdl_redis_limit *made, struct caudal_problem *problem)
{
    made->letter = 'b';
    if (set_rate(made)) {
        time_of(made, caudal_limit_capacity(&made->limit), &made->full, &made->full_of);
        if (made->full < NUMBER_MAX)
            return CAUDAL_OK;
    }
    return cdl_problem(
        problem, CAUDAL_ERR_LIMIT, 0,
        "a store that counts in microseconds cannot keep this rate exactly; use a period of whole microseconds");
}

int cdl_redis_limit_make(const struct caudal_limit *limit, struct cdl_redis_limit *made, struct caudal_problem *problem)
{
    *made = (struct cdl_redis_limit){.limit = *limit};
    switch (limit->algorithm) {
    case CAUDAL_UNLIMITED:
        return CAUDAL_OK;
    case CAUDAL_TOKEN_BUCKET:
        return make_bucket(made, problem);
    case CAUDAL_FIXED_WINDOW:
        made->letter = 'f';
        break;
    case CAUDAL_SLIDING_WINDOW:
        made->letter = 'w';
        break;
    case CAUDAL_SLIDING_LOG:
        made->letter = 'l';
        break;
    }
    made->period_us = limit->period_ns / NS_PER_US;
    if (limit->period_ns % NS_PER_US == 0)
        return CAUDAL_OK;
    return cdl_problem(problem, CAUDAL_ERR_LIMIT, 0,
                       "a store that counts in microseconds cannot keep this window exactly; use whole microseconds");
}

enum cdl_redis_script_kind cdl_redis_script_of(const struct cdl_redis_limit *limit)
{
    return limit->letter == 'b' ? CDL_SCRIPT_BUCKET : limit->letter == 'l' ? CDL_SCRIPT_LOG : CDL_SCRIPT_WINDOW;
}

/* ---- questions ---- */

static bool gives_back(const struct cdl_question *question)
{
    return question->operation == CDL_REFUND || question->operation == CDL_UNDO;
}

struct packer {
    char *bytes;
    size_t length;
};

/* As struct.pack's "<d": the eight bytes of a double, lowest first. */
static void pack(struct packer *packer, uint64_t number)
{
    const double value = (double)number;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = htole64(bits);
    memcpy(packer->bytes + packer->length, &bits, sizeof bits);
    packer->length += sizeof bits;
}

static void pack_bucket(struct packer *packer, const struct cdl_redis_limit *limit, const struct cdl_question *question)
{
    const bool giving_back = gives_back(question);
    uint64_t us, of;
    pack(packer, limit->n);
    pack(packer, limit->d);
    pack(packer, limit->full);
    pack(packer, limit->full_of);
    time_of(limit, giving_back ? question->maximum : question->minimum, &us, &of);
    pack(packer, us);
    pack(packer, of);
    if (question->operation == CDL_UNDO) {
        pack(packer, (uint64_t)question->charged_realtime_ns / NS_PER_US);
        pack(packer, 0);
        pack(packer, 0);
    } else if (!giving_back && question->maximum != question->minimum) {
        const uint64_t most = cdl_min_u64(question->maximum, caudal_limit_capacity(&limit->limit));
        time_of(limit, most, &us, &of);
        pack(packer, most);
        pack(packer, us);
        pack(packer, of);
    }
}

size_t cdl_redis_question_pack(const struct cdl_redis_limit *limit, const struct cdl_question *question,
                               char packed[CDL_REDIS_QUESTION_MAX])
{
    struct packer packer = {packed, 1};
    packed[0] = limit->letter;
    if (limit->letter == 'b') {
        pack_bucket(&packer, limit, question);
        return packer.length;
    }
    const bool giving_back = gives_back(question);
    pack(&packer, limit->limit.count);
    pack(&packer, limit->period_us);
    pack(&packer, cdl_min_u64(giving_back ? question->maximum : question->minimum, NUMBER_MAX));
    pack(&packer, question->operation == CDL_UNDO ? (uint64_t)question->charged_realtime_ns / NS_PER_US
                                                  : cdl_min_u64(question->maximum, NUMBER_MAX));
    return packer.length;
}

/* ---- answers ---- */

/* A whole number below 2^53 that is not negative. */
static bool read_number(double number, uint64_t *value)
{
    if (!(number >= 0 && number < 9007199254740992.0))
        return false;
    *value = (uint64_t)number;
    return (double)*value == number;
}

static cdl_u128 divide_up(cdl_u128 a, cdl_u128 b)
{
    return a / b + (a % b != 0);
}

static bool answer_bucket(const struct cdl_redis_limit *limit, const struct cdl_question *question,
                          const double answer[CDL_REDIS_ANSWER_NUMBERS], struct caudal_decision *decision)
{
    uint64_t us, of, finer;
    if (!read_number(answer[1], &us) || !read_number(answer[2], &of) || !read_number(answer[3], &finer) || finer == 0)
        return false;
    /* All in parts of a microsecond, of which a whole one has `one`; without refill in parts of a token. */
    const cdl_u128 one = (cdl_u128)(limit->n == 0 ? 1 : limit->n) * finer, token = (cdl_u128)limit->d * finer;
    if (one > NUMBER_MAX || token > NUMBER_MAX || of >= one)
        return false;
    const cdl_u128 full = limit->full * one + (cdl_u128)limit->full_of * finer;
    cdl_u128 debt = us * one + of;
    if (decision->verdict == CAUDAL_ALLOW)
        debt += decision->granted * token;
    if (decision->verdict == CAUDAL_ALLOW && debt > full && !gives_back(question))
        return false; /* it would not have passed */
    decision->capacity = caudal_limit_capacity(&limit->limit);
    decision->remaining = debt < full ? (uint64_t)((full - debt) / token) : 0;
    decision->reset_after_ns = debt == 0       ? 0
                               : limit->n == 0 ? -1
                                               : cdl_clamp_i64((cdl_i128)divide_up(debt * NS_PER_US, one));
    if (decision->verdict == CAUDAL_DENY && limit->n == 0) {
        decision->verdict = CAUDAL_NEVER;
        decision->retry_after_ns = -1;
    }
    if (decision->verdict != CAUDAL_DENY)
        return true;
    const cdl_u128 wanted = debt + question->minimum * token;
    if (wanted <= full)
        return false; /* it would have passed */
    decision->retry_after_ns = cdl_clamp_i64((cdl_i128)divide_up((wanted - full) * NS_PER_US, one));
    return true;
}

static bool answer_log(const struct cdl_redis_limit *limit, const struct cdl_question *question,
                       const double answer[CDL_REDIS_ANSWER_NUMBERS], struct caudal_decision *decision)
{
    uint64_t used, left, wait;
    if (!read_number(answer[1], &used) || !read_number(answer[2], &left) || !read_number(answer[3], &wait))
        return false;
    const bool allows = decision->verdict == CAUDAL_ALLOW, spends = allows && decision->granted > 0;
    used += spends ? decision->granted : 0;
    if (left > limit->period_us || wait > limit->period_us || (decision->verdict == CAUDAL_DENY && wait == 0) ||
        (allows && used > limit->limit.count && !gives_back(question)))
        return false;
    decision->capacity = limit->limit.count;
    decision->remaining = used < limit->limit.count ? limit->limit.count - used : 0;
    decision->reset_after_ns = (int64_t)((spends ? limit->period_us : left) * NS_PER_US);
    if (decision->verdict == CAUDAL_DENY)
        decision->retry_after_ns = (int64_t)(wait * NS_PER_US);
    return true;
}

/* The core's own function, on the state that the script found. It must come to what the script decided. */
static bool answer_window(const struct cdl_redis_limit *limit, const struct cdl_question *question,
                          const double answer[CDL_REDIS_ANSWER_NUMBERS], int64_t now_us,
                          struct caudal_decision *decision)
{
    const struct cdl_window_rule rule = {limit->limit.count, (int64_t)limit->limit.period_ns, limit->letter == 'w'};
    uint64_t index, previous, current;
    if (!read_number(answer[1], &index) || !read_number(answer[2], &previous) || !read_number(answer[3], &current))
        return false;
    const enum caudal_verdict verdict = decision->verdict;
    const uint64_t granted = question->operation == CDL_TAKE ? decision->granted : 0;
    struct cdl_window_state state = {(int64_t)index, previous, current};
    cdl_window_decide(&rule, now_us * (int64_t)NS_PER_US, false, &state, question, decision);
    return decision->verdict == verdict && decision->granted == granted;
}

bool cdl_redis_question_answer(const struct cdl_redis_limit *limit, const struct cdl_question *question,
                               const double answer[CDL_REDIS_ANSWER_NUMBERS], int64_t now_us, bool spend,
                               struct caudal_decision *decision)
{
    const struct cdl_question look = cdl_question_peek(0), nothing_back = {.operation = CDL_REFUND};
    const bool plain = limit->letter == 'b' && question->minimum == question->maximum;
    uint64_t granted = 0;
    *decision = (struct caudal_decision){.verdict = CAUDAL_ALLOW};
    if (gives_back(question))
        question = &nothing_back;
    else if (!cdl_redis_answer_passes(answer))
        decision->verdict = question->minimum > caudal_limit_capacity(&limit->limit) ? CAUDAL_NEVER : CAUDAL_DENY;
    else if (!spend)
        question = &look;
    else if (plain)
        granted = question->minimum;
    else if (!read_number(answer[0], &granted) || granted < question->minimum || granted > question->maximum)
        return false;
    decision->granted = granted;
    if (decision->verdict == CAUDAL_NEVER)
        decision->retry_after_ns = -1;
    const bool good = limit->letter == 'b'   ? answer_bucket(limit, question, answer, decision)
                      : limit->letter == 'l' ? answer_log(limit, question, answer, decision)
                                             : answer_window(limit, question, answer, now_us, decision);
    if (question->operation != CDL_TAKE)
        decision->granted = 0;
    return good;
}
