/* Any life of a conversation with Redis: commands that are sent, abandoned, written in part, answered by any bytes, and lost.
 *
 * The first byte chooses the greeting, each later one is an action. Whatever comes, a command is told at most once and never after it was
 * abandoned, in the order in which commands were sent; and when the connection is lost, each that nobody has told is told now, with
 * `sent` true for exactly those of which a byte was written.
 */
#include <stdlib.h>

#include "store/redis/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzz target must not lose its checks in a release build. */
static void require(bool condition)
{
    if (!condition)
        abort();
}

#define COMMANDS 16u
#define IN_FLIGHT_MAX 9u

enum asked_state {
    FREE,
    IN_FLIGHT,
};

struct asked {
    struct cdl_redis_command command; /* first */
    enum asked_state state;
    unsigned number; /* counts the commands */
    size_t start;    /* of its bytes among all commands' */
};

static struct cdl_redis_session *session;
static struct asked asked[COMMANDS];
static unsigned sent_number, told_number; /* of the latest that was sent, and told */
static size_t queued, written;
static bool is_losing, may_talk_back;

static void send_one(uint8_t choice);
static void abandon_one(uint8_t choice);

static void replied(struct cdl_redis_command *command, const struct cdl_resp *reply, bool sent)
{
    struct asked *one = (struct asked *)command;
    require(one->state == IN_FLIGHT && one->number > told_number);
    require((reply == NULL) == is_losing);
    require(sent == (written > one->start));
    one->state = FREE;
    told_number = one->number;
    if (may_talk_back && reply != NULL && reply->kind == CDL_RESP_INTEGER) {
        send_one((uint8_t)reply->integer);
        abandon_one((uint8_t)reply->integer);
    }
}

static void send_one(uint8_t choice)
{
    struct asked *one = &asked[choice % COMMANDS];
    static const char text[300] = "GET";
    const struct cdl_slice words[] = {{text, choice}, {text, 3}};
    const size_t count = choice % 3;
    if (one->state != FREE)
        return;
    const size_t before = cdl_redis_session_in_flight(session);
    *one = (struct asked){{replied, 0}, IN_FLIGHT, sent_number + 1, queued};
    if (!cdl_redis_session_send(session, &one->command, words, count)) {
        require(before == IN_FLIGHT_MAX || cdl_redis_session_state(session) == CDL_SESSION_FAILED);
        one->state = FREE;
        return;
    }
    sent_number++;
    queued += 4; /* "*0" CRLF and the words */
    for (size_t i = 0; i < count; i++)
        queued += words[i].length + 5 + (words[i].length > 99 ? 3 : words[i].length > 9 ? 2 : 1);
}

static void abandon_one(uint8_t choice)
{
    struct asked *one = &asked[choice % COMMANDS];
    if (one->state != IN_FLIGHT)
        return;
    cdl_redis_session_abandon(session, &one->command);
    one->state = FREE;
    memset(&one->command, 0xff, sizeof one->command);
}

static void write_some(uint8_t choice)
{
    const struct cdl_slice output = cdl_redis_session_output(session);
    const size_t length = choice < 128 ? output.length : output.length * (choice - 128u) / 128;
    if (cdl_redis_session_state(session) == CDL_SESSION_READY)
        written += length;
    cdl_redis_session_sent(session, length);
    require(cdl_redis_session_output(session).length == output.length - length);
}

static void lose(void)
{
    is_losing = true;
    cdl_redis_session_lost(session);
    is_losing = false;
    for (size_t i = 0; i < COMMANDS; i++)
        require(asked[i].state == FREE);
    require(cdl_redis_session_in_flight(session) == 0);
    require(cdl_redis_session_state(session) == CDL_SESSION_IDLE);
    queued = written = 0;
}

/* Bytes in memory of exactly their size; how many there were. */
static size_t receive_some(const uint8_t *data, size_t size, uint8_t choice)
{
    const size_t length = size < choice ? size : choice;
    char *copy = malloc(length > 0 ? length : 1);
    require(copy != NULL);
    if (length > 0)
        memcpy(copy, data, length);
    const bool good = cdl_redis_session_receive(session, (struct cdl_slice){copy, length});
    require(good == (cdl_redis_session_state(session) != CDL_SESSION_FAILED));
    require(good == (cdl_redis_session_failure(session) == CDL_STORE_NONE ||
                     cdl_redis_session_state(session) == CDL_SESSION_IDLE));
    free(copy);
    return length;
}

/* An action, which stands in the upper half of a byte. */
static size_t act(const uint8_t *data, size_t size)
{
    const uint8_t choice = data[0] & 15;
    switch (data[0] >> 4) {
    case 2:
        send_one(choice);
        return 1;
    case 3:
        abandon_one(choice);
        return 1;
    case 4:
        write_some((uint8_t)(choice * 17));
        return 1;
    case 5:
        if (cdl_redis_session_state(session) == CDL_SESSION_IDLE)
            cdl_redis_session_connected(session);
        return 1;
    case 6:
        if (choice == 0)
            lose();
        return 1;
    case 7:
        /* A greeting, answered as a server would. */
        write_some(0);
        receive_some((const uint8_t *)"%0\r\n", 4, 4);
        return 1;
    default:
        return 1 + receive_some(data + 1, size - 1, size > 1 ? data[0] & 127 : 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const struct cdl_redis_greeting greeting = {
        .user = data[0] & 1 ? "bob" : NULL,
        .password = data[0] & 2 ? "secret" : NULL,
        .database = data[0] & 4 ? 15 : 0,
        .protocol = data[0] & 8 ? 2 + (data[0] >> 7) : 0,
        .want_primary = data[0] & 16,
    };
    may_talk_back = data[0] & 32;
    memset(asked, 0, sizeof asked);
    sent_number = told_number = 0;
    queued = written = 0;
    session = cdl_redis_session_open(&greeting, IN_FLIGHT_MAX, cdl_allocator_default());
    require(session != NULL);
    for (size_t at = 1; at < size;)
        at += act(data + at, size - at);
    lose();
    cdl_redis_session_close(session);
    return 0;
}
