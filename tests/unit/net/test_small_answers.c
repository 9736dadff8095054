/* Connections whose answers are small, and travel together at the end of a turn where the loop has a ring: none is lost, none overtakes
 * another, and none reaches another client. The clients and the loop take turns in one thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef CDL_IO_URING
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#endif

#include "../support.h"
#include "net/connection.h"
#include "net/listen.h"

/* ---- a protocol: each byte is a message, and its own answer; '!' is the last ---- */

static size_t receive(struct cdl_connection *connection, char *bytes, size_t length, struct cdl_writer *output,
                      bool *finish)
{
    (void)connection;
    size_t taken = 0;
    while (taken < length && !*finish && output->length < output->size) {
        *finish = bytes[taken] == '!';
        cdl_write(output, (struct cdl_slice){bytes + taken++, 1});
    }
    return taken;
}

static const struct cdl_protocol protocol = {.kept_max = 1000, .receive = receive};

/* ---- the loop and its clients ---- */

struct bed {
    struct cdl_loop loop;
    struct cdl_listener listener;
    uint16_t port;
};

static struct bed bed;

static void open_bed(void)
{
    const struct cdl_connection_bounds bounds = {
        .connections_max = 100, .message_timeout_ms = 60000, .write_timeout_ms = 60000, .idle_timeout_ms = 60000};
    struct cdl_endpoint endpoint;
    struct cdl_listening socket;
    const char *why;
    assert_true(cdl_endpoint_parse(CDL_SLICE("127.0.0.1:0"), &endpoint, &why));
    assert_int_equal(cdl_listen(&endpoint, &socket, 1, NULL), CAUDAL_OK);
    bed.port = (uint16_t)atoi(strrchr(socket.text, ':') + 1);
    assert_true(cdl_loop_open(&bed.loop, &bounds));
    assert_int_equal(cdl_listener_open(&bed.listener, &bed.loop, socket.fd, &protocol, NULL, NULL), 0);
}

static void turn(void)
{
    cdl_loop_turn(&bed.loop, false);
}

#define PATIENCE 2000000 /* turns; a test that fails must end */

