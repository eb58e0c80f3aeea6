// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tasks that preempt an owner run as without the isolator. Tasks that may wait
 * run by the bound.
 *
 * Why: a reschedule that is deferred although its task must run now breaks the
 * contract of its scheduling class. No error shows it: the task only runs late.
 * So the bound is an hour here, and the owner never enters the kernel by
 * itself. If a neighbour runs, its wakeup was delivered.
 *
 *	owner		neighbour, and the cause for it to run
 *	fair		FIFO, RR, DEADLINE: its wakeup
 *	FIFO 10		FIFO 20: its wakeup
 *	RR 10		RR 10: the tick, which its wakeup starts
 *	fair, FIFO 10	FIFO 20, DEADLINE: timers of the owner's CPU, which end
 *			sleeps and give runtime back
 *	any		fair: a bound of 100 ms, also where a FIFO task never
 *			leaves the only housekeeping CPU
 *	fair		a sibling's task with another core scheduling cookie
 *			(prctl(2), PR_SCHED_CORE): never beside the owner
 *
 * How to read: a line per case; "# SKIP" where the machine has no such
 * neighbour. --slow K
 */
#include "selftest.h"

#define FAIR_SERVER	"/sys/kernel/debug/sched/fair_server/cpu%d/runtime"
#define RT_LIMIT	"/proc/sys/kernel/sched_rt_runtime_us"

struct shared {
	int	owner;		/* 1: spins; -errno */
	int	leave;
	int	neighbour;	/* 1: sleeps; 2: is to run; 3: ran; -errno */
	int	hog;		/* 1: spins */
	long	counter;	/* of a fair task of the housekeeping CPU */
	long	rounds;		/* of the owner's loop */
	long	naps;		/* of a neighbour */
	long	beside;
};

static struct shared *shared;
static const struct isolator_page *page;
static int cpu, fd;

