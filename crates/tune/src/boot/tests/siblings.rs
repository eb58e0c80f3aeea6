// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that hold for every loader: what a fallback proves, how a continued, quoted or hypervisor's entry is
//! copied, and what no loader is asked for.

use super::*;
use crate::system::memory::MemoryMachine;

/// The boot as files have it now.
fn read_again(system: &MemoryMachine) -> Boot {
    let folder = tempfile::tempdir().unwrap();
    system.dump(folder.path());
    inspect::boot::read(folder.path())
}

fn has_ours(line: &str) -> bool {
    machine::boot::line::kernel_words(line).any(|word| WORDS.contains(&word.raw))
}

#[test]
fn a_fallback_is_an_entry_without_our_words() {
    for name in WRITTEN {
        let words = boot_words();
        for tried in [false, true] {
            let (mut system, boot) = machine(name);
            let asked = asked(&boot, &words);
            let method =
                if tried { lasting(&mut system, &asked) } else { first(&mut system, &asked) }.unwrap();
            let BootMethod::Lasting { fallback, .. } = &method else { continue };
            let fallback = fallback.clone();
            let mut record = Record::new("1", RecordKind::Boot, "", "first", &words, steps(method));
            transaction::apply(&mut system, &mut record).unwrap();
            let after = read_again(&system);
            let title = fallback.split('\'').nth(1);
            let other =
                title.map(|title| after.entries.iter().find(|e| e.title == title || e.id == title).unwrap());
            assert!(other.is_none_or(|entry| !has_ours(&entry.options)), "{name}: {fallback}");
            if title.is_none() {
                let all = after.entries.iter().filter(|entry| entry.kernel.is_some());
                assert!(
                    fallback == "no other entry" && all.into_iter().all(|e| has_ours(&e.options)),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn no_fallback_without_its_kernel() {
    for (name, kept) in [("debian", "recovery"), ("fedora", "rescue")] {
        let words = boot_words();
        let (mut system, boot) = machine(name);
        for entry in boot.entries.iter().filter(|entry| entry.recovery) {
            let kernel = entry.kernel.as_ref().unwrap();
            ["", "/boot", &boot.folder]
                .iter()
                .for_each(|folder| drop(system.remove(&format!("{folder}{kernel}"))));
        }
        let BootMethod::Lasting { fallback, .. } = lasting(&mut system, &asked(&boot, &words)).unwrap()
        else {
            panic!("{name}")
        };
        assert!(!fallback.to_lowercase().contains(kept), "{name}: {fallback}");
    }
}

#[test]
fn a_trial_names_every_word_of_the_entry_it_copies() {
    let root = "1111aaaa-0000-4000-8000-222233334444";
    for (statement, line) in [
        (format!("linux /v \\\n\troot=UUID={root} ro \\\n\tquiet"), format!("root=UUID={root} ro quiet")),
        (format!("linux \"/v\" root=UUID=\"{root}\" ro"), format!("root=UUID={root} ro")),
        (
            format!("linux /v root=UUID={root} memmap=1G\\$1G # note"),
            format!("root=UUID={root} memmap=1G$1G"),
        ),
        (
            format!("echo a; linux /v root=UUID={root} -- single; echo b"),
            format!("root=UUID={root} -- single"),
        ),
        (
            format!(
                "multiboot2 /xen.gz placeholder\nmodule2 /v placeholder root=UUID={root}\nmodule2 --nounzip /i"
            ),
            format!("placeholder root=UUID={root}"),
        ),
    ] {
        let menu = format!("menuentry 'RT' --id rt {{\n{statement}\n}}\n");
        let entries = grub::menu(&menu, "");
        assert_eq!(entries[0].entry.options, line);
        let copy = entries[0].copy("Isolator trial", TRIAL, &WORDS);
        let copied = &grub::menu(&copy, "")[0].entry;
        let expected = machine::boot::line::with_words(&line, &WORDS);
        assert_eq!((copied.options.as_str(), copied.id.as_str()), (expected.as_str(), TRIAL), "{copy}");
        assert_eq!(
            (&copied.kernel, &copied.hypervisor),
            (&entries[0].entry.kernel, &entries[0].entry.hypervisor)
        );
    }
}

#[test]
fn systemd_boots_trial_is_never_blessed_for_good() {
    let words = boot_words();
    let variable = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    for (real_time, efi, seen, once) in [
        (true, "", false, false),
        (true, "efi=runtime", false, true),
        (true, "", true, true),
        (false, "", false, true),
        (false, "efi=debug,noruntime", false, false),
        (false, "efi=debug", false, true),
    ] {
        let (mut system, mut boot) = machine("systemd-boot");
        if seen {
            system.put(variable, b"systemd-boot 257");
        }
        let default = boot.default.unwrap();
        let entry = &mut boot.entries[default];
        let longer = format!("{} {efi}", entry.options);
        let text = crate::system::text(&system, &entry.file).unwrap().replace(&entry.options, &longer);
        system.put(&entry.file.clone(), text.as_bytes());
        entry.options = longer.clone();
        let spec = BootSpec { real_time, running: Some(&longer), ..asked(&boot, &words) };
        let BootMethod::Trial { steps, .. } = first(&mut system, &spec).unwrap() else { panic!("{efi}") };
        let by_command = matches!(&steps[..], [_, Step::Command { run, .. }] if run[1] == "set-oneshot");
        let Step::File { new: Some(new), .. } = &steps[0] else { panic!() };
        let is_first =
            new.text.lines().any(|line| line.starts_with("sort-key") && line.contains("0-isolator"));
        assert_eq!((by_command, is_first), (once, !once), "{efi} {real_time} {seen}");
    }
}

#[test]
fn u_boot_has_a_way_back_only_where_it_counts() {
    let base = "bootcmd=run x\noptargs=\nx=setenv bootargs ${optargs}\nold=bootm 1\n";
    let words = boot_words();
    for (more, stored, refused) in [
        ("bootlimit=3\naltbootcmd=run old\nupgrade_available=1\nbootcount=0\n", false, None),
        ("bootlimit=3\naltbootcmd=run old\nupgrade_available=1\n", true, None),
        ("bootlimit=3\naltbootcmd=run old\n", true, None),
        ("bootlimit=3\naltbootcmd=if a; then run old; fi\n", true, None),
        ("bootlimit=3\naltbootcmd=run old\n", false, Some("there is no upgrade_available=1")),
        ("bootlimit=3\naltbootcmd=run old\nupgrade_available=1\n", false, Some("has no bootcount")),
        ("bootlimit=1\naltbootcmd=run old\nupgrade_available=0\n", true, Some("upgrade_available is 0")),
        ("bootlimit=1\naltbootcmd=run old\nupgrade_available=\n", true, Some("upgrade_available is empty")),
        ("bootlimit=0\naltbootcmd=run old\n", true, Some("no bootlimit")),
        ("bootlimit=3\naltbootcmd=\n", true, Some("no altbootcmd")),
        ("bootlimit=3\naltbootcmd=run bootcmd\n", true, Some("takes optargs too")),
        ("bootlimit=3\naltbootcmd=setenv bootargs $optargs; bootm\n", true, Some("takes optargs too")),
        ("bootlimit=3\naltbootcmd=run gone\n", true, Some("it uses `run gone`")),
        ("bootlimit=3\naltbootcmd=load mmc 0 $a x; source $a\n", true, Some("it uses `source $a`")),
        ("bootlimit=3\naltbootcmd=run a\na=run b\nb=run a\n", true, None),
    ] {
        let found = uboot::variable(&format!("{base}{more}"), &words, stored);
        assert_eq!(
            found.as_ref().err().map(|why| why.contains(refused.unwrap_or("?"))),
            refused.map(|_| true),
            "{more}{found:?}"
        );
    }
}

#[test]
fn an_image_without_its_file_gets_the_whole_line() {
    let words = boot_words();
    let text = words.join(" ");
    for (files, expected) in [
        (&["/etc/kernel/cmdline"][..], format!("add to /etc/kernel/cmdline: {text}")),
        (
            &[],
            format!(
                "write into /etc/kernel/cmdline, which is not there yet and is the whole line: root=/dev/a ro {text}"
            ),
        ),
        (&["/etc/cmdline.d/root.conf"], format!("write into /etc/cmdline.d/isolator.conf: {text}")),
        (
            &["/etc/cmdline.d/root.conf", "/etc/kernel/cmdline"],
            format!("write into /etc/cmdline.d/isolator.conf: {text}"),
        ),
    ] {
        let mut system = MemoryMachine::default();
        files.iter().for_each(|path| system.put(path, b"root=/dev/a\n"));
        let boot = Boot { loader: Loader::UnifiedKernelImage, ..Boot::default() };
        let spec = BootSpec { running: Some("initrd=\\a root=/dev/a ro"), ..asked(&boot, &words) };
        match first(&mut system, &spec).unwrap() {
            BootMethod::Instructions { lines, .. } => assert_eq!(lines[0], expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn no_loader_is_asked_where_nothing_would_last() {
    let words = boot_words();
    for name in WRITTEN {
        for (running, mounts, why) in [
            ("overlayroot=tmpfs", "/dev/sda2 / ext4 rw 0 0\n", "runs from an overlay in RAM"),
            ("boot=live", "/dev/sda2 / ext4 rw 0 0\n", "runs from an overlay in RAM"),
            ("", "none / tmpfs rw 0 0\n", "runs from an overlay in RAM"),
            ("", "o / overlay rw,upperdir=/rw/up,workdir=/rw/w 0 0\nt /rw tmpfs rw 0 0\n", "overlay in RAM"),
            (
                "",
                "/cow / overlay rw,lowerdir=/a.squashfs,upperdir=/cow/upper,workdir=/cow/w 0 0\n",
                "out of sight",
            ),
        ] {
            let (mut system, boot) = machine(name);
            system.put("/proc/self/mounts", mounts.as_bytes());
            system.put("/rw/up/x", b"");
            let spec = BootSpec { running: Some(running), ..asked(&boot, &words) };
            let error = first(&mut system, &spec).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
            assert_eq!(system.changes, Vec::<String>::new());
        }
    }
}

#[test]
fn a_default_above_the_armed_entry_is_refused() {
    let words = boot_words();
    let cases = [
        ("", "set default=mine\n", Some("/custom.cfg sets default")),
        ("", "menuentry mine {\n linux /v root=b\n}\n", None),
        ("set default=0\n", "", Some("")),
    ];
    let loaders = [("debian", "/boot/grub"), ("fedora", "/boot/grub2")];
    for (name, folder) in loaders {
        for (menu, custom, said) in cases {
            let (mut system, boot) = machine(name);
            let text = crate::system::text(&system, &format!("{folder}/grub.cfg")).unwrap();
            system.put(&format!("{folder}/grub.cfg"), format!("{text}{menu}").as_bytes());
            system.put(&format!("{folder}/custom.cfg"), custom.as_bytes());
            let method = first(&mut system, &asked(&boot, &words));
            let is_trial = matches!(method, Ok(BootMethod::Trial { .. }));
            assert_eq!(is_trial, said.is_none(), "{menu}{custom}: {method:?}");
            if let Err(error) = method {
                assert!(error.to_string().contains(said.unwrap()), "{error}");
            }
        }
    }
}

#[test]
fn no_word_is_written_that_the_next_boot_would_not_take() {
    let words = boot_words();
    for name in WRITTEN {
        for (more, release, said) in [
            ("nr_cpus=3", "6.12.0", "takes cpus 3 away"),
            ("maxcpus=2", "6.12.0", "takes cpus 2-3 away"),
            ("nr_cpus=4", "6.12.0", ""),
            ("nohz_full=3", "5.15.0", "drops isolcpus="),
            ("nohz_full=2-3", "5.15.0", ""),
            ("nohz_full=3", "6.12.0", ""),
        ] {
            let (mut system, boot) = machine(name);
            let spec = BootSpec { running: Some(more), release: Some(release), ..asked(&boot, &words) };
            let said_now = guard::admit(&system, &spec, true).err().map_or(String::new(), |e| e.to_string());
            let is_refused =
                said_now.contains("the next boot") || said_now.contains("this kernel then drops");
            assert_eq!(is_refused, !said.is_empty(), "{name} {more}: {said_now}");
            assert!(said_now.contains(said), "{name} {more}: {said_now}");
            assert!(said.is_empty() || first(&mut system, &spec).is_err());
        }
    }
}

#[test]
fn words_behind_those_of_init_are_refused() {
    for name in ["debian", "fedora"] {
        let words = boot_words();
        let (mut system, mut boot) = machine(name);
        let source = machine::boot::EntrySource {
            file: "/etc/default/grub".to_string(),
            variable: Some("GRUB_CMDLINE_LINUX".to_string()),
            line: Some("quiet -- single".to_string()),
            ..machine::boot::EntrySource::default()
        };
        boot.sources.push(source);
        let error = first(&mut system, &asked(&boot, &words)).unwrap_err().to_string();
        assert!(error.contains("GRUB_CMDLINE_LINUX of /etc/default/grub has a `--`"), "{name}: {error}");
    }
}

#[test]
fn a_trial_comes_before_each_entry_of_systemd_boot() {
    let words = boot_words();
    for key in ["0", "0-a", "-", "a"] {
        let (mut system, boot) = machine("systemd-boot");
        for entry in &boot.entries {
            let text = crate::system::text(&system, &entry.file).unwrap();
            system.put(&entry.file, format!("sort-key {key}\n{text}").as_bytes());
        }
        let boot = read_again(&system);
        let runs = boot.default_entry().unwrap().options.clone();
        let spec = BootSpec { running: Some(&runs), ..asked(&boot, &words) };
        let tried = first(&mut system, &spec);
        let Ok(BootMethod::Trial { steps, .. }) = tried else {
            assert_eq!(key, "-", "{tried:?}");
            continue;
        };
        let mut record = Record::new("1", RecordKind::Trial, "", "first", &words, steps);
        transaction::apply(&mut system, &mut record).unwrap();
        let after = read_again(&system);
        assert_eq!(after.entries[0].id, TRIAL, "{key}");
    }
}
