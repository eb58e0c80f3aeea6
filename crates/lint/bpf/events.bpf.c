// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Events of the watched threads of one program: system calls, sleeps, page faults, signals, and calls of functions of the C library.
 *
 * Events are counted by thread, kind, code address and stack pointer: a place that the program reaches by one path has one count. The
 * first event of each is written with the user's registers and a copy of the stack, in which user space finds the callers. So a program
 * that allocates a million times writes one record.
 *
 * The user asks for lint explicitly: its tracepoint of system calls slows down those of all programs a little while it runs. Every
 * foreign pointer goes through a helper that answers a wrong one with zeroes.
 *
 * src/bpf/record.rs reads the records.
 */

#include "bpf.h"

/* Only the fields that are read; the loader finds their offsets in this kernel. */
struct task_struct {
	int pid;
} CORE;

struct sigaction {
	void *sa_handler;
} CORE;

struct k_sigaction {
	struct sigaction sa;
} CORE;

#if !defined(__TARGET_ARCH_arm64)
union fpregs_state {
	u32 any;
};

struct fpstate {
	union fpregs_state regs;
} CORE;

struct fpu {
	struct fpstate *fpstate;
} CORE;

struct thread_struct___inner {
	struct fpu fpu;
} CORE;

struct task_struct___inner {
	struct thread_struct___inner thread;
} CORE;
#endif

enum {
	THREADS = 8192,
	PLACES = 16384,
	RING_BYTES = 32 << 20,
	STACK_BYTES = 16384,
	STACK_STEP = 1024,
	LOW = 4096,
	FLAGS = 64,
};

enum kind {
	CALLED = 1, /* a system call */
	SLEPT,	    /* the thread left its CPU to wait */
	FAULTED,    /* a page fault */
	SIGNALLED,  /* a signal's handler is about to run */
	FUNCTION,   /* a function of a library, by its number */
	LOCKED,	    /* a lock is taken, by a function or by a futex */
	EXECUTED,   /* the process runs another program from here */
};

/* The key of one place of the program. */
struct place {
	u32 thread;
	u16 kind;
	u16 number; /* of the system call, the signal, the function */
	u64 address;
	u64 sp;
	u64 first; /* the first two arguments where these are small (a descriptor, a clock; a command), or a lock's address */
};

/* How often, and when last. */
struct times {
	u64 count;
	u64 last_ns;
};

struct record {
	struct place place;
	u64 at_ns;
	u64 argument[6];
	u32 word[5]; /* of a lock */
	u32 stack_bytes;
	u64 ip, sp, bp, lr;
	u8 stack[STACK_BYTES];
};

/* A watched thread. */
struct thread {
	u32 process;
	u32 reads_user; /* this program itself reads user memory, and may fault */
	u32 float_state; /* MXCSR, as it was when the thread last left a CPU; 0: unknown */
	u32 unused;
};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* The process whose other threads are recorded when they take a watched thread's lock. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u32);
} processes SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, PLACES);
	__type(key, struct place);
	__type(value, struct times);
} places SEC(".maps");

/* Locks that watched threads take. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, PLACES);
	__type(key, u64);
	__type(value, u32);
} locks SEC(".maps");

struct {
	__uint(type, MAP_RINGBUF);
	__uint(max_entries, RING_BYTES);
} records SEC(".maps");

/* The number of events for which there was no room. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

/* The system call futex(), by its number here. */
const volatile u32 futex_call = 202;
/* Functions from this number on take a lock. */
const volatile u32 first_lock = 100;

#define ON(tracepoint) SEC("raw_tp/" #tracepoint) int tracepoint(struct arguments *given)

INLINE struct thread *watched(void)
{
	u32 id = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&threads, &id);
}

INLINE int is_of_process(void)
{
	u32 process = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&processes, &process) != 0;
}

INLINE void count_lost(void)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&lost, &key);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* The user's code address. */
INLINE void locate(struct place *place)
{
	const struct pt_regs *regs = registers_of(current_task());

#if defined(__TARGET_ARCH_arm64)
	READ(place->address, regs, struct pt_regs, pc);
#else
	READ(place->address, regs, struct pt_regs, ip);
#endif
	READ(place->sp, regs, struct pt_regs, sp);
}

/* The registers from which a call stack is unwound. */
INLINE void take_registers(struct record *record)
{
	const struct pt_regs *regs = registers_of(current_task());

#if defined(__TARGET_ARCH_arm64)
	READ(record->ip, regs, struct pt_regs, pc);
	READ(record->sp, regs, struct pt_regs, sp);
	READ(record->bp, regs, struct pt_regs, regs[29]);
	READ(record->lr, regs, struct pt_regs, regs[30]);
#else
	READ(record->ip, regs, struct pt_regs, ip);
	READ(record->sp, regs, struct pt_regs, sp);
	READ(record->bp, regs, struct pt_regs, bp);
	record->lr = 0;
#endif
}

