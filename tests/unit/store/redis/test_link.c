/* Links over real sockets on loopback, to a peer that takes turns with them in one thread: plain, over a Unix socket, and under TLS with
 * certificates that are good, for somebody else, or from an authority that nobody knows. SIGPIPE kills this program, as it would kill
 * any other that uses the library. */
#include "store/redis/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "../../support.h"

/* ---- certificates ---- */

static char folder[] = "/tmp/caudal-link-XXXXXX";

struct issued {
    EVP_PKEY *key;
    X509 *certificate;
};

static struct issued authority, stranger;

static const char *path_of(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % COUNT_OF(paths)];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void add_extension(X509 *certificate, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);
    assert_non_null(extension);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

/* A certificate for `names` ("DNS:…,IP:…"), or an authority of its own with `issuer` NULL; in <name>.crt and <name>.key. */
static struct issued issue(const char *name, const char *names, const struct issued *issuer)
{
    struct issued issued = {EVP_EC_gen("P-256"), X509_new()};
    static int serial;
    X509 *certificate = issued.certificate;
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_set_version(certificate, 2);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, issued.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                               -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer != NULL ? issuer->certificate : certificate));
    add_extension(certificate, NID_basic_constraints, issuer == NULL ? "critical,CA:TRUE" : "CA:FALSE");
    if (names != NULL)
        add_extension(certificate, NID_subject_alt_name, names);
    assert_true(X509_sign(certificate, issuer != NULL ? issuer->key : issued.key, EVP_sha256()) > 0);
    char file_name[64];
    snprintf(file_name, sizeof file_name, "%s.crt", name);
    FILE *file = fopen(path_of(file_name), "w");
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    fclose(file);
    snprintf(file_name, sizeof file_name, "%s.key", name);
    file = fopen(path_of(file_name), "w");
    assert_int_equal(PEM_write_PrivateKey(file, issued.key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    return issued;
}

static void forget(struct issued *issued)
{
    EVP_PKEY_free(issued->key);
    X509_free(issued->certificate);
}

static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    authority = issue("authority", NULL, NULL);
    stranger = issue("stranger", NULL, NULL);
    static const char *const servers[][2] = {{"named", "DNS:redis.test"}, {"numbered", "IP:127.0.0.1"}};
    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        struct issued server = issue(servers[i][0], servers[i][1], &authority);
        forget(&server);
    }
    struct issued client = issue("client", NULL, &authority);
    FILE *file = fopen(path_of("locked.key"), "w");
    assert_int_equal(
        PEM_write_PrivateKey(file, client.key, EVP_aes_128_cbc(), (const unsigned char *)"secret", 6, NULL, NULL), 1);
    fclose(file);
    forget(&client);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const files[] = {"authority.crt", "authority.key", "stranger.crt", "stranger.key",
                                        "named.crt",     "named.key",     "numbered.crt", "numbered.key",
                                        "client.crt",    "client.key",    "locked.key"};
    for (size_t i = 0; i < COUNT_OF(files); i++)
        unlink(path_of(files[i]));
    rmdir(folder);
    forget(&authority);
    forget(&stranger);
    return 0;
}

/* ---- the peer ---- */

struct peer {
    int listening, fd;
    SSL_CTX *context;
    SSL *ssl;
    union {
        struct sockaddr head;
        struct sockaddr_in in;
        struct sockaddr_un un;
    } address;
    socklen_t length;
};

static struct peer peer;
static struct cdl_redis_link link_;
static struct counting_allocator memory;

static void listen_at_peer(void)
{
    peer.listening = socket(peer.address.head.sa_family, SOCK_STREAM, 0);
    peer.fd = -1;
    assert_int_equal(bind(peer.listening, &peer.address.head, peer.length), 0);
    assert_int_equal(listen(peer.listening, 8), 0);
    peer.length = sizeof peer.address;
    assert_int_equal(getsockname(peer.listening, &peer.address.head, &peer.length), 0);
}

static void open_peer(void)
{
    peer = (struct peer){.address.in = {.sin_family = AF_INET}, .length = sizeof(struct sockaddr_in)};
    peer.address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listen_at_peer();
}

