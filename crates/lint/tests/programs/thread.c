/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Some cycles start a thread. */
#include "loop.h"

#ifdef SEEDED
static void *does_nothing(void *unused)
{
	return unused;
}
#endif

int main(void)
{
	pthread_attr_t how;
	long n;

	pthread_attr_init(&how);
	pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
	be_real_time();
	for (n = 1;; n++) {
		wait_for_cycle();
		work();
#ifdef SEEDED
		pthread_t thread;
		if (n % 16 == 0)
			pthread_create(&thread, &how, does_nothing, NULL); /* FAULT fork */
#endif
	}
}
