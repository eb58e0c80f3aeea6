// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a load works all the time. The supervisor polls once a second; a poll tells whether the load stood
//! still since the one before.
//!
//! | a load does no work if | since |
//! |---|---|
//! | one of its processes is stopped (SIGSTOP, a debugger) and did not run | its other processes may go on |
//! | a count of its own engine did not grow | `net`, `timers`, `ipi` and `ethercat` use little CPU time |
//! | one of stress-ng's workers is gone or did not run | others may hide it |
//! | none of its processes ran | a given command may be quiet, but does something each second; not where a GPU works meanwhile |
//! | the housekeeping CPUs idled longer than it ran, where it is to keep them busy | a quota may stop it |
//! | no look for some time | the supervisor was stopped itself |
//!
//! Limit: a load without work for a part of a second each time is not seen, unless it leaves the housekeeping
//! CPUs idle.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use inspect::cgroup::Stops;
use serde::{Deserialize, Serialize};

use crate::process::Process;

/// Polls that lie closer together are one: what works may have done nothing in between.
const CLOSEST: Duration = Duration::from_millis(300);

/// A supervisor that polls later than that was kept from it.
const LATEST: Duration = Duration::from_secs(3);

/// A load stood still if it did so for more than this part of the time.
const ALLOWED: f64 = 0.1;

/// How long a load was looked at from its beginning on, and for how much of that it stood still.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Worked {
    /// Seconds that were looked at.
    pub seconds: f64,
    /// Seconds of those for which it stood still.
    pub still_s: f64,
    /// The reason for most of that.
    pub why: Option<String>,
}

impl Worked {
    /// Whether it stood still for too much of the time since `before`, in which `seconds` went by, in words.
    pub fn stood_still_since(&self, before: &Worked, seconds: f64) -> Option<String> {
        // What was not looked at yet at either end is less than a second and a poll.
        let unseen_s = (seconds - (self.seconds - before.seconds) - 1.0 - CLOSEST.as_secs_f64()).max(0.0);
        let still_s = self.still_s - before.still_s + unseen_s;
        (still_s > ALLOWED * seconds).then(|| {
            let why = self.why.as_deref().unwrap_or("it was not seen to work");
            format!("it stood still for {still_s:.1} of {seconds:.1} s: {why}")
        })
    }
}

/// A process of a load at one poll.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProcessPoll {
    pub process: Process,
    /// For how long its threads have run, in nanoseconds.
    pub ran_ns: u64,
}

/// One program of a load at one poll: its processes and what it counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProgramPoll {
    pub name: String,
    pub pid: u32,
    /// Its figures, where they grow all the time.
    pub counts: Option<BTreeMap<String, u64>>,
    /// Whether it is stress-ng, whose children are its workers.
    pub has_workers: bool,
}

/// A load at one poll.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LoadPoll {
    pub parts: Vec<ProgramPoll>,
    pub family: Vec<ProcessPoll>,
    /// CPU time of the load and of the housekeeping CPUs' idling; absent where it need not keep them busy.
    pub used_and_idle_ticks: Option<(u64, u64)>,
    /// The stops of its control groups by their quotas.
    pub stops: BTreeMap<String, Stops>,
    /// How many CPUs it has.
    pub cpus: usize,
    /// Whether its processes may all wait while it works: for a GPU.
    pub may_wait: bool,
}

/// The observations of a load so far.
#[derive(Debug, Default)]
pub(crate) struct WorkSoFar {
    last: Option<(Instant, LoadPoll)>,
    /// The most workers that each part had.
    most: BTreeMap<u32, usize>,
    /// For how long it stood still for each reason.
    still: BTreeMap<String, Duration>,
    worked: Worked,
}

impl WorkSoFar {
    /// Takes in what is seen at `now`.
    pub fn poll(&mut self, now: Instant, poll: LoadPoll) {
        let Some((then, last)) = &self.last else {
            self.last = Some((now, poll));
            return;
        };
        let length = now.saturating_duration_since(*then);
        if length < CLOSEST {
            return;
        }
        for part in poll.parts.iter().filter(|part| part.has_workers) {
            let most = self.most.entry(part.pid).or_default();
            *most = (*most).max(workers(part, &last.family).count());
        }
        let (still, why) = match stands(last, &poll, &self.most) {
            Some(why) => (length, Some(why)),
            None => kept(length, last, &poll),
        };
        self.worked.seconds += length.as_secs_f64();
        self.worked.still_s += still.as_secs_f64();
        if let Some(why) = why {
            *self.still.entry(why).or_default() += still;
            let longest = self.still.iter().max_by_key(|(_, length)| **length);
            self.worked.why = longest.map(|(why, _)| why.clone());
        }
        self.last = Some((now, poll));
    }

    /// The work seen so far.
    pub fn worked(&self) -> Worked {
        self.worked.clone()
    }
}

