// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the loops of a process: watches its threads until the waits of each are known.
//!
//! A process may change meanwhile. New threads are watched too, and its real-time threads are looked up
//! repeatedly. After execve(2) the search begins again.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inspect::live_thread;
use machine::inventory::Thread;
use rt::clock::monotonic_ns;
use symbols::ProcessCode;

use crate::boundary::{CycleBounds, FoundPlaces};
use crate::choice::LoopChoice;
use crate::cycle::{CycleCutter, LoopCycle};
use crate::described::{self, BY_PLACES};
use crate::model::{FEWEST, FEWEST_OF_KNOWN, Model, Release, infer, repeats};
use crate::places::{COMPARED, WaitPlaces};
use crate::process;
use crate::record::{Boundary, Stay, ThreadEvent};
use crate::recorded::RecordedSource;
use crate::source::{AT_ONCE, RecordSource};
use crate::{Error, Result};

/// How long threads are watched before their loops are inferred, and how often the selected threads are
/// looked up again; and the longest search, for unchanged threads and for a process that changes.
const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(5);
const CHANGES: Duration = Duration::from_secs(10);

/// The periods of a slow loop that are watched, where the user gave the period; and the longest such search.
const PERIODS: u32 = 5;
const LONGEST: Duration = Duration::from_secs(120);

/// The number of releases that suffices for a loop.
const ENOUGH: usize = 64;

/// The least share of cycles between two places that must follow a release, for the release to define the due
/// time.
const MOSTLY: f64 = 0.8;

/// A thread whose timer ends so many waits in each given period has several in a cycle.
const SEVERAL: f64 = 1.5;

/// How often records are taken meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// The most stays of one thread that are kept for its model.
const KEPT: usize = 1 << 14;

/// The most threads of one process that are watched.
const THREADS: usize = 4_096;

/// The most loops of one process that are measured: each has three rows, of about a megabyte each.
const LOOPS: usize = 64;

/// A loop that is followed.
#[derive(Debug)]
pub struct FollowedLoop {
    /// Its thread, as it was when the loop was found.
    pub thread: Thread,
    /// The wait that ends its cycles; or the begin and end that the user named.
    pub waits_with: String,
    /// Whether cycles are due on a grid, so that one can be missed.
    pub has_grid: bool,
    /// For cycles between places of the program: their due time.
    pub due: Option<String>,
    /// The time between two cycles, given or inferred.
    pub period: NonZeroU64,
    /// Whether the user gave it.
    pub is_given: bool,
    /// The period that was inferred, if any, also where another one was given.
    pub seen_period: Option<NonZeroU64>,
    /// Facts that its figures do not show, in sentences.
    pub notes: Vec<String>,
    pub(crate) cycles: CycleCutter,
    /// Whether it has ended: its thread has, or runs another program.
    pub is_over: bool,
}

/// The records of a thread during the search.
#[derive(Debug, Default)]
struct Past {
    stays: Vec<Stay>,
    places: WaitPlaces,
    /// Stays that end before this do not tell their places.
    told_ns: u64,
    last_cpu: Option<u32>,
    /// How often it reached begin and end of cycles.
    begins: usize,
    ends: usize,
}

/// A search under way.
struct Search<'a> {
    /// The process; 0 in a recorded trace, which names none.
    process: u32,
    /// The followed process or trace, for errors.
    subject: String,
    choice: &'a LoopChoice,
    /// The selected threads, by number.
    threads: BTreeMap<u32, Thread>,
    pasts: BTreeMap<u32, Past>,
    /// The time of the last change of these threads.
    since: Instant,
    asked: Instant,
    /// Begin and end of cycles, once they are found in the process.
    bound: Option<[FoundPlaces; 2]>,
    /// Whether the program may have those places later: it was just started.
    may_come: bool,
    /// Its code, where that can be read.
    code: Option<ProcessCode>,
    /// Whether it is a program of Go.
    is_go: bool,
}

