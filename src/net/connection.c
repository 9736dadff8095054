#include "net/connection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BUFFER_BYTES ((size_t)64 * 1024)
/* Answers of one turn. Memory that is not written to is not there, so a small server stays small. */
#define OUTPUT_BYTES ((size_t)1024 * 1024)
/* Answers that are sent together at the end of a turn, and the longest that is worth a copy. */
#define OUTGOING_BYTES ((size_t)256 * 1024)
#define OUTGOING_MAX ((size_t)16 * 1024)
/* How long what a client still sends is read and dropped after our last word. */
#define LINGER_MS 2000
/* Of connections that may be silent: after so long the kernel asks whether the peer is still there. */
#define KEEPALIVE_S 300

static void close_connection(struct cdl_connection *connection);
static void send_unheeded(struct cdl_connection *connection);

/* An instant of the loop's own clock, rounded up to its next step, so that nobody is hurried. */
static uint64_t this_moment(const struct cdl_loop *loop)
{
    return loop->now_ms + CDL_TICK_MS;
}

/* It is not to be heard any more. */
static void unlist_heard(struct cdl_connection *connection)
{
    struct cdl_connection **at = &connection->listener->loop->heard_next;
    while (connection->to_be_heard && *at != connection)
        at = &(*at)->next_heard;
    if (connection->to_be_heard)
        *at = connection->next_heard;
    connection->to_be_heard = false;
}

static void free_connection(struct cdl_connection *connection)
{
    cdl_tls_free(connection->tls);
    free(connection->kept);
    free(connection->unsent);
    free(connection->tail);
    free(connection);
}

static void on_closed(uv_handle_t *handle)
{
    struct cdl_connection *connection = handle->data;
    connection->closed = true;
    if (!connection->by_ring)
        free_connection(connection);
}

/* By the ring, which may know it longer than libuv, or not. */
static void on_freed(struct cdl_ring_socket *socket)
{
    struct cdl_connection *connection = socket->owner;
    connection->by_ring = false;
    if (connection->closed)
        free_connection(connection);
}

