// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages between an owner and others: POST, POLL and the mapped rings.
 *
 * Why: messages are the way to talk to a CPU that must not be interrupted. They
 * have to arrive, once and in order, and the owner must not enter the kernel
 * for them. The owner's own count of entries shows that exactly.
 *
 * And the rings belong to one isolation. A process that has the file of its
 * START may post and poll. No other process may, least of all a former owner.
 *
 * How to read: a line per case. --messages N of the round trips, --slow K.
 */
#include "selftest.h"

#define SIZE	((sizeof(struct isolator_rings) + PAGE - 1) / PAGE * PAGE)

struct shared {
	int	ready, leave;
	int	file;		/* number of the owner's file */
	int	phase, said;	/* of the former owner */
	long	wrong;
	unsigned int word;	/* the word, as the owner saw it */
};

static struct shared *shared;
static const struct isolator_page *page;
static long messages = 20000;
static int cpu;
static int device;		/* file through which no owner started */
static int fd;			/* the owner's file */

static struct isolator_rings *rings_of(int file)
{
	void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file,
			ISOLATOR_MMAP_RINGS(cpu));

	if (at == MAP_FAILED)
		die("map the rings");
	return at;
}

static int post(int file, unsigned int kind)
{
	struct isolator_post argument = {
		.size = sizeof(argument), .cpu = cpu,
		.message = { .kind = kind, .data = { kind, ~kind } },
	};

	return ioctl(file, ISOLATOR_IOC_POST, &argument) ? errno : 0;
}

/* The kind, or minus an error number */
static long poll_one(int file)
{
	struct isolator_post argument = {
		.size = sizeof(argument), .cpu = cpu,
	};
	unsigned int kind;

	if (ioctl(file, ISOLATOR_IOC_POLL, &argument))
		return -errno;
	kind = argument.message.kind;
	if (argument.message.data[0] != kind ||
	    argument.message.data[1] != (unsigned int)~kind)
		return -EIO;
	return kind;
}

/* ---- owners ---- */

static int become_owner(void)
{
	int own = open_isolator();

	pin(cpu);
	become_fifo(80);
	if (start_patiently(own, ISOLATOR_MASK_DEFAULT))
		die("start");
	shared->file = own;
	return own;
}

static void ready(void)
{
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
}

static bool leave(void)
{
	return __atomic_load_n(&shared->leave, __ATOMIC_ACQUIRE);
}

/* Sends each message back, and never enters the kernel. */
static void echo(void)
{
	struct isolator_rings *rings = rings_of(become_owner());
	uint32_t in = 0, out = 0;

	ready();
	while (!leave()) {
		struct isolator_message *message;

		if (__atomic_load_n(&rings->in.head, __ATOMIC_ACQUIRE) == in) {
			relax();
			continue;
		}
		message = &rings->in.slot[in % ISOLATOR_RING_SLOTS];
		while (out - __atomic_load_n(&rings->out.tail,
					     __ATOMIC_ACQUIRE) ==
		       ISOLATOR_RING_SLOTS && !leave())
			relax();
		rings->out.slot[out % ISOLATOR_RING_SLOTS] = *message;
		__atomic_store_n(&rings->out.head, ++out, __ATOMIC_RELEASE);
		__atomic_store_n(&rings->in.tail, ++in, __ATOMIC_RELEASE);
	}
}

/* Waits for the bit in its word, polls, and posts back, by calls alone. */
static void answer(void)
{
	int own = become_owner();
	const struct isolator_page *mine = page_of(own, cpu);
	long kind;

	ready();
	while (!leave()) {
		unsigned int word = __atomic_load_n(&mine->pending,
						    __ATOMIC_ACQUIRE);

		if (!(word & ISOLATOR_PENDING_MESSAGE)) {
			relax();
			continue;
		}
		__atomic_store_n(&shared->word, word, __ATOMIC_RELAXED);
		while ((kind = poll_one(own)) >= 0)
			while (post(own, kind) == ENOBUFS && !leave())
				relax();
		if (kind != -ENOMSG)
			shared->wrong++;
	}
}

static void spoil(void)
{
	struct isolator_rings *rings = rings_of(become_owner());

	rings->in.tail = 12345;
	rings->out.head = 1U << 31;
	memset(rings->out.slot, 0xff, sizeof(rings->out.slot));
	ready();
	while (!leave())
		relax();
}

static void ignore(void)
{
	become_owner();
	ready();
	while (!leave())
		relax();
}

/* Another process's file, as if that process had passed it */
static int file_of(pid_t pid, int number)
{
	int process = syscall(SYS_pidfd_open, pid, 0);
	int file = syscall(SYS_pidfd_getfd, process, number, 0);

	if (process < 0 || file < 0)
		die("take the owner's file");
	close(process);
	return file;
}

static pid_t owner(void (*run)(void))
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = child();
	if (!pid) {
		run();
		_exit(0);
	}
	if (!wait_for(shared->ready, HANG_MS))
		die("start an owner");
	fd = file_of(pid, shared->file);
	return pid;
}

