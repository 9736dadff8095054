/* A conversation with Redis by scripted bytes: greetings of all kinds, replies cut anywhere, commands that nobody waits for, connections
 * that end at any byte, callbacks that talk back, and memory that runs out. */
#include "store/redis/session.h"

#include <stdlib.h>

#include "../../support.h"

/* ---- the client's side ---- */

#define COMMANDS 8u

/* A command and what it was told. */
struct asked {
    struct cdl_redis_command command; /* first */
    unsigned told;
    bool was_lost, sent;
    enum cdl_resp_kind kind;
    int64_t integer;
    char text[64];
    void (*also)(struct asked *asked); /* done within the callback */
};

static struct counting_allocator memory;
static struct cdl_redis_session *session;
static struct asked asked[COMMANDS];
static unsigned order[COMMANDS * 4], told_count; /* which were told, in order */

static void replied(struct cdl_redis_command *command, const struct cdl_resp *reply, bool sent)
{
    struct asked *one = (struct asked *)command;
    order[told_count++] = (unsigned)(one - asked);
    one->told++;
    one->was_lost = reply == NULL;
    one->sent = sent;
    if (reply != NULL) {
        one->kind = reply->kind;
        one->integer = reply->integer;
        snprintf(one->text, sizeof one->text, "%.*s", CDL_SLICE_ARG(reply->text));
    }
    if (one->also != NULL)
        one->also(one);
}

static void count_only(struct cdl_redis_command *command, const struct cdl_resp *reply, bool sent)
{
    (void)reply;
    (void)sent;
    ((struct asked *)command)->told++;
}

static void open_with(const struct cdl_redis_greeting *greeting, uint32_t in_flight)
{
    counting_allocator_init(&memory);
    memset(asked, 0, sizeof asked);
    told_count = 0;
    for (size_t i = 0; i < COMMANDS; i++)
        asked[i].command.replied = replied;
    session = cdl_redis_session_open(greeting, in_flight, &memory.allocator);
    assert_non_null(session);
    assert_int_equal(cdl_redis_session_state(session), CDL_SESSION_IDLE);
}

static void close_session(void)
{
    cdl_redis_session_close(session);
    assert_int_equal(memory.live_blocks, 0);
}

static bool send_words(unsigned number, const char *first, const char *second)
{
    const struct cdl_slice words[] = {cdl_slice_of(first), cdl_slice_of(second)};
    return cdl_redis_session_send(session, &asked[number].command, words, 2);
}

/* "*2\r\n$3\r\nGET\r\n$1\r\n<number>\r\n" */
static void get(unsigned number)
{
    const char key[] = {(char)('0' + number), '\0'};
    assert_true(send_words(number, "GET", key));
}

#define GET(key) "*2\r\n$3\r\nGET\r\n$1\r\n" key "\r\n"
#define GET_LENGTH (sizeof GET("0") - 1)

/* ---- the server's side ---- */

/* All that is to be written now is `want`, and it is written. */
static void expect(const char *want)
{
    const struct cdl_slice output = cdl_redis_session_output(session);
    if (!cdl_slice_equal(output, cdl_slice_of(want)))
        fail_msg("got\n%.*s\nwant\n%s", CDL_SLICE_ARG(output), want);
    cdl_redis_session_sent(session, output.length);
    assert_int_equal(cdl_redis_session_output(session).length, 0);
}

static bool receive(const char *bytes)
{
    return cdl_redis_session_receive(session, cdl_slice_of(bytes));
}

static void assert_state(enum cdl_redis_session_state state, enum cdl_store_event failure)
{
    if (cdl_redis_session_state(session) != state || cdl_redis_session_failure(session) != failure)
        fail_msg("state %d, failure %s", (int)cdl_redis_session_state(session),
                 cdl_store_event_name(cdl_redis_session_failure(session)));
}

static void assert_failed(enum cdl_store_event failure)
{
    assert_state(CDL_SESSION_FAILED, failure);
    assert_int_equal(cdl_redis_session_output(session).length, 0);
    assert_false(send_words(COMMANDS - 1, "GET", "x"));
    assert_false(receive("+OK\r\n"));
    assert_state(CDL_SESSION_FAILED, failure);
}

static void assert_told(unsigned number, int64_t integer)
{
    assert_int_equal(asked[number].told, 1);
    assert_false(asked[number].was_lost);
    assert_true(asked[number].sent);
    assert_int_equal(asked[number].kind, CDL_RESP_INTEGER);
    assert_int_equal(asked[number].integer, integer);
}

