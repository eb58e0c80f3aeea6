/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A loop of 2 ms in a real-time thread `servo`, and what is odd about it: changes [WHAT]
 *
 *   many        500 further threads, of 100 ms      busy    it never waits
 *   late        every 50th cycle takes 5 ms         forks   it makes a process each 10 cycles
 *   late-begin  it begins a second late             eight   8 further threads, of 1 ms
 *
 * or happens to it when SIGUSR1 comes:
 *
 *   ends        the program ends                    thread    only the thread ends, another one goes on
 *   becomes     it executes another program         policy    it becomes an ordinary thread
 *   newcomer    another real-time loop begins
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *what;
static volatile sig_atomic_t is_asked;

static void ask(int signal)
{
	(void)signal;
	is_asked = 1;
}

static int asks(const char *name)
{
	return !strcmp(what, name);
}

static void set_policy(int policy, int priority)
{
	struct sched_param parameter = { .sched_priority = priority };

	pthread_setschedparam(pthread_self(), policy, &parameter);
}

static void spin(uint64_t ns)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000ll + now.tv_nsec - begin.tv_nsec < (int64_t)ns);
}

static void wait_next(struct timespec *next, uint64_t period)
{
	next->tv_nsec += period;
	while (next->tv_nsec >= 1000000000) {
		next->tv_nsec -= 1000000000;
		next->tv_sec++;
	}
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

static void *run_for_ever(void *name)
{
	struct timespec next;

	prctl(PR_SET_NAME, name);
	set_policy(SCHED_FIFO, 30);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;)
		wait_next(&next, asks("many") ? 100000000 : asks("eight") ? 1000000 : 4000000);
	return NULL;
}

static void begin(char *name)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_for_ever, name))
		exit(1);
}

/* A cycle's work, whatever it is. */
static __attribute__((noinline)) void happens(uint64_t cycle)
{
	pid_t child;

	if (asks("forks") && cycle % 10 == 0) {
		child = fork();
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	if (asks("late") && cycle % 50 == 0)
		spin(5000000);
	if (!is_asked)
		return;
	is_asked = 0;
	if (asks("ends"))
		exit(0);
	if (asks("thread"))
		pthread_exit(NULL);
	if (asks("policy"))
		set_policy(SCHED_OTHER, 0);
	if (asks("becomes"))
		execl("/bin/sleep", "sleep", "60", NULL);
	if (asks("newcomer"))
		begin("newcomer");
}

static void *servo(void *unused)
{
	struct timespec next;

	(void)unused;
	prctl(PR_SET_NAME, "servo");
	set_policy(SCHED_FIFO, 40);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (uint64_t cycle = 1;; cycle++) {
		happens(cycle);
		wait_next(&next, 2000000);
	}
	return NULL;
}

int main(int count, char **word)
{
	pthread_t thread;

	what = count > 1 ? word[1] : "nothing";
	signal(SIGUSR1, ask);
	if (asks("busy"))
		for (;;)
			spin(1000000);
	if (asks("late-begin"))
		sleep(1);
	if (asks("many"))
		for (int n = 0; n < 500; n++)
			begin("many");
	if (asks("eight"))
		for (int n = 0; n < 8; n++)
			begin("eight");
	if (asks("thread"))
		begin("other");
	if (pthread_create(&thread, NULL, servo, NULL))
		return 1;
	for (;;)
		pause();
}
