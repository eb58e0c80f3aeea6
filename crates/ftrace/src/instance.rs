// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tracing instance that is removed with its value; and the removal of instances that killed processes
//! left.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{ByteOrder, Error, Format, Result};

/// The format of our instances' names: `isolator-PID-STARTED-NUMBER-WHAT`.
const OURS: &str = "isolator-";

/// The suffix of an instance that runs osnoise with its workload switched off by us.
pub const WITHOUT_WORKLOAD: &str = "osnoise";

/// Options of the osnoise tracer, which all instances share.
pub const OSNOISE_OPTIONS: &str = "osnoise/options";

/// The number of instances that this process made, so that its collectors have different names.
static MADE: AtomicU32 = AtomicU32::new(0);

const WHAT: &str = "watch with tracefs";

/// The mount point of tracefs.
pub fn folder(root: &Path) -> Result<PathBuf> {
    let at = ["sys/kernel/tracing", "sys/kernel/debug/tracing"].map(|path| root.join(path));
    let found = at.into_iter().find(|folder| folder.join("instances").is_dir());
    found.ok_or_else(|| {
        let why = "no tracefs is mounted, or this user may not read it";
        let cure = "run as root, and mount it with: mount -t tracefs tracefs /sys/kernel/tracing";
        Error::new("watch with tracefs", why, cure)
    })
}

/// The format of an event, below tracefs or an instance; `None` where the kernel has none.
pub fn format(folder: &Path, event: &str) -> Option<Format> {
    let text = untrusted::text(folder.join("events").join(event).join("format")).ok()?;
    Format::parse(&text, ByteOrder::NATIVE)
}

/// An instance.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    /// `trace_pipe_raw` of each CPU.
    pipes: Vec<(u32, File)>,
}

impl Instance {
    /// Makes an instance of that name below `tracing`. `prepare` may write to it before its buffers are
    /// opened: after that the kernel refuses to change its tracer.
    pub fn make(
        tracing: &Path,
        name: &str,
        prepare: impl FnOnce(&Instance) -> Result<()>,
    ) -> Result<Instance> {
        let own = std::process::id();
        let started = started(own).unwrap_or(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = tracing.join("instances").join(format!("{OURS}{own}-{started}-{number}-{name}"));
        let refused = |error: std::io::Error| {
            let cure = "run as root, or use --causes counters";
            Error::new(WHAT, format!("{}: {error}", folder.display()), cure)
        };
        fs::create_dir(&folder).map_err(refused)?;
        let mut instance = Instance { folder: folder.clone(), pipes: Vec::new() };
        prepare(&instance)?;
        for entry in fs::read_dir(folder.join("per_cpu")).map_err(refused)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(cpu) = name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) else { continue };
            let mut open = OpenOptions::new();
            open.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
            instance.pipes.push((cpu, open.open(entry.path().join("trace_pipe_raw")).map_err(refused)?));
        }
        Ok(instance)
    }

    /// Writes to one of its files.
    pub fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).map_err(|error| {
            Error::new(WHAT, format!("{}: {error}", path.display()), "use --causes counters")
        })
    }

    /// Reads one of its files.
    pub fn read(&self, file: &str) -> std::io::Result<String> {
        untrusted::text(self.folder.join(file))
    }

    /// From now on the kernel records its stack at an event where `field` is one of these threads and another
    /// thread has the CPU. Stacks of all would be too expensive.
    pub fn take_stacks_at(&self, event: &str, field: &str, threads: &[u32]) -> Result<()> {
        let trigger = format!("events/{event}/trigger");
        // The idle thread is never woken: with this filter the event can be read, and no stack is taken.
        let threads = if threads.is_empty() { &[0] } else { threads };
        let one_of = threads.iter().map(|thread| format!("{field}=={thread}")).collect::<Vec<_>>().join("||");
        if self.read(&trigger).is_ok_and(|text| text.starts_with("stacktrace")) {
            self.write(&trigger, "!stacktrace")?;
        }
        self.write(&trigger, &format!("stacktrace if common_pid!=0&&({one_of})"))
    }

    /// The format of an event in it.
    pub fn format(&self, event: &str) -> Option<Format> {
        format(&self.folder, event)
    }

    /// The CPUs with a buffer in it.
    pub fn cpus(&self) -> Vec<u32> {
        self.pipes.iter().map(|(cpu, _)| *cpu).collect()
    }

    /// Takes its records of a CPU, page by page.
    pub fn take(&mut self, cpu: u32) -> Result<Vec<Vec<u8>>> {
        let Some((_, pipe)) = self.pipes.iter_mut().find(|(of, _)| *of == cpu) else { return Ok(Vec::new()) };
        let (mut pages, mut page) = (Vec::new(), vec![0; rustix::param::page_size()]);
        loop {
            match pipe.read(&mut page) {
                Ok(0) => return Ok(pages),
                Ok(length) => pages.push(page[..length].to_vec()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(pages),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let why = format!("{}: {error}", self.folder.display());
                    return Err(Error::new("read what tracefs collected", why, "report this as a defect"));
                }
            }
        }
    }

    /// The number of a CPU's events that were overwritten before they were read.
    pub fn overwritten(&self, cpu: u32) -> u64 {
        let stats = self.read(&format!("per_cpu/cpu{cpu}/stats")).unwrap_or_default();
        let overrun = stats.lines().find_map(|line| line.strip_prefix("overrun:"));
        overrun.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.pipes.clear();
        remove(&self.folder);
    }
}

