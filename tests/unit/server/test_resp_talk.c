/* Redis clients: what they say around the commands that they came for, what bytes they send, and who they are. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../resp_client.h"
#include "../server_bed.h"
#include "server/resp.h"

static int setup(void **state)
{
    (void)state;
    resp_begin();
    bed_open(&cdl_resp_protocol);
    bed_answer_at_once();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bed_close();
    return 0;
}

/* ---- what clients say around it ---- */

static void C74_the_handshakes_of_clients(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "HELLO 3 SETNAME worker-1");
    resp_assert_has(fd, "map['server' 'caudal' 'version' '0.1.0' 'proto' 3 'id' ");
    resp_ask(fd, "CLIENT GETNAME", "'worker-1'");
    resp_ask(fd, "client setname other", "'OK'");
    resp_ask(fd, "CLIENT GETNAME", "'other'");
    resp_ask(fd, "CLIENT SETINFO LIB-NAME redis-py", "'OK'");
    resp_ask(fd, "CLIENT SETINFO lib-ver 5.0.1", "'OK'");
    resp_ask(fd, "CLIENT SETINFO LIB-COLOUR blue", "error 'ERR Unrecognized option 'LIB-COLOUR''");
    resp_say(fd, "CLIENT INFO");
    resp_assert_has(fd, " addr=127.0.0.1 name=other db=0 user= resp=3\n");
    resp_ask(fd, "CLIENT KILL x", "error 'ERR unknown subcommand 'KILL''");
    resp_ask(fd, "CLIENT ID now", "error 'ERR wrong number of arguments for 'client' command'");
    resp_ask(fd, "SELECT 0", "'OK'");
    resp_ask(fd, "SELECT 1", "error 'ERR DB index is out of range'");
    resp_ask(fd, "PING", "'PONG'");
    resp_ask(fd, "ping hello", "'hello'");
    resp_ask(fd, "ECHO hi", "'hi'");
    resp_say(fd, "CONFIG GET save");
    resp_assert_reply(fd, "map['save' '']");
    resp_say(fd, "CONFIG GET appendonly maxmemory");
    resp_assert_reply(fd, "map['appendonly' 'no']");
    resp_ask(fd, "CONFIG SET save x", "error 'ERR unknown subcommand 'SET''");
    resp_ask(fd, "HELLO 4", "error 'NOPROTO unsupported protocol version'");
    resp_ask(fd, "HELLO x", "error 'NOPROTO unsupported protocol version'");
    resp_ask(fd, "HELLO 2 SETNAME", "error 'ERR Syntax error in HELLO option 'SETNAME''");
    resp_say(fd, "HELLO");
    resp_assert_has(fd, "'proto' 3");
    resp_ask(fd, "RESET", "'RESET'");
    resp_ask(fd, "CLIENT GETNAME", "null");
    resp_say(fd, "HELLO");
    resp_assert_has(fd, "['server' 'caudal' 'version' '0.1.0' 'proto' 2 'id' ");
    resp_say(fd, "INFO");
    resp_assert_has(fd, "redis_version:7.2.0\r\nredis_mode:standalone\r\n");
    resp_say(fd, "INFO persistence");
    resp_assert_reply(fd, "'# Persistence\r\nloading:0\r\n'");
    resp_ask(fd, "GET key", "error 'ERR unknown command 'GET', with args beginning with: 'key' '");
    resp_ask(fd, "QUIT", "'OK'");
    resp_assert_ends(fd);
}

static void a_connections_id_is_its_own(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    char first[64];
    const int fd = bed_connect(), other = bed_connect();
    resp_say(fd, "CLIENT ID");
    snprintf(first, sizeof first, "%s", resp_reply(fd));
    resp_ask(fd, "CLIENT ID", first);
    resp_say(other, "CLIENT ID");
    assert_string_not_equal(resp_reply(other), first);
    close(fd);
    close(other);
}

static void the_commands_are_told_from_their_list(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_say(fd, "HELLO 3");
    resp_reply(fd);
    resp_ask(fd, "COMMAND COUNT", "18"); /* without THROTTLE and GCRA, which are off */
    resp_say(fd, "COMMAND LIST");
    resp_assert_has(fd, "['cl.throttle' 'caudal.take'");
    resp_ask(fd, "COMMAND INFO cl.throttle get", "[['cl.throttle' -5 ['write' 'fast'] 1 1 1 [] [] [] []] null]");
    resp_ask(
        fd, "COMMAND DOCS caudal.reset gcra",
        "map['caudal.reset' map['summary' 'Forgets a key under a limit, as if it had never been seen.' 'since' '0.1.0' "
        "'group' 'rate_limit' 'arguments' [map['name' 'limit' 'type' 'string'] map['name' 'key' 'type' 'string' "
        "'flags' ['multiple']]]]]");
    resp_say(fd, "COMMAND DOCS caudal.take");
    resp_assert_has(fd, "map['name' 'cost' 'type' 'string' 'token' 'COST' 'flags' ['optional']]");
    resp_say(fd, "COMMAND");
    resp_assert_has(fd, "['quit' -1 ");
    resp_say(fd, "COMMAND DOCS");
    resp_assert_has(
        fd, "'quit' map['summary' 'Answers OK and closes the connection.' 'since' '0.1.0' 'group' 'connection']");
    resp_ask(fd, "COMMAND GETKEYS x", "error 'ERR unknown subcommand 'GETKEYS''");
    close(fd);
}

