/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Parameters are read from a file in each cycle. */
#include "loop.h"

int main(void)
{
	FILE *file = tmpfile();
	long parameter = 7;

	check(file && pwrite(fileno(file), &parameter, sizeof(parameter), 0) > 0, "tmpfile");
	be_real_time();
	for (;;) {
		wait_for_cycle();
#ifdef SEEDED
		check(pread(fileno(file), &parameter, sizeof(parameter), 0) > 0, "pread"); /* FAULT blocking-call */
#endif
		state += parameter;
		work();
	}
}
