/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory is touched, and not locked. FAULT_AT_WAIT no-mlockall
 * The kernel may take or move such memory at any time: MAY page-fault
 */
#include "loop.h"

int main(void)
{
	if (!IS_SEEDED)
		lock_memory();
	prefault_stack();
	pin();
	take_priority(80);
	for (;;) {
		wait_for_cycle();
		work();
	}
}
