/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The loop reads and writes files of the kernel; without the fault it moves the same bytes through a pipe. */
#include "loop.h"
#include <fcntl.h>
#include <sys/sendfile.h>

enum { BYTES = 64 };

int main(void)
{
	int online = open("/sys/devices/system/cpu/online", O_RDONLY), comm = open("/proc/self/comm", O_RDWR), ends[2];
	char text[BYTES] = "loop";
	off_t from = 0;

	check(online >= 0 && comm >= 0 && pipe(ends) == 0, "open");
	be_real_time();
	for (;;) {
		wait_for_cycle();
		from = 0;
#ifdef SEEDED
		check(pread(online, text, BYTES, 0) > 0, "pread");	      /* FAULT blocking-call */
		check(write(comm, "loop", 4) == 4, "write");	      /* FAULT blocking-call */
		check(sendfile(ends[1], online, &from, BYTES) > 0, "sendfile"); /* FAULT blocking-call */
		from = 0;
		check(splice(online, &from, ends[1], NULL, BYTES, 0) > 0, "splice"); /* FAULT blocking-call */
#else
		check(write(ends[1], text, 4) == 4, "write");
#endif
		check(read(ends[0], text, BYTES) > 0, "read");
		state += from + text[0];
		work();
	}
}
