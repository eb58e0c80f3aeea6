// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Keeps a CPU in the kernel: it maps memory with all its pages, and gives them back. It is called "calm" where it does not, and
 * becomes "wild" without leaving the CPU: by prctl(), or as another program (exec). It writes the process ID of each process that does so.
 *
 *   kept renames CPU SECONDS
 *   kept execs CPU SECONDS
 *   kept wild
 */

#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 64 << 20 };

static int is_wild(void)
{
	void *pages = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return pages == MAP_FAILED || munmap(pages, BYTES);
}

static int renames(void)
{
	prctl(PR_SET_NAME, "calm");
	usleep(2000);
	prctl(PR_SET_NAME, "wild");
	return is_wild();
}

/* The program lies beside this one under its new name. */
static int execs(const char *self)
{
	char program[4096];
	int status = 0;
	pid_t child = fork();

	if (child < 0)
		return 1;
	if (child) {
		dprintf(1, "%d\n", child);
		return waitpid(child, &status, 0) < 0 || status;
	}
	strncpy(program, self, sizeof(program) - 8);
	program[sizeof(program) - 8] = 0;
	strcpy(strrchr(program, '/') + 1, "wild");
	execl(program, program, "wild", (char *)0);
	_exit(1);
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;
	time_t end;

	if (argc == 2)
		return is_wild();
	if (argc != 4)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[2]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return 3;
	prctl(PR_SET_NAME, "calm");
	dprintf(1, "%d\n", getpid());
	for (end = time(0) + atoi(argv[3]); time(0) < end;)
		if (strcmp(argv[1], "execs") ? renames() : execs(argv[0]))
			return 4;
	return 0;
}
