#include "vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum caudal_algorithm algorithm_of(const char *name)
{
    for (int i = 0; caudal_algorithm_name((enum caudal_algorithm)i) != NULL; i++)
        if (strcmp(caudal_algorithm_name((enum caudal_algorithm)i), name) == 0)
            return (enum caudal_algorithm)i;
    fail_msg("unknown algorithm '%s'", name);
    return CAUDAL_UNLIMITED;
}

static uint64_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static struct caudal_limit limit_of(const json_t *object)
{
    struct caudal_limit limit = CAUDAL_LIMIT_INIT;
    limit.algorithm = algorithm_of(json_string_value(json_object_get(object, "algorithm")));
    limit.count = number(object, "count");
    limit.period_ns = number(object, "period_ns");
    if (json_object_get(object, "burst") != NULL)
        limit.burst = number(object, "burst");
    return limit;
}

static enum caudal_verdict verdict_of(const json_t *object)
{
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    if (strcmp(verdict, "allow") == 0)
        return CAUDAL_ALLOW;
    return strcmp(verdict, "deny") == 0 ? CAUDAL_DENY : CAUDAL_NEVER;
}

static struct vector_want want_of(const json_t *object)
{
    return (struct vector_want){
        .verdict = verdict_of(object),
        .remaining = (int64_t)number(object, "remaining"),
        .retry_after_ns = (int64_t)number(object, "retry_after_ns"),
        .reset_after_ns = (int64_t)number(object, "reset_after_ns"),
    };
}

static void read_want(const json_t *want, struct vector_step *step)
{
    const json_t *each = json_object_get(want, "each");
    step->has_want = true;
    step->overall = verdict_of(want);
    if (each == NULL)
        step->want[0] = want_of(want);
    for (size_t i = 0; i < json_array_size(each); i++)
        step->want[i] = want_of(json_array_get(each, i));
}

static struct vector_step step_of(const json_t *object, const char *scenario, size_t index)
{
    static const struct {
        const char *name;
        enum vector_action action;
    } actions[] = {{"take", VECTOR_TAKE}, {"peek", VECTOR_PEEK}, {"refund", VECTOR_REFUND}, {"set", VECTOR_SET}};
    struct vector_step step = {.scenario = scenario, .index = index, .now_ns = (int64_t)number(object, "t")};
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        const json_t *value = json_object_get(object, actions[i].name);
        if (value == NULL)
            continue;
        step.action = actions[i].action;
        if (step.action == VECTOR_SET)
            step.limit = limit_of(value);
        else
            step.amount = number(object, actions[i].name);
    }
    const json_t *want = json_object_get(object, "want");
    if (want != NULL)
        read_want(want, &step);
    return step;
}

static size_t play_scenario(const json_t *scenario, int algorithm, const struct vector_player *player)
{
    const json_t *several = json_object_get(scenario, "limits"), *steps = json_object_get(scenario, "steps");
    struct caudal_limit limits[VECTOR_LIMITS_MAX];
    size_t count = several != NULL ? json_array_size(several) : 1;
    assert_in_range(count, 1, VECTOR_LIMITS_MAX);
    for (size_t i = 0; i < count; i++)
        limits[i] = limit_of(several != NULL ? json_array_get(several, i) : json_object_get(scenario, "limit"));
    if (algorithm >= 0 && limits[0].algorithm != (enum caudal_algorithm)algorithm)
        return 0;
    player->begin(player->context, limits, count);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        struct vector_step step = step_of(json_array_get(steps, i),
                                          json_string_value(json_object_get(scenario, "name")), i);
        player->step(player->context, &step);
    }
    return json_array_size(steps);
}

size_t vectors_play(const char *file, int algorithm, const struct vector_player *player)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", VECTORS_DIR, file);
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        fail_msg("cannot read %s", path);
    size_t played = 0;
    json_error_t error;
    json_t *scenario;
    while ((scenario = json_loadf(stream, JSON_DISABLE_EOF_CHECK, &error)) != NULL) {
        played += play_scenario(scenario, algorithm, player);
        json_decref(scenario);
    }
    assert_true(feof(stream));
    fclose(stream);
    assert_true(played > 0);
    return played;
}

static void check_number(const struct vector_step *step, const char *what, int64_t want, int64_t got, int64_t slack)
{
    if (got < want - slack || got > want + slack)
        fail_msg("'%s', step %zu: %s is %lld, want %lld", step->scenario, step->index, what, (long long)got,
                 (long long)want);
}

void vectors_check(const struct vector_step *step, const struct vector_want *want,
                   const struct caudal_decision *decision, int64_t slack_ns)
{
    check_number(step, "verdict", want->verdict, decision->verdict, 0);
    check_number(step, "remaining", want->remaining, (int64_t)decision->remaining, 0);
    check_number(step, "retry_after_ns", want->retry_after_ns, decision->retry_after_ns, slack_ns);
    check_number(step, "reset_after_ns", want->reset_after_ns, decision->reset_after_ns, slack_ns);
}
