// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: messages between an owner and others, without interrupts.
 *
 * User space has two rings per CPU, in pages that it may map and write:
 *
 *	in	others --- POST, isolator_post_message() ---> owner
 *	out	owner ---> POLL, isolator_poll_message() --- others
 *
 * Each has one producer and one consumer at a time. The others' end is the
 * kernel's, under a lock. The owner's end is its own, by the mapping or by the
 * same calls. The kernel keeps the indices of its ends for itself, shows them
 * in the ring, and checks what it reads of the owner's: an owner that writes
 * nonsense loses messages, nothing else.
 *
 * Kernel code may have a function called on an isolated CPU, in process
 * context, by its owner's next TICK: isolator_post_call(). The memory for that
 * comes from a cache of its own, and was taken when the kernel booted, so that
 * neither end allocates.
 *
 * Whoever posts to an owner sets MESSAGE in its word afterwards, and the owner
 * clears it before it looks: none is overlooked.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/tick.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "isolator.h"

#define CALLS_PER_CPU	64

struct isolator_call {
	struct list_head	node;
	void			(*func)(void *data);
	void			*data;
};

/**
 * struct isolator_messages - messages from and to a CPU's owner
 * @lock: guards the three below, and the kernel's ends of the rings
 * @rings: what user space maps; NULL: the CPU cannot be isolated
 * @in_head: where the next message to the owner goes
 * @out_tail: where the next one from it is
 * @calls: calls that wait for a TICK; under isolator_lock, as is
 * @pool: room for more
 * @late: makes those that were left when isolation ended
 */
struct isolator_messages {
	raw_spinlock_t		lock;
	struct isolator_rings	*rings;
	u32			in_head;
	u32			out_tail;

	struct list_head	calls;
	struct list_head	pool;
	struct work_struct	late;
};

static DEFINE_PER_CPU(struct isolator_messages, isolator_messages);

/**
 * isolator_ring_put() - put a message into a ring
 * @ring: ring
 * @head: the producer's index
 * @tail: the consumer's
 * @message: message
 *
 * Return: ISOLATOR_OK, or ISOLATOR_RING_FULL or _BROKEN with the ring unchanged.
 */
enum isolator_reason isolator_ring_put(struct isolator_ring *ring, u32 head,
				       u32 tail,
				       const struct isolator_message *message)
{
	if (head - tail > ISOLATOR_RING_SLOTS)
		return ISOLATOR_RING_BROKEN;
	if (head - tail == ISOLATOR_RING_SLOTS)
		return ISOLATOR_RING_FULL;
	ring->slot[head % ISOLATOR_RING_SLOTS] = *message;
	/* The message before the index; pairs with the consumer's acquire. */
	smp_store_release(&ring->head, head + 1);
	return ISOLATOR_OK;
}

/**
 * isolator_ring_take() - take a message out of a ring
 * @ring: ring
 * @head: the producer's index
 * @tail: the consumer's
 * @message: where it goes
 *
 * Return: ISOLATOR_OK, or ISOLATOR_RING_EMPTY or _BROKEN with the ring unchanged.
 */
enum isolator_reason isolator_ring_take(struct isolator_ring *ring, u32 head,
					u32 tail,
					struct isolator_message *message)
{
	if (head - tail > ISOLATOR_RING_SLOTS)
		return ISOLATOR_RING_BROKEN;
	if (head == tail)
		return ISOLATOR_RING_EMPTY;
	*message = ring->slot[tail % ISOLATOR_RING_SLOTS];
	/* Read before it is written over; pairs with the producer's acquire. */
	smp_store_release(&ring->tail, tail + 1);
	return ISOLATOR_OK;
}

static void raise_message(int cpu)
{
	/* What was posted before the bit; pairs with lower_message(). */
	smp_mb__before_atomic();
	atomic_or(ISOLATOR_PENDING_MESSAGE,
		  isolator_word(per_cpu_ptr(&isolator_cpu, cpu)));
}

