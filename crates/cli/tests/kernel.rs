// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator kernel` on a kernel of a few lines: a Makefile that knows the targets of the real one, and tools
//! of which only make, patch and tar are real. What takes minutes is tried by `make kernel`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{self, Ran, command, folder, installed, skipped};
use serde_json::Value;
use tempfile::TempDir;

/// Takes every option but DROPPED; says what it compiles, as the real one does.
const MAKEFILE: &str = "\
allnoconfig:
	@grep -v DROPPED $(KCONFIG_ALLCONFIG) >$(O)/.config
olddefconfig prepare modules_prepare: ;
bzImage Image:
	@echo '  CC      init/main.o'
	@mkdir -p $(O)/arch/x86/boot $(O)/arch/arm64/boot
	@cp init/main.c $(O)/arch/x86/boot/bzImage
	@cp init/main.c $(O)/arch/arm64/boot/Image
	@touch $(O)/vmlinux $(O)/System.map
modules:
	@echo '  CC [M]  lib/crc7.ko'
kernelrelease:
	@echo 6.12.1-isolator
";

const HOOK: &str = "\
From 0 Mon Sep 17 00:00:00 2001
From: A Developer <a@example.org>
Date: Fri, 2 Jan 2026 00:00:00 +0000
Subject: [PATCH] init: call the isolator

---
--- a/init/main.c
+++ b/init/main.c
@@ -1,2 +1,3 @@
 int main(void)
+/* isolator */
 { return 0; }
";

/// A folder with a source, a series and tools.
struct Workshop(TempDir);

