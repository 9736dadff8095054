/* Two streams go out, and never at the same time: the greeting, then the commands. So a greeting that is refused proves that nothing
 * of any command has left.
 *
 *     connected   HELLO 3 AUTH user password SETNAME caudal, SELECT 3, ROLE      all at once
 *     refused     AUTH user password, CLIENT SETNAME caudal, SELECT 3, ROLE      for a server that does not know HELLO
 *     greeted     the commands, as they come
 *
 * Commands in flight stand in a ring in the order in which they were sent, each with the place in the stream where its bytes end. How
 * much of the stream has been written then says of each whether it may have left, and a reply to one that has not is none.
 *
 * Invariant: a command is told once, by its reply or by the end of the connection, or never, when it was abandoned. */
#include "store/redis/session.h"

#include "base/writer.h"

/* Bytes that wait to be written, at most. */
#define OUTPUT_MAX ((size_t)1 << 24)
#define BUFFER_MIN ((size_t)1 << 12)
/* What an empty buffer may keep for the next time. */
#define BUFFER_KEPT ((size_t)1 << 20)
#define RING_MIN 64u

enum step_kind {
    STEP_HELLO,
    STEP_AUTH,
    STEP_NAME,
    STEP_SELECT,
    STEP_ROLE,
    STEP_DROPPED, /* whatever the answer is */
};

/* A command of the greeting, in the order of their answers. */
struct step {
    enum step_kind kind;
    size_t end; /* of its bytes in `hello` */
};

/* HELLO, SELECT and ROLE; then AUTH, CLIENT, SELECT and ROLE. */
#define STEPS_MAX 7u

/* Bytes from `start` to `end`. */
struct buffer {
    char *bytes;
    size_t size, start, end;
};

struct flight {
    struct cdl_redis_command *command; /* NULL: abandoned */
    uint64_t end;                      /* of its bytes in the stream */
};

struct cdl_redis_session {
    struct caudal_allocator allocator;
    struct cdl_redis_greeting greeting;
    enum cdl_redis_session_state state;
    enum cdl_store_event failure;
    uint32_t connection; /* counts them, so that a callback that ended this one is noticed */

    struct cdl_writer hello; /* the greeting's bytes, as many as it can ever have */
    size_t hello_sent;
    struct step steps[STEPS_MAX];
    uint32_t step_count, steps_done;

    struct flight *ring; /* the command with the number n is at n % ring_size */
    size_t ring_size, ring_max;
    size_t first, count; /* the number of the oldest in flight, and how many there are */

    struct buffer output;
    uint64_t appended, written; /* bytes of the stream so far */
    uint64_t answered;          /* where the bytes of the oldest in flight begin */

    struct buffer input; /* a reply that is not whole yet */
    struct cdl_resp_meter meter;
};

/* ---- buffers ---- */

static struct cdl_slice content(const struct buffer *buffer)
{
    return (struct cdl_slice){buffer->bytes != NULL ? buffer->bytes + buffer->start : NULL,
                              buffer->end - buffer->start};
}

static void release_buffer(const struct cdl_redis_session *session, struct buffer *buffer)
{
    cdl_release(&session->allocator, buffer->bytes, buffer->size, 1);
    *buffer = (struct buffer){0};
}

/* Moves the bytes to memory of which they and `extra` more take half at most. */
static bool grow(const struct cdl_redis_session *session, struct buffer *buffer, size_t extra)
{
    const struct cdl_slice old = content(buffer);
    struct buffer bigger = {.size = BUFFER_MIN, .end = old.length};
    while (bigger.size / 2 < old.length + extra)
        bigger.size *= 2;
    bigger.bytes = cdl_allocate(&session->allocator, bigger.size, 1, 1);
    if (bigger.bytes == NULL)
        return false;
    if (old.bytes != NULL)
        memcpy(bigger.bytes, old.bytes, old.length);
    release_buffer(session, buffer);
    *buffer = bigger;
    return true;
}

/* Room for `extra` bytes at the end; NULL: memory is short. Half of a buffer is free after its bytes were moved, so that each byte is
 * moved a bounded number of times. */
