// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of an owner with an exclusive address space that the kernel takes
 * away: by migration, or since it is broken.
 *
 * Why: the isolator delivers the flush of such a page, and counts it. If it
 * refused to unmap the page instead, a block of movable memory could not go
 * offline (the kernel would try until a signal comes), and the owner would read
 * on from memory that the hardware has reported as broken.
 *
 *	memory goes offline	the owner's page is elsewhere, with its content
 *	soft_offline_page	the same
 *	hard_offline_page	the owner gets SIGBUS at its next access: a page,
 *				and a part of a huge page
 *
 * How to read: a line per case; "# SKIP" where the machine has no such memory:
 * a whole block of movable memory needs movablecore= on the boot line, huge
 * pages a kernel without PREEMPT_RT. A page that was reported as broken is lost
 * until the machine boots again: run this in a guest. --slow K
 */
#include "cases.h"

#include <setjmp.h>

#define MEMORY		"/sys/devices/system/memory/"
#define HUGE		(2UL << 20)
#define VALUE		0x1507a7e5UL

struct shared {
	int	owner;		/* 1: spins; -errno */
	int	look;		/* 1: the owner is to read its page */
	int	seen;		/* 1: it was as it should; 2: not; 3: SIGBUS */
	void	*at;
};

static struct shared *shared;
static sigjmp_buf back;

static int get(int *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void set(int *at, int value)
{
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
}

/* Number of the page frame at an address of a process; 0: none */
static uint64_t frame_of(pid_t pid, const void *at)
{
	uint64_t entry = 0;
	char path[64];
	int file;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0;
	if (pread(file, &entry, sizeof(entry), (uintptr_t)at / PAGE * 8) !=
	    sizeof(entry))
		entry = 0;
	close(file);
	return entry >> 63 ? entry & ((1ULL << 55) - 1) : 0;
}

static long number_in(const char *path, int base)
{
	char text[64];

	return read_file(path, text, sizeof(text)) > 0 ?
	       strtol(text, NULL, base) : -1;
}

/* ---- the owner ---- */

static void broken(int number)
{
	siglongjmp(back, number);
}

/* One page, in a block of memory if it is to be in one; NULL: there is none */
static void *page_in(long block)
{
	unsigned long frames = number_in(MEMORY "block_size_bytes", 16) / PAGE;
	unsigned long size = 512UL << 20, i;
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, size, MADV_NOHUGEPAGE);
	for (i = 0; i < size; i += PAGE) {
		at[i] = 1;
		if (block < 0 ||
		    frame_of(getpid(), at + i) / frames == (unsigned long)block)
			break;
	}
	if (i < size) {
		munmap(at, i);
		munmap(at + i + PAGE, size - i - PAGE);
		return at + i;
	}
	munmap(at, size);
	return NULL;
}

/* A page within a huge page; NULL: there are none */
static void *page_of_huge(void)
{
	char *at = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t first;
	unsigned int i;

	if (at == MAP_FAILED)
		return NULL;
	at = (char *)(((uintptr_t)at + HUGE - 1) & ~(HUGE - 1));
	if (madvise(at, HUGE, MADV_HUGEPAGE))
		return NULL;
	*at = 1;
	/* One access, and all of it is there, in a row. */
	first = frame_of(getpid(), at);
	for (i = 0; i < HUGE / PAGE; i++)
		if (!first || frame_of(getpid(), at + i * PAGE) != first + i)
			return NULL;
	return at + 5 * PAGE;
}

static void own(long block, bool huge)
{
	unsigned long *at = huge ? page_of_huge() : page_in(block);
	struct sigaction action = { .sa_handler = broken };
	int file = open_isolator();

	if (!at) {
		set(&shared->owner, -ENOMEM);
		_exit(0);
	}
	*at = VALUE;
	shared->at = at;
	sigaction(SIGBUS, &action, NULL);
	pin(cpu);
	if (mlockall(MCL_CURRENT | MCL_FUTURE) ||
	    start_patiently(file, ISOLATOR_MASK_DEFAULT |
				  ISOLATOR_MASK_EXCLUSIVE_MM)) {
		set(&shared->owner, -errno);
		_exit(1);
	}
	set(&shared->owner, 1);
	while (!get(&shared->look))
		relax();
	if (sigsetjmp(back, 1))
		set(&shared->seen, 3);
	else
		set(&shared->seen, *(volatile unsigned long *)at == VALUE ? 1 : 2);
	for (;;)
		pause();
}

/* The owner's process; 0: there is no such page */
static pid_t start_owner(long block, bool huge)
{
	pid_t pid;

	shared = share(PAGE);
	pin(HOUSE_CPU);
	pid = child();
	if (!pid)
		own(block, huge);
	if (!wait_for(get(&shared->owner), HANG_MS) ||
	    (shared->owner < 0 && shared->owner != -ENOMEM)) {
		errno = shared->owner < 0 ? -shared->owner : ETIMEDOUT;
		die("start the owner");
	}
	return shared->owner > 0 ? pid : 0;
}

static int what_it_sees(void)
{
	set(&shared->look, 1);
	wait_for(get(&shared->seen), HANG_MS);
	return get(&shared->seen);
}

