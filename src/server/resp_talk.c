/* What Redis clients say around the commands that they came for: greetings, names, and questions whose answers they do without but want. */
#include <inttypes.h>
#include <unistd.h>

#include "server/exchange.h"
#include "server/resp.h"

/* The Redis whose protocol and manners this is: what clients choose features by. Our own version stands beside it. */
#define REDIS_VERSION "7.2.0"

static void write_ok(struct cdl_resp_call *call)
{
    cdl_resp_write_simple(call->output, CDL_SLICE("OK"));
}

static bool is_word(struct cdl_slice argument, const char *word)
{
    return cdl_slice_equal_nocase(argument, cdl_slice_of(word));
}

static void unknown_subcommand(struct cdl_resp_call *call)
{
    cdl_resp_error_about(call, "unknown subcommand", " '", call->arguments[1], "'");
}

/* ---- PING, ECHO, SELECT, QUIT ---- */

void cdl_resp_ping(struct cdl_resp_call *call)
{
    if (call->count > 2)
        cdl_resp_error_arity(call);
    else if (call->count == 2)
        cdl_resp_write_bulk(call->output, call->arguments[1]);
    else
        cdl_resp_write_simple(call->output, CDL_SLICE("PONG"));
}

void cdl_resp_echo(struct cdl_resp_call *call)
{
    cdl_resp_write_bulk(call->output, call->arguments[1]);
}

/* There is one set of keys. */
void cdl_resp_select(struct cdl_resp_call *call)
{
    const struct cdl_slice database = call->arguments[1];
    if (cdl_slice_equal(database, CDL_SLICE("0")))
        write_ok(call);
    else
        cdl_resp_error(call, "ERR DB index is out of range");
}

void cdl_resp_quit(struct cdl_resp_call *call)
{
    write_ok(call);
    call->session->ending = true;
}

/* ---- HELLO, RESET ---- */

static uint64_t id_of(struct cdl_resp_session *session)
{
    static _Atomic uint64_t last;
    if (session->id == 0)
        session->id = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return session->id;
}

/* What a client may call itself: nothing that breaks a line in which it is shown. */
static bool is_good_name(struct cdl_slice name)
{
    for (size_t i = 0; i < name.length; i++)
        if (name.bytes[i] < '!' || name.bytes[i] > '~')
            return false;
    return true;
}

/* False: it is not set, and the client is told. */
static bool check_name(struct cdl_resp_call *call, struct cdl_slice name)
{
    if (name.length > CDL_RESP_NAME_MAX)
        cdl_resp_error(call, "ERR Client names cannot be longer than %u bytes", CDL_RESP_NAME_MAX);
    else if (!is_good_name(name))
        cdl_resp_error(call, "ERR Client names cannot contain spaces, newlines or special characters.");
    else
        return true;
    return false;
}

static void set_name(struct cdl_resp_session *session, struct cdl_slice name)
{
    session->name_length = (uint8_t)name.length;
    if (name.length > 0)
        memcpy(session->name, name.bytes, name.length);
}

static void write_text_pair(struct cdl_writer *output, const char *key, const char *value)
{
    cdl_resp_write_bulk(output, cdl_slice_of(key));
    cdl_resp_write_bulk(output, cdl_slice_of(value));
}

static void write_number_pair(struct cdl_writer *output, const char *key, int64_t value)
{
    cdl_resp_write_bulk(output, cdl_slice_of(key));
    cdl_resp_write_integer(output, value);
}

static void greet(struct cdl_resp_call *call)
{
    struct cdl_resp_session *session = call->session;
    struct cdl_writer *output = call->output;
    cdl_resp_write_map(output, session->protocol, 7);
    write_text_pair(output, "server", "caudal");
    write_text_pair(output, "version", caudal_version());
    write_number_pair(output, "proto", session->protocol);
    write_number_pair(output, "id", (int64_t)id_of(session));
    write_text_pair(output, "mode", "standalone");
    write_text_pair(output, "role", "master");
    cdl_resp_write_bulk(output, CDL_SLICE("modules"));
    cdl_resp_write_array(output, 0);
}

/* What HELLO asks for besides. */
struct greeting {
    unsigned protocol;
    bool has_user, has_name;
    struct cdl_slice user, password, name;
};

