/* What the files of the Redis client share.
 *
 *     client.c        calls: handed in, in order of deadlines, ended
 *     route.c         calls: which server, what a reply means for them, sending again
 *     node.c          a server: its connections, when to connect, when it is known to be away
 *     connection.c    a connection: its socket, its bytes, the calls on it
 *     confirmation.c  calls that wait until replicas have confirmed them
 *     finder.c        where things are: asking sentinels for the primary, nodes of a cluster for their slots
 *     slots.c         slots of keys, and the reply to CLUSTER SLOTS
 *     place.c         places as text
 *
 * All that may fail or call back is done in one place, cdl_redis_settle, at the end of each entrance of client.h; what comes before only
 * changes lists and sets `restless`. A node, and the session of a connection, are freed there and nowhere else, so that nobody who is
 * further out in the same entrance holds one that is gone. */
#ifndef CDL_REDIS_CLIENT_PARTS_H
#define CDL_REDIS_CLIENT_PARTS_H

#include "base/arith.h"
#include "store/redis/client.h"

#define CDL_NS_PER_MS INT64_C(1000000)
#define CDL_REDIS_SLOTS 16384u
/* Servers that a client knows at a time. A map that names more is cut. */
#define CDL_REDIS_NODES_MAX 1024u
/* An established connection that owes replies and has said nothing for this long is given up. */
#define CDL_REDIS_SILENCE_NS CDL_NS_PER_S
/* A server that owns no slot and has not been used for this long is forgotten. */
#define CDL_REDIS_IDLE_NS (5 * CDL_NS_PER_S)

/* Calls that wait for the same thing, linked through next_there. */
struct cdl_redis_calls {
    struct cdl_redis_call *first, *last;
    size_t count;
};

void cdl_redis_calls_add(struct cdl_redis_calls *calls, struct cdl_redis_call *call);
/* Takes a call out of the list that it is in, if any. */
void cdl_redis_calls_leave(struct cdl_redis_call *call);

/* Calls that one WAIT is to confirm: those that were sent on a connection between two flushes. */
struct cdl_redis_confirmation {
    struct cdl_redis_command command; /* stays the first: the command is the way back to here */
    struct cdl_redis_connection *connection;
    struct cdl_redis_confirmation *next; /* of those that are at rest */
    struct cdl_redis_calls replied;      /* executed, not confirmed */
    size_t members;                      /* calls that point here, those without reply included */
    int64_t last_deadline_ns;            /* of theirs */
    bool out;                            /* WAIT was sent */
    bool broken;                         /* WAIT could not be sent */
    char *kept;                          /* the replies, which are lent for a moment only */
    size_t length, size;
};

/* The socket must stay the first: a loop knows a connection by it. */
struct cdl_redis_connection {
    struct cdl_redis_link link;
    struct cdl_redis_node *node;
    struct cdl_redis_session *session; /* NULL until it is first needed */
    struct cdl_redis_connection *next_dirty;
    struct cdl_redis_call *loader; /* carries the whole script, so what follows may name it */
    struct cdl_redis_confirmation *confirmation, *resting;
    enum cdl_store_event why; /* it is over */
    size_t live;              /* calls on it that somebody waits for */
    int64_t since_ns;         /* greeted */
    int64_t heard_ns;         /* the last byte, or the first that was sent after all was answered */
    unsigned watched;         /* CDL_SOCKET_READ and _WRITE */
    bool open;                /* the link is not closed */
    bool ready;               /* greeted */
    bool dirty;               /* has something to write */
    bool busy;                /* something was written that is not answered */
    bool overdue;             /* a call timed out on it since the last byte came */
    bool draining;            /* takes no more calls, and is closed when nobody waits for any */
};

enum cdl_redis_role {
    CDL_REDIS_SERVER,
    CDL_REDIS_SENTINEL_SERVER,
};

/* What the finder asks a node. */
struct cdl_redis_question {
    struct cdl_redis_command command;
    struct cdl_redis_connection *at; /* where it is; NULL: it waits for a connection */
    bool wanted;
};

/* A server.
 *
 * At most one of its connections is being opened at a time: `opening`, from the look-up of the name to the end of the greeting. */
struct cdl_redis_node {
    struct cdl_redis_client *client;
    struct cdl_redis_node *next;
    struct cdl_redis_place place;
    enum cdl_redis_role role;
    uint32_t slots;    /* of the map; a single server and the primary have one */
    bool wanted;       /* connections are to be held open */
    bool retired;      /* not the primary any more */
    bool away;         /* calls fail at once */
    bool tried;        /* an attempt to connect has ended, well or not */
    uint32_t setbacks; /* in a row; says how long the next pause is */
    uint32_t timeouts; /* in a row, without a byte between them */
    uint32_t round;    /* of the finder: the last in which it was asked */
    int64_t retry_ns;  /* no attempt before */
    int64_t used_ns;
    struct cdl_redis_calls waiting; /* for a connection */
    struct cdl_redis_question question;

