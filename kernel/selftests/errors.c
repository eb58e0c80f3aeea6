// SPDX-License-Identifier: GPL-2.0-only
/*
 * All refusals of the interrupt isolator: each has its own error number, and
 * STATUS gives the reason as text.
 *
 * Why: a user cannot fix a refusal that does not distinguish "no such CPU" from
 * "wrong boot line". And a missing refusal would isolate a CPU that cannot be
 * isolated.
 *
 * How to read: a line per case. Each case runs in a process of its own, so that
 * no case sees the state of another. "# SKIP": this machine cannot provoke the
 * case. It lacks a CPU outside of nohz_full= that does not keep the time, a CPU
 * in nohz_full= that boot does not isolate, real-time groups, or a file with
 * writeback. User space cannot provoke NOT_SUPPORTED, NO_PAGE and
 * ENDED_HOTPLUG, so they have no case here. The file has one case for each of
 * some thirty refusals, hence its length.
 */
#include "selftest.h"

#include <linux/capability.h>
#include <linux/loop.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

static int cpu;			/* the CPU to isolate */
static int fd;			/* file of the case */

/*
 * In the case's process: whether the call that returned @got failed as it
 * should
 */
static int refused(int got, int error, enum isolator_reason reason)
{
	int errno_now = errno;
	struct isolator_status status = status_of(fd, cpu);

	if (got == -1 && errno_now == error && status.refused == reason &&
	    status.text[0] && status.text[sizeof(status.text) - 1] == '\0')
		return PASSED;
	say("got %d, errno %d (%s), reason %u \"%s\"; wanted errno %d, reason %d",
	    got, errno_now, strerror(errno_now), status.refused, status.text,
	    error, reason);
	return FAILED;
}

static int no(int got, int error)
{
	if (got == -1 && errno == error)
		return PASSED;
	say("got %d, errno %d; wanted errno %d", got, errno, error);
	return FAILED;
}

static int yes(bool good, const char *what)
{
	if (!good)
		say("wrong: %s (errno %d)", what, errno);
	return good ? PASSED : FAILED;
}

static int skip(const char *text)
{
	printf("# skipped: %s\n", text);
	return SKIPPED;
}

/* ---- START ---- */

static int starts_and_stops(void)
{
	struct isolator_status status;

	if (start(fd, ISOLATOR_MASK_DEFAULT) || tick(fd, ISOLATOR_TICK_ALL))
		return yes(false, "start, tick");
	status = status_of(fd, ISOLATOR_THIS_CPU);
	if (status.owner != getpid() || status.cpu != (unsigned int)cpu ||
	    status.mask != ISOLATOR_MASK_DEFAULT || status.refused ||
	    !status.max_defer_ms)
		return yes(false, "status of the owner");
	if (stop(fd))
		return yes(false, "stop");
	status = status_of(fd, cpu);
	return yes(!status.owner && !status.mask &&
		   status.ended == ISOLATOR_ENDED_STOP, "status afterwards");
}

static int not_permitted(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		die("read capabilities");
	data[0].effective &= ~(1U << CAP_SYS_NICE);
	if (syscall(SYS_capset, &head, data))
		die("drop a capability");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), EPERM,
		       ISOLATOR_NOT_PERMITTED);
}

static int no_open_for_others(void)
{
	if (setgid(65534) || setuid(65534))
		die("drop privileges");
	return no(open("/dev/isolator", O_RDWR), EACCES);
}

static int bad_mask(void)
{
	static const unsigned long masks[] = {
		0, 1UL << 4, 1UL << 31, ISOLATOR_MASK_EXCLUSIVE_MM,
		ISOLATOR_MASK_DEFAULT | 1UL << 32, ~0UL,
	};
	unsigned int i;

	for (i = 0; i < sizeof(masks) / sizeof(*masks); i++)
		if (refused(ioctl(fd, ISOLATOR_IOC_START, masks[i]), EINVAL,
			    ISOLATOR_BAD_MASK))
			return FAILED;
	return PASSED;
}

