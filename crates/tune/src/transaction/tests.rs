// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way back: words that other programs copied, steps that fail, records that cannot be believed, U-Boot's
//! variables.

use super::*;
use crate::boot::tests::{files, records};
use crate::places::RECORDS;
use crate::system::memory::{InjectedFault, MemoryMachine};
use crate::system::{CommandResult, System};

const ENTRIES: &str = "/boot/loader/entries";

/// The lasting change of a loader, done.
fn applied(name: &str) -> (MemoryMachine, Record) {
    let (mut system, mut record) = records(name).pop().unwrap();
    record.theirs = words::found(&system, &record.words);
    apply(&mut system, &mut record).unwrap();
    (system, record)
}

fn text(system: &MemoryMachine, path: &str) -> String {
    String::from_utf8(system.read(path).unwrap()).unwrap()
}

fn back(system: &mut MemoryMachine, record: &mut Record) -> Vec<Undone> {
    let gone = record.words.clone();
    roll_back_everywhere(system, record, &gone)
}

fn became<'u>(undone: &'u [Undone], path: &str) -> &'u Restoration {
    &undone.iter().rfind(|undone| undone.what == path).unwrap().became
}

fn has_words(system: &MemoryMachine, record: &Record) -> Vec<String> {
    words::found(system, &record.words).into_keys().collect()
}

#[test]
fn words_leave_the_entry_of_a_kernel_installed_since() {
    for name in ["fedora", "systemd-boot", "l4t"] {
        let (before, _) = records(name).pop().unwrap();
        let (mut system, mut record) = applied(name);
        let (path, line) = match name {
            "fedora" => (format!("{ENTRIES}/m-9.9.conf"), text(&system, "/etc/kernel/cmdline")),
            "systemd-boot" => {
                ("/boot/efi/loader/entries/m-9.9.conf".to_string(), text(&system, "/etc/kernel/cmdline"))
            }
            _ => ("/boot/firmware/cmdline.txt".to_string(), format!("root=x {}", record.words.join(" "))),
        };
        system.put(&path, format!("title new\noptions {line}\n").as_bytes());
        let undone = back(&mut system, &mut record);
        assert_eq!(became(&undone, &path), &Restoration::Stripped, "{name}");
        assert_eq!(has_words(&system, &record), Vec::<String>::new(), "{name}");
        let mut left = files(&system);
        left.remove(&path);
        assert_eq!(left, files(&before), "{name}");
        assert_eq!(record.state, RecordState::RolledBack);
    }
}

#[test]
fn words_that_were_there_before_stay() {
    let (mut system, mut record) = records("fedora").pop().unwrap();
    let path = format!("{ENTRIES}/other.conf");
    let theirs = format!("options ro {}\n", record.words[2]);
    system.put(&path, theirs.as_bytes());
    record.theirs = words::found(&system, &record.words);
    assert_eq!(record.theirs[&path], [record.words[2].clone()]);
    apply(&mut system, &mut record).unwrap();
    let undone = back(&mut system, &mut record);
    assert_eq!(still_changed(&undone).count(), 0, "{undone:?}");
    assert_eq!(text(&system, &path), theirs);
}

#[test]
fn an_entry_that_keeps_the_words_is_named() {
    let (mut system, mut record) = applied("fedora");
    let path = format!("{ENTRIES}/m-9.9.conf");
    system.put(&path, format!("options {}\n", record.words.join(" ")).as_bytes());
    system.fault = Some((system.changes.len(), InjectedFault::ReadOnly));
    let undone = back(&mut system, &mut record);
    assert!(
        matches!(became(&undone, &path), Restoration::Failed(why) if why.contains("read-only")),
        "{undone:?}"
    );
    assert_eq!(record.state, RecordState::RollingBack);
    let mut system = system.revived();
    assert_eq!(still_changed(&back(&mut system, &mut record)).count(), 0);
    assert_eq!(has_words(&system, &record), Vec::<String>::new());
    assert!(!record.live());
}

#[test]
fn a_variable_of_grub_loses_words_that_came_back() {
    let (mut system, mut record) = applied("rhel8");
    let path = "/boot/grub2/grubenv";
    let mut block = inspect::boot::grub::GrubEnvironment::read(&text(&system, path)).unwrap();
    let twice = format!("{} {}", block.get("kernelopts").unwrap(), record.words.join(" "));
    block.set("kernelopts", Some(&twice));
    system.put(path, block.text().unwrap().as_bytes());
    let undone = back(&mut system, &mut record);
    assert_eq!(still_changed(&undone).count(), 0, "{undone:?}");
    assert_eq!(has_words(&system, &record), Vec::<String>::new());
    assert_eq!(text(&system, path).len(), 1024);
}

#[test]
fn deployments_of_ostree_are_named_and_not_edited() {
    let (mut system, mut record) = applied("fedora");
    system.put("/run/ostree-booted", b"");
    let path = format!("{ENTRIES}/ostree-1.conf");
    let entry = format!("options {}\n", record.words.join(" "));
    system.put(&path, entry.as_bytes());
    let undone = back(&mut system, &mut record);
    assert!(
        matches!(became(&undone, &path), Restoration::Left(why) if why.contains("deployment")),
        "{undone:?}"
    );
    assert_eq!(text(&system, &path), entry);
}

#[test]
fn a_menu_loses_our_words_without_its_generator() {
    let (mut system, mut record) = applied("debian");
    let menu = "/boot/grub/grub.cfg";
    let newer = text(&system, menu) + "# a newer kernel\n";
    system.put(menu, newer.as_bytes());
    system.answer = Some(|_, _| CommandResult {
        good: false,
        complaint: "no such program".into(),
        ..CommandResult::default()
    });
    let undone = back(&mut system, &mut record);
    assert_eq!(became(&undone, menu), &Restoration::Stripped);
    assert_eq!(has_words(&system, &record), Vec::<String>::new());
    assert!(text(&system, menu).ends_with("# a newer kernel\n") && !record.live());
}

