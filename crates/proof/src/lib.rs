// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the claims of the documentation, and writes the results into the page with the claim.
//!
//! In guests: [`claims`]: the isolator's kernel part; [`causes`]: names of causes; [`repeats`] and
//! [`responses`]: the lab; [`published`]: the lab's matrix beside published figures. Here: [`live`]: the page
//! of a run; [`mod@bench`]: isolator itself, against peers; [`foreign`]: every reader of foreign bytes;
//! [`simulated`]: the claim of a verdict, on simulated machines. [`page`] puts a table between two comments
//! of a page.
#![forbid(unsafe_code)]

pub mod bench;
pub mod bystanders;
pub mod causes;
pub mod claims;
pub mod foreign;
pub mod guests;
pub mod live;
mod middle;
pub mod page;
pub mod published;
pub mod repeats;
pub mod responses;
pub mod simulated;
