// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios on a kernel, from what is asked to one bundle.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use evidence::Bundle;
use evidence::kind::RowKind;
use evidence::lab::{GuestLog, LabDocument, LogVerdict, Mode};
use evidence::manifest::SCHEMA_VERSION;
use machine::CpuSet;

use crate::architecture::Architecture;
use crate::gave::{self, Gave, join};
use crate::guest::storm;
use crate::guest::storm::runner::length;
use crate::initramfs::Parts;
use crate::job::{BUNDLE, GuestJob, GuestTask, Measure, PORT_MODULES, SIGNAL};
use crate::kernel::GuestKernel;
use crate::patience::Patience;
use crate::qemu::{Guest, How, Outside};
use crate::scenario::{self, LINES, REGISTERS, RESPONSE, Scenario};
use crate::{Error, Result, boot, disk, edges, finished, initramfs, log, qemu, scope, signal, symbols};

/// Time for booting, and for arming and other work around the window, on a busy host.
const AROUND: Duration = Duration::from_secs(400);

/// Storms that take longer than this are cut short.
fn fuse(scenario: &Scenario) -> Duration {
    length(scenario.times) + Duration::from_secs(20)
}

/// A request to the lab.
#[derive(Debug, Clone)]
pub struct LabSpec {
    /// The kernel.
    pub kernel: GuestKernel,
    /// The boot line, as [`boot::line`] gives it.
    pub boot_line: String,
    /// How guests run.
    pub mode: Mode,
    /// CPUs of a guest; the last one is isolated.
    pub cpus: u32,
    /// Length of the window.
    pub duration: Duration,
    /// Seed of storms.
    pub seed: u64,
    /// Why this mode.
    pub mode_reason: String,
    /// Loads on the housekeeping CPUs, one guest after the other; `idle` is none.
    pub loads: Vec<String>,
    /// Whether the guest's own collector is compared with the scope.
    pub witness: bool,
    /// The mask of the guest's kernel part, as [`rt::isolation::Mask::named`] reads it.
    pub isolate: Option<String>,
    /// The further equipment of guests.
    pub how: How,
    /// The collector of causes in guests, as `--causes` names it; it costs the measured CPU
    /// instructions.
    pub causes: String,
    /// Kernel warnings with one of these texts do not count.
    pub known: Vec<String>,
    /// Whether a guest that ran before with the same content is run again.
    pub fresh: bool,
    /// How long guests are waited for.
    pub patience: Patience,
}

/// A machine without a load.
pub const IDLE: &str = "idle";

/// Guests are measured without collectors, where none is asked for.
pub const NO_CAUSES: &str = "off";

/// Programs that loads are made with.
const LOAD_PROGRAMS: &[&str] = &["stress-ng", "fio"];

/// The guest's GPIO controller, as its kernel calls it: the only one.
const CHIP: &str = "gpiochip0";

/// The name of a scenario under a load.
pub fn label(scenario: &str, load: &str) -> String {
    if load == IDLE { scenario.to_string() } else { format!("{scenario} under {load}") }
}

/// The reason why a run is no result, in a line with a cure.
pub fn complaint(document: &LabDocument) -> Option<String> {
    let failures = document.failures();
    let (first, more) = failures.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
    let cure = if failures.iter().all(|failure| log::is_of_a_busy_host(failure)) {
        "the guest's CPUs did not run for 3 s; run it again while this machine is less busy"
    } else {
        "see lab.json and kernel-*.log of the bundle, and run it on another kernel or without that storm"
    };
    Some(format!("cannot use what was counted: {first}{more}; {cure}"))
}

/// One guest's task: a scenario under a load.
struct Experiment<'a> {
    scenario: &'a Scenario,
    load: &'a str,
    /// The name of its results: the scenario, and the load where there is one.
    label: String,
}

impl<'a> Experiment<'a> {
    fn all(asked: &'a LabSpec, scenarios: &'a [Scenario]) -> Vec<Experiment<'a>> {
        let under = |scenario: &'a Scenario, load: &'a String| Experiment {
            scenario,
            load,
            label: label(&scenario.name, load),
        };
        scenarios
            .iter()
            .flat_map(|scenario| asked.loads.iter().map(move |load| under(scenario, load)))
            .collect()
    }
}

