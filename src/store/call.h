/* Asking a store that may answer later.
 *
 * A memory store answers at once. A store that lives elsewhere answers when bytes have come back, and a loop must not wait for them:
 * each loop opens a client of the store, hands it calls, and is called back. A client is sans-loop: it owns its sockets and its
 * deadlines, and the loop tells it when a socket is ready and when its time has come, through the hooks that the loop provides.
 * The library's blocking functions are the same client in a loop of their own (store/redis/blocking.h).
 *
 * All of a client belongs to one thread. */
#ifndef CDL_STORE_CALL_H
#define CDL_STORE_CALL_H

#include <sys/socket.h>

#include "store/failure.h"
#include "store/store.h"

/* Questions to a store: decided together, all or nothing, when `together` (then all are CDL_TAKE, or all CDL_PEEK, with minimum ==
 * maximum), else each by itself (CDL_TAKE, CDL_PEEK, CDL_REFUND, CDL_RESET). The caller owns all memory, keys
 * and limits included, until `done`, and fills in the first part. */
struct cdl_call {
    const struct caudal_request *requests; /* checked: see cdl_check_request */
    const struct cdl_question *questions;  /* one each; what a request's `cost` says is not looked at */
    struct caudal_decision *decisions;     /* one each */
    size_t count;                          /* 1 to CAUDAL_TAKE_ALL_MAX */
    bool together;
    bool
        for_book; /* an errand of a lease store's own, whose answer nobody but its book hears: see store/lease/book.h */
    const int64_t *now_ns; /* the caller's time; NULL: the store's own clock */
    int64_t
        deadline_ns; /* of caudal_clock_system()'s monotonic clock, if that is before what the store allows; 0: none */
    /* Called once, never within cdl_store_ask when that said that the answer comes later. Every decision has its own `status`; with
     * `together` all have the same, and so has the call. */
    void (*done)(struct cdl_call *call);
    void *context; /* the caller's */

    /* The answer. */
    int status;                   /* CAUDAL_OK, or what went wrong with the first that failed */
    enum cdl_store_event failure; /* why, when it is CAUDAL_ERR_STORE */
    int64_t decided_at_ns; /* by the store's realtime clock; of several that travelled apart, the last; 0: not known */
    void *work;            /* the store's */
};

/* What a client wants of a socket, and what it has. */
enum {
    CDL_SOCKET_READ = 1,
    CDL_SOCKET_WRITE = 2,
};

/* A client's socket, as its loop sees it. The loop may keep `watch`. */
struct cdl_socket {
    int fd;
    void *watch;
};

/* A name that a loop is to look up for a client. A name may have several addresses, of which some are dead; the client takes one, and asks
 * again for the next when that was of no use. */
struct cdl_lookup_request {
    const char *host; /* NUL-terminated, not an address in figures */
    uint16_t port;
    uint32_t turn; /* which of the addresses to take, beginning with 0; behind the last comes the first */
    void *lookup;  /* the loop's; not NULL while it looks */
};

/* What a loop does for its client. */
struct cdl_loop_hooks {
    void *context;
    /* Call cdl_store_client_ready when the socket is ready for one of `events`. It stands until the next call for that socket;
     * with 0 the socket is about to be closed and must be forgotten before the hook returns. */
    void (*watch)(void *context, struct cdl_socket *socket, unsigned events);
    /* Call cdl_store_client_time at that instant of caudal_clock_system()'s monotonic clock, or a little later. Replaces the instant asked
     * for before; INT64_MAX: none. */
    void (*alarm)(void *context, int64_t at_ns);
    /* Call cdl_store_client_found, at once or later. */
    void (*look_up)(void *context, struct cdl_lookup_request *request);
    /* Forget a request that has not been answered: it will not live longer than this call. */
    void (*forget)(void *context, struct cdl_lookup_request *request);
};

struct addrinfo;

/* The address that a request is to be told, of those that getaddrinfo has found; NULL: there is none of IP. */
const struct addrinfo *cdl_lookup_choose(const struct cdl_lookup_request *request, const struct addrinfo *found);

struct cdl_store_client;

struct cdl_client_ops {
    void (*close)(struct cdl_store_client *client);
    void (*ask)(struct cdl_store_client *client, struct cdl_call *call);
    /* Decides the call if nobody has to be asked for it. False: nothing has happened. NULL: somebody always has to be. */
    bool (*try_ask)(struct cdl_store_client *client, struct cdl_call *call);
    void (*flush)(struct cdl_store_client *client);
    void (*ready)(struct cdl_store_client *client, struct cdl_socket *socket, unsigned events);
    void (*time)(struct cdl_store_client *client, int64_t now_ns);
    void (*found)(struct cdl_store_client *client, struct cdl_lookup_request *request, const struct sockaddr *address,
                  socklen_t length);
    bool (*is_up)(const struct cdl_store_client *client);
};

/* The head of every client. */
struct cdl_store_client {
    const struct cdl_client_ops *ops;
    struct caudal_store *store;
};

/* Whether the store answers later, and loops need clients of it. */
static inline bool cdl_store_answers_later(const struct caudal_store *store)
{
    return store->ops->open_client != NULL;
}

/* A client of such a store; it begins to connect. NULL: memory is short. The hooks are copied. */
static inline struct cdl_store_client *cdl_store_client_open(struct caudal_store *store,
                                                             const struct cdl_loop_hooks *hooks)
{
    return store->ops->open_client(store, hooks);
}

/* Every call that is not answered is answered: it failed. Then sockets are closed. */
static inline void cdl_store_client_close(struct cdl_store_client *client)
{
    client->ops->close(client);
}

/* Decides a call that the client can decide by itself, from a lease or a refusal that still holds. True: the call is answered, and `done`
 * is not called. False: it is not, and may be asked, from memory that outlives this call. */
static inline bool cdl_store_client_try(struct cdl_store_client *client, struct cdl_call *call)
{
    return client->ops->try_ask != NULL && client->ops->try_ask(client, call);
}

/* Asks. True: the call is answered, `done` was not and will not be called. False: `done` will be. Without a client (NULL) it is always
 * answered: by a store that answers at once, or by the blocking functions of one that does not. A client is tried first. */
bool cdl_store_ask(struct caudal_store *store, struct cdl_store_client *client, struct cdl_call *call);

/* The end of a turn of the loop: what was asked since the last one travels together. */
static inline void cdl_store_client_flush(struct cdl_store_client *client)
{
    client->ops->flush(client);
}

static inline void cdl_store_client_ready(struct cdl_store_client *client, struct cdl_socket *socket, unsigned events)
{
    client->ops->ready(client, socket, events);
}

static inline void cdl_store_client_time(struct cdl_store_client *client, int64_t now_ns)
{
    client->ops->time(client, now_ns);
}

/* `address` is NULL when the name was not found. */
static inline void cdl_store_client_found(struct cdl_store_client *client, struct cdl_lookup_request *request,
                                          const struct sockaddr *address, socklen_t length)
{
    client->ops->found(client, request, address, length);
}

/* False while the store is known to be away: calls are failed at once then. */
static inline bool cdl_store_client_is_up(const struct cdl_store_client *client)
{
    return client->ops->is_up(client);
}

/* Asks a store and waits for the answer. */
typedef void cdl_ask_and_wait(struct caudal_store *store, struct cdl_call *call);

/* caudal_take_batch of a store that is asked so. `now_ns` NULL: the store's own clock. */
int cdl_store_take_batch(struct caudal_store *store, const struct caudal_request *requests, size_t count,
                         const int64_t *now_ns, struct caudal_decision *decisions, cdl_ask_and_wait *ask);

#endif
