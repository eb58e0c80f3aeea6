// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls /dev/isolator with random arguments.
 *
 * Why: no argument of user space may crash, leak or wedge the kernel. The
 * kernel's log gives the verdict on that, best with KASAN, lockdep and
 * kmemleak. This program only checks that nothing hangs, that each call gives
 * an error number of the uapi, and that the CPU has no owner at the end.
 *
 * Processes of several threads make random calls. They share files, and open,
 * close and copy them concurrently. Half of the masks, flags, pointers and
 * sizes are nearly right. Threads run on the isolated CPU and on others.
 * Processes exit, are killed and start again, while the CPU is taken offline.
 * No thread moves during that: Linux itself warns then, see affinity.c.
 *
 * How to read: calls by kind and errno. The same seed draws the same calls, but
 * threads race. --calls N (10,000,000 in the long form), --seed N, --processes
 * N, --threads N, --slow K, --no-hotplug.
 */
#include "selftest.h"

#include <limits.h>
#include <pthread.h>
#include <sys/syscall.h>

#define FILES		8
#define ERRNOS		134

enum kind { START, TICK, STOP, STATUS, OTHER, MAP, PROC, OFFLINE, KINDS };

static const char * const kind_names[KINDS] = {
	"START", "TICK", "STOP", "STATUS", "other ioctl", "mmap", "/proc",
	"offline",
};

struct shared {
	long	calls;		/* still to be made */
	long	did[KINDS][ERRNOS];
	long	wrong;
	long	lives;
	int	over;
	int	plugging;	/* the CPU is being taken offline */
};

static struct shared *shared;
static long seed = 1, processes = 2, threads = 3;
static int cpu;
static int files[FILES];
static char *read_only, *unmapped;

static void count(enum kind kind, long got)
{
	int error = got < 0 ? errno : 0;

	if (error >= ERRNOS)
		error = ERRNOS - 1;
	__atomic_add_fetch(&shared->did[kind][error], 1, __ATOMIC_RELAXED);
	/* Taking the CPU offline is not one of the calls to be made. */
	if (kind != OFFLINE)
		__atomic_sub_fetch(&shared->calls, 1, __ATOMIC_RELAXED);
}

static unsigned long odd(uint64_t *state)
{
	switch (chance(state) % 6) {
	case 0:
		return 0;
	case 1:
		return 1UL << chance(state) % 64;
	case 2:
		return ~0UL - chance(state) % 4096;
	case 3:
		return LONG_MIN + chance(state) % 4096;
	case 4:
		return chance(state) % 256;
	default:
		return chance(state);
	}
}

static unsigned long mask(uint64_t *state)
{
	unsigned long mask = chance(state) & ISOLATOR_MASK_ALL;

	/* START would refuse exclusive mode to most owners. */
	if (chance(state) % 8)
		mask &= ~ISOLATOR_MASK_EXCLUSIVE_MM;
	return chance(state) % 8 ? mask : odd(state);
}

/* An address for struct isolator_status, valid or not */
static void *place(uint64_t *state, struct isolator_status *good)
{
	switch (chance(state) % 8) {
	case 0:
		return read_only;
	case 1:
		return unmapped - chance(state) % (2 * sizeof(*good));
	case 2:
		return (void *)odd(state);
	case 3:
		return (char *)good + 1;	/* not aligned, overlaps the end */
	default:
		return good;
	}
}

static void do_status(uint64_t *state, int fd)
{
	struct isolator_status status[2] = { };
	void *at = place(state, status);

	status->size = chance(state) % 4 ? sizeof(*status) : odd(state);
	status->cpu = chance(state) % 4 ? ISOLATOR_THIS_CPU : odd(state);
	count(STATUS, ioctl(fd, ISOLATOR_IOC_STATUS, at));
}

