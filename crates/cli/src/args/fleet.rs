// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator fleet`: its arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{OUTPUT, Output};

/// What `--help` adds.
pub const HELP: &str = "\
Examples:
  isolator fleet store -o store bundles/
  isolator fleet report store -o fleet.html
  isolator fleet query
  (cd store && isolator fleet query outliers | duckdb)

The report needs the program duckdb: pip install duckdb-cli, or duckdb.org.";

/// `isolator fleet`
#[derive(Debug, Subcommand)]
pub enum FleetVerb {
    /// Adds bundles to a store of Parquet files; those that it has already are passed over
    Store(FleetStoreArgs),
    /// Machines ranked, outliers, unfit platforms, drift, and the settings that go with failure
    Report(FleetReportArgs),
    /// Lists the queries behind the report, or prints one as SQL for DuckDB
    Query(FleetQueryArgs),
}

/// `isolator fleet store`
#[derive(Debug, Args)]
pub struct FleetStoreArgs {
    /// Bundles: folders, .tar.zst files, or folders that hold such
    #[arg(value_name = "BUNDLE", required = true)]
    pub bundles: Vec<PathBuf>,
    /// The store's folder
    #[arg(long, short, value_name = "STORE", required = true)]
    pub output: PathBuf,
    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// `isolator fleet report`
#[derive(Debug, Args)]
pub struct FleetReportArgs {
    /// The store's folder
    pub store: PathBuf,
    /// Also write the report as HTML
    #[arg(long, short, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}

/// `isolator fleet query`
#[derive(Debug, Args)]
pub struct FleetQueryArgs {
    /// Which [default: all are listed]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