/* Refusals on CPUs outside of nohz_full=, of which one keeps the time */
static int house_keeping(void)
{
	int other, timekeepers = 0, plain = 0, error;

	for (other = 0; other < cpu_count(); other++) {
		if (list_has(CPUS "nohz_full", other) || run_on(0, other))
			continue;
		if (!start(fd, ISOLATOR_MASK_DEFAULT))
			return yes(false, "a housekeeping CPU was isolated");
		error = errno;
		if (error == EDEADLK)
			timekeepers++;
		else
			plain++;
		errno = error;
		if (refused(-1, error == EDEADLK ? EDEADLK : ENODEV,
			    error == EDEADLK ? ISOLATOR_LAST_HOUSEKEEPING :
					       ISOLATOR_NOT_NOHZ_FULL))
			return FAILED;
	}
	say("%d keep the time, %d do not", timekeepers, plain);
	if (timekeepers != 1)
		return yes(false, "one CPU keeps the time");
	return plain ? PASSED : skip("no CPU outside of nohz_full but the one that keeps the time");
}

static int not_isolated(void)
{
	int other;

	for (other = 0; other < cpu_count(); other++)
		if (list_has(CPUS "nohz_full", other) &&
		    !list_has(CPUS "isolated", other) && !run_on(0, other))
			return refused(start(fd, ISOLATOR_MASK_DEFAULT), ENXIO,
				       ISOLATOR_NOT_ISOLATED);
	return skip("every CPU of nohz_full is isolated");
}

static int many_cpus(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CPU_SET(HOUSE_CPU, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("run on two CPUs");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), ERANGE,
		       ISOLATOR_MANY_CPUS);
}

#define GROUPS		"/tmp/isolator-groups"
#define LIMIT		GROUPS "/cpu.rt_runtime_us"
#define OF_ALL		"/proc/sys/kernel/sched_rt_runtime_us"

static int under_the_limit(void)
{
	char limit[32], of_all[32];
	int started, error;

	if (read_file(LIMIT, limit, sizeof(limit)) < 0 ||
	    read_file(OF_ALL, of_all, sizeof(of_all)) < 0)
		return skip("no real-time groups");
	become_fifo(10);
	if (refused(start(fd, ISOLATOR_MASK_DEFAULT), EDQUOT,
		    ISOLATOR_RT_BANDWIDTH) != PASSED)
		return FAILED;
	/* A group may not have more bandwidth than all tasks together. */
	if (write_file(OF_ALL, "-1") || write_file(LIMIT, "-1"))
		return yes(false, "lift the limit");
	started = !start(fd, ISOLATOR_MASK_DEFAULT) && !stop(fd);
	error = write_file(LIMIT, limit);
	if (!error)
		error = write_file(OF_ALL, of_all);
	return yes(started && !error, "starts without the limit");
}

static int rt_bandwidth(void)
{
	int result;

	/* Only control groups of version 1 have the limit. */
	if ((mkdir(GROUPS, 0700) && errno != EEXIST) ||
	    mount("cpu", GROUPS, "cgroup", 0, "cpu")) {
		rmdir(GROUPS);
		return skip("no control groups of version 1");
	}
	result = under_the_limit();
	umount(GROUPS);
	rmdir(GROUPS);
	return result;
}

static int tick_needed(void)
{
	struct itimerval far = { .it_value.tv_sec = 1000000 };

	if (setitimer(ITIMER_PROF, &far, NULL))
		die("arm a CPU timer");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), EAGAIN,
		       ISOLATOR_TICK_NEEDED);
}

