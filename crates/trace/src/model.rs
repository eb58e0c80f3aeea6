// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of a thread's loop, inferred from its waits: the wait that ends a cycle, the release of the next
//! one, and the period.
//!
//! A cycle ends at the wait for the thread's own timer. Of several such waits it is the one with the most
//! regular due times, since the length of the cycle shifts the due time of a sleep within it. Without a timer
//! it ends at the wait with the most regular end, and the loop is event-driven. Waits by the same call for
//! the same object are told apart by their places in the program where together they have no period: a cycle
//! that sleeps twice ends at the longer sleep.
//!
//! A thread may wait for several objects at one place: an event loop for its timer and for descriptors, the
//! driver of an audio graph for its timer and for the last of its clients. If these waits together have no
//! period, or a timer ends only some of them, the waits are also grouped by what ended them. In executors of
//! asynchronous programs any thread may wait for all timers: the timer then wakes another thread, which wakes
//! this one, wherever this one waits.
//!
//! A timer keeps a grid if the distances between its due times vary less than those from the end of a cycle
//! to the next due time. The kind of call does not decide: some programs sleep until an absolute time
//! computed from now, some sleep for a time computed from a schedule. If the distances are even and no grid
//! fits, each due time is a time after the end of the previous cycle.
//!
//! The period is how fast due times go on, distances with skipped periods being divided, if the releases keep
//! to a grid: by a timer with absolute times, a regular trigger, or time-outs in whole milliseconds, to which
//! an executor rounds a grid of its own. Otherwise it is the median distance.
//!
//! The jitter is the distance of the releases from the grid (timers with absolute times) or from that period
//! (all others). Events that come in bursts have no period: the distances within a burst are even, and yet
//! most of the time is in the pauses.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use machine::purpose::is_same_period;

use crate::record::{Leaving, Stay, Waking};
use crate::wait::Wait;

/// Fewer releases give no model.
pub const FEWEST: usize = 8;

/// Fewer give none even where the user knows the period.
pub const FEWEST_OF_KNOWN: usize = 3;

/// Releases have a period if at least so many of a hundred are at most this part of it from their expected
/// time. On a loaded machine many are far off, and the period is still visible.
const REGULAR: (usize, f64) = (75, 0.2);

/// They have none if less than this share of the time is in even distances, of at most so many periods. The
/// longest distances do not count: a loop may rest now and then.
const STEADY: f64 = 0.5;
const PERIODS: u64 = 3;
const RESTS: usize = 2;

/// Timers whose due times stray by less than this part of their period are alike: the longest wait decides.
const ALIKE: f64 = 0.01;

/// A timer must end so many of the waits at one place for it to be a sleep.
const MOSTLY: f64 = 0.8;

/// A thread with spare time spends it where its cycles end: a place where it waits for less than this part of
/// the longest wait is within them. A thread without spare time may wait the longest within its cycles, for
/// another thread that is late: see [`is_own_timer`].
const LEAST_SHARE: f64 = 0.25;

/// A loop, inferred from a thread's waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The wait that ends a cycle.
    pub wait: Wait,
    /// Its place in the program, if such waits elsewhere are parts of a cycle.
    pub at: Option<u64>,
    /// The number of such places, with that one.
    pub places: usize,
    /// The release of the next one.
    pub release: Release,
    /// The time between releases; `None` if they are irregular.
    pub period_ns: Option<u64>,
    /// The least time between two releases.
    pub least_ns: u64,
    /// The mean of these times.
    pub mean_ns: u64,
    /// The longest.
    pub most_ns: u64,
    /// The largest distance of 95 of 100 releases from the time that the period predicts.
    pub jitter_ns: u64,
    /// The share of the times between releases that are one period: of a grid's, some are several.
    pub single: f64,
    /// The offset of releases in the period, on CLOCK_MONOTONIC; only timers with absolute times keep one.
    pub offset_ns: Option<u64>,
    /// The number of releases that it is based on.
    pub releases: usize,
    /// The other ends of waits at this place.
    pub shared: Option<SharedWait>,
    /// Whether a time-out in whole milliseconds releases it: of the call itself, or of another thread's.
    pub in_ms: bool,
    /// The periods of other such timers for which it waits there.
    pub other_timers: Vec<u64>,
}

