// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps that give users rights: members of a group, the permissions of a device, and a copy of this program
//! with capabilities.
//!
//! They keep no copy of the files that they change, which hold more than ours: a step knows its own users and
//! its own bytes, and takes out these alone. A file of groups is never written over: half of it would lock
//! users out.

use std::io;

use inspect::accounts::{self, members};

use super::files;
use crate::accounts::attribute;
use crate::places::PROGRAM_MODE;
use crate::record::kept::Lossless;
use crate::record::{Restoration, StepOutcome};
use crate::system::{self, FileAccess, System, failed};
use crate::{Error, Result};

/// The fields of a group's line.
pub fn line_of<'t>(text: &'t str, group: &str) -> Option<[&'t str; 4]> {
    accounts::groups(text).find(|[name, ..]| *name == group)
}

/// `text` with the line of `group` changed by `change`, which gives none where the line is to go.
fn changed(text: &str, group: &str, change: impl FnOnce(Vec<&str>) -> Option<Vec<String>>) -> String {
    let mut change = Some(change);
    let mut new = String::new();
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        match line_of(bare, group).and_then(|fields| Some((fields, change.take()?))) {
            None => new.push_str(line),
            Some(([name, password, gid, list], change)) => {
                if let Some(members) = change(members(list)) {
                    new.push_str(&format!("{name}:{password}:{gid}:{}", members.join(",")));
                    new.push_str(&line[bare.len()..]);
                }
            }
        }
    }
    new
}

/// `text` with `users` in the line of `group`; with `line` at its end, and them in it, where there is none.
fn with_members(text: &str, group: &str, line: Option<&str>, users: &[String]) -> Option<String> {
    let mut text = text.to_string();
    if line_of(&text, group).is_none() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(line?);
        text.push('\n');
    }
    Some(changed(&text, group, |members| {
        let mut all: Vec<String> = members.iter().map(ToString::to_string).collect();
        all.extend(users.iter().filter(|user| !members.contains(&user.as_str())).cloned());
        Some(all)
    }))
}

/// `text` without `users` in the line of `group`, and without that line where it was `made` here and has no
/// other user.
fn without_members(text: &str, group: &str, made: bool, users: &[String]) -> String {
    changed(text, group, |members| {
        let others = members.into_iter().filter(|name| !users.iter().any(|user| user == name));
        let others: Vec<String> = others.map(String::from).collect();
        (!made || !others.is_empty()).then_some(others)
    })
}

fn read(system: &dyn System, path: &str) -> Result<Option<Lossless>> {
    Lossless::of(system, path).map_err(|error| failed("read", path, &error))
}

/// Puts users into a group.
pub(super) fn add_members(
    system: &mut dyn System,
    path: &str,
    group: &str,
    line: Option<&str>,
    users: &[String],
) -> Result<StepOutcome> {
    let gone = |why: &str| Err(Error::new(format!("write {path}"), why, "run the same command again"));
    let Some(now) = read(system, path)? else { return gone("it is gone") };
    let Some(text) = with_members(&now.text, group, line, users) else {
        return gone("another program removed the group just now");
    };
    if text == now.text {
        return Ok(StepOutcome::AlreadySo);
    }
    files::put_whole(system, path, &now.bytes(&text))?;
    Ok(StepOutcome::Done)
}

/// Takes them out again, and the group too where it was made here.
pub(super) fn remove_members(
    system: &mut dyn System,
    path: &str,
    group: &str,
    line: Option<&str>,
    users: &[String],
) -> Result<Restoration> {
    files::tidy(system, path);
    let Some(now) = read(system, path)? else {
        return Ok(Restoration::Left("another program removed it".into()));
    };
    if line_of(&now.text, group).is_none() {
        return Ok(Restoration::Untouched);
    }
    // A user's own group stays: their files would belong to a number.
    let own = |[_, _, gid, _]: [&str; 4]| {
        owner_of(system, gid).map(|user| format!("it is the group of user {user}"))
    };
    let kept = line_of(&now.text, group).filter(|_| line.is_some()).and_then(own);
    let made = line.is_some() && kept.is_none();
    let text = without_members(&now.text, group, made, users);
    if text != now.text {
        files::put_whole(system, path, &now.bytes(&text))?;
    }
    let others = line_of(&text, group).map_or(Vec::new(), |[_, _, _, list]| members(list));
    Ok(match kept {
        Some(why) => Restoration::Left(format!("group {group} stays, since {why}")),
        None if made && !others.is_empty() => Restoration::Left(format!(
            "group {group} stays, since it has other members: {}",
            others.join(", ")
        )),
        None if text == now.text => Restoration::Untouched,
        None => Restoration::Restored,
    })
}

/// A user whose own group it is.
fn owner_of(system: &dyn System, gid: &str) -> Option<String> {
    let gid = Some(gid).filter(|gid| !gid.is_empty() && gid.bytes().all(|byte| byte.is_ascii_digit()))?;
    let users = system::lossy(system, "/etc/passwd")?;
    accounts::lines(&users).find(|user| user.get(3) == Some(&gid)).map(|user| user[0].to_string())
}