static void assert_lost(unsigned number, bool sent)
{
    assert_int_equal(asked[number].told, 1);
    assert_true(asked[number].was_lost);
    assert_int_equal(asked[number].sent, sent);
}

/* ---- greetings ---- */

#define SETNAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$6\r\ncaudal\r\n"
#define HELLO "*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$6\r\ncaudal\r\n"
#define HELLO_BOB                                                                                                      \
    "*7\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$6\r\nsecret\r\n$7\r\nSETNAME\r\n$6\r\ncaudal\r\n"
#define AUTH_BOB "*3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$6\r\nsecret\r\n"
#define SELECT_15 "*2\r\n$6\r\nSELECT\r\n$2\r\n15\r\n"
#define ROLE "*1\r\n$4\r\nROLE\r\n"
#define HELLO_REPLY "%1\r\n$5\r\nproto\r\n:3\r\n"
#define MASTER_REPLY "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define SLAVE_REPLY "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n$9\r\nconnected\r\n:1\r\n"
#define UNKNOWN "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"

static const struct cdl_redis_greeting plain = {.protocol = 0};
static const struct cdl_redis_greeting old = {.protocol = 2};
static const struct cdl_redis_greeting full = {"bob", "secret", 15, 0, true};
static const struct cdl_redis_greeting full_2 = {"bob", "secret", 15, 2, true};
static const struct cdl_redis_greeting full_3 = {"bob", "secret", 15, 3, true};

static void greets(struct cdl_redis_greeting greeting, const char *question, const char *answer)
{
    open_with(&greeting, 4);
    cdl_redis_session_connected(session);
    assert_state(CDL_SESSION_GREETING, CDL_STORE_NONE);
    expect(question);
    assert_true(receive(answer));
    assert_state(CDL_SESSION_READY, CDL_STORE_NONE);
    get(0);
    expect(GET("0"));
    assert_true(receive(":7\r\n"));
    assert_told(0, 7);
    close_session();
}

static void a_greeting_is_one_message(void **state)
{
    (void)state;
    greets(plain, HELLO, HELLO_REPLY);
    greets(plain, HELLO, "*2\r\n$5\r\nproto\r\n:3\r\n");
    greets(full, HELLO_BOB SELECT_15 ROLE, HELLO_REPLY "+OK\r\n" MASTER_REPLY);
    greets(full_3, HELLO_BOB SELECT_15 ROLE, HELLO_REPLY "+OK\r\n" MASTER_REPLY);
    greets(old, SETNAME, "+OK\r\n");
    greets(full_2, AUTH_BOB SETNAME SELECT_15 ROLE, "+OK\r\n+OK\r\n+OK\r\n" MASTER_REPLY);
}

static void a_password_alone_is_the_default_users(void **state)
{
    (void)state;
    greets(
        (struct cdl_redis_greeting){.password = "s"},
        "*7\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$1\r\ns\r\n$7\r\nSETNAME\r\n$6\r\ncaudal\r\n",
        HELLO_REPLY);
    greets((struct cdl_redis_greeting){.password = "s", .protocol = 2}, "*2\r\n$4\r\nAUTH\r\n$1\r\ns\r\n" SETNAME,
           "+OK\r\n+OK\r\n");
    greets((struct cdl_redis_greeting){.user = "bob", .protocol = 2},
           "*3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$0\r\n\r\n" SETNAME, "+OK\r\n+OK\r\n");
}

static void a_name_is_not_insisted_on(void **state)
{
    (void)state;
    greets(old, SETNAME, "-NOPERM this user has no permissions to run the 'client|setname' command\r\n");
    greets(old, SETNAME, "-ERR unknown command 'CLIENT'\r\n");
}

static void falls_back(struct cdl_redis_greeting greeting, const char *hello, const char *refusals, const char *auth,
                       const char *answers)
{
    open_with(&greeting, 4);
    get(0);
    cdl_redis_session_connected(session);
    expect(hello);
    assert_true(receive(refusals));
    assert_state(CDL_SESSION_GREETING, CDL_STORE_NONE);
    expect(auth);
    assert_true(receive(answers));
    assert_state(CDL_SESSION_READY, CDL_STORE_NONE);
    expect(GET("0"));
    close_session();
}

