/* Is this Redis one that limits can rely on? What `caudal doctor` finds out.
 *
 * Judging is pure: texts and numbers that servers have answered become checks, each with what was found and, where something is to be
 * done about it, advice. Only what every user may ask is asked: INFO, TIME, HELLO, CLUSTER INFO, CLUSTER NODES, SENTINEL CKQUORUM and
 * the script itself; CONFIG is often forbidden. */
#ifndef CDL_REDIS_CHECKUP_H
#define CDL_REDIS_CHECKUP_H

#include "caudal/store.h"
#include "store/failure.h"
#include "store/redis/config.h"

#define CDL_CHECKS_MAX 1024u
#define CDL_CHECKUP_NODES_MAX 64u /* of a cluster, that are looked at */
#define CDL_CHECKUP_TAKES 20u     /* of the script */

enum cdl_check_level {
    CDL_CHECK_OK,
    CDL_CHECK_WARN, /* works, and will surprise somebody */
    CDL_CHECK_FAIL, /* limits do not hold, or no decision can be had */
};

struct cdl_check {
    enum cdl_check_level level;
    char place[264];     /* of whom: "127.0.0.1:6379"; empty: of the store as a whole */
    const char *subject; /* "eviction" */
    char found[256];
    const char *advice; /* a constant; NULL: none */
};

struct cdl_checkup {
    struct cdl_check checks[CDL_CHECKS_MAX];
    size_t count; /* beyond CDL_CHECKS_MAX nothing is kept */
};

/* "ok", "warn", "fail". */
const char *cdl_check_level_name(enum cdl_check_level level);
/* The worst of all checks; CDL_CHECK_OK when there is none. */
enum cdl_check_level cdl_checkup_worst(const struct cdl_checkup *checkup);

/* ---- judging ---- */

/* Each adds checks. `place` is of whom the answer is, and is cut when it is long. */

/* Which transport the URL asks for, and whether others could listen. */
void cdl_checkup_transport(struct cdl_checkup *checkup, const struct cdl_redis_config *config);
/* The text of INFO: server, eviction, persistence, replication, and whether the URL is of the right kind for it. */
void cdl_checkup_info(struct cdl_checkup *checkup, const char *place, struct cdl_slice info, enum cdl_redis_kind kind);
/* The server's TIME, in microseconds since 1970, and the readings of this machine's real-time clock around it. */
void cdl_checkup_clock(struct cdl_checkup *checkup, const char *place, int64_t server_us, int64_t before_ns,
                       int64_t after_ns);
/* The text of CLUSTER INFO. */
void cdl_checkup_cluster(struct cdl_checkup *checkup, const char *place, struct cdl_slice info);
/* What a sentinel says to SENTINEL CKQUORUM, an error perhaps. */
void cdl_checkup_quorum(struct cdl_checkup *checkup, const char *place, struct cdl_slice answer, bool is_error);
/* How long `count` calls of the script took, which are sorted by this; `deadline_ns` is what servers wait. */
void cdl_checkup_script(struct cdl_checkup *checkup, int64_t *times_ns, size_t count, int64_t deadline_ns);
/* A question that was not answered: `subject` is what it was about. `error` is the error reply, perhaps empty. */
void cdl_checkup_unanswered(struct cdl_checkup *checkup, const char *place, const char *subject,
                            enum cdl_store_event event, struct cdl_slice error);

/* Reads the place of the next primary of CLUSTER NODES that is not known to have failed. False: there is none. */
bool cdl_checkup_next_primary(struct cdl_slice *nodes, struct cdl_redis_place *place);

/* ---- asking ---- */

struct cdl_redis_tls;

/* Asks all servers of a store all that can be asked without the script. False: none of them has answered. `tls` NULL: plain. */
bool cdl_checkup_servers(struct cdl_checkup *checkup, const struct cdl_redis_config *config, struct cdl_redis_tls *tls);
/* Takes from buckets of its own, which it forgets again. `deadline_ns` as above. */
void cdl_checkup_takes(struct cdl_checkup *checkup, struct caudal_store *store, int64_t deadline_ns);

#endif
