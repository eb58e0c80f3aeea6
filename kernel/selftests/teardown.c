// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ends isolation at random points in every way there is, and checks that the
 * CPU is as it was before.
 *
 * Why: a CPU that still defers after its owner is gone would hang every task
 * that waits for it.
 *
 * Each round starts an owner, which spins and enters the kernel by turns. After
 * a random time the round ends the isolation in one of the ways below.
 * Afterwards, the CPU has no owner, and the reported reason is right. The
 * deferral word is empty. An ordinary task pinned there is woken, sleeps by a
 * timer of that CPU, and answers. START was counted once. Every 64th round two
 * such tasks compete, so that only a tick lets both run.
 *
 * How to read: a line per kind with rounds and failures; failures are listed
 * above it. --rounds N (10,000 in the long form), --seed N, --slow K,
 * --no-hotplug. The owner (teardown.h), the actions on it and the checks
 * afterwards communicate by one page.
 */
#include "teardown.h"

#include <pthread.h>
#include <sys/ptrace.h>

#define CGROUP		"/sys/fs/cgroup/isolator-selftest"

/* ---- kinds of ends ---- */

struct round {
	pid_t		pid;		/* owner's process */
	unsigned int	mask;
	bool		thread;		/* the owner is its second thread */
};

#define PROBLEM(...) (say(__VA_ARGS__), false)

static bool owned(void)
{
	return status_of(fd, cpu).owner == __atomic_load_n(&shared->owner,
							   __ATOMIC_ACQUIRE);
}

static bool order(int what)
{
	__atomic_store_n(&shared->order, what, __ATOMIC_RELEASE);
	return true;
}

static bool obeyed(void)
{
	int state;

	if (!wait_for(__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) != 1,
		      HANG_MS))
		return PROBLEM("the owner hangs");
	state = shared->state;
	return state == 2 || PROBLEM("the owner says %d", state);
}

static bool gone(struct round *round, int signal)
{
	int status = reap(round->pid);

	round->pid = 0;
	if (status >= 0 && (signal ? WIFSIGNALED(status) &&
				     WTERMSIG(status) == signal : !status))
		return true;
	return PROBLEM("wait status %#x", status);
}

static bool unowned(enum isolator_reason reason)
{
	struct isolator_status status;

	if (wait_for(no_owner(fd, cpu, &status), HANG_MS) &&
	    status.ended == reason)
		return true;
	return PROBLEM("owner %d, ended %u instead of %d", status.owner,
		       status.ended, reason);
}

static bool by_kill(struct round *round)
{
	kill(round->pid, SIGKILL);
	return gone(round, SIGKILL) && unowned(ISOLATOR_ENDED_EXIT);
}

static bool by_sent_segv(struct round *round)
{
	kill(round->pid, SIGSEGV);
	return gone(round, SIGSEGV) && unowned(ISOLATOR_ENDED_EXIT);
}

static bool by_fault(struct round *round)
{
	order(SEGV);
	return gone(round, SIGSEGV) && unowned(ISOLATOR_ENDED_EXIT);
}

static bool by_exit(struct round *round)
{
	order(EXIT);
	return gone(round, 0) && unowned(ISOLATOR_ENDED_EXIT);
}

static bool by_exec(struct round *round)
{
	order(EXEC);
	return gone(round, 0) && unowned(ISOLATOR_ENDED_EXIT);
}

static bool ordered(int what, enum isolator_reason reason, struct round *round)
{
	order(what);
	return obeyed() && unowned(reason) &&
	       !kill(round->pid, SIGKILL) && gone(round, SIGKILL);
}

static bool by_close(struct round *round)
{
	return ordered(CLOSE, ISOLATOR_ENDED_CLOSE, round);
}

static bool by_close_of_a_copy(struct round *round)
{
	return ordered(DUP, ISOLATOR_ENDED_CLOSE, round);
}

static bool by_stop(struct round *round)
{
	return ordered(STOP, ISOLATOR_ENDED_STOP, round);
}

static bool by_fork(struct round *round)
{
	return ordered(FORK, ISOLATOR_ENDED_STOP, round);
}

static bool by_policy(struct round *round)
{
	return ordered(FAIR, ISOLATOR_ENDED_STOP, round);
}

