// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session for a program that knows nothing of it: `isolator run --isolate` loads the library with the program (LD_PRELOAD) and names in
//! a variable what to defer; before main the library starts the session, which ends with the main thread.
//!
//! Without the variable nothing happens. A session that is refused ends the program with status 1 and the reason: whoever asked
//! for it must not go on without. This alone of the library prints, since nobody could ask it for its last error.

use rt::isolation::{self, Mask};
use rt::setup;

/// What to defer: names of [`Mask::named`].
const VARIABLE: &str = "ISOLATOR_SESSION";

/// Called by the dynamic linker, in the main thread.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = start;

extern "C" fn start() {
    let Ok(names) = std::env::var(VARIABLE) else { return };
    // Children are programs of their own, and one CPU has one owner.
    // SAFETY: before main, in the only thread, so that nobody reads the environment meanwhile.
    unsafe {
        std::env::remove_var(VARIABLE);
        match std::env::var("LD_PRELOAD")
            .ok()
            .and_then(|list| list.split_once(':').map(|(_, rest)| rest.to_string()))
        {
            Some(others) => std::env::set_var("LD_PRELOAD", others),
            None => std::env::remove_var("LD_PRELOAD"),
        }
    }
    // Memory that is not locked costs page faults, and exclusive isolation: the kernel says so where it is asked for.
    let _ = setup::lock_memory();
    match Mask::named(&names).and_then(isolation::start) {
        // It lives as long as its thread, which nothing here outlives.
        Ok(session) => std::mem::forget(session),
        Err(error) => {
            eprintln!("isolator: {error}");
            std::process::exit(1);
        }
    }
}
