// SPDX-License-Identifier: MIT OR Apache-2.0
//! ostree: `rpm-ostree kargs` makes a new deployment, and the one that runs stays in the menu.

use super::{BootMethod, BootSpec};
use crate::system::System;
use crate::transaction::Step;
use crate::{Error, Result};

pub(super) fn lasting(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    if system.stat("/etc/machine-config-daemon").is_ok() {
        return Err(Error::new(
            "change the boot line",
            "OpenShift's MachineConfig owns it",
            "set kernelArguments in a MachineConfig or a PerformanceProfile",
        ));
    }
    if system.stat("/usr/bin/rpm-ostree").is_err() {
        return Ok(BootMethod::Instructions {
            why: "rpm-ostree is not installed".into(),
            lines: vec![format!(
                "add kernel arguments with the tool of this image: {}",
                asked.words.join(" ")
            )],
        });
    }
    let kargs = |option: &str| {
        let head = ["rpm-ostree", "kargs"].map(String::from).into_iter();
        head.chain(asked.words.iter().map(|word| format!("{option}={word}"))).collect::<Vec<_>>()
    };
    let step = Step::Command {
        run: kargs("--append-if-missing"),
        undo: kargs("--delete-if-present"),
        volatile: false,
        needed: true,
    };
    Ok(BootMethod::Lasting {
        steps: vec![step],
        fallback: "the deployment that runs now, in the menu".into(),
    })
}