static void close_connection(struct cdl_connection *connection)
{
    if (connection->closing)
        return;
    connection->closing = true;
    struct cdl_loop *loop = connection->listener->loop;
    unlist_heard(connection);
    if (connection->listener->protocol->closed != NULL)
        connection->listener->protocol->closed(connection);
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        loop->connections = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    atomic_fetch_sub_explicit(&loop->open, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(loop->bounds.together, 1, memory_order_relaxed);
    if (!connection->by_ring && connection->socket.sending.length > 0)
        send_unheeded(connection);
    if (connection->by_ring && cdl_ring_leave(loop->ring, &connection->socket))
        on_freed(&connection->socket);
    uv_close(&connection->handle.any, on_closed);
}

/* ---- writing ---- */

static void start_reading(struct cdl_connection *connection);
static void stop_reading(struct cdl_connection *connection);
static void take_in(struct cdl_connection *connection, char *fresh, size_t length);
static void take_in_tls(struct cdl_connection *connection, struct cdl_slice fresh);

/* Whether something waits for the end of the turn, or for its reader. */
static bool is_sending(const struct cdl_connection *connection)
{
    return connection->unsent != NULL || connection->socket.sending.length > 0;
}

/* Whether the protocol may be given bytes: one answer at a time is on its way, and one message waits for its answer. */
static bool may_go_on(const struct cdl_connection *connection)
{
    return !connection->closing && !connection->finishing && !connection->waiting && !is_sending(connection);
}

/* What held the connection up is over: what has arrived meanwhile goes on, then more is read. */
static void go_on(struct cdl_connection *connection)
{
    connection->active_ms = this_moment(connection->listener->loop);
    connection->unheard = false;
    take_in(connection, NULL, 0);
    if (connection->tls != NULL && may_go_on(connection))
        take_in_tls(connection, (struct cdl_slice){NULL, 0});
    if (!may_go_on(connection))
        return;
    if (!connection->ended)
        start_reading(connection);
    else if (!connection->owing)
        close_connection(connection);
}

void cdl_connection_resume(struct cdl_connection *connection)
{
    connection->waiting = false;
    if (may_go_on(connection))
        go_on(connection);
}

static void hear(struct cdl_connection *connection)
{
    unlist_heard(connection);
    if (connection->waiting) {
        cdl_connection_resume(connection);
        return;
    }
    if (!may_go_on(connection) || connection->lingering) {
        connection->unheard = true; /* go_on comes */
        return;
    }
    take_in(connection, NULL, 0);
    if (may_go_on(connection) && connection->ended && !connection->owing)
        close_connection(connection);
}

static void hear_all(struct cdl_loop *loop)
{
    while (loop->heard_next != NULL)
        hear(loop->heard_next);
}

static void on_hearing(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    hear_all(idle->data);
}

void cdl_connection_flush(struct cdl_connection *connection)
{
    struct cdl_loop *loop = connection->listener->loop;
    if (connection->to_be_heard || connection->closing)
        return;
    connection->to_be_heard = true;
    connection->next_heard = loop->heard_next;
    loop->heard_next = connection;
    uv_idle_start(&loop->hearing, on_hearing);
}

void cdl_loop_flush(struct cdl_loop *loop)
{
    for (struct cdl_connection *connection = loop->connections, *next; connection != NULL; connection = next) {
        next = connection->next;
        if (connection->listener->protocol->out_of_turn)
            cdl_connection_flush(connection);
    }
}

/* All is written. Bytes that arrive at a socket that is closed make the kernel reset the connection, and a reset can overtake the
 * answer; so a client that is still sending is told the end of ours, and listened to for a little longer. */
static void finish(struct cdl_connection *connection)
{
    uv_os_fd_t fd;
    if (!connection->unread || uv_fileno(&connection->handle.any, &fd) != 0 || shutdown(fd, SHUT_WR) != 0) {
        close_connection(connection);
        return;
    }
    connection->lingering = true;
    connection->active_ms = this_moment(connection->listener->loop);
    start_reading(connection);
}

/* The peer has taken all there was. */
static void on_taken(struct cdl_connection *connection)
{
    if (connection->finishing)
        finish(connection);
    else if (may_go_on(connection))
        go_on(connection);
}

static void on_written(uv_write_t *write, int status)
{
    struct cdl_connection *connection = write->data;
    free(connection->unsent);
    connection->unsent = NULL;
    if (connection->closing)
        return;
    if (status < 0)
        close_connection(connection);
    else
        on_taken(connection);
}

/* Keeps what the peer did not take for when it does, and reads nothing until then. */
static void send_later(struct cdl_connection *connection, struct cdl_slice bytes)
{
    connection->unsent = malloc(bytes.length);
    if (connection->unsent == NULL) {
        close_connection(connection);
        return;
    }
    memcpy(connection->unsent, bytes.bytes, bytes.length);
    stop_reading(connection);
    connection->write.data = connection;
    uv_buf_t buffer = uv_buf_init(connection->unsent, (unsigned)bytes.length);
    if (uv_write(&connection->write, &connection->handle.stream, &buffer, 1, on_written) < 0)
        close_connection(connection);
}

/* The kernel took the first `sent` of them, or has an error. */
static void settle(struct cdl_connection *connection, ssize_t sent, struct cdl_slice bytes)
{
    if (sent == UV_EAGAIN)
        sent = 0;
    if (sent < 0)
        close_connection(connection);
    else if ((size_t)sent < bytes.length)
        send_later(connection, cdl_slice_from(bytes, (size_t)sent));
}

/* Without a ring. Small answers are sent one after the other at the end of the turn: kernel and program stay with one thing for a
 * while, and a client with several connections is woken for all of them. False: it is too long, or there is no room in this turn. */
static bool put_out(struct cdl_connection *connection, struct cdl_slice bytes)
{
    struct cdl_loop *loop = connection->listener->loop;
    if (connection->tls != NULL || bytes.length > OUTGOING_MAX || bytes.length > OUTGOING_BYTES - loop->outgoing_length)
        return false;
    char *copy = loop->outgoing + loop->outgoing_length;
    memcpy(copy, bytes.bytes, bytes.length);
    loop->outgoing_length += bytes.length;
    connection->socket.sending = (struct cdl_slice){copy, bytes.length};
    connection->next_sending = NULL;
    *loop->sending_last = connection;
    loop->sending_last = &connection->next_sending;
    return true;
}

static int send_now(struct cdl_connection *connection)
{
    const struct cdl_slice bytes = connection->socket.sending;
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes.bytes, (unsigned)bytes.length);
    connection->socket.sending.length = 0;
    return uv_try_write(&connection->handle.stream, &buffer, 1);
}

