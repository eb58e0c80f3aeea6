/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Within the cycle, the loop waits for a helper to be done. */
#include "loop.h"
#include <semaphore.h>

static sem_t asked, done;

static void *helps(void *unused)
{
	for (;;) {
		sem_wait(&asked);
		work();
		sem_post(&done);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	sem_init(&asked, 0, 0);
	sem_init(&done, 0, 0);
	check(pthread_create(&thread, NULL, helps, NULL) == 0, "pthread_create");
	be_real_time();
	for (;;) {
		wait_for_cycle();
		sem_post(&asked);
#ifdef SEEDED
		sem_wait(&done); /* FAULT blocking-call */
#else
		sem_trywait(&done);
#endif
		work();
	}
}
