// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that comes from elsewhere is data: files of folders that others may write, and text and sizes
//! in them.
//!
//! - [`Folder`] reads beneath a folder, regular files only and through no link, and writes by the folder's
//!   descriptor.
//! - [`open()`], [`read`] and [`text()`] open one file for reading, wherever it lies, and [`replace()`] writes
//!   one; [`create_new`] names a file for the time until it is in place.
//! - [`Scratch`] makes a folder for files that last as long as a process.
//! - [`Allowance`] bounds the work and memory that foreign data may cost.
//! - [`mod@text`] has one escape for each place where foreign text is shown.
//!
//! Errors are [`std::io::Error`]: the callers know what was tried, and on what.
#![forbid(unsafe_code)]

use std::borrow::Borrow;

mod allowance;
mod folder;
mod lines;
mod name;
mod open;
mod place;
mod replace;
mod scratch;
pub mod text;

pub use allowance::{Allowance, Cost, Metered};
pub use folder::Folder;
pub use lines::Lines;
pub use name::random;
pub use open::{TEXT, bytes, is_there, open, read, regular, regular_at, text, within_root};
pub use replace::{create, create_new, replace, replace_synced};
pub use rustix::fs::FileType;
pub use scratch::{Lent, Scratch, temporary_folders};

/// The sum of numbers that files state: it saturates, since they may be any.
pub fn total<N: Borrow<u64>>(numbers: impl IntoIterator<Item = N>) -> u64 {
    numbers.into_iter().fold(0, |sum, number| sum.saturating_add(*number.borrow()))
}
