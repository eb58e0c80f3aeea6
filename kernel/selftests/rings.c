// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages between an owner and others: POST, POLL and the mapped rings.
 *
 * Why: they are the way to talk to a CPU that must not be interrupted. So they
 * have to arrive, once and in order, and the owner must not have entered the
 * kernel for it: its own count of entries says so, to the last one.
 *
 * How to read: a line per case. --messages N of the round trips, --slow K.
 */
#include "selftest.h"

#define SIZE	((sizeof(struct isolator_rings) + PAGE - 1) / PAGE * PAGE)

struct shared {
	int	ready, leave;
	long	wrong;
	unsigned int word;	/* what the owner saw in its word */
};

static struct shared *shared;
static const struct isolator_page *page;
static long messages = 20000;
static int cpu, fd;

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

/* Sends back what comes, and never enters the kernel. */
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

/* Sees the bit in its word, polls, posts back; by calls alone. */
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
	return pid;
}

static bool gone(pid_t pid)
{
	__atomic_store_n(&shared->leave, 1, __ATOMIC_RELEASE);
	return reap(pid) == 0;
}

/* ---- cases ---- */

/* As many on the way as fit; all come back in order. */
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
	 * On its way from START, and from mapping the rings, it enters; and once
	 * a page where the processor does not set a page's dirty bit by itself
	 * (arm64 before 8.1, or without ARM64_HW_AFDBM). So once around first.
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
	/* A kernel that has just booted may change its clock: stop_machine(). */
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
	ok(wait_for(post(fd, 0) == ENOTCONN, HANG_MS),
	   "no post without an owner");
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

static bool no_map(size_t size, int rights, int flags, int error)
{
	void *at = mmap(NULL, size, rights, flags, fd, ISOLATOR_MMAP_RINGS(cpu));

	if (at == MAP_FAILED && errno == error)
		return true;
	say("mmap(%zu, %#x, %#x): %p, errno %d", size, rights, flags, at, errno);
	return false;
}

static void refusals(void)
{
	struct isolator_post argument = { .size = sizeof(argument) - 1,
					  .cpu = cpu };
	const int both = PROT_READ | PROT_WRITE;

	ok(ioctl(fd, ISOLATOR_IOC_POST, &argument) == -1 && errno == EINVAL,
	   "a size that is not understood");
	argument.size = sizeof(argument);
	argument.cpu = 100000;
	ok(ioctl(fd, ISOLATOR_IOC_POLL, &argument) == -1 && errno == EINVAL,
	   "no such CPU");
	argument.cpu = HOUSE_CPU;
	ok(ioctl(fd, ISOLATOR_IOC_POST, &argument) == -1 && errno == EINVAL,
	   "a CPU that cannot be isolated");
	ok(ioctl(fd, ISOLATOR_IOC_POST, NULL) == -1 && errno == EFAULT &&
	   ioctl(fd, ISOLATOR_IOC_POLL, ~0UL << 47) == -1 && errno == EFAULT,
	   "bad pointers");
	ok(no_map(SIZE, both | PROT_EXEC, MAP_SHARED, EACCES) &&
	   no_map(SIZE, both, MAP_PRIVATE, EACCES) &&
	   no_map(SIZE - PAGE, both, MAP_SHARED, EINVAL) &&
	   no_map(SIZE + PAGE, both, MAP_SHARED, EINVAL),
	   "other mappings");
	ok(mremap(rings_of(fd), SIZE, 2 * SIZE, MREMAP_MAYMOVE) == MAP_FAILED &&
	   errno == EFAULT, "the mapping does not grow");
}

int main(int argc, char **argv)
{
	arguments(argc, argv, (const struct argument[]){
		{ "--messages", &messages, false },
		{ "--slow", &slow, false }, { } });
	cpu = isolated_cpu();
	fd = open_isolator();
	page = page_of(fd, cpu);
	shared = share(PAGE);
	start_alone(cpu);
	pin(HOUSE_CPU);

	mapped();
	called();
	full();
	spoilt();
	refusals();
	return finish();
}