static void close_bed_without_clients(void)
{
    for (unsigned i = 0; i < PATIENCE && atomic_load(&bed.loop.open) > 0; i++)
        turn();
    assert_int_equal(atomic_load(&bed.loop.open), 0);
    cdl_loop_finish(&bed.loop);
    cdl_loop_run(&bed.loop);
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

/* ---- the tests ---- */

/* The n-th digit that is sent. */
static char digit(size_t n)
{
    return (char)('0' + (n * n + n / 7) % 10);
}

/* Sends what goes, in pieces of different lengths, of `total` digits; `sent` tells from where. */
static size_t send_digits(int fd, size_t sent, size_t total)
{
    char piece[3000];
    size_t length = 1 + sent * 31 % sizeof piece;
    if (length > total - sent)
        length = total - sent;
    for (size_t i = 0; i < length; i++)
        piece[i] = digit(sent + i);
    const ssize_t went = send(fd, piece, length, MSG_NOSIGNAL);
    assert_true(went > 0 || errno == EAGAIN);
    return went > 0 ? (size_t)went : 0;
}

/* Reads at most `most` bytes, which must be the digits from `got` on. Returns how many came; -1: the end. */
static ssize_t read_digits(int fd, size_t got, size_t most)
{
    char piece[8192];
    const ssize_t length = recv(fd, piece, most < sizeof piece ? most : sizeof piece, 0);
    assert_true(length >= 0 || errno == EAGAIN);
    for (ssize_t i = 0; i < length; i++)
        if (piece[i] != digit(got + (size_t)i))
            fail_msg("answer %zu is '%c', not '%c'", got + (size_t)i, piece[i], digit(got + (size_t)i));
    return length == 0 ? -1 : length < 0 ? 0 : length;
}

#define DIGITS 3000000u

/* The client sends for as long as anything is taken, then reads a little, and so on; its last word comes before it has read all. */
static void small_answers_keep_their_order_and_none_is_lost(void **state)
{
    (void)state;
    open_bed();
    const int fd = connect_client();
    size_t sent = 0, got = 0;
    bool has_ended = false;
    for (unsigned i = 0; i < PATIENCE; i++) {
        const size_t step = sent < DIGITS ? send_digits(fd, sent, DIGITS) : 0;
        sent += step;
        if (sent == DIGITS && !has_ended) {
            has_ended = true;
            assert_int_equal(shutdown(fd, SHUT_WR), 0);
        }
        if (step == 0 || i % 16 == 0) {
            const ssize_t length = read_digits(fd, got, 1 + got % 5000);
            if (length < 0)
                break;
            got += (size_t)length;
        }
        turn();
    }
    assert_int_equal(got, DIGITS);
    close(fd);
    close_bed_without_clients();
}

/* Reads one byte; 0: the end. */
static char read_one(int fd)
{
    char letter = 0;
    for (unsigned i = 0; i < PATIENCE; i++) {
        const ssize_t length = recv(fd, &letter, 1, 0);
        assert_true(length >= 0 || errno == EAGAIN);
        if (length >= 0)
            return length == 0 ? '\0' : letter;
        turn();
    }
    fail_msg("nothing comes");
    return '\0';
}

static void the_last_word_may_come_with_the_question(void **state)
{
    (void)state;
    open_bed();
    const int fd = connect_client();
    assert_int_equal(send(fd, "12", 2, 0), 2);
    assert_int_equal(send(fd, "3", 1, 0), 1);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    for (const char *expected = "123"; *expected != '\0'; expected++)
        assert_int_equal(read_one(fd), *expected);
    assert_int_equal(read_one(fd), '\0');
    close(fd);
    close_bed_without_clients();
}

/* Descriptors go from one client to the next while answers are under way. */
static void each_client_hears_its_own_answers(void **state)
{
    (void)state;
    enum {
        CLIENTS = 10
    };
    int fds[CLIENTS];
    open_bed();
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connect_client();
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            const char letter = (char)('0' + i);
            assert_int_equal(send(fds[i], &letter, 1, MSG_NOSIGNAL), 1);
        }
        for (int i = 0; i < CLIENTS; i++) {
            if ((round * 7 + i) % 3 == 0) { /* goes without waiting, and another comes */
                reset_client(fds[i]);
                fds[i] = connect_client();
            } else {
                assert_int_equal(read_one(fds[i]), '0' + i);
            }
        }
    }
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    close_bed_without_clients();
}

static void the_last_answer_is_sent_before_the_connection_ends(void **state)
{
    (void)state;
    open_bed();
    for (int round = 0; round < 100; round++) {
        const int fd = connect_client();
        assert_int_equal(send(fd, "7!8", round % 2 == 0 ? 2 : 3, 0), round % 2 == 0 ? 2 : 3);
        assert_int_equal(read_one(fd), '7');
        assert_int_equal(read_one(fd), '!');
        assert_int_equal(read_one(fd), '\0');
        close(fd);
    }
    close_bed_without_clients();
}

#ifdef CDL_IO_URING
/* From now on the kernel refuses io_uring to this process, as containers' and services' filters do. */
static void forbid_io_uring(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof program / sizeof program[0], .filter = program};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    assert_int_equal(syscall(SYS_io_uring_setup, 1, NULL), -1);
    assert_int_equal(errno, EPERM);
}

/* In a process of its own, which the filter ends with. Its exit status tells: 0 is well. */
static void a_loop_whose_ring_is_refused_does_without(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        forbid_io_uring();
        open_bed();
        const int fd = connect_client();
        const bool asked = bed.loop.ring == NULL && send(fd, "12", 2, 0) == 2;
        const bool answered = asked && read_one(fd) == '1' && read_one(fd) == '2';
        close(fd);
        close_bed_without_clients();
        _exit(answered ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void there_is_a_ring_where_it_was_built(void **state)
{
    (void)state;
    open_bed();
    assert_int_equal(bed.loop.ring_error, 0);
    assert_non_null(bed.loop.ring);
    close_bed_without_clients();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_answers_keep_their_order_and_none_is_lost),
        cmocka_unit_test(the_last_word_may_come_with_the_question),
        cmocka_unit_test(each_client_hears_its_own_answers),
        cmocka_unit_test(the_last_answer_is_sent_before_the_connection_ends),
#ifdef CDL_IO_URING
        cmocka_unit_test(there_is_a_ring_where_it_was_built),
        cmocka_unit_test(a_loop_whose_ring_is_refused_does_without),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
