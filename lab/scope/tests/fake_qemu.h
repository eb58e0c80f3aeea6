/* SPDX-License-Identifier: GPL-2.0-only */
/* A QEMU that runs what a test says: blocks are translated once, then run on a CPU, whole or up to a fault. */
#ifndef FAKE_QEMU_H
#define FAKE_QEMU_H

#include "plugin_api.h"

enum { FAKE_INSNS = 256 };

struct qemu_plugin_insn {
	const char *bytes; /* null: a nop of the test's */
	size_t size;
	uint64_t address;
	uint64_t stores_to, loads_from; /* 0: does not */
	qemu_plugin_vcpu_udata_cb_t on_exec;
	qemu_plugin_vcpu_mem_cb_t on_access;
	enum qemu_plugin_mem_rw accesses;
	void *exec_data, *access_data;
};

struct qemu_plugin_tb {
	uint64_t address;
	size_t count;
	struct qemu_plugin_insn insn[FAKE_INSNS];
	qemu_plugin_vcpu_udata_cb_t on_exec;
	void *data;
};

extern int fake_api;
extern const char *fake_target;

/* Loads the plugin into a guest of two CPUs; returns what it answers. */
int fake_install(int argc, char **argv);
/* A block of `count` instructions, of which `last` is the last. */
struct qemu_plugin_tb *fake_block(uint64_t address, size_t count, struct qemu_plugin_insn last);
void fake_run(unsigned cpu, struct qemu_plugin_tb *block);
void fake_exit(void);

#endif
