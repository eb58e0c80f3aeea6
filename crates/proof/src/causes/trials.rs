// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels on which the collectors pass their trials: each is started in a guest as for a run.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use cause::names::Names;
use cause::{Depth, Started, WatchSpec};
use evidence::cause::Choice;
use serde::{Deserialize, Serialize};
use trace::choice::SourceChoice;

use super::source::CPU;
use crate::guests;

/// Kernels that guests boot.
const KERNELS: [&str; 6] =
    ["debian:6.1", "debian-rt:6.1", "debian", "debian-rt", "debian:7.2", "debian-rt:7.2"];

/// The result of one start.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StartResult {
    /// The collector.
    what: String,
    /// The reason of a refusal.
    refused: Option<String>,
    /// The kinds of events that it cannot see.
    could_not_see: Vec<String>,
    /// The kinds that the trial could not provoke.
    not_tried: Vec<String>,
}

impl StartResult {
    fn of(what: &str, refused: Option<String>) -> StartResult {
        StartResult { what: what.into(), refused, could_not_see: Vec::new(), not_tried: Vec::new() }
    }
}

/// Starts each collector in turn, and prints the results.
pub fn in_guest() -> Result<(), Box<dyn Error>> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("release {}", release.trim());
    // From a housekeeping CPU, as a run does.
    rt::thread::set_affinity(&[0])?;
    let machine = inspect::read(Path::new("/"));
    let collectors = [
        ("`bpf`", Choice::Bpf, Depth::Busy),
        ("`tracefs`", Choice::Tracefs, Depth::Busy),
        ("`osnoise`", Choice::Osnoise, Depth::Busy),
        ("`bpf` for `watch --senders`", Choice::Bpf, Depth::Senders),
        ("`tracefs` for `watch --senders`", Choice::Tracefs, Depth::Senders),
    ];
    for (what, choice, depth) in collectors {
        let asked = WatchSpec { cpus: [CPU].into_iter().collect(), depth };
        let result = match cause::start(choice, &asked, &machine) {
            Err(error) => StartResult::of(what, Some(error.why)),
            Ok(Started::Counters { because }) => StartResult::of(what, Some(because.join("; "))),
            Ok(Started::Events(collector)) => StartResult {
                could_not_see: collector.could_not_see().to_vec(),
                not_tried: collector.not_tried().to_vec(),
                ..StartResult::of(what, None)
            },
        };
        println!("start {}", serde_json::to_string(&result)?);
    }
    for source in [SourceChoice::Bpf, SourceChoice::Tracefs] {
        let what = format!("`monitor` of a program's threads by `{}`", source.name());
        let result = match trace::trial::start(source, &Names::read(Path::new("/")), &[CPU]) {
            Err(error) => StartResult::of(&what, Some(error.why)),
            Ok(source) => {
                let could_not_see = source.could_not_see().to_vec();
                StartResult { could_not_see, ..StartResult::of(&what, None) }
            }
        };
        println!("start {}", serde_json::to_string(&result)?);
    }
    Ok(())
}

/// Runs a guest of each kernel; returns a table, and the failures on the newest kernel.
pub fn run([isolator, guest]: [&Path; 2]) -> Result<(String, Vec<String>), Box<dyn Error>> {
    let mut text =
        "| kernel | collector | passes its trial | not reported | not tried |\n|---|---|---|---|---|\n"
            .to_string();
    let mut short = Vec::new();
    for kernel in KERNELS {
        eprintln!("proof-causes: trials, {kernel}");
        let mut command = guests::program(isolator, kernel, guests::architecture()?);
        command.args(["--time-limit", "20m"]).arg(guest).arg("causes-trial");
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let results = results(&said);
        if results.is_empty() || !output.status.success() {
            return Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let release = said.lines().find_map(|line| line.strip_prefix("release ")).unwrap_or(kernel);
        for one in results {
            writeln!(text, "{}", row(release, &one))?;
            // Debian's ordinary kernels are built without the osnoise tracer.
            let is_there = |why: &&String| !why.contains("no osnoise tracer");
            if let (Some(why), true) = (one.refused.as_ref().filter(is_there), kernel.ends_with(":7.2")) {
                short.push(format!("{kernel}, {}: {why}", one.what));
            }
        }
    }
    Ok((text, short))
}

fn results(said: &str) -> Vec<StartResult> {
    said.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("start ")?).ok()).collect()
}

fn row(release: &str, one: &StartResult) -> String {
    let cell = |text: &str| text.replace('|', "/");
    // Only the kinds; the reasons are in the run's evidence.
    let kinds = one.could_not_see.iter().filter_map(|line| line.split(':').next());
    let kinds = kinds.collect::<Vec<_>>().join("; ");
    let outcome = one.refused.as_deref().map_or("yes".to_string(), |why| format!("no: {}", cell(why)));
    format!(
        "| {release} | {} | {outcome} | {} | {} |",
        one.what,
        cell(&kinds),
        cell(&one.not_tried.join("; "))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_refusals_and_kinds_not_reported() {
        let one = StartResult {
            could_not_see: vec!["softirqs: this kernel does not report them (x)".into(), "NMIs: none".into()],
            not_tried: vec!["irq work".into()],
            ..StartResult::of("`bpf`", None)
        };
        let said = format!("release 7.2\nnoise\nstart {}\n", serde_json::to_string(&one).unwrap());
        let [read] = &results(&said)[..] else { panic!("{said}") };
        assert_eq!(row("7.2", read), "| 7.2 | `bpf` | yes | softirqs; NMIs | irq work |");
        let refused = StartResult::of("`bpf`", Some("a | b".into()));
        assert_eq!(row("7.2", &refused), "| 7.2 | `bpf` | no: a / b |  |  |");
    }
}
