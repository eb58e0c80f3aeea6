// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timers of an isolated CPU: which of them wait while its owner is in user mode,
 * and that those fire whenever the owner enters the kernel.
 *
 * Why: the CPU's event device is stopped while the owner is in user mode, if all
 * timers of the CPU may wait, and stays so in a short call. If code fails to
 * start it again, the timers stay queued, but none fires. The owner's own timers
 * may not wait. The sleep of a fair task may, so its naps go on only where the
 * timer fires. A limit on time only detects a hang.
 *
 * --slow K
 */
#include "selftest.h"

#include <sys/timerfd.h>

#define SOON_MS		20

static volatile sig_atomic_t came;

static void comes(int number)
{
	came = number;
}

static void arm(timer_t timer, long ms)
{
	struct itimerspec when = { .it_value = { ms / 1000,
						 ms % 1000 * 1000000 } };

	came = 0;
	if (timer_settime(timer, 0, &when, NULL))
		die("start a timer");
}

/* Rounds of spins_until_it_came() that take about HANG_MS */
static long hang_rounds;

static void measure_rounds(void)
{
	const long until = now_ms() + HANG_MS / 100;
	long rounds = 0, i;

	for (; now_ms() < until; rounds += 1000)
		for (i = 0; i < 1000 && !came; i++)
			relax();
	hang_rounds = rounds * 100 * slow;
}

/*
 * Without a system call: clock_gettime() may be one if the vDSO has no clock.
 */
static bool spins_until_it_came(long *rounds)
{
	while (!came && --*rounds > 0)
		relax();
	return came;
}

static bool calls_until_it_came(int fd, unsigned int flags)
{
	const long until = now_ms() + HANG_MS * slow;

	while (!came && now_ms() < until)
		tick(fd, flags);
	return came;
}

/* Retries: a breach for another reason lets a timer fire as well. */
static bool comes_by_itself(const struct isolator_page *page, timer_t timer)
{
	long rounds = hang_rounds;
	uint64_t breaks;
	int tries;

	for (tries = 0; tries < 3; tries++) {
		breaks = breaches(page);
		arm(timer, SOON_MS);
		if (!spins_until_it_came(&rounds))
			return false;
		if (breaches(page) == breaks)
			return true;
	}
	return false;
}

/* Number of sleeps by tasks on the CPU */
static long *naps;

static long napped(void)
{
	return __atomic_load_n(naps, __ATOMIC_RELAXED);
}

/* A fair task that sleeps, and does nothing else */
static pid_t napper(int cpu, long us)
{
	pid_t pid = child();

	if (pid)
		return pid;
	pin(cpu);
	for (;; __atomic_add_fetch(naps, 1, __ATOMIC_RELAXED))
		sleep_us(us);
}

static bool naps_go_on(void)
{
	long before = napped();

	return wait_for(napped() > before + 5, HANG_MS);
}

static bool naps_go_on_in_calls(int fd, unsigned int flags)
{
	const long until = now_ms() + HANG_MS * slow, before = napped();

	while (napped() <= before + 5 && now_ms() < until)
		tick(fd, flags);
	return napped() > before + 5;
}

/*
 * A call that neither sleeps nor starts a timer. At its entry a timer waits
 * behind the gate, which has to open for those that fire during the call.
 */
#define MUCH		(64L << 20)

static void long_call(void)
{
	static const char name[] = "and in the midst of a long call";
	int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	char *room = mmap(NULL, MUCH, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long before = napped(), got;

	if (file < 0 || room == MAP_FAILED)
		die("prepare a long call");
	got = read(file, room, MUCH);
	ok(got == MUCH && napped() > before + 2, "%s (%ld naps)", name,
	   napped() - before);
	munmap(room, MUCH);
	close(file);
}

/* Number of irq_work interrupts of a CPU; -1: the kernel does not count them */
static long irq_works(int cpu)
{
	return interrupts_of(cpu, "IRQ work interrupts");
}

/*
 * While the tick is needed, each return to user mode has the tick checked. An
 * interrupt to the CPU itself must not do this. On hardware it may come in user
 * mode only, and would bring the owner back to the same return for ever.
 */
static void returns_without_an_interrupt(int fd, int cpu, timer_t cpu_timer)
{
	static const char name[] = "a tick that is kept costs no interrupt at each return";
	long before = irq_works(cpu), more;
	int i;

	if (before < 0) {
		ok_or_skipped(SKIPPED, name, "the kernel does not count them");
		return;
	}
	arm(cpu_timer, 1000000);
	before = irq_works(cpu);
	for (i = 0; i < 1000; i++)
		tick(fd, 0);
	more = irq_works(cpu) - before;
	ok(more < 100, "%s (%ld in 1000)", name, more);
}

/*
 * The owner's own timers while it spins. Each comes without a call: where Linux
 * starts it on a housekeeping CPU, by a signal that counts as a breach; where it
 * is a timer of this CPU, by its interrupt.
 */
#define SHOTS		1000

static bool each_shot_comes(const struct isolator_page *page, timer_t timer)
{
	uint64_t breaks = stat_of(page, ISOLATOR_STAT_BREACH_SIGNAL);
	long rounds = hang_rounds;	/* of all: late ones are none */
	int shot;

	for (shot = 0; shot < SHOTS; shot++) {
		arm(timer, 1);
		if (!spins_until_it_came(&rounds))
			break;
	}
	breaks = stat_of(page, ISOLATOR_STAT_BREACH_SIGNAL) - breaks;
	say("of %d timers %d came, %llu by a signal of another CPU", SHOTS, shot,
	    (unsigned long long)breaks);
	return shot == SHOTS;
}

static void start_fair(int fd)
{
	struct sched_param param = { };

	if (sched_setscheduler(0, SCHED_OTHER, &param))
		die("become an ordinary task");
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT))
		die("start");
}

