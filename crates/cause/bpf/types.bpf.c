// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Types of the kernel that were found elsewhere, put to the test: what they say of the thread that runs this program, which knows itself.
 *
 * src/bpf/types.rs runs it, by the system call bpf(), and compares.
 */

#include "bpf.h"

struct task_struct {
	int pid;
	int tgid;
	int prio;
	u32 policy;
	u32 flags;
	char comm[16];
} CORE;

/* The same in src/bpf/types.rs. */
struct itself {
	u64 call; /* the system call, and its first argument */
	u64 first;
	u32 state;
	u32 pid;
	u32 tgid;
	u32 prio;
	u32 policy;
	u32 flags;
	char comm[16];
};

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct itself);
} found SEC(".maps");

/* (how far the registers lie from the begin of the stack) */
SEC("raw_tp") int look(struct arguments *given)
{
	const struct task_struct *task = current_task();
	const struct pt_regs *regs;
	struct itself *itself;
	u32 key = 0;

	itself = bpf_map_lookup_elem(&found, &key);
	if (!itself)
		return 0;
	regs = (const void *)((u64)GET((const struct task_struct___plain *)task, stack) + given->of[0]);
#if defined(__TARGET_ARCH_arm64)
	itself->call = (long)GET(regs, syscallno);
	itself->first = GET(regs, orig_x0);
#else
	itself->call = GET(regs, orig_ax);
	itself->first = GET(regs, di);
#endif
	itself->state = state_of(task);
	itself->pid = GET(task, pid);
	itself->tgid = GET(task, tgid);
	itself->prio = GET(task, prio);
	itself->policy = GET(task, policy);
	itself->flags = GET(task, flags);
	bpf_probe_read_kernel(itself->comm, sizeof(itself->comm), &task->comm);
	return 1;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
