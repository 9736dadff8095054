/* Redis servers that do as they are told, and a loop for a client of them, all in one thread and on a clock that stands still until it is
 * moved: what happens, and in which order, is the test's choice.
 *
 * The sockets are real ones, of the loopback interface. `run` lets everything happen that can happen at this instant; `advance` moves the
 * clock, and stops at every alarm on the way. Nobody waits for real time to pass. */
#ifndef TESTS_UNIT_STORE_REDIS_FAKE_REDIS_H
#define TESTS_UNIT_STORE_REDIS_FAKE_REDIS_H

#include "../../support.h"
#include "store/redis/client.h"

#define SERVERS_MAX 4
#define PEERS_MAX 32
#define CANNED_MAX 64
#define KEYS_MAX 65536
#define SHA "0123456789012345678901234567890123456789"
#define SCRIPT "return 1"

/* A canned reply that is none: the server closes the connection instead. */
#define HANG_UP "\xff"
/* The command is read and never answered. */
#define SILENCE "\xfe"

struct peer {
    int fd; /* -1: none */
    char input[65536];
    size_t input_length;
    char output[65536];
    size_t output_length;
    bool hang_up; /* when the output is written */
};

struct server {
    int listener; /* -1: nobody listens */
    uint16_t port;
    char place[32]; /* "127.0.0.1:6379" */
    struct peer peers[PEERS_MAX];
    unsigned open, most_open, accepted;

    /* How it behaves. */
    bool stopped;          /* as under SIGSTOP: the kernel goes on, the program does not */
    bool mute;             /* reads, executes, and holds its replies back */
    bool has_script;       /* set by EVAL */
    bool old;              /* knows no HELLO */
    const char *greeting;  /* the reply to HELLO or AUTH, if it is another than usual */
    const char *role;      /* "master" */
    const char *slots;     /* the reply to CLUSTER SLOTS */
    const char *primary;   /* the reply to SENTINEL GET-MASTER-ADDR-BY-NAME */
    const char *confirmed; /* the reply to WAIT */
    size_t bite;           /* so many bytes of a reply are sent at a time; 0: all */
    size_t cut;            /* the connection is closed after so many bytes of replies to calls; SIZE_MAX: never */
    const char *canned[CANNED_MAX]; /* the next replies to calls, in order; after the last it executes */
    size_t canned_first, canned_count;

    /* What it saw. */
    unsigned executed, evals, evalshas, askings, waits, map_questions, primary_questions;
    char log[4096]; /* keys of executed calls, each with a blank behind it */
};

/* A call and what became of it. */
struct probe {
    struct cdl_redis_call call;
    struct cdl_slice words[8];
    char key[64];
    unsigned done;
    bool replied; /* with a reply */
    enum cdl_store_event event;
    int64_t integer;
    char text[256];
    unsigned order; /* of all that are done, from 1 */
    int64_t done_ns;
    void (*then)(struct probe *probe);
};

void server_open(struct server *server);
/* Closes what the server holds; it can be opened again, on the same port. */
void server_close(struct server *server);
void server_can(struct server *server, const char *reply);
/* Closes all connections. */
void server_hang_up(struct server *server);

/* Lets it say what it holds, before the client has its turn. */
void server_speak(struct server *server);

struct world_of_redis {
    struct caudal_fake_clock *clock;
    struct counting_allocator counting;
    struct cdl_redis_config config;
    struct cdl_redis_shared shared;
    struct cdl_store_events events;
    struct cdl_redis_client *client;
    struct server servers[SERVERS_MAX];
    struct {
        struct cdl_socket *socket;
        unsigned events;
    } watched[64];
    int64_t alarm_ns;
    unsigned alarms;
    struct cdl_lookup_request *looking; /* with `look_up_later` */
    bool look_up_later, unknown_names;
    unsigned look_ups;
    unsigned dead_addresses;     /* that names have before the one of the servers */
    unsigned done;               /* calls */
    bool in_call;                /* the client is in cdl_redis_client_call */
    int echo[2];                 /* the two ends of a connection */
    unsigned char ran[KEYS_MAX]; /* how often a call was executed, by the number at the end of its key */
};

extern struct world_of_redis redis;

/* Servers that listen, a configuration for the first of them, no client yet. */
void redis_open(unsigned servers);
void redis_connect(void);     /* opens the client */
bool redis_try_connect(void); /* false: memory is short */
void redis_close(void);       /* the client, the servers; nothing may be left behind */

void run(void);
void advance(int64_t ns);
int64_t now(void);
uint64_t count_of(enum cdl_store_event event);

/* The two halves of ask_for. */
void prepare(struct probe *probe, const char *key, int64_t deadline_ns);
void hand_in(struct probe *probe);
/* Hands in a call of the script for `key` that has `deadline_ns` from now. */
void ask_for(struct probe *probe, const char *key, int64_t deadline_ns);
/* The same, a flush, and all that follows from it at this instant. */
void ask(struct probe *probe, const char *key, int64_t deadline_ns);
void assert_done(const struct probe *probe, enum cdl_store_event event);
void assert_waits(const struct probe *probe);

#endif
