// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether `--live` disturbs what it shows: the same measurement by turns without a page, with one that a
//! reader asks four times a second, as the page itself does, and with one that a browser has open besides.
//!
//! Seen of every run with a page: page faults of the measuring thread, as the run's manifest counts them, and
//! where the program's other threads may run and did run. The distributions are compared twice by statistics
//! that the program has: all runs of a kind together, by the intervals of `compare`, and each run against all
//! without a page, by `gate`, which knows the variation from run to run.
//!
//! Reader and browser stay on housekeeping CPUs. The reader is what a run pays for a person who looks from
//! another machine; the browser draws on this one, and its work is no part of Isolator's.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use compare::compare;
use compare::gate::{GateOptions, judge};
use evidence::Bundle;
use inspect::live_thread;
use machine::CpuSet;
use machine::inventory::Thread;

use crate::guests::Proof;

/// How often a page asks for the state of its run.
const ASKS: Duration = Duration::from_millis(250);

/// How often the program's threads are looked at.
const LOOKS: Duration = Duration::from_millis(500);

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The viewer of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Viewer {
    /// Nothing: the run serves no page.
    Absent,
    /// A reader of the page's state.
    Reader,
    /// A reader, and a browser with the page open.
    Browser,
}

impl Viewer {
    fn name(self) -> &'static str {
        match self {
            Viewer::Absent => "no page",
            Viewer::Reader => "a reader",
            Viewer::Browser => "a browser",
        }
    }
}

/// The measurement.
pub struct LivePlan {
    /// Runs of each kind.
    pub rounds: usize,
    /// The kinds of runs.
    pub viewers: Vec<Viewer>,
    /// Length of a run.
    pub duration: Duration,
    /// More options of `isolator prove`.
    pub options: Vec<String>,
}

impl LivePlan {
    /// The measurement of `make proof-live`.
    pub fn full() -> LivePlan {
        let mut viewers = vec![Viewer::Absent, Viewer::Reader];
        viewers.extend(installed_browser().map(|_| Viewer::Browser));
        LivePlan { rounds: 6, viewers, duration: Duration::from_secs(20), options: Vec::new() }
    }
}

/// A run, and what was seen of it.
pub struct LiveRun {
    /// Its bundle.
    pub bundle: Bundle,
    /// Answers that the reader got.
    pub answers: u64,
    /// Looks at the program's threads.
    pub looks: u64,
    /// Threads besides the measuring one that may run on the measured CPU, or did: their names.
    pub on_measured_cpu: Vec<String>,
}

impl LiveRun {
    /// Page faults of the measuring thread; `None` where they were not counted.
    pub fn page_faults(&self) -> Option<u64> {
        self.bundle.rows.first()?.entry.granted.page_faults
    }
}

/// The runs by what looked at them.
pub type LiveRuns = BTreeMap<Viewer, Vec<LiveRun>>;

/// The tables in Markdown, and what is not as the documentation claims.
pub fn run(isolator: &Path, scratch: &Path) -> Result<Proof, Box<dyn Error>> {
    let plan = LivePlan::full();
    tables(&plan, measure(isolator, scratch, &plan)?)
}

/// Measures by turns.
pub fn measure(isolator: &Path, scratch: &Path, plan: &LivePlan) -> Result<LiveRuns, Box<dyn Error>> {
    let mut runs = LiveRuns::new();
    for round in 0..plan.rounds {
        let mut viewers = plan.viewers.clone();
        // What changes with time must not meet one kind alone.
        viewers.rotate_left(round % plan.viewers.len());
        for viewer in viewers {
            eprintln!("{} of {}: {}", round + 1, plan.rounds, viewer.name());
            let folder = scratch.join(format!("{viewer:?}-{round}"));
            runs.entry(viewer).or_default().push(one(isolator, &folder, plan, viewer)?);
        }
    }
    Ok(runs)
}

fn one(isolator: &Path, folder: &Path, plan: &LivePlan, viewer: Viewer) -> Result<LiveRun, Box<dyn Error>> {
    let mut command = Command::new(isolator);
    command.args(["prove", "--loads", "idle", "--causes", "off", "--duration"]);
    command.arg(format!("{}ms", plan.duration.as_millis())).args(&plan.options).arg("-o").arg(folder);
    if viewer != Viewer::Absent {
        command.arg("--live=127.0.0.1:0");
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let said = child.stderr.take().ok_or("no standard error")?;
    let mut lines = BufReader::new(said).lines().map_while(Result::ok);
    let address = match viewer {
        Viewer::Absent => None,
        _ => Some(lines.find_map(|line| address_of(&line)).ok_or("the run served no page")?),
    };
    // What it says further must not fill the pipe.
    let rest = std::thread::spawn(move || lines.for_each(drop));
    let (mut looks, mut on_measured_cpu) = (0, Vec::new());
    let mut watching = None;
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Some(running) = Running::read(folder) {
            if let (None, Some(address)) = (&watching, &address) {
                watching = Some(Viewers::start(address, folder, &running.others, viewer)?);
            }
            looks += 1;
            for name in running.others_on(child.id()) {
                if !on_measured_cpu.contains(&name) {
                    on_measured_cpu.push(name);
                }
            }
        }
        std::thread::sleep(LOOKS);
    };
    rest.join().map_err(|_| "a reader failed")?;
    let answers = watching.map_or(0, Viewers::end);
    if !matches!(ended.code(), Some(0 | 2)) {
        return Err(format!("isolator prove ended with {ended}; see {}", folder.display()).into());
    }
    Ok(LiveRun { bundle: Bundle::open(folder)?, answers, looks, on_measured_cpu })
}

