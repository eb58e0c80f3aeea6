// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each instruction is followed to the letter on a tree, by a person who knows nothing else, and the result
//! is read as the loader, or the tool that makes the next image, reads it.

use machine::boot::LineChanges;
use machine::boot::line::kernel_words;

use super::*;
use crate::system::memory::MemoryMachine;

const RUNS: &str = "root=/dev/vda2 ro quiet";

/// A machine with these files, whose running line is [`RUNS`].
fn made(files: &[(&str, &str)]) -> (MemoryMachine, Boot) {
    let mut system = MemoryMachine::default();
    let kernels = ["/v", "/a", "/b", "/boot/a"].map(|path| (path, ""));
    files.iter().chain(&kernels).for_each(|(path, text)| system.put(path, text.as_bytes()));
    let folder = tempfile::tempdir().unwrap();
    system.dump(folder.path());
    (system, inspect::boot::read(folder.path()))
}

fn instructions(system: &mut MemoryMachine, boot: &Boot, running: &str) -> Vec<String> {
    let words = boot_words();
    let spec = BootSpec { running: Some(running), ..asked(boot, &words) };
    match first(system, &spec).unwrap() {
        BootMethod::Instructions { lines, .. } => lines,
        other => panic!("{other:?}"),
    }
}

/// The machine after all instructions were followed, but for commands (tools/proofs/boot-follow).
fn followed(system: &MemoryMachine, steps: &[String]) -> MemoryMachine {
    let (root, told) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    system.dump(root.path());
    let applied = told.path().join("applied.json");
    let lines = serde_json::json!({ "boot": { "lines": steps } });
    std::fs::write(&applied, lines.to_string()).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/proofs/boot-follow");
    let mut person = std::process::Command::new("python3");
    let ran = person.arg(program).args([applied.as_path(), root.path()]).output().unwrap();
    assert!(ran.status.success(), "{steps:?}: {}", String::from_utf8_lossy(&ran.stderr));
    MemoryMachine::of_folder(root.path())
}

fn all(system: &MemoryMachine, folder: &str, end: &str) -> String {
    let names = system.names(folder).unwrap_or_default().into_iter().filter(|name| name.ends_with(end));
    names.map(|name| crate::system::text(system, &format!("{folder}/{name}")).unwrap()).collect()
}

fn value(text: &str, name: &str) -> Option<String> {
    let of = |line: &str| line.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_string);
    text.lines().filter_map(of).next_back().map(|value| value.trim_matches(['"', '\'']).to_string())
}

/// The line that dracut's settings give, as the shell that reads them has it.
fn dracut(system: &MemoryMachine) -> Option<String> {
    let folder =
        ["/usr/lib/dracut/dracut.conf.d", "/etc/dracut.conf.d"].map(|path| all(system, path, ".conf"));
    let main = crate::system::text(system, "/etc/dracut.conf").unwrap_or_default();
    let script = format!("{main}\n{}\necho $kernel_cmdline", folder.join("\n"));
    let said = std::process::Command::new("bash").args(["-c", &script]).output().unwrap().stdout;
    Some(String::from_utf8(said).unwrap().trim().to_string()).filter(|line| !line.is_empty())
}

/// The line of the next unified kernel image, as ukify, mkinitcpio or dracut take it.
fn image(system: &MemoryMachine) -> String {
    let read = |path: &str| crate::system::text(system, path).ok();
    let conf = read("/etc/kernel/uki.conf").and_then(|text| value(&text, "Cmdline"));
    if let Some(line) = conf {
        return line.strip_prefix('@').map_or(line.clone(), |path| read(path).unwrap());
    }
    let preset = all(system, "/etc/mkinitcpio.d", ".preset");
    if let Some((_, rest)) = preset.split_once("--cmdline ") {
        return read(rest.split(['"', ' ', '\n']).next().unwrap()).unwrap();
    }
    if let Some(line) = dracut(system) {
        return line;
    }
    let parts = all(system, "/etc/cmdline.d", ".conf");
    if !parts.is_empty() {
        return parts.lines().collect::<Vec<_>>().join(" ");
    }
    // Without a file the line that runs goes into the image.
    read("/etc/kernel/cmdline").unwrap_or_else(|| RUNS.to_string())
}

/// The default entry's line as the reader of entries has it.
fn entry(system: &MemoryMachine) -> String {
    let folder = tempfile::tempdir().unwrap();
    system.dump(folder.path());
    inspect::boot::read(folder.path()).default_entry().unwrap().options.clone()
}

/// The lines that the generator, or the keeper, is given.
fn sources(system: &MemoryMachine) -> String {
    let folder = tempfile::tempdir().unwrap();
    system.dump(folder.path());
    let boot = inspect::boot::read(folder.path());
    boot.sources.iter().filter_map(|source| source.line.clone()).collect::<Vec<_>>().join(" ")
}

