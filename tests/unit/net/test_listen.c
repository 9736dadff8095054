/* C102: the forms of an address, a port that is taken, a socket file that was left behind, and several sockets for one port. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../support.h"
#include "net/listen.h"

static struct caudal_problem problem;
static char directory[] = "/tmp/caudal-listen-XXXXXX";

static int listen_on(const char *text, struct cdl_listening *sockets, size_t count)
{
    struct cdl_endpoint endpoint;
    const char *why;
    problem.message[0] = '\0';
    if (!cdl_endpoint_parse(cdl_slice_of(text), &endpoint, &why))
        fail_msg("%s %s", text, why);
    return cdl_listen(&endpoint, sockets, count, &problem);
}

static void close_all(struct cdl_listening *sockets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close(sockets[i].fd);
}

static unsigned port_of(const struct cdl_listening *socket)
{
    return (unsigned)atoi(strrchr(socket->text, ':') + 1);
}

static int connect_to(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* ---- TCP ---- */

static void the_real_port_is_told_and_answers(void **state)
{
    (void)state;
    struct cdl_listening socket;
    assert_int_equal(listen_on("127.0.0.1:0", &socket, 1), CAUDAL_OK);
    assert_true(socket.is_local);
    assert_false(socket.is_unix);
    assert_memory_equal(socket.text, "127.0.0.1:", 10);
    assert_true(port_of(&socket) > 0);
    assert_true(fcntl(socket.fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(socket.fd, F_GETFD) & FD_CLOEXEC);
    close(connect_to(port_of(&socket)));
    close(socket.fd);
}

static void C102_no_host_is_this_machine_only(void **state)
{
    (void)state;
    struct cdl_listening socket;
    assert_int_equal(listen_on(":0", &socket, 1), CAUDAL_OK);
    assert_true(socket.is_local);
    assert_memory_equal(socket.text, "127.0.0.1:", 10);
    close(socket.fd);
    assert_int_equal(listen_on("0.0.0.0:0", &socket, 1), CAUDAL_OK);
    assert_false(socket.is_local);
    assert_memory_equal(socket.text, "0.0.0.0:", 8);
    close(socket.fd);
}

static void C102_an_IPv6_address_stands_in_brackets(void **state)
{
    (void)state;
    struct cdl_listening sockets[1];
    const int probe = socket(AF_INET6, SOCK_STREAM, 0);
    const struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const bool has_ipv6 = probe >= 0 && bind(probe, (const struct sockaddr *)&loopback, sizeof loopback) == 0;
    close(probe);
    if (!has_ipv6) { /* then it is an error like any other */
        assert_int_equal(listen_on("[::1]:0", sockets, 1), CAUDAL_ERR_ARGUMENT);
        assert_non_null(strstr(problem.message, "::1"));
        return;
    }
    assert_int_equal(listen_on("[::1]:0", sockets, 1), CAUDAL_OK);
    assert_true(sockets[0].is_local);
    assert_memory_equal(sockets[0].text, "[::1]:", 6);
    close(sockets[0].fd);
}

static void a_host_that_is_not_ours_is_an_error_in_one_line(void **state)
{
    (void)state;
    struct cdl_listening socket;
    char longest[400];
    assert_int_equal(listen_on("192.0.2.1:0", &socket, 1), CAUDAL_ERR_ARGUMENT);
    assert_non_null(strstr(problem.message, "192.0.2.1:0"));
    snprintf(longest, sizeof longest, "%0300d:0", 0);
    assert_int_equal(listen_on(longest, &socket, 1), CAUDAL_ERR_ARGUMENT);
    assert_null(strchr(problem.message, '\n'));
}

static void C102_a_port_in_use_is_an_error(void **state)
{
    (void)state;
    struct cdl_listening first[2], second[2];
    char text[CDL_LISTEN_TEXT_MAX];
    assert_int_equal(listen_on("127.0.0.1:0", first, 2), CAUDAL_OK); /* which would share with anyone who asks */
    snprintf(text, sizeof text, "%s", first[0].text);
    assert_int_equal(listen_on(text, second, 2), CAUDAL_ERR_ARGUMENT);
    assert_non_null(strstr(problem.message, text));
    assert_non_null(strstr(problem.message, "in use"));
    close_all(first, 2);
    assert_int_equal(listen_on(text, second, 2), CAUDAL_OK); /* and free as soon as it is left */
    close_all(second, 2);
}

/* The kernel spreads connections by a hash of their addresses: of many, each socket gets some, and all together get all. */
static void several_sockets_share_one_port(void **state)
{
    (void)state;
    enum {
        SOCKETS = 4,
        CLIENTS = 64
    };
    struct cdl_listening sockets[SOCKETS];
    int clients[CLIENTS];
    unsigned accepted = 0, busy = 0;
    assert_int_equal(listen_on("127.0.0.1:0", sockets, SOCKETS), CAUDAL_OK);
    for (int i = 1; i < SOCKETS; i++) {
        assert_string_equal(sockets[i].text, sockets[0].text);
        assert_int_not_equal(sockets[i].fd, sockets[0].fd);
    }
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = connect_to(port_of(&sockets[0]));
    for (int i = 0; i < SOCKETS; i++) {
        const unsigned before = accepted;
        for (int fd; (fd = accept(sockets[i].fd, NULL, NULL)) >= 0; accepted++)
            close(fd);
        busy += accepted > before;
    }
    assert_int_equal(accepted, CLIENTS);
    assert_true(busy > 1);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    close_all(sockets, SOCKETS);
}

/* ---- Unix sockets ---- */

static int setup(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(directory); /* fails when a test left something */
}

static const char *path_of(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static const char *unix_text(const char *name)
{
    static char text[80];
    snprintf(text, sizeof text, "unix:%s", path_of(name));
    return text;
}

static int connect_unix(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of(name));
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void C102_a_unix_socket_is_shared_by_all_who_accept(void **state)
{
    (void)state;
    struct cdl_listening sockets[3];
    assert_int_equal(listen_on(unix_text("a"), sockets, 3), CAUDAL_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(sockets[i].is_unix);
        assert_true(sockets[i].is_local);
        assert_string_equal(sockets[i].text, unix_text("a"));
        const int client = connect_unix("a"), server = accept(sockets[i].fd, NULL, NULL);
        assert_true(client >= 0);
        assert_true(server >= 0);
        close(client);
        close(server);
    }
    close_all(sockets, 3);
    unlink(path_of("a"));
}

static void C102_a_socket_file_that_was_left_is_replaced(void **state)
{
    (void)state;
    struct cdl_listening socket;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(listen_on(unix_text("a"), &socket, 1), CAUDAL_OK);
        close(socket.fd); /* as a crash would */
        assert_int_equal(access(path_of("a"), F_OK), 0);
    }
    unlink(path_of("a"));
}

static void C102_a_socket_that_somebody_listens_on_is_not(void **state)
{
    (void)state;
    struct cdl_listening first, second;
    assert_int_equal(listen_on(unix_text("a"), &first, 1), CAUDAL_OK);
    assert_int_equal(listen_on(unix_text("a"), &second, 1), CAUDAL_ERR_ARGUMENT);
    assert_non_null(strstr(problem.message, unix_text("a")));
    const int client = connect_unix("a"); /* the first still answers */
    assert_true(client >= 0);
    close(client);
    close(first.fd);
    unlink(path_of("a"));
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
    (void)state;
    struct cdl_listening socket;
    struct stat status;
    close(open(path_of("a"), O_WRONLY | O_CREAT, 0600));
    assert_int_equal(listen_on(unix_text("a"), &socket, 1), CAUDAL_ERR_ARGUMENT);
    assert_int_equal(stat(path_of("a"), &status), 0);
    assert_true(S_ISREG(status.st_mode));
    unlink(path_of("a"));
}

static void a_path_that_cannot_be_is_an_error(void **state)
{
    (void)state;
    struct cdl_listening socket;
    static char path[121];
    memset(path, '/', sizeof path - 1);
    const struct cdl_endpoint endpoint = {.is_unix = true, .path = {path, sizeof path - 1}};
    assert_int_equal(cdl_listen(&endpoint, &socket, 1, &problem), CAUDAL_ERR_ARGUMENT);
    assert_non_null(strstr(problem.message, "at most 107 bytes"));
    assert_int_equal(listen_on("unix:/nonexistent/a", &socket, 1), CAUDAL_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_port_is_told_and_answers),
        cmocka_unit_test(C102_no_host_is_this_machine_only),
        cmocka_unit_test(C102_an_IPv6_address_stands_in_brackets),
        cmocka_unit_test(a_host_that_is_not_ours_is_an_error_in_one_line),
        cmocka_unit_test(C102_a_port_in_use_is_an_error),
        cmocka_unit_test(several_sockets_share_one_port),
        cmocka_unit_test(C102_a_unix_socket_is_shared_by_all_who_accept),
        cmocka_unit_test(C102_a_socket_file_that_was_left_is_replaced),
        cmocka_unit_test(C102_a_socket_that_somebody_listens_on_is_not),
        cmocka_unit_test(a_file_that_is_no_socket_is_left_alone),
        cmocka_unit_test(a_path_that_cannot_be_is_an_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