static bool gone(pid_t pid)
{
	bool good;

	__atomic_store_n(&shared->leave, 1, __ATOMIC_RELEASE);
	good = reap(pid) == 0;
	close(fd);
	fd = device;
	return good;
}

/* ---- cases ---- */

/* Keeps the rings full; all messages come back in order. */
static bool round_trips(long *took)
{
	long sent = 0, back = 0, until = now_ms() + HANG_MS * slow, kind;
	int error;

	while (back < messages && now_ms() < until) {
		while (sent < messages && !(error = post(fd, sent)))
			sent++;
		if (sent < messages && error != ENOBUFS) {
			say("POST: %s", strerror(error));
			return false;
		}
		while ((kind = poll_one(fd)) >= 0) {
			if (kind != back++) {
				say("%ld instead of %ld", kind, back - 1);
				return false;
			}
			until = now_ms() + HANG_MS * slow;
		}
		if (kind != -ENOMSG) {
			say("POLL: %s", strerror(-kind));
			return false;
		}
	}
	*took = back;
	return back == messages && poll_one(fd) == -ENOMSG;
}

static void mapped(void)
{
	pid_t pid = owner(echo);
	uint64_t entries, posts, broken;
	long back = 0;
	bool good;

	/*
	 * The owner enters the kernel on its way from START and for mapping the
	 * rings. It enters once per page where the processor does not set a
	 * page's dirty bit itself (arm64 before 8.1, or without
	 * ARM64_HW_AFDBM). So one round trip comes before the count.
	 */
	post(fd, 0);
	wait_for(poll_one(fd) == 0, HANG_MS);
	round_trips(&back);
	posts = stat_of(page, ISOLATOR_STAT_POSTS);
	entries = stat_of(page, ISOLATOR_STAT_ENTRIES);
	broken = breaches(page);
	good = round_trips(&back);
	ok(good, "messages come back in order (%ld)", back);
	entries = stat_of(page, ISOLATOR_STAT_ENTRIES) - entries;
	broken = breaches(page) - broken;
	/* Soon after boot, the kernel may change its clock: stop_machine(). */
	ok(entries <= broken,
	   "no message took the owner into the kernel (entries %llu, breaches by others %llu)",
	   (unsigned long long)entries, (unsigned long long)broken);
	ok(stat_of(page, ISOLATOR_STAT_POSTS) - posts == (uint64_t)messages,
	   "each post was counted");
	ok(gone(pid), "the owner ends");
}

static void called(void)
{
	pid_t pid = owner(answer);
	long back = 0;
	bool good = round_trips(&back);

	ok(good, "by calls alone too (%ld)", back);
	ok(shared->word & ISOLATOR_PENDING_MESSAGE,
	   "the owner saw it in its word");
	ok(gone(pid) && !shared->wrong, "the owner polled to the end");
}

static void full(void)
{
	pid_t pid = owner(ignore);
	int i, error = 0;

	for (i = 0; i < ISOLATOR_RING_SLOTS && !error; i++)
		error = post(fd, i);
	ok(!error && post(fd, i) == ENOBUFS, "a full ring takes no more");
	ok(page->pending & ISOLATOR_PENDING_MESSAGE, "the word says so");
	ok(status_of(fd, cpu).refused == ISOLATOR_RING_FULL, "STATUS says why");
	ok(gone(pid), "the owner ends");
	ok(post(fd, 0) == ENOTCONN && poll_one(fd) == -ENOTCONN,
	   "no message without an owner");
	pid = owner(ignore);
	ok(!post(fd, 0), "the next owner finds an empty ring");
	ok(gone(pid), "the owner ends");
}

static void spoilt(void)
{
	pid_t pid = owner(spoil);

	ok(post(fd, 0) == EBADMSG, "an index that makes no sense: POST");
	ok(poll_one(fd) == -EBADMSG, "an index that makes no sense: POLL");
	ok(gone(pid), "the owner ends");
	pid = owner(ignore);
	ok(!post(fd, 0) && poll_one(fd) == -ENOMSG, "the next one has none of it");
	ok(gone(pid), "the owner ends");
}

/* ---- another owner ---- */

static void phase(int next)
{
	__atomic_store_n(&shared->phase, next, __ATOMIC_RELEASE);
}

static bool reached(int next)
{
	return wait_for(__atomic_load_n(&shared->phase, __ATOMIC_ACQUIRE) == next,
			HANG_MS);
}

static bool holds(const struct isolator_ring *ring, uint64_t word)
{
	int i, j;

	for (i = 0; i < ISOLATOR_RING_SLOTS; i++)
		for (j = 0; j < 7; j++)
			if (ring->slot[i].data[j] == word)
				return true;
	return false;
}

#define SECRET	0x5ec2e7

/* A former owner, which keeps the mapping of its rings and tries to use it */
static void former(void)
{
	int own = open_isolator();
	struct isolator_rings *rings;
	int said = 0;

	pin(cpu);
	if (start_patiently(own, ISOLATOR_MASK_DEFAULT))
		die("start");
	rings = rings_of(own);
	if (stop(own))
		die("stop");
	pin(HOUSE_CPU);
	phase(1);
	reached(2);
	if (holds(&rings->in, SECRET) || holds(&rings->out, SECRET))
		said |= 1;
	memset(rings, 0xff, SIZE);
	if (post(own, 1) != EACCES || poll_one(own) != -EACCES)
		said |= 2;
	if (mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, own,
		 ISOLATOR_MMAP_RINGS(cpu)) != MAP_FAILED || errno != EACCES)
		said |= 4;
	shared->said = said;
	phase(3);
	for (;;)
		sleep_us(1000000);
}