fn limine(system: &MemoryMachine) -> String {
    let text = crate::system::text(system, "/boot/limine.conf").unwrap();
    text.lines().find_map(|line| line.trim().strip_prefix("cmdline:")).unwrap().to_string()
}

fn refind(system: &MemoryMachine) -> String {
    let text = crate::system::text(system, "/boot/refind_linux.conf").unwrap();
    text.lines().next().unwrap().split('"').nth(3).unwrap().to_string()
}

fn limine_tool(system: &MemoryMachine) -> String {
    value(&crate::system::text(system, "/etc/default/limine").unwrap(), "KERNEL_CMDLINE[default]").unwrap()
}

fn photon(system: &MemoryMachine) -> String {
    value(&crate::system::text(system, "/boot/photon.cfg").unwrap(), "photon_cmdline").unwrap()
}

fn kernel_line(system: &MemoryMachine) -> String {
    crate::system::text(system, "/etc/kernel/cmdline").unwrap()
}

type Loader = fn(&MemoryMachine) -> String;

const UKI: [(&str, &str); 3] = [
    ("/efi/loader/loader.conf", "timeout 3\n"),
    ("/efi/EFI/systemd/systemd-bootx64.efi", ""),
    ("/efi/EFI/Linux/linux.efi", ""),
];
const LINE: &str = "root=/dev/vda2 ro quiet\n";

