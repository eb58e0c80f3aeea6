// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wrong calls of the device: TICK, STOP, STATUS, mmap() and /proc/isolator.
 *
 * Why: any program that may open the device can pass any argument. The kernel
 * has to refuse each wrong one, with its own error number.
 *
 * How to read: a line per case.
 */
#include "cases.h"

/* ---- TICK, STOP, STATUS ---- */

static int not_owner(void)
{
	if (refused(tick(fd, ISOLATOR_TICK_SCHED), ESRCH, ISOLATOR_NOT_OWNER))
		return FAILED;
	return refused(stop(fd), ESRCH, ISOLATOR_NOT_OWNER);
}

static int bad_flags(void)
{
	int round;

	for (round = 0; round < 2; round++) {
		if (refused(tick(fd, 1U << 3), EINVAL, ISOLATOR_BAD_FLAGS) ||
		    refused(ioctl(fd, ISOLATOR_IOC_TICK, 1UL << 32), EINVAL,
			    ISOLATOR_BAD_FLAGS))
			return FAILED;
		if (!round && start_patiently(fd, ISOLATOR_MASK_DEFAULT))
			return yes(false, "start");
	}
	return PASSED;
}

static int bad_cpu(void)
{
	struct isolator_status status = { .size = sizeof(status) };
	unsigned int i;
	static const unsigned int bad[] = { 100000, 1U << 31, ~0U - 1 };

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		status.cpu = bad[i];
		if (refused(ioctl(fd, ISOLATOR_IOC_STATUS, &status), EINVAL,
			    ISOLATOR_BAD_CPU))
			return FAILED;
	}
	status.cpu = cpu;
	status.size--;
	return refused(ioctl(fd, ISOLATOR_IOC_STATUS, &status), EINVAL,
		       ISOLATOR_BAD_CPU);
}

static int bad_pointers(void)
{
	struct isolator_status status = { .size = sizeof(status), .cpu = cpu };
	char *two = map(MAP_PRIVATE | MAP_ANONYMOUS, -1), *end = two + PAGE;
	struct isolator_status *cut = (void *)(end - sizeof(status) / 2);

	if (munmap(end, PAGE))
		die("unmap");
	memcpy(cut, &status, sizeof(status) / 2);
	if (no(ioctl(fd, ISOLATOR_IOC_STATUS, NULL), EFAULT) ||
	    no(ioctl(fd, ISOLATOR_IOC_STATUS, 1UL), EFAULT) ||
	    no(ioctl(fd, ISOLATOR_IOC_STATUS, ~0UL << 47), EFAULT) ||
	    no(ioctl(fd, ISOLATOR_IOC_STATUS, ~0UL), EFAULT) ||
	    no(ioctl(fd, ISOLATOR_IOC_STATUS, cut), EFAULT))
		return FAILED;
	memcpy(two, &status, sizeof(status));
	if (mprotect(two, PAGE, PROT_READ))
		die("protect");
	return no(ioctl(fd, ISOLATOR_IOC_STATUS, two), EFAULT);
}

static int unknown_calls(void)
{
	char byte = 0;

	if (no(ioctl(fd, _IO('I', 0x5f), 0), ENOTTY) ||
	    no(ioctl(fd, _IO('I', 0x6f), 0), ENOTTY) ||
	    no(ioctl(fd, _IO('J', 0x60), 0), ENOTTY) ||
	    no(ioctl(fd, _IOW('I', 0x60, int), 0), ENOTTY) ||
	    no(ioctl(fd, _IOWR('I', 0x63, char[8]), 0), ENOTTY))
		return FAILED;
	if (no(read(fd, &byte, 1), EINVAL) || no(write(fd, &byte, 1), EINVAL))
		return FAILED;
	return no(lseek(fd, 1, SEEK_SET), ESPIPE);
}

