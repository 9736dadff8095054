/* Envoy's rate limit service, whatever a request comes in (grpc_front.c, rls_json.c): a request becomes a question to the limiter, and the answer
 * a response, or the reason why there is none.
 *
 * A request is read twice when its answer comes later: what was read first lies in the worker's memory for messages, which is anybody's
 * by then. */
#ifndef CDL_SERVER_RLS_H
#define CDL_SERVER_RLS_H

#include "policy/domain.h"
#include "server/worker.h"
#include "wire/grpc.h"

/* Why a request has no response. */
struct cdl_rls_failure {
    enum cdl_grpc_status status;
    char why[320]; /* in words */
};

__attribute__((format(printf, 3, 4))) void cdl_rls_fail(struct cdl_rls_failure *failure, enum cdl_grpc_status status,
                                                        const char *format, ...);

/* A request, and what became of each of its descriptors. */
struct cdl_rls_turn {
    struct cdl_descriptor_request request;
    struct cdl_descriptor_result results[CDL_DESCRIPTORS_MAX];
};

/* Asks about turn->request. `deadline_ns` is the asker's, 0 for none. False: nobody was asked, and `failure` says why. Otherwise *inquiry is
 * what cdl_limiter_ask_plan returns: NULL when the worker's asker holds the answer, which has been counted. */
bool cdl_rls_ask(struct cdl_worker *worker, struct cdl_rls_turn *turn, int64_t deadline_ns,
                 struct cdl_inquiry **inquiry, struct cdl_rls_failure *failure);

/* Finds out again what became of the descriptors of a request that has been read anew, by the policy that it was asked of. */
void cdl_rls_recall(struct cdl_worker *worker, struct cdl_rls_turn *turn, const struct cdl_answer *answer);

/* What an answer says to the request. The response borrows from the request, the policy, and the worker's memory for messages and its
 * body, and is good until the next one. False: there is none, and `failure` says why. */
bool cdl_rls_respond(struct cdl_worker *worker, const struct cdl_rls_turn *turn, const struct cdl_answer *answer,
                     struct cdl_rls_response *response, struct cdl_rls_failure *failure);

#endif