/// `127.0.0.1:40123/5f0c` of `live page: http://127.0.0.1:40123/5f0c/`.
fn address_of(line: &str) -> Option<String> {
    Some(line.strip_prefix("live page: http://")?.trim_end_matches('/').to_string())
}

/// A run that measures, by its manifest.
struct Running {
    measured: CpuSet,
    others: CpuSet,
    /// Names of the threads that measure: a look may come before they are real-time threads.
    measuring: Vec<String>,
}

impl Running {
    /// The run in `folder`, once it measures.
    fn read(folder: &Path) -> Option<Running> {
        let series = fs::read_dir(folder.join("series")).ok()?.flatten();
        series.map(|file| file.file_name()).find(|name| name.to_string_lossy().ends_with(".journal"))?;
        let manifest = fs::read(folder.join("manifest.json")).ok()?;
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
        let of = |name: &str| manifest["asked"][name].as_str()?.parse::<CpuSet>().ok();
        let rows = manifest["rows"].as_array()?.iter();
        let name =
            |row: &serde_json::Value| Some(format!("{}-{}", row["probe"].as_str()?, row["cpu"].as_u64()?));
        let measuring = rows.filter_map(name).collect();
        Some(Running { measured: of("cpus")?, others: of("house_keeping")?, measuring })
    }

    /// Threads of a process that may run on the measured CPUs, or ran there last, besides those that measure.
    fn others_on(&self, process: u32) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let numbers = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        let threads = numbers.filter_map(|number| live_thread(Some(process), number));
        // A thread without a CPU has ended meanwhile.
        let is_there = |thread: &Thread| {
            !thread.cpus.is_empty()
                && (thread.last_cpu.is_some_and(|cpu| self.measured.contains(cpu))
                    || thread.cpus.iter().any(|cpu| self.measured.contains(cpu)))
        };
        let there = threads.filter(|thread| is_there(thread) && !self.measuring.contains(&thread.name));
        there.map(|thread| thread.name).collect()
    }
}

/// A reader of the page, and a browser that shows it where one was asked for.
struct Viewers {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    reader: std::thread::JoinHandle<()>,
    browser: Option<(Child, PathBuf)>,
}

impl Viewers {
    fn start(address: &str, folder: &Path, on: &CpuSet, viewer: Viewer) -> Result<Viewers, Box<dyn Error>> {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts, at, cpus) =
            (Arc::clone(&stop), Arc::clone(&answers), address.to_string(), on.iter().collect::<Vec<_>>());
        let reader = std::thread::spawn(move || {
            let _ = rt::thread::set_affinity(&cpus);
            while !ends.load(Ordering::Relaxed) {
                if ask(&at).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 ")) {
                    counts.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(ASKS);
            }
        });
        let profile = folder.with_extension("profile");
        let browser = match viewer {
            Viewer::Browser => Some((browser(address, &profile, on)?, profile)),
            _ => None,
        };
        Ok(Viewers { stop, answers, reader, browser })
    }

    /// The number of answers.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.reader.join();
        if let Some((child, profile)) = &mut self.browser {
            let _ = child.kill();
            let _ = child.wait();
            let _ = fs::remove_dir_all(profile);
        }
        self.answers.load(Ordering::Relaxed)
    }
}

fn installed_browser() -> Option<&'static str> {
    let works =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|ran| ran.status.success());
    BROWSERS.into_iter().find(works)
}

fn browser(address: &str, profile: &Path, on: &CpuSet) -> Result<Child, Box<dyn Error>> {
    let name = installed_browser().ok_or("no browser is installed")?;
    let mut command = Command::new("taskset");
    command.args([
        "-c",
        &on.to_string(),
        name,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
    ]);
    // It stays open for a debugger that never comes.
    command.args(["--remote-debugging-port=0", &format!("--user-data-dir={}", profile.display())]);
    command.arg(format!("http://{address}/")).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.spawn()?)
}

