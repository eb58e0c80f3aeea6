// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator ethercat …`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use ethercat::segment::MOST_DEVICES;
use ethercat::segment::fault::Fault;

use super::{DONE, Output};
use crate::values::duration;

/// The end of `--help`.
pub const HELP: &str = "\
Examples:
  isolator ethercat simulate --interface eth1 --devices 3
  isolator ethercat simulate --interface eth1 --capture cycles.pcap
  isolator ethercat simulate --interface eth1 --fault lost@1000/500

Exit status: 0 done; 1 it could not be done, and one line states why.";

/// `isolator ethercat …`
#[derive(Debug, Subcommand)]
pub enum EthercatVerb {
    /// Simulates a segment of SubDevices on an interface until Ctrl-C, then prints counts
    #[command(after_help = DONE)]
    Simulate(SimulateArgs),
}

/// `isolator ethercat simulate`
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The interface whose frames pass the segment; a MainDevice is at the other end of its cable, or of a
    /// veth pair
    #[arg(long, value_name = "NAME")]
    pub interface: String,
    /// Number of SubDevices
    #[arg(long, value_name = "N", default_value = "3", value_parser = devices, allow_negative_numbers = true)]
    pub devices: usize,
    /// By how much each SubDevice's clock runs faster than that of the one before, in parts per billion
    #[arg(long, value_name = "PPB", default_value = "0", value_parser = drift, allow_negative_numbers = true)]
    pub drift_ppb: i64,
    /// A fault, by the number of a frame with process data: lost@FRAME, late:TIME@FRAME,
    /// counter@FRAME, unplug:SUBDEVICE@FRAME, each with /EVERY; may be given again
    #[arg(long, value_name = "FAULT@FRAME")]
    pub fault: Vec<Fault>,
    /// Write every frame to this file (pcap, for Wireshark)
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Duration [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Use the interface although it carries an address or the default route
    #[arg(long)]
    pub force: bool,
    /// Output options.
    #[command(flatten)]
    pub out: Output,
}

fn devices(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_DEVICES).contains(number));
    number.ok_or_else(|| format!("it is not a number of SubDevices; choose from 1 to {MOST_DEVICES}"))
}

/// No clock of a SubDevice is worse than this.
const MOST_DRIFT_PPB: i64 = 1_000_000;

fn drift(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|drift: &i64| drift.abs() <= MOST_DRIFT_PPB);
    number.ok_or_else(|| {
        format!("it is not a drift of a clock; choose from -{MOST_DRIFT_PPB} to {MOST_DRIFT_PPB}")
    })
}