static int no_messages_by_reading(void)
{
	struct isolator_post argument = { .size = sizeof(argument), .cpu = cpu };
	int reader = open("/dev/isolator", O_RDONLY | O_CLOEXEC);

	if (reader < 0)
		die("open to read");
	return no(ioctl(reader, ISOLATOR_IOC_POST, &argument), EBADF) ||
	       no(ioctl(reader, ISOLATOR_IOC_POLL, &argument), EBADF);
}

/* ---- mmap ---- */

static int no_map(size_t size, int rights, int flags, off_t offset, int error)
{
	void *at = mmap(NULL, size, rights, flags, fd, offset);

	if (at == MAP_FAILED && errno == error)
		return PASSED;
	say("mmap(%zu, %#x, %#x, %#jx): %p, errno %d; wanted %d", size, rights,
	    flags, (intmax_t)offset, at, errno, error);
	return FAILED;
}

static int maps_read_only(void)
{
	const off_t at = ISOLATOR_MMAP_OFFSET(cpu);
	const struct isolator_page *page = page_of(fd, cpu);

	if (page->version != ISOLATOR_PAGE_VERSION ||
	    page->size < sizeof(*page) || page->cpu != (unsigned int)cpu)
		return yes(false, "what the page says of itself");
	if (no_map(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, at, EACCES) ||
	    no_map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, at, EACCES) ||
	    no_map(PAGE, PROT_WRITE, MAP_SHARED, at, EACCES) ||
	    no_map(PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, at, EACCES))
		return FAILED;
	if (no(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE), EACCES) ||
	    no(mprotect((void *)page, PAGE, PROT_READ | PROT_EXEC), EACCES))
		return FAILED;
	/* The mapping outlives the file. */
	close(fd);
	fd = open_isolator();
	return yes(page->cpu == (unsigned int)cpu, "the page after close");
}

static int maps_one_page_of_a_cpu(void)
{
	const off_t at = ISOLATOR_MMAP_OFFSET(cpu);

	return no_map(2 * PAGE, PROT_READ, MAP_SHARED, at, EINVAL) ||
	       no_map(PAGE, PROT_READ, MAP_SHARED, at + PAGE, EINVAL) ||
	       no_map(PAGE, PROT_READ, MAP_SHARED,
		      ISOLATOR_MMAP_OFFSET(100000), EINVAL) ||
	       no_map(PAGE, PROT_READ, MAP_SHARED, 1LL << 62, EINVAL);
}

static int page_does_not_grow(void)
{
	void *page = (void *)page_of(fd, cpu);
	void *more = mremap(page, PAGE, 2 * PAGE, MREMAP_MAYMOVE);

	return yes(more == MAP_FAILED && errno == EFAULT, "mremap to two pages");
}

/* ---- /proc/isolator ---- */

/* Only the device has START: not even root can start by a write here. */
static int proc_takes_no_commands(void)
{
	int error = write_file("/proc/isolator", "start");

	return yes((error == EIO || error == EACCES) && !status_of(fd, cpu).owner,
		   "no command by /proc");
}

static int proc_shows_the_page(void)
{
	static char text[65536];
	const struct isolator_page *page = page_of(fd, cpu);
	unsigned long long shown;
	char name[64], *at;

	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT) || stop(fd))
		return yes(false, "start, stop");
	if (read_file("/proc/isolator", text, sizeof(text)) <= 0)
		return yes(false, "read");
	snprintf(name, sizeof(name), "\ncpu%d starts ", cpu);
	at = strstr(text, name);
	if (!at || sscanf(at + strlen(name), "%llu", &shown) != 1)
		return yes(false, "starts are shown");
	return yes(shown == stat_of(page, ISOLATOR_STAT_STARTS),
		   "the same number");
}

static const struct test_case cases[] = {
	CASE(not_owner),
	CASE(bad_flags),
	CASE(bad_cpu),
	CASE(bad_pointers),
	CASE(unknown_calls),
	CASE(no_messages_by_reading),
	CASE(maps_read_only),
	CASE(maps_one_page_of_a_cpu),
	CASE(page_does_not_grow),
	CASE(proc_takes_no_commands),
	CASE(proc_shows_the_page),
	{ }
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases);
}
