/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Types of threads.bpf.c: the fields of the kernel that it reads, the records that it writes, and the state of a watched thread and of a
 * CPU. src/bpf/record.rs has the same records, by their offsets.
 */

/* Only the fields that are read; the loader finds their offsets in this kernel. */
struct hrtimer_clock_base {
	u64 offset;
} CORE;

struct hrtimer {
	u64 _softexpires;
	void *function;
	struct hrtimer_clock_base *base;
} CORE;

struct sched_dl_entity {
	struct hrtimer dl_timer;
} CORE;

struct sched_info {
	u64 last_arrival;
} CORE;

struct wake_q_node {
	void *next;
} CORE;

struct wake_q_head {
	void *first;
} CORE;

struct irqaction {
	const char *name;
} CORE;

struct sigaction {
	void *sa_handler;
} CORE;

struct k_sigaction {
	struct sigaction sa;
} CORE;

struct thread_info {
	u64 flags;
	u32 status;
} CORE;

struct task_struct {
	struct thread_info thread_info;
	int pid;
	int tgid;
	int prio;
	u32 policy;
	u32 flags;
	int on_rq; /* one byte since 7.2 */
	int wake_cpu;
	struct sched_dl_entity dl;
	struct sched_info sched_info;
	struct wake_q_node wake_q;
	char comm[16];
	unsigned int frozen : 1; /* by its control group */
} CORE;

/* The same for a number that has fewer bytes in some kernels. */
#define READ_SIZED(to, pointer, type, field)                                                         \
	bpf_probe_read_kernel(&(to), __builtin_preserve_field_info(((type *)0)->field, 1), &((const type *)(pointer))->field)

enum {
	CPUS = 1024,
	THREADS = 4096, /* < 1 << 16 */
	THREADS_IN_GROUP = 32,
	MOST_THREADS = 4 << 20, /* the kernel's own limit (PID_MAX_LIMIT) */
	RING_BYTES = 4 << 20,
	CALLERS = 30,		/* some ten functions of the interrupt, and twenty that it interrupted */
	SAMPLED = 12,
	TASK_RUNNING = 0,
	SCHED_DEADLINE = 6,
	ORDINARY = 100, /* the first priority of ordinary threads */
	STACK_BYTES = 4096,
	STACK_PART = 512,
	/* The most of one thread in a tenth of a second: a thread that waits more often has stacks of its first waits only. */
	STACKS = 128,
	STACKS_WINDOW_NS = 100000000,
	/* Waits of the same kind until they are a thread's usual one. */
	USUAL = 8,
	USUAL_MOST = 64,
};

enum { RING_USED = 0 };

/* Calls of 32-bit programs, which have numbers of their own on x86 and arm64: those that this program knows are the same on both. */
enum {
	TS_COMPAT = 2,
	TIF_32BIT = 1 << 22,
	COMPAT = 1 << 30,
	COMPAT_RESTART = 0,
	COMPAT_YIELD = 158,
	COMPAT_FUTEX = 240,
	COMPAT_FUTEX_TIME64 = 422,
};

/* Softirqs. */
enum { NET_TX = 2, NET_RX = 3, BLOCK = 4, TASKLET = 6 };

/* PF_FROZEN: of kernels before 6.1, which have no such state. */
enum { PF_KTHREAD = 0x200000, PF_FROZEN = 0x10000, TASK_FROZEN = 0x8000 };

/* The answer to a request to watch a thread. */
enum { NO_ROOM = 0, WATCHED_NOW, WATCHED_BEFORE };

/* A futex's operations, and the values of a lock's word that has waiters: see src/wait.rs. */
enum {
	FUTEX_WAIT = 0,
	FUTEX_LOCK_PI = 6,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_WAIT_REQUEUE_PI = 11,
	FUTEX_LOCK_PI2 = 13,
	FUTEX_COMMAND = 0x7f
};
enum { CONTENDED = 2, CONTENDED_PHASE = 3, WAITERS = 1u << 31, PARKED = ~0u };

