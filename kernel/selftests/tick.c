// SPDX-License-Identifier: GPL-2.0-only
/*
 * TICK with nothing to do, to be counted from outside.
 *
 * Why: a loop that calls TICK in each round pays for it in each round, also
 * when nothing was deferred. As with cost.c a clock would say that of one
 * machine; an emulator's plugin counts instructions between the markers.
 *
 * Two windows on an isolated CPU:
 *
 *	1	an ioctl that the driver does not know; the CPU has no owner
 *	2	TICK without flags by the owner, for whom nothing was deferred
 *
 * --count N of each. It judges nothing: make proof-kernel PART=tick does.
 */
#include "selftest.h"

static long count = 2000;

static void empty(int fd)
{
	long i;

	for (i = 0; i < 100; i++)
		ioctl(fd, 0, 0);
	BEGIN();
	for (i = 0; i < count; i++)
		ioctl(fd, 0, 0);
	END();
}

static int ticks(int fd)
{
	int failed = 0;
	long i;

	for (i = 0; i < 100; i++)
		failed |= tick(fd, 0);
	BEGIN();
	for (i = 0; i < count; i++)
		failed |= tick(fd, 0);
	END();
	return failed;
}

int main(int argc, char **argv)
{
	int fd;

	arguments(argc, argv, (const struct argument[]){
		{ "--count", &count, false }, { } });
	fd = open_isolator();
	pin(isolated_cpu());
	become_fifo(80);
	empty(fd);
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT))
		die("start");
	ok(!ticks(fd) && !stop(fd), "%ld ioctls and ticks", count);
	return finish();
}
