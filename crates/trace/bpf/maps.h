/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Maps of threads.bpf.c: the watched threads by number, the CPUs, the ring of records; how a thread begins and ends to be watched.
 */

/*
 * Watched threads, each in a slot. Each of a cycle's three tracepoints of the scheduler looks for its thread, and each context switch
 * of the machine for two: so an array, which a program looks into without a call, has the slots by the numbers of threads. A hash
 * table took some 150 instructions each time.
 */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, THREADS + 1);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* Slots of threads, 0 for one that is not watched. A value of an array takes 8 bytes at least, hence groups. */
struct group {
	u16 slot[THREADS_IN_GROUP];
};

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, MOST_THREADS / THREADS_IN_GROUP);
	__type(key, u32);
	__type(value, struct group);
} slots SEC(".maps");

/* Slots without a thread: filled by user space at the start. */
struct {
	__uint(type, MAP_STACK);
	__uint(max_entries, THREADS);
	__type(value, u32);
} free_slots SEC(".maps");

/* Processes whose new threads are watched too. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u32);
} processes SEC(".maps");

/* Timers that begin the periods of DEADLINE threads, with their thread. New ones replace the oldest. */
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, THREADS);
	__type(key, u64);
	__type(value, u32);
} timers SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, CPUS);
	__type(key, u32);
	__type(value, struct here);
} cpus SEC(".maps");

/* A thread as it begins to be watched: too large for the stack of this program. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct thread);
} blank SEC(".maps");

struct {
	__uint(type, MAP_RINGBUF);
	__uint(max_entries, RING_BYTES);
} records SEC(".maps");

/* The number of records for which the ring had no room. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

/* The number of stacks that were not copied: too many of one thread, or a ring that is half full. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} withheld SEC(".maps");

/* The address of hrtimer_wakeup(), whose timers are on stacks. */
const volatile u64 hrtimer_wakeup = 0;
/* Longer waits have a stack. */
const volatile u64 stack_over_ns = 20000;
/* Whether there is any timer in `timers`: if not, none needs to be looked up. */
u32 has_timers = 0;
/* System calls, by their numbers here. */
const volatile u32 futex_call = 202;
const volatile u32 yield_call = 24;
const volatile u32 restart_call = 219;

#define ON(tracepoint) SEC("raw_tp/" #tracepoint) int tracepoint(struct arguments *given)
#if defined(PLAIN)
#define ON_TYPED ON
#else
/* The kernel's types of the tracepoints of every cycle are known, so that their arguments are read directly; none is ever NULL. */
#define ON_TYPED(tracepoint) SEC("tp_btf/" #tracepoint) int tracepoint(struct arguments *given)
#endif

INLINE struct here *here_of(u32 cpu)
{
	return cpu < CPUS ? bpf_map_lookup_elem(&cpus, &cpu) : 0;
}

INLINE u16 *slot_of(u32 pid)
{
	u32 key = pid / THREADS_IN_GROUP;
	struct group *group = bpf_map_lookup_elem(&slots, &key);

	return group ? &group->slot[pid % THREADS_IN_GROUP] : 0;
}

INLINE struct thread *watched(u32 pid)
{
	u16 *slot = slot_of(pid);
	u32 key = slot ? *slot : 0;

	return key ? bpf_map_lookup_elem(&threads, &key) : 0;
}

/* Watches a thread from now on. */
INLINE int watch(u32 pid)
{
	u16 *slot = slot_of(pid);
	u32 zero = 0, key = 0;
	struct thread *fresh = bpf_map_lookup_elem(&blank, &zero);

	if (slot && *slot)
		return WATCHED_BEFORE;
	if (!slot || !fresh || bpf_map_pop_elem(&free_slots, &key))
		return NO_ROOM;
	bpf_map_update_elem(&threads, &key, fresh, 0);
	*slot = key;
	return WATCHED_NOW;
}

INLINE void unwatch(u32 pid)
{
	u16 *slot = slot_of(pid);
	u32 key = slot ? *slot : 0;

	if (!key)
		return;
	*slot = 0;
	bpf_map_push_elem(&free_slots, &key, 0);
}
