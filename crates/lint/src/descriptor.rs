// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a process' descriptors (proc_pid_fd(5), proc_pid_fdinfo(5)).

use std::collections::HashMap;
use std::os::unix::fs::FileTypeExt;

/// The kind of file of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenOn {
    /// A file on a disk, or a disk, by its path.
    Disk(String),
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
    // Files in these folders are interfaces of the kernel.
    let is_kernels = ["/proc/", "/sys/", "/dev/hugepages/"].iter().any(|begin| target.starts_with(begin));
    match std::fs::metadata(&link).map(|metadata| metadata.file_type()) {
        Ok(kind) if !is_kernels && (kind.is_file() || kind.is_block_device()) => OpenOn::Disk(target),
        _ => OpenOn::Other,
    }
}

/// CLOCK_REALTIME is 0, CLOCK_REALTIME_ALARM 8.
fn is_real_time(line: &str) -> bool {
    line.strip_prefix("clockid:").is_some_and(|clock| ["0", "8"].contains(&clock.trim()))
}
