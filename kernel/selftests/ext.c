// SPDX-License-Identifier: GPL-2.0-only
/*
 * A BPF scheduler (sched_ext) beside an owner. By default it takes over all
 * fair tasks, which keep SCHED_OTHER as their policy.
 *
 * Why: such a task is no owner, since the BPF scheduler decides when to switch
 * away from it. A check of the policy alone lets it through.
 *
 * The scheduler has a name and no program: the kernel then queues tasks itself.
 * Where its name goes in the kernel's structure, the kernel's BTF says.
 *
 * sched_ext refuses a machine with CPUs in isolcpus=domain. So an isolated
 * cpuset partition has the CPU here, and boot has nohz_full= alone.
 *
 * How to read: a line per case. "# SKIP": no CONFIG_SCHED_CLASS_EXT. --slow K
 */
#include "cases.h"

#include <linux/bpf.h>
#include <linux/btf.h>

#define BTF_FILE	"/sys/kernel/btf/vmlinux"
#define STATE_FILE	"/sys/kernel/sched_ext/state"
#define VALUE		"bpf_struct_ops_sched_ext_ops"
#define NAME		"selftest"

static int map_fd = -1;		/* of the scheduler */

/* ---- the kernel's types ---- */

static const char *types, *strings;
static uint32_t types_length;

static bool load_types(void)
{
	static char head[16 << 20];
	const struct btf_header *header = (void *)head;

	if (read_file(BTF_FILE, head, sizeof(head)) < (int)sizeof(*header) ||
	    header->magic != BTF_MAGIC)
		return false;
	types = head + header->hdr_len + header->type_off;
	types_length = header->type_len;
	strings = head + header->hdr_len + header->str_off;
	return true;
}

/* Bytes that follow a type */
static size_t more_of(const struct btf_type *type)
{
	uint32_t count = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return count * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return count * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return count * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return count * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return count * sizeof(struct btf_var_secinfo);
	default:
		return 0;
	}
}

/* The structure of that name, and its number */
static const struct btf_type *structure(const char *name, uint32_t *number)
{
	const char *at = types;

	for (*number = 1; at < types + types_length; (*number)++) {
		const struct btf_type *type = (const void *)at;

		if (BTF_INFO_KIND(type->info) == BTF_KIND_STRUCT &&
		    !strcmp(strings + type->name_off, name))
			return type;
		at += sizeof(*type) + more_of(type);
	}
	return NULL;
}

/* Where a member of a structure begins, in bytes; -1: there is none */
static long place(const struct btf_type *type, const char *name)
{
	const struct btf_member *member = (const void *)(type + 1);
	uint32_t i;

	for (i = 0; i < BTF_INFO_VLEN(type->info); i++)
		if (!strcmp(strings + member[i].name_off, name))
			return BTF_MEMBER_BIT_OFFSET(member[i].offset) / 8;
	return -1;
}

/* ---- the scheduler ---- */

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static bool state_is(const char *wanted)
{
	char text[32];

	return read_file(STATE_FILE, text, sizeof(text)) > 0 &&
	       !strncmp(text, wanted, strlen(wanted));
}

/* Types of a program of one's own, which a map of structures must have: one */
static int own_types(void)
{
	struct {
		struct btf_header header;
		struct btf_type type;
		uint32_t encoding;
		char strings[5];
	} __attribute__((packed)) own = {
		.header = {
			.magic = BTF_MAGIC, .version = BTF_VERSION,
			.hdr_len = sizeof(own.header),
			.type_len = sizeof(own.type) + sizeof(own.encoding),
			.str_off = sizeof(own.type) + sizeof(own.encoding),
			.str_len = sizeof(own.strings),
		},
		.type = { .name_off = 1, .info = BTF_KIND_INT << 24, .size = 4 },
		.encoding = 32,
		.strings = "\0int",
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.btf = (uintptr_t)&own;
	attr.btf_size = sizeof(own);
	return bpf(BPF_BTF_LOAD, &attr);
}

/* Loads a scheduler; PASSED, or why there is none */
static int scheduler_on(void)
{
	const struct btf_type *value, *ops;
	union bpf_attr attr;
	uint32_t number, unused;
	static char data[4096];
	long at, name;
	int key = 0, types_fd;

	if (access(STATE_FILE, F_OK) || !load_types())
		return skip("no sched_ext");
	value = structure(VALUE, &number);
	ops = structure("sched_ext_ops", &unused);
	if (!value || !ops || value->size > sizeof(data))
		return yes(false, "the types of sched_ext");
	at = place(value, "data");
	name = place(ops, "name");
	if (at < 0 || name < 0)
		return yes(false, "the members of sched_ext");
	memcpy(data + at + name, NAME, sizeof(NAME));
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_STRUCT_OPS;
	attr.key_size = sizeof(key);
	attr.value_size = value->size;
	attr.max_entries = 1;
	attr.btf_vmlinux_value_type_id = number;
	types_fd = own_types();
	attr.btf_fd = types_fd;
	map_fd = bpf(BPF_MAP_CREATE, &attr);
	close(types_fd);
	if (map_fd < 0)
		return yes(false, "create a scheduler");
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map_fd;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)data;
	if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
		return yes(false, "load a scheduler");
	return yes(state_is("enabled"), "the scheduler is enabled");
}

