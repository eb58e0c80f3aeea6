/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each cycle prints a line. */
#include "loop.h"

int main(void)
{
	be_real_time();
	for (;;) {
		wait_for_cycle();
		work();
#ifdef SEEDED
		printf("state %ld\n", state); /* FAULT printing */
#endif
	}
}
