// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs with one fault each, and their twins without it (`tests/programs`): lint finds the fault with its
//! rule and its line, and nothing in a twin.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lint::{LintChoice, LintDocument, lint};

/// A rule and the `file:line` where it is broken.
type Found = BTreeSet<(String, String)>;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Cargo's folder for what it builds.
fn folder() -> PathBuf {
    let here = std::env::current_exe().expect("this program lies somewhere");
    let folder = here.parent().and_then(Path::parent).expect("Cargo puts it into a folder of a folder");
    let folder = folder.join("lint-corpus");
    std::fs::create_dir_all(&folder).expect("Cargo's folder can be written to");
    folder
}

/// Runs a compiler; replaces the output by a rename, since another test may run it.
fn made(compiler: &str, args: &[&str], to: PathBuf) -> Result<PathBuf, String> {
    let new = to.with_extension(format!("new{}", std::process::id()));
    let ran = Command::new(compiler).args(args).arg("-o").arg(&new).output();
    let ran = ran.map_err(|error| format!("it needs {compiler} ({error})"))?;
    assert!(ran.status.success(), "{compiler} {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    std::fs::rename(&new, &to).expect("a file can be renamed within its folder");
    Ok(to)
}

/// The loop, for programs in Rust.
fn loop_object() -> Result<&'static Path, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let source = source("loop.c");
    let args = ["-O2", "-g", "-c", source.to_str().expect("a path in UTF-8")];
    let object = MADE.get_or_init(|| made("cc", &args, folder().join("loop.o")));
    object.as_deref().map_err(Clone::clone)
}

fn built(name: &str, is_seeded: bool) -> Result<PathBuf, String> {
    let path = source(name);
    let path = path.to_str().expect("a path in UTF-8");
    let to =
        folder().join(format!("{}-{}", name.replace('.', "-"), if is_seeded { "seeded" } else { "twin" }));
    let define = if is_seeded { "-DSEEDED" } else { "-DTWIN" };
    let flags = ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", define, path];
    match name.rsplit_once('.').expect("a source file").1 {
        "c" => made("cc", &flags, to),
        "cpp" => made("c++", &[&["-std=c++17"], &flags[..]].concat(), to),
        _ => {
            let link = format!("link-arg={}", loop_object()?.to_str().expect("a path in UTF-8"));
            let mut args = vec!["--edition", "2024", "-C", "opt-level=1", "-g", "-C", &link];
            args.extend(if is_seeded { ["--cfg", "seeded"] } else { ["--cfg", "twin"] });
            args.extend(["--check-cfg", "cfg(seeded,twin)", path]);
            made(&std::env::var("RUSTC").unwrap_or("rustc".into()), &args, to)
        }
    }
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn watched(program: &Path) -> LintDocument {
    let child = Command::new(program).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let running = Running(child.expect("the program starts"));
    let choice = LintChoice {
        process: running.0.id(),
        threads: Vec::new(),
        duration: Duration::from_millis(800),
        is_new: true,
    };
    let document = lint(&choice, &AtomicBool::new(false));
    document.expect("the program can be watched").expect("the watch is not stopped")
}

fn found(document: &LintDocument) -> Found {
    let place = |finding: &lint::document::LintFinding| {
        let file = finding.file.as_deref().map(Path::new).and_then(Path::file_name);
        let file = file.map_or(finding.place.clone(), |file| file.to_string_lossy().into_owned());
        (finding.rule.id().to_string(), format!("{file}:{}", finding.line.unwrap_or(0)))
    };
    document.findings.iter().map(place).collect()
}

/// The rule behind a mark in a line of the source.
fn rule(line: &str, mark: &str) -> Option<String> {
    Some(line.split_once(mark)?.1.split_whitespace().next().expect("a mark names a rule").to_string())
}

/// The expected findings, from the marks in the source.
fn expected(name: &str) -> Found {
    let text = std::fs::read_to_string(source(name)).expect("the source is there");
    let header = std::fs::read_to_string(source("loop.h")).expect("the header is there");
    let wait = header.lines().position(|line| line.contains("/* WAIT */")).expect("the header waits") + 1;
    let mut expected = Found::new();
    for (at, line) in text.lines().enumerate() {
        expected.extend(rule(line, " FAULT ").map(|rule| (rule, format!("{name}:{}", at + 1))));
        expected.extend(rule(line, " FAULT_AT_WAIT ").map(|rule| (rule, format!("loop.h:{wait}"))));
    }
    assert!(!expected.is_empty(), "{name} marks no fault");
    expected
}

/// The rules that the fault of a program may break too.
fn possible(name: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(source(name)).expect("the source is there");
    text.lines().filter_map(|line| rule(line, " MAY ")).collect()
}

/// The reason why no program can be watched here.
fn lacks() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root");
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("it needs a kernel with BTF");
    }
    if Command::new("clang").arg("--version").output().is_err() {
        return Some("it needs clang when it is built");
    }
    None
}