static void do_other(uint64_t *state, int fd)
{
	static struct isolator_status status[64];	/* 14 bits of size */
	unsigned long command = chance(state);

	if (chance(state) % 2)
		command = (command & ~0xffffUL) | 'I' << 8 |
			  (0x60 + chance(state) % 8);
	else if (chance(state) % 2)
		command = _IOWR('I', 0x60 + chance(state) % 8,
				struct isolator_status);
	/* Avoids the generic ioctls of files, which bypass the driver. */
	if ((command >> 8 & 0xff) != 'I')
		command = (command & ~0xff00UL) | 'I' << 8;
	count(OTHER, ioctl(fd, command, place(state, status)));
}

static void do_map(uint64_t *state, int fd)
{
	static const int rights[] = { PROT_READ, PROT_READ, PROT_NONE,
		PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC, PROT_WRITE };
	size_t size = chance(state) % 4 ? PAGE : chance(state) % (8 * PAGE);
	off_t at = ISOLATOR_MMAP_OFFSET(chance(state) % 4);
	const struct isolator_page *page;
	size_t more;
	void *moved;

	switch (chance(state) % 6) {
	case 0:
		at = odd(state) & ~(PAGE - 1UL) & LONG_MAX;
		break;
	case 1:
		at += chance(state) % 512 * PAGE;
		break;
	case 2:
		at = ISOLATOR_MMAP_OFFSET(chance(state) % 100000);
		break;
	}
	page = mmap(NULL, size, rights[chance(state) % 6],
		    chance(state) % 2 ? MAP_SHARED : MAP_PRIVATE, fd, at);
	count(MAP, page == MAP_FAILED ? -1 : 0);
	if (page == MAP_FAILED)
		return;
	switch (chance(state) % 6) {
	case 0:
		if (!mprotect((void *)page, size, PROT_READ | PROT_WRITE))
			__atomic_add_fetch(&shared->wrong, 1, __ATOMIC_RELAXED);
		break;
	case 1:
		madvise((void *)page, size, chance(state) % 26);
		break;
	case 2:
		more = chance(state) % (8 * PAGE) + 1;
		moved = mremap((void *)page, size, more, MREMAP_MAYMOVE);
		if (moved != MAP_FAILED) {
			page = moved;
			size = more;
		}
		break;
	case 3:
		mlock(page, size);
		break;
	}
	munmap((void *)page, size);
}