/// A place at which a thread waits for several objects, of which one begins a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedWait {
    /// The end that begins a cycle.
    pub source: Source,
    /// The other places where it ended a wait.
    pub elsewhere: Vec<Wait>,
    /// How often something else ends a wait there within each cycle. More often it is no part of the cycle.
    pub within: usize,
}

/// The end of a wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A timer of the thread; `None` for the time-out of the call itself.
    Timer(Option<u64>),
    /// A thread, by its name.
    Thread(String),
    /// An interrupt.
    Interrupt,
}

impl Source {
    /// The end of a wait; `last_due_ns` is the due time of the inherited timer when it last ended one.
    fn of(waking: &Waking, last_due_ns: Option<u64>) -> Source {
        match (waking.due_ns, waking.inherited) {
            (Some(_), _) => Source::Timer(waking.timer),
            (None, Some((due_ns, timer))) if last_due_ns.is_none_or(|last_ns| due_ns > last_ns) => {
                Source::Timer(Some(timer))
            }
            _ => waking.by().map_or(Source::Interrupt, |(_, name)| Source::Thread(name.to_string())),
        }
    }
}

/// The release of a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Release {
    /// The thread's own timer.
    Timer {
        /// Whether due times keep a grid, independent of the end of the previous cycle.
        is_absolute: bool,
    },
    /// Another event, most often from this thread; `None` for interrupts.
    Event {
        /// The thread's name.
        waker: Option<String>,
    },
}

impl Model {
    /// Whether such a wait, at the end of a stay, ends a cycle.
    pub fn ends_at(&self, wait: Wait, leaving: &Leaving) -> bool {
        self.ends_with(wait) && self.at.is_none_or(|at| at == leaving.place)
    }

    /// The same, from any place in the program.
    pub fn ends_with(&self, wait: Wait) -> bool {
        let is_elsewhere = |shared: &SharedWait| shared.elsewhere.contains(&wait);
        wait == self.wait || wait.anywhere() == self.wait || self.shared.as_ref().is_some_and(is_elsewhere)
    }

    /// Whether such an end of a wait at such a place begins a cycle; the previous cycle was due at
    /// `last_due_ns`.
    pub fn begins_with(&self, waking: &Waking, last_due_ns: Option<u64>) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.source == Source::of(waking, last_due_ns))
    }

    /// Whether nearly all of its waits are cycles of one period, which is the one that the user gives, if
    /// any. Two sleeps of a cycle that are a quarter of it apart lie on a grid too.
    pub(crate) fn is_plain(&self, given_ns: Option<u64>) -> bool {
        let is_given = |ns: u64| given_ns.is_none_or(|given_ns| is_same_period(ns, given_ns));
        self.period_ns.is_some_and(is_given) && self.single * 100.0 >= REGULAR.0 as f64
    }

    /// Whether cycles are due on a grid, so that one can be missed.
    pub fn has_grid(&self) -> bool {
        self.period_ns.is_some() && matches!(self.release, Release::Timer { is_absolute: true })
    }
}

/// A wait, and the number of its place in the program where that tells it from others.
type WaitPlace = (Wait, u64);

/// The waits at one place, or those of them with one kind of end.
#[derive(Debug, Default)]
struct Place {
    /// The end of each: the due time of a timer, else the time of the wakeup.
    releases: Vec<u64>,
    /// From the begin of each wait to its due time.
    sleeps: Vec<u64>,
    by_timer: usize,
    /// Those by a timer that woke another thread first.
    inherited: usize,
    /// The total time of the thread's waits there.
    waited_ns: u64,
    /// The timers that outlive a call and ended one: a timerfd's, a POSIX timer's.
    own_timers: BTreeSet<u64>,
    wakers: BTreeMap<String, usize>,
    by_interrupt: usize,
    /// The end of each, in their order.
    sources: Vec<Source>,
    /// Their places, with counts.
    at: BTreeMap<WaitPlace, usize>,
}

