/* The front end for Redis clients: what its files share.
 *
 *     resp_front.c     bytes become commands, replies go out in their order
 *     resp_verbs.c     the one list of commands, and COMMAND, which tells it
 *     resp_talk.c      what clients say around the commands that they came for
 *     resp_users.c     who they are and what they may
 *     resp_throttle.c  limits that come with the call: CL.THROTTLE and its like
 *     resp_own.c       the policy's limits: CAUDAL.TAKE and its like
 *     resp_forget.c    CAUDAL.RESET
 *     resp_explain.c   CAUDAL.EXPLAIN
 *
 * A command is run as soon as it is whole. Where the store answers later, those behind it are run meanwhile, and their replies wait in a queue
 * for its; both what waits and what it will take to write it down are bounded, and beyond that no more commands are taken in. */
#ifndef CDL_SERVER_RESP_H
#define CDL_SERVER_RESP_H

#include "server/worker.h"
#include "wire/json_api.h"
#include "wire/resp_command.h"
#include "wire/resp_write.h"

/* Replies of one connection that wait for the store or for those before them, and the bytes that they will have. */
#define CDL_RESP_OWED_MAX 64u
#define CDL_RESP_OWED_BYTES ((size_t)256 * 1024)
/* No reply is longer. What is owed and one more fit into the output of one turn. */
#define CDL_RESP_TOLD_MAX ((size_t)256 * 1024)
#define CDL_RESP_NAME_MAX 128u /* bytes of the name that a client gives itself, and of a user's */

struct cdl_resp_verb;
struct cdl_resp_reply;

/* What a connection keeps between two commands: its state. */
struct cdl_resp_session {
    struct cdl_resp_reader reader;
    struct cdl_resp_reply *first, *last; /* that are owed */
    uint32_t owed;
    size_t owed_bytes;
    bool ending;         /* nothing more is read; it is closed when nothing is owed any more */
    unsigned protocol;   /* of RESP: 2 or 3; 0: it is new, see cdl_resp_user_revise */
    uint64_t id;         /* 0: nobody has asked for it yet */
    uint64_t generation; /* of the policy that the following were found by */
    bool known;          /* it has said who it is, or need not */
    uint32_t rights;     /* enum cdl_resp_right */
    uint8_t user_length, name_length;
    char user[CDL_RESP_NAME_MAX]; /* empty: it has not said who it is */
    char name[CDL_RESP_NAME_MAX];
};

/* One command that is being run. */
struct cdl_resp_call {
    struct cdl_worker *worker;
    struct cdl_connection *connection;
    struct cdl_resp_session *session;
    const struct cdl_resp_verb *verb;
    const struct cdl_slice *arguments; /* the first is the command's name, as it was sent */
    size_t count;
    struct cdl_writer *output;
    bool later; /* set by what makes the reply wait */
};

/* Writes down an answer of the limiter. */
typedef void cdl_resp_tell(struct cdl_writer *output, unsigned protocol, const struct cdl_answer *answer);

/* A command. */
struct cdl_resp_verb {
    struct cdl_slice name; /* in lower case */
    int arity;             /* as Redis counts: the name too; negative: at least so many */
    uint32_t right;        /* enum cdl_resp_right; 0: anybody's */
    bool before_auth;      /* may be said by who has not said who they are */
    uint8_t keys;          /* position of its only key; 0: none */
    const char *flags;     /* Redis's words for what it is, separated by blanks */
    bool (*is_on)(const struct cdl_resp_settings *settings); /* NULL: always */
    void (*run)(struct cdl_resp_call *call);
    cdl_resp_tell *tell; /* of those that ask the limiter */
    const char *syntax;  /* of its arguments: "key [COST cost]" */
    const char *summary;
};

/* The command of that name, in any case, if the policy has it on; NULL: there is none. */
const struct cdl_resp_verb *cdl_resp_verb_find(const struct cdl_policy *policy, struct cdl_slice name);
/* All of them, in the order of the documentation, whether or not they are on. NULL: there are no more. */
const struct cdl_resp_verb *cdl_resp_verb_at(size_t index);

/* ---- replies ---- */

__attribute__((format(printf, 2, 3))) void cdl_resp_error(struct cdl_resp_call *call, const char *format, ...);
/* "ERR what before'somebody's bytes'behind": bytes that may be any, NUL included, and are cut to what a line is good for. */
void cdl_resp_error_about(struct cdl_resp_call *call, const char *what, const char *before, struct cdl_slice bytes,
                          const char *behind);
