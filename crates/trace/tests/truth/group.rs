// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control group of a program that is frozen, or whose real-time threads reach a limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A control group without members; it is removed in the end.
pub struct Group(PathBuf);

impl Group {
    /// The group that a plant needs; `None` where it needs none, and why it cannot be made here.
    pub fn of(plant: Option<&str>) -> Result<Option<Group>, String> {
        match plant {
            Some("freeze") => Group::new("freezer", &[], "freezer.state").map(Some),
            Some("freeze-2") => Group::new("cgroup2", &[], "cgroup.freeze").map(Some),
            // Less than the ticks between two plants, and more than the loop takes otherwise.
            Some("rt-limit") => {
                let limit = [("cpu.rt_period_us", "10000"), ("cpu.rt_runtime_us", "3000")];
                Group::new("cpu", &limit, "cpu.rt_runtime_us").map(Some)
            }
            _ => Ok(None),
        }
    }

    /// In the hierarchy of that controller, with these values.
    fn new(controller: &str, values: &[(&str, &str)], needed: &str) -> Result<Group, String> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(|why| format!("/proc/mounts: {why}"))?;
        let is_it = |words: &&[&str]| match words {
            [_, _, "cgroup", options, ..] => options.split(',').any(|option| option == controller),
            [_, _, kind, ..] => *kind == controller,
            _ => false,
        };
        let lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).collect::<Vec<_>>();
        let mount = lines.iter().map(Vec::as_slice).find(is_it);
        let mount = mount.ok_or(format!("no control groups with {controller} are mounted"))?[1];
        let folder = Path::new(mount).join(format!("isolator-trace-{}", std::process::id()));
        let why = |what: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", what.display());
        fs::create_dir(&folder).map_err(|error| why(&folder, &error))?;
        let group = Group(folder);
        if !group.0.join(needed).exists() {
            return Err(format!("control groups with {controller} have no {needed} on this kernel"));
        }
        for (name, value) in values {
            let file = group.0.join(name);
            fs::write(&file, value).map_err(|error| why(&file, &error))?;
        }
        Ok(group)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last member leaves it a moment after its end is known.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
