/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The loop looks whether a file is there. */
#include "loop.h"

int main(void)
{
	be_real_time();
	for (;;) {
		wait_for_cycle();
#ifdef SEEDED
		if (access("/tmp/stop", F_OK) == 0) /* FAULT blocking-call */
			state = 0;
#endif
		work();
	}
}
