// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of an unmodified program: the waits of each, its cycles, and the causes of their time.
//!
//! ```text
//! source ──► record ──► wait ──► model ──► cycle
//!            a stay     its end  its       due, woken, began, ended,
//!            on a CPU            period    preempted, blocked
//! ```
//! A source of records ([`source`]) is the BPF part, trace events of tracefs, or a recorded trace. Before use
//! a live one must report a thread of this program ([`trial`]). The followed program is neither changed nor
//! stopped. A source has one record for each stay of a thread on a CPU; all else is pure code over records.
//!
//! # From a thread to the causes of a late cycle
//!
//! An unmodified program is followed from outside (`trace`, driven by `measure::followed`).
//!
//! 1. **Watch.** `trace::trial` has `trace::bpf` load `crates/trace/bpf/threads.bpf.c`, and tries it by a
//!    thread of this program. Its programs are raw tracepoints of scheduler, high-resolution timers and page
//!    faults. It writes one record for each stay of a watched thread on a CPU. The record says when the
//!    thread was woken, by which timer or thread, when that timer was due, when it got the CPU, and when and
//!    why it left. The system call that it sleeps in stands in the registers with which it entered the
//!    kernel, so no tracepoint of system calls is needed.
//! 2. **Infer.** `trace::search` watches the selected and the new threads until the waits of each are known.
//!    `trace::model` groups the waits by place and takes the one whose releases are the most regular for the
//!    end of a cycle. Where two places have one stack pointer, `trace::places` finds a caller that
//!    differs.
//! 3. **Cut.** `trace::cycle` makes cycles of the stays from there on; wakeup latency, execution, preemption
//!    and blocking add up to the response. Where the user names places of the program (`--begin`, `--end`),
//!    `trace::boundary` finds them by `symbols`. `rt::uprobe` has programs of the BPF part run there, which
//!    end a stay and begin the next one. `trace::cycle::bounds` cuts cycles between them.
//! 4. **Record.** `measure::loop_row` records them as it does those of a monitored loop: rows `loop`,
//!    `execution`, `response`.
//! 5. **Blame.** `trace::blame` turns a late cycle into causes, which the explainer hands on with the spike.
//!    These are threads that had the CPU, with the kernel function in which they were. In `trace::within`
//!    they are locks with their owners, waits and page faults. For these the BPF part copies the thread's
//!    registers and the top of its stack (4 KiB), and those of the thread that releases the lock. It never
//!    does so at a thread's usual wait, which ends its cycle. `symbols` makes functions and lines of them,
//!    from the files that the process has mapped.
#![forbid(unsafe_code)]

pub mod blame;
pub mod boundary;
pub mod bpf;
pub mod choice;
pub mod code;
pub mod cycle;
mod described;
pub mod follow;
mod live;
pub mod model;
pub mod own;
mod places;
pub mod process;
pub mod record;
pub mod recorded;
pub mod scene;
mod search;
pub mod source;
pub mod stays;
pub mod trial;
pub mod wait;
pub mod within;

pub use error::{Error, Result};
