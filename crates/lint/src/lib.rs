// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds operations of a running program that its real-time threads must avoid.
//!
//! ```text
//! bpf ──► event ──► call, locks ──► judge ──► document
//!                   rule broken     places, counts
//!                   still ───────────┘
//!                   faults of the set-up
//! ```
//! The program is not changed or stopped. While it is watched, functions of its C library are probed, so that
//! each call of them traps into the kernel. This makes the program slower; no time is measured.
//!
//! Limits: it does not see a lock outside of the C library without contention, a function of a binary without
//! symbols, or a rare operation that does not happen during the watch.
//!
//! # From a call to a finding
//!
//! 1. **Find.** `trace` watches the process until the loops of its real-time threads are known
//!    (`lint::watch`). Earlier calls of a thread belong to its set-up and are allowed.
//! 2. **Probe.** `crates/lint/bpf/events.bpf.c` takes the tracepoints of system calls, switches, page faults
//!    and signals. Functions of the C library (`lint::functions`) are probed where a binary of the process
//!    imports them. Probes settle before anything counts.
//! 3. **Count.** The BPF part counts by thread, kind, code address and stack pointer. For each of these
//!    places it writes one record with registers and a copy of the stack. A program that allocates a million
//!    times costs one record.
//! 4. **Judge.** `lint::call` and `lint::locks` say which rule an event breaks; the wait that ends a cycle,
//!    by `trace`'s model, breaks none. `symbols` unwinds the stack, and the first function outside of
//!    libraries is the place (`lint::place`). `lint::still` judges the set-up, which needs no event. Of
//!    several rules that are broken on one line the first in the order of `lint::rule::Rule` is reported:
//!    printing allocates, too.
#![forbid(unsafe_code)]

pub mod bpf;
pub mod call;
pub mod descriptor;
pub mod document;
pub mod event;
pub mod functions;
pub mod judge;
pub mod locks;
pub mod memory;
pub mod place;
pub mod rule;
pub mod still;
pub mod watch;

pub use document::LintDocument;
pub use error::{Error, Result};
pub use watch::{LintChoice, lint};
