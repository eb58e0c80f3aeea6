// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program, run and watched.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use cause::bpf::{KernelTypes, use_types};
use cause::names::Names;
use rustix::time::{ClockId, clock_gettime};
use trace::bpf::ThreadWatch;
use trace::choice::SourceChoice;
use trace::code::ProgramCode;
use trace::cycle::CycleCutter;
use trace::model::{FEWEST, infer};
use trace::record::{Stay, ThreadEvent, ThreadRecord};
use trace::source::RecordSource;
use trace::trial;

use super::group::Group;
use super::{Seen, Truth, Watched, build, stamps};

/// The language of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `loops.c`
    C,
    /// `sleeps.cpp`
    Cpp,
    /// `sleeps.rs`
    Rust,
    /// `sleeps.py`
    Python,
}

/// A program and its arguments.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its language.
    pub language: Language,
    /// Its kind of wait.
    pub style: &'static str,
    /// The event in every 16th cycle.
    pub plant: Option<&'static str>,
    /// Its period.
    pub period_us: u64,
    /// The number of cycles.
    pub cycles: u64,
}

/// One program after the other: they would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Held while a program runs.
pub fn one_at_a_time() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reason why no program can be watched here.
pub fn cannot_watch() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root".into());
    }
    // The kernel's types, to be used as those of a kernel without.
    static GIVEN: Once = Once::new();
    GIVEN.call_once(|| {
        let given = std::env::var_os("BTF").map(|file| use_types(file.into()));
        given.into_iter().for_each(|used| used.expect("the types are those of this kernel"));
    });
    KernelTypes::of_this_kernel().err().map(str::to_string)
}

/// The BPF part, or why it cannot be loaded here.
pub fn load(names: &Names) -> Result<ThreadWatch, String> {
    if let Some(why) = cannot_watch() {
        return Err(why);
    }
    match ThreadWatch::load(names) {
        Err(error) if error.to_string().contains("built without clang") => Err(error.to_string()),
        loaded => Ok(loaded.expect("the BPF part loads")),
    }
}

/// The source that `SOURCE` names, or else the BPF part; or why there is none here.
fn source(names: &Names) -> Result<RecordSource, String> {
    let choice = std::env::var("SOURCE").map_or(Ok(SourceChoice::Bpf), |name| name.parse())?;
    if choice == SourceChoice::Bpf {
        return load(names).map(|bpf| RecordSource::Bpf(Box::new(bpf)));
    }
    trial::start(choice, names, &[]).map_err(|error| error.to_string())
}

/// Runs a program under a source of records: its threads in the order of their stamps, or why that cannot be
/// done here.
pub fn watch(case: &Case) -> Result<Vec<Watched>, String> {
    let turn = one_at_a_time();
    let names = Names::read(Path::new("/"));
    let mut source = source(&names)?;
    // Where no program may be attached to functions of the kernel.
    let unseen = source.could_not_see().iter().find(|what| what.contains("priority is no lower"));
    if let (Some("pi-spin-higher"), Some(what)) = (case.plant, unseen) {
        return Err(what.clone());
    }
    let group = Group::of(case.plant)?;
    let (mut child, file) = start(case, group.as_ref())?;
    let (attached_ns, records, code) = records(&mut source, &mut child, case.plant == Some("call"));
    source.could_not_see().iter().for_each(|what| println!("not seen: {what}"));
    let text = stamps_of(child, &file);
    assert_eq!(source.lost(), 0, "records were lost");
    let seen = Rc::new(Seen::new(records, names, code, turn));
    let mut by_thread: BTreeMap<u32, Vec<ThreadRecord>> = BTreeMap::new();
    for record in seen.records() {
        by_thread.entry(record.thread).or_default().push(record.clone());
    }
    let threads = stamps::read(&text).into_iter().map(|truth| {
        let records = by_thread.remove(&truth.id).unwrap_or_default();
        let model = infer(&stays(&records), FEWEST, None);
        let cycles = model.clone().map(|model| cycles(CycleCutter::new(model), &records)).unwrap_or_default();
        Watched::new(truth, model, cycles, attached_ns, seen.clone())
    });
    Ok(threads.collect())
}

