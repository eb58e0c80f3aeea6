/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Begin and end of cycles at places that the user named: uprobes in the program, part of threads.bpf.c.
 *
 * The current stay on the CPU becomes a record when its thread reaches such a place, and the next stay goes on from there. So a cycle
 * is recorded as soon as it ends, even if its thread never leaves the CPU. A thread that reaches a begin is watched from then on.
 *
 * On a preemptible kernel this program can be preempted. The record of a context switch in between has a stay that begins before this
 * one ends; user space takes the later of both times.
 */

INLINE int comes_to(u16 kind)
{
	const struct task_struct *task = current_task();
	const struct pt_regs *regs = registers_of(task);
	u32 pid = bpf_get_current_pid_tgid();
	struct thread *thread = watched(pid);
	struct record *stay, *record;
	u64 at_ns, in_ns;

	if (!thread && kind == BEGINS && watch(pid) != NO_ROOM)
		thread = watched(pid);
	if (!thread)
		return 0;
	tell_lock(thread, pid);
	stay = &thread->stay;
	at_ns = bpf_ktime_get_ns();
	stay->at_ns = at_ns;
	check_begin(thread, task);
	in_ns = stay->in_ns;
	record = begin(sizeof(*record));
	if (!record) {
		stay->lost++;
		return 0;
	}
	__builtin_memcpy(record, stay, sizeof(*record));
	record->kind = kind;
	record->cpu = bpf_get_smp_processor_id();
	record->thread = pid;
	record->at_ns = at_ns;
	record->state = TASK_RUNNING;
	record->next = pid;
	record->call = -1ULL;
	record->prio = GET(task, prio);
	record->policy = GET(task, policy);
	/* The depth in the program, which separates nested calls from consecutive ones. */
	READ(record->argument[0], regs, struct pt_regs, sp);
	bpf_ringbuf_submit(record, NO_WAKEUP);
	stay->lost = 0;
	if (stay->in_ns != in_ns)
		return 0;
	stay->in_ns = at_ns;
	/* Keeps its timer: threads that it wakes inherit that. */
	stay->woken_ns = 0;
	stay->waker = 0;
	stay->how = GOES_ON;
	is_told(stay);
	__builtin_memset(stay->waker_name, 0, 16);
	__builtin_memset(&stay->by, 0, sizeof(stay->by));
	return 0;
}

SEC("uprobe") int cycle_begin(void *given)
{
	(void)given;
	return comes_to(BEGINS);
}

SEC("uprobe") int cycle_end(void *given)
{
	(void)given;
	return comes_to(ENDS);
}

SEC("uretprobe") int cycle_begin_at_return(void *given)
{
	(void)given;
	return comes_to(BEGINS);
}

SEC("uretprobe") int cycle_end_at_return(void *given)
{
	(void)given;
	return comes_to(ENDS);
}
