// SPDX-License-Identifier: MIT OR Apache-2.0
// LinuxCNC falls back to threads without a real-time policy where it may not reach I/O ports or raise its limits, as in a container.
// tools/proofs/programs loads this into it: its threads need neither.
int iopl(int level) { (void)level; return 0; }
int setrlimit(int resource, const void *limit) { (void)resource; (void)limit; return 0; }
