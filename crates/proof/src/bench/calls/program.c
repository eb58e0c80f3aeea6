// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What a program in C pays for calls of the shared library: `program CPU READER_CPU` prints the nanoseconds of
 * isolator_session_pending(), and of isolator_monitor_begin() with isolator_monitor_end(), one to a line; medians of batches. The
 * monitor's reader is on another CPU, and reads between batches, as one that comes a few times a second does.
 */
#define _GNU_SOURCE
#include <isolator.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 401, CALLS = 20000, CYCLES = 1000 };

static atomic_ulong ended, seen;
static int reader_cpu;

static void check(const char *what, int result)
{
	if (result >= 0)
		return;
	fprintf(stderr, "cannot %s: %s\n", what, isolator_last_error());
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	check("take a CPU", sched_setaffinity(0, sizeof(cpus), &cpus));
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void median(const char *what, double *values)
{
	qsort(values, BATCHES, sizeof(*values), order);
	printf("%s %.3f\n", what, values[BATCHES / 2]);
}

static void pending(void)
{
	static double took_ns[BATCHES];
	struct isolator_session *session;
	int waits = 0;

	check("start", isolator_session_start(0, &session));
	for (int batch = 0; batch < BATCHES; batch++) {
		double began_ns = now_ns();

		for (int n = 0; n < CALLS; n++)
			waits += isolator_session_pending(session);
		took_ns[batch] = (now_ns() - began_ns) / CALLS;
	}
	check("stop", isolator_session_stop(session));
	if (waits)
		exit(1);
	median("pending", took_ns);
}

static void each(const struct isolator_cycle *cycle, void *data)
{
	(void)data;
	atomic_store(&seen, cycle->number);
}

static void *read_all(void *reader)
{
	pin(reader_cpu);
	while (atomic_load(&seen) < (unsigned long)BATCHES * CYCLES) {
		if (atomic_load(&seen) < atomic_load(&ended))
			check("read", isolator_reader_poll(reader, each, NULL));
		else
			sched_yield();
	}
	if (isolator_reader_lost(reader))
		exit(1);
	isolator_reader_close(reader);
	return NULL;
}

static void monitor(void)
{
	static double took_ns[BATCHES];
	struct isolator_monitor *monitor;
	struct isolator_reader *reader;
	pthread_t thread;

	check("monitor", isolator_monitor_create("bench", 1000000, &monitor));
	check("attach", isolator_reader_attach_fd(isolator_monitor_fd(monitor), &reader));
	if (pthread_create(&thread, NULL, read_all, reader))
		exit(1);
	for (unsigned long batch = 0; batch < BATCHES; batch++) {
		double began_ns = now_ns();

		for (int n = 0; n < CYCLES; n++) {
			isolator_monitor_begin(monitor, 0);
			isolator_monitor_end(monitor);
		}
		took_ns[batch] = (now_ns() - began_ns) / CYCLES;
		atomic_store(&ended, (batch + 1) * CYCLES);
		while (atomic_load(&seen) < (batch + 1) * CYCLES)
			sched_yield();
	}
	pthread_join(thread, NULL);
	isolator_monitor_close(monitor);
	median("monitor", took_ns);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	pin(atoi(argv[1]));
	reader_cpu = atoi(argv[2]);
	pending();
	monitor();
	return 0;
}
