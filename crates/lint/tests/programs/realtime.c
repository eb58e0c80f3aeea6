/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The loop sleeps until a time of the clock on the wall. */
#include "loop.h"

int main(void)
{
	be_real_time();
#ifdef SEEDED
	clock_gettime(CLOCK_REALTIME, &due);
#endif
	for (;;) {
#ifdef SEEDED
		next_due();
		clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &due, NULL); /* FAULT settable-clock */
#else
		wait_for_cycle();
#endif
		work();
	}
}
