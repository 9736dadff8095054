/* One HTTP request and its answer, as handlers see them. */
#ifndef CDL_SERVER_EXCHANGE_H
#define CDL_SERVER_EXCHANGE_H

#include "server/pending.h"
#include "server/worker.h"

/* Handlers are called when a request has been read. One that has to wait for the store says so with cdl_exchange_wait and is called again,
 * for the same request, when what it waits for is there: `pending` is what it said. */
struct cdl_exchange {
    struct cdl_worker *worker;
    struct cdl_connection *connection;
    struct cdl_pending *pending; /* NULL at first */
    const struct cdl_http1_request *request;
    struct cdl_slice path, query; /* of the target as sent */
    struct cdl_writer *output;
    bool keep_alive;
};

/* The media types of our answers. */
#define CDL_TYPE_JSON CDL_SLICE("application/json")
#define CDL_TYPE_PROBLEM CDL_SLICE("application/problem+json")

/* Answers. `lines` are field lines that are written already. */
void cdl_exchange_reply(struct cdl_exchange *exchange, unsigned status, struct cdl_slice type, struct cdl_slice lines,
                        struct cdl_slice body);
/* The same for a body of any length, of plain connections. */
void cdl_exchange_reply_large(struct cdl_exchange *exchange, unsigned status, struct cdl_slice type,
                              struct cdl_slice body);
/* Answers with a problem in words. */
__attribute__((format(printf, 3, 4))) void cdl_exchange_problem(struct cdl_exchange *exchange, unsigned status,
                                                                const char *format, ...);
/* 405, unless the method is one of the space-separated list. */
bool cdl_exchange_allows(struct cdl_exchange *exchange, const char *methods);

/* The request is answered later, when none of the inquiries of `pending` is owed any more; it is the connection's from now on. */
void cdl_exchange_wait(struct cdl_exchange *exchange, struct cdl_pending *pending);

/* The same for a request that is one question; `counts` as in cdl_pending_new. Without memory it is answered: 503. */
void cdl_exchange_wait_for(struct cdl_exchange *exchange, struct cdl_inquiry *inquiry, bool counts);

/* What an HTTP connection keeps between two reads: its state. */
struct cdl_http_state {
    struct cdl_http1 parser;
    struct cdl_pending *pending; /* of the request that was read last; NULL: none */
};

/* Reads the requests out of `bytes`, hands each to `handle`, and returns how many bytes they took: the receive of an HTTP
 * protocol. */
size_t cdl_exchange_serve(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                          bool *finish, void (*handle)(struct cdl_exchange *exchange));
/* The give_up of an HTTP protocol. */
void cdl_exchange_give_up(struct cdl_connection *connection, bool too_long, struct cdl_writer *output);
/* The closed of an HTTP protocol. */
void cdl_exchange_closed(struct cdl_connection *connection);

/* The peer's address; family 0 for a Unix socket. */
struct cdl_address cdl_exchange_peer(const struct cdl_exchange *exchange);

/* ---- handlers ---- */

void cdl_check(struct cdl_exchange *exchange);                      /* /check */
void cdl_json_api(struct cdl_exchange *exchange, enum cdl_ask ask); /* /v1/take, peek, refund */
void cdl_rls_json(struct cdl_exchange *exchange);                   /* /json */
void cdl_admin(struct cdl_exchange *exchange);

/* Counts and logs what was answered to a request. */
void cdl_account(struct cdl_worker *worker, const struct cdl_answer *answer);
/* A key as the policy wants it in the log: plain; masked, when it is an address; or keyed. `memory` holds an address for as long
 * as the field is used. */
struct cdl_log_field cdl_account_key(const struct cdl_live_policy *live, struct cdl_slice key,
                                     struct cdl_address *memory);
/* Logs who forgot a key, with the key as it stands in the lines of refusals. */
void cdl_account_reset(struct cdl_worker *worker, const struct cdl_live_policy *live, const struct cdl_named_key *key,
                       const char *by);

#endif
