/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's only program, for the tests of the scope. The boot line's `mode=` chooses:
 *   symbols   prints the kernel's functions
 *   windows   on CPU 1, alone: a window with 1000 system calls, one with 5 s of spinning; a note and a store between
 *   work      a fixed amount of both, timed, for the bench
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <sys/io.h>
#endif
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MARK(code) __asm__ volatile(".byte 0x0f, 0x1f, 0x80, %c0, 0x00, 0x53, 0x49" ::"i"(code) : "memory")
#elif defined(__aarch64__)
#define MARK(code) __asm__ volatile("movz xzr, %0" ::"i"(0x5300 | (code)) : "memory")
#endif

enum { BEGIN = 1, END = 2, NOTE = 7, CALLS = 1000, SPIN_SECONDS = 5 };

static volatile int stop;
static volatile uint64_t *stage;

static void fail(const char *what)
{
	perror(what);
	reboot(RB_AUTOBOOT);
}

/* The kernel call without the library's wrapper, so that nothing else can enter the kernel. */
static inline long call(long number)
{
#if defined(__x86_64__)
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0");
	__asm__ volatile("svc #0" : "=r"(x0) : "r"(x8) : "memory");
	return x0;
#endif
}

static void be_alone(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(1, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity");
	if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 80 }))
		fail("sched_setscheduler");
	/* Let the CPU settle: the tick stops a while after the thread came. */
	for (time_t until = time(NULL) + 2; time(NULL) < until;)
		;
}

static void *windows(void *unused)
{
	be_alone();
	MARK(BEGIN);
	for (int i = 0; i < CALLS; i++)
		call(SYS_getpid);
	MARK(END);
	MARK(NOTE);
	*stage = 0x1122334455667788;
	stop = -1;
	MARK(BEGIN);
	while (stop != 1)
		;
	MARK(END);
	return unused;
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void *work(void *unused)
{
	be_alone();
	uint64_t start = now_ns();
	for (volatile uint64_t i = 0; i < 200000000; i++)
		;
	uint64_t spun = now_ns();
	MARK(BEGIN);
	for (int i = 0; i < 1000000; i++)
		call(SYS_getppid);
	MARK(END);
	uint64_t called = now_ns();
	printf("work spin_ns=%llu calls_ns=%llu\n", (unsigned long long)(spun - start),
	       (unsigned long long)(called - spun));
	stop = 1;
	return unused;
}

/* A serial line takes a minute for five megabytes; a PC has QEMU's debug port. */
static void put(const char *text, size_t length)
{
#if defined(__x86_64__)
	if (ioperm(0xe9, 1, 1))
		fail("ioperm");
	__asm__ volatile("rep outsb" : "+S"(text), "+c"(length) : "d"(0xe9) : "memory");
#else
	while (length) {
		ssize_t done = write(1, text, length);
		if (done <= 0)
			fail("write");
		text += done;
		length -= done;
	}
#endif
}

static void symbols(void)
{
	char line[512], name[256], type, *text;
	size_t length;
	unsigned long long address;
	FILE *file = fopen("/proc/kallsyms", "r"), *all = open_memstream(&text, &length);
	if (!file || !all)
		fail("/proc/kallsyms");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%llx %c %255s", &address, &type, name) == 3 && strchr("tTwW", type))
			fprintf(all, "S %llx %s\n", address, name);
	fclose(all);
	put(text, length);
}

static void run(void *(*start)(void *))
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, start, NULL))
		fail("pthread_create");
	if (start == windows) {
		while (!stop)
			usleep(10000);
		sleep(SPIN_SECONDS);
		stop = 1;
	}
	pthread_join(thread, NULL);
}

int main(void)
{
	const char *mode = getenv("mode");
	mkdir("/proc", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* Where a store is watched for: an address that the test knows. */
	stage = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (stage == MAP_FAILED)
		fail("mmap");
	if (mode && !strcmp(mode, "symbols"))
		symbols();
	else
		run(mode && !strcmp(mode, "work") ? work : windows);
	printf("guest done\n");
	fflush(stdout);
	sleep(1);
	reboot(RB_AUTOBOOT);
	return 0;
}
