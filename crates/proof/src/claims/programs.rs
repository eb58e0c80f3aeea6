// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that run a selftest of the isolator in a guest; its output is the table.

use std::path::PathBuf;
use std::process::Command;

use lab::architecture::Architecture;
use lab::build;

use crate::claims::part::{ClaimLab, ClaimResult, Result};
use crate::guests;

/// A bound beyond any run, for tests that are not about the bound.
pub(super) const PATIENT: &str = "sysctl.kernel.isolator_max_defer_ms=600000";

/// Without a limit for real-time tasks Linux 6.12 can take an isolated CPU offline.
pub(super) const UNBOUNDED: &str = "sysctl.kernel.sched_rt_runtime_us=-1";

/// A tickless CPU that the scheduler uses, beside the isolated one.
const TICKLESS: &str = "isolcpus=managed_irq,domain,3 nohz_full=2-3 rcu_nocbs=2-3 tsc=reliable";

/// A line with which Linux watches its clocks, since it does not say that they are reliable.
const WATCHED: &str = "isolcpus=managed_irq,domain,1 nohz_full=1 rcu_nocbs=1";

/// A tickless CPU that the scheduler uses; none that boot isolates, which sched_ext refuses.
const PARTITIONABLE: &str = "isolcpus=managed_irq,1 nohz_full=1 rcu_nocbs=1 tsc=reliable";

/// A kernel without the series, with PREEMPT_RT.
const OTHER: &str = "debian-rt";

/// For programs that patch text that another CPU runs: QEMU before 8 runs such text wrongly otherwise.
pub(super) const BY_TURNS: &str = "--by-turns";

/// Linux's own warning where the scheduler's remote tick comes three seconds late: `neighbours` has a
/// real-time task keep the housekeeping CPU, which may take as long in an emulator.
pub(super) const STARVED: &str = "--known sched_tick_remote";

/// And with two CPUs on one core, for core scheduling.
const SIBLINGS: &str = "--siblings --known sched_tick_remote";

/// The fragments of one kernel for all tests that the lab's own has no options for: core scheduling, KUnit,
/// memory that goes away, BPF schedulers. It has no limits of real-time bandwidth: all groups would have one,
/// so no real-time task could be an owner.
const MORE: &str = "core-sched+kunit+memory+sched-ext";

/// Linux from 6.15 on takes the emulated CPUs for ones whose MSRs set their frequency.
const HAS_FREQUENCIES: &str = "setcpuid=hw_pstate";

/// The ACPI table of these frequencies, and where Linux looks for it in an initramfs.
const FREQUENCIES: &str = "kernel/selftests/frequency.asl";
const FREQUENCIES_IN_GUEST: &str = "kernel/firmware/acpi/frequency.aml";

/// Movable memory for whole blocks of it.
const MOVABLE: &str = "movablecore=384M";

/// For runs of hours.
pub(super) const LONG: &str = "--time-limit 20000s";

/// A selftest in a guest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Test<'a> {
    pub program: &'a str,
    pub arguments: &'a str,
    /// The additions to the boot line `full`; a line that isolates replaces it.
    pub boot: &'a str,
    pub cpus: u32,
    /// The kernel, if not the one with the series.
    pub kernel: Option<&'a str>,
    /// More options of `isolator lab program`.
    pub options: &'a str,
}

impl Default for Test<'_> {
    fn default() -> Self {
        Test { program: "", arguments: "", boot: "", cpus: 2, kernel: None, options: "" }
    }
}

/// The output of a selftest, and its deviations.
#[derive(Debug, Default)]
pub(super) struct SelftestResult {
    /// The numbers of passed, failed and skipped tests.
    pub counts: [usize; 3],
    /// The reason why the guest's result does not count.
    pub complaint: Option<String>,
    /// All its output.
    pub said: String,
    pub text: String,
    pub wrong: Vec<String>,
}

/// A selftest as it is run everywhere; on `more`, a kernel with fragments of the configuration
/// beside the lab's, for what only that kernel has.
pub(super) fn selftest(program: &str, more: bool) -> Test<'_> {
    let (boot, cpus, options) = match program {
        "errors" | "wedge" => ("", 3, BY_TURNS),
        "neighbours" if more => ("", 2, SIBLINGS),
        "neighbours" => ("", 2, STARVED),
        "remote" => (WATCHED, 2, BY_TURNS),
        "ext" => (PARTITIONABLE, 2, BY_TURNS),
        "kunit" => ("kunit.enable=1", 2, BY_TURNS),
        "pages" => (MOVABLE, 2, BY_TURNS),
        _ => ("", 2, BY_TURNS),
    };
    Test { program, arguments: "--slow 10", boot, cpus, options, kernel: None }
}

