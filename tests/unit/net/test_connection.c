/* Connections on loopback: slow readers, clients that go on talking after our last word, clients that are gone before they are
 * accepted, and the same through TLS. The clients and the loop take turns in one thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "../support.h"
#include "net/connection.h"
#include "net/listen.h"

/* ---- a protocol: a letter asks for ANSWER_BYTES of it, '(' begins a message that ')' ends, '!' is the last, and what a capital letter
 * asks for comes when the test says so ---- */

#define ANSWER_BYTES 100000u
#define KEPT_MAX 1000u

static unsigned calls; /* of receive, with bytes */

static void answer(struct cdl_writer *output, char letter)
{
    memset(output->bytes + output->length, letter, ANSWER_BYTES);
    output->length += ANSWER_BYTES;
}

static struct cdl_connection *waiting; /* the last that waits */
static bool is_there;                  /* what it waits for */
static bool resumes_at_once;           /* while a client reads */
static unsigned gone;                  /* connections that were closed */

/* Whether a letter has to wait. */
static bool waits(struct cdl_connection *connection, char letter)
{
    if (letter < 'A' || letter > 'Z')
        return false;
    if (is_there) {
        is_there = false;
        return false;
    }
    waiting = connection;
    connection->waiting = true;
    return true;
}

static void on_left(struct cdl_connection *connection)
{
    if (waiting == connection)
        waiting = NULL;
    gone++;
}

static size_t receive(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      bool *finish)
{
    size_t taken = 0;
    calls++;
    while (taken < length && !*finish && output->size - output->length >= ANSWER_BYTES) {
        if (bytes[taken] == '(') {
            const char *end = memchr(bytes + taken, ')', length - taken);
            if (end == NULL)
                break;
            taken = (size_t)(end - bytes);
        }
        if (waits(connection, bytes[taken]))
            break;
        *finish = bytes[taken] == '!';
        answer(output, bytes[taken++]);
    }
    return taken;
}

static void give_up(struct cdl_connection *connection, bool too_long, struct cdl_writer *output)
{
    (void)connection;
    cdl_write_text(output, too_long ? "too long" : "too late");
}

static const struct cdl_protocol protocol = {
    .kept_max = KEPT_MAX, .receive = receive, .give_up = give_up, .closed = on_left};

/* One that answers out of turn: it takes everything, and says what the test has put down. */

static const char *unasked; /* NULL: nothing */
static unsigned heard;      /* calls */
static struct cdl_connection *talkative;

static size_t receive_all(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                          bool *finish)
{
    (void)bytes, (void)finish;
    heard++;
    talkative = connection;
    if (unasked != NULL)
        cdl_write_text(output, unasked);
    unasked = NULL;
    return length;
}

static const struct cdl_protocol out_of_turn = {
    .out_of_turn = true, .kept_max = KEPT_MAX, .receive = receive_all, .closed = on_left};

/* ---- the loop and its clients ---- */

struct bed {
    struct cdl_loop loop;
    struct cdl_listener listener;
    uint16_t port;
};

static struct bed bed;
static const struct cdl_connection_bounds patient = {
    .connections_max = 100, .message_timeout_ms = 60000, .write_timeout_ms = 60000, .idle_timeout_ms = 60000};

static void open_bed(const struct cdl_connection_bounds *bounds, struct cdl_tls_context *tls)
{
    struct cdl_endpoint endpoint;
    struct cdl_listening socket;
    const char *why;
    calls = gone = 0;
    waiting = NULL;
    is_there = resumes_at_once = false;
    assert_true(cdl_endpoint_parse(CDL_SLICE("127.0.0.1:0"), &endpoint, &why));
    assert_int_equal(cdl_listen(&endpoint, &socket, 1, NULL), CAUDAL_OK);
    bed.port = (uint16_t)atoi(strrchr(socket.text, ':') + 1);
    assert_true(cdl_loop_open(&bed.loop, bounds));
    assert_int_equal(cdl_listener_open(&bed.listener, &bed.loop, socket.fd, &protocol, tls, NULL), 0);
}

static void open_out_of_turn(void)
{
    open_bed(&patient, NULL);
    bed.listener.protocol = &out_of_turn;
    talkative = NULL;
    unasked = NULL;
}

static void turn(void)
{
    cdl_loop_turn(&bed.loop, false);
}

