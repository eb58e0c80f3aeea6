// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole machines by what boots them, after public reports: each is a tree of files, made for a test.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A machine to be made.
pub struct Made {
    files: Vec<(String, String)>,
}

/// The root of Debian's entries.
pub const ROOT: &str = "root=UUID=1111aaaa-0000-4000-8000-222233334444";
pub const RT: &str = "6.1.0-28-rt-amd64";
pub const STOCK: &str = "6.1.0-28-amd64";
pub const MACHINE: &str = "6a9857a393724b7a981ebb5b8495b9ea";
pub const RHEL: &str = "5.14.0-503.rt.el9.x86_64";

const CONFIG: &str = "CONFIG_SMP=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_NO_HZ_FULL=y\n\
                      CONFIG_PREEMPT_RT=y\nCONFIG_HIGH_RES_TIMERS=y\nCONFIG_IRQ_FORCED_THREADING=y\n";

/// A machine of `cpus` CPUs that runs `release` with `line`.
pub fn made(release: &str, cpus: u32, line: &str) -> Made {
    let list = format!("0-{}\n", cpus - 1);
    let mut made = Made { files: Vec::new() };
    for name in ["online", "possible", "present"] {
        made = made.file(&format!("sys/devices/system/cpu/{name}"), &list);
    }
    for cpu in 0..cpus {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
        made = made.file(&path, &format!("{cpu}\n"));
    }
    made.file("sys/devices/system/cpu/isolated", "\n")
        .file("proc/cpuinfo", "processor\t: 0\n")
        .file("proc/cmdline", &format!("{line}\n"))
        .file("proc/self/mounts", "/dev/sda2 / ext4 rw 0 0\n")
        .file("proc/sys/kernel/ostype", "Linux\n")
        .file("proc/sys/kernel/osrelease", &format!("{release}\n"))
        .file("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian\n")
        .file("proc/sys/kernel/hostname", "robot\n")
        .file("proc/sys/kernel/random/boot_id", "11111111-2222-4333-8444-555555555555\n")
        .file("etc/machine-id", &format!("{MACHINE}\n"))
        .file(&format!("boot/config-{release}"), CONFIG)
}

impl Made {
    /// With one more file; a later one of the same name stands for the earlier.
    pub fn file(mut self, path: &str, text: &str) -> Made {
        self.files.retain(|(other, _)| other != path);
        self.files.push((path.to_string(), text.to_string()));
        self
    }

    /// Without this file.
    pub fn without(mut self, path: &str) -> Made {
        self.files.retain(|(other, _)| other != path);
        self
    }

    /// The text of one of its files.
    fn text(&self, path: &str) -> String {
        self.files.iter().find(|(other, _)| other == path).unwrap().1.clone()
    }

    /// The tree.
    pub fn lay_out(&self) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in &self.files {
            let place = root.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        }
        root
    }
}