/// Refusals, ends of isolation, messages, timers, and tasks that preempt an owner. Some cases need a CPU that
/// is tickless and not isolated, others a kernel with what the lab's own has no options for, or frequencies;
/// they are tested if such a kernel is built, and the table names those that are not.
pub fn uapi(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let files;
    let plain = |program| selftest(program, false);
    let tickless = |program| Test { boot: TICKLESS, cpus: 4, ..plain(program) };
    let mut tests = vec![plain("errors"), tickless("errors"), tickless("ends")];
    let programs = ["exclusive", "calls", "refusals", "rings", "timers", "neighbours", "sync", "remote"];
    tests.extend(programs.map(plain));
    let with = |fragments: &str| format!("isolator:{}+{fragments}", lab.version);
    let mut missing = Vec::new();
    let mut is_built = |fragments: &'static str| -> Result<bool> {
        let built = build::last(&format!("{}+{fragments}", lab.version), lab.architecture, false)?.is_some();
        missing.extend((!built).then_some(fragments));
        Ok(built)
    };
    let [limiting, more, changing] = ["rt-group", MORE, "cpufreq"].map(with);
    let on = |kernel, program| Test { kernel: Some(kernel), ..selftest(program, true) };
    if is_built("rt-group")? {
        tests.push(on(&limiting, "errors"));
    }
    if is_built(MORE)? {
        tests.extend(["neighbours", "ext", "kunit", "pages"].map(|program| on(&more, program)));
    }
    if is_built("cpufreq")? {
        files = format!("{BY_TURNS} --files {}", frequencies(lab)?.display());
        tests.push(Test { boot: HAS_FREQUENCIES, options: &files, ..on(&changing, "refusals") });
    }
    let mut seen = all(lab, &tests)?;
    if !missing.is_empty() {
        let missing = missing.iter().map(|fragments| format!("`{}+{fragments}`", lab.version));
        let missing = missing.collect::<Vec<_>>().join(", ");
        seen.text += &format!("\nNot built, so that their cases were not run: {missing}.\n");
    }
    Ok(seen)
}

/// Compiles the table; the folder of it, for a guest's root.
fn frequencies(lab: &ClaimLab<'_>) -> Result<PathBuf> {
    let folder = lab.tests.join("frequency");
    let table = folder.join(FREQUENCIES_IN_GUEST);
    std::fs::create_dir_all(table.parent().unwrap_or(&folder))?;
    let said = Command::new("iasl").arg("-p").arg(&table).arg(FREQUENCIES).output();
    match said {
        Ok(said) if said.status.success() => Ok(folder),
        Ok(said) => {
            Err(format!("cannot compile {FREQUENCIES}: {}", String::from_utf8_lossy(&said.stderr)).into())
        }
        Err(error) => Err(format!("cannot run iasl: {error}; install acpica-tools").into()),
    }
}

/// Bounded-delay test.
pub fn wedge(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let with_start = selftest("wedge", false);
    all(lab, &[with_start, Test { arguments: "--without-start --slow 1", ..with_start }])
}

/// Teardown stress test.
pub fn teardown(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let arguments = format!("--rounds {} --slow 10", 10_000 / lab.share);
    all(lab, &[Test { program: "teardown", arguments: &arguments, options: LONG, ..Test::default() }])
}

/// Ten million random calls.
pub fn fuzz(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let arguments = format!("--calls {} --threads 4 --slow 10", 10_000_000 / lab.share);
    let fuzz =
        Test { program: "fuzz", arguments: &arguments, boot: UNBOUNDED, options: LONG, ..Test::default() };
    let mut seen = all(lab, &[fuzz])?;
    // A combination that fuzz avoids, on a kernel without the series: it fails there too.
    let affinity = Test { program: "affinity", kernel: Some(OTHER), ..Test::default() };
    seen.text +=
        &format!("\nThreads that move while a CPU is taken offline, on Debian's kernel (`{OTHER}`):\n");
    seen.text += &run(lab, &affinity)?.text;
    Ok(seen)
}

/// Test for stale mappings and text.
pub fn memory(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let arguments = &format!("--rounds {} --slow 10", 2000 / lab.share);
    all(
        lab,
        &[Test {
            program: "generations",
            arguments,
            boot: PATIENT,
            options: &format!("--by-turns {LONG}"),
            ..Test::default()
        }],
    )
}

/// The same under NMIs: from the emulator's monitor, or on arm64, where the monitor has none, from the PMU.
pub fn nmi(lab: &ClaimLab<'_>) -> Result<ClaimResult> {
    let rounds = 400 / lab.share;
    let sampled = format!("isolator:{}+pmu", lab.version);
    let (kernel, boot, arguments, by) = match lab.architecture {
        Architecture::X86_64 => {
            (None, "apic_extnmi=all", format!("--rounds {rounds} --slow 10"), "--nmi 2ms")
        }
        Architecture::Aarch64 => {
            let arguments = format!("--rounds {rounds} --slow 10 --sample {SAMPLED_CYCLES}");
            (Some(sampled.as_str()), "irqchip.gicv3_pseudo_nmi=1", arguments, "")
        }
    };
    let generations = Test {
        program: "generations",
        arguments: &arguments,
        boot: &format!("{boot} {PATIENT}"),
        kernel,
        options: &format!("{BY_TURNS} {by}"),
        ..Test::default()
    };
    let teardown =
        Test { program: "teardown", arguments: &arguments, boot, kernel, options: by, ..Test::default() };
    all(lab, &[generations, teardown])
}

