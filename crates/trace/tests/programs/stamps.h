/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stamps of a thread: in memory that is touched beforehand, and in a file at its end.
 *
 *   thread TID NAME
 *   cycle DUE BEGIN END CPU_TIME            due 0: the thread does not know it
 *   plant KIND CYCLE FROM TO TID ADDRESS    an event that the program made, the thread that caused it, the page that was touched
 */
#pragma once
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct cycle {
	uint64_t due, begin, end, cpu;
};

struct plant {
	const char *kind;
	uint64_t cycle, from, to;
	pid_t thread;
	uint64_t address;
};

struct stamps {
	char name[16];
	pid_t thread;
	size_t most, cycles, plants;
	struct cycle *cycle;
	struct plant *plant;
};

static inline void need(int is_fine, const char *what)
{
	if (is_fine)
		return;
	perror(what);
	exit(1);
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline struct timespec time_of(uint64_t ns)
{
	struct timespec time;

	time.tv_sec = ns / 1000000000;
	time.tv_nsec = ns % 1000000000;
	return time;
}

static inline void *touched(size_t bytes)
{
	void *memory = malloc(bytes);

	need(memory != NULL, "memory for stamps");
	return memset(memory, 1, bytes);
}

static inline void stamps_make(struct stamps *stamps, size_t most)
{
	stamps->most = most;
	stamps->cycles = stamps->plants = 0;
	stamps->cycle = (struct cycle *)touched(most * sizeof(struct cycle));
	stamps->plant = (struct plant *)touched(most * sizeof(struct plant));
}

/* By the thread itself. */
static inline void stamps_name(struct stamps *stamps, const char *name)
{
	snprintf(stamps->name, sizeof(stamps->name), "%s", name);
	stamps->thread = syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), stamps->name);
}

static inline struct cycle *stamps_begin(struct stamps *stamps, uint64_t due)
{
	struct cycle *cycle = &stamps->cycle[stamps->cycles];
	uint64_t begin = now_ns();

	cycle->due = due;
	cycle->begin = begin;
	cycle->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return cycle;
}

static inline void stamps_end(struct stamps *stamps)
{
	struct cycle *cycle = &stamps->cycle[stamps->cycles++];

	cycle->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cycle->cpu;
	cycle->end = now_ns();
}

static inline void stamps_write(const struct stamps *stamps, FILE *file)
{
	fprintf(file, "thread %d %s\n", stamps->thread, stamps->name);
	for (size_t n = 0; n < stamps->cycles; n++) {
		const struct cycle *cycle = &stamps->cycle[n];

		fprintf(file, "cycle %llu %llu %llu %llu\n", (unsigned long long)cycle->due,
			(unsigned long long)cycle->begin, (unsigned long long)cycle->end,
			(unsigned long long)cycle->cpu);
	}
	for (size_t n = 0; n < stamps->plants; n++) {
		const struct plant *plant = &stamps->plant[n];

		fprintf(file, "plant %s %llu %llu %llu %d %llu\n", plant->kind, (unsigned long long)plant->cycle,
			(unsigned long long)plant->from, (unsigned long long)plant->to, plant->thread,
			(unsigned long long)plant->address);
	}
}
