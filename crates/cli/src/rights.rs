// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capabilities that the program's file gives to any user who runs it, as the copy that `isolator setup-user`
//! makes does.
//!
//! Only verbs that measure keep them. All other verbs, and the parts of this program that start other
//! programs under hidden verbs, give them up before they do anything: `task` would else change the threads of
//! other users, and `run` start a program with rights that its user does not have. Programs that a verb which
//! keeps them starts (loads, `--on-spike`, `--program`) get none from the kernel, since none of them is
//! ambient. Files are those of the user in any case: no capability of the copy is about files.

use std::ffi::OsStr;

use rustix::io::Result;
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_ambient_set, set_capabilities,
};

/// Verbs that keep them.
const MEASURE: [&str; 4] = ["prove", "measure", "monitor", "lint"];

/// Gives up what the file gave, where the first argument is no verb that measures. What a service manager
/// gave is ambient, and stays; so does what root has.
pub fn give_up(first: Option<&OsStr>) -> Result<()> {
    let keeps = first.is_some_and(|first| MEASURE.iter().any(|verb| first == *verb));
    if keeps || geteuid().is_root() {
        return Ok(());
    }
    let CapabilitySets { permitted, inheritable, .. } = capabilities(None)?;
    let ambient =
        |bit: u64| capability_is_in_ambient_set(CapabilitySet::from_bits_retain(bit)).unwrap_or(false);
    let stays = (0..64).map(|number| 1 << number).filter(|bit| permitted.bits() & bit != 0 && ambient(*bit));
    let stays = CapabilitySet::from_bits_retain(stays.fold(0, |all, bit| all | bit));
    if stays == permitted {
        return Ok(());
    }
    set_capabilities(None, CapabilitySets { effective: stays, permitted: stays, inheritable })?;
    // The kernel hid this process from its own user while it had more than that user.
    set_dumpable_behavior(DumpableBehavior::Dumpable)
}
