// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real-time set-up, clock and power management for programs with a deadline.
//!
//! - [`packet`]: Ethernet frames past the network stack, and a network of one's own.
//! - [`policy`]: scheduling policies by name, set and read back.
//! - [`setup`]: memory locked → stack prefaulted → affinity → policy, in that order, each step reported.
//! - [`clock`]: CLOCK_MONOTONIC and the processor's own counter, calibrated against it.
//! - [`counters`]: counters whose memory comes page by page, as they are used.
//! - [`fork`]: what a child of fork() must not use.
//! - [`heap`]: memory that never goes back to the kernel while threads of this process must not be
//!   interrupted.
//! - [`isolation`]: a CPU for one thread, where the kernel has the isolator.
//! - [`message`]: messages between an isolated CPU and others, without interrupts.
//! - [`monitor`]: a program's own loop, cycle by cycle, for another process to read.
//! - [`power`]: a request to leave idle states quickly, held while it lives.
//! - [`registers`]: words shared with hardware or with another machine.
//! - [`scope`]: markers that the lab's oscilloscope sees, at no cost.
//! - [`signal`]: a signal between threads that wait for it.
//! - [`thread`]: what the kernel says of the calling thread.
//! - [`uprobe`]: BPF programs at instructions of another program.
//!
//! This crate is at the bottom: it talks to the kernel, and holds the unsafe code that this takes. Each
//! public function and type has an example.

// What says `pub` can be reached, and has an example (tests/examples.rs).
#![warn(unreachable_pub)]

pub mod clock;
pub mod counters;
pub mod fork;
pub mod heap;
pub mod isolation;
pub mod message;
pub mod monitor;
pub mod packet;
pub mod policy;
pub mod power;
pub mod registers;
pub mod scope;
pub mod setup;
pub mod signal;
pub mod thread;
pub mod uprobe;

pub use error::{Error, Result};
pub use policy::Policy;

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
