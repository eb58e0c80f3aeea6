// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that write the boot loader's files anew: an edit of theirs would be gone with the next kernel,
//! generation or image. Each is told where the words belong and which command takes them over.

use super::read::{shell_sources, whole_file};
use super::{Variables, grub};
use crate::tree::Tree;
use machine::boot::{Boot, EntrySource, Keeper, Loader, line};

/// Finds the program that keeps `boot`'s files, and the lines that it takes.
pub(super) fn read(tree: &mut Tree, boot: &mut Boot) {
    let known = of_image(tree, boot).or_else(|| of_package(tree, boot));
    boot.keeper = known.map(|(name, steps)| Keeper {
        name: name.to_string(),
        steps: steps.iter().map(|step| step.replace("FOLDER", &boot.folder)).collect(),
    });
}

type KnownKeeper = (&'static str, &'static [&'static str]);

/// Systems that are changed as a whole.
fn of_image(tree: &mut Tree, boot: &mut Boot) -> Option<KnownKeeper> {
    let release = tree.hint("etc/os-release").or_else(|| tree.hint("usr/lib/os-release")).unwrap_or_default();
    let id = release
        .lines()
        .find_map(|line| line.strip_prefix("ID="))
        .unwrap_or_default()
        .trim_matches(['"', '\'']);
    let running = tree.hint("proc/cmdline").unwrap_or_default();
    let snapd = line::value(&running, "snapd_recovery_mode").is_some();
    match id {
        _ if id == "ubuntu-core" || snapd || tree.exists("var/lib/snapd/modeenv") => Some((
            "snapd",
            &[
                "run: snap set system system.boot.cmdline-append=\"WORDS\"",
                "where the gadget does not allow that: add the words to kernel-cmdline in its gadget.yaml, or set \
                 system.boot.dangerous-cmdline-append on a dangerous model",
            ],
        )),
        "talos" => Some((
            "Talos",
            &[
                "add to customization.extraKernelArgs of the schematic (Image Factory), or without a unified kernel image to \
                 machine.install.extraKernelArgs: WORDS",
                "run: talosctl upgrade, with the image of that schematic",
            ],
        )),
        "flatcar" => {
            let path = ["oem/grub.cfg", "usr/share/oem/grub.cfg"].into_iter().find(|path| tree.exists(path));
            let path = path.unwrap_or("oem/grub.cfg");
            let menu = tree.whole_text(path).unwrap_or_default();
            let set = grub::settings(&menu).into_iter().rfind(|(name, _, _)| name == "linux_append");
            boot.sources.push(EntrySource {
                file: format!("/{path}"),
                variable: Some("linux_append".into()),
                line: Some(set.map(|(_, value, _)| value).unwrap_or_default()),
                ..EntrySource::default()
            });
            Some(("Flatcar", &["add to linux_append in /oem/grub.cfg (set linux_append=\"...\"): WORDS"]))
        }
        "photon" if tree.exists("boot/photon.cfg") => {
            // Its menu is fixed, and takes the line from this file.
            let line = tree.whole_text("boot/photon.cfg").unwrap_or_default().lines().find_map(|line| {
                line.trim().strip_prefix("photon_cmdline=").map(|value| value.trim().to_string())
            });
            boot.sources.push(EntrySource {
                file: "/boot/photon.cfg".into(),
                variable: Some("photon_cmdline".into()),
                line: Some(line.unwrap_or_default()),
                ..EntrySource::default()
            });
            Some(("Photon OS", &["add to photon_cmdline= in /boot/photon.cfg: WORDS"]))
        }
        "bottlerocket" => Some((
            "Bottlerocket",
            &["add to settings.boot.kernel-parameters, by user data or apiclient set: WORDS"],
        )),
        _ if id == "nixos" || tree.exists("etc/NIXOS") => Some((
            "NixOS",
            &[
                "add to boot.kernelParams in /etc/nixos/configuration.nix, each word in quotes: WORDS",
                "run: nixos-rebuild boot",
            ],
        )),
        "guix" => Some((
            "Guix",
            &[
                "add to kernel-arguments of the operating-system in /etc/config.scm, each word in quotes: WORDS",
                "run: guix system reconfigure /etc/config.scm",
            ],
        )),
        _ => None,
    }
}

/// Programs that a package brings.
fn of_package(tree: &mut Tree, boot: &mut Boot) -> Option<KnownKeeper> {
    use Loader::*;
    let there = |path: &str| tree.exists(path);
    let program =
        |name: &str| ["usr/sbin", "usr/bin"].iter().any(|folder| there(&format!("{folder}/{name}")));
    let menu = matches!(boot.loader, Grub | GrubDebian);
    match boot.loader {
        Ostree => None,
        _ if there("etc/kernel/proxmox-boot-uuids") && menu => Some((
            "proxmox-boot-tool",
            &[
                "add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: WORDS",
                "run: proxmox-boot-tool refresh",
            ],
        )),
        _ if there("etc/kernel/proxmox-boot-uuids") => {
            if boot.sources.is_empty() {
                let source = whole_file(tree, "etc/kernel/cmdline");
                boot.sources.extend(source);
            }
            Some((
                "proxmox-boot-tool",
                &["add to the one line of /etc/kernel/cmdline: WORDS", "run: proxmox-boot-tool refresh"],
            ))
        }
        Grub | GrubBls if program("transactional-update") && menu => Some((
            "transactional-update",
            &[
                "add to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub: WORDS",
                "run: transactional-update grub.cfg",
            ],
        )),
        SystemdBoot | GrubBls | UnifiedKernelImage if program("sdbootutil") => Some((
            "sdbootutil",
            &["add to the one line of /etc/kernel/cmdline: WORDS", "run: sdbootutil update-all-entries"],
        )),
        _ if there("usr/bin/abroot") => {
            Some(("ABRoot", &["run: abroot kargs edit, which opens the line in an editor; add there: WORDS"]))
        }
        SystemdBoot if there("etc/kernelstub/configuration") => {
            Some(("kernelstub", &["run: kernelstub -a \"WORDS\""]))
        }
        SystemdBoot | UnifiedKernelImage if program("clr-boot-manager") => Some((
            "clr-boot-manager",
            &["write into /etc/kernel/cmdline.d/isolator.conf: WORDS", "run: clr-boot-manager update"],
        )),
        GrubBls if there("etc/zipl.conf") => {
            Some(("zipl", &["run: grubby --update-kernel=ALL --args=\"WORDS\" && zipl"]))
        }
        RaspberryPi => raspi_firmware(tree, boot),
        UBoot if program("flash-kernel") || there("etc/default/flash-kernel") => {
            shell_file(
                tree,
                boot,
                "etc/default/flash-kernel",
                &["LINUX_KERNEL_CMDLINE", "LINUX_KERNEL_CMDLINE_DEFAULTS"],
            );
            Some((
                "flash-kernel",
                &["add to LINUX_KERNEL_CMDLINE in /etc/default/flash-kernel: WORDS", "run: flash-kernel"],
            ))
        }
        Extlinux if there("etc/update-extlinux.conf") => {
            shell_file(tree, boot, "etc/update-extlinux.conf", &["default_kernel_opts"]);
            Some((
                "update-extlinux",
                &["add to default_kernel_opts in /etc/update-extlinux.conf: WORDS", "run: update-extlinux"],
            ))
        }
        Extlinux if there("etc/default/u-boot") => {
            shell_file(tree, boot, "etc/default/u-boot", &["U_BOOT_PARAMETERS"]);
            Some((
                "u-boot-menu",
                &["add to U_BOOT_PARAMETERS in /etc/default/u-boot: WORDS", "run: u-boot-update"],
            ))
        }
        Unknown if there("etc/default/limine") => Some((
            "limine-entry-tool",
            &["add to KERNEL_CMDLINE[default] in /etc/default/limine: WORDS", "run: limine-update"],
        )),
        _ => None,
    }
}

/// Debian's raspi-firmware writes `cmdline.txt` from its own files. Raspberry Pi OS has a package of that
/// name whose hook leaves the line alone, so the hook's text decides.
fn raspi_firmware(tree: &mut Tree, boot: &mut Boot) -> Option<KnownKeeper> {
    let hooks = ["etc/kernel/postinst.d", "etc/initramfs/post-update.d"];
    let mut texts = hooks.iter().filter_map(|folder| tree.hint(&format!("{folder}/z50-raspi-firmware")));
    if !texts.any(|text| text.contains("cmdline.txt")) {
        return None;
    }
    let source = whole_file(tree, "etc/default/raspi-extra-cmdline");
    boot.sources.extend(source);
    Some((
        "raspi-firmware",
        &[
            "add to the one line of /etc/default/raspi-extra-cmdline: WORDS",
            "run: update-initramfs -u, whose hook z50-raspi-firmware writes cmdline.txt",
        ],
    ))
}

/// Adds the lines that a shell's file gives to a generator.
fn shell_file(tree: &mut Tree, boot: &mut Boot, path: &str, names: &[&str]) {
    let Some(text) = tree.whole_text(path) else { return };
    let mut variables = Variables::default();
    variables.read(&text);
    let files = [format!("/{path}")];
    boot.sources.extend(names.iter().flat_map(|name| shell_sources(&variables, &files, name, false)));
}

#[cfg(test)]
mod tests {
    use super::super::read_tree;
    use crate::tree::made_of;
    use machine::boot::Loader;

    fn keeper(files: &[(&str, &str)]) -> Option<(String, String)> {
        let boot = read_tree(&mut made_of(files).1);
        boot.keeper.map(|keeper| (keeper.name, keeper.steps.join("; ")))
    }

    const MENU: (&str, &str) = ("boot/grub/grub.cfg", "menuentry 'a' {\n\tlinux /vmlinuz root=a\n}\n");
    const PI: (&str, &str) = ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4");
    const DEFAULTS: (&str, &str) = ("etc/default/grub", "");

    #[test]
    fn finds_the_program_that_keeps_the_files() {
        type Files<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Files, &str, &str)] = &[
            (&[("etc/NIXOS", "")], "NixOS", "boot.kernelParams in /etc/nixos/configuration.nix"),
            (&[("etc/os-release", "ID=\"nixos\"\n")], "NixOS", "nixos-rebuild boot"),
            (&[("etc/os-release", "NAME=x\nID=talos\n")], "Talos", "extraKernelArgs"),
            (&[("etc/os-release", "ID=flatcar\n")], "Flatcar", "/oem/grub.cfg"),
            (&[("etc/os-release", "ID=ubuntu-core\n")], "snapd", "snap set system"),
            (&[("proc/cmdline", "snapd_recovery_mode=run quiet")], "snapd", "snap set system"),
            (&[("etc/os-release", "ID=guix")], "Guix", "guix system reconfigure"),
            (
                &[DEFAULTS, MENU, ("etc/kernel/proxmox-boot-uuids", "A\n")],
                "proxmox-boot-tool",
                "/etc/default/grub",
            ),
            (
                &[
                    ("proc/cmdline", "initrd=\\EFI\\proxmox\\x root=a"),
                    DEFAULTS,
                    ("etc/kernel/proxmox-boot-uuids", "A"),
                ],
                "proxmox-boot-tool",
                "/etc/kernel/cmdline",
            ),
            (&[DEFAULTS, MENU, ("usr/sbin/transactional-update", "")], "transactional-update", "grub.cfg"),
            (&[DEFAULTS, MENU, ("usr/bin/abroot", "")], "ABRoot", "abroot kargs edit"),
            (
                &[("etc/os-release", "ID=photon\n"), ("boot/photon.cfg", "photon_cmdline=ro\n")],
                "Photon OS",
                "photon_cmdline= in /boot/photon.cfg",
            ),
            (
                &[
                    PI,
                    ("boot/firmware/config.txt", ""),
                    ("etc/kernel/postinst.d/z50-raspi-firmware", "> cmdline.txt"),
                ],
                "raspi-firmware",
                "/etc/default/raspi-extra-cmdline",
            ),
            (&[("boot/boot.scr", ""), ("usr/sbin/flash-kernel", "")], "flash-kernel", "LINUX_KERNEL_CMDLINE"),
            (
                &[("boot/extlinux/extlinux.conf", ""), ("etc/default/u-boot", "")],
                "u-boot-menu",
                "u-boot-update",
            ),
            (
                &[("boot/extlinux/extlinux.conf", ""), ("etc/update-extlinux.conf", "")],
                "update-extlinux",
                "default_kernel_opts",
            ),
            (
                &[("boot/extlinux.conf", ""), ("etc/update-extlinux.conf", "")],
                "update-extlinux",
                "default_kernel_opts",
            ),
        ];
        for (files, name, step) in cases {
            let (found, steps) = keeper(files).unwrap_or_else(|| panic!("{files:?}"));
            assert!(found == *name && steps.contains(step), "{files:?}: {found}: {steps}");
        }
    }

    #[test]
    fn entries_on_the_efi_partition_have_their_own_line() {
        let entry = "title a\nlinux /a/linux\noptions root=a quiet\n";
        let files = [
            ("proc/cmdline", "BOOT_IMAGE=/a/linux root=a quiet"),
            ("boot/efi/loader/entries/a-6.17.7-1-default.conf", entry),
            ("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"splash\"\n"),
            ("etc/kernel/cmdline", "root=a quiet\n"),
            ("usr/bin/sdbootutil", ""),
        ];
        let boot = read_tree(&mut made_of(&files).1);
        assert_eq!((boot.loader, boot.entries.len()), (Loader::GrubBls, 1));
        assert_eq!(boot.keeper.as_ref().map(|keeper| keeper.name.as_str()), Some("sdbootutil"));
        let places: Vec<String> = boot.sources.iter().map(|source| source.place()).collect();
        assert_eq!(places, ["/etc/kernel/cmdline"]);
        let drift = boot.drift("BOOT_IMAGE=/a/linux root=a quiet").unwrap();
        assert_eq!((drift.never_generated, drift.not_configured), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_hook_that_leaves_the_line_alone_keeps_nothing() {
        let hook = ("etc/kernel/postinst.d/z50-raspi-firmware", "cp vmlinuz /boot/firmware");
        assert_eq!(keeper(&[PI, ("boot/firmware/config.txt", ""), hook]), None);
        assert_eq!(keeper(&[DEFAULTS, MENU]), None);
    }

    #[test]
    fn reads_the_lines_that_a_keeper_takes() {
        let places = |files: &[(&str, &str)]| -> Vec<(String, Option<String>)> {
            let boot = read_tree(&mut made_of(files).1);
            boot.sources.iter().map(|source| (source.place(), source.line.clone())).collect()
        };
        assert_eq!(
            places(&[
                ("boot/boot.scr", ""),
                ("etc/default/flash-kernel", "LINUX_KERNEL_CMDLINE=\"quiet isolcpus=3\"\n")
            ])[0],
            ("LINUX_KERNEL_CMDLINE of /etc/default/flash-kernel".into(), Some("quiet isolcpus=3".into()))
        );
        assert_eq!(
            places(&[
                ("etc/os-release", "ID=flatcar"),
                ("oem/grub.cfg", "set linux_append=\"isolcpus=3\"\n")
            ]),
            [("linux_append of /oem/grub.cfg".into(), Some("isolcpus=3".into()))]
        );
    }
}
