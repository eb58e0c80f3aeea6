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
#![forbid(unsafe_code)]

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