static int scheduler_off(void)
{
	union bpf_attr attr;
	int key = 0;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map_fd;
	attr.key = (uintptr_t)&key;
	if (bpf(BPF_MAP_DELETE_ELEM, &attr))
		return yes(false, "unload the scheduler");
	close(map_fd);
	return yes(wait_for(state_is("disabled"), HANG_MS),
		   "the scheduler is disabled");
}

/* ---- an owner: spins in the partition until it is killed ---- */

static pid_t start_owner(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	int *ready = share(PAGE);
	pid_t pid = child();

	if (!pid) {
		int own = open_isolator();

		enter_partition();
		if (sched_setscheduler(0, policy, &param))
			die("change the policy");
		*ready = start_patiently(own, ISOLATOR_MASK_DEFAULT) ? -1 : 1;
		for (;;)
			relax();
	}
	if (!wait_for(__atomic_load_n(ready, __ATOMIC_ACQUIRE), HANG_MS) ||
	    *ready != 1)
		die("start an owner");
	return pid;
}

static void end_owner(pid_t pid)
{
	kill(pid, SIGKILL);
	if (reap(pid) < 0)
		die("end the owner");
}

/* ---- cases ---- */

/* A SCHED_OTHER thread is no owner under a BPF scheduler; a FIFO one is */
static int refuses_tasks(void)
{
	struct sched_param param = { .sched_priority = 10 };
	int result = scheduler_on(), got;

	if (result != PASSED)
		return result;
	enter_partition();
	got = start_patiently(fd, ISOLATOR_MASK_DEFAULT);
	result = refused(got, EPROTOTYPE, ISOLATOR_BAD_POLICY);
	if (sched_setscheduler(0, SCHED_FIFO, &param) ||
	    start_patiently(fd, ISOLATOR_MASK_DEFAULT) || stop(fd))
		result = yes(false, "start and stop as FIFO");
	return scheduler_off() == PASSED ? result : FAILED;
}

/* A scheduler visits each CPU when it starts and when it ends: neither hangs */
static int comes_and_goes(void)
{
	pid_t owner = start_owner(SCHED_FIFO, 10);
	int result = PASSED, i;

	for (i = 0; i < 3 && result == PASSED; i++) {
		result = scheduler_on();
		if (result == PASSED)
			result = scheduler_off();
	}
	if (result == PASSED)
		result = yes(status_of(fd, cpu).owner == owner,
			     "the owner is still one");
	end_owner(owner);
	return result;
}

/* An owner that a BPF scheduler takes over is one no longer */
static int ends_owners(void)
{
	struct isolator_status status;
	pid_t owner = start_owner(SCHED_OTHER, 0);
	int result = scheduler_on();

	if (result == PASSED &&
	    (!wait_for(no_owner(fd, cpu, &status), HANG_MS) ||
	     status.ended != ISOLATOR_ENDED_POLICY)) {
		say("owner %d, ended %u", status.owner, status.ended);
		result = FAILED;
	}
	if (map_fd >= 0 && scheduler_off() != PASSED)
		result = FAILED;
	end_owner(owner);
	return result;
}

/* Each in a partition, which this process enters if it is to own the CPU */
static int in_partition(int (*run)(void))
{
	int result = make_partition();

	if (result != PASSED)
		return result;
	pin(HOUSE_CPU);
	result = run();
	leave_partition();
	return result;
}

static int taken_over_tasks_are_refused(void)
{
	return in_partition(refuses_tasks);
}

static int schedulers_come_and_go_beside_an_owner(void)
{
	return in_partition(comes_and_goes);
}

static int taken_over_owners_end(void)
{
	return in_partition(ends_owners);
}

static const struct test_case cases[] = {
	CASE(taken_over_tasks_are_refused),
	CASE(schedulers_come_and_go_beside_an_owner),
	CASE(taken_over_owners_end),
	{ }
};

/* sched_ext refuses a machine with CPUs in isolcpus=domain */
static int not_isolated_by_boot(void)
{
	int other = tickless_cpu();
	char text[16];

	if (other < 0 || read_file(CPUS "isolated", text, sizeof(text)) > 1)
		skip_all("needs nohz_full= without isolcpus=domain");
	return other;
}

int main(int argc, char **argv)
{
	return run_cases_on(not_isolated_by_boot, argc, argv, cases);
}
