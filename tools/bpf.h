/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * For each BPF part (*.bpf.c): the kernel's helpers by their numbers, what its structures are read with, and the shape of maps.
 *
 * Numbers and arguments of helpers are those of the kernel's <linux/bpf.h>, which is an interface. Of the kernel's structures each
 * part declares the fields that it reads; the loader finds where they lie in this kernel (BPF CO-RE).
 *
 * Each part is built twice. A kernel without types of its own (CONFIG_DEBUG_INFO_BTF), or before 5.15, knows a pointer as a number only:
 * for it (PLAIN) a helper reads each field, and tp_btf and fentry do not exist.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define CORE __attribute__((preserve_access_index))

#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_LRU_HASH = 9, MAP_STACK = 23, MAP_RINGBUF = 27 };
enum { NO_WAKEUP = 1 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *to, u32 size) = (void *)16;
static long (*bpf_get_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static u64 (*bpf_ringbuf_query)(void *ring, u64 what) = (void *)134;
static u64 (*bpf_get_attach_cookie)(void *ctx) = (void *)174;

#if defined(__TARGET_ARCH_arm64)
struct pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 orig_x0;
	int syscallno;
} CORE;
#else
struct pt_regs {
	unsigned long bp, bx, r10, r9, r8, cx, dx, si, di, orig_ax, ip, sp;
} CORE;
#endif

/* Whether this kernel's structures have it. */
#define HAS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)

/* Its distance from the begin of the structure. */
#define OFFSET(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)

#define READ(to, pointer, type, field)                                     \
	({                                                                 \
		const type *from_ = (const type *)(pointer);               \
		bpf_probe_read_kernel(&(to), sizeof(to), &from_->field);   \
	})

#if defined(PLAIN)
static void *(*current_task)(void) = (void *)35; /* bpf_get_current_task() */

/* A field of at most eight bytes. */
#define GET(pointer, field)                                                                              \
	({                                                                                               \
		u64 value_ = 0;                                                                          \
		bpf_probe_read_kernel(&value_, __builtin_preserve_field_info((pointer)->field, 1),       \
				      &(pointer)->field);                                                \
		(typeof((pointer)->field + 0))value_;                                                    \
	})

struct task_struct___plain {
	void *stack;
} CORE;

/* How far they lie from the begin of a thread's stack; src/bpf/types.rs of the crate cause tries it out. */
const volatile u64 registers_from_stack = 0;

/* The registers with which a thread entered the kernel. */
INLINE void *registers_of(const void *task)
{
	return (void *)((u64)GET((const struct task_struct___plain *)task, stack) + registers_from_stack);
}
#else
static void *(*current_task)(void) = (void *)158;	  /* bpf_get_current_task_btf() */
static void *(*registers_of_task)(void *task) = (void *)175; /* bpf_task_pt_regs() */

#define GET(pointer, field) ((pointer)->field)

INLINE void *registers_of(const void *task)
{
	return registers_of_task((void *)task);
}
#endif

struct task_struct___state {
	u32 __state;
} CORE;

struct task_struct___before_5_14 {
	long state;
} CORE;

/* Of a thread that is current, or of one that the verifier knows. */
INLINE u32 state_of(const void *task)
{
	if (HAS(struct task_struct___before_5_14, state))
		return GET((const struct task_struct___before_5_14 *)task, state);
	return GET((const struct task_struct___state *)task, __state);
}

/* The compiler may not know what a value is from here on: an address is made of it only after its bounds were checked. */
#define KEEP_APART(value) asm volatile("" : "+r"(value))

/* What a raw tracepoint is given: its arguments as they are. */
struct arguments {
	u64 of[8];
};
