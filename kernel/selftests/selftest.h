/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selftests of the interrupt isolator: what they share.
 *
 * Static programs over the uapi alone, which also run where there is no
 * distribution. They print TAP and exit as kselftests do: 0 passed, 1 failed,
 * 4 skipped (which needs a reason). They need root, one CPU in nohz_full= and
 * isolcpus=domain that no other program uses, and a kernel with
 * CONFIG_ISOLATOR_OWNER.
 *
 * No time is judged: a limit on time is there only to tell a hang from a slow
 * machine. In an emulator, or on a busy host, make it longer: --slow K.
 */
#ifndef SELFTEST_H
#define SELFTEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/isolator.h>
#include <linux/perf_event.h>

#define PASSED		0
#define FAILED		1
#define SKIPPED		4

#define __printf(a, b)	__attribute__((format(printf, a, b)))
#define __noreturn	__attribute__((noreturn))
#define PAGE		4096
#define HOUSE_CPU	0
#define BOUND		"/proc/sys/kernel/isolator_max_defer_ms"
#define MIGRATION	"/proc/sys/kernel/timer_migration"

/* How much slower than a machine of its own this one may be. */
static long slow = 1;

/* ---- TAP ---- */

static int tap_number, tap_failed;

static inline __printf(1, 2) void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf("# ");
	vprintf(format, list);
	printf("\n");
	va_end(list);
	fflush(stdout);
}

static inline __printf(2, 3)
bool ok(bool good, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf("%s %d - ", good ? "ok" : "not ok", ++tap_number);
	vprintf(format, list);
	printf("\n");
	va_end(list);
	fflush(stdout);
	tap_failed += !good;
	return good;
}

static inline void ok_or_skipped(int status, const char *name, const char *why)
{
	if (status == SKIPPED) {
		printf("ok %d - %s # SKIP %s\n", ++tap_number, name, why);
		fflush(stdout);
	} else {
		ok(status == PASSED, "%s", name);
	}
}

static inline int finish(void)
{
	printf("1..%d\n", tap_number);
	say("%d failed of %d", tap_failed, tap_number);
	return tap_failed ? FAILED : PASSED;
}

static inline __printf(1, 2) __noreturn
void skip_all(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf("1..0 # SKIP ");
	vprintf(format, list);
	printf("\n");
	va_end(list);
	fflush(stdout);
	_exit(SKIPPED);
}

static inline __noreturn void die(const char *what)
{
	printf("Bail out! cannot %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(FAILED);
}

/* ---- arguments: --NAME NUMBER, or --NAME alone for 1 ---- */

struct argument {
	const char	*name;
	long		*value;
	bool		flag;
};

static inline void arguments(int argc, char **argv, const struct argument *known)
{
	const struct argument *one;
	int i;

	for (i = 1; i < argc; i++) {
		for (one = known; one->name; one++)
			if (!strcmp(argv[i], one->name))
				break;
		if (one->name && one->flag) {
			*one->value = 1;
		} else if (one->name && i + 1 < argc) {
			*one->value = strtol(argv[++i], NULL, 0);
		} else {
			fprintf(stderr, "%s: no argument like %s; there are:",
				argv[0], argv[i]);
			for (one = known; one->name; one++)
				fprintf(stderr, " %s%s", one->name,
					one->flag ? "" : " N");
			fprintf(stderr, "\n");
			exit(FAILED);
		}
	}
}

/* ---- time and chance ---- */

static inline long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void sleep_us(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

/* Waits until @condition; false: it hangs. */
#define wait_for(condition, ms) ({				\
	long until_ = now_ms() + (long)(ms) * slow;		\
	bool good_;						\
								\
	while (!(good_ = (condition)) && now_ms() < until_)	\
		sleep_us(100);					\
	good_ = good_ || (condition);				\
	good_; })

#define HANG_MS		20000

static inline uint64_t chance(uint64_t *state)		/* xorshift64* */
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* ---- files ---- */

static inline int read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = 0, more;

	if (fd < 0)
		return -1;
	while ((more = read(fd, text + length, size - 1 - length)) > 0)
		length += more;
	close(fd);
	text[length] = '\0';
	return length;
}

/* 0 or an error number */
static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

