// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes of a load under names that are no text, or that look like fields of `/proc/PID/stat`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::*;

const NAMES: [&[u8]; 10] = [
    b"\x9bfoo) R 1 (",
    b"\xff\xfe",
    b"caf\xe9",
    b") S 1 1 1 0 -1 (",
    b"a) Z 0 (b",
    b"a\nb\xff",
    b"\x1b]0;x\x07",
    b"((((",
    b"))))",
    b"\xe2\x82 )",
];

/// Each detaches itself from the load, and none outlives it.
pub fn a_name_hides_no_process(scratch: &Scratch) -> Outcome {
    let programs = scratch.0.with_extension("programs");
    fs::create_dir_all(&programs).unwrap();
    for name in NAMES {
        // The kernel names a process after its program's file.
        symlink("/bin/sleep", programs.join(OsStr::from_bytes(name))).unwrap();
    }
    let all =
        format!("custom=for p in {}/*; do setsid \"$p\" 1000 & done; exec sleep 1000", programs.display());
    let running = start(&all, scratch);
    let ended = running.map(|mut running| {
        running.settle(SETTLE).unwrap();
        let family = below(std::process::id());
        running.stop();
        family
    });
    fs::remove_dir_all(&programs).unwrap();
    let family = ended?;
    let named = |name: &&&[u8]| {
        let shown = String::from_utf8_lossy(&name[..name.len().min(15)]).into_owned();
        family.values().any(|found| *found == shown)
    };
    assert_eq!(NAMES.iter().filter(named).count(), NAMES.len(), "{family:?}");
    nothing_is_left(scratch);
    are_gone(&family);
    Ok(())
}
