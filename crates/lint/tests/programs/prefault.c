/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A new thread's stack is locked as it is touched, and it is not touched. FAULT_AT_WAIT no-stack-prefault */
#include "loop.h"

static void *loops(void *unused)
{
	if (!IS_SEEDED)
		prefault_stack();
	pin();
	take_priority(80);
	for (;;) {
		wait_for_cycle();
		work();
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	/* All that is there, such as constants that a cycle reads once in a second. */
	check(mlockall(MCL_CURRENT) == 0, "mlockall");
	check(mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0, "mlockall");
	check(pthread_create(&thread, NULL, loops, NULL) == 0, "pthread_create");
	return pthread_join(thread, NULL);
}
