/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The state is shared with a thread that logs it, under a spin lock. */
#include "loop.h"

static pthread_spinlock_t lock;

static void *logs(void *unused)
{
	for (;;) {
		pthread_spin_lock(&lock);
		work();
		pthread_spin_unlock(&lock);
		usleep(5000);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	check(pthread_create(&thread, NULL, logs, NULL) == 0, "pthread_create");
	be_real_time();
	for (;;) {
		wait_for_cycle();
#ifdef SEEDED
		pthread_spin_lock(&lock); /* FAULT lock-without-inheritance */
#endif
		work();
#ifdef SEEDED
		pthread_spin_unlock(&lock);
#endif
	}
}
