// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator import`: its arguments.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use exchange::import;

use super::{Detail, JudgeArgs, OUTPUT, Output};

/// The end of `--help`.
pub const HELP: &str = "\
Reads the output of these tools, and detects which tool wrote it:
  cyclictest      --json, -h, --histfile, -v and its summary
  oslat           --json, its text, and its table alone
  rtla            timerlat and osnoise, hist and top; hwnoise
  rt-tests        pmqtest, ptsematest, svsematest, sigwaittest, signaltest and
                  cyclicdeadline, --json and text; deadline_test; hwlatdetect
  Xenomai, EVL    latency and latmus: RTH, RTD and RTS lines, latmus -g
  stress-ng       --cyclic, with or without --cyclic-dist
  LinuxCNC        latency-test as text, latency-histogram --nox
  jitterdebugger  its JSON
  rteval          summary.xml
docs/reference/import.md describes the result for each, and its limits.

Examples:
  cyclictest -m -p 80 -i 1000 -D 1m --json=out.json
  isolator import out.json --load idle --limit 100us

Exit status: 0 imported, and with --limit the limit holds; 1 the file could not
be read, or the bundle not be written; 2 the limit given does not hold, or is
not proven to.";

/// `isolator import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The other tool's output
    pub file: PathBuf,
    /// The load during the measurement [default: unknown]
    #[arg(long, value_name = "NAME")]
    pub load: Option<String>,
    /// Unit of the figures if the file does not state it, as with cyclictest -N [default: us]
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<UnitArg>,
    /// The options of the verdict: without a limit there is none.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Folder of the bundle, which must not hold one yet [default: evidence/FILE without its ending]
    #[arg(long, short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// How much is printed.
    #[command(flatten)]
    pub detail: Detail,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

/// A unit of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnitArg {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
}

impl From<UnitArg> for import::FigureUnit {
    fn from(unit: UnitArg) -> import::FigureUnit {
        match unit {
            UnitArg::Ns => import::FigureUnit::Nanoseconds,
            UnitArg::Us => import::FigureUnit::Microseconds,
        }
    }
}
