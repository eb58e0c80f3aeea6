// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether an owner ever sees old text or memory after the kernel reported a
 * change as done.
 *
 * Why: deferring the synchronisation of kernel text and of the kernel's TLB is
 * right only if the owner catches up before it can notice. So CPU 0 changes
 * something, waits until the kernel reports that it is done, and announces the
 * new generation. The owner, which spun in user mode meanwhile, looks at once.
 *
 * Text: a tracepoint (static key), a kprobe (breakpoint) and the function
 * tracer (call site) are turned on and off. After "on" was announced, each of
 * the owner's next calls is traced; after "off" none is. In every other
 * generation the owner makes other system calls while text changes, so that it
 * also enters in the middle.
 *
 * Kernel memory: a BPF map in vmalloc memory has a stamp with its generation.
 * The owner's system call reads it. The map is freed and made anew, mostly at
 * the same address. This also runs with ISOLATOR_MASK_KTLB, which defers that
 * flush.
 *
 * User memory: another thread of the owner's process replaces pages under a
 * stamp (mremap over it), write-protects pages that the owner writes
 * (mprotect), forks (copy on write) and has memory compacted (migration). The
 * owner reads and writes meanwhile. None of these flushes is ever deferred;
 * exclusive mode refuses to start there.
 *
 * How to read: a line per kind: generations, stale observations (must be 0),
 * and how often the owner looked. --rounds N generations of each, --seed N,
 * --slow K. --every-function: only that test, the function tracer without a
 * filter. --sample N: the CPU's PMU interrupts it every N cycles meanwhile, by
 * an NMI. --without-start does the same without isolation, to tell faults of
 * the isolator from others. Under QEMU 7.2 with thread=multi the kernel hits
 * breakpoints there, too, long after their removal (Oops: int3); with
 * thread=single it did not.
 */
#include "selftest.h"

#include <linux/bpf.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/syscall.h>

#define TRACING	"/sys/kernel/tracing/"
#define LOOKS	3		/* calls of the owner per generation */

static long rounds = 200, seed = 1, without_start, every_function, cycles;
static int cpu;
static uint64_t state;