#[test]
fn a_line_in_our_drop_in_of_another_stays() {
    let (mut system, mut record) = applied("debian");
    let path = crate::places::DROP_IN;
    let edited = text(&system, path) + "GRUB_TIMEOUT=7\n";
    system.put(path, edited.as_bytes());
    let undone = back(&mut system, &mut record);
    assert_eq!(became(&undone, path), &Restoration::Stripped);
    assert_eq!(text(&system, path), "GRUB_TIMEOUT=7\n");
    // Words that another program wrote into its own line go too.
    let (mut system, mut record) = applied("debian");
    let edited =
        text(&system, path).replace("_DEFAULT \"", "_DEFAULT mine \"").replace(" isolcpus", " mine isolcpus");
    system.put(path, edited.as_bytes());
    back(&mut system, &mut record);
    assert_eq!(text(&system, path), "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT mine\"\n");
}

#[test]
fn a_full_store_refuses_before_anything_changes() {
    for name in ["debian", "l4t", "pi"] {
        let (mut system, mut record) = records(name).remove(0);
        let before = files(&system);
        system.fault = Some((system.changes.len(), InjectedFault::Full));
        let error = apply(&mut system, &mut record).unwrap_err().to_string();
        assert_eq!(files(&system), before, "{name}");
        assert!(error.ends_with("nothing was changed"), "{error}");
        assert_eq!(store::all(&system).unwrap(), []);
    }
}

#[test]
fn a_full_disk_stops_neither_a_record_nor_the_way_back() {
    for name in crate::boot::tests::WRITTEN {
        let (before, _) = records(name).pop().unwrap();
        let (mut system, mut record) = applied(name);
        system.fault = Some((system.changes.len(), InjectedFault::Full));
        let undone = back(&mut system, &mut record);
        assert_eq!(still_changed(&undone).count(), 0, "{name}: {undone:?}");
        assert_eq!(files(&system), files(&before), "{name}");
        assert_eq!(store::read(&system, &record.id).unwrap().state, RecordState::RolledBack, "{name}");
        // The space that was kept is free again.
        assert!(!system.names(RECORDS).unwrap().iter().any(|name| name.ends_with(".spare")), "{name}");
    }
}

#[test]
fn a_record_that_is_broken_is_read_from_its_spare() {
    let (mut system, record) = applied("fedora");
    let path = format!("{}/{}.json", RECORDS, record.id);
    system.put(&path, b"{");
    let mut read = store::read(&system, &record.id).unwrap();
    let (before, _) = records("fedora").pop().unwrap();
    assert_eq!(still_changed(&back(&mut system, &mut read)).count(), 0);
    assert_eq!(files(&system), files(&before));
    // Without a spare it is an error, which keeps no other record from being read.
    system.put(&path, b"{");
    system.put(&format!("{}/20260202-000000.json", RECORDS), b"{}");
    let (records, unread) = store::readable(&system).unwrap();
    assert_eq!((records.len(), unread.len()), (0, 2), "{unread:?}");
    assert!(store::all(&system).is_err());
}

#[test]
fn a_record_with_a_strange_step_is_refused_when_it_is_read() {
    let (mut system, record) = applied("fedora");
    let path = format!("{}/{}.json", RECORDS, record.id);
    let hostile = text(&system, &path).replace("/etc/kernel/cmdline", "/etc/shadow");
    system.put(&path, hostile.as_bytes());
    let error = store::read(&system, &record.id).unwrap_err().to_string();
    assert!(error.contains("no change of this program touches '/etc/shadow'"), "{error}");
    system.put(&format!("{}/1-other.json", RECORDS), text(&system, &path).as_bytes());
    assert!(store::read(&system, "1-other").unwrap_err().to_string().contains("it is of the record"));
    assert!(store::read(&system, "../../x").is_err());
}

#[test]
fn u_boots_variable_keeps_what_others_added_since() {
    let run = ["fw_setenv", "optargs", "quiet skew_tick=1"].map(String::from).to_vec();
    let undo = ["fw_setenv", "optargs", "quiet"].map(String::from).to_vec();
    let step = Step::Command { run, undo, volatile: false, needed: true };
    type Answer = fn(&MemoryMachine, &[String]) -> CommandResult;
    let ran = |answer: Answer| {
        let mut system = MemoryMachine::default();
        system.answer = Some(answer);
        let became = step::undo(&mut system, &step).unwrap();
        let last = system.commands.last().unwrap().join(" ");
        (became, last)
    };
    fn says(text: &str) -> CommandResult {
        CommandResult { good: true, output: text.as_bytes().to_vec(), complaint: String::new() }
    }
    let of = |(became, line): (Restoration, String), last: &str| {
        assert_eq!(line, last);
        became
    };
    assert_eq!(
        of(ran(|_, _| says("optargs=quiet skew_tick=1\n")), "fw_setenv optargs quiet"),
        Restoration::Restored
    );
    assert_eq!(
        of(ran(|_, _| says("optargs=quiet skew_tick=1 mine\n")), "fw_setenv optargs quiet mine"),
        Restoration::Restored
    );
    assert_eq!(of(ran(|_, _| says("optargs=other\n")), "fw_printenv"), Restoration::Untouched);
    assert_eq!(of(ran(|_, _| says("optargs=skew_tick=1\n")), "fw_setenv optargs"), Restoration::Restored);
}
