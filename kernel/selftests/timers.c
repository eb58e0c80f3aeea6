// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timers of an isolated CPU fire whenever its owner enters the kernel.
 *
 * Why: the CPU's event device is stopped while the owner is in user mode, and
 * stays so in a short call. If code fails to start it again, the timers stay
 * queued, but none fires. Each case arms a timer of the CPU, and waits for it
 * in the way that its name states; a limit on time only detects a hang.
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

/*
 * Without a system call: clock_gettime() may be one if the vDSO has no clock.
 */
static bool spins_until_it_came(void)
{
	uint64_t rounds = 2000000000ULL;

	while (!came && --rounds)
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
	uint64_t breaks;
	int tries;

	for (tries = 0; tries < 3; tries++) {
		breaks = breaches(page);
		arm(timer, SOON_MS);
		if (!spins_until_it_came())
			return false;
		if (breaches(page) == breaks)
			return true;
	}
	return false;
}

/*
 * A timer in the midst of a call that neither sleeps nor starts a timer. A read
 * of random bytes ends early if a signal comes. The timer must be one of this
 * CPU, so the case tells the kernel to leave timers on the CPU that starts
 * them. PREEMPT_RT may run its function in a thread, of FIFO 1 in 7.2, so the
 * owner is an ordinary task meanwhile.
 */
#define MIGRATION	"/proc/sys/kernel/timer_migration"
#define BOUND		"/proc/sys/kernel/isolator_max_defer_ms"
#define MUCH		(64L << 20)

static void become_fair(void)
{
	struct sched_param param = { };

	if (sched_setscheduler(0, SCHED_OTHER, &param))
		die("become an ordinary task");
}

