/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The common part of the programs: a thread that is set up as a real-time thread should be, and waits for each cycle until an absolute
 * time. Compiled with SEEDED, a program does one more thing that such a thread must not do; the lines are marked with FAULT and the
 * rule. A fault without a line is reported at the wait: FAULT_AT_WAIT. MAY names a rule that the fault may break too, anywhere.
 */
#ifndef LOOP_H
#define LOOP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef SEEDED
#define IS_SEEDED 1
#else
#define IS_SEEDED 0
#endif

enum { PERIOD_NS = 2000000, SECOND_NS = 1000000000 };

static struct timespec due;

static inline void check(int is_good, const char *what)
{
	if (is_good)
		return;
	perror(what);
	exit(1);
}

static __attribute__((noinline, unused)) void prefault_stack(void)
{
	volatile char stack[192 << 10];
	size_t at;

	for (at = 0; at < sizeof(stack); at += 512)
		stack[at] = 0;
}

static inline void lock_memory(void)
{
	check(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall");
}

/* On one of the CPUs, so that programs that run at one time spread. */
static inline void pin(void)
{
	cpu_set_t all, one;
	int skip, cpu;

	check(sched_getaffinity(0, sizeof(all), &all) == 0, "sched_getaffinity");
	skip = getpid() % CPU_COUNT(&all);
	for (cpu = 0; !CPU_ISSET(cpu, &all) || skip-- > 0; cpu++)
		;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	check(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity");
}

static inline void take_priority(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	check(sched_setscheduler(0, SCHED_FIFO, &param) == 0, "sched_setscheduler");
	clock_gettime(CLOCK_MONOTONIC, &due);
}

static inline void be_real_time(void)
{
	lock_memory();
	prefault_stack();
	pin();
	take_priority(80);
}

static inline void next_due(void)
{
	due.tv_nsec += PERIOD_NS;
	if (due.tv_nsec < SECOND_NS)
		return;
	due.tv_nsec -= SECOND_NS;
	due.tv_sec++;
}

static inline void wait_for_cycle(void)
{
	next_due();
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL); /* WAIT */
}

/* What a cycle computes. */
static volatile long state;

static inline void work(void)
{
	int n;

	for (n = 0; n < 1000; n++)
		state += n;
}

#endif