static void a_server_that_does_not_know_hello_is_greeted_by_auth(void **state)
{
    (void)state;
    falls_back(plain, HELLO, UNKNOWN, SETNAME, "+OK\r\n");
    falls_back(plain, HELLO, "-NOPROTO unsupported protocol version\r\n", SETNAME, "+OK\r\n");
    /* What was sent with HELLO is answered first, and means nothing. */
    falls_back(full, HELLO_BOB SELECT_15 ROLE,
               UNKNOWN "-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n",
               AUTH_BOB SETNAME SELECT_15 ROLE, "+OK\r\n+OK\r\n+OK\r\n" MASTER_REPLY);
    falls_back(full, HELLO_BOB SELECT_15 ROLE, UNKNOWN, AUTH_BOB SETNAME SELECT_15 ROLE,
               "+OK\r\n" SLAVE_REPLY "+OK\r\n+OK\r\n+OK\r\n" MASTER_REPLY);
}

static void refuses(struct cdl_redis_greeting greeting, const char *answer, enum cdl_store_event failure)
{
    for (size_t cut = 0; cut < strlen(answer); cut++) {
        open_with(&greeting, 4);
        get(0);
        cdl_redis_session_connected(session);
        cdl_redis_session_sent(session, cdl_redis_session_output(session).length);
        assert_true(cdl_redis_session_receive(session, (struct cdl_slice){answer, cut}));
        get(1);
        assert_false(receive(answer + cut));
        assert_failed(failure);
        assert_int_equal(told_count, 0);
        cdl_redis_session_lost(session);
        assert_state(CDL_SESSION_IDLE, failure);
        assert_lost(0, false);
        assert_lost(1, false);
        close_session();
    }
}

static void a_refused_greeting_says_why_and_sends_no_command(void **state)
{
    (void)state;
    refuses(plain, "-NOAUTH HELLO must be called with the client already authenticated\r\n", CDL_STORE_NOAUTH);
    refuses(plain, "-ERR max number of clients reached\r\n", CDL_STORE_ERROR);
    refuses(plain, "-DENIED Redis is running in protected mode\r\n", CDL_STORE_ERROR);
    refuses(plain, "-LOADING Redis is loading the dataset in memory\r\n", CDL_STORE_LOADING);
    refuses((struct cdl_redis_greeting){.protocol = 3}, UNKNOWN, CDL_STORE_ERROR);
    refuses((struct cdl_redis_greeting){.protocol = 3}, "-NOPROTO unsupported protocol version\r\n", CDL_STORE_ERROR);
    refuses(full, "-WRONGPASS invalid username-password pair or user is disabled.\r\n", CDL_STORE_WRONGPASS);
    refuses(full, HELLO_REPLY "-ERR DB index is out of range\r\n", CDL_STORE_ERROR);
    refuses(full, HELLO_REPLY "-NOPERM this user has no permissions\r\n", CDL_STORE_NOPERM);
    refuses(full, HELLO_REPLY "+OK\r\n-MASTERDOWN Link with MASTER is down\r\n", CDL_STORE_MASTERDOWN);
    refuses(old, "-NOAUTH Authentication required.\r\n", CDL_STORE_NOAUTH);
    refuses(old, "-ERR max number of clients reached\r\n", CDL_STORE_ERROR);
    refuses(full_2, "-ERR invalid password\r\n", CDL_STORE_WRONGPASS);
}

static void a_replica_is_no_primary(void **state)
{
    (void)state;
    refuses(full, HELLO_REPLY "+OK\r\n" SLAVE_REPLY, CDL_STORE_NO_PRIMARY);
    refuses(full, HELLO_REPLY "+OK\r\n*2\r\n$8\r\nsentinel\r\n*0\r\n", CDL_STORE_NO_PRIMARY);
}

static void a_greeting_is_answered_in_its_shape(void **state)
{
    (void)state;
    refuses(plain, "+OK\r\n", CDL_STORE_PROTOCOL);
    refuses(plain, "H", CDL_STORE_PROTOCOL); /* of HTTP/1.1 400 Bad Request */
    refuses(old, ":1\r\n", CDL_STORE_PROTOCOL);
    refuses(full, HELLO_REPLY "+OK\r\n$6\r\nmaster\r\n", CDL_STORE_PROTOCOL);
    refuses(full, HELLO_REPLY "+OK\r\n*0\r\n", CDL_STORE_PROTOCOL);
    refuses(full, HELLO_REPLY "+OK\r\n*1\r\n:1\r\n", CDL_STORE_PROTOCOL);
}

