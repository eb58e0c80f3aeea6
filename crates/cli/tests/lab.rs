// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator lab`: what is broken ends with one line and status 1, and nothing keeps running. The kernels
//! here are files of a few bytes; what needs a real one takes it from the lab's cache, and fetches nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;
use rustix::process::Signal;
use tempfile::TempDir;

const EMULATOR: &str = "qemu-system-x86_64";

/// A folder with a copy of the program and, beside it, files in the place of what guests need.
struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Lab {
        let lab = Lab { folder: folder() };
        assert!(Command::new("cp").arg(PROGRAM).arg(lab.at("isolator")).status().unwrap().success());
        for name in ["isolator-x86_64", "isolator-aarch64", "isolator-scope.so"] {
            fs::write(lab.at(name), "").unwrap();
        }
        fs::create_dir(lab.at("tmp")).unwrap();
        lab
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn kernel(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.at(name), bytes).unwrap();
        name.to_string()
    }

    /// `lab run quiet` on that kernel, whose time limit is far off unless it is given.
    fn command(&self, kernel: &str, more: &[&str]) -> Command {
        let mut command = Command::new(self.at("isolator"));
        command.args(["lab", "run", "quiet", "--quiet", "-o", "run", "--kernel", kernel]);
        command.args(more).current_dir(self.folder.path());
        command.env("XDG_CACHE_HOME", self.at("cache")).env("TMPDIR", self.at("tmp"));
        command
    }

    fn run(&self, kernel: &str, more: &[&str]) -> Ran {
        self.command(kernel, more).output().unwrap().into()
    }

    /// Fails where something was left behind.
    #[track_caller]
    fn is_clean(&self) {
        assert_eq!(
            fs::read_dir(self.at("tmp")).unwrap().count(),
            0,
            "nothing is left in the temporary folder"
        );
        assert!(!self.at("run").exists(), "there is no bundle");
    }
}

/// A kernel that jumps to itself (Documentation/arch/x86/boot.rst).
fn hanging() -> Vec<u8> {
    let mut image = vec![0; 1024];
    image[0x1f1] = 1; // one sector of setup code, which is
    image[0x200..0x206].copy_from_slice(b"\xeb\xfeHdrS"); // a jump to itself
    image[0x206..0x208].copy_from_slice(&0x020c_u16.to_le_bytes());
    image[0x211] = 1; // loaded high
    image[0x22c..0x230].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes()); // where the initramfs may lie
    image
}

/// The same for arm64 (Documentation/arch/arm64/booting.rst).
fn hanging_arm64() -> Vec<u8> {
    let mut image = vec![0; 4096];
    image[..4].copy_from_slice(&0x1400_0000_u32.to_le_bytes()); // b .
    image[0x10..0x18].copy_from_slice(&4096_u64.to_le_bytes());
    image[0x38..0x3c].copy_from_slice(b"ARM\x64");
    image
}

fn skipped_for_lack_of(emulator: &str) -> bool {
    skipped(!installed(emulator), &format!("it needs {emulator}"))
}

/// Debian's newest kernel for real-time of those that the lab fetched before.
fn real_kernel() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let kernels = fs::read_dir(cache.join("isolator/lab/kernels")).ok()?.flatten();
    let images = kernels.flat_map(|kernel| fs::read_dir(kernel.path().join("boot")).into_iter().flatten());
    let images = images.flatten().map(|image| image.path()).filter(|image| {
        let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("vmlinuz-") && name.ends_with("-rt-amd64")
    });
    let numbers = |image: &PathBuf| {
        let name = image.display().to_string();
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()
    };
    images.max_by_key(numbers)
}

fn beside(name: &str) -> PathBuf {
    Path::new(PROGRAM).with_file_name(name)
}

#[test]
fn a_missing_emulator_is_told_before_anything_is_fetched() {
    let lab = Lab::new();
    for (arch, package) in [("x86_64", "qemu-system-x86"), ("aarch64", "qemu-system-arm")] {
        let ran = lab.command("debian-rt", &["--arch", arch]).env("PATH", lab.at("tmp")).output().unwrap();
        Ran::from(ran).refused(&format!(
            "cannot run guests with qemu-system-{arch}: it is not installed; apt-get install {package}"
        ));
    }
    assert!(!lab.at("cache").exists());
    lab.is_clean();
}

#[test]
fn a_file_that_is_no_kernel_of_the_architecture_is_refused() {
    skip_if!(skipped_for_lack_of(EMULATOR));
    let lab = Lab::new();
    let zeros = lab.kernel("zeros", &[0; 1 << 20]);
    lab.run(&zeros, &["--arch", "x86_64"])
        .refused("cannot use the kernel zeros: it is not a kernel image; give a kernel image of x86_64");
    let arm = lab.kernel("arm", &hanging_arm64());
    lab.run(&arm, &["--arch", "x86_64"])
        .refused("cannot use the kernel arm: it is a kernel of aarch64; give a kernel image of x86_64");
    let mut cut = hanging();
    cut[0x1f4] = 1;
    let cut = lab.kernel("cut", &cut);
    lab.run(&cut, &["--arch", "x86_64"])
        .refused("cannot use the kernel cut: it is cut short; give a kernel image of x86_64");
    lab.is_clean();
}

