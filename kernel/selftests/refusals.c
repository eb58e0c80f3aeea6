// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests of other tasks that the kernel refuses, since they would interrupt
 * an owner: perf_event_open(), and frequencies, which an emulated machine has
 * only by frequency.asl. `teardown` takes the CPU offline, storms read MSRs.
 *
 * Why: to refuse a request denies a service to others. That takes a right, the
 * administrator can turn it off, and the answer must not tell more than the
 * caller may know.
 *
 * How to read: a line per case. "# SKIP": the kernel has no perf events or the
 * CPU no frequencies, or it was built without CONFIG_ISOLATOR_REFUSE.
 */
#include "cases.h"

#include <linux/capability.h>
#include <linux/perf_event.h>
#include <limits.h>

/* The kernel checks the number of a CPU before it uses it as an index. */
static int perf_of_no_cpu(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1,
	};
	const int cpus[] = { cpu_count(), 100000, INT_MAX };
	unsigned int i;

	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT) || stop(fd))
		return yes(false, "start, stop");
	for (i = 0; i < sizeof(cpus) / sizeof(*cpus); i++) {
		int got = syscall(SYS_perf_event_open, &attr, -1, cpus[i], -1, 0);

		if (got < 0 && errno == ENOSYS)
			return skip("no perf events");
		if (got >= 0 || (errno != EINVAL && errno != ENODEV))
			return yes(false, "an event of no CPU");
	}
	return PASSED;
}

#define REFUSE		"/proc/sys/kernel/isolator_refuse"

/* Starts an owner, with or without CAP_SYS_ADMIN, until this process ends */
static bool owner_with(bool admin)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];
	int *ready = share(PAGE);

	pin(HOUSE_CPU);
	if (!child()) {
		int own = open_isolator();

		if (syscall(SYS_capget, &head, data))
			die("read capabilities");
		if (!admin)
			data[0].effective &= ~(1U << CAP_SYS_ADMIN);
		if (syscall(SYS_capset, &head, data))
			die("drop a capability");
		pin(cpu);
		*ready = start_patiently(own, ISOLATOR_MASK_DEFAULT) ? -1 : 1;
		for (;;)
			relax();
	}
	return wait_for(__atomic_load_n(ready, __ATOMIC_ACQUIRE), HANG_MS) &&
	       *ready == 1;
}

/* Error number of an attempt to open an event for the CPU, or 0 */
static int perf_error(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1,
	};
	int event = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0);

	if (event < 0)
		return errno;
	close(event);
	return 0;
}

/* Why no request is refused that this program can make; NULL: some are */
static const char *no_refusals(void)
{
	return perf_error() == ENOSYS ? "no perf events" :
	       has_part("refuse") ? NULL :
				    "a kernel without CONFIG_ISOLATOR_REFUSE";
}

static int refuses_others(void)
{
	const struct isolator_page *page = page_of(fd, cpu);
	uint64_t refused = stat_of(page, ISOLATOR_STAT_REFUSED_PERF);
	int error;

	if (no_refusals())
		return skip(no_refusals());
	if (!owner_with(true))
		return yes(false, "an owner");
	if (perf_error() != EBUSY ||
	    stat_of(page, ISOLATOR_STAT_REFUSED_PERF) != refused + 1)
		return yes(false, "an event is refused, and counted");
	error = write_file(REFUSE, "0");
	if (error)
		return yes(false, "the administrator's switch");
	error = perf_error();
	write_file(REFUSE, "1");
	return yes(!error, "an event with the switch off");
}

static int refuses_by_right(void)
{
	if (no_refusals())
		return skip(no_refusals());
	return yes(owner_with(false), "an owner") ||
	       yes(!perf_error(), "an event where the owner may not refuse");
}

/*
 * Without the right to an event, the answer must not reveal the CPU's owner. A
 * process of its own drops its rights: this one's end has to kill the owner.
 */
static int tells_only_the_entitled(void)
{
	pid_t pid;
	int error;

	if (no_refusals())
		return skip(no_refusals());
	if (!owner_with(true))
		return yes(false, "an owner");
	pid = child();
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			die("drop privileges");
		error = perf_error();
		_exit(yes(error == EACCES || error == EPERM, strerror(error)));
	}
	return reap(pid) ? FAILED : PASSED;
}

/* A file of the CPU's frequency */
static const char *frequency_file(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path),
		 "/sys/devices/system/cpu/cpu%d/cpufreq/%s", cpu, name);
	return path;
}

/*
 * A look at the frequency, and a change of it, are each a function call on the
 * CPU: see acpi-cpufreq.
 */
static int refuses_frequencies(void)
{
	const struct isolator_page *page = page_of(fd, cpu);
	char lowest[32], known[32], now[32] = "";
	uint64_t refused, broken;
	int error;

	if (!has_part("refuse"))
		return skip("a kernel without CONFIG_ISOLATOR_REFUSE");
	if (read_file(frequency_file("cpuinfo_cur_freq"), known,
		      sizeof(known)) <= 0)
		return skip("no frequency");
	if (read_file(frequency_file("cpuinfo_min_freq"), lowest,
		      sizeof(lowest)) <= 0 ||
	    write_file(frequency_file("scaling_governor"), "userspace"))
		return yes(false, "a governor that takes frequencies");
	if (!owner_with(true))
		return yes(false, "an owner");
	refused = stat_of(page, ISOLATOR_STAT_REFUSED_CPUFREQ);
	broken = breaches(page);
	if (read_file(frequency_file("cpuinfo_cur_freq"), now,
		      sizeof(now)) <= 0 ||
	    strcmp(now, known) ||
	    stat_of(page, ISOLATOR_STAT_REFUSED_CPUFREQ) != refused + 1)
		return yes(false, "the last frequency, and a count");
	if (write_file(frequency_file("scaling_setspeed"), lowest) != EBUSY ||
	    stat_of(page, ISOLATOR_STAT_REFUSED_CPUFREQ) != refused + 2)
		return yes(false, "a change is refused, and counted");
	if (breaches(page) != broken)
		return yes(false, "no interrupt");
	if (write_file(REFUSE, "0"))
		return yes(false, "the administrator's switch");
	error = write_file(frequency_file("scaling_setspeed"), lowest);
	write_file(REFUSE, "1");
	return yes(!error, "a change with the switch off") ||
	       yes(breaches(page) > broken, "that it interrupts the owner");
}

static const struct test_case cases[] = {
	CASE(perf_of_no_cpu),
	CASE(refuses_others),
	CASE(refuses_by_right),
	CASE(tells_only_the_entitled),
	CASE(refuses_frequencies),
	{ }
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases);
}
