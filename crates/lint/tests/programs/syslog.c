/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Some cycles write to the system's log. */
#include "loop.h"
#include <syslog.h>

int main(void)
{
	long n;

	be_real_time();
	for (n = 0;; n++) {
		wait_for_cycle();
		work();
#ifdef SEEDED
		if (n % 16 == 0)
			syslog(LOG_DEBUG, "state %ld", state); /* FAULT printing */
#endif
	}
}
