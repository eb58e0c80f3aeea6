// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: messages between an owner and others, without interrupts.
 *
 * Each owned CPU has two rings, in pages that its owner may map:
 *
 *	in	others --- POST ---> owner
 *	out	owner ---> POLL --- others
 *
 * The rings belong to one isolation, from START to its end. START takes new
 * pages, so that a mapping that outlives an isolation shows nothing of the next
 * one. The rings are accessible only through the open file of START. The owner
 * chooses which processes may post and poll by passing them that file.
 *
 * Each ring has one producer and one consumer at a time. The kernel has the
 * others' end, under a lock. The owner accesses its own end by the mapping or
 * by the same calls. The kernel keeps the indices of its ends in its own
 * memory, and shows them in the ring. It checks the indices that it reads from
 * the owner. An owner that writes invalid indices loses messages, and harms
 * nothing else.
 *
 * A sender sets MESSAGE in the owner's word after it has posted. The owner
 * clears the bit before it reads the ring, so that it overlooks no message.
 */
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "isolator.h"

#define RINGS_SIZE	PAGE_ALIGN(sizeof(struct isolator_rings))

/**
 * struct isolator_messages - messages from and to a CPU's owner
 * @lock: guards all fields below, with interrupts off; @file and @rings change
 *	only under isolator_lock as well
 * @file: file of START; NULL: the CPU has no owner, so no messages
 * @rings: rings that the owner maps; kept after the end, until the next START
 * @in_head: index of the next message to the owner
 * @out_tail: index of the next message from the owner
 */
struct isolator_messages {
	raw_spinlock_t		lock;
	struct file		*file;
	struct isolator_rings	*rings;
	u32			in_head;
	u32			out_tail;
};

static DEFINE_PER_CPU(struct isolator_messages, isolator_messages) = {
	.lock = __RAW_SPIN_LOCK_UNLOCKED(isolator_messages.lock),
};

/**
 * isolator_ring_put() - put a message into a ring
 * @ring: ring
 * @head: the producer's index
 * @tail: the consumer's index
 * @message: message
 *
 * Return: ISOLATOR_OK, or ISOLATOR_RING_FULL or _BROKEN with the ring
 * unchanged.
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
	/* Message before index; pairs with the consumer's acquire. */
	smp_store_release(&ring->head, head + 1);
	return ISOLATOR_OK;
}

/**
 * isolator_ring_take() - take a message out of a ring
 * @ring: ring
 * @head: the producer's index
 * @tail: the consumer's index
 * @message: buffer for the message
 *
 * Return: ISOLATOR_OK, or ISOLATOR_RING_EMPTY or _BROKEN with the ring
 * unchanged.
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
	/* Read before reuse of the slot; pairs with the producer's acquire. */
	smp_store_release(&ring->tail, tail + 1);
	return ISOLATOR_OK;
}

static void raise_message(int cpu)
{
	/* Post before the bit; pairs with lower_message(). */
	smp_mb__before_atomic();
	atomic_or(ISOLATOR_PENDING_MESSAGE,
		  isolator_word(per_cpu_ptr(&isolator_cpu, cpu)));
}

static void lower_message(int cpu)
{
	atomic_andnot(ISOLATOR_PENDING_MESSAGE,
		      isolator_word(per_cpu_ptr(&isolator_cpu, cpu)));
	/* Bit before the read of the ring; pairs with raise_message(). */
	smp_mb__after_atomic();
}

/* Clears the bit, and sets it again if a message is left; under the lock */
static void look_for_messages(int cpu, struct isolator_messages *messages)
{
	lower_message(cpu);
	if (messages->in_head != READ_ONCE(messages->rings->in.tail))
		raise_message(cpu);
}

/* Reason why a file may not use the rings; under the lock */
static enum isolator_reason refused(struct isolator_messages *messages,
				    struct file *file)
{
	return !messages->file ? ISOLATOR_NOT_OWNED :
	       messages->file != file ? ISOLATOR_OTHER_FILE : ISOLATOR_OK;
}

static bool owned_by_current(int cpu)
{
	return READ_ONCE(per_cpu(isolator_cpu.owner, cpu)) == current;
}

/**
 * isolator_message_post() - POST: put a message into a ring
 * @cpu: CPU
 * @file: file through which the call comes
 * @message: message
 *
 * Return: ISOLATOR_OK, or the reason for a refusal.
 */
enum isolator_reason isolator_message_post(int cpu, struct file *file,
					   const struct isolator_message *message)
{
	struct isolator_messages *messages = per_cpu_ptr(&isolator_messages, cpu);
	struct isolator_rings *rings;
	enum isolator_reason why;
	u32 tail;

	guard(raw_spinlock_irqsave)(&messages->lock);
	why = refused(messages, file);
	if (why)
		return why;
	rings = messages->rings;
	if (owned_by_current(cpu))
		return isolator_ring_put(&rings->out,
					 READ_ONCE(rings->out.head),
					 messages->out_tail, message);
	/* Pairs with the owner's release: it has read the slot. */
	tail = smp_load_acquire(&rings->in.tail);
	why = isolator_ring_put(&rings->in, messages->in_head, tail, message);
	if (why)
		return why;
	messages->in_head++;
	isolator_count(per_cpu_ptr(&isolator_cpu, cpu), ISOLATOR_STAT_POSTS);
	raise_message(cpu);
	return ISOLATOR_OK;
}

/**
 * isolator_message_poll() - POLL: take a message out of a ring
 * @cpu: CPU
 * @file: file through which the call comes
 * @message: buffer for the message
 *
 * Return: ISOLATOR_OK, or the reason for a refusal.
 */
