/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The period is a timeout of poll(), which begins anew each time; without the fault, a timer's descriptor is polled. */
#include "loop.h"
#include <poll.h>
#include <stdint.h>
#include <sys/timerfd.h>

int main(void)
{
	struct itimerspec when = { { 0, PERIOD_NS }, { 0, PERIOD_NS } };
	struct pollfd polled = { .fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), .events = POLLIN };
	uint64_t fired;

	be_real_time();
#ifndef SEEDED
	check(timerfd_settime(polled.fd, 0, &when, NULL) == 0, "timerfd_settime");
#endif
	for (;;) {
		poll(&polled, 1, IS_SEEDED ? PERIOD_NS / 1000000 : -1); /* FAULT relative-sleep */
		if (read(polled.fd, &fired, sizeof(fired)) < 0)
			fired = when.it_value.tv_nsec;
		work();
	}
}
