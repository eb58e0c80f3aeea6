// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of a lab, made without one.

use evidence::Bundle;
use evidence::lab::{
    EntryExcursions, GuestLog, LabDocument, LabRow, LoadDid, LogVerdict, Mode, StormDid, Witness,
};
use evidence::taint::{self, Taint};

use super::Plan;

/// A boot line that isolates, as long as they come.
const FULL: &str = "isolcpus=managed_irq,domain,1 irqaffinity=0 nohz_full=1 rcu_nocbs=1 tsc=reliable nowatchdog \
                    nosoftlockup skew_tick=1";

/// Excursions of an isolated CPU under two storms, with a witness; the kernel's log is clean.
pub fn isolated() -> Bundle {
    let rows = vec![
        row("quiet", 5.0, &[]),
        row(
            "static-keys",
            10.0,
            &[("asm_sysvec_call_function_single", 360, 1_673), ("asm_sysvec_timer", 2, 5_595)],
        ),
        row("module-load", 33.7, &[("asm_sysvec_call_function_single", 5_040, 1_433)]),
    ];
    bundle("isolated", FULL, rows)
}

/// The same scenarios but one on a kernel that isolates less.
pub fn stock() -> Bundle {
    let rows = vec![
        row("quiet", 5.0, &[("asm_sysvec_timer", 1_220, 5_218)]),
        row(
            "static-keys",
            6.4,
            &[("asm_sysvec_timer", 1_376, 8_969), ("asm_sysvec_call_function_single", 334, 472)],
        ),
    ];
    bundle("stock", "", rows)
}

/// Latencies in virtual nanoseconds.
pub fn virtual_time(name: &'static str, noise: f64) -> Bundle {
    let plan =
        Plan { name, loads: vec!["cyclic"], cpus: 1..2, seconds: 5, noise, spin: false, ..Plan::after() };
    let mut bundle = plan.in_memory();
    let reason = "in virtual time a nanosecond is an instruction, not a latency of any machine";
    bundle.manifest.taints.push(Taint::new(taint::EMULATED, reason, "judge the limit on the machine"));
    let document =
        LabDocument { mode: Mode::Virtual, rows: Vec::new(), storms: Vec::new(), ..document(FULL) };
    bundle.lab = Some(LabDocument { witness: Vec::new(), ..document });
    bundle
}

/// The document of a run, to be changed.
pub fn of(bundle: &mut Bundle) -> &mut LabDocument {
    bundle.lab.as_mut().unwrap()
}

fn bundle(name: &'static str, boot_line: &str, rows: Vec<LabRow>) -> Bundle {
    let plan = Plan { name, loads: Vec::new(), cpus: 1..2, tainted: false, ..Plan::after() };
    let mut bundle = plan.in_memory();
    bundle.lab = Some(LabDocument { rows, ..document(boot_line) });
    bundle
}

fn document(boot_line: &str) -> LabDocument {
    let storm = |name: &str| StormDid {
        scenario: name.into(),
        name: name.into(),
        took_effect: true,
        did: format!("{name} switched 120 times"),
    };
    LabDocument {
        schema_version: 1,
        bundle: String::new(),
        mode: Mode::Count,
        mode_reason: "translated code with the scope; chosen, since interruptions are the question".into(),
        emulator: "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)".into(),
        kernel: "6.12.117+deb12-rt-amd64 (debian-rt)".into(),
        kernel_digest: "45db".repeat(16),
        architecture: "x86_64".into(),
        boot_line: boot_line.into(),
        cpus: 2,
        duration_s: Some(5.0),
        seed: 7,
        isolate: None,
        rows: Vec::new(),
        storms: vec![storm("static-keys"), storm("module-load")],
        guest_log: GuestLog { lines: 1_841, warnings: Vec::new(), verdict: LogVerdict::Clean },
        loads: vec![LoadDid {
            scenario: "quiet under cpu".into(),
            took_effect: true,
            did: "stress-ng: 1,706 cpu operations".into(),
        }],
        witness: vec![Witness {
            scenario: "static-keys".into(),
            cpu: 1,
            named: 3_984,
            seen: 4_000,
            named_beyond: 0,
            seen_beyond: 1_234,
            matched: 3_884,
            recall: 0.971,
            precision: 0.974_899,
            differences: vec!["only the guest names call_function_single_entry".into(); 5],
        }],
        not_run_again: None,
    }
}

/// A row of entries with their count and mean length.
fn row(scenario: &str, seconds_guest: f64, entries: &[(&str, u64, u64)]) -> LabRow {
    let entry = |(name, count, mean): &(&str, u64, u64)| {
        (name.to_string(), EntryExcursions { count: *count, instructions: count * mean, max: mean * 3 })
    };
    let functions = (0..40).map(|n| (format!("some_function_of_the_kernel_{n}"), 1_000 - n));
    LabRow {
        scenario: scenario.into(),
        cpu: 1,
        seconds_guest,
        excursions: entries.iter().map(|(_, count, _)| count).sum(),
        kernel_instructions: entries.iter().map(|(_, count, mean)| count * mean).sum(),
        max_kernel_instructions: entries.iter().map(|(_, _, mean)| mean * 3).max().unwrap_or(0),
        user_instructions: 2_982_507_956,
        by_entry: entries.iter().map(entry).collect(),
        functions: if entries.is_empty() { Default::default() } else { functions.collect() },
        records_dropped: 0,
        isolation: None,
        responses: None,
    }
}
