// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which collectors a kernel may run. A kernel that has oopsed runs none that reaches into it. No
//! version is too new: a collector must pass its trial before use (`trial`), and is stopped if the kernel
//! complained meanwhile.

use std::path::Path;

use machine::sight::{self, CAUSES_BY_BPF, OOPSED};
use rustix::thread::{CapabilitySet, capabilities};

use crate::{Error, Result};

/// Bits of the kernel's taint besides [`OOPSED`]: a warning; a soft lockup.
const WARNED: u64 = 1 << 9;
const LOCKED_UP: u64 = 1 << 14;

/// Whether BPF may be loaded.
pub fn bpf(root: &Path) -> Result<()> {
    let refuse = |why: String, cure: &str| Err(Error::new("watch with bpf", why, cure));
    healthy(root, "watch with bpf")?;
    let release = text(root, "proc/sys/kernel/osrelease");
    let Some(version) = version(&release) else {
        return refuse("the version of this kernel cannot be read".into(), "use --causes counters");
    };
    if version < CAUSES_BY_BPF {
        let (major, minor) = CAUSES_BY_BPF;
        let why = format!("this kernel is {release}; BPF needs {major}.{minor} or later");
        return refuse(why, "use --causes tracefs or counters");
    }
    if sight::is_confidential(&text(root, sight::LOCKDOWN)) {
        return refuse("the kernel is locked down (confidentiality)".into(), "use --causes counters");
    }
    Ok(())
}

/// Whether trace events may be switched on.
pub fn tracefs(root: &Path) -> Result<()> {
    healthy(root, "watch with tracefs")
}

/// The capabilities without which no BPF program of ours is loaded.
const NEEDED: [(&str, CapabilitySet); 2] =
    [("CAP_BPF", CapabilitySet::BPF), ("CAP_PERFMON", CapabilitySet::PERFMON)];

/// The cure where they are missing; the same where counters would do.
pub const BPF_RIGHTS: &str = "run as root, or with CAP_BPF and CAP_PERFMON";
pub(crate) const BPF_RIGHTS_OR_COUNTERS: &str =
    "run as root, or with CAP_BPF and CAP_PERFMON, or use --causes counters";

/// The cures for a kernel without BTF: the check of doctor names the package or the option for this machine.
pub const WITH_BTF: &str =
    "give its types by --btf, or boot a kernel with CONFIG_DEBUG_INFO_BTF (isolator doctor --only see)";
pub(crate) const WITH_BTF_OR_OTHERS: &str = "give its types by --btf, use --causes tracefs or counters, \
    or boot a kernel with CONFIG_DEBUG_INFO_BTF (isolator doctor --only see)";

/// Refuses if this process may not load BPF programs, and names the missing capabilities (capabilities(7)).
/// If they cannot be read, loading fails later with the kernel's error.
pub fn may_load(what: &'static str, cure: &str) -> Result<()> {
    let has = capabilities(None).map_or(CapabilitySet::all(), |sets| sets.effective);
    if has.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(());
    }
    let lacks = NEEDED.iter().filter(|(_, one)| !has.contains(*one)).map(|(name, _)| *name);
    match lacks.collect::<Vec<_>>()[..] {
        [] => Ok(()),
        ref names => Err(Error::new(what, format!("this process lacks {}", names.join(" and ")), cure)),
    }
}

/// Refuses a kernel that has oopsed.
pub fn healthy(root: &Path, what: &'static str) -> Result<()> {
    if taint(root) & OOPSED == 0 {
        return Ok(());
    }
    let why = "this kernel has oopsed since it was booted (/proc/sys/kernel/tainted)";
    Err(Error::new(what, why, "boot it again, or use --causes counters"))
}

/// The kernel's taint bits; 0 if they cannot be read.
pub fn taint(root: &Path) -> u64 {
    sight::taint(&text(root, sight::TAINTED))
}

/// Refuses if the kernel has complained since its taint was `before`.
pub fn unharmed(root: &Path, what: &'static str, before: u64) -> Result<()> {
    let new = taint(root) & !before;
    let complaint = [(OOPSED, "oopsed"), (WARNED, "warned"), (LOCKED_UP, "got stuck on a CPU")];
    let Some((_, did)) = complaint.iter().find(|(bit, _)| new & bit != 0) else { return Ok(()) };
    let why = format!("the kernel {did} during the trial of the collector, which was stopped (see dmesg)");
    Err(Error::new(what, why, "report this with the kernel's log, and use --causes counters"))
}

fn text(root: &Path, path: &str) -> String {
    untrusted::text(root.join(path.trim_start_matches('/'))).unwrap_or_default().trim().to_string()
}

/// `6.12.117+deb12-rt-amd64` is 6.12.
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_cure_names_the_capabilities_that_are_needed() {
        for cure in [BPF_RIGHTS, BPF_RIGHTS_OR_COUNTERS] {
            let named = cure.split([' ', ',']).filter(|word| word.starts_with("CAP_")).collect::<Vec<_>>();
            assert_eq!(named, NEEDED.map(|(name, _)| name), "{cure}");
        }
    }

    fn machine(release: &str, tainted: &str, lockdown: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/kernel/osrelease", release),
            ("proc/sys/kernel/tainted", tainted),
            ("sys/kernel/security/lockdown", lockdown),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn allowed(release: &str, tainted: &str) -> bool {
        bpf(machine(release, tainted, "[none] integrity confidentiality\n").path()).is_ok()
    }

    #[test]
    fn allows_bpf_from_the_oldest_version_on() {
        assert!(allowed("6.12.117+deb12-rt-amd64\n", "0\n"));
        assert!(allowed("5.15.0\n", "0\n"));
        assert!(allowed("99.1.0\n", "0\n"));
        assert!(!allowed("5.10.0-1-rt\n", "0\n"));
        assert!(!allowed("", "0\n"));
    }

    #[test]
    fn refuses_collectors_after_an_oops() {
        assert!(!allowed("6.12.117\n", "128\n"));
        assert!(!allowed("6.12.117\n", "12416\n"));
        assert!(allowed("6.12.117\n", "4096\n"));
        let tracefs = |tainted| tracefs(machine("99.1.0\n", tainted, "[none]\n").path());
        assert_eq!([tracefs("0\n").is_ok(), tracefs("128\n").is_ok()], [true, false]);
    }

    #[test]
    fn a_complaint_during_the_trial_stops_the_collector() {
        let after = |tainted| unharmed(machine("7.2.13\n", tainted, "").path(), "watch with bpf", 4096);
        assert_eq!([after("4096\n").is_ok(), after("4097\n").is_ok()], [true, true]);
        assert_eq!(
            after("4608\n").unwrap_err().to_string(),
            "cannot watch with bpf: the kernel warned during the trial of the collector, which was stopped (see dmesg); report this with the kernel's log, and use --causes counters"
        );
        assert!(after("4224\n").unwrap_err().to_string().contains("the kernel oopsed"));
        // It had warned before.
        let before = |tainted| unharmed(machine("7.2.13\n", tainted, "").path(), "watch with bpf", 512);
        assert!(before("512\n").is_ok());
    }

    #[test]
    fn refuses_bpf_on_a_locked_down_kernel() {
        let root = machine("6.12.1\n", "0\n", "none integrity [confidentiality]\n");
        let said = bpf(root.path()).unwrap_err().to_string();
        assert_eq!(
            said,
            "cannot watch with bpf: the kernel is locked down (confidentiality); use --causes counters"
        );
    }
}