impl Place {
    fn add(&mut self, wait: WaitPlace, source: &Source, before: &Stay, stay: &Stay) {
        let waking = &stay.waking;
        let inherited = waking.inherited.filter(|_| matches!(source, Source::Timer(_)));
        let due_ns = waking.due_ns.or(inherited.map(|(due_ns, _)| due_ns));
        let Some(woken_ns) = stay.woken_ns.or(due_ns) else { return };
        self.releases.push(due_ns.unwrap_or(woken_ns));
        self.sleeps.extend(due_ns.map(|due_ns| due_ns.saturating_sub(before.out_ns)));
        self.waited_ns += woken_ns.saturating_sub(before.out_ns);
        self.by_timer += usize::from(due_ns.is_some());
        self.inherited += usize::from(waking.due_ns.is_none() && due_ns.is_some());
        self.own_timers.extend(waking.timer);
        match waking.by() {
            Some((_, name)) => *self.wakers.entry(name.to_string()).or_default() += 1,
            None => self.by_interrupt += usize::from(waking.due_ns.is_none()),
        }
        self.sources.push(source.clone());
        *self.at.entry(wait).or_default() += 1;
    }

    /// The place where most of them were, and the others.
    fn places(&self) -> Option<(WaitPlace, Vec<WaitPlace>)> {
        let (most, _) = self.at.iter().max_by_key(|(_, count)| **count)?;
        Some((*most, self.at.keys().filter(|wait| *wait != most).copied().collect()))
    }

    /// Whether a time-out in whole milliseconds ends the waits: of the call itself, or of another thread's.
    fn in_ms(&self, wait: Wait) -> bool {
        let in_ms = matches!(wait, Wait::Epoll(_) | Wait::Poll) || 2 * self.inherited > self.by_timer;
        in_ms && self.is_timer() && self.own_timers.is_empty()
    }

    fn is_timer(&self) -> bool {
        self.by_timer as f64 >= MOSTLY * self.releases.len() as f64
    }

    /// Whether a timer ended some of the waits, but not most.
    fn is_mixed(&self) -> bool {
        !self.is_timer() && self.by_timer as f64 >= (1.0 - MOSTLY) * self.releases.len() as f64
    }
}

/// The usual least number of other ends between two that `source` caused; `ends` are those at all places
/// where `source` ended a wait, in their order.
fn within(source: &Source, ends: &[&Source]) -> usize {
    // Before the first one and after the last one is no cycle.
    let cycles = ends.iter().filter(|one| **one == source).count().saturating_sub(1);
    let between = ends.split(|one| *one == source).map(<[&Source]>::len);
    let mut counts: Vec<usize> = between.skip(1).take(cycles).collect();
    counts.sort_unstable();
    counts.get((counts.len() as f64 * (1.0 - MOSTLY)) as usize).copied().unwrap_or(0)
}

/// The model of a thread's stays, in their order; `None` if no place has as many waits as `fewest`. Of
/// several possible periods it is `given_ns`, if the user gives it.
pub fn infer(stays: &[Stay], fewest: usize, given_ns: Option<u64>) -> Option<Model> {
    // Some programs make a new condition variable for each wait.
    let found = at_places(stays, fewest, |wait, _| (wait, 0))
        .or_else(|| at_places(stays, fewest, |wait, _| (wait.anywhere(), 0)))?;
    if found.is_plain(given_ns) {
        return Some(found);
    }
    let apart = at_places(stays, fewest, |wait, leaving| (wait, leaving.place));
    Some(apart.filter(|model| model.is_plain(given_ns)).unwrap_or(found))
}

