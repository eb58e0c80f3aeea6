// SPDX-License-Identifier: GPL-2.0-only
/*
 * Refusals of START: each has its own error number, and STATUS gives the reason
 * as text.
 *
 * Why: a user cannot fix a refusal that does not distinguish "no such CPU" from
 * "wrong boot line". And a missing refusal would isolate a CPU that cannot be
 * isolated.
 *
 * How to read: a line per case. "# SKIP": this machine cannot provoke the case.
 * It lacks a CPU outside of nohz_full= that does not keep the time, a CPU in
 * nohz_full= that boot does not isolate, real-time groups, a lockup detector or
 * an interrupt that can be moved. User space cannot provoke NOT_SUPPORTED,
 * NO_PAGE and CLOCK_STAYS, so they have no case.
 */
#include "cases.h"

#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/time.h>

static int starts_and_stops(void)
{
	struct isolator_status status;

	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT) ||
	    tick(fd, ISOLATOR_TICK_ALL))
		return yes(false, "start, tick");
	status = status_of(fd, ISOLATOR_THIS_CPU);
	if (status.owner != getpid() || status.cpu != (unsigned int)cpu ||
	    status.mask != ISOLATOR_MASK_DEFAULT || status.refused ||
	    !status.max_defer_ms)
		return yes(false, "status of the owner");
	if (stop(fd))
		return yes(false, "stop");
	status = status_of(fd, cpu);
	return yes(!status.owner && !status.mask &&
		   status.ended == ISOLATOR_ENDED_STOP, "status afterwards");
}

static int not_permitted(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		die("read capabilities");
	data[0].effective &= ~(1U << CAP_SYS_NICE);
	if (syscall(SYS_capset, &head, data))
		die("drop a capability");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), EPERM,
		       ISOLATOR_NOT_PERMITTED);
}

static int no_open_for_others(void)
{
	if (setgid(65534) || setuid(65534))
		die("drop privileges");
	return no(open("/dev/isolator", O_RDWR), EACCES);
}

static int bad_mask(void)
{
	static const unsigned long masks[] = {
		0, 1UL << 4, 1UL << 31, ISOLATOR_MASK_EXCLUSIVE_MM,
		ISOLATOR_MASK_DEFAULT | 1UL << 32, ~0UL,
	};
	unsigned int i;

	for (i = 0; i < sizeof(masks) / sizeof(*masks); i++)
		if (refused(ioctl(fd, ISOLATOR_IOC_START, masks[i]), EINVAL,
			    ISOLATOR_BAD_MASK))
			return FAILED;
	return PASSED;
}

/* A kernel without a part refuses what only that part could do. */
static int not_built(void)
{
	static const struct {
		const char	*part;
		unsigned int	mask;
	} bits[] = {
		{ "ktlb", ISOLATOR_MASK_KTLB },
		{ "exclusive_mm", ISOLATOR_MASK_EXCLUSIVE_MM },
	};
	struct isolator_post argument = { .size = sizeof(argument), .cpu = cpu };
	int result = SKIPPED;
	unsigned int i;

	for (i = 0; i < sizeof(bits) / sizeof(*bits); i++) {
		if (has_part(bits[i].part))
			continue;
		result = refused(start(fd, ISOLATOR_MASK_DEFAULT | bits[i].mask),
				 EOPNOTSUPP, ISOLATOR_NOT_BUILT);
		if (result)
			return result;
	}
	if (!has_part("messages")) {
		result = refused(ioctl(fd, ISOLATOR_IOC_POST, &argument),
				 EOPNOTSUPP, ISOLATOR_NOT_BUILT) ||
			 refused(ioctl(fd, ISOLATOR_IOC_POLL, &argument),
				 EOPNOTSUPP, ISOLATOR_NOT_BUILT);
	}
	return result == SKIPPED ? skip("every part is built in") : result;
}

/* Refusals on CPUs outside of nohz_full=, of which one keeps the time */
static int house_keeping(void)
{
	int other, timekeepers = 0, plain = 0, error;

	for (other = 0; other < cpu_count(); other++) {
		if (list_has(CPUS "nohz_full", other) || run_on(0, other))
			continue;
		if (!start(fd, ISOLATOR_MASK_DEFAULT))
			return yes(false, "a housekeeping CPU was isolated");
		error = errno;
		if (error == EDEADLK)
			timekeepers++;
		else
			plain++;
		errno = error;
		if (refused(-1, error == EDEADLK ? EDEADLK : ENODEV,
			    error == EDEADLK ? ISOLATOR_LAST_HOUSEKEEPING :
					       ISOLATOR_NOT_NOHZ_FULL))
			return FAILED;
	}
	say("%d keep the time, %d do not", timekeepers, plain);
	if (timekeepers != 1)
		return yes(false, "one CPU keeps the time");
	return plain ? PASSED : skip("no CPU outside of nohz_full but the one that keeps the time");
}