static void long_call(timer_t timer, unsigned int bound_ms)
{
	static const char name[] = "comes in the midst of a long call";
	int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	char *room = mmap(NULL, MUCH, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[16];
	long got;

	if (file < 0 || room == MAP_FAILED || write_file(MIGRATION, "0")) {
		ok_or_skipped(SKIPPED, name, "no timer_migration");
		return;
	}
	write_file(BOUND, "3600000");
	become_fair();
	arm(timer, SOON_MS);
	got = read(file, room, MUCH);
	become_fifo(80);
	ok(got > 0 && got < MUCH && came, "%s (after %ld of %ld bytes)", name,
	   got, MUCH);
	snprintf(text, sizeof(text), "%u", bound_ms);
	write_file(BOUND, text);
	write_file(MIGRATION, "1");
	munmap(room, MUCH);
	close(file);
}

/* Number of irq_work interrupts of a CPU; -1: the kernel does not count them */
static long irq_works(int cpu)
{
	static char text[1 << 16];
	char *line, *at;
	int i;

	if (read_file("/proc/interrupts", text, sizeof(text)) <= 0)
		return -1;
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (!strstr(line, "IRQ work interrupts"))
			continue;
		at = strchr(line, ':') + 1;
		for (i = 0; i < cpu; i++)
			strtol(at, &at, 10);
		return strtol(at, NULL, 10);
	}
	return -1;
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

/* Number of sleeps of a millisecond by a task on the CPU */
static long *naps;

static pid_t napper(int cpu)
{
	pid_t pid = child();

	if (pid)
		return pid;
	pin(cpu);
	become_fifo(1);
	for (;; __atomic_add_fetch(naps, 1, __ATOMIC_RELAXED))
		sleep_us(1000);
}

static bool naps_go_on(void)
{
	long before = __atomic_load_n(naps, __ATOMIC_RELAXED);

	return wait_for(__atomic_load_n(naps, __ATOMIC_RELAXED) > before + 5,
			HANG_MS);
}

/*
 * The owner's own timers while it spins: each comes at once, by a signal that
 * counts as a breach, or in the owner's next calls. It comes at once where Linux
 * starts it on a housekeeping CPU, and in a call where it is a timer of
 * this CPU.
 */
#define SHOTS		200

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

static bool each_shot_comes(int fd, const struct isolator_page *page,
			    timer_t timer, uint64_t while_ticks)
{
	int at_once = 0, at_call = 0, shot;
	uint64_t breaks = stat_of(page, ISOLATOR_STAT_BREACH_SIGNAL);

	for (shot = 0; shot < SHOTS; shot++) {
		uint64_t began;

		arm(timer, 1);
		for (began = counter(); counter() - began < while_ticks && !came;)
			relax();
		if (came)
			at_once++;
		else
			at_call += calls_until_it_came(fd, 0);
	}
	breaks = stat_of(page, ISOLATOR_STAT_BREACH_SIGNAL) - breaks;
	say("of %d timers %d came at once, %d in calls; %llu signals counted",
	    SHOTS, at_once, at_call, (unsigned long long)breaks);
	return at_once + at_call == SHOTS;
}

int main(int argc, char **argv)
{
	const struct isolator_page *page;
	struct itimerspec soon = { .it_value.tv_nsec = SOON_MS * 1000000L };
	struct sigaction action = { .sa_handler = comes };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGUSR1 };
	int cpu, fd, sleeper;
	timer_t timer, cpu_timer;
	uint64_t times, closed, ticks;
	pid_t pid;

	arguments(argc, argv, (const struct argument[]){
		{ "--slow", &slow, false }, { } });
	cpu = isolated_cpu();
	fd = open_isolator();
	page = page_of(fd, cpu);
	naps = share(PAGE);
	ticks = counter();
	sleep_us(5000);
	ticks = counter() - ticks;
	pin(cpu);
	become_fifo(80);
	if (sigaction(SIGUSR1, &action, NULL) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer))
		die("make a timer");
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT))
		die("start");

	closed = stat_of(page, ISOLATOR_STAT_GATE_CLOSED);
	arm(timer, SOON_MS);
	ok(calls_until_it_came(fd, 0), "comes in the midst of short calls");
	ok(stat_of(page, ISOLATOR_STAT_GATE_CLOSED) > closed,
	   "which went back with the gate closed");

	arm(timer, 5000);
	tick(fd, 0);
	arm(timer, SOON_MS);
	ok(calls_until_it_came(fd, 0), "comes where a later one was armed before");

	/* A CPU timer needs the tick, so the gate stays open. */
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &cpu_timer))
		die("make a CPU timer");
	ok(comes_by_itself(page, cpu_timer),
	   "a CPU timer comes without a call, and without a break");
	returns_without_an_interrupt(fd, cpu, cpu_timer);
	timer_delete(cpu_timer);

	ok(each_shot_comes(fd, page, timer, ticks),
	   "each of its own comes, at once or in its next calls");
	/* PREEMPT_RT may run them in a thread of FIFO 1, as above. */
	become_fair();
	if (!write_file(MIGRATION, "0"))
		ok(each_shot_comes(fd, page, timer, ticks) &&
		   !write_file(MIGRATION, "1"),
		   "also where timers stay on the CPU that starts them");
	become_fifo(80);

	long_call(timer, status_of(fd, cpu).max_defer_ms);

	sleeper = timerfd_create(CLOCK_MONOTONIC, 0);
	if (sleeper < 0 || timerfd_settime(sleeper, 0, &soon, NULL))
		die("make a timer");
	tick(fd, 0);
	ok(read(sleeper, &times, sizeof(times)) == sizeof(times),
	   "wakes its owner, who armed it two calls before");

	pid = napper(cpu);
	ok(naps_go_on(), "those of another task come while the owner sleeps");

	arm(timer, SOON_MS);
	tick(fd, 0);
	ok(!stop(fd) && spins_until_it_came(),
	   "comes without a call once the CPU was given back");

	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT))
		die("start again");
	tick(fd, 0);
	arm(timer, SOON_MS);
	ok(calls_until_it_came(fd, ISOLATOR_TICK_SCHED),
	   "comes in the midst of calls that have the tick looked at");
	stop(fd);
	ok(naps_go_on(), "those of another task come afterwards");
	kill(pid, SIGKILL);
	return finish();
}