INLINE void take_arguments(struct record *record)
{
	const struct pt_regs *regs = registers_of(current_task());

#if defined(__TARGET_ARCH_arm64)
	READ(record->argument[0], regs, struct pt_regs, regs[0]);
	READ(record->argument[1], regs, struct pt_regs, regs[1]);
	READ(record->argument[2], regs, struct pt_regs, regs[2]);
	READ(record->argument[3], regs, struct pt_regs, regs[3]);
	READ(record->argument[4], regs, struct pt_regs, regs[4]);
	READ(record->argument[5], regs, struct pt_regs, regs[5]);
#else
	READ(record->argument[0], regs, struct pt_regs, di);
	READ(record->argument[1], regs, struct pt_regs, si);
	READ(record->argument[2], regs, struct pt_regs, dx);
	READ(record->argument[3], regs, struct pt_regs, r10);
	READ(record->argument[4], regs, struct pt_regs, r8);
	READ(record->argument[5], regs, struct pt_regs, r9);
#endif
}

/* The stack from the pointer on, as far as it can be read. */
INLINE void take_stack(struct record *record, u64 sp)
{
	u32 at;

	record->stack_bytes = 0;
#pragma clang loop unroll(full)
	for (at = 0; at < STACK_BYTES; at += STACK_STEP) {
		if (bpf_probe_read_user(record->stack + at, STACK_STEP, (const void *)(sp + at)))
			break;
		record->stack_bytes = at + STACK_STEP;
	}
}

/* Counts the event, and writes it if it is the first one of its place; `word_at`: the address of a lock's words. */
static __attribute__((noinline)) int tell(struct place *place, u64 word_at, u64 argument)
{
	struct record *record;
	struct thread *thread;
	struct times *times, first;
	u64 at_ns = bpf_ktime_get_ns();
	u32 id;

	if (!place)
		return 0;
	times = bpf_map_lookup_elem(&places, place);
	if (times) {
		__sync_fetch_and_add(&times->count, 1);
		times->last_ns = at_ns;
		return 0;
	}
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		count_lost();
		return 0;
	}
	first.count = 1;
	first.last_ns = at_ns;
	if (bpf_map_update_elem(&places, place, &first, 0))
		count_lost();
	id = place->thread;
	thread = bpf_map_lookup_elem(&threads, &id);
	if (thread)
		thread->reads_user = 1;
	record->place = *place;
	record->at_ns = at_ns;
	take_registers(record);
	take_arguments(record);
	if (argument)
		record->argument[0] = argument;
	__builtin_memset(record->word, 0, sizeof(record->word));
	if (word_at)
		bpf_probe_read_user(record->word, sizeof(record->word), (const void *)word_at);
	take_stack(record, place->sp);
	if (thread)
		thread->reads_user = 0;
	bpf_ringbuf_submit(record, NO_WAKEUP);
	return 0;
}

INLINE void begin(struct place *place, u16 kind, u16 number)
{
	place->thread = bpf_get_current_pid_tgid();
	place->kind = kind;
	place->number = number;
	place->first = 0;
	locate(place);
}

/* A lock is taken: by a watched thread, or by another one where a watched one takes it too. */
INLINE void lock(u64 address, u16 number, int is_watched)
{
	struct place place;
	u32 one = 1;

	if (!address)
		return;
	if (is_watched)
		bpf_map_update_elem(&locks, &address, &one, 0);
	else if (!is_of_process() || !bpf_map_lookup_elem(&locks, &address))
		return;
	begin(&place, LOCKED, number);
	place.first = address;
	tell(&place, address, address);
}

enum { FUTEX_COMMAND = 0x7f, FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_WAIT_BITSET = 9, CONTENDED = 2 };

INLINE u64 first_of(const struct pt_regs *regs)
{
	u64 first = 0;

#if defined(__TARGET_ARCH_arm64)
	READ(first, regs, struct pt_regs, regs[0]);
#else
	READ(first, regs, struct pt_regs, di);
#endif
	return first;
}

INLINE u64 second_of(const struct pt_regs *regs)
{
	u64 second = 0;

#if defined(__TARGET_ARCH_arm64)
	READ(second, regs, struct pt_regs, regs[1]);
#else
	READ(second, regs, struct pt_regs, si);
#endif
	return second;
}

/* Two calls of one wrapper in one function are two places where they have other descriptors, commands or flags. */
INLINE u64 small(u64 first, u64 second)
{
	return (first < LOW ? first : 0) | (second < FLAGS ? second << 32 : 0);
}

