/* SPDX-License-Identifier: GPL-2.0-only */
/* The file: JSON, an object to a line. README.md is its reference. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "scope.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool write_open(const char *target_name, int smp, char *error)
{
	const struct arguments *arguments = &scope.arguments;
	scope.out = fopen(arguments->out, "w");
	if (!scope.out) {
		snprintf(error, ERROR_BYTES, "cannot write %s: %s", arguments->out, strerror(errno));
		return false;
	}
	fprintf(scope.out,
		"{\"scope\":1,\"target\":\"%s\",\"qemu_api\":%d,\"smp\":%d,\"first_cpu\":%u,\"last_cpu\":%u,"
		"\"lines\":%" PRIu32 ",\"symbols\":%" PRIu32 ",\"watches\":%u}\n",
		target_name, scope.api, smp, arguments->first_cpu, arguments->last_cpu, arguments->lines,
		scope.symbols.count, arguments->watches);
	if (fflush(scope.out)) {
		snprintf(error, ERROR_BYTES, "cannot write %s: %s", arguments->out, strerror(errno));
		return false;
	}
	return true;
}

static void put_entry(uint64_t address)
{
	uint32_t function = symbols_find(&scope.symbols, address);
	if (function) {
		const struct symbol *symbol = &scope.symbols.table[function - 1];
		fprintf(scope.out, "\"entry\":\"%s\",\"offset\":%" PRIu64, symbol->name, address - symbol->address);
	} else {
		fprintf(scope.out, "\"entry\":\"0x%" PRIx64 "\",\"offset\":0", address);
	}
}

static void put_excursion(unsigned index, const struct excursion *it)
{
	fprintf(scope.out, "{\"cpu\":%u,\"window\":%" PRIu32 ",\"n\":%" PRIu64 ",", index,
		scope.cpu[index].trace->window, it->n);
	put_entry(it->entry);
	fprintf(scope.out,
		",\"instructions\":%" PRIu64 ",\"user_before\":%" PRIu64 ",\"at\":%" PRIu64 ",\"at_ns\":%" PRIu64
		",\"path\":[",
		it->instructions, it->user_before, it->at, it->at_ns);
	for (uint32_t i = 0; i < it->steps; i++)
		fprintf(scope.out, "%s[\"%s\",%" PRIu32 "]", i ? "," : "",
			scope.symbols.table[it->path[i].function - 1].name, it->path[i].count);
	fprintf(scope.out, "],\"beyond\":%" PRIu64 "}\n", it->beyond);
}

static void put_store(const struct event *it)
{
	fprintf(scope.out, ",\"watch\":%u,\"virt\":\"0x%" PRIx64 "\"", it->watch, it->address);
	if (it->physical != UINT64_MAX)
		fprintf(scope.out, ",\"phys\":\"0x%" PRIx64 "\",\"io\":%s", it->physical, it->io ? "true" : "false");
	fprintf(scope.out, ",\"size\":%u", it->size);
	if (it->valued && it->value_high)
		fprintf(scope.out, ",\"value\":\"0x%" PRIx64 "%016" PRIx64 "\"", it->value_high, it->value);
	else if (it->valued)
		fprintf(scope.out, ",\"value\":\"0x%" PRIx64 "\"", it->value);
}

static void put_event(unsigned index, const struct event *it)
{
	static const char *const names[] = {
		[EVENT_NOTE] = "note", [EVENT_STRAY_END] = "stray_end", [EVENT_STORE] = "store"
	};
	fprintf(scope.out, "{\"%s\":%u,\"cpu\":%u,\"window\":%" PRIu32 ",\"at\":%" PRIu64 ",\"at_ns\":%" PRIu64,
		names[it->kind], it->kind == EVENT_NOTE ? it->code : 1, index, it->window, it->at, it->at_ns);
	if (it->kind == EVENT_STORE)
		put_store(it);
	fputs("}\n", scope.out);
}

/* Both rows are in the CPU's order: laid together by instruction count. */
static void put_records(unsigned index)
{
	struct trace *trace = scope.cpu[index].trace;
	uint32_t a = 0, b = 0;
	while (a < trace->excursions || b < trace->events)
		if (b == trace->events ||
		    (a < trace->excursions && trace->excursion[a].at <= trace->event[b].at))
			put_excursion(index, &trace->excursion[a++]);
		else
			put_event(index, &trace->event[b++]);
	trace->excursions = trace->events = 0;
}

static void put_counts(const struct entry *it)
{
	fprintf(scope.out, ",\"count\":%" PRIu64 ",\"instructions\":%" PRIu64 ",\"max\":%" PRIu64 "}\n", it->count,
		it->instructions, it->max);
}

