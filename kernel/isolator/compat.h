/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is called otherwise, or is gone, in one of the kernels that there are
 * hooks for. The files here are written for the newest; what hooks can bridge
 * is bridged there.
 */
#ifndef _KERNEL_ISOLATOR_COMPAT_H
#define _KERNEL_ISOLATOR_COMPAT_H

#include <linux/task_work.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)

#include <linux/bitops.h>
#include <linux/cpuset.h>

#define mm_flags_test(flag, mm)		test_bit(flag, &(mm)->flags)
#define system_dfl_wq			system_unbound_wq

#else

/* Isolated partitions of cpusets are in HK_TYPE_DOMAIN. */
#define cpuset_cpu_is_isolated(cpu)	false
/* task_work_add() never allocates. */
#define TWAF_NO_ALLOC			0

#endif
#endif /* _KERNEL_ISOLATOR_COMPAT_H */
