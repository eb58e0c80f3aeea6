// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every load on this machine: it loads, and nothing of it is left, also after a kill.
//!
//! A program of its own, since loads are supervised by the program that starts them, executed again: under
//! the hidden verb it is the supervisor, under `parent` a control thread to be killed. A test whose program
//! is missing says `skipped` and why. Arguments select tests by a part of their name.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use load::{Load, LoadError, LoadOutcome, Placement, Running, WORKER_VERB};
use machine::CpuSet;

#[path = "loads/names.rs"]
mod names;
#[path = "loads/processes.rs"]
mod processes;

use processes::{are_gone, below, is_soon, kill, parent_of, policy_of, supervisor_of};

/// Passed, or skipped and why.
type Outcome = Result<(), String>;

const SHORT: Duration = Duration::from_millis(1000);
const SETTLE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some(WORKER_VERB) => return load::worker_main(args.into_iter().skip(1)),
        Some("parent") => parent(&args[1], Path::new(&args[2])),
        _ => {}
    }
    let wanted = |name: &str| {
        let mut words = args.iter().filter(|arg| !arg.starts_with('-')).peekable();
        words.peek().is_none() || words.any(|word| name.contains(word.as_str()))
    };
    let mut failed = 0;
    for (name, test) in tests().into_iter().filter(|(name, _)| wanted(name)) {
        let outcome = match catch_unwind(AssertUnwindSafe(|| test(&Scratch::new(name)))) {
            Ok(Ok(())) => "ok".to_string(),
            Ok(Err(why)) => format!("skipped: {why}"),
            Err(_) => {
                failed += 1;
                "FAILED".to_string()
            }
        };
        println!("test {name} ... {outcome}");
    }
    ExitCode::from(u8::from(failed > 0))
}

type Test = fn(&Scratch) -> Outcome;

fn tests() -> Vec<(&'static str, Test)> {
    vec![
        ("idle_runs_nothing", idle_runs_nothing),
        ("cpu_loads_and_leaves_nothing", |s| loads(s, "cpu", &["cpu_cpu_ms"])),
        ("io_loads_and_leaves_nothing", |s| loads(s, "io", &["io_cpu_ms", "hdd_cpu_ms"])),
        ("memory_loads_and_leaves_nothing", |s| loads(s, "memory", &["vm_cpu_ms"])),
        ("system_loads_and_leaves_nothing", |s| loads(s, "system", &["cpu_cpu_ms", "fork_cpu_ms"])),
        ("l2_loads_and_leaves_nothing", |s| {
            let all = ["cpu_cpu_ms", "vm_cpu_ms", "io_cpu_ms", "hdd_cpu_ms"];
            loads(s, "l2", &all)
        }),
        ("storage_loads_and_leaves_nothing", |s| loads(s, "storage", &["read_bytes", "written_bytes"])),
        ("net_loads_and_leaves_nothing", |s| loads(s, "net", &["udp_bytes", "tcp_bytes"])),
        ("timers_load_and_leave_nothing", |s| loads(s, "timers", &["timers_fired"])),
        ("ipis_arrive_at_the_measured_cpus", ipis_arrive_at_the_measured_cpus),
        ("ethercat_loads_and_leaves_nothing", |s| loads(s, "ethercat", &["ethercat_cycles"])),
        ("a_wire_of_ethercats_own_is_gone_after_sigkill", a_wire_of_ethercats_own_is_gone_after_sigkill),
        ("gpu_loads_and_leaves_nothing", gpu_loads_and_leaves_nothing),
        (
            "reports_the_utilisation_of_a_gpu_command_or_none",
            reports_the_utilisation_of_a_gpu_command_or_none,
        ),
        ("a_given_command_loads_and_leaves_nothing", |s| loads(s, "custom=while :; do :; done", &[])),
        ("a_load_that_dies_is_no_load", a_load_that_dies_is_no_load),
        ("a_load_that_does_nothing_is_no_load", a_load_that_does_nothing_is_no_load),
        ("a_command_that_cannot_run_is_no_load", a_command_that_cannot_run_is_no_load),
        ("what_detaches_itself_is_gone_too", what_detaches_itself_is_gone_too),
        ("a_name_hides_no_process", names::a_name_hides_no_process),
        ("what_ignores_termination_is_killed", what_ignores_termination_is_killed),
        ("what_leaves_its_cpus_is_noticed", what_leaves_its_cpus_is_noticed),
        ("a_dropped_load_is_stopped", a_dropped_load_is_stopped),
        ("loads_are_gone_after_sigkill_of_the_parent", loads_are_gone_after_sigkill_of_the_parent),
        ("loads_are_gone_after_sigkill_of_the_supervisor", loads_are_gone_after_sigkill_of_the_supervisor),
        ("loads_are_gone_after_sigkill_of_parent_and_guard", |s| {
            loads_are_gone_after_sigkill_of_both(s, false)
        }),
        ("loads_are_gone_after_sigkill_of_parent_and_supervisor", |s| {
            loads_are_gone_after_sigkill_of_both(s, true)
        }),
        ("what_detached_is_gone_after_sigkill_of_parent_and_supervisor", what_detached_is_gone_after_sigkill),
        ("a_stopped_worker_stands_still", a_stopped_worker_stands_still),
        ("a_command_that_falls_asleep_stands_still", |s| {
            stands_still(s, "custom=expr 1 + 1; sleep 1000", "none of its processes ran")
        }),
        ("a_command_that_rests_between_restarts_stands_still", |s| {
            stands_still(s, "custom=while :; do expr 1 + 1; sleep 5; done", "none of its processes ran")
        }),
        ("a_load_that_works_does_not_stand_still", a_load_that_works_does_not_stand_still),
        ("a_terminated_supervisor_cleans_up", a_terminated_supervisor_cleans_up),
        ("a_real_time_parent_starts_ordinary_loads", a_real_time_parent_starts_ordinary_loads),
        ("storage_in_memory_is_refused", storage_in_memory_is_refused),
        ("a_missing_scratch_folder_is_named", a_missing_scratch_folder_is_named),
        ("a_scratch_folder_of_another_user_is_refused", a_scratch_folder_of_another_user_is_refused),
        ("stress_ng_writes_through_no_link", |s| writes_through_no_link(s, "system", "stress-ng.yaml")),
        ("fio_writes_through_no_link", |s| writes_through_no_link(s, "storage", "fio.json")),
    ]
}

