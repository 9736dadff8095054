/* Whatever servers do, and in whatever order: every call ends once, at its deadline at the latest; none is executed twice; one that
 * succeeded was executed, and one that is said not to have been was not. Nothing leaks, connections stay bounded, and when the servers
 * behave again so does the client.
 *
 * Servers are stopped, muted, killed, restarted, they hang up, cut replies and answer with errors, all by chance. */
#include <stdlib.h>

#include "fake_redis.h"

#define PROBES 64u
#define CONNECTIONS 2u

static struct rng rng;
static struct probe probes[PROBES];
static unsigned keys;

static bool chance(unsigned one_in)
{
    return rng_below(&rng, one_in) == 0;
}

static struct server *any_server(void)
{
    return &redis.servers[rng_below(&rng, SERVERS_MAX)];
}

/* ---- what servers say of each other ---- */

static const char *map_of(const struct server *low, const struct server *high)
{
    static char texts[64][256];
    static unsigned next;
    char *text = texts[next++ % COUNT_OF(texts)];
    snprintf(text, sizeof texts[0],
             "*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n$1\r\nx\r\n"
             "*3\r\n:8192\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n$1\r\ny\r\n",
             low->port, high->port);
    return text;
}

static const char *name_of(const struct server *server)
{
    static char texts[64][64];
    static unsigned next;
    char *text = texts[next++ % COUNT_OF(texts)], port[8];
    snprintf(port, sizeof port, "%u", server->port);
    snprintf(text, sizeof texts[0], "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    return text;
}

static const char *redirection(const char *word)
{
    static char texts[4 * CANNED_MAX * SERVERS_MAX][64];
    static unsigned next;
    char *text = texts[next++ % COUNT_OF(texts)];
    snprintf(text, sizeof texts[0], "-%s %u %s:%u\r\n", word, (unsigned)rng_below(&rng, 16384),
             chance(2) ? "127.0.0.1" : "", any_server()->port);
    return text;
}

static void rearrange(void)
{
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        redis.servers[i].slots = map_of(any_server(), any_server());
        redis.servers[i].primary = chance(5) ? "*-1\r\n" : name_of(&redis.servers[2 + rng_below(&rng, 2)]);
        redis.servers[i].role = chance(4) ? "slave" : NULL;
    }
}

/* ---- faults ---- */

static const char *any_reply(void)
{
    static const char *const replies[] = {
        "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-NOREPLICAS Not enough good replicas to write.\r\n",
        "-ERR no\r\n",
        HANG_UP,
        "\r\n",
    };
    const uint64_t which = rng_below(&rng, COUNT_OF(replies) + 4);
    if (which >= COUNT_OF(replies))
        return redirection(chance(2) ? "MOVED" : "ASK");
    return replies[which];
}

static void disturb(struct server *server)
{
    switch (rng_below(&rng, 10)) {
    case 0:
        server->stopped = !server->stopped;
        break;
    case 1:
        server->mute = !server->mute;
        break;
    case 2:
        server_hang_up(server);
        break;
    case 3:
        if (server->listener < 0)
            server_open(server);
        else
            server_close(server);
        break;
    case 4:
        server->has_script = false;
        break;
    case 5:
        server->bite = rng_below(&rng, 4);
        break;
    case 6:
        rearrange();
        break;
    case 7:
        server->cut = chance(2) ? SIZE_MAX : rng_below(&rng, 8);
        break;
    default:
        for (uint64_t left = rng_below(&rng, 6); left > 0 && server->canned_count < CANNED_MAX; left--)
            server_can(server, any_reply());
    }
}

static void calm(void)
{
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        struct server *server = &redis.servers[i];
        server->stopped = server->mute = false;
        server->bite = 0;
        server->cut = SIZE_MAX;
        server->canned_first = server->canned_count = 0;
        server->role = NULL;
        server->slots = map_of(&redis.servers[0], &redis.servers[1]);
        server->primary = name_of(&redis.servers[2]);
        if (server->listener < 0)
            server_open(server);
    }
}

/* ---- calls ---- */

/* Whether the event alone says that the call was not executed. */
static bool is_proof(enum cdl_store_event event)
{
    switch (event) {
    case CDL_STORE_NONE:
    case CDL_STORE_LOST:
    case CDL_STORE_PROTOCOL:
    case CDL_STORE_TIMEOUT:
    case CDL_STORE_CLOSED:
    case CDL_STORE_REPLICAS:
        return false;
    default:
        return true;
    }
}

