// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole boot trees: the bytes after an apply, apply twice, rollback, changes of other programs, and a power
//! cut at every single change.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use inspect::boot::grub;
use machine::Boot;
use machine::boot::Loader;
use similar::{Algorithm, Change, ChangeTag};

use super::*;
use crate::places::TRIAL;
use crate::record::Step;
use crate::system::memory::{InjectedFault, MemoryMachine, PowerCut};
use crate::system::{CommandResult, System};
use crate::transaction::{self, Record, RecordKind, RecordState, Restoration, StepOutcome, Undone, store};

mod armed;
mod literal;
mod siblings;

pub(crate) type Files = BTreeMap<String, String>;
type Boots = (Option<String>, Option<String>);

const WORDS: [&str; 3] = ["isolcpus=managed_irq,domain,2-3", "irqaffinity=0-1", "skew_tick=1"];
/// Every loader whose files we write.
pub(crate) const WRITTEN: [&str; 6] = ["debian", "fedora", "rhel8", "l4t", "systemd-boot", "pi"];

fn tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/fixtures/boot").join(name)
}

pub(crate) fn boot_words() -> Vec<String> {
    WORDS.map(String::from).to_vec()
}

pub(crate) fn asked<'a>(boot: &'a Boot, words: &'a [String]) -> BootSpec<'a> {
    BootSpec { real_time: true, ..BootSpec::new(boot, words) }
}

/// A fixture as a machine, with the kernels that its entries name and a generator like GRUB's.
pub(crate) fn machine(name: &str) -> (MemoryMachine, Boot) {
    let boot = inspect::boot::read(&tree(name));
    let mut system = MemoryMachine::of_folder(&tree(name));
    for entry in &boot.entries {
        for path in entry.kernel.iter().chain(&entry.initrd) {
            let below = if path.starts_with("/boot") { "" } else { boot.folder.trim_end_matches("/loader") };
            system.put(&format!("{below}{path}"), b"");
        }
    }
    system.put("/proc/self/mounts", b"proc /proc proc rw 0 0\n/dev/sda2 / ext4 rw 0 0\n");
    system.put("/proc/sys/kernel/random/boot_id", b"first\n");
    system.answer = Some(grub_mkconfig);
    system.power_on();
    (system, boot)
}

/// The output of the fixture's generator: its menu with the line that the files in place give.
fn grub_mkconfig(system: &MemoryMachine, command: &[String]) -> CommandResult {
    assert_eq!(command, ["grub-mkconfig"]);
    let mut texts = vec![crate::system::text(system, "/etc/default/grub").unwrap()];
    for name in system.names("/etc/default/grub.d").unwrap_or_default() {
        texts.push(crate::system::text(system, &format!("/etc/default/grub.d/{name}")).unwrap());
    }
    let (line, _, _) = grub::generator(&texts);
    let menu = std::fs::read_to_string(tree("debian").join("boot/grub/grub.cfg")).unwrap();
    let menu = menu.replace("ro  quiet", &format!("ro  {}", line.unwrap()));
    printed(menu)
}

/// The files without our own store.
pub(crate) fn files(system: &MemoryMachine) -> Files {
    let files = system.files().into_iter().filter(|(path, _)| !path.starts_with("/var/lib/isolator/"));
    files.map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap())).collect()
}

fn steps(way: BootMethod) -> Vec<Step> {
    match way {
        BootMethod::Trial { steps, .. } | BootMethod::Lasting { steps, .. } => steps,
        BootMethod::Instructions { why, .. } => panic!("{why}"),
    }
}

/// The two changes of a loader: what `apply` does, and what `confirm` does.
pub(crate) fn records(name: &str) -> Vec<(MemoryMachine, Record)> {
    let words = boot_words();
    let make = |part| {
        let (mut system, boot) = machine(name);
        let asked = asked(&boot, &words);
        let way =
            if part == RecordKind::Trial { first(&mut system, &asked) } else { lasting(&mut system, &asked) };
        let record = Record::new("20260101-000000", part, "digest", "first", &words, steps(way.unwrap()));
        (system, record)
    };
    vec![make(RecordKind::Trial), make(RecordKind::Boot)]
}

