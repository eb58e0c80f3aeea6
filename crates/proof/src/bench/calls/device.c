// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A stand-in for /dev/isolator, to be preloaded where the kernel has none: a file with one page of the form that isolator(4) gives, and
 * requests that succeed. The library goes the way that it goes with the kernel, up to a mapped page; nothing is isolated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/isolator.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int device = -1;

int open64(const char *path, int flags, ...)
{
	static const struct isolator_page page = { .version = ISOLATOR_PAGE_VERSION, .size = sizeof(page) };
	va_list rest;
	int mode;

	va_start(rest, flags);
	mode = va_arg(rest, int);
	va_end(rest);
	if (strcmp(path, "/dev/isolator") != 0)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	device = memfd_create("isolator", MFD_CLOEXEC);
	if (device >= 0 && (write(device, &page, sizeof(page)) < 0 || ftruncate(device, sysconf(_SC_PAGESIZE)) < 0))
		return -1;
	return device;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (fd != device || device < 0)
		return (int)syscall(SYS_ioctl, fd, request, argument);
	if (request == ISOLATOR_IOC_STATUS)
		((struct isolator_status *)argument)->cpu = 0;
	return 0;
}
