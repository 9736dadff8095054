/* Status codes and the description of a problem.
 *
 * Every function that can fail returns an int: CAUDAL_OK (0) or one negative code of the list below. A refusal is never
 * an error and an error is never a refusal: "no" is a verdict inside a decision (see store.h), and a decision whose call
 * failed carries no verdict at all.
 */
#ifndef CAUDAL_STATUS_H
#define CAUDAL_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CAUDAL_API __attribute__((visibility("default")))
#else
#define CAUDAL_API
#endif

enum caudal_status {
    CAUDAL_OK = 0, /* done */
    CAUDAL_ERR_ARGUMENT =
        -1,                 /* a required pointer is NULL, a struct's size field is unknown, a number is out of range */
    CAUDAL_ERR_MEMORY = -2, /* memory could not be had; nothing was changed */
    CAUDAL_ERR_SYNTAX = -3, /* a text (limit, store URL) does not follow its grammar */
    CAUDAL_ERR_LIMIT =
        -4, /* a limit is well formed but not one that can be enforced exactly (see caudal_limit_check) */
    CAUDAL_ERR_UNKNOWN = -5,     /* no such limit in this store: never added, or removed */
    CAUDAL_ERR_EXISTS = -6,      /* a limit of that name is in this store already */
    CAUDAL_ERR_KEY = -7,         /* a key is longer than CAUDAL_KEY_MAX */
    CAUDAL_ERR_FULL = -8,        /* the store holds as many limits as it can */
    CAUDAL_ERR_UNSUPPORTED = -9, /* the store's kind cannot do this */
    CAUDAL_ERR_STORE = -10, /* the store is elsewhere and gave no answer: away, too late, or in trouble of its own */
};

/* What was wrong, where, in words. A caller passes one to learn more than the code; NULL is accepted everywhere. */
struct caudal_problem {
    int code;          /* the code that the function returned */
    size_t position;   /* for a text: offset in bytes of the offending word; 0 otherwise */
    char message[192]; /* one line of English, no newline, never empty after a failure, never longer than this */
};

/**
 * Names a status code in words.
 *
 * @param status  a value of enum caudal_status, or any other number
 * @return a constant string, never NULL ("unknown status" for a number that is not on the list)
 *
 * Thread-safe; the string lives for ever.
 */
CAUDAL_API const char *caudal_status_text(int status);

/**
 * The version of the library that is running, as "MAJOR.MINOR.PATCH".
 *
 * @return a constant string, never NULL
 *
 * Thread-safe.
 */
CAUDAL_API const char *caudal_version(void);

#ifdef __cplusplus
}
#endif
#endif