enum kind {
	STAY = 1, /* a stay on a CPU has ended */
	STACK,	  /* the kernel stack at a wakeup */
	SWITCH,	  /* another thread got the CPU for which a watched one waits */
	FAULT,	  /* a page fault of a watched thread */
	STARTED,  /* a watched process has a new thread */
	FORKED,	  /* a watched thread made a process */
	EXECUTED, /* a watched thread runs another program from here */
	EXITED,
	USER_STACK, /* a thread's position in its program */
	FAULT_OVER, /* the kernel has handled a page fault */
	MOVED,	    /* a watched thread was moved to another CPU */
	BEGINS,	    /* a stay has reached BEGIN, which the user named; the next one goes on from there */
	ENDS,
	SPUN, /* a part of a stay in which the thread waited for a lock: see lock.h */
	SAMPLE,	   /* the call that a thread is in after a time on its CPU: see own.h */
	SIGNALLED, /* it begins to handle a signal */
};

/* The occasion of a copied stack. */
enum stack_of {
	AT_WAIT = 1, /* the thread began to wait */
	AT_RELEASE,  /* another thread released the lock that it waited for */
	AT_FAULT,    /* it took a page fault */
};

/* How a thread was woken. */
enum {
	BY_TIMER = 1,	/* within a timer's function */
	OVER_IDLE = 2,	/* on a CPU that was idle: by an interrupt */
	AWAKE = 4,	/* it had not gone to sleep yet */
	UNSEEN = 8,	/* no tracepoint showed when it got the CPU */
	ELSEWHERE = 16, /* on another CPU than the one that it then waits for */
	INHERITED = 32, /* by a watched thread whose stay a timer had begun, or that had inherited one: due_ns and timer are that one's */
	GOES_ON = 64,	/* it was not: it goes on from a begin or an end of a cycle */
	THROTTLED = 256, /* it left its CPU ready to run, and its control group has used up its quota */
	HELD_BACK = 512, /* its control group had used up its quota when it was woken */
	HOLE = 128,	/* no room for a record of a move, or of another thread that had the CPU while it waited for one */
};

/* The interrupt in which a thread was woken; none where a timer or a thread did. */
struct interrupt {
	u32 context; /* enum context of per_cpu.h */
	u32 number; /* of a softirq */
	char name[16]; /* of a hard one: its first handler's */
};

struct record {
	u16 kind;
	u16 cpu;
	u32 thread;
	u64 at_ns;
	u64 woken_ns; /* 0: it had only been preempted */
	u64 in_ns;
	u64 due_ns; /* by its timer, CLOCK_MONOTONIC; 0 without one */
	u64 timer; /* 0 for one on a stack */
	u32 waker;
	u32 how;
	char waker_name[16];
	u32 state; /* when it left: 0 if it was runnable */
	u32 next;
	int next_prio;
	u32 next_policy;
	char next_name[16];
	u64 call; /* the system call that it left in, -1 in none */
	u64 argument[4];
	u32 word[4]; /* of the futex that it waits for: the lock, and what glibc keeps beside it */
	u64 place; /* in its program: the stack pointer, and a caller's address where `caller_at` says so */
	int prio;
	u32 policy;
	u32 faults;
	u32 migrations;
	u32 after; /* the thread that had the CPU until this one got it, as it left; 0 is the idle one */
	int after_prio;
	u32 after_flags;
	u32 lost; /* stays of this thread that found no room since the last one that did */
	char after_name[16];
	struct interrupt by;
	/* Since it was woken, or left its CPU ready to run: for how long its control group's quota kept it from the CPU. */
	u64 withheld_ns;
	/* What the hypervisor took from the CPU: since the thread left it last, and in this stay. */
	u64 stolen_before_ns;
	u64 stolen_within_ns;
};

struct stack {
	u16 kind;
	u16 cpu;
	u32 thread;
	u64 at_ns; /* when its thread was woken */
	u64 caller[CALLERS];
};

struct switched {
	u16 kind;
	u16 cpu;
	u32 thread; /* that got the CPU */
	u64 at_ns;
	int prio;
	u32 policy;
	u32 flags;
	u32 from;
	char name[16];
	char from_name[16]; /* as it left */
	int from_prio;
	u32 from_flags;
};