/// For how much of the time a load that worked was kept from it, by its quota or for lack of a poll.
fn kept(length: Duration, last: &LoadPoll, poll: &LoadPoll) -> (Duration, Option<String>) {
    let stopped = poll.stops.iter().filter_map(|(group, now)| {
        let then = last.stops.get(group)?;
        Some((now.length_ns.saturating_sub(then.length_ns), group)).filter(|_| now.times > then.times)
    });
    if let Some((ns, group)) = stopped.max() {
        let stopped = Duration::from_nanos(ns / poll.cpus.max(1) as u64).min(length);
        return (stopped, Some(format!("the quota of the control group {group} stopped it")));
    }
    match length.checked_sub(LATEST) {
        Some(unseen) if !unseen.is_zero() => {
            (unseen, Some(format!("its supervisor did not run for {:.1} s", length.as_secs_f64())))
        }
        _ => (Duration::ZERO, None),
    }
}

/// Why the load stood still between two polls, if it did.
fn stands(last: &LoadPoll, poll: &LoadPoll, most: &BTreeMap<u32, usize>) -> Option<String> {
    let ran_before =
        |pid: u32| last.family.iter().find(|seen| seen.process.pid == pid).map(|seen| seen.ran_ns);
    let is_idle = |seen: &&ProcessPoll| ran_before(seen.process.pid) == Some(seen.ran_ns);
    let stopped = poll.family.iter().filter(is_idle).find(|seen| matches!(seen.process.state, 'T' | 't'));
    if let Some(ProcessPoll { process, .. }) = stopped {
        // An own engine's process has the name of the file that it was started by.
        let part = poll.parts.iter().find(|part| part.pid == process.pid && !part.name.is_empty());
        let name = part.map_or(&process.name, |part| &part.name);
        return Some(format!("{name} ({}) was stopped", process.pid));
    }
    for part in &poll.parts {
        let before = last.parts.iter().find(|before| before.pid == part.pid);
        let counts = before.and_then(|before| before.counts.as_ref()).zip(part.counts.as_ref());
        if let Some((before, counts)) = counts
            && let Some((name, _)) = counts.iter().find(|(name, count)| before.get(*name) == Some(count))
        {
            return Some(format!("its count of {} did not grow", name.replace('_', " ")));
        }
        if part.has_workers
            && let Some(why) = of_workers(part, last, poll, most.get(&part.pid).copied().unwrap_or(0))
        {
            return Some(why);
        }
    }
    let ran = |poll: &LoadPoll| {
        let pids = poll.family.iter().map(|seen| (seen.process.pid, seen.ran_ns));
        pids.collect::<BTreeMap<_, _>>()
    };
    // One that is ready to run waits for a CPU.
    let is_ready = poll.family.iter().any(|seen| seen.process.state == 'R');
    if ran(last) == ran(poll) && !is_ready && !poll.may_wait {
        return Some("none of its processes ran".to_string());
    }
    let (used, idle) = poll
        .used_and_idle_ticks
        .zip(last.used_and_idle_ticks)
        .map(|(now, then)| (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1)))?;
    (used < idle).then(|| "the housekeeping CPUs idled longer than it ran".to_string())
}

/// The workers of a part: its children that say what they do.
fn workers<'a>(part: &ProgramPoll, family: &'a [ProcessPoll]) -> impl Iterator<Item = &'a ProcessPoll> {
    let pid = part.pid;
    family.iter().filter(move |seen| {
        let Process { parent, name, state, .. } = &seen.process;
        *parent == pid && name.starts_with("stress-ng-") && *state != 'Z'
    })
}

fn of_workers(part: &ProgramPoll, last: &LoadPoll, poll: &LoadPoll, most: usize) -> Option<String> {
    let left = workers(part, &poll.family).count();
    if left < most {
        return Some(format!("{} of {most} workers were gone", most - left));
    }
    let ran = |poll: &LoadPoll, worker: u32| {
        let below = below(worker, &poll.family).into_iter();
        below.map(|seen| (seen.process.pid, seen.ran_ns)).collect::<BTreeMap<_, _>>()
    };
    let is_waiting = |worker: &ProcessPoll| {
        // For a CPU; or, of those that write, for a disk.
        let writes = worker.process.name.ends_with("-io") || worker.process.name.contains("-hdd");
        below(worker.process.pid, &poll.family)
            .iter()
            .any(|seen| seen.process.state == 'R' || (writes && seen.process.state == 'D'))
    };
    let idle = |worker: &&ProcessPoll| {
        let pid = worker.process.pid;
        ran(last, pid) == ran(poll, pid) && !is_waiting(worker)
    };
    let idle = workers(part, &poll.family).find(idle)?;
    Some(format!("{} ({}) did not run", idle.process.name, idle.process.pid))
}

/// A process and all below it.
fn below(root: u32, family: &[ProcessPoll]) -> Vec<&ProcessPoll> {
    let mut found: Vec<&ProcessPoll> = family.iter().filter(|seen| seen.process.pid == root).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|seen| seen.process.pid) {
        found
            .extend(family.iter().filter(|seen| seen.process.parent == parent && seen.process.pid != parent));
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests;
