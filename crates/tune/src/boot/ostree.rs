// SPDX-License-Identifier: MIT OR Apache-2.0
//! ostree: `rpm-ostree kargs` makes a new deployment, and the one that runs stays in the menu.

use machine::boot::BootEntry;

use super::spec::{BootLoader, BootMethod, BootSpec, lasts};
use crate::record::Step;
use crate::system::System;
use crate::{Error, Result};

/// ostree deployments.
pub(super) struct Ostree;

impl BootLoader for Ostree {
    /// rpm-ostree changes the deployment that runs; which entry that is, it knows itself.
    fn find<'a>(&self, _: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry> {
        asked.entry().ok_or_else(|| {
            Error::new("change the boot line", "no deployment has an entry", "run: rpm-ostree status")
        })
    }

    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
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
        self.lasting(system, asked, false)
    }

    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod> {
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
        lasts(self, system, asked, (vec![step], tried), ("no deployment stays", "run: rpm-ostree status"))
    }

    /// A new deployment leaves the one that runs.
    fn fallback(&self, _: &dyn System, _: &BootSpec<'_>, _: &[Step]) -> Option<String> {
        Some("the deployment that runs now, in the menu".into())
    }
}