/// Gives a device its new owner and permissions.
pub(super) fn set_access(
    system: &mut dyn System,
    path: &str,
    old: FileAccess,
    new: FileAccess,
) -> Result<StepOutcome> {
    let now = FileAccess::of(system, path).map_err(|error| failed("look at", path, &error))?;
    if now == new {
        return Ok(StepOutcome::AlreadySo);
    }
    if now != old {
        let why = "another program changed its permissions just now";
        return Err(Error::new(format!("change {path}"), why, "run the same command again"));
    }
    system.set_access(path, new).map_err(|error| failed("change", path, &error))?;
    Ok(StepOutcome::Done)
}

/// Gives it the old ones again.
pub(super) fn give_back_access(
    system: &mut dyn System,
    path: &str,
    old: FileAccess,
    new: FileAccess,
) -> Result<Restoration> {
    Ok(match FileAccess::of(system, path) {
        Err(_) => Restoration::Gone,
        Ok(now) if now == old => Restoration::Untouched,
        Ok(now) if now.gid != new.gid => {
            Restoration::Left("another program changed its permissions since".into())
        }
        Ok(_) => {
            system.set_access(path, old).map_err(|error| failed("change", path, &error))?;
            Restoration::Restored
        }
    })
}

/// Whether the copy at `path` is the program of these bytes, with this group and these capabilities.
pub fn is_placed(system: &dyn System, path: &str, sha256: &str, gid: u32, capabilities: &[String]) -> bool {
    let wanted = FileAccess { uid: 0, gid, mode: PROGRAM_MODE };
    let given = system.file_capabilities(path).unwrap_or_default();
    FileAccess::of(system, path).is_ok_and(|now| now == wanted)
        && Some(given) == attribute(capabilities)
        && system.digest(path).is_ok_and(|now| now == sha256)
}

/// Puts the copy in place.
pub(super) fn place(
    system: &mut dyn System,
    path: &str,
    sha256: &str,
    gid: u32,
    capabilities: &[String],
) -> Result<StepOutcome> {
    if is_placed(system, path, sha256, gid, capabilities) {
        return Ok(StepOutcome::AlreadySo);
    }
    let Some(attribute) = attribute(capabilities) else {
        return Err(Error::new(format!("write {path}"), "it may not have these capabilities", "report this"));
    };
    let access = FileAccess { uid: 0, gid, mode: PROGRAM_MODE };
    let beside = system.copy_own_beside(path, access, &attribute).map_err(|error| match error.kind() {
        io::ErrorKind::Other | io::ErrorKind::Unsupported => Error::new(
            format!("give {path} capabilities"),
            error::reason(&error),
            "use a file system that has capabilities and is mounted without nosuid, or leave --capabilities out",
        ),
        _ => failed("write", path, &error),
    })?;
    let placed = system.sync(&beside).and_then(|()| system.rename(&beside, path));
    if let Err(error) = placed {
        let _ = system.remove(&beside);
        return Err(failed("write", path, &error));
    }
    system.sync_folder(system::folder(path)).map_err(|error| failed("write", path, &error))?;
    if is_placed(system, path, sha256, gid, capabilities) {
        return Ok(StepOutcome::Done);
    }
    Err(Error::new(format!("write {path}"), "it reads back otherwise", "check the medium and try again"))
}

/// Takes the copy away.
pub(super) fn take_away(system: &mut dyn System, path: &str, sha256: &str) -> Result<Restoration> {
    files::tidy(system, path);
    match system.digest(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restoration::Untouched),
        Err(error) => return Err(failed("read", path, &error)),
        Ok(now) if now != sha256 => {
            return Ok(Restoration::Left(
                "another program changed it; remove it by hand where it is not wanted".into(),
            ));
        }
        Ok(_) => {}
    }
    let removed = system.remove(path).and_then(|()| system.sync_folder(system::folder(path)));
    removed.map_err(|error| failed("remove", path, &error))?;
    Ok(Restoration::Restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "root:x:0:\naudio:x:29:pulse\nrealtime:x:990:ann,bob\n";

    fn users(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn adds_users_to_a_line_and_takes_out_these_alone() {
        let line = Some("robot:x:989:");
        let with = with_members(TEXT, "robot", line, &users(&["ann", "eve"])).unwrap();
        assert_eq!(with, format!("{TEXT}robot:x:989:ann,eve\n"));
        assert_eq!(without_members(&with, "robot", true, &users(&["ann", "eve"])), TEXT);
        let with = with_members(TEXT, "audio", None, &users(&["pulse", "eve"])).unwrap();
        assert_eq!(with, TEXT.replace("pulse", "pulse,eve"));
        assert_eq!(without_members(&with, "audio", false, &users(&["eve"])), TEXT);
        assert_eq!(with_members(TEXT, "robot", None, &users(&["eve"])), None);
        // A user whom another program added keeps the group.
        let more =
            with_members(TEXT, "robot", line, &users(&["ann"])).unwrap().replace("989:ann", "989:ann,eve");
        assert_eq!(
            without_members(&more, "robot", true, &users(&["ann"])),
            format!("{TEXT}robot:x:989:eve\n")
        );
        assert_eq!(with_members("root:x:0:", "a", Some("a:x:9:"), &[]).unwrap(), "root:x:0:\na:x:9:\n");
    }
}
