/* A worker's client of a store that answers later, in the worker's loop: what store/call.h asks of a loop, done by libuv. */
#ifndef CDL_SERVER_STORE_LOOP_H
#define CDL_SERVER_STORE_LOOP_H

#include <stdatomic.h>
#include <uv.h>

#include "base/log.h"
#include "store/call.h"

struct cdl_store_loop {
    struct cdl_store_client *client; /* NULL: none is open */
    struct caudal_store *store;
    uv_loop_t *uv;
    uv_timer_t timer;
    uv_prepare_t prepare;
    struct cdl_log *log;
    struct cdl_slice url;                      /* the store's, for the log */
    int64_t alarm_ns;                          /* when the client wants to be called; INT64_MAX: never */
    int64_t timer_ns;                          /* when the timer fires; INT64_MAX: it is not set */
    int64_t away_since_ns;                     /* while it is not up */
    uint64_t counts_when_up[CDL_STORE_EVENTS]; /* when it was last seen to be */
    _Atomic bool is_up;                        /* from any thread */
};

/* Opens a client, which begins to connect. `url` says in the log which store it is, without its secrets, and outlives the client. The loop
 * must not run yet, or this is its thread. False: memory is short. */
bool cdl_store_loop_open(struct cdl_store_loop *loop, struct caudal_store *store, struct cdl_slice url, uv_loop_t *uv,
                         struct cdl_log *log);
/* Every call is answered, then the client is closed; its handles close in the loop's next turn. A name that is still looked up is waited
 * for by the loop. Does nothing when there is no client. */
void cdl_store_loop_close(struct cdl_store_loop *loop);

#endif
