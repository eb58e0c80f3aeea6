// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRUB on Debian and Ubuntu.
//!
//! Trial: a copy of the entry that runs in `custom.cfg`, which the generated menu sources, and `next_entry`
//! in GRUB's block of variables, which GRUB clears before it boots. Lasting: a drop-in of
//! `/etc/default/grub.d` for `GRUB_CMDLINE_LINUX_DEFAULT`, which entries for repair do not get, and the menu
//! made anew.

use inspect::boot::grub;
use machine::boot::BootEntry;

use super::grubenv::{arm, custom_default};
use super::spec::{BootLoader, BootMethod, BootSpec, file, lasts, text, untouched};
use crate::generator::{self, LossReason};
use crate::places::{DROP_IN, TRIAL, TRIAL_TITLE};
use crate::record::Step;
use crate::record::kept::Kept;
use crate::record::own::{OwnPart, with_block, with_lines};
use crate::system::System;
use crate::{Error, Result};

/// GRUB with drop-in files for its generator.
pub(super) struct GrubDebian;

impl BootLoader for GrubDebian {
    fn find<'a>(&self, system: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry> {
        custom_default(system, &asked.boot.folder)?;
        let wanted = asked.boot.default_entry().and(asked.entry());
        wanted.filter(|entry| entry.kernel.is_some()).ok_or_else(|| {
            Error::new(
                format!("find the entry that {} boots", asked.boot.folder),
                "GRUB_DEFAULT names none that boots Linux",
                "run update-grub, or set GRUB_DEFAULT=0 in /etc/default/grub",
            )
        })
    }

    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
        let folder = &asked.boot.folder;
        let menu_path = format!("{folder}/grub.cfg");
        let menu = text(system, &menu_path)?;
        let found = self.find(system, asked)?;
        not_lost(system, asked.words)?;
        let once = grub::boots_next_entry(&menu) && menu.contains("custom.cfg");
        let entry = grub::menu(&menu, &menu_path).into_iter().find(|entry| entry.entry.id == found.id);
        let armed = arm(system, &format!("{folder}/grubenv"), TRIAL)?.filter(|_| once);
        if let (Some(arm), Some(entry)) = (armed, entry) {
            let copy = entry.copy(TRIAL_TITLE, TRIAL, asked.words);
            let custom = file(system, &format!("{folder}/custom.cfg"), OwnPart::Block, |text| {
                with_block(text, &copy)
            })?;
            return Ok(BootMethod::Trial { steps: vec![custom, arm], start: "reboot".into() });
        }
        self.lasting(system, asked, false)
    }

    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod> {
        not_lost(system, asked.words)?;
        let menu = format!("{}/grub.cfg", asked.boot.folder);
        let own = "# Made by `isolator tune`; `isolator tune rollback` takes it away again.\n";
        let line =
            format!("GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {}\"\n", asked.words.join(" "));
        let mut steps = Vec::new();
        let drop_ins = crate::system::folder(DROP_IN);
        if system.stat(drop_ins).is_err() {
            steps.push(Step::Folder { path: drop_ins.into() });
        }
        steps.push(file(system, DROP_IN, OwnPart::Lines, |text| with_lines(text, &format!("{own}{line}")))?);
        steps.push(Step::Generated {
            command: vec!["grub-mkconfig".into()],
            old: Kept::of(system, &menu)?,
            path: menu,
            new: None,
            words: asked.words.to_vec(),
        });
        let refusal = (
            "GRUB cannot boot an entry only once here, and the menu has no entry for repair to fall back to",
            "take GRUB_DISABLE_RECOVERY out of /etc/default/grub and run update-grub",
        );
        lasts(self, system, asked, (steps, tried), refusal)
    }

    /// The menu is made anew; entries for repair do not get the variable that the words are in.
    fn fallback(&self, system: &dyn System, asked: &BootSpec<'_>, _: &[Step]) -> Option<String> {
        let repair = untouched(system, asked, &[]).find(|entry| entry.recovery)?;
        Some(format!("the entry '{}'", repair.title))
    }
}

/// Words that the generator would not hand on are refused before anything is tried.
fn not_lost(system: &dyn System, words: &[String]) -> Result<()> {
    let name = generator::VARIABLE;
    let (why, cure) = match generator::lost(system, DROP_IN, words) {
        None => return Ok(()),
        Some(LossReason::SetAnew(file)) => (
            format!("{file} is read after it and sets {name} anew"),
            format!("write {name}=\"${name} ...\" in {file}, or rename it to come before"),
        ),
        Some(LossReason::Lines(file)) => (
            format!("{name} in {file} goes over more than one line, so the menu would get half of the line"),
            format!("write {name} in {file} on one line, then plan again"),
        ),
    };
    Err(Error::new(format!("give words to GRUB by {DROP_IN}"), why, cure))
}
