/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loops that stamp their own cycles: loops STYLE PERIOD_US CYCLES FILE [PLANT]
 *
 * STYLE is the kind of wait. An event-driven loop has a thread `producer` that triggers it; `chain` is three threads, each triggered by
 * the previous one. PLANT is the event in every 16th cycle (plants.h). `started` is printed when the loops begin.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "stamps.h"

enum { WORK_NS = 50000, EVERY = 16, LOOP_PRIORITY = 40 };

struct loop;

struct style {
	const char *name;
	void (*prepare)(struct loop *);
	/* Waits for the next cycle and returns its due time, 0 if that is not known. */
	uint64_t (*wait)(struct loop *);
	/* For an event-driven loop: called by the thread that triggers it. */
	void (*trigger)(struct loop *);
};

struct loop {
	const struct style *style;
	const char *name;
	uint64_t period, count, next, realtime;
	int fd, wakes; /* the descriptor of its wait, and the one to which another thread writes */
	int epoll;
	unsigned waited, ready;
	sem_t semaphore;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	struct loop *triggers; /* the loop that this one triggers */
	uint64_t *triggered;   /* when it did */
	struct loop *by;       /* the loop that triggers this one */
	void (*plant)(struct loop *);
	void (*ask_plant)(struct loop *, uint64_t at);
	struct stamps stamps;
};

#include "plants.h"

static void first_period(struct loop *loop)
{
	loop->next = now_ns() + loop->period;
}

static uint64_t absolute(struct loop *loop)
{
	uint64_t due = loop->next;
	struct timespec until = time_of(due);

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	loop->next += loop->period;
	return due;
}

static void realtime_prepare(struct loop *loop)
{
	uint64_t before = now_ns(), realtime = clock_ns(CLOCK_REALTIME);

	loop->realtime = realtime - (before + now_ns()) / 2;
	first_period(loop);
}

static uint64_t realtime(struct loop *loop)
{
	uint64_t due = loop->next;
	struct timespec until = time_of(due + loop->realtime);

	clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
	loop->next += loop->period;
	return due;
}

static void nothing(struct loop *loop)
{
	(void)loop;
}

static uint64_t relative(struct loop *loop)
{
	struct timespec time = time_of(loop->period - WORK_NS);

	nanosleep(&time, NULL);
	return 0;
}

static void timerfd_prepare(struct loop *loop)
{
	struct itimerspec when;

	first_period(loop);
	when.it_value = time_of(loop->next);
	when.it_interval = time_of(loop->period);
	loop->fd = timerfd_create(CLOCK_MONOTONIC, 0);
	need(loop->fd >= 0 && !timerfd_settime(loop->fd, TFD_TIMER_ABSTIME, &when, NULL), "timerfd");
}

static uint64_t timerfd(struct loop *loop)
{
	uint64_t expirations = 0, due = loop->next;

	need(read(loop->fd, &expirations, sizeof(expirations)) == sizeof(expirations), "read of a timerfd");
	loop->next += expirations * loop->period;
	return due;
}

static void epoll_prepare(struct loop *loop)
{
	struct epoll_event event = { .events = EPOLLIN };

	timerfd_prepare(loop);
	loop->epoll = epoll_create1(0);
	need(loop->epoll >= 0 && !epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->fd, &event), "epoll");
}

static uint64_t epoll_of_timerfd(struct loop *loop)
{
	struct epoll_event event;

	epoll_wait(loop->epoll, &event, 1, -1);
	return timerfd(loop);
}

static void signal_prepare(struct loop *loop)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec when;
	timer_t timer;

	first_period(loop);
	when.it_value = time_of(loop->next);
	when.it_interval = time_of(loop->period);
	need(!timer_create(CLOCK_MONOTONIC, &event, &timer) && !timer_settime(timer, TIMER_ABSTIME, &when, NULL),
	     "POSIX timer");
}

static uint64_t signal_of_timer(struct loop *loop)
{
	uint64_t due = loop->next;
	siginfo_t info = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	while (sigwaitinfo(&set, &info) < 0 && errno == EINTR)
		;
	loop->next += (1 + info.si_overrun) * loop->period;
	return due;
}

