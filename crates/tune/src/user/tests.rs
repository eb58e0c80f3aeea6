// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights of users on a machine in memory: given, given again, taken, with a fault at each change.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use machine::Snapshot;

use super::*;
use crate::system::CommandResult;
use crate::system::SUFFIX;
use crate::system::memory::{InjectedFault, MemoryMachine, PowerCut};
use crate::transaction::Restoration;

const GROUP_FILE: &str = "root:x:0:\naudio:x:29:pulse\nsystemd-network:x:998:\nusers:x:100:\n";
const SHADOW_FILE: &str = "root:*::\naudio:*::pulse\nsystemd-network:!*::\nusers:*::\n";
const PASSWD_FILE: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n\
                           bob:x:1001:100::/home/bob:/bin/sh\nsvc:x:999:999::/:/bin/false\n";

fn machine() -> MemoryMachine {
    let mut system = MemoryMachine::default();
    for (path, text) in [
        ("/etc/group", GROUP_FILE),
        ("/etc/gshadow", SHADOW_FILE),
        ("/etc/passwd", PASSWD_FILE),
        ("/etc/login.defs", "# system groups\nSYS_GID_MIN 100\nSYS_GID_MAX\t999\n"),
        ("/etc/security/limits.d/README", "none\n"),
        ("/etc/udev/rules.d/README", "none\n"),
        ("/usr/local/bin/other", "#!/bin/sh\n"),
        ("/proc/sys/kernel/random/boot_id", "first\n"),
        (DEVICE, ""),
    ] {
        system.put(path, text.as_bytes());
    }
    system.set_access(DEVICE, FileAccess { uid: 0, gid: 0, mode: 0o600 }).unwrap();
    system.own = b"\x7fELF this program".to_vec();
    // No other source knows a user or a group.
    system.answer = Some(|_, _| CommandResult::default());
    system.power_on();
    system.changes.clear();
    system
}