/// The stamps of a program's threads when it is not followed.
#[allow(dead_code, reason = "an example compares it")]
pub fn alone(case: &Case) -> Result<Vec<Truth>, String> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut child, file) = start(case, None)?;
    // Reads until it has ended.
    let output = child.stdout.take().expect("the output is a pipe");
    BufReader::new(output).lines().for_each(drop);
    Ok(stamps::read(&stamps_of(child, &file)))
}

/// The program, started, and the file that it writes its stamps to.
fn start(case: &Case, group: Option<&Group>) -> Result<(Child, PathBuf), String> {
    let file = std::env::temp_dir().join(format!("isolator-trace-{}", std::process::id()));
    let mut command = build::program(case.language)?;
    command.arg(case.style).args([case.period_us, case.cycles].map(|number| number.to_string()));
    command.arg(&file).args(case.plant.map(|plant| plant.trim_end_matches("-2"))).stdout(Stdio::piped());
    command.envs(group.map(|group| ("GROUP", group.folder())));
    let child = command.spawn().map_err(|error| format!("{command:?} does not start ({error})"))?;
    Ok((child, file))
}

/// Its stamps, once it has ended.
fn stamps_of(mut child: Child, file: &Path) -> String {
    let status = child.wait().expect("the program has ended");
    assert!(status.success(), "the program ended with {status}");
    let text = std::fs::read_to_string(file).expect("the program wrote its stamps");
    std::fs::remove_file(file).expect("the stamps can be removed");
    text
}

/// The kernel's records until the program ends, and their begin.
fn records(
    source: &mut RecordSource,
    child: &mut Child,
    is_sampled: bool,
) -> (u64, Vec<ThreadRecord>, ProgramCode) {
    let mut line = String::new();
    let output = child.stdout.take().expect("the output is a pipe");
    BufReader::new(output).read_line(&mut line).expect("the program reports that it has started");
    let code = ProgramCode::of(child.id());
    match source {
        RecordSource::Bpf(bpf) => bpf.watch_new_threads_of(child.id()).expect("new threads can be watched"),
        // It is told the threads that there are: they should be all.
        RecordSource::Live(_) | RecordSource::Recorded(_) => std::thread::sleep(Duration::from_millis(50)),
    }
    watch_threads_of(child.id(), source);
    source.arm().expect("its events can be recorded");
    let now = clock_gettime(ClockId::Monotonic);
    let mut records = Vec::new();
    while child.try_wait().expect("it is this process' child").is_none() {
        std::thread::sleep(Duration::from_millis(20));
        if !matches!(source, RecordSource::Bpf(_)) {
            watch_threads_of(child.id(), source);
        }
        let new: Vec<ThreadRecord> = std::iter::from_fn(|| source.take_one()).collect();
        let faults = new.iter().filter(|record| matches!(record.kind, ThreadEvent::Fault { .. }));
        faults.for_each(|record| source.time_faults_of(record.thread));
        new.iter().filter(|_| is_sampled).for_each(|record| source.sample(record.thread));
        records.extend(new);
    }
    records.extend(source.take_all());
    // A source may hold some of a thread back.
    records.sort_by_key(|record| record.at_ns);
    (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64, records, code)
}

/// Watches the threads that a program has now.
fn watch_threads_of(process: u32, source: &mut RecordSource) {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let id = thread.file_name().to_string_lossy().parse().expect("threads have numbers");
        source.watch(id).expect("a thread can be watched");
    }
}

/// The stays among records of one thread.
pub fn stays(records: &[ThreadRecord]) -> Vec<Stay> {
    let stay = |record: &ThreadRecord| match &record.kind {
        ThreadEvent::Stay(stay) => Some(Stay::clone(stay)),
        _ => None,
    };
    records.iter().filter_map(stay).collect()
}

fn cycles(mut cycles: CycleCutter, records: &[ThreadRecord]) -> Vec<trace::cycle::LoopCycle> {
    let mut take = |record: &ThreadRecord| match &record.kind {
        ThreadEvent::Stay(stay) => cycles.add(record.cpu, Stay::clone(stay)),
        ThreadEvent::Spun(part) => {
            cycles.spins(Stay::clone(part));
            None
        }
        _ => None,
    };
    records.iter().filter_map(&mut take).collect()
}
