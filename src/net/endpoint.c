#include "net/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/problem.h"

#define BACKLOG 1024

static int parse_unix(const char *path, struct cdl_endpoint *endpoint, struct caudal_problem *problem)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&endpoint->address;
    const size_t length = strlen(path);
    if (length == 0 || length >= sizeof address->sun_path)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 5, "a Unix socket's path has 1 to %zu bytes",
                           sizeof address->sun_path - 1);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, length + 1);
    endpoint->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return CAUDAL_OK;
}

static int look_up(const char *host, const char *port, struct cdl_endpoint *endpoint, struct caudal_problem *problem)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    const int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0)
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0, "'%s' is no address to listen on: %s", host,
                           gai_strerror(error));
    memcpy(&endpoint->address, found->ai_addr, found->ai_addrlen);
    endpoint->length = found->ai_addrlen;
    freeaddrinfo(found);
    return CAUDAL_OK;
}

static bool is_port(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return digits >= 1 && digits <= 5 && text[digits] == '\0' && (digits < 5 || strcmp(text, "65535") <= 0);
}

int cdl_endpoint_parse(const char *text, struct cdl_endpoint *endpoint, struct caudal_problem *problem)
{
    *endpoint = (struct cdl_endpoint){0};
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, endpoint, problem);
    const char *colon = strrchr(text, ':');
    char host[256];
    if (colon == NULL || !is_port(colon + 1))
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, colon == NULL ? 0 : (size_t)(colon + 1 - text),
                           "'%.64s': expected host:port, [v6]:port, :port or unix:/path, with a port from 0 to 65535",
                           text);
    size_t length = (size_t)(colon - text);
    const bool bracketed = length >= 2 && text[0] == '[' && colon[-1] == ']';
    if (length >= sizeof host || (!bracketed && memchr(text, ':', length) != NULL))
        return cdl_problem(problem, CAUDAL_ERR_SYNTAX, 0,
                           "'%.64s': an IPv6 address stands in brackets, as in [::1]:8080", text);
    if (bracketed) {
        text++;
        length -= 2;
    }
    memcpy(host, text, length);
    host[length] = '\0';
    return look_up(length == 0 ? "127.0.0.1" : host, colon + 1, endpoint, problem);
}

void cdl_endpoint_format(const struct cdl_endpoint *endpoint, char text[CDL_ENDPOINT_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    if (endpoint->address.ss_family == AF_UNIX) {
        snprintf(text, CDL_ENDPOINT_TEXT_MAX, "unix:%s", ((const struct sockaddr_un *)&endpoint->address)->sun_path);
    } else if (endpoint->address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&endpoint->address;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        snprintf(text, CDL_ENDPOINT_TEXT_MAX, "[%s]:%u", host, ntohs(in->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&endpoint->address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(text, CDL_ENDPOINT_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
    }
}

bool cdl_endpoint_is_local(const struct cdl_endpoint *endpoint)
{
    if (endpoint->address.ss_family == AF_UNIX)
        return true;
    if (endpoint->address.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&endpoint->address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)&endpoint->address)->sin_addr.s_addr) >> 24 == 127;
}

/* Removes a socket file that nobody listens on any more. */
static void remove_stale(const struct cdl_endpoint *endpoint)
{
    const char *path = ((const struct sockaddr_un *)&endpoint->address)->sun_path;
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&endpoint->address, endpoint->length) != 0 && errno == ECONNREFUSED)
        unlink(path);
    close(fd);
}

int cdl_endpoint_listen(struct cdl_endpoint *endpoint, bool shared, struct caudal_problem *problem)
{
    const int on = 1;
    const bool is_unix = endpoint->address.ss_family == AF_UNIX;
    const int fd = socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = fd >= 0;
    if (ok && is_unix)
        remove_stale(endpoint);
    else if (ok)
        ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
             (!shared || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0);
    ok = ok && bind(fd, (const struct sockaddr *)&endpoint->address, endpoint->length) == 0 && listen(fd, BACKLOG) == 0;
    if (ok && !is_unix)
        ok = getsockname(fd, (struct sockaddr *)&endpoint->address, &endpoint->length) == 0;
    if (ok)
        return fd;
    char text[CDL_ENDPOINT_TEXT_MAX];
    cdl_endpoint_format(endpoint, text);
    cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "cannot listen on %s: %s", text, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}
