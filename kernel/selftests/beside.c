// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs another test beside a CPU that has an owner.
 *
 *	beside [--alone] [--slow K] PROGRAM ARGUMENT...
 *
 * Why: torture tests and kselftests visit every CPU, in ways that these tests
 * do not. The owner spins in user mode and never calls TICK. So all work for
 * its CPU is deferred, is delivered, or breaks isolation at the bound.
 *
 * How to read: the program's own lines, then one line of this test: whether the
 * owner owned the CPU from beginning to end. "breaks" is how often the watchdog
 * broke isolation at the bound. With --alone that CPU has no owner, for
 * comparison; the kernel then needs no CONFIG_ISOLATOR. (A spinning thread
 * without ownership is no valid comparison: torture of RCU tasks hangs beside
 * it.)
 */
#include "selftest.h"

struct shared {
	int owner;	/* 1: spins; -errno */
	int leave;
};

static struct shared *shared;
static long alone;

static void spin(int cpu)
{
	pin(cpu);
	become_fifo(80);
	if (start_patiently(open_isolator(), ISOLATOR_MASK_DEFAULT)) {
		__atomic_store_n(&shared->owner, -errno, __ATOMIC_RELEASE);
		_exit(1);
	}
	__atomic_store_n(&shared->owner, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&shared->leave, __ATOMIC_ACQUIRE))
		relax();
	_exit(0);
}

static pid_t start_owner(int cpu)
{
	pid_t owner = child();

	if (!owner)
		spin(cpu);
	if (!wait_for(__atomic_load_n(&shared->owner, __ATOMIC_ACQUIRE),
		      HANG_MS) || shared->owner != 1) {
		errno = -shared->owner;
		die("own the CPU");
	}
	return owner;
}

static void tell(const struct isolator_page *page)
{
	uint64_t deferred = 0, delivered = 0;
	int i;

	for (i = ISOLATOR_STAT_DEFER_SYNC; i <= ISOLATOR_STAT_DEFER_TICK; i++)
		deferred += stat_of(page, i);
	for (i = ISOLATOR_STAT_BREACH_CALL; i < ISOLATOR_STAT_BREACH_BOUND; i++)
		delivered += stat_of(page, i);
	say("%llu deferred, %llu delivered, %llu breaks",
	    (unsigned long long)deferred, (unsigned long long)delivered,
	    (unsigned long long)stat_of(page, ISOLATOR_STAT_BREACH_BOUND));
}

int main(int argc, char **argv)
{
	const struct argument known[] = {
		{ "--alone", &alone, true },
		{ "--slow", &slow, false },
		{ 0 },
	};
	struct isolator_status status;
	pid_t owner, program;
	int own, cpu, result;

	/* Words from the first one that is no option belong to the program. */
	for (own = 1; own < argc && argv[own][0] == '-'; own++)
		own += !strcmp(argv[own], "--slow");
	if (own >= argc) {
		fprintf(stderr, "%s: name a program to run beside\n", argv[0]);
		return FAILED;
	}
	arguments(own, argv, known);
	cpu = isolated_cpu();
	shared = share(sizeof(*shared));
	owner = alone ? 0 : start_owner(cpu);

	program = child();
	if (!program) {
		execv(argv[own], argv + own);
		die("run the program");
	}
	while (waitpid(program, &result, 0) < 0)
		if (errno != EINTR)
			die("wait for the program");
	if (!WIFEXITED(result))
		ok(false, "the program ended by itself");

	if (owner) {
		int fd = open_isolator();

		status = status_of(fd, cpu);
		tell(page_of(fd, cpu));
		ok(status.owner == owner && !status.ended,
		   "one owner all the while");
		__atomic_store_n(&shared->leave, 1, __ATOMIC_RELEASE);
		ok(reap(owner) == 0, "the owner ends");
	}
	return finish();
}