/* False: it cannot be read, and the client is told. */
static bool read_greeting(struct cdl_resp_call *call, struct greeting *greeting)
{
    const struct cdl_slice *arguments = call->arguments;
    *greeting = (struct greeting){.protocol = call->session->protocol};
    if (call->count > 1 && !cdl_slice_equal(arguments[1], CDL_SLICE("2")) &&
        !cdl_slice_equal(arguments[1], CDL_SLICE("3"))) {
        cdl_resp_error(call, "NOPROTO unsupported protocol version");
        return false;
    }
    if (call->count > 1)
        greeting->protocol = (unsigned)(arguments[1].bytes[0] - '0');
    for (size_t i = 2; i < call->count; i++) {
        if (is_word(arguments[i], "AUTH") && call->count - i > 2) {
            greeting->has_user = true;
            greeting->user = arguments[++i];
            greeting->password = arguments[++i];
        } else if (is_word(arguments[i], "SETNAME") && call->count - i > 1) {
            greeting->has_name = true;
            greeting->name = arguments[++i];
        } else {
            cdl_resp_error_about(call, "Syntax error in HELLO option", " '", arguments[i], "'");
            return false;
        }
    }
    return true;
}

void cdl_resp_hello(struct cdl_resp_call *call)
{
    struct cdl_resp_session *session = call->session;
    struct greeting greeting;
    if (!read_greeting(call, &greeting) || (greeting.has_name && !check_name(call, greeting.name)))
        return;
    if (greeting.has_user && !cdl_resp_login(call, greeting.user, greeting.password))
        return;
    if (!session->known) {
        cdl_resp_error(call, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
                             "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
                             "RESP protocol version at the same time");
        return;
    }
    session->protocol = greeting.protocol;
    if (greeting.has_name)
        set_name(session, greeting.name);
    greet(call);
}

/* The connection is as it was when it was new. */
void cdl_resp_reset(struct cdl_resp_call *call)
{
    struct cdl_resp_session *session = call->session;
    session->protocol = 0;
    session->user_length = session->name_length = 0;
    cdl_resp_user_revise(session, call->worker->live);
    cdl_resp_write_simple(call->output, CDL_SLICE("RESET"));
}

/* ---- CLIENT ---- */

static void client_set_name(struct cdl_resp_call *call)
{
    if (!check_name(call, call->arguments[2]))
        return;
    set_name(call->session, call->arguments[2]);
    write_ok(call);
}

static void client_get_name(struct cdl_resp_call *call)
{
    const struct cdl_resp_session *session = call->session;
    if (session->name_length == 0)
        cdl_resp_write_null(call->output, session->protocol);
    else
        cdl_resp_write_bulk(call->output, (struct cdl_slice){session->name, session->name_length});
}

/* Clients tell what library they are. Nobody here wants to know. */
static void client_set_info(struct cdl_resp_call *call)
{
    if (!is_word(call->arguments[2], "lib-name") && !is_word(call->arguments[2], "lib-ver"))
        cdl_resp_error_about(call, "Unrecognized option", " '", call->arguments[2], "'");
    else if (!is_good_name(call->arguments[3]))
        cdl_resp_error_about(call, call->arguments[2].bytes[4] == 'n' ? "lib-name" : "lib-ver", ": '",
                             call->arguments[3], "' has spaces, newlines or special characters");
    else
        write_ok(call);
}

static void client_id(struct cdl_resp_call *call)
{
    cdl_resp_write_integer(call->output, (int64_t)id_of(call->session));
}

static void client_info(struct cdl_resp_call *call)
{
    struct cdl_resp_session *session = call->session;
    char text[1024], peer[CDL_ADDRESS_TEXT_MAX] = "unix";
    const struct cdl_exchange exchange = {.connection = call->connection};
    const struct cdl_address address = cdl_exchange_peer(&exchange);
    if (address.family != 0)
        cdl_address_format(&address, peer);
    struct cdl_writer line = cdl_writer_on(text, sizeof text);
    cdl_writef(&line, "id=%" PRIu64 " addr=%s name=%.*s db=0 user=%.*s resp=%u\n", id_of(session), peer,
               (int)session->name_length, session->name, (int)session->user_length, session->user, session->protocol);
    cdl_resp_write_verbatim(call->output, session->protocol, cdl_written(&line));
}