/* One that closes is not there any more at the end of the turn. */
static void send_unheeded(struct cdl_connection *connection)
{
    struct cdl_loop *loop = connection->listener->loop;
    struct cdl_connection **at = &loop->sending_first;
    while (*at != connection)
        at = &(*at)->next_sending;
    *at = connection->next_sending;
    if (*at == NULL)
        loop->sending_last = at;
    send_now(connection);
}

static void send_plain(struct cdl_connection *connection, struct cdl_slice bytes)
{
    if (bytes.length == 0 || connection->closing)
        return;
    if (connection->by_ring ? cdl_ring_send(connection->listener->loop->ring, &connection->socket, bytes)
                            : put_out(connection, bytes))
        return;
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes.bytes, (unsigned)bytes.length);
    settle(connection, uv_try_write(&connection->handle.stream, &buffer, 1), bytes);
}

/* At the end of the turn. For most nothing is left to do. */
static void after_sending(struct cdl_connection *connection, ssize_t sent, struct cdl_slice bytes)
{
    settle(connection, sent, bytes);
    if (connection->closing || connection->unsent != NULL)
        return;
    const bool is_held_up = connection->paused || connection->kept_length > 0 || connection->ended;
    if (is_held_up || connection->finishing || connection->unheard)
        on_taken(connection);
}

static void on_sent(struct cdl_ring_socket *socket, ssize_t sent, struct cdl_slice bytes)
{
    after_sending(socket->owner, sent, bytes);
}

/* Those that have more to say because of that say it now, too, as far as there is room. */
static void on_turn_end(uv_prepare_t *prepare)
{
    struct cdl_loop *loop = prepare->data;
    struct cdl_connection *connection;
    while ((connection = loop->sending_first) != NULL) {
        const struct cdl_slice bytes = connection->socket.sending;
        loop->sending_first = connection->next_sending;
        if (loop->sending_first == NULL)
            loop->sending_last = &loop->sending_first;
        after_sending(connection, send_now(connection), bytes);
    }
    loop->outgoing_length = 0;
}

/* All of what TLS has for the network, in one piece: a second piece could not wait behind a first. */
static void send_cipher(struct cdl_connection *connection)
{
    struct cdl_loop *loop = connection->listener->loop;
    size_t length = 0, got;
    while ((got = cdl_tls_drain(connection->tls, loop->cipher_buffer + length, 2 * OUTPUT_BYTES - length)) > 0)
        length += got;
    send_plain(connection, (struct cdl_slice){loop->cipher_buffer, length});
}

static void send_bytes(struct cdl_connection *connection, struct cdl_slice bytes)
{
    if (connection->tls == NULL) {
        send_plain(connection, bytes);
        return;
    }
    if (!cdl_tls_write(connection->tls, bytes))
        connection->finishing = true;
    if (connection->finishing)
        cdl_tls_shutdown(connection->tls);
    send_cipher(connection);
}

