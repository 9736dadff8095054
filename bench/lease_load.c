/* Asks one hot key of a store as fast as it answers, through the client that a loop has, for bench/leases.py:
 *
 *     lease_load URL LIMIT TTL_MS SECONDS
 *
 * TTL_MS 0: every decision in the store; otherwise the limit is leased for so long. As many calls as a busy worker has under way wait at
 * once. Prints one line: seconds, decisions, admitted, decisions by lease, refusals from memory, times that the store was asked, and the
 * 50th and 99th percentile of a decision that is made within the call, in nanoseconds (0: there was none). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics/histogram.h"
#include "store/lease/lease_store.h"
#include "store/redis/blocking.h"

#define CALLS 64u
#define TIMED_OF 16u  /* one of so many is timed, for reading a clock twice takes as long as a decision */
#define AT_ONCE 4096u /* decisions within one turn of the loop: a worker looks at its sockets in between */

struct question {
    struct cdl_call call;
    struct caudal_request request;
    struct cdl_question question;
    struct caudal_decision decision;
    struct question *next;
};

static struct question questions[CALLS];
static struct question *idle;
static struct cdl_histogram histogram;
static uint64_t decisions, admitted, failed;
static bool is_over; /* what is under way when the client is closed fails, and is not counted */

static void fail(const char *what, const struct caudal_problem *problem)
{
    fprintf(stderr, "lease_load: %s: %s\n", what, problem->message);
    exit(1);
}

static int64_t now_ns(void)
{
    const struct caudal_clock *clock = caudal_clock_system();
    return clock->monotonic_ns(clock->context);
}

static void count(const struct question *question)
{
    decisions++;
    admitted += question->decision.verdict == CAUDAL_ALLOW;
    failed += question->decision.status != CAUDAL_OK;
}

static void on_done(struct cdl_call *call)
{
    struct question *question = call->context;
    if (!is_over)
        count(question);
    question->next = idle;
    idle = question;
}

static void prepare(uint32_t limit)
{
    for (unsigned i = 0; i < CALLS; i++) {
        struct question *question = &questions[i];
        question->request = (struct caudal_request){limit, "hot", 3, 1};
        question->question = cdl_question_take(1);
        question->next = idle;
        idle = question;
    }
}

/* Asks until nothing is idle, or for one turn. */
static void ask(struct caudal_store *store, struct cdl_store_client *client)
{
    for (unsigned n = 0; n < AT_ONCE && idle != NULL; n++) {
        struct question *question = idle;
        idle = question->next;
        question->call = (struct cdl_call){.requests = &question->request,
                                           .questions = &question->question,
                                           .decisions = &question->decision,
                                           .count = 1,
                                           .done = on_done,
                                           .context = question};
        const bool is_timed = n % TIMED_OF == 0;
        const int64_t began_ns = is_timed ? now_ns() : 0;
        if (!cdl_store_ask(store, client, &question->call))
            continue;
        if (is_timed)
            cdl_histogram_record(&histogram, now_ns() - began_ns);
        on_done(&question->call);
    }
}

static void flush_client(void *client)
{
    cdl_store_client_flush(client);
}

static void client_ready(void *client, struct cdl_socket *socket, unsigned events)
{
    cdl_store_client_ready(client, socket, events);
}

static void client_time(void *client, int64_t at_ns)
{
    cdl_store_client_time(client, at_ns);
}

static void client_found(void *client, struct cdl_lookup_request *request, const struct sockaddr *address,
                         socklen_t length)
{
    cdl_store_client_found(client, request, address, length);
}

static uint64_t run(struct caudal_store *store, int64_t duration_ns)
{
    struct cdl_poll_loop *loop = NULL;
    struct cdl_store_client *client = NULL;
    if (cdl_store_answers_later(store)) {
        loop = cdl_poll_loop_open(&store->allocator);
        const struct cdl_loop_hooks hooks = cdl_poll_loop_hooks(loop);
        client = cdl_store_client_open(store, &hooks);
    }
    const struct cdl_turning turning = {client, flush_client, client_ready, client_time, client_found};
    const int64_t began_ns = now_ns();
    while (now_ns() < began_ns + duration_ns) {
        ask(store, client);
        if (client != NULL)
            cdl_poll_loop_turn(loop, &turning, idle == NULL);
    }
    const uint64_t took_ns = (uint64_t)(now_ns() - began_ns);
    is_over = true;
    if (client != NULL) {
        cdl_store_client_close(client);
        cdl_poll_loop_close(loop);
    }
    return took_ns;
}

int main(int argc, char **argv)
{
    struct caudal_problem problem;
    struct caudal_limit limit;
    struct caudal_store *store;
    uint32_t id;
    if (argc != 5) {
        fprintf(stderr, "usage: lease_load URL LIMIT TTL_MS SECONDS\n");
        return 2;
    }
    if (caudal_limit_parse(argv[2], &limit, &problem) != CAUDAL_OK)
        fail(argv[2], &problem);
    if (caudal_store_open(argv[1], NULL, &store, &problem) != CAUDAL_OK)
        fail(argv[1], &problem);
    if (caudal_add_limit(store, "bench", &limit, &id, &problem) != CAUDAL_OK)
        fail(argv[2], &problem);
    struct caudal_lease lease = CAUDAL_LEASE_INIT;
    lease.ttl_ns = strtoll(argv[3], NULL, 10) * 1000000;
    if (lease.ttl_ns > 0 && caudal_lease_limit(store, id, &lease, &problem) != CAUDAL_OK)
        fail(argv[3], &problem);
    prepare(id);
    const uint64_t took_ns = run(store, strtoll(argv[4], NULL, 10) * CDL_NS_PER_S);
    struct cdl_lease_counts counts;
    static struct cdl_histogram_snapshot snapshot;
    cdl_store_lease_counts(store, &counts);
    cdl_histogram_add(&snapshot, &histogram);
    printf("%.6f %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           (double)took_ns / CDL_NS_PER_S, decisions, admitted, counts.by_lease, counts.by_refusal, counts.store_calls,
           cdl_histogram_quantile_ns(&snapshot, 500000), cdl_histogram_quantile_ns(&snapshot, 990000));
    caudal_store_close(store);
    if (failed > 0)
        fprintf(stderr, "lease_load: %" PRIu64 " decisions failed\n", failed);
    return failed > 0;
}