/// The requirement of a single program.
fn program_lacks(name: &str) -> Option<&'static str> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    match name {
        "affinity.c" if cpus < 2 => Some("it needs two CPUs"),
        "denormals.c" if !cfg!(target_arch = "x86_64") => Some("it needs an x86-64 processor"),
        // The program may run on any of the CPUs.
        "priority.c" if interrupted_cpus().len() < cpus => Some("it needs an interrupt thread on each CPU"),
        _ => None,
    }
}

/// The CPUs of interrupt threads, which have priority 50 by default.
fn interrupted_cpus() -> BTreeSet<u32> {
    let processes = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let threads = numbers.filter_map(|number| inspect::live_thread(Some(number), number));
    let interrupts = threads.filter(|thread| thread.name.starts_with("irq/") && thread.priority > 40);
    interrupts.flat_map(|thread| thread.cpus.iter().collect::<Vec<_>>()).collect()
}

fn holds(name: &str) {
    if let Some(why) = lacks().or_else(|| program_lacks(name)) {
        println!("skipped: {why}");
        return;
    }
    for is_seeded in [true, false] {
        let program = match built(name, is_seeded) {
            Ok(program) => program,
            Err(why) => {
                println!("skipped: {why}");
                return;
            }
        };
        let document = watched(&program);
        let (expected, possible) =
            if is_seeded { (expected(name), possible(name)) } else { Default::default() };
        let mut found = found(&document);
        found.retain(|finding| expected.contains(finding) || !possible.contains(&finding.0));
        assert_eq!(found, expected, "seeded: {is_seeded}; {document:#?}");
    }
}

/// One test for each program.
macro_rules! corpus {
    ($($test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                holds($name);
            }
        )*

        /// The programs that have a test.
        const PROGRAMS: &[&str] = &[$($name),*];
    };
}

corpus! {
    finds_malloc_and_free: "malloc.c";
    finds_realloc: "realloc.c";
    finds_mmap_and_munmap: "mmap.c";
    finds_freed_messages: "free.c";
    finds_a_vector_that_grows: "vector.cpp";
    finds_a_box_of_rust: "boxed.rs";
    finds_faults_in_a_buffer: "buffer.c";
    finds_faults_in_the_stack: "stack.c";
    finds_a_mutex: "mutex.c";
    finds_a_rwlock: "rwlock.c";
    finds_a_spin_lock: "spin.c";
    finds_a_mutex_of_cpp: "guard.cpp";
    finds_a_mutex_of_rust: "mutex.rs";
    finds_usleep: "usleep.c";
    finds_sleep_for: "sleep_for.cpp";
    finds_sleep_of_rust: "sleep.rs";
    finds_a_timeout_as_period: "poll.c";
    finds_a_sleep_by_the_wall_clock: "realtime.c";
    finds_a_timer_of_the_wall_clock: "timerfd.c";
    finds_a_condition_of_the_wall_clock: "wait_until.cpp";
    finds_reads_of_a_file: "file.c";
    finds_a_look_at_a_file: "open.c";
    finds_waits_for_locks_of_a_file: "file_lock.c";
    finds_reads_of_sysfs_and_procfs: "interface.c";
    finds_a_blocking_socket: "socket.c";
    finds_a_semaphore_within_the_cycle: "semaphore.c";
    finds_writes_to_a_file: "log.rs";
    finds_a_signal_handler: "signal.c";
    finds_printf: "printf.c";
    finds_a_stream: "stream.cpp";
    finds_println: "println.rs";
    finds_syslog: "syslog.c";
    finds_fork: "fork.c";
    finds_a_new_thread: "thread.c";
    finds_a_command_of_rust: "command.rs";
    finds_dlopen: "dlopen.c";
    finds_unlocked_memory: "mlockall.c";
    finds_a_stack_that_is_not_there: "prefault.c";
    finds_denormals: "denormals.c";
    finds_a_wide_affinity: "affinity.c";
    finds_a_low_priority: "priority.c";
}

#[test]
fn each_program_has_a_test() {
    let folder = source("");
    let names = std::fs::read_dir(folder).expect("the folder is there");
    let names = names.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let names: BTreeSet<String> = names.filter(|name| !name.starts_with("loop.")).collect();
    assert_eq!(names, PROGRAMS.iter().map(|name| (*name).to_string()).collect());
}
