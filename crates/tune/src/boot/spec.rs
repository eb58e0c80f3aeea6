// SPDX-License-Identifier: MIT OR Apache-2.0
//! The request to a boot loader, the method, and the knowledge that each loader needs.

use machine::boot::{Boot, BootEntry, line, roots};
use machine::snapshot::{Preemption, Snapshot};

use crate::places::TRIAL;
use crate::record::Step;
use crate::record::kept::Kept;
use crate::record::own::{self, OwnPart};
use crate::system::{self, System, failed};
use crate::{Error, Result};

/// The words for the boot line of a machine.
#[derive(Debug, Clone)]
pub struct BootSpec<'a> {
    /// Its loader and entries.
    pub boot: &'a Boot,
    /// The words.
    pub words: &'a [String],
    /// Further words of the plan, which another program has put into the default entry.
    pub there: &'a [String],
    /// The release of the kernel that runs.
    pub release: Option<&'a str>,
    /// The line that runs, `/proc/cmdline`; none where it is not known.
    pub running: Option<&'a str>,
    /// Whether that kernel is PREEMPT_RT, which switches EFI's variables off.
    pub real_time: bool,
}

impl<'a> BootSpec<'a> {
    /// Of these words on `machine`.
    pub fn of(machine: &'a Snapshot, boot: &'a Boot, words: &'a [String]) -> BootSpec<'a> {
        BootSpec {
            release: machine.kernel.release.as_deref(),
            running: machine.kernel.command_line.as_deref(),
            real_time: machine.kernel.preemption == Preemption::RealTime,
            ..BootSpec::new(boot, words)
        }
    }

    /// Of these words where nothing is known of the kernel that runs.
    pub fn new(boot: &'a Boot, words: &'a [String]) -> BootSpec<'a> {
        BootSpec { boot, words, there: &[], release: None, running: None, real_time: false }
    }

    /// The entry that is copied: the one that runs where it can be told, else the default.
    pub(super) fn entry(&self) -> Option<&'a BootEntry> {
        let runs = self.boot.running_entry(self.release, self.running.unwrap_or_default());
        runs.filter(|entry| !entry.id.ends_with(TRIAL)).or_else(|| self.boot.default_entry())
    }

    /// Whether an entry has a word of ours already.
    pub(super) fn has_ours(&self, entry: &BootEntry) -> bool {
        line::kernel_words(&entry.options).any(|word| self.words.iter().any(|own| own == word.raw))
    }

    /// Whether an entry boots the system that runs: another one may keep its entries in the same folder.
    pub(super) fn of_this_system(&self, entry: &BootEntry) -> bool {
        may_be_same_root(self.entry().map_or("", |entry| &entry.options), &entry.options)
    }
}

/// Whether two lines may have the same root: one that names none may have any.
pub(super) fn may_be_same_root(one: &str, other: &str) -> bool {
    let ones: Vec<String> = roots(one).collect();
    ones.is_empty() || roots(other).next().is_none() || roots(other).any(|root| ones.contains(&root))
}

/// How words come into the boot line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootMethod {
    /// An entry that is booted once.
    Trial {
        /// The steps.
        steps: Vec<Step>,
        /// The command that starts it.
        start: String,
    },
    /// Every next boot.
    Lasting {
        /// The steps.
        steps: Vec<Step>,
        /// The entry that still boots if this one does not.
        fallback: String,
    },
    /// Instructions to a person.
    Instructions {
        /// Why we do not.
        why: String,
        /// The steps.
        lines: Vec<String>,
    },
}

impl BootMethod {
    /// The steps that it makes; nothing where a person has to do it.
    pub fn steps(&self) -> &[Step] {
        match self {
            BootMethod::Trial { steps, .. } | BootMethod::Lasting { steps, .. } => steps,
            BootMethod::Instructions { .. } => &[],
        }
    }
}

/// A boot loader: how words come into its line, and what still boots where they do harm.
///
/// The part that goes again is in the steps: each says what of its file is ours.
pub(super) trait BootLoader {
    /// The entry that is changed or copied; an error where there is none, or where it cannot be.
    fn find<'a>(&self, system: &dyn System, asked: &BootSpec<'a>) -> Result<&'a BootEntry>;

    /// The trial: an entry that is booted once. Where the loader has none, a lasting change that leaves
    /// another entry to boot untouched, or instructions.
    fn first(&self, system: &mut dyn System, asked: &BootSpec<'_>) -> Result<BootMethod>;

    /// The steps of every next boot; `tried` says that a trial held.
    fn lasting(&self, system: &mut dyn System, asked: &BootSpec<'_>, tried: bool) -> Result<BootMethod>;

    /// The entry that boots without our words when `steps` are done, as far as files prove it.
    fn fallback(&self, system: &dyn System, asked: &BootSpec<'_>, steps: &[Step]) -> Option<String> {
        untouched(system, asked, steps).next().map(|entry| format!("the entry '{}'", entry.title))
    }
}

/// Entries of this system that no step changes, and whose kernel is there.
pub(super) fn untouched<'a>(
    system: &dyn System,
    asked: &BootSpec<'a>,
    steps: &[Step],
) -> impl Iterator<Item = &'a BootEntry> {
    let changed: Vec<String> = steps.iter().map(Step::what).collect();
    let spec = asked.clone();
    let stays = asked.boot.entries.iter().filter(move |entry| {
        !entry.id.ends_with(TRIAL)
            && !changed.contains(&entry.file)
            && spec.of_this_system(entry)
            && !spec.has_ours(entry)
    });
    let spec = asked.clone();
    let boots: Vec<&BootEntry> = stays.filter(|entry| has_kernel(system, &spec, entry)).collect();
    boots.into_iter()
}