/* (registers, number) */
ON(sys_enter)
{
	const struct pt_regs *regs = (const struct pt_regs *)given->of[0];
	struct thread *thread = watched();
	u64 number = given->of[1], first, second, command, value = 0;
	struct place place;

	if (!thread && !(number == futex_call && is_of_process()))
		return 0;
	first = first_of(regs);
	second = second_of(regs);
	if (number == futex_call) {
#if defined(__TARGET_ARCH_arm64)
		READ(value, regs, struct pt_regs, regs[2]);
#else
		READ(value, regs, struct pt_regs, dx);
#endif
		command = second & FUTEX_COMMAND;
		if (thread && value == CONTENDED && (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET))
			lock(first, 0, 1);
		else if (!thread)
			lock(first, 0, 0);
	}
	if (!thread)
		return 0;
	begin(&place, CALLED, number);
	place.first = number == futex_call ? first : small(first, second);
	tell(&place, 0, 0);
	return 0;
}

#if !defined(__TARGET_ARCH_arm64)
/*
 * MXCSR of a thread that is not running: the kernel saved it when the thread left its CPU. Since 6.16 it is behind the task, before
 * that within it (arch/x86/include/asm/fpu/). Without bit 1 of the header, the register has its initial value.
 */
INLINE void read_float_state(u64 task, struct thread *thread)
{
	u64 fpu, state = 0, features = 0, regs;
	u32 mxcsr = 0;

	if (HAS(struct task_struct___inner, thread.fpu))
		fpu = (u64)&((const struct task_struct___inner *)task)->thread.fpu;
	else
		fpu = task + __builtin_preserve_type_info(*(struct task_struct *)0, 1);
	READ(state, fpu, struct fpu, fpstate);
	if (!state)
		return;
	regs = (u64)&((const struct fpstate *)state)->regs;
	bpf_probe_read_kernel(&features, sizeof(features), (const void *)(regs + 512));
	bpf_probe_read_kernel(&mxcsr, sizeof(mxcsr), (const void *)(regs + 24));
	thread->float_state = features & 2 ? mxcsr : 0x1f80;
}
#endif

/* (preempt, prev, next) */
ON(sched_switch)
{
	const struct pt_regs *regs;
	struct thread *thread;
	struct place place;
	u32 id = 0;
	long call = -1;
	u64 first;

#if !defined(__TARGET_ARCH_arm64)
	READ(id, given->of[2], struct task_struct, pid);
	thread = bpf_map_lookup_elem(&threads, &id);
	if (thread)
		read_float_state(given->of[2], thread);
#endif
	thread = watched();
	if (!thread || given->of[0] & 1)
		return 0;
	if (!state_of(current_task()))
		return 0;
	regs = registers_of(current_task());
#if defined(__TARGET_ARCH_arm64)
	READ(id, regs, struct pt_regs, syscallno);
	call = (int)id;
#else
	READ(call, regs, struct pt_regs, orig_ax);
#endif
	begin(&place, SLEPT, call);
	first = first_of(regs);
	place.first = call == futex_call ? first : small(first, second_of(regs));
	tell(&place, call == futex_call ? first : 0, 0);
	return 0;
}

INLINE int fault(struct arguments *given)
{
	struct thread *thread = watched();
	struct place place;

	if (!thread || thread->reads_user)
		return 0;
	begin(&place, FAULTED, given->of[2]);
	tell(&place, 0, given->of[0]);
	return 0;
}

/* (address, registers, error code) */
ON(page_fault_user) { return fault(given); }
ON(page_fault_kernel) { return fault(given); }

/* (signal, information, action) */
ON(signal_deliver)
{
	struct place place;
	u64 handler = 0;

	if (!watched())
		return 0;
	READ(handler, given->of[2], struct k_sigaction, sa.sa_handler);
	/* SIG_DFL and SIG_IGN run nothing. */
	if (handler <= 1)
		return 0;
	begin(&place, SIGNALLED, given->of[0]);
	/* At any address that it interrupts. */
	place.address = handler;
	place.sp = 0;
	tell(&place, 0, handler);
	return 0;
}

/* (task, old pid, binary) */
ON(sched_process_exec)
{
	struct place place;

	if (!is_of_process())
		return 0;
	begin(&place, EXECUTED, 0);
	tell(&place, 0, 0);
	return 0;
}

/* A function of a library, whose number is the cookie. */
SEC("uprobe")
int function(void *ctx)
{
	u64 number = bpf_get_attach_cookie(ctx);
	struct thread *thread = watched();
	struct place place;
	u64 first;

	if (!thread && number < first_lock)
		return 0;
	first = first_of(registers_of(current_task()));
	if (number >= first_lock) {
		lock(first, number, thread != 0);
		return 0;
	}
	begin(&place, FUNCTION, number);
	tell(&place, 0, 0);
	return 0;
}

/* MIT or GPL: the kernel lends its helpers to programs under a licence like its own. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
