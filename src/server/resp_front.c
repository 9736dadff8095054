/* Commands in, replies out, in their order. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/exchange.h"
#include "server/resp.h"

#define SHOWN_BYTES ((size_t)64) /* of somebody's bytes in an error */
#define ERROR_BYTES 1024u
/* The reply to a decision on one limit; and what each limit more makes it longer. */
#define TOLD_BYTES 1024u
#define TOLD_EACH_BYTES 640u

/* A reply that is owed. It stands between a connection and what it waits for, either of which may be over first. */
struct cdl_resp_reply {
    struct cdl_resp_reply *next;
    struct cdl_worker *worker;
    struct cdl_connection *connection; /* NULL: it is gone */
    const struct cdl_resp_verb *verb;
    unsigned protocol;
    bool done;
    bool counts;                 /* the answer, as a decision */
    int64_t began_ns;            /* of what waits for the store */
    struct cdl_inquiry *inquiry; /* NULL: it is a text */
    size_t bytes;                /* that it will have, at most */
    char *text;
    size_t text_length;
};

static int64_t now_ns(const struct cdl_worker *worker)
{
    const struct caudal_clock *clock = worker->server->clock;
    return clock->monotonic_ns(clock->context);
}

/* ---- errors ---- */

struct cdl_slice cdl_resp_shown(struct cdl_slice bytes)
{
    return cdl_slice_head(bytes, cdl_min_u64(bytes.length, SHOWN_BYTES));
}