/// Removes an instance, and restores the global options that it changed. If that fails, the next start does
/// it.
fn remove(folder: &Path) {
    let is_without = folder.to_string_lossy().ends_with(WITHOUT_WORKLOAD);
    if fs::remove_dir(folder).is_ok()
        && is_without
        && let Some(tracing) = folder.parent().and_then(Path::parent)
    {
        let _ = fs::write(tracing.join(OSNOISE_OPTIONS), "OSNOISE_WORKLOAD");
    }
}

/// Removes instances whose process is gone.
pub fn remove_leftovers(tracing: &Path) {
    for entry in fs::read_dir(tracing.join("instances")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_leftover(&name, started) {
            remove(&entry.path());
        }
    }
}

/// Whether an instance of that name is ours and its process is gone. A process number can be used again, but
/// not with the same start time.
fn is_leftover(name: &str, started: impl Fn(u32) -> Option<u64>) -> bool {
    let Some(rest) = name.strip_prefix(OURS) else { return false };
    let mut parts = rest.splitn(3, '-');
    let pid = parts.next().and_then(|pid| pid.parse::<u32>().ok());
    let since = parts.next().and_then(|since| since.parse::<u64>().ok());
    match (pid, since) {
        (Some(pid), Some(since)) => started(pid) != Some(since),
        _ => false,
    }
}

/// The start time of a process, in the kernel's ticks since boot.
fn started(pid: u32) -> Option<u64> {
    // A process may have a name that is not UTF-8.
    let stat = untrusted::bytes(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_instances_of_dead_processes_are_left_over() {
        let started = |pid| (pid == 7).then_some(100);
        assert!(!is_leftover("isolator-7-100-0-here", started));
        assert!(is_leftover("isolator-7-99-0-here", started), "another process has that number");
        assert!(is_leftover("isolator-8-100-3-sent", started));
        assert!(!is_leftover("isolator-lab", started));
        assert!(!is_leftover("another program-8-100-here", started));
    }

    #[test]
    fn removing_the_tracer_restores_its_options() {
        let tracing = tempfile::tempdir().unwrap();
        let options = tracing.path().join(OSNOISE_OPTIONS);
        fs::create_dir_all(options.parent().unwrap()).unwrap();
        for (name, left) in [("here", "as it was"), (WITHOUT_WORKLOAD, "OSNOISE_WORKLOAD")] {
            fs::write(&options, "as it was").unwrap();
            let folder = tracing.path().join(format!("instances/isolator-1-0-0-{name}"));
            fs::create_dir_all(&folder).unwrap();
            remove_leftovers(tracing.path());
            assert_eq!((folder.exists(), fs::read_to_string(&options).unwrap().as_str()), (false, left));
        }
    }

    #[test]
    fn this_process_has_been_started() {
        assert!(started(std::process::id()).is_some());
    }
}
