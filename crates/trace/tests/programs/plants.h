/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events that a loop provokes in every 16th cycle, with their stamps.
 *
 *   lock, pi-lock   a mutex that the thread `holder` holds until some time after the cycle's begin
 *   fault           a page of fresh memory is touched
 *   preempt         the thread `preemptor`, of higher priority, takes the CPU
 *   pipe            a read from a pipe that the thread `filler` fills late
 *   overrun         the cycle takes one and a half periods
 */
#include <sys/mman.h>

enum { PLANT_NS = 300000, PREEMPTION_NS = 200000, PREEMPTED_WORK_NS = 150000 };

/* The thread that causes the event: asked at the end of the previous cycle. */
static struct helper {
	sem_t asked;
	uint64_t at;
	pid_t thread;
	pthread_mutex_t mutex;
	int pipe[2];
	volatile uint64_t from, to;
} helper;

/* A thread, pinned to one CPU or free, by SCHED_FIFO where that is allowed. */
static pthread_t start(void *(*run)(void *), void *argument, int is_pinned, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t set;

	pthread_attr_init(&attributes);
	if (is_pinned) {
		static int cpu = -1;

		cpu = cpu < 0 ? sched_getcpu() : cpu;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
	}
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
	pthread_attr_setschedparam(&attributes, &param);
	if (!pthread_create(&thread, &attributes, run, argument))
		return thread;
	pthread_attr_setinheritsched(&attributes, PTHREAD_INHERIT_SCHED);
	need(!pthread_create(&thread, &attributes, run, argument), "a thread");
	return thread;
}

static void write_down(struct loop *loop, const char *kind, uint64_t from, uint64_t to, pid_t thread)
{
	struct stamps *stamps = &loop->stamps;

	stamps->plant[stamps->plants++] = (struct plant){ kind, stamps->cycles, from, to, thread, 0 };
}

static uint64_t asked(const char *name)
{
	if (!helper.thread) {
		helper.thread = syscall(SYS_gettid);
		pthread_setname_np(pthread_self(), name);
	}
	while (sem_wait(&helper.asked) && errno == EINTR)
		;
	return helper.at;
}

static void sleep_until(uint64_t at)
{
	struct timespec until = time_of(at);

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void *holder(void *argument)
{
	(void)argument;
	for (;;) {
		uint64_t at = asked("holder");

		pthread_mutex_lock(&helper.mutex);
		sleep_until(at + PLANT_NS);
		pthread_mutex_unlock(&helper.mutex);
	}
	return NULL;
}

static void *preemptor(void *argument)
{
	(void)argument;
	for (;;) {
		sleep_until(asked("preemptor") + PREEMPTED_WORK_NS / 2);
		helper.from = now_ns();
		do
			helper.to = now_ns();
		while (helper.to - helper.from < PREEMPTION_NS);
	}
	return NULL;
}

static void *filler(void *argument)
{
	(void)argument;
	for (;;) {
		sleep_until(asked("filler") + PLANT_NS);
		need(write(helper.pipe[1], "", 1) == 1, "write to the late pipe");
	}
	return NULL;
}

static void ask(struct loop *loop, uint64_t at)
{
	(void)loop;
	helper.at = at;
	sem_post(&helper.asked);
}

static void take_lock(struct loop *loop)
{
	uint64_t from;

	/* A lock that is free now was not held long enough: no event was provoked. */
	if (!loop->stamps.cycles || !pthread_mutex_trylock(&helper.mutex)) {
		if (loop->stamps.cycles)
			pthread_mutex_unlock(&helper.mutex);
		return;
	}
	from = now_ns();
	pthread_mutex_lock(&helper.mutex);
	write_down(loop, "lock", from, now_ns(), helper.thread);
	pthread_mutex_unlock(&helper.mutex);
}

static void touch_page(struct loop *loop)
{
	uint64_t from;
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(page != MAP_FAILED, "a page");
	from = now_ns();
	*(volatile char *)page = 1;
	write_down(loop, "fault", from, now_ns(), loop->stamps.thread);
	loop->stamps.plant[loop->stamps.plants - 1].address = (uint64_t)page;
	munmap(page, 4096);
}

/* Requested here and not earlier: however late the cycle began, the preemption is within it. */
static void be_preempted(struct loop *loop)
{
	uint64_t begin = now_ns();

	ask(loop, begin);
	while (now_ns() - begin < PREEMPTED_WORK_NS ||
	       (helper.to < begin + PREEMPTION_NS && now_ns() - begin < loop->period / 2))
		;
	if (helper.from > begin && helper.to - helper.from >= PREEMPTION_NS && helper.to < now_ns())
		write_down(loop, "preempt", helper.from, helper.to, helper.thread);
}

static void read_late_pipe(struct loop *loop)
{
	uint64_t from = now_ns();
	char byte;

	if (!loop->stamps.cycles)
		return;
	need(read(helper.pipe[0], &byte, 1) == 1, "read of the late pipe");
	if (now_ns() - from > PLANT_NS / 3)
		write_down(loop, "pipe", from, now_ns(), helper.thread);
}

static void overrun(struct loop *loop)
{
	uint64_t from = now_ns();

	while (now_ns() - from < loop->period * 3 / 2)
		;
	write_down(loop, "overrun", from, now_ns(), loop->stamps.thread);
}

static void plant_prepare(struct loop *loop, const char *kind)
{
	static const struct {
		const char *kind;
		void (*plant)(struct loop *);
		void *(*helper)(void *);
		int priority;
	} plants[] = {
		{ "lock", take_lock, holder, LOOP_PRIORITY - 10 },
		{ "pi-lock", take_lock, holder, LOOP_PRIORITY - 10 },
		{ "fault", touch_page, NULL, 0 },
		{ "preempt", be_preempted, preemptor, LOOP_PRIORITY + 10 },
		{ "pipe", read_late_pipe, filler, LOOP_PRIORITY - 10 },
		{ "overrun", overrun, NULL, 0 },
	};
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	if (!strcmp(kind, "pi-lock"))
		need(!pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT), "priority inheritance");
	pthread_mutex_init(&helper.mutex, &attributes);
	sem_init(&helper.asked, 0, 0);
	need(!pipe(helper.pipe), "pipe");
	for (size_t n = 0; n < sizeof(plants) / sizeof(*plants); n++) {
		if (strcmp(plants[n].kind, kind))
			continue;
		loop->plant = plants[n].plant;
		loop->ask_plant = plants[n].helper && plants[n].plant != be_preempted ? ask : NULL;
		if (plants[n].helper)
			start(plants[n].helper, NULL, plants[n].priority > LOOP_PRIORITY, plants[n].priority);
		return;
	}
	fprintf(stderr, "loops: no plant %s\n", kind);
	exit(1);
}