static void put_summary(unsigned index)
{
	const struct trace *trace = scope.cpu[index].trace;
	for (uint32_t i = 0; i < trace->entries; i++) {
		fprintf(scope.out, "{\"summary\":1,\"cpu\":%u,\"window\":%" PRIu32 ",", index, trace->window);
		put_entry(trace->entry[i].address);
		put_counts(&trace->entry[i]);
	}
	if (trace->other.count) {
		fprintf(scope.out,
			"{\"summary\":1,\"cpu\":%u,\"window\":%" PRIu32 ",\"entry\":\"(other)\",\"offset\":0", index,
			trace->window);
		put_counts(&trace->other);
	}
}

static void put_spread(const char *name, const struct spread *it)
{
	const char *comma = "";
	fprintf(scope.out,
		",\"%s\":{\"count\":%" PRIu64 ",\"least\":%" PRIu64 ",\"most\":%" PRIu64 ",\"counts\":[", name,
		it->count, it->least, it->most);
	for (uint64_t i = 0; i < SPREAD_EXACT + SPREAD_OCTAVES; i++) {
		bool exact = i < SPREAD_EXACT;
		uint64_t count = exact ? it->exact[i] : it->octave[i - SPREAD_EXACT];
		if (!count)
			continue;
		uint64_t from = exact ? i : (uint64_t)SPREAD_EXACT << (i - SPREAD_EXACT);
		fprintf(scope.out, "%s[%" PRIu64 ",%" PRIu64 "]", comma, from, count);
		comma = ",";
	}
	fputs("]}", scope.out);
}

static void put_responses(unsigned index)
{
	const struct trace *trace = scope.cpu[index].trace;
	const struct responses *it = &trace->responses;
	uint64_t edges = __atomic_load_n(&scope.edges, __ATOMIC_RELAXED) - it->edges_before;
	fprintf(scope.out,
		"{\"response\":1,\"cpu\":%u,\"window\":%" PRIu32 ",\"edges\":%" PRIu64 ",\"doubled\":%" PRIu64
		",\"blind\":%" PRIu64,
		index, trace->window, edges, it->doubled, it->blind);
	put_spread("quiet", &it->quiet);
	put_spread("interrupted", &it->interrupted);
	fputs("}\n", scope.out);
}

void write_begin(unsigned index, uint64_t at, uint64_t at_ns)
{
	pthread_mutex_lock(&lock);
	fprintf(scope.out,
		"{\"begin\":1,\"cpu\":%u,\"window\":%" PRIu32 ",\"at\":%" PRIu64 ",\"at_ns\":%" PRIu64 "}\n", index,
		scope.cpu[index].trace->window, at, at_ns);
	fflush(scope.out);
	pthread_mutex_unlock(&lock);
}

void write_window(unsigned index, uint64_t at, uint64_t at_ns, const char *closed_by)
{
	const struct cpu *cpu = &scope.cpu[index];
	struct trace *trace = cpu->trace;
	uint64_t open = cpu->inside ? cpu->total - cpu->entered_at : 0;
	pthread_mutex_lock(&lock);
	put_records(index);
	put_summary(index);
	if (scope.arguments.input)
		put_responses(index);
	fprintf(scope.out,
		"{\"end\":1,\"cpu\":%u,\"window\":%" PRIu32 ",\"closed_by\":\"%s\",\"at\":%" PRIu64 ",\"at_ns\":%" PRIu64
		",\"excursions\":%" PRIu64 ",\"kernel_instructions\":%" PRIu64 ",\"max_kernel_instructions\":%" PRIu64
		",\"user_instructions\":%" PRIu64 ",\"lines_dropped\":%" PRIu64 ",\"events_dropped\":%" PRIu64
		",\"open\":%d,\"open_instructions\":%" PRIu64 "}\n",
		index, trace->window, closed_by, at, at_ns, trace->sum.excursions, trace->sum.kernel, trace->sum.max,
		at - trace->sum.at - trace->sum.kernel - open, trace->sum.dropped, trace->events_dropped, cpu->inside,
		open);
	trace->events_dropped = 0;
	fflush(scope.out);
	pthread_mutex_unlock(&lock);
}

void write_events(unsigned index)
{
	struct trace *trace = scope.cpu[index].trace;
	if (!trace->events && !trace->events_dropped)
		return;
	pthread_mutex_lock(&lock);
	put_records(index);
	if (trace->events_dropped)
		fprintf(scope.out, "{\"events_dropped\":%" PRIu64 ",\"cpu\":%u}\n", trace->events_dropped, index);
	trace->events_dropped = 0;
	pthread_mutex_unlock(&lock);
}

/* The last line says that nothing is missing; so it is written only where all before it was. */
void write_close(void)
{
	pthread_mutex_lock(&lock);
	if (!ferror(scope.out))
		fputs("{\"exit\":1}\n", scope.out);
	if (ferror(scope.out) | fflush(scope.out))
		fprintf(stderr, "scope: cannot write %s: %s\n", scope.arguments.out, strerror(errno));
	pthread_mutex_unlock(&lock);
}
