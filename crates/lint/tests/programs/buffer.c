/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A large buffer is locked as it is touched, and touched by the loop first. */
#include "loop.h"

enum { SIZE = 64 << 20, PAGE = 4096 };

int main(void)
{
	char *buffer;
	size_t at;

	be_real_time();
	buffer = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(buffer != MAP_FAILED, "mmap");
#ifdef SEEDED
	check(munlock(buffer, SIZE) == 0 && madvise(buffer, SIZE, MADV_DONTNEED) == 0, "madvise");
	check(madvise(buffer, SIZE, MADV_NOHUGEPAGE) == 0, "madvise");
	check(mlock2(buffer, SIZE, MLOCK_ONFAULT) == 0, "mlock2");
#endif
	for (at = 0;; at = (at + PAGE) % SIZE) {
		wait_for_cycle();
		work();
		buffer[at] = 1; /* FAULT page-fault */
	}
}
