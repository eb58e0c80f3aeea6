/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A real-time thread `cycles` whose waits are no plain loop: cycles WHAT
 *
 *   two-sleeps   every 2 ms it sleeps twice in one function, the second time for a quarter
 *   bursts       a thread `producer` sends 1 to 8 events 220 us apart, every 10 ms
 *   two-timers   one epoll_wait for a timer of 2 ms and one of 20.7 ms
 *   changes      a loop of 2 ms, of 4 ms after SIGUSR1, and again of 2 ms after the next
 *   slows        it sleeps for 10 ms, and after SIGUSR1 works for 4 ms in each cycle
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { US = 1000, MS = 1000000 };

static volatile sig_atomic_t is_other;
static int event;

static void ask(int signal)
{
	(void)signal;
	is_other = !is_other;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

static void work(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end)
		;
}

static __attribute__((noinline)) void rest_until(uint64_t ns)
{
	struct timespec until = time_of(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
}

static void begin(const char *name, int priority)
{
	struct sched_param parameter = { .sched_priority = priority };

	prctl(PR_SET_NAME, name);
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter))
		exit(1);
}

static void two_sleeps(void)
{
	for (uint64_t due = now_ns();; due += 2 * MS) {
		rest_until(due);
		work(50 * US);
		rest_until(due + MS / 2);
		work(50 * US);
	}
}

static void *produce(void *unused)
{
	uint64_t due = now_ns(), one = 1;
	unsigned seed = 3;

	(void)unused;
	begin("producer", 60);
	for (;; due += 10 * MS) {
		rest_until(due);
		for (int left = 1 + rand_r(&seed) % 8; left; left--) {
			if (write(event, &one, sizeof(one)) < 0)
				exit(1);
			work(220 * US);
		}
	}
	return NULL;
}

static void bursts(void)
{
	pthread_t producer;
	uint64_t count;

	event = eventfd(0, EFD_SEMAPHORE);
	if (event < 0 || pthread_create(&producer, NULL, produce, NULL))
		exit(1);
	while (read(event, &count, sizeof(count)) > 0)
		work(50 * US);
}

static int timer(int poll, uint64_t period)
{
	struct itimerspec when = { time_of(period), time_of(now_ns() + period) };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) || epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event))
		exit(1);
	return fd;
}

static void two_timers(void)
{
	struct epoll_event event;
	uint64_t count;
	int poll = epoll_create1(0), fast = timer(poll, 2 * MS);

	timer(poll, 20700 * US);
	for (;;) {
		if (epoll_wait(poll, &event, 1, -1) != 1)
			continue;
		if (read(event.data.fd, &count, sizeof(count)) < 0)
			exit(1);
		work((event.data.fd == fast ? 50 : 300) * US);
	}
}

static void changes(void)
{
	for (uint64_t due = now_ns();; due += (is_other ? 4 : 2) * MS) {
		rest_until(due);
		work(50 * US);
	}
}

static void slows(void)
{
	struct timespec time = time_of(10 * MS);

	for (;;) {
		nanosleep(&time, NULL);
		work(is_other ? 4 * MS : 50 * US);
	}
}

int main(int count, char **word)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = { { "two-sleeps", two_sleeps }, { "bursts", bursts }, { "two-timers", two_timers }, { "changes", changes }, { "slows", slows } };

	if (count < 2)
		return 1;
	signal(SIGUSR1, ask);
	begin("cycles", 50);
	for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++)
		if (!strcmp(all[n].name, word[1]))
			all[n].run();
	return 1;
}
