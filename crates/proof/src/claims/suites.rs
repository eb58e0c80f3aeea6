// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that run the selftests on other kernels: with debugging (lockdep, KASAN, KCSAN), without PREEMPT_RT,
//! of other versions, of another architecture. A row for each test, or for a kernel that is not built.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::architecture::Architecture;
use lab::build;

use crate::claims::part::{ClaimLab, ClaimResult, Result, selftests, series};
use crate::claims::programs::{BY_TURNS, LONG, PATIENT, Test, UNBOUNDED, run, selftest};
use crate::claims::scenarios;

/// Linux's own warning with PROVE_RCU on PREEMPT_RT: rcu_core() runs in a preemptible thread there, and
/// rcu_rdp_is_offloaded() expects one that is not ("Unsafe read of RCU_NOCB offloaded state").
const KNOWN: &str = "RCU_NOCB";

/// Other kernels that the series is for: without PREEMPT_RT, other versions, another architecture.
const ELSEWHERE: [(&str, Architecture); 4] = [
    ("6.12+voluntary", Architecture::X86_64),
    ("7.2", Architecture::X86_64),
    ("6.12", Architecture::Aarch64),
    ("7.2", Architecture::Aarch64),
];

/// The suite on a kernel with debugging, if it was built: the fragment of the configuration says which.
pub fn looking(lab: &ClaimLab<'_>, fragment: &str) -> Result<ClaimResult> {
    let mut seen = ClaimResult {
        text: format!("On {}, configured anew.\n\n{HEAD}", lab.kernel()?),
        ..ClaimResult::default()
    };
    let lab = ClaimLab { version: format!("{}+{fragment}", lab.version), tests: lab.tests.clone(), ..*lab };
    if is_built(&lab, &mut seen)? {
        suite(&lab, 40, &mut seen)?;
    }
    Ok(seen)
}

/// The suite without PREEMPT_RT, on other versions and another architecture, and a minute of the deferrable
/// storms.
pub fn elsewhere(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let mut seen = ClaimResult { text: HEAD.to_string(), ..ClaimResult::default() };
    let mut silence = String::new();
    for (version, architecture) in ELSEWHERE {
        let lab = ClaimLab { version: version.to_string(), architecture, tests: PathBuf::new(), ..*lab };
        if !is_built(&lab, &mut seen)? {
            continue;
        }
        let scratch = tempfile::tempdir_in(lab.scratch)?;
        let lab = ClaimLab { tests: selftests(scratch.path(), architecture)?, ..lab };
        suite(&lab, 10, &mut seen)?;
        let (row, wrong) = scenarios::minute(&lab)?;
        let _ = writeln!(silence, "| {} {row}", name(&lab));
        seen.wrong.extend(wrong);
    }
    seen.text += "\nScenario `minute`, an owner with an address space for itself:\n\n";
    seen.text +=
        "| kernel | window | excursions | breaches | deferred | refused |\n|---|--:|--:|---|--:|--:|\n";
    seen.text += &silence;
    Ok(seen)
}

const HEAD: &str =
    "| kernel | test | passed | failed | skipped | the guest's log |\n|---|---|--:|--:|--:|---|\n";

fn name(lab: &ClaimLab<'_>) -> String {
    format!("{} {}", lab.version, lab.architecture)
}

/// Whether its kernel is built; if not, that is a row. If so, the static keys in its danger zone are audited,
/// which is a row too.
fn is_built(lab: &ClaimLab<'_>, seen: &mut ClaimResult) -> Result<bool> {
    let Some((built, _)) = build::last(&lab.version, lab.architecture, false)? else {
        let _ = writeln!(seen.text, "| {} | not built | | | | |", name(lab));
        return Ok(false);
    };
    let audit = Command::new(KEYS).arg(Path::new(&built.folder).join("vmlinux")).output()?;
    let said = String::from_utf8_lossy(&audit.stdout);
    let sum = said.lines().last().and_then(keys);
    let (passed, failed) = sum.ok_or_else(|| {
        format!("{KEYS} printed no result: {}", String::from_utf8_lossy(&audit.stderr).trim())
    })?;
    let name = name(lab);
    let series = series(&built);
    let _ =
        writeln!(seen.text, "| {name}, series {series} | `check-keys vmlinux` | {passed} | {failed} | | |");
    if !audit.status.success() {
        seen.wrong.push(format!("{name}: {failed} keys in the danger zone may change at run time"));
    }
    Ok(true)
}

/// The audit of the danger zone.
const KEYS: &str = "kernel/isolator/check-keys";

/// The numbers of sites that the audit allows and does not, from its last line.
fn keys(line: &str) -> Option<(u32, u32)> {
    let mut words = line.split_whitespace();
    let seen: u32 = words.next()?.parse().ok()?;
    let failed: u32 = line.strip_suffix(" not")?.rsplit(' ').next()?.parse().ok()?;
    Some((seen.checked_sub(failed)?, failed))
}

/// All selftests on one kernel; `slow`: how many times slower it is than hardware.
fn suite(lab: &ClaimLab<'_>, slow: u32, seen: &mut ClaimResult) -> Result<()> {
    let name = name(lab);
    let plain = format!("--slow {slow}");
    let teardown = format!("--rounds {} --slow {slow}", 1000 / lab.share);
    let fuzz = format!("--calls {} --threads 4 --slow {slow}", 1_000_000 / lab.share);
    let generations = format!("--rounds {} --slow {slow}", 40 / lab.share.min(10));
    let by_turns = format!("{BY_TURNS} {LONG}");
    let usual = |program| Test { arguments: &plain, ..selftest(program, false) };
    // CPUs of the guest at the same time, on a host thread each.
    let threads = |program| Test { options: "", ..usual(program) };
    let tests = [
        usual("errors"),
        threads("exclusive"),
        threads("calls"),
        threads("refusals"),
        threads("ends"),
        threads("rings"),
        threads("timers"),
        usual("neighbours"),
        usual("remote"),
        usual("wedge"),
        Test { program: "teardown", arguments: &teardown, options: LONG, ..Test::default() },
        Test { program: "fuzz", arguments: &fuzz, boot: UNBOUNDED, options: LONG, ..Test::default() },
        Test {
            program: "generations",
            arguments: &generations,
            boot: PATIENT,
            options: &by_turns,
            ..Test::default()
        },
    ];
    for test in &tests {
        let options = format!("{} --known {KNOWN}", test.options);
        let ran = run(lab, &Test { options: &options, ..*test })?;
        let [passed, failed, skipped] = ran.counts;
        let log = ran.complaint.as_deref().unwrap_or("clean");
        let test = format!("{} {}", test.program, test.arguments);
        let _ = writeln!(seen.text, "| {name} | `{test}` | {passed} | {failed} | {skipped} | {log} |");
        seen.wrong.extend(ran.wrong.into_iter().map(|what| format!("{name}: {what}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audits_last_line_says_how_many_pass() {
        let line = "83 sites before the hook: 27 of keys that are read-only after boot, 44 allowed, 12 not";
        assert_eq!(keys(line), Some((71, 12)));
        assert_eq!(keys("jump     isolator_used    irqentry_exit    MAY BE PATCHED AT RUN TIME"), None);
    }
}
