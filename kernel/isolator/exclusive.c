// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: an address space for the exclusive use of its owner.
 *
 * A TLB flush of the owner's address space is never deferred. The kernel frees
 * pages after the flush, and a stale entry could still write to memory that
 * belongs to another task by then. Exclusive mode removes the causes of flushes
 * instead. START checks whether another task or the kernel has reason to change
 * the owner's page tables. Later requests of other tasks to change them are
 * refused if they may fail. Otherwise they are delivered and counted.
 */
#include <linux/fs.h>
#include <linux/backing-dev.h>
#include <linux/hugetlb_inline.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched/coredump.h>
#include <linux/userfaultfd_k.h>

#include "isolator.h"

/*
 * mlockall() leaves these mappings out (mlock_fixup()). Reclaim takes no pages
 * from them, except from droppable mappings (getrandom()'s state). These have a
 * page or two; reclaiming one would be a breach.
 */
static bool needs_no_lock(struct vm_area_struct *vma)
{
	return (vma->vm_flags & (VM_SPECIAL | VM_DROPPABLE)) || is_vm_hugetlb_page(vma) ||
	       vma_is_dax(vma);
}

static enum isolator_reason check_vma(struct vm_area_struct *vma)
{
	struct file *file = vma->vm_file;

	if (userfaultfd_armed(vma))
		return ISOLATOR_MM_USERFAULT;
	if (vma->vm_flags & VM_MERGEABLE)
		return ISOLATOR_MM_MERGEABLE;
	/* Writeback write-protects pages; memfd and hugetlbfs have none. */
	if ((vma->vm_flags & VM_SHARED) && file &&
	    !(vma->vm_flags & (VM_IO | VM_PFNMAP)) &&
	    mapping_can_writeback(file->f_mapping))
		return ISOLATOR_MM_SHARED_FILE;
	if (!(vma->vm_flags & VM_LOCKED) && !needs_no_lock(vma))
		return ISOLATOR_MM_NOT_LOCKED;
	return ISOLATOR_OK;
}

/**
 * isolator_exclusive() - whether the caller alone uses its address space
 *
 * The answer holds only at this moment. Later mappings, sharing and unlocking
 * are the owner's own acts. No other task can add users to its address space
 * for longer than a look at it takes, since the owner cannot clone with
 * CLONE_VM.
 *
 * Return: the reason against it (ISOLATOR_MM_*), or ISOLATOR_OK.
 */
enum isolator_reason isolator_exclusive(void)
{
	enum isolator_reason why = ISOLATOR_OK;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct vma_iterator vmi;

	if (atomic_read(&mm->mm_users) != 1)
		return ISOLATOR_MM_SHARED;
	if (mm_flags_test(MMF_VM_MERGE_ANY, mm))
		return ISOLATOR_MM_MERGEABLE;
	/* Future mappings have to be locked too: MCL_FUTURE */
	if (!(mm->def_flags & VM_LOCKED))
		return ISOLATOR_MM_NOT_LOCKED;
	mmap_read_lock(mm);
	vma_iter_init(&vmi, mm, 0);
	for_each_vma(vmi, vma) {
		why = check_vma(vma);
		if (why)
			break;
	}
	mmap_read_unlock(mm);
	return why;
}

static int exclusive_cpu(struct mm_struct *mm)
{
	int cpu;

	/* Only compared. If mm is gone, no caller asks for it. */
	for_each_cpu(cpu, &isolator_cpus)
		if (READ_ONCE(per_cpu(isolator_cpu.mm, cpu)) == mm)
			return cpu;
	return nr_cpu_ids;
}

/* The owner itself may change its address space. */
bool __isolator_refuse_mm(struct mm_struct *mm)
{
	int cpu;

	if (mm == current->mm)
		return false;
	cpu = exclusive_cpu(mm);
	return cpu < nr_cpu_ids && __isolator_refuse(cpu, ISOLATOR_STAT_REFUSED_MM);
}

/* The owner may not share its address space with a new task. */
bool __isolator_refuse_clone(void)
{
	int cpu = exclusive_cpu(current->mm);

	if (cpu >= nr_cpu_ids)
		return false;
	isolator_count(per_cpu_ptr(&isolator_cpu, cpu), ISOLATOR_STAT_REFUSED_MM);
	return true;
}
