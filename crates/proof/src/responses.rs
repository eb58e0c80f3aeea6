// SPDX-License-Identifier: MIT OR Apache-2.0
//! The response from an edge to the answer, in instructions of the isolated CPU, during all deferrable
//! storms: a real-time kernel with the best boot line, and ours isolating. For comparison, during storms that
//! patch no text, a stock kernel with the default boot line: QEMU 7.2 runs text late that another CPU has
//! patched, and in the other storms that kernel ends in an int3.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use evidence::lab::{LabDocument, LabRow, Responses, Spread};
use lab::architecture::Architecture;
use lab::boot;

use crate::guests::{self, Proof};

/// The aims on an isolated CPU: the least number of edges, the longest response in instructions, and the
/// largest spread.
const EDGES: u64 = 1_000_000;
const LONGEST: u64 = 60;
const SPREAD: u64 = 30;

/// The first range of the distribution that is not a single count.
const FIRST_BEYOND: u64 = LONGEST + 1;

/// The least duration of the edges; a busy host gives fewer of them in a second.
const DURATION: &str = "120s";

/// One CPU for storms and edges, one that answers. With three, QEMU 7.2 once ran text that another CPU had
/// patched.
const CPUS: u32 = 2;

/// With a bound beyond any window, since woken tasks wait for the owner's end.
const BOUND: &str = "sysctl.kernel.isolator_max_defer_ms=3600000";

/// Edges in memory, made by a housekeeping CPU.
const MEMORY: &str = "response";
/// The same, without changes of the kernel's text.
const STILL: &str = "still-text";
/// The least duration; its storms take longer.
const STILL_DURATION: &str = "15s";
/// Edges of GPIO lines that are polled and driven by registers, and by the kernel.
const LINES: [&str; 2] = ["registers", "lines"];

/// The tables in Markdown, and the aims that were missed.
pub fn run(isolator: &Path, scratch: &Path) -> Result<Proof, Box<dyn Error>> {
    let architecture = guests::architecture()?;
    let lab = ResponseLab { isolator, scratch, architecture };
    let patient = format!("{} {BOUND}", boot::line("full", CPUS)?);
    let [stock, tuned, ours] = [
        ResponseRun { name: "Debian's kernel, nothing set", kernel: "debian", line: "none", isolates: false },
        ResponseRun {
            name: "Debian's real-time kernel, boot line `full`",
            kernel: "debian-rt",
            line: "full",
            isolates: false,
        },
        ResponseRun { name: "ours, isolating", kernel: "isolator", line: &patient, isolates: true },
    ];
    let (mut out, mut missed) = scenario(&lab, MEMORY, DURATION, &[tuned, ours])?;
    let mut add = |(tables, short): Proof| {
        out = [&out, "\n", &tables].concat();
        missed.extend(short);
    };
    add(scenario(&lab, STILL, STILL_DURATION, &[stock, tuned, ours])?);
    side_by_side(&lab)?;
    // The machine of the other architecture has no GPIO lines.
    if architecture == Architecture::Aarch64 {
        let [registers, lines] = LINES;
        add(scenario(&lab, registers, DURATION, &[tuned, ours])?);
        add((through_the_kernel(&lab, lines)?, Vec::new()));
    }
    Ok((out, missed))
}

/// The settings of the guests.
struct ResponseLab<'a> {
    isolator: &'a Path,
    scratch: &'a Path,
    architecture: Architecture,
}

impl ResponseLab<'_> {
    /// The bundle of a scenario's run.
    fn bundle(&self, scenario: &str, run: usize) -> PathBuf {
        self.scratch.join(format!("{scenario}-{run}"))
    }

    /// A scenario on a kernel; its bundle is left in `folder`.
    fn run(
        &self,
        scenario: &str,
        kernel: &str,
        line: &str,
        more: &[&str],
        folder: &Path,
    ) -> Result<LabDocument, Box<dyn Error>> {
        let (architecture, cpus) = (self.architecture.to_string(), CPUS.to_string());
        let args =
            ["run", scenario, "--kernel", kernel, "--boot", line, "--arch", &architecture, "--cpus", &cpus];
        guests::run(self.isolator, &[&args, more].concat(), folder)
    }
}

/// A kernel, its boot line, and whether it isolates the CPU.
#[derive(Clone, Copy)]
struct ResponseRun<'a> {
    name: &'a str,
    kernel: &'a str,
    line: &'a str,
    isolates: bool,
}

