/* Scales: which round values stand at an axis, and what is written there. Pure. */
#ifndef CDL_REPLAY_CHART_SCALE_H
#define CDL_REPLAY_CHART_SCALE_H

#include <stddef.h>
#include <stdint.h>

/* The distance of round numbers (1, 2 or 5 times a power of ten) that put at most `most` of them between 0 and `top`, both ends left
 * out. `top` > 0. */
double cdl_scale_step(double top, unsigned most);

/* The distance of round instants that put at most `most` of them into a length of time: from a second to years, as clocks and calendars
 * are divided. */
int64_t cdl_scale_time_step(int64_t length_ns, unsigned most);

/* What is written at an instant that is a multiple of step_ns: the time of day, or the day; and below it the day, or the year. UTC. */
void cdl_scale_time_label(int64_t at_ns, int64_t step_ns, char upper[16], char lower[16]);

#endif