/* /proc/isolator takes no commands; a read walks all owners. */
static void do_proc(uint64_t *state)
{
	static char page[4096];
	int file = open("/proc/isolator", O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return;
	count(PROC, read(file, page, chance(state) % sizeof(page)));
	close(file);
}

/* Changes the affinity and the policy of the thread */
static void change_self(uint64_t *state)
{
	struct sched_param param = { .sched_priority = 1 + chance(state) % 5 };
	struct sched_param none = { };
	cpu_set_t all;

	if (__atomic_load_n(&shared->plugging, __ATOMIC_RELAXED))
		return;
	switch (chance(state) % 4) {
	case 0:
		CPU_ZERO(&all);
		CPU_SET(cpu, &all);
		CPU_SET(HOUSE_CPU, &all);
		sched_setaffinity(0, sizeof(all), &all);
		break;
	case 1:
		run_on(0, HOUSE_CPU);
		break;
	default:
		run_on(0, cpu);
		break;
	}
	/* A low RT priority does not starve the CPU: the thread makes calls. */
	if (chance(state) % 8 == 0)
		sched_setscheduler(0, SCHED_RR, &param);
	else if (chance(state) % 4 == 0)
		sched_setscheduler(0, SCHED_OTHER, &none);
}

static void change_file(uint64_t *state)
{
	int which = chance(state) % FILES;
	int old = __atomic_exchange_n(&files[which], -1, __ATOMIC_RELAXED);

	if (old >= 0)
		close(old);
	if (chance(state) % 4 == 0)
		old = dup(__atomic_load_n(&files[chance(state) % FILES],
					  __ATOMIC_RELAXED));
	else
		old = open("/dev/isolator", O_RDWR | O_CLOEXEC);
	old = __atomic_exchange_n(&files[which], old, __ATOMIC_RELAXED);
	if (old >= 0)
		close(old);
}

static void one(uint64_t *state)
{
	int fd = __atomic_load_n(&files[chance(state) % FILES],
				 __ATOMIC_RELAXED);
	unsigned long flags;

	switch (chance(state) % 32) {
	case 0 ... 7:
		count(START, ioctl(fd, ISOLATOR_IOC_START, mask(state)));
		break;
	case 8 ... 13:
		/* RT sleeps, so it is rare. */
		flags = chance(state) % 64 ? chance(state) & 5 : odd(state);
		count(TICK, ioctl(fd, ISOLATOR_IOC_TICK, flags));
		break;
	case 14 ... 16:
		count(STOP, ioctl(fd, ISOLATOR_IOC_STOP, odd(state)));
		break;
	case 17 ... 22:
		do_status(state, fd);
		break;
	case 23 ... 25:
		do_other(state, fd);
		break;
	case 26 ... 27:
		do_map(state, fd);
		break;
	case 28:
		do_proc(state);
		break;
	case 29:
		change_file(state);
		break;
	case 30:
		change_self(state);
		break;
	default:
		/* Spins in user mode, so that others can end an owner there */
		for (flags = chance(state) % 2000; flags; flags--)
			relax();
		break;
	}
}

static void *work(void *argument)
{
	uint64_t state = (uintptr_t)argument | 1;
	long lifetime = chance(&state) % 20000;

	while (lifetime-- && !__atomic_load_n(&shared->over, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&shared->calls, __ATOMIC_RELAXED) > 0)
		one(&state);
	/* Some threads exit alone, others end their process. */
	if (chance(&state) % 2)
		syscall(SYS_exit_group, 0);
	return NULL;
}

static void live(uint64_t state)
{
	pthread_t thread;
	int i;

	for (i = 0; i < FILES; i++)
		files[i] = open("/dev/isolator", O_RDWR | O_CLOEXEC);
	read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	unmapped = (char *)mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
	munmap(unmapped, PAGE);
	for (i = 1; i < threads; i++)
		pthread_create(&thread, NULL, work,
			       (void *)(uintptr_t)chance(&state));
	work((void *)(uintptr_t)chance(&state));
	_exit(0);
}

static void hotplug(uint64_t state)
{
	char path[64];

	snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
	for (;;) {
		__atomic_store_n(&shared->plugging, 1, __ATOMIC_RELAXED);
		/* Waits for threads that are moving already */
		sleep_us(20000);
		errno = write_file(path, "0");
		count(OFFLINE, errno ? -1 : 0);
		write_file(path, "1");
		__atomic_store_n(&shared->plugging, 0, __ATOMIC_RELAXED);
		sleep_us(chance(&state) % 200000);
	}
}

/* Errors that a call may return */
static bool known(int error)
{
	static const int errors[] = { 0, EPERM, ESRCH, EINTR, ENXIO, EBADF,
		EAGAIN, ENOMEM, EACCES, EFAULT, EBUSY, ENODEV, EINVAL, ENOTTY,
		ETXTBSY, ERANGE, EDEADLK, ENOLCK, ENOTUNIQ, EMLINK, EPROTOTYPE,
		EOPNOTSUPP, EADDRINUSE, EALREADY, EDQUOT, EOVERFLOW, EUSERS,
		EIO /* a file's number, reused for /proc/isolator */ };
	unsigned int i;

	for (i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i] == error)
			return true;
	return false;
}

#define KMEMLEAK	"/sys/kernel/debug/kmemleak"

/*
 * Whether kmemleak (CONFIG_DEBUG_KMEMLEAK) finds memory of the isolator without
 * references. It reports young objects only at a later scan, so this scans
 * twice.
 */
