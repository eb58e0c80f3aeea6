// SPDX-License-Identifier: GPL-2.0-only
/*
 * No task waits for an isolated CPU for longer than the bound.
 *
 * Why: a spinning FIFO task starves work that the kernel queues to its CPU.
 * Without isolation the fair server lets that work run within about a second.
 * Unrelated processes must not hang if the fair server is off, or if interrupts
 * are deferred.
 *
 * Three rows per operation, each a process of its own on a housekeeping CPU:
 *
 *	bound	the owner spins and never enters the kernel: done within
 *		kernel.isolator_max_defer_ms + 1 s
 *	tick	the bound is an hour, and the owner calls TICK with SCHED | RT:
 *		done, so by TICK alone
 *	none	--without-start: the same spinner without isolation, fair server
 *		off if debugfs allows it: hangs are listed, no verdict
 *
 * How to read: milliseconds of the guest's clock. In an emulator they only
 * detect hangs: bounds are multiplied by --slow K. "breaks" is how often the
 * watchdog broke isolation meanwhile. Some operations need no work of the CPU,
 * since the owner empties its per-CPU batches, and cause no break.
 */
#include "selftest.h"

#include <sys/mount.h>
#include <sys/syscall.h>

#define TRACING		"/sys/kernel/tracing/"

struct shared {
	int	owner;		/* 1: spins; -errno */
	int	leave;
	int	ticking;
	int	moved;		/* CPU of the victim; -1: not yet */
	int	turn;		/* of the victim */
};

static struct shared *shared;
static int cpu, fd, other_cpu = -1;
static bool isolated = true;
static const struct isolator_page *page;
static pid_t owner, victim;
static long give_up_ms = 8000;

/* ---- the owner ---- */

static void spin(void)
{
	int own = open_isolator();
	volatile unsigned long i;

	pin(cpu);
	become_fifo(80);
	if (isolated && start_patiently(own, ISOLATOR_MASK_DEFAULT)) {
		__atomic_store_n(&shared->owner, -errno, __ATOMIC_RELEASE);
		_exit(1);
	}
	__atomic_store_n(&shared->owner, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&shared->leave, __ATOMIC_ACQUIRE)) {
		for (i = 0; i < 10000; i++)
			relax();
		if (__atomic_load_n(&shared->ticking, __ATOMIC_ACQUIRE))
			tick(own, ISOLATOR_TICK_SCHED | ISOLATOR_TICK_RT);
	}
	_exit(0);
}

static bool start_owner(void)
{
	shared->owner = shared->leave = 0;
	owner = child();
	if (!owner)
		spin();
	return wait_for(__atomic_load_n(&shared->owner, __ATOMIC_ACQUIRE),
			HANG_MS) && shared->owner == 1;
}

static void end_owner(void)
{
	__atomic_store_n(&shared->leave, 1, __ATOMIC_RELEASE);
	if (reap(owner) < 0)
		die("end the owner");
}

/* ---- operations; each returns 0, an error number, or -1: not possible ---- */

static int write_here(const char *path, const char *text)
{
	int error = write_file(path, text);

	return error == ENOENT || error == ENODEV ? -1 : error;
}

static int stat_refresh(void)
{
	return write_here("/proc/sys/vm/stat_refresh", "1");
}

static int drop_caches(void)
{
	return write_here("/proc/sys/vm/drop_caches", "3");
}

static int compact_memory(void)
{
	return write_here("/proc/sys/vm/compact_memory", "1");
}

/* schedule_on_each_cpu() */
static int overcommit(void)
{
	int error = write_here("/proc/sys/vm/overcommit_memory", "2");

	return error ? error :
	       write_here("/proc/sys/vm/overcommit_memory", "0");
}

/* Work on every CPU that has slabs of the cache */
static int shrink_slabs(void)
{
	return write_here("/sys/kernel/slab/dentry/shrink", "1");
}

/* An expedited grace period, where the kernel refuses the plain one */
static int membarrier(void)
{
	if (!syscall(SYS_membarrier, 1 /* GLOBAL */, 0, 0))
		return 0;
	if (errno != EINVAL)
		return errno;
	return syscall(SYS_membarrier, 2 /* GLOBAL_EXPEDITED */, 0, 0) ? errno
								       : 0;
}

/* umount(): synchronize_rcu_expedited() */
static int mount_umount(void)
{
	mkdir("/tmp/wedge", 0755);
	if (mount("wedge", "/tmp/wedge", "tmpfs", 0, NULL))
		return errno;
	return umount("/tmp/wedge") ? errno : 0;
}

