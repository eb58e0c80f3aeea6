// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kind of loop a thread runs, from how it waited for a while: at which of its waits a cycle ends, by
//! what the next one is released, and how often.
//!
//! A cycle ends where the thread waits for its own timer: of several such waits at the one whose due times
//! are the most regular, since a sleep within a cycle is due at a time that the cycle's own length shifts.
//! Without a timer it ends at the wait that something else ends most regularly, and the loop is event-driven.
//!
//! A thread may wait for several things at one place: an event loop for its timer and for descriptors, the
//! driver of an audio graph for its timer and for the last of its clients. Where these waits together have no
//! period, or a timer ends a part of them, those that one thing ends are looked at by themselves.
//!
//! A timer keeps a grid where the distances between its due times spread less than those from the end of a
//! cycle to the next due time. How the program asked does not tell: some sleep until an absolute time that
//! they make from the present, some for a time that they make from a schedule.
//!
//! The period is the mean distance of releases, after those that a skipped period makes longer were divided:
//! a timer with absolute times, or whoever triggers the loop, keeps to it. Else it is the median. The jitter
//! is how far the releases are from the grid (timers with absolute times) or from that distance (all others).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::record::{Stay, Waking};
use crate::wait::Wait;

/// Fewer releases than this say nothing of a loop.
pub const FEWEST: usize = 8;

/// Releases have a period where so many of a hundred are at most so far, as a part of it, from where it puts
/// them. On a loaded machine many are far off, and the period shows all the same.
const REGULAR: (usize, f64) = (75, 0.2);

/// Of the waits at one place so many must be ended by a timer for it to be a sleep.
const MOSTLY: f64 = 0.8;

/// A thread that has time to spare spends it where its cycles end: a place where it waits for less than this
/// part of the longest is within them.
const LEAST_SHARE: f64 = 0.25;

/// A loop, as a thread's waits show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Where a cycle ends.
    pub wait: Wait,
    /// What begins the next one.
    pub release: Release,
    /// The time between releases; `None` where they come irregularly.
    pub period_ns: Option<u64>,
    /// The least time between two releases.
    pub least_ns: u64,
    /// How far 95 of 100 releases are at most from where the period puts them.
    pub jitter_ns: u64,
    /// Where in the period releases lie, on CLOCK_MONOTONIC; only timers with absolute times keep to it.
    pub offset_ns: Option<u64>,
    /// How many releases this was made of.
    pub releases: usize,
    /// Where other things end waits at this place too.
    pub shared: Option<SharedWait>,
}

/// A place at which a thread waits for several things, of which one begins a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedWait {
    /// What begins a cycle.
    pub source: Source,
    /// How often something else ends a wait there within each cycle. More often it is no part of the cycle.
    pub within: usize,
}

/// What ends a wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A timer of the thread; `None` for the time-out of the call itself.
    Timer(Option<u64>),
    /// A thread, by its name.
    Thread(String),
    /// An interrupt that came while its CPU was idle.
    Interrupt,
}

impl Source {
    /// Of the wait that this waking ended.
    pub fn of(waking: &Waking) -> Source {
        match waking.due_ns {
            Some(_) => Source::Timer(waking.timer),
            None if waking.waker == 0 => Source::Interrupt,
            None => Source::Thread(waking.waker_name.clone()),
        }
    }
}

/// What begins a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Release {
    /// The thread's own timer.
    Timer {
        /// Whether due times keep a grid, whenever the cycle before ended.
        is_absolute: bool,
    },
    /// Something else, most often what this thread did; `None` where interrupts did it.
    Event {
        /// The thread's name.
        waker: Option<String>,
    },
}

impl Model {
    /// Whether a cycle ends where a thread waits so.
    pub fn ends_with(&self, wait: Wait) -> bool {
        wait == self.wait || wait.anywhere() == self.wait
    }

    /// Whether a cycle begins where a wait at that place ended so.
    pub fn begins_with(&self, waking: &Waking) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.source == Source::of(waking))
    }

    /// Whether cycles are due on a grid, so that one can be missed.
    pub fn has_grid(&self) -> bool {
        self.period_ns.is_some() && matches!(self.release, Release::Timer { is_absolute: true })
    }
}