static bool leaks(void)
{
	static char found[1 << 20];
	char *line, *rest = found;
	bool ours = false;
	int scan;

	for (scan = 0; scan < 2; scan++) {
		sleep_us(6000000);
		write_file(KMEMLEAK, "scan");
	}
	if (read_file(KMEMLEAK, found, sizeof(found)) < 0)
		return true;
	while ((line = strsep(&rest, "\n"))) {
		if (*line)
			say("%s", line);
		ours |= !!strstr(line, "isolator");
	}
	return ours;
}

int main(int argc, char **argv)
{
	long calls = 200000, no_hotplug = 0, strange = 0, total = 0, last;
	struct isolator_status status;
	char path[64];
	int kind, error, fd;
	pid_t pids[64], plug = 0;
	uint64_t state;
	bool hung = false;
	long i, since;

	arguments(argc, argv, (const struct argument[]){
		{ "--calls", &calls, false }, { "--seed", &seed, false },
		{ "--processes", &processes, false },
		{ "--threads", &threads, false }, { "--slow", &slow, false },
		{ "--no-hotplug", &no_hotplug, true }, { } });
	if (processes < 1 || processes > 64)
		processes = 2;
	cpu = isolated_cpu();
	fd = open_isolator();
	start_alone(cpu);
	shared = share(sizeof(*shared));
	shared->calls = last = calls;
	state = seed * 0x9e3779b97f4a7c15ULL | 1;
	snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
	if (!no_hotplug && !access(path, W_OK)) {
		plug = child();
		if (!plug)
			hotplug(state);
	}

	/* Ignores leaks from boot. */
	write_file(KMEMLEAK, "clear");
	for (i = 0; i < processes; i++)
		pids[i] = 0;
	since = now_ms();
	while (__atomic_load_n(&shared->calls, __ATOMIC_RELAXED) > 0 && !hung) {
		long left = __atomic_load_n(&shared->calls, __ATOMIC_RELAXED);

		for (i = 0; i < processes; i++) {
			if (pids[i] && waitpid(pids[i], NULL, WNOHANG) == 0)
				continue;
			pids[i] = child();
			shared->lives++;
			if (!pids[i])
				live(chance(&state) ^ shared->lives << 32);
			chance(&state);
		}
		if (chance(&state) % 16 == 0)
			kill(pids[chance(&state) % processes], SIGKILL);
		sleep_us(20000);
		if (left != last)
			since = now_ms();
		last = left;
		hung = now_ms() - since > HANG_MS * slow;
	}
	shared->over = 1;
	for (i = 0; i < processes; i++) {
		kill(pids[i], SIGKILL);
		hung |= reap(pids[i]) < 0;
	}
	if (plug) {
		kill(plug, SIGKILL);
		hung |= reap(plug) < 0;
		write_file(path, "1");
	}

	for (kind = 0; kind < KINDS; kind++)
		for (error = 0; error < ERRNOS; error++) {
			long many = shared->did[kind][error];

			if (!many)
				continue;
			total += kind == OFFLINE ? 0 : many;
			say("%-12s %-44s %10ld", kind_names[kind],
			    error ? strerror(error) : "done", many);
			if (!known(error))
				strange += many;
		}
	say("%ld calls by %ld processes of %ld threads", total, shared->lives,
	    threads);
	ok(!hung, "no call hangs");
	ok(!strange, "no error that the uapi does not know (%ld)", strange);
	ok(!shared->wrong, "the page is never writable (%ld)", shared->wrong);
	ok(wait_for(no_owner(fd, cpu, &status), HANG_MS),
	   "the CPU has no owner afterwards");
	ok(shared->did[START][0] && shared->did[TICK][0] &&
	   shared->did[STOP][0] && shared->did[STATUS][0] &&
	   shared->did[MAP][0], "of each kind some succeeded");
	if (access(KMEMLEAK, W_OK))
		ok_or_skipped(SKIPPED, "no leak", "no CONFIG_DEBUG_KMEMLEAK");
	else
		ok(!leaks(), "no leak");
	return finish();
}