/* Output and tail in one piece. */
static void send_with_tail(struct cdl_connection *connection, struct cdl_slice output)
{
    char *whole = realloc(connection->tail, connection->tail_length + output.length);
    if (whole == NULL) {
        close_connection(connection);
        return;
    }
    memmove(whole + output.length, whole, connection->tail_length);
    memcpy(whole, output.bytes, output.length);
    const size_t length = connection->tail_length + output.length;
    connection->tail = NULL;
    connection->tail_length = 0;
    send_bytes(connection, (struct cdl_slice){whole, length});
    free(whole);
}

/* Nothing can be said behind an answer that is on its way yet: then it is let go without a word. */
static void give_up(struct cdl_connection *connection, bool too_long)
{
    if (is_sending(connection)) {
        close_connection(connection);
        return;
    }
    struct cdl_writer output = cdl_writer_on(connection->listener->loop->write_buffer, OUTPUT_BYTES);
    connection->finishing = connection->unread = true;
    connection->waiting = false;
    if (connection->listener->protocol->give_up != NULL)
        connection->listener->protocol->give_up(connection, too_long, &output);
    send_bytes(connection, cdl_written(&output));
    if (!connection->closing && !is_sending(connection))
        finish(connection);
}

/* ---- reading ---- */

/* Adds to the bytes that wait for more. False: the message is longer than it may be, or memory is short. */
static bool keep(struct cdl_connection *connection, struct cdl_slice bytes)
{
    const size_t most = connection->listener->protocol->kept_max;
    const size_t length = connection->kept_length + bytes.length;
    if (length > most + (connection->by_ring ? CDL_RING_POOL_BYTES : BUFFER_BYTES))
        return false;
    if (length > connection->kept_size) {
        size_t size = connection->kept_size == 0 ? 1024 : connection->kept_size;
        while (size < length)
            size *= 2;
        char *kept = realloc(connection->kept, size);
        if (kept == NULL)
            return false;
        connection->kept = kept;
        connection->kept_size = size;
    }
    if (bytes.length > 0)
        memcpy(connection->kept + connection->kept_length, bytes.bytes, bytes.length);
    connection->kept_length = length;
    return true;
}

static void forget_kept(struct cdl_connection *connection, size_t taken)
{
    connection->kept_length -= taken;
    if (connection->kept_length > 0) {
        memmove(connection->kept, connection->kept + taken, connection->kept_length);
        return;
    }
    free(connection->kept);
    connection->kept = NULL;
    connection->kept_size = 0;
}

/* Hands bytes to the protocol and sends its answers, until it takes no more. Returns what it took. */
static size_t serve(struct cdl_connection *connection, char *bytes, size_t length)
{
    struct cdl_loop *loop = connection->listener->loop;
    size_t taken = 0, step;
    do {
        struct cdl_writer output = cdl_writer_on(loop->write_buffer, OUTPUT_BYTES);
        bool finish = false;
        step = connection->listener->protocol->receive(connection, bytes + taken, length - taken, &output, &finish);
        taken += step;
        connection->finishing |= finish;
        if (connection->tail != NULL)
            send_with_tail(connection, cdl_written(&output));
        else
            send_bytes(connection, cdl_written(&output));
    } while (step > 0 && taken < length && may_go_on(connection));
    connection->unread |= connection->finishing && taken < length;
    if (connection->finishing && !connection->closing && !is_sending(connection))
        finish(connection);
    return taken;
}

/* Bytes of the protocol have arrived (or, with none, the peer has taken an answer and those that are kept can go on: the time that
 * they spent waiting for that was not the message's). */
