/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scope: looks at the guest's CPUs from outside its kernel, block by block, and records every way from user code
 * into the kernel and back.
 *
 * User and kernel code are told apart by the top bit of a block's virtual address, which is right for Linux on
 * x86-64 and arm64. The two kinds of blocks get different callbacks, so that user code, which spins, pays for an
 * addition and a comparison only. See README.md for what it cannot see.
 */
#include <string.h>

#include "plugin_api.h"
#include "scope.h"

SCOPE_EXPORT int qemu_plugin_version = API_OLDEST;
struct scope scope;

/* QEMU reads our version right after loading us, and from 9.0 on takes none below 2. */
__attribute__((constructor)) static void choose_version(void)
{
	qemu_plugin_version = qemu_plugin_n_vcpus ? API_OLDEST : API_WITHOUT_N_VCPUS;
}

static void on_user_block(unsigned index, void *instructions)
{
	struct cpu *cpu = &scope.cpu[index];
	if (unlikely(cpu->inside))
		record_leave(cpu);
	cpu->total += (uintptr_t)instructions;
}

static void on_kernel_block(unsigned index, void *data)
{
	struct cpu *cpu = &scope.cpu[index];
	const struct block *block = data;
	if (unlikely(!cpu->inside)) {
		record_enter(cpu, block);
	} else if (unlikely(block->entrance) && cpu->returned) {
		/* An interrupt waited for the return to user code: it was back there, for no instruction. */
		record_leave(cpu);
		record_enter(cpu, block);
	} else if (block->function && cpu->recording) {
		record_function(cpu, block->function);
	}
	cpu->returned = block->returns;
	/* The block before was told to have an instruction that it left to this one: may_be_left(). */
	if (unlikely(block->address == cpu->last))
		cpu->total--;
	cpu->last = block->last;
	cpu->total += block->instructions;
}

/* A block is counted whole when it begins: what of it is still to come, `rest`, is taken off again. */
static uint64_t so_far(unsigned index, uintptr_t rest)
{
	return scope.cpu[index].total - rest;
}

static void on_marker(unsigned index, void *data)
{
	uintptr_t packed = (uintptr_t)data;
	record_marker(index, packed & 0xff, so_far(index, packed >> 8));
}

static void take_value(struct event *store, qemu_plugin_meminfo_t info)
{
	if (!qemu_plugin_mem_get_value || store->size > 16)
		return;
	qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);
	store->valued = true;
	switch (value.type) {
	case QEMU_PLUGIN_MEM_VALUE_U8: store->value = value.data.u8; break;
	case QEMU_PLUGIN_MEM_VALUE_U16: store->value = value.data.u16; break;
	case QEMU_PLUGIN_MEM_VALUE_U32: store->value = value.data.u32; break;
	case QEMU_PLUGIN_MEM_VALUE_U64: store->value = value.data.u64; break;
	case QEMU_PLUGIN_MEM_VALUE_U128:
		store->value = value.data.u128.low;
		store->value_high = value.data.u128.high;
		break;
	}
}

static inline bool touches(uint64_t address, unsigned size, uint64_t first, uint64_t last)
{
	return address <= last && address + (size - 1) >= first;
}

/* Pages are at least 4 KiB, so a store's place in them is the same by virtual and physical address: most need no look-up. */
static inline bool may_touch(const struct watch *watch, uint64_t address, unsigned size)
{
	enum { PAGE = 4096 };
	if (!watch->physical)
		return touches(address, size, watch->first, watch->last);
	if (watch->first / PAGE != watch->last / PAGE)
		return true;
	return touches(address % PAGE, size, watch->first % PAGE, watch->last % PAGE);
}

static bool look_up(struct event *store, qemu_plugin_meminfo_t info)
{
	struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, store->address);
	if (!where)
		return false;
	store->physical = qemu_plugin_hwaddr_phys_addr(where);
	store->io = qemu_plugin_hwaddr_is_io(where);
	return true;
}

static void on_load(unsigned index, const struct event *load)
{
	if (load->watch == scope.arguments.input)
		response_poll(&scope.cpu[index], load->at);
}

/* The stores of a response are counted, however many they are; others are listed. */
static void on_store(unsigned index, struct event *store, qemu_plugin_meminfo_t info)
{
	if (store->watch == scope.arguments.input) {
		response_edge();
	} else if (store->watch == scope.arguments.output) {
		response_answer(&scope.cpu[index], store->at);
	} else {
		take_value(store, info);
		record_store(index, store);
	}
}

static void on_access(unsigned index, qemu_plugin_meminfo_t info, uint64_t address, void *rest)
{
	unsigned size = 1u << qemu_plugin_mem_size_shift(info);
	for (unsigned i = 0; i < scope.arguments.watches; i++) {
		const struct watch *watch = &scope.arguments.watch[i];
		if (likely(!may_touch(watch, address, size)))
			continue;
		struct event access = { .address = address, .size = size, .watch = i + 1, .physical = UINT64_MAX };
		if (watch->physical &&
		    (!look_up(&access, info) || !touches(access.physical, size, watch->first, watch->last)))
			continue;
		access.at = so_far(index, (uintptr_t)rest);
		if (qemu_plugin_mem_is_store(info))
			on_store(index, &access, info);
		else
			on_load(index, &access);
	}
}

