/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Excursions and windows. While a window is open nothing is printed, locked or allocated: records go to memory
 * that was there before, and are written when the window closes. What finds no room is counted.
 *
 * Windows and excursions cannot overlap half-way, since markers count in user code only: an excursion begun within
 * a window ends within it, unless QEMU ends first.
 */
#include <stdlib.h>
#include <time.h>

#include "scope.h"

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

bool record_prepare(void)
{
	const struct arguments *arguments = &scope.arguments;
	size_t bytes = scope.cpus * sizeof(*scope.cpu);
	scope.cpu = aligned_alloc(_Alignof(struct cpu), bytes);
	struct trace *traces = calloc(scope.cpus, sizeof(*traces));
	if (!scope.cpu || !traces)
		return false;
	for (unsigned i = 0; i < scope.cpus; i++) {
		struct trace *trace = &traces[i];
		scope.cpu[i] = (struct cpu){ .trace = trace };
		trace->chosen = i >= arguments->first_cpu && i <= arguments->last_cpu;
		if (!arguments->lines)
			continue;
		if (trace->chosen && !(trace->excursion = calloc(arguments->lines, sizeof(*trace->excursion))))
			return false;
		if (trace->chosen || arguments->watches)
			if (!(trace->event = calloc(arguments->lines, sizeof(*trace->event))))
				return false;
	}
	return true;
}

void record_enter(struct cpu *cpu, const struct block *block)
{
	cpu->inside = true;
	cpu->entered_at = cpu->total;
	if (!cpu->recording)
		return;
	struct excursion *now = &cpu->trace->now;
	now->entry = block->address;
	now->at = cpu->total;
	now->at_ns = now_ns();
	now->user_before = cpu->total - cpu->returned_at;
	now->beyond = 0;
	now->steps = 0;
}

void record_function(struct cpu *cpu, uint32_t function)
{
	struct excursion *now = &cpu->trace->now;
	for (uint32_t i = 0; i < now->steps; i++)
		if (now->path[i].function == function) {
			now->path[i].count++;
			return;
		}
	if (now->steps < PATH_FUNCTIONS)
		now->path[now->steps++] = (struct step){ function, 1 };
	else
		now->beyond++;
}

static struct entry *entry_of(struct trace *trace, uint64_t address)
{
	for (uint32_t i = 0; i < trace->entries; i++)
		if (trace->entry[i].address == address)
			return &trace->entry[i];
	if (trace->entries == SUMMARY_ENTRIES)
		return &trace->other;
	struct entry *entry = &trace->entry[trace->entries++];
	*entry = (struct entry){ .address = address };
	return entry;
}

void record_leave(struct cpu *cpu)
{
	struct trace *trace = cpu->trace;
	cpu->inside = false;
	cpu->returned_at = cpu->total;
	if (!cpu->recording)
		return;
	struct excursion *now = &trace->now;
	now->n = ++trace->sum.excursions;
	now->instructions = cpu->total - cpu->entered_at;
	trace->sum.kernel += now->instructions;
	if (now->instructions > trace->sum.max)
		trace->sum.max = now->instructions;
	struct entry *entry = entry_of(trace, now->entry);
	entry->count++;
	entry->instructions += now->instructions;
	if (now->instructions > entry->max)
		entry->max = now->instructions;
	if (trace->excursions < scope.arguments.lines)
		trace->excursion[trace->excursions++] = *now;
	else
		trace->sum.dropped++;
}

static void keep(struct trace *trace, const struct event *event)
{
	if (trace->events < scope.arguments.lines)
		trace->event[trace->events++] = *event;
	else
		trace->events_dropped++;
}

static void begin(unsigned index, uint64_t at)
{
	struct cpu *cpu = &scope.cpu[index];
	struct trace *trace = cpu->trace;
	if (cpu->recording)
		write_window(index, at, now_ns(), "begin");
	else
		write_events(index);
	trace->window++;
	trace->sum.at = at;
	trace->sum.excursions = trace->sum.kernel = trace->sum.max = trace->sum.dropped = 0;
	trace->entries = 0;
	trace->other = (struct entry){ 0 };
	response_begin(&trace->responses);
	cpu->returned_at = at;
	cpu->recording = true;
	write_begin(index, at, now_ns());
}

void record_marker(unsigned index, unsigned code, uint64_t at)
{
	struct cpu *cpu = &scope.cpu[index];
	struct trace *trace = cpu->trace;
	if (!trace->chosen)
		return;
	if (code == MARK_BEGIN) {
		begin(index, at);
	} else if (code == MARK_END && cpu->recording) {
		write_window(index, at, now_ns(), "end");
		cpu->recording = false;
	} else {
		keep(trace, &(struct event){ .kind = code == MARK_END ? EVENT_STRAY_END : EVENT_NOTE,
					     .code = code,
					     .window = cpu->recording ? trace->window : 0,
					     .at = at,
					     .at_ns = now_ns() });
	}
}

void record_store(unsigned index, const struct event *store)
{
	struct cpu *cpu = &scope.cpu[index];
	struct event event = *store;
	event.kind = EVENT_STORE;
	event.window = cpu->recording ? cpu->trace->window : 0;
	event.at_ns = now_ns();
	keep(cpu->trace, &event);
}

void record_finish(void)
{
	for (unsigned i = 0; i < scope.cpus; i++) {
		if (scope.cpu[i].recording)
			write_window(i, scope.cpu[i].total, now_ns(), "exit");
		else
			write_events(i);
	}
	write_close();
}
