/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ways to misuse the library, each by its name:  misuses NAME
 *
 * Silent where it is survived as docs/reference/library.md says; status 77 where this machine cannot try it.
 *
 * Each function is a misuse, run in a process of its own. All check by the same few helpers and stay in one file, hence its length.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <isolator.h>

static int wrong;

static void expect(int line, long got, long expected)
{
	if (got == expected)
		return;
	printf("line %d: %ld, expected %ld; '%s'\n", line, got, expected, isolator_last_error());
	wrong = 1;
}

#define EXPECT(got, expected) expect(__LINE__, got, expected)

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *run(void *(*start)(void *), void *data, size_t stack_bytes)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *result;

	pthread_attr_init(&attributes);
	if (stack_bytes)
		EXPECT(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
	EXPECT(pthread_create(&thread, &attributes, start, data), 0);
	pthread_join(thread, &result);
	pthread_attr_destroy(&attributes);
	return result;
}

/* Runs child() in a child, which ends without the parent's exit handlers. */
static void in_child(void (*child)(void))
{
	int status = -1;
	pid_t process;

	fflush(stdout);
	process = fork();
	if (!process) {
		child();
		fflush(stdout);
		_exit(wrong);
	}
	EXPECT(waitpid(process, &status, 0), process);
	EXPECT(status, 0);
}

/* --- A time of the counter ------------------------------------------------------------------------------------------------ */

static void a_time(void)
{
	struct isolator_clock clock;

	if (isolator_clock_calibrate(&clock)) {
		puts(isolator_last_error());
		exit(77);
	}
	/* As after weeks, when an error of the rate has become a large one. */
	clock.multiplier += clock.multiplier / 200000;
	for (int n = 0; n < 1000; n++) {
		uint64_t before = now_ns(), ticks = isolator_clock_ticks(), after = now_ns();
		uint64_t time = isolator_clock_monotonic_ns(&clock, ticks);

		EXPECT(time + 1000 >= before && time <= after + 1000, 1);
	}
	EXPECT(isolator_clock_monotonic_ns(NULL, 1), 0);
}

/* --- A cycle before it was due -------------------------------------------------------------------------------------------- */

static void count(const struct isolator_cycle *cycle, void *data)
{
	(void)cycle;
	++*(int *)data;
}

static void next_due(void)
{
	struct isolator_monitor *monitor;
	struct isolator_reader *reader;
	uint64_t period = 1000000000;
	int cycles = 0;

	EXPECT(isolator_monitor_create("early", period, &monitor), 0);
	EXPECT(isolator_reader_attach_fd(isolator_monitor_fd(monitor), &reader), 0);
	isolator_monitor_begin(monitor, now_ns());
	isolator_monitor_end(monitor);
	isolator_monitor_begin(monitor, now_ns() + period / 4);
	isolator_monitor_end(monitor);
	EXPECT(isolator_reader_poll(reader, count, &cycles), 2);
	/* The slip: due is advanced before the cycle begins. */
	isolator_monitor_begin(monitor, now_ns() + period);
	isolator_monitor_end(monitor);
	EXPECT(isolator_reader_poll(reader, count, &cycles), -EPROTO);
	EXPECT(!strstr(isolator_last_error(), "us before it was due; give begin the time"), 0);
	EXPECT(cycles, 2);
	isolator_reader_close(reader);
	isolator_monitor_close(monitor);
}

/* --- Set-ups -------------------------------------------------------------------------------------------------------------- */

static long locked_kib(void)
{
	char line[256];
	long kib = -1;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmLck: %ld", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib;
}

static struct isolator_rt *set_up(uint32_t flags, const uint32_t *cpu)
{
	struct isolator_rt *undo = (void *)1;
	struct isolator_rt_config config;
	int result;

	isolator_rt_defaults(&config);
	config.flags = flags;
	config.cpus = cpu;
	config.cpu_count = cpu ? 1 : 0;
	result = isolator_rt_setup(&config, &undo);
	if (result == -EPERM || (result == -ENOMEM && !cpu)) {
		puts(isolator_last_error());
		exit(77);
	}
	EXPECT(!undo, !!result);
	return undo;
}