/* Text patching and synchronize_rcu() */
static int kprobe(void)
{
	int error = write_here(TRACING "kprobe_events", "p:wedge vfs_statfs\n");

	if (!error)
		error = write_here(TRACING "events/kprobes/wedge/enable", "1");
	if (!error)
		error = write_here(TRACING "events/kprobes/wedge/enable", "0");
	return error ? error : write_here(TRACING "kprobe_events", "-:wedge\n");
}

static int tracepoint(void)
{
	int error = write_here(TRACING "events/sched/sched_switch/enable", "1");

	return error ? error :
	       write_here(TRACING "events/sched/sched_switch/enable", "0");
}

static int function_tracer(void)
{
	int error = write_here(TRACING "set_ftrace_filter", "vfs_statfs\n");

	if (!error)
		error = write_here(TRACING "current_tracer", "function");
	if (!error)
		error = write_here(TRACING "current_tracer", "nop");
	return error == EINVAL ? -1 : error;
}

static int trace_instance(void)
{
	if (mkdir(TRACING "instances/wedge", 0755))
		return errno == ENOENT ? -1 : errno;
	return rmdir(TRACING "instances/wedge") ? errno : 0;
}

/* An ordinary task that waits for the owner's CPU is moved away and runs. */
static int move_away(void)
{
	__atomic_store_n(&shared->moved, -1, __ATOMIC_RELEASE);
	if (run_on(victim, HOUSE_CPU))
		return errno;
	while (__atomic_load_n(&shared->moved, __ATOMIC_ACQUIRE) != HOUSE_CPU)
		sleep_us(200);
	return 0;
}

/* Moves that task back to the owner's CPU, and it runs there. */
static int move_there(void)
{
	__atomic_store_n(&shared->moved, -1, __ATOMIC_RELEASE);
	if (run_on(victim, cpu))
		return errno;
	while (__atomic_load_n(&shared->moved, __ATOMIC_ACQUIRE) != cpu)
		sleep_us(200);
	return 0;
}

/* A task pinned to the owner's CPU, killed: it has to run to die. */
static int kill_there(void)
{
	pid_t pid = child();
	int status;

	if (!pid) {
		pin(cpu);
		for (;;)
			relax();
	}
	sleep_us(20000);
	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid ? 0 : errno;
}

/* stop_machine() on all CPUs, the owner's too */
static int hotplug_another(void)
{
	char path[64];
	int error;

	if (other_cpu < 0)
		return -1;
	snprintf(path, sizeof(path), CPUS "cpu%d/online", other_cpu);
	error = write_here(path, "0");
	return error ? error : write_here(path, "1");
}

static int module(void)
{
	/* A checksum that no code uses, in the lab's guests */
	int file = open("/modules/crc7.ko", O_RDONLY);

	if (file < 0)
		return -1;
	if (syscall(SYS_finit_module, file, "", 0))
		return errno;
	return syscall(SYS_delete_module, "crc7", O_NONBLOCK) ? errno : 0;
}

static const struct operation {
	const char *name;
	int (*run)(void);
} operations[] = {
	{ "vm.stat_refresh", stat_refresh },
	{ "drop_caches", drop_caches },
	{ "compact_memory", compact_memory },
	{ "vm.overcommit_memory", overcommit },
	{ "slab shrink", shrink_slabs },
	{ "membarrier", membarrier },
	{ "mount, umount", mount_umount },
	{ "kprobe on, off", kprobe },
	{ "tracepoint on, off", tracepoint },
	{ "function tracer", function_tracer },
	{ "trace instance", trace_instance },
	{ "move a task away", move_away },
	{ "move a task there", move_there },
	{ "kill a task there", kill_there },
	{ "hotplug of another", hotplug_another },
	{ "module load, unload", module },
};

#define OPERATIONS ((int)(sizeof(operations) / sizeof(*operations)))

/* Reports the CPU that it runs on, for ever */
static void be_moved(void)
{
	for (;;) {
		__atomic_store_n(&shared->moved, sched_getcpu(),
				 __ATOMIC_RELEASE);
		sleep_us(1000);
	}
}

/*
 * Runs an operation. Returns its time in milliseconds; -1: not possible here;
 * -2: it failed; -3: it hung until the owner ended.
 */
