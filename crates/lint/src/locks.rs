// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks without priority inheritance that both a watched thread and an ordinary one take.
//!
//! A mutex of the C library has its protocol in its type. Of other locks, such as Rust's, only the futex is
//! seen: a thread waited until its word was no longer 2, and another one woke it. Such a lock is seen only
//! under contention.

use std::collections::BTreeMap;

use inspect::live_thread;

use crate::event::{LintEvent, LintEventKind};
use crate::functions;

/// `PTHREAD_MUTEX_PRIO_INHERIT_NP` and `PTHREAD_MUTEX_PRIO_PROTECT_NP` of a mutex's kind (glibc, pthreadP.h).
const INHERITS: u32 = 32 | 64;

/// The offset of the type in a mutex, in words of 4 bytes (glibc, struct __pthread_mutex_s, 64 bits).
const KIND: usize = 4;

/// A lock that a watched thread shares with an ordinary one.
#[derive(Debug)]
pub struct SharedLock<'a> {
    /// The places where watched threads take it.
    pub taken: Vec<&'a LintEvent>,
    /// The places where an ordinary one takes it.
    pub by: &'a LintEvent,
    /// That thread's name.
    pub name: String,
    /// Its kind, for the finding.
    pub kind: &'static str,
}

/// The locks among the events.
pub fn shared<'a>(
    process: u32,
    events: impl Iterator<Item = &'a LintEvent>,
    is_watched: impl Fn(u32) -> bool,
) -> Vec<SharedLock<'a>> {
    let mut locks: BTreeMap<u64, Vec<&LintEvent>> = BTreeMap::new();
    for event in events.filter(|event| matches!(event.kind, LintEventKind::Locked { .. })) {
        locks.entry(event.place.first).or_default().push(event);
    }
    let of_lock = |takers: Vec<&'a LintEvent>| {
        let kind = kind(&takers)?;
        let (taken, others): (Vec<_>, Vec<_>) =
            takers.into_iter().partition(|event| is_watched(event.thread));
        // Skip a thread that has ended since.
        let ordinary = others.into_iter().find_map(|event| {
            let thread = live_thread(Some(process), event.thread)?;
            (!thread.is_real_time()).then_some((event, thread.name))
        });
        let (by, name) = ordinary.filter(|_| !taken.is_empty())?;
        let has_function = taken.iter().any(|event| function(event).is_some());
        let taken = taken.into_iter().filter(|event| function(event).is_some() == has_function).collect();
        Some(SharedLock { taken, by, name, kind })
    };
    locks.into_values().filter_map(of_lock).collect()
}

fn function(event: &LintEvent) -> Option<u16> {
    match event.kind {
        LintEventKind::Locked { function } => function,
        _ => None,
    }
}

/// The kind of a lock without inheritance; `None` if its owner inherits.
fn kind(takers: &[&LintEvent]) -> Option<&'static str> {
    let Some((event, number)) = takers.iter().find_map(|event| Some((event, function(event)?))) else {
        return Some("lock");
    };
    if !functions::takes_mutex(number) {
        return Some("lock");
    }
    (event.words[KIND] & INHERITS == 0).then_some("mutex")
}
