/* All connections that one loop has to a Redis: one server, the primary of a sentinel group, or the nodes of a cluster.
 *
 *   route     by the slot of a call's keys; MOVED and ASK are followed, and the map of slots is asked for anew, not more often than once in
 *             100 ms
 *   travel    what is asked in one turn of the loop is written together, on one of a bounded number of connections per server
 *   send anew only what a reply proves not to have been executed: NOSCRIPT (with the whole script), MOVED, ASK, TRYAGAIN, CLUSTERDOWN,
 *             LOADING, READONLY, MASTERDOWN, a connection that failed before a byte left; always before the deadline. What may have
 *             been executed is never sent twice
 *   deadline  a call that is not answered in time fails; its place in the connection stays, and a late reply is dropped
 *   breaker   per server: after `breaker` time-outs in a row, or a lost connection that cannot be made again, calls fail at once. Any
 *             reply, or a new connection that is greeted, closes it. A connection that had stood is made again within 5 ms; then
 *             connecting is tried after 20 ms, twice as long each time up to 500 ms, each time with jitter of up to half
 *   sentinel  asked at the start, while the primary is not connected to, and on READONLY; the primary that they name must say that it is
 *             one
 *
 * Invariant: every call that was handed in ends exactly once, in `done`, at its deadline at the latest (plus the loop's own delay). */
#ifndef CDL_REDIS_CLIENT_H
#define CDL_REDIS_CLIENT_H

#include "store/call.h"
#include "store/redis/link.h"
#include "store/redis/script.h"
#include "store/redis/session.h"

/* What all clients of a store share; immutable but for the counts. */
struct cdl_redis_shared {
    const struct cdl_redis_config *config;
    struct cdl_redis_tls *tls; /* NULL: plain */
    struct cdl_store_events *events;
    const struct caudal_allocator *allocator;
    const struct caudal_clock *clock; /* its monotonic reading; NULL: caudal_clock_system() */
};

/* One command. The caller owns all memory until `done`, and fills in the first part. */
struct cdl_redis_call {
    struct cdl_slice key; /* what routes it: one of its keys, which all share a slot; empty: any server will do */
    const struct cdl_redis_script
        *script; /* `words` follow EVALSHA and its SHA-1: number of keys, keys, arguments. NULL: all words */
    const struct cdl_slice *words;
    size_t word_count;
    int64_t deadline_ns; /* of caudal_clock_system()'s monotonic clock */
    /* `reply` is borrowed, and NULL when `event` says why there is none; an error reply has both. Never called within
     * cdl_redis_client_call. */
    void (*done)(struct cdl_redis_call *call, const struct cdl_resp *reply, enum cdl_store_event event);

    /* The client's. */
    struct cdl_redis_command command;
    struct cdl_redis_call *next, *previous;             /* of all calls, in order of deadlines */
    struct cdl_redis_call *next_there, *previous_there; /* of those that wait for the same thing */
    struct cdl_redis_calls *there;
    struct cdl_redis_connection *at;             /* in whose session it is */
    struct cdl_redis_confirmation *confirmation; /* what waits for replicas */
    struct cdl_resp held;                        /* the reply that is to be confirmed */
    size_t held_at;
    int64_t again_ns;            /* when it is sent again */
    enum cdl_store_event reason; /* why it waits, or how it ended */
    void *waiter;                /* of cdl_redis_blocking_run */
    uint16_t slot;
    uint8_t redirections, pauses, forgotten;
    bool asking, whole_script;
};

struct cdl_redis_client;

/* Begins to connect. NULL: memory is short. `shared` and what it points to outlive the client; the hooks are copied. */
struct cdl_redis_client *cdl_redis_client_open(const struct cdl_redis_shared *shared,
                                               const struct cdl_loop_hooks *hooks);
/* Ends every call with CDL_STORE_CLOSED, then closes all. */
void cdl_redis_client_close(struct cdl_redis_client *client);

void cdl_redis_client_call(struct cdl_redis_client *client, struct cdl_redis_call *call);
void cdl_redis_client_flush(struct cdl_redis_client *client);
void cdl_redis_client_ready(struct cdl_redis_client *client, struct cdl_socket *socket, unsigned events);
void cdl_redis_client_time(struct cdl_redis_client *client, int64_t now_ns);
void cdl_redis_client_found(struct cdl_redis_client *client, struct cdl_lookup_request *request,
                            const struct sockaddr *address, socklen_t length);
/* False while the breaker of a server that is needed is open. */
bool cdl_redis_client_is_up(const struct cdl_redis_client *client);

/* CRC16 of the key's hash tag, or of the whole key, modulo 16384: Redis Cluster Specification, "Key distribution model". */
uint16_t cdl_redis_slot(struct cdl_slice key);

/* For commands that go to one server rather than to a key's (caudal doctor): the servers that are known, 0 to count - 1, as
 * "host:port". False beyond the last. */
bool cdl_redis_client_server(const struct cdl_redis_client *client, size_t index, struct cdl_redis_place *place);

#endif
