// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights to measure without being root: a group, its limits, the device that limits idle states, and a copy
//! of this program with capabilities. Each is a step of a record, as those of `tune` are.
//!
//! The name of the group and its limits are those of Arch Linux's package realtime-privileges (`@realtime`:
//! rtprio 98, memlock unlimited, nice -11; `KERNEL=="cpu_dma_latency", GROUP="realtime"`), and the group is
//! that of RHEL's realtime-setup. Debian has no such group: jackd2 uses `audio` and PipeWire `pipewire`, with
//! limits of their own, so that a user of these needs other limits here.
//!
//! Limits suffice for real-time policies and locked memory. Only BPF, SCHED_DEADLINE and sessions without PAM
//! need capabilities. They are on a copy, since all users may run the installed program, and since a package
//! manager replaces it and so takes them away. The copy keeps them for verbs that measure alone: see the
//! program's `rights`.

use std::collections::BTreeSet;

use inspect::accounts;

use crate::accounts::is_account;
use crate::action::Skipped;
use crate::change::{self, Applied, Here, RolledBack, StepLine};
use crate::places::{DEVICE, GROUPS, PROGRAM, RULES_FILE, USER_LIMITS_FILE};
use crate::record::kept::Kept;
use crate::record::own::OwnPart;
use crate::record::{Record, RecordKind, Step, StepOutcome};
use crate::system::{self, FileAccess, System, failed};
use crate::transaction::{self, rights, store};
use crate::{Error, Result};

/// The group, unless another one is wanted.
pub const GROUP: &str = "realtime";

/// Capabilities of the copy of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramRights {
    /// Any policy and priority, and locked memory.
    Scheduling,
    /// These, and the kernel's events.
    Bpf,
}

impl ProgramRights {
    /// Each with the name that the command line gives it.
    pub const ALL: [(&'static str, ProgramRights); 2] =
        [("scheduling", ProgramRights::Scheduling), ("bpf", ProgramRights::Bpf)];

    fn capabilities(self) -> Vec<String> {
        let names: &[&str] = match self {
            ProgramRights::Scheduling => &["CAP_SYS_NICE", "CAP_IPC_LOCK"],
            ProgramRights::Bpf => &["CAP_SYS_NICE", "CAP_IPC_LOCK", "CAP_BPF", "CAP_PERFMON"],
        };
        names.iter().map(ToString::to_string).collect()
    }
}

impl std::str::FromStr for ProgramRights {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let named = ProgramRights::ALL.into_iter().find(|(name, _)| *name == text);
        named
            .map(|(_, rights)| rights)
            .ok_or_else(|| "there is no such set; write scheduling or bpf".to_string())
    }
}

/// The wanted rights.
#[derive(Debug, Clone)]
pub struct UserRights {
    /// The users.
    pub users: Vec<String>,
    /// Their group.
    pub group: String,
    /// Capabilities of a copy of this program, where one is wanted.
    pub program: Option<ProgramRights>,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// Gives users these rights, or says what it would do.
pub fn set_up(here: &mut Here<'_>, wanted: &UserRights) -> Result<Applied> {
    let dry_run = wanted.dry_run;
    let mut applied = Applied::new(dry_run);
    if !dry_run {
        applied.recovered = here.recover()?;
    }
    let records = store::all(here.system)?;
    let records: Vec<Record> = records.into_iter().filter(of_users).collect();
    let steps = Rights { system: here.system, wanted, records: &records, applied: &mut applied }.steps()?;
    if dry_run {
        applied.steps = steps.iter().filter_map(|step| line(step, StepOutcome::Pending)).collect();
        return Ok(applied);
    }
    if !steps.is_empty() {
        let (id, boot_id) = (here.fresh_id("user"), store::boot_id(here.system));
        let mut record = Record::new(&id, RecordKind::User, "", &boot_id, &[], steps);
        transaction::apply(here.system, &mut record)?;
        applied.steps =
            record.steps.iter().filter_map(|done| line(&done.step, done.outcome.clone())).collect();
        applied.records.push(id);
    }
    let users = wanted.users.join(", ");
    applied.next.push(format!("log out and in as {users}: groups and limits are those of a new session"));
    let program = if wanted.program.is_some() { "isolator-realtime" } else { "isolator" };
    applied.next.push(format!("{program} prove, as {users}"));
    Ok(applied)
}

/// Takes them from all users.
pub fn undo(here: &mut Here<'_>) -> Result<RolledBack> {
    change::roll_back_all(here, of_users)
}

fn of_users(record: &Record) -> bool {
    record.live() && record.part == RecordKind::User
}

/// A step for people; a file of ours with its lines.
fn line(step: &Step, outcome: StepOutcome) -> Option<StepLine> {
    let mut line = change::line_of(step, outcome)?;
    if let Step::File { new: Some(new), .. } = step {
        let lines: Vec<&str> = new.text.lines().filter(|line| !line.starts_with('#')).collect();
        line.after = lines.join("; ");
    }
    Some(line)
}

/// Gathers steps.
struct Rights<'a> {
    system: &'a mut dyn System,
    wanted: &'a UserRights,
    records: &'a [Record],
    applied: &'a mut Applied,
}

impl Rights<'_> {
    fn steps(&mut self) -> Result<Vec<Step>> {
        let group = self.wanted.group.clone();
        for user in &self.wanted.users {
            check_user(self.system, user)?;
        }
        let mut steps = Vec::new();
        let gid = self.group(&group, &mut steps)?;
        self.file(
            USER_LIMITS_FILE,
            &format!("@{group} - rtprio 98\n@{group} - memlock unlimited\n@{group} - nice -11\n"),
            "no PAM here reads such files: give limits where sessions and services are started",
            &mut steps,
        )?;
        self.file(
            RULES_FILE,
            &format!("KERNEL==\"cpu_dma_latency\", GROUP=\"{group}\", MODE=\"0660\"\n"),
            "no udev here reads such files: the device is root's again after a boot",
            &mut steps,
        )?;
        self.device(gid, &mut steps);
        if let Some(rights) = self.wanted.program {
            self.program(gid, rights.capabilities(), &mut steps)?;
        }
        Ok(steps)
    }

