/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program prints its position: its registers, a copy of its stack, and its call stack as the C library unwinds it.
 *
 *   ip, sp, bp, lr HEX    registers within capture()
 *   stack HEX             bytes from sp on
 *   return HEX            return addresses, those of capture()'s callers
 */
#pragma once
#include <execinfo.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { STACK_BYTES = 16384, CALLERS = 64 };

static unsigned char stack_copy[STACK_BYTES];

static size_t bytes_to_top(uintptr_t sp)
{
	pthread_attr_t attributes;
	void *begin;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &attributes) || pthread_attr_getstack(&attributes, &begin, &size))
		return 1024;
	if (sp < (uintptr_t)begin || sp - (uintptr_t)begin > size)
		return 1024;
	size -= sp - (uintptr_t)begin;
	return size < sizeof(stack_copy) ? size : sizeof(stack_copy);
}

__attribute__((noinline, unused)) static void capture(void)
{
	uintptr_t ip, sp, bp, lr = 0;
	void *callers[CALLERS];
	int count;
	size_t bytes;

#if defined(__aarch64__)
	__asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30" : "=r"(ip), "=r"(sp), "=r"(bp), "=r"(lr));
#else
	__asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=r"(ip), "=r"(sp), "=r"(bp));
#endif
	bytes = bytes_to_top(sp);
	memcpy(stack_copy, (void *)sp, bytes);
	count = backtrace(callers, CALLERS);
	printf("ip %lx\nsp %lx\nbp %lx\nlr %lx\nstack ", (long)ip, (long)sp, (long)bp, (long)lr);
	for (size_t n = 0; n < bytes; n++)
		printf("%02x", stack_copy[n]);
	putchar('\n');
	for (int n = 1; n < count; n++)
		printf("return %lx\n", (long)callers[n]);
}

/* Waits for a line: meanwhile the test reads the process. */
__attribute__((unused)) static void wait_for_line(const char *state)
{
	int c;

	puts(state);
	fflush(stdout);
	do
		c = getchar();
	while (c != '\n' && c != EOF);
}
