// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: /dev/isolator.
 *
 * An open file belongs to the process that opened it, since the last close of
 * the file ends the isolation that this process started. The opener may pass
 * the file to another process. That process can map the pages and call STATUS,
 * but not START. If the file is open for writing, the process can also exchange
 * messages with the owner that was started through it.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "isolator.h"

/**
 * struct isolator_file - an open /dev/isolator
 * @opener: process that opened it
 * @refused: reason for the last refusal of a call through it
 */
struct isolator_file {
	struct pid		*opener;
	enum isolator_reason	refused;
};

static int isolator_open(struct inode *inode, struct file *file)
{
	struct isolator_file *mine = kzalloc(sizeof(*mine), GFP_KERNEL);

	if (!mine)
		return -ENOMEM;
	mine->opener = get_pid(task_tgid(current));
	file->private_data = mine;
	return nonseekable_open(inode, file);
}

static int isolator_release(struct inode *inode, struct file *file)
{
	struct isolator_file *mine = file->private_data;

	isolator_end_file(file);
	put_pid(mine->opener);
	kfree(mine);
	return 0;
}

static long isolator_status(struct isolator_file *mine, void __user *to)
{
	struct isolator_status status;
	struct isolator_cpu *ic;
	unsigned long flags;

	if (copy_from_user(&status, to, offsetofend(struct isolator_status, cpu)))
		return -EFAULT;
	if (status.size != sizeof(status) ||
	    (status.cpu != ISOLATOR_THIS_CPU &&
	     (status.cpu >= nr_cpu_ids || !cpu_possible(status.cpu)))) {
		WRITE_ONCE(mine->refused, ISOLATOR_BAD_CPU);
		return isolator_errno(ISOLATOR_BAD_CPU);
	}
	if (status.cpu == ISOLATOR_THIS_CPU)
		status.cpu = raw_smp_processor_id();
	ic = per_cpu_ptr(&isolator_cpu, status.cpu);

	status = (struct isolator_status) {
		.size = sizeof(status),
		.cpu = status.cpu,
		.max_defer_ms = READ_ONCE(isolator_max_defer_ms),
		.refused = READ_ONCE(mine->refused),
	};
	raw_spin_lock_irqsave(&isolator_lock, flags);
	status.ended = ic->ended;
	if (ic->owner) {
		status.owner = task_pid_vnr(ic->owner);
		status.mask = ic->mask;
		status.pending = atomic_read(isolator_word(ic));
	}
	raw_spin_unlock_irqrestore(&isolator_lock, flags);
	strscpy(status.text, isolator_reason_text(status.refused),
		sizeof(status.text));
	return copy_to_user(to, &status, sizeof(status)) ? -EFAULT : 0;
}

static long isolator_ioctl(struct file *file, unsigned int command,
			   unsigned long argument)
{
	struct isolator_file *mine = file->private_data;
	enum isolator_reason why;
	int error;

	switch (command) {
	case ISOLATOR_IOC_START:
		why = mine->opener != task_tgid(current) ?
			      ISOLATOR_FOREIGN_FILE :
		      argument > U32_MAX ? ISOLATOR_BAD_MASK :
					   isolator_take(argument, file);
		break;
	case ISOLATOR_IOC_TICK:
		why = argument > U32_MAX ? ISOLATOR_BAD_FLAGS :
					   isolator_work(argument);
		break;
	case ISOLATOR_IOC_STOP:
		why = isolator_give();
		break;
	case ISOLATOR_IOC_STATUS:
		return isolator_status(mine, (void __user *)argument);
	case ISOLATOR_IOC_POST:
	case ISOLATOR_IOC_POLL:
		if (!(file->f_mode & FMODE_WRITE))
			return -EBADF;
		why = isolator_messages_ioctl(file, command == ISOLATOR_IOC_POLL,
					      (void __user *)argument, &error);
		if (error)
			return error;
		break;
	default:
		return -ENOTTY;
	}
	if (!why)
		return 0;
	WRITE_ONCE(mine->refused, why);
	return isolator_errno(why);
}

static int isolator_mmap(struct file *file, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 cpu = offset / ISOLATOR_MMAP_OFFSET(1);
	struct isolator_page *page;

	if (cpu >= nr_cpu_ids || !cpu_possible(cpu))
		return -EINVAL;
	if (offset == ISOLATOR_MMAP_RINGS(cpu))
		return isolator_messages_mmap(file, vma, cpu);
	if (offset % ISOLATOR_MMAP_OFFSET(1) || vma_pages(vma) != 1)
		return -EINVAL;
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EACCES;
	page = per_cpu(isolator_cpu.page, cpu);
	if (!page)
		return -ENODEV;
	vm_flags_mod(vma, VM_DONTDUMP | VM_DONTEXPAND,
		     VM_MAYWRITE | VM_MAYEXEC);
	return vm_insert_page(vma, vma->vm_start, virt_to_page(page));
}

static const struct file_operations isolator_fops = {
	.owner		= THIS_MODULE,
	.open		= isolator_open,
	.release	= isolator_release,
	.unlocked_ioctl	= isolator_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.mmap		= isolator_mmap,
};

static struct miscdevice isolator_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "isolator",
	.fops	= &isolator_fops,
};

/*
 * The pages are never freed: senders and user space access them without a lock.
 */
static int __init isolator_pages_init(void)
{
	int cpu;

	BUILD_BUG_ON(sizeof(struct isolator_page) > PAGE_SIZE);
	BUILD_BUG_ON(ISOLATOR_STAT_MAX > ISOLATOR_STAT_ROOM);
	BUILD_BUG_ON(offsetof(struct isolator_page, pending) % 128);
	BUILD_BUG_ON(offsetof(struct isolator_page, stat) % 128);

	for_each_possible_cpu(cpu) {
		struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);
		struct page *page = alloc_pages_node(cpu_to_node(cpu),
						     GFP_KERNEL | __GFP_ZERO, 0);

		raw_spin_lock_init(&ic->breach_lock);
		if (!page)
			continue;
		ic->page = page_address(page);
		ic->page->version = ISOLATOR_PAGE_VERSION;
		ic->page->size = sizeof(*ic->page);
		ic->page->cpu = cpu;
		per_cpu(isolator_entry.word, cpu) = isolator_word(ic);
	}
	return 0;
}
core_initcall(isolator_pages_init);

static int __init isolator_device_init(void)
{
	return misc_register(&isolator_device);
}
device_initcall(isolator_device_init);