static unsigned runs_of(const struct probe *probe)
{
    return redis.ran[strtoul(strrchr(probe->key, '-') + 1, NULL, 10)];
}

static void judge(const struct probe *probe)
{
    const unsigned runs = runs_of(probe);
    assert_int_equal(probe->done, 1);
    assert_true(probe->done_ns <= probe->call.deadline_ns);
    assert_true(runs <= 1);
    if (probe->event == CDL_STORE_NONE || probe->event == CDL_STORE_REPLICAS)
        assert_int_equal(runs, 1);
    if (is_proof(probe->event) && runs > 0)
        print_error("%s was executed, and ended with %s\n", probe->key, cdl_store_event_name(probe->event));
    if (is_proof(probe->event))
        assert_int_equal(runs, 0);
}

static void ask_anything(void)
{
    struct probe *probe = &probes[rng_below(&rng, PROBES)];
    char key[64];
    if (keys > 0 && probe->key[0] != '\0') {
        if (probe->done == 0)
            return;
        judge(probe);
    }
    snprintf(key, sizeof key, "{%u}-%u", (unsigned)rng_below(&rng, 1000), keys++);
    ask_for(probe, key, (int64_t)rng_below(&rng, 30 * (uint64_t)MILLISECOND) + MILLISECOND);
}

static void storm(unsigned steps)
{
    for (unsigned step = 0; step < steps; step++) {
        for (uint64_t left = rng_below(&rng, 8); left > 0; left--)
            ask_anything();
        cdl_redis_client_flush(redis.client);
        if (chance(3))
            disturb(any_server());
        if (chance(2))
            advance((int64_t)rng_magnitude(&rng, chance(20) ? (uint64_t)SECOND : 10 * (uint64_t)MILLISECOND));
        else
            run();
    }
}

/* All is well again within two seconds. */
static void assert_recovers(void)
{
    calm();
    advance(2 * SECOND);
    for (unsigned i = 0; i < PROBES; i++)
        if (probes[i].key[0] != '\0')
            judge(&probes[i]);
    for (unsigned i = 0; i < PROBES; i++) {
        char key[64];
        snprintf(key, sizeof key, "{%u}-%u", i, keys++);
        ask(&probes[i], key, 15 * MILLISECOND);
        /* A map that is out of date is put right by the way. */
        advance(15 * MILLISECOND);
        judge(&probes[i]);
        assert_done(&probes[i], CDL_STORE_NONE);
    }
}

static void weather(enum cdl_redis_kind kind, uint32_t wait_replicas, uint64_t seed)
{
    static char group[] = "group";
    redis_open(SERVERS_MAX);
    rng.state = seed;
    keys = 0;
    memset(probes, 0, sizeof probes);
    redis.config.kind = kind;
    redis.config.primary = group;
    redis.config.connections = CONNECTIONS;
    redis.config.in_flight = 16;
    redis.config.wait_replicas = wait_replicas;
    if (kind == CDL_REDIS_SENTINEL)
        redis.config.seed_count = 2;
    for (size_t i = 0; i < SERVERS_MAX; i++)
        redis.servers[i].confirmed = chance(2) ? ":1\r\n" : ":0\r\n";
    calm();
    redis_connect();
    for (unsigned round = 0; round < 5; round++) {
        storm((unsigned)scaled(200));
        for (size_t i = 0; i < SERVERS_MAX; i++)
            redis.servers[i].confirmed = ":1\r\n";
        assert_recovers();
    }
    storm(20);
    cdl_redis_client_close(redis.client);
    redis.client = NULL;
    for (unsigned i = 0; i < PROBES; i++)
        judge(&probes[i]);
    redis_close();
}

static void a_single_server(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < scaled(20); seed++)
        weather(CDL_REDIS_SINGLE, seed % 2, seed);
}

static void a_group_with_sentinels(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < scaled(20); seed++)
        weather(CDL_REDIS_SENTINEL, seed % 2, seed);
}

static void a_cluster(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < scaled(20); seed++)
        weather(CDL_REDIS_CLUSTER, seed % 2, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_server),
        cmocka_unit_test(a_group_with_sentinels),
        cmocka_unit_test(a_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
