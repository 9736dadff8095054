/* A loop for those who can wait: library users and the command line. It turns until what was asked is answered, with ppoll(2). */
#ifndef CDL_REDIS_BLOCKING_H
#define CDL_REDIS_BLOCKING_H

#include "store/redis/client.h"

/* What turns in a loop: a client of whatever kind. */
struct cdl_turning {
    void *client;
    void (*flush)(void *client);
    void (*ready)(void *client, struct cdl_socket *socket, unsigned events);
    void (*time)(void *client, int64_t now_ns);
    void (*found)(void *client, struct cdl_lookup_request *request, const struct sockaddr *address, socklen_t length);
};

struct cdl_poll_loop;

/* NULL: memory is short. */
struct cdl_poll_loop *cdl_poll_loop_open(const struct caudal_allocator *allocator);
/* After its client was closed. */
void cdl_poll_loop_close(struct cdl_poll_loop *loop);
/* The hooks to open a client with. Names are looked up in the loop's next turn, by getaddrinfo(3), which no deadline interrupts. */
struct cdl_loop_hooks cdl_poll_loop_hooks(struct cdl_poll_loop *loop);
/* One turn: with `wait`, not before a socket is ready or the client's time has come. */
void cdl_poll_loop_turn(struct cdl_poll_loop *loop, const struct cdl_turning *turning, bool wait);

/* A client for plain commands in a loop of its own. */
struct cdl_redis_blocking;

struct cdl_redis_blocking *cdl_redis_blocking_open(const struct cdl_redis_shared *shared);
void cdl_redis_blocking_close(struct cdl_redis_blocking *blocking);
struct cdl_redis_client *cdl_redis_blocking_client(struct cdl_redis_blocking *blocking);
#define CDL_BLOCKING_CALLS_MAX 64u

/* Hands in at most CDL_BLOCKING_CALLS_MAX calls and turns until each is done, in its `done`. */
void cdl_redis_blocking_run(struct cdl_redis_blocking *blocking, struct cdl_redis_call *const *calls, size_t count);

#endif
