// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands, devices and files that an earlier run names. A bundle may come from another person, and
//! `prove --like` mostly runs as root: such names are shown, and used only where the user allows it.

use std::path::Path;

use evidence::Error;
use evidence::manifest::Asked;
use load::Load;
use machine::units::whole_us;

use crate::args::RunOptions;

/// Files and devices of an earlier run that no option replaces, a line each; `loads` says that an option
/// replaces its loads.
pub fn named(earlier: &Asked, loads: bool, options: &RunOptions) -> Vec<String> {
    let mut named = Vec::new();
    if !loads {
        named.extend(earlier.loads.iter().flat_map(|load| commands(load)));
    }
    let quoted = |what: &str, name: &str| format!("{what} '{}'", name.escape_debug());
    let wired = earlier.response.clone().unwrap_or_default();
    let given = &options.response;
    for (what, name, is_replaced) in [
        ("writes to the file", &wired.signal, given.signal.is_some()),
        ("drives registers of the board", &wired.board, given.board.is_some()),
        ("drives lines of the chip", &wired.chip, given.chip.is_some()),
    ] {
        named.extend(name.iter().filter(|_| !is_replaced).map(|name| quoted(what, name)));
    }
    // A line that is read is made an input first.
    if given.line_in.is_none() {
        named.extend(wired.input.map(|line| format!("reads the line {line}")));
    }
    if given.line_out.is_none() {
        named.extend(wired.output.map(|line| format!("drives the line {line}")));
    }
    if options.dma_latency.is_none() {
        let asks = |us: u32| format!("asks /dev/cpu_dma_latency for {}", whole_us(us));
        named.extend(earlier.dma_latency_us.map(asks));
    }
    let driven = earlier.ethercat.clone().unwrap_or_default();
    if options.ethercat.device.is_none() {
        named.extend(driven.device.map(|name| quoted("sends on the interface", &name)));
    }
    if driven.forced && !options.ethercat.force {
        named.push("sends on an interface that carries other traffic".to_string());
    }
    named
}

/// The commands that a list of loads runs.
fn commands(list: &str) -> impl Iterator<Item = String> {
    // A list that cannot be read is refused later, before anything of it runs.
    let loads = load::parse(list).unwrap_or_default().into_iter();
    loads.filter_map(|load| match load {
        Load::Custom(command) | Load::Gpu(Some(command)) => {
            Some(format!("runs the command '{}'", command.escape_debug()))
        }
        _ => None,
    })
}

/// Refuses a run that names something, and shows it.
pub fn refuse(path: &Path, named: &[String]) -> Error {
    let why = format!("it {}", named.join(", "));
    let cure = "look at that, then allow it with --allow-commands, or replace it by options";
    Error::on("measure like the run", path.display(), why, cure)
}

#[cfg(test)]
mod tests {
    use evidence::manifest::{EthercatSetup, ResponseSetup};

    use super::*;
    use crate::args::{EthercatOptions, ResponseOptions};

    /// A run with every field that names something.
    fn earlier() -> Asked {
        Asked {
            loads: ["cpu,custom=id > /tmp/x\u{1b}[2J\nrm -r /", "gpu=render", "idle"]
                .map(String::from)
                .to_vec(),
            response: Some(ResponseSetup {
                signal: Some("/etc/shadow:8".into()),
                board: Some("/tmp/board.json".into()),
                chip: Some("/dev/sda".into()),
                input: Some(3),
                output: Some(4),
                role: Some("generator".into()),
            }),
            ethercat: Some(EthercatSetup { device: Some("eth0".into()), forced: true }),
            dma_latency_us: Some(0),
            ..Asked::default()
        }
    }

    #[test]
    fn lists_every_command_device_and_file() {
        assert_eq!(
            named(&earlier(), false, &RunOptions::default()),
            [
                r"runs the command 'id > /tmp/x\u{1b}[2J\nrm -r /'",
                "runs the command 'render'",
                "writes to the file '/etc/shadow:8'",
                "drives registers of the board '/tmp/board.json'",
                "drives lines of the chip '/dev/sda'",
                "reads the line 3",
                "drives the line 4",
                "asks /dev/cpu_dma_latency for 0 us",
                "sends on the interface 'eth0'",
                "sends on an interface that carries other traffic",
            ]
        );
    }

    #[test]
    fn leaves_out_what_options_replace() {
        let response = ResponseOptions {
            signal: Some("/dev/shm/words".into()),
            board: Some("rpi4".into()),
            chip: Some("gpiochip0".into()),
            line_in: Some(2),
            line_out: Some(5),
            ..ResponseOptions::default()
        };
        let ethercat = EthercatOptions { device: Some("eth1".into()), force: true };
        let options = RunOptions { response, ethercat, dma_latency: Some(9), ..RunOptions::default() };
        assert_eq!(named(&earlier(), true, &options), [""; 0]);
    }

    #[test]
    fn a_run_of_loads_by_name_names_nothing() {
        let earlier =
            Asked { loads: vec!["all".into(), "idle".into(), "custom=".into()], ..Asked::default() };
        assert_eq!(named(&earlier, false, &RunOptions::default()), [""; 0]);
    }
}