static int owned(void)
{
	int *ready = share(PAGE), result;
	pid_t other;

	pin(HOUSE_CPU);
	other = child();
	if (!other) {
		int own = open_isolator();

		pin(cpu);
		*ready = start(own, ISOLATOR_MASK_DEFAULT) ? -1 : 1;
		pause();
		_exit(0);
	}
	/* The other task waits in the kernel, and still owns the CPU. */
	if (!wait_for(__atomic_load_n(ready, __ATOMIC_ACQUIRE), HANG_MS) ||
	    *ready < 0)
		return yes(false, "another owner");
	pin(cpu);
	/* Until the other task sleeps, two tasks there need the tick. */
	if (!wait_for(start(fd, ISOLATOR_MASK_DEFAULT) && errno != EAGAIN,
		      HANG_MS))
		return yes(false, "an answer");
	result = refused(start(fd, ISOLATOR_MASK_DEFAULT), EBUSY,
			 ISOLATOR_OWNED);
	if (!result)
		result = refused(stop(fd), ESRCH, ISOLATOR_NOT_OWNER);
	if (!result)
		result = refused(tick(fd, 0), ESRCH, ISOLATOR_NOT_OWNER);
	kill(other, SIGKILL);
	return reap(other) < 0 ? FAILED : result;
}

static int owner_already(void)
{
	if (start(fd, ISOLATOR_MASK_DEFAULT))
		return yes(false, "start");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), EALREADY,
		       ISOLATOR_OWNER_ALREADY);
}

static int foreign_inherited(void)
{
	pid_t other = child();

	if (!other) {
		int result = refused(start(fd, ISOLATOR_MASK_DEFAULT), EACCES,
				     ISOLATOR_FOREIGN_FILE);

		/* The child may map the page, and call STATUS. */
		page_of(fd, cpu);
		_exit(result);
	}
	return reap(other) ? FAILED : PASSED;
}

static int foreign_passed(void)
{
	union {
		struct cmsghdr	head;
		char		room[CMSG_SPACE(sizeof(int))];
	} control = { };
	char byte = 0;
	struct iovec vector = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &vector, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	int pair[2];
	pid_t other;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("make a pair of sockets");
	other = child();
	if (!other) {
		if (recvmsg(pair[1], &message, 0) != 1)
			die("receive");
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
		_exit(refused(start(fd, ISOLATOR_MASK_DEFAULT), EACCES,
			      ISOLATOR_FOREIGN_FILE));
	}
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	if (sendmsg(pair[0], &message, 0) != 1)
		die("send");
	return reap(other) ? FAILED : PASSED;
}

static int bad_policy(void)
{
	if (become_deadline())
		return skip("this CPU takes no SCHED_DEADLINE");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), EPROTOTYPE,
		       ISOLATOR_BAD_POLICY);
}

/* ---- exclusive address space ---- */

static int exclusive(void)
{
	return start(fd, ISOLATOR_MASK_DEFAULT | ISOLATOR_MASK_EXCLUSIVE_MM);
}

static void lock_all(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		die("lock memory");
}

static void *map(int flags, int file)
{
	void *at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);

	if (at == MAP_FAILED)
		die("map");
	return at;
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
		if (!round && start(fd, ISOLATOR_MASK_DEFAULT))
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

/* ---- others ---- */

/* The kernel checks the number of a CPU before it uses it as an index. */
static int perf_of_no_cpu(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1,
	};
	const int cpus[] = { cpu_count(), 100000, INT_MAX };
	unsigned int i;

	if (start(fd, ISOLATOR_MASK_DEFAULT) || stop(fd))
		return yes(false, "start, stop");
	for (i = 0; i < sizeof(cpus) / sizeof(*cpus); i++) {
		int got = syscall(SYS_perf_event_open, &attr, -1, cpus[i], -1, 0);

		if (got < 0 && errno == ENOSYS)
			return skip("no perf events");
		if (got >= 0 || (errno != EINVAL && errno != ENODEV))
			return yes(false, "an event of no CPU");
	}
	return PASSED;
}

#define REFUSE		"/proc/sys/kernel/isolator_refuse"

