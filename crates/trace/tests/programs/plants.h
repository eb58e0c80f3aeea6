/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events that a loop provokes in every 16th cycle, with their stamps.
 *
 *   lock, pi-lock   a mutex that the thread `holder` holds until some time after the cycle's begin, asleep
 *   pi-spin         a mutex with priority inheritance that the thread `runner` holds so long, running; also with a time limit, of a
 *                   runner that has a higher priority, and after a condition variable (pi-cond)
 *   fault           a page of fresh memory is touched
 *   preempt         the thread `preemptor`, of higher priority, takes the CPU
 *   pipe            a read from a pipe that the thread `filler` fills late
 *   overrun         the cycle takes one and a half periods
 *   fsync           a file's data go to the disk
 *   stop            another process stops this one for a while
 *   freeze          the same by the freezer of control groups, version 1 or 2: GROUP is the folder of its group
 *   exhaust         a DEADLINE thread uses up its runtime
 *   rt-limit        the runtime that the control group GROUP gives to real-time threads is used up
 *   unplug          once: the loop's CPU, CPU 1, goes offline
 *   call            the kernel works for a long time in a system call
 *   signal          the thread handles a signal
 *
 * Innocent threads run meanwhile, whose names begin with `by-`: ordinary ones, in user mode, on the loop's CPU and on others.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { PLANT_NS = 300000, PREEMPTION_NS = 200000, PREEMPTED_WORK_NS = 150000 };

/* The thread that causes the event: asked at the end of the previous cycle. */
static struct helper {
	sem_t asked;
	uint64_t at;
	pid_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int is_ready, is_timed, signals, is_waited_for;
	int pipe[2];
	volatile uint64_t from, to;
} helper;

static int pinned = -1;

/* The CPU of pinned threads. */
static int pinned_cpu(void)
{
	return pinned = pinned < 0 ? sched_getcpu() : pinned;
}

/* A thread, pinned to one CPU or free, by SCHED_FIFO where that is allowed. */
static pthread_t start(void *(*run)(void *), void *argument, int is_pinned, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t set;

	pthread_attr_init(&attributes);
	if (is_pinned) {
		CPU_ZERO(&set);
		CPU_SET(pinned_cpu(), &set);
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
		helper.to = at + PLANT_NS;
		sleep_until(helper.to);
		pthread_mutex_unlock(&helper.mutex);
	}
	return NULL;
}

/* Whether a thread comes to wait for the mutex, in some of the loop's periods: the kernel notes that in its word. */
static int is_waited_for(void)
{
	uint64_t begin = now_ns();
	unsigned int word;

	do
		word = __atomic_load_n((unsigned int *)&helper.mutex.__data.__lock, __ATOMIC_RELAXED);
	while (!(word & FUTEX_WAITERS) && now_ns() - begin < 20 * PLANT_NS);
	return (word & FUTEX_WAITERS) != 0;
}

