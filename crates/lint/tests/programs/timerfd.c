/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A timer of the clock on the wall releases the loop. */
#include "loop.h"
#include <stdint.h>
#include <sys/timerfd.h>

int main(void)
{
	struct itimerspec when = { { 0, PERIOD_NS }, { 0, PERIOD_NS } };
	int timer = timerfd_create(IS_SEEDED ? CLOCK_REALTIME : CLOCK_MONOTONIC, 0);
	uint64_t fired;

	be_real_time();
	check(timerfd_settime(timer, 0, &when, NULL) == 0, "timerfd_settime");
	for (;;) {
		check(read(timer, &fired, sizeof(fired)) == sizeof(fired), "read"); /* FAULT settable-clock */
		work();
	}
}