/* Starts an owner, with or without CAP_SYS_ADMIN, until this process ends */
static bool owner_with(bool admin)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];
	int *ready = share(PAGE);

	pin(HOUSE_CPU);
	if (!child()) {
		int own = open_isolator();

		if (syscall(SYS_capget, &head, data))
			die("read capabilities");
		if (!admin)
			data[0].effective &= ~(1U << CAP_SYS_ADMIN);
		if (syscall(SYS_capset, &head, data))
			die("drop a capability");
		pin(cpu);
		*ready = start_patiently(own, ISOLATOR_MASK_DEFAULT) ? -1 : 1;
		for (;;)
			relax();
	}
	return wait_for(__atomic_load_n(ready, __ATOMIC_ACQUIRE), HANG_MS) &&
	       *ready == 1;
}

/* Error number of an attempt to open an event for the CPU, or 0 */
static int perf_error(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1,
	};
	int event = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0);

	if (event < 0)
		return errno;
	close(event);
	return 0;
}

static int refuses_others(void)
{
	const struct isolator_page *page = page_of(fd, cpu);
	uint64_t refused = stat_of(page, ISOLATOR_STAT_REFUSED_PERF);
	int error;

	if (perf_error() == ENOSYS)
		return skip("no perf events");
	if (!owner_with(true))
		return yes(false, "an owner");
	if (perf_error() != EBUSY ||
	    stat_of(page, ISOLATOR_STAT_REFUSED_PERF) != refused + 1)
		return yes(false, "an event is refused, and counted");
	error = write_file(REFUSE, "0");
	if (error)
		return yes(false, "the administrator's switch");
	error = perf_error();
	write_file(REFUSE, "1");
	return yes(!error, "an event with the switch off");
}

static int refuses_by_right(void)
{
	if (perf_error() == ENOSYS)
		return skip("no perf events");
	return yes(owner_with(false), "an owner") ||
	       yes(!perf_error(), "an event where the owner may not refuse");
}

/* Without the right to an event, the answer must not reveal the CPU's owner. */
static int tells_only_the_entitled(void)
{
	int error = perf_error();

	if (error == ENOSYS)
		return skip("no perf events");
	if (!owner_with(true))
		return yes(false, "an owner");
	if (setgid(65534) || setuid(65534))
		die("drop privileges");
	error = perf_error();
	return yes(error == EACCES || error == EPERM, strerror(error));
}

/* The kernel's log names device interrupts that may come to the CPU. */
static int tells_of_interrupts(void)
{
	static char log[1 << 17];
	static const char affinity[] = "/proc/irq/4/smp_affinity_list";
	char before[64], name[64], here[16];
	int length, result;

	snprintf(here, sizeof(here), "%d", cpu);
	if (read_file(affinity, before, sizeof(before)) <= 0 ||
	    write_file(affinity, here))
		return skip("no interrupt 4 that can be moved");
	/*
	 * Some interrupts move only when they next occur; this line causes one.
	 */
	say("the serial port's interrupt is to come to CPU %d", cpu);
	sleep_us(50000);
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT) || stop(fd))
		return yes(false, "start, stop");
	length = syscall(SYS_syslog, 3 /* read all */, log, sizeof(log) - 1);
	log[length < 0 ? 0 : length] = '\0';
	snprintf(name, sizeof(name), "isolator: cpu %d: interrupt 4 may come",
		 cpu);
	result = yes(strstr(log, name), name);
	return write_file(affinity, before) ? FAILED : result;
}

#define SETTING(name)	"/proc/sys/kernel/" name

