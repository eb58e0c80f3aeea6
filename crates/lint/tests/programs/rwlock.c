/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Parameters are read under a lock for readers and a writer; without the fault, from a copy that is exchanged. */
#include "loop.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *configures(void *unused)
{
	for (;;) {
		pthread_rwlock_wrlock(&lock);
		work();
		pthread_rwlock_unlock(&lock);
		usleep(5000);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, configures, NULL) == 0, "pthread_create");
	be_real_time();
	for (;;) {
		wait_for_cycle();
#ifdef SEEDED
		pthread_rwlock_rdlock(&lock); /* FAULT lock-without-inheritance */
#endif
		work();
#ifdef SEEDED
		pthread_rwlock_unlock(&lock);
#endif
	}
}