    struct cdl_redis_connection *opening;
    int64_t give_up_ns;
    struct cdl_lookup_request lookup;
    uint32_t address_turn; /* of the name's addresses: the one to take */
    bool looking;
    struct sockaddr_storage address;
    socklen_t address_length; /* 0: not known */

    struct cdl_redis_connection connections[]; /* config->connections of them */
};

/* Where is the primary, who has which slot? A round asks one server after the other, the next when one has failed or has said nothing
 * for a while; the first answer ends it. */
struct cdl_redis_finder {
    bool wanted; /* something has shown that what is known is out of date */
    bool asking; /* a round is on */
    bool known;  /* there has been an answer */
    bool away;   /* nothing is known, and the last round has failed */
    uint32_t round;
    uint32_t doubts;       /* rounds in a row that began in doubt; says how long the next pause is */
    uint32_t seed;         /* the next of the seeds to be asked in this round */
    uint32_t out;          /* questions that are not answered */
    int64_t not_before_ns; /* the next round */
    int64_t next_ns;       /* the next server */
    int64_t give_up_ns;
    enum cdl_store_event event;         /* why the last server was no help */
    uint8_t order[CDL_REDIS_SEEDS_MAX]; /* of the seeds: who answered comes first */
};

struct cdl_redis_client {
    const struct cdl_redis_shared *shared;
    const struct cdl_redis_config *config;
    const struct caudal_clock *clock;
    struct cdl_loop_hooks hooks;
    struct cdl_redis_greeting greetings[2]; /* by role */
    int64_t now_ns;                         /* as of the last entrance */
    int64_t alarm_ns;
    uint64_t random;
    uint32_t depth; /* entrances, one within the other */
    bool closing;
    bool restless; /* nodes or the finder have something to do */

    struct cdl_redis_call *first, *last; /* all calls, in order of deadlines */
    size_t calls;
    struct cdl_redis_calls ended;  /* `done` is due; `reason` says with what */
    struct cdl_redis_calls lost;   /* wait until it is known where to send them */
    struct cdl_redis_calls paused; /* in order of again_ns */

    struct cdl_redis_node *nodes;
    uint32_t node_count;
    struct cdl_redis_node *primary; /* of a sentinel group; a single server */
    bool doubted;                   /* the primary has said that it is none: no calls until sentinels have spoken */
    struct cdl_redis_node **owners; /* of slots, in a cluster */
    struct cdl_redis_finder finder;
    struct cdl_redis_connection *dirty;

    struct cdl_slice *words; /* of the command that is being put together */
    size_t words_size;
    char *buffer; /* for reading */
};

#define CDL_REDIS_BUFFER_BYTES ((size_t)64 * 1024)

static inline void cdl_redis_count(struct cdl_redis_client *client, enum cdl_store_event event)
{
    cdl_store_event_count(client->shared->events, event);
}

/* ---- client.c ---- */

/* Makes cdl_redis_client_time be called then, or earlier. */
void cdl_redis_arm(struct cdl_redis_client *client, int64_t at_ns);
/* The length, or up to `share`-th less. */
int64_t cdl_redis_jitter(struct cdl_redis_client *client, int64_t length_ns, uint32_t share);
/* Ends a call now. Not from within cdl_redis_client_call. */
void cdl_redis_end(struct cdl_redis_client *client, struct cdl_redis_call *call, const struct cdl_resp *reply,
                   enum cdl_store_event event);
/* Ends a call at the end of this entrance, or of the next one. Counts what is not counted where it comes from. */
void cdl_redis_end_later(struct cdl_redis_client *client, struct cdl_redis_call *call, enum cdl_store_event event);
void cdl_redis_end_all_later(struct cdl_redis_client *client, struct cdl_redis_calls *calls,
                             enum cdl_store_event event);
/* `count` words to be filled in; NULL: memory is short. They stand until the next call. */
struct cdl_slice *cdl_redis_words(struct cdl_redis_client *client, size_t count);

/* ---- route.c ---- */

/* Sends a call to its server, or lets it wait, or ends it later. */
void cdl_redis_route(struct cdl_redis_client *client, struct cdl_redis_call *call);
void cdl_redis_route_all(struct cdl_redis_client *client, struct cdl_redis_calls *calls);
/* What `replied` of a call's command does. */
void cdl_redis_replied(struct cdl_redis_command *command, const struct cdl_resp *reply, bool sent);
/* Sends paused calls whose time has come. */
void cdl_redis_resume(struct cdl_redis_client *client);

/* ---- node.c ---- */

/* Finds a node or makes it. NULL: memory is short, or there are too many. */
struct cdl_redis_node *cdl_redis_node_at(struct cdl_redis_client *client, const struct cdl_redis_place *place,
                                         enum cdl_redis_role role);
