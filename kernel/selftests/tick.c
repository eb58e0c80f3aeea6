// SPDX-License-Identifier: GPL-2.0-only
/*
 * TICK without work, for counting from outside.
 *
 * Why: a loop that calls TICK in each round pays for it in each round, even if
 * no work was deferred. As with cost.c, a clock would measure that on one
 * machine only; an emulator's plugin counts instructions between the markers.
 *
 * Two windows on an isolated CPU:
 *
 *	1	an ioctl that the driver does not know; the CPU has no owner
 *	2	the owner's TICK, without flags and without deferred work
 *
 * --count N of each. This program gives no verdict: make proof-kernel PART=tick
 * does.
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
