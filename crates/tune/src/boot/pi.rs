// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raspberry Pi: `tryboot.txt`, which the firmware reads instead of `config.txt` for one boot when it is
//! asked to.

use inspect::boot::pi::{PiConfig, has_more_lines};
use machine::boot::BootEntry;

use super::spec::{BootLoader, BootMethod, BootSpec, file, first_line_with, lasts, text};
use crate::record::Step;
use crate::record::own::OwnPart;
use crate::system::System;
use crate::{Error, Result};

const LINE: &str = "cmdline-isolator.txt";
/// How deep files are followed that include one another.
const DEPTH: usize = 3;

/// The firmware of a Raspberry Pi.
pub(super) struct RaspberryPi;

impl BootLoader for RaspberryPi {
    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod> {
        let folder = &asked.boot.folder;
        let entry = &self.find(system, asked)?.file;
        let line = text(system, entry)?;
        let mut config = PiConfig::read(&text(system, &format!("{folder}/config.txt"))?);
        let there = |name: &str| system.stat(&format!("{folder}/{name}")).is_ok();
        if tries_boots(system, folder, &config, DEPTH) || there("tryboot.txt") || there("autoboot.txt") {
            return Ok(BootMethod::Instructions {
                why: "another program tries boots here (os_prefix, [tryboot], tryboot.txt or autoboot.txt)"
                    .into(),
                lines: vec![
                    format!("add to the one line of {entry}: {}", asked.words.join(" ")),
                    "reboot".into(),
                ],
            });
        }
        config.add_for_all("cmdline", LINE);
        let steps = vec![
            file(system, &format!("{folder}/{LINE}"), OwnPart::Whole, |_| {
                first_line_with(&line, asked.words)
            })?,
            file(system, &format!("{folder}/tryboot.txt"), OwnPart::Whole, |_| config.text())?,
        ];
        Ok(BootMethod::Trial { steps, start: "reboot '0 tryboot'".into() })
    }

    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, _: bool) -> Result<BootMethod> {
        let path = self.find(system, asked)?.file.clone();
        let own = OwnPart::Line { words: asked.words.to_vec() };
        let step = file(system, &path, own, |text| first_line_with(text, asked.words))?;
        lasts(self, system, asked, (vec![step], true), ("", ""))
    }

    /// The firmware has one line.
    fn fallback(&self, _: &dyn System, _: &BootSpec<'_>, _: &[Step]) -> Option<String> {
        None
    }

    /// The entry of the one line, which must be one line with a root.
    fn find<'a>(&self, system: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry> {
        let Some(entry) = asked.boot.default_entry() else {
            let folder = &asked.boot.folder;
            let said = asked.boot.unread.iter().find_map(|said| {
                let (path, why) = said.split_once(": ")?;
                [format!("{folder}/config.txt"), format!("{folder}/cmdline.txt")]
                    .contains(&path.into())
                    .then_some((path, why))
            });
            return Err(match said {
                Some((path, why)) => {
                    Error::new(format!("find the boot line by {path}"), why, "set it by hand")
                }
                None => {
                    Error::new(format!("read {folder}/cmdline.txt"), "it cannot be read", "run it as root")
                }
            });
        };
        let refuse =
            |why: &str| Err(Error::new(format!("change {}", entry.file), why, "write it as one line again"));
        if has_more_lines(&text(system, &entry.file)?) {
            return refuse("it has more than one line, and the firmware reads the first alone");
        }
        if !entry.options.split_whitespace().any(|word| word.starts_with("root=")) {
            return refuse("its line names no root=");
        }
        Ok(entry)
    }
}

/// Whether `config.txt`, or a file that it includes, names a folder for kernels and lines, or has settings
/// for a trial alone: those would hold for ours too, with another kernel or line than those that run.
fn tries_boots(system: &dyn System, folder: &str, config: &PiConfig, depth: usize) -> bool {
    let included = |path: &str| {
        let text = text(system, &format!("{folder}/{path}"));
        text.is_ok_and(|text| depth > 0 && tries_boots(system, folder, &PiConfig::read(&text), depth - 1))
    };
    let here = config.values("os_prefix").next().is_some() || config.has_section("tryboot");
    here || config.includes().any(included)
}
