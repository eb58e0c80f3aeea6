/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A filter's state decays to denormal numbers. FAULT_AT_WAIT denormals */
#include "loop.h"

int main(void)
{
	volatile float level = 1;
	long n;

	be_real_time();
	for (n = 0;; n++) {
		wait_for_cycle();
		work();
		level = level * 0.5f;
		if (n % 2000 == 0 || (!IS_SEEDED && level < 1e-20f))
			level = 1;
	}
}
