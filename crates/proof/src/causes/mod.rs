// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the collectors name provoked interruptions and their senders.
//!
//! One thread reads the clock without pause on the watched CPU; each late read is a gap. Another one
//! interrupts it at random times (`source`), beside bystanders that no gap may name. A round counts as named
//! if a gap that overlaps it has the cause of the round. Runs in a guest only ([`in_guest`]), one after the
//! other in a guest for each boot line; [`run()`] starts the guests and writes the tables.

pub mod cost;
mod looks;
mod outcome;
mod source;
pub mod trials;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use evidence::cause::Choice;
use lab::architecture::Architecture;
use outcome::InterruptionResult;

use crate::{guests, page};

/// Makes each interruption, and prints a line of JSON for each outcome. `only` selects some of them.
pub fn in_guest(collector: &str, rounds: usize, only: &[&str]) -> Result<(), Box<dyn Error>> {
    if !Path::new(lab::job::JOB).exists() {
        return Err("this interrupts the machine and loads collectors: it runs in a lab guest only".into());
    }
    let choice: Choice = collector.parse()?;
    // The loop never sleeps.
    std::fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1")?;
    for source in source::ALL.iter().filter(|one| only.is_empty() || only.contains(&one.name)) {
        // Only standard output leaves the guest.
        let outcome =
            looks::interrupted(source, choice, rounds).inspect_err(|why| println!("cannot: {why}"))?;
        println!("outcome {}", serde_json::to_string(&outcome)?);
    }
    Ok(())
}

/// The guests: the part's name, the kernel, the collector.
const PARTS: &[(&str, &str, &str)] = &[
    ("debian-rt-bpf", "debian-rt", "bpf"),
    ("debian-bpf", "debian", "bpf"),
    ("debian-rt-tracefs", "debian-rt", "tracefs"),
    ("debian-tracefs", "debian", "tracefs"),
    ("debian-rt-osnoise", "debian-rt", "osnoise"),
    ("debian-7.2-rt-bpf", "debian-rt:7.2", "bpf"),
    ("debian-7.2-bpf", "debian:7.2", "bpf"),
];

/// The part that measures the cost of each of these collectors.
const COST: &str = "cost";

/// The part that measures the cost of `monitor` for a followed thread, and its kernels.
const FOLLOWED: &str = "cost-monitor";
const FOLLOWED_ON: [&str; 2] = ["debian-rt", "debian"];

/// The part that lists the kernels on which the collectors pass their trials.
const TRIALS: &str = "trials";

/// Interruptions of each kind; `SHARE=10` makes a tenth of them.
const ROUNDS: usize = 220;

/// The least share of rounds with the right cause, of those with the right sender, and the largest median of
/// the unexplained share.
const RIGHT: f64 = 0.99;
const REMAINDER: f64 = 0.1;