/// Runs scenarios, as many at a time as the machine has room for, and writes one bundle.
pub fn run(
    asked: &LabSpec,
    scenarios: &[Scenario],
    folder: &Path,
    say: &(dyn Fn(&str) + Sync),
) -> Result<LabDocument> {
    let architecture = asked.kernel.architecture;
    let on = scenarios.iter().map(|scenario| scenario.on(architecture)).collect::<Result<Vec<_>>>()?;
    let (scenarios, left_out): (Vec<_>, Vec<_>) = on.into_iter().unzip();
    let experiments = Experiment::all(asked, &scenarios);
    if asked.mode == Mode::Virtual
        && let Some(stormy) =
            experiments.iter().find(|one| !one.scenario.storms.is_empty() || one.load != IDLE)
    {
        let why = "in instruction-count time CPUs take turns on one host thread, so a busy housekeeping CPU would show as gaps of the isolated one";
        return Err(Error::on("run in virtual mode", &stormy.label, why, "use --mode count for storms"));
    }
    if asked.mode == Mode::Virtual
        && let Some(answers) =
            experiments.iter().find(|one| one.scenario.responds() || one.scenario.has_signal())
    {
        let why = "in instruction-count time CPUs take turns, and the one that polls keeps its turn";
        return Err(Error::on("run in virtual mode", &answers.label, why, "use --mode count or real"));
    }
    if asked.witness && asked.mode != Mode::Count {
        let why = format!("there is no scope in the mode {}", asked.mode.name());
        return Err(Error::on("compare the guest's own tracing", "with the scope", why, "use --mode count"));
    }
    if architecture != Architecture::Aarch64
        && let Some(outside) = experiments.iter().find(|one| one.scenario.has_lines())
    {
        let why = "its machine has no GPIO controller whose lines can be driven";
        return Err(Error::on("run the scenario", &outside.label, why, "use --arch aarch64"));
    }
    can_be_alone(asked, &experiments)?;
    evidence::writer::may_write(folder)?;
    let emulator = qemu::version(asked.kernel.architecture)?;
    let plugin = match asked.mode {
        Mode::Count => {
            let plugin = scope::plugin()?;
            let symbols = symbols::of(&asked.kernel, &asked.patience, &|text| say(text))?;
            let cpus = boot::isolated(asked.cpus);
            Some(format!("{},symbols={},cpus={cpus}", plugin.display(), symbols.display()))
        }
        _ => None,
    };
    let results = side_by_side(asked, &experiments, plugin.as_deref(), say)?;
    let mut document = LabDocument {
        schema_version: SCHEMA_VERSION,
        bundle: String::new(),
        mode: asked.mode,
        mode_reason: asked.mode_reason.clone(),
        emulator,
        kernel: format!("{} ({})", asked.kernel.release, asked.kernel.asked),
        kernel_digest: asked.kernel.digest.clone(),
        architecture: asked.kernel.architecture.to_string(),
        boot_line: asked.boot_line.clone(),
        cpus: asked.cpus,
        duration_s: Some(asked.duration.as_secs_f64()),
        seed: asked.seed,
        isolate: asked.isolate.clone(),
        rows: Vec::new(),
        storms: Vec::new(),
        loads: Vec::new(),
        guest_log: GuestLog::default(),
        witness: Vec::new(),
        not_run_again: None,
    };
    let mut bundle: Option<Bundle> = None;
    let mut complained = Vec::new();
    let (kept, all) = (results.iter().filter(|result| result.is_kept).count(), results.len());
    for result in results {
        complained.extend(result.complained);
        document.rows.extend(result.rows);
        document.storms.extend(result.storms);
        document.loads.extend(result.load);
        document.witness.extend(result.witness);
        document.guest_log.lines += result.log.lines;
        document.guest_log.warnings.extend(result.log.warnings);
        match &mut bundle {
            None => bundle = Some(result.bundle),
            Some(first) => join(first, result.bundle),
        }
    }
    if !document.guest_log.warnings.is_empty() {
        document.guest_log.verdict = LogVerdict::Bad;
    }
    let mut bundle = bundle
        .ok_or_else(|| Error::on("run", "the lab", "no scenario was given", "see isolator lab list"))?;
    let left_out = left_out.into_iter().flatten().collect::<BTreeSet<_>>();
    bundle.manifest.notes.extend(left_out.into_iter().map(|storm| {
        format!(
            "the storm {storm} was left out: machines of {architecture} have nothing that it could change"
        )
    }));
    if kept > 0 {
        document.not_run_again = Some(format!(
            "{kept} of {all} guests were not run again: the cache has an earlier result of the same content; --fresh \
             runs them"
        ));
    }
    bundle.manifest.notes.extend(document.not_run_again.clone());
    bundle.lab = Some(document.clone());
    evidence::store(&bundle, folder)?;
    for (file, text) in complained {
        evidence::writer::replace(&folder.join(file), text.as_bytes())?;
    }
    document.bundle = folder.display().to_string();
    Ok(document)
}

