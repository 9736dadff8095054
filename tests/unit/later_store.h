/* A store that answers later, when a test says so: what a client is handed waits here, and is answered in any order, by a memory store
 * that decides as it always does, or not at all. */
#ifndef TESTS_UNIT_LATER_STORE_H
#define TESTS_UNIT_LATER_STORE_H

#include "store/call.h"
#include "support.h"

#define LATER_CALLS_MAX 1024
#define LATER_LIMITS_MAX 512

struct later_store {
    struct caudal_store head;
    struct caudal_store *memory;
    struct cdl_store_events events;
    struct cdl_call *calls[LATER_CALLS_MAX]; /* that wait, oldest first */
    size_t count;
    unsigned can_decide; /* so many calls to come are decided by the client itself, as from a lease */
    struct caudal_lease leases[LATER_LIMITS_MAX]; /* by the low half of the limit's number; size 0: none */
    bool is_away;                                 /* the blocking functions fail, and clients are not up */
    struct cdl_store_client client;
    struct cdl_loop_hooks hooks; /* of the client that is open */
    unsigned clients, flushes, asked;
    /* What else a client is told; may be NULL. */
    void (*on_ready)(struct later_store *store, struct cdl_socket *socket, unsigned events);
    void (*on_time)(struct later_store *store, int64_t now_ns);
    void (*on_found)(struct later_store *store, const struct sockaddr *address);
};

/* Its clock is the world's, whose store is the memory behind it. */
void later_open(struct later_store *store, struct world *world);
/* Fails the test if a call was left without an answer. */
void later_close(struct later_store *store);

/* Answers the call that waits at that place. */
void later_answer(struct later_store *store, size_t index);
void later_fail(struct later_store *store, size_t index);
/* Answers, or fails, whatever waits and comes to wait, oldest first. */
void later_answer_all(struct later_store *store);
void later_fail_all(struct later_store *store);

#endif
