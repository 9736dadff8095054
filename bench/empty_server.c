/* The least that a server can do, for bench/latency.py: one loop on epoll(7) that reads, and answers as many requests as the bytes can be.
 *
 *     empty_server PORT REQUEST_FILE ANSWER_FILE
 *
 * All requests are as long as REQUEST_FILE; nothing of them is looked at. Each gets the bytes of ANSWER_FILE. Runs until it is killed. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILES_MAX 1024
#define EVENTS 64
#define BYTES 65536u

static char input[BYTES], output[BYTES], answer[512];
static size_t request_length, answer_length;
static size_t begun[FILES_MAX]; /* bytes of a request that is not whole yet, by descriptor */

_Noreturn static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static size_t read_file(const char *path, char *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path);
    const size_t length = fread(bytes, 1, size, file);
    fclose(file);
    if (length == 0)
        fail(path);
    return length;
}

static int listen_on(const char *port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 128) != 0)
        fail("listen");
    return fd;
}

static void watch(int poll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

static void take_connection(int poll_fd, int listener)
{
    const int fd = accept(listener, NULL, NULL), one = 1;
    if (fd < 0)
        return;
    if (fd >= FILES_MAX) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    begun[fd] = 0;
    watch(poll_fd, fd);
}

static void serve(int fd)
{
    const ssize_t got = read(fd, input, sizeof input);
    if (got <= 0) {
        close(fd);
        return;
    }
    begun[fd] += (size_t)got;
    for (; begun[fd] >= request_length;) {
        size_t length = 0;
        for (; begun[fd] >= request_length && length + answer_length <= sizeof output; begun[fd] -= request_length) {
            memcpy(output + length, answer, answer_length);
            length += answer_length;
        }
        if (write(fd, output, length) != (ssize_t)length) {
            close(fd);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: empty_server PORT REQUEST_FILE ANSWER_FILE\n");
        return 2;
    }
    request_length = read_file(argv[2], input, sizeof input);
    answer_length = read_file(argv[3], answer, sizeof answer);
    const int listener = listen_on(argv[1]), poll_fd = epoll_create1(0);
    if (poll_fd < 0)
        fail("epoll_create1");
    watch(poll_fd, listener);
    for (;;) {
        struct epoll_event events[EVENTS];
        const int count = epoll_wait(poll_fd, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                take_connection(poll_fd, listener);
            else
                serve(events[i].data.fd);
        }
    }
}