static char *make_room(const struct cdl_redis_session *session, struct buffer *buffer, size_t extra)
{
    const size_t length = content(buffer).length;
    if (buffer->bytes == NULL || (extra > buffer->size - buffer->end && length + extra > buffer->size / 2)) {
        if (!grow(session, buffer, extra))
            return NULL;
    } else if (extra > buffer->size - buffer->end) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, length);
        buffer->start = 0;
        buffer->end = length;
    }
    return buffer->bytes + buffer->end;
}

static void take_from_front(const struct cdl_redis_session *session, struct buffer *buffer, size_t length)
{
    buffer->start += length;
    if (buffer->start < buffer->end)
        return;
    buffer->start = buffer->end = 0;
    if (buffer->size > BUFFER_KEPT)
        release_buffer(session, buffer);
}

/* ---- writing commands ---- */

static size_t digits_of(size_t number)
{
    size_t digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

/* The bytes that write_words writes, or more than OUTPUT_MAX. */
static size_t length_of_words(const struct cdl_slice *words, size_t count)
{
    size_t length = digits_of(count) + 3;
    for (size_t i = 0; i < count && length <= OUTPUT_MAX; i++)
        length += words[i].length > OUTPUT_MAX ? OUTPUT_MAX + 1 : words[i].length + digits_of(words[i].length) + 5;
    return length;
}

/* "*2" CRLF "$6" CRLF "SELECT" CRLF "$1" CRLF "3" CRLF. */
static void write_words(struct cdl_writer *writer, const struct cdl_slice *words, size_t count)
{
    cdl_write_text(writer, "*");
    cdl_write_u64(writer, count);
    cdl_write_text(writer, "\r\n");
    for (size_t i = 0; i < count; i++) {
        cdl_write_text(writer, "$");
        cdl_write_u64(writer, words[i].length);
        cdl_write_text(writer, "\r\n");
        cdl_write(writer, words[i]);
        cdl_write_text(writer, "\r\n");
    }
}

/* ---- the greeting ---- */

#define CLIENT_NAME CDL_SLICE("caudal")
/* Room for all of a greeting but its user and password, each of which may be written twice. */
#define HELLO_ROOM 512u

static struct cdl_slice text_or(const char *text, const char *otherwise)
{
    return cdl_slice_of(text != NULL ? text : otherwise);
}

static bool has_credentials(const struct cdl_redis_greeting *greeting)
{
    return greeting->user != NULL || greeting->password != NULL;
}

static void add_step(struct cdl_redis_session *session, enum step_kind kind, const struct cdl_slice *words,
                     size_t count)
{
    write_words(&session->hello, words, count);
    session->steps[session->step_count++] = (struct step){kind, session->hello.length};
}

static void add_select_and_role(struct cdl_redis_session *session)
{
    if (session->greeting.database != 0) {
        char number[16];
        struct cdl_writer writer = cdl_writer_on(number, sizeof number);
        cdl_write_u64(&writer, session->greeting.database);
        const struct cdl_slice words[] = {CDL_SLICE("SELECT"), cdl_written(&writer)};
        add_step(session, STEP_SELECT, words, 2);
    }
    if (session->greeting.want_primary) {
        const struct cdl_slice words[] = {CDL_SLICE("ROLE")};
        add_step(session, STEP_ROLE, words, 1);
    }
}

static void greet_with_hello(struct cdl_redis_session *session)
{
    struct cdl_slice words[7] = {CDL_SLICE("HELLO"), CDL_SLICE("3")};
    size_t count = 2;
    if (has_credentials(&session->greeting)) {
        words[count++] = CDL_SLICE("AUTH");
        words[count++] = text_or(session->greeting.user, "default");
        words[count++] = text_or(session->greeting.password, "");
    }
    words[count++] = CDL_SLICE("SETNAME");
    words[count++] = CLIENT_NAME;
    add_step(session, STEP_HELLO, words, count);
    add_select_and_role(session);
}

static void greet_with_auth(struct cdl_redis_session *session)
{
    if (has_credentials(&session->greeting)) {
        struct cdl_slice words[3] = {CDL_SLICE("AUTH")};
        size_t count = 1;
        if (session->greeting.user != NULL)
            words[count++] = cdl_slice_of(session->greeting.user);
        words[count++] = text_or(session->greeting.password, "");
        add_step(session, STEP_AUTH, words, count);
    }
    const struct cdl_slice words[] = {CDL_SLICE("CLIENT"), CDL_SLICE("SETNAME"), CLIENT_NAME};
    add_step(session, STEP_NAME, words, 3);
    add_select_and_role(session);
}

/* What was sent together with HELLO may have been refused only because nobody had logged in. */
static void greet_anew(struct cdl_redis_session *session)
{
    for (uint32_t i = session->steps_done; i < session->step_count; i++)
        session->steps[i].kind = STEP_DROPPED;
    greet_with_auth(session);
}

static bool begins_with(struct cdl_slice text, struct cdl_slice start)
{
    return text.length >= start.length && memcmp(text.bytes, start.bytes, start.length) == 0;
}

/* Whether an error says that the server, or a proxy in front of it, does not have the command in this form. There are as many wordings
 * as servers, so it is any error without a code of its own but those with which a server turns everyone away. */
static bool is_unknown_command(struct cdl_slice error)
{
    return cdl_store_event_of_error(error) == CDL_STORE_ERROR && !begins_with(error, CDL_SLICE("DENIED")) &&
           !begins_with(error, CDL_SLICE("ERR max number of clients"));
}

/* Why an error ends the greeting; CDL_STORE_NONE: it does not. */
static enum cdl_store_event judge_error(struct cdl_redis_session *session, enum step_kind kind, struct cdl_slice error)
{
    const enum cdl_store_event event = cdl_store_event_of_error(error);
    if (kind == STEP_DROPPED)
        return CDL_STORE_NONE;
    if (kind == STEP_HELLO && session->greeting.protocol == 0 && is_unknown_command(error)) {
        greet_anew(session);
        return CDL_STORE_NONE;
    }
    /* A name is a help for whoever looks at the server's list of clients, no more. */
    if (kind == STEP_NAME && (event == CDL_STORE_NOPERM || is_unknown_command(error)))
        return CDL_STORE_NONE;
    return event;
}

/* ROLE's answer begins with "master", "slave" or "sentinel". */
static enum cdl_store_event judge_role(const struct cdl_resp *reply)
{
    struct cdl_slice elements = reply->elements;
    struct cdl_resp role;
    if (reply->kind != CDL_RESP_ARRAY || !cdl_resp_next(&elements, &role) || role.kind != CDL_RESP_STRING)
        return CDL_STORE_PROTOCOL;
    return cdl_slice_equal(role.text, CDL_SLICE("master")) ? CDL_STORE_NONE : CDL_STORE_NO_PRIMARY;
}

static enum cdl_store_event judge_answer(enum step_kind kind, const struct cdl_resp *reply)
{
    switch (kind) {
    case STEP_DROPPED:
        return CDL_STORE_NONE;
    case STEP_HELLO:
        return reply->kind == CDL_RESP_MAP || reply->kind == CDL_RESP_ARRAY ? CDL_STORE_NONE : CDL_STORE_PROTOCOL;
    case STEP_ROLE:
        return judge_role(reply);
    default:
        return reply->kind == CDL_RESP_STRING ? CDL_STORE_NONE : CDL_STORE_PROTOCOL;
    }
}

/* ---- replies ---- */

static bool fail(struct cdl_redis_session *session, enum cdl_store_event failure)
{
    session->state = CDL_SESSION_FAILED;
    session->failure = failure;
    return false;
}

static void take_greeting_reply(struct cdl_redis_session *session, const struct cdl_resp *reply)
{
    const struct step step = session->steps[session->steps_done++];
    const bool is_error = reply->kind == CDL_RESP_ERROR;
    enum cdl_store_event failure;
    /* A server may turn a client away before it has said a word. */
    if (session->hello_sent < step.end)
        failure = is_error ? cdl_store_event_of_error(reply->text) : CDL_STORE_PROTOCOL;
    else
        failure = is_error ? judge_error(session, step.kind, reply->text) : judge_answer(step.kind, reply);
    if (failure != CDL_STORE_NONE)
        fail(session, failure);
    else if (session->steps_done == session->step_count)
        session->state = CDL_SESSION_READY;
}

/* The oldest in flight, which is in flight no more. `sent`: whether a byte of it may have left. */
static struct flight take_oldest(struct cdl_redis_session *session, bool *sent)
{
    const struct flight oldest = session->ring[session->first % session->ring_size];
    *sent = session->written > session->answered;
    session->answered = oldest.end;
    session->first++;
    session->count--;
    return oldest;
}

static void take_command_reply(struct cdl_redis_session *session, const struct cdl_resp *reply)
{
    if (session->count == 0 || session->written < session->ring[session->first % session->ring_size].end) {
        fail(session, CDL_STORE_PROTOCOL);
        return;
    }
    bool sent;
    const struct flight oldest = take_oldest(session, &sent);
    if (oldest.command != NULL)
        oldest.command->replied(oldest.command, reply, sent);
}

static void take_reply(struct cdl_redis_session *session, struct cdl_slice bytes)
{
    struct cdl_resp reply;
    if (!cdl_resp_next(&bytes, &reply))
        fail(session, CDL_STORE_PROTOCOL);
    else if (reply.kind == CDL_RESP_PUSH)
        return;
    else if (session->state == CDL_SESSION_GREETING)
        take_greeting_reply(session, &reply);
    else
        take_command_reply(session, &reply);
}

static bool append_input(struct cdl_redis_session *session, struct cdl_slice bytes)
{
    char *room = make_room(session, &session->input, bytes.length);
    if (room == NULL)
        return fail(session, CDL_STORE_LOST);
    memcpy(room, bytes.bytes, bytes.length);
    session->input.end += bytes.length;
    return true;
}

/* Keeps the start of a reply; `rest` may lie in the buffer itself. */
static bool keep_rest(struct cdl_redis_session *session, struct cdl_slice rest)
{
    struct buffer *input = &session->input;
    if (input->end > 0) {
        take_from_front(session, input, content(input).length - rest.length);
        return true;
    }
    if (rest.length == 0)
        return true;
    return append_input(session, rest);
}

bool cdl_redis_session_receive(struct cdl_redis_session *session, struct cdl_slice bytes)
{
    struct buffer *input = &session->input;
    const uint32_t connection = session->connection;
    if ((session->state != CDL_SESSION_GREETING && session->state != CDL_SESSION_READY) || bytes.length == 0)
        return session->state != CDL_SESSION_FAILED;
    if (input->end > 0) {
        if (!append_input(session, bytes))
            return false;
        bytes = content(input);
    }
    size_t length;
    enum cdl_resp_result result;
    while ((result = cdl_resp_measure(&session->meter, bytes, &length)) == CDL_RESP_READY) {
        take_reply(session, cdl_slice_head(bytes, length));
        if (session->connection != connection || session->state == CDL_SESSION_FAILED)
            return false;
        bytes = cdl_slice_from(bytes, length);
    }
    return result == CDL_RESP_BAD ? fail(session, CDL_STORE_PROTOCOL) : keep_rest(session, bytes);
}

/* ---- commands ---- */

/* Makes room for one more command in the ring, at its bound at the latest. */
static bool make_place(struct cdl_redis_session *session)
{
    if (session->count < session->ring_size)
        return true;
    if (session->count == session->ring_max)
        return false;
    size_t size = session->ring_size > 0 ? 2 * session->ring_size : RING_MIN;
    if (size > session->ring_max)
        size = session->ring_max;
    struct flight *ring = cdl_allocate(&session->allocator, size, sizeof *ring, _Alignof(struct flight));
    if (ring == NULL)
        return false;
    for (size_t number = session->first; number < session->first + session->count; number++)
        ring[number % size] = session->ring[number % session->ring_size];
    cdl_release(&session->allocator, session->ring, session->ring_size, sizeof *ring);
    session->ring = ring;
    session->ring_size = size;
    return true;
}

bool cdl_redis_session_send(struct cdl_redis_session *session, struct cdl_redis_command *command,
                            const struct cdl_slice *words, size_t count)
{
    struct buffer *output = &session->output;
    const size_t length = length_of_words(words, count);
    if (session->state == CDL_SESSION_FAILED || length > OUTPUT_MAX - content(output).length || !make_place(session))
        return false;
    char *room = make_room(session, output, length);
    if (room == NULL)
        return false;
    struct cdl_writer writer = cdl_writer_on(room, length);
    write_words(&writer, words, count);
    output->end += length;
    session->appended += length;
    command->place = session->first + session->count++;
    session->ring[command->place % session->ring_size] = (struct flight){command, session->appended};
    return true;
}

void cdl_redis_session_abandon(struct cdl_redis_session *session, struct cdl_redis_command *command)
{
    /* No number is used twice: one that is not in flight any more was told already. */
    if (command->place - session->first < session->count)
        session->ring[command->place % session->ring_size].command = NULL;
}

size_t cdl_redis_session_in_flight(const struct cdl_redis_session *session)
{
    return session->count;
}

struct cdl_slice cdl_redis_session_output(const struct cdl_redis_session *session)
{
    if (session->state == CDL_SESSION_GREETING)
        return cdl_slice_from(cdl_written(&session->hello), session->hello_sent);
    return session->state == CDL_SESSION_READY ? content(&session->output) : (struct cdl_slice){NULL, 0};
}

void cdl_redis_session_sent(struct cdl_redis_session *session, size_t length)
{
    if (session->state == CDL_SESSION_GREETING) {
        session->hello_sent += length;
    } else if (session->state == CDL_SESSION_READY && length > 0) {
        session->written += length;
        take_from_front(session, &session->output, length);
    }
}

/* ---- connections ---- */

struct cdl_redis_session *cdl_redis_session_open(const struct cdl_redis_greeting *greeting, uint32_t in_flight,
                                                 const struct caudal_allocator *allocator)
{
    struct cdl_redis_session *session = cdl_allocate(allocator, 1, sizeof *session, _Alignof(struct cdl_redis_session));
    if (session == NULL)
        return NULL;
    const size_t secrets = text_or(greeting->user, "default").length + text_or(greeting->password, "").length;
    session->allocator = *allocator;
    session->greeting = *greeting;
    session->ring_max = in_flight;
    session->hello.size = 2 * secrets + HELLO_ROOM;
    session->hello.bytes = cdl_allocate(allocator, session->hello.size, 1, 1);
    if (session->hello.bytes != NULL)
        return session;
    cdl_redis_session_close(session);
    return NULL;
}

void cdl_redis_session_close(struct cdl_redis_session *session)
{
    if (session == NULL)
        return;
    const struct caudal_allocator allocator = session->allocator;
    if (session->hello.bytes != NULL)
        explicit_bzero(session->hello.bytes, session->hello.size);
    cdl_release(&allocator, session->hello.bytes, session->hello.size, 1);
    cdl_release(&allocator, session->ring, session->ring_size, sizeof *session->ring);
    release_buffer(session, &session->output);
    release_buffer(session, &session->input);
    cdl_release(&allocator, session, 1, sizeof *session);
}

void cdl_redis_session_connected(struct cdl_redis_session *session)
{
    session->state = CDL_SESSION_GREETING;
    session->failure = CDL_STORE_NONE;
    session->hello.length = session->hello_sent = 0;
    session->step_count = session->steps_done = 0;
    if (session->greeting.protocol == 2)
        greet_with_auth(session);
    else
        greet_with_hello(session);
}

void cdl_redis_session_lost(struct cdl_redis_session *session)
{
    session->connection++;
    /* Nothing can be sent again from within. */
    session->state = CDL_SESSION_FAILED;
    while (session->count > 0) {
        bool sent;
        const struct flight oldest = take_oldest(session, &sent);
        if (oldest.command != NULL)
            oldest.command->replied(oldest.command, NULL, sent);
    }
    take_from_front(session, &session->output, content(&session->output).length);
    /* The one who says so may be looking at a reply that lies here: its memory stays. */
    session->input.start = session->input.end = 0;
    session->appended = session->written = session->answered = 0;
    session->meter = (struct cdl_resp_meter){0};
    session->state = CDL_SESSION_IDLE;
}

enum cdl_redis_session_state cdl_redis_session_state(const struct cdl_redis_session *session)
{
    return session->state;
}

enum cdl_store_event cdl_redis_session_failure(const struct cdl_redis_session *session)
{
    return session->failure;
}
