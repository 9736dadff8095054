#include "fake_redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct world_of_redis redis;

/* ---- servers ---- */

void server_open(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(server->port)};
    socklen_t length = sizeof address;
    const int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server->listener, 64), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &length), 0);
    server->port = ntohs(address.sin_port);
    snprintf(server->place, sizeof server->place, "127.0.0.1:%u", server->port);
}

static void hang_up(struct server *server, struct peer *peer)
{
    /* A reset leaves no TIME_WAIT behind, so the port can be listened on again. */
    const struct linger linger = {1, 0};
    if (peer->fd < 0)
        return;
    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(peer->fd);
    peer->fd = -1;
    server->open--;
}

void server_hang_up(struct server *server)
{
    for (size_t i = 0; i < PEERS_MAX; i++)
        hang_up(server, &server->peers[i]);
}

void server_close(struct server *server)
{
    server_hang_up(server);
    if (server->listener >= 0)
        close(server->listener);
    server->listener = -1;
}

void server_can(struct server *server, const char *reply)
{
    if (server->canned_first == server->canned_count)
        server->canned_first = server->canned_count = 0;
    assert_true(server->canned_count < CANNED_MAX);
    server->canned[server->canned_count++] = reply;
}

static void say(struct peer *peer, const char *bytes, size_t length)
{
    assert_true(length <= sizeof peer->output - peer->output_length);
    memcpy(peer->output + peer->output_length, bytes, length);
    peer->output_length += length;
}

static void say_text(struct peer *peer, const char *text)
{
    say(peer, text, strlen(text));
}

static bool is(struct cdl_slice word, const char *text)
{
    return cdl_slice_equal(word, cdl_slice_of(text));
}

/* A reply to a call, with all that may go wrong. */
static void answer(struct server *server, struct peer *peer, const char *reply)
{
    size_t length = strlen(reply);
    if (strcmp(reply, SILENCE) == 0)
        return;
    peer->hang_up = strcmp(reply, HANG_UP) == 0 || server->cut < length;
    if (strcmp(reply, HANG_UP) == 0)
        length = 0;
    if (server->cut < length)
        length = server->cut;
    say(peer, reply, length);
}

static size_t number_of(struct cdl_slice key)
{
    size_t at = key.length, number = 0;
    while (at > 0 && key.bytes[at - 1] >= '0' && key.bytes[at - 1] <= '9')
        at--;
    for (; at < key.length; at++)
        number = number * 10 + (size_t)(key.bytes[at] - '0');
    assert_true(number < KEYS_MAX);
    return number;
}

