// SPDX-License-Identifier: MIT OR Apache-2.0
//! A panic is one line and exit status 1, as any other thing that could not be done.
//!
//! Most are no defects: a thread that cannot be started below a limit on memory or processes. Where there is
//! no memory left the heap ends the program in the same way ([`rt::heap`]).

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::outcome::Outcome;
use crate::output::note;

/// The begin of the standard library's panic where the kernel gives no thread.
const NO_THREAD: &str = "failed to spawn thread";

/// From now on a panic is told in one line; with RUST_BACKTRACE its stack follows.
pub fn in_one_line() {
    let with_stack = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        static IS_TOLD: AtomicBool = AtomicBool::new(false);
        // A second one comes of the first: a thread that waited for the other.
        if !IS_TOLD.swap(true, Ordering::SeqCst) {
            note(&line_of(info));
        }
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            with_stack(info);
        }
    }));
}

/// Carries out the work; a panic in it ends with status 1.
pub fn caught(work: impl FnOnce() -> ExitCode) -> ExitCode {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Outcome::CouldNot.into())
}

fn line_of(info: &PanicHookInfo<'_>) -> String {
    let said = info.payload_as_str().unwrap_or("a panic");
    if said.contains(NO_THREAD) {
        return "isolator: cannot start a thread: memory or the number of processes is limited; raise ulimit -v and -u"
            .to_string();
    }
    let place = info.location().map_or(String::new(), |at| format!(" ({}:{})", at.file(), at.line()));
    format!("isolator: cannot go on: it has a defect: {said}{place}; report this")
}