static bool by_deadline(struct round *round)
{
	return ordered(DEADLINE, ISOLATOR_ENDED_POLICY, round);
}

static bool by_pass(struct round *round)
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
	int other;

	order(PASS);
	if (recvmsg(sockets[1], &message, 0) != 1)
		die("receive");
	memcpy(&other, CMSG_DATA(&control.head), sizeof(other));
	if (!obeyed())
		return false;
	if (!owned())
		return PROBLEM("no owner while its file is open here");
	close(other);
	return unowned(ISOLATOR_ENDED_CLOSE) &&
	       !kill(round->pid, SIGKILL) && gone(round, SIGKILL);
}

static bool by_ptrace(struct round *round)
{
	int status, times = 1 + chance(&seed_now) % 3;
	/* A traced thread that dies would need a wait of its own. */
	bool detach = round->thread || chance(&seed_now) % 2;

	if (ptrace(PTRACE_SEIZE, shared->owner, NULL, NULL))
		return PROBLEM("cannot seize: %s", strerror(errno));
	while (times--) {
		if (ptrace(PTRACE_INTERRUPT, shared->owner, NULL, NULL))
			return PROBLEM("cannot interrupt: %s", strerror(errno));
		if (!wait_for(waitpid(shared->owner, &status,
				      WNOHANG | __WALL) == shared->owner,
			      HANG_MS) || !WIFSTOPPED(status))
			return PROBLEM("it does not stop");
		if (!owned())
			return PROBLEM("no owner while it is stopped");
		if (ptrace(detach && !times ? PTRACE_DETACH : PTRACE_CONT,
			   shared->owner, NULL, NULL))
			return PROBLEM("cannot continue: %s", strerror(errno));
	}
	return by_kill(round);
}

static bool by_affinity(struct round *round)
{
	if (run_on(shared->owner, HOUSE_CPU))
		return PROBLEM("cannot move it: %s", strerror(errno));
	return unowned(ISOLATOR_ENDED_AFFINITY) &&
	       !kill(round->pid, SIGKILL) && gone(round, SIGKILL);
}

/* Moves the owner into a group that may not run on the CPU */
static bool by_cgroup(struct round *round)
{
	char pid[16];
	int error;

	snprintf(pid, sizeof(pid), "%d", round->pid);
	error = write_file(CGROUP "/cgroup.procs", pid);
	if (error)
		return PROBLEM("cannot move it: %s", strerror(error));
	return unowned(ISOLATOR_ENDED_AFFINITY) &&
	       !kill(round->pid, SIGKILL) && gone(round, SIGKILL);
}

static long no_hotplug;

static bool by_hotplug(struct round *round)
{
	uint64_t before = stat_of(page, ISOLATOR_STAT_REFUSED_HOTPLUG);
	char path[64];
	int error;

	snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
	error = write_file(path, "0");
	if (error != EBUSY)
		return PROBLEM("going offline: %s", strerror(error));
	if (stat_of(page, ISOLATOR_STAT_REFUSED_HOTPLUG) != before + 1)
		return PROBLEM("the refusal was counted %llu times",
			       (unsigned long long)
			       (stat_of(page, ISOLATOR_STAT_REFUSED_HOTPLUG) -
				before));
	if (!owned())
		return PROBLEM("no owner after an attempt to go offline");
	return by_kill(round);
}

static const struct kind {
	const char *name;
	bool (*end)(struct round *round);
	bool thread;		/* also with the owner as second thread */
} kinds[] = {
	{ "SIGKILL", by_kill, true },
	{ "SIGSEGV sent", by_sent_segv, true },
	{ "fault", by_fault, true },
	{ "exit", by_exit, true },
	{ "exec", by_exec, true },
	{ "fork, then STOP", by_fork, true },
	{ "STOP", by_stop, true },
	{ "close", by_close, true },
	{ "dup, close of both", by_close_of_a_copy, true },
	{ "pass of the fd", by_pass, true },
	{ "ptrace, then kill", by_ptrace, true },
	{ "sched_setaffinity", by_affinity, true },
	{ "fair policy", by_policy, true },
	{ "deadline policy", by_deadline, false },
	{ "cgroup move", by_cgroup, false },
	{ "hotplug, then kill", by_hotplug, true },
};

