/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A recursion goes deeper and deeper, below the stack that was prefaulted. */
#include "loop.h"

enum { LEVELS = 1500 };

static __attribute__((noinline)) int
go(int levels) { volatile char page[4096]; page[0] = 1; return levels ? go(levels - 1) + page[0] : 0; } /* FAULT page-fault */

int main(void)
{
	int n;

	be_real_time();
#ifndef SEEDED
	go(LEVELS);
#endif
	for (n = 0;; n++) {
		wait_for_cycle();
		state += go(n / 8 % LEVELS);
	}
}