static uint64_t open_connections(void)
{
    return atomic_load(&bed.loop.open);
}

static void close_bed(void)
{
    cdl_loop_finish(&bed.loop);
    cdl_loop_run(&bed.loop);
    assert_int_equal(open_connections(), 0);
    assert_int_equal(uv_loop_alive(&bed.loop.uv), 0);
    cdl_loop_close(&bed.loop);
}

/* A client with small buffers, so that a slow one is slow at once. */
static int connect_client(void)
{
    const int size = 4096, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(bed.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void reset_client(int fd)
{
    const struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

#define PATIENCE 2000000 /* turns; a test that fails must end */

/* Turns until some connection waits. */
static void until_one_waits(void)
{
    for (unsigned i = 0; i < PATIENCE && waiting == NULL; i++)
        turn();
    assert_non_null(waiting);
}

static void resume(void)
{
    struct cdl_connection *connection = waiting;
    waiting = NULL;
    is_there = true;
    cdl_connection_resume(connection);
}

/* Reads until `wanted` bytes or the end; how many there were. Each byte must be the next of `letters` that is due. */
static size_t read_answers(int fd, const char *letters, size_t wanted)
{
    static char buffer[65536];
    size_t got = 0;
    for (unsigned i = 0; i < PATIENCE && got < wanted; i++) {
        const ssize_t length = recv(fd, buffer, sizeof buffer, 0);
        if (length == 0)
            break;
        for (ssize_t at = 0; at < length; at++, got++)
            if (buffer[at] != letters[got / ANSWER_BYTES])
                fail_msg("byte %zu is '%c', not '%c'", got, buffer[at], letters[got / ANSWER_BYTES]);
        turn();
    }
    return got;
}

/* What comes until the end; fails when the connection is reset. */
static const char *read_end(int fd)
{
    static char text[256];
    size_t length = 0;
    for (unsigned i = 0; i < PATIENCE; i++) {
        const ssize_t got = recv(fd, text + length, sizeof text - 1 - length, 0);
        if (got == 0)
            break;
        assert_true(got > 0 || errno == EAGAIN);
        length += got > 0 ? (size_t)got : 0;
        cdl_loop_turn(&bed.loop, got <= 0);
    }
    text[length] = '\0';
    return text;
}

/* ---- plain ---- */

static void answers_wait_for_a_slow_reader_in_order(void **state)
{
    (void)state;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    open_bed(&patient, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, letters, 52, 0), 52);
    for (int i = 0; i < 100; i++)
        turn();
    assert_true(calls < 10); /* nobody answers ahead of a reader */
    assert_int_equal(read_answers(fd, letters, 52 * ANSWER_BYTES), 52 * ANSWER_BYTES);
    close(fd);
    close_bed();
}

static void a_message_that_is_too_long_is_told_so_while_it_still_comes(void **state)
{
    (void)state;
    static char endless[200000];
    memset(endless, '(', sizeof endless);
    open_bed(&patient, NULL);
    const int fd = connect_client();
    size_t sent = 0;
    for (unsigned i = 0; i < PATIENCE && sent < sizeof endless; i++) {
        const ssize_t length = send(fd, endless + sent, sizeof endless - sent, MSG_NOSIGNAL);
        assert_true(length > 0 || errno == EAGAIN); /* not EPIPE, not ECONNRESET */
        sent += length > 0 ? (size_t)length : 0;
        turn();
    }
    assert_int_equal(sent, sizeof endless);
    assert_string_equal(read_end(fd), "too long");
    close(fd);
    for (unsigned i = 0; i < PATIENCE && open_connections() > 0; i++)
        turn();
    close_bed();
}

static void a_client_that_talks_on_after_the_last_answer_gets_it_whole(void **state)
{
    (void)state;
    open_bed(&patient, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, "ab!cd", 5, 0), 5);
    assert_int_equal(read_answers(fd, "ab!", 4 * ANSWER_BYTES), 3 * ANSWER_BYTES);
    close(fd);
    close_bed();
}

static void half_a_message_has_its_time(void **state)
{
    (void)state;
    const struct cdl_connection_bounds hasty = {
        .connections_max = 100, .message_timeout_ms = 1, .write_timeout_ms = 60000, .idle_timeout_ms = 60000};
    open_bed(&hasty, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, "(", 1, 0), 1);
    assert_string_equal(read_end(fd), "too late");
    assert_int_equal(atomic_load(&bed.loop.timed_out), 1);
    close(fd);
    close_bed();
}

