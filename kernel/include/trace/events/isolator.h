/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM isolator

#if !defined(_TRACE_ISOLATOR_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_ISOLATOR_H

#include <linux/tracepoint.h>

/* what: ISOLATOR_PENDING_* or enum isolator_stat */
DECLARE_EVENT_CLASS(isolator_interrupt,

	TP_PROTO(int cpu, unsigned int what, void *func, unsigned long site),

	TP_ARGS(cpu, what, func, site),

	TP_STRUCT__entry(
		__field(int, cpu)
		__field(unsigned int, what)
		__field(void *, func)
		__field(unsigned long, site)
	),

	TP_fast_assign(
		__entry->cpu = cpu;
		__entry->what = what;
		__entry->func = func;
		__entry->site = site;
	),

	TP_printk("cpu=%d kind=%u func=%pS site=%pS", __entry->cpu,
		  __entry->what, __entry->func, (void *)__entry->site)
);

/* An interrupt that was not sent: ISOLATOR_PENDING_* waits for an entry */
DEFINE_EVENT_PRINT(isolator_interrupt, defer,
	TP_PROTO(int cpu, unsigned int what, void *func, unsigned long site),
	TP_ARGS(cpu, what, func, site),
	TP_printk("cpu=%d work=%#x func=%pS site=%pS", __entry->cpu,
		  __entry->what, __entry->func, (void *)__entry->site));

#ifdef CONFIG_ISOLATOR_OWNER
/* An interrupt that is sent to an owner in user mode. */
DEFINE_EVENT(isolator_interrupt, breach,
	TP_PROTO(int cpu, unsigned int what, void *func, unsigned long site),
	TP_ARGS(cpu, what, func, site));

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
