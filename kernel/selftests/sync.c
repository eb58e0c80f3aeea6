// SPDX-License-Identifier: GPL-2.0-only
/*
 * Patched kernel text, and a nohz_full CPU: whom it interrupts.
 *
 * Why: a thread in user mode runs no kernel text, so it needs no interrupt when
 * text was patched. Its next entry synchronises the CPU. A thread in the kernel
 * must be interrupted. This holds for each thread; an owner's mask may leave it
 * out.
 *
 * How: one CPU switches a static key to and fro. /proc/interrupts counts the
 * function calls that the isolated CPU received meanwhile.
 *
 * How to read: a line per case. The cases with an owner are skipped on a kernel
 * without CONFIG_ISOLATOR_OWNER.
 */
#include "selftest.h"

#include <sys/mount.h>
#include <sys/syscall.h>

#define KEY		"/proc/sys/kernel/sched_schedstats"
#define TRACING		"/sys/kernel/tracing"
#define SWITCHES	20
#define READ_BYTES	(4 << 20)

static int cpu;
static struct {
	uint64_t	rounds;
	int		in_kernel;
	int		leave;
} *shared;

/* Function calls that the CPU has received; -1 if the kernel does not say */
static long calls_received(void)
{
	return interrupts_of(cpu, "Function call interrupts");
}

/* Switches the key; how many calls the CPU received meanwhile */
static long patch(void)
{
	long before = calls_received();
	int i;

	for (i = 0; i < SWITCHES; i++)
		if (write_file(KEY, i % 2 ? "0" : "1"))
			die("write " KEY);
	return calls_received() - before;
}

static void stay_in_user_mode(void)
{
	while (!__atomic_load_n(&shared->leave, __ATOMIC_ACQUIRE)) {
		__atomic_add_fetch(&shared->rounds, 1, __ATOMIC_RELAXED);
		relax();
	}
}

static void stay_in_the_kernel(void)
{
	char *at = mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int zero = open("/dev/zero", O_RDONLY);

	if (at == MAP_FAILED || zero < 0)
		die("prepare to read /dev/zero");
	while (!__atomic_load_n(&shared->leave, __ATOMIC_ACQUIRE)) {
		if (read(zero, at, READ_BYTES) != READ_BYTES)
			die("read /dev/zero");
		__atomic_add_fetch(&shared->rounds, 1, __ATOMIC_RELAXED);
	}
}

/* Enters the kernel all the time, for short calls */
static void come_and_go(void)
{
	while (!__atomic_load_n(&shared->leave, __ATOMIC_ACQUIRE)) {
		syscall(SYS_getppid);
		__atomic_add_fetch(&shared->rounds, 1, __ATOMIC_RELAXED);
		relax();
	}
}

static pid_t run(void (*what)(void))
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = child();
	if (!pid) {
		pin(cpu);
		become_fifo(1);
		what();
		_exit(0);
	}
	if (!wait_for(__atomic_load_n(&shared->rounds, __ATOMIC_ACQUIRE) > 2, HANG_MS))
		die("start a thread on the isolated CPU");
	return pid;
}

static bool leave(pid_t pid)
{
	__atomic_store_n(&shared->leave, 1, __ATOMIC_RELEASE);
	return reap(pid) == 0;
}

static long calls_during(void (*what)(void))
{
	pid_t pid = run(what);
	long calls = patch();

	if (!leave(pid))
		die("end the thread on the isolated CPU");
	return calls;
}

/* Whether the event isolator:defer has shown calls to this CPU that waited */
static bool defer_was_traced(void)
{
	static char text[1 << 16], wanted[40];
	long calls;

	write_file(TRACING "/trace", "");
	if (write_file(TRACING "/events/isolator/defer/enable", "1"))
		return false;
	calls = calls_during(stay_in_user_mode);
	write_file(TRACING "/events/isolator/defer/enable", "0");
	snprintf(wanted, sizeof(wanted), "cpu=%d work=0x%x ", cpu,
		 ISOLATOR_PENDING_SYNC);
	return calls >= 0 &&
	       read_file(TRACING "/trace", text, sizeof(text)) > 0 &&
	       strstr(text, wanted);
}

