// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limits of this process' control group: CPUs, a quota of CPU time, real-time runtime.
//!
//! Version 2 is one tree, at `/sys/fs/cgroup` or, beside version 1, at `/sys/fs/cgroup/unified`; version 1
//! has a tree per controller. A limit may stand anywhere between the group and the root, and a container
//! that keeps the host's names sees its own group mounted as the root; so we look at each step upwards that
//! exists.

use std::collections::BTreeMap;
use std::path::Path;

use crate::tree::Tree;
use machine::snapshot::Cgroup;

/// Deepest path that is walked.
const DEPTH: usize = 32;

pub(crate) fn read(tree: &mut Tree) -> Cgroup {
    let membership = tree.text("proc/self/cgroup").unwrap_or_default();
    let unified = path_of(&membership, None);
    let cpu = path_of(&membership, Some("cpu"));
    let cpuset = path_of(&membership, Some("cpuset"));
    let in_unified = steps(unified_mount(tree), unified);
    let in_cpu = steps("sys/fs/cgroup/cpu", cpu);
    let in_cpuset = steps("sys/fs/cgroup/cpuset", cpuset);
    let cpus = in_unified.iter().map(|step| format!("{step}/cpuset.cpus.effective"));
    let cpus = cpus.chain(in_cpuset.iter().map(|step| format!("{step}/cpuset.effective_cpus")));
    let quotas = in_unified.iter().map(|step| quota(tree, step)).collect::<Vec<_>>();
    let quotas_1 = in_cpu.iter().map(|step| quota_version_1(tree, step)).collect::<Vec<_>>();
    let tightest = quotas.into_iter().chain(quotas_1).flatten().min_by(|(a, in_a), (b, in_b)| {
        (u128::from(*a) * u128::from(*in_b)).cmp(&(u128::from(*b) * u128::from(*in_a)))
    });
    Cgroup {
        path: unified.filter(|path| *path != "/").or(cpu).or(unified).map(str::to_string),
        cpus: cpus.collect::<Vec<_>>().iter().find_map(|path| tree.cpus(path)),
        quota_us: tightest.map(|(quota, _)| quota),
        quota_period_us: tightest.map(|(_, period)| period),
        rt_runtime_us: in_cpu.iter().find_map(|step| tree.number(&format!("{step}/cpu.rt_runtime_us"))),
    }
}

/// How often, and for how long in all, a control group's quota has stopped its ordinary tasks since the group
/// was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stops {
    /// Periods in which it was stopped.
    pub times: u64,
    /// For how long, added up over CPUs.
    pub length_ns: u64,
}

/// The stops of each control group that a task is in, by the group's folder; `membership` is the task's
/// `cgroup` file.
pub fn stops(membership: &str) -> BTreeMap<String, Stops> {
    stops_in(&Tree::new(Path::new("/")), membership)
}

fn stops_in(tree: &Tree, membership: &str) -> BTreeMap<String, Stops> {
    let groups = [(unified_mount(tree), None), ("sys/fs/cgroup/cpu", Some("cpu"))];
    let folders = groups.into_iter().flat_map(|(mount, name)| steps(mount, path_of(membership, name)));
    folders.filter_map(|folder| Some((format!("/{folder}"), stops_of(tree, &folder)?))).collect()
}

/// Version 2 counts in microseconds, version 1 in nanoseconds; groups without a quota may tell nothing.
fn stops_of(tree: &Tree, folder: &str) -> Option<Stops> {
    let text = tree.hint(&format!("{folder}/cpu.stat"))?;
    let figure = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let us = figure("throttled_usec").map(|us| us.saturating_mul(1000));
    let length_ns = us.or(figure("throttled_time")).unwrap_or(0);
    Some(Stops { times: figure("nr_throttled")?, length_ns })
}

fn unified_mount(tree: &Tree) -> &'static str {
    if tree.exists("sys/fs/cgroup/cgroup.controllers") { "sys/fs/cgroup" } else { "sys/fs/cgroup/unified" }
}

/// The path in the tree of `controller`, `None` being version 2's; lines are `number:controllers:path`.
fn path_of<'a>(membership: &'a str, controller: Option<&str>) -> Option<&'a str> {
    membership.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let here = match controller {
            None => number == "0" && controllers.is_empty(),
            Some(name) => controllers.split(',').any(|controller| controller == name),
        };
        here.then_some(path)
    })
}