    /// The group, made where there is none, with the users in it; its number.
    fn group(&mut self, group: &str, steps: &mut Vec<Step>) -> Result<u32> {
        let what = format!("use group {group}");
        // Both would mean something else in a rule of udev, or in limits.conf.
        if !is_account(group) || group.contains(['$', '@']) {
            let why = "a group's name has letters, digits, '.', '_' and '-'";
            return Err(Error::new(what, why, "choose another name by --group"));
        }
        let text = system::text(self.system, GROUPS[0]).map_err(|error| failed("read", GROUPS[0], &error))?;
        let there = rights::line_of(&text, group);
        let gid = match &there {
            Some([_, _, number, _]) => number.parse().map_err(|_| {
                Error::new(&what, format!("its line in {} has no number", GROUPS[0]), "mend it, see grpck(8)")
            })?,
            None if known(self.system, "group", group) => {
                let why = format!("another source of groups than {} has it", GROUPS[0]);
                return Err(Error::new(what, why, "add the users there, or choose another name by --group"));
            }
            None => free_gid(self.system, &text)?,
        };
        if gid == 0 {
            return Err(Error::new(what, "it is root's", "choose another group by --group"));
        }
        let all: BTreeSet<String> = self.wanted.users.iter().cloned().collect();
        for (path, made) in [(GROUPS[0], format!("{group}:x:{gid}:")), (GROUPS[1], format!("{group}:!::"))] {
            let text = match system::text(self.system, path) {
                Ok(text) => text,
                // Without group passwords there is no such file.
                Err(error) if path == GROUPS[1] && error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("read", path, &error)),
            };
            let fields = rights::line_of(&text, group);
            let members = fields.map(|[_, _, _, list]| accounts::members(list)).unwrap_or_default();
            let users = all.iter().filter(|user| !members.contains(&user.as_str()));
            let users: Vec<String> = users.cloned().collect();
            if users.is_empty() && fields.is_some() {
                self.applied.already.push(format!("{path}: {} in {group}", self.wanted.users.join(", ")));
                continue;
            }
            let line = fields.is_none().then_some(made);
            steps.push(Step::Members { path: path.into(), group: group.into(), line, users });
        }
        self.others(group, there, gid);
        Ok(gid)
    }

    /// Says which other users get the rights by a group that was there before.
    fn others(&mut self, group: &str, there: Option<[&str; 4]>, gid: u32) {
        let Some([_, _, _, list]) = there else { return };
        let passwd = system::lossy(self.system, "/etc/passwd").unwrap_or_default();
        let own =
            accounts::lines(&passwd).filter(|user| user.get(3).and_then(|own| own.parse().ok()) == Some(gid));
        let own: Vec<&str> = own.map(|user| user[0]).collect();
        let all = accounts::members(list).into_iter().chain(own);
        let others: BTreeSet<&str> =
            all.filter(|name| !self.wanted.users.iter().any(|user| user == name)).collect();
        if !others.is_empty() {
            let names = others.into_iter().collect::<Vec<_>>().join(", ");
            self.applied.already.push(format!("group {group} is there: {names} get these rights, too"));
        }
    }

    /// A file of ours.
    fn file(&mut self, path: &str, lines: &str, absent: &str, steps: &mut Vec<Step>) -> Result<()> {
        if self.system.stat(system::folder(path)).is_err() {
            self.applied.skipped.push(Skipped { what: path.into(), reason: absent.into() });
            return Ok(());
        }
        let head = "# Made by `isolator setup-user`; `isolator setup-user --undo` takes it away again.\n";
        let text = format!("{head}{lines}");
        match Kept::of(self.system, path)? {
            Some(there) if there.text == text => self.applied.already.push(path.into()),
            Some(_) => return Err(self.taken(path)),
            None => steps.push(Step::File {
                path: path.into(),
                old: None,
                new: Some(Kept::new(&text, None)),
                own: OwnPart::Lines,
            }),
        }
        Ok(())
    }

    /// Why a file that is there, and is not as it is to be, is left.
    fn taken(&self, path: &str) -> Error {
        let mut steps = self.records.iter().flat_map(|record| &record.steps);
        let own = steps.any(|done| done.step.what() == path && done.outcome == StepOutcome::Done);
        let (why, cure) = match own {
            true => (
                "it is of another group, or was changed since",
                "undo that first: isolator setup-user --undo",
            ),
            false => {
                ("it is there and was not made by this program", "look at what it is for, and move it away")
            }
        };
        Error::new(format!("write {path}"), why, cure)
    }

    fn device(&mut self, gid: u32, steps: &mut Vec<Step>) {
        let skip = |reason: String| Skipped { what: DEVICE.into(), reason };
        let new = FileAccess { uid: 0, gid, mode: 0o660 };
        match FileAccess::of(self.system, DEVICE) {
            Err(error) => self.applied.skipped.push(skip(error::reason(&error))),
            Ok(old) if old == new => self.applied.already.push(DEVICE.into()),
            Ok(old) if old.mode & !0o666 != 0 => {
                self.applied.skipped.push(skip(format!("its permissions are {:o}", old.mode)));
            }
            Ok(old) => steps.push(Step::Access { path: DEVICE.into(), old, new }),
        }
    }

    /// The copy of this program; an older copy of ours is replaced.
    fn program(&mut self, gid: u32, capabilities: Vec<String>, steps: &mut Vec<Step>) -> Result<()> {
        let own = self.system.own_program();
        let (sha256, bytes) = own.map_err(|error| failed("read", "this program", &error))?;
        if rights::is_placed(self.system, PROGRAM, &sha256, gid, &capabilities) {
            self.applied.already.push(PROGRAM.into());
            return Ok(());
        }
        if let Ok(there) = self.system.digest(PROGRAM) {
            let mut steps = self.records.iter().flat_map(|record| &record.steps);
            let ours =
                steps.any(|done| matches!(&done.step, Step::Program { sha256, .. } if *sha256 == there));
            if !ours {
                return Err(self.taken(PROGRAM));
            }
        } else if self.system.stat(PROGRAM).is_ok() {
            return Err(self.taken(PROGRAM));
        }
        steps.push(Step::Program { path: PROGRAM.into(), sha256, bytes, gid, capabilities });
        Ok(())
    }
}