fn at_places(stays: &[Stay], fewest: usize, place_of: impl Fn(Wait, &Leaving) -> WaitPlace) -> Option<Model> {
    let of_place = |wait: WaitPlace, place: &Place| of_place(wait, place, fewest);
    let mut places: BTreeMap<WaitPlace, Place> = BTreeMap::new();
    // Waits with one kind of end; for a timer that outlives a call, at all places.
    let mut parts: BTreeMap<(Option<WaitPlace>, Source), Place> = BTreeMap::new();
    let mut ends: Vec<(WaitPlace, Source)> = Vec::new();
    let mut last_due_ns: BTreeMap<u64, u64> = BTreeMap::new();
    for pair in stays.windows(2) {
        let (Some(wait), waking) = (Wait::of(&pair[0]), &pair[1].waking) else { continue };
        // A cycle waits for a lock, but never ends with it.
        if matches!(wait, Wait::Lock { .. } | Wait::Kernel) {
            continue;
        }
        let wait = place_of(wait, &pair[0].leaving);
        let inherited = waking.inherited.and_then(|(_, timer)| last_due_ns.get(&timer).copied());
        let source = Source::of(waking, inherited);
        last_due_ns.extend(waking.inherited.map(|(due_ns, timer)| (timer, due_ns)));
        last_due_ns.extend(waking.timer.zip(waking.due_ns));
        // As a whole, a place has the timers that woke this thread itself.
        let own = Source::of(&Waking { inherited: None, ..waking.clone() }, None);
        places.entry(wait).or_default().add(wait, &own, &pair[0], &pair[1]);
        let at = if matches!(source, Source::Timer(Some(_))) { None } else { Some(wait) };
        parts.entry((at, source.clone())).or_default().add(wait, &source, &pair[0], &pair[1]);
        ends.push((wait, source));
    }
    let most_ns = places.values().map(|place| place.waited_ns).max().unwrap_or(0);
    let is_within = |(_, place): &(WaitPlace, Place)| (place.waited_ns as f64) < LEAST_SHARE * most_ns as f64;
    let (short, places): (BTreeMap<_, _>, BTreeMap<_, _>) = places.into_iter().partition(is_within);
    let modelled = |(wait, place): (&WaitPlace, &Place)| Some((of_place(*wait, place)?, place.waited_ns));
    let mut models: Vec<(Model, u64)> = places.iter().filter_map(modelled).collect();
    // Whether all waits at a place are one kind of release.
    let is_whole = |wait: &WaitPlace, place: &Place| {
        let is_here = |model: &Model| (model.wait, model.at.unwrap_or(0)) == *wait;
        let is_one = !place.is_mixed() && place.own_timers.len() < 2;
        is_one && models.iter().any(|(model, _)| is_here(model) && model.period_ns.is_some())
    };
    let split: Vec<WaitPlace> =
        places.iter().filter(|(wait, place)| !is_whole(wait, place)).map(|(wait, _)| *wait).collect();
    models.extend(parts.into_iter().filter_map(|((_, source), part)| {
        let (wait, elsewhere) = part.places().filter(|(wait, _)| split.contains(wait))?;
        let model = of_place(wait, &part).filter(|model| model.period_ns.is_some())?;
        let is_there = |(at, _): &&(WaitPlace, Source)| *at == wait || elsewhere.contains(at);
        let ends: Vec<&Source> = ends.iter().filter(is_there).map(|(_, source)| source).collect();
        let within = within(&source, &ends);
        let elsewhere = elsewhere.into_iter().map(|(wait, _)| wait).collect();
        Some((Model { shared: Some(SharedWait { source, elsewhere, within }), ..model }, part.waited_ns))
    }));
    let found = lowest(&models)?;
    let found = Model { other_timers: other_timers(&found, &models), ..found };
    let is_alike = |(wait, place): &(&WaitPlace, &Place)| {
        wait.0 == found.wait && found.at.is_some() && 2 * place.releases.len() >= found.releases
    };
    let alike = places.iter().chain(&short).filter(is_alike).count();
    if !matches!(found.release, Release::Event { .. }) {
        return Some(Model { places: alike, ..found });
    }
    let is_own = |model: &Model| {
        model.has_grid() && is_own_timer(model.wait, model.releases as u64, found.releases as u64)
    };
    let own: Vec<_> = short.iter().filter_map(modelled).filter(|(model, _)| is_own(model)).collect();
    Some(lowest(&own).unwrap_or(Model { places: alike, ..found }))
}

/// The lowest model by its rank; of several alike the one with the longest waits, which stand beside it.
fn lowest(models: &[(Model, u64)]) -> Option<Model> {
    let ranked = models.iter().map(|(model, waited_ns)| (rank(model), Reverse(*waited_ns), model));
    let lowest = ranked.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    lowest.map(|(.., model)| model.clone())
}

/// The periods of the other timers at a loop's place.
fn other_timers(found: &Model, models: &[(Model, u64)]) -> Vec<u64> {
    let timer = |model: &Model| match model.shared.as_ref().map(|shared| &shared.source) {
        Some(Source::Timer(Some(timer))) => Some(*timer),
        _ => None,
    };
    let Some(own) = timer(found) else { return Vec::new() };
    let is_other =
        |model: &&Model| model.wait == found.wait && timer(model).is_some_and(|timer| timer != own);
    models.iter().map(|(model, _)| model).filter(is_other).filter_map(|model| model.period_ns).collect()
}

