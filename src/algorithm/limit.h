/* What limit.c and limit_text.c share: the check of a limit that was read from a text can point into that text. */
#ifndef CDL_ALGORITHM_LIMIT_H
#define CDL_ALGORITHM_LIMIT_H

#include "caudal/limit.h"

/* Where in a text the parts of a limit stand, in bytes from its start. All zero for a limit that came as numbers. */
struct cdl_limit_places {
    size_t count;
    size_t period;
    size_t burst; /* read only when the limit has a burst of its own */
};

/* caudal_limit_check, but that a refusal's position is the place of the part that has to change. */
int cdl_limit_check_at(const struct caudal_limit *limit, const struct cdl_limit_places *places,
                       struct caudal_problem *problem);

#endif