/// The records of every loader.
fn all_records() -> impl Iterator<Item = (&'static str, MemoryMachine, Record)> {
    WRITTEN.into_iter().flat_map(|name| records(name).into_iter().map(move |(system, it)| (name, system, it)))
}

/// A command that ended well.
fn printed(output: impl Into<Vec<u8>>) -> CommandResult {
    CommandResult { good: true, output: output.into(), complaint: String::new() }
}

fn changed(before: &Files, after: &Files) -> Vec<(String, String)> {
    let new = after.iter().filter(|(path, text)| before.get(*path) != Some(text));
    new.map(|(path, text)| (path.clone(), text.clone())).collect()
}

#[test]
fn an_apply_gives_the_bytes_that_are_expected() {
    let mut seen = String::new();
    for (name, mut system, mut record) in all_records() {
        let before = files(&system);
        transaction::apply(&mut system, &mut record).unwrap();
        let after = files(&system);
        for (path, text) in changed(&before, &after) {
            seen += &format!("=== {name} {:?} {path}\n", record.part);
            seen += &difference(before.get(&path).map_or("", String::as_str), &text);
        }
        assert!(before.keys().all(|path| after.contains_key(path)), "{name}: a file is gone");
    }
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/applied.txt");
    if std::env::var_os("ISOLATOR_BLESS").is_some() {
        std::fs::write(&expected, &seen).unwrap();
    }
    assert_eq!(seen, std::fs::read_to_string(expected).unwrap());
}

/// The lines that went and those that came, with their numbers in the old and the new file.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let parts = similar::capture_diff_slices(Algorithm::Myers, &old, &new);
    let changes = parts.iter().flat_map(|part| part.iter_changes(&old, &new));
    let number = |change: &Change<&str>| match change.tag() {
        ChangeTag::Insert => change.new_index(),
        ChangeTag::Delete => change.old_index(),
        ChangeTag::Equal => None,
    };
    let line =
        |change: Change<&str>| Some(format!("{}{} {}\n", change.tag(), number(&change)? + 1, change.value()));
    changes.filter_map(line).collect()
}

#[test]
fn apply_twice_is_apply_once_and_rollback_gives_every_byte_back() {
    for (name, mut system, mut record) in all_records() {
        let before = files(&system);
        let mut again = record.clone();
        transaction::apply(&mut system, &mut record).unwrap();
        let after = files(&system);
        assert_ne!(before, after, "{name}");
        transaction::apply(&mut system, &mut again).unwrap();
        assert_eq!(files(&system), after, "{name}");
        assert!(again.steps.iter().all(|done| done.outcome == StepOutcome::AlreadySo), "{name}: {again:?}");
        store::write(&mut system, &record).unwrap();
        let undone = transaction::roll_back(&mut system, &mut record);
        assert_eq!(files(&system), before, "{name}");
        assert!(undone.iter().all(|undone| undone.became == Restoration::Restored), "{name}: {undone:?}");
        assert_eq!(store::read(&system, &record.id).unwrap().state, RecordState::RolledBack);
    }
}

/// The boot tree as the loader sees it: the line of the default entry, and what is armed. The same files boot
/// the same.
fn boots(system: &MemoryMachine, known: &mut BTreeMap<Files, Boots>) -> Boots {
    let read = || {
        let folder = tempfile::tempdir().unwrap();
        system.dump(folder.path());
        let boot = inspect::boot::read(folder.path());
        let default = boot.default_entry().map(|entry| format!("{} {}", entry.id, entry.options));
        (default, boot.next)
    };
    known.entry(files(system)).or_insert_with(read).clone()
}