static void a_server_may_turn_us_away_before_we_have_greeted(void **state)
{
    (void)state;
    static const char *const errors[] = {"-ERR max number of clients reached\r\n", UNKNOWN, "-LOADING x\r\n"};
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        open_with(&plain, 4);
        cdl_redis_session_connected(session);
        cdl_redis_session_sent(session, 3);
        assert_false(receive(errors[i]));
        assert_failed(i < 2 ? CDL_STORE_ERROR : CDL_STORE_LOADING);
        close_session();
    }
    open_with(&plain, 4);
    cdl_redis_session_connected(session);
    assert_false(receive(HELLO_REPLY));
    assert_failed(CDL_STORE_PROTOCOL);
    close_session();
}

static void commands_wait_for_the_end_of_the_greeting(void **state)
{
    (void)state;
    const char *answer = HELLO_REPLY "+OK\r\n" MASTER_REPLY;
    open_with(&full, 4);
    get(0);
    assert_int_equal(cdl_redis_session_output(session).length, 0);
    cdl_redis_session_connected(session);
    get(1);
    expect(HELLO_BOB SELECT_15 ROLE);
    for (size_t i = 0; i < strlen(answer); i++) {
        assert_int_equal(cdl_redis_session_output(session).length, 0);
        assert_true(cdl_redis_session_receive(session, (struct cdl_slice){answer + i, 1}));
    }
    get(2);
    expect(GET("0") GET("1") GET("2"));
    close_session();
}

static void a_greeting_may_be_written_in_pieces(void **state)
{
    (void)state;
    open_with(&full, 4);
    cdl_redis_session_connected(session);
    const char *want = HELLO_BOB SELECT_15 ROLE;
    for (size_t i = 0; i < strlen(want); i++) {
        const struct cdl_slice output = cdl_redis_session_output(session);
        assert_true(cdl_slice_equal(output, cdl_slice_of(want + i)));
        cdl_redis_session_sent(session, 1);
    }
    assert_true(receive(HELLO_REPLY "+OK\r\n" MASTER_REPLY));
    assert_state(CDL_SESSION_READY, CDL_STORE_NONE);
    close_session();
}

/* ---- commands ---- */

static void open_ready(uint32_t in_flight)
{
    open_with(&plain, in_flight);
    cdl_redis_session_connected(session);
    expect(HELLO);
    assert_true(receive(HELLO_REPLY));
}

static void replies_are_matched_in_order(void **state)
{
    (void)state;
    open_ready(4);
    for (unsigned i = 0; i < 3; i++)
        get(i);
    assert_int_equal(cdl_redis_session_in_flight(session), 3);
    expect(GET("0") GET("1") GET("2"));
    assert_true(receive(":5\r\n$5\r\nhello\r\n-OOM no\r\n"));
    assert_told(0, 5);
    assert_int_equal(asked[1].kind, CDL_RESP_STRING);
    assert_string_equal(asked[1].text, "hello");
    assert_int_equal(asked[2].kind, CDL_RESP_ERROR);
    assert_string_equal(asked[2].text, "OOM no");
    assert_int_equal(cdl_redis_session_in_flight(session), 0);
    close_session();
}

static void words_may_hold_any_byte_and_be_empty(void **state)
{
    (void)state;
    open_ready(4);
    const struct cdl_slice words[] = {CDL_SLICE("a\0\r\nb"), {NULL, 0}, CDL_SLICE("0123456789")};
    assert_true(cdl_redis_session_send(session, &asked[0].command, words, 3));
    const struct cdl_slice want = CDL_SLICE("*3\r\n$5\r\na\0\r\nb\r\n$0\r\n\r\n$10\r\n0123456789\r\n");
    assert_true(cdl_slice_equal(cdl_redis_session_output(session), want));
    close_session();
}