#[test]
fn a_guest_program_that_is_not_there_is_named() {
    skip_if!(skipped_for_lack_of(EMULATOR));
    let lab = Lab::new();
    let kernel = lab.kernel("kernel", &hanging());
    fs::remove_file(lab.at("isolator-x86_64")).unwrap();
    let line = lab.run(&kernel, &["--arch", "x86_64"]).line();
    assert!(line.starts_with("cannot run guests of x86_64: there is no /"), "{line}");
    fs::write(lab.at("isolator-x86_64"), "").unwrap();
    fs::remove_file(lab.at("isolator-scope.so")).unwrap();
    lab.run(&kernel, &["--arch", "x86_64"]).refused(
        "cannot look at the guest from outside: isolator-scope.so is not beside this program; run make lab",
    );
    lab.is_clean();
}

#[test]
fn an_installed_program_finds_its_parts_in_lib() {
    skip_if!(skipped_for_lack_of(EMULATOR));
    let lab = Lab::new();
    let kernel = lab.kernel("hanging", &hanging());
    for folder in ["bin", "lib", "lib/isolator"] {
        fs::create_dir(lab.at(folder)).unwrap();
    }
    fs::rename(lab.at("isolator"), lab.at("bin/isolator")).unwrap();
    for part in ["isolator-x86_64", "isolator-scope.so"] {
        fs::rename(lab.at(part), lab.at("lib/isolator").join(part)).unwrap();
    }
    let mut command = Command::new(lab.at("bin/isolator"));
    command.args(["lab", "run", "quiet", "--quiet", "-o", "run", "--kernel", &kernel]);
    command.args(["--arch", "x86_64", "--time-limit", "1s"]).current_dir(lab.folder.path());
    command.env("XDG_CACHE_HOME", lab.at("cache")).env("TMPDIR", lab.at("tmp"));
    // It gets as far as running the guest.
    let line = Ran::from(command.output().unwrap()).line();
    assert!(line.contains("it said nothing on its console in 1s"), "{line}");
}

#[test]
fn a_kernel_that_hangs_silently_ends_at_the_time_limit() {
    for (arch, image) in [("x86_64", hanging()), ("aarch64", hanging_arm64())] {
        if skipped_for_lack_of(&format!("qemu-system-{arch}")) {
            continue;
        }
        let lab = Lab::new();
        let kernel = lab.kernel("hanging", &image);
        lab.run(&kernel, &["--arch", arch, "--time-limit", "1s"]).refused(
            "cannot run a guest with hanging: it said nothing on its console in 1s; try isolator lab shell with the same kernel and boot line",
        );
        lab.is_clean();
    }
}

#[test]
fn the_first_signal_ends_the_run_with_one_line_and_the_guest_with_it() {
    skip_if!(skipped_for_lack_of(EMULATOR));
    for signal in [Signal::INT, Signal::TERM] {
        let lab = Lab::new();
        let kernel = lab.kernel("hanging", &hanging());
        let going = Going::run(lab.folder.path(), &mut lab.command(&kernel, &["--arch", "x86_64"]));
        let emulator = emulator_of(&going);
        going.signal(signal);
        Ran::refused(going.end(), "cannot run a guest with hanging: it was told to end; run it again");
        assert!(!lives(emulator));
        lab.is_clean();
    }
}

