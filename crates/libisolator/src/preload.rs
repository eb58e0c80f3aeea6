// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session for a program that knows nothing of it: `isolator run --isolate` loads the library with the
//! program (LD_PRELOAD) and names in a variable what to defer; before main the library starts the session,
//! which ends with the main thread.
//!
//! Without the variable nothing happens. A session that is refused ends the program with status 1 and the
//! reason: a program that asked for isolation must not run without. Only this part of the library prints,
//! since no caller could ask for its last error.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rt::isolation::{self, Mask};
use rt::{Error, Result, setup, thread};

/// The work to defer: names of [`Mask::named`].
const VARIABLE: &str = "ISOLATOR_SESSION";

/// Called by the dynamic linker.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = start;

extern "C" fn start() {
    let Some(names) = std::env::var_os(VARIABLE) else { return };
    if let Err(error) = session(&names.to_string_lossy()) {
        eprintln!("isolator: {error}");
        std::process::exit(1);
    }
}

fn session(names: &str) -> Result<()> {
    if !alone() {
        let why = "other threads were there before the library was loaded";
        return Err(Error::new("isolate this program", why, "have it call isolator_session_start() itself"));
    }
    let others = others(&std::env::var_os("LD_PRELOAD").unwrap_or_default());
    // Children are programs of their own, and one CPU has one owner.
    // SAFETY: in the only thread, so that no other thread reads the environment meanwhile.
    unsafe {
        std::env::remove_var(VARIABLE);
        match others.is_empty() {
            true => std::env::remove_var("LD_PRELOAD"),
            false => std::env::set_var("LD_PRELOAD", others),
        }
    }
    // Memory that is not locked costs page faults, and exclusive isolation: the kernel says so where it is
    // asked for. Below a limit a program that did not ask for it would lack memory later.
    if thread::memory_lock_limit().is_none() {
        let _ = setup::lock_memory();
    }
    // It lives as long as its thread, which nothing here outlives.
    std::mem::forget(isolation::start(Mask::named(names)?)?);
    Ok(())
}

/// Whether this is the only thread.
fn alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// The list of preloaded libraries without this one.
fn others(list: &OsStr) -> OsString {
    let of_ours = |entry: &&[u8]| {
        let name = entry.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        name.starts_with(b"libisolator.so")
    };
    let entries = list.as_bytes().split(|byte| b": ".contains(byte)).filter(|entry| !entry.is_empty());
    OsString::from_vec(entries.filter(|entry| !of_ours(entry)).collect::<Vec<_>>().join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_library_is_taken_from_the_list() {
        for (list, left) in [
            ("", ""),
            ("/usr/lib/libisolator.so.1", ""),
            ("/a/libisolator.so:/b/libjemalloc.so", "/b/libjemalloc.so"),
            ("libx.so /a/libisolator.so.1:liby.so", "libx.so:liby.so"),
        ] {
            assert_eq!(others(OsStr::new(list)), left, "{list}");
        }
    }
}