static void call(struct server *server, struct peer *peer, const struct cdl_slice *words, size_t count)
{
    char reply[32];
    const bool by_name = is(words[0], "EVALSHA");
    const struct cdl_slice key = count > 3 ? words[3] : CDL_SLICE("-");
    server->evals += is(words[0], "EVAL");
    server->evalshas += by_name;
    if (server->canned_first < server->canned_count) {
        answer(server, peer, server->canned[server->canned_first++]);
        return;
    }
    if (by_name && !server->has_script) {
        answer(server, peer, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
        return;
    }
    server->has_script = server->has_script || is(words[0], "EVAL");
    server->executed++;
    redis.ran[number_of(key)]++;
    const size_t used = strlen(server->log);
    snprintf(server->log + used, sizeof server->log - used, "%.*s ", CDL_SLICE_ARG(key));
    snprintf(reply, sizeof reply, ":%u\r\n", server->executed);
    answer(server, peer, reply);
}

static void obey(struct server *server, struct peer *peer, const struct cdl_slice *words, size_t count)
{
    if (is(words[0], "HELLO") && server->old)
        say_text(peer, "-ERR unknown command 'HELLO'\r\n");
    else if (is(words[0], "HELLO") || is(words[0], "AUTH"))
        say_text(peer, server->greeting != NULL ? server->greeting
                       : is(words[0], "AUTH")   ? "+OK\r\n"
                                                : "%1\r\n+server\r\n+redis\r\n");
    else if (is(words[0], "SELECT") || is(words[0], "CLIENT"))
        say_text(peer, "+OK\r\n");
    else if (is(words[0], "ASKING")) {
        server->askings++;
        say_text(peer, "+OK\r\n");
    } else if (is(words[0], "ROLE")) {
        say_text(peer, server->role != NULL ? "*1\r\n$5\r\nslave\r\n" : "*1\r\n$6\r\nmaster\r\n");
    } else if (is(words[0], "WAIT")) {
        server->waits++;
        say_text(peer, server->confirmed);
    } else if (is(words[0], "CLUSTER")) {
        server->map_questions++;
        answer(server, peer, server->slots != NULL ? server->slots : "-ERR cluster support disabled\r\n");
    } else if (is(words[0], "SENTINEL")) {
        server->primary_questions++;
        answer(server, peer, server->primary != NULL ? server->primary : "*-1\r\n");
    } else {
        call(server, peer, words, count);
    }
}

/* A command of bulk strings at the front; 0: not whole. */
static size_t read_command(struct cdl_slice bytes, struct cdl_slice *words, size_t *count)
{
    const char *at = bytes.bytes, *end = bytes.bytes + bytes.length;
    char *after;
    if (bytes.length == 0 || memchr(at, '\n', bytes.length) == NULL)
        return 0;
    assert_int_equal(*at, '*');
    *count = strtoul(at + 1, &after, 10);
    assert_in_range(*count, 1, 16);
    at = after + 2;
    for (size_t i = 0; i < *count; i++) {
        if (at >= end || memchr(at, '\n', (size_t)(end - at)) == NULL)
            return 0;
        const size_t length = strtoul(at + 1, &after, 10);
        at = after + 2;
        if ((size_t)(end - at) < length + 2)
            return 0;
        words[i] = (struct cdl_slice){at, length};
        at += length + 2;
    }
    return (size_t)(at - bytes.bytes);
}

static bool listen_to(struct server *server, struct peer *peer)
{
    const ssize_t got = recv(peer->fd, peer->input + peer->input_length, sizeof peer->input - peer->input_length, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN)
            hang_up(server, peer);
        return got == 0;
    }
    peer->input_length += (size_t)got;
    struct cdl_slice words[16];
    size_t count, taken;
    while (!peer->hang_up &&
           (taken = read_command((struct cdl_slice){peer->input, peer->input_length}, words, &count)) > 0) {
        obey(server, peer, words, count);
        peer->input_length -= taken;
        memmove(peer->input, peer->input + taken, peer->input_length);
    }
    return true;
}

static bool speak(struct server *server, struct peer *peer)
{
    size_t length = peer->output_length;
    if (server->mute || peer->fd < 0 || (length == 0 && !peer->hang_up))
        return false;
    if (server->bite > 0 && length > server->bite)
        length = server->bite;
    if (length > 0) {
        assert_int_equal(send(peer->fd, peer->output, length, MSG_NOSIGNAL), length);
        peer->output_length -= length;
        memmove(peer->output, peer->output + length, peer->output_length);
    }
    if (peer->output_length == 0 && peer->hang_up) {
        /* An orderly end, so that what was sent arrives. */
        close(peer->fd);
        peer->fd = -1;
        server->open--;
    }
    return true;
}

static bool accept_peer(struct server *server)
{
    if (server->listener < 0)
        return false;
    const int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return false;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    size_t i = 0;
    while (i < PEERS_MAX && server->peers[i].fd >= 0)
        i++;
    assert_true(i < PEERS_MAX);
    server->peers[i] = (struct peer){.fd = fd};
    server->accepted++;
    server->open++;
    return true;
}

static bool turn_of(struct server *server)
{
    bool any = false;
    if (server->stopped)
        return false;
    while (accept_peer(server))
        any = true;
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (server->peers[i].fd >= 0)
            any = listen_to(server, &server->peers[i]) || any;
        any = speak(server, &server->peers[i]) || any;
    }
    if (server->open > server->most_open)
        server->most_open = server->open;
    return any;
}

void server_speak(struct server *server)
{
    while (turn_of(server))
        ;
}

/* ---- the loop ---- */

static void watch(void *context, struct cdl_socket *socket, unsigned events)
{
    (void)context;
    size_t i = 0, hole = COUNT_OF(redis.watched);
    for (; i < COUNT_OF(redis.watched) && redis.watched[i].socket != socket; i++)
        if (redis.watched[i].socket == NULL && hole == COUNT_OF(redis.watched))
            hole = i;
    if (i == COUNT_OF(redis.watched))
        i = hole;
    assert_true(i < COUNT_OF(redis.watched));
    assert_false(redis.in_call);
    redis.watched[i].socket = events != 0 ? socket : NULL;
    redis.watched[i].events = events;
}

static void alarm_at(void *context, int64_t at_ns)
{
    (void)context;
    redis.alarm_ns = at_ns;
    redis.alarms++;
}

