/* The store that the instances share, and the network between.
 *
 * Its state is a memory store's, asked at the world's time; both of its clocks are that one, as a Redis has only one. An instance
 * reaches it through a link: a store that answers later, as the Redis client does. A call becomes a message, which is executed when
 * it arrives, or lost; its reply is delivered, late or early, overtaken by others, or lost. A call that has no answer by its deadline has
 * failed, and what comes after that is thrown away. Our client never sends again what may have been executed; `twice` executes
 * withdrawals a second time all the same, and the first reply stands. */
#ifndef TESTS_SIMULATION_FAR_STORE_H
#define TESTS_SIMULATION_FAR_STORE_H

#include "store/call.h"
#include "world.h"

struct run;
struct instance;
struct message;

struct far_store {
    struct caudal_store *memory;
    bool has_limit;
    uint32_t limit;
    int64_t given_back_at_ns[64]; /* to each key, or reverted */
    /* Each key when a replica last heard of it. */
    struct {
        int64_t at_ns;
        uint64_t spent;
    } replica[64];
};

/* An instance's way to the store. */
struct link {
    struct caudal_store head;
    struct cdl_store_client client;
    struct cdl_store_events events;
    struct run *run;
    struct instance *instance;
    struct message *flying; /* the messages of the client that is open */
    bool is_open;
};

void far_store_begin(struct run *run);
void far_store_end(struct run *run);
/* A replica hears of everything; a failover makes what it heard last the truth. */
void far_store_replicate(struct run *run);
void far_store_fail_over(struct run *run);
struct caudal_decision far_store_peek(struct run *run, unsigned key, uint64_t cost);

void link_begin(struct link *link, struct run *run, struct instance *instance);

/* Keys are two bytes. */
static inline unsigned key_index(const void *key)
{
    return ((const unsigned char *)key)[1];
}

#endif
