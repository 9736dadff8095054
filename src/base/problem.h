/* Filling in a caudal_problem: one line of words for a person, beside the code for a program. */
#ifndef CDL_BASE_PROBLEM_H
#define CDL_BASE_PROBLEM_H

#include "caudal/status.h"

/* Records a failure and returns `code`, so that a caller can `return cdl_problem(...)`. `problem` may be NULL. A message
 * that is too long is cut; control characters that come from outside are shown as '?', so it is always one line. */
__attribute__((format(printf, 4, 5))) int cdl_problem(struct caudal_problem *problem, int code, size_t position,
                                                      const char *format, ...);

#endif