/// The waits at one place, or those of them that one thing ended.
#[derive(Debug, Default)]
struct Place {
    /// When each was over: due times where timers ended them, else when the thread was woken.
    releases: Vec<u64>,
    /// From when the thread left to each due time.
    sleeps: Vec<u64>,
    by_timer: usize,
    /// For how long the thread waited there in all.
    waited_ns: u64,
    /// Whether a timer that outlives a call ended one: a timerfd's, a POSIX timer's.
    has_own_timer: bool,
    wakers: BTreeMap<String, usize>,
    by_interrupt: usize,
    /// What ended each, in their order.
    sources: Vec<Source>,
}

impl Place {
    fn add(&mut self, before: &Stay, stay: &Stay) {
        let waking = &stay.waking;
        let Some(woken_ns) = stay.woken_ns.or(waking.due_ns) else { return };
        self.releases.push(waking.due_ns.unwrap_or(woken_ns));
        self.sleeps.extend(waking.due_ns.map(|due_ns| due_ns.saturating_sub(before.out_ns)));
        self.waited_ns += woken_ns.saturating_sub(before.out_ns);
        self.by_timer += usize::from(waking.due_ns.is_some());
        self.has_own_timer |= waking.timer.is_some();
        match waking.waker {
            0 => self.by_interrupt += 1,
            _ => *self.wakers.entry(waking.waker_name.clone()).or_default() += 1,
        }
        self.sources.push(Source::of(waking));
    }

    fn is_timer(&self) -> bool {
        self.by_timer as f64 >= MOSTLY * self.releases.len() as f64
    }

    /// Whether a timer ended some of the waits, but not most.
    fn is_mixed(&self) -> bool {
        !self.is_timer() && self.by_timer as f64 >= (1.0 - MOSTLY) * self.releases.len() as f64
    }

    /// How many waits that something else ended lie at least between two that this ended, most often.
    fn within(&self, source: &Source) -> usize {
        let between = self.sources.split(|one| one == source);
        // Before the first one and after the last one is no cycle.
        let count = self.sources.iter().filter(|one| *one == source).count();
        let mut counts: Vec<usize> =
            between.map(<[Source]>::len).skip(1).take(count.saturating_sub(1)).collect();
        counts.sort_unstable();
        counts.get((counts.len() as f64 * (1.0 - MOSTLY)) as usize).copied().unwrap_or(0)
    }
}

/// The model of a thread's stays, in their order; `None` where no place has waits enough.
pub fn infer(stays: &[Stay]) -> Option<Model> {
    // Some programs make a condition variable anew for each wait.
    at_places(stays, |wait| wait).or_else(|| at_places(stays, Wait::anywhere))
}

fn at_places(stays: &[Stay], place_of: impl Fn(Wait) -> Wait) -> Option<Model> {
    let mut places: BTreeMap<Wait, Place> = BTreeMap::new();
    let mut parts: BTreeMap<(Wait, Source), Place> = BTreeMap::new();
    for pair in stays.windows(2) {
        let Some(wait) = Wait::of(&pair[0]) else { continue };
        // A lock is what a cycle waits for, never what it ends with.
        if matches!(wait, Wait::Lock { .. } | Wait::Kernel) {
            continue;
        }
        let wait = place_of(wait);
        places.entry(wait).or_default().add(&pair[0], &pair[1]);
        parts.entry((wait, Source::of(&pair[1].waking))).or_default().add(&pair[0], &pair[1]);
    }
    let most_ns = places.values().map(|place| place.waited_ns).max().unwrap_or(0);
    places.retain(|_, place| place.waited_ns as f64 >= LEAST_SHARE * most_ns as f64);
    let mut models: Vec<Model> = places.iter().filter_map(|(wait, place)| of_place(*wait, place)).collect();
    let is_whole = |wait: &Wait| {
        let has_period = models.iter().any(|model| model.wait == *wait && model.period_ns.is_some());
        has_period && places.get(wait).is_some_and(|place| !place.is_mixed())
    };
    parts.retain(|(wait, _), _| places.contains_key(wait) && !is_whole(wait));
    models.extend(parts.into_iter().filter_map(|((wait, source), part)| {
        let model = of_place(wait, &part).filter(|model| model.period_ns.is_some())?;
        let within = places.get(&wait)?.within(&source);
        Some(Model { shared: Some(SharedWait { source, within }), ..model })
    }));
    models.into_iter().min_by(|a, b| rank(a).total_cmp(&rank(b)))
}

/// Which of a thread's waits ends its cycles: the lowest.
fn rank(model: &Model) -> f64 {
    let spread = match model.period_ns {
        Some(period_ns) => model.jitter_ns as f64 / period_ns as f64,
        None => 1.0,
    };
    match model.release {
        Release::Timer { is_absolute: true } => spread,
        Release::Timer { is_absolute: false } => 1.0 + spread,
        // Of events the rarest: a cycle may wait for several.
        Release::Event { .. } => 2.0 + spread + model.releases as f64 * 1e-9,
    }
}