struct user_stack {
	u16 kind;
	u16 cpu;
	u32 thread; /* the watched one */
	u64 at_ns;  /* when it left its CPU, was woken, or took the fault */
	u32 of;
	u32 whose; /* the thread whose stack this is */
	u64 ip;
	u64 sp;
	u64 bp;
	u64 lr;
	u64 bytes;
	u8 stack[STACK_BYTES];
};

struct sample {
	u16 kind;
	u16 cpu;
	u32 thread;
	u64 at_ns;
	u64 call;
	u64 caller[SAMPLED]; /* in the kernel, none in user mode */
};

struct note {
	u16 kind;
	u16 cpu;
	u32 thread;
	u64 at_ns;
	u64 first;
	u64 second;
	char name[16];
};

/* A wakeup on another CPU while the thread was still leaving its own: it belongs to the next stay. */
struct waking {
	u64 woken_ns; /* 0: there was none */
	u64 due_ns;
	u64 timer;
	u32 waker;
	u32 how;
	char waker_name[16];
	struct interrupt by;
};

/* A watched thread, with its current or next stay. */
struct thread {
	u32 waits_on; /* the CPU that it is runnable on without running there, plus one */
	u32 has_waking_stack;
	u32 yields; /* of a DEADLINE thread: until its next period */
	u32 stacks; /* that were copied since `stacks_since_ns` */
	u64 slept_ns;
	u64 left_ns; /* its CPU, asleep or not */
	u64 ahead_ns; /* CLOCK_MONOTONIC of the scheduler's own clock */
	struct waking early;
	struct record stay;
	u64 waking_stack[CALLERS];
	u64 usual_call; /* its most frequent wait, and the depth in its program */
	u64 usual_sp;
	u32 is_usual; /* how often it was that, less how often it was not */
	u32 has_lock; /* it waits for a lock */
	u64 stacks_since_ns;
	u32 first_stacks; /* waits from now on whose stacks are copied, usual or not */
	u64 fault_ns; /* when it took its last page fault */
	u64 last_call;
	u64 arrived_ns; /* when it was last seen to get a CPU */
	u64 spins_ns; /* since when it waits on its CPU for a lock; 0 where it does not, or that was told */
	u64 released_ns; /* when that wait was over */
	u64 requeue_to; /* the lock that its call's condition may move it to; 0 for another call */
	u64 requeued_ns; /* since when it sleeps for that lock */
	u32 lock_command; /* of the futex call that waits for it */
	u32 owner; /* of the lock, as far as it was seen */
	char owner_name[16];
	u64 queue; /* of its control group, where it is ready, and may be kept from the CPU by a quota */
	u64 queue_ns; /* for how long that had been so when it became ready */
	u64 stolen_ns; /* the hypervisor's clock of the CPU that it was on last, and one; 0 if it was not read */
	u32 stolen_on; /* that CPU */
	u32 unused;
	u64 caller_at; /* where the caller is that tells its waits apart, from 8 bytes below the stack pointer; 0 if none does */
};

/* A timer whose function runs. */
struct expired {
	u64 timer;
	u64 due_ns;
	u32 current; /* the thread that it interrupts, or that serves it */
	u32 is_on_stack; /* whether the timer is */
};

/* The state of a CPU. */
struct here {
	struct expired expired;
	struct expired outer; /* served by a softirq, and interrupted by the other one */
	u64 context; /* the address of this program's arguments, as a number */
	u64 lost_ns; /* when a SWITCH last found no room */
	u32 waiters; /* watched threads that wait for this CPU */
	u32 reads_user; /* this program itself reads user memory, and may fault */
	u32 called_for; /* the watched thread that another CPU has woken for this one, until the interrupt comes by which it asks */
	u32 unused;
	u64 action; /* the handlers of the interrupt that it serves */
	u16 softirq; /* that it serves, plus one */
	u16 raised; /* softirqs that a thread asked for last, and not an interrupt */
	u32 raiser; /* the last such thread */
	u64 raising; /* the handlers of the interrupt that asked for the softirq last, */
	u16 raised_last; /* this one */
};