/* Holds the mutex, and runs. */
static void *runner(void *argument)
{
	(void)argument;
	for (;;) {
		uint64_t at = asked("runner");

		pthread_mutex_lock(&helper.mutex);
		helper.is_ready = 1;
		pthread_cond_signal(&helper.cond);
		/* However late the other one gets its CPU, it waits so long for the lock. */
		helper.is_waited_for = is_waited_for();
		if (helper.is_waited_for)
			at = now_ns();
		while (now_ns() < at + PLANT_NS)
			;
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
	/* Where this cycle began late, its owner may have slept before, and waited for a CPU since. */
	if (helper.to > from + PLANT_NS / 3)
		write_down(loop, "lock", from, now_ns(), helper.thread);
	pthread_mutex_unlock(&helper.mutex);
}

/* While the mutex' owner runs, this thread keeps its CPU. */
static __attribute__((noinline)) void wait_for_runner(struct loop *loop)
{
	struct timespec later = time_of(now_ns() + 1000000000);
	uint64_t from = now_ns();

	if (helper.is_timed)
		need(!pthread_mutex_clocklock(&helper.mutex, CLOCK_MONOTONIC, &later), "mutex");
	else
		pthread_mutex_lock(&helper.mutex);
	if (helper.signals) {
		helper.is_ready = 0;
		ask(loop, now_ns());
		while (!helper.is_ready)
			pthread_cond_wait(&helper.cond, &helper.mutex);
	}
	if (now_ns() - from > PLANT_NS / 3 && helper.is_waited_for)
		write_down(loop, "spin", from, now_ns(), helper.thread);
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

static void sync_file(struct loop *loop)
{
	static char block[4096];
	static int file = -1;
	char name[] = "loops-XXXXXX";
	uint64_t from;

	if (file < 0) {
		file = mkstemp(name);
		need(file >= 0 && !unlink(name), "a file");
	}
	need(pwrite(file, block, sizeof(block), 0) == sizeof(block), "write to a file");
	from = now_ns();
	fsync(file);
	if (now_ns() - from > PLANT_NS / 10)
		write_down(loop, "fsync", from, now_ns(), loop->stamps.thread);
}

/* A file of the control group that the test made for this process; -1 where there is none. */
static int file_of_group(const char *name, int flags)
{
	const char *folder = getenv("GROUP");
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder ? folder : "", name);
	return folder ? open(path, flags) : -1;
}

static void enter_group(void)
{
	int file = file_of_group("cgroup.procs", O_WRONLY);

	need(file >= 0 && write(file, "0", 1) == 1 && !close(file), "enter the control group");
}

/* Stops the parent, or lets it go on: by the freezer of either version where it has one. */
static void hold(const int freezer[2], int is_held)
{
	const char *state = is_held ? "FROZEN" : "THAWED";

	if (freezer[0] >= 0)
		need(write(freezer[0], state, 6) == 6, "freezer.state");
	else if (freezer[1] >= 0)
		need(write(freezer[1], is_held ? "1" : "0", 1) == 1, "cgroup.freeze");
	else
		kill(getppid(), is_held ? SIGSTOP : SIGCONT);
}

/* Shared with the stopper: when it last let this process go on, and the loop's thread. */
static struct stopped {
	volatile uint64_t let_go;
	volatile pid_t thread;
} *stopped;

/* Whether it has come to a stop: a thread goes on until it takes note. */
static int is_held(const int freezer[2])
{
	char name[64], text[512] = "";
	int file = freezer[0];

	if (freezer[0] < 0) {
		snprintf(name, sizeof(name), "/proc/%d/task/%d/stat", getppid(), stopped->thread);
		file = freezer[1] >= 0 ? file_of_group("cgroup.events", O_RDONLY) : open(name, O_RDONLY);
	}
	need(file >= 0 && pread(file, text, sizeof(text) - 1, 0) > 0, "whether the program is stopped");
	if (file != freezer[0])
		close(file);
	return strstr(text, ") T ") || strstr(text, "frozen 1") || !strncmp(text, "FROZEN", 6);
}

/* The process that stops this one; asked by a byte. */
static void start_stopper(void)
{
	struct sched_param param = { .sched_priority = LOOP_PRIORITY + 10 };
	int freezer[2];
	uint64_t from;
	char byte;

	stopped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(stopped != MAP_FAILED, "a shared page");
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sched_setscheduler(0, SCHED_FIFO, &param);
	freezer[0] = file_of_group("freezer.state", O_RDWR);
	freezer[1] = file_of_group("cgroup.freeze", O_WRONLY);
	while (read(helper.pipe[0], &byte, 1) == 1) {
		hold(freezer, 1);
		from = now_ns();
		while (!is_held(freezer) && now_ns() - from < 20 * PLANT_NS)
			usleep(10);
		usleep(PLANT_NS / 1000);
		stopped->let_go = now_ns();
		hold(freezer, 0);
	}
	_exit(0);
}

/* How often this thread has left its CPU otherwise than for another one that took it. */
static long times_left(void)
{
	struct rusage usage;

	need(!getrusage(RUSAGE_THREAD, &usage), "getrusage");
	return usage.ru_nvcsw;
}

static void be_stopped(struct loop *loop)
{
	uint64_t begin = now_ns(), last = begin, now;
	long left;

	stopped->thread = loop->stamps.thread;
	need(write(helper.pipe[1], "", 1) == 1, "write to the stopper");
	left = times_left();
	while ((now = now_ns()) - last < PLANT_NS / 2 && now - begin < 15 * loop->period)
		last = now;
	/* A host, or an emulator, may have the CPU for as long. */
	if (now - last >= PLANT_NS / 2 && stopped->let_go > last && times_left() > left)
		write_down(loop, "stop", last, now, loop->stamps.thread);
}

/* The read that the kernel needs three times PLANT_NS for, on this machine. */
static struct {
	int zero;
	char *memory;
	size_t bytes;
} long_read = { -1, NULL, 4 << 20 };

static uint64_t read_long(void)
{
	uint64_t from = now_ns();

	need(read(long_read.zero, long_read.memory, long_read.bytes) == (ssize_t)long_read.bytes, "read of /dev/zero");
	return now_ns() - from;
}

static void prepare_long_read(void)
{
	const size_t most = 64 << 20;
	uint64_t least = UINT64_MAX;

	long_read.zero = open("/dev/zero", O_RDONLY);
	need(long_read.zero >= 0, "/dev/zero");
	long_read.memory = touched(most);
	for (int n = 0; n < 16; n++) {
		uint64_t took = read_long();

		least = took < least ? took : least;
	}
	long_read.bytes = long_read.bytes * 3 * PLANT_NS / least;
	if (long_read.bytes > most)
		long_read.bytes = most;
}

static void call_long(struct loop *loop)
{
	uint64_t from = now_ns(), took = read_long();

	if (took > 2 * PLANT_NS)
		write_down(loop, "call", from, from + took, loop->stamps.thread);
}

static void on_signal(int signal)
{
	uint64_t from = now_ns();

	(void)signal;
	while (now_ns() - from < PLANT_NS)
		;
}

static void be_signalled(struct loop *loop)
{
	uint64_t from = now_ns();

	signal(SIGUSR1, on_signal);
	pthread_kill(pthread_self(), SIGUSR1);
	write_down(loop, "signal", from, now_ns(), loop->stamps.thread);
}

/* Runs until it is kept from that, which many kernels decide at their ticks. */
static void use_up(struct loop *loop, const char *kind, uint64_t most)
{
	uint64_t begin = now_ns(), last = begin, now;

	while ((now = now_ns()) - last < loop->period / 4 && now - begin < most)
		last = now;
	if (now - last >= loop->period / 4)
		write_down(loop, kind, last, now, loop->stamps.thread);
}

/* It has a quarter of its period. */
static void exhaust(struct loop *loop)
{
	use_up(loop, "exhaust", 5 * loop->period);
}

static void reach_limit(struct loop *loop)
{
	use_up(loop, "rt-limit", 15 * loop->period);
}

static void *unplugger(void *argument)
{
	char name[] = "/sys/devices/system/cpu/cpu1/online";
	int file = open(name, O_WRONLY);

	(void)argument;
	asked("unplugger");
	need(file >= 0 && write(file, "0", 1) == 1, name);
	return NULL;
}

static void be_unplugged(struct loop *loop)
{
	struct sched_param ordinary = { 0 };
	uint64_t from = now_ns();

	if (loop->stamps.plants || loop->stamps.cycles < loop->count / 2)
		return;
	ask(loop, from);
	/* The kernel's thread that takes the CPU down needs it, and is an ordinary one. */
	need(!sched_setscheduler(0, SCHED_OTHER, &ordinary), "an ordinary policy");
	while (sched_getcpu() == pinned_cpu())
		;
	write_down(loop, "unplug", from, now_ns(), helper.thread);
}

/* In user mode, and now and then asleep. */
static void *bystander(void *name)
{
	uint64_t from = now_ns();

	pthread_setname_np(pthread_self(), name);
	for (;;) {
		if (now_ns() - from < 700000)
			continue;
		usleep(100);
		from = now_ns();
	}
	return NULL;
}

static void start_bystanders(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t set;

	pthread_attr_init(&attributes);
	need(!pthread_create(&thread, &attributes, bystander, "by-anywhere"), "a bystander");
	CPU_ZERO(&set);
	CPU_SET(pinned_cpu(), &set);
	pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
	need(!pthread_create(&thread, &attributes, bystander, "by-here"), "a bystander");
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
		{ "pi-spin", wait_for_runner, runner, LOOP_PRIORITY - 10 },
		{ "pi-spin-until", wait_for_runner, runner, LOOP_PRIORITY - 10 },
		{ "pi-spin-higher", wait_for_runner, runner, LOOP_PRIORITY + 10 },
		{ "pi-cond", wait_for_runner, runner, LOOP_PRIORITY - 10 },
		{ "fault", touch_page, NULL, 0 },
		{ "preempt", be_preempted, preemptor, LOOP_PRIORITY + 10 },
		{ "pipe", read_late_pipe, filler, LOOP_PRIORITY - 10 },
		{ "overrun", overrun, NULL, 0 },
		{ "fsync", sync_file, NULL, 0 },
		{ "stop", be_stopped, NULL, 0 },
		{ "freeze", be_stopped, NULL, 0 },
		{ "exhaust", exhaust, NULL, 0 },
		{ "rt-limit", reach_limit, NULL, 0 },
		{ "unplug", be_unplugged, unplugger, LOOP_PRIORITY + 10 },
		{ "call", call_long, NULL, 0 },
		{ "signal", be_signalled, NULL, 0 },
	};
	pthread_mutexattr_t attributes;
	int asks;

	pthread_mutexattr_init(&attributes);
	if (!strncmp(kind, "pi-", 3))
		need(!pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT), "priority inheritance");
	helper.is_timed = !strcmp(kind, "pi-spin-until");
	helper.signals = !strcmp(kind, "pi-cond");
	pthread_mutex_init(&helper.mutex, &attributes);
	pthread_cond_init(&helper.cond, NULL);
	sem_init(&helper.asked, 0, 0);
	need(!pipe(helper.pipe), "pipe");
	for (size_t n = 0; n < sizeof(plants) / sizeof(*plants); n++) {
		if (strcmp(plants[n].kind, kind))
			continue;
		loop->plant = plants[n].plant;
		if (loop->plant == call_long)
			prepare_long_read();
		asks = plants[n].plant != be_preempted && plants[n].plant != be_unplugged && !helper.signals;
		loop->ask_plant = plants[n].helper && asks ? ask : NULL;
		if (loop->plant == be_unplugged)
			pinned = 1;
		if (plants[n].helper)
			start(plants[n].helper, NULL, plants[n].plant == be_preempted, plants[n].priority);
		if (loop->plant == be_stopped)
			start_stopper();
		if (getenv("GROUP"))
			enter_group();
		start_bystanders();
		return;
	}
	fprintf(stderr, "loops: no plant %s\n", kind);
	exit(1);
}