fn of_place(wait: Wait, place: &Place) -> Option<Model> {
    let mut releases = place.releases.clone();
    releases.sort_unstable();
    releases.dedup();
    if releases.len() < FEWEST {
        return None;
    }
    let mut gaps: Vec<u64> = releases.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let (least_ns, median_ns) = (gaps[0], gaps[gaps.len() / 2]);
    let is_absolute = wait == Wait::Yield || keeps_grid(wait, place, &gaps, median_ns);
    let release = match place.is_timer() || wait == Wait::Yield {
        true => Release::Timer { is_absolute },
        false => Release::Event { waker: most_frequent(place) },
    };
    let on_grid = matches!(release, Release::Timer { is_absolute: true });
    let keeps_pace = on_grid || matches!(release, Release::Event { .. });
    let period_ns = period(&releases, median_ns, keeps_pace);
    let (distances, offset_ns) = match period_ns {
        Some(ns) if on_grid => grid(&releases, ns),
        Some(ns) => (distances(&gaps, ns), None),
        None => (distances(&gaps, median_ns), None),
    };
    let jitter_ns = of_hundred(&distances, 95);
    let (share, most) = REGULAR;
    let period_ns = period_ns.filter(|ns| of_hundred(&distances, share) as f64 <= most * *ns as f64);
    Some(Model {
        wait,
        release,
        period_ns,
        least_ns,
        jitter_ns,
        offset_ns,
        releases: releases.len(),
        shared: None,
    })
}

fn keeps_grid(wait: Wait, place: &Place, gaps: &[u64], median_ns: u64) -> bool {
    let mut sleeps = place.sleeps.clone();
    sleeps.sort_unstable();
    let Some(&sleep_ns) = sleeps.get(sleeps.len() / 2) else { return false };
    let spread = |all: &[u64], middle: u64| of_hundred(&distances(all, middle), 50);
    match spread(gaps, median_ns).cmp(&spread(&sleeps, sleep_ns)) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => place.has_own_timer || matches!(wait, Wait::Sleep { is_absolute: true, .. }),
    }
}

fn most_frequent(place: &Place) -> Option<String> {
    let (name, count) = place.wakers.iter().max_by_key(|(_, count)| **count)?;
    (*count > place.by_interrupt).then(|| name.clone())
}

/// The mean distance of releases, each gap counted as so many periods as fit it, none where the program
/// catches up; the median distance where nothing holds a release to those before it.
fn period(releases: &[u64], median_ns: u64, keeps_pace: bool) -> Option<u64> {
    if median_ns == 0 {
        return None;
    }
    if !keeps_pace {
        return Some(median_ns);
    }
    let periods: u64 = releases.windows(2).map(|pair| steps(pair[1] - pair[0], median_ns)).sum();
    let (first, last) = (releases.first()?, releases.last()?);
    ((last - first) + periods / 2).checked_div(periods)
}

/// How many periods a gap is.
fn steps(gap_ns: u64, period_ns: u64) -> u64 {
    (gap_ns + period_ns / 2) / period_ns
}

/// How far releases are from a grid through them, in order, and where it lies.
fn grid(releases: &[u64], period_ns: u64) -> (Vec<u64>, Option<u64>) {
    // Distances to the first release's grid, on both sides of zero; their middle is the grid's place.
    let first = releases[0] % period_ns;
    let half = period_ns / 2;
    let place = |ns: &u64| (ns % period_ns + period_ns - first + half) % period_ns;
    let mut places: Vec<u64> = releases.iter().map(place).collect();
    places.sort_unstable();
    let middle = places[places.len() / 2];
    let offset = (first + middle + period_ns - half) % period_ns;
    (distances(&places, middle), Some(offset))
}

/// How far each is from the middle, in order.
fn distances(all: &[u64], middle: u64) -> Vec<u64> {
    let mut distances: Vec<u64> = all.iter().map(|ns| ns.abs_diff(middle)).collect();
    distances.sort_unstable();
    distances
}

/// The value that so many of a hundred do not exceed; they are in order.
fn of_hundred(values: &[u64], share: usize) -> u64 {
    let place = (values.len() * share).div_ceil(100).saturating_sub(1);
    values.get(place).copied().unwrap_or(0)
}
