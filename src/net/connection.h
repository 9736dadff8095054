/* Connections of one loop: bytes in, bytes out, time-outs, TLS. What the bytes mean is a protocol's business.
 *
 * Memory is bounded: a loop has buffers for reading and writing, which all its connections share while their bytes
 * are looked at. A connection owns memory only while half a message waits for its rest (at most the protocol's kept_max)
 * or while an answer waits for a slow reader (about one write buffer; nothing more is read meanwhile), or a message for its answer
 * (itself, and what has come behind it: at most kept_max and one read; of a ring, at most kept_max and the ring's buffers).
 * Small answers of a turn are copied, and sent together right before the loop waits: one that is on its way so holds its connection up
 * like one that waits for its reader. Where it was built and the kernel allows it, plain connections receive and send by a ring.
 * Time is bounded: a message that has begun must be complete within message_timeout_ms, a reader must take its answer within
 * write_timeout_ms, and a connection that is silent, and owed nothing, is closed after idle_timeout_ms.
 *
 * Everything here belongs to the loop's thread; the counts may be read from any. */
#ifndef CDL_NET_CONNECTION_H
#define CDL_NET_CONNECTION_H

#include <stdatomic.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/writer.h"
#include "net/ring.h"
#include "net/tls.h"

struct cdl_loop;
struct cdl_listener;

struct cdl_connection {
    union {
        uv_handle_t any;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } handle;
    uv_write_t write;
    struct cdl_ring_socket socket; /* what it sends at the end of the turn, and all else with by_ring */
    const struct cdl_listener *listener;
    struct cdl_connection *next, *previous;
    struct cdl_connection *next_heard; /* of those that are to be heard */
    struct cdl_connection
        *next_sending; /* of those that send at the end of the turn; not by the ring, which has its own list */
    bool to_be_heard;
    struct sockaddr_storage peer; /* ss_family AF_UNIX: no address */
    struct cdl_tls *tls;          /* NULL: plain */
    char *kept;                   /* what has arrived of an incomplete message */
    size_t kept_length, kept_size;
    char *unsent; /* what the peer has not taken yet */
    char *tail;   /* from malloc; set by a protocol: sent behind the output, for what is too long for it */
    size_t tail_length;
    uint64_t message_began_ms;   /* 0: between messages; this and active_ms by the loop's own clock */
    uint32_t message_timeout_ms; /* of the message that has begun; the protocol may change it as the message goes on */
    uint64_t active_ms;
    bool
        owing; /* set by a protocol that answers out of turn: it has answers to give yet, so the end of the server waits */
    bool waiting;   /* set by a protocol whose answer comes later: see `receive` */
    bool ended;     /* with waiting or owing: the client has said its last word, and still waits for ours */
    bool paused;    /* nothing is read */
    bool unheard;   /* it was to be heard while what was sent before had not been taken */
    bool finishing; /* close when everything is written */
    bool unread;    /* with finishing: the client has more to say */
    bool lingering; /* all is written, and what still comes is dropped */
    bool closing;
    bool by_ring; /* receives and sends by the loop's ring; otherwise, and for what the ring leaves over, libuv does */
    bool closed;  /* libuv is done with it */
    void *state;  /* the protocol's, state_bytes long */
};

struct cdl_protocol {
    size_t state_bytes; /* zeroed for each connection */
    /* It may have something to say that no bytes asked for: `receive` is called also with none, after cdl_connection_flush and when the
     * peer has taken what was sent. */
    bool out_of_turn;
    /* Its clients keep connections for later: silence ends none. Peers that are gone are found out by the kernel. */
    bool may_be_idle;
    /* A client that is let go for its silence is told so, by give_up. */
    bool tells_the_silent;
    size_t kept_max; /* the longest message */
    /* Looks at `length` bytes, which it may change: all that has arrived and not been taken, answers into `output`, and returns how many bytes it took. It
     * leaves a message that is incomplete, or for whose answer there is no room. With *finish set, the
     * connection is closed once the output is written.
     *
     * A message that cannot be answered yet is left, too, with connection->waiting set. The connection takes in nothing then, and
     * its time stands still, until cdl_connection_resume hands in that message again, wherever its bytes are now. */
    size_t (*receive)(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      bool *finish);
    /* Last words to a client whose message is too long, or did not become complete in time, or that is told of its silence. May be
     * NULL. */
    void (*give_up)(struct cdl_connection *connection, bool too_long, struct cdl_writer *output);
    /* The connection is about to be freed, perhaps while it waits. May be NULL. */
    void (*closed)(struct cdl_connection *connection);
};

