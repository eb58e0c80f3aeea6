// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that change their affinity while a CPU is taken offline.
 *
 * Why: fuzz.c met a WARNING of affine_move_task(). This test shows that it is a
 * bug of Linux itself: it needs no isolator, and runs on kernels without one.
 *
 *	sched_setaffinity(CPU)		a write of 0 to the CPU's "online"
 *	  CPU is active: accepted
 *					  sched_cpu_deactivate(): inactive
 *	  migration_cpu_stop(): the request is done;
 *	  __migrate_task() to an inactive CPU fails, its result is not read
 *
 * The thread then runs on a CPU that its affinity excludes. On PREEMPT_RT its
 * next migrate_enable() after a preemption misses the request: WARNING.
 *
 * In 6.12, taking a CPU in isolcpus=domain offline usually fails, but only
 * after the kernel made it inactive (the fair server's bandwidth). So the CPU
 * comes back at once. The kernel's log gives the verdict. --ms N (180000).
 */
#include "selftest.h"

#include <pthread.h>

static int cpu;
static long sets, refused;

static void *moves(void *unused)
{
	for (;;) {
		bool failed = run_on(0, HOUSE_CPU) + run_on(0, cpu);
		void *memory;

		__atomic_add_fetch(failed ? &refused : &sets, 1,
				   __ATOMIC_RELAXED);
		/* Takes locks that may sleep on PREEMPT_RT */
		memory = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
			      -1, 0);
		if (memory == MAP_FAILED)
			die("map memory");
		munmap(memory, 16 * PAGE);
	}
	return unused;
}

int main(int argc, char **argv)
{
	long ms = 180000, end, done = 0, failed = 0;
	pthread_t thread;
	char path[64];
	int i;

	arguments(argc, argv, (const struct argument[]){
		{ "--ms", &ms, false }, { } });
	cpu = isolated_cpu();
	snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
	if (access(path, W_OK))
		skip_all("CPU %d cannot be taken offline", cpu);
	for (i = 0; i < 4; i++)
		if (pthread_create(&thread, NULL, moves, NULL))
			die("start a thread");

	for (end = now_ms() + ms; now_ms() < end; sleep_us(20000)) {
		if (write_file(path, "0"))
			failed++;
		else
			done++;
		write_file(path, "1");
	}
	say("%ld attempts to take CPU %d offline failed, %ld succeeded",
	    failed, cpu, done);
	say("%ld changes of affinity, %ld refused", sets, refused);
	ok(sets && done + failed, "threads moved while the CPU was taken away");
	return finish();
}