// The tests

fn idle_runs_nothing(scratch: &Scratch) -> Outcome {
    let mut running = start("idle", scratch)?;
    assert!(running.alive());
    assert!(below(std::process::id()).is_empty());
    assert_eq!(running.stop().loaded, Ok(()));
    Ok(())
}

/// Loads, counts what `counts` names, and leaves nothing.
fn loads(scratch: &Scratch, load: &str, counts: &[&str]) -> Outcome {
    let did = run(load, scratch)?;
    assert_eq!(did.loaded, Ok(()), "{}", did.words);
    assert_eq!(did.strays, [""; 0]);
    for name in counts {
        assert!(did.counts.get(*name).is_some_and(|count| *count > 0), "{name} in {did:?}");
    }
    assert!(did.cpus_busy > 0.0 && did.seconds > 0.0, "{did:?}");
    Ok(())
}

fn ipis_arrive_at_the_measured_cpus(scratch: &Scratch) -> Outcome {
    if scratch.place().measured.is_empty() {
        return Err("one CPU cannot interrupt another".to_string());
    }
    let did = run("ipi", scratch)?;
    let count = |name: &str| did.counts[name];
    assert!(count("rounds") > 0 && count("key_switches") == count("rounds"), "{did:?}");
    // With IPsec in use and without root nothing arrives; then the load must say so itself.
    let arrived = count("fewest_function_calls") > 0 && count("fewest_function_calls") >= count("rounds") / 2;
    assert_eq!(did.loaded.is_ok(), arrived, "{did:?}");
    Ok(())
}