#[test]
fn each_instruction_followed_literally_boots() {
    let sd_boot = ("/boot/efi/loader/entries/a.conf", "linux /a\noptions root=/dev/vda2 ro quiet\n");
    type Files<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(&str, Files<'_>, Files<'_>, Loader)] = &[
        ("kernel-install without its file", &UKI, &[("/etc/kernel/install.conf", "layout=uki\n")], image),
        ("kernel-install", &UKI, &[("/etc/kernel/cmdline", LINE)], image),
        (
            "ukify with a file",
            &UKI,
            &[("/etc/kernel/uki.conf", "[UKI]\nCmdline=@/etc/a\n"), ("/etc/a", LINE)],
            image,
        ),
        (
            "ukify with a file to be made",
            &UKI,
            &[("/etc/kernel/uki.conf", "[UKI]\nCmdline=@/etc/kernel/cmdline\n")],
            image,
        ),
        (
            "ukify with a line",
            &UKI,
            &[
                ("/etc/kernel/uki.conf", "[UKI]\nCmdline=root=/dev/vda2 ro quiet\n"),
                ("/etc/kernel/cmdline", LINE),
            ],
            image,
        ),
        (
            "mkinitcpio's parts",
            &UKI,
            &[("/etc/cmdline.d/a.conf", "root=/dev/vda2 ro\n"), ("/etc/cmdline.d/b.conf", "quiet\n")],
            image,
        ),
        (
            "mkinitcpio's preset",
            &UKI,
            &[
                ("/etc/mkinitcpio.d/l.preset", "default_options=\"--cmdline /etc/b\"\n"),
                ("/etc/b", LINE),
                ("/etc/kernel/cmdline", LINE),
            ],
            image,
        ),
        (
            "mkinitcpio's preset, commented",
            &UKI,
            &[
                ("/etc/mkinitcpio.d/l.preset", "#default_options=\"-S autodetect\"\n"),
                ("/etc/kernel/cmdline", LINE),
            ],
            image,
        ),
        (
            "dracut",
            &UKI,
            &[("/etc/dracut.conf.d/u.conf", "uefi=\"yes\"\nkernel_cmdline=\"root=/dev/vda2 ro quiet\"\n")],
            image,
        ),
        (
            "dracut in parts",
            &UKI,
            &[
                ("/etc/dracut.conf.d/a.conf", "kernel_cmdline=\"root=/dev/vda2 \"\n"),
                ("/etc/dracut.conf.d/b.conf", "kernel_cmdline+=\" ro quiet \"\n"),
            ],
            image,
        ),
        (
            "dracut of a distribution",
            &UKI,
            &[
                ("/etc/dracut.conf", "  kernel_cmdline+=' root=/dev/vda2 ro '"),
                ("/usr/lib/dracut/dracut.conf.d/z.conf", "export kernel_cmdline+=quiet\n"),
            ],
            image,
        ),
        ("an image without anything", &UKI, &[], image),
        (
            "GRUB of Arch",
            &[
                ("/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"root=/dev/vda2 ro quiet\"\n"),
                ("/boot/grub/grub.cfg", "menuentry a {\n linux /v root=/dev/vda2 ro quiet\n}\n"),
            ],
            &[],
            sources,
        ),
        (
            "GRUB without the variable",
            &[
                ("/etc/default/grub", "GRUB_CMDLINE_LINUX='root=/dev/vda2 ro quiet'\n"),
                ("/boot/grub2/grub.cfg", "menuentry a {\n linux /v root=/dev/vda2 ro quiet\n}\n"),
            ],
            &[],
            sources,
        ),
        (
            "extlinux",
            &[(
                "/boot/extlinux/extlinux.conf",
                "default b\nlabel a\n linux /a\n append root=/dev/vda2\nlabel b\n linux /b\n append root=/dev/vda2 ro quiet\n",
            )],
            &[],
            entry,
        ),
        (
            "extlinux in /boot",
            &[("/boot/extlinux.conf", "LABEL a\n LINUX a\n APPEND root=/dev/vda2 ro quiet\n")],
            &[],
            entry,
        ),
        (
            "Limine",
            &[("/boot/limine.conf", "timeout: 5\n/A\n protocol: linux\n cmdline: root=/dev/vda2 ro quiet\n")],
            &[],
            limine,
        ),
        (
            "rEFInd",
            &[
                ("/boot/efi/EFI/refind/refind.conf", ""),
                ("/boot/refind_linux.conf", "\"Standard\" \"root=/dev/vda2 ro quiet\"\n"),
            ],
            &[],
            refind,
        ),
        ("rEFInd without its file", &[("/boot/efi/EFI/refind/refind.conf", "")], &[], refind),
        (
            "limine-entry-tool",
            &[("/etc/default/limine", "KERNEL_CMDLINE[default]=\"root=/dev/vda2 ro quiet\"\n")],
            &[],
            limine_tool,
        ),
        ("limine-entry-tool without a line", &[("/etc/default/limine", "# nothing\n")], &[], limine_tool),
        (
            "Photon OS",
            &[
                ("/etc/os-release", "ID=photon\n"),
                ("/boot/photon.cfg", "photon_cmdline=root=/dev/vda2 ro quiet\n"),
            ],
            &[],
            photon,
        ),
        (
            "sdbootutil",
            &[sd_boot, ("/etc/default/grub", ""), ("/usr/bin/sdbootutil", ""), ("/etc/kernel/cmdline", LINE)],
            &[],
            kernel_line,
        ),
        (
            "sdbootutil without its file",
            &[sd_boot, ("/etc/default/grub", ""), ("/usr/bin/sdbootutil", "")],
            &[],
            kernel_line,
        ),
        (
            "update-extlinux",
            &[
                ("/boot/extlinux.conf", "label a\n"),
                ("/etc/update-extlinux.conf", "default_kernel_opts=\"root=/dev/vda2 ro quiet\"\n"),
            ],
            &[],
            sources,
        ),
        (
            "u-boot-menu",
            &[
                ("/boot/extlinux/extlinux.conf", "label a\n"),
                ("/etc/default/u-boot", "U_BOOT_PARAMETERS=\"root=/dev/vda2 ro quiet\"\n"),
            ],
            &[],
            sources,
        ),
        (
            "armbian",
            &[("/boot/armbianEnv.txt", "verbosity=1\nextraargs=root=/dev/vda2 ro quiet\n")],
            &[],
            sources,
        ),
        (
            "flash-kernel",
            &[
                ("/boot/boot.scr", ""),
                ("/etc/default/flash-kernel", "LINUX_KERNEL_CMDLINE=\"root=/dev/vda2 ro quiet\"\n"),
            ],
            &[],
            sources,
        ),
    ];
    for (name, files, more, loader) in cases {
        let (mut system, boot) = made(&[*files, *more].concat());
        let running = format!("BOOT_IMAGE=/v {RUNS}");
        let steps = instructions(&mut system, &boot, if boot.entries.is_empty() { &running } else { RUNS });
        assert!(steps.last().unwrap().starts_with("reboot"), "{name}: {steps:?}");
        let line = loader(&followed(&system, &steps));
        let changes = LineChanges::between(RUNS, &line, &boot_words());
        assert!(changes.is_none(), "{name}: {steps:?}: the next line {changes}");
        for word in boot_words() {
            let times = kernel_words(&line).filter(|other| other.raw == word).count();
            assert_eq!(times, 1, "{name}: {steps:?}: {line}");
        }
    }
}

