// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rights of the session that asks: limits, capabilities, groups, and what configuration promises.

use std::collections::BTreeMap;

use machine::inventory::{ProgramCopy, SessionLimit, UserSession};

use crate::accounts;
use crate::tree::Tree;

/// Groups that distributions and guides give real-time rights to.
const GROUPS: &[&str] = &["audio", "dialout", "jackuser", "pipewire", "realtime", "rt", "rtkit"];

/// The copy of this program that `isolator setup-user --capabilities` makes.
const COPY: &str = "usr/local/bin/isolator-realtime";
/// Where packages and `make install` put the program.
const INSTALLED: [&str; 2] = ["usr/bin/isolator", "usr/local/bin/isolator"];

pub(super) fn read(tree: &mut Tree) -> UserSession {
    let status = tree.hint("proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let rules = rules(tree);
    let uid: Option<u32> = field("Uid").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    UserSession {
        uid,
        user: uid.and_then(|uid| user(&tree.hint("etc/passwd").unwrap_or_default(), uid)),
        capabilities: field("CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok()),
        seccomp: field("Seccomp").and_then(|mode| mode.parse().ok()),
        groups: field("Groups")
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect(),
        limits: limits(&tree.hint("proc/self/limits").unwrap_or_default()),
        known_groups: known_groups(&tree.hint("etc/group").unwrap_or_default(), &rules),
        rules,
        without_limits_folder: !tree.exists("etc/security/limits.d"),
        copy: copy(tree),
    }
}

/// Compares the copy with each program that is installed.
fn copy(tree: &Tree) -> Option<ProgramCopy> {
    if !tree.exists(COPY) {
        return None;
    }
    let mut state =
        ProgramCopy::Unknown { reason: format!("none of /{} is installed", INSTALLED.join(", /")) };
    for path in INSTALLED.iter().filter(|path| tree.exists(path)) {
        match tree.same(COPY, path) {
            Ok(true) => return Some(ProgramCopy::Same),
            Ok(false) => state = ProgramCopy::Differs { installed: format!("/{path}") },
            Err(error) => {
                let reason = error::reason(&error);
                return Some(ProgramCopy::Unknown { reason });
            }
        }
    }
    Some(state)
}

fn user(passwd: &str, uid: u32) -> Option<String> {
    let is_own = |fields: &Vec<&str>| fields.get(2).and_then(|id| id.parse().ok()) == Some(uid);
    accounts::lines(passwd).find(is_own).map(|fields| fields[0].to_string())
}

/// A line is a name of several words, then soft, hard and mostly a unit, with spaces between.
fn limits(text: &str) -> BTreeMap<String, SessionLimit> {
    let value = |word: &str| if word == "unlimited" { Some(None) } else { word.parse().ok().map(Some) };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| value(word).is_some())?;
        let (soft, hard) = (value(words[at])?, value(words.get(at + 1)?)?);
        Some((words[..at].join(" "), SessionLimit { soft, hard }))
    };
    text.lines().filter_map(line).filter(|(name, _)| name.starts_with("Max ")).collect()
}

fn known_groups(text: &str, rules: &[String]) -> BTreeMap<String, (u32, Vec<String>)> {
    let is_known =
        |name: &str| GROUPS.contains(&name) || rules.iter().any(|rule| rule.contains(&format!(": @{name} ")));
    let known = accounts::groups(text).filter(|[name, ..]| is_known(name));
    let group = |[name, _, id, members]: [&str; 4]| {
        let members = accounts::members(members).into_iter().map(str::to_string).collect();
        Some((name.to_string(), (id.parse().ok()?, members)))
    };
    known.filter_map(group).collect()
}

/// In the order in which pam_limits reads them.
fn rules(tree: &mut Tree) -> Vec<String> {
    let folder = "etc/security/limits.d";
    let names = tree.names(folder).into_iter().filter(|name| name.ends_with(".conf"));
    let files: Vec<String> = std::iter::once("etc/security/limits.conf".to_string())
        .chain(names.map(|name| format!("{folder}/{name}")))
        .collect();
    let mut rules = Vec::new();
    for file in files {
        let text = tree.hint(&file).unwrap_or_default();
        for line in text.lines() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            if words.len() == 4
                && ["rtprio", "memlock", "nice", "rttime"].contains(&words[2])
                && rules.len() < 100
            {
                rules.push(format!("/{file}: {}", words.join(" ")));
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn the_copy_is_compared_with_what_is_installed() {
        let (own, bin, local) = (("usr/local/bin/isolator-realtime", "new"), INSTALLED[0], INSTALLED[1]);
        let differs = |path: &str| ProgramCopy::Differs { installed: format!("/{path}") };
        for (files, state) in [
            (vec![(bin, "new")], None),
            (vec![own, (bin, "new")], Some(ProgramCopy::Same)),
            (vec![own, (bin, "old"), (local, "new")], Some(ProgramCopy::Same)),
            (vec![own, (bin, "old")], Some(differs(bin))),
            (vec![own, (local, "newer")], Some(differs(local))),
        ] {
            assert_eq!(copy(&made_of(&files).1), state, "{files:?}");
        }
        let alone = copy(&made_of(&[own]).1).unwrap();
        assert!(matches!(alone, ProgramCopy::Unknown { reason } if reason.contains("/usr/bin/isolator")));
    }

    #[test]
    fn reads_limits_groups_and_rules() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max locked memory         8388608              unlimited            bytes     \n\
            Max realtime priority     0                    95                             \n\
            Max nonsense              many                 few\n";
        let session = read(
            &mut made_of(&[
                ("proc/self/limits", limits),
                ("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nGroups:\t4 29 1000 \nCapEff:\t0000000000800000\nSeccomp:\t2\n"),
                ("etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n"),
                ("etc/group", "audio:x:29:ann,bob\nrealtime:x:998:\nbroken:x\nwheel:x:10:ann\nrobots:x:990:eve\n"),
                ("etc/security/limits.conf", "# @audio - rtprio 95\nann soft nofile 10\n"),
                ("etc/security/limits.d/95-rt.conf", "@realtime - rtprio 95 # for the robot\n@realtime - memlock\n@robots - nice -11\n"),
                ("etc/security/limits.d/README", "x - rtprio 1\n"),
            ])
            .1,
        );
        assert_eq!(session.limits["Max realtime priority"], SessionLimit { soft: Some(0), hard: Some(95) });
        assert_eq!(session.limits["Max locked memory"], SessionLimit { soft: Some(8_388_608), hard: None });
        assert_eq!((session.limits.len(), session.user.as_deref()), (2, Some("ann")));
        assert_eq!(
            (session.capable(23), session.capable(14), session.seccomp),
            (Some(true), Some(false), Some(2))
        );
        assert_eq!(session.known_groups["audio"], (29, vec!["ann".to_string(), "bob".to_string()]));
        assert_eq!(session.known_groups["robots"], (990, vec!["eve".to_string()]));
        assert_eq!(session.known_groups.len(), 3);
        let rules = ["@realtime - rtprio 95", "@robots - nice -11"];
        assert_eq!(session.rules, rules.map(|rule| format!("/etc/security/limits.d/95-rt.conf: {rule}")));
        assert_eq!(session.copy, None);
    }
}
