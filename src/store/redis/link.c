/* OpenSSL is given a socket of our own making, because its own writes with write(2): a library cannot ignore SIGPIPE for the whole
 * program, and a peer that hangs up must not end it.
 *
 * Under TLS a write is one record, and it is reported when all of the record has been handed to the kernel: the peer can make nothing
 * of a part of one, so what was not reported was not executed. */
#include "store/redis/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/problem.h"

struct cdl_redis_tls {
    struct caudal_allocator allocator;
    SSL_CTX *context;
    BIO_METHOD *method;
    bool verify;
};

/* ---- the socket, as OpenSSL sees it ---- */

static bool is_passing(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static int bio_fd(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *bytes, int length)
{
    const ssize_t sent = send(bio_fd(bio), bytes, (size_t)length, MSG_NOSIGNAL);
    BIO_clear_retry_flags(bio);
    if (sent < 0 && is_passing(errno))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int bio_read(BIO *bio, char *buffer, int size)
{
    const ssize_t got = recv(bio_fd(bio), buffer, (size_t)size, 0);
    BIO_clear_retry_flags(bio);
    if (got < 0 && is_passing(errno))
        BIO_set_retry_read(bio);
    return (int)got;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    if (method == NULL)
        return NULL;
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_ctrl(method, bio_control);
    return method;
}

/* ---- what all connections share ---- */

/* The latest of OpenSSL's complaints, in its words. */
static bool complain(struct caudal_problem *problem, const char *what, const char *file)
{
    char reason[128] = "unknown reason";
    const unsigned long error = ERR_peek_last_error();
    if (error != 0)
        ERR_error_string_n(error, reason, sizeof reason);
    ERR_clear_error();
    cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "TLS to the store: %s %s: %s", what, file, reason);
    return false;
}

/* Otherwise OpenSSL would ask whoever sits at the terminal. */
static int no_passphrase(char *buffer, int size, int writing, void *context)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

static bool load_authorities(SSL_CTX *context, const char *file, struct caudal_problem *problem)
{
    if (file == NULL)
        return SSL_CTX_set_default_verify_paths(context) == 1 ||
               complain(problem, "cannot use the authorities of", "the system");
    return SSL_CTX_load_verify_locations(context, file, NULL) == 1 ||
           complain(problem, "cannot use the authorities", file);
}

/* The key may stand in the certificate's file. */
static bool load_certificate(SSL_CTX *context, const char *certificate, const char *key, struct caudal_problem *problem)
{
    if (certificate == NULL)
        return true;
    if (key == NULL)
        key = certificate;
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1)
        return complain(problem, "cannot use the certificate", certificate);
    return (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 &&
            SSL_CTX_check_private_key(context) == 1) ||
           complain(problem, "cannot use the key", key);
}