/* As after SIGSTOP, or on a machine with too much to do: what clients sent meanwhile lies in the kernel. */
static void time_in_which_the_loop_stood_still_is_not_the_clients(void **state)
{
    (void)state;
    open_bed(&patient, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, "(", 1, 0), 1);
    while (calls == 0)
        turn();
    bed.loop.stepped_at_ms -= 3600 * 1000;
    const uint64_t before_ms = bed.loop.now_ms;
    while (bed.loop.now_ms == before_ms)
        cdl_loop_turn(&bed.loop, true);
    assert_int_equal(open_connections(), 1);
    assert_int_equal(atomic_load(&bed.loop.timed_out), 0);
    close(fd);
    close_bed();
}

/* What it sent could still be read, but nobody knows from whom it came. */
static void a_client_that_was_reset_before_it_was_accepted_is_not_heard(void **state)
{
    (void)state;
    open_bed(&patient, NULL);
    for (int i = 0; i < 3; i++) {
        const int fd = connect_client();
        assert_int_equal(send(fd, "abc", 3, 0), 3);
        reset_client(fd);
    }
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(calls, 0);
    assert_int_equal(atomic_load(&bed.loop.accepted), 0);
    assert_int_equal(atomic_load(&bed.loop.rejected), 3);
    assert_int_equal(open_connections(), 0);
    close_bed();
}

static void clients_that_vanish_in_the_middle_leave_nothing(void **state)
{
    (void)state;
    open_bed(&patient, NULL);
    for (int i = 0; i < 50; i++) {
        const int fd = connect_client();
        assert_true(send(fd, "abcdefgh(", 9, 0) == 9);
        for (int n = 0; n < i % 5; n++)
            turn();
        reset_client(fd);
    }
    for (unsigned i = 0; i < PATIENCE && open_connections() > 0; i++)
        turn();
    assert_int_equal(open_connections(), 0);
    close_bed();
}

static void more_connections_than_allowed_are_turned_away(void **state)
{
    (void)state;
    const struct cdl_connection_bounds few = {
        .connections_max = 2, .message_timeout_ms = 60000, .write_timeout_ms = 60000, .idle_timeout_ms = 60000};
    int clients[5];
    open_bed(&few, NULL);
    for (int i = 0; i < 5; i++)
        clients[i] = connect_client();
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(atomic_load(&bed.loop.accepted), 2);
    assert_int_equal(atomic_load(&bed.loop.rejected), 3);
    for (int i = 0; i < 5; i++)
        close(clients[i]);
    close_bed();
}

/* ---- answers that come later ---- */

static void what_is_behind_a_message_that_waits_is_answered_after_it(void **state)
{
    (void)state;
    open_bed(&patient, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, "aBcDe", 5, 0), 5);
    until_one_waits();
    assert_int_equal(read_answers(fd, "a", ANSWER_BYTES), ANSWER_BYTES); /* what is before it has not waited */
    assert_int_equal(send(fd, "fGh", 3, 0), 3);
    const unsigned calls_before = calls;
    for (int i = 0; i < 100; i++)
        turn();
    assert_int_equal(calls, calls_before);
    for (int i = 0; i < 3; i++) {
        until_one_waits();
        resume();
    }
    assert_int_equal(read_answers(fd, "BcDefGh", 7 * ANSWER_BYTES), 7 * ANSWER_BYTES);
    assert_int_equal(send(fd, "i", 1, 0), 1);
    assert_int_equal(read_answers(fd, "i", ANSWER_BYTES), ANSWER_BYTES);
    close(fd);
    close_bed();
}

