// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that comes from elsewhere is data: files of folders that others may write, and text and sizes
//! in them.
//!
//! - [`Folder`] reads beneath a folder, regular files only and through no link, and writes by the folder's
//!   descriptor.
//! - [`open()`], [`read`] and [`text()`] open one file for reading, wherever it lies, and [`replace()`]
//!   writes one; [`create_new`] names a file for the time until it is in place.
//! - [`Scratch`] makes a folder for files that last as long as a process.
//! - [`Allowance`] bounds the work and memory that foreign data may cost.
//! - [`mod@text`] has one escape for each place where foreign text is shown.
//!
//! Errors are [`std::io::Error`]: the callers know what was tried, and on what.
//!
//! # Rules
//!
//! Bundles, plans, machines' trees, other tools' files and the names of tasks are foreign data. Three parts
//! of `untrusted` handle them, so that a new call site cannot forget it.
//!
//! **Files.** A bundle is read beneath its folder (`openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS`, component by component on kernels before 5.6), regular files only. Any other file
//! that another user may have named is opened by `untrusted::open`: with `O_PATH` first, then, if it is a
//! regular file, through `/proc/self/fd`. So no pipe blocks, and no device notices. A run, an import, a
//! fleet's store and a roll-out write into a folder that is made for them, or that is this user's and not
//! writable by all. Else they refuse. They hold it open and write by its descriptor. Temporary files of a
//! load, `fleet report` and `tune measure` lie in an `untrusted::Scratch`: a folder with a random name, for
//! this user alone, where no other user may rename. Other programs get it by its descriptor, DuckDB by its
//! path. One file that the user names (`report.html`, `-o FILE`, `--json FILE`, `--junit FILE`) is written
//! under a random name and renamed, wherever it lies. A link, a device or a pipe is written through only
//! where root or this user owns it and its folder, and no other user can have put it there. `/dev/stdout`
//! works; another user's `report.html` that leads to `/etc/passwd` is replaced. The same holds for reading a
//! named file.
//!
//! **An allowance for each bundle.** All reads of one bundle, packed or not, draw on one
//! `untrusted::Allowance`. A bundle that needs more is refused. The program files of a process have one, too.
//!
//! | Resource | At most | For comparison |
//! |---|---|---|
//! | bytes read and unpacked | 256 MiB | a day of 16 CPUs under one load: 50 MiB |
//! | memory for what was read | 192 MiB | a day of 46 CPUs under one load |
//! | rows, and notes, taints and rows that were not run | 10,000 each | 128 CPUs, 10 loads, 6 probes: 7,680 |
//! | seconds of a row | 1,000,000 | eleven days |
//! | samples of a row | 10^15 | one every nanosecond of eleven days; a file that counts more is damaged |
//! | a document (`manifest.json`, `lab.json`) | 16 MiB | of 7,680 rows: 5 MiB |
//! | a line | 8 MiB | the first line of a journal: 0.8 MiB |
//!
//! Files are read as streams, so memory does not hold them twice. Release builds check integer arithmetic for
//! overflow, but in the hot loops (`rt`, `measure`): see `Cargo.toml`.
//!
//! **Text.** Each place where text is shown has one escape (`untrusted::text`): a cell, a line, a screen,
//! JSON, CSV, XML, a Prometheus label. The program's output functions (`cli/src/output.rs`) let no control
//! character, bidirectional mark or character without width through, but our own colours. An error is one
//! line, whatever is in it. A CSV cell that a spreadsheet would take for a formula begins with an apostrophe.
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
pub use place::{private, unlinked_folder};
pub use replace::{create, create_new, replace, replace_synced};
pub use rustix::fs::FileType;
pub use scratch::{Lent, Scratch, temporary_folders};

/// The sum of numbers that files state: it saturates, since they may be any.
pub fn total<N: Borrow<u64>>(numbers: impl IntoIterator<Item = N>) -> u64 {
    numbers.into_iter().fold(0, |sum, number| sum.saturating_add(*number.borrow()))
}