/* Turns the lockup detector on for the CPU, then restores its settings */
static int watched(void)
{
	static const char * const settings[] = {
		SETTING("soft_watchdog"), SETTING("watchdog"),
		SETTING("watchdog_cpumask"),
	};
	char before[3][256], with[300];
	int result, error, i;

	for (i = 0; i < 3; i++)
		if (read_file(settings[i], before[i], sizeof(before[i])) <= 0)
			return skip("no lockup detector");
	before[2][strcspn(before[2], "\n")] = '\0';
	snprintf(with, sizeof(with), "%s,%d", before[2], cpu);
	error = write_file(settings[0], "1") || write_file(settings[1], "1") ||
		write_file(settings[2], with);
	result = error ? skip("the lockup detector is not to be set") :
			 refused(start_patiently(fd, ISOLATOR_MASK_DEFAULT),
				 EUSERS, ISOLATOR_WATCHED);
	for (i = 2; i >= 0; i--)
		if (write_file(settings[i], before[i]))
			result = yes(false, settings[i]);
	return result;
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

/* ---- how isolation ends ---- */

static int ends(enum isolator_reason reason)
{
	struct isolator_status status;

	if (wait_for(no_owner(fd, cpu, &status), HANG_MS) &&
	    !status.mask && status.ended == reason)
		return PASSED;
	say("owner %d, mask %#x, ended %u; wanted %d", status.owner,
	    status.mask, status.ended, reason);
	return FAILED;
}

static int ended_exit(void)
{
	pid_t other;

	pin(HOUSE_CPU);
	other = child();
	if (!other) {
		int own = open_isolator();

		pin(cpu);
		_exit(start(own, ISOLATOR_MASK_DEFAULT) ? 1 : 0);
	}
	return reap(other) ? FAILED : ends(ISOLATOR_ENDED_EXIT);
}

static int ended_close(void)
{
	int own = open_isolator(), other = dup(own);

	if (start(own, ISOLATOR_MASK_DEFAULT))
		return yes(false, "start");
	close(own);
	if (!status_of(fd, cpu).owner)
		return yes(false, "owner after the close of one of two");
	close(other);
	return ends(ISOLATOR_ENDED_CLOSE);
}

static int ended_affinity(void)
{
	if (start(fd, ISOLATOR_MASK_DEFAULT) || run_on(0, HOUSE_CPU))
		return yes(false, "start, move");
	return ends(ISOLATOR_ENDED_AFFINITY);
}

static int ended_policy(void)
{
	if (start(fd, ISOLATOR_MASK_DEFAULT))
		return yes(false, "start");
	if (become_deadline())
		return skip("this CPU takes no SCHED_DEADLINE");
	return ends(ISOLATOR_ENDED_POLICY);
}

#define ROOT		"/sys/fs/cgroup"
#define PARTITION	ROOT "/isolator-selftest-partition"

static void move_to_group(const char *procs)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", getpid());
	if (write_file(procs, text))
		die("move into a group");
}

/*
 * Makes a cpuset partition of a nohz_full CPU that boot does not isolate, and
 * moves this process into it. SKIPPED: there is no such CPU.
 */
static int move_to_partition(void)
{
	char text[16];
	int other;

	for (other = 0; other < cpu_count(); other++)
		if (list_has(CPUS "nohz_full", other) &&
		    !list_has(CPUS "isolated", other))
			break;
	if (other == cpu_count())
		return skip("every CPU of nohz_full is isolated by boot");
	snprintf(text, sizeof(text), "%d", other);
	if ((mkdir(PARTITION, 0755) && errno != EEXIST) ||
	    write_file(ROOT "/cgroup.subtree_control", "+cpuset") ||
	    write_file(PARTITION "/cpuset.cpus", text))
		return skip("no cpuset of cgroup2");
	if (write_file(PARTITION "/cpuset.cpus.partition", "isolated"))
		die("make an isolated partition");
	move_to_group(PARTITION "/cgroup.procs");
	pin(other);
	cpu = other;
	return PASSED;
}

static void leave_partition(void)
{
	move_to_group(ROOT "/cgroup.procs");
	if (rmdir(PARTITION))
		die("remove the partition");
}