static int get(int *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void set(int *at, int value)
{
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
}

static void become(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (sched_setscheduler(0, policy, &param))
		die("change the policy");
}

/* ---- the owner: spins in user mode until it may leave ---- */

static void spin(int policy, int priority, uint32_t mask)
{
	int own = open_isolator();

	pin(cpu);
	become(policy, priority);
	if (mask && start_patiently(own, mask)) {
		set(&shared->owner, -errno);
		_exit(1);
	}
	set(&shared->owner, 1);
	while (!get(&shared->leave)) {
		__atomic_fetch_add(&shared->rounds, 1, __ATOMIC_RELAXED);
		relax();
	}
	_exit(0);
}

/* mask 0: it spins, but owns nothing */
static pid_t start_spinner(int policy, int priority, uint32_t mask)
{
	pid_t pid;

	shared->owner = shared->leave = 0;
	pid = child();
	if (!pid)
		spin(policy, priority, mask);
	if (!wait_for(get(&shared->owner), HANG_MS) || shared->owner != 1) {
		errno = shared->owner < 0 ? -shared->owner : ETIMEDOUT;
		die("start the owner");
	}
	return pid;
}

static pid_t start_owner(int policy, int priority)
{
	return start_spinner(policy, priority, ISOLATOR_MASK_DEFAULT);
}

static void end_owner(pid_t pid)
{
	set(&shared->leave, 1);
	if (reap(pid) < 0)
		die("end the owner");
}

/* A task on the owner's CPU; policy below 0: DEADLINE, if it can be had */
static void become_neighbour(int policy, int priority)
{
	pin(cpu);
	if (policy < 0 && become_deadline()) {
		set(&shared->neighbour, -errno);
		_exit(0);
	}
	if (policy >= 0)
		become(policy, priority);
}

/* ---- a neighbour: sleeps on the owner's CPU, and runs once it is woken ---- */

static int alarm_in, alarm_out;

static void sleep_and_run(void)
{
	char byte;

	set(&shared->neighbour, 1);
	if (read(alarm_out, &byte, 1) == 1)
		set(&shared->neighbour, 3);
	for (;;)
		sleep_us(1000000);
}

/* Starts a neighbour before the owner; its state is -errno if it cannot run */
static pid_t sleeper(int policy, int priority)
{
	pid_t pid;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		die("make a pipe");
	alarm_out = ends[0];
	alarm_in = ends[1];
	pid = child();
	if (pid)
		return pid;
	become_neighbour(policy, priority);
	sleep_and_run();
	_exit(0);
}

static bool sleeps(pid_t pid)
{
	char path[64], text[512], *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (read_file(path, text, sizeof(text)) <= 0)
		return false;
	state = strrchr(text, ')');
	return state && state[2] == 'S';
}

#define BY_ANOTHER	(-1)	/* it ran, by another cause's interrupt */

/*
 * A neighbour sleeps on the CPU, an owner starts, the neighbour is woken. It ran
 * by its own wakeup if an interrupt for a reschedule was delivered.
 */
static int serve(int owner_policy, int owner_priority, int policy, int priority)
{
	uint64_t breaks = stat_of(page, ISOLATOR_STAT_BREACH_BOUND), delivered;
	pid_t neighbour, owner;
	bool ran;

	memset(shared, 0, sizeof(*shared));
	neighbour = sleeper(policy, priority);
	if (!wait_for(get(&shared->neighbour), HANG_MS))
		die("start a neighbour");
	if (shared->neighbour < 0) {
		reap(neighbour);
		return SKIPPED;
	}
	if (!wait_for(sleeps(neighbour), HANG_MS))
		die("have the neighbour sleep");
	owner = start_owner(owner_policy, owner_priority);
	delivered = stat_of(page, ISOLATOR_STAT_BREACH_RESCHED);
	if (write(alarm_in, "", 1) != 1)
		die("wake the neighbour");
	ran = wait_for(get(&shared->neighbour) == 3, HANG_MS / 2);
	delivered = stat_of(page, ISOLATOR_STAT_BREACH_RESCHED) - delivered;
	end_owner(owner);
	kill(neighbour, SIGKILL);
	reap(neighbour);
	close(alarm_in);
	close(alarm_out);
	if (!ran || stat_of(page, ISOLATOR_STAT_BREACH_BOUND) != breaks)
		return FAILED;
	return delivered ? PASSED : BY_ANOTHER;
}

static void served(const char *name, int owner_policy, int owner_priority,
		   int policy, int priority)
{
	int result, times = 5;

	do
		result = serve(owner_policy, owner_priority, policy, priority);
	while (result == BY_ANOTHER && --times);
	ok_or_skipped(result, name, strerror(-shared->neighbour));
}

/* ---- a neighbour that timers of the owner's CPU wake ---- */

static void nap(int policy, int priority)
{
	become_neighbour(policy, priority);
	for (;;) {
		__atomic_fetch_add(&shared->naps, 1, __ATOMIC_RELAXED);
		/* A DEADLINE task's yield lasts until it gets its runtime back. */
		if (policy < 0)
			sched_yield();
		else
			sleep_us(1000);
	}
}

static long napped(void)
{
	return __atomic_load_n(&shared->naps, __ATOMIC_RELAXED);
}

static void wakes_by_timers(const char *name, int owner_policy, int owner_priority,
			    int policy, int priority)
{
	uint64_t breaks = stat_of(page, ISOLATOR_STAT_BREACH_BOUND);
	pid_t neighbour, owner;
	long before;
	bool goes_on;

	memset(shared, 0, sizeof(*shared));
	/* Timers that start on the CPU are its own. */
	if (write_file(MIGRATION, "0"))
		die("keep timers on their CPU");
	neighbour = child();
	if (!neighbour)
		nap(policy, priority);
	if (!wait_for(napped() > 2 || get(&shared->neighbour) < 0, HANG_MS))
		die("start a neighbour");
	if (shared->neighbour < 0) {
		ok_or_skipped(SKIPPED, name, strerror(-shared->neighbour));
	} else {
		owner = start_owner(owner_policy, owner_priority);
		/* Until the tick has stopped, the gate is open anyway. */
		sleep_us(500000);
		before = napped();
		goes_on = wait_for(napped() > before + 10, HANG_MS / 2);
		say("%ld naps beside the owner", napped() - before);
		ok(goes_on && stat_of(page, ISOLATOR_STAT_BREACH_BOUND) == breaks,
		   "%s", name);
		end_owner(owner);
		kill(neighbour, SIGKILL);
	}
	reap(neighbour);
	write_file(MIGRATION, "1");
}

/* ---- tasks that may wait ---- */

static void fair_waits_for_the_bound(const char *name, int policy, int priority)
{
	uint64_t deferred = stat_of(page, ISOLATOR_STAT_DEFER_RESCHED) +
			    stat_of(page, ISOLATOR_STAT_DEFER_TICK);
	uint64_t delivered = stat_of(page, ISOLATOR_STAT_BREACH_RESCHED);
	uint64_t closed = stat_of(page, ISOLATOR_STAT_GATE_CLOSED);
	pid_t neighbour, owner;
	bool ran;

	memset(shared, 0, sizeof(*shared));
	neighbour = sleeper(SCHED_OTHER, 0);
	if (!wait_for(get(&shared->neighbour) == 1 && sleeps(neighbour), HANG_MS))
		die("start a neighbour");
	owner = start_owner(policy, priority);
	/* Until the tick has stopped it runs the neighbour, as on any kernel. */
	if (!wait_for(stat_of(page, ISOLATOR_STAT_GATE_CLOSED) > closed, HANG_MS))
		die("stop the tick");
	if (write(alarm_in, "", 1) != 1)
		die("wake the neighbour");
	sleep_us(200000);
	delivered = stat_of(page, ISOLATOR_STAT_BREACH_RESCHED) - delivered;
	deferred = stat_of(page, ISOLATOR_STAT_DEFER_RESCHED) +
		   stat_of(page, ISOLATOR_STAT_DEFER_TICK) - deferred;
	say("state %d, %ld interrupts delivered, %ld deferred",
	    get(&shared->neighbour), (long)delivered, (long)deferred);
	/* It may run: another cause may take the owner into the kernel. */
	ok(!delivered && deferred, "%s waits", name);
	write_file(BOUND, "100");
	ran = wait_for(get(&shared->neighbour) == 3, HANG_MS / 2);
	write_file(BOUND, "3600000");
	ok(ran, "%s runs once the bound is over", name);
	end_owner(owner);
	kill(neighbour, SIGKILL);
	reap(neighbour);
	close(alarm_in);
	close(alarm_out);
}

/* A fair task of the housekeeping CPU: counts where a thread could run, too */
static pid_t start_counter(void)
{
	pid_t pid = child();

	if (pid)
		return pid;
	for (;;) {
		__atomic_fetch_add(&shared->counter, 1, __ATOMIC_RELAXED);
		sleep_us(1000);
	}
}

static long counted(void)
{
	return __atomic_load_n(&shared->counter, __ATOMIC_RELAXED);
}

/*
 * The watchdog must not need a thread. Here only tasks of FIFO 50 and above run
 * on the only housekeeping CPU. The watchdog itself has to end the neighbour's
 * wait: the fair server of the owner's CPU might, later, without a break.
 */
static void bound_beside_a_hog(void)
{
	static const char name[] =
		"the bound holds where a FIFO task never gives the housekeeping CPU away";
	uint64_t breaks, closed = stat_of(page, ISOLATOR_STAT_GATE_CLOSED);
	pid_t hog, counter, neighbour, owner;
	char server[80], limit[32];
	long before, after;
	bool ran, off;

	snprintf(server, sizeof(server), FAIR_SERVER, HOUSE_CPU);
	if (list_has(CPUS "isolated", HOUSE_CPU) || !list_has(CPUS "online", 1) ||
	    list_has(CPUS "online", 2)) {
		ok_or_skipped(SKIPPED, name, "there are not two CPUs");
		return;
	}
	memset(shared, 0, sizeof(*shared));
	neighbour = sleeper(SCHED_OTHER, 0);
	counter = start_counter();
	if (!wait_for(get(&shared->neighbour) == 1 && sleeps(neighbour), HANG_MS))
		die("start a neighbour");
	owner = start_owner(SCHED_FIFO, 10);
	if (!wait_for(stat_of(page, ISOLATOR_STAT_GATE_CLOSED) > closed, HANG_MS))
		die("stop the tick");
	if (read_file(RT_LIMIT, limit, sizeof(limit)) < 0 ||
	    write_file(RT_LIMIT, "-1"))
		die("lift the limit of real-time tasks");
	off = !write_file(server, "0");
	become(SCHED_FIFO, 90);
	hog = child();
	if (!hog) {
		become(SCHED_FIFO, 50);
		for (;;) {
			set(&shared->hog, 1);
			relax();
		}
	}
	wait_for(get(&shared->hog), HANG_MS);
	breaks = stat_of(page, ISOLATOR_STAT_BREACH_BOUND);
	before = counted();
	if (write(alarm_in, "", 1) != 1)
		die("wake the neighbour");
	write_file(BOUND, "100");
	ran = wait_for(get(&shared->neighbour) == 3, HANG_MS / 4);
	breaks = stat_of(page, ISOLATOR_STAT_BREACH_BOUND) - breaks;
	after = counted();
	kill(hog, SIGKILL);
	reap(hog);
	write_file(BOUND, "3600000");
	become(SCHED_OTHER, 0);
	write_file(server, "50000000");
	write_file(RT_LIMIT, limit);
	say("state %d, %ld breaks, a fair task of CPU %d ran %ld times",
	    get(&shared->neighbour), (long)breaks, HOUSE_CPU, after - before);
	if (!off || after != before)
		ok_or_skipped(SKIPPED, name, "fair tasks run beside a FIFO task");
	else
		ok(ran && breaks, "%s", name);
	end_owner(owner);
	kill(neighbour, SIGKILL);
	reap(neighbour);
	kill(counter, SIGKILL);
	reap(counter);
	close(alarm_in);
	close(alarm_out);
}

/* ---- core scheduling ---- */

#define CORE_SCHED		62	/* PR_SCHED_CORE */
#define CORE_SCHED_CREATE	1
#define OTHER_THREADS \
	"/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list"

static int sibling(void)
{
	char path[80];
	int other;

	snprintf(path, sizeof(path), OTHER_THREADS, cpu);
	for (other = 0; other < cpu_count(); other++)
		if (other != cpu && list_has(path, other))
			return other;
	return -1;
}

static uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	uint64_t value;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#endif
}

