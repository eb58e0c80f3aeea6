/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selftests whose cases run in a process each, so that no case sees the state
 * of another. For programs with one such table of cases.
 *
 * Each process has the device open, and runs on the CPU to isolate. "# SKIP":
 * this machine cannot provoke the case; the line before says why.
 */
#ifndef CASES_H
#define CASES_H

#include "selftest.h"

static int cpu;			/* the CPU to isolate */
static int fd;			/* file of the case */

/*
 * In the case's process: whether the call that returned @got failed as it
 * should
 */
static inline int refused(int got, int error, enum isolator_reason reason)
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

static inline int no(int got, int error)
{
	if (got == -1 && errno == error)
		return PASSED;
	say("got %d, errno %d; wanted errno %d", got, errno, error);
	return FAILED;
}

static inline int yes(bool good, const char *what)
{
	if (!good)
		say("wrong: %s (errno %d)", what, errno);
	return good ? PASSED : FAILED;
}

static inline int skip(const char *text)
{
	printf("# skipped: %s\n", text);
	return SKIPPED;
}

/* Four pages */
static inline void *map(int flags, int file)
{
	void *at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);

	if (at == MAP_FAILED)
		die("map");
	return at;
}

/* ---- a CPU that an isolated cpuset partition isolates, not boot ---- */

#define ROOT		"/sys/fs/cgroup"
#define PARTITION	ROOT "/isolator-selftest-partition"

/* The first CPU in nohz_full= that boot does not isolate; -1: there is none */
static inline int tickless_cpu(void)
{
	int other;

	for (other = 0; other < cpu_count(); other++)
		if (list_has(CPUS "nohz_full", other) &&
		    !list_has(CPUS "isolated", other))
			return other;
	return -1;
}

static inline void move_to_group(const char *procs)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", getpid());
	if (write_file(procs, text))
		die("move into a group");
}

/* Makes a partition of such a CPU, which is @cpu then. SKIPPED: there is none */
static inline int make_partition(void)
{
	int other = tickless_cpu();
	char text[16];

	if (other < 0)
		return skip("every CPU of nohz_full is isolated by boot");
	snprintf(text, sizeof(text), "%d", other);
	if ((mkdir(PARTITION, 0755) && errno != EEXIST) ||
	    write_file(ROOT "/cgroup.subtree_control", "+cpuset") ||
	    write_file(PARTITION "/cpuset.cpus", text))
		return skip("no cpuset of cgroup2");
	if (write_file(PARTITION "/cpuset.cpus.partition", "isolated"))
		die("make an isolated partition");
	cpu = other;
	return PASSED;
}

/* Moves this process there */
static inline void enter_partition(void)
{
	move_to_group(PARTITION "/cgroup.procs");
	pin(cpu);
}

static inline int move_to_partition(void)
{
	int result = make_partition();

	if (result == PASSED)
		enter_partition();
	return result;
}

static inline void leave_partition(void)
{
	move_to_group(ROOT "/cgroup.procs");
	if (rmdir(PARTITION))
		die("remove the partition");
}

/* ---- the cases ---- */

struct test_case {
	const char	*name;
	int		(*run)(void);
};

#define CASE(name)	{ #name, name }

/*
 * Runs all cases, up to one without a name, on the CPU that @choose returns;
 * the program's exit status
 */
static inline int run_cases_on(int (*choose)(void), int argc, char **argv,
			       const struct test_case *one)
{
	struct isolator_status state;
	int file;

	arguments(argc, argv, (const struct argument[]){
		{ "--slow", &slow, false }, { } });
	file = open_isolator();
	cpu = choose();
	start_alone(cpu);
	for (; one->name; one++) {
		pid_t pid = child();
		int status;

		if (!pid) {
			fd = open_isolator();
			pin(cpu);
			_exit(one->run());
		}
		status = reap(pid);
		if (status < 0)
			kill(pid, SIGKILL);
		/* A case may leave an owner: it ends with the case. */
		wait_for(no_owner(file, cpu, &state), HANG_MS);
		ok_or_skipped(WIFEXITED(status) ? WEXITSTATUS(status) : FAILED,
			      one->name, "see above");
	}
	return finish();
}

static inline int run_cases(int argc, char **argv, const struct test_case *one)
{
	return run_cases_on(isolated_cpu, argc, argv, one);
}

#endif /* CASES_H */
