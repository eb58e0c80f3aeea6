/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of the scope know of each other. A vCPU is run by one host thread at a time, so what belongs to a
 * CPU needs no lock; translation may run on several threads, so the table of blocks has one.
 */
#ifndef SCOPE_H
#define SCOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum { PATH_FUNCTIONS = 256, SUMMARY_ENTRIES = 128, WATCHES = 8, ERROR_BYTES = 256 };
enum { SPREAD_EXACT = 512, SPREAD_OCTAVES = 55 };
enum { MARK_BEGIN = 1, MARK_END = 2, MARK_NOTE = 3, MARK_LAST = 255 };

enum target { TARGET_X86_64, TARGET_AARCH64 };

/* symbols.c: the guest kernel's functions by address. */
struct symbol {
	uint64_t address;
	const char *name;
};

struct symbols {
	struct symbol *table;
	uint32_t count;
	char *text;
};

bool symbols_read(struct symbols *symbols, const char *path, char *error);
/* Position of the last symbol at or below the address, counted from 1; 0 where there is none. */
uint32_t symbols_find(const struct symbols *symbols, uint64_t address);

/* arguments.c */
struct watch {
	bool physical;
	uint64_t first, last;
};

struct arguments {
	const char *out;
	const char *symbols;
	unsigned first_cpu, last_cpu;
	uint32_t lines;
	unsigned watches;
	struct watch watch[WATCHES];
	uint8_t input, output; /* of the response, numbers of watches; 0: none is asked for */
};

bool arguments_read(struct arguments *arguments, unsigned cpus, int argc, char **argv, char *error);

/* blocks.c: kernel blocks, one for each address and length however often QEMU translates it. */
struct block {
	uint64_t address;
	uint64_t last; /* where its last instruction begins, if the next block may begin with that; else 0 */
	uint32_t instructions;
	uint32_t function; /* as of symbols_find, where the block is the function's beginning; else 0 */
	bool entrance;	   /* here the processor begins when it enters the kernel */
	bool returns;	   /* its last instruction leaves an exception or a system call */
};

const struct block *block_of(uint64_t address, uint32_t instructions, uint64_t last, bool returns);

/* entrance.c: where the kernel is entered, and what leaves it. */
bool is_entrance(const struct symbols *symbols, uint64_t address);
bool is_return(enum target target, const uint8_t *bytes, size_t size);

/* marker.c: the code of a marker instruction, or 0. */
unsigned marker_code(enum target target, const uint8_t *bytes, size_t size);

/* What a CPU did, as it will be written. */
struct step {
	uint32_t function, count;
};

struct excursion {
	uint64_t n, entry, instructions, user_before, at, at_ns, beyond;
	uint32_t steps;
	struct step path[PATH_FUNCTIONS];
};

struct event {
	enum { EVENT_NOTE, EVENT_STRAY_END, EVENT_STORE } kind;
	uint8_t code, size, watch;
	bool io, valued;
	uint32_t window;
	uint64_t at, at_ns, address, physical, value, value_high;
};

struct entry {
	uint64_t address, count, instructions, max;
};

/* response.c: counts of instructions, each alone up to some hundreds, then by octaves. */
struct spread {
	uint64_t count, least, most;
	uint64_t exact[SPREAD_EXACT], octave[SPREAD_OCTAVES];
};

/* A poll of the input: instructions, and excursions, up to it. */
struct poll {
	uint64_t at, excursions;
};

struct responses {
	struct poll last, before;
	uint8_t polls; /* of the two above */
	bool polled;   /* since the last answer */
	uint64_t edges_before, doubled, blind;
	struct spread quiet, interrupted;
};

struct trace {
	bool chosen;
	uint32_t window;
	struct {
		uint64_t at, excursions, kernel, max, dropped;
	} sum;
	struct excursion now;
	uint32_t excursions, events, entries;
	struct excursion *excursion; /* room for `lines` */
	struct event *event;	     /* room for `lines` */
	uint64_t events_dropped;
	struct entry entry[SUMMARY_ENTRIES];
	struct entry other;
	struct responses responses;
};

/* What the callbacks of every block touch: a cache line for each CPU. */
struct cpu {
	uint64_t total; /* instructions since the start, this block's included */
	uint64_t last;	/* of the last kernel block */
	bool inside;	/* in kernel code */
	bool returned;	/* the last block left an exception or a system call */
	bool recording; /* between the markers */
	uint64_t entered_at, returned_at;
	struct trace *trace;
} __attribute__((aligned(64)));

struct scope {
	struct arguments arguments;
	struct symbols symbols;
	enum target target;
	int api;
	unsigned cpus;
	struct cpu *cpu;
	FILE *out;
	uint64_t edges; /* stores to the response's input by all CPUs; atomic */
};

extern struct scope scope;

/* record.c */
bool record_prepare(void);
void record_enter(struct cpu *cpu, const struct block *block);
void record_function(struct cpu *cpu, uint32_t function);
void record_leave(struct cpu *cpu);
void record_marker(unsigned index, unsigned code, uint64_t at);
void record_store(unsigned index, const struct event *store);
void record_finish(void);

/* response.c */
void response_begin(struct responses *responses);
void response_edge(void);
void response_poll(struct cpu *cpu, uint64_t at);
void response_answer(struct cpu *cpu, uint64_t at);

/* write.c: the file. */
bool write_open(const char *target_name, int smp, char *error);
void write_begin(unsigned index, uint64_t at, uint64_t at_ns);
void write_window(unsigned index, uint64_t at, uint64_t at_ns, const char *closed_by);
void write_events(unsigned index);
void write_close(void);

#endif
