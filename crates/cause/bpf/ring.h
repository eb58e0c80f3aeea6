/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The ring of each measured CPU, of collector.bpf.c: its events with their words, and how one is added. src/bpf/ring.rs reads it.
 */

/* Only the fields that are read; the loader finds their offsets in this kernel. */
struct task_struct {
	int pid;
	int prio;
	int wake_cpu;
	void *stack;
	u32 flags;
	unsigned long jobctl;
	char comm[16];
} CORE;

struct work_struct {
	void *func;
} CORE;

struct hrtimer {
	void *function;
} CORE;

enum {
	CPUS = 1024,
	SLOTS = 64,
	OWN = 4,
	TIMERS = 2,
	PART = 5,	       /* callers in an event */
	ORDINARY = 100,	       /* the first priority of ordinary threads */
	KEPT_PARTS = 6,	       /* some ten functions of the interrupt, and twenty that it interrupted */
	CHUNK_EVENTS = 256,
	CHUNKS = 128,
};

struct event {
	u64 monotonic_ns;
	u64 number; /* from 1 */
	u8 kind;
	u8 context; /* of WAKING and SENT: enum context */
	u16 cpu;
	u32 pid;
	u64 word[5];
};

struct chunk {
	struct event events[CHUNK_EVENTS];
};

/* How far a ring is written; in a cache line of its own. */
struct slot {
	u64 written;
	u64 unused[7];
};

/*
 * The measuring threads of a CPU; and what a quiet cycle meets again and again, so that it need not be read again: where
 * these threads, their stacks and the idle thread lie, and the functions of the timers that fired last. A sleeping thread's
 * timer lies on its stack, elsewhere at each call, and always has the same function.
 */
struct own {
	u32 threads[OWN];
	u64 tasks[OWN];
	u64 stacks[OWN];
	u64 sleeps;
	u64 idle;
	u64 timers[TIMERS];
	u64 functions[TIMERS];
	u32 oldest; /* of the timers */
	u32 woke;   /* how a measuring thread was woken since the last switch: enum woke */
	u64 idles;  /* whether the idle thread is known to have the CPU */
	u64 slept_ns; /* what is told with the next switch: when a measuring thread left the CPU to the idle one, */
	u64 slept;    /* which one, */
	u64 fired_ns; /* and when a timer fired while it was idle, */
	u64 fired;    /* with which function */
	u64 context;  /* where this program's arguments lie, as a number */
	u64 ordinary; /* whether one of the measuring threads has no real-time priority: a quota may stop it */
	u64 rq;	      /* where the CPU's run queue lies, once a switch has been told */
};

enum woke {
	OVER_IDLE = 1, /* by an interrupt that the idle CPU took */
	ELSEWHERE,     /* on another CPU, which asks this one for it */
};

/* Where these lie is known when a program is loaded: to find them costs a cycle no lookup. */
struct slot slots[SLOTS] SEC(".bss");
struct own owns[SLOTS] SEC(".data.owns"); /* what user space writes: by itself */

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, CHUNKS); /* times the CPUs that are measured */
	__type(key, u32);
	__type(value, struct chunk);
} ring SEC(".maps");

/* For each CPU the number of its slot, 255 where it is not measured; and the other way. */
const volatile u8 slot_of[CPUS] = {};
const volatile u16 cpu_of[SLOTS] = {};
const volatile u32 slots_used = 0;

enum kind {
	IRQ_ENTER = 1,	/* number */
	IRQ_EXIT,	/* number */
	VECTOR_ENTER,	/* which of enum vector */
	VECTOR_EXIT,	/* which, the hypervisor's time and one */
	SOFTIRQ_ENTER,	/* number */
	SOFTIRQ_EXIT,	/* number */
	CALL_ENTER,	/* function, csd */
	CALL_EXIT,	/* function, csd */
	NMI,		/* handler, length in ns */
	SWITCH,		/* pid | prio << 32, flags, the hypervisor's time and one, comm: of the thread that comes */
	WAKING,		/* pid | prio << 32, flags, -, comm: of the waker */
	WORK_ENTER,	/* function */
	WORK_EXIT,	/* function */
	TIMER,		/* function */
	FAULT,		/* address, error code */
	SYSCALL_ENTER,	/* number */
	SYSCALL_EXIT,	/* number */
	IDLE,		/* state */
	FREQUENCY,	/* kHz */
	TICK_KEPT,	/* dependency */
	MIGRATE,	/* pid, CPU */
	SENT_CALL,	/* csd, function, call site, comm */
	SENT,		/* callback, -, call site, comm */
	STACK,		/* five callers; twice after what was sent, up to six times after KEPT */
	IPI_ENTER,	/* -, -, -, reason: arm64's */
	IPI_EXIT,	/* -, -, -, reason */
	KEPT,		/* measuring thread, prio | its prio << 32, whether in user mode: another one had the CPU; stacks follow */
	RENAMED,	/* pid, -, -, comm: from here on */
	WOKEN,		/* pid, function of a timer, when it fired, when the thread before left the idle CPU: a quiet cycle */
	LEFT,		/* pid | prio << 32, state, whether its quota is used up: a measuring thread leaves its CPU, and does not sleep */
	THROTTLED,	/* pid | prio << 32: a measuring thread is woken, and its quota is used up */
};

enum vector {
	LOCAL_TIMER,
	RESCHEDULE,
	CALL_FUNCTION,
	CALL_FUNCTION_SINGLE,
	IRQ_WORK,
	PLATFORM_IPI,
	THERMAL,
	THRESHOLD,
	DEFERRED_ERROR,
	ERROR,
	SPURIOUS,
};

/* The slot of a CPU; SLOTS or more where it is not measured. */
INLINE u32 slot(u32 cpu)
{
	return slot_of[cpu & (CPUS - 1)];
}

/* A new event in a slot's ring; interrupts nest, so its place is claimed in one step. */
INLINE struct event *add_at(u32 at, u8 kind, u64 monotonic_ns)
{
	struct chunk *chunk;
	struct event *event;
	u64 number, place = at;
	u32 key;

	if (at >= SLOTS)
		return 0;
	KEEP_APART(place);
	number = __sync_fetch_and_add(&slots[place].written, 1);
	key = at * CHUNKS + ((number / CHUNK_EVENTS) & (CHUNKS - 1));
	chunk = bpf_map_lookup_elem(&ring, &key);
	if (!chunk)
		return 0;
	event = &chunk->events[number & (CHUNK_EVENTS - 1)];
	event->monotonic_ns = monotonic_ns;
	event->number = number + 1;
	event->kind = kind;
	event->context = UNKNOWN_CONTEXT;
	return event;
}

/* An event of this CPU, where it is measured. */
INLINE struct event *add(u8 kind)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 at = slot(cpu);
	struct event *event;

	if (at >= SLOTS)
		return 0;
	event = add_at(at, kind, bpf_ktime_get_ns());
	if (event)
		event->cpu = cpu;
	return event;
}

INLINE int note(u8 kind, u64 first, u64 second)
{
	struct event *event = add(kind);

	if (event) {
		event->word[0] = first;
		event->word[1] = second;
	}
	return 0;
}