/// Whether a source of accounts beside the files has a name.
fn known(system: &mut dyn System, database: &str, name: &str) -> bool {
    let asked = ["getent", database, "--", name].map(String::from);
    system.run(&asked).is_ok_and(|ran| ran.good && !ran.output.is_empty())
}

fn check_user(system: &mut dyn System, user: &str) -> Result<()> {
    let what = format!("give rights to user '{}'", untrusted::text::clean(user));
    let passwd = system::lossy(system, "/etc/passwd").unwrap_or_default();
    match accounts::lines(&passwd).find(|line| line[0] == user) {
        Some(line) if line.get(2) == Some(&"0") => {
            Err(Error::new(what, "root has them all", "name the user that is to measure"))
        }
        Some(_) if is_account(user) => Ok(()),
        None if is_account(user) && known(system, "passwd", user) => Ok(()),
        _ => Err(Error::new(
            what,
            "there is no such user",
            "make it by useradd, or name one of `getent passwd`",
        )),
    }
}

/// The highest number of a system group that no group and no user has, as groupadd(8) chooses it.
fn free_gid(system: &mut dyn System, groups: &str) -> Result<u32> {
    let settings = system::lossy(system, "/etc/login.defs").unwrap_or_default();
    let setting = |name: &str| {
        let mut lines = settings.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.find(|words| words.first() == Some(&name))?.get(1)?.parse::<u32>().ok()
    };
    let (first, last) = (setting("SYS_GID_MIN").unwrap_or(101), setting("SYS_GID_MAX").unwrap_or(999));
    let users = system::lossy(system, "/etc/passwd").unwrap_or_default();
    let numbers = |text: &str, at: &[usize]| -> Vec<u32> {
        let of_line =
            |line: Vec<&str>| at.iter().filter_map(|at| line.get(*at)?.parse().ok()).collect::<Vec<_>>();
        accounts::lines(text).flat_map(of_line).collect()
    };
    let taken: BTreeSet<u32> = numbers(groups, &[2]).into_iter().chain(numbers(&users, &[2, 3])).collect();
    let mut free = (first.max(1)..=last).rev().filter(|gid| !taken.contains(gid));
    let found = free.find(|gid| !known(system, "group", &gid.to_string()));
    found.ok_or_else(|| {
        let why = format!("each number from {first} to {last} is a group's or a user's");
        Error::new("make a group", why, "name a group that is there by --group")
    })
}

#[cfg(test)]
mod tests;
