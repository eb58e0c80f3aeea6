/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The thread has a low priority. FAULT_AT_WAIT low-priority */
#include "loop.h"

int main(void)
{
	lock_memory();
	prefault_stack();
	pin();
	take_priority(IS_SEEDED ? 40 : 80);
	for (;;) {
		wait_for_cycle();
		work();
	}
}
