#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/problem.h"

#define BACKLOG 1024

struct bound {
    struct sockaddr_storage address;
    socklen_t length;
};

static int resolve_unix(struct cdl_slice path, struct bound *bound, struct caudal_problem *problem)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path.length >= sizeof address.sun_path)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "the path of a Unix socket has at most %zu bytes: %.*s",
                           sizeof address.sun_path - 1, CDL_SLICE_ARG(path));
    memcpy(address.sun_path, path.bytes, path.length);
    memcpy(&bound->address, &address, sizeof address);
    bound->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.length + 1);
    return CAUDAL_OK;
}

static int resolve_host(const struct cdl_endpoint *endpoint, struct bound *bound, struct caudal_problem *problem)
{
    char host[256] = "127.0.0.1", port[8];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (endpoint->host.length >= sizeof host)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "a host name has at most 255 bytes");
    if (endpoint->host.length > 0)
        snprintf(host, sizeof host, "%.*s", CDL_SLICE_ARG(endpoint->host));
    snprintf(port, sizeof port, "%u", endpoint->port);
    const int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0)
        return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "cannot listen on '%s': %s", host, gai_strerror(error));
    memcpy(&bound->address, found->ai_addr, found->ai_addrlen);
    bound->length = found->ai_addrlen;
    freeaddrinfo(found);
    return CAUDAL_OK;
}

static void describe(const struct bound *bound, struct cdl_listening *out)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (bound->address.ss_family == AF_UNIX) {
        out->is_unix = out->is_local = true;
        snprintf(out->text, sizeof out->text, "unix:%s", ((const struct sockaddr_un *)&bound->address)->sun_path);
    } else if (bound->address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&bound->address;
        out->is_local = IN6_IS_ADDR_LOOPBACK(&in->sin6_addr);
        snprintf(out->text, sizeof out->text, "[%s]:%u", inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host),
                 ntohs(in->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&bound->address;
        out->is_local = ntohl(in->sin_addr.s_addr) >> 24 == 127;
        snprintf(out->text, sizeof out->text, "%s:%u", inet_ntop(AF_INET, &in->sin_addr, host, sizeof host),
                 ntohs(in->sin_port));
    }
}

/* Removes a socket file that nobody listens on any more. */
static void remove_stale(const struct bound *bound)
{
    const char *path = ((const struct sockaddr_un *)&bound->address)->sun_path;
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&bound->address, bound->length) != 0 && errno == ECONNREFUSED)
        unlink(path);
    close(fd);
}

/* A new socket that listens on `bound`, whose port 0 becomes the real one. -1: errno says why. */
static int open_socket(struct bound *bound)
{
    const int on = 1;
    const bool is_unix = bound->address.ss_family == AF_UNIX;
    const int fd = socket(bound->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    bool ok = true;
    if (is_unix)
        remove_stale(bound);
    else
        ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
             setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
    ok = ok && bind(fd, (const struct sockaddr *)&bound->address, bound->length) == 0 && listen(fd, BACKLOG) == 0 &&
         (is_unix || getsockname(fd, (struct sockaddr *)&bound->address, &bound->length) == 0);
    if (ok)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* SO_REUSEPORT would let us share a port with another process of ours: first make sure that nobody has it. */
static bool port_is_free(const struct bound *bound)
{
    if (bound->address.ss_family == AF_UNIX)
        return true;
    const int on = 1, fd = socket(bound->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool free_port = bind(fd, (const struct sockaddr *)&bound->address, bound->length) == 0;
    const int error = errno;
    close(fd);
    errno = error;
    return free_port;
}

int cdl_listen(const struct cdl_endpoint *endpoint, struct cdl_listening *sockets, size_t count,
               struct caudal_problem *problem)
{
    struct bound bound = {.length = 0};
    int status = endpoint->is_unix ? resolve_unix(endpoint->path, &bound, problem)
                                   : resolve_host(endpoint, &bound, problem);
    if (status != CAUDAL_OK)
        return status;
    const bool may = port_is_free(&bound);
    for (size_t i = 0; i < count; i++) {
        sockets[i] = (struct cdl_listening){.fd = -1};
        if (may)
            sockets[i].fd = i > 0 && endpoint->is_unix ? fcntl(sockets[0].fd, F_DUPFD_CLOEXEC, 0) : open_socket(&bound);
        const int error = errno;
        describe(&bound, &sockets[i]);
        if (sockets[i].fd >= 0)
            continue;
        status = cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "cannot listen on %s: %s", sockets[i].text,
                             uv_strerror(uv_translate_sys_error(error)));
        while (i > 0)
            close(sockets[--i].fd);
        return status;
    }
    return CAUDAL_OK;
}

struct cdl_socket_file cdl_socket_file_of(const struct cdl_listening *socket)
{
    struct cdl_socket_file file = {.path = ""};
    struct stat status;
    if (socket->is_unix && lstat(socket->text + strlen("unix:"), &status) == 0) {
        snprintf(file.path, sizeof file.path, "%s", socket->text + strlen("unix:"));
        file.device = status.st_dev;
        file.inode = status.st_ino;
    }
    return file;
}

void cdl_socket_file_remove(const struct cdl_socket_file *file)
{
    struct stat status;
    if (file->path[0] != '\0' && lstat(file->path, &status) == 0 && status.st_dev == file->device &&
        status.st_ino == file->inode)
        unlink(file->path);
}