static void a_reply_may_be_cut_anywhere(void **state)
{
    (void)state;
    const struct cdl_slice replies = CDL_SLICE(":1\r\n>2\r\n+invalidate\r\n*0\r\n$-1\r\n|1\r\n+a\r\n:0\r\n:2\r\n"
                                               "*2\r\n$3\r\na\r\n\r\n*1\r\n_\r\n:3\r\n");
    for (size_t cut = 0; cut <= replies.length; cut++)
        for (size_t next = cut; next <= replies.length; next += replies.length / 8) {
            open_ready(5);
            for (unsigned i = 0; i < 5; i++)
                get(i);
            expect(GET("0") GET("1") GET("2") GET("3") GET("4"));
            assert_true(cdl_redis_session_receive(session, cdl_slice_head(replies, cut)));
            assert_true(cdl_redis_session_receive(session, cdl_slice_from(cdl_slice_head(replies, next), cut)));
            assert_true(cdl_redis_session_receive(session, cdl_slice_from(replies, next)));
            assert_told(0, 1);
            assert_int_equal(asked[1].kind, CDL_RESP_NULL);
            assert_told(2, 2);
            assert_int_equal(asked[3].kind, CDL_RESP_ARRAY);
            assert_told(4, 3);
            close_session();
        }
}

static void pushes_are_nobodys(void **state)
{
    (void)state;
    open_with(&plain, 4);
    cdl_redis_session_connected(session);
    expect(HELLO);
    assert_true(receive(">1\r\n+a\r\n" HELLO_REPLY ">1\r\n+b\r\n"));
    assert_state(CDL_SESSION_READY, CDL_STORE_NONE);
    get(0);
    expect(GET("0"));
    assert_true(receive(">2\r\n+message\r\n+c\r\n"));
    assert_int_equal(told_count, 0);
    assert_true(receive(":4\r\n>0\r\n"));
    assert_told(0, 4);
    close_session();
}

static void an_abandoned_command_keeps_its_place(void **state)
{
    (void)state;
    for (unsigned gone = 0; gone < 3; gone++) {
        open_ready(3);
        for (unsigned i = 0; i < 3; i++)
            get(i);
        cdl_redis_session_sent(session, gone % 2 == 0 ? 3 * GET_LENGTH : 0);
        cdl_redis_session_abandon(session, &asked[gone].command);
        memset(&asked[gone].command, 0xff, sizeof asked[gone].command); /* as if it were freed */
        assert_int_equal(cdl_redis_session_in_flight(session), 3);
        assert_false(send_words(COMMANDS - 1, "GET", "x"));
        cdl_redis_session_sent(session, cdl_redis_session_output(session).length);
        assert_true(receive(":0\r\n:1\r\n:2\r\n"));
        for (unsigned i = 0; i < 3; i++)
            if (i != gone)
                assert_told(i, i);
        assert_int_equal(asked[gone].told, 0);
        close_session();
    }
}

static void a_command_that_was_told_can_be_abandoned_no_more(void **state)
{
    (void)state;
    open_ready(2);
    get(0);
    expect(GET("0"));
    assert_true(receive(":0\r\n"));
    get(1);
    get(2);
    cdl_redis_session_abandon(session, &asked[0].command);
    expect(GET("1") GET("2"));
    assert_true(receive(":1\r\n:2\r\n"));
    assert_told(1, 1);
    assert_told(2, 2);
    close_session();
}

static void a_lost_connection_tells_what_may_have_left(void **state)
{
    (void)state;
    for (size_t written = 0; written <= 3 * GET_LENGTH; written++) {
        open_ready(4);
        for (unsigned i = 0; i < 4; i++)
            get(i);
        cdl_redis_session_abandon(session, &asked[2].command);
        for (size_t i = 0; i < written; i++)
            cdl_redis_session_sent(session, 1);
        const bool first_is_answered = written >= GET_LENGTH && written % 2 == 0;
        if (first_is_answered)
            assert_true(receive(":0\r\n:1"));
        cdl_redis_session_lost(session);
        if (first_is_answered)
            assert_told(0, 0);
        else
            assert_lost(0, written > 0);
        assert_lost(1, written > GET_LENGTH);
        assert_int_equal(asked[2].told, 0);
        assert_lost(3, false);
        assert_int_equal(told_count, 3);
        assert_int_equal(order[0], 0);
        assert_int_equal(order[2], 3);
        assert_int_equal(cdl_redis_session_in_flight(session), 0);
        assert_state(CDL_SESSION_IDLE, CDL_STORE_NONE);
        close_session();
    }
}

