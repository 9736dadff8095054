/* Any numbers as what a script answered, to any question about any limit.
 *
 * Another program may answer under our script's name, and a value that was damaged may lead the script astray. What is not an answer
 * must be found out; what is taken for one must be a decision that makes sense to whoever acts on it. The question goes through its
 * packing, too. */
#include <stdlib.h>
#include <string.h>

#include "store/redis/question.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(int condition)
{
    if (!condition)
        abort();
}

/* What the input is read as. */
struct input {
    uint64_t count, period_ns, burst;
    uint64_t minimum, more;
    int64_t charged_realtime_ns;
    uint64_t now_us;
    uint64_t whole; /* a bit for each number of the answer: given as a whole number */
    uint64_t answer[CDL_REDIS_ANSWER_NUMBERS];
    uint8_t algorithm, operation, spend, scale;
};

static const enum cdl_operation operations[] = {CDL_TAKE, CDL_PEEK, CDL_SETTLE, CDL_REFUND, CDL_UNDO};

static bool make_limit(const struct input *input, struct cdl_redis_limit *made)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    limit.algorithm = (enum caudal_algorithm)(input->algorithm % 4);
    limit.count = input->count;
    limit.period_ns = input->period_ns;
    if (limit.algorithm == CAUDAL_TOKEN_BUCKET && input->scale & 1)
        limit.burst = input->burst;
    if (input->scale & 2) /* most 64-bit numbers are beyond all bounds */
        limit.count %= 100000, limit.period_ns = (limit.period_ns % 100000000 + 1) * 1000;
    return caudal_limit_check(&limit, NULL) == CAUDAL_OK && cdl_redis_limit_make(&limit, made, NULL) == CAUDAL_OK;
}

static void require_sense(const struct caudal_decision *decision, const struct cdl_question *question)
{
    require(decision->status == CAUDAL_OK && decision->source == CAUDAL_SOURCE_STORE);
    require(decision->remaining <= decision->capacity && decision->granted <= decision->capacity);
    require(decision->granted <= question->maximum && decision->granted + decision->remaining <= decision->capacity);
    require(decision->granted == 0 || (question->operation == CDL_TAKE && decision->verdict == CAUDAL_ALLOW));
    require(decision->reset_after_ns >= -1);
    switch (decision->verdict) {
    case CAUDAL_ALLOW:
        require(decision->retry_after_ns == 0);
        return;
    case CAUDAL_DENY:
        require(decision->retry_after_ns > 0);
        return;
    case CAUDAL_NEVER:
        require(decision->retry_after_ns == -1);
        return;
    case CAUDAL_NO_VERDICT:
        break;
    }
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {0};
    memcpy(&input, data, size < sizeof input ? size : sizeof input);
    struct cdl_redis_limit limit;
    if (!make_limit(&input, &limit))
        return 0;
    struct cdl_question question = {.operation = operations[input.operation % 5],
                                    .minimum = input.minimum,
                                    .charged_realtime_ns = (int64_t)((uint64_t)input.charged_realtime_ns >> 1)};
    if (input.scale & 4)
        question.minimum %= 1000;
    if (__builtin_add_overflow(question.minimum, input.spend & 2 ? input.more : 0, &question.maximum))
        question.maximum = UINT64_MAX;
    char packed[CDL_REDIS_QUESTION_MAX];
    const size_t length = cdl_redis_question_pack(&limit, &question, packed);
    require(length >= 33 && length <= sizeof packed);

    double answer[CDL_REDIS_ANSWER_NUMBERS];
    for (size_t i = 0; i < CDL_REDIS_ANSWER_NUMBERS; i++) {
        if (input.whole >> i & 1)
            answer[i] = (double)(int64_t)(input.answer[i] >> (input.whole >> (8 + 8 * i) & 63)) - 1;
        else
            memcpy(&answer[i], &input.answer[i], sizeof answer[i]);
    }
    struct caudal_decision decision;
    if (cdl_redis_question_answer(&limit, &question, answer, (int64_t)(input.now_us >> 11), input.spend & 1, &decision))
        require_sense(&decision, &question);
    return 0;
}
