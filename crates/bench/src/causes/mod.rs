// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interruptions that were made on purpose: does the collector name them, and who made them?
//!
//! One thread looks at the clock without pause on the watched CPU; every look that comes late is a gap. Another one
//! interrupts it at random times ([`source`]). A round counts as named where a gap that overlaps it has the cause that
//! the round made. Runs in a guest only ([`in_guest`]); [`page`] asks for that and writes the table.

mod looks;
mod source;

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use evidence::cause::{Cause, Choice};
use evidence::manifest::Spike;
use serde::{Deserialize, Serialize};

use crate::guests;

/// What became of one kind of interruption.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What it should be called.
    pub expected: String,
    /// Why it could not be made here.
    pub skipped: Option<String>,
    /// Rounds that were made.
    pub rounds: usize,
    /// Rounds in which the loop was interrupted at all.
    pub seen: usize,
    /// Of those, rounds with the right cause.
    pub named: usize,
    /// Of those, rounds whose sender was to be told, and was right.
    pub sent: Option<usize>,
    /// Median of the share of a named gap that was not explained.
    pub remainder: f64,
    /// Gaps far from any round that were given the cause all the same.
    pub elsewhere: usize,
    /// What was named in the first gaps that were not right.
    pub wrong: Vec<String>,
}

/// A round of interruptions.
#[derive(Debug, Clone, Copy)]
struct Round {
    from_ns: u64,
    to_ns: u64,
    /// The thread that made it.
    by: u32,
}

/// A gap of the same interruption may end this long after its round: work that a round leaves is done later.
const AFTER_NS: u64 = 3_000_000;

impl Outcome {
    fn of(source: &source::Source, rounds: &[Round], spikes: &[Spike]) -> Outcome {
        let is_right = |cause: &&Cause| (source.is_right)(cause);
        let overlaps = |round: &Round, spike: &Spike| {
            spike.monotonic_ns <= round.to_ns + AFTER_NS
                && spike.monotonic_ns + spike.latency_ns >= round.from_ns
        };
        let mut outcome = Outcome {
            name: source.name.to_string(),
            expected: source.expected.to_string(),
            skipped: None,
            rounds: rounds.len(),
            seen: 0,
            named: 0,
            sent: source.has_sender.then_some(0),
            remainder: 0.0,
            elsewhere: 0,
            wrong: Vec::new(),
        };
        let mut shares = Vec::new();
        for round in rounds {
            let gaps = spikes.iter().filter(|spike| overlaps(round, spike)).collect::<Vec<_>>();
            let Some(longest) = gaps.iter().max_by_key(|spike| spike.latency_ns) else { continue };
            outcome.seen += 1;
            let mut right = gaps.iter().filter_map(|gap| Some((gap, gap.causes.iter().find(is_right)?)));
            let Some((gap, _)) = right.clone().next() else {
                if outcome.wrong.len() < 5 {
                    outcome.wrong.push(told(longest));
                }
                continue;
            };
            outcome.named += 1;
            shares.push(gap.unexplained_ns.unwrap_or(0) as f64 / gap.latency_ns.max(1) as f64);
            if let Some(sent) = &mut outcome.sent {
                let sender = |cause: &Cause| cause.sender.as_ref().and_then(|sender| sender.pid);
                *sent += usize::from(right.any(|(_, cause)| sender(cause) == Some(round.by)));
            }
        }
        shares.sort_by(f64::total_cmp);
        outcome.remainder = shares.get(shares.len() / 2).copied().unwrap_or(0.0);
        let elsewhere = |spike: &&Spike| !rounds.iter().any(|round| overlaps(round, spike));
        let given = |spike: &&Spike| spike.causes.iter().any(|cause| is_right(&cause));
        outcome.elsewhere = spikes.iter().filter(elsewhere).filter(given).count();
        outcome
    }
}

fn told(spike: &Spike) -> String {
    let mut text = format!("{} ns, {} unexplained:", spike.latency_ns, spike.unexplained_ns.unwrap_or(0));
    for cause in &spike.causes {
        let _ = write!(text, " {} {} {};", cause.kind.name(), cause.name, cause.duration_ns.unwrap_or(0));
    }
    text
}

/// Makes every interruption, and prints a line of JSON for each outcome. `only` names some of them.
pub fn in_guest(collector: &str, rounds: usize, only: &[&str]) -> Result<(), Box<dyn Error>> {
    if !Path::new(lab::job::JOB).exists() {
        return Err(
            "this interrupts a machine on purpose and loads collectors: it runs in a lab guest only".into()
        );
    }
    let choice: Choice = collector.parse()?;
    // The loop never sleeps.
    std::fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1")?;
    for source in source::ALL.iter().filter(|one| only.is_empty() || only.contains(&one.name)) {
        // A guest sends what is printed, and nothing else.
        let outcome =
            looks::interrupted(source, choice, rounds).inspect_err(|why| println!("cannot: {why}"))?;
        println!("outcome {}", serde_json::to_string(&outcome)?);
    }
    Ok(())
}

/// Asks guests of these kernels for their outcomes, and puts a table of them into `page`.
pub fn page(isolator: &Path, guest: &Path, page: &Path) -> Result<(), Box<dyn Error>> {
    let mut tables = String::new();
    for (kernel, collector) in
        [("debian-rt", "bpf"), ("debian", "bpf"), ("debian-rt", "tracefs"), ("debian", "tracefs")]
    {
        eprintln!("bench: {kernel}, {collector}");
        let mut command = Command::new(isolator);
        command.args(["lab", "program", "--kernel", kernel, "--boot", "isolcpus", "--time-limit", "15m"]);
        command.arg(guest).args(["causes-guest", collector]);
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(format!("{kernel}: {said}{}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let outcomes = said.lines().filter_map(|line| line.strip_prefix("outcome "));
        let outcomes = outcomes.map(serde_json::from_str).collect::<Result<Vec<Outcome>, _>>()?;
        let _ = write!(tables, "{}", table(kernel, collector, &outcomes));
    }
    print!("{tables}");
    guests::put(page, "proof-causes", &tables)
}

fn table(kernel: &str, collector: &str, outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "`--kernel {kernel} --causes {collector}`\n\n\
         | interruption | expected | rounds | seen as gaps | right cause | right sender | median remainder | named elsewhere |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    let share = |part: usize, of: usize| match of {
        0 => "–".to_string(),
        _ => format!("{:.1} %", part as f64 / of as f64 * 100.0),
    };
    for one in outcomes {
        let Outcome { name, expected, rounds, seen, named, .. } = one;
        let _ = match &one.skipped {
            Some(why) => writeln!(text, "| {name} | {expected} | {why} | | | | | |"),
            None => writeln!(
                text,
                "| {name} | {expected} | {rounds} | {seen} | {} | {} | {:.1} % | {} |",
                share(*named, *seen),
                one.sent.map_or("–".to_string(), |sent| share(sent, *named)),
                one.remainder * 100.0,
                one.elsewhere
            ),
        };
    }
    text.push('\n');
    text
}
