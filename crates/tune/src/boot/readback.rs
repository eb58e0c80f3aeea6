// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last check before a boot line is armed: the bytes that are to be written are read back as their loader
//! reads them. Each line must be that of the entry that it was made of, and of the boot that runs, with our
//! words and no other difference.

use inspect::boot::bls::EntryFile;
use inspect::boot::extlinux::Extlinux;
use inspect::boot::grub::{self, GrubEnvironment};
use inspect::boot::pi;
use machine::boot::line::{BootWord, kernel_words};
use machine::boot::{BootEntry, LineChanges, Loader};

use super::spec::{BootMethod, BootSpec, text};
use crate::places::TRIAL;
use crate::record::Step;
use crate::record::own::{OwnPart, line_of};
use crate::system::System;
use crate::{Error, Result};

/// A line that is to be written.
struct WrittenLine {
    /// Its file.
    path: String,
    /// The line of the entry that it was made of, as that one's file has it.
    before: String,
    /// The line itself.
    after: String,
}

/// Refuses a method whose lines differ from what runs by more than our words.
pub(super) fn admit(system: &dyn System, asked: &BootSpec<'_>, method: &BootMethod) -> Result<()> {
    let Some(entry) = asked.entry() else { return Ok(()) };
    let mut ours = false;
    for step in method.steps() {
        let Some(written) = written(system, entry, step)? else { continue };
        let changes = LineChanges::between(&written.before, &written.after, asked.words);
        let lacks = |raw: &&String| times(&written.after, raw) != 1;
        let lacking: Vec<&str> = asked.words.iter().filter(lacks).map(String::as_str).collect();
        if !changes.is_none() || !lacking.is_empty() {
            let lacks = format!("lacks our {}", lacking.join(" "));
            let said = if changes.is_none() { lacks } else { changes.to_string() };
            return Err(Error::new(
                format!("write a boot line into {}", written.path),
                format!("read back, beside the entry '{}' it {said}", entry.title),
                "nothing was changed; add the words by hand, and report this with that file",
            ));
        }
        ours = true;
    }
    if matches!(method, BootMethod::Trial { .. }) && !ours {
        return Err(Error::new(
            "arm a trial",
            "its line cannot be read back from what is to be written",
            "nothing was changed; report this with the loader's files",
        ));
    }
    Ok(())
}

/// The entry that is copied or changed has the line that runs: the one that runs is known to boot.
pub(super) fn as_it_runs(asked: &BootSpec<'_>, method: &BootMethod) -> Result<()> {
    let Some(running) = asked.running.filter(|line| !line.trim().is_empty()) else { return Ok(()) };
    // rpm-ostree changes the deployment that runs, whichever its entry is.
    let judged = !method.steps().is_empty() && asked.boot.loader != Loader::Ostree;
    let Some(entry) = asked.entry().filter(|entry| judged && !entry.options.is_empty()) else {
        return Ok(());
    };
    let plan = [asked.words, asked.there].concat();
    let mut changes = LineChanges::between(running, &entry.options, &plan);
    // Words of the firmware, or of a variable that is the whole line and set in no file, are not the entry's.
    let by_variable = entry.options.split_whitespace().all(|word| word.starts_with('$'));
    if asked.boot.loader.facts().firmware_adds || by_variable {
        (changes.lost, changes.moved) = (Vec::new(), Vec::new());
    }
    let of_source = |raw: &String| {
        let sources = asked.boot.sources.iter().filter(|source| source.loader);
        let lines: Vec<&str> = sources.filter_map(|source| source.line.as_deref()).collect();
        lines.iter().any(|line| times(line, raw) > 0)
    };
    changes.lost.retain(|raw| !of_source(raw));
    if changes.is_none() {
        return Ok(());
    }
    Err(Error::new(
        "try a boot line",
        format!(
            "the entry '{}' of {} is not the line that runs: beside it, it {changes}",
            entry.title, entry.file
        ),
        "boot that entry as it is, or write what runs into it, then plan again: what is tried must differ by the plan's words alone",
    ))
}

/// How often a line has a word for the kernel.
fn times(line: &str, raw: &str) -> usize {
    kernel_words(line).filter(|word| word.is_same(&BootWord::new(raw))).count()
}

/// The line of an entry that a step writes; none where it writes something else.
fn written(system: &dyn System, entry: &BootEntry, step: &Step) -> Result<Option<WrittenLine>> {
    let Step::File { path, old, new: Some(new), own } = step else { return Ok(None) };
    let (old, new) = (old.as_ref().map_or("", |old| old.text.as_str()), new.text.as_str());
    let name = path.rsplit('/').next().unwrap_or(path);
    let options = |text: &str| EntryFile::read(text).options();
    let (before, after) = match own {
        OwnPart::Block if name == "custom.cfg" => {
            let of = |menu: &str, id: &str| {
                let entries = grub::menu(menu, path).into_iter().map(|found| found.entry);
                entries.into_iter().find(|found| found.id == id).map(|found| found.options)
            };
            let menu = text(system, &entry.file)?;
            (of(&menu, &entry.id).unwrap_or_default(), of(new, TRIAL).unwrap_or_default())
        }
        OwnPart::Whole | OwnPart::Counted if name.ends_with(".conf") => {
            (options(&text(system, &entry.file)?), options(new))
        }
        OwnPart::Options { .. } => (options(old), options(new)),
        OwnPart::Label { name, .. } => {
            let labels = Extlinux::read(new).entries(path);
            let label = labels.into_iter().find(|found| found.id == *name);
            (entry.options.clone(), label.map(|found| found.options).unwrap_or_default())
        }
        OwnPart::Line { .. } if old.is_empty() => (entry.options.clone(), new.to_string()),
        OwnPart::Line { .. } => (old[line_of(old)].to_string(), new[line_of(new)].to_string()),
        OwnPart::Whole if name.starts_with("cmdline") => {
            (entry.options.clone(), pi::command_line(new).to_string())
        }
        OwnPart::VariableWords { name, .. } => {
            let value = |text| GrubEnvironment::read(text)?.get(name).map(str::to_string);
            (value(old).unwrap_or_default(), value(new).unwrap_or_default())
        }
        _ => return Ok(None),
    };
    // GRUB's own line of an entry that names none; ours names it.
    let before = if before.trim().is_empty() { "$default_kernelopts".to_string() } else { before };
    Ok(Some(WrittenLine { path: path.clone(), before, after }))
}