static void look_up(void *context, struct cdl_lookup_request *request)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(request->port)};
    (void)context;
    const bool is_dead = request->turn % (redis.dead_addresses + 1) < redis.dead_addresses;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + is_dead); /* nobody listens on 127.0.0.2 */
    redis.look_ups++;
    assert_null(redis.looking);
    assert_false(redis.in_call);
    if (redis.look_up_later)
        redis.looking = request;
    else if (redis.unknown_names)
        cdl_redis_client_found(redis.client, request, NULL, 0);
    else
        cdl_redis_client_found(redis.client, request, (struct sockaddr *)&address, sizeof address);
}

static void forget(void *context, struct cdl_lookup_request *request)
{
    (void)context;
    assert_ptr_equal(redis.looking, request);
    redis.looking = NULL;
}

/* Tells the client of each socket that is ready. */
static bool turn_of_client(void)
{
    bool any = false;
    for (size_t i = 0; i < COUNT_OF(redis.watched); i++) {
        struct cdl_socket *socket = redis.watched[i].socket;
        if (socket == NULL)
            continue;
        struct pollfd one = {.fd = socket->fd};
        one.events = (short)((redis.watched[i].events & CDL_SOCKET_READ ? POLLIN : 0) |
                             (redis.watched[i].events & CDL_SOCKET_WRITE ? POLLOUT : 0));
        if (poll(&one, 1, 0) <= 0)
            continue;
        any = true;
        cdl_redis_client_ready(redis.client, socket, redis.watched[i].events);
    }
    if (redis.client != NULL && redis.alarm_ns <= now()) {
        redis.alarm_ns = INT64_MAX;
        cdl_redis_client_time(redis.client, now());
        any = true;
    }
    return any;
}

static bool turn(void)
{
    bool any = turn_of_client();
    for (size_t i = 0; i < SERVERS_MAX; i++)
        any = turn_of(&redis.servers[i]) || any;
    return any;
}

/* What was sent may still be on its way through the kernel. It comes in the order in which it was sent, so it is there when something
 * that was sent afterwards is; opening a connection takes three steps, each of which follows from the one before. */
static void wait_for_kernel(void)
{
    char byte = 'x';
    for (unsigned steps = 0; steps < 4; steps++) {
        assert_int_equal(send(redis.echo[steps % 2], &byte, 1, 0), 1);
        assert_int_equal(recv(redis.echo[1 - steps % 2], &byte, 1, MSG_WAITALL), 1);
    }
}

static bool anything_comes(void)
{
    struct pollfd fds[COUNT_OF(redis.watched) + SERVERS_MAX * (PEERS_MAX + 1)];
    nfds_t count = 0;
    for (size_t i = 0; i < COUNT_OF(redis.watched); i++)
        if (redis.watched[i].socket != NULL)
            fds[count++] = (struct pollfd){.fd = redis.watched[i].socket->fd, .events = POLLIN};
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        struct server *server = &redis.servers[i];
        if (server->stopped)
            continue;
        fds[count++] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        for (size_t j = 0; j < PEERS_MAX; j++)
            fds[count++] = (struct pollfd){.fd = server->peers[j].fd, .events = POLLIN};
    }
    wait_for_kernel();
    return poll(fds, count, 0) > 0;
}

void run(void)
{
    unsigned turns = 0;
    do {
        while (turn())
            assert_true(++turns < 100000);
    } while (anything_comes());
}

int64_t now(void)
{
    const struct caudal_clock *clock = caudal_fake_clock_clock(redis.clock);
    return clock->monotonic_ns(clock->context);
}

void advance(int64_t ns)
{
    const int64_t until = now() + ns;
    unsigned steps = 0;
    run();
    while (redis.alarm_ns <= until) {
        caudal_fake_clock_set(redis.clock, redis.alarm_ns);
        run();
        assert_true(++steps < 100000);
    }
    caudal_fake_clock_set(redis.clock, until);
    run();
}

/* ---- calls ---- */

static void on_done(struct cdl_redis_call *call, const struct cdl_resp *reply, enum cdl_store_event event)
{
    struct probe *probe = (struct probe *)(void *)call;
    assert_false(redis.in_call);
    probe->done++;
    probe->event = event;
    probe->order = ++redis.done;
    probe->done_ns = now();
    probe->replied = reply != NULL;
    if (reply != NULL) {
        probe->integer = reply->integer;
        snprintf(probe->text, sizeof probe->text, "%.*s", CDL_SLICE_ARG(reply->text));
    }
    if (probe->then != NULL)
        probe->then(probe);
}

