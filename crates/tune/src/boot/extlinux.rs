// SPDX-License-Identifier: MIT OR Apache-2.0
//! extlinux.conf on NVIDIA Jetson: one more label, a copy of the default with our words; no label that was
//! there changes. Nothing boots only once here, so the menu must be shown long enough to choose the old one.

use inspect::boot::extlinux::{Extlinux, MAX_LABELS};
use machine::boot::BootEntry;
use machine::boot::line::with_words;

use super::spec::{BootLoader, BootMethod, BootSpec, lasts, text};
use crate::record::Step;
use crate::record::kept::Kept;
use crate::record::own::OwnPart;
use crate::system::System;
use crate::{Error, Result};

const LABEL: &str = "isolator";
/// Tenths of a second for which the menu is shown.
const MENU: u32 = 30;

/// extlinux.conf on NVIDIA Jetson.
pub(super) struct L4tExtlinux;

impl BootLoader for L4tExtlinux {
    fn find<'a>(&self, system: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry> {
        let path = path(asked);
        let refuse = |why: &str, cure: &str| Err(Error::new(format!("add a label to {path}"), why, cure));
        let file = Extlinux::read(&text(system, &path)?);
        let Some((entry, _)) = asked.entry().zip(asked.boot.default_entry()) else {
            return refuse("it has no label to copy", "restore it");
        };
        let labels: Vec<&str> = file.labels().collect();
        if labels.contains(&LABEL) {
            return refuse(
                "it has a label `isolator` already",
                "remove that label, or run isolator tune rollback",
            );
        }
        if labels.len() >= MAX_LABELS {
            return refuse(
                "it has ten labels, and the loader reads no more",
                "remove one that is not needed",
            );
        }
        if labels.iter().filter(|label| **label == entry.id).count() > 1 {
            return refuse(
                "its default label occurs twice, and loaders differ in which they take",
                "rename one of them",
            );
        }
        if file.appends(&entry.id) > 1 {
            return refuse(
                "its default label has two APPEND lines, of which loaders take one",
                "make one of them",
            );
        }
        if !entry.options.split_whitespace().any(|word| word.starts_with("root=")) {
            return refuse("the line of its default label names no root=", "restore it");
        }
        Ok(entry)
    }

    /// Nothing boots only once here.
    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
        self.lasting(system, asked, false)
    }

    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod> {
        let entry = self.find(system, asked)?;
        let path = path(asked);
        let mut file = Extlinux::read(&text(system, &path)?);
        file.add_copy(&entry.id, LABEL, "Isolator", &with_words(&entry.options, asked.words));
        file.set_default(LABEL);
        if file.timeout() < MENU {
            file.set_timeout(MENU);
        }
        let old = Kept::of(system, &path)?;
        let new = Some(Kept::new(&file.text(), old.as_ref()));
        let default = asked.boot.default_entry().map(|entry| entry.id.clone());
        let own = OwnPart::Label { name: LABEL.into(), default };
        let steps = vec![Step::File { path, old, new, own }];
        lasts(
            self,
            system,
            asked,
            (steps, tried),
            ("no label boots without our words", "keep a second label"),
        )
    }

    /// The label that was the default: the copy stands beside it, and the menu is shown.
    fn fallback(&self, _: &dyn System, asked: &BootSpec<'_>, _: &[Step]) -> Option<String> {
        let default = &asked.boot.default_entry()?.id;
        Some(format!("the label '{default}', chosen in the menu on the serial or HDMI console"))
    }
}

fn path(asked: &BootSpec<'_>) -> String {
    format!("{}/extlinux.conf", asked.boot.folder)
}
