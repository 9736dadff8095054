#include "net/tls.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/problem.h"

struct cdl_tls_context {
    SSL_CTX *ssl;
    const char *protocol;
};

struct cdl_tls {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
};

/* The latest of OpenSSL's complaints, in its words. */
static int complain(struct caudal_problem *problem, const char *what, const char *file)
{
    char reason[128] = "unknown reason";
    const unsigned long error = ERR_peek_last_error();
    if (error != 0)
        ERR_error_string_n(error, reason, sizeof reason);
    ERR_clear_error();
    return cdl_problem(problem, CAUDAL_ERR_ARGUMENT, 0, "TLS: %s %s: %s", what, file, reason);
}

static bool load_files(SSL_CTX *ssl, const struct cdl_tls_files *files, struct caudal_problem *problem)
{
    if (SSL_CTX_use_certificate_chain_file(ssl, files->certificate) != 1) {
        complain(problem, "cannot use the certificate", files->certificate);
        return false;
    }
    if (SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ssl) != 1) {
        complain(problem, "cannot use the key", files->key);
        return false;
    }
    if (files->client_ca == NULL)
        return true;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->client_ca);
    if (names == NULL || SSL_CTX_load_verify_locations(ssl, files->client_ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        complain(problem, "cannot use the clients' authorities", files->client_ca);
        return false;
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return true;
}

/* Names stand in `offered` with their length before them. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
                           unsigned offered_length, void *data)
{
    (void)ssl;
    const struct cdl_tls_context *context = data;
    const size_t wanted = strlen(context->protocol);
    for (unsigned at = 0; at < offered_length; at += 1u + offered[at]) {
        if (offered[at] != wanted || at + wanted >= offered_length ||
            memcmp(offered + at + 1, context->protocol, wanted) != 0)
            continue;
        *chosen = offered + at + 1;
        *length = offered[at];
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

struct cdl_tls_context *cdl_tls_context_new(const struct cdl_tls_files *files, struct caudal_problem *problem)
{
    struct cdl_tls_context *context = calloc(1, sizeof *context);
    if (context != NULL)
        context->ssl = SSL_CTX_new(TLS_server_method());
    if (context == NULL || context->ssl == NULL) {
        free(context);
        complain(problem, "no memory for", "a context");
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(context->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context->ssl, SSL_MODE_RELEASE_BUFFERS);
    /* Without a name for where a session is good, OpenSSL breaks off with a client that shows its certificate by resuming one. */
    static const unsigned char name[] = "caudal";
    SSL_CTX_set_session_id_context(context->ssl, name, sizeof name - 1);
    context->protocol = files->protocol;
    if (files->protocol != NULL)
        SSL_CTX_set_alpn_select_cb(context->ssl, choose_protocol, context);
    if (load_files(context->ssl, files, problem))
        return context;
    cdl_tls_context_free(context);
    return NULL;
}

void cdl_tls_context_free(struct cdl_tls_context *context)
{
    if (context == NULL)
        return;
    SSL_CTX_free(context->ssl);
    free(context);
}

struct cdl_tls *cdl_tls_new(struct cdl_tls_context *context)
{
    struct cdl_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return NULL;
    tls->ssl = SSL_new(context->ssl);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->in == NULL || tls->out == NULL) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_accept_state(tls->ssl);
    return tls;
}

void cdl_tls_free(struct cdl_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    free(tls);
}

bool cdl_tls_feed(struct cdl_tls *tls, struct cdl_slice bytes)
{
    return bytes.length == 0 ||
           (bytes.length <= INT_MAX && BIO_write(tls->in, bytes.bytes, (int)bytes.length) == (int)bytes.length);
}

int cdl_tls_read(struct cdl_tls *tls, char *buffer, size_t size)
{
    ERR_clear_error();
    const int got = SSL_read(tls->ssl, buffer, size > INT_MAX ? INT_MAX : (int)size);
    if (got > 0)
        return got;
    const int error = SSL_get_error(tls->ssl, got);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

bool cdl_tls_is_midway(const struct cdl_tls *tls)
{
    return SSL_in_init(tls->ssl) || SSL_has_pending(tls->ssl) || BIO_pending(tls->in) > 0;
}

bool cdl_tls_write(struct cdl_tls *tls, struct cdl_slice bytes)
{
    ERR_clear_error();
    return bytes.length == 0 || SSL_write(tls->ssl, bytes.bytes, (int)bytes.length) == (int)bytes.length;
}

size_t cdl_tls_drain(struct cdl_tls *tls, char *buffer, size_t size)
{
    const int got = BIO_read(tls->out, buffer, size > INT_MAX ? INT_MAX : (int)size);
    return got > 0 ? (size_t)got : 0;
}

void cdl_tls_shutdown(struct cdl_tls *tls)
{
    ERR_clear_error();
    SSL_shutdown(tls->ssl);
}
