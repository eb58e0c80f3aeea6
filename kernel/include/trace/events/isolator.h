/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM isolator

#if !defined(_TRACE_ISOLATOR_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_ISOLATOR_H

#include <linux/tracepoint.h>

/* An interrupt that was not sent; its work waits for the next entry. */
TRACE_EVENT(defer,

	TP_PROTO(int cpu, unsigned int work, void *func, unsigned long site),

	TP_ARGS(cpu, work, func, site),

	TP_STRUCT__entry(
		__field(int, cpu)
		__field(unsigned int, work)
		__field(void *, func)
		__field(unsigned long, site)
	),

	TP_fast_assign(
		__entry->cpu = cpu;
		__entry->work = work;
		__entry->func = func;
		__entry->site = site;
	),

	/* ISOLATOR_PENDING_* */
	TP_printk("cpu=%d work=%#x func=%pS site=%pS", __entry->cpu,
		  __entry->work, __entry->func, (void *)__entry->site)
);

#ifdef CONFIG_ISOLATOR_OWNER
/* An interrupt that is sent to an owner in user mode. */
TRACE_EVENT(breach,

	TP_PROTO(int cpu, unsigned int kind, void *func, unsigned long site),

	TP_ARGS(cpu, kind, func, site),

	TP_STRUCT__entry(
		__field(int, cpu)
		__field(unsigned int, kind)
		__field(void *, func)
		__field(unsigned long, site)
	),

	TP_fast_assign(
		__entry->cpu = cpu;
		__entry->kind = kind;
		__entry->func = func;
		__entry->site = site;
	),

	/* enum isolator_stat */
	TP_printk("cpu=%d kind=%u func=%pS site=%pS", __entry->cpu,
		  __entry->kind, __entry->func, (void *)__entry->site)
);

/* The owner's TICK. */
TRACE_EVENT(tick,

	TP_PROTO(int cpu, unsigned int flags),

	TP_ARGS(cpu, flags),

	TP_STRUCT__entry(
		__field(int, cpu)
		__field(unsigned int, flags)
	),

	TP_fast_assign(
		__entry->cpu = cpu;
		__entry->flags = flags;
	),

	TP_printk("cpu=%d flags=%#x", __entry->cpu, __entry->flags)
);
#endif /* CONFIG_ISOLATOR_OWNER */

#endif /* _TRACE_ISOLATOR_H */

#include <trace/define_trace.h>