fn with<T>(system: &mut MemoryMachine, does: impl FnOnce(&mut Here<'_>) -> T) -> T {
    let facts = Snapshot::default();
    let stamp = format!("20260101-{:06}", system.changes.len());
    does(&mut Here { system, root: Path::new("/nowhere"), machine: &facts, stamp })
}

fn wanted(users: &[&str], program: Option<ProgramRights>) -> UserRights {
    let users = users.iter().map(ToString::to_string).collect();
    UserRights { users, group: GROUP.into(), program, dry_run: false }
}

fn set_up_for(system: &mut MemoryMachine, users: &[&str], program: Option<ProgramRights>) -> Result<Applied> {
    with(system, |here| set_up(here, &wanted(users, program)))
}

/// Bytes, permissions and capabilities of each file but the records, and of none that lies beside another
/// until it is in place.
fn state(system: &MemoryMachine) -> BTreeMap<String, (Vec<u8>, FileAccess, Vec<u8>)> {
    let files = system.files().into_iter();
    let files = files.filter(|(path, _)| !path.starts_with("/var/lib/") && !path.ends_with(SUFFIX));
    files
        .map(|(path, bytes)| {
            let access = FileAccess::of(system, &path).unwrap();
            let capabilities = system.file_capabilities(&path).unwrap();
            (path, (bytes, access, capabilities))
        })
        .collect()
}

fn text(system: &MemoryMachine, path: &str) -> String {
    String::from_utf8(system.read(path).unwrap()).unwrap()
}

fn refused(system: &mut MemoryMachine, wanted: &UserRights) -> String {
    let before = state(system);
    let error = with(system, |here| set_up(here, wanted)).unwrap_err().to_string();
    assert_eq!(state(system), before, "{error}");
    assert_eq!(store::all(system).unwrap().iter().filter(|record| record.live()).count(), 0, "{error}");
    error
}

#[test]
fn gives_rights_and_takes_all_of_them_again() {
    let mut system = machine();
    let before = state(&system);
    let dry = with(&mut system, |here| {
        set_up(here, &UserRights { dry_run: true, ..wanted(&["ann"], Some(ProgramRights::Bpf)) })
    });
    let dry = dry.unwrap();
    assert_eq!((state(&system), system.changes.len()), (before.clone(), system.commands.len()));
    let planned: Vec<&str> = dry.steps.iter().map(|step| step.what.as_str()).collect();
    assert_eq!(planned, [GROUPS[0], GROUPS[1], USER_LIMITS_FILE, RULES_FILE, DEVICE, PROGRAM]);
    assert_eq!(dry.steps[0].after, "realtime with ann");
    assert_eq!(
        dry.steps[2].after,
        "@realtime - rtprio 98; @realtime - memlock unlimited; @realtime - nice -11"
    );

    let done = set_up_for(&mut system, &["ann"], Some(ProgramRights::Bpf)).unwrap();
    assert_eq!(done.steps.iter().filter(|step| step.outcome == StepOutcome::Done).count(), 6);
    // 999 is a user's and its group's, 998 a group's.
    assert_eq!(text(&system, GROUPS[0]), format!("{GROUP_FILE}realtime:x:997:ann\n"));
    assert_eq!(text(&system, GROUPS[1]), format!("{SHADOW_FILE}realtime:!::ann\n"));
    let device = FileAccess::of(&system, DEVICE).unwrap();
    assert_eq!(device, FileAccess { uid: 0, gid: 997, mode: 0o660 });
    let program = FileAccess::of(&system, PROGRAM).unwrap();
    assert_eq!(program, FileAccess { uid: 0, gid: 997, mode: 0o750 });
    assert_eq!(system.read(PROGRAM).unwrap(), system.own);

    // Again: nothing more is done.
    let after = state(&system);
    let again = set_up_for(&mut system, &["ann"], Some(ProgramRights::Bpf)).unwrap();
    assert_eq!((again.steps.len(), again.records.len(), again.already.len()), (0, 0, 6), "{again:#?}");
    assert_eq!(state(&system), after);

    // Another user, and another program: the copy is renewed.
    system.own = b"\x7fELF a newer program".to_vec();
    let more = set_up_for(&mut system, &["bob", "ann"], Some(ProgramRights::Scheduling)).unwrap();
    let changed: Vec<&str> = more.steps.iter().map(|step| step.what.as_str()).collect();
    assert_eq!(changed, [GROUPS[0], GROUPS[1], PROGRAM]);
    assert!(text(&system, GROUPS[0]).ends_with("realtime:x:997:ann,bob\n"));
    assert_eq!(system.read(PROGRAM).unwrap(), system.own);

    let undone = with(&mut system, undo).unwrap();
    assert_eq!((undone.records.len(), undone.left.len()), (2, 0), "{undone:#?}");
    assert_eq!(state(&system), before);
    assert_eq!(with(&mut system, undo).unwrap().records.len(), 0);
}

#[test]
fn undone_after_a_boot_the_device_is_roots() {
    let mut system = machine();
    let before = state(&system);
    set_up_for(&mut system, &["ann"], None).unwrap();
    // udev gave it its permissions anew.
    system.settings.insert("/proc/sys/kernel/random/boot_id".into(), "second\n".into());
    with(&mut system, undo).unwrap();
    assert_eq!(state(&system), before);
}

#[test]
fn a_fault_at_each_change_is_undone() {
    let faults = [
        InjectedFault::Kill,
        InjectedFault::Refuse(ErrorKind::PermissionDenied),
        InjectedFault::Full,
        InjectedFault::ReadOnly,
    ];
    let before = state(&machine());
    let mut whole = machine();
    set_up_for(&mut whole, &["ann", "bob"], Some(ProgramRights::Bpf)).unwrap();
    let forth = whole.changes.len();
    let mut back = whole.clone();
    with(&mut back, undo).unwrap();
    assert!(forth > 30 && back.changes.len() > forth + 15, "{forth} {}", back.changes.len());
    for (at, fault) in (0..back.changes.len()).flat_map(|at| faults.map(|fault| (at, fault))) {
        for cut in [None, Some(PowerCut::Everything), Some(PowerCut::Nothing)] {
            let mut system = if at < forth { machine() } else { whole.clone() };
            system.fault = Some((at, fault));
            if at < forth {
                let _ = set_up_for(&mut system, &["ann", "bob"], Some(ProgramRights::Bpf));
            } else {
                let _ = with(&mut system, undo);
            }
            // The next process, or the next boot.
            let mut system = match cut {
                None => system.revived(),
                Some(lost) => system.after_power_cut(lost),
            };
            let undone = with(&mut system, undo).unwrap();
            assert_eq!(undone.left, Vec::<String>::new(), "{at} {fault:?} {cut:?}");
            assert_eq!(state(&system), before, "{at} {fault:?} {cut:?}");
            let beside = |path: &String| path.ends_with(SUFFIX) && !path.starts_with("/var/lib/");
            assert!(!system.files().keys().any(beside), "{at} {fault:?} {cut:?}");
        }
    }
}

#[test]
fn an_interrupted_setup_is_undone_by_the_next_one() {
    let mut system = machine();
    system.fault = Some((20, InjectedFault::Kill));
    set_up_for(&mut system, &["ann"], None).unwrap_err();
    let mut system = system.revived();
    let done = set_up_for(&mut system, &["bob"], None).unwrap();
    assert_eq!(done.recovered.len(), 1);
    assert!(text(&system, GROUPS[0]).ends_with("realtime:x:997:bob\n"));
}

#[test]
fn a_group_that_was_there_stays_and_its_members_are_named() {
    let mut system = machine();
    let before = state(&system);
    let audio = UserRights { group: "audio".into(), ..wanted(&["ann"], None) };
    let done = with(&mut system, |here| set_up(here, &audio)).unwrap();
    assert!(done.already.contains(&"group audio is there: pulse get these rights, too".into()), "{done:#?}");
    assert!(text(&system, GROUPS[0]).contains("audio:x:29:pulse,ann\n"));
    assert!(text(&system, USER_LIMITS_FILE).contains("@audio - rtprio 98\n"));
    // Another group at the same time would take the device away from the first one.
    let error = set_up_for(&mut system, &["bob"], None).unwrap_err().to_string();
    assert!(error.ends_with("undo that first: isolator setup-user --undo"), "{error}");
    with(&mut system, undo).unwrap();
    assert_eq!(state(&system), before);
    // A user's own group.
    let users = UserRights { group: "users".into(), ..wanted(&["ann"], None) };
    let done = with(&mut system, |here| set_up(here, &users)).unwrap();
    assert!(done.already.contains(&"group users is there: bob get these rights, too".into()), "{done:#?}");
}

#[test]
fn what_others_added_since_stays() {
    let mut system = machine();
    set_up_for(&mut system, &["ann"], Some(ProgramRights::Scheduling)).unwrap();
    let group = text(&system, GROUPS[0]).replace(":ann\n", ":ann,eve\n") + "eve:x:1003:\n";
    system.put(GROUPS[0], group.as_bytes());
    let limits = text(&system, USER_LIMITS_FILE) + "@robot - rtprio 10\n";
    system.put(USER_LIMITS_FILE, limits.as_bytes());
    system.put(PROGRAM, b"another program");
    let undone = with(&mut system, undo).unwrap();
    assert_eq!(text(&system, GROUPS[0]), format!("{GROUP_FILE}realtime:x:997:eve\neve:x:1003:\n"));
    assert_eq!(text(&system, USER_LIMITS_FILE), "@robot - rtprio 10\n");
    assert_eq!(text(&system, PROGRAM), "another program");
    let left = undone.records[0].undone.iter().filter_map(|undone| match &undone.became {
        Restoration::Left(why) => Some(format!("{}: {why}", undone.what)),
        _ => None,
    });
    let left: Vec<String> = left.collect();
    assert!(
        left.contains(&"/etc/group: group realtime stays, since it has other members: eve".into()),
        "{left:?}"
    );
    assert!(left.iter().any(|left| left.starts_with(PROGRAM)), "{left:?}");
}

#[test]
fn a_users_own_group_stays() {
    let mut system = machine();
    set_up_for(&mut system, &["ann"], None).unwrap();
    let passwd = format!("{PASSWD_FILE}robot:x:1004:997::/:/bin/sh\n");
    system.put("/etc/passwd", passwd.as_bytes());
    with(&mut system, undo).unwrap();
    assert_eq!(text(&system, GROUPS[0]), format!("{GROUP_FILE}realtime:x:997:\n"));
}

#[test]
fn tune_leaves_users_their_rights() {
    let mut system = machine();
    set_up_for(&mut system, &["ann"], None).unwrap();
    let after = state(&system);
    assert_eq!(with(&mut system, |here| change::roll_back(here, None)).unwrap().records.len(), 0);
    assert_eq!(state(&system), after);
    let status = with(&mut system, change::status).unwrap();
    assert_eq!((status.records.len(), status.records[0].lost.len()), (1, 0), "{status:#?}");
}

#[test]
fn refuses_users_and_groups_that_cannot_have_them() {
    let mut system = machine();
    for (users, group, expected) in [
        (&["eve"][..], GROUP, "cannot give rights to user 'eve': there is no such user; "),
        (&["ann", "eve"], GROUP, "cannot give rights to user 'eve': there is no such user; "),
        (&["root"], GROUP, "cannot give rights to user 'root': root has them all; "),
        (&["-x"], GROUP, "cannot give rights to user '-x': there is no such user; "),
        (&["ann:x"], GROUP, "cannot give rights to user 'ann:x': there is no such user; "),
        (&["ann"], "root", "cannot use group root: it is root's; "),
        (&["ann"], "a:b", "cannot use group a:b: a group's name has letters, "),
        (&["ann"], "x$kernel", "cannot use group x$kernel: a group's name has letters, "),
    ] {
        let group = group.to_string();
        let error = refused(&mut system, &UserRights { group, ..wanted(users, None) });
        assert!(error.starts_with(expected), "{error}");
    }
    // A directory service has the group, and any user.
    system.answer =
        Some(|_, _| CommandResult { good: true, output: b"x".to_vec(), ..CommandResult::default() });
    let error = refused(&mut system, &wanted(&["eve"], None));
    assert!(error.contains("another source of groups than /etc/group has it"), "{error}");
}

#[test]
fn refuses_to_replace_files_of_others() {
    for path in [USER_LIMITS_FILE, RULES_FILE, PROGRAM] {
        let mut system = machine();
        system.put(path, b"another's\n");
        let error = refused(&mut system, &wanted(&["ann"], Some(ProgramRights::Bpf)));
        assert_eq!(
            error,
            format!(
                "cannot write {path}: it is there and was not made by this program; look at what it is for, and move it away"
            )
        );
    }
}

#[test]
fn a_machine_without_pam_and_udev_lists_what_it_lacks() {
    let mut system = machine();
    for path in ["/etc/security/limits.d/README", "/etc/udev/rules.d/README", DEVICE, "/etc/gshadow"] {
        system.remove(path).unwrap();
    }
    system.remove_folder("/etc/security/limits.d").unwrap();
    system.remove_folder("/etc/udev/rules.d").unwrap();
    let before = state(&system);
    let done = set_up_for(&mut system, &["ann"], None).unwrap();
    let skipped: Vec<&str> = done.skipped.iter().map(|skipped| skipped.what.as_str()).collect();
    assert_eq!(skipped, [USER_LIMITS_FILE, RULES_FILE, DEVICE]);
    assert_eq!(done.steps.len(), 1);
    with(&mut system, undo).unwrap();
    assert_eq!(state(&system), before);
}

#[test]
fn a_medium_without_room_for_the_copy_changes_nothing() {
    let mut system = machine();
    system.free = Some(1000);
    let error = refused(&mut system, &wanted(&["ann"], Some(ProgramRights::Bpf)));
    assert!(error.contains(" KiB left and "), "{error}");
    assert_eq!(system.changes.iter().filter(|change| !change.starts_with("run getent ")).count(), 0);
}