/// Whether the kernel of an entry is a file of this machine.
fn has_kernel(system: &dyn System, asked: &BootSpec<'_>, entry: &BootEntry) -> bool {
    entry
        .kernel
        .as_ref()
        .is_some_and(|path| path.contains(['$', '(']) || find_file(system, asked, path).is_some())
}

/// A lasting change with what boots without it. Where nothing was tried and nothing else boots, it is
/// refused: `why` and its cure.
pub(super) fn lasts(
    loader: &dyn BootLoader,
    system: &dyn System,
    asked: &BootSpec<'_>,
    (steps, tried): (Vec<Step>, bool),
    (why, cure): (&str, &str),
) -> Result<BootMethod> {
    match loader.fallback(system, asked, &steps) {
        Some(fallback) => Ok(BootMethod::Lasting { steps, fallback }),
        None if tried => Ok(BootMethod::Lasting { steps, fallback: "no other entry".to_string() }),
        None => Err(Error::new("change the boot line", why, cure)),
    }
}

/// Where a path that a loader names lies on this machine.
pub(super) fn find_file(system: &dyn System, asked: &BootSpec<'_>, path: &str) -> Option<String> {
    let partition = asked.boot.folder.trim_end_matches("/loader");
    if !path.starts_with('/') {
        // extlinux takes it from its own folder, and entries from their partition.
        let places = [asked.boot.folder.as_str(), partition].map(|folder| within(folder, path));
        return places.into_iter().find(|path| system.stat(path).is_ok());
    }
    let of_file = asked.boot.seen.first().and_then(|path| path.strip_suffix("/loader/entries"));
    let names = [path.to_string(), format!("/boot{path}"), format!("{partition}{path}")];
    let names = names.into_iter().chain(of_file.map(|partition| format!("{partition}{path}")));
    let named = names.into_iter().find(|name| system.stat(name).is_ok());
    let there = |name: &String| system.stat(name).is_ok();
    let named = named.or_else(|| mounted(system, partition, path).filter(there));
    named.or_else(|| of_dataset(system, path).filter(there))
}

/// The path of `relative` in `folder`, with `..` taken away.
fn within(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(relative.split('/')).filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Where `path` within the file system that holds `folder` lies: a subvolume of it (`/@/boot/vmlinuz` on
/// btrfs), or a folder, may be what is mounted.
fn mounted(system: &dyn System, folder: &str, path: &str) -> Option<String> {
    let mounts = system::text(system, "/proc/self/mountinfo").ok()?;
    let mount = mount_of(&mounts, 4, folder)?;
    Some(format!("{}{}", mount[4].trim_end_matches('/'), below(path, mount[3])?))
}

/// Where a file of a ZFS dataset lies, which GRUB names `/DATASET@/FILE` without the pool.
fn of_dataset(system: &dyn System, path: &str) -> Option<String> {
    let (dataset, file) = path.split_once("@/")?;
    let mounts = mounts(system)?;
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let of_it = |fields: &Vec<&str>| {
        fields.get(2) == Some(&"zfs")
            && fields[0].split_once('/').is_some_and(|(_, rest)| dataset[1..] == *rest)
    };
    let mount = fields.find(of_it).filter(|_| dataset.starts_with('/'))?;
    Some(format!("{}/{file}", mount[1].trim_end_matches('/')))
}

/// The mounts of this machine.
pub(super) fn mounts(system: &dyn System) -> Option<String> {
    system::text(system, "/proc/self/mounts").or_else(|_| system::text(system, "/proc/mounts")).ok()
}

/// The fields of the mount that holds `path`; field `at` of a line is where it is mounted.
pub(super) fn mount_of<'a>(mounts: &'a str, at: usize, path: &str) -> Option<Vec<&'a str>> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holds = fields.filter(|fields| fields.get(at).is_some_and(|mount| below(path, mount).is_some()));
    holds.max_by_key(|fields| fields[at].len())
}

/// The rest of a path below a folder, empty for the folder itself.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// A file that is changed, if it is: what is there is kept.
pub(super) fn file(
    system: &dyn System,
    path: &str,
    own: OwnPart,
    change: impl FnOnce(&str) -> String,
) -> Result<Step> {
    let old = Kept::of(system, path)?;
    let text = change(old.as_ref().map_or("", |kept| kept.text.as_str()));
    let new = Some(Kept::new(&text, old.as_ref()));
    Ok(Step::File { path: path.to_string(), old, new, own })
}

/// Words added to the line of `text`; what stands around it stays.
pub(super) fn first_line_with(text: &str, words: &[String]) -> String {
    let line = own::line_of(text);
    let (before, after) = (&text[..line.start], &text[line.end..]);
    format!("{before}{}{after}", line::with_words(&text[line], words))
}

pub(super) fn text(system: &dyn System, path: &str) -> Result<String> {
    system::text(system, path).map_err(|error| failed("read", path, &error))
}
