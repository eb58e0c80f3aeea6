// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator generate`: its arguments.

use std::path::PathBuf;

use clap::Args;

/// `isolator generate`
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The folder; schema, reference, man and completions are made in it
    pub folder: PathBuf,
}