void prepare(struct probe *probe, const char *key, int64_t deadline_ns)
{
    void (*then)(struct probe * probe) = probe->then;
    *probe = (struct probe){.then = then};
    snprintf(probe->key, sizeof probe->key, "%s", key);
    probe->words[0] = CDL_SLICE("1");
    probe->words[1] = cdl_slice_of(probe->key);
    probe->words[2] = CDL_SLICE("argument");
    probe->call.key = probe->words[1];
    static const struct cdl_redis_script script = {CDL_SLICE(SCRIPT), CDL_SLICE(SHA)};
    probe->call.script = &script;
    probe->call.words = probe->words;
    probe->call.word_count = 3;
    probe->call.deadline_ns = now() + deadline_ns;
    probe->call.done = on_done;
}

void hand_in(struct probe *probe)
{
    const bool outer = redis.in_call;
    redis.in_call = true;
    cdl_redis_client_call(redis.client, &probe->call);
    redis.in_call = outer;
}

void ask_for(struct probe *probe, const char *key, int64_t deadline_ns)
{
    prepare(probe, key, deadline_ns);
    hand_in(probe);
}

void ask(struct probe *probe, const char *key, int64_t deadline_ns)
{
    ask_for(probe, key, deadline_ns);
    cdl_redis_client_flush(redis.client);
    run();
}

void assert_done(const struct probe *probe, enum cdl_store_event event)
{
    assert_int_equal(probe->done, 1);
    if (probe->event != event)
        print_error("%s: %s, not %s\n", probe->key, cdl_store_event_name(probe->event), cdl_store_event_name(event));
    assert_int_equal(probe->event, event);
}

void assert_waits(const struct probe *probe)
{
    assert_int_equal(probe->done, 0);
}

uint64_t count_of(enum cdl_store_event event)
{
    return atomic_load(&redis.events.counts[event]);
}

/* ---- the whole ---- */

static void open_echo(void)
{
    struct server server = {.listener = -1};
    struct sockaddr_in address = {.sin_family = AF_INET};
    const int on = 1;
    server_open(&server);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(server.port);
    redis.echo[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(redis.echo[0], (struct sockaddr *)&address, sizeof address), 0);
    redis.echo[1] = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(redis.echo[1] >= 0);
    for (size_t i = 0; i < 2; i++)
        setsockopt(redis.echo[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(server.listener);
}

static void configure(unsigned servers)
{
    struct cdl_redis_config *config = &redis.config;
    *config = (struct cdl_redis_config){.seed_count = servers,
                                        .connect_timeout_ns = SECOND,
                                        .connections = 1,
                                        .in_flight = 64,
                                        .breaker = 3,
                                        .deadline_ns = 15 * MILLISECOND};
    for (unsigned i = 0; i < servers; i++) {
        snprintf(config->seeds[i].host, sizeof config->seeds[i].host, "127.0.0.1");
        config->seeds[i].port = redis.servers[i].port;
    }
    redis.shared = (struct cdl_redis_shared){
        .config = config,
        .events = &redis.events,
        .allocator = &redis.counting.allocator,
        .clock = caudal_fake_clock_clock(redis.clock),
    };
}

void redis_open(unsigned servers)
{
    memset(&redis, 0, sizeof redis);
    redis.clock = caudal_fake_clock_new(EPOCH);
    redis.alarm_ns = INT64_MAX;
    counting_allocator_init(&redis.counting);
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        struct server *server = &redis.servers[i];
        server->listener = -1;
        server->cut = SIZE_MAX;
        for (size_t j = 0; j < PEERS_MAX; j++)
            server->peers[j].fd = -1;
        if (i < servers)
            server_open(server);
    }
    open_echo();
    configure(servers);
}

bool redis_try_connect(void)
{
    const struct cdl_loop_hooks hooks = {NULL, watch, alarm_at, look_up, forget};
    redis.client = cdl_redis_client_open(&redis.shared, &hooks);
    run();
    return redis.client != NULL;
}

void redis_connect(void)
{
    assert_true(redis_try_connect());
}

void redis_close(void)
{
    cdl_redis_client_close(redis.client);
    redis.client = NULL;
    for (size_t i = 0; i < COUNT_OF(redis.watched); i++)
        assert_null(redis.watched[i].socket);
    assert_null(redis.looking);
    assert_int_equal(redis.alarm_ns, INT64_MAX);
    assert_int_equal(redis.counting.live_blocks, 0);
    for (size_t i = 0; i < SERVERS_MAX; i++)
        server_close(&redis.servers[i]);
    close(redis.echo[0]);
    close(redis.echo[1]);
    caudal_fake_clock_free(redis.clock);
}