#[test]
fn power_may_fail_at_every_single_change_of_an_apply_and_of_a_rollback() {
    let (mut points, mut states) = (0, 0);
    for (name, system, record) in all_records() {
        let before = files(&system);
        let mut whole = system.clone();
        let mut applied = record.clone();
        transaction::apply(&mut whole, &mut applied).unwrap();
        let after = files(&whole);
        let mut cache = BTreeMap::new();
        let allowed = [boots(&system, &mut cache), boots(&whole, &mut cache)];
        type Work = fn(&mut MemoryMachine, &mut Record) -> Result<()>;
        let undo: Work = |system, record| match transaction::roll_back(system, record) {
            undone if transaction::still_changed(&undone).next().is_none() => Ok(()),
            undone => Err(crate::Error::new("undo", format!("{undone:?}"), "")),
        };
        for (start, record, work) in [
            (&system, &record, (|system, record| transaction::apply(system, record)) as Work),
            (&whole, &applied, undo),
        ] {
            let first = start.changes.len();
            let mut dry = start.clone();
            work(&mut dry, &mut record.clone()).unwrap();
            for at in first..dry.changes.len() {
                points += 1;
                let mut cut = start.clone();
                cut.fault = Some((at, InjectedFault::Kill));
                // What comes last may go wrong without harm.
                let _ = work(&mut cut, &mut record.clone());
                let killed = cut.clone().revived();
                let lost = [PowerCut::Everything, PowerCut::Bytes, PowerCut::Nothing];
                for mut left in lost.map(|lost| cut.after_power_cut(lost)).into_iter().chain([killed]) {
                    states += 1;
                    let words = format!("{name} {:?}, {}", record.part, dry.changes[at]);
                    for (path, bytes) in files(&left) {
                        let old_or_new =
                            before.get(&path) == Some(&bytes) || after.get(&path) == Some(&bytes);
                        let beside = path.ends_with(crate::system::SUFFIX);
                        assert!(old_or_new || beside, "{words}: {path} is neither");
                    }
                    let now = boots(&left, &mut cache);
                    let known = |part: fn(&Boots) -> &Option<String>| {
                        allowed.iter().any(|allowed| part(allowed) == part(&now))
                    };
                    assert!(known(|boots| &boots.0) && known(|boots| &boots.1), "{words}: it boots {now:?}");
                    // What is armed is there to be booted.
                    if now.1.is_some() {
                        assert!(changed(&before, &files(&left)).len() > 1, "{words}: armed without an entry");
                    }
                    store::recover(&mut left).unwrap();
                    let recovered = files(&left);
                    // Before the first record and after the last, the state is whole as it is.
                    assert!(
                        recovered == before || recovered == after,
                        "{words}: recovery left another state"
                    );
                    let live = store::all(&left).unwrap().iter().any(Record::live);
                    assert_eq!(recovered == after, live, "{words}");
                }
            }
        }
    }
    println!("power was cut at {points} points; {states} states were as before or as after, and recovered");
    assert!(points > 200, "{points}");
}

#[test]
fn a_medium_that_refuses_any_single_change_leaves_the_old_state_or_the_new() {
    let (mut points, mut went_on) = (0, 0);
    for (name, system, record) in all_records() {
        let before = files(&system);
        let mut dry = system.clone();
        transaction::apply(&mut dry, &mut record.clone()).unwrap();
        let after = files(&dry);
        for at in 0..dry.changes.len() {
            for kind in [ErrorKind::StorageFull, ErrorKind::ReadOnlyFilesystem, ErrorKind::Other] {
                points += 1;
                let mut system = system.clone();
                system.fault = Some((at, InjectedFault::Refuse(kind)));
                match transaction::apply(&mut system, &mut record.clone()) {
                    Ok(()) => {
                        went_on += 1;
                        assert_eq!(files(&system), after, "{name}: {}", dry.changes[at]);
                    }
                    Err(error) => {
                        let line = error.to_string();
                        assert!(line.starts_with("cannot ") && line.contains("; "), "{line}");
                        store::recover(&mut system.clone()).unwrap();
                        assert_eq!(files(&system), before, "{name}: {}", dry.changes[at]);
                    }
                }
            }
        }
    }
    println!("{points} errors were injected; {went_on} did not matter");
}