static void a_session_serves_the_next_connection(void **state)
{
    (void)state;
    open_with(&full, 4);
    for (unsigned round = 0; round < 4; round++) {
        memset(asked, 0, sizeof asked);
        told_count = 0;
        for (size_t i = 0; i < COMMANDS; i++)
            asked[i].command.replied = replied;
        cdl_redis_session_connected(session);
        assert_state(CDL_SESSION_GREETING, CDL_STORE_NONE);
        expect(HELLO_BOB SELECT_15 ROLE);
        assert_true(receive(HELLO_REPLY "+OK\r\n" MASTER_REPLY));
        get(0);
        get(1);
        cdl_redis_session_sent(session, GET_LENGTH + 1);
        assert_true(receive(round == 1 ? ":0\r\n*2\r\n:1\r\n$5\r\nhe" : ":0\r\n"));
        if (round == 2)
            assert_false(receive("?"));
        cdl_redis_session_lost(session);
        assert_state(CDL_SESSION_IDLE, round == 2 ? CDL_STORE_PROTOCOL : CDL_STORE_NONE);
        assert_told(0, 0);
        assert_lost(1, true);
        assert_true(receive("")); /* nothing, of no connection */
    }
    close_session();
}

static void what_answers_nothing_is_no_reply(void **state)
{
    (void)state;
    static const char *const bytes[] = {"+OK\r\n", "-ERR Protocol error\r\n", "hello\r\n", ":\r\n", "$-2\r\n"};
    for (size_t i = 0; i < COUNT_OF(bytes); i++) {
        open_ready(4);
        assert_false(receive(bytes[i]));
        assert_failed(CDL_STORE_PROTOCOL);
        close_session();
    }
    /* Nor what comes for a command that has not left whole. */
    open_ready(4);
    get(0);
    get(1);
    cdl_redis_session_sent(session, 2 * GET_LENGTH - 1);
    assert_false(receive(":0\r\n:1\r\n"));
    assert_failed(CDL_STORE_PROTOCOL);
    assert_told(0, 0);
    cdl_redis_session_lost(session);
    assert_lost(1, true);
    close_session();
}

/* More and more in flight, while the oldest are answered: who was asked first is told first. */
static void the_order_stands_while_more_are_in_flight(void **state)
{
    (void)state;
    static struct asked many[3000];
    size_t sent = 0, answered = 0;
    open_ready(COUNT_OF(many));
    told_count = 0;
    while (sent < COUNT_OF(many)) {
        for (size_t i = 0; i < 30; i++, sent++) {
            many[sent] = (struct asked){.command.replied = count_only};
            const struct cdl_slice words[] = {CDL_SLICE("PING")};
            assert_true(cdl_redis_session_send(session, &many[sent].command, words, 1));
        }
        cdl_redis_session_sent(session, cdl_redis_session_output(session).length);
        for (size_t i = 0; i < 17; i++, answered++) {
            assert_true(receive(":1\r\n"));
            assert_int_equal(many[answered].told, 1);
            assert_int_equal(many[answered + 1].told, 0);
        }
    }
    cdl_redis_session_abandon(session, &many[answered + 1].command);
    cdl_redis_session_lost(session);
    for (size_t i = answered; i < sent; i++)
        assert_int_equal(many[i].told, i != answered + 1);
    close_session();
}

/* ---- callbacks that talk back ---- */

static void send_next(struct asked *one)
{
    get((unsigned)(one - asked) + 2);
}

static void abandon_next(struct asked *one)
{
    cdl_redis_session_abandon(session, &one[1].command);
}

static void say_lost(struct asked *one)
{
    (void)one;
    cdl_redis_session_lost(session);
}

static void try_to_send(struct asked *one)
{
    (void)one;
    assert_false(send_words(COMMANDS - 1, "GET", "x"));
}

static void a_callback_may_send(void **state)
{
    (void)state;
    open_ready(2);
    for (unsigned i = 0; i < 6; i++)
        asked[i].also = i < 4 ? send_next : NULL;
    get(0);
    get(1);
    expect(GET("0") GET("1"));
    assert_true(receive(":0\r\n:1\r\n"));
    expect(GET("2") GET("3"));
    assert_true(receive(":2\r"));
    assert_true(receive("\n:3\r\n"));
    expect(GET("4") GET("5"));
    assert_true(receive(":4\r\n:5\r\n"));
    for (unsigned i = 0; i < 6; i++)
        assert_told(i, i);
    close_session();
}

static void a_callback_may_abandon_others(void **state)
{
    (void)state;
    open_ready(4);
    for (unsigned i = 0; i < 4; i++)
        get(i);
    asked[0].also = asked[2].also = abandon_next;
    expect(GET("0") GET("1") GET("2") GET("3"));
    assert_true(receive(":0\r\n:1\r\n"));
    cdl_redis_session_lost(session);
    assert_told(0, 0);
    assert_lost(2, true);
    assert_int_equal(asked[1].told + asked[3].told, 0);
    close_session();
}