#[test]
fn a_signal_while_a_kernel_is_fetched_ends_with_one_line_and_the_fetching_with_it() {
    skip_if!(skipped_for_lack_of(EMULATOR));
    for signal in [Signal::INT, Signal::TERM] {
        let lab = Lab::new();
        let apt = lab.at("apt");
        fs::create_dir(&apt).unwrap();
        for (name, script) in
            [("apt-cache", "echo linux-image-6.12.1-rt-amd64"), ("apt-get", "exec sleep 1000")]
        {
            fs::write(apt.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(apt.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", apt.display(), std::env::var("PATH").unwrap());
        let mut command = lab.command("debian-rt", &["--arch", "x86_64"]);
        let going = Going::run(lab.folder.path(), command.env("PATH", path));
        let mut fetching = None;
        wait_for("the fetching", || {
            let sleeps = |pid: &u32| {
                fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with("sleep"))
            };
            fetching = going.descendants().into_iter().find(sleeps);
            fetching.is_some()
        });
        going.signal(signal);
        let ran = going.end();
        let said = ran.stderr.lines().last().unwrap().to_string();
        assert_eq!(said, "isolator: cannot fetch a kernel: it was told to end; run it again");
        assert_eq!(ran.status, Some(1));
        assert!(!lives(fetching.unwrap()));
        lab.is_clean();
    }
}

#[test]
fn no_guest_outlives_a_program_that_is_killed() {
    skip_if!(skipped_for_lack_of(EMULATOR));
    let lab = Lab::new();
    let kernel = lab.kernel("hanging", &hanging());
    let going = Going::run(lab.folder.path(), &mut lab.command(&kernel, &["--arch", "x86_64"]));
    let emulator = emulator_of(&going);
    going.signal(Signal::KILL);
    assert_eq!(going.end().status, None);
    wait_for("the emulator's end", || !lives(emulator));
    lab.is_clean();
}

/// The emulator of a run, once it is one.
#[track_caller]
fn emulator_of(going: &Going) -> u32 {
    let mut found = None;
    wait_for("the emulator", || {
        // Not the one that is only asked for its version.
        let is = |pid: &u32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(EMULATOR) && line.contains("-kernel")
        };
        found = going.descendants().into_iter().find(is);
        found.is_some()
    });
    found.unwrap()
}

#[test]
#[ignore = "minutes: make proof-guests"]
fn a_panic_is_told_in_the_kernels_own_words() {
    let kernel = real_kernel();
    let missing = kernel.is_none() || !installed(EMULATOR);
    skip_if!(skipped(missing, "it needs qemu-system-x86_64 and a kernel that isolator lab run has fetched"));
    let lab = Lab::new();
    let kernel = kernel.unwrap().display().to_string();
    let release = kernel.split_once("vmlinuz-").unwrap().1;
    for (boot, panic) in [
        ("rdinit=/nonexistent", "VFS: Unable to mount root fs on unknown-block(0,0)"),
        // What lies there as init is an empty file.
        (
            "none",
            "No working init found. Try passing init= option to kernel. See Linux Documentation/admin-guide/init.rst for guidance.",
        ),
    ] {
        lab.run(&kernel, &["--arch", "x86_64", "--mode", "virtual", "--boot", boot]).refused(&format!(
            "cannot run a guest with {release}: its kernel panicked: {panic}; try isolator lab shell with the same kernel and boot line"
        ));
        lab.is_clean();
    }
}

/// A lab that has all its parts, and a kernel; `None`, with the reason printed, where some are missing.
fn whole_lab() -> Option<(Lab, String)> {
    let kernel = real_kernel();
    let parts = ["isolator-x86_64", "isolator-scope.so"].map(beside);
    let missing = kernel.is_none() || !installed(EMULATOR) || parts.iter().any(|part| !part.exists());
    if skipped(
        missing,
        "it needs qemu-system-x86_64, make guest, and a kernel that isolator lab run has fetched",
    ) {
        return None;
    }
    let lab = Lab::new();
    for part in parts {
        fs::copy(&part, lab.at(&part.file_name().unwrap().to_string_lossy())).unwrap();
    }
    Some((lab, kernel.unwrap().display().to_string()))
}

#[test]
#[ignore = "minutes: make proof-guests"]
fn a_guest_that_is_not_told_its_port_s_name_runs_again() {
    let Some((lab, kernel)) = whole_lab() else { return };
    // Gives the port another name, in the first guest only.
    let path = tool(
        lab.folder.path(),
        EMULATOR,
        "PATH=${PATH#*:}
        for word; do
            shift
            case $word in *,name=isolator) [ -e misnamed ] || word=${word}s misname=1 ;; esac
            set -- \"$@\" \"$word\"
        done
        [ -z \"$misname\" ] || touch misnamed
        exec qemu-system-x86_64 \"$@\"",
    );
    let how = ["--arch", "x86_64", "--mode", "virtual", "--duration", "1s", "--boot", "none"];
    let ran = Ran::from(lab.command(&kernel, &how).env("PATH", path).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("run the guest again: it was not told the name of its port"),
        "{}",
        ran.stderr
    );
}

#[test]
#[ignore = "minutes: make proof-guests"]
fn a_guest_without_a_console_is_told_and_one_whose_console_another_wants_is_not_lost() {
    let Some((lab, kernel)) = whole_lab() else { return };
    let release = kernel.split_once("vmlinuz-").unwrap().1;
    // On one host thread: with more, QEMU before 8 may run text that a stock kernel has patched, and lose the
    // guest.
    let how = ["--arch", "x86_64", "--mode", "virtual", "--duration", "1s", "--boot"];
    let run = |boot| lab.run(&kernel, &[&how[..], &[boot]].concat());
    run("8250.nr_uarts=0").refused(&format!(
        "cannot run a guest with {release}: it sent results but said nothing on its console; use a kernel that has the driver of ttyS0, and a boot line that leaves it on"
    ));
    lab.is_clean();
    run("console=null quiet").ended(0);
}
