/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A record of what was measured grows as needed. */
#include "loop.h"

enum { ROOM = 1 << 20 };

int main(void)
{
	static long kept[ROOM];
	long *values = kept, count = 0;

	values = IS_SEEDED ? NULL : kept;
	be_real_time();
	for (;;) {
		wait_for_cycle();
		work();
#ifdef SEEDED
		values = realloc(values, (count % 4096 + 1) * sizeof(*values)); /* FAULT allocation */
#endif
		values[count++ % 4096] = state;
	}
}
