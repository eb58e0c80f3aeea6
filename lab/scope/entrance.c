/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the processor begins when it enters the kernel, and the instructions by which it leaves.
 *
 * An interrupt that waits while the kernel returns to user code is taken before the first user instruction: no user
 * block lies between two excursions. They are told apart by a return that is followed by an entrance. A return within
 * the kernel (from a nested interrupt, or x86's IRET to itself that serialises) goes on where it was, which is no
 * entrance; only where yet another interrupt is taken at that very point is one excursion counted as two.
 */
#include <string.h>

#include "scope.h"

/* arm64: offsets into the vector table from 0x400 on are taken from user code (arch/arm64/kernel/entry.S). */
enum { VECTORS_FROM_USER = 0x400, VECTORS_END = 0x800, VECTOR = 0x80 };

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

bool is_entrance(const struct symbols *symbols, uint64_t address)
{
	uint32_t at = symbols_find(symbols, address);
	if (!at)
		return false;
	const struct symbol *symbol = &symbols->table[at - 1];
	uint64_t offset = address - symbol->address;
	const char *name = symbol->name;
	if (begins(name, "vectors") || begins(name, "tramp_vectors"))
		return offset >= VECTORS_FROM_USER && offset < VECTORS_END && offset % VECTOR == 0;
	if (begins(name, "irq_entries_start") || begins(name, "spurious_entries_start"))
		return true;
	/* x86-64: every other entry of the IDT, and of SYSCALL (asm/idtentry.h, arch/x86/entry/entry_64.S). */
	return !offset && (begins(name, "asm_") || begins(name, "entry_SYSCALL") || begins(name, "entry_SYSENTER"));
}

bool is_return(enum target target, const uint8_t *bytes, size_t size)
{
	if (target == TARGET_AARCH64)
		return size == 4 && !memcmp(bytes, "\xe0\x03\x9f\xd6", 4); /* eret */
	return (size == 2 && !memcmp(bytes, "\x48\xcf", 2)) ||		   /* iretq */
	       (size == 3 && !memcmp(bytes, "\x48\x0f\x07", 3));	   /* sysretq */
}