/// Every file below `root` with its text, without what a plan keeps for itself.
pub fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found
                    .push((path.strip_prefix(root).unwrap().display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// GRUB's block of variables.
pub fn grubenv(variables: &str) -> String {
    format!("{:#<1024}", format!("# GRUB Environment Block\n{variables}"))
}

/// A menu entry.
pub fn entry(head: &str, id: &str, release: &str, line: &str) -> String {
    format!(
        "menuentry {head} $menuentry_id_option '{id}' {{\n\tload_video\n\tinsmod ext2\n\tlinux\t/boot/vmlinuz-{release} {line}\n\
         \tinitrd\t/boot/initrd.img-{release}\n}}\n"
    )
}

/// A menu as Debian's generator prints it, with these entries.
pub fn menu(head: &str, entries: &str) -> String {
    format!(
        "if [ -s $prefix/grubenv ]; then\n  load_env\nfi\nif [ \"${{next_entry}}\" ] ; then\n   set default=\"${{next_entry}}\"\n   \
         set next_entry=\n   save_env next_entry\n   set boot_once=true\nelse\n   set default=\"0\"\nfi\n{head}\
         ### BEGIN /etc/grub.d/10_linux ###\n{entries}### END /etc/grub.d/10_linux ###\n\
         if [ -f  ${{config_directory}}/custom.cfg ]; then\n  source ${{config_directory}}/custom.cfg\nfi\n"
    )
}

/// Debian with GRUB whose default entry has `line`, which runs.
pub fn debian(line: &str, defaults: &str) -> Made {
    let entries = entry("'Debian GNU/Linux' --class debian", "simple", RT, &format!("{ROOT} ro  {line}"))
        + &entry("'Debian (recovery mode)'", "recovery", RT, &format!("{ROOT} ro single"));
    made(RT, 4, &format!("BOOT_IMAGE=/boot/vmlinuz-{RT} {ROOT} ro {line}"))
        .file("etc/debian_version", "12.9\n")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/default/grub", &format!("GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\n{defaults}"))
        .file("boot/grub/grub.cfg", &menu("", &entries))
        .file("boot/grub/grubenv", &grubenv(""))
        .file(&format!("boot/vmlinuz-{RT}"), "")
        .file(&format!("boot/initrd.img-{RT}"), "")
}

/// Debian with nothing special.
pub fn plain_debian() -> Made {
    debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n")
}

/// RHEL 9 with an entry in a file, and this line beside `root=`.
pub fn rhel9(options: &str, variables: &str, defaults: &str, running: &str) -> Made {
    let line = "root=/dev/mapper/rhel-root ro crashkernel=1G rd.lvm.lv=rhel/root";
    let file = |release: &str, options: &str| {
        format!(
            "title RHEL ({release})\nversion {release}\nlinux /vmlinuz-{release}\ninitrd /initramfs-{release}.img\n\
             options {line} {options}\ngrub_users $grub_users\ngrub_arg --unrestricted\ngrub_class rhel\n"
        )
    };
    let entries = "boot/loader/entries";
    made(RHEL, 8, &format!("BOOT_IMAGE=(hd0,gpt2)/vmlinuz-{RHEL} {line} {running}"))
        .file("etc/os-release", "ID=\"rhel\"\nID_LIKE=\"fedora\"\n")
        .file("etc/default/grub", &format!("GRUB_DEFAULT=saved\n{defaults}GRUB_ENABLE_BLSCFG=true\n"))
        .file(&format!("{entries}/{MACHINE}-{RHEL}.conf"), &file(RHEL, options))
        .file(&format!("{entries}/{MACHINE}-0-rescue.conf"), &file("0-rescue", ""))
        .file(
            "boot/grub2/grub.cfg",
            "if [ \"${next_entry}\" ] ; then\n   set default=\"${next_entry}\"\n   set next_entry=\n   save_env next_entry\n\
             else\n   set default=\"${saved_entry}\"\nfi\ninsmod blscfg\nblscfg\n",
        )
        .file("boot/grub2/grubenv", &grubenv(&format!("saved_entry={MACHINE}-{RHEL}\n{variables}")))
        .file(&format!("boot/vmlinuz-{RHEL}"), "")
        .file(&format!("boot/initramfs-{RHEL}.img"), "")
}

/// A Jetson with one label of this line.
pub fn jetson(append: &str, running: &str) -> Made {
    made("5.15.148-rt-tegra", 8, running)
        .file("etc/nv_tegra_release", "# R36 (release), REVISION: 4.3\n")
        .file("proc/device-tree/model", "NVIDIA Jetson Orin NX\0")
        .file("boot/Image", "")
        .file("boot/initrd", "")
        .file(
            "boot/extlinux/extlinux.conf",
            &format!(
                "TIMEOUT 30\nDEFAULT primary\n\nLABEL primary\n      MENU LABEL primary kernel\n      LINUX /boot/Image\n      \
                 INITRD /boot/initrd\n      APPEND {append}\n"
            ),
        )
}

/// A Raspberry Pi with this `config.txt`.
pub fn pi(model: &str, config: &str, running: &str) -> Made {
    made("6.12.34+rpt-rpi-v8-rt", 4, running)
        .file("proc/device-tree/model", &format!("{model}\0"))
        .file("boot/firmware/config.txt", config)
}

pub const AB: &str = "[all]\nos_check=0\nos_prefix=current/\n\n[tryboot]\nos_prefix=new/\n\n[all]\nkernel=vmlinuz\n\
                      cmdline=cmdline.txt\ninitramfs initrd.img followkernel\n\n[pi4]\narm_boost=1\n\n[all]\ndtparam=audio=on\n";
pub const PI_LINE: &str = "console=tty1 root=LABEL=writable rootfstype=ext4 rootwait";

/// The words of TuneD's realtime profile.
pub const TUNED: &str =
    "skew_tick=1 isolcpus=managed_irq,domain,2-7 nohz_full=2-7 rcu_nocbs=2-7 irqaffinity=0-1";

/// The machine of a report, by its name.
pub fn of(name: &str) -> Made {
    let quiet = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n";
    let tegra = "rw rootwait rootfstype=ext4 console=ttyTCU0,115200 net.ifnames=0";
    match name {
        "grub-after-quote" => debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\" isolcpus=2,3\n"),
        "grub-bom" => plain_debian()
            .file("etc/default/grub", "\u{feff}GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=2,3\"\nGRUB_DEFAULT=0\n"),
        "grub-curly" => {
            debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\u{201c}quiet isolcpus=2,3\u{201d}\n")
        }
        "grub-multiline" => debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\nisolcpus=2,3\"\n"),
        "grub-spaces" => debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT = \"quiet isolcpus=2,3\"\n"),
        "grub-sourced" => debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n. /etc/realtime.conf\n"),
        "grub-crlf" => debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=2,3\"\r\n"),
        "grub-lasting" => plain_debian(),
        "grub-lasting-crlf" => {
            debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\r\nGRUB_CMDLINE_LINUX=\"\"\r\n")
        }
        "grub-lasting-multiline" => debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\nsplash\"\n"),
        "grub-commented" => {
            debian("quiet", &format!("{quiet}#GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=2,3\"\n"))
        }
        "grub-not-generated" => debian("quiet", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=2,3\"\n"),
        "linuxcnc-grubcfg-by-hand" => debian("quiet isolcpus=1", quiet),
        "rt-conf-dropin" => {
            let words = "isolcpus=2-3 nohz=on nohz_full=2-3 kthread_cpus=0-1 irqaffinity=0-1";
            let line = format!("GRUB_CMDLINE_LINUX_DEFAULT=\"quiet {words}\"");
            debian(&format!("quiet {words}"), quiet).file("etc/default/grub.d/60_rt-conf.cfg", &line)
        }
        "ubuntu-99-override" => {
            plain_debian().file("etc/default/grub.d/99-realtime.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")
        }
        "ubuntu-99-realtime" => plain_debian()
            .file("etc/default/grub.d/99-realtime.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\"\n"),
        "ubuntu-50-cloud" => debian("console=ttyS0", quiet)
            .file("etc/default/grub.d/50-cloudimg.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0\"\n")
            .file(
                "etc/default/grub.d/kdump-tools.cfg",
                "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=192M\"\n",
            )
            .file(
                "boot/grub/grub.cfg",
                &menu("", &entry("'Ubuntu'", "simple", RT, &format!("{ROOT} ro  console=ttyS0 crashkernel=192M"))),
            )
            .file("proc/cmdline", &format!("BOOT_IMAGE=/boot/vmlinuz-{RT} {ROOT} ro console=ttyS0 crashkernel=192M\n")),
        "grub-tuned" => {
            let head = format!("### BEGIN /etc/grub.d/00_tuned ###\nset tuned_params=\"{TUNED}\"\n### END /etc/grub.d/00_tuned ###\n");
            let line = format!("{ROOT} ro  quiet $tuned_params");
            let defaults = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n\
                            GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }\\$tuned_params\"\n";
            debian(&format!("quiet {TUNED}"), defaults)
                .file("boot/grub/grub.cfg", &menu(&head, &entry("'Debian'", "simple", RT, &line)))
        }
        "grub-handoff" => {
            let head = "function gfxmode {\nset gfxpayload=\"${1}\"\nif [ \"${1}\" = \"keep\" ]; then\n\
                        set vt_handoff=vt.handoff=7\nelse\nset vt_handoff=\nfi\n}\n";
            let line = format!("{ROOT} ro  quiet $vt_handoff");
            debian("quiet vt.handoff=7", quiet)
                .file("boot/grub/grub.cfg", &menu(head, &entry("'Ubuntu'", "simple", RT, &line)))
        }
        "grub-own-entry" => {
            // The default stands in a script of the administrator's.
            let own = entry("'Mine'", "mine", RT, &format!("{ROOT} ro quiet isolcpus=3"));
            let text = menu("", &entry("'Debian'", "simple", RT, &format!("{ROOT} ro quiet")))
                .replace("set default=\"0\"", "set default=\"mine\"")
                + &format!("### BEGIN /etc/grub.d/40_custom ###\n{own}### END /etc/grub.d/40_custom ###\n");
            debian("quiet isolcpus=3", quiet).file("boot/grub/grub.cfg", &text)
        }
        "grub-password" => {
            let head = "set superusers=\"root\"\nexport superusers\npassword_pbkdf2 root grub.pbkdf2.sha512.10000.AA.BB\n";
            let open = "'Debian GNU/Linux' --class debian --class os --unrestricted";
            plain_debian().file("boot/grub/grub.cfg", &menu(head, &entry(open, "simple", RT, &format!("{ROOT} ro  quiet"))))
        }
        "rt-not-default" => {
            let line = format!("{ROOT} ro  quiet");
            let entries = entry("'Debian GNU/Linux'", "simple", STOCK, &line)
                + "submenu 'Advanced options' $menuentry_id_option 'advanced' {\n"
                + &entry("'Debian, with Linux RT'", "rt", RT, &line)
                + "}\n";
            plain_debian()
                .file("boot/grub/grub.cfg", &menu("", &entries))
                .file(&format!("boot/vmlinuz-{STOCK}"), "")
                .file(&format!("boot/initrd.img-{STOCK}"), "")
        }
        "lxc-with-grub" => plain_debian().file("run/systemd/container", "lxc\n"),
        "proxmox" => plain_debian()
            .file(
                "proc/cmdline",
                "initrd=\\EFI\\proxmox\\6.8.12-8-pve\\initrd.img-6.8.12-8-pve root=ZFS=rpool/ROOT/pve-1 boot=zfs\n",
            )
            .file("etc/kernel/cmdline", "root=ZFS=rpool/ROOT/pve-1 boot=zfs\n")
            .file("etc/kernel/proxmox-boot-uuids", "AAAA-BBBB\n")
            .file(
                "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
                "\u{6}\0\0\0s\0y\0s\0t\0e\0m\0d\0-\0b\0o\0o\0t\0 \x002\x005\x002\0",
            ),
        "grub-beside-systemd-boot" => plain_debian()
            .file("boot/efi/loader/loader.conf", "timeout 3\n")
            .file("boot/efi/EFI/systemd/systemd-bootx64.efi", "")
            .file("boot/efi/loader/entries/old.conf", "title old\nlinux /linux\noptions root=UUID=9 ro\n"),
        "rhel9-default-grub" => {
            rhel9("", "", "GRUB_CMDLINE_LINUX=\"crashkernel=1G rd.lvm.lv=rhel/root isolcpus=2-7 nohz_full=2-7\"\n", "")
        }
        "tuned-params-bls" => rhel9(
            "$tuned_params",
            &format!("tuned_params={TUNED}\n"),
            "GRUB_CMDLINE_LINUX=\"crashkernel=1G rd.lvm.lv=rhel/root\"\n",
            TUNED,
        ),
        "suse-rt" => debian("quiet", quiet)
            .without("etc/debian_version")
            .file("etc/os-release", "ID=\"sle-micro\"\nID_LIKE=\"suse\"\n")
            .file("usr/sbin/grub2-mkconfig", "")
            .file("usr/sbin/transactional-update", ""),
        "suse-leap" => debian("quiet", quiet)
            .without("etc/debian_version")
            .file("etc/os-release", "ID=\"opensuse-leap\"\nID_LIKE=\"suse\"\n")
            .file("usr/sbin/grub2-mkconfig", ""),
        "nixos" => {
            let of = |number: u32| {
                format!(
                    "title NixOS\nsort-key nixos\nversion Generation {number}\nlinux /EFI/nixos/abc-linux-6.12.9-bzImage.efi\n\
                     initrd /EFI/nixos/abc-initrd.efi\noptions init=/nix/store/abc{number}/init loglevel=4\n"
                )
            };
            made("6.12.9", 4, "initrd=\\EFI\\nixos\\abc-initrd.efi init=/nix/store/abc42/init loglevel=4")
                .file("etc/NIXOS", "")
                .file("boot/loader/loader.conf", "timeout 5\ndefault nixos-generation-42.conf\n")
                .file("boot/loader/entries/nixos-generation-41.conf", &of(41))
                .file("boot/loader/entries/nixos-generation-42.conf", &of(42))
                .file("boot/EFI/systemd/systemd-bootx64.efi", "")
        }
        "talos" => made("6.6.1-talos", 8, "talos.platform=metal console=tty0")
            .file("etc/os-release", "NAME=\"Talos\"\nID=talos\n")
            .file("boot/EFI/Linux/Talos-v1.9.2.efi", ""),
        "flatcar" => made("6.6.1-flatcar", 8, "BOOT_IMAGE=/flatcar/vmlinuz-a mount.usr=/dev/mapper/usr quiet")
            .file("etc/os-release", "ID=flatcar\nID_LIKE=coreos\n")
            .file("oem/grub.cfg", "set linux_append=\"quiet\"\n"),
        "ubuntu-core" => made("6.8.1-rt", 8, "snapd_recovery_mode=run console=ttyS0 quiet")
            .file("etc/os-release", "ID=ubuntu-core\n")
            .file("boot/grub/grub.cfg", "set default=0\n")
            .file("var/lib/snapd/modeenv", "mode=run\n"),
        "wsl2" => made("5.15.167.4-microsoft-standard-WSL2", 8, "initrd=\\initrd.img WSL_ROOT_INIT=1 panic=-1"),
        "jetson-emmc-first" => {
            jetson(&format!("${{cbootargs}} root=/dev/mmcblk0p1 {tegra}"), &format!("root=/dev/sda1 {tegra}"))
        }
        "tx2-firmware-isolcpus" => jetson(
            &format!("${{cbootargs}} root=PARTUUID=5ac80d7c {tegra}"),
            &format!("root=PARTUUID=5ac80d7c {tegra} isolcpus=1-2"),
        ),
        "jetson-plain" => {
            jetson(&format!("${{cbootargs}} root=PARTUUID=5ac80d7c {tegra}"), &format!("root=PARTUUID=5ac80d7c {tegra}"))
        }
        "jetson-two-append" => jetson(
            &format!("${{cbootargs}} root=PARTUUID=5ac80d7c {tegra}\n      APPEND ${{cbootargs}} quiet"),
            &format!("root=PARTUUID=5ac80d7c {tegra}"),
        ),
        "jetson-root-twice" => jetson("root=/dev/sda1 rw root=/dev/sda2", "root=/dev/sda1 rw"),
        "k49-jetson" => jetson(&format!("${{cbootargs}} root=/dev/mmcblk0p1 {tegra}"), "root=/dev/mmcblk0p1 isolcpus=3")
            .file("proc/sys/kernel/osrelease", "4.9.253-rt168-tegra\n")
            .file("proc/sys/kernel/version", "#1 SMP PREEMPT RT Sat\n")
            .file("boot/config-4.9.253-rt168-tegra", "CONFIG_SMP=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\n")
            .file("sys/devices/system/cpu/isolated", "3\n"),
        "rhel7-310" => made("3.10.0-1160.rt56.1131.el7.x86_64", 8, "BOOT_IMAGE=/vmlinuz root=/dev/sda1 isolcpus=4-7")
            .file("boot/config-3.10.0-1160.rt56.1131.el7.x86_64", "CONFIG_SMP=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\n")
            .file("sys/devices/system/cpu/isolated", "4-7\n"),
        "debian-raspi-firmware" => pi("Raspberry Pi 4 Model B Rev 1.4", "arm_64bit=1\n", "root=LABEL=RASPIROOT rw rootwait")
            .file("boot/firmware/cmdline.txt", "root=LABEL=RASPIROOT rw rootwait\n")
            .file("etc/kernel/postinst.d/z50-raspi-firmware", "#!/bin/sh\n# rewrites /boot/firmware/cmdline.txt\n"),
        "pi-sections" => {
            let config = "[pi5]\ncmdline=cmdline-pi5.txt\nkernel=kernel_2712.img\n[pi4]\nkernel=kernel8_rt.img\n[all]\narm_64bit=1\n";
            pi("Raspberry Pi 4 Model B Rev 1.4", config, "console=tty1 root=PARTUUID=aa-02 rootwait")
                .file("boot/firmware/cmdline.txt", "console=tty1 root=PARTUUID=aa-02 rootwait\n")
                .file("boot/firmware/cmdline-pi5.txt", "console=tty1 root=PARTUUID=bb-02 rootwait\n")
        }
        "pi-monitor" => pi("Raspberry Pi 4 Model B Rev 1.4", "[EDID=DEL-X]\ncmdline=dell.txt\n", PI_LINE)
            .file("boot/firmware/cmdline.txt", &format!("{PI_LINE}\n")),
        "ubuntu-pi-ab" => {
            pi("Raspberry Pi 5 Model B Rev 1.0", AB, PI_LINE).file("boot/firmware/current/cmdline.txt", PI_LINE)
        }
        "ubuntu-pi-ab-new" => pi("Raspberry Pi 5 Model B Rev 1.0", AB, PI_LINE)
            .file("boot/firmware/cmdline.txt", PI_LINE)
            .file("boot/firmware/new/cmdline.txt", PI_LINE)
            .file("boot/firmware/current/cmdline.txt", &format!("{PI_LINE} isolcpus=3")),
        "flash-kernel" => made("5.15.0-1062-xilinx-zynqmp", 4, "earlycon root=LABEL=writable rootwait quiet splash")
            .file("proc/device-tree/model", "ZynqMP SMK-K26 Rev1/B/A\0")
            .file("etc/default/flash-kernel", "LINUX_KERNEL_CMDLINE=\"quiet splash\"\nLINUX_KERNEL_CMDLINE_DEFAULTS=\"\"\n")
            .file("boot/boot.scr", "")
            .file("usr/sbin/flash-kernel", ""),
        "orangepi" => made("5.10.160-rockchip-rk3588", 8, "root=UUID=1 rootwait console=ttyS2,1500000")
            .file("proc/device-tree/model", "Orange Pi 5 Plus\0")
            .file("boot/boot.scr", "")
            .file("boot/orangepiEnv.txt", "verbosity=1\nextraargs=cma=128M\nrootdev=UUID=1\n"),
        "ubuntu-rockchip" => made("5.10.160-rockchip", 8, "root=UUID=1 rootwait")
            .file("boot/firmware/ubuntuEnv.txt", "bootargs=rootwait\noverlays=\n")
            .file("boot/firmware/boot.scr", ""),
        "seapath-default-ignored" => debian("", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet isolcpus=2-3\"\nGRUB_CMDLINE_LINUX=\"\"\n"),
        "rpi-4106" => made("6.1.21-v8+", 4, "console=tty1 root=PARTUUID=1-02 rootwait isolcpus=0")
            .file("proc/device-tree/model", "Raspberry Pi 3 Model B Rev 1.2\0")
            .file("boot/config.txt", "arm_64bit=1\n")
            .file("boot/cmdline.txt", "console=tty1 root=PARTUUID=1-02 rootwait isolcpus=0\n"),
        "eve-inverse" => made("6.1.112", 8, "isolcpus=inverse,0 nohz_full=inverse,0"),
        "unknown" => made("6.1.112", 8, "root=/dev/sda1"),
        "jetson-nvpmodel" => {
            let words = "isolcpus=managed_irq,domain,4-7 nohz_full=4-7 rcu_nocbs=4-7";
            let line = format!("root=PARTUUID=5ac80d7c {tegra} {words}");
            jetson(&format!("${{cbootargs}} {line}"), &line)
        }
        "jetson-bom" | "jetson-crlf" | "jetson-hash" => {
            let made = of("jetson-plain");
            let path = "boot/extlinux/extlinux.conf";
            let text = made.text(path);
            made.file(path, &match name {
                "jetson-bom" => format!("\u{feff}{text}"),
                "jetson-crlf" => text.replace('\n', "\r\n"),
                _ => text.replace("net.ifnames=0", "net.ifnames=0 # isolcpus=1"),
            })
        }
        "grub-utf16" => {
            let text = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n";
            debian("quiet", "").file("etc/default/grub", &text.chars().map(|letter| format!("{letter}\0")).collect::<String>())
        }
        "grub-document" => debian("quiet", "cat <<E\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nE\n"),
        "proxmox-real-time" => of("proxmox").without("sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"),
        "proxmox-grub" => plain_debian().file("etc/kernel/proxmox-boot-uuids", "AAAA-BBBB\n"),
        "refind" => plain_debian()
            .file("proc/cmdline", &format!("{ROOT} ro quiet initrd=\\boot\\initrd.img-{RT}\n"))
            .file("sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", "\u{6}\0\0\0r\0E\0F\0I\0n\0d\0"),
        other => panic!("{other} is no machine"),
    }
}
