/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The loop sleeps for a time. */
#include "loop.h"

int main(void)
{
	be_real_time();
	for (;;) {
#ifdef SEEDED
		usleep(PERIOD_NS / 1000); /* FAULT relative-sleep */
#else
		wait_for_cycle();
#endif
		work();
	}
}
