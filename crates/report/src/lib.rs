// SPDX-License-Identifier: MIT OR Apache-2.0
//! HTML and terminal views of evidence; nothing is shown that evidence does not say.
//!
//! - [`html()`] makes one self-contained page of one or several bundles: Rust computes figures and geometry,
//!   the templates write the markup and escape every text, so that a load's command line cannot become
//!   markup.
//! - [`terminal`] makes a table for people; [`prometheus`] metrics; [`junit`](junit()) a gate for CI,
//!   [`sarif`](sarif()) what lint found.
//!
//! Limits: the page does not grow with the length of a run, only with its rows; where there are more panels
//! than a page can carry, the worst are drawn and the page says how many are not.
#![forbid(unsafe_code)]

mod card;
mod change;
mod chart;
mod claim;
mod facts;
mod figures;
mod fleet;
mod html;
mod junit;
mod lab;
mod outcome;
pub mod prometheus;
mod runs;
mod sarif;
mod scale;
mod taints;
pub mod terminal;
mod text;
pub mod watch;
mod why;
mod write;

pub use self::why::brief;
pub use fleet::fleet;
pub use html::{compared, html, html_of};
pub use junit::{junit, junit_error, junit_lint, junit_lint_error};
pub use outcome::outcome;
pub use sarif::sarif;
pub use write::write_into;
