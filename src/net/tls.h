/* TLS by OpenSSL over memory: encrypted bytes in and out, no sockets. */
#ifndef CDL_NET_TLS_H
#define CDL_NET_TLS_H

#include "base/slice.h"
#include "caudal/status.h"

struct cdl_tls_context; /* certificate, key, who may be a client; shared by connections */
struct cdl_tls;         /* one connection */

struct cdl_tls_files {
    const char *certificate; /* PEM, with its chain */
    const char *key;         /* PEM */
    const char *client_ca;   /* PEM; not NULL: clients must show a certificate of one of these authorities */
    const char *protocol;    /* what is spoken inside, by the name that ALPN has for it: "h2"; NULL: nobody is asked */
};

/* A server's context: TLS 1.2 or later. NULL on failure, which names the file. A client that names protocols, and `protocol` is not
 * among them, is turned away; one that names none knows what it does. `protocol` must outlive the context. */
struct cdl_tls_context *cdl_tls_context_new(const struct cdl_tls_files *files, struct caudal_problem *problem);
void cdl_tls_context_free(struct cdl_tls_context *context);

struct cdl_tls *cdl_tls_new(struct cdl_tls_context *context);
void cdl_tls_free(struct cdl_tls *tls);

/* Takes bytes from the network. False: memory is short. */
bool cdl_tls_feed(struct cdl_tls *tls, struct cdl_slice bytes);
/* Decrypts up to `size` bytes. Returns how many, 0 when there are no more for now, -1 when the connection is over. */
int cdl_tls_read(struct cdl_tls *tls, char *buffer, size_t size);
/* Whether the peer has begun something, a handshake or a record, and not finished it. */
bool cdl_tls_is_midway(const struct cdl_tls *tls);
/* Encrypts bytes. False: the connection is over. */
bool cdl_tls_write(struct cdl_tls *tls, struct cdl_slice bytes);
/* Bytes for the network, handshake included, up to `size`; 0 when there are none. */
size_t cdl_tls_drain(struct cdl_tls *tls, char *buffer, size_t size);
/* Says goodbye; drain once more afterwards. */
void cdl_tls_shutdown(struct cdl_tls *tls);

#endif