static void lower_message(int cpu)
{
	atomic_andnot(ISOLATOR_PENDING_MESSAGE,
		      isolator_word(per_cpu_ptr(&isolator_cpu, cpu)));
	/* The bit before a look at what was posted; pairs with raise_message(). */
	smp_mb__after_atomic();
}

static bool anything_left(struct isolator_messages *messages)
{
	return READ_ONCE(messages->in_head) !=
		       READ_ONCE(messages->rings->in.tail) ||
	       !list_empty_careful(&messages->calls);
}

static struct isolator_messages *messages_of(int cpu)
{
	if (cpu < 0 || cpu >= nr_cpu_ids || !cpu_possible(cpu) ||
	    !per_cpu(isolator_messages.rings, cpu))
		return NULL;
	return per_cpu_ptr(&isolator_messages, cpu);
}

/* An interrupt's handler is not the owner that it interrupted. */
static bool owned_by_current(int cpu)
{
	return in_task() &&
	       READ_ONCE(per_cpu(isolator_cpu.owner, cpu)) == current;
}

static enum isolator_reason post(int cpu, const struct isolator_message *message)
{
	struct isolator_messages *messages = messages_of(cpu);
	bool mine = messages && owned_by_current(cpu);
	struct isolator_rings *rings;
	enum isolator_reason why;
	unsigned long flags;

	if (!messages)
		return ISOLATOR_BAD_CPU;
	/* Who posts to an owner that is just going has posted to the next. */
	if (!READ_ONCE(per_cpu(isolator_cpu.owner, cpu)))
		return ISOLATOR_NOT_OWNED;
	rings = messages->rings;
	raw_spin_lock_irqsave(&messages->lock, flags);
	if (mine) {
		why = isolator_ring_put(&rings->out,
					READ_ONCE(rings->out.head),
					messages->out_tail, message);
	} else {
		/* Pairs with the owner's release: it has read the slot. */
		u32 tail = smp_load_acquire(&rings->in.tail);

		why = isolator_ring_put(&rings->in, messages->in_head, tail,
					message);
		if (!why)
			WRITE_ONCE(messages->in_head, messages->in_head + 1);
	}
	raw_spin_unlock_irqrestore(&messages->lock, flags);
	if (why || mine)
		return why;
	isolator_count(per_cpu_ptr(&isolator_cpu, cpu), ISOLATOR_STAT_POSTS);
	raise_message(cpu);
	return ISOLATOR_OK;
}

static enum isolator_reason poll(int cpu, struct isolator_message *message)
{
	struct isolator_messages *messages = messages_of(cpu);
	bool mine = messages && owned_by_current(cpu);
	struct isolator_rings *rings;
	enum isolator_reason why;
	unsigned long flags;

	if (!messages)
		return ISOLATOR_BAD_CPU;
	rings = messages->rings;
	isolator_count(per_cpu_ptr(&isolator_cpu, cpu), ISOLATOR_STAT_POLLS);
	if (mine)
		lower_message(cpu);
	raw_spin_lock_irqsave(&messages->lock, flags);
	if (mine) {
		why = isolator_ring_take(&rings->in, messages->in_head,
					 READ_ONCE(rings->in.tail), message);
	} else {
		/* Pairs with the owner's release: it has written the slot. */
		u32 head = smp_load_acquire(&rings->out.head);

		why = isolator_ring_take(&rings->out, head, messages->out_tail,
					 message);
		if (!why)
			messages->out_tail++;
	}
	raw_spin_unlock_irqrestore(&messages->lock, flags);
	if (mine && anything_left(messages))
		raise_message(cpu);
	return why;
}

/**
 * isolator_post_message() - post a message to a CPU's owner
 * @cpu: CPU; if the caller is its owner, to whoever polls
 * @message: message, which the kernel does not look into
 *
 * Context: Any but NMI. Sends no interrupt.
 * Return: 0; -ENOTCONN: the CPU has no owner; -ENOBUFS: the ring is full;
 * -EBADMSG: the owner has spoilt it; -EINVAL: no CPU that can be isolated.
 */
