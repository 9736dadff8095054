/* gRPC over HTTP/2, the server's side of one connection: bytes in, calls out, answers in, bytes out. nghttp2 speaks HTTP/2; this knows
 * what gRPC makes of it, and what a client may cost. No sockets, no clock: time is an argument.
 *
 * A call is handed over when its request is whole: one message, and the client's word that no more comes. It is answered once, at once
 * or later, in any order among the calls of a connection; or it is streamed to, until it is ended.
 *
 * Bounds. A connection holds at most CDL_GRPC_CALLS_MAX calls and CDL_GRPC_BYTES_MAX of memory, nghttp2's included. Whatever only costs us
 * (pings, settings, resets, empty frames, windows that are moved) is paid for out of a purse of CDL_GRPC_NUISANCE_MAX
 * frames that fills with time and with every call that is answered; a client that has spent it is told ENHANCE_YOUR_CALM, and the
 * connection is over. So it is, at once, when headers come in more than CDL_GRPC_CONTINUATIONS_MAX further frames, or are larger than
 * CDL_GRPC_HEADERS_BEARABLE; what is larger than CDL_GRPC_HEADERS_MAX is refused. */
#ifndef CDL_WIRE_GRPC_H
#define CDL_WIRE_GRPC_H

#include <stdint.h>

#include "base/writer.h"

#define CDL_GRPC_CALLS_MAX 256u
#define CDL_GRPC_BYTES_MAX ((size_t)768 * 1024)
#define CDL_GRPC_HEADERS_MAX 16384u /* names, values and 32 for each field, of one call */
#define CDL_GRPC_HEADERS_BEARABLE 65536u
#define CDL_GRPC_CONTINUATIONS_MAX 4u
#define CDL_GRPC_NUISANCE_MAX 2000u       /* frames */
#define CDL_GRPC_NUISANCE_PER_SECOND 500u /* that come back with time */
#define CDL_GRPC_NUISANCE_PER_CALL 4u     /* and with a call that is answered */

/* Of those that gRPC knows, the ones that are said here. RESOURCE_EXHAUSTED is none of them: a proxy could take it for a decision. */
enum cdl_grpc_status {
    CDL_GRPC_OK = 0,
    CDL_GRPC_INVALID_ARGUMENT = 3,
    CDL_GRPC_DEADLINE_EXCEEDED = 4,
    CDL_GRPC_NOT_FOUND = 5,
    CDL_GRPC_UNIMPLEMENTED = 12,
    CDL_GRPC_INTERNAL = 13,
    CDL_GRPC_UNAVAILABLE = 14,
};

struct cdl_grpc; /* one connection */

/* A call, from when it is handed over until it is answered, ended or cancelled; not longer. */
struct cdl_grpc_call;

/* What is served. It outlives its connections. */
struct cdl_grpc_service {
    const struct cdl_slice *methods; /* paths: "/package.Service/Method" */
    size_t method_count;
    size_t message_max; /* bytes of a request's message */
    /* A request is whole. Answer it, within this function or later. */
    void (*called)(void *context, struct cdl_grpc_call *call);
    /* A call that was handed over and is not answered yet will not be: the client does not want it any more, or the connection is over.
     * Forget it. Not to be answered within this function. */
    void (*cancelled)(void *context, struct cdl_grpc_call *call);
};

/* A request must be whole `message_timeout_ns` after it began. NULL: memory is short. */
struct cdl_grpc *cdl_grpc_open(const struct cdl_grpc_service *service, int64_t message_timeout_ns, void *context);
/* Calls that are not answered are cancelled. NULL does nothing. */
void cdl_grpc_close(struct cdl_grpc *grpc);

/* Takes bytes from the client, all of them. `now_ns` is any clock that only goes forward. */
void cdl_grpc_receive(struct cdl_grpc *grpc, struct cdl_slice bytes, int64_t now_ns);
/* Bytes for the client, as many as there is room for. */
void cdl_grpc_send(struct cdl_grpc *grpc, struct cdl_writer *output);
/* Whether all is said, and the connection to be closed. */
bool cdl_grpc_is_over(const struct cdl_grpc *grpc);
/* Whether any call waits for its answer; those that are streamed to do not. */
bool cdl_grpc_owes(const struct cdl_grpc *grpc);

/* Tells the client to take its next calls elsewhere; those that come all the same are answered. Once is enough. */
void cdl_grpc_drain(struct cdl_grpc *grpc);
/* Takes no more calls, and is over when those that there are have been answered. Ends what is streamed to. Once is enough. */
void cdl_grpc_finish(struct cdl_grpc *grpc);

/* ---- calls ---- */

/* Index in the service's methods. */
size_t cdl_grpc_method(const struct cdl_grpc_call *call);
/* The request's message, until the call is answered. */
struct cdl_slice cdl_grpc_message(const struct cdl_grpc_call *call);
/* How long the client was going to wait for the answer when the call began, and when it stops, by the time of the cdl_grpc_receive that the call
 * began in. INT64_MAX: it said nothing. */
int64_t cdl_grpc_timeout_ns(const struct cdl_grpc_call *call);
int64_t cdl_grpc_deadline_ns(const struct cdl_grpc_call *call);
/* What the callee of `called` keeps beside a call; NULL at first. */
void cdl_grpc_set_data(struct cdl_grpc_call *call, void *data);
void *cdl_grpc_data(const struct cdl_grpc_call *call);

/* Answers with a message, which is no part of the request's, and CDL_GRPC_OK. The call is gone. */
void cdl_grpc_answer(struct cdl_grpc_call *call, struct cdl_slice message);
/* Answers with a status, and why: any text. The call is gone. */
void cdl_grpc_fail(struct cdl_grpc_call *call, enum cdl_grpc_status status, struct cdl_slice why);
/* Sends one message of several; the call stays. */
void cdl_grpc_stream(struct cdl_grpc_call *call, struct cdl_slice message);
/* The calls that are streamed to, one behind the other; NULL: no more. The first is behind NULL. */
struct cdl_grpc_call *cdl_grpc_next_streamed(const struct cdl_grpc *grpc, const struct cdl_grpc_call *call);

#endif
