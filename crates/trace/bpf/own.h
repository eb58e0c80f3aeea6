/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A thread's own time on its CPU, part of threads.bpf.c: its signal handlers, and the calls that it is in.
 */

/* (signal, its information, its action) */
ON(signal_deliver)
{
	u32 pid = bpf_get_current_pid_tgid();
	u64 handler = 0;

	if (!watched(pid))
		return 0;
	READ(handler, given->of[2], struct k_sigaction, sa.sa_handler);
	/* SIG_DFL and SIG_IGN have no handler. */
	if (handler > 1)
		tell(SIGNALLED, pid, (u32)given->of[0], handler, 0);
	return 0;
}

/*
 * By a clock of the thread's own CPU time. That slows down its context switches, so it is attached only to threads whose own execution
 * made a cycle late.
 */
SEC("perf_event") int own_time(void *given)
{
	u32 pid = bpf_get_current_pid_tgid();
	struct sample *sample;
	u64 callers[SAMPLED] = {};

	if (!watched(pid) || bpf_get_stack(given, callers, sizeof(callers), 0) <= 0)
		return 0;
	sample = begin(sizeof(*sample));
	if (!sample)
		return 0;
	sample->kind = SAMPLE;
	sample->cpu = bpf_get_smp_processor_id();
	sample->thread = pid;
	sample->at_ns = bpf_ktime_get_ns();
	sample->call = call_of(current_task(), registers_of(current_task()));
	__builtin_memcpy(sample->caller, callers, sizeof(sample->caller));
	bpf_ringbuf_submit(sample, NO_WAKEUP);
	return 0;
}