/* Its answer is there while those before it have not been taken. */
static void a_message_that_waits_behind_a_slow_reader_is_answered_once(void **state)
{
    (void)state;
    const int size = 4096;
    uv_os_fd_t listening;
    open_bed(&patient, NULL);
    assert_int_equal(uv_fileno(&bed.listener.handle.any, &listening), 0);
    assert_int_equal(setsockopt(listening, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0); /* inherited */
    const int fd = connect_client();
    assert_int_equal(send(fd, "abcdefghZi", 10, 0), 10);
    until_one_waits();
    assert_non_null(waiting->unsent);
    resume();
    assert_int_equal(read_answers(fd, "abcdefghZi", 10 * ANSWER_BYTES), 10 * ANSWER_BYTES);
    close(fd);
    close_bed();
}

static void a_message_that_waits_is_not_late_and_its_connection_not_idle(void **state)
{
    (void)state;
    const struct cdl_connection_bounds hasty = {
        .connections_max = 100, .message_timeout_ms = 1, .write_timeout_ms = 60000, .idle_timeout_ms = 1};
    open_bed(&hasty, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, "A", 1, 0), 1);
    until_one_waits();
    for (int i = 0; i < 3; i++) {
        const uint64_t before_ms = bed.loop.now_ms;
        while (bed.loop.now_ms == before_ms)
            cdl_loop_turn(&bed.loop, true);
    }
    assert_int_equal(atomic_load(&bed.loop.timed_out), 0);
    resume();
    assert_int_equal(read_answers(fd, "A", ANSWER_BYTES), ANSWER_BYTES);
    assert_string_equal(read_end(fd), ""); /* now it is idle */
    assert_int_equal(atomic_load(&bed.loop.timed_out), 1);
    close(fd);
    close_bed();
}

static void a_client_that_has_said_its_last_word_still_gets_its_answers(void **state)
{
    (void)state;
    open_bed(&patient, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, "AbC", 3, 0), 3);
    until_one_waits();
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    for (int i = 0; i < 100; i++)
        turn();
    resume();
    until_one_waits();
    resume();
    assert_int_equal(read_answers(fd, "AbC", 4 * ANSWER_BYTES), 3 * ANSWER_BYTES); /* and then the end */
    assert_int_equal(open_connections(), 0);
    close(fd);
    close_bed();
}

static void a_client_that_vanishes_while_it_waits_is_let_go(void **state)
{
    (void)state;
    open_bed(&patient, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, "AbC", 3, 0), 3);
    until_one_waits();
    reset_client(fd);
    for (unsigned i = 0; i < PATIENCE && open_connections() > 0; i++)
        turn();
    assert_int_equal(gone, 1);
    assert_null(waiting);
    close_bed();
}

static void a_client_that_talks_on_while_it_waits_is_kept_waiting(void **state)
{
    (void)state;
    static char endless[4000000];
    memset(endless, '(', sizeof endless);
    open_bed(&patient, NULL);
    const int fd = connect_client();
    assert_int_equal(send(fd, "A", 1, 0), 1);
    until_one_waits();
    size_t sent = 0;
    for (unsigned i = 0, silent = 0; silent < 1000 && sent < sizeof endless; i++) {
        const ssize_t length = send(fd, endless + sent, sizeof endless - sent, MSG_NOSIGNAL);
        assert_true(length > 0 || errno == EAGAIN);
        sent += length > 0 ? (size_t)length : 0;
        silent = length > 0 ? 0 : silent + 1;
        turn();
    }
    assert_true(waiting->kept_length <= KEPT_MAX + (bed.loop.ring != NULL ? CDL_RING_POOL_BYTES : 65536));
    resume();
    size_t got = 0;
    for (unsigned i = 0; i < PATIENCE && got < ANSWER_BYTES; i++) {
        const ssize_t length = recv(fd, endless, ANSWER_BYTES - got, 0);
        got += length > 0 ? (size_t)length : 0;
        turn();
    }
    assert_int_equal(got, ANSWER_BYTES);
    assert_string_equal(read_end(fd), "too long");
    close(fd);
    for (unsigned i = 0; i < PATIENCE && open_connections() > 0; i++)
        turn();
    close_bed();
}

static void C100_what_waits_is_answered_before_the_loop_ends(void **state)
{
    (void)state;
    open_bed(&patient, NULL);
    const int idle = connect_client(), asking = connect_client();
    assert_int_equal(send(asking, "A", 1, 0), 1);
    until_one_waits();
    while (open_connections() < 2)
        turn();
    cdl_loop_quiesce(&bed.loop);
    assert_int_equal(open_connections(), 1);
    assert_string_equal(read_end(idle), "");
    cdl_loop_quiesce(&bed.loop);
    resume();
    assert_int_equal(read_answers(asking, "A", ANSWER_BYTES), ANSWER_BYTES);
    close(idle);
    close(asking);
    close_bed();
}