enum { LONGEST_INSN = 16 };

static size_t bytes_of(const struct qemu_plugin_insn *insn, uint8_t *bytes)
{
	size_t size = qemu_plugin_insn_size(insn);
	if (size > LONGEST_INSN)
		return 0;
	if (scope.api >= API_INSN_DATA_COPIES)
		return qemu_plugin_insn_data(insn, bytes, size);
	memcpy(bytes, (const void *)qemu_plugin_insn_data(insn, NULL, 0), size);
	return size;
}

static unsigned marker_in(const struct qemu_plugin_insn *insn)
{
	uint8_t bytes[LONGEST_INSN];
	size_t size = qemu_plugin_insn_size(insn);
	return size == 7 || size == 4 ? marker_code(scope.target, bytes, bytes_of(insn, bytes)) : 0;
}

enum { GUEST_PAGE = 4096, REPNE = 0xf2, REP = 0xf3 };

/*
 * Where an instruction lies over the end of a page, QEMU 7.2 ends the block before it, unless it is the first, but
 * tells plugins that it is in it. Only what is run next says whether one that begins so near to the end does lie over
 * it. One that is repeated begins again by itself.
 */
static bool may_be_left(uint64_t address, size_t count, const uint8_t *bytes, size_t size)
{
	return scope.target == TARGET_X86_64 && count > 1 && address % GUEST_PAGE > GUEST_PAGE - LONGEST_INSN &&
	       !(size && (bytes[0] == REPNE || bytes[0] == REP));
}

static const struct block *kernel_block(const struct qemu_plugin_tb *tb, size_t count)
{
	uint8_t bytes[LONGEST_INSN];
	const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, count - 1);
	size_t size = bytes_of(insn, bytes);
	uint64_t last = qemu_plugin_insn_vaddr(insn);
	return block_of(qemu_plugin_tb_vaddr(tb), count, may_be_left(last, count, bytes, size) ? last : 0,
			is_return(scope.target, bytes, size));
}

/* User code cannot store to the kernel's addresses. */
static bool watched(bool kernel)
{
	for (unsigned i = 0; i < scope.arguments.watches; i++) {
		const struct watch *watch = &scope.arguments.watch[i];
		if (kernel || watch->physical || !(watch->first >> 63))
			return true;
	}
	return false;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	size_t count = qemu_plugin_tb_n_insns(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	bool kernel = address >> 63, stores = watched(kernel);
	/* The polling program is user code. One callback for both: of two, QEMU 7.2 may leave out the second. */
	enum qemu_plugin_mem_rw accesses =
		scope.arguments.input && !kernel ? QEMU_PLUGIN_MEM_RW : QEMU_PLUGIN_MEM_W;
	if (kernel)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_kernel_block, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)kernel_block(tb, count));
	else
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_user_block, QEMU_PLUGIN_CB_NO_REGS, (void *)count);
	if (kernel && !stores)
		return;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uintptr_t rest = count - i;
		if (stores)
			qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, accesses,
							 (void *)rest);
		unsigned code = kernel ? 0 : marker_in(insn);
		if (code)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(rest << 8 | code));
	}
}

static void on_exit(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	record_finish();
}

static bool know_target(const qemu_info_t *info, char *error)
{
	if (info->version.cur > API_NEWEST) {
		snprintf(error, ERROR_BYTES, "this QEMU's plugin API is version %d; the scope knows %d to %d",
			 info->version.cur, API_OLDEST, API_NEWEST);
		return false;
	}
	bool x86 = !strcmp(info->target_name, "x86_64");
	if (!info->system_emulation || (!x86 && strcmp(info->target_name, "aarch64"))) {
		snprintf(error, ERROR_BYTES, "cannot look at %s%s; use qemu-system-x86_64 or qemu-system-aarch64",
			 info->target_name, info->system_emulation ? "" : " programs");
		return false;
	}
	scope.target = x86 ? TARGET_X86_64 : TARGET_AARCH64;
	scope.api = info->version.cur;
	scope.cpus = info->system.max_vcpus;
	return true;
}

static bool set_up(const qemu_info_t *info, int argc, char **argv, char *error)
{
	if (!know_target(info, error) || !arguments_read(&scope.arguments, scope.cpus, argc, argv, error))
		return false;
	if (scope.arguments.symbols && !symbols_read(&scope.symbols, scope.arguments.symbols, error))
		return false;
	if (!record_prepare()) {
		snprintf(error, ERROR_BYTES, "no memory for lines=%u on each CPU; ask for fewer",
			 scope.arguments.lines);
		return false;
	}
	return write_open(info->target_name, info->system.smp_vcpus, error);
}

SCOPE_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	char error[ERROR_BYTES];
	if (!set_up(info, argc, argv, error)) {
		fprintf(stderr, "scope: %s\n", error);
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit, NULL);
	return 0;
}
