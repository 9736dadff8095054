/* One connection's conversation with a Redis server, sans I/O: bytes in, bytes out.
 *
 * Greets (HELLO or AUTH, SELECT, CLIENT SETNAME, and ROLE where a primary is wanted), then sends commands in the order in which they
 * come and matches replies to them in that order. Commands may be queued before the greeting is over; they follow it.
 *
 * A command that nobody waits for any more keeps its place, so that its late reply is not taken for another's. */
#ifndef CDL_REDIS_SESSION_H
#define CDL_REDIS_SESSION_H

#include "store/failure.h"
#include "store/redis/config.h"
#include "wire/resp_reply.h"

/* A command in flight; part of the caller's own structure, which must stay until `replied` or cdl_redis_session_abandon. */
struct cdl_redis_command {
    /* `reply` is one whole reply, borrowed. NULL: the connection is over, and nothing can be sent from here; `sent` says whether a
     * byte of the command may have left. */
    void (*replied)(struct cdl_redis_command *command, const struct cdl_resp *reply, bool sent);
    size_t place; /* the session's */
};

struct cdl_redis_greeting {
    const char *user, *password; /* NULL: none */
    uint32_t database;
    uint32_t protocol; /* 2, 3, or 0: 3 where the server knows it */
    bool want_primary; /* ask for the role, and fail when it is a replica */
};

enum cdl_redis_session_state {
    CDL_SESSION_IDLE, /* not connected */
    CDL_SESSION_GREETING,
    CDL_SESSION_READY,
    CDL_SESSION_FAILED, /* the greeting was refused, or bytes are no reply: close the connection */
};

struct cdl_redis_session;

/* NULL: memory is short. `in_flight` bounds commands without reply, abandoned ones included. The greeting's texts must outlive it. */
struct cdl_redis_session *cdl_redis_session_open(const struct cdl_redis_greeting *greeting, uint32_t in_flight,
                                                 const struct caudal_allocator *allocator);
/* Commands in flight are dropped without a word: cdl_redis_session_lost comes first. NULL does nothing. */
void cdl_redis_session_close(struct cdl_redis_session *session);

/* A connection is there: the greeting is queued. */
void cdl_redis_session_connected(struct cdl_redis_session *session);
/* The connection is over. Every command in flight is told, in order; then the session is idle and empty. */
void cdl_redis_session_lost(struct cdl_redis_session *session);

enum cdl_redis_session_state cdl_redis_session_state(const struct cdl_redis_session *session);
/* Why it failed, until the next connection: CDL_STORE_NOAUTH, _WRONGPASS, _NOPERM, _LOADING, _MASTERDOWN, _NO_PRIMARY, _PROTOCOL,
 * _ERROR…, and _LOST when memory is short for what has come. */
enum cdl_store_event cdl_redis_session_failure(const struct cdl_redis_session *session);

/* Queues a command of `count` words, also before there is a connection. False: as much is in flight as may be, in commands or in bytes
 * (16 MiB that have not been written), memory is short, or the session has failed. */
bool cdl_redis_session_send(struct cdl_redis_session *session, struct cdl_redis_command *command,
                            const struct cdl_slice *words, size_t count);
/* Nobody waits for the command any more: it may be freed, and its reply will be dropped. */
void cdl_redis_session_abandon(struct cdl_redis_session *session, struct cdl_redis_command *command);

/* Commands without reply, abandoned ones included, the greeting's not. */
size_t cdl_redis_session_in_flight(const struct cdl_redis_session *session);

/* What is to be written next; empty: nothing. It stands until the next call of any other function; cdl_redis_session_sent says how much
 * of it was written. */
struct cdl_slice cdl_redis_session_output(const struct cdl_redis_session *session);
void cdl_redis_session_sent(struct cdl_redis_session *session, size_t length);

/* Bytes have come. Calls `replied` of the commands that they answer; these may send, abandon others, and say that the connection is lost,
 * and may not close the session or receive. False: the session has failed, or is over because one of them said so. */
bool cdl_redis_session_receive(struct cdl_redis_session *session, struct cdl_slice bytes);

#endif
