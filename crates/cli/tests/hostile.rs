// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root works in, on and about the things of another user, who changes them meanwhile (`programs/hostile.c`):
//! whatever he does, nothing of root's changes, no verb hangs or dies, and none takes more than 256 MiB.
//!
//! It happens in namespaces of processes and mounts of its own, where all ends with the test and numbers of
//! processes are used again at once; but for lint and monitor, which refuse to work there.
//!
//! RACES is the number of each verb's runs, 20 where it is not given.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::common::*;
use crate::tune_change::machine_in;

/// The most memory of a verb.
const MEMORY_KIB: u64 = 256 << 10;

/// Beyond it a verb hangs: the longest of these takes a second or two.
const HANGS: Duration = Duration::from_secs(120);

/// Verbs that root runs in the other user's folder, on his files.
const ON_FILES: [&str; 31] = [
    "load cpu --duration 50ms",
    "load storage --duration 50ms",
    "prove -o out --loads idle --causes off --policy other --duration 50ms --warm-up 0s",
    "measure wakeup -o out --causes off --policy other --duration 50ms --warm-up 0s",
    "report b",
    "report b -o r.html --json=r.json",
    "why b",
    "watch --count 1 --interval 10ms --json w.json",
    "watch --count 1 --interval 10ms --prometheus w.prom",
    "compare b b2 -o c.html",
    "gate --baseline b b2 --junit j.xml",
    "fleet store -o out b b2",
    "import t.txt -o out",
    "import t.txt",
    "export b --as csv -o e.csv",
    "export b --as trace -o e.json",
    "export b --as archive -o e.tar.zst",
    "lab show scenario.toml",
    "lab gate b",
    "kernel export -o out",
    "doctor --root tree --json=d.json",
    "task list --root tree",
    "tune plan --root tree --json=plan.json",
    "tune verify plan.json --root tree",
    "tune status --root tree",
    "setup-user --root tree --dry-run daemon",
    "fleet prove -i inventory -o out",
    "fleet plan -i a, -o out",
    "fleet apply -i a, -o out --force",
    "fleet verify -i inventory -o out --force",
    "fleet rollback -i a, -o out",
];

/// Verbs that root runs one after the other on the files of a machine, which are the other user's.
const ON_MACHINES: [&str; 8] = [
    "tune plan --root tree --cores 1 --json=plan.json",
    "tune apply plan.json --root tree --dry-run",
    "tune apply plan.json --root tree",
    "tune status --root tree",
    "tune verify --root tree",
    "tune confirm --root tree",
    "tune export plan.json --as tuned -o profile",
    "tune rollback --root tree",
];
/// Folders of his in which he works then, and what of root's he puts links to in their places.
const LINKED: [(&str, &str); 7] = [
    ("", ""),
    ("tree", "etc"),
    ("tree/etc/default", "etc/default/grub"),
    ("tree/boot", "boot/grub"),
    ("tree/boot/grub", "boot/grub/grub.cfg"),
    ("tree/var/lib", "var/lib"),
    ("tree/proc/irq/9", "proc/irq/9/smp_affinity_list"),
];

/// Verbs that root runs about a process of the other user, whose number follows: on the machine itself, and
/// in namespaces.
const ABOUT_PROCESSES: [&str; 2] = ["lint --duration 100ms", "monitor -o ../root/out --duration 100ms"];
const WITHIN_NAMESPACES: [&str; 3] = ["task show", "task set --policy other", "task set --cpus 0"];

/// The other user at work, until this is dropped.
struct Hostile(Child);