#define KINDS	((int)(sizeof(kinds) / sizeof(*kinds)))

static struct {
	long rounds, failures;
	const char *skipped;
} did[KINDS];

/* ---- checks after each end ---- */

/* An ordinary task, pinned to the CPU, that answers after a sleep there */
static void runner(void)
{
	long asked;

	pin(cpu);
	for (;;) {
		char byte;

		if (read(sockets[0], &byte, 1) != 1)
			_exit(1);
		sleep_us(50);
		asked = __atomic_load_n(&shared->asked, __ATOMIC_ACQUIRE);
		__atomic_store_n(&shared->answered, asked, __ATOMIC_RELEASE);
	}
}

static bool runner_answers(int to)
{
	long asked = __atomic_add_fetch(&shared->asked, 1, __ATOMIC_RELEASE);
	char byte = 0;

	if (write(to, &byte, 1) != 1)
		die("write");
	return wait_for(__atomic_load_n(&shared->answered, __ATOMIC_ACQUIRE) ==
			asked, HANG_MS) ||
	       PROBLEM("a task pinned to the CPU does not run");
}

static bool tick_comes(void)
{
	long before[2] = { shared->turns[0], shared->turns[1] };
	pid_t pid[2];
	bool good;
	int i;

	for (i = 0; i < 2; i++) {
		pid[i] = child();
		if (!pid[i]) {
			pin(cpu);
			for (;;)
				__atomic_add_fetch(&shared->turns[i], 1,
						   __ATOMIC_RELAXED);
		}
	}
	/* Each task has to be preempted by the other more than once. */
	for (good = true, i = 0; good && i < 6; i++) {
		long now = __atomic_load_n(&shared->turns[i % 2],
					   __ATOMIC_RELAXED);

		good = wait_for(__atomic_load_n(&shared->turns[i % 2],
						__ATOMIC_RELAXED) > now + 1000,
				HANG_MS);
	}
	for (i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		good = reap(pid[i]) >= 0 && good &&
		       shared->turns[i] > before[i];
	}
	return good || PROBLEM("two tasks do not share the CPU: no tick");
}

static bool as_before(uint64_t starts, const uint64_t *stats, int to)
{
	struct isolator_status status;
	int i;

	if (!runner_answers(to))
		return false;
	status = status_of(fd, cpu);
	if (status.owner || status.mask || page->mask)
		return PROBLEM("owner %d, mask %#x, page %#x", status.owner,
			       status.mask, page->mask);
	/* The runner has entered the kernel there since. */
	/* USER: another thread runs there in user mode. */
	if (page->pending & ~ISOLATOR_PENDING_USER)
		return PROBLEM("left in the word: %#x", page->pending);
	if (stat_of(page, ISOLATOR_STAT_STARTS) != starts + 1)
		return PROBLEM("%llu starts counted of 1", (unsigned long long)
			       (stat_of(page, ISOLATOR_STAT_STARTS) - starts));
	for (i = 0; i < ISOLATOR_STAT_MAX; i++)
		if (stat_of(page, i) < stats[i])
			return PROBLEM("statistic %d went back", i);
	if (stat_of(page, ISOLATOR_STAT_ENTRIES_WORK) >
	    stat_of(page, ISOLATOR_STAT_ENTRIES))
		return PROBLEM("more entries with work than entries");
	return true;
}

static bool one_round(const struct kind *kind, int to)
{
	uint64_t starts = stat_of(page, ISOLATOR_STAT_STARTS);
	uint64_t stats[ISOLATOR_STAT_MAX];
	struct round round = { };
	bool good;
	int i;

	for (i = 0; i < ISOLATOR_STAT_MAX; i++)
		stats[i] = stat_of(page, i);
	shared->state = shared->order = shared->owner = 0;
	round.thread = kind->thread && chance(&seed_now) % 4 == 0;
	/* The clock's gate, reschedule and calls in every combination */
	round.mask = 1 + chance(&seed_now) % ISOLATOR_MASK_DEFAULT;
	if (chance(&seed_now) % 4 == 0 && has_part("ktlb"))
		round.mask |= ISOLATOR_MASK_KTLB;
	round.pid = child();
	if (!round.pid) {
		close(fd);
		if (round.thread) {
			pthread_t thread;

			pin(HOUSE_CPU);
			pthread_create(&thread, NULL, own_in_a_thread,
				       (void *)(uintptr_t)round.mask);
			pause();
		}
		own(round.mask);
	}
	good = wait_for(__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE),
			HANG_MS) &&
	       __atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) == 1;
	if (good) {
		sleep_us(chance(&seed_now) % 3000);
		good = kind->end(&round);
	} else {
		say("no start: state %d", shared->state);
	}
	if (round.pid) {
		kill(round.pid, SIGKILL);
		good = gone(&round, SIGKILL) && good;
	}
	return as_before(starts, stats, to) && good;
}