/// QEMU's PMU counts a cycle for each nanosecond.
const SAMPLED_CYCLES: u32 = 2_000_000;

/// Runs them one after the other.
fn all(lab: &ClaimLab<'_>, tests: &[Test<'_>]) -> Result<ClaimResult> {
    let mut seen = ClaimResult { text: format!("On {}.\n", lab.kernel()?), wrong: Vec::new() };
    for test in tests {
        let ran = run(lab, test)?;
        seen.text += &ran.text;
        seen.wrong.extend(ran.wrong);
    }
    Ok(seen)
}

/// Runs one test.
pub(super) fn run(lab: &ClaimLab<'_>, test: &Test<'_>) -> Result<SelftestResult> {
    let boot = match test.boot {
        "" => "full".to_string(),
        whole if whole.contains("isolcpus=") => whole.to_string(),
        more => format!("{} {more}", lab::boot::line("full", test.cpus)?),
    };
    let kernel = test.kernel.map_or_else(|| lab.ours(), str::to_string);
    let mut command = guests::program(lab.isolator, &kernel, lab.architecture);
    command.args(["--boot", &boot, "--cpus", &test.cpus.to_string()]);
    if !test.options.contains("--time-limit") {
        command.args(["--time-limit", "3600s"]);
    }
    command
        .args(split_words(test.options))
        .arg(lab.tests.join(test.program))
        .args(split_words(test.arguments));
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = match output.status.success() {
        true => None,
        false => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprint!("{why}");
            why.lines().last().map(str::to_string)
        }
    };
    let name = format!("{} {}", test.program, test.arguments);
    let more = [test.boot, test.options].join(" ");
    let more = [test.kernel.unwrap_or_default(), more.trim()].into_iter().filter(|what| !what.is_empty());
    let how = format!("{} CPUs{}", test.cpus, more.map(|what| format!(", `{what}`")).collect::<String>());
    Ok(selftest_result(name.trim(), &how, &said, complaint.as_deref()))
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// The output of a selftest (TAP, with its own table in lines that begin with `# `), as the page shows it.
fn selftest_result(name: &str, how: &str, said: &str, complaint: Option<&str>) -> SelftestResult {
    let is_skip = |line: &&str| line.starts_with("ok ") && line.contains("# SKIP");
    let passed = said.lines().filter(|line| line.starts_with("ok ")).count();
    let skipped =
        said.lines().filter(is_skip).map(|line| line.split_once(" - ").map_or(line, |(_, what)| what));
    let skipped = skipped.map(|what| what.replace(" # SKIP ", ": ")).collect::<Vec<_>>();
    let mut wrong =
        said.lines().filter(|line| line.starts_with("not ok ")).map(str::to_string).collect::<Vec<_>>();
    let failed = wrong.len();
    let mut text = format!(
        "\n`{name}`, {how}: {} passed, {failed} failed, {} skipped",
        passed - skipped.len(),
        skipped.len()
    );
    match complaint {
        None => text += "; the guest's log is clean.\n",
        Some(why) => {
            text += &format!(". **{why}**\n");
            wrong.push(format!("{name}: {why}"));
        }
    }
    if !skipped.is_empty() {
        text += &format!("Skipped: {}.\n", skipped.join("; "));
    }
    text += "\n```\n";
    let table = said
        .lines()
        .filter_map(|line| line.strip_prefix("# ").or(line.starts_with("not ok ").then_some(line)));
    for line in table.filter(|line| !line.contains(" failed of ")) {
        text += line.trim_end();
        text.push('\n');
    }
    text += "```\n";
    let counts = [passed - skipped.len(), failed, skipped.len()];
    SelftestResult { counts, complaint: complaint.map(str::to_string), said: said.to_string(), text, wrong }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_failed_and_skipped_tests() {
        let said = "# kind  rounds\n# exit  10\nok 1 - exit\nok 2 - hotplug # SKIP no CPU hotplug\nnot ok 3 - exec\n\
            1..3\n# 1 failed of 3\n";
        let ran = selftest_result("teardown --rounds 10", "2 CPUs", said, Some("cannot trust it"));
        assert_eq!(
            ran.text,
            "\n`teardown --rounds 10`, 2 CPUs: 1 passed, 1 failed, 1 skipped. **cannot trust it**\n\
             Skipped: hotplug: no CPU hotplug.\n\n```\nkind  rounds\nexit  10\nnot ok 3 - exec\n```\n"
        );
        assert_eq!(ran.wrong, ["not ok 3 - exec", "teardown --rounds 10: cannot trust it"]);
        let ran = selftest_result("exit", "2 CPUs", "ok 1 - exit\n1..1\n", None);
        assert!(
            ran.wrong.is_empty()
                && ran.text.contains("1 passed, 0 failed, 0 skipped; the guest's log is clean.")
        );
    }
}