/* Every command stands in the documentation, with its arguments. */
static void the_documentation_has_every_command(void **state)
{
    (void)state;
    static char text[1 << 20];
    FILE *file = fopen(EXAMPLES_DIR "/../docs/resp.md", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const struct cdl_resp_verb *verb;
    size_t count = 0;
    for (; (verb = cdl_resp_verb_at(count)) != NULL; count++) {
        char line[256];
        struct cdl_writer writer = cdl_writer_on(line, sizeof line - 1);
        cdl_write_text(&writer, "`");
        for (size_t i = 0; i < verb->name.length; i++) {
            const char c = verb->name.bytes[i];
            cdl_write(&writer, (struct cdl_slice){(const char[]){c >= 'a' && c <= 'z' ? (char)(c - 32) : c}, 1});
        }
        cdl_writef(&writer, "%s%s`", verb->syntax[0] != '\0' ? " " : "", verb->syntax);
        line[writer.length] = '\0';
        if (strstr(text, line) == NULL)
            fail_msg("docs/resp.md has no %s", line);
    }
    assert_true(count > 0);
}

/* ---- bytes ---- */

#define SOME_COMMANDS                                                                                                  \
    "*2\r\n$5\r\nhello\r\n$1\r\n3\r\n*5\r\n$11\r\ncl.throttle\r\n$1\r\nk\r\n$1\r\n4\r\n$1\r\n1\r\n$2\r\n10\r\n"        \
    "ping\r\n\r\n*0\r\n*3\r\n$11\r\ncaudal.peek\r\n$3\r\none\r\n$9\r\n192.0.2.1\r\necho \"a b\"\r\nnope\r\n"

static void assert_some_replies(int fd)
{
    resp_assert_has(fd, "map['server' 'caudal'");
    resp_assert_has(fd, "[0 5 ");
    resp_assert_reply(fd, "'PONG'");
    resp_assert_has(fd, "map['verdict' 'allow'");
    resp_assert_reply(fd, "'a b'");
    resp_assert_reply(fd, "error 'ERR unknown command 'nope', with args beginning with: '");
}

static void C74_commands_may_be_cut_anywhere(void **state)
{
    (void)state;
    const struct cdl_slice whole = CDL_SLICE(SOME_COMMANDS);
    bed_apply(RESP_LIMITS);
    for (size_t cut = 0; cut <= whole.length; cut++) {
        const int fd = bed_connect();
        bed_say(fd, cdl_slice_head(whole, cut));
        bed_turn_a_while();
        bed_say(fd, cdl_slice_from(whole, cut));
        assert_some_replies(fd);
        close(fd);
        world_advance(&bed.world, MINUTE);
    }
    const int fd = bed_connect();
    for (size_t i = 0; i < whole.length; i++) {
        bed_say(fd, (struct cdl_slice){whole.bytes + i, 1});
        bed_turn();
    }
    assert_some_replies(fd);
    close(fd);
}

static void C73_bytes_that_are_no_command_end_the_connection(void **state)
{
    (void)state;
    static const struct {
        struct cdl_slice bytes;
        const char *error;
    } cases[] = {
        {CDL_SLICE("*4294967295\r\n"), "invalid multibulk length"},
        {CDL_SLICE("*-2\r\n"), "invalid multibulk length"},
        {CDL_SLICE("*1\r\n$-2\r\n"), "invalid bulk length"},
        {CDL_SLICE("*1\r\n$9223372036854775807\r\n"), "invalid bulk length"},
        {CDL_SLICE("*1\r\n$2147483645\r\n"), "invalid bulk length"},
        {CDL_SLICE("*1\r\n*1\r\n*1\r\n"), "expected '$' and the length of an argument"},
        {CDL_SLICE("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "this is not HTTP"},
    };
    bed_apply(RESP_LIMITS);
    const int good = bed_connect();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char wanted[128];
        const int fd = bed_connect();
        resp_say(fd, "PING");
        bed_say(fd, cases[i].bytes);
        resp_assert_reply(fd, "'PONG'");
        if (cases[i].bytes.bytes[0] == 'G')
            resp_assert_has(fd, "unknown command 'GET'");
        snprintf(wanted, sizeof wanted, "error 'ERR Protocol error: %s'", cases[i].error);
        resp_assert_reply(fd, wanted);
        resp_assert_ends(fd);
        resp_ask(good, "PING", "'PONG'");
    }
    assert_int_equal(cdl_counters_event_sum(bed.server.counters, CDL_EVENT_BAD_REQUEST), COUNT_OF(cases));
    close(good);
}

static void C73_half_a_command_is_timed_out(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    bed.worker.loop.bounds.message_timeout_ms = 1;
    const int fd = bed_connect();
    bed_say(fd, CDL_SLICE("*2\r\n$4\r\nEC"));
    while (resp_receive(fd) && !resp_has_received())
        cdl_loop_turn(&bed.worker.loop, true);
    resp_assert_reply(fd, "error 'ERR Protocol error: the command did not become whole in time'");
    resp_assert_ends(fd);
}

static void a_pipeline_of_any_length_is_answered_in_its_order(void **state)
{
    (void)state;
    enum {
        COMMANDS = 20000
    };
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    for (int said = 0, heard = 0; heard < COMMANDS;) {
        for (int i = 0; i < 100 && said < COMMANDS; i++, said++) {
            char text[64];
            snprintf(text, sizeof text, said % 2 == 0 ? "ECHO %d" : "CL.THROTTLE k%d 0 1 60", said);
            resp_say(fd, text);
        }
        for (int i = 0; i < 100; i++, heard++) {
            char wanted[64];
            snprintf(wanted, sizeof wanted, heard % 2 == 0 ? "'%d'" : "[0 1 0 -1 60]", heard);
            resp_assert_reply(fd, wanted);
        }
    }
    close(fd);
}

/* A client that asks for much and reads nothing is not listened to until it does. */
static void a_client_that_does_not_read_is_not_read_either(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    size_t said = 0;
    while (said < BED_PATIENCE && send(fd, "COMMAND DOCS\r\n", 14, MSG_NOSIGNAL) == 14) {
        said++;
        bed_turn();
    }
    assert_true(said < BED_PATIENCE); /* its own buffers are full */
    for (size_t i = 0; i < said && i < 1000; i++)
        resp_assert_has(fd, "'ping' [");
    bed_reset(fd);
}

/* ---- users ---- */

static char password_file[] = "/tmp/caudal-password-XXXXXX";

static const char *policy_with_users(const char *users)
{
    static char text[1024];
    snprintf(text, sizeof text, RESP_LIMITS "resp:\n  users:\n%s", users);
    return text;
}

static const char *user(const char *name, const char *may)
{
    static char lines[2][256];
    static int next;
    char *line = lines[next++ % 2];
    snprintf(line, 256, "    - {name: %s, password_file: %s%s}\n", name, password_file, may);
    return line;
}

static void write_password(const char *password)
{
    const int fd = mkstemp(password_file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, password, strlen(password)), strlen(password));
    close(fd);
}

static void remove_password(void)
{
    unlink(password_file);
    memcpy(strrchr(password_file, '-'), "-XXXXXX", 7);
}

static void who_has_not_said_who_they_are_may_only_say_that(void **state)
{
    (void)state;
    write_password("open sesame\n");
    char both[600];
    snprintf(both, sizeof both, "%s%s", user("default", ""), user("reader", ", may: [peek]"));
    bed_apply(policy_with_users(both));
    const int fd = bed_connect();
    resp_ask(fd, "PING", "error 'NOAUTH Authentication required.'");
    resp_ask(fd, "CL.THROTTLE k 1 1 1", "error 'NOAUTH Authentication required.'");
    resp_ask(fd, "NOPE", "error 'NOAUTH Authentication required.'");
    resp_say(fd, "HELLO 3");
    resp_assert_has(fd, "error 'NOAUTH HELLO must be called with the client already authenticated");
    resp_ask(fd, "AUTH wrong", "error 'WRONGPASS invalid username-password pair or user is disabled.'");
    resp_ask(fd, "AUTH nobody secret", "error 'WRONGPASS invalid username-password pair or user is disabled.'");
    bed_say(fd, CDL_SLICE("auth \"open sesame\\n\"\r\nauth \"open sesame\"\r\n"));
    resp_assert_has(fd, "WRONGPASS");
    resp_assert_reply(fd, "'OK'");
    resp_ask(fd, "CL.THROTTLE k 1 1 1", "[0 2 1 -1 1]");
    resp_ask(fd, "RESET", "'RESET'");
    resp_ask(fd, "PING", "error 'NOAUTH Authentication required.'");
    bed_say(fd, CDL_SLICE("hello 3 auth reader \"open sesame\"\r\n"));
    resp_assert_has(fd, "map['server' 'caudal'");
    resp_ask(fd, "CL.THROTTLE k 1 1 1",
             "error 'NOPERM User reader has no permissions to run the 'cl.throttle' command'");
    resp_ask(fd, "CAUDAL.RESET one a",
             "error 'NOPERM User reader has no permissions to run the 'caudal.reset' command'");
    resp_say(fd, "CAUDAL.PEEK one a");
    resp_assert_has(fd, "'verdict' 'allow'");
    remove_password();
    close(fd);
}

static void a_reload_changes_what_users_may(void **state)
{
    (void)state;
    write_password("secret");
    bed_apply(RESP_LIMITS);
    const int fd = bed_connect();
    resp_ask(fd, "AUTH secret",
             "error 'ERR AUTH <password> called without any password configured for the default user. Are you sure "
             "your configuration is correct?'");
    resp_ask(fd, "PING", "'PONG'");
    bed_apply(policy_with_users(user("default", "")));
    resp_ask(fd, "PING", "error 'NOAUTH Authentication required.'");
    resp_ask(fd, "AUTH default secret", "'OK'");
    resp_ask(fd, "CL.THROTTLE k 1 1 1", "[0 2 1 -1 1]");
    bed_apply(policy_with_users(user("default", ", may: [peek]")));
    resp_ask(fd, "CL.THROTTLE k 1 1 1",
             "error 'NOPERM User default has no permissions to run the 'cl.throttle' command'");
    bed_apply(policy_with_users(user("other", "")));
    resp_ask(fd, "PING", "error 'NOAUTH Authentication required.'");
    bed_apply(RESP_LIMITS);
    resp_ask(fd, "PING", "'PONG'");
    remove_password();
    close(fd);
}

static void a_password_that_is_not_there_keeps_the_policy_out(void **state)
{
    (void)state;
    static struct cdl_report report; /* large */
    struct caudal_problem problem;
    write_password("");
    struct cdl_policy *policy = cdl_policy_load_text("p", cdl_slice_of(policy_with_users(user("default", ""))), NULL,
                                                     &report);
    assert_non_null(policy);
    assert_int_equal(cdl_server_apply(&bed.server, policy, &problem), CAUDAL_ERR_ARGUMENT);
    assert_non_null(strstr(problem.message, "does not hold a password of 1 to 4096 bytes for user default"));
    remove_password();
    policy = cdl_policy_load_text(
        "p", CDL_SLICE(RESP_LIMITS "resp: {users: [{name: bob, password_file: /nowhere/at/all}]}"), NULL, &report);
    assert_non_null(policy);
    assert_int_equal(cdl_server_apply(&bed.server, policy, &problem), CAUDAL_ERR_ARGUMENT);
    assert_string_equal(problem.message, "/nowhere/at/all, the password of user bob: No such file or directory");
}

static void keys_are_not_reset_by_just_anybody(void **state)
{
    (void)state;
    bed_apply(RESP_LIMITS);
    bed.worker.listeners[0].is_local = false;
    const int fd = bed_connect();
    resp_say(fd, "CAUDAL.RESET all");
    resp_assert_has(fd, "error 'NOPERM others can reach this listener");
    write_password("secret");
    bed_apply(policy_with_users(user("default", "")));
    resp_ask(fd, "AUTH secret", "'OK'");
    resp_say(fd, "CAUDAL.TAKE all COST 2");
    resp_assert_has(fd, "'remaining' 0");
    resp_say(fd, "CAUDAL.RESET all");
    resp_assert_has(fd, "'verdict' 'allow' 'limit' 'all' 'remaining' 2");
    remove_password();
    close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(C74_the_handshakes_of_clients),
        CASE(a_connections_id_is_its_own),
        CASE(the_commands_are_told_from_their_list),
        CASE(the_documentation_has_every_command),
        CASE(C74_commands_may_be_cut_anywhere),
        CASE(C73_bytes_that_are_no_command_end_the_connection),
        CASE(C73_half_a_command_is_timed_out),
        CASE(a_pipeline_of_any_length_is_answered_in_its_order),
        CASE(a_client_that_does_not_read_is_not_read_either),
        CASE(who_has_not_said_who_they_are_may_only_say_that),
        CASE(a_reload_changes_what_users_may),
        CASE(a_password_that_is_not_there_keeps_the_policy_out),
        CASE(keys_are_not_reset_by_just_anybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
