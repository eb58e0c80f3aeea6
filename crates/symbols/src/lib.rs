// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own code: the call stack of a thread, and the function, file and line of an address.
//!
//! ```text
//! registers, a copy of the stack ──► unwind ──► addresses ──► binary!function (file:line)
//!                                      ▲                           ▲
//!                   maps ──► elf ──────┴── .eh_frame     symbols, DWARF
//! ```
//! The process is neither stopped nor changed: whoever took registers and stack did that in the kernel.
//! Frame pointers do not suffice, since the C library has none: its direct caller would be missed. So frames
//! are found by `.eh_frame`, which every binary has that can throw or be debugged, and by frame pointers
//! only where there is none.
//!
//! The files belong to a process that somebody else runs. They may be damaged or made to harm: nothing here
//! trusts an offset, a size or a count of them, work and memory have limits ([`ProcessCode::notes`] says
//! which was reached), and files are read, not mapped, so that one that becomes shorter meanwhile does no
//! harm.
//!
//! Limits: ELF files of 64 bits, little-endian; debug information in the file itself or in
//! `/usr/lib/debug/.build-id`, not split into `.dwo` files.
#![forbid(unsafe_code)]

mod counted;
mod elf;
mod files;
mod frame;
mod lines;
mod maps;
mod named;
mod process;
mod table;
mod unwind;
mod usdt;

#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use frame::CodeFrame;
pub use named::NamedPlace;
pub use process::ProcessCode;
pub use unwind::UserRegisters;