impl Workshop {
    /// `None`, with the reason printed, where a real tool is missing.
    fn open() -> Option<Workshop> {
        let folder = folder();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("linux/Makefile", MAKEFILE);
        write("linux/init/main.c", "int main(void)\n{ return 0; }\n");
        write("linux/fs/ext4/Makefile", "obj-$(CONFIG_EXT4_FS) += ext4.o\n");
        write("linux/drivers/block/Makefile", "obj-$(CONFIG_VIRTIO_BLK) += virtio_blk.o\n");
        write("series/isolator/core.c", "int isolator;\n");
        write("series/hooks/6.12/series", "0001-init.patch\n");
        write("series/hooks/6.12/0001-init.patch", HOOK);
        write("series/config/lab.config", "CONFIG_SMP=y\nCONFIG_MODULES=y\n# CONFIG_KCORE is not set\n");
        write("series/config/isolator.config", "CONFIG_ISOLATOR=y\n");
        let tools = folder.path().join("tools");
        for name in ["flex", "bison", "bc", "ld", "xz"] {
            common::tool(folder.path(), name, "exit 0");
        }
        common::tool(
            folder.path(),
            "gcc",
            "[ \"$1\" != --version ] || echo 'gcc (made up) 1'; cat >/dev/null",
        );
        for name in ["make", "patch", "tar", "sh", "cat", "cp", "grep", "mkdir", "touch", "echo"] {
            if skipped(!installed(name), &format!("it needs {name}")) {
                return None;
            }
            let path = std::env::var_os("PATH").unwrap_or_default();
            let real =
                std::env::split_paths(&path).map(|at| at.join(name)).find(|file| file.is_file()).unwrap();
            symlink(real, tools.join(name)).unwrap();
        }
        Some(Workshop(folder))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn change(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = command(self.0.path(), &[&["kernel"], args].concat());
        command.env("PATH", self.path("tools")).env("XDG_CACHE_HOME", self.path("cache"));
        command.output().unwrap().into()
    }

    /// Builds quietly from the source and the series that are here.
    fn build(&self, more: &[&str]) -> Ran {
        self.run(&[&["build", "--quiet", "--source", "linux", "--series", "series"], more].concat())
    }
}

#[test]
fn a_kernel_is_patched_configured_built_and_kept() {
    let Some(shop) = Workshop::open() else { return };
    let built = |more: &[&str]| shop.build(&[&["--json"], more].concat()).ended(0).json();
    let first = built(&["-o", "out"]);
    assert_eq!((&first["release"], &first["kept"]), (&"6.12.1-isolator".into(), &Value::from(false)));
    assert_eq!(first["compiler"], "gcc (made up) 1");
    let image = if cfg!(target_arch = "aarch64") { "Image" } else { "bzImage" };
    let text = fs::read_to_string(shop.path("out").join(image)).unwrap();
    assert_eq!(text, "int main(void)\n/* isolator */\n{ return 0; }\n");
    let config = fs::read_to_string(shop.path("out/config")).unwrap();
    assert!(config.contains("CONFIG_ISOLATOR=y\n") && config.contains("CONFIG_SMP=y\n"), "{config}");
    assert!(shop.path("cache/isolator/lab/trees/6.12/source/kernel/isolator/core.c").is_file());
    assert_eq!(
        fs::read_to_string(shop.path("linux/init/main.c")).unwrap().lines().count(),
        2,
        "the source is as it was"
    );

    assert_eq!(built(&[])["kept"], true);
    let unpatched = built(&["--unpatched"]);
    assert_eq!((&unpatched["kept"], &unpatched["series"]), (&Value::from(false), &"none".into()));
    shop.change("series/isolator/core.c", "int isolator, changed;\n");
    assert_eq!(built(&[])["kept"], false);
}

#[test]
fn how_far_it_is_goes_to_standard_error_and_the_path_to_standard_output() {
    let Some(shop) = Workshop::open() else { return };
    let ran = shop.run(&["build", "--source", "linux", "--series", "series"]).ended(0);
    let source = shop.path("linux").canonicalize().unwrap();
    assert_eq!(
        ran.stderr,
        format!(
            "isolator: unpacks {}\nisolator: prepares the build\nisolator: counts the steps\n\
             isolator: compiles, 2 steps\nisolator: 1 of 2 steps\nisolator: 2 of 2 steps\n",
            source.display()
        )
    );
    let path = Path::new(ran.stdout.trim_end());
    assert!(path.is_file() && path.with_file_name("System.map").is_file(), "{path:?}");
}

#[test]
fn what_cannot_be_built_is_refused_in_one_line() {
    let Some(shop) = Workshop::open() else { return };
    shop.build(&["--version", "5.4"]).refused(
        "cannot build Linux 5.4: there are no hooks for that version; choose from 6.12, or port a series with --series",
    );
    shop.build(&["--arch", "sparc"])
        .refused("cannot use the architecture sparc: there is no lab for it; choose x86_64 or aarch64");
    shop.build(&["--config", "no.config"])
        .refused("cannot read the configuration no.config: no such file or directory; check the path");
    shop.build(&["--config", "linux/Makefile"]).refused(
        "cannot use the configuration linux/Makefile: it sets nothing; give a kernel's .config, or choose lab or debian",
    );
    let init = shop.path("linux/init").canonicalize().unwrap();
    shop.run(&["build", "-q", "--source", "linux/init", "--series", "series"]).refused(&format!(
        "cannot use the source {}: it has no Makefile; give the top folder of a kernel's source",
        init.display()
    ));
    shop.run(&["build", "-q", "--series", "nowhere"])
        .refused("cannot read nowhere: no such file or directory; check the path");
    assert!(!shop.path("cache/isolator/lab/built").join("kernel.json").exists());
}

#[test]
fn a_missing_compiler_is_named_with_its_package() {
    let Some(shop) = Workshop::open() else { return };
    fs::remove_file(shop.path("tools/gcc")).unwrap();
    fs::remove_file(shop.path("tools/flex")).unwrap();
    let sudo = if rustix::process::getuid().is_root() { "" } else { "sudo " };
    let arch = std::env::consts::ARCH;
    shop.build(&[]).refused(&format!(
        "cannot build a kernel of {arch}: gcc, flex are not installed; {sudo}apt-get install gcc flex"
    ));
}

#[test]
fn a_patch_that_does_not_apply_is_named_and_the_tree_is_not_taken_for_good() {
    let Some(shop) = Workshop::open() else { return };
    shop.change("linux/init/main.c", "int main(int argc)\n{ return 0; }\n");
    let line = "cannot apply the patch 0001-init.patch: init/main.c: Hunk #1 FAILED at 1; build the version that the series is for, or port the series with --series";
    shop.build(&[]).refused(line);
    shop.build(&[]).refused(line);
    shop.change("linux/init/main.c", "int main(void)\n{ return 0; }\n");
    shop.build(&[]).ended(0);
}

#[test]
fn options_that_the_kernel_does_not_take_are_all_named() {
    let Some(shop) = Workshop::open() else { return };
    shop.change("series/config/lab.config", "CONFIG_SMP=y\nCONFIG_DROPPED=y\nCONFIG_DROPPED_TOO=m\n");
    shop.build(&[]).refused(
        "cannot configure the kernel with lab: the kernel's configuration does not take CONFIG_DROPPED (y asked, n got), CONFIG_DROPPED_TOO (m asked, n got); set what they depend on as well, or leave them out",
    );
}

#[test]
fn a_kernel_that_would_not_find_its_root_is_not_built() {
    let Some(shop) = Workshop::open() else { return };
    let root = shop.path("machine");
    fs::create_dir_all(root.join("proc")).unwrap();
    fs::write(root.join("proc/mounts"), "/dev/vda1 / ext4 rw,relatime 0 0\n").unwrap();
    let disk = root.join("sys/devices/pci0000:00/virtio0/block/vda");
    fs::create_dir_all(disk.join("vda1")).unwrap();
    fs::write(disk.join("vda1/partition"), "1\n").unwrap();
    for (link, to) in [
        ("sys/class/block/vda1", "../../devices/pci0000:00/virtio0/block/vda/vda1"),
        ("sys/devices/pci0000:00/virtio0/driver", "../../../bus/virtio/drivers/virtio_blk"),
    ] {
        fs::create_dir_all(root.join(link).parent().unwrap()).unwrap();
        symlink(to, root.join(link)).unwrap();
    }
    fs::create_dir_all(root.join("sys/bus/virtio/drivers/virtio_blk")).unwrap();
    let build = |config: &str| {
        shop.change("my.config", config);
        shop.build(&["--config", "my.config", "--machine", "machine"])
    };
    let cure = |option| format!("; set {option}, or give the machine that it is for with --machine");
    let (fs, disk) = (cure("CONFIG_EXT4_FS"), cure("CONFIG_VIRTIO_BLK"));
    build("CONFIG_SMP=y\n").refused(&format!(
        "cannot boot machine: the root file system's driver ext4 is neither built in nor a module{fs}"
    ));
    build("CONFIG_EXT4_FS=y\n").refused(&format!(
        "cannot boot machine: the driver virtio_blk of the root disk vda1 is neither built in nor a module{disk}"
    ));
    build("CONFIG_EXT4_FS=y\nCONFIG_VIRTIO_BLK=m\n").refused(&format!(
        "cannot boot machine: the driver virtio_blk of the root disk vda1 is a module, and without CONFIG_BLK_DEV_INITRD no initrd could load it{disk}"
    ));
    build("CONFIG_EXT4_FS=y\nCONFIG_VIRTIO_BLK=m\nCONFIG_BLK_DEV_INITRD=y\n").ended(0);
}

#[test]
fn the_series_is_written_out_whole() {
    let Some(shop) = Workshop::open() else { return };
    let ran = shop.run(&["export", "--series", "series", "-o", "patches"]).ended(0);
    assert_eq!(
        ran.stderr,
        "isolator: 2 patches for Linux 6.12 in patches; apply them with git quiltimport --patches patches\n"
    );
    let series = fs::read_to_string(shop.path("patches/series")).unwrap();
    assert_eq!(series, "core/0001-isolator-new-files.patch\ncore/0002-init.patch\n");
    assert_eq!(fs::read_to_string(shop.path("patches/core/0002-init.patch")).unwrap(), HOOK);
    shop.run(&["export", "--series", "series", "--version", "5.4", "-o", "more"]).refused(
        "cannot build Linux 5.4: there are no hooks for that version; choose from 6.12, or port a series with --series",
    );
}

#[test]
fn guests_are_told_how_to_come_by_the_kernel() {
    let Some(shop) = Workshop::open() else { return };
    let qemu = format!("qemu-system-{}", std::env::consts::ARCH);
    skip_if!(skipped(!installed(&qemu), &format!("it needs {qemu}")));
    let mut lab = command(&shop.path("."), &["lab", "run", "quiet", "--kernel", "isolator"]);
    let arch = std::env::consts::ARCH;
    Ran::from(lab.env("XDG_CACHE_HOME", shop.path("cache")).output().unwrap()).refused(&format!(
        "cannot use the kernel isolator: none was built for {arch}; build it first, which takes about 10 minutes on two cores: isolator kernel build --version 6.12 --arch {arch}"
    ));
    let mut lab = command(&shop.path("."), &["lab", "run", "quiet", "--kernel", "isolator:6.12+debug+kunit"]);
    Ran::from(lab.env("XDG_CACHE_HOME", shop.path("cache")).output().unwrap()).refused(&format!(
        "cannot use the kernel isolator:6.12+debug+kunit: none was built for {arch}; build it first, which takes about 10 minutes on two cores: isolator kernel build --version 6.12 --arch {arch} --with debug --with kunit"
    ));
}