static int not_isolated(void)
{
	int other;

	for (other = 0; other < cpu_count(); other++)
		if (list_has(CPUS "nohz_full", other) &&
		    !list_has(CPUS "isolated", other) && !run_on(0, other))
			return refused(start(fd, ISOLATOR_MASK_DEFAULT), ENXIO,
				       ISOLATOR_NOT_ISOLATED);
	return skip("every CPU of nohz_full is isolated");
}

static int many_cpus(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CPU_SET(HOUSE_CPU, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("run on two CPUs");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), ERANGE,
		       ISOLATOR_MANY_CPUS);
}

#define GROUPS		"/tmp/isolator-groups"
#define LIMIT		GROUPS "/cpu.rt_runtime_us"
#define OF_ALL		"/proc/sys/kernel/sched_rt_runtime_us"

static int under_the_limit(void)
{
	char limit[32], of_all[32];
	int started, error;

	if (read_file(LIMIT, limit, sizeof(limit)) < 0 ||
	    read_file(OF_ALL, of_all, sizeof(of_all)) < 0)
		return skip("no real-time groups");
	become_fifo(10);
	if (refused(start(fd, ISOLATOR_MASK_DEFAULT), EDQUOT,
		    ISOLATOR_RT_BANDWIDTH) != PASSED)
		return FAILED;
	/* A group may not have more bandwidth than all tasks together. */
	if (write_file(OF_ALL, "-1") || write_file(LIMIT, "-1"))
		return yes(false, "lift the limit");
	started = !start_patiently(fd, ISOLATOR_MASK_DEFAULT) && !stop(fd);
	error = write_file(LIMIT, limit);
	if (!error)
		error = write_file(OF_ALL, of_all);
	return yes(started && !error, "starts without the limit");
}

static int rt_bandwidth(void)
{
	int result;

	/* Only control groups of version 1 have the limit. */
	if ((mkdir(GROUPS, 0700) && errno != EEXIST) ||
	    mount("cpu", GROUPS, "cgroup", 0, "cpu")) {
		rmdir(GROUPS);
		return skip("no control groups of version 1");
	}
	result = under_the_limit();
	umount(GROUPS);
	rmdir(GROUPS);
	return result;
}

static int tick_needed(void)
{
	struct itimerval far = { .it_value.tv_sec = 1000000 };

	if (setitimer(ITIMER_PROF, &far, NULL))
		die("arm a CPU timer");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), EAGAIN,
		       ISOLATOR_TICK_NEEDED);
}

static int owned(void)
{
	int *ready = share(PAGE), result;
	pid_t other;

	pin(HOUSE_CPU);
	other = child();
	if (!other) {
		int own = open_isolator();

		pin(cpu);
		*ready = start_patiently(own, ISOLATOR_MASK_DEFAULT) ? -1 : 1;
		pause();
		_exit(0);
	}
	/* The other task waits in the kernel, and still owns the CPU. */
	if (!wait_for(__atomic_load_n(ready, __ATOMIC_ACQUIRE), HANG_MS) ||
	    *ready < 0)
		return yes(false, "another owner");
	pin(cpu);
	/* Until the other task sleeps, two tasks there need the tick. */
	if (!wait_for(start(fd, ISOLATOR_MASK_DEFAULT) && errno != EAGAIN,
		      HANG_MS))
		return yes(false, "an answer");
	result = refused(start_patiently(fd, ISOLATOR_MASK_DEFAULT), EBUSY,
			 ISOLATOR_OWNED);
	if (!result)
		result = refused(stop(fd), ESRCH, ISOLATOR_NOT_OWNER);
	if (!result)
		result = refused(tick(fd, 0), ESRCH, ISOLATOR_NOT_OWNER);
	kill(other, SIGKILL);
	return reap(other) < 0 ? FAILED : result;
}

static int owner_already(void)
{
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT))
		return yes(false, "start");
	return refused(start_patiently(fd, ISOLATOR_MASK_DEFAULT), EALREADY,
		       ISOLATOR_OWNER_ALREADY);
}

