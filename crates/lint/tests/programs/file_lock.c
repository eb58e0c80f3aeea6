/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The loop waits for locks of a file; without the fault it only tries to take them. */
#include "loop.h"
#include <fcntl.h>
#include <sys/file.h>

static struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
static struct flock unlock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

int main(void)
{
	FILE *file = tmpfile();
	int fd;

	check(file != NULL, "tmpfile");
	fd = fileno(file);
	be_real_time();
	for (;;) {
		wait_for_cycle();
		fcntl(fd, F_SETLK, &unlock);
		fcntl(fd, IS_SEEDED ? F_SETLKW : F_SETLK, &lock); /* FAULT blocking-call */
		fcntl(fd, F_SETLK, &unlock);
		fcntl(fd, IS_SEEDED ? F_OFD_SETLKW : F_OFD_SETLK, &lock); /* FAULT blocking-call */
		fcntl(fd, F_OFD_SETLK, &unlock);
		check(lockf(fd, IS_SEEDED ? F_LOCK : F_TLOCK, 1) == 0, "lockf"); /* FAULT blocking-call */
		check(lockf(fd, F_ULOCK, 1) == 0, "lockf");
		flock(fd, IS_SEEDED ? LOCK_EX : LOCK_EX | LOCK_NB); /* FAULT blocking-call */
		flock(fd, LOCK_UN);
		work();
	}
}