void cdl_resp_error(struct cdl_resp_call *call, const char *format, ...)
{
    char text[ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cdl_resp_write_error(call->output, (struct cdl_slice){text, cdl_min_u64((uint64_t)length, sizeof text - 1)});
}

void cdl_resp_error_about(struct cdl_resp_call *call, const char *what, const char *before, struct cdl_slice bytes,
                          const char *behind)
{
    char text[ERROR_BYTES];
    struct cdl_writer error = cdl_writer_on(text, sizeof text);
    cdl_write_text(&error, "ERR ");
    cdl_write_text(&error, what);
    cdl_write_text(&error, before);
    cdl_write(&error, cdl_resp_shown(bytes));
    cdl_write_text(&error, bytes.length > SHOWN_BYTES ? "..." : "");
    cdl_write_text(&error, behind);
    cdl_resp_write_error(call->output, cdl_written(&error));
}

void cdl_resp_error_arity(struct cdl_resp_call *call)
{
    cdl_resp_error(call, "ERR wrong number of arguments for '%s' command", call->verb->name.bytes);
}

void cdl_resp_tell_unavailable(struct cdl_writer *output, const struct cdl_answer *answer)
{
    char text[ERROR_BYTES];
    struct cdl_writer error = cdl_writer_on(text, sizeof text);
    const struct cdl_limit_rule *limit = &answer->live->policy->limits[answer->plan.charges[answer->binding].limit];
    if (answer->overall.status == CAUDAL_ERR_LIMIT) {
        cdl_resp_write_error(output, CDL_SLICE("ERR count, period: the store cannot count this rate exactly"));
        return;
    }
    cdl_write_text(&error, "UNAVAILABLE ");
    if (limit->kind != CDL_RULE_PER_CALL)
        cdl_writef(&error, "limit '%.*s': ", CDL_SLICE_ARG(limit->name));
    cdl_write_text(&error, "the store cannot be reached, and the limit is to refuse then");
    cdl_resp_write_error(output, cdl_written(&error));
}

/* ---- replies that wait ---- */

static void free_reply(struct cdl_resp_reply *reply)
{
    cdl_inquiry_free(reply->inquiry);
    free(reply->text);
    free(reply);
}

static struct cdl_resp_reply *new_reply(struct cdl_resp_call *call, size_t bytes)
{
    struct cdl_resp_session *session = call->session;
    struct cdl_resp_reply *reply = calloc(1, sizeof *reply);
    if (reply == NULL)
        return NULL;
    reply->worker = call->worker;
    reply->connection = call->connection;
    reply->verb = call->verb;
    reply->protocol = session->protocol;
    reply->began_ns = now_ns(call->worker);
    reply->bytes = bytes;
    if (session->last != NULL)
        session->last->next = reply;
    else
        session->first = reply;
    session->last = reply;
    session->owed++;
    session->owed_bytes += bytes;
    call->later = true;
    return reply;
}

static void forget_first(struct cdl_resp_session *session)
{
    struct cdl_resp_reply *reply = session->first;
    session->first = reply->next;
    if (session->first == NULL)
        session->last = NULL;
    session->owed--;
    session->owed_bytes -= reply->bytes;
    free_reply(reply);
}

/* Writes the replies that are there and have none before them that is not. There is room for all of them: see CDL_RESP_OWED_BYTES. */
static void write_done(struct cdl_resp_session *session, struct cdl_writer *output)
{
    while (session->first != NULL && session->first->done) {
        struct cdl_resp_reply *reply = session->first;
        if (reply->inquiry != NULL)
            reply->verb->tell(output, reply->protocol, cdl_inquiry_answer(reply->inquiry));
        else
            cdl_write(output, (struct cdl_slice){reply->text, reply->text_length});
        forget_first(session);
    }
}

/* Whether no other comes before it. */
static bool is_first(const struct cdl_resp_reply *reply)
{
    const struct cdl_resp_session *session = reply->connection->state;
    return session->first == reply;
}

/* What it waited for is there. */
static void finish_reply(struct cdl_resp_reply *reply)
{
    struct cdl_worker *worker = reply->worker;
    cdl_histogram_record(worker->latency, now_ns(worker) - reply->began_ns);
    reply->done = true;
    if (reply->connection == NULL)
        free_reply(reply);
    else if (is_first(reply))
        cdl_connection_flush(reply->connection);
    if (atomic_load_explicit(&worker->server->stopping, memory_order_relaxed) && worker->asker.waiting == 0)
        cdl_loop_wake(&worker->loop); /* it waited for this one */
}

static void on_answered(struct cdl_inquiry *inquiry, void *context)
{
    struct cdl_resp_reply *reply = context;
    if (reply->counts)
        cdl_account(reply->worker, cdl_inquiry_answer(inquiry));
    finish_reply(reply);
}

static void forget(struct cdl_inquiry *inquiry, void *context)
{
    (void)context;
    cdl_inquiry_free(inquiry);
}

void cdl_resp_answer(struct cdl_resp_call *call, struct cdl_inquiry *inquiry, bool counts)
{
    struct cdl_worker *worker = call->worker;
    const struct cdl_answer *answer = &worker->asker.answer;
    if (inquiry == NULL) {
        if (counts)
            cdl_account(worker, answer);
        call->verb->tell(call->output, call->session->protocol, answer);
        return;
    }
    struct cdl_resp_reply *reply = new_reply(call, TOLD_BYTES + answer->plan.count * TOLD_EACH_BYTES);
    if (reply == NULL) {
        cdl_inquiry_await(inquiry, forget, NULL);
        cdl_resp_error(call, "ERR no memory to wait for the store");
        return;
    }
    reply->counts = counts;
    reply->inquiry = inquiry;
    cdl_inquiry_await(inquiry, on_answered, reply);
}

struct cdl_resp_reply *cdl_resp_wait(struct cdl_resp_call *call)
{
    struct cdl_resp_reply *reply = new_reply(call, TOLD_BYTES);
    if (reply == NULL)
        cdl_resp_error(call, "ERR no memory to wait for the store");
    return reply;
}

/* Keeps a text of at most the bytes that were set aside for it. */
static bool keep_text(struct cdl_resp_reply *reply, struct cdl_slice text)
{
    reply->text = malloc(text.length);
    if (reply->text == NULL)
        return false;
    memcpy(reply->text, text.bytes, text.length);
    reply->text_length = text.length;
    return true;
}

void cdl_resp_done(struct cdl_resp_reply *reply, struct cdl_slice text)
{
    if (reply->connection != NULL && !keep_text(reply, text)) {
        struct cdl_resp_session *session = reply->connection->state;
        session->ending = true; /* a reply that is missing would shift those behind it */
    }
    finish_reply(reply);
}

/* ---- commands ---- */

static void unknown(struct cdl_resp_call *call)
{
    char text[ERROR_BYTES];
    struct cdl_writer error = cdl_writer_on(text, sizeof text);
    const struct cdl_slice name = cdl_slice_head(call->arguments[0],
                                                 cdl_min_u64(call->arguments[0].length, 2 * SHOWN_BYTES));
    cdl_write_text(&error, "ERR unknown command '");
    cdl_write(&error, name);
    cdl_write_text(&error, "', with args beginning with: ");
    const size_t most = error.length + 2 * SHOWN_BYTES;
    for (size_t i = 1; i < call->count && error.length < most; i++) {
        cdl_write_text(&error, "'");
        cdl_write(&error, cdl_resp_shown(call->arguments[i]));
        cdl_write_text(&error, "' ");
    }
    cdl_resp_write_error(call->output, cdl_written(&error));
}

/* False: it may not be run, and the client is told why. */
static bool may_run(struct cdl_resp_call *call)
{
    const struct cdl_resp_verb *verb = call->verb;
    const struct cdl_resp_session *session = call->session;
    const int given = (int)call->count;
    if (verb == NULL) {
        if (session->known)
            unknown(call);
        else
            cdl_resp_error(call, "NOAUTH Authentication required.");
        return false;
    }
    if (verb->arity >= 0 ? given != verb->arity : given < -verb->arity) {
        cdl_resp_error_arity(call);
        return false;
    }
    if (!session->known && !verb->before_auth) {
        cdl_resp_error(call, "NOAUTH Authentication required.");
        return false;
    }
    if ((verb->right & ~session->rights) != 0) {
        cdl_resp_error(call, "NOPERM User %.*s has no permissions to run the '%s' command", (int)session->user_length,
                       session->user, verb->name.bytes);
        return false;
    }
    return true;
}

/* A reply that is there already, but must wait for those before it. */
static void keep_back(struct cdl_resp_call *call, size_t start)
{
    struct cdl_writer *output = call->output;
    const struct cdl_slice text = {output->bytes + start, output->length - start};
    struct cdl_resp_reply *reply = new_reply(call, text.length);
    if (reply == NULL || !keep_text(reply, text))
        call->session->ending = true; /* as in cdl_resp_done */
    if (reply != NULL)
        reply->done = true;
    output->length = start;
}

static void run(struct cdl_resp_call *call)
{
    const size_t start = call->output->length;
    if (may_run(call))
        call->verb->run(call);
    if (!call->later && call->session->first != NULL)
        keep_back(call, start);
}

static void refuse_bytes(struct cdl_resp_call *call)
{
    const size_t start = call->output->length;
    cdl_counters_event(call->worker->counters, CDL_EVENT_BAD_REQUEST, 1);
    cdl_resp_error(call, "ERR Protocol error: %s", call->session->reader.error);
    if (call->session->first != NULL)
        keep_back(call, start);
    call->session->ending = true;
}

/* ---- the protocol ---- */

static bool may_owe_more(const struct cdl_resp_session *session)
{
    return session->owed < CDL_RESP_OWED_MAX && session->owed_bytes < CDL_RESP_OWED_BYTES;
}

static bool has_room(const struct cdl_writer *output)
{
    return output->size - output->length >= CDL_RESP_TOLD_MAX;
}

/* What the next one will be asked about is fetched while this one is run. */
static void expect_next(const struct cdl_resp_call *call, const struct cdl_resp_command *command, struct cdl_slice rest,
                        struct cdl_expected *expected)
{
    if (call->verb == NULL || call->verb->keys != 1 || rest.length == 0)
        return;
    const struct cdl_slice key = cdl_resp_look_ahead(command, rest);
    if (key.length > 0)
        cdl_resp_expect(call, key, expected);
}

/* What was looked up last: commands that travel together are mostly of one kind. */
struct looked_up {
    struct cdl_slice name;
    const struct cdl_resp_verb *verb;
};

static void look_up(struct cdl_resp_call *call, struct looked_up *last)
{
    if (last->verb == NULL || !cdl_slice_equal(call->arguments[0], last->name))
        last->verb = cdl_resp_verb_find(call->worker->live->policy, call->arguments[0]);
    last->name = call->arguments[0];
    call->verb = last->verb;
}

/* Runs the commands in `bytes`; how many bytes they took. `decided` counts those that asked the limiter and are answered. */
static size_t run_all(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      uint32_t *decided)
{
    struct cdl_resp_session *session = connection->state;
    struct cdl_resp_command command;
    struct cdl_expected expected = {0};
    struct looked_up last = {{"", 0}, NULL};
    size_t taken = 0;
    while (taken < length && !session->ending && may_owe_more(session) && has_room(output)) {
        struct cdl_resp_call call = {.worker = connection->listener->context,
                                     .connection = connection,
                                     .session = session,
                                     .arguments = command.arguments,
                                     .output = output};
        const enum cdl_resp_result result = cdl_resp_read_command(&session->reader, bytes + taken, length - taken,
                                                                  &command);
        if (result == CDL_RESP_MORE)
            break;
        if (result == CDL_RESP_BAD) {
            refuse_bytes(&call);
            break;
        }
        taken += command.length;
        call.count = command.count;
        if (call.count == 0)
            continue;
        look_up(&call, &last);
        expect_next(&call, &command, (struct cdl_slice){bytes + taken, length - taken}, &expected);
        run(&call);
        cdl_store_expect_more(&expected);
        *decided += call.verb != NULL && call.verb->right != 0 && !call.later;
    }
    return taken;
}

static size_t receive(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      bool *finish)
{
    struct cdl_worker *worker = connection->listener->context;
    struct cdl_resp_session *session = connection->state;
    uint32_t decided = 0;
    if (session->protocol == 0 || session->generation != worker->live->generation)
        cdl_resp_user_revise(session, worker->live);
    session->ending |= atomic_load_explicit(&worker->server->stopping, memory_order_relaxed);
    write_done(session, output);
    const int64_t began_ns = length > 0 ? now_ns(worker) : 0;
    const size_t taken = run_all(connection, bytes, length, output, &decided);
    if (decided > 0)
        cdl_histogram_record_many(worker->latency, now_ns(worker) - began_ns, decided);
    connection->owing = session->first != NULL;
    connection->waiting = connection->owing && (session->ending || !may_owe_more(session));
    *finish = session->ending && !connection->owing;
    return taken;
}

static void give_up(struct cdl_connection *connection, bool too_long, struct cdl_writer *output)
{
    struct cdl_worker *worker = connection->listener->context;
    cdl_counters_event(worker->counters, CDL_EVENT_BAD_REQUEST, 1);
    cdl_resp_write_error(output, too_long ? CDL_SLICE("ERR Protocol error: too big a command")
                                          : CDL_SLICE("ERR Protocol error: the command did not become whole in time"));
}

static void closed(struct cdl_connection *connection)
{
    struct cdl_resp_session *session = connection->state;
    for (struct cdl_resp_reply *reply = session->first, *next; reply != NULL; reply = next) {
        next = reply->next;
        reply->connection = NULL;
        if (reply->done)
            free_reply(reply);
    }
    session->first = session->last = NULL;
}

const struct cdl_protocol cdl_resp_protocol = {
    .state_bytes = sizeof(struct cdl_resp_session),
    .out_of_turn = true,
    .may_be_idle = true,
    .kept_max = CDL_RESP_COMMAND_MAX,
    .receive = receive,
    .give_up = give_up,
    .closed = closed,
};
