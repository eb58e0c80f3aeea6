// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work of other CPUs that leaves an isolated CPU out.
 *
 * Why: some functions of the kernel visit each CPU, also one where they have
 * nothing to do. A real-time thread that spins there keeps their work from
 * running, and their caller waits until the thread sleeps.
 *
 *	a thread that	the clocksource watchdog's timer, vm.stat_refresh, a
 *	owns nothing	rude grace period of RCU tasks (the function tracer of
 *			an instance)
 *	an owner	drop_caches, after the owner filled its batches; with
 *			KTLB, flushes of unmapped vmalloc ranges
 *
 * How: the thread never enters the kernel. Work on its CPU takes the CPU from
 * it (by the fair server, or by the limit of real-time tasks), and the kernel
 * counts that. Beside an owner work waits for the bound, which is an hour: a
 * caller that waits for the CPU does not come back.
 *
 * How to read: a line per case. The first ones fail on a kernel without the
 * group "neighbours". Those with an owner are skipped on a kernel without their
 * part. --slow K
 */
#include "selftest.h"

#include <linux/bpf.h>
#include <sys/mount.h>

#define TRACING		"/sys/kernel/tracing"
#define INSTANCE	TRACING "/instances/isolator-selftest"
#define VISITS		6	/* of the clocksource watchdog */
#define VISIT_MS	500	/* from one to the next */
#define TOUCHED		5	/* pages; fewer than a batch has */
#define MAP_BYTES	(16 << 20)
#define MAPS		40	/* until unmapped ranges are flushed */

static struct shared {
	int	ready;		/* of the spinner; -errno */
	int	leave;
} *shared;
static int cpu;

/* ---- a real-time thread that spins on the isolated CPU ---- */

/* @mask 0: it owns nothing. @touches: its CPU gets batches and counts */
static void spin(unsigned int mask, bool touches)
{
	int own = mask ? open_isolator() : -1;

	pin(cpu);
	if (mlockall(MCL_CURRENT))
		die("lock memory");
	if (!touches)
		write_file("/proc/sys/vm/stat_refresh", "1");
	become_fifo(80);
	if (mask && start_patiently(own, mask)) {
		__atomic_store_n(&shared->ready, -errno, __ATOMIC_RELEASE);
		_exit(1);
	}
	/* Faults, by which the kernel batches pages and counts */
	if (touches)
		fresh_pages(TOUCHED, 1);
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&shared->leave, __ATOMIC_ACQUIRE))
		relax();
	_exit(0);
}

/* Soon the tick stops: until then the thread is in the kernel now and then. */
static bool left_alone(void)
{
	long before = interrupts_of(cpu, "");

	sleep_us(100000);
	return interrupts_of(cpu, "") == before;
}

static pid_t start_spinner(unsigned int mask, bool touches)
{
	pid_t pid;
	int i;

	memset(shared, 0, sizeof(*shared));
	pid = child();
	if (!pid)
		spin(mask, touches);
	if (!wait_for(__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE),
		      HANG_MS))
		die("start the thread on the isolated CPU");
	for (i = 0; i < 20 && !left_alone(); i++)
		;
	return pid;
}

static void end_spinner(pid_t pid)
{
	__atomic_store_n(&shared->leave, 1, __ATOMIC_RELEASE);
	if (reap(pid) < 0)
		die("end the thread on the isolated CPU");
}

/* ---- work, each 0 or an error number ---- */

static int stat_refresh(void)
{
	return write_file("/proc/sys/vm/stat_refresh", "1");
}

static int drop_caches(void)
{
	return write_file("/proc/sys/vm/drop_caches", "1");
}

/* The operations of an instance are dynamic, and so waited for. */
static int trace_functions(void)
{
	int error = write_file(INSTANCE "/set_ftrace_filter", "vfs_statfs\n");

	if (!error)
		error = write_file(INSTANCE "/current_tracer", "function");
	return error ? error : write_file(INSTANCE "/current_tracer", "nop");
}

/* How often something else has taken the CPU from a process */
static long preemptions(pid_t pid)
{
	char path[64], text[4096], *at;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (read_file(path, text, sizeof(text)) <= 0)
		die("read a process's status");
	at = strstr(text, "nonvoluntary_ctxt_switches:");
	return at ? atol(strchr(at, ':') + 1) : -1;
}

/* Whether it comes to its end, and the spinner kept the CPU; ends both */
static bool done_beside(int (*work)(void), pid_t spinner)
{
	long before = preemptions(spinner), switches;
	pid_t pid = child();
	int status = -1;
	bool done;

	if (!pid)
		_exit(work());
	done = wait_for(waitpid(pid, &status, WNOHANG) == pid, HANG_MS / 4);
	switches = preemptions(spinner) - before;
	end_spinner(spinner);
	if (!done && reap(pid) < 0)
		die("get the work done without the spinner");
	if (done && status)
		say("it failed: %s", strerror(WEXITSTATUS(status)));
	else if (!done || switches)
		say("%s; something took the CPU %ld times",
		    done ? "done" : "not done", switches);
	return done && !status && !switches;
}

/*
 * The same beside a thread that owns nothing. An interrupt may just have it in
 * the kernel, and then the work does need the CPU: several tries.
 */
static bool leaves_out(int (*work)(void))
{
	int tries = 3;

	while (tries--)
		if (done_beside(work, start_spinner(0, false)))
			return true;
	return false;
}