/// The folder of `path` below `mount`, then its parents, the mount last; none without a path.
fn steps(mount: &str, path: Option<&str>) -> Vec<String> {
    let Some(path) = path else { return Vec::new() };
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).take(DEPTH).collect();
    // A group outside of our cgroup namespace is named by `..` and is not mounted.
    if names.contains(&"..") {
        names.clear();
    }
    (0..=names.len()).rev().map(|count| [&[mount], &names[..count]].concat().join("/")).collect()
}

/// `cpu.max` is `QUOTA PERIOD` or `max PERIOD`.
fn quota(tree: &mut Tree, step: &str) -> Option<(u64, u64)> {
    let text = tree.text(&format!("{step}/cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok()?))
}

fn quota_version_1(tree: &mut Tree, step: &str) -> Option<(u64, u64)> {
    let quota: i64 = tree.number(&format!("{step}/cpu.cfs_quota_us"))?;
    Some((u64::try_from(quota).ok()?, tree.number(&format!("{step}/cpu.cfs_period_us"))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    fn cgroup(files: &[(&str, &str)]) -> Cgroup {
        read(&mut made_of(files).1)
    }

    #[test]
    fn takes_the_tightest_quota_on_the_way_up_and_the_nearest_cpus() {
        let seen = cgroup(&[
            ("proc/self/cgroup", "0::/user.slice/run.scope\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
            ("sys/fs/cgroup/user.slice/run.scope/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/cpu.max", "40000 20000\n"),
            ("sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-3\n"),
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
        ]);
        assert_eq!(seen.path.as_deref(), Some("/user.slice/run.scope"));
        assert_eq!((seen.quota_us, seen.quota_period_us), (Some(150_000), Some(100_000)));
        assert_eq!(seen.cpus.unwrap().to_string(), "0-3");
        assert_eq!(seen.rt_runtime_us, None);
    }

    #[test]
    fn reads_version_1_where_a_container_mounts_its_own_group_as_the_root() {
        let seen = cgroup(&[
            ("proc/self/cgroup", "4:cpuset:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n"),
            ("sys/fs/cgroup/cpu/cpu.rt_runtime_us", "0\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "2-3\n"),
        ]);
        assert_eq!(seen.path.as_deref(), Some("/docker/0123"));
        assert_eq!(seen.rt_runtime_us, Some(0));
        assert_eq!(seen.quota_us, None);
        assert_eq!(seen.cpus.unwrap().to_string(), "2-3");
    }

    #[test]
    fn stops_of_every_group_on_the_way_up_are_read() {
        let (_folder, tree) = made_of(&[
            ("sys/fs/cgroup/unified/cgroup.controllers", "cpu\n"),
            ("sys/fs/cgroup/unified/a/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 70\n"),
            ("sys/fs/cgroup/unified/cpu.stat", "usage_usec 9\n"),
            ("sys/fs/cgroup/cpu/b/c/cpu.stat", "nr_periods 8\nnr_throttled 5\nthrottled_time 4000\n"),
            ("sys/fs/cgroup/cpu/b/cpu.stat", "nr_periods 8\nnr_throttled 0\nthrottled_time 0\n"),
        ]);
        let stop = |times, length_ns| Stops { times, length_ns };
        let found = stops_in(&tree, "4:cpu,cpuacct:/b/c\n0::/a\n");
        let found = found.iter().map(|(folder, stops)| (folder.as_str(), *stops)).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                ("/sys/fs/cgroup/cpu/b", stop(0, 0)),
                ("/sys/fs/cgroup/cpu/b/c", stop(5, 4000)),
                ("/sys/fs/cgroup/unified/a", stop(3, 70_000)),
            ]
        );
    }

    #[test]
    fn absurd_memberships_lead_nowhere() {
        let deep = format!("0::{}\n", "/x".repeat(5000));
        for membership in ["", "0::", "nonsense", "0::/../../../etc", "::::", &deep] {
            let seen =
                cgroup(&[("proc/self/cgroup", membership), ("etc/cpu.max", "1 2"), ("cpu.max", "1 2")]);
            assert_eq!((seen.quota_us, seen.cpus), (None, None), "{membership}");
        }
    }
}
