// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many machines: their bundles as tables in Parquet, and the questions to them as SQL.
//!
//! ```text
//! bundles -> entry -> part-0001/{bundles,rows,buckets,settings,causes,unread}.parquet
//!     -> duckdb, sql/*.sql -> document
//! ```
//! A store grows by parts, each written beside and renamed, so that a kill leaves no half of one. Every
//! figure of a fleet is computed in one place, the SQL that [`query`] ships: the report runs the same text
//! that people run by hand.
//!
//! Limits: the report needs the program `duckdb`; no other program may write to a store meanwhile.
//!
//! # A roll-out
//!
//! 1. **Parse.** Options for `prove` and `tune plan` are parsed here, before any machine is contacted.
//!    `ansible-inventory` lists the machines; a machine with two names is refused.
//! 2. **Lay out.** The collection goes into the run's folder (`fleet`'s `build.rs` carries it), with a
//!    playbook of one line.
//! 3. **Play.** `ansible-playbook` does the rest: the roles `program`, `tune`, `prove` and `collect`. Its
//!    callback `hosts` prints a line where a machine changes, and writes `events.jsonl`.
//! 4. **Report.** A machine's outcome is its last failure, or the verdict on its bundle, or the result of
//!    `tune verify` there.
#![forbid(unsafe_code)]

/// The command, in a clone, that installs Ansible and DuckDB in the versions and with the hashes of that
/// list.
pub const INSTALL: &str = "pip install --require-hashes -r fleet/requirements.txt";

/// How a program of theirs that lacks is installed; `other` is the other way.
fn install_or(other: &str) -> String {
    format!("install it: {INSTALL} in a clone of Isolator, or {other}")
}

pub mod ansible;
pub mod document;
mod parts;
pub mod query;
#[cfg_attr(not(feature = "parquet"), path = "without_parquet.rs")]
mod store;
pub mod synthetic;

pub use document::FleetDocument;
pub use parts::Stored;
pub use query::{QUERIES, Query, report};
pub use store::store;