static void a_callback_may_end_the_connection(void **state)
{
    (void)state;
    open_ready(4);
    for (unsigned i = 0; i < 4; i++)
        get(i);
    asked[1].also = say_lost;
    asked[2].also = try_to_send;
    expect(GET("0") GET("1") GET("2") GET("3"));
    assert_true(receive(":0\r"));
    assert_false(receive("\n:1\r\n:2\r\n:3\r\n"));
    assert_told(0, 0);
    assert_told(1, 1);
    assert_lost(2, true);
    assert_lost(3, true);
    assert_state(CDL_SESSION_IDLE, CDL_STORE_NONE);
    close_session();
}

/* ---- bounds and memory ---- */

static void as_much_is_in_flight_as_may_be(void **state)
{
    (void)state;
    open_ready(3);
    for (unsigned i = 0; i < 3; i++)
        get(i);
    assert_false(send_words(3, "GET", "3"));
    expect(GET("0") GET("1") GET("2"));
    assert_false(send_words(3, "GET", "3"));
    assert_true(receive(":0\r\n"));
    get(3);
    assert_false(send_words(4, "GET", "4"));
    close_session();
}

#define MEBIBYTE ((size_t)1 << 20)

static void bytes_that_wait_are_bounded(void **state)
{
    (void)state;
    char *big = calloc(1, 17 * MEBIBYTE);
    assert_non_null(big);
    open_ready(COMMANDS);
    const struct cdl_slice too_big[] = {{big, 17 * MEBIBYTE}}, exactly[] = {{big, 16 * MEBIBYTE - 17}};
    const struct cdl_slice many[] = {{big, 9 * MEBIBYTE}, {big, 9 * MEBIBYTE}};
    assert_false(cdl_redis_session_send(session, &asked[0].command, too_big, 1));
    assert_false(cdl_redis_session_send(session, &asked[0].command, many, 2));
    assert_true(cdl_redis_session_send(session, &asked[0].command, exactly, 1));
    assert_int_equal(cdl_redis_session_output(session).length, 16 * MEBIBYTE);
    assert_false(send_words(1, "GET", "1"));
    cdl_redis_session_sent(session, 100);
    get(1);
    cdl_redis_session_sent(session, cdl_redis_session_output(session).length);
    assert_true(receive("+OK\r\n:1\r\n"));
    assert_told(1, 1);
    assert_true(memory.live_bytes < MEBIBYTE);
    free(big);
    close_session();
}

static void a_large_reply_leaves_no_large_buffer(void **state)
{
    (void)state;
    const size_t size = 3 * MEBIBYTE;
    char *big = calloc(1, size + 2);
    assert_non_null(big);
    memcpy(big + size, "\r\n", 2);
    open_ready(4);
    get(0);
    expect(GET("0"));
    assert_true(receive("$3145728\r\n"));
    for (size_t at = 0; at < size + 2; at += MEBIBYTE)
        assert_true(cdl_redis_session_receive(
            session, (struct cdl_slice){big + at, size + 2 - at < MEBIBYTE ? size + 2 - at : MEBIBYTE}));
    assert_int_equal(asked[0].told, 1);
    assert_true(memory.live_bytes < MEBIBYTE);
    free(big);
    close_session();
}

/* Commands without end, some written and answered at a time: their order survives, and memory is asked for only at first. */
static void nothing_is_allocated_in_the_long_run(void **state)
{
    (void)state;
    static struct asked many[1000];
    open_ready(1000);
    size_t sent = 0, answered = 0;
    long calls = 0;
    told_count = 0;
    for (size_t round = 0; round < 2000; round++) {
        for (size_t i = 0; i < 1 + round % 300; i++) {
            struct asked *one = &many[sent % COUNT_OF(many)];
            *one = (struct asked){.command.replied = NULL};
            one->command.replied = replied;
            const struct cdl_slice words[] = {CDL_SLICE("EVALSHA"),
                                              CDL_SLICE("0123456789012345678901234567890123456789")};
            if (!cdl_redis_session_send(session, &one->command, words, 2))
                break;
            cdl_redis_session_abandon(session, &one->command); /* their places are what is looked at */
            sent++;
        }
        cdl_redis_session_sent(session, cdl_redis_session_output(session).length * (round % 4) / 3);
        const size_t in_flight = cdl_redis_session_in_flight(session);
        assert_int_equal(in_flight, sent - answered);
        if (round % 4 == 3)
            for (size_t i = 0; i < in_flight; i++, answered++)
                assert_true(receive(i % 2 == 0 ? ":1\r\n" : "$1\r\na\r\n"));
        if (round == 1000)
            calls = memory.calls;
    }
    assert_true(sent > 100000);
    assert_int_equal(memory.calls, calls);
    close_session();
}

