/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a CPU keeps for itself, for the BPF parts of all crates: the context that a program runs in, and the time that the hypervisor
 * has taken from the CPU.
 *
 * A BPF program reaches its CPU's own variables only by names that many kernels do not list. They lie at the same distance from each
 * other on every CPU. One of them, the run queue, is found from the current thread; the kernel's types (BTF) say how far from it the
 * others lie, and the loader sets these distances (src/bpf/per_cpu.rs of the crate cause). Where they are 0, nothing is known.
 */

const volatile long preempt_count_from_rq = 0;
const volatile long steal_from_rq = 0;

/* Only the fields that are read. The names after ___ are ours: a part declares the same structures with other fields. */
struct cfs_rq___own {
	void *rq;
} CORE;

struct sched_entity___own {
	struct cfs_rq___own *cfs_rq;
} CORE;

struct thread_info___own {
	u64 preempt_count;
} CORE;

struct task_struct___own {
	struct sched_entity___own se;
	struct thread_info___own thread_info;
	void *stack;
} CORE;

enum { KERNEL_STACK_BYTES = 1 << 14 }; /* the least that a kernel's stack has, and is aligned to */

enum context {
	UNKNOWN_CONTEXT,
	IN_TASK,
	IN_SOFTIRQ,
	IN_HARDIRQ,
	IN_NMI,
};

/* This CPU's run queue, as a number; 0 where it is not found. */
INLINE u64 run_queue(void)
{
	const struct task_struct___own *task = current_task();
	u64 cfs_rq = 0, rq = 0;

	if (!HAS(struct sched_entity___own, cfs_rq) || !HAS(struct cfs_rq___own, rq))
		return 0;
	READ(cfs_rq, task, struct task_struct___own, se.cfs_rq);
	if (cfs_rq)
		READ(rq, cfs_rq, struct cfs_rq___own, rq);
	return rq;
}

/* The context that this program runs in (include/linux/preempt.h). With PREEMPT_RT softirqs are of their thread. */
INLINE u32 context(void)
{
	u32 count = 0;
#if defined(__TARGET_ARCH_arm64)
	const struct task_struct___own *task = current_task();

	READ(count, task, struct task_struct___own, thread_info.preempt_count);
#else
	u64 rq;

	if (!preempt_count_from_rq)
		return UNKNOWN_CONTEXT;
	rq = run_queue();
	if (!rq || bpf_probe_read_kernel(&count, sizeof(count), (void *)(rq + preempt_count_from_rq)))
		return UNKNOWN_CONTEXT;
#endif
	if (count & 0xf00000)
		return IN_NMI;
	if (count & 0xf0000)
		return IN_HARDIRQ;
	return count & 0x100 ? IN_SOFTIRQ : IN_TASK;
}

/*
 * Whether this program's arguments lie on the current thread's own stack. x86 serves an interrupt of user mode there, and one of kernel
 * mode on a stack of the CPU; other processors always use that. `at` is a place of the caller for the address, as a number: the
 * verifier allows no arithmetic with the pointer itself.
 */
INLINE int is_on_own_stack(const void *given, u64 *at)
{
	const struct task_struct___own *task = current_task();

	*(volatile u64 *)at = (u64)given;
	return *(volatile u64 *)at - (u64)GET(task, stack) < KERNEL_STACK_BYTES;
}

/* The time that the hypervisor has taken from the CPU of this run queue, and one; 0 where it has no such clock. */
INLINE u64 stolen(u64 rq)
{
	u64 ns = 0;

	if (!rq || !steal_from_rq || bpf_probe_read_kernel(&ns, sizeof(ns), (void *)(rq + steal_from_rq)))
		return 0;
	return ns + 1;
}