static void *sets_up(void *cpu)
{
	EXPECT(isolator_rt_undo(set_up(0, cpu)), 0);
	return NULL;
}

static void set_ups_of_two_threads(void)
{
	struct isolator_rt *own = set_up(0, NULL);
	uint32_t none = 1023;

	EXPECT(locked_kib() > 0, 1);
	run(sets_up, NULL, 0);
	EXPECT(locked_kib() > 0, 1);
	/* One that fails after it has locked memory. */
	run(sets_up, &none, 0);
	EXPECT(locked_kib() > 0, 1);
	EXPECT(isolator_rt_undo(own), 0);
	EXPECT(locked_kib(), 0);
	/* What the program locked itself stays. */
	EXPECT(mlockall(MCL_CURRENT | MCL_FUTURE), 0);
	EXPECT(isolator_rt_undo(set_up(0, NULL)), 0);
	EXPECT(locked_kib() > 0, 1);
}

static void *undoes(void *undo)
{
	return (void *)(intptr_t)isolator_rt_undo(undo);
}

static void *leaves_a_set_up(void *data)
{
	(void)data;
	return set_up(0, NULL);
}

static struct isolator_rt *inherited;

static void child_undoes(void)
{
	EXPECT(isolator_rt_undo(inherited), -EPERM);
}

static void undo_elsewhere(void)
{
	struct isolator_rt *undo = set_up(0, NULL);

	EXPECT((long)(intptr_t)run(undoes, undo, 0), -EPERM);
	inherited = undo;
	in_child(child_undoes);
	EXPECT(locked_kib() > 0, 1);
	EXPECT(isolator_rt_undo(undo), 0);
	/* Its thread has ended and cannot. */
	undo = run(leaves_a_set_up, NULL, 0);
	EXPECT(locked_kib() > 0, 1);
	EXPECT(isolator_rt_undo(undo), 0);
	EXPECT(locked_kib(), 0);
	EXPECT(isolator_rt_undo(NULL), 0);
}

static char prefaulted[128];

static void keep(const char *step, int result, const char *text, void *data)
{
	(void)result, (void)data;
	if (!strcmp(step, "prefault"))
		snprintf(prefaulted, sizeof(prefaulted), "%s", text);
}

static void *with_stack(void *bytes)
{
	struct isolator_rt_config config;

	isolator_rt_defaults(&config);
	config.flags = ISOLATOR_RT_NO_LOCK;
	config.report = keep;
	if (bytes)
		config.stack_bytes = *(size_t *)bytes;
	return (void *)(intptr_t)isolator_rt_setup(&config, NULL);
}

