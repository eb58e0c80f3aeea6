// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ends of an isolation that a user can cause, each with its own reason in
 * STATUS.
 *
 * Why: a CPU that stays owned after its owner has gone cannot be isolated
 * again, and an owner has to learn why its isolation ended.
 *
 * How to read: a line per case. "# SKIP": no CPU in nohz_full= that boot does
 * not isolate. ENDED_HOTPLUG needs suspend, so it has no case. teardown has the
 * same ends at random points.
 */
#include "cases.h"

static int ends(enum isolator_reason reason)
{
	struct isolator_status status;

	if (wait_for(no_owner(fd, cpu, &status), HANG_MS) &&
	    !status.mask && status.ended == reason)
		return PASSED;
	say("owner %d, mask %#x, ended %u; wanted %d", status.owner,
	    status.mask, status.ended, reason);
	return FAILED;
}

static int ended_exit(void)
{
	pid_t other;

	pin(HOUSE_CPU);
	other = child();
	if (!other) {
		int own = open_isolator();

		pin(cpu);
		_exit(start_patiently(own, ISOLATOR_MASK_DEFAULT) ? 1 : 0);
	}
	return reap(other) ? FAILED : ends(ISOLATOR_ENDED_EXIT);
}

static int ended_close(void)
{
	int own = open_isolator(), other = dup(own);

	if (start_patiently(own, ISOLATOR_MASK_DEFAULT))
		return yes(false, "start");
	close(own);
	if (!status_of(fd, cpu).owner)
		return yes(false, "owner after the close of one of two");
	close(other);
	return ends(ISOLATOR_ENDED_CLOSE);
}

static int ended_affinity(void)
{
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT) ||
	    run_on(0, HOUSE_CPU))
		return yes(false, "start, move");
	return ends(ISOLATOR_ENDED_AFFINITY);
}

static int ended_policy(void)
{
	if (start_patiently(fd, ISOLATOR_MASK_DEFAULT))
		return yes(false, "start");
	if (become_deadline())
		return skip("this CPU takes no SCHED_DEADLINE");
	return ends(ISOLATOR_ENDED_POLICY);
}

static int ended_partition(void)
{
	int result = move_to_partition();

	if (result)
		return result;
	result = yes(!start_patiently(fd, ISOLATOR_MASK_DEFAULT),
		     "start in a partition") ||
		 yes(!write_file(PARTITION "/cpuset.cpus.partition", "member"),
		     "end the partition") ||
		 ends(ISOLATOR_ENDED_PARTITION);
	leave_partition();
	return result ? FAILED : PASSED;
}

/* Retries START, since other tasks on the CPU still have to leave. */
static int start_for_good(void)
{
	return start_patiently(open_isolator(), ISOLATOR_MASK_DEFAULT) ? errno : 0;
}

/* Owns a CPU, moves to @next, and calls START there as well. */
static void takes_two(int next)
{
	int error;

	if (start_for_good())
		die("start");
	move_to_group(ROOT "/cgroup.procs");
	pin(next);
	error = start_for_good();
	/* The watchdog may have ended the first isolation already. */
	_exit(yes(!error || error == EALREADY, "a second start"));
}

static bool can_be_had(int one)
{
	pin(one);
	return wait_for(!start(fd, ISOLATOR_MASK_DEFAULT), HANG_MS) &&
	       !stop(fd);
}

/* Neither CPU may stay owned by a thread that has exited. */
static int owner_of_two(void)
{
	int second = cpu, result = move_to_partition();
	pid_t other;

	if (result)
		return result;
	other = child();
	if (!other)
		takes_two(second);
	result = yes(!reap(other), "the owner") ||
		 yes(can_be_had(cpu), "the first is free");
	leave_partition();
	return result || yes(can_be_had(second), "the second is free") ?
	       FAILED : PASSED;
}

static const struct test_case cases[] = {
	CASE(ended_exit),
	CASE(ended_close),
	CASE(ended_affinity),
	CASE(ended_policy),
	CASE(ended_partition),
	CASE(owner_of_two),
	{ }
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases);
}
