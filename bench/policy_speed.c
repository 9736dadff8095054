/* Does a decision cost more when a policy has more limits that do not match? policy_speed ROUNDS [KIND]
 *
 * Policies of 10, 100, 1,000 and 10,000 limits, of which one matches each request: by the first segments of the path, by the host, by a
 * header's value, by a path and a method together. They are asked in turns within one run, after a round of warm-up. A line of JSON for
 * each kind, or the one that is named: nanoseconds of processor time of a decision by the limiter, matching and charging included, by the number of limits, round
 * by round. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "limiter/limiter.h"
#include "policy/match.h"

#define SIZES 4u
#define ROUNDS_MAX 101u
#define ASKS 200000u

static const unsigned sizes[SIZES] = {10, 100, 1000, 10000};

/* How limits tell whom they apply to: a format with the limit's number, and the request that the number 7 matches. */
struct kind {
    const char *name, *when;
    struct cdl_request request;
    struct cdl_field header;
};

static struct kind kinds[] = {
    {"path", "{path: /v1/service%u/*}", {.path = CDL_SLICE("/v1/service7/items")}, {{NULL, 0}, {NULL, 0}}},
    {"host",
     "{host: h%u.example.org}",
     {.host = CDL_SLICE("h7.example.org"), .path = CDL_SLICE("/")},
     {{NULL, 0}, {NULL, 0}}},
    {"header", "{header.x-plan: plan%u}", {.path = CDL_SLICE("/")}, {CDL_SLICE("x-plan"), CDL_SLICE("plan7")}},
    {"path and method",
     "{method: POST, path: /v1/service%u}",
     {.path = CDL_SLICE("/v1/service7")},
     {{NULL, 0}, {NULL, 0}}},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

_Noreturn static void fail(const char *why)
{
    fprintf(stderr, "policy_speed: %s\n", why);
    exit(1);
}

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static struct cdl_policy *make_policy(const struct kind *kind, unsigned limits)
{
    static struct cdl_report report;
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (to == NULL)
        fail("no memory");
    fprintf(to, "limits:\n");
    for (unsigned i = 0; i < limits; i++) {
        char when[100];
        snprintf(when, sizeof when, kind->when, i);
        fprintf(to, "  - {name: l%u, when: %s, per: client_ip, rate: 1000000000/s}\n", i, when);
    }
    fclose(to);
    struct cdl_policy *policy = cdl_policy_load_text("policy", (struct cdl_slice){text, length}, NULL, &report);
    free(text);
    if (policy == NULL)
        fail(report.findings[0].text);
    return policy;
}

struct bed {
    struct caudal_store *store;
    struct cdl_limiter *limiter;
    struct cdl_live_policy *live;
};

static struct bed open_bed(const struct kind *kind, unsigned limits)
{
    struct bed bed;
    struct caudal_problem problem;
    if (caudal_store_open("memory:?keys=100000", NULL, &bed.store, &problem) != CAUDAL_OK)
        fail(problem.message);
    bed.limiter = cdl_limiter_open(bed.store);
    if (bed.limiter == NULL || cdl_limiter_apply(bed.limiter, make_policy(kind, limits), NULL, &problem) != CAUDAL_OK)
        fail("no limiter");
    bed.live = cdl_limiter_acquire(bed.limiter);
    return bed;
}

static void close_bed(struct bed *bed)
{
    cdl_limiter_release(bed->live);
    cdl_limiter_close(bed->limiter);
    caudal_store_close(bed->store);
}

static double measure(struct bed *bed, struct kind *kind)
{
    static char scratch[CDL_MATCH_SCRATCH_BYTES];
    static struct cdl_asker asker = {.scratch = scratch};
    struct cdl_request request = kind->request;
    request.method = CDL_SLICE("POST");
    request.headers = &kind->header;
    request.header_count = kind->header.name.length > 0;
    const double begin = cpu_ns();
    for (unsigned i = 0; i < ASKS; i++) {
        const uint8_t bytes[4] = {192, 0, 2, (uint8_t)i};
        request.client = cdl_address_from_bytes(bytes, sizeof bytes);
        cdl_limiter_ask(&asker, bed->live, &request, CDL_ASK_TAKE, CDL_COST_UNSAID);
        if (asker.answer.plan.count != 1)
            fail("another number of limits than one matched");
    }
    return (cpu_ns() - begin) / ASKS;
}

static void take_turns(struct kind *kind, unsigned rounds)
{
    static double ns[SIZES][ROUNDS_MAX + 1];
    struct bed beds[SIZES];
    for (unsigned s = 0; s < SIZES; s++)
        beds[s] = open_bed(kind, sizes[s]);
    for (unsigned round = 0; round <= rounds; round++)
        for (unsigned s = 0; s < SIZES; s++)
            ns[s][round] = measure(&beds[s], kind);
    printf("{\"kind\": \"%s\"", kind->name);
    for (unsigned s = 0; s < SIZES; s++) {
        printf(", \"%u\": [", sizes[s]);
        for (unsigned round = 1; round <= rounds; round++)
            printf("%s%.1f", round > 1 ? ", " : "", ns[s][round]);
        putchar(']');
        close_bed(&beds[s]);
    }
    printf("}\n");
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    if (rounds == 0 || rounds > ROUNDS_MAX)
        fail("usage: policy_speed ROUNDS [KIND], of at most 101 rounds");
    for (size_t i = 0; i < KINDS; i++)
        if (argc < 3 || strcmp(argv[2], kinds[i].name) == 0)
            take_turns(&kinds[i], rounds);
    return 0;
}