int isolator_post_message(int cpu, const struct isolator_message *message)
{
	return isolator_errno(post(cpu, message));
}
EXPORT_SYMBOL_GPL(isolator_post_message);

/**
 * isolator_poll_message() - take a message that a CPU's owner posted
 * @cpu: CPU; if the caller is its owner, one that was posted to it
 * @message: where it goes
 *
 * Context: Any but NMI.
 * Return: 0; -ENOMSG: there is none; -EBADMSG: the owner has spoilt the ring;
 * -EINVAL: no CPU that can be isolated.
 */
int isolator_poll_message(int cpu, struct isolator_message *message)
{
	return isolator_errno(poll(cpu, message));
}
EXPORT_SYMBOL_GPL(isolator_poll_message);

/**
 * isolator_post_call() - have a function called on an isolated CPU, some time
 * @cpu: CPU
 * @func: called once, preemptible: by the owner's next TICK there, or, if
 *	isolation ends before, by a worker anywhere
 * @data: its argument
 *
 * Calls of one CPU are made in the order in which they were posted. A module
 * waits for its own before it goes.
 *
 * Context: Any but NMI. Sends no interrupt.
 * Return: 0; -ENOTCONN: the CPU has no owner: call it otherwise; -ENOBUFS: too
 * many wait; -EINVAL: no CPU that can be isolated.
 */
int isolator_post_call(int cpu, void (*func)(void *data), void *data)
{
	struct isolator_messages *messages = messages_of(cpu);
	enum isolator_reason why = ISOLATOR_OK;
	struct isolator_call *call;
	unsigned long flags;

	if (!messages)
		return isolator_errno(ISOLATOR_BAD_CPU);
	raw_spin_lock_irqsave(&isolator_lock, flags);
	call = list_first_entry_or_null(&messages->pool, struct isolator_call,
					node);
	if (!per_cpu(isolator_cpu.owner, cpu)) {
		why = ISOLATOR_NOT_OWNED;
	} else if (!call) {
		why = ISOLATOR_RING_FULL;
	} else {
		call->func = func;
		call->data = data;
		list_move_tail(&call->node, &messages->calls);
		isolator_count(per_cpu_ptr(&isolator_cpu, cpu),
			       ISOLATOR_STAT_POSTS);
		raise_message(cpu);
	}
	raw_spin_unlock_irqrestore(&isolator_lock, flags);
	return isolator_errno(why);
}
EXPORT_SYMBOL_GPL(isolator_post_call);

static void make_calls(struct isolator_messages *messages)
{
	struct isolator_call *call;
	unsigned long flags;
	LIST_HEAD(calls);

	raw_spin_lock_irqsave(&isolator_lock, flags);
	list_splice_init(&messages->calls, &calls);
	raw_spin_unlock_irqrestore(&isolator_lock, flags);
	if (list_empty(&calls))
		return;
	list_for_each_entry(call, &calls, node)
		call->func(call->data);
	raw_spin_lock_irqsave(&isolator_lock, flags);
	list_splice(&calls, &messages->pool);
	raw_spin_unlock_irqrestore(&isolator_lock, flags);
}

/* Of TICK; the owner's, whose word has MESSAGE */
void isolator_messages_tick(int cpu)
{
	struct isolator_messages *messages = messages_of(cpu);

	if (!messages)
		return;
	lower_message(cpu);
	make_calls(messages);
	if (anything_left(messages))
		raise_message(cpu);
}

/* A new owner finds the rings empty; under isolator_lock. */
void isolator_messages_start(int cpu)
{
	struct isolator_messages *messages = messages_of(cpu);
	struct isolator_rings *rings;

	if (!messages)
		return;
	rings = messages->rings;
	raw_spin_lock(&messages->lock);
	messages->in_head = 0;
	messages->out_tail = 0;
	rings->in.head = 0;
	rings->in.tail = 0;
	rings->out.head = 0;
	rings->out.tail = 0;
	raw_spin_unlock(&messages->lock);
	lower_message(cpu);
}