static void small_stacks(void)
{
	size_t large = 64 << 20;

	EXPECT((long)(intptr_t)run(with_stack, NULL, 128 << 10), 0);
	EXPECT(!strstr(prefaulted, " instead of 131072: the thread has no more"), 0);
	EXPECT((long)(intptr_t)run(with_stack, &large, 1 << 20), 0);
	EXPECT(!strstr(prefaulted, " instead of 67108864: "), 0);
	/* The main thread, whose stack grows to a limit. */
	EXPECT((long)(intptr_t)with_stack(&large), 0);
	EXPECT((long)(intptr_t)run(with_stack, NULL, 1 << 20), 0);
	EXPECT(strcmp(prefaulted, "131072 bytes of stack"), 0);
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

static void *uses_its_heap(void *bytes)
{
	enum { PIECES = 64 };
	size_t size = *(size_t *)bytes / PIECES / 2;
	struct isolator_rt_config config;
	char *pieces[PIECES];
	long before;

	isolator_rt_defaults(&config);
	config.flags = ISOLATOR_RT_NO_LOCK;
	config.heap_bytes = *(size_t *)bytes;
	EXPECT(isolator_rt_setup(&config, NULL), 0);
	before = faults();
	for (int n = 0; n < PIECES; n++)
		pieces[n] = memset(malloc(size), 1, size);
	for (int n = 0; n < PIECES; n++)
		free(pieces[n]);
	/* Some for the call itself: of the heap there would be thousands. */
	EXPECT(faults() - before < 16, 1);
	return NULL;
}

static void heap_of_a_thread(void)
{
	size_t bytes = 80 << 20;

#ifdef __GLIBC__
	run(uses_its_heap, &bytes, 0);
#else
	(void)uses_its_heap, (void)bytes;
#endif
}

/* --- Handles of calls that failed ----------------------------------------------------------------------------------------- */

static void handles_after_failures(void)
{
	void *some = &wrong;
	struct isolator_rt *undo = some;
	struct isolator_ring *ring = some, *other = some;
	struct isolator_sender *sender = some;
	struct isolator_receiver *receiver = some;
	struct isolator_monitor *monitor = some;
	struct isolator_reader *reader = some, *second = some;
	struct isolator_session *session = some;

	EXPECT(isolator_rt_setup(NULL, &undo), -EINVAL);
	EXPECT(isolator_ring_create(3, 8, &ring), -EINVAL);
	EXPECT(isolator_ring_attach(-1, &other), -EBADF);
	EXPECT(isolator_sender_open(NULL, &sender), -EINVAL);
	EXPECT(isolator_receiver_open(NULL, &receiver), -EINVAL);
	EXPECT(isolator_monitor_create(NULL, 1000000, &monitor), -EINVAL);
	EXPECT(isolator_reader_attach((uint32_t)getpid(), "none", &reader), -ENOENT);
	EXPECT(isolator_reader_attach_fd(-1, &second), -EBADF);
	EXPECT(isolator_session_start(1u << 31, &session) < 0, 1);
	EXPECT(!undo && !ring && !other && !sender && !receiver && !monitor && !reader && !second && !session, 1);
	/* The usual cleanup, which leaves the first failure's message alone. */
	EXPECT(isolator_monitor_create("a b", 1000000, &monitor), -EINVAL);
	EXPECT(isolator_session_stop(session), 0);
	EXPECT(isolator_rt_undo(undo), 0);
	isolator_reader_close(second);
	isolator_reader_close(reader);
	isolator_monitor_close(monitor);
	isolator_receiver_close(receiver);
	isolator_sender_close(sender);
	isolator_ring_free(other);
	isolator_ring_free(ring);
	EXPECT(!strstr(isolator_last_error(), "call a loop 'a b'"), 0);
}

static void text(char *to, size_t size, const char *form, ...)
{
	va_list arguments;

	va_start(arguments, form);
	vsnprintf(to, size, form, arguments);
	va_end(arguments);
}

static void *asks_for_the_text(void *data)
{
	struct isolator_monitor *monitor = NULL;
	char said[256];

	/* In whichever order the arguments are evaluated, and however long the text before was. */
	for (int n = 0; n < 3; n++) {
		text(said, sizeof(said), "%s %d", isolator_last_error(), isolator_monitor_create("a b", 1, &monitor));
		EXPECT(!strstr(said, "monitor a loop that comes every 1 ns"), 0);
		EXPECT(isolator_ring_attach(-1, data), -EBADF);
	}
	return (void *)(uintptr_t)isolator_last_error();
}

static void text_of_a_failure(void)
{
	struct isolator_ring *ring;
	const char *of_an_ended_thread = run(asks_for_the_text, &ring, 0);

	EXPECT(strlen(of_an_ended_thread) < 1024, 1);
}

/* --- Children ------------------------------------------------------------------------------------------------------------- */

static struct isolator_ring *ring;
static struct isolator_sender *sender;
static struct isolator_receiver *receiver;
static struct isolator_monitor *monitor;
static struct isolator_reader *reader;

static long torn, taken;

static void take(const void *message, size_t bytes, void *data)
{
	unsigned long words[20];

	(void)data;
	memcpy(words, message, bytes);
	for (size_t n = 1; n < bytes / sizeof(long); n++)
		if (words[n] != words[0]) {
			torn++;
			break;
		}
	taken++;
}

static void child_uses_everything(void)
{
	struct isolator_sender *second;
	int cycles = 0;
	long word = 2;

	EXPECT(isolator_sender_post(sender, &word, 8), -EPERM);
	EXPECT(isolator_sender_post(sender, &word, 0), -EPERM);
	EXPECT(isolator_sender_post_and_wake(sender, &word, 8), -EPERM);
	EXPECT(isolator_receiver_poll(receiver, 9, take, NULL), -EPERM);
	EXPECT(isolator_receiver_wait(receiver, 0), -EPERM);
	EXPECT(isolator_receiver_has_sender(receiver), -EPERM);
	EXPECT(isolator_reader_poll(reader, count, &cycles), -EPERM);
	EXPECT(!strstr(isolator_last_error(), "attach to the loop in this process"), 0);
	isolator_monitor_begin(monitor, 0);
	isolator_monitor_mark(monitor);
	isolator_monitor_end(monitor);
	EXPECT(isolator_sender_open(ring, &second), -EBUSY);
}

static void child_closes_everything(void)
{
	isolator_reader_close(reader);
	isolator_monitor_close(monitor);
	isolator_receiver_close(receiver);
	isolator_sender_close(sender);
	isolator_ring_free(ring);
}

static void child_opens_its_own(void)
{
	long word = 3;

	EXPECT(isolator_sender_open(ring, &sender), 0);
	EXPECT(isolator_sender_post(sender, &word, 8), 0);
}

static void children(void)
{
	struct isolator_sender *second;
	struct isolator_reader *another;
	int cycles = 0;
	long word = 1;

	EXPECT(isolator_ring_create(64, 160, &ring), 0);
	EXPECT(isolator_sender_open(ring, &sender), 0);
	EXPECT(isolator_receiver_open(ring, &receiver), 0);
	EXPECT(isolator_monitor_create("parent", 1000000, &monitor), 0);
	EXPECT(isolator_reader_attach_fd(isolator_monitor_fd(monitor), &reader), 0);
	in_child(child_uses_everything);
	in_child(child_closes_everything);
	/* The parent's are as they were. */
	EXPECT(isolator_receiver_has_sender(receiver) && isolator_sender_has_receiver(sender), 1);
	EXPECT(isolator_sender_open(ring, &second), -EBUSY);
	EXPECT(isolator_reader_attach_fd(isolator_monitor_fd(monitor), &another), -EBUSY);
	EXPECT(isolator_sender_post(sender, &word, 8), 0);
	EXPECT(isolator_receiver_poll(receiver, 9, take, NULL), 1);
	EXPECT(isolator_receiver_poll(receiver, 9, take, NULL), 0);
	isolator_monitor_begin(monitor, 0);
	isolator_monitor_end(monitor);
	EXPECT(isolator_reader_poll(reader, count, &cycles), 1);
	EXPECT(isolator_reader_lost(reader), 0);
	isolator_sender_close(sender);
	in_child(child_opens_its_own);
	EXPECT(isolator_receiver_poll(receiver, 9, take, NULL), 1);
	isolator_receiver_close(receiver);
	isolator_reader_close(reader);
	isolator_monitor_close(monitor);
	isolator_ring_free(ring);
}

/* --- Posts at once -------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals;
static volatile long accepted, refused, others;

static void post(long word)
{
	long words[20];
	int result;

	for (int n = 0; n < 20; n++)
		words[n] = word;
	result = isolator_sender_post(sender, words, sizeof(words));
	if (!result)
		__atomic_add_fetch(&accepted, 1, __ATOMIC_RELAXED);
	else if (result == -EBUSY)
		__atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
	else if (result != -EAGAIN)
		__atomic_add_fetch(&others, 1, __ATOMIC_RELAXED);
}

static void posts_too(int number)
{
	(void)number;
	signals++;
	post(-1);
}

static void *posts(void *word)
{
	for (int n = 0; n < 50000; n++)
		post((long)(intptr_t)word);
	return NULL;
}

static void open_ring(uint32_t slots)
{
	EXPECT(isolator_ring_create(slots, 160, &ring), 0);
	EXPECT(isolator_sender_open(ring, &sender), 0);
	EXPECT(isolator_receiver_open(ring, &receiver), 0);
}

static void signal_handlers(void)
{
	struct itimerval every = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };

	/* Without checks a nested post is refused all the same. */
	setenv("ISOLATOR_CHECK", "0", 1);
	open_ring(1024);
	signal(SIGALRM, posts_too);
	setitimer(ITIMER_REAL, &every, NULL);
	for (long n = 0; signals < 2000 || n < 100000; n++) {
		post(n);
		if (n % 100 == 0)
			while (isolator_receiver_poll(receiver, 1024, take, NULL) > 0)
				;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	while (isolator_receiver_poll(receiver, 1024, take, NULL) > 0)
		;
	EXPECT(torn, 0);
	EXPECT(taken, accepted);
	EXPECT(others, 0);
}

static volatile sig_atomic_t forked, is_child, posted_in_child;

static void forks(int number)
{
	int status = -1;
	pid_t process = fork();

	(void)number;
	is_child = !process;
	if (is_child)
		return;
	if (waitpid(process, &status, 0) != process || status)
		posted_in_child++;
	forked = 1;
}

/* The interrupted post ends in the child, too. */
static void forks_in_handlers(void)
{
	struct itimerval once = { { 0, 0 }, { 0, 500 } };
	static char message[4088];

	setenv("ISOLATOR_CHECK", "0", 1);
	EXPECT(isolator_ring_create(64, sizeof(message), &ring), 0);
	EXPECT(isolator_sender_open(ring, &sender), 0);
	signal(SIGALRM, forks);
	for (int n = 0; n < 50; n++) {
		forked = 0;
		setitimer(ITIMER_REAL, &once, NULL);
		while (!forked) {
			isolator_sender_post(sender, message, sizeof(message));
			if (is_child)
				_exit(isolator_sender_post(sender, message, 8) != -EPERM);
		}
	}
	EXPECT(posted_in_child, 0);
}

static void two_threads(void)
{
	pthread_t a, b;
	int received;

	setenv("ISOLATOR_CHECK", "1", 1);
	open_ring(1024);
	EXPECT(pthread_create(&a, NULL, posts, (void *)1), 0);
	EXPECT(pthread_create(&b, NULL, posts, (void *)2), 0);
	do {
		received = isolator_receiver_poll(receiver, 1024, take, NULL);
	} while (pthread_tryjoin_np(a, NULL) && received >= 0);
	while (pthread_tryjoin_np(b, NULL) && received >= 0)
		received = isolator_receiver_poll(receiver, 1024, take, NULL);
	while (isolator_receiver_poll(receiver, 1024, take, NULL) > 0)
		;
	EXPECT(torn, 0);
	EXPECT(taken, accepted);
	EXPECT(others, 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} misuses[] = {
	{ "a-time", a_time },
	{ "next-due", next_due },
	{ "set-ups-of-two-threads", set_ups_of_two_threads },
	{ "undo-elsewhere", undo_elsewhere },
	{ "small-stacks", small_stacks },
	{ "heap-of-a-thread", heap_of_a_thread },
	{ "handles-after-failures", handles_after_failures },
	{ "text-of-a-failure", text_of_a_failure },
	{ "children", children },
	{ "signal-handlers", signal_handlers },
	{ "forks-in-handlers", forks_in_handlers },
	{ "two-threads", two_threads },
};

int main(int argc, char **argv)
{
	for (size_t n = 0; argc > 1 && n < sizeof(misuses) / sizeof(*misuses); n++)
		if (!strcmp(argv[1], misuses[n].name)) {
			misuses[n].run();
			return wrong;
		}
	puts("misuses NAME");
	return 1;
}