/* Writes to a file of the kernel, which may try until a signal comes */
static int patiently(const char *path, const char *text)
{
	pid_t pid = child();
	int gave_up = ETIMEDOUT;
	int status = -1;

	if (!pid)
		_exit(write_file(path, text));
	if (!wait_for(waitpid(pid, &status, WNOHANG) == pid, HANG_MS / 2)) {
		say("%s > %s: not done, and goes on", text, path);
		kill(pid, SIGKILL);
		reap(pid);
		return gave_up;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

/* ---- cases ---- */

static void state_of(long block, char *path, size_t size)
{
	snprintf(path, size, MEMORY "memory%ld/state", block);
}

/* A block of movable memory that goes offline without an owner, or -1 */
static long movable_block(void)
{
	char path[80], text[64];
	long block;

	for (block = 0; block < 4096; block++) {
		snprintf(path, sizeof(path), MEMORY "memory%ld/valid_zones",
			 block);
		if (read_file(path, text, sizeof(text)) <= 0 ||
		    strncmp(text, "Movable", 7))
			continue;
		state_of(block, path, sizeof(path));
		if (!patiently(path, "offline") &&
		    !write_file(path, "online_movable"))
			return block;
	}
	return -1;
}

static int movable_memory_goes_offline(void)
{
	const struct isolator_page *page = page_of(fd, cpu);
	long block = movable_block();
	char path[80], text[64];
	uint64_t flushes, frame;
	pid_t owner;
	int error;

	if (block < 0)
		return skip("no block of movable memory goes offline");
	owner = start_owner(block, false);
	if (!owner)
		return skip("the kernel gives no memory of the block");
	frame = frame_of(owner, shared->at);
	flushes = stat_of(page, ISOLATOR_STAT_BREACH_USER_TLB);
	state_of(block, path, sizeof(path));
	error = patiently(path, "offline");
	say("block %ld, page %#lx: %s; then page %#lx, %ld flushes", block,
	    (long)frame, error ? strerror(error) : "offline",
	    (long)frame_of(owner, shared->at),
	    (long)(stat_of(page, ISOLATOR_STAT_BREACH_USER_TLB) - flushes));
	if (error || read_file(path, text, sizeof(text)) <= 0 ||
	    strncmp(text, "offline", 7))
		return yes(false, "the block goes offline");
	if (stat_of(page, ISOLATOR_STAT_BREACH_USER_TLB) == flushes)
		return yes(false, "the flush is counted");
	return yes(status_of(fd, cpu).owner == owner, "the owner stays") ||
	       yes(frame_of(owner, shared->at) != frame, "the page moves") ||
	       yes(what_it_sees() == 1, "the owner's page has its content");
}

/* Reports the owner's page as broken, or soon so; the error number */
static int report(pid_t owner, const char *how)
{
	char path[80], text[32];

	snprintf(path, sizeof(path), MEMORY "%s", how);
	snprintf(text, sizeof(text), "%#llx",
		 (unsigned long long)frame_of(owner, shared->at) * PAGE);
	return patiently(path, text);
}

static bool has_reports(void)
{
	return !access(MEMORY "hard_offline_page", W_OK);
}

static int a_page_is_taken_out_of_use(void)
{
	uint64_t frame;
	pid_t owner;
	int error;

	if (!has_reports())
		return skip("no CONFIG_MEMORY_FAILURE");
	owner = start_owner(-1, false);
	if (!owner)
		return yes(false, "a page");
	frame = frame_of(owner, shared->at);
	error = report(owner, "soft_offline_page");
	say("page %#lx: %s; then page %#lx", (long)frame,
	    error ? strerror(error) : "out of use",
	    (long)frame_of(owner, shared->at));
	return yes(!error, "the page is taken out of use") ||
	       yes(frame_of(owner, shared->at) != frame, "the page moves") ||
	       yes(what_it_sees() == 1, "the owner's page has its content");
}

static int breaks(bool huge)
{
	static const char * const words[] = { "nothing", "its page",
					      "another content", "SIGBUS" };
	const struct isolator_page *page = page_of(fd, cpu);
	uint64_t flushes;
	pid_t owner;
	int error, seen;

	if (!has_reports())
		return skip("no CONFIG_MEMORY_FAILURE");
	owner = start_owner(-1, huge);
	if (!owner)
		return huge ? skip("no huge pages") : yes(false, "a page");
	flushes = stat_of(page, ISOLATOR_STAT_BREACH_USER_TLB);
	error = report(owner, "hard_offline_page");
	flushes = stat_of(page, ISOLATOR_STAT_BREACH_USER_TLB) - flushes;
	seen = what_it_sees();
	say("reported: %s; %ld flushes; the owner sees %s",
	    error ? strerror(error) : "done", (long)flushes, words[seen]);
	return yes(seen == 3, "the owner must not read a broken page") ||
	       yes(flushes > 0, "the flush is counted");
}

static int a_broken_page_is_unmapped(void)
{
	return breaks(false);
}

static int a_broken_huge_page_is_unmapped(void)
{
	return breaks(true);
}

static const struct test_case cases[] = {
	CASE(movable_memory_goes_offline),
	CASE(a_page_is_taken_out_of_use),
	CASE(a_broken_page_is_unmapped),
	CASE(a_broken_huge_page_is_unmapped),
	{ }
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases);
}
