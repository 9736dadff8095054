/* A socket to a Redis server that never blocks, perhaps under TLS. Who waits for it is a loop's business: see store/call.h. */
#ifndef CDL_REDIS_LINK_H
#define CDL_REDIS_LINK_H

#include <sys/types.h>

#include "store/call.h"
#include "store/redis/config.h"

/* The TLS of all connections of a store: authorities, client certificate. */
struct cdl_redis_tls;

/* NULL on failure, which names the file. TLS 1.2 or later. A key that is locked by a passphrase is not asked about, but refused. */
struct cdl_redis_tls *cdl_redis_tls_open(const struct cdl_redis_config *config, struct caudal_problem *problem);
/* After the last link under it was closed. NULL does nothing. */
void cdl_redis_tls_close(struct cdl_redis_tls *tls);

/* All zero, a link is closed. */
enum cdl_link_state {
    CDL_LINK_CLOSED,
    CDL_LINK_CONNECTING, /* TCP's or TLS's handshake goes on */
    CDL_LINK_OPEN,
    CDL_LINK_FAILED, /* see `failure`; close it */
};

struct cdl_redis_link {
    struct cdl_socket socket;
    enum cdl_link_state state;
    enum cdl_store_event failure; /* CDL_STORE_CONNECT, _TLS or _LOST */
    unsigned wants;               /* CDL_SOCKET_READ, _WRITE: what to wait for before the next step */
    unsigned reading, writing; /* of an OPEN link, what each direction waits for; `wants` has both, and READ always */
    bool reached;              /* TCP's handshake is over */
    void *ssl;
};

/* Begins to connect: CONNECTING, OPEN or FAILED. `tls` NULL: plain. `name` is the name or address that the certificate must have;
 * NULL with plain or unverified connections, and a failure with verified ones. TCP_NODELAY, keep-alive, close-on-exec. */
void cdl_redis_link_open(struct cdl_redis_link *link, const struct sockaddr *address, socklen_t length,
                         struct cdl_redis_tls *tls, const char *name);
/* The socket is ready: goes on connecting. Does nothing in any other state. */
void cdl_redis_link_go_on(struct cdl_redis_link *link);
/* As read(2) and write(2) of an OPEN link, with something to read into or to write. 0: not now, and `wants` says for what to wait; -1: it
 * has FAILED, the peer's end included.
 *
 * Read until it says 0: what TLS has decrypted already makes no socket ready. Of a write that said 0, or less than all, the same bytes
 * come again, with more behind them or not, whenever the socket is ready for anything. What was not reported as written has not
 * reached the peer in a form that it could execute. */
ssize_t cdl_redis_link_read(struct cdl_redis_link *link, char *buffer, size_t size);
ssize_t cdl_redis_link_write(struct cdl_redis_link *link, struct cdl_slice bytes);
/* Closes the socket, in any state; the loop must have forgotten it. */
void cdl_redis_link_close(struct cdl_redis_link *link);

#endif
