/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The owner of teardown's rounds: it starts, spins and enters the kernel by
 * turns until it gets an order, and obeys that.
 */
#ifndef SELFTEST_TEARDOWN_H
#define SELFTEST_TEARDOWN_H

#include "selftest.h"

#include <sys/socket.h>
#include <sys/syscall.h>

/* Orders to the owner */
enum order { SPIN, CLOSE, DUP, STOP, EXIT, EXEC, FORK, SEGV, PASS, DEADLINE,
	     FAIR };

struct shared {
	int	state;		/* of the owner: 1: started; 2: obeyed; -errno */
	int	order;
	int	owner;		/* thread */
	long	asked, answered;	/* of the runner */
	long	turns[2];	/* of the competing tasks */
	int	competing;
};

static struct shared *shared;
static int cpu, fd;
static const struct isolator_page *page;
static uint64_t seed_now;
static int sockets[2];

static void tell(int state)
{
	__atomic_store_n(&shared->state, state, __ATOMIC_RELEASE);
}

/* Only the isolated CPU may have a task that spins with FIFO priority. */
static void behave(void)
{
	struct sched_param none = { };

	if (sched_getcpu() != cpu)
		sched_setscheduler(0, SCHED_OTHER, &none);
	relax();
}

static void pass(int own)
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

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(own));
	memcpy(CMSG_DATA(&control.head), &own, sizeof(own));
	if (sendmsg(sockets[0], &message, 0) != 1)
		die("send");
	close(own);
}

static void obey(int own, int order)
{
	struct sched_param none = { };
	int other, status;
	pid_t pid;

	switch (order) {
	case CLOSE:
		close(own);
		break;
	case DUP:
		other = dup(own);
		close(own);
		if (!status_of(other, cpu).owner)
			_exit(2);
		close(other);
		break;
	case STOP:
		if (stop(own))
			_exit(3);
		break;
	case EXIT:
		_exit(0);
	case EXEC:
		execl("/proc/self/exe", "teardown", "--after-exec", NULL);
		_exit(4);
	case FORK:
		pid = fork();
		if (!pid)
			_exit(start(own, ISOLATOR_MASK_DEFAULT) == -1 &&
			      errno == EACCES && tick(own, 0) == -1 &&
			      errno == ESRCH ? 0 : 5);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status ||
		    status_of(own, cpu).owner != (int)syscall(SYS_gettid))
			_exit(6);
		if (stop(own))
			_exit(7);
		break;
	case SEGV:
		*(volatile int *)0 = 0;
		break;
	case PASS:
		pass(own);
		break;
	case DEADLINE:
		tell(become_deadline() ? -errno : 2);
		break;
	case FAIR:
		if (sched_setscheduler(0, SCHED_OTHER, &none) || tick(own, 1))
			_exit(8);
		if (stop(own))
			_exit(9);
		break;
	}
}

static void own(unsigned int mask)
{
	uint64_t mine = seed_now;
	int own = open_isolator(), order;
	volatile int spin;

	pin(cpu);
	if (chance(&mine) % 4)
		become_fifo(80);
	if (start_patiently(own, mask)) {
		tell(-errno);
		_exit(1);
	}
	shared->owner = syscall(SYS_gettid);
	tell(1);
	while (!(order = __atomic_load_n(&shared->order, __ATOMIC_ACQUIRE))) {
		for (spin = chance(&mine) % 4096; spin; spin--)
			relax();
		behave();
		switch (chance(&mine) % 8) {
		case 0:
			tick(own, chance(&mine) % 4 ? 0 : ISOLATOR_TICK_ALL);
			break;
		case 1:
			getppid();
			break;
		}
	}
	obey(own, order);
	if (__atomic_load_n(&shared->state, __ATOMIC_ACQUIRE) == 1)
		tell(2);
	for (;;)
		behave();
}

static void *own_in_a_thread(void *mask)
{
	own((uintptr_t)mask);
	return NULL;
}

#endif
