/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scope uses of QEMU's TCG plugin interface, and nothing else; written from the documented ABI.
 *
 * One shared object serves API versions 1 (QEMU 7.2 to 8.2) to 6. Between them, of what is declared here, only
 * qemu_plugin_insn_data changed (version 3), and qemu_plugin_mem_get_value came (QEMU 9.1). Weak symbols are null
 * where the running QEMU does not have them.
 *
 * Reference: https://www.qemu.org/docs/master/devel/tcg-plugins.html
 */
#ifndef SCOPE_PLUGIN_API_H
#define SCOPE_PLUGIN_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCOPE_EXPORT __attribute__((visibility("default")))
#define SCOPE_IMPORT __attribute__((visibility("default")))
#define SCOPE_OPTIONAL __attribute__((visibility("default"), weak))

enum { API_OLDEST = 1, API_WITHOUT_N_VCPUS = 2, API_INSN_DATA_COPIES = 3, API_NEWEST = 6 };

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	struct {
		int smp_vcpus;
		int max_vcpus;
	} system;
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS = 0 };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_W = 2, QEMU_PLUGIN_MEM_RW = 3 };

enum qemu_plugin_mem_value_type {
	QEMU_PLUGIN_MEM_VALUE_U8,
	QEMU_PLUGIN_MEM_VALUE_U16,
	QEMU_PLUGIN_MEM_VALUE_U32,
	QEMU_PLUGIN_MEM_VALUE_U64,
	QEMU_PLUGIN_MEM_VALUE_U128,
};

typedef struct {
	enum qemu_plugin_mem_value_type type;
	union {
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
		struct {
			uint64_t low;
			uint64_t high;
		} u128;
	} data;
} qemu_plugin_mem_value;

typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int cpu, void *data);
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
typedef void (*qemu_plugin_udata_cb_t)(qemu_plugin_id_t id, void *data);

/* Called by QEMU. */
extern SCOPE_EXPORT int qemu_plugin_version;
SCOPE_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

/* Called by us. */
SCOPE_IMPORT void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t callback);
SCOPE_IMPORT void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t callback, void *data);
SCOPE_IMPORT void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t callback,
						       enum qemu_plugin_cb_flags flags, void *data);
SCOPE_IMPORT void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
							 qemu_plugin_vcpu_udata_cb_t callback,
							 enum qemu_plugin_cb_flags flags, void *data);
SCOPE_IMPORT void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t callback,
						   enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
						   void *data);

SCOPE_IMPORT size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
SCOPE_IMPORT uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
SCOPE_IMPORT struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);

/* Versions 1 and 2: returns the bytes. From version 3: copies them into `to`, and returns how many it copied. */
SCOPE_IMPORT uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t length);
SCOPE_IMPORT uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
SCOPE_IMPORT size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

SCOPE_IMPORT unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
SCOPE_IMPORT bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
SCOPE_IMPORT struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
SCOPE_IMPORT uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);
SCOPE_IMPORT bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
SCOPE_OPTIONAL qemu_plugin_mem_value qemu_plugin_mem_get_value(qemu_plugin_meminfo_t info);

/* In version 1 only: tells the two generations apart before QEMU asks for our version. */
SCOPE_OPTIONAL int qemu_plugin_n_vcpus(void);

#endif
