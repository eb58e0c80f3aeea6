// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own code: the call stack of a thread, and the function, file and line of an address.
//!
//! ```text
//! registers, a copy of the stack ──► unwind ──► addresses ──► binary!function (file:line)
//!                                      ▲                           ▲
//!                   maps ──► elf ──────┴── .eh_frame     symbols, DWARF
//! ```
//! The process is neither stopped nor changed: the caller has copies of registers and stack that the kernel
//! took. Frame pointers do not suffice: the C library has none, so its direct caller would be missed. Frames
//! are found by `.eh_frame`, which binaries have for exceptions and debuggers, and by frame pointers only
//! without it.
//!
//! The files belong to another user's process. They may be damaged or malicious: no offset, size or count in
//! them is trusted. Work and memory have limits ([`ProcessCode::notes`] lists those that were reached). Files
//! are read, not mapped, so that a file that is truncated meanwhile is harmless. blazesym maps them, and has
//! no such limits; framehop follows no signal frames.
//!
//! Limits: 64-bit little-endian ELF files; debug information in the file itself or in
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
pub use files::HeldFile;
pub use frame::CodeFrame;
pub use named::{BinaryFunctions, NamedPlace};
pub use process::ProcessCode;
pub use unwind::UserRegisters;