/// Runs the guests of these parts, of all if none is named, and puts their tables into `page`. A shortfall is
/// in the table too, and an error afterwards.
pub fn run(isolator: &Path, guest: &Path, page: &Path, names: &[&str]) -> Result<(), Box<dyn Error>> {
    let known = PARTS.iter().map(|(name, ..)| *name).chain([TRIALS, COST, FOLLOWED]).collect::<Vec<_>>();
    page::must_have_parts(&known, names)?;
    let share = std::env::var("SHARE").map_or(Ok(1), |text| text.parse::<usize>())?;
    let rounds = (ROUNDS / share.max(1)).max(1);
    // Tables of other architectures are only printed: the page explains why.
    let publish = |name: &str, table: &str| match guests::architecture()? {
        Architecture::X86_64 => page::put(page, &format!("proof-causes PART={name}"), table),
        Architecture::Aarch64 => Ok(()),
    };
    let mut short = Vec::new();
    if names.is_empty() || names.contains(&TRIALS) {
        let (table, refused) = trials::run([isolator, guest])?;
        print!("{table}");
        publish(TRIALS, &table)?;
        short.extend(refused);
    }
    for (name, kernel, collector) in
        PARTS.iter().filter(|(name, ..)| names.is_empty() || names.contains(name))
    {
        eprintln!("proof-causes: {name}");
        let mut told = BTreeMap::new();
        for is_other in [false, true] {
            let sources: Vec<_> = source::ALL.iter().filter(|source| source.is_other == is_other).collect();
            told.extend(in_a_guest([isolator, guest], kernel, collector, rounds, &sources)?.0);
        }
        let mut outcomes = Vec::new();
        for source in source::ALL {
            let outcome = match told.remove(source.name) {
                Some(outcome) => outcome,
                // The guest ended before it, or with it.
                None => alone([isolator, guest], kernel, collector, rounds, source)?,
            };
            outcome.wrong.iter().for_each(|gap| eprintln!("proof-causes: {}: not right: {gap}", source.name));
            outcomes.push(outcome);
        }
        let table = table(&outcomes);
        print!("{table}");
        publish(name, &table)?;
        short.extend(outcomes.iter().filter_map(short_of).map(|what| format!("{name}: {what}")));
    }
    let collectors = PARTS.iter().map(|(_, kernel, collector)| (*kernel, *collector)).collect::<Vec<_>>();
    let followed = FOLLOWED_ON.map(|kernel| (kernel, cost::FOLLOWED));
    for (part, watched) in [(COST, &collectors[..]), (FOLLOWED, &followed[..])] {
        if names.is_empty() || names.contains(&part) {
            let (table, above) = cost::run([isolator, guest], watched)?;
            print!("{table}");
            publish(part, &table)?;
            short.extend(above);
        }
    }
    match short.is_empty() {
        true => Ok(()),
        false => Err(format!("short of the aim: {}", short.join("; ")).into()),
    }
}

/// The outcomes of these sources, which take one boot line, by their names; and the last words of the guest.
fn in_a_guest(
    [isolator, guest]: [&Path; 2],
    kernel: &str,
    collector: &str,
    rounds: usize,
    sources: &[&source::Interruption],
) -> Result<(BTreeMap<String, InterruptionResult>, String), Box<dyn Error>> {
    let mut command = guests::program(isolator, kernel, guests::architecture()?);
    // The boot line for a CPU with a program that spins; an isolated one gets no packets, and few per-CPU
    // batches. Reading the clock is no system call: the events of one that never ends fill the ring.
    let boot = if sources.iter().any(|source| source.is_other) { "tsc=reliable" } else { "full" };
    command.args(["--boot", boot, "--time-limit", "20m"]);
    command.arg(guest).args(["causes-guest", collector, &rounds.to_string()]);
    command.args(sources.iter().map(|source| source.name));
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut told = BTreeMap::new();
    for outcome in said.lines().filter_map(|line| line.strip_prefix("outcome ")) {
        let outcome: InterruptionResult = serde_json::from_str(outcome)?;
        told.insert(outcome.name.clone(), outcome);
    }
    let words = [said, String::from_utf8_lossy(&output.stderr)].concat();
    let last = words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Ok((told, last.replace('|', "/")))
}

/// The outcome of one source in a guest of its own; without one, the reason of the guest's failure.
fn alone(
    programs: [&Path; 2],
    kernel: &str,
    collector: &str,
    rounds: usize,
    source: &source::Interruption,
) -> Result<InterruptionResult, Box<dyn Error>> {
    let (mut told, why) = in_a_guest(programs, kernel, collector, rounds, &[source])?;
    let skipped = Some(format!("no outcome: {why}"));
    let none = || InterruptionResult { skipped, ..InterruptionResult::of(source, &[], &[]) };
    Ok(told.remove(source.name).unwrap_or_else(none))
}

