/* The Lua scripts that decide inside the store: the files of lua/, put together so that a call carries out no more than its algorithms need. */
#ifndef CDL_REDIS_SCRIPT_H
#define CDL_REDIS_SCRIPT_H

#include "base/slice.h"

enum cdl_redis_script_kind {
    CDL_SCRIPT_BUCKET, /* token buckets only */
    CDL_SCRIPT_WINDOW, /* windows only */
    CDL_SCRIPT_LOG,    /* logs only */
    CDL_SCRIPT_MIXED,
    CDL_SCRIPT_KINDS,
};

struct cdl_redis_script {
    struct cdl_slice text;
    struct cdl_slice sha; /* SHA-1 in 40 digits, as EVALSHA wants it */
};

/* The scripts, CDL_SCRIPT_KINDS of them; put together once. NULL: memory is short. Any thread. */
const struct cdl_redis_script *cdl_redis_scripts(void);

#endif