fn gpu_loads_and_leaves_nothing(scratch: &Scratch) -> Outcome {
    let did = run("gpu", scratch)?;
    assert_eq!(did.loaded, Ok(()), "{}", did.words);
    assert!(did.words.contains(" by "), "the renderer is named: {}", did.words);
    let unknown = "no utilisation of a GPU is known: ";
    assert!(did.gpu.is_some() || did.words.contains(unknown), "{}", did.words);
    if !Path::new("/dev/dri").exists() && !Path::new("/dev/nvidia0").exists() {
        assert!(did.words.contains("(software rendering)"), "{}", did.words);
        assert!(did.words.contains(&format!("{unknown}software rendering")), "{}", did.words);
    }
    Ok(())
}

fn reports_the_utilisation_of_a_gpu_command_or_none(scratch: &Scratch) -> Outcome {
    let did = run("gpu=while :; do :; done", scratch)?;
    assert_eq!(did.loaded, Ok(()), "{}", did.words);
    let said = did
        .gpu
        .as_ref()
        .map_or("no utilisation of a GPU is known: no driver reports it".to_string(), |gpu| {
            format!("GPU {:.0} % busy ({})", gpu.busy_percent, gpu.of)
        });
    assert!(did.words.contains(&said), "{}", did.words);
    // A load that is for no GPU says nothing of one.
    let did = run("custom=while :; do :; done", scratch)?;
    assert!(did.gpu.is_none() && !did.words.contains("GPU"), "{}", did.words);
    Ok(())
}

fn a_load_that_dies_is_no_load(scratch: &Scratch) -> Outcome {
    let mut running = start("custom=echo out of luck >&2; exit 3", scratch)?;
    let why = running.settle(SETTLE).unwrap_err();
    assert!(!running.alive());
    let did = running.stop();
    assert_eq!(did.loaded, Err(why.clone()));
    assert!(why.contains("with status 3: out of luck"), "{why}");
    nothing_is_left(scratch);
    Ok(())
}

fn a_load_that_does_nothing_is_no_load(scratch: &Scratch) -> Outcome {
    let did = run("custom=exec sleep 1000", scratch)?;
    assert_eq!(did.loaded, Err("it used no CPU time".to_string()));
    Ok(())
}

fn a_command_that_cannot_run_is_no_load(scratch: &Scratch) -> Outcome {
    let why = start("custom=/no/such/program", scratch)?.settle(SETTLE).unwrap_err();
    assert!(why.contains("/no/such/program"), "{why}");
    nothing_is_left(scratch);
    Ok(())
}

fn what_detaches_itself_is_gone_too(scratch: &Scratch) -> Outcome {
    let mut running = start("custom=(setsid sleep 1000 &); exec sleep 1000", scratch)?;
    running.settle(SETTLE).unwrap();
    let before = below(std::process::id());
    let sleepers = before.values().filter(|name| *name == "sleep").count();
    assert_eq!(sleepers, 2, "{before:?}");
    running.stop();
    nothing_is_left(scratch);
    are_gone(&before);
    Ok(())
}

fn what_ignores_termination_is_killed(scratch: &Scratch) -> Outcome {
    let did = run("custom=trap '' TERM; while :; do :; done", scratch)?;
    assert_eq!(did.loaded, Ok(()));
    Ok(())
}

fn what_leaves_its_cpus_is_noticed(scratch: &Scratch) -> Outcome {
    let Some(other) = scratch.place().measured.iter().next() else {
        return Err("there is one CPU only".to_string());
    };
    needs("taskset", "util-linux")?;
    let did = run(&format!("custom=exec taskset -c {other} sh -c 'while :; do :; done'"), scratch)?;
    let own = scratch.place().house_keeping;
    let expected = format!("may run on cpus {other}, outside {own}");
    assert!(did.strays.iter().any(|stray| stray.ends_with(&expected)), "{:?}", did.strays);
    Ok(())
}