/// The loops of a process, and its selected threads that run none.
pub(crate) struct FoundLoops {
    pub loops: Vec<FollowedLoop>,
    /// In a sentence, if there are any.
    pub left_out: Option<String>,
}

/// Watches the process until its loops are known. `None` if `stop` was set before.
pub(crate) fn loops(
    source: &mut RecordSource,
    process: u32,
    choice: &LoopChoice,
    stop: &AtomicBool,
) -> Result<Option<FoundLoops>> {
    let began = Instant::now();
    let code = ProcessCode::open(process).ok();
    let mut search = Search { code, ..Search::new(process, subject(process), choice, began) };
    search.bind(source)?;
    search.ask(source, began)?;
    loop {
        if stop.load(Ordering::SeqCst) {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
        search.take(source);
        search.tell_places_apart(source)?;
        if !process::lives(process) {
            let why = format!(
                "the process ended after {:.1} s, before its loops were known",
                began.elapsed().as_secs_f64()
            );
            return Err(search.cannot(why, "let it run for longer"));
        }
        if search.asked.elapsed() >= LEAST {
            search.bind(source)?;
            search.ask(source, began)?;
        }
        let watched_for = search.since.elapsed();
        let is_known =
            !search.threads.is_empty() && search.threads.keys().all(|thread| search.knows(*thread));
        let most = search.most();
        if watched_for >= LEAST && (is_known || watched_for >= most || began.elapsed() >= most.max(CHANGES)) {
            break;
        }
    }
    if search.takes_turns() {
        let [why, cure] = described::TAKES_TURNS;
        return Err(search.cannot(why.to_string(), cure));
    }
    // Its threads' current state: a program may set them up while it is watched.
    let now = |thread: &Thread| live_thread(Some(thread.process), thread.id);
    search.loops(search.found(now), began.elapsed()).map(Some)
}

/// The loops of the threads of a recorded trace, from its begin on.
pub(crate) fn in_trace(source: &mut RecordedSource, choice: &LoopChoice) -> Result<FoundLoops> {
    let began = Instant::now();
    let mut search = Search::new(0, source.subject(), choice, began);
    source.watch_all();
    let (mut first_ns, mut looked_ns) = (None, 0);
    while let Some(record) = source.read_one() {
        let ThreadEvent::Stay(stay) = record.kind else { continue };
        let past = search.pasts.entry(record.thread).or_default();
        past.last_cpu = Some(record.cpu);
        if past.stays.len() < KEPT {
            past.stays.push(*stay);
        }
        let since_ns = *first_ns.get_or_insert(record.at_ns);
        let step_ns = LEAST.as_nanos() as u64;
        if record.at_ns.saturating_sub(looked_ns.max(since_ns)) < step_ns {
            continue;
        }
        looked_ns = record.at_ns;
        search.threads = source.chosen(choice, &search.last_stays());
        let is_known = !search.threads.is_empty() && search.threads.keys().all(|id| search.knows(*id));
        let is_over = Duration::from_nanos(record.at_ns - since_ns) >= search.most();
        if is_known || (is_over && !search.threads.is_empty()) {
            break;
        }
    }
    search.threads = source.chosen(choice, &search.last_stays());
    if search.threads.is_empty() {
        return Err(source.no_thread(choice));
    }
    let waited = Duration::from_nanos(source.last_ns().saturating_sub(first_ns.unwrap_or(0)));
    search.loops(search.found(|thread| Some(thread.clone())), waited)
}

impl<'a> Search<'a> {
    fn new(process: u32, subject: String, choice: &'a LoopChoice, began: Instant) -> Search<'a> {
        Search {
            process,
            subject,
            choice,
            threads: BTreeMap::new(),
            pasts: BTreeMap::new(),
            since: began,
            asked: began,
            bound: None,
            may_come: choice.is_starting,
            code: None,
            is_go: false,
        }
    }

    /// The loops that were found, if they are some and not too many.
    fn loops(&self, found: Vec<FollowedLoop>, waited: Duration) -> Result<FoundLoops> {
        match found.len() {
            0 => Err(self.none(waited)),
            count if count > LOOPS => {
                let why = format!("{count} of its threads run loops; isolator measures at most {LOOPS}");
                Err(self.cannot(why, "name some with --thread"))
            }
            _ => Ok(FoundLoops { left_out: self.left_out(&found), loops: found }),
        }
    }

    /// The last stay of each thread, with its CPU.
    fn last_stays(&self) -> BTreeMap<u32, (u32, &Stay)> {
        let pasts = self.pasts.iter();
        pasts.filter_map(|(id, past)| Some((*id, (past.last_cpu?, past.stays.last()?)))).collect()
    }

    fn cannot(&self, why: String, cure: &str) -> Error {
        Error::new(format!("follow {}", self.subject), why, cure)
    }

    /// Makes threads report when they reach begin and end of cycles.
    fn bind(&mut self, source: &mut RecordSource) -> Result<()> {
        let (Some(bounds), None) = (&self.choice.bounds, &self.bound) else { return Ok(()) };
        let found = match bounds.find(self.process) {
            // It may not have mapped its libraries yet.
            Err(_) if self.may_come && self.since.elapsed() < MOST => return Ok(()),
            Err(_) if !process::lives(self.process) => return Ok(()),
            found => found?,
        };
        let thread = process::living_thread(self.process).unwrap_or(self.process);
        // The end first: otherwise the first cycle has none.
        source.bound(thread, false, &found[1])?;
        source.bound(thread, true, &found[0])?;
        self.since = Instant::now();
        self.bound = Some(found);
        Ok(())
    }

    /// The threads that are selected now.
    fn meant(&self) -> Result<BTreeMap<u32, Thread>> {
        if self.choice.bounds.is_none() || !self.choice.threads.is_empty() {
            return chosen(self.process, self.choice);
        }
        let came = self.pasts.iter().filter(|(_, past)| past.begins > 0);
        let threads = came.filter_map(|(id, _)| live_thread(Some(self.process), *id));
        Ok(threads.map(|thread| (thread.id, thread)).collect())
    }

    /// Looks up the selected threads.
    fn ask(&mut self, source: &mut RecordSource, began: Instant) -> Result<()> {
        let threads = match self.meant() {
            // It may not have made them yet.
            Err(_) if self.choice.is_starting && began.elapsed() < MOST => BTreeMap::new(),
            threads => threads?,
        };
        for thread in threads.keys().filter(|thread| !self.threads.contains_key(thread)) {
            source.watch_waits_of(*thread, if self.choice.bounds.is_none() { COMPARED } else { 0 })?;
        }
        source.arm()?;
        if !threads.keys().eq(self.threads.keys()) {
            self.since = Instant::now();
        }
        (self.threads, self.asked) = (threads, Instant::now());
        Ok(())
    }

    fn take(&mut self, source: &mut RecordSource) {
        let records = std::iter::from_fn(|| source.take_one()).take(AT_ONCE);
        for record in records.collect::<Vec<_>>() {
            match record.kind {
                ThreadEvent::Stay(stay) => {
                    let past = self.pasts.entry(record.thread).or_default();
                    past.begins += usize::from(matches!(stay.leaving.boundary, Some(Boundary::Begin { .. })));
                    past.ends += usize::from(stay.leaving.boundary == Some(Boundary::End));
                    if past.stays.len() < KEPT && stay.out_ns >= past.told_ns {
                        past.stays.push(*stay);
                        past.last_cpu = Some(record.cpu);
                    }
                }
                ThreadEvent::UserStack(stack) => {
                    self.pasts.entry(record.thread).or_default().places.add(*stack);
                }
                ThreadEvent::Executed { .. } => {
                    self.pasts.clear();
                    self.code.iter_mut().for_each(ProcessCode::forget);
                    self.since = Instant::now();
                    source.unbound();
                    (self.bound, self.may_come) = (None, true);
                }
                _ => {}
            }
        }
    }

    /// Learns from stacks where a caller tells the waits of a thread apart, if they are no plain loop.
    fn tell_places_apart(&mut self, source: &mut RecordSource) -> Result<()> {
        let is_new = |thread: &u32| self.pasts.get(thread).is_some_and(|past| past.places.has_new());
        let is_plain = |model: Model| model.is_plain(self.given_ns());
        let is_unclear =
            |thread: &u32| is_new(thread) && self.model(*thread).is_some_and(|model| !is_plain(model));
        let unclear: Vec<u32> = self.threads.keys().copied().filter(is_unclear).collect();
        for thread in unclear {
            let (Some(past), Some(code)) = (self.pasts.get_mut(&thread), &mut self.code) else { continue };
            if let Some(offset) = past.places.tell_apart(code) {
                source.tell_callers_apart(thread, offset)?;
                (past.told_ns, past.stays) = (monotonic_ns(), Vec::new());
            }
        }
        Ok(())
    }

    fn given_ns(&self) -> Option<u64> {
        self.choice.period.map(NonZeroU64::get)
    }

    /// Whether a runtime runs the program's loops on any of its threads, of which none was chosen: by the
    /// user, or by a real-time priority that others do not have.
    fn takes_turns(&mut self) -> bool {
        self.is_go = self.code.as_mut().is_some_and(ProcessCode::is_go);
        let is_chosen = !self.choice.threads.is_empty() || self.choice.bounds.is_some();
        let all = std::fs::read_dir(format!("/proc/{}/task", self.process)).map_or(0, Iterator::count);
        self.is_go && !is_chosen && self.threads.len() >= all
    }

    /// The longest watch of threads that do not change.
    fn most(&self) -> Duration {
        let periods = self.choice.period.map(|period| PERIODS * Duration::from_nanos(period.get()));
        MOST.max(periods.unwrap_or_default().min(LONGEST))
    }

    fn model(&self, thread: u32) -> Option<Model> {
        let stays = &self.pasts.get(&thread)?.stays;
        let given_ns = self.given_ns();
        let of_known = || infer(stays, FEWEST_OF_KNOWN, given_ns).filter(|_| given_ns.is_some());
        infer(stays, FEWEST, given_ns).or_else(of_known)
    }

    /// The selected threads that are none of the loops found, in a sentence.
    fn left_out(&self, found: &[FollowedLoop]) -> Option<String> {
        let is_loop = |id: &u32| found.iter().any(|found| found.thread.id == *id);
        let without = self.threads.iter().filter(|(id, _)| !is_loop(id) && self.choice.bounds.is_none());
        let named = list(without.map(|(id, thread)| numbered((thread.name.clone(), *id))));
        (!named.is_empty()).then(|| format!("threads without a loop are not measured: {named}"))
    }

    fn knows(&self, thread: u32) -> bool {
        match self.choice.bounds {
            Some(_) => self.pasts.get(&thread).is_some_and(|past| past.ends >= ENOUGH),
            None => self.model(thread).is_some_and(|model| model.releases >= ENOUGH),
        }
    }

    /// The loops of the selected threads, which are `now` as it says.
    fn found(&self, now: impl Fn(&Thread) -> Option<Thread>) -> Vec<FollowedLoop> {
        let is_given = self.choice.period.is_some();
        let of_thread = |thread: &Thread| {
            let (cycles, kind) = match (&self.choice.bounds, &self.bound) {
                (None, _) => self.by_waits(thread)?,
                (Some(bounds), Some(found)) => self.between(thread.id, bounds.shown(found))?,
                (Some(_), None) => return None,
            };
            let thread = now(thread)?;
            let last_cpu = self.pasts.get(&thread.id).and_then(|past| past.last_cpu);
            let thread = Thread { last_cpu: last_cpu.or(thread.last_cpu), ..thread };
            let LoopKind { waits_with, has_grid, due, period, seen_period, mut notes } = kind;
            notes.extend(self.is_go.then(|| described::in_turns(&thread.name)));
            Some(FollowedLoop {
                thread,
                waits_with,
                has_grid,
                due,
                period,
                is_given,
                seen_period,
                notes,
                cycles,
                is_over: false,
            })
        };
        self.threads.values().filter_map(of_thread).collect()
    }

    /// A thread's loop that ends with a wait.
    fn by_waits(&self, thread: &Thread) -> Option<(CycleCutter, LoopKind)> {
        let model = self.model(thread.id).filter(|model| !self.is_several(model))?;
        let seen_period = model.period_ns.and_then(NonZeroU64::new);
        let period = self.choice.period.or(seen_period)?;
        // A timer has to keep the period that the user gives, however it is set.
        let is_given = self.choice.period.is_some() && seen_period.is_some();
        let has_grid = model.has_grid() || (is_given && matches!(model.release, Release::Timer { .. }));
        let (waits_with, notes) = (described::waits_with(&model), described::notes(&thread.name, &model));
        let kind = LoopKind { waits_with, has_grid, due: None, period, seen_period, notes };
        Some((CycleCutter::new(model), kind))
    }

    /// Whether a timer ends several waits in each given period, and nothing tells which of them begins a
    /// cycle.
    fn is_several(&self, model: &Model) -> bool {
        let given = self.choice.period.filter(|_| model.period_ns.is_none());
        let is_more = |period: NonZeroU64| model.mean_ns as f64 * SEVERAL < period.get() as f64;
        matches!(model.release, Release::Timer { .. }) && given.is_some_and(is_more)
    }

    /// A thread's loop between two places of the program. Its thread's release gives the due time, if it is
    /// regular and nearly all cycles follow a release.
    fn between(&self, thread: u32, waits_with: String) -> Option<(CycleCutter, LoopKind)> {
        let past = self.pasts.get(&thread)?;
        let cut = |cutter: &mut CycleCutter| -> Vec<LoopCycle> {
            let stays = past.stays.iter().cloned();
            stays.filter_map(|stay| cutter.add(past.last_cpu.unwrap_or(0), stay)).collect()
        };
        let is_released = |cycle: &LoopCycle| cycle.begin.is_some_and(|begin| !begin.is_release);
        let model = infer(&past.stays, FEWEST, None).filter(|model| model.period_ns.is_some());
        let mut cycles = cut(&mut CycleCutter::between(model.clone(), None));
        let released = cycles.iter().filter(|cycle| is_released(cycle)).count();
        let model = model.filter(|_| released > 0 && released as f64 >= MOSTLY * cycles.len() as f64);
        if model.is_none() {
            cycles = cut(&mut CycleCutter::between(None, None));
        }
        if cycles.is_empty() {
            return None;
        }
        // The release of the first one may be before the records.
        let tells = |cycle: &&LoopCycle| model.is_none() || is_released(cycle);
        let due: Vec<u64> = cycles.iter().filter(tells).map(|cycle| cycle.due_ns).collect();
        let release = model.as_ref().map_or(Release::Event { waker: None }, |model| model.release.clone());
        let given = self.choice.period;
        let seen_period = repeats(&due, &release).and_then(NonZeroU64::new);
        let period = given.or(seen_period)?;
        let model = model.map(|model| Model { period_ns: Some(period.get()), ..model });
        let due = match (&model, given) {
            (Some(model), _) => match model.release {
                Release::Timer { .. } => format!("when the timer of {} is", model.wait),
                Release::Event { .. } => format!("when {} ends", model.wait),
            },
            (None, Some(_)) => {
                "the period after the one before began, or when they begin if that is earlier".into()
            }
            (None, None) => "when they begin".into(),
        };
        let has_grid = model.as_ref().is_some_and(Model::has_grid);
        let cutter = CycleCutter::between(model, given.map(NonZeroU64::get));
        let notes = Vec::new();
        Some((cutter, LoopKind { waits_with, has_grid, due: Some(due), period, seen_period, notes }))
    }

    /// The reason why no loop was found.
    fn none(&self, waited: Duration) -> Error {
        if let (Some(bounds), Some(found)) = (&self.choice.bounds, &self.bound) {
            return self.none_between(bounds, found, waited);
        }
        let irregular = self
            .threads
            .values()
            .find_map(|thread| Some(described::irregular(&thread.name, &self.model(thread.id)?)));
        let cure = match (&irregular, self.choice.period) {
            (Some(_), Some(_)) => BY_PLACES.to_string(),
            (Some(_), None) => format!("give its --period, {BY_PLACES}"),
            (None, _) => "give its --period, or name a --thread".to_string(),
        };
        let why = irregular.unwrap_or_else(|| {
            let count = self.threads.len();
            format!("none of its {count} threads waited for anything {FEWEST} times")
        });
        self.cannot(why, &cure)
    }

    fn none_between(&self, bounds: &CycleBounds, [begin, end]: &[FoundPlaces; 2], waited: Duration) -> Error {
        let pasts = || self.threads.keys().filter_map(|thread| self.pasts.get(thread));
        let (begins, ends) =
            (pasts().map(|past| past.begins).sum::<usize>(), pasts().map(|past| past.ends).sum());
        let waited = format!("in {:.1} s", waited.as_secs_f64());
        let (why, cure) = match (begins, ends) {
            (0, _) => (
                format!("{waited} no thread reached {}", begin.shown),
                "name a function that runs in each cycle and was not inlined, and have the program at work",
            ),
            (_, 0) => (
                format!(
                    "{waited} {} was reached {begins} times, and {} never after it",
                    begin.shown, end.shown
                ),
                "give an --end that the same thread reaches",
            ),
            (_, FEWEST..) => (
                format!("cycles from {} have no regular period", bounds.shown(&[begin.clone(), end.clone()])),
                "give their --period",
            ),
            (_, few) => (
                format!("{waited} {} was reached {few} times, too few for a period", end.shown),
                "give the --period",
            ),
        };
        self.cannot(why, cure)
    }
}

/// The facts about a loop beside its cycles.
struct LoopKind {
    waits_with: String,
    has_grid: bool,
    due: Option<String>,
    period: NonZeroU64,
    seen_period: Option<NonZeroU64>,
    notes: Vec<String>,
}

fn subject(process: u32) -> String {
    format!("the process {process}")
}

fn cannot(process: u32, why: String, cure: &str) -> Error {
    Error::on("follow", subject(process), why, cure)
}

/// The selected threads of `process`, by number.
pub fn chosen(process: u32, choice: &LoopChoice) -> Result<BTreeMap<u32, Thread>> {
    let folder = format!("/proc/{process}/task");
    let entries = std::fs::read_dir(&folder).map_err(|_| {
        cannot(process, "there is no such process".into(), "give the number of one that runs")
    })?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut threads: BTreeMap<u32, Thread> =
        numbers.filter_map(|id| live_thread(Some(process), id)).map(|thread| (thread.id, thread)).collect();
    if !choice.threads.is_empty() {
        let is = |name: &String, thread: &Thread| *name == thread.name || *name == thread.id.to_string();
        let unknown = choice.threads.iter().find(|name| !threads.values().any(|thread| is(name, thread)));
        if let Some(unknown) = unknown {
            let names = list(threads.values().map(|thread| thread.name.clone()));
            return Err(cannot(
                process,
                format!("it has no thread {unknown}"),
                &format!("choose one of {names}"),
            ));
        }
        threads.retain(|_, thread| choice.threads.iter().any(|name| is(name, thread)));
    } else if threads.values().any(Thread::is_real_time) {
        threads.retain(|_, thread| thread.is_real_time());
    }
    if threads.len() > THREADS {
        let why = format!("it has {} threads; isolator watches at most {THREADS}", threads.len());
        return Err(cannot(process, why, "name some with --thread"));
    }
    Ok(threads)
}

/// A thread's name with its number.
pub(crate) fn numbered((name, id): (String, u32)) -> String {
    format!("{name} (thread {id})")
}

/// The first few different names.
fn list(names: impl Iterator<Item = String>) -> String {
    const FEW: usize = 8;
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(FEW);
    names.truncate(FEW);
    let text = names.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}