#define LOOKS		20000

/* Whether the owner ran, while the caller was not interrupted; the time of it */
static bool look(uint64_t at_most, uint64_t *took)
{
	uint64_t began = counter();
	long before = __atomic_load_n(&shared->rounds, __ATOMIC_RELAXED), after;
	int spins;

	for (spins = 0; spins < 200; spins++)
		relax();
	after = __atomic_load_n(&shared->rounds, __ATOMIC_RELAXED);
	*took = counter() - began;
	/* An owner that was just forced to idle may have counted once. */
	return after > before + 1 && *took <= at_most;
}

/*
 * Counts how often the owner runs while this task runs on the sibling. Tasks
 * with different cookies may not run on a core at the same time: they take
 * turns. A look that lasts long had a turn of the owner within.
 */
static void run_beside(int other)
{
	uint64_t took, least = UINT64_MAX;
	int round;

	if (prctl(CORE_SCHED, CORE_SCHED_CREATE, 0, 0, 0)) {
		set(&shared->neighbour, -errno);
		_exit(0);
	}
	pin(other);
	set(&shared->neighbour, 1);
	for (round = 0; round < 1000; round++) {
		look(0, &took);
		if (took < least)
			least = took;
	}
	for (round = 0; round < LOOKS; round++)
		shared->beside += look(8 * least, &took);
	set(&shared->neighbour, 3);
	for (;;)
		sleep_us(1000000);
}

