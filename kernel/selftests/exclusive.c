// SPDX-License-Identifier: GPL-2.0-only
/*
 * Refusals of START with EXCLUSIVE_MM, each with its own error number.
 *
 * Why: a flush of the owner's own address space interrupts the owner. START
 * has to name each cause of such flushes that it finds.
 *
 * How to read: a line per case. "# SKIP": the machine has no file with
 * writeback, no userfaultfd or no KSM. All are skipped on a kernel without
 * CONFIG_ISOLATOR_EXCLUSIVE_MM.
 */
#include "cases.h"

#include <linux/loop.h>
#include <linux/userfaultfd.h>
#include <pthread.h>

static int exclusive(void)
{
	return start_patiently(fd, ISOLATOR_MASK_DEFAULT |
				   ISOLATOR_MASK_EXCLUSIVE_MM);
}

static void lock_all(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		die("lock memory");
}

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE	0x08
#endif

static int mm_exclusive(void)
{
	/* getrandom() has such a mapping, which mlockall() does not lock. */
	mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_DROPPABLE,
	     -1, 0);
	lock_all();
	map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	/* Shared, but without writeback */
	map(MAP_SHARED, memfd_create("shared", 0));
	return yes(!exclusive(), "an exclusive start");
}

static void *sleeps(void *unused)
{
	pause();
	return unused;
}

static int mm_shared(void)
{
	pthread_t thread;

	lock_all();
	/* A runnable task on the same CPU would need the tick. */
	pin(HOUSE_CPU);
	if (pthread_create(&thread, NULL, sleeps, NULL))
		die("start a thread");
	pin(cpu);
	return refused(exclusive(), EMLINK, ISOLATOR_MM_SHARED);
}

static int mm_not_locked(void)
{
	return refused(exclusive(), ENOLCK, ISOLATOR_MM_NOT_LOCKED);
}

/* A file with writeback: a block device, if there is one */
static int written_back(void)
{
	static const char * const disks[] = { "/dev/ram0", "/dev/vda", "/dev/sda" };
	int control, loop, memory;
	char path[32];
	unsigned int i;

	for (i = 0; i < sizeof(disks) / sizeof(*disks); i++) {
		int disk = open(disks[i], O_RDWR | O_CLOEXEC);

		if (disk >= 0)
			return disk;
	}
	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		return -1;
	snprintf(path, sizeof(path), "/dev/loop%d",
		 ioctl(control, LOOP_CTL_GET_FREE));
	loop = open(path, O_RDWR | O_CLOEXEC);
	memory = memfd_create("disk", 0);
	if (loop < 0 || ftruncate(memory, 1 << 20) ||
	    ioctl(loop, LOOP_SET_FD, memory))
		return -1;
	return loop;
}

static int mm_shared_file(void)
{
	int file = written_back();

	if (file < 0)
		return skip("no file with writeback");
	lock_all();
	map(MAP_SHARED, file);
	return refused(exclusive(), ETXTBSY, ISOLATOR_MM_SHARED_FILE);
}

static int mm_userfault(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (faults < 0)
		return skip("no userfaultfd");
	lock_all();
	range.range.start = (uintptr_t)map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	range.range.len = 4 * PAGE;
	if (ioctl(faults, UFFDIO_API, &api) ||
	    ioctl(faults, UFFDIO_REGISTER, &range))
		die("register userfaultfd");
	return refused(exclusive(), EADDRINUSE, ISOLATOR_MM_USERFAULT);
}

static int mm_mergeable(void)
{
	lock_all();
	if (madvise(map(MAP_PRIVATE | MAP_ANONYMOUS, -1), 4 * PAGE,
		    MADV_MERGEABLE))
		return skip("no KSM");
	return refused(exclusive(), ENOTUNIQ, ISOLATOR_MM_MERGEABLE);
}

static const struct test_case cases[] = {
	CASE(mm_exclusive),
	CASE(mm_shared),
	CASE(mm_not_locked),
	CASE(mm_shared_file),
	CASE(mm_userfault),
	CASE(mm_mergeable),
	{ }
};

int main(int argc, char **argv)
{
	close(open_isolator());
	if (!has_part("exclusive_mm"))
		skip_all("a kernel without CONFIG_ISOLATOR_EXCLUSIVE_MM");
	return run_cases(argc, argv, cases);
}