/* Whether a list such as "1,4-6" in a file names a CPU */
static inline bool list_has(const char *path, int cpu)
{
	char text[256], *at = text;

	if (read_file(path, text, sizeof(text)) <= 0)
		return false;
	while (*at >= '0' && *at <= '9') {
		long from = strtol(at, &at, 10), to = from;

		if (*at == '-')
			to = strtol(at + 1, &at, 10);
		if (cpu >= from && cpu <= to)
			return true;
		at += *at == ',';
	}
	return false;
}

#define CPUS		"/sys/devices/system/cpu/"

/*
 * Interrupts that a CPU has received, of the lines of /proc/interrupts with this
 * text; -1: there are none
 */
static inline long interrupts_of(int cpu, const char *what)
{
	static char text[1 << 18];
	char *line, *rest = text, *at;
	long count = -1, of_line;
	int column = -1, i;

	if (read_file("/proc/interrupts", text, sizeof(text)) <= 0)
		die("read /proc/interrupts");
	line = strsep(&rest, "\n");
	for (i = 0, at = strtok(line, " "); at; at = strtok(NULL, " "), i++)
		if (!strncmp(at, "CPU", 3) && atoi(at + 3) == cpu)
			column = i;
	while (column >= 0 && (line = strsep(&rest, "\n"))) {
		if (!strstr(line, what))
			continue;
		at = strchr(line, ':');
		for (i = 0, of_line = 0; at && i <= column; i++)
			of_line = strtol(at + (i == 0), &at, 10);
		count = (count < 0 ? 0 : count) + of_line;
	}
	return count;
}

static inline int cpu_count(void)
{
	return sysconf(_SC_NPROCESSORS_CONF);
}

static inline bool has_hrtimers(void)
{
	struct timespec resolution;

	return !clock_getres(CLOCK_MONOTONIC, &resolution) &&
	       !resolution.tv_sec && resolution.tv_nsec == 1;
}

/*
 * The first CPU that can be isolated; skips all without one. Waits for high
 * resolution timers, without which START is refused: a guest on a busy host may
 * check its clocks for a while.
 */
static inline int isolated_cpu(void)
{
	int cpu;

	if (!wait_for(has_hrtimers(), HANG_MS))
		skip_all("no high resolution timers; the kernel's log has the clocks");
	for (cpu = 0; cpu < cpu_count(); cpu++)
		if (list_has(CPUS "nohz_full", cpu) &&
		    list_has(CPUS "isolated", cpu))
			return cpu;
	skip_all("no CPU is both in nohz_full= and in isolcpus=domain");
}

/* ---- the isolator ---- */

static inline int open_isolator(void)
{
	int fd = open("/dev/isolator", O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		skip_all("no /dev/isolator: a kernel without CONFIG_ISOLATOR_OWNER");
	if (fd < 0)
		die("open /dev/isolator");
	return fd;
}

/* Whether the kernel was built with a part, as /proc/isolator names it */
static inline bool has_part(const char *name)
{
	char text[256], *at, *part;

	if (read_file("/proc/isolator", text, sizeof(text)) <= 0)
		return false;
	at = strstr(text, "\nparts ");
	if (!at)
		return false;
	at++;
	at[strcspn(at, "\n")] = '\0';
	for (part = strtok(at, " "); part; part = strtok(NULL, " "))
		if (!strcmp(part, name))
			return true;
	return false;
}

static inline struct isolator_status status_of(int fd, unsigned int cpu)
{
	struct isolator_status status = { .size = sizeof(status), .cpu = cpu };

	if (ioctl(fd, ISOLATOR_IOC_STATUS, &status))
		die("ask for STATUS");
	return status;
}

/* Whether the CPU has no owner; @status: as it is now */
static inline bool no_owner(int fd, int cpu, struct isolator_status *status)
{
	*status = status_of(fd, cpu);
	return !status->owner;
}

static inline
const struct isolator_page *page_of(int fd, int cpu)
{
	const struct isolator_page *page;

	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd,
		    ISOLATOR_MMAP_OFFSET(cpu));
	if (page == MAP_FAILED)
		die("map the page");
	return page;
}

static inline uint64_t stat_of(const struct isolator_page *page,
			enum isolator_stat what)
{
	return __atomic_load_n(&page->stat[what], __ATOMIC_ACQUIRE);
}