#[test]
fn the_firmware_gets_a_second_entry() {
    let (mut system, boot) = made(&[
        ("/boot/vmlinuz-linux-rt", ""),
        ("/boot/initramfs-linux-rt.img", ""),
        ("/proc/cmdline", "root=/dev/vda2 rw initrd=\\intel-ucode.img initrd=\\initramfs-linux-rt.img\n"),
        ("/proc/self/mounts", "/dev/nvme0n1p2 / ext4 rw 0 0\n/dev/nvme0n1p1 /boot vfat rw 0 0\n"),
    ]);
    let running = "root=/dev/vda2 rw initrd=\\intel-ucode.img initrd=\\initramfs-linux-rt.img";
    let steps = instructions(&mut system, &boot, running);
    let words = boot_words().join(" ");
    let expected = format!(
        "run: efibootmgr -C -d /dev/nvme0n1 -p 1 -L isolator -l '\\vmlinuz-linux-rt' -u '{running} {words}'"
    );
    assert_eq!(steps[0], expected);
    // `-c` would put it first, for good.
    assert!(!steps.iter().any(|step| step.contains("efibootmgr -c")), "{steps:?}");
    system.remove("/boot/vmlinuz-linux-rt").unwrap();
    let steps = instructions(&mut system, &boot, running);
    assert!(steps[0].contains("efibootmgr -v") && steps[1].contains("-l LOADER"), "{steps:?}");
}

#[test]
fn the_file_that_sets_the_line_is_named() {
    let extlinux = ("/boot/extlinux/extlinux.conf", "DEFAULT a\nINCLUDE /extlinux/more.conf\n");
    type Files<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(Files<'_>, &str, &[&str])] = &[
        (&[("/boot/boot.scr", "")], RUNS, &["in the file of which /boot/boot.scr was made"]),
        (
            &[("/boot/boot.scr", ""), ("/boot/boot.cmd", "")],
            RUNS,
            &[
                "run: cp /boot/boot.scr /boot/boot.scr.before-isolator",
                "in /boot/boot.cmd: isolcpus=",
                "-d /boot/boot.cmd /boot/boot.scr",
            ],
        ),
        (&[("/boot/boot.ini", "")], RUNS, &["in /boot/boot.ini: isolcpus="]),
        (
            &[extlinux],
            RUNS,
            &["in /extlinux/more.conf (which /boot/extlinux/extlinux.conf includes): isolcpus="],
        ),
        (
            &UKI,
            "root=/dev/vda2 ro -- single",
            &["root=/dev/vda2 ro isolcpus=managed_irq,domain,2-3 irqaffinity=0-1 skew_tick=1 -- single"],
        ),
    ];
    for (files, running, said) in cases {
        let (mut system, boot) = made(files);
        let steps = instructions(&mut system, &boot, running).join("\n");
        assert!(said.iter().all(|said| steps.contains(said)), "{files:?}: {steps}");
    }
}

#[test]
fn words_go_before_those_of_init() {
    let line = "root=/dev/vda2 ro quiet -- single";
    type Files<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(Files<'_>, Loader)] = &[
        (&[("/etc/kernel/cmdline", "root=/dev/vda2 ro quiet -- single\n")], image),
        (&[("/etc/kernel/uki.conf", "[UKI]\nCmdline=root=/dev/vda2 ro quiet -- single\n")], image),
        (
            &[
                ("/boot/extlinux/extlinux.conf", "label a\n"),
                ("/etc/default/u-boot", "U_BOOT_PARAMETERS=\"root=/dev/vda2 ro quiet -- single\"\n"),
            ],
            sources,
        ),
    ];
    for (files, loader) in cases {
        let more: Files<'_> = if files[0].0.starts_with("/etc/kernel") { &UKI } else { &[] };
        let (mut system, boot) = made(&[*files, more].concat());
        let steps = instructions(&mut system, &boot, line);
        let next = loader(&followed(&system, &steps));
        let changes = LineChanges::between(line, &next, &boot_words());
        let all = boot_words().iter().all(|word| kernel_words(&next).any(|other| other.raw == word));
        assert!(all && changes.is_none(), "{steps:?}: {next}: {changes}");
    }
}

#[test]
fn a_whole_line_is_quoted_as_its_file_is() {
    let line = "root=/dev/vda2 \"dyndbg=file a +p\" memmap=1G$1G a=`b\\c";
    let (mut system, boot) = made(&[("/etc/default/limine", "# nothing\n")]);
    let steps = instructions(&mut system, &boot, line);
    let after = followed(&system, &steps);
    let text = crate::system::text(&after, "/etc/default/limine").unwrap();
    let script = format!("declare -A KERNEL_CMDLINE\n{text}\nprintf %s \"${{KERNEL_CMDLINE[default]}}\"");
    let said = std::process::Command::new("bash").args(["-c", &script]).output().unwrap().stdout;
    let next = String::from_utf8(said).unwrap();
    let changes = LineChanges::between(line, &next, &boot_words());
    assert!(changes.is_none(), "{steps:?}: {next}: {changes}");
}
