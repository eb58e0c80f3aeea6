/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The thread may run on every CPU. FAULT_AT_WAIT wide-affinity */
#include "loop.h"

int main(void)
{
	lock_memory();
	prefault_stack();
	if (!IS_SEEDED)
		pin();
	take_priority(80);
	for (;;) {
		wait_for_cycle();
		work();
	}
}
