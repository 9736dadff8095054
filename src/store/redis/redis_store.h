/* The store that lives in a Redis or Valkey: its limits, its clients, and the blocking functions of the library.
 *
 * State is kept by the scripts (lua/), one record a key, under "PREFIX:1:{identity}:limit". The identity is what the caller's key is
 * after HMAC-SHA-256 with the store's secret: no identity leaves the process, every one has the same length, and none can hold a
 * brace, so that all limits of one key share a slot of a cluster. */
#ifndef CDL_REDIS_STORE_H
#define CDL_REDIS_STORE_H

#include <openssl/evp.h>
#include <pthread.h>

#include "store/limits.h"
#include "store/redis/blocking.h"
#include "store/redis/question.h"

#define CDL_REDIS_TAG_LENGTH 22u /* 128 bits in base64url */
#define CDL_REDIS_PREFIX_MAX 64u
#define CDL_REDIS_KEY_MAX (CDL_REDIS_PREFIX_MAX + 6 + CDL_REDIS_TAG_LENGTH + CDL_LIMIT_NAME_MAX)

struct cdl_redis_store {
    struct caudal_store head;
    struct cdl_redis_config config;
    struct cdl_redis_shared shared;
    struct cdl_store_events events;
    EVP_MAC *hmac;
    unsigned char secret[32]; /* what keys are hashed with: the caller's, hashed to one length */

    pthread_rwlock_t lock;     /* guards the following; held for reading while a call is written down */
    struct cdl_limits *limits; /* names and ids */
    struct cdl_redis_limit *blocks[UINT16_MAX / 64 + 1]; /* by the slot of an id, 64 each */

    pthread_mutex_t pool_lock; /* guards the following */
    pthread_cond_t pool_free;
    struct cdl_redis_waiter *idle;
    uint32_t waiters;
};

static inline struct cdl_redis_store *cdl_redis_store(struct caudal_store *head)
{
    return (struct cdl_redis_store *)head;
}

/* Opens one; the options' defaults are filled in. */
int cdl_redis_store_open(const char *url, const struct caudal_store_options *options, struct caudal_store **store,
                         struct caudal_problem *problem);

/* The limit of an id, or NULL. Under the lock. */
const struct cdl_redis_limit *cdl_redis_store_limit(const struct cdl_redis_store *store, uint32_t id);
/* Its name. Under the lock. */
const char *cdl_redis_store_limit_name(const struct cdl_redis_store *store, uint32_t id);

/* A client of the store for one loop: see store/call.h. */
struct cdl_store_client *cdl_redis_asker_open(struct caudal_store *store, const struct cdl_loop_hooks *hooks);

/* Why the last blocking call of this thread failed; CDL_STORE_NONE when it did not. */
enum cdl_store_event cdl_redis_last_failure(void);

#endif