/* A peer with the certificate of that name, which wants one of its client when `wants_client`. */
static void open_tls_peer(const char *name, bool wants_client, int version)
{
    char file[64];
    open_peer();
    peer.context = SSL_CTX_new(TLS_server_method());
    snprintf(file, sizeof file, "%s.crt", name);
    assert_int_equal(SSL_CTX_use_certificate_file(peer.context, path_of(file), SSL_FILETYPE_PEM), 1);
    snprintf(file, sizeof file, "%s.key", name);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(peer.context, path_of(file), SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_set_min_proto_version(peer.context, version), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(peer.context, version), 1);
    SSL_CTX_set_security_level(peer.context, 0); /* as old as it is told to be */
    if (!wants_client)
        return;
    assert_int_equal(SSL_CTX_load_verify_locations(peer.context, path_of("authority.crt"), NULL), 1);
    SSL_CTX_set_verify(peer.context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

static void hang_up(void)
{
    SSL_free(peer.ssl);
    peer.ssl = NULL;
    if (peer.fd >= 0)
        close(peer.fd);
    peer.fd = -1;
}

static void close_peer(void)
{
    hang_up();
    SSL_CTX_free(peer.context);
    close(peer.listening);
}

static void accept_link(void)
{
    peer.fd = accept4(peer.listening, NULL, NULL, SOCK_NONBLOCK);
    assert_true(peer.fd >= 0);
    if (peer.context == NULL)
        return;
    peer.ssl = SSL_new(peer.context);
    SSL_set_fd(peer.ssl, peer.fd);
    SSL_set_accept_state(peer.ssl);
}

/* ---- turns ---- */

#define PATIENCE_MS 10000

/* Whether the link's socket becomes ready for one of `events` within that time. */
static bool is_ready_for(unsigned events, int within_ms)
{
    struct pollfd wait = {.fd = link_.socket.fd};
    wait.events = (short)((events & CDL_SOCKET_READ ? POLLIN : 0) | (events & CDL_SOCKET_WRITE ? POLLOUT : 0));
    return poll(&wait, 1, within_ms) == 1;
}

/* Waits until the socket is ready for what the link waits for. */
static void wait_for_link(void)
{
    assert_int_not_equal(link_.wants, 0);
    assert_true(is_ready_for(link_.wants, PATIENCE_MS));
}

static struct cdl_redis_tls *tls_with(const struct cdl_redis_config *config)
{
    struct cdl_redis_config full = *config;
    struct caudal_problem problem = {.message = ""};
    counting_allocator_init(&memory);
    full.allocator = memory.allocator;
    full.tls = true;
    struct cdl_redis_tls *tls = cdl_redis_tls_open(&full, &problem);
    if (tls == NULL)
        fail_msg("%s", problem.message);
    return tls;
}

/* The peer knows its authority. */
static struct cdl_redis_tls *verified_tls(void)
{
    char ca[128];
    snprintf(ca, sizeof ca, "%s", path_of("authority.crt"));
    return tls_with(&(struct cdl_redis_config){.tls_verify = true, .tls_ca = ca});
}

static void close_tls(struct cdl_redis_tls *tls)
{
    cdl_redis_tls_close(tls);
    assert_int_equal(memory.live_blocks, 0);
}

static void begin(struct cdl_redis_tls *tls, const char *name)
{
    cdl_redis_link_open(&link_, &peer.address.head, peer.length, tls, name);
}

/* Goes on until the link is open or has failed, and the peer's handshake has come to an end, too. */
static void go_on(void)
{
    if (link_.state == CDL_LINK_FAILED)
        return;
    accept_link();
    bool peer_is_busy = peer.ssl != NULL;
    while (link_.state == CDL_LINK_CONNECTING || peer_is_busy) {
        if (peer_is_busy) {
            const int result = SSL_do_handshake(peer.ssl);
            peer_is_busy = result != 1 && SSL_get_error(peer.ssl, result) == SSL_ERROR_WANT_READ &&
                           link_.state != CDL_LINK_FAILED;
        }
        if (link_.state == CDL_LINK_CONNECTING && (!peer_is_busy || is_ready_for(link_.wants, 0))) {
            wait_for_link();
            cdl_redis_link_go_on(&link_);
        }
    }
}

static void connect_with(struct cdl_redis_tls *tls, const char *name)
{
    begin(tls, name);
    go_on();
    assert_int_equal(link_.state, CDL_LINK_OPEN);
    assert_int_equal(link_.wants, CDL_SOCKET_READ);
}

static void assert_refused_by(struct cdl_redis_tls *tls, const char *name)
{
    begin(tls, name);
    go_on();
    assert_int_equal(link_.state, CDL_LINK_FAILED);
    assert_int_equal(link_.failure, CDL_STORE_TLS);
    assert_int_equal(link_.wants, 0);
    char byte;
    assert_int_equal(cdl_redis_link_read(&link_, &byte, 1), -1);
    assert_int_equal(cdl_redis_link_write(&link_, CDL_SLICE("a")), -1);
    cdl_redis_link_close(&link_);
    hang_up();
}

static ssize_t peer_read(char *buffer, size_t size)
{
    return peer.ssl != NULL ? SSL_read(peer.ssl, buffer, (int)size) : recv(peer.fd, buffer, size, 0);
}

static void peer_write(const char *text)
{
    const size_t length = strlen(text);
    assert_int_equal(peer.ssl != NULL ? SSL_write(peer.ssl, text, (int)length) : send(peer.fd, text, length, 0),
                     length);
}

static void assert_link_reads(const char *want)
{
    char text[64];
    size_t length = 0;
    while (length < strlen(want)) {
        const ssize_t got = cdl_redis_link_read(&link_, text + length, sizeof text - length);
        assert_true(got >= 0);
        length += (size_t)got;
        if (got == 0)
            wait_for_link();
    }
    assert_int_equal(length, strlen(want));
    assert_memory_equal(text, want, length);
}

/* Words back and forth. */
static void talk(void)
{
    char text[16];
    assert_int_equal(cdl_redis_link_read(&link_, text, sizeof text), 0);
    assert_int_equal(link_.wants, CDL_SOCKET_READ);
    assert_int_equal(cdl_redis_link_write(&link_, CDL_SLICE("PING\r\n")), 6);
    assert_int_equal(link_.wants, CDL_SOCKET_READ);
    ssize_t got;
    while ((got = peer_read(text, sizeof text)) < 0)
        ;
    assert_int_equal(got, 6);
    assert_memory_equal(text, "PING\r\n", 6);
    peer_write("+PONG\r\n");
    assert_link_reads("+PONG\r\n");
}

/* ---- connecting ---- */

static void a_plain_link(void **state)
{
    (void)state;
    int value = 0;
    socklen_t size = sizeof value;
    open_peer();
    connect_with(NULL, NULL);
    assert_int_equal(getsockopt(link_.socket.fd, IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
    assert_int_not_equal(value, 0);
    assert_int_equal(getsockopt(link_.socket.fd, SOL_SOCKET, SO_KEEPALIVE, &value, &size), 0);
    assert_int_not_equal(value, 0);
    assert_true(fcntl(link_.socket.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(link_.socket.fd, F_GETFL) & O_NONBLOCK);
    talk();
    cdl_redis_link_go_on(&link_); /* nothing to go on with */
    assert_int_equal(link_.state, CDL_LINK_OPEN);
    cdl_redis_link_close(&link_);
    assert_int_equal(link_.state, CDL_LINK_CLOSED);
    cdl_redis_link_close(&link_);
    close_peer();
}

static void a_link_over_a_unix_socket(void **state)
{
    (void)state;
    peer = (struct peer){.address.un = {.sun_family = AF_UNIX}};
    snprintf(peer.address.un.sun_path, sizeof peer.address.un.sun_path, "%s", path_of("socket"));
    peer.length = sizeof peer.address.un;
    listen_at_peer();
    connect_with(NULL, NULL);
    talk();
    cdl_redis_link_close(&link_);
    close_peer();
    unlink(path_of("socket"));
    begin(NULL, NULL);
    assert_int_equal(link_.state, CDL_LINK_FAILED);
    assert_int_equal(link_.failure, CDL_STORE_CONNECT);
    cdl_redis_link_close(&link_);
}

static void nobody_listens(void **state)
{
    (void)state;
    open_peer();
    close_peer();
    struct cdl_redis_tls *tls = tls_with(&(struct cdl_redis_config){.tls_verify = false});
    for (unsigned round = 0; round < 2; round++) {
        begin(round == 0 ? NULL : tls, NULL);
        while (link_.state == CDL_LINK_CONNECTING) {
            wait_for_link();
            cdl_redis_link_go_on(&link_);
        }
        assert_int_equal(link_.state, CDL_LINK_FAILED);
        assert_int_equal(link_.failure, CDL_STORE_CONNECT);
        cdl_redis_link_close(&link_);
        assert_int_equal(link_.socket.fd, -1);
    }
    close_tls(tls);
}

static void a_loop_may_be_too_eager(void **state)
{
    (void)state;
    /* Nobody accepts, and the queue is full: the handshake does not end. */
    open_peer();
    assert_int_equal(listen(peer.listening, 0), 0);
    int others[8];
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        others[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(others[i], &peer.address.head, peer.length);
    }
    begin(NULL, NULL);
    for (unsigned i = 0; i < 3; i++) {
        cdl_redis_link_go_on(&link_);
        assert_int_equal(link_.state, CDL_LINK_CONNECTING);
        assert_int_equal(link_.wants, CDL_SOCKET_WRITE);
    }
    char byte;
    assert_int_equal(cdl_redis_link_read(&link_, &byte, 1), -1);
    assert_int_equal(cdl_redis_link_write(&link_, CDL_SLICE("a")), -1);
    assert_int_equal(link_.state, CDL_LINK_CONNECTING);
    cdl_redis_link_close(&link_);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        close(others[i]);
    close_peer();
}

static void an_address_of_no_kind(void **state)
{
    (void)state;
    const struct sockaddr address = {.sa_family = 255};
    cdl_redis_link_open(&link_, &address, sizeof address, NULL, NULL);
    assert_int_equal(link_.state, CDL_LINK_FAILED);
    assert_int_equal(link_.failure, CDL_STORE_CONNECT);
    cdl_redis_link_close(&link_);
}

/* ---- TLS ---- */

static void a_certificate_must_be_for_the_name(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct cdl_redis_tls *tls = verified_tls();
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        open_tls_peer("named", false, versions[i]);
        connect_with(tls, "redis.test");
        assert_string_equal(SSL_get_servername(peer.ssl, TLSEXT_NAMETYPE_host_name), "redis.test");
        talk();
        cdl_redis_link_close(&link_);
        hang_up();
        assert_refused_by(tls, "other.test");
        assert_refused_by(tls, "127.0.0.1");
        assert_refused_by(tls, NULL); /* verified, but for whom */
        close_peer();
    }
    close_tls(tls);
}

static void a_certificate_may_be_for_an_address(void **state)
{
    (void)state;
    struct cdl_redis_tls *tls = verified_tls();
    open_tls_peer("numbered", false, TLS1_3_VERSION);
    connect_with(tls, "127.0.0.1");
    assert_null(SSL_get_servername(peer.ssl, TLSEXT_NAMETYPE_host_name));
    talk();
    cdl_redis_link_close(&link_);
    hang_up();
    assert_refused_by(tls, "127.0.0.2");
    assert_refused_by(tls, "::1");
    assert_refused_by(tls, "redis.test");
    close_peer();
    close_tls(tls);
}

static void an_authority_must_be_known(void **state)
{
    (void)state;
    char ca[128];
    snprintf(ca, sizeof ca, "%s", path_of("stranger.crt"));
    struct cdl_redis_tls *tls = tls_with(&(struct cdl_redis_config){.tls_verify = true, .tls_ca = ca});
    open_tls_peer("named", false, TLS1_3_VERSION);
    assert_refused_by(tls, "redis.test");
    close_tls(tls);
    tls = tls_with(&(struct cdl_redis_config){.tls_verify = true}); /* the system's do not know it either */
    assert_refused_by(tls, "redis.test");
    close_tls(tls);
    close_peer();
}

static void who_does_not_verify_takes_any(void **state)
{
    (void)state;
    struct cdl_redis_tls *tls = tls_with(&(struct cdl_redis_config){.tls_verify = false});
    open_tls_peer("stranger", false, TLS1_2_VERSION);
    static const char *const names[] = {NULL, "redis.test", "127.0.0.1"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        connect_with(tls, names[i]);
        talk();
        cdl_redis_link_close(&link_);
        hang_up();
    }
    close_peer();
    close_tls(tls);
}

static void old_versions_are_refused(void **state)
{
    (void)state;
    struct cdl_redis_tls *tls = tls_with(&(struct cdl_redis_config){.tls_verify = false});
    open_tls_peer("named", false, TLS1_1_VERSION);
    assert_refused_by(tls, NULL);
    close_peer();
    close_tls(tls);
}

static void a_peer_may_want_a_certificate(void **state)
{
    (void)state;
    char ca[128], certificate[128], key[128];
    snprintf(ca, sizeof ca, "%s", path_of("authority.crt"));
    snprintf(certificate, sizeof certificate, "%s", path_of("client.crt"));
    snprintf(key, sizeof key, "%s", path_of("client.key"));
    struct cdl_redis_config config = {.tls_verify = true, .tls_ca = ca, .tls_certificate = certificate, .tls_key = key};
    struct cdl_redis_tls *tls = tls_with(&config);
    open_tls_peer("named", true, TLS1_3_VERSION);
    connect_with(tls, "redis.test");
    talk();
    cdl_redis_link_close(&link_);
    hang_up();
    close_tls(tls);
    /* Without one TLS 1.3 lets us believe that we are in; the first thing that we read is that we are not. */
    tls = verified_tls();
    connect_with(tls, "redis.test");
    char byte;
    ssize_t got;
    while ((got = cdl_redis_link_read(&link_, &byte, 1)) == 0)
        wait_for_link();
    assert_int_equal(got, -1);
    assert_int_equal(link_.state, CDL_LINK_FAILED);
    assert_int_equal(link_.failure, CDL_STORE_TLS);
    cdl_redis_link_close(&link_);
    close_peer();
    open_tls_peer("named", true, TLS1_2_VERSION);
    assert_refused_by(tls, "redis.test");
    close_peer();
    close_tls(tls);
}

static void a_peer_without_tls(void **state)
{
    (void)state;
    struct cdl_redis_tls *tls = verified_tls();
    for (unsigned round = 0; round < 2; round++) {
        open_peer();
        begin(tls, "redis.test");
        accept_link();
        if (round == 0)
            peer_write("-ERR Protocol error\r\n");
        else
            hang_up();
        while (link_.state == CDL_LINK_CONNECTING) {
            wait_for_link();
            cdl_redis_link_go_on(&link_);
        }
        assert_int_equal(link_.state, CDL_LINK_FAILED);
        assert_int_equal(link_.failure, CDL_STORE_TLS);
        cdl_redis_link_close(&link_);
        close_peer();
    }
    close_tls(tls);
}

static void assert_unusable(const struct cdl_redis_config *config, const char *file, int code)
{
    struct caudal_problem problem = {.message = ""};
    assert_null(cdl_redis_tls_open(config, &problem));
    assert_int_equal(problem.code, code);
    if (strstr(problem.message, file) == NULL)
        fail_msg("'%s' does not name %s", problem.message, file);
    assert_null(cdl_redis_tls_open(config, NULL));
    assert_int_equal(memory.live_blocks, 0);
}

static void files_that_cannot_be_used_are_named(void **state)
{
    (void)state;
    char certificate[128], key[128], missing[] = "/nowhere/at-all.pem", ca[128];
    snprintf(certificate, sizeof certificate, "%s", path_of("client.crt"));
    snprintf(key, sizeof key, "%s", path_of("locked.key"));
    snprintf(ca, sizeof ca, "%s", path_of("client.key"));
    counting_allocator_init(&memory);
    struct cdl_redis_config config = {.tls_verify = true, .allocator = memory.allocator};
    config.tls_ca = missing;
    assert_unusable(&config, missing, CAUDAL_ERR_ARGUMENT);
    config.tls_ca = ca;
    assert_unusable(&config, ca, CAUDAL_ERR_ARGUMENT);
    config.tls_ca = NULL;
    config.tls_certificate = missing;
    assert_unusable(&config, missing, CAUDAL_ERR_ARGUMENT);
    config.tls_certificate = certificate;
    assert_unusable(&config, certificate, CAUDAL_ERR_ARGUMENT); /* holds no key */
    config.tls_key = key;
    assert_unusable(&config, key, CAUDAL_ERR_ARGUMENT); /* nobody is asked for its passphrase */
    snprintf(key, sizeof key, "%s", path_of("named.key"));
    assert_unusable(&config, key, CAUDAL_ERR_ARGUMENT); /* another certificate's */
    config = (struct cdl_redis_config){.allocator = memory.allocator};
    memory.fail_at = memory.calls;
    struct caudal_problem problem;
    assert_null(cdl_redis_tls_open(&config, &problem));
    assert_int_equal(problem.code, CAUDAL_ERR_MEMORY);
    cdl_redis_tls_close(NULL);
}

/* ---- bytes ---- */

static char letter_at(size_t at)
{
    return (char)('a' + at % 26 + at / 1000 % 3);
}

/* Writes far more than a socket holds to a peer that reads nothing for a while: each byte comes once, in order. */
static void assert_writes_in_parts(void)
{
    const size_t size = 8000000;
    char *bytes = malloc(size);
    static char buffer[50000];
    size_t written = 0, got = 0;
    unsigned refused = 0;
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = letter_at(i);
    while (got < size) {
        while (written < size) {
            /* From elsewhere each time, as from a buffer that has moved. */
            char *moved = malloc(size - written);
            memcpy(moved, bytes + written, size - written);
            const ssize_t now = cdl_redis_link_write(&link_, (struct cdl_slice){moved, size - written});
            free(moved);
            assert_true(now >= 0);
            written += (size_t)now;
            assert_int_equal((link_.wants & CDL_SOCKET_WRITE) != 0, written < size);
            if (now == 0)
                break;
        }
        if (written < size) {
            assert_false(is_ready_for(CDL_SOCKET_WRITE, 0));
            refused++;
        }
        ssize_t length;
        for (size_t round = 0; round < 40 && (length = peer_read(buffer, sizeof buffer)) > 0; round++)
            for (ssize_t i = 0; i < length; i++, got++)
                if (buffer[i] != letter_at(got))
                    fail_msg("byte %zu", got);
        assert_true(got <= written); /* nothing came that was not reported as written */
    }
    assert_true(refused > 0);
    assert_int_equal(got, size);
    assert_int_equal(link_.wants, CDL_SOCKET_READ);
    free(bytes);
}

static void a_slow_peer_takes_a_long_write_in_parts(void **state)
{
    (void)state;
    open_peer();
    connect_with(NULL, NULL);
    assert_writes_in_parts();
    talk();
    cdl_redis_link_close(&link_);
    close_peer();
    struct cdl_redis_tls *tls = verified_tls();
    open_tls_peer("named", false, TLS1_3_VERSION);
    connect_with(tls, "redis.test");
    assert_writes_in_parts();
    talk();
    cdl_redis_link_close(&link_);
    close_peer();
    close_tls(tls);
}

static void more_may_stand_behind_what_is_written_again(void **state)
{
    (void)state;
    struct cdl_redis_tls *tls = verified_tls();
    open_tls_peer("named", false, TLS1_3_VERSION);
    connect_with(tls, "redis.test");
    char *bytes = malloc(40000000);
    assert_non_null(bytes);
    for (size_t i = 0; i < 40000000; i++)
        bytes[i] = letter_at(i);
    size_t written = 0, got = 0, known = 1000;
    /* Until the socket is full, a thousand bytes at a time; then the rest, though only a thousand were refused. */
    for (ssize_t now = 1; now > 0; known += 1000) {
        now = cdl_redis_link_write(&link_, (struct cdl_slice){bytes + written, known - written});
        assert_true(now >= 0 && known < 39000000);
        written += (size_t)now;
    }
    static char buffer[50000];
    known += 1000000;
    while (got < known) {
        const ssize_t length = peer_read(buffer, sizeof buffer);
        for (ssize_t i = 0; i < length; i++, got++)
            if (buffer[i] != letter_at(got))
                fail_msg("byte %zu", got);
        if (written < known && length <= 0) {
            const ssize_t now = cdl_redis_link_write(&link_, (struct cdl_slice){bytes + written, known - written});
            assert_true(now >= 0);
            written += (size_t)now;
        }
    }
    free(bytes);
    cdl_redis_link_close(&link_);
    close_peer();
    close_tls(tls);
}

static void a_long_record_is_read_in_parts(void **state)
{
    (void)state;
    struct cdl_redis_tls *tls = verified_tls();
    open_tls_peer("named", false, TLS1_2_VERSION);
    connect_with(tls, "redis.test");
    peer_write("0123456789");
    wait_for_link();
    char text[4];
    for (unsigned at = 0; at < 8; at += 4) {
        assert_int_equal(cdl_redis_link_read(&link_, text, 4), 4);
        assert_memory_equal(text, &"0123456789"[at], 4);
    }
    /* No more comes from the socket, and yet there is more. */
    assert_false(is_ready_for(CDL_SOCKET_READ, 0));
    assert_int_equal(cdl_redis_link_read(&link_, text, 4), 2);
    assert_int_equal(cdl_redis_link_read(&link_, text, 4), 0);
    cdl_redis_link_close(&link_);
    close_peer();
    close_tls(tls);
}

/* In TLS 1.3 a peer may change its keys at any time, and wants ours changed as well. */
static void keys_may_change(void **state)
{
    (void)state;
    struct cdl_redis_tls *tls = verified_tls();
    open_tls_peer("named", false, TLS1_3_VERSION);
    connect_with(tls, "redis.test");
    assert_int_equal(SSL_key_update(peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(peer.ssl), 1);
    peer_write("+A\r\n");
    assert_link_reads("+A\r\n");
    talk();
    cdl_redis_link_close(&link_);
    close_peer();
    close_tls(tls);
}

/* ---- ends ---- */

static void assert_lost_by_reading(void)
{
    char byte;
    ssize_t got;
    while ((got = cdl_redis_link_read(&link_, &byte, 1)) >= 0)
        if (got == 0)
            wait_for_link();
    assert_int_equal(link_.state, CDL_LINK_FAILED);
    assert_int_equal(link_.failure, CDL_STORE_LOST);
    cdl_redis_link_close(&link_);
}

/* The first write to a peer that is gone makes it say so, the second would raise SIGPIPE. */
static void assert_lost_by_writing(void)
{
    ssize_t sent;
    while ((sent = cdl_redis_link_write(&link_, CDL_SLICE("PING\r\n"))) >= 0)
        ;
    assert_int_equal(link_.state, CDL_LINK_FAILED);
    assert_int_equal(link_.failure, CDL_STORE_LOST);
    assert_int_equal(cdl_redis_link_write(&link_, CDL_SLICE("PING\r\n")), -1);
    cdl_redis_link_close(&link_);
}

static void reset_peer(void)
{
    const struct linger now = {1, 0};
    setsockopt(peer.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    hang_up();
}

static void each_end(struct cdl_redis_tls *tls, const char *name)
{
    static void (*const ends[])(void) = {hang_up, reset_peer};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        connect_with(tls, name);
        peer_write("+A\r\n");
        if (i == 0) {
            ends[i]();
            assert_link_reads("+A\r\n"); /* what came before the end is not lost */
        } else {
            ends[i]();
        }
        assert_lost_by_reading();
        connect_with(tls, name);
        ends[i]();
        assert_lost_by_writing();
    }
}

static void a_peer_that_ends_is_lost(void **state)
{
    (void)state;
    open_peer();
    each_end(NULL, NULL);
    close_peer();
    struct cdl_redis_tls *tls = verified_tls();
    open_tls_peer("named", false, TLS1_3_VERSION);
    each_end(tls, "redis.test");
    connect_with(tls, "redis.test");
    SSL_shutdown(peer.ssl);
    assert_lost_by_reading();
    hang_up();
    /* Not even by bytes that are no TLS. */
    connect_with(tls, "redis.test");
    assert_int_equal(send(peer.fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, 0), 28);
    assert_lost_by_reading();
    close_peer();
    close_tls(tls);
}

static void a_closed_link_says_goodbye(void **state)
{
    (void)state;
    struct cdl_redis_tls *tls = verified_tls();
    open_tls_peer("named", false, TLS1_3_VERSION);
    connect_with(tls, "redis.test");
    cdl_redis_link_close(&link_);
    char byte;
    int got;
    while ((got = SSL_read(peer.ssl, &byte, 1)) < 0 && SSL_get_error(peer.ssl, got) == SSL_ERROR_WANT_READ)
        ;
    assert_int_equal(SSL_get_error(peer.ssl, got), SSL_ERROR_ZERO_RETURN);
    close_peer();
    close_tls(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_link),
        cmocka_unit_test(a_link_over_a_unix_socket),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(a_loop_may_be_too_eager),
        cmocka_unit_test(an_address_of_no_kind),
        cmocka_unit_test(a_certificate_must_be_for_the_name),
        cmocka_unit_test(a_certificate_may_be_for_an_address),
        cmocka_unit_test(an_authority_must_be_known),
        cmocka_unit_test(who_does_not_verify_takes_any),
        cmocka_unit_test(old_versions_are_refused),
        cmocka_unit_test(a_peer_may_want_a_certificate),
        cmocka_unit_test(a_peer_without_tls),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
        cmocka_unit_test(a_slow_peer_takes_a_long_write_in_parts),
        cmocka_unit_test(more_may_stand_behind_what_is_written_again),
        cmocka_unit_test(a_long_record_is_read_in_parts),
        cmocka_unit_test(keys_may_change),
        cmocka_unit_test(a_peer_that_ends_is_lost),
        cmocka_unit_test(a_closed_link_says_goodbye),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