/* Number of looks at which both ran; -errno: it has no cookie */
static long both_ran(int other, uint32_t mask)
{
	pid_t owner, task;
	long beside;

	memset(shared, 0, sizeof(*shared));
	owner = start_spinner(SCHED_OTHER, 0, mask);
	task = child();
	if (!task)
		run_beside(other);
	wait_for(get(&shared->neighbour) < 0 || get(&shared->neighbour) == 3,
		 HANG_MS);
	beside = shared->neighbour == 3 ? shared->beside :
		 shared->neighbour < 0 ? shared->neighbour : LOOKS;
	end_owner(owner);
	kill(task, SIGKILL);
	reap(task);
	return beside;
}

static void cookies(void)
{
	static const char name[] = "a task with another cookie runs, and not beside the owner";
	uint64_t delivered = stat_of(page, ISOLATOR_STAT_BREACH_RESCHED);
	int other = sibling();
	long without, with;

	if (other < 0) {
		ok_or_skipped(SKIPPED, name, "the CPU has no sibling");
		return;
	}
	without = both_ran(other, 0);
	if (without < 0) {
		ok_or_skipped(SKIPPED, name, strerror(-without));
		return;
	}
	with = both_ran(other, ISOLATOR_MASK_DEFAULT);
	delivered = stat_of(page, ISOLATOR_STAT_BREACH_RESCHED) - delivered;
	say("of %d looks, both ran at %ld, without START at %ld; %ld interrupts delivered",
	    LOOKS, with, without, (long)delivered);
	/*
	 * An interrupt takes a moment, with or without START. Another cause may
	 * end a deferral soon: count the interrupts, too.
	 */
	ok(with < LOOKS / 100 + without * 3 / 2 && delivered, "%s", name);
}

