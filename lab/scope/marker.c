/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Markers: instructions that do nothing, by which a guest program speaks to the scope. Their numbers carry "IS", and
 * no compiler emits them by itself.
 *
 *   x86-64   0f 1f 80 CODE 00 53 49   nopl 0x495300CODE(%rax)
 *   arm64    movz xzr, #0x53CODE
 */
#include "scope.h"

unsigned marker_code(enum target target, const uint8_t *bytes, size_t size)
{
	if (target == TARGET_X86_64) {
		if (size != 7 || bytes[0] != 0x0f || bytes[1] != 0x1f || bytes[2] != 0x80)
			return 0;
		return bytes[4] == 0 && bytes[5] == 0x53 && bytes[6] == 0x49 ? bytes[3] : 0;
	}
	if (size != 4)
		return 0;
	uint32_t word = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
	return (word & ~(0xffu << 5)) == (0xd2800000u | 0x5300u << 5 | 31) ? word >> 5 & 0xff : 0;
}
