/* Any bytes as the text of a limit.
 *
 * What is read must be legal and come back the same after it was written; what is refused must say why, in one whole
 * line, and point into the text. The text sits in memory of exactly its size, so that AddressSanitizer sees a look
 * beyond its end.
 */
#include <stdlib.h>
#include <string.h>

#include "caudal/limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(int condition)
{
    if (!condition)
        abort();
}

static int same(const struct caudal_limit *a, const struct caudal_limit *b)
{
    return a->size == b->size && a->algorithm == b->algorithm && a->count == b->count && a->period_ns == b->period_ns &&
           a->burst == b->burst;
}

static void require_round_trip(const struct caudal_limit *limit)
{
    require(caudal_limit_check(limit, NULL) == CAUDAL_OK);
    char text[CAUDAL_LIMIT_TEXT_MAX];
    int length = caudal_limit_format(limit, text, sizeof text);
    require(length > 0 && (size_t)length < sizeof text && strlen(text) == (size_t)length);
    struct caudal_limit again;
    require(caudal_limit_parse(text, &again, NULL) == CAUDAL_OK);
    require(same(limit, &again));
}

static void require_explanation(const struct caudal_problem *problem, int status, size_t length)
{
    require(status == CAUDAL_ERR_SYNTAX || status == CAUDAL_ERR_LIMIT);
    require(problem->code == status);
    require(problem->position <= length);
    size_t said = strnlen(problem->message, sizeof problem->message);
    require(said > 0 && said < sizeof problem->message - 1); /* one byte of room left: it was not cut */
    for (size_t i = 0; i < said; i++)
        require(problem->message[i] >= ' ' && problem->message[i] < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';

    struct caudal_limit limit;
    struct caudal_problem problem;
    int status = caudal_limit_parse(text, &limit, &problem);
    if (status == CAUDAL_OK)
        require_round_trip(&limit);
    else
        require_explanation(&problem, status, strlen(text));
    free(text);
    return 0;
}
