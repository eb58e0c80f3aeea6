// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator doctor`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use doctor::{CheckGroup, Profile, Use};

use super::{OUTPUT, Output};
use crate::values::{duration, profile, purpose};

/// The end of `--help`.
pub const HELP: &str = "\
Every finding has the value, the file it was read from, why it matters, a fix
and a source. A check that cannot read its file is UNKNOWN, with a hint; root
can read more. The profile decides how severe a finding is.

Examples:
  isolator doctor
  isolator doctor --profile poll --sample 10s
  isolator doctor --use control:1kHz
  isolator doctor --only boot
  isolator doctor --explain pwr-cstate-latency
  isolator doctor --save machine.json; isolator doctor --snapshot machine.json

Exit status: 0 audited, whatever it found (the JSON's summary has the counts);
1 it could not be done, and one line states why.";

/// `isolator doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Profile of the machine: periodic, poll, audio, vm or server [default: periodic]
    #[arg(long, value_name = "NAME", value_parser = profile(), hide_possible_values = true)]
    pub profile: Option<Profile>,
    /// Take profile, periods and limits from a use: control:1kHz, linuxcnc:25us+1ms, audio:64@48000,
    /// ethercat:1kHz, poll, vm
    #[arg(long = "use", value_name = "USE", value_parser = purpose(), hide_possible_values = true, conflicts_with = "profile")]
    pub purpose: Option<Use>,
    /// Count the interrupts of each CPU for this time; needs no privilege
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, conflicts_with_all = ["root", "snapshot"])]
    pub sample: Option<Duration>,
    /// Audit the machine whose /proc, /sys, /etc and /boot lie below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Audit the machine in this snapshot
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub snapshot: Option<PathBuf>,
    /// Only checks of this group: kernel, boot, isolation, irq, threads, scheduler, memory, power, clock,
    /// firmware, limits, services, virtualization, graphics, network, container
    #[arg(long, value_name = "GROUP")]
    pub only: Option<CheckGroup>,
    /// Explain one check, with its result here
    #[arg(long, value_name = "CHECK", conflicts_with = "only")]
    pub explain: Option<String>,
    /// Save the snapshot to this file, for --snapshot
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub save: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}