#[test]
fn rollback_keeps_the_changes_of_other_programs() {
    for (name, path, from, to) in [
        ("fedora", "/etc/kernel/cmdline", "rhgb quiet", "rhgb nosmt"),
        ("systemd-boot", "/etc/kernel/cmdline", "ro quiet", "ro quiet nosmt"),
        ("pi", "/boot/firmware/cmdline.txt", "quiet splash", "splash"),
        ("l4t", "/boot/extlinux/extlinux.conf", "TIMEOUT 30", "TIMEOUT 90"),
        ("rhel8", "/boot/grub2/grubenv", "boot_success=0\n#", "boot_success=1\n#"),
    ] {
        let (mut system, mut record) = records(name).pop().unwrap();
        let before = files(&system);
        transaction::apply(&mut system, &mut record).unwrap();
        let edited = crate::system::text(&system, path).unwrap().replace(from, to);
        system.put(path, edited.as_bytes());
        let undone = transaction::roll_back(&mut system, &mut record);
        let of_path = undone.iter().find(|undone| undone.what == path).unwrap();
        assert_eq!(of_path.became, Restoration::Stripped, "{name}");
        let expected = before[path].replace(from, to);
        assert_eq!(crate::system::text(&system, path).unwrap(), expected, "{name}");
    }
}

#[test]
fn a_menu_made_anew_meanwhile_is_made_anew_without_our_words() {
    let (mut system, mut record) = records("debian").pop().unwrap();
    transaction::apply(&mut system, &mut record).unwrap();
    let menu = "/boot/grub/grub.cfg";
    let newer = crate::system::text(&system, menu).unwrap() + "# a newer kernel\n";
    system.put(menu, newer.as_bytes());
    let undone = transaction::roll_back(&mut system, &mut record);
    assert!(undone.contains(&Undone { what: menu.into(), became: Restoration::MadeAnew }), "{undone:?}");
    assert!(!crate::system::text(&system, menu).unwrap().contains("isolcpus"));
}

#[test]
fn a_trial_that_was_booted_leaves_nothing_behind() {
    // GRUB clears the variable and leaves its name.
    let (mut system, mut record) = records("debian").remove(0);
    let before = files(&system);
    transaction::apply(&mut system, &mut record).unwrap();
    let path = "/boot/grub/grubenv";
    let mut block =
        grub::GrubEnvironment::read(std::str::from_utf8(&system.read(path).unwrap()).unwrap()).unwrap();
    block.set("next_entry", Some(""));
    system.put(path, block.text().unwrap().as_bytes());
    transaction::roll_back(&mut system, &mut record);
    assert_eq!(files(&system), before);
    // systemd-boot counts the try down in the name.
    let (mut system, mut record) = records("systemd-boot").remove(0);
    let before = files(&system);
    transaction::apply(&mut system, &mut record).unwrap();
    let name = "/boot/efi/loader/entries/isolator-trial";
    let bytes = system.read(&format!("{name}+1.conf")).unwrap();
    system.remove(&format!("{name}+1.conf")).unwrap();
    system.put(&format!("{name}+0-1.conf"), &bytes);
    transaction::roll_back(&mut system, &mut record);
    assert_eq!(files(&system), before);
}