static void take_in(struct cdl_connection *connection, char *fresh, size_t length)
{
    const bool all_fresh = connection->kept_length == 0;
    bool fits = all_fresh || keep(connection, (struct cdl_slice){fresh, length});
    size_t taken = 0;
    if (fits && ((all_fresh ? length : connection->kept_length) > 0 || connection->listener->protocol->out_of_turn))
        taken = all_fresh ? serve(connection, fresh, length)
                          : serve(connection, connection->kept, connection->kept_length);
    if (connection->closing || connection->lingering)
        return;
    if (!all_fresh)
        forget_kept(connection, taken);
    else if (taken < length)
        fits = keep(connection, (struct cdl_slice){fresh + taken, length - taken});

    struct cdl_loop *loop = connection->listener->loop;
    if (connection->kept_length == 0) {
        connection->message_began_ms = 0;
        connection->message_timeout_ms = loop->bounds.message_timeout_ms;
    } else if (taken > 0 || length == 0 || connection->message_began_ms == 0) {
        connection->message_began_ms = this_moment(loop);
    }
    const bool stuck = may_go_on(connection) && connection->kept_length > connection->listener->protocol->kept_max;
    if (!fits || stuck)
        give_up(connection, true);
    else if (connection->waiting && connection->kept_length > connection->listener->protocol->kept_max)
        stop_reading(connection); /* there is no room for one read more */
}

/* As with plain bytes, nothing more is taken in while an answer waits for the peer: it could not wait behind the first. */
static void take_in_tls(struct cdl_connection *connection, struct cdl_slice fresh)
{
    struct cdl_loop *loop = connection->listener->loop;
    int got = cdl_tls_feed(connection->tls, fresh) ? 0 : -1;
    /* What is not decrypted now waits in there until the peer has taken its answer. */
    while (got >= 0 && may_go_on(connection) &&
           (got = cdl_tls_read(connection->tls, loop->plain_buffer, BUFFER_BYTES)) > 0)
        take_in(connection, loop->plain_buffer, (size_t)got);
    if (connection->closing || connection->lingering)
        return;
    if (connection->unsent == NULL)
        send_cipher(connection); /* the handshake's */
    if (got < 0)
        close_connection(connection);
    else if (connection->message_began_ms == 0 && cdl_tls_is_midway(connection->tls))
        connection->message_began_ms = this_moment(loop); /* a handshake or a record is a message, too */
    else if (connection->kept_length == 0 && !cdl_tls_is_midway(connection->tls))
        connection->message_began_ms = 0;
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)suggested;
    struct cdl_connection *connection = handle->data;
    *buffer = uv_buf_init(connection->listener->loop->read_buffer, BUFFER_BYTES);
}

/* Bytes that cannot be looked at now. Most clients are silent until they are answered, so reading goes on until one is not: to stop and
 * to start it costs two system calls. What waits for the end of the turn only does not stop it while there is room. */
static void hold(struct cdl_connection *connection, struct cdl_slice bytes)
{
    const size_t most = connection->listener->protocol->kept_max;
    if (connection->waiting || connection->kept_length + bytes.length > most)
        stop_reading(connection);
    const bool fits = connection->tls != NULL ? cdl_tls_feed(connection->tls, bytes) : keep(connection, bytes);
    if (!fits)
        close_connection(connection);
}

/* Bytes from the network, or a negative libuv error. */
static void hear_peer(struct cdl_connection *connection, ssize_t got, char *bytes)
{
    if (got == UV_EOF && (connection->waiting || connection->owing || is_sending(connection))) {
        connection->ended = true;
        return;
    }
    if (got < 0) {
        close_connection(connection);
        return;
    }
    if (got == 0 || connection->lingering)
        return;
    if (connection->finishing) {
        connection->unread = true;
        return;
    }
    const struct cdl_slice fresh = {bytes, (size_t)got};
    if (connection->unsent == NULL)
        connection->active_ms = this_moment(connection->listener->loop);
    if (connection->waiting || is_sending(connection))
        hold(connection, fresh);
    else if (connection->tls != NULL)
        take_in_tls(connection, fresh);
    else
        take_in(connection, bytes, fresh.length);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    hear_peer(stream->data, got, buffer->base);
}

