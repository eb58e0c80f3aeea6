// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab: real kernels in QEMU, our own program as the guest's init, storms from its housekeeping CPUs, and
//! the scope (a plugin of QEMU, `lab/scope/`) that looks at the guest's CPUs from outside of its kernel.
//!
//! ```text
//! host                                              guest
//! scenario ─► job ─► initramfs ─► QEMU + scope ───► init (this program): mounts, modules, storms, probe
//! rows ◄─ scope.jsonl ◄──────────┘     │
//! bundle, storms, witness ◄─ frames ◄──┘ ◄───────── virtio-serial
//! judged log ◄─ console ◄──────────────┘
//! ```
//!
//! - [`scenario`]: what is run; [`kernel`] and [`boot`]: on what; [`mode`]: how.
//! - [`initramfs`], [`disk`], [`qemu`]: one guest, from the job to its console, frames and scope file.
//! - [`frame`], [`log`], [`scope`], [`witness`]: how these are read (in `gave`, all that a guest left);
//!   [`run`] makes one [`evidence::lab::LabDocument`]; [`matrix`] sets several side by side, [`gate`] holds
//!   one against a baseline.
//! - [`guest`]: what runs inside.
//!
//! # arm64
//!
//! The same guests on QEMU's `virt` machine with a GICv3: console `ttyAMA0`, the port by PCI, Debian's arm64
//! kernels, this program as `isolator-aarch64`. Everything enters the kernel through `vectors`, so that a
//! timer and an IPI are told apart by the functions that they enter, not by entry ([`scope::name`]).
//!
//! `virt` has a GPIO controller, whose lines [`edges`] drives and hears from outside. On both machines
//! [`signal`] gives edges through memory that the guest shares with its host.

pub mod architecture;
pub mod boot;
pub mod build;
pub mod child;
mod debian;
pub mod disk;
pub mod edges;
pub mod exchange;
mod files;
mod finished;
pub mod frame;
pub mod gate;
mod gave;
pub mod guest;
pub mod image;
pub mod initramfs;
pub mod job;
pub mod kernel;
pub mod log;
pub mod matrix;
pub mod mode;
pub mod parts;
pub mod patience;
pub mod program;
pub mod qemu;
pub mod run;
pub mod scenario;
pub mod scope;
mod shared;
pub mod shell;
pub mod signal;
pub mod store;
pub mod symbols;
pub mod witness;

pub use evidence::{Error, Result};