struct cdl_listener {
    struct cdl_listener *next, *next_starved;
    union {
        uv_handle_t any;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } handle;
    struct cdl_loop *loop;
    const struct cdl_protocol *protocol;
    struct cdl_tls_context *tls; /* NULL: plain */
    void *context;               /* the protocol's */
    bool is_local;               /* reached from this machine only; set by who opened it */
};

struct cdl_connection_bounds {
    uint32_t connections_max;    /* of all loops that count together */
    _Atomic uint64_t *together;  /* where they do; NULL: this loop by itself */
    uint32_t message_timeout_ms; /* what a message has unless its protocol says otherwise */
    uint32_t write_timeout_ms;
    uint32_t idle_timeout_ms;
};

struct cdl_loop {
    uv_loop_t uv;
    uv_timer_t tick;
    uv_async_t wake;
    uv_idle_t hearing;     /* runs while any are to be heard, so that the loop does not wait */
    uv_prepare_t turn_end; /* without a ring: sends what the turn has come to */
    struct cdl_connection *sending_first, **sending_last;
    char *outgoing;
    size_t outgoing_length;
    struct cdl_ring *ring; /* NULL: there is none */
    int ring_error;        /* why not: a negative libuv error; 0: it was not built */
    struct cdl_connection *heard_next;
    struct cdl_connection_bounds bounds;
    struct cdl_connection *connections;
    struct cdl_listener *listeners; /* that are open */
    struct cdl_listener *starved;   /* those with a connection for which there was no memory */
    uint64_t now_ms;                /* the loop's own clock, which stands still while the loop does */
    uint64_t stepped_at_ms;
    char *read_buffer, *plain_buffer, *write_buffer, *cipher_buffer;
    void (*on_tick)(struct cdl_loop *loop); /* every CDL_TICK_MS; may be NULL */
    void (*on_wake)(struct cdl_loop *loop); /* after cdl_loop_wake; may be NULL */
    void *context;
    _Atomic uint64_t accepted, rejected, timed_out, open;
    _Atomic uint64_t alone; /* what `together` points to in a loop that counts by itself */
};

#define CDL_TICK_MS UINT64_C(250)

/* What a waiting message waited for is there. Not from within the protocol's functions. */
void cdl_connection_resume(struct cdl_connection *connection);

/* A protocol that answers out of turn has something to say, or what a waiting message waited for is there. It is heard before the loop waits
 * again, so that what is said to one client in one turn travels together; while the peer has not taken what was sent before, it is heard
 * afterwards. */
void cdl_connection_flush(struct cdl_connection *connection);
/* The same for all such connections of a loop: something has happened that each may have to tell its client. From the loop's thread. */
void cdl_loop_flush(struct cdl_loop *loop);

/* Prepares a loop. False: memory or descriptors are short. */
bool cdl_loop_open(struct cdl_loop *loop, const struct cdl_connection_bounds *bounds);
/* Runs until cdl_loop_finish. */
void cdl_loop_run(struct cdl_loop *loop);
/* One turn of it, which waits for something to happen or not. False: everything is closed. */
bool cdl_loop_turn(struct cdl_loop *loop, bool waits);
/* Makes on_wake be called in the loop's thread. From any thread. */
void cdl_loop_wake(struct cdl_loop *loop);
/* Closes listeners, and connections unless they wait; those are the protocol's to answer and finish. From the loop's thread. */
void cdl_loop_quiesce(struct cdl_loop *loop);
/* Closes everything, which ends cdl_loop_run. From the loop's thread. */
void cdl_loop_finish(struct cdl_loop *loop);
/* After cdl_loop_run has returned. */
void cdl_loop_close(struct cdl_loop *loop);

/* Accepts connections on a listening descriptor, which is now the listener's. 0, or a negative libuv error. */
int cdl_listener_open(struct cdl_listener *listener, struct cdl_loop *loop, int fd, const struct cdl_protocol *protocol,
                      struct cdl_tls_context *tls, void *context);
/* Accepts no more. */
void cdl_listener_close(struct cdl_listener *listener);

#endif
