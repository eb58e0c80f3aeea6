/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cycles between two places of a program, which stamps them there itself: steps WAY PERIOD_US CYCLES FILE. It ends earlier when its
 * standard input does.
 *
 * WAY     the cycle is
 * return    the function step()
 * pair      from cycle_begin() to cycle_end(), two functions
 * usdt      from the USDT probe servo:begin to servo:end, which it reaches only while a tracer counts in their semaphores
 * nested    the function step(), which calls itself
 * unended   from cycle_begin() to cycle_end(), but for each 16th, which has no end
 * spin      the function step(), in a thread that never sleeps
 * trigger   the function step(), in a thread that is woken by another one
 * several   the function step(), twice for each sleep
 *
 * `started` is printed as the loop begins.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <semaphore.h>

#include "stamps.h"

enum { WORK_NS = 50000, BEFORE_NS = 20000, EVERY = 16, PRIORITY = 40 };

/* Notes in the format of tracers: SystemTap's wiki, UserSpaceProbeImplementation. */
volatile unsigned short begin_semaphore __attribute__((section(".probes")));
volatile unsigned short end_semaphore __attribute__((section(".probes")));

asm(".pushsection .stapsdt.base, \"a\"\n"
    "probes_base: .byte 0\n"
    ".popsection\n");

#define PROBE(name, semaphore)                              \
	asm volatile("1:	nop\n"                      \
		     ".pushsection .note.stapsdt, \"\", %%note\n" \
		     ".balign 4\n"                          \
		     ".4byte 8, 3f - 2f, 3\n"               \
		     ".asciz \"stapsdt\"\n"                 \
		     "2:	.8byte 1b, probes_base, " semaphore "\n" \
		     ".asciz \"servo\", \"" name "\", \"\"\n" \
		     "3:	.balign 4\n"                \
		     ".popsection\n" ::: "memory")

static volatile int is_over;

struct loop {
	const char *way;
	uint64_t period, count;
	sem_t trigger;
	uint64_t *triggered; /* when, for each cycle */
	struct stamps stamps;
};

static void work(uint64_t ns)
{
	uint64_t until = now_ns() + ns;

	while (now_ns() < until)
		;
}

static int is(const struct loop *loop, const char *way)
{
	return !strcmp(loop->way, way);
}

__attribute__((noinline, noipa)) void step(struct loop *loop, int depth)
{
	if (!depth)
		stamps_begin(&loop->stamps, is(loop, "trigger") ? loop->triggered[loop->stamps.cycles] : 0);
	work(WORK_NS / (depth + 1));
	if (is(loop, "nested") && depth < 2)
		step(loop, depth + 1);
	if (!depth)
		stamps_end(&loop->stamps);
	asm volatile("" ::: "memory");
}

__attribute__((noinline, noipa)) void cycle_begin(struct loop *loop)
{
	stamps_begin(&loop->stamps, 0);
}

__attribute__((noinline, noipa)) void cycle_end(struct loop *loop)
{
	asm volatile("" ::"r"(loop) : "memory");
}

static void cycle(struct loop *loop, uint64_t n)
{
	if (is(loop, "pair") || is(loop, "unended")) {
		cycle_begin(loop);
		work(WORK_NS);
		/* One without an end is not stamped: the next one replaces it. */
		if (is(loop, "unended") && n % EVERY == 0)
			return;
		stamps_end(&loop->stamps);
		cycle_end(loop);
	} else if (is(loop, "usdt")) {
		stamps_begin(&loop->stamps, 0);
		if (begin_semaphore)
			PROBE("begin", "begin_semaphore");
		work(WORK_NS);
		if (end_semaphore)
			PROBE("end", "end_semaphore");
		stamps_end(&loop->stamps);
	} else {
		step(loop, 0);
		if (is(loop, "several"))
			step(loop, 0);
	}
}

static void *wait_for_end(void *unused)
{
	char byte;

	while (read(0, &byte, 1) > 0)
		;
	is_over = 1;
	return unused;
}

static void *run(void *given)
{
	struct loop *loop = given;
	struct sched_param param = { .sched_priority = PRIORITY };
	uint64_t next = now_ns() + loop->period;

	stamps_name(&loop->stamps, "servo");
	/* A thread that never sleeps has an ordinary policy, to leave a CPU to the others. */
	if (!is(loop, "spin"))
		pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	for (uint64_t n = 1; n <= loop->count && !is_over; n++, next += loop->period) {
		struct timespec until = time_of(next);

		if (is(loop, "spin"))
			while (now_ns() < next)
				;
		else if (is(loop, "trigger"))
			sem_wait(&loop->trigger);
		else
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		work(BEFORE_NS);
		cycle(loop, n);
	}
	return NULL;
}

static void trigger(struct loop *loop, uint64_t n)
{
	loop->triggered[n] = now_ns();
	sem_post(&loop->trigger);
}

int main(int argc, char **argv)
{
	struct loop loop = { 0 };
	pthread_t thread, end;
	uint64_t next, n;
	FILE *file;

	need(argc >= 5, "steps WAY PERIOD_US CYCLES FILE");
	loop.way = argv[1];
	loop.period = strtoull(argv[2], NULL, 10) * 1000;
	loop.count = strtoull(argv[3], NULL, 10);
	stamps_make(&loop.stamps, 2 * loop.count + 1);
	loop.triggered = touched((loop.count + 1) * sizeof(uint64_t));
	need(!sem_init(&loop.trigger, 0, 0), "semaphore");
	puts("started");
	fflush(stdout);
	need(!pthread_create(&end, NULL, wait_for_end, NULL), "thread");
	need(!pthread_create(&thread, NULL, run, &loop), "thread");
	next = now_ns() + loop.period;
	for (n = 0; is(&loop, "trigger") && n < loop.count && !is_over; n++, next += loop.period) {
		struct timespec until = time_of(next);

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		trigger(&loop, n);
	}
	/* The loop may wait for one more. */
	trigger(&loop, n);
	pthread_join(thread, NULL);
	file = fopen(argv[4], "w");
	need(file != NULL, argv[4]);
	stamps_write(&loop.stamps, file);
	fclose(file);
	return 0;
}
