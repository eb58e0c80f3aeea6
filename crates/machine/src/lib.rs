// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this Linux machine is.
//!
//! Everything is read below a root folder, so that a captured tree is as good as a live machine, and
//! everything that was read becomes one serialisable [`Snapshot`]. Reading never fails as a whole: a file
//! that is missing or unreadable leaves its field empty and its name in [`Snapshot::unread`].
#![forbid(unsafe_code)]

pub mod cpuset;
pub mod snapshot;

pub use cpuset::CpuSet;
pub use snapshot::Snapshot;