/// The shortfalls of an outcome.
fn short_of(one: &InterruptionResult) -> Option<String> {
    let InterruptionResult { name, seen, named, remainder, .. } = one;
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    let mut words = Vec::new();
    if let Some(why) = &one.skipped {
        words.push(why.clone());
    } else {
        if share(*named, *seen) < RIGHT {
            words.push(format!("named {named} of {seen}"));
        }
        if let Some(sent) = one.sent.filter(|sent| share(*sent, *named) < RIGHT) {
            words.push(format!("the right sender in {sent} of {named}"));
        }
        if one.bystander > 0 {
            words.push(format!("a bystander named {} times", one.bystander));
        }
        if *remainder >= REMAINDER {
            words.push(format!("{:.1} % unexplained", remainder * 100.0));
        }
    }
    (!words.is_empty()).then(|| format!("{name}: {}", words.join(", ")))
}

fn table(outcomes: &[InterruptionResult]) -> String {
    let mut text = "| interruption | expected | rounds | seen as gaps | right cause | right sender | median remainder | named elsewhere | a bystander named |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_string();
    let share = |part: usize, of: usize| match of {
        0 => "–".to_string(),
        _ => format!("{:.1} %", part as f64 / of as f64 * 100.0),
    };
    for one in outcomes {
        let InterruptionResult { name, expected, rounds, seen, named, .. } = one;
        let _ = match &one.skipped {
            Some(why) => writeln!(text, "| {name} | {expected} | {why} | | | | | | |"),
            None => writeln!(
                text,
                "| {name} | {expected} | {rounds} | {seen} | {} | {} | {:.1} % | {} | {} |",
                share(*named, *seen),
                one.sent.map_or("–".to_string(), |sent| share(sent, *named)),
                one.remainder * 100.0,
                one.elsewhere,
                one.bystander
            ),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::cause::{Cause, CauseKind, Sender};
    use evidence::manifest::{RowKey, Spike};
    use outcome::Round;

    fn membarriers() -> &'static source::Interruption {
        source::ALL.iter().find(|one| one.has_sender).unwrap()
    }

    fn gap(at_ns: u64, name: &str, pid: u32, unexplained_ns: u64) -> Spike {
        let sender = Sender { pid: Some(pid), ..Sender::default() };
        let cause = Cause { sender: Some(sender), ..Cause::timed(CauseKind::Ipi, name, 0, 100) };
        Spike {
            monotonic_ns: at_ns,
            causes: vec![cause],
            unexplained_ns: Some(unexplained_ns),
            ..Spike::new(RowKey::new("loop", "idle", 1, None), 1_000)
        }
    }

    #[test]
    fn a_round_is_right_if_its_gap_has_cause_and_sender() {
        let round = |from_ns| Round { from_ns, to_ns: from_ns + 500, by: 7 };
        let rounds = [10_000_000, 20_000_000, 30_000_000, 40_000_000].map(round);
        let spikes = [
            gap(10_000_000, "call function ipi_mb", 7, 50),
            gap(20_000_000, "call function ipi_mb", 8, 200),
            gap(30_000_000, "call function flush_tlb_func", 7, 10),
            // Far from any round.
            gap(90_000_000, "call function ipi_mb", 7, 0),
        ];
        let outcome = InterruptionResult::of(membarriers(), &rounds, &spikes);
        assert_eq!((outcome.rounds, outcome.seen, outcome.named), (4, 3, 2));
        assert_eq!((outcome.sent, outcome.elsewhere, outcome.wrong.len()), (Some(1), 1, 1));
        assert_eq!(outcome.remainder, 0.2);
        let said = short_of(&outcome).unwrap();
        assert_eq!(said, "membarrier storm: named 2 of 3, the right sender in 1 of 2, 20.0 % unexplained");
        let row = table(&[outcome]);
        assert!(row.ends_with("| 4 | 3 | 66.7 % | 50.0 % | 20.0 % | 1 | 0 |\n"), "{row}");
    }

    #[test]
    fn an_outcome_that_is_missing_is_a_shortfall() {
        let none = InterruptionResult {
            skipped: Some("no outcome: x".into()),
            ..InterruptionResult::of(membarriers(), &[], &[])
        };
        assert_eq!(short_of(&none).unwrap(), "membarrier storm: no outcome: x");
    }
}
