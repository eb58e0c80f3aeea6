// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the events with the rules.
//!
//! One call may break several rules: printf() allocates its buffer, takes a lock and writes. The first one in
//! the order of [`Rule`] is reported. Events after the last wait for a cycle belong to the thread's end and
//! do not count.

use std::collections::BTreeMap;

use machine::inventory::Thread;
use trace::model::{Model, Release, is_own_timer};
use trace::wait::Wait;

use crate::call;
use crate::descriptor::Descriptors;
use crate::document::{LintFinding, LintThread};
use crate::event::{EventTimes, LintEvent, LintEventKind};
use crate::functions;
use crate::locks;
use crate::place::{OwnPlace, PlaceFinder};
use crate::rule::{RULES, Rule};
use crate::still::BrokenRule;

/// A thread that was watched.
#[derive(Debug, Clone)]
pub struct WatchedThread {
    /// The thread.
    pub thread: Thread,
    /// Its loop, if one was found.
    pub model: Option<Model>,
}

/// The records of a program.
#[derive(Debug)]
pub struct Seen {
    /// The process.
    pub process: u32,
    /// Its watched threads, by number.
    pub threads: BTreeMap<u32, WatchedThread>,
    /// Their events, with counts.
    pub events: Vec<(LintEvent, EventTimes)>,
    /// The findings about the set-up of each; thread 0 has those about the process.
    pub shown: Vec<(u32, BrokenRule)>,
    /// The memory in which a page fault comes from the probes themselves.
    pub probes: Vec<std::ops::Range<u64>>,
}

/// A rule that was broken.
struct Broken<'a> {
    event: &'a LintEvent,
    times: EventTimes,
    rule: Rule,
    message: String,
}

/// The findings, the worst first.
pub fn findings(seen: &Seen, places: &mut PlaceFinder) -> Vec<LintFinding> {
    let broken = all_broken(seen, places);
    let mut findings = merged(seen, &broken, places);
    for (thread, (rule, message)) in &seen.shown {
        let place = waits_at(seen, *thread).map(|event| places.of(event)).unwrap_or_default();
        findings.push(finding(seen, *thread, *rule, message.clone(), place, 1));
    }
    let order = |finding: &LintFinding| {
        let rule = RULES.iter().position(|text| text.rule == finding.rule);
        (finding.severity, rule, finding.thread.as_ref().map(|thread| thread.tid))
    };
    findings.sort_by_key(order);
    findings
}

/// Corrects the models of threads whose own timer ends their cycles, as [`is_own_timer`] says, by their sleep
/// calls: a sleep that returned at once was not recorded as a wait.
pub fn prefer_own_timer(seen: &mut Seen) {
    for (thread, watched) in &mut seen.threads {
        let Some(model) =
            watched.model.as_mut().filter(|model| matches!(model.release, Release::Event { .. }))
        else {
            continue;
        };
        let (mut until, mut sleeps, mut waits) = (None, 0, 0);
        for (event, times) in seen.events.iter().filter(|(event, _)| event.thread == *thread) {
            match event.kind {
                LintEventKind::Called(call) => {
                    let wait = call::wait(event, Some(call));
                    if let Some(wait @ Wait::Sleep { is_absolute: true, .. }) = wait {
                        until = Some(wait);
                        sleeps += times.count;
                    }
                }
                LintEventKind::Slept(call)
                    if call::wait(event, call).is_some_and(|wait| model.ends_with(wait)) =>
                {
                    waits += times.count;
                }
                _ => {}
            }
        }
        if let Some(wait) = until.filter(|wait| is_own_timer(*wait, sleeps, waits)) {
            model.wait = wait;
            model.release = Release::Timer { is_absolute: true };
            // It was the period of the other wait.
            model.period_ns = None;
        }
    }
}