/// Results in the order of the experiments; the first error ends the rest.
fn side_by_side(
    asked: &LabSpec,
    experiments: &[Experiment<'_>],
    plugin: Option<&str>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Gave>> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let at_once = (cores / asked.cpus as usize).max(1);
    let waiting = Mutex::new(experiments.iter().enumerate().rev().collect::<Vec<_>>());
    let done = Mutex::new(Vec::new());
    let take = || waiting.lock().ok()?.pop();
    std::thread::scope(|threads| {
        for _ in 0..at_once.min(experiments.len()) {
            threads.spawn(|| {
                while let Some((n, experiment)) = take() {
                    say(&format!("{} of {}: {}", n + 1, experiments.len(), experiment.label));
                    let result = one(asked, experiment, plugin);
                    if result.is_err()
                        && let Ok(mut waiting) = waiting.lock()
                    {
                        waiting.clear();
                    }
                    if let Ok(mut done) = done.lock() {
                        done.push((n, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

fn one(asked: &LabSpec, experiment: &Experiment<'_>, plugin: Option<&str>) -> Result<Gave> {
    let has_disk = disk::needed(experiment.load, &experiment.scenario.storms);
    let job =
        GuestJob { modules: Vec::new(), disk: has_disk, task: GuestTask::Measure(task(asked, experiment)) };
    let program = initramfs::guest_program(asked.kernel.architecture)?;
    let kinds = experiment.scenario.storms.iter().filter_map(|name| storm::kind(name)).collect::<Vec<_>>();
    let disk_modules = if has_disk { disk::MODULES } else { &[] };
    let needed = PORT_MODULES.iter().chain(disk_modules).chain(kinds.iter().flat_map(|kind| kind.modules));
    let needed = needed.copied().collect::<Vec<_>>();
    let carried = kinds.iter().flat_map(|kind| kind.carried).copied().collect::<Vec<_>>();
    let files = |names: &[&str]| initramfs::modules(asked.kernel.modules.as_deref(), names);
    // Programs of this machine run in guests of its own architecture only; elsewhere the load says that it is
    // missing.
    let native = asked.kernel.architecture == Architecture::of_this_program();
    let programs = if experiment.load == IDLE || !native { &[] } else { LOAD_PROGRAMS };
    let parts = Parts {
        program: &program,
        modules: files(&needed),
        carried: files(&carried),
        programs: initramfs::programs(programs),
        run: None,
        laid: None,
    };
    let every = experiment.scenario.period();
    let outside = match experiment.scenario.probe.as_str() {
        REGISTERS | LINES => Some(Outside::Lines(every)),
        scenario::SIGNAL => Some(Outside::Signal(signal::SignalEdges { every, during: asked.duration })),
        _ => None,
    };
    // Otherwise only their driver may use registers.
    let open = if experiment.scenario.has_lines() { " iomem=relaxed" } else { "" };
    let guest = Guest {
        kernel: &asked.kernel,
        initramfs: &initramfs::build(&parts, &job)?,
        boot_line: boot::whole(asked.kernel.architecture, &[asked.boot_line.as_str(), open].concat()),
        mode: asked.mode,
        cpus: asked.cpus,
        scope: plugin.map(|plugin| match experiment.scenario.probe.as_str() {
            RESPONSE | scenario::SIGNAL => plugin.to_string() + &scope::signal(),
            REGISTERS => plugin.to_string() + &scope::lines(),
            _ => plugin.to_string(),
        }),
        disk: has_disk,
        how: How { outside, ..asked.how },
        patience: asked.patience.or(window(asked, experiment.scenario) + fuse(experiment.scenario) + AROUND),
    };
    let (left, is_kept) = finished::kept(&guest, asked.fresh)?;
    let gave = gave::read(
        &left,
        &experiment.label,
        experiment.load != IDLE,
        asked.mode,
        asked.duration,
        &asked.known,
    );
    // What is no result may be one on a host that is less busy.
    if !gave.as_ref().is_ok_and(Gave::is_result) {
        finished::forget(&guest)?;
    }
    gave.map(|gave| Gave { is_kept, ..gave })
}

/// How long a guest's window is at the least.
fn window(asked: &LabSpec, scenario: &Scenario) -> Duration {
    // Who gives edges from outside begins after it and ends before it.
    if scenario.has_signal() { asked.duration + signal::AROUND } else { asked.duration }
}

fn task(asked: &LabSpec, experiment: &Experiment<'_>) -> Measure {
    let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
    let (measured, house_keeping) = (boot::isolated(asked.cpus), boot::house_keeping(asked.cpus));
    let Experiment { scenario, load, .. } = experiment;
    let probe = if scenario.has_signal() { RESPONSE } else { &scenario.probe };
    let mut arguments = words(&format!("prove --probe {probe} --loads {load}"));
    arguments.extend(words(&format!("--cpus {measured} --house-keeping {house_keeping}")));
    // With storms the window is closed after the last of them; the time is only a fuse.
    let fuse = if scenario.storms.is_empty() { Duration::ZERO } else { fuse(scenario) };
    let duration_ms = (window(asked, scenario) + fuse).as_millis();
    arguments.extend(words(&format!("--duration {duration_ms}ms --warm-up 500ms -o {BUNDLE} --quiet")));
    arguments.extend(scenario.period_us.iter().flat_map(|us| words(&format!("--period {us}us"))));
    let (input, output) = (edges::INPUT, edges::OUTPUT);
    match scenario.probe.as_str() {
        RESPONSE => arguments.extend(words(&format!("--signal {SIGNAL}"))),
        scenario::SIGNAL => {
            arguments.extend(words(&format!("--signal {} --role responder", signal::resource())));
        }
        REGISTERS => {
            let board = format!("--board pl061@{:#x} --in {input} --out {output}", edges::CONTROLLER);
            arguments.extend(words(&board));
        }
        LINES => arguments.extend(words(&format!("--chip {CHIP} --in {input} --out {output}"))),
        _ => {}
    }
    arguments.push(format!("--causes={}", asked.causes));
    arguments.extend(asked.isolate.iter().map(|what| format!("--isolate={what}")));
    Measure {
        arguments,
        measured,
        house_keeping: if scenario.responds() { without_edges(house_keeping) } else { house_keeping },
        storms: scenario.storms.clone(),
        order: scenario.order,
        times: scenario.times,
        at_least_ns: window(asked, scenario).as_nanos() as u64,
        seed: asked.seed,
        witness: asked.witness.then(|| witness(&asked.causes).to_string()),
        alone: asked.isolate.clone().filter(|names| is_exclusive(names)),
    }
}

/// Where storms blow beside a generator of edges: it spins on the last CPU, and has that for itself where
/// there are more.
fn without_edges(house_keeping: CpuSet) -> CpuSet {
    let others = house_keeping.iter().take(house_keeping.len().saturating_sub(1).max(1));
    others.collect()
}

/// The witness is the collector that explains spikes; where none does, the best that the kernel allows.
fn witness(causes: &str) -> &str {
    if causes == NO_CAUSES { "auto" } else { causes }
}

/// Whether the owner shall have its memory for itself.
fn is_exclusive(names: &str) -> bool {
    names.split(',').any(|name| name == "exclusive")
}

/// Refuses what a process of a single thread that only spins cannot do.
fn can_be_alone(asked: &LabSpec, experiments: &[Experiment<'_>]) -> Result<()> {
    if !asked.isolate.as_deref().is_some_and(is_exclusive) {
        return Ok(());
    }
    for Experiment { scenario, load, label } in experiments {
        let own = scenario.storms.iter().find(|name| storm::kind(name).is_some_and(storm::StormKind::is_own));
        let why = match (own, asked.mode) {
            (Some(own), _) => format!("the storm {own} blows in another thread of the owner"),
            (None, mode) if mode != Mode::Count => {
                format!("in the mode {} it is to be measured", mode.name())
            }
            _ if RowKind::of(&scenario.probe) != RowKind::Spin => {
                format!("the probe {} is measured by two threads", scenario.probe)
            }
            _ if *load != IDLE => "loads are made by the measuring program, which has several threads".into(),
            _ => continue,
        };
        let cure = "leave it out, or do without exclusive";
        return Err(Error::on("run with an owner alone", label, why, cure));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn a_storm_that_a_machine_has_nothing_for_is_left_out_and_refused_alone() {
        let scenario = |name: &str| scenario::named(&[name.to_string()]).unwrap().remove(0);
        let (minute, left_out) = scenario("minute").on(Architecture::Aarch64).unwrap();
        assert_eq!(left_out, ["msr"]);
        assert_eq!(minute.storms.len() + 1, scenario("minute").storms.len());
        assert_eq!(scenario("minute").on(Architecture::X86_64).unwrap(), (scenario("minute"), vec![]));
        assert_eq!(
            scenario("msr").on(Architecture::Aarch64).unwrap_err().to_string(),
            "cannot run the scenario msr: machines of aarch64 have nothing that msr could change; use another --arch"
        );
    }

    #[test]
    fn edges_have_a_cpu_for_themselves_where_there_are_two_for_housekeeping() {
        let left = |cpus: &str| without_edges(cpus.parse().unwrap()).to_string();
        assert_eq!([left("0"), left("0-1"), left("0-2")], ["0", "0", "0-1"]);
    }

    #[test]
    fn an_owner_alone_only_spins() {
        let kernel = GuestKernel {
            asked: "isolator".into(),
            release: "6.12".into(),
            architecture: Architecture::X86_64,
            image: "/nowhere".into(),
            modules: None,
            digest: String::new(),
        };
        let judged = |name: &str, load: &str, mode, isolate: &str| {
            let asked = LabSpec {
                kernel: kernel.clone(),
                boot_line: String::new(),
                mode,
                cpus: 2,
                duration: Duration::from_secs(5),
                seed: 1,
                mode_reason: String::new(),
                loads: vec![load.into()],
                witness: false,
                isolate: Some(isolate.into()),
                how: How::default(),
                causes: NO_CAUSES.into(),
                known: Vec::new(),
                fresh: false,
                patience: Patience::default(),
            };
            let scenarios = scenario::named(&[name.to_string()]).unwrap();
            can_be_alone(&asked, &Experiment::all(&asked, &scenarios)).map_err(|error| error.why)
        };
        let alone = |name, load, mode| judged(name, load, mode, "default,exclusive");
        assert_eq!(alone("static-keys", IDLE, Mode::Count), Ok(()));
        assert_eq!(judged("munmap-own", "l2", Mode::Count, "default"), Ok(()));
        let why = alone("munmap-own", IDLE, Mode::Count).unwrap_err();
        assert_eq!(why, "the storm munmap-own blows in another thread of the owner");
        let why = alone("cyclic", IDLE, Mode::Count).unwrap_err();
        assert_eq!(why, "the probe wakeup is measured by two threads");
        let why = alone("quiet", "l2", Mode::Count).unwrap_err();
        assert_eq!(why, "loads are made by the measuring program, which has several threads");
        let why = alone("quiet", IDLE, Mode::Virtual).unwrap_err();
        assert_eq!(why, "in the mode virtual it is to be measured");
    }
}
