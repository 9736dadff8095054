/* What the study of one request costs: nanoseconds for each call of cdl_study_note, the best of five rounds, for keys that are in the
 * cache (64) and for keys that are not (200,000). */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "replay/study.h"

#define ROUNDS 5
#define NOTES 2000000u
#define EPOCH_NS INT64_C(1764547200000000000)
#define SECOND_NS INT64_C(1000000000)

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

_Noreturn static void fail(const char *why)
{
    fprintf(stderr, "study_speed: %s\n", why);
    exit(1);
}

static uint64_t next(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Keys in no order, each at about half as much again as the limit's rate, with stamps of whole seconds. */
static double round_ns(const struct caudal_limit *limit, int64_t cell_ns, size_t keys)
{
    struct cdl_study_rule *rule = cdl_study_rule_new(limit, cell_ns, NULL);
    const size_t bytes = rule != NULL ? cdl_study_key_bytes(rule) : 1;
    unsigned char *states = calloc(keys, bytes);
    if (rule == NULL || states == NULL)
        fail("memory is short");
    const uint64_t step_ns = limit->period_ns / limit->count * 2 / 3 / keys;
    uint64_t random = 1, after_ns = 0;
    const double begin = cpu_s();
    for (uint32_t i = 0; i < NOTES; i++) {
        after_ns += step_ns;
        const int64_t at_ns = EPOCH_NS + (int64_t)(after_ns - (cell_ns > 0 ? after_ns % (uint64_t)cell_ns : 0));
        cdl_study_note(rule, states + next(&random) % keys * bytes, at_ns, 1);
    }
    const double ns = (cpu_s() - begin) / NOTES * 1e9;
    free(states);
    cdl_study_rule_free(rule);
    return ns;
}

static double best_ns(const struct caudal_limit *limit, int64_t cell_ns, size_t keys)
{
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        const double ns = round_ns(limit, cell_ns, keys);
        best = ns < best ? ns : best;
    }
    return best;
}

int main(void)
{
    static const char *const texts[] = {
        "100/min burst 20", "10/s", "100/min fixed_window", "100/min sliding_window", "100/min sliding_log", "5003/h"};
    printf("%-26s %6s %14s %14s %14s\n", "limit", "bytes", "64 keys", "without bounds", "200,000 keys");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct caudal_limit limit;
        if (caudal_limit_parse(texts[i], &limit, NULL) != CAUDAL_OK)
            fail(texts[i]);
        struct cdl_study_rule *rule = cdl_study_rule_new(&limit, SECOND_NS, NULL);
        if (rule == NULL)
            fail("memory is short");
        printf("%-26s %6zu %11.1f ns %11.1f ns %11.1f ns\n", texts[i], cdl_study_key_bytes(rule),
               best_ns(&limit, SECOND_NS, 64), best_ns(&limit, 0, 64), best_ns(&limit, SECOND_NS, 200000));
        cdl_study_rule_free(rule);
    }
    return 0;
}
