/* Parameters of a store's URL: name=number pairs joined by '&'. */
#ifndef CDL_STORE_URL_H
#define CDL_STORE_URL_H

#include <stddef.h>
#include <stdint.h>

#include "caudal/status.h"

struct cdl_url_number {
    const char *name;
    uint64_t least, most;
    uint64_t *value; /* left alone when the parameter is absent */
};

/* Reads `parameters` (NUL-terminated; empty is fine), which stand at `position` of the URL. Each name may occur once. */
int cdl_url_numbers(const char *parameters, size_t position, const struct cdl_url_number *numbers, size_t count,
                    struct caudal_problem *problem);

#endif