/// Whether a thread's cycles end at its own timer although it waits longer at another place: it sleeps until
/// a time about as often. If the wait within the cycle makes it late, its sleep is short, or left out, and so
/// the other place looks like the cycle's end.
pub fn is_own_timer(wait: Wait, sleeps: u64, other_waits: u64) -> bool {
    matches!(wait, Wait::Sleep { is_absolute: true, .. }) && 2 * sleeps >= other_waits
}

/// Ranks a thread's waits: the lowest one ends its cycles.
fn rank(model: &Model) -> f64 {
    let spread = match model.period_ns {
        Some(period_ns) => model.jitter_ns as f64 / period_ns as f64,
        None => 1.0,
    };
    match model.release {
        Release::Timer { is_absolute: true } => (spread / ALIKE).floor() * ALIKE,
        Release::Timer { is_absolute: false } => 1.0 + spread,
        // Of events the rarest: a cycle may wait for several.
        Release::Event { .. } => 2.0 + spread + model.releases as f64 * 1e-9,
    }
}

fn of_place((wait, at): WaitPlace, place: &Place, fewest: usize) -> Option<Model> {
    let releases = in_order(&place.releases);
    if releases.len() < fewest {
        return None;
    }
    let gaps = gaps(&releases);
    let is_absolute = wait == Wait::Yield || keeps_grid(wait, place, &gaps, gaps[gaps.len() / 2]);
    let release = match place.is_timer() || wait == Wait::Yield {
        true => Release::Timer { is_absolute },
        false => Release::Event { waker: most_frequent(place) },
    };
    let in_ms = place.in_ms(wait);
    let paced = |release: Release| (pace(&releases, &gaps, &release, in_ms), release);
    let (mut pace, mut release) = paced(release);
    if pace.period_ns.is_none() && wait != Wait::Yield && matches!(release, Release::Timer { .. }) {
        // Distances may be as even as a grid's, and lead away from every grid.
        let after_end = paced(Release::Timer { is_absolute: false });
        if after_end.0.period_ns.is_some() {
            (pace, release) = after_end;
        }
    }
    Some(Model {
        wait,
        at: Some(at).filter(|at| *at != 0),
        places: 1,
        release,
        period_ns: pace.period_ns,
        least_ns: gaps[0],
        mean_ns: gaps.iter().sum::<u64>() / gaps.len() as u64,
        most_ns: gaps[gaps.len() - 1],
        jitter_ns: pace.jitter_ns,
        single: pace.single,
        offset_ns: pace.offset_ns,
        releases: releases.len(),
        shared: None,
        in_ms,
        other_timers: Vec::new(),
    })
}

/// The time between cycles that were due at these times; `None` if they are irregular. `release` begins them.
pub fn repeats(due: &[u64], release: &Release) -> Option<u64> {
    let due = in_order(due);
    if due.len() < FEWEST {
        return None;
    }
    pace(&due, &gaps(&due), release, false).period_ns
}

fn in_order(times: &[u64]) -> Vec<u64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.dedup();
    times
}

/// The distances of times, sorted.
fn gaps(times: &[u64]) -> Vec<u64> {
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    gaps
}

/// How releases follow each other.
struct Pace {
    period_ns: Option<u64>,
    jitter_ns: u64,
    single: f64,
    offset_ns: Option<u64>,
}

/// The pace of releases with these gaps between them; `in_ms` says that they are rounded to milliseconds.
fn pace(releases: &[u64], gaps: &[u64], release: &Release, in_ms: bool) -> Pace {
    let median_ns = gaps[gaps.len() / 2];
    let on_grid = matches!(release, Release::Timer { is_absolute: true });
    let keeps_pace = on_grid || in_ms || matches!(release, Release::Event { .. });
    let period_ns = period(releases, median_ns, keeps_pace);
    let (distances, offset_ns) = match period_ns {
        Some(ns) if on_grid => grid(releases, ns),
        Some(ns) => (distances(gaps, ns), None),
        None => (distances(gaps, median_ns), None),
    };
    let (share, most) = REGULAR;
    let is_regular = |ns: &u64| of_hundred(&distances, share) as f64 <= most * *ns as f64;
    let period_ns = period_ns.filter(|ns| is_regular(ns) && is_steady(gaps, *ns));
    let is_single = |gap: &&u64| period_ns.is_some_and(|ns| gap.abs_diff(ns) as f64 <= most * ns as f64);
    let single = gaps.iter().filter(is_single).count() as f64 / gaps.len() as f64;
    Pace { period_ns, jitter_ns: of_hundred(&distances, 95), single, offset_ns }
}