/* ---- owners ---- */

static int fd = -1;

static void own_without_calls(void)
{
	int own = open_isolator();

	if (start_patiently(own, ISOLATOR_MASK_RESCHED))
		die("start");
	stay_in_user_mode();
}

static void own_and_sleep(void)
{
	int own = open_isolator();

	if (start_patiently(own, ISOLATOR_MASK_DEFAULT))
		die("start");
	__atomic_add_fetch(&shared->rounds, 3, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void owners(void)
{
	const struct isolator_page *page;
	struct isolator_status state;
	uint64_t syncs, wakes;
	pid_t owner, other;
	long calls;
	int i;

	fd = open("/dev/isolator", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		for (i = 0; i < 3; i++)
			ok_or_skipped(SKIPPED, "owners", "no /dev/isolator");
		return;
	}
	start_alone(cpu);
	calls = calls_during(own_without_calls);
	ok(calls >= SWITCHES, "an owner whose mask leaves calls out receives them: %ld", calls);
	wait_for(no_owner(fd, cpu, &state), HANG_MS);

	/* The owner sleeps, and another thread has the CPU. */
	page = page_of(fd, cpu);
	owner = run(own_and_sleep);
	other = child();
	if (!other) {
		pin(cpu);
		for (;;)
			relax();
	}
	sleep_us(100000 * slow);
	syncs = stat_of(page, ISOLATOR_STAT_DEFER_SYNC);
	wakes = stat_of(page, ISOLATOR_STAT_DEFER_RESCHED);
	calls = patch();
	for (i = 0; i < 5; i++) {
		pid_t brief = child();

		if (!brief) {
			pin(cpu);
			_exit(0);
		}
		reap(brief);
	}
	syncs = stat_of(page, ISOLATOR_STAT_DEFER_SYNC) - syncs;
	wakes = stat_of(page, ISOLATOR_STAT_DEFER_RESCHED) - wakes;
	ok(calls < SWITCHES / 2 && !syncs,
	   "another thread on an owner's CPU: %ld calls, %llu of them the owner's",
	   calls, (unsigned long long)syncs);
	ok(!wakes, "no wakeup waits for it");
	kill(other, SIGKILL);
	reap(other);
	kill(owner, SIGKILL);
	reap(owner);
}

int main(int argc, char **argv)
{
	uint64_t rounds;
	bool went_on;
	long calls;
	pid_t pid;

	arguments(argc, argv, (const struct argument[]){
		{ "--slow", &slow, false }, { } });
	cpu = isolated_cpu();
	pin(HOUSE_CPU);
	shared = share(sizeof(*shared));
	mount("tracefs", TRACING, "tracefs", 0, NULL);
	if (access(TRACING "/events/isolator/defer", F_OK))
		skip_all("no trace event isolator:defer: a kernel without CONFIG_ISOLATOR");
	if (access(KEY, W_OK) || calls_received() < 0)
		skip_all("no " KEY ", or no count of function calls in /proc/interrupts");

	calls = calls_during(stay_in_the_kernel);
	ok(calls >= SWITCHES / 2, "a thread in the kernel is interrupted: %ld calls", calls);
	calls = calls_during(stay_in_user_mode);
	ok(calls < SWITCHES / 2, "a thread in user mode is not: %ld calls", calls);
	ok(defer_was_traced(), "isolator:defer shows what waited");

	pid = run(come_and_go);
	patch();
	rounds = __atomic_load_n(&shared->rounds, __ATOMIC_ACQUIRE);
	went_on = wait_for(__atomic_load_n(&shared->rounds, __ATOMIC_ACQUIRE) >
			   rounds + 100, HANG_MS);
	ok(leave(pid) && went_on, "a thread that comes and goes meanwhile goes on");
	owners();
	write_file(KEY, "0");
	return finish();
}