static long timed(const struct operation *operation, long limit_ms)
{
	long began = now_ms(), took;
	pid_t pid = child();
	int status = 0;

	if (!pid) {
		int error = operation->run();

		if (error > 0)
			say("%s: %s", operation->name, strerror(error));
		_exit(error < 0 ? SKIPPED : error ? FAILED : PASSED);
	}
	while (waitpid(pid, &status, WNOHANG) != pid) {
		if (now_ms() - began > limit_ms) {
			say("%s: not done after %ld ms", operation->name,
			    limit_ms);
			end_owner();
			if (reap(pid) < 0)
				die("get an operation done without the owner");
			if (!start_owner())
				die("start the owner again");
			return -3;
		}
		sleep_us(200);
	}
	took = now_ms() - began;
	if (!WIFEXITED(status) || WEXITSTATUS(status) == FAILED)
		return -2;
	return WEXITSTATUS(status) == SKIPPED ? -1 : took;
}

static const char *shown(long ms)
{
	static char text[4][32];
	static int next;

	next = (next + 1) % 4;
	if (ms == -1)
		return "-";
	if (ms == -2)
		return "failed";
	if (ms == -3)
		return "HUNG";
	snprintf(text[next], sizeof(text[next]), "%ld", ms);
	return text[next];
}

static long breaks(void)
{
	return stat_of(page, ISOLATOR_STAT_BREACH_BOUND);
}

static void with_start(void)
{
	long took[OPERATIONS], ticked[OPERATIONS], broke[OPERATIONS];
	struct isolator_status status = status_of(fd, cpu);
	long limit = (status.max_defer_ms + 1000) * slow;
	char text[16];
	int i;

	for (i = 0; i < OPERATIONS; i++) {
		long before = breaks();

		took[i] = timed(&operations[i], limit);
		broke[i] = breaks() - before;
	}
	if (write_file(BOUND, "3600000"))
		die("make the bound longer");
	__atomic_store_n(&shared->ticking, 1, __ATOMIC_RELEASE);
	for (i = 0; i < OPERATIONS; i++) {
		long before = breaks();

		ticked[i] = timed(&operations[i], limit);
		if (breaks() != before)
			ticked[i] = -2;
	}
	__atomic_store_n(&shared->ticking, 0, __ATOMIC_RELEASE);
	snprintf(text, sizeof(text), "%u", status.max_defer_ms);
	write_file(BOUND, text);

	say("%-22s %10s %8s %10s", "operation", "bound, ms", "breaks",
	    "tick, ms");
	for (i = 0; i < OPERATIONS; i++)
		say("%-22s %10s %8ld %10s", operations[i].name,
		    shown(took[i]), broke[i], shown(ticked[i]));
	for (i = 0; i < OPERATIONS; i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s within the bound",
			 operations[i].name);
		ok_or_skipped(took[i] == -1 ? SKIPPED :
			      took[i] < 0 ? FAILED : PASSED, name,
			      "cannot be done here");
		snprintf(name, sizeof(name), "%s after a tick",
			 operations[i].name);
		ok_or_skipped(ticked[i] == -1 ? SKIPPED :
			      ticked[i] < 0 ? FAILED : PASSED, name,
			      "cannot be done here");
	}
	status = status_of(fd, cpu);
	ok(status.owner == owner, "the owner owns the CPU still");
}

static void without_start(void)
{
	char path[64];
	int error, i;

	snprintf(path, sizeof(path),
		 "/sys/kernel/debug/sched/fair_server/cpu%d/runtime", cpu);
	error = write_file(path, "0");
	say("fair server %s%s", error ? "left on: " : "off",
	    error ? strerror(error) : "");
	say("%-22s %10s", "operation", "ms");
	for (i = 0; i < OPERATIONS; i++)
		say("%-22s %10s", operations[i].name,
		    shown(timed(&operations[i], give_up_ms * slow)));
	write_file(path, "50000000");
	ok(true, "looked at a spinner without isolation");
}

int main(int argc, char **argv)
{
	long without = 0;

	arguments(argc, argv, (const struct argument[]){
		{ "--without-start", &without, true },
		{ "--give-up-ms", &give_up_ms, false },
		{ "--slow", &slow, false }, { } });
	cpu = isolated_cpu();
	fd = open_isolator();
	page = page_of(fd, cpu);
	shared = share(PAGE);
	isolated = !without;
	for (other_cpu = cpu_count() - 1; other_cpu >= 0; other_cpu--)
		if (other_cpu != HOUSE_CPU && other_cpu != cpu)
			break;
	pin(HOUSE_CPU);

	/* Waits for the CPU already when the owner starts */
	victim = child();
	if (!victim) {
		pin(cpu);
		be_moved();
	}
	if (!start_owner()) {
		errno = shared->owner < 0 ? -shared->owner : ETIMEDOUT;
		die("start the owner");
	}
	if (without)
		without_start();
	else
		with_start();
	end_owner();
	kill(victim, SIGKILL);
	reap(victim);
	return finish();
}
