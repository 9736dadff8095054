/* Where a Redis or Valkey is and how it is spoken to: what the URL of a store says.
 *
 *     redis://user:pass@host:port/db?…      one server, or one name in front of several
 *     rediss://…                            the same over TLS
 *     unix:/path/to/socket?…                the same on this machine
 *     redis-sentinel://h1:26379,h2/name/db?…  the primary that the sentinels name
 *     redis-cluster://h1:6379,h2?…          a cluster, found by any of its nodes
 *
 * Parameters: see caudal/store.h. */
#ifndef CDL_REDIS_CONFIG_H
#define CDL_REDIS_CONFIG_H

#include <stdbool.h>

#include "base/memory.h"
#include "base/slice.h"
#include "caudal/status.h"

#define CDL_REDIS_SEEDS_MAX 16u

enum cdl_redis_kind {
    CDL_REDIS_SINGLE,
    CDL_REDIS_SENTINEL,
    CDL_REDIS_CLUSTER,
};

/* A server's place. `host` is an address in figures, a name, or the path of a Unix socket (then port is 0). NUL-terminated. */
struct cdl_redis_place {
    char host[256];
    uint16_t port;
};

struct cdl_redis_config {
    enum cdl_redis_kind kind;
    struct cdl_redis_place seeds[CDL_REDIS_SEEDS_MAX]; /* of a sentinel group: the sentinels */
    uint32_t seed_count;
    char *primary;                           /* the name that sentinels know the primary by; NULL otherwise */
    char *user, *password;                   /* NULL: none */
    char *sentinel_user, *sentinel_password; /* NULL: none */
    uint32_t database;
    bool tls;
    bool tls_verify;                          /* default true */
    char *tls_ca, *tls_certificate, *tls_key; /* files; NULL: the system's authorities, no client certificate */
    char *tls_name;                           /* the name that the certificate must have; NULL: the host's */
    uint32_t protocol;                        /* 2 or 3; 0: 3 where the server knows it */
    char *prefix;                             /* of key names; default "caudal" */
    int64_t deadline_ns;                      /* of a call; default 15 ms */
    int64_t connect_timeout_ns;               /* of connecting and greeting; default 1 s */
    uint32_t connections;                     /* per client and server; default 1 */
    uint32_t clients;                         /* of the blocking functions: threads that may wait at once; default 8 */
    uint32_t in_flight;                       /* calls per connection that are not answered; default 4096 */
    uint32_t breaker;                         /* consecutive time-outs after which calls fail at once; default 5 */
    uint32_t wait_replicas;                   /* replicas that must confirm a write; default 0 */
    struct caudal_allocator allocator;
};

/* Reads the URL of a store, whose scheme has been found to be one of ours. Credentials that it names by file or by variable of the
 * environment are read now. On failure nothing is left behind, and the message holds no secret. */
int cdl_redis_config_read(const char *url, const struct caudal_allocator *allocator, struct cdl_redis_config *config,
                          struct caudal_problem *problem);
/* Forgets secrets before it frees. */
void cdl_redis_config_free(struct cdl_redis_config *config);

#endif
