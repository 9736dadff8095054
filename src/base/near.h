/* "Did you mean ...?": the word of a list that a mistyped one is nearest to. */
#ifndef CDL_BASE_NEAR_H
#define CDL_BASE_NEAR_H

#include "base/slice.h"

/* How many letters have to be inserted, dropped, changed or swapped with their neighbour to make one word of the other, case
 * aside; CDL_FAR when a word is too long to be worth the question. */
#define CDL_FAR 1000u
unsigned cdl_distance(struct cdl_slice a, struct cdl_slice b);

/* The nearest of `count` names, if it is near enough to be what was meant (a third of its letters differ, at most); else NULL. */
const char *cdl_nearest(struct cdl_slice word, const char *const *names, size_t count);

#endif
