// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the program as people do: what it prints, how it ends, what it leaves. Rows are short; no test
//! asserts a time.

pub mod looping;
pub mod pages;
pub mod perfetto;
pub mod stranger;

use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_isolator");

/// A user without any privilege.
pub const UNPRIVILEGED: u32 = 65_534;

/// No wait here is a measurement: it only keeps a broken program from hanging the tests.
const PATIENCE: Duration = Duration::from_mins(5);

/// How a command ended, and what it said.
pub struct Ran {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// One line, its errors first: all that is kept of a test that failed may be the beginning of one line.
impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ran { status, stdout, stderr } = self;
        write!(f, "ended with {status:?}; standard error {stderr:?}; standard output {stdout:?}")
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("everything printed is UTF-8");
        Ran { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ran {
    /// Fails unless it ended with `status`.
    #[track_caller]
    pub fn ended(self, status: i32) -> Ran {
        assert_eq!(self.status, Some(status), "{self:#?}");
        self
    }

    /// Fails unless it ended with a verdict, whichever.
    #[track_caller]
    pub fn judged(self) -> Ran {
        assert!(matches!(self.status, Some(0 | 2)), "{self:#?}");
        self
    }

    /// Fails unless this line is all it said, and it ended with status 1.
    #[track_caller]
    pub fn refused(self, line: &str) {
        assert_eq!(
            (self.stderr.as_str(), self.stdout.as_str()),
            (format!("isolator: {line}\n").as_str(), "")
        );
        assert_eq!(self.status, Some(1));
    }

    /// Fails unless it ended with status 1 and one line on standard error, which is given back.
    #[track_caller]
    pub fn line(self) -> String {
        assert_eq!(self.status, Some(1), "{self:#?}");
        assert!(self.stderr.lines().count() == 1 && self.stderr.starts_with("isolator: "), "{self:#?}");
        self.stderr.trim_end().trim_start_matches("isolator: ").to_string()
    }

    /// The JSON document that is all of standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|why| panic!("{why}: {self:#?}"))
    }
}

/// A folder for one test.
pub fn folder() -> TempDir {
    tempfile::Builder::new().prefix("isolator-test-").tempdir().unwrap()
}

/// Writes files below `root`, with the folders that they need.
pub fn lay_out(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let place = root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }
}

/// The program with `args`, in `folder`.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).current_dir(folder).stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

/// Runs the program with `args` in `folder` to its end.
pub fn isolator(folder: &Path, args: &[&str]) -> Ran {
    command(folder, args).output().unwrap().into()
}

/// Runs the program as a user without privileges, in `folder`, which that user may enter but not write.
pub fn isolator_as_nobody(folder: &Path, args: &[&str]) -> Ran {
    // The build folder may be closed to others. Copied by another process: a child that another test starts
    // meanwhile would inherit our open file, and the kernel runs no program that is open for writing.
    let program = folder.join("isolator");
    if !program.exists() {
        assert!(Command::new("cp").args([PROGRAM.as_ref(), program.as_os_str()]).status().unwrap().success());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).stdin(Stdio::null()).uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    command.output().unwrap().into()
}

/// Runs a script in a mount namespace of its own, where `$ISOLATOR` is the program.
pub fn in_namespace(folder: &Path, script: &str) -> Ran {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).current_dir(folder).env("ISOLATOR", PROGRAM);
    command.stdin(Stdio::null()).output().unwrap().into()
}

/// The options of a row as short as is of use, with a policy that this user may have, into the bundle `name`.
pub fn short<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["prove", "-o", name];
    let policy = if may_be_real_time() { "fifo" } else { "other" };
    for (option, value) in [("--duration", "1s"), ("--warm-up", "100ms"), ("--policy", policy)] {
        if !more.contains(&option) {
            args.extend([option, value]);
        }
    }
    args.extend(more);
    args
}

/// A measured bundle called `name` in `folder`.
#[track_caller]
pub fn bundle(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    isolator(folder, &short(name, more)).judged();
    folder.join(name)
}