void cdl_redis_node_take(struct cdl_redis_node *node, struct cdl_redis_call *call);
/* The connection with least in flight that may be sent on; NULL: there is none. */
struct cdl_redis_connection *cdl_redis_node_ready(struct cdl_redis_node *node);
/* The connection that was being opened is greeted. */
void cdl_redis_node_opened(struct cdl_redis_node *node);
/* It is not: `event` says why, and is counted. */
void cdl_redis_node_not_opened(struct cdl_redis_node *node, enum cdl_store_event event);
/* A connection was of no use any more after `up_ns`, -1 for one that was never greeted. It is not ready by now. */
void cdl_redis_node_setback(struct cdl_redis_node *node, int64_t up_ns, enum cdl_store_event event);
/* A byte has come from it. */
void cdl_redis_node_heard(struct cdl_redis_node *node);
/* A call of it has passed its deadline without an answer. */
void cdl_redis_node_timed_out(struct cdl_redis_node *node);
/* Its connections take no more calls, and finish those that they have. */
void cdl_redis_node_drain(struct cdl_redis_node *node);
/* Not the primary any more: what waits for it is routed anew. */
void cdl_redis_node_retire(struct cdl_redis_node *node);
/* Does what is due of all nodes, and frees those that nobody needs. */
void cdl_redis_nodes_turn(struct cdl_redis_client *client);
void cdl_redis_nodes_close(struct cdl_redis_client *client);

/* ---- connection.c ---- */

/* Begins to connect; the node hears what came of it, perhaps within this call. */
void cdl_redis_connection_open(struct cdl_redis_connection *connection);
/* Closes it, and tells all that is on it. Never within a call from its own session. */
void cdl_redis_connection_close(struct cdl_redis_connection *connection, enum cdl_store_event why);
/* It has failed: counts that, tells the node, closes it. */
void cdl_redis_connection_fail(struct cdl_redis_connection *connection, enum cdl_store_event why);
void cdl_redis_connection_ready(struct cdl_redis_connection *connection);
void cdl_redis_connection_send(struct cdl_redis_connection *connection, struct cdl_redis_call *call);
/* The call is not on it any more. */
void cdl_redis_connection_release(struct cdl_redis_connection *connection, struct cdl_redis_call *call);
/* Nobody waits for the call any more. */
void cdl_redis_connection_abandon(struct cdl_redis_connection *connection, struct cdl_redis_call *call);
/* It has something to write, which is done when the client settles. */
void cdl_redis_connection_touch(struct cdl_redis_connection *connection);
void cdl_redis_connections_write(struct cdl_redis_client *client);
/* Closed before. */
void cdl_redis_connection_free(struct cdl_redis_connection *connection);

/* ---- confirmation.c ---- */

/* The call was sent on the connection and is to be confirmed. False: memory is short. */
bool cdl_redis_confirm(struct cdl_redis_connection *connection, struct cdl_redis_call *call);
/* Sends WAIT for what was sent since the last one. */
void cdl_redis_confirmation_flush(struct cdl_redis_connection *connection);
/* Takes a call's reply, to end the call when it is confirmed. */
void cdl_redis_confirmation_keep(struct cdl_redis_call *call, const struct cdl_resp *reply);
/* The call is not to be confirmed any more, if it was. */
void cdl_redis_confirmation_leave(struct cdl_redis_call *call);
void cdl_redis_confirmations_free(struct cdl_redis_connection *connection);

/* ---- finder.c ---- */

/* Asks, as soon as may be. */
void cdl_redis_find(struct cdl_redis_client *client);
void cdl_redis_finder_turn(struct cdl_redis_client *client);
/* The node's question can be sent. */
void cdl_redis_finder_ask(struct cdl_redis_node *node, struct cdl_redis_connection *connection);
/* The node cannot be asked. */
void cdl_redis_finder_failed(struct cdl_redis_node *node, enum cdl_store_event event);
/* Who speaks for the primary has been wrong: others are asked first. */
void cdl_redis_finder_distrust(struct cdl_redis_client *client);
void cdl_redis_own(struct cdl_redis_client *client, uint32_t slot, struct cdl_redis_node *node);

/* ---- slots.c ---- */

struct cdl_redis_range {
    uint32_t first, last; /* slots, both included */
    struct cdl_redis_place place;
};

/* Reads the next range of a reply to CLUSTER SLOTS from the elements that are left. `asked` is who sent it. 1: a range; 0: a range whose
 * primary has no known place; -1: it is none. */
int cdl_redis_range_next(struct cdl_slice *rest, const struct cdl_redis_place *asked, struct cdl_redis_range *range);

/* ---- place.c ---- */

/* Where a MOVED or ASK points to. An empty host is the host of the server that said it. False: not understood. */
bool cdl_redis_error_place(struct cdl_slice text, const struct cdl_redis_place *from, uint32_t *slot,
                           struct cdl_redis_place *place);
/* A decimal number, and nothing else. */
bool cdl_redis_number(struct cdl_slice text, uint64_t most, uint64_t *number);
/* False: it does not fit. */
bool cdl_redis_place_set(struct cdl_redis_place *place, struct cdl_slice host, uint64_t port);

#endif
