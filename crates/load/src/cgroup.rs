// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cgroup (version 2) of a load's own, so that one write kills whatever it became.
//!
//! Used where the hierarchy is mounted, ours to write and has `cgroup.kill` (Linux 5.14); never required: the
//! supervisor finds its descendants without it. No controller is touched. Reference: cgroups(7).
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// How the names of all loads' cgroups and folders begin.
pub const NAME: &str = "isolator-load-";

/// The folder of a cgroup named `name` below the one that this process is in; `None` where there is no
/// version 2 hierarchy in sight.
pub fn folder(name: &str) -> Option<PathBuf> {
    let own = untrusted::text("/proc/self/cgroup").ok()?;
    let mounts = untrusted::text("/proc/self/mountinfo").ok()?;
    Some(place(&own, &mounts)?.join(name))
}

/// Makes the cgroup; whether it can be used. Empty ones of our naming beside it go: they are of runs that
/// were killed with their supervisor. (One that is just being made by another run may go too: it is not
/// required.)
pub fn make(folder: &Path) -> bool {
    let beside = folder.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten().flatten();
    for entry in beside.filter(|entry| entry.file_name().to_string_lossy().starts_with(NAME)) {
        remove(&entry.path());
    }
    let usable = fs::create_dir(folder).is_ok() && untrusted::is_there(folder.join("cgroup.kill"));
    if !usable {
        let _ = fs::remove_dir(folder);
    }
    usable
}

/// Moves the calling process into the cgroup, if that is allowed.
pub fn enter(folder: &Path) {
    let _ = fs::write(folder.join("cgroup.procs"), "0");
}

/// Kills all processes in the cgroup, where there is one.
pub fn kill(folder: &Path) {
    let _ = fs::write(folder.join("cgroup.kill"), "1");
}

/// Removes the cgroup, which must be empty; there may be none.
pub fn remove(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

fn place(own: &str, mounts: &str) -> Option<PathBuf> {
    let below = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    if below.split('/').any(|part| part == "..") {
        return None;
    }
    let mount = mounts.lines().find_map(|line| {
        let (fields, file_system) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (file_system.starts_with("cgroup2 ") && root == "/").then_some(point)
    })?;
    Some(Path::new(mount).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "24 1 0:5 / /sys rw - sysfs sysfs rw\n\
        31 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        35 24 0:30 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_place_is_found_beside_version_1_hierarchies() {
        let own = "9:name=systemd:/x\n0::/user.slice/session-1.scope\n";
        let expected = "/sys/fs/cgroup/unified/user.slice/session-1.scope";
        assert_eq!(place(own, MOUNTS), Some(PathBuf::from(expected)));
    }

    #[test]
    fn no_place_is_guessed() {
        assert_eq!(place("9:cpu:/x\n", MOUNTS), None);
        assert_eq!(place("0::/\n", MOUNTS.lines().next().unwrap()), None);
        assert_eq!(place("0::/../elsewhere\n", MOUNTS), None);
    }
}
