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

struct test_case {
	const char	*name;
	int		(*run)(void);
};

#define CASE(name)	{ #name, name }

/* Runs all cases, up to one without a name; the program's exit status */
static inline int run_cases(int argc, char **argv, const struct test_case *one)
{
	struct isolator_status state;
	int file;

	arguments(argc, argv, (const struct argument[]){
		{ "--slow", &slow, false }, { } });
	file = open_isolator();
	cpu = isolated_cpu();
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

#endif /* CASES_H */
