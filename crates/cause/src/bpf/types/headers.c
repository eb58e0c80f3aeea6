// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Compiled as a module of the kernel whose headers are there, and never loaded: its debugging symbols have the structures that the BPF
 * parts read. Those of the scheduler's own (struct cfs_rq, struct rq) are in no header.
 */
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <linux/workqueue.h>

struct task_struct *task;
struct pt_regs *registers;
struct irqaction *handler;
struct hrtimer *timer;
struct work_struct *work;
struct k_sigaction *action;
struct wake_q_head *queue;