int main(int argc, char **argv)
{
	char bound[16];

	arguments(argc, argv, (const struct argument[]){
		{ "--slow", &slow, false }, { } });
	cpu = isolated_cpu();
	fd = open_isolator();
	page = page_of(fd, cpu);
	shared = share(PAGE);
	start_alone(cpu);
	pin(HOUSE_CPU);
	snprintf(bound, sizeof(bound), "%u", status_of(fd, cpu).max_defer_ms);
	if (write_file(BOUND, "3600000"))
		die("make the bound longer");

	served("FIFO preempts a fair owner", SCHED_OTHER, 0, SCHED_FIFO, 99);
	served("RR preempts a fair owner", SCHED_OTHER, 0, SCHED_RR, 1);
	served("DEADLINE preempts a fair owner", SCHED_OTHER, 0, -1, 0);
	served("FIFO preempts an owner of lower priority", SCHED_FIFO, 10,
	       SCHED_FIFO, 20);
	served("DEADLINE preempts a FIFO owner", SCHED_FIFO, 10, -1, 0);
	served("RR takes turns with an RR owner of its priority", SCHED_RR, 10,
	       SCHED_RR, 10);
	wakes_by_timers("FIFO sleeps and wakes behind a fair owner", SCHED_OTHER, 0,
			SCHED_FIFO, 99);
	wakes_by_timers("FIFO sleeps and wakes behind an owner of lower priority",
			SCHED_FIFO, 10, SCHED_FIFO, 20);
	wakes_by_timers("DEADLINE gets its runtime back behind a fair owner",
			SCHED_OTHER, 0, -1, 0);
	wakes_by_timers("DEADLINE gets its runtime back behind a FIFO owner",
			SCHED_FIFO, 10, -1, 0);
	fair_waits_for_the_bound("a fair task behind a fair owner", SCHED_OTHER, 0);
	fair_waits_for_the_bound("a fair task behind a FIFO owner", SCHED_FIFO, 10);
	bound_beside_a_hog();
	cookies();
	write_file(BOUND, bound);
	return finish();
}
