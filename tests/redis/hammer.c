/* Takes from a store by several threads at once, round after round: for tests that need more haste than python has.
 *
 *     hammer URL LIMIT DEADLINE_MS THREADS
 *
 * Each line of its input is a round, "KEY TAKES START": its threads wait for the instant START (nanoseconds of the monotonic
 * clock, which all processes of a machine share), take TAKES times one token from KEY between them, and a line
 * "ALLOWED DENIED FAILED" answers. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <caudal/store.h>

enum {
    THREADS_MAX = 64,
};

static struct caudal_store *store;
static uint32_t limit_id;

/* A round. */
static char key[128];
static int64_t start_ns;
static atomic_long left, allowed, denied, failed;

static void *work(void *unused)
{
    const struct timespec start = {.tv_sec = start_ns / 1000000000, .tv_nsec = start_ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL);
    while (atomic_fetch_sub(&left, 1) > 0) {
        struct caudal_decision decision;
        const int status = caudal_take(store, limit_id, key, strlen(key), 1, &decision);
        atomic_long *which = status != CAUDAL_OK ? &failed : decision.verdict == CAUDAL_ALLOW ? &allowed : &denied;
        atomic_fetch_add(which, 1);
    }
    return unused;
}

static void open_store(const char *url, const char *limit_text, const char *deadline_ms)
{
    struct caudal_problem problem = {0};
    struct caudal_limit limit;
    struct caudal_store_options options = {.size = sizeof options,
                                           .deadline_ns = strtoll(deadline_ms, NULL, 10) * 1000000};
    if (caudal_limit_parse(limit_text, &limit, &problem) != CAUDAL_OK ||
        caudal_store_open(url, &options, &store, &problem) != CAUDAL_OK ||
        caudal_add_limit(store, "hammered", &limit, &limit_id, &problem) != CAUDAL_OK) {
        fprintf(stderr, "hammer: %s\n", problem.message);
        exit(1);
    }
}

int main(int count, char **words)
{
    const int threads = count == 5 ? atoi(words[4]) : 0;
    if (threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: hammer URL LIMIT DEADLINE_MS THREADS\n");
        return 2;
    }
    open_store(words[1], words[2], words[3]);
    long takes;
    while (scanf("%127s %ld %" SCNd64, key, &takes, &start_ns) == 3) {
        pthread_t crew[THREADS_MAX];
        atomic_store(&left, takes);
        atomic_store(&allowed, 0);
        atomic_store(&denied, 0);
        atomic_store(&failed, 0);
        for (int i = 0; i < threads; i++)
            if (pthread_create(&crew[i], NULL, work, NULL) != 0)
                return 1;
        for (int i = 0; i < threads; i++)
            pthread_join(crew[i], NULL);
        printf("%ld %ld %ld\n", atomic_load(&allowed), atomic_load(&denied), atomic_load(&failed));
        fflush(stdout);
    }
    caudal_store_close(store);
    return 0;
}