/// The deepest stack of a thread at a sleep; of all threads for the process.
pub fn deepest(seen: &Seen, thread: u32) -> Option<u64> {
    let sleeps = seen.events.iter().filter(|(event, _)| {
        matches!(event.kind, LintEventKind::Slept(_) | LintEventKind::Called(_)) && event.thread == thread
    });
    sleeps.map(|(event, _)| event.registers.sp).min()
}

/// The place where a thread, or any thread for the process, waits for its next cycle.
fn waits_at(seen: &Seen, thread: u32) -> Option<&LintEvent> {
    let is_meant = |event: &LintEvent| thread == 0 || event.thread == thread;
    let sleeps =
        || seen.events.iter().map(|(event, _)| event).filter(|event| is_sleep(event) && is_meant(event));
    sleeps().find(|event| ends_cycle(seen, event)).or_else(|| sleeps().next())
}

fn is_sleep(event: &LintEvent) -> bool {
    matches!(event.kind, LintEventKind::Slept(_))
}

fn ends_cycle(seen: &Seen, event: &LintEvent) -> bool {
    let LintEventKind::Slept(call) = event.kind else { return false };
    let model = seen.threads.get(&event.thread).and_then(|watched| watched.model.as_ref());
    model.is_some_and(|model| call::wait(event, call).is_some_and(|wait| model.ends_with(wait)))
}

/// When each thread last waited for a cycle; without a loop, its last wait.
fn last_waits(seen: &Seen) -> BTreeMap<u32, u64> {
    let mut last = BTreeMap::new();
    for (event, times) in &seen.events {
        let has_loop = seen.threads.get(&event.thread).is_some_and(|watched| watched.model.is_some());
        if is_sleep(event) && (!has_loop || ends_cycle(seen, event)) {
            let at = last.entry(event.thread).or_insert(0);
            *at = times.last_ns.max(*at);
        }
    }
    last
}

fn all_broken<'a>(seen: &'a Seen, places: &mut PlaceFinder) -> Vec<Broken<'a>> {
    let mut descriptors = Descriptors::of(seen.process);
    let last_waits = last_waits(seen);
    let mut broken = Vec::new();
    for (event, times) in &seen.events {
        let Some(watched) = seen.threads.get(&event.thread) else { continue };
        if last_waits.get(&event.thread).is_none_or(|last_ns| event.at_ns > *last_ns) {
            continue;
        }
        let Some((rule, message)) = breaks(event, watched, &mut descriptors, &seen.probes) else { continue };
        broken.push(Broken { event, times: *times, rule, message });
    }
    // After a fork each page is copied when it is written: the fork is the finding.
    if broken.iter().any(|one| one.rule == Rule::Fork) {
        const COPIED: u16 = 3;
        let is_copy = |kind| match kind {
            LintEventKind::Faulted { code } => code & COPIED == COPIED,
            _ => false,
        };
        broken.retain(|one| !is_copy(one.event.kind));
    }
    let events = seen.events.iter().map(|(event, _)| event);
    for lock in locks::shared(seen.process, events, |thread| seen.threads.contains_key(&thread)) {
        let (name, thread, kind) = (&lock.name, lock.by.thread, lock.kind);
        let address = lock.by.place.first;
        let place = places.of(lock.by).text();
        let message = format!(
            "it takes the {kind} {address:#x}, which {name} (thread {thread}, ordinary) takes at {place}"
        );
        for event in lock.taken {
            let times = seen.events.iter().find(|(known, _)| known == event).map(|(_, times)| *times);
            let times = times.unwrap_or_default();
            let rule = Rule::LockWithoutInheritance;
            broken.push(Broken { event, times, rule, message: message.clone() });
        }
    }
    broken
}

