/* Reading the decision vectors, one scenario a line: steps with the decisions that every implementation must give. */
#ifndef TESTS_UNIT_VECTORS_H
#define TESTS_UNIT_VECTORS_H

#include <jansson.h>
#include <stdbool.h>

#include "caudal/store.h"

#define VECTOR_LIMITS_MAX 8

enum vector_action {
    VECTOR_TAKE,
    VECTOR_PEEK,
    VECTOR_REFUND,
    VECTOR_SET,
};

struct vector_want {
    enum caudal_verdict verdict;
    int64_t remaining, retry_after_ns, reset_after_ns;
};

struct vector_step {
    const char *scenario; /* its name, for messages */
    size_t index;
    int64_t now_ns;
    enum vector_action action;
    uint64_t amount;
    struct caudal_limit limit; /* VECTOR_SET */
    bool has_want;
    enum caudal_verdict overall; /* several limits */
    struct vector_want want[VECTOR_LIMITS_MAX];
};

/* What a scenario is run on. `begin` starts a fresh key under the limits, `step` plays one step and checks it. */
struct vector_player {
    void (*begin)(void *context, const struct caudal_limit *limits, size_t count);
    void (*step)(void *context, const struct vector_step *step);
    void *context;
};

/* Plays every scenario of a file whose (first) limit has the given algorithm, or all for -1. Fails the test when the file cannot
 * be read or has none. Returns how many steps were played. */
size_t vectors_play(const char *file, int algorithm, const struct vector_player *player);

/* Fails the test, naming scenario and step, unless the decision is the wanted one with waits within `slack_ns`. */
void vectors_check(const struct vector_step *step, const struct vector_want *want,
                   const struct caudal_decision *decision, int64_t slack_ns);

#endif