fn a_dropped_load_is_stopped(scratch: &Scratch) -> Outcome {
    let mut running = start("net", scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    let before = below(std::process::id());
    drop(running);
    nothing_is_left(scratch);
    are_gone(&before);
    Ok(())
}

fn loads_are_gone_after_sigkill_of_the_parent(scratch: &Scratch) -> Outcome {
    let (mut parent, family) = family_of_a_parent(scratch)?;
    parent.kill().unwrap();
    parent.wait().unwrap();
    are_gone(&family);
    is_soon("the scratch folder is empty", || scratch.is_empty());
    Ok(())
}

fn loads_are_gone_after_sigkill_of_the_supervisor(scratch: &Scratch) -> Outcome {
    let load = if missing("stress-ng") { "net" } else { "system" };
    let mut running = start(load, scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    let family = below(std::process::id());
    kill(supervisor_of(std::process::id()), "KILL");
    is_soon("the load is known to be dead", || !running.alive());
    let did = running.stop();
    assert!(did.loaded.is_err(), "{did:?}");
    assert!(scratch.is_empty());
    are_gone(&family);
    Ok(())
}

fn a_wire_of_ethercats_own_is_gone_after_sigkill(scratch: &Scratch) -> Outcome {
    let interfaces = || fs::read_to_string("/proc/self/net/dev").unwrap().lines().count();
    let before = interfaces();
    let mut running = start("ethercat", scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    let family = below(std::process::id());
    // A network namespace is there that is not ours, and no name leads to it: this machine's interfaces are
    // as before.
    let network = |path: String| fs::read_link(path).ok();
    let own = network("/proc/self/ns/net".to_string());
    let others = |pid: &u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.filter(|task| network(format!("{}/ns/net", task.path().display())) != own).count()
    };
    assert_eq!(interfaces(), before);
    assert_eq!(family.keys().map(others).sum::<usize>(), 0, "no thread stays in it, only its sockets");
    kill(supervisor_of(std::process::id()), "KILL");
    is_soon("the load is known to be dead", || !running.alive());
    running.stop();
    are_gone(&family);
    assert_eq!(interfaces(), before);
    // And the next one starts as if there had been none.
    let did = run("ethercat", scratch)?;
    assert_eq!(did.loaded, Ok(()), "{}", did.words);
    Ok(())
}

fn loads_are_gone_after_sigkill_of_both(scratch: &Scratch, supervisor: bool) -> Outcome {
    let (mut parent, family) = family_of_a_parent(scratch)?;
    // Of each load the guard is the parent's child, and the supervisor is the guard's.
    let guards = |pid: &u32| parent_of(*pid) == Some(parent.id());
    let supervisors = |pid: &u32| parent_of(*pid).is_some_and(|pid| guards(&pid));
    let killed = family.keys().copied().filter(|pid| if supervisor { supervisors(pid) } else { guards(pid) });
    let killed: Vec<u32> = killed.collect();
    assert!(!killed.is_empty());
    kill_together(&mut parent, &killed);
    are_gone(&family);
    is_soon("the scratch folder is empty", || scratch.is_empty());
    Ok(())
}

/// Kills all of them; stopped first, so that none sees another's end.
fn kill_together(parent: &mut Child, others: &[u32]) {
    others.iter().for_each(|pid| kill(*pid, "STOP"));
    parent.kill().unwrap();
    others.iter().for_each(|pid| kill(*pid, "KILL"));
    parent.wait().unwrap();
}

fn what_detached_is_gone_after_sigkill(scratch: &Scratch) -> Outcome {
    let command = Command::new(std::env::current_exe().unwrap());
    let load = "custom=(setsid sleep 1000 &); while :; do :; done";
    let (mut parent, mut family) = parent_process(command, load, scratch).unwrap();
    // The load is up once its shell is made, which has yet to start what it detaches.
    is_soon("the command has detached a sleep", || {
        family = below(parent.id());
        family.values().any(|name| name == "sleep")
    });
    let supervisor = supervisor_of(supervisor_of(parent.id()));
    kill_together(&mut parent, &[supervisor]);
    are_gone(&family);
    is_soon("the scratch folder is empty", || scratch.is_empty());
    Ok(())
}

fn a_stopped_worker_stands_still(scratch: &Scratch) -> Outcome {
    needs("stress-ng", "stress-ng")?;
    let mut running = start("system", scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    let worker = below(std::process::id()).into_iter().find(|(_, name)| name.starts_with("stress-ng-cpu"));
    let (worker, _) = worker.unwrap();
    kill(worker, "STOP");
    is_soon("a second in which it stood still", || running.worked().unwrap().still_s > 0.0);
    kill(worker, "CONT");
    let why = running.worked().unwrap().why.unwrap();
    assert!(why.starts_with("stress-ng-cpu") && why.ends_with(&format!("({worker}) was stopped")), "{why}");
    running.stop();
    nothing_is_left(scratch);
    Ok(())
}

fn stands_still(scratch: &Scratch, load: &str, why: &str) -> Outcome {
    let mut running = start(load, scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    is_soon("a second in which it stood still", || running.worked().unwrap().still_s > 0.0);
    assert_eq!(running.worked().unwrap().why.as_deref(), Some(why));
    assert!(running.stop().loaded.is_err());
    nothing_is_left(scratch);
    Ok(())
}

fn a_load_that_works_does_not_stand_still(scratch: &Scratch) -> Outcome {
    let mut running = start("custom=while :; do sleep 0.1; done", scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    is_soon("three seconds that were looked at", || running.worked().unwrap().seconds > 3.0);
    let worked = running.worked().unwrap();
    assert_eq!(worked.stood_still_since(&load::Worked::default(), worked.seconds), None, "{worked:?}");
    assert_eq!(running.stop().loaded, Ok(()));
    Ok(())
}

fn a_terminated_supervisor_cleans_up(scratch: &Scratch) -> Outcome {
    let mut running = start("timers", scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    kill(supervisor_of(std::process::id()), "TERM");
    is_soon("the scratch folder is empty", || scratch.is_empty());
    is_soon("the load is known to be gone", || !running.alive());
    running.stop();
    nothing_is_left(scratch);
    Ok(())
}

fn a_real_time_parent_starts_ordinary_loads(scratch: &Scratch) -> Outcome {
    needs("chrt", "util-linux")?;
    let mut command = Command::new("chrt");
    command.args(["-f", "1"]).arg(std::env::current_exe().unwrap());
    let Some((mut parent, family)) = parent_process(command, "net", scratch) else {
        return Err("no permission for SCHED_FIFO".to_string());
    };
    assert_eq!(policy_of(parent.id()), Some(1));
    assert!(family.len() >= 2, "{family:?}");
    family.keys().for_each(|pid| assert_eq!(policy_of(*pid), Some(0), "{family:?}"));
    parent.kill().unwrap();
    parent.wait().unwrap();
    are_gone(&family);
    Ok(())
}

fn storage_in_memory_is_refused(scratch: &Scratch) -> Outcome {
    needs("fio", "fio")?;
    if !Path::new("/dev/shm").is_dir() {
        return Err("there is no /dev/shm".to_string());
    }
    let place = Placement { scratch: "/dev/shm".into(), ..scratch.place() };
    let error = Load::Storage.start(&place).unwrap_err();
    assert!(matches!(error, LoadError::NotAvailable { .. }));
    assert!(error.to_string().contains("/dev/shm is in memory"), "{error}");
    Ok(())
}

fn a_missing_scratch_folder_is_named(scratch: &Scratch) -> Outcome {
    let place = Placement { scratch: "/no/such/folder".into(), ..scratch.place() };
    let error = Load::Net.start(&place).unwrap_err().to_string();
    assert!(error.contains("/no/such/folder") && error.contains("no such file"), "{error}");
    assert!(below(std::process::id()).is_empty());
    Ok(())
}

fn a_scratch_folder_of_another_user_is_refused(scratch: &Scratch) -> Outcome {
    let home = scratch.0.join("home");
    fs::create_dir_all(home.join("ours")).unwrap();
    std::os::unix::fs::chown(&home, Some(12_345), None).map_err(|_| "needs root".to_string())?;
    for folder in [home.clone(), home.join("ours")] {
        let place = Placement { scratch: folder.clone(), ..scratch.place() };
        let error = Load::Net.start(&place).unwrap_err();
        assert!(matches!(error, LoadError::NotAvailable { .. }));
        assert!(error.to_string().contains("home belongs to another user (uid 12345)"), "{error}");
        assert_ne!(load::scratch_folder(&folder), folder);
    }
    fs::remove_dir_all(home).unwrap();
    Ok(())
}

/// Another folder takes the place of a load's folder, with a link under the name of its file of figures.
fn writes_through_no_link(scratch: &Scratch, load: &str, file: &str) -> Outcome {
    let mut running = start(load, scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    let folder = fs::read_dir(&scratch.0).unwrap().next().unwrap().unwrap().path();
    let away = folder.with_extension("away");
    fs::rename(&folder, &away).unwrap();
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("../secret", folder.join(file)).unwrap();
    fs::write(scratch.0.join("secret"), "secret").unwrap();
    std::thread::sleep(SHORT);
    let did = running.stop();
    assert_eq!(did.loaded, Ok(()), "{}", did.words);
    assert_eq!(fs::read(scratch.0.join("secret")).unwrap(), b"secret");
    assert_eq!((away.exists(), folder.join(file).is_symlink()), (false, true));
    Ok(())
}

// What they stand on

/// A folder for one test's scratch files.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }

    /// The first CPU that we may use is the housekeeping one.
    fn place(&self) -> Placement {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let cpus: CpuSet = list.trim().parse().unwrap();
        let house_keeping: CpuSet = cpus.iter().take(1).collect();
        Placement {
            measured: cpus.without(&house_keeping),
            house_keeping,
            scratch: self.0.clone(),
            device: None,
        }
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(load: &str, scratch: &Scratch) -> Result<Running, String> {
    match load::parse(load).unwrap()[0].start(&scratch.place()) {
        Ok(running) => Ok(running),
        Err(LoadError::NotAvailable { reason, cure, .. }) => Err(format!("{reason}; {cure}")),
        Err(error) => panic!("{error}"),
    }
}

/// Runs a load for a second; afterwards nothing is left.
fn run(load: &str, scratch: &Scratch) -> Result<LoadOutcome, String> {
    let mut running = start(load, scratch)?;
    assert_eq!(running.settle(SETTLE), Ok(true));
    std::thread::sleep(SHORT);
    assert!(running.alive());
    let did = running.stop();
    println!("    {}", did.words);
    nothing_is_left(scratch);
    Ok(did)
}

fn nothing_is_left(scratch: &Scratch) {
    assert!(scratch.is_empty(), "files are left in {}", scratch.0.display());
    let processes = below(std::process::id());
    assert!(processes.is_empty(), "{processes:?} are left");
}

/// `parent LOADS FOLDER`: a control thread that starts loads, says so, and waits to be killed.
fn parent(loads: &str, folder: &Path) -> ! {
    let scratch = Scratch(folder.to_path_buf());
    let start = |load: &Load| {
        let mut running = load.start(&scratch.place()).unwrap();
        assert_eq!(running.settle(SETTLE), Ok(true));
        running
    };
    let _running: Vec<Running> = load::parse(loads).unwrap().iter().map(start).collect();
    println!("up");
    loop {
        std::thread::sleep(SETTLE);
    }
}

/// A parent with the loads that this machine has and that leave most behind, and all processes below it.
fn family_of_a_parent(scratch: &Scratch) -> Result<(Child, BTreeMap<u32, String>), String> {
    let mut loads = vec!["net"];
    loads.extend((!missing("stress-ng")).then_some("l2"));
    loads.extend((!missing("fio")).then_some("storage"));
    loads.extend((!missing("glxgears") && !missing("Xvfb")).then_some("gpu"));
    let command = Command::new(std::env::current_exe().unwrap());
    let family = parent_process(command, &loads.join(","), scratch).expect("the parent starts its loads");
    assert!(family.1.len() > 2 * loads.len(), "{:?}", family.1);
    Ok(family)
}

fn parent_process(
    mut command: Command,
    loads: &str,
    scratch: &Scratch,
) -> Option<(Child, BTreeMap<u32, String>)> {
    command.args(["parent", loads]).arg(&scratch.0).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut parent = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "up\n" {
        parent.wait().unwrap();
        return None;
    }
    let family = below(parent.id());
    Some((parent, family))
}

fn missing(program: &str) -> bool {
    !std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join(program).exists())
}

fn needs(program: &str, package: &str) -> Outcome {
    if missing(program) { Err(format!("package {package} missing")) } else { Ok(()) }
}