/* Every allocation fails once: what was refused is refused, and what was accepted is told. */
static void memory_may_run_out_at_any_time(void **state)
{
    (void)state;
    for (long fail_at = 0; fail_at < 8; fail_at++) {
        counting_allocator_init(&memory);
        memory.fail_at = fail_at;
        session = cdl_redis_session_open(&plain, 200, &memory.allocator);
        if (session == NULL) {
            assert_true(fail_at < 2);
            assert_int_equal(memory.live_blocks, 0);
            continue;
        }
        static struct asked many[200];
        unsigned accepted = 0;
        cdl_redis_session_connected(session);
        cdl_redis_session_sent(session, cdl_redis_session_output(session).length);
        bool good = receive("%1\r\n+pro") && receive("to\r\n:3\r\n");
        for (size_t i = 0; good && i < COUNT_OF(many); i++) {
            const struct cdl_slice words[] = {CDL_SLICE("01234567890123456789012345678901234567890123456789")};
            many[i] = (struct asked){.command.replied = NULL};
            if (cdl_redis_session_send(session, &many[i].command, words, 1)) {
                cdl_redis_session_abandon(session, &many[i].command);
                accepted++;
            }
        }
        assert_state(good ? CDL_SESSION_READY : CDL_SESSION_FAILED, good ? CDL_STORE_NONE : CDL_STORE_LOST);
        assert_int_equal(cdl_redis_session_in_flight(session), accepted);
        assert_true(accepted >= (good ? 199 : 0));
        if (good) {
            const size_t length = cdl_redis_session_output(session).length;
            assert_int_equal(length, accepted * (sizeof "*1\r\n$50\r\n\r\n" - 1 + 50));
        }
        cdl_redis_session_lost(session);
        close_session();
    }
}

static void closing_nothing_does_nothing(void **state)
{
    (void)state;
    cdl_redis_session_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greeting_is_one_message),
        cmocka_unit_test(a_password_alone_is_the_default_users),
        cmocka_unit_test(a_name_is_not_insisted_on),
        cmocka_unit_test(a_server_that_does_not_know_hello_is_greeted_by_auth),
        cmocka_unit_test(a_refused_greeting_says_why_and_sends_no_command),
        cmocka_unit_test(a_replica_is_no_primary),
        cmocka_unit_test(a_greeting_is_answered_in_its_shape),
        cmocka_unit_test(a_server_may_turn_us_away_before_we_have_greeted),
        cmocka_unit_test(commands_wait_for_the_end_of_the_greeting),
        cmocka_unit_test(a_greeting_may_be_written_in_pieces),
        cmocka_unit_test(replies_are_matched_in_order),
        cmocka_unit_test(words_may_hold_any_byte_and_be_empty),
        cmocka_unit_test(a_reply_may_be_cut_anywhere),
        cmocka_unit_test(pushes_are_nobodys),
        cmocka_unit_test(an_abandoned_command_keeps_its_place),
        cmocka_unit_test(a_command_that_was_told_can_be_abandoned_no_more),
        cmocka_unit_test(a_lost_connection_tells_what_may_have_left),
        cmocka_unit_test(a_session_serves_the_next_connection),
        cmocka_unit_test(what_answers_nothing_is_no_reply),
        cmocka_unit_test(the_order_stands_while_more_are_in_flight),
        cmocka_unit_test(a_callback_may_send),
        cmocka_unit_test(a_callback_may_abandon_others),
        cmocka_unit_test(a_callback_may_end_the_connection),
        cmocka_unit_test(as_much_is_in_flight_as_may_be),
        cmocka_unit_test(bytes_that_wait_are_bounded),
        cmocka_unit_test(a_large_reply_leaves_no_large_buffer),
        cmocka_unit_test(nothing_is_allocated_in_the_long_run),
        cmocka_unit_test(memory_may_run_out_at_any_time),
        cmocka_unit_test(closing_nothing_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
