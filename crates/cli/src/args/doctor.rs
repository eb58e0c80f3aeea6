// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator doctor`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use doctor::{CheckGroup, Profile, Use};

use super::{OUTPUT, Output};
use crate::values::duration;

/// What `--help` adds.
pub const HELP: &str = "\
Every finding has the value and where it was read, why it matters, a fix and a
source. What may not be read is UNKNOWN, with what would help; run it as root to
know more. Which findings weigh depends on what the machine is for.

Examples:
  isolator doctor
  isolator doctor --profile poll --sample 10s
  isolator doctor --use control:1kHz
  isolator doctor --only boot
  isolator doctor --explain pwr-cstate-latency
  isolator doctor --save machine.json; isolator doctor --snapshot machine.json

Exit status: 0 it looked, whatever it found (the JSON's summary counts that);
1 it could not, and one line says why.";

/// `isolator doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// What the machine is for: periodic, poll, audio, vm or server [default: periodic]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,
    /// Take profile, period and limit from a use: audio:64@48000, control:1kHz
    #[arg(long = "use", value_name = "USE", conflicts_with = "profile")]
    pub purpose: Option<Use>,
    /// Count for this long who interrupts which CPU; needs no privilege
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, conflicts_with_all = ["root", "snapshot"])]
    pub sample: Option<Duration>,
    /// Look at the machine whose /proc, /sys, /etc and /boot lie below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Look at the machine in this snapshot
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub snapshot: Option<PathBuf>,
    /// Only checks of this group: kernel, boot, isolation, irq, threads, scheduler, memory, power, clock,
    /// firmware, limits, services, virtualization, graphics, network, container
    #[arg(long, value_name = "GROUP")]
    pub only: Option<CheckGroup>,
    /// All about one check, and how it comes out here
    #[arg(long, value_name = "CHECK", conflicts_with = "only")]
    pub explain: Option<String>,
    /// Keep the snapshot, to look at it elsewhere
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub save: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: Output,
}
