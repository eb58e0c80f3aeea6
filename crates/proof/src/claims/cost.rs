// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the hooks on CPUs without an owner: kernel instructions of a system call, a context switch and
//! an interrupt, with the series and without, counted by the scope. A CPU outside of `nohz_full=` does not
//! use them. One in it defers what synchronises text and memory, and its entries do that. And the cost of an
//! owner's TICK.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Command, Stdio};

use lab::scope::{self, Excursion};

use crate::claims::part::{ClaimLab, ClaimResult, Result};

/// The content of the windows of the program `cost`, in order.
const WINDOWS: [&str; 3] = ["getpid", "context switch (sched_yield)", "IPI received (membarrier)"];

/// Two CPUs that the scheduler leaves alone, of which the last one has its tick.
const TICKING: &str = "isolcpus=managed_irq,domain,1-2 nohz_full=1 rcu_nocbs=1 irqaffinity=0 tsc=reliable \
                       nowatchdog nosoftlockup";

/// Where the windows are counted: the most that the hooks may add there in percent, the options of the guest,
/// and the arguments of the program.
const PLACES: [(&str, f64, &[&str], &[&str]); 2] = [
    ("a CPU outside of nohz_full=", 1.0, &["--cpus", "3", "--boot", TICKING], &["--cpu", "2"]),
    ("a nohz_full CPU", 7.0, &[], &[]),
];

/// The largest allowed ratio of a TICK without work to an ioctl without effect.
const TICK_ALLOWED: f64 = 1.5;

/// The counts of both kernels.
pub fn run(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let (twin, name) = lab.twin()?;
    let text = format!("On {}, and {name}.\n\n", lab.kernel()?);
    let mut seen = ClaimResult { text, ..ClaimResult::default() };
    seen.text += "| | | counted | without | with | added | |\n|---|---|--:|--:|--:|--:|--:|\n";
    for (place, allowed, guest, arguments) in PLACES {
        let count = |kernel: &str| count::<3>(lab, kernel, guest, "cost", arguments);
        let (ours, twin) = (count(&lab.ours())?, count(&twin)?);
        for (name, (before, after)) in WINDOWS.iter().zip(twin.iter().zip(&ours)) {
            let percent = (after.usual as f64 / before.usual.max(1) as f64 - 1.0) * 100.0;
            let (counted, added) =
                (after.counted.min(before.counted), after.usual as i64 - before.usual as i64);
            let _ = writeln!(
                seen.text,
                "| {place} | {name} | {counted} | {} | {} | {added:+} | {percent:+.2} % |",
                before.usual, after.usual
            );
            if percent > allowed {
                seen.wrong.push(format!("{place}: {name}: {percent:+.2} %"));
            }
        }
    }
    Ok(seen)
}

/// The cost of TICK for an owner in each round, without work.
pub fn tick(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let [empty, tick] = count::<2>(lab, &lab.ours(), &[], "tick", &[])?;
    let ratio = tick.usual as f64 / empty.usual.max(1) as f64;
    let mut seen = ClaimResult { text: format!("On {}.\n\n", lab.kernel()?), ..ClaimResult::default() };
    seen.text += "| | counted | instructions |\n|---|--:|--:|\n";
    for (name, window) in
        [("an ioctl that the driver does not know", &empty), ("TICK with nothing to do", &tick)]
    {
        let _ = writeln!(seen.text, "| {name} | {} | {} |", window.counted, window.usual);
    }
    let _ = writeln!(seen.text, "\nTICK takes {ratio:.2} times as many.");
    if ratio > TICK_ALLOWED {
        seen.wrong
            .push(format!("TICK takes {ratio:.2} times the instructions of an ioctl that does nothing"));
    }
    Ok(seen)
}

/// Entries of the kind that a window is about.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    counted: usize,
    /// The most frequent number of kernel instructions. The path of an interrupt depends on other work at
    /// that moment, so a mean or a median would compare moments; this compares a path.
    usual: u64,
}

/// The windows that a program opens on that kernel.
fn count<const N: usize>(
    lab: &ClaimLab<'_>,
    kernel: &str,
    guest: &[&str],
    program: &str,
    arguments: &[&str],
) -> Result<[Counted; N]> {
    let record = lab.scratch.join("record.jsonl");
    let mut command = Command::new(lab.isolator);
    command.args(["lab", "program", "--kernel", kernel, "--arch", &lab.architecture.to_string(), "--record"]);
    command.arg(&record).args(guest).arg("--").arg(lab.tests.join(program)).args(arguments);
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        return Err(String::from_utf8_lossy(&said).trim().to_string().into());
    }
    windows(&std::fs::read_to_string(&record)?)
}

/// The entries of each window, by the most frequent kind.
fn windows<const N: usize>(record: &str) -> Result<[Counted; N]> {
    let mut windows = BTreeMap::<u64, BTreeMap<String, Vec<u64>>>::new();
    for Excursion { window, entry, offset, instructions, .. } in scope::excursions(record) {
        let entries = windows.entry(window).or_default();
        entries.entry(scope::name(&entry, offset)).or_default().push(instructions);
    }
    let most = |entries: BTreeMap<String, Vec<u64>>| {
        let all = entries.into_values().max_by_key(Vec::len).unwrap_or_default();
        let mut times = BTreeMap::<u64, usize>::new();
        all.iter().for_each(|instructions| *times.entry(*instructions).or_default() += 1);
        let usual = times.into_iter().max_by_key(|(_, times)| *times).map_or(0, |(usual, _)| usual);
        Counted { counted: all.len(), usual }
    };
    let counted = windows.into_values().map(most).collect::<Vec<_>>();
    counted.try_into().map_err(|seen: Vec<_>| format!("the scope saw {} windows of {N}", seen.len()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_its_most_frequent_entry() {
        let line = |window, entry: &str, instructions| {
            format!(
                "{{\"cpu\":1,\"window\":{window},\"n\":1,\"entry\":\"{entry}\",\"offset\":0,\"instructions\":{instructions},\
                 \"user_before\":1,\"at\":1,\"at_ns\":1,\"path\":[],\"beyond\":0}}\n"
            )
        };
        let record = [
            line(1, "call", 600),
            line(1, "timer", 9000),
            line(1, "call", 620),
            line(1, "call", 601),
            line(1, "call", 601),
            line(2, "call", 2000),
            line(3, "ipi", 700),
        ]
        .concat();
        let counted = windows::<3>(&record).unwrap();
        assert_eq!(counted[0], Counted { counted: 4, usual: 601 });
        assert_eq!((counted[1].usual, counted[2].usual), (2000, 700));
        assert!(windows::<3>("").is_err());
        assert!(windows::<2>(&record).is_err());
    }
}
