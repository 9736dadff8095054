/* A request whose answer the store still owes: the inquiries that it waits for, one or, for a batch, many.
 *
 * It stands between a connection and its inquiries, either of which may be over first. What was asked is counted when it is answered,
 * whether or not anybody is there to hear it: it was spent. */
#ifndef CDL_SERVER_PENDING_H
#define CDL_SERVER_PENDING_H

#include "limiter/limiter.h"
#include "wire/json_api.h"

struct cdl_worker;
struct cdl_connection;

struct cdl_pending;

/* Room for the answers to `count` questions; `counts`: they are counted, as takes are. NULL: memory is short. */
struct cdl_pending *cdl_pending_new(struct cdl_worker *worker, struct cdl_connection *connection, size_t count,
                                    bool counts);
/* Before it waits, or after its request has been answered. NULL does nothing. */
void cdl_pending_free(struct cdl_pending *pending);

/* The questions, parsed; they are the pending's from now on. */
void cdl_pending_keep_questions(struct cdl_pending *pending, struct cdl_json_body questions);
const struct cdl_json_body *cdl_pending_questions(const struct cdl_pending *pending);

/* The answer to question `index` is that of an inquiry, or, with NULL, the one that the worker's asker holds. */
void cdl_pending_add(struct cdl_pending *pending, size_t index, struct cdl_inquiry *inquiry);
/* Whether any answer is still owed. */
bool cdl_pending_waits(const struct cdl_pending *pending);
/* In the worker's asker, until the next one; NULL: nothing was asked, or there was no memory to keep it. */
const struct cdl_answer *cdl_pending_answer(struct cdl_pending *pending, size_t index);
/* When the request was first looked at, by the server's clock. */
int64_t cdl_pending_began_ns(const struct cdl_pending *pending);

/* The connection is gone. It is freed now, or when the last answer is there. NULL does nothing. */
void cdl_pending_leave(struct cdl_pending *pending);

#endif
