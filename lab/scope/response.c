/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Responses: from an edge (a store to the input, by any CPU) to the answer (the CPU's store to the output), in
 * instructions of the CPU that answers. That CPU polls, so what it does itself says when the edge came:
 *
 *   poll         poll         answer
 *   no edge      the edge     store to the output
 *   ├────────────┼────────────┤
 *   │            └─── least ──┤   the edge came before this poll ...
 *   └──────── most ───────────┘   ... and after that one
 *
 * All three are stamped by one host thread, to the instruction. A stamp of the edge itself would be taken by the thread of the
 * CPU that stores it, which a busy host may stop for milliseconds between the store and the stamp. Right for a program that
 * answers after the first poll that sees the edge.
 */
#include <string.h>

#include "scope.h"

void response_begin(struct responses *responses)
{
	memset(responses, 0, sizeof(*responses));
	responses->edges_before = __atomic_load_n(&scope.edges, __ATOMIC_RELAXED);
}

void response_edge(void)
{
	__atomic_fetch_add(&scope.edges, 1, __ATOMIC_RELAXED);
}

void response_poll(struct cpu *cpu, uint64_t at)
{
	struct responses *responses = &cpu->trace->responses;
	if (!cpu->recording)
		return;
	responses->before = responses->last;
	responses->last = (struct poll){ at, cpu->trace->sum.excursions };
	responses->polls += responses->polls < 2;
	responses->polled = true;
}

static void count(struct spread *spread, uint64_t least, uint64_t most)
{
	if (!spread->count++ || least < spread->least)
		spread->least = least;
	if (most > spread->most)
		spread->most = most;
	if (most < SPREAD_EXACT)
		spread->exact[most]++;
	else
		spread->octave[63 - __builtin_clzll(most / SPREAD_EXACT)]++;
}

void response_answer(struct cpu *cpu, uint64_t at)
{
	struct responses *responses = &cpu->trace->responses;
	if (!cpu->recording)
		return;
	if (responses->polls < 2 || !responses->polled) {
		responses->blind++;
		return;
	}
	responses->polled = false;
	uint64_t edges = __atomic_load_n(&scope.edges, __ATOMIC_RELAXED) - responses->edges_before;
	/* Below 1 where this edge is not counted yet: its CPU's thread stands between store and count. */
	int64_t open = edges - responses->quiet.count - responses->interrupted.count - responses->doubled;
	if (open > 1)
		responses->doubled += open - 1;
	bool quiet = responses->before.excursions == cpu->trace->sum.excursions;
	count(quiet ? &responses->quiet : &responses->interrupted, at - responses->last.at, at - responses->before.at);
}
