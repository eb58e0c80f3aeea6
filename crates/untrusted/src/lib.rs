// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that comes from elsewhere is data: files of folders that others may write, and text and sizes
//! in them.
//!
//! - [`Folder`] reads beneath a folder, regular files only and through no link, and writes by the folder's
//!   descriptor.
//! - [`replace()`] and [`open`] are for one file that the user named, wherever it lies; [`create_new`] names
//!   a file for the time until it is in place.
//! - [`Budget`] bounds what one bundle may make the program read and hold.
//! - [`text`] has one escape for each place where foreign text is shown.
//!
//! Errors are [`std::io::Error`]: the callers know what was tried, and on what.
#![forbid(unsafe_code)]

use std::borrow::Borrow;

mod budget;
mod folder;
mod lines;
mod place;
mod replace;
pub mod text;

pub use budget::{Budget, Metered};
pub use folder::Folder;
pub use lines::Lines;
pub use replace::{create, create_new, open, read, replace, replace_synced};
pub use rustix::fs::FileType;

/// The sum of numbers that files state: it saturates, since they may be any.
pub fn total<N: Borrow<u64>>(numbers: impl IntoIterator<Item = N>) -> u64 {
    numbers.into_iter().fold(0, |sum, number| sum.saturating_add(*number.borrow()))
}
