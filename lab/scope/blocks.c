/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel blocks. QEMU translates the same code again and again (its cache is thrown away when full), and a block's
 * description must live as long as any translation: one description is kept for each address and length, so memory
 * grows with the guest's distinct code only.
 */
#include <pthread.h>
#include <stdlib.h>

#include "scope.h"

enum { SLAB = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block **slots;
static size_t room, used;
static struct block *slab;
static size_t left;

static size_t slot_of(uint64_t address, uint32_t instructions)
{
	size_t at = ((address ^ ((uint64_t)instructions << 40)) * 0x9e3779b97f4a7c15u) >> 20;
	for (;; at++) {
		const struct block *block = slots[at & (room - 1)];
		if (!block || (block->address == address && block->instructions == instructions))
			return at & (room - 1);
	}
}

static void grow(void)
{
	struct block **old = slots;
	size_t before = room;
	room = room ? 2 * room : 1 << 14;
	slots = calloc(room, sizeof(*slots));
	if (!slots)
		abort();
	for (size_t i = 0; i < before; i++)
		if (old[i])
			slots[slot_of(old[i]->address, old[i]->instructions)] = old[i];
	free(old);
}

const struct block *block_of(uint64_t address, uint32_t instructions, uint64_t last, bool returns)
{
	pthread_mutex_lock(&lock);
	if (2 * used >= room)
		grow();
	size_t slot = slot_of(address, instructions);
	if (!slots[slot]) {
		if (!left) {
			slab = calloc(SLAB, sizeof(*slab));
			left = SLAB;
		}
		if (!slab)
			abort();
		const struct symbols *symbols = &scope.symbols;
		uint32_t function = symbols_find(symbols, address);
		if (function && symbols->table[function - 1].address != address)
			function = 0;
		slab[--left] = (struct block){ address, 0, instructions, function, is_entrance(symbols, address), false };
		slots[slot] = &slab[left];
		used++;
	}
	/* The kernel may have patched the block since it was first seen. */
	struct block *block = slots[slot];
	block->last = last;
	block->returns = returns;
	pthread_mutex_unlock(&lock);
	return block;
}
