// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a process' descriptors (proc_pid_fd(5), proc_pid_fdinfo(5)).

use std::collections::HashMap;
use std::os::unix::fs::FileTypeExt;

use rustix::fs::statfs;

/// The file systems of [`OpenOn::Interface`] (include/uapi/linux/magic.h).
const INTERFACES: [(u64, &str); 14] = [
    (0x9fa0, "procfs"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6265_6570, "configfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x0765_5821, "resctrl"),
    (0x6165_676c, "pstore"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
];

/// Of huge pages, which are memory.
const HUGETLBFS: u64 = 0x9584_58f6;

/// Files of tracefs whose writes neither take a lock nor sleep.
const MARKERS: [&str; 2] = ["/trace_marker", "/trace_marker_raw"];

/// The kind of file of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenOn {
    /// A file on a disk, or a disk, by its path.
    Disk(String),
    /// A file in which the kernel shows itself, by its path: sysfs, procfs, debugfs, a control group.
    Interface(String),
    /// A terminal, by its path.
    Terminal(String),
    /// A timer of CLOCK_REALTIME.
    SettableTimer,
    /// Any other: a pipe, a socket, a device.
    Other,
}

/// The descriptors of a process, each read once.
#[derive(Debug)]
pub struct Descriptors {
    process: u32,
    known: HashMap<u32, OpenOn>,
}

impl Descriptors {
    /// Of a process.
    pub fn of(process: u32) -> Descriptors {
        Descriptors { process, known: HashMap::new() }
    }

    /// The kind of file of a descriptor.
    pub fn get(&mut self, descriptor: u64) -> OpenOn {
        let Ok(descriptor) = u32::try_from(descriptor) else { return OpenOn::Other };
        let process = self.process;
        self.known.entry(descriptor).or_insert_with(|| look(process, descriptor)).clone()
    }
}

fn look(process: u32, descriptor: u32) -> OpenOn {
    let link = format!("/proc/{process}/fd/{descriptor}");
    let Ok(target) = std::fs::read_link(&link) else { return OpenOn::Other };
    let target = target.to_string_lossy().into_owned();
    if target.contains("[timerfd]") {
        let about = untrusted::text(format!("/proc/{process}/fdinfo/{descriptor}"));
        let is_settable = about.unwrap_or_default().lines().any(is_real_time);
        return if is_settable { OpenOn::SettableTimer } else { OpenOn::Other };
    }
    if ["/dev/tty", "/dev/pts/", "/dev/console", "/dev/kmsg"].iter().any(|begin| target.starts_with(begin)) {
        return OpenOn::Terminal(target);
    }
    let Ok(kind) = std::fs::metadata(&link).map(|metadata| metadata.file_type()) else {
        return OpenOn::Other;
    };
    if kind.is_block_device() {
        return OpenOn::Disk(target);
    }
    let system = statfs(&link).map(|found| found.f_type as u64);
    match system {
        Ok(system) if kind.is_file() && system != HUGETLBFS => {
            if !INTERFACES.iter().any(|(known, _)| *known == system) {
                OpenOn::Disk(target)
            } else if MARKERS.iter().any(|end| target.ends_with(end)) {
                OpenOn::Other
            } else {
                OpenOn::Interface(target)
            }
        }
        _ => OpenOn::Other,
    }
}

/// CLOCK_REALTIME is 0, CLOCK_REALTIME_ALARM 8.
fn is_real_time(line: &str) -> bool {
    line.strip_prefix("clockid:").is_some_and(|clock| ["0", "8"].contains(&clock.trim()))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsRawFd;

    use super::*;

    fn kind(file: &File) -> &'static str {
        let descriptor = u64::try_from(file.as_raw_fd()).unwrap();
        match Descriptors::of(std::process::id()).get(descriptor) {
            OpenOn::Disk(_) => "disk",
            OpenOn::Interface(_) => "interface",
            OpenOn::Terminal(_) => "terminal",
            OpenOn::SettableTimer => "timer",
            OpenOn::Other => "other",
        }
    }

    #[test]
    fn files_of_the_kernel_are_its_interfaces() {
        for (path, expected) in [
            ("/proc/self/stat", "interface"),
            ("/proc/sys/kernel/ostype", "interface"),
            ("/sys/devices/system/cpu/online", "interface"),
            ("/sys/fs/cgroup/cgroup.procs", "interface"),
            ("/sys/fs/cgroup/cpu/cgroup.procs", "interface"),
            ("/sys/kernel/debug/sleep_time", "interface"),
            ("/sys/kernel/tracing/tracing_on", "interface"),
            ("/dev/null", "other"),
            ("/dev/zero", "other"),
            ("/proc/self/exe", "disk"),
        ] {
            if let Ok(file) = File::open(path) {
                assert_eq!(kind(&file), expected, "{path}");
            }
        }
        if let Ok(marker) = OpenOptions::new().write(true).open("/sys/kernel/tracing/trace_marker") {
            assert_eq!(kind(&marker), "other");
        }
    }
}