/* ---- TLS ---- */

static char certificate_file[] = "/tmp/caudal-test-XXXXXX", key_file[] = "/tmp/caudal-test-XXXXXX";

/* A certificate of our own, which is also its authority. */
static void make_certificate(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_set_version(certificate, 2);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, (const unsigned char *)"test",
                               -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    FILE *file = fdopen(mkstemp(certificate_file), "w");
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    fclose(file);
    file = fdopen(mkstemp(key_file), "w");
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static int setup_tls(void **state)
{
    (void)state;
    make_certificate();
    return 0;
}

static int teardown_tls(void **state)
{
    (void)state;
    unlink(certificate_file);
    unlink(key_file);
    return 0;
}

static struct cdl_tls_context *tls_context_of(const char *client_ca, const char *application)
{
    struct caudal_problem problem;
    const struct cdl_tls_files files = {certificate_file, key_file, client_ca, application};
    struct cdl_tls_context *context = cdl_tls_context_new(&files, &problem);
    if (context == NULL)
        fail_msg("%s", problem.message);
    return context;
}

static struct cdl_tls_context *tls_context(const char *client_ca)
{
    return tls_context_of(client_ca, NULL);
}

/* Calls `step` in turns with the loop until it is done or fails for good. */
static int with_turns(SSL *ssl, int (*step)(SSL *ssl))
{
    int result = -1;
    for (unsigned i = 0; i < PATIENCE && (result = step(ssl)) != 1; i++) {
        if (SSL_get_error(ssl, result) != SSL_ERROR_WANT_READ && SSL_get_error(ssl, result) != SSL_ERROR_WANT_WRITE)
            break;
        turn();
    }
    return result;
}

static size_t read_tls_answers(SSL *ssl, const char *letters, size_t wanted)
{
    static char buffer[16384];
    size_t got = 0;
    for (unsigned i = 0; i < PATIENCE && got < wanted; i++) {
        const int length = SSL_read(ssl, buffer, sizeof buffer);
        if (length <= 0 && SSL_get_error(ssl, length) != SSL_ERROR_WANT_READ)
            break;
        for (int at = 0; at < length; at++, got++)
            if (buffer[at] != letters[got / ANSWER_BYTES])
                fail_msg("byte %zu is '%c', not '%c'", got, buffer[at], letters[got / ANSWER_BYTES]);
        turn();
        if (resumes_at_once && waiting != NULL)
            resume();
    }
    return got;
}

/* Many records lie in one read: what is behind the first must wait until its answer has been taken. */
/* A client whose connection has been heard. */
static int connect_talkative(void)
{
    talkative = NULL;
    const int fd = connect_client();
    assert_int_equal(send(fd, "x", 1, 0), 1);
    for (unsigned i = 0; i < PATIENCE && talkative == NULL; i++)
        turn();
    assert_non_null(talkative);
    return fd;
}

static void what_nobody_asked_for_is_said_when_it_is_flushed(void **state)
{
    (void)state;
    char text[16];
    open_out_of_turn();
    const int fd = connect_talkative();
    unasked = "hello";
    cdl_connection_flush(talkative);
    turn();
    assert_int_equal(recv(fd, text, sizeof text, 0), 5);
    assert_memory_equal(text, "hello", 5);
    unasked = "bye";
    cdl_loop_flush(&bed.loop);
    turn();
    assert_int_equal(recv(fd, text, sizeof text, 0), 3);
    close(fd);
    close_bed();
}

/* What is said in one turn travels together. */
static void who_is_flushed_often_in_one_turn_is_heard_once(void **state)
{
    (void)state;
    open_out_of_turn();
    const int fd = connect_talkative(), other = connect_talkative();
    struct cdl_connection *const second = talkative;
    const unsigned before = heard;
    for (int i = 0; i < 10; i++) {
        cdl_connection_flush(second);
        cdl_loop_flush(&bed.loop);
    }
    assert_int_equal(heard, before);
    turn();
    assert_int_equal(heard, before + 2);
    cdl_connection_flush(second);
    close(other); /* it may be gone before it is heard */
    for (unsigned i = 0; i < PATIENCE && open_connections() > 1; i++)
        turn();
    cdl_loop_flush(&bed.loop); /* and be heard at the very end */
    unasked = "bye";
    char text[16];
    close_bed();
    assert_int_equal(recv(fd, text, sizeof text, 0), 3);
    close(fd);
}

static void a_client_that_is_owed_an_answer_gets_it_after_its_last_word(void **state)
{
    (void)state;
    char text[16];
    open_out_of_turn();
    const int fd = connect_talkative();
    talkative->owing = true;
    shutdown(fd, SHUT_WR);
    for (unsigned i = 0; i < PATIENCE && !talkative->ended; i++)
        turn();
    assert_true(talkative->ended);
    unasked = "one";
    cdl_connection_flush(talkative); /* one of two */
    turn();
    assert_int_equal(recv(fd, text, sizeof text, 0), 3);
    assert_int_equal(open_connections(), 1);
    talkative->owing = false;
    unasked = "two";
    cdl_connection_flush(talkative);
    turn();
    assert_int_equal(recv(fd, text, sizeof text, 0), 3);
    for (unsigned i = 0; i < PATIENCE && open_connections() > 0; i++)
        turn();
    assert_int_equal(recv(fd, text, sizeof text, 0), 0);
    close(fd);
    close_bed();
}

static void clients_that_may_be_silent_are_not_sent_away(void **state)
{
    (void)state;
    const struct cdl_connection_bounds hasty = {
        .connections_max = 100, .message_timeout_ms = 60000, .write_timeout_ms = 60000, .idle_timeout_ms = 1};
    open_bed(&hasty, NULL);
    struct cdl_protocol silent = out_of_turn;
    silent.may_be_idle = true;
    bed.listener.protocol = &silent;
    talkative = NULL;
    const int fd = connect_talkative();
    for (int i = 0; i < 3; i++) {
        const uint64_t before_ms = bed.loop.now_ms;
        while (bed.loop.now_ms == before_ms)
            cdl_loop_turn(&bed.loop, true);
    }
    assert_int_equal(atomic_load(&bed.loop.timed_out), 0);
    assert_int_equal(open_connections(), 1);
    close(fd);
    close_bed();
}

static void the_silent_may_be_told_but_not_while_they_are_owed_an_answer(void **state)
{
    (void)state;
    const struct cdl_connection_bounds hasty = {
        .connections_max = 100, .message_timeout_ms = 60000, .write_timeout_ms = 60000, .idle_timeout_ms = 1};
    open_bed(&hasty, NULL);
    struct cdl_protocol polite = out_of_turn;
    polite.tells_the_silent = true;
    polite.give_up = give_up;
    bed.listener.protocol = &polite;
    const int fd = connect_talkative();
    talkative->owing = true;
    for (int i = 0; i < 3; i++) {
        const uint64_t before_ms = bed.loop.now_ms;
        while (bed.loop.now_ms == before_ms)
            cdl_loop_turn(&bed.loop, true);
    }
    assert_int_equal(atomic_load(&bed.loop.timed_out), 0);
    talkative->owing = false;
    assert_string_equal(read_end(fd), "too late");
    assert_int_equal(atomic_load(&bed.loop.timed_out), 1);
    close(fd);
    close_bed();
}

static void C100_who_is_owed_an_answer_is_left_open_at_the_end(void **state)
{
    (void)state;
    open_out_of_turn();
    const int owed = connect_talkative();
    talkative->owing = true;
    talkative = NULL;
    const int idle = connect_talkative();
    cdl_loop_quiesce(&bed.loop);
    assert_int_equal(open_connections(), 1);
    close(owed);
    close(idle);
    close_bed();
}

static void answers_wait_for_a_slow_reader_through_tls_too(void **state)
{
    (void)state;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    struct cdl_tls_context *context = tls_context(NULL);
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    open_bed(&patient, context);
    const int fd = connect_client();
    SSL *ssl = SSL_new(client);
    SSL_set_fd(ssl, fd);
    assert_int_equal(with_turns(ssl, SSL_connect), 1);
    for (int i = 0; i < 52; i++)
        assert_int_equal(SSL_write(ssl, letters + i, 1), 1);
    for (int i = 0; i < 100; i++)
        turn();
    assert_int_equal(read_tls_answers(ssl, letters, 52 * ANSWER_BYTES), 52 * ANSWER_BYTES);
    SSL_free(ssl);
    close(fd);
    close_bed();
    SSL_CTX_free(client);
    cdl_tls_context_free(context);
}

static void what_waits_through_tls_is_answered_in_order_too(void **state)
{
    (void)state;
    static const char letters[] = "aBcDEfgHi";
    struct cdl_tls_context *context = tls_context(NULL);
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    open_bed(&patient, context);
    const int fd = connect_client();
    SSL *ssl = SSL_new(client);
    SSL_set_fd(ssl, fd);
    assert_int_equal(with_turns(ssl, SSL_connect), 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(SSL_write(ssl, letters + i, 1), 1);
    until_one_waits();
    assert_int_equal(SSL_write(ssl, letters + 5, 4), 4);
    for (int i = 0; i < 100; i++)
        turn();
    resumes_at_once = true;
    assert_int_equal(read_tls_answers(ssl, letters, 9 * ANSWER_BYTES), 9 * ANSWER_BYTES);
    SSL_free(ssl);
    close(fd);
    close_bed();
    SSL_CTX_free(client);
    cdl_tls_context_free(context);
}

static void a_handshake_has_its_time_however_often_a_byte_comes(void **state)
{
    (void)state;
    const struct cdl_connection_bounds hasty = {
        .connections_max = 100, .message_timeout_ms = 1, .write_timeout_ms = 60000, .idle_timeout_ms = 60000};
    struct cdl_tls_context *context = tls_context(NULL);
    open_bed(&hasty, context);
    const int fd = connect_client();
    assert_int_equal(send(fd, "\x16\x03\x01", 3, 0), 3);
    assert_string_equal(read_end(fd), "");
    assert_int_equal(atomic_load(&bed.loop.timed_out), 1);
    assert_int_equal(calls, 0);
    close(fd);
    close_bed();
    cdl_tls_context_free(context);
}

static SSL_SESSION *kept_session;

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(kept_session);
    kept_session = session;
    return 1;
}

static void a_client_with_a_certificate_may_resume_its_session(void **state)
{
    (void)state;
    struct cdl_tls_context *context = tls_context(certificate_file);
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_CLIENT);
    SSL_CTX_sess_set_new_cb(client, keep_session);
    assert_int_equal(SSL_CTX_use_certificate_file(client, certificate_file, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(client, key_file, SSL_FILETYPE_PEM), 1);
    open_bed(&patient, context);
    for (int round = 0; round < 3; round++) {
        const int fd = connect_client();
        SSL *ssl = SSL_new(client);
        SSL_set_fd(ssl, fd);
        if (kept_session != NULL)
            SSL_set_session(ssl, kept_session);
        assert_int_equal(with_turns(ssl, SSL_connect), 1);
        assert_int_equal(SSL_write(ssl, "a", 1), 1);
        assert_int_equal(read_tls_answers(ssl, "a", ANSWER_BYTES), ANSWER_BYTES);
        assert_int_equal(SSL_session_reused(ssl), round > 0);
        SSL_shutdown(ssl); /* otherwise the session counts as broken */
        SSL_free(ssl);
        close(fd);
    }
    close_bed();
    SSL_SESSION_free(kept_session);
    kept_session = NULL;
    SSL_CTX_free(client);
    cdl_tls_context_free(context);
}

static void a_client_without_a_certificate_is_not_heard(void **state)
{
    (void)state;
    struct cdl_tls_context *context = tls_context(certificate_file);
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    open_bed(&patient, context);
    const int fd = connect_client();
    SSL *ssl = SSL_new(client);
    SSL_set_fd(ssl, fd);
    with_turns(ssl, SSL_connect); /* TLS 1.3 lets the client believe that it is in */
    SSL_write(ssl, "a", 1);
    assert_int_equal(read_tls_answers(ssl, "a", ANSWER_BYTES), 0);
    assert_int_equal(calls, 0);
    SSL_free(ssl);
    close(fd);
    close_bed();
    SSL_CTX_free(client);
    cdl_tls_context_free(context);
}

static void a_client_hears_which_protocol_is_spoken(void **state)
{
    (void)state;
    static const struct {
        const char *offered, *chosen; /* chosen NULL: the client is turned away */
    } cases[] = {{"\x02h2", "h2"}, {"\x08http/1.1\x02h2", "h2"}, {"\x08http/1.1", NULL}, {"\x03h2c", NULL}, {"", ""}};
    struct cdl_tls_context *context = tls_context_of(NULL, "h2");
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    open_bed(&patient, context);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const unsigned char *chosen = NULL;
        unsigned length = 0;
        const int fd = connect_client();
        SSL *ssl = SSL_new(client);
        SSL_set_fd(ssl, fd);
        SSL_set_alpn_protos(ssl, (const unsigned char *)cases[i].offered, (unsigned)strlen(cases[i].offered));
        assert_int_equal(with_turns(ssl, SSL_connect) == 1, cases[i].chosen != NULL);
        SSL_get0_alpn_selected(ssl, &chosen, &length);
        assert_int_equal(length, cases[i].chosen != NULL ? strlen(cases[i].chosen) : 0);
        if (length > 0)
            assert_memory_equal(chosen, cases[i].chosen, length);
        SSL_free(ssl);
        close(fd);
    }
    close_bed();
    SSL_CTX_free(client);
    cdl_tls_context_free(context);
}

