// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which collectors a kernel gets. One that watches must not break what it watches: a collector is chosen by
//! itself only on kernels like those on which it was proven in a guest, and none that reaches into the kernel
//! on one that has oopsed.

use std::fs;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use crate::{Error, Result};

/// The newest kernel on which the collectors were switched on and read in guests.
pub const PROVEN: (u32, u32) = (6, 12);

/// The oldest that has what the BPF part is made of: fetch-and-add (5.12).
const OLDEST: (u32, u32) = (5, 12);

/// Bit 7 of the kernel's taint: it has oopsed, or a BUG was met.
const DIED: u64 = 1 << 7;

/// Whether BPF may be loaded; `asked` says that the user named it.
pub fn bpf(root: &Path, asked: bool) -> Result<()> {
    let refuse = |why: String, cure: &str| Err(Error::new("watch with bpf", why, cure));
    healthy(root, "watch with bpf")?;
    let (release, version) = kernel(root, "watch with bpf")?;
    if version < OLDEST {
        let why = format!("this kernel is {release}, and 5.12 is the oldest that can do it");
        return refuse(why, "use --causes tracefs or counters");
    }
    if !asked && version > PROVEN {
        return refuse(newer(&release), "ask for it with --causes bpf");
    }
    let lockdown = text(root, "sys/kernel/security/lockdown");
    if lockdown.contains("[confidentiality]") {
        return refuse("the kernel is locked down (confidentiality)".into(), "use --causes counters");
    }
    Ok(())
}

/// Whether trace events may be switched on; `asked` says that the user named them.
pub fn tracefs(root: &Path, asked: bool) -> Result<()> {
    let what = "watch with tracefs";
    healthy(root, what)?;
    let (release, version) = kernel(root, what)?;
    match !asked && version > PROVEN {
        true => Err(Error::new(what, newer(&release), "ask for it with --causes tracefs")),
        false => Ok(()),
    }
}

/// The kernel's release, and its version.
fn kernel(root: &Path, what: &'static str) -> Result<(String, (u32, u32))> {
    let release = text(root, "proc/sys/kernel/osrelease");
    let unknown = || Error::new(what, "this kernel does not tell its version", "use --causes counters");
    let version = version(&release).ok_or_else(unknown)?;
    Ok((release, version))
}

fn newer(release: &str) -> String {
    let (major, minor) = PROVEN;
    format!("this kernel is {release}, and {major}.{minor} is the newest on which it was proven")
}

/// Whether this user may load programs into the kernel; without that there are counters only.
pub fn may_load() -> Result<()> {
    let sets = capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    let bpf = CapabilitySet::BPF | CapabilitySet::PERFMON;
    if sets.contains(CapabilitySet::SYS_ADMIN) || sets.contains(bpf) {
        return Ok(());
    }
    let why = "that needs root, or CAP_BPF and CAP_PERFMON; root would see every interruption with its time and sender";
    Err(Error::new("watch with bpf", why, "run as root, or use --causes counters"))
}

/// Refuses a kernel that has oopsed.
pub fn healthy(root: &Path, what: &'static str) -> Result<()> {
    let taint = text(root, "proc/sys/kernel/tainted").parse::<u64>().unwrap_or(0);
    if taint & DIED == 0 {
        return Ok(());
    }
    let why = "this kernel has oopsed since it was booted (/proc/sys/kernel/tainted)";
    Err(Error::new(what, why, "boot it again, or use --causes counters"))
}

fn text(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap_or_default().trim().to_string()
}

/// `6.12.117+deb12-rt-amd64` is 6.12.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn allowed(release: &str, tainted: &str, asked: bool) -> bool {
        bpf(machine(release, tainted, "[none] integrity confidentiality\n").path(), asked).is_ok()
    }

    #[test]
    fn bpf_comes_by_itself_only_where_it_was_proven() {
        assert!(allowed("6.12.117+deb12-rt-amd64\n", "0\n", false));
        assert!(allowed("5.15.0\n", "0\n", false));
        assert!(!allowed("99.1.0\n", "0\n", false));
        assert!(allowed("99.1.0\n", "0\n", true));
        assert!(!allowed("5.10.0-1-rt\n", "0\n", true));
        assert!(!allowed("", "0\n", true));
    }

    #[test]
    fn a_kernel_that_has_oopsed_gets_no_bpf_however_asked() {
        assert!(!allowed("6.12.117\n", "128\n", true));
        assert!(!allowed("6.12.117\n", "12416\n", true));
        assert!(allowed("6.12.117\n", "4096\n", false));
    }

    #[test]
    fn trace_events_come_by_themselves_only_where_they_were_proven() {
        let allowed = |release: &str, asked| {
            let root = machine(release, "0\n", "[none]\n");
            tracefs(root.path(), asked).is_ok()
        };
        assert_eq!([true, false].map(|asked| allowed("6.12.117\n", asked)), [true, true]);
        assert_eq!([true, false].map(|asked| allowed("99.1.0\n", asked)), [true, false]);
        assert!(!allowed("", true));
        let oopsed = machine("6.12.117\n", "128\n", "[none]\n");
        assert!(tracefs(oopsed.path(), true).is_err());
    }

    #[test]
    fn a_kernel_that_is_locked_down_gets_no_bpf() {
        let root = machine("6.12.1\n", "0\n", "none integrity [confidentiality]\n");
        let said = bpf(root.path(), true).unwrap_err().to_string();
        assert_eq!(
            said,
            "cannot watch with bpf: the kernel is locked down (confidentiality); use --causes counters"
        );
    }
}