/// Whether something is missing here for a test; says so where it shows.
pub fn skipped(missing: bool, what: &str) -> bool {
    if missing {
        let thread = std::thread::current();
        // Not eprintln: the test harness swallows that of tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {}: {what}", thread.name().unwrap_or_default());
    }
    missing
}

/// Skips where there is no CPU to measure beside one for everything else.
pub fn skipped_for_lack_of_cpus() -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    skipped(cpus < 2, "it needs two CPUs")
}

/// Skips where this user is not root.
pub fn skipped_for_lack_of_root() -> bool {
    skipped(!getuid().is_root(), "it needs root")
}

/// Skips where no private mounts can be made.
pub fn skipped_for_lack_of_mounts() -> bool {
    let tried = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    skipped(!tried.is_ok_and(|output| output.status.success()), "it needs to mount, as root")
}

/// Whether this user may have a real-time policy.
pub fn may_be_real_time() -> bool {
    isolator(Path::new("/"), &["run", "--", "true"]).status == Some(0)
}

/// Skips where this user may not have a real-time policy.
pub fn skipped_for_lack_of_permission() -> bool {
    skipped(!may_be_real_time(), "it needs a real-time policy")
}

/// Whether a program is on the search path.
pub fn installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A program of Prometheus: the system's, or what the bootstrap put beside the tools.
pub fn of_prometheus(name: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/prometheus/usr/bin").join(name);
    if installed(name) { Some(name.into()) } else { own.is_file().then_some(own) }
}

/// Makes a program of the name, a shell script; the search path that finds it first.
pub fn tool(folder: &Path, name: &str, script: &str) -> String {
    let tools = folder.join("tools");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(tools.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default())
}

/// Waits until `done`; fails where that never comes.
#[track_caller]
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A run that goes on; killed with the test.
pub struct Going {
    child: Option<Child>,
    pub bundle: PathBuf,
}

impl Going {
    /// Starts a run of 30 s into the bundle `run`.
    pub fn start(folder: &Path, more: &[&str]) -> Going {
        let more = [&["--duration", "30s"], more].concat();
        Going::run(folder, &mut command(folder, &short("run", &more)))
    }

    /// Starts what writes the bundle `run` in `folder`.
    pub fn run(folder: &Path, command: &mut Command) -> Going {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Going { child: Some(command.spawn().unwrap()), bundle: folder.join("run") }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Whole lines in the journals of the series: seconds that are on disk.
    pub fn seconds_written(&self) -> usize {
        let files = fs::read_dir(self.bundle.join("series")).into_iter().flatten().flatten();
        let journals = files.filter(|file| file.path().extension().is_some_and(|end| end == "journal"));
        journals.map(|file| fs::read_to_string(file.path()).unwrap_or_default().matches('\n').count()).sum()
    }

    /// Waits until so many seconds are on disk.
    #[track_caller]
    pub fn wait_for_seconds(&self, seconds: usize) {
        wait_for("a second of the series", || self.seconds_written() >= seconds);
    }

    /// How it ended.
    pub fn end(mut self) -> Ran {
        self.child.take().unwrap().wait_with_output().unwrap().into()
    }

    /// The processes below it.
    pub fn descendants(&self) -> Vec<u32> {
        let mut found = vec![self.pid()];
        let mut next = 0;
        while let Some(pid) = found.get(next) {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let children =
                tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
            let children = children.collect::<String>();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            next += 1;
        }
        found.split_off(1)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether a process is still there, and no zombie.
pub fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The reference pages of the repository.
pub fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

/// A folder with all that `isolator generate` writes, made once.
pub fn generated() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
        fs::create_dir_all(&folder).unwrap();
        let ran = isolator(&folder, &["generate", "."]).ended(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
        folder
    })
}

/// A file of JSON.
pub fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Fails unless the schema that packages have takes `document`.
#[track_caller]
pub fn conforms(document: &Value, schema: &str) {
    let schema = generated().join(format!("schema/{schema}.schema.json"));
    let validator = jsonschema::validator_for(&read(&schema)).unwrap();
    let wrong =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{wrong:#?} in {document:#}");
    // A schema that takes anything would let everything pass.
    assert!(!validator.is_valid(&Value::Object(Default::default())), "{}", schema.display());
}