static void files_that_are_no_certificate_are_named(void **state)
{
    (void)state;
    struct caudal_problem problem;
    const struct cdl_tls_files absent = {"/nonexistent/cert", key_file, NULL, NULL},
                               mixed = {certificate_file, certificate_file, NULL, NULL},
                               no_ca = {certificate_file, key_file, key_file, NULL};
    assert_null(cdl_tls_context_new(&absent, &problem));
    assert_non_null(strstr(problem.message, "/nonexistent/cert"));
    assert_null(cdl_tls_context_new(&mixed, &problem));
    assert_non_null(strstr(problem.message, certificate_file));
    assert_null(cdl_tls_context_new(&no_ca, &problem));
    assert_non_null(strstr(problem.message, key_file));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_wait_for_a_slow_reader_in_order),
        cmocka_unit_test(a_message_that_is_too_long_is_told_so_while_it_still_comes),
        cmocka_unit_test(a_client_that_talks_on_after_the_last_answer_gets_it_whole),
        cmocka_unit_test(half_a_message_has_its_time),
        cmocka_unit_test(time_in_which_the_loop_stood_still_is_not_the_clients),
        cmocka_unit_test(a_client_that_was_reset_before_it_was_accepted_is_not_heard),
        cmocka_unit_test(clients_that_vanish_in_the_middle_leave_nothing),
        cmocka_unit_test(more_connections_than_allowed_are_turned_away),
        cmocka_unit_test(what_is_behind_a_message_that_waits_is_answered_after_it),
        cmocka_unit_test(a_message_that_waits_behind_a_slow_reader_is_answered_once),
        cmocka_unit_test(a_message_that_waits_is_not_late_and_its_connection_not_idle),
        cmocka_unit_test(a_client_that_has_said_its_last_word_still_gets_its_answers),
        cmocka_unit_test(a_client_that_vanishes_while_it_waits_is_let_go),
        cmocka_unit_test(a_client_that_talks_on_while_it_waits_is_kept_waiting),
        cmocka_unit_test(C100_what_waits_is_answered_before_the_loop_ends),
        cmocka_unit_test(what_nobody_asked_for_is_said_when_it_is_flushed),
        cmocka_unit_test(who_is_flushed_often_in_one_turn_is_heard_once),
        cmocka_unit_test(a_client_that_is_owed_an_answer_gets_it_after_its_last_word),
        cmocka_unit_test(clients_that_may_be_silent_are_not_sent_away),
        cmocka_unit_test(the_silent_may_be_told_but_not_while_they_are_owed_an_answer),
        cmocka_unit_test(C100_who_is_owed_an_answer_is_left_open_at_the_end),
        cmocka_unit_test(answers_wait_for_a_slow_reader_through_tls_too),
        cmocka_unit_test(what_waits_through_tls_is_answered_in_order_too),
        cmocka_unit_test(a_handshake_has_its_time_however_often_a_byte_comes),
        cmocka_unit_test(a_client_with_a_certificate_may_resume_its_session),
        cmocka_unit_test(a_client_without_a_certificate_is_not_heard),
        cmocka_unit_test(a_client_hears_which_protocol_is_spoken),
        cmocka_unit_test(files_that_are_no_certificate_are_named),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, setup_tls, teardown_tls);
}
