/* What the scripts are asked and what they answer, in numbers.
 *
 * A script only adds and compares; the arithmetic that takes more than 53 bits is done here. Time is counted in microseconds, as the
 * store's clock is. A bucket of rate n/d tokens a microsecond (in lowest terms) takes d/n microseconds for a token, so instants and
 * debts are whole microseconds and a numerator over n, and no charge is ever rounded.
 *
 * docs/formats/redis.md describes both directions. */
#ifndef CDL_REDIS_QUESTION_H
#define CDL_REDIS_QUESTION_H

#include "algorithm/decide.h"
#include "store/redis/script.h"

/* A limit as the scripts know it. */
struct cdl_redis_limit {
    struct caudal_limit limit;
    char letter;   /* 'b', 'f', 'w', 'l'; 0: unlimited, which is never asked about */
    bool per_call; /* what is to be enforced comes with each question, and the rest is as of "unlimited" */
    uint64_t n, d; /* a bucket's rate; 0/1: no refill */
    uint64_t full,
        full_of; /* a bucket's capacity in microseconds and n-ths: from empty to full. Without refill in tokens */
    uint64_t period_us; /* of windows and logs */
};

/* CAUDAL_OK or CAUDAL_ERR_LIMIT: periods that are no whole microseconds for a window or a log, and rates whose lowest terms do not fit
 * 52 bits, cannot be counted exactly there. */
int cdl_redis_limit_make(const struct caudal_limit *limit, struct cdl_redis_limit *made,
                         struct caudal_problem *problem);

enum cdl_redis_script_kind cdl_redis_script_of(const struct cdl_redis_limit *limit);

/* Instants that the scripts are given, in nanoseconds: from 0 to before this. In microseconds, what is added to one stays whole. */
#define CDL_REDIS_NOW_MAX ((INT64_C(1) << 52) * 1000)

#define CDL_REDIS_QUESTION_MAX 73u /* a letter and nine numbers */
#define CDL_REDIS_ANSWER_NUMBERS 4u

/* The argument that asks `question` about a key of the limit. Returns its length. */
size_t cdl_redis_question_pack(const struct cdl_redis_limit *limit, const struct cdl_question *question,
                               char packed[CDL_REDIS_QUESTION_MAX]);

/* Whether the key passed: the first of its four numbers is not -1. */
static inline bool cdl_redis_answer_passes(const double answer[CDL_REDIS_ANSWER_NUMBERS])
{
    return answer[0] >= 0;
}

/* Fills in every field of the decision but binding and error_bound. With `spend` false the key passed and was not charged, because
 * another one refused: what it holds is told. False: these are not numbers that the script could have answered. */
bool cdl_redis_question_answer(const struct cdl_redis_limit *limit, const struct cdl_question *question,
                               const double answer[CDL_REDIS_ANSWER_NUMBERS], int64_t now_us, bool spend,
                               struct caudal_decision *decision);

#endif
