// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals that end a run in order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

/// The first SIGINT or SIGTERM sets the flag, the second ends the program at once.
pub fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::default();
    set_on_signals(&stop)?;
    Ok(stop)
}

/// The same with a flag that is there.
pub fn set_on_signals(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the second signal must find the flag that the first one set.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}