void cdl_resp_client(struct cdl_resp_call *call)
{
    static const struct {
        const char *name;
        size_t count; /* of all arguments */
        void (*run)(struct cdl_resp_call *call);
    } subcommands[] = {
        {"SETNAME", 3, client_set_name}, {"GETNAME", 2, client_get_name},
        {"SETINFO", 4, client_set_info}, {"ID", 2, client_id},
        {"INFO", 2, client_info},
    };
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++) {
        if (!is_word(call->arguments[1], subcommands[i].name))
            continue;
        if (call->count == subcommands[i].count)
            subcommands[i].run(call);
        else
            cdl_resp_error_arity(call);
        return;
    }
    unknown_subcommand(call);
}

/* ---- INFO, CONFIG ---- */

static void info_server(const struct cdl_server *server, struct cdl_writer *text)
{
    const int64_t now_s = cdl_server_now_ns(server) / CDL_NS_PER_S;
    cdl_writef(text,
               "# Server\r\nserver_name:caudal\r\ncaudal_version:%s\r\nredis_version:" REDIS_VERSION
               "\r\nredis_mode:standalone\r\narch_bits:64\r\nprocess_id:%ld\r\nuptime_in_seconds:%" PRId64 "\r\n",
               caudal_version(), (long)getpid(), cdl_max_i64(now_s - server->started_at_s, 0));
}

static void info_clients(const struct cdl_server *server, struct cdl_writer *text)
{
    cdl_writef(text, "# Clients\r\nconnected_clients:%" PRIu64 "\r\nmaxclients:%u\r\n",
               atomic_load_explicit(&server->connections[0], memory_order_relaxed), server->connections_max);
}

/* Clients that wait for a server to have its data look here. */
static void info_persistence(const struct cdl_server *server, struct cdl_writer *text)
{
    (void)server;
    cdl_write_text(text, "# Persistence\r\nloading:0\r\n");
}

static void info_replication(const struct cdl_server *server, struct cdl_writer *text)
{
    (void)server;
    cdl_write_text(text, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
}

static bool names_section(const struct cdl_resp_call *call, const char *name)
{
    for (size_t i = 1; i < call->count; i++)
        if (is_word(call->arguments[i], name) || is_word(call->arguments[i], "all") ||
            is_word(call->arguments[i], "default") || is_word(call->arguments[i], "everything"))
            return true;
    return call->count == 1;
}

void cdl_resp_info(struct cdl_resp_call *call)
{
    static const struct {
        const char *name;
        void (*write)(const struct cdl_server *server, struct cdl_writer *text);
    } sections[] = {
        {"server", info_server},
        {"clients", info_clients},
        {"persistence", info_persistence},
        {"replication", info_replication},
    };
    char bytes[2048];
    struct cdl_writer text = cdl_writer_on(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (!names_section(call, sections[i].name))
            continue;
        cdl_write_text(&text, text.length > 0 ? "\r\n" : "");
        sections[i].write(call->worker->server, &text);
    }
    cdl_resp_write_verbatim(call->output, call->session->protocol, cdl_written(&text));
}

/* Settings are the policy's business. What benchmarks and libraries ask for has a true answer: nothing is saved to a disk. */
void cdl_resp_config(struct cdl_resp_call *call)
{
    static const char *const settings[][2] = {{"save", ""}, {"appendonly", "no"}};
    const size_t count = sizeof settings / sizeof settings[0];
    bool wanted[sizeof settings / sizeof settings[0]] = {false};
    size_t found = 0;
    if (!is_word(call->arguments[1], "GET")) {
        unknown_subcommand(call);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 2; j < call->count; j++)
            wanted[i] |= is_word(call->arguments[j], settings[i][0]) || is_word(call->arguments[j], "*");
        found += wanted[i];
    }
    cdl_resp_write_map(call->output, call->session->protocol, found);
    for (size_t i = 0; i < count; i++)
        if (wanted[i])
            write_text_pair(call->output, settings[i][0], settings[i][1]);
}