fn ask(address: &str) -> std::io::Result<String> {
    let (host, number) = address.split_once('/').unwrap_or((address, ""));
    let (mut peer, mut answer) = (TcpStream::connect(host)?, String::new());
    peer.set_read_timeout(Some(Duration::from_secs(5)))?;
    peer.write_all(format!("GET /{number}/state.json HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    peer.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The tables, and what is wrong.
fn tables(plan: &LivePlan, mut runs: LiveRuns) -> Result<Proof, Box<dyn Error>> {
    let without = runs.remove(&Viewer::Absent).ok_or("nothing was measured without a page")?;
    let machine = &without[0].bundle.manifest.machine;
    let mut out = format!(
        "{} runs of each kind by turns, {} s each, on {} CPUs with kernel {}.\n\n",
        plan.rounds,
        plan.duration.as_secs(),
        machine.cpus.iter().filter(|cpu| cpu.online).count(),
        machine.kernel.release.as_deref().unwrap_or("unknown"),
    );
    let mut wrong = Vec::new();
    out.push_str("| runs with | page faults of the measuring thread, each run | other threads of the program on the measured CPU | ");
    out.push_str(
        "the reader's answers | later by `gate` than without a page | earlier |\n|---|---|---|--:|--:|--:|\n",
    );
    for (viewer, with) in &runs {
        out.push_str(&row(viewer.name(), &without, with, &mut wrong)?);
    }
    for (viewer, with) in &runs {
        let _ = write!(
            out,
            "\n| figure | no page | {} | change | 95 % interval |\n|---|--:|--:|--:|---|\n",
            viewer.name()
        );
        for row in &compare(&joined(&without)?, &joined(with)?, true).rows {
            let name = serde_json::to_value(row.figure)?;
            let name = name.as_str().unwrap_or_default().trim_end_matches("_ns").replace('_', ".");
            let us = |ns: Option<f64>| ns.map_or("-".into(), |ns| format!("{:.2} us", ns / 1e3));
            let percent = row.change_percent.map_or("-".into(), |percent| format!("{percent:+.1} %"));
            let interval = match row.interval_percent {
                Some([low, high]) => format!("{low:+.1} % to {high:+.1} %"),
                None => "-".to_string(),
            };
            let _ =
                writeln!(out, "| {name} | {} | {} | {percent} | {interval} |", us(row.before), us(row.after));
        }
    }
    Ok((out, wrong))
}

/// A row of the first table; what is wrong in these runs goes to `wrong`.
fn row(
    viewer: &str,
    without: &[LiveRun],
    with: &[LiveRun],
    wrong: &mut Vec<String>,
) -> Result<String, Box<dyn Error>> {
    let faults = with.iter().map(LiveRun::page_faults).collect::<Vec<_>>();
    if faults.iter().any(|faults| *faults != Some(0)) {
        wrong.push(format!("{viewer}: page faults of the measuring thread: {faults:?}"));
    }
    let faults = faults.iter().map(|faults| faults.map_or("unknown".into(), |n| n.to_string()));
    let faults = faults.collect::<Vec<_>>().join(", ");
    let there = with.iter().flat_map(|run| run.on_measured_cpu.clone()).collect::<BTreeSet<_>>();
    let there = there.into_iter().collect::<Vec<_>>().join(", ");
    if !there.is_empty() {
        wrong.push(format!("{viewer}: threads on the measured CPU: {there}"));
    }
    if with.iter().any(|run| run.answers == 0 || run.looks == 0) {
        wrong.push(format!("{viewer}: a page that was not asked, or threads that were not looked at"));
    }
    let sum = |of: &dyn Fn(&LiveRun) -> u64| with.iter().map(of).sum::<u64>();
    let (later, earlier) = (worse(without, with)?, worse(with, without)?);
    if !later.is_empty() {
        wrong.push(format!("{viewer}: runs were later: {}", later.join("; ")));
    }
    Ok(format!(
        "| {viewer} | {faults} | {} in {} looks | {} | {} of {} | {} of {} |\n",
        if there.is_empty() { "none" } else { &there },
        sum(&|run| run.looks),
        sum(&|run| run.answers),
        later.len(),
        with.len(),
        earlier.len(),
        without.len(),
    ))
}

/// All runs as one.
fn joined(runs: &[LiveRun]) -> Result<Bundle, Box<dyn Error>> {
    let (first, others) = runs.split_first().ok_or("nothing was measured")?;
    let mut all = first.bundle.clone();
    let row = all.rows.first_mut().ok_or("a run without a row")?;
    for run in others {
        let series = &run.bundle.rows.first().ok_or("a run without a row")?.series;
        row.series.latency.merge(&series.latency);
        let from = row.series.seconds.len() as u32;
        row.series.seconds.extend(series.seconds.iter().map(|second| {
            let mut second = *second;
            second.second += from;
            second
        }));
    }
    Ok(all)
}

/// The figures of `runs` that are worse than in each of `others`.
fn worse(others: &[LiveRun], runs: &[LiveRun]) -> Result<Vec<String>, Box<dyn Error>> {
    let baselines = others.iter().map(|run| run.bundle.clone()).collect::<Vec<_>>();
    let mut found = Vec::new();
    for run in runs {
        let gated = judge(&baselines, &run.bundle, &GateOptions::default())?;
        found.extend(gated.figures.iter().find(|one| one.worse).map(ToString::to_string));
    }
    Ok(found)
}