/* Isolation has ended: under isolator_lock, so no call comes any more. */
void isolator_messages_end(int cpu)
{
	struct isolator_messages *messages = messages_of(cpu);

	lower_message(cpu);
	if (messages && !list_empty(&messages->calls))
		queue_work(system_dfl_wq, &messages->late);
}

static void make_late_calls(struct work_struct *work)
{
	make_calls(container_of(work, struct isolator_messages, late));
}

/* POST and POLL */
enum isolator_reason isolator_messages_ioctl(bool take, void __user *at,
					     int *error)
{
	struct isolator_post argument;
	enum isolator_reason why;
	int cpu;

	*error = 0;
	if (copy_from_user(&argument, at, sizeof(argument))) {
		*error = -EFAULT;
		return ISOLATOR_OK;
	}
	cpu = argument.cpu == ISOLATOR_THIS_CPU ? raw_smp_processor_id() :
	      argument.cpu < nr_cpu_ids ? argument.cpu : -1;
	if (argument.size != sizeof(argument))
		return ISOLATOR_BAD_CPU;
	if (!take)
		return post(cpu, &argument.message);
	why = poll(cpu, &argument.message);
	if (!why && copy_to_user(at, &argument, sizeof(argument)))
		*error = -EFAULT;
	return why;
}

#define RINGS_SIZE	PAGE_ALIGN(sizeof(struct isolator_rings))

int isolator_messages_mmap(struct vm_area_struct *vma, int cpu)
{
	struct isolator_messages *messages = messages_of(cpu);
	unsigned long at;
	int ret = 0;

	if (!messages)
		return -ENODEV;
	if (vma->vm_end - vma->vm_start != RINGS_SIZE)
		return -EINVAL;
	/* A private copy would be a ring that nobody else sees. */
	if ((vma->vm_flags & VM_EXEC) || !(vma->vm_flags & VM_SHARED))
		return -EACCES;
	vm_flags_mod(vma, VM_DONTDUMP | VM_DONTEXPAND, VM_MAYEXEC);
	for (at = 0; at < RINGS_SIZE && !ret; at += PAGE_SIZE)
		ret = vm_insert_page(vma, vma->vm_start + at,
				     virt_to_page((void *)messages->rings + at));
	return ret;
}

/* Of CPUs that can be isolated, forever */
static int __init isolator_messages_init(void)
{
	struct kmem_cache *cache = KMEM_CACHE(isolator_call, SLAB_NO_MERGE);
	int cpu, i;

	BUILD_BUG_ON(sizeof(struct isolator_message) != 64);
	BUILD_BUG_ON(!is_power_of_2(ISOLATOR_RING_SLOTS));
	BUILD_BUG_ON(PAGE_ALIGN(sizeof(struct isolator_rings)) >
		     ISOLATOR_MMAP_OFFSET(1) / 2);
	if (!cache)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct isolator_messages *messages =
			per_cpu_ptr(&isolator_messages, cpu);

		raw_spin_lock_init(&messages->lock);
		INIT_LIST_HEAD(&messages->calls);
		INIT_LIST_HEAD(&messages->pool);
		INIT_WORK(&messages->late, make_late_calls);
		if (!tick_nohz_full_cpu(cpu) || !per_cpu(isolator_cpu.page, cpu))
			continue;
		messages->rings = alloc_pages_exact(RINGS_SIZE,
						    GFP_KERNEL | __GFP_ZERO);
		for (i = 0; messages->rings && i < CALLS_PER_CPU; i++) {
			struct isolator_call *call =
				kmem_cache_alloc_node(cache, GFP_KERNEL,
						      cpu_to_node(cpu));

			if (call)
				list_add(&call->node, &messages->pool);
		}
	}
	return 0;
}
postcore_initcall(isolator_messages_init);