static int ended_partition(void)
{
	int result = move_to_partition();

	if (result)
		return result;
	result = yes(!start_patiently(fd, ISOLATOR_MASK_DEFAULT),
		     "start in a partition") ||
		 yes(!write_file(PARTITION "/cpuset.cpus.partition", "member"),
		     "end the partition") ||
		 ends(ISOLATOR_ENDED_PARTITION);
	leave_partition();
	return result ? FAILED : PASSED;
}

/* Retries START, since other tasks on the CPU still have to leave. */
static int start_for_good(void)
{
	return start_patiently(open_isolator(), ISOLATOR_MASK_DEFAULT) ? errno : 0;
}

/* Owns a CPU, moves to @next, and calls START there as well. */
static void takes_two(int next)
{
	int error;

	if (start_for_good())
		die("start");
	move_to_group(ROOT "/cgroup.procs");
	pin(next);
	error = start_for_good();
	/* The watchdog may have ended the first isolation already. */
	_exit(yes(!error || error == EALREADY, "a second start"));
}

static bool can_be_had(int one)
{
	pin(one);
	return wait_for(!start(fd, ISOLATOR_MASK_DEFAULT), HANG_MS) &&
	       !stop(fd);
}

/* Neither CPU may stay owned by a thread that has exited. */
static int owner_of_two(void)
{
	int second = cpu, result = move_to_partition();
	pid_t other;

	if (result)
		return result;
	other = child();
	if (!other)
		takes_two(second);
	result = yes(!reap(other), "the owner") ||
		 yes(can_be_had(cpu), "the first is free");
	leave_partition();
	return result || yes(can_be_had(second), "the second is free") ?
	       FAILED : PASSED;
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

	if (start(fd, ISOLATOR_MASK_DEFAULT) || stop(fd))
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

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
#define CASE(name) { #name, name }
	CASE(starts_and_stops),
	CASE(not_permitted),
	CASE(no_open_for_others),
	CASE(bad_mask),
	CASE(house_keeping),
	CASE(not_isolated),
	CASE(many_cpus),
	CASE(rt_bandwidth),
	CASE(tick_needed),
	CASE(owned),
	CASE(owner_already),
	CASE(foreign_inherited),
	CASE(foreign_passed),
	CASE(bad_policy),
	CASE(mm_exclusive),
	CASE(mm_shared),
	CASE(mm_not_locked),
	CASE(mm_shared_file),
	CASE(mm_userfault),
	CASE(mm_mergeable),
	CASE(not_owner),
	CASE(bad_flags),
	CASE(bad_cpu),
	CASE(bad_pointers),
	CASE(unknown_calls),
	CASE(maps_read_only),
	CASE(maps_one_page_of_a_cpu),
	CASE(page_does_not_grow),
	CASE(perf_of_no_cpu),
	CASE(refuses_others),
	CASE(refuses_by_right),
	CASE(tells_only_the_entitled),
	CASE(watched),
	CASE(tells_of_interrupts),
	CASE(no_messages_by_reading),
	CASE(ended_exit),
	CASE(ended_close),
	CASE(ended_affinity),
	CASE(ended_policy),
	CASE(ended_partition),
	CASE(owner_of_two),
	CASE(proc_takes_no_commands),
	CASE(proc_shows_the_page),
};

int main(int argc, char **argv)
{
	struct isolator_status state;
	unsigned int i;
	int file;

	arguments(argc, argv, (const struct argument[]){
		{ "--slow", &slow, false }, { } });
	file = open_isolator();
	cpu = isolated_cpu();
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pid_t pid = child();
		int status;

		if (!pid) {
			fd = open_isolator();
			pin(cpu);
			_exit(cases[i].run());
		}
		status = reap(pid);
		if (status < 0)
			kill(pid, SIGKILL);
		/* A case may leave an owner: it ends with the case. */
		wait_for(no_owner(file, cpu, &state), HANG_MS);
		ok_or_skipped(WIFEXITED(status) ? WEXITSTATUS(status) : FAILED,
			      cases[i].name, "see above");
	}
	return finish();
}
