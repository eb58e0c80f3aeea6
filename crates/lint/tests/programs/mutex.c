/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The state is shared with a thread that logs it, under a mutex. */
#include "loop.h"

static pthread_mutex_t mutex;

static void *logs(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		work();
		pthread_mutex_unlock(&mutex);
		usleep(5000);
	}
	return unused;
}

int main(void)
{
	pthread_mutexattr_t how;
	pthread_t thread;

	pthread_mutexattr_init(&how);
#ifndef SEEDED
	pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT);
#endif
	pthread_mutex_init(&mutex, &how);
	check(pthread_create(&thread, NULL, logs, NULL) == 0, "pthread_create");
	be_real_time();
	for (;;) {
		wait_for_cycle();
		pthread_mutex_lock(&mutex); /* FAULT lock-without-inheritance */
		work();
		pthread_mutex_unlock(&mutex);
	}
}