static long load(long *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void store(long *at, long value)
{
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
}

/* ---- text ---- */

struct text {
	const char *name;
	const char *on_file, *on, *off_file, *off;
	const char *before_file, *before, *after_file, *after;
	void (*call)(void);
	bool more;	/* traces more than the calls */
};

#if defined(__x86_64__)
#define GETPPID "__x64_sys_getppid"
#else
#define GETPPID "__arm64_sys_getppid"
#endif

static void rename_self(void)
{
	prctl(PR_SET_NAME, "generations");
}

static void get_parent(void)
{
	syscall(SYS_getppid);
}

#define RENAME	TRACING "events/task/task_rename/enable"
#define PROBE	TRACING "events/kprobes/generations/enable"

static const struct text texts[] = {
	{ "tracepoint", RENAME, "1", RENAME, "0", NULL, NULL, NULL, NULL,
	  rename_self, false },
	{ "kprobe", PROBE, "1", PROBE, "0",
	  TRACING "kprobe_events", "p:generations " GETPPID "\n",
	  TRACING "kprobe_events", "-:generations\n", get_parent, false },
	{ "function tracer", TRACING "current_tracer", "function",
	  TRACING "current_tracer", "nop",
	  TRACING "set_ftrace_filter", "*_sys_getppid\n",
	  TRACING "set_ftrace_filter", "", get_parent, false },
	/* Tens of thousands of call sites, in the path of each entry too */
	{ "every function", TRACING "current_tracer", "function",
	  TRACING "current_tracer", "nop",
	  NULL, NULL, NULL, NULL, get_parent, true },
};

struct shared {
	long	ready;		/* of the owner: 1, -errno */
	long	go;		/* generation that is announced */
	long	done;		/* generation that the owner has looked at */
	long	busy;		/* the owner shall enter the kernel meanwhile */
	long	stale, looks;	/* counted by the owner */
	long	stamp;		/* generation that is over */
	long	file;		/* of the map */
	long	leave;
};

static struct shared *shared;

/* Waits for a generation in user mode, or with other system calls */
static void await(long generation)
{
	while (load(&shared->go) != generation && !load(&shared->leave))
		if (load(&shared->busy))
			syscall(SYS_getuid);
		else
			relax();
}

static int own(unsigned int mask)
{
	int fd = open_isolator();

	pin(cpu);
	become_fifo(80);
	store(&shared->ready, !without_start && start_patiently(fd, mask) ?
	      -errno : 1);
	return fd;
}

static bool owner_ready(void)
{
	if (!wait_for(load(&shared->ready), HANG_MS))
		return false;
	if (load(&shared->ready) < 0)
		say("START: %s", strerror(-load(&shared->ready)));
	return load(&shared->ready) == 1;
}

/* Entries that the CPU's trace buffer ever had */
static long traced(void)
{
	char path[96], text[1024], *entries, *overrun;

	snprintf(path, sizeof(path), TRACING "per_cpu/cpu%d/stats", cpu);
	if (read_file(path, text, sizeof(text)) <= 0)
		return -1;
	entries = strstr(text, "entries: ");
	overrun = strstr(text, "overrun: ");
	return entries && overrun ? atol(entries + 9) + atol(overrun + 9) : -1;
}

static int set(const char *file, const char *text)
{
	/* The filter is emptied by opening it for truncation. */
	int fd = file ? open(file, O_WRONLY | (*text ? 0 : O_TRUNC)) : -1;
	int error = 0;

	if (!file)
		return 0;
	if (fd < 0)
		return errno;
	if (*text && write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

/* Announces a generation and waits until the owner has looked */
static bool announce(long generation)
{
	store(&shared->go, generation);
	return wait_for(load(&shared->done) == generation, HANG_MS);
}

static int run_text(const struct text *text)
{
	long generation = 0, stale = 0, before, seen, round;
	int result = PASSED;
	pid_t pid;
	int i;

	if (set(text->before_file, text->before) ||
	    set(text->on_file, text->on) || set(text->off_file, text->off) ||
	    traced() < 0)
		return SKIPPED;
	memset(shared, 0, sizeof(*shared));
	pid = child();
	if (!pid) {
		own(ISOLATOR_MASK_DEFAULT);
		for (generation = 1;; generation++) {
			await(generation);
			for (i = 0; i < LOOKS; i++)
				text->call();
			store(&shared->done, generation);
		}
	}
	if (!owner_ready())
		result = FAILED;
	for (round = 0; round < rounds && result == PASSED; round++) {
		bool on = !(round % 2);

		store(&shared->busy, chance(&state) % 2);
		if (set(on ? text->on_file : text->off_file,
			on ? text->on : text->off)) {
			say("%s: cannot turn it", text->name);
			result = FAILED;
			break;
		}
		before = traced();
		if (!announce(++generation)) {
			say("%s: the owner hangs", text->name);
			result = FAILED;
			break;
		}
		seen = traced() - before;
		if (on && text->more ? seen < LOOKS :
				       seen != (on ? LOOKS : 0)) {
			say("%s: generation %ld is %s, and %ld of %d calls were traced",
			    text->name, generation, on ? "on" : "off", seen,
			    LOOKS);
			stale++;
		}
	}
	kill(pid, SIGKILL);
	reap(pid);
	set(text->off_file, text->off);
	set(text->after_file, text->after);
	say("%-16s %6ld generations %6ld stale %10ld looks", text->name,
	    generation, stale, generation * LOOKS);
	return stale ? FAILED : result;
}

/* ---- kernel memory ---- */

#define VALUE	4096
#define VALUES	32		/* 128 KiB: beyond what kmalloc() serves here */

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* A map in vmalloc memory, with a stamp in each page */
static int make_map(uint64_t stamp)
{
	static uint64_t value[VALUE / 8];
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4,
		.value_size = VALUE, .max_entries = VALUES,
	};
	int map = bpf(BPF_MAP_CREATE, &attr);
	uint32_t key;

	value[0] = stamp;
	for (key = 0; map >= 0 && key < VALUES; key++) {
		attr = (union bpf_attr) {
			.map_fd = map, .key = (uintptr_t)&key,
			.value = (uintptr_t)value,
		};
		bpf(BPF_MAP_UPDATE_ELEM, &attr);
	}
	return map;
}

static uint64_t read_map(int map, uint32_t key)
{
	static uint64_t value[VALUE / 8];
	union bpf_attr attr = {
		.map_fd = map, .key = (uintptr_t)&key,
		.value = (uintptr_t)value,
	};

	if (bpf(BPF_MAP_LOOKUP_ELEM, &attr))
		return ~0ULL;
	return value[0];
}

static void *look_at_maps(void *mask)
{
	long generation;
	uint32_t key;

	own((uintptr_t)mask);
	for (generation = 1; !load(&shared->leave); generation++) {
		await(generation);
		for (key = 0; key < VALUES && !load(&shared->leave); key++) {
			shared->looks++;
			if (read_map(load(&shared->file), key) !=
			    (uint64_t)generation)
				shared->stale++;
		}
		store(&shared->done, generation);
	}
	return NULL;
}

static int run_vmalloc(unsigned int mask, const char *name)
{
	long generation = 0;
	pthread_t thread;
	int map = -1, result = PASSED;

	close(map = make_map(0));
	if (map < 0)
		return SKIPPED;
	memset(shared, 0, sizeof(*shared));
	pthread_create(&thread, NULL, look_at_maps, (void *)(uintptr_t)mask);
	if (!owner_ready())
		result = FAILED;
	map = -1;
	while (result == PASSED && generation < rounds) {
		store(&shared->busy, chance(&state) % 2);
		if (map >= 0)
			close(map);
		/* Gives the kernel time to free old maps, and to purge. */
		if (generation % 8 == 7)
			sleep_us(20000);
		map = make_map(++generation);
		store(&shared->file, map);
		if (map < 0 || !announce(generation)) {
			say("%s: %s", name, map < 0 ? strerror(errno) :
						      "the owner hangs");
			result = FAILED;
		}
	}
	store(&shared->leave, 1);
	pthread_join(thread, NULL);
	close(map);
	say("%-16s %6ld generations %6ld stale %10ld looks", name, generation,
	    shared->stale, shared->looks);
	return shared->stale ? FAILED : result;
}

/* ---- user memory ---- */

#define PAGES	16
#define TURN	16384		/* looks; a millisecond or less */

static volatile long *area;	/* PAGES pages; word 0 of each is used */
static sigjmp_buf faulted;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(faulted, 1);
}

static volatile long *word(int page)
{
	return area + page * (PAGE / sizeof(long));
}

/* Owner: emulated CPUs on one host thread switch here, or every 100 ms. */
static void looked(void)
{
	if (!(++shared->looks % TURN))
		relax();
}

/* Owner: a page must never be older than the generation that is over. */
static void *read_stamps(void *unused)
{
	own(ISOLATOR_MASK_DEFAULT);
	while (!load(&shared->leave)) {
		long over = load(&shared->stamp);
		int page;

		for (page = 0; page < PAGES; page++) {
			if (*word(page) < over)
				shared->stale++;
			looked();
		}
	}
	return unused;
}

static void replace(long generation)
{
	void *fresh = fresh_pages(PAGES, generation);

	/* Unmaps the old pages, and frees them. */
	if (mremap(fresh, PAGES * PAGE, PAGES * PAGE,
		   MREMAP_MAYMOVE | MREMAP_FIXED, (void *)area) != (void *)area)
		die("move pages over others");
	store(&shared->stamp, generation);
	sleep_us(chance(&state) % 500);
}

/* Owner: counts in each page; the last count must still be there. */
static void *write_counts(void *unused)
{
	static long count[PAGES];	/* survives siglongjmp() */
	static int page;

	memset(count, 0, sizeof(count));
	signal(SIGSEGV, on_fault);
	own(ISOLATOR_MASK_DEFAULT);
	sigsetjmp(faulted, 1);
	while (!load(&shared->leave)) {
		page = (page + 1) % PAGES;
		if (*word(page) != count[page]) {
			count[page] = *word(page);
			shared->stale++;
		}
		*word(page) = count[page] + 1;	/* faults if protected */
		count[page]++;
		looked();
	}
	return unused;
}

/* Whether any of the words changes, as seen by this task */
static bool changes(void)
{
	long before[PAGES];
	int page, i;

	for (page = 0; page < PAGES; page++)
		before[page] = *word(page);
	for (i = 0; i < 200; i++)
		relax();	/* the owner's turn, TURN looks or 100 ms */
	for (page = 0; page < PAGES; page++)
		if (*word(page) != before[page])
			return true;
	return false;
}

static void protect(long generation)
{
	(void)generation;
	if (mprotect((void *)area, PAGES * PAGE, PROT_READ))
		die("protect");
	if (changes())
		__atomic_add_fetch(&shared->stamp, 1, __ATOMIC_RELAXED);
	if (mprotect((void *)area, PAGES * PAGE, PROT_READ | PROT_WRITE))
		die("unprotect");
	sleep_us(chance(&state) % 500);
}

static void copy_on_write(long generation)
{
	pid_t pid = fork();
	int status;

	(void)generation;
	if (!pid)
		_exit(changes());
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("fork");
	if (status)
		__atomic_add_fetch(&shared->stamp, 1, __ATOMIC_RELAXED);
}

static void migrate(long generation)
{
	(void)generation;
	write_file("/proc/sys/vm/compact_memory", "1");
}

static const struct memory {
	const char *name;
	void *(*owner)(void *nothing);
	void (*change)(long generation);
	long share;		/* of the rounds, one in so many */
} memories[] = {
	{ "munmap, mremap", read_stamps, replace, 1 },
	{ "mprotect", write_counts, protect, 1 },
	{ "fork, COW", write_counts, copy_on_write, 2 },
	{ "compaction", write_counts, migrate, 8 },
};

/* Stale: counts that the owner lost, and changes seen by others (in stamp) */
static int run_memory(const struct memory *memory)
{
	long generation = 0, stale, total = rounds / memory->share + 1;
	bool stamps = memory->change == replace;
	int result = PASSED;
	pthread_t thread;

	memset(shared, 0, sizeof(*shared));
	area = fresh_pages(PAGES, 0);
	pthread_create(&thread, NULL, memory->owner, NULL);
	if (!owner_ready())
		result = FAILED;
	while (result == PASSED && generation < total)
		memory->change(++generation);
	store(&shared->leave, 1);
	pthread_join(thread, NULL);
	munmap((void *)area, PAGES * PAGE);
	stale = shared->stale + (stamps ? 0 : shared->stamp);
	say("%-16s %6ld generations %6ld stale %10ld looks", memory->name,
	    generation, stale, shared->looks);
	return stale || !shared->looks ? FAILED : result;
}

int main(int argc, char **argv)
{
	unsigned int i;

	arguments(argc, argv, (const struct argument[]){
		{ "--rounds", &rounds, false }, { "--seed", &seed, false },
		{ "--slow", &slow, false },
		{ "--without-start", &without_start, true },
		{ "--every-function", &every_function, true },
		{ "--sample", &cycles, false }, { } });
	close(open_isolator());
	cpu = isolated_cpu();
	state = seed * 0x9e3779b97f4a7c15ULL | 1;
	shared = share(PAGE);
	pin(HOUSE_CPU);
	if (cycles)
		sample(cpu, cycles);

	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i].more == every_function)
			ok_or_skipped(run_text(&texts[i]), texts[i].name,
				      "the kernel has no such tracing");
	if (every_function)
		return finish();
	ok_or_skipped(run_vmalloc(ISOLATOR_MASK_DEFAULT, "vmalloc"), "vmalloc",
		      "no BPF");
	ok_or_skipped(!has_part("ktlb") ? SKIPPED :
		      run_vmalloc(ISOLATOR_MASK_DEFAULT | ISOLATOR_MASK_KTLB,
				  "vmalloc, KTLB"), "vmalloc with KTLB",
		      "no BPF, or no CONFIG_ISOLATOR_KTLB");
	for (i = 0; i < sizeof(memories) / sizeof(*memories); i++)
		ok(run_memory(&memories[i]) == PASSED, "%s", memories[i].name);
	if (cycles)
		ok(samples_of(cpu) > 0, "%ld samples meanwhile", samples_of(cpu));
	return finish();
}