static void on_received(struct cdl_ring_socket *socket, ssize_t got, char *bytes)
{
    hear_peer(socket->owner, got == 0 ? UV_EOF : got, bytes);
}

static void start_reading(struct cdl_connection *connection)
{
    connection->paused = false;
    if (connection->by_ring) {
        cdl_ring_receive(connection->listener->loop->ring, &connection->socket);
        return;
    }
    const int error = uv_read_start(&connection->handle.stream, on_allocate, on_read);
    if (error < 0 && error != UV_EALREADY)
        close_connection(connection);
}

static void stop_reading(struct cdl_connection *connection)
{
    connection->paused = true;
    if (connection->by_ring)
        cdl_ring_pause(connection->listener->loop->ring, &connection->socket);
    else
        uv_read_stop(&connection->handle.stream);
}

/* A connection that was accepted, and is plain. */
static void choose_ring(struct cdl_connection *connection)
{
    uv_os_fd_t fd;
    if (connection->listener->loop->ring == NULL || uv_fileno(&connection->handle.any, &fd) != 0)
        return;
    connection->socket.owner = connection;
    connection->socket.fd = fd;
    connection->by_ring = true;
}

/* ---- accepting ---- */

static bool is_pipe(const struct cdl_listener *listener)
{
    return listener->handle.any.type == UV_NAMED_PIPE;
}

static int accept_on(struct cdl_listener *listener, struct cdl_connection *connection)
{
    struct cdl_loop *loop = listener->loop;
    int error = is_pipe(listener) ? uv_pipe_init(&loop->uv, &connection->handle.pipe, 0)
                                  : uv_tcp_init(&loop->uv, &connection->handle.tcp);
    connection->handle.any.data = connection;
    if (error == 0)
        error = uv_accept(&listener->handle.stream, &connection->handle.stream);
    if (error != 0 || is_pipe(listener)) {
        connection->peer.ss_family = AF_UNIX;
        return error;
    }
    /* A peer that has reset the connection meanwhile has no address any more, but what it sent could still be read: it must not
     * pass for a Unix socket's, which is trusted. */
    int length = sizeof connection->peer;
    error = uv_tcp_getpeername(&connection->handle.tcp, (struct sockaddr *)&connection->peer, &length);
    if (error == 0 && listener->protocol->may_be_idle)
        error = uv_tcp_keepalive(&connection->handle.tcp, 1, KEEPALIVE_S);
    return error != 0 ? error : uv_tcp_nodelay(&connection->handle.tcp, 1);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct cdl_listener *listener = stream->data;
    struct cdl_loop *loop = listener->loop;
    if (status < 0)
        return;
    struct cdl_connection *connection = calloc(1, sizeof *connection + listener->protocol->state_bytes);
    if (connection == NULL) {
        /* libuv accepts no more until this one is taken over, so we have to come back. */
        listener->next_starved = loop->starved;
        loop->starved = listener;
        return;
    }
    connection->state = connection + 1;
    connection->listener = listener;
    connection->active_ms = this_moment(loop);
    connection->message_timeout_ms = loop->bounds.message_timeout_ms;
    const int error = accept_on(listener, connection);
    connection->next = loop->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    loop->connections = connection;
    atomic_fetch_add_explicit(&loop->open, 1, memory_order_relaxed);
    const uint64_t open = atomic_fetch_add_explicit(loop->bounds.together, 1, memory_order_relaxed) + 1;
    if (listener->tls != NULL)
        connection->tls = cdl_tls_new(listener->tls);
    if (error != 0 || open > loop->bounds.connections_max || (listener->tls != NULL && connection->tls == NULL)) {
        atomic_fetch_add_explicit(&loop->rejected, 1, memory_order_relaxed);
        close_connection(connection);
        return;
    }
    atomic_fetch_add_explicit(&loop->accepted, 1, memory_order_relaxed);
    if (listener->tls == NULL)
        choose_ring(connection);
    start_reading(connection);
}