/* ---- the clocksource watchdog ---- */

/* How often its timer was started, and of these on the isolated CPU */
static long visits(long *isolated)
{
	FILE *trace = fopen(TRACING "/trace", "r");
	char line[512], *at;
	long count = 0;

	*isolated = 0;
	while (trace && fgets(line, sizeof(line), trace)) {
		if (!strstr(line, "function=clocksource_watchdog"))
			continue;
		at = strstr(line, " cpu=");
		count++;
		*isolated += at && atoi(at + strlen(" cpu=")) == cpu;
	}
	if (trace)
		fclose(trace);
	return count;
}

static void clocks(void)
{
	const char *name = "the clocksource watchdog stays away";
	long isolated = 0, count = 0;
	pid_t spinner;

	if (write_file(TRACING "/events/timer/timer_start/enable", "1")) {
		ok_or_skipped(SKIPPED, name, "no trace event timer:timer_start");
		return;
	}
	/* Without the spinner first: is there a watchdog? */
	if (!wait_for(visits(&isolated) >= 2, 6 * VISIT_MS)) {
		ok_or_skipped(SKIPPED, name, "no clocksource is watched here");
	} else {
		spinner = start_spinner(0, false);
		write_file(TRACING "/trace", "");
		wait_for((count = visits(&isolated)) >= VISITS, HANG_MS);
		end_spinner(spinner);
		say("the clocksource watchdog: %ld visits, %ld to the CPU",
		    count, isolated);
		ok(count >= VISITS && !isolated, "%s", name);
	}
	write_file(TRACING "/events/timer/timer_start/enable", "0");
}

static void tracer(void)
{
	const char *name = "the function tracer's end does not wait for the CPU";

	if (mkdir(INSTANCE, 0755)) {
		ok_or_skipped(SKIPPED, name, "no instances of tracing");
		return;
	}
	ok(leaves_out(trace_functions), "%s", name);
	rmdir(INSTANCE);
}

/* ---- owners ---- */

static int fd = -1;

/* Whether a case with an owner can run; if not, says so */
static bool has(const char *part, const char *name)
{
	if (fd >= 0 && has_part(part))
		return true;
	ok_or_skipped(SKIPPED, name, "a kernel without this part");
	return false;
}

static void batches(void)
{
	const char *name = "drop_caches finds an owner's batches empty";
	const struct isolator_page *page;
	uint64_t before;
	bool done;

	if (!has("quiesce", name))
		return;
	page = page_of(fd, cpu);
	before = breaches(page);
	if (done_beside(drop_caches, start_spinner(0, true))) {
		ok_or_skipped(SKIPPED, name, "nothing is batched here");
		return;
	}
	done = done_beside(drop_caches,
			   start_spinner(ISOLATOR_MASK_DEFAULT, true));
	ok(done && shared->ready == 1 && breaches(page) == before, "%s", name);
}

/* Frees vmalloc memory until @what was counted; false: it never was */
static bool unmap_until(const struct isolator_page *page,
			enum isolator_stat what)
{
	uint64_t before = stat_of(page, what);
	int i;

	for (i = 0; i < MAPS && stat_of(page, what) == before; i++) {
		union bpf_attr attr = {
			.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4,
			.value_size = PAGE, .max_entries = MAP_BYTES / PAGE,
		};
		int map = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));

		if (map < 0)
			return false;
		close(map);
		/* It is freed by a work item. */
		sleep_us(20000 * slow);
	}
	return stat_of(page, what) != before;
}

static void mappings(void)
{
	const char *name = "flushes of unmapped vmalloc ranges wait";
	const struct isolator_page *page;
	bool came, waited;
	uint64_t before;
	pid_t owner;

	if (!has("ktlb", name))
		return;
	page = page_of(fd, cpu);
	owner = start_spinner(ISOLATOR_MASK_DEFAULT, false);
	came = unmap_until(page, ISOLATOR_STAT_BREACH_KERNEL_TLB);
	end_spinner(owner);
	if (!came) {
		ok_or_skipped(SKIPPED, name, "nothing flushes such ranges here");
		return;
	}
	owner = start_spinner(ISOLATOR_MASK_DEFAULT | ISOLATOR_MASK_KTLB,
			      false);
	before = breaches(page);
	waited = shared->ready == 1 &&
		 unmap_until(page, ISOLATOR_STAT_DEFER_KTLB) &&
		 breaches(page) == before;
	end_spinner(owner);
	ok(waited, "%s", name);
}

int main(int argc, char **argv)
{
	char text[16];

	arguments(argc, argv, (const struct argument[]){
		{ "--slow", &slow, false }, { } });
	cpu = isolated_cpu();
	pin(HOUSE_CPU);
	shared = share(sizeof(*shared));
	mount("tracefs", TRACING, "tracefs", 0, NULL);

	clocks();
	ok(leaves_out(stat_refresh),
	   "vm.stat_refresh leaves a CPU without counts out");
	tracer();

	fd = open("/dev/isolator", O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		start_alone(cpu);
		if (read_file(BOUND, text, sizeof(text)) <= 0 ||
		    write_file(BOUND, "3600000"))
			die("make the bound longer");
	}
	batches();
	mappings();
	if (fd >= 0)
		write_file(BOUND, text);
	return finish();
}