static bool set_up_context(SSL_CTX *context, const struct cdl_redis_config *config, struct caudal_problem *problem)
{
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    SSL_CTX_set_verify(context, config->tls_verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    return load_authorities(context, config->tls_ca, problem) &&
           load_certificate(context, config->tls_certificate, config->tls_key, problem);
}

struct cdl_redis_tls *cdl_redis_tls_open(const struct cdl_redis_config *config, struct caudal_problem *problem)
{
    struct cdl_redis_tls *tls = cdl_allocate(&config->allocator, 1, sizeof *tls, _Alignof(struct cdl_redis_tls));
    if (tls == NULL) {
        cdl_problem(problem, CAUDAL_ERR_MEMORY, 0, "no memory for TLS to the store");
        return NULL;
    }
    ERR_clear_error();
    tls->allocator = config->allocator;
    tls->verify = config->tls_verify;
    tls->context = SSL_CTX_new(TLS_client_method());
    tls->method = make_method();
    if (tls->context == NULL || tls->method == NULL)
        complain(problem, "no memory for", "a context");
    else if (set_up_context(tls->context, config, problem))
        return tls;
    cdl_redis_tls_close(tls);
    return NULL;
}

void cdl_redis_tls_close(struct cdl_redis_tls *tls)
{
    if (tls == NULL)
        return;
    const struct caudal_allocator allocator = tls->allocator;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    cdl_release(&allocator, tls, 1, sizeof *tls);
}

/* ---- one connection ---- */

static ssize_t fail(struct cdl_redis_link *link, enum cdl_store_event failure)
{
    link->state = CDL_LINK_FAILED;
    link->failure = failure;
    link->wants = 0;
    return -1;
}

static void become_open(struct cdl_redis_link *link)
{
    link->state = CDL_LINK_OPEN;
    link->wants = link->reading = CDL_SOCKET_READ;
}

/* Whether the peer has said that it does not want our TLS. In TLS 1.3 it refuses a client's certificate only when the handshake is over
 * on our side. */
static bool is_alert(void)
{
    const unsigned long error = ERR_peek_last_error();
    return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET;
}

/* What to wait for before OpenSSL is called again; 0: never, it is over. */
static unsigned awaited(SSL *ssl, int result)
{
    const int error = SSL_get_error(ssl, result);
    return error == SSL_ERROR_WANT_READ ? CDL_SOCKET_READ : error == SSL_ERROR_WANT_WRITE ? CDL_SOCKET_WRITE : 0;
}

static void go_on_with_tls(struct cdl_redis_link *link)
{
    ERR_clear_error();
    const int result = SSL_connect(link->ssl);
    if (result == 1) {
        become_open(link);
        return;
    }
    link->wants = awaited(link->ssl, result);
    if (link->wants == 0)
        fail(link, CDL_STORE_TLS);
    ERR_clear_error();
}

/* TCP's handshake is over. */
static void go_on_reached(struct cdl_redis_link *link)
{
    link->reached = true;
    if (link->ssl != NULL)
        go_on_with_tls(link);
    else
        become_open(link);
}

static bool is_address(const char *name)
{
    unsigned char room[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, room) == 1 || inet_pton(AF_INET6, name, room) == 1;
}

/* Whom the certificate must be for. An address stands in no SNI (RFC 6066, 3). */
static bool expect_name(SSL *ssl, bool verify, const char *name)
{
    if (name == NULL)
        return !verify;
    if (is_address(name))
        return !verify || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(ssl, name) == 1 && (!verify || SSL_set1_host(ssl, name) == 1);
}

static bool begin_tls(struct cdl_redis_link *link, const struct cdl_redis_tls *tls, const char *name)
{
    ERR_clear_error();
    SSL *ssl = SSL_new(tls->context);
    BIO *bio = BIO_new(tls->method);
    if (ssl == NULL || bio == NULL || !expect_name(ssl, tls->verify, name)) {
        BIO_free(bio);
        SSL_free(ssl);
        ERR_clear_error();
        return false;
    }
    BIO_set_data(bio, (void *)(intptr_t)link->socket.fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    link->ssl = ssl;
    return true;
}

static int open_socket(sa_family_t family)
{
    const int on = 1, fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && family != AF_UNIX) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    return fd;
}

void cdl_redis_link_open(struct cdl_redis_link *link, const struct sockaddr *address, socklen_t length,
                         struct cdl_redis_tls *tls, const char *name)
{
    *link = (struct cdl_redis_link){.socket.fd = open_socket(address->sa_family), .state = CDL_LINK_CONNECTING};
    if (link->socket.fd < 0) {
        fail(link, CDL_STORE_CONNECT);
        return;
    }
    if (tls != NULL && !begin_tls(link, tls, name)) {
        fail(link, CDL_STORE_TLS);
        return;
    }
    link->wants = CDL_SOCKET_WRITE;
    if (connect(link->socket.fd, address, length) == 0)
        go_on_reached(link);
    else if (errno != EINPROGRESS && errno != EINTR)
        fail(link, CDL_STORE_CONNECT);
}

/* Whether TCP's handshake is over; it is not when a loop was too eager. */
static bool is_reached(struct cdl_redis_link *link)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer, size = sizeof(int);
    int error = 0;
    if (getsockopt(link->socket.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        fail(link, CDL_STORE_CONNECT);
        return false;
    }
    return getpeername(link->socket.fd, (struct sockaddr *)&peer, &length) == 0;
}

void cdl_redis_link_go_on(struct cdl_redis_link *link)
{
    if (link->state != CDL_LINK_CONNECTING)
        return;
    if (link->reached)
        go_on_with_tls(link);
    else if (is_reached(link))
        go_on_reached(link);
}

/* What recv and send said: how many bytes, 0 for not now. */
static ssize_t judge_plain(struct cdl_redis_link *link, ssize_t result, unsigned event, unsigned *waits)
{
    if (result > 0)
        return result;
    if (result == 0 || !is_passing(errno))
        return fail(link, CDL_STORE_LOST);
    *waits = event;
    return 0;
}

static ssize_t judge_tls(struct cdl_redis_link *link, int result, unsigned *waits)
{
    if (result > 0)
        return result;
    *waits = awaited(link->ssl, result);
    if (*waits == 0)
        fail(link, is_alert() ? CDL_STORE_TLS : CDL_STORE_LOST);
    ERR_clear_error();
    return *waits == 0 ? -1 : 0;
}

static int as_int(size_t size)
{
    return size > INT_MAX ? INT_MAX : (int)size;
}

ssize_t cdl_redis_link_read(struct cdl_redis_link *link, char *buffer, size_t size)
{
    if (link->state != CDL_LINK_OPEN)
        return -1;
    ssize_t got;
    link->reading = CDL_SOCKET_READ;
    if (link->ssl != NULL) {
        ERR_clear_error();
        got = judge_tls(link, SSL_read(link->ssl, buffer, as_int(size)), &link->reading);
    } else {
        got = judge_plain(link, recv(link->socket.fd, buffer, size, 0), CDL_SOCKET_READ, &link->reading);
    }
    if (got >= 0)
        link->wants = CDL_SOCKET_READ | link->reading | link->writing;
    return got;
}

ssize_t cdl_redis_link_write(struct cdl_redis_link *link, struct cdl_slice bytes)
{
    if (link->state != CDL_LINK_OPEN)
        return -1;
    ssize_t sent;
    link->writing = 0;
    if (link->ssl != NULL) {
        ERR_clear_error();
        sent = judge_tls(link, SSL_write(link->ssl, bytes.bytes, as_int(bytes.length)), &link->writing);
    } else {
        sent = judge_plain(link, send(link->socket.fd, bytes.bytes, bytes.length, MSG_NOSIGNAL), CDL_SOCKET_WRITE,
                           &link->writing);
    }
    if (sent > 0 && (size_t)sent < bytes.length)
        link->writing = CDL_SOCKET_WRITE;
    if (sent >= 0)
        link->wants = CDL_SOCKET_READ | link->reading | link->writing;
    return sent;
}

void cdl_redis_link_close(struct cdl_redis_link *link)
{
    if (link->state == CDL_LINK_CLOSED)
        return;
    if (link->ssl != NULL) {
        ERR_clear_error();
        if (link->state == CDL_LINK_OPEN)
            SSL_shutdown(link->ssl);
        SSL_free(link->ssl);
        ERR_clear_error();
    }
    if (link->socket.fd >= 0)
        close(link->socket.fd);
    link->ssl = NULL;
    link->socket.fd = -1;
    link->state = CDL_LINK_CLOSED;
    link->wants = 0;
}