/* Of every kind */
static inline uint64_t breaches(const struct isolator_page *page)
{
	uint64_t all = 0;
	int kind;

	for (kind = ISOLATOR_STAT_BREACH_CALL;
	     kind <= ISOLATOR_STAT_BREACH_BOUND; kind++)
		all += stat_of(page, kind);
	return all;
}

static inline int start(int fd, unsigned int mask)
{
	return ioctl(fd, ISOLATOR_IOC_START, (unsigned long)mask);
}

/* A task that happens to run there needs the tick, for a moment. */
static inline int start_patiently(int fd, unsigned int mask)
{
	int result, times = 1000;

	while ((result = start(fd, mask)) && errno == EAGAIN && --times)
		sleep_us(1000);
	return result;
}

static inline int tick(int fd, unsigned int flags)
{
	return ioctl(fd, ISOLATOR_IOC_TICK, (unsigned long)flags);
}

static inline int stop(int fd)
{
	return ioctl(fd, ISOLATOR_IOC_STOP, 0);
}

/* ---- samples of a CPU, for NMIs at any point ---- */

/* Whether the kernel's log has this text */
static inline bool logged(const char *text)
{
	static char log[1 << 20];
	int size = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);

	return size > 0 && strstr(log, text);
}

/*
 * Has the PMU of @cpu interrupt it every @cycles, which needs an NMI (on arm64
 * irqchip.gicv3_pseudo_nmi=1). To be called before there is an owner: later it
 * is refused.
 */
static inline void sample(int cpu, long cycles)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES, .sample_period = cycles,
	};

	if (!logged("using NMIs"))
		skip_all("the PMU has no NMIs");
	/* Else samples of a CPU without a tick are throttled, and need one. */
	write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
	write_file("/proc/sys/kernel/perf_event_max_sample_rate", "1000000000");
	if (syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0) < 0)
		die("have the PMU sample a CPU");
}

static inline long samples_of(int cpu)
{
	return interrupts_of(cpu, "arm-pmu");
}

/* ---- windows of who counts from outside (lab/scope): nothing to a processor ---- */

#if defined(__x86_64__)
#define MARKER(code)	".byte 0x0f, 0x1f, 0x80; .long 0x49530000 + " #code
#else
#define MARKER(code)	"movz xzr, #(0x5300 + " #code ")"
#endif
#define MARK(code)	({ __asm__ volatile(MARKER(code) ::: "memory"); })
#define BEGIN()		MARK(1)
#define END()		MARK(2)

/* ---- tasks ---- */

static inline int run_on(pid_t who, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(who, sizeof(set), &set);
}

static inline void pin(int cpu)
{
	if (run_on(0, cpu))
		die("run on a CPU");
}

static inline void become_fifo(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		die("become SCHED_FIFO");
}

/* As the system call returns: glibc has no name for it. */
static inline int become_deadline(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {
		.size = sizeof(attr), .policy = 6 /* SCHED_DEADLINE */,
		.runtime = 1000000, .deadline = 100000000, .period = 100000000,
	};

	return syscall(SYS_sched_setattr, 0, &attr, 0);
}

static inline void *share(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("share memory");
	return at;
}

/*
 * Memory of its own, in which each page begins with @stamp. Not MAP_POPULATE,
 * which would empty the CPU's batches in the end.
 */
static inline void *fresh_pages(int pages, long stamp)
{
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int page;

	if (at == MAP_FAILED)
		die("map");
	for (page = 0; page < pages; page++)
		*(volatile long *)(at + page * PAGE) = stamp;
	return at;
}

/* A child that dies with this process */
static inline pid_t child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Waits for a child; its wait status, or -1: it hangs */
static inline int reap(pid_t pid)
{
	int status = -1;

	if (!wait_for(waitpid(pid, &status, WNOHANG) == pid, HANG_MS))
		return -1;
	return status;
}

/*
 * Has the kernel patch its hooks in, which the first START of all does, while
 * no other task runs: a child starts, and this process sleeps until it is gone.
 * For QEMU before 8, where a CPU that runs text while another one patches it
 * may go on with what it has read. Whether START works, others say.
 */
static inline void start_alone(int cpu)
{
	pid_t pid = child();

	if (!pid) {
		int own = open_isolator();

		pin(cpu);
		start_patiently(own, ISOLATOR_MASK_DEFAULT);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif /* SELFTEST_H */