#[test]
fn a_generator_that_drops_our_words_changes_nothing() {
    let (mut system, mut record) = records("debian").pop().unwrap();
    let before = files(&system);
    system.put("/etc/default/grub.d/99-zz.cfg", b"GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
    let error = transaction::apply(&mut system, &mut record).unwrap_err().to_string();
    assert!(error.contains("lacks our words"), "{error}");
    assert!(
        error.ends_with("look at /etc/default/grub.d/99-zz.cfg, which sets GRUB_CMDLINE_LINUX_DEFAULT anew")
    );
    system.remove("/etc/default/grub.d/99-zz.cfg").unwrap();
    assert_eq!(files(&system), before);
}

#[test]
fn a_generator_that_does_not_use_the_variable_is_named() {
    let (mut system, mut record) = records("debian").pop().unwrap();
    system.answer = Some(|_, _| {
        let menu = std::fs::read(tree("debian").join("boot/grub/grub.cfg")).unwrap();
        printed(menu)
    });
    let error = transaction::apply(&mut system, &mut record).unwrap_err().to_string();
    assert!(
        error.ends_with("look at /etc/grub.d/10_linux, which does not use GRUB_CMDLINE_LINUX_DEFAULT"),
        "{error}"
    );
}

#[test]
fn a_menu_is_judged_before_it_is_put_in_place() {
    type Answer = fn(&MemoryMachine, &[String]) -> CommandResult;
    fn menu(change: impl Fn(&str) -> String) -> CommandResult {
        let menu = std::fs::read_to_string(tree("debian").join("boot/grub/grub.cfg")).unwrap();
        printed(change(&menu))
    }
    /// The menu whose ordinary entries have this line.
    fn lines(line: &str) -> CommandResult {
        menu(|menu| menu.replace("ro  quiet", &format!("ro  quiet {line}")))
    }
    let cases: [(Answer, &str); 12] = [
        (|_, _| menu(|_| String::new()), "no entry that boots Linux"),
        (|_, _| menu(|menu| menu.replace("\tlinux\t", "\tlinux_\t")), "no entry that boots Linux"),
        (
            |_, _| CommandResult {
                good: false,
                complaint: "cannot find a device".into(),
                ..CommandResult::default()
            },
            "cannot find a device",
        ),
        (|_, _| printed([0xff, 0xfe]), "no text"),
        (|_, _| lines(&WORDS[..2].join(" ")), "lacks our words"),
        (|_, _| lines("isolcpus=managed_irq,domain,2 irqaffinity=0-1 skew_tick=1"), "lacks our words"),
        (|_, _| lines("isolcpus=managed_irq,domain,2-34 irqaffinity=0-1 skew_tick=1"), "lacks our words"),
        (|_, _| lines(&format!("'{}'", WORDS.join(" "))), "lacks our words"),
        (|_, _| lines(&WORDS.join(",")), "lacks our words"),
        (|_, _| lines(&format!("-- {}", WORDS.join(" "))), "lacks our words"),
        (
            |_, _| menu(|menu| menu.replacen("ro  quiet", &format!("ro  quiet {}", WORDS.join(" ")), 1)),
            "lacks our words",
        ),
        (
            |_, _| {
                let words = WORDS.join(" ");
                menu(|menu| {
                    menu.replace("ro  quiet", &format!("ro  quiet {words}"))
                        .replace(" single", &format!(" single {words}"))
                })
            },
            "has words of ours",
        ),
    ];
    for (number, (answer, words)) in cases.into_iter().enumerate() {
        let (mut system, mut record) = records("debian").pop().unwrap();
        let before = files(&system);
        system.answer = Some(answer);
        let error = transaction::apply(&mut system, &mut record).unwrap_err().to_string();
        assert!(error.contains(words), "{number}: {error}");
        assert_eq!(files(&system), before, "{number}");
    }
}

#[test]
fn what_cannot_be_tried_needs_a_way_back() {
    let words = boot_words();
    let refused = |system: &mut MemoryMachine, boot: &Boot| {
        first(system, &asked(boot, &words)).unwrap_err().to_string()
    };
    // GRUB cannot write to RAID: no trial, and the repair entries are the way back.
    let (mut system, mut boot) = machine("debian");
    system.put("/proc/self/mounts", b"/dev/md0 / ext4 rw 0 0\n");
    let way = first(&mut system, &asked(&boot, &words)).unwrap();
    assert!(
        matches!(&way, BootMethod::Lasting { fallback, .. } if fallback.contains("recovery mode")),
        "{way:?}"
    );
    // Without those it is refused.
    let menu = crate::system::text(&system, "/boot/grub/grub.cfg").unwrap();
    system.put("/boot/grub/grub.cfg", menu.replace("recovery", "second").replace(" single", "").as_bytes());
    boot.entries.retain(|entry| !entry.recovery);
    assert!(refused(&mut system, &boot).contains("no entry for repair to fall back to"));
    // L4T's label must find a place in the menu, and a root.
    let (mut system, boot) = machine("l4t");
    let text = crate::system::text(&system, "/boot/extlinux/extlinux.conf").unwrap();
    let more: String = (0..9).map(|n| format!("\nLABEL l{n}\n      LINUX /boot/Image\n")).collect();
    system.put("/boot/extlinux/extlinux.conf", (text + &more).as_bytes());
    assert!(refused(&mut system, &boot).contains("ten labels"));
}

#[test]
fn other_loaders_get_commands_or_instructions_and_no_file_changes() {
    let words = boot_words();
    let text = words.join(" ");
    for (name, expected) in [
        ("arch", format!("add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: {text}")),
        ("debian-arm", format!("add to U_BOOT_PARAMETERS in /etc/default/u-boot: {text}")),
        ("uki", format!("add to /etc/kernel/cmdline: {text}")),
        ("armbian", format!("add to extraargs= in /boot/armbianEnv.txt: {text}")),
    ] {
        let (mut system, boot) = machine(name);
        match first(&mut system, &asked(&boot, &words)).unwrap() {
            BootMethod::Instructions { lines, .. } => assert!(lines.contains(&expected), "{name}: {lines:?}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(system.changes, Vec::<String>::new(), "{name}");
    }
    let (mut system, boot) = machine("ostree");
    system.put("/usr/bin/rpm-ostree", b"");
    system.answer = None;
    let mut record = Record::new(
        "1",
        RecordKind::Boot,
        "",
        "first",
        &words,
        steps(first(&mut system, &asked(&boot, &words)).unwrap()),
    );
    transaction::apply(&mut system, &mut record).unwrap();
    transaction::roll_back(&mut system, &mut record);
    let kargs = |option: &str| {
        format!(
            "rpm-ostree kargs {}",
            words.iter().map(|word| format!("{option}={word}")).collect::<Vec<_>>().join(" ")
        )
    };
    let ran: Vec<String> = system.commands.iter().map(|command| command.join(" ")).collect();
    assert_eq!(ran, [kargs("--append-if-missing"), kargs("--delete-if-present")]);
}

#[test]
fn u_boots_environment_is_written_only_where_it_is_valid_and_has_a_way_back() {
    let words = vec!["skew_tick=1".to_string()];
    let way = |environment: fn(&MemoryMachine, &[String]) -> CommandResult| {
        let (mut system, boot) = machine("uboot");
        system.answer = Some(environment);
        first(&mut system, &asked(&boot, &words)).unwrap()
    };
    let good = |_: &MemoryMachine, _: &[String]| {
        printed(
            "bootcmd=run x\nbootlimit=3\naltbootcmd=run old\nold=bootm\nupgrade_available=1\nbootcount=0\noptargs=quiet\n\
             x=setenv bootargs ${optargs}\n",
        )
    };
    let BootMethod::Lasting { steps, .. } = way(good) else { panic!() };
    let Step::Command { run, undo, .. } = &steps[0] else { panic!() };
    assert_eq!(
        (run[1..].join("|"), undo[1..].join("|")),
        ("optargs|quiet skew_tick=1".into(), "optargs|quiet".into())
    );
    type Answer = fn(&MemoryMachine, &[String]) -> CommandResult;
    let cases: [(Answer, &str); 4] = [
        (
            |_, _| CommandResult {
                complaint: "Warning: Bad CRC, using default environment".into(),
                ..printed("bootcmd=run x\n")
            },
            "/etc/fw_env.config does not match this board (fw_printenv: Warning: Bad CRC, using default environment)",
        ),
        (
            |_, _| printed("bootcmd=run x\noptargs=\nx=${optargs}\n"),
            "U-Boot boots nothing else by itself here (no bootlimit, no altbootcmd)",
        ),
        (
            |_, _| {
                printed(
                    "bootcmd=run x\nupgrade_available=1\nbootcount=0\nbootlimit=3\naltbootcmd=y\noptargs=quiet skew_tick=0\nx=${optargs}\n",
                )
            },
            "skew_tick=0 stands already in optargs of U-Boot's environment",
        ),
        (
            |_, _| {
                printed(
                    "bootcmd=run x\nupgrade_available=1\nbootcount=0\nbootlimit=3\naltbootcmd=y\noptargs=dyndbg=\"file a\nx=${optargs}\n",
                )
            },
            "optargs of U-Boot's environment has a quote that is not closed",
        ),
    ];
    for (environment, expected) in cases {
        let BootMethod::Instructions { why, .. } = way(environment) else { panic!("{expected}") };
        assert_eq!(why, expected);
    }
}

#[test]
fn a_full_medium_is_seen_before_anything_is_written() {
    let (mut system, mut record) = records("l4t").pop().unwrap();
    system.free = Some(1000);
    let error = transaction::apply(&mut system, &mut record).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot write /boot/extlinux/extlinux.conf: /boot/extlinux has 0 KiB left"),
        "{error}"
    );
    assert_eq!(system.changes, Vec::<String>::new());
}
