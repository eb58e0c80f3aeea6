/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls capture() in several ways: stack WAY [LIBRARY]
 *
 * WAY: `plain`, through `qsort` of the C library, in a `thread`, in a `signal`'s handler, from a function whose frame has no fixed size
 * (`alloca`), through a library that is loaded while it runs (`library`), and through code without a file (`jit`).
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "capture.h"

/* Data with bytes in the file, and without. */
int counter_with_bytes = 7;
pthread_mutex_t buffer_lock;
static struct { long first, second; } state;
static int times;

__attribute__((always_inline)) static inline void put_into_its_caller(void)
{
	capture();
	times++;
}

__attribute__((noinline)) static void inner(void)
{
	printf("line %d\n", __LINE__ + 1);
	put_into_its_caller();
	times++;
}

__attribute__((noinline)) static void middle(void)
{
	inner();
	times++;
}

static int compare(const void *first, const void *second)
{
	if (!times)
		middle();
	return *(const int *)first - *(const int *)second;
}

static void *run(void *argument)
{
	middle();
	return argument;
}

static void handle(int signal)
{
	middle();
	times += signal;
}

__attribute__((noinline)) static void with_room(size_t size)
{
	volatile char *room = alloca(size);

	room[0] = 1;
	middle();
	room[size - 1] = 1;
}

static void through_code_without_a_file(void)
{
#if defined(__aarch64__)
	/* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], #16; ret */
	static const unsigned code[] = { 0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0 };
#else
	/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
#endif
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		exit(1);
	memcpy(page, code, sizeof(code));
	__builtin___clear_cache((char *)page, (char *)page + sizeof(code));
	((void (*)(void (*)(void)))page)(middle);
	times++;
}

static void through_a_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*call)(void (*)(void)) = library ? (void (*)(void (*)(void)))dlsym(library, "library_calls") : NULL;

	if (!call) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	call(middle);
	times++;
}

static void come(const char *way, const char *library)
{
	int numbers[] = { 3, 1, 2 };
	pthread_t thread;

	if (!strcmp(way, "plain")) {
		middle();
	} else if (!strcmp(way, "qsort")) {
		qsort(numbers, 3, sizeof(int), compare);
	} else if (!strcmp(way, "thread")) {
		pthread_create(&thread, NULL, run, NULL);
		pthread_join(thread, NULL);
	} else if (!strcmp(way, "signal")) {
		signal(SIGUSR1, handle);
		raise(SIGUSR1);
	} else if (!strcmp(way, "alloca")) {
		with_room(times + 500);
	} else if (!strcmp(way, "jit")) {
		through_code_without_a_file();
	} else if (!strcmp(way, "library")) {
		through_a_library(library);
	} else {
		exit(1);
	}
}

int main(int count, char **word)
{
	char *heap = malloc(64);

	wait_for_line("started");
	come(count > 1 ? word[1] : "plain", count > 2 ? word[2] : "");
	printf("data counter_with_bytes %lx\n", (long)&counter_with_bytes);
	printf("data buffer_lock %lx\n", (long)&buffer_lock);
	printf("data state+0x8 %lx\n", (long)&state.second);
	printf("heap %lx\n", (long)heap);
	wait_for_line("ready");
	free(heap);
	return 0;
}