static int foreign_inherited(void)
{
	pid_t other = child();

	if (!other) {
		int result = refused(start(fd, ISOLATOR_MASK_DEFAULT), EACCES,
				     ISOLATOR_FOREIGN_FILE);

		/* The child may map the page, and call STATUS. */
		page_of(fd, cpu);
		_exit(result);
	}
	return reap(other) ? FAILED : PASSED;
}

static int foreign_passed(void)
{
	union {
		struct cmsghdr	head;
		char		room[CMSG_SPACE(sizeof(int))];
	} control = { };
	char byte = 0;
	struct iovec vector = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &vector, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	int pair[2];
	pid_t other;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("make a pair of sockets");
	other = child();
	if (!other) {
		if (recvmsg(pair[1], &message, 0) != 1)
			die("receive");
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
		_exit(refused(start(fd, ISOLATOR_MASK_DEFAULT), EACCES,
			      ISOLATOR_FOREIGN_FILE));
	}
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	if (sendmsg(pair[0], &message, 0) != 1)
		die("send");
	return reap(other) ? FAILED : PASSED;
}

static int bad_policy(void)
{
	if (become_deadline())
		return skip("this CPU takes no SCHED_DEADLINE");
	return refused(start(fd, ISOLATOR_MASK_DEFAULT), EPROTOTYPE,
		       ISOLATOR_BAD_POLICY);
}

#define SETTING(name)	"/proc/sys/kernel/" name

/* Turns the lockup detector on for the CPU, then restores its settings */
static int watched(void)
{
	static const char * const settings[] = {
		SETTING("soft_watchdog"), SETTING("watchdog"),
		SETTING("watchdog_cpumask"),
	};
	char before[3][256], with[300];
	int result, error, i;

	for (i = 0; i < 3; i++)
		if (read_file(settings[i], before[i], sizeof(before[i])) <= 0)
			return skip("no lockup detector");
	before[2][strcspn(before[2], "\n")] = '\0';
	snprintf(with, sizeof(with), "%s,%d", before[2], cpu);
	error = write_file(settings[0], "1") || write_file(settings[1], "1") ||
		write_file(settings[2], with);
	result = error ? skip("the lockup detector is not to be set") :
			 refused(start_patiently(fd, ISOLATOR_MASK_DEFAULT),
				 EUSERS, ISOLATOR_WATCHED);
	for (i = 2; i >= 0; i--)
		if (write_file(settings[i], before[i]))
			result = yes(false, settings[i]);
	return result;
}

/* The kernel's log names device interrupts that may come to the CPU. */
static int tells_of_interrupts(void)
{
	static char log[1 << 17];
	static const char affinity[] = "/proc/irq/4/smp_affinity_list";
	char before[64], name[64], here[16], *line, *end, *item;
	int length, result;
	bool named = false;

	snprintf(here, sizeof(here), "%d", cpu);
	if (read_file(affinity, before, sizeof(before)) <= 0 ||
	    write_file(affinity, here))
		return skip("no interrupt 4 that can be moved");
	/*
	 * Some interrupts move only when they next occur; this line causes one.
	 */
	say("the serial port's interrupt is to come to CPU %d", cpu);
	sleep_us(50000);
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT) || stop(fd))
		return yes(false, "start, stop");
	length = syscall(SYS_syslog, 3 /* read all */, log, sizeof(log) - 1);
	log[length < 0 ? 0 : length] = '\0';
	snprintf(name, sizeof(name), "isolator: cpu %d: interrupts that may come:",
		 cpu);
	for (line = log; !named && (line = strstr(line, name)); line = end) {
		line += strlen(name);
		end = line + strcspn(line, "\n");
		if (*end)
			*end = ' ';
		item = strstr(line, " 4 ");
		named = item && item < end;
	}
	result = yes(named, name);
	return write_file(affinity, before) ? FAILED : result;
}

static const struct test_case cases[] = {
	CASE(starts_and_stops),
	CASE(not_permitted),
	CASE(no_open_for_others),
	CASE(bad_mask),
	CASE(not_built),
	CASE(house_keeping),
	CASE(not_isolated),
	CASE(many_cpus),
	CASE(rt_bandwidth),
	CASE(tick_needed),
	CASE(owned),
	CASE(owner_already),
	CASE(foreign_inherited),
	CASE(foreign_passed),
	CASE(bad_policy),
	CASE(watched),
	CASE(tells_of_interrupts),
	{ }
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases);
}