/* Finds the kinds of ends that this machine does not support */
static void look_around(void)
{
	char one[16];
	int i;

	mkdir(CGROUP, 0755);
	snprintf(one, sizeof(one), "%d", HOUSE_CPU);
	for (i = 0; i < KINDS; i++) {
		if (kinds[i].end == by_cgroup &&
		    (write_file("/sys/fs/cgroup/cgroup.subtree_control",
				"+cpuset") ||
		     write_file(CGROUP "/cpuset.cpus", one)))
			did[i].skipped = "no cpuset of cgroup2";
		if (kinds[i].end == by_hotplug) {
			char path[64];

			snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
			if (no_hotplug || access(path, W_OK))
				did[i].skipped = "no CPU hotplug";
			else if (!has_part("refuse"))
				did[i].skipped = "no CONFIG_ISOLATOR_REFUSE";
		}
		if (kinds[i].end == by_deadline) {
			pid_t pid = child();

			if (!pid) {
				pin(cpu);
				_exit(become_deadline() ? 1 : 0);
			}
			if (reap(pid))
				did[i].skipped = "no deadline policy there";
		}
	}
}

int main(int argc, char **argv)
{
	long rounds = 400, seed = 1, cycles = 0, number, failed = 0;
	int to[2], i;
	pid_t pid;

	/*
	 * After exec, still on the CPU, without any file: it must have no owner
	 */
	if (argc == 2 && !strcmp(argv[1], "--after-exec")) {
		fd = open_isolator();
		return status_of(fd, ISOLATOR_THIS_CPU).owner ? 1 : 0;
	}
	arguments(argc, argv, (const struct argument[]){
		{ "--rounds", &rounds, false }, { "--seed", &seed, false },
		{ "--slow", &slow, false }, { "--sample", &cycles, false },
		{ "--no-hotplug", &no_hotplug, true }, { } });
	cpu = isolated_cpu();
	fd = open_isolator();
	page = page_of(fd, cpu);
	shared = share(PAGE);
	seed_now = seed * 0x9e3779b97f4a7c15ULL | 1;
	look_around();
	if (cycles)
		sample(cpu, cycles);
	start_alone(cpu);

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, to))
		die("make a pair of sockets");
	pid = child();
	if (!pid) {
		sockets[0] = to[0];
		runner();
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		die("make a pair of sockets");
	pin(HOUSE_CPU);

	for (number = 0; number < rounds; number++) {
		int kind = chance(&seed_now) % KINDS;
		bool good;

		if (did[kind].skipped)
			continue;
		did[kind].rounds++;
		good = one_round(&kinds[kind], to[1]);
		if (number % 64 == 63)
			good = tick_comes() && good;
		if (!good) {
			say("round %ld failed: %s", number, kinds[kind].name);
			did[kind].failures++;
			/* A hundred hangs would take too long. */
			if (++failed == 20)
				break;
		}
	}
	kill(pid, SIGKILL);
	reap(pid);
	rmdir(CGROUP);

	say("%-22s %8s %8s", "kind", "rounds", "failures");
	for (i = 0; i < KINDS; i++)
		say("%-22s %8ld %8ld", kinds[i].name, did[i].rounds,
		    did[i].failures);
	for (i = 0; i < KINDS; i++)
		ok_or_skipped(did[i].skipped || !did[i].rounds ? SKIPPED :
			      did[i].failures ? FAILED : PASSED, kinds[i].name,
			      did[i].skipped ? did[i].skipped : "not drawn");
	if (cycles)
		ok(samples_of(cpu) > 0, "%ld samples meanwhile", samples_of(cpu));
	return finish();
}