impl Hostile {
    fn start(outer: &Path, args: &[&str]) -> Hostile {
        let own = UNPRIVILEGED.to_string();
        let mut command = Command::new("chrt");
        // Processes of another policy are none of lint's business.
        command.args(if args[0] == "process" { ["--fifo", "1"] } else { ["--other", "0"] });
        command.args(["setpriv", "--clear-groups", "--reuid", &own, "--regid", &own]);
        command.arg(outer.join("hostile")).args(args).process_group(0);
        Hostile(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The number of its latest process.
    fn process(&mut self) -> Arc<AtomicU32> {
        let (latest, out) = (Arc::new(AtomicU32::new(0)), self.0.stdout.take().unwrap());
        let told = Arc::clone(&latest);
        std::thread::spawn(move || {
            let numbers =
                BufReader::new(out).lines().map_while(Result::ok).filter_map(|line| line.parse().ok());
            numbers.for_each(|number| told.store(number, Ordering::SeqCst));
        });
        wait_for("the first process", || latest.load(Ordering::SeqCst) != 0);
        latest
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// `hostile` compiled, `root` with things of root's, and `home` with things of the other user.
fn prepared() -> tempfile::TempDir {
    let outer = folder();
    fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/hostile.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).args([&outer.path().join("hostile"), &source]);
    assert!(cc.status().unwrap().success(), "cc refused hostile.c");
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("kept")).unwrap();
    fs::write(root.join("victim"), "root's secret configuration\n").unwrap();
    fs::set_permissions(root.join("victim"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(root.join("kept/other"), "readable\n").unwrap();
    programs(&outer.path().join("bin"));
    let home = outer.path().join("home");
    fs::create_dir(&home).unwrap();
    fill(&home);
    outer
}

/// Programs of Ansible's names: a playbook that is run in the other user's folder changes things of root's.
fn programs(bin: &Path) {
    fs::create_dir(bin).unwrap();
    let hosts = "printf '{\"all\": {\"hosts\": [\"a\"]}}'";
    let playbook = "case $* in *../root/out/*) ;; *) touch \"${0%/*}/../root/ran\" ;; esac";
    for (name, does) in [("ansible-inventory", hosts), ("ansible-playbook", playbook)] {
        fs::write(bin.join(name), format!("#!/bin/sh\n{does}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The things of the other user, made anew: a race may have destroyed it.
fn fill(home: &Path) {
    for entry in fs::read_dir(home).unwrap().flatten() {
        let path = entry.path();
        let _ = if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
    }
    let line = "T:0 ( 1) P:80 I:1000 C: 1000 Min: 2 Act: 3 Avg: 3 Max: 10\n";
    fs::write(home.join("t.txt"), line).unwrap();
    for name in ["b", "b2"] {
        isolator(home, &["import", "t.txt", "-o", name, "-q"]).ended(0);
    }
    let tree =
        [("proc/cmdline", "quiet\n"), ("sys/devices/system/cpu/possible", "0-3\n"), ("etc/passwd", "")];
    lay_out(&home.join("tree"), &tree);
    fs::write(home.join("scenario.toml"), "name = \"x\"\n").unwrap();
    fs::write(home.join("plan.json"), "{}\n").unwrap();
    fs::write(home.join("inventory"), "a\n").unwrap();
    give(home);
}

/// Gives all of it to the other user.
fn give(path: &Path) {
    chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().flatten().for_each(|entry| give(&entry.path()));
    }
}

/// All things of root's: their owners, permissions, times of change, and contents.
fn seen(path: &Path) -> BTreeMap<PathBuf, (u32, u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap().flatten() {
        let (path, meta) = (entry.path(), entry.metadata().unwrap());
        // The bundle of a verb itself.
        if path.ends_with("out") {
            continue;
        }
        let bytes = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if meta.is_dir() {
            all.extend(seen(&path));
        }
        all.insert(path, (meta.uid(), meta.mode(), meta.mtime(), meta.mtime_nsec(), bytes));
    }
    all
}

/// Runs a verb to its end, and fails where it hangs, dies or takes too much memory.
fn run(home: &Path, words: &[&str]) -> Ran {
    let mut child = command(home, words);
    let path = format!("{}/../bin:{}", home.display(), std::env::var("PATH").unwrap_or_default());
    let mut child = child.env("PATH", path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        said.read_to_string(&mut text).map(|_| text).unwrap_or_default()
    });
    let (began, mut most_kib) = (Instant::now(), 0);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let own = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let most = own.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        most_kib = most.and_then(|kib| kib.parse().ok()).unwrap_or(0).max(most_kib);
        if began.elapsed() > HANGS {
            let _ = child.kill();
            panic!("{words:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let stderr = said.join().unwrap();
    let ran = Ran { status: status.code(), stdout: String::new(), stderr };
    let last = ran.stderr.lines().last().unwrap_or_default();
    let is_told = ran.status != Some(1) || last.starts_with("isolator: ");
    assert!(matches!(ran.status, Some(0..=2)) && is_told, "{words:?}: {status}: {ran:?}");
    assert!(!ran.stderr.contains("defect"), "{words:?}: {ran:?}");
    assert!(most_kib <= MEMORY_KIB, "{words:?} took {most_kib} KiB");
    ran
}

/// Runs the test of that name once more, in namespaces of its own, and there the work.
fn in_namespaces(test: &str, work: impl FnOnce()) {
    const INSIDE: &str = "ISOLATOR_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return work();
    }
    let unshared = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--mount", "--fork", "--mount-proc", "--kill-child"]);
        command
    };
    let lacks = !unshared().arg("true").status().is_ok_and(|status| status.success());
    skip_if!(skipped(lacks, "it needs namespaces of processes and mounts"));
    let mut again = unshared();
    again.arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let ran: Ran = again.output().unwrap().into();
    assert!(ran.status == Some(0) && ran.stdout.contains("1 passed"), "{ran:#?}");
}

/// Has the next process take the number before this one's again and again, until it is dropped: a process
/// that ends leaves its number to the next.
struct Reuse(Arc<AtomicBool>);

impl Reuse {
    fn of(process: u32) -> Reuse {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        std::thread::spawn(move || {
            while !seen.load(Ordering::SeqCst) {
                // A kernel without it has no such race either.
                let _ = fs::write("/proc/sys/kernel/ns_last_pid", (process - 1).to_string());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Reuse(ended)
    }
}

impl Drop for Reuse {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn races() -> usize {
    std::env::var("RACES").ok().and_then(|number| number.parse().ok()).unwrap_or(20)
}

fn skipped_here() -> bool {
    skipped_for_lack_of_root()
        || skipped(!installed("cc"), "it needs a C compiler")
        || skipped(!installed("chrt") || !installed("setpriv"), "it needs chrt and setpriv, of util-linux")
}

#[test]
fn root_in_the_folder_of_a_hostile_user_changes_nothing_of_its_own() {
    skip_if!(skipped_here() || skipped_for_lack_of_cpus());
    in_namespaces("hostile::root_in_the_folder_of_a_hostile_user_changes_nothing_of_its_own", on_files);
}

fn on_files() {
    let outer = prepared();
    let (home, root) = (outer.path().join("home"), outer.path().join("root"));
    let before = seen(&root);
    for verb in ON_FILES {
        if verb.contains("storage") && skipped(!installed("fio"), "the load storage needs fio") {
            continue;
        }
        let words: Vec<&str> = verb.split(' ').collect();
        fill(&home);
        let victim = root.join("victim");
        let hostile =
            Hostile::start(outer.path(), &["files", home.to_str().unwrap(), victim.to_str().unwrap()]);
        for race in 0..races() {
            run(&home, &words);
            assert_eq!(seen(&root), before, "{verb}, race {race}");
        }
        drop(hostile);
    }
}

#[test]
fn root_tunes_the_machine_of_a_hostile_user_and_changes_nothing_of_its_own() {
    skip_if!(skipped_here());
    in_namespaces("hostile::root_tunes_the_machine_of_a_hostile_user_and_changes_nothing_of_its_own", || {
        let outer = prepared();
        let (home, root) = (outer.path().join("home"), outer.path().join("root"));
        // Files of the same names: a link to them would be as good as his own.
        machine_in(&root, "debian");
        fs::create_dir_all(root.join("var/lib/isolator")).unwrap();
        let before = seen(&root);
        for race in 0..races() {
            fill(&home);
            machine_in(&home.join("tree"), "debian");
            fs::create_dir_all(home.join("tree/var/lib")).unwrap();
            give(&home);
            // In one race of four he waits until the plan is applied.
            let applied = if race % 4 == 0 { 3 } else { 0 };
            let words = |verb: &str| -> Vec<String> { verb.split(' ').map(str::to_string).collect() };
            let run_all = |verbs: &[&str]| {
                for verb in verbs {
                    let words = words(verb);
                    run(&home, &words.iter().map(String::as_str).collect::<Vec<_>>());
                    assert_eq!(seen(&root), before, "{verb}, race {race}");
                }
            };
            run_all(&ON_MACHINES[..applied]);
            let at_work: Vec<Hostile> = LINKED
                .iter()
                .map(|(folder, victim)| {
                    let [own, victim] =
                        [home.join(folder), root.join(victim)].map(|path| path.display().to_string());
                    Hostile::start(outer.path(), &["files", &own, &victim])
                })
                .collect();
            run_all(&ON_MACHINES[applied..]);
            drop(at_work);
        }
    });
}

#[test]
fn root_about_processes_of_a_hostile_user_neither_hangs_nor_dies() {
    skip_if!(skipped_here() || skipped_for_lack_of_cpus());
    about_processes(&ABOUT_PROCESSES, false);
}

#[test]
fn root_about_processes_whose_numbers_are_used_again_changes_nothing_of_its_own() {
    skip_if!(skipped_here() || skipped_for_lack_of_cpus());
    in_namespaces(
        "hostile::root_about_processes_whose_numbers_are_used_again_changes_nothing_of_its_own",
        || about_processes(&WITHIN_NAMESPACES, true),
    );
}

fn about_processes(verbs: &[&str], is_within: bool) {
    let outer = prepared();
    let (home, root) = (outer.path().join("home"), outer.path().join("root"));
    let before = seen(&root);
    let named = home.join("named");
    let mut hostile = Hostile::start(outer.path(), &["process", named.to_str().unwrap()]);
    let latest = hostile.process();
    for verb in verbs {
        for race in 0..races() {
            let _ = fs::remove_dir_all(root.join("out"));
            let process = latest.load(Ordering::SeqCst);
            let _reuse = is_within.then(|| Reuse::of(process));
            let process = process.to_string();
            let words: Vec<&str> = verb.split(' ').chain([process.as_str()]).collect();
            run(&home, &words);
            assert_eq!(seen(&root), before, "{verb}, race {race}");
        }
    }
}
