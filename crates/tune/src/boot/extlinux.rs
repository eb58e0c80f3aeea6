// SPDX-License-Identifier: MIT OR Apache-2.0
//! extlinux.conf on NVIDIA Jetson: one more label, a copy of the default with our words; no label that was
//! there changes. Nothing boots only once here, so the menu must be shown long enough to choose the old one.

use machine::boot::extlinux::{Extlinux, MAX_LABELS};
use machine::boot::line::with_words;

use super::{BootMethod, BootSpec, text};
use crate::system::System;
use crate::transaction::files::Kept;
use crate::transaction::{OwnPart, Step};
use crate::{Error, Result};

const LABEL: &str = "isolator";
/// Tenths of a second for which the menu is shown.
const MENU: u32 = 30;

pub(super) fn lasting(system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
    let path = format!("{}/extlinux.conf", asked.boot.folder);
    let refuse = |why: &str, cure: &str| Err(Error::new(format!("add a label to {path}"), why, cure));
    let mut file = Extlinux::read(&text(system, &path)?);
    let Some((entry, before)) = asked.entry().zip(asked.boot.default_entry()) else {
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
        return refuse("it has ten labels, and the loader reads no more", "remove one that is not needed");
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
    let default = before.id.clone();
    file.add_copy(&entry.id, LABEL, "Isolator", &with_words(&entry.options, asked.words));
    file.set_default(LABEL);
    if file.timeout() < MENU {
        file.set_timeout(MENU);
    }
    let old = Kept::of(system, &path)?;
    let new = Some(Kept::new(&file.text(), old.as_ref()));
    let own = OwnPart::Label { name: LABEL.into(), default: Some(default.clone()) };
    let fallback = format!("the label '{default}', chosen in the menu on the serial or HDMI console");
    Ok(BootMethod::Lasting { steps: vec![Step::File { path, old, new, own }], fallback })
}
