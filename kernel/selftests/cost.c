// SPDX-License-Identifier: GPL-2.0-only
/*
 * System calls, context switches and interrupts, for counting from outside.
 *
 * Why: the hooks must cost almost nothing on a CPU that they do not serve, and
 * little on a nohz_full CPU without an owner. A clock
 * would measure the cost on one machine only, and with noise; instruction
 * counts are the same on each machine. So this program does the same on a
 * kernel with the hooks and on one without. An emulator's plugin (lab/scope)
 * counts the instructions that the kernel executes between the markers. On
 * hardware the markers do nothing.
 *
 * Three windows on an isolated CPU without an owner, or on the CPU of --cpu:
 *
 *	1	getpid()
 *	2	sched_yield() to another thread of the same priority, and back
 *	3	interrupts of another CPU (expedited membarrier) while it spins
 *
 * --count N of each. This program gives no verdict: make proof-kernel PART=cost
 * does.
 */
#include "selftest.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>

static long cpu = -1;
static long count = 2000;
static long leave, go, sent;

static void calls(void)
{
	long i;

	for (i = 0; i < 100; i++)
		syscall(SYS_getpid);
	BEGIN();
	for (i = 0; i < count; i++)
		syscall(SYS_getpid);
	END();
}

static void *yield_back(void *unused)
{
	pin(cpu);
	become_fifo(80);
	while (!__atomic_load_n(&leave, __ATOMIC_ACQUIRE))
		sched_yield();
	return unused;
}

static void switches(void)
{
	pthread_t other;
	long i;

	if (pthread_create(&other, NULL, yield_back, NULL))
		die("make a thread");
	/*
	 * The other thread moves to this CPU, and reaches its loop meanwhile.
	 */
	sleep_us(200000);
	for (i = 0; i < 100; i++)
		sched_yield();
	BEGIN();
	for (i = 0; i < count; i++)
		sched_yield();
	END();
	__atomic_store_n(&leave, 1, __ATOMIC_RELEASE);
	pthread_join(other, NULL);
}

static void *interrupt(void *unused)
{
	struct sched_param none = { };
	long i;

	/*
	 * Only the isolated CPU may have a task that spins with FIFO priority.
	 */
	pin(HOUSE_CPU);
	sched_setscheduler(0, SCHED_OTHER, &none);
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		relax();
	for (i = 0; i < count; i++)
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
			die("interrupt by membarrier");
	__atomic_store_n(&sent, 1, __ATOMIC_RELEASE);
	return unused;
}

static void interrupts(void)
{
	pthread_t other;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		die("register for membarrier");
	if (pthread_create(&other, NULL, interrupt, NULL))
		die("make a thread");
	sleep_us(200000);	/* the thread has to move away first */
	BEGIN();
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&sent, __ATOMIC_ACQUIRE))
		relax();
	END();
	pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
	arguments(argc, argv, (const struct argument[]){
		{ "--count", &count, false }, { "--cpu", &cpu, false }, { } });
	if (cpu < 0)
		cpu = isolated_cpu();
	/* RT throttling would stop the spinner after 950 ms. */
	write_file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	pin(cpu);
	become_fifo(80);
	calls();
	switches();
	interrupts();
	ok(true, "%ld getpid(), sched_yield() and interrupts", count);
	return finish();
}