/* That it has too many or too few arguments. */
void cdl_resp_error_arity(struct cdl_resp_call *call);
/* So much of somebody's bytes as is shown in an error. */
struct cdl_slice cdl_resp_shown(struct cdl_slice bytes);

/* Replies with what the limiter has answered (`inquiry` NULL: it has, in the worker's asker), now or when it does. `counts`: as a decision. */
void cdl_resp_answer(struct cdl_resp_call *call, struct cdl_inquiry *inquiry, bool counts);

/* A reply that waits for something else: it is told in words when that is there. NULL: there is no memory, and the client is told. */
struct cdl_resp_reply *cdl_resp_wait(struct cdl_resp_call *call);
/* Its text; from the worker's thread, not from within a command. */
void cdl_resp_done(struct cdl_resp_reply *reply, struct cdl_slice text);

/* That a limit fails closed because its store is away. */
void cdl_resp_tell_unavailable(struct cdl_writer *output, const struct cdl_answer *answer);

/* ---- users ---- */

/* Passwords of a policy's users, as digests. */
struct cdl_resp_passwords;
/* Reads their files. NULL: there is no memory, or a file cannot be read or is empty, see `problem`. */
struct cdl_resp_passwords *cdl_resp_passwords_read(const struct cdl_policy *policy, struct caudal_problem *problem);
/* NULL does nothing. */
void cdl_resp_passwords_free(struct cdl_resp_passwords *passwords);

/* Finds out what a session may by the policy in force. A user who is gone has to say anew who they are. */
void cdl_resp_user_revise(struct cdl_resp_session *session, const struct cdl_live_policy *live);
/* Says who it is. False: the password is not that user's, or there is no such user, and the client is told; nothing has changed. */
bool cdl_resp_login(struct cdl_resp_call *call, struct cdl_slice user, struct cdl_slice password);

/* ---- limits of the policy ---- */

/* Reads "limit part ... [COST n]" behind the command's name; without `may_cost` only "limit part ...". The parts are borrowed from the
 * command. False: it cannot be asked, and the client is told. */
bool cdl_resp_read_named(struct cdl_resp_call *call, bool may_cost, struct cdl_named_key *key, uint64_t *cost);
/* Reads "attribute value ... [COST n]"; CDL_COST_UNSAID where it does not say. */
bool cdl_resp_read_attributes(struct cdl_resp_call *call, struct cdl_field attributes[CDL_JSON_ATTRIBUTES_MAX],
                              size_t *count, uint64_t *cost);
/* A decision as a map, in the words of the JSON API. */
void cdl_resp_write_decision(struct cdl_writer *output, unsigned protocol, struct cdl_slice limit,
                             const struct caudal_decision *decision);

/* ---- commands ---- */

/* A command about that key will be asked soon, by a limit that it brings: see cdl_store_expect. */
void cdl_resp_expect(const struct cdl_resp_call *call, struct cdl_slice key, struct cdl_expected *expected);
void cdl_resp_cl_throttle(struct cdl_resp_call *call);
void cdl_resp_throttle(struct cdl_resp_call *call);
void cdl_resp_gcra(struct cdl_resp_call *call);
cdl_resp_tell cdl_resp_tell_cl_throttle, cdl_resp_tell_throttle;

void cdl_resp_take(struct cdl_resp_call *call);
void cdl_resp_peek(struct cdl_resp_call *call);
void cdl_resp_refund(struct cdl_resp_call *call);
void cdl_resp_check(struct cdl_resp_call *call);
void cdl_resp_reset_key(struct cdl_resp_call *call);
void cdl_resp_explain(struct cdl_resp_call *call);
cdl_resp_tell cdl_resp_tell_named, cdl_resp_tell_policy;

void cdl_resp_hello(struct cdl_resp_call *call);
void cdl_resp_auth(struct cdl_resp_call *call);
void cdl_resp_client(struct cdl_resp_call *call);
void cdl_resp_select(struct cdl_resp_call *call);
void cdl_resp_ping(struct cdl_resp_call *call);
void cdl_resp_echo(struct cdl_resp_call *call);
void cdl_resp_command(struct cdl_resp_call *call);
void cdl_resp_info(struct cdl_resp_call *call);
void cdl_resp_config(struct cdl_resp_call *call);
void cdl_resp_reset(struct cdl_resp_call *call);
void cdl_resp_quit(struct cdl_resp_call *call);

#endif
