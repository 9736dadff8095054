/* A limit: how much is allowed in how long, and by which algorithm.
 *
 *   token_bucket    capacity `burst`, refilled at count/period: at most burst + count·t/period in any interval t, attained.
 *                   J. Turner, "New directions in communications", IEEE Comm. Mag. 24(10), 1986; its mirror image is
 *                   the GCRA of ITU-T I.371.
 *   fixed_window    at most `count` in each window of `period` aligned to the epoch; up to 2·count across an edge.
 *   sliding_window  previous window weighted by the part of it still inside, plus the current one; compared exactly. Smooth;
 *                   worst case near 2·count in a rolling period.
 *   sliding_log     every admitted cost with its instant: at most `count` in every rolling period, exactly. count <= 10,000.
 *   unlimited       admits everything and keeps no state; it has no count, no period and no burst.
 */
#ifndef CAUDAL_LIMIT_H
#define CAUDAL_LIMIT_H

#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum caudal_algorithm {
    CAUDAL_TOKEN_BUCKET = 0,   /* what each promises: above */
    CAUDAL_FIXED_WINDOW = 1,   /* the same */
    CAUDAL_SLIDING_WINDOW = 2, /* the same */
    CAUDAL_SLIDING_LOG = 3,    /* the same */
    CAUDAL_UNLIMITED = 4,      /* no limit at all */
};

/* `burst` left to the library: a token bucket's capacity is then its count. */
#define CAUDAL_BURST_DEFAULT UINT64_MAX

/* Bounds of what can be enforced exactly; caudal_limit_check refuses what lies outside. */
#define CAUDAL_RATE_MAX_PER_SECOND 1000000000u  /* count/period: one token a nanosecond */
#define CAUDAL_CAPACITY_MAX (UINT64_C(1) << 40) /* burst of a bucket, count of a window */
#define CAUDAL_LOG_COUNT_MAX 10000u             /* count of a sliding_log */
/* 100 years: from empty to full, and a period. */
#define CAUDAL_REFILL_MAX_NS (UINT64_C(36525) * 24 * 3600 * 1000000000u)

/* Plain data; copy it freely. Set `size` to sizeof(struct caudal_limit), or start from CAUDAL_LIMIT_INIT, so that the
 * struct can grow. */
struct caudal_limit {
    size_t size;
    enum caudal_algorithm algorithm;
    uint64_t count;     /* tokens per period, or requests per window; 0 is legal: such a bucket never refills */
    uint64_t period_ns; /* nanoseconds, > 0; 0 for unlimited */
    uint64_t burst;     /* a token_bucket's capacity; CAUDAL_BURST_DEFAULT: its count, or not a token_bucket */
};

#define CAUDAL_LIMIT_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(struct caudal_limit), CAUDAL_TOKEN_BUCKET, 0, 0, CAUDAL_BURST_DEFAULT                                   \
    }

/**
 * Reads a limit from text.
 *
 *     limit     = "unlimited" | rate { option }
 *     rate      = COUNT "/" [N] UNIT | COUNT "per" [N] UNIT
 *     option    = "burst" N | ALGORITHM          (each at most once, in any order)
 *     ALGORITHM = "token_bucket" | "fixed_window" | "sliding_window" | "sliding_log"
 *     UNIT      = ns | us | ms | s | m, min | h | d | w | month (30 d) | year (365 d), or the long name, singular or plural
 *
 * Words are separated by blanks (spaces and tabs), which may be left out around '/' and between N and UNIT; letters may
 * be of either case; numbers are decimal and may use '_' between digits. The text is at most 1024 bytes long.
 * "100/minute burst 20", "5000 per 10 s sliding_window", "10/30s".
 *
 * @param text     NUL-terminated text
 * @param limit    receives the limit; untouched on failure
 * @param problem  receives position and explanation on failure; may be NULL
 * @return CAUDAL_OK; CAUDAL_ERR_ARGUMENT for NULL text or limit; CAUDAL_ERR_SYNTAX; CAUDAL_ERR_LIMIT for what
 *         caudal_limit_check refuses, numbers that do not fit 64 bits included; position is that of the word to change
 *
 * Thread-safe.
 */
CAUDAL_API int caudal_limit_parse(const char *text, struct caudal_limit *limit, struct caudal_problem *problem);

/**
 * Writes a limit as text that caudal_limit_parse reads back to the same limit, field by field: "100/min burst 20". The
 * period is in the longest of w, d, h, min, s, ms, us and ns that divides it; burst is left out when it is
 * CAUDAL_BURST_DEFAULT, the algorithm when it is token_bucket.
 *
 * @param limit   a limit that caudal_limit_check accepts
 * @param buffer  receives the text, NUL-terminated and cut to fit; may be NULL when size is 0
 * @param size    bytes at buffer
 * @return the length of the whole text without its NUL, as snprintf does (so a result >= size means that it was cut);
 *         CAUDAL_ERR_ARGUMENT or CAUDAL_ERR_LIMIT for a limit that is not legal
 *
 * Thread-safe. CAUDAL_LIMIT_TEXT_MAX bytes are always enough.
 */
CAUDAL_API int caudal_limit_format(const struct caudal_limit *limit, char *buffer, size_t size);

#define CAUDAL_LIMIT_TEXT_MAX 128

/**
 * Says whether a limit can be enforced.
 *
 * Refused: an unknown algorithm; period 0 or above CAUDAL_REFILL_MAX_NS; a rate above CAUDAL_RATE_MAX_PER_SECOND; a
 * capacity above CAUDAL_CAPACITY_MAX; a bucket that takes longer than CAUDAL_REFILL_MAX_NS to refill (a rate of 0 is
 * exempt: such a bucket never refills, by choice); a count above CAUDAL_LOG_COUNT_MAX for a sliding_log; a burst on
 * anything but a token_bucket. Of these only the first and the last hold for unlimited; a count or a period on it is
 * refused too.
 *
 * @param limit    the limit
 * @param problem  receives the reason on failure; may be NULL
 * @return CAUDAL_OK, CAUDAL_ERR_ARGUMENT (NULL, unknown size or algorithm) or CAUDAL_ERR_LIMIT
 *
 * Thread-safe.
 */
CAUDAL_API int caudal_limit_check(const struct caudal_limit *limit, struct caudal_problem *problem);

/**
 * The most that can ever be taken at once: a bucket's burst, a window's count.
 *
 * @param limit  a legal limit
 * @return tokens; UINT64_MAX for unlimited; 0 for NULL
 *
 * Thread-safe.
 */
CAUDAL_API uint64_t caudal_limit_capacity(const struct caudal_limit *limit);

/**
 * The name of an algorithm as the grammar spells it.
 *
 * @param algorithm  a value of enum caudal_algorithm
 * @return a constant string; NULL for a value that is not on the list
 *
 * Thread-safe.
 */
CAUDAL_API const char *caudal_algorithm_name(enum caudal_algorithm algorithm);

#ifdef __cplusplus
}
#endif
#endif