/// The rule that an event itself breaks, with the finding's text.
fn breaks(
    event: &LintEvent,
    watched: &WatchedThread,
    descriptors: &mut Descriptors,
    probes: &[std::ops::Range<u64>],
) -> Option<BrokenRule> {
    match event.kind {
        LintEventKind::Called(number) => call::called(number, event, watched.model.as_ref(), descriptors),
        LintEventKind::Slept(number) => call::slept(event, number, watched.model.as_ref()?),
        LintEventKind::Faulted { code } => {
            let address = event.arguments[0];
            if probes.iter().any(|probe| probe.contains(&address)) {
                return None;
            }
            let access = if code & 2 != 0 { "writing to" } else { "reading" };
            Some((Rule::PageFault, format!("a page fault, {access} {address:#x}")))
        }
        LintEventKind::Signalled { signal } => {
            Some((Rule::SignalHandler, format!("the handler of signal {} ran", signal_name(signal))))
        }
        LintEventKind::Function(number) => {
            let (name, rule) = functions::function(number)?;
            Some((rule, format!("it calls {name}()")))
        }
        LintEventKind::Locked { .. } | LintEventKind::Executed => None,
    }
}

/// Signals by number, from 1 (signal(7), x86 and ARM).
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

fn signal_name(signal: u16) -> String {
    let name = usize::from(signal).checked_sub(1).and_then(|at| SIGNALS.get(at));
    name.map_or(signal.to_string(), |name| format!("SIG{name}"))
}

/// One finding for each thread, rule and line.
fn merged(seen: &Seen, broken: &[Broken<'_>], places: &mut PlaceFinder) -> Vec<LintFinding> {
    let placed: Vec<(&Broken<'_>, OwnPlace)> = broken
        .iter()
        .map(|one| {
            let place = match one.event.kind {
                LintEventKind::Signalled { .. } => places.at(one.event.arguments[0]),
                _ => places.of(one.event),
            };
            (one, place)
        })
        .collect();
    // Grouped by line of the program's own code, or by call without a line: the first rule is reported.
    let mut lines: BTreeMap<(u32, String), Vec<usize>> = BTreeMap::new();
    for (at, (one, place)) in placed.iter().enumerate() {
        let line = match (place.line, place.address) {
            (Some(_), _) => place.text(),
            (None, 0) => format!("unknown {at}"),
            (None, address) => format!("{address:#x}"),
        };
        lines.entry((one.event.thread, line)).or_default().push(at);
    }
    let mut findings: Vec<LintFinding> = Vec::new();
    for members in lines.into_values() {
        let first = members.iter().map(|at| placed[*at].0.rule).min();
        let same: Vec<usize> = members.into_iter().filter(|at| Some(placed[*at].0.rule) == first).collect();
        // A function may call another one that is counted too; several paths may lead to the same call.
        let mut counts: BTreeMap<(u16, u16), u64> = BTreeMap::new();
        for at in &same {
            let one = placed[*at].0;
            *counts.entry((one.event.place.kind, one.event.place.number)).or_default() += one.times.count;
        }
        let count = counts.into_values().max().unwrap_or(1);
        let Some((one, place)) = same.first().map(|at| &placed[*at]) else { continue };
        let new = finding(seen, one.event.thread, one.rule, one.message.clone(), place.clone(), count);
        let known = findings
            .iter_mut()
            .find(|known| known.rule == new.rule && known.thread == new.thread && known.place == new.place);
        match known {
            Some(known) => known.count += new.count,
            None => findings.push(new),
        }
    }
    findings
}

fn finding(
    seen: &Seen,
    thread: u32,
    rule: Rule,
    message: String,
    place: OwnPlace,
    count: u64,
) -> LintFinding {
    let thread = seen.threads.get(&thread).map(|watched| &watched.thread);
    let text = place.text();
    LintFinding {
        rule,
        severity: rule.severity(),
        thread: thread.map(|thread| LintThread { tid: thread.id, name: thread.name.clone() }),
        place: if text.is_empty() { "?".to_string() } else { text },
        count,
        message,
        advice: rule.text().cure.to_string(),
        file: place.file,
        line: place.line,
        function: Some(place.function).filter(|function| !function.is_empty()),
        stack: place.stack,
    }
}