enum isolator_reason isolator_message_poll(int cpu, struct file *file,
					   struct isolator_message *message)
{
	struct isolator_messages *messages = per_cpu_ptr(&isolator_messages, cpu);
	struct isolator_rings *rings;
	enum isolator_reason why;
	u32 head;

	guard(raw_spinlock_irqsave)(&messages->lock);
	why = refused(messages, file);
	if (why)
		return why;
	rings = messages->rings;
	isolator_count(per_cpu_ptr(&isolator_cpu, cpu), ISOLATOR_STAT_POLLS);
	if (owned_by_current(cpu)) {
		why = isolator_ring_take(&rings->in, messages->in_head,
					 READ_ONCE(rings->in.tail), message);
		look_for_messages(cpu, messages);
		return why;
	}
	/* Pairs with the owner's release: it has written the slot. */
	head = smp_load_acquire(&rings->out.head);
	why = isolator_ring_take(&rings->out, head, messages->out_tail, message);
	if (!why)
		messages->out_tail++;
	return why;
}

/* TICK of an owner that has MESSAGE in its word */
void isolator_messages_tick(int cpu)
{
	struct isolator_messages *messages = per_cpu_ptr(&isolator_messages, cpu);

	guard(raw_spinlock_irqsave)(&messages->lock);
	if (messages->file)
		look_for_messages(cpu, messages);
}

/* Rings for one isolation; false: no memory */
bool isolator_rings_alloc(struct isolator_rings **rings)
{
	*rings = alloc_pages_exact(RINGS_SIZE, GFP_KERNEL | __GFP_ZERO);
	return *rings;
}

/* A process that has mapped the rings keeps their pages. */
void isolator_rings_free(struct isolator_rings *rings)
{
	if (rings)
		free_pages_exact(rings, RINGS_SIZE);
}

/**
 * isolator_messages_start() - set up the rings of a new owner
 * @cpu: CPU
 * @file: file through which START was called
 * @rings: new rings
 *
 * Context: Under isolator_lock.
 * Return: the rings of the previous owner, for the caller to free.
 */
struct isolator_rings *isolator_messages_start(int cpu, struct file *file,
					       struct isolator_rings *rings)
{
	struct isolator_messages *messages = per_cpu_ptr(&isolator_messages, cpu);

	guard(raw_spinlock)(&messages->lock);
	messages->file = file;
	swap(messages->rings, rings);
	messages->in_head = 0;
	messages->out_tail = 0;
	lower_message(cpu);
	return rings;
}

/* Isolation has ended; under isolator_lock */
void isolator_messages_end(int cpu)
{
	struct isolator_messages *messages = per_cpu_ptr(&isolator_messages, cpu);

	guard(raw_spinlock)(&messages->lock);
	messages->file = NULL;
	lower_message(cpu);
}

/* POST and POLL */
enum isolator_reason isolator_messages_ioctl(struct file *file, bool take,
					     void __user *at, int *error)
{
	struct isolator_post argument;
	enum isolator_reason why;
	u32 cpu;

	*error = 0;
	if (copy_from_user(&argument, at, sizeof(argument))) {
		*error = -EFAULT;
		return ISOLATOR_OK;
	}
	cpu = argument.cpu == ISOLATOR_THIS_CPU ? raw_smp_processor_id() :
						  argument.cpu;
	if (argument.size != sizeof(argument) || cpu >= nr_cpu_ids ||
	    !cpu_possible(cpu))
		return ISOLATOR_BAD_CPU;
	if (!take)
		return isolator_message_post(cpu, file, &argument.message);
	why = isolator_message_poll(cpu, file, &argument.message);
	if (!why && copy_to_user(at, &argument, sizeof(argument)))
		*error = -EFAULT;
	return why;
}

/* The rings, with a reference to each page; NULL: not the owner's process */
static struct isolator_rings *get_rings(int cpu, struct file *file)
{
	struct isolator_messages *messages = per_cpu_ptr(&isolator_messages, cpu);
	struct isolator_rings *rings;
	unsigned long at;

	guard(raw_spinlock_irqsave)(&isolator_lock);
	if (refused(messages, file) ||
	    !same_thread_group(per_cpu(isolator_cpu.owner, cpu), current))
		return NULL;
	rings = messages->rings;
	for (at = 0; at < RINGS_SIZE; at += PAGE_SIZE)
		get_page(virt_to_page((void *)rings + at));
	return rings;
}

/* Only the owner's process may map, after START, through its file. */
int isolator_messages_mmap(struct file *file, struct vm_area_struct *vma, int cpu)
{
	struct isolator_rings *rings;
	unsigned long at;
	int ret = 0;

	if (vma->vm_end - vma->vm_start != RINGS_SIZE)
		return -EINVAL;
	/* A private mapping would be a copy, without another end. */
	if ((vma->vm_flags & VM_EXEC) || !(vma->vm_flags & VM_SHARED))
		return -EACCES;
	rings = get_rings(cpu, file);
	if (!rings)
		return -EACCES;
	/* A child of the owner does not inherit the mapping. */
	vm_flags_mod(vma, VM_DONTDUMP | VM_DONTEXPAND | VM_DONTCOPY, VM_MAYEXEC);
	for (at = 0; at < RINGS_SIZE; at += PAGE_SIZE) {
		struct page *page = virt_to_page((void *)rings + at);

		if (!ret)
			ret = vm_insert_page(vma, vma->vm_start + at, page);
		put_page(page);
	}
	return ret;
}

static int __init isolator_messages_init(void)
{
	BUILD_BUG_ON(sizeof(struct isolator_message) != 64);
	BUILD_BUG_ON(!is_power_of_2(ISOLATOR_RING_SLOTS));
	BUILD_BUG_ON(ISOLATOR_MMAP_OFFSET(1) / 2 < RINGS_SIZE);
	return 0;
}
core_initcall(isolator_messages_init);
