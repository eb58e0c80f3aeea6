/* SPDX-License-Identifier: GPL-2.0-only */
#include <stdlib.h>
#include <string.h>

#include "fake_qemu.h"

/* An access: as large as that, and which way. */
enum { WORD = 2, STORE = 1 << 8 };

int fake_api = 1;
const char *fake_target = "x86_64";

static qemu_plugin_vcpu_tb_trans_cb_t translate;
static qemu_plugin_udata_cb_t at_exit;
static struct qemu_plugin_hwaddr {
	uint64_t address;
} hwaddr;

int fake_install(int argc, char **argv)
{
	qemu_info_t info = { .target_name = fake_target, .system_emulation = true };
	info.version.min = 0;
	info.version.cur = fake_api;
	info.system.smp_vcpus = info.system.max_vcpus = 2;
	return qemu_plugin_install(1, &info, argc, argv);
}

struct qemu_plugin_tb *fake_block(uint64_t address, size_t count, struct qemu_plugin_insn last)
{
	struct qemu_plugin_tb *tb = calloc(1, sizeof(*tb));
	tb->address = address;
	tb->count = count;
	tb->insn[count - 1] = last;
	for (size_t i = 0; i < count; i++)
		tb->insn[i].address = address + i;
	translate(1, tb);
	return tb;
}

void fake_run(unsigned cpu, struct qemu_plugin_tb *tb)
{
	tb->on_exec(cpu, tb->data);
	for (size_t i = 0; i < tb->count; i++) {
		struct qemu_plugin_insn *insn = &tb->insn[i];
		if (insn->on_exec)
			insn->on_exec(cpu, insn->exec_data);
		if (insn->accesses & ~QEMU_PLUGIN_MEM_W && insn->loads_from)
			insn->on_access(cpu, WORD, insn->loads_from, insn->access_data);
		if (insn->accesses & QEMU_PLUGIN_MEM_W && insn->stores_to)
			insn->on_access(cpu, WORD | STORE, insn->stores_to, insn->access_data);
	}
}

void fake_exit(void)
{
	at_exit(1, NULL);
}

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t callback)
{
	(void)id;
	translate = callback;
}

void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t callback, void *data)
{
	(void)id;
	(void)data;
	at_exit = callback;
}

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t callback,
					  enum qemu_plugin_cb_flags flags, void *data)
{
	(void)flags;
	tb->on_exec = callback;
	tb->data = data;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_udata_cb_t callback,
					    enum qemu_plugin_cb_flags flags, void *data)
{
	(void)flags;
	insn->on_exec = callback;
	insn->exec_data = data;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t callback,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *data)
{
	(void)flags;
	insn->on_access = callback;
	insn->accesses = rw;
	insn->access_data = data;
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	return tb->count;
}

uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb)
{
	return tb->address;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index)
{
	return (struct qemu_plugin_insn *)&tb->insn[index];
}

uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t length)
{
	const char *bytes = insn->bytes ? insn->bytes : "\x90";
	if (fake_api < API_INSN_DATA_COPIES)
		return (uintptr_t)bytes;
	memcpy(to, bytes, length);
	return length;
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->address;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	return insn->bytes ? insn->size : 1;
}

unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info)
{
	return info & 0xff;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
	return info & STORE;
}

/* Physical memory begins at virtual 0xffff888000000000; devices above 0xf0000000. */
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address)
{
	(void)info;
	hwaddr.address = address - 0xffff888000000000;
	return address >> 63 ? &hwaddr : NULL;
}

uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address)
{
	return address->address;
}

bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address)
{
	return address->address >= 0xf0000000;
}

qemu_plugin_mem_value qemu_plugin_mem_get_value(qemu_plugin_meminfo_t info)
{
	(void)info;
	return (qemu_plugin_mem_value){ .type = QEMU_PLUGIN_MEM_VALUE_U32, .data.u32 = 0x49535953 };
}

int qemu_plugin_n_vcpus(void)
{
	return 2;
}