/// A scenario in each of these ways.
fn scenario(
    lab: &ResponseLab<'_>,
    scenario: &str,
    duration: &str,
    runs: &[ResponseRun<'_>],
) -> Result<Proof, Box<dyn Error>> {
    let (mut seen, mut missed, mut complaints) = (Vec::new(), Vec::new(), String::new());
    let mut kernels = Vec::new();
    for (n, ResponseRun { name, kernel, line, isolates }) in runs.iter().enumerate() {
        let isolate: &[&str] = if *isolates { &["--isolate"] } else { &[] };
        let more = [&["--duration", duration], isolate].concat();
        let document = lab.run(scenario, kernel, line, &more, &lab.bundle(scenario, n))?;
        for complaint in document.failures() {
            let _ = writeln!(complaints, "- {name}: {complaint}");
            missed.push(format!("{name}: {complaint}"));
        }
        kernels.push(document.kernel);
        let row = document.rows.into_iter().next().ok_or("the scope saw no window")?;
        if *isolates {
            missed.extend(falls_short(scenario, &row).map(|what| format!("{scenario}: {name}: {what}")));
        }
        seen.push((*name, row));
    }
    kernels.dedup();
    let mut out = format!("On {}; scenario `{scenario}`, seed 1.\n\n", kernels.join(", "));
    table(&mut out, &seen);
    distribution(&mut out, &seen);
    if !complaints.is_empty() {
        out += "\n";
        out += &complaints;
    }
    Ok((out, missed))
}

/// The responses of all three kernels in one report, if evidence is kept.
fn side_by_side(lab: &ResponseLab<'_>) -> Result<(), Box<dyn Error>> {
    const FOLDER: &str = "evidence";
    std::fs::create_dir_all(FOLDER)?;
    let page = format!("{FOLDER}/responses-{}.html", lab.architecture);
    let bundles = (0..3).map(|n| lab.bundle(STILL, n));
    let status =
        Command::new(lab.isolator).args(["report", "--quiet", "-o", &page]).args(bundles).status()?;
    if !status.success() {
        return Err(format!("isolator report ended with {status}").into());
    }
    Ok(())
}

/// The response of the same lines through the kernel, by the guest's own clock in instruction-count time, as
/// a sentence.
fn through_the_kernel(lab: &ResponseLab<'_>, scenario: &str) -> Result<String, Box<dyn Error>> {
    let folder = lab.scratch.join(scenario);
    let document = lab.run(scenario, "debian-rt", "full", &[], &folder)?;
    let bundle = evidence::Bundle::open(&folder)?;
    let row = bundle.rows.first().ok_or("the guest measured nothing")?;
    let latency = &row.series.latency;
    Ok(format!(
        "The same lines through the kernel, on {} where nothing else happens (scenario `{scenario}`): from the kernel's stamp of an edge, in its \
         interrupt, to the answer written, {} edges: p50 {}, {} to {} instructions.\n",
        document.kernel,
        latency.count(),
        latency.quantile_ns(0.5),
        latency.min_ns(),
        latency.max_ns(),
    ))
}

/// The aims that were missed. A program that polls registers records its answers itself, which delays later
/// ones: its only aim is that the CPU never enters the kernel.
fn falls_short(scenario: &str, row: &LabRow) -> Option<String> {
    if LINES.contains(&scenario) {
        return (row.excursions > 0).then(|| format!("{} excursions", row.excursions));
    }
    let all = row.responses.as_ref()?.all();
    let (longest, spread) = (all.most_instructions, all.instructions());
    let few = scenario == MEMORY && all.count < EDGES;
    (few || longest > LONGEST || spread > SPREAD)
        .then(|| format!("{} edges, longest {longest}, spread {spread}", all.count))
}

fn table(out: &mut String, seen: &[(&str, LabRow)]) {
    out.push_str(
        "| kernel | window | edges | answered | p50 | least to most | spread | interrupted | the others: least to most | spread | excursions | breaches |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (name, row) in seen {
        let Some(responses) = &row.responses else { continue };
        let (all, quiet) = (responses.all(), &responses.quiet);
        let between = |spread: &Spread| {
            let Spread { least_instructions, most_instructions, .. } = spread;
            format!("{least_instructions} to {most_instructions} | {}", spread.instructions())
        };
        let _ = writeln!(
            out,
            "| {name} | {:.0} s | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.seconds_guest,
            responses.edges,
            all.count,
            all.quantile(0.5),
            between(&all),
            responses.interrupted.count,
            between(quiet),
            row.excursions,
            row.breaches().map_or(String::new(), |breaches| breaches.to_string()),
        );
    }
}

/// The number of responses by length: each count up to the aim, then by powers of two.
fn distribution(out: &mut String, seen: &[(&str, LabRow)]) {
    let counts = |row: &LabRow| row.responses.as_ref().map(Responses::all).unwrap_or_default().counts;
    let begin = |from: u64| match from {
        ..FIRST_BEYOND => from,
        FIRST_BEYOND..512 => FIRST_BEYOND,
        _ => from,
    };
    let mut begins =
        seen.iter().flat_map(|(_, row)| counts(row)).map(|(from, _)| begin(from)).collect::<Vec<_>>();
    begins.sort_unstable();
    begins.dedup();
    let names = seen.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let _ = writeln!(out, "\n| at the most, instructions | {} |", names.join(" | "));
    let _ = writeln!(out, "|---|{}", "--:|".repeat(names.len()));
    for from in begins {
        let range = match from {
            ..FIRST_BEYOND => from.to_string(),
            FIRST_BEYOND..512 => format!("{from} to 511"),
            _ => format!("{from} to {}", 2 * from - 1),
        };
        let sums = seen.iter().map(|(_, row)| {
            let within = counts(row).into_iter().filter(|(one, _)| begin(*one) == from);
            within.map(|(_, count)| count).sum::<u64>().to_string()
        });
        let _ = writeln!(out, "| {range} | {} |", sums.collect::<Vec<_>>().join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(quiet: &[(u64, u64)], interrupted: &[(u64, u64)]) -> LabRow {
        let spread = |counts: &[(u64, u64)]| Spread {
            count: counts.iter().map(|(_, count)| count).sum(),
            least_instructions: if counts.is_empty() { 0 } else { 4 },
            most_instructions: counts.last().map_or(0, |(from, _)| *from),
            counts: counts.to_vec(),
        };
        let (quiet, interrupted) = (spread(quiet), spread(interrupted));
        let edges = quiet.count + interrupted.count;
        LabRow {
            excursions: 3,
            responses: Some(Responses { edges, quiet, interrupted, ..Responses::default() }),
            ..LabRow::default()
        }
    }

    #[test]
    fn lists_counts_up_to_the_aim_and_groups_outliers() {
        let seen =
            [("stock", row(&[(13, 90), (61, 1), (500, 2)], &[(2048, 3)])), ("ours", row(&[(13, 96)], &[]))];
        let mut out = String::new();
        distribution(&mut out, &seen);
        let lines = out.lines().skip(3).collect::<Vec<_>>();
        assert_eq!(lines, ["| 13 | 90 | 96 |", "| 61 to 511 | 3 | 0 |", "| 2048 to 4095 | 3 | 0 |"]);
        let mut out = String::new();
        table(&mut out, &seen);
        assert!(
            out.contains("| stock | 0 s | 96 | 96 | 13 | 4 to 2048 | 2044 | 3 | 4 to 500 | 496 | 3 |  |"),
            "{out}"
        );
    }

    #[test]
    fn reports_few_edges_and_long_or_scattered_answers() {
        let judged = |counts: &[(u64, u64)]| falls_short(MEMORY, &row(counts, &[]));
        assert_eq!(judged(&[(13, EDGES)]), None);
        assert_eq!(judged(&[(13, EDGES - 1)]), Some("999999 edges, longest 13, spread 9".into()));
        assert_eq!(judged(&[(13, EDGES), (61, 1)]), Some("1000001 edges, longest 61, spread 57".into()));
        assert_eq!(judged(&[(13, EDGES), (35, 1)]), Some("1000001 edges, longest 35, spread 31".into()));
        assert_eq!(falls_short(LINES[0], &row(&[(200, 1)], &[])), Some("3 excursions".into()));
        assert_eq!(falls_short(STILL, &row(&[(13, 1)], &[])), None);
        assert_eq!(falls_short(STILL, &row(&[(61, 1)], &[])), Some("1 edges, longest 61, spread 57".into()));
    }

    #[test]
    fn the_scenarios_answer_edges() {
        let one = |name: &str| lab::scenario::named(&[name.to_string()]).unwrap().remove(0);
        assert!(one(MEMORY).responds() && one(STILL).responds());
        assert!(LINES.iter().all(|name| one(name).has_lines()));
    }
}
