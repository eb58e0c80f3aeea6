// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt isolator: /proc/isolator.
 *
 * The file has one line per fact, "cpuN NAME VALUE", for each CPU that was
 * isolated since boot, after those that hold for all CPUs. The line "parts"
 * names the parts that the kernel was built with. The file names functions if
 * the reader may see kernel addresses. It takes no commands: only the device
 * has START, so that the device's permissions, the device cgroup and the
 * lifetime of the open file apply.
 */
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/proc_fs.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>

#include "isolator.h"

static void show_breach(struct seq_file *m, int cpu, struct isolator_cpu *ic)
{
	unsigned long site[ISOLATOR_SITES], flags;
	enum isolator_stat what;
	void *func;
	u64 ns;
	int i;

	raw_spin_lock_irqsave(&ic->breach_lock, flags);
	func = ic->breach_func;
	memcpy(site, ic->breach_site, sizeof(site));
	what = ic->page->breach_stat;
	ns = ic->page->breach_ns;
	raw_spin_unlock_irqrestore(&ic->breach_lock, flags);

	if (!ns)
		return;
	seq_printf(m, "cpu%d last_breach %s\n", cpu, isolator_stat_name(what));
	seq_printf(m, "cpu%d last_breach_ns %llu\n", cpu, ns);
	if (!kallsyms_show_value(m->file->f_cred))
		return;
	if (func)
		seq_printf(m, "cpu%d last_breach_function %ps\n", cpu, func);
	for (i = 0; i < ISOLATOR_SITES && site[i]; i++)
		seq_printf(m, "cpu%d last_breach_site %pS\n", cpu,
			   (void *)site[i]);
}

static void show_parts(struct seq_file *m)
{
	seq_puts(m, "parts");
	if (IS_ENABLED(CONFIG_ISOLATOR_KTLB))
		seq_puts(m, " ktlb");
	if (IS_ENABLED(CONFIG_ISOLATOR_QUIESCE))
		seq_puts(m, " quiesce");
	if (IS_ENABLED(CONFIG_ISOLATOR_REFUSE))
		seq_puts(m, " refuse");
	if (IS_ENABLED(CONFIG_ISOLATOR_EXCLUSIVE_MM))
		seq_puts(m, " exclusive_mm");
	if (IS_ENABLED(CONFIG_ISOLATOR_MESSAGES))
		seq_puts(m, " messages");
	seq_putc(m, '\n');
}

static int isolator_show(struct seq_file *m, void *v)
{
	int cpu, i;

	seq_printf(m, "version %d\n", ISOLATOR_PAGE_VERSION);
	show_parts(m);
	seq_printf(m, "max_defer_ms %u\n", READ_ONCE(isolator_max_defer_ms));
	for_each_possible_cpu(cpu) {
		struct isolator_cpu *ic = per_cpu_ptr(&isolator_cpu, cpu);
		struct isolator_page *page = ic->page;
		enum isolator_reason ended;
		unsigned long flags;
		pid_t owner;

		if (!page || !READ_ONCE(page->stat[ISOLATOR_STAT_STARTS]))
			continue;
		raw_spin_lock_irqsave(&isolator_lock, flags);
		owner = ic->owner ? task_pid_vnr(ic->owner) : 0;
		ended = ic->ended;
		raw_spin_unlock_irqrestore(&isolator_lock, flags);

		seq_printf(m, "cpu%d owner %d\n", cpu, owner);
		seq_printf(m, "cpu%d mask %#x\n", cpu, READ_ONCE(ic->mask));
		seq_printf(m, "cpu%d pending %#x\n", cpu,
			   atomic_read(isolator_word(ic)));
		if (ended)
			seq_printf(m, "cpu%d ended %s\n", cpu,
				   isolator_reason_text(ended));
		for (i = 0; i < ISOLATOR_STAT_MAX; i++)
			seq_printf(m, "cpu%d %s %llu\n", cpu,
				   isolator_stat_name(i),
				   READ_ONCE(page->stat[i]));
		show_breach(m, cpu, ic);
	}
	return 0;
}

static int isolator_proc_open(struct inode *inode, struct file *file)
{
	return single_open(file, isolator_show, NULL);
}

static const struct proc_ops isolator_proc_ops = {
	.proc_open	= isolator_proc_open,
	.proc_read	= seq_read,
	.proc_lseek	= seq_lseek,
	.proc_release	= single_release,
};

static int __init isolator_proc_init(void)
{
	proc_create("isolator", 0444, NULL, &isolator_proc_ops);
	return 0;
}
device_initcall(isolator_proc_init);