static uint64_t cond_timed(struct loop *loop)
{
	uint64_t due = loop->next;
	struct timespec until = time_of(due);

	pthread_mutex_lock(&loop->mutex);
	while (pthread_cond_clockwait(&loop->cond, &loop->mutex, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&loop->mutex);
	loop->next += loop->period;
	return due;
}

static uint64_t triggered(struct loop *loop)
{
	return loop->by->triggered[loop->waited++];
}

static uint64_t cond(struct loop *loop)
{
	pthread_mutex_lock(&loop->mutex);
	while (loop->ready <= loop->waited)
		pthread_cond_wait(&loop->cond, &loop->mutex);
	pthread_mutex_unlock(&loop->mutex);
	return triggered(loop);
}

static void cond_trigger(struct loop *loop)
{
	pthread_mutex_lock(&loop->mutex);
	loop->ready++;
	pthread_mutex_unlock(&loop->mutex);
	pthread_cond_signal(&loop->cond);
}

static uint64_t semaphore(struct loop *loop)
{
	while (sem_wait(&loop->semaphore) && errno == EINTR)
		;
	return triggered(loop);
}

static void semaphore_trigger(struct loop *loop)
{
	sem_post(&loop->semaphore);
}

static void pipe_prepare(struct loop *loop)
{
	int ends[2];

	need(!pipe(ends), "pipe");
	loop->fd = ends[0];
	loop->wakes = ends[1];
}

static uint64_t read_of_pipe(struct loop *loop)
{
	char byte;

	need(read(loop->fd, &byte, 1) == 1, "read of a pipe");
	return triggered(loop);
}

static void pipe_trigger(struct loop *loop)
{
	need(write(loop->wakes, "", 1) == 1, "write to a pipe");
}

static void eventfd_prepare(struct loop *loop)
{
	loop->fd = eventfd(0, EFD_SEMAPHORE);
	need(loop->fd >= 0, "eventfd");
}

static uint64_t read_of_eventfd(struct loop *loop)
{
	uint64_t value;

	need(read(loop->fd, &value, sizeof(value)) == sizeof(value), "read of an eventfd");
	return triggered(loop);
}

static void eventfd_trigger(struct loop *loop)
{
	uint64_t one = 1;

	need(write(loop->fd, &one, sizeof(one)) == sizeof(one), "write to an eventfd");
}

static void udp_prepare(struct loop *loop)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);

	loop->fd = socket(AF_INET, SOCK_DGRAM, 0);
	loop->wakes = socket(AF_INET, SOCK_DGRAM, 0);
	need(loop->fd >= 0 && loop->wakes >= 0 && !bind(loop->fd, (struct sockaddr *)&address, length) &&
		     !getsockname(loop->fd, (struct sockaddr *)&address, &length) &&
		     !connect(loop->wakes, (struct sockaddr *)&address, length),
	     "UDP over loopback");
}

static uint64_t udp(struct loop *loop)
{
	char byte;

	need(recv(loop->fd, &byte, 1, 0) == 1, "recv");
	return triggered(loop);
}

static void udp_trigger(struct loop *loop)
{
	need(send(loop->wakes, "", 1, 0) == 1, "send");
}

/* Whole milliseconds. */
static uint64_t poll_timeout(struct loop *loop)
{
	poll(NULL, 0, loop->period / 1000000);
	return 0;
}

static uint64_t ppoll_timeout(struct loop *loop)
{
	struct timespec time = time_of(loop->period - WORK_NS);

	ppoll(NULL, 0, &time, NULL);
	return 0;
}

static uint64_t select_timeout(struct loop *loop)
{
	struct timeval time = { .tv_usec = (loop->period - WORK_NS) / 1000 };

	select(0, NULL, NULL, NULL, &time);
	return 0;
}

static void deadline_prepare(struct loop *loop)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = { .size = 48, .policy = 6, .runtime = loop->period / 4, .deadline = loop->period, .period = loop->period };

	need(!syscall(SYS_sched_setattr, 0, &attributes, 0), "SCHED_DEADLINE");
}

static uint64_t yield(struct loop *loop)
{
	(void)loop;
	sched_yield();
	return 0;
}

static const struct style styles[] = {
	{ "absolute", first_period, absolute, NULL },
	{ "realtime", realtime_prepare, realtime, NULL },
	{ "relative", nothing, relative, NULL },
	{ "timerfd", timerfd_prepare, timerfd, NULL },
	{ "epoll", epoll_prepare, epoll_of_timerfd, NULL },
	{ "signal", signal_prepare, signal_of_timer, NULL },
	{ "cond-timed", first_period, cond_timed, NULL },
	{ "poll", nothing, poll_timeout, NULL },
	{ "ppoll", nothing, ppoll_timeout, NULL },
	{ "select", nothing, select_timeout, NULL },
	{ "deadline", deadline_prepare, yield, NULL },
	{ "cond", nothing, cond, cond_trigger },
	{ "semaphore", nothing, semaphore, semaphore_trigger },
	{ "pipe", pipe_prepare, read_of_pipe, pipe_trigger },
	{ "eventfd", eventfd_prepare, read_of_eventfd, eventfd_trigger },
	{ "udp", udp_prepare, udp, udp_trigger },
};

