/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A buffer is mapped and given back in each cycle. */
#include "loop.h"

enum { SIZE = 64 << 10 };

int main(void)
{
	static char kept[SIZE];
	char *buffer = kept;

	be_real_time();
	for (;;) {
		wait_for_cycle();
#ifdef SEEDED
		buffer = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* FAULT allocation */
#endif
		memset(buffer, 1, SIZE);
		work();
#ifdef SEEDED
		munmap(buffer, SIZE); /* FAULT allocation */
#endif
	}
}