int cdl_listener_open(struct cdl_listener *listener, struct cdl_loop *loop, int fd, const struct cdl_protocol *protocol,
                      struct cdl_tls_context *tls, void *context)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return UV_EBADF;
    *listener = (struct cdl_listener){.loop = loop, .protocol = protocol, .tls = tls, .context = context};
    int error = address.ss_family == AF_UNIX ? uv_pipe_init(&loop->uv, &listener->handle.pipe, 0)
                                             : uv_tcp_init(&loop->uv, &listener->handle.tcp);
    if (error == 0)
        error = address.ss_family == AF_UNIX ? uv_pipe_open(&listener->handle.pipe, fd)
                                             : uv_tcp_open(&listener->handle.tcp, fd);
    listener->handle.any.data = listener;
    listener->next = loop->listeners;
    loop->listeners = listener;
    return error == 0 ? uv_listen(&listener->handle.stream, 1024, on_connection) : error;
}

void cdl_listener_close(struct cdl_listener *listener)
{
    if (!uv_is_closing(&listener->handle.any))
        uv_close(&listener->handle.any, NULL);
}

/* ---- the loop ---- */

/* The loop's clock takes small steps only: when this process was kept waiting, what its clients have sent meanwhile lies unread in
 * the kernel, and the time is not theirs to answer for. */
static void step_clock(struct cdl_loop *loop)
{
    const uint64_t now_ms = uv_now(&loop->uv), passed_ms = now_ms - loop->stepped_at_ms;
    const uint64_t most_ms = UINT64_C(2) * CDL_TICK_MS;
    loop->now_ms += passed_ms < most_ms ? passed_ms : most_ms;
    loop->stepped_at_ms = now_ms;
}

static bool is_over(const struct cdl_loop *loop, uint64_t since_ms, uint64_t timeout_ms)
{
    return loop->now_ms > since_ms + timeout_ms;
}

static void check_time(struct cdl_connection *connection)
{
    struct cdl_loop *loop = connection->listener->loop;
    const struct cdl_connection_bounds *bounds = &loop->bounds;
    if (connection->waiting && connection->unsent == NULL)
        return; /* for us */
    if (connection->lingering) {
        if (is_over(loop, connection->active_ms, LINGER_MS))
            close_connection(connection);
        return;
    }
    const bool message_late = !is_sending(connection) && connection->message_began_ms != 0 &&
                              is_over(loop, connection->message_began_ms, connection->message_timeout_ms);
    const bool reader_late = connection->unsent != NULL &&
                             is_over(loop, connection->active_ms, bounds->write_timeout_ms);
    const struct cdl_protocol *protocol = connection->listener->protocol;
    const bool idle = !protocol->may_be_idle && !connection->owing &&
                      is_over(loop, connection->active_ms, bounds->idle_timeout_ms);
    if (!message_late && !reader_late && !idle)
        return;
    atomic_fetch_add_explicit(&loop->timed_out, 1, memory_order_relaxed);
    if (message_late || (protocol->tells_the_silent && !is_sending(connection)))
        give_up(connection, false);
    else
        close_connection(connection);
}

