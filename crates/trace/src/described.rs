// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread's loop in words: what its cycles are, and what of its work they do not show.

use machine::units::exact_us;

use crate::model::Model;
use crate::wait::Wait;

/// The next step for a loop that waits alone do not describe.
pub(crate) const BY_PLACES: &str =
    "name the begin of its cycle with --begin, or stamp its cycles with libisolator";

/// Why the threads of a program of Go have no loop of its own, and the next step.
pub(crate) const TAKES_TURNS: [&str; 2] = [
    "it is a program of Go, whose runtime runs each goroutine on any of its threads: none of them has a loop of the \
     program",
    "lock the goroutine to a thread (runtime.LockOSThread), and give that a real-time priority or name it with --thread; \
     or stamp its cycles with libisolator",
];

/// The note on a loop that was found in a program of Go all the same.
pub(crate) fn in_turns(name: &str) -> String {
    format!(
        "{name} is a thread of a program of Go: it has all cycles of a goroutine only if that is locked to it \
         (runtime.LockOSThread)"
    )
}

/// The wait that ends a cycle.
pub(crate) fn waits_with(model: &Model) -> String {
    match model.places {
        0 | 1 => model.wait.to_string(),
        places => format!("{}, the longest of {places} in a cycle", model.wait),
    }
}

/// The times of waits without a period.
pub(crate) fn irregular(name: &str, model: &Model) -> String {
    let [least, most] = [model.least_ns, model.most_ns].map(exact_us);
    format!("{name} waits with {} at no regular time: {least} to {most} apart", model.wait)
}

/// Facts about a loop's cycles that its figures do not show.
pub(crate) fn notes(name: &str, model: &Model) -> Vec<String> {
    let mut notes = Vec::new();
    if model.period_ns.is_none() {
        let what = irregular(name, model);
        notes.push(format!("{what}, and each wait counts as a cycle of the given period; {BY_PLACES}"));
    }
    if !model.other_timers.is_empty() {
        let others = model.other_timers.iter().map(|ns| exact_us(*ns)).collect::<Vec<_>>().join(" and ");
        let within =
            if model.shared.as_ref().is_some_and(|shared| shared.within > 0) { "these" } else { "no" };
        notes.push(format!(
            "{name} waits in one place for other timers too, every {others}: their work is in {within} cycles; name \
             the begin of it with --begin"
        ));
    }
    if model.in_ms && matches!(model.wait, Wait::Epoll(_)) {
        notes.push(format!(
            "{name} waits with a time-out in whole milliseconds: an executor (asyncio, tokio) rounds its own due \
             times up to them, which no row shows; {BY_PLACES}"
        ));
    }
    notes
}