static void tenants(void)
{
	pid_t before, now;
	bool posted;

	memset(shared, 0, sizeof(*shared));
	before = child();
	if (!before)
		former();
	if (!reached(1))
		die("have an owner come and go");
	/* Clears the phase; the former owner waits until it is 2. */
	now = owner(ignore);
	posted = !post(fd, SECRET);
	phase(2);
	if (!reached(3))
		die("have the former owner try");
	ok(posted && !(shared->said & 1),
	   "the former owner's mapping does not show what the next one is sent");
	ok(!(shared->said & 2), "the former owner may not post and poll");
	ok(!(shared->said & 4), "the former owner may not map");
	ok(!post(fd, SECRET + 1) && poll_one(fd) == -ENOMSG,
	   "the next owner gets nothing that it writes into its mapping");
	ok(post(device, 0) == EACCES && poll_one(device) == -EACCES,
	   "another open file may not post and poll");
	kill(before, SIGKILL);
	reap(before);
	ok(gone(now), "the owner ends");
}

/* ---- refusals ---- */

static bool no_map_of(int file, size_t size, int rights, int flags, int error)
{
	void *at = mmap(NULL, size, rights, flags, file,
			ISOLATOR_MMAP_RINGS(cpu));

	if (at == MAP_FAILED && errno == error)
		return true;
	say("mmap(%zu, %#x, %#x): %p, errno %d", size, rights, flags, at, errno);
	return false;
}

/* In the owner's process */
static void maps(void)
{
	const int both = PROT_READ | PROT_WRITE;
	int own = become_owner();
	struct isolator_rings *rings = rings_of(own);
	int wrong = 0;
	pid_t pid;

	if (!no_map_of(own, SIZE, both | PROT_EXEC, MAP_SHARED, EACCES) ||
	    !no_map_of(own, SIZE, both, MAP_PRIVATE, EACCES) ||
	    !no_map_of(own, SIZE - PAGE, both, MAP_SHARED, EINVAL) ||
	    !no_map_of(own, SIZE + PAGE, both, MAP_SHARED, EINVAL))
		wrong |= 1;
	if (mremap(rings, SIZE, 2 * SIZE, MREMAP_MAYMOVE) != MAP_FAILED ||
	    errno != EFAULT)
		wrong |= 2;
	pid = child();
	if (!pid) {
		pin(HOUSE_CPU);
		_exit(no_map_of(own, SIZE, both, MAP_SHARED, EACCES) &&
		      madvise(rings, SIZE, MADV_NORMAL) && errno == ENOMEM ?
		      PASSED : FAILED);
	}
	if (reap(pid))
		wrong |= 4;
	shared->wrong = wrong;
	ready();
	while (!leave())
		relax();
}

static void refusals(void)
{
	struct isolator_post argument = { .size = sizeof(argument) - 1,
					  .cpu = cpu };
	pid_t pid = owner(maps);

	ok(!(shared->wrong & 1), "other mappings");
	ok(!(shared->wrong & 2), "the mapping does not grow");
	ok(!(shared->wrong & 4), "a child has no mapping, and makes none");
	ok(no_map_of(fd, SIZE, PROT_READ, MAP_SHARED, EACCES),
	   "another process does not map");
	ok(ioctl(fd, ISOLATOR_IOC_POST, &argument) == -1 && errno == EINVAL,
	   "a size that is not understood");
	argument.size = sizeof(argument);
	argument.cpu = 100000;
	ok(ioctl(fd, ISOLATOR_IOC_POLL, &argument) == -1 && errno == EINVAL,
	   "no such CPU");
	argument.cpu = HOUSE_CPU;
	ok(ioctl(fd, ISOLATOR_IOC_POST, &argument) == -1 && errno == ENOTCONN,
	   "a CPU that has no owner");
	ok(ioctl(fd, ISOLATOR_IOC_POST, NULL) == -1 && errno == EFAULT &&
	   ioctl(fd, ISOLATOR_IOC_POLL, ~0UL << 47) == -1 && errno == EFAULT,
	   "bad pointers");
	ok(gone(pid), "the owner ends");
}

int main(int argc, char **argv)
{
	arguments(argc, argv, (const struct argument[]){
		{ "--messages", &messages, false },
		{ "--slow", &slow, false }, { } });
	cpu = isolated_cpu();
	device = fd = open_isolator();
	if (!has_part("messages"))
		skip_all("a kernel without CONFIG_ISOLATOR_MESSAGES");
	page = page_of(device, cpu);
	shared = share(PAGE);
	start_alone(cpu);
	pin(HOUSE_CPU);

	mapped();
	called();
	full();
	spoilt();
	tenants();
	refusals();
	return finish();
}