/* Takes over the connections for which there was no memory. */
static void feed_starved(struct cdl_loop *loop)
{
    struct cdl_listener *listener = loop->starved;
    loop->starved = NULL;
    for (struct cdl_listener *next; listener != NULL; listener = next) {
        next = listener->next_starved;
        if (!uv_is_closing(&listener->handle.any))
            on_connection(&listener->handle.stream, 0);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct cdl_loop *loop = timer->data;
    feed_starved(loop);
    step_clock(loop);
    for (struct cdl_connection *connection = loop->connections, *next; connection != NULL; connection = next) {
        next = connection->next;
        check_time(connection);
    }
    if (loop->on_tick != NULL)
        loop->on_tick(loop);
}

static void on_wake(uv_async_t *async)
{
    struct cdl_loop *loop = async->data;
    if (loop->on_wake != NULL)
        loop->on_wake(loop);
}

bool cdl_loop_open(struct cdl_loop *loop, const struct cdl_connection_bounds *bounds)
{
    *loop = (struct cdl_loop){.bounds = *bounds};
    if (loop->bounds.together == NULL)
        loop->bounds.together = &loop->alone;
    if (uv_loop_init(&loop->uv) != 0)
        return false;
    loop->read_buffer = malloc(BUFFER_BYTES);
    loop->plain_buffer = malloc(BUFFER_BYTES);
    loop->write_buffer = malloc(OUTPUT_BYTES);
    loop->cipher_buffer = malloc(2 * OUTPUT_BYTES);
    loop->outgoing = malloc(OUTGOING_BYTES);
    loop->sending_last = &loop->sending_first;
    if (loop->outgoing == NULL || loop->read_buffer == NULL || loop->plain_buffer == NULL ||
        loop->write_buffer == NULL || loop->cipher_buffer == NULL || uv_timer_init(&loop->uv, &loop->tick) != 0 ||
        uv_idle_init(&loop->uv, &loop->hearing) != 0 || uv_async_init(&loop->uv, &loop->wake, on_wake) != 0) {
        cdl_loop_close(loop);
        return false;
    }
    loop->tick.data = loop;
    loop->wake.data = loop;
    loop->hearing.data = loop;
    loop->turn_end.data = loop;
    uv_prepare_init(&loop->uv, &loop->turn_end); /* cannot fail, nor can to start it */
    uv_prepare_start(&loop->turn_end, on_turn_end);
    loop->stepped_at_ms = uv_now(&loop->uv);
    uv_timer_start(&loop->tick, on_tick, CDL_TICK_MS, CDL_TICK_MS);
    static const struct cdl_ring_calls calls = {on_received, on_sent, on_freed};
    loop->ring_error = cdl_ring_open(&loop->ring, &calls, uv_backend_fd(&loop->uv));
    return true;
}

/* With a ring it is the ring that waits, for libuv's descriptors, too. */
bool cdl_loop_turn(struct cdl_loop *loop, bool waits)
{
    if (loop->ring == NULL)
        return uv_run(&loop->uv, waits ? UV_RUN_ONCE : UV_RUN_NOWAIT) != 0;
    if (uv_run(&loop->uv, UV_RUN_NOWAIT) == 0)
        return false;
    cdl_ring_turn(loop->ring, waits ? uv_backend_timeout(&loop->uv) : 0);
    return true;
}

void cdl_loop_run(struct cdl_loop *loop)
{
    while (cdl_loop_turn(loop, true)) {
    }
    cdl_ring_drain(loop->ring);
}

void cdl_loop_wake(struct cdl_loop *loop)
{
    uv_async_send(&loop->wake);
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void cdl_loop_quiesce(struct cdl_loop *loop)
{
    for (struct cdl_listener *listener = loop->listeners; listener != NULL; listener = listener->next)
        cdl_listener_close(listener);
    hear_all(loop); /* the last words of those that are closed now */
    for (struct cdl_connection *connection = loop->connections, *next; connection != NULL; connection = next) {
        next = connection->next;
        if (!connection->waiting && !connection->owing)
            close_connection(connection);
    }
}

void cdl_loop_finish(struct cdl_loop *loop)
{
    hear_all(loop); /* last words */
    while (loop->connections != NULL)
        close_connection(loop->connections);
    uv_walk(&loop->uv, close_handle, NULL);
}

void cdl_loop_close(struct cdl_loop *loop)
{
    uv_loop_close(&loop->uv);
    cdl_ring_close(loop->ring);
    free(loop->read_buffer);
    free(loop->plain_buffer);
    free(loop->write_buffer);
    free(loop->cipher_buffer);
    free(loop->outgoing);
}