int main(int argc, char **argv)
{
	const struct isolator_page *page;
	struct itimerspec soon = { .it_value.tv_nsec = SOON_MS * 1000000L };
	struct sigaction action = { .sa_handler = comes };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGUSR1 };
	timer_t timer, cpu_timer;
	uint64_t times, closed;
	pid_t short_naps, long_naps;
	int cpu, fd, sleeper;
	long rounds;
	char bound[16];

	arguments(argc, argv, (const struct argument[]){
		{ "--slow", &slow, false }, { } });
	cpu = isolated_cpu();
	fd = open_isolator();
	page = page_of(fd, cpu);
	naps = share(PAGE);
	pin(cpu);
	measure_rounds();
	if (sigaction(SIGUSR1, &action, NULL) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer))
		die("make a timer");
	snprintf(bound, sizeof(bound), "%u", status_of(fd, cpu).max_defer_ms);
	if (write_file(BOUND, "3600000"))
		die("make the bound longer");

	become_fifo(80);
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT))
		die("start");
	arm(timer, SOON_MS);
	ok(calls_until_it_came(fd, 0), "comes beside short calls of a FIFO owner");
	arm(timer, 5000);
	tick(fd, 0);
	arm(timer, SOON_MS);
	ok(calls_until_it_came(fd, 0), "comes where a later one was armed before");
	arm(timer, SOON_MS);
	ok(calls_until_it_came(fd, ISOLATOR_TICK_SCHED),
	   "comes beside calls that have the tick looked at");
	stop(fd);

	/* PREEMPT_RT runs its function in a thread, of FIFO 1 in 7.2. */
	start_fair(fd);
	ok(each_shot_comes(page, timer), "each of the owner's own comes without a call");
	if (!write_file(MIGRATION, "0"))
		ok(each_shot_comes(page, timer),
		   "also where timers stay on the CPU that starts them");

	/* A CPU timer needs the tick, so the gate stays open. */
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &cpu_timer))
		die("make a CPU timer");
	ok(comes_by_itself(page, cpu_timer),
	   "a CPU timer comes without a call, and without a break");
	returns_without_an_interrupt(fd, cpu, cpu_timer);
	timer_delete(cpu_timer);

	sleeper = timerfd_create(CLOCK_MONOTONIC, 0);
	if (sleeper < 0 || timerfd_settime(sleeper, 0, &soon, NULL))
		die("make a timer");
	tick(fd, 0);
	ok(read(sleeper, &times, sizeof(times)) == sizeof(times),
	   "wakes its owner, who armed it two calls before");
	arm(timer, SOON_MS);
	tick(fd, 0);
	rounds = hang_rounds;
	ok(!stop(fd) && spins_until_it_came(&rounds),
	   "comes without a call once the CPU was given back");

	/* The later one is queued before each of the others. */
	long_naps = napper(cpu, 3600000000L);
	short_naps = napper(cpu, SOON_MS * 1000L);
	if (!naps_go_on())
		die("have a task nap");
	start_fair(fd);
	closed = stat_of(page, ISOLATOR_STAT_GATE_CLOSED);
	ok(naps_go_on_in_calls(fd, 0), "a fair task's naps end in short calls");
	ok(stat_of(page, ISOLATOR_STAT_GATE_CLOSED) > closed,
	   "which went back with the gate closed");
	long_call();
	ok(naps_go_on(), "and while the owner sleeps");
	ok(naps_go_on_in_calls(fd, ISOLATOR_TICK_SCHED),
	   "and in calls that have the tick looked at");
	stop(fd);
	ok(naps_go_on(), "and once the CPU was given back");
	kill(short_naps, SIGKILL);
	kill(long_naps, SIGKILL);
	write_file(MIGRATION, "1");
	write_file(BOUND, bound);
	return finish();
}
