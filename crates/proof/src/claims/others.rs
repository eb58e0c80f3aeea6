// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own tests beside an owner: torture, text patching, selftests of subsystems with hooks. A
//! failure must also occur on the same kernel without the series, with that CPU idle.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::thread;

use lab::build;

use crate::claims::part::{ClaimLab, ClaimResult, Result};
use crate::claims::programs::{LONG, SelftestResult, Test, run};

/// The configurations with these tests; ours has the KUnit tests of the isolator too, which run at boot.
const OURS: &str = "torture+kunit";
const STOCK: &str = "torture";

/// The result of a test, in TAP: `ok`, `not ok`, or the reason why it was skipped.
type TapResults = BTreeMap<String, String>;

/// Runs them on both kernels.
pub fn beside(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let (ours, stock) = (format!("{}+{OURS}", lab.version), format!("{}+{STOCK}", lab.version));
    // In parallel: each guest takes one host CPU, for more than half an hour.
    let (isolating, idle) = thread::scope(|scope| {
        let idle = scope.spawn(|| on(lab, &stock, true).map_err(|error| error.to_string()));
        (on(lab, &ours, false), idle.join())
    });
    let (isolating, idle) = (isolating?, idle.map_err(|_| "a thread of this program panicked")??);
    let (found, before) = (found(&isolating.said), found(&idle.said));
    let lab = ClaimLab { version: ours, tests: lab.tests.clone(), ..*lab };
    let mut seen = ClaimResult { text: format!("On {}.\n\n", lab.kernel()?), ..ClaimResult::default() };
    seen.text += "| test | stock, with that CPU idle | ours, beside an owner |\n|---|---|---|\n";
    let missing = || "did not run".to_string();
    for (name, now) in &found {
        let then = before.get(name).cloned().unwrap_or_else(missing);
        let _ = writeln!(seen.text, "| {name} | {then} | {now} |");
        if now == FAILED && then == PASSED && !name.contains(HOTPLUG) {
            seen.wrong.push(format!("{name} fails beside an owner, and not without"));
        }
    }
    // A guest that did not finish has fewer results.
    for name in before.keys().filter(|name| !found.contains_key(*name)) {
        seen.wrong.push(format!("{name} did not run beside an owner"));
    }
    seen.text.push('\n');
    for (whose, ran) in [("stock", &idle), ("ours", &isolating)] {
        let log = ran.complaint.as_deref().filter(|why| why.contains("complained")).unwrap_or("clean");
        let _ = writeln!(seen.text, "- {whose}: the guest's log: {log}");
    }
    for line in isolating.said.lines().filter_map(|line| line.strip_prefix("# ")).filter(|line| is_ours(line))
    {
        let _ = writeln!(seen.text, "- ours: {line}");
    }
    Ok(seen)
}

/// Whether a remark is about the isolator, and neither the output of a failed test nor the sum that is in the
/// table.
fn is_ours(line: &str) -> bool {
    !line.starts_with('|') && !line.contains(" failed of ")
}

/// Takes CPUs offline at random, and ends with RCU_HOTPLUG if one refuses, as the owner's does.
const HOTPLUG: &str = "onoff_interval";

const PASSED: &str = "ok";
const FAILED: &str = "not ok";

/// Runs them on one kernel, beside a thread that owns the isolated CPU, or with that CPU idle.
fn on(lab: &ClaimLab<'_>, version: &str, stock: bool) -> Result<SelftestResult> {
    let (built, _) = build::last(version, lab.architecture, stock)?.ok_or_else(|| {
        let command = build::command(version, lab.architecture, stock);
        format!("no kernel with these tests is built; {command} makes it")
    })?;
    let files = tempfile::tempdir_in(lab.scratch)?;
    let modules = Path::new(&built.folder).join("lib/modules").join(&built.release);
    let mut prepare = Command::new("kernel/selftests/others/prepare");
    prepare.args([&build::tree(version)?, &modules]).arg(files.path());
    if !prepare.status()?.success() {
        return Err("the kernel's own tests cannot be prepared".into());
    }
    let kernel = format!("{}:{version}", if stock { "unpatched" } else { "isolator" });
    // CPUs take turns: if they run at once, QEMU runs text that was patched long ago, and such a kernel does
    // not even boot.
    let options = format!("{LONG} --by-turns --files {}", files.path().display());
    let arguments = format!("--slow 10 {} /bin/sh /others/run", if stock { "--alone" } else { "" });
    let (kernel, boot) = (Some(kernel.as_str()), "kunit.enable=1");
    run(lab, &Test { program: "beside", arguments: &arguments, boot, cpus: 3, kernel, options: &options })
}

/// The result of each test. A failed one has the reason after its name.
fn found(said: &str) -> TapResults {
    let one = |line: &str| -> Option<(String, String)> {
        let (failed, rest) = match line.strip_prefix("not ok ") {
            Some(rest) => (true, rest),
            None => (false, line.strip_prefix("ok ")?),
        };
        let name = rest.split_once("- ").map_or(rest, |(_, name)| name);
        Some(match (name.split_once(" # SKIP "), failed) {
            (Some((name, why)), _) => (name.to_string(), format!("skipped: {why}")),
            (None, false) => (name.to_string(), PASSED.to_string()),
            (None, true) => (name.split(" (").next().unwrap_or(name).to_string(), FAILED.to_string()),
        })
    };
    said.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifies_tests_by_name_without_their_results() {
        let said = "ok - module a x=1\nnot ok - mm: cow (status 1)\nok - mm: gup # SKIP no kernel for it\n\
                    # 3 breaks\nok 1 - one owner all the while\n1..1\n";
        let found = found(said);
        assert_eq!(found["module a x=1"], PASSED);
        assert_eq!(found["mm: cow"], FAILED);
        assert_eq!(found["mm: gup"], "skipped: no kernel for it");
        assert_eq!(found["one owner all the while"], PASSED);
        assert_eq!(found.len(), 4);
    }
}
