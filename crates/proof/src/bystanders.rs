// SPDX-License-Identifier: MIT OR Apache-2.0
//! Innocent threads beside a measurement, which no spike may name: spinning in user mode on the measured CPU
//! and on another, waking each other across the two, moved between them, and starting programs elsewhere.
//!
//! All are ordinary threads under a probe in real time. In user mode they keep no wakeup up, whatever the
//! host or the firmware does to the CPU meanwhile. In the kernel one may: a cause with its function is no
//! blame in vain.

use std::hint::spin_loop;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope};
use std::time::Duration;

use evidence::cause::Cause;
use evidence::manifest::Spike;
use rt::clock::monotonic_ns;
use rt::thread::set_affinity;

/// How their names begin, which no other thread has.
const NAME: &str = "by-";

/// The CPUs that they run on.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// The measured CPU; absent where an ordinary thread on it would be a culprit.
    pub measured: Option<u32>,
    /// Another one.
    pub elsewhere: u32,
}

/// Runs `act` beside them.
pub fn beside<T>(places: Places, act: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        start(scope, places, &over);
        let done = act();
        over.store(true, Ordering::SeqCst);
        done
    })
}

fn start<'scope>(scope: &'scope Scope<'scope, '_>, places: Places, over: &'scope AtomicBool) {
    let run = move |name: &str, cpus: Vec<u32>, each: fn()| {
        let body = move || {
            let mut turn = 0;
            while !over.load(Ordering::SeqCst) {
                // One that may not be there sleeps out its time.
                if set_affinity(&[cpus[turn % cpus.len()]]).is_err() {
                    std::thread::sleep(Duration::from_millis(50));
                }
                let until_ns = monotonic_ns() + 20_000_000;
                while monotonic_ns() < until_ns && !over.load(Ordering::SeqCst) {
                    each();
                }
                turn += 1;
            }
        };
        Builder::new()
            .name(format!("{NAME}{name}"))
            .spawn_scoped(scope, body)
            .ok()
            .map(|it| it.thread().clone())
    };
    let elsewhere = places.elsewhere;
    run("spin-there", vec![elsewhere], spin_loop);
    run("sleep-there", vec![elsewhere], || std::thread::sleep(Duration::from_micros(200)));
    if let Some(measured) = places.measured {
        run("spin-here", vec![measured], spin_loop);
        run("moved", vec![elsewhere, measured], spin_loop);
        let woken = run("woken-here", vec![measured], || std::thread::park_timeout(Duration::from_millis(5)));
        let wakes = move || {
            let _ = set_affinity(&[elsewhere]);
            while !over.load(Ordering::SeqCst) {
                woken.iter().for_each(std::thread::Thread::unpark);
                std::thread::sleep(Duration::from_micros(700));
            }
        };
        let _ = Builder::new().name(format!("{NAME}wakes")).spawn_scoped(scope, wakes);
    }
    // Programs of their own, so that what they map and unmap interrupts no thread of this one.
    let compiles = move || {
        let _ = set_affinity(&[elsewhere]);
        while !over.load(Ordering::SeqCst) {
            let ran = Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).status();
            std::thread::sleep(Duration::from_millis(if ran.is_ok() { 5 } else { 50 }));
        }
    };
    let _ = Builder::new().name(format!("{NAME}compiles")).spawn_scoped(scope, compiles);
}

/// Whether a spike names one of them: as what had the CPU, its owner, or the sender of an IPI.
pub fn are_named(spike: &Spike) -> bool {
    let is_one = |name: &str| name.starts_with(NAME);
    let names = |cause: &Cause| {
        let has_cpu = is_one(&cause.name) || cause.owner.as_ref().is_some_and(|owner| is_one(&owner.name));
        // What wakes the one on the measured CPU sends it an IPI, and is its sender.
        has_cpu && cause.function.is_none()
    };
    let detail = spike.unexplained_detail.as_deref().unwrap_or_default();
    spike.causes.iter().any(names) || detail.contains(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::cause::CauseKind;
    use evidence::manifest::RowKey;

    #[test]
    fn a_name_without_its_place_in_the_kernel_is_blame_in_vain() {
        let spike = |cause: Cause| Spike {
            causes: vec![cause],
            ..Spike::new(RowKey::new("wakeup", "idle", 1, None), 10)
        };
        let thread = |name: &str| Cause::timed(CauseKind::Thread, name, 0, 10);
        let in_kernel = Cause { function: Some("exit_mmap".into()), ..thread("by-compiles") };
        let named =
            [thread("by-spin-here"), thread("injector"), in_kernel].map(|cause| are_named(&spike(cause)));
        assert_eq!(named, [true, false, false]);
    }
}
