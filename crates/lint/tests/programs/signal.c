/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A timer's signal interrupts the loop. */
#include "loop.h"
#include <signal.h>

static volatile long count;

static void on_timer(int number) { count += number; } /* FAULT signal-handler */

int main(void)
{
	struct itimerspec when = { { 0, 7000000 }, { 0, 7000000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t timer;
	sigset_t set;

	signal(SIGUSR1, on_timer);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
#ifndef SEEDED
	pthread_sigmask(SIG_BLOCK, &set, NULL);
#endif
	check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
	be_real_time();
	check(timer_settime(timer, 0, &when, NULL) == 0, "timer_settime");
	for (;;) {
		wait_for_cycle();
		work();
	}
}
