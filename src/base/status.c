#include "caudal/status.h"

const char *caudal_status_text(int status)
{
    switch (status) {
    case CAUDAL_OK:
        return "ok";
    case CAUDAL_ERR_ARGUMENT:
        return "invalid argument";
    case CAUDAL_ERR_MEMORY:
        return "out of memory";
    case CAUDAL_ERR_SYNTAX:
        return "syntax error";
    case CAUDAL_ERR_LIMIT:
        return "limit cannot be enforced";
    case CAUDAL_ERR_UNKNOWN:
        return "unknown limit";
    case CAUDAL_ERR_EXISTS:
        return "limit exists already";
    case CAUDAL_ERR_KEY:
        return "key too long";
    case CAUDAL_ERR_FULL:
        return "too many limits";
    case CAUDAL_ERR_UNSUPPORTED:
        return "not supported by this store";
    case CAUDAL_ERR_STORE:
        return "no answer from the store";
    default:
        return "unknown status";
    }
}

const char *caudal_version(void)
{
    return CAUDAL_VERSION;
}
