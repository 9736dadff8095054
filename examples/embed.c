/* The smallest program that limits something: three requests at once, then one every two seconds, for each client.
 *
 *     cc embed.c $(pkg-config --cflags --libs caudal) && ./a.out
 */
#include <caudal/caudal.h>
#include <stdio.h>

int main(void)
{
    struct caudal_problem problem;
    struct caudal_store *store;
    struct caudal_limit limit;
    uint32_t per_client;
    if (caudal_limit_parse("30/minute burst 3", &limit, &problem) != CAUDAL_OK ||
        caudal_store_open("memory:?keys=10000", NULL, &store, &problem) != CAUDAL_OK ||
        caudal_add_limit(store, "per-client", &limit, &per_client, &problem) != CAUDAL_OK) {
        fprintf(stderr, "%s\n", problem.message);
        return 2;
    }
    for (int i = 1; i <= 5; i++) {
        struct caudal_decision decision;
        if (caudal_take(store, per_client, "203.0.113.7", 11, 1, &decision) != CAUDAL_OK)
            return 2;
        if (decision.verdict == CAUDAL_ALLOW)
            printf("request %d: allowed, %llu left\n", i, (unsigned long long)decision.remaining);
        else
            printf("request %d: refused, retry in %.3f s\n", i, (double)decision.retry_after_ns / 1e9);
    }
    caudal_store_close(store);
    return 0;
}