static const struct style *style_of(const char *name)
{
	for (size_t n = 0; n < sizeof(styles) / sizeof(*styles); n++)
		if (!strcmp(styles[n].name, name))
			return &styles[n];
	fprintf(stderr, "loops: no style %s\n", name);
	exit(1);
}

static void work(struct loop *loop, const struct cycle *cycle)
{
	uint64_t now;

	if (loop->plant && loop->stamps.cycles % EVERY == 0)
		loop->plant(loop);
	do
		now = now_ns();
	while (now - cycle->begin < WORK_NS);
	if (loop->triggers) {
		loop->triggered[loop->stamps.cycles] = now_ns();
		loop->triggers->style->trigger(loop->triggers);
	}
	if (loop->ask_plant && loop->stamps.cycles % EVERY == EVERY - 1)
		loop->ask_plant(loop, (cycle->due ? cycle->due : cycle->begin) + loop->period);
}

static void *run(void *argument)
{
	struct loop *loop = argument;

	stamps_name(&loop->stamps, loop->name);
	loop->style->prepare(loop);
	while (loop->stamps.cycles < loop->count) {
		struct cycle *cycle = stamps_begin(&loop->stamps, loop->style->wait(loop));

		work(loop, cycle);
		stamps_end(&loop->stamps);
	}
	/* The wait that ends the last cycle; an event-driven loop would wait for ever. */
	if (!loop->style->trigger)
		loop->style->wait(loop);
	return NULL;
}

/* Names, styles, and triggers. */
static size_t arrange(struct loop *loops, const char *style)
{
	size_t count = 1;

	if (!strcmp(style, "chain")) {
		loops[0] = (struct loop){ .name = "first", .style = style_of("absolute") };
		loops[1] = (struct loop){ .name = "second", .style = style_of("semaphore") };
		loops[2] = (struct loop){ .name = "third", .style = style_of("eventfd") };
		count = 3;
	} else if (style_of(style)->trigger) {
		loops[0] = (struct loop){ .name = "producer", .style = style_of("absolute") };
		loops[1] = (struct loop){ .name = "loop", .style = style_of(style) };
		count = 2;
	} else {
		loops[0] = (struct loop){ .name = "loop", .style = style_of(style) };
	}
	for (size_t n = 0; n + 1 < count; n++) {
		loops[n].triggers = &loops[n + 1];
		loops[n + 1].by = &loops[n];
	}
	return count;
}

int main(int count, char **word)
{
	static struct loop loops[3];
	pthread_t threads[3];
	size_t many;
	sigset_t set;
	FILE *file;
	int is_pinned;

	if (count < 5) {
		fprintf(stderr, "usage: loops STYLE PERIOD_US CYCLES FILE [PLANT]\n");
		return 1;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	many = arrange(loops, word[1]);
	for (size_t n = 0; n < many; n++) {
		loops[n].period = atoll(word[2]) * 1000;
		loops[n].count = atoll(word[3]);
		loops[n].triggered = touched((loops[n].count + 1) * sizeof(uint64_t));
		stamps_make(&loops[n].stamps, loops[n].count);
		sem_init(&loops[n].semaphore, 0, 0);
		pthread_mutex_init(&loops[n].mutex, NULL);
		pthread_cond_init(&loops[n].cond, NULL);
	}
	if (count > 5)
		plant_prepare(&loops[many - 1], word[5]);
	puts("started");
	fflush(stdout);
	/* The last first: it makes its descriptors before another loop triggers it. */
	for (size_t n = many; n-- > 0;) {
		/* A DEADLINE thread must be free. */
		is_pinned = n == many - 1 && count > 5 && strcmp(word[1], "deadline");
		threads[n] = start(run, &loops[n], is_pinned, LOOP_PRIORITY - (int)n);
		usleep(20000);
	}
	for (size_t n = 0; n < many; n++)
		pthread_join(threads[n], NULL);
	file = fopen(word[4], "w");
	need(file != NULL, word[4]);
	for (size_t n = 0; n < many; n++)
		stamps_write(&loops[n].stamps, file);
	return fclose(file) ? 1 : 0;
}
