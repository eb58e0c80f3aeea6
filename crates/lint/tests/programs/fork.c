/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Some cycles start a process. */
#include "loop.h"
#include <signal.h>

int main(void)
{
	long n;

	signal(SIGCHLD, SIG_IGN);
	be_real_time();
	for (n = 1;; n++) {
		wait_for_cycle();
		work();
#ifdef SEEDED
		if (n % 16 == 0 && fork() == 0) /* FAULT fork */
			_exit(0);
#endif
	}
}