/// Whether enough of the time is in distances of this period; `gaps` are sorted.
fn is_steady(gaps: &[u64], period_ns: u64) -> bool {
    let counted = &gaps[..gaps.len().saturating_sub(RESTS)];
    let is_even = |gap: &&u64| {
        let periods = steps(**gap, period_ns);
        let most_ns = REGULAR.1 * period_ns as f64;
        (1..=PERIODS).contains(&periods) && gap.abs_diff(periods * period_ns) as f64 <= most_ns
    };
    let even_ns: u64 = counted.iter().filter(is_even).sum();
    even_ns as f64 >= STEADY * counted.iter().sum::<u64>() as f64
}

fn keeps_grid(wait: Wait, place: &Place, gaps: &[u64], median_ns: u64) -> bool {
    let mut sleeps = place.sleeps.clone();
    sleeps.sort_unstable();
    let Some(&sleep_ns) = sleeps.get(sleeps.len() / 2) else { return false };
    let spread = |all: &[u64], middle: u64| of_hundred(&distances(all, middle), 50);
    match spread(gaps, median_ns).cmp(&spread(&sleeps, sleep_ns)) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => {
            !place.own_timers.is_empty() || matches!(wait, Wait::Sleep { is_absolute: true, .. })
        }
    }
}

fn most_frequent(place: &Place) -> Option<String> {
    let (name, count) = place.wakers.iter().max_by_key(|(_, count)| **count)?;
    (*count > place.by_interrupt).then(|| name.clone())
}

/// How fast releases go on, each gap counted as the nearest number of periods, none where the program
/// catches up; the median distance if releases do not depend on earlier ones.
///
/// Of all pairs that are half of the releases apart it is the median (after Theil and Sen): where the first
/// or the last release is late, the others decide.
fn period(releases: &[u64], median_ns: u64, keeps_pace: bool) -> Option<u64> {
    if median_ns == 0 {
        return None;
    }
    if !keeps_pace {
        return Some(median_ns);
    }
    let steps_after = releases.windows(2).scan(0, |sum: &mut u64, pair| {
        *sum += steps(pair[1] - pair[0], median_ns);
        Some(*sum)
    });
    let numbered: Vec<(u64, u64)> =
        [0].into_iter().chain(steps_after).zip(releases.iter().copied()).collect();
    let pairs = numbered.iter().zip(&numbered[numbered.len() / 2..]);
    let mut periods: Vec<u64> = pairs
        .filter_map(|((from, from_ns), (to, to_ns))| {
            let periods = to - from;
            ((to_ns - from_ns) + periods / 2).checked_div(periods)
        })
        .collect();
    periods.sort_unstable();
    periods.get(periods.len() / 2).copied()
}

/// The number of periods in a gap.
fn steps(gap_ns: u64, period_ns: u64) -> u64 {
    (gap_ns + period_ns / 2) / period_ns
}

/// The distances of releases from a grid through them, sorted, and the offset of the grid.
fn grid(releases: &[u64], period_ns: u64) -> (Vec<u64>, Option<u64>) {
    // Distances to the first release's grid, on both sides of zero; their median is the offset.
    let first = releases[0] % period_ns;
    let half = period_ns / 2;
    let place = |ns: &u64| (ns % period_ns + period_ns - first + half) % period_ns;
    let mut places: Vec<u64> = releases.iter().map(place).collect();
    places.sort_unstable();
    let middle = places[places.len() / 2];
    let offset = (first + middle + period_ns - half) % period_ns;
    (distances(&places, middle), Some(offset))
}

/// The distance of each from the median, sorted.
fn distances(all: &[u64], middle: u64) -> Vec<u64> {
    let mut distances: Vec<u64> = all.iter().map(|ns| ns.abs_diff(middle)).collect();
    distances.sort_unstable();
    distances
}

/// The percentile of sorted values.
fn of_hundred(values: &[u64], share: usize) -> u64 {
    let place = (values.len() * share).div_ceil(100).saturating_sub(1);
    values.get(place).copied().unwrap_or(0)
}
